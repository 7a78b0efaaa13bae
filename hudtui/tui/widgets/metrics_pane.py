"""The numbers of runs as charts: one for each quantity, runs compared in colours, smoothed or not, by step or by time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region, Size
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.text import clean_line
from hudtui.tui.actions import Acting, AppAction
from hudtui.tui.widgets.charts import COLOURS, ChartLine, chart, smooth
from hudtui.tui.widgets.fit import cut
from hudtui.tui.widgets.scrolling import Page
from hudtui.tui.widgets.words import span

if TYPE_CHECKING:
    from hudtui.core.training.metrics import MetricsReader, Point

WEIGHTS = (0.0, 0.6, 0.9)
"""How strongly curves may be smoothed."""
EMPTY = "No numbers yet. What the run measures appears here as curves."
_NARROWEST = 36
"""Cells of a chart."""
_MOST = 40
"""Charts that are drawn."""


@dataclass(frozen=True)
class Numbers:
    """The numbers of one run, under the name that the legend shows."""

    label: str
    metrics: MetricsReader
    scales: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    """Of series whose floor and ceiling are known, by their names; see `charts.chart`."""


class _Charts(Widget):
    """The charts, beside and below each other."""

    ALLOW_SELECT = False
    DEFAULT_CSS = "_Charts { height: auto; width: 1fr; padding: 0 1; }"

    def __init__(self, empty: str) -> None:
        super().__init__()
        self.empty = empty
        """Shown while there is no number."""
        self.runs: tuple[Numbers, ...] = ()
        self.weight = 0.0
        self.by_time = False
        self.everything = False
        self.cursor: str | None = None
        """Key of the chart that the cursor is on; None for the first one."""
        self.alone = False
        """Only that one is shown."""
        self.focused = False
        """The cursor is shown."""
        self.room = 0
        """Lines that there are to fill."""

    def titles(self) -> list[tuple[str, str]]:
        """What there is a chart of: key and title, in the order in which they are shown."""
        from hudtui.core.training.metrics import QUANTITIES

        told = {quantity.name: quantity for quantity in QUANTITIES}
        there = {name for run in self.runs for name in run.metrics.told}
        found = [(name, quantity.title) for name, quantity in told.items() if name in there]
        if self.everything or not found:
            used = {series for run in self.runs for series in run.metrics.told.values()}
            others = dict.fromkeys(name for run in self.runs for name in run.metrics.names if name not in used)
            found += [(f"={name}", name) for name in others]
        return found[:_MOST]

    @property
    def place(self) -> int:
        """Of the chart under the cursor, among all."""
        return next((place for place, (key, _) in enumerate(self.titles()) if key == self.cursor), 0)

    def spot(self, width: int) -> Region:
        """Where the chart under the cursor is."""
        columns, _, height = self._shape(width, len(self._shown()))
        return Region(0, 0 if self.alone else self.place // columns * height, width, height)

    def _shown(self) -> list[tuple[str, str]]:
        titles = self.titles()
        return titles[self.place : self.place + 1] if self.alone else titles

    def _shape(self, width: int, count: int) -> tuple[int, int, int]:
        """Columns, cells of a chart, and lines of a chart."""
        columns = max(min((width + 2) // (_NARROWEST + 2), 3, count), 1)
        rows = math.ceil(count / columns)
        return columns, (width - 2 * (columns - 1)) // columns, max(min((self.room or 24) // rows, 24 if count > 1 else 200), 6)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as the charts take."""
        count = len(self._shown())
        if not count:
            return -(-len(self.empty) // max(width, 1)) + 1
        columns, _, height = self._shape(width, count)
        return math.ceil(count / columns) * height

    def render(self) -> Content:
        """All charts."""
        shown = self._shown()
        if not shown:
            return Content.styled(self.empty, "$foreground-muted")
        columns, width, height = self._shape(self.content_size.width, len(shown))
        if width < 20:
            return Content("")
        lines: list[Content] = []
        for start in range(0, len(shown), columns):
            row = [self._chart(key, title, width, height) for key, title in shown[start : start + columns]]
            lines += [Content("  ").join(parts) for parts in zip(*(one.split("\n") for one in row), strict=True)]
        return Content("\n").join(lines)

    def _chart(self, key: str, title: str, width: int, height: int) -> Content:
        from hudtui.core.training.metrics import QUANTITIES

        traces, last, scale = [], None, None
        for place, run in enumerate(self.runs):
            name = key[1:] if key.startswith("=") else run.metrics.named(key)
            if name is None:
                continue
            pairs = self._pairs(run.metrics.series(name))
            faint = pairs if self.weight and len(self.runs) == 1 else ()
            traces.append(ChartLine(smooth(pairs, self.weight), COLOURS[place % len(COLOURS)], faint))
            scale = scale or run.scales.get(name)
            if place == 0 and (point := run.metrics.last(name)) is not None:
                last = point.y
        unit = next((quantity.unit for quantity in QUANTITIES if quantity.name == key), "")
        marked = self.focused and key == self.titles()[self.place][0]
        return chart(title, traces, width, height, unit=unit, last=last, scale=scale, marked=marked)

    def _pairs(self, points: Sequence[Point]) -> tuple[tuple[float, float], ...]:
        if not self.by_time:
            return tuple((point.x, point.y) for point in points)
        timed = [(point.at, point.y) for point in points if point.at is not None]
        return tuple((at - timed[0][0], y) for at, y in sorted(timed))


class MetricsPane(Acting, Vertical):
    """Charts with a line of words below: what the x axis is, how they are smoothed, and which run has which colour."""

    DEFAULT_CSS = """
    MetricsPane { height: 1fr; }
    MetricsPane > Page { height: 1fr; }
    MetricsPane > #plot-words { height: 1; background: $surface; color: $foreground-muted; padding: 0 1; }
    """
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("plots.smooth", "Smooth", "Smooth the curves: not at all, somewhat, strongly.", "s", palette=False),
        AppAction("plots.axis", "Step/time", "Draw by step, or by the time since the first value.", "t", palette=False),
        AppAction("plots.zoom", "Zoom", "The chart at the cursor alone, or all again.", "z", palette=False),
        AppAction("plots.all", "All charts", "All charts again.", "escape", palette=False),
        AppAction("plots.next", "Next chart", "Move the cursor to the next chart.", "right", palette=False, show=False),
        AppAction("plots.previous", "Chart before", "Move the cursor to the chart before.", "left", palette=False, show=False),
        AppAction("plots.others", "All numbers", "Also show the numbers that have no common name.", "o", palette=False),
    )

    def __init__(self, *, by_time: bool = False, empty: str = EMPTY, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._charts = _Charts(empty)
        self._charts.by_time = by_time
        self._words = Static(id="plot-words")
        self._key: object = None

    def compose(self) -> ComposeResult:
        """Charts, words."""
        with Page():
            yield self._charts
        yield self._words

    def show(self, runs: Sequence[Numbers]) -> None:
        """Draw these runs, the first one above the others. Costs nothing while no number has changed."""
        if not runs:
            self.action_all()
        key = tuple((run.label, id(run.metrics), run.metrics.count) for run in runs)
        if key != self._key:
            self._key = key
            self._charts.runs = tuple(runs)
            self._redraw()

    def on_resize(self) -> None:
        """The charts fill what room there is."""
        self._redraw()

    def _redraw(self) -> None:
        self._charts.room = max(self.size.height - 1, 0)
        self._charts.refresh(layout=True)
        self._words.update(self._told())

    def _told(self) -> Content:
        charts = self._charts
        words = ["by time" if charts.by_time else "by step", f"smoothed {charts.weight:g}" if charts.weight else "not smoothed"]
        newest = charts.runs[0].metrics.newest if charts.runs else None
        if newest is not None and not charts.by_time:
            words[0] = f"steps to {newest[0]:g}"
        elif charts.by_time and charts.runs:
            ends = [
                pairs[-1][0]
                for name in charts.runs[0].metrics.names
                if (pairs := charts._pairs(charts.runs[0].metrics.series(name)))
            ]
            words[0] = f"time to {span(max(ends))}" if ends else "no line says when it was written"
        room = max(self.size.width - 2, 10)
        text = Content(cut(" · ".join(words), room))
        if len(charts.runs) > 1:
            for place, run in enumerate(charts.runs):
                piece = Content.assemble("  ", ("━ ", COLOURS[place % len(COLOURS)]), clean_line(run.label, 24))
                if text.cell_length + piece.cell_length > room:
                    break
                text += piece
        return text

    def focus(self, scroll_visible: bool = True) -> MetricsPane:
        """The charts take the focus."""
        self.query_one(Page).focus(scroll_visible)
        return self

    def action_smooth(self) -> None:
        """The next weight."""
        self._charts.weight = WEIGHTS[(WEIGHTS.index(self._charts.weight) + 1) % len(WEIGHTS)]
        self._redraw()

    def action_axis(self) -> None:
        """Step or time."""
        self._charts.by_time = not self._charts.by_time
        self._redraw()

    def offers(self, action_id: str) -> bool:
        """Esc is the screen's while all charts are shown."""
        return self._charts.alone if action_id == "plots.all" else super().offers(action_id)

    def action_zoom(self) -> None:
        """The chart at the cursor alone, or all."""
        self._zoom(not self._charts.alone)

    def action_all(self) -> None:
        """All charts."""
        if self._charts.alone:
            self._zoom(False)

    def _zoom(self, alone: bool) -> None:
        self._charts.alone = alone
        self._redraw()
        self.refresh_bindings()
        self.call_after_refresh(self._follow_cursor)

    def action_next(self) -> None:
        """The cursor on the next chart."""
        self._move(1)

    def action_previous(self) -> None:
        """The cursor on the chart before."""
        self._move(-1)

    def _move(self, by: int) -> None:
        titles = self._charts.titles()
        if titles:
            self._charts.cursor = titles[(self._charts.place + by) % len(titles)][0]
            self._redraw()
            self._follow_cursor()

    def _follow_cursor(self) -> None:
        page = self.query_one(Page)
        page.scroll_to_region(self._charts.spot(self._charts.content_size.width), animate=False)

    def on_descendant_focus(self) -> None:
        """The cursor is shown while the charts have the focus."""
        self._charts.focused = True
        self._charts.refresh()

    def on_descendant_blur(self) -> None:
        """The cursor is shown while the charts have the focus."""
        self._charts.focused = False
        self._charts.refresh()

    def action_others(self) -> None:
        """All numbers, or those that have a common name."""
        self._charts.everything = not self._charts.everything
        self.action_all()
        self._redraw()
