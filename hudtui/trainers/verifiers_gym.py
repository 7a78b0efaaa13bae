"""hudtui's tasks and configurations as an environment of verifiers (its v1 API).

`vf-eval hud-vf-gym`. verifiers finds a taskset, a harness and an environment by a module's name;
`hud_vf_gym` and `buckeye_vf_gym` export those of this module. An episode is the one of
`hudtui eval`: a connection of its own, the task's setup, the interpreter of replies, and the
rubric, so that equal replies have equal rewards. Replies come through verifiers' interception
server, which records them.

A gym of one's own is a module that exports a subclass of `HUDGym` beside `HUDTaskset` and `HUDEnv`
(`examples/verifiers_gym`).
"""

from __future__ import annotations

import asyncio
import inspect
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

import verifiers.v1 as vf
from pydantic import BaseModel, ConfigDict

from hudtui.core.environment.bundled import with_python_variable
from hudtui.core.environment.values import Session
from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.files import temporary_folder
from hudtui.core.gym.shipped import shipped_config
from hudtui.core.gym.values import DEFAULT_WEIGHTS, GymConfig
from hudtui.core.platform import choose_platform
from hudtui.core.rollouts.chat import ChatEndpoint, ChatOptions, TokenUsage, is_cut_off, reply_text
from hudtui.core.rollouts.episode import EpisodePlayer
from hudtui.core.rollouts.evaluate import connector, read_playable_tasks, secrets_of
from hudtui.core.rollouts.judging import Judges
from hudtui.core.rollouts.outcome import EpisodeRemarks
from hudtui.core.rollouts.reward import HUDBaseRubric, load_playable_config
from hudtui.core.rollouts.telemetry import Telemetry, open_telemetry
from hudtui.core.rollouts.trace import episode_to_json, redact
from hudtui.core.rollouts.values import ContextFull, Episode
from hudtui.core.settings import DEFAULT_BASE_URL, load_settings
from hudtui.core.tasks.task import Task
from hudtui.core.text import clean_line

__all__ = ["BuckeyeTaskset", "HUDBaseRubric", "HUDEnv", "HUDGym", "HUDTaskset", "load_environment"]

RECORD = "hudtui"
"""Key in a trace's `info` with the episode as hudtui records it, without the messages that the
trace has itself."""

_REPLY_SECONDS = 3600.0
"""Longest wait for a reply. verifiers has limits of its own (`--env.agent.timeout.rollout`)."""
_OLD_OPTIONS = ("--env-args", "-a", "--num-examples", "--rollouts-per-example")
"""Options of `vf-eval` before verifiers 0.4."""


class PlayOptions(BaseModel):
    """Tasks and their settings.

    Kept with each task, because workers of a trainer have nothing else to find it by.
    """

    model_config = ConfigDict(frozen=True)

    taskset: str
    config_path: str
    split: str | None = None
    reward: str | None = None
    source: str | None = None
    max_turns: int | None = None
    timeout: float | None = None
    images: bool = True
    platform: str | None = None


class HUDTasksetConfig(vf.TasksetConfig):
    """Which tasks are played, and how: `--env.taskset.<name>`."""

    taskset: str = ""
    """A file or folder of tasks, or a dataset on the Hub (`org/name[@revision][:split]`)."""
    config_path: str = ""
    """The gym configuration (YAML)."""
    num_tasks: int | None = None
    """Only the first so many tasks."""
    split: str | None = None
    """Split of a dataset with several; `train` by default."""
    reward: str | None = None
    """Code of your own for the reward: `FILE.py:NAME` or `package.module:NAME`; by default the
    configuration's."""
    source: str | None = None
    """Environment to play in instead of the one each task names."""
    max_turns: int | None = None
    """Replies an episode may have; by default as configured."""
    timeout: float | None = None
    """Seconds for a connection, and for one call; by default the platform's setting, such as
    HUD_CLIENT_TIMEOUT."""
    images: bool = True
    """Show images to the model."""


class HUDTaskData(vf.TaskData):
    """A task as verifiers records it: no servers, and so no keys."""

    play: PlayOptions


