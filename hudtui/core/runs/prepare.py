"""What somebody wants to run, turned into a plan on a machine: the core of `hudtui rl` and the screen Launch."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.files import read_text
from hudtui.core.remote.hosts import LOCAL, find_host, pod_host
from hudtui.core.runs.launch import draft_run, make_spec
from hudtui.core.runs.preflight import (
    Check,
    PreflightReport,
    Remedy,
    RunRequest,
    check_environments,
    check_files,
    check_keys,
    check_model,
)
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.text import clean_line
from hudtui.core.training.engine import as_rehearsal
from hudtui.core.training.memory import layout, needs
from hudtui.core.training.plan import Rental, RunSpec
from hudtui.core.training.recipe import Recipe, read_settings, recipe_for, recipe_from
from hudtui.core.workspace import Workspace

if TYPE_CHECKING:
    from hudtui.core.compute.choose import OfferChoice
    from hudtui.core.compute.gpus import GpuSpec
    from hudtui.core.compute.hardware import Hardware
    from hudtui.core.compute.limits import Estimate, Limits
    from hudtui.core.compute.provider import Provider
    from hudtui.core.compute.values import Offer
    from hudtui.core.settings import Settings
    from hudtui.core.training.memory import GpuMemory

__all__ = ["Check", "Preparation", "RunRequest", "offer_text", "prepare_run"]

DEFAULT_GPUS = "2xA100"
"""What a training is given where nothing was said: one GPU serves the model, the other trains."""
_REHEARSED = 3
"""Steps of a rehearsal where nothing was said."""


GIB_OF_A_GB = 1e9 / 2**30
"""Offers count GB, and drivers GiB: a card that is sold as 48 GB may tell of 45."""
_SURELY = 4 / 3
"""What is needed is an estimate, good to about a third: from here on it does not fit, whatever the estimate lacks."""


@dataclass(frozen=True)
class Preparation:
    """A wish that was looked at."""

    checks: tuple[Check, ...]
    record: RunRecord | None = None
    """The run as it would be started; None while something is missing."""
    choice: OfferChoice | None = None
    """The machine that would be rented, and why this one."""
    estimate: Estimate | None = None

    @property
    def missing(self) -> tuple[Check, ...]:
        """What keeps it from starting."""
        return tuple(check for check in self.checks if check.state == "missing")


async def prepare_run(
    wish: RunRequest,
    workspace: Workspace,
    settings: Settings,
    store: RunStore,
    *,
    providers: Mapping[str, Provider] | None = None,
    starts: bool = True,
) -> Preparation:
    """Look at everything that a run needs, and plan it. Rents nothing; writes at most a copy of the tasks into `.hudtui/`.

    Args:
        wish: What is asked for.
        workspace: The project.
        settings: Its settings.
        store: Where its runs are kept.
        providers: Who can be asked for machines; found by the settings when None.
        starts: False where the plan is only read: the machine need not know the key of this computer.

    Raises:
        InputError: An option makes no sense.
    """
    seen = PreflightReport()
    await asyncio.to_thread(check_files, wish, workspace, settings, seen)
    choice: OfferChoice | None = None
    estimate: Estimate | None = None
    provider: Provider | None = None
    machine: Hardware | None = None
    key: str | None = None
    host = wish.host or (LOCAL if wish.provider == LOCAL else None)
    limits = _limits(wish, settings, seen)
    if host is None and wish.provider is None and wish.offer is None and wish.engine == "rollouts":
        host = LOCAL
    if host is None and wish.offer is not None and wish.offer.provider in ("local", "ssh"):
        host = LOCAL if wish.offer.provider == "local" else wish.offer.id
    if host is not None:
        machine = await _look_at_machine(host, wish, seen)
    else:
        try:
            provider = await asyncio.to_thread(_provider, wish, settings, providers)
            choice = await _look_at_market(wish, provider, seen)
            key = await _ssh_key(provider, settings, seen) if starts else None
        except HudtuiError as error:
            _refuse_market(wish, error, seen)
        finally:
            if provider is not None and providers is None:
                await provider.close()
    remote = host != LOCAL
    await asyncio.to_thread(check_model, wish, workspace, seen, remote=remote, rented=host is None)
    await asyncio.to_thread(check_environments, seen, settings, remote=remote)
    check_keys(wish, settings, seen, remote=remote)
    if seen.missing or seen.task_file is None or seen.config is None:
        return Preparation(tuple(seen.checks), None, choice)
    try:
        spec = await asyncio.to_thread(_spec, wish, workspace, seen, limits)
        if choice is not None and provider is not None:
            spec, estimate = _rented(spec, wish, choice.offer, provider, key, limits, settings)
            target = find_host(pod_host(spec.rent.machine)) if spec.rent is not None else find_host(LOCAL)
        else:
            assert host is not None
            spec = _on_machine(spec, wish, machine)
            target = find_host(host)
        if wish.rehearse:
            spec = replace(as_rehearsal(spec, steps=wish.steps or _REHEARSED), trainer_python=wish.python)
        record = await asyncio.to_thread(draft_run, spec, target, store)
        check_fit(spec, seen)
    except HudtuiError as error:
        seen.refuse("plan", error)
        return Preparation(tuple(seen.checks), None, choice, estimate)
    return Preparation(tuple(seen.checks), None if seen.missing else record, choice, estimate)


# --- machines -------------------------------------------------------------------------------------------------------------


async def _look_at_machine(host: str, wish: RunRequest, seen: PreflightReport) -> Hardware | None:
    from hudtui.core.compute.hardware import inspect, size

    try:
        found = await inspect(find_host(host), python=sys.executable if host == LOCAL else "python3")
    except HudtuiError as error:
        seen.refuse("machine", error)
        return None
    gpus = f"{len(found.gpus)} x {found.gpus[0].name}" if found.gpus else "no GPU"
    name = "this machine" if host == LOCAL else host
    room = "" if host == LOCAL else f", {found.cpus} processors, {size(found.disk_free_bytes)} of disk free"
    seen.add("machine", "fine", f"{name}: {gpus}{room}")
    if host != LOCAL and not found.python:
        seen.add("machine", "missing", f"{name} has no python3", "Install it there: the run's supervisor needs it.")
    if not found.program("tmux"):
        seen.add("machine", "warning", f"{name} has no tmux: the stages run as detached processes, without windows")
    if wish.engine == "trl" and not found.gpus and not wish.rehearse:
        seen.add(
            "machine",
            "missing",
            f"{name} has no GPU that can be seen, and training needs one",
            "Choose another machine, or rehearse for nothing: hudtui rl --rehearse",
            remedy="choose-machine",
        )
    return found


def _provider(wish: RunRequest, settings: Settings, providers: Mapping[str, Provider] | None) -> Provider:
    """Who a machine is rented from. Blocks while the demo's simulator starts."""
    from hudtui.core.compute.demo_simulator import ensure_simulator
    from hudtui.core.compute.registry import open_provider

    if providers is None:
        ensure_simulator(settings.get)
    name = wish.offer.provider if wish.offer is not None else wish.provider or "prime"
    return open_provider(name, settings.get, providers=providers)


