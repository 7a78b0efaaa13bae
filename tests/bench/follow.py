"""How quick following a log is, beside `tail -F` on the same file at the same time.

    python tests/bench/follow.py [--rates 1000,10000,50000] [--seconds 5] [--size-mib 1024]

For each rate one process writes lines of 130 bytes, some coloured; two others follow them: hudtui's
follower with its line feed (decoded, cleaned, folded), and `tail -F` into a reader that only splits
lines. CPU is that of the whole process, in percent of one core, without its start. Lag is the age
of the newest line of each batch when it can be shown. At the end, the last page of a large file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

LINE = 130


STAMP = 17


def body(number: int) -> bytes:
    colour = "\x1b[32mINFO\x1b[0m " if number % 10 == 0 else "INFO "
    return f"{number:>9} {colour}step loss reward".ljust(LINE - 1 - STAMP, ".").encode() + b"\n"


BODIES = [body(number) for number in range(1000)]


def block(start: int, end: int) -> bytes:
    stamp = f"{time.monotonic():<{STAMP}.6f}".encode()
    return b"".join(stamp + BODIES[number % 1000] for number in range(start, end))


def write(path: str, rate: int, seconds: float) -> None:
    total, number, began = int(rate * seconds), 0, time.monotonic()
    with open(path, "ab", buffering=0) as stream:
        while number < total:
            due = min(int((time.monotonic() - began) * rate), total)
            if due > number:
                stream.write(block(number, due))
                number = due
            time.sleep(0.005)


class Meter:
    """Counts lines, and measures the lag and the time spent from the first line to the last."""

    def __init__(self, total: int) -> None:
        self.total, self.count, self.lags = total, 0, []
        self.cpu: float | None = None

    def seen(self, newest: str, lines: int) -> bool:
        now = time.monotonic()
        if self.cpu is None:
            self.cpu, self.began = self._cpu(), now
        self.count += lines
        self.lags.append(now - float(newest.split(" ", 1)[0]))
        return self.count >= self.total

    @staticmethod
    def _cpu() -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return usage.ru_utime + usage.ru_stime

    def report(self, extra: float = 0.0) -> None:
        assert self.cpu is not None
        spent = self._cpu() - self.cpu + extra
        wall = time.monotonic() - self.began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found = {
            "lines": self.count,
            "cpu": 100 * spent / wall,
            "median": statistics.median(self.lags),
            "most": max(self.lags),
        }
        print(json.dumps({**found, "rss": peak}))


async def follow_ours(path: str, total: int) -> None:
    from hudtui.core.remote.local import LocalHost
    from hudtui.core.remote.logs import LineSplitter

    meter, feed = Meter(total), LineSplitter()
    async with aclosing(LocalHost().follow(path)) as chunks:  # type: ignore[type-var]
        async for chunk in chunks:
            done = feed.feed(chunk).done
            if done and meter.seen(done[-1], len(done)):
                break
    meter.report()


def follow_tail(path: str, total: int) -> None:
    meter = Meter(total)
    tail = subprocess.Popen(
        ["tail", "-n", "+1", "-F", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert tail.stdout is not None
    rest = b""
    while data := os.read(tail.stdout.fileno(), 1 << 16):
        *lines, rest = (rest + data).split(b"\n")
        if lines and meter.seen(lines[-1].decode(), len(lines)):
            break
    tail.terminate()
    _, _, usage = os.wait4(tail.pid, 0)
    tail.returncode = 0
    meter.report(usage.ru_utime + usage.ru_stime)


async def last_page(path: str) -> None:
    from hudtui.core.remote.host import FileChunk
    from hudtui.core.remote.local import LocalHost
    from hudtui.core.remote.logs import LineSplitter, offset_of_last_lines

    began, host = time.monotonic(), LocalHost()
    offset = await offset_of_last_lines(host, path, 1000)
    found = LineSplitter(offset=offset).feed(FileChunk(offset, await host.get(path, offset=offset)))
    seconds = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"lines": len(found.done), "ms": seconds * 1000, "rss": peak}))


def me(*words: object) -> list[str]:
    return [sys.executable, __file__, *map(str, words)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rates", default="1000,10000,50000")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--size-mib", type=int, default=1024)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(
            f"{'lines/s':>8}  {'follower':<10} {'CPU %':>6} {'lag ms':>7} {'most':>7} "
            f"{'RSS MiB':>8} {'lines':>9}"
        )
        for rate in map(int, options.rates.split(",")):
            path = str(Path(folder, f"{rate}.log"))
            Path(path).touch()
            total = int(rate * options.seconds)
            followers = {
                name: subprocess.Popen(me("--as", name, path, total), stdout=subprocess.PIPE)
                for name in ("hudtui", "tail -F")
            }
            time.sleep(1.0)
            subprocess.run(me("--as", "writer", path, rate, options.seconds), check=True)
            figures = {}
            for name, process in followers.items():
                figures[name] = json.loads(process.communicate(timeout=120)[0])
                row = figures[name]
                print(
                    f"{rate:>8}  {name:<10} {row['cpu']:>6.1f} {row['median'] * 1000:>7.0f} "
                    f"{row['most'] * 1000:>7.0f} {row['rss']:>8.0f} {row['lines']:>9}"
                )
            print(
                f"{'':>8}  ratio of CPU "
                f"{figures['hudtui']['cpu'] / max(figures['tail -F']['cpu'], 0.1):.1f}"
            )
        path = str(Path(folder, "large.log"))
        piece = block(0, 8192)
        with open(path, "wb") as stream:
            while stream.tell() < options.size_mib * 1024 * 1024:
                stream.write(piece)
        row = json.loads(
            subprocess.run(me("--as", "page", path), capture_output=True, check=True).stdout
        )
        began = time.monotonic()
        subprocess.run(["tail", "-n", "1000", path], stdout=subprocess.DEVNULL, check=True)
        tail = (time.monotonic() - began) * 1000
        print(
            f"last {row['lines']} lines of {options.size_mib} MiB: {row['ms']:.1f} ms, "
            f"{row['rss']:.0f} MiB; tail: {tail:.1f} ms"
        )


if __name__ == "__main__":
    if "--as" in sys.argv:
        role, place, *numbers = sys.argv[2:]
        if role == "writer":
            write(place, int(numbers[0]), float(numbers[1]))
        elif role == "hudtui":
            asyncio.run(follow_ours(place, int(numbers[0])))
        elif role == "page":
            asyncio.run(last_page(place))
        else:
            follow_tail(place, int(numbers[0]))
    else:
        main()
