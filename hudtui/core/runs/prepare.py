"""Prepare a run from a request: checks, choice of a machine, plan. `hudtui rl` and the screen Launch show the result."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from hudtui.core.compute.gpus import is_meant, parse_spec
from hudtui.core.compute.limits import Limits, limits_from_settings
from hudtui.core.compute.owned_hosts import OwnedHost, offers_of
from hudtui.core.errors import HudtuiError, InputError, Location, MachineError
from hudtui.core.files import read_text
from hudtui.core.paths import typed_path
from hudtui.core.remote.hosts import LOCAL, POD_PREFIX, find_host, pod_host
from hudtui.core.runs.fit import GIB_PER_GB, Demand, find_demand
from hudtui.core.runs.judge import check_judge, require_judge
from hudtui.core.runs.launch import draft_run
from hudtui.core.runs.preflight import Check, PreflightReport, Remedy, check_environments, check_files, check_keys, check_model
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.spec import Rental, RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.text import clean_line, duration
from hudtui.core.training.engines import as_rehearsal, find_engine
from hudtui.core.training.memory import cpu_estimate
from hudtui.core.training.options import PLAYER, TRAINER, JobOptions
from hudtui.core.training.plan import FileRef, Plan, file_ref
from hudtui.core.training.recipe import Recipe, read_settings
from hudtui.core.workspace import Workspace

if TYPE_CHECKING:
    from hudtui.core.compute.choose import OfferChoice
    from hudtui.core.compute.fit import Fit
    from hudtui.core.compute.hardware import Hardware
    from hudtui.core.compute.limits import Estimate
    from hudtui.core.compute.provider import AuthError, Provider
    from hudtui.core.compute.values import Offer
    from hudtui.core.remote.host import Host
    from hudtui.core.runs.forecast import Forecast
    from hudtui.core.settings import Settings
    from hudtui.core.tasks.read import TaskReader

    LookAt = Callable[[str], Awaitable[Hardware]]

DEFAULT_GPU = "A100"
"""GPU for the training of a model of unknown size."""
_TURNS = 10
"""Number of replies per episode that an estimate assumes if no limit is set."""
REHEARSAL_STEPS = 3
"""Default number of steps of a rehearsal."""


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
        lines = [f"{check.name}: {check.text}" + (f"  ->  {check.fix}" if check.fix else "") for check in self.missing]
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
) -> Preparation:
    """Check everything that a run needs, and plan it. Rents nothing; writes at most a copy of the tasks into `.hudtui/`.

    Providers are opened according to the settings unless they are given. `starts` is False if the plan is only shown: the
    provider then need not know this computer's SSH key. `read` reads the tasks; pass the reader of an earlier plan to avoid
    reading an unchanged file again. `look_at` returns the hardware of a machine, and may cache it.

    Raises:
        InputError: An option is invalid.
        Untrusted: The file with settings of the trainer names a judge that the user has not agreed to.
    """
    if request.gpus is not None:
        parse_spec(request.gpus)
    await asyncio.to_thread(require_judge, request, settings)
    report = PreflightReport()
    for remark in request.remarks:
        report.add("training", "warning", remark)
    if read is None:
        from hudtui.core.tasks.read import TaskReader

        read = TaskReader()
    await asyncio.to_thread(check_files, request, workspace, settings, report, read)
    choice: OfferChoice | None = None
    estimate: Estimate | None = None
    provider: Provider | None = None
    machine: Hardware | None = None
    key: str | None = None
    host = request_host(request)
    limits = _limits(request, settings, report)
    demand = await asyncio.to_thread(_demand, request, workspace, report)
    await asyncio.to_thread(_check_engine, request, demand, workspace, report)
    if request.trains and demand is None:
        pass  # what machine the training needs is not known
    elif host is not None:
        machine = await _check_machine(host, request, demand, report, workspace.folder, look_at or look_at_machine)
    else:
        try:
            provider = await asyncio.to_thread(open_request_provider, request, settings, providers)
            choice = await _choose_offer(request, provider, demand, limits, report)
            if demand is not None:
                _check_memory(demand, demand.fit(choice.offer), report, rented=True)
            key = await _ssh_key(provider, settings, report) if starts else None
        except HudtuiError as error:
            _refuse_provider(request, error, settings, report)
        finally:
            if provider is not None and providers is None:
                await provider.close()
    remote = host != LOCAL
    await asyncio.to_thread(check_model, request, workspace, settings, report, remote=remote, rented=host is None)
    await asyncio.to_thread(check_environments, report, settings, remote=remote)
    check_keys(request, settings, report, remote=remote)
    await asyncio.to_thread(check_judge, request, settings, report, remote=remote)
    if report.missing or report.task_file is None or report.config is None:
        return Preparation(tuple(report.checks), None, choice)
    try:
        spec = await asyncio.to_thread(resolve, request, workspace, report, limits)
        spec = replace(spec, shape=None if demand is None else demand.shape)
        if host is None:
            assert choice is not None and provider is not None
            spec, estimate = await asyncio.to_thread(_with_rental, spec, request, choice.offer, provider, key, settings)
            assert spec.rent is not None
            target = find_host(pod_host(spec.rent.machine))
        else:
            spec = _with_machine(spec, request, machine)
            if demand is not None and spec.gpus:
                _check_memory(demand, demand.on_gpus(spec.gpus, spec.gpu_memory), report, rented=False)
            target = find_host(host)
        if request.rehearse:
            asked = parse_spec(request.gpus).count if request.gpus is not None else 0
            spec = as_rehearsal(spec, steps=request.steps or REHEARSAL_STEPS, gpus=asked)
            if remote:  # the Python in this computer's variable does not exist
                spec = replace(spec, trainer_python=request.python)
        record = await asyncio.to_thread(draft_run, spec, target, store)
        await _check_disk(record.plan, None if host is None else target, _disk(machine, choice), report)
        expected = await asyncio.to_thread(_forecast, record, store, provider, settings, machine)
    except HudtuiError as error:
        report.refuse("plan", error)
        return Preparation(tuple(report.checks), None, choice, estimate)
    if expected is not None and expected.exceeds:
        report.add("cost", "warning", expected.text, "Raise --budget or --max-hours, or take fewer steps.")
    return Preparation(tuple(report.checks), None if report.missing else record, choice, estimate, expected)


def resolve(
    request: RunRequest, workspace: Workspace, report: PreflightReport | None = None, limits: Limits | None = None
) -> RunSpec:
    """Turn a request into a spec. The workspace's only task file and only config are used if the request names none.

    If the user has typed a time limit, the hours in `limits` (of the rented machine) also limit the run.

    Raises:
        InputError: A file is missing or unreadable, several files are possible, or a setting is invalid.
    """
    found = report or PreflightReport()
    tasks = found.task_file or _file(workspace, request.tasks, workspace.task_files, "task file", "hudtui rl FILE")
    config = found.config or _file(workspace, request.config, workspace.configs, "config", "--config FILE")
    training = {} if request.training is None else read_settings(read_text(request.training), name=str(request.training))
    policy, _, trace = request.policy.partition(":")
    trains = request.features.trains
    name = config.stem if trains else f"{config.stem} {policy}"
    if request.rehearse:
        name = "rehearsal"
    elif trains and request.model:
        name = f"{config.stem} {request.model.rpartition('/')[2]}"
    code = _reward_code(config)
    return RunSpec(
        **{option.name: getattr(request, option.name) for option in fields(JobOptions)},
        engine=request.engine,
        name=request.name or name,
        workspace=str(workspace.folder),
        tasks=file_ref(tasks),
        config=file_ref(config),
        reward_file=code[0] if code else None,
        reward_modules=code[1:],
        model_files=tuple(file_ref(file) for file in found.model_files),
        policy_file=file_ref(trace) if policy == "replay" and trace else None,
        max_seconds=limits.max_hours * 3600 if request.limits and limits and limits.max_hours is not None else None,
        platform=workspace.platform.name,
        training={**training, **request.settings},
        trainer_python=request.python,
        continues=request.continues,
        secrets=tuple(dict.fromkeys(found.secrets)),
        variables=found.variables,
        tunnels=tuple(found.tunnels),
        remarks=tuple(found.remarks),
        output_dir=None if request.output_dir is None else str(typed_path(request.output_dir).absolute()),
        limits=limits or Limits(),
    )


def _file(workspace: Workspace, named: str | Path | None, found: Sequence[Path], what: str, option: str) -> Path:
    if named:
        return workspace.folder / typed_path(named)
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"there is no {what} in this workspace", fix=f"Name one: {option}.")
    names = ", ".join(workspace.relative(path) for path in found[:8])
    raise InputError(f"there are {len(found)} {what}s in this workspace", why=names, fix=f"Choose one: {option}.")


# --- machines -------------------------------------------------------------------------------------------------------------


def request_host(request: RunRequest) -> str | None:
    """Return the host to run on, or None for a machine to rent."""
    if request.host is not None:
        return request.host
    if request.provider == LOCAL:
        return LOCAL
    if request.offer is not None:
        return {"local": LOCAL, "ssh": request.offer.cloud_id}.get(request.offer.provider)
    return LOCAL if request.provider is None and not request.features.trains else None


class DefaultEngine(NamedTuple):
    """The engine of a run that names none."""

    name: str
    why: str
    """What about the machine decided, such as `that machine has GPUs`."""


async def default_engine(host: str | None) -> DefaultEngine:
    """Return the engine of a run that names none: the one that trains if its machine can, otherwise the one that plays.

    Without a host a machine will be rented. A machine that does not answer counts as one without a GPU.
    """
    if host is None:
        return DefaultEngine(TRAINER, "a machine that is rented trains")
    try:
        gpus = (await look_at_machine(host)).gpus
    except HudtuiError:
        return DefaultEngine(PLAYER, "that machine does not say whether it has a GPU")
    return DefaultEngine(TRAINER, "that machine has GPUs") if gpus else DefaultEngine(PLAYER, "that machine has no GPU")


async def look_at_machine(host: str) -> Hardware:
    """Return the hardware and software of a machine.

    Raises:
        MachineError: The machine cannot be reached, or has no Python.
    """
    from hudtui.core.compute.hardware import inspect

    return await inspect(find_host(host), python=sys.executable if host == LOCAL else "python3")


async def require_python(request: RunRequest, folder: Path) -> None:
    """Check that the Python of a request can be started on its machine, and has hudtui. Rented machines are not checked.

    A relative path starts in `folder` on this machine.

    Raises:
        InputError: The Python cannot be started, or does not have hudtui.
    """
    host = request_host(request)
    if host is None or request.python is None:
        return
    name = "this machine" if host == LOCAL else host
    asked = [request.python, "-c", "import hudtui"]
    no_python = f"{clean_line(request.python)} on {name} is not a Python with hudtui"
    fix = "Give another one (--python), or omit it to create an environment there."
    if "python" not in PurePosixPath(request.python).name:  # the path may be half typed: no other program is started
        raise InputError(no_python, fix=fix)
    try:
        cwd = str(folder) if host == LOCAL else None
        done = await find_host(host).run(asked, cwd=cwd, env={"PYTHONSAFEPATH": "1"}, timeout=120)
    except MachineError as error:
        raise InputError(f"{clean_line(request.python)} cannot be started on {name}", why=error.why, fix=fix) from None
    if not done.ok:
        why = clean_line(done.stderr.strip().rpartition("\n")[2], 300)
        raise InputError(no_python, why=why or None, fix=fix)


async def _check_machine(
    host: str, request: RunRequest, demand: Demand | None, report: PreflightReport, folder: Path, look_at: LookAt
) -> Hardware | None:
    from hudtui.core.compute.hardware import size

    try:
        found = await look_at(host)
    except HudtuiError as error:
        report.refuse("machine", error)
        return None
    gpus = f"{len(found.gpus)} x {found.gpus[0].name}" if found.gpus else "no GPU"
    name = "this machine" if host == LOCAL else host
    room = "" if host == LOCAL else f", {found.cpus} processors, {size(found.disk_free_bytes)} of disk free"
    report.add("machine", "fine", f"{name}: {gpus}{room}")
    try:
        await require_python(request, folder)
    except InputError as error:
        report.refuse("python", error)
    if host != LOCAL and not found.python:
        report.add("machine", "missing", f"{name} has no python3", "Install it there: the run's supervisor needs it.")
    if not found.program("tmux"):
        report.add("machine", "warning", f"{name} has no tmux: the stages run as detached processes, without windows")
    if (
        demand is not None
        and not found.gpus
        and _may_use_cpu(request, demand)
        and not await asyncio.to_thread(_has_paid_gpus, host)
    ):
        _check_cpu(name, found, demand, report)
    elif request.rehearse and request.rehearse_model and request.features.gpu == "usual":
        rehearsed = replace(request, model=None, training=None, settings={})
        _check_cpu(name, found, await asyncio.to_thread(find_demand, rehearsed, folder), report)
    elif request.trains and request.features.gpu != "unused" and not found.gpus:
        text = f"{name} has no visible GPU, and training needs one"
        fix = "Choose another machine"
        if request.features.rehearsal is not None:
            fix += f", or rehearse on the CPU: {request.features.command} --rehearse"
        report.add("machine", "missing", text, fix, remedy="choose-machine")
    return found


def _disk(machine: Hardware | None, choice: OfferChoice | None) -> float | None:
    """Return the free space on the machine's disk in GiB; None if unknown."""
    if machine is not None and machine.disk_free_bytes is not None:
        return machine.disk_free_bytes / 2**30
    return choice.offer.disk_gb * GIB_PER_GB if choice is not None and choice.offer.disk_gb else None


