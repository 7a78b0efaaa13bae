"""Episodes of the bundled 2048, played in this process by scripted policies, and the trace files
that they make."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from hudtui.core.environment.values import ContentBlock, Tool, ToolResult
from hudtui.core.gym.config import parse_config
from hudtui.core.rollouts.episode import EpisodePlayer, drive
from hudtui.core.rollouts.policy import policy_source
from hudtui.core.rollouts.trace import write_episode
from hudtui.core.rollouts.values import Episode
from hudtui.core.tasks.task import Task, ToolCall
from hudtui.envs.text_2048 import environment

CONFIG = """
system_prompt: Play 2048.
action_mappings:
  left: {_tool: move, direction: {static: left}}
  right: {_tool: move, direction: {static: right}}
  up: {_tool: move, direction: {static: up}}
  down: {_tool: move, direction: {static: down}}
defaults: {max_turns: 6}
"""


class Table:
    """The bundled environment without the wire."""

    def __init__(self) -> None:
        self._table = environment.GameTable(1)
        kinds: Mapping[str, Any] = {"setup": "setup", "evaluate": "evaluate"}
        self.tools = {
            tool["name"]: Tool(
                tool["name"],
                tool["description"],
                tool["inputSchema"],
                kinds.get(tool["name"], "agent"),
            )
            for tool in environment.TOOLS
        }

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        answer: Any = self._table.call(name, dict(arguments))
        return ToolResult(
            (ContentBlock("text", text=answer["text"]),), answer["structured"], answer["is_error"]
        )


async def play(
    session: Any, config: Any, task: Task, complete: Any, *, on_turn: Any = None, **options: Any
) -> Episode:
    """Play one episode to its end, with a policy that sees images if it wants them; `options` are
    those of `EpisodePlayer`."""
    if options.get("images") is None:
        options["images"] = bool(getattr(complete, "wants_images", False))
    return await drive(EpisodePlayer(session, config, task, **options), complete, on_turn=on_turn)


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    """The lines of an evaluation's `metrics.jsonl`."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def task(
    name: str = "board", *, size: int = 3, seed: int = 1, target: int = 16, setup: str = "board"
) -> Task:
    """A task of 2048. Its setup fails where `setup` is none of the environment's."""
    return Task(
        id=name,
        prompt=f"Reach {target}.",
        mcp_config={
            "text-2048": {"command": sys.executable, "args": ["-m", "hudtui.envs.text_2048"]}
        },
        setup=(
            ToolCall("setup", {"name": setup, "arguments": {"board_size": size, "seed": seed}}),
        ),
        evaluate=(ToolCall("evaluate", {"name": "max_number", "arguments": {"target": target}}),),
    )


def played(
    task: Task,
    *,
    rollout: int = 0,
    policy: str = "random",
    replies: tuple[str, ...] = (),
    **info: Any,
) -> Episode:
    """Play an episode. Its times are always the same, as if each call took 2 ms and each reply half
    a second.

    Args:
        task: What is played.
        rollout: The number of the rollout, which the random choices depend on.
        policy: Of `policy_source`.
        replies: What the agent says instead, the last one again and again.
        info: Kept in the record.
    """
    config, _ = parse_config(CONFIG, name="config.yaml")
    said: Iterator[str] = iter(replies)

    async def speak(messages: Any) -> str:
        return next(said, replies[-1])

    complete = speak if replies else policy_source(policy, config).for_episode(task, rollout)
    info = {"policy": policy, "rollout": rollout, **info}
    with ThreadPoolExecutor(1) as aside:  # a test may have a loop of its own
        episode = aside.submit(
            asyncio.run, play(Table(), config, task, complete, info=info)
        ).result()
    turns = tuple(
        replace(turn, seconds={"complete": 0.5, "call": 0.002 if turn.call else 0.0})
        for turn in episode.turns
    )
    seconds = {
        "setup": 0.01,
        "play": 0.502 * len(turns),
        "evaluate": 0.002,
        "total": 0.012 + 0.502 * len(turns),
    }
    return replace(
        episode, turns=turns, seconds=seconds, started_at="2026-11-20T12:00:00.000+00:00"
    )


def write(path: Path, *episodes: Episode) -> Path:
    """Append episodes to a trace file."""
    for episode in episodes:
        write_episode(path, episode)
    return path
