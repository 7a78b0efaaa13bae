"""Series as curves of braille dots.

Plain functions from numbers to text, the same for the same numbers and size. A character holds two
dots beside and four above each other, so that a chart of 30 by 6 characters shows 60 by 24 dots.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from textual.content import Content

from hudtui.core.text import clean_line, step_text
from hudtui.core.training.axes import Axis, Pair, figure, round_step, thin, value_axis
from hudtui.tui.widgets.fit import cut, pad
from hudtui.tui.widgets.words import span

if TYPE_CHECKING:
    from textual.theme import Theme

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800
_MUTED = "$foreground-muted"
_FAINT = "$foreground-muted 50%"
_MARK, _MARKED = -2, "$warning"
"""Owner and style of a mark behind the curves."""
_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
"""Seconds between two ticks of an axis of time; beyond a day whole days."""

_DARK = ("#5fafff", "#ff87d7", "#5fd7d7", "#d7875f", "#af87ff", "#d7d787", "#5f87af", "#d0d0d0")
_LIGHT = ("#005faf", "#af0087", "#008787", "#875f00", "#5f00af", "#585858", "#0087ff", "#000000")
_BRIGHT = ("#87afff", "#ff87ff", "#00ffd7", "#ffaf5f", "#d7afff", "#d7ff87", "#5f87ff", "#ffffff")
_TERMINAL_DARK = (
    "bright_blue",
    "magenta",
    "cyan",
    "white",
    "bright_magenta",
    "bright_cyan",
    "blue",
    "bright_white",
)
_TERMINAL_LIGHT = (
    "blue",
    "magenta",
    "cyan",
    "black",
    "bright_magenta",
    "bright_cyan",
    "bright_blue",
    "bright_black",
)
_DASHES: tuple[tuple[int, ...], ...] = ((), (6, 4), (2, 4), (10, 3, 2, 3), (2, 8), (14, 4))
"""Dots that are drawn and left out in turn along a curve, where curves have no colours to tell them
apart."""


@dataclass(frozen=True)
class SeriesStyle:
    """What distinguishes a series from the others of its chart."""

    colour: str = ""
    """A style of `Content`; empty where the theme has no colours."""
    dashes: tuple[int, ...] = ()
    """See `_DASHES`."""

    @property
    def sign(self) -> str:
        """Return a piece of the curve, for a legend."""
        return {(): "━━", (6, 4): "╺╸", (2, 4): "··"}.get(self.dashes, "╍╍")


def series_styles(theme: Theme) -> tuple[SeriesStyle, ...]:
    """Return the styles of a chart's series under a theme, in their order.

    The colours are none of those that the theme gives to keys, places and verdicts. Those of dark
    and light themes are members of the palette of 256 colours, so that they look the same in a
    terminal that has no more.
    """
    variables = theme.variables or {}
    if theme.primary == "ansi_default":  # the theme without colours
        return tuple(SeriesStyle("", dashes) for dashes in _DASHES)
    if theme.primary.startswith("ansi_"):
        names = _TERMINAL_DARK if theme.dark else _TERMINAL_LIGHT
        return tuple(SeriesStyle(f"ansi_{name}") for name in names)
    bright = variables.get("border") == "#ffffff"
    return tuple(
        SeriesStyle(colour) for colour in (_BRIGHT if bright else _DARK if theme.dark else _LIGHT)
    )


@dataclass(frozen=True)
class ChartLine:
    """One curve of a chart."""

    points: tuple[Pair, ...]
    """By growing x."""
    style: SeriesStyle = SeriesStyle("$primary")
    faint: tuple[Pair, ...] = ()
    """Drawn behind it: what it was smoothed from."""


def smooth(points: Sequence[Pair], weight: float) -> tuple[Pair, ...]:
    """Return an exponential running mean; `weight` is the share of the previous mean.

    0 changes nothing.
    """
    if weight <= 0:
        return tuple(points)
    found: list[Pair] = []
    total = share = 0.0
    for x, y in points:
        total, share = total * weight + y, share * weight + 1.0
        found.append((x, total / share))
    return tuple(found)


def within(points: Sequence[Pair], low: float, high: float) -> tuple[Pair, ...]:
    """Return the part of a curve between two x.

    It has the values at both ends, also between two points.
    """
    first, last = bisect_left(points, (low, -math.inf)), bisect_right(points, (high, math.inf))

    def between(place: int, x: float) -> list[Pair]:
        if not 0 < place < len(points):
            return []
        (left, y), (right, other) = points[place - 1 : place + 1]
        return [(x, y + (other - y) * (x - left) / (right - left))] if left < x < right else []

    return (*between(first, low), *points[first:last], *between(last, high))


# -- axes
# --------------------------------------------------------------------------------------------------


def x_labels(low: float, high: float, columns: int, *, by_time: bool = False) -> str:
    """Return the line of labels below a chart of `columns` cells.

    Both ends and round values between them.
    """
    inner = list(_round_between(low, high, columns, by_time=by_time)) if high > low else []
    line = ""
    for tell in (span_text,) if by_time else (figure, step_text):
        line, told = _labels_at(low, high, inner, columns, tell)
        if len(set(told)) == len(told):
            break  # else two steps look alike: they are written in full
    return line


def _labels_at(
    low: float, high: float, inner: Sequence[float], columns: int, tell: Callable[[float], str]
) -> tuple[str, list[str]]:
    """Return a line of labels, and those of them that have room."""
    told = [tell(low), tell(high)]
    first, last = told
    if high <= low or len(first) + len(last) + 1 > columns:
        text = last if high <= low else cut(f"{first}–{last}", columns)
        return pad(text, columns), told if high > low else [text]
    line = [*first, *" " * (columns - len(first) - len(last)), *last]
    for place in inner:
        text = tell(place)
        start = round((place - low) / (high - low) * (columns - 1)) - len(text) // 2
        room = line[max(start - 1, 0) : start + len(text) + 1]
        if start > 0 and len(room) == len(text) + 2 and not "".join(room).strip():
            line[start : start + len(text)] = text
            told.append(text)
    return "".join(line), told


def _round_between(low: float, high: float, columns: int, *, by_time: bool) -> Iterator[float]:
    """Yield round values between two x, about one for each nine cells."""
    least = (high - low) / max(columns / 9, 1)
    if by_time:
        step = next(
            (float(seconds) for seconds in _TIMES if seconds >= least),
            math.ceil(least / 86400) * 86400.0,
        )
    else:
        whole = float(low).is_integer() and float(high).is_integer()
        step = round_step(max(least, 1.0) if whole else least)
    number = math.floor(low / step) + 1 if step else 0
    while step and number * step < high:
        yield number * step
        number += 1


def span_text(seconds: float) -> str:
    """Return a duration for an axis: `0`, `30s`, `5m`, `1h 30m`."""
    return (
        "0"
        if seconds == 0
        else span(seconds).replace(" 00s", "").replace(" 00m", "").replace(".0s", "s")
    )


# -- drawing
# --------------------------------------------------------------------------------------------------


def braille(
    traces: Sequence[Sequence[Pair]],
    columns: int,
    rows: int,
    box: tuple[float, float, float, float],
    dashes: Sequence[tuple[int, ...]] = (),
) -> list[list[tuple[str, int]]]:
    """Return curves as rows of characters, each with the place of its trace (-1.

    None; where several meet, the last).

    Args:
        traces: Points by growing x.
        columns: Characters in a row.
        rows: Rows.
        box: Smallest and largest x, smallest and largest y that are shown.
        dashes: Dots that are drawn and left out in turn, for each trace; empty for a whole line.
    """
    left, right, low, high = box
    wide, tall = columns * 2, rows * 4
    masks = [[0] * columns for _ in range(rows)]
    owners = [[-1] * columns for _ in range(rows)]

    def column(x: float) -> int:
        return (
            0
            if right <= left
            else min(max(int((x - left) / (right - left) * (wide - 1) + 0.5), 0), wide - 1)
        )

    def height(y: float) -> int:
        if high <= low:
            return tall // 2
        return min(max(int((high - y) / (high - low) * (tall - 1) + 0.5), 0), tall - 1)

    for place, points in enumerate(traces):
        drawn = (
            _drawn_columns(wide, dashes[place]) if place < len(dashes) and dashes[place] else None
        )

        def dot(
            across: int, down: int, place: int = place, drawn: list[bool] | None = drawn
        ) -> None:
            if drawn is not None and not drawn[across]:
                return
            row, cell = down // 4, across // 2
            masks[row][cell] |= _DOTS[down % 4][across % 2]
            owners[row][cell] = place

        spots: list[
            tuple[int, int, int, int]
        ] = []  # column, and where the curve enters it, is lowest and highest
        for x, y in points:
            across, down = column(x), height(y)
            if spots and spots[-1][0] == across:
                _, first, least, most = spots[-1]
                spots[-1] = (across, first, min(least, down), max(most, down))
            else:
                spots.append((across, down, down, down))
        before: tuple[int, int] | None = None
        for across, first, least, most in spots:
            for down in range(least, most + 1):
                dot(across, down)
            if before is not None:
                _line(before, (across, first), dot)
            before = (across, (least + most) // 2 if most > least else first)
    return [
        [(chr(_BLANK + mask) if mask else " ", owner) for mask, owner in zip(*pair, strict=True)]
        for pair in zip(masks, owners, strict=True)
    ]


def _drawn_columns(wide: int, dashes: tuple[int, ...]) -> list[bool]:
    """Return for each column of dots whether a dashed curve is drawn there."""
    pattern = [place % 2 == 0 for place, count in enumerate(dashes) for _ in range(count)]
    return [pattern[across % len(pattern)] for across in range(wide)]


def _line(start: tuple[int, int], end: tuple[int, int], dot: Callable[[int, int], None]) -> None:
    (x, y), (to_x, to_y) = start, end
    count = max(abs(to_x - x), abs(to_y - y))
    for step in range(1, count):
        dot(round(x + (to_x - x) * step / count), round(y + (to_y - y) * step / count))


@dataclass(frozen=True)
class Drawing:
    """The curves of a chart, drawn: all that does not change while a cursor moves over them."""

    cells: list[list[tuple[str, int]]]
    styles: tuple[str, ...]
    """Of the curves, by the numbers in `cells`."""
    axis: Axis
    x: Pair
    """Smallest and largest x."""

    def column(self, x: float) -> int:
        """Return the cell column of an x."""
        columns, (left, right) = len(self.cells[0]), self.x
        return (
            0
            if right <= left
            else min(
                max(int((x - left) / (right - left) * (columns * 2 - 1) + 0.5) // 2, 0), columns - 1
            )
        )

    def x_at(self, column: int) -> float:
        """Return the x in the middle of a cell column."""
        columns, (left, right) = len(self.cells[0]), self.x
        return left + min(max((column * 2 + 0.5) / (columns * 2 - 1), 0.0), 1.0) * (right - left)

    def lines(self, label_width: int, marks: Collection[int] = ()) -> list[Content]:
        """Return the rows, with the labels of the y axis in `label_width` cells before them.

        In the columns `marks` a line stands behind the curves.
        """
        labels = self.axis.labels(len(self.cells))
        lines = []
        for number, row in enumerate(self.cells):
            label = labels.get(number, "")
            lines.append(
                Content.assemble(
                    (label.rjust(label_width) + (" ┤" if label else " │"), _MUTED),
                    *self._pieces(_marked(row, marks)),
                )
            )
        return lines

    def _pieces(self, row: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
        groups = groupby(row, key=lambda cell: cell[1])
        return [
            (
                "".join(character for character, _ in cells),
                self.styles[owner] if owner >= 0 else _MARKED if owner == _MARK else "",
            )
            for owner, cells in groups
        ]


def _marked(row: Sequence[tuple[str, int]], marks: Collection[int]) -> Sequence[tuple[str, int]]:
    """Return a row of cells with a mark in the free ones among some columns."""
    if not marks:
        return row
    return [
        ("┊", _MARK) if number in marks and cell[0] == " " else cell
        for number, cell in enumerate(row)
    ]


def draw(lines: Sequence[ChartLine], columns: int, rows: int, axis: Axis, x: Pair) -> Drawing:
    """Draw curves, the first one above the others.

    Args:
        lines: The curves.
        columns: Cells of a row.
        rows: Rows.
        axis: The y axis.
        x: Smallest and largest x.
    """
    most = columns * 8  # dots beside each other, times four
    layers: list[tuple[Sequence[Pair], str, tuple[int, ...]]]
    layers = [(thin(line.faint, most), _FAINT, ()) for line in reversed(lines) if line.faint]
    layers += [
        (thin(line.points, most), line.style.colour, line.style.dashes) for line in reversed(lines)
    ]
    box = (*x, 0.0, 1.0) if axis.high > axis.low else (*x, 0.0, 0.0)
    traces = [[(at, axis.share(value)) for at, value in points] for points, _, _ in layers]
    cells = braille(traces, columns, rows, box, [dashes for _, _, dashes in layers])
    return Drawing(cells, tuple(style for _, style, _ in layers), axis, x)


def values_of(lines: Sequence[ChartLine]) -> list[float]:
    """Return every value of the curves."""
    return [y for line in lines for points in (line.faint, line.points) for _, y in points]


def title_line(
    title: str, values: Sequence[tuple[str, str]], width: int, *, marked: bool = False
) -> Content:
    """Return the line above a chart.

    Its title, and at the right as many of the values as there is room for.

    Args:
        title: What the chart shows.
        values: Texts with their styles.
        width: Cells.
        marked: The cursor is on this chart.
    """
    room = width - min(len(title), width * 2 // 3) - 1
    shown: list[str | tuple[str, str]] = []
    for text, style in values:
        if len(text) + 2 > room:
            break
        shown += ["  ", (text, style)] if shown else [(text, style)]
        room -= len(text) + 2
    right = Content.assemble(*shown)
    head = cut(clean_line(title, 60), width - right.cell_length - 1)
    gap = " " * (width - right.cell_length - len(head))
    return Content.assemble(
        (head, "bold reverse" if marked else "bold" if values else f"bold {_MUTED}"), gap, right
    )


def curves(lines: Sequence[ChartLine], width: int, height: int) -> Content:
    """Return curves with both axes, without a title, as `height` lines of `width` cells.

    Args:
        lines: The curves; the first one is drawn last, above the others.
        width: Cells, at least 20.
        height: Lines, at least 3.
    """
    shown = [line for line in lines if line.points]
    if not shown:
        return Content("\n").join([Content(" " * width)] * height)
    axis = value_axis(values_of(shown))
    x = (min(line.points[0][0] for line in shown), max(line.points[-1][0] for line in shown))
    label_width = axis.label_width(height - 1)
    columns = width - label_width - 2
    drawing = draw(shown, columns, height - 1, axis, x)
    below = Content.styled(" " * (label_width + 2) + x_labels(*x, columns), _MUTED)
    return Content("\n").join([*drawing.lines(label_width), below])
