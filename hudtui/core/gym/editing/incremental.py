"""The meaning of a configuration while it is being edited: only what changed is read again.

A text is split by its lines into its top-level sections, and `action_mappings` into its entries. Each part is read by
`parse_config` on its own and remembered by its text, so that a keystroke costs the reading of one part. Where a text cannot be
split like that, or a part cannot be read alone (an alias of another part, for example), `IncrementalReading.config` is
None, and `parse_config` on the whole text decides.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True)
class _Last:
    """The text that was read last, to be compared with the next text."""

    lines: Sequence[str]
    parts: list[TextPart]
    config: GymConfig


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
            entries.append(OutlineEntry(_unquoted(found[1] or found[2].rstrip()), part.line, part.action))
    return tuple(entries)


def _unquoted(name: str) -> str:
    return name[1:-1] if len(name) > 1 and name[0] in "\"'" and name[-1] == name[0] else name


class IncrementalReader:
    """Reads one configuration again and again. Not for concurrent use.

    Args:
        name: What findings and the configuration call the text.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._known: dict[tuple[str, bool], GymConfig | None] = {}
        self._last: _Last | None = None

    def read(self, lines: Sequence[str], *, most: int | None = None) -> GymConfig | None:
        """The meaning of a text; None where the text has to be read as a whole. Never raises.

        Args:
            lines: The text, not to be changed afterwards.
            most: Characters that may be parsed now. Where more characters are new, nothing is read.
        """
        if self._last is not None and (most is None or most > 0):
            changed = self._within_one_entry(self._last, lines)
            if changed is not None:
                self._last = changed
                return changed.config
        parts, whole = split_parts(lines)
        if not whole or not parts:
            return None
        if most is not None and sum(len(part.text) for part in parts if (part.text, part.action) not in self._known) > most:
            return None
        if len(self._known) > _MOST_REMEMBERED + len(parts):
            self._known.clear()
        config = self._put_together(parts)
        if config is not None:
            self._last = _Last(lines, parts, config)
        return config

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

    def _within_one_entry(self, last: _Last, lines: Sequence[str]) -> _Last | None:
        """The new meaning, where nothing changed but the inside of one entry; None where anything else changed."""
        before = last.lines
        shorter = min(len(before), len(lines))
        first = next((row for row in range(shorter) if before[row] is not lines[row] and before[row] != lines[row]), shorter)
        if first == len(before) == len(lines):
            return last
        same = 0
        while same < shorter - first and before[-1 - same] == lines[-1 - same]:
            same += 1
        parts = last.parts
        index = bisect_right(parts, first, key=lambda part: part.line) - 1
        if index < 0 or not parts[index].action:
            return None
        part = parts[index]
        end = parts[index + 1].line if index + 1 < len(parts) else len(before)
        by = len(lines) - len(before)
        if len(before) - same > end or end + by <= part.line:
            return None
        entries, good = _entries(lines, part.line, end + by)
        if (
            not good
            or len(entries) != 1
            or entries[0].line != part.line
            or _indent(lines[part.line]) != _indent(before[part.line])
        ):
            return None
        if any(line and line[0] not in _CONTINUES and not line.isspace() for line in lines[part.line : end + by]):
            return None
        old, new = self._read_part(part), self._read_part(entries[0])
        if old is None or new is None or old.raw[MAPPINGS].keys() != new.raw.get(MAPPINGS, {}).keys():
            return None
        (name,) = new.raw[MAPPINGS]
        moved = [*parts[:index], entries[0], *(replace(one, line=one.line + by) if by else one for one in parts[index + 1 :])]
        if (name in old.mappings) != (name in new.mappings):
            whole = self._put_together(moved)  # a mapping that became valid or invalid has its place among the others
            return None if whole is None else _Last(lines, moved, whole)
        config = replace(
            last.config,
            mappings={**last.config.mappings, **new.mappings},
            invalid={**last.config.invalid, **new.invalid},
            partial={**last.config.partial, **new.partial},
            raw={**last.config.raw, MAPPINGS: {**last.config.raw[MAPPINGS], **new.raw[MAPPINGS]}},
        )
        return _Last(lines, moved, config)

    def _read_part(self, part: TextPart) -> GymConfig | None:
        key = (part.text, part.action)
        if key not in self._known:
            self._known[key] = parse_config(part.text, name=self.name)[0]
        return self._known[key]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
