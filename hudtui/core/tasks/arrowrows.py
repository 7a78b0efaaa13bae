"""Rows of Parquet and Arrow tables as records.

In the dataset format the columns hold JSON text; tables made from nested data hold structs instead, with a null for every key
that only other rows have.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from hudtui.core.tasks.columns import JSON_FIELDS, compact
from hudtui.core.tasks.rules import without_nulls
from hudtui.core.tasks.validate import TASK_FIELDS

JSON_MARK = b"hudtui"
"""Key in the metadata of a column whose texts are JSON (`json`), so that kept fields come back as what they were."""


def is_json(field: pa.Field) -> bool:
    """Whether every text of a column is JSON."""
    marked = (field.metadata or {}).get(JSON_MARK) == b"json"
    return marked or getattr(field.type, "extension_name", "") == "arrow.json"


class ArrowRows:
    """A record batch on its way to the checks."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.schema = batch.schema
        self.count = batch.num_rows
        self._lists: dict[str, list[Any]] = {}
        for field, column in zip(batch.schema, batch.columns, strict=True):
            values = column.storage if isinstance(column, pa.ExtensionArray) else column
            listed = values.to_pylist()
            if pa.types.is_nested(values.type):
                listed = [without_nulls(value) for value in listed]
            self._lists[field.name] = listed

    def columns(self) -> tuple[list[str | int | None], list[str], dict[str, list[bytes | None]]] | None:
        """Ids, prompts and the other columns as JSON text, for `Checker.values`; None if the quick way cannot take them."""
        ids = self._lists.get("id", [None] * self.count)
        prompts = self._lists.get("prompt", [None])
        if not all(type(prompt) is str for prompt in prompts) or not all(type(name) in (str, int, type(None)) for name in ids):
            return None
        columns: dict[str, list[bytes | None]] = {}
        for name, values in self._lists.items():
            if name in ("id", "prompt"):
                continue
            given = name in JSON_FIELDS or is_json(self.schema.field(name))
            try:
                known: dict[Any, bytes] = {}
                columns[name] = [
                    None if value is None else _given(value, known) if given and type(value) is str else _text(value)
                    for value in values
                ]
            except (TypeError, ValueError, OverflowError, RecursionError):  # no JSON, or what JSON has no word for
                return None
        return ids, prompts, columns

    def record(self, row: int) -> Mapping[str, Any]:
        """One row as the record of a task file."""
        made: dict[str, Any] = {}
        for name, values in self._lists.items():
            value = values[row]
            if value is None:
                continue
            if name not in TASK_FIELDS and isinstance(value, str) and is_json(self.schema.field(name)):
                with contextlib.suppress(ValueError, RecursionError):  # marked wrongly: the text itself is kept
                    value = json.loads(value)
            elif not isinstance(value, (str, int, float, bool, dict, list)):
                value = str(value)
            made[name] = value
        return made


def _given(text: str, known: dict[Any, bytes]) -> bytes:
    """JSON text as it is, checked and without white space; `known` remembers those that repeat."""
    made = known.get(text)
    if made is None:
        made = msgspec.json.format(text, indent=-1).encode() if text.strip() else b""
        if len(known) < 256:
            known[text] = made
    return made


def _text(value: Any) -> bytes:
    """`compact`, many times as fast; not for NaN, which it would call null."""
    text = msgspec.json.encode(value)
    return compact(value) if b"null" in text else text