def _refuse_market(wish: RunRequest, error: HudtuiError, seen: PreflightReport) -> None:
    """Take note that no machine can be had, with what can be offered about it."""
    from hudtui.core.compute.provider import AuthError

    remedy: Remedy | None = None if wish.provider or wish.offer else "choose-machine"
    if remedy is None and isinstance(error, AuthError):
        seen.refuse("machine", error, remedy="set-key", options=("PRIME_API_KEY",))
    else:
        seen.refuse("machine", error, remedy=remedy)


async def _look_at_market(wish: RunRequest, provider: Provider, seen: PreflightReport) -> OfferChoice:
    from hudtui.core.compute.choose import OfferChoice, choose
    from hudtui.core.compute.gpus import has_gpu, parse_spec
    from hudtui.core.compute.values import Query

    if wish.offer is not None:
        choice = OfferChoice(wish.offer, ("it was chosen by you",))
    else:
        if not provider.features.paid:
            raise InputError(f"{provider.title} has machines of your own", fix="Name one: --host user@host.")
        text = wish.gpus or (None if wish.engine == "rollouts" or wish.rehearse else DEFAULT_GPUS)
        spec = parse_spec(text) if text else None
        found = await provider.offers(Query())
        if wish.offer_name is None:
            found = replace(found, found=suitable_offers(found.found, wish, spec))
        if spec is None and found.found and not any(map(has_gpu, found.found)):
            spec = parse_spec("cpu")
        for warning in found.warnings:
            seen.add("machine", "warning", f"{provider.title}: {warning}")
        if wish.offer_name is not None:
            choice = OfferChoice(_named_offer(found.found, wish.offer_name, provider), ("it was chosen by you",))
        else:
            query = Query(spot=False if spec else None, clouds=wish.clouds, regions=wish.regions)
            choice = choose(found.found, spec=spec, query=query)
    seen.add("machine", "fine", f"{provider.title}: {offer_text(choice.offer)}")
    if provider.features.simulated and wish.engine != "rollouts" and not wish.rehearse:
        text = "simulated machines have no GPU: a training ends at the look at it"
        seen.add("machine", "warning", text, "Rehearse it there (--rehearse), or play the tasks (--engine rollouts).")
    return choice


