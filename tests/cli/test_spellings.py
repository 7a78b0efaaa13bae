"""Every command under each of its names: today's, those of the seeds, and those of earlier versions."""

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from hudtui.cli.app import SHOWN, SPELLINGS, build

ROOT: Any = typer.main.get_command(build())

EVERY = """
demo; doctor; machine; settings list; settings set; settings unset; settings test; trust
env analyze; env show; env call; env list
rl; rl run; rl init; config init; lint; config check; parse; config try; transform; config transform
tasks check; tasks list; tasks convert; tasks stats; tasks test; hf; tasks push
eval; rehearse; runs list; runs show; runs logs; runs start; runs stop; runs attach; runs resume; runs pull; runs limits; runs rm
runs metrics; runs rename; runs comment; runs diff; runs watch; watch; export; runs export
gpus; pods offers; pods list; pods create; pods status; pods show; pods ssh; pods terminate; pods history; pods reconcile
keys list; keys create; keys register; keys set-path; wallet; pods wallet
pods keys list; pods keys create; pods keys register; pods keys set-path
"""


def command(path: str) -> Any:
    found = ROOT
    for name in path.split():
        found = found.commands[name]
    return found


@pytest.mark.parametrize("path", [path.strip() for line in EVERY.strip().splitlines() for path in line.split(";")])
def test_every_name_is_a_command(path: str) -> None:
    done = CliRunner().invoke(build(), [*path.split(), "--help"])
    assert done.exit_code == 0, done.output
    assert "Usage: " in done.stdout


@pytest.mark.parametrize(("old", "new"), SPELLINGS.items())
def test_both_spellings_are_the_same_command(old: str, new: str) -> None:
    first, second = command(old), command(new)
    assert [parameter.opts for parameter in first.params] == [parameter.opts for parameter in second.params]
    assert first.help == second.help and not second.hidden
    assert set(getattr(first, "commands", ())) == set(getattr(second, "commands", ()))


def test_help_lists_each_command_once_and_whole() -> None:
    done = CliRunner().invoke(build(), ["--help"])
    listed = [line.split()[0] for line in done.stdout.partition("Commands:")[2].splitlines() if line[:3].strip()]
    assert listed == list(SHOWN)
    assert "..." not in done.stdout.partition("Commands:")[2]


def test_help_of_rl_groups_its_options() -> None:
    done = CliRunner().invoke(build(), ["rl", "--help"])
    places = [done.stdout.index(f"\n{title}:") for title in ("What to run", "Training", "Rollouts", "Where", "Limits", "Options")]
    assert places == sorted(places)
    limits = done.stdout[places[4] : places[5]]
    assert all(flag in limits for flag in ("--budget", "--max-hours", "--idle-minutes", "--keep-on-failure"))


def test_every_command_that_shows_something_has_json() -> None:
    without = {
        "parse": "prints JSON always",
        "config try": "prints JSON always",
        "transform": "prints JSON always",
        "config transform": "prints JSON always",
        "runs attach": "shows a terminal",
    }

    def leaves(command: Any, path: str) -> list[str]:
        below = getattr(command, "commands", {})
        if below:
            return [leaf for name, inner in below.items() for leaf in leaves(inner, f"{path} {name}".strip())]
        return [] if any("--json" in parameter.opts for parameter in command.params) else [path]

    assert set(leaves(ROOT, "")) == set(without)
