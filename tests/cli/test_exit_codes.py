"""Exit codes: the same for the same kind of failure in every command, with and without `--json`."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from support.command import hudtui
from typer.testing import CliRunner

from hudtui import cli
from hudtui.cli.app import build

ROOT: Any = typer.main.get_command(build())

GOOD = (
    "parser: {use_thinking: false}\naction_mappings:\n  up: {_parser: {positional: []}, _tool: "
    "move}\n"
)
BAD = "action_mappings:\n  up: {_parser: {positional: [x]}}\n"

CASES = [
    (0, "env list"),
    (0, "runs"),
    (0, "config check good.yaml"),
    (1, "config check bad.yaml"),
    (1, "tasks check tasks.json"),
    (2, "config check none.yaml"),
    (2, "config try none.yaml"),
    (2, "tasks check none.json"),
    (2, "tasks push none.json --no-push"),
    (2, "env show ./none"),
    (2, "pods offers 4xNothing --provider local"),
    (2, "settings set HUD_API_KEYS x"),
    (2, "eval tasks.json"),
    (2, "eval good.yaml"),
    (0, "rollouts list"),
    (2, "rollouts list none"),
    (2, "rollouts show tasks.json 3"),
    (2, "rollouts export none -o x.jsonl"),
    (2, "rollouts play tasks.json"),
    (2, "rl none.json --host local --dry-run"),
    (2, "rl --host local --provider prime"),
    (2, "tasks convert tasks.json -o x.json --to v9"),
    (3, "env show -- false"),
    (3, "config init -- false"),
    (5, "machine nobody@127.0.0.1:1"),
    (5, "watch nobody@127.0.0.1:1"),
    (6, "runs show none"),
    (6, "runs logs none"),
    (6, "runs stop none --yes"),
    (6, "runs resume none"),
    (6, "runs pull none"),
    (6, "runs rm none --yes"),
    (6, "runs rename none new"),
    (6, "runs metrics none"),
    (6, "runs export none"),
    (7, "tasks push tasks.json --name me/mine --token hf_0123456789"),
]


@pytest.fixture(autouse=True)
def folder(own_world: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    (own_world / "good.yaml").write_text(GOOD)
    (own_world / "bad.yaml").write_text(BAD)
    call = {"name": "x", "arguments": {}}
    task = {
        "id": "a",
        "prompt": "Play.",
        "mcp_config": {"a": {"url": "http://127.0.0.1:9/mcp"}},
        "evaluate_tool": call,
    }
    (own_world / "tasks.json").write_text(json.dumps([task, {"id": "b"}]))
    return own_world


@pytest.mark.parametrize(("code", "line"), CASES, ids=[line for _, line in CASES])
def test_a_failure_has_its_code(code: int, line: str) -> None:
    done = hudtui(*line.split(), code=code)
    if code > 1 and "--dry-run" not in line:
        assert "rror: " in done.stderr


@pytest.mark.parametrize(
    ("code", "line"), [case for case in CASES if case[0] > 1 and "config try" not in case[1]]
)
def test_a_failure_is_an_object_in_json(code: int, line: str) -> None:
    before, mark, rest = line.partition(" -- ")
    done = hudtui(
        *before.split(), "--json", *([mark.strip(), *rest.split()] if mark else []), code=code
    )
    if "--dry-run" not in line:
        assert json.loads(done.stdout)["error"]["what"], done.stdout


def leaves(command: Any, path: str = "") -> list[str]:
    below = getattr(command, "commands", {})
    return (
        [leaf for name, inner in below.items() for leaf in leaves(inner, f"{path} {name}".strip())]
        if below
        else [path]
    )


@pytest.mark.parametrize(
    "path", [path for path in leaves(ROOT) if path != "pods ssh"]
)  # its words are a command
def test_an_unknown_option_is_a_wrong_input(path: str) -> None:
    done = CliRunner().invoke(build(), [*path.split(), "--no-such-option"])
    assert done.exit_code == 2 and "--no-such-option" in done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("runs list -n 0", "0. Give a whole number of at least 1."),
        ("runs list -n ten", "'ten'. Give a whole number of at least 1."),
        ("rl --steps 1.5", "'1.5'. Give a whole number of at least 1."),
        ("env show text-2048 --timeout fast", "'fast'. Give a number of at least 0.1."),
        ("env login x --port 70000", "70000. Give a whole number from 0 to 65535."),
    ],
)
def test_a_number_that_cannot_be_used_is_answered_with_those_that_can(line: str, said: str) -> None:
    done = hudtui(*line.split(), "--json", code=2)
    assert said in done.stderr and said in json.loads(done.stdout)["error"]["what"]


def test_a_configuration_in_the_place_of_tasks_is_named() -> None:
    assert "is YAML, as a configuration is" in hudtui("eval", "good.yaml", code=2).stderr
    done = hudtui("eval", "good.yaml", "-c", "good.yaml", code=2)
    assert "this is a gym configuration, not tasks" in done.stderr


@pytest.mark.parametrize("line", ["nonsense", "runs nonsense", "runs show --none", "settings set"])
def test_a_command_line_that_is_refused_is_an_object_in_json(line: str) -> None:
    error = json.loads(hudtui(*line.split(), "--json", code=2).stdout)["error"]
    assert error["what"] and "--help" in error["fix"]


def test_codes_have_names_in_the_code() -> None:
    """A number in `typer.Exit(...)` would be a code of its own, which no page lists."""
    for file in Path(cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "typer.Exit" and node.args:
                literal = node.args[0]
                assert not isinstance(literal, ast.Constant) or literal.value in (130, 141), (
                    f"{file.name}:{node.lineno}"
                )


def test_the_help_of_a_command_names_its_own_codes() -> None:
    """Every module that ends with `console.FOUND` says so in the help of a command."""
    for file in Path(cli.__file__).parent.glob("*.py"):
        text = file.read_text()
        if "typer.Exit(console.FOUND)" in text:
            assert "Exit code 1 if" in text, file.name
