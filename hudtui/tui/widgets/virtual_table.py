"""A table that asks for the rows in sight and holds none: a million rows scroll like ten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Literal, Protocol, TypeVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from hudtui.core.text import clean_line
from hudtui.tui.actions import Acting, AppAction, by_key, unless
from hudtui.tui.widgets.fit import cut, cut_middle, pad
from hudtui.tui.widgets.lists import MOVES

R = TypeVar("R")

_MEASURED = 200
"""Rows that columns are sized by: with more, only the first ones count."""

Cell = str | tuple[str, str]
"""Text, or text and the name of a component class (`table--ok`, ...). Cleaned before it is drawn,
never markup."""


@dataclass(frozen=True)
class Column:
    """A column."""

    key: str
    title: str
    width: int
    """Cells; of a flexible column the fewest."""
    flexible: int = 0
    """How many parts of the room that is left it takes."""
    wanted: int = 0
    """Cells that it gets before the flexible ones share what is left, as long as that leaves half
    of it."""
    from_width: int = 0
    """The narrowest table that shows it."""
    align: Literal["left", "right"] = "left"
    """Numbers are right-aligned."""
    ends: bool = False
    """Its texts differ at their ends: one that is too long loses its middle."""
    most: int = 0
    """Cells that the column grows to when its contents need them; 0 for a column of fixed width."""


class RowSource(Protocol):
    """Where the rows come from."""

    def __len__(self) -> int:
        """How many there are."""
        ...

    def cells(self, row: int) -> Sequence[Cell]:
        """The cells of a row, one a column; asked for whenever the row is drawn."""
        ...


class Rows(Generic[R]):
    """Rows that are each drawn by one function."""

    def __init__(self, rows: Sequence[R], cells: Callable[[R], Sequence[Cell]]) -> None:
        self.rows = rows
        self._cells = cells

    def __len__(self) -> int:
        return len(self.rows)

    def cells(self, row: int) -> Sequence[Cell]:
        """The cells of a row."""
        return self._cells(self.rows[row])


class VirtualTable(Acting, ScrollView, can_focus=True):
    """Rows under a heading that stays, with a cursor.

    Args:
        columns: What is shown, from the left.
        empty: Shown while there is no row.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        *MOVES,
        by_key("table.up", "Up", "One row up.", "up"),
        by_key("table.down", "Down", "One row down.", "down"),
        by_key("table.page-up", "Page up", "One page up.", "pageup"),
        by_key("table.page-down", "Page down", "One page down.", "pagedown"),
        by_key("table.first", "First", "The first row.", "home"),
        by_key("table.last", "Last", "The last row.", "end"),
        by_key(
            "table.select",
            "Open",
            "Open the row under the cursor.",
            "enter",
            when=(unless(lambda table: table.count, "no row is selected"),),
        ),
    )
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "table--heading",
        "table--cursor",
        "table--blurred",
        "table--ok",
        "table--warning",
        "table--error",
        "table--problem",
        "table--muted",
        "table--changed",
        "table--empty",
    }
    DEFAULT_CSS = """
    VirtualTable {
        height: 1fr; background: $background; color: $foreground;
        overflow-x: hidden; overflow-y: auto; padding: 0 1;
    }
    VirtualTable > .table--heading {
        background: $surface; color: $foreground-muted; text-style: bold;
    }
    VirtualTable > .table--cursor {
        background: $block-cursor-background; color: $block-cursor-foreground;
        text-style: $block-cursor-text-style;
    }
    VirtualTable > .table--blurred {
        background: $block-cursor-blurred-background; color: $foreground;
        text-style: $block-cursor-blurred-text-style;
    }
    VirtualTable > .table--ok { color: $success; }
    VirtualTable > .table--warning { color: $warning; }
    VirtualTable > .table--error { color: $error; text-style: bold; }
    VirtualTable > .table--problem { color: $error; }
    VirtualTable > .table--muted { color: $foreground-muted; }
    VirtualTable > .table--changed { color: $accent; text-style: bold; }
    VirtualTable > .table--empty { color: $foreground-muted; }
    """

    @dataclass
    class Highlighted(Message):
        """The cursor came to a row."""

        table: VirtualTable
        row: int

        @property
        def control(self) -> VirtualTable:
            return self.table

    class Selected(Highlighted):
        """Enter, or a click on the row under the cursor."""

    @dataclass
    class HeadingClicked(Message):
        """The heading of a column was clicked."""

        table: VirtualTable
        key: str

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        empty: str = "Nothing here.",
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self.columns = tuple(columns)
        self.empty = empty
        self.cursor = 0
        """Row under the cursor."""
        self.sorted_by: tuple[str, bool] | None = None
        """Key of the column that the rows are sorted by, and whether the other way round."""
        self.rows: RowSource | None = None
        """Where the rows come from; see `show`."""
        self._count = 0
        self._base = Style.null()
        self._styles: dict[str, Style] = {}
        self._widths: list[tuple[int, Column, int]] = []
        self._needed: dict[int, int] = {}

    # -- rows
    # ----------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many rows are shown."""
        return self._count

    def show(self, rows: RowSource | None, *, cursor: int | None = None) -> None:
        """Show other rows.

        Args:
            rows: Where they come from.
            cursor: The row to go to; the cursor stays where it is when None.
        """
        self.rows = rows
        self.took()
        if cursor is not None:
            self.go(cursor)
        self.refresh()

    def took(self) -> None:
        """There are more rows now, or fewer."""
        count = len(self.rows) if self.rows is not None else 0
        seen, self._count = self._count, count
        self._measure()
        self.cursor = min(self.cursor, max(count - 1, 0))
        self._fit()
        if (
            min(seen, count) < self.scroll_offset.y + self.size.height
        ):  # what comes below the last line changes no line
            self.refresh()

    def _measure(self) -> None:
        """Find the widths of the columns that are sized to their contents, from the first rows."""
        growing = [(number, column) for number, column in enumerate(self.columns) if column.most]
        self._needed = {
            number: max(column.width, cell_len(column.title) + 2) for number, column in growing
        }
        if not growing or self.rows is None:
            return
        for row in range(min(self._count, _MEASURED)):
            cells = self.rows.cells(row)
            for number, column in growing:
                cell = cells[number]
                text = cell[0] if isinstance(cell, tuple) else cell
                self._needed[number] = max(self._needed[number], min(cell_len(text), column.most))

    def go(self, row: int, *, tell: bool = True) -> None:
        """Put the cursor on a row and bring it into sight.

        Args:
            row: Counting from 0; taken to the nearest there is.
            tell: Post `Highlighted`.
        """
        row = max(0, min(row, self._count - 1))
        before, self.cursor = self.cursor, row
        top = self.scroll_offset.y
        if self._count:
            room = max(self.size.height - 1, 1)
            if row < top:
                self.scroll_to(y=row, animate=False, immediate=True)
            elif row >= top + room:
                self.scroll_to(y=row - room + 1, animate=False, immediate=True)
            if tell:
                self.post_message(self.Highlighted(self, row))
        if row != before and self.scroll_offset.y == top:  # scrolling draws all lines anyway
            width = self.size.width
            self.refresh(
                *(
                    Region(0, place - top + 1, width, 1)
                    for place in (before, row)
                    if 0 <= place - top < self.size.height
                )
            )

    def _fit(self) -> None:
        self.virtual_size = Size(self.size.width, self._count + 1)

    def on_resize(self, event: events.Resize) -> None:
        self._fit()
        if self._count:
            self.go(self.cursor, tell=False)
        self.refresh()

    # -- drawing
    # ----------------------------------------------------------------------------------------------

    def widths(self) -> list[tuple[int, Column, int]]:
        """The columns that fit: number, column, cells."""
        room = self.scrollable_content_region.width
        shown = [
            (number, replace(column, width=self._needed.get(number, column.width)))
            for number, column in enumerate(self.columns)
            if room >= column.from_width
        ]
        for place, (number, column) in enumerate(shown):
            if self.sorted_by is not None and self.sorted_by[0] == column.key:
                shown[place] = (
                    number,
                    replace(column, width=max(column.width, cell_len(column.title) + 2)),
                )
        left = room - sum(column.width + 1 for _, column in shown) + 1
        for place, (number, column) in enumerate(
            shown
        ):  # what grew with its contents gives room back
            if left < 0 and column.most:
                least = max(column.width + left, self.columns[number].width)
                left += column.width - least
                shown[place] = (number, replace(column, width=least))
        left = max(left, 0)
        parts = sum(column.flexible for _, column in shown)
        half, made = left // 2, []
        for place, (number, column) in enumerate(shown):
            grown = min(max(column.wanted - column.width, 0), half)
            left, half = left - grown, half - grown
            shown[place] = (number, replace(column, width=column.width + grown))
        for number, column in shown:
            extra = left * column.flexible // parts if parts else 0
            left, parts = left - extra, parts - column.flexible
            made.append((number, column, column.width + extra))
        return made

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines in sight.

        What is the same for all of them is looked up once: the styles alone take most of the time
        else.
        """
        self._base = self.rich_style
        self._widths = self.widths()
        return super().render_lines(crop)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()

    def _style(self, name: str, *, partial: bool = False) -> Style:
        found = self._styles.get(name)
        if found is None:
            found = self._styles[name] = self.get_component_rich_style(name, partial=partial)
        return found

    def render_line(self, y: int) -> Strip:
        """The heading, or the row that is scrolled to this line."""
        width = self.scrollable_content_region.width
        base = self._base
        if y == 0:
            style = self._style("table--heading")
            line = " ".join(
                _placed(self._title(column), cells, column) for _, column, cells in self._widths
            )
            return Strip([Segment(pad(line, width), style)], width)
        row = self.scroll_offset.y + y - 1
        if row >= self._count or self.rows is None:
            if y == 1 and not self._count:
                return Strip(
                    [Segment(pad(" " + self.empty, width), self._style("table--empty"))], width
                )
            return Strip.blank(width, base)
        here = row == self.cursor
        plain = (
            base + self._style("table--cursor" if self.has_focus else "table--blurred")
            if here
            else base
        )
        segments: list[Segment] = []
        cells = self.rows.cells(row)
        text, used = "", 0
        for number, column, room in self._widths:
            cell = cells[number]
            if not isinstance(cell, tuple) or not cell[1]:
                text += (
                    _placed(clean_line(cell[0] if isinstance(cell, tuple) else cell), room, column)
                    + " "
                )
            else:
                own = self._style(cell[1], partial=True)
                style = (
                    base
                    + own
                    + self._style("table--cursor" if self.has_focus else "table--blurred")
                    if here
                    else base + own
                )
                if text:
                    segments.append(Segment(text, plain))
                segments.append(Segment(_placed(clean_line(cell[0]), room, column), style))
                text = " "
            used += room + 1
        segments.append(Segment(text, plain))
        return Strip(segments, used).adjust_cell_length(width, plain)

    def _title(self, column: Column) -> str:
        if self.sorted_by is not None and self.sorted_by[0] == column.key:
            return cut(column.title, max(column.width - 2, 1)) + (
                " ▼" if self.sorted_by[1] else " ▲"
            )
        return column.title

    def watch_has_focus(self, focused: bool) -> None:
        super().watch_has_focus(focused)
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """The heading stays, everything else moves."""
        super().watch_scroll_y(old_value, new_value)
        if round(old_value) != round(new_value):
            self.refresh(Region(0, 0, self.size.width, self.size.height))

    # -- moving
    # ----------------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """A click moves the cursor.

        On the row under the cursor, or twice, it opens; on a heading it sorts.
        """
        event.stop()
        place = event.get_content_offset(self)
        if place is None:
            return
        if place.y == 0:
            x = 0
            for _, column, cells in self.widths():
                if x <= place.x < x + cells + 1:
                    self.post_message(self.HeadingClicked(self, column.key))
                    return
                x += cells + 1
            return
        row = self.scroll_offset.y + place.y - 1
        if row < self._count:
            if row == self.cursor and self.has_focus and event.chain > 1:
                self.post_message(self.Selected(self, row))
            else:
                self.go(row)

    def action_down(self) -> None:
        self.go(self.cursor + 1)

    def action_up(self) -> None:
        self.go(self.cursor - 1)

    def action_page_down(self) -> None:
        self.go(self.cursor + max(self.size.height - 2, 1))

    def action_page_up(self) -> None:
        self.go(self.cursor - max(self.size.height - 2, 1))

    def action_first(self) -> None:
        self.go(0)

    def action_last(self) -> None:
        self.go(self._count - 1)

    def action_select(self) -> None:
        self.post_message(self.Selected(self, self.cursor))


def _placed(text: str, room: int, column: Column) -> str:
    """A cell in exactly `room` cells, at the side of its column."""
    if column.ends:
        text = cut_middle(text, room)
    if column.align == "left":
        return pad(text, room)
    text = cut(text, room)
    return " " * (room - cell_len(text)) + text
