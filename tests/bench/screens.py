"""What each screen costs: bytes on the wire, processor time and delay of a key, idle output,
memory; a minimal app is the floor.

    python tests/bench/screens.py [--size 160x48] [--steps 25] [--idle 6] [--ssh] [--keys launch=5,n
    ...]

The real app runs in a pseudo-terminal over a demo workspace with 2 000 tasks, 60 runs, a log of 20
000 lines and an episode of 5 MB; the machines are the simulator's. Each screen is opened by its
keys, then one key is pressed again and again. `a key` is what the terminal was sent for it in bytes
and `ms` the processor time of all its threads (medians), `paint` the time until the answer to the
key had come (95th percentile; on a busy machine it tells more of the machine), `ratio` `ms` beside
the same key in the minimal app: a table of 2 000 rows, a field or a log of Textual's own. `held`
and `ms` after it are what a key costs when it is held down, 30 a second. `opens` is the processor
time from the key until the screen is quiet, `idle` what is sent while no key is pressed, and `MiB`
the memory after the keys. At the end, beside the minimal app: `paint` of all keys together, and the
memory after the walk through all screens. With --ssh everything goes through a real sshd on
loopback and OpenSSH's client: what the client's terminal got.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `support`

from support.grid import Grid

if TYPE_CHECKING:
    from hudtui.core.runs.store import RunRecord, RunStore

FLOOR = """
import sys
from textual.app import App
from textual.widgets import DataTable, Footer, Header, Input, RichLog

class Floor(App):
    BINDINGS = [("ctrl+x", "quit", "Leave")]
    def compose(self):
        yield Header()
        yield {"table": DataTable, "field": Input, "log": RichLog}[sys.argv[1]]()
        yield Footer()
    def on_mount(self):
        if sys.argv[1] == "table":
            table = self.query_one(DataTable)
            table.cursor_type = "row"
            table.add_columns("id", "prompt", "server", "tool")
            for n in range(2000):
                table.add_row(f"t{n}", f"Play a game of 2048 on board {n}.", "text-2048", "setup")
        if sys.argv[1] == "log":
            rest = "loss=0.1 reward=0.5 grad_norm=1.5 learning_rate=1e-06"
            for n in range(2000):
                self.query_one(RichLog).write(f"12:00:00 INFO step={n} {rest}")

