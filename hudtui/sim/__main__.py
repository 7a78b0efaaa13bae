"""`python -m hudtui.sim`: the simulator as a process. It prints one line of JSON and serves until it is ended."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

from hudtui.sim import SCENARIOS, Simulator


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hudtui.sim", description="A simulated Prime Intellect API on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--scenario", action="append", default=[], choices=sorted(SCENARIOS), metavar="NAME", help="may be repeated"
    )
    parser.add_argument("--state", type=Path, help="folder in which pods, keys and money outlive this process")
    parser.add_argument("--rate", type=float, default=1.0, help="simulated seconds per real second (default 1)")
    parser.add_argument("--step", type=float, default=0.0, help="simulated seconds that each request takes (default 0)")
    parser.add_argument("--balance", type=float, default=100.0, help="USD in the wallet (default 100)")
    parser.add_argument("--scenarios", action="store_true", help="list the scenarios and end")
    args = parser.parse_args(argv)
    if args.scenarios:
        for item in SCENARIOS.values():
            sys.stdout.write(f"{item.name:24} {item.title}\n")
        return 0
    ended = threading.Event()
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Simulator(
            port=args.port,
            seed=args.seed,
            state=args.state,
            rate=args.rate,
            step=args.step,
            balance=args.balance,
            scenario=args.scenario,
        ) as sim:
            sys.stdout.write(json.dumps({"url": sim.url, "key": sim.api_key, "pid": os.getpid()}) + "\n")
            sys.stdout.flush()
            ended.wait()
    except (OSError, ValueError, RuntimeError) as error:
        sys.stderr.write(f"simulator: {error}\n")
        return 1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


if __name__ == "__main__":
    sys.exit(main())
