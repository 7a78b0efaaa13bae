"""JSON as people write it: indented, and lists of numbers and words on one line where they fit."""

from __future__ import annotations

import json
from typing import Any

WIDTH = 72
"""Cells of a list that is kept on one line, indentation included."""


def pretty(value: Any) -> str:
    """A value as indented JSON. What JSON cannot hold is shown as Python writes it.

    A list of numbers, words and the like stands on one line where it fits; a list of such lists has one of them a line.
    """
    try:
        return "\n".join(_lines(value, "", ""))
    except (RecursionError, ValueError, TypeError):
        return json.dumps(value, ensure_ascii=False, indent=2, default=repr)


def _lines(value: Any, margin: str, lead: str) -> list[str]:
    if not isinstance(value, dict | list) or not value:
        return [f"{margin}{lead}{_plain(value)}"]
    if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
        line = f"{margin}{lead}{_plain(value)}"
        if len(line) <= WIDTH:
            return [line]
    inner = margin + "  "
    if isinstance(value, dict):
        items = [_lines(item, inner, f"{_plain(name if isinstance(name, str) else str(name))}: ") for name, item in value.items()]
    else:
        items = [_lines(item, inner, "") for item in value]
    for item in items[:-1]:
        item[-1] += ","
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return [f"{margin}{lead}{opening}", *(line for item in items for line in item), f"{margin}{closing}"]


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)