async def _check_disk(plan: Plan, host: Host | None, free: float | None, report: PreflightReport) -> None:
    """Check the disk space for the environment and the model, unless the machine already has the environment."""
    if free is None:
        return
    sent = sum(file.size for file in plan.files) / 2**30
    made = next((stage.argv for stage in plan.stages if stage.name == "bootstrap"), ())
    wanted = float(made[made.index("--disk") + 1]) if "--disk" in made else 0.0
    if wanted and host is not None and await host.stat(f"{made[made.index('--venv') + 1]}/.hudtui") is not None:
        wanted = 0.0
    if wanted + sent > free:
        text = f"this run needs about {wanted + sent:.0f} GiB of disk, and the machine has {free:.1f} free"
        fix = "Take a machine with a larger disk." if host is None else "Make room there, or take another machine (--host)."
        report.add("disk", "missing", text, fix, remedy="choose-machine")


def _may_use_cpu(request: RunRequest, demand: Demand) -> bool:
    """Return whether the training may run without a GPU: the user has named a model."""
    named = request.model is not None or demand.recipe.model != Recipe().model
    return request.trains and request.features.gpu == "usual" and named


def _has_paid_gpus(host: str) -> bool:
    """Return whether a machine was rented with GPUs: a training on its CPUs would pay for GPUs that it does not use."""
    from hudtui.core.compute.pods import Ledger

    record = Ledger().get(host.removeprefix(POD_PREFIX)) if host.startswith(POD_PREFIX) else None
    return record is not None and record.last_pod().gpu_count > 0


