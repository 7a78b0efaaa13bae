"""The machine of a run: the one that the user names, or an offer to rent.

Nothing is rented here.
"""

from __future__ import annotations

import asyncio
import re
import socket
import sys
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from hudtui.core.compute.gpus import CPU, GpuSpec, is_meant
from hudtui.core.compute.owned_hosts import OwnedHost, offers_of
from hudtui.core.errors import HudtuiError, InputError, MachineError
from hudtui.core.remote.host import LOCAL
from hudtui.core.remote.hosts import find_host, find_target, pod_of
from hudtui.core.runs.checks import Check, Remedy, fine, lacking, missing, refused, warning
from hudtui.core.runs.demand import GIB_PER_GB, Demand
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.work import Work
from hudtui.core.text import clean_line, duration, plural
from hudtui.core.training.memory import cpu_estimate
from hudtui.core.training.options import PLAYER, TRAINER
from hudtui.core.training.recipe import Recipe

if TYPE_CHECKING:
    from hudtui.core.compute.choose import OfferChoice
    from hudtui.core.compute.fit import Fit
    from hudtui.core.compute.hardware import Hardware
    from hudtui.core.compute.limits import Limits
    from hudtui.core.compute.provider import AuthError, Provider
    from hudtui.core.compute.values import Offer
    from hudtui.core.settings import Settings

    LookAt = Callable[[str], Awaitable[Hardware]]

DEFAULT_GPU = "A100"
"""GPU for the training of a model of unknown size."""
_TURNS = 10
"""Number of replies per episode that an estimate assumes if no limit is set."""
_MEMORY = 80.0
"""Memory of a GPU in GiB where neither its driver nor its provider states it."""


@dataclass(frozen=True)
class Seller:
    """The provider of a rented machine, as far as the plan of a run needs it."""

    name: str
    simulated: bool
    ends: bool
    """The machine ends itself at its limits, even if hudtui is closed."""
    ssh_key: str | None
    """The provider's id of this computer's SSH key."""


@dataclass(frozen=True)
class RunSite:
    """The machine of a run before it is planned."""

    host: str | None
    """Name of a machine that the user has; None for one to rent."""
    checks: tuple[Check, ...] = ()
    hardware: Hardware | None = None
    """Hardware of the user's machine; None if it is unknown."""
    choice: OfferChoice | None = None
    """The machine to rent, with the reasons for the choice."""
    seller: Seller | None = None
    gpus: int = 1
    """GPUs that the run uses."""
    gpu_memory: float = _MEMORY
    """Memory of each GPU in GiB."""
    peers: tuple[str, ...] = ()
    """The user's machines that train together with it: node 1, 2, ...; empty for rented ones."""

    @property
    def remote(self) -> bool:
        """True for every machine but this one."""
        return self.host != LOCAL

    @property
    def rented(self) -> bool:
        """True for a machine that the run rents."""
        return self.host is None

    @property
    def disk(self) -> float | None:
        """The free space on the disk in GiB; None if unknown."""
        if self.hardware is not None and self.hardware.disk_free_bytes is not None:
            return self.hardware.disk_free_bytes / 2**30
        if self.choice is not None and self.choice.offer.disk_gb:
            return self.choice.offer.disk_gb * GIB_PER_GB
        return None


async def choose_machine(
    work: Work,
    folder: Path,
    settings: Settings,
    *,
    providers: Mapping[str, Provider] | None = None,
    starts: bool = True,
    look_at: LookAt | None = None,
) -> RunSite:
    """Choose the machine of a run, and check it. Asks the machine, or the provider for its offers.

    Args:
        work: The work.
        folder: The project's folder.
        settings: The settings of the project.
        providers: Providers by name; None opens them by the settings.
        starts: False if the plan is only shown: the provider then need not know this computer's SSH
            key.
        look_at: Returns the hardware of a machine, and may cache it.
    """
    host = request_host(work.request)
    if work.request.trains and work.demand is None:
        return RunSite(host)  # what machine the training needs is not known
    if refusal := await asyncio.to_thread(_refuse_nodes, work.request, host):
        return RunSite(host, (refusal,))
    if host is not None:
        look_at = look_at or look_at_machine
        site = await _own_site(work, host, folder, look_at)
        return (
            site if work.request.node_count == 1 else await _with_peers(work, site, folder, look_at)
        )
    provider: Provider | None = None
    try:
        provider = await asyncio.to_thread(open_request_provider, work.request, settings, providers)
        return await _rented_site(work, provider, settings, starts=starts)
    except HudtuiError as error:
        return RunSite(None, (_provider_refused(work.request, error, settings),))
    finally:
        if provider is not None and providers is None:
            await provider.close()


