"""What our rollouts cost beside the bare loop of the same MCP calls.

    python tests/bench/rollouts.py [--rounds 7] [--turns 50] [--only stdio|http|slow|trl]

The bare loop is the SDK's client: connect, list the tools, set up, so many moves, evaluate, close.
Ours is `evaluate` with a policy that says given replies: the same calls on the wire, and reading
replies, judging, scores and the traces on disk besides. text-2048 is played over stdio (a process
for each episode) and over HTTP (one server for all), one at a time and 64 at once. The two take
turns in one run, in both orders, so that a busy machine hits both.

- "in all" includes connections, and the records on disk.
- "moves" is the time from the moment when every episode is set up to the last answer to a move.
- "a move" is the median time of one move, where one episode is played at a time.
- "processor" is the processor time of this process alone, without the servers.

"ratio" is the median of the ratios of the pairs, "best" the ratio of the best rounds.

Then 64 rollouts of ten moves of 0.1 s each, beside the ideal of 1.0 s: in this process, over stdio,
and over stdio through `HudtuiSpec`. TRL's `GRPOTrainer` calls the tools of a batch one after the
other: one turn is measured in this order, and ten turns with a thread for each rollout.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client

from hudtui.core.environment.client import connect
from hudtui.core.environment.values import ToolResult, read_result, read_tools
from hudtui.core.gym.config import load_config
from hudtui.core.rollouts.evaluate import Connect, EpisodeDone, evaluate
from hudtui.core.rollouts.values import Message
from hudtui.core.tasks.task import Task, ToolCall
from hudtui.envs.text_2048.environment import TOOLS, GameTable

CONFIG = Path(__file__).parents[2] / "configs" / "2048.yaml"
MOVES = ("left", "up", "right", "down")
GAME = ("-m", "hudtui.envs.text_2048")
SECONDS, TURNS, MANY = 0.1, 10, 64
SLOW = f"""
import time
from hudtui.envs.text_2048 import stdio
class Table(stdio.GameTable):
    def call(self, tool, arguments):
        if tool == "move":
            time.sleep({SECONDS})
        return super().call(tool, arguments)
