"""Bring the run store in line with the machines after any process was killed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from hudtui.core.errors import HudtuiError, MachineError
from hudtui.core.events import Notice
from hudtui.core.process import is_this_machine
from hudtui.core.remote import tmux
from hudtui.core.remote.host import LOCAL, Host
from hudtui.core.remote.hosts import answering, find_host
from hudtui.core.runs.launch import Lookup, available_secrets, continue_launch, error_sentence
from hudtui.core.runs.remote_run import may_have_begun
from hudtui.core.runs.run_folder import RunFolder, peers_of
from hudtui.core.runs.run_lock import is_managed
from hudtui.core.runs.store import RunStore
from hudtui.core.runs.values import RunSummary
from hudtui.core.text import money

FRESH = 15 * 60.0
"""Age in seconds up to which an interrupted launch is continued automatically; later the user
decides."""
_ANSWERS = 10.0
"""Seconds to wait for a machine's answer."""


async def reconcile_runs(
    store: RunStore,
    *,
    hosts: Callable[[str], Host | None] = find_host,
    lookup: Lookup | None = None,
    now: Callable[[], float] = time.time,
) -> tuple[Notice, ...]:
    """Bring the run store in line with the machines. Every hudtui calls this at its start.

    An active run stays as it is. A killed supervisor is started again, and continues the run or
    records its end. An interrupted launch is continued if it is recent, and otherwise recorded as
    failed.
    """

    async def one(summary: RunSummary) -> Notice | None:
        try:
            return await _reconcile(summary, store, hosts, lookup, now())
        except HudtuiError as error:
            return Notice("warning", f"run {summary.id}: {error_sentence(error)}")

    own, others = await store.run(_open_runs, store)
    notices = [notice for notice in await asyncio.gather(*map(one, own)) if notice]
    if others:
        told = f"{', '.join(others[:5])}{f' and {len(others) - 5} more' if len(others) > 5 else ''}"
        text = (
            f"not started here by you, and not touched: {told}. `hudtui trust --show` lists what "
            "they would do"
        )
        notices.append(Notice("warning", text))
    return tuple(notices)


def _open_runs(store: RunStore) -> tuple[list[RunSummary], list[str]]:
    """Return the user's runs that may change or cost money, and the ids of such runs of others."""
    runs = [run for run in store.runs() if run.active or run.holds_machine or run.state == "lost"]
    own = [run for run in runs if store.is_own(run.id)]
    return own, [run.id for run in runs if run not in own]


async def _reconcile(
    summary: RunSummary,
    store: RunStore,
    hosts: Callable[[str], Host | None],
    lookup: Lookup | None,
    now: float,
) -> Notice | None:
    host = hosts(summary.host)
    run, record = summary.id, await store.run(store.record, summary.id)
    if host is None:
        return Notice(
            "warning", f"run {run} is on {summary.host}, which cannot be reached from here"
        )
    if record.host == LOCAL and not is_this_machine(record.machine):
        await RunFolder(host, record).sync(
            store
        )  # the folder is shared, but the processes run on another computer
        return Notice(
            "info", f"run {run} was started on {record.machine.partition(' ')[0]}; open it there"
        )
    if record.spec.rent is not None:
        return await _look_at_rented(summary, RunFolder(host, record), store, now)
    machine = RunFolder(host, record)
    within = None if host.name == LOCAL else _ANSWERS  # this computer answers, however loaded it is
    async with answering(host.name, within=within):
        await machine.sync(store)
        begun = await machine.begun()
    summary = await store.run(store.summary, run)
    if not begun:
        return await _unbegun(summary, machine, store, lookup, now)
    if not summary.active and summary.state != "lost":
        return None
    try:
        async with asyncio.timeout(within):
            status = await machine.status()
    except TimeoutError:  # its files may answer all the same
        raise MachineError(
            f"the supervisor on {host.name} did not answer within {_ANSWERS:g} s"
        ) from None
    if status.supervisor is None and not status.ended:
        await machine.start(available_secrets(record.plan, lookup))
        notice: Notice | None = Notice(
            "info", f"run {run}: its supervisor had ended, and was started again"
        )
    else:
        notice = None
    await machine.sync(store)
    if status.ended and status.session:
        await tmux.close_detached(host, machine.session)
    return await _look_at_peers(machine, hosts, lookup) or notice


