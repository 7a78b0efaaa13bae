"""Task files as tasks in memory: what plays, lints and shows them reads them here."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.platform import HUD, Platform
from hudtui.core.tasks.problems import TaskProblem
from hudtui.core.tasks.rules import Rules
from hudtui.core.tasks.task import Task, ToolCall
from hudtui.core.variables import Lookup

if TYPE_CHECKING:
    from hudtui.core.environment.values import Analysis
    from hudtui.core.tasks.scan import TaskBatch


@dataclass(frozen=True)
class LoadedTasks:
    """What a source of tasks holds."""

    tasks: tuple[Task, ...]
    """The usable ones, in the order of the source."""
    problems: tuple[TaskProblem, ...]
    """Everything that is wrong or doubtful, in the order of the tasks. Tasks with an error are not among `tasks`."""
    source: str
    total: int
    """Tasks in the source, the unusable ones included."""


def read_tasks(
    path: Path | str,
    *,
    lookup: Lookup | None = None,
    lock_image: str | None = None,
    platform: Platform | None = None,
    analysis: Analysis | None = None,
    token_budget: int | None = None,
    strict: bool = False,
    split: str | None = None,
    folder: Path | None = None,
    token: str | None = None,
) -> LoadedTasks:
    """Read and check tasks, all of them at once. For very many see `scan.scan`.

    Args:
        path: A JSON (one task or an array), JSONL, Parquet or Arrow file, compressed or not; a folder saved by `datasets` or with
            such files; or a dataset on the Hub, `org/name[@revision][:split]`.
        lookup: Values of variables; None: unresolved ones are not reported. Nothing is substituted in what is returned.
        lock_image: Image for tasks that have no `mcp_config` of their own.
        platform: Whose gateway runs that image; HUD when None.
        analysis: Environment to check calls against.
        token_budget: Longest prompt, in estimated tokens.
        strict: Treat warnings as errors.
        split: Split of a dataset that has several; `train` when None.
        folder: Where relative paths start; the current folder when None. (`folder / path` would hide that a path is a Hub id.)
        token: For a private dataset on the Hub.

    Raises:
        InputError: The source is missing, unreadable, or as a whole not what tasks can be.
        ConnectError: The Hub cannot be reached.
    """
    from hudtui.core.tasks.read import find_source
    from hudtui.core.tasks.scan import scan

    rules = Rules(
        lookup=lookup,
        lock_image=lock_image,
        platform=platform or HUD,
        analysis=analysis,
        token_budget=token_budget,
        strict=strict,
    )
    source = find_source(path, split=split, folder=folder)
    if source.kind == "hub":
        from hudtui.core.tasks.hub import fetch

        source = fetch(source, token=token)
    tasks: list[Task] = []
    problems: list[TaskProblem] = []
    total = 0
    for batch in scan(source, rules):
        tasks += tasks_in(batch)
        problems += batch.problems
        total += batch.count
    return LoadedTasks(tuple(tasks), tuple(problems), os.fspath(path), total)


def tasks_in(batch: TaskBatch) -> Iterator[Task]:
    """The usable tasks of a batch. Equal `mcp_config`s are one object."""
    configs: dict[bytes | None, Mapping[str, Any]] = {}
    names = ("mcp_config", "setup_tool", "evaluate_tool", "metadata")
    extras = [(name, column) for name, column in batch.columns.items() if name not in names]
    rows = zip(batch.ids, batch.prompts, *(batch.columns[name] for name in names), strict=True) if batch.ids else ()
    for place, (identity, prompt, config, setup, evaluate, metadata) in enumerate(rows):
        if config not in configs:
            configs[config] = _data(config) or {}
        yield Task(
            id=identity,
            prompt=prompt,
            mcp_config=configs[config],
            setup=calls_of(_data(setup)),
            evaluate=calls_of(_data(evaluate)),
            metadata=_data(metadata) or {},
            extra={name: json.loads(text) for name, column in extras if (text := column[place]) is not None},
        )


def _data(text: bytes | None) -> Any:
    return None if text is None else json.loads(text)


def calls_of(value: list[dict[str, Any]] | dict[str, Any] | None) -> tuple[ToolCall, ...]:
    """The calls of a checked `setup_tool` or `evaluate_tool`."""
    if not value:
        return ()
    calls = value if isinstance(value, list) else [value]
    return tuple(ToolCall(call["name"], call.get("arguments") or {}) for call in calls)
