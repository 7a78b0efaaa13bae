"""A log of a million lines is followed over a line that is cut a hundred times: is the copy
identical?

    python tests/faults/ssh_follow.py [--lines 1000000] [--disconnects 100] [--seed 1] [--seconds
    60]

A real sshd, a real writer process, a proxy that cuts at random moments and at random bytes,
sometimes refuses for a while, delays and throttles. Prints a table; the exit status is 1 when a
byte is missing, doubled or changed.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1])
)  # for `support`, also where this runs as a program

from support import bad_line, sshd

_WRITER = """
import random, sys, time
path, lines, seconds, seed = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
chance = random.Random(seed)
written, began = 0, time.monotonic()
with open(path, "ab", buffering=0) as stream:
    while written < lines:
        burst = min(chance.randint(1, max(lines // 400, 2)), lines - written)
        numbers = range(written, written + burst)
        stream.write(b"".join(b"%09d %s\\n" % (n, b"x" * (n * 7919 % 90)) for n in numbers))
        written += burst
        time.sleep(max(began + seconds * written / lines - time.monotonic(), 0))
"""


@dataclass(frozen=True)
class Result:
    lines: int
    size: int
    disconnects: int
    connects: int
    identical: bool
    lost: int
    doubled: int
    seconds: float
    behind: float
    """Seconds between the last line written and the last line here."""


async def trial(box: Any, *, seed: int, disconnects: int, lines: int, seconds: float) -> Result:
    """One log, written while the line is cut."""
    from support.sshd import connect_ssh

    chance = random.Random(seed)
    path = box.home / "train.log"
    got = hashlib.sha256()
    size = 0
    contiguous = True
    numbers: dict[str, int] = {"expected": 0, "lost": 0, "doubled": 0}
    rest = b""
    began = time.monotonic()
    async with bad_line.BadLine(box.port) as line:  # noqa: SIM117 - the second needs the first
        async with await connect_ssh(
            box.target(port=line.port), known_hosts=box.known_hosts()
        ) as host:
            link = await host.reach()
            writer = await asyncio.create_subprocess_exec(
                sys.executable, "-c", _WRITER, str(path), str(lines), str(seconds), str(seed)
            )

            async def consume() -> None:
                nonlocal size, contiguous, rest
                async with aclosing(host.follow("train.log")) as chunks:
                    async for chunk in chunks:
                        contiguous &= chunk.offset == size
                        size += len(chunk.data)
                        got.update(chunk.data)
                        rest = count(rest + chunk.data, numbers)

            async def cut() -> None:
                while line.cuts < disconnects:
                    # Evenly over the bytes, not the time, so that a busy machine sees the same
                    # number of them.
                    goal = size + chance.randint(1, max(lines * 55 // disconnects // 2, 2))
                    await until(
                        lambda goal=goal: (
                            size
                            >= min(
                                goal, path.stat().st_size if writer.returncode is not None else goal
                            )
                        )
                    )
                    line.delay, line.rate = chance.choice(
                        ((0.0, None), (0.0, None), (0.01, None), (0.0, 3e6))
                    )
                    kind, cuts, connects = chance.random(), line.cuts, link.connects
                    if kind < 0.4:
                        line.cut()
                    elif kind < 0.8:
                        line.cut_after(chance.randint(1, 200_000))
                        await until(lambda cuts=cuts: line.cuts > cuts, 1.0)
                        if line.cuts == cuts:
                            line.cut()
                    else:
                        await line.refuse()
                        await asyncio.sleep(chance.random() * 0.3)
                        await line.open()
                    await until(lambda connects=connects: link.connects > connects)
                line.delay, line.rate = 0.0, None

            consuming, cutting = asyncio.create_task(consume()), asyncio.create_task(cut())
            try:
                await writer.wait()
                ended = time.monotonic()
                await until(lambda: size >= path.stat().st_size or consuming.done())
                behind = time.monotonic() - ended
                # Those that are left may still double or spoil something; a follower that gave up
                # ends the trial with its error.
                await asyncio.wait({cutting, consuming}, return_when=asyncio.FIRST_COMPLETED)
                if not consuming.done():
                    await asyncio.wait({consuming}, timeout=0.5)  # anything doubled would come now
                if consuming.done():
                    consuming.result()
                    raise AssertionError("the follower ended by itself")
                cutting.result()
            finally:
                for task in (consuming, cutting):
                    task.cancel()
                await asyncio.gather(consuming, cutting, return_exceptions=True)
                if writer.returncode is None:
                    writer.kill()
                    await writer.wait()
            same = contiguous and got.hexdigest() == hashlib.sha256(path.read_bytes()).hexdigest()
            return Result(
                lines,
                size,
                line.cuts,
                link.connects,
                same,
                numbers["lost"] + lines - numbers["expected"],
                numbers["doubled"],
                time.monotonic() - began,
                behind,
            )


async def until(condition: Callable[[], bool], limit: float = 60.0) -> None:
    """Wait for what others make true; no longer than `limit` seconds."""
    end = time.monotonic() + limit
    while not condition() and time.monotonic() < end:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def count(data: bytes, numbers: dict[str, int]) -> bytes:
    """Count the numbers at the beginning of lines that are not the next one; returns the unfinished
    line."""
    end = data.rfind(b"\n") + 1
    for text in data[:end].splitlines():
        number = int(text[:9])
        if number > numbers["expected"]:
            numbers["lost"] += number - numbers["expected"]
        elif number < numbers["expected"]:
            numbers["doubled"] += 1
        numbers["expected"] = max(number + 1, numbers["expected"])
    return data[end:]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--disconnects", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    chosen = parser.parse_args()
    os.environ.setdefault("TMUX_TMPDIR", "/tmp")
    os.environ.setdefault("LC_ALL", "C.UTF-8")
    with tempfile.TemporaryDirectory() as folder, sshd.running_server() as server:
        box = sshd.Box(server, Path(folder), Path(folder, "pins"))
        box.world()
        result = asyncio.run(
            trial(
                box,
                seed=chosen.seed,
                disconnects=chosen.disconnects,
                lines=chosen.lines,
                seconds=chosen.seconds,
            )
        )
    rows = [
        ("lines written", f"{result.lines:,}"),
        ("bytes followed", f"{result.size:,}"),
        ("disconnects", str(result.disconnects)),
        ("connections made", str(result.connects)),
        ("lines lost", str(result.lost)),
        ("lines doubled", str(result.doubled)),
        ("identical (SHA-256)", "yes" if result.identical else "NO"),
        ("behind the writer at the end", f"{result.behind:.2f} s"),
        ("seconds in all", f"{result.seconds:.1f}"),
    ]
    for name, value in rows:
        print(f"{name:<30}{value:>16}")
    return 0 if result.identical and not result.lost and not result.doubled else 1


if __name__ == "__main__":
    sys.exit(main())