def _check_cpu(name: str, machine: Hardware, demand: Demand, report: PreflightReport) -> None:
    """Add the check of a training on a machine without a GPU: its memory, and the time of a step."""
    model = clean_line(demand.recipe.model, 80)
    if demand.shape is None:
        text = f"{name} has no GPU, and the size of {model} is unknown: on a CPU it may take long, or not fit into memory"
        report.add("memory", "warning", text)
        return
    found = cpu_estimate(demand.recipe, demand.shape, demand.recipe.max_turns or _TURNS)
    has = (machine.memory_bytes or 0) / 2**30
    free = (machine.memory_free_bytes or 0) / 2**30
    if machine.memory_bytes is not None and found.floor > has:
        text = f"{model} needs at least {found.floor:.0f} GiB of memory on a CPU, and {name} has {has:.0f}"
        report.add("memory", "missing", text, "Name a smaller model, or rent a machine with a GPU.", remedy="choose-machine")
        return
    took = f"roughly {duration(found.step_seconds)} per step, {duration(found.step_seconds * demand.recipe.steps)} in all"
    text = f"{model} is trained on the CPU of {name}; {took}, and {found.total:.0f} GiB of memory ({free:.0f} are free)"
    fix = None if found.total <= free else "Lower batch_size or max_seq_len, or close other programs."
    report.add("memory", "warning", text, fix)


