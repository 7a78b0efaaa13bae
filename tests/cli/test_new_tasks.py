"""`hudtui tasks new` with a draft: from options, from a file, tested, previewed and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hudtui.cli.app import build
from hudtui.core.environment.cache import save_analysis
from hudtui.core.environment.powers import task_powers
from hudtui.core.environment.source import parse_source
from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.flows.new_task import write_drafted
from hudtui.core.project import open_project
from hudtui.core.tasks.draft import DraftedTasks
from hudtui.core.trust import VARIABLE, Untrusted, require, revoke

BOARD = (
    "--setup",
    "board board_size=3 seed=${s}",
    "--evaluator",
    "evaluate.max_number target=${t}",
)


def run(*args: str) -> Any:
    return CliRunner().invoke(build(), args)


def new(*args: str) -> Any:
    return run("tasks", "new", *args)


@pytest.fixture(autouse=True)
def here(own_world: Path) -> Path:
    return own_world


def test_a_hundred_tasks_from_one_command() -> None:
    given = ("text-2048", "--prompt", "Reach ${t}.", *BOARD, "--var", "t=8, 16", "--var", "s=seed")
    result = new(*given, "--count", "100", "--held-out", "0.1", "-o", "t.json", "--test", "--yes")
    assert result.exit_code == 0, result.output
    assert "Wrote 90 tasks to t.json, and 10 held out to t-held-out.json" in result.stdout
    assert "setup.board(board_size=3, seed=" in result.stdout
    assert "setup and evaluation work" in result.stdout and "on the real thing" in result.stderr
    rows = json.loads(Path("t.json").read_text())
    apart = json.loads(Path("t-held-out.json").read_text())
    assert len({row["id"] for row in [*rows, *apart]}) == 100
    assert isinstance(rows[0]["setup_tool"][0]["arguments"]["arguments"]["seed"], int)
    check = run("tasks", "check", "t.json", "--env", "text-2048", "--json")
    assert json.loads(check.stdout)["valid"] == 90
    before = Path("t.json").read_bytes()
    again = new(*given, "--count", "100", "--held-out", "0.1", "-o", "t.json")
    assert again.exit_code == 2 and "already" in again.stderr
    assert Path("t.json").read_bytes() == before
    more = new(*given, "--id", "more", "-o", "t.json")
    assert more.exit_code == 0
    texts = json.loads(Path("t.json").read_text())
    assert texts[:90] == rows and [row["id"] for row in texts[90:]] == ["more-1", "more-2"]


def test_a_draft_file_names_everything_and_json_says_what_was_made() -> None:
    draft = {
        "id": "reach",
        "prompt": "Reach ${t}.",
        "setup_tool": {"name": "setup", "arguments": {"name": "board", "arguments": {"seed": 1}}},
        "evaluate": [{"reply": {"contains": "${t}"}}],
        "solution": [{"name": "move", "arguments": {"direction": "left"}}],
        "variables": {"t": [8, 16, 32, 64]},
    }
    Path("draft.yaml").write_text(json.dumps(draft))
    result = new("text-2048", "--draft", "draft.yaml", "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    assert made["ok"] and made["tasks"] == 4 and len(made["first"]) == 3
    assert made["first"][0]["evaluate"] == [{"reply": {"contains": "8"}}]
    assert made["first"][0]["solution"] == draft["solution"]
    assert not list(Path.cwd().glob("*.json"))
    Path("draft.yaml").write_text(
        json.dumps({**draft, "mcp_config": made["first"][0]["mcp_config"]})
    )
    alone = new("--draft", "draft.yaml", "--allow-setup-tools", "-o", "own.jsonl", "--json")
    assert alone.exit_code == 0, alone.output
    rows = [json.loads(line) for line in Path("own.jsonl").read_text().splitlines()]
    assert len(rows) == 4 and rows[0]["agent_config"] == {"allow_setup_tools": True}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--prompt", "Reach ${t}."), "prompt: there is no variable 't'"),
        (("--prompt", "x", "--var", "t="), "variables.t: the variable has no values"),
        (("--prompt", "x", "--expect", "reply matches ("), "evaluate[0].reply.matches"),
        (("--prompt", "x", "--expect", "moev direction=left contains x"), "did you mean 'move'"),
        (("--prompt", "x", "--setup", "move direction=sideways"), "one of left"),
        (("--prompt", "x", "--expect", "reply says x"), "'says' is no condition"),
        (("--prompt", "x", "--expect", "reply contains"), "no value after contains"),
        (("--prompt", "x", "--setup", "board seed"), "'seed' is no argument"),
        (("--prompt", "x", "--expect", "{"), "no JSON"),
        (("--prompt", "x", "--setup", "board 'seed=1"), "cannot be read"),
        (("--prompt", "x", "--var", "t"), "NAME=VALUES"),
        (("--prompt", "x", "--setup", "board(seed=1"), "the bracket is not closed"),
        (("--prompt", "x", "--setup", 'board(seed="1)'), "the quote"),
        (("--prompt", "x", "--setup", "board(1, 2, 3, 4, 5)"), "is no argument"),
        (("--prompt", "x", "--setup", "board(seed=1) 7"), "'7' is no argument"),
        (("--prompt", "x", "--solution", "moev(left)"), "did you mean 'move'"),
        (("--solution", "move(left)"), "needs --prompt"),
        (("--prompt", "x", "--own-folder"), "the servers name no folder"),
        (("--count", "3"), "needs --prompt"),
        (("--draft", "absent.yaml"), "no such file"),
        (("--draft", "list.yaml"), "a list"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_and_nothing_is_written(args: tuple[str, ...], words: str) -> None:
    Path("list.yaml").write_text("- a\n")
    result = new("text-2048", *args, "-o", "t.json")
    assert result.exit_code in (1, 2) and words in result.stderr, result.output
    assert "Traceback" not in result.output and not Path("t.json").exists()


def test_calls_are_typed_as_they_are_shown_and_a_solution_with_them() -> None:
    given = ("--prompt", "Reach ${t}.", "--var", "t=8, 16", "--json", "--dry-run")
    shown = ("--setup", "setup.board(board_size=3, seed=5)", "--solution", "move(left)")
    more = ("--solution", """reply "It's ${t}, done" """, "--expect", "move('up') contains \"a b\"")
    result = new("text-2048", *given, *shown, *more)
    assert result.exit_code == 0, result.output
    task = json.loads(result.stdout)["first"][0]
    assert task["setup_tool"] == [
        {
            "name": "setup",
            "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": 5}},
        }
    ]
    assert task["solution"] == [
        {"name": "move", "arguments": {"direction": "left"}},
        {"reply": "It's 8, done"},
    ]
    call = {"name": "move", "arguments": {"direction": "up"}}
    assert task["evaluate"] == [{"call": call, "expect": {"contains": "a b"}}]


def test_words_in_a_draft_file_are_read_like_those_of_options() -> None:
    draft = {
        "prompt": "Play.",
        "setup_tool": "board(board_size=3)",
        "evaluate": ["reply contains done weight 0.5", {"turns": {"most": 3}, "weight": 0.5}],
        "solution": ["move(direction=left)", "reply done"],
    }
    Path("draft.yaml").write_text(json.dumps(draft))
    result = new("text-2048", "--draft", "draft.yaml", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "expects the last reply contains done (0.5)" in result.stdout
    assert "solved by move(direction=left); reply done" in result.stdout
    Path("draft.yaml").write_text(json.dumps({**draft, "solution": ["move(left"]}))
    wrong = new("text-2048", "--draft", "draft.yaml", "--dry-run")
    assert wrong.exit_code == 2 and "solution[0]" in wrong.stderr and "bracket" in wrong.stderr


def test_what_breaks_an_evaluation_is_said_until_the_draft_says_what_it_means() -> None:
    given = ("text-2048", "--prompt", "x", "--dry-run", "--expect")
    told = new(*given, "move(left) contains 2")
    assert "an error answer of move" in told.stderr and "`error false`" in told.stderr
    for words in ("move(left) contains 2 error false", "reply contains 2"):
        assert "an error answer" not in new(*given, words).stderr


def test_a_judge_is_typed_like_a_call() -> None:
    words = 'judge(rubric="1 if it is polite, else 0", model=m, of=transcript) weight 0.25'
    result = new("text-2048", "--prompt", "x", "--expect", words, "--dry-run", "--json")
    judge = {"rubric": "1 if it is polite, else 0", "model": "m", "of": "transcript"}
    made = json.loads(result.stdout)
    assert made["first"][0]["evaluate"] == [{"judge": judge, "weight": 0.25}], result.output
    wrong = new("text-2048", "--prompt", "x", "--expect", "judge rubric=x contains y")
    assert wrong.exit_code == 2 and "'contains' means nothing here" in wrong.stderr


def test_a_test_that_fails_writes_nothing() -> None:
    draft = ("--prompt", "x", "--setup", "board board_size=900", "--expect", "turns most 3")
    result = new("text-2048", *draft, "--test", "--yes", "-o", "t.json")
    assert result.exit_code == 1 and "nothing is written" in result.stderr, result.output
    assert not Path("t.json").exists()


def test_servers_that_the_command_names_are_not_asked_about_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = {"a": {"command": "no-such-program", "args": ["x"]}}
    source = parse_source(json.dumps(servers))
    save_analysis(source, Analysis("a", tools=(Tool("move", "", {"type": "object"}),)))
    monkeypatch.delenv(VARIABLE)
    revoke(Path.cwd())
    given = ("--prompt", "x", "--expect", "reply contains y")
    assert new(json.dumps(servers), *given, "-o", "typed.json").exit_code == 0
    require(Path.cwd(), task_powers([servers], Path("typed.json")))
    draft = {"prompt": "x", "mcp_config": {"c": {"command": "third-program"}}}
    record = (draft | {"id": "c", "evaluate": [{"reply": {"contains": "y"}}]},)
    write_drafted(open_project(), DraftedTasks(record), Path("c.json"))
    with pytest.raises(Untrusted):
        require(Path.cwd(), task_powers([draft["mcp_config"]], Path("c.json")))
