"""The field `solution`: what is wrong with it, and where it goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.tasks.convert import ConversionResult, convert
from hudtui.core.tasks.read import as_task, find_source, read_tasks
from hudtui.core.tasks.solution import Solution, solution_of, without_solution
from hudtui.core.tasks.task import ToolCall, task_record
from hudtui.core.tasks.validate import Rules, TaskChecker
from hudtui.core.tasks.write import Target

WRITE = {"name": "write", "arguments": {"path": "a.txt", "text": "yes"}}
SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
    "required": ["path"],
}


def record(solution: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": "one",
        "prompt": "Write it.",
        "mcp_config": {"files": {"command": "files"}},
        "evaluate": [{"reply": {"contains": "yes"}}],
        "solution": solution,
        **more,
    }


def problems(value: dict[str, Any], **rules: Any) -> list[tuple[str | None, str, str]]:
    task = TaskChecker(Rules(**rules)).check(value)
    return [(one.field, one.message, one.severity) for one in task.problems]


@pytest.mark.parametrize(
    ("solution", "calls", "reply"),
    [
        ([WRITE], (ToolCall("write", WRITE["arguments"]),), ""),
        ([{"name": "look"}, {"reply": "yes"}], (ToolCall("look", {}),), "yes"),
        ([{"reply": "yes"}], (), "yes"),
        (json.dumps([WRITE, {"reply": "yes"}]), (ToolCall("write", WRITE["arguments"]),), "yes"),
        (
            [{"name": "write", "arguments": json.dumps(WRITE["arguments"])}],
            (ToolCall("write", WRITE["arguments"]),),
            "",
        ),
    ],
)
def test_a_solution_is_calls_and_a_last_reply(
    solution: Any, calls: tuple[ToolCall, ...], reply: str
) -> None:
    checked = TaskChecker(Rules()).check(record(solution))
    assert checked.problems == []
    assert solution_of(as_task(checked)) == Solution(calls, reply)


@pytest.mark.parametrize("solution", [None, [], "", "[]", {}])
def test_an_empty_solution_is_none(solution: Any) -> None:
    checked = TaskChecker(Rules()).check(record(solution))
    assert checked.problems == [] and solution_of(as_task(checked)) is None


@pytest.mark.parametrize(
    ("solution", "field", "said"),
    [
        (WRITE, "solution", "a list of calls is needed"),
        (7, "solution", "a list of calls is needed"),
        ("write", "solution", "not JSON"),
        (["write"], "solution[0]", "a call is an object"),
        ([{"arguments": {}}], "solution[0].name", "no name of a tool"),
        ([WRITE, {"name": 3}], "solution[1].name", "the name of a tool is needed"),
        ([{"name": "write", "arguments": [1]}], "solution[0].arguments", "an object is needed"),
        ([{"name": "write", "args": {}}], "solution[0].args", "did you mean 'arguments'"),
        ([{"call": WRITE}], "solution[0].call", "it has name, arguments, reply"),
        ([{"reply": "yes"}, WRITE], "solution[0].reply", "a reply ends the solution"),
        ([{**WRITE, "reply": "yes"}], "solution[0].reply", "a reply stands alone"),
        ([{"reply": 4}], "solution[0].reply", "text is needed"),
        ([{"reply": " "}], "solution[0].reply", "this is empty"),
        ([WRITE] * 1_001, "solution", "1000 is the most"),
    ],
)
def test_a_mistake_has_a_place_and_a_remedy(solution: Any, field: str, said: str) -> None:
    (found,) = problems(record(solution))
    assert found[0] == field and said in found[1] and found[2] == "error"


def environment() -> Analysis:
    tools = (
        Tool("write", input_schema=SCHEMA),
        Tool("evaluate_task", input_schema=None, kind="evaluate"),
    )
    return Analysis(source="files", tools=tools)


@pytest.mark.parametrize(
    ("call", "field", "said"),
    [
        ({"name": "wrote", "arguments": {}}, "solution[0].name", "did you mean 'write'"),
        ({"name": "write"}, "solution[0].arguments", "'path' is a required property"),
        (
            {"name": "write", "arguments": {"path": 5}},
            "solution[0].arguments.path",
            "is not of type 'string'",
        ),
    ],
)
def test_calls_are_checked_against_the_environment(
    call: dict[str, Any], field: str, said: str
) -> None:
    (found,) = problems(record([call]), analysis=environment())
    assert found[0] == field and said in found[1] and found[2] == "error"


@pytest.mark.parametrize(
    ("call", "more"),
    [
        (WRITE, {"agent_config": {"disallowed_tools": ["wri*"]}}),
        (WRITE, {"agent_config": {"allowed_tools": ["read"]}}),
        (WRITE, {"evaluate": None, "evaluate_tool": {"name": "write"}}),
        ({"name": "evaluate_task"}, {}),
    ],
)
def test_a_call_that_the_agent_cannot_make_is_warned_of(
    call: dict[str, Any], more: dict[str, Any]
) -> None:
    (found,) = problems(record([call], **more), analysis=None if more else environment())
    assert found[0] == "solution[0].name" and found[2] == "warning"
    assert "this does not prove that it can solve it" in found[1]


def converted(tmp_path: Path, target: str, form: Any) -> ConversionResult:
    Path("tasks.json").write_text(json.dumps([record([WRITE])]))
    *_, result = convert(find_source("tasks.json"), Rules(), [Target(tmp_path / target, form)])
    assert isinstance(result, ConversionResult)
    return result


@pytest.mark.parametrize(
    ("name", "form"), [("a.parquet", "parquet"), ("a.jsonl", "jsonl"), ("a", "dataset")]
)
def test_a_dataset_has_no_solution(own_world: Path, tmp_path: Path, name: str, form: Any) -> None:
    result = converted(tmp_path, name, form)
    assert "solution" not in result.columns and "evaluate" in result.columns
    (task,) = read_tasks(tmp_path / name).tasks
    assert solution_of(task) is None
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"solution" in text for text in texts)


@pytest.mark.parametrize(("name", "form"), [("a.json", "json"), ("a.jsonl", "tasks-jsonl")])
def test_a_task_file_keeps_its_solutions(
    own_world: Path, tmp_path: Path, name: str, form: Any
) -> None:
    converted(tmp_path, name, form)
    (task,) = read_tasks(tmp_path / name).tasks
    assert solution_of(task) == Solution((ToolCall("write", WRITE["arguments"]),))


def test_a_task_can_be_had_without_its_solution() -> None:
    task = as_task(TaskChecker(Rules()).check(record([WRITE])))
    bare = without_solution(task)
    assert "solution" not in task_record(bare)
    assert task_record(task) == {**task_record(bare), "solution": [WRITE]}


KEYS = {"HUD_API_KEY": "sk-hud-0123456789abcdef", "OTHER": "sk-hud-no-credential"}


@pytest.mark.parametrize(
    ("arguments", "path", "said"),
    [
        ({"url": "https://x/?k=sk-hud-0123456789abcdef"}, "url", "a secret (…cdef) is written"),
        ({"login": {"by": ["sk-hud-0123456789abcdef"]}}, "login.by[0]", "a secret (…cdef)"),
        ({"text": "use ${MY_API_KEY}"}, "text", "the variable MY_API_KEY gets no value here"),
        ({"text": "${DB_PASSWORD:-none}"}, "text", "the variable DB_PASSWORD gets no value here"),
        ({"text": "${HOME}"}, None, ""),
        ({"text": "sk-hud-no-credential"}, None, ""),
        ({"count": 5, "deep": [None, True]}, None, ""),
    ],
)
def test_a_secret_in_a_call_is_warned_of(
    arguments: dict[str, Any], path: str | None, said: str
) -> None:
    call = {"name": "look", "arguments": arguments}
    parts = [{"call": call, "expect": {"contains": "yes"}}]
    value = record([call], evaluate=parts, mcp_config={"files": {"command": "files"}})
    found = problems(value, lookup=KEYS.get)
    if path is None:
        assert found == []
        return
    places = [f"evaluate[0].call.arguments.{path}", f"solution[0].arguments.{path}"]
    assert [one[0] for one in found] == places
    assert all(said in one[1] and one[2] == "warning" for one in found)
    assert not any(KEYS["HUD_API_KEY"] in one[1] for one in found)
