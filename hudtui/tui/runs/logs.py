"""The log of a run, beside its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.widget import Widget

from hudtui.tui.log.reading import ReadLogs
from hudtui.tui.log.view import LogView

if TYPE_CHECKING:
    from hudtui.core.remote.log_file import Log
    from hudtui.tui.screen import HudtuiScreen


class RunLogs(ReadLogs):
    """The log of one stage of a run at a time."""

    DEFAULT_CSS = "RunLogs { height: 1fr; }"

    def __init__(
        self,
        screen: HudtuiScreen,
        *,
        empty: str = "The log appears here.",
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(screen.fail, id=id)
        self.main = LogView(id="run-log", empty=empty)
        self._shown: Log | None = None

    def compose(self) -> ComposeResult:
        yield self.main

    @property
    def front(self) -> Widget:
        """The widget that receives the focus."""
        return self.main.lines

    def forget(self) -> None:
        """Clear the pane, and stop reading."""
        self.rest()
        self.main.clear()

    def rest(self) -> None:
        """Stop reading until the next `show`."""
        self._shown = None
        self.workers.cancel_node(self)

    def show(self, log: Log) -> None:
        """Follow a log; one that is followed already is not read again."""
        if self._shown != log:
            self._shown = log
            if self.is_mounted:
                self.read(self.main, log)

    def on_mount(self) -> None:
        """Read the log that was to be shown before its tab was."""
        if self._shown is not None:
            self.read(self.main, self._shown)

    def hear(self, away: float | None) -> None:
        """Show for how many seconds the machine has not answered; None if it answers."""
        self.main.hear(away)
