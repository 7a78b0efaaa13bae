"""The list of the newest runs on home, for projects that have some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult

from hudtui.core.text import clean_line
from hudtui.tui.home.panes import CURVE, age
from hudtui.tui.widgets.pane import Pane
from hudtui.tui.widgets.virtual_table import Cell, Column, Rows, VirtualTable
from hudtui.tui.widgets.words import span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hudtui.tui.facts import RunFact
    from hudtui.tui.home.reads import RunRead


class RecentPane(Pane):
    """The newest runs; Enter opens one."""

    BORDER_TITLE = "Recent runs"
    DEFAULT_CSS = """
    RecentPane { height: auto; }
    RecentPane > VirtualTable { height: auto; max-height: 12; }
    """
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("run", "run", 12, flexible=1),
        Column("model", "model", 8, from_width=64, most=22),
        Column("reward", "reward", 6, align="right"),
        Column("curve", "", CURVE, from_width=46),
        Column("took", "took", 7, align="right", from_width=54),
        Column("cost", "cost", 7, align="right", from_width=74, most=12),
        Column("when", "when", 10, from_width=40),
    )

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.table = VirtualTable(self.COLUMNS, empty="No run yet.")
        self.runs: Sequence[RunFact] = ()

    def compose(self) -> ComposeResult:
        yield self.table

    def show(self, runs: Sequence[RunFact], read: Mapping[str, RunRead], now: float) -> None:
        """Show runs, with what was read of them so far; `now` is in seconds since the epoch."""
        self.runs = runs
        self.table.styles.height = min(len(runs), max(min(self.app.size.height - 32, 11), 4)) + 1
        self.table.show(Rows(runs, lambda run: _run_cells(run, read.get(run.id), now)))


def _run_cells(run: RunFact, read: RunRead | None, now: float) -> tuple[Cell, ...]:
    style = {"failed": "table--error", "lost": "table--warning", "finished": "table--ok"}.get(
        run.state, ""
    )
    return (
        (f"{run.glyph} {clean_line(run.title)}", "table--ok" if run.running else style),
        "" if read is None else read.model,
        "" if read is None else read.reward,
        "" if read is None else read.spark(CURVE),
        span(run.seconds) if run.seconds is not None else "",
        "" if read is None else read.cost,
        age(run, now),
    )