stdio.GameTable = Table
stdio.serve()
"""


@dataclass
class Clock:
    """When the moves of a wave began and ended: they begin when all its episodes are set up."""

    at_once: int
    began: float = 0.0
    laps: list[float] = field(default_factory=list)
    _waiting: asyncio.Barrier = field(init=False)

    def __post_init__(self) -> None:
        self._waiting = asyncio.Barrier(self.at_once)

    async def start(self) -> None:
        await self._waiting.wait()
        self.began = self.began or time.perf_counter()

    def lap(self) -> None:
        self.laps.append(time.perf_counter())


Wave = Callable[[Clock], Awaitable[None]]


def moves(turns: int) -> list[str]:
    return list(itertools.islice(itertools.cycle(MOVES), turns))


def make_tasks(count: int, servers: Mapping[str, Any]) -> list[Task]:
    return [
        Task(
            f"game-{seed}",
            "Play.",
            servers,
            setup=(ToolCall("setup", {"name": "board", "seed": seed}),),
            evaluate=(ToolCall("evaluate", {"name": "max_number", "target": 64}),),
        )
        for seed in range(count)
    ]


def write_tasks(path: Path, tasks: Sequence[Task]) -> None:
    records = [
        {
            "id": task.id,
            "prompt": task.prompt,
            "mcp_config": task.mcp_config,
            "setup_tool": {"name": task.setup[0].name, "arguments": task.setup[0].arguments},
            "evaluate_tool": {
                "name": task.evaluate[0].name,
                "arguments": task.evaluate[0].arguments,
            },
        }
        for task in tasks
    ]
    path.write_text(json.dumps(records))


class Script:
    """A policy that says given replies, from the moment when all are set up."""

    name = "script"
    wants_images = False

    def __init__(self, clock: Clock, turns: int) -> None:
        self._clock = clock
        self._replies = [f"<think>On.</think>\n<tool>{move}()</tool>" for move in moves(turns)]

    def for_episode(
        self, task: Task, rollout: int
    ) -> Callable[[Sequence[Message]], Awaitable[str]]:
        replies = iter(self._replies)
        first = True

        async def complete(messages: Sequence[Message]) -> str:
            nonlocal first
            if first:
                first = False
                await self._clock.start()
            return next(replies)

        return complete

    async def aclose(self) -> None:
        return None


def ours(tasks: Sequence[Task], turns: int, open_: Connect = connect) -> Wave:
    """Our rollouts of all tasks at once, with traces and metrics on disk."""
    config = load_config(CONFIG)

    async def wave(clock: Clock) -> None:
        with tempfile.TemporaryDirectory() as folder:
            events = evaluate(
                tasks,
                config,
                policy=Script(clock, turns),
                connect=open_,
                out_dir=Path(folder),
                concurrency=len(tasks),
                max_turns=turns,
                on_turn=lambda player, turn: clock.lap(),
            )
            async for event in events:
                if isinstance(event, EpisodeDone):
                    assert event.episode.ok and event.episode.scores.reward_found, (
                        event.episode.error
                    )
                    assert len(event.episode.turns) == turns

    return wave


def bare(
    tasks: Sequence[Task], turns: int, client: Callable[[], Client], *, before_last: bool = False
) -> Wave:
    """The same calls with the SDK alone; `before_last`: the last move is not counted among the
    moves."""

    async def episode(task: Task, clock: Clock) -> None:
        async with client() as session:
            await session.list_tools()
            for call in task.setup:
                await session.call_tool(call.name, dict(call.arguments))
            await clock.start()
            for number, move in enumerate(moves(turns), 1):
                await session.call_tool("move", {"direction": move})
                if number < turns or not before_last:
                    clock.lap()
            for call in task.evaluate:
                assert not (await session.call_tool(call.name, dict(call.arguments))).is_error

    async def wave(clock: Clock) -> None:
        await asyncio.gather(*(episode(task, clock) for task in tasks))

    return wave


async def timed(wave: Wave, at_once: int) -> dict[str, float]:
    clock = Clock(at_once)
    began, processor = time.perf_counter(), time.process_time()
    await wave(clock)
    ended = time.perf_counter()
    found = {
        "in all": ended - began,
        "moves": clock.laps[-1] - clock.began,
        "processor": time.process_time() - processor,
    }
    if at_once == 1:
        found["a move"] = statistics.median(
            later - earlier for earlier, later in itertools.pairwise(clock.laps)
        )
    return found


async def compare(title: str, one: Wave, other: Wave, at_once: int, rounds: int) -> None:
    """Measure both in turn, in both orders, and print the medians and the medians of the ratios of
    each pair."""
    rounds *= 4 if at_once == 1 else 1  # short ones, which a busy machine changes most
    for wave in (one, other):
        await timed(wave, at_once)
    gc.collect()
    gc.freeze()  # as `hudtui eval` does when everything is imported
    pairs: list[tuple[dict[str, float], dict[str, float]]] = []
    for number in range(rounds):
        if number % 2:
            second = await timed(other, at_once)
            pairs.append((await timed(one, at_once), second))
        else:
            pairs.append((await timed(one, at_once), await timed(other, at_once)))
    for what in pairs[0][0]:
        first, second = ([pair[side][what] for pair in pairs] for side in (0, 1))
        ratios = [a / b for a, b in zip(first, second, strict=True)]
        print(
            f"{title + ', ' + what:<44} {statistics.median(first):8.4f} "
            f"{statistics.median(second):8.4f} {statistics.median(ratios):7.2f} "
            f"{min(first) / min(second):7.2f}   {min(ratios):.2f} to {max(ratios):.2f}"
        )


def over_stdio(*arguments: str) -> Callable[[], Client]:
    place = StdioServerParameters(command=sys.executable, args=list(arguments))
    return lambda: Client(stdio_client(place), mode="legacy", read_timeout_seconds=120)


def over_http(url: str) -> Callable[[], Client]:
    return lambda: Client(url, mode="legacy", read_timeout_seconds=120)


@contextlib.asynccontextmanager
async def game_server() -> AsyncIterator[str]:
    """text-2048 over HTTP in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *GAME, "--http", "--port", "0", stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        yield (await process.stderr.readline()).decode().split()[-1]
    finally:
        process.terminate()
        await process.communicate()


def heading(one: str, other: str) -> None:
    print(
        f"\n{'seconds':<44} {one:>8} {other:>8} {'ratio':>7} {'best':>7}   ratios; load "
        f"{os.getloadavg()[0]:.1f}"
    )


# Slow tools