Floor().run()
"""

DOWN, UP, PAGE_UP, TAB, ESCAPE = b"\x1b[B", b"\x1b[A", b"\x1b[5~", b"\t", b"\x1b"
NAMED = {
    "down": DOWN,
    "up": UP,
    "pageup": PAGE_UP,
    "tab": TAB,
    "escape": ESCAPE,
    "enter": b"\r",
    "ctrl+home": b"\x1b[1;5H",
}
QUIET = 0.35
"""Seconds without output after which a screen counts as painted: more than what screens wait for
the end of a burst of keys."""
BURST = 0.008
"""Seconds without output that end one answer."""
REPEAT = 1 / 30
"""Seconds between two keys when one is held down."""


@dataclass(frozen=True)
class Walk:
    """A screen, and the key to press on it."""

    name: str
    keys: str
    """Opens the screen: names or characters with commas between them."""
    marker: str
    """Stands on the screen when it is open."""
    floor: str
    """The part of the minimal app that is compared with."""
    step: str = "down"
    """Pressed in turns, with commas between them."""
    before: str = ""
    """Pressed once before the steps."""


WALKS = (
    Walk("environment: tools", "1", "move", "table", "down,down,down,up,up,up"),
    Walk("mapping: editor", "2", "2048", "field"),
    Walk("mapping: typing", "2", "2048", "field", "x"),
    Walk("dataset: tasks", "3", "board-", "table"),
    Walk("compute: offers", "4", "H100", "table"),
    Walk("runs: list", "5", "demo", "table"),
    Walk("runs: log", "5", "demo", "log", "pageup", before="g,tab,tab"),
    Walk("runs: charts", "5", "demo", "table", "left,left,left,right,right,right", before="m"),
    Walk("results: groups", "5,R", "Groups", "table", "down,down,down,up,up,up"),
    Walk("results: record", "5,down,R,enter,enter,[", '"entry": {', "log"),
    Walk("launch: field", "5,n", "tasks", "field", "x"),
    Walk("settings: list", "comma", "HUD_", "table"),
)


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(
        self, argv: list[str], size: tuple[int, int], folder: Path, env: dict[str, str]
    ) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
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
        self.pid = self.process.pid
        """The process whose time and memory are told: another one, where this one is a client."""
        self._grid, self._unread = Grid(*size), b""
        self.taken = 0
        """Bytes that the program has written so far."""

    def take(self) -> bytes:
        """What the program has written."""
        data = os.read(self.master, 1 << 16)
        self._unread += data
        self.taken += len(data)
        return data

    def text(self) -> str:
        """What is on the screen."""
        self._grid.send(self._unread)
        self._unread = b""
        return self._grid.text

    def read(self, quiet: float, longest: float = 30.0) -> tuple[int, float]:
        """Take what comes until nothing came for a time. Return the bytes, and when the last of
        them came."""
        count, last, end = 0, time.perf_counter(), time.perf_counter() + longest
        while select.select([self.master], [], [], quiet)[0] and time.perf_counter() < end:
            if not (data := self.take()):
                break
            count, last = count + len(data), time.perf_counter()
        return count, last

    def until(self, marker: str, seconds: float = 30.0) -> None:
        end = time.perf_counter() + seconds
        while marker not in self.text():
            self.read(0.05, 0.5)
            if time.perf_counter() > end:
                raise SystemExit(f"{marker!r} did not come within {seconds:g} s:\n{self.text()}")

    def press(self, keys: bytes) -> tuple[int, float, float]:
        """Press a key and wait until the screen is quiet: bytes, seconds until the first answer was
        complete, processor time."""
        cpu, begun = self.cpu(), time.perf_counter()
        os.write(self.master, keys)
        if not select.select([self.master], [], [], QUIET)[0]:
            return 0, 0.0, self.cpu() - cpu
        count, last = self.read(BURST)
        more, _ = self.read(QUIET)
        return count + more, last - begun, self.cpu() - cpu

    def cpu(self) -> float:
        """Processor time of all threads so far, also of those that ended, in seconds."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def memory(self, field: str = "VmRSS") -> float:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.findall(rf"{field}:\s+(\d+)", status)[0]) / 1024

    def alone(self) -> float:
        """Memory in MiB, with a fair share of what other processes use too."""
        told = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        return int(re.findall(r"Pss:\s+(\d+)", told)[0]) / 1024

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        os.close(self.master)


def named(keys: str) -> list[bytes]:
    """Bytes of keys that stand with commas between them."""
    return [
        NAMED.get(key) or (b"," if key == "comma" else key.encode())
        for key in keys.split(",")
        if key
    ]


def grow(folder: Path, runs: int, tasks: int, lines: int) -> None:
    """Make the demo's workspace one that is worked in: more tasks, more runs, and a long log."""
    from hudtui.core.runs.store import RunStore

    path = folder / "tasks.json"
    first = json.loads(path.read_text())
    path.write_text(
        json.dumps(
            [
                task | {"id": f"{task['id']}-{n}"}
                for n in range(tasks // len(first))
                for task in first
            ],
            indent=1,
        )
    )
    store = RunStore(folder / ".hudtui")
    record = store.record(store.ids()[0])
    place = Path(record.folder)
    words = (
        "INFO step={} loss=0.1234 reward=0.5 grad_norm=1.5 learning_rate=1e-06 epoch=0.01 "
        "tokens=20480"
    )
    for number in range(runs):
        other = replace(
            record,
            id=f"walk-{number}",
            name=f"walk-{number}",
            folder=str(place.parent / f"walk-{number}"),
        )
        shutil.copytree(place, other.folder)
        store.add(replace(other, created=record.created + 1 + number))
        store.mirror(
            other.id,
            [json.loads(line) for line in (place / "events.jsonl").read_text().splitlines()],
        )
        if number == runs - 1:
            with (Path(other.folder) / "logs" / "play.log").open("a") as log:
                log.writelines(f"12:00:{n % 60:02} {words.format(n)}\n" for n in range(lines))
    _add_long_episode(store, replace(record, created=record.created + runs - 0.5))


def _add_long_episode(store: RunStore, record: RunRecord, size: int = 5_000_000) -> None:
    """Add a run with one episode, whose record has so many bytes."""
    place, folder = Path(record.folder), store.folder / "long"
    shutil.copytree(place, folder)
    store.add(replace(record, id="long", name="long", folder=str(folder)))
    store.mirror(
        "long", [json.loads(line) for line in (place / "events.jsonl").read_text().splitlines()]
    )
    (traces,) = folder.glob("**/traces.jsonl")
    episode = json.loads(traces.read_text().splitlines()[0])
    times = size // len(json.dumps(episode)) + 1
    more = {
        "messages": episode["messages"] * times,
        "turns": episode["turns"] * times,
        "turn_count": len(episode["turns"]) * times,
    }
    traces.write_text(json.dumps(episode | more) + "\n")


@contextlib.contextmanager
def workspace() -> Iterator[tuple[Path, dict[str, str]]]:
    """A demo workspace, and the environment of the programs that run in it."""
    with tempfile.TemporaryDirectory(prefix="hb-", dir="/tmp", ignore_cleanup_errors=True) as name:
        home = Path(name)
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "LC_ALL") if key in os.environ}
        env = kept | {
            "HOME": name,
            "HUDTUI_HOME": f"{name}/home",
            "TMUX_TMPDIR": name,
            "TERM": "xterm-256color",
        }
        env |= {"COLORTERM": "truecolor", "LC_ALL": "C.UTF-8", "TEXTUAL_ANIMATIONS": "none"}
        here = [sys.executable, "-m", "hudtui"]
        quiet = {
            "env": env,
            "check": True,
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
        }
        subprocess.run([*here, "demo", f"{name}/demo", "--headless"], **quiet)  # type: ignore[call-overload]
        subprocess.run([sys.executable, __file__, "--grow", f"{name}/demo"], **quiet)  # type: ignore[call-overload]
        try:
            yield home / "demo", env
        finally:
            with contextlib.suppress(OSError, ValueError):
                os.kill(
                    json.loads((home / "home/state/simulator/server.json").read_text())["pid"],
                    signal.SIGTERM,
                )
            subprocess.run(["tmux", "kill-server"], env=env, capture_output=True)


