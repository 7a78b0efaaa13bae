"""The scrolling part of a log pane. It draws only the visible lines."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.cache import LRUCache
from textual.events import Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.widget import Widget

from hudtui.core.pattern import Pattern
from hudtui.tui.log.model import Level, LogBuffer, level_of

_LEVEL_STYLES = {
    Level.ERROR: "log--error",
    Level.WARNING: "log--warning",
    Level.INFO: "log--info",
    Level.DEBUG: "log--debug",
}
_VALUES = re.compile(
    r"""((?:"[^"\\]{0,200}"|'[^'\\]{0,200}')(?=\s?:))|("[^"\\]{0,200}"|'[^'\\]{0,200}')|(-?\b\d[\d.]*(?:e[+-]?\d+)?\b|\bnan\b)""",
    re.IGNORECASE,
)
"""Matches keys, strings and numbers in a line with JSON or the `repr` of a dict."""
_VALUE_STYLES = ("", "log--key", "log--text", "log--number")
_TIME_WIDTH = 9


class LogLines(ScrollView, can_focus=True):
    """A view of a `LogBuffer`: wrapped or not, with arrival times or not.

    The view follows the end of the log until the user scrolls away from it, and again after the
    user scrolls back to it.
    """

    ALLOW_SELECT = True
    COMPONENT_CLASSES = {  # noqa: RUF012
        "log--error",
        "log--warning",
        "log--info",
        "log--debug",
        "log--time",
        "log--key",
        "log--text",
        "log--number",
        "log--match",
        "log--here",
        "log--empty",
    }
    DEFAULT_CSS = """
    LogLines {
        height: 1fr; background: $background; color: $foreground;
        overflow-x: auto; overflow-y: scroll;
    }
    LogLines > .log--error { color: $error; text-style: bold; }
    LogLines > .log--warning { color: $warning; text-style: bold; }
    LogLines > .log--info { color: $success; }
    LogLines > .log--debug { color: $foreground-muted; }
    LogLines > .log--key { color: $primary; }
    LogLines > .log--text { color: $success; }
    LogLines > .log--number { color: $accent; }
    LogLines > .log--time { color: $foreground-muted; }
    LogLines > .log--match { text-style: reverse; }
    LogLines > .log--here { text-style: bold underline; }
    LogLines > .log--empty { color: $foreground-muted; }
    """

    class Moved(Message):
        """Sent when the view starts or stops following the log, because it was scrolled."""

    class Above(Message):
        """Sent when the user scrolls up at the first line of the view."""

    def __init__(self, buffer: LogBuffer, *, empty: str, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.buffer = buffer
        self.empty = empty
        """Shown while there is no line."""
        self.follow = True
        self.wrap = False
        self.times = False
        self.pattern: Pattern | None = None
        self.here: int | None = None
        """Number of the line that a jump went to."""
        self._tops: list[int] | None = (
            None  # first row of each line shown, when wrapped; rows count on when lines go
        )
        self._rows = 0
        self._base = 0
        self._widest = 0
        self._moving = False
        self._strips: LRUCache[int, list[Strip]] = LRUCache(512)
        self._styles: dict[str, Style] = {}
        self._plain = Style.null()
        self._width = 0
        self._blank = Strip([])
        self._selection: Selection | None = None

    # -- lines and rows
    # ----------------------------------------------------------------------------------------------

    @property
    def shown(self) -> int:
        """The number of lines."""
        return len(self.buffer)

    def numbers(self) -> Sequence[int]:
        """The numbers of the lines."""
        return range(self.buffer.first, self.buffer.end)

    def took(self, start: int) -> None:
        """Handle lines that were appended to the buffer from number `start` on.

        The buffer may have dropped old lines.
        """
        gone_rows = self._forget()
        seen = self._rows
        self._learn(start)
        self._apply_size()
        if self.follow:
            self.to_end()
        elif gone_rows:
            self._place(self.scroll_offset.y - gone_rows)
            self.refresh()
        elif (
            seen < self.scroll_offset.y + self.size.height
        ):  # lines below the last visible row change nothing on the screen
            self.refresh()

    def put_before(self, lines: Sequence[str], before: int) -> None:
        """Insert earlier lines, see `LogBuffer.put_before`.

        The line in the first row keeps its place.
        """
        top = self._number_at(self.scroll_offset.y)
        self.buffer.put_before(lines, before)
        self.rebuild(before if top is None else max(top, before))

    def rebuild(self, top: int | None = None) -> None:
        """Lay out all lines again after a change of lines or wrapping.

        The first row, or the end, keeps its place.

        Args:
            top: The line of the first row; None for the current first line.
        """
        if top is None:
            top = self._number_at(self.scroll_offset.y)
        self._tops = [] if self.wrap else None
        self._base = self._rows = self._widest = 0
        self._strips.clear()
        self._learn(self.buffer.first)
        self._apply_size()
        if self.follow or not self.max_scroll_y:
            self.to_end()
        elif top is not None:
            self._place(self._row_of(top))
        self.refresh()

    def repaint(self) -> None:
        self._strips.clear()
        self.refresh()

    def to_end(self) -> None:
        """Scroll to the newest line and follow the log."""
        self.follow = True
        self._place(self.max_scroll_y)
        self.refresh()

    def to_line(self, number: int) -> None:
        """Scroll a line to a third of the height from the top, and mark it."""
        self.follow = False
        self.here = number
        self._strips.clear()
        self._place(max(self._row_of(number) - self.size.height // 3, 0))
        self.refresh()

    def top_number(self) -> int:
        """Return the number of the marked line if it is visible, else of the first visible."""
        top = self._number_at(self.scroll_offset.y)
        bottom = self._number_at(self.scroll_offset.y + max(self.size.height - 1, 0))
        if top is None:
            return self.buffer.first
        if self.here is not None and top <= self.here <= (
            self.buffer.end if bottom is None else bottom
        ):
            return self.here
        return top

    def page(self) -> list[int]:
        """Return the numbers of the visible lines."""
        found: list[int] = []
        for row in range(self.scroll_offset.y, self.scroll_offset.y + self.size.height):
            number = self._number_at(row)
            if number is not None and (not found or found[-1] != number):
                found.append(number)
        return found

    def _place(self, row: float) -> None:
        self._moving = True
        try:
            self.scroll_to(
                y=row, animate=False, immediate=True, force=True
            )  # also before a scroll bar is shown
        finally:
            self._moving = False

    def _forget(self) -> int:
        """Remove the lines that the buffer has dropped, and return the number of their rows."""
        first = self.buffer.first
        lost = first - self._first_number
        self._first_number = first
        if lost <= 0:
            return 0
        if self._tops is None:
            self._rows = max(self._rows - lost, 0)
            return lost
        lost = min(lost, len(self._tops))
        new_base = self._tops[lost] if lost < len(self._tops) else self._base + self._rows
        del self._tops[:lost]
        gone = new_base - self._base
        self._base = new_base
        self._rows -= gone
        return gone

    _first_number = 0

    def _learn(self, start: int) -> None:
        """Add the lines of the buffer from number `start` on."""
        buffer = self.buffer
        start = max(start, buffer.first)
        self._first_number = buffer.first
        fresh = range(start, buffer.end)
        if self._tops is None:
            self._rows += len(fresh)
            self._widest = max(self._widest, buffer.longest(fresh))
            return
        width = self._text_width
        row = self._base + self._rows
        for number in fresh:
            self._tops.append(row)
            row += self._height(self.buffer.text(number), width)
        self._rows = row - self._base

    @property
    def _text_width(self) -> int:
        return max(self.scrollable_content_region.width - (_TIME_WIDTH if self.times else 0), 8)

    @staticmethod
    def _height(text: str, width: int) -> int:
        if text.isascii():
            return max(-(-len(text) // width), 1)
        return max(len(chop_cells(text, width)), 1)

    def _apply_size(self) -> None:
        width = (
            0
            if self.wrap
            else min(self._widest, self.buffer.shown + 100) + (_TIME_WIDTH if self.times else 0)
        )
        size = Size(width, self._rows)
        if size != self.virtual_size:
            self._resize_contents(size)

    def _resize_contents(self, size: Size) -> None:
        self.virtual_size = size

    def _number_at(self, row: int) -> int | None:
        place = row if self._tops is None else bisect_right(self._tops, row + self._base) - 1
        if row < 0 or row >= self._rows or place < 0:
            return None
        return self.buffer.first + place

    def _row_of(self, number: int) -> int:
        place = number - self.buffer.first
        if self._tops is None:
            return place
        return self._tops[place] - self._base if 0 <= place < len(self._tops) else 0

    # -- scrolling
    # ----------------------------------------------------------------------------------------------

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Stop following when the user scrolls away from the end, and resume at the end."""
        super().watch_scroll_y(old_value, new_value)
        if self._moving or round(old_value) == round(new_value):
            return
        follow = round(new_value) >= self.max_scroll_y
        if follow != self.follow:
            self.follow = follow
            self.post_message(self.Moved())

    def scroll_further_up(self) -> None:
        """Request earlier lines if the user scrolls up at the first row."""
        if self.scroll_offset.y <= 0:
            self.post_message(self.Above())

    def action_scroll_up(self) -> None:
        self.scroll_further_up()
        super().action_scroll_up()

    def action_page_up(self) -> None:
        self.scroll_further_up()
        super().action_page_up()

    def action_scroll_home(self) -> None:
        """Scroll to the first line of the buffer; pressed again, request earlier lines."""
        self.scroll_further_up()
        super().action_scroll_home()

    def on_mouse_scroll_up(self) -> None:
        """Handle the mouse wheel; Textual itself scrolls the view."""
        self.scroll_further_up()

    def watch_show_horizontal_scrollbar(self) -> None:
        """Scroll to the end again: the horizontal scrollbar has changed the number of rows."""
        if self.follow:
            self.call_after_refresh(self._stay_at_end)

    def _stay_at_end(self) -> None:
        if self.follow:
            self.to_end()

    def on_resize(self, event: Resize) -> None:
        """Compute the heights of wrapped lines again, and stay at the end."""
        if self.wrap:
            self.rebuild()
        elif self.follow:
            self.to_end()

    # -- drawing
    # ----------------------------------------------------------------------------------------------

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()
        self._strips.clear()

    def selection_updated(self, selection: Selection | None) -> None:
        self._strips.clear()
        self.refresh()

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        start = selection.start.y if selection.start is not None else 0
        end = selection.end.y if selection.end is not None else self._rows - 1
        parts = []
        for row in range(max(start, 0), min(end, self._rows - 1) + 1):
            text = self._strip(row).text
            span = selection.get_span(row)
            if span is not None:
                parts.append(text[span[0] : None if span[1] == -1 else span[1]])
        return "\n".join(parts), "\n"

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the visible rows."""
        self._look_up()
        return super().render_lines(crop)

    def _look_up(self) -> None:
        """Look up what all rows need once.

        Looked up for each row, it takes more time than the rows.
        """
        self._plain, self._width, self._selection = (
            self.rich_style,
            self.size.width,
            self.text_selection,
        )
        self._blank = Strip.blank(self._width, self._plain)

    def render_line(self, y: int) -> Strip:
        """Return one row of the terminal, with the offsets that the mouse's selection needs."""
        return self._line(y).apply_offsets(self.scroll_offset.x, self.scroll_offset.y + y)

    def _line(self, y: int) -> Strip:
        width, style = self._width, self._plain
        row = self.scroll_offset.y + y
        if row >= self._rows:
            if y == 0 and self._rows == 0:
                return Strip(
                    [Segment(self.empty, style + self._style("log--empty"))]
                ).adjust_cell_length(width, style)
            return self._blank
        left = self.scroll_offset.x
        return self._strip(row).crop_extend(left, left + width, style)

    def _strip(self, row: int) -> Strip:
        number = self._number_at(row)
        if number is None:
            return Strip([])
        piece = 0 if self._tops is None else row - self._row_of(number)
        strips = self._strips.get(number)
        if strips is None:
            strips = self._strips[number] = self._draw(number)
        strip = strips[min(piece, len(strips) - 1)]
        selection = self._selection
        span = selection.get_span(row) if selection is not None else None
        return strip if span is None else self._select(strip, span)

    def _select(self, strip: Strip, span: tuple[int, int]) -> Strip:
        text = strip.text
        start = cell_len(text[: span[0]])
        end = strip.cell_length if span[1] == -1 else cell_len(text[: span[1]])
        if start >= end:
            return strip
        before, chosen, after = strip.divide([start, end, max(strip.cell_length, end)])
        style = self.screen.get_component_rich_style("screen--selection")
        return Strip.join([before, chosen.apply_style(style), after])

    def _draw(self, number: int) -> list[Strip]:
        """Return a line as one strip, or as several if it is wrapped."""
        text = self.buffer.text(number)
        base = self._plain
        marks = [(first, last, self._style(name)) for first, last, name in self.highlight(text)]
        if self.pattern is not None and self.pattern.text:
            match = self._style("log--match")
            marks += [(first, last, match) for first, last in self.pattern.spans(text)]
        if number == self.here:
            marks.append((0, len(text), self._style("log--here")))
        head: list[Segment] = []
        if self.times:
            at = self.buffer.arrived(number)
            clock = (
                datetime.fromtimestamp(at).strftime("%H:%M:%S ")
                if at is not None
                else " " * _TIME_WIDTH
            )
            head = [Segment(clock, base + self._style("log--time"))]
        strips = []
        for place, (first, last) in enumerate(self._pieces(text)):
            lead = head if place == 0 or not head else [Segment(" " * _TIME_WIDTH, base)]
            strips.append(Strip([*lead, *_segments(text, first, last, marks, base)]))
        return strips

    def highlight(self, text: str) -> list[tuple[int, int, str]]:
        """Return the highlighted ranges of a visible line: start, end and component class."""
        level, start, end = level_of(text)
        found = [] if level is Level.NONE else [(start, end, _LEVEL_STYLES[level])]
        if "{" in text:
            first = text.index("{")
            found += [
                (match.start(), match.end(), _VALUE_STYLES[match.lastindex or 0])
                for match in _VALUES.finditer(text, first)
            ]
        return found

    def _pieces(self, text: str) -> list[tuple[int, int]]:
        if not self.wrap:
            return [(0, len(text))]
        width = self._text_width
        if text.isascii():
            return [
                (start, min(start + width, len(text)))
                for start in range(0, max(len(text), 1), width)
            ]
        pieces = []
        start = 0
        for part in chop_cells(text, width):
            pieces.append((start, start + len(part)))
            start += len(part)
        return pieces or [(0, 0)]

    def _style(self, name: str) -> Style:
        found = self._styles.get(name)
        if found is None:
            found = self._styles[name] = self.get_component_rich_style(name, partial=True)
        return found


def _segments(
    text: str, start: int, end: int, marks: list[tuple[int, int, Style]], base: Style
) -> list[Segment]:
    if not marks:
        return [Segment(text[start:end], base)]
    edges = sorted(
        {start, end, *(edge for mark in marks for edge in mark[:2] if start < edge < end)}
    )
    segments = []
    for first, last in pairwise(edges):
        style = base
        for mark_start, mark_end, mark in marks:
            if mark_start <= first and last <= mark_end:
                style = style + mark
        segments.append(Segment(text[first:last], style))
    return segments


class FloodLines(LogLines):
    """`LogLines` for a log that may grow by thousands of lines a second.

    At this rate every update draws new rows, and Textual's cache of rows costs more than it saves.
    This widget bypasses the cache, and has neither border nor padding for this reason. New rows do
    not cause a layout of the whole screen.
    """

    def _resize_contents(self, size: Size) -> None:
        self.set_reactive(Widget.virtual_size, size)
        self._scroll_update(size)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._look_up()
        background, filters = self.background_colors[1], self.get_line_filters()
        strips = [self._line(y) for y in crop.line_range]
        for one in filters:
            strips = [strip.apply_filter(one, background) for strip in strips]
        left, right = crop.column_span
        return (
            strips
            if (left, right) == (0, self.size.width)
            else [strip.crop(left, right) for strip in strips]
        )
