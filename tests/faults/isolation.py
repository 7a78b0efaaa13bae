"""Does an episode ever see another's files, and does a folder ever stay? Episodes are counted.

    python tests/faults/isolation.py [--seed 1] [--episodes 200] [--at-once 32] [--kills 20]

Every episode writes into its copy of a template and is judged by all that its folder holds then.
After that players are killed (SIGKILL) at a moment that the seed decides, and one more player
begins and ends by itself. Prints what is not so; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SERVER = str(ROOT / "support" / "file_server.py")
CONFIG = {"files": {"command": sys.executable, "args": [SERVER, "${EPISODE_DIR:template}"]}}


async def play(folder: Path, episodes: int, at_once: int) -> tuple[int, int]:
    """Play episodes; returns how many were judged right, and how many ids they had."""
    from hudtui.core.gym.values import GymConfig
    from hudtui.core.rollouts.evaluate import EpisodeDone, connector, evaluate
    from hudtui.core.rollouts.policy import PolicySource
    from hudtui.core.tasks.task import Task, ToolCall

    def task(number: int) -> Task:
        files = {"a.txt": f"alpha\nt{number}\n", "own": f"t{number}\n"}
        check = (ToolCall("evaluate", {"files": files}),)
        return Task(f"t{number}", "Write.", CONFIG, evaluate=check)

    def policy(task: Task, rollout: int):
        calls = [f'write(name="{name}", text="{task.id}")' for name in ("a.txt", "own")]
        replies = iter([f"<tool>{call}</tool>" for call in (*calls, "done()")])

        async def complete(messages):
            return next(replies)

        return complete

    events = evaluate(
        [task(number) for number in range(episodes)],
        GymConfig(allow_unmapped=True),
        policy=PolicySource("writing", policy),
        connect=connector(None, folder, os.environ.get, timeout=300),
        out_dir=folder / f"out-{os.getpid()}",
        concurrency=at_once,
        reuse=True,
    )
    right, ids = 0, set()
    async with aclosing(events):
        async for event in events:
            if isinstance(event, EpisodeDone):
                right += event.episode.scores.task_completion == 1
                ids.add(event.episode.info["episode"])
    return right, len(ids)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--only-play", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only_play is not None:
        asyncio.run(play(asked.only_play, asked.episodes, asked.at_once))
        return 0
    chance = random.Random(asked.seed)
    with tempfile.TemporaryDirectory(prefix="hudtui-isolation-") as place:
        folder, temporary = Path(place, "project"), Path(place, "temporary")
        temporary.mkdir()
        (folder / "template").mkdir(parents=True)
        (folder / "template" / "a.txt").write_text("alpha\n")
        tempfile.tempdir = str(temporary)
        began = time.monotonic()
        right, ids = asyncio.run(play(folder, asked.episodes, asked.at_once))
        seconds = time.monotonic() - began
        left = len(list(temporary.iterdir()))
        print(
            f"{right} of {asked.episodes} episodes right, {ids} ids, {left} folders left, ", end=""
        )
        print(f"{seconds:.0f} s")
        wrong = right != asked.episodes or ids != asked.episodes or left > 0

        command = [sys.executable, __file__, "--only-play", str(folder), "--at-once", "8"]
        environment = {**os.environ, "TMPDIR": str(temporary)}
        behind = 0
        for _ in range(asked.kills):
            player = subprocess.Popen([*command, "--episodes", "200"], env=environment)
            until = time.monotonic() + 120
            while not any(folder.glob(f"out-{player.pid}/*")) and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(chance.random())
            player.kill()
            player.wait()
            behind += len(list(temporary.iterdir()))
        subprocess.run([*command, "--episodes", "1"], env=environment, check=True)
        left = len(list(temporary.iterdir()))
        print(f"{asked.kills} kills left {behind} folders, {left} of them after the next start")
        return 1 if wrong or left else 0


if __name__ == "__main__":
    sys.exit(main())