def _with_machine(spec: RunSpec, request: RunRequest, machine: Hardware | None) -> RunSpec:
    gpus = len(machine.gpus) if machine is not None else 0
    memory = min((gpu.memory_mib / 1024 for gpu in machine.gpus if gpu.memory_mib), default=80.0) if machine else 80.0
    if request.gpus is not None and not request.rehearse:
        wanted = parse_spec(request.gpus)
        there = offers_of(machine, OwnedHost(LOCAL), LOCAL) if machine is not None else ()
        if wanted.count > sum(offer.gpu_count for offer in there if is_meant(wanted, offer)):
            has = ", ".join(f"{offer.gpu_count} x {offer.gpu_type}" for offer in there if offer.gpu_count) or "no GPU"
            raise InputError(f"{replace(wanted, counted=True)} asked for, and the machine has {has}")
        gpus = wanted.count
    fewest = 0 if request.trains and request.features.gpu == "usual" else 1  # trained on the CPU
    return replace(spec, gpus=max(gpus, fewest), gpu_memory=memory)


def open_request_provider(request: RunRequest, settings: Settings, providers: Mapping[str, Provider] | None) -> Provider:
    """Open the provider to rent from. Blocks while the demo's simulator starts.

    Raises:
        HudtuiError: See `registry.open_provider`.
    """
    from hudtui.core.compute.demo_simulator import ensure_simulator
    from hudtui.core.compute.registry import open_provider, usual_rental

    if providers is None:
        ensure_simulator(settings.get)
    name = request.offer.provider if request.offer is not None else request.provider or usual_rental(settings.get).name
    return open_provider(name, settings.get, providers=providers)


