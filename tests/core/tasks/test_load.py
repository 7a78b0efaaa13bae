"""Task files come in as tasks, and whatever is wrong with them is said with its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.errors import InputError
from hudtui.core.tasks import read
from hudtui.core.tasks.read import find_source, read_tasks, scan
from hudtui.core.tasks.task import ToolCall
from hudtui.core.tasks.validate import Rules

Make = Callable[..., dict[str, Any]]
Write = Callable[..., Path]


def test_a_task_of_the_seeds(tmp_path: Path, task: Make) -> None:
    path = tmp_path / "tasks.json"
    path.write_text(json.dumps(task(), indent=2))
    read = read_tasks(path)
    assert read.problems == () and read.total == 1
    (one,) = read.tasks
    assert (one.id, one.prompt, one.metadata) == ("task-001", "Reach 128.", {"difficulty": "easy"})
    assert one.setup == (ToolCall("setup", {"name": "board", "board_size": 4}),)
    assert one.evaluate == (ToolCall("evaluate", {"name": "max_number", "target": 128}),)
    assert one.mcp_config["hud"]["headers"]["Mcp-Image"] == "my-org/my-env:latest"


@pytest.mark.parametrize("name", ["tasks.json", "tasks.jsonl"])
def test_fields_as_json_text_and_lists_of_calls(write: Write, task: Make, name: str) -> None:
    plain = task()
    text = {
        key: json.dumps(value) if isinstance(value, dict) else value for key, value in plain.items()
    }
    calls = [plain["setup_tool"], {"name": "setup", "arguments": {"name": "seed"}}]
    path = write(
        name,
        plain,
        {**text, "id": "b"},
        task(id="c", setup_tool=calls),
        task(id="d", setup_tool="{}"),
    )
    read = read_tasks(path)
    assert read.problems == ()
    first, second, third, fourth = read.tasks
    assert (
        second.mcp_config == first.mcp_config
        and second.evaluate == first.evaluate
        and second.setup == first.setup
    )
    assert [call.arguments["name"] for call in third.setup] == ["board", "seed"]
    assert fourth.setup == ()


def test_what_is_missing_is_named_or_inferred(write: Write, task: Make) -> None:
    path = write(
        "t.jsonl", task(id=...), task(prompt=...), task(evaluate_tool=...), task(mcp_config=...)
    )
    read = read_tasks(path)
    assert [
        (problem.index, problem.line, problem.field, problem.code) for problem in read.problems
    ] == [
        (1, 2, "prompt", "missing"),
        (2, 3, "evaluate_tool", "unjudged"),
        (3, 4, "mcp_config", "missing"),
    ]
    assert [one.id for one in read.tasks] == ["task-0000", "task-001"]
    # What judges is known where the tasks are played.
    assert [problem.code for problem in read_tasks(path, own_reward=True).problems] == [
        "missing",
        "missing",
    ]
    unjudged = read_tasks(path, own_reward=False).problems[1]
    assert (
        unjudged.severity == "error" and "`rubric.reward` of the configuration" in unjudged.message
    )
    inferred = read_tasks(write("u.json", task(mcp_config=...)), lock_image="org/env:1").tasks[0]
    assert inferred.mcp_config == {
        "hud": {
            "url": "https://mcp.hud.ai/v3/mcp",
            "headers": {"Authorization": "Bearer $HUD_API_KEY", "Mcp-Image": "org/env:1"},
        }
    }


def test_unknown_fields_are_kept(write: Write, task: Make) -> None:
    extra = {
        "system_prompt": "Be brief.",
        "agent_config": {"allowed_tools": ["move"], "n": 1.0},
        "weight": 3,
        "tags": [],
    }
    path = write("t.json", task(**extra), task(id="b"))
    first, second = read_tasks(path).tasks
    assert first.extra == extra and second.extra == {}


def test_ids(write: Write, task: Make) -> None:
    path = write(
        "t.jsonl",
        task(id=7),
        task(id="7"),
        task(id=...),
        task(id=None),
        task(id=True),
        task(id="task-0002"),
    )
    read = read_tasks(path)
    assert [one.id for one in read.tasks] == ["7", "task-0002", "task-0003"]
    found = [(problem.index, problem.code, problem.severity) for problem in read.problems]
    assert found == [
        (0, "id", "warning"),
        (1, "duplicate-id", "error"),
        (4, "type", "error"),
        (5, "duplicate-id", "error"),
    ]
    assert "task 2 has this id" in read.problems[-1].message


def test_a_broken_task_does_not_hide_the_others(tmp_path: Path, task: Make) -> None:
    path = tmp_path / "t.json"
    good = json.dumps(task(), indent=2)
    path.write_text(f'[\n{good},\n{{"prompt":\n NaN}},\n{good.replace("001", "002")}\n]')
    read = read_tasks(path)
    assert [one.id for one in read.tasks] == ["task-001", "task-002"] and read.total == 3
    (problem,) = read.problems
    assert (problem.index, problem.line, problem.message) == (
        1,
        good.count("\n") + 3,
        "NaN is not a JSON value",
    )


@pytest.mark.parametrize(
    ("spoiled", "code", "words"),
    [
        ('{"id": "x", "prompt": "p", "prompt": "q"}', "duplicate-key", "duplicate key"),
        ('{"id": "x", "prompt": Infinity}', "json", "Infinity"),
        ('{"metadata": {"a": {"b": 1, "b": 2}}, "prompt": "p", "mcp_config": {"a": {"url": "u"}}, '
         '"evaluate_tool": {"name": "e"}}', "duplicate-key", "duplicate key"),
        ('{"mcp_config": "{not json", "prompt": "p", "evaluate_tool": {"name": "e"}}', "json",
         "text is not JSON"),
        ('{"prompt": "\\ud800", "mcp_config": {"a": {"url": "u"}}, "evaluate_tool": {"name": '
         '"e"}}', "json", "surrogate"),
        ('{"id": "x", "n": ' + "[" * 100_000 + "]" * 100_000 + "}", "json", "nested too deeply"),
        ("17", "type", "a number"),
        ("[]", "type", "a list"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("lines", [True, False])
def test_spoiled_records(
    tmp_path: Path, task: Make, spoiled: str, code: str, words: str, lines: bool
) -> None:
    path = tmp_path / ("t.jsonl" if lines else "t.json")
    parts = [json.dumps(task(id=str(number))) for number in range(5)]
    parts.insert(2, spoiled)
    path.write_text("\n".join(parts) + "\n" if lines else "[" + ",\n".join(parts) + "]")
    read = read_tasks(path)
    assert [one.id for one in read.tasks] == ["0", "1", "2", "3", "4"] and read.total == 6
    (problem,) = read.problems
    assert (problem.index, problem.line, problem.code) == (2, 3, code)
    assert words in problem.message


@pytest.mark.parametrize(
    ("name", "text", "words", "line"),
    [
        ("t.json", '[\n{"prompt": "a"},\n{"prompt": \n', "cut off", 4),
        ("t.json", '[\n{"prompt": "a"},\n{"prompt": "b" "c"}\n', "not valid JSON", 3),
        ("t.json", '[{"prompt": "a"},\n]', "value is missing", 2),
        ("t.json", '[{"prompt": "a"}\n{"prompt": "b"}]', "comma is missing", 2),
        ("t.json", '[{"prompt": "a"}]\n\nmore', "after the end", 3),
        ("t.json", '{"prompt": "a"', "not valid JSON", 1),
        ("t.json", '{"prompt": \n NaN}', "NaN", None),
        ("t.json", "", "empty", None),
        ("t.json", "hello", "neither", 1),
        ("t.yaml", "# mine\naction_mappings:\n", "a gym configuration, not tasks", None),
        ("t.jsonl", '{"prompt": "a"}\n{"prompt": "b"', "cut off", 2),
    ],
)
def test_files_that_are_broken_as_a_whole(
    tmp_path: Path, name: str, text: str, words: str, line: int | None
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        read_tasks(path)
    assert caught.value.where is not None and caught.value.where.file == str(path)
    if line is not None:
        assert caught.value.where.line == line


def test_calls_are_checked_against_the_environment(write: Write, task: Make) -> None:
    schema = {
        "type": "object",
        "properties": {"target": {"type": "integer"}},
        "required": ["target"],
    }
    analysis = Analysis(
        "env",
        tools=(
            Tool("setup"), Tool("evaluate"),
            Tool("max_number", input_schema=schema, hub="evaluate"),
            Tool("judge", input_schema={"type": "object", "required": ["answer"]}),
        ),
        hubs={"setup": ("board",), "evaluate": ("max_number", "efficiency")},
    )  # fmt: skip
    good = task(
        evaluate_tool={
            "name": "evaluate",
            "arguments": {"name": "max_number", "arguments": {"target": 8}},
        }
    )
    spoiled = [
        ({"name": "evalute", "arguments": {}}, "evaluate_tool.name", "did you mean 'evaluate'"),
        (
            {"name": "evaluate", "arguments": {"name": "max_numbr"}},
            "evaluate_tool.arguments.name",
            "did you mean 'max_number'",
        ),
        ({"name": "evaluate", "arguments": {}}, "evaluate_tool.arguments.name", "hub"),
        (
            {"name": "evaluate", "arguments": {"name": "max_number", "arguments": {"target": "x"}}},
            "evaluate_tool.arguments.target",
            "integer",
        ),
        (
            [{"name": "judge", "arguments": {}}],
            "evaluate_tool[0].arguments",
            "'answer' is a required property",
        ),
    ]
    path = write(
        "t.json",
        good,
        *(task(id=str(number), evaluate_tool=call) for number, (call, _, _) in enumerate(spoiled)),
    )
    read = read_tasks(path, analysis=analysis)
    assert [one.id for one in read.tasks] == ["task-001"]
    assert len(read.problems) == len(spoiled)
    for problem, (_, field, words) in zip(read.problems, spoiled, strict=True):
        assert problem.field == field and words in problem.message


def test_variables(write: Write, task: Make) -> None:
    server = {
        "url": "http://localhost:8765/mcp",
        "headers": {"Authorization": "Bearer $buckeye_API_KEY", "X": "${GONE} ${D:1}"},
    }
    read = read_tasks(
        write("t.json", task(mcp_config={"buckeye": server})), lookup={"BUCKEYE_API_KEY": "k"}.get
    )
    assert len(read.tasks) == 1
    assert [(problem.code, problem.severity) for problem in read.problems] == [
        ("variable-case", "warning"),
        ("variable", "warning"),
    ]
    assert "BUCKEYE_API_KEY" in read.problems[0].message and "GONE" in read.problems[1].message
    (batch,) = scan(
        find_source(write("t.json", task(mcp_config={"buckeye": server}))),
        Rules(lookup={}.get, strict=True),
    )
    assert batch.tasks == [] and all(problem.severity == "error" for problem in batch.problems)


def test_a_written_out_secret_is_warned_of_and_not_repeated(write: Write, task: Make) -> None:
    secret = "sk-hud-" + "ab12" * 8
    config = {
        "hud": {
            "url": "https://mcp.hud.ai/v3/mcp",
            "headers": {"Authorization": f"Bearer {secret}"},
        }
    }
    (problem,) = read_tasks(write("t.json", task(mcp_config=config))).problems
    assert (
        problem.code == "secret"
        and "${HUD_API_KEY}" in problem.message
        and secret not in str(problem)
    )


def test_token_budget(write: Write, task: Make) -> None:
    (batch,) = scan(
        find_source(write("t.json", task(prompt="word " * 100))), Rules(token_budget=50)
    )
    assert [(problem.field, problem.code) for problem in batch.problems] == [("prompt", "too-long")]
    assert len(batch.tasks) == 1


def test_an_unchanged_file_is_read_once(
    write: Write, task: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("t.jsonl", task(mcp_config={"hud": {"url": "${WHERE}"}}), task(id="b"))
    reads, whole = [], read.read_tasks
    monkeypatch.setattr(
        read, "read_tasks", lambda *args, **more: reads.append(args) or whole(*args, **more)
    )
    values = {"WHERE": "http://127.0.0.1"}
    reader = read.TaskReader()

    def found() -> read.LoadedTasks:
        return reader(
            "t.jsonl", folder=path.parent, lookup=values.get, platform=read.HUD, token=None
        )

    assert found() is found() and len(found().tasks) == 2 and len(reads) == 1
    del values["WHERE"]
    assert any("WHERE" in str(problem) for problem in found().problems) and len(reads) == 2
    write("t.jsonl", task(id="c"), task(id="d"), task(id="e"))
    assert [one.id for one in found().tasks] == ["c", "d", "e"]
    path.unlink()
    with pytest.raises(InputError):
        found()


def test_a_misspelt_field_is_kept_and_named(tmp_path: Path) -> None:
    task = {"id": "a", "prompt": "x", "mcp_config": {"f": {"command": "true"}}, "category": "easy"}
    parts = [{"reply": {"contains": "ok"}}]
    path = tmp_path / "tasks.json"
    for name in ("evalute", "Evaluate", "evaluate_tools"):
        path.write_text(json.dumps([{**task, name: parts}]))
        read = read_tasks(path)
        assert read.tasks[0].extra[name] == parts
        (problem,) = [one for one in read.problems if one.field == name]
        assert problem.severity == "warning" and "did you mean 'evaluate" in problem.message
    path.write_text(json.dumps([{**task, "evaluate": parts}]))
    assert not read_tasks(path).problems
