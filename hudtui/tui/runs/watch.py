"""Watch: runs that this workspace did not start, on any machine, by their tmux session or their log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static, TabbedContent, TabPane

from hudtui.core.text import clean_line
from hudtui.core.training.sparkline import sparkline
from hudtui.tui.actions import AppAction
from hudtui.tui.log.view import LogView
from hudtui.tui.runs.words import alarm_lines
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.widgets.empty import EmptyState
from hudtui.tui.widgets.fit import cut
from hudtui.tui.widgets.metrics_pane import MetricsPane, Numbers
from hudtui.tui.widgets.tables import Grid
from hudtui.tui.widgets.words import ago

if TYPE_CHECKING:
    from hudtui.core.remote.host import Host
    from hudtui.core.runs.sessions import ExternalSession, SessionUpdate, SessionWatcher, TmuxSession

_LINES = 2_000
"""Lines before the end that are shown at the beginning."""
_DRAW = 0.5
"""Seconds between two pictures of the numbers."""


class WatchScreen(HudtuiScreen):
    """The tmux sessions of a machine; of the chosen one, or of a log, its lines and the numbers in them."""

    NAME = "watch"
    TITLE = "watch"
    AUTO_FOCUS = "#watch-list"
    CSS_PATH = "watch.tcss"
    HELP = (
        "Runs that this workspace did not start: a colleague's, or those of another trainer. Enter follows the tmux session "
        "under the cursor, o a log by its path; numbers of TRL, verifiers, prime-rl, ART, vLLM, key=value and JSON lines become "
        "curves. It only looks: nothing is sent, and nothing is written there."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("watch.machine", "Machine", "Look at another machine: local, a name of ~/.ssh/config, user@host.", "a"),
        AppAction("watch.file", "A log", "Follow a log, or a file of metrics, by its path there.", "o"),
        AppAction("watch.metrics", "Metrics", "Its numbers as curves; again for the log.", "m"),
        AppAction("watch.window", "Next log", "Show the next window or file.", "right_square_bracket", show=False),
        AppAction("watch.again", "Look again", "List the sessions anew.", "r", show=False),
        AppAction(
            "watch.back",
            "To the list",
            "Go to the list of sessions; from there to the runs.",
            "escape",
            show=False,
            palette=False,
        ),
        AppAction("watch.pane", "Other pane", "Go to the other pane.", "tab", show=False, palette=False),
    )

    def __init__(self) -> None:
        super().__init__()
        self.machine = "local"
        self.sessions: tuple[TmuxSession, ...] = ()
        self.foreign: ExternalSession | None = None
        """What is followed."""
        self.watching: SessionWatcher | None = None
        self._logs: dict[str, LogView] = {}
        self._whole = False
        """The logs are read from their first lines on."""
        self._switching = asyncio.Lock()

    def content(self) -> Iterable[Widget]:
        """Sessions on the left, what is followed on the right."""
        with Horizontal(id="watch-panes"):
            with Vertical(id="watch-there"):
                yield Static(id="watch-machine")
                yield Grid(id="watch-list")
                yield EmptyState("No tmux session there.", "a: another machine   o: a log by its path", id="watch-empty")
            with Vertical(id="watch-detail"):
                yield Static(id="watch-head")
                with TabbedContent(id="watch-tabs"):
                    with TabPane("Log", id="log"):
                        yield ContentSwitcher(id="watch-logs")
                    with TabPane("Metrics", id="metrics"):
                        yield MetricsPane(id="watch-metrics")

    def on_mount(self) -> None:
        """Make the columns."""
        grid = self.query_one("#watch-list", Grid)
        for title, width in (("session", 22), ("windows", 16), ("begun", 10)):
            grid.add_column(title, width=width, key=title)
        self.query_one(EmptyState).display = False
        self._tell()

    def opened(self, *, machine: str | None = None, session: str | None = None, file: str | None = None, **_: Any) -> None:
        """Look at a machine; with a session or a file, follow it."""
        self.machine = machine or self.machine
        self.start(self._look(session=session, file=file), group="look", busy=f"Asking {clean_line(self.machine, 60)}")

    # -- the machine -------------------------------------------------------------------------------------------------

    async def _host(self) -> Host:
        from hudtui.core.remote.hosts import open_host

        async def ask(prompt: str) -> str | None:
            return await self.app.ask(prompt, secret=True)

        return await open_host(self.machine, ask=ask, say=lambda notice: self.say(notice.message))

    async def _look(self, *, session: str | None = None, file: str | None = None) -> None:
        from hudtui.core.runs.sessions import find_session, list_tmux_sessions

        host = await self._host()
        self.sessions = await list_tmux_sessions(host)
        self._list(host)
        if session is not None or file is not None:
            self._follow(host, await find_session(host, session=session, file=file))

    def _list(self, host: Host) -> None:
        self.query_one("#watch-machine", Static).update(
            Content.assemble((clean_line(host.name, 60), "bold"), (f"  {_count(len(self.sessions))}", "$foreground-muted"))
        )
        grid = self.query_one("#watch-list", Grid)
        now = self.app.services.now().timestamp()
        grid.clear()
        for one in self.sessions:
            windows = ", ".join(dict.fromkeys(pane.window for pane in one.panes))
            grid.add_row(one.run or one.name, windows, ago(max(now - one.created, 0.0)), key=one.name)
        grid.display = bool(self.sessions)
        self.query_one(EmptyState).display = not self.sessions
        if self.sessions and self.foreign is None:
            grid.focus()

    def on_data_table_row_selected(self, event: Grid.RowSelected) -> None:
        """Enter follows the session."""
        if event.data_table.id == "watch-list" and event.row_key.value is not None:
            self.start(self._look(session=event.row_key.value), group="look")

    async def action_machine(self) -> None:
        """Ask for a machine."""
        self.start(self._ask_machine(), group="look")

    async def _ask_machine(self) -> None:
        given = await self.app.ask("Machine", value=self.machine, placeholder="local, a name of ~/.ssh/config, user@host[:port]")
        if given:
            before, self.machine = self.machine, given.strip()
            self.busy(f"Asking {clean_line(self.machine, 60)}")
            try:
                await self._look()
            except BaseException:
                self.machine = before  # which the list still shows
                raise
            self.clear_message()

    async def action_file(self) -> None:
        """Ask for a path."""
        self.start(self._ask_file(), group="look")

    async def _ask_file(self) -> None:
        given = await self.app.ask("Log", placeholder=f"its path on {clean_line(self.machine, 40)}", accept="Follow")
        if given:
            await self._look(file=given.strip())

    def action_again(self) -> None:
        """List again."""
        self.start(self._look(), group="look", busy="Looking again")

    # -- what is followed --------------------------------------------------------------------------------------------

    def _follow(self, host: Host, foreign: ExternalSession, *, whole: bool = False) -> None:
        from hudtui.core.runs.sessions import SessionWatcher

        self.foreign, self._whole = foreign, whole
        self.watching = SessionWatcher(host, foreign, lines=None if whole else _LINES)
        self.query_one("#watch-panes").add_class("-detail")
        self.workers.cancel_group(self, "read")
        # Never cancelled: widgets that are being mounted or removed must be let be.
        self.run_worker(self._switch(self.watching), group="switch", exit_on_error=False)

    async def _switch(self, watching: SessionWatcher) -> None:
        """Make the panes of what is followed, one switch after the other, and read."""
        async with self._switching:
            if watching is not self.watching or not self.is_attached:
                return  # something else was chosen meanwhile
            await self.unbroken(self._make_logs(watching))
            self.query_one("#watch-metrics", MetricsPane).show(())
            self._tell()
            self._focus_tab()
        if watching is self.watching:
            self.run_worker(self._read(watching), name="forever", group="read", exclusive=True, exit_on_error=False)

    async def _make_logs(self, watching: SessionWatcher) -> None:
        switcher = self.query_one("#watch-logs", ContentSwitcher)
        switcher.current = None  # the next log has the name of the one before: only a change shows it
        await switcher.remove_children()
        self._logs = {source.name: LogView(empty="Nothing has come yet.") for source in watching.foreign.sources}
        for place, (name, log) in enumerate(self._logs.items()):
            log.save_name = f"{name.strip('%') or 'log'}.log"
            await switcher.add_content(log, id=f"watch-log-{place}", set_current=place == 0)
            if self._whole:
                log.stay()

    def on_log_view_earlier(self, event: LogView.Earlier) -> None:
        """The logs from their first lines on."""
        self._again(event, whole=True)

    def on_log_view_latest(self, event: LogView.Latest) -> None:
        """The ends of the logs again."""
        self._again(event, whole=False)

    def _again(self, event: LogView.Earlier, *, whole: bool) -> None:
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
                        self.run_worker(draw_later(), name="forever", group="draw", exit_on_error=False)
            for log in self._logs.values():
                log.ended = True
        except Exception as error:
            if self.is_attached:
                self.fail(error)

    def _take(self, seen: SessionUpdate) -> None:
        log = self._logs[seen.source]
        assert self.watching is not None
        log.before = self.watching.before.get(seen.source, 0)
        lines = [*seen.lines, *([f"… {seen.note}"] if seen.note else [])]
        if self._whole and (log.after or len(lines) > log.room):
            lines, log.after = lines[: 0 if log.after else log.room], True  # more would push the first lines out
        log.append(lines)

    def _draw(self) -> None:
        """Numbers and head."""
        if self.watching is not None and self.foreign is not None:
            self.query_one("#watch-metrics", MetricsPane).show([Numbers(self.foreign.title, self.watching.numbers)])
            self._tell()

    def _tell(self) -> None:
        """The head: what is followed, how far it is, what is wrong, its logs."""
        head = self.query_one("#watch-head", Static)
        if self.foreign is None or self.watching is None:
            head.update(Content.styled("Enter follows the session under the cursor; o a log by its path.", "$foreground-muted"))
            return
        width = max(head.size.width - 2, 20)
        numbers = self.watching.numbers
        newest, last, rewards = numbers.newest, numbers.max_step, [point.y for point in numbers.quantity("reward")]
        parts: list[Any] = [("● ", "$success"), (cut(self.foreign.title, 40), "bold")]
        if newest is not None:
            parts.append(f"  step {newest[0]:g}" + (f"/{last:g}" if last is not None else ""))
        if rewards:
            parts += [("  reward ", "$primary"), f"{rewards[-1]:.3f}  ", (sparkline(rewards, 20), "$accent")]
        if self.foreign.folder:
            parts.append(("  a run of hudtui", "$foreground-muted"))
        lines = [Content.assemble(*parts)]
        lines += alarm_lines(self.watching.alarms, width)
        if len(self._logs) > 1:
            shown = self._shown_log()
            names = [Content.styled(name, "bold reverse" if name == shown else "$foreground-muted") for name in self._logs]
            lines.append(Content("  ").join(names))
        head.update(Content("\n").join(lines))

    def _shown_log(self) -> str | None:
        current = self.query_one("#watch-logs", ContentSwitcher).current
        return next((name for name, log in self._logs.items() if log.id == current), None)

    # -- moving ------------------------------------------------------------------------------------------------------

    def why_not(self, action_id: str) -> str | None:
        """What needs something that is followed."""
        name = action_id.partition(".")[2]
        if name in ("metrics", "window") and self.foreign is None:
            return "nothing is followed yet"
        if name == "window" and len(self._logs) < 2:
            return "it has one log"
        return None

    def _focus_tab(self) -> None:
        tabs = self.query_one("#watch-tabs", TabbedContent)
        shown = self._logs.get(self._shown_log() or "")
        widget: Widget | None = self.query_one("#watch-metrics") if tabs.active == "metrics" else shown
        if widget is not None:
            self.call_after_refresh(widget.focus)

    def action_metrics(self) -> None:
        """The curves, or the log again."""
        tabs = self.query_one("#watch-tabs", TabbedContent)
        tabs.active = "log" if tabs.active == "metrics" else "metrics"
        self.query_one("#watch-panes").add_class("-detail")
        self._focus_tab()

    def action_window(self) -> None:
        """The next log."""
        names = list(self._logs)
        shown = self._shown_log() or names[0]
        chosen = self._logs[names[(names.index(shown) + 1) % len(names)]]
        self.query_one("#watch-logs", ContentSwitcher).current = chosen.id
        self._tell()
        self._focus_tab()

    def action_back(self) -> None:
        """Back to the list; from there to the runs."""
        grid = self.query_one("#watch-list", Grid)
        if self.focused is grid or not self.sessions:
            self.app.open_screen("run")
        else:
            self.query_one("#watch-panes").remove_class("-detail")
            grid.focus()

    def action_pane(self) -> None:
        """From the list to the log and back."""
        if self.focused is self.query_one("#watch-list"):
            self.query_one("#watch-panes").add_class("-detail")
            self._focus_tab()
        else:
            self.query_one("#watch-panes").remove_class("-detail")
            self.query_one("#watch-list").focus()


def _count(sessions: int) -> str:
    return f"{sessions} tmux session{'' if sessions == 1 else 's'}"
