"""The mean rewards of the tasks of a training over its steps, as a map of shaded cells."""

from __future__ import annotations

from functools import partialmethod
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget

from hudtui.core.text import clean_line, plural
from hudtui.tui.actions import Acting, AppAction, by_key
from hudtui.tui.results.transcript import reward_text
from hudtui.tui.widgets.dialog import Dialog, dialog_title
from hudtui.tui.widgets.fit import cut, pad
from hudtui.tui.widgets.lists import MOVES
from hudtui.tui.widgets.shades import shade

if TYPE_CHECKING:
    from hudtui.core.results.queries import StepMap
    from hudtui.core.results.values import GroupKey, ResultGroup

_MUTED = "$foreground-muted"
_LABEL = 28
"""Largest width of a task's name, in cells."""


class RewardMap(Acting, Widget, can_focus=True):
    """A row for each task, a column for each step, and a cursor."""

    ALLOW_SELECT = False
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        *MOVES,
        by_key("map.up", "Up", "The task above.", "up"),
        by_key("map.down", "Down", "The task below.", "down"),
        by_key("map.left", "Step before", "The step before.", "left"),
        by_key("map.right", "Next step", "The next step.", "right"),
        by_key("map.first-step", "First step", "The first step.", "home"),
        by_key("map.last-step", "Last step", "The last step.", "end"),
    )
    DEFAULT_CSS = "RewardMap { height: 1fr; width: 1fr; }"

    def __init__(self, found: StepMap, at: tuple[GroupKey, int] | None = None) -> None:
        super().__init__()
        self.found = found
        self.row = found.tasks.index(at[0]) if at is not None else 0
        self.column = found.steps.index(at[1]) if at is not None else len(found.steps) - 1
        self._top = self._left = 0

    @property
    def group(self) -> ResultGroup | None:
        """The group under the cursor; None where nothing is recorded."""
        return self.found.groups.get((self.found.tasks[self.row], self.found.steps[self.column]))

    def show(self, found: StepMap) -> None:
        """Show newer groups.

        The cursor stays on its task and step, or in its place if one of them no longer exists.
        """
        task, step = self.found.tasks[self.row], self.found.steps[self.column]
        self.found = found
        self._go(
            found.tasks.index(task) if task in found.tasks else self.row,
            found.steps.index(step) if step in found.steps else self.column,
        )

    # -- drawing
    # ----------------------------------------------------------------------------------------------

    @property
    def longest_name(self) -> int:
        """Return the width of the longest task name as shown, in cells."""
        return max(cell_len(clean_line(self.found.name(task), _LABEL)) for task in self.found.tasks)

    def _sizes(self) -> tuple[int, int, int, int]:
        """Return the sizes of the map.

        They are the width of a name and of a step in cells, and the number of steps and tasks that
        fit.
        """
        label = min(self.longest_name, max(self.size.width // 3, 8)) + 1
        room = max(self.size.width - label, 1)
        cell = 2 if 2 * len(self.found.steps) <= room else 1
        return label, cell, room // cell, max(self.size.height - 3, 1)

    def render(self) -> Content:
        """Return the steps, the tasks with their cells, the value at the cursor, and the legend.

        The legend is that of the digits.
        """
        label, cell, columns, rows = self._sizes()
        self._top = max(min(self._top, self.row), self.row - rows + 1, 0)
        self._left = max(min(self._left, self.column), self.column - columns + 1, 0)
        steps = self.found.steps[self._left : self._left + columns]
        first, last = str(steps[0]), str(steps[-1])
        axis = (
            first
            if len(steps) < 2
            else first.ljust(max(len(steps) * cell - len(last), len(first) + 1)) + last
        )
        lines = [Content.assemble((pad("step", label), _MUTED), (axis, _MUTED))]
        for place, task in enumerate(self.found.tasks[self._top : self._top + rows], self._top):
            name = pad(cut(clean_line(self.found.name(task)), label - 1), label)
            parts: list[tuple[str, str]] = [(name, "bold" if place == self.row else _MUTED)]
            for number, step in enumerate(steps, self._left):
                digit = self.found.digit(self.found.groups.get((task, step)))
                style = (
                    "bold reverse" if (place, number) == (self.row, self.column) else shade(digit)
                )
                parts.append((digit.ljust(cell), style))
            lines.append(Content.assemble(*parts))
        below = f"0 is {self.found.low:.3g}, 9 is {self.found.high:.3g}"
        lines += [
            Content(cut(self._words(), self.size.width)),
            Content.styled(cut(below, self.size.width), _MUTED),
        ]
        return Content("\n").join(lines)

    def _words(self) -> str:
        task, group = self.found.tasks[self.row], self.group
        place = f"step {self.found.steps[self.column]} · {clean_line(self.found.name(task), 60)}: "
        if group is None:
            return place + "no episode is recorded"
        return (
            place
            + f"mean reward {reward_text(group.reward)}, {plural(len(group.numbers), 'episode')}"
        )

    # -- moving
    # ----------------------------------------------------------------------------------------------

    def _go(self, row: int, column: int) -> None:
        self.row = min(max(row, 0), len(self.found.tasks) - 1)
        self.column = min(max(column, 0), len(self.found.steps) - 1)
        self.refresh()

    def _move(self, down: int, right: int) -> None:
        self._go(self.row + down, self.column + right)

    action_up = partialmethod(_move, -1, 0)
    action_down = partialmethod(_move, 1, 0)
    action_left = partialmethod(_move, 0, -1)
    action_right = partialmethod(_move, 0, 1)

    def action_page_up(self) -> None:
        self._move(-self._sizes()[3], 0)

    def action_page_down(self) -> None:
        self._move(self._sizes()[3], 0)

    def action_first(self) -> None:
        self._go(0, self.column)

    def action_last(self) -> None:
        self._go(len(self.found.tasks) - 1, self.column)

    def action_first_step(self) -> None:
        self._go(self.row, 0)

    def action_last_step(self) -> None:
        self._go(self.row, len(self.found.steps) - 1)

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked cell."""
        place = event.get_content_offset(self)
        label, cell, columns, rows = self._sizes()
        if (
            place is not None
            and place.x >= label
            and 1 <= place.y <= rows
            and (place.x - label) // cell < columns
        ):
            self._go(self._top + place.y - 1, self._left + (place.x - label) // cell)


class RewardMapDialog(Dialog["ResultGroup | None"]):
    """Shows the map. Its result is the chosen group, or None.

    Args:
        found: The groups by task and step.
        at: The task and step under the cursor at first; by default the first task at the last step.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "map.open",
            "Open",
            "Go to the episodes of the task at this step.",
            "enter",
            palette=False,
        ),
    )

    def __init__(self, found: StepMap, at: tuple[GroupKey, int] | None = None) -> None:
        super().__init__()
        self.map = RewardMap(found, at)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield dialog_title("Mean reward by task and step")
            yield self.map
            yield self.key_line("{key:map.open} opens the episodes   {key:dialog.cancel} closes")

    def on_mount(self) -> None:
        self.map.focus()

    def show(self, found: StepMap) -> None:
        """Show newer groups of the training. Groups without a step change nothing."""
        if found.steps:
            self.map.show(found)
            if self.is_mounted:
                self.on_resize()

    def on_resize(self) -> None:
        """Limit the size of the map to the size of the screen."""
        found = self.map.found
        self.map.styles.height = min(
            len(found.tasks) + 3, max(int(self.app.size.height * 0.92) - 6, 4)
        )
        wanted = 2 * len(found.steps) + self.map.longest_name + 7
        self.query_one(".dialog").styles.width = min(
            max(wanted, 64), int(self.app.size.width * 0.96)
        )

    def action_open(self) -> None:
        """Close the dialog with the group under the cursor, if it has recorded episodes."""
        if self.map.group is not None:
            self.dismiss(self.map.group)
