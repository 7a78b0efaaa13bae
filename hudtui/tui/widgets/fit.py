"""Cutting text to a number of terminal cells. Widths are cells, never characters: CJK letters and emoji take two."""

from __future__ import annotations

from pathlib import Path

from rich.cells import cell_len, set_cell_size

from hudtui.core.text import clean_line


def cut(text: str, width: int) -> str:
    """`text` in at most `width` cells, with an ellipsis where its end is missing."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    return set_cell_size(text, width - 1).rstrip() + "…"


def cut_left(text: str, width: int) -> str:
    """`text` in at most `width` cells, with an ellipsis where its beginning is missing: for paths."""
    if cell_len(text) <= width:
        return text
    while text and cell_len(text) > width - 1:
        text = text[1:]
    return "…" + text


def pad(text: str, width: int) -> str:
    """`text` in exactly `width` cells: cut, or filled with blanks."""
    text = cut(text, width)
    return text + " " * (width - cell_len(text))


def home_short(folder: Path) -> str:
    """A path as people write it: what lies in the home folder begins with `~`."""
    text = clean_line(str(folder))
    home = str(Path.home())
    return "~" + text[len(home) :] if text == home or text.startswith(home + "/") else text