class SlowGame:
    """A session in this process whose moves take long, and nothing else does: the answers are those
    of a game played before."""

    def __init__(self) -> None:
        self.tools = {tool.name: tool for tool in read_tools(TOOLS)[0]}
        table = GameTable()
        calls = {
            "setup": {"name": "board", "seed": 1},
            "move": {"direction": "left"},
            "evaluate": {"name": "max_number", "target": 64},
        }
        self._answers = {
            name: table.call(name, arguments) or {} for name, arguments in calls.items()
        }

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        if name == "move":
            await asyncio.sleep(SECONDS)
        answer = self._answers[name]
        content = [{"type": "text", "text": answer["text"]}]
        return read_result(
            {
                "content": content,
                "structuredContent": answer["structured"],
                "isError": answer["is_error"],
            }
        )


SLOW_GAME = SlowGame()


@contextlib.asynccontextmanager
async def slow_game(servers: Mapping[str, Any]) -> AsyncIterator[SlowGame]:
    yield SLOW_GAME


async def sleeps(clock: Clock) -> None:
    """The same number of pauses, and nothing else."""

    async def one() -> None:
        await clock.start()
        for _ in range(TURNS):
            await asyncio.sleep(SECONDS)
            clock.lap()

    await asyncio.gather(*(one() for _ in range(MANY)))


async def slow(rounds: int) -> None:
    heading("hudtui", "bare")
    print(f"{MANY} rollouts x {TURNS} moves x {SECONDS} s: the ideal is {TURNS * SECONDS:.1f} s")
    await compare(
        "in this process / sleeps",
        ours(make_tasks(MANY, {}), TURNS, slow_game),
        sleeps,
        MANY,
        rounds,
    )
    tasks = make_tasks(MANY, {"game": {"command": sys.executable, "args": ["-c", SLOW]}})
    await compare(
        "stdio / SDK", ours(tasks, TURNS), bare(tasks, TURNS, over_stdio("-c", SLOW)), MANY, rounds
    )


def trl() -> None:
    """The environments that a trainer of TRL makes, called in its order and all at once."""
    from hudtui.core.trust import VARIABLE
    from hudtui.trainers.spec import HudtuiSpec

    with tempfile.TemporaryDirectory() as folder:
        os.environ[VARIABLE] = folder
        tasks = make_tasks(MANY, {"game": {"command": sys.executable, "args": ["-c", SLOW]}})
        write_tasks(Path(folder) / "tasks.json", tasks)
        spec = HudtuiSpec(CONFIG, "tasks.json", folder=folder)
        try:
            environments = [spec.environment_factory() for _ in range(MANY)]
            with ThreadPoolExecutor(MANY) as pool:
                list(pool.map(lambda n: environments[n].reset(task_id=f"game-{n}"), range(MANY)))
                began = time.perf_counter()
                for environment in environments:
                    environment.left()
                print(
                    "HudtuiSpec, one turn in the order of GRPOTrainer   "
                    f"{time.perf_counter() - began:8.3f} s"
                )
                began = time.perf_counter()
                for _ in range(TURNS):
                    list(pool.map(lambda environment: environment.up(), environments))
                print(
                    f"HudtuiSpec, {TURNS} turns, a thread for each rollout    "
                    f"{time.perf_counter() - began:8.3f} s"
                )
            assert all(environment.reward is not None for environment in environments)
        finally:
            spec.close()


async def run(rounds: int, turns: int, only: str | None) -> None:
    heading("hudtui", "SDK")
    if only in (None, "stdio"):
        for at_once, count in ((1, turns * 4), (MANY, turns)):
            tasks = make_tasks(at_once, {"game": {"command": sys.executable, "args": list(GAME)}})
            one, other = ours(tasks, count), bare(tasks, count, over_stdio(*GAME))
            await compare(f"stdio, {at_once} x {count} moves", one, other, at_once, rounds)
    if only in (None, "http"):
        async with game_server() as url:
            for at_once, count in (
                (1, turns * 4),
                (MANY, turns // 5),
            ):  # a move takes several times as long there
                tasks = make_tasks(at_once, {"game": {"url": url}})
                one, other = ours(tasks, count), bare(tasks, count, over_http(url))
                await compare(f"HTTP, {at_once} x {count} moves", one, other, at_once, rounds)
    if only in (None, "slow"):
        await slow(rounds)


def main() -> None:
    """Run the comparisons and print the tables."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--turns", type=int, default=50)
    options.add_argument("--only", choices=("stdio", "http", "slow", "trl"))
    given = options.parse_args()
    if given.only != "trl":
        asyncio.run(run(given.rounds, given.turns, given.only))
    if given.only in (None, "trl"):
        trl()


if __name__ == "__main__":
    main()
