"""Errors for the user: what happened, why, and what to do about it.

    HudtuiError
    ├── InputError          a file, a flag or a text that cannot be used as it is
    │   ├── ConfigError     a gym configuration with findings of severity "error"
    │   └── SourceError     an environment source that cannot be understood or started
    ├── ConnectError        no session with an environment could be opened, or it was lost
    ├── ToolError           the environment answered a call with an error
    ├── MachineError        a host, tmux or a process refused what a run needs
    └── RunError            a run does not exist, or is not in a state that allows the request

Commands print them on standard error and exit with `exit_code`; screens show them in place. Any
other exception that leaves the core is a defect of hudtui and is reported as such.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """A place in a user's input. Lines and columns count from 1; 0 or None means unknown."""

    file: str
    line: int | None = None
    column: int | None = None
    field: str | None = None
    """Dotted path of the field inside the document, e.g. `action_mappings.click.x`."""

    def __str__(self) -> str:
        place = self.file
        if self.line:
            place += f":{self.line}"
            if self.column:
                place += f":{self.column}"
        return f"{place} ({self.field})" if self.field else place


class HudtuiError(Exception):
    """A failure that the user can understand and act on.

    Args:
        what: What happened, in one sentence without the place.
        why: The underlying reason, where it is known (an exception's text, the end of a child's
            stderr).
        fix: What the user can do now.
        where: The place in the user's input.
        lacks: A setting without a value that may be the reason.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        why: str | None = None,
        fix: str | None = None,
        where: Location | None = None,
        lacks: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix
        self.where = where
        self.lacks = lacks

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The message as plain lines: place and event, then `why`, then `fix`."""
        first = f"{self.where}: {self.what}" if self.where else self.what
        return [first, *([self.why] if self.why else []), *([self.fix] if self.fix else [])]

    def to_json(self) -> dict[str, object]:
        """The form that `--json` commands print on failure."""
        where = None if self.where is None else dict(vars(self.where))
        return {
            "error": {
                "type": type(self).__name__,
                "what": self.what,
                "why": self.why,
                "fix": self.fix,
                "where": where,
            }
        }


class InputError(HudtuiError):
    """A file, a flag or a text that cannot be used as it is."""

    exit_code = 2


class ConfigError(InputError):
    """A gym configuration that cannot be used; `findings` holds all of its problems."""

    def __init__(
        self,
        what: str,
        *,
        findings: tuple[object, ...] = (),
        fix: str | None = None,
        why: str | None = None,
        where: Location | None = None,
    ) -> None:
        super().__init__(what, why=why, fix=fix, where=where)
        self.findings = findings


class SourceError(InputError):
    """An environment source that cannot be understood or started."""


class ConnectError(HudtuiError):
    """No session with an environment could be opened, or an open one was lost."""

    exit_code = 3


class ToolError(HudtuiError):
    """The environment answered a call with an error."""

    exit_code = 4


class MachineError(HudtuiError):
    """A host, its tmux or one of its processes refused what a run needs."""

    exit_code = 5


class RunError(HudtuiError):
    """A run does not exist, or is not in a state that allows the request."""

    exit_code = 6
