"""Shaded cells of maps."""

from __future__ import annotations


def shade(digit: str) -> str:
    """Return the style of a cell with a digit, `0` the palest; of anything else it is muted.

    The cell also shows the digit, for terminals without colours.
    """
    if not digit.isdigit():
        return "$foreground-muted"
    return (
        f"{'$background' if int(digit) > 5 else '$foreground'} on $primary {10 + 10 * int(digit)}%"
    )
