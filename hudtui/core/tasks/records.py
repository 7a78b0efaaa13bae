"""Records out of JSON text by the thousand, as columns of raw values.

Most files are written by machines: every record has the same fields, and every comma and colon is spaced in the same way. So one
struct fits all records, and the lengths of the values, keys and punctuation add up to the length of the text, unless a field
stands in a record twice: duplicate keys are noticed without looking at a single record. Whatever is not so is made compact first,
or read as dicts.

Imports msgspec: import this module late.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

Kind = Literal["plain", "raw", "dicts"]
"""Structs with `id` and `prompt` as texts, structs of raw values, or dicts of raw values."""

_ROWS = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


@dataclass(slots=True)
class Parsed:
    """Records of an array as msgspec made them."""

    text: bytes
    rows: list[Any]
    kind: Kind
    compact: bool
    """The text has no white space between its tokens."""


class _Shape:
    """Records that all have the same fields, as structs: quicker than dicts, and a record with other fields is noticed."""

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = keys
        self._names = [f"f{number}" for number in range(len(keys))]
        self._getters = [operator.attrgetter(name) for name in self._names]
        self._heads = [b'"%b"' % key.encode() for key in keys]
        self.raw = self._decoder({})
        # Where nothing is escaped, the length of a text in JSON is known from the text itself.
        self.plain = self._decoder({"id": str, "prompt": str}) if "prompt" in keys else None

    def _decoder(self, kinds: dict[str, type]) -> msgspec.json.Decoder[list[Any]]:
        made = msgspec.defstruct(
            "Record",
            [(name, kinds.get(key, msgspec.Raw)) for name, key in zip(self._names, self.keys, strict=True)],
            rename=dict(zip(self._names, self.keys, strict=True)),
            forbid_unknown_fields=True,
            gc=False,
        )
        return msgspec.json.Decoder(list[made])  # type: ignore[valid-type]

    def columns(self, parsed: Parsed) -> tuple[dict[str, list[Any]], bool] | None:
        """The fields as columns, and whether their JSON has white space between its tokens.

        None if the records do not add up to the text: one has a field twice, or they are not all spaced in the same way.
        """
        columns: dict[str, list[Any]] = {}
        firsts: list[int] = []
        total = 0
        for key, getter in zip(self.keys, self._getters, strict=True):
            columns[key] = values = list(map(getter, parsed.rows))
            quotes = 2 if parsed.kind == "plain" and key in ("id", "prompt") else 0
            firsts.append(len(values[0]) + quotes)
            total += sum(map(len, values)) + quotes * len(values)
        spacing = self._spacing(parsed, firsts)
        if spacing is None:
            return None
        around, colon, comma, between = spacing
        record = 2 + sum(map(len, self._heads)) + colon * len(firsts) + comma * (len(firsts) - 1)
        many = len(parsed.rows)
        if 2 + around + many * record + (many - 1) * between + total != len(parsed.text):
            return None
        return columns, colon + comma > 2

    def _spacing(self, parsed: Parsed, firsts: list[int]) -> tuple[int, int, int, int] | None:
        """How the first record is spaced: white space around all, lengths of a colon, of a comma, and of what is between records.

        Args:
            parsed: The records.
            firsts: Lengths of the values of the first one, in the order of the fields.
        """
        if parsed.compact:
            return 0, 1, 1, 1
        text = parsed.text
        head, tail = text[1:1025], text[-1025:-1]
        start = 1 + len(head) - len(head.lstrip())
        place = start + 1 + len(self._heads[0])
        if text[start:place] != b"{" + self._heads[0] or text[place] != 58:
            return None
        colon = 2 if text[place + 1] == 32 else 1
        place += colon + firsts[0]
        comma = 2 if text[place] == 44 and text[place + 1] == 32 else 1
        end = start + 2 + sum(map(len, self._heads)) + colon * len(firsts) + comma * (len(firsts) - 1) + sum(firsts)
        between = text.find(b"{", end, end + 16) - end if len(parsed.rows) > 1 else 1
        return start - 1 + len(tail) - len(tail.rstrip()), colon, comma, between


class Parser:
    """Turns text into records, and remembers how the records before were made."""

    def __init__(self) -> None:
        self._shape: _Shape | None = None
        self._oddly_spaced = 0
        """How many texts were not spaced evenly; from a few on they are made compact at once."""

    def parse(self, text: bytes) -> Parsed | None:
        """The records of a JSON array, or None if it is not one of objects, or not UTF-8."""
        if self._oddly_spaced > 2:
            compact = compacted(text)
            return None if compact is None else self._decoded(compact, compact=True)
        return self._decoded(text, compact=False)

    def _decoded(self, text: bytes, *, compact: bool) -> Parsed | None:
        plain = text.isascii()
        if not plain and not _is_text(text):
            return None
        try:
            if self._shape is not None:
                if self._shape.plain is not None and plain and b"\\" not in text:
                    try:
                        return Parsed(text, self._shape.plain.decode(text), "plain", compact)
                    except msgspec.ValidationError:
                        pass
                try:
                    return Parsed(text, self._shape.raw.decode(text), "raw", compact)
                except msgspec.ValidationError:
                    pass
            return Parsed(text, _ROWS.decode(text), "dicts", compact)
        except (msgspec.DecodeError, RecursionError):
            return None

    def columns(self, parsed: Parsed) -> tuple[dict[str, list[Any]], Kind, bool] | None:
        """The fields of records as columns, of what kind, and whether their JSON has white space between its tokens.

        None if they do not add up to their text: a field stands in a record twice.
        """
        found = self._apart(parsed)
        if found is None and not parsed.compact:
            self._oddly_spaced += parsed.kind != "dicts"
            compact = compacted(parsed.text)
            again = self._decoded(compact, compact=True) if compact is not None else None
            if again is None:
                return None
            parsed, found = again, self._apart(again)
        return (found[0], parsed.kind, found[1]) if found is not None else None

    def _apart(self, parsed: Parsed) -> tuple[dict[str, list[Any]], bool] | None:
        """The columns of records, and whether their JSON is spaced; None if they do not add up to their text."""
        if parsed.kind != "dicts":
            assert self._shape is not None
            return self._shape.columns(parsed)
        rows = parsed.rows
        if not parsed.compact or not all(rows):
            return None
        keys = dict.fromkeys(key for row in rows for key in row)
        self._shape = _Shape(tuple(keys)) if sum(map(len, rows)) == len(rows) * len(keys) else None
        columns: dict[str, list[bytes | None]] = {}
        # Brackets and commas, then every key with its quotes and colon, then the values.
        length = 1 + 2 * len(rows) + sum(map(len, rows))
        for key in keys:
            column = [None if (raw := row.get(key)) is None else bytes(raw) for row in rows]
            present = [text for text in column if text is not None]
            length += len(present) * (len(key.encode()) + 3) + sum(map(len, present))
            columns[key] = column
        return (columns, False) if length == len(parsed.text) else None


def compacted(text: bytes) -> bytes | None:
    """Valid JSON without white space between its tokens; None for what is not valid."""
    try:
        return msgspec.json.format(text, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        return None


def _is_text(data: bytes) -> bool:
    """Whether it is UTF-8, which the parser does not check in what it skips."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
