"""Prepare a run from a request: `hudtui rl` and the screen Launch show the result.

The request and its files are read (`work`, `inputs`), its machine is chosen (`site`), everything it
needs is checked (`preflight`), and what was found becomes its spec (`resolve`), which the engine
plans.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.remote.host import LOCAL
from hudtui.core.remote.hosts import find_host, pod_host
from hudtui.core.runs.checks import Check, missing, refused, warning
from hudtui.core.runs.inputs import Inputs, read_inputs
from hudtui.core.runs.launch import draft_run
from hudtui.core.runs.preflight import check
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.resolve import resolve
from hudtui.core.runs.site import RunSite, choose_machine
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.work import Work, read_work
from hudtui.core.text import money
from hudtui.core.workspace import Workspace

if TYPE_CHECKING:
    from hudtui.core.compute.choose import OfferChoice
    from hudtui.core.compute.limits import Estimate
    from hudtui.core.compute.provider import Provider
    from hudtui.core.remote.host import Host
    from hudtui.core.runs.forecast import Forecast
    from hudtui.core.runs.inputs import Measurer
    from hudtui.core.runs.site import LookAt
    from hudtui.core.settings import Settings
    from hudtui.core.tasks.read import TaskReader


@dataclass(frozen=True)
class Preparation:
    """The checks of a request, and the run it would start."""

    checks: tuple[Check, ...]
    record: RunRecord | None = None
    """The run; None while something is missing."""
    choice: OfferChoice | None = None
    """The machine to rent, with the reasons for the choice."""
    estimate: Estimate | None = None
    """Cost of the rented machine until its limits."""
    forecast: Forecast | None = None
    """Expected time and cost of the training; None for rollouts and rehearsals."""
    work: Work | None = None
    inputs: Inputs = Inputs()  # noqa: RUF009 - frozen
    """The tasks and the configuration as they were read."""

    @property
    def missing(self) -> tuple[Check, ...]:
        """The checks that keep the run from starting."""
        return tuple(check for check in self.checks if check.state == "missing")

    def require(self) -> RunRecord:
        """Return the run.

        Raises:
            InputError: Requirements are missing; the error lists all of them.
        """
        if self.record is not None:
            return self.record
        lines = []
        for lack in self.missing:
            fix = f"  ->  {lack.fix}" if lack.fix else ""
            lines.append(f"{lack.name}: {lack.text}{fix}")
        raise InputError("this run cannot be started yet", why="\n  ".join(lines))


async def prepare_run(
    request: RunRequest,
    workspace: Workspace,
    settings: Settings,
    store: RunStore,
    *,
    providers: Mapping[str, Provider] | None = None,
    starts: bool = True,
    read: TaskReader | None = None,
    look_at: LookAt | None = None,
    measure: Measurer | None = None,
) -> Preparation:
    """Check everything that a run needs, and plan it.

    Rents nothing; writes at most a copy of the tasks into `.hudtui/`. Providers are opened
    according to the settings unless they are given. `starts` is False if the plan is only shown:
    the provider then need not know this computer's SSH key. `read` reads the tasks; pass the reader
    of an earlier plan to avoid reading an unchanged file again. `look_at` returns the hardware of a
    machine, and may cache it. `measure` knows the difficulties that the request may select tasks
    by.

    Raises:
        InputError: An option is invalid.
        Untrusted: The file with settings of the trainer names a judge that the user has not agreed
            to.
    """
    from hudtui.core.tasks.read import TaskReader

    folder, read = workspace.folder, read or TaskReader()
    work = await asyncio.to_thread(read_work, request, folder, settings)
    inputs = await asyncio.to_thread(read_inputs, work, workspace, settings, read, measure)
    if work.job is not None:
        work = replace(work, job=replace(work.job, opening=inputs.opening))
    site = await choose_machine(
        work, folder, settings, providers=providers, starts=starts, look_at=look_at
    )
    checks = await asyncio.to_thread(check, work, site, inputs, workspace, settings)
    seen = Preparation(checks.results, choice=site.choice, work=work, inputs=checks.inputs)
    if not checks.complete:
        return seen
    try:
        spec = await asyncio.to_thread(resolve, work, site, checks, workspace)
        host = find_host(site.host or LOCAL if spec.rent is None else pod_host(spec.rent.machine))
        record = await asyncio.to_thread(draft_run, spec, host, store)
        expected = await asyncio.to_thread(_forecast, record, site, store)
        room = await _disk_checks(record, site, host)
    except HudtuiError as error:
        return replace(seen, checks=(*checks.results, refused("plan", error)))
    results = (*checks.results, *room, *_cost_checks(expected))
    planned = None if room else record
    return replace(
        seen, checks=results, record=planned, estimate=_estimate(spec), forecast=expected
    )


async def _disk_checks(record: RunRecord, site: RunSite, host: Host) -> tuple[Check, ...]:
    """Check the disk space for the environment and the model.

    A machine that already has the environment passes.
    """
    if site.disk is None:
        return ()
    plan = record.plan
    sent = sum(file.size for file in plan.files) / 2**30
    made = next((stage.argv for stage in plan.stages if stage.name == "bootstrap"), ())
    wanted = float(made[made.index("--disk") + 1]) if "--disk" in made else 0.0
    if (
        wanted
        and not site.rented
        and await host.stat(f"{made[made.index('--venv') + 1]}/.hudtui") is not None
    ):
        wanted = 0.0
    if wanted + sent <= site.disk:
        return ()
    text = (
        f"this run needs about {wanted + sent:.0f} GiB of disk, and the machine has "
        f"{site.disk:.1f} free"
    )
    fix = (
        "Take a machine with a larger disk."
        if site.rented
        else "Make room there, or take another machine (--host)."
    )
    return (missing("disk", text, fix, remedy="choose-machine"),)


def _forecast(record: RunRecord, site: RunSite, store: RunStore) -> Forecast | None:
    from hudtui.core.runs.forecast import forecast

    gpus = site.hardware.gpus if site.hardware is not None else ()
    gpu = f"{record.spec.gpus} x {gpus[0].name}" if gpus else ""
    ends = site.seller is not None and site.seller.ends
    return forecast(record.spec, store, ends=ends, host=record.host, gpu=gpu)


def _cost_checks(expected: Forecast | None) -> tuple[Check, ...]:
    if expected is None or not expected.exceeds:
        return ()
    return (warning("cost", expected.text, "Raise --budget or --max-hours, or take fewer steps."),)


def _estimate(spec: RunSpec) -> Estimate | None:
    """Return the cost of a rented machine until its limits; None for a machine of the user's."""
    from hudtui.core.compute.limits import estimate

    if spec.rent is None:
        return None
    offer, limits = spec.rent.offer, spec.limits
    hours = 1.0 if limits.max_hours is None else limits.max_hours
    if limits.run_budget is not None and offer.price.hourly > 0:
        hours = min(
            hours, limits.run_budget / offer.price.hourly
        )  # the watchdog ends the machine at that time
    expected = estimate(offer, hours)
    if not spec.rehearse or not offer.price.stated:
        return expected
    part = money(offer.price.hourly / 4, offer.price.currency)
    text = f"a rehearsal takes minutes, and {part} a quarter of an hour; at most {expected.text}"
    return replace(expected, text=text)
