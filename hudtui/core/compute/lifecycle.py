"""Getting one machine: written down before it is asked for, never asked for twice, ready when somebody has logged in to it.

    intended -> (request) -> created or adopted -> waiting -> installing -> trying -> ready

Whatever stops this on the way (an error, the user, a crash) leaves no machine that nobody knows: it is ended and that is
verified, or the ledger has it and the next start goes on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from hudtui.core.compute.budget import grant_new
from hudtui.core.compute.costs import HOUR, charge_text
from hudtui.core.compute.doors import Login, LoginAttempts
from hudtui.core.compute.limits import Limits, money
from hudtui.core.compute.pods import Ledger, PodRecord
from hudtui.core.compute.provider import AuthError, OutcomeUnknown, PodGone, Provider, ProviderError, ProvisionFailed
from hudtui.core.compute.release import (
    UNSEEN_GRACE,
    Sleep,
    TerminationUnverified,
    endpoint_of,
    find_in_history,
    mark_terminated,
    terminate_pod,
)
from hudtui.core.compute.values import Offer, Order, Pod
from hudtui.core.errors import HudtuiError, InputError, MachineError
from hudtui.core.remote.host import Host
from hudtui.core.text import clean_line

__all__ = [
    "PREFIX",
    "Login",
    "PodGone",
    "ProvisionFailed",
    "ProvisionStep",
    "TerminationUnverified",
    "acquire",
    "resume",
    "terminate_pod",
    "unique_name",
]

ProvisionStage = Literal["intended", "created", "adopted", "waiting", "installing", "trying", "ready"]

PREFIX = "hudtui-"
"""How the names of all machines begin that are rented by this program."""
_LONGEST = 30
_LETTERS = "bcdfghjkmnpqrstvwxyz23456789"

_LOOKS = (0.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0)
"""Seconds before each look for a machine whose creation is unclear."""


@dataclass(frozen=True)
class ProvisionStep:
    """A step on the way to a machine."""

    kind: ProvisionStage
    at: float
    """Seconds since the epoch."""
    pod: Pod | None
    """As it is known now; with `ready`, its first address is the one that was logged in to."""
    host: Host | None
    """With `ready` alone."""
    text: str
    """One line for people."""


def unique_name(stem: str) -> str:
    """A name that no machine has: at most 30 letters, digits and dashes, with `stem` to know it by."""
    word = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[: _LONGEST - len(PREFIX) - 9].strip("-")
    mark = "".join(secrets.choice(_LETTERS) for _ in range(8))
    return PREFIX + (f"{word}-{mark}" if word else mark)


async def acquire(
    order: Order,
    provider: Provider,
    ledger: Ledger,
    *,
    login: Login,
    limits: Limits | None = None,
    tail: float = 0.0,
    run: str | None = None,
    workspace: Path | str | None = None,
    account: str | None = None,
    timeout: float = 1800.0,
    patience: float = 900.0,
    sleep: Sleep = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
    say: Callable[[str], None] | None = None,
) -> AsyncGenerator[ProvisionStep, None]:
    """Rent the machine that was chosen, or nothing, and wait until it can be used.

    Cancelling, or leaving the loop before `ready`, ends what was created. From `ready` on the machine is the caller's: it
    costs money until `release`.

    Args:
        order: What to rent, under a name from `unique_name`.
        provider: Where.
        ledger: Where it is written down first.
        login: How to log in.
        limits: What it may cost. The day's budget is for all machines: what others may still cost is not there for this one. The
            ledger's `PodRecord.until` says when its guard has to end it.
        tail: Seconds between the moment at which its limits stop the work on it and the one at which its guard ends it.
        run: The run that it is for.
        workspace: The project that the run belongs to.
        account: Whose money it is, as the provider names the account, where that is known.
        timeout: Seconds from creation to readiness, after which it is ended again.
        patience: Seconds without any change after which it counts as stuck, and is ended again. Twice the time that the provider
            estimates, where that is more.
        sleep: Waits.
        clock: Seconds, for the limits above.
        say: Told what became of the machine when this was cancelled, and nobody listens to steps any more.

    Yields:
        Steps; the last one is `ready`, with pod and host.

    Raises:
        OutOfCapacity, InsufficientFunds, AuthError: Nothing was created.
        OutcomeUnknown: It may have been created; it has not been seen, and is looked for again at the next start.
        ProvisionFailed, PodGone: It was created and is ended; `fix` says what became of it.
        TerminationUnverified: It could not be ended, and may still cost money.
        ProviderError: It was refused; nothing was created.
        BudgetExceeded: The day's budget has no room for it; nothing was asked for.
        InputError: The name was used before, or the offer cannot be had as it was ordered; nothing was asked for.
        MachineError: The ledger cannot be written; nothing was asked for.
    """
    getting = _Getting(order.name, provider, ledger, login, timeout, patience, sleep, clock, say)
    realm = endpoint_of(provider)
    grant = None if limits is None else grant_new(order.name, order.offer.price, realm, limits, tail=tail)
    writing = asyncio.ensure_future(
        asyncio.to_thread(
            ledger.reserve,
            order,
            provider=provider.name,
            realm=realm,
            run=run,
            workspace=workspace,
            account=account,
            grant=grant,
        )
    )
    try:
        owned = await asyncio.shield(writing)
    except asyncio.CancelledError:
        writing.add_done_callback(lambda done: _unwanted(done, ledger))  # a thread goes on, whoever waits for it
        raise
    if owned.until is not None:
        order = replace(order, max_hours=max(owned.until - owned.created, 0.0) / HOUR)
    try:
        yield _step("intended", f"asking {provider.title} for {_words(order.offer)} as {order.name}")
        pod, kind = await getting.create(order)
        yield _step(kind, getting.created(pod, order.offer), pod)
        async with contextlib.aclosing(getting.wait(pod)) as steps:
            async for step in steps:
                yield step
    except BaseException as error:
        await getting.abandon(error)
        raise
    finally:
        ledger.unclaim(order.name)
    assert getting.last is not None
    try:
        yield getting.last
    finally:
        getting.hand_over()


async def resume(
    owned: PodRecord,
    provider: Provider,
    ledger: Ledger,
    *,
    login: Login,
    timeout: float = 1800.0,
    patience: float = 900.0,
    sleep: Sleep = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
    say: Callable[[str], None] | None = None,
) -> AsyncGenerator[ProvisionStep, None]:
    """Go on with getting a machine that the ledger has, after a crash. It is never asked for again.

    Args: as for `acquire`.

    Yields:
        Steps; the last one is `ready`.

    Raises:
        ProviderError: Another living process has it, it was never created, or its end was asked for already; and as `acquire`.
    """
    if not owned.open or owned.state == "ending":
        raise ProviderError(f"{owned.name} cannot be gone on with: it is {owned.state}", why=owned.why)
    if not ledger.claim(owned.name):
        raise ProviderError(f"{owned.name} is being got by another hudtui on this machine")
    getting = _Getting(owned.name, provider, ledger, login, timeout, patience, sleep, clock, say)
    getting.asked = True
    try:
        pod = await provider.get(owned.pod) if owned.pod else await getting.look(owned.created)
        if pod is None:
            await mark_terminated(owned, provider, ledger)
            getting.settled = True
            raise PodGone(f"{owned.name} is gone", why=f"{provider.title} does not know it any more")
        ledger.note(owned.name, "created", pod=pod.id, last=pod)
        getting.pod = pod
        yield _step("adopted", f"found {owned.name} again: {pod.status or pod.stage}", pod)
        async with contextlib.aclosing(getting.wait(pod)) as steps:
            async for step in steps:
                yield step
    except BaseException as error:
        await getting.abandon(error)
        raise
    finally:
        ledger.unclaim(owned.name)
    assert getting.last is not None
    try:
        yield getting.last
    finally:
        getting.hand_over()


def _unwanted(written: asyncio.Future[PodRecord], ledger: Ledger) -> None:
    """Take back what was written down of a machine whose order was cancelled at that moment."""
    if not written.cancelled() and written.exception() is None:
        with contextlib.suppress(MachineError):
            ledger.note(written.result().name, "never", why="cancelled before it was asked for")


_ABANDONED: set[asyncio.Future[Any]] = set()
"""Attempts that are being ended."""


async def wait_for_cleanup() -> None:
    """Wait until every attempt that was broken off has come to its end. The end of the loop would cut it short."""
    loop = asyncio.get_running_loop()
    while waiting := [work for work in _ABANDONED if work.get_loop() is loop]:
        await asyncio.wait(waiting)


class _Getting:
    """One machine on its way."""

    def __init__(
        self,
        name: str,
        provider: Provider,
        ledger: Ledger,
        login: Login,
        timeout: float,
        patience: float,
        sleep: Sleep,
        clock: Callable[[], float],
        say: Callable[[str], None] | None,
    ) -> None:
        self.name, self.provider, self.ledger, self.login = name, provider, ledger, login
        self.timeout, self.patience, self.sleep, self.clock, self.say = timeout, patience, sleep, clock, say
        self.asked = False
        """The request was begun, so there may be a machine."""
        self.settled = False
        """The ledger knows the end of it."""
        self.request: asyncio.Future[Pod] | None = None
        self.pod: Pod | None = None
        self.last: ProvisionStep | None = None

    # --- creation ---

    async def create(self, order: Order) -> tuple[Pod, ProvisionStage]:
        """Ask for the machine, once; a machine that was created by a request whose answer was lost is found by its name."""
        self.asked = True
        self.patience = max(self.patience, 120.0 * (order.offer.setup_minutes or 0.0))
        self.request = asyncio.ensure_future(self.provider.create(order))
        try:
            pod = await asyncio.shield(self.request)  # cancelled in the middle, nobody could say whether it was carried out
        except OutcomeUnknown as error:
            return await self.look(None, error), "adopted"
        except (ProviderError, InputError) as error:
            self.ledger.note(self.name, "never", why=error.what)
            self.settled = True
            raise
        return pod, "created"

    def created(self, pod: Pod, offer: Offer) -> str:
        """Take note of a machine that exists, and compare it with what was chosen."""
        self.pod = pod
        self.ledger.note(self.name, "created", pod=pod.id, last=pod)
        if _another(pod.gpu_type, offer.gpu_type) or (pod.gpu_count and offer.gpu_count and pod.gpu_count != offer.gpu_count):
            raise ProvisionFailed(
                f"{self.name} is not the machine that was chosen",
                why=f"chosen: {_words(offer)}; given: {pod.gpu_count} x {clean_line(pod.gpu_type)}",
            )
        text = f"{self.name} is created as {clean_line(pod.id)}"
        if pod.hourly is not None and offer.price.stated and pod.hourly > offer.price.hourly * 1.01:
            stated = money(offer.price.hourly, offer.price.currency)
            text += f"; it costs {money(pod.hourly, pod.currency)} an hour, not {stated}"
        return text

    async def look(self, since: float | None, cause: ProviderError | None = None) -> Pod:
        """The machine of our name, whose creation is unclear: looked for again and again, never asked for again.

        Args:
            since: When it was asked for (seconds since the epoch); None: just now.
            cause: Why it is unclear.

        Raises:
            OutcomeUnknown: It was not seen, and may still come.
            Gone: It was there and has ended.
            ProviderError: It was asked for so long ago that it will not come.
        """
        trouble = cause
        for pause in _LOOKS:
            await self.sleep(pause)
            try:
                found = next((pod for pod in await self.provider.pods() if pod.name == self.name), None)
            except ProviderError as error:
                trouble = error
                continue
            if found is not None:
                return found
            trouble = cause
            if since is not None and time.time() - since > UNSEEN_GRACE:
                break
        ended = await find_in_history(self.provider, name=self.name)
        if ended is not None:
            self.ledger.note(
                self.name,
                "ended",
                pod=ended.id,
                ended=ended.terminated,
                billed=ended.bill,
                why="it had ended when it was found",
            )
            self.settled = True
            raise PodGone(f"{self.name} was created, and has ended already")
        if since is not None and time.time() - since > UNSEEN_GRACE and trouble is cause:
            self.ledger.note(self.name, "never", why="it was never seen")
            self.settled = True
            raise ProviderError(f"{self.name} was never created")
        self.settled = True  # stays `intended`: nobody can say more now
        raise OutcomeUnknown(
            f"nobody can say whether {self.name} was created",
            why="; ".join(trouble.lines()) if trouble else None,
            fix=f"None of that name was seen for {sum(_LOOKS):.0f} s. It was not asked for again; it is looked for at every "
            "start, and by `hudtui pods reconcile`.",
        )

    # --- readiness ---

    async def wait(self, pod: Pod) -> AsyncGenerator[ProvisionStep, None]:
        """Follow the machine until somebody is logged in to it."""
        began = changed = self.clock()
        before: tuple[object, ...] = ()
        doors = LoginAttempts(self.login, self.clock)
        while True:
            state = (pod.stage, pod.status, pod.progress, bool(pod.addresses))
            if state != before:
                before, changed = state, self.clock()
                kind, text = _told(pod)
                yield _step(kind, text, pod)
            if pod.stage == "failed":
                raise ProvisionFailed(f"{self.name} failed: {clean_line(pod.failure or pod.status)}")
            if pod.stage == "ready" and pod.addresses:
                let_in = await doors.try_login(pod)
                if let_in is not None:
                    pod, host = let_in
                    self.ledger.note(self.name, "ready", pod=pod.id, last=pod)
                    self.last = _step("ready", f"{self.name} is ready: {pod.addresses[0]}", pod, host)
                    return
                if doors.news:
                    yield _step("trying", doors.news, pod)
            now = self.clock()
            if now - began > self.timeout:
                raise ProvisionFailed(
                    f"{self.name} was not ready after {(now - began) / 60:.0f} min", why=f"its last state: {_told(pod)[1]}"
                )
            if now - changed > self.patience and pod.stage != "ready":
                raise ProvisionFailed(
                    f"{self.name} is stuck: {_told(pod)[1]}", why=f"nothing has changed for {(now - changed) / 60:.0f} min"
                )
            interval = 5.0 if pod.stage == "ready" or now - began < 120 else 10.0 if now - began < 600 else 15.0
            await self.sleep(_until_beat(now, interval))
            try:
                pod = self.pod = await self._again(pod)
            except (PodGone, ProvisionFailed, AuthError):
                raise
            except ProviderError as error:
                yield _step("waiting", f"{error.what}; asking again", pod)

    async def _again(self, pod: Pod) -> Pod:
        """The machine as it is now."""
        found = next((item for item in await self.provider.status([pod.id]) if item.id == pod.id), None)
        if found is None:  # left out is not gone: ask for this one
            found = await self.provider.get(pod.id)
        if found is None or found.stage == "gone":
            owned = self.ledger.get(self.name)
            if owned is not None:
                await mark_terminated(owned, self.provider, self.ledger, pod=found or pod)
            self.settled = True
            if found is not None and found.failure:
                raise ProvisionFailed(
                    f"{self.name} failed: {clean_line(found.failure, 300)}", fix="It is gone; nothing is left of it."
                )
            raise PodGone(
                f"{self.name} is gone: it was taken back, or ended elsewhere",
                why=f"{self.provider.title} "
                + ("does not know it any more" if found is None else f"calls it {clean_line(found.status)}"),
                fix="Spot machines can be taken away at any moment: choose another offer."
                if pod.spot
                else "Is there money left? `hudtui wallet` says so. Otherwise choose another offer.",
            )
        return replace(found, name=found.name or pod.name, hourly=pod.hourly if found.hourly is None else found.hourly)

    def hand_over(self) -> None:
        """The machine is the caller's now. One who is cancelled at this very moment has it all the same, and is told so."""
        task = asyncio.current_task()
        if self.say is not None and task is not None and task.cancelling():
            self.say(f"{self.name} is ready, and stays: it costs money until `hudtui pods terminate {self.name}`")

    # --- the end of a failed or cancelled attempt ---

    async def abandon(self, error: BaseException) -> None:
        """End what may have been created, and say what became of it; the error that led here is raised by the caller."""
        work = asyncio.ensure_future(self._abandon(error))
        _ABANDONED.add(work)  # a second cancellation ends the waiting for it, not the work
        work.add_done_callback(_ABANDONED.discard)
        outcome, problem = await asyncio.shield(work)
        if self.say is not None and outcome and not isinstance(error, HudtuiError):
            self.say(outcome)
        if isinstance(problem, TerminationUnverified) and isinstance(error, HudtuiError):
            raise TerminationUnverified(problem.what, why=f"{error.what}; {problem.why}", fix=problem.fix) from error
        if isinstance(error, HudtuiError) and outcome:
            error.fix = f"{outcome} {error.fix}" if error.fix else outcome

    async def _abandon(self, error: BaseException) -> tuple[str, HudtuiError | None]:
        if self.settled:
            return "", None
        if not self.asked:
            self.ledger.note(self.name, "never", why="cancelled before it was asked for")
            return f"{self.name} was not asked for.", None
        why = error.what if isinstance(error, HudtuiError) else "cancelled"
        try:
            pod = self.pod or await self._requested()
            if pod is None:
                return f"{self.name} was not created.", None
            with contextlib.suppress(MachineError):  # a ledger that cannot be written must not keep it alive
                self.ledger.note(self.name, "created", pod=pod.id, hourly=pod.hourly)
            ended = await terminate_pod(pod, self.provider, self.ledger, why=why, sleep=self.sleep)
        except HudtuiError as problem:
            return f"{problem.what}. {problem.fix or ''}".strip(), problem
        cost = charge_text(ended)
        bill = "" if cost is None else f" It has cost {cost}."
        return f"{self.name} was ended, and that was verified.{bill}", None

    async def _requested(self) -> Pod | None:
        """What the request that was begun has led to; None: nothing was created."""
        if self.request is None:
            return await self.look(None)
        try:
            return await self.request
        except OutcomeUnknown as error:
            return await self.look(None, error)
        except (ProviderError, InputError) as error:
            self.ledger.note(self.name, "never", why=error.what)
            return None


