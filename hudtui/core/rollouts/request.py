"""An evaluation as a user asks for it: a task file, a configuration, a policy by name; files and settings are read here."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.environment.powers import task_powers
from hudtui.core.environment.values import Session
from hudtui.core.errors import InputError, Location
from hudtui.core.events import Notice, Progress
from hudtui.core.gym.config import load_config
from hudtui.core.gym.values import GymConfig
from hudtui.core.rollouts.chat import DEFAULT_BASE_URL, ChatOptions
from hudtui.core.rollouts.evaluate import Connect, EpisodeDone, evaluate
from hudtui.core.rollouts.outcome import EpisodeOutcome, EvalSummary, outcome_of, read_outcomes, summarise
from hudtui.core.rollouts.policy import policy_source
from hudtui.core.tasks.load import read_tasks
from hudtui.core.tasks.task import Task
from hudtui.core.trust import require
from hudtui.core.variables import Lookup

if TYPE_CHECKING:
    from hudtui.core.settings import Settings
    from hudtui.core.tasks.problems import TaskProblem

PYTHON_VARIABLE = "HUDTUI_PYTHON"
"""In a task file: the interpreter that has hudtui, for environments that come with it."""


@dataclass(frozen=True)
class EvalRequest:
    """What to play, how, and where the records go."""

    tasks: str
    """A file or folder of tasks, or a dataset on the Hub: `org/name[@revision][:split]`."""
    config: Path
    policy: str = "greedy"
    split: str | None = None
    """Of a dataset with several; None: `train`."""
    limit: int | None = None
    """Play only the first so many tasks."""
    group: int = 1
    concurrency: int = 4
    out_dir: Path | None = None
    """None: a new folder in `outputs/`."""
    resume: bool = False
    seed: int | None = None
    """None: 0 for the scripted policies, and none for a model."""
    max_turns: int | None = None
    source: str | None = None
    """An environment to play in instead of the one each task names."""
    reuse: bool = False
    timeout: float = 60.0
    """Seconds for a connection, and for one call."""
    images: bool | None = None
    base_url: str | None = None
    """Of a model's endpoint. None: the setting OPENAI_BASE_URL."""
    key_variable: str = "OPENAI_API_KEY"
    """Setting that holds its key."""
    endpoint: ChatOptions = field(default_factory=ChatOptions)
    """How a model is asked; its `base_url` and `key` come from the two above."""


@dataclass(frozen=True)
class EvalPrepared:
    """All files are read and fit; the first episode is about to begin."""

    config: GymConfig
    tasks: tuple[Task, ...]
    problems: tuple[TaskProblem, ...]
    """Of the task file: those with an error are not played."""
    policy: str
    out_dir: Path
    episodes: int


@dataclass(frozen=True)
class EvalFinished:
    """All episodes are over."""

    summary: EvalSummary
    out_dir: Path


