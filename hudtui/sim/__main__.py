"""`python -m hudtui.sim`: the simulator as a process.

It prints one line of JSON and serves until it is ended.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from queue import Empty, SimpleQueue

from hudtui.sim import SCENARIOS, PrimeSimulator
from hudtui.sim.clock import EPOCH
from hudtui.sim.state import write_private


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m hudtui.sim", description="A simulated Prime Intellect API on loopback."
    )
    parser.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--scenario",
        action="append",
        default=[],
        choices=sorted(SCENARIOS),
        metavar="NAME",
        help="may be repeated",
    )
    parser.add_argument(
        "--state", type=Path, help="folder in which pods, keys and money outlive this process"
    )
    parser.add_argument(
        "--rate", type=float, default=1.0, help="simulated seconds per real second (default 1)"
    )
    parser.add_argument(
        "--step",
        type=float,
        default=0.0,
        help="simulated seconds that each request takes (default 0)",
    )
    parser.add_argument(
        "--now", action="store_true", help="begin at this machine's time, not in November 2026"
    )
    parser.add_argument(
        "--balance", type=float, default=100.0, help="USD in the wallet (default 100)"
    )
    parser.add_argument(
        "--idle",
        type=float,
        metavar="SECONDS",
        help="end after so long without a request and without a pod",
    )
    parser.add_argument("--scenarios", action="store_true", help="list the scenarios and end")
    args = parser.parse_args(argv)
    if args.scenarios:
        for item in SCENARIOS.values():
            sys.stdout.write(f"{item.name:24} {item.title}\n")
        return 0
    # An event would not do: a signal that comes while its lock is held would wait for that lock for
    # ever.
    ended: SimpleQueue[int] = SimpleQueue()
    before = {
        number: signal.signal(number, lambda number, _: ended.put(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        with PrimeSimulator(
            port=args.port,
            seed=args.seed,
            state=args.state,
            rate=args.rate,
            step=args.step,
            start=time.time() - EPOCH.timestamp() if args.now else 0.0,
            balance=args.balance,
            scenario=args.scenario,
        ) as sim:
            address = json.dumps({"url": sim.url, "key": sim.api_key, "pid": os.getpid()})
            if args.state is not None:
                write_private(args.state / "server.json", address)
            sys.stdout.write(address + "\n")
            sys.stdout.flush()
            _wait(sim, ended, args.idle)
    except (OSError, ValueError, RuntimeError) as error:
        sys.stderr.write(f"simulator: {error}\n")
        return 1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


def _wait(sim: PrimeSimulator, ended: SimpleQueue[int], idle: float | None) -> None:
    """Wait until this process is ended, or nothing has happened for `idle` seconds."""
    seen, since = -1, time.monotonic()
    while True:
        with contextlib.suppress(Empty):
            ended.get(timeout=None if idle is None else min(idle, 5.0) / 2)
            return
        count = len(sim.requests)
        if count != seen or sim.alive:
            seen, since = count, time.monotonic()
        elif idle is not None and time.monotonic() - since >= idle:
            return


if __name__ == "__main__":
    sys.exit(main())
