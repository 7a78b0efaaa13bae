"""Dataset: which tasks?"""

from __future__ import annotations

import asyncio
import json
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar

from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static, TabbedContent, TabPane

from hudtui.core.errors import HudtuiError
from hudtui.core.text import clean_line
from hudtui.tui.facts import Facts
from hudtui.tui.keymap import Action
from hudtui.tui.screens.dataset_making import Making
from hudtui.tui.screens.dataset_rows import PROBLEMS, SORTS, Page, ProblemRows, TaskRows, columns_for
from hudtui.tui.widgets.empty import EmptyState
from hudtui.tui.widgets.fields import Field, FilterField
from hudtui.tui.widgets.fit import cut_left
from hudtui.tui.widgets.task_table import TaskTable

if TYPE_CHECKING:
    from hudtui.core.environment.values import Analysis
    from hudtui.core.tasks.index import TaskIndex, Want
    from hudtui.core.tasks.opening import Opened, Print

TICK = 0.1
"""Seconds between two updates of the picture while tasks are read."""
SLOW_TICK = 0.5
"""The same after the first second: a picture takes time that the reading wants."""
FIRST = 1.0
"""Seconds for which the reading waits for the first picture, at most."""
REST = 0.06
"""Seconds that the cursor rests on a task before its detail is shown."""
WATCH = 2.0
"""Seconds between two looks at whether the file has changed."""


