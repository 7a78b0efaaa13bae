"""The names of dialects for options, without the dialects themselves."""

from __future__ import annotations


def dialect_choices() -> tuple[tuple[str, str], ...]:
    """Return the dialects as choices of an option."""
    from hudtui.core.gym.dialects.known import DIALECTS

    return tuple((name, name) for name in DIALECTS)
