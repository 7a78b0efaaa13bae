"""The whole app with a log that grows, beside `tail -F` and, where it is installed, toolong, on the
same file in turns.

    python tests/bench/log_app.py [--rates 1000,10000,50000] [--seconds 5] [--size-mib 1024]
    [--toolong PATH-OF-tl]

Each follower runs in a pseudo-terminal of 160x48 of its own; hudtui follows the file on its screen
Watch. A writer appends lines of 130 bytes. Printed: processor time of the follower in percent of
one core while lines come, the time until its screen shows the last line after the writer has ended
(`tail` has no screen, but for the terminal's), and memory. With --size-mib a large log is opened:
the time until its last line is on the screen. toolong 1.5 belongs into an environment of its own
(`uv venv X && uv pip install --python X/bin/python toolong==1.5.0`).
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

APP = """
import sys
from pathlib import Path
from hudtui.tui.app import HudtuiApp

class App(HudtuiApp):
    def on_ready(self):
        self.open_screen("run", file=sys.argv[1])

App(Path.cwd()).run()
"""
STAMP = 17
LINE = 130
CONTROL = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b.")


def body(number: int) -> bytes:
    """The end of a line, after its time."""
    colour = "\x1b[32mINFO\x1b[0m " if number % 10 == 0 else "INFO "
    return f"{number:>9} {colour}step loss reward".ljust(LINE - 1 - STAMP, ".").encode() + b"\n"


BODIES = [body(number) for number in range(1000)]


def block(start: int, end: int) -> bytes:
    """Lines of these numbers, each with the time by this machine's clock."""
    stamp = f"{time.monotonic():<{STAMP}.6f}".encode()
    return b"".join(stamp + BODIES[number % 1000] for number in range(start, end))


def write(path: str, rate: int, seconds: float) -> None:
    """Append so many lines a second for so long."""
    total, number, began = int(rate * seconds), 0, time.monotonic()
    with open(path, "ab", buffering=0) as stream:
        while number < total:
            due = min(int((time.monotonic() - began) * rate), total)
            if due > number:
                stream.write(block(number, due))
                number = due
            time.sleep(0.005)


class Terminal:
    """A program on a pseudo-terminal; what it writes is read all the time."""

    def __init__(self, argv: list[str], folder: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 48, 160, 0, 0))
        env = {
            **os.environ,
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "HUDTUI_HOME": folder,
        }
        self.process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=env,
            start_new_session=True,
        )
        os.close(slave)
        self.recent = b""

    def until(self, text: bytes | None, seconds: float) -> bool:
        """Read for a time, or until a text was written."""
        end = time.monotonic() + seconds
        if text is not None and text in CONTROL.sub(b"", self.recent):
            return True
        while (left := end - time.monotonic()) > 0:
            if select.select([self.master], [], [], min(left, 0.05))[0]:
                self.recent = (self.recent + os.read(self.master, 1 << 16))[-400_000:]
                if text is not None and text in CONTROL.sub(b"", self.recent):
                    return True
        return False

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> float:
        """The most that it had, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", default="1000,10000,50000")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--toolong", help="its program, tl")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(APP)
        peers = {
            "tail -F": ["tail", "-n", "+1", "-F"],
            "hudtui": [sys.executable, str(Path(folder) / "app.py")],
        }
        if given.toolong:
            peers["toolong"] = [given.toolong]
        print(f"{'lines/s':>8}  {'follower':<8} {'CPU %':>6} {'behind':>8} {'MiB':>5}")
        for rate in map(int, given.rates.split(",")):
            for name, argv in peers.items():
                path = Path(folder) / f"{rate}-{name.partition(' ')[0]}.log"
                path.write_bytes(block(0, 100))
                terminal = Terminal([*argv, str(path)], folder)
                terminal.until(None, 4.0)
                cpu, begun = terminal.cpu(), time.monotonic()
                writer = subprocess.Popen(
                    [sys.executable, __file__, "--write", str(path), str(rate), str(given.seconds)]
                )
                while writer.poll() is None:
                    terminal.until(None, 0.05)
                share = (terminal.cpu() - cpu) / (time.monotonic() - begun)
                begun = time.monotonic()
                shown = terminal.until(b"the very last line", 60.0)
                behind = f"{time.monotonic() - begun:.2f} s" if shown else "> 60 s"
                print(
                    f"{rate:>8}  {name:<8} {share * 100:>6.1f} {behind:>8} "
                    f"{terminal.memory():>5.0f}",
                    flush=True,
                )
                terminal.close()
                path.unlink()
        if given.size_mib:
            path, piece = Path(folder) / "large.log", block(0, 8192)
            with path.open("wb") as stream:
                while stream.tell() < given.size_mib * 1024 * 1024:
                    stream.write(piece)
                stream.write(b"the very last line\n")
            for name, argv in peers.items():
                if name == "tail -F":
                    continue
                begun = time.monotonic()
                terminal = Terminal([*argv, str(path)], folder)
                shown = terminal.until(b"the very last line", 120.0)
                took = (
                    f"{time.monotonic() - begun:.2f} s, with its start"
                    if shown
                    else "not within 120 s"
                )
                print(
                    f"last line of {given.size_mib} MiB: {name:<8} {took}, {terminal.memory():.0f} "
                    "MiB",
                    flush=True,
                )
                terminal.close()


if __name__ == "__main__":
    if "--write" in sys.argv:
        place, number, length = sys.argv[2:]
        write(place, int(number), float(length))
        with open(place, "ab") as end:
            end.write(b"the very last line\n")
    else:
        main()
