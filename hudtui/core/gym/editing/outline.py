"""Parts of a configuration's text by its lines alone.

Sections, and the entries of `action_mappings`. The text need not parse.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hudtui.core.gym.lint.findings import MAPPINGS

_HEADER = re.compile(r"action_mappings\s*:\s*(?:#.*)?\Z")
_NAME = re.compile(
    r"""\s*+(?:("[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^']*+(?:''[^']*+)*+')\s*+|([^\s#:][^:#]*+)):(?:\s|\Z)"""
)
_CONTINUES = " \t#-]})"
"""First characters of lines that continue a section."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """The beginning of a section, or of an entry of `action_mappings`."""

    line: int
    """From 0."""
    action: bool


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A line of the outline."""

    name: str
    line: int
    """From 0."""
    action: bool
    """An action; else a section of the document."""


def split_parts(lines: Sequence[str]) -> list[TextPart]:
    """Return the sections of a text in their order.

    The entries of `action_mappings` take the place of that section.
    """
    starts = [
        row
        for row, line in enumerate(lines)
        if line and line[0] not in _CONTINUES and not line.isspace()
    ]
    parts: list[TextPart] = []
    for start, end in zip(
        starts, [*starts[1:], len(lines)], strict=False
    ):  # no parts at all have one end
        is_mappings = _HEADER.match(lines[start].rstrip("\r"))
        entries = _entry_rows(lines, start + 1, end) if is_mappings else []
        parts += [TextPart(row, True) for row in entries] or [TextPart(start, False)]
    return parts


def _entry_rows(lines: Sequence[str], start: int, end: int) -> list[int]:
    """The first row of each entry below a header; empty where they are not written as a block."""
    indent = 0
    rows: list[int] = []
    for row in range(start, end):
        line = lines[row]
        bare = line.lstrip(" ")
        if not bare or bare[0] in "#\r":
            continue
        if not indent:
            indent = len(line) - len(bare)
            if not indent or bare[0] in "-\t":
                return []
            rows.append(row)
        elif len(line) - len(bare) == indent and bare[0] not in "-\t":
            rows.append(row)
    return rows


def outline(lines: Sequence[str]) -> tuple[OutlineEntry, ...]:
    """Return the sections and actions of a text, in their order; the text need not parse."""
    entries: list[OutlineEntry] = []
    inside = False
    header: int | None = None
    searched = 0
    for part in split_parts(lines):
        if part.action and not inside:
            before = range(searched, part.line)
            header = max((row for row in before if lines[row].startswith(MAPPINGS)), default=header)
            searched = part.line
            entries.append(OutlineEntry(MAPPINGS, part.line if header is None else header, False))
        inside = part.action
        key = _NAME.match(lines[part.line])
        if key is not None:
            name = unquoted(key[1] or key[2].rstrip())
            entries.append(OutlineEntry(name, part.line, part.action))
    return tuple(entries)


def unquoted(name: str) -> str:
    """A key without its quotation marks."""
    return name[1:-1] if len(name) > 1 and name[0] in "\"'" and name[-1] == name[0] else name
