"""Watch runs: their state, heartbeat, metrics and logs; `launch` stops runs.

Whoever watches changes nothing of a run, and nothing that the user has said of it. Events that its
machine reports are copied into the store as they are, each once, whoever reads them first: nobody
manages a run that was started on a machine of the user's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Mapping,
)
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from hudtui.core.compute.hardware import size
from hudtui.core.diagnosis.alarms import USUAL, find_alarms, read_thresholds, with_alarms
from hudtui.core.diagnosis.facts import (
    SILENT,
    Alarm,
    LogSymptom,
    RunFacts,
    StageFacts,
    Thresholds,
)
from hudtui.core.diagnosis.live import LiveDiagnosis
from hudtui.core.diagnosis.signatures import SIGNATURES
from hudtui.core.diagnosis.spent import with_spent
from hudtui.core.diagnosis.symptoms import find_symptoms
from hudtui.core.diagnosis.values import NOTHING
from hudtui.core.errors import HudtuiError, InputError, MachineError, RunError
from hudtui.core.remote.host import LOCAL, FileChunk, FileRefused, Host
from hudtui.core.remote.hosts import (
    answering,
    ensure_reachable,
    find_host,
    find_target,
    require_answer,
)
from hudtui.core.remote.local import LocalHost
from hudtui.core.remote.log_file import Log, LogPlace
from hudtui.core.remote.logs import TailReader
from hudtui.core.runs.evidence import EpisodeEvidence
from hudtui.core.runs.forecast import expected_cost
from hudtui.core.runs.launch import error_sentence
from hudtui.core.runs.reports import StatusReport, read_status
from hudtui.core.runs.run_folder import RunFolder, peers_of
from hudtui.core.runs.status import (
    GpuLoad,
    MachineLoad,
    NodeView,
    ResultRow,
    RunResult,
    RunView,
    StageView,
    gpu_load,
    read_gpus,
    read_machine,
    read_result,
    server_load,
    stage_view,
    time_left,
)
from hudtui.core.runs.store import RunRecord, RunStore, results_folder_of
from hudtui.core.runs.values import END_STATES, RunEvent, RunSummary
from hudtui.core.runs.vllm import ASK_EVERY, ModelServer, ServerMonitor
from hudtui.core.text import clean_line
from hudtui.core.training.engines import features_of, find_engine, recipe_for
from hudtui.core.training.metrics import MetricsReader

__all__ = ["GpuLoad", "MachineLoad", "Monitor", "ResultRow", "RunResult", "RunView", "StageView"]

_LOG_LOOK = 256 * 1024
"""Largest number of bytes of a log that one refresh searches for symptoms."""
_METRICS_LOOK = 16 * 1024 * 1024
"""Largest number of bytes of the metrics that one refresh reads; the newest are read."""
_LOAD_LOOK = 256 * 1024
"""Largest number of bytes of the load of a node that one refresh reads; the newest are read."""
_LATE = 5.0
"""Seconds without an answer from the machine after which a view is marked as old
(`RunView.away`)."""
_SLOWEST = 30.0
"""Longest interval in seconds between two attempts to reach a silent machine."""
_SERVER_WAIT = 0.3
"""Seconds a view waits for the model server's answer."""
_SERVER_FIRST = 3.0
"""Seconds a view waits for the first answer, so that a single view includes it."""
SETTINGS_AGAIN = 10.0
"""Seconds between two readings of the settings."""
_SIGNS = 8
"""Number of the newest symptoms that are kept for each stage."""
_AT_ONCE = 4
PATIENCE = 15.0
"""Timeout in seconds for a single look at a run, because its machine may not answer."""
_CLOCK_WAIT = 5.0
"""Seconds to wait for a machine's time."""
_LAST_TIME = 1e11
"""Latest valid time that a machine may report, in seconds since the epoch (the year 5138)."""
_NODE_WAIT = 5.0
"""Seconds in which another node of a run must answer a view."""
_SESSION_COMES = 5.0
"""Longest time between the start of a run and its tmux session, in seconds."""


