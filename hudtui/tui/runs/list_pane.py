"""The list of runs: filtered and sorted by the fields that `hudtui runs list` takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import ClassVar

from hudtui.core.row_filter import value_text
from hudtui.core.runs.listing import RUN_FIELDS, RunRow
from hudtui.core.runs.values import STATE_GLYPHS, RunSummary
from hudtui.core.text import money
from hudtui.core.training.sparkline import sparkline
from hudtui.tui.actions import AppAction
from hudtui.tui.widgets.table_pane import TablePane
from hudtui.tui.widgets.virtual_table import Cell, Column
from hudtui.tui.widgets.words import ago

CURVE = 8
"""Width of the curve of rewards, in cells."""
_STYLES = {
    "running": "table--ok",
    "followed": "table--ok",
    "failed": "table--error",
    "lost": "table--error",
    "stopped": "table--warning",
    "stopping": "table--warning",
}
_COLUMNS = (
    Column("state", "", 1),
    Column("name", "run", 10, flexible=1),
    Column("reward", "reward", 7, align="right", from_width=27),
    Column("curve", "", CURVE, from_width=42),
    Column("step", "step", 7, align="right"),
    Column("model", "model", 16, from_width=72),
    Column("cost", "cost", 8, align="right", from_width=72, most=12),
    Column("started", "started", 10, align="right", from_width=84),
)


class RunList(TablePane[RunRow]):
    """The runs of the project.

    Args:
        now: Returns the time, in seconds since the epoch.
        compared: Ids of the runs that are compared with the open run; the caller may change it.
    """

    BORDER_TITLE, NOUN = "Runs", "run"
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "run.mark",
            "Mark",
            "Mark this run, or unmark it: marked runs are tagged, archived and deleted together.",
            "space",
            palette=False,
        ),
        AppAction(
            "run.mark-all",
            "Mark all",
            "Mark all runs that are listed, or unmark them.",
            "asterisk",
            show=False,
        ),
        AppAction("run.archived", "Archived", "Show or hide archived runs.", "U", show=False),
    )

    def __init__(self, now: Callable[[], float], compared: Collection[str]) -> None:
        super().__init__(
            _COLUMNS,
            RUN_FIELDS,
            key=lambda row: row.summary.id,
            cells=self.row_cells,
            empty="Reading the runs …",
            id="run-list",
        )
        self.with_archived = False
        """Whether archived runs are listed, too."""
        self._all: tuple[RunRow, ...] = ()
        self._now = now
        self._compared = compared
        self._marks: set[str] = set()

    def show(self, rows: Iterable[RunRow]) -> None:
        """Show these runs; archived ones only if `archived` is set."""
        self._all = tuple(rows)
        listed = [row for row in self._all if self.with_archived or not row.summary.hidden]
        self._empty = "All runs are archived." if self._all else "Reading the runs …"
        super().show(listed)

    @property
    def marked(self) -> tuple[str, ...]:
        """The ids of the marked runs that pass the filter, in the order of the list."""
        return tuple(row.summary.id for row in self.listed if row.summary.id in self._marks)

    def unmark(self) -> bool:
        """Unmark all runs, also those that the filter hides. Return whether any run was marked."""
        found = any(row.summary.id in self._marks for row in self.rows)
        self._marks.clear()
        self._arrange()
        return found

    def counted(self, count: str) -> str:
        """Return the number of runs, of marked runs, and of archived runs that are not listed."""
        archived = len(self._all) - len(self.rows)
        marked = f"{len(self.marked)} marked" if self.marked else ""
        return " · ".join(filter(None, (marked, count, f"{archived} archived" if archived else "")))

    def row_cells(self, row: RunRow) -> tuple[Cell, ...]:
        """Return state, name, reward, curve, step, model, cost and age of a run."""
        run, view = row.summary, row.view
        points = view.metrics.quantity("reward") if view is not None else ()
        name = (
            ("► " if run.id in self._marks else "")
            + ("! " if row.alarm else "")
            + ("◆ " if run.id in self._compared else "")
            + run.name
        )
        return (
            (STATE_GLYPHS[run.state], _STYLES.get(run.state, "")),
            (name, "table--warning") if row.alarm else name,
            "" if row.reward is None else f"{row.reward:.3f}",
            sparkline([point.y for point in points], CURVE),
            (view.step if view is not None else None) or "",
            "external" if run.external else row.model or "",
            _cost(row),
            (self._begun(run), "table--muted"),
        )

    def _begun(self, run: RunSummary) -> str:
        begun = run.started or run.created
        return ago(max(self._now() - begun, 0.0)) if begun else ""

    def action_mark(self) -> None:
        """Mark or unmark the run under the cursor, and go to the next run."""
        if self.row is not None:
            self._marks ^= {self.row.summary.id}
            self._arrange()
            self.table.action_down()

    def action_mark_all(self) -> None:
        listed = {row.summary.id for row in self.listed}
        self._marks = self._marks - listed if listed <= self._marks else self._marks | listed
        self._arrange()

    def action_archived(self) -> None:
        self.with_archived = not self.with_archived
        self.show(self._all)

    def field(self, name: str) -> str:
        """Return a field of the run under the cursor as text."""
        return "" if self.row is None else value_text(RUN_FIELDS[name](self.row))


def _cost(row: RunRow) -> str:
    run = row.summary
    if (cost := run.cost(row.now)) is None:
        return ""
    return money(cost, run.currency) + run.short_cost_note
