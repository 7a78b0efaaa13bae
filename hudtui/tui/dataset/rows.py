"""What the tables of the dataset screen show: tasks and their problems, straight from an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hudtui.core.text import clean_line
from hudtui.tui.widgets.virtual_table import Cell, Column

if TYPE_CHECKING:
    from hudtui.core.tasks.table import ProblemKind, State, TaskIndex

COLUMNS = (
    Column("task", "task", 7, from_width=90, align="right"),
    Column("id", "id", 12),
    Column("state", "state", 9, most=14),
    Column("prompt", "prompt", 12, flexible=4),
    Column("servers", "servers", 12, from_width=90),
    Column("evaluator", "evaluator", 12, flexible=1, from_width=64),
    Column("category", "category", 10, from_width=76),
)
LONGEST_ID = 48
PROBLEMS = (
    Column("state", "", 9),
    Column("id", "id", 10, flexible=1, from_width=40),
    Column("message", "problem", 16, flexible=4),
)
SORTS = ("task", "id", "state", "prompt", "servers", "evaluator", "category")
STATE_CELLS: dict[State, tuple[str, str]] = {
    "ok": ("✓ ok", "table--ok"),
    "warning": ("! warning", "table--warning"),
    "error": ("✗ error", "table--error"),
}


class TaskRows:
    """The tasks of an index, all or some, in some order."""

    def __init__(self, index: TaskIndex, order: Sequence[int] | None = None) -> None:
        self.index, self.order = index, order

    def __len__(self) -> int:
        return self.index.total if self.order is None else len(self.order)

    def task(self, row: int) -> int:
        """Index of the task in a row."""
        return row if self.order is None else self.order[row]

    def cells(self, row: int) -> Sequence[Cell]:
        """As the table shows it."""
        found = self.index.row(self.task(row))
        return (
            (f"{found.index:,}", "table--muted"),
            found.id,
            (f"✗ {found.problem}", "table--error") if found.problem else STATE_CELLS[found.state],
            found.head,
            found.servers,
            found.evaluator.removeprefix("evaluate/"),
            found.category,
        )


class ProblemRows:
    """The problems of an index."""

    def __init__(self, index: TaskIndex, numbers: Sequence[int]) -> None:
        self.index, self.numbers = index, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def task(self, row: int) -> int:
        """Index of the task that has the problem in a row."""
        return self.index.problems.tasks[self.numbers[row]]

    def kind(self, row: int) -> ProblemKind:
        """What the problem in a row says."""
        return self.index.problems.kind(self.numbers[row])

    def cells(self, row: int) -> Sequence[Cell]:
        """As the table shows it."""
        kind = self.kind(row)
        said = f"{kind.field}: {kind.message}" if kind.field else kind.message
        return STATE_CELLS[kind.severity], self.index.row(self.task(row)).id, said


def columns_for(category: str | None, longest_id: int = 0) -> tuple[Column, ...]:
    """The columns of the table of tasks.

    Args:
        category: Field of the metadata that the last one shows; None: there is none, and no such
            column.
        longest_id: Characters of the longest id, which the column of ids has room for where there
            is any.
    """
    made = [
        replace(column, wanted=min(longest_id, LONGEST_ID)) if column.key == "id" else column
        for column in COLUMNS[:-1]
    ]
    return (
        (*made,)
        if category is None
        else (*made, replace(COLUMNS[-1], title=clean_line(category, 20)))
    )
