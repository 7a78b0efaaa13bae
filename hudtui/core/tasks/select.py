"""Selecting tasks: filters, measured difficulty, shuffling, samples and splits.

What is drawn is repeatable by a seed.

Imports pyarrow: import this module late.
"""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from hudtui.core.errors import InputError
from hudtui.core.row_filter import RowFilter, Value, parse_filter
from hudtui.core.tasks.options import TaskSelection
from hudtui.core.tasks.task import Task, task_record
from hudtui.core.tasks.validate import TASK_FIELDS, CheckedTask
from hudtui.core.text import clean_line, did_you_mean

DIFFICULTY = "difficulty"
"""Field of a filter with the measured difficulty of a task, see `Measured`."""


class _Paths(dict[str, Callable[[CheckedTask], Value]]):
    """Fields of a task by name, and any other place by its path, as `metadata.difficulty`."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Callable[[CheckedTask], Value]:
        return partial(_at, path=name)


def task_filter(text: str) -> RowFilter[CheckedTask]:
    """Return the filter that a text spells; see `core.row_filter`.

    Its fields are those of a task, and paths in them.

    Raises:
        InputError: The text compares with something that is not a number.
    """
    return parse_filter(text, _Paths({name: partial(_at, path=name) for name in TASK_FIELDS}))


def _at(task: CheckedTask, path: str) -> Value:
    """Return what stands at a path in a task.

    Objects and lists as JSON text, None where nothing is.
    """
    name, *keys = path.split(".")
    value = getattr(task, name) if name in TASK_FIELDS else task.extra.get(name)
    return _below(value, keys)


def _below(value: Any, keys: Sequence[str]) -> Value:
    """Return what stands at a path below a value, as `_at` does."""
    for key in keys:
        if isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            value = value.get(key) if isinstance(value, dict) else None
    if value is None or (isinstance(value, str | float | int) and not isinstance(value, bool)):
        return value
    return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class Measured:
    """The difficulties of tasks for one player."""

    difficulty: Mapping[str, float] = field(default_factory=dict)
    """By id of the task, from 0 (every episode got the whole reward) to 1 (none got any)."""
    source: str = ""
    """Words for who measured it, and when."""
    command: str = ""
    """The command that measures."""
    stale: int = 0
    """Tasks that were measured only in an earlier form, or played in another way."""


@dataclass(frozen=True)
class Selected:
    """Tasks that a filter has kept, and the numbers of the others."""

    filter: str
    kept: tuple[Task, ...]
    total: int
    too_easy: int = 0
    """Tasks below the difficulty of all that are kept."""
    too_hard: int = 0
    """Tasks above it."""
    unmeasured: int = 0
    """Tasks whose difficulty the filter names, and nobody has measured."""
    stale: int = 0
    """See `Measured.stale`; of those that count as not measured."""
    others: int = 0
    """All other tasks that are left out."""
    source: str = ""
    """See `Measured.source`."""
    held_out: int = 0
    """Tasks kept for evaluation, which the filter was not asked about."""

    @property
    def text(self) -> str:
        """All of it in one line."""
        source = f" ({self.source})" if self.source else ""
        line = f"{self.filter} keeps {len(self.kept)} of {self.total} tasks{source}"
        parts = (
            (self.too_easy, "too easy"),
            (self.too_hard, "too hard"),
            (self.unmeasured, f"not measured{self._stale_words}"),
            (self.others, "not matching"),
        )
        left_out = ", ".join(f"{count} {words}" for count, words in parts if count)
        if left_out:
            line += f"; left out: {left_out}"
        return line + (f"; the {self.held_out} held out stay" if self.held_out else "")

    @property
    def _stale_words(self) -> str:
        if not self.stale:
            return ""
        return f" as they are ({self.stale} with other turns, configuration or texts)"

    def to_json(self) -> dict[str, Any]:
        """As plain data; `kept` is a number."""
        return {**vars(self), "kept": len(self.kept)}


class _Row(NamedTuple):
    record: Mapping[str, Any]
    difficulty: float | None


class _RecordPaths(dict[str, Callable[[_Row], Value]]):
    """The measured difficulty, and any place in a task's record by its path."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Callable[[_Row], Value]:
        first, *keys = name.split(".")
        return lambda row: _below(row.record.get(first), keys)


