"""The curves of runs as files: numbers as CSV, and charts as an SVG picture."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from xml.sax.saxutils import escape

from hudtui.core.errors import InputError
from hudtui.core.text import clean_line
from hudtui.core.training.axes import (
    Pair,
    Scale,
    figure,
    step_labels,
    thin,
    value_axis,
    x_ticks,
)
from hudtui.core.training.metrics import MetricsReader, Point

KINDS = (".csv", ".svg")
"""The endings of files that `curve_file` writes."""
_COLOURS = ("#005faf", "#af0087", "#008787", "#875f00", "#5f00af", "#585858")
_WIDTH, _HEIGHT = 360, 220
"""Of a chart with its title and labels, in pixels."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 14, 34, 26
_ACROSS = 3
"""Charts beside each other."""
_FONT = 'font-family="Helvetica, Arial, sans-serif" font-size="11"'
_NOT_XML = dict.fromkeys((0xFFFE, 0xFFFF), "\ufffd")
"""What XML has no place for, apart from what `clean_line` takes out."""
_TICK_ROWS = 13
"""Rows of text that the height of a chart has room for."""


@dataclass(frozen=True)
class Trace:
    """One curve of a chart."""

    run: str
    name: str
    """The name of its series."""
    points: Sequence[Point]
    """By growing step."""
    label: str = ""
    """What tells it from other curves of its run in the chart."""


@dataclass(frozen=True)
class Chart:
    """A title with curves."""

    title: str
    traces: Sequence[Trace]
    scale: Scale | None = None


def charts_of(runs: Mapping[str, MetricsReader]) -> list[Chart]:
    """Return a chart for each quantity and number of some runs, those with a common name first."""
    from hudtui.core.training.metrics import QUANTITIES

    found: list[Chart] = []
    for quantity in QUANTITIES:
        named = {run: reader.told.get(quantity.name) for run, reader in runs.items()}
        found += _chart(quantity.title, runs, named)
    used = {name for reader in runs.values() for name in reader.told.values()}
    names = dict.fromkeys(name for reader in runs.values() for name in reader.names)
    for name in names:
        if name not in used:
            found += _chart(name, runs, dict.fromkeys(runs, name))
    return found


def _chart(
    title: str, runs: Mapping[str, MetricsReader], named: Mapping[str, str | None]
) -> Iterable[Chart]:
    traces = [
        Trace(run, name, points)
        for run, name in named.items()
        if name is not None and (points := runs[run].series(name))
    ]
    if traces:
        yield Chart(title, traces)


def curve_file(charts: Sequence[Chart], name: str) -> str:
    """Return the content of a file with charts, by the ending of its name.

    Raises:
        InputError: The ending is neither `.csv` nor `.svg`, or there is no number.
    """
    check_name(name)
    if not any(trace.points for chart in charts for trace in chart.traces):
        raise InputError("there are no numbers to write")
    return curves_csv(charts) if name.lower().endswith(".csv") else curves_svg(charts)


def check_name(name: str) -> None:
    """Check the ending of a file's name.

    Raises:
        InputError: It is neither `.csv` nor `.svg`.
    """
    if not name.lower().endswith(KINDS):
        raise InputError(
            f"{clean_line(name, 60)!r} ends neither in .csv nor in .svg",
            fix="Name a file such as curves.csv (numbers) or curves.svg (a picture).",
        )


def curves_csv(charts: Sequence[Chart]) -> str:
    """Return curves as CSV: a line for each run and step, a column for each series.

    `time` is in seconds since the epoch, empty where it is not known.
    """
    traces = [trace for chart in charts for trace in chart.traces]
    names = list(dict.fromkeys(trace.name for trace in traces))
    lines: dict[tuple[str, float], dict[str, float]] = {}
    times: dict[tuple[str, float], float] = {}
    for trace in traces:
        for point in trace.points:
            place = (trace.run, point.x)
            lines.setdefault(place, {})[trace.name] = point.y
            if point.at is not None:
                times.setdefault(place, point.at)
    runs = list(dict.fromkeys(trace.run for trace in traces))
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["run", "step", "time", *map(_cell, names)])
    for place in sorted(lines, key=lambda one: (runs.index(one[0]), one[1])):
        run, step = place
        values = [lines[place].get(name, "") for name in names]
        table.writerow([_cell(run), _plain(step), times.get(place, ""), *values])
    return text.getvalue()


