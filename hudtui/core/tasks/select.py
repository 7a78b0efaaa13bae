"""Selecting tasks: filters, shuffling, samples and splits, repeatable by a seed and in bounded memory.

Imports pyarrow: import this module late.
"""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from hudtui.core.row_filter import RowFilter, Value, parse_filter
from hudtui.core.tasks.options import TaskSelection
from hudtui.core.tasks.validate import TASK_FIELDS, CheckedTask

BUCKET = 64 << 20
"""Bytes of rows that are shuffled in memory at once."""


class _Paths(dict[str, Callable[[CheckedTask], Value]]):
    """Fields of a task by name, and any other place in it by its path, such as `metadata.difficulty`."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Callable[[CheckedTask], Value]:
        return partial(_at, path=name)


def task_filter(text: str) -> RowFilter[CheckedTask]:
    """Return the filter that a text spells; see `core.row_filter`. Its fields are those of a task, and paths in them.

    Raises:
        InputError: The text compares with something that is not a number.
    """
    return parse_filter(text, _Paths({name: partial(_at, path=name) for name in TASK_FIELDS}))


def _at(task: CheckedTask, path: str) -> Value:
    """Return what stands at a path in a task; objects and lists as JSON text, None where nothing is."""
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


class Spool:
    """Keeps rows on disk until their number is known, then returns them in their final order, each with its split.

    Each row gets a random number. To shuffle, rows are distributed over buckets by that number, and each bucket is sorted by it
    in memory. Without shuffling, the rows with the smallest numbers are the sample, and the smallest of these the test split.
    """

    def __init__(self, folder: Path, schema: pa.Schema, selection: TaskSelection, expected: int) -> None:
        """Open the files.

        Args:
            folder: Folder for the files; the caller removes it.
            schema: Schema of the rows.
            selection: Sample, splits and order.
            expected: Bytes of rows to expect, about.
        """
        self._schema = schema.append(pa.field("#", pa.float64()))
        self._selection = selection
        self._random = random.Random(selection.seed)
        self._numbers = array("d")
        self._rows = 0
        count = min(256, expected // BUCKET + 1) if selection.shuffle else 1
        self._paths = [folder / f"spool-{number}" for number in range(count)]
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._writers = [pa.ipc.new_stream(str(path), self._schema, options=options) for path in self._paths]
        self._waiting: list[list[pa.RecordBatch]] = [[] for _ in self._paths]

    def add(self, rows: pa.RecordBatch) -> None:
        numbers = array("d", (self._random.random() for _ in range(rows.num_rows)))
        if not self._selection.shuffle:
            self._numbers.extend(numbers)
        self._rows += rows.num_rows
        rows = pa.record_batch([*rows.columns, _plain(numbers, pa.float64())], schema=self._schema)
        count = len(self._paths)
        if count == 1:
            self._writers[0].write_batch(rows)
            return
        places: list[list[int]] = [[] for _ in self._paths]
        for row, number in enumerate(numbers):
            places[int(number * count)].append(row)
        for bucket, chosen in enumerate(places):
            if chosen:
                self._put(bucket, rows.take(_plain(array("i", chosen), pa.int32())))

    def _put(self, bucket: int, rows: pa.RecordBatch) -> None:
        waiting = self._waiting[bucket]
        waiting.append(rows)
        if sum(batch.num_rows for batch in waiting) >= 1024:
            self._flush(bucket)

    def _flush(self, bucket: int) -> None:
        waiting = self._waiting[bucket]
        if waiting:
            self._writers[bucket].write_table(pa.Table.from_batches(waiting).combine_chunks())
            waiting.clear()

    def drain(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the selected rows in order, each run with its split."""
        for bucket, writer in enumerate(self._writers):
            self._flush(bucket)
            writer.close()
        wanted = self._rows if self._selection.sample is None else min(self._selection.sample, self._rows)
        test = test_rows(self._selection.test, wanted)
        parts = self._shuffled(wanted, test) if self._selection.shuffle else self._in_order(wanted, test)
        for split, rows in parts:
            if rows.num_rows:
                yield split, rows.select(self._schema.names[:-1])

    def _shuffled(self, wanted: int, test: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        done = 0
        for path in self._paths:
            with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
                table = stream.read_all().sort_by("#")
            for rows in table.combine_chunks().to_batches(max_chunksize=4096):
                rows = rows.slice(0, max(0, wanted - done))
                first = max(0, min(rows.num_rows, test - done))
                yield "test", rows.slice(0, first)
                yield "train", rows.slice(first)
                done += rows.num_rows
            path.unlink()

    def _in_order(self, wanted: int, test: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        import numpy as np

        order = np.argsort(np.frombuffer(self._numbers, dtype=np.float64), kind="stable")
        where = np.zeros(len(order), np.int8)  # 0 left out, 1 train, 2 test
        where[order[:wanted]] = 1
        where[order[:test]] = 2
        place = 0
        with pa.OSFile(str(self._paths[0])) as file, pa.ipc.open_stream(file) as stream:
            for rows in stream:
                marks = where[place : place + rows.num_rows]
                place += rows.num_rows
                for split, mark in (("test", 2), ("train", 1)):
                    yield split, rows.take(_plain(array("i", np.flatnonzero(marks == mark).tolist()), pa.int32()))


def _plain(values: array[Any], kind: pa.DataType) -> pa.Array:
    """Return a column of numbers. `pyarrow.array` would import pandas."""
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def test_rows(test: float | None, total: int) -> int:
    """Return how many of `total` rows the test split gets: at least one, and not all."""
    if not test or total < 2:
        return 0
    count = round(total * test) if test < 1 else int(test)
    return max(1, min(count, total - 1))
