"""Rent a pod without a run, change its limits, and end pods.

The questions and messages around `compute.lifecycle`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from hudtui.core.compute import watchdog
from hudtui.core.compute.budget import RUN_TAIL, grant_changed, grant_new
from hudtui.core.compute.choose import price_text
from hudtui.core.compute.costs import charge_text, sum_costs, wallet_text
from hudtui.core.compute.lifecycle import (
    ProvisionStep,
    Sleep,
    TerminationUnverified,
    acquire,
    log_in_to_pod,
    terminate_pod,
    unique_name,
)
from hudtui.core.compute.limits import Limits, amount, estimate, limits_from_settings
from hudtui.core.compute.pod_row import PodRow
from hudtui.core.compute.pods import UNGUARDED, Ledger
from hudtui.core.compute.provider import Provider, ProviderError
from hudtui.core.compute.registry import pod_login
from hudtui.core.compute.values import Account, Offer, Order, Pod
from hudtui.core.errors import HudtuiError, MachineError
from hudtui.core.events import Progress
from hudtui.core.flows.keys import prepare_key
from hudtui.core.flows.person import Person
from hudtui.core.project import Project
from hudtui.core.remote.host import Host
from hudtui.core.settings import machine_prefixes
from hudtui.core.text import clean_line, duration, money

WHY = "ended by hand"
"""Reason for the end of a pod, in the ledger and the history, if the user ended it."""


@dataclass(frozen=True)
class RentRequest:
    """Request for a rented machine."""

    offer: Offer
    reasons: tuple[str, ...] = ()
    """Reason why this offer was chosen, one sentence each."""
    hours: float | None = None
    """Hours to estimate the cost for. By default those after which the limits end the pod."""
    stem: str = "pod"
    """Part of the pod's name."""
    image: str | None = None
    """System image, one of the offer's."""
    disk_gb: float | None = None


@dataclass(frozen=True)
class Ordered:
    """The person has agreed: the pod is ordered next."""

    name: str


@dataclass(frozen=True)
class Rented:
    """The pod is ready. It costs money until it is ended."""

    pod: Pod
    guard: str
    """What ends the pod when hudtui is closed, or that nothing does, for people."""


async def rent(
    project: Project,
    request: RentRequest,
    provider: Provider,
    ledger: Ledger,
    person: Person,
    *,
    set_up_key: bool = True,
    sleep: Sleep = asyncio.sleep,
) -> AsyncGenerator[Ordered | ProvisionStep | Rented, None]:
    """Rent a pod after the person has agreed to its price, and start its watchdog.

    Cancelling, or leaving the loop before the step `ready`, ends what was created. From `ready` on
    the pod stays; `person` reads what became of it. Leave the loop through `contextlib.aclosing`.

    Args:
        project: Whose settings hold the limits and name the key.
        request: What to rent.
        provider: Where to rent it.
        ledger: Where the pod is written down first.
        person: Prepares the SSH key and agrees to the price.
        set_up_key: See `keys.prepare_key`.
        sleep: Waits between two checks of the pod.

    Yields:
        `Ordered`, then the steps of `lifecycle.acquire`, then `Rented`. Nothing if the person
        declined.

    Raises:
        Untrusted: The user has not agreed to what the project's files ask for.
        BudgetExceeded: The day's budget has no room for the pod; nothing was asked.
        HudtuiError: As `keys.prepare_key` and `lifecycle.acquire`.
    """
    settings = await asyncio.to_thread(project.settings)
    settings.require_trust(*machine_prefixes())
    offer = request.offer
    # Idleness of a pod without a run is not measured.
    limits = replace(await asyncio.to_thread(limits_from_settings, settings), idle_minutes=None)
    grant = grant_new("", offer.price, provider.endpoint, limits)
    until = grant(await ledger.run(ledger.costing))
    guard = [watchdog.UNLIMITED]
    if until is not None:
        guard = [limits_sentence(limits), watchdog.watchdog_notice(provider, settings.get)]
    key = await prepare_key(project, provider, person, set_up=set_up_key)
    if key is None:
        return
    settings = await asyncio.to_thread(project.settings)  # another key may have been chosen
    account = await _account(provider, person)
    lines = [
        _place(offer, provider),
        *request.reasons,
        "",
        *estimate(offer, request.hours or limits.max_hours or 24.0).text.split("; "),
        *filter(None, [await _wallet_line(offer, provider, ledger, account)]),
        "",
        *guard,
        *filter(None, [_sizes(offer)]),
        f"SSH key {key.fingerprint}",
    ]
    simulated = provider.features.simulated
    gpus = f"{offer.gpu_count} × {offer.gpu_type}" if offer.gpu_count else "a machine without a GPU"
    paid = f"{price_text(offer.price)}/h{' (simulated)' if simulated else ''}"
    question = f"Rent {gpus}{offer.spread} for {paid}?"
    if not await person.confirm(question, tuple(lines), yes="Rent", danger=not simulated):
        return
    order = Order(
        unique_name(request.stem),
        offer,
        image=request.image,
        disk_gb=request.disk_gb,
        ssh_key=key.id,
    )
    yield Ordered(order.name)
    steps = acquire(
        order,
        provider,
        ledger,
        login=pod_login(settings.get),
        limits=limits,
        account=account.name if account is not None else None,
        workspace=project.folder,
        sleep=sleep,
        say=person.say,
    )
    async with aclosing(steps):
        async for step in steps:
            yield step
            if step.pod is not None and step.hosts:
                # The steps are not left before the user was told: they keep the claim on the pod,
                # and report what becomes of it if this is cancelled.
                yield Rented(
                    step.pod,
                    await put_watchdog(step.hosts, step.pod, provider, ledger, settings.get),
                )


