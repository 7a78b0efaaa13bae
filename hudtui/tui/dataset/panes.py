"""The panes of the dataset screen: the tasks, what is known of one or of all, and the problems."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from hudtui.core.errors import InputError
from hudtui.core.text import clean_line
from hudtui.tui.actions import keymap_of, with_keys
from hudtui.tui.dataset.open_tasks import OpenTasks
from hudtui.tui.dataset.rows import PROBLEMS, SORTS, ProblemRows, TaskRows, columns_for
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.fields import Field, FilterField
from hudtui.tui.widgets.pane import Pane, ViewsPane
from hudtui.tui.widgets.scrolling import Page
from hudtui.tui.widgets.virtual_table import VirtualTable

if TYPE_CHECKING:
    from hudtui.core.tasks.table import TaskFilter, TaskIndex

TICK = 0.1
"""Seconds between two updates of the table while tasks are read."""
_VIEWS: dict[str, str] = {"task": "Task", "stats": "Statistics", "test": "Test"}
_EMPTY: dict[str, str] = {
    "task": "No task is selected.",
    "stats": "Counted when the tasks are read.",
    "test": "{key:dataset.test} sets the selected task up and evaluates it at once.",
}


class TasksPane(Pane):
    """The table of tasks, its filter, its order, and a line about what it shows.

    Args:
        open_tasks: What is open.
        screen: The screen for messages; it also runs the search.
    """

    BORDER_TITLE = "Tasks"
    HELP = "The tasks, each checked: ✓ ok, ! warning, ✗ error (left out of every dataset)."

    @dataclass
    class Chosen(Message):
        """Another task is chosen."""

        before: int | None

    class Emptied(Message):
        """No task fits."""

    class Opened(Message):
        """Enter was pressed on a task."""

    def __init__(self, open_tasks: OpenTasks, screen: HudtuiScreen) -> None:
        super().__init__(id="ds-tasks")
        self._open, self._host = open_tasks, screen
        self.search = FilterField(placeholder="words, field:value, -not", id="ds-search")
        self.table = VirtualTable(columns_for(None), empty="No task yet.", id="ds-table")
        self.shown = Static(id="ds-shown")
        self.rows: TaskRows | None = None
        self.chosen: int | None = None
        """Index of the task under the cursor."""
        self.filter: tuple[str, ...] = ()
        """() for all tasks, ("problems",), ("error",), ("warning",), or (severity, code)."""
        self.sort: tuple[str, bool] = ("task", False)
        self._word = ""
        self._choosing = False
        self._fitted: tuple[str | None, int] = (None, 0)
        """Category and longest id that the columns were made for."""

    def compose(self) -> ComposeResult:
        yield self.search
        yield self.table
        yield self.shown

    def on_mount(self) -> None:
        """The filter is hidden until it is opened."""
        self.search.display = False

    def first_focus(self) -> VirtualTable:
        return self.table

    # -- what is shown
    # ----------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Clear the pane for another source."""
        self._word, self.filter, self.sort, self.chosen, self.rows = (
            "",
            (),
            ("task", False),
            None,
            None,
        )
        self.search.value, self.search.display = "", False
        self.table.show(None)

    def begin(self, index: TaskIndex) -> None:
        """Show the first tasks of an index that is being read."""
        self.rows = TaskRows(index)
        self.table.show(self.rows, cursor=0)
        self.list_tasks()

    def grow(self, index: TaskIndex) -> None:
        if self.rows is not None and self.rows.order is None and index.total != self.table.count:
            self.table.took()
        if (index.category_field, index.longest_id) != self._fitted:
            self._fitted = (index.category_field, index.longest_id)
            self.table.columns = columns_for(*self._fitted)
            self.table.refresh()

    def show_shown(self) -> None:
        """Show below the table which tasks it lists, and what their calls are checked against."""
        index, rows = self._open.index, self.rows
        parts: list[Any] = []
        if index is not None and rows is not None and rows.order is not None:
            parts.append((f"{len(rows):,} of {index.total:,}", "bold $accent"))
            if self.filter:
                parts.append((f"  {self._filter_words()}", "$accent"))
            if self._word:
                parts.append((f"  matching “{clean_line(self._word, 30)}”", "$accent"))
            if self._choosing:
                parts.append(("  searching …", "$foreground-muted"))
        if self.sort != ("task", False):
            parts.append((f"  by {self.sort[0]} {'▼' if self.sort[1] else '▲'}", "$accent"))
        if index is not None and _all_scenarios(index):
            parts.append(("6 writes v5 tasks for HUD v6", "bold $accent"))
        line = Content("  ").join(Content.styled(text.strip(), style) for text, style in parts)
        shown = self.shown
        room = shown.size.width - 2 - (line.cell_length + 2 if parts else 0)
        about = (
            next((words for words in self._about_calls(index) if cell_len(words) <= room), "")
            if index is not None
            else ""
        )
        if about:
            line = Content("  ").join(
                [*([line] if parts else []), Content.styled(about, "$foreground-muted")]
            )
        shown.update(line, layout=False)

    def _about_calls(self, index: TaskIndex) -> list[str]:
        """What the calls are checked against, the longest form first; nothing without tasks."""
        if not index.total:
            return []
        if self._open.analysis is None:
            switched_on = self._open.check_calls
            why = "no environment was analyzed yet" if switched_on else "v switches that on"
            return [f"calls not checked: {why}"]
        from hudtui.core.environment.cache import age_text, analysis_age

        source = clean_line(self._open.analysis.source, 40)
        others = sum(index.other_servers.values())
        names = ", ".join(clean_line(name, 30) for name, _ in index.other_servers.most_common(2))
        refused = (
            index.problems.counts["error", "unknown-tool"]
            + index.problems.counts["error", "schema"]
        )
        if others and not refused and others == index.counts["ok"] + index.counts["warning"]:
            return [
                f"Calls not checked: these tasks use {names}; last analyzed: {source}",
                f"calls not checked ({names})",
            ]
        checked = f"calls checked against {source}"
        if others:
            tasks, use = ("1 task", "uses") if others == 1 else (f"{others:,} tasks", "use")
            return [
                f"{checked}; calls of {tasks} that {use} {names} are not",
                f"calls of {tasks} not checked",
            ]
        return [
            f"{checked}, inspected "
            f"{age_text(analysis_age(self._open.analysis, self.app.services.now()))}"
        ]

    def _filter_words(self) -> str:
        if len(self.filter) == 2:
            return f"{self.filter[0]}: {self.filter[1]}"
        return {"problems": "with problems", "error": "errors", "warning": "warnings"}[
            self.filter[0]
        ]

    def on_resize(self) -> None:
        """Fit the line below the table to its width."""
        self.call_after_refresh(self.show_shown)

    # -- filter and order
    # --------------------------------------------------------------------------------------------

    def find(self) -> None:
        """Show the filter, with the focus."""
        if (above := self._panes()) is not None:
            above.bring(self)
        self.search.display = True
        self.search.focus()

    @on(Field.Changed)
    def _typed(self, event: Field.Changed) -> None:
        event.stop()
        if event.value != self._word:
            self._word = event.value
            self.list_tasks()

    @on(FilterField.Left)
    def _left(self, event: FilterField.Left) -> None:
        event.stop()
        self.search.display = bool(self.search.value)
        self.table.focus()

    def next_problems(self) -> None:
        assert self._open.index is not None
        counts = self._open.index.problems.counts
        choices: list[tuple[str, ...]] = [()]
        if counts:
            choices.append(("problems",))
        choices += [
            (severity,)
            for severity in ("error", "warning")
            if any(key[0] == severity for key in counts)
        ]
        choices += sorted(counts)
        place = choices.index(self.filter) + 1 if self.filter in choices else 0
        self.filter = choices[place % len(choices)]
        if len(choices) == 1:
            self._host.say("No problem was found" + (" so far." if self._open.reading else "."))
        self.list_tasks()

    def next_sort(self) -> None:
        place = (SORTS.index(self.sort[0]) + 1) % len(SORTS)
        self.sort = (SORTS[place], False)
        self.list_tasks()

    def turn_round(self) -> None:
        self.sort = (self.sort[0], not self.sort[1])
        self.list_tasks()

    @on(VirtualTable.HeadingClicked)
    def _heading_clicked(self, event: VirtualTable.HeadingClicked) -> None:
        """Sort by this column; again, the other way round."""
        event.stop()
        if not self._open.reading:
            self.sort = (event.key, self.sort == (event.key, False))
            self.list_tasks()

    def _want(self) -> TaskFilter:
        from hudtui.core.tasks.table import TaskFilter

        states = {
            "problems": frozenset((1, 2)),
            "error": frozenset((2,)),
            "warning": frozenset((1,)),
        }
        if len(self.filter) == 2:
            return TaskFilter(self._word, None, (self.filter[0], self.filter[1]))  # type: ignore[arg-type]
        return TaskFilter(self._word, states[self.filter[0]] if self.filter else None)

    def list_tasks(self) -> None:
        """List the tasks that pass the filter, in the chosen order."""
        from hudtui.core.tasks.table import test_of

        if self._open.index is None:
            return
        try:
            test_of(self._word)
        except InputError as error:
            self.note_on_border(str(error), "$error")
            return
        self.note_on_border("")
        self.table.sorted_by = None if self.sort == ("task", False) else self.sort
        self._host.start(partial(self._chosen, self._open.index, self._want()), group="view")

    async def _chosen(self, index: TaskIndex, want: TaskFilter) -> None:
        if want.everything and self.sort == ("task", False):
            self._choosing = False
            self._use(TaskRows(index))
            return
        self._choosing = True
        order: Sequence[int] = range(index.total)
        if not want.everything:
            found = array("I")
            rows = TaskRows(index, found)
            self._use(rows)
            start = 0
            while True:
                ended = (
                    not self._open.reading
                )  # asked before: what is read from now on is drawn next time
                steps = index.matching(want, start)
                while (part := await asyncio.to_thread(_some, steps)) is not None:
                    new, start = part
                    if new:
                        first = not found
                        found.extend(new)
                        self.table.took()
                        if first:
                            self._keep_place(rows)
                    self.show_shown()
                if ended:
                    break
                await asyncio.sleep(TICK)
            order = found
        elif self._open.reading:
            return
        if self.sort != ("task", False):
            key, reverse = self.sort
            order = await asyncio.to_thread(index.arranged, order, key, reverse=reverse)
            self._use(TaskRows(index, order))
        self._choosing = False
        self.show_shown()
        if not order:
            self.post_message(self.Emptied())

    def _use(self, rows: TaskRows) -> None:
        self.rows = rows
        self.say_nothing()
        self.table.show(rows)
        self._keep_place(rows)
        self.show_shown()

    def say_nothing(self) -> None:
        """Set the text of the empty table."""
        some = self._open.reading or bool(self._open.index is not None and self._open.index.total)
        if some and self.rows is not None and self.rows.order is not None:
            self.table.empty = with_keys(
                "No task fits: Esc in the search, or {key:dataset.problem}, shows others.",
                keymap_of(self.app),
            )
        elif self._open.reading:
            self.table.empty = "No task yet."
        else:
            self.table.empty = "There is no task." if self._open.complete else _UNREAD

    def _keep_place(self, rows: TaskRows) -> None:
        """Keep the cursor on its task if that is still listed."""
        if not len(rows):
            return
        place = 0
        if self.chosen is not None:
            if rows.order is None:
                place = self.chosen
            else:
                try:
                    place = rows.order.index(self.chosen)
                except ValueError:
                    place = 0
        self.table.go(place)

    # -- the chosen task
    # ---------------------------------------------------------------------------------------------

    @on(VirtualTable.Highlighted)
    def _moved(self, event: VirtualTable.Highlighted) -> None:
        event.stop()
        if (
            self.rows is not None
            and event.row < len(self.rows)
            and (task := self.rows.task(event.row)) != self.chosen
        ):
            self.select(task)

    @on(VirtualTable.Selected)
    def _opened(self, event: VirtualTable.Selected) -> None:
        event.stop()
        self.post_message(self.Opened())

    def select(self, task: int) -> None:
        before, self.chosen = self.chosen, task
        self.post_message(self.Chosen(before))

    def go(self, task: int) -> None:
        """Put the cursor on a task, clearing a filter that hides it."""
        self.chosen = task
        if self.rows is not None and self.rows.order is not None and task not in self.rows.order:
            self.filter, self._word = (), ""
            self.search.value = ""
            self.list_tasks()
        elif self.rows is not None:
            self._keep_place(self.rows)


