"""Task files come in as tasks, and whatever is wrong with them is said with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.errors import InputError
from hudtui.core.tasks.load import read_tasks
from hudtui.core.tasks.task import ToolCall


def task(**changes: Any) -> dict[str, Any]:
    base = {
        "id": "task-001",
        "prompt": "Reach 128.",
        "mcp_config": {
            "hud": {
                "url": "https://mcp.hud.so/v3/mcp",
                "headers": {"Authorization": "Bearer $HUD_API_KEY", "Mcp-Image": "my-org/my-env:latest"},
            }
        },
        "setup_tool": {"name": "setup", "arguments": {"name": "board", "board_size": 4}},
        "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "target": 128}},
        "metadata": {"difficulty": "easy"},
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not ...}


def write(path: Path, *tasks: Any) -> Path:
    path.write_text("\n".join(map(json.dumps, tasks)) if path.suffix == ".jsonl" else json.dumps(list(tasks)))
    return path


def test_a_task_of_the_seeds(tmp_path: Path) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(task()))
    read = read_tasks(path)
    assert read.problems == () and read.total == 1
    (one,) = read.tasks
    assert (one.id, one.prompt, one.metadata) == ("task-001", "Reach 128.", {"difficulty": "easy"})
    assert one.setup == (ToolCall("setup", {"name": "board", "board_size": 4}),)
    assert one.evaluate == (ToolCall("evaluate", {"name": "max_number", "target": 128}),)
    assert one.mcp_config["hud"]["headers"]["Mcp-Image"] == "my-org/my-env:latest"


@pytest.mark.parametrize("name", ["tasks.json", "tasks.jsonl"])
def test_fields_as_json_text_and_lists_of_calls(tmp_path: Path, name: str) -> None:
    plain = task()
    text = {key: json.dumps(value) if isinstance(value, dict) else value for key, value in plain.items()}
    calls = [plain["setup_tool"], {"name": "setup", "arguments": {"name": "seed"}}]
    path = write(tmp_path / name, plain, {**text, "id": "b"}, task(id="c", setup_tool=calls), task(id="d", setup_tool="{}"))
    read = read_tasks(path)
    assert read.problems == ()
    first, second, third, fourth = read.tasks
    assert second.mcp_config == first.mcp_config and second.evaluate == first.evaluate and second.setup == first.setup
    assert [call.arguments["name"] for call in third.setup] == ["board", "seed"]
    assert fourth.setup == ()


def test_what_is_missing_is_named_or_inferred(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", task(id=...), task(prompt=...), task(evaluate_tool=...), task(mcp_config=...))
    read = read_tasks(path)
    assert [(problem.index, problem.line, problem.field, problem.code) for problem in read.problems] == [
        (1, 2, "prompt", "missing"),
        (2, 3, "evaluate_tool", "missing"),
        (3, 4, "mcp_config", "missing"),
    ]
    assert [one.id for one in read.tasks] == ["task-0000"]
    inferred = read_tasks(write(tmp_path / "u.json", task(mcp_config=...)), lock_image="org/env:1").tasks[0]
    assert inferred.mcp_config == {
        "hud": {
            "url": "https://mcp.hud.ai/v3/mcp",
            "headers": {"Authorization": "Bearer $HUD_API_KEY", "Mcp-Image": "org/env:1"},
        }
    }


def test_a_broken_task_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    good = json.dumps(task(), indent=2)
    path.write_text(f'[\n{good},\n{{"prompt":\n NaN}},\n{good.replace("001", "002")}\n]')
    read = read_tasks(path)
    assert [one.id for one in read.tasks] == ["task-001", "task-002"] and read.total == 3
    (problem,) = read.problems
    assert (problem.index, problem.line, problem.message) == (1, good.count("\n") + 3, "NaN is not a JSON value")


def test_a_file_that_is_cut_off_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('[\n{"prompt": "a"},\n{"prompt": \n')
    with pytest.raises(InputError, match="cut off") as caught:
        read_tasks(path)
    assert caught.value.where is not None and caught.value.where.line == 4
