"""Stopping a run, and ending the machine that was rented for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from hudtui.core.compute.demo_simulator import ensure_simulator
from hudtui.core.compute.provider import Provider
from hudtui.core.errors import MachineError
from hudtui.core.events import Progress
from hudtui.core.flows.person import Person
from hudtui.core.project import Project
from hudtui.core.remote.hosts import find_host
from hudtui.core.runs.launch import end_peers, stop_run
from hudtui.core.runs.remote_run import RentalContext, end_remote_run, open_rental_context
from hudtui.core.runs.results import Progress as FetchProgress
from hudtui.core.runs.store import RunRecord
from hudtui.core.runs.values import RunSummary
from hudtui.core.settings import machine_prefixes
from hudtui.core.text import clean_line


@dataclass(frozen=True)
class Stopped:
    """A run after its end."""

    summary: RunSummary
    report: str
    """State of the run and of its machine, in one sentence."""


async def stop(
    run: str,
    project: Project,
    person: Person,
    *,
    now: bool = False,
    providers: Mapping[str, Provider] | None = None,
    progress: FetchProgress | None = None,
    on_event: Callable[[Progress], None] | None = None,
) -> Stopped | None:
    """Ask, then stop a run, fetch its results and end the machine that was rented for it.

    Args:
        run: Id of the run.
        project: The project that keeps it.
        person: The user. Is not asked about a run of which nothing is left.
        now: Do not wait for the run to end by itself.
        providers: Providers by name; None opens them by the settings.
        progress: Called while results are fetched.
        on_event: Told when the user has agreed.

    Returns:
        The run after its end; None if the user declines.

    Raises:
        HudtuiError: See `end`.
    """
    store = project.runs
    summary, record = await asyncio.to_thread(lambda: (store.summary(run), store.record(run)))
    name = _name(summary)
    if not summary.active and not summary.holds_machine:
        if record.spec.rent is None and (remaining := await end_peers(record)):
            raise MachineError(f"{name} has ended on node 0 alone", why="; ".join(remaining))
        return Stopped(summary, f"{name} has ended already: {summary.state}.")
    rented = "Its results are fetched, and its machine is ended."
    if summary.active:
        left = rented if record.spec.rent is not None else "The log and the results stay."
        lines = (
            "Its processes are ended, "
            f"{'at once' if now else 'first with SIGTERM, then with SIGKILL'}.",
            left,
        )
        agreed = await person.confirm(
            f"Stop {name}?", lines, yes="Stop", no="Let it run", danger=True
        )
    else:
        agreed = await person.confirm(
            f"End the machine of {name}?", (rented,), yes="End it", no="Not now", danger=True
        )
    if not agreed:
        return None
    if on_event is not None:
        on_event(Progress("stop", f"Stopping {name}"))
    return await end(run, project, now=now, providers=providers, progress=progress, say=person.say)


async def end(
    run: str,
    project: Project,
    *,
    now: bool = False,
    providers: Mapping[str, Provider] | None = None,
    progress: FetchProgress | None = None,
    say: Callable[[str], None] | None = None,
) -> Stopped:
    """Stop a run without a question; see `stop`. `say` receives a sentence about what it waits for.

    Raises:
        MachineError: The machine does not answer, a process of the run is left, or the end of the
            rented machine could not be verified.
        RunError: A hudtui that manages the run does not cancel the order of its machine, or end it,
            in time.
        Untrusted: The user did not start this run.
    """
    store = project.runs
    record, grace = await store.run(store.record, run), 0.0 if now else None
    if record.spec.rent is None:
        summary = await stop_run(run, find_host(record.host), store, grace=grace)
    else:
        async with rental(record, project, providers=providers, say=say) as context:
            summary = await end_remote_run(run, store, context, grace=grace, progress=progress)
    return Stopped(summary, _report(summary, record))


@asynccontextmanager
async def rental(
    record: RunRecord,
    project: Project,
    *,
    providers: Mapping[str, Provider] | None = None,
    say: Callable[[str], None] | None = None,
) -> AsyncIterator[RentalContext]:
    """Open the provider that a run's machine is rented from, for as long as this is open.

    Args:
        record: The run.
        project: The project, whose settings have the provider's key.
        providers: Providers by name, which stay open; None opens the provider by the settings, and
            closes it.
        say: See `RentalContext.say`.

    Raises:
        HudtuiError: See `open_rental_context`.
        Untrusted: The user has not agreed to settings of machines.
    """
    settings = await asyncio.to_thread(project.settings)
    if providers is None:
        settings.require_trust(*machine_prefixes())
        await asyncio.to_thread(ensure_simulator, settings.get)
    context = await asyncio.to_thread(
        open_rental_context, record, settings, providers=providers, say=say
    )
    try:
        yield context
    finally:
        if providers is None:
            await context.provider.close()


def _name(summary: RunSummary) -> str:
    return f"run {summary.id} ({clean_line(summary.name, 60)})"


def _report(summary: RunSummary, record: RunRecord) -> str:
    """What is left of a run. A machine that is not known to be gone is never called ended."""
    what = f"{_name(summary)} is {summary.state}"
    rent = record.spec.rent
    if rent is None:
        return f"{what}; none of its processes is running."
    if summary.holds_machine:
        return (
            f"{what}; its machine is KEPT and still costs money: hudtui pods terminate "
            f"{rent.machine}"
        )
    if summary.machine != "released":
        return f"{what}; no machine was created for it."
    return f"{what}; its machine is ended, and that was verified."
