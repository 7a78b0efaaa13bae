"""Scroll bars that look alike in both directions: Textual's horizontal one is a whole row of solid colour."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Self, cast

from rich.color import Color
from rich.segment import Segment, Segments
from rich.style import Style
from textual.geometry import Region
from textual.scrollbar import ScrollBar, ScrollBarRender

if TYPE_CHECKING:
    from textual.widget import Widget

_PLAIN = Color.default()


class ThinScrollBar(ScrollBarRender):
    """A line instead of a block at the bottom; the vertical one stays."""

    @classmethod
    def render_bar(
        cls,
        size: int = 25,
        virtual_size: float = 50,
        window_size: float = 20,
        position: float = 0,
        thickness: int = 1,
        vertical: bool = True,
        back_color: Color = _PLAIN,
        bar_color: Color = _PLAIN,
    ) -> Segments:
        """The bar as segments, with what a click on each part means."""
        if vertical or not (window_size and size and virtual_size > window_size):
            return super().render_bar(size, virtual_size, window_size, position, thickness, vertical, back_color, bar_color)
        thumb = max(round(size * window_size / virtual_size), 1)
        start = min(round((size - thumb) * position / (virtual_size - window_size)), size - thumb)
        style = Style(color=bar_color, bgcolor=back_color)
        parts = (
            ("─" * start, {"@mouse.down": "scroll_up"}, True),
            ("━" * thumb, {"@mouse.down": "grab"}, False),
            ("─" * (size - start - thumb), {"@mouse.down": "scroll_down"}, True),
        )
        row = [Segment(text, style + Style(meta=meta, dim=dim)) for text, meta, dim in parts if text]
        return Segments([*row, Segment.line()] * thickness, new_lines=False)


class CalmScrollBar(ScrollBar):
    """A vertical bar that is drawn again only when it looks different: at the end of a long log it hardly moves."""

    _look: tuple[object, ...] = ()
    _asked = False

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Draw it again, where there is a difference to see when size and place are both known."""
        if not self.is_attached or layout or recompose:
            return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        if not self._asked:
            self._asked = True
            self.call_next(self._settle)
        return self

    def _settle(self) -> None:
        self._asked = False
        look = self._seen()
        if look != self._look:
            self._look = look
            super().refresh()

    def _seen(self) -> tuple[object, ...]:
        """Where the thumb begins and ends, in eighths of a cell, and everything else that shows."""
        size, whole, window = self.size.height, ceil(self.window_virtual_size), ceil(self.window_size)
        place: tuple[int, int] | None = None
        if size and 0 < window < whole:
            thumb = max(1.0, window * size / whole)
            place = (int((size - thumb) * self.position / (whole - window) * 8), ceil(thumb * 8))
        return (place, self.size, self.grabbed is not None, self.mouse_over, self.app.theme, self.parent)


class CalmlyScrolled:
    """Mixin, before `ScrollView` in the list of bases, for widgets whose vertical scroll bar is a `CalmScrollBar`."""

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """Made when it is first asked for."""
        widget = cast("Widget", self)
        if widget._vertical_scrollbar is None:
            bar = CalmScrollBar(vertical=True, name="vertical", thickness=widget.scrollbar_size_vertical)
            widget._vertical_scrollbar = bar
            bar.display = False
            widget.app._start_widget(widget, bar)
        return widget._vertical_scrollbar