class Monitor:
    """Reads the runs of a store and the files on their machines.

    It caches what it has read, so a second view is cheap.

    Args:
        store: The runs.
        hosts: Returns the host of a name, or None if this computer cannot reach that host.
        now: Current time, in seconds since the epoch.
    """

    def __init__(
        self,
        store: RunStore,
        *,
        hosts: Callable[[str], Host | None] = find_host,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.store = store
        self._hosts = hosts
        self._now = now
        self._records: dict[tuple[str, str | None], RunRecord] = {}
        """The user's own runs, by id and local results folder, as the next."""
        self._machines: dict[tuple[str, str | None], RunFolder] = {}
        self._seen: dict[str, _RunReader] = {}
        self._stored: dict[str, _Stored] = {}
        self._events: dict[str, tuple[object, tuple[RunEvent, ...]]] = {}
        self._thresholds = USUAL
        self._read_settings = 0.0
        """Monotonic time at which the settings are read again."""

    async def _thresholds_now(self) -> Thresholds:
        """Return the thresholds of alarms in the project's settings.

        They are read again after some seconds.
        """
        if time.monotonic() >= self._read_settings:
            self._thresholds = await asyncio.to_thread(read_thresholds, self.store.state_dir.parent)
            self._read_settings = time.monotonic() + SETTINGS_AGAIN
        return self._thresholds

    async def _events_of(self, run: str) -> tuple[RunEvent, ...]:
        """Return the events of a run.

        The store is read only if its file has changed since the last read.
        """
        stamp, events = self._events.get(run, (None, ()))
        if stamp is None or stamp != self.store.database.stamp():
            stamp, events = await self.store.run(self._read_events, run)
            self._events[run] = stamp, events
        return events

    def _read_events(self, run: str) -> tuple[object, tuple[RunEvent, ...]]:
        stamp = self.store.database.stamp()
        return stamp, self.store.events(run)

    def record(self, run: str) -> RunRecord:
        """Return the record of a run; see `RunStore.record`.

        Call it in a thread: it reads the store.

        Raises:
            RunError: The run does not exist, was stored by another version of hudtui, or its record
                is invalid.
        """
        return self._record(self.store.summary(run))

    async def _read(self, run: str) -> tuple[RunSummary, RunRecord]:
        """Return a run and its record; see `record`.

        The store is read only if its file has changed since the last read.
        """
        stored = self._stored.get(run)
        if stored is None or stored.stamp is None or stored.stamp != self.store.database.stamp():
            stored = await self.store.run(self._read_stored, run)
            self._stored[run] = stored
        return stored.summary, stored.record

    def _read_stored(self, run: str) -> _Stored:
        stamp = self.store.database.stamp()
        summary = self.store.summary(run)
        record = self._record(summary)
        return _Stored(
            stamp if record.own else None, summary, record
        )  # the user may agree to a run of others at any time

    def _record(self, summary: RunSummary) -> RunRecord:
        """Return the record of a run. It is read only once, if the run is the user's own."""
        run, home = summary.id, results_folder_of(summary)
        record = self._records.get((run, home)) or self.store.record(run)
        if record.own:
            self._records[run, home] = record
        return record if record.name == summary.name else replace(record, name=summary.name)

    def _read_records(self) -> dict[tuple[str, str | None], RunRecord]:
        homes = {run.id: results_folder_of(run) for run in self.store.runs()}
        return {
            (run, homes.get(run)): record
            for run, record in self.store.records().items()
            if record.own
        }

    def _machine(self, summary: RunSummary, record: RunRecord) -> RunFolder:
        run, home = summary.id, results_folder_of(summary)
        known = self._machines.get((run, home))
        if known is not None:
            return known
        # The local copy has the same layout as the run's folder on its machine, which may be gone.
        host = LocalHost() if home is not None else self._hosts(record.host)
        if host is None:
            raise MachineError(f"run {run} is on {record.host}, which cannot be reached from here")
        self._seen.pop(run, None)
        machine = self._machines[run, home] = RunFolder(
            host, replace(record, folder=home or record.folder)
        )
        return machine

    def _nowhere(self, record: RunRecord) -> RunFolder:
        """Return a folder without files, for a run whose machine cannot be read."""
        nowhere = str(self.store.folder / record.id / "not there yet")
        return RunFolder(LocalHost(), replace(record, folder=nowhere, own=True))

    async def refresh(self) -> tuple[RunSummary, ...]:
        """Return all runs, oldest first, with the newest reports of their machines.

        A machine that does not answer within some seconds is skipped. Reports that cannot be
        stored, for example on a full disk, are read again next time.
        """

        async def one(run: RunSummary) -> bool:
            try:
                _, record = await self._read(run.id)
                async with answering(run.host, within=PATIENCE):
                    return bool(await self._machine(run, record).sync(self.store))
            except (MachineError, RunError):
                return False

        def read() -> tuple[tuple[RunSummary, ...], list[RunSummary]]:
            runs = self.store.runs()
            return runs, [
                run
                for run in runs
                if (run.active or run.state == "lost") and self.store.is_own(run.id)
            ]

        runs, active = await self.store.run(read)
        changed = any(await asyncio.gather(*map(one, active)))
        return await self.store.run(self.store.runs) if changed else runs

    async def require_answer(self, run: str) -> None:
        """Check that the machine of an active run answered when it was asked last.

        See `hosts.answering`.

        Raises:
            MachineError: It did not.
        """
        summary, _ = await self._read(run)
        if summary.active:
            require_answer(summary.host)

    async def views(self, runs: Iterable[str]) -> AsyncGenerator[RunView, None]:
        """Yield brief views of several runs, for a list, in the order of arrival.

        Runs that cannot be read are left out.
        """
        wanted, turn = tuple(runs), asyncio.Semaphore(_AT_ONCE)
        if not {run for run, _ in self._records}.issuperset(wanted):
            self._records |= await asyncio.to_thread(self._read_records)

        async def look(run: str) -> RunView | None:
            async with turn:
                with contextlib.suppress(HudtuiError):
                    return await self.view(run, brief=True, within=PATIENCE)
            return None

        looks = [asyncio.create_task(look(run)) for run in wanted]
        try:
            for one in asyncio.as_completed(looks):
                if (view := await one) is not None:
                    yield view
        finally:
            for task in looks:
                task.cancel()

    async def view(
        self,
        run: str,
        *,
        brief: bool = False,
        whole: bool = False,
        within: float | None = None,
    ) -> RunView:
        """Return the current view of one run.

        Args:
            run: Its id.
            whole: Diagnose it by all of its episodes; otherwise by as many as a look may read.
            brief: Leave out the events. For a finished run, include only its metrics, its result
                and values derived from these.
            within: Seconds in which its machine must answer; None for as long as it takes.

        Raises:
            RunError: The run does not exist.
            MachineError: The run's machine does not answer.
        """
        summary, record = await self._read(run)
        waits = _waits(summary, record)
        async with contextlib.AsyncExitStack() as stack:
            if within is not None:
                await stack.enter_async_context(answering(summary.host, within=within))
            machine = self._nowhere(record) if waits else self._machine(summary, record)
            return await self._view(summary, machine, waits=waits, brief=brief, whole=whole)

    async def stored_view(self, run: str, problem: str) -> RunView:
        """Return what the store knows of a run whose machine does not answer.

        `problem` is the reason.

        Raises:
            RunError: The run does not exist.
        """
        summary, record = await self._read(run)
        view = await self._view(summary, self._nowhere(record), waits=True, brief=False)
        return replace(view, problem="; ".join(filter(None, (problem, view.problem))))

    async def _view(
        self,
        summary: RunSummary,
        machine: RunFolder,
        *,
        waits: bool,
        brief: bool,
        whole: bool = False,
    ) -> RunView:
        run, problems = summary.id, _Problems()
        if summary.active:
            with problems:
                await machine.sync(self.store)
            summary, _ = await self._read(run)
        seen = _RunReader(machine) if waits else self._seen.setdefault(run, _RunReader(machine))
        host = machine.host
        with problems:
            await seen.read_metrics(host, ended=None if summary.active else summary.ended)
        now, status, stages = self._now(), StatusReport(), tuple[StageView, ...]()
        nodes = tuple[NodeView, ...]()
        grew: dict[str, float] = {}
        if not (brief and summary.state == "finished"):
            with problems:
                status = await read_status(host, machine.path("status.json")) or status
            stages = tuple(
                stage_view(stage.name, stage.service, status.stages.get(stage.name))
                for stage in machine.record.plan.stages
            )
            nodes, others = await self._read_nodes(seen, summary, machine, problems)
            late = {node.node: node.late for node in nodes}
            stages = tuple(
                stage_view(
                    stage.name, stage.service, others[stage.node].stages.get(stage.name)
                ).moved(late[stage.node])
                if stage.node in others
                else view
                for stage, view in zip(machine.record.plan.stages, stages, strict=True)
            )
            for stage, about in zip(stages, machine.record.plan.stages, strict=True):
                if summary.state == "finished" or about.node:
                    continue  # symptoms matter where a run may fail, or has failed
                with problems:
                    grew |= await seen.read_log(host, stage)
            now = self._now()
            with problems:
                await seen.read_gpus(host)
        servers = await seen.ask_servers(host, stages, now) if summary.active else {}
        there = status.heartbeat
        with problems:
            await seen.compare_clocks(host, there if summary.active else None, now)
        silent = (
            seen.silence(there, now - seen.ahead, time.monotonic())
            if summary.active and there is not None
            else None
        )
        silences = [one for one in (silent, *(node.silent for node in nodes)) if one is not None]
        load = seen.machine or MachineLoad()
        disks = [(node.disk_free, node.title) for node in nodes] if summary.active else []
        rooms = [
            (room, whose) for room, whose in [(status.disk_free, ""), *disks] if room is not None
        ]
        free, whose = min(rooms, default=(None, ""))
        group = None if features_of(machine.record.engine).trains else machine.record.spec.group
        facts = RunFacts(
            active=summary.active,
            advice=features_of(machine.record.engine).advice,
            silent=max(silences, default=None),
            beat=there,
            stages=tuple(
                StageFacts(
                    stage.name,
                    stage.state,
                    stage.service,
                    stage.exit,
                    max(there - grew[stage.name], 0.0)
                    if there is not None and stage.name in grew
                    else None,
                    grew.get(stage.name),
                    servers[stage.name].unanswered if stage.name in servers else 0.0,
                    servers[stage.name].stuck if stage.name in servers else 0.0,
                )
                for stage in stages
            ),
            signs=seen.signs if summary.state != "finished" else (),
            disk_free=free,
            disk_of=whose,
            memory_used=load.memory_used,
            memory_total=load.memory_total,
        )
        events = (
            () if brief and not (seen.over or seen.acknowledged) else await self._events_of(run)
        )
        known = seen.still_acknowledged(summary.acknowledged, events)
        trains = features_of(machine.record.engine).trains
        if trains and (summary.active or not brief):
            await seen.live.renew(seen.metrics, last=not summary.active, whole=whole)
            if seen.episodes is not None and seen.episodes.problem is not None:
                problems.words.append(seen.episodes.problem)
        alarms = find_alarms(
            facts.with_metrics(seen.metrics, group),
            await self._thresholds_now(),
            findings=seen.live.findings,
            acknowledged=known,
        )
        diagnosis = with_spent(
            with_alarms(seen.live.newest or NOTHING, alarms, seen.live.settings),
            seen.metrics,
            hourly=summary.hourly,
            currency=summary.currency,
        )
        if summary.active and not problems.words:
            if gone := seen.acknowledged - {alarm.key for alarm in alarms}:
                seen.over |= dict.fromkeys(gone, len(events))
            seen.acknowledged = {alarm.key for alarm in alarms if alarm.acknowledged}
        left = time_left(seen.metrics) if summary.active else None
        return RunView(
            summary=summary,
            stages=stages,
            ahead=seen.ahead,
            elapsed=summary.elapsed(now - seen.ahead),
            silent=silent,
            result=seen.result,
            metrics=seen.metrics,
            disk_free=status.disk_free,
            events=() if brief else events,
            problem="; ".join(
                word for word in (summary.passed_over, seen.passed_over, *problems.words) if word
            )
            or None,
            alarms=alarms,
            diagnosis=diagnosis if trains else None,
            gpus=seen.gpus[0],
            machine=seen.machine,
            nodes=nodes,
            servers=tuple(servers.values()),
            load=seen.loads[0],
            cost=summary.cost(now),
            left=left,
            expected_cost=expected_cost(machine.record.spec, summary, left, now),
        )

    async def _read_nodes(
        self, seen: _RunReader, summary: RunSummary, machine: RunFolder, problems: _Problems
    ) -> tuple[tuple[NodeView, ...], dict[int, StatusReport]]:
        """Return the nodes of a run beside node 0, and what their supervisors say.

        One that does not answer is a view with the reason: the others are shown all the same. The
        logs of those that answer are searched for symptoms.
        """

        async def one(peer: RunFolder) -> tuple[NodeView, StatusReport]:
            name = machine.record.spec.peers[peer.node - 1]  # also where its results are here
            try:
                async with answering(peer.host.name, within=_NODE_WAIT):
                    status = await read_status(peer.host, peer.path("status.json"))
            except (MachineError, RunError) as error:
                problem = clean_line(error_sentence(error), 300)
                return NodeView(peer.node, name, "", problem=problem), StatusReport()
            status = status or StatusReport()
            silent, late = None, 0.0
            if summary.active and status.heartbeat is not None and status.state not in END_STATES:
                silent = seen.node_silence(peer.node, status.heartbeat, time.monotonic())
                late = self._now() - seen.ahead - status.heartbeat - silent
            gone = machine.record.spec.rent is not None and not summary.holds_machine
            over = not summary.active and not gone and status.state != ""
            with problems:
                async with answering(peer.host.name, within=_NODE_WAIT):
                    await search(peer, status)
                    await seen.read_gpus(peer.host, peer.node)
            view = NodeView(
                peer.node,
                name,
                status.state,
                status.why,
                silent,
                left=over and status.state not in END_STATES,
                gpus=seen.gpus[peer.node],
                load=seen.loads[peer.node],
                disk_free=status.disk_free,
                late=late if abs(late) > SILENT else 0.0,
            )
            return view, status

        async def search(peer: RunFolder, status: StatusReport) -> None:
            if summary.state == "finished":
                return
            for stage in machine.record.plan.stages:
                if stage.node == peer.node:
                    about = status.stages.get(stage.name)
                    await seen.read_log(peer.host, stage_view(stage.name, stage.service, about))

        found = await asyncio.gather(*map(one, self._peers(machine)))
        return tuple(view for view, _ in found), {view.node: status for view, status in found}

    def _peers(self, machine: RunFolder) -> tuple[RunFolder, ...]:
        """Return the other nodes of a run, on this computer where its results are here."""
        if machine.host.name == LOCAL:
            return peers_of(machine.record, lambda _: LocalHost())
        return peers_of(machine.record, self._hosts)

    async def watch(self, run: str, *, every: float = 0.5) -> AsyncGenerator[RunView, None]:
        """Yield a view of a run every `every` seconds until run and machine have ended.

        The last view shows the end. Views continue while the machine is silent or the store is
        unreadable; `RunView.away` says for how long.

        Raises:
            RunError: The run does not exist.
            MachineError: The run's machine does not answer the first request.
        """
        view = await self.view(run)
        heard, look = time.monotonic(), None
        pause = not_before = 0.0
        try:
            yield view
            while view.summary.active or view.summary.holds_machine:
                await asyncio.sleep(every)
                summary, _ = await self._read(run)
                if not (view.summary.active or summary.active):
                    # The run has ended: its files no longer change, and its machine may end at any
                    # moment.
                    events, cost = await self._events_of(run), summary.cost(self._now())
                    view = replace(
                        view,
                        summary=summary,
                        events=events,
                        cost=cost,
                        expected_cost=None,
                        away=None,
                    )
                    yield view
                    continue
                if look is None and time.monotonic() >= not_before:
                    look = asyncio.create_task(self.view(run))
                why = None
                if look is not None and (await asyncio.wait((look,), timeout=every))[0]:
                    try:
                        view, heard, pause = look.result(), time.monotonic(), 0.0
                    except (MachineError, RunError) as error:
                        why = clean_line(error_sentence(error), 300)
                        pause = min(max(2 * pause, every), _SLOWEST)
                        not_before = time.monotonic() + pause
                    look = None
                silent = time.monotonic() - heard
                if why is not None or view.away is not None or silent > _LATE:
                    view = self._away(view, summary, await self._events_of(run), silent, why)
                yield view
            if (
                view.away is not None
            ):  # the run has ended meanwhile, and its results may be on this computer by now
                with contextlib.suppress(MachineError, RunError):
                    yield await self.view(run)
        finally:
            if look is not None:
                look.cancel()
                await asyncio.gather(look, return_exceptions=True)

    def _away(
        self,
        view: RunView,
        summary: RunSummary,
        events: tuple[RunEvent, ...],
        silent: float,
        why: str | None,
    ) -> RunView:
        """Return a view without asking the machine.

        The last known state, and how long the machine has been silent.
        """
        now = self._now()
        return replace(
            view,
            summary=summary,
            events=events,
            elapsed=summary.elapsed(now - view.ahead),
            cost=summary.cost(now),
            left=None,
            expected_cost=None,
            away=silent,
            problem=why or view.problem,
        )

    async def log_place(self, run: str, window: str | None = None) -> LogPlace | None:
        """Return the place of a stage's log, by default of the current or last stage.

        None while its machine cannot be read.

        Raises:
            RunError: The run has no such stage.
        """
        summary, record = await self._read(run)
        if _waits(summary, record):
            return None
        names = [stage.name for stage in record.plan.stages]
        chosen = window or summary.stage or names[0]
        if chosen not in names:
            raise RunError(
                f"run {run} has no window {clean_line(chosen)!r}",
                fix=f"Its windows: {', '.join(names)}.",
            )
        machine = self._machine(summary, record)
        node = next(stage.node for stage in record.plan.stages if stage.name == chosen)
        if node:
            machine = next(peer for peer in self._peers(machine) if peer.node == node)
        return LogPlace(machine.host, machine.path("logs", f"{chosen}.log"))

    async def is_active(self, run: str) -> bool:
        """Return whether a run is active according to the store."""
        summary, _ = await self._read(run)
        return summary.active

    async def ask_active(self, run: str) -> bool:
        """Return whether a run is active according to its machine.

        The store answers if the machine does not.
        """
        summary, record = await self._read(run)
        if not summary.active:
            return False
        with contextlib.suppress(
            RunError, MachineError
        ):  # waits for a silent machine, like the log itself
            await self._machine(summary, record).sync(self.store)
        return await self.is_active(run)

    def log(self, run: str, window: str | None = None) -> RunLog:
        """Return the log of a stage; by default of the current or last stage."""
        return RunLog(self, run, window)


@dataclass(frozen=True)
class RunLog(Log):
    """The log of a stage of a run, on the run's machine or among the fetched results."""

    monitor: Monitor = field(compare=False)
    run: str
    window: str | None = None
    """The stage; None for the current or last stage."""

    @property
    def name(self) -> str:
        return f"{self.run}-{self.window}" if self.window else self.run

    async def place(self) -> LogPlace | None:
        return await self.monitor.log_place(self.run, self.window)

    async def follow(self, *, offset: int = 0) -> AsyncGenerator[FileChunk, None]:
        """Yield the bytes of the log from `offset`, as they are written.

        It ends when the run has ended and its log is read.

        To stop early, use this generator with `contextlib.aclosing`.

        Args:
            offset: First byte; see `tail`.
        """
        while (place := await self.place()) is None:
            if not await self.monitor.is_active(self.run):
                return
            await asyncio.sleep(0.25)
        if not await self.monitor.is_active(self.run):
            async with contextlib.aclosing(self.read(offset=offset)) as there:
                async for piece in there:
                    yield piece
            return
        chunks = place.host.follow(place.path, offset=offset)
        end = offset
        step: asyncio.Task[FileChunk | None] | None = None
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
                elif not await self.monitor.ask_active(self.run):
                    break
        finally:
            if step is not None:
                step.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await step
            closing = getattr(chunks, "aclose", None)
            if closing is not None:
                await closing()
        # Read the rest from wherever the log is now: a rented machine may be gone.
        async with contextlib.aclosing(self.read(offset=end)) as rest:
            async for chunk in rest:
                yield chunk


@dataclass(frozen=True)
class _Stored:
    """A run as the store had it."""

    stamp: object
    """`Database.stamp` before the read; None if the run is to be read again."""
    summary: RunSummary
    record: RunRecord


def _waits(summary: RunSummary, record: RunRecord) -> bool:
    """Return whether the run's machine cannot be read.

    It is still being rented, or the user did not start the run.
    """
    return not record.own or (record.spec.rent is not None and summary.started is None)


class _Problems:
    """Collects sentences about data that a view could not read; the view continues without it.

    A silent machine still raises.
    """

    def __init__(self) -> None:
        self.words: list[str] = []

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, FileRefused | RunError):
            return False
        self.words.append(clean_line(error_sentence(error), 300))
        return True


