"""One client's episodes.

Each `reset` plays a task in an environment of its own, each `step` is a turn of it. The episode is
that of every other place: `EpisodePlayer` interprets replies, calls tools, ends and scores.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from hudtui.core.environment.episode_place import is_per_episode
from hudtui.core.environment.openenv_messages import Observation, call_action, call_outcome
from hudtui.core.environment.values import Session, Tool
from hudtui.core.errors import HudtuiError
from hudtui.core.gym.values import GymConfig
from hudtui.core.openenv.messages import (
    RESERVED,
    CallAction,
    ListAction,
    Refused,
    TaskChoice,
    read_action,
    read_choice,
    rpc_error,
    rpc_result,
    tool_entry,
)
from hudtui.core.rollouts.episode import EpisodePlayer
from hudtui.core.rollouts.evaluate import Connect
from hudtui.core.rollouts.judging import Judges
from hudtui.core.rollouts.values import Episode, Message, Turn
from hudtui.core.tasks.task import Task
from hudtui.core.text import clean_line, did_you_mean

_METHOD_NOT_FOUND = -32601
_INVALID_REQUEST = -32600
_INVALID_PARAMS = -32602
_SERVER_ERROR = -32000


class ServedTasks:
    """Tasks and configuration of a server, the same for all its clients.

    Args:
        tasks: At least one.
        config: What replies mean.
        connect: Opens the environment of a task.
        actions: What an agent can call, for clients that ask before their first `reset`.
        max_turns: Replies an episode may have; None for the configuration's own limit.
        timeout: Seconds for one call.
        images: Send images.
        reuse: Keep a client's environment for its next task where the tasks name the same servers.
        on_episode: Called with each episode that came to its end.
        on_broken: Called with the task and the turns of each episode that its client left or
            replaced before its end.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        config: GymConfig,
        connect: Connect,
        *,
        actions: Sequence[Tool] = (),
        max_turns: int | None = None,
        timeout: float | None = None,
        images: bool = False,
        reuse: bool = False,
        judges: Judges | None = None,
        on_episode: Callable[[Task, Episode], None] = lambda task, episode: None,
        on_broken: Callable[[Task, int], None] = lambda task, turns: None,
    ) -> None:
        self.tasks = tuple(tasks)
        self.config = config
        self.connect = connect
        self.actions = tuple(actions)
        self.max_turns = max_turns
        self.timeout = timeout
        self.images = images
        self.reuse = reuse
        self.judges = judges
        self.on_episode = on_episode
        self.on_broken = on_broken
        self._places = {task.id: index for index, task in enumerate(self.tasks)}
        self._next = 0

    def choose(self, choice: TaskChoice) -> Task:
        """The task that a client asks for.

        By id, by index, by seed (`seed` modulo the number of tasks), else the next one.

        Raises:
            Refused: There is no such task.
        """
        if choice.task_id is not None:
            place = self._places.get(choice.task_id)
            if place is None:
                near = did_you_mean(choice.task_id, self._places)
                hint = f"; did you mean {clean_line(near, 80)}?" if near else ""
                raise Refused(
                    "VALIDATION_ERROR", f"there is no task {clean_line(choice.task_id, 80)}{hint}"
                )
            return self.tasks[place]
        if choice.index is not None:
            if choice.index >= len(self.tasks):
                raise Refused(
                    "VALIDATION_ERROR",
                    f"there is no task {choice.index}: the last one is {len(self.tasks) - 1}",
                )
            return self.tasks[choice.index]
        if choice.seed is not None:
            return self.tasks[choice.seed % len(self.tasks)]
        task = self.tasks[self._next % len(self.tasks)]
        self._next += 1
        return task


