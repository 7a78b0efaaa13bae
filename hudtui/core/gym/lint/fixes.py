"""Carrying out the certain fixes of findings.

Edits of the text that leave everything else as it stands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hudtui.core.environment.values import Tool
from hudtui.core.files import edit_text
from hudtui.core.gym.config import parse_config
from hudtui.core.gym.lint.check import lint
from hudtui.core.gym.lint.findings import Finding, Fix, TextEdit, errors_of

_BREAK = re.compile(r"\r\n|\r|\n")
_MOST_ROUNDS = 10


@dataclass(frozen=True)
class FixResult:
    """A text after its fixes."""

    text: str
    findings: tuple[Finding, ...]
    """Findings of the new text."""
    applied: tuple[Finding, ...]
    """Findings that were fixed, in the order of the fixes."""


def apply_fixes(text: str, findings: Iterable[Finding]) -> str:
    r"""Return `text` with the fixes of `findings` applied.

    A fix that overlaps with an earlier one is left for the next time, and so is one whose place the
    text does not have. Line ends (`\n`, `\r\n`) stay as they are.
    """
    return _apply(text, findings)[0]


def fix_text(text: str, *, name: str, tools: Mapping[str, Tool] | None = None) -> FixResult:
    """Check a configuration and apply its fixes until none is left.

    A fix that does not remove its finding, or that makes the text harder to read than it was, is
    not kept.
    """
    findings = lint(text, name=name, tools=tools)
    applied: list[Finding] = []
    refused: set[tuple[str, Fix]] = set()
    for _ in range(_MOST_ROUNDS):
        wanted = [
            each
            for each in findings
            if each.fix is not None and (each.code, each.fix) not in refused
        ]
        if not wanted:
            break
        for batch in [wanted] if len(wanted) == 1 else [wanted, *([each] for each in wanted)]:
            changed, done = _apply(text, batch)
            after = lint(changed, name=name, tools=tools)
            if done and _better(text, changed, done, after, name):
                text, findings = changed, after
                applied += done
                break
            if len(batch) == 1 and batch[0].fix is not None:
                refused.add((batch[0].code, batch[0].fix))
    return FixResult(text, findings, tuple(applied))


def fix_file(path: Path | str, *, tools: Mapping[str, Tool] | None = None) -> FixResult:
    """`fix_text` for a file, in place and in one step.

    Its encoding and its line ends stay; an unchanged file is not written.

    Raises:
        InputError: The file cannot be read or written.
    """
    fixed: list[FixResult] = []

    def edit(text: str) -> str:
        fixed.append(fix_text(text, name=os.fspath(path), tools=tools))
        return fixed[0].text

    edit_text(path, edit)
    return fixed[0]


def _better(
    before: str, after: str, done: Iterable[Finding], remaining: Iterable[Finding], name: str
) -> bool:
    """True if the fixed findings are gone and no mapping has become unreadable.

    Findings that appear only now were hidden.
    """
    fixed = set(map(_same, done))
    if not fixed.isdisjoint(map(_same, remaining)):
        return False
    return _count_errors(after, name) <= _count_errors(before, name)


def _count_errors(text: str, name: str) -> int:
    _, findings = parse_config(text, name=name)
    return len(errors_of(findings))


def _same(finding: Finding) -> tuple[object, ...]:
    return finding.code, finding.mapping, finding.parameter, finding.message


def _apply(text: str, findings: Iterable[Finding]) -> tuple[str, list[Finding]]:
    starts = [0, *(match.end() for match in _BREAK.finditer(text))]
    ends = [*(match.start() for match in _BREAK.finditer(text)), len(text)]
    taken: list[tuple[int, int, str]] = []
    done: list[Finding] = []
    for finding in findings:
        if finding.fix is None:
            continue
        spans = [_span(edit, starts, ends) for edit in finding.fix.edits]
        places = [span for span in spans if span is not None]
        if len(places) < len(spans) or any(
            _overlap(place, other) for place in places for other in taken
        ):
            continue
        taken += places
        done.append(finding)
    newline = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    for start, end, new in sorted(taken, reverse=True):
        text = text[:start] + new.replace("\n", newline) + text[end:]
    return text, done


def _span(edit: TextEdit, starts: list[int], ends: list[int]) -> tuple[int, int, str] | None:
    if not (1 <= edit.line <= len(starts) and 1 <= edit.end_line <= len(starts)):
        return None
    start = starts[edit.line - 1] + edit.column - 1
    end = starts[edit.end_line - 1] + edit.end_column - 1
    if start > end or start > ends[edit.line - 1] or end > ends[edit.end_line - 1]:
        return None
    return start, end, edit.text


def _overlap(one: tuple[int, int, str], two: tuple[int, int, str]) -> bool:
    """True if two edits touch the same characters, or put something in at the same place."""
    start, end, _ = one
    other_start, other_end, _ = two
    return start == other_start or max(start, other_start) < min(end, other_end)
