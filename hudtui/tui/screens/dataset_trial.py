"""Testing one task: set it up, judge it at once, and see whether that works before anything is trained on it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import HudtuiError
from hudtui.core.tasks.read import tool_calls
from hudtui.core.tasks.table import TaskRecord
from hudtui.core.tasks.task import Task
from hudtui.tui.widgets.json_text import pretty

if TYPE_CHECKING:
    from hudtui.core.environment.values import Session, Tool, ToolResult
    from hudtui.core.variables import Lookup

TIMEOUT = 60.0
"""Seconds for the connection, and for each call."""


@dataclass(frozen=True)
class Step:
    """A call that the task makes, and what came back."""

    tool: str
    arguments: Mapping[str, Any]
    answer: str
    failed: bool
    seconds: float


@dataclass(frozen=True)
class Trial:
    """What came of a test."""

    task: str
    verdict: str
    """One sentence."""
    severity: str
    """`success`, `warning` or `error`."""
    reward: float | None
    """None where none was found."""
    steps: tuple[Step, ...]
    details: tuple[str, ...] = ()
    """Why it failed, and what to do."""
    seconds: float = 0.0


def task_of(record: TaskRecord) -> Task:
    """A record of an index as a task that can be played."""
    data = record.columns
    return Task(
        id=record.id,
        prompt=record.prompt,
        mcp_config=data.get("mcp_config") or {},
        setup=tool_calls(data.get("setup_tool")),
        evaluate=tool_calls(data.get("evaluate_tool")),
        metadata=data.get("metadata") or {},
    )


class _Recorder:
    """A session that remembers the calls that go through it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.steps: list[Step] = []

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._session.tools

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None) -> ToolResult:
        began = time.monotonic()
        try:
            result = await self._session.call_tool(name, arguments, timeout=timeout)
        except HudtuiError as error:
            self.steps.append(Step(name, arguments, "\n".join(error.lines()), True, time.monotonic() - began))
            raise
        self.steps.append(Step(name, arguments, _words(result), result.is_error, time.monotonic() - began))
        return result


def _words(result: ToolResult) -> str:
    parts = [
        block.text if block.type == "text" and block.text is not None else f"[{block.type} {block.mime_type or block.uri or ''}]"
        for block in result.blocks
    ]
    if result.structured is not None and not result.repeats_text:
        parts.append(pretty(result.structured))
    return "\n".join(parts) or "(an empty answer)"


async def try_task(task: Task, lookup: Lookup) -> Trial:
    """Connect to the environment of a task, set the task up and judge it at once. Never raises for what the environment does.

    Args:
        task: The task.
        lookup: Values of the variables in its `mcp_config`.
    """
    from hudtui.core.environment.client import connect
    from hudtui.core.gym.values import GymConfig
    from hudtui.core.rollouts.episode import EpisodePlayer

    began = time.monotonic()
    steps: list[Step] = []
    try:
        async with connect(task.mcp_config, lookup=lookup, timeout=TIMEOUT) as session:
            recorder = _Recorder(session)
            steps = recorder.steps
            player = EpisodePlayer(recorder, GymConfig(), task, timeout=TIMEOUT)
            await player.start()
            episode = await player.finish()
    except HudtuiError as error:
        first, *rest = error.lines()
        return Trial(task.id, f"the environment failed: {first}", "error", None, tuple(steps), tuple(rest), _since(began))
    told = tuple(steps)
    scores, complaint = episode.scores, episode.info.get("evaluation_error")
    if episode.stop == "error":
        return Trial(task.id, str(episode.error), "error", None, told, (), _since(began))
    if complaint is not None:
        verdict = f"the evaluator is broken: it answered with an error: {complaint}"
        return Trial(task.id, verdict, "error", None, told, (), _since(began))
    if not scores.reward_found:
        fix = "An evaluator answers with `reward` (0 to 1), as structured content or as JSON text."
        return Trial(task.id, "the evaluator's answer holds no reward", "error", None, told, (fix,), _since(began))
    reward = scores.task_completion
    if reward >= 1:
        verdict = f"reward {reward:g} before anything was done: this task gives full marks for nothing"
        return Trial(task.id, verdict, "warning", reward, told, (), _since(began))
    verdict = f"set-up and evaluation work: reward {reward:g} before the first move"
    return Trial(task.id, verdict, "success", reward, told, (), _since(began))


def _since(began: float) -> float:
    return time.monotonic() - began
