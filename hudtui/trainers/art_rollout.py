"""Episodes as ART's trajectories.

A model with tool calls of its own plays a task, through the same rollouts as everywhere. A
trajectory holds the messages as the endpoint saw them, with the model's answers as `Choice`
objects: ART trains these alone.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import art
from openai.types.chat import ChatCompletion

from hudtui.core.environment.values import Session
from hudtui.core.errors import HudtuiError
from hudtui.core.gym.config import with_dialect
from hudtui.core.gym.dialects.dialect import as_function
from hudtui.core.gym.interpreter import DONE
from hudtui.core.gym.values import GymConfig
from hudtui.core.rollouts.chat import is_cut_off, reply_text
from hudtui.core.rollouts.episode import NO_SESSION, EpisodePlayer
from hudtui.core.rollouts.evaluate import Connect
from hudtui.core.rollouts.judging import Judges
from hudtui.core.rollouts.values import Episode
from hudtui.core.tasks.task import Task
from hudtui.core.text import clean_line


class ModelError(HudtuiError):
    """The model's endpoint gave no usable answer."""


class Chat(Protocol):
    """The model: an endpoint, or what stands for one in a rehearsal."""

    async def complete(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> ChatCompletion:
        """Return the model's next answer.

        Raises:
            ModelError: There is none.
        """
        ...


@dataclass(frozen=True)
class RolloutLimits:
    """Limits of an episode."""

    turns: int
    """Answers of the model."""
    call_seconds: float = 60.0
    """Seconds for a connection, and for one call of a tool."""
    seconds: float | None = None
    """Seconds for the whole episode; None: no limit."""


@dataclass
class Played:
    """An episode in both forms."""

    trajectory: art.Trajectory
    episode: Episode


@dataclass
class ToolRollouts:
    """Plays tasks with a model that calls tools by itself."""

    config: GymConfig
    connect: Connect
    limits: RolloutLimits
    judged: bool = False
    """A judge gives the rewards."""
    judges: Judges | None = None
    """Asks the models that judge the tasks."""

    def __post_init__(self) -> None:
        self.config = with_dialect(self.config, "native")

    async def play(
        self,
        task: Task,
        chat: Chat,
        *,
        info: Mapping[str, Any] | None = None,
        version: int | None = None,
    ) -> Played:
        """Play a task once, in an environment of its own.

        Never raises on account of the environment or of the model.

        `info` is kept in the episode's record; `version` is the step of the model, for ART's
        records.
        """
        play = _PlayedEpisode(self, task, chat, dict(info or {}), version)
        try:
            async with asyncio.timeout(self.limits.seconds):
                await play.run()
        except Exception as error:
            limit = self.limits.seconds
            late = isinstance(error, TimeoutError) and limit is not None
            play.broke(ModelError(f"the episode took longer than {limit:g} s") if late else error)
        return play.result()


class _PlayedEpisode:
    """One episode while it is played."""

    def __init__(
        self,
        rollouts: ToolRollouts,
        task: Task,
        chat: Chat,
        info: dict[str, Any],
        version: int | None,
    ) -> None:
        self._rollouts, self._task, self._chat = rollouts, task, chat
        self._info = info
        self._player: EpisodePlayer | None = None
        self._episode: Episode | None = None
        self._failure: Exception | None = None
        self._replies = 0
        self._errors = 0
        self._calls = 0
        self._tokens = 0
        self._trajectory = art.Trajectory(messages_and_choices=[], metadata=_metadata(task))
        self._trajectory.initial_policy_version = self._trajectory.final_policy_version = version

    async def run(self) -> None:
        rollouts, task = self._rollouts, self._task
        async with AsyncExitStack() as stack:
            session: Session = await stack.enter_async_context(rollouts.connect(task.mcp_config))
            player = self._player = EpisodePlayer(
                session,
                rollouts.config,
                task,
                max_turns=rollouts.limits.turns,
                info=self._info,
                images=True,
                keep_images=False,
                timeout=rollouts.limits.call_seconds,
                judged_later=rollouts.judged,
                judges=rollouts.judges,
            )
            stop = "error"
            try:
                stop = await self._talk(player)
            except Exception as error:
                player.fail(error)
            self._episode = await player.finish(stop)

    async def _talk(self, player: EpisodePlayer) -> str:
        """Let the model answer until it is done.

        Returns why the episode ends, where it has not ended by itself.
        """
        messages = self._trajectory.messages_and_choices
        messages += [dict(message) for message in await player.start()]
        actions = [tool for tool in player.actions if tool.name != DONE]
        tools = [as_function(tool) for tool in actions]
        self._trajectory.tools = tools
        while player.stop is None and self._replies < self._rollouts.limits.turns:
            began = perf_counter()
            answer = await self._chat.complete(self._trajectory.messages(), tools)
            seconds = perf_counter() - began
            if not answer.choices:
                raise ModelError("the model's answer holds no choice")
            choice = answer.choices[0]
            messages.append(choice)
            self._replies += 1
            self._tokens += answer.usage.completion_tokens if answer.usage else 0
            calls = choice.message.tool_calls or []
            reply = reply_text(choice.message.model_dump(), native=True)
            cut = is_cut_off(choice.model_dump())
            if not calls and player.interpret(reply, cut=cut).done:
                player.say(reply)
                return "done"
            messages += await self._play(player, calls, reply, seconds, cut=cut)
        return "max_turns"

    async def _play(
        self,
        player: EpisodePlayer,
        calls: Sequence[Any],
        reply: str,
        seconds: float,
        *,
        cut: bool,
    ) -> list[dict[str, Any]]:
        """Play a reply. Returns the messages that show the model what came of it."""
        self._calls += len(calls)
        turn = await player.step(reply, seconds=seconds, cut=cut)
        self._errors += turn.is_error
        return player.answers_to([call.id for call in calls])

    def broke(self, error: Exception) -> None:
        """Note why the episode did not come to its end."""
        self._failure = error

    def result(self) -> Played:
        episode = self._episode
        if episode is None:
            player = self._player or EpisodePlayer(
                NO_SESSION, self._rollouts.config, self._task, info=self._info
            )
            player.fail(self._failure or ModelError("the episode did not begin"))
            episode = player.record()
        trajectory = self._trajectory
        trajectory.reward = episode.scores.reward if math.isfinite(episode.scores.reward) else 0.0
        trajectory.metrics |= {
            "task_completed": episode.scores.task_completion >= 1,
            "task_completion": episode.scores.task_completion,
            "num_turns": self._replies,
            "tool_calls": self._calls,
            "tool_errors": self._errors,
            "completion_tokens": self._tokens,
            "is_error": not episode.ok,
        }
        trajectory.metadata |= {"stop": episode.stop}
        if episode.error:
            trajectory.logs.append(clean_line(episode.error, 2000))
        trajectory.finish()
        return Played(trajectory, episode)


def _metadata(task: Task) -> dict[str, Any]:
    return {
        "task_id": task.id,
        "scenario_id": task.id,
        "task_prompt": clean_line(task.prompt, 2000),
    }
