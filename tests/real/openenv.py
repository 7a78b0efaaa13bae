"""`hudtui env serve` with the openenv package's own programs: its validator, its client's episodes,
and 500 clients killed.

Run by hand: it installs openenv 0.10.0 into an environment of its own (some 480 MB).

    .venv/bin/python tests/real/openenv.py [--venv FOLDER] [--episodes 100] [--clients 500]

The episodes are played twice: by `hudtui eval`, whose replies a scripted endpoint on loopback
gives, and by an unmodified `GenericEnvClient`, which sends the same replies to the server, eight
conversations at once. All else is gone at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.games import game  # noqa: E402
from support.openenv_client import connected  # noqa: E402
from support.scripted_chat import scripted_chat  # noqa: E402

HUDTUI = (sys.executable, "-m", "hudtui")
PACKAGE = "openenv==0.10.0"
SESSIONS = 64
AT_ONCE = 50
"""Clients in a process that is killed."""
PLAYER = """
import asyncio, json, sys
from openenv import GenericEnvClient
url, scripts = sys.argv[1], json.load(sys.stdin)
rewards = {}
async def play(gate, task, replies):
    client = GenericEnvClient(base_url=url, connect_timeout_s=120, message_timeout_s=300)
    async with gate, client as env:
        result = await env.reset(task_id=task)
        for reply in replies:
            assert not result.done, task
            result = await env.step({"reply": reply})
        assert result.done, task
        rewards[task] = result.reward
async def main():
    gate = asyncio.Semaphore(8)
    await asyncio.gather(*(play(gate, task, replies) for task, replies in scripts.items()))
asyncio.run(main())
json.dump(rewards, sys.stdout)
"""
CROWD = """
import asyncio, contextlib, sys
from openenv import GenericEnvClient
url, count, stay = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "stay"
async def main():
    async with contextlib.AsyncExitStack() as stack:
        patience = {"connect_timeout_s": 120, "message_timeout_s": 300}
        clients = [GenericEnvClient(base_url=url, **patience) for _ in range(count)]
        for client in clients:
            await stack.enter_async_context(client)
        await asyncio.gather(*(client.reset() for client in clients))
        action = {"reply": "<think>x</think><tool>left()</tool>"}
        await asyncio.gather(*(client.step(action) for client in clients))
        print(len(clients), flush=True)
        if stay:
            await asyncio.sleep(1000)
asyncio.run(main())
"""


def main() -> int:
    """Validate, play, kill, print the table; returns the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--venv", type=Path, help="keep the environment of openenv there")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--smoke", action="store_true", help="two episodes, with our own client")
    parser.add_argument("--out", type=Path, help="with --smoke: its folder")
    given = parser.parse_args()
    if given.smoke:
        return smoke(given.out)
    rows: list[tuple[str, float, str, bool]] = []
    with tempfile.TemporaryDirectory(prefix="hudtui-openenv-") as name:
        began = time.monotonic()
        python = install(given.venv or Path(name) / "venv")
        rows.append(("installed", time.monotonic() - began, PACKAGE, True))
        work = Path(name) / "work"
        prepare(work, given.episodes)
        began = time.monotonic()
        here, scripts = own(work)
        turns = sum(map(len, scripts.values()))
        seen = f"{len(here)} episodes, {turns} replies, {len(set(here.values()))} different rewards"
        rows.append(("hudtui eval", time.monotonic() - began, seen, len(here) == given.episodes))
        with served(work) as (server, url):
            for title, step in (
                ("openenv validate", lambda: validate(python, url)),
                ("GenericEnvClient", lambda: play(python, url, scripts, here)),
                ("clients killed", lambda: kill(python, url, server, given.clients)),
            ):
                began = time.monotonic()
                seen, good = step()
                rows.append((title, time.monotonic() - began, seen, good))
    for title, seconds, seen, good in rows:
        print(f"{title:<18} {seconds:>7.1f} s  {seen}{'' if good else '  NOT as it should be'}")
    print(
        f"largest process: {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MB"
    )
    return 0 if all(good for *_, good in rows) else 1


def prepare(work: Path, episodes: int) -> None:
    """Write the tasks and the configuration."""
    os.environ["HUDTUI_TRUST"] = str(work.parent)
    work.mkdir()
    (work / "tasks.json").write_text(json.dumps([game(seed) for seed in range(episodes)]))
    (work / "2048.yaml").write_bytes((ROOT / "configs" / "2048.yaml").read_bytes())


