"""What the dataset screen shows of the tasks that are read: search, filter, order, one task, problems, numbers."""

from __future__ import annotations

import asyncio
import json
import time
from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual.content import Content

from hudtui.core.errors import HudtuiError
from hudtui.core.text import clean_line
from hudtui.tui.dataset.making import Making
from hudtui.tui.dataset.rows import SORTS, ProblemRows, Shown, TaskRows
from hudtui.tui.widgets.fields import Field, FilterField
from hudtui.tui.widgets.pane import Panes
from hudtui.tui.widgets.virtual_table import VirtualTable

if TYPE_CHECKING:
    from hudtui.core.tasks.table import TaskFilter, TaskIndex

TICK = 0.1
"""Seconds between two updates of the picture while tasks are read."""


class Viewing(Making):
    """The part of the dataset screen that shows what was read."""

    def __init__(self) -> None:
        super().__init__()
        self.check_calls = True
        self.reading = False
        self.word = ""
        self.filter: tuple[str, ...] = ()
        """() for all tasks, ("problems",), ("error",), ("warning",), or (severity, code)."""
        self.sort: tuple[str, bool] = ("task", False)
        self._rows: TaskRows | None = None
        self._choosing = False

    @property
    def table(self) -> VirtualTable:
        """The table of tasks."""
        return self.tasks.table

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
        if index is not None and _all_scenarios(index):
            parts.append(("6 writes v5 tasks for HUD v6", "bold $accent"))
        line = Content("  ").join(Content.styled(text.strip(), style) for text, style in parts)
        shown = self.tasks.shown
        room = shown.size.width - 2 - (line.cell_length + 2 if parts else 0)
        about = next((words for words in self._about_calls(index) if cell_len(words) <= room), "") if index is not None else ""
        if about:
            line = Content("  ").join([*([line] if parts else []), Content.styled(about, "$foreground-muted")])
        shown.update(line, layout=False)

    def _about_calls(self, index: TaskIndex) -> list[str]:
        """Against what the calls are checked, the longest way to say it first."""
        if self.analysis is None:
            return [f"calls not checked: {'no environment was analysed yet' if self.check_calls else 'v switches that on'}"]
        from hudtui.core.environment.cache import age_text, analysis_age

        source = clean_line(self.analysis.source, 40)
        others = sum(index.other_servers.values())
        names = ", ".join(clean_line(name, 30) for name, _ in index.other_servers.most_common(2))
        refused = index.problems.counts["error", "unknown-tool"] + index.problems.counts["error", "schema"]
        if others and not refused and others == index.counts["ok"] + index.counts["warning"]:
            return [f"Calls not checked: these tasks use {names}; last analysed: {source}", f"calls not checked ({names})"]
        checked = f"calls checked against {source}"
        if others:
            tasks, use = ("1 task", "uses") if others == 1 else (f"{others:,} tasks", "use")
            return [f"{checked}; calls of {tasks} that {use} {names} are not", f"calls of {tasks} not checked"]
        return [f"{checked}, seen {age_text(analysis_age(self.analysis, self.app.services.now()))}"]

    def _filter_words(self) -> str:
        if len(self.filter) == 2:
            return f"{self.filter[0]}: {self.filter[1]}"
        return {"problems": "with problems", "error": "errors", "warning": "warnings"}[self.filter[0]]

    def on_shown_sized(self, event: Shown.Sized) -> None:
        """How much fits is known now."""
        event.stop()
        self._show_shown()

    # -- search, filter, sort ----------------------------------------------------------------------------------------

    def action_search(self) -> None:
        self.query_one(Panes).bring(self.tasks)
        self.tasks.search.display = True
        self.tasks.search.focus()

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
        field = self.tasks.search
        field.display = bool(field.value)
        self.table.focus()

    def action_problem(self) -> None:
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
        place = (SORTS.index(self.sort[0]) + 1) % len(SORTS)
        self.sort = (SORTS[place], False)
        self._choose()

    def action_reverse(self) -> None:
        self.sort = (self.sort[0], not self.sort[1])
        self._choose()

    def on_virtual_table_heading_clicked(self, event: VirtualTable.HeadingClicked) -> None:
        """Sort by this column; again, the other way round."""
        event.stop()
        if event.table is self.table and not self.reading:
            self.sort = (event.key, self.sort == (event.key, False))
            self._choose()

    def _want(self) -> TaskFilter:
        from hudtui.core.tasks.table import TaskFilter

        states = {"problems": frozenset((1, 2)), "error": frozenset((2,)), "warning": frozenset((1,))}
        if len(self.filter) == 2:
            return TaskFilter(self.word, None, (self.filter[0], self.filter[1]))  # type: ignore[arg-type]
        return TaskFilter(self.word, states[self.filter[0]] if self.filter else None)

    def _choose(self) -> None:
        """Show the tasks that are wanted, in the order that is wanted."""
        if self.index is None:
            return
        self.table.sorted_by = None if self.sort == ("task", False) else self.sort
        self.start(self._chosen(self.index, self._want()), group="view")

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
        self._say_nothing()
        self.table.show(rows)
        self._keep_place(rows)
        self._show_shown()

    def _say_nothing(self) -> None:
        """What stands where the tasks would be."""
        some = self.reading or bool(self.index is not None and self.index.total)
        if some and self._rows is not None and self._rows.order is not None:
            self.table.empty = "No task fits: Esc in the search, or p, shows others."
        elif self.reading:
            self.table.empty = "No task yet."
        else:
            self.table.empty = "There is no task." if self.complete else "No task was read."

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

    def on_virtual_table_highlighted(self, event: VirtualTable.Highlighted) -> None:
        """Show the task, or the whole problem, under the cursor."""
        from hudtui.tui.dataset.detail import problem_lines

        event.stop()
        rows = self._rows
        if event.table is self.table and rows is not None and event.row < len(rows):
            task = rows.task(event.row)
            if task != self.chosen:
                self._select(task)
        elif self.index is not None and isinstance(problems := event.table.rows, ProblemRows) and event.row < len(problems):
            kind = problems.kind(event.row)
            self.problems.tell(problem_lines([kind])[0])

    def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        """Enter: the task in full, or the task that has the problem."""
        event.stop()
        if event.table is self.table:
            self.show_view("task")
        else:
            rows = event.table.rows
            if isinstance(rows, ProblemRows):
                self._go(rows.task(event.row))
                self.show_view("task")

    def _go(self, task: int) -> None:
        """Put the cursor on a task, without filters where they hide it."""
        rows = self._rows
        self.chosen = task
        if rows is not None and rows.order is not None and task not in rows.order:
            self.filter, self.word = (), ""
            self.tasks.search.value = ""
            self._choose()
        elif rows is not None:
            self._keep_place(rows)
        self._show_task()
        self.refresh_bindings()

    def _select(self, task: int) -> None:
        before, self.chosen = self.chosen, task
        self.when_keys_rest(self._show_task)
        assert self.index is not None
        if before is None or (self.index.states[before] == 2) != (self.index.states[task] == 2):
            self.refresh_bindings()

    def _show_task(self) -> None:
        from hudtui.tui.dataset.detail import broken_content, task_content

        index, task, shown = self.index, self.chosen, self.detail.texts["task"]
        self.workers.cancel_group(self, "raw")
        if index is None or task is None or task >= index.total or (self._rows is not None and not len(self._rows)):
            shown.update(Content.styled("No task is selected.", "$foreground-muted"))
            return
        row, line = index.row(task), index.line(task)
        kinds = [index.problems.kind(number) for number in index.problems.of(task)]
        platform = self.app.platform
        record = index.record(task)
        if record is not None:
            shown.update(task_content(row, record, kinds, platform, line))
        else:
            shown.update(broken_content(row, kinds, line, None, platform))
            self.start(self._show_raw(index, task), group="raw")
        self.detail.pages["task"].scroll_home(animate=False)

    async def _show_raw(self, index: TaskIndex, task: int) -> None:
        """What stands in the file for a task that cannot be used."""
        from hudtui.core.tasks.table import raw_record
        from hudtui.tui.dataset.detail import broken_content

        await asyncio.sleep(0.1)  # held down, the arrow keys go over many
        assert self.opened_source is not None
        try:
            raw = await asyncio.to_thread(raw_record, self.opened_source.source, index, task)
        except HudtuiError as error:
            raw = error.lines()[0]
        if task == self.chosen and index is self.index:
            row, line = index.row(task), index.line(task)
            kinds = [index.problems.kind(number) for number in index.problems.of(task)]
            told = "(nothing)" if raw is None else raw
            self.detail.texts["task"].update(broken_content(row, kinds, line, told, self.app.platform))

    def action_back(self) -> None:
        """Back to the tasks; from there, home."""
        if self.source is None or not self.query_one(Panes).back():
            self.leave()

    def action_copy(self) -> None:
        from hudtui.core.tasks.masking import masked_config

        index, task = self.index, self.chosen
        assert index is not None and task is not None
        record = index.record(task)
        if record is None:
            self.say("Only a usable task can be copied; the file has this one.", "warning")
            return
        data = {"id": record.id, "prompt": record.prompt, **record.columns}
        data["mcp_config"] = masked_config(data.get("mcp_config"), self.app.platform)
        self.app.copy(json.dumps(data, ensure_ascii=False, indent=2))

    # -- problems and numbers ----------------------------------------------------------------------------------------

    def _show_problems(self) -> None:
        index = self.index
        assert index is not None
        count = len(index.problems)
        self.problems.table.show(ProblemRows(index, range(count)))
        self.problems.count(count)

    def action_problems(self) -> None:
        table = self.problems.table
        table.go(table.cursor)
        self.query_one(Panes).open(self.problems)

    def action_next(self) -> None:
        self._jump(1)

    def action_previous(self) -> None:
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
        self.show_view("stats")
        self.call_after_refresh(self._show_numbers)  # the bars are as wide as the page

    def _show_numbers(self) -> None:
        if self.index is not None:
            self.start(self._count(self.index), group="numbers")

    async def _count(self, index: TaskIndex) -> None:
        from hudtui.tui.dataset.detail import stats_content

        def count() -> Any:
            from hudtui.core.tasks.table import task_stats

            return task_stats(index)

        stats = await asyncio.to_thread(count)
        page = self.detail.pages["stats"]
        width = page.size.width - 2
        if width < 20:
            width = self.size.width - 4
        self.detail.texts["stats"].update(stats_content(stats, min(width, 100)))


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


def _all_scenarios(index: TaskIndex) -> bool:
    """Whether all tasks are of a generation that does not train, and one at least is a scenario of generation 5."""
    return (
        bool(index.total)
        and index.problems.counts["error", "generation"] == index.total
        and any("HUD v5" in kind.message for kind in index.problems.kinds)
    )
