"""Evaluations.

A policy plays each task a number of times, several episodes at once; traces and metrics are written
to disk.

`out_dir` gets two files that grow line by line and can be read at any time:

- `traces.jsonl`: the episodes (`trace`), in the order of their ends.
- `metrics.jsonl`: one line for each task whose rollouts are all over, with the names that a trainer
  uses: `step` (from 1), `reward` (their mean), `reward_std` (their spread; only where there is more
  than one), the components of the reward, `turns`, and so on (`outcome.metrics_line`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from hudtui.core.environment.bundled import with_python_variable
from hudtui.core.environment.episode_place import is_per_episode
from hudtui.core.environment.login_file import login_secrets
from hudtui.core.environment.sharing import shared_places
from hudtui.core.environment.values import Session
from hudtui.core.errors import ConnectError, HudtuiError, InputError, Location
from hudtui.core.events import Notice, Progress
from hudtui.core.files import write_atomic
from hudtui.core.gym.rubric import reward_warning
from hudtui.core.gym.values import GymConfig
from hudtui.core.masking import looks_secret
from hudtui.core.paths import typed_path
from hudtui.core.plain import to_plain
from hudtui.core.rollouts.chat import ChatOptions, PolicyError
from hudtui.core.rollouts.episode import NO_SESSION, EpisodePlayer, OnTurn, drive, judging_actions
from hudtui.core.rollouts.judging import Judges
from hudtui.core.rollouts.measures import measure_fields, play_digest
from hudtui.core.rollouts.options import EpisodeOptions, EvalOptions
from hudtui.core.rollouts.outcome import (
    METRICS,
    TRACES,
    EpisodeOutcome,
    EvalSummary,
    cut_replies,
    metrics_line,
    other_dialects,
    outcome_of,
    read_outcomes,
    summarise,
    unshown_answers,
)
from hudtui.core.rollouts.policy import PolicySource, default_policy, policy_source
from hudtui.core.rollouts.reward import load_playable_config
from hudtui.core.rollouts.telemetry import Telemetry, TelemetryJob, open_telemetry
from hudtui.core.rollouts.trace import (
    append_line,
    episode_to_json,
    read_trace,
    redact,
    write_episode,
)
from hudtui.core.rollouts.values import Complete, Episode
from hudtui.core.settings import DEFAULT_BASE_URL
from hudtui.core.tasks.judges import require_keys, required_powers
from hudtui.core.tasks.read import LoadedTasks, read_tasks
from hudtui.core.tasks.solution import FIELD as SOLUTION
from hudtui.core.tasks.solution import solution_of
from hudtui.core.tasks.task import Task
from hudtui.core.text import clean_line, did_you_mean, none_of
from hudtui.core.trust import require
from hudtui.core.variables import Lookup, variable_names

if TYPE_CHECKING:
    from hudtui.core.settings import Settings
    from hudtui.core.tasks.task import TaskProblem

Connect = Callable[[Mapping[str, Any]], AbstractAsyncContextManager[Session]]
"""Opens the environment of an `mcp_config` for one or more episodes."""

FAILED_FOLDERS = "folders"
"""Folder of an evaluation with the folders of its failed episodes, where they are kept."""
_HOPELESS = 8
"""Episodes that may break off at the beginning, for whatever reasons, before the others are given
up."""
_IN_A_ROW = 3
"""Episodes that may break off one after the other because the endpoint or the environment is not
there."""
_OPEN_HEADERS = frozenset(
    {"accept", "content-type", "mcp-image", "environment-name", "run-id", "user-agent"}
)


@dataclass(frozen=True)
class EpisodeDone:
    """An episode is over, and its record is on disk."""

    number: int
    """Number of episodes that are over, this one included."""
    total: int
    """Number of episodes in all; 0 if it is not known."""
    episode: Episode
    rollout: int
    """Which of its task's rollouts it is, from 0."""
    group: int = 1
    """Rollouts a task has."""

    def line(self) -> str:
        """The episode in one plain line of a log."""
        episode = self.episode
        of = f"/{self.total}" if self.total else ""
        rollout = f" rollout={self.rollout}" if self.group > 1 else ""
        missing = "" if episode.scores.reward_found else " (no reward found)"
        reward = f"reward={episode.scores.reward:.3f}{missing}" if episode.ok else "reward=none"
        error = f' error="{clean_line(episode.error, 300)}"' if episode.error else ""
        return (
            f"episode {self.number}{of} task={clean_line(episode.task_id, 80)}{rollout} {reward} "
            f"turns={len(episode.turns)} stop={episode.stop}{error}"
        )