class HUDTask(vf.Task[HUDTaskData]):
    """A task. Its rewards are the parts of the configuration's rubric, with their weights."""

    @property
    def key(self) -> str:
        return str(self.data.id)

    async def score(self, trace: Any, runtime: Any = None) -> None:
        """Record the parts of the reward in the rubric's order.

        Verifiers adds them up in this order, as the rubric does.
        """
        if self.scoring_deferred:
            return
        record = trace.info.get(RECORD)
        if isinstance(record, Mapping):
            config = _loaded(self.data.play).config
            scores = record["scores"]
            for name in DEFAULT_WEIGHTS:
                trace.record_reward(name, scores[name], config.weights[name])
            parts = [part["name"] for part in scores.get("parts") or ()]
            for name, value in (scores.get("own") or {}).items():
                if name in parts:  # it counts in task completion
                    trace.record_metric(name, value)
                    continue
                assert config.own_parts is not None
                trace.record_reward(name, value, config.own_parts.weight(name))
            trace.record_metric("reward_found", float(scores["reward_found"]))
        await super().score(trace, runtime)


class HUDTaskset(vf.Taskset[HUDTask, HUDTasksetConfig]):
    """The tasks of a file, a folder, or a dataset on the Hub."""

    PLATFORM: ClassVar[str | None] = None
    """Name of the platform that tasks without servers are played on; None: the one of the
    folder."""

    def load(self) -> list[HUDTask]:
        """Read the tasks.

        Raises:
            InputError: The tasks or the configuration cannot be read, or none can be played.
            Untrusted: A file names a server or code that the user has not agreed to.
        """
        play = self.play_options()
        gym = _loaded(play)
        prompt = gym.config.system_prompt or None
        return [
            self.task_type()(
                HUDTaskData(id=task.id, prompt=task.prompt, system_prompt=prompt, play=play),
                self.config.task,
            )
            for task in gym.tasks[: self.config.num_tasks]
        ]

    def play_options(self) -> PlayOptions:
        """Return the tasks and their settings.

        Raises:
            InputError: The tasks or the configuration are not named.
        """
        given = self.config
        for name in ("taskset", "config_path"):
            if not getattr(given, name):
                flag = f"--env.taskset.{name.replace('_', '-')}"
                raise InputError(
                    f"{given.id or 'the gym'} lacks {name}", fix=f"Name it: {flag} VALUE."
                )
        options = {
            name: getattr(given, name) for name in PlayOptions.model_fields if name != "platform"
        }
        return PlayOptions(**options, platform=self.PLATFORM)


class BuckeyeTaskset(HUDTaskset):
    """The same on the platform Buckeye."""

    PLATFORM = "buckeye"


class HUDGymConfig(vf.HarnessConfig):
    """Settings of the harness; those of the episodes belong to the taskset."""


