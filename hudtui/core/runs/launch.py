"""Starting, stopping and removing runs. Once started, a run continues without hudtui.

Every step can be repeated: existing files are not changed, and the machine starts a run only once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import secrets
import shutil
import socket
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from hudtui.core.errors import HudtuiError, MachineError, RunError
from hudtui.core.paths import app_paths
from hudtui.core.plain import to_plain
from hudtui.core.process import machine_label
from hudtui.core.python import isolated_python_command
from hudtui.core.remote.host import LOCAL, Host
from hudtui.core.remote.hosts import find_host, find_target
from hudtui.core.runs.again import remove_unused
from hudtui.core.runs.run_folder import MachineEvents, RunFolder, peers_of
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.values import RunEvent, RunSummary
from hudtui.core.text import clean_line, failure_text
from hudtui.core.training.engines import find_engine
from hudtui.core.training.package_data import NAME as WHEEL_NAME
from hudtui.core.training.package_data import PACKAGE_FOLDER, wheel_bytes
from hudtui.core.training.plan import WHEELS, Plan, PlanFile, Site, node_folder

Lookup = Callable[[str], str | None]
"""Returns the value of a setting by its name, such as `Settings.get`."""

_IN_MEMORY = 16 * 1024 * 1024
"""Largest size in bytes of a file that is read into memory before it is sent to a machine."""
_RUNS_THERE = PurePosixPath(".hudtui/runs")
"""Folder of the runs on a machine behind SSH."""
_ENDS_ALONE = 20.0
"""Seconds in which the other nodes end by themselves after node 0."""
_SAY_EVERY = 2.0
"""Seconds between two reports of how much of a large file was sent."""
_SHORTEST_SECRET = 6
"""Smallest length of a secret that is searched for in a plan; a shorter value may occur there by
chance."""


def draft_run(spec: RunSpec, host: Host, store: RunStore) -> RunRecord:
    """Plan a run. Nothing is stored or started. Reads the store and files: call it in a thread.

    Raises:
        InputError: The engine does not exist, or the spec is incomplete.
    """
    run = store.new_id(spec.name)
    local = host.name == LOCAL
    folder = str(store.folder.absolute() / run) if local else f".hudtui/runs/{run}"
    if local:
        environments = str(app_paths().data / "environments")
        site = Site(
            folder,
            (sys.executable,),
            spec.workspace,
            environments=environments,
            package=str(PACKAGE_FOLDER),
        )
    else:
        site = Site(folder, ("python3",))
    plan = find_engine(spec.engine).plan(spec, site)
    plan = replace(plan, notes=(*plan.notes, *spec.remarks))
    return RunRecord(
        run, time.time(), spec.name, spec.engine, host.name, machine_label(), folder, spec, plan
    )


async def launch(
    spec: RunSpec | RunRecord,
    host: Host,
    store: RunStore,
    *,
    lookup: Lookup | None = None,
    tmux: bool = True,
) -> AsyncGenerator[RunEvent, None]:
    """Start a run, and yield its events.

    The iterator ends when the machine has taken over; the run continues without hudtui. Leaving the
    iterator early interrupts the launch; `reconcile_runs` continues it. The first event names the
    run. `lookup` returns the values of the plan's secrets. Without `tmux` the processes are
    detached even if the machine has tmux.

    Raises:
        InputError: The spec cannot be planned.
        RunError: A secret is missing, or the store cannot be written.
        MachineError: A step failed; the run is kept as failed, with the reason.
    """
    record = (
        spec
        if isinstance(spec, RunRecord)
        else await asyncio.to_thread(draft_run, spec, host, store)
    )
    values = _secrets(record.plan, lookup)
    yield await store.run(store.add, record)
    async with contextlib.aclosing(
        continue_launch(record.id, host, store, lookup=values.get, tmux=tmux)
    ) as events:
        async for event in events:
            yield event


def _secrets(plan: Plan, lookup: Lookup | None) -> dict[str, str]:
    """Return the values of a plan's secrets. None of them may occur in the plan itself."""
    found, missing = {}, []
    for name in plan.secrets:
        value = lookup(name) if lookup else None
        if value:
            found[name] = value
        else:
            missing.append(name)
    if missing:
        raise RunError(
            f"this run needs {', '.join(missing)}",
            fix="Set it in .env, in the environment, or in the Settings.",
        )
    text = json.dumps(to_plain(plan))
    for name, value in found.items():
        if len(value) >= _SHORTEST_SECRET and json.dumps(value)[1:-1] in text:
            raise RunError(
                f"the plan of this run contains the value of {name}, where others could read it"
            )
    return found


