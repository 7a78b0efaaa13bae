"""JSON as people write it: indented, and lists of numbers and words on one line where they fit."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import islice
from typing import Any

import msgspec

WIDTH = 72
"""Cells of a list that is kept on one line, indentation included."""
_ITEM = r'(?:"[^"\\]*(?:\\.[^"\\]*)*"|[^\s",\[\]{}]+)'
_PLAIN_LIST = re.compile(rf"\[\n +({_ITEM}(?:,\n +{_ITEM}){{0,{WIDTH // 3}}})\n *\]")
"""A list of numbers, words and the like that may fit on one line. Line ends inside of texts are
escaped."""
_BREAK = re.compile(r",\n +")
_OPENING = re.compile(r"\{|^\s*\[")
"""Where the JSON in a line may begin: a list only at the line's beginning."""
_OPENINGS = 8
"""How many of these places are tried."""
_PYTHON = 100_000
"""Longest dictionary of Python in a line, in characters."""


def pretty(value: Any) -> str:
    """A value, such as a frozen one of hudtui, as indented JSON.

    What JSON cannot hold is shown as Python writes it. A list of numbers, words and the like stands
    on one line where it fits; a list of such lists has one of them a line.
    """
    try:  # the quick way, for records of megabytes
        text = msgspec.json.format(json.dumps(value, ensure_ascii=False, default=_plain), indent=2)
    except (msgspec.MsgspecError, ValueError, TypeError):  # such as NaN
        text = json.dumps(value, ensure_ascii=False, indent=2, default=_plain)
    return _PLAIN_LIST.sub(_on_one_line, text)


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return dict(value) if isinstance(value, Mapping) else repr(value)


def _on_one_line(match: re.Match[str]) -> str:
    line = f"[{_BREAK.sub(', ', match[1])}]"
    before = match.start() - match.string.rfind("\n", 0, match.start()) - 1
    return line if before + len(line) <= WIDTH else match[0]


def value_in_line(line: str) -> dict[Any, Any] | list[Any] | None:
    """Return the object or list in a line of a log, also behind other words.

    It is JSON, or a dictionary as Python prints it. None for any other line.
    """
    for match in islice(_OPENING.finditer(line), _OPENINGS):
        for read in (_json_at, _python_at):
            found = read(line, match.end() - 1)
            if isinstance(found, dict | list) and found:
                return found
    return None


def value_of_line(line: str) -> dict[Any, Any] | list[Any] | None:
    """Return the object or list that is all of a line of a log.

    It is JSON, or as Python prints it. None for a line with other words, and for an empty one.
    """
    text = line.strip()
    if text[:1] + text[-1:] not in ("{}", "[]"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = _python_at(text, 0)
    return found if isinstance(found, dict | list) and found else None


def _json_at(line: str, place: int) -> Any:
    try:
        return json.JSONDecoder().raw_decode(line, place)[0]
    except (ValueError, RecursionError):
        return None


def _python_at(line: str, place: int) -> Any:
    end = line.rfind("}" if line[place] == "{" else "]") + 1
    if end <= place or end - place > _PYTHON:
        return None
    try:
        return ast.literal_eval(line[place:end])
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None
