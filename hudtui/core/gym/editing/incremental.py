"""The meaning of a configuration while it is being edited: only what changed is read again.

A text is split by its lines into its top-level sections, and `action_mappings` into its entries. Each part is read by
`parse_config` on its own and remembered by its text, so that a keystroke costs the reading of one part. Where a text cannot be
split like that, or a part cannot be read alone (an alias of another part, for example), `IncrementalReader.read` returns None,
and `parse_config` on the whole text decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hudtui.core.gym.config import parse_config
from hudtui.core.gym.lint.findings import MAPPINGS
from hudtui.core.gym.values import ActionMapping, GymConfig

_HEADER = re.compile(r"action_mappings\s*:\s*(?:#.*)?\Z")
_NAME = re.compile(r"""\s*+(?:("[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^']*+(?:''[^']*+)*+')\s*+|([^\s#:][^:#]*+)):(?:\s|\Z)""")
_MOST_REMEMBERED = 4_000
_CONTINUES = " \t#-]})"
"""First characters of lines that continue a section."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A stretch of whole lines: a section, or one entry of `action_mappings`."""

    line: int
    """Its first line, from 0."""
    text: str
    action: bool


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A line of the outline."""

    name: str
    line: int
    """From 0."""
    action: bool
    """An action; else a section of the document."""


_FIELDS: Mapping[str, tuple[str, ...]] = {
    "job": ("job",),
    "system_prompt": ("system_prompt",),
    "examples": ("examples",),
    "parser": ("parser",),
    "rubric": ("weights", "reward"),
    "defaults": ("max_turns",),
    "allow_unmapped": ("allow_unmapped",),
}


def split_parts(lines: Sequence[str]) -> tuple[list[TextPart], bool]:
    """Split a text into its parts.

    Returns:
        The parts, and whether every line has its place in one of them or is blank or a comment.
    """
    starts = [row for row, line in enumerate(lines) if line and line[0] not in _CONTINUES and not line.isspace()]
    whole = True
    for row in range(starts[0] if starts else len(lines)):
        line = lines[row].strip()
        whole = whole and (not line or line.startswith("#"))
    parts: list[TextPart] = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(lines)
        if _HEADER.match(lines[start].rstrip("\r")):
            entries, good = _entries(lines, start + 1, end)
            if entries:
                parts += entries
                whole = whole and good
                continue
        parts.append(TextPart(start, "\n".join(lines[start:end]) + "\n", False))
    return parts, whole


def _entries(lines: Sequence[str], start: int, end: int) -> tuple[list[TextPart], bool]:
    indent = 0
    begins: list[int] = []
    whole = True
    for row in range(start, end):
        line = lines[row]
        if not indent:
            bare = line.lstrip(" ")
            if not bare or bare[0] in "#\r":
                continue
            indent = len(line) - len(bare)
            if not indent or bare[0] in "-\t":
                return [], False
            margin = " " * indent
            begins.append(row)
        elif line.startswith(margin):
            after = line[indent : indent + 1]
            if after and after not in " #\r-\t":
                begins.append(row)
        elif line and not line.isspace() and line.lstrip(" ")[0] != "#":
            whole = False
    parts = []
    for number, begin in enumerate(begins):
        last = begins[number + 1] if number + 1 < len(begins) else end
        parts.append(TextPart(begin, MAPPINGS + ":\n" + "\n".join(lines[begin:last]) + "\n", True))
    return parts, whole


def outline(lines: Sequence[str]) -> tuple[OutlineEntry, ...]:
    """Return the sections and actions of a text, in their order; the text need not parse."""
    parts, _ = split_parts(lines)
    entries: list[OutlineEntry] = []
    inside = False
    header: int | None = None
    looked = 0
    for part in parts:
        if part.action and not inside:
            header = max((row for row in range(looked, part.line) if lines[row].startswith(MAPPINGS)), default=header)
            looked = part.line
            entries.append(OutlineEntry(MAPPINGS, part.line if header is None else header, False))
        inside = part.action
        found = _NAME.match(lines[part.line])
        if found is not None:
            entries.append(OutlineEntry(unquoted(found[1] or found[2].rstrip()), part.line, part.action))
    return tuple(entries)


def unquoted(name: str) -> str:
    """A key without its quotation marks."""
    return name[1:-1] if len(name) > 1 and name[0] in "\"'" and name[-1] == name[0] else name


class IncrementalReader:
    """Reads one configuration again and again. Not for concurrent use."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._known: dict[tuple[str, bool], GymConfig | None] = {}

    def read(self, lines: Sequence[str], *, most: int | None = None) -> GymConfig | None:
        """The meaning of a text; None where the text has to be read as a whole. Never raises.

        Args:
            lines: The text.
            most: Characters that may be parsed now. Where more characters are new, nothing is read.
        """
        parts, whole = split_parts(lines)
        if not whole or not parts:
            return None
        if most is not None and sum(len(part.text) for part in parts if (part.text, part.action) not in self._known) > most:
            return None
        if len(self._known) > _MOST_REMEMBERED + len(parts):
            self._known.clear()
        return self._put_together(parts)

    def _put_together(self, parts: Sequence[TextPart]) -> GymConfig | None:
        values: dict[str, Any] = {}
        raw: dict[str, Any] = {}
        entries: dict[str, Any] = {}
        mappings: dict[str, ActionMapping] = {}
        invalid: dict[str, str] = {}
        partial: dict[str, ActionMapping] = {}
        for part in parts:
            config = self._read_part(part)
            if config is None or len(config.raw) != 1:
                return None
            ((key, value),) = config.raw.items()
            if part.action:
                if not isinstance(value, Mapping) or len(value) != 1 or not value.keys().isdisjoint(entries):
                    return None
                entries.update(value)
            elif key in raw:
                return None
            else:
                raw[key] = value
                values.update((field, getattr(config, field)) for field in _FIELDS.get(key, ()))
            mappings.update(config.mappings)
            invalid.update(config.invalid)
            partial.update(config.partial)
        if entries:
            if MAPPINGS in raw:
                return None
            raw[MAPPINGS] = entries
        return GymConfig(**values, mappings=mappings, invalid=invalid, partial=partial, raw=raw, path=self.name)

    def _read_part(self, part: TextPart) -> GymConfig | None:
        key = (part.text, part.action)
        if key not in self._known:
            self._known[key] = parse_config(part.text, name=self.name)[0]
        return self._known[key]
