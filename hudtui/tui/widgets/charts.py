"""Series as curves of braille dots: plain functions from numbers to text, the same for the same numbers and size.

A character holds two dots beside and four above each other, so that a chart of 30 by 6 characters shows 60 by 24 dots.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.content import Content

from hudtui.core.text import clean_line
from hudtui.tui.widgets.fit import cut, pad

Pair = tuple[float, float]

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_BLANK = 0x2800
_LABEL = 8
"""Cells for the labels of the y axis."""
_NOISE = 1e-9
"""What is less of a value than this share is what adding up left over, and no movement."""
COLOURS = ("$accent", "$primary", "$success", "$error", "$secondary", "$foreground")
"""Of the runs that are compared, in their order."""


@dataclass(frozen=True)
class ChartLine:
    """One curve of a chart."""

    points: tuple[Pair, ...]
    """By growing x."""
    colour: str = COLOURS[0]
    faint: tuple[Pair, ...] = ()
    """Drawn behind it: what it was smoothed from."""


def smooth(points: Sequence[Pair], weight: float) -> tuple[Pair, ...]:
    """An exponential running mean; `weight` is the share of the previous mean. 0 changes nothing."""
    if weight <= 0:
        return tuple(points)
    found: list[Pair] = []
    total = share = 0.0
    for x, y in points:
        total, share = total * weight + y, share * weight + 1.0
        found.append((x, total / share))
    return tuple(found)


def thin(points: Sequence[Pair], most: int) -> Sequence[Pair]:
    """At most about `most` points that look the same when drawn: of each stretch the lowest and the highest."""
    if len(points) <= most:
        return points
    found: list[Pair] = [points[0]]
    stretches = max(most // 2, 1)
    for place in range(stretches):
        part = range(place * len(points) // stretches, (place + 1) * len(points) // stretches)
        low, high = min(part, key=lambda at: points[at][1]), max(part, key=lambda at: points[at][1])
        found += [points[at] for at in sorted({low, high})]
    return [*found, points[-1]]


def figure(value: float) -> str:
    """A number in at most eight characters."""
    size = abs(value)
    if size >= 1e9 or 0 < size < 1e-3:
        return f"{value:.2g}"
    if size >= 1e6:
        return f"{value / 1e6:.4g}M"
    if size >= 1e4:
        return f"{value / 1e3:.4g}k"
    return min((f"{value:.{digits}g}" for digits in (4, 3, 2)), key=lambda text: max(len(text), 8))


def braille(
    traces: Sequence[Sequence[Pair]], columns: int, rows: int, box: tuple[float, float, float, float]
) -> list[list[tuple[str, int]]]:
    """Curves as rows of characters, each with the place of the trace that it belongs to (-1: none; where several meet, the last).

    Args:
        traces: Points by growing x.
        columns: Characters in a row.
        rows: Rows.
        box: Smallest and largest x, smallest and largest y that are shown.
    """
    left, right, low, high = box
    wide, tall = columns * 2, rows * 4
    masks = [[0] * columns for _ in range(rows)]
    owners = [[-1] * columns for _ in range(rows)]

    def column(x: float) -> int:
        return 0 if right <= left else min(max(int((x - left) / (right - left) * (wide - 1) + 0.5), 0), wide - 1)

    def height(y: float) -> int:
        if high <= low:
            return tall // 2
        return min(max(int((high - y) / (high - low) * (tall - 1) + 0.5), 0), tall - 1)

    for place, points in enumerate(traces):

        def dot(across: int, down: int, place: int = place) -> None:
            row, cell = down // 4, across // 2
            masks[row][cell] |= _DOTS[down % 4][across % 2]
            owners[row][cell] = place

        spots: list[tuple[int, int, int, int]] = []  # column, and where the curve enters it, is lowest and highest
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


def _range(values: Sequence[float], scale: tuple[float, float | None] | None) -> tuple[float, float]:
    """What lies at the floor and at the ceiling of a chart; twice the same for a series that does not move."""
    low, high = min(values), max(values)
    if scale is not None:
        floor, ceiling = scale
        low, high = min(low, floor), max(high, floor if ceiling is None else ceiling)
        return low, high if high > low else low + 1.0
    flat = high - low <= _NOISE * max(abs(low), abs(high))
    return (values[-1], values[-1]) if flat else (low, high)


def _line(start: tuple[int, int], end: tuple[int, int], dot: Callable[[int, int], None]) -> None:
    (x, y), (to_x, to_y) = start, end
    count = max(abs(to_x - x), abs(to_y - y))
    for step in range(1, count):
        dot(round(x + (to_x - x) * step / count), round(y + (to_y - y) * step / count))


def chart(
    title: str,
    traces: Sequence[ChartLine],
    width: int,
    height: int,
    *,
    unit: str = "",
    last: float | None = None,
    scale: tuple[float, float | None] | None = None,
    marked: bool = False,
) -> Content:
    """A chart as `height` lines of `width` cells: the title with the newest value, then the curves with their range beside them.

    Args:
        title: What it shows.
        traces: The curves; the first one is drawn last, above the others.
        width: Cells, at least 20.
        height: Lines, at least 3.
        unit: Of the values.
        last: The newest value as it came; by default the end of the first curve.
        scale: What lies at the floor and at the ceiling (None: the largest value); by default the smallest and the largest value.
        marked: The cursor is on it.
    """
    shown = [trace for trace in traces if trace.points]
    head, style = clean_line(title, 60), "bold reverse" if marked else "bold"
    if not shown:
        lines = [Content.styled(pad(cut(head, width), width), f"{style} $foreground-muted")]
        return Content("\n").join([*lines, *(Content(" " * width) for _ in range(height - 1))])
    value = last if last is not None else shown[0].points[-1][1]
    told = f"{figure(value)}{f' {unit}' if unit else ''}"
    room = width - len(told) - 1
    first = Content.assemble((cut(head, room), style), " ", (told, shown[0].colour), " " * max(room - len(cut(head, room)), 0))
    most = width * 8  # dots beside each other, times four
    layers = [(thin(trace.faint, most), "$foreground-muted 50%") for trace in reversed(shown) if trace.faint]
    layers += [(thin(trace.points, most), trace.colour) for trace in reversed(shown)]
    everything = [pair for points, _ in layers for pair in points]
    low, high = _range([*(y for _, y in everything), value], scale)
    box = (min(x for x, _ in everything), max(x for x, _ in everything), low, high)
    columns, rows = width - _LABEL - 2, height - 1
    drawn = braille([points for points, _ in layers], columns, rows, box)
    lines = [first]
    for number, row in enumerate(drawn):
        labels = {0: figure(high), rows - 1: figure(low)} if high > low else {rows // 2: figure(low)}
        label = labels.get(number, "")
        parts: list[tuple[str, str]] = [(label.rjust(_LABEL) + (" ┤" if label else " │"), "$foreground-muted")]
        run, style = "", ""
        for character, owner in row:
            wanted = layers[owner][1] if owner >= 0 else style
            if wanted != style and run:
                parts.append((run, style))
                run = ""
            run, style = run + character, wanted
        parts.append((run, style))
        lines.append(Content.assemble(*parts))
    return Content("\n").join(lines)
