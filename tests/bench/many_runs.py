"""What it costs to monitor many runs at once: state, heartbeat, numbers, signs of trouble, and the
lines of their logs.

    python tests/bench/many_runs.py [--runs 100] [--seconds 20]

One process writes, for each run, a line of its log, one of its metrics and a heartbeat every
second. Another one looks at all of them as the app does, every two seconds; a third follows all of
their logs line by line. Printed: processor time in percent of one core, without the start; how many
views or lines there were; and, as a floor, what `tail -F` of all those logs takes into a reader
that only splits lines.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

SCREEN_EVERY = 2.0


class Clock:
    """Processor time and time of this process, from a moment on."""

    def start(self) -> None:
        self.cpu, self.begun = time.process_time(), time.monotonic()

    def share(self, extra: float) -> float:
        return (time.process_time() - self.cpu + extra) / (time.monotonic() - self.begun)


clock = Clock()


def make(folder: Path, runs: int) -> None:
    """A store with runs that are going on."""
    from hudtui.core.process import machine_label
    from hudtui.core.runs.spec import RunSpec
    from hudtui.core.runs.store import RunRecord, RunStore
    from hudtui.core.training.plan import Plan, PlanOutput, Stage

    store, now = RunStore(folder / ".hudtui"), time.time()
    for number in range(runs):
        run = f"run-{number}"
        place = store.folder / run
        plan = Plan(
            "rollouts",
            (Stage("play", ("true",)),),
            outputs=(PlanOutput("out/metrics.jsonl", "metrics"),),
        )
        spec = RunSpec("rollouts", run, str(folder))
        store.add(
            RunRecord(run, now, run, "rollouts", "local", machine_label(), str(place), spec, plan)
        )
        for part in ("logs", "out"):
            (place / part).mkdir(parents=True)
        events = [{"seq": 1, "at": now, "type": "started", "data": {"mode": "tmux"}}]
        events.append({"seq": 2, "at": now, "type": "stage_started", "data": {"stage": "play"}})
        (place / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        (place / "logs" / "play.log").touch()
        store.mirror(run, events)


def write(folder: Path, runs: int, seconds: float) -> None:
    """A second of every run, each second."""
    begun = time.monotonic()
    for second in range(int(seconds)):
        for number in range(runs):
            place = folder / ".hudtui" / "runs" / f"run-{number}"
            with (place / "logs" / "play.log").open("a") as log:
                log.write(
                    f"12:00:00 INFO episode {second}/1000 task=board-{number} reward=0.5 turns=20 "
                    "stop=done\n"
                )
            with (place / "out" / "metrics.jsonl").open("a") as metrics:
                metrics.write(
                    json.dumps(
                        {"step": second, "task": f"t{second}", "reward": 0.5, "time": time.time()}
                    )
                    + "\n"
                )
            status = {
                "state": "running",
                "heartbeat": time.time(),
                "stages": {"play": {"state": "running"}},
            }
            (place / "status.new").write_text(json.dumps(status))
            (place / "status.new").replace(place / "status.json")
        time.sleep(max(begun + second + 1 - time.monotonic(), 0))


async def look(folder: Path, runs: int, seconds: float) -> int:
    """Views of all runs, as the app's list takes them."""
    from hudtui.core.runs.store import RunStore
    from hudtui.core.runs.watch import Monitor

    monitor = Monitor(RunStore(folder / ".hudtui"))
    for _ in range(2):  # the start: what was there before is taken over into the store
        for number in range(runs):
            await monitor.view(f"run-{number}")
    clock.start()
    begun, views = time.monotonic(), 0
    while time.monotonic() - begun < seconds:
        started = time.monotonic()
        for number in range(runs):
            await monitor.view(f"run-{number}")
            views += 1
        await asyncio.sleep(max(SCREEN_EVERY - (time.monotonic() - started), 0))
    return views


async def follow(folder: Path, runs: int, seconds: float) -> int:
    """The lines of all logs."""
    from hudtui.core.remote.local import LocalHost
    from hudtui.core.remote.logs import LineSplitter

    lines = 0

    async def one(number: int) -> None:
        nonlocal lines
        feed = LineSplitter()
        path = folder / ".hudtui" / "runs" / f"run-{number}" / "logs" / "play.log"
        async with aclosing(LocalHost().follow(str(path))) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                lines += len(feed.feed(chunk).done)

    clock.start()
    tasks = [asyncio.create_task(one(number)) for number in range(runs)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return lines


def tail(folder: Path, runs: int, seconds: float) -> tuple[int, float]:
    """The floor: lines, and the processor time of `tail`."""
    paths = [
        str(folder / ".hudtui" / "runs" / f"run-{number}" / "logs" / "play.log")
        for number in range(runs)
    ]
    process = subprocess.Popen(
        ["tail", "-q", "-n", "+1", "-F", *paths], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    lines, begun = 0, time.monotonic()
    while time.monotonic() - begun < seconds:
        time.sleep(0.1)
        lines += (process.stdout.read() or b"").count(b"\n")
    process.terminate()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return lines, usage.ru_utime + usage.ru_stime


def main() -> None:
    """Write, and let each one look for as long."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, given.runs)
        roles = ("tail -F", "follow", "look")
        words = [str(folder), str(given.runs)]
        writer = subprocess.Popen(
            [sys.executable, __file__, "--as", "write", *words, str(given.seconds + 10)]
        )
        watchers = {
            role: subprocess.Popen(
                [sys.executable, __file__, "--as", role, *words, str(given.seconds)],
                stdout=subprocess.PIPE,
            )
            for role in roles
        }
        found = {role: json.loads(process.communicate()[0]) for role, process in watchers.items()}
        writer.wait()
    print(f"{given.runs} runs, a line a second each, {given.seconds:g} s")
    print(f"{'':<10} {'CPU %':>6} {'MiB':>5}   count")
    for role in roles:
        row = found[role]
        print(
            f"{role:<10} {row['cpu']:>6.1f} {row['rss']:>5.0f}   {row['count']:,} "
            f"{'views' if role == 'look' else 'lines'}"
        )
    print(
        "ratio of CPU, follow to tail: "
        f"{found['follow']['cpu'] / max(found['tail -F']['cpu'], 0.1):.1f}"
    )


def play(role: str, folder: Path, runs: int, seconds: float) -> None:
    """One of the processes."""
    if role == "write":
        write(folder, runs, seconds)
        return
    import hudtui.core.remote.logs
    import hudtui.core.runs.watch  # noqa: F401  imported before the clock runs

    extra = 0.0
    clock.start()
    if role == "tail -F":
        count, extra = tail(folder, runs, seconds)
    else:
        count = asyncio.run((look if role == "look" else follow)(folder, runs, seconds))
    spent = clock.share(extra)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"cpu": spent * 100, "count": count, "rss": rss}))


if __name__ == "__main__":
    if "--as" in sys.argv:
        role, place, number, length = sys.argv[2:]
        play(role, Path(place), int(number), float(length))
    else:
        main()