async def put_watchdog(
    hosts: Sequence[Host],
    pod: Pod,
    provider: Provider,
    ledger: Ledger,
    lookup: Callable[[str], str | None],
) -> str:
    """Start the watchdog of a pod without a run, on each of its machines.

    Returns:
        What the watchdog will do, or why there is none, for people.
    """
    try:
        with contextlib.suppress(MachineError):  # a full disk takes no guard away
            await ledger.run(_grant_again, ledger, pod.name)
        return await _watch(hosts, pod, provider, ledger, lookup)
    except HudtuiError as error:
        told = "; ".join(error.lines())
        if len(hosts) > 1:
            lack = f"Not each of its {len(hosts)} machines has a guard"
            return f"{lack}, and they cost money until you end them: {told}"
        return f"No guard is on the machine, which costs money until you end it: {told}"


async def change_limits(
    pod: Pod,
    limits: Limits,
    provider: Provider,
    ledger: Ledger,
    lookup: Callable[[str], str | None],
    *,
    run: str | None = None,
) -> str:
    """Give a pod other limits.

    What they set free of the day's budget is free for other pods, and the other way round.

    Args:
        pod: The pod, as its provider knows it.
        limits: Its limits from now on.
        provider: Where it was rented.
        ledger: Where the limits are kept.
        lookup: The settings.
        run: The run that works on the pod and manages its watchdog.

    Returns:
        What the watchdog will do now, or why it keeps its limits, for people. Empty if the pod is
        not ready, or has a run.

    Raises:
        MachineError: The ledger cannot be written; nothing is changed.
    """
    await ledger.run(_write_limits, ledger, pod.name, limits)
    if run is not None or pod.stage != "ready":
        return ""
    nodes = 1
    hosts: list[Host] = []
    silent: HudtuiError | None = None
    try:
        record = await ledger.run(ledger.get, pod.name)
        nodes = record.order.offer.nodes if record is not None and record.order is not None else 1
        for node in range(nodes):
            try:
                hosts.append((await log_in_to_pod(pod, pod_login(lookup), node))[1])
            except HudtuiError as error:  # it keeps no limit from the others
                silent = silent or error
        told = await _watch(hosts, pod, provider, ledger, lookup) if hosts else ""
        if silent is not None:
            raise silent
        return told
    except HudtuiError as error:
        lack = "The guard on the machine keeps its old limits"
        if nodes > 1:
            lack = f"Not each of the guards on its {nodes} machines has the new limits"
        return f"{lack}: {'; '.join(error.lines())}"


def _grant_again(ledger: Ledger, name: str) -> None:
    """Decide again until when a pod may live.

    Its provider may charge another price than was offered.
    """
    limits = ledger.limits(name)
    if limits is not None:
        _write_limits(ledger, name, limits)


def _write_limits(ledger: Ledger, name: str, limits: Limits) -> None:
    record = ledger.get(name)
    if record is None:
        ledger.set_limits(name, limits)
    else:
        ledger.grant(
            name, grant_changed(record, limits, tail=RUN_TAIL if record.run else 0.0), limits=limits
        )


async def _watch(
    hosts: Sequence[Host],
    pod: Pod,
    provider: Provider,
    ledger: Ledger,
    lookup: Callable[[str], str | None],
) -> str:
    """Give the watchdogs the limits of the ledger; they start if they do not run.

    Returns what it will do, for people.
    """
    record = await ledger.run(ledger.get, pod.name)
    until = record.until if record else None
    promises: list[watchdog.WatchdogPromise | None] = []
    failures: list[HudtuiError] = []
    for host in hosts:
        try:
            promises.append(
                await watchdog.start_watchdog(host, until, provider, pod.id, lookup=lookup)
            )
        except HudtuiError as error:  # the others have theirs
            failures.append(error)
    if failures:
        raise failures[0]
    if record is not None and record.why == UNGUARDED:
        with contextlib.suppress(MachineError):  # a full disk takes no guard away
            await ledger.run(ledger.update, record.name, why="")
    promise = promises[0]
    return watchdog.UNLIMITED if promise is None else f"{promise.text} {promise.caveat}".strip()


def limits_sentence(limits: Limits) -> str:
    """Return what ends a pod with these limits, as one sentence."""
    bounds = (
        (limits.run_budget, "at {}", money),
        (limits.max_hours, "after {} h", amount),
        (limits.day_budget, "at {} a day for all machines", money),
    )
    words = [text.format(shown(value)) for value, text, shown in bounds if value is not None]
    return f"It is ended {' or '.join(words)}." if words else watchdog.UNLIMITED


