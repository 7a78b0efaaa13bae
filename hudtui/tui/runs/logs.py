"""The logs of one run: that of one stage, or those of all of them below one another, each followed by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.text import clean_line
from hudtui.tui.log.view import LogView

if TYPE_CHECKING:
    from hudtui.core.runs.watch import Monitor
    from hudtui.tui.screen import HudtuiScreen

OPENING_LINES = 2_000
"""A log is opened so many lines before its end."""
_AGAIN = 3.0
"""Seconds after which what went wrong is tried again; twice as long each time, up to `SELDOM`."""
SELDOM = 60.0


@dataclass(frozen=True)
class _Reading:
    """A log that is read."""

    monitor: Monitor
    run: str
    window: str | None
    """The stage; None for the running stage, or the last one."""
    from_start: bool = False
    """From its first line, as far as a pane holds lines; else its end."""


class _Pane(Vertical):
    """A log under its name."""

    DEFAULT_CSS = """
    _Pane { height: 1fr; min-height: 4; }
    _Pane > .pane-name { height: 1; padding: 0 1; background: $surface; color: $foreground-muted; display: none; }
    """

    def __init__(self, log: LogView) -> None:
        super().__init__()
        self.log_view = log
        self.title = Static(classes="pane-name")

    def compose(self) -> ComposeResult:
        """Name, log."""
        yield self.title
        yield self.log_view


class RunLogs(Vertical):
    """The panes. The first one, `main`, is always there; the others come and go with `show`."""

    DEFAULT_CSS = """
    RunLogs { height: 1fr; }
    RunLogs.-several .pane-name { display: block; }
    """

    def __init__(self, screen: HudtuiScreen, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._owner = screen
        self.main = LogView(id="run-log", empty="The log appears here.")
        self._first = _Pane(self.main)
        self._others: dict[str, _Pane] = {}
        self._shown: tuple[str, str | None] | None = None
        self._readings: dict[LogView, _Reading] = {}
        """What is read into each pane."""

    def compose(self) -> ComposeResult:
        """The first pane."""
        yield self._first

    @property
    def front(self) -> Widget:
        """What takes the keys."""
        return self.main.lines

    @property
    def views(self) -> tuple[LogView, ...]:
        """All logs that are shown, from top to bottom."""
        return (self.main, *(pane.log_view for pane in self._others.values()))

    def forget(self) -> None:
        """Show nothing; read nothing."""
        self.rest()
        self.main.clear()
        self._drop(tuple(self._others))

    def rest(self) -> None:
        """Stop reading until the next `show`, which starts from the beginning."""
        self._shown = None
        self.workers.cancel_node(self)
        self._drop(tuple(self._others))

    def show(self, monitor: Monitor, run: str, window: str | None, others: Iterable[str] = ()) -> None:
        """Follow these logs, and no others. Costs nothing for those that are followed already.

        Args:
            monitor: Who watches.
            run: The run.
            window: The stage of the first pane; None for the running stage, or the last one.
            others: Stages whose logs are shown below it.
        """
        if self._shown != (run, window):
            self._shown = (run, window)
            self._read(self.main, _Reading(monitor, run, window))
        self._first.title.update(Content(clean_line(window or "", 40)))
        wanted = [name for name in others if name != window]
        self._drop(tuple(name for name in self._others if name not in wanted))
        for name in wanted:
            if name not in self._others:
                pane = self._others[name] = _Pane(LogView())
                pane.title.update(Content(clean_line(name, 40)))
                self.mount(pane)
                self._read(pane.log_view, _Reading(monitor, run, name))
        self.set_class(bool(self._others), "-several")

    def _drop(self, names: tuple[str, ...]) -> None:
        for name in names:
            pane = self._others.pop(name)
            self.workers.cancel_group(self, self._group(pane.log_view))
            self._readings.pop(pane.log_view, None)
            pane.remove()
        self.set_class(bool(self._others), "-several")

    def hear(self, away: float | None) -> None:
        """Say in all panes for how many seconds nothing was heard of the machine; None where it answers."""
        for pane in self.views:
            pane.hear(away)

    def on_log_view_earlier(self, event: LogView.Earlier) -> None:
        """The log from its first line on."""
        event.stop()
        self._read(event.log, replace(self._readings[event.log], from_start=True))

    def on_log_view_latest(self, event: LogView.Latest) -> None:
        """The end of the log again."""
        event.stop()
        self._read(event.log, replace(self._readings[event.log], from_start=False))

    def _read(self, pane: LogView, reading: _Reading) -> None:
        """Read a log into its pane, in place of what is read there."""
        self._readings[pane] = reading
        pane.clear()
        if reading.from_start:
            pane.stay()
        # Where the app ends before the worker begins, the coroutine is never made.
        work: Callable[[], Any] = partial(self._follow, pane, reading)
        self.run_worker(work, name="forever", group=self._group(pane), exclusive=True, exit_on_error=False)

    def _group(self, pane: LogView) -> str:
        return "log" if pane is self.main else f"log {id(pane)}"

    async def _follow(self, pane: LogView, reading: _Reading) -> None:
        """Read a log until its run has ended. Failures are shown, and reading continues where it stopped."""
        from hudtui.core.remote.logs import LineSplitter

        monitor, run, window = reading.monitor, reading.run, reading.window
        pane.save_name = f"{run}-{window}.log" if window else f"{run}.log"
        feed: LineSplitter | None = None
        pause = _AGAIN
        while True:
            try:
                if feed is None:
                    offset = 0 if reading.from_start else await monitor.tail(run, window, lines=OPENING_LINES)
                    pane.before = offset
                    feed, partial = LineSplitter(offset=offset), ""
                async with aclosing(monitor.follow(run, window, offset=feed.offset)) as chunks:
                    async for chunk in chunks:
                        found, pause = feed.feed(chunk), _AGAIN
                        if found.restarted:
                            pane.append(["… the log was begun anew"])
                        room = pane.room if reading.from_start else len(found.done)
                        pane.append(found.done[:room])
                        if len(found.done) > room:
                            pane.after = True  # more would push the first lines out
                            return
                        partial = found.partial
                if partial:
                    pane.append([partial])
                pane.ended = True
                return
            except Exception as error:
                self._owner.fail(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, SELDOM)
