"""Test a task.

Set it up and evaluate it at once, which shows a broken set-up or evaluator before anything is
trained on it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hudtui.core.errors import HudtuiError
from hudtui.core.events import Progress
from hudtui.core.flows.person import Person
from hudtui.core.gym.rubric import reward_warning
from hudtui.core.json_text import pretty
from hudtui.core.project import Project
from hudtui.core.tasks.task import Task

if TYPE_CHECKING:
    from hudtui.core.environment.values import Session, Tool, ToolResult
    from hudtui.core.settings import Settings


@dataclass(frozen=True)
class Step:
    """A call that the task makes, and its answer."""

    tool: str
    arguments: Mapping[str, Any]
    answer: str
    """As the environment wrote it: not cleaned for display."""
    failed: bool
    seconds: float


@dataclass(frozen=True)
class Trial:
    """The outcome of a test."""

    task: str
    """Id of the task."""
    verdict: str
    """One sentence."""
    severity: Literal["success", "warning", "error"]
    reward: float | None
    """None if the evaluator gave none."""
    steps: tuple[Step, ...]
    details: tuple[str, ...] = ()
    """Reason why the test failed, and what to do."""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the form of `hudtui tasks test --json`."""
        return {
            "task": self.task,
            "ok": self.severity != "error",
            "severity": self.severity,
            "verdict": self.verdict,
            "details": list(self.details),
            "reward": self.reward,
            "seconds": round(self.seconds, 3),
            "steps": [
                {
                    "tool": step.tool,
                    "arguments": dict(step.arguments),
                    "answer": step.answer,
                    "failed": step.failed,
                    "seconds": round(step.seconds, 3),
                }
                for step in self.steps
            ],
        }


async def try_task(
    project: Project,
    person: Person,
    task: Task,
    tasks: str,
    *,
    agreed: set[str] | None = None,
) -> AsyncGenerator[Progress | Trial, None]:
    """Test a task after the person has agreed to start its servers.

    Args:
        project: The project of the task.
        person: Agrees to the test.
        task: The task.
        tasks: The source of the task, as the user named it.
        agreed: Servers and judges that the person has agreed to; this task's are added, so that
            the person agrees once.

    Yields:
        A `Progress` when the test begins, then a `Trial`, whatever the environment did. Nothing
        when the person declines.

    Raises:
        Untrusted: The user has not agreed to what the task starts or connects to.
    """
    from hudtui.core import trust
    from hudtui.core.environment.powers import server_lines
    from hudtui.core.rollouts.evaluate import tasks_file
    from hudtui.core.tasks.judges import judge_lines, required_powers

    agreed = set() if agreed is None else agreed
    settings = await asyncio.to_thread(project.settings)
    judges = judge_lines(task, settings.lookup)
    servers = json.dumps([task.mcp_config, judges], sort_keys=True, default=repr)
    if servers not in agreed:
        lines = (
            *server_lines(task.mcp_config),
            *judges,
            "",
            "The task is set up and evaluated at once; no agent plays.",
        )
        if not await person.confirm(f"Test {task.id}?", lines, yes="Test"):
            return
        agreed.add(servers)
    file = tasks_file(tasks, project.folder)
    powers = required_powers([task], file, settings.lookup)
    await asyncio.to_thread(trust.require, project.folder, powers)
    yield Progress("test", f"testing {task.id}")
    yield await _trial(task, settings)


async def _trial(task: Task, settings: Settings) -> Trial:
    from hudtui.core.environment.bundled import with_python_variable
    from hudtui.core.environment.client import connect
    from hudtui.core.gym.values import GymConfig
    from hudtui.core.rollouts.episode import EpisodePlayer
    from hudtui.core.rollouts.judging import Judges
    from hudtui.core.tasks.expectation_form import parts_of
    from hudtui.core.tasks.judges import key_problems

    began, timeout = time.monotonic(), settings.client_timeout
    lookup, folder = with_python_variable(settings.lookup), settings.folder
    steps: list[Step] = []

    def outcome(
        severity: Literal["success", "warning", "error"],
        verdict: str,
        *details: str,
        reward: float | None = None,
    ) -> Trial:
        return Trial(
            task.id, verdict, severity, reward, tuple(steps), details, time.monotonic() - began
        )

    for problem in key_problems(parts_of(task), settings.lookup, settings.lacking):
        return outcome("error", f"{problem.field}: {problem.message}")
    judges = Judges(settings.lookup)
    try:
        async with connect(
            task.mcp_config, lookup=lookup, timeout=timeout, folder=folder
        ) as session:
            player = EpisodePlayer(
                _Recorder(session, steps), GymConfig(), task, timeout=timeout, judges=judges
            )
            await player.start()
            episode = await player.finish()
    except HudtuiError as error:
        first, *rest = error.lines()
        return outcome("error", f"the environment failed: {first}", *rest)
    if (complaint := episode.info.get("evaluation_error")) is not None:
        if not complaint.startswith("the evaluator "):
            return outcome("error", f"the evaluator is broken: {complaint}")
        fix = "An evaluator answers with `reward` (0 to 1), as structured content or as JSON text."
        return outcome("error", complaint, fix)
    if episode.stop == "error":
        return outcome("error", str(episode.error))
    parts = [part.line() for part in episode.scores.parts]
    if not task.judged:
        return outcome(
            "success", "setup works; no evaluator: set `rubric.reward` in the configuration"
        )
    reward = episode.scores.task_completion
    if (told := reward_warning(reward)) is not None:
        return outcome("warning", told, reward=reward)
    if reward >= 1:
        verdict = (
            f"reward {reward:g} before anything was done: this task gives full marks without a move"
        )
        return outcome("warning", verdict, *parts, reward=reward)
    return outcome(
        "success",
        f"setup and evaluation work: reward {reward:g} before the first move",
        *parts,
        reward=reward,
    )


class _Recorder:
    """A session that records the calls that go through it."""

    def __init__(self, session: Session, steps: list[Step]) -> None:
        self._session, self._steps = session, steps

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._session.tools

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        began = time.monotonic()
        try:
            result = await self._session.call_tool(name, arguments, timeout=timeout)
        except HudtuiError as error:
            self._steps.append(
                Step(name, arguments, "\n".join(error.lines()), True, time.monotonic() - began)
            )
            raise
        self._steps.append(
            Step(name, arguments, _text(result), result.is_error, time.monotonic() - began)
        )
        return result


def _text(result: ToolResult) -> str:
    parts = [
        block.text
        if block.type == "text" and block.text is not None
        else f"[{block.type} {block.mime_type or block.uri or ''}]"
        for block in result.blocks
    ]
    if result.structured is not None and not result.repeats_text:
        parts.append(pretty(result.structured))
    return "\n".join(parts) or "(an empty answer)"