def config_digest(config: GymConfig) -> str:
    """A short digest of a configuration; resuming compares it."""
    text = json.dumps(config.raw, sort_keys=True, default=str, ensure_ascii=False) + config.reward
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:12]


def secrets_of(mcp_config: Mapping[str, Any], lookup: Lookup | None) -> tuple[str, ...]:
    """The values that must not reach a trace.

    Those are the values of headers, of the variables in `env`, and of variables anywhere whose
    names speak of keys and tokens. A value written out in `env` is as good as public, and often an
    ordinary word. The tokens of all logins are among them: an environment may be named elsewhere
    than in the task. Reads the files of logins that are new or were renewed.
    """
    secrets = list(login_secrets())
    for server in mcp_config.values():
        if not isinstance(server, Mapping):
            continue
        headers = server.get("headers")
        closed = {}
        if isinstance(headers, Mapping):
            closed = {
                name: value
                for name, value in headers.items()
                if str(name).lower() not in _OPEN_HEADERS
            }
        for value in closed.values():
            if isinstance(value, str) and "$" not in value:
                secrets += [value, value.rpartition(" ")[2]]
        names = [
            *variable_names([closed, server.get("env")]),
            *filter(looks_secret, variable_names(server)),
        ]
        secrets += [value for name in names if lookup is not None and (value := lookup(name))]
    return tuple(dict.fromkeys(secrets))


@dataclass(frozen=True)
class _Job:
    task: Task
    rollout: int


