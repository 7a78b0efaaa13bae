"""A scrollable sheet of styled lines.

They can be changed at every keystroke without a new layout of the screen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

from rich.style import Style
from textual.content import Content
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style as VisualStyle

from hudtui.tui.actions import AppAction
from hudtui.tui.widgets.hanging import hanging_lines
from hudtui.tui.widgets.lists import MOVES
from hudtui.tui.widgets.scrolling import Scrolling


class Sheet(Scrolling, ScrollView, can_focus=True):
    """Lines, wrapped to the width there is.

    Args:
        hang: Cells at the beginning of each line that stay free in those that it wraps to.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = MOVES
    DEFAULT_CSS = """
    Sheet {
        height: 1fr; width: 1fr; overflow-x: hidden; overflow-y: auto; background: $background;
    }
    Sheet:focus { background-tint: $foreground 3%; }
    """

    def __init__(self, *, hang: int = 0, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._hang = hang
        self._lines: tuple[Content, ...] = ()
        self.more = 0
        """Number of rows for which the scroll bar leaves room below the lines that `show` gets
        next."""
        self._wrapped: list[Content] = []
        self._starts: list[int] = []
        """The row that each line begins at."""
        self._made_for = 0
        self._line: int | None = None
        """The line to scroll to when there is a place."""
        self._revealed = ""
        self._strips: dict[int, Strip] = {}
        self._base, self._visual_base = Style.null(), VisualStyle()

    @property
    def plain(self) -> str:
        """What it says, without style."""
        return "\n".join(line.plain for line in self._lines)

    def show(self, lines: Sequence[Content]) -> None:
        """Show other lines. The place scrolled to stays; nothing happens when they are the same."""
        found = tuple(lines)
        if len(found) != len(self._lines) or not all(map(_alike, found, self._lines)):
            self._lines = found
            self._revealed = ""
            before, strips, width = self._wrapped, self._strips, self._made_for
            self._wrap()
            if width != self._made_for:
                self.refresh()
                return
            after, top = self._wrapped, self.scroll_offset.y
            self._strips = {
                row: strip for row, strip in strips.items() if _alike_at(row, before, after)
            }
            seen = range(top, min(top + self.size.height, max(len(before), len(after))))
            changed = [
                Region(0, row - top, self.size.width, 1)
                for row in seen
                if not _alike_at(row, before, after)
            ]
            if changed:
                self.refresh(*changed)

    def reveal(self, beginning: str) -> None:
        """Scroll so that the last line that begins like this is in sight.

        As much of what follows is in sight as there is room for.
        """
        self._revealed = beginning
        row = next(
            (
                at
                for at in range(len(self._wrapped) - 1, -1, -1)
                if self._wrapped[at].plain.startswith(beginning)
            ),
            None,
        )
        if row is not None:
            self.scroll_to(y=row, animate=False)

    def go_to(self, line: int) -> None:
        """Scroll so that a line, by its number from 0, is at the top.

        As soon as there is a place, where there is none yet.
        """
        self._line = line if not self._made_for else None
        if 0 <= line < len(self._starts):
            self.scroll_to(y=self._starts[line], animate=False)

    @property
    def top_line(self) -> int:
        """The number of the line at the top."""
        return max(bisect_right(self._starts, self.scroll_offset.y) - 1, 0)

    def _wrap(self) -> None:
        width = self._made_for = self.scrollable_content_region.width
        self._strips.clear()
        # Without a width it has no place yet, or none at this moment.
        pieces = [
            self._pieces(line, width) if width and _may_wrap(line.plain, width) else [line]
            for line in self._lines
        ]
        self._wrapped = [piece for line in pieces for piece in line]
        self._starts = list(accumulate(map(len, pieces[:-1]), initial=0)) if pieces else []
        # Set past the reactive: a new size of what is scrolled is no reason to lay out the whole
        # screen again.
        self.set_reactive(Sheet.virtual_size, Size(width, len(self._wrapped) + self.more))
        self._scroll_update(self.virtual_size)

    def _pieces(self, line: Content, width: int) -> list[Content]:
        return (
            hanging_lines(line[: self._hang], line[self._hang :], width)
            if self._hang
            else line.wrap(width)
        )

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines in sight.

        The screen looks for places of widgets at any request, also while some are being shown or
        hidden: then a sheet may have wrapped to a width that it never gets, and no other message
        says so.
        """
        if self._made_for != self.scrollable_content_region.width:
            self.call_later(self.on_resize)
        self._base, self._visual_base = (
            self.rich_style,
            self.visual_style,
        )  # once for all lines: they take longer than a line
        return super().render_lines(crop)

    def on_resize(self) -> None:
        if self._made_for != self.scrollable_content_region.width:
            top = self.top_line if self._line is None and self.scroll_offset.y else None
            self._wrap()
            self.refresh()
            if top is not None and not self._revealed:
                self.go_to(top)
        if self._line is not None:
            self.go_to(self._line)
        if self._revealed:
            self.reveal(self._revealed)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        width = self.size.width
        if not 0 <= row < len(self._wrapped):
            return Strip.blank(width, self._base)
        content = self._wrapped[row]
        strip = self._strips.get(row)
        if strip is None:
            strip = Strip(content.render_segments(self._visual_base), content.cell_length)
            strip = self._strips[row] = strip.adjust_cell_length(width, self._base)
        return strip


def _may_wrap(text: str, width: int) -> bool:
    """Whether a line may take more than this width; to wrap one takes longer than to look."""
    return len(text) > (width if text.isascii() and text.isprintable() else width // 2 - 1)


def _alike(one: Content, other: Content) -> bool:
    return one is other or (one.plain == other.plain and one.spans == other.spans)


def _alike_at(row: int, before: Sequence[Content], after: Sequence[Content]) -> bool:
    return row < len(before) and row < len(after) and _alike(before[row], after[row])