def request_host(request: RunRequest) -> str | None:
    """Return the host to run on, or None for a machine to rent."""
    if request.machines:
        return request.machines[0]
    if request.provider == LOCAL:
        return LOCAL
    if request.offer is not None:
        return {"local": LOCAL, "ssh": request.offer.cloud_id}.get(request.offer.provider)
    return LOCAL if request.provider is None and not request.features.trains else None


def _memory_check(demand: Demand, fit: Fit, *, rented: bool) -> Iterator[Check]:
    """Yield the check of the GPUs' memory."""
    if fit.state == "unknown":
        return  # a note of the plan reports it
    if fit.state == "fits":
        yield fine("memory", fit.why)
    elif fit.fix is not None and rented:
        yield missing("memory", fit.why, fit.fix)
    elif fit.hopeless and rented:
        yield missing(
            "memory", f"{fit.why} The model does not fit.", demand.advice, remedy="choose-machine"
        )
    else:
        yield warning("memory", f"{fit.why} It may run out of memory.", demand.advice)


# --- a machine of the user's ----------------------------------------------------------------------


class DefaultEngine(NamedTuple):
    """The engine of a run that names none."""

    name: str
    why: str
    """What about the machine decided, such as `that machine has GPUs`."""


async def default_engine(host: str | None) -> DefaultEngine:
    """Return the engine of a run that names none.

    The one that trains if its machine can, otherwise the one that plays. Without a host a machine
    will be rented. A machine that does not answer counts as one without a GPU.
    """
    if host is None:
        return DefaultEngine(TRAINER, "a machine that is rented trains")
    try:
        gpus = (await look_at_machine(host)).gpus
    except HudtuiError:
        return DefaultEngine(PLAYER, "that machine does not say whether it has a GPU")
    return (
        DefaultEngine(TRAINER, "that machine has GPUs")
        if gpus
        else DefaultEngine(PLAYER, "that machine has no GPU")
    )


async def look_at_machine(host: str) -> Hardware:
    """Return the hardware and software of a machine.

    Raises:
        MachineError: The machine cannot be reached, or has no Python.
    """
    from hudtui.core.compute.hardware import inspect

    return await inspect(find_host(host), python=sys.executable if host == LOCAL else "python3")


