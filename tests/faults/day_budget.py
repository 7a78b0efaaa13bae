"""Is a day's budget ever overrun? Launches at the same moment and one after the other, each by a
process of its own.

    python tests/faults/day_budget.py [--seed 1] [--launches 50]

For each of five budgets there is a simulator in real time, whose pods are real SSH endpoints, and a
ledger. Ten launches each (of `--launches` 50) choose a machine at random; half of them begin at the
same moment, the others follow one by one, and some machines are ended in between. hudtui is closed
after each: what holds is the guard that was left on the machine, whose own hours are read from it.
Prints a row for each budget; the exit status is 1 when the bills and all guards' own hours come to
more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hudtui.core.compute.budget import BudgetExceeded
from hudtui.core.compute.lifecycle import acquire, terminate_pod
from hudtui.core.compute.limits import Limits
from hudtui.core.compute.pods import Ledger, PodRecord
from hudtui.core.compute.provider import OutOfCapacity
from hudtui.core.compute.watchdog import FOLDER, start_watchdog
from hudtui.sim import PrimeSimulator

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1])
)  # for `support`, also where this runs as a program

from support import compute_world as world

BUDGETS = (1.0, 2.5, 3.0, 10.0, 40.0)
OFFERS = ("1H100.80S", "2H100.80S", "1A100.22V", "cpu-8")
_CENT = 0.005


@dataclass
class Place:
    """A simulator, a ledger and a key."""

    url: str
    api_key: str
    folder: Path
    budget: float

    def user(self) -> Any:
        return world.User(
            self.url,
            self.api_key,
            Ledger(self.folder / "pods.db"),
            self.folder / "key",
            self.folder / "pins",
        )


async def launch(place: Place, name: str, cloud_id: str) -> dict[str, Any]:
    """What one process does: rent, leave a guard, and go. What the guard was told is read from the
    machine."""
    user = place.user()
    try:
        order = await user.order(name, cloud_id)
        limits = Limits(run_budget=None, day_budget=place.budget, max_hours=4)
        steps = acquire(order, user.prime, user.ledger, login=user.login, limits=limits, sleep=soon)
        last = [step async for step in steps][-1]
        assert last.host is not None and last.pod is not None
        owned = user.ledger.get(name)
        await start_watchdog(last.host, owned.until, user.prime, last.pod.id, lookup={}.get)
        rules = json.loads(await last.host.get(f"{FOLDER}/guard.json"))
        ends = float(rules["count_from"]) + rules["max_seconds"]
        return {
            "name": name,
            "rented": True,
            "hourly": owned.hourly,
            "hours": (ends - owned.created) / 3600,
        }
    except (BudgetExceeded, OutOfCapacity) as error:
        return {"name": name, "rented": False, "why": error.what}
    finally:
        await user.close()


async def soon(seconds: float) -> None:
    """Wait, but not for long."""
    await asyncio.sleep(min(seconds, 0.2))


def spent(owned: PodRecord) -> float:
    """What a machine that has ended has cost: its bill."""
    return owned.billed or 0.0


async def campaign(place: Place, launches: int, chance: random.Random) -> tuple[int, int, float]:
    """Launches of one budget; how many were rented and refused, and what the day costs at most."""
    told: list[dict[str, Any]] = []

    def start(number: int) -> subprocess.Popen[str]:
        words = [
            place.url,
            place.api_key,
            str(place.folder),
            str(place.budget),
            f"hudtui-day-{number}",
            chance.choice(OFFERS),
        ]
        return subprocess.Popen(
            [sys.executable, __file__, "--one", *words], stdout=subprocess.PIPE, text=True
        )

    def hear(child: subprocess.Popen[str]) -> None:
        said = child.communicate()[0]
        if child.returncode != 0:
            raise SystemExit(f"a launch failed with status {child.returncode}")
        told.append(json.loads(said))

    at_once = [start(number) for number in range(launches // 2)]
    await asyncio.to_thread(lambda: [hear(child) for child in at_once])
    user = place.user()
    try:
        for number in range(launches // 2, launches):
            alive = [one for one in told if one["rented"] and not one.get("over")]
            if alive and chance.random() < 0.4:
                one = chance.choice(alive)
                one["over"] = True
                await terminate_pod(
                    one["name"], user.prime, user.ledger, why="to make room", sleep=soon
                )
            await asyncio.to_thread(lambda number=number: hear(start(number)))
    finally:
        await user.close()
    ledger = Ledger(place.folder / "pods.db")
    cost = sum(
        one["hours"] * one["hourly"] for one in told if one["rented"] and not one.get("over")
    )
    cost += sum(spent(owned) for owned in ledger.records(alive=False) if owned.state == "ended")
    rented = sum(one["rented"] for one in told)
    return rented, len(told) - rented, cost


async def main(seed: int, launches: int) -> int:
    """All budgets."""
    import asyncssh

    worst, each = 0, max(launches // len(BUDGETS), 2)
    print(f"{'budget':>8} {'launches':>9} {'rented':>7} {'refused':>8} {'at most':>9}  above")
    for budget in BUDGETS:
        with tempfile.TemporaryDirectory() as name, PrimeSimulator(rate=1.0) as sim:
            folder = Path(name)
            key = asyncssh.generate_private_key("ssh-ed25519")
            (folder / "key").write_bytes(key.export_private_key())
            (folder / "key").chmod(0o600)
            sim.add_ssh_key(key.export_public_key().decode())
            sim.behave(boot=0, install=0)
            place = Place(sim.url, sim.api_key, folder, budget)
            rented, refused, cost = await campaign(place, each, random.Random(f"{seed} {budget}"))
            above = cost > budget + _CENT
            worst += above
            print(
                f"{budget:>8.2f} {each:>9} {rented:>7} {refused:>8} {cost:>9.3f}  "
                f"{'ABOVE' if above else 'never'}",
                flush=True,
            )
    print("above the budget: " + (f"{worst} of {len(BUDGETS)}" if worst else "never"))
    return 1 if worst else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--launches", type=int, default=50)
    parser.add_argument("--one", nargs=6, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        url, api_key, where, budget, name, cloud_id = args.one
        print(
            json.dumps(
                asyncio.run(launch(Place(url, api_key, Path(where), float(budget)), name, cloud_id))
            )
        )
        sys.exit(0)
    sys.exit(asyncio.run(main(args.seed, args.launches)))
