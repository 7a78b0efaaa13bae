"""Runs on machines that are rented for them: order, login, guard, run, results at home, machine gone. Each step may be repeated.

What was done is in the run's own events, what was asked for in the ledger of rented machines. Whoever `tend`s a run, now or after
a crash, does what is missing. Closing hudtui stops nothing: the run goes on, and the guard on its machine keeps the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.compute.budget import RUN_TAIL as GRACE
from hudtui.core.compute.budget import grant_changed
from hudtui.core.compute.costs import sum_costs
from hudtui.core.compute.lifecycle import UNSEEN_GRACE as GRACE_UNSEEN
from hudtui.core.compute.lifecycle import (
    ProvisionStep,
    Sleep,
    TerminationUnverified,
    acquire,
    mark_terminated,
    resume,
    terminate_pod,
)
from hudtui.core.compute.limits import Limits, LimitUsage, LimitVerdict, judge
from hudtui.core.compute.pods import Ledger, PodRecord
from hudtui.core.compute.provider import Provider, ProviderError
from hudtui.core.compute.registry import pod_target
from hudtui.core.compute.values import Offer, Order, Pod
from hudtui.core.compute.watchdog import KEY as GUARD_KEY
from hudtui.core.compute.watchdog import POWER_OFF, terminate_rule
from hudtui.core.errors import HudtuiError, InputError, MachineError, RunError
from hudtui.core.remote.host import Disconnected, Host
from hudtui.core.remote.hosts import find_host, forget_address, open_host, save_address
from hudtui.core.runs.launch import Lookup, available_secrets, check_inputs, continue_launch, error_sentence, stop_run
from hudtui.core.runs.results import FetchedResults, Progress, fetch_results, results_folder
from hudtui.core.runs.run_folder import RunFolder
from hudtui.core.runs.run_lock import lock_run
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.values import RunEvent, RunSummary
from hudtui.core.training.plan import Rental
from hudtui.core.workspace import STATE_FOLDER

if TYPE_CHECKING:
    from hudtui.core.settings import Settings

WATCHDOG_POWERS_OFF = (
    "the guard on the machine stops the run and switches the machine off when its limits are reached or nobody fetches "
    "the results; a machine that is switched off may still be charged for: only ending it at its provider, as hudtui does, "
    "stops that"
)
"""What people have to know of the guard before they pay."""
WATCHDOG_ENDS = (
    "the guard on the machine stops the run and ends the machine, with the key that you gave for that, when its limits are "
    "reached or nobody fetches the results"
)
"""The same, where a key was given that ends machines."""
START_WITHIN = 1800.0
"""Seconds from the first login within which a run must have begun, before the guard switches the machine off."""
FETCH_WITHIN = 3600.0
"""Seconds for which a run that has ended waits for somebody who fetches its results."""
_GIVEN_UP_WITHIN = 240.0
"""Seconds for another hudtui to give up a machine that it is getting."""
_FETCHES, _FETCH_PAUSE = 8, 10.0
"""So often is a machine that is away asked for the results, and so many seconds lie between; each attempt takes up to 30."""


@dataclass
class RentalContext:
    """Whoever machines are rented from, and what is written down about them."""

    provider: Provider
    settings: Lookup
    """The value of a setting by its name: for the key to log in with."""
    ledger: Ledger = field(default_factory=Ledger)
    sleep: Sleep = asyncio.sleep
    every: float = 5.0
    """Seconds between looks at a run that goes on."""
    within: float = 20.0
    """Seconds for an answer of the machine; after that the provider is asked whether it exists at all."""
    say: Callable[[str], None] | None = None
    """Told what became of a machine when its order was cancelled."""
    clock: Callable[[], float] = time.monotonic
    """For how long a machine is waited for."""
    look: float = 30.0
    """Seconds between looks whether the supervisor is still at work, which a machine that was rebooted has lost."""


def open_rental_context(record: RunRecord, settings: Settings, *, say: Callable[[str], None] | None = None) -> RentalContext:
    """Whoever the machine of a run is rented from, by the user's settings.

    Raises:
        RunError: No machine was rented for it.
        InputError: There is no such provider, or it is another one than the run's: simulated ones and real ones are not mixed up.
        AuthError: Its key is missing.
    """
    from hudtui.core.compute.registry import open_provider

    rent = record.spec.rent
    if rent is None:
        raise RunError(f"run {record.id} is on {record.host}, which was not rented for it")
    provider = open_provider(rent.provider, settings.get)
    if provider.features.simulated != rent.simulated:
        kind = "simulated" if rent.simulated else "real"
        raise InputError(
            f"run {record.id} is on a {kind} machine, and the settings lead to {provider.title}",
            fix="See HUDTUI_SIM and PRIME_API_BASE_URL.",
        )
    return RentalContext(provider, settings.get, say=say)


def offer_to_json(offer: Offer) -> dict[str, Any]:
    """An offer as plain data, with what its provider needs for the order."""
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(offer)
    return data


def order_of(rent: Rental) -> Order:
    """What is asked of the provider."""
    import msgspec

    offer = msgspec.convert(dict(rent.offer), Offer)
    return Order(rent.machine, offer, image=rent.image, disk_gb=rent.disk_gb, ssh_key=rent.ssh_key)


async def run_remote(
    run: str,
    store: RunStore,
    broker: RentalContext,
    *,
    lookup: Lookup | None = None,
    tmux: bool = True,
    progress: Progress | None = None,
) -> AsyncGenerator[RunEvent, None]:
    """Do what is missing of a run, to the end: its results are at home, and its machine is gone.

    Leaving it after the run has begun changes nothing: the run goes on. Leaving it while the machine is being got gives the
    machine up.

    Args:
        run: A run that was added to the store, with a machine to rent.
        store: Where it is kept.
        broker: Where its machine comes from.
        lookup: Values of the secrets that its plan names.
        tmux: See `launch`.
        progress: Told how the results come.

    Raises:
        RunError: Another hudtui tends it, or the store cannot be written.
        ProviderError: No machine could be had, or it could not be ended for certain and may still cost money.
        MachineError: A step failed. The machine is gone, unless the error says otherwise.
        Untrusted: The user did not start this run.
    """
    store.require_own(run)
    tending = RemoteRun(store.record(run), store, broker, lookup, tmux, progress)
    async with lock_run(store, run):
        trouble: HudtuiError | None = None
        try:
            if store.summary(run).active:
                async with aclosing(tending.work()) as events:
                    async for event in events:
                        yield event
        except _StoppedEarly as error:
            if stopped := store.append(run, "stopped", {"why": error.what}):
                yield stopped
        except HudtuiError as error:
            trouble = error
            if store.summary(run).active and (failed := store.append(run, "failed", {"why": error_sentence(error)})):
                yield failed
        except BaseException:
            tending.left()
            raise
        async with aclosing(tending.settle()) as events:
            async for event in events:
                yield event
        if trouble is not None:
            raise trouble


async def end_remote_run(
    run: str, store: RunStore, broker: RentalContext, *, grace: float | None = None, progress: Progress | None = None
) -> RunSummary:
    """Stop a run, bring home what it has brought so far, and end its machine.

    Raises:
        RunError: Another hudtui is getting its machine, and does not let go of it.
        MachineError: The machine could not be ended for certain, or does not answer.
        Untrusted: The user did not start this run.
    """
    store.require_own(run)
    tending = RemoteRun(store.record(run), store, broker, None, True, progress)
    await tending.stop(grace)
    async with lock_run(store, run, patience=120.0), aclosing(tending.settle()) as events:
        async for _ in events:
            pass
    return store.summary(run)


async def change_limits(run: str, store: RunStore, broker: RentalContext, limits: Limits) -> None:
    """Give a run other limits, here and on its machine, while it runs.

    Raises:
        MachineError: They cannot be kept here, and nothing is changed; or the run's machine does not answer, and there the old
            limits hold until `run_remote` reaches it.
        Untrusted: The user did not start this run.
    """
    store.require_own(run)
    tending = RemoteRun(store.record(run), store, broker, None, True, None)
    broker.ledger.set_limits(tending.rent.machine, limits)
    tending.grant()
    store.append(run, "limits", limits.to_json())
    if store.summary(run).started is not None:
        await tending.machine.rule(tending.rules())


class _StoppedEarly(RunError):
    """A run was stopped while its machine was being got."""


class RemoteRun:
    """A run on a rented machine, and everything that is needed to bring it to its end."""

    def __init__(
        self,
        record: RunRecord,
        store: RunStore,
        broker: RentalContext,
        lookup: Lookup | None,
        tmux: bool,
        progress: Progress | None,
    ) -> None:
        if record.spec.rent is None:
            raise RunError(f"run {record.id} is on {record.host}, which was not rented for it")
        self.record, self.store, self.broker = record, store, broker
        self.rent = record.spec.rent
        self.lookup, self.tmux, self.progress = lookup, tmux, progress
        self.host = find_host(record.host)
        self.machine = RunFolder(self.host, record)
        self.warned: set[str] = set()
        self.unwanted = False

    @property
    def run(self) -> str:
        return self.record.id

    @property
    def summary(self) -> RunSummary:
        return self.store.summary(self.run)

    def owned(self) -> PodRecord | None:
        return self.broker.ledger.get(self.rent.machine)

    # --- the machine ------------------------------------------------------------------------------------------------------

    async def work(self) -> AsyncGenerator[RunEvent, None]:
        """From wherever it is to the end of the run."""
        if self.summary.started is None:
            if self.summary.state == "stopping":
                raise _StoppedEarly("stopped before it started")
            await check_inputs(self.record.plan, self.lookup)  # before anything is paid for
        async with contextlib.AsyncExitStack() as open_ports:
            for part in (self.get_machine, self.tunnels, self.begin, self.watch):
                async with aclosing(part(open_ports)) as events:
                    async for event in events:
                        yield event

    async def tunnels(self, open_ports: contextlib.AsyncExitStack) -> AsyncGenerator[RunEvent, None]:
        """Let the machine reach environments on this computer, for as long as the run is tended."""
        for port in self.record.spec.tunnels:
            await open_ports.enter_async_context(self.host.reverse(port, "127.0.0.1", port))
            if event := self.store.append(self.run, "note", {"message": f"port {port} of this computer is port {port} there"}):
                yield event

    async def get_machine(self, _: contextlib.AsyncExitStack) -> AsyncGenerator[RunEvent, None]:
        """Rent it, or find it again."""
        broker, owned, began = self.broker, self.owned(), time.monotonic()
        if owned is not None and (not owned.open or owned.state == "ending"):
            raise MachineError(f"the machine of run {self.run} has ended", why=owned.why)
        if owned is None:
            steps = acquire(
                order_of(self.rent),
                broker.provider,
                broker.ledger,
                login=self.login,
                limits=self.limits(),
                tail=GRACE,
                run=self.run,
                workspace=self.record.spec.workspace,
                sleep=self.pause,
                clock=broker.clock,
                say=broker.say,
            )
        else:
            steps = resume(
                owned,
                broker.provider,
                broker.ledger,
                login=self.login,
                sleep=self.pause,
                clock=broker.clock,
                say=broker.say,
            )
        ready = False
        try:
            async with aclosing(steps):
                async for step in steps:
                    if event := self.note(step):
                        yield event
                    ready = ready or step.kind == "ready"
        finally:
            if not ready:
                self.given_up()
        if event := self.step("ready", began):
            yield event

    async def pause(self, seconds: float) -> None:
        """Wait, and hear whether the run is wanted at all any more: somebody may stop it while its machine is being got."""
        await self.broker.sleep(seconds)
        if not self.unwanted and self.summary.state == "stopping":
            self.unwanted = True  # said once: giving the machine up has its pauses, too
            raise _StoppedEarly(f"run {self.run} was stopped before its machine was ready")

    async def login(self, pod: Pod) -> Host:
        """Log in, and keep where that is."""
        target = pod_target(pod, self.broker.settings)
        assert target is not None  # rented machines are behind SSH
        save_address(self.record.host, target)
        await open_host(target)
        return self.host

    def note(self, step: ProvisionStep) -> RunEvent | None:
        """A step on the way to the machine as an event."""
        data: dict[str, Any] = {"kind": step.kind, "text": step.text}
        if step.pod is not None:
            data |= {"pod": step.pod.id, "hourly": step.pod.hourly, "currency": step.pod.currency}
            data["address"] = str(step.pod.addresses[0]) if step.pod.addresses else None
        return self.store.append(self.run, "machine", data, at=step.at, once=f"machine:{step.kind}:{step.text}")

    def given_up(self) -> None:
        """Getting the machine was broken off: take over what the ledger says of it."""
        owned = self.owned()
        with contextlib.suppress(RunError):
            if owned is None or owned.state == "never":
                self.store.append(self.run, "machine", {"kind": "never"})
            elif owned.state == "ended":
                self.store.append(self.run, "machine", {"kind": "released", "billed": owned.billed, "text": owned.why})

    def left(self) -> None:
        """Whoever tends it leaves. Where that gave the machine up, the run is over."""
        owned, summary = self.owned(), self.summary
        if summary.active and summary.started is None and (owned is None or not owned.open):
            with contextlib.suppress(RunError):
                self.store.append(self.run, "stopped", {"why": "given up before its machine was ready"})

    def step(self, name: str, began: float, **data: Any) -> RunEvent | None:
        seconds = round(time.monotonic() - began, 3)
        return self.store.append(self.run, "step", {"name": name, "seconds": seconds, **data}, once=f"step:{name}")

    # --- the run ----------------------------------------------------------------------------------------------------------

    async def begin(self, _: contextlib.AsyncExitStack) -> AsyncGenerator[RunEvent, None]:
        """Arm the guard before anything else; then carry the plan out as on any machine."""
        began = time.monotonic()
        await self.machine.make_folder()
        await self.arm()
        if event := self.step("guard", began):
            yield event
        async with aclosing(continue_launch(self.run, self.host, self.store, lookup=self.lookup, tmux=self.tmux)) as events:
            async for event in events:
                yield event

    async def arm(self) -> None:
        """Start the guard on the machine, with the key that was given for it."""
        rules = self.rules()
        await self.machine.arm(rules, key=self.broker.settings(GUARD_KEY) if rules["end"] else None)

    def rules(self) -> dict[str, Any]:
        """What the guard on the machine goes by, counted from now: it may be a new one, after the machine had lost the first."""
        limits, owned, now = self.limits(), self.owned(), time.time()
        if owned is not None and owned.until is None:  # an older hudtui has rented it
            owned = self.grant()
        pod, until = (owned.pod, owned.until) if owned is not None else (None, None)
        return {
            "max_seconds": None if until is None else round(max(until - GRACE - now, 0.0), 1),
            "count_from": f"{now:.3f}",
            "grace_seconds": GRACE,
            "start_seconds": START_WITHIN,
            "after_seconds": None if self.rent.keep_on_failure else FETCH_WITHIN,
            "idle_seconds": None if limits.idle_minutes is None else limits.idle_minutes * 60,
            "power_off": [["true"]]
            if self.rent.simulated or self.broker.provider.features.terminates_itself
            else list(POWER_OFF),
            "end": terminate_rule(self.broker.provider, pod, self.broker.settings) if pod is not None else None,
        }

    def grant(self) -> PodRecord | None:
        """Ask until when the machine may live with the limits that it has now."""
        owned = self.owned()
        if owned is None:
            return None
        return self.broker.ledger.grant(owned.name, grant_changed(owned, self.limits(), tail=GRACE))

    def limits(self) -> Limits:
        return self.broker.ledger.limits(self.rent.machine) or Limits.from_json(self.record.spec.limits)

    def usage(self) -> LimitUsage:
        found = sum_costs(self.broker.ledger, {}, time.time(), here=(self.broker.provider,))
        mine = found.of(self.rent.machine)
        return LimitUsage(mine.hours if mine else 0.0, mine.spent if mine else 0.0, found.today)

    async def watch(self, _: contextlib.AsyncExitStack) -> AsyncGenerator[RunEvent, None]:
        """Hear what the machine says until the run has ended; end it when a limit is reached."""
        away, looked = 0, time.monotonic()
        while True:
            try:
                for event in await self.hear():
                    yield event
                away = 0
                if self.summary.active and time.monotonic() - looked > self.broker.look:
                    looked = time.monotonic()
                    if revived := await self.revive():
                        yield revived
            except MachineError as error:  # while nobody can say more, the run is taken to go on
                away += 1
                if said := self.store.append(
                    self.run, "note", {"message": error_sentence(error)}, once=f"note:{error_sentence(error)}"
                ):
                    yield said
                await self.still_there(error)
            if not self.summary.active:
                return
            verdict = judge(self.limits(), await asyncio.to_thread(self.usage))
            for event in self.warn(verdict):
                yield event
            if verdict.level == "end":
                if away:
                    raise MachineError(f"the machine of run {self.run} does not answer", why="; ".join(verdict.reasons))
                await stop_run(self.run, self.host, self.store, why="; ".join(verdict.reasons))
                continue
            await self.broker.sleep(self.broker.every)

    async def hear(self) -> tuple[RunEvent, ...]:
        """What the machine has said since the last time."""
        try:
            async with asyncio.timeout(self.broker.within):
                return await self.machine.sync(self.store)
        except TimeoutError:
            raise Disconnected(f"{self.record.host} does not answer") from None

    async def revive(self) -> RunEvent | None:
        """Start supervisor and guard again where the machine has lost them: they take the run up, or write down its end."""
        status = await self.machine.status()
        if status.supervisor is not None or status.ended:
            return None
        await self.arm()
        await self.machine.start(available_secrets(self.record.plan, self.lookup))
        text = "its supervisor had been ended, perhaps with the machine, and was started again"
        return self.store.append(self.run, "note", {"message": text})

    def warn(self, verdict: LimitVerdict) -> Iterator[RunEvent]:
        """Tell of each limit that is near, once."""
        for reason in verdict.reasons if verdict.level != "fine" else ():
            limit = reason.partition(":")[0]
            if limit not in self.warned:
                self.warned.add(limit)
                if event := self.store.append(self.run, "note", {"message": reason}):
                    yield event

    async def still_there(self, error: MachineError) -> None:
        """Whether a machine that does not answer exists at all."""
        owned = self.owned()
        if owned is None or owned.pod is None:
            return
        try:
            pod = await self.broker.provider.get(owned.pod)
        except ProviderError:
            return  # nobody can say; both may be there again in a while
        if pod is not None and pod.alive:
            return
        noted = await mark_terminated(owned, self.broker.provider, self.broker.ledger, pod=pod)
        raise MachineError(
            f"the machine of run {self.run} is gone: {noted.why}",
            why=f"{self.broker.provider.title} {'does not know it any more' if pod is None else f'calls it {pod.status}'}",
        ) from error

    async def stop(self, grace: float | None) -> None:
        """End the run as far as there is one."""
        self.store.append(self.run, "stop_requested", {"grace": grace}, once="stop_requested")
        if not self.summary.active:
            return
        if self.summary.started is None and not any(e.data.get("name") == "guard" for e in self.store.events(self.run)):
            async with lock_run(
                self.store, self.run, patience=_GIVEN_UP_WITHIN
            ):  # whoever gets its machine hears of it and lets go
                if self.summary.active:
                    self.store.append(self.run, "stopped", {"why": "stopped before it started"})
            return
        try:
            await stop_run(self.run, self.host, self.store, grace=grace)
        except MachineError as error:
            self.store.append(self.run, "stopped", {"why": f"its machine does not answer: {error_sentence(error)}"})

    # --- the end ----------------------------------------------------------------------------------------------------------

    async def settle(self) -> AsyncGenerator[RunEvent, None]:
        """Bring the results home and end the machine."""
        owned, summary = self.owned(), self.summary
        if owned is None or not owned.open:
            if event := self.gone(owned):
                yield event
            return
        if owned.state == "ready":
            try:
                began = time.monotonic()
                collected = await self.fetch()
                if event := self._collected(collected, began):
                    yield event
            except HudtuiError as error:
                if summary.state == "finished":
                    raise MachineError(
                        f"the results of run {self.run} could not be fetched; its machine is KEPT and goes on costing money",
                        why=error_sentence(error),
                        fix=f"Try again: hudtui runs resume {self.run}. Without the results: "
                        f"hudtui pods terminate {self.rent.machine}.",
                    ) from None
                if event := self.store.append(
                    self.run, "note", {"message": f"its results could not be fetched: {error_sentence(error)}"}
                ):
                    yield event
            if summary.state == "failed" and self.rent.keep_on_failure:
                text = f"the machine is kept, as you wished, and costs money: hudtui pods terminate {self.rent.machine}"
                if event := self.store.append(self.run, "note", {"message": text}):
                    yield event
                return
        began = time.monotonic()
        pod = await self.let_go(f"run {self.run} {summary.state}")
        yield self._released(pod.bill if pod.id else None, never=not pod.id)
        if event := self.step("terminate", began, billed=pod.bill):
            yield event

    async def let_go(self, why: str) -> Pod:
        """End the machine. One that nobody has seen yet may still come: that is waited for, so that it is not left behind."""
        broker = self.broker
        while True:
            try:
                return await terminate_pod(self.rent.machine, broker.provider, broker.ledger, why=why, sleep=broker.sleep)
            except TerminationUnverified:
                owned = self.owned()
                if owned is None or owned.state != "intended" or time.time() - owned.created > GRACE_UNSEEN:
                    raise
            await broker.sleep(_FETCH_PAUSE)

    async def fetch(self) -> FetchedResults:
        """Fetch the results; a machine that is away is waited for."""
        for _ in range(_FETCHES):
            try:
                return await fetch_results(self.machine, results_folder(self.record, self.store), progress=self.progress)
            except Disconnected as error:
                await self.still_there(error)
                await self.broker.sleep(_FETCH_PAUSE)
        return await fetch_results(self.machine, results_folder(self.record, self.store), progress=self.progress)

    def _collected(self, found: FetchedResults, began: float) -> RunEvent | None:
        data = {"files": found.files, "bytes": found.size, "fetched": found.fetched, "folder": str(found.folder)}
        return self.step("collect", began, **data)

    def _released(self, billed: float | None, *, never: bool) -> RunEvent:
        text = f"{self.rent.machine} was never created" if never else f"{self.rent.machine} is ended, and that was verified"
        forget_address(self.record.host)
        data = {"kind": "never" if never else "released", "billed": billed, "currency": self.rent.currency, "text": text}
        event = self.store.append(self.run, "machine", data)
        assert event is not None
        return event

    def gone(self, owned: PodRecord | None) -> RunEvent | None:
        """The ledger knows that there is no machine any more."""
        forget_address(self.record.host)
        if not self.summary.holds_machine:
            return None
        return self._released(owned.billed if owned else None, never=owned is None or owned.state == "never")


def is_run_active(owned: PodRecord) -> bool:
    """Whether the run that a machine was rented for is still at work, as the run's own workspace says."""
    if owned.run is None or owned.state == "ending":
        return False
    if owned.workspace is None:
        return True
    state = Path(owned.workspace) / STATE_FOLDER
    if not (state / "runs.db").is_file():
        return False
    try:
        return any(run.id == owned.run and run.active for run in RunStore(state).runs())
    except HudtuiError:
        return True  # nobody can say; a machine is not offered for ending on a guess
