"""The command tree as a shell and a terminal meet it: completion, help, slips, and `--json` before
a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer import Context
from typer.testing import CliRunner

from hudtui.cli.app import build, command

COMPLETE = """
source <(_HUDTUI_COMPLETE=source_bash hudtui)
ask() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    _hudtui_completion hudtui; echo "${COMPREPLY[@]}"
}
ask hudtui ru
ask hudtui runs sh
ask hudtui rl in
ask hudtui rl --gp
ask hudtui rl --gpus H100 --clo
ask hudtui ""
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`hudtui` on the PATH, as it is installed."""
    path = tmp_path / "hudtui"
    path.write_text(f"#!{sys.executable}\nfrom hudtui.cli import main\nmain()\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    return path


def test_a_shell_gets_completions_and_no_app(program: Path) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE],
        capture_output=True,
        text=True,
        timeout=100,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    *some, everything = done.stdout.splitlines()
    assert some == ["runs", "show", "init", "--gpus", "--cloud"], done
    assert {"env", "rl", "tasks", "config", "eval", "pods", "settings"} <= set(everything.split())
    assert "\x1b" not in done.stdout + done.stderr


def test_the_help_of_rl_shows_its_options_and_its_commands() -> None:
    text = CliRunner().invoke(build(), ["rl", "--help"]).stdout
    for word in ("[TASKS] [OPTIONS]", "--gpus", "--offer", "--dry-run", "--rehearse", "init"):
        assert word in text, text


@pytest.mark.parametrize(("slip", "meant"), [("int", "init"), ("inti", "init"), ("rum", "run")])
def test_a_slip_of_a_command_of_rl(own_world: Path, slip: str, meant: str) -> None:
    result = CliRunner().invoke(build(), ["rl", slip])
    assert result.exit_code == 2 and f"did you mean {meant}?" in result.stderr.replace("\n", " ")
    (own_world / slip).mkdir()
    assert "did you mean" not in CliRunner().invoke(build(), ["rl", slip, "--dry-run"]).stderr


@pytest.mark.parametrize(
    "words",
    [
        ("runs", "--json", "show", "x"),
        ("runs", "--json", "list"),
        ("keys", "--json", "set-path", "/nowhere/key"),
        ("settings", "--json", "list"),
    ],
)
def test_json_may_be_said_before_the_command(words: tuple[str, ...]) -> None:
    before = CliRunner().invoke(build(), words)
    after = CliRunner().invoke(build(), [words[0], *words[2:], "--json"])
    assert (
        json.loads(before.stdout) == json.loads(after.stdout)
        and before.exit_code == after.exit_code
    )


def test_json_of_a_command_that_has_none_is_refused() -> None:
    result = CliRunner().invoke(build(), ["runs", "--json", "attach"])
    assert result.exit_code == 2 and "attach prints no JSON" in result.stderr


@pytest.mark.parametrize(
    "words",
    [("runs", "list", "--json"), ("env", "show", "text-2048", "--help"), ("settings", "list")],
)
def test_a_command_loads_neither_pydantic_nor_the_app(words: tuple[str, ...]) -> None:
    """Both take longer to load than most commands take to do their work."""
    code = (
        "import sys; from typer.testing import CliRunner; from hudtui.cli.app import build;done = "
        f"CliRunner().invoke(build(), {list(words)!r}); assert done.exit_code == 0, "
        "done.output;print([name for name in ('pydantic', 'textual', 'mcp') if name in "
        "sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_commands_that_are_made_when_they_are_asked_for_are_those_of_the_whole_tree() -> None:
    def told(found: Any, path: str = "") -> Iterator[tuple[Any, ...]]:
        told_parameters = [
            (
                type(one).__name__,
                one.name,
                one.opts,
                one.secondary_opts,
                one.required,
                one.multiple,
                one.get_default(Context(found)),
            )
            for one in found.params
        ]
        yield (
            path,
            type(found).__name__,
            found.help,
            found.hidden,
            found.context_settings,
            told_parameters,
        )
        for name, inner in getattr(found, "commands", {}).items():
            yield from told(inner, f"{path} {name}")

    whole = list(told(typer.main.get_command(build())))
    assert len(whole) > 100 and list(told(command())) == whole


@pytest.mark.parametrize(
    "words", [[], ["tasks", "list"], ["rl", "--dry-run", "--json"], ["--help"]]
)
def test_a_folder_that_was_removed_is_said_in_a_sentence(tmp_path: Path, words: list[str]) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd "{gone}"; rmdir "{gone}"; exec "$0" -P -m hudtui "$@"'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "the current folder does not exist any more" in done.stderr and "cd " in done.stderr
    if "--json" in words:
        assert (
            json.loads(done.stdout)["error"]["what"] == "the current folder does not exist any more"
        )


@pytest.mark.parametrize(
    "words", [["rl", "--gpu"], ["rl", "run", "--gpu"], ["rl", "tasks.json", "--budgt", "3"]]
)
def test_a_slip_in_an_option_of_rl_shows_a_usage_that_help_lists(words: list[str]) -> None:
    done = CliRunner().invoke(build(), words, prog_name="hudtui")
    assert done.exit_code == 2
    assert (
        "Usage: hudtui rl [OPTIONS]" in done.stderr
        and "'hudtui rl -h'" in done.stderr
        and "rl run" not in done.stderr
    )


@pytest.mark.parametrize("bad", ["\x1b]52;c;eA==\x07", "\x9b2J", "\x08"])
@pytest.mark.parametrize(
    "words",
    [
        ("-C", "BAD", "runs"),
        ("runs", "-C", "BAD"),
        ("--BAD",),
        ("BAD",),
        ("rl", "BAD"),
        ("runs", "list", "--state", "BAD"),
        ("eval", "BAD"),
        ("hf", "x", "--format", "BAD"),
        ("rl", "--gpus", "BAD"),
        ("config", "check", "BAD"),
    ],
)
def test_a_word_of_the_command_reaches_the_terminal_as_text(
    words: tuple[str, ...], bad: str, own_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(own_world)
    done = CliRunner().invoke(build(), [word.replace("BAD", f"x{bad}y") for word in words])
    assert done.exit_code and bad[0] not in done.output, done.output