async def _look_at_peers(
    machine: RunFolder, hosts: Callable[[str], Host | None], lookup: Lookup | None
) -> Notice | None:
    """Start the killed supervisors of the other nodes of a run again.

    They continue, or record the end of their part.
    """
    record, words = machine.record, []
    for peer in peers_of(record, hosts):
        try:
            async with answering(peer.host.name, within=_ANSWERS):
                status = await peer.status()
                if status.supervisor is None and status.status is not None and not status.ended:
                    await peer.start(available_secrets(record.plan, lookup))
                    words.append(f"the supervisor of {peer.title} had ended, and was started again")
                if status.ended and status.session:
                    await tmux.close_detached(peer.host, peer.session)
        except MachineError as error:
            words.append(f"{peer.title} may still run: {error_sentence(error)}")
    return Notice("warning", f"run {record.id}: {'; '.join(words)}") if words else None


async def _look_at_rented(
    summary: RunSummary, machine: RunFolder, store: RunStore, now: float
) -> Notice | None:
    """Read the state only: the process that manages the run does the remaining steps.

    Returns None while a process manages it.
    """
    if is_managed(store, summary.id):
        return None
    if summary.active and summary.machine == "none":
        return await _unordered(summary, store, now)
    if not summary.final and may_have_begun(summary, await store.run(store.events, summary.id)):
        with contextlib.suppress(MachineError):
            async with answering(machine.host.name, within=_ANSWERS):
                await machine.sync(store)
    return open_machine_notice(await store.run(store.summary, summary.id))


async def _unordered(summary: RunSummary, store: RunStore, now: float) -> Notice | None:
    """Record the end of a run that has asked for no machine.

    A process that may be about to ask for one keeps the run going.
    """
    run = summary.id
    if summary.state == "stopping":
        await store.run(store.append, run, "stopped", {"why": "stopped before it started"})
        return None
    if now - summary.updated <= FRESH:
        return Notice(
            "warning",
            f"run {run} has no machine yet: hudtui runs resume {run} rents one, hudtui runs stop "
            f"{run} cancels the run",
        )
    await store.run(
        store.append, run, "failed", {"why": "hudtui ended before a machine was requested"}
    )
    return Notice(
        "warning", f"run {run} was never started: hudtui ended before a machine was requested"
    )


async def _unbegun(
    summary: RunSummary, machine: RunFolder, store: RunStore, lookup: Lookup | None, now: float
) -> Notice | None:
    """Continue, or record as failed, a run that its machine has never started."""
    run = summary.id
    if summary.started is not None:
        if summary.state != "lost":
            await store.run(
                store.append, run, "lost", {"why": f"its folder is gone: {machine.record.folder}"}
            )
            return Notice("warning", f"run {run} is lost: its folder is gone")
        return None
    if summary.state == "lost":
        return None
    if summary.state == "stopping":
        await store.run(store.append, run, "stopped", {"why": "stopped before it started"})
        return None
    if now - summary.updated > FRESH:
        await store.run(
            store.append, run, "failed", {"why": "hudtui ended before this run had started"}
        )
        return Notice("warning", f"run {run} was never started: hudtui ended before that")
    async for _ in continue_launch(run, machine.host, store, lookup=lookup):
        pass
    return Notice("info", f"run {run} was being started when hudtui ended; it is running")


def open_machine_notice(summary: RunSummary) -> Notice:
    """Return the notice about a run on a rented machine that no process manages."""
    price = (
        f", which costs {money(summary.hourly, summary.currency)} an hour" if summary.hourly else ""
    )
    if summary.active:
        return Notice(
            "info",
            f"run {summary.id} is on a rented machine{price}: hudtui runs resume {summary.id} "
            "manages it",
        )
    return Notice(
        "warning",
        f"run {summary.id} has ended ({summary.state}), and its "
        f"machine{price + ',' if price else ''} may still be there: hudtui runs resume "
        f"{summary.id} fetches the results and ends it",
    )
