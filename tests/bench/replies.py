"""Episodes of a trainer with a slow environment among them: batches, and a server that is asked for
each reply by itself.

    python tests/bench/replies.py [--rounds 3] [--conversations 16] [--turns 8]

Both play the same tasks over sessions in this process. A move takes 0.1 s, in one of the
conversations 2 s. A reply takes 0.1 s: a batch all at once, as a GPU generates it, and the server
each by itself. "the others" is the time until all conversations but the slow one are over, and
"step" the time until all are.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `support`

from rollouts import CONFIG, SlowGame, make_tasks
from support.letters import Letters
from support.token_server import token_server

from hudtui.core.environment.values import ToolResult
from hudtui.core.gym.config import load_config
from hudtui.core.training.chat_tokens import ChatTokens
from hudtui.trainers.replies import BatchReplies, ReplySource, ServerReplies
from hudtui.trainers.rollout import EpisodeRunner

REPLY, SLOW = 0.1, 2.0
LETTERS = Letters()
SAID = [*LETTERS("<think>On.</think><tool>left()</tool>", add_special_tokens=False)["input_ids"], 1]
LOGPROBS: list[float | None] = [-0.5] * len(SAID)


class Slower(SlowGame):
    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        if name == "move":
            await asyncio.sleep(SLOW - 0.1)
        return await super().call_tool(name, arguments, timeout=timeout)


async def measure(replies: ReplySource, conversations: int, turns: int) -> tuple[float, float]:
    """Seconds until all conversations but the slow one are over, and until all are."""
    ends: list[float] = []

    @contextlib.asynccontextmanager
    async def connect(servers: Mapping[str, Any]) -> AsyncIterator[SlowGame]:
        yield Slower() if "slow" in servers else SlowGame()
        ends.append(time.perf_counter())

    tasks = [*make_tasks(conversations - 1, {"game": {}}), *make_tasks(1, {"slow": {}})]
    runner = EpisodeRunner(
        load_config(CONFIG),
        ChatTokens(LETTERS),
        connect,
        max_tokens=60,
        max_seq_len=99999,
        max_turns=turns,
        warn=lambda _: None,
    )
    began = time.perf_counter()
    await runner.play(tasks, replies)
    return ends[-2] - began, ends[-1] - began


def batch(prompts: Sequence[Sequence[int]]) -> Any:
    time.sleep(REPLY)
    return [SAID] * len(prompts), [LOGPROBS] * len(prompts)


def alone(prompt: list[int]) -> Any:
    time.sleep(REPLY)
    return SAID, LOGPROBS


def main() -> None:
    """Measure both in turn and print the medians."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--conversations", type=int, default=16)
    options.add_argument("--turns", type=int, default=8)
    given = options.parse_args()
    found: dict[str, list[tuple[float, float]]] = {"batch": [], "server": []}
    with token_server(alone) as server:
        for _ in range(given.rounds):
            sources: dict[str, ReplySource] = {
                "batch": BatchReplies(batch),
                "server": ServerReplies(server.url, {}, end=1),
            }
            for name, source in sources.items():
                found[name].append(asyncio.run(measure(source, given.conversations, given.turns)))
    print(
        f"{given.conversations} conversations x {given.turns} turns; load {os.getloadavg()[0]:.1f}"
    )
    print(
        f"ideal: the others {given.turns * (REPLY + 0.1):.1f} s, step "
        f"{given.turns * (REPLY + SLOW):.1f} s"
    )
    replies = (given.conversations - 1) * given.turns
    for name, pairs in found.items():
        others, step = (statistics.median(values) for values in zip(*pairs, strict=True))
        print(
            f"{name:<8} the others {others:6.2f} s ({replies / others:6.1f} replies a second)   "
            f"step {step:6.2f} s"
        )


if __name__ == "__main__":
    main()
