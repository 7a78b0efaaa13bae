"""Ending a machine, and making sure: the request, a look by every way that there is, the bill."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from hudtui.core.compute.limits import money
from hudtui.core.compute.pods import Ledger, PodRecord
from hudtui.core.compute.provider import AuthError, Provider, ProviderError
from hudtui.core.compute.values import Pod
from hudtui.core.errors import MachineError
from hudtui.core.text import clean_line

Sleep = Callable[[float], Awaitable[None]]

UNSEEN_GRACE = 120.0
"""Seconds after which a machine whose creation was unclear, and that nobody has seen, was never created."""
_PAUSES = (0.0, 2.0, 3.0, 5.0, 5.0, 10.0, 10.0, 15.0, 15.0, 30.0, 30.0)
"""Seconds before each request for its end, and look whether it has come: two minutes together."""
_BILL_PAUSES = (0.0, 2.0, 5.0)
_GOING = 3
"""So many looks go by before the end of a machine that says it is ending is asked for again."""


class TerminationUnverified(ProviderError):
    """A machine could not be ended, or nobody can say that it was: it may still cost money."""


async def terminate_pod(machine: str | Pod, provider: Provider, ledger: Ledger, *, why: str, sleep: Sleep = asyncio.sleep) -> Pod:
    """End a machine, see that it is gone, and note the bill.

    Its end is asked for again for as long as it is there. It counts as gone when the provider, asked for this one, says so
    or does not know it any more, and its list of living machines lacks it.

    Args:
        machine: The name it was ordered under, its provider's id of it, or the machine itself. One that the ledger does not
            know can be ended too.
        provider: Where it is.
        ledger: Told of every step.
        why: For people, later: why it was ended.
        sleep: Waits between two looks.

    Returns:
        The machine as it ended, with its bill where the provider says it. One that was never created has no id.

    Raises:
        TerminationUnverified: It may still cost money. The ledger keeps it as `ending`, and every start shows it.
        MachineError: The ledger cannot be written.
    """
    if isinstance(machine, Pod):
        owned = await asyncio.to_thread(record_of, machine, provider, ledger)
    else:
        owned = await asyncio.to_thread(ledger.get, machine)
    given = machine if isinstance(machine, Pod) and machine.id else None
    if owned is not None and owned.pod is None and given is None:
        given = await _by_name(owned, provider)
        if given is None:
            return await asyncio.to_thread(_never, owned, provider, ledger, why)
    name = owned.name if owned else given.name if given else str(machine)
    pod_id = given.id if given else owned.pod if owned and owned.pod else str(machine)
    if owned is not None:
        with contextlib.suppress(MachineError):  # a ledger that cannot be written must not keep it alive
            await asyncio.to_thread(ledger.note, owned.name, "ending", pod=pod_id, why=why)
    last, problem = await _end(provider, pod_id, given, sleep)
    if problem is not None:
        hourly = (last.hourly if last else None) or (owned.hourly if owned else None)
        currency = last.currency if last else owned.currency if owned else ""
        cost = f"It may still cost {money(hourly, currency)} an hour. " if hourly else "It may still cost money. "
        raise TerminationUnverified(
            f"{clean_line(name)} ({clean_line(pod_id)}) could not be ended for certain",
            why="; ".join(problem.lines()),
            fix=f"{cost}End it with `hudtui pods terminate {clean_line(pod_id)}` or on {provider.title}'s own page.",
        )
    ended = await _with_bill(last or Pod(provider.name, pod_id, name, "gone"), provider, sleep)
    if owned is not None:
        facts: dict[str, Any] = {"pod": pod_id, "ended": ended.terminated, "billed": ended.bill, "why": why}
        await asyncio.to_thread(ledger.note, owned.name, "ended", **facts)
    return ended


async def mark_terminated(owned: PodRecord, provider: Provider, ledger: Ledger, *, pod: Pod | None = None) -> PodRecord:
    """Note that a machine is found to have ended, why, and with its bill as far as the provider tells it now.

    One whose end was not asked for and whose time was not over is noted as `unasked`: it was taken back.

    Raises:
        MachineError: The ledger cannot be written.
    """
    last = pod or Pod(provider.name, owned.pod or "", owned.name, "gone")
    ended = await _with_bill(last, provider, None)
    if owned.state == "ending":
        why, unasked = owned.why, False
    elif owned.until is not None and (owned.seen or owned.created) < owned.until <= time.time():
        why, unasked = "its time was over: the guard on it ended it", False
    else:
        why, unasked = await _taken(owned, provider), True
    facts: dict[str, Any] = {"pod": ended.id or None, "ended": ended.terminated, "billed": ended.bill}
    facts |= {"why": why, "unasked": unasked}
    return await asyncio.to_thread(ledger.note, owned.name, "ended", **facts)


async def _taken(owned: PodRecord, provider: Provider) -> str:
    """Why a machine has ended that was not asked to, as far as that can be known."""
    if owned.last_pod().spot or owned.order.get("offer", {}).get("spot"):
        return "it was taken back: a spot machine can be taken away at any moment"
    try:
        balance = (await provider.account()).balance
    except ProviderError:
        balance = None
    if balance is not None and balance <= max((owned.hourly or 0.0) / 60, 0.01):
        return f"the wallet is empty, so {provider.title} ended it"
    return f"it was taken back by {provider.title}, or ended elsewhere: hudtui did not ask for its end"


def endpoint_of(provider: Provider) -> str:
    """Which of a provider's services this is, where it tells."""
    return str(getattr(provider, "realm", ""))