@contextlib.contextmanager
def remote(env: dict[str, str], wanted: bool) -> Iterator[list[str]]:
    """What stands before a command so that it runs behind a real sshd; nothing where that is not
    wanted."""
    if not wanted:
        yield []
        return
    from support import sshd

    with sshd.running_server() as server:
        server.set_world(env)
        options = [
            "-F",
            "none",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            f"UserKnownHostsFile={server.folder}/known",
        ]
        yield [
            "ssh",
            *options,
            "-o",
            "LogLevel=ERROR",
            "-tt",
            "-p",
            str(server.port),
            "-i",
            str(server.key),
            "127.0.0.1",
        ]


@contextlib.contextmanager
def started(
    before: list[str], argv: list[str], size: tuple[int, int], folder: Path, env: dict[str, str]
) -> Iterator[Terminal]:
    """The program on a terminal, and the terminal quiet."""
    where = folder / f"pid-{time.monotonic_ns()}"
    inner = f"cd {shlex.quote(str(folder))}; echo $$ > {where.name}; exec {shlex.join(argv)}"
    terminal = Terminal([*before, inner] if before else ["sh", "-c", inner], size, folder, env)
    try:
        terminal.read(2.0)
        terminal.pid = int(where.read_text())
        where.unlink()
        yield terminal
    finally:
        terminal.close()


def late(times: list[float]) -> float:
    """The 95th percentile."""
    return sorted(times)[int(len(times) * 0.95)] if times else 0.0


@dataclass
class Row:
    """What one key cost."""

    name: str
    counts: list[int]
    paints: list[float]
    cpu: list[float]
    opens: float = 0.0
    opened: int = 0
    idle: int = 0
    memory: float = 0.0
    held: tuple[float, float] = (0.0, 0.0)
    """Bytes and processor time a key, when it is held down."""

    def cost(self) -> float:
        return statistics.median(self.cpu)

    def text(self, floor: Row) -> str:
        ratio = self.cost() / max(floor.cost(), 1e-5)
        middle = statistics.median(self.counts)
        return (
            f"{self.name:20} {self.opens * 1000:8.0f} {self.opened:8} {self.idle:6} {middle:8.0f} "
            f"{max(self.counts):8} {self.cost() * 1000:7.1f} {late(self.paints) * 1000:7.1f} "
            f"{ratio:7.2f} {self.held[0]:8.0f} {self.held[1] * 1000:7.1f} {self.memory:5.0f}"
        )


