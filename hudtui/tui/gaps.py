"""What hudtui needs of Textual that has no public name.

`tests/tui/test_gaps.py` fails when Textual changes one of them.
Beside this module only `cells`, `driver` and `editor.yaml_editor` use private parts of Textual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.text import Text
from textual._compositor import CompositorUpdate
from textual.app import App
from textual.command import CommandList, CommandPalette
from textual.widgets import Input

from hudtui.core.text import signs
from hudtui.tui.cells import Cells, ChangedCells

if TYPE_CHECKING:
    from textual.driver import Driver
    from textual.screen import Screen
    from textual.timer import Timer


class TerminalApp(App[None], inherit_bindings=False):
    """An app that sends a terminal only the cells that differ.

    It says itself how it broke.
    """

    @property
    def terminal(self) -> Driver | None:
        """What writes to the terminal, or to nothing in a test; None before the start."""
        return self._driver

    @property
    def cells(self) -> Cells | None:
        """What the terminal shows; None where there is none."""
        return getattr(self._driver, "cells", None)

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Send a terminal the cells that differ from what it shows.

        Textual has one place only that knows every update.
        """
        if (cells := self.cells) is not None and isinstance(renderable, CompositorUpdate):
            renderable = ChangedCells(renderable, cells)
        super()._display(screen, renderable)

    def _handle_exception(self, error: Exception) -> None:
        """End without Textual's traceback, which is not for users, and tell `broke`."""
        if self._exit or self.is_headless:
            super()._handle_exception(error)
            return
        self.broke(error)
        self._close_messages_no_wait()

    def broke(self, error: Exception) -> None:
        """An exception that nothing has caught ends the app."""


class SignedInput(Input):
    """A field that draws signs for what a terminal would not show, as an editor does.

    Each takes one cell.
    """

    @property
    def _value(self) -> Text:
        return (
            super()._value
            if self.password
            else Text(signs(self.value), no_wrap=True, overflow="ignore", end="")
        )

    def _position_to_cell(self, position: int) -> int:
        return cell_len(signs(self.value)[:position])

    def _cell_offset_to_index(self, offset: int) -> int:
        offset += self.scroll_offset.x
        return next(
            (at for at in range(len(self.value)) if self._position_to_cell(at + 1) > offset),
            len(self.value),
        )


class ClosingPalette(CommandPalette):
    """A palette that may close while its search ends.

    Textual's own watchers look for a list that is gone, and end the app.
    """

    def _watch__list_visible(self) -> None:
        if self.query(CommandList):
            super()._watch__list_visible()

    def _watch__show_busy(self) -> Any:
        return super()._watch__show_busy() if self.query(CommandList) else None


def never_skipped(timer: Timer) -> Timer:
    """Have a timer call its callback however late it is; returns the timer.

    Textual skips calls that a timer is late for. On a busy machine that can be its only call: a log
    is not updated, a screen is never drawn.
    """
    timer._skip = False
    return timer
