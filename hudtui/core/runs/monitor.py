"""Watching runs: their state, their last sign of life, their numbers, their logs. It only looks; stopping is the launcher's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from hudtui.core.errors import MachineError, RunError
from hudtui.core.remote.follow import CHUNK, last_lines
from hudtui.core.remote.host import Chunk, Host
from hudtui.core.remote.tmux import attach_argv
from hudtui.core.runs.launcher import find_host
from hudtui.core.runs.machine import Machine
from hudtui.core.runs.store import RunStore
from hudtui.core.runs.values import RunEvent, RunSummary, iso
from hudtui.core.text import clean_line
from hudtui.core.training.engine import find_engine
from hudtui.core.training.metrics import MetricsReader

SILENT = 15.0
"""Seconds without a heartbeat after which a run that should live is worth a look."""
_SEAM = 64


@dataclass(frozen=True)
class StageView:
    """A stage as it stands."""

    name: str
    state: str
    """`waiting`, `starting`, `running`, `ready` (a service that answers) or `ended`."""
    service: bool = False
    attempt: int = 0
    exit: int | None = None
    """Exit status; negative for the signal that ended it."""
    started: float | None = None
    ended: float | None = None
    pid: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {**vars(self), "started": iso(self.started), "ended": iso(self.ended)}


@dataclass(frozen=True)
class ResultRow:
    """One line of a result table: a task, or a step of training."""

    task: str
    reward: float
    reward_std: float | None
    episodes: int
    turns: float | None
    errors: int

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return dict(vars(self))


@dataclass(frozen=True)
class Result:
    """What a run has brought so far."""

    rows: tuple[ResultRow, ...] = ()

    @property
    def reward(self) -> float | None:
        """Mean over the tasks; None while there are none."""
        return fmean(row.reward for row in self.rows) if self.rows else None

    @property
    def episodes(self) -> int:
        """Episodes played."""
        return sum(row.episodes for row in self.rows)

    @property
    def errors(self) -> int:
        """Episodes that something broke off."""
        return sum(row.errors for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "reward": self.reward,
            "episodes": self.episodes,
            "errors": self.errors,
            "tasks": [row.to_json() for row in self.rows],
        }


@dataclass(frozen=True)
class RunView:
    """Everything there is to show about one run."""

    summary: RunSummary
    stages: tuple[StageView, ...] = ()
    elapsed: float | None = None
    """Seconds."""
    silent: float | None = None
    """Seconds since its last sign of life; None when it has ended or never began."""
    result: Result = field(default_factory=Result)
    metrics: MetricsReader = field(default_factory=MetricsReader)
    """Series by name; `metrics.series("reward")` is the curve of rewards."""
    disk_free: int | None = None
    """Bytes left on the machine's disk."""
    events: tuple[RunEvent, ...] = ()
    problem: str | None = None
    """Why the newest events could not be kept: what is shown may be out of date."""

    @property
    def windows(self) -> tuple[str, ...]:
        """Names of the logs there are or will be, in the order of the stages."""
        return tuple(stage.name for stage in self.stages)

    @property
    def attach(self) -> tuple[str, ...] | None:
        """The command that shows its tmux session; None where there is none."""
        return attach_argv(self.summary.session) if self.summary.mode == "tmux" and self.summary.active else None

    @property
    def worrying(self) -> bool:
        """It should live, but its heartbeat has stopped."""
        return self.summary.active and self.silent is not None and self.silent > SILENT

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui runs show --json`."""
        return {
            **self.summary.to_json(),
            "elapsed_seconds": None if self.elapsed is None else round(self.elapsed, 3),
            "silent_seconds": None if self.silent is None else round(self.silent, 3),
            "stages": [stage.to_json() for stage in self.stages],
            "result": self.result.to_json(),
            "metrics": {name: [[point.x, point.y] for point in self.metrics.series(name)] for name in self.metrics.names},
            "attach": list(self.attach) if self.attach else None,
            "problem": self.problem,
            "disk_free_bytes": self.disk_free,
            "events": [event.to_json() for event in self.events],
        }


class Monitor:
    """Looks at the runs of a store and at the machines they are on. Remembers what it has read, so that looking again is cheap.

    Args:
        store: The runs.
        hosts: Gives the host of a name; None for one that cannot be reached from here.
        now: The time, in seconds since the epoch.
    """

    def __init__(
        self, store: RunStore, *, hosts: Callable[[str], Host | None] = find_host, now: Callable[[], float] = time.time
    ) -> None:
        self.store = store
        self._hosts = hosts
        self._now = now
        self._machines: dict[str, Machine] = {}
        self._metrics: dict[str, _Growing] = {}

    def _machine(self, run: str) -> Machine:
        if run not in self._machines:
            record = self.store.record(run)
            host = self._hosts(record.host)
            if host is None:
                raise MachineError(f"run {run} is on {record.host}, which cannot be reached from here")
            self._machines[run] = Machine(host, record)
        return self._machines[run]

    async def refresh(self) -> tuple[RunSummary, ...]:
        """All runs, the oldest first, with what their machines have said until now.

        A machine that is silent is passed over; what cannot be kept, because the disk is full, is asked for again next time.
        """
        changed = False
        for run in (runs := self.store.runs()):
            if run.active or run.state == "lost":
                with contextlib.suppress(MachineError, RunError):
                    changed = bool(await self._machine(run.id).sync(self.store)) or changed
        return self.store.runs() if changed else runs

    async def view(self, run: str) -> RunView:
        """Look at one run.

        Raises:
            RunError: There is no such run.
            MachineError: Its machine does not answer.
        """
        machine = self._machine(run)
        problem = None
        if self.store.summary(run).active:
            try:
                await machine.sync(self.store)
            except RunError as error:
                problem = error.what
        summary = self.store.summary(run)
        status = await _status(machine)
        saved = status.get("stages")
        stages = saved if isinstance(saved, dict) else {}
        now = self._now()
        beat = status.get("heartbeat")
        return RunView(
            summary=summary,
            stages=tuple(_stage(stage.name, stage.service, stages.get(stage.name)) for stage in machine.record.plan.stages),
            elapsed=summary.elapsed(now),
            silent=max(now - float(beat), 0.0) if summary.active and isinstance(beat, int | float) else None,
            result=Result(_rows(metrics := await self._read_metrics(machine))),
            metrics=metrics,
            disk_free=status.get("disk_free"),
            events=self.store.events(run),
            problem=problem,
        )

    async def watch(self, run: str, *, every: float = 0.5) -> AsyncGenerator[RunView, None]:
        """Views of a run, one each `every` seconds, until it has ended; the last one is of the end."""
        while True:
            view = await self.view(run)
            yield view
            if not view.summary.active:
                return
            await asyncio.sleep(every)

    def log_path(self, run: str, window: str | None = None) -> str:
        """Where the log of a window lies on its machine; by default of the stage that runs, or ran last.

        Raises:
            RunError: The run has no such window.
        """
        machine = self._machine(run)
        names = [stage.name for stage in machine.record.plan.stages]
        chosen = window or self.store.summary(run).stage or names[0]
        if chosen not in names:
            raise RunError(f"run {run} has no window {clean_line(chosen)!r}", fix=f"Its windows: {', '.join(names)}.")
        return machine.path("logs", f"{chosen}.log")

    async def tail(self, run: str, window: str | None = None, *, lines: int = 1000) -> int:
        """The byte offset at which the last `lines` lines of a log begin; reads backwards, so a large log costs nothing."""
        return await last_lines(self._machine(run).host, self.log_path(run, window), lines)

    async def read(self, run: str, window: str | None = None, *, offset: int = 0) -> AsyncGenerator[Chunk, None]:
        """The bytes of a log from `offset` to what is its end now."""
        host, path = self._machine(run).host, self.log_path(run, window)
        facts = await host.facts(path)
        end = facts.size if facts else 0
        while offset < end:
            data = await host.get(path, offset=offset, limit=min(CHUNK, end - offset))
            if not data:
                return
            yield Chunk(offset, data)
            offset += len(data)

    async def follow(
        self, run: str, window: str | None = None, *, offset: int = 0, to_the_end: bool = True
    ) -> AsyncGenerator[Chunk, None]:
        """The bytes of a log from `offset` on, as they are written.

        Consume it inside `contextlib.aclosing` when leaving early.

        Args:
            run: The run.
            window: The stage; by default the one that runs, or ran last.
            offset: Byte offset to begin at; see `tail`.
            to_the_end: Stop when the run has ended and everything is read; else go on for ever.
        """
        machine = self._machine(run)
        path = self.log_path(run, window)
        chunks = machine.host.follow(path, offset=offset)
        end = offset
        step: asyncio.Task[Chunk | None] | None = None
        try:
            while True:
                step = step or asyncio.create_task(_next(chunks))
                done, _ = await asyncio.wait((step,), timeout=0.25)
                if done:
                    chunk = await step
                    step = None
                    if chunk is None:
                        return
                    end = chunk.offset + len(chunk.data)
                    yield chunk
                elif to_the_end:
                    with contextlib.suppress(RunError):
                        await machine.sync(self.store)
                    if not self.store.summary(run).active:
                        facts = await machine.host.facts(path)
                        if facts is None or facts.size == end or facts.size < offset:
                            return
        finally:
            if step is not None:
                step.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await step
            closing = getattr(chunks, "aclose", None)
            if closing is not None:
                await closing()

    async def _read_metrics(self, machine: Machine) -> MetricsReader:
        output = machine.record.plan.output("metrics")
        if output is None:
            return MetricsReader()
        run = machine.record.id
        if run not in self._metrics:
            self._metrics[run] = _Growing(machine.path(output.path), find_engine(machine.record.engine).reader)
        return await self._metrics[run].read(machine.host)


class _Growing:
    """A metrics file that is read on from where the last look ended."""

    def __init__(self, path: str, make: Callable[[], MetricsReader]) -> None:
        self._path, self._make = path, make
        self._reader, self._offset, self._seam = make(), 0, b""

    async def read(self, host: Host) -> MetricsReader:
        facts = await host.facts(self._path)
        if facts is None or facts.size == self._offset:
            return self._reader
        data = await host.get(self._path, offset=self._offset - len(self._seam))
        if not data.startswith(self._seam):
            self._reader, self._offset, self._seam = self._make(), 0, b""  # it was written anew
            data = await host.get(self._path)
        self._reader.feed(data[len(self._seam) :])
        self._offset += len(data) - len(self._seam)
        self._seam = data[-_SEAM:]
        return self._reader


async def _next(chunks: AsyncIterator[Chunk]) -> Chunk | None:
    return await anext(chunks, None)


async def _status(machine: Machine) -> dict[str, Any]:
    path = machine.path("status.json")
    if await machine.host.facts(path) is None:
        return {}
    try:
        found = json.loads(await machine.host.get(path))
    except (MachineError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _stage(name: str, service: bool, saved: Any) -> StageView:
    if not isinstance(saved, dict):
        return StageView(name, "waiting", service)
    known = {key: saved.get(key) for key in ("exit", "started", "ended", "pid")}
    return StageView(name, str(saved.get("state")), service, int(saved.get("attempt") or 0), **known)


def _rows(metrics: MetricsReader) -> tuple[ResultRow, ...]:
    found: dict[str, ResultRow] = {}
    for row in metrics.rows:
        task, reward = row.get("task"), row.get("reward")
        if isinstance(task, str) and isinstance(reward, int | float):
            found[task] = ResultRow(
                task=clean_line(task),
                reward=float(reward),
                reward_std=_float(row.get("reward_std")),
                episodes=int(_float(row.get("episodes")) or 1),
                turns=_float(row.get("turns")),
                errors=int(_float(row.get("errors")) or 0),
            )
    return tuple(found.values())


def _float(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None
