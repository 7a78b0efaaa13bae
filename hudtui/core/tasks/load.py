"""Task files as tasks in memory: what plays, lints and shows them reads them here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import InputError, Location
from hudtui.core.files import parse_json, read_text
from hudtui.core.tasks.check import Checked, check_record
from hudtui.core.tasks.problems import Problem
from hudtui.core.tasks.rules import Hud, Lookup, PlatformFacts, Remark, Rules
from hudtui.core.tasks.task import Task, ToolCall

if TYPE_CHECKING:
    from hudtui.core.environment.values import Analysis


@dataclass(frozen=True)
class TaskFile:
    """What a source of tasks holds."""

    tasks: tuple[Task, ...]
    """The usable ones, in the order of the source."""
    problems: tuple[Problem, ...]
    """Everything that is wrong or doubtful, in the order of the tasks. Tasks with an error are not among `tasks`."""
    source: str
    total: int
    """Tasks in the source, the unusable ones included."""


def read_tasks(
    path: Path | str,
    *,
    lookup: Lookup | None = None,
    lock_image: str | None = None,
    platform: PlatformFacts | None = None,
    analysis: Analysis | None = None,
    token_budget: int | None = None,
    strict: bool = False,
) -> TaskFile:
    """Read and check tasks.

    Args:
        path: A JSON file (one task or an array) or a JSONL file.
        lookup: Values of variables; None: unresolved ones are not reported. Nothing is substituted in what is returned.
        lock_image: Image for tasks that have no `mcp_config` of their own.
        platform: Whose gateway runs that image; HUD when None.
        analysis: Environment to check calls against.
        token_budget: Longest prompt, in estimated tokens.
        strict: Treat warnings as errors.

    Raises:
        InputError: The file is missing, unreadable, or as a whole not what a task file can be.
    """
    name = os.fspath(path)
    rules = Rules(
        lookup=lookup,
        lock_image=lock_image,
        platform=platform or Hud(),
        analysis=analysis,
        token_budget=token_budget,
        strict=strict,
    )
    tasks: list[Task] = []
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    total = 0
    for index, (line, record) in enumerate(_records(read_text(path), name)):
        total += 1
        checked = Checked(remarks=[record]) if isinstance(record, Remark) else check_record(record, rules)
        identity = checked.id or f"task-{index:04d}"
        if checked.usable and identity in seen:
            checked.remarks.append(Remark("id", f"task {seen[identity]} has this id already", "duplicate-id"))
        for remark in checked.remarks:
            problems.append(Problem(index, identity, remark.field, remark.message, line, remark.severity, name, remark.code))
        if checked.usable:
            seen[identity] = index
            tasks.append(task_of(checked, identity))
    return TaskFile(tuple(tasks), tuple(problems), name, total)


def task_of(checked: Checked, identity: str) -> Task:
    """The task of a record without errors."""
    return Task(
        id=identity,
        prompt=checked.prompt,
        mcp_config=checked.mcp_config,
        setup=_tool_calls(checked.setup),
        evaluate=_tool_calls(checked.evaluate),
        metadata=checked.metadata,
        extra=checked.extra,
    )


def _tool_calls(value: list[dict[str, Any]] | dict[str, Any] | None) -> tuple[ToolCall, ...]:
    if value is None:
        return ()
    calls = value if isinstance(value, list) else [value]
    return tuple(ToolCall(call["name"], call.get("arguments") or {}) for call in calls)


def _records(text: str, name: str) -> Iterator[tuple[int | None, Any]]:
    """Line and record of each task; a line of a JSONL file that is not JSON comes as a Remark."""
    start = text.lstrip()
    if not start:
        raise InputError("this file is empty", where=Location(name))
    if start[0] == "[":
        for record in parse_json(text, name):
            yield None, record
        return
    if start[0] != "{":
        raise InputError("this is neither a task, nor an array of tasks, nor JSON lines", where=Location(name, 1))
    try:
        one = parse_json(text, name)
    except InputError as error:
        try:
            parse_json(next(line for line in start.split("\n") if line.strip()), name)
        except InputError:
            raise error from None  # not JSON lines either
    else:
        yield 1, one
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                record = parse_json(line, name)
            except InputError as error:
                record = Remark(error.where.field if error.where else None, error.what, "json")
            yield number, record