async def require_python(request: RunRequest, folder: Path) -> None:
    """Check that the Python of a request can be started on its machine, and has hudtui.

    Rented machines are not checked.
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
    if (
        "python" not in PurePosixPath(request.python).name
    ):  # the path may be half typed: no other program is started
        raise InputError(no_python, fix=fix)
    try:
        cwd = str(folder) if host == LOCAL else None
        done = await find_host(host).run(asked, cwd=cwd, env={"PYTHONSAFEPATH": "1"}, timeout=120)
    except MachineError as error:
        raise InputError(
            f"{clean_line(request.python)} cannot be started on {name}", why=error.why, fix=fix
        ) from None
    if not done.ok:
        why = clean_line(done.stderr.strip().rpartition("\n")[2], 300)
        raise InputError(no_python, why=why or None, fix=fix)


async def _own_site(work: Work, host: str, folder: Path, look_at: LookAt) -> RunSite:
    request = work.request
    try:
        hardware = await look_at(host)
    except HudtuiError as error:
        return RunSite(host, (refused("machine", error),))
    site = RunSite(
        host, hardware=hardware, gpus=_gpus(work, hardware), gpu_memory=_gpu_memory(hardware)
    )
    checks = list(_hardware_checks(host, hardware))
    try:
        await require_python(request, folder)
    except InputError as error:
        checks.append(refused("python", error))
    pays = await asyncio.to_thread(_has_paid_gpus, host)
    checks += _gpu_checks(work, site, hardware, pays=pays)
    return replace(site, checks=tuple(checks))


def _refuse_nodes(request: RunRequest, host: str | None) -> Check | None:
    """Return why a run cannot be carried out by several machines; None if it can.

    Looks up addresses: call it in a thread.
    """
    count, named = request.node_count, request.machines
    if count == 1:
        return None
    if not request.features.nodes:
        text = f"the engine {request.engine} works on one machine, and {count} nodes are asked for"
        fix = f"Take one machine, or train with --engine {TRAINER}."
        return missing("nodes", text, fix)
    if host is None:
        return None  # a cluster is rented as one
    places = [_place(name) for name in named]
    if twice := [
        name for name, place in zip(named, places, strict=True) if places.count(place) > 1
    ]:
        text = f"a machine is named twice: each node needs one of its own ({', '.join(twice)})"
        return missing("nodes", text, None)
    if len(named) > 1 and LOCAL in named:
        text = "this machine cannot train together with others"
        return missing("nodes", text, "Name it as the others reach it: --host user@address.")
    if len(named) > 1 and count != len(named):
        text = f"{count} nodes are asked for, and {len(named)} machines are named"
        return missing("nodes", text, f"Leave out --nodes, or set it to {len(named)}.")
    if len(named) < count and not (host == LOCAL and request.rehearse):
        text = f"{count} nodes need {count} machines, and {_machine_name(host)} is one"
        fix = f"Name {count} with --host, or rehearse here: --rehearse --nodes {count}."
        return missing("nodes", text, fix)
    return None


def _place(name: str) -> Hashable:
    """Return where a machine is reached: the same for all of its names.

    A name that does not lead anywhere stands for itself; it is refused when the machine is asked.
    """
    if name == LOCAL:
        return name
    try:
        target = find_target(name)
    except HudtuiError:
        return name
    way: tuple[Hashable, ...] = (target.port, target.jump, target.proxy_command)
    if target.jump or target.proxy_command:
        return (target.host.casefold(), *way)
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return (target.host.casefold(), *way)
    return (min(str(address[0]) for *_, address in found), *way)


async def _with_peers(work: Work, site: RunSite, folder: Path, look_at: LookAt) -> RunSite:
    """Return the machines of a run of several nodes: that of node 0, and the others.

    All nodes use equally many GPUs, and the smallest memory of them counts.
    """
    request = work.request
    peers = request.machines[1:] or (LOCAL,) * (request.node_count - 1)
    checks, least, disk = list(site.checks), site, site.disk
    for node, name in enumerate(request.machines[1:], 1):
        try:
            hardware = await look_at(name)
        except HudtuiError as error:
            checks.append(refused("machine", error))
            continue
        checks += _hardware_checks(name, hardware)
        try:
            await require_python(replace(request, host=name), folder)
        except InputError as error:
            checks.append(refused("python", error))
        if lack := _lacks_gpus(work, hardware):
            checks.append(missing("machine", f"node {node} ({name}): {lack}", _FEWER))
        other = RunSite(
            name,
            hardware=hardware,
            gpus=_gpus(work, hardware),
            gpu_memory=_gpu_memory(hardware),
        )
        if not request.rehearse and other.gpus != site.gpus:
            fewest = _of_type(min(other.gpus, site.gpus), hardware)
            text = (
                f"node {node} ({name}) has {_gpus_text(other)}, and node 0 ({site.host}) has "
                f"{_gpus_text(site)}: all nodes need equally many"
            )
            checks.append(missing("nodes", text, f"Take the same: --gpus {fewest}."))
        if other.gpu_memory < least.gpu_memory:
            least = other
        if disk is None or (other.disk is not None and other.disk < disk):
            disk = other.disk
            site = replace(site, hardware=_with_disk(site.hardware, hardware))
    if all(check.state != "missing" for check in checks):
        checks.append(fine("nodes", f"{request.node_count} machines train together"))
    if work.demand is not None and least is not site and site.gpus:
        fit = work.demand.on_gpus(site.gpus, least.gpu_memory)
        checks += _memory_check(work.demand, fit, rented=False)
    return replace(site, peers=peers, checks=tuple(checks), gpu_memory=least.gpu_memory)


_FEWER = "Choose another machine, or fewer GPUs (--gpus)."


def _gpus_text(site: RunSite) -> str:
    return f"{site.gpus} GPU{'' if site.gpus == 1 else 's'}" if site.gpus else "no GPU"


def _of_type(count: int, hardware: Hardware) -> str:
    """Return GPUs as they are asked for."""
    types = [offer.gpu_type for offer in offers_of(hardware, OwnedHost(LOCAL), LOCAL)]
    return f"{count}x{types[0]}" if count and types and types[0] else "cpu"


def _with_disk(first: Hardware | None, other: Hardware) -> Hardware | None:
    """Return the hardware of node 0 with the smaller disk of another node."""
    return None if first is None else replace(first, disk_free_bytes=other.disk_free_bytes)


def _gpus(work: Work, hardware: Hardware) -> int:
    """Return the number of GPUs that the run uses: those that are asked for, or all."""
    request = work.request
    fewest = 0 if request.trains and request.features.gpu == "usual" else 1  # trained on the CPU
    asked = None if request.rehearse else work.gpus
    return max(len(hardware.gpus) if asked is None else asked.count, fewest)


def _gpu_memory(hardware: Hardware) -> float:
    """Return the memory in GiB of the smallest GPU."""
    return min((gpu.memory_mib / 1024 for gpu in hardware.gpus if gpu.memory_mib), default=_MEMORY)


def _machine_name(host: str) -> str:
    return "this machine" if host == LOCAL else host


_OLDEST_PYTHON = (3, 8)


def _version(python: str) -> tuple[int, ...]:
    """Return the first two numbers of a version of Python."""
    return tuple(int(number) for number in re.findall(r"\d+", python)[:2])


def _hardware_checks(host: str, hardware: Hardware) -> Iterator[Check]:
    """Yield what the machine has, and what of its programs is missing."""
    from hudtui.core.compute.hardware import size

    gpus = f"{len(hardware.gpus)} x {hardware.gpus[0].name}" if hardware.gpus else "no GPU"
    name, room = _machine_name(host), ""
    if host != LOCAL:
        room = f", {hardware.cpus} processors, {size(hardware.disk_free_bytes)} of disk free"
    yield fine("machine", f"{name}: {gpus}{room}")
    if host != LOCAL and not hardware.python:
        yield missing(
            "machine", f"{name} has no python3", "Install it there: the run's supervisor needs it."
        )
    elif host != LOCAL and _version(hardware.python) < _OLDEST_PYTHON:
        fix = "Install a newer one as python3: the run's supervisor needs Python 3.8."
        yield missing("machine", f"{name} has Python {clean_line(hardware.python, 20)}", fix)
    if not hardware.program("tmux"):
        yield warning(
            "machine", f"{name} has no tmux: the stages run as detached processes, without windows"
        )


def _gpu_checks(work: Work, site: RunSite, hardware: Hardware, *, pays: bool) -> Iterator[Check]:
    """Yield whether the machine's GPUs, or its processors, can do the work.

    `pays`: it was rented with GPUs.
    """
    request, name = work.request, _machine_name(site.host or "")
    usual = request.features.gpu == "usual"
    if lack := _lacks_gpus(work, hardware):
        yield missing(
            "machine",
            lack,
            _FEWER,
            remedy="choose-machine",
        )
    elif (
        work.demand is not None
        and usual
        and not hardware.gpus
        and not pays
        and _names_model(request, work.demand)
    ):
        yield _cpu_check(name, hardware, work.demand)
    elif request.rehearse and request.rehearse_model and usual and work.job is not None:
        yield _cpu_check(name, hardware, work.job)
    elif request.trains and request.features.gpu != "unused" and not hardware.gpus:
        fix = "Choose another machine"
        if request.features.rehearsal is not None:
            fix += f", or rehearse on the CPU: {request.features.command} --rehearse"
        yield missing(
            "machine",
            f"{name} has no visible GPU, and training needs one",
            fix,
            remedy="choose-machine",
        )
    elif work.demand is not None and hardware.gpus:
        fit = work.demand.on_gpus(site.gpus, site.gpu_memory)
        yield from _memory_check(work.demand, fit, rented=False)


def _lacks_gpus(work: Work, hardware: Hardware) -> str | None:
    """Return a sentence if the machine does not have the GPUs that are asked for."""
    if work.gpus is None or work.request.rehearse:
        return None
    own = offers_of(hardware, OwnedHost(LOCAL), LOCAL)
    if work.gpus.count <= sum(offer.gpu_count for offer in own if is_meant(work.gpus, offer)):
        return None
    has = ", ".join(f"{offer.gpu_count} x {offer.gpu_type}" for offer in own if offer.gpu_count)
    return f"{replace(work.gpus, counted=True)} asked for, and the machine has {has or 'no GPU'}"


def _names_model(request: RunRequest, demand: Demand) -> bool:
    """Return whether the user has named the model: only such a model is trained without a GPU."""
    return request.model is not None or demand.recipe.model != Recipe().model


def _has_paid_gpus(host: str) -> bool:
    """Return whether a machine was rented with GPUs.

    A training on its CPUs would pay for GPUs that it does not use.
    """
    from hudtui.core.compute.pods import Ledger

    pod = pod_of(host)
    record = None if pod is None else Ledger().get(pod)
    return record is not None and record.last_pod().gpu_count > 0


def _cpu_check(name: str, machine: Hardware, demand: Demand) -> Check:
    """Return the check of a training on a machine without a GPU.

    Its memory, and the time of a step.
    """
    model = clean_line(demand.recipe.model, 80)
    if demand.shape is None:
        text = (
            f"{name} has no GPU, and the size of {model} is unknown: on a CPU it may take long, or "
            "not fit into memory"
        )
        return warning("memory", text)
    turns = demand.recipe.max_turns or _TURNS
    cost = cpu_estimate(demand.recipe, demand.shape, turns, demand.opening)
    has = (machine.memory_bytes or 0) / 2**30
    free = (machine.memory_free_bytes or 0) / 2**30
    if machine.memory_bytes is not None and cost.floor > has:
        text = (
            f"{model} needs at least {cost.floor:.0f} GiB of memory on a CPU, and {name} has "
            f"{has:.0f}"
        )
        return missing(
            "memory",
            text,
            "Name a smaller model, or rent a machine with a GPU.",
            remedy="choose-machine",
        )
    step, whole = duration(cost.step_seconds), duration(cost.step_seconds * demand.recipe.steps)
    text = f"{model} is trained on the CPU of {name}; roughly {step} per step, {whole} in all, "
    text += f"and {cost.total:.0f} GiB of memory ({free:.0f} are free)"
    fix = (
        None if cost.total <= free else "Lower batch_size or max_seq_len, or close other programs."
    )
    return warning("memory", text, fix)


# --- a machine to rent ----------------------------------------------------------------------------


def open_request_provider(
    request: RunRequest, settings: Settings, providers: Mapping[str, Provider] | None
) -> Provider:
    """Open the provider to rent from. Blocks while the demo's simulator starts.

    Raises:
        HudtuiError: See `registry.open_provider`.
    """
    from hudtui.core.compute.demo_simulator import ensure_simulator
    from hudtui.core.compute.registry import open_provider, usual_rental

    if providers is None:
        ensure_simulator(settings.get)
    name = (
        request.offer.provider
        if request.offer is not None
        else request.provider or usual_rental(settings.get).name
    )
    return open_provider(name, settings.get, providers=providers)


async def _rented_site(
    work: Work, provider: Provider, settings: Settings, *, starts: bool
) -> RunSite:
    """Choose an offer, and check its memory, its key and its cost.

    Raises:
        HudtuiError: The provider does not answer.
    """
    request = work.request
    market: Sequence[Offer] = ()
    checks: list[Check] = []
    if request.node_count > 1 and not provider.features.clusters:
        text = (
            f"{provider.title} rents one machine for a run, and {request.node_count} nodes are "
            "asked for"
        )
        fix = (
            "Rent a cluster from another provider (prime or sky), name machines of your own "
            "(--host A --host B), or rent one machine with more GPUs (--gpus)."
        )
        return RunSite(None, (missing("nodes", text, fix),))
    if request.offer is None and provider.features.paid:
        answer = await provider.offers()
        market = tuple(_clustered(offer, request, provider) for offer in answer.found)
        checks += [warning("machine", f"{provider.title}: {text}") for text in answer.warnings]
    try:
        choice = _choose_offer(work, provider, market)
    except HudtuiError as error:
        return RunSite(None, (*checks, _provider_refused(request, error, settings)))
    offer = choice.offer
    checks += _offer_checks(work, provider, offer)
    key, key_checks = await _ssh_key(provider, settings) if starts else (None, ())
    budget = await asyncio.to_thread(_budget_checks, work, provider, offer)
    checks += [*key_checks, *budget]
    seller: Seller | None = None
    try:
        ends = await asyncio.to_thread(_ends_itself, provider, settings)
        seller = Seller(provider.name, provider.features.simulated, ends, key)
    except InputError as error:
        checks.append(refused("keys", error))
    gpu_memory = (offer.gpu_memory or _MEMORY) * GIB_PER_GB
    gpus = max(offer.node_gpus, 1)
    return RunSite(
        None, tuple(checks), choice=choice, seller=seller, gpus=gpus, gpu_memory=gpu_memory
    )


def _provider_refused(request: RunRequest, error: HudtuiError, settings: Settings) -> Check:
    """Return the check of a machine that cannot be rented."""
    from hudtui.core.compute.provider import AuthError

    key = _key_of(request, error, settings) if isinstance(error, AuthError) else None
    if key is not None and settings.get(key) is None and settings.waits(key) is not None:
        return lacking(settings, key, ", and renting a machine needs it", check="machine")
    remedy: Remedy | None = None if request.provider or request.offer else "choose-machine"
    if remedy is None and key is not None:
        return refused("machine", error, remedy="set-key", options=(key,))
    return refused("machine", error, remedy=remedy)


def _key_of(request: RunRequest, error: AuthError, settings: Settings) -> str | None:
    """Return the setting with the key of the provider that a machine is to be rented from."""
    from hudtui.core.compute.registry import rentals, usual_rental

    name = request.offer.provider if request.offer is not None else request.provider
    entry = usual_rental(settings.get) if name is None else rentals().get(name)
    return error.lacks or (None if entry is None else entry.key)


def _choose_offer(work: Work, provider: Provider, market: Sequence[Offer]) -> OfferChoice:
    """Return the offer that the user has named, or the best of those on the market.

    Raises:
        InputError: No offer can be chosen.
    """
    from hudtui.core.compute.choose import OfferChoice
    from hudtui.core.compute.provider import find_offer

    request, by_user = work.request, ("you have chosen it",)
    if request.offer is not None:
        offer = _clustered(request.offer, request, provider)
        _require_nodes(offer, request)
        return OfferChoice(offer, by_user)
    if not provider.features.paid:
        raise InputError(
            f"{provider.title} has machines of your own", fix="Choose one: --host user@host."
        )
    if request.offer_name is None:
        return _choose_of(_payable(market, work.limits), work, market)
    named = find_offer(market, request.offer_name)
    if named is not None:
        _require_nodes(named, request)
        return OfferChoice(named, by_user)
    text = f"{provider.title} has no offer {clean_line(request.offer_name, 40)}"
    fix = "hudtui pods offers lists the current offers; with --gpus the cheapest is taken."
    raise InputError(text, why="Offers come and go.", fix=fix)


def _clustered(offer: Offer, request: RunRequest, provider: Provider) -> Offer:
    """Return an offer with the machines of the run, where its provider makes clusters of it."""
    several = provider.features.multiplies and offer.nodes == 1 < request.node_count
    return offer.times(request.node_count) if several else offer


def _require_nodes(offer: Offer, request: RunRequest) -> None:
    """Check that an offer has as many machines as the run.

    Raises:
        InputError: It has more or fewer, or its GPUs are not spread evenly over them.
    """
    nodes = request.node_count
    if offer.nodes != nodes:
        text = f"offer {offer.short} has {plural(offer.nodes, 'machine')}, and the run {nodes}"
        all_of = f"Take all of them (--nodes {offer.nodes}), or another offer."
        raise InputError(text, fix=all_of if request.features.nodes else "Take another offer.")
    if offer.gpu_count % nodes:
        raise InputError(
            f"the {offer.gpu_count} GPUs of offer {offer.short} are not equally many on its "
            f"{nodes} machines",
            fix="Take another offer.",
        )


def _payable(offers: Sequence[Offer], limits: Limits) -> list[Offer]:
    """Return the offers without those that charge more in advance than the run may cost.

    All offers if none would remain.
    """
    if limits.run_budget is None:
        return list(offers)
    return [offer for offer in offers if offer.price.for_hours(0) <= limits.run_budget] or list(
        offers
    )


def _choose_of(offers: Sequence[Offer], work: Work, market: Sequence[Offer]) -> OfferChoice:
    """Choose an offer.

    For a training by fit, then by price; for other work, a machine without a GPU if possible. A
    spot machine is chosen only if it is requested, or for other work if every machine has a GPU.
    `market` has all offers.
    """
    from hudtui.core.compute.choose import choose, select
    from hudtui.core.compute.gpus import has_gpu
    from hudtui.core.compute.values import Query

    request, demand, gpus = work.request, work.demand, work.gpus
    query = Query(
        spot=bool(request.spot),
        clouds=request.clouds,
        regions=request.regions,
        nodes=request.node_count,
    )
    if demand is None:
        so_many = [offer for offer in offers if offer.nodes == request.node_count]
        if gpus is None and any(not has_gpu(offer) for offer in so_many):
            gpus = CPU
        elif gpus is None:
            query = replace(query, spot=request.spot)
        return choose(offers, spec=gpus, query=query, market=market)
    if gpus is None and demand.shape is None:
        gpus = GpuSpec(demand.usual_gpus, DEFAULT_GPU)
    if gpus is None:
        usual = replace(query, gpu_count=demand.usual_gpus)
        if any(demand.fit(offer).holds for offer in select(offers, query=usual).found):
            query = usual
    return choose(offers, spec=gpus, query=query, fit=demand.fit, market=market)


def offer_text(offer: Offer) -> str:
    """Describe an offer in one line."""
    from hudtui.core.compute.choose import price_text

    what = (
        f"{offer.gpu_count} x {offer.gpu_type}"
        if offer.gpu_count
        else offer.gpu_type or "a machine"
    )
    where = ", ".join(
        part for part in (offer.cloud, offer.data_center or offer.region, offer.country) if part
    )
    spot = ", spot: the provider can reclaim it at any time" if offer.spot else ""
    return clean_line(
        f"{what}{offer.spread} at {price_text(offer.price)} an hour"
        + (f" ({where})" if where else "")
        + spot,
        200,
    )


def _offer_checks(work: Work, provider: Provider, offer: Offer) -> Iterator[Check]:
    """Yield what is rented, and whether it can do the work."""
    yield fine("machine", f"{provider.title}: {offer_text(offer)}")
    if provider.features.simulated and work.request.trains:
        text = "simulated machines have no GPU: a training fails at the check of the GPUs"
        yield warning(
            "machine",
            text,
            "Rehearse it there (--rehearse), or play the tasks (--engine rollouts).",
        )
    if work.demand is not None:
        yield from _memory_check(work.demand, work.demand.fit(offer), rented=True)


async def _ssh_key(provider: Provider, settings: Settings) -> tuple[str | None, tuple[Check, ...]]:
    """Return the provider's id of this computer's SSH key.

    None where it is missing, or not needed.
    """
    from hudtui.core.compute.ssh_key import find_registered, key_path, read_key

    if provider.features.brings_ssh_key:
        return None, ()
    path = key_path(settings.get)
    if path is None:
        fix = "Create one: hudtui pods keys create. Or set its path: hudtui pods keys set-path FILE"
        return None, (
            missing("keys", "there is no SSH key to log in with", fix, remedy="make-key"),
        )
    try:
        mine = await asyncio.to_thread(read_key, path)
        known = await provider.keys()
    except HudtuiError as error:
        return None, (refused("keys", error),)
    registered = find_registered(mine, known)
    if registered is not None:
        return registered.id, ()
    text, fix = (
        f"{provider.title} does not know the SSH key {path}",
        "Register it: hudtui pods keys register",
    )
    return None, (missing("keys", text, fix, remedy="register-key", options=(str(path),)),)


def _budget_checks(work: Work, provider: Provider, offer: Offer) -> tuple[Check, ...]:
    """Check the day's budget before any question.

    The ledger checks it again when the machine is rented.
    """
    from hudtui.core.compute.budget import RUN_TAIL, grant_new
    from hudtui.core.compute.pods import Ledger

    try:
        grant_new("", offer.price, provider.endpoint, work.limits, tail=RUN_TAIL)(
            Ledger().costing()
        )
    except HudtuiError as error:
        return (refused("cost", error),)
    return ()


def _ends_itself(provider: Provider, settings: Settings) -> bool:
    """Return whether a machine of the provider ends itself at its limits.

    Raises:
        InputError: The key for that is another key of the user's.
    """
    from hudtui.core.compute.watchdog import terminate_rule

    return terminate_rule(provider, "", settings.get) is not None
