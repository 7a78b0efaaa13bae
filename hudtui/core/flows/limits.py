"""The limits of a run: what they are, and changing them while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hudtui.core.compute.limits import Limits
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.provider import Provider
from hudtui.core.errors import InputError
from hudtui.core.flows.stop import rental
from hudtui.core.project import Project
from hudtui.core.remote.hosts import find_host
from hudtui.core.runs.launch import set_time_limit
from hudtui.core.runs.plan_text import limits_text
from hudtui.core.runs.remote_run import change_limits
from hudtui.core.runs.store import RunRecord, RunStore

HOURS = "max_hours"


@dataclass(frozen=True)
class RunLimits:
    """The limits of a run."""

    limits: Limits
    currency: str = "USD"
    names: tuple[str, ...] = (HOURS,)
    """The limits that can be changed, by their names in `Limits`: of a machine of the user's own,
    the time alone."""

    @property
    def text(self) -> str:
        """The limits in one line."""
        return limits_text(self.limits, self.currency)


async def limits_of(run: str, project: Project) -> RunLimits:
    """Return the limits of a run as they are now.

    Raises:
        RunError: The run does not exist.
    """
    return await asyncio.to_thread(lambda: _limits(project.runs.record(run), project.runs))


async def set_limits(
    run: str,
    project: Project,
    wishes: Mapping[str, str],
    *,
    providers: Mapping[str, Provider] | None = None,
    say: Callable[[str], None] | None = None,
) -> RunLimits:
    """Change the limits of a run, here and on its machine.

    Args:
        run: Id of the run.
        project: The project that keeps it.
        wishes: The new limits as typed, a number or a word for no limit, by their names in
            `Limits`; empty: nothing changes.
        providers: Providers by name; None opens them by the settings.
        say: Called with a message when a cancelled order has been cleaned up.

    Returns:
        The limits after the change.

    Raises:
        InputError: A limit is invalid, or cannot be set for this run.
        MachineError: The machine does not answer; see `remote_run.change_limits`.
        RunError: The run does not exist, or has ended.
        Untrusted: The user did not start this run.
    """
    record = await asyncio.to_thread(project.runs.record, run)
    found = await asyncio.to_thread(_limits, record, project.runs)
    if set(wishes) - set(found.names):
        raise InputError(
            f"run {record.id} is on a machine of your own",
            fix="Only --max-hours can be set for it.",
        )
    limits = found.limits
    for name, text in wishes.items():
        limits = limits.with_value(name, text)
    if wishes and record.spec.rent is None:
        await set_time_limit(record.id, find_host(record.host), project.runs, limits.max_hours)
    elif wishes:
        async with rental(record, project, providers=providers, say=say) as context:
            await change_limits(record.id, project.runs, context, limits)
    return RunLimits(limits, found.currency, found.names)


def _limits(record: RunRecord, store: RunStore) -> RunLimits:
    rent = record.spec.rent
    if rent is not None:
        limits = Ledger().limits(rent.machine) or record.spec.limits
        return RunLimits(limits, rent.currency, ("run_budget", HOURS, "idle_minutes"))
    hours = None if record.plan.max_seconds is None else record.plan.max_seconds / 3600
    for event in store.events(record.id):
        if event.type == "limits" and (
            event.data.get(HOURS) is None or isinstance(event.data[HOURS], int | float)
        ):
            hours = event.data.get(HOURS)  # it was changed while it ran
    return RunLimits(Limits(run_budget=None, day_budget=None, max_hours=hours, idle_minutes=None))
