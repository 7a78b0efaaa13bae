"""Cutting text to a number of terminal cells.

Widths are cells, never characters: CJK letters and emoji take two.
"""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size


def cut(text: str, width: int) -> str:
    """`text` in at most `width` cells, with an ellipsis where its end is missing."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    return set_cell_size(text, width - 1).rstrip() + "…"


def cut_left(text: str, width: int) -> str:
    """`text` in at most `width` cells, with an ellipsis where its beginning is missing.

    For paths.
    """
    if cell_len(text) <= width:
        return text
    while text and cell_len(text) > width - 1:
        text = text[1:]
    return "…" + text


def cut_middle(text: str, width: int) -> str:
    """`text` in at most `width` cells, with an ellipsis where its middle is missing.

    For names that differ at their ends.
    """
    if cell_len(text) <= width or width < 5:
        return cut(text, width)
    head = set_cell_size(text, (width - 1) // 3).rstrip()
    return head + cut_left(text, width - cell_len(head))


def pad(text: str, width: int) -> str:
    """`text` in exactly `width` cells: cut, or filled with blanks."""
    text = cut(text, width)
    return text + " " * (width - cell_len(text))