class _RunReader:
    """The part of a run read so far, so that the next view reads only what is new."""

    def __init__(self, machine: RunFolder) -> None:
        self._machine = machine
        output = machine.record.plan.output("metrics")
        self._file = TailReader(machine.path(output.path), most=_METRICS_LOOK) if output else None
        self._make = find_engine(machine.record.engine).reader if output else MetricsReader
        self._continued: tuple[int, int] | None = None
        """For a training that continues another one: the step of the checkpoint, and the last step
        it was asked for."""
        spec = machine.record.spec
        if spec.continues is not None and spec.continues.step is not None:
            with contextlib.suppress(InputError):  # an invalid setting of the training
                self._continued = spec.continues.step, recipe_for(spec).steps
        self._complete_since: float | None = None
        """When the run ended, if all its metrics were read after that."""
        self.metrics = self._make()
        traces = machine.record.plan.output("traces")
        self.episodes = EpisodeEvidence(machine.host, machine.path(traces.path)) if traces else None
        self.live = LiveDiagnosis(lambda: trainer_settings(machine.record), self.episodes)
        self.result = RunResult()
        count = machine.record.plan.nodes
        places = [RunFolder(machine.host, machine.record, node) for node in range(count)]
        self._gpu_files = [TailReader(place.path("gpu.jsonl"), most=_LOAD_LOOK) for place in places]
        self.gpus: list[tuple[GpuLoad, ...]] = [()] * count
        """The newest load of the GPUs of each node."""
        self.machine: MachineLoad | None = None
        self.loads = [MetricsReader() for _ in range(count)]
        """The load of each node over time; that of node 0 also has its model servers."""
        self._servers = [
            ServerMonitor(stage.name, stage.ready.port)
            for stage in machine.record.plan.stages
            if stage.service and stage.ready is not None and stage.ready.port is not None
        ]
        self._question: asyncio.Task[None] | None = None
        self._next_question = 0.0
        self._logs = {
            stage.name: TailReader(
                RunFolder(machine.host, machine.record, stage.node).path(
                    "logs", f"{stage.name}.log"
                ),
                most=_LOG_LOOK,
            )
            for stage in machine.record.plan.stages
        }
        self._signs: dict[str, deque[LogSymptom]] = {}
        self.acknowledged: set[str] = set()
        """The keys of the alarms of the newest view that were acknowledged."""
        self.over: dict[str, int] = {}
        """The keys of acknowledged alarms that were seen to be gone, and how many events the run
        had then.

        A later alarm with such a key is new here. Nothing of this is stored: others may never have
        seen it gone, and the user has acknowledged it.
        """
        self._beat: tuple[float, float, bool] | None = None
        self._node_beats: dict[int, tuple[float, float]] = {}
        self.ahead = 0.0
        """Seconds by which this computer's clock is ahead of the machine's."""
        self._compared = machine.host.name == LOCAL
        self._ask_clock_at = 0.0

    @property
    def signs(self) -> tuple[LogSymptom, ...]:
        """Return the newest symptoms; those of one stage are ordered newest first."""
        return tuple(sign for signs in self._signs.values() for sign in reversed(signs))

    def still_acknowledged(
        self, acknowledged: Iterable[str], events: tuple[RunEvent, ...]
    ) -> set[str]:
        """Return the keys of acknowledged alarms without those that were seen to be gone since.

        Args:
            acknowledged: The keys of the alarms that the user has acknowledged.
            events: The events of the run: an acknowledgement after an alarm was gone counts again.
        """
        for key, count in list(self.over.items()):
            told = [
                event.data.get("alarms") for event in events[count:] if event.type == "acknowledged"
            ]
            if any(isinstance(keys, list) and key in keys for keys in told):
                del self.over[key]
        return {key for key in acknowledged if key not in self.over}

    async def read_metrics(self, host: Host, *, ended: float | None) -> None:
        """Read what is new in the metrics.

        Nothing if all of them were read already after the run had ended.

        Args:
            host: The run's machine.
            ended: When the run ended, after which its metrics do not change; None while it may
                change them.
        """
        if self._file is None or (ended is not None and ended == self._complete_since):
            return
        changed = False
        async with contextlib.aclosing(self._file.pieces(host)) as pieces:
            async for fresh in pieces:
                if fresh.truncated or fresh.skipped:
                    self.metrics = self._make()
                self.metrics.feed(fresh.data)
                changed = True
                await asyncio.sleep(0)  # other tasks run while a long file is read
        self._complete_since = ended
        newest = self.metrics.newest
        if self._continued is not None and newest is not None and newest[0] <= self._continued[0]:
            self.metrics.max_step = self._continued[
                1
            ]  # so far the metrics are those of the earlier training
        if changed:
            self.result = read_result(self.metrics)

    @property
    def passed_over(self) -> str | None:
        """Return a sentence about metrics that were skipped, or None."""
        if self._file is None or not self._file.skipped:
            return None
        return (
            f"the first {size(self._file.skipped)} of its metrics are not read, only the newest "
            f"{size(_METRICS_LOOK)}"
        )

    async def read_gpus(self, host: Host, node: int = 0) -> None:
        """Read what is new of a node's load; the machine is that of node 0."""
        for line in (await self._gpu_files[node].read(host)).data.splitlines():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if not isinstance(row, dict):
                continue
            self.gpus[node] = read_gpus(row) or self.gpus[node]
            if node == 0:
                self.machine = read_machine(row) or self.machine
            self.loads[node].add({**gpu_load(row), "time": row.get("at")})

    async def ask_servers(
        self, host: Host, stages: Iterable[StageView], now: float
    ) -> dict[str, ModelServer]:
        """Ask the ready model servers in the background: a view does not wait for a slow server.

        Returns:
            The newest answer of each server, by the name of its stage.
        """
        ready = {stage.name for stage in stages if stage.state == "ready"}
        watches = [watch for watch in self._servers if watch.stage in ready]
        clock = time.monotonic()
        if (
            watches
            and clock >= self._next_question
            and (self._question is None or self._question.done())
        ):
            wait = _SERVER_FIRST if self._question is None else _SERVER_WAIT
            self._next_question = clock + ASK_EVERY
            self._question = asyncio.create_task(self._ask(host, watches, now))
            await asyncio.wait((self._question,), timeout=wait)
        return {watch.stage: watch.newest for watch in watches if watch.newest is not None}

    async def _ask(self, host: Host, watches: Iterable[ServerMonitor], now: float) -> None:
        for watch in watches:
            server = await watch.ask(host, now)
            if server is not None and (told := server_load(server)):
                self.loads[0].add({**told, "time": now})

    async def read_log(self, host: Host, stage: StageView) -> dict[str, float]:
        """Search a stage's log for symptoms.

        Return when the log last grew, in seconds since the epoch by the machine's clock.
        """
        if stage.state == "waiting":
            return {}
        log = self._logs[stage.name]
        fresh = await log.read(host)
        if fresh.truncated:
            self._signs.pop(stage.name, None)
        for sign in find_symptoms(stage.name, fresh.data.decode("utf-8", "replace").split("\n")):
            kept = self._signs.setdefault(stage.name, deque(maxlen=_SIGNS))
            if (
                sign not in kept
            ):  # a symptom that repeats in every step must not displace the others
                kept.append(sign)
        return {} if log.stat is None else {stage.name: log.stat.modified}

    async def compare_clocks(self, host: Host, beat: float | None, now: float) -> None:
        """Ask the machine for its time if its heartbeat does not fit this computer's clock.

        One of the two may be wrong.

        Raises:
            RunError: The machine does not say.
        """
        if (
            self._compared
            or beat is None
            or abs(now - beat) <= SILENT
            or time.monotonic() < self._ask_clock_at
        ):
            return
        self._ask_clock_at = (
            time.monotonic() + 60.0
        )  # not with each view, if commands do not answer there
        try:
            done = await host.run(["date", "+%s"], timeout=_CLOCK_WAIT)
        except MachineError as error:
            raise RunError(
                f"the time of {host.name} is not known", why=error_sentence(error)
            ) from None
        self._compared = True
        with contextlib.suppress(ValueError):
            if 0.0 < (there := float(done.stdout)) < _LAST_TIME:
                self.ahead = now - there

    def node_silence(self, node: int, beat: float, clock: float) -> float:
        """Return the seconds since another node's heartbeat changed, by this computer's clock."""
        known = self._node_beats.get(node)
        if known is None or known[0] != beat:
            known = self._node_beats[node] = (beat, clock)
        return clock - known[1]

    def silence(self, beat: float, now: float, clock: float) -> float:
        """Return the seconds since the last heartbeat.

        After the first new heartbeat, they are measured by this computer's clock.

        Args:
            beat: Time of the last heartbeat, by the machine's clock.
            now: Current time on the machine.
            clock: A monotonic time on this computer.
        """
        if self._beat is None or self._beat[0] != beat:
            self._beat = (beat, clock, self._beat is not None)
        _, since, seen = self._beat
        return clock - since if seen else max(now - beat, clock - since, 0.0)