def steps(terminal: Terminal, name: str, keys: list[bytes], count: int) -> Row:
    """The keys in turns, again and again; the first two are not counted."""
    found = [terminal.press(keys[number % len(keys)]) for number in range(count + 2)][2:]
    row = Row(
        name,
        [one[0] for one in found],
        [one[1] for one in found if one[0]],
        [one[2] for one in found],
    )
    cpu, sent = terminal.cpu(), 0
    for number in range(count):
        os.write(terminal.master, keys[number % len(keys)])
        end = time.perf_counter() + REPEAT
        while (left := end - time.perf_counter()) > 0:
            if select.select([terminal.master], [], [], left)[0]:
                sent += len(terminal.take())
    sent += terminal.read(QUIET)[0]
    row.held = sent / count, (terminal.cpu() - cpu) / count
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="160x48")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument(
        "--idle", type=float, default=6.0, help="seconds without a key on each screen"
    )
    parser.add_argument("--ssh", action="store_true")
    parser.add_argument(
        "--keys", nargs="*", default=[], metavar="NAME=KEYS", help="other keys that open a screen"
    )
    parser.add_argument("--only", default="", help="screens whose names hold this")
    parser.add_argument("--grow", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.grow:
        return grow(given.grow, 60, 2000, 20_000)
    width, _, height = given.size.partition("x")
    size = (int(width), int(height))
    other = dict(one.split("=", 1) for one in given.keys)
    walks = [
        replace(walk, keys=other.get(walk.name.partition(":")[0], walk.keys))
        for walk in WALKS
        if given.only in walk.name
    ]
    with workspace() as (folder, env), remote(env, given.ssh) as before:
        (folder.parent / "floor.py").write_text(FLOOR)
        floors = {}
        for part, key in (("table", DOWN), ("field", b"x"), ("log", PAGE_UP)):
            with started(
                before, [sys.executable, str(folder.parent / "floor.py"), part], size, folder, env
            ) as terminal:
                terminal.press(TAB)
                terminal.press(b"\x1b[F")  # a log begins at its end: nothing changes
                floors[part] = steps(terminal, f"floor: {part}", [key], given.steps)
                floors[part].memory = terminal.memory()
        print(f"{given.size}{', over ssh' if given.ssh else ''}, {given.steps} keys each")
        heads = (
            f"{'opens ms':>8} {'bytes':>8} {'idle':>6} {'a key':>8} {'most':>8} {'ms':>7} "
            f"{'paint':>7} {'ratio':>7} {'held':>8} {'ms':>7} {'MiB':>5}"
        )
        print(f"{'':20} {heads}")
        for part, row in floors.items():
            print(row.text(floors[part]))
        with started(before, [sys.executable, "-m", "hudtui"], size, folder, env) as terminal:
            terminal.read(3.0)  # the app prepares what screens need while nothing is pressed
            count, _ = terminal.read(given.idle + 1, given.idle)
            print(f"{'home':20} {'':8} {'':8} {count:6}   memory {terminal.memory():.0f} MiB")
            paints: list[float] = []
            for walk in walks:
                terminal.press(b"0")
                *way, last = named(walk.keys)
                for key in way:
                    terminal.press(key)
                sent, cpu = terminal.taken, terminal.cpu()
                terminal.press(last)
                terminal.until(walk.marker)
                terminal.read(QUIET)
                opened, cost = terminal.taken - sent, terminal.cpu() - cpu
                terminal.read(1.0)
                for key in named(walk.before):
                    terminal.press(key)
                begun = time.perf_counter()
                idle = 0
                while (left := given.idle - (time.perf_counter() - begun)) > 0:
                    idle += terminal.read(left, left)[0]
                row = steps(terminal, walk.name, named(walk.step), given.steps)
                if not row.paints:
                    raise SystemExit(
                        f"{walk.name}: no key changed anything on the screen, so that nothing was "
                        "measured"
                    )
                row.opens, row.opened, row.idle, row.memory = cost, opened, idle, terminal.memory()
                print(row.text(floors[walk.floor]), flush=True)
                paints += row.paints
                terminal.press(ESCAPE)
                terminal.press(ESCAPE)
            least = [one for floor in floors.values() for one in floor.paints]
            slow, floor = late(paints), late(least)
            print(
                f"key to paint, 95th percentile {slow * 1000:.1f} ms, {slow / floor:.1f} times "
                "that of the minimal app"
            )
            memory, least_memory = terminal.memory(), floors["table"].memory
            print(
                f"memory after the walk {memory:.0f} MiB, {terminal.alone():.0f} of them its own "
                f"share, at most {terminal.memory('VmHWM'):.0f}; {memory / least_memory:.1f} times "
                "that of the minimal app"
            )


if __name__ == "__main__":
    main()
