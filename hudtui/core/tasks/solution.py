"""The field `solution` of a task: calls that reach its goal, which the agent is never shown.

It proves that the task can be solved. Datasets and machines that train do not get it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hudtui.core.tasks.task import FieldProblem, Task, ToolCall, json_kind
from hudtui.core.text import clean_line, did_you_mean

FIELD = "solution"
"""Name of the field."""
MOST_CALLS = 1_000
_KEYS = ("name", "arguments", "reply")


@dataclass(frozen=True)
class Solution:
    """The calls that solve a task, in order, and the reply that ends it."""

    calls: tuple[ToolCall, ...]
    reply: str = ""
    """Last words, where the task asks for some."""


def check_solution(value: Any) -> list[FieldProblem]:
    """Return what is wrong with the form of a `solution` that is data, its calls aside."""
    if not isinstance(value, list):
        message = f'this is {json_kind(value)}, and a list of calls is needed: `[{{"name", '
        message += '"arguments"}]`, with `{"reply": "..."}` as the last where something is said'
        return [FieldProblem(FIELD, message, "type")]
    if len(value) > MOST_CALLS:
        message = f"{len(value)} calls, and {MOST_CALLS} is the most"
        return [FieldProblem(FIELD, message, "solution")]
    found: list[FieldProblem] = []
    for number, step in enumerate(value):
        if isinstance(step, Mapping):
            found += _check_step(f"{FIELD}[{number}]", step, last=number == len(value) - 1)
    return found


def _check_step(place: str, step: Mapping[str, Any], *, last: bool) -> list[FieldProblem]:
    for name in step:
        if name not in _KEYS:
            near = did_you_mean(str(name), _KEYS)
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(_KEYS)}"
            where = f"{place}.{clean_line(str(name), 40)}"
            return [FieldProblem(where, f"this means nothing here; {hint}", "unknown-key")]
    if "reply" not in step:
        return []
    if len(step) > 1:
        message = "a reply stands alone: write the call before it, as a step of its own"
        return [FieldProblem(f"{place}.reply", message, "conflict")]
    if not isinstance(step["reply"], str):
        message = f"this is {json_kind(step['reply'])}, and text is needed"
        return [FieldProblem(f"{place}.reply", message, "type")]
    if not step["reply"].strip():
        message = "this is empty: write what is said, or leave the reply out"
        return [FieldProblem(f"{place}.reply", message, "missing")]
    if not last:
        message = "a reply ends the solution: put the calls before it"
        return [FieldProblem(f"{place}.reply", message, "solution")]
    return []


def calls_in(value: list[Any]) -> list[Any]:
    """Return the steps of a `solution` that are calls, or are to be: all but the reply."""
    return [step for step in value if not (isinstance(step, Mapping) and "reply" in step)]


def solution_of(task: Task) -> Solution | None:
    """Return the solution of a task that was read from a file; None of a task without one."""
    steps = task.extra.get(FIELD)
    if not steps:
        return None
    calls = tuple(ToolCall(call["name"], call.get("arguments") or {}) for call in calls_in(steps))
    return Solution(calls, str(steps[-1].get("reply", "")))


def without_solution(task: Task) -> Task:
    """Return a task as machines that train get it."""
    if FIELD not in task.extra:
        return task
    kept = {name: value for name, value in task.extra.items() if name != FIELD}
    return replace(task, extra=kept)