def _another(given: str, chosen: str) -> bool:
    """It is another GPU, and not the same one in other words: `H100_80GB`, `H100 80GB`, `NVIDIA H100`."""
    one, other = (
        re.sub(r"[^a-z0-9]", "", re.sub(r"_?\d+ ?GB$", "", text, flags=re.IGNORECASE).lower()) for text in (given, chosen)
    )
    return bool(one and other) and one not in other and other not in one


def _told(pod: Pod) -> tuple[ProvisionStage, str]:
    word = clean_line(pod.status) or pod.stage
    if pod.stage == "ready" and pod.addresses:
        return "trying", f"logging in to {pod.addresses[0]}"
    if pod.stage in ("installing", "ready"):
        return "installing", f"installing: {word}" + ("" if pod.progress is None else f", {pod.progress} %")
    return "waiting", f"waiting for the machine: {word}"


def _until_beat(now: float, interval: float) -> float:
    """Seconds to the next multiple of `interval`: many that wait at once ask at the same moments, and so in one request."""
    pause = interval - now % interval
    return pause if pause >= 1.0 else pause + interval


def _step(kind: ProvisionStage, text: str, pod: Pod | None = None, host: Host | None = None) -> ProvisionStep:
    return ProvisionStep(kind, time.time(), pod, host, text)


def _words(offer: Offer) -> str:
    gpus = f"{offer.gpu_count} x {offer.gpu_type}" if offer.gpu_count else "a machine without GPU"
    return clean_line(f"{gpus} at {offer.cloud}" if offer.cloud else gpus)
