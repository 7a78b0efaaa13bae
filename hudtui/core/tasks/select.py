"""Selecting tasks: filters, shuffling, samples and splits, repeatable by a seed.

Imports pyarrow: import this module late.
"""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Callable
from functools import partial

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from hudtui.core.row_filter import RowFilter, Value, parse_filter
from hudtui.core.tasks.options import TaskSelection
from hudtui.core.tasks.validate import TASK_FIELDS, CheckedTask


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
    for key in keys:
        if isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            value = value.get(key) if isinstance(value, dict) else None
    if value is None or (isinstance(value, str | float | int) and not isinstance(value, bool)):
        return value
    return json.dumps(value, ensure_ascii=False)


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