def _named_offer(offers: Sequence[Offer], name: str, provider: Provider) -> Offer:
    from hudtui.core.compute.provider import find_offer

    found = find_offer(offers, name)
    if found is None:
        fix = "hudtui gpus lists what there is now; --gpus takes the cheapest."
        raise InputError(f"{provider.title} has no offer {clean_line(name, 40)}", why="Offers come and go.", fix=fix)
    return found


def offer_text(offer: Offer) -> str:
    """An offer in one line."""
    from hudtui.core.compute.choose import price_text

    what = f"{offer.gpu_count} x {offer.gpu_type}" if offer.gpu_count else offer.gpu_type or "a machine"
    where = ", ".join(part for part in (offer.cloud, offer.data_center or offer.region, offer.country) if part)
    spot = ", spot: it can be taken away at any moment" if offer.spot else ""
    return clean_line(f"{what} at {price_text(offer.price)} an hour" + (f" ({where})" if where else "") + spot, 200)


def _rented(
    spec: RunSpec, wish: RunRequest, offer: Offer, provider: Provider, key: str | None, limits: Limits, settings: Settings
) -> tuple[RunSpec, Estimate]:
    from hudtui.core.compute.budget import RUN_TAIL, grant_new
    from hudtui.core.compute.lifecycle import unique_name
    from hudtui.core.compute.limits import estimate, money
    from hudtui.core.compute.pods import Ledger
    from hudtui.core.compute.watchdog import terminate_rule
    from hudtui.core.runs.remote_run import WATCHDOG_ENDS, WATCHDOG_POWERS_OFF, offer_to_json

    # What the day's budget has no room for is refused before anybody is asked; the ledger asks again when it is rented.
    grant_new("", offer.price, provider.endpoint, limits, tail=RUN_TAIL)(Ledger().records(alive=False))
    rent = Rental(
        provider=provider.name,
        machine=unique_name(spec.name),
        offer=offer_to_json(offer),
        hourly=offer.price.hourly,
        currency=offer.price.currency,
        ssh_key=key,
        keep_on_failure=wish.keep_on_failure,
        simulated=provider.features.simulated,
    )
    hours = 1.0 if limits.max_hours is None else limits.max_hours
    if limits.run_budget is not None and offer.price.hourly > 0:
        hours = min(hours, limits.run_budget / offer.price.hourly)  # the guard ends it then
    expected = estimate(offer, hours)
    if wish.rehearse and offer.price.stated:
        part = money(offer.price.hourly / 4, offer.price.currency)
        expected = replace(expected, text=f"a rehearsal takes minutes, and {part} a quarter of an hour; at most {expected.text}")
    spec = replace(
        spec,
        rent=rent,
        gpus=max(offer.gpu_count, 1),
        gpu_memory=(offer.gpu_memory or 80.0) * GIB_OF_A_GB,
        limits=limits.to_json(),
        max_seconds=None,  # the guard holds the time, and can be told another one
        remarks=(
            *spec.remarks,
            WATCHDOG_POWERS_OFF if terminate_rule(provider, rent.machine, settings.get) is None else WATCHDOG_ENDS,
        ),
    )
    return spec, expected


async def _ssh_key(provider: Provider, settings: Settings, seen: PreflightReport) -> str | None:
    """The provider's id of the key that this computer logs in with."""
    from hudtui.core.compute.ssh_key import key_path, read_key

    if provider.features.brings_ssh_key:
        return None
    path = key_path(settings.get)
    if path is None:
        fix = "Make one: hudtui keys create. Or name it: hudtui keys set-path FILE"
        seen.add("keys", "missing", "there is no SSH key to log in with", fix, remedy="make-key")
        return None
    try:
        mine = await asyncio.to_thread(read_key, path)
        known = await provider.keys()
    except HudtuiError as error:
        seen.refuse("keys", error)
        return None
    words = mine.public_key.split()[:2]
    found = next((key for key in known if key.public_key.split()[:2] == words), None)
    if found is None:
        text = f"{provider.title} does not know the SSH key {path}"
        seen.add("keys", "missing", text, "Make it known: hudtui keys register", remedy="register-key", options=(str(path),))
        return None
    return found.id


def _on_machine(spec: RunSpec, wish: RunRequest, machine: Hardware | None) -> RunSpec:
    gpus = len(machine.gpus) if machine is not None else 0
    memory = min((gpu.memory_mib / 1024 for gpu in machine.gpus if gpu.memory_mib), default=80.0) if machine else 80.0
    if wish.gpus is not None:
        from hudtui.core.compute.gpus import parse_spec

        wanted = parse_spec(wish.gpus).count
        if wanted > gpus:
            raise InputError(f"{wanted} GPUs are asked for, and the machine has {gpus}")
        gpus = wanted
    return replace(spec, gpus=max(gpus, 1), gpu_memory=memory)