def smoke(work: Path) -> int:
    """The same replies through `hudtui eval` and through the server; returns the exit code."""
    prepare(work, 2)
    here, scripts = own(work)

    async def again(url: str) -> dict[str, float]:
        rewards = {}
        for task, replies in scripts.items():
            async with connected(url) as client:
                seen = await client.reset(task_id=task)
                for reply in replies:
                    seen = await client.say(reply)
                rewards[task] = seen["reward"]
        return rewards

    with served(work) as (_, url):
        there = asyncio.run(again(url))
    print(f"hudtui eval {here}\nhudtui env serve {there}")
    return int(here != there)


def install(venv: Path) -> Path:
    """The package in an environment of its own; returns its Python."""
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True)
    return python


def own(work: Path) -> tuple[dict[str, float], dict[str, list[str]]]:
    """The rewards of `hudtui eval` by task, and the replies that were given."""
    with scripted_chat() as chat:
        env = {**os.environ, "OPENAI_API_KEY": "a-key-of-a-test", "OPENAI_BASE_URL": chat.url}
        command = [
            *HUDTUI,
            "eval",
            "tasks.json",
            "-c",
            "2048.yaml",
            "-m",
            "stub",
            "--max-turns",
            "30",
            "-o",
            "out",
            "--json",
        ]
        done = subprocess.run(command, cwd=work, env=env, check=True, capture_output=True)
    rewards = {
        one["task"]: one["reward"]
        for task in json.loads(done.stdout)["tasks"]
        for one in task["episodes"]
    }
    episodes = [
        json.loads(line) for line in (work / "out" / "traces.jsonl").read_text().splitlines()
    ]
    replies = {
        episode["task"]: [
            message["content"] for message in episode["messages"] if message["role"] == "assistant"
        ]
        for episode in episodes
    }
    return rewards, replies


@contextmanager
def served(work: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server; yields its process, and its address with the token."""
    command = [
        *HUDTUI,
        "env",
        "serve",
        "2048.yaml",
        "tasks.json",
        "--port",
        "0",
        "--sessions",
        str(SESSIONS),
        "--json",
    ]
    with (work / "server.log").open("w") as log:
        server = subprocess.Popen(
            [*command, "--max-turns", "30"], cwd=work, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert server.stdout is not None
    told = ""
    while not told.endswith("}\n"):
        line = server.stdout.readline()
        assert line, (work / "server.log").read_text()
        told += line
    found = json.loads(told)
    try:
        yield server, f"{found['url']}/{found['token']}"
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)


def validate(python: Path, url: str) -> tuple[str, bool]:
    """The package's own checks of a running server."""
    command = [python.with_name("openenv"), "validate", "--url", url, "--timeout", "60", "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
    summary = found["summary"]
    return f"{summary['passed_count']} of {summary['total_count']} checks", found[
        "passed"
    ] and summary["total_count"] == 6


def play(
    python: Path, url: str, scripts: dict[str, list[str]], here: dict[str, float]
) -> tuple[str, bool]:
    """The same replies, sent by the package's client."""
    done = subprocess.run(
        [python, "-c", PLAYER, url],
        input=json.dumps(scripts),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    there = json.loads(done.stdout)
    same = sum(there.get(task) == reward for task, reward in here.items())
    return f"{same} of {len(here)} rewards are the same, to the bit", same == len(here) == len(
        there
    )


def kill(python: Path, url: str, server: subprocess.Popen[str], clients: int) -> tuple[str, bool]:
    """Processes of clients that are killed in the middle of their episodes; then all sessions can
    be had."""
    dead = 0
    for _ in range(clients // AT_ONCE):
        crowd = subprocess.Popen(
            [python, "-c", CROWD, url, str(AT_ONCE), "stay"], stdout=subprocess.PIPE, text=True
        )
        assert crowd.stdout is not None
        dead += int(crowd.stdout.readline() or 0)
        crowd.kill()
        crowd.wait()
    limit = time.monotonic() + 60
    while (left := children(server.pid)) and time.monotonic() < limit:
        time.sleep(0.1)
    done = subprocess.run(
        [python, "-c", CROWD, url, str(SESSIONS), "go"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    opened = int(done.stdout or 0)
    seen = f"{dead} killed, {left} environments left; then {opened} of {SESSIONS} sessions opened"
    return seen, (dead, left, opened) == (clients, 0, SESSIONS)


def children(pid: int) -> int:
    """How many processes a process has started that still run."""
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


if __name__ == "__main__":
    raise SystemExit(main())
