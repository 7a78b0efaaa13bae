"""The numbers of runs as charts.

One for each quantity, under one cursor, by step or by time, several runs on the same axes.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partialmethod
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget
from textual.widgets import Input

from hudtui.core.errors import InputError
from hudtui.core.row_filter import Fields, arrange
from hudtui.core.text import clean_line, plural, step_text
from hudtui.core.training.axes import Axis, Pair, Scale, figure, value_axis
from hudtui.tui.actions import Acting, AppAction, by_key, needing, unless
from hudtui.tui.preferences import KEPT
from hudtui.tui.widgets.calm_static import FittedStatic
from hudtui.tui.widgets.charts import (
    ChartLine,
    Drawing,
    SeriesStyle,
    draw,
    series_styles,
    smooth,
    span_text,
    title_line,
    values_of,
    within,
    x_labels,
)
from hudtui.tui.widgets.fields import FilterField
from hudtui.tui.widgets.fit import cut
from hudtui.tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from textual.timer import Timer

    from hudtui.core.runs.heat import HeatMap
    from hudtui.core.training.curve_files import Trace
    from hudtui.core.training.metrics import MetricsReader, Point
    from hudtui.tui.app import HudtuiApp
    from hudtui.tui.widgets.heat_maps import HeatMaps

WEIGHTS = (0.0, 0.6, 0.9)
"""How strongly curves may be smoothed."""
EMPTY = "No numbers yet. What the run measures appears here as curves."
_NARROWEST = 36
"""Cells of a chart."""
_LOWEST = 8
"""Lines of a chart, with its x axis and the blank line below."""
_FEWEST = 5
"""Values that the smallest part of the x axis holds, about."""
_FAR = 10
"""Points that the cursor moves at once with Shift."""
_HEAT_SHARE = 20.0
"""The maps are made again after so many times as long as it took."""
_MUTED = "$foreground-muted"
_LOAD = "~"
"""The beginning of the keys of charts of the machine."""
_BAR = 34
"""Cells of the bar beside the charts."""
_WITH_BAR = 116
"""Cells of a pane from which on the bar is shown at first: two charts have room beside it."""


Facts = tuple[str, tuple[tuple[str, str], ...]]
"""A title, and names with their values."""


@dataclass(frozen=True)
class Numbers:
    """The numbers of one run, under the name that the legend shows."""

    label: str
    metrics: MetricsReader
    scales: Mapping[str, Scale] = field(default_factory=dict)
    """The ends of the y axis of series for which they are known, by their names."""
    groups: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Series that share a chart: its title -> the names of the series -> how the chart calls
    them."""
    window: str | None = None
    """A sentence about steps that are not read; None if all are."""
    marks: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Steps that are marked on the chart of a series, by its name."""
    load: Numbers | None = None
    """The load of the run's machine, drawn after its own numbers on the same x axis."""
    about: tuple[Facts, ...] = ()
    """What the bar beside the charts says of the run."""
    heat: Callable[[], Sequence[HeatMap]] | None = None
    """Returns the load of its GPUs and nodes as maps; None where there is none."""


@dataclass(frozen=True)
class _Series:
    """One curve of a chart, with what the cursor line needs to know of it."""

    run: int
    name: str
    label: str
    line: ChartLine
    raw: tuple[Pair, ...]
    """The values as they came, by growing x."""
    steps: tuple[float, ...]
    """The step of each value."""
    marks: tuple[float, ...] = ()
    """Each x that is marked."""

    def at(self, x: float | None) -> tuple[float, float] | None:
        """Return step and value of the newest point that is not right of `x` (None.

        The newest of all).
        """
        place = len(self.raw) if x is None else bisect_right(self.raw, (x, math.inf))
        return (self.steps[place - 1], self.raw[place - 1][1]) if place else None

    def signed(self, series: int, value: str) -> str:
        """Return a value with what tells its curve from the others of the chart.

        A sign does it where colours do not.

        Args:
            series: How many curves the chart has.
            value: The value as text.
        """
        return value if series < 2 or self.line.style.colour else f"{self.line.style.sign} {value}"


@dataclass(frozen=True)
class _Plot:
    """A chart before it is drawn."""

    key: str
    title: str
    unit: str
    series: tuple[_Series, ...]
    scale: Scale | None
    axis: Axis | None


@dataclass(frozen=True)
class _Layout:
    """Where the charts are."""

    first: int
    """The row of charts that comes first in sight."""
    plots: list[_Plot]
    """Those in sight."""
    columns: int
    width: int
    """Cells of a chart."""
    height: int
    """Lines of a chart."""
    labels: int
    """Cells for the labels of all y axes."""
    x: Pair
    """Smallest and largest x."""


@dataclass(frozen=True)
class _Drawn:
    """The curves of a chart as they were drawn."""

    wanted: object
    """Size, range and style that they were drawn for."""
    drawing: Drawing
    strips: list[Strip]