async def run_eval(
    request: EvalRequest, settings: Settings
) -> AsyncGenerator[EvalPrepared | EpisodeDone | Progress | Notice | EvalFinished, None]:
    """Carry out an evaluation. To be consumed inside `contextlib.aclosing`, as `evaluate`.

    Tasks that name no environment get the image of the folder's lock file.

    Args:
        request: What is asked for. Relative paths start in the settings' folder.
        settings: Of the project folder: keys, variables, platform.

    Raises:
        InputError: A file, the policy or an option cannot be used.
        Untrusted: The tasks name a server that the user has not agreed to.
        HudtuiError: No episode can succeed; see `evaluate`.
    """
    folder = settings.folder
    lookup = with_python_variable(settings.lookup)
    config = load_config(folder / request.config)
    image, warning = _lock_image(settings)
    if warning is not None:
        yield warning
    token = settings.secret("HF_TOKEN")
    read = await asyncio.to_thread(
        read_tasks,
        request.tasks,
        lookup=lookup,
        lock_image=image,
        platform=settings.platform,
        split=request.split,
        folder=folder,
        token=token.get_secret_value() if token is not None else None,
    )
    tasks = read.tasks if request.limit is None else read.tasks[: request.limit]
    if not tasks:
        raise InputError(
            f"none of the {read.total} tasks can be played" if read.total else "there are no tasks here",
            why=str(read.problems[0]) if read.problems else None,
            where=Location(request.tasks),
        )
    if request.source is None:
        await asyncio.to_thread(
            require, folder, task_powers((task.mcp_config for task in tasks), tasks_file(request.tasks, folder))
        )
    out_dir = folder / (request.out_dir or new_out_dir(folder, request))
    endpoint = _endpoint(request, settings)
    if request.policy.startswith("openai:") and endpoint.key is None and endpoint.base_url == DEFAULT_BASE_URL:
        settings.require(request.key_variable)  # OpenAI itself answers nobody without one
    policy = policy_source(request.policy, config, seed=request.seed or 0, endpoint=endpoint, send_seed=request.seed is not None)
    try:
        connect = _connect(request, folder, lookup)
        yield EvalPrepared(config, tasks, read.problems, policy.name, out_dir, len(tasks) * request.group)
        outcomes: dict[tuple[str, int], EpisodeOutcome] = {}
        events = evaluate(
            tasks,
            config,
            policy=policy,
            connect=connect,
            out_dir=out_dir,
            group=request.group,
            concurrency=request.concurrency,
            seed=request.seed or 0,
            max_turns=request.max_turns,
            timeout=request.timeout,
            images=request.images,
            reuse=request.reuse,
            resume=request.resume,
            lookup=lookup,
        )
        if request.resume and (out_dir / "traces.jsonl").exists():
            outcomes = {(one.task, one.rollout): one for one in read_outcomes(out_dir)}
        async with aclosing(events):
            async for event in events:
                if isinstance(event, EpisodeDone):
                    outcome = outcome_of(event.episode)
                    outcomes[outcome.task, outcome.rollout] = outcome
                yield event
        wanted = {(task.id, rollout) for task in tasks for rollout in range(request.group)}
        played = [outcome for key, outcome in outcomes.items() if key in wanted]
        yield EvalFinished(summarise(played, tasks, request.group), out_dir)
    finally:
        await policy.aclose()


def with_python_variable(lookup: Lookup) -> Lookup:
    """`lookup`, with the interpreter that runs this as the value of `HUDTUI_PYTHON` where nobody set another."""
    return lambda name: lookup(name) or (sys.executable if name == PYTHON_VARIABLE else None)


def tasks_file(tasks: str, folder: Path) -> Path:
    """The file that tasks are read from; for a dataset of the Hub, the folder under its name."""
    path = folder / Path(tasks).expanduser()
    return path if path.exists() else folder / tasks.replace("/", "_")


def new_out_dir(folder: Path, request: EvalRequest) -> Path:
    """A folder in `outputs/` that does not exist yet, named by configuration, policy and time."""
    policy = "".join(
        letter if letter.isalnum() or letter in "-._" else "-" for letter in request.policy.partition("/")[2] or request.policy
    )
    name = f"{request.config.stem}-{policy[-60:].strip('-.')}-{datetime.now():%Y%m%d-%H%M%S}"
    number, path = 1, Path("outputs") / name
    while (folder / path).exists():
        number, path = number + 1, Path("outputs") / f"{name}-{number + 1}"
    return path


def _endpoint(request: EvalRequest, settings: Settings) -> ChatOptions:
    key = settings.secret(request.key_variable)
    return replace(
        request.endpoint,
        base_url=request.base_url or settings.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL,
        key=key.get_secret_value() if key is not None else None,
        key_name=request.key_variable,
    )


def _lock_image(settings: Settings) -> tuple[str | None, Notice | None]:
    from hudtui.core.lockfile import find_lock, read_lock

    try:
        lock = find_lock(settings.folder, settings.platform)
        return (None if lock is None else read_lock(lock).image), None
    except InputError as error:  # only tasks without an environment of their own need it, and they will say so
        return None, Notice("warning", "the lock file is left out: " + "; ".join(error.lines()))


def _connect(request: EvalRequest, folder: Path, lookup: Lookup) -> Connect:
    from hudtui.core.environment.client import connect
    from hudtui.core.environment.source import parse_source

    if request.source is None:

        def open_config(mcp_config: Mapping[str, Any]) -> AbstractAsyncContextManager[Session]:
            return connect(mcp_config, lookup=lookup, timeout=request.timeout)

        return open_config
    source = parse_source(request.source, folder=folder, lookup=lookup)
    require(folder, source.powers)

    def open_source(mcp_config: Mapping[str, Any]) -> AbstractAsyncContextManager[Session]:
        return connect(source, timeout=request.timeout)

    return open_source