def _place(offer: Offer, provider: Provider) -> str:
    where = " ".join(
        word for word in (offer.cloud or offer.provider, offer.region, offer.data_center) if word
    )
    return f"{provider.title}: {where}, offer {offer.short}." + (
        " No real money is spent." if provider.features.simulated else ""
    )


def _sizes(offer: Offer) -> str:
    sizes = (
        (offer.socket, "{}"),
        (offer.vcpus, "{} vCPUs"),
        (offer.memory_gb, "{:g} GB memory"),
        (offer.disk_gb, "{:g} GB disk"),
    )
    return ", ".join(words.format(value) for value, words in sizes if value)


async def _account(provider: Provider, person: Person) -> Account | None:
    try:
        return await provider.account()
    except ProviderError as error:
        person.say(
            f"{provider.title} does not report the balance of the wallet: {error.what}",
            severity="warning",
        )
        return None


async def wallet_line(
    offer: Offer, provider: Provider, ledger: Ledger, person: Person
) -> str | None:
    """Return how long the user's wallet lasts with one more machine.

    None if the provider does not say what it has.
    """
    return await _wallet_line(offer, provider, ledger, await _account(provider, person))


async def _wallet_line(
    offer: Offer, provider: Provider, ledger: Ledger, account: Account | None
) -> str | None:
    if account is None:
        return None
    costs = await ledger.run(lambda: sum_costs(ledger, time.time(), here=[provider]))
    return wallet_text(account, costs, provider.name, offer.price.hourly, offer.price.currency)


# --- the end --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """A pod is gone: its provider confirms it."""

    pod: Pod
    """The pod with its bill. It has no id if it was never created."""
    text: str
    """One sentence for people."""


async def end_pods(
    pods: Sequence[PodRow], ledger: Ledger, person: Person, *, sleep: Sleep = asyncio.sleep
) -> AsyncGenerator[Progress | Ended, None]:
    """End pods after the person has agreed, verify each end, and read the bills.

    A pod that cannot be ended keeps none of the others alive: its error comes last.

    Args:
        pods: The pods, each with its provider.
        ledger: Where the ends are written down.
        person: Agrees to the end of all of them.
        sleep: Waits between two checks.

    Yields:
        `Progress` before each pod, `Ended` after it. Nothing if the person declined, or there is no
        pod.

    Raises:
        TerminationUnverified: A pod may still be alive and cost money.
        MachineError: The ledger cannot be written.
    """
    if not pods:
        return
    one = len(pods) == 1
    lines = [line for pod in pods for line in _pod_lines(pod)]
    lines += ["", f"Everything on {'it' if one else 'them'} is lost."]
    what = _name(pods[0].pod) if one else f"{len(pods)} machines"
    if not await person.confirm(f"End {what}?", tuple(lines), yes="End", danger=True):
        return
    ended: list[str] = []
    failed: list[HudtuiError] = []
    for each in pods:
        yield Progress("end", f"Ending {_name(each.pod)}, and verifying it")
        try:
            if each.provider is None:
                raise ProviderError(
                    f"there is no key here for {each.pod.provider}, where {_name(each.pod)} is"
                )
            gone = await terminate_pod(each.pod, each.provider, ledger, why=WHY, sleep=sleep)
        except HudtuiError as error:
            failed.append(error)
            continue
        ended.append(_ended_text(each, gone))
        yield Ended(gone, ended[-1])
    if len(failed) == 1 and not ended:
        raise failed[0]
    if failed:
        raise TerminationUnverified(
            "; ".join(error.what for error in failed),
            why=" ".join(ended) or None,
            fix=failed[0].fix,
        )


def _ended_text(end: PodRow, gone: Pod) -> str:
    if not gone.id:
        return f"{_name(end.pod)} was never created."
    cost, simulated = charge_text(gone), " (simulated)" if end.simulated else ""
    return f"{_name(end.pod)} has ended, verified: " + (
        f"it cost {cost}{simulated}." if cost else "its bill is not there yet."
    )


def _pod_lines(end: PodRow) -> list[str]:
    pod = end.pod
    words = [_name(pod) + (f" ({pod.id})" if pod.id and pod.name else "")]
    if pod.gpu_count:
        words[0] += f": {pod.gpu_count} × {pod.gpu_type}"
    if pod.hourly is not None:
        words.append(f"{money(pod.hourly, pod.currency)}/h")
    if end.cost_text is not None:
        words.append(end.cost_text)
    if end.simulated:
        words.append("simulated")
    lines = [", ".join(words)]
    if end.run is not None:
        lines.append(f"! The run {end.run} is using it.")
    elif end.unclaimed is not None:
        age = end.age(time.time())
        alive = f" for {duration(age)}" if age is not None else ""
        lines.append(f"! It is unclaimed, and alive{alive}: {clean_line(end.unclaimed)}.")
    elif not end.ours:
        lines.append("! It was not rented by hudtui: another program or person may be using it.")
    return lines


def _name(pod: Pod) -> str:
    return pod.name or pod.id