async def continue_launch(
    run: str,
    host: Host,
    store: RunStore,
    *,
    lookup: Lookup | None = None,
    tmux: bool = True,
    reports: MachineEvents | None = None,
) -> AsyncGenerator[RunEvent, None]:
    """Do the remaining steps of a launch; each step is an event.

    `lookup` and `tmux` are as for `launch`; `reports` are the events of the machine, for a caller
    that reads on.

    Raises:
        Untrusted: The user did not start this run.
    """
    record, stored = await store.run(lambda: (store.own_record(run), store.events(run)))
    machine = RunFolder(host, record)
    reports = reports or MachineEvents(machine, store, stored)
    peers = peers_of(record)
    try:
        if not await machine.begun():
            # Node 0 comes last: its plan is the sign that the whole run may be started.
            for node in (*peers, machine):
                async with contextlib.aclosing(_send_files(node, store)) as events:
                    async for event in events:
                        yield event
            if peers:
                await introduce(machine, peers)
            for node in (*peers, machine):
                if planned := await _send_plan(node, store, tmux=tmux):
                    yield planned
        for peer in peers:  # before node 0, whose start is that of the run
            await peer.start(_secrets(machine.record.plan, lookup))
        began = time.monotonic()
        await machine.start(_secrets(machine.record.plan, lookup))
        if step := await _step(store, run, "supervisor", began):
            yield step
        until = time.monotonic() + 10.0
        while True:
            try:
                reported = await reports.read()
            except MachineError:
                break  # the run has started and continues; its followers read the events again
            for event in reported:
                yield event
            if (
                time.monotonic() >= until
                or (await store.run(store.summary, run)).started is not None
            ):
                break
            await asyncio.sleep(0.02)
    except HudtuiError as error:
        if isinstance(error, RunError):
            raise
        why = [error_sentence(error)]
        if peers and not await _has_begun(machine):
            text = "the run could not be started on all nodes"
            left = await stop_peers(peers, grace=None, why=text)
            if record.spec.rent is None:  # rented ones end with their cluster
                why += left
        if failed := await store.run(store.append, run, "failed", {"why": "; ".join(why)}):
            yield failed
        raise


async def _send_files(machine: RunFolder, store: RunStore) -> AsyncGenerator[RunEvent, None]:
    """Make a node's folder, and send the run's files to it."""
    run, first = machine.record.id, machine.node == 0
    began = time.monotonic()
    await machine.make_folder()
    if first and (event := await _step(store, run, "folder", began)):
        yield event
    began = time.monotonic()
    for file in machine.record.plan.files:
        content = await asyncio.to_thread(_content, file)
        if isinstance(content, bytes):
            await machine.host.put(content, machine.path(file.path))
            continue
        async with contextlib.aclosing(_send(machine, store, content, file)) as events:
            async for event in events:
                yield event
    if machine.record.plan.wheel:
        await machine.host.put(
            await asyncio.to_thread(wheel_bytes), machine.path(WHEELS, WHEEL_NAME)
        )
    if first:
        event = await _step(store, run, "files", began)
    else:
        text = f"{machine.title} has the run's files"
        event = await store.run(store.append, run, "note", {"message": text}, once=text)
    if event:
        yield event


async def _send_plan(machine: RunFolder, store: RunStore, *, tmux: bool) -> RunEvent | None:
    """Send a node its supervisor and its plan: from then on it can be started."""
    began = time.monotonic()
    await machine.put_supervisor(tmux=tmux)
    return None if machine.node else await _step(store, machine.record.id, "plan", began)


async def _send(
    machine: RunFolder, store: RunStore, content: Path, file: PlanFile
) -> AsyncGenerator[RunEvent, None]:
    """Send a large file. Parts that an earlier attempt has sent are not sent again."""
    there = await machine.host.stat(machine.path(file.path))
    if there is not None and there.size == file.size:
        return  # the file appears there completely or not at all
    sent = 0

    def note(done: int, _: int) -> None:
        nonlocal sent
        sent = done

    sending = asyncio.create_task(
        machine.host.upload(content, machine.path(file.path), progress=note)
    )
    try:
        while not sending.done():
            await asyncio.wait([sending], timeout=_SAY_EVERY)
            tenth = 10 if sending.done() else 10 * sent // max(file.size, 1)
            text = (
                f"{clean_line(PurePosixPath(file.path).name, 60)}: {tenth}0 % of "
                f"{file.size / 2**20:,.0f} MiB sent"
            )
            if machine.node:
                text += f" to {machine.title}"
            if tenth and (
                event := await store.run(
                    store.append, machine.record.id, "note", {"message": text}, once=text
                )
            ):
                yield event
        await sending
    finally:
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError, HudtuiError):
            await sending


