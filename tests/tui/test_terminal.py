"""The app on a real pseudo-terminal: idle, ended in every way, suspended, and without colour."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hudtui.tui.app import HudtuiApp
from hudtui.tui.driver import TerminalDriver

READY = b"Welcome"
"""Part of what home says in an empty folder: everything was read and drawn."""


class Terminal:
    """The app in a pseudo-terminal of its own."""

    def __init__(
        self,
        folder: Path,
        env: dict[str, str],
        *,
        size: tuple[int, int] = (100, 30),
        args: tuple[str, ...] = ("-m", "hudtui"),
    ) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = subprocess.Popen(
            [sys.executable, *args],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=env,
            preexec_fn=_own_session,
        )
        self.output = b""

    def read(self, seconds: float, until: bytes | None = None) -> bytes:
        """What the app writes within a time, or until it wrote something."""
        got = b""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and (until is None or until not in self.output):
            if not select.select([self.master], [], [], min(left, 0.2))[0]:
                continue
            try:
                data = os.read(self.master, 65536)
            except OSError:
                break
            got += data
            self.output += data
        return got

    def ready(self) -> None:
        self.read(60, READY)
        assert READY in self.output, self.output[-2000:]
        self.read(0.5)

    def settled(self) -> None:
        """Wait until nothing has been written for a while: on a loaded machine the work of a start
        ends late."""
        end = time.monotonic() + 60
        while self.read(1.5) and time.monotonic() < end:
            pass

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def wait(self, seconds: float = 30) -> int:
        """The exit status; what is written meanwhile is read, so that nothing blocks."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.1)
        self.read(0.3)
        status = self.process.poll()
        assert status is not None, "the app did not end"
        return status

    def cpu(self) -> float:
        """Seconds of processor time that the app has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for handle in (self.master, self.slave):
            with contextlib.suppress(OSError):
                os.close(handle)


def _own_session() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture
def start(own_world: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def begin(*args: str, **changes: str) -> Terminal:
        terminal = Terminal(own_world, {**os.environ, **changes}, args=args or ("-m", "hudtui"))
        opened.append(terminal)
        return terminal

    yield begin
    for terminal in opened:
        terminal.close()


def restored(terminal: Terminal) -> bool:
    """Main screen, cursor shown, no mouse, no paste brackets, and the line discipline as it was."""
    tail = terminal.output.rpartition(b"\x1b[?1049l")
    modes = all(
        mode in terminal.output for mode in (b"\x1b[?1000l", b"\x1b[?1003l", b"\x1b[?2004l")
    )
    return (
        bool(tail[1])
        and b"\x1b[?25h" in tail[2]
        and modes
        and termios.tcgetattr(terminal.slave)[:4] == terminal.before[:4]
    )


def test_idle_writes_nothing_and_takes_no_time(start: Callable[..., Terminal]) -> None:
    terminal = start()
    terminal.ready()
    terminal.settled()
    used = []
    for _ in range(3):
        before = terminal.cpu()
        assert terminal.read(3.0) == b""
        used.append(terminal.cpu() - before)
    assert min(used) <= 0.02  # what other processes do to the caches only adds


def test_idle_in_a_text_field_writes_nothing(start: Callable[..., Terminal]) -> None:
    terminal = start()
    terminal.ready()
    terminal.type(b"\x10")  # the palette
    terminal.read(
        60, b"earch for commands"
    )  # below the cursor, the first letter is painted by itself
    assert b"earch for commands" in terminal.output
    terminal.settled()
    assert terminal.read(2.0) == b""


@pytest.mark.parametrize("keys", [b"\x03", b"\x11", b"q"], ids=["ctrl-c", "ctrl-q", "q"])
def test_keys_end_it_cleanly(start: Callable[..., Terminal], keys: bytes) -> None:
    terminal = start()
    terminal.ready()
    terminal.type(keys)
    if keys == b"\x03":
        terminal.read(30, b"again")
        assert terminal.process.poll() is None, "the first press only tells how to leave"
        time.sleep(0.2)  # keys that come at once are a burst, which ends nothing
        terminal.type(keys)
    assert terminal.wait() == 0
    assert restored(terminal)
    assert b"Traceback" not in terminal.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_cleanly(start: Callable[..., Terminal], number: signal.Signals) -> None:
    terminal = start()
    terminal.ready()
    terminal.process.send_signal(number)
    assert terminal.wait() == 0
    assert restored(terminal)
    assert b"Traceback" not in terminal.output


def test_a_lost_terminal_ends_it(start: Callable[..., Terminal]) -> None:
    terminal = start()
    terminal.ready()
    os.close(terminal.slave)
    os.close(terminal.master)
    assert terminal.process.wait(20) == 0
    state = Path(os.environ["XDG_STATE_HOME"])
    assert not list(state.rglob("crash-*"))


def test_suspend_and_come_back(start: Callable[..., Terminal]) -> None:
    terminal = start()
    terminal.ready()
    terminal.type(b"\x1a")
    end = time.monotonic() + 20
    while _state(terminal) != "T" and time.monotonic() < end:
        terminal.read(0.1)
    assert _state(terminal) == "T"
    terminal.read(20, b"\x1b[?1049l")
    assert b"\x1b[?1049l" in terminal.output
    terminal.read(0.1)
    terminal.output = b""
    terminal.process.send_signal(signal.SIGCONT)
    terminal.ready()
    assert b"\x1b[?1049h" in terminal.output
    terminal.type(b"q")
    assert terminal.wait() == 0


BROKEN = """
import sys
from hudtui.tui import app as module

