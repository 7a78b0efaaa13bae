"""Results of the checks of a run before its start, as values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hudtui.core.errors import HudtuiError
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from hudtui.core.settings import Settings

CheckState = Literal["fine", "warning", "missing"]
Remedy = Literal[
    "generate-config",
    "choose-config",
    "choose-tasks",
    "set-key",
    "make-key",
    "register-key",
    "choose-machine",
    "push-image",
    "trust",
]
_ASKS = ("set-key", "trust")
"""Remedies for a variable without a value. Each variable is asked for once, whoever needs it."""


@dataclass(frozen=True)
class Check:
    """The result of checking one requirement of a run."""

    name: str
    """`tasks`, `config`, `image`, `keys`, `trust`, `judge`, `machine`, `python`, `model`, `memory`,
    `disk`, `environment`, `training`, `cost` or `plan`."""
    state: CheckState
    text: str
    fix: str | None = None
    """How to fix the problem; a command where one exists."""
    remedy: Remedy | None = None
    """The fix that hudtui can offer immediately."""
    options: tuple[str, ...] = ()
    """The possible choices, or the names of the missing keys."""

    def to_json(self) -> dict[str, Any]:
        return {
            name: value for name, value in vars(self).items() if name not in ("remedy", "options")
        }


def fine(name: str, text: str) -> Check:
    """Return the check of a requirement that is met."""
    return Check(name, "fine", clean_line(text, 400))


def warning(name: str, text: str, fix: str | None = None, **more: Any) -> Check:
    """Return a check that the user should know of, and that does not keep the run from starting."""
    return Check(name, "warning", clean_line(text, 400), fix, **more)


def missing(name: str, text: str, fix: str | None = None, **more: Any) -> Check:
    """Return a check that keeps the run from starting."""
    return Check(name, "missing", clean_line(text, 400), fix, **more)


def refused(name: str, error: HudtuiError, **more: Any) -> Check:
    """Return the check of a requirement whose examination ended with an error."""
    place = f"{error.where}: " if error.where else ""
    why = f"; {error.why}" if error.why else ""
    return missing(name, f"{place}{error.what}{why}", error.fix, **more)


def lacking(settings: Settings, name: str, why: str = "", *, check: str = "keys") -> Check:
    """Return the check of a variable without a value; `why` ends its sentence."""
    remedy: Remedy = "set-key" if settings.waits(name) is None else "trust"
    lack, fix = settings.lacking(name)
    return missing(check, f"{name} {lack}{why}", fix, remedy=remedy, options=(name,))


def distinct(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Return checks without repetitions.

    What is said, and each variable that is asked for, comes once.
    """
    kept: dict[Check, None] = {}
    asked: set[tuple[str, ...]] = set()
    for check in checks:
        asks = check.remedy in _ASKS and bool(check.options)
        if asks and check.options in asked:
            continue
        if asks:
            asked.add(check.options)
        kept[check] = None
    return tuple(kept)
