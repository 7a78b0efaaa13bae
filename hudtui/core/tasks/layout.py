"""The table that tasks are written as: HUD's columns, all of them text, and behind them the fields that are only kept.

Imports pyarrow and msgspec: import this module late.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from hudtui.core.tasks.arrowrows import JSON_MARK
from hudtui.core.tasks.scan import TaskBatch
from hudtui.core.tasks.validate import TASK_FIELDS

_TEXTS = msgspec.json.Decoder(list[str])


class DatasetLayout:
    """The columns behind the six of the dataset format.

    A kept field whose values are all text becomes a column of text. Any other becomes a column of JSON, marked as such so that
    it comes back as what it was.

    Attributes:
        kept: Name of a kept field -> how it is written, in the order of their appearance.
    """

    def __init__(self) -> None:
        self.kept: dict[str, Literal["text", "json"]] = {}

    def covers(self, batch: TaskBatch) -> bool:
        """Learn from a batch; whether the layout was wide enough for it before."""
        same = True
        for name, column in batch.columns.items():
            if name in TASK_FIELDS:
                continue
            kind: Literal["text", "json"] = "text"
            if self.kept.get(name) == "json" or any(text is not None and text[:1] != b'"' for text in column):
                kind = "json"
            if self.kept.get(name) != kind:
                self.kept[name] = kind
                same = False
        return same

    def schema(self) -> pa.Schema:
        """The columns as Arrow knows them."""
        fields = [pa.field(name, pa.string()) for name in TASK_FIELDS]
        for name, kind in self.kept.items():
            fields.append(pa.field(name, pa.string(), metadata={JSON_MARK: b"json"} if kind == "json" else None))
        return pa.schema(fields)

    def record_batch(self, batch: TaskBatch) -> pa.RecordBatch:
        """The usable tasks of a batch as rows."""
        columns = [_from_texts(batch.ids), _from_texts(batch.prompts)]
        columns += [text_column(batch.columns[name]) for name in TASK_FIELDS[2:]]
        for name, kind in self.kept.items():
            column = batch.columns.get(name, [None] * len(batch.ids))
            if kind == "text":
                texts = iter(_TEXTS.decode(b"[%b]" % b",".join(text for text in column if text is not None)))
                column = [None if text is None else next(texts).encode() for text in column]
            columns.append(text_column(column))
        return pa.record_batch(columns, schema=self.schema())


def text_column(texts: Sequence[bytes | None]) -> pa.StringArray:
    """A column from UTF-8 texts. `pyarrow.array` would do, but it imports pandas, which takes longer than 100 000 tasks."""
    present: Sequence[bytes] = texts  # type: ignore[assignment]
    validity = None
    first = texts[0] if texts else None
    if first is not None and texts.count(first) == len(texts):  # found out by identity where it is one object
        step = len(first)
        offsets = np.arange(0, step * len(texts) + 1, step, dtype=np.int32) if step else np.zeros(len(texts) + 1, np.int32)
        return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(first * len(texts)))
    if None in texts:
        present = [text or b"" for text in texts]
        bits = int("".join("0" if text is None else "1" for text in reversed(texts)), 2)
        validity = pa.py_buffer(bits.to_bytes((len(texts) + 7) // 8, "little"))
    return pa.StringArray.from_buffers(len(texts), _offsets(present), pa.py_buffer(b"".join(present)), validity)


def _offsets(texts: Sequence[bytes] | Sequence[str]) -> pa.Buffer:
    """Where each text begins when they stand one after the other, and where the last ends."""
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, texts), np.int32, len(texts)), out=offsets[1:])
    return pa.py_buffer(offsets)


def _from_texts(texts: Sequence[str]) -> pa.StringArray:
    data = "".join(texts)
    if not data.isascii():
        return text_column(list(map(str.encode, texts)))
    return pa.StringArray.from_buffers(len(texts), _offsets(texts), pa.py_buffer(data.encode()))


def native_rows(rows: pa.RecordBatch) -> list[bytes]:
    """Rows as tasks the way people write them: one JSON object each, with nested objects and without what says nothing."""
    encode = msgspec.json.encode
    texts = [rows.column(place).to_pylist() for place in range(rows.num_columns)]
    heads = [encode(name) + b":" for name in rows.schema.names]
    given = [name in TASK_FIELDS[2:] or bool(field.metadata) for name, field in zip(rows.schema.names, rows.schema, strict=True)]
    made = []
    for row in range(rows.num_rows):
        parts = []
        for head, is_json, column in zip(heads, given, texts, strict=True):
            value = column[row]
            if value is None or (is_json and value == "{}" and head in (b'"setup_tool":', b'"metadata":')):
                continue
            parts.append(head + (value.encode() if is_json else encode(value)))
        made.append(b"{%b}" % b",".join(parts))
    return made