class TaskDetailPane(ViewsPane):
    """The selected task, the statistics of all tasks, or the last test."""

    BORDER_TITLE = "Task"
    HELP = (
        "The selected task in full. {key:views.next} shows the statistics of all tasks, then the "
        "last test."
    )
    VIEWS: ClassVar[tuple[str, ...]] = tuple(_VIEWS)

    def __init__(self) -> None:
        super().__init__(id="ds-detail")
        self.texts: dict[str, Static] = {view: CalmStatic(id=f"ds-{view}") for view in _VIEWS}
        self.pages: dict[str, Page] = {
            view: Page(text, id=f"ds-{view}-page") for view, text in self.texts.items()
        }

    def compose(self) -> ComposeResult:
        yield from self.pages.values()

    def on_mount(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Say in each view that it shows nothing."""
        for view, words in _EMPTY.items():
            self.texts[view].update(Content.styled(self.app.keys_in(words), "$foreground-muted"))

    def show_view(self) -> None:
        """Show the page of the view; the focus stays in the pane if it is there."""
        focused = self.has_focus_within
        for name, page in self.pages.items():
            page.display = name == self.view
        self.name_on_border(_VIEWS[self.view])
        if focused:
            self.pages[self.view].focus()

    def first_focus(self) -> Page:
        return self.pages[self.view]


_UNREAD = "No task was read."


class ProblemsPane(Pane):
    """The problems of the tasks, and the whole sentence of the selected one."""

    BORDER_TITLE = "Problems"
    HELP = "What is wrong with the tasks. Enter goes to the task."

    @dataclass
    class Opened(Message):
        """Enter was pressed on a problem of a task."""

        task: int

    def __init__(self) -> None:
        super().__init__(id="ds-problems-pane")
        self.table = VirtualTable(PROBLEMS, empty=_UNREAD, id="ds-problems")
        self.sentence = CalmStatic(id="ds-problem")

    def compose(self) -> ComposeResult:
        yield self.table
        yield self.sentence

    def on_mount(self) -> None:
        self.count(0)

    def count(self, problems: int) -> None:
        """Show how many problems there are; without one the pane is small."""
        self.name_on_border(f"Problems {problems:,}" if problems else "Problems")
        self.set_class(not problems, "-empty")
        self.sentence.display = bool(problems) and self.sentence.display

    def tell(self, sentence: Content) -> None:
        """Show what is wrong in full."""
        self.sentence.update(sentence)
        self.sentence.display = True

    def show(self, index: TaskIndex | None, *, complete: bool = False) -> None:
        """List the problems of the tasks that were read, `complete` when those are all.

        None empties the pane.
        """
        read = index is not None and index.total
        self.table.empty = (
            "No problem was found." if complete else "No problem so far." if read else _UNREAD
        )
        if index is None:
            self.table.show(None)
            self.sentence.update("")
            self.count(0)
            return
        count = len(index.problems)
        self.table.show(ProblemRows(index, range(count)))
        self.count(count)

    @on(VirtualTable.Highlighted)
    def _moved(self, event: VirtualTable.Highlighted) -> None:
        """Show the whole problem under the cursor."""
        from hudtui.tui.dataset.detail import problem_lines

        event.stop()
        if isinstance(rows := event.table.rows, ProblemRows) and event.row < len(rows):
            self.tell(problem_lines([rows.kind(event.row)])[0])

    @on(VirtualTable.Selected)
    def _opened(self, event: VirtualTable.Selected) -> None:
        event.stop()
        if isinstance(rows := event.table.rows, ProblemRows):
            self.post_message(self.Opened(rows.task(event.row)))


def _some(steps: Iterator[tuple[array[int], int]]) -> tuple[array[int], int] | None:
    """What a search finds in a tenth of a second, and where it stopped; None at its end."""
    end = time.monotonic() + TICK
    found, last = array("I"), -1
    for part, up_to in steps:
        last = up_to
        found.extend(part)
        if time.monotonic() > end:
            break
    return None if last < 0 else (found, last)


def _all_scenarios(index: TaskIndex) -> bool:
    """Return whether all tasks are of a generation that does not train.

    At least one of them is a scenario of generation 5.
    """
    return (
        bool(index.total)
        and index.problems.counts["error", "generation"] == index.total
        and any("HUD v5" in kind.message for kind in index.problems.kinds)
    )
