"""Findings about a gym configuration, as values with a place in its text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from hudtui.core.yaml_doc import YamlDocument, YamlPath

MAPPINGS = "action_mappings"

Severity = Literal["error", "warning", "info"]
"""An error keeps the configuration, or the mapping it names, from being used. A warning or an info
does not."""


@dataclass(frozen=True)
class TextEdit:
    """Replace a range of the configuration's text.

    Lines and columns count from 1; the end is exclusive.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True)
class Fix:
    """A change that certainly removes the finding, and changes nothing else."""

    title: str
    """Title of the change, as an order: `rename to "click"`."""
    edits: tuple[TextEdit, ...]


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
    """End of the marked text on `line` (exclusive); None for the end of the line."""
    mapping: str | None = None
    """The action that the finding is about."""
    parameter: str | None = None
    """The parameter of that action."""
    fix: Fix | None = None
    guess: Fix | None = None
    """A change that is likely meant, where none is certain: what "did you mean" suggests. Carried
    out only when asked for."""

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
        words = f"{where}: {self.message}" if where else self.message
        return f"{name}:{self.line}:{self.column}: {self.severity}[{self.code}] {words}"

    def to_json(self) -> dict[str, Any]:
        """Return the finding as `hudtui config check --json` prints it."""
        return asdict(self)


def errors_of(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings that keep something from being used."""
    return tuple(finding for finding in findings if finding.severity == "error")


class FindingLog:
    """Collects the findings about one document."""

    def __init__(self, document: YamlDocument) -> None:
        self.document = document
        self.findings: list[Finding] = []

    def add(
        self,
        code: str,
        severity: Severity,
        message: str,
        path: YamlPath,
        *,
        at_value: bool = False,
        place: tuple[int, int] | None = None,
        parameter: str | None = None,
        fix: Fix | None = None,
        guess: Fix | None = None,
    ) -> None:
        """Add a finding at the key of `path`, at its value, or at `place` (line and column).

        The path also tells the action and its parameter; `parameter` where the parameter is not in
        the document.
        """
        mark = self.document.value_mark(path) if at_value else self.document.mark(path)
        line, column = place or (mark.line, mark.column)
        end = mark.end_column if place is None and mark.end_line == line else None
        mapping = None
        if len(path) >= 2 and path[0] == MAPPINGS:
            mapping = str(path[1])
            if len(path) >= 3 and not str(path[2]).startswith("_"):
                parameter = str(path[2])
        self.findings.append(
            Finding(
                code,
                severity,
                clean_line(message, 400),
                line,
                column,
                end,
                mapping,
                parameter,
                fix,
                guess,
            )
        )