async def introduce(machine: RunFolder, peers: Sequence[RunFolder]) -> None:
    """Tell each node of a run which one it is, and where node 0 may be reached.

    All get the same key. It stays the same when an interrupted launch is continued.

    Raises:
        MachineError: A machine does not answer, or node 0 has no address.
    """
    about = await _introduced(machine)
    if about is None:
        addresses, port = await _meeting_place(machine)
        hosts = [machine.host.name, *(peer.host.name for peer in peers)]
        key = secrets.token_hex(32)
        about = {"hosts": hosts, "addresses": addresses, "port": port, "key": key}
    for node in (machine, *peers):
        text = json.dumps({**about, "rank": node.node})
        await node.host.put(text.encode(), node.path("nodes.json"), mode=0o600)


async def _introduced(machine: RunFolder) -> dict[str, Any] | None:
    """Return what an earlier attempt has told node 0."""
    if await machine.host.stat(machine.path("nodes.json")) is None:
        return None
    with contextlib.suppress(ValueError):
        found = json.loads(await machine.host.get(machine.path("nodes.json"), limit=65536))
        if isinstance(found, dict) and found.get("key"):
            return found
    return None


async def _meeting_place(machine: RunFolder) -> tuple[list[str], int]:
    """Return the addresses of node 0 to try, and its port for the other nodes.

    The addresses are its own ones, then the one that SSH uses. Machines that SSH reaches on this
    computer may be several on it, as simulated ones are: their port is any that is free.

    Raises:
        MachineError: It does not answer, or has no free port.
    """
    if machine.host.name == LOCAL:
        return ["127.0.0.1"], free_port()
    done = await machine.host.run(
        isolated_python_command(machine.python, machine.path("nodes.py"), "addresses"), timeout=60
    )
    words = done.stdout.split()
    own = [word for word in words if _ADDRESS.fullmatch(word)]
    ports = [int(word) for word in words if _PORT.fullmatch(word)]
    if not ports:
        raise MachineError(
            f"{machine.title} does not say at which port the other nodes can meet it",
            why=failure_text(done.stderr),
        )
    target = await asyncio.to_thread(find_target, machine.host.name)
    own = own[:_ADDRESSES]
    if target.host in _LOOPBACK:
        return list(dict.fromkeys((target.host, *own))), free_port()
    return list(dict.fromkeys((*own, target.host))), ports[0]


_ADDRESS = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
_PORT = re.compile(r"\d{4,5}")
_ADDRESSES = 16
_LOOPBACK = ("127.0.0.1", "localhost")


