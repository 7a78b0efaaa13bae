"""JSON as people write it: indented, and lists of numbers and words on one line where they fit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec

WIDTH = 72
"""Cells of a list that is kept on one line, indentation included."""
_ITEM = r'(?:"[^"\\]*(?:\\.[^"\\]*)*"|[^\s",\[\]{}]+)'
_PLAIN_LIST = re.compile(rf"\[\n +({_ITEM}(?:,\n +{_ITEM}){{0,{WIDTH // 3}}})\n *\]")
"""A list of numbers, words and the like that may fit on one line. Line ends inside of texts are
escaped."""
_BREAK = re.compile(r",\n +")


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
