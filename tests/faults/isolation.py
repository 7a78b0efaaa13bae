"""Does an episode ever see another's files, and does a folder or a server ever stay?

    python tests/faults/isolation.py [--http] [--seed 1] [--episodes 200] [--at-once 32]
                                     [--kills 20]

Every episode writes into its copy of a template and is judged by all that its folder holds then.
After that players are killed (SIGKILL) at a moment that the seed decides, and one more player
begins and ends by itself. `--http`: the server of each episode listens at the episode's port.
Prints what is not so; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SERVER = str(ROOT / "support" / "file_server.py")
PIPES = {"command": sys.executable, "args": [SERVER, "${EPISODE_DIR:template}"]}
LISTENS = {
    "command": sys.executable,
    "args": [SERVER, "${EPISODE_DIR:template}", "${EPISODE_PORT}"],
    "url": "http://127.0.0.1:${EPISODE_PORT}/mcp",
}


def servers_in(folder: Path) -> list[int]:
    """The ids of the servers of episodes whose folders lie in one folder."""
    found = []
    for words in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            arguments = words.read_bytes().decode(errors="replace").split("\0")
            if SERVER in arguments and any(one.startswith(f"{folder}/") for one in arguments):
                found.append(int(words.parent.name))
    return found


async def play(
    folder: Path, episodes: int, at_once: int, server: dict[str, Any]
) -> tuple[int, int]:
    """Play episodes; returns how many were judged right, and how many ids they had."""
    from hudtui.core.gym.values import GymConfig
    from hudtui.core.rollouts.evaluate import EpisodeDone, connector, evaluate
    from hudtui.core.rollouts.policy import PolicySource
    from hudtui.core.tasks.task import Task, ToolCall

    def task(number: int) -> Task:
        files = {"a.txt": f"alpha\nt{number}\n", "own": f"t{number}\n"}
        check = (ToolCall("evaluate", {"files": files}),)
        return Task(f"t{number}", "Write.", {"files": server}, evaluate=check)

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
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--only-play", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    server = LISTENS if asked.http else PIPES
    if asked.only_play is not None:
        asyncio.run(play(asked.only_play, asked.episodes, asked.at_once, server))
        return 0
    chance = random.Random(asked.seed)
    with tempfile.TemporaryDirectory(prefix="hudtui-isolation-") as place:
        folder, temporary = Path(place, "project"), Path(place, "temporary")
        temporary.mkdir()
        (folder / "template").mkdir(parents=True)
        (folder / "template" / "a.txt").write_text("alpha\n")
        tempfile.tempdir = str(temporary)
        began = time.monotonic()
        right, ids = asyncio.run(play(folder, asked.episodes, asked.at_once, server))
        seconds = time.monotonic() - began
        left, running = len(list(temporary.iterdir())), len(servers_in(temporary))
        print(f"{right} of {asked.episodes} episodes right, {ids} ids, {seconds:.0f} s, ", end="")
        print(f"{left} folders and {running} servers left")
        wrong = right != asked.episodes or ids != asked.episodes or left + running > 0

        command = [sys.executable, __file__, "--only-play", str(folder), "--at-once", "8"]
        command += ["--http"] * asked.http
        environment = {**os.environ, "TMPDIR": str(temporary)}
        behind = orphans = 0
        for _ in range(asked.kills):
            player = subprocess.Popen([*command, "--episodes", "200"], env=environment)
            until = time.monotonic() + 120
            while not any(folder.glob(f"out-{player.pid}/*")) and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(chance.random())
            player.kill()
            player.wait()
            behind += len(list(temporary.iterdir()))
            until = time.monotonic() + 30
            while servers_in(temporary) and time.monotonic() < until:
                time.sleep(0.05)
            orphans += len(servers_in(temporary))
        subprocess.run([*command, "--episodes", "1"], env=environment, check=True)
        left = len(list(temporary.iterdir()))
        print(f"{asked.kills} kills left {behind} folders, {left} of them after the next start, ")
        print(f"and {orphans} servers")
        return 1 if wrong or left or orphans else 0


if __name__ == "__main__":
    sys.exit(main())