async def evaluate(
    tasks: Sequence[Task],
    config: GymConfig,
    *,
    policy: PolicySource,
    connect: Connect,
    out_dir: Path,
    group: int = 1,
    concurrency: int = 4,
    seed: int = 0,
    max_turns: int | None = None,
    timeout: float | None = None,
    images: bool | None = None,
    reuse: bool = False,
    resume: bool = False,
    lookup: Lookup | None = None,
    on_turn: OnTurn | None = None,
    telemetry: Telemetry | None = None,
    judges: Judges | None = None,
) -> AsyncGenerator[EpisodeDone | Progress | Notice, None]:
    """Play `group` episodes of each task, and yield an event for each that is over.

    Leaving the iterator early, or cancelling its consumer, stops the episodes that are under way
    and closes their environments; to have that happen at once and not at some later time, consume
    it inside `contextlib.aclosing`.

    Args:
        tasks: With ids of their own, each once.
        config: Maps replies to calls.
        policy: Returns the policy of each episode; not closed here.
        connect: Opens an environment. Each episode has one of its own unless `reuse` is set.
        out_dir: Gets `traces.jsonl` and `metrics.jsonl`.
        group: Episodes a task.
        concurrency: Episodes at the same time.
        seed: Written to the records; the policies have it already.
        max_turns: Replies an episode may have; None for the configuration's own limit.
        timeout: Seconds for one call; None for the session's own limit.
        images: Show images, or not, whatever the policies say.
        reuse: Play one episode after the other over one connection where the tasks name the same
            servers: for environments that are slow to start and whose setup resets them.
        resume: Continue the evaluation in `out_dir`: episodes recorded there are not played again,
            broken ones are.
        lookup: Returns the values of the tasks' variables, which are masked in the records.
        on_turn: Called with each turn of each episode.
        telemetry: Told of each episode; not closed here.
        judges: Asks the models that judge.

    Raises:
        InputError: The folder holds another evaluation, or cannot be written.
        HudtuiError: The others are not played: the first episodes all broke off, the policy failed
            for good, or the endpoint or the environment was not there for several episodes in a
            row.
    """
    seen: set[str] = set()
    if twice := next((task.id for task in tasks if task.id in seen or seen.add(task.id)), None):  # type: ignore[func-returns-value]
        raise InputError(f"two tasks have the id {twice!r}")
    record = {
        "policy": policy.name,
        "seed": seed,
        "config": config_digest(config),
        "max_turns": config.max_turns if max_turns is None else max_turns,
    }
    played = await asyncio.to_thread(play_digest, config, max_turns)
    store = _Store(out_dir, tasks, group, lookup, player=policy.name, played=played)
    over = store.restore(record, resume=resume)
    total = len(tasks) * group
    jobs = deque(_Job(task, n) for task in tasks for n in range(group) if (task.id, n) not in over)
    if over:
        yield Notice("info", f"{len(over)} of {total} episodes are recorded already")
    at_once = min(max(concurrency, 1), len(jobs))
    players = _Workers(
        jobs=jobs,
        hope=_GiveUpPolicy(left=len(jobs), good=bool(over), most=max(_IN_A_ROW, at_once + 1)),
        config=config,
        policy=policy,
        connect=connect,
        store=store,
        record=record,
        max_turns=max_turns,
        timeout=timeout,
        images=images,
        reuse=reuse,
        on_turn=on_turn,
        telemetry=telemetry,
        judges=judges,
    )
    events: _Events = asyncio.Queue()
    crew = [asyncio.create_task(players.work(events)) for _ in range(at_once)]
    working, number = len(crew), len(over)
    try:
        while working:
            event = await events.get()
            if event is None:
                working -= 1
            elif isinstance(event, BaseException):
                raise event
            elif isinstance(event, _Finished):
                number += 1
                yield EpisodeDone(number, total, event.episode, event.job.rollout, group)
            elif isinstance(event, Progress):
                yield replace(event, done=number, total=total)
            else:
                yield event
            for warning in telemetry.warnings() if telemetry is not None else ():
                yield Notice("warning", warning)
    finally:
        for worker in crew:
            worker.cancel()
        # Each closes its environment on the way out; what goes wrong with that is of no interest
        # any more.
        await asyncio.gather(*crew, return_exceptions=True)


@dataclass(frozen=True)
class _Finished:
    job: _Job
    episode: Episode


_Events = asyncio.Queue["_Finished | Progress | Notice | BaseException | None"]