def _refuse_provider(request: RunRequest, error: HudtuiError, settings: Settings, report: PreflightReport) -> None:
    from hudtui.core.compute.provider import AuthError

    key = _key_of(request, error, settings) if isinstance(error, AuthError) else None
    if key is not None and settings.get(key) is None and settings.waits(key) is not None:
        report.lack(settings, key, ", and renting a machine needs it", check="machine")
        return
    remedy: Remedy | None = None if request.provider or request.offer else "choose-machine"
    if remedy is None and key is not None:
        report.refuse("machine", error, remedy="set-key", options=(key,))
    else:
        report.refuse("machine", error, remedy=remedy)


def _key_of(request: RunRequest, error: AuthError, settings: Settings) -> str | None:
    """Return the setting with the key of the provider that a machine is to be rented from."""
    from hudtui.core.compute.registry import rentals, usual_rental

    name = request.offer.provider if request.offer is not None else request.provider
    entry = usual_rental(settings.get) if name is None else rentals().get(name)
    return error.lacks or (None if entry is None else entry.key)


async def _choose_offer(
    request: RunRequest, provider: Provider, demand: Demand | None, limits: Limits, report: PreflightReport
) -> OfferChoice:
    from hudtui.core.compute.choose import OfferChoice
    from hudtui.core.compute.provider import find_offer

    by_user = ("you have chosen it",)
    if request.offer is not None:
        choice = OfferChoice(request.offer, by_user)
    elif not provider.features.paid:
        raise InputError(f"{provider.title} has machines of your own", fix="Choose one: --host user@host.")
    else:
        found = await provider.offers()
        for warning in found.warnings:
            report.add("machine", "warning", f"{provider.title}: {warning}")
        if request.offer_name is not None:
            offer = find_offer(found.found, request.offer_name)
            if offer is None:
                text = f"{provider.title} has no offer {clean_line(request.offer_name, 40)}"
                fix = "hudtui pods offers lists the current offers; with --gpus the cheapest is taken."
                raise InputError(text, why="Offers come and go.", fix=fix)
            choice = OfferChoice(offer, by_user)
        else:
            choice = _choose_of(_payable(found.found, limits), request, demand, found.found)
    report.add("machine", "fine", f"{provider.title}: {offer_text(choice.offer)}")
    if provider.features.simulated and request.trains:
        text = "simulated machines have no GPU: a training fails at the check of the GPUs"
        report.add("machine", "warning", text, "Rehearse it there (--rehearse), or play the tasks (--engine rollouts).")
    return choice


