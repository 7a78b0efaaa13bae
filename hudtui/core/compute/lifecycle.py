"""The life of a rented pod.

Written down before it is requested, requested at most once, logged in to, ended and verified.
    intended -> (request) -> created or adopted -> waiting -> installing -> trying -> ready

Whatever stops this on the way (an error, the user, a crash) leaves no unknown pod: either the pod
is ended and its end is verified, or the ledger has its record and the next start continues from
there.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

from hudtui.core.compute.budget import grant_new
from hudtui.core.compute.costs import HOUR, charge_text, pod_cost
from hudtui.core.compute.gpus import GpuKind, kind_of
from hudtui.core.compute.hardware import NO_DEVICES, find_gpus
from hudtui.core.compute.limits import Limits
from hudtui.core.compute.pods import UNGUARDED, Ledger, PodRecord, price_facts
from hudtui.core.compute.provider import (
    AuthError,
    OutcomeUnknown,
    PodGone,
    Provider,
    ProviderError,
    ProvisionFailed,
)
from hudtui.core.compute.values import Offer, Order, Pod
from hudtui.core.errors import HudtuiError, InputError, MachineError
from hudtui.core.process import process_mark
from hudtui.core.remote.host import Host, LoginRefused
from hudtui.core.remote.known_hosts import HostKeyChanged
from hudtui.core.text import clean_line, money, plural

T = TypeVar("T")
ProvisionStage = Literal[
    "intended", "created", "adopted", "waiting", "installing", "trying", "ready"
]
Sleep = Callable[[float], Awaitable[None]]
Login = Callable[[Pod, int], Awaitable[Host]]
"""Logs in to one of a pod's addresses, by its number: that of a machine. `LoginRefused` means that
no key was accepted (yet)."""

PREFIX = "hudtui-"
"""The names of all pods that hudtui rents begin with it."""
UNSEEN_GRACE = 120.0
"""Seconds after which a pod whose creation is unclear, and that never appeared, was not created."""
_LONGEST_NAME = 30
_NAME_LETTERS = "bcdfghjkmnpqrstvwxyz23456789"
_LOOKUP_PAUSES = (0.0, 2.0, 3.0, 5.0, 10.0, 20.0, 30.0)
"""Seconds before each search for a pod whose creation is unclear."""
_KEY_PATIENCE = 130.0
"""Seconds for which a rejected key may yet be accepted: users report up to 90."""
_LOGIN_PATIENCE = 300.0
"""Seconds for which a pod that its provider calls ready may not answer, or may lack the logins of
some of its machines: all of them are paid for meanwhile."""
_LOGIN_TIMEOUT = 90.0
_USERS = ("root", "ubuntu")
"""Users to try when the user that the provider named is rejected."""
_TERMINATE_PAUSES = (0.0, 2.0, 3.0, 5.0, 5.0, 10.0, 10.0, 15.0, 15.0, 30.0, 30.0)
"""Seconds before each request for the end of a pod and the check whether it has ended: two minutes
together."""
_BILL_PAUSES = (0.0, 2.0, 5.0)
_CHECKS_WHILE_DELETING = 3
"""The end of a pod that says it is being deleted is requested again after so many checks."""


class EndUnrecorded(MachineError):
    """A pod has ended, which was verified, and the ledger cannot be written."""


class TerminationUnverified(ProviderError):
    """A pod may not have ended: it may still cost money."""


@dataclass(frozen=True)
class ProvisionStep:
    """A step on the way to a usable pod."""

    kind: ProvisionStage
    at: float
    """Seconds since the epoch."""
    pod: Pod | None
    """The pod as it is known now; with `ready`, its first address is the address of the login."""
    hosts: tuple[Host, ...]
    """The connections with its machines; with `ready` alone."""
    text: str
    """One line for people."""

    @property
    def host(self) -> Host | None:
        """Return the connection with its first machine."""
        return self.hosts[0] if self.hosts else None


def unique_name(stem: str) -> str:
    """A name that no pod has.

    At most 30 letters, digits and dashes, with `stem` to recognise it by.
    """
    word = (
        re.sub(r"[^a-z0-9]+", "-", stem.lower())
        .strip("-")[: _LONGEST_NAME - len(PREFIX) - 9]
        .strip("-")
    )
    mark = "".join(secrets.choice(_NAME_LETTERS) for _ in range(8))
    return PREFIX + (f"{word}-{mark}" if word else mark)


async def run_shielded(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end even if the caller is cancelled meanwhile, any number of times.

    Raises:
        CancelledError: The caller was cancelled; `work` has ended by then.
        Exception: What `work` raises.
    """
    task, cancelled = asyncio.ensure_future(work), None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # marks it as read
    raise cancelled


# --- from the order to the login ------------------------------------------------------------------


