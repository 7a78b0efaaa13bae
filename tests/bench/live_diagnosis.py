"""What it costs to know what ails runs that go on, by their numbers and their episodes.

    python tests/bench/live_diagnosis.py [--runs 8] [--minutes 3] [--step 2]

Another process writes, for each run, a step every some seconds, as a rehearsal does: 32 episodes of
about 6 kB and a line of metrics, after 500 steps that are there already. This one looks at each run
twice a second, as the screen Runs does. Printed: its processor time a run, in percent of one core
and without the start, in all and of the diagnosis alone, and what the diagnosis said at the end.
From the middle of the time on, all calls of the episodes fail.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

BEFORE = 500
EPISODES = 32
LOOK = 0.5


def write_step(out: Path, step: int, fails: bool) -> None:
    """Write what a trainer leaves of a step."""
    turn = {"reply": "move(up)" * 20, "observation": "board " * 40, "is_error": fails}
    messages = [{"role": "user", "content": "board " * 50}] * 8
    with (out / "traces.jsonl").open("a") as traces:
        for number in range(EPISODES):
            record: dict[str, Any] = {
                **dict(version=2, task=f"t{number // 8}", started_at=None, stop="max_turns"),
                **dict(error=None, scores={"reward": 0.3, "reward_found": True}, seconds={}),
                **dict(info={"step": step, "split": "train", "rollout": number % 8}, turn_count=8),
                **dict(slips={"failed": 8} if fails else {}, messages=messages, turns=[turn] * 8),
            }
            traces.write(json.dumps(record, separators=(",", ":")) + "\n")
    row = {"step": step, "time": time.time(), "reward": 0.3 + step % 7 / 50, "reward_std": 0.2}
    row |= {"loss": 0.1, "kl": 0.02, "entropy": 1.0 + step % 5 / 50, "grad_norm": 0.5}
    with (out / "metrics.jsonl").open("a") as metrics:
        metrics.write(json.dumps(row) + "\n")


def write(outs: list[Path], every: float, seconds: float) -> None:
    """Write the steps of all runs until the time is over."""
    step, begun = BEFORE, time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        step += 1
        for out in outs:
            write_step(out, step, passed > seconds / 2)
        time.sleep(every)


async def look(project: Path, runs: list[str], seconds: float) -> tuple[float, float, set[str]]:
    """Return the shares of a core a run, of all and of its diagnosis, and what is found."""
    from hudtui.core.diagnosis import live
    from hudtui.core.runs.store import RunStore
    from hudtui.core.runs.watch import Monitor

    spent = 0.0
    renew = live.LiveDiagnosis.renew

    async def timed(self: Any, *given: Any, **more: Any) -> None:
        nonlocal spent
        before = time.process_time()
        await renew(self, *given, **more)
        spent += time.process_time() - before

    live.LiveDiagnosis.renew = timed  # type: ignore[method-assign]
    monitor = Monitor(RunStore(project / ".hudtui"))
    for run in runs:
        await monitor.view(run, whole=True)
    cpu, begun, spent = time.process_time(), time.monotonic(), 0.0
    said: set[str] = set()
    while time.monotonic() - begun < seconds:
        for run in runs:
            view = await monitor.view(run)
            if view.diagnosis is not None:
                said = {one.signature for one in view.diagnosis.findings}
        await asyncio.sleep(LOOK)
    wall = (time.monotonic() - begun) * len(runs)
    return (time.process_time() - cpu) / wall, spent / wall, said


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--step", type=float, default=2.0, help="seconds of a step")
    parser.add_argument("--write", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write is not None:
        write([Path(one) for one in given.write], given.step, given.minutes * 60)
        return
    from support.runs import make_run

    with tempfile.TemporaryDirectory() as folder:
        project, runs = Path(folder), [f"run-{number:04}" for number in range(given.runs)]
        outs = [project / ".hudtui" / "runs" / run / "out" for run in runs]
        for run, out in zip(runs, outs, strict=True):
            make_run(project, run, "running", engine="trl")
            (out / "metrics.jsonl").write_text("")
            for step in range(1, BEFORE + 1):
                write_step(out, step, False)
        minutes = ["--minutes", str(given.minutes), "--step", str(given.step)]
        writer = subprocess.Popen([sys.executable, __file__, *minutes, "--write", *map(str, outs)])
        try:
            every, diagnosis, said = asyncio.run(look(project, runs, given.minutes * 60))
        finally:
            writer.terminate()
            writer.wait()
    words = f"{given.runs} runs: {100 * every:.2f} % of a core a run"
    print(f"{words}, {100 * diagnosis:.2f} % of it for the diagnosis; found: {sorted(said)}")


if __name__ == "__main__":
    main()
