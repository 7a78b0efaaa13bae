"""The tab Settings of a run: the settings that it was planned with, by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container
from textual.widgets import Input

from hudtui.core.errors import InputError
from hudtui.core.row_filter import arrange
from hudtui.tui.actions import Acting, AppAction, unless
from hudtui.tui.widgets.fields import FilterField
from hudtui.tui.widgets.table_pane import FILTER_ACTION
from hudtui.tui.widgets.virtual_table import Cell, Column, Rows, VirtualTable

if TYPE_CHECKING:
    from hudtui.core.runs.run_settings import RunSetting
    from hudtui.core.runs.store import RunRecord
    from hudtui.tui.app import HudtuiApp

_COLUMNS = (
    Column("group", "group", 9, from_width=44),
    Column("setting", "setting", 12, most=28),
    Column("value", "value", 10, flexible=1),
)


_ROW = unless(lambda pane: pane.row is not None, "no setting is listed")


class RunSettings(Acting, Container):
    """The settings of a run in a table. Values that differ from the defaults are highlighted."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        FILTER_ACTION,
        AppAction(
            "runsetting.copy",
            "Copy value",
            "Copy the value of the setting.",
            "y",
            palette=False,
            when=(_ROW,),
        ),
        AppAction(
            "runsetting.copy-line",
            "Copy line",
            "Copy the setting as NAME=VALUE.",
            "Y",
            show=False,
            palette=False,
            when=(_ROW,),
        ),
    )
    DEFAULT_CSS = """
    RunSettings { height: 1fr; }
    RunSettings > FilterField { dock: top; }
    """

    if TYPE_CHECKING:
        app: HudtuiApp

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.table = VirtualTable(_COLUMNS, empty="The run is still being read.")
        self._filter = FilterField(placeholder="words, field:value, -not; changed:yes")
        self._settings: tuple[RunSetting, ...] = ()
        self._listed: list[RunSetting] = []
        self._run: str | None = None

    def compose(self) -> ComposeResult:
        yield self.table

    def show(self, record: RunRecord | None) -> None:
        """Show the settings of a run; None clears the table."""
        from hudtui.core.runs.run_settings import settings_of

        run = None if record is None else record.id
        if record is None or run != self._run:
            self._settings = () if record is None else settings_of(record)
            self._run = run
            self._list()

    def _list(self) -> None:
        from hudtui.core.runs.run_settings import SETTING_FIELDS

        before = self.row
        try:
            self._listed = arrange(self._settings, SETTING_FIELDS, wanted=self._filter.value)
            self.table.empty = (
                "No setting matches the filter."
                if self._settings
                else "The run is still being read."
            )
        except InputError as error:
            self._listed, self.table.empty = [], str(error)
        names = [one.name for one in self._listed]
        firsts = {one.group: one.name for one in reversed(self._listed)}
        cursor = names.index(before.name) if before is not None and before.name in names else 0

        def cells(one: RunSetting) -> tuple[Cell, ...]:
            head = one.group if firsts[one.group] == one.name else ""
            style = "table--changed" if one.changed else "table--muted" if one.shown is None else ""
            return (head, "table--muted"), (one.label, style), (one.told, style)

        self.table.show(Rows(self._listed, cells), cursor=cursor)

    @property
    def row(self) -> RunSetting | None:
        """The setting under the cursor."""
        return self._listed[self.table.cursor] if self.table.cursor < len(self._listed) else None

    def action_filter(self) -> None:
        if not self._filter.is_attached:
            self.mount(self._filter)
        self._filter.display = True
        self._filter.focus()

    @on(Input.Changed)
    def _filter_typed(self, event: Input.Changed) -> None:
        event.stop()
        self._list()

    @on(FilterField.Left)
    def _filter_left(self, event: FilterField.Left) -> None:
        event.stop()
        self._filter.display = bool(self._filter.value)
        self.table.focus()

    def action_copy(self) -> None:
        if self.row is not None:
            self.app.copy(self.row.text)

    def action_copy_line(self) -> None:
        if self.row is not None:
            self.app.copy(f"{self.row.label}={self.row.text}")

    @on(VirtualTable.Highlighted)
    def _moved(self, event: VirtualTable.Highlighted) -> None:
        event.stop()

    @on(VirtualTable.Selected)
    def _opened(self, event: VirtualTable.Selected) -> None:
        """Show a setting in full when Enter is pressed on it."""
        event.stop()
        one = self.row
        if one is not None:
            self.app.read(one.name, "\n".join(filter(None, (one.told, one.about))))
