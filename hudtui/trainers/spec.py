"""An environment for TRL's `GRPOTrainer(environment_factory=...)`.

Models with tool calls of their own play hudtui's tasks.
    from hudtui.gym import HudtuiSpec

    spec = HudtuiSpec("configs/2048.yaml", "tasks.jsonl")
    trainer = GRPOTrainer(
        model="Qwen/Qwen3-4B",
        train_dataset=spec.train_dataset,
        environment_factory=spec.environment_factory,
        reward_funcs=spec.reward_funcs,
    )

Each rollout plays a task in an environment of its own. The tools of the model are the actions of
the configuration, and `done`. The reward is that of the configuration's rubric. It is the same
episode as in `hudtui eval` with the dialect `native`: equal calls, equal rewards.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import keyword
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from hudtui.core.environment.values import Tool
from hudtui.core.errors import InputError, RunError
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from hudtui.core.openenv.session import EpisodeSession, ServedTasks
    from hudtui.core.tasks.task import Task

T = TypeVar("T")

_TAKEN = frozenset({"reset", "get_reward"})
_SIMPLE: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "object": dict,
    "array": list,
}
_LONGEST = 1_000
_TRIES = 3
"""Times that an environment is started for one episode."""
_HOPELESS = 8
"""Episodes in a row that may not begin before the training ends."""
_log = logging.getLogger(__name__)


class HudtuiSpec:
    """Tasks and a configuration, as the three arguments that `GRPOTrainer` takes.

    The files are read, and the environment of the first task is started once, when a property is
    first read. Tasks that name a server need the user's agreement, as everywhere: `hudtui trust` in
    the folder gives it.

    Args:
        config: The gym configuration (YAML).
        tasks: A file or folder of tasks, or a dataset on the Hub (`org/name`).
        source: An environment to play in instead of the one each task names.
        split: The split of a dataset with several; None: `train`.
        limit: Take only the first so many tasks.
        system_prompt: The system message of every task; what the task's `agent_config` adds to it
            follows. The configuration's own one and its `examples` are not used: they teach calls
            in text.
        max_turns: Calls that an episode may have; None for the configuration's limit.
        reward: Code of your own for the reward, as `FILE.py:NAME` or `package.module:NAME`; None
            for the configuration's.
        timeout: Seconds for a connection, and for one call; None: the setting `HUD_CLIENT_TIMEOUT`,
            else 60.
        folder: The project folder, where relative paths start; None: the current one.
    """

    def __init__(
        self,
        config: Path | str,
        tasks: str,
        *,
        source: str | None = None,
        split: str | None = None,
        limit: int | None = None,
        system_prompt: str | None = None,
        max_turns: int | None = None,
        reward: str | None = None,
        timeout: float | None = None,
        folder: Path | str | None = None,
    ) -> None:
        self._plan = _Plan(
            config=str(config),
            tasks=tasks,
            source=source,
            split=split,
            limit=limit,
            max_turns=max_turns,
            reward=reward,
            timeout=timeout,
            folder=str(Path.cwd() if folder is None else Path(folder).absolute()),
        )
        self._system_prompt = system_prompt

    @cached_property
    def train_dataset(self) -> Any:
        """A `datasets.Dataset` with a row for each task.

        `prompt` (messages; `reset` adds the task's text) and `task_id`.

        Raises:
            InputError: A file cannot be read, or holds no task that can be played.
            Untrusted: The tasks name a server that the user has not agreed to.
        """
        from datasets import Dataset

        return Dataset.from_list([self._row(task) for task in _loaded(self._plan).served.tasks])

    def _row(self, task: Task) -> dict[str, Any]:
        from hudtui.core.tasks.agent import agent_settings

        prompt = "\n\n".join(
            text for text in (self._system_prompt, agent_settings(task).system_prompt) if text
        )
        system = [{"role": "system", "content": prompt}] if prompt else []
        return {"prompt": [*system, {"role": "user", "content": ""}], "task_id": task.id}

    @property
    def environment_factory(self) -> Callable[[], Any]:
        """What makes an environment for one rollout.

        It can be pickled, and builds the same environments in another process.
        """
        _loaded(self._plan)
        return _Factory(self._plan)

    @property
    def reward_funcs(self) -> Callable[..., list[float | None]]:
        """The rubric's reward of each rollout; None for an episode that broke off."""
        return hudtui_reward

    @property
    def tools(self) -> tuple[Tool, ...]:
        return _loaded(self._plan).tools

    @property
    def left_out(self) -> tuple[str, ...]:
        """Actions that the model cannot call.

        Their names, or those of an argument, are not names in Python.
        """
        return _loaded(self._plan).left_out

    def close(self) -> None:
        """End all environments of this specification; they begin again at their next `reset`.

        Happens at exit by itself.
        """
        loaded = _LOADED.get(self._plan)
        if loaded is not None:
            loaded.close()


def hudtui_reward(
    environments: Sequence[Any] | None = None,
    environment_reward: Sequence[float | None] | None = None,
    **columns: Any,
) -> list[float | None]:
    """The reward of each rollout, as TRL asks for it.

    Args:
        environments: The environments of the batch, after their rollouts.
        environment_reward: The rewards, where the trainer has asked the environments before
            (`AsyncGRPOTrainer`).
        columns: Further columns of the batch, which are not used.
    """
    if environment_reward is not None:
        return [None if reward is None else float(reward) for reward in environment_reward]
    return [environment.reward for environment in environments or ()]


@dataclass(frozen=True)
class _Plan:
    config: str
    tasks: str
    source: str | None
    split: str | None
    limit: int | None
    max_turns: int | None
    reward: str | None
    timeout: float | None
    folder: str


@dataclass(frozen=True)
class _Factory:
    plan: _Plan

    def __call__(self) -> Any:
        return _loaded(self.plan).kind()


class ToolEnvironment:
    """One rollout after the other, each of a task of its own.

    A method for each tool is added in a subclass.
    """

    _loaded: _Loaded

    def __init__(self) -> None:
        from hudtui.core.openenv.session import EpisodeSession

        self._session = EpisodeSession(self._loaded.served)
        self._loaded.sessions.append(self._session)
        self._reward: float | None = None
        self._over = True

    def reset(self, task_id: str | None = None, **row: Any) -> str:
        """Begin the episode of a task.

        Args:
            task_id: The task; None for the next one.
            row: The other columns of the dataset, which are not used.

        Returns:
            The task's prompt with what its setup answered. Where the environment fails again and
            again, words that say so: the episode is over then, and has no reward.

        Raises:
            RunError: There is no such task, or several episodes in a row could not begin.
        """
        from hudtui.core.openenv.messages import Refused

        self._reward, self._over = None, True
        name, why = clean_line(str(task_id), 80), ""
        for _ in range(_TRIES):
            try:
                answer = self._loaded.run(self._session.reset({"task_id": task_id}))
            except Refused as refused:
                why = refused.message
                if refused.code == "VALIDATION_ERROR":
                    raise RunError(f"the task {name} does not begin", why=why) from None
                continue
            self._over, self._loaded.lost = False, 0
            return str(answer["observation"]["text"])
        self._loaded.lost += 1
        if self._loaded.lost >= _HOPELESS:
            raise RunError(f"the task {name} does not begin, as {_HOPELESS - 1} before it", why=why)
        _log.warning(
            "an episode of %s does not begin, and is left out: %s", name, clean_line(why, 300)
        )
        return "The environment does not answer: this episode is over."

    @property
    def reward(self) -> float | None:
        """The rubric's reward; an episode that is not over ends here. None when it broke off."""
        if not self._over:
            self._reward = self._loaded.run(self._session.finish())
            self._over = True
        return self._reward

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        from hudtui.core.openenv.messages import Refused

        if self._over:
            return "error: the episode is over"
        try:
            answer = self._loaded.run(
                self._session.step({"type": "call_tool", "tool_name": name, "arguments": arguments})
            )
        except Refused as refused:
            self._over = True
            return f"error: {refused.message}"
        if answer["done"]:
            self._over, self._reward = True, answer["reward"]
        return str(answer["observation"]["text"])


class _Loaded:
    """What the environments of one plan share in this process.

    Tasks, tools, their class, and the thread of their connections.
    """

    def __init__(self, plan: _Plan) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()
        self.sessions: list[EpisodeSession] = []
        self.lost = 0
        """Episodes in a row that could not begin."""
        try:
            self.served, actions = self.run(_read(plan))
            self.tools = tuple(tool for tool in actions if _nameable(tool))
            self.left_out = tuple(tool.name for tool in actions if not _nameable(tool))
            if len(self.tools) <= 1:
                raise InputError(
                    "no action of this configuration can be a tool of the model",
                    why=(
                        "These are no names in Python, or have an argument whose name is none: "
                        f"{', '.join(self.left_out)}."
                    ),
                    fix="Give them other names in action_mappings.",
                )
        except BaseException:
            self.close()
            raise
        methods = {tool.name: _method(tool) for tool in self.tools}
        self.kind = type("HudtuiEnvironment", (ToolEnvironment,), {**methods, "_loaded": self})

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out `work` on the thread of the connections, and wait for it."""
        with self._guard:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_keep, args=(self._loop,), name="hudtui environments", daemon=True
                )
                self._thread.start()
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    def close(self) -> None:
        """End every environment, and the thread. A later `run` starts another one."""
        if self._loop is None or self._thread is None:
            return

        async def end() -> None:
            await asyncio.gather(
                *(session.close() for session in self.sessions), return_exceptions=True
            )

        self.run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop = self._thread = None


def _keep(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _read(plan: _Plan) -> tuple[ServedTasks, tuple[Tool, ...]]:
    """Environment of a plan, and the tools that an agent can call there."""
    from hudtui.core.environment.bundled import with_python_variable
    from hudtui.core.flows.serve import list_actions, served_tasks
    from hudtui.core.gym.config import with_dialect
    from hudtui.core.openenv.options import ServeRequest
    from hudtui.core.openenv.session import ServedTasks
    from hudtui.core.rollouts.evaluate import connector
    from hudtui.core.rollouts.judging import Judges
    from hudtui.core.rollouts.reward import load_playable_config
    from hudtui.core.settings import load_settings

    folder = Path(plan.folder)
    settings = load_settings(folder)
    settings.require_trust()
    config = await asyncio.to_thread(
        load_playable_config, folder / plan.config, folder, reward=plan.reward
    )
    config = with_dialect(config, "native")
    request = ServeRequest(tasks=plan.tasks, source=plan.source, split=plan.split, limit=plan.limit)
    tasks, _ = await served_tasks(request, config, settings)
    timeout = settings.client_timeout if plan.timeout is None else plan.timeout
    connect = connector(plan.source, folder, with_python_variable(settings.lookup), timeout=timeout)
    actions = await list_actions(tasks[0], config, connect)
    judges, most = Judges(settings.lookup), plan.max_turns
    served = ServedTasks(tasks, config, connect, max_turns=most, timeout=timeout, judges=judges)
    return served, actions


_LOADED: dict[_Plan, _Loaded] = {}
_lock = threading.Lock()


def _loaded(plan: _Plan) -> _Loaded:
    with _lock:
        found = _LOADED.get(plan)
        if found is None:
            found = _LOADED[plan] = _Loaded(plan)
            atexit.register(found.close)
        return found


def _nameable(tool: Tool) -> bool:
    """Return True if a tool can be a method."""
    names = (tool.name, *_properties(tool))
    fit = all(
        name.isidentifier() and not keyword.iskeyword(name) and name != "self" for name in names
    )
    return (
        fit
        and not tool.name.startswith("_")
        and tool.name not in _TAKEN
        and not hasattr(ToolEnvironment, tool.name)
    )


def _properties(tool: Tool) -> Mapping[str, Any]:
    properties = (tool.input_schema or {}).get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _method(tool: Tool) -> Callable[..., str]:
    """Return a method from which a tool's schema is made again.

    It has the signature, the annotations and the docstring for that.
    """
    given = (tool.input_schema or {}).get("required")
    required = set(given) if isinstance(given, list) else set()
    properties = _properties(tool)
    names = sorted(
        properties, key=lambda name: name not in required
    )  # those without a default come first
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    annotations: dict[str, Any] = {}
    lines: list[str] = []
    for name in names:
        schema = properties[name] if isinstance(properties[name], Mapping) else {}
        kind = _annotation(schema)
        annotations[name] = kind if name in required else kind | None if kind is not Any else Any
        default = inspect.Parameter.empty if name in required else schema.get("default")
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=default,
                annotation=annotations[name],
            )
        )
        lines.append(
            f"    {name}: "
            f"{_words(schema.get('description')) or _words(schema.get('title')) or name}"
        )
    signature = inspect.Signature(parameters, return_annotation=str)

    def method(self: ToolEnvironment, *args: Any, **kwargs: Any) -> str:
        bound = signature.bind(self, *args, **kwargs).arguments
        return self._call(
            tool.name, {name: value for name, value in bound.items() if name != "self"}
        )

    about = _words(tool.description) or f"Call {tool.name}."
    method.__name__, method.__qualname__ = tool.name, f"HudtuiEnvironment.{tool.name}"
    method.__doc__ = "\n".join([about, *(["", "Args:", *lines] if lines else [])])
    method.__annotations__ = {**annotations, "return": str}
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


def _words(value: Any) -> str:
    """Return a foreign text in one line, fit for a docstring.

    Nothing in it can be read as a part of a docstring or as a list of choices.
    """
    if not isinstance(value, str):
        return ""
    return clean_line(value, _LONGEST).replace("(choices:", "(choices").strip()


def _annotation(schema: Mapping[str, Any]) -> Any:
    """The type of an argument as far as Python's types can say it."""
    choices = schema.get("enum")
    if (
        isinstance(choices, list)
        and choices
        and all(isinstance(one, str | int | bool) for one in choices)
    ):
        return Literal[tuple(choices)]
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        inner = _annotation(items) if isinstance(items, Mapping) else Any
        return list[inner]  # type: ignore[valid-type]
    return _SIMPLE.get(kind, Any) if isinstance(kind, str) else Any
