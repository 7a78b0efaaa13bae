"""A table whose cells are plain text. Not imported before the first paint: it is the heaviest of Textual's widgets."""

from __future__ import annotations

from typing import Any, ClassVar

from rich.text import Text
from textual.coordinate import Coordinate
from textual.widgets import DataTable
from textual.widgets.data_table import ColumnKey, RowKey

from hudtui.core.text import clean_line
from hudtui.tui.actions import Acting, AppAction
from hudtui.tui.widgets.lists import MOVES


class Grid(Acting, DataTable[Any]):
    """Rows with a cursor. It posts `DataTable.RowSelected` for Enter or a click, and `RowHighlighted` for movement.

    Texts are cleaned and never read as markup; give a rich `Text` for style.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = MOVES
    DEFAULT_CSS = """
    Grid { height: 1fr; background: $background; }
    Grid:focus { background-tint: $foreground 0%; }
    Grid > .datatable--header { background: $surface; color: $text-muted; text-style: bold; }
    Grid > .datatable--hover { background: $background; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, cursor_type="row", cell_padding=1)

    def add_column(self, label: Any, **options: Any) -> ColumnKey:
        """Add a column with a plain label."""
        return super().add_column(_plain(label), **options)

    def add_row(self, *cells: Any, **options: Any) -> RowKey:
        """Add a row of plain cells."""
        return super().add_row(*(_plain(cell) for cell in cells), **options)

    def update_cell(self, row_key: Any, column_key: Any, value: Any, **options: Any) -> None:
        super().update_cell(row_key, column_key, _plain(value), **options)

    def coloured(self, text: str, colour: str, *, bold: bool = False) -> Text:
        """A cell in a colour of the theme, by the name of its variable; to be filled in again when the theme changes."""
        found = "" if self.app.native_ansi_color else self.app.theme_variables.get(colour, "")
        return Text(text, style=f"{'bold ' if bold else ''}{found}".strip(), end="")

    def validate_cursor_coordinate(self, value: Coordinate) -> Coordinate:
        """Keep the cursor in the table; Textual puts it into row -1 of an empty one, and tells of a row without a key."""
        found = super().validate_cursor_coordinate(value)
        return Coordinate(max(found.row, 0), max(found.column, 0))

    action_down, action_up = DataTable.action_cursor_down, DataTable.action_cursor_up
    action_first, action_last = DataTable.action_scroll_top, DataTable.action_scroll_bottom


def _plain(value: Any) -> Any:
    return Text(clean_line(value), no_wrap=True, end="") if isinstance(value, str) else value