class DatasetScreen(Making):
    """See every task and what is wrong with it, test one, and make a dataset of them."""

    NAME = "dataset"
    TITLE = "dataset"
    AUTO_FOCUS = "#ds-table"
    CSS_PATH = "dataset.tcss"
    HELP = (
        "The tasks of this project, each checked: ✓ ok, ! warning, ✗ error (left out of every dataset). / searches, "
        "p shows only tasks with problems, s sorts. Enter shows a task in full. t sets one task up in its environment and judges "
        "it at once: a broken evaluator shows here. c converts, P publishes; both show first what would be written."
    )
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("dataset.open", "Open", "Choose a task file, or name a path or a dataset on the Hub.", "o"),
        Action("dataset.search", "Search", "Show only tasks whose id, prompt, server or evaluator holds a word.", "slash"),
        Action("dataset.problem", "Filter", "Show all tasks, those with problems, with errors, with one kind of problem …", "p"),
        Action("dataset.test", "Test", "Set this task up in its environment and judge it at once.", "t"),
        Action("dataset.convert", "Convert", "Write a dataset file, after a look at what it would hold.", "c"),
        Action("dataset.publish", "Publish", "Push a dataset to the Hugging Face Hub, after a look at it.", "P"),
        Action("dataset.carry", "To HUD v6", "Write the tasks as HUD v6 reads them; v5 tasks need that.", "6", show=False),
        Action("dataset.problems", "Problems", "List every problem; Enter goes to its task.", "e", show=False),
        Action("dataset.numbers", "Statistics", "Prompt lengths, tools and categories.", "i", show=False),
        Action("dataset.sort", "Sort", "Sort by the next column.", "s", show=False),
        Action("dataset.reverse", "Reverse", "Sort the other way round.", "S", show=False),
        Action("dataset.next", "Next problem", "Go to the next task with a problem.", "n", show=False),
        Action("dataset.previous", "Problem before", "Go to the task with a problem before this one.", "N", show=False),
        Action("dataset.check", "Check calls", "Check calls against the last analysed environment, or not.", "v", show=False),
        Action("dataset.again", "Read again", "Read the tasks again from the beginning.", "r", show=False),
        Action("dataset.copy", "Copy task", "Copy the task as JSON, secrets masked.", "y", show=False),
        Action("dataset.cancel", "Cancel", "Stop the reading, the writing or the test that is going on.", "ctrl+x", show=False),
        Action("dataset.back", "To the table", "Back to the table; from there, home.", "escape", show=False, palette=False),
        Action("dataset.pane", "Other pane", "Go to the other pane.", "tab", show=False, palette=False),
    )

    def __init__(self) -> None:
        super().__init__()
        self.check_calls = True
        self.reading = False
        self.word = ""
        self.filter: tuple[str, ...] = ()
        """() for all tasks, ("problems",), ("error",), ("warning",), or (severity, code)."""
        self.sort: tuple[str, bool] = ("task", False)
        self._category: str | None = None
        self._print: Print | None = None
        self._return_to: int | None = None
        self._rows: TaskRows | None = None
        self._counted = -1
        self._choosing = False

    # -- what is on it -----------------------------------------------------------------------------------------------

    def content(self) -> Iterable[Widget]:
        """What is open, table, detail."""
        yield Static(id="ds-head")
        yield EmptyState("No task file was found in this project.", "o names one, or a dataset on the Hub", id="ds-empty")
        with Horizontal(id="ds-panes"):
            with Vertical(id="ds-left"):
                yield FilterField(placeholder="search in ids and prompts", id="ds-search")
                yield TaskTable(columns_for(None), empty="No task yet.", id="ds-table")
                yield Static(id="ds-shown")
            with Vertical(id="ds-right"), TabbedContent(id="ds-tabs"):
                with TabPane("Task", id="ds-tab-task"), Page(id="ds-task-page"):
                    yield Static(Content.styled("No task is selected.", "$foreground-muted"), id="ds-task")
                with TabPane("Problems", id="ds-tab-problems"):
                    yield TaskTable(PROBLEMS, empty="No problem was found.", id="ds-problems")
                    yield Static(id="ds-problem")
                with TabPane("Statistics", id="ds-tab-stats"), Page(id="ds-stats-page"):
                    yield Static(Content.styled("Counted when the tasks are read.", "$foreground-muted"), id="ds-stats")
                with TabPane("Test", id="ds-tab-test"), Page(id="ds-test-page"):
                    yield Static(
                        Content.styled("t sets the selected task up and judges it at once.", "$foreground-muted"), id="ds-test"
                    )

    def on_mount(self) -> None:
        """Begin empty."""
        self.query_one("#ds-panes").display = False
        self.query_one(FilterField).display = False
        super().on_mount()
        self.set_interval(WATCH, self._look_outside, name="watch")

    @property
    def table(self) -> TaskTable:
        """The table of tasks."""
        return self.query_one("#ds-table", TaskTable)

    def opened(self, **given: Any) -> None:
        """Open `path` when one is handed on, else the first task file of the project."""
        if wanted := given.get("path"):
            self._open(self._short(Path(wanted)) if isinstance(wanted, Path) else str(wanted))
        elif self.source is None:
            self._open_first()

    def facts_changed(self, facts: Facts) -> None:
        """Files came or went."""
        if self.source is None and self.is_current:
            self._open_first()
        self._show_head()

    def _open_first(self) -> None:
        facts = self.shell.facts
        if facts is not None and facts.task_files:
            self._open(self._short(facts.task_files[0]))

    def _short(self, path: Path) -> str:
        folder = self.shell.folder
        return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)

    def why_not(self, action_id: str) -> str | None:
        """What needs tasks, all of them, or a usable one."""
        name = action_id.partition(".")[2]
        if name in ("open", "back", "pane", "cancel"):
            return None
        if self.source is None:
            return "open a task file first, with o"
        if name in ("again", "check"):
            return "no environment was analysed yet; 1 does that" if name == "check" and self._latest() is None else None
        index = self.index
        if index is None or not index.total:
            return "the first task is not read yet" if self.reading else "there is no task"
        if name in ("next", "previous", "problems") and not len(index.problems):
            return "no problem was found" + (" so far" if self.reading else "")
        if name in ("convert", "publish", "carry") and self._going("make"):
            return "a dataset is being written; Ctrl-X cancels"
        if name in ("convert", "publish") and not index.counts["ok"] + index.counts["warning"]:
            return "no task can be used"
        if name in ("test", "copy") and self.chosen is None:
            return "select a task first"
        if name == "test" and self.chosen is not None and index.states[self.chosen] == 2:
            return "this task cannot be used as it is; its problems say why"
        if name in ("sort", "reverse") and self.reading:
            return "everything has to be read first"
        return None

    def _going(self, *groups: str) -> list[Any]:
        return [worker for worker in self.workers if worker.group in groups and not worker.is_finished]

    # -- opening -----------------------------------------------------------------------------------------------------

    def action_open(self) -> None:
        """Choose."""
        self.start(self._choose_source(), group="open")

    async def _choose_source(self) -> None:
        from hudtui.tui.screens.dataset_dialogs import OpenDialog

        files = await asyncio.to_thread(self._files)
        wanted: str | None = await self.app.push_screen_wait(OpenDialog(files, self.source))
        if wanted:
            self._open(wanted)

    def _files(self) -> list[tuple[str, str]]:
        facts = self.shell.facts
        found = []
        for path in facts.task_files if facts is not None else ():
            try:
                word = "dataset folder" if path.is_dir() else _size(path.stat().st_size)
            except OSError:
                word = "cannot be read"
            found.append((self._short(path), word))
        return found

    def _open(self, text: str) -> None:
        """Read a source from the beginning."""
        if text != self.source:
            self.word, self.filter, self.sort, self.chosen = "", (), ("task", False), None
            self.query_one("#ds-search", FilterField).value = ""
            self.query_one("#ds-search", FilterField).display = False
        self.source = text
        self._show_panes()
        self.start(self._read(text), group="read")

    def action_again(self) -> None:
        """From the beginning."""
        if self.source is not None:
            self._open(self.source)

    def action_check(self) -> None:
        """With or without the environment."""
        self.check_calls = not self.check_calls
        if self.source is not None:
            self._open(self.source)

    def _latest(self) -> Analysis | None:
        from hudtui.core.environment.cache import latest

        return latest(self.shell.folder)

    async def _read(self, text: str) -> None:
        """Read, check and show as it comes."""
        self.workers.cancel_group(self, "view")
        self.workers.cancel_group(self, "raw")
        self.reading, self.complete = True, False
        self._show_head()
        self.refresh_bindings()
        try:
            opened = await asyncio.to_thread(self._prepare, text)
            self.opened_source = opened
            if opened.source.kind == "hub":
                self.busy(f"Bringing {text} here from the Hub (Ctrl-X cancels)")
                from hudtui.core.tasks.opening import bring

                self.opened_source = opened = await asyncio.to_thread(bring, opened)
                self.clear_message()
            await self._fill(opened)
            self.complete = True
            for notice in opened.notices:
                self.say(notice, "warning")
        finally:
            self.reading = False
            if self.is_attached:
                if not self.complete:
                    self.table.empty = "No task was read."
                self._show_progress(final=True)
                self.refresh_bindings()

    def _prepare(self, text: str) -> Opened:
        """Runs in a thread: the first import takes a moment."""
        import hudtui.core.tasks.scan  # noqa: F401
        from hudtui.core.tasks.opening import fingerprint, open_source

        self.analysis = self._latest() if self.check_calls else None
        opened = open_source(text, self.shell.folder, self.shell.platform, analysis=self.analysis)
        self._print = fingerprint(opened.source)
        return opened

    async def _fill(self, opened: Opened) -> None:
        from hudtui.core.tasks.index import TaskIndex
        from hudtui.core.tasks.opening import fingerprint, read_into

        self._return_to, self.chosen = self.chosen, None
        before, self.index = self.index, TaskIndex()
        index = self.index
        if opened.source.kind != "hub":
            self._print = await asyncio.to_thread(fingerprint, opened.source)
        self._counted = -1
        self._rows = TaskRows(index)
        first, drawn, stop, loop = asyncio.Event(), Event(), Event(), asyncio.get_running_loop()

        def told() -> None:
            if not drawn.is_set():
                loop.call_soon_threadsafe(first.set)
                drawn.wait(FIRST)  # what comes next, imports of large modules too, would only hold up the first picture
                drawn.set()

        work = asyncio.ensure_future(asyncio.to_thread(read_into, index, opened, stop, told))
        waiting = asyncio.ensure_future(first.wait())
        try:
            await asyncio.wait([work, waiting], return_when=asyncio.FIRST_COMPLETED)
            self._begin(index)
            self.call_after_refresh(drawn.set)
            if before is not None:
                before.close()
            ticks = 0
            while not work.done():
                ticks += 1
                await asyncio.wait([work], timeout=TICK if ticks <= 10 else SLOW_TICK)
                self._show_progress()
            work.result()
        finally:
            stop.set()
            drawn.set()
            waiting.cancel()
            if not work.done():
                await asyncio.wait([work])

    def _begin(self, index: TaskIndex) -> None:
        """The first tasks are there."""
        table = self.table
        table.show(self._rows, cursor=0)
        if self.focused is None and self.is_current:
            table.focus()
        self._choose()
        self._show_progress()
        self.refresh_bindings()

    def on_unmount(self) -> None:
        """Let go of the temporary file."""
        if self.index is not None:
            self.index.close()

    async def _look_outside(self) -> None:
        """Read again when the file has changed outside."""
        if not self.is_current or self.reading or self._print is None or self.opened_source is None:
            return
        from hudtui.core.tasks.opening import fingerprint

        now = await asyncio.to_thread(fingerprint, self.opened_source.source)
        if now is not None and now != self._print and not self.reading and self.source is not None:
            self.say(f"{self.source} has changed and is read again.")
            self._open(self.source)

    def on_screen_resume(self) -> None:
        """Files may have changed meanwhile."""
        super().on_screen_resume()
        self.run_worker(self._look_outside(), group="watch", exclusive=True, exit_on_error=False)

    def action_cancel(self) -> None:
        """Stop."""
        going = self._going("read", "make", "test", "view")
        for worker in going:
            worker.cancel()
        self.say("Cancelled." if going else "Nothing is going on.")

    # -- what is read so far -----------------------------------------------------------------------------------------

    def _show_panes(self) -> None:
        self.query_one("#ds-empty").display = self.source is None
        self.query_one("#ds-panes").display = self.source is not None

    def _show_progress(self, *, final: bool = False) -> None:
        index = self.index
        if index is None:
            self._show_head()
            return
        if self._rows is not None and self._rows.order is None and index.total != self.table.count:
            self.table.took()
        wanted = self._return_to
        if wanted is not None and self.chosen in (None, 0) and index.total > wanted:
            self._return_to = None
            self._go(wanted)
        elif index.total and self.chosen is None:
            self._select(0)
        if index.category_field != self._category:
            self._category = index.category_field
            self.table.columns = columns_for(index.category_field)
            self.table.refresh()
        problems = len(index.problems)
        # The label of the tab costs a new layout, so it is not brought up to date with every problem.
        if final or not self._counted or problems > 2 * self._counted:
            self._counted = problems
            self._show_problems()
            self.refresh_bindings()
        self._show_head()
        if final:
            self._show_numbers()

    def _show_head(self) -> None:
        head = self.query_one("#ds-head", Static)
        facts = self.shell.facts
        files = len(facts.task_files) if facts is not None else 0
        if self.source is None:
            head.display = False
            hint = "o names one, or a dataset on the Hub" if not files else "o opens one"
            self.query_one(EmptyState).tell("No task file was found in this project.", hint)
            return
        head.display = True
        width = max(self.size.width - 2, 20)
        index = self.index
        parts: list[Any] = [(cut_left(clean_line(self.source), max(width // 3, 16)), "bold")]
        if files > 1:
            parts.append((f"  {files} files: o", "$foreground-muted"))
        if index is not None:
            parts.append(f"  {index.total:,} task{'' if index.total == 1 else 's'}")
            for state, (glyph, style) in (
                ("ok", ("✓", "$success")),
                ("warning", ("!", "$warning")),
                ("error", ("✗", "bold $error")),
            ):
                count = index.counts[state]  # type: ignore[index]
                words = "" if width < 70 else f" {state}" if count == 1 or state == "ok" else f" {state}s"
                parts.append((f"  {glyph} {count:,}{words}", style if count else "$foreground-muted"))
        if self.reading:
            share = f" {100 * index.done // index.size} %" if index is not None and index.size else ""
            parts.append((f"  ● reading{share}" + (", ^x stops" if width >= 70 else ""), "bold $accent"))
        elif not self.complete:
            parts.append(("  ✗ not read to the end", "bold $warning"))
        head.update(Content.assemble(*parts), layout=False)
        self._show_shown()

    def _show_shown(self) -> None:
        """The line under the table: what it shows, and against what it was checked."""
        index, rows = self.index, self._rows
        parts: list[Any] = []
        if index is not None and rows is not None and rows.order is not None:
            parts.append((f"{len(rows):,} of {index.total:,}", "bold $accent"))
            if self.filter:
                parts.append((f"  {self._filter_words()}", "$accent"))
            if self.word:
                parts.append((f"  holding “{clean_line(self.word, 30)}”", "$accent"))
            if self._choosing:
                parts.append(("  searching …", "$foreground-muted"))
        if self.sort != ("task", False):
            parts.append((f"  by {self.sort[0]} {'▼' if self.sort[1] else '▲'}", "$accent"))
        about = self._about_calls() if index is not None else ""
        line = Content("  ").join(Content.styled(text.strip(), style) for text, style in parts)
        shown = self.query_one("#ds-shown", Static)
        if about and line.cell_length + len(about) + 2 <= (shown.size.width or self.size.width) - 2:
            line = Content("  ").join([*([line] if parts else []), Content.styled(about, "$foreground-muted")])
        shown.update(line, layout=False)

    def _about_calls(self) -> str:
        """Against what the calls are checked."""
        if self.analysis is None:
            return f"calls not checked: {'no environment was analysed yet' if self.check_calls else 'v switches that on'}"
        from hudtui.core.environment.cache import age, age_text

        seen = age_text(age(self.analysis, self.shell.services.now()))
        return f"calls checked against {clean_line(self.analysis.source, 40)}, seen {seen}"

    def _filter_words(self) -> str:
        if len(self.filter) == 2:
            return f"{self.filter[0]}: {self.filter[1]}"
        return {"problems": "with problems", "error": "errors", "warning": "warnings"}[self.filter[0]]

    # -- search, filter, sort ----------------------------------------------------------------------------------------

    def action_search(self) -> None:
        """Write into the search field."""
        field = self.query_one("#ds-search", FilterField)
        field.display = True
        self.query_one("#ds-panes").remove_class("-detail")
        field.focus()

    def on_input_changed(self, event: Field.Changed) -> None:
        """Search while it is typed."""
        if event.input.id == "ds-search":
            event.stop()
            if event.value != self.word:
                self.word = event.value
                self._choose()

    def on_filter_field_left(self, event: FilterField.Left) -> None:
        """Back to the table."""
        event.stop()
        field = self.query_one("#ds-search", FilterField)
        field.display = bool(field.value)
        self.table.focus()

    def action_problem(self) -> None:
        """The next filter."""
        assert self.index is not None
        counts = self.index.problems.counts
        choices: list[tuple[str, ...]] = [()]
        if counts:
            choices.append(("problems",))
        choices += [(severity,) for severity in ("error", "warning") if any(key[0] == severity for key in counts)]
        choices += sorted(counts)
        place = choices.index(self.filter) + 1 if self.filter in choices else 0
        self.filter = choices[place % len(choices)]
        if len(choices) == 1:
            self.say("No problem was found" + (" so far." if self.reading else "."))
        self._choose()

    def action_sort(self) -> None:
        """The next column."""
        place = (SORTS.index(self.sort[0]) + 1) % len(SORTS)
        self.sort = (SORTS[place], False)
        self._choose()

    def action_reverse(self) -> None:
        """The other way round."""
        self.sort = (self.sort[0], not self.sort[1])
        self._choose()

    def on_task_table_heading_clicked(self, event: TaskTable.HeadingClicked) -> None:
        """Sort by this column; again, the other way round."""
        event.stop()
        if event.table is self.table and not self.reading:
            self.sort = (event.key, self.sort == (event.key, False))
            self._choose()

    def _want(self) -> Want:
        from hudtui.core.tasks.index import Want

        states = {"problems": frozenset((1, 2)), "error": frozenset((2,)), "warning": frozenset((1,))}
        if len(self.filter) == 2:
            return Want(self.word, None, (self.filter[0], self.filter[1]))  # type: ignore[arg-type]
        return Want(self.word, states[self.filter[0]] if self.filter else None)

    def _choose(self) -> None:
        """Show the tasks that are wanted, in the order that is wanted."""
        if self.index is None:
            return
        self.table.sorted_by = None if self.sort == ("task", False) else self.sort
        self.start(self._chosen(self.index, self._want()), group="view")

    async def _chosen(self, index: TaskIndex, want: Want) -> None:
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
                ended = not self.reading  # asked before: what is read from now on is looked at next time
                steps = index.matching(want, start)
                while (part := await asyncio.to_thread(_some, steps)) is not None:
                    new, start = part
                    if new:
                        first = not found
                        found.extend(new)
                        self.table.took()
                        if first:
                            self._keep_place(rows)
                    self._show_shown()
                if ended:
                    break
                await asyncio.sleep(TICK)
            order = found
        elif self.reading:
            return
        if self.sort != ("task", False):
            key, reverse = self.sort
            order = await asyncio.to_thread(index.arranged, order, key, reverse=reverse)
            self._use(TaskRows(index, order))
        self._choosing = False
        self._show_shown()
        if not order:
            self._show_task()

    def _use(self, rows: TaskRows) -> None:
        self._rows = rows
        self.table.empty = "No task fits: Esc in the search, or p, shows others." if rows.order is not None else "No task yet."
        self.table.show(rows)
        self._keep_place(rows)
        self._show_shown()

    def _keep_place(self, rows: TaskRows) -> None:
        """The cursor stays on its task where that is still shown."""
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

    # -- one task ----------------------------------------------------------------------------------------------------

    def on_task_table_highlighted(self, event: TaskTable.Highlighted) -> None:
        """Show the task, or the whole problem, under the cursor."""
        from hudtui.tui.screens.dataset_detail import problem_lines

        event.stop()
        rows = self._rows
        if event.table is self.table and rows is not None and event.row < len(rows):
            task = rows.task(event.row)
            if task != self.chosen:
                self._select(task)
        elif self.index is not None and isinstance(problems := event.table.rows, ProblemRows) and event.row < len(problems):
            kind = problems.kind(event.row)
            self.query_one("#ds-problem", Static).update(problem_lines([kind])[0])

    def on_task_table_selected(self, event: TaskTable.Selected) -> None:
        """Enter: the task in full, or the task that has the problem."""
        event.stop()
        if event.table is self.table:
            self.show_tab("task")
        else:
            rows = event.table.rows
            if isinstance(rows, ProblemRows):
                self._go(rows.task(event.row))
                self.show_tab("task")

    def _go(self, task: int) -> None:
        """Put the cursor on a task, without filters where they hide it."""
        rows = self._rows
        self.chosen = task
        if rows is not None and rows.order is not None and task not in rows.order:
            self.filter, self.word = (), ""
            self.query_one("#ds-search", FilterField).value = ""
            self._choose()
        elif rows is not None:
            self._keep_place(rows)
        self._show_task()
        self.refresh_bindings()

    def _select(self, task: int) -> None:
        before, self.chosen = self.chosen, task
        if before is None:
            self._show_task()
        else:
            self.start(self._show_soon(task), group="detail")
        assert self.index is not None
        if before is None or (self.index.states[before] == 2) != (self.index.states[task] == 2):
            self.refresh_bindings()

    async def _show_soon(self, task: int) -> None:
        """Show a task once the cursor rests on it: each costs a new layout, and keys held down go over many."""
        await asyncio.sleep(REST)
        if task == self.chosen:
            self._show_task()

    def _show_task(self) -> None:
        from hudtui.tui.screens.dataset_detail import broken_content, task_content

        index, task, shown = self.index, self.chosen, self.query_one("#ds-task", Static)
        self.workers.cancel_group(self, "raw")
        if index is None or task is None or task >= index.total or (self._rows is not None and not len(self._rows)):
            shown.update(Content.styled("No task is selected.", "$foreground-muted"))
            return
        row, line = index.row(task), index.place_of(task)
        kinds = [index.problems.kind(number) for number in index.problems.of(task)]
        platform = self.shell.platform
        record = index.record(task)
        if record is not None:
            shown.update(task_content(row, record, kinds, platform, line))
        else:
            shown.update(broken_content(row, kinds, line, None, platform))
            self.start(self._show_raw(index, task), group="raw")
        self.query_one("#ds-task-page").scroll_home(animate=False)

    async def _show_raw(self, index: TaskIndex, task: int) -> None:
        """What stands in the file for a task that cannot be used."""
        from hudtui.core.tasks.opening import record_at
        from hudtui.tui.screens.dataset_detail import broken_content

        await asyncio.sleep(0.1)  # held down, the arrow keys go over many
        assert self.opened_source is not None
        try:
            raw = await asyncio.to_thread(record_at, self.opened_source.source, index, task)
        except HudtuiError as error:
            raw = error.lines()[0]
        if task == self.chosen and index is self.index:
            row, line = index.row(task), index.place_of(task)
            kinds = [index.problems.kind(number) for number in index.problems.of(task)]
            told = "(nothing)" if raw is None else raw
            self.query_one("#ds-task", Static).update(broken_content(row, kinds, line, told, self.shell.platform))

    def show_tab(self, name: str) -> None:
        """Go to a tab of the detail."""
        tabs = self.query_one(TabbedContent)
        self.query_one("#ds-panes").add_class("-detail")
        tabs.active = f"ds-tab-{name}"
        target = {"task": "#ds-task-page", "problems": "#ds-problems", "stats": "#ds-stats-page", "test": "#ds-test-page"}[name]
        self.call_after_refresh(self.query_one(target).focus)

    def action_back(self) -> None:
        """Back to the table; from there, home."""
        if self.focused is self.table or self.source is None:
            self.shell.open_station("home")
        else:
            self.query_one("#ds-panes").remove_class("-detail")
            self.table.focus()

    def action_pane(self) -> None:
        """From the table to the detail and back."""
        if self.focused is self.table or self.focused is self.query_one("#ds-search"):
            self.show_tab(str(self.query_one(TabbedContent).active).removeprefix("ds-tab-") or "task")
        else:
            self.query_one("#ds-panes").remove_class("-detail")
            self.table.focus()

    def action_copy(self) -> None:
        """Copy the task."""
        from hudtui.tui.screens.dataset_detail import masked_config

        index, task = self.index, self.chosen
        assert index is not None and task is not None
        record = index.record(task)
        if record is None:
            self.say("Only a usable task can be copied; the file has this one.", "warning")
            return
        data = {"id": record.id, "prompt": record.prompt, **record.columns}
        data["mcp_config"] = masked_config(data.get("mcp_config"), self.shell.platform)
        self.shell.copy(json.dumps(data, ensure_ascii=False, indent=2))

    # -- problems and numbers ----------------------------------------------------------------------------------------

    def _show_problems(self) -> None:
        index = self.index
        assert index is not None
        table, count = self.query_one("#ds-problems", TaskTable), len(index.problems)
        table.show(ProblemRows(index, range(count)))
        tab = self.query_one(TabbedContent).get_tab("ds-tab-problems")
        tab.label = Content(f"Problems {count:,}" if count else "Problems")

    def action_problems(self) -> None:
        """The list."""
        table = self.query_one("#ds-problems", TaskTable)
        table.go(table.cursor)
        self.show_tab("problems")

    def action_next(self) -> None:
        """The next task with a problem."""
        self._jump(1)

    def action_previous(self) -> None:
        """The one before."""
        self._jump(-1)

    def _jump(self, step: int) -> None:
        index = self.index
        assert index is not None
        tasks, here = index.problems.tasks, -1 if self.chosen is None else self.chosen
        own = index.problems.of(here)
        number = own.stop if step > 0 else own.start - 1
        if not 0 <= number < len(index.problems):
            number = 0 if step > 0 else len(index.problems) - 1
            self.say("From the beginning again." if step > 0 else "From the end again.")
        self._go(tasks[number])

    def action_numbers(self) -> None:
        """Prompt lengths and the rest."""
        self._show_numbers()
        self.show_tab("stats")

    def _show_numbers(self) -> None:
        if self.index is not None:
            self.start(self._count(self.index), group="numbers")

    async def _count(self, index: TaskIndex) -> None:
        from hudtui.tui.screens.dataset_detail import stats_content

        def count() -> Any:
            from hudtui.core.tasks.stats import stats_of

            return stats_of(index)

        stats = await asyncio.to_thread(count)
        page = self.query_one("#ds-stats-page")
        width = page.size.width - 2
        if width < 20:
            width = self.size.width - 4
        self.query_one("#ds-stats", Static).update(stats_content(stats, min(width, 100)))


def _some(steps: Iterator[tuple[array[int], int]]) -> tuple[array[int], int] | None:
    """What a search finds in a tenth of a second, and how far it came; None when it is at its end."""
    end = time.monotonic() + TICK
    found, last = array("I"), -1
    for part, up_to in steps:
        last = up_to
        found.extend(part)
        if time.monotonic() > end:
            break
    return None if last < 0 else (found, last)


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
