"""Scroll bars that look alike in both directions.

Textual's horizontal one is a whole row of solid colour.
"""

from __future__ import annotations

from rich.color import Color
from rich.segment import Segment, Segments
from rich.style import Style
from textual.scrollbar import ScrollBarRender

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
            return super().render_bar(
                size,
                virtual_size,
                window_size,
                position,
                thickness,
                vertical,
                back_color,
                bar_color,
            )
        thumb = max(round(size * window_size / virtual_size), 1)
        start = min(round((size - thumb) * position / (virtual_size - window_size)), size - thumb)
        style = Style(color=bar_color, bgcolor=back_color)
        parts = (
            ("─" * start, {"@mouse.down": "scroll_up"}, True),
            ("━" * thumb, {"@mouse.down": "grab"}, False),
            ("─" * (size - start - thumb), {"@mouse.down": "scroll_down"}, True),
        )
        row = [
            Segment(text, style + Style(meta=meta, dim=dim)) for text, meta, dim in parts if text
        ]
        return Segments([*row, Segment.line()] * thickness, new_lines=False)
