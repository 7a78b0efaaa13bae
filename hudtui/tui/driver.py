"""Textual's terminal driver with four additions.

It sleeps while no key is pressed, it notices a terminal that went away, it sends ASCII where the
locale is not UTF-8, and it knows which cells the terminal shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
from codecs import getincrementaldecoder
from typing import TYPE_CHECKING, Any, cast

from textual._xterm_parser import XTermParser
from textual.constants import ESCAPE_DELAY
from textual.drivers.linux_driver import LinuxDriver

from hudtui.tui.ascii import AsciiTable, wants_ascii
from hudtui.tui.cells import Cells

if TYPE_CHECKING:
    from hudtui.tui.app import HudtuiApp

_TICK = ESCAPE_DELAY + 0.01
"""Seconds after the last character in which an escape sequence may still be continued."""


class _Output:
    """A stream that reports a lost terminal once instead of raising in the thread that writes."""

    def __init__(self, stream: Any, lost: Any, table: AsciiTable | None) -> None:
        self._stream, self._lost, self._table, self._dead = stream, lost, table, False

    def write(self, text: str) -> None:
        plain = text if self._table is None or text.isascii() else text.translate(self._table)
        self._attempt(lambda: self._stream.write(plain))

    def flush(self) -> None:
        self._attempt(self._stream.flush)

    def fileno(self) -> int:
        return int(self._stream.fileno())

    def isatty(self) -> bool:
        return not self._dead and bool(self._stream.isatty())

    def _attempt(self, work: Any) -> None:
        if self._dead:
            return
        try:
            work()
        except (OSError, ValueError):
            self._dead = True
            self._lost()


class TerminalDriver(LinuxDriver):
    """For Linux and macOS."""

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(app, **options)
        self._owner: HudtuiApp = app
        self._home = asyncio.get_running_loop()
        table = AsciiTable() if wants_ascii(os.environ) else None
        self._file = cast(Any, _Output(self._file, self._lost, table))
        self.cells = Cells()
        """What the terminal shows."""
        self._open_pipe()

    def _open_pipe(self) -> None:
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    def _lost(self) -> None:
        """The terminal is gone: end the app. Called from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self._home.call_soon_threadsafe(self._owner.terminal_lost)

    def use_mouse(self, on: bool) -> None:
        """Take the mouse from the terminal, or leave it to it."""
        self._mouse = True  # otherwise the two do nothing
        (self._enable_mouse_support if on else self._disable_mouse_support)()
        self._mouse = on

    def start_application_mode(self) -> None:
        """Take the terminal, or take it back from another program.

        The other program has left it with something else.
        """
        self.cells.forget()
        if self._wake_read < 0:  # closed while another program had the terminal
            self._open_pipe()
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def disable_input(self) -> None:
        """Let the input thread see that it is over."""
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"x")
        super().disable_input()
        with contextlib.suppress(OSError):
            os.set_blocking(self._wake_read, False)
            os.read(self._wake_read, 64)

    def close(self) -> None:
        """Let go of the pipe: another app may follow in this process."""
        super().close()
        for end in (self._wake_read, self._wake_write):
            with contextlib.suppress(OSError):
                os.close(end)
        self._wake_read = self._wake_write = -1  # the numbers may be given to other files

    def run_input_thread(self) -> None:
        """Wait for input and hand on what it means.

        Without input there is nothing to do, and nothing is done.
        """
        parser = XTermParser()
        decoder = getincrementaldecoder("utf-8")(errors="replace")
        timeout: float | None = None
        while not self.exit_event.is_set():
            ready, _, _ = select.select([self.fileno, self._wake_read], [], [], timeout)
            if self.fileno in ready:
                try:
                    data = os.read(self.fileno, 4096)
                except OSError:
                    data = b""
                if not data:
                    self._lost()
                    return
                for message in parser.feed(decoder.decode(data)):
                    self.process_message(message)
            for message in parser.tick():
                self.process_message(message)
            timeout = (
                _TICK if self.fileno in ready else None
            )  # an Escape that nothing follows is a key
