"""Dataset: which tasks?"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable
from functools import partial, partialmethod
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.cells import cell_len
from textual import on
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.errors import HudtuiError
from hudtui.core.text import clean_line
from hudtui.tui.actions import AppAction, by_key, cancel_action, unless
from hudtui.tui.dataset.open_tasks import OpenTasks
from hudtui.tui.dataset.panes import TICK, ProblemsPane, TaskDetailPane, TasksPane
from hudtui.tui.dataset.task_work import TaskWork
from hudtui.tui.facts import Facts
from hudtui.tui.screen import HudtuiScreen, started
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.empty import EmptyState
from hudtui.tui.widgets.fit import cut_left
from hudtui.tui.widgets.pane import Panes
from hudtui.tui.widgets.table_pane import FILTER_ACTION, REVERSE_ACTION, SORT_ACTION

if TYPE_CHECKING:
    from hudtui.core.environment.values import Analysis
    from hudtui.core.tasks.read import Fingerprint, OpenedSource, TaskSource
    from hudtui.core.tasks.table import TaskIndex, TaskRecord

SLOW_TICK = 0.5
"""The same after the first second: drawing slows reading down."""
FIRST = 1.0
"""Most seconds for which reading waits until the first tasks are drawn."""
WATCH = 2.0
"""Seconds between two checks of the file for changes."""
_FOR_ENVIRONMENT = (
    "{key:app.open-environment}, then {key:environment.new-task}, makes one for an environment"
)
_NO_TASKS = "{key:dataset.open} names one, or a dataset on the Hub; " + _FOR_ENVIRONMENT


_OPENED = unless(
    lambda screen: screen.open.source is not None, "open a task file first, with {key:dataset.open}"
)
_NOT_WRITING = unless(
    lambda screen: not screen.going("make"),
    "a dataset is being written; {key:dataset.cancel} cancels",
)
_NOT_AUDITED = unless(
    lambda screen: not screen.going("audit"),
    "an audit is going on; {key:dataset.cancel} cancels",
)
_SELECTED = unless(lambda screen: screen.tasks.chosen is not None, "select a task first")
_WHOLE = unless(lambda screen: not screen.open.reading, "everything has to be read first")


def _none_usable(screen: DatasetScreen) -> str | None:
    index = screen.open.index
    if index is None or index.counts["ok"] + index.counts["warning"]:
        return None
    return "no task can be used"


def _no_task(screen: DatasetScreen) -> str | None:
    index = screen.open.index
    if index is not None and index.total:
        return None
    return "the first task is not read yet" if screen.open.reading else "there is no task"


def _no_servers(screen: DatasetScreen) -> str | None:
    reason = _no_task(screen)
    return None if reason is None else f"{reason} whose servers it takes; {_FOR_ENVIRONMENT}"


def _no_problem(screen: DatasetScreen) -> str | None:
    if screen.open.index is not None and len(screen.open.index.problems):
        return None
    return "no problem was found" + (" so far" if screen.open.reading else "")


def _unusable(screen: DatasetScreen) -> str | None:
    index, chosen = screen.open.index, screen.tasks.chosen
    if index is None or chosen is None or index.states[chosen] != 2:
        return None
    return "this task cannot be used as it is; its problems say why"


def _not_written(screen: DatasetScreen) -> str | None:
    opened = screen.open.opened
    path = None if opened is None or opened.source.kind != "file" else opened.source.path
    if path is not None and path.suffix in (".json", ".jsonl", ".ndjson"):
        return None
    return "only tasks of .json and .jsonl files are changed; {key:dataset.duplicate} copies one"


class DatasetScreen(HudtuiScreen):
    """See every task and what is wrong with it, test one, and make a dataset of them."""

    NAME = "dataset"
    TITLE = "dataset"
    AUTO_FOCUS = "#ds-table"
    CSS_PATH = "dataset.tcss"
    HELP = (
        "The tasks of this project, each checked: ✓ ok, ! warning, ✗ error (left out of every "
        "dataset). {key:list.filter} filters, {key:dataset.problem} shows only tasks with "
        "problems, {key:list.sort} sorts. Enter shows a task in full. {key:dataset.test} sets one "
        "task up in its environment and evaluates it at once: a broken evaluator shows here. "
        "{key:dataset.audit} attacks the grader of all tasks before a model does. "
        "{key:dataset.convert} converts, {key:dataset.publish} publishes; both show first what "
        "would be written."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "dataset.open",
            "Open",
            "Choose a task file, or name a path or a dataset on the Hub.",
            "o",
            asks=True,
        ),
        FILTER_ACTION,
        AppAction(
            "dataset.problem",
            "With problems",
            "Show all tasks, those with problems, with errors, with one kind of problem.",
            "p",
            when=(_OPENED, _no_task),
        ),
        AppAction(
            "dataset.test",
            "Test",
            "Set this task up in its environment and evaluate it at once.",
            "T",
            decides=True,
            when=(_OPENED, _no_task, _SELECTED, _unusable),
        ),
        AppAction(
            "dataset.play",
            "Play",
            "Play this task: by hand, or by a policy, turn by turn.",
            "h",
            when=(_OPENED, _no_task, _SELECTED, _unusable),
        ),
        AppAction(
            "dataset.new",
            "New",
            "Make tasks on one page, for the servers of this task.",
            "n",
            asks=True,
            when=(_OPENED, _no_servers, _SELECTED),
        ),
        AppAction(
            "dataset.edit",
            "Edit",
            "Change this task on one page.",
            "e",
            asks=True,
            when=(_OPENED, _no_task, _SELECTED, _WHOLE, _not_written),
        ),
        AppAction(
            "dataset.duplicate",
            "Duplicate",
            "Make tasks that begin as this one.",
            "d",
            asks=True,
            when=(_OPENED, _no_task, _SELECTED, _unusable),
        ),
        AppAction(
            "dataset.convert",
            "Convert",
            "Write a dataset file, after a preview.",
            "c",
            asks=True,
            when=(_OPENED, _no_task, _NOT_WRITING, _none_usable),
        ),
        AppAction(
            "dataset.publish",
            "Publish",
            "Push a dataset to the Hugging Face Hub, after a preview.",
            "P",
            asks=True,
            when=(_OPENED, _no_task, _NOT_WRITING, _none_usable),
        ),
        AppAction(
            "dataset.audit",
            "Audit",
            "Attack the grader of these tasks with players that never look at them.",
            "A",
            asks=True,
            when=(_OPENED, _no_task, _none_usable, _NOT_AUDITED),
        ),
        AppAction(
            "dataset.carry",
            "Convert to HUD v6",
            "Write the tasks as HUD v6 reads them; v5 tasks need that.",
            "6",
            show=False,
            asks=True,
            when=(_OPENED, _no_task, _NOT_WRITING),
        ),
        AppAction(
            "dataset.problems",
            "Problems",
            "List every problem; Enter goes to its task.",
            "l",
            show=False,
            when=(_OPENED, _no_task, _no_problem),
        ),
        AppAction(
            "dataset.numbers",
            "Statistics",
            "Prompt lengths, tools and categories.",
            "i",
            show=False,
            when=(_OPENED, _no_task),
        ),
        SORT_ACTION,
        REVERSE_ACTION,
        AppAction(
            "dataset.next",
            "Next problem",
            "Go to the next task with a problem.",
            "right_curly_bracket",
            show=False,
            when=(_OPENED, _no_task, _no_problem),
        ),
        AppAction(
            "dataset.previous",
            "Previous problem",
            "Go to the previous task with a problem.",
            "left_curly_bracket",
            show=False,
            when=(_OPENED, _no_task, _no_problem),
        ),
        AppAction(
            "dataset.check",
            "Check calls",
            "Check calls against the last analyzed environment, or not.",
            "v",
            show=False,
            when=(
                _OPENED,
                unless(
                    lambda screen: screen.was_analyzed,
                    "no environment was analyzed yet; the environment screen does that",
                ),
            ),
        ),
        AppAction(
            "dataset.again",
            "Refresh",
            "Read the tasks again from the beginning.",
            "r",
            show=False,
            when=(_OPENED,),
        ),
        AppAction(
            "dataset.copy",
            "Copy task",
            "Copy the task as JSON, secrets masked.",
            "y",
            show=False,
            when=(_OPENED, _no_task, _SELECTED),
        ),
        cancel_action(
            "dataset", "Cancel the reading, the writing, the test or the audit in progress."
        ),
        by_key("dataset.back", "To the table", "Back to the table; from there, home.", "escape"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.open = OpenTasks()
        self.tasks, self.detail, self.problems = (
            TasksPane(self.open, self),
            TaskDetailPane(),
            ProblemsPane(),
        )
        self.work = TaskWork(self, self.open, self.detail, partial(self.show_view, "test"))
        self._reads = 0
        self._print: Fingerprint | None = None
        self._return_to: int | None = None
        self._counted = -1
        self.was_analyzed = False
        """There was an analysis at the last look."""

    # -- what is on it
    # ----------------------------------------------------------------------------------------------

    def content(self) -> Iterable[Widget]:
        yield CalmStatic(id="ds-head")
        yield EmptyState("No task file was found in this project.", _NO_TASKS, id="ds-empty")
        with Panes(id="ds-panes"):
            yield self.tasks
            with Vertical(id="ds-right"):
                yield self.detail
                yield self.problems

    def on_mount(self) -> None:
        """Begin with an empty table if a file will be opened, otherwise with a hint."""
        facts = self.app.facts
        self._show_panes(bool(facts is not None and facts.task_files))
        self.set_interval(WATCH, self._look_outside, name="watch")

    @property
    def place(self) -> dict[str, str]:
        """The open file."""
        return {} if self.open.source is None else {"path": self.open.source}

    def opened(self, **given: Any) -> None:
        """Open `path` if it is given, otherwise the first task file of the project."""
        if wanted := given.get("path"):
            self._open(self.app.relative(Path(wanted)) if isinstance(wanted, Path) else str(wanted))
        elif self.open.source is None:
            self._open_first()

    def facts_changed(self, facts: Facts) -> None:
        if self.open.source is None and self.is_current:
            self._open_first()
        self._show_head()

    def _open_first(self) -> None:
        facts = self.app.facts
        if facts is not None and facts.task_files:
            self._open(self.app.relative(facts.task_files[0]))

    def why_not(self, action_id: str) -> str | None:
        """The actions of a list are shared by all lists; here they need tasks."""
        if not action_id.startswith("list."):
            return super().why_not(action_id)
        reasons = [_OPENED, _no_task, *([] if action_id == "list.filter" else [_WHOLE])]
        return next((words for reason in reasons if (words := reason(self)) is not None), None)

    # -- opening
    # ----------------------------------------------------------------------------------------------

    @started("open")
    async def action_open(self) -> None:
        from hudtui.tui.dataset.dialogs import OpenDialog

        files = await asyncio.to_thread(self._files)
        wanted: str | None = await self.app.push_screen_wait(OpenDialog(files, self.open.source))
        if wanted:
            self._open(wanted)

    def _files(self) -> list[tuple[str, str]]:
        from hudtui.core.compute.hardware import size

        facts = self.app.facts
        found = []
        for path in facts.task_files if facts is not None else ():
            try:
                word = "dataset folder" if path.is_dir() else size(path.stat().st_size)
            except OSError:
                word = "cannot be read"
            found.append((self.app.relative(path), word))
        name = facts.dataset if facts is not None else None
        if name is not None and name not in [listed for listed, _ in found]:
            found.append(
                (
                    name,
                    "dataset of this project"
                    + ("" if os.path.exists(self.app.folder / name) else ", on the Hub"),
                )
            )
        return found

    def _open(self, text: str) -> None:
        """Read a source from the beginning.

        The current one stays open until the new one is found.
        """
        if self.open.source is None:
            self.open.source = text
        self._show_panes(True)
        self.start(partial(self._read, text), group="read")

    def _take(self, text: str, found: _Found) -> None:
        """Replace the previous source, and clear what is shown of it."""
        self.open.opened, self.open.analysis, self.open.complete = (
            found.opened,
            found.analysis,
            False,
        )
        self._print = found.print
        for group in ("view", "raw", "numbers"):
            self.workers.cancel_group(self, group)
        if text == self.open.source:
            return
        self.open.source = text
        self.tasks.forget()
        self.open.index = None
        self.problems.show(None)
        self.detail.clear()
        self._show_head()

    def action_again(self) -> None:
        if self.open.source is not None:
            self._open(self.open.source)

    def action_check(self) -> None:
        self.open.check_calls = not self.open.check_calls
        if self.open.source is not None:
            self._open(self.open.source)

    def _analyzed(self) -> bool:
        """Whether there is an analysis. Runs in a thread, and does not read it."""
        from hudtui.core.workspace import STATE_FOLDER

        return any((self.app.folder / STATE_FOLDER / "analyses").glob("*.json"))

    def _latest(self) -> Analysis | None:
        from hudtui.core.environment.cache import latest_analysis

        return latest_analysis(self.app.folder)

    async def _read(self, text: str) -> None:
        self._reads += 1
        this = self._reads
        self.open.reading = True
        self._show_head()
        self.refresh_bindings()
        try:
            found = await asyncio.to_thread(self._find, text)
            if found.opened.source.kind == "hub":
                self.busy(f"Downloading {text} from the Hub ({{key:dataset.cancel}} cancels)")
                from hudtui.core.tasks.read import download_source

                found = found._replace(
                    opened=await asyncio.to_thread(download_source, found.opened)
                )
                self.clear_message()
            opened = found.opened
            self._take(text, found)
            await self._fill(opened)
            self.open.complete = True
            for notice in opened.notices:
                self.say(
                    notice.message, "information" if notice.severity == "info" else notice.severity
                )
        finally:
            if this == self._reads:  # a cancelled reading may end when the next is under way
                self.open.reading = False
                if self.is_attached:
                    self.tasks.say_nothing()
                    self._show_progress(final=True)
                    self.refresh_bindings()

    def _find(self, text: str) -> _Found:
        """Runs in a thread: the first import takes a moment."""
        import hudtui.core.tasks.table  # noqa: F401
        from hudtui.core.tasks.read import fingerprint, open_source

        analysis = self._latest() if self.open.check_calls and self._analyzed() else None
        opened = open_source(text, self.app.folder, self.app.platform, analysis=analysis)
        return _Found(opened, analysis, fingerprint(opened.source))

    async def _fill(self, opened: OpenedSource) -> None:
        from hudtui.core.tasks.read import fingerprint
        from hudtui.core.tasks.table import TaskIndex, read_into

        self._return_to, self.tasks.chosen = self.tasks.chosen, None
        index = TaskIndex()
        self.open.index = index
        if opened.source.kind != "hub":
            self._print = await asyncio.to_thread(fingerprint, opened.source)
        self._counted = -1
        first, drawn, stop, loop = asyncio.Event(), Event(), Event(), asyncio.get_running_loop()

        def told() -> None:
            if not drawn.is_set():
                loop.call_soon_threadsafe(first.set)
                drawn.wait(
                    FIRST
                )  # later work, such as imports of large modules, would delay the first drawing
                drawn.set()

        work = asyncio.ensure_future(asyncio.to_thread(read_into, index, opened, stop, told))
        waiting = asyncio.ensure_future(first.wait())
        try:
            await asyncio.wait([work, waiting], return_when=asyncio.FIRST_COMPLETED)
            self._begin(index)
            self.call_after_refresh(drawn.set)
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
        self.tasks.begin(index)
        if self.focused is None and self.is_current:
            self.tasks.table.focus()
        self._show_progress()
        self.refresh_bindings()

    async def _look_outside(self) -> None:
        """Read again when the file has changed outside.

        And notice the first analysis of an environment.
        """
        if not self.is_current:
            return
        if not self.was_analyzed and await asyncio.to_thread(self._analyzed):
            self.was_analyzed = True
            self.refresh_bindings()
        if self.open.reading or self._print is None or self.open.opened is None:
            return
        from hudtui.core.tasks.read import fingerprint

        now = await asyncio.to_thread(fingerprint, self.open.opened.source)
        if (
            now is not None
            and now != self._print
            and not self.open.reading
            and self.open.source is not None
        ):
            self.say(f"{self.open.source} has changed and is read again.")
            self._open(self.open.source)

    def on_screen_resume(self) -> None:
        """Files may have changed meanwhile."""
        self.run_worker(self._look_outside(), group="watch", exclusive=True)

    def has_use(self, action_id: str) -> bool:
        """Also while a source is read, which the head shows."""
        return super().has_use(action_id) or bool(self.going("read"))

    def action_cancel(self) -> None:
        self.cancel("read", "make", "test", "audit", "view")

    # -- what is read so far
    # -----------------------------------------------------------------------------------------

    def _show_panes(self, shown: bool) -> None:
        self.query_one("#ds-empty").display = not shown
        self.query_one("#ds-panes").display = shown

    def _show_progress(self, *, final: bool = False) -> None:
        index = self.open.index
        if index is None:
            self._show_head()
            return
        self.tasks.grow(index)
        wanted, chosen = self._return_to, self.tasks.chosen
        if wanted is not None and chosen in (None, 0) and index.total > wanted:
            self._return_to = None
            self._go(wanted)
        elif index.total and chosen is None:
            self.tasks.select(0)
        problems = len(index.problems)
        # The label of the tab costs a new layout, so it is not updated with every problem.
        if final or not self._counted or problems > 2 * self._counted:
            self._counted = problems
            self.problems.show(index, complete=self.open.complete)
            self.refresh_bindings()
        self._show_head()
        if final:
            self._show_numbers()
            if not index.total:
                self._show_task()  # of a file that was read before, and holds nothing now

    def _show_head(self) -> None:
        head = self.query_one("#ds-head", Static)
        facts = self.app.facts
        files = len(facts.task_files) if facts is not None else 0
        if self.open.source is None and self.query_one("#ds-panes").display:
            return  # a file is about to be opened
        if self.open.source is None:
            head.display = False
            hint = _NO_TASKS if not files else "{key:dataset.open} opens one"
            self.query_one(EmptyState).tell("No task file was found in this project.", hint)
            return
        head.display = True
        width = max(self.size.width - 2, 20)
        name = clean_line(self.open.source)
        # The counts come first: where room is short, their words go, then the beginning of the
        # name.
        rests = [self._counts(files, words=words) for words in (True, False)]
        rest = next(
            (rest for rest in rests if min(cell_len(name), width // 3) + rest.cell_length <= width),
            rests[-1],
        )
        head.update(
            Content.styled(cut_left(name, max(width - rest.cell_length, 8)), "bold") + rest,
            layout=False,
        )
        self.tasks.show_shown()

    def _counts(self, files: int, *, words: bool) -> Content:
        """The counts behind the name of the source."""
        index = self.open.index
        parts: list[Any] = []
        if files > 1:
            parts.append(
                (self.app.keys_in(f"  {files} files: {{key:dataset.open}}"), "$foreground-muted")
            )
        if index is not None:
            parts.append(f"  {index.total:,} task{'' if index.total == 1 else 's'}")
            for state, (glyph, style) in (
                ("ok", ("✓", "$success")),
                ("warning", ("!", "$warning")),
                ("error", ("✗", "bold $error")),
            ):
                count = index.counts[state]  # type: ignore[index]
                word = (
                    ""
                    if not words
                    else f" {state}"
                    if count == 1 or state == "ok"
                    else f" {state}s"
                )
                parts.append(
                    (f"  {glyph} {count:,}{word}", style if count else "$foreground-muted")
                )
        if self.open.reading:
            share = (
                f" {100 * index.done // index.size} %" if index is not None and index.size else ""
            )
            parts.append(
                (
                    f"  ● reading{share}"
                    + (self.app.keys_in(", {key:dataset.cancel} stops") if words else ""),
                    "bold $accent",
                )
            )
        elif not self.open.complete:
            parts.append(("  ✗ not read to the end", "bold $warning"))
        return Content.assemble(*parts)

    # -- tasks
    # ----------------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        self.tasks.find()

    def action_problem(self) -> None:
        self.tasks.next_problems()

    def action_sort(self) -> None:
        self.tasks.next_sort()

    def action_reverse(self) -> None:
        self.tasks.turn_round()

    def show_view(self, view: str) -> None:
        """Go to a view of the detail."""
        self.detail.turn_to(view)
        self.query_one(Panes).open(self.detail)

    @on(TasksPane.Opened)
    def _open_task(self, event: TasksPane.Opened) -> None:
        event.stop()
        self.show_view("task")

    @on(ProblemsPane.Opened)
    def _open_problem(self, event: ProblemsPane.Opened) -> None:
        event.stop()
        self._go(event.task)
        self.show_view("task")

    @on(TasksPane.Chosen)
    def _task_chosen(self, event: TasksPane.Chosen) -> None:
        event.stop()
        self.when_keys_rest(self._show_task)
        index, before, task = self.open.index, event.before, self.tasks.chosen
        usable = None if index is None or task is None else index.states[task] != 2
        if index is None or before is None or (index.states[before] != 2) != usable:
            self.refresh_bindings()

    @on(TasksPane.Emptied)
    def _no_task(self, event: TasksPane.Emptied) -> None:
        event.stop()
        self._show_task()

    def _go(self, task: int) -> None:
        self.tasks.go(task)
        self._show_task()
        self.refresh_bindings()

    def _show_task(self) -> None:
        from hudtui.tui.dataset.detail import broken_content, task_content

        index, task, shown = self.open.index, self.tasks.chosen, self.detail.texts["task"]
        self.workers.cancel_group(self, "raw")
        if (
            index is None
            or task is None
            or task >= index.total
            or (self.tasks.rows is not None and not len(self.tasks.rows))
        ):
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
            self.start(partial(self._show_raw, index, task), group="raw")
        self.detail.pages["task"].scroll_home(animate=False)

    async def _show_raw(self, index: TaskIndex, task: int) -> None:
        """Show the record of an unusable task as it is in the file."""
        from hudtui.core.tasks.table import raw_record
        from hudtui.tui.dataset.detail import broken_content

        await asyncio.sleep(0.1)  # held arrow keys pass many tasks
        assert self.open.opened is not None
        try:
            raw = await asyncio.to_thread(raw_record, self.open.opened.source, index, task)
        except HudtuiError as error:
            raw = error.lines()[0]
        if task == self.tasks.chosen and index is self.open.index:
            row, line = index.row(task), index.line(task)
            kinds = [index.problems.kind(number) for number in index.problems.of(task)]
            told = "(nothing)" if raw is None else raw
            self.detail.texts["task"].update(
                broken_content(row, kinds, line, told, self.app.platform)
            )

    def action_back(self) -> None:
        if self.open.source is None or not self.query_one(Panes).back():
            self.leave()

    def action_copy(self) -> None:
        from hudtui.core.tasks.masking import masked_config

        index, task = self.open.index, self.tasks.chosen
        assert index is not None and task is not None
        record = index.record(task)
        if record is None:
            self.say("Only a usable task can be copied; the file has this one.", "warning")
            return
        data = {"id": record.id, "prompt": record.prompt, **record.columns}
        data["mcp_config"] = masked_config(data.get("mcp_config"), self.app.platform)
        self.app.copy(json.dumps(data, ensure_ascii=False, indent=2))

    def action_test(self) -> None:
        if (record := self._record()) is not None:
            self.start(lambda: self.work.test(record), group="test")

    def action_audit(self) -> None:
        self.start(self.work.audit, group="audit")

    def action_play(self) -> None:
        if (record := self._record()) is not None:
            self.app.open_screen("playing", back="dataset", tasks=self.open.source, task=record.id)

    def _record(self) -> TaskRecord | None:
        index, task = self.open.index, self.tasks.chosen
        return None if index is None or task is None else index.record(task)

    @started("tasks")
    async def action_new(self) -> None:
        await self._open_page("new")

    @started("tasks")
    async def action_edit(self) -> None:
        await self._open_page("edit")

    @started("tasks")
    async def action_duplicate(self) -> None:
        await self._open_page("copy")

    async def _open_page(self, what: str) -> None:
        """Open the page of tasks, and read the file again if it wrote."""
        from hudtui.tui.task_form.open import for_change, for_copy
        from hudtui.tui.task_form.page import TaskPage

        index, task, opened = self.open.index, self.tasks.chosen, self.open.opened
        assert index is not None and task is not None and opened is not None
        source = opened.source
        record, analysis = await asyncio.to_thread(self._page_of, index, task, source)
        if not isinstance(record, dict):
            self.say("This is no task that a page can show: mend it in the file.", "warning")
            return
        project = self.app.project
        if what == "edit":
            context = for_change(project, record, analysis, source.name, task)
        else:
            written = _not_written(self) is None
            file = source.name if written else "new-tasks.json"
            context = for_copy(project, record, analysis, file, empty=what == "new")
        made: str | None = await self.app.push_screen_wait(TaskPage(context))
        if made is None:
            return
        self.app.reload()
        self.action_again()
        self.say(made, "success")

    def _page_of(self, index: TaskIndex, task: int, source: TaskSource) -> tuple[Any, Analysis]:
        """Return a task as it is in its source, and its environment; runs in a thread."""
        from hudtui.core.environment.matching import identity_of, uses_environment
        from hudtui.core.environment.values import Analysis
        from hudtui.core.tasks.table import raw_record

        record = raw_record(source, index, task)
        latest = self._latest() if self._analyzed() else None
        config = record.get("mcp_config") if isinstance(record, dict) else None
        same = latest is not None and uses_environment(config, identity_of(latest, self.app.folder))
        return record, latest if latest is not None and same else Analysis("")

    def action_convert(self) -> None:
        self.start(partial(self.work.make, publish=False), group="make")

    def action_publish(self) -> None:
        self.start(partial(self.work.make, publish=True), group="make")

    def action_carry(self) -> None:
        self.start(self.work.carry, group="make")

    # -- problems and numbers
    # ----------------------------------------------------------------------------------------

    def action_problems(self) -> None:
        table = self.problems.table
        table.go(table.cursor)
        self.query_one(Panes).open(self.problems)

    def _jump(self, step: int) -> None:
        index = self.open.index
        assert index is not None
        tasks, here = index.problems.tasks, -1 if self.tasks.chosen is None else self.tasks.chosen
        own = index.problems.of(here)
        number = own.stop if step > 0 else own.start - 1
        if not 0 <= number < len(index.problems):
            number = 0 if step > 0 else len(index.problems) - 1
            self.say("From the beginning again." if step > 0 else "From the end again.")
        self._go(tasks[number])

    action_next = partialmethod(_jump, 1)
    action_previous = partialmethod(_jump, -1)

    def action_numbers(self) -> None:
        self.show_view("stats")
        self.call_after_refresh(self._show_numbers)  # the bars are as wide as the page

    def _show_numbers(self) -> None:
        if self.open.index is not None:
            self.start(partial(self._count, self.open.index), group="numbers")

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


class _Found(NamedTuple):
    """A source that was found, before it is read."""

    opened: OpenedSource
    analysis: Analysis | None
    print: Fingerprint | None
