"""The load of many GPUs and nodes: for each measure a row for each of them, over time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from textual.content import Content

from hudtui.core.text import duration
from hudtui.core.training.axes import figure
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.shades import shade
from hudtui.tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from hudtui.core.runs.heat import HeatMap

_LABEL = 24
"""Most cells of the name of a row."""
_NEWEST = 8
"""Cells of the newest value of a row."""
_MUTED = "$foreground-muted"


class HeatMaps(Sheet):
    """Maps below each other. A cell is paler where its value is lower, and has a digit."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._maps: tuple[HeatMap, ...] = ()

    def show_maps(self, maps: Sequence[HeatMap]) -> None:
        """Show these maps. The place scrolled to stays."""
        self._maps = tuple(maps)
        self._redraw()

    def on_resize(self) -> None:
        self._redraw()

    def _redraw(self) -> None:
        width = self.scrollable_content_region.width
        if width:
            self.show([line for one in self._maps for line in heat_lines(one, width)])


def heat_lines(found: HeatMap, width: int) -> list[Content]:
    """Return the lines of a map: its title, its rows with their newest values, and its times."""
    label = min(max(len(row.label) for row in found.rows), _LABEL, max(width // 3, 4)) + 1
    room = max(width - label - _NEWEST - 1, 1)
    columns = max(min(room, found.most), 1)
    cell = 2 if 2 * columns <= room else 1
    legend = f"  0 is {figure(found.low)}, 9 is {figure(found.high)}"
    lines = [Content.assemble((found.title, "bold $primary"), (legend, _MUTED))]
    for row in found.rows:
        parts: list[tuple[str, str]] = [(pad(row.label, label), "")]
        digits = (found.digit(value) for value in found.cells(row, columns))
        for digit, same in groupby(digits):
            parts.append((digit.ljust(cell) * len(list(same)), shade(digit)))
        parts.append((f" {figure(row.values[-1]):>{_NEWEST}}", ""))
        lines.append(Content.assemble(*parts))
    last = duration(found.end - found.begin)
    axis = "0 s" + last.rjust(max(columns * cell - 3, len(last) + 1))
    lines += [Content.styled(" " * label + axis, _MUTED), Content("")]
    return [line.truncate(width) for line in lines]