def _payable(offers: Sequence[Offer], limits: Limits) -> list[Offer]:
    """Return the offers without those that charge more in advance than the run may cost; all offers if none would remain."""
    if limits.run_budget is None:
        return list(offers)
    return [offer for offer in offers if offer.price.for_hours(0) <= limits.run_budget] or list(offers)


def _choose_of(offers: Sequence[Offer], request: RunRequest, demand: Demand | None, market: Sequence[Offer]) -> OfferChoice:
    """Choose an offer: for a training by fit, then by price; for other work, a machine without a GPU if possible.

    A spot machine is chosen only if it is requested, or for other work if every machine has a GPU. `market` has all offers.
    """
    from hudtui.core.compute.choose import choose, select
    from hudtui.core.compute.gpus import has_gpu
    from hudtui.core.compute.values import Query

    query = Query(spot=bool(request.spot), clouds=request.clouds, regions=request.regions)
    if demand is None:
        if request.gpus is not None:
            return choose(offers, spec=parse_spec(request.gpus), query=query, market=market)
        if any(not has_gpu(offer) for offer in offers):
            return choose(offers, spec=parse_spec("cpu"), query=query, market=market)
        return choose(offers, query=replace(query, spot=request.spot), market=market)
    gpus = request.gpus or (f"{demand.usual_gpus}x{DEFAULT_GPU}" if demand.shape is None else None)
    if gpus is not None:
        return choose(offers, spec=parse_spec(gpus), query=query, fit=demand.fit, market=market)
    usual = replace(query, gpu_count=demand.usual_gpus)
    if any(demand.fit(offer).holds for offer in select(offers, query=usual).found):
        query = usual
    return choose(offers, query=query, fit=demand.fit, market=market)


def offer_text(offer: Offer) -> str:
    """Describe an offer in one line."""
    from hudtui.core.compute.choose import price_text

    what = f"{offer.gpu_count} x {offer.gpu_type}" if offer.gpu_count else offer.gpu_type or "a machine"
    where = ", ".join(part for part in (offer.cloud, offer.data_center or offer.region, offer.country) if part)
    spot = ", spot: the provider can reclaim it at any time" if offer.spot else ""
    return clean_line(f"{what} at {price_text(offer.price)} an hour" + (f" ({where})" if where else "") + spot, 200)


def _with_rental(
    spec: RunSpec, request: RunRequest, offer: Offer, provider: Provider, key: str | None, settings: Settings
) -> tuple[RunSpec, Estimate]:
    from hudtui.core.compute.budget import RUN_TAIL, grant_new
    from hudtui.core.compute.lifecycle import unique_name
    from hudtui.core.compute.limits import estimate, money
    from hudtui.core.compute.pods import Ledger
    from hudtui.core.compute.watchdog import terminate_rule
    from hudtui.core.runs.remote_run import WATCHDOG_ENDS, WATCHDOG_POWERS_OFF

    limits = spec.limits
    # A run that exceeds the day's budget is refused here, before any question; the ledger checks again when it is rented.
    grant_new("", offer.price, provider.endpoint, limits, tail=RUN_TAIL)(Ledger().records(alive=False))
    rent = Rental(
        provider=provider.name,
        machine=unique_name(spec.name),
        offer=offer,
        hourly=offer.price.hourly,
        currency=offer.price.currency,
        ssh_key=key,
        keep_on_failure=request.keep_on_failure,
        simulated=provider.features.simulated,
    )
    hours = 1.0 if limits.max_hours is None else limits.max_hours
    if limits.run_budget is not None and offer.price.hourly > 0:
        hours = min(hours, limits.run_budget / offer.price.hourly)  # the watchdog ends the machine at that time
    expected = estimate(offer, hours)
    if request.rehearse and offer.price.stated:
        part = money(offer.price.hourly / 4, offer.price.currency)
        expected = replace(expected, text=f"a rehearsal takes minutes, and {part} a quarter of an hour; at most {expected.text}")
    ends = terminate_rule(provider, rent.machine, settings.get) is not None
    spec = replace(
        spec,
        rent=rent,
        gpus=max(offer.gpu_count, 1),
        gpu_memory=(offer.gpu_memory or 80.0) * GIB_PER_GB,
        max_seconds=None,  # the watchdog enforces the time, and accepts changed limits
        remarks=(*spec.remarks, WATCHDOG_ENDS if ends else WATCHDOG_POWERS_OFF),
    )
    return spec, expected


