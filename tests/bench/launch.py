"""What hudtui itself takes between a machine that is ready and the first command of the run, step
by step.

    python tests/bench/launch.py [--rounds 5] [--json FILE]

Against the simulated Prime: a real SSH connection to loopback, real supervisors, real tmux. Counted
from the moment at which the provider says that the machine is ready and has an address: the login,
guard, folder, files with the wheel of hudtui, plan, supervisor, and the time until the first stage
was started by the supervisor there. Building the wheel is part of it; it is built anew in every
round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

STEPS = ("login", "guard", "folder", "files", "plan", "supervisor", "stage")
BAR = 3.0


async def launch_once(home: Path, number: int) -> dict[str, float]:
    """Seconds for each step of one launch."""
    from hudtui.core.compute.prime.provider import PrimeProvider
    from hudtui.core.process import machine_label
    from hudtui.core.remote.hosts import close_hosts, pod_host
    from hudtui.core.runs.remote_run import RentalContext, run_remote
    from hudtui.core.runs.spec import Rental, RunSpec
    from hudtui.core.runs.store import RunRecord, RunStore
    from hudtui.core.training.plan import Plan, PlanFile, PlanOutput, Stage
    from hudtui.sim import PrimeSimulator

    at: dict[str, float] = {}
    with PrimeSimulator(step=5) as sim:
        sim.behave(boot=0, install=0)
        sim.add_ssh_key((home / ".ssh" / "id_ed25519.pub").read_text())
        provider = PrimeProvider(sim.api_key, base_url=sim.url, simulated=True)
        store = RunStore(home / "project" / ".hudtui")
        offer = min((await provider.offers()).found, key=lambda one: one.price.hourly)
        run = f"bench-{number}"
        rent = Rental("prime", f"hudtui-{run}", offer, offer.price.hourly, simulated=True)
        files = (
            PlanFile("files/base.txt", resource="requirements/base.txt"),
            PlanFile("bootstrap.py", resource="pod/bootstrap.py"),
        )
        plan = Plan(
            "rollouts",
            (Stage("play", ("date", "+%s.%N")),),
            files=files,
            outputs=(PlanOutput("out", "report"),),
            wheel=True,
        )
        spec = RunSpec("rollouts", run, str(home / "project"), rent=rent)
        folder = f".hudtui/runs/{run}"
        record = RunRecord(
            run,
            time.time(),
            run,
            "rollouts",
            pod_host(rent.machine),
            machine_label(),
            folder,
            spec,
            plan,
        )
        store.add(record)

        async def hurry(seconds: float) -> None:
            sim.clock.advance(seconds)
            await asyncio.sleep(min(seconds, 0.02))

        broker = RentalContext(provider, lambda name: None, sleep=hurry, every=0.02)
        async with aclosing(run_remote(run, store, broker)) as events:
            async for event in events:
                now = time.perf_counter()
                if event.type == "machine" and event.data.get("kind") == "trying":
                    at.setdefault("begin", now)
                elif event.type == "machine" and event.data.get("kind") == "ready":
                    at["login"] = now
                elif event.type == "step":
                    at.setdefault(str(event.data["name"]), now)
                elif event.type == "stage_started":
                    at["stage"] = now
        await close_hosts()
        await provider.close()
    found, before = {}, at["begin"]
    for step in STEPS:
        found[step] = max(at[step] - before, 0.0)
        before = max(at[step], before)
    return {**found, "all": before - at["begin"]}


def main() -> None:
    """The command line; see the text at the top."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hudtui-bench-") as place:
        home = Path(place)
        for name in [name for name in os.environ if name.startswith(("XDG_", "HUDTUI_", "TMUX"))]:
            del os.environ[name]
        os.environ["HOME"] = place
        (home / ".ssh").mkdir(mode=0o700)
        (home / "project").mkdir()
        key = home / ".ssh" / "id_ed25519"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        rounds = [asyncio.run(launch_once(home, number)) for number in range(given.rounds)]
    print(f"{'step':<12} {'median s':>9} {'worst s':>9}")
    table = {step: [one[step] for one in rounds] for step in (*STEPS, "all")}
    for step, seconds in table.items():
        print(f"{step:<12} {statistics.median(seconds):>9.3f} {max(seconds):>9.3f}")
    median = statistics.median(table["all"])
    load = os.getloadavg()[0]
    print(
        f"bar {BAR:g} s: {'met' if median < BAR else 'MISSED'} ({len(rounds)} rounds, load "
        f"{load:.1f}, {os.cpu_count()} cores)"
    )
    if given.json:
        given.json.write_text(json.dumps({"rounds": rounds, "load": load}, indent=1))


if __name__ == "__main__":
    main()