@dataclass(frozen=True)
class _Workers:
    """State shared by the workers; each plays one episode after the other until none remains."""

    jobs: deque[_Job]
    hope: _GiveUpPolicy
    config: GymConfig
    policy: PolicySource
    connect: Connect
    store: _Store
    record: Mapping[str, Any]
    max_turns: int | None
    timeout: float | None
    images: bool | None
    reuse: bool
    on_turn: OnTurn | None
    telemetry: Telemetry | None
    judges: Judges | None
    warned: set[str] = field(default_factory=set)
    """Warnings that were passed on, each once; `reward` stands for all about rewards."""

    async def work(self, events: _Events) -> None:
        """Play until no job is left.

        Ends with None, or with what broke the worker, as the last event.
        """
        try:
            while self.jobs:
                await self._visit(events)
            events.put_nowait(None)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            events.put_nowait(error)

    async def _visit(self, events: _Events) -> None:
        """One connection, and the episodes played over it."""
        job: _Job | None = self.jobs.popleft()
        assert job is not None
        player: EpisodePlayer | None = None
        servers = job.task.mcp_config
        began = perf_counter()
        try:
            events.put_nowait(Progress("play", f"{job.task.id} begins"))
            async with self.connect(servers) as session:
                self._warn(session, events)
                while job is not None:
                    connected = perf_counter() - began
                    complete = self.policy.for_episode(job.task, job.rollout)
                    player = self._player(session, job, complete)
                    player.info["connect_seconds"] = round(connected, 6)
                    episode = await drive(player, complete, on_turn=self.on_turn)
                    self._over(job, player, episode, complete, events)
                    player, job = None, None
                    if (
                        self.reuse
                        and not is_per_episode(servers)
                        and episode.ok
                        and self.jobs
                        and self.jobs[0].task.mcp_config == servers
                    ):
                        job, began = self.jobs.popleft(), perf_counter()
        except asyncio.CancelledError:
            worker = asyncio.current_task()
            if worker is None or worker.cancelling():
                raise
            # Not requested by the caller: a broken connection has cancelled its own task.
            self._broken(
                job, player, ConnectError("the connection to the environment was lost"), events
            )
        except Exception as error:
            self._broken(job, player, error, events)

    def _warn(self, session: Session, events: _Events) -> None:
        for warning in getattr(session, "warnings", ()):
            if warning not in self.warned:
                self.warned.add(warning)
                events.put_nowait(Notice("warning", warning))

    def _player(
        self, session: Session, job: _Job, complete: Complete | None = None
    ) -> EpisodePlayer:
        wanted = (
            bool(getattr(complete, "wants_images", False)) if self.images is None else self.images
        )
        info = {**self.record, "rollout": job.rollout}
        if self.policy.name_of is not None:
            info["policy"] = self.policy.name_of(job.task, job.rollout)
        if self.telemetry is not None:
            info |= {
                "job": self.telemetry.job.id,
                "trace": self.telemetry.begin(job.task.id, self.policy.name),
            }
        return EpisodePlayer(
            session,
            self.config,
            job.task,
            max_turns=self.max_turns,
            info=info,
            images=wanted,
            timeout=self.timeout,
            judges=self.judges,
        )

    def _over(
        self,
        job: _Job,
        player: EpisodePlayer,
        episode: Episode,
        complete: Complete | None,
        events: _Events,
    ) -> None:
        usage = getattr(complete, "usage", None)
        if usage is not None:
            episode = replace(episode, info={**episode.info, "usage": to_plain(usage)})
        if self.telemetry is not None:
            self.telemetry.end(episode.info["trace"], episode, self.store.secrets(job.task))
        try:
            self.store.keep(job.task, episode)
        except HudtuiError as error:
            self._give_up(error, events)  # no use in playing on without records
            return
        events.put_nowait(_Finished(job, episode))
        if (
            "reward" not in self.warned
            and (text := reward_warning(episode.scores.task_completion)) is not None
        ):
            self.warned.add("reward")
            events.put_nowait(Notice("warning", f"task {clean_line(job.task.id, 80)}: {text}"))
        if (reason := self.hope.lost(episode, player)) is not None:
            self._give_up(reason, events)

    def _give_up(self, error: HudtuiError, events: _Events) -> None:
        self.jobs.clear()
        events.put_nowait(error)

    def _broken(
        self, job: _Job | None, player: EpisodePlayer | None, error: Exception, events: _Events
    ) -> None:
        """The connection failed: its episode with it, unless that was recorded already."""
        if job is None:
            events.put_nowait(
                Notice(
                    "warning", f"an environment did not close well: {clean_line(str(error), 300)}"
                )
            )
            return
        player = player or self._player(NO_SESSION, job)
        player.fail(error)
        self._over(job, player, player.record(), None, events)


@dataclass
class _GiveUpPolicy:
    """Judges if any episode may still succeed."""

    left: int
    """Episodes that are not over."""
    good: bool
    """One has."""
    most: int
    """Episodes in a row without endpoint or environment; one more than are played at once, so that
    an outage which has passed when the next episode begins ends nothing."""
    broken: int = 0
    missed: str = ""
    """Failures of the endpoint or the environment in the last episode; empty if both answered."""
    in_a_row: int = 0

    def lost(self, episode: Episode, player: EpisodePlayer) -> HudtuiError | None:
        """Count an episode that is over; the reason to give up, where there is one."""
        failure = player.failure
        if isinstance(failure, PolicyError) and failure.fatal:
            return failure
        self.left -= 1
        self.good = self.good or episode.ok
        self.broken += not episode.ok
        down = player.session is NO_SESSION or (isinstance(failure, PolicyError) and failure.down)
        missed = (
            (failure.what if isinstance(failure, HudtuiError) else repr(failure)) if down else ""
        )
        self.in_a_row = self.in_a_row + 1 if missed == self.missed else 1
        self.missed = missed
        if missed and self.in_a_row >= self.most and self.left:
            count = (
                f"{self.in_a_row} episodes in a row broke off for the same reason, and {self.left} "
                "are not played"
            )
            return HudtuiError(
                f"{missed}: {count}",
                why=episode.error,
                fix="Continue (--resume) when its cause is removed.",
            )
        if self.good or self.broken < _HOPELESS:
            return None
        return HudtuiError(
            f"the first {self.broken} episodes all broke off, and the others are not played",
            why=episode.error,
        )