class HUDGym(vf.Harness[HUDGymConfig]):
    """Plays an episode: the model's replies become calls to the environment.

    A subclass may change `setup_state` and `env_response`. One object plays all episodes, several
    at once: what belongs to an episode stands in its `state`, a dict. It holds `task` (the task),
    `config`, `session` (the open connection, whose `call_tool` a subclass may use) and `player`
    (the episode so far). Numbers that a subclass adds become metrics of the trace, and
    `state["stop"] = "why"` ends the episode after the turn.
    """

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    def setup_state(self, state: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Prepare the state of an episode whose task is set up.

        Called once, before the first reply.

        Args:
            state: The state so far.
            kwargs: Nothing yet.

        Returns:
            The state that all later calls get.
        """
        return state

    async def env_response(
        self, messages: list[dict[str, Any]], state: dict[str, Any], **kwargs: Any
    ) -> list[dict[str, Any]]:
        """Play the last message, a reply of the model. An override may be a plain function.

        Args:
            messages: The conversation, with the reply at its end.
            state: The state of the episode.
            kwargs: Nothing yet.

        Returns:
            The messages that the model is shown next; none when the episode is over.
        """
        player: EpisodePlayer = state["player"]
        said, native = messages[-1], player.dialect.schemas == "apart"
        await player.step(reply_text(said, native=native), **state["reply"])
        calls = [call["id"] for call in said.get("tool_calls") or ()]
        return [] if player.stop is not None else player.answers_to(calls)

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Any,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: HUDTaskData,
    ) -> Any:
        """Play an episode from connection to evaluation; see `verifiers.v1.Harness`.

        Raises:
            HarnessError: The environment or the endpoint failed.
        """
        gym = _loaded(data.play)
        task = gym.by_id[str(data.id)]
        config = replace(gym.config, system_prompt=data.system_prompt or "")
        options = ChatOptions(
            base_url=endpoint, key=secret, key_name="the rollout's secret", timeout=_REPLY_SECONDS
        )
        over = False
        try:
            async with (
                ChatEndpoint(ctx.model, options) as model,
                gym.connect(task.mcp_config) as session,
            ):
                await self._play(session, config, task, model, trace, gym)
                over = True
        except asyncio.CancelledError:
            worker = asyncio.current_task()
            if worker is None or worker.cancelling():
                raise
            raise vf.HarnessError(
                "the connection to the environment was lost"
            ) from None  # it tore its own task down
        except HudtuiError as error:
            if not over:
                raise vf.HarnessError("; ".join(error.lines())) from None
            _say(f"warning: an environment did not close well: {clean_line(str(error), 300)}")
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")

    async def _play(
        self,
        session: Session,
        config: GymConfig,
        task: Task,
        model: ChatEndpoint,
        trace: Any,
        gym: _Loaded,
    ) -> None:
        play = gym.play
        info = {"policy": f"openai:{model.model}", "verifiers_trace": trace.id}
        if gym.telemetry is not None:
            info |= {
                "job": gym.telemetry.job.id,
                "trace": gym.telemetry.begin(task.id, info["policy"]),
            }
        player = EpisodePlayer(
            session,
            config,
            task,
            max_turns=play.max_turns,
            info=info,
            images=play.images,
            keep_images=False,  # verifiers keeps those that the model was shown
            timeout=gym.timeout,
            judges=gym.judges,
        )
        state: dict[str, Any] = {}
        before: frozenset[str] = frozenset()
        ended = "done"
        usage = TokenUsage()
        try:
            messages: list[dict[str, Any]] = [dict(message) for message in await player.start()]
            if player.stop is None:
                state = {
                    "task": task,
                    "config": config,
                    "session": session,
                    "player": player,
                    "reply": {},
                }
                before = frozenset(state)
                state = self.setup_state(state)
            loop = asyncio.get_running_loop()
            tools, apart = player.functions, player.dialect.schemas == "apart"
            while player.stop is None:
                began, spent = loop.time(), (usage.prompt_tokens, usage.completion_tokens)
                choice = await model.choice(messages, usage=usage, tools=tools)
                said = choice["message"]
                messages.append(_as_sent(said, native=apart))
                tokens = {
                    "prompt": usage.prompt_tokens - spent[0],
                    "completion": usage.completion_tokens - spent[1],
                }
                state["reply"] = {
                    "seconds": loop.time() - began,
                    "tokens": tokens if any(tokens.values()) else None,
                    "cut": is_cut_off(choice),
                }
                answer: Any = self.env_response(messages, state)
                messages += await answer if inspect.isawaitable(answer) else answer
                if player.stop is None and state.get("stop"):
                    break
        except (
            asyncio.CancelledError
        ):  # out of time, or the user is leaving: what was played is evaluated all the same
            self._keep(await player.finish(), trace, gym)
            raise
        except Exception as error:
            if trace.stop_condition is not None:
                ended = "max_turns"  # verifiers refused a further reply: a limit of its own
            elif isinstance(error, ContextFull) and player.turns:
                ended = "context"
            else:
                player.fail(error)
        episode = await player.finish(ended)
        self._keep(episode, trace, gym)
        for name, value in state.items():
            if name not in before and isinstance(value, int | float):
                trace.record_metric(name, float(value))
        if not episode.ok:
            raise vf.HarnessError(episode.error or episode.stop)
        trace.stop(str(state.get("stop") or episode.stop))

    def _keep(self, episode: Episode, trace: Any, gym: _Loaded) -> None:
        if gym.telemetry is not None:
            gym.telemetry.end(episode.info["trace"], episode, gym.secrets(episode.task_id))
            for text in gym.telemetry.warnings():
                _say(f"warning: {clean_line(text, 300)}")
        for text in gym.remarks.about(episode):
            _say(f"warning: {text}")
        if episode.stop == "error":
            return  # verifiers records the error; such an episode has no rewards
        trace.info[RECORD] = redact(
            episode_to_json(replace(episode, messages=())), gym.secrets(episode.task_id)
        )

    async def cleanup(self, trace: Any, runtime: Any) -> None:
        """Mask the secrets of the task's servers in what verifiers has recorded.

        An environment may have echoed them anywhere.
        """
        data = trace.task.data
        secrets = _loaded(data.play).secrets(str(data.id))
        if not secrets:
            return
        for node in trace.nodes:
            node.message = type(node.message).model_validate(
                redact(node.message.model_dump(), secrets)
            )
        for error in (
            *trace.errors,
            *(call.error for call in trace.calls if call.error is not None),
        ):
            error.message = redact(error.message, secrets)
            error.traceback = redact(error.traceback, secrets)


class HUDEnvConfig(vf.EnvConfig):
    """One agent, in a process of this machine instead of verifiers' hosted sandboxes.

    The agent runs no code there.
    """

    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class HUDEnv(vf.Env[HUDEnvConfig]):
    """One agent plays the task.

    The replies come from Prime's inference where a key for it is there, as in verifiers. Without
    one, and with an OPENAI_API_KEY, they come from OPENAI_BASE_URL, or OpenAI itself.
    """

    async def start(self) -> None:
        """Begin the job that the configuration asks for; see `core.rollouts.telemetry`."""
        await asyncio.to_thread(_loaded(self.taskset.play_options()).begin_job)

    async def stop(self) -> None:
        await asyncio.to_thread(_loaded(self.taskset.play_options()).end_job)

    async def run(self, task: Any, agents: Any) -> None:
        await agents.agent.run(task)

    async def run_episode(self, task: Any, ctx: Any, **more: Any) -> Any:
        """Play one episode of a task; see `verifiers.v1.Env`."""
        return await super().run_episode(task, _reachable(ctx), **more)


def load_environment(
    taskset: str,
    config_path: str,
    num_tasks: int | None = None,
    split: str | None = None,
    *,
    gym: str = "hud-vf-gym",
    **settings: Any,
) -> Any:
    """Make an environment of verifiers' v1 API.

    `async with env.serving(): await env.run_episode(task, context)`.

    Args:
        taskset: A file or folder of tasks, or a dataset on the Hub.
        config_path: The gym configuration.
        num_tasks: Only the first so many tasks.
        split: The split of a dataset with several.
        gym: The id of the gym: the name of an importable module.
        settings: Further settings of the taskset: `reward`, `source`, `max_turns`, `timeout`,
            `images`.

    Raises:
        InputError: There is no such setting, or a value does not fit.
    """
    from pydantic import ValidationError

    chosen = {
        "taskset": taskset,
        "config_path": config_path,
        "num_tasks": num_tasks,
        "split": split,
        **settings,
    }
    try:
        config = vf.resolve_env_config({"taskset": {"id": gym, **chosen}})
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(str(part) for part in wrong["loc"] if part != "taskset")
        raise InputError(
            f"{where} is no setting of {gym}, or has a value that does not fit", why=wrong["msg"]
        ) from None
    return vf.load_environment(config)


class _Loaded:
    """The tasks and the configuration of some options, read once in a process."""

    def __init__(self, play: PlayOptions, folder: Path) -> None:
        settings = load_settings(folder, choose_platform(folder, play.platform))
        settings.require_trust()
        self.telemetry: Telemetry | None = None
        self._settings = settings
        self.play = play
        self.timeout = settings.client_timeout if play.timeout is None else play.timeout
        self._lookup = with_python_variable(settings.lookup)
        file, told = shipped_config(Path(play.config_path), folder)
        if told is not None:
            _say(f"note: {told}")
        self.config = load_playable_config(folder / file, folder, reward=play.reward)
        read, warning = read_playable_tasks(
            play.taskset, self.config, settings, split=play.split, source=play.source
        )
        for text in (
            *(str(one) for one in read.problems),
            *([warning.message] if warning is not None else []),
        ):
            _say(f"warning: {clean_line(text, 500)}")
        self.remarks = EpisodeRemarks(self.config)
        self.tasks = read.tasks
        self.by_id = {task.id: task for task in read.tasks}
        self.connect = connector(play.source, folder, self._lookup, timeout=self.timeout)
        self.judges = Judges(settings.lookup)

    def begin_job(self) -> None:
        """Begin the job of the configuration's `job` section, unless telemetry is off."""
        with temporary_folder(
            "hudtui-job"
        ) as place:  # for the record of the job, which verifiers has no place for
            opened = open_telemetry(self.config, self._settings, place, about={"tool": "verifiers"})
        if isinstance(opened, str):
            _say(f"warning: {clean_line(opened, 300)}")
        else:
            self.telemetry = opened

    def end_job(self) -> None:
        """End the job, where one was begun."""
        if self.telemetry is not None:
            self.telemetry.close()
            self.telemetry = None

    def secrets(self, task: str) -> tuple[str, ...]:
        """Values that must not reach a trace of this task."""
        return secrets_of(self.by_id[task].mcp_config, self._lookup)


def _loaded(play: PlayOptions) -> _Loaded:
    return _loaded_in(play, Path.cwd())


_loaded_in = lru_cache(maxsize=4)(_Loaded)


def _as_sent(message: Mapping[str, Any], *, native: bool = False) -> dict[str, Any]:
    """A model's message as the next request repeats it.

    Reasoning stays apart where it was: else verifiers sees a new branch. Its tool calls stay where
    the dialect is `native`.
    """
    kept = {
        name: message[name]
        for name in ("reasoning_content", "reasoning")
        if isinstance(message.get(name), str)
    }
    if native and message.get("tool_calls"):
        kept["tool_calls"] = message["tool_calls"]
    return {"role": "assistant", "content": message.get("content") or "", **kept}


def _reachable(ctx: Any) -> Any:
    """Return the context with OpenAI's endpoint where only that has a key; and say it.

    Verifiers' own default stays where it has a key.

    Raises:
        InputError: Neither has a key.
    """
    from verifiers.v1.configs.client import DEFAULT_PRIME_INFERENCE_URL, resolve_api_key

    client, openai = ctx.client, os.environ.get("OPENAI_API_KEY")
    if (
        not isinstance(client, vf.EvalClientConfig)
        or client.base_url != DEFAULT_PRIME_INFERENCE_URL
    ):
        return ctx
    other = "--client.base-url https://api.openai.com/v1 --client.api-key-var OPENAI_API_KEY"
    if resolve_api_key(client) != "EMPTY":
        if openai:
            where = (
                f"prompts go to {client.base_url} with {client.api_key_var}, and OPENAI_API_KEY is "
                "not used"
            )
            _say_once(
                f"{where}. For OpenAI: {other}. With Prime's key vf-eval uploads its results, too; "
                "--no-push keeps them here"
            )
        return ctx
    if not openai:
        raise InputError(
            "there is no key for the model",
            why="Neither OPENAI_API_KEY nor PRIME_API_KEY is set.",
            fix=(
                "Set one of them, or name an endpoint: --client.base-url URL --client.api-key-var "
                "NAME."
            ),
        )
    base = os.environ.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL
    _say_once(
        f"prompts go to {base} with OPENAI_API_KEY, and not to {client.base_url}, for which "
        "PRIME_API_KEY is not set"
    )
    return replace(
        ctx, client=client.model_copy(update={"base_url": base, "api_key_var": "OPENAI_API_KEY"})
    )


def _say(text: str) -> None:
    """A line for the person. Programs of verifiers have no handler for the logs of others."""
    sys.stderr.write(f"hudtui: {text}\n")


_say_once = lru_cache(maxsize=None)(_say)


def _speak_up() -> None:
    """Show errors for people in words alone, in programs of verifiers.

    Options that verifiers refuses are answered.
    """
    if not any(name.startswith("verifiers.v1.cli") for name in sys.modules):
        return
    before = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error, HudtuiError):
            before(kind, error, trace)
            return
        first, *rest = error.lines()
        sys.stderr.write("\n  ".join((f"error: {first}", *rest)) + "\n")

    sys.excepthook = show
    words = sys.argv[1:]
    if any(
        word.partition("=")[0] in _OLD_OPTIONS[:3] for word in words
    ) and "--env-args" in " ".join(words):
        _say(
            "verifiers 0.4 has no such options any more. The same words work here: hudtui eval "
            f"{shlex.join(words)}"
        )


_speak_up()