def trainer_settings(record: RunRecord) -> Mapping[str, Any]:
    """Return the settings of a run's trainer by name; none where they cannot be read."""
    from hudtui.core.runs.run_settings import settings_of

    try:
        return {one.label: one.value for one in settings_of(record)}
    except InputError:
        return {}


async def _next(chunks: AsyncIterator[FileChunk]) -> FileChunk | None:
    return await anext(chunks, None)


async def attach_command(monitor: Monitor, run: str) -> tuple[str, ...]:
    """Return the command that shows a run's tmux session on this terminal, wherever its machine is.

    A run that has just started gets its session with its first stage; this function waits for it.

    Args:
        monitor: Reads the run.
        run: The run's id.

    Raises:
        RunError: The run has no session.
        MachineError: The run's machine does not answer.
    """
    view, until = await monitor.view(run), time.monotonic() + _SESSION_COMES
    while (
        view.attach is None
        and view.summary.state == "running"
        and view.summary.stage is None
        and time.monotonic() < until
    ):
        await asyncio.sleep(0.1)
        view = await monitor.view(run)
    if view.attach is None:
        raise RunError(
            f"run {run} has no terminal: {view.no_terminal}", fix=f"hudtui runs logs {run}"
        )
    if view.summary.host == LOCAL:
        return view.attach
    from hudtui.core.remote.known_hosts import KnownHosts
    from hudtui.core.remote.ssh import ssh_argv

    host = view.summary.host
    await ensure_reachable(
        find_host(host), within=2 * PATIENCE
    )  # connects once, so that the machine's host key is known
    return ssh_argv(await asyncio.to_thread(find_target, host), KnownHosts(), view.attach)


async def acknowledge(
    view: RunView, store: RunStore, kinds: Collection[str] = (), *, undo: bool = False
) -> tuple[Alarm, ...]:
    """Acknowledge alarms of a run, or undo that.

    They stay listed, and count as new only when they come again.

    Args:
        view: The run with its alarms.
        store: The list of runs that keeps it.
        kinds: Only alarms of these kinds; by default all.
        undo: The alarms that are acknowledged are not acknowledged any more.

    Returns:
        The alarms for which this is a change.

    Raises:
        InputError: There is no such kind of alarm.
        RunError: The run does not exist, or the list cannot be written.
    """
    if wrong := [kind for kind in kinds if kind not in SIGNATURES]:
        raise InputError(
            f"there is no alarm {clean_line(wrong[0], 40)!r}",
            fix=f"The kinds are {', '.join(SIGNATURES)}.",
        )
    chosen = tuple(
        alarm
        for alarm in view.alarms
        if alarm.acknowledged is undo and (not kinds or alarm.kind in kinds)
    )
    if chosen:
        await store.run(
            store.acknowledge, view.summary.id, [alarm.key for alarm in chosen], undo=undo
        )
    return chosen
