"""The names of dialects for options, without the dialects themselves."""

from __future__ import annotations

from hudtui.core.errors import InputError
from hudtui.core.text import clean_line, did_you_mean


def dialect_choices() -> tuple[tuple[str, str], ...]:
    """Return the dialects as choices of an option."""
    from hudtui.core.gym.dialects.known import DIALECTS

    return tuple((name, name) for name in DIALECTS)


def check_dialect(name: str) -> None:
    """Check the name of a dialect.

    Raises:
        InputError: There is no such dialect.
    """
    from hudtui.core.gym.dialects.known import DIALECTS

    if name in DIALECTS:
        return
    near = did_you_mean(name, DIALECTS)
    raise InputError(
        f"there is no dialect {clean_line(name, 60)}" + (f"; did you mean {near}?" if near else ""),
        fix=f"Choose one of: {', '.join(DIALECTS)}.",
    )
