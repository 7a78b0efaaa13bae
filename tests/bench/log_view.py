"""How the log pane takes a flood, beside Textual's own Log and RichLog in the same run, on a real
pseudo-terminal.

    python tests/bench/log_view.py [--seconds 5] [--rates 1000,10000,50000,200000]

Each pane is fed lines of 130 characters that are ready, in batches, ten a second, and follows the
end. Printed: processor time of the whole app; the longest time that one piece of work took of the
processor (while it lasts no key works: this is the longest UI frame) and the longest time by the
clock in which the event loop was held up, other programs' work included; the lines that were not
taken in yet when the feeding ended; memory; and the processor time beside that of Textual's Log.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import select
import subprocess
import sys
import tempfile
from pathlib import Path

CHILD = '''
import asyncio, json, resource, sys, time
from pathlib import Path
from hudtui.tui.app import HudtuiApp
from hudtui.tui.screen import HudtuiScreen

kind, rate, seconds, out = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]

class Bench(HudtuiScreen):
    NAME = "bench"
    def content(self):
        if kind == "LogView":
            from hudtui.tui.log.view import LogView
            self.pane = LogView()
        elif kind == "Log":
            from textual.widgets import Log
            self.pane = Log(max_lines=100_000)
        else:
            from textual.widgets import RichLog
            self.pane = RichLog(max_lines=100_000)
        yield self.pane

    def feed(self, lines):
        if kind == "LogView":
            self.pane.append(lines)
        elif kind == "Log":
            self.pane.write_lines(lines)
        else:
            for line in lines:
                self.pane.write(line)

    def dropped(self):
        return self.pane.buffer.dropped if kind == "LogView" else 0

    def last(self):
        """Number of the newest line on screen."""
        if kind == "LogView":
            return self.pane.buffer.end
        return None

class App(HudtuiApp):
    def on_mount(self):
        super().on_mount()
        self.run_worker(self.bench(), name="bench")

    async def bench(self):
        await asyncio.sleep(1.5)
        screen = Bench()
        await self.push_screen(screen)
        await asyncio.sleep(0.5)
        stall = 0.0
        async def beat():
            nonlocal stall
            while True:
                before = time.monotonic()
                await asyncio.sleep(0.005)
                stall = max(stall, time.monotonic() - before - 0.005)
        heart = asyncio.create_task(beat())
        longest, run = 0.0, asyncio.events.Handle._run
        def measured(handle):
            nonlocal longest
            before = time.thread_time()
            run(handle)
            longest = max(longest, time.thread_time() - before)
        asyncio.events.Handle._run = measured
        line = "2026-11-20 12:00:00 INFO step %d loss 0.5 "
        stock = [(line % n).ljust(130, ".") for n in range(20_000)] * 3
        fed = 0
        cpu, begun = time.process_time(), time.monotonic()
        while (spent := time.monotonic() - begun) < seconds:
            due = int(rate * (spent + 0.1)) - fed
            screen.feed(stock[fed % 20_000 : fed % 20_000 + due])
            fed += due
            await asyncio.sleep(max(begun + (int(spent * 10) + 1) / 10 - time.monotonic(), 0))
        spent = time.monotonic() - begun
        cpu = time.process_time() - cpu
        last = screen.last()
        begun = time.monotonic()
        while last is not None and screen.last() < fed:
            await asyncio.sleep(0.01)
        heart.cancel()
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        Path(out).write_text(json.dumps(dict(
            cpu=cpu / spent, stall=stall, longest=longest, dropped=screen.dropped(),
            behind=None if last is None else fed - last,
            caught_up=time.monotonic() - begun, fed=fed, rss=rss)))
        self.exit()

App().run()
'''


def measure(kind: str, rate: int, seconds: float, folder: Path) -> dict[str, float]:
    """Feed one pane in a process and a pseudo-terminal of its own."""
    (folder / "child.py").write_text(CHILD)
    out = folder / "out.json"
    out.unlink(missing_ok=True)
    master, slave = pty.openpty()
    env = {
        **os.environ,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "HUDTUI_HOME": str(folder),
        "COLUMNS": "160",
        "LINES": "48",
    }
    process = subprocess.Popen(
        [sys.executable, str(folder / "child.py"), kind, str(rate), str(seconds), str(out)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=env,
        cwd=folder,
        start_new_session=True,
    )
    os.close(slave)
    written = 0
    while process.poll() is None:
        if select.select([master], [], [], 0.1)[0]:
            try:
                written += len(os.read(master, 1 << 16))
            except OSError:
                break
    process.wait()
    os.close(master)
    found: dict[str, float] = json.loads(out.read_text())
    return found | {"written": written}


def main() -> None:
    """Measure the panes in turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rates", default="1000,10000,50000,200000")
    parser.add_argument("--panes", default="Log,LogView,RichLog")
    given = parser.parse_args()
    print(
        f"{'pane':8} {'lines/s':>8} {'CPU %':>6} {'longest':>9} {'stall':>9} {'behind':>12} "
        f"{'caught up':>10} {'MiB':>5}  ratio"
    )
    cpu: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        for rate in map(int, given.rates.split(",")):
            for kind in given.panes.split(","):
                if kind == "RichLog" and rate > 10_000:
                    continue  # it needs minutes
                found = measure(kind, rate, given.seconds, Path(name))
                cpu.setdefault(rate, {})[kind] = found["cpu"]
                behind = "" if found["behind"] is None else f"{found['behind']:.0f} lines"
                told = (
                    f"  {found['cpu'] / cpu[rate]['Log']:.1f} x Log"
                    if kind != "Log" and "Log" in cpu[rate]
                    else ""
                )
                gone = (
                    f"  {found['dropped']:,.0f} of {found['fed']:,.0f} lines are no longer held"
                    if found["dropped"]
                    else ""
                )
                print(
                    f"{kind:8} {rate:8} {found['cpu'] * 100:6.1f} {found['longest'] * 1000:6.0f} "
                    f"ms {found['stall'] * 1000:6.0f} ms {behind:>12} {found['caught_up']:8.2f} s "
                    f"{found['rss']:5.0f}{told}{gone}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