class _Charts(Widget):
    """The charts, beside and below each other."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "_Charts { height: auto; width: 1fr; padding: 0 1; }"

    @dataclass
    class Pointed(Message):
        """A point of a chart was clicked."""

        key: str
        x: float | None

    def __init__(self, empty: str) -> None:
        super().__init__()
        self.empty = empty
        """Shown while there is no number."""
        self.runs: tuple[Numbers, ...] = ()
        self.weight = 0.0
        self.by_time = False
        self.everything = True
        """Numbers without a common name have charts as well."""
        self.hidden = 0
        """How many numbers have no chart now, because they have no common name."""
        self.wanted = ""
        """A filter of charts by title and series; see `core.row_filter`."""
        self.fault = ""
        """Why the filter cannot be read."""
        self.pinned: tuple[str, ...] = ()
        """Keys of the charts that come first."""
        self._all = 0
        self.logarithmic: set[str] = set()
        """Keys of the charts with a logarithmic axis."""
        self.chosen: str | None = None
        """Key of the chart that the keys are for; None for the first one."""
        self.x: float | None = None
        """Where the cursor is in all charts; None for the newest values."""
        self.alone = False
        """Only the chosen chart is shown."""
        self.span: float | None = None
        """How much of the x axis is shown; None for all of it."""
        self.end: float | None = None
        """Where the shown part of the x axis ends; None for the newest values."""
        self.focused = False
        """The cursor is shown."""
        self.room = 0
        """Lines that there are to fill."""
        self._titles: list[tuple[str, str]] | None = None
        self._plots: dict[str, _Plot] = {}
        self._drawn: dict[str, _Drawn] = {}
        self._parts: dict[str, tuple[Pair, _Plot]] = {}
        self._layout: _Layout | None = None
        self._ends: tuple[object, Pair] | None = None
        self._begins: dict[int, float] = {}
        self._clocks: dict[int, list[Pair]] = {}

    def forget(self) -> None:
        """Take up new numbers, or other settings of all curves."""
        self._titles = self._ends = None
        self._begins.clear()
        self._clocks.clear()
        self._plots.clear()
        self._drawn.clear()
        self._parts.clear()

    def order(self) -> None:
        """Take up another filter, or other charts that come first."""
        self._titles = self._ends = None

    def titles(self) -> list[tuple[str, str]]:
        """Return key and title of each chart, in their order."""
        if self._titles is None:
            # A run names its own series: what a terminal would obey is taken out here, once for all
            # that shows them.
            found = [(key, clean_line(title, 60)) for key, title in self._find_titles()]
            self._all = len(found)
            self._titles = self._filtered(found)
            self._titles.sort(key=lambda one: self._rank(one[0]))
        return self._titles

    def _rank(self, key: str) -> int:
        return self.pinned.index(key) if key in self.pinned else len(self.pinned)

    def _filtered(self, titles: list[tuple[str, str]]) -> list[tuple[str, str]]:
        fields: Fields[tuple[str, str]] = {
            "title": lambda one: one[1],
            "kind": lambda one: "machine" if one[0].startswith(_LOAD) else "run",
            "series": lambda one: " ".join(name for _, _, name, _ in self._named(one[0])),
        }
        self.fault = ""
        try:
            return arrange(titles, fields, wanted=self.wanted)
        except InputError as error:
            self.fault = str(error)
            return titles

    @property
    def matching(self) -> str:
        """Return how many charts the filter lets through; empty without a filter."""
        shown = len(self.titles())
        return f"{shown} of {self._all} charts" if self.wanted else ""

    def _find_titles(self) -> list[tuple[str, str]]:
        from hudtui.core.training.metrics import QUANTITIES

        titles = {quantity.name: quantity.title for quantity in QUANTITIES}
        there = {name for run in self.runs for name in run.metrics.told}
        found = [(name, title) for name, title in titles.items() if name in there]
        parts = {name: part for run in self.runs for part, name in run.metrics.parts.items()}
        found += [(f"={name}", part) for name, part in parts.items()]
        grouped = {title: set(names) for run in self.runs for title, names in run.groups.items()}
        found += [(f"+{title}", title) for title in grouped]
        used = {series for run in self.runs for series in run.metrics.told.values()}.union(
            parts, *grouped.values()
        )
        others = dict.fromkeys(
            name for run in self.runs for name in run.metrics.names if name not in used
        )
        self.hidden = 0 if self.everything or not found else len(others)
        if not self.hidden:
            found += [(f"={name}", name) for name in others]
        return found + self._load_titles()

    def _load_titles(self) -> list[tuple[str, str]]:
        loads = [run.load for run in self.runs if run.load is not None]
        grouped = {title: set(names) for load in loads for title, names in load.groups.items()}
        used = set[str]().union(*grouped.values())
        others = dict.fromkeys(
            name for load in loads for name in load.metrics.names if name not in used
        )
        found = [(f"{_LOAD}+{title}", title) for title in grouped]
        found += [(f"{_LOAD}={name}", name) for name in others]
        return [one for one in found if self._has_samples(one[0])]

    def _has_samples(self, key: str) -> bool:
        """Return whether a chart of the machine would show one: a short run has steps before it."""
        return any(
            self._covers(place, point.at)
            for place, metrics, name, _ in self._named(key)
            for point in metrics.series(name)
        )

    def _covers(self, place: int, at: float | None) -> bool:
        if at is None or self.by_time:
            return at is not None
        clock = self._clock(place)
        return bool(clock) and clock[0][0] <= at < clock[-1][0]

    def _numbers(self, key: str) -> Iterator[tuple[int, Numbers]]:
        """Yield the places of the runs, and their numbers of the kind of a chart."""
        for place, run in enumerate(self.runs):
            numbers = run.load if key.startswith(_LOAD) else run
            if numbers is not None:
                yield place, numbers

    def _named(self, key: str) -> list[tuple[int, MetricsReader, str, str]]:
        """Return the series of a chart: the run's place, its numbers, name and label."""
        found = []
        numbers = self._numbers(key)
        key = key.removeprefix(_LOAD)
        for place, run in numbers:
            metrics = run.metrics
            if key.startswith("+"):
                group = run.groups.get(key[1:], {})
                found += [(place, metrics, name, label) for name, label in group.items()]
            elif (name := key[1:] if key.startswith("=") else metrics.named(key)) is not None:
                found.append((place, metrics, name, run.label))
        return found

    @property
    def place(self) -> int:
        """Return the place of the chosen chart among all."""
        return next(
            (place for place, (key, _) in enumerate(self.titles()) if key == self.chosen), 0
        )

    def shown(self) -> list[tuple[str, str]]:
        """Return keys and titles of the charts that are drawn."""
        titles = self.titles()
        return titles[self.place : self.place + 1] if self.alone else titles

    # -- numbers
    # ----------------------------------------------------------------------------------------------

    def plot(self, key: str, title: str) -> _Plot:
        """Return a chart with its curves; made once for each state of the numbers."""
        known = self._plots.get(key)
        if known is None:
            known = self._plots[key] = self._make_plot(key, title)
        return known

    def _make_plot(self, key: str, title: str) -> _Plot:
        from hudtui.core.training.metrics import QUANTITIES

        named = self._named(key)
        styles = series_styles(self.app.current_theme)
        series, scale = [], None
        grouped = key.removeprefix(_LOAD).startswith("+")
        of_load = key.startswith(_LOAD)
        scales = {place: numbers.scales for place, numbers in self._numbers(key)}
        for number, (place, metrics, name, label) in enumerate(named):
            points = metrics.series(name)
            raw, steps = self._load_pairs(place, points) if of_load else self._pairs(place, points)
            if raw:
                style = styles[(number if grouped else place) % len(styles)]
                faint = raw if self.weight and len(named) == 1 else ()
                series.append(
                    _Series(
                        place,
                        name,
                        clean_line(label, 24),
                        ChartLine(smooth(raw, self.weight), style, faint),
                        raw,
                        steps,
                        _marks(self.runs[place].marks.get(name, ()), steps, raw),
                    )
                )
            scale = (
                scale or scales[place].get(name) or ((0.0, 100.0) if title.endswith("%") else None)
            )
        unit = next((quantity.unit for quantity in QUANTITIES if quantity.name == key), "")
        # The title shows the newest value, which must lie within the axis even if the curve is
        # smoothed.
        values = [*values_of([one.line for one in series]), *(one.raw[-1][1] for one in series)]
        axis = value_axis(values, scale=scale, log=key in self.logarithmic) if values else None
        return _Plot(key, title, unit, tuple(series), scale, axis)

    def _part(self, plot: _Plot, x: Pair) -> _Plot:
        """Return a chart with the part of its curves between two x, and an axis for it."""
        if self.span is None:
            return plot
        known = self._parts.get(plot.key)
        if known is None or known[0] != x:
            lines = [
                replace(
                    one.line, points=within(one.line.points, *x), faint=within(one.line.faint, *x)
                )
                for one in plot.series
            ]
            series = tuple(
                replace(one, line=line) for one, line in zip(plot.series, lines, strict=True)
            )
            values = values_of(lines)
            axis = (
                value_axis(values, scale=plot.scale, log=plot.key in self.logarithmic)
                if values
                else None
            )
            known = self._parts[plot.key] = x, replace(plot, series=series, axis=axis)
        return known[1]

    def _pairs(
        self, place: int, points: Sequence[Point]
    ) -> tuple[tuple[Pair, ...], tuple[float, ...]]:
        """Return a series as x and y, and the step of each value."""
        if not self.by_time:
            return tuple((point.x, point.y) for point in points), tuple(point.x for point in points)
        begin = self._begin(place)
        timed = sorted(
            (point.at - begin, point.y, point.x) for point in points if point.at is not None
        )
        return tuple((at, y) for at, y, _ in timed), tuple(x for _, _, x in timed)

    def _load_pairs(
        self, place: int, points: Sequence[Point]
    ) -> tuple[tuple[Pair, ...], tuple[float, ...]]:
        """Return a series of the machine as x and y, and the step that the run was at.

        By step, a sample lies between the steps that were written before and after it.
        """
        clock = self._clock(place)
        times = [at for at, _ in clock]
        begin = self._begin(place)
        pairs, steps = [], []
        for point in points if self.by_time else self._at_steps(place, points):
            if point.at is None:
                continue
            before = max(bisect_right(times, point.at) - 1, 0)
            steps.append(clock[before][1] if clock else 0.0)
            pairs.append((point.at - begin if self.by_time else point.x, point.y))
        return tuple(pairs), tuple(steps)

    def _clock(self, place: int) -> list[Pair]:
        """Return when a run wrote its steps: times and steps, both growing."""
        if place not in self._clocks:
            metrics = self.runs[place].metrics
            name = next(iter((*metrics.told.values(), *metrics.names)), "")
            clock: list[Pair] = []
            for point in metrics.series(name):
                if point.at is not None and (not clock or point.at > clock[-1][0]):
                    clock.append((point.at, point.x))
            self._clocks[place] = clock
        return self._clocks[place]

    def _begin(self, place: int) -> float:
        """Return the time of a run's first number."""
        if place not in self._begins:
            run = self.runs[place]
            readers = [run.metrics, *([run.load.metrics] if run.load is not None else [])]
            firsts = (_first_time(metrics, name) for metrics in readers for name in metrics.names)
            begin = min((at for at in firsts if at is not None), default=0.0)
            self._begins[place] = begin
        return self._begins[place]

    def traces(self, key: str) -> list[Trace]:
        """Return the curves of a chart by step, as a file takes them."""
        from hudtui.core.training.curve_files import Trace

        found = []
        for place, metrics, name, label in self._named(key):
            points = metrics.series(name)
            if key.startswith(_LOAD):
                points = self._at_steps(place, points)
            run = self.runs[place].label
            label = "" if label == run or not key.removeprefix(_LOAD).startswith("+") else label
            found.append(Trace(run, name, points, label))
        return found

    def _at_steps(self, place: int, points: Sequence[Point]) -> tuple[Point, ...]:
        """Return samples of the machine at the steps that the run was at.

        Those from before the first step and after the last are left out.
        """
        from hudtui.core.training.metrics import Point

        clock = self._clock(place)
        times = [at for at, _ in clock]
        found = []
        for point in points:
            after = bisect_right(times, point.at) if point.at is not None else 0
            if 0 < after < len(clock):
                (before, x), (later, next_x) = clock[after - 1 : after + 1]
                share = ((point.at or 0.0) - before) / (later - before)
                found.append(Point(x + (next_x - x) * share, point.y, point.at))
        return tuple(found)

    def stops(self) -> list[float]:
        """Return every x at which one of the charts in sight has a value, in order."""
        return sorted(
            {
                x
                for key, title in self.in_sight()
                for one in self.plot(key, title).series
                for x, _ in one.raw
            }
        )

    def whole(self) -> Pair:
        """Return the smallest and largest x of all charts."""
        wanted = (self.by_time, self.alone and self.place)
        if self._ends is None or self._ends[0] != wanted:
            ends = [end for one in self.shown() for end in self._ends_of(*one)]
            low = min((first for first, _ in ends), default=0.0)
            self._ends = wanted, (low, max((last for _, last in ends), default=0.0))
        return self._ends[1]

    def _ends_of(self, key: str, title: str) -> list[Pair]:
        """Return smallest and largest x of a chart's series, without its points where it can."""
        found = []
        by_points = self.by_time or (key.startswith(_LOAD) and self.alone)
        if key.startswith(_LOAD) and not by_points:
            return []  # a sample lies between two steps of the run
        for _, metrics, name, _ in [] if by_points else self._named(key):
            first, last = metrics.first(name), metrics.last(name)
            if first is not None and last is not None:
                found.append((first.x, last.x))
        if by_points:
            series = self.plot(key, title).series
            found = [(one.raw[0][0], one.raw[-1][0]) for one in series if one.raw]
        return found

    def x_range(self) -> Pair:
        """Return the ends of the x axis that all charts share.

        So the cursor is in the same column.
        """
        first, last = self.whole()
        if self.span is None:
            return first, last
        end = last if self.end is None else min(max(self.end, first + self.span), last)
        return max(end - self.span, first), end

    def show_part(self, low: float, high: float) -> None:
        """Show the part of the x axis between two x, moved to where there are values.

        All of it if the part is as long.
        """
        first, last = self.whole()
        if not self.by_time and first.is_integer() and last.is_integer():
            low, high = float(round(low)), float(round(low) + math.ceil(high - low))
        self.span = high - low if high - low < last - first else None
        self.end = high if self.span is not None and high < last else None

    # -- drawing
    # ----------------------------------------------------------------------------------------------

    def shape(self, width: int, count: int) -> tuple[int, int, int]:
        """Return columns of charts, cells of a chart, and lines of a chart."""
        columns = max(min((width + 2) // (_NARROWEST + 2), 4, count), 1)
        rows = min(math.ceil(count / columns), self.page_rows)
        most = 24 if count > 1 else 200
        return (
            columns,
            (width - 2 * (columns - 1)) // columns,
            max(min((self.room or 24) // rows, most), _LOWEST),
        )

    @property
    def page_rows(self) -> int:
        """Return how many rows of charts there is room for at once."""
        return max((self.room or 24) // _LOWEST, 1)

    def page_of(self, place: int) -> int:
        """Return the page of a chart, from 0."""
        columns, _, _ = self.shape(self.content_size.width, max(len(self.shown()), 1))
        return 0 if self.alone else place // (columns * self.page_rows)

    def page_top(self, page: int) -> int:
        """Return the line at which a page begins, from 0."""
        _, _, height = self.shape(self.content_size.width, max(len(self.shown()), 1))
        return page * self.page_rows * height

    @property
    def top(self) -> int:
        """Return the first line that is in sight."""
        page = self.parent
        assert isinstance(page, Widget)
        return max(page.scroll_offset.y - self.virtual_region.y, 0)

    def _rows_in_sight(self) -> range:
        _, _, height = self.shape(self.content_size.width, max(len(self.shown()), 1))
        page = self.parent
        assert isinstance(page, Widget)
        lines = page.size.height or 24
        return range(self.top // height, (self.top + lines - 1) // height + 1)

    def in_sight(self) -> list[tuple[str, str]]:
        """Return keys and titles of the charts in sight."""
        shown = self.shown()
        columns, _, _ = self.shape(self.content_size.width, max(len(shown), 1))
        rows = self._rows_in_sight()
        return shown[rows.start * columns : rows.stop * columns]

    def spot(self, width: int) -> Region:
        """Return where the chosen chart is."""
        columns, _, height = self.shape(width, len(self.shown()))
        return Region(0, 0 if self.alone else self.place // columns * height, width, height)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the charts take."""
        count = len(self.shown())
        if not count:
            return -(-len(self.words) // max(width, 1)) + 1
        columns, _, height = self.shape(width, count)
        rows = math.ceil(count / columns)
        if rows > self.page_rows:
            rows = math.ceil(rows / self.page_rows) * self.page_rows  # whole pages
        return rows * height

    @property
    def words(self) -> str:
        """Return what stands in the place of charts."""
        return "No chart matches the filter." if self._all else self.empty

    def render(self) -> Content:
        """Return the words for the time before the first number; charts are drawn line by line."""
        return Content.styled(self.words, _MUTED)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw what is in sight.

        Curves are kept until their numbers, their size or the theme change.
        """
        self._layout = self._lay_out()
        return super().render_lines(crop)

    def _lay_out(self) -> _Layout | None:
        shown = self.shown()
        columns, width, height = self.shape(self.content_size.width, max(len(shown), 1))
        if not shown or width < 20:
            return None
        first = self._rows_in_sight().start
        plots = [self.plot(*one) for one in self.in_sight()]
        x = self.x_range()
        plots = [self._part(plot, x) for plot in plots]
        widths = [plot.axis.label_width(height - 3) for plot in plots if plot.axis is not None]
        labels = max(widths, default=4)
        return _Layout(first, plots, columns, width, height, labels, x)

    def render_line(self, y: int) -> Strip:
        layout = self._layout
        if layout is None:
            return super().render_line(y)
        row, line = divmod(y, layout.height)
        row -= layout.first
        if row < 0:
            return Strip.blank(self.content_size.width, self.visual_style.rich_style)
        plots = layout.plots[row * layout.columns : (row + 1) * layout.columns]
        gap = Strip.blank(2, self.visual_style.rich_style)
        strips = [strip for plot in plots for strip in (gap, self._chart_line(plot, line, layout))][
            1:
        ]
        return Strip.join(strips).adjust_cell_length(
            self.content_size.width, self.visual_style.rich_style
        )

    def changed_by(self, before: float | None, after: float | None) -> list[Region]:
        """Return what a move of the cursor changes.

        The titles, and the columns that it left and came to.
        """
        layout, regions = self._layout, []
        for number, plot in enumerate(layout.plots if layout is not None else ()):
            assert layout is not None
            row, column = divmod(number, layout.columns)
            left, top = column * (layout.width + 2), (layout.first + row) * layout.height
            regions.append(Region(left, top, layout.width, 1))
            if (known := self._drawn.get(plot.key)) is not None:
                places = {
                    left + layout.labels + 2 + known.drawing.column(x)
                    for x in (before, after)
                    if x is not None
                }
                regions += [Region(place, top + 1, 1, layout.height - 3) for place in places]
        return regions

    def _chart_line(self, plot: _Plot, line: int, layout: _Layout) -> Strip:
        """Return a line of a chart: title, curves, x axis, and a blank one."""
        if line == 0:
            return self._strip(self._title(plot, layout.width), layout.width)
        if plot.axis is None or line == layout.height - 1:
            return Strip.blank(layout.width, self.visual_style.rich_style)
        columns = layout.width - layout.labels - 2
        wanted = (layout.width, layout.height, layout.labels, layout.x, self.visual_style)
        known = self._drawn.get(plot.key)
        if known is None or known.wanted != wanted:
            drawing = draw(
                [one.line for one in plot.series], columns, layout.height - 3, plot.axis, layout.x
            )
            below = " " * (layout.labels + 2) + x_labels(*layout.x, columns, by_time=self.by_time)
            low, high = layout.x
            every = (x for one in plot.series for x in one.marks)
            marks = {drawing.column(x) for x in every if low <= x <= high}
            lines = [*drawing.lines(layout.labels, marks), Content.styled(below, _MUTED)]
            strips = [self._strip(one, layout.width) for one in lines]
            known = self._drawn[plot.key] = _Drawn(wanted, drawing, strips)
        strip = known.strips[line - 1]
        if (
            not self.focused
            or self.x is None
            or not layout.x[0] <= self.x <= layout.x[1]
            or line == layout.height - 2
        ):
            return strip
        column = layout.labels + 2 + known.drawing.column(self.x)
        before, under, after = strip.divide([column, column + 1, layout.width])
        text, style, _ = next(iter(under))
        if text == " ":
            cursor = Segment("│", next(iter(known.strips[-1])).style)
        elif plot.series[0].line.style.colour:
            cursor = Segment(
                text,
                (style or Style.null())
                + Style(color=self.visual_style.rich_style.color, bold=True),
            )
        else:
            cursor = Segment(text, (style or Style.null()) + Style(reverse=True))
        return Strip.join([before, Strip([cursor], 1), after])

    def _title(self, plot: _Plot, width: int) -> Content:
        values = [
            (
                one.signed(
                    len(plot.series), f"{figure(found[1])}{f' {plot.unit}' if plot.unit else ''}"
                ),
                one.line.style.colour,
            )
            for one in plot.series
            if (found := one.at(self.x)) is not None
        ]
        marked = self.focused and plot.key == self.titles()[self.place][0]
        title = f"◆ {plot.title}" if plot.key in self.pinned else plot.title
        return title_line(title, values, width, marked=marked)

    def _strip(self, line: Content, width: int) -> Strip:
        strips = Visual.to_strips(self, line, width, 1, self.visual_style)
        return strips[0].adjust_cell_length(width, self.visual_style.rich_style)

    def on_click(self, event: events.Click) -> None:
        """The chart under the mouse is chosen, and the cursor put there."""
        shown, at = self.shown(), event.get_content_offset(self)
        if at is None or not shown:
            return
        columns, width, height = self.shape(self.content_size.width, len(shown))
        place = at.y // height * columns + min(at.x // (width + 2), columns - 1)
        if place >= len(shown):
            return
        key, title = shown[place]
        drawn = self._drawn.get(key)
        x = None
        if drawn is not None:
            cell = at.x % (width + 2) - (width - len(drawn.drawing.cells[0]))
            if cell >= 0:
                wanted = drawn.drawing.x_at(cell)
                x = min(
                    (stop for one in self.plot(key, title).series for stop, _ in one.raw),
                    key=lambda stop: abs(stop - wanted),
                )
        self.post_message(self.Pointed(key, x))


def _marks(
    wanted: Sequence[float], steps: Sequence[float], raw: Sequence[Pair]
) -> tuple[float, ...]:
    """Return the x of the first value at each step, or after it."""
    places = (bisect_left(steps, step) for step in wanted)
    return tuple(raw[place][0] for place in places if place < len(raw))


def _first_time(metrics: MetricsReader, name: str) -> float | None:
    first = metrics.first(name)
    if first is not None and first.at is not None:
        return first.at
    return next((point.at for point in metrics.series(name) if point.at is not None), None)


def _fact_line(name: str, value: str) -> Content:
    return Content.assemble((clean_line(name, 60), _MUTED), "  ", clean_line(value, 200))


class RunBar(Sheet):
    """Settings, machine and newest numbers of a run, in lines."""

    def tell(self, run: Numbers) -> None:
        """Show a run."""
        metrics = run.metrics
        newest = ((name, metrics.last(name)) for name in metrics.names)
        summary = tuple((name, figure(point.y)) for name, point in newest if point is not None)
        lines: list[Content] = []
        for title, facts in (*run.about, ("summary", summary)):
            if not facts:
                continue
            lines += [Content("")] if lines else []
            lines.append(Content.styled(title, "bold"))
            lines += [_fact_line(*fact) for fact in facts]
        self.show(lines)


class _ChartsPage(VerticalScroll, inherit_bindings=False):
    """Holds the charts and the focus. The keys are those of the pane."""

    class Scrolled(Message):
        """Other charts are in sight."""

    class Fitted(Message):
        """There is another number of lines for the charts."""

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.post_message(self.Scrolled())

    def on_mount(self) -> None:
        """The charts fill what room there is.

        Textual tells no widget that it has grown while a dialog lay over its screen.
        """
        self.screen.screen_layout_refresh_signal.subscribe(self, lambda _: self.fill())

    def fill(self) -> None:
        """Give the charts the lines below the widgets above them."""
        charts = self.query_one(_Charts)
        room = max(self.size.height - charts.virtual_region.y, 0)
        if room != charts.room:
            charts.room = room
            charts.refresh(layout=True)
            self.post_message(self.Fitted())


def _no_charts(pane: MetricsPane) -> str | None:
    if pane.charts.titles():
        return None
    return "no chart matches the filter" if pane.charts.wanted else "there are no numbers yet"


_NUMBERS = _no_charts
_PART = unless(lambda pane: pane.charts.span is not None, "the whole x axis is shown")


def _single_values(pane: MetricsPane) -> str | None:
    low, high = pane.charts.x_range()
    few = sum(low <= x <= high for x in pane.charts.stops()) <= _FEWEST
    return "the charts show single values already" if few else None


def _no_numbers(pane: MetricsPane) -> str | None:
    charts = pane.charts
    return None if charts.titles() or charts.wanted else "there are no numbers yet"


def _not_above_0(pane: MetricsPane) -> str | None:
    charts = pane.charts
    plot = charts.plot(*charts.titles()[charts.place])
    if plot.key in charts.logarithmic:
        return None
    if any(y <= 0 for one in plot.series for _, y in one.raw):
        return f"{plot.title} has values that are not above 0"
    return None


class MetricsPane(Acting, Vertical):
    """Charts with two lines of words below.

    The values at the cursor; and what the axes are and which run has which colour.

    Args:
        by_time: The x axis is time from the beginning on.
        empty: Shown while there is no number.
        opens: What Enter opens at the cursor's step, in one to three words; None where there is
            nothing to open.
        id: The widget's id.
    """

    DEFAULT_CSS = """
    MetricsPane { height: 1fr; }
    MetricsPane > #plot-room, MetricsPane _ChartsPage { height: 1fr; }
    MetricsPane #plot-bar { dock: left; width: 34; border-right: vkey $surface; padding: 0 1; }
    MetricsPane > Static {
        height: 1; background: $surface; color: $foreground-muted; padding: 0 1;
    }
    """
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        *needing(
            _NUMBERS,
            (
                AppAction(
                    "plots.open",
                    "Large",
                    "Show the chosen chart large. In a large chart, and with the cursor at a step: "
                    "open the episodes of that step, if there are any.",
                    "enter",
                    palette=False,
                ),
                AppAction(
                    "plots.heat",
                    "Heat map",
                    "Show the load of GPUs and nodes as maps, a row for each and a column for each "
                    "time, or the charts again.",
                    "H",
                    palette=False,
                    when=(
                        unless(
                            lambda pane: pane.maps is not None,
                            "nothing is known of the load of GPUs",
                        ),
                    ),
                ),
                by_key("plots.later", "Later", "Move the cursor to the next value.", "right"),
                by_key(
                    "plots.earlier", "Earlier", "Move the cursor to the previous value.", "left"
                ),
                by_key(
                    "plots.far-later", "Ten later", "Move the cursor ten values on.", "shift+right"
                ),
                by_key(
                    "plots.far-earlier",
                    "Ten earlier",
                    "Move the cursor ten values back.",
                    "shift+left",
                ),
                by_key(
                    "plots.first", "First value", "Move the cursor to the first value.", "home,g"
                ),
                by_key("plots.newest", "Newest value", "Follow the newest values.", "end,G"),
                by_key(
                    "plots.zoom-in",
                    "Zoom in",
                    "Show half as much of the x axis, around the cursor.",
                    "plus,equals_sign",
                    when=(_single_values,),
                ),
                by_key(
                    "plots.zoom-out",
                    "Zoom out",
                    "Show twice as much of the x axis, around the cursor.",
                    "minus",
                    when=(_PART,),
                ),
                by_key(
                    "plots.pan-earlier",
                    "Earlier part",
                    "Move the shown part of the x axis by half to the left.",
                    "left_parenthesis",
                    when=(_PART,),
                ),
                by_key(
                    "plots.pan-later",
                    "Later part",
                    "Move the shown part of the x axis by half to the right.",
                    "right_parenthesis",
                    when=(_PART,),
                ),
                by_key(
                    "plots.whole",
                    "Whole axis",
                    "Show the whole x axis again.",
                    "underscore",
                    when=(_PART,),
                ),
                by_key(
                    "plots.next", "Next chart", "Go to the next chart, down the column.", "down,j"
                ),
                by_key("plots.previous", "Previous chart", "Go to the previous chart.", "up,k"),
                AppAction(
                    "plots.smooth",
                    "Smooth",
                    "Smooth the curves: not at all, somewhat, strongly.",
                    "u",
                    palette=False,
                ),
                AppAction(
                    "plots.axis",
                    "Step/time",
                    "Draw by step, or by the time since the first value.",
                    "A",
                    palette=False,
                ),
                AppAction(
                    "plots.log",
                    "Log scale",
                    "Draw this chart with a logarithmic y axis, or a linear one.",
                    "V",
                    palette=False,
                    when=(_not_above_0,),
                ),
                AppAction(
                    "plots.zoom",
                    "One chart",
                    "The chosen chart alone, or all charts.",
                    "v",
                    palette=False,
                ),
                AppAction(
                    "plots.all",
                    "All charts",
                    "Show all charts again, at their newest values.",
                    "escape",
                    palette=False,
                ),
                AppAction(
                    "plots.others",
                    "All numbers",
                    "Hide or show the numbers that have no common name.",
                    "O",
                    palette=False,
                ),
                AppAction(
                    "plots.write",
                    "Write",
                    "Write the listed charts into a file: numbers as .csv, a picture as .svg.",
                    "W",
                    palette=False,
                ),
                AppAction(
                    "plots.pin",
                    "Pin",
                    "Put this chart before the others, in every run and from now on; or undo that.",
                    "asterisk",
                    palette=False,
                ),
                AppAction(
                    "plots.bar",
                    "Settings",
                    "Show or hide the bar with the run's settings, its machine and newest numbers.",
                    "B",
                    palette=False,
                    when=(
                        unless(
                            lambda pane: pane.charts.runs[0].about,
                            "the run says nothing of its settings and its machine",
                        ),
                    ),
                ),
                by_key("plots.page-down", "Next page", "The next charts.", "pagedown,ctrl+d"),
                by_key("plots.page-up", "Page before", "The charts before.", "pageup,ctrl+u"),
            ),
        ),
        AppAction(
            "plots.filter",
            "Filter charts",
            "Show only charts that match: words, regular expressions, -not.",
            "slash",
            palette=False,
            when=(_no_numbers,),
        ),
    )

    if TYPE_CHECKING:
        app: HudtuiApp

    @dataclass
    class StepChosen(Message):
        """Enter was pressed on a value."""

        step: float
        """The step of the value at the cursor, also where the x axis is time."""
        run: str
        """`Numbers.label` of the run that the value is from."""

    def __init__(
        self,
        *,
        by_time: bool = False,
        empty: str = EMPTY,
        opens: str | None = None,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self.charts = _Charts(empty)
        self.charts.by_time = by_time
        self.bar = RunBar(id="plot-bar")
        self._bar_wanted: bool | None = None
        """None until the user has shown or hidden the bar."""
        self._filter = FilterField(placeholder="words, regular expressions, -not")
        self._values = FittedStatic(id="plot-values")
        self._words = FittedStatic(id="plot-words")
        self.opens = opens
        self._key: object = None
        self._first: str | None = None
        """The run that was drawn above the others at last."""
        self._heat: HeatMaps | None = None
        """The maps, once somebody has looked at them."""
        self._heat_not_before = 0.0
        """Monotonic time before which the maps are not made again."""
        self._heat_timer: Timer | None = None

    def compose(self) -> ComposeResult:
        with Horizontal(id="plot-room"):
            with _ChartsPage():
                yield from self.compose_above()
                yield self.charts
            yield self.bar
        yield self._values
        yield self._words

    def compose_above(self) -> ComposeResult:
        """What a subclass shows above the charts; it scrolls with them."""
        yield from ()

    def show(self, runs: Sequence[Numbers]) -> None:
        """Draw these runs, the first one above the others.

        Costs nothing while no number has changed.
        """
        if not runs:
            self.whole_again()
        loads = [0 if run.load is None else run.load.metrics.count for run in runs]
        numbers = [
            (run.label, id(run.metrics), run.metrics.count, run.window, *run.marks.items())
            for run in runs
        ]
        key = (numbers, loads, [run.about for run in runs[:1]])
        if key != self._key:
            if [run.label for run in self.charts.runs[:1]] != [run.label for run in runs[:1]]:
                self.charts.span = self.charts.end = None
            if runs and runs[0].label != self._first:
                self.charts.logarithmic.clear()  # it was chosen for the values of another run
                self._first = runs[0].label
            self._key = key
            had_maps = self.maps is not None
            self.charts.runs = tuple(runs)
            if had_maps != (self.maps is not None):
                self.refresh_bindings()
            self._fit_bar()
            self._make_anew()
            self._show_heat()

    @property
    def maps(self) -> Callable[[], Sequence[HeatMap]] | None:
        """What returns the load of the first run as maps; None without any."""
        runs = self.charts.runs
        return runs[0].heat if runs else None

    @property
    def hot(self) -> bool:
        """Whether the maps stand in place of the charts."""
        return self._heat is not None and self._heat.display

    async def action_heat(self) -> None:
        if self._heat is None:
            from hudtui.tui.widgets.heat_maps import HeatMaps

            self._heat = HeatMaps(id="plot-heat")
            await self.query_one("#plot-room").mount(self._heat)
            self._heat.display = False
        self._turn_to_maps(not self._heat.display)

    def _turn_to_maps(self, maps: bool) -> None:
        """Show the maps, or the charts again."""
        assert self._heat is not None
        self._heat.display = maps
        self._heat_not_before = 0.0
        for charts in (self.query_one(_ChartsPage), self._values, self._words):
            charts.display = not maps
        self._show_heat()
        self.focus()
        self.refresh_bindings()

    def _show_heat(self) -> None:
        if self._heat is None or not self._heat.display or self._heat_timer is not None:
            return
        if self.maps is None:
            self._turn_to_maps(False)
        elif (wait := self._heat_not_before - monotonic()) > 0:
            self._heat_timer = self.set_timer(wait, self._show_heat_again)
        else:  # hundreds of GPUs take a while
            begun = monotonic()
            self._heat.show_maps(self.maps())
            self._heat_not_before = monotonic() + _HEAT_SHARE * (monotonic() - begun)

    def _show_heat_again(self) -> None:
        self._heat_timer = None
        self._show_heat()

    def on_mount(self) -> None:
        """Colours depend on the theme, and the first charts on the user."""
        self.charts.pinned = self._preferred()
        self.charts.order()
        self.app.theme_changed_signal.subscribe(self, lambda _: self._make_anew())

    def on_resize(self) -> None:
        self._fit_bar()

    def _fit_bar(self) -> None:
        """Show the bar if it says something, and there is room or the user wants it."""
        runs = self.charts.runs
        wide = self.size.width >= _WITH_BAR
        wanted = wide if self._bar_wanted is None else self._bar_wanted
        self.bar.display = bool(wanted and runs and runs[0].about)
        if self.bar.display:
            self.bar.tell(runs[0])

    def action_bar(self) -> None:
        self._bar_wanted = not self.bar.display
        self._fit_bar()
        if not self.bar.display:
            self.focus()

    def _make_anew(self) -> None:
        self.charts.forget()
        self._redraw()

    def _redraw(self) -> None:
        self.charts.refresh(layout=True)
        self._tell()

    def _tell(self) -> None:
        self._values.show(self._values_text)
        self._words.show(self._words_text)

    # -- the lines below
    # ---------------------------------------------------------------------------------------------

    def _values_text(self, room: int) -> Content:
        """Return the values of all charts at the cursor, those of the chosen chart first.

        Args:
            room: Cells of the line.
        """
        charts = self.charts
        titles = charts.in_sight()
        shown = [charts.plot(*one) for one in titles]
        if not any(plot.series for plot in shown):
            return Content("")
        end = f"  Enter: {self.opens}" if self._opens_step() else ""
        text = Content.styled(self._place_text(), "bold")
        chosen = charts.titles()[charts.place]
        place = titles.index(chosen) if chosen in titles else 0
        grouped = [plot.key for plot in shown if plot.key.removeprefix(_LOAD).startswith("+")]
        for plot in [*shown[place:], *shown[:place]]:
            parts = []
            for one in plot.series:
                if (found := one.at(charts.x)) is not None:
                    value = one.signed(len(plot.series), figure(found[1]))
                    label = f"{one.label} " if plot.key in grouped and one.label else ""
                    parts.append((label + value, one.line.style.colour or "bold"))
            piece = Content.assemble(
                "  ",
                (plot.title, _MUTED),
                " ",
                Content(" · ").join(Content.styled(*part) for part in parts),
            )
            if parts and text.cell_length + piece.cell_length + len(end) <= room:
                text += piece
        return text + Content.styled(end, _MUTED)

    def _place_text(self) -> str:
        charts = self.charts
        if not charts.by_time:
            newest = charts.runs[0].metrics.newest
            at = charts.x if charts.x is not None else None if newest is None else newest[0]
            return "" if at is None else f"step {step_text(at)}"
        return "newest" if charts.x is None else f"at {span_text(charts.x)}"

    def _words_text(self, room: int) -> Content:
        charts = self.charts
        words = [
            "by time" if charts.by_time else "by step",
            f"smoothed {charts.weight:g}" if charts.weight else "not smoothed",
        ]
        if charts.by_time and charts.runs and not charts.stops():
            words[0] = "no line says when it was written"
        if (page := self._page_text()) is not None:
            words.insert(1, page)
        if charts.wanted:
            words.insert(1, charts.fault or charts.matching)
        words[1:1] = dict.fromkeys(run.window for run in charts.runs if run.window is not None)
        if charts.titles() and charts.hidden:
            words.append(f"O: {charts.hidden} more")
        if charts.span is not None:
            words[0] += ", {} to {}".format(
                *(span_text(x) if charts.by_time else figure(x) for x in charts.x_range())
            )
        if log := [title for key, title in charts.titles() if key in charts.logarithmic]:
            words.append(f"logarithmic: {', '.join(log)}")
        legend: list[tuple[SeriesStyle, str]] = []
        if len(charts.runs) > 1:
            styles = series_styles(self.app.current_theme)
            legend = [
                (styles[place % len(styles)], run.label) for place, run in enumerate(charts.runs)
            ]
        text = Content("")
        for style, label in legend:  # which run is which comes first where there is little room
            piece = Content.assemble((style.sign, style.colour), " ", clean_line(label, 24), "  ")
            if text.cell_length + piece.cell_length > room:
                break
            text += piece
        return text + cut(" · ".join(words), max(room - text.cell_length, 0))

    # -- actions
    # ----------------------------------------------------------------------------------------------

    @property
    def front(self) -> Widget:
        """The widget that receives the focus: the charts, or the maps in their place."""
        return self._heat if self.hot and self._heat is not None else self.query_one(_ChartsPage)

    def focus(self, scroll_visible: bool = True) -> MetricsPane:
        """The charts take the focus, or the maps in their place."""
        self.front.focus(scroll_visible)
        return self

    def offers(self, action_id: str) -> bool:
        """Esc is the screen's while all charts are shown.

        Enter is the pane's where it opens something. Maps are offered where there are any.
        """
        if self.hot and action_id.startswith("plots."):
            return action_id in ("plots.heat", "plots.all")
        if action_id == "plots.heat":
            return self.maps is not None
        if action_id == "plots.all":
            return self._is_part() or bool(self.charts.wanted)
        return super().offers(action_id)

    def _is_part(self) -> bool:
        charts = self.charts
        return charts.alone or charts.x is not None or charts.span is not None

    def _opens_step(self) -> bool:
        return self.opens is not None and (self.charts.alone or self.charts.x is not None)

    def action_open(self) -> None:
        charts = self.charts
        if not self._opens_step():
            self._zoom(not charts.alone)
            return
        for one in charts.plot(*charts.titles()[charts.place]).series:
            if (found := one.at(charts.x)) is not None:
                self.post_message(self.StepChosen(found[0], charts.runs[one.run].label))
                return

    def action_smooth(self) -> None:
        self.charts.weight = WEIGHTS[(WEIGHTS.index(self.charts.weight) + 1) % len(WEIGHTS)]
        self._make_anew()

    def action_axis(self) -> None:
        self.charts.by_time = not self.charts.by_time
        self.charts.x = self.charts.span = self.charts.end = None
        self._make_anew()

    def action_log(self) -> None:
        self.charts.logarithmic ^= {self.charts.titles()[self.charts.place][0]}
        self._make_anew()

    def action_zoom(self) -> None:
        self._zoom(not self.charts.alone)

    def action_all(self) -> None:
        if self.hot:
            self._turn_to_maps(False)
        elif self._is_part():
            self.whole_again()
        else:
            self._filter.value = ""
            self._filter.display = False

    def whole_again(self) -> None:
        """Show all charts, all of the x axis, and the newest values."""
        if self.charts.x is not None:
            self._put(None)
        if self.charts.span is not None:
            self.action_whole()
        if self.charts.alone:
            self._zoom(False)

    def action_whole(self) -> None:
        self._show_part(*self.charts.whole())

    def _scale(self, by: float) -> None:
        low, high = self.charts.x_range()
        at = self._cursor()
        self._show_part(at - (at - low) * by, at + (high - at) * by)

    action_zoom_in = partialmethod(_scale, 0.5)
    action_zoom_out = partialmethod(_scale, 2.0)

    def _cursor(self) -> float:
        """Return where the cursor is, or the end of the shown part that is nearest to it.

        Without one the right end.
        """
        low, high = self.charts.x_range()
        return high if self.charts.x is None else min(max(self.charts.x, low), high)

    def _pan(self, by: float) -> None:
        low, high = self.charts.x_range()
        self._show_part(low + (high - low) * by, high + (high - low) * by)

    action_pan_earlier = partialmethod(_pan, -0.5)
    action_pan_later = partialmethod(_pan, 0.5)

    def _show_part(self, low: float, high: float) -> None:
        self.charts.show_part(low, high)
        self.charts.refresh()
        self._tell()
        self.refresh_bindings()

    def _zoom(self, alone: bool) -> None:
        self.charts.alone = alone
        self._redraw()
        self.refresh_bindings()
        self.call_after_refresh(self._follow)

    def _turn(self, by: int) -> None:
        charts = self.charts
        titles = charts.titles()
        if titles:
            columns = charts.shape(charts.content_size.width, len(titles))[0]
            order = sorted(
                range(len(titles)),
                key=lambda place: (charts.page_of(place), place % columns, place),
            )
            self._choose(titles[order[(order.index(charts.place) + by) % len(order)]][0])

    action_next = partialmethod(_turn, 1)
    action_previous = partialmethod(_turn, -1)

    def _choose(self, key: str) -> None:
        self.charts.chosen = key
        self.charts.refresh(layout=self.charts.alone)
        self._tell()
        self._follow()

    def _follow(self) -> None:
        charts, page = self.charts, self.query_one(_ChartsPage)
        if not charts.place or charts.alone:
            page.scroll_home(animate=False)
            return
        top = charts.page_top(charts.page_of(charts.place))
        page.scroll_to(y=charts.virtual_region.y + top if top else 0, animate=False)

    def action_first(self) -> None:
        if stops := self.charts.stops():
            self._put(stops[0])

    def action_newest(self) -> None:
        self._put(None)

    def _move(self, by: int) -> None:
        stops = self.charts.stops()
        if stops:
            here = max(bisect_right(stops, self._cursor()) - 1, 0)
            place = max(here + by, 0)
            self._put(stops[place] if place < len(stops) - 1 else None)

    action_later = partialmethod(_move, 1)
    action_earlier = partialmethod(_move, -1)
    action_far_later = partialmethod(_move, _FAR)
    action_far_earlier = partialmethod(_move, -_FAR)

    def _put(self, x: float | None) -> None:
        before, self.charts.x = self.charts.x, x
        low, high = self.charts.x_range()
        at = self.charts.whole()[1] if x is None else x
        if low <= at <= high:
            self.charts.refresh(*self.charts.changed_by(before, x))
        else:
            self._show_part(at - (high - low) / 2, at + (high - low) / 2)
        self._tell()
        if (before is None) != (x is None):
            self.refresh_bindings()

    @on(_Charts.Pointed)
    def _point(self, event: _Charts.Pointed) -> None:
        event.stop()
        self._choose(event.key)
        if event.x is not None:
            self._put(event.x)

    def _page(self, by: int) -> None:
        """Go to the first chart of another page."""
        charts = self.charts
        titles = charts.titles()
        pages = [charts.page_of(place) for place in range(len(titles))]
        wanted = min(max(pages[charts.place] + by, 0), pages[-1])
        if wanted != pages[charts.place]:
            self._choose(titles[pages.index(wanted)][0])
        elif charts.virtual_region.y:  # rows of words stand above the charts
            self.query_one(_ChartsPage).scroll_relative(y=by * self.size.height, animate=False)

    action_page_down = partialmethod(_page, 1)
    action_page_up = partialmethod(_page, -1)

    def _page_text(self) -> str | None:
        """Return which page of how many is in sight; None for a single one."""
        charts = self.charts
        last = charts.page_of(max(len(charts.shown()) - 1, 0))
        if not last:
            return None
        height = charts.page_top(1)
        page = min((charts.top + height // 2) // height, last)
        return f"page {page + 1} of {last + 1}"

    @on(_ChartsPage.Scrolled)
    def _scrolled(self, event: _ChartsPage.Scrolled) -> None:
        event.stop()
        self._tell()

    @on(_ChartsPage.Fitted)
    def _fitted(self, event: _ChartsPage.Fitted) -> None:
        event.stop()
        self._tell()
        self.call_after_refresh(self._follow)

    def action_write(self) -> None:
        self.run_worker(self._write(), group="plots-write", exclusive=True)

    async def _write(self) -> None:
        from hudtui.core.files import write_atomic
        from hudtui.core.flows.person import may_replace
        from hudtui.core.paths import typed_path
        from hudtui.core.training.curve_files import Chart, check_name, curve_file

        charts = [Chart(title, self.charts.traces(key)) for key, title in self.charts.titles()]
        name = await self.app.ask(
            "Write the curves",
            value="curves.svg",
            placeholder="a file: .csv for numbers, .svg for a picture",
            accept="Write",
            check=check_name,
        )
        if not name:
            return
        path = Path(self.app.folder, typed_path(name))
        if await may_replace(self.app, path, name):
            text = await asyncio.to_thread(curve_file, charts, name)
            await asyncio.to_thread(write_atomic, path, text)
            self.app.say(f"Wrote {plural(len(charts), 'chart')} into {path}.")

    # -- filter and pins
    # ----------------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        if not self._filter.is_attached:
            self.mount(self._filter, before=0)
        self._filter.display = True
        self._filter.focus()

    @on(Input.Changed)
    def _filter_typed(self, event: Input.Changed) -> None:
        event.stop()
        self.charts.wanted = event.value.strip()
        self._arrange()

    def _arrange(self) -> None:
        """Show the charts that pass the filter, in their order."""
        self.charts.order()
        self._redraw()
        self.refresh_bindings()
        self.call_after_refresh(self._follow)

    @on(FilterField.Left)
    def _filter_left(self, event: FilterField.Left) -> None:
        event.stop()
        self._filter.display = bool(self._filter.value)
        self.focus()

    def _preferred(self) -> tuple[str, ...]:
        kept = getattr(self.app, "preferences", None)
        return () if kept is None else kept.pinned

    def action_pin(self) -> None:
        charts = self.charts
        key = charts.titles()[charts.place][0]
        others = tuple(one for one in self._preferred() or charts.pinned if one != key)
        charts.pinned = others if key in charts.pinned else (*others, key)
        charts.chosen = key
        self._arrange()
        if hasattr(self.app, "prefer"):
            self.app.prefer(pinned=charts.pinned[-KEPT:])

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The cursor is shown while the charts have the focus."""
        self.charts.focused = isinstance(event.widget, _ChartsPage)
        self.charts.refresh()

    def on_descendant_blur(self) -> None:
        self.charts.focused = False
        self.charts.refresh()

    def action_others(self) -> None:
        self.charts.everything = not self.charts.everything
        self.whole_again()
        self._make_anew()
