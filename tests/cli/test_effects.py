"""The declaration of what commands change, against the commands; and what `--dry-run` leaves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import Result
from support.compute_world import own_key, simulated_prime
from typer.testing import CliRunner

from hudtui.cli.app import build
from hudtui.cli.effects import EFFECTS, JUDGES, READ_ONLY, leaves, takes
from hudtui.core.compute.pods import Ledger
from hudtui.sim import PrimeSimulator

ROOT = Path(__file__).parents[2]
COMMANDS: dict[str, Any] = dict(leaves(typer.main.get_command(build())))
AGENTS = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")


def hudtui(*words: str) -> Result:
    return CliRunner().invoke(build(), list(words))


def test_every_command_is_declared_once() -> None:
    assert not set(EFFECTS) & set(READ_ONLY)
    assert {*EFFECTS, *READ_ONLY} == set(COMMANDS)


def test_a_reason_stands_where_an_option_is_missing_and_nowhere_else() -> None:
    for words, command in COMMANDS.items():
        assert takes(command, "--json") != bool(READ_ONLY.get(words)), f"--json of {words}"
    for words, effect in EFFECTS.items():
        assert takes(COMMANDS[words], "--dry-run") != bool(effect.no_dry_run), words


def test_what_costs_money_asks_or_is_a_model_that_somebody_named() -> None:
    for words, effect in EFFECTS.items():
        if effect.costs.startswith("the machine"):
            assert takes(COMMANDS[words], "--yes") and takes(COMMANDS[words], "--dry-run"), words
        elif effect.costs not in ("", JUDGES):
            assert takes(COMMANDS[words], "--base-url"), words


def test_what_is_pushed_is_asked_about() -> None:
    pushing = {words for words, effect in EFFECTS.items() if "to the Hub" in effect.changes}
    assert pushing == {"hf", "tasks push", "runs export"}
    assert all(takes(COMMANDS[words], "--yes") for words in pushing)


def test_help_says_what_may_cost_money() -> None:
    for words, effect in EFFECTS.items():
        told = hudtui(*words.split(), "--help").stdout
        assert ("May cost money" in told) == bool(effect.costs), words
    assert (
        "May cost money: the machine, until it is ended." in hudtui("pods", "create", "-h").stdout
    )


def test_what_plays_or_tests_tasks_may_pay_their_judges() -> None:
    paying = {words for words, effect in EFFECTS.items() if effect.costs.endswith(JUDGES)}
    playing = {words for words, effect in EFFECTS.items() if re.search("play|evaluat", str(effect))}
    assert playing <= paying and {"rl", "art train", "runs rerun", "env serve"} < paying


def test_the_page_for_agents_names_what_costs_money() -> None:
    rule = AGENTS[AGENTS.index("1. **Spend") : AGENTS.index("2. **Show")]
    named = set(re.findall(r"`hudtui ([a-z ]+)`", rule))
    assert named == {words for words, effect in EFFECTS.items() if effect.costs}


def test_the_page_for_agents_shows_commands_as_they_are() -> None:
    for block in re.findall(r"^```sh\n(.*?)^```", AGENTS, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            words = line.partition("#")[0].split()[1:]
            path = next(p for p in (" ".join(words[:2]), words[0]) if p in COMMANDS)
            options = [word for word in words if word.startswith("-")]
            assert all(takes(COMMANDS[path], one) for one in options), line
            changes = path in EFFECTS and EFFECTS[path].costs.startswith("the machine")
            assert not changes or "--dry-run" in options or "--budget" in options, line
            assert "--json" in options, line


@pytest.fixture
def sim(monkeypatch: pytest.MonkeyPatch, key_pair: Path) -> Iterator[PrimeSimulator]:
    """A simulator that knows the user's key."""
    key = own_key(key_pair)
    with simulated_prime(monkeypatch, step=1) as running:
        running.behave(boot=0, install=0)
        running.add_ssh_key(key.with_suffix(".pub").read_text())
        yield running


def test_a_dry_run_rents_nothing_and_says_the_price(sim: PrimeSimulator) -> None:
    for words in (("--dry-run",), ("--dry-run", "--yes")):
        shown = hudtui("pods", "create", "2xA100", *words)
        assert shown.exit_code == 0, shown.output
        assert "Rent 2 × A100" in shown.stdout and "$" in shown.stdout
        assert "nothing was done" in shown.stderr
    told = json.loads(hudtui("pods", "create", "2xA100", "--dry-run", "--json").stdout)
    assert told["dry_run"] is True and "Rent 2 × A100" in told["question"] and told["facts"]
    assert not [one for one in sim.requests if one.method != "GET"]
    assert not Ledger().records()


def test_a_dry_run_ends_nothing(sim: PrimeSimulator) -> None:
    assert hudtui("pods", "create", "A100", "--yes", "--name", "kept").exit_code == 0
    (owned,) = Ledger().records()
    shown = hudtui("pods", "terminate", owned.name, "--dry-run", "--yes")
    assert shown.exit_code == 0 and f"End {owned.name}?" in shown.stdout, shown.output
    assert not [one for one in sim.requests if one.method == "DELETE"]
    assert hudtui("pods", "terminate", owned.name, "--yes").exit_code == 0
    assert [one for one in sim.requests if one.method == "DELETE"]
    again = hudtui("pods", "reconcile", "--end", "--dry-run", "--json")
    assert again.exit_code == 0 and json.loads(again.stdout) == []


def test_without_a_terminal_a_question_is_an_error_of_the_command(sim: PrimeSimulator) -> None:
    refused = hudtui("pods", "create", "A100")
    assert refused.exit_code == 2 and "add --yes" in refused.stderr and not Ledger().records()
