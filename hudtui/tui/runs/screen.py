"""The screen Runs: the list of runs, the run under the cursor, and the actions on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from textual import on
from textual.containers import Horizontal
from textual.widget import Widget

from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.flows.person import Choice
from hudtui.core.paths import typed_path
from hudtui.core.text import clean_line, plural, seen_from
from hudtui.tui.actions import REGISTRY, AppAction, by_key, cancel_action, unless
from hudtui.tui.facts import Facts
from hudtui.tui.log.reading import SELDOM
from hudtui.tui.runs.diagnosis import DiagnosisPane
from hudtui.tui.runs.list_pane import RunList
from hudtui.tui.runs.logs import RunLogs
from hudtui.tui.runs.machine import heat_of
from hudtui.tui.runs.run_pane import ALL_TABS, RunPane
from hudtui.tui.runs.words import facts_of, head, onsets, planned, title
from hudtui.tui.screen import TOGETHER, HudtuiScreen, started
from hudtui.tui.widgets.empty import EmptyState
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.metrics_pane import MetricsPane, Numbers
from hudtui.tui.widgets.pane import Panes
from hudtui.tui.widgets.virtual_table import VirtualTable
from hudtui.tui.widgets.words import ago

if TYPE_CHECKING:
    from pathlib import Path

    from textual.timer import Timer

    from hudtui.core.compute.provider import Provider
    from hudtui.core.remote.log_file import Log
    from hudtui.core.runs.external import ExternalPlace, ExternalRun
    from hudtui.core.runs.listing import RunRow
    from hudtui.core.runs.request import RunRequest
    from hudtui.core.runs.sessions import TmuxSession
    from hudtui.core.runs.spec import RunSpec
    from hudtui.core.runs.store import RunRecord, RunStore
    from hudtui.core.runs.values import RunSummary
    from hudtui.core.runs.watch import Monitor, RunView

GLANCE = 2.0
"""Seconds between two updates of the runs in the list."""
_AGAIN = 3.0
"""Seconds after which a failed read is repeated."""
_LIMITS: Mapping[str, tuple[str, str]] = {
    "run_budget": ("Budget", "the most that the machine may cost"),
    "max_hours": ("Hours", "longest time of the run"),
    "idle_minutes": ("Idle minutes", "the machine is ended after so many idle minutes"),
}
_EXTERNAL = ("diagnosis", "metrics", "log", "records")
"""Tabs of a run that hudtui did not start."""
_CANCELLED = ("again", "pull", "export", "remove", "look")
"""Groups of the workers that the cancel key ends."""


def _not_shown(screen: RunScreen) -> str | None:
    if screen.chosen is not None and screen.view is not None:
        return None
    return "the run is still being read" if screen.rows else "there is no run yet"


def _not_own(screen: RunScreen) -> str | None:
    if (reason := _not_shown(screen)) is not None:
        return reason
    external = screen.shown.summary.external
    return "hudtui did not start this run, and only reads it" if external else None


def _nothing_to_stop(screen: RunScreen) -> str | None:
    return None if screen.marked or screen.remembered else _not_shown(screen)


def _nothing_to_label(screen: RunScreen) -> str | None:
    return None if screen.labelled else _not_own(screen)


def _no_results(screen: RunScreen) -> str | None:
    # without a run, evaluations and play by hand leave episodes, too
    return _not_own(screen) if screen.rows else None


def _no_export(screen: RunScreen) -> str | None:
    from hudtui.core.training.engines import features_of

    features = features_of(screen.shown.summary.engine)
    if features.exports:
        return None
    if features.trains:
        return "the run's engine leaves no model that can be exported"
    return "the run plays tasks and trains no model"


def _no_limits(screen: RunScreen) -> str | None:
    run = screen.shown.summary
    if not run.active:
        return f"the run has ended already: {run.state}"
    return "limits are being changed" if screen.going("limits") else None


class RunScreen(HudtuiScreen):
    """The runs of this project, and the details of one run."""

    NAME = "run"
    TITLE = "run"
    AUTO_FOCUS = "#run-list.-first VirtualTable"
    CSS_PATH = "runs.tcss"
    HELP = (
        "The runs of this project, the newest first. {key:table.select} opens the run under the "
        "cursor: its log is followed while it grows, and closing hudtui stops nothing. "
        "{key:run.metrics} shows its curves, {key:run.next-tab} its other tabs, {key:run.results} "
        "its episodes. {key:list.filter} filters the list by words and fields, such as "
        "state:running model:qwen. {key:run.again} starts the run again, {key:run.continue} "
        "continues it from its last checkpoint. {key:run.mark} marks runs, to be tagged "
        "({key:run.tags}), archived ({key:run.archive}) or deleted ({key:run.stop}) together. "
        "{key:run.others} lists runs that were not started here: a colleague's, or those of "
        "another trainer, as tmux sessions, logs, files of trackers or vLLM servers. They are only "
        "read, and numbers in their lines become curves."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "run.start",
            "Start a run",
            "Choose tasks, config and policy, see the plan, and start.",
            "n",
        ),
        AppAction(
            "run.stop",
            "End or delete",
            "End an active run and verify that it has ended; delete a run that has ended, or all "
            "marked runs. An external run only leaves the list.",
            "x,delete",
            danger=True,
            asks=True,
            when=(
                unless(lambda screen: not screen.going("remove"), "runs are being removed"),
                _nothing_to_stop,
            ),
        ),
        AppAction(
            "run.metrics",
            "Metrics",
            "Show the run's metrics as curves, or the log again.",
            "m",
            when=(
                _not_shown,
                unless(
                    lambda screen: "metrics" in screen.pane.names,
                    "a model server has only the curves of its load",
                ),
            ),
        ),
        AppAction(
            "run.records",
            "Records",
            "Show the records of a file of W&B or TensorBoard, all that stands in it, or the log "
            "again. Enter opens one as a tree.",
            "I",
            when=(
                unless(
                    lambda screen: "records" in screen.pane.names,
                    "only a followed file of W&B or TensorBoard has records",
                ),
            ),
        ),
        AppAction(
            "run.terminal",
            "Terminal",
            "Show the run's tmux session; Ctrl-B d (inside tmux Ctrl-B Ctrl-B d) comes back.",
            "t",
            decides=True,
            when=(_not_own, lambda screen: screen.view.no_terminal),
        ),
        AppAction(
            "run.again",
            "Start again",
            "Start this run again; its plan and price are shown first.",
            "a",
            asks=True,
            when=(_not_own,),
        ),
        AppAction(
            "run.continue",
            "Continue",
            "Continue a training from its last checkpoint, as a new run; a finished one with more "
            "steps.",
            "C",
            asks=True,
            when=(
                _not_own,
                unless(
                    lambda screen: not screen.view.summary.active,
                    "the run has not ended; {key:run.stop} ends it",
                ),
            ),
        ),
        AppAction(
            "run.compare",
            "Compare",
            "Compare this run's curves with those of the open run, or stop comparing.",
            "c",
            show=False,
            when=(_not_shown,),
        ),
        AppAction(
            "run.differences",
            "Differences",
            "Show the settings in which this run differs from the compared runs, or from the run "
            "before it.",
            "d",
            show=False,
            when=(
                _not_own,
                unless(
                    lambda screen: len(screen.comparison()) > 1,
                    "there is no earlier run; {key:run.compare} on another run compares the two",
                ),
            ),
        ),
        AppAction(
            "run.rename",
            "Rename",
            "Give the run another name.",
            "e",
            show=False,
            asks=True,
            when=(_not_own,),
        ),
        AppAction(
            "run.tags",
            "Tags",
            "Change the tags of this run, or of all marked runs.",
            "number_sign",
            show=False,
            asks=True,
            when=(_nothing_to_label,),
        ),
        AppAction(
            "run.archive",
            "Archive",
            "Archive this run, or all marked runs, to hide them in the list; or undo that.",
            "Z",
            show=False,
            when=(_nothing_to_label,),
        ),
        AppAction(
            "run.acknowledge",
            "Acknowledge",
            "Acknowledge the alarms of this run: they stay listed, but are not counted or "
            "announced until they recur; or undo.",
            "K",
            show=False,
            when=(_not_own, unless(lambda screen: screen.view.alarms, "the run has no alarm")),
        ),
        AppAction(
            "run.pull",
            "Fetch results",
            "Fetch the run's results to this computer, also while it runs.",
            "p",
            show=False,
            when=(_not_own,),
        ),
        AppAction(
            "run.export",
            "Export model",
            "Copy or push the model that the run has trained.",
            "E",
            show=False,
            asks=True,
            when=(_not_own, _no_export),
        ),
        AppAction(
            "run.limits",
            "Limits",
            "Change the run's limits of cost and time.",
            "b",
            show=False,
            asks=True,
            when=(_not_own, _no_limits),
        ),
        AppAction(
            "run.history",
            "History",
            "Show the run's events, from the order of the machine to the end.",
            "h",
            show=False,
            when=(_not_own,),
        ),
        AppAction(
            "run.window",
            "Next log",
            "Show the next log: of another stage, window or file.",
            "full_stop",
            show=False,
            when=(
                _not_shown,
                unless(lambda screen: len(screen.view.windows) > 1, "the run has only one log"),
            ),
        ),
        by_key(
            "run.next-tab",
            "Next tab",
            "Go to the next tab: curves, log, machine …",
            "right_square_bracket",
        ),
        by_key("run.previous-tab", "Tab before", "Go to the previous tab.", "left_square_bracket"),
        AppAction(
            "run.results",
            "Results",
            "Show the episodes that the run has played, by task and step.",
            "R",
            when=(_no_results,),
        ),
        AppAction(
            "run.others",
            "External runs",
            "List a run that this workspace did not start: a tmux session, a log, a file or folder "
            "of a tracker, or a vLLM server, on any machine.",
            "o",
        ),
        AppAction(
            "run.reveal",
            "Paths",
            "Show where the run's files are, and the commands for the run.",
            "i",
            show=False,
            when=(_not_own,),
        ),
        AppAction("run.refresh", "Refresh", "Reload the runs.", "r", show=False),
        cancel_action("run", "Stop fetching results, exporting a model or removing runs."),
        by_key("run.back", "Back", "Go to the list of runs; from there, home.", "escape"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.chosen: str | None = None
        """Id of the run that is shown."""
        self.view: RunView | None = None
        self.window: str | None = None
        """The stage whose log is requested; None for the running stage, or the last one."""
        self._compared: list[str] = []
        self.runs = RunList(self._now, self._compared)
        self.logs = RunLogs(self, id="run-logs")
        self.pane = RunPane(self.logs, opens="its episodes")
        self._opening = False
        """Whether another screen has requested a run that is not shown yet."""
        self.panes = Panes(self.runs, self.pane, id="run-panes")
        self._external: dict[str, ExternalRun] = {}
        """The followed runs that hudtui did not start, by their ids."""
        self._remembered: dict[str, ExternalPlace] = {}
        """Those of earlier times that are listed and not followed again yet, by their ids."""
        self._folders: dict[str, Path] = {}
        """Where what is read of the followed runs is kept, by their ids."""
        self._records: dict[str, Log] = {}
        """The records of those whose records somebody has looked at."""
        self._settings: Mapping[str, str] = {}
        """What the shown run of this project was planned with."""
        self._large = False
        """The external run that is looked for is shown alone."""
        self._curves_of: str | None = None
        """The external run whose curves come forward with its first number."""
        self._machine = "local"
        """The machine whose sessions were listed last."""
        self._monitor: Monitor | None = None
        self.rows: dict[str, RunRow] = {}
        """The runs of the list by id, the newest first."""
        self._views: dict[str, RunView] = {}
        """The newest view of each run in the list."""
        self._stale: set[str] = set()
        """Runs whose view is to be read again."""
        self._specs: dict[str, RunSpec] = {}
        self._listing: Timer | None = None
        self._awaited: str | None = None
        """A run that is shown but not listed yet."""
        self._planned: str | None = None
        """The run whose plan is shown."""

    def content(self) -> Iterable[Widget]:
        from hudtui.core.runs.external import ExternalRun

        external = (self.opened_with or {}).get("external")
        if isinstance(external, ExternalRun):
            tabs = _tabs_of(external.view, ails=False, recorded=bool(external.recorded))
            first = "metrics" if external.measures else "log" if "log" in tabs else tabs[0]
            self.panes.begin_with(self.pane)
            self.pane.begin_with(first, tabs)
        else:
            self.runs.add_class("-first", update=False)
        yield EmptyState("Reading the runs …", id="run-empty")
        yield Horizontal(self.panes, id="run-box")

    def on_mount(self) -> None:
        from hudtui.core.runs.external import ExternalPlace

        self.panes.display = False
        places = [ExternalPlace.of(fields) for fields in reversed(self.app.followed())]
        self._remembered = {place.id: place for place in places}

    def _now(self) -> float:
        return self.app.services.now().timestamp()

    # -- the list
    # ----------------------------------------------------------------------------------------------

    @property
    def place(self) -> dict[str, str]:
        """The run under the cursor."""
        return {"run": str(self.chosen)} if self._is_own(self.chosen) else {}

    def _is_own(self, run: str | None) -> bool:
        return run is not None and run not in self._external and run not in self._remembered

    def opened(
        self,
        *,
        run: str | None = None,
        external: ExternalPlace | ExternalRun | None = None,
        **given: Any,
    ) -> None:
        """Show the run `run`, or an external run.

        It is `external`, or at the place whose fields are given.
        """
        from hudtui.core.runs.external import ExternalPlace, ExternalRun

        if run is not None:
            self._choose(run)
            self._opening = True
            self.app.reload(everything=True)
        elif isinstance(external, ExternalRun):
            self._large = True
            self._show_external(external)
            self.start(partial(self._remember, external.place), group="remember")
        elif external is not None or given:
            place = external or ExternalPlace(**given)
            self._curves_of = place.id
            self._large = external is not None
            self.start(partial(self._look, place), group="look", busy="Looking for the run")

    def facts_changed(self, facts: Facts) -> None:
        """Update the list; the cursor stays on its run."""
        empty = self.query_one(EmptyState)
        if facts.warnings:
            told = [seen_from(facts.folder, warning) for warning in facts.warnings]
            empty.tell("\n".join(("No run can be shown.", *told)), "hudtui doctor shows details")
        else:
            empty.tell(
                "No run yet.",
                "{key:run.start} starts one; {key:run.others} follows one of others; "
                "{key:run.results} shows episodes without a run",
            )
        self._show_panes(bool(facts.runs or self._external or self._remembered))
        if facts.warnings and not facts.runs:
            return  # the store cannot be read, and the screen says so
        work: Callable[[], Any] = self._read_list
        self.run_worker(work, group="list", exclusive=True)

    def _show_panes(self, shown: bool) -> None:
        """Show the list and the run, or what to do while there is none."""
        self.query_one(EmptyState).display = not shown
        self.panes.display = shown

    async def _read_list(self) -> None:
        from hudtui.core.runs.external import remembered_summary
        from hudtui.core.runs.listing import RunRow

        def read() -> tuple[tuple[RunSummary, ...], dict[str, RunSpec]]:
            store = self._open_store()
            runs = tuple(sorted(store.runs(), key=lambda run: run.created, reverse=True))
            known = self._specs if all(run.id in self._specs for run in runs) else store.specs()
            return runs, known

        try:
            runs, self._specs = await asyncio.to_thread(read)
        except Exception as error:
            self.fail(error)
            return
        now = self._now()
        before = list(self.rows)
        own = {
            run.id: RunRow(run, now, self._specs.get(run.id), self._views.get(run.id))
            for run in runs
        }
        before_today = {
            run: RunRow(remembered_summary(place), now) for run, place in self._remembered.items()
        }
        self.rows = {run: self.rows[run] for run in self._external} | own | before_today
        self._list_rows(first=not before)

    def _list_rows(self, *, first: bool) -> None:
        """Show the rows in the list; the cursor stays on its run."""
        self._show_panes(bool(self.rows))
        if not self.rows:
            self.chosen = self.view = None
            return
        if self.chosen not in self.rows:
            self._choose(next(iter(self.rows)))
        assert self.chosen is not None
        if self._awaited in self.rows and self.rows[self._awaited].summary.hidden:
            self.runs.with_archived = True
        self.runs.show(self.rows.values())
        if self._awaited is not None and self.runs.choose(self._awaited):
            self._awaited = None
        if self._opening and self.chosen in self.rows:
            self._opening = False
            if self.panes.alone:  # shows the requested run instead of the list
                self.panes.open(self.pane)
        if first:
            self._follow()
            if self.focused is None and self.panes.current is not self.pane:
                self.call_after_refresh(self.runs.focus)
        self.refresh_bindings()

    async def _glance(self) -> None:
        """Read the state of all runs in the list; of active runs repeatedly."""
        while True:
            try:
                await self._look_again_and_again()
            except Exception as error:
                self.fail(error)
            await asyncio.sleep(_AGAIN)

    async def _look_again_and_again(self) -> None:
        if not any(map(self._is_own, self.rows)):
            return  # external runs do not wait for the libraries of the store
        await asyncio.to_thread(self._open_store)
        assert self._monitor is not None
        while True:
            wanted = [
                run
                for run, row in self.rows.items()
                if self._is_own(run) and (row.summary.active or self._is_unread(run))
            ]
            async with aclosing(
                self._monitor.views(run for run in wanted if run != self.chosen)
            ) as views:
                async for view in views:
                    self._see(view)
            self.time_passed()
            await asyncio.sleep(GLANCE)

    def _is_unread(self, run: str) -> bool:
        """Whether a run that has ended was not read since then, or since the last refresh."""
        view = self._views.get(run)
        return view is None or run in self._stale or view.summary.active

    def _see(self, view: RunView) -> None:
        """Store the newest view of a run, and show it in the list."""
        run = view.summary.id
        before = self._views.get(run)
        self._views[run] = view
        self._stale.discard(run)
        row = self.rows.get(run)
        if row is not None:
            self.rows[run] = fresh = replace(row, summary=view.summary, view=view, now=self._now())
            cells = self.runs.row_cells
            if self._listing is None and (before is None or cells(row) != cells(fresh)):
                self._listing = self.set_timer(TOGETHER, self._list, name="list")
        if run in self._compared:
            self._show_curves()

    def _list(self) -> None:
        """Show the newest views of the runs in the list."""
        self._listing = None
        self.runs.show(self.rows.values())

    def time_passed(self) -> None:
        """Update the age of the runs in the list."""
        if (
            any(row.summary.active for row in self.rows.values())
            or self.runs.table.size.width >= 84
        ):
            self.runs.redraw()

    @on(RunList.Highlighted)
    def _moved(self, event: RunList.Highlighted) -> None:
        """Open the run under the cursor as soon as the cursor rests."""
        event.stop()
        if self._awaited is None:
            self.when_keys_rest(self._choose_at_cursor)

    @on(RunList.Opened)
    def _opened(self, event: RunList.Opened) -> None:
        event.stop()
        self._choose_at_cursor()
        if self.pane.tab not in ("log", "metrics") and "log" in self.pane.names:
            self.pane.turn_to("log")
        self.panes.open(self.pane)

    def _choose_at_cursor(self) -> None:
        """Show the run under the cursor unless it is shown already."""
        row = self.runs.row
        if row is not None and row.summary.id != self.chosen:
            self._curves_of = None
            self._choose(row.summary.id)

    def action_back(self) -> None:
        if not self.panes.back() and not self.runs.unmark():
            self.leave()

    def action_refresh(self) -> None:
        self._stale = set(self._views)  # compared runs stay on the charts until they are read again
        self.app.reload(everything=True)
        external = self._external.get(self.chosen or "")
        if external is not None and not external.view.summary.active:
            self._follow_external(external)
        elif self.chosen is not None:
            self._follow()

    # -- external runs
    # ----------------------------------------------------------------------------------------------

    @started("look")
    async def action_others(self) -> None:
        await self._offer_sessions(self._machine)

    async def _offer_sessions(self, machine: str) -> None:
        """Let the user choose a session of a machine, a path or port there, or another machine."""
        from hudtui.core.remote.host import LOCAL
        from hudtui.core.remote.hosts import open_host
        from hudtui.core.runs.external import ExternalPlace
        from hudtui.core.runs.sessions import list_tmux_sessions

        self.busy(f"Asking {clean_line(machine, 60)} ({{key:run.cancel}} cancels)")
        host = await open_host(machine)
        sessions = await list_tmux_sessions(host)
        self._machine = machine
        self.clear_message()
        where = "this machine" if host.name == LOCAL else clean_line(host.name, 40)
        choices = [_session_choice(one, self._now()) for one in sessions]
        choices += [
            Choice("file", "Log, file or folder", "of a trainer or a tracker, by its path there"),
            Choice("port", "vLLM server", "by its port there"),
            Choice("machine", "Another machine", "a host of ~/.ssh/config, or user@host[:port]"),
        ]
        chosen = await self.app.choose(f"External run on {where}", choices)
        if chosen == "machine":
            await self._ask_machine()
        elif chosen in ("file", "port"):
            await self._ask_place(chosen, where)
        elif chosen is not None:
            await self._look(ExternalPlace(machine, chosen.partition(" ")[2]))

    async def _ask_machine(self) -> None:
        placeholder = "local, a host of ~/.ssh/config, or user@host[:port]"
        machine = await self.app.ask("Machine", value=self._machine, placeholder=placeholder)
        if machine and machine.strip():
            await self._offer_sessions(machine.strip())

    async def _ask_place(self, kind: str, where: str) -> None:
        from hudtui.core.runs.external import ExternalPlace, read_port

        read: Callable[[str], str | int] = str if kind == "file" else read_port
        title, what = {"file": ("Log, file or folder", "path"), "port": ("vLLM server", "port")}[
            kind
        ]
        given = await self.app.ask(
            title, placeholder=f"its {what} on {where}", check=read, accept="Follow"
        )
        if given and given.strip():
            fields: dict[str, Any] = {kind: read(given.strip())}
            await self._look(ExternalPlace(self._machine, **fields))

    async def _look(self, place: ExternalPlace, *, opens: bool = True) -> None:
        """Find an external run and list it; open it as well with `opens`."""
        from hudtui.core.diagnosis.alarms import read_thresholds
        from hudtui.core.runs.external import find_external

        external = self._external.get(place.id)
        if external is None:
            external = await find_external(
                place,
                now=self._now,
                thresholds=partial(read_thresholds, self.app.folder),
            )
        self.clear_message()
        if not opens and self.chosen != place.id:
            return  # another run was chosen meanwhile
        if opens:
            self._show_external(external)
        else:
            self._follow_external(external)
        await self._remember(place)

    async def _remember(self, place: ExternalPlace) -> None:
        await asyncio.to_thread(self.app.remember_followed, place.fields)

    def _show_external(self, external: ExternalRun) -> None:
        """List an external run, and show its curves, or its log until there are numbers."""
        self._curves_of = external.place.id
        self._follow_external(external)
        if external.measures:
            self._curves_of = None
            self.pane.turn_to("metrics")
        self.panes.open(self.pane)
        if self._large and not self.panes.alone:
            self.panes.action_zoom()
        self._large = False

    def _follow_external(self, external: ExternalRun) -> None:
        """Follow an external run until it leaves the list."""
        from hudtui.core.runs.listing import RunRow

        run = external.view.summary.id
        if run not in self._external or not external.view.summary.active:
            self._external[run] = external
            work: Callable[[], Any] = partial(self._read_external, external)
            self.run_worker(work, name="forever", group=run, exclusive=True)
        first = not self.rows
        row = RunRow(external.view.summary, self._now(), view=external.view)
        self._remembered.pop(run, None)
        self.rows = {run: row} | self.rows
        self._choose(run)
        self._list_rows(first=first)

    async def _read_external(self, external: ExternalRun) -> None:
        from hudtui.core.files import temporary_folder

        run = external.place.id
        with temporary_folder("hudtui-watch") as folder:
            self._folders[run] = folder
            self._records.pop(run, None)
            try:
                async with aclosing(external.follow(folder)) as views:
                    async for view in views:
                        self._see_external(view)
            except Exception as error:
                self.fail(error)
                self._see_external(external.view)
            # The lines of a window that has closed can be read until the run leaves the list.
            await asyncio.Event().wait()

    def _see_external(self, view: RunView) -> None:
        if view.summary.id != self.chosen:
            self._see(view)
        elif self.is_attached:
            before, self.view = self.view, view
            self._show(view, before)

    def _records_of(self, external: ExternalRun) -> Log:
        """Return the records of a followed file, which are written into a file of lines."""
        from hudtui.core.remote.local import LocalHost
        from hudtui.core.remote.log_file import LogFile, LogPlace

        run = external.place.id
        if run not in self._records:
            here = self._folders[run] / "records.txt"
            write: Callable[[], Any] = partial(self._write_records, external, here)
            self.run_worker(write, name="forever", group=run)
            self._records[run] = LogFile(LogPlace(LocalHost(), str(here)))
        return self._records[run]

    async def _write_records(self, external: ExternalRun, here: Path) -> None:
        try:
            await external.write_records(here)
        except HudtuiError as error:
            self.fail(error)

    def _forget_external(self, run: str) -> None:
        """Take an external run from the list. Nothing of it ends."""
        self.workers.cancel_group(self, run)
        external = self._external.pop(run, None)
        place = self._remembered.pop(run) if external is None else external.place
        self.app.remember_followed(place.fields, listed=False)
        del self.rows[run]
        for kept in (self._views, self._folders, self._records):
            kept.pop(run, None)
        if run in self._compared:
            self._compared.remove(run)
        if self.chosen == run:
            self.logs.forget()
            self.pane.forget()
        self._list_rows(first=False)

    # -- one run
    # ----------------------------------------------------------------------------------------------

    def _choose(self, run: str) -> None:
        self.pane.forget_records()
        self.chosen, self.view, self.window = run, None, None
        self.set_timer(TOGETHER, self._forget_before, name="another run")
        # the log before goes and the log of this run comes: only the second is worth drawing
        self.app.delay_update()
        self.logs.forget()
        self._awaited = None if self.runs.choose(run) else run
        if self.is_current:
            self._follow()

    def _forget_before(self) -> None:
        """Clear the previous run from the pane if the chosen run has not been read by now."""
        if self.view is None:
            self.pane.forget(
                plan=self._planned != self.chosen
            )  # the plan is shown before the first view

    def _follow(self) -> None:
        """Follow the chosen run until another is chosen or the screen is left."""
        if all(
            one.is_cancelled for one in self.going("glance")
        ):  # it ends soon, when the screen was left for a moment only
            self.run_worker(self._glance(), name="forever", group="glance")
        external = self._external.get(self.chosen or "")
        if external is not None:
            self.workers.cancel_group(self, "watch")
            self._see_external(external.view)
        elif (place := self._remembered.get(self.chosen or "")) is not None:
            self.workers.cancel_group(self, "watch")
            opens = self._curves_of == place.id
            look: Callable[[], Any] = partial(self._look, place, opens=opens)
            self.start(look, group="look", busy=f"Looking for {place.title}")
        elif self.chosen is not None:
            watch: Callable[[], Any] = partial(
                self._watch, self.chosen
            )  # the coroutine is created when the worker starts
            self.run_worker(watch, name="forever", group="watch", exclusive=True)

    def on_screen_suspend(self) -> None:
        """Stop reading when another screen is shown. Behind a dialog, reading continues."""
        if self.app.screen.is_modal:
            return
        self.workers.cancel_group(self, "watch")
        self.workers.cancel_group(self, "glance")
        self.logs.rest()

    def on_screen_resume(self) -> None:
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
        """Show a run until it has ended. Failures are shown, and the read is repeated."""
        from hudtui.core.runs.plan_text import plan_lines

        def read_record() -> RunRecord:
            self._open_store()
            assert self._monitor is not None
            return self._monitor.record(run)

        told, pause = None, _AGAIN
        while True:
            try:
                record = await asyncio.to_thread(read_record)
                assert self._monitor is not None
                self.pane.show_plan(partial(plan_lines, record, self._monitor.store))
                self.pane.show_settings(record)
                self._settings = planned(record)
                self._planned = run
                async with aclosing(self._monitor.watch(run)) as views:
                    async for view in views:
                        if told is not None and self.message == told:
                            self.clear_message()
                        before, self.view, told, pause = self.view, view, None, _AGAIN
                        self._show(view, before)
                await self._look_at_episodes(run)
                return
            except Exception as error:
                self.fail(error)
                told = self.message
            await asyncio.sleep(pause)
            pause = min(2 * pause, SELDOM)

    async def _look_at_episodes(self, run: str) -> None:
        """Show what all episodes of a training that has ended say about its health."""
        if self.view is None or self.view.diagnosis is None:
            return
        assert self._monitor is not None
        view = await self._monitor.view(run, whole=True)
        before = self.view
        if run == self.chosen and before is not None:
            self.view = replace(before, diagnosis=view.diagnosis)
            self._show(self.view, before)

    def _show(self, view: RunView, before: RunView | None) -> None:
        run = view.summary
        if before is None or before.summary.state != run.state:
            if before is not None and not run.external:
                self.app.reload()
            self.refresh_bindings()
        ails = before is not None and "diagnosis" in self.pane.names
        external = self._external.get(run.id)
        recorded = external is not None and bool(external.recorded)
        self.pane.offer(_tabs_of(view, ails=ails, recorded=recorded))
        self.pane.show_diagnosis(view.diagnosis)
        if run.id == self._curves_of and view.metrics.count:
            self._curves_of = None
            self.pane.turn_to("metrics", focus=self.pane.has_focus_within)
        window = self._shown_window(view)
        self.pane.tell(title(view), lambda width: head(view, width, window))
        self._show_logs(view)
        if external is not None and run.id in self._folders:
            self.pane.show_records(partial(self._records_of, external))
        self._show_curves()
        self.pane.show_load(view)
        self._see(view)
        if before is None or before.result != view.result:
            self.pane.show_result(view.result)
        if before is None or before.events != view.events:
            self.pane.show_events(run.id, view.events)

    def _shown_window(self, view: RunView) -> str | None:
        """Return the name of the shown log.

        The chosen log, otherwise that of the running stage or of the last stage.
        """
        return self.window or view.summary.stage or (view.windows[0] if view.windows else None)

    def _show_logs(self, view: RunView) -> None:
        run, window = view.summary.id, self._shown_window(view)
        log: Log | None = None
        if run in self._external:
            log = self._external[run].log(window)
        elif self._monitor is not None:
            log = self._monitor.log(run, window)
        if log is not None:
            self.logs.show(log)
        self.logs.hear(view.away if view.summary.active else None)

    def _show_curves(self) -> None:
        """Draw the curves of the chosen run and of the compared runs."""
        runs = [run for run in (self.chosen, *self._compared) if run is not None]
        views = [
            view
            for run in dict.fromkeys(runs)
            if (view := self.view if run == self.chosen else self._views.get(run))
        ]
        names = [view.summary.name for view in views]
        self.pane.show_curves(
            Numbers(
                view.summary.name if names.count(view.summary.name) == 1 else view.summary.id,
                view.metrics,
                window=view.unread,
                marks=onsets(view.diagnosis),
                load=self._load_of(view),
                about=facts_of(view, self._settings) if view is self.view else (),
                heat=heat_of(view) if view is self.view else None,
            )
            for view in views
        )

    def _load_of(self, view: RunView) -> Numbers | None:
        if not view.load.count or not view.metrics.count:
            return None  # without numbers of its own, a run has the tab of its machine
        return Numbers(view.summary.name, view.load, view.scales, view.load_groups)

    # -- actions
    # ----------------------------------------------------------------------------------------------

    @property
    def shown(self) -> RunView:
        """The run that is shown. Actions on a run are offered only while a run is shown."""
        assert self.view is not None
        return self.view

    async def _providers(self, run: str) -> Mapping[str, Provider] | None:
        """Return the open providers if a machine was rented for the run."""
        rented = (await asyncio.to_thread(self.app.project.runs.record, run)).spec.rent is not None
        return (await self.app.spending.open()).overview.providers if rented else None

    def action_start(self) -> None:
        self.app.open_screen("launch")

    @property
    def remembered(self) -> bool:
        """Return whether the chosen run is an external one of earlier times."""
        return self.chosen in self._remembered

    @property
    def marked(self) -> tuple[str, ...]:
        """The ids of the marked runs; empty while the focus is in the run beside the list."""
        return self.runs.marked if self.runs.has_focus_within else ()

    def action_stop(self) -> None:
        known = {*self._external, *self._remembered}
        external = [run for run in self.marked or (self.chosen,) if run in known]
        for one in external:
            self._forget_external(one)
        if external:
            self.say(f"{plural(len(external), 'external run')} left the list; nothing was ended.")
            if not self.marked:
                return
        run = None if self.view is None else self.view.summary
        ended = () if run is None or run.active or run.holds_machine else (run.id,)
        if runs := self.marked or ended:
            self.start(partial(self._delete, runs), group="remove")
        else:
            self.start(partial(self._stop, self.shown), group="stop")

    def offers(self, action_id: str) -> bool:
        """Leave out what a run that is only read does not allow.

        The cancel key is left to the log, which cancels its search, unless this screen has work to
        cancel. Records are offered where there are some.
        """
        if action_id == "run.records":
            return "records" in self.pane.names
        if action_id == "run.cancel":
            return bool(self.going(*_CANCELLED))
        own_alone = not {_not_own, _no_results}.isdisjoint(REGISTRY[action_id].when)
        return not (own_alone and self._is_external)

    @property
    def _is_external(self) -> bool:
        return _not_shown(self) is None and self.shown.summary.external

    def action_cancel(self) -> None:
        self.cancel(*_CANCELLED)

    async def _delete(self, runs: Sequence[str]) -> None:
        from hudtui.core.flows.remove import Removed, remove

        removed: list[Removed] = []
        try:
            async with aclosing(remove(runs, self.app.project, self.app)) as steps:
                async for step in steps:
                    if not isinstance(step, Removed):
                        self.busy(f"{step.message} ({{key:run.cancel}} cancels)")
                        continue
                    removed.append(step)
                    self._views.pop(step.run, None)
                    if step.run in self._compared:
                        self._compared.remove(step.run)
        finally:
            if removed:
                self.app.reload(everything=True)
        if removed:
            self.say(
                "; ".join(removed[0].gone)
                if len(removed) == 1
                else f"{len(removed)} runs removed.",
                "success",
            )

    async def _stop(self, view: RunView) -> None:
        from hudtui.core.flows.stop import stop

        app, run = self.app, view.summary
        providers = await self._providers(run.id)
        stopped = await stop(
            run.id,
            app.project,
            app,
            providers=providers,
            on_event=lambda event: self.busy(event.message),
        )
        if stopped is not None:
            self.say(stopped.report, "warning" if stopped.summary.holds_machine else "success")
            app.reload()

    @started("again")
    async def action_again(self) -> None:
        from hudtui.core.flows.again import rerun_request

        await self._start_request(
            await rerun_request(self.shown.summary.id, self.app.project, self.app)
        )

    @started("again")
    async def action_continue(self) -> None:
        from hudtui.core.flows.again import continue_or_extend

        app = self.app
        request = await continue_or_extend(
            self.shown.summary.id, app.project, app, progress=self._say_fetching
        )
        if request is not None:
            await self._start_request(request)

    def _say_fetching(self, name: str, done: int, whole: int) -> None:
        self.busy(
            f"Fetching {clean_line(name, 60)}: {done:,} of {whole:,} bytes ({{key:run.cancel}} "
            "cancels)"
        )

    async def _start_request(self, request: RunRequest) -> None:
        """Check, ask, and start; then show the new run."""
        from hudtui.core.flows.start import agree_to_request
        from hudtui.core.runs.site import request_host

        app = self.app
        self.busy("Checking what the run needs ({key:run.cancel} cancels)")
        providers = (
            (await app.spending.open()).overview.providers
            if request_host(request) is None
            else None
        )
        record = await agree_to_request(request, app.project, app, providers=providers)
        self.clear_message()
        if record is None:
            return
        if record.spec.tunnels and record.host != "local":
            raise InputError(
                "this run needs a tunnel from this computer",
                fix="Start it on the screen Launch, which keeps the tunnel open.",
            )
        if record.spec.rent is not None:
            app.rented.manage(record)
            self.say(f"Ordering a machine for {record.name}.")
            self.opened(run=record.id)
        else:
            self.start(
                partial(self._begin, record), group="begin", exclusive=False
            )  # from now on it cannot be cancelled

    async def _begin(self, record: RunRecord) -> None:
        """Start a run on a machine that the user owns, and show the run."""
        from hudtui.core.flows.start import start

        async with aclosing(start(record, self.app.project)) as events:
            async for event in events:
                if event.type == "step":
                    self.busy(f"Starting: {event.data.get('name')}")
        self.say(f"{record.name} has started.", "success")
        self.opened(run=record.id)

    @started("pull", busy="Fetching the results")
    async def action_pull(self) -> None:
        from hudtui.core.runs.results import pull

        results = await pull(
            self.shown.summary.id, self.app.project.runs, progress=self._say_fetching
        )
        words = (
            f"Fetched {plural(results.files, 'file')} with {results.size:,} bytes into "
            f"{results.folder}"
        )
        words += "" if results.fetched else "; all of them were here already"
        self.say(f"{words}; {results.skipped_text}" if results.skipped_text else words, "success")

    @started("export")
    async def action_export(self) -> None:
        import shlex

        from hudtui.core.events import Notice, Progress
        from hudtui.core.flows.export import Exported, ExportRequest, export_model

        app, run = self.app, self.shown.summary.id
        forms = (
            Choice("adapter", "Copy the model", "the trained adapter or weights, unchanged"),
            Choice(
                "merged",
                "Merge",
                "the adapter merged into its base model; needs the environment of the training",
            ),
        )
        form = await app.choose(
            f"Export the model of {clean_line(self.shown.summary.name, 40)}", forms
        )
        if form is None:
            return
        out = await app.ask("Folder for the model", value=f"exports/{run}", accept="Export")
        if not out:
            return
        push = await app.ask(
            "Push it to the Hub as",
            placeholder="ORG/NAME; empty: only on this computer",
            accept="Export",
        )
        request = ExportRequest(
            run, merged=form == "merged", out=typed_path(out), push_to=push or None
        )
        self.busy("Exporting the model ({key:run.cancel} cancels)")
        async for step in export_model(app.project, request, app):
            if isinstance(step, Progress):
                self.busy(f"{step.message} ({{key:run.cancel}} cancels)")
            elif isinstance(step, Notice):
                app.notify(step.message, markup=False)
            elif isinstance(step, Exported):
                where = step.address or str(step.folder)
                serve = (
                    f"; serve it: {shlex.join(step.serve)}"
                    if step.serve
                    else f"; {step.model.why_not_served}"
                )
                self.say(f"The model is in {where}{serve}", "success")

    @started("limits")
    async def action_limits(self) -> None:
        from hudtui.core.flows.limits import limits_of, set_limits

        app, run = self.app, self.shown.summary.id
        found = await limits_of(run, app.project)
        name: str | None = found.names[0]
        if len(found.names) > 1:
            choices = [Choice(one, _LIMITS[one][0], _LIMITS[one][1]) for one in found.names]
            name = await app.choose(f"Limits: {found.text}", choices)
        if name is None:
            return
        value = getattr(found.limits, name)
        label, what = _LIMITS[name]
        amount = f"an amount in {found.currency}" if name == "run_budget" else "a number"
        typed = await app.ask(
            f"{label}: {what}{f', in {found.currency}' if name == 'run_budget' else ''}",
            value="none" if value is None else f"{value:g}",
            placeholder=f"{amount}, or none for no limit",
            check=lambda text: found.limits.with_value(name, text),
        )
        if typed:
            self.busy("Changing the limit, here and on the machine")
            changed = await set_limits(
                run, app.project, {name: typed}, providers=await self._providers(run)
            )
            self.say(f"Limits: {changed.text}", "success")

    def action_history(self) -> None:
        self.pane.turn_to("log" if self.pane.tab == "events" else "events")
        self.panes.open(self.pane)

    @started("edit")
    async def action_rename(self) -> None:
        run = self.shown.summary
        name = await self.app.ask("Rename the run", value=run.name, accept="Rename")
        if name is not None and name.strip() != run.name:
            store = await asyncio.to_thread(self._open_store)
            await store.run(store.rename, run.id, name)
            self._read_anew()
            self.say(f"{run.name} is renamed to {name.strip()}.", "success")

    def _read_anew(self) -> None:
        """Show the changes of a run. The focus stays in the list or in the run."""
        self.app.reload(everything=True)
        self._follow()

    @property
    def labelled(self) -> list[RunSummary]:
        """Return the runs to tag or archive.

        The marked runs, the run under the cursor, or the shown run.
        """
        at = (
            self.runs.row.summary.id
            if self.runs.has_focus_within and self.runs.row is not None
            else self.chosen
        )
        runs = [self.rows[run].summary for run in self.marked or (at,) if run in self.rows]
        return [run for run in runs if not run.external]

    @started("edit")
    async def action_tags(self) -> None:
        runs = self.labelled
        before = set.intersection(*(set(run.tags) for run in runs))
        title, value = f"Tags of {_named(runs)}", " ".join(sorted(before))
        text = await self.app.ask(
            title, value=value, placeholder="words, such as: baseline lr-1e-5", accept="Save"
        )
        if text is not None and (after := set(text.split())) != before:
            store = await asyncio.to_thread(self._open_store)
            await store.run(
                store.tag, [run.id for run in runs], add=after - before, remove=before - after
            )
            self._read_anew()
            self.say(f"Tags of {_named(runs)}: {' '.join(sorted(after)) or 'none'}", "success")

    @started("edit")
    async def action_archive(self) -> None:
        runs = self.labelled
        undo = all(run.hidden for run in runs)
        store = await asyncio.to_thread(self._open_store)
        await store.run(store.archive, [run.id for run in runs], undo=undo)
        self.runs.unmark()
        self.app.reload(everything=True)
        done = "listed again" if undo else "archived; {key:run.archived} lists archived runs"
        self.say(f"{_named(runs)} {'is' if len(runs) == 1 else 'are'} {done}", "success")

    @started("edit")
    async def action_acknowledge(self) -> None:
        from hudtui.core.runs.watch import acknowledge

        view = self.shown
        undo = not view.open_alarms
        changed = await acknowledge(view, await asyncio.to_thread(self._open_store), undo=undo)
        self.app.progress.look_now()  # the header counts the alarms that are not acknowledged
        self._follow()
        words = (
            "no longer acknowledged" if undo else "acknowledged; {key:run.acknowledge} undoes that"
        )
        self.say(
            f"{plural(len(changed), 'alarm')} {'is' if len(changed) == 1 else 'are'} {words}.",
            "success",
        )

    def action_compare(self) -> None:
        if self.chosen is None or self.view is None:
            return
        if self.chosen in self._compared:
            self._compared.remove(self.chosen)
            self.say("The run is no longer marked")
        else:
            self._compared.append(self.chosen)
            self.say(
                "The run is marked. Choose another run: {key:run.metrics} shows the curves of "
                "both, {key:run.differences} their settings; {key:run.compare} here unmarks it"
            )
        self.runs.redraw()
        self._show_curves()

    def comparison(self) -> list[str]:
        """Return the ids of the runs whose settings are compared, beginning with this run."""
        others = [run for run in self._compared if run != self.chosen and self._is_own(run)]
        known = [run for run in self.rows if self._is_own(run)]  # the newest first
        if not others and self.chosen in known:
            others = known[known.index(self.chosen) + 1 :][:1]
        return [run for run in (self.chosen, *others) if run is not None]

    def action_differences(self) -> None:
        self.start(partial(self._differences, self.comparison()), group="differences")

    async def _differences(self, runs: Sequence[str]) -> None:
        from hudtui.core.runs.run_settings import differences

        store = await asyncio.to_thread(self._open_store)
        records = await asyncio.to_thread(lambda: [store.record(run) for run in runs])
        rows = [(one.field, *one.texts) for one in differences(records)]
        names = tuple(clean_line(record.name, 40) for record in records)
        if not rows:
            self.say(f"The settings of {' and '.join(names)} are the same.")
            return
        cells = [("", *names), *(tuple(clean_line(cell, 40) for cell in row) for row in rows)]
        widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(pad, row, widths)).rstrip() for row in cells]
        self.app.read("Differences in the settings", "\n".join(lines))

    def action_metrics(self) -> None:
        self._toggle("metrics")

    def action_records(self) -> None:
        self._toggle("records")

    def _toggle(self, tab: str) -> None:
        """Show a tab, or the log again; the tab where the pane is hidden behind the list."""
        self._curves_of = None
        back = self.pane.display and self.pane.tab == tab
        self.pane.turn_to("log" if back else tab)
        self.panes.open(self.pane)

    @started("terminal")
    async def action_terminal(self) -> None:
        from hudtui.core.runs.watch import attach_command

        assert self._monitor is not None
        self.step_aside(await attach_command(self._monitor, self.shown.summary.id))

    async def action_next_tab(self) -> None:
        self._curves_of = None
        await self.pane.next_tab()

    async def action_previous_tab(self) -> None:
        self._curves_of = None
        await self.pane.next_tab(-1)

    def action_results(self) -> None:
        self._open_results()

    def _open_results(self, run: str | None = None, **place: Any) -> None:
        self.app.open_screen("results", back=self.NAME, run=run or self.chosen, **place)

    @on(MetricsPane.StepChosen)
    def _step_chosen(self, event: MetricsPane.StepChosen) -> None:
        """Open the episodes behind a value of a curve when Enter is pressed on it."""
        event.stop()
        known = [run for run in (self.chosen, *self._compared) if run is not None]
        run = next((run for run in known if event.run in (run, self._name_of(run))), self.chosen)
        if run in self._external:
            self.say("No episodes of this run are recorded here.")
            return
        view = self.view if run == self.chosen else self._views.get(run or "")
        rows = view.metrics.rows if view is not None else ()
        task = next(
            (
                row["task"]
                for row in rows
                if row.get("step") == event.step and isinstance(row.get("task"), str)
            ),
            None,
        )
        if task is not None:  # an evaluation has one number for each task
            self._open_results(run, task=task)
        else:
            self._open_results(run, step=event.step)

    @on(DiagnosisPane.Opened)
    def _finding_opened(self, event: DiagnosisPane.Opened) -> None:
        """Open the episodes at the onset of a finding when Enter is pressed on it."""
        event.stop()
        if self.chosen in self._external:
            self.say("No episodes of this run are recorded here.")
            return
        self._open_results(step=event.finding.onset)

    @on(DiagnosisPane.Applied)
    def _finding_applied(self, event: DiagnosisPane.Applied) -> None:
        """Open Launch with the run once more, and the settings that may cure a finding."""
        event.stop()
        if self.chosen in self._external:
            self.say("Only a run that was started here can be started again.")
            return
        self.start(partial(self._plan_cure, event.finding.changes), group="again")

    async def _plan_cure(self, changes: Mapping[str, Any]) -> None:
        from hudtui.core.flows.again import rerun_request

        request = await rerun_request(self.shown.summary.id, self.app.project, self.app)
        cured = replace(request, settings={**request.settings, **changes})
        self.app.open_screen("launch", back=self.NAME, request=cured)

    def _name_of(self, run: str) -> str:
        return self.rows[run].summary.name if run in self.rows else ""

    @on(VirtualTable.Selected, "#run-result")
    def _result_chosen(self, event: VirtualTable.Selected) -> None:
        """Open the episodes of a task or a step of the result when Enter is pressed on it."""
        event.stop()
        if self.view is None:
            return
        result, row = self.view.result, event.row
        if row < len(result.rows):
            self._open_results(task=result.rows[row].task)
        elif row < len(result.steps):
            self._open_results(step=result.steps[row].step)

    def action_window(self) -> None:
        if self.view is None:
            return
        windows = self.view.windows
        shown = self._shown_window(self.view) or windows[0]
        self.window = windows[(windows.index(shown) + 1) % len(windows)]
        self._show(self.view, self.view)

    def action_reveal(self) -> None:
        if self.view is None:
            return
        run = self.view.summary
        began = (
            "not yet"
            if run.started is None
            else f"{ago(self._now() - self.view.ahead - run.started)}"
        )
        lines = [
            f"id        {run.id}",
            f"machine   {run.host}",
            f"folder    {run.folder}",
            f"started   {began}",
        ]
        spec = self._specs.get(run.id)
        if spec is not None and spec.continues is not None:
            lines.append(f"continues {spec.continues.text.partition(' ')[2]}")
        if run.labels:
            lines.append(f"comment   {clean_line(run.labels, 2_000)}")
        lines += [
            f"logs      hudtui runs logs -f {run.id}",
            f"all       hudtui runs show {run.id} --json",
        ]
        if self.view.attach:
            lines.append(f"terminal  {' '.join(self.view.attach)}")
        self.app.read(clean_line(run.name), "\n".join([*lines, *run.notes]))


def _named(runs: Sequence[RunSummary]) -> str:
    return clean_line(runs[0].name, 40) if len(runs) == 1 else plural(len(runs), "run")


def _tabs_of(view: RunView, *, ails: bool, recorded: bool) -> tuple[str, ...]:
    """Return the tabs that a run has something for.

    `ails`: it had a finding before, whose tab stays. `recorded`: its file has records of its own.
    """
    found = ails or (view.diagnosis is not None and bool(view.diagnosis.findings))
    empty = {name for name, there in (("diagnosis", found), ("records", recorded)) if not there}
    if not view.summary.external:
        return tuple(name for name in ALL_TABS if name not in empty)
    if not view.stages:
        return ("machine",)
    return tuple(name for name in _EXTERNAL if name not in empty)


def _session_choice(session: TmuxSession, now: float) -> Choice:
    windows = ", ".join(dict.fromkeys(pane.window for pane in session.panes))
    about = f"tmux session, {clean_line(windows, 60)}, {ago(max(now - session.created, 0.0))}"
    return Choice(f"session {session.name}", clean_line(session.run or session.name, 60), about)