def select_tasks(tasks: Sequence[Task], text: str, measured: Measured) -> Selected:
    """Keep the tasks that match a filter of `core.row_filter`.

    Its fields are those of a task, paths in them, and `difficulty`, which is the measured one. A
    task without a measure matches no filter of the difficulty.

    Raises:
        InputError: The text compares with something that is not a number, or names a field that no
            task has.
    """
    fields = _RecordPaths({DIFFICULTY: lambda row: row.difficulty})
    for name in ("id", "prompt"):
        fields[name] = partial(_of_record, name=name)
    wanted = parse_filter(text, fields)
    rows = [_Row(task_record(task), measured.difficulty.get(task.id)) for task in tasks]
    _require_fields(wanted.fields, rows)
    by_difficulty = DIFFICULTY in wanted.fields
    kept, left_out, unmeasured = list[int](), list[_Row](), 0
    for place, row in enumerate(rows):
        if by_difficulty and row.difficulty is None:
            unmeasured += 1
        elif wanted.matches(row):
            kept.append(place)
        else:
            left_out.append(row)
    found = [row.difficulty for place in kept if (row := rows[place]).difficulty is not None]
    easy = hard = 0
    if by_difficulty and found:
        others = [row.difficulty for row in left_out if row.difficulty is not None]
        easy = sum(one < min(found) for one in others)
        hard = sum(one > max(found) for one in others)
    return Selected(
        text,
        tuple(tasks[place] for place in kept),
        len(tasks),
        easy,
        hard,
        unmeasured,
        min(measured.stale, unmeasured),
        len(left_out) - easy - hard,
        measured.source if by_difficulty else "",
    )


def _require_fields(names: Iterable[str], rows: Sequence[_Row]) -> None:
    known = dict.fromkeys(
        (DIFFICULTY, *TASK_FIELDS, *(name for row in rows for name in row.record))
    )
    for name in names:
        first = name.partition(".")[0]
        if first not in known:
            near = did_you_mean(first, known)
            raise InputError(
                f"no task has a field {clean_line(first, 40)!r}",
                fix=f"Did you mean {near}?" if near else f"Fields: {', '.join(known)}.",
            )


def _of_record(row: _Row, name: str) -> Value:
    return _below(row.record.get(name), ())


def names_difficulty(text: str) -> bool:
    """Return whether a filter asks for the measured difficulty.

    Raises:
        InputError: The text is no filter.
    """
    return DIFFICULTY in parse_filter(text, _RecordPaths()).fields


def split_rows(rows: pa.Table, selection: TaskSelection) -> dict[str, pa.Table]:
    """Return the selected rows by split: a sample, in the order of the source or shuffled."""
    order = list(range(rows.num_rows))
    random.Random(selection.seed).shuffle(order)
    chosen = order if selection.sample is None else order[: selection.sample]
    test = test_rows(selection.test, len(chosen))
    parts = {"test": chosen[:test], "train": chosen[test:]}
    if not selection.shuffle:
        parts = {split: sorted(places) for split, places in parts.items()}
    return {split: rows.take(_indices(places)) for split, places in parts.items()}


def _indices(places: list[int]) -> pa.Array:
    """Return a column of numbers. `pyarrow.array` would import pandas."""
    return pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(array("q", places))])


def test_rows(test: float | None, total: int) -> int:
    """Return how many of `total` rows the test split gets: at least one, and not all."""
    if not test or total < 2:
        return 0
    count = round(total * test) if test < 1 else int(test)
    return max(1, min(count, total - 1))