class EpisodeSession:
    """The episodes of one client, one after the other.

    Each method is awaited before the next is called.
    """

    def __init__(self, served: ServedTasks) -> None:
        self._served = served
        self._stack = AsyncExitStack()
        self._session: Session | None = None
        self._servers: Mapping[str, Any] | None = None
        self._player: EpisodePlayer | None = None
        self._episode: Episode | None = None
        self._episode_id: str | None = None

    async def reset(self, data: Any) -> dict[str, Any]:
        """Begin an episode.

        Returns:
            The observation: what the agent is shown first. Its reward is null.

        Raises:
            Refused: There is no such task, the environment cannot be started, or the task's setup
                failed.
        """
        choice = read_choice(data)
        task = self._served.choose(choice)
        reusable = (
            self._served.reuse
            and not is_per_episode(task.mcp_config)
            and self._servers == task.mcp_config
            and self._episode is not None
            and self._episode.ok
        )
        if not reusable:
            await self.close()
        self._player = self._episode = None
        self._episode_id = choice.episode_id or str(uuid.uuid4())
        try:
            if self._session is None:
                self._session = await self._stack.enter_async_context(
                    self._served.connect(task.mcp_config)
                )
                self._servers = task.mcp_config
        except HudtuiError as error:
            raise Refused("FACTORY_ERROR", "; ".join(error.lines())) from None
        player = EpisodePlayer(
            self._session,
            self._served.config,
            task,
            max_turns=self._served.max_turns,
            info={"policy": "openenv", "episode_id": self._episode_id},
            images=self._served.images,
            keep_images=False,
            timeout=self._served.timeout,
            judges=self._served.judges,
        )
        messages = await player.start()
        if player.stop is not None:
            raise Refused("EXECUTION_ERROR", player.error or "the setup failed")
        self._player = player
        observation = {
            **_shown(messages[-1]),
            "task_id": task.id,
            "turn": 0,
            "is_error": False,
            "system_prompt": messages[0]["content"] if messages[0]["role"] == "system" else "",
            "examples": [vars(example) for example in self._served.config.rounds],
            "max_turns": player.max_turns,
        }
        metadata = {"episode_id": self._episode_id, "task_id": task.id}
        return Observation(observation, None, done=False).to_json(metadata)

    async def step(self, data: Any) -> dict[str, Any]:
        """Play a turn, or list the tools.

        Returns:
            The observation. The reward is that of the rubric when the episode is over, and 0
            before.

        Raises:
            Refused: The action cannot be understood, no episode is under way, or the environment
                was lost.
        """
        action = read_action(data)
        if isinstance(action, ListAction):
            tools = [tool_entry(tool) for tool in self._tools()]
            return Observation({"tools": tools}, None, done=False).to_json()
        player = self._open()
        if isinstance(action, CallAction):
            turn = await player.call(action.name, action.arguments)
        else:
            turn = await player.step(action.reply, cut=action.cut)
        return await self._after(
            player, turn, action.name if isinstance(action, CallAction) else None
        )

    async def finish(self) -> float | None:
        """End the episode as a `done` of the agent would, unless it is over.

        A model that calls tools by itself ends it by a reply without a call, which counts.

        Returns:
            The reward; None where no episode has begun, and where it broke off.
        """
        if self._episode is None and self._player is not None:
            if self._player.dialect.schemas == "apart":
                self._player.say("")
            self._episode = await self._player.finish("done")
            self._served.on_episode(self._player.task, self._episode)
        return (
            self._episode.scores.reward if self._episode is not None and self._episode.ok else None
        )

    def state(self) -> dict[str, Any]:
        """The state of the episode.

        Its id, its task, the replies so far, and its reward when it is over.
        """
        player, episode = self._player, self._episode
        return {
            "episode_id": self._episode_id,
            "step_count": len(player.turns) if player is not None else 0,
            "task_id": player.task.id if player is not None else None,
            "done": episode is not None,
            "reward": episode.scores.reward if episode is not None and episode.ok else None,
        }

    async def rpc(self, request: Any) -> dict[str, Any]:
        """Answer a JSON-RPC request.

        `tools/list`, or `tools/call`, which is a turn of the episode like any other.
        """
        if (
            not isinstance(request, dict)
            or request.get("jsonrpc") != "2.0"
            or not isinstance(request.get("method"), str)
        ):
            return rpc_error(request, _INVALID_REQUEST, "this is not a JSON-RPC request")
        params = request.get("params", {})
        if request["method"] == "tools/list":
            return rpc_result(request, {"tools": [tool_entry(tool) for tool in self._tools()]})
        if request["method"] != "tools/call":
            return rpc_error(
                request, _METHOD_NOT_FOUND, f"Method not found: {clean_line(request['method'], 60)}"
            )
        if not isinstance(params, dict):
            return rpc_error(request, _INVALID_PARAMS, "params must be an object")
        try:
            answer = await self.step(call_action(params.get("name"), params.get("arguments")))
        except Refused as refused:
            return rpc_error(request, _SERVER_ERROR, refused.message)
        result = answer["observation"]["result"]
        return rpc_result(request, {"content": result["content"], "isError": result["is_error"]})

    async def close(self) -> None:
        """End the environment. The session can be reset again."""
        if self._player is not None and self._episode is None:
            self._served.on_broken(self._player.task, len(self._player.turns))
            self._player = None
        self._session = self._servers = None
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()

    def _tools(self) -> list[Tool]:
        actions = self._player.actions if self._player is not None else self._served.actions
        return [tool for tool in actions if tool.name not in RESERVED]

    def _open(self) -> EpisodePlayer:
        if self._episode is not None:
            raise Refused("EXECUTION_ERROR", "the episode is over: reset begins the next one")
        if self._player is None:
            raise Refused("EXECUTION_ERROR", "no episode is under way: reset begins one")
        return self._player

    async def _after(self, player: EpisodePlayer, turn: Turn, tool: str | None) -> dict[str, Any]:
        last = player.messages[-1]
        images = _shown(last)["images"] if last["role"] == "user" else []
        observation: dict[str, Any] = {
            "text": turn.observation,
            "images": images,
            "task_id": player.task.id,
            "turn": len(player.turns),
            "is_error": turn.is_error,
        }
        if tool is not None:
            observation |= call_outcome(tool, turn.observation, is_error=turn.is_error)
        if player.stop is None:
            return Observation(observation, 0.0, done=False).to_json()
        episode = await player.finish()
        self._player, self._episode = player, episode
        self._served.on_episode(player.task, episode)
        if not episode.ok:  # what was lost has no reward that a trainer may learn from
            raise Refused(
                "SESSION_ERROR", f"the episode broke off: {episode.error or episode.stop}"
            )
        scores = episode.scores
        metadata = {
            "episode_id": self._episode_id,
            "task_id": episode.task_id,
            "stop": episode.stop,
            "scores": {
                "task_completion": scores.task_completion,
                "tool_execution": scores.tool_execution,
                "format_compliance": scores.format_compliance,
                "reward": scores.reward,
            },
            "reward_found": scores.reward_found,
        }
        if (failed := episode.info.get("evaluation_error")) is not None:
            metadata["evaluation_error"] = failed
        return Observation(observation, scores.reward, done=True).to_json(metadata)


def _shown(message: Message) -> dict[str, Any]:
    """The text and the images of a message."""
    content = message["content"]
    if isinstance(content, str):
        return {"text": content, "images": []}
    return {
        "text": "\n".join(part["text"] for part in content if part["type"] == "text"),
        "images": [part["image_url"]["url"] for part in content if part["type"] == "image_url"],
    }
