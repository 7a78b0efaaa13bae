"""Test a task.

Set it up and evaluate it at once, which shows a broken setup or evaluator before anything is
trained on it. A task with a `solution` is set up once more, on a connection of its own, and its
solution is played, which shows whether the task can be solved.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from hudtui.core.environment.episode_place import has_own_folder
from hudtui.core.errors import HudtuiError
from hudtui.core.events import Progress
from hudtui.core.flows.person import Person
from hudtui.core.gym.rubric import reward_warning
from hudtui.core.json_text import pretty
from hudtui.core.project import Project
from hudtui.core.tasks.expectation_form import part_calls, parts_of
from hudtui.core.tasks.solution import Solution, solution_of
from hudtui.core.tasks.task import Task
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from hudtui.core.environment.values import Session, Tool, ToolResult
    from hudtui.core.rollouts.judging import Judges
    from hudtui.core.rollouts.values import Episode
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
    solution: bool = False
    """True if it was made while the solution was played."""


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
    solved: bool | None = None
    """True if the task's solution solves it; None if it has none, or it was not played."""

    def to_json(self) -> dict[str, Any]:
        """Return the form of `hudtui tasks test --json`."""
        return {
            "task": self.task,
            "ok": self.severity != "error",
            "severity": self.severity,
            "verdict": self.verdict,
            "details": list(self.details),
            "reward": self.reward,
            "solved": self.solved,
            "seconds": round(self.seconds, 3),
            "steps": [
                {
                    "tool": step.tool,
                    "arguments": dict(step.arguments),
                    "answer": step.answer,
                    "failed": step.failed,
                    "solution": step.solution,
                    "seconds": round(step.seconds, 3),
                }
                for step in self.steps
            ],
        }