class _Store:
    """The records of an evaluation.

    Each episode's trace at once, each task's metrics when its rollouts are complete.
    """

    def __init__(
        self,
        out_dir: Path,
        tasks: Sequence[Task],
        group: int,
        lookup: Lookup | None,
        *,
        player: str,
        played: str,
    ) -> None:
        self._traces = out_dir / TRACES
        self._metrics = out_dir / METRICS
        self._group = group
        self._lookup = lookup
        self._player, self._played = player, played
        self._tasks = {task.id: task for task in tasks}
        self._open: dict[str, list[EpisodeOutcome]] = {task.id: [] for task in tasks}
        self._steps = 0

    def secrets(self, task: Task) -> tuple[str, ...]:
        """Return the secrets to mask in the records of a task."""
        return secrets_of(task.mcp_config, self._lookup)

    def keep(self, task: Task, episode: Episode) -> None:
        """Record an episode that is over."""
        write_episode(self._traces, episode, secrets=self.secrets(task))
        self._count(outcome_of(episode))

    def restore(self, record: Mapping[str, Any], *, resume: bool) -> set[tuple[str, int]]:
        """Take up what the folder holds; gives the task and rollout of each whole episode.

        Broken episodes are removed from the trace and played again; the metrics are rewritten.
        """
        if not _holds_evaluation(self._traces, resume=resume):
            return set()
        where = Location(str(self._traces))
        lines: list[str] = []
        kept: list[EpisodeOutcome] = []
        broken = 0
        for episode in read_trace(self._traces):
            for name in ("policy", "seed", "config", "max_turns"):
                if episode.info.get(name) != record[name]:
                    raise InputError(
                        f"this folder holds another evaluation: its {name} is "
                        f"{episode.info.get(name)!r}, not {record[name]!r}",
                        fix="Choose another folder.",
                        where=where,
                    )
            if not episode.ok:
                broken += 1
                continue
            lines.append(json.dumps(redact(episode_to_json(episode)), separators=(",", ":")) + "\n")
            outcome = outcome_of(episode)
            if outcome.task in self._open and outcome.rollout < self._group:
                kept.append(outcome)
        if broken:
            write_atomic(self._traces, "".join(lines))
        self._metrics.unlink(missing_ok=True)
        for outcome in kept:
            self._count(outcome)
        return {(outcome.task, outcome.rollout) for outcome in kept}

    def _count(self, outcome: EpisodeOutcome) -> None:
        collected = self._open[outcome.task]
        collected.append(outcome)
        if len(collected) == self._group:
            self._steps += 1
            measured = measure_fields(
                self._tasks[outcome.task], collected, player=self._player, played=self._played
            )
            line = metrics_line(self._steps, collected, tasks=len(self._open), measured=measured)
            append_line(self._metrics, line)


def _holds_evaluation(traces: Path, *, resume: bool) -> bool:
    """Return True if a folder's trace file has episodes.

    Raises:
        InputError: It has, and the evaluation there is not to be continued.
    """
    if not traces.exists() or traces.stat().st_size == 0:
        return False
    if not resume:
        raise InputError(
            "this folder holds an evaluation already",
            fix="Go on with it (--resume), or choose another folder.",
            where=Location(str(traces)),
        )
    return True