class Broken(module.HudtuiApp):
    def on_paste(self):
        key = "sk-secret-value"
        raise RuntimeError("[bold]no[/bold]")

module.HudtuiApp = Broken
sys.exit(module.run_app())
"""


@pytest.mark.defect
def test_a_crash_leaves_plain_words_and_a_file(start: Callable[..., Terminal]) -> None:
    terminal = start("-c", BROKEN)
    terminal.ready()
    terminal.type(b"\x1b[200~pasted\x1b[201~")
    assert terminal.wait() == 1
    assert restored(terminal)
    said = terminal.output.rpartition(b"\x1b[?1049l")[2]
    assert b"hudtui broke" in said and b"Traceback" not in said
    (crash,) = Path(os.environ["XDG_STATE_HOME"]).rglob("crash-*.txt")
    assert str(crash).encode() in said.replace(b"\r\n", b"")
    text = crash.read_text()
    assert "RuntimeError: [bold]no[/bold]" in text and "sk-secret-value" not in text.replace(
        'key = "sk-secret-value"', ""
    )
    assert crash.stat().st_mode & 0o077 == 0


async def test_an_app_that_follows_another_finds_no_open_files_of_it(project: Path) -> None:
    app = HudtuiApp(project)
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        driver = TerminalDriver(app)
        assert set(os.listdir("/proc/self/fd")) > before
        driver.close()
        driver.close()
        driver.disable_input()  # late: nothing is written into a file of somebody else
    assert set(os.listdir("/proc/self/fd")) == before


def _state(terminal: Terminal) -> str:
    return Path(f"/proc/{terminal.process.pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    "variable", [{"NO_COLOR": "1"}, {"HUDTUI_THEME": "monochrome"}], ids=["NO_COLOR", "theme"]
)
def test_monochrome_sends_no_colour_at_all(
    start: Callable[..., Terminal], variable: dict[str, str]
) -> None:
    terminal = start(**variable)
    terminal.ready()
    for key in (b"?", b"\x1b", b",", b"\x10"):
        terminal.type(key)
        terminal.read(1.5)
    codes = re.findall(rb"\x1b\[([\d;]*)m", terminal.output)
    assert codes, "styles are sent"
    allowed = {b"", b"0", b"1", b"2", b"3", b"4", b"7", b"9", b"39", b"49"}
    assert {part for code in codes for part in code.split(b";")} <= allowed


def test_without_a_terminal_it_says_so(own_world: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hudtui"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env=dict(os.environ),
    )
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr and done.stdout == ""


def test_an_end_that_was_not_asked_for_is_no_success(start: Callable[..., Terminal]) -> None:
    code = (
        "from hudtui.tui import app\n"
        "async def end(self): self._close_messages_no_wait()\n"
        "app.HudtuiApp._painted = end\n"
        "raise SystemExit(app.run_app())\n"
    )
    terminal = start("-c", code)
    assert terminal.wait(60) == 1
    assert b"ended without having been asked" in terminal.output and restored(terminal)


def test_a_terminal_without_unicode_gets_ascii(start: Callable[..., Terminal]) -> None:
    terminal = start(LC_ALL="C")
    terminal.ready()
    for key in (b"?", b"\x1b", b"1", b"5", b",", b"\x10"):
        terminal.type(key)
        terminal.read(1.0)
    assert terminal.output.isascii()
    assert b"environment" in terminal.output