def _limits(wish: RunRequest, settings: Settings, seen: PreflightReport) -> Limits:
    from hudtui.core.compute.limits import Limits, limits_from_settings

    if wish.limits is not None:
        return wish.limits
    try:
        return limits_from_settings(settings)
    except InputError as error:
        seen.refuse("machine", error)
        return Limits()


def _spec(wish: RunRequest, workspace: Workspace, seen: PreflightReport, limits: Limits) -> RunSpec:
    training: Mapping[str, Any] = {}
    if wish.training is not None:
        training = read_settings(read_text(wish.training), name=str(wish.training))
    training = {**training, **wish.settings}
    spec = make_spec(
        workspace,
        engine=wish.engine,
        tasks=seen.task_file,
        config=seen.config,
        policy=wish.policy,
        name=wish.name or (None if wish.engine == "rollouts" else _name(wish, seen)),
        group=wish.group,
        concurrency=wish.concurrency,
        limit=wish.limit,
        seed=wish.seed,
        max_turns=wish.max_turns,
        base_url=wish.base_url,
        max_seconds=None if wish.limits is None or limits.max_hours is None else limits.max_hours * 3600,
    )
    return replace(
        spec,
        model=wish.model,
        steps=wish.steps,
        training=training,
        trainer_python=wish.python,
        secrets=tuple(dict.fromkeys(seen.secrets)),
        variables=seen.variables,
        tunnels=tuple(seen.tunnels),
        remarks=tuple(seen.remarks),
        output_dir=None if wish.output_dir is None else str(wish.output_dir.expanduser().absolute()),
    )


def _name(wish: RunRequest, seen: PreflightReport) -> str:
    stem = seen.config.stem if seen.config else "run"
    if wish.rehearse:
        return "rehearsal"
    return f"{stem} {wish.model.rpartition('/')[2]}" if wish.model else stem


# --- memory ----------------------------------------------------------------------------------------------------------------


def suitable_offers(offers: Sequence[Offer], wish: RunRequest, spec: GpuSpec | None) -> tuple[Offer, ...]:
    """The offers that are worth choosing from.

    For a training those whose GPUs hold the model, where any of the kind that is asked for does; for work without a GPU (a
    rehearsal, rollouts) where none was asked for, machines without one, where there are any. Else all of them.
    """
    from hudtui.core.compute.gpus import has_gpu

    if wish.engine == "rollouts" or wish.rehearse:
        bare = tuple(offer for offer in offers if not has_gpu(offer))
        return bare if spec is None and bare else tuple(offers)
    good = tuple(offer for offer in offers if _holds(offer, wish))
    return good if good and _any(good, spec) else tuple(offers)


def _holds(offer: Offer, wish: RunRequest) -> bool:
    if not offer.gpu_count or offer.gpu_memory is None:
        return False
    try:
        values = {} if wish.training is None else dict(read_settings(read_text(wish.training), name=str(wish.training)))
        if wish.model is not None:
            values["model"] = wish.model
        if wish.max_turns is not None:
            values["max_turns"] = wish.max_turns
        found = _needs(recipe_from(values), offer.gpu_count, offer.gpu_memory * GIB_OF_A_GB)
    except InputError:
        return False
    return found is not None and max(need.total for need in found) <= offer.gpu_memory * GIB_OF_A_GB


def _any(offers: Sequence[Offer], spec: GpuSpec | None) -> bool:
    from hudtui.core.compute.choose import select
    from hudtui.core.compute.values import Query

    try:
        return bool(select(offers, spec=spec, query=Query(spot=False)).found)
    except InputError:  # none of the kind
        return False


def _needs(recipe: Recipe, gpus: int, gpu_memory: float) -> tuple[GpuMemory, ...] | None:
    return needs(layout(gpus, recipe, gpu_memory), recipe)


def check_fit(spec: RunSpec, seen: PreflightReport) -> None:
    """Compare what the model needs with what the GPUs have. On a rented machine what cannot fit is refused."""
    if spec.engine != "trl" or spec.rehearse:
        return
    found = _needs(recipe_for(spec), spec.gpus, spec.gpu_memory)
    if found is None:
        return  # the size of the model is not known, which the plan says
    worst = max(found, key=lambda need: need.total)
    told = f"GPU {worst.gpu} ({worst.role}) needs about {worst.total:.0f} GiB and has {spec.gpu_memory:.0f}"
    fix = "Take larger GPUs (--gpus), more of them, a smaller model, or lower batch_size or max_seq_len (--training FILE)."
    if worst.total <= spec.gpu_memory:
        seen.add("memory", "fine", told)
    elif worst.total <= spec.gpu_memory * _SURELY or spec.rent is None:
        seen.add("memory", "warning", f"{told}: it may run out of memory", fix)
    else:
        seen.add("memory", "missing", f"{told}: the model does not fit", fix, remedy="choose-machine")
