"""What waiting for machines costs: requests a minute with 1, 10 and 100 of them on their way.

    python tests/bench/compute_polling.py [--seconds 60] [--pods 1,10,100]

In real time, against the simulator, whose machines install for ever. Two ways: all are got by one
client (as the app does it: they ask on the same beat, and one request asks for all), and each by a
client of its own (what a process for each would cost).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import resource
import tempfile
import time
from collections import Counter
from pathlib import Path

from hudtui.core.compute.lifecycle import acquire
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.values import Order, Pod
from hudtui.core.remote.host import Host
from hudtui.sim import PrimeSimulator


async def _nobody(pod: Pod) -> Host:
    raise AssertionError("no machine is ever ready here")


async def _get(order: Order, prime: PrimeProvider, ledger: Ledger) -> None:
    async with contextlib.aclosing(acquire(order, prime, ledger, login=_nobody)) as steps:
        async for _ in steps:
            pass


async def measure(
    count: int, *, together: bool, seconds: float
) -> tuple[float, Counter[str], float]:
    """Requests a minute, by path, and CPU seconds a minute of this process (with the
    simulator's)."""
    with tempfile.TemporaryDirectory() as folder:
        async with PrimeSimulator(rate=1.0, balance=1e6) as sim:
            sim.behave(boot=0.0, ends="stuck")
            ledger = Ledger(Path(folder) / "pods.db")
            clients = [
                PrimeProvider(sim.api_key, base_url=sim.url, simulated=True)
                for _ in range(1 if together else count)
            ]
            offer = next(
                one for one in (await clients[0].offers()).found if one.cloud_id == "cpu-8"
            )
            tasks = []
            for number in range(count):
                order = Order(f"hudtui-{number}", offer)
                tasks.append(
                    asyncio.create_task(_get(order, clients[number % len(clients)], ledger))
                )
                await asyncio.sleep(0.02)
            while len(sim.pods) < count:  # noqa: ASYNC110 - they are made in another thread
                await asyncio.sleep(0.1)
            await asyncio.sleep(6.0)  # everybody has found the beat
            sim.forget_requests()
            used = resource.getrusage(resource.RUSAGE_SELF)
            began = time.monotonic()
            await asyncio.sleep(seconds)
            minutes = (time.monotonic() - began) / 60
            after = resource.getrusage(resource.RUSAGE_SELF)
            seen = Counter(request.path for request in sim.requests)
            for task in tasks:
                task.cancel()  # each ends its machine
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(client.close() for client in clients))
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return sum(seen.values()) / minutes, seen, cpu / minutes


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Requests a minute while machines are waited for.")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pods", default="1,10,100")
    asked = parser.parse_args()
    print(
        "| machines | requests a minute, one client | a client each | ratio | CPU of a core, one "
        "client |"
    )
    print("| ---: | ---: | ---: | ---: | ---: |")
    for count in map(int, asked.pods.split(",")):
        rate, seen, cpu = asyncio.run(measure(count, together=True, seconds=asked.seconds))
        alone, _, _ = asyncio.run(measure(count, together=False, seconds=asked.seconds))
        print(
            f"| {count} | {rate:.1f} | {alone:.1f} | 1 : {alone / rate:.1f} | {cpu / 60:.2%} |",
            flush=True,
        )
        assert set(seen) == {"/api/v1/pods/status"}, seen


if __name__ == "__main__":
    main()