def _cell(name: str) -> str:
    """Return a name that no spreadsheet takes for a formula."""
    text = clean_line(name, 200)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _plain(step: float) -> float | int:
    return int(step) if float(step).is_integer() else step


def curves_svg(charts: Sequence[Chart]) -> str:
    """Return charts as one SVG picture, three beside each other, by step."""
    shown = [chart for chart in charts if any(trace.points for trace in chart.traces)]
    runs = list(dict.fromkeys(trace.run for chart in shown for trace in chart.traces))
    head = 24 if len(runs) > 1 else 0
    width = _WIDTH * min(len(shown), _ACROSS)
    height = head + _HEIGHT * -(-len(shown) // _ACROSS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" {_FONT}>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    if head:
        parts += _legend(runs)
    for place, chart in enumerate(shown):
        row, column = divmod(place, _ACROSS)
        parts.append(f'<g transform="translate({column * _WIDTH} {head + row * _HEIGHT})">')
        parts += [*_drawn(chart, runs), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _legend(runs: Sequence[str]) -> Iterable[str]:
    left = 12
    for place, run in enumerate(runs):
        colour = _COLOURS[place % len(_COLOURS)]
        yield f'<line x1="{left}" y1="13" x2="{left + 18}" y2="13" {_stroke(colour)}/>'
        yield _text(left + 24, 17, clean_line(run, 30))
        left += 40 + 7 * len(clean_line(run, 30))


def _drawn(chart: Chart, runs: Sequence[str]) -> Iterable[str]:
    traces = [trace for trace in chart.traces if trace.points]
    axis = value_axis([point.y for one in traces for point in one.points], scale=chart.scale)
    low = min(one.points[0].x for one in traces)
    high = max(one.points[-1].x for one in traces)
    wide, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def across(x: float) -> float:
        return _LEFT + (wide * (x - low) / (high - low) if high > low else wide / 2)

    def down(y: float) -> float:
        return _TOP + tall * (1 - axis.share(y))

    yield _text(_LEFT, 20, clean_line(chart.title, 48), extra=' font-weight="bold"')
    for value in axis.ticks(_TICK_ROWS):
        y = round(down(value), 1)
        yield f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" {_stroke("#dddddd")}/>'
        yield _text(_LEFT - 6, y + 4, figure(value), anchor="end")
    ticks = x_ticks(low, high)
    for x, label in zip(ticks, step_labels(ticks), strict=True):
        yield _text(round(across(x), 1), _HEIGHT - 8, label, anchor="middle")
    several = len({one.run for one in traces}) < len(traces)
    for place, one in enumerate(traces):
        colour = _COLOURS[(place if several else runs.index(one.run)) % len(_COLOURS)]
        pairs: list[Pair] = [(point.x, point.y) for point in one.points]
        dots = [f"{across(x):.1f},{down(y):.1f}" for x, y in thin(pairs, 2 * wide)]
        dots = dots * 2 if len(dots) == 1 else dots  # a single value is a dot
        line = f'fill="none" {_stroke(colour)} stroke-linecap="round"'
        yield f'<polyline points="{" ".join(dots)}" {line}/>'


def _stroke(colour: str) -> str:
    return f'stroke="{colour}" stroke-width="{1 if colour == "#dddddd" else 1.4}"'


def _text(x: float, y: float, words: str, *, anchor: str = "start", extra: str = "") -> str:
    words = escape(words.translate(_NOT_XML))
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{extra}>{words}</text>'