@dataclass(frozen=True)
class EvalRequest(EvalOptions):
    """An evaluation as a user asks for it. Its `limit` is above 0, or None."""

    tasks: str
    """A file or folder of tasks, or a dataset on the Hub: `org/name[@revision][:split]`."""
    config: Path


@dataclass(frozen=True)
class EvalPrepared:
    """All files are read and valid; the first episode is about to begin."""

    config: GymConfig
    tasks: tuple[Task, ...]
    problems: tuple[TaskProblem, ...]
    """Problems of the task file; tasks with an error are not played."""
    policy: str
    out_dir: Path
    episodes: int
    job: TelemetryJob | None = None
    """The job on the platform; None without telemetry."""


@dataclass(frozen=True)
class EvalFinished:
    """All episodes are over."""

    summary: EvalSummary
    out_dir: Path


async def run_eval(
    request: EvalRequest, settings: Settings
) -> AsyncGenerator[EvalPrepared | EpisodeDone | Progress | Notice | EvalFinished, None]:
    """Play an evaluation from its files; consume it inside `contextlib.aclosing`, like `evaluate`.

    Tasks that name no environment get the image of the folder's lock file.

    Raises:
        InputError: A file, the policy or an option cannot be used.
        Untrusted: The tasks name a server that the user has not agreed to.
        HudtuiError: No episode can succeed; see `evaluate`.
    """
    from hudtui.core.gym.lint.prompt import two_forms

    folder = settings.folder
    lookup = with_python_variable(settings.lookup)
    config = await asyncio.to_thread(
        load_playable_config,
        folder / request.config,
        folder,
        reward=request.reward,
        dialect=request.dialect,
    )
    asked = request.policy or default_policy(config)
    read, warning = await playable_tasks(
        request.tasks,
        config,
        settings,
        split=request.split,
        limit=request.limit,
        source=request.source,
    )
    if warning is not None:
        yield warning
    tasks = read.tasks
    if asked == SOLUTION:
        tasks, notice = solvable_tasks(tasks, request.tasks)
        if notice is not None:
            yield Notice("warning", notice)
    if (notice := judging_actions(config, tasks)) is not None:
        yield Notice("warning", notice)
    if (notice := two_forms(config)) is not None:
        yield Notice("warning", notice)
    at_once = min(request.concurrency, len(tasks) * request.group)
    if at_once > 1 and request.source is None:
        configs = (task.mcp_config for task in tasks)
        for text in shared_places(configs, folder, lookup, settings.platform):
            yield Notice("warning", text)
    out_dir = folder / (request.out_dir or new_out_dir(folder, request, asked))
    policy = open_policy(asked, config, settings, request)
    timeout = settings.client_timeout if request.timeout is None else request.timeout
    telemetry: Telemetry | None = None
    try:
        kept = out_dir / FAILED_FOLDERS if request.keep_folders else None
        connect = connector(request.source, folder, lookup, timeout=timeout, kept=kept)
        _holds_evaluation(out_dir / TRACES, resume=request.resume)
        about = {
            "policy": policy.name,
            "tasks": len(tasks),
            "group": request.group,
            "tool": "hudtui",
        }
        opened = await asyncio.to_thread(
            open_telemetry, config, settings, out_dir, about=about, resume=request.resume
        )
        if isinstance(opened, str):
            yield Notice("warning", opened)
        else:
            telemetry = opened
        job = telemetry.job if telemetry is not None else None
        yield EvalPrepared(
            config, tasks, read.problems, policy.name, out_dir, len(tasks) * request.group, job
        )
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
            timeout=timeout,
            images=request.images,
            reuse=request.reuse,
            resume=request.resume,
            lookup=lookup,
            telemetry=telemetry,
            judges=Judges(settings.lookup),
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
        if telemetry is not None:
            over, telemetry = telemetry, None
            await asyncio.to_thread(over.close)
            for text in over.warnings():
                yield Notice("warning", text)
        names = (name for one in played for name in one.unshown)
        for notice in (
            other_dialects(played, config.parser.dialect),
            cut_replies(played),
            unshown_answers(names, config.observations),
        ):
            if notice is not None:
                yield Notice("warning", notice)
        yield EvalFinished(summarise(played, tasks, request.group), out_dir)
    finally:
        if telemetry is not None:
            await asyncio.to_thread(telemetry.close, "failed", within=1.0)
        await policy.aclose()


