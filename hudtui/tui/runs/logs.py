"""The logs of one run: of one stage, of all stages merged, or of all stages in panes below one another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.text import clean_line
from hudtui.tui.log.reading import OPENING_LINES, ReadLogs
from hudtui.tui.log.view import LogView
from hudtui.tui.runs.words import ALL

if TYPE_CHECKING:
    from hudtui.core.remote.log_file import Log
    from hudtui.core.runs.watch import Monitor
    from hudtui.tui.screen import HudtuiScreen


class _FullError(Exception):
    """The pane has no room for more lines."""


class _Pane(Vertical):
    """A log with its name above it."""

    DEFAULT_CSS = """
    _Pane { height: 1fr; min-height: 4; }
    _Pane > .pane-name { height: 1; padding: 0 1; background: $surface; color: $foreground-muted; display: none; }
    """

    def __init__(self, log: LogView) -> None:
        super().__init__()
        self.log_view = log
        self.title = Static(classes="pane-name")

    def compose(self) -> ComposeResult:
        yield self.title
        yield self.log_view


class RunLogs(ReadLogs):
    """The panes of the logs. The first pane, `main`, always exists; `show` adds and removes the others."""

    DEFAULT_CSS = """
    RunLogs { height: 1fr; }
    RunLogs.-several .pane-name { display: block; }
    """

    def __init__(self, screen: HudtuiScreen, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(screen.fail, id=id)
        self.main = LogView(id="run-log", empty="The log appears here.")
        self._first = _Pane(self.main)
        self._others: dict[str, _Pane] = {}
        self._shown: tuple[str, str | None] | None = None
        self._merged: dict[str, Log] = {}
        """The logs that the first pane shows merged, by stage; empty if it shows one log."""

    def compose(self) -> ComposeResult:
        yield self._first

    @property
    def front(self) -> Widget:
        """The widget that receives the focus."""
        return self.main.lines

    @property
    def views(self) -> tuple[LogView, ...]:
        """All logs that are shown, from top to bottom."""
        return (self.main, *(pane.log_view for pane in self._others.values()))

    def forget(self) -> None:
        """Clear the panes, and stop reading."""
        self.rest()
        self.main.clear()
        self._drop(tuple(self._others))

    def rest(self) -> None:
        """Stop reading until the next `show`."""
        self._shown = None
        self.workers.cancel_node(self)
        self._drop(tuple(self._others))

    def show(self, monitor: Monitor, run: str, stages: Sequence[str], window: str | None, others: Iterable[str] = ()) -> None:
        """Follow these logs and no others. Logs that are followed already are not read again.

        Args:
            monitor: Reads the run.
            run: The run's id.
            stages: The run's stages.
            window: The stage of the first pane, or `ALL` for all stages as one log; None for the running or the last stage.
            others: Stages whose logs are shown below the first pane.
        """
        if self._shown != (run, window):
            self._shown = (run, window)
            self._merged = {name: monitor.log(run, name) for name in stages} if window == ALL else {}
            self.main.buffer.name_sources(tuple(self._merged))
            if self._merged:
                self.main.save_name = f"{run}-{ALL}.log"
                self._merge()
            else:
                self.read(self.main, monitor.log(run, window))
        self._first.title.update(Content(clean_line(window or "", 40)), layout=False)
        wanted = [name for name in others if name != window]
        self._drop(tuple(name for name in self._others if name not in wanted))
        for name in wanted:
            if name not in self._others:
                pane = self._others[name] = _Pane(LogView())
                pane.title.update(Content(clean_line(name, 40)))
                self.mount(pane)
                self.read(pane.log_view, monitor.log(run, name))
        self.set_class(bool(self._others), "-several")

    # -- all stages as one log -----------------------------------------------------------------------------------------

    def on_log_view_earlier(self, event: LogView.Earlier) -> None:
        """Read the merged log from its first line on."""
        if event.log is self.main and self._merged:
            event.stop()
            self._merge(whole=True)

    def on_log_view_latest(self, event: LogView.Latest) -> None:
        """Read the end of the merged log again."""
        if event.log is self.main and self._merged:
            event.stop()
            self._merge()

    def _merge(self, *, whole: bool = False) -> None:
        """Read the merged log into the first pane, from its first line on or from some lines before its end."""
        self.drop(self.main)
        self.main.reaches = False
        self._work(self.main, partial(self._try_on, partial(self._follow_merged, whole)), "read")

    async def _follow_merged(self, whole: bool) -> None:
        from hudtui.core.remote.merged_log import MergedLog, NamedLines

        pane, merged = self.main, MergedLog(self._merged)
        pane.forget_found()
        pane.clear()
        if whole:
            pane.stay()

        def put(found: NamedLines) -> None:
            room = pane.room if whole else len(found.lines)
            pane.append(pane.buffer.named(found.name, found.lines[:room]))
            if len(found.lines) > room:  # more lines would drop the first lines
                raise _FullError

        try:
            begins = {name: 0 if whole else await log.tail(lines=OPENING_LINES) for name, log in self._merged.items()}
            found = merged.read(begins, last=None if whole else OPENING_LINES, follow=True)
            async with aclosing(found) as blocks:
                async for block in blocks:
                    put(block)
            pane.before = merged.before
            await merged.follow(put)
            pane.ended = True
        except _FullError:
            pane.after = 0

    def _drop(self, names: tuple[str, ...]) -> None:
        for name in names:
            pane = self._others.pop(name)
            self.drop(pane.log_view)
            pane.remove()
        self.set_class(bool(self._others), "-several")

    def hear(self, away: float | None) -> None:
        """Show in all panes for how many seconds the machine has not answered; None if it answers."""
        for pane in self.views:
            pane.hear(away)
