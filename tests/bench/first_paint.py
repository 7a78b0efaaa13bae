"""Time from exec to the first paint, beside a minimal Textual app with Header and Footer in the
same run.

    python tests/bench/first_paint.py [--runs 15] [--size 160x48] [--bare]

Prints a table: the first frame (the keys are there), the full picture (the project was read), and
the ratio to the minimal app. Under tmux it is the time; with `--bare`, in a pseudo-terminal that
answers no question, the processor time, which is the same on a busy machine.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import shlex
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

FLOOR = """
from textual.app import App
from textual.widgets import Footer, Header, Static

class Floor(App):
    BINDINGS = [("x", "quit", "Leave")]
    def compose(self):
        yield Header()
        yield Static("the minimal app")
        yield Footer()

Floor().run()
"""

POLL = 0.01


def measure(
    tmux: list[str], argv: list[str], markers: list[str], size: tuple[int, int], folder: Path
) -> list[float]:
    """Seconds from exec until each marker stands on the screen."""
    command = "exec " + " ".join(shlex.quote(part) for part in argv)
    where = ["-x", str(size[0]), "-y", str(size[1]), "-c", str(folder)]
    begun = time.perf_counter()
    subprocess.run([*tmux, "new-session", "-d", "-s", "it", *where, command], check=True)
    try:
        found: list[float] = []
        while len(found) < len(markers):
            shown = subprocess.run(
                [*tmux, "capture-pane", "-p", "-t", "it"], capture_output=True, text=True
            ).stdout
            now = time.perf_counter() - begun
            while len(found) < len(markers) and markers[len(found)] in shown:
                found.append(now)
            if now > 60:
                raise SystemExit(f"nothing came within a minute; on screen:\n{shown}")
            time.sleep(POLL)
        return found
    finally:
        subprocess.run([*tmux, "kill-session", "-t", "it"], capture_output=True)
        time.sleep(0.3)


def measure_bare(
    argv: list[str], markers: list[str], size: tuple[int, int], folder: Path, env: dict[str, str]
) -> list[float]:
    """Seconds of processor time until each marker was written to a bare pseudo-terminal."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        os.chdir(folder)
        os.execve(argv[0], argv, env)
    written, used = b"", list[float]()
    try:
        while len(used) < len(markers):
            written += os.read(terminal, 65536)
            now = processor_time(child)
            while len(used) < len(markers) and markers[len(used)].encode() in written:
                used.append(now)
        return used
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def processor_time(process: int) -> float:
    """Seconds that a process has computed, to the microsecond; /proc counts hundredths.

    Its clock has the number that `clock_getcpuclockid(3)` gives on Linux.
    """
    return time.clock_gettime(~process << 3 | 2)


def main() -> None:
    """Measure in turns, so that whatever else the machine does hits both alike."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--size", default="160x48")
    parser.add_argument("--bare", action="store_true")
    given = parser.parse_args()
    width, _, height = given.size.partition("x")
    size = (int(width), int(height))
    kept = ("PATH", "LANG", "LC_ALL")
    results: dict[str, list[float]] = {
        "minimal app": [],
        "hudtui, first paint": [],
        "hudtui, full paint": [],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").mkdir()
        (folder / "floor.py").write_text(FLOOR)
        env = {key: os.environ[key] for key in kept if key in os.environ}
        env |= {
            "TERM": "xterm-256color",
            "HOME": str(folder / "home"),
            "HUDTUI_HOME": str(folder / "home"),
        }
        tmux = ["tmux", "-S", str(folder / "socket"), "-f", os.devnull]
        # A server that runs already: its own start is not measured.
        subprocess.run(
            [*tmux, "new-session", "-d", "-s", "hold", "sleep 3600"], check=True, env=env
        )
        try:
            for turn in range(given.runs + 1):
                commands = (
                    ([sys.executable, str(folder / "floor.py")], ["Leave"]),
                    ([sys.executable, "-m", "hudtui"], ["Help", "Welcome"]),
                )
                floor, ours = (
                    measure_bare(argv, markers, size, folder / "work", env)
                    if given.bare
                    else measure(tmux, argv, markers, size, folder / "work")
                    for argv, markers in commands
                )
                if turn:  # the first turn warms the disk cache and writes bytecode
                    for row, value in zip(results, [*floor, *ours], strict=True):
                        results[row].append(value)
        finally:
            subprocess.run([*tmux, "kill-server"], capture_output=True)
    base = statistics.median(results["minimal app"])
    print(
        f"{'exec to ...':22} {'median s':>9} {'min':>6} {'max':>6} {'ratio':>6}   {given.runs} "
        f"runs in turns, {given.size}, {'bare, processor time' if given.bare else 'tmux'}"
    )
    for row, values in results.items():
        middle = statistics.median(values)
        print(f"{row:22} {middle:9.3f} {min(values):6.3f} {max(values):6.3f} {middle / base:6.2f}")


if __name__ == "__main__":
    main()
