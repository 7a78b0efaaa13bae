"""The screen for runs that were not started here.

Tmux sessions, logs and model servers on any machine, only read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from hudtui.core.text import clean_line
from hudtui.core.training.sparkline import sparkline
from hudtui.tui.actions import AppAction, by_key
from hudtui.tui.log.reading import ReadLogs
from hudtui.tui.log.view import LogView
from hudtui.tui.runs.run_pane import METRICS, NEXT_TAB, PREVIOUS_TAB, WINDOW, RunPane
from hudtui.tui.runs.words import alarm_lines, log_names
from hudtui.tui.screen import HudtuiScreen, started
from hudtui.tui.widgets.metrics_pane import Numbers
from hudtui.tui.widgets.pane import Panes
from hudtui.tui.widgets.table_pane import TablePane
from hudtui.tui.widgets.virtual_table import Cell, Column
from hudtui.tui.widgets.words import ago

if TYPE_CHECKING:
    from hudtui.core.remote.host import Host
    from hudtui.core.runs.sessions import (
        ExternalSession,
        SessionUpdate,
        SessionWatcher,
        TmuxSession,
    )
    from hudtui.core.runs.vllm import ModelServer

_LINES = 2_000
"""Number of lines before the end of a log that are shown at first."""
_DRAW = 0.5
"""Seconds between two updates of the curves."""


def _windows(session: TmuxSession) -> str:
    return ", ".join(dict.fromkeys(pane.window for pane in session.panes))


class SessionList(TablePane["TmuxSession"]):
    """The tmux sessions of a machine."""

    BORDER_TITLE, NOUN = "Sessions", "session"

    def __init__(self) -> None:
        super().__init__(
            (
                Column("name", "session", 10, flexible=2),
                Column("windows", "windows", 8, flexible=1, from_width=28),
                Column("started", "started", 10, align="right", from_width=40),
            ),
            {
                "name": lambda one: one.run or one.name,
                "windows": _windows,
                "started": lambda one: one.created,
            },
            key=lambda one: one.name,
            cells=self._session_cells,
            empty="No tmux sessions found.",
            id="watch-list",
        )

    def _session_cells(self, one: TmuxSession) -> tuple[Cell, ...]:
        age = max(self.app.services.now().timestamp() - one.created, 0.0)
        return one.run or one.name, _windows(one), (ago(age), "table--muted")


class SourceLogs(ReadLogs):
    """The logs of a session, one for each window or file; only one is visible."""

    DEFAULT_CSS = "SourceLogs { height: 1fr; }"

    def __init__(self, fail: Callable[[Exception], None]) -> None:
        super().__init__(fail)
        self.by_source: dict[str, LogView] = {}
        self._switcher = ContentSwitcher()

    def compose(self) -> ComposeResult:
        yield self._switcher

    @property
    def shown(self) -> str | None:
        """The source whose log is shown."""
        return next(
            (name for name, log in self.by_source.items() if log.id == self._switcher.current), None
        )

    @property
    def view(self) -> LogView | None:
        """The log that is shown."""
        return self.by_source.get(self.shown or "")

    @property
    def front(self) -> Widget | None:
        """The widget that receives the focus."""
        return self.view.lines if self.view is not None else None

    async def make(self, sources: Iterable[str], *, stay: bool) -> None:
        """Create an empty log for each source.

        Args:
            sources: Names of the sources.
            stay: Whether the logs stay at the first line while more lines arrive.
        """
        for log in self.by_source.values():
            self.drop(log)
        # the next log has the name of the previous log: only a change of the name shows the log
        self._switcher.current = None
        await self._switcher.remove_children()
        self.by_source = {name: LogView(empty="No lines yet.") for name in sources}
        for place, (name, log) in enumerate(self.by_source.items()):
            log.save_name = f"{name.strip('%').replace('/', '_') or 'log'}.log"
            await self._switcher.add_content(log, id=f"watch-log-{place}", set_current=place == 0)
            if stay:
                log.stay()

    def next(self) -> None:
        """Show the log of the next source."""
        names = list(self.by_source)
        chosen = self.by_source[names[(names.index(self.shown or names[0]) + 1) % len(names)]]
        self._switcher.current = chosen.id


class WatchScreen(HudtuiScreen):
    """The tmux sessions of a machine, and the lines and metrics of the chosen session or log.

    Or the load of a model server.
    """

    NAME = "watch"
    TITLE = "watch"
    AUTO_FOCUS = "#watch-list VirtualTable"
    CSS_PATH = "watch.tcss"
    HELP = (
        "Runs that this workspace did not start: a colleague's, or those of another trainer. "
        "{key:table.select} follows the tmux session under the cursor, {key:watch.file} a log, or "
        "a file or folder of W&B, TensorBoard, trackio or transformers, by its path, or a vLLM "
        "server by its port; numbers of TRL, verifiers, prime-rl, ART, vLLM, key=value and JSON "
        "lines become curves. This screen only reads; nothing is written there."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "watch.machine",
            "Machine",
            "Show another machine: local, a host in ~/.ssh/config, or user@host.",
            "M",
        ),
        AppAction(
            "watch.file",
            "Open file or port",
            "Follow a log, or a file or folder of a tracker such as W&B or TensorBoard, by its "
            "path there; or vLLM by its port.",
            "o",
        ),
        METRICS,
        WINDOW,
        NEXT_TAB,
        PREVIOUS_TAB,
        AppAction("watch.refresh", "Refresh", "List the sessions again.", "r", show=False),
        by_key(
            "watch.back", "Back", "Go to the list of sessions; from there to the runs.", "escape"
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self.machine = "local"
        self.sessions: tuple[TmuxSession, ...] = ()
        self.foreign: ExternalSession | None = None
        """The session or file that is followed."""
        self.watching: SessionWatcher | None = None
        self.server: ModelServer | None = None
        """The newest state of the followed model server."""
        self.list = SessionList()
        self.logs = SourceLogs(self.fail)
        self.pane = RunPane(self.logs, ("metrics", "log"))
        self.panes = Panes(self.list, self.pane, id="watch-panes")
        self._whole = False
        """Whether the logs are read from their first lines on."""
        self._note = ""
        """The newest notice about the followed session, until the next lines."""
        self._over = False
        """Whether the followed session has ended."""
        self._switching = asyncio.Lock()

    def content(self) -> Iterable[Widget]:
        yield Horizontal(self.panes, id="watch-box")

    def on_mount(self) -> None:
        self._tell()

    def opened(
        self,
        *,
        machine: str | None = None,
        session: str | None = None,
        file: str | None = None,
        port: int | None = None,
        **_: Any,
    ) -> None:
        """Show a machine, and follow what is given there.

        It is a session, a file or the port of a vLLM server.
        """
        self.machine = machine or self.machine
        self.start(
            partial(self._look, session=session, file=file, port=port),
            group="look",
            busy=f"Asking {clean_line(self.machine, 60)}",
        )

    # -- the machine
    # ----------------------------------------------------------------------------------------------

    async def _look(
        self, *, session: str | None = None, file: str | None = None, port: int | None = None
    ) -> None:
        from hudtui.core.remote.hosts import LOCAL, open_host
        from hudtui.core.runs.sessions import find_session, list_tmux_sessions

        host = await open_host(self.machine)
        self.sessions = await list_tmux_sessions(host)
        where = "this machine" if host.name == LOCAL else clean_line(host.name, 60)
        self.list.name_on_border(f"Sessions on {where}")
        self.list.show(self.sessions)
        if session is not None or file is not None:
            self._follow(host, await find_session(host, session=session, file=file))
        elif port is not None:
            self._follow_server(host, port)

    @on(SessionList.Highlighted)
    def _moved(self, event: SessionList.Highlighted) -> None:
        """Ignore the cursor: a session is followed when it is opened."""
        event.stop()

    @on(SessionList.Opened)
    def _opened(self, event: SessionList.Opened) -> None:
        event.stop()
        self.start(partial(self._look, session=event.row.name), group="look")

    @started("look")
    async def action_machine(self) -> None:
        given = await self.app.ask(
            "Machine",
            value=self.machine,
            placeholder="local, a host in ~/.ssh/config, or user@host[:port]",
        )
        if given:
            before, self.machine = self.machine, given.strip()
            self.busy(f"Asking {clean_line(self.machine, 60)}")
            try:
                await self._look()
            except BaseException:
                self.machine = before  # the list still shows the previous machine
                raise
            self.clear_message()

    @started("look")
    async def action_file(self) -> None:
        where = "this machine" if self.machine == "local" else clean_line(self.machine, 40)
        placeholder = f"its path on {where}, or the port of a vLLM server"
        given = (await self.app.ask("Log", placeholder=placeholder, accept="Follow") or "").strip()
        if given.isascii() and given.isdecimal() and 0 < int(given) < 1 << 16:
            await self._look(port=int(given))
        elif given:
            await self._look(file=given)

    def action_refresh(self) -> None:
        self.start(self._look, group="look", busy="Listing the sessions")

    # -- following
    # ----------------------------------------------------------------------------------------------

    def _follow(self, host: Host, foreign: ExternalSession, *, whole: bool = False) -> None:
        from hudtui.core.runs.alarms import read_thresholds
        from hudtui.core.runs.sessions import SessionWatcher

        self.foreign, self._whole, self.server = foreign, whole, None
        self._note, self._over = "", False
        from_when = read_thresholds(self.app.folder)
        self.watching = SessionWatcher(
            host, foreign, lines=None if whole else _LINES, from_when=from_when
        )
        self.workers.cancel_group(self, "read")
        # Never cancelled, because that would interrupt the mounting or removal of widgets.
        self.run_worker(self._switch(self.watching), group="switch")

    def _follow_server(self, host: Host, port: int) -> None:
        self.foreign = self.watching = self.server = None
        self.workers.cancel_group(self, "read")
        self._start_reading(partial(self._read_server, host, port))

    def _start_reading(self, work: Callable[[], Any]) -> None:
        # If the app ends before the worker starts, the coroutine is never created.
        self.run_worker(work, name="forever", group="read", exclusive=True)

    async def _read_server(self, host: Host, port: int) -> None:
        """Show the state of a model server, and its curves by time."""
        from hudtui.core.runs.status import server_load
        from hudtui.core.runs.vllm import follow_server
        from hudtui.core.training.metrics import MetricsReader

        load = MetricsReader()
        try:
            async with self._switching:
                await self.unbroken(self.logs.make((), stay=False))
            async with aclosing(follow_server(host, port)) as states:
                async for state in states:
                    told = {
                        name.removeprefix(f"{state.stage} "): value
                        for name, value in server_load(state).items()
                    }
                    load.add({**told, "time": state.at})
                    scales = {
                        name: (0.0, 100.0 if name.endswith("%") else None) for name in load.names
                    }
                    first, self.server = self.server is None, state
                    if first:
                        self.pane.turn_to("metrics")
                        self.pane.offer_log(False)
                        self.panes.open(self.pane)
                    self.pane.show_curves(
                        [Numbers(state.stage, load, scales)], by_time=True if first else None
                    )
                    self._tell()
        except Exception as error:
            if self.is_attached:
                self.fail(error)

    async def _switch(self, watching: SessionWatcher) -> None:
        """Create the logs of the chosen session, and read them.

        Switches run one after the other.
        """
        async with self._switching:
            if watching is not self.watching or not self.is_attached:
                return  # another session was chosen meanwhile
            self.pane.offer_log(True)
            await self.unbroken(
                self.logs.make(
                    (source.name for source in watching.foreign.sources), stay=self._whole
                )
            )
            self.pane.show_curves((), by_time=False)
            self._tell()
            self.panes.open(self.pane)
        if watching is self.watching:
            self._start_reading(partial(self._read, watching))

    def on_log_view_earlier(self, event: LogView.Earlier) -> None:
        """Read the whole history of the tmux panes."""
        self._again(event, whole=True)

    def on_log_view_latest(self, event: LogView.Latest) -> None:
        """Read the ends of the panes again."""
        self._again(event, whole=False)

    def _again(self, event: LogView.Asked, *, whole: bool) -> None:
        event.stop()
        if self.watching is not None:
            self._follow(self.watching.host, self.watching.foreign, whole=whole)

    async def _read(self, watching: SessionWatcher) -> None:
        drawn = asyncio.get_running_loop().time() - _DRAW
        waiting = False

        async def draw_later() -> None:
            nonlocal waiting, drawn
            await asyncio.sleep(_DRAW)
            waiting, drawn = False, asyncio.get_running_loop().time()
            self._draw()

        try:
            async with aclosing(watching.follow()) as events:
                async for seen in events:
                    self._take(seen)
                    if asyncio.get_running_loop().time() - drawn >= _DRAW:
                        drawn = asyncio.get_running_loop().time()
                        self._draw()
                    elif not waiting:
                        waiting = True
                        self.run_worker(draw_later(), name="forever", group="draw")
            for log in self.logs.by_source.values():
                log.ended = True
        except Exception as error:
            if self.is_attached:
                self.fail(error)
        if watching is self.watching and self.is_attached:
            self._over = True
            self._draw()

    def _take(self, seen: SessionUpdate) -> None:
        log = self.logs.by_source[seen.source]
        self._note = "" if seen.lines else seen.note or self._note
        assert self.watching is not None
        if (file := self.watching.log(seen.source)) is not None and seen.lines:
            if not self.logs.reads(log):
                self.logs.read(log, file)
            return  # a file is read by its pane, from which every line can be reached
        log.before = self.watching.before.get(seen.source, 0)
        lines = [*seen.lines, *([f"… {seen.note}"] if seen.note else [])]
        full = log.after is not None
        if self._whole and (full or len(lines) > log.room):
            lines, log.after = (
                lines[: 0 if full else log.room],
                0,
            )  # more lines would drop the first lines
        log.append(lines)

    def _draw(self) -> None:
        if self.watching is not None and self.foreign is not None:
            self.pane.show_curves(
                [Numbers(self.foreign.title, self.watching.numbers, window=self.watching.window)]
            )
            self._tell()

    def _tell(self) -> None:
        """Show the title and the head.

        The followed session, its progress, its alarms and its logs.
        """
        if self.server is not None:
            self._tell_server(self.server)
            return
        if self.foreign is None or self.watching is None:
            words = (
                "{key:table.select} follows the session under the cursor; {key:watch.file} follows "
                "a log (path) or vLLM (port)."
            )
            self.pane.tell("", Content.styled(self.app.keys_in(words), "$foreground-muted"))
            return
        numbers = self.watching.numbers
        newest, last, rewards = (
            numbers.newest,
            numbers.max_step,
            [point.y for point in numbers.quantity("reward")],
        )
        title = [clean_line(self.foreign.title, 40)]
        if newest is not None:
            title.append(f"step {newest[0]:g}" + (f"/{last:g}" if last is not None else ""))
        if rewards:
            title.append(f"{rewards[-1]:.3f}")
        parts: list[Any] = [
            ("○ no longer followed", "$warning") if self._over else ("● followed", "$success")
        ]
        if self._note and newest is None and not self._over:
            parts = [(f"○ {clean_line(self._note)}", "$warning")]
        else:
            parts.append(
                (f"  {clean_line(self._note)}", "$warning")
                if self._note
                else ("  read-only", "$foreground-muted")
            )
        if rewards:
            parts += [
                ("  reward ", "$primary"),
                f"{rewards[-1]:.3f}  ",
                (sparkline(rewards, 20), "$accent"),
            ]
        if self.foreign.folder:
            parts.append(("  a run of hudtui", "$foreground-muted"))
        sources: Mapping[str, LogView] = self.logs.by_source
        logs = [log_names(sources, self.logs.shown)] if len(sources) > 1 else []
        first, alarms = Content.assemble(*parts), self.watching.alarms
        self.pane.tell(
            " · ".join(title),
            lambda width: Content("\n").join((first, *alarm_lines(alarms, width), *logs)),
        )

    def _tell_server(self, server: ModelServer) -> None:
        from hudtui.core.runs.alarms import STUCK
        from hudtui.core.runs.status import server_text

        state = ("● answers", "$success") if server.answers else ("● does not answer", "$error")
        lines = [
            Content.assemble(state, (f"  {server.sample.model or ''}", "$foreground-muted")),
            Content(clean_line(server_text(server), 200)),
        ]
        if server.stuck >= STUCK:
            lines.append(
                Content.styled(
                    f"The server has had requests for {server.stuck:.0f} s and generates no token.",
                    "$warning",
                )
            )
        self.pane.tell(
            f"{server.stage} of {clean_line(self.machine, 40)}", Content("\n").join(lines)
        )

    # -- moving
    # ----------------------------------------------------------------------------------------------

    def why_not(self, action_id: str) -> str | None:
        name = action_id.partition(".")[2]
        if name in ("metrics", "window") and self.foreign is None:
            return (
                "nothing is followed yet"
                if self.server is None
                else "a model server has only curves"
            )
        if name == "window" and len(self.logs.by_source) < 2:
            return "the session has only one log"
        return None

    def action_metrics(self) -> None:
        self.pane.toggle_curves()
        self.panes.open(self.pane)

    async def action_next_tab(self) -> None:
        await self.pane.next_tab()

    async def action_previous_tab(self) -> None:
        await self.pane.next_tab(-1)

    def action_window(self) -> None:
        self.logs.next()
        self._tell()
        self.pane.turn_to("log")

    def action_back(self) -> None:
        if not self.panes.back():
            self.app.open_screen("run")