async def try_task(
    project: Project,
    person: Person,
    task: Task,
    tasks: str | None,
    *,
    agreed: set[str] | None = None,
) -> AsyncGenerator[Progress | Trial, None]:
    """Test a task after the person has agreed to start its servers.

    Args:
        project: The project of the task.
        person: Agrees to the test.
        task: The task.
        tasks: The source of the task, as the user named it; None if the person named the servers
            themselves, so that no file of the folder asks for anything.
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
    if tasks is not None:
        file = tasks_file(tasks, project.folder)
        powers = required_powers([task], file, settings.lookup)
        lacking = await asyncio.to_thread(trust.missing, project.folder, powers)
        if lacking and has_own_folder(task.mcp_config):
            # The question of trust shows the same, and a throw-away folder is nobody's loss.
            agreed.add(servers)
        await asyncio.to_thread(trust.require, project.folder, powers)
    if servers not in agreed:
        again = "Then they start once more, and the task's solution is played."
        lines = (
            *server_lines(task.mcp_config),
            *judges,
            "",
            "The task is set up and evaluated at once; no agent plays.",
            *((again,) if solution_of(task) is not None else ()),
            *_reach(task),
        )
        if not await person.confirm(f"Test {task.id}?", lines, yes="Test"):
            return
        agreed.add(servers)
    yield Progress("test", f"testing {task.id}")
    yield await _trial(task, settings)


def _reach(task: Task) -> tuple[str, ...]:
    """What the calls of a test change."""
    if has_own_folder(task.mcp_config):
        return ("Its servers get a throw-away folder, which goes with the test.",)
    solution = solution_of(task)
    calls = [*task.setup, *(() if solution is None else solution.calls), *task.evaluate]
    calls += [call for _, call in part_calls(parts_of(task))]
    if not calls:
        return ()
    names = ", ".join(dict.fromkeys(clean_line(call.name, 40) for call in calls))
    return (
        f"! It calls {clean_line(names, 200)} on the real thing: no server has ${{EPISODE_DIR}}, a "
        "folder of its own for each episode.",
    )


async def _trial(task: Task, settings: Settings) -> Trial:
    from hudtui.core.rollouts.judging import Judges
    from hudtui.core.tasks.judges import key_problems

    began = time.monotonic()
    for problem in key_problems(parts_of(task), settings.lookup, settings.lacking):
        return Trial(task.id, f"{problem.field}: {problem.message}", "error", None, ())
    judges = Judges(settings.lookup)
    first = await _attempt(task, settings, judges)
    trial = _opening_trial(task, first)
    solution = solution_of(task)
    if solution is not None and trial.severity != "error":
        second = await _attempt(task, settings, judges, solution)
        trial = _solved_trial(task, trial, second)
    return replace(trial, seconds=time.monotonic() - began)


@dataclass(frozen=True)
class _Attempt:
    """A task that was set up, played by its solution or not at all, and evaluated."""

    steps: tuple[Step, ...]
    episode: Episode | None = None
    error: tuple[str, ...] = ()
    """Reason why there is no episode, and what to do."""

    @property
    def complaint(self) -> tuple[str, ...]:
        """What broke; empty if nothing did."""
        if self.episode is None:
            return (f"the environment failed: {self.error[0]}", *self.error[1:])
        wrong = self.episode.info.get("evaluation_error")
        if wrong is None:
            return (str(self.episode.error),) if self.episode.stop == "error" else ()
        if not wrong.startswith("the evaluator "):
            return (f"the evaluator is broken: {wrong}",)
        fix = "An evaluator answers with `reward` (0 to 1), as structured content or as JSON text."
        return (wrong, fix)


async def _attempt(
    task: Task, settings: Settings, judges: Judges, solution: Solution | None = None
) -> _Attempt:
    """Play a task on a connection of its own: its solution, or nothing."""
    from hudtui.core.environment.bundled import with_python_variable
    from hudtui.core.environment.client import connect
    from hudtui.core.gym.values import GymConfig
    from hudtui.core.rollouts.episode import EpisodePlayer

    timeout, folder = settings.client_timeout, settings.folder
    lookup = with_python_variable(settings.lookup)
    steps: list[Step] = []
    try:
        async with connect(
            task.mcp_config, lookup=lookup, timeout=timeout, folder=folder
        ) as session:
            recorder = _Recorder(session, steps, solution=solution is not None)
            player = EpisodePlayer(recorder, GymConfig(), task, timeout=timeout, judges=judges)
            await player.start()
            while solution is not None and player.stop is None:
                await player.follow(solution)
            episode = await player.finish()
    except HudtuiError as error:
        return _Attempt(tuple(steps), error=tuple(error.lines()))
    return _Attempt(tuple(steps), episode)


def _opening_trial(task: Task, attempt: _Attempt) -> Trial:
    """The outcome of a task that was evaluated before anything was done."""
    if attempt.complaint:
        verdict, *details = attempt.complaint
        return Trial(task.id, verdict, "error", None, attempt.steps, tuple(details))
    if not task.judged:
        verdict = "setup works; no evaluator: set `rubric.reward` in the configuration"
        return Trial(task.id, verdict, "success", None, attempt.steps)
    assert attempt.episode is not None
    scores = attempt.episode.scores
    reward = scores.task_completion
    if (message := reward_warning(reward)) is not None:
        return Trial(task.id, message, "warning", reward, attempt.steps)
    parts = tuple(part.line() for part in scores.parts)
    if reward >= 1:
        verdict = (
            f"reward {reward:g} before anything was done: this task gives full marks without a move"
        )
        return Trial(task.id, verdict, "warning", reward, attempt.steps, parts)
    verdict = f"setup and evaluation work: reward {reward:g} before the first move"
    return Trial(task.id, verdict, "success", reward, attempt.steps, parts)


def _solved_trial(task: Task, trial: Trial, attempt: _Attempt) -> Trial:
    """The outcome of a test after the solution was played, too."""
    steps = (*trial.steps, *attempt.steps)
    if attempt.complaint:
        verdict, *details = attempt.complaint
        said = f"the solution cannot be played: {verdict}"
        return replace(trial, severity="error", verdict=said, steps=steps, details=tuple(details))
    if not task.judged:
        verdict = f"{trial.verdict}; so nothing says whether the solution solves the task"
        return replace(trial, verdict=verdict, steps=steps)
    assert attempt.episode is not None
    episode = attempt.episode
    reward = episode.scores.task_completion
    if episode.solved:
        verdict = f"{trial.verdict}; the solution solves it: reward {reward:g}"
        return replace(trial, verdict=verdict, steps=steps, solved=True)
    lines = [part.line() for part in episode.scores.parts if part.score < 1]
    refused = [
        f"{turn.call['tool']} answered with an error: {turn.observation}"
        for turn in episode.turns
        if turn.is_error and turn.call is not None
    ]
    return replace(
        trial,
        severity="error",
        verdict=f"the solution does not solve it: reward {reward:g}",
        steps=steps,
        details=(*lines, *refused),
        solved=False,
    )


class _Recorder:
    """A session that records the calls that go through it."""

    def __init__(self, session: Session, steps: list[Step], *, solution: bool) -> None:
        self._session, self._steps, self._solution = session, steps, solution

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._session.tools

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        began = time.monotonic()

        def keep(answer: str, *, failed: bool) -> None:
            seconds = time.monotonic() - began
            self._steps.append(Step(name, arguments, answer, failed, seconds, self._solution))

        try:
            result = await self._session.call_tool(name, arguments, timeout=timeout)
        except HudtuiError as error:
            keep("\n".join(error.lines()), failed=True)
            raise
        keep(_text(result), failed=result.is_error)
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
