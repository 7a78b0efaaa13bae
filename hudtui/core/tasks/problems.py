"""What is wrong with a task, said so that its author can mend it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class TaskProblem:
    """One thing about one task. An error keeps the task out; a warning does not, unless warnings are errors (`strict`)."""

    index: int
    """Position of the task in its source, counting from 0."""
    id: str | None
    field: str | None
    """Dotted path inside the task, e.g. `mcp_config.hud.headers.Authorization`; None for the task as a whole."""
    message: str
    """A sentence without the place."""
    line: int | None = None
    """Line of the task in its file, counting from 1; None where the source has no lines (Parquet, Hub)."""
    severity: Severity = "error"
    file: str = ""
    code: str = "invalid"
    """Stable name of the kind of problem, for filters: `missing`, `type`, `json`, `duplicate-id`, `secret`, ..."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        name = f"task {self.index}" + (f" ({self.id})" if self.id else "")
        field = f" {self.field}:" if self.field else ""
        return f"{place + ': ' if place else ''}{name}:{field} {self.message}"

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui tasks check --json` and of `skipped` and `warnings` in `hudtui hf --json`."""
        return {
            "file": self.file,
            "index": self.index,
            "id": self.id,
            "line": self.line,
            "field": self.field,
            "severity": self.severity,
            "code": self.code,
            "message": self.message,
        }
