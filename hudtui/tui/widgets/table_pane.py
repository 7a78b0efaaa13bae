"""A pane with one table.

Its rows are filtered by words and fields, sorted, and keep the cursor over every refresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Input

from hudtui.core.errors import InputError
from hudtui.core.row_filter import Fields, arrange
from hudtui.core.text import plural
from hudtui.tui.actions import AppAction
from hudtui.tui.widgets.fields import FilterField
from hudtui.tui.widgets.pane import Pane
from hudtui.tui.widgets.virtual_table import Cell, Column, Rows, VirtualTable

R = TypeVar("R")

FILTER_ACTION = AppAction(
    "list.filter",
    "Filter",
    "Show only rows that match: words, regular expressions, field:value.",
    "slash",
)
SORT_ACTION = AppAction("list.sort", "Sort", "Sort by the next column.", "s")
REVERSE_ACTION = AppAction("list.reverse", "Reverse", "Sort the other way round.", "S", show=False)


class FilteredPane(Pane):
    """A pane whose list is filtered by a field above it, which appears when it is opened.

    Args:
        placeholder: What the empty field shows.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (FILTER_ACTION,)
    DEFAULT_CSS = "FilteredPane > FilterField { dock: top; }"

    def __init__(self, placeholder: str, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.filter_field = FilterField(placeholder=placeholder)
        """Made part of the pane when it is first needed: a field costs as much to style as a
        table."""

    def filtered(self) -> None:
        """List the rows that pass the filter."""
        raise NotImplementedError

    def show_filter(self, there: bool) -> None:
        """Show the field, or hide it."""
        self.filter_field.display = there
        if there and self.is_attached and not self.filter_field.is_attached:
            self.mount(self.filter_field)

    def filter_by(self, text: str) -> None:
        """Filter now, as if the text had been typed."""
        self.filter_field.value = text
        self.show_filter(bool(text))
        self.filtered()

    def action_filter(self) -> None:
        self.show_filter(True)
        self.filter_field.focus()

    @on(Input.Changed)
    def _filter_typed(self, event: Input.Changed) -> None:
        event.stop()
        self.filtered()

    @on(FilterField.Left)
    def _filter_left(self, event: FilterField.Left) -> None:
        event.stop()
        self.filter_field.display = bool(self.filter_field.value)
        self.focus()


class TablePane(FilteredPane, Generic[R]):
    """A table in a pane.

    Args:
        columns: What is shown. A column whose key is a field can be sorted by.
        fields: The fields of a row by name: for filters and sorting. See `core.row_filter`.
        key: Identifies a row after a refresh.
        cells: The cells of a row, one a column.
        empty: Shown while there is no row at all.
        placeholder: What the empty filter shows.
        sort: Field that the rows are sorted by at first; None keeps their own order.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (FILTER_ACTION, SORT_ACTION, REVERSE_ACTION)

    NOUN: ClassVar = "row"
    """What a row is: the border counts them."""

    @dataclass
    class Highlighted(Message):
        """The cursor is on another row, or on none (`row` is None)."""

        pane: TablePane[Any]
        row: Any

        @property
        def control(self) -> TablePane[Any]:
            return self.pane

    class Opened(Highlighted):
        """Enter was pressed on a row, or the row was clicked twice."""

    def __init__(
        self,
        columns: Sequence[Column],
        fields: Fields[R],
        *,
        key: Callable[[R], str],
        cells: Callable[[R], Sequence[Cell]],
        empty: str = "Nothing here.",
        placeholder: str = "words, field:value, -not",
        sort: str | None = None,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(placeholder, id=id)
        self.table = VirtualTable(columns, empty=empty)
        self.rows: tuple[R, ...] = ()
        """All rows."""
        self.listed: list[R] = []
        """The rows that match the filter, in the order of the table."""
        self.sort, self.reverse = sort, False
        self._fields, self._key, self._cells, self._empty = fields, key, cells, empty
        self._chosen: str | None = None

    def compose(self) -> ComposeResult:
        yield self.table
        if self.filter_field.value:
            yield self.filter_field

    def first_focus(self) -> VirtualTable:
        return self.table

    @property
    def row(self) -> R | None:
        """The row under the cursor."""
        return self.listed[self.table.cursor] if self.table.cursor < len(self.listed) else None

    def show(self, rows: Iterable[R]) -> None:
        """Show these rows. The cursor stays on its row, or where it was when that row is gone."""
        self.rows = tuple(rows)
        self._arrange()

    def filtered(self) -> None:
        self._arrange()

    def matching(self, rows: Iterable[R]) -> list[R]:
        """Return the rows that match the filter; all of them where it is no filter.

        May run in a thread.
        """
        given = list(rows)
        try:
            return arrange(
                given, self._fields, wanted=self.filter_field.value, sort=None, reverse=False
            )
        except InputError:
            return given

    def counted(self, count: str) -> str:
        """Return what the border says of the rows, given their number in words.

        A subclass may say more.
        """
        return count

    def redraw(self) -> None:
        """Draw the rows again: what their cells show has changed, such as ages."""
        self.table.refresh()

    def choose(self, key: str) -> bool:
        """Put the cursor on a row by its key. Returns whether the row is listed."""
        place = next(
            (place for place, row in enumerate(self.listed) if self._key(row) == key), None
        )
        if place is not None:
            self.table.go(place, tell=False)
            self._tell()
        return place is not None

    def _arrange(self) -> None:
        if self.row is not None:
            self._tell()  # the cursor may have just moved: keep that move
        before = self._chosen
        try:
            found = arrange(
                self.rows,
                self._fields,
                wanted=self.filter_field.value,
                sort=self.sort,
                reverse=self.reverse,
            )
            self.listed = found
            problem = ""
        except InputError as error:
            problem = str(error)
        keys = [self._key(row) for row in self.listed]
        place = (
            keys.index(before) if before in keys else min(self.table.cursor, max(len(keys) - 1, 0))
        )
        self.table.sorted_by = (self.sort, self.reverse) if self.sort is not None else None
        self.table.empty = self._empty if not self.rows else "No row matches the filter."
        self.table.show(Rows(self.listed, self._cells), cursor=place)
        filtered = bool(self.filter_field.value)
        count = plural(len(self.rows), self.NOUN) if self.rows or filtered else ""
        count = f"{len(self.listed):,} of {count}" if filtered else count
        self.note_on_border(problem or self.counted(count))
        self._tell()

    def _tell(self) -> None:
        row = self.row
        key = self._key(row) if row is not None else None
        if key != self._chosen:
            self._chosen = key
            self.post_message(self.Highlighted(self, row))

    # -- order
    # ----------------------------------------------------------------------------------------------

    def sortable(self) -> list[str | None]:
        """What the rows can be sorted by, in the order of the key; None is their own order."""
        return [None, *(column.key for column in self.table.columns if column.key in self._fields)]

    def action_sort(self) -> None:
        sortable = self.sortable()
        place = sortable.index(self.sort) + 1 if self.sort in sortable else 0
        self.sort, self.reverse = sortable[place % len(sortable)], False
        self._arrange()

    def action_reverse(self) -> None:
        self.reverse = not self.reverse
        self._arrange()

    @on(VirtualTable.HeadingClicked)
    def _heading_clicked(self, event: VirtualTable.HeadingClicked) -> None:
        event.stop()
        if event.key in self.sortable():
            self.reverse = not self.reverse if event.key == self.sort else False
            self.sort = event.key
            self._arrange()

    # -- rows
    # ----------------------------------------------------------------------------------------------

    @on(VirtualTable.Highlighted)
    def _moved(self, event: VirtualTable.Highlighted) -> None:
        event.stop()
        self._tell()

    @on(VirtualTable.Selected)
    def _selected(self, event: VirtualTable.Selected) -> None:
        event.stop()
        if self.row is not None:
            self.post_message(self.Opened(self, self.row))
