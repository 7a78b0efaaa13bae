"""The logs of one run: that of one stage, or those of all of them below one another, each followed by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.text import clean_line
from hudtui.tui.log.reading import ReadLogs
from hudtui.tui.log.view import LogView

if TYPE_CHECKING:
    from hudtui.core.runs.watch import Monitor
    from hudtui.tui.screen import HudtuiScreen


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
        yield self.title
        yield self.log_view


class RunLogs(ReadLogs):
    """The panes. The first one, `main`, is always there; the others come and go with `show`."""

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

    def compose(self) -> ComposeResult:
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
        """Stop reading until the next `show`."""
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

    def _drop(self, names: tuple[str, ...]) -> None:
        for name in names:
            pane = self._others.pop(name)
            self.drop(pane.log_view)
            pane.remove()
        self.set_class(bool(self._others), "-several")

    def hear(self, away: float | None) -> None:
        """Say in all panes for how many seconds nothing was heard of the machine; None where it answers."""
        for pane in self.views:
            pane.hear(away)
