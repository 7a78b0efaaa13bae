"""What can be wrong with a gym configuration, as values with a place in its text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]
"""An error keeps the configuration, or the mapping it names, from being used. A warning or an info does not."""


@dataclass(frozen=True)
class TextEdit:
    """Replace a range of the configuration's text. Lines and columns count from 1; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True)
class Fix:
    """A change that certainly removes the finding, and changes nothing else."""

    title: str
    """What the change does, as an order: `rename to "click"`."""
    edits: tuple[TextEdit, ...]

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui lint --json`."""
        return {"title": self.title, "edits": [vars(edit) for edit in self.edits]}


@dataclass(frozen=True)
class Finding:
    """One thing to know about a configuration."""

    code: str
    """Stable name of the kind of finding, e.g. `unknown-tool`."""
    severity: Severity
    message: str
    """One sentence without the place."""
    line: int = 1
    column: int = 1
    """Both count from 1."""
    end_column: int | None = None
    """Where the marked text ends on `line` (exclusive); None for the end of the line."""
    mapping: str | None = None
    """The action it is about."""
    parameter: str | None = None
    """The parameter of that action."""
    fix: Fix | None = None
    guess: Fix | None = None
    """A change that is likely meant, where none is certain: what "did you mean" suggests. Carried out only when asked for."""

    @property
    def subject(self) -> str:
        """The place inside the document, as a dotted path; empty for the document as a whole."""
        if self.mapping is None:
            return ""
        path = f"action_mappings.{self.mapping}"
        return path if self.parameter is None else f"{path}.{self.parameter}"

    def render(self, name: str) -> str:
        """One line for a terminal: `config.yaml:12:5: error[unknown-tool] click.x: ...`."""
        where = ".".join(part for part in (self.mapping, self.parameter) if part is not None)
        return f"{name}:{self.line}:{self.column}: {self.severity}[{self.code}] {where + ': ' if where else ''}{self.message}"

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui lint --json`."""
        return {
            "code": self.code,
            "severity": self.severity,
            "message": self.message,
            "line": self.line,
            "column": self.column,
            "end_column": self.end_column,
            "mapping": self.mapping,
            "parameter": self.parameter,
            "fix": None if self.fix is None else self.fix.to_json(),
            "guess": None if self.guess is None else self.guess.to_json(),
        }


def errors_of(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those that keep something from being used."""
    return tuple(finding for finding in findings if finding.severity == "error")
