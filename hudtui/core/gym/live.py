"""The meaning of a configuration while it is being edited: only what changed is read again.

A text is split by its lines into its top-level sections, and `action_mappings` into its entries. Each part is read by
`parse_config` on its own and remembered by its text, so that a keystroke costs the reading of one part. Where a text cannot be
split like that, or a part cannot be read alone (an alias of another part, for example), nothing is claimed: `Reading.config` is
None, and `parse_config` on the whole text decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hudtui.core.gym.config import parse_config
from hudtui.core.gym.findings import Finding
from hudtui.core.gym.values import GymConfig

MAPPINGS = "action_mappings"
_HEADER = re.compile(r"action_mappings\s*:\s*(?:#.*)?\Z")
_NAME = re.compile(r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#:][^:#]*?)\s*:(?:\s|\Z)""")
_MOST_REMEMBERED = 4_000
_CONTINUES = " \t#-]})"
"""First characters of a line that does not begin a section."""


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of whole lines: a section, or one entry of `action_mappings`."""

    line: int
    """Its first line, from 0."""
    text: str
    action: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the outline."""

    name: str
    line: int
    """From 0."""
    action: bool
    """An action; else a section of the document."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text means, as far as its parts say."""

    config: GymConfig | None
    """None when it has to be asked of the whole text."""
    findings: tuple[Finding, ...] = ()
    """What reading the parts found; `lint` finds more."""


@dataclass(frozen=True, slots=True)
class _Known:
    config: GymConfig | None
    findings: tuple[Finding, ...] = ()


@dataclass
class _Whole:
    """Sections put together."""

    values: dict[str, Any] = field(default_factory=dict)
    raw: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


_FIELDS: Mapping[str, str] = {
    "job": "job",
    "system_prompt": "system_prompt",
    "parser": "parser",
    "rubric": "weights",
    "defaults": "max_turns",
    "allow_unmapped": "allow_unmapped",
}


def split(lines: Sequence[str]) -> tuple[list[Part], bool]:
    """The parts of a text.

    Returns:
        The parts, and whether every line has its place in one of them or is blank or a comment.
    """
    starts = [row for row, line in enumerate(lines) if line and line[0] not in _CONTINUES and not line.isspace()]
    whole = True
    for row in range(starts[0] if starts else len(lines)):
        line = lines[row].strip()
        whole = whole and (not line or line.startswith("#"))
    parts: list[Part] = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(lines)
        if _HEADER.match(lines[start].rstrip("\r")):
            entries, good = _entries(lines, start + 1, end)
            if entries:
                parts += entries
                whole = whole and good
                continue
        parts.append(Part(start, "\n".join(lines[start:end]) + "\n", False))
    return parts, whole


def _entries(lines: Sequence[str], start: int, end: int) -> tuple[list[Part], bool]:
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
        parts.append(Part(begin, MAPPINGS + ":\n" + "\n".join(lines[begin:last]) + "\n", True))
    return parts, whole


def outline(lines: Sequence[str]) -> tuple[Entry, ...]:
    """The sections and actions of a text, in their order; also of one that does not parse."""
    parts, _ = split(lines)
    entries: list[Entry] = []
    inside = False
    for part in parts:
        if part.action and not inside:
            header = next((row for row in range(part.line - 1, -1, -1) if lines[row].startswith(MAPPINGS)), part.line)
            entries.append(Entry(MAPPINGS, header, False))
        inside = part.action
        found = _NAME.match(lines[part.line])
        if found is not None:
            entries.append(Entry(_unquoted(found[1]), part.line, part.action))
    return tuple(entries)


def _unquoted(name: str) -> str:
    return name[1:-1] if len(name) > 1 and name[0] in "\"'" and name[-1] == name[0] else name


class Live:
    """Reads one configuration again and again. Not for concurrent use.

    Args:
        name: What findings and the configuration call the text.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._known: dict[tuple[str, bool], _Known] = {}

    def read(self, lines: Sequence[str], *, most: int | None = None) -> Reading:
        """The meaning of a text. Never raises.

        Args:
            lines: The text.
            most: Characters that may be parsed now. Where more are new, nothing is read and nothing is claimed.
        """
        parts, whole = split(lines)
        if not whole or not parts:
            return Reading(None)
        if most is not None and sum(len(part.text) for part in parts if (part.text, part.action) not in self._known) > most:
            return Reading(None)
        if len(self._known) > _MOST_REMEMBERED + len(parts):
            self._known.clear()
        sections = _Whole()
        mappings: dict[str, Any] = {}
        broken: dict[str, str] = {}
        entries: dict[str, Any] = {}
        good = True
        seen_entries = False
        for part in parts:
            known = self._read_part(part)
            sections.findings += (self._shifted(finding, part) for finding in known.findings)
            config = known.config
            if config is None:
                good = False
                continue
            if not part.action:
                good = self._take(sections, config) and good
                continue
            seen_entries = True
            added = config.raw.get(MAPPINGS)
            if not isinstance(added, Mapping) or len(added) != 1 or not added.keys().isdisjoint(entries):
                good = False
                continue
            entries.update(added)
            mappings.update(config.mappings)
            broken.update(config.broken)
        if seen_entries:
            good = good and MAPPINGS not in sections.raw
            sections.raw[MAPPINGS] = entries
            sections.values.update(mappings=mappings, broken=broken)
        findings = tuple(sections.findings)
        if not good:
            return Reading(None, findings)
        return Reading(GymConfig(**sections.values, raw=sections.raw, path=self.name), findings)

    def _read_part(self, part: Part) -> _Known:
        key = (part.text, part.action)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Known(*parse_config(part.text, name=self.name))
        return known

    @staticmethod
    def _shifted(finding: Finding, part: Part) -> Finding:
        # An entry was read with a line `action_mappings:` above it.
        by = part.line - (1 if part.action else 0)
        return replace(finding, line=finding.line + by, fix=None) if by else finding

    @staticmethod
    def _take(sections: _Whole, config: GymConfig) -> bool:
        if len(config.raw) != 1:
            return False
        (key,) = config.raw
        if key in sections.raw:
            return False
        sections.raw[key] = config.raw[key]
        if key == MAPPINGS:
            sections.values.update(mappings=config.mappings, broken=config.broken)
        elif key in _FIELDS:
            sections.values[_FIELDS[key]] = getattr(config, _FIELDS[key])
        return True
