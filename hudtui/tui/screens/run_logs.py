"""The logs of one run: that of one stage, or those of all of them below one another, each followed by itself."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from hudtui.core.text import clean_line
from hudtui.tui.widgets.log_view import LogView

if TYPE_CHECKING:
    from hudtui.core.runs.monitor import Monitor
    from hudtui.tui.screens.base import StationScreen

OPENING_LINES = 2_000
"""A log is opened so many lines before its end; `runs logs --all` prints the rest."""


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

    def __init__(self, screen: StationScreen, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._owner = screen
        self.main = LogView(id="run-log", empty="The log appears here.")
        self._first = _Pane(self.main)
        self._others: dict[str, _Pane] = {}
        self._shown: tuple[str, str | None] | None = None

    def compose(self) -> ComposeResult:
        """The first pane."""
        yield self._first

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
        """Read nothing until the next `show`, which reads anew."""
        self._shown = None
        self.workers.cancel_node(self)
        self._drop(tuple(self._others))

    def show(self, monitor: Monitor, run: str, window: str | None, others: Iterable[str] = ()) -> None:
        """Follow these logs, and no others. Costs nothing for those that are followed already.

        Args:
            monitor: Who watches.
            run: The run.
            window: The stage of the first pane; None for the one that runs, or ran last.
            others: Stages whose logs are shown below it.
        """
        if self._shown != (run, window):
            self._shown = (run, window)
            self.main.clear()
            work = self._follow(monitor, run, window, self.main)
            self.run_worker(work, name="forever", group="log", exclusive=True, exit_on_error=False)
        self._first.title.update(Content(clean_line(window or "", 40)))
        wanted = [name for name in others if name != window]
        self._drop(tuple(name for name in self._others if name not in wanted))
        for name in wanted:
            if name not in self._others:
                pane = self._others[name] = _Pane(LogView())
                pane.title.update(Content(clean_line(name, 40)))
                self.mount(pane)
                work = self._follow(monitor, run, name, pane.log_view)
                self.run_worker(work, name="forever", group=f"log {name}", exit_on_error=False)
        self.set_class(bool(self._others), "-several")

    def _drop(self, names: tuple[str, ...]) -> None:
        for name in names:
            self.workers.cancel_group(self, f"log {name}")
            self._others.pop(name).remove()
        self.set_class(bool(self._others), "-several")

    async def _follow(self, monitor: Monitor, run: str, window: str | None, pane: LogView) -> None:
        from hudtui.core.remote.lines import LineFeed

        try:
            pane.save_name = f"{run}-{window}.log" if window else f"{run}.log"
            offset = await monitor.tail(run, window, lines=OPENING_LINES)
            if offset:
                pane.append([f"… {offset:,} bytes before this are in {monitor.log_path(run, window)}"])
            feed, partial = LineFeed(offset=offset), ""
            async with aclosing(monitor.follow(run, window, offset=offset)) as chunks:
                async for chunk in chunks:
                    found = feed.feed(chunk)
                    if found.restarted:
                        pane.append(["… the log was begun anew"])
                    pane.append(found.done)
                    partial = found.partial
            if partial:
                pane.append([partial])
            pane.ended = True
        except Exception as error:
            self._owner.fail(error)