def belongs_to(owned: PodRecord, provider: Provider) -> bool:
    """It was asked of that very service: a simulator's machines are not the real one's, nor another simulator's."""
    return owned.provider == provider.name and owned.realm in ("", endpoint_of(provider))


def record_of(pod: Pod, provider: Provider, ledger: Ledger) -> PodRecord | None:
    """What is written down of a provider's machine; None where it is another one of the same name, or the same id elsewhere."""
    found = (ledger.get(key) for key in (pod.name, pod.id) if key)
    return next((one for one in found if one and belongs_to(one, provider) and (not pod.id or one.pod in (None, pod.id))), None)


def requested_at(pod: Pod, owned: PodRecord | None) -> float | None:
    """When a machine was asked for, in seconds since the epoch by this computer's clock.

    By its provider's where that was not written down: a simulator's clock is another one. None: nobody knows.
    """
    return pod.created if owned is None else owned.created


async def find_in_history(provider: Provider, *, pod: str | None = None, name: str | None = None) -> Pod | None:
    """The row of the provider's history about one machine; None when there is none, or it cannot be read."""
    try:
        rows = await provider.history()
    except ProviderError:
        return None
    return next((row for row in rows if (row.id == pod if pod else row.name == name)), None)


async def _by_name(owned: PodRecord, provider: Provider) -> Pod | None:
    try:
        pods = await provider.pods()
    except ProviderError as error:
        raise TerminationUnverified(
            f"nobody can say whether {owned.name} exists",
            why="; ".join(error.lines()),
            fix="It is looked for again at the next start.",
        ) from None
    return next((pod for pod in pods if pod.name == owned.name), None) or await find_in_history(provider, name=owned.name)


def _never(owned: PodRecord, provider: Provider, ledger: Ledger, why: str) -> Pod:
    if owned.state != "never" and owned.state != "ended" and time.time() - owned.created < UNSEEN_GRACE:
        raise TerminationUnverified(
            f"{owned.name} was asked for a moment ago, and is not there yet",
            why="Its creation may still come to pass.",
            fix="It is looked for again at the next start; `hudtui pods reconcile` looks now.",
        )
    ledger.note(owned.name, "never", why=why)
    return Pod(provider.name, "", owned.name, "gone")


async def _end(provider: Provider, pod_id: str, seen: Pod | None, sleep: Sleep) -> tuple[Pod | None, ProviderError | None]:
    """The machine as it was seen last, and why nobody can say that it is gone (None: it is)."""
    problem: ProviderError | None = None
    going = 0
    for pause in _PAUSES:
        await sleep(pause)
        try:
            if seen is None:  # to know that it is one of this account's
                seen = await provider.get(pod_id)
            if not going:
                await provider.terminate(pod_id)
            now = await provider.get(pod_id)
            listed = any(pod.id == pod_id and pod.alive for pod in await provider.pods())
        except AuthError as error:
            return seen, error
        except ProviderError as error:
            problem, going = error, 0
            continue
        if not listed and (now is None or not now.alive):
            if seen is None and now is None and await find_in_history(provider, pod=pod_id) is None:
                return None, ProviderError(
                    "this account does not know it, neither among the living nor in its history",
                    fix="Is this the key of the account that it was rented with?",
                )
            return now or seen, None
        seen = now or seen
        going = (going + 1) % _GOING if now is not None and now.status.startswith("DELETING") else 0
        problem = ProviderError(f"{provider.title} lists it still" + (f" as {clean_line(now.status)}" if now else ""))
    return seen, problem


async def _with_bill(pod: Pod, provider: Provider, sleep: Sleep | None) -> Pod:
    for pause in _BILL_PAUSES:
        if sleep is not None:
            await sleep(pause)
        row = await find_in_history(provider, pod=pod.id or None, name=pod.name)
        if row is not None:
            terminated = row.terminated or pod.terminated
            return replace(
                pod, id=row.id, stage="gone", terminated=terminated, billed=row.billed, estimated=row.estimated, addresses=()
            )
        if sleep is None:
            break
    return replace(pod, stage="gone", addresses=())