async def playable_tasks(
    tasks: str, config: GymConfig, settings: Settings, **choice: Any
) -> tuple[LoadedTasks, Notice | None]:
    """`read_playable_tasks`, off the event loop."""
    return await asyncio.to_thread(partial(read_playable_tasks, tasks, config, settings, **choice))


def read_playable_tasks(
    tasks: str,
    config: GymConfig,
    settings: Settings,
    *,
    split: str | None = None,
    limit: int | None = None,
    source: str | None = None,
    task: str | None = None,
) -> tuple[LoadedTasks, Notice | None]:
    """Read the tasks that episodes are played of, after the user has agreed to what they start.

    Args:
        tasks: A file or folder of tasks, or a dataset on the Hub.
        config: What they are played with. Tasks without `evaluate_tool` can be played where it has
            a reward of its own.
        settings: Of the project folder.
        split: The split of a dataset with several; None: `train`.
        limit: Keep only the first so many tasks.
        source: An environment that the tasks are played in: they get its servers as their
            `mcp_config`, and their own are not started.
        task: Keep only the task with this id.

    Returns:
        The tasks, at least one, with the problems of the others; and a warning where the folder's
        lock file was left out.

    Raises:
        InputError: The tasks cannot be read, or none can be played.
        Untrusted: The tasks name a server, or a model that judges, that the user has not agreed to.
    """
    folder = settings.folder
    lookup = with_python_variable(settings.lookup)
    image, warning = _lock_image(settings)
    read = read_tasks(
        tasks,
        lookup=lookup,
        lock_image=image,
        elsewhere=source is not None,
        platform=settings.platform,
        lacking=settings.lacking,
        own_reward=bool(config.reward),
        split=split,
        folder=folder,
        token=settings.get("HF_TOKEN"),
    )
    chosen = read.tasks if limit is None else read.tasks[:limit]
    if task is not None:
        chosen = tuple(one for one in chosen if one.id == task)
    if task is not None and not chosen and read.tasks:
        problem = next(
            (one for one in read.problems if one.id == task and one.severity == "error"), None
        )
        near = did_you_mean(task, [one.id for one in read.tasks])
        raise InputError(
            f"no task {clean_line(task, 80)!r} can be played",
            why=str(problem) if problem is not None else None,
            fix=f"Did you mean {clean_line(near, 80)!r}?" if near and problem is None else None,
            where=Location(tasks),
        )
    if not chosen:
        lacking = any(
            problem.field == "mcp_config" and problem.code == "missing" for problem in read.problems
        )
        raise InputError(
            f"{none_of(read.total, 'task')} can be played"
            if read.total
            else "there are no tasks here",
            why=str(read.problems[0]) if read.problems else None,
            fix="Give the tasks an mcp_config, or name one environment for all of them."
            if lacking
            else None,
            where=Location(tasks),
        )
    file = tasks_file(tasks, folder)
    require(folder, required_powers(chosen, file, lookup, servers=source is None))
    require_keys(chosen, read.problems)
    if source is not None:
        from hudtui.core.environment.source import parse_source

        servers = parse_source(source, folder=folder, lookup=lookup).mcp_config()
        chosen = tuple(replace(task, mcp_config=servers) for task in chosen)
    return replace(read, tasks=chosen), warning


def solvable_tasks(tasks: tuple[Task, ...], source: str) -> tuple[tuple[Task, ...], str | None]:
    """Return the tasks that have a solution, and a warning about the others.

    Raises:
        InputError: None has one.
    """
    solved = tuple(task for task in tasks if solution_of(task) is not None)
    if not solved:
        raise InputError(
            f"{none_of(len(tasks), 'task')} has a solution to play",
            fix="Write the calls that solve a task into its field `solution`.",
            where=Location(source),
        )
    bare = [task.id for task in tasks if solution_of(task) is None]
    if not bare:
        return solved, None
    many = f"{len(bare):,} of {len(tasks):,} tasks have no solution and are not played"
    return solved, f"{many}: {clean_line(bare[0], 80)} is the first"


