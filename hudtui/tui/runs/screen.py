"""Run: how is it going?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar

from textual.containers import Horizontal, Vertical
from textual.widget import Widget
from textual.widgets import Static, TabbedContent, TabPane

from hudtui.core.errors import HudtuiError
from hudtui.core.text import clean_line
from hudtui.tui.actions import AppAction
from hudtui.tui.facts import Facts, RunFact
from hudtui.tui.runs.logs import SELDOM, RunLogs
from hudtui.tui.runs.machine import MachinePane
from hudtui.tui.runs.words import CURVE, event_cells, head, list_cells, result_table
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.widgets.empty import EmptyState
from hudtui.tui.widgets.json_view import JsonView
from hudtui.tui.widgets.metrics_pane import MetricsPane, Numbers
from hudtui.tui.widgets.tables import Grid
from hudtui.tui.widgets.words import ago

if TYPE_CHECKING:
    from hudtui.core.runs.store import RunStore
    from hudtui.core.runs.values import RunEvent, RunSummary
    from hudtui.core.runs.watch import Monitor, RunResult, RunView

GLANCE = 2.0
"""Seconds between two looks at the runs in the list."""
_AGAIN = 3.0
"""Seconds after which what went wrong is tried again."""
_EVENTS = 500
"""Events of a run that are listed, the newest."""
_AT_ONCE = 4
_PATIENCE = 15.0
"""Seconds for a look at one run of the list: its machine may be away."""
_TABS = ("log", "metrics", "machine", "result", "events", "plan")


class RunScreen(HudtuiScreen):
    """The runs of this project; of the selected one its log, its result and its events."""

    NAME = "run"
    TITLE = "run"
    AUTO_FOCUS = "#run-list"
    CSS_PATH = "runs.tcss"
    HELP = (
        "The runs of this project, the newest first. Enter opens one: its log is followed while it grows, and closing hudtui "
        "stops nothing. m shows its numbers as curves; c puts the run under the cursor beside them; > goes on to GPUs and model "
        "server. v shows the real tmux session; a starts another run; r shows those of others."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("run.start", "Start a run", "Choose tasks, config and policy, see the plan, and start.", "a"),
        AppAction("run.stop", "Stop", "End the run, and make sure that it is gone.", "x", danger=True, asks=True),
        AppAction(
            "run.terminal",
            "Terminal",
            "Show the run's tmux session; Ctrl-B d (inside tmux Ctrl-B Ctrl-B d) comes back.",
            "v",
            decides=True,
        ),
        AppAction("run.metrics", "Metrics", "Its numbers as curves; again for the log.", "m"),
        AppAction(
            "run.compare", "Compare", "Draw this run's numbers beside those of the run that is open, or not.", "c", show=False
        ),
        AppAction(
            "run.others", "Others", "Runs that this workspace did not start: any tmux session or log, on any machine.", "r"
        ),
        AppAction(
            "run.next-tab",
            "Next tab",
            "Log, metrics, machine, result, events, plan.",
            "greater_than_sign",
            show=False,
            palette=False,
        ),
        AppAction("run.previous-tab", "Previous tab", "The tab before.", "less_than_sign", show=False, palette=False),
        AppAction("run.window", "Next log", "Show the log of the run's next stage.", "right_square_bracket", show=False),
        AppAction("run.logs", "All logs", "The logs of all stages below one another, or one.", "p", show=False),
        AppAction("run.reveal", "Paths", "Where the run's files are, and the commands that show it.", "i", show=False),
        AppAction("run.rename", "Rename", "Give the run another name.", "N", show=False, asks=True),
        AppAction("run.comment", "Comment", "Write a comment on the run.", "w", show=False, asks=True),
        AppAction(
            "run.differences",
            "Differences",
            "The settings in which this run and the compared runs differ; without any, this run and the run before it.",
            "d",
            show=False,
        ),
        AppAction("run.back", "To the list", "Go to the list of runs.", "escape", show=False, palette=False),
        AppAction("run.pane", "Other pane", "Go to the other pane.", "tab", show=False, palette=False),
    )

    def __init__(self) -> None:
        super().__init__()
        self.chosen: str | None = None
        """Id of the run that is shown."""
        self.view: RunView | None = None
        self.window: str | None = None
        """The stage whose log is requested; None for the running stage, or the last one."""
        self.several = False
        """The logs of all stages are shown."""
        self._monitor: Monitor | None = None
        self._listed: tuple[RunFact, ...] | None = None
        self._views: dict[str, RunView] = {}
        """The newest view of each run in the list."""
        self._seen_at: dict[str, float] = {}
        """When its machine answered last, by a clock that only goes forward."""
        self._compared: list[str] = []

    def content(self) -> Iterable[Widget]:
        """List on the left, the run on the right."""
        yield EmptyState("No run yet.", "a starts one", id="run-empty")
        with Horizontal(id="run-panes"):
            yield Grid(id="run-list")
            with Vertical(id="run-detail"):
                yield Static(id="run-head")
                with TabbedContent(id="run-tabs"):
                    with TabPane("Log", id="log"):
                        yield RunLogs(self, id="run-logs")
                    with TabPane("Metrics", id="metrics"):
                        yield MetricsPane(id="run-metrics")
                    with TabPane("Machine", id="machine"):
                        yield MachinePane(id="run-machine")
                    with TabPane("Result", id="result"):
                        yield Grid(id="run-result")
                    with TabPane("Events", id="events"):
                        yield Grid(id="run-events")
                    with TabPane("Plan", id="plan"):
                        yield JsonView(id="run-plan")

    def on_mount(self) -> None:
        """Make the columns."""
        grid = self.query_one("#run-list", Grid)
        for title, width in (("state", 10), ("run", 18), ("step", 8), ("reward", CURVE), ("last sign", 10)):
            grid.add_column(title, width=width, key=title)
        events = self.query_one("#run-events", Grid)
        for title, width in (("when", 8), ("who", 7), ("what", 100)):
            events.add_column(title, width=width)
        self.query_one("#run-panes").display = False

    # -- the list ----------------------------------------------------------------------------------------------------

    def opened(self, **given: Any) -> None:
        """Show the run `run` when one is handed on."""
        if run := given.get("run"):
            self.chosen = str(run)
            self._listed = None
            self.app.reload()
            self._choose(self.chosen)

    def facts_changed(self, facts: Facts) -> None:
        """Bring the list up to date; the cursor stays on its run."""
        empty = self.query_one(EmptyState)
        empty.display = not facts.runs
        if facts.warnings:
            # Paths as seen from the project, which the header names.
            told = [warning.replace(f"{facts.folder}/", "") for warning in facts.warnings]
            empty.tell("\n".join(("No run can be shown.", *told)), "hudtui doctor tells more")
        else:
            empty.tell("No run yet.", "a starts one")
        self.query_one("#run-panes").display = bool(facts.runs)
        if facts.runs == self._listed:
            return
        self._listed = facts.runs
        grid = self.query_one("#run-list", Grid)
        if facts.runs and self.focused is None:
            grid.focus()
        with self.prevent(Grid.RowHighlighted):
            grid.clear()
            for run in facts.runs:
                grid.add_row(*self._cells(run), key=run.id)
        known = [run.id for run in facts.runs]
        if self.chosen not in known:
            self.chosen = known[0] if known else None
        if self.chosen is not None:
            row = known.index(self.chosen)
            with self.prevent(Grid.RowHighlighted):
                grid.move_cursor(row=row)
            if self.view is None or self.view.summary.id != self.chosen:
                self._choose(self.chosen)
        self.refresh_bindings()

    def _cells(self, run: RunFact) -> tuple[str, ...]:
        now = self.app.services.now().timestamp()
        seen = self._seen_at.get(run.id)
        since = 0.0 if seen is None else monotonic() - seen
        return list_cells(run, self._views.get(run.id), now, since=since, compared=run.id in self._compared)

    async def _glance(self) -> None:
        """Look at all runs of the list, those that go on again and again."""
        while True:
            try:
                await self._look_again_and_again()
            except Exception as error:
                self.fail(error)
            await asyncio.sleep(_AGAIN)

    async def _look_again_and_again(self) -> None:
        await asyncio.to_thread(self._open_store)
        turn = asyncio.Semaphore(_AT_ONCE)

        async def look(run: RunFact) -> None:
            assert self._monitor is not None
            async with turn:
                with contextlib.suppress(HudtuiError, TimeoutError):
                    async with asyncio.timeout(_PATIENCE):
                        self._see(await self._monitor.view(run.id))

        while True:
            runs = [run for run in self._listed or () if run.running or run.id not in self._views]
            await asyncio.gather(*(look(run) for run in runs if run.id != self.chosen))
            for run in self._listed or ():
                self._tell(run)  # also of those that were not looked at the ages go on
            await asyncio.sleep(GLANCE)

    def _see(self, view: RunView) -> None:
        """Keep what was seen of a run, and tell it in the list."""
        run = view.summary.id
        self._views[run] = view
        if view.away is None:
            self._seen_at[run] = monotonic()
        fact = next((fact for fact in self._listed or () if fact.id == run), None)
        if fact is not None:
            self._tell(fact)
        if run in self._compared:
            self._show_metrics()

    def _tell(self, fact: RunFact) -> None:
        """Bring the row of a run up to date."""
        grid = self.query_one("#run-list", Grid)
        cells = self._cells(fact)
        if [str(cell) for cell in grid.get_row(fact.id)] != list(cells):
            for column, cell in zip(("state", "run", "step", "reward", "last sign"), cells, strict=True):
                grid.update_cell(fact.id, column, cell)

    def time_passed(self) -> None:
        """Runs grow older, also those at which nothing else changes."""
        for fact in self._listed or ():
            self._tell(fact)

    def on_data_table_row_highlighted(self, event: Grid.RowHighlighted) -> None:
        """Show the run under the cursor."""
        if event.data_table.id == "run-list" and event.row_key.value and event.row_key.value != self.chosen:
            self._choose(event.row_key.value)

    def on_data_table_row_selected(self, event: Grid.RowSelected) -> None:
        """Enter goes to the log; on a narrow terminal that takes the place of the list."""
        if event.data_table.id == "run-list":
            self.query_one("#run-panes").add_class("-detail")
            self._focus_log()

    def _focus_log(self) -> None:
        tabs = self.query_one("#run-tabs", TabbedContent)
        if tabs.active not in ("log", "metrics"):
            tabs.active = "log"
        self._focus_tab()

    def _focus_tab(self) -> None:
        """The pane of the tab that is shown takes the focus."""
        tabs = self.query_one("#run-tabs", TabbedContent)
        widget = self.query_one("#run-log" if tabs.active == "log" else f"#run-{tabs.active}")
        self.call_after_refresh(widget.focus)

    def _turn_to(self, tab: str) -> None:
        self.query_one("#run-panes").add_class("-detail")
        self.query_one("#run-tabs", TabbedContent).active = tab
        self._focus_tab()

    def on_tabbed_content_tab_activated(self) -> None:
        """A single chart returns to the list of charts when the pane is left."""
        for pane in self.query(MetricsPane):
            pane.action_all()

    def action_metrics(self) -> None:
        """The curves, or the log again."""
        self._turn_to("log" if self.query_one("#run-tabs", TabbedContent).active == "metrics" else "metrics")

    def action_next_tab(self) -> None:
        """The next tab."""
        self._turn_to(_TABS[(_TABS.index(self.query_one("#run-tabs", TabbedContent).active) + 1) % len(_TABS)])

    def action_previous_tab(self) -> None:
        """The tab before."""
        self._turn_to(_TABS[_TABS.index(self.query_one("#run-tabs", TabbedContent).active) - 1])

    def action_compare(self) -> None:
        """Add the chosen run to those that are compared, or take it away."""
        if self.chosen is None or self.view is None:
            return
        if self.chosen in self._compared:
            self._compared.remove(self.chosen)
        else:
            self._compared.append(self.chosen)
        self._see(self.view)
        self._show_metrics()

    def _show_metrics(self) -> None:
        """Draw the chosen run, and those that are compared with it."""
        runs = [run for run in (self.chosen, *self._compared) if run is not None]
        views = [view for run in dict.fromkeys(runs) if (view := self.view if run == self.chosen else self._views.get(run))]
        names = [view.summary.name for view in views]
        self.query_one("#run-metrics", MetricsPane).show(
            [
                Numbers(view.summary.name if names.count(view.summary.name) == 1 else view.summary.id, view.metrics)
                for view in views
            ]
        )

    def action_back(self) -> None:
        """Back to the list; from there, home."""
        grid = self.query_one("#run-list", Grid)
        if self.focused is grid or not self._listed:
            self.app.open_screen("home")
        else:
            self.query_one("#run-panes").remove_class("-detail")
            grid.focus()

    def action_pane(self) -> None:
        """From the list to the log and back."""
        if self.focused is self.query_one("#run-list"):
            self.query_one("#run-panes").add_class("-detail")
            self._focus_log()
        else:
            self.query_one("#run-panes").remove_class("-detail")
            self.query_one("#run-list").focus()

    # -- one run -----------------------------------------------------------------------------------------------------

    def _choose(self, run: str) -> None:
        self.chosen, self.view, self.window = run, None, None
        self.query_one(RunLogs).forget()
        self.query_one("#run-metrics", MetricsPane).show(())
        self.query_one(MachinePane).show_load(None)
        self.query_one("#run-result", Grid).clear()
        self.query_one("#run-events", Grid).clear()
        self.query_one("#run-plan", JsonView).clear()
        self._follow()

    def _follow(self) -> None:
        """Follow the chosen run until another is chosen or the screen is left."""
        if not self.going("glance"):
            self.run_worker(self._glance(), name="forever", group="glance", exit_on_error=False)
        if self.chosen is not None:
            watch: Callable[[], Any] = partial(self._watch, self.chosen)  # not begun before its turn comes
            self.run_worker(watch, name="forever", group="watch", exclusive=True, exit_on_error=False)

    def on_screen_suspend(self) -> None:
        """The screen is hidden: stop reading."""
        self.workers.cancel_group(self, "watch")
        self.workers.cancel_group(self, "glance")
        self.query_one(RunLogs).rest()

    def on_screen_resume(self) -> None:
        """Go on where it was left."""
        if self.chosen is not None:
            self._follow()

    def _open_store(self) -> RunStore:
        from hudtui.core.runs.store import RunStore
        from hudtui.core.runs.watch import Monitor

        store = RunStore(self.app.workspace.state_dir)
        if self._monitor is None or self._monitor.store.folder != store.folder:
            self._monitor = Monitor(store)
        return self._monitor.store

    async def _watch(self, run: str) -> None:
        """Show a run until it has ended. Failures are shown, and reading is tried again."""
        told, pause = None, _AGAIN
        while True:
            try:
                store = await asyncio.to_thread(self._open_store)
                assert self._monitor is not None
                self.query_one("#run-plan", JsonView).show(store.record(run).plan.to_json())
                async with aclosing(self._monitor.watch(run)) as views:
                    async for view in views:
                        if told is not None and self.message == told:
                            self.clear_message()
                        before, self.view, told, pause = self.view, view, None, _AGAIN
                        self._show(view, before)
                return
            except Exception as error:
                self.fail(error)
                told = self.message
            await asyncio.sleep(pause)
            pause = min(2 * pause, SELDOM)

    def _show(self, view: RunView, before: RunView | None) -> None:
        run = view.summary
        if before is None or before.summary.state != run.state:
            self.app.reload()
            self.refresh_bindings()
        width = max(self.query_one("#run-head").size.width - 2, 20)
        self.query_one("#run-head", Static).update(head(view, width, self._shown_window(view)))
        self._show_logs(view)
        self._show_metrics()
        self.query_one(MachinePane).show_load(view)
        self._see(view)
        if before is None or before.result != view.result:
            self._show_result(view.result)
        if before is None or before.events != view.events:
            self._show_events(view.events)

    def _shown_window(self, view: RunView) -> str | None:
        """The stage whose log is shown: the chosen stage, else the running one, or the last one."""
        return self.window or view.summary.stage or (view.windows[0] if view.windows else None)

    def _show_logs(self, view: RunView) -> None:
        if self._monitor is not None:
            begun = [stage.name for stage in view.stages if stage.state != "waiting"] if self.several else []
            logs = self.query_one(RunLogs)
            logs.show(self._monitor, view.summary.id, self._shown_window(view), begun)
            logs.hear(view.away if view.summary.active else None)

    def _show_events(self, events: Sequence[RunEvent]) -> None:
        grid = self.query_one("#run-events", Grid)
        grid.clear()
        older = max(len(events) - _EVENTS, 0)
        if older:
            grid.add_row("", "", f"… {older:,} events before these: hudtui runs show {self.chosen} --json")
        for event in events[older:]:
            grid.add_row(*event_cells(event))
        grid.move_cursor(row=grid.row_count - 1)

    def _show_result(self, result: RunResult) -> None:
        """Tasks, or steps: the newest of these in sight."""
        titles, rows = result_table(result)
        table = self.query_one("#run-result", Grid)
        table.clear(columns=True)
        table.add_columns(*titles)
        table.add_rows(rows)
        if result.steps:
            table.move_cursor(row=len(rows) - 1)

    # -- what can be done --------------------------------------------------------------------------------------------

    def why_not(self, action_id: str) -> str | None:
        """Actions that need a run, a running one, or its session."""
        name = action_id.partition(".")[2]
        if name not in ("start", "others", "back", "pane") and (self.chosen is None or self.view is None):
            return "there is no run yet" if not self._listed else "the run is still being read"
        if name == "stop" and self.view is not None and not (self.view.summary.active or self.view.summary.holds_machine):
            return f"it has ended already: {self.view.summary.state}"
        if name == "terminal" and self.view is not None and self.view.attach is None:
            ended = not self.view.summary.active
            return "it has ended, and its session with it" if ended else "it runs as detached processes, without tmux"
        if name == "differences" and len(self._of_the_comparison()) < 2:
            return "there is no other run to compare it with"
        if name in ("window", "logs") and self.view is not None and len(self.view.windows) < 2:
            return "it has one log"
        return None

    def action_start(self) -> None:
        """Go to the launch."""
        self.app.open_screen("launch")

    def action_stop(self) -> None:
        """Stop the run, after a question."""
        if self.view is not None:
            run = self.view.summary.id
            self.start(lambda: self._stop(run), group="stop")

    async def _stop(self, run: str) -> None:
        from hudtui.core.flows.stop import stop

        shell = self.app
        rented = (await asyncio.to_thread(lambda: shell.project.runs.record(run))).spec.rent is not None
        providers = (await shell.spending.open()).overview.providers if rented else None
        stopped = await stop(run, shell.project, shell, providers=providers, on_event=lambda event: self.busy(event.message))
        if stopped is not None:
            self.say(stopped.report, "warning" if stopped.summary.holds_machine else "success")
            shell.reload()

    def action_rename(self) -> None:
        """Ask for another name."""
        if self.view is not None:
            self.start(self._rename(self.view.summary), group="edit")

    async def _rename(self, run: RunSummary) -> None:
        name = await self.app.ask("Rename the run", value=run.name, accept="Rename")
        if name is not None and name.strip() != run.name:
            store = await asyncio.to_thread(self._open_store)
            await store.run(store.rename, run.id, name)
            self.opened(run=run.id)
            self.say(f"{run.name} is {name.strip()} now.", "success")

    def action_comment(self) -> None:
        """Ask for a comment."""
        if self.view is not None:
            self.start(self._comment(self.view.summary), group="edit")

    async def _comment(self, run: RunSummary) -> None:
        text = await self.app.ask(f"Comment on {run.name}", value=run.comment, accept="Keep")
        if text is not None and text.strip() != run.comment:
            store = await asyncio.to_thread(self._open_store)
            await store.run(store.comment, run.id, text)
            self.opened(run=run.id)
            self.say("The comment is kept." if text.strip() else "The comment is removed.", "success")

    def _of_the_comparison(self) -> list[str]:
        """The ids of the runs whose settings are compared: this run first."""
        others = [run for run in self._compared if run != self.chosen]
        known = [run.id for run in self._listed or ()]  # the newest first
        if not others and self.chosen in known:
            others = known[known.index(self.chosen) + 1 :][:1]
        return [run for run in (self.chosen, *others) if run is not None]

    def action_differences(self) -> None:
        """Show how the settings of the compared runs differ."""
        self.start(self._differences(self._of_the_comparison()), group="differences")

    async def _differences(self, runs: list[str]) -> None:
        from hudtui.core.runs.compare import differences, value_text

        store = await asyncio.to_thread(self._open_store)
        records = await asyncio.to_thread(lambda: [store.record(run) for run in runs])
        rows = [(one.field, *(value_text(value) for value in one.values)) for one in differences(records)]
        names = tuple(clean_line(record.name, 40) for record in records)
        if not rows:
            self.say(f"The settings of {' and '.join(names)} are the same.")
            return
        cells = [("", *names), *(tuple(clean_line(cell, 40) for cell in row) for row in rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        self.app.read("Differences in the settings", "\n".join(lines))

    def action_terminal(self) -> None:
        """Step aside for the run's tmux session."""
        if self.view is not None:
            self.start(self._terminal(self.view), group="terminal")

    async def _terminal(self, view: RunView) -> None:
        from hudtui.core.runs.sessions import attach_command

        self.step_aside(await attach_command(view))

    def action_window(self) -> None:
        """Show the next stage's log."""
        if self.view is None:
            return
        windows = self.view.windows
        shown = self._shown_window(self.view) or windows[0]
        self.window = windows[(windows.index(shown) + 1) % len(windows)]
        self._show(self.view, self.view)

    def action_logs(self) -> None:
        """The logs of all stages, or of one."""
        self.several = not self.several
        if self.view is not None:
            self._turn_to("log")
            self._show_logs(self.view)

    def action_others(self) -> None:
        """Go to what others have started."""
        self.app.open_screen("watch")

    def action_reveal(self) -> None:
        """Where everything is."""
        if self.view is None:
            return
        run = self.view.summary
        began = "not yet" if run.started is None else f"{ago(self.app.services.now().timestamp() - run.started)}"
        lines = [f"id        {run.id}", f"machine   {run.host}", f"folder    {run.folder}", f"started   {began}"]
        if run.comment:
            lines.append(f"comment   {clean_line(run.comment, 2_000)}")
        lines += [f"logs      hudtui runs logs -f {run.id}", f"all       hudtui runs show {run.id} --json"]
        if self.view.attach:
            lines.append(f"terminal  {' '.join(self.view.attach)}")
        self.app.read(clean_line(run.name), "\n".join([*lines, *run.notes]))