def free_port() -> int:
    """Return a port of this machine that no program listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _has_begun(machine: RunFolder) -> bool:
    """Return whether the supervisor of node 0 may have started; True where nobody knows."""
    try:
        return await machine.begun()
    except MachineError:
        return True


async def stop_peers(
    peers: Sequence[RunFolder], *, grace: float | None, why: str | None
) -> tuple[str, ...]:
    """Stop the nodes of a run beside node 0, and wait until nothing of them is left.

    Returns:
        Sentences about those that may still run.
    """

    async def stop(peer: RunFolder) -> str | None:
        try:
            async with asyncio.timeout(_patience(peer, grace)):
                return await _stop_peer(peer, grace, why)
        except TimeoutError:
            return f"{peer.title} did not end in time"
        except MachineError as error:
            return f"{peer.title} may still run: {error_sentence(error)}"

    sentences = await asyncio.gather(*map(stop, peers))
    return tuple(sentence for sentence in sentences if sentence)


async def end_peers(record: RunRecord) -> tuple[str, ...]:
    """Make sure that a run that has ended on node 0 ends on the others.

    They get some seconds to end by themselves, because node 0 tells them, and are stopped then. One
    that does not answer is not waited for.

    Returns:
        Sentences about those that may still run.
    """
    peers = peers_of(record)
    silences = await asyncio.gather(*map(_silence, peers))
    silent = tuple(sentence for sentence in silences if sentence)
    open_peers = [peer for peer, why in zip(peers, silences, strict=True) if not why]
    until = time.monotonic() + _ENDS_ALONE
    while open_peers and time.monotonic() < until:
        for peer in tuple(open_peers):
            with contextlib.suppress(MachineError):
                status = await peer.status()
                if status.supervisor is None and status.ended:
                    open_peers.remove(peer)
        await asyncio.sleep(0.5 if open_peers else 0.0)
    left = await stop_peers(open_peers, grace=None, why="the run has ended on node 0")
    return (*silent, *left)


async def _silence(peer: RunFolder) -> str | None:
    """Return a sentence about a node that does not answer; None about one that does."""
    try:
        await peer.ensure_answers()
    except MachineError as error:
        return f"{peer.title} may still run: {error_sentence(error)}"
    return None


async def _stop_peer(peer: RunFolder, grace: float | None, why: str | None) -> str | None:
    if not await peer.begun():
        if await peer.host.stat(peer.folder) is not None:  # its supervisor may be about to start
            wish = json.dumps({"why": "stopped before it started"})
            await peer.host.put(wish.encode(), peer.path("stop.json"))
        if not await peer.begun():
            return None
    await peer.request_stop(grace, why)
    pause = 0.05
    while True:
        status = await peer.status()
        if status.supervisor is None and not (status.processes or status.stages):
            return None
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.5)


def _patience(machine: RunFolder, grace: float | None) -> float:
    """Return the seconds that a node may take to end."""
    stages = [stage for stage in machine.record.plan.stages if stage.node == machine.node]
    allowed = sum(stage.grace if grace is None else grace for stage in stages)
    return allowed + 8.0 * len(stages) + 30.0


async def check_inputs(plan: Plan, lookup: Lookup | None) -> None:
    """Check that this computer has everything that a plan needs.

    The check comes before anything is sent to a machine.

    Raises:
        RunError: A secret is missing.
        MachineError: A file is missing, or was changed after the plan was made.
    """
    _secrets(plan, lookup)
    for file in plan.files:
        await asyncio.to_thread(_content, file)


async def _step(store: RunStore, run: str, name: str, began: float) -> RunEvent | None:
    data = {"name": name, "seconds": round(time.monotonic() - began, 4)}
    return await store.run(store.append, run, "step", data, once=f"step:{name}")


def _content(file: PlanFile) -> bytes | Path:
    """Return the content of a file for the run's folder.

    For a large file, such as a checkpoint, its path.
    """
    if file.source is None:
        return file.text
    path = Path(file.source.path)
    try:
        with path.open("rb") as stream:
            data = stream.read() if file.source.size <= _IN_MEMORY else None
            digest = (
                hashlib.file_digest(stream, "sha256").hexdigest()
                if data is None
                else hashlib.sha256(data).hexdigest()
            )
    except OSError as error:
        raise MachineError(
            f"{file.source.path} can no longer be read", why=error.strerror
        ) from None
    if digest != file.source.sha256:
        raise MachineError(
            f"{file.source.path} was changed after this run was planned", fix="Start the run again."
        )
    return path if data is None else data


def error_sentence(error: HudtuiError) -> str:
    """Return what happened and why, in one line."""
    return f"{error.what}: {error.why}" if error.why else error.what


async def stop_run(
    run: str, host: Host, store: RunStore, *, grace: float | None = None, why: str | None = None
) -> RunSummary:
    """Stop a run and verify that none of its processes is left.

    A run that has ended stays as it is.

    `grace` is the time in seconds between SIGTERM and SIGKILL, by default that of the plan; `why`
    is the reason, if the stop was not requested by the user.

    Raises:
        MachineError: The machine does not answer, or a process of the run is left.
        Untrusted: The user did not start this run.
    """
    machine = RunFolder(host, await store.run(store.own_record, run))
    peers = peers_of(machine.record)
    stopping = asyncio.create_task(stop_peers(peers, grace=grace, why=why))
    try:
        summary = await _stop_first(machine, store, grace=grace, why=why)
        remaining = await stopping
    except MachineError as error:
        remaining = await stopping
        if not remaining:
            raise
        text = "; ".join((error_sentence(error), *remaining))
        raise MachineError(f"run {run} may still run on its nodes", why=text) from None
    finally:
        stopping.cancel()  # where this was cancelled
    if remaining:
        raise MachineError(f"run {run} has ended on node 0 alone", why="; ".join(remaining))
    return summary


async def _stop_first(
    machine: RunFolder, store: RunStore, *, grace: float | None, why: str | None
) -> RunSummary:
    """Stop a run on its machine, or on its node 0; see `stop_run`."""
    run, host = machine.record.id, machine.host
    with contextlib.suppress(RunError):
        await machine.sync(store)
    summary = await store.run(store.summary, run)
    if not summary.active and summary.state != "lost":
        return summary
    with contextlib.suppress(RunError):  # a full disk must not prevent the stop
        await store.run(
            store.append, run, "stop_requested", {"grace": grace}, once="stop_requested"
        )
    if not await machine.begun():
        summary = await store.run(store.summary, run)
        if summary.started is not None:
            return summary  # the folder is gone, and so is the supervisor
        # If it is being launched, the supervisor finds the request when it starts.
        if await host.stat(machine.record.folder) is not None:
            await host.put(
                json.dumps({"why": "stopped before it started"}).encode(), machine.path("stop.json")
            )
        if not await machine.begun():
            with contextlib.suppress(RunError):
                await store.run(store.append, run, "stopped", {"why": "stopped before it started"})
            return await store.run(store.summary, run)
    await machine.request_stop(grace, why)
    patience = _patience(machine, grace)
    pause, until = 0.05, time.monotonic() + patience
    while (left := await _left(machine, store)) is not None:
        if time.monotonic() > until:
            if not (await machine.status()).processes:
                raise MachineError(
                    f"run {run} has ended, but its end could not be recorded",
                    why="Perhaps the disk is full.",
                )
            raise MachineError(f"run {run} did not end within {patience:.0f} s", why=left)
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.5)
    return await store.run(store.summary, run)


async def set_time_limit(run: str, host: Host, store: RunStore, hours: float | None) -> None:
    """Change the time limit of a run, in hours from its start; None for no limit.

    Raises:
        MachineError: The machine does not answer.
        RunError: The run has ended.
        Untrusted: The user did not start this run.
    """
    if not (await store.run(store.summary, run)).active:
        raise RunError(f"run {run} has ended")
    record = await store.run(store.own_record, run)
    limits = {"max_seconds": None if hours is None else hours * 3600}
    for node in (*peers_of(record), RunFolder(host, record)):
        await node.host.put(json.dumps(limits).encode(), node.path("limits.json"), mode=0o600)
    await store.run(store.append, run, "limits", {"max_hours": hours})


async def remove_run(run: str, store: RunStore, *, keep_results: bool = False) -> tuple[str, ...]:
    """Remove an ended run.

    Its folder on its machine, its files on this computer, and its place in the list.

    `keep_results` keeps the files on this computer.

    Returns:
        Sentences that describe what was removed.

    Raises:
        RunError: The run has not ended, or its rented machine may still exist.
        MachineError: The machine does not answer, and nothing is removed; or a file here cannot be
            removed.
        Untrusted: The user did not start this run.
    """
    record, summary = await store.run(lambda: (store.own_record(run), store.summary(run)))
    if summary.active or summary.holds_machine:
        raise RunError(
            f"run {run} has not ended, or its machine may still be there",
            fix=f"hudtui runs stop {run}",
        )
    gone = []
    for node, name in enumerate((record.host, *record.spec.peers)):
        there = PurePosixPath(node_folder(record.folder, node))
        if name != LOCAL and record.spec.rent is None and there.parent == _RUNS_THERE:
            done = await find_host(name).run(["rm", "-rf", "--", str(there)], timeout=600)
            if not done.ok:
                raise MachineError(
                    f"{there} on {name} could not be removed", why=clean_line(done.stderr, 300)
                )
            gone.append(f"removed {there} on {name}")
    for node in range(record.plan.nodes):
        here = Path(node_folder(str(store.folder / run), node))
        if keep_results or not here.is_dir():
            continue
        try:
            await asyncio.to_thread(shutil.rmtree, here)
        except OSError as error:
            raise MachineError(f"{here} could not be removed", why=str(error)) from None
        gone.append(f"removed {here}")
    await store.run(store.append, run, "removed", once="removed")
    await asyncio.to_thread(remove_unused, store, of=record)
    return (*gone, f"run {run} is no longer listed")


async def _left(machine: RunFolder, store: RunStore) -> str | None:
    """Return a sentence about the parts of a run that have not ended; None if all have ended.

    Raises:
        MachineError: All have ended, and the store cannot be written.
    """
    try:
        await machine.sync(store)
    except RunError as error:
        status = await machine.status()
        if status.ended and not (status.processes or status.stages):
            text = f"run {machine.record.id} has ended, but its end could not be recorded"
            raise MachineError(text, why=error.what, fix=error.fix) from None
        return "the run is still ending"
    if (await store.run(store.summary, machine.record.id)).active:
        return "the run is still ending"
    status = await machine.status()
    if status.processes or status.stages:
        return (
            "these processes are still running: "
            f"{', '.join(map(str, status.processes)) or ', '.join(status.stages)}"
        )
    if status.supervisor is not None:
        return "the run's supervisor is still running"
    return None


def available_secrets(plan: Plan, lookup: Lookup | None) -> Mapping[str, str]:
    """Return the secrets of a plan that are set.

    A restarted supervisor may no longer need all of them.
    """
    return {name: value for name in plan.secrets if lookup and (value := lookup(name))}