def tasks_file(tasks: str, folder: Path) -> Path:
    """The file that tasks are read from; for a dataset of the Hub, the folder under its name."""
    path = folder / typed_path(tasks)
    return path if path.exists() else folder / tasks.replace("/", "_")


def new_out_dir(folder: Path, request: EvalRequest, player: str) -> Path:
    """A folder in `outputs/` that does not exist yet, named by configuration, policy and time."""
    policy = "".join(
        letter if letter.isalnum() or letter in "-._" else "-"
        for letter in player.partition("/")[2] or player
    )
    name = f"{request.config.stem}-{policy[-60:].strip('-.')}-{datetime.now():%Y%m%d-%H%M%S}"
    number, path = 1, Path("outputs") / name
    while (folder / path).exists():
        number, path = number + 1, Path("outputs") / f"{name}-{number + 1}"
    return path


def open_policy(
    name: str, config: GymConfig, settings: Settings, options: EpisodeOptions
) -> PolicySource:
    """Return the policies of a name, with the endpoint and the key that the settings name.

    The file of `replay:` is relative to the settings' folder.

    Raises:
        InputError: There is no such policy, it cannot play with this configuration, or a required
            key is not set.
    """
    endpoint = find_endpoint(settings, options, needed=name.startswith("openai:"))
    if name.startswith("replay:") and (file := name.removeprefix("replay:")):
        return replace(
            policy_source(f"replay:{settings.folder / typed_path(file)}", config), name=name
        )
    return policy_source(
        name, config, seed=options.seed or 0, endpoint=endpoint, send_seed=options.seed is not None
    )


def find_endpoint(
    settings: Settings, options: EpisodeOptions, *, needed: bool = True
) -> ChatOptions:
    """The options with the endpoint and the key that the settings name.

    Raises:
        InputError: The endpoint is OpenAI's, which always wants a key, there is none, and it is
            needed.
    """
    endpoint = ChatOptions(
        base_url=options.base_url or settings.get("OPENAI_BASE_URL") or DEFAULT_BASE_URL,
        key=settings.get(options.key_variable),
        key_name=options.key_variable,
        temperature=options.temperature,
        max_tokens=options.max_tokens,
        max_context=options.max_context,
        timeout=options.reply_timeout,
    )
    if needed and endpoint.key is None and endpoint.base_url == DEFAULT_BASE_URL:
        settings.require(options.key_variable)
    return endpoint


def _lock_image(settings: Settings) -> tuple[str | None, Notice | None]:
    from hudtui.core.lockfile import find_lock, read_lock

    try:
        lock = find_lock(settings.folder, settings.platform)
        return (None if lock is None else read_lock(lock).image), None
    # only tasks without an environment of their own need it, and their own error says so
    except InputError as error:
        return None, Notice("warning", "the lock file is left out: " + "; ".join(error.lines()))


def connector(
    source: str | None, folder: Path, lookup: Lookup, *, timeout: float, kept: Path | None = None
) -> Connect:
    """Return what opens the environment of a task.

    `source` is an environment to play in instead of the one each task names; `timeout` counts for a
    connection, and for one call; `kept` gets the folders of failed episodes.

    Raises:
        SourceError: The source cannot be understood.
        Untrusted: A file of the folder names the source, and the user has not agreed to it.
    """
    from hudtui.core.environment.client import connect
    from hudtui.core.environment.source import parse_source

    if source is None:
        return lambda mcp_config: connect(
            mcp_config, lookup=lookup, timeout=timeout, folder=folder, kept=kept
        )
    place = parse_source(source, folder=folder, lookup=lookup)
    require(folder, place.powers)
    return lambda mcp_config: connect(place, timeout=timeout, kept=kept)