def acquire(
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
    """Rent the chosen pod, or nothing, and wait until it can be used.

    A cluster is one pod: it can be used when each of its machines can.

    Cancelling, or leaving the loop before `ready`, ends what was created. From `ready` on the pod
    belongs to the caller: it costs money until `terminate_pod`.

    Args:
        order: What to rent, under a name from `unique_name`.
        provider: Where to rent it.
        ledger: Where the pod is written down first.
        login: Logs in to a machine of the pod.
        limits: What the pod may cost. The day's budget is shared with all other pods.
            `PodRecord.until` is the moment at which its watchdog has to end it.
        tail: Seconds between the moment at which its limits stop the work on it and the one at
            which its watchdog ends it.
        run: The run that it is for.
        workspace: The project that the run belongs to.
        account: The account that pays, as the provider names it, where that is known.
        timeout: Seconds from creation to readiness; after them the pod is ended.
        patience: Seconds without any change after which the pod counts as stuck, and is ended.
            Twice the time that the provider estimates, where that is more.
        sleep: Waits.
        clock: Seconds, for `timeout` and `patience`.
        say: Receives what became of the pod if this is cancelled, when the steps have no reader any
            more.

    Yields:
        Steps; the last one is `ready`, with pod and hosts.

    Raises:
        OutOfCapacity, InsufficientFunds, AuthError: Nothing was created.
        OutcomeUnknown: It may have been created; it has not been seen, and the next start looks for
            it again.
        ProvisionFailed, PodGone: It was created and is ended; `fix` says what became of it.
        TerminationUnverified: It could not be ended, and may still cost money.
        ProviderError: The order was refused; nothing was created.
        BudgetExceeded: The day's budget has no room for it; nothing was requested.
        InputError: The name was used before, or the offer cannot be had as it was ordered; nothing
            was requested.
        MachineError: The ledger cannot be written; nothing was requested.
    """
    attempt = _Attempt(order.name, provider, ledger, login, timeout, patience, sleep, clock, say)
    return attempt.steps(
        attempt.rent(order, limits, tail, run=run, workspace=workspace, account=account)
    )


def resume(
    record: PodRecord,
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
    """Continue preparing a pod that the ledger has, after a crash.

    The pod is never requested again.
    Args: as for `acquire`.

    Raises:
        ProviderError: Another living process prepares it, it was never created, or it is ending;
            and as `acquire`.
    """
    attempt = _Attempt(record.name, provider, ledger, login, timeout, patience, sleep, clock, say)
    return attempt.steps(attempt.adopt(record))


@dataclass(eq=False)
class _Attempt:
    """One pod on its way from the order to the login."""

    name: str
    provider: Provider
    ledger: Ledger
    login: Login
    timeout: float
    patience: float
    sleep: Sleep
    clock: Callable[[], float]
    say: Callable[[str], None] | None
    claimed: bool = False
    """The ledger has a record that this process claims."""
    requested: bool = False
    """The request was begun, so a pod may exist."""
    outcome: str | None = None
    """How it ended, for people, when the ledger has the end of it; None while there may be
    something to clean up."""
    asked_at: float | None = None
    """When an earlier process requested the pod, in seconds since the epoch; None: this process
    did."""
    unclear: ProviderError | None = None
    """Why it is not known whether the request created a pod."""
    pod: Pod | None = None
    hosts: tuple[Host, ...] = ()
    run: str | None = None
    """The run that it is for, whose manager puts a guard onto the pod, or ends it."""
    offer: Offer | None = None
    """What was chosen; None where a record does not say it."""

    async def steps(
        self, beginning: AsyncGenerator[ProvisionStep, None]
    ) -> AsyncGenerator[ProvisionStep, None]:
        """The steps of `beginning`, which leads to a pod, then those until the login.

        What fails or is left is cleaned up.
        """
        try:
            for part in (beginning, self.wait()):
                async with aclosing(part):
                    async for step in part:
                        yield step
        except BaseException as error:
            await self.clean_up(error)
            raise
        assert self.pod is not None
        try:
            yield self.step("ready", f"{self.name} is ready: {self.pod.addresses[0]}")
        finally:
            # From here on the pod belongs to the caller, also if the caller is cancelled at this
            # very moment. It is claimed until the caller goes on: were it killed before, the next
            # start would find a pod that nobody was told of.
            try:
                with contextlib.suppress(MachineError):
                    await run_shielded(self.ledger.run(self.ledger.unclaim, self.name))
            finally:
                task = asyncio.current_task()
                if (
                    self.say is not None
                    and self.run is None
                    and task is not None
                    and task.cancelling()
                ):
                    self.say(
                        f"{self.name} is ready, and stays: it costs money until `hudtui pods "
                        f"terminate {self.name}`"
                    )

    def step(self, kind: ProvisionStage, text: str) -> ProvisionStep:
        hosts = self.hosts if kind == "ready" else ()
        return ProvisionStep(kind, time.time(), self.pod, hosts, text)

    @property
    def nodes(self) -> int:
        """Return how many machines were chosen."""
        return 1 if self.offer is None else self.offer.nodes

    async def update(self, state: Any, **facts: Any) -> None:
        await self.ledger.run(self.ledger.update, self.name, state, **facts)

    # --- creation ---

    async def rent(
        self,
        order: Order,
        limits: Limits | None,
        tail: float,
        *,
        run: str | None,
        workspace: Path | str | None,
        account: str | None,
    ) -> AsyncGenerator[ProvisionStep, None]:
        """Write the pod down and request it."""
        endpoint, self.run, self.offer = self.provider.endpoint, run, order.offer
        grant = (
            None
            if limits is None
            else grant_new(order.name, order.offer.price, endpoint, limits, tail=tail)
        )

        def reserve() -> PodRecord:
            facts: dict[str, Any] = {
                "run": run,
                "workspace": workspace,
                "account": account,
                "limits": limits,
            }
            record = self.ledger.reserve(
                order, provider=self.provider.name, endpoint=endpoint, grant=grant, **facts
            )
            self.claimed = (
                True  # also if the caller is cancelled meanwhile and never sees the record
            )
            return record

        record = await self.ledger.run(reserve)
        if record.until is not None:
            order = replace(order, max_hours=max(record.until - record.created, 0.0) / HOUR)
        yield self.step(
            "intended",
            f"asking {self.provider.title} for {offer_title(order.offer)} as {order.name}",
        )
        self.requested = True
        self.patience = max(self.patience, 120.0 * (order.offer.setup_minutes or 0.0))
        # A request that is cut off in the middle may or may not have been carried out.
        await run_shielded(self._request(order))
        created = self.pod is not None
        pod = self.pod = self.pod or await self.look()
        await self.update("created", pod=pod.id, last=pod)
        self.compare(pod)
        yield self.step(
            "created" if created else "adopted",
            f"{self.name} is created as {clean_line(pod.id)}{_dearer(pod, order)}",
        )

    async def _request(self, order: Order) -> None:
        try:
            self.pod = await self.provider.create(order)
        except OutcomeUnknown as error:
            self.unclear = error
        except (ProviderError, InputError) as error:
            self.outcome = f"{self.name} was not created."
            with contextlib.suppress(MachineError):  # the next start finds that out
                await self.update("never", why=error.what)
            raise

    async def adopt(self, record: PodRecord) -> AsyncGenerator[ProvisionStep, None]:
        """Find the pod of a record."""
        if not record.open or record.state == "ending":
            raise ProviderError(
                f"{record.name} cannot be prepared any further: it is {record.state}",
                why=record.why,
            )

        def claim() -> None:
            self.claimed = self.ledger.claim(record.name)

        await self.ledger.run(claim)
        if not self.claimed:
            raise ProviderError(
                f"{record.name} is being prepared by another hudtui on this machine"
            )
        self.requested, self.asked_at, self.run = True, record.created, record.run
        self.offer = record.order.offer if record.order is not None else None
        pod = await self.provider.get(record.pod) if record.pod else await self.look()
        if pod is None:
            self.outcome = f"{self.name} is gone."
            with contextlib.suppress(MachineError):
                await mark_terminated(record, self.provider, self.ledger)
            raise PodGone(f"{record.name} is gone", why=f"{self.provider.title} no longer knows it")
        self.pod = pod
        await self.update("created", pod=pod.id, last=pod)
        yield self.step("adopted", f"found {record.name} again: {pod.status or pod.stage}")

    async def look(self) -> Pod:
        """Find the pod by its name after a request whose outcome is unknown.

        The pod is never requested again.

        Raises:
            OutcomeUnknown: It has not appeared, and may still appear.
            PodGone: It existed and has ended.
            ProviderError: It was requested so long ago that it will not appear.
        """
        trouble = self.unclear
        for pause in _LOOKUP_PAUSES:
            await self.sleep(pause)
            try:
                found = await self.provider.find(self.name)
            except ProviderError as error:
                trouble = error
                continue
            if found is not None:
                return found
            trouble = self.unclear
            if self._too_old:
                break
        if (ended := await find_in_history(self.provider, name=self.name)) is not None:
            why = "it had ended when it was found"
            self.outcome = f"{self.name} has ended already."
            with contextlib.suppress(MachineError):
                await self.update("ended", **end_facts(ended), why=why)
            raise PodGone(f"{self.name} was created, and has ended already")
        if self._too_old and trouble is self.unclear:
            self.outcome = f"{self.name} was not created."
            with contextlib.suppress(MachineError):
                await self.update("never", why="it was never seen")
            raise ProviderError(f"{self.name} was never created")
        # its record stays `intended`
        self.outcome = f"It could not be confirmed that {self.name} was created."
        raise OutcomeUnknown(
            f"it could not be confirmed whether {self.name} was created",
            why="; ".join(trouble.lines()) if trouble else None,
            fix=f"No machine of that name appeared within {sum(_LOOKUP_PAUSES):.0f} s. It was not "
            "asked for again; it is looked for at every start, and by `hudtui pods "
            "reconcile`.",
        )

    @property
    def _too_old(self) -> bool:
        return self.asked_at is not None and time.time() - self.asked_at > UNSEEN_GRACE

    # --- readiness ---

    def compare(self, pod: Pod) -> None:
        """Compare what the provider says of the pod with what was chosen.

        Raises:
            ProvisionFailed: It is another machine.
        """
        told = f"{pod.gpu_count or ''} x {pod.gpu_type} {pod.socket}".removeprefix(" x ")
        self._require_chosen((kind_of(pod.gpu_type, socket=pod.socket),), pod.gpu_count, told)
        if 1 < self.nodes < len(pod.addresses):
            self._refuse_given(f"{len(pod.addresses)} machines")

    async def look_inside(self, pod: Pod, node: int) -> None:
        """Compare the GPUs that the driver on a machine of the pod finds with what was chosen.

        A driver that does not work says nothing.

        Raises:
            ProvisionFailed: It is another machine.
        """
        gpus, complaint = await find_gpus(self.hosts[node])
        machines = max(self.nodes, _machines(pod))
        which = f" on machine {node} of {machines}" if machines > 1 else ""
        if complaint is not None and NO_DEVICES in complaint:
            self._require_chosen((kind_of("CPU_NODE"),), 0, f"no GPU{which}, by its driver")
        if gpus:
            kinds = [
                kind_of(gpu.name, None if gpu.memory_mib is None else gpu.memory_mib / 1024)
                for gpu in gpus
            ]
            size = (
                "" if gpus[0].memory_mib is None else f" with {gpus[0].memory_mib / 1024:.0f} GiB"
            )
            told = f"{len(gpus)} x {gpus[0].name}{size}{which}, by its driver"
            self._require_chosen(kinds, len(gpus) * self.nodes, told)

    def _require_chosen(self, given: Sequence[GpuKind], count: int, told: str) -> None:
        offer = self.offer
        if offer is None:
            return
        chosen = kind_of(offer.gpu_type, offer.gpu_memory, offer.socket)
        others = [kind for kind in given if kind.differs(chosen)]
        if (
            not self.provider.features.paid
        ):  # the user's own machine may have more than what was chosen of it
            others = others if len(others) == len(given) else []
        elif 0 < count != offer.gpu_count > 0:
            others = [*given]
        if others:
            self._refuse_given(told)

    def _refuse_given(self, told: str) -> NoReturn:
        assert self.offer is not None
        socket = f" {self.offer.socket}" if self.offer.socket else ""
        raise ProvisionFailed(
            f"{self.name} is not the machine that was chosen",
            why=clean_line(f"chosen: {offer_title(self.offer)}{socket}; given: {told}"),
        )

    async def wait(self) -> AsyncGenerator[ProvisionStep, None]:
        """Follow the pod until a login to each of its machines succeeds."""
        assert self.pod is not None
        began = changed = self.clock()
        before: tuple[object, ...] = ()
        logins = [LoginAttempts(self.login, self.clock, node) for node in range(self.nodes)]
        arrived = False
        while True:
            pod = self.pod
            self.compare(pod)
            complete = _is_complete(pod, self.nodes)
            state = (pod.stage, pod.status, pod.progress, min(_machines(pod), self.nodes))
            if state != before:
                before, changed = state, self.clock()
                yield self.step(*_pod_state(pod, self.nodes))
            if pod.stage == "failed":
                raise ProvisionFailed(
                    f"{self.name} failed: {clean_line(pod.failure or pod.status)}"
                )
            if complete:
                if not arrived:
                    arrived = True
                    self.compare(await self._whole(pod))
                pod, news = await self._enter(pod, logins)
                if len(self.hosts) == self.nodes:
                    self.pod = pod
                    for node in range(self.nodes):
                        await self.look_inside(pod, node)
                    await self.update(
                        "ready",
                        pod=pod.id,
                        last=self.pod,
                        why=UNGUARDED if self.run is None else None,
                    )
                    return
                if news:
                    yield self.step("trying", news)
            now = self.clock()
            if now - began > self.timeout:
                raise ProvisionFailed(
                    f"{self.name} was not ready after {(now - began) / 60:.0f} min",
                    why=f"its last state: {_pod_state(pod, self.nodes)[1]}",
                )
            some = pod.stage == "ready" and pod.addresses and not complete
            if some and now - changed > _LOGIN_PATIENCE:
                self._refuse_given(
                    f"{plural(_machines(pod), 'machine')} with a login, "
                    f"{(now - changed) / 60:.0f} min after {self.provider.title} called it ready"
                )
            if now - changed > self.patience and not complete:
                raise ProvisionFailed(
                    f"{self.name} is stuck: {_pod_state(pod, self.nodes)[1]}",
                    why=f"nothing has changed for {(now - changed) / 60:.0f} min",
                )
            interval = (
                5.0
                if pod.stage == "ready" or now - began < 120
                else 10.0
                if now - began < 600
                else 15.0
            )
            await self.sleep(_until_beat(now, interval))
            try:
                self.pod = await self._refresh(pod)
            except (PodGone, ProvisionFailed, AuthError):
                raise
            except ProviderError as error:
                yield self.step("waiting", f"{error.what}; asking again")

    async def _enter(self, pod: Pod, logins: Sequence[LoginAttempts]) -> tuple[Pod, str]:
        """Log in to every machine of the pod; `hosts` has those that let in.

        Returns:
            The pod with the accepted users, and what is new about the first machine that did not.
        """
        hosts: list[Host] = []
        self.hosts = ()
        for attempt in logins:
            entered = await attempt.try_login(pod)
            if entered is None:
                return pod, attempt.news
            pod, host = entered
            hosts.append(host)
        self.hosts = tuple(hosts)
        return pod, ""

    async def _whole(self, pod: Pod) -> Pod:
        """All that the provider says of the pod, where it answers.

        What it says of many at once lacks the GPUs.
        """
        with contextlib.suppress(ProviderError):
            return await self.provider.get(pod.id) or pod
        return pod

    async def _refresh(self, pod: Pod) -> Pod:
        """The pod as it is now."""
        found = next(
            (item for item in await self.provider.status([pod.id]) if item.id == pod.id), None
        )
        if found is None:  # a pod that the short answer leaves out may be there all the same
            found = await self.provider.get(pod.id)
        if found is not None and found.stage != "gone":
            return replace(
                found,
                name=found.name or pod.name,
                hourly=pod.hourly if found.hourly is None else found.hourly,
            )
        self.outcome = f"{self.name} is gone."
        with contextlib.suppress(MachineError):
            record = await self.ledger.run(self.ledger.get, self.name)
            if record is not None:
                await mark_terminated(record, self.provider, self.ledger, pod=found or pod)
        if found is not None and found.failure:
            raise ProvisionFailed(
                f"{self.name} failed: {clean_line(found.failure, 300)}",
                fix="It is gone; nothing is left of it.",
            )
        unknown = "no longer knows it" if found is None else f"calls it {clean_line(found.status)}"
        raise PodGone(
            f"{self.name} is gone: it was taken back, or ended elsewhere",
            why=f"{self.provider.title} {unknown}",
            fix="Spot machines can be taken away at any moment: choose another offer."
            if pod.spot
            else (
                "Is there money left? `hudtui pods wallet` says so. Otherwise choose another offer."
            ),
        )

    # --- the end of a failed or cancelled attempt ---

    async def clean_up(self, error: BaseException) -> None:
        """End what may have been created.

        What became of it goes into the fix of `error`, or to `say` after a cancellation.

        Raises:
            TerminationUnverified: The pod may still exist.
        """
        problem = await run_shielded(self._clean_up(error))
        if isinstance(problem, TerminationUnverified) and isinstance(error, HudtuiError):
            raise TerminationUnverified(
                problem.what, why=f"{error.what}; {problem.why}", fix=problem.fix
            ) from error

    async def _clean_up(self, error: BaseException) -> HudtuiError | None:
        if not self.claimed:
            return None
        try:
            return await self._tell_and_end(error)
        finally:
            with contextlib.suppress(MachineError):  # the ledger may be what failed
                await self.ledger.run(self.ledger.unclaim, self.name)

    async def _tell_and_end(self, error: BaseException) -> HudtuiError | None:
        known, problem = self.outcome is not None, None
        if not known:
            try:
                await self._end_what_was_created(
                    error.what if isinstance(error, HudtuiError) else "cancelled"
                )
            except HudtuiError as caught:
                problem = caught
                self.outcome = f"{problem.what}. {problem.fix or ''}".strip()
        if not isinstance(error, HudtuiError):
            if self.say is not None and self.outcome:
                self.say(self.outcome)
        elif not known and self.outcome:
            error.fix = f"{self.outcome} {error.fix}" if error.fix else self.outcome
        return problem

    async def _end_what_was_created(self, why: str) -> None:
        if not self.requested:
            with contextlib.suppress(MachineError):
                await self.update("never", why="cancelled before the request")
            self.outcome = f"{self.name} was not requested."
            return
        pod = self.pod or await self.look()
        with contextlib.suppress(
            MachineError
        ):  # a ledger that cannot be written must not keep the pod alive
            await self.update("created", pod=pod.id, **price_facts(pod))
        try:
            ended = await terminate_pod(pod, self.provider, self.ledger, why=why, sleep=self.sleep)
        except EndUnrecorded as error:
            self.outcome = f"{error.what}: {error.why}"
            return
        cost = charge_text(ended) or await self._price_times_time()
        self.outcome = f"{self.name} was ended, and that was verified." + (
            "" if cost is None else f" It has cost {cost}."
        )

    async def _price_times_time(self) -> str | None:
        """What the pod has cost by its price, in words; None where that is not known."""
        with contextlib.suppress(MachineError):
            record = await self.ledger.run(self.ledger.get, self.name)
            if record is not None and record.hourly:
                return pod_cost(record, time.time()).text
        return None


def _dearer(pod: Pod, order: Order) -> str:
    price = order.offer.price
    if pod.hourly is None or not price.stated or pod.hourly <= price.hourly * 1.01:
        return ""
    return (
        f"; it costs {money(pod.hourly, pod.currency)} an hour, not "
        f"{money(price.hourly, price.currency)}"
    )


def _machines(pod: Pod) -> int:
    """How many machines a pod's logins lead to: one that is told twice is one."""
    return len({(address.host, address.port) for address in pod.addresses})


def _is_complete(pod: Pod, nodes: int) -> bool:
    """Whether each of its machines may let in."""
    return pod.stage == "ready" and _machines(pod) >= nodes


def _pod_state(pod: Pod, nodes: int) -> tuple[ProvisionStage, str]:
    word = clean_line(pod.status) or pod.stage
    if _is_complete(pod, nodes):
        return "trying", f"logging in to {', '.join(map(str, pod.addresses[:nodes]))}"
    if pod.stage == "ready" and pod.addresses:
        return "installing", (
            f"{_machines(pod)} of {nodes} machines have an address; it is ended if the others have "
            f"none in {_LOGIN_PATIENCE / 60:.0f} min"
        )
    if pod.stage in ("installing", "ready"):
        return "installing", f"installing: {word}" + (
            "" if pod.progress is None else f", {pod.progress} %"
        )
    return "waiting", f"waiting for the machine: {word}"


def _until_beat(now: float, interval: float) -> float:
    """Seconds to the next multiple of `interval`.

    Attempts that wait side by side ask at the same moments, in one request.
    """
    pause = interval - now % interval
    return pause if pause >= 1.0 else pause + interval


def offer_title(offer: Offer) -> str:
    """Return the GPUs of an offer, who has them, and whether it is a spot machine."""
    gpus = f"{offer.gpu_count} x {offer.gpu_type}" if offer.gpu_count else "a machine without a GPU"
    where = f" at {offer.cloud}" if offer.cloud else ""
    return clean_line(f"{gpus}{offer.spread}{where}{', spot' if offer.spot else ''}")


# --- logging in -----------------------------------------------------------------------------------


async def log_in_to_pod(pod: Pod, login: Login, node: int = 0) -> tuple[Pod, Host]:
    """Log in to a machine of a pod, as the user that its provider names or another usual one.

    Returns:
        The pod, with the accepted user in that machine's address, and the connection.

    Raises:
        LoginRefused: Every user was rejected.
        MachineError: The pod could not be reached.
    """
    refusal: LoginRefused | None = None
    named = [address.user for address in pod.addresses[node : node + 1]]
    for user in dict.fromkeys((*named, *_USERS)):
        addresses = [
            replace(address, user=user) if number == node else address
            for number, address in enumerate(pod.addresses)
        ]
        tried = replace(pod, addresses=tuple(addresses))
        try:
            return tried, await login(tried, node)
        except LoginRefused as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


class LoginAttempts:
    """Repeated logins to one machine of a pod that its provider calls ready.

    Keys may arrive late, and the SSH server too.
    """

    def __init__(self, login: Login, clock: Callable[[], float], node: int) -> None:
        self._login, self._clock, self._node = login, clock, node
        self._refused: float | None = None
        """Since when its server rejects every key, by the clock."""
        self._silent: float | None = None
        """Since when it cannot be reached."""
        self._last = self.news = ""
        """`news`: what the last attempt led to, if that was new."""

    async def try_login(self, pod: Pod) -> tuple[Pod, Host] | None:
        """Log in as `log_in_to_pod` does. Returns None if it may work later.

        Raises:
            ProvisionFailed: It will not work any more.
            HostKeyChanged: Another machine answers at the address.
        """
        address = pod.addresses[self._node]
        try:
            async with asyncio.timeout(_LOGIN_TIMEOUT):
                return await log_in_to_pod(pod, self._login, self._node)
        except HostKeyChanged:
            raise
        except LoginRefused as error:
            now = self._clock()
            self._refused, self._silent = (now if self._refused is None else self._refused), None
            if now - self._refused > _KEY_PATIENCE:
                raise ProvisionFailed(
                    f"{address} rejected every SSH key for {now - self._refused:.0f} s",
                    why=error.why,
                    fix=(
                        "Does the provider have the key that you log in with? `hudtui pods keys "
                        "list` shows both."
                    ),
                ) from None
            self._say(f"{address} does not accept the key yet; trying again")
        except (MachineError, OSError, TimeoutError) as error:
            now = self._clock()
            self._silent = now if self._silent is None else self._silent
            what = (
                error.what
                if isinstance(error, HudtuiError)
                else clean_line(str(error)) or type(error).__name__
            )
            if now - self._silent > _LOGIN_PATIENCE:
                raise ProvisionFailed(
                    f"{address} could not be reached for {now - self._silent:.0f} s",
                    why=what,
                ) from None
            self._say(f"{what}; trying again")
        return None

    def _say(self, text: str) -> None:
        self.news = text if text != self._last else ""
        self._last = text


# --- the end --------------------------------------------------------------------------------------


async def terminate_pod(
    pod: str | Pod, provider: Provider, ledger: Ledger, *, why: str, sleep: Sleep = asyncio.sleep
) -> Pod:
    """End a pod, verify that it is gone, and note the bill.

    Its end is requested again for as long as it is there. It counts as gone when the provider,
    asked for this pod, says so or no longer knows it, and the provider's list of living pods lacks
    it.

    Args:
        pod: The name it was ordered under, its provider's id, or the pod itself. A pod without a
            record can be ended too.
        provider: Where it is.
        ledger: Where every step is noted.
        why: Why it is ended, for people.
        sleep: Waits between two checks.

    Returns:
        The pod as it ended, with its bill where the provider says it. A pod that was never created
        has no id.

    Raises:
        TerminationUnverified: It may still cost money. The ledger keeps it as `ending`, and every
            start shows it.
        EndUnrecorded: It has ended, and the ledger cannot be written.
    """
    given = pod if isinstance(pod, Pod) and pod.id else None
    try:
        if isinstance(pod, Pod):
            record = await ledger.run(ledger.record_of, pod, provider)
        else:
            record = await ledger.run(ledger.get, pod)
    # a ledger that cannot be read must not keep the pod alive: its provider knows it by its name
    except MachineError:
        record = None
        if given is None:
            given = await provider.find(pod.name if isinstance(pod, Pod) else pod)
    if record is not None and record.pod is None and given is None:
        given = await _find_by_name(record, provider)
        if given is None:
            return await _mark_never(record, provider, ledger, why)
    name = record.name if record else given.name if given else str(pod)
    pod_id = given.id if given else record.pod if record and record.pod else str(pod)
    if record is not None:
        with contextlib.suppress(
            MachineError
        ):  # a ledger that cannot be written must not keep the pod alive
            await ledger.run(ledger.update, record.name, "ending", pod=pod_id, why=why)
    last, problem = await _end(provider, pod_id, given, sleep)
    if problem is not None:
        hourly = (last.hourly if last else None) or (record.hourly if record else None)
        currency = last.currency if last else record.currency if record else ""
        cost = (
            f"It may still cost {money(hourly, currency)} an hour. "
            if hourly
            else "It may still cost money. "
        )
        raise TerminationUnverified(
            f"{clean_line(name)} ({clean_line(pod_id)}) could not be ended: its end is not "
            "verified",
            why="; ".join(problem.lines()),
            fix=(
                f"{cost}End it with `hudtui pods terminate {clean_line(pod_id)}` or on "
                f"{provider.title}'s own page."
            ),
        )
    ended = await _with_bill(last or Pod(provider.name, pod_id, name, "gone"), provider, sleep)
    if record is not None:
        facts = {**end_facts(ended), "pod": pod_id}
        try:
            await ledger.run(ledger.update, record.name, "ended", **facts, why=why)
        except MachineError as error:
            charge = charge_text(ended)
            raise EndUnrecorded(
                f"{clean_line(name)} is ended, and that was verified; it could not be written down",
                why="; ".join(
                    filter(None, ("; ".join(error.lines()), charge and f"it has cost {charge}"))
                ),
                fix="The next start, or `hudtui pods reconcile`, writes it down.",
            ) from None
    return ended


async def mark_terminated(
    record: PodRecord, provider: Provider, ledger: Ledger, *, pod: Pod | None = None
) -> PodRecord:
    """Note that a pod was found to have ended, why, and with its bill.

    The bill is as far as the provider tells it now.

    A pod whose end was not requested and whose time was not over is noted as `unasked`: it was
    taken back.

    Raises:
        MachineError: The ledger cannot be written.
    """
    ended = await _with_bill(
        pod or Pod(provider.name, record.pod or "", record.name, "gone"), provider, None
    )
    latest = await ledger.run(
        ledger.get, record.name
    )  # it may have been ended meanwhile, by another process or by hand
    if latest is not None and latest.state in ("ending", "ended"):
        why, unasked = latest.why, latest.unasked
    elif record.until is not None and (record.seen or record.created) < record.until <= time.time():
        why, unasked = "its time was over, and its guard ended it", False
    elif pod is not None and pod.failure:
        why, unasked = f"it failed: {clean_line(pod.failure, 300)}", True
    else:
        why, unasked = await _why_taken_back(record, provider), True
    return await ledger.run(
        ledger.update, record.name, "ended", **end_facts(ended), why=why, unasked=unasked
    )


def end_facts(pod: Pod) -> dict[str, Any]:
    """Return id, end and bill of a pod that has ended, for `Ledger.update`.

    The price is in the currency of the bill.
    """
    return {"pod": pod.id or None, "ended": pod.terminated, "billed": pod.bill, **price_facts(pod)}


async def _why_taken_back(record: PodRecord, provider: Provider) -> str:
    if record.last_pod().spot or (record.order is not None and record.order.offer.spot):
        return "it was taken back: a spot machine can be taken away at any moment"
    try:
        balance = (await provider.account()).balance
    except ProviderError:
        balance = None
    if balance is not None and balance <= max((record.hourly or 0.0) / 60, 0.01):
        return f"the wallet is empty, so {provider.title} ended it"
    return (
        f"it was taken back by {provider.title}, or ended elsewhere: hudtui did not ask for its end"
    )


async def find_in_history(
    provider: Provider, *, pod: str | None = None, name: str | None = None
) -> Pod | None:
    """The entry of the provider's history for a pod, by its id or its name.

    None if there is none or it cannot be read.
    """
    try:
        rows = await provider.history()
    except ProviderError:
        return None
    return next((row for row in rows if (row.id == pod if pod else row.name == name)), None)


async def _find_by_name(record: PodRecord, provider: Provider) -> Pod | None:
    try:
        found = await provider.find(record.name)
    except ProviderError as error:
        raise TerminationUnverified(
            f"it could not be confirmed whether {record.name} exists",
            why="; ".join(error.lines()),
            fix="It is looked for again at the next start.",
        ) from None
    return found or await find_in_history(provider, name=record.name)


async def _mark_never(record: PodRecord, provider: Provider, ledger: Ledger, why: str) -> Pod:
    if record.held and record.holder != process_mark():
        raise TerminationUnverified(
            f"{record.name} is being requested by another hudtui, and is not listed yet",
            why="It may still be created.",
            fix="End that hudtui, or the run there; then try again.",
        )
    if (
        record.state != "never"
        and record.state != "ended"
        and time.time() - record.created < UNSEEN_GRACE
    ):
        raise TerminationUnverified(
            f"{record.name} was requested a moment ago and is not listed yet",
            why="It may still be created.",
            fix="It is looked for again at the next start; `hudtui pods reconcile` looks now.",
        )
    try:
        await ledger.run(ledger.update, record.name, "never", why=why)
    except MachineError as error:
        raise EndUnrecorded(
            f"{record.name} was never created; it could not be written down",
            why="; ".join(error.lines()),
            fix="The next start, or `hudtui pods reconcile`, writes it down.",
        ) from None
    return Pod(provider.name, "", record.name, "gone")


async def _end(
    provider: Provider, pod_id: str, seen: Pod | None, sleep: Sleep
) -> tuple[Pod | None, ProviderError | None]:
    """The pod as it was last seen, and why its end is not certain (None: it is certain)."""
    problem: ProviderError | None = None
    checks = 0
    for pause in _TERMINATE_PAUSES:
        await sleep(pause)
        try:
            if seen is None:  # shows whether it belongs to this account
                seen = await provider.get(pod_id)
            if not checks:
                await provider.terminate(pod_id)
            now = await provider.get(pod_id)
            listed = any(pod.id == pod_id and pod.alive for pod in await provider.pods())
        except AuthError as error:
            return seen, error
        except ProviderError as error:
            problem, checks = error, 0
            continue
        if not listed and (now is None or not now.alive):
            if seen is None and now is None and await find_in_history(provider, pod=pod_id) is None:
                return None, ProviderError(
                    "this account does not know it",
                    fix="Is this the key of the account that it was rented with?",
                )
            return now or seen, None
        seen = now or seen
        checks = (checks + 1) % _CHECKS_WHILE_DELETING if now is not None and now.ending else 0
        problem = ProviderError(
            f"{provider.title} lists it still" + (f" as {clean_line(now.status)}" if now else "")
        )
    return seen, problem


async def _with_bill(pod: Pod, provider: Provider, sleep: Sleep | None) -> Pod:
    """The ended pod with its bill; without `sleep` the history is asked only once."""
    for pause in _BILL_PAUSES if sleep is not None else _BILL_PAUSES[:1]:
        if sleep is not None:
            await sleep(pause)
        row = await find_in_history(provider, pod=pod.id or None, name=pod.name)
        if row is not None:
            return replace(
                pod,
                id=row.id,
                stage="gone",
                terminated=row.terminated or pod.terminated,
                hourly=row.hourly if row.hourly is not None else pod.hourly,
                currency=row.currency,
                billed=row.billed,
                estimated=row.estimated,
                addresses=(),
            )
    return replace(pod, stage="gone", addresses=())
