"""`hudtui tasks`: what is checked, listed and carried over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from hudtui.cli.app import build


def task(number: int, **changes: Any) -> dict[str, Any]:
    base = {
        "id": f"t{number}",
        "prompt": "Reach 128.\x1b[31m",
        "mcp_config": {"text-2048": {"command": "python", "args": ["-m", "hudtui.envs.text_2048"]}},
        "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "target": 128}},
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not ...}


V5 = {"env": {"name": "sheets"}, "scenario": "sheets:fill", "args": {"n": 1}, "id": "first"}


def tasks(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["tasks", *arguments])


def write(name: str, *rows: Any) -> str:
    Path(name).write_text(
        "\n".join(map(json.dumps, rows)) if name.endswith(".jsonl") else json.dumps(list(rows))
    )
    return name


def test_check() -> None:
    name = write("tasks.jsonl", task(1), task(2, prompt=...), task(3, id=3))
    result = tasks("check", name)
    assert (
        result.exit_code == 1
        and result.stdout.endswith("\n3 tasks, 2 usable; 1 error, 1 warning\n")
        and result.stderr == ""
    )
    assert "error: tasks.jsonl:2: task 1 (t2): prompt: required" in result.stdout
    found = json.loads(tasks("check", name, "--json").stdout)
    assert [(entry["index"], entry["severity"]) for entry in found["problems"]] == [
        (1, "error"),
        (2, "warning"),
    ]
    assert (found["tasks"], found["valid"], found["ok"]) == (3, 2, False)
    good = write("good.jsonl", task(1), task(3, id=3))
    assert tasks("check", good).exit_code == 0
    result = tasks("check", good, "--strict", "--json")
    assert result.exit_code == 1 and json.loads(result.stdout)["problems"][0]["severity"] == "error"


def test_a_problem_that_all_tasks_share_is_said_once() -> None:
    config = {"e": {"url": "https://e.example/mcp", "headers": {"A": "$GONE"}}}
    result = tasks("check", write("t.json", *(task(n, mcp_config=config) for n in range(50))))
    assert (
        result.exit_code == 0
        and result.stdout.count("variable GONE") == 1
        and "the same for 49 other tasks" in result.stdout
    )


def test_check_against_the_bundled_environment() -> None:
    wrong = {"name": "evaluate", "arguments": {"name": "max_numbr"}}
    result = tasks(
        "check", write("t.json", task(1), task(2, evaluate_tool=wrong)), "--env", "text-2048"
    )
    assert result.exit_code == 1 and "did you mean 'max_number'" in result.stdout
    assert "2 tasks, 1 usable; 1 error, 0 warnings" in result.stdout


def test_an_environment_that_cannot_be_reached_is_json_too() -> None:
    result = tasks("check", write("t.json", task(1)), "--env", "gone.yaml", "--json")
    assert result.exit_code and json.loads(result.stdout)["error"]["what"]
    config = {"gone": {"command": "/no/such/program"}}
    Path("servers.json").write_text(json.dumps({"mcpServers": config}))
    result = tasks("check", "t.json", "--env", "servers.json", "--json")
    assert result.exit_code and json.loads(result.stdout)["error"]["what"]


def test_check_of_what_is_no_task_file() -> None:
    Path("t.json").write_text('[{"prompt": "cut')
    result = tasks("check", "t.json", "--json")
    assert result.exit_code == 2 and "cut off" in json.loads(result.stdout)["error"]["what"]


def test_list() -> None:
    write("tasks.json", task(1), task(2, prompt=...))
    write("broken_tasks.json")
    Path("broken_tasks.json").write_text('[{"prompt": "p", "mcp_config"')
    found = json.loads(tasks("list", "--json").stdout)
    assert [(row["file"], row["tasks"], row["valid"]) for row in found] == [
        ("broken_tasks.json", None, None), ("tasks.json", 2, 1),
    ]  # fmt: skip
    assert "cut off" in found[0]["error"]
    result = tasks("list", "tasks.json")
    assert result.exit_code == 0 and "\x1b" not in result.stdout
    assert result.stdout.split() == ["t1", "Reach", "128.", "evaluate.max_number"]
    (row,) = json.loads(tasks("list", "tasks.json", "--json").stdout)
    assert (row["id"], row["evaluate"], row["servers"]) == (
        "t1",
        ["evaluate.max_number"],
        ["text-2048"],
    )


@pytest.mark.parametrize("out", ["v6.json", "v6.jsonl"])
def test_carry_v5_over(out: str) -> None:
    result = tasks("convert", write("v5.json", V5, V5), "--to", "v6", "-o", out)
    assert (result.exit_code, result.stdout) == (0, f"{out}\n")
    result = tasks("convert", write("mixed.json", V5, task(1)), "--to", "v6", "-o", out, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1 and (found["tasks"], found["written"]) == (2, 1)
    assert "cannot become a v6 task" in found["skipped"][0]["message"]


def test_v4_with_its_fields_as_data() -> None:
    row = task(
        1,
        mcp_config=json.dumps(task(1)["mcp_config"]),
        evaluate_tool=json.dumps(task(1)["evaluate_tool"]),
    )
    result = tasks("convert", write("t.jsonl", row), "-o", "out.json")
    assert result.exit_code == 0, result.output
    assert json.loads(Path("out.json").read_text()) == [task(1)]
    assert tasks("convert", "t.jsonl", "-o", "out.txt").exit_code == 2
    assert tasks("convert", "t.jsonl", "-o", "out.json", "--to", "v3").exit_code == 2


BUNDLED = {
    "text-2048": {
        "command": "${HUDTUI_PYTHON:-python3}",
        "args": ["-P", "-m", "hudtui.envs.text_2048"],
    }
}
BOARD = {"name": "setup", "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": 2}}}


def board(number: int, target: int = 64) -> dict[str, Any]:
    judge = {
        "name": "evaluate",
        "arguments": {"name": "max_number", "arguments": {"target": target}},
    }
    return task(number, mcp_config=BUNDLED, setup_tool=BOARD, evaluate_tool=judge)


def test_a_task_is_set_up_and_evaluated() -> None:
    name = write(
        "tasks.json",
        task(1, prompt=...),
        board(2),
        board(3, target=4),
        board(4) | {"setup_tool": {"name": "gone"}},
    )
    result = tasks("test", name)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith('setup {"name": "board"') and "answered in" in lines[0]
    assert lines[-1].startswith("t2: setup and evaluation work: reward 0")
    result = tasks("test", name, "--task", "t3", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and (
        found["task"],
        found["ok"],
        found["severity"],
        found["reward"],
    ) == (
        "t3",
        True,
        "warning",
        1,
    )
    assert [step["tool"] for step in found["steps"]] == ["setup", "evaluate"]
    result = tasks("test", name, "--task", "t4")
    assert result.exit_code == 1 and "t4: the setup failed" in result.stdout


@pytest.mark.parametrize(
    ("wanted", "said"), [("t1", "task t1 cannot be used"), ("t9", "there is no task t9")]
)
def test_a_task_that_cannot_be_tested(wanted: str, said: str) -> None:
    result = tasks(
        "test", write("tasks.json", task(1, prompt=...), board(2)), "--task", wanted, "--json"
    )
    assert result.exit_code == 2 and said in json.loads(result.stdout)["error"]["what"]


def test_statistics() -> None:
    rows = (
        task(number, metadata={"category": ["easy", "hard"][number % 2]}) for number in range(5)
    )
    name = write("tasks.json", *rows, task(9, prompt=...))
    result = tasks("stats", name)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("6 tasks, 5 usable\n\nprompt length (estimated tokens; median ")
    assert "metadata.category\n  easy  3   60 %\n  hard  2   40 %\n" in result.stdout
    found = json.loads(tasks("stats", name, "--json").stdout)
    assert (found["source"], found["tasks"], found["valid"]) == (name, 6, 5)
    assert sum(part["tasks"] for part in found["prompt_tokens"]["bins"]) == 5
    assert {"title": "metadata.category", "tasks": {"easy": 3, "hard": 2}, "note": ""} in found[
        "groups"
    ]
    found = json.loads(tasks("stats", write("none.json", task(1, prompt=...)), "--json").stdout)
    assert (found["valid"], found["prompt_tokens"], found["groups"]) == (0, None, [])


def test_new() -> None:
    result = tasks("new", "text-2048", "-o", "n.json")
    assert result.exit_code == 0 and result.stdout.startswith("Wrote n.json: replace each TODO"), (
        result.output
    )
    (record,) = json.loads(Path("n.json").read_text())
    assert record["id"] == "text-2048-1" and "setup.board(" in str(record["metadata"])
    record["setup_tool"] = {
        "name": "setup",
        "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": 2}},
    }
    record["evaluate_tool"] = {
        "name": "evaluate",
        "arguments": {"name": "max_number", "arguments": {"target": 64}},
    }
    Path("n.json").write_text(json.dumps([record]))
    assert json.loads(tasks("check", "n.json", "--env", "text-2048", "--json").stdout)["valid"] == 1
    assert json.loads(tasks("test", "n.json", "--json").stdout)["ok"]
    again = tasks("new", "text-2048", "-o", "n.json")
    assert (
        again.exit_code == 2
        and "already" in again.stderr
        and json.loads(Path("n.json").read_text()) == [record]
    )
    made = json.loads(tasks("new", "text-2048", "--json").stdout)
    assert made["file"] == "text-2048-tasks.json" and made["task"]["id"] == "text-2048-1"
