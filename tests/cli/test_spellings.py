"""Every command under each of its names: today's, and those of the seeds."""

from collections.abc import Iterator
from pathlib import Path
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
rollouts list; rollouts show; rollouts open; rollouts stats; rollouts compare; rollouts diff
rollouts search; rollouts export; rollouts play
eval; rehearse; runs list; runs show; runs logs; runs start; runs stop; runs attach; runs resume
runs pull; runs limits; runs rm; runs metrics; runs rename; runs comment; runs tag; runs archive
runs diff; runs watch; watch; export; runs export
gpus; pods offers; pods list; pods create; pods status; pods show; pods ssh; pods terminate
pods history; pods reconcile
keys list; keys create; keys register; keys set-path; wallet; pods wallet
pods keys list; pods keys create; pods keys register; pods keys set-path
"""


MEANINGS = {
    "-C": {"--workspace"},
    "-H": {"--header"},
    "-a": {"--env-args"},
    "-c": {"--config"},
    "-d": {"--dataset"},
    "-e": {"--engine"},
    "-f": {"--follow"},
    "-g": {"--gpus"},
    "-h": {"--help"},
    "-m": {"--model"},
    "-n": {"--limit", "--lines"},
    "-o": {"--output"},
    "-p": {"--policy"},
    "-r": {"--group"},
    "-s": {"--session"},
    "-w": {"--window"},
    "-y": {"--yes"},
}
"""What each short option stands for. `-n` counts rows or, as in tail and journalctl, lines."""


def every(command: Any = ROOT, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields every command and group with its path."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from every(inner, f"{path} {name}".strip())


def command(path: str) -> Any:
    found = ROOT
    for name in path.split():
        found = found.commands[name]
    return found


@pytest.mark.parametrize(
    "path", [path.strip() for line in EVERY.strip().splitlines() for path in line.split(";")]
)
def test_every_name_is_a_command(path: str) -> None:
    done = CliRunner().invoke(build(), [*path.split(), "--help"])
    assert done.exit_code == 0, done.output
    assert "Usage: " in done.stdout


@pytest.mark.parametrize("path", ["runs start", "rehearse", "runs rerun", "runs continue"])
def test_all_ways_to_start_a_run_have_the_options_of_rl(path: str) -> None:
    """Each means there what it means here; `--follow` is the other side of `--detach`."""
    known = {opt: parameter for parameter in command("rl run").params for opt in parameter.opts}
    own = [
        parameter
        for parameter in command(path).params
        if parameter.opts[0] not in ("run", "--follow", "--step")
    ]
    for parameter in own:
        there = known.get(parameter.opts[0])
        assert there is not None and set(parameter.opts) == set(there.opts), parameter.opts


@pytest.mark.parametrize(("old", "new"), SPELLINGS.items())
def test_both_spellings_are_the_same_command(old: str, new: str) -> None:
    first, second = command(old), command(new)
    assert [parameter.opts for parameter in first.params] == [
        parameter.opts for parameter in second.params
    ]
    assert first.help == second.help and not second.hidden
    assert set(getattr(first, "commands", ())) == set(getattr(second, "commands", ()))


def test_a_short_option_means_the_same_everywhere() -> None:
    seen = {
        (short, path)
        for path, one in every()
        for parameter in one.params
        for short in parameter.opts
        if len(short) == 2 and not MEANINGS.get(short, set()) & set(parameter.opts)
    }
    assert not seen, seen


@pytest.mark.parametrize(
    "path",
    [
        path
        for path, one in every()
        if path and not one.hidden and path not in ("config", "env", "tasks")
    ],
)
def test_options_of_hudtui_may_follow_a_command(path: str, own_world: Path) -> None:
    result = CliRunner().invoke(build(), [*path.split(), "-C", "nowhere"])
    assert result.exit_code == 2 and "'nowhere': No such file" in result.stderr.replace(
        "\n", " "
    ), result.stderr


def test_a_folder_may_be_named_before_or_after_a_command(
    own_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_world / "p").mkdir()
    (own_world / "p" / ".env").write_text("HUD_API_KEY=sk-hud-0123456789\n")
    said = []
    for words in (
        ["-C", "p", "settings", "--json"],
        ["settings", "-C", "p", "--json"],
        ["settings", "list", "-C", "p", "--json"],
    ):
        monkeypatch.chdir(own_world)
        said.append(CliRunner().invoke(build(), words).stdout)
    assert said[0] == said[1] == said[2] and '"p/.env' not in said[0] and ".env" in said[0]


def test_help_lists_each_command_once_and_whole() -> None:
    done = CliRunner().invoke(build(), ["--help"])
    listed = [
        line.split()[0]
        for line in done.stdout.partition("Commands:")[2].splitlines()
        if line[:3].strip()
    ]
    assert listed == list(SHOWN)
    assert "..." not in done.stdout.partition("Commands:")[2]


def test_help_of_rl_groups_its_options() -> None:
    done = CliRunner().invoke(build(), ["rl", "--help"])
    places = [
        done.stdout.index(f"\n{title}:")
        for title in ("What to run", "Training", "Rollouts", "Where", "Limits", "Options")
    ]
    assert places == sorted(places)
    limits = done.stdout[places[4] : places[5]]
    assert all(
        flag in limits
        for flag in ("--budget", "--max-hours", "--idle-minutes", "--keep-on-failure")
    )


def test_every_command_that_shows_something_has_json() -> None:
    without = {
        "parse": "prints JSON always",
        "config try": "prints JSON always",
        "transform": "prints JSON always",
        "config transform": "prints JSON always",
        "runs attach": "shows a terminal",
        "rollouts open": "opens the app",
    }

    def leaves(command: Any, path: str) -> list[str]:
        below = getattr(command, "commands", {})
        if below:
            return [
                leaf
                for name, inner in below.items()
                for leaf in leaves(inner, f"{path} {name}".strip())
            ]
        return [] if any("--json" in parameter.opts for parameter in command.params) else [path]

    assert set(leaves(ROOT, "")) == set(without)