def _forecast(
    record: RunRecord, store: RunStore, provider: Provider | None, settings: Settings, machine: Hardware | None
) -> Forecast | None:
    from hudtui.core.compute.watchdog import terminate_rule
    from hudtui.core.runs.forecast import forecast

    rent = record.spec.rent
    ends = rent is not None and provider is not None and terminate_rule(provider, rent.machine, settings.get) is not None
    gpus = machine.gpus if machine is not None else ()
    gpu = f"{record.spec.gpus} x {gpus[0].name}" if gpus else ""
    return forecast(record.spec, store, ends=ends, host=record.host, gpu=gpu)


async def _ssh_key(provider: Provider, settings: Settings, report: PreflightReport) -> str | None:
    """Return the provider's id of this computer's SSH key."""
    from hudtui.core.compute.ssh_key import find_registered, key_path, read_key

    if provider.features.brings_ssh_key:
        return None
    path = key_path(settings.get)
    if path is None:
        fix = "Create one: hudtui pods keys create. Or set its path: hudtui pods keys set-path FILE"
        report.add("keys", "missing", "there is no SSH key to log in with", fix, remedy="make-key")
        return None
    try:
        mine = await asyncio.to_thread(read_key, path)
        known = await provider.keys()
    except HudtuiError as error:
        report.refuse("keys", error)
        return None
    found = find_registered(mine, known)
    if found is None:
        text, fix = f"{provider.title} does not know the SSH key {path}", "Register it: hudtui pods keys register"
        report.add("keys", "missing", text, fix, remedy="register-key", options=(str(path),))
        return None
    return found.id


def _reward_code(config: Path) -> tuple[FileRef, ...]:
    """Return the files with the code of the configuration's own reward, the named file first; empty without one."""
    from hudtui.core.gym.config import parse_config
    from hudtui.core.rollouts.reward import reward_files

    read, _ = parse_config(read_text(config), name=str(config))
    if read is None or not read.reward:
        return ()
    files = reward_files(read)
    if not files:
        raise InputError(
            f"{read.reward}, which scores the episodes, does not exist on the machine of a run",
            fix="Put the code into a file in the configuration's folder: rubric.reward: FILE.py:NAME.",
            where=Location(str(config)),
        )
    return tuple(file_ref(file) for file in files)


def _limits(request: RunRequest, settings: Settings, report: PreflightReport) -> Limits:
    try:
        limits = limits_from_settings(settings)
    except InputError as error:
        if request.limits:
            raise
        report.refuse("machine", error)
        return Limits()
    for name, text in request.limits.items():
        limits = limits.with_value(name, text)
    return limits


# --- memory ---------------------------------------------------------------------------------------------------------------


def _demand(request: RunRequest, workspace: Workspace, report: PreflightReport) -> Demand | None:
    """Return the demand of the training; None for other work, or for invalid settings, which are reported."""
    if not request.trains:
        return None
    try:
        return find_demand(request, workspace.folder)
    except InputError as error:
        report.refuse("training", error)
        return None


def _check_engine(request: RunRequest, demand: Demand | None, workspace: Workspace, report: PreflightReport) -> None:
    """Add what the engine itself cannot carry out of a training or a rehearsal."""
    if demand is None and request.rehearse:
        with contextlib.suppress(InputError):  # the plan reports it
            demand = find_demand(request, workspace.folder)
    if demand is None:
        return
    for error in find_engine(request.engine).check(request, demand.recipe):
        report.refuse("training", error)


def _check_memory(demand: Demand, fit: Fit, report: PreflightReport, *, rented: bool) -> None:
    """Add the check of the GPUs' memory."""
    if fit.state == "unknown":
        return  # a note of the plan reports it
    if fit.state == "fits":
        report.add("memory", "fine", fit.why)
    elif fit.hopeless and rented:
        report.add("memory", "missing", f"{fit.why} The model does not fit.", demand.advice, remedy="choose-machine")
    else:
        report.add("memory", "warning", f"{fit.why} It may run out of memory.", demand.advice)
