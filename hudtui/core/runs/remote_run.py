"""Runs on rented machines: order, login, watchdog, run, fetching the results, end of the machine.

Each step can be repeated. The run's events record the completed steps, and the ledger records the
orders. `run_remote` does the remaining steps, now or after a crash. Closing hudtui stops nothing:
the run continues, and the watchdog on its machine enforces the limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.compute.budget import RUN_TAIL as GRACE
from hudtui.core.compute.budget import grant_changed
from hudtui.core.compute.costs import HOUR, sum_costs
from hudtui.core.compute.lifecycle import UNSEEN_GRACE as GRACE_UNSEEN
from hudtui.core.compute.lifecycle import (
    EndUnrecorded,
    ProvisionStep,
    Sleep,
    TerminationUnverified,
    acquire,
    mark_terminated,
    resume,
    run_shielded,
    terminate_pod,
)
from hudtui.core.compute.limits import Limits, LimitUsage, LimitVerdict, in_usd, judge
from hudtui.core.compute.pods import Ledger, PodRecord
from hudtui.core.compute.provider import Provider, ProviderError
from hudtui.core.compute.registry import pod_target
from hudtui.core.compute.values import Pod
from hudtui.core.compute.watchdog import POWER_OFF, guard_key, terminate_rule
from hudtui.core.errors import HudtuiError, InputError, MachineError, RunError
from hudtui.core.process import boot_clock
from hudtui.core.remote.host import Disconnected, FileRefused, Host
from hudtui.core.remote.hosts import (
    ensure_reachable,
    find_host,
    forget_address,
    open_host,
    save_address,
)
from hudtui.core.runs.launch import (
    Lookup,
    available_secrets,
    check_inputs,
    continue_launch,
    end_peers,
    error_sentence,
    stop_run,
)
from hudtui.core.runs.reports import read_status
from hudtui.core.runs.results import FetchedResults, Progress, fetch_results, results_folder
from hudtui.core.runs.run_folder import MachineEvents, RunFolder, peers_of
from hudtui.core.runs.run_lock import is_managed, lock_run
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.values import RunEvent, RunSummary
from hudtui.core.text import money, plural
from hudtui.core.workspace import STATE_FOLDER

if TYPE_CHECKING:
    from hudtui.core.settings import Settings

WATCHDOG_POWERS_OFF = (
    "the guard on the machine stops the run and switches the machine off when its limits are "
    "reached or the results are not fetched; a machine that is switched off may still be charged "
    "for: only ending it at its provider, as hudtui does, stops that"
)
"""The powers of a watchdog without a key, as a sentence that the user reads before paying."""
WATCHDOG_ENDS = (
    "the guard on the machine stops the run and ends the machine, with the key that you gave for "
    "that, when its limits are reached or the results are not fetched"
)
"""The powers of a watchdog with a key to end the machine."""
START_WITHIN = 1800.0
"""Seconds from the first login until the watchdog ends a machine on which no run has started."""
FETCH_WITHIN = 3600.0
"""Seconds from the end of a run until the watchdog ends the machine, even if the results were not
fetched."""
_GIVEN_UP_WITHIN = 240.0
"""Seconds to wait while another hudtui cancels its order of the machine."""
_SETTLED_WITHIN = 120.0
"""Seconds to wait while another hudtui fetches the results of a run and ends its machine."""
_LAST_WORDS, _LOOK = 20, 0.25
"""Number of reads of `status.json` while its supervisor may still write it at the end of a run, and
seconds between them."""
_FETCHES, _FETCH_PAUSE = 8, 10.0
"""Number of attempts to fetch results without a connection, and seconds between them. An attempt
takes up to 30 s."""


@dataclass
class RentalContext:
    """The provider to rent from, the records of rented machines, and the pauses between checks."""

    provider: Provider
    settings: Lookup
    """Returns the value of a setting, such as the SSH key to log in with."""
    ledger: Ledger = field(default_factory=Ledger)
    sleep: Sleep = asyncio.sleep
    every: float = 5.0
    """Seconds between checks of a running run."""
    within: float = 20.0
    """Seconds to wait for an answer of the machine before the provider is asked whether it still
    exists."""
    say: Callable[[str], None] | None = None
    """Called with a message when a cancelled order has been cleaned up, or another hudtui is waited
    for."""
    clock: Callable[[], float] = time.monotonic
    """The clock that measures the wait for a machine."""
    look: float = 30.0
    """Seconds between checks that the supervisor still runs, because a reboot ends it."""


def open_rental_context(
    record: RunRecord,
    settings: Settings,
    *,
    providers: Mapping[str, Provider] | None = None,
    say: Callable[[str], None] | None = None,
) -> RentalContext:
    """Open the provider that a run's machine is rented from.

    Raises:
        RunError: No machine was rented for the run.
        InputError: The settings lead to another provider: a simulated one for a real machine, or
            the reverse.
        AuthError: The provider's key is missing.
    """
    from hudtui.core.compute.registry import open_provider

    rent = record.spec.rent
    if rent is None:
        raise RunError(f"run {record.id} is on {record.host}, which was not rented for it")
    provider = open_provider(rent.provider, settings.get, providers=providers)
    if provider.features.simulated != rent.simulated:
        kind = "simulated" if rent.simulated else "real"
        raise InputError(
            f"run {record.id} is on a {kind} machine, and the settings lead to {provider.title}",
            fix="See HUDTUI_SIM and PRIME_API_BASE_URL.",
        )
    return RentalContext(provider, settings.get, say=say)


async def run_remote(
    run: str,
    store: RunStore,
    context: RentalContext,
    *,
    lookup: Lookup | None = None,
    tmux: bool = True,
    progress: Progress | None = None,
) -> AsyncGenerator[RunEvent, None]:
    """Do the remaining steps of a run, until its results are here and its machine is ended.

    After the run has started, the run continues if the iterator is closed. Closing it earlier, or
    after the results were fetched, ends the machine or cancels its order. `context` has the
    provider of the machine; `lookup` returns the values of the plan's secrets; `tmux` is as for
    `launch`; `progress` is called while the results are fetched.

    Raises:
        RunError: Another hudtui manages the run, or the store cannot be written; a run that has
            started continues.
        ProviderError: No machine was available, or its end could not be verified and it may still
            cost money.
        MachineError: A step failed. The machine is ended unless the error says otherwise.
        Untrusted: The user did not start this run.
    """
    remote = await RemoteRun.read(run, store, context, lookup=lookup, tmux=tmux, progress=progress)
    async with lock_run(store, run):
        try:
            async with aclosing(remote.steps()) as events:
                async for event in events:
                    yield event
        except HudtuiError as error:
            await remote.say_what_lives(error)
            raise
        except BaseException:
            await run_shielded(remote.give_up())
            raise


async def end_remote_run(
    run: str,
    store: RunStore,
    context: RentalContext,
    *,
    grace: float | None = None,
    progress: Progress | None = None,
) -> RunSummary:
    """Stop a run, fetch its results so far, and end its machine.

    Raises:
        RunError: A hudtui that manages the run does not cancel the order of its machine, or end it,
            in time.
        MachineError: The machine does not answer, or its end could not be verified.
        Untrusted: The user did not start this run.
    """
    remote = await RemoteRun.read(run, store, context, progress=progress)
    try:
        await remote.stop(grace)
        fetching = "fetches the results, and then ends the machine"
        async with (
            remote.turn(_SETTLED_WITHIN, fetching),
            aclosing(remote.settle(keep=False)) as events,
        ):
            async for _ in events:
                pass
    except HudtuiError as error:
        await remote.say_what_lives(error)
        raise
    return await remote.summary()


async def change_limits(run: str, store: RunStore, context: RentalContext, limits: Limits) -> None:
    """Change the limits of a run, here and on its machine, while it runs.

    Raises:
        MachineError: The limits cannot be stored, and nothing is changed; or the run's machine does
            not answer, and its watchdog keeps the old limits until `run_remote` reaches it.
        RunError: The run has ended, and holds no machine any more.
        Untrusted: The user did not start this run.
    """
    remote = await RemoteRun.read(run, store, context)
    summary = await remote.summary()
    if not (summary.active or summary.holds_machine):
        raise RunError(f"run {run} has ended")
    await remote.grant(limits)
    await remote.append("limits", limits.to_json())
    if (await remote.summary()).started is not None:
        await remote.rule()


class _StoppedEarly(RunError):
    """The run was stopped before it started."""


class RemoteRun:
    """A run on a rented machine, with the steps that bring it to its end."""

    def __init__(
        self,
        record: RunRecord,
        events: tuple[RunEvent, ...],
        store: RunStore,
        context: RentalContext,
        lookup: Lookup | None,
        tmux: bool,
        progress: Progress | None,
        *,
        begun: bool,
    ) -> None:
        if record.spec.rent is None:
            raise RunError(f"run {record.id} is on {record.host}, which was not rented for it")
        self.record, self.store, self.context = record, store, context
        self.rent = record.spec.rent
        self.lookup, self.tmux, self.progress = lookup, tmux, progress
        self.host = find_host(record.host)
        self.machine = RunFolder(self.host, record)
        self.nodes = (self.machine, *peers_of(record))
        self.reports = MachineEvents(self.machine, store, events)
        self.warned: set[str] = set()
        self.told: set[str] = set()
        self.unwanted = False
        self.untold: set[int] = set()
        """Numbers of the nodes whose guards may lack rules that the others have."""
        self.joined = False
        """True if this process has started the run on its machine, or has joined it."""
        self.begun = begun
        """True if an earlier process has started the run, or may have: then only the end of the run
        ends the machine."""
        self._offset = time.time() - boot_clock()
        self.judged_by = (
            record.spec.limits,
            LimitUsage(0.0, 0.0, 0.0, currency=self.rent.currency),
            record.created,
        )
        """The limits and the usage that were read last, and when."""

    @classmethod
    async def read(
        cls,
        run: str,
        store: RunStore,
        context: RentalContext,
        *,
        lookup: Lookup | None = None,
        tmux: bool = True,
        progress: Progress | None = None,
    ) -> RemoteRun:
        """Return the user's run, with what the store says of it now.

        Raises:
            RunError: The run does not exist, or was not rented for.
            Untrusted: The user did not start this run.
        """

        def stored() -> tuple[RunRecord, RunSummary, tuple[RunEvent, ...]]:
            return store.own_record(run), store.summary(run), store.events(run)

        record, summary, events = await store.run(stored)
        begun = may_have_begun(summary, events)
        return cls(record, events, store, context, lookup, tmux, progress, begun=begun)

    @property
    def run(self) -> str:
        return self.record.id

    @property
    def now(self) -> float:
        """Return the time, counted from the start of this object.

        A change of the computer's date must not end a run early.
        """
        return self._offset + boot_clock()

    async def append(self, kind: str, data: dict[str, Any], **more: Any) -> RunEvent | None:
        """Record an event.

        None where it is recorded already, or cannot be, which is said: a full disk must not end the
        work.
        """
        try:
            return await self.store.run(self.store.append, self.run, kind, data, **more)
        except RunError as error:
            self.tell(error)
            return None

    def tell(self, error: HudtuiError) -> None:
        """Say what is wrong, once."""
        if self.context.say is not None and error.what not in self.told:
            self.told.add(error.what)
            self.context.say(" ".join(error.lines()))

    async def say_what_lives(self, error: HudtuiError) -> None:
        """Add to an error that the run's machine may be alive, and how to end it.

        An error that says so stays as it is, and so does any if the machine is gone.
        """
        machine = self.rent.machine
        try:
            owned = await self.owned()
            if owned is None or not owned.open or isinstance(error, EndUnrecorded):
                return
            hourly = f" {money(owned.hourly, owned.currency)} an hour" if owned.hourly else " money"
        except MachineError:
            hourly = " money"
        if f"terminate {machine}" not in " ".join(error.lines()):
            lives = (
                f"Its machine {machine} may be alive and cost{hourly}: hudtui runs resume "
                f"{self.run} goes on with the run, hudtui pods terminate {machine} ends the "
                "machine."
            )
            error.fix = f"{error.fix} {lives}" if error.fix else lives

    async def summary(self) -> RunSummary:
        return await self.store.run(self.store.summary, self.run)

    async def events(self) -> tuple[RunEvent, ...]:
        return await self.store.run(self.store.events, self.run)

    async def owned(self) -> PodRecord | None:
        """Return the machine's record in the ledger."""
        return await self.context.ledger.run(self.context.ledger.get, self.rent.machine)

    async def steps(self) -> AsyncGenerator[RunEvent, None]:
        """Do the steps from the current state to the end of the machine."""
        await self.recover()
        trouble: HudtuiError | None = None
        try:
            if (await self.summary()).active:
                async with aclosing(self.work()) as events:
                    async for event in events:
                        yield event
        except HudtuiError as error:
            early = isinstance(error, _StoppedEarly)
            if (
                isinstance(error, RunError)
                and not early
                and (self.begun or (await self.summary()).started is not None)
            ):
                raise  # the store cannot be written: the run continues
            trouble = None if early else error
            ended = (
                ("stopped", {"why": error.what})
                if early
                else ("failed", {"why": error_sentence(error)})
            )
            if (await self.summary()).active and (failed := await self.append(*ended)):
                yield failed
        async with aclosing(self.settle()) as events:
            async for event in events:
                yield event
        if trouble is not None:
            raise trouble

    # --- the machine ------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Write the machine into the ledger again if it is missing there.

        It is missing after a damaged ledger was moved away.

        Otherwise a second machine would be ordered, or this machine would count as never created.
        """
        summary, context = await self.summary(), self.context
        if await self.owned() is not None or not summary.holds_machine:
            return
        pod = await context.provider.find(self.rent.machine)
        events = [
            event
            for event in await self.events()
            if event.type == "machine" and event.data.get("pod")
        ]
        known = pod.id if pod is not None else str(events[-1].data["pod"]) if events else None

        def write(ledger: Ledger) -> None:
            order, provider, workspace = (
                self.rent.order,
                context.provider,
                self.record.spec.workspace,
            )
            facts: dict[str, Any] = {
                "run": self.run,
                "workspace": workspace,
                "limits": self.record.spec.limits,
            }
            ledger.reserve(order, provider=provider.name, endpoint=provider.endpoint, **facts)
            if known is not None:
                ledger.update(order.name, "ready" if self.begun else "created", pod=known, last=pod)
            ledger.unclaim(order.name)

        await context.ledger.run(write, context.ledger)

    async def work(self) -> AsyncGenerator[RunEvent, None]:
        """Do the steps from the current state to the end of the run."""
        owned = await self.owned()
        if owned is not None and (not owned.open or owned.state == "ending"):
            how = "is being ended" if owned.open else "has ended"
            raise MachineError(f"the machine of run {self.run} {how}", why=owned.why)
        if not self.begun:
            if (await self.summary()).state == "stopping":
                raise _StoppedEarly("stopped before it started")
            await check_inputs(self.record.plan, self.lookup)  # before anything costs money
        async with contextlib.AsyncExitStack() as open_ports:
            for part in (
                (self.watch,)
                if self.begun
                else (self.get_machine, self.tunnels, self.begin, self.watch)
            ):
                async with aclosing(part(open_ports)) as events:
                    async for event in events:
                        yield event

    async def tunnels(
        self, open_ports: contextlib.AsyncExitStack
    ) -> AsyncGenerator[RunEvent, None]:
        """Let the machine reach environments on this computer until this iterator ends."""
        for port in self.record.spec.tunnels:
            for node in self.nodes:
                await open_ports.enter_async_context(node.host.reverse(port, "127.0.0.1", port))
            if event := await self.append(
                "note", {"message": f"port {port} of this computer is port {port} there"}
            ):
                yield event

    async def get_machine(self, _: contextlib.AsyncExitStack) -> AsyncGenerator[RunEvent, None]:
        """Rent the machine, or find the machine that is rented already.

        End it if renting fails or is cancelled.
        """
        context, began = self.context, time.monotonic()
        owned, limits = await context.ledger.run(self.read_ledger)
        if owned is None:
            steps = acquire(
                self.rent.order,
                context.provider,
                context.ledger,
                login=self.login,
                limits=limits,
                tail=GRACE,
                run=self.run,
                workspace=self.record.spec.workspace,
                sleep=self.pause,
                clock=context.clock,
                say=context.say,
            )
        else:
            steps = resume(
                owned,
                context.provider,
                context.ledger,
                login=self.login,
                sleep=self.pause,
                clock=context.clock,
                say=context.say,
            )
        ready = False
        try:
            async with aclosing(steps):
                async for step in steps:
                    if event := await self.note(step):
                        yield event
                    ready = ready or step.kind == "ready"
        finally:
            if not ready:
                await self.store.run(
                    self.record_failed_order
                )  # which a cancellation does not interrupt
        if event := await self.step("ready", began):
            yield event

    async def pause(self, seconds: float) -> None:
        """Wait. Raises _StoppedEarly once if the run was stopped meanwhile."""
        await self.context.sleep(seconds)
        if not self.unwanted and (await self.summary()).state == "stopping":
            self.unwanted = True  # only once, because cancelling the order also pauses
            raise _StoppedEarly(f"run {self.run} was stopped before its machine was ready")

    async def login(self, pod: Pod, node: int) -> Host:
        """Log in to a machine of the pod, and store its address."""
        target = pod_target(pod, self.context.settings, node)
        assert target is not None  # rented machines are behind SSH
        save_address(self.nodes[node].host.name, target)
        await open_host(target)
        return self.nodes[node].host

    async def note(self, step: ProvisionStep) -> RunEvent | None:
        """Record a step of the order as an event."""
        data: dict[str, Any] = {"kind": step.kind, "text": step.text}
        if step.pod is not None:
            data |= {"pod": step.pod.id, "hourly": step.pod.hourly, "currency": step.pod.currency}
            data["prepaid_hours"] = self.rent.offer.price.prepaid_hours
            data["address"] = str(step.pod.addresses[0]) if step.pod.addresses else None
        return await self.append(
            "machine", data, at=step.at, once=f"machine:{step.kind}:{step.text}"
        )

    def record_failed_order(self) -> None:
        """Record the ledger's state of a machine whose order failed.

        Reads and writes files: call it in the store's thread.
        """
        with contextlib.suppress(RunError, MachineError):
            owned = self.context.ledger.get(self.rent.machine)
            if owned is None or owned.state == "never":
                self.store.append(self.run, "machine", {"kind": "never"})
            elif owned.state == "ended":
                self.store.append(
                    self.run,
                    "machine",
                    {"kind": "released", "billed": owned.billed, "text": owned.why},
                )

    async def give_up(self) -> None:
        """End the machine when the caller leaves, unless the run still needs it.

        It ends if the run has not started or its results were fetched.

        A run that has started continues.
        """
        owned, summary = await self.owned(), await self.summary()
        gone, started = owned is None or not owned.open, self.begun or summary.started is not None
        if started and (summary.active or not _has_step(await self.events(), "collect")):
            return
        if not summary.active and (gone or await self.keeps(summary)):
            return
        if summary.active and not gone and owned is not None and owned.state != "ready":
            return  # the order was cancelled without a verified end, which was reported already
        if summary.active:
            await self.append(
                "stopped",
                {"why": f"cancelled before {'its machine was ready' if gone else 'it started'}"},
            )
        if gone:
            return
        outcome = f"{self.rent.machine} is ended, and that was verified."
        try:
            await self._end(
                f"run {self.run} {summary.state}" if started else "cancelled before the run started"
            )
        except HudtuiError as error:
            outcome = " ".join(error.lines())
        if self.context.say is not None:
            self.context.say(outcome)

    async def keeps(self, summary: RunSummary) -> bool:
        """Return whether the machine is kept.

        Its run has failed, and the user wants to keep it and has not stopped the run.
        """
        if summary.state != "failed" or not self.rent.keep_on_failure:
            return False
        return all(event.type != "stop_requested" for event in await self.events())

    async def step(self, name: str, began: float, **data: Any) -> RunEvent | None:
        seconds = round(time.monotonic() - began, 3)
        return await self.append(
            "step", {"name": name, "seconds": seconds, **data}, once=f"step:{name}"
        )

    # --- the run ----------------------------------------------------------------------------------

    async def begin(self, _: contextlib.AsyncExitStack) -> AsyncGenerator[RunEvent, None]:
        """Start the watchdog, then the run."""
        began = time.monotonic()
        rules = await self.rules()
        for node in self.nodes:
            await node.make_folder()
            await self.arm(node, rules)
        if event := await self.step("guard", began):
            yield event
        if (
            await self.summary()
        ).state == "stopping":  # `stop` asks the machine only after this step
            raise _StoppedEarly("stopped before it started")
        rest = continue_launch(
            self.run,
            self.host,
            self.store,
            lookup=self.lookup,
            tmux=self.tmux,
            reports=self.reports,
        )
        async with aclosing(rest) as events:
            async for event in events:
                yield event
        self.joined = True

    async def join(self, open_ports: contextlib.AsyncExitStack) -> AsyncGenerator[RunEvent, None]:
        """Join a run that has started.

        Open its tunnels, send the rules to its watchdog, and restart processes after a reboot.
        """
        summary = await self.summary()
        if (
            summary.state == "stopping"
        ):  # the process that requested the end may have been killed before it told the machine
            asked = [
                event.data.get("grace")
                for event in await self.events()
                if event.type == "stop_requested"
            ]
            await self.end_run(grace=asked[-1] if asked else None)
            return
        async with contextlib.AsyncExitStack() as opened, aclosing(self.tunnels(opened)) as events:
            async for event in events:
                yield event
            await self.arm(self.machine, await self.rules())
            self.untold = {node.node for node in self.nodes[1:]}
            async with aclosing(self.revive()) as revived:
                async for event in revived:
                    yield event
            open_ports.push_async_callback(opened.pop_all().aclose)
        self.joined = True

    async def rule(self) -> None:
        """Send the guard of each machine its rules; one that does not answer keeps them from none.

        Raises:
            MachineError: A machine does not answer, and its guard has the old rules.
        """
        rules, failures = await self.rules(), list[MachineError]()
        if len(self.nodes) == 1:
            await self.machine.rule(rules)
            return
        for node in self.nodes:
            try:
                await ensure_reachable(node.host, within=self.context.within)
                await node.rule(self.rules_of(node, rules))
            except MachineError as error:
                failures.append(error)
        if failures:
            raise MachineError(
                f"the guards of run {self.run} keep their old limits on "
                f"{plural(len(failures), 'machine')} of {len(self.nodes)}",
                why="; ".join(map(error_sentence, failures)),
            )

    async def arm(self, node: RunFolder, rules: Mapping[str, Any]) -> None:
        """Start the watchdog on a machine, with its key if there is one."""
        key = guard_key(self.context.provider.name, self.context.settings) if rules["end"] else None
        await node.arm(self.rules_of(node, rules), key=key)

    def rules_of(self, node: RunFolder, rules: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the rules of a node's watchdog.

        Node 0 alone tells whether the run idles: the others may log nothing for hours.
        """
        return {**rules, "idle_seconds": None} if node.node else rules

    async def rules(self) -> dict[str, Any]:
        """Return the watchdog's rules, counted from now: a reboot starts a new watchdog."""
        owned, limits = await self.context.ledger.run(self.read_ledger)
        now = self.now
        if owned is not None and owned.until is None:  # its hudtui ended before the guard was on it
            with contextlib.suppress(
                MachineError
            ):  # a ledger that cannot be written takes no guard away
                owned = await self.grant()
        pod, until = (owned.pod, owned.until) if owned is not None else (None, None)
        return {
            "max_seconds": None if until is None else round(max(until - GRACE - now, 0.0), 1),
            "count_from": f"{now:.3f}",
            "grace_seconds": GRACE,
            "start_seconds": START_WITHIN,
            "after_seconds": None if self.rent.keep_on_failure else FETCH_WITHIN,
            "idle_seconds": None if limits.idle_minutes is None else limits.idle_minutes * 60,
            "power_off": [["true"]]
            if self.rent.simulated or self.context.provider.features.terminates_itself
            else list(POWER_OFF),
            "end": terminate_rule(self.context.provider, pod, self.context.settings)
            if pod is not None
            else None,
        }

    async def grant(self, limits: Limits | None = None) -> PodRecord | None:
        """Reserve the machine's share of the day's budget, under new limits or its current ones."""
        ledger = self.context.ledger
        owned, current = await ledger.run(self.read_ledger)
        if owned is None:
            if limits is not None:
                await ledger.run(ledger.set_limits, self.rent.machine, limits)
            return None
        change = grant_changed(owned, limits or current, tail=GRACE)
        return await ledger.run(ledger.grant, owned.name, change, limits=limits)

    def read_ledger(self) -> tuple[PodRecord | None, Limits]:
        """Read the machine's record, and its limits.

        Reads a file: call it in the ledger's thread.
        """
        return self.context.ledger.get(self.rent.machine), self.limits()

    def limits(self) -> Limits:
        return self.context.ledger.limits(self.rent.machine) or self.record.spec.limits

    def usage(self) -> LimitUsage:
        provider = self.context.provider
        costs = sum_costs(self.context.ledger, self.now, here=(provider,))
        mine = costs.of(self.rent.machine)
        if mine is not None:
            return costs.usage(mine)
        return LimitUsage(
            0.0, 0.0, costs.beside(provider.endpoint).today_in_usd, currency=self.rent.currency
        )

    async def watch(self, open_ports: contextlib.AsyncExitStack) -> AsyncGenerator[RunEvent, None]:
        """Take over the machine's events until the run has ended.

        Stops the run when a limit is reached.
        """
        looked = time.monotonic()
        while True:
            away = True
            try:
                for event in await self.sync():
                    yield event
                away = False
                if not self.joined and (await self.summary()).active:
                    async with aclosing(self.join(open_ports)) as events:
                        async for event in events:
                            yield event
                if time.monotonic() - looked > self.context.look and (await self.summary()).active:
                    looked = time.monotonic()
                    async with aclosing(self.revive()) as revived:
                        async for event in revived:
                            yield event
            except (MachineError, InputError) as error:  # the run may still be running
                if said := await self.append(
                    "note", {"message": error_sentence(error)}, once=f"note:{error_sentence(error)}"
                ):
                    yield said
                await self.check_exists(error)
                if away:
                    await self.ask_others(error)
            except RunError as error:  # the machine keeps its events until the store can be written
                away = False
                self.tell(error)
            if not (await self.summary()).active:
                for event in await self.reports.stored():
                    yield event
                return
            verdict = await asyncio.to_thread(self.verdict)
            if verdict.level == "end":
                if away:
                    raise MachineError(
                        f"the machine of run {self.run} does not answer",
                        why="; ".join(verdict.reasons),
                    )
                await self.end_run(why="; ".join(verdict.reasons))
            async with aclosing(self.warn(verdict)) as events:
                async for event in events:
                    yield event
            if verdict.level != "end":
                await self.context.sleep(self.context.every)

    def verdict(self) -> LimitVerdict:
        """Compare what the machine has cost with its limits.

        A ledger that cannot be read counts as it was read last.
        """
        try:
            self.judged_by = self.limits(), self.usage(), self.now
        except MachineError as error:
            self.tell(error)
        limits, usage, at = self.judged_by
        later = max(self.now - at, 0.0) / HOUR
        cost = later * self.rent.hourly
        hours, whole, day = (
            usage.hours + later,
            usage.spent_run + cost,
            usage.spent_day + in_usd(cost, usage.currency),
        )
        return judge(limits, LimitUsage(hours, whole, day, currency=usage.currency))

    async def sync(self) -> tuple[RunEvent, ...]:
        """Take over the machine's new events."""
        try:
            async with asyncio.timeout(self.context.within):
                return await self.reports.read()
        except TimeoutError:
            raise Disconnected(f"{self.record.host} does not answer") from None

    async def revive(self) -> AsyncGenerator[RunEvent, None]:
        """Start supervisors and watchdogs again after a reboot, on each machine.

        They continue the run, or record its end. Node 0 comes last, as at the start. Another node
        that does not answer is not waited for: node 0 says what became of it. Guards that lack
        rules get them once their node answers.
        """
        for node in (*self.nodes[1:], self.machine):
            began, bound = time.monotonic(), self.context.within if node.node else None
            try:
                async with asyncio.timeout(bound):
                    status = await node.status()
            except (MachineError, TimeoutError):
                if not node.node:
                    raise
                continue
            running = status.supervisor is not None or status.ended
            if running and node.node not in self.untold:
                continue
            try:
                await self.arm(node, await self.rules())
                self.untold.discard(node.node)
                if running:
                    continue
                await node.start(available_secrets(self.record.plan, self.lookup))
            except MachineError as error:  # node 0 has to be started nevertheless
                if not node.node:
                    raise
                lacks = "its guard keeps its old rules" if running else "it is not started again"
                said = f"{node.title}: {lacks}: {error_sentence(error)}"
                if event := await self.append("note", {"message": said}, once=f"note:{said}"):
                    yield event
                continue
            whose = f"the supervisor of {node.title}" if node.node else "its supervisor"
            text = f"{whose} had ended, perhaps with a reboot of the machine, and was started again"
            if status.status is not None:
                event = await self.append("note", {"message": text})
            else:
                event = None if node.node else await self.step("supervisor", began)
            if event:
                yield event

    async def end_run(self, *, grace: float | None = None, why: str | None = None) -> None:
        """Stop the run, and verify that it has ended on node 0.

        What may be left of it on the other nodes ends with them: all are one machine to the
        provider.

        Raises:
            MachineError: Node 0 does not answer, or a process of the run is left there.
        """
        try:
            await stop_run(self.run, self.host, self.store, grace=grace, why=why)
        except MachineError as error:
            if len(self.nodes) == 1 or (await self.summary()).active:
                raise
            await self.append("note", {"message": error_sentence(error)})

    async def warn(self, verdict: LimitVerdict) -> AsyncGenerator[RunEvent, None]:
        """Record a note for each limit that is near, once."""
        for reason in verdict.reasons if verdict.level != "fine" else ():
            limit = reason.partition(":")[0]
            if limit not in self.warned:
                self.warned.add(limit)
                if event := await self.append("note", {"message": reason}):
                    yield event

    async def check_exists(self, error: HudtuiError) -> None:
        """Ask the provider whether a machine that does not answer still exists.

        Raise MachineError if it is gone.
        """
        owned = await self.owned()
        if owned is None or owned.pod is None:
            return
        try:
            pod = await self.context.provider.get(owned.pod)
        except ProviderError:
            return  # neither machine nor provider answers; both may recover
        if pod is not None and pod.alive:
            return
        noted = await mark_terminated(owned, self.context.provider, self.context.ledger, pod=pod)
        raise MachineError(
            f"the machine of run {self.run} is gone: {noted.why}",
            why=(
                f"{self.context.provider.title} "
                f"{'no longer knows it' if pod is None else f'calls it {pod.status}'}"
            ),
        ) from error

    async def ask_others(self, error: HudtuiError) -> None:
        """Ask the other nodes what became of the run while node 0 does not answer.

        A node that has lost node 0 has ended its part, and says why.

        Raises:
            MachineError: The run has failed there: nothing is left that node 0 could go on with.
        """
        for node in self.nodes[1:]:
            with contextlib.suppress(MachineError, TimeoutError):
                async with asyncio.timeout(self.context.within):
                    status = await read_status(node.host, node.path("status.json"))
                if status is not None and status.state == "failed":
                    break
        else:
            return
        raise MachineError(
            f"{self.machine.title} does not answer, and run {self.run} has failed on {node.title}",
            why=status.why,
        ) from error

    async def lost(self, error: HudtuiError) -> PodRecord | None:
        """Return the record of a machine that no longer exists according to its provider.

        None if it may still exist.
        """
        owned = await self.owned()
        if owned is not None and owned.open:
            with contextlib.suppress(MachineError):
                await self.check_exists(error)
            owned = await self.owned()
        return owned if owned is not None and not owned.open else None

    async def stop(self, grace: float | None) -> None:
        """Stop the run in any state."""
        try:
            await self.store.run(
                self.store.append,
                self.run,
                "stop_requested",
                {"grace": grace},
                once="stop_requested",
            )
        except RunError as error:
            if (await self.summary()).started is None and is_managed(self.store, self.run):
                raise  # the hudtui that rents the machine would not learn of it
            self.tell(error)
        summary = await self.summary()
        if not summary.active:
            return
        if summary.started is None and not is_guarded(await self.events()):
            # The hudtui that rents it sees the request and cancels.
            async with self.turn(_GIVEN_UP_WITHIN, "cancels the order of the machine"):
                if (await self.summary()).active:
                    await self.append("stopped", {"why": "stopped before it started"})
            return
        try:
            await self.end_run(grace=grace)
        except MachineError as error:
            await self.append(
                "stopped", {"why": f"its machine could not be asked: {error_sentence(error)}"}
            )

    @contextlib.asynccontextmanager
    async def turn(self, patience: float, does: str) -> AsyncGenerator[None, None]:
        """Hold the lock of the run, once its manager has handled the request to stop.

        The manager is the hudtui that manages the run.
        """
        if self.context.say is not None and is_managed(self.store, self.run):
            self.context.say(f"The hudtui that manages run {self.run} {does}: waiting for it")
        async with contextlib.AsyncExitStack() as held:
            try:
                await held.enter_async_context(lock_run(self.store, self.run, patience=patience))
            except RunError:
                raise RunError(
                    f"the machine of run {self.run} has not ended yet: the hudtui that manages the "
                    "run is still busy",
                    why=f"It {does}; this took longer than {patience:.0f} s.",
                    fix=f"See it: hudtui runs show {self.run}. If it leaves the machine, type "
                    f"hudtui runs stop {self.run} again. To end the machine at once, without "
                    f"results: hudtui pods terminate {self.rent.machine}.",
                ) from None
            yield

    # --- the end ----------------------------------------------------------------------------------

    async def settle(self, *, keep: bool = True) -> AsyncGenerator[RunEvent, None]:
        """Fetch the results and end the machine.

        With `keep`, the machine of a failed run is kept if the user wants that.
        """
        await self.recover()
        owned, summary = await self.owned(), await self.summary()
        if owned is None or not owned.open:
            if event := await self.gone(owned):
                yield event
            return
        if owned.state == "ready":
            living = () if summary.started is None else await end_peers(self.record)
            try:
                began = time.monotonic()
                collected = await self.fetch()
                for text in collected.lacking:
                    if event := await self.append("note", {"message": text}):
                        yield event
                if event := await self._collected(collected, began):
                    yield event
            except HudtuiError as error:
                if summary.state == "finished":
                    if owned := await self.lost(error):
                        if event := await self.gone(owned):
                            yield event
                        raise MachineError(
                            f"the results of run {self.run} are lost with its machine",
                            why=owned.why,
                        ) from None
                    raise MachineError(
                        f"the results of run {self.run} could not be fetched; its machine is KEPT "
                        "and still costs money",
                        why=error_sentence(error),
                        fix=f"Try again: hudtui runs resume {self.run}. Without the results: "
                        f"hudtui pods terminate {self.rent.machine}.",
                    ) from None
                text = f"its results could not be fetched: {error_sentence(error)}"
                if event := await self.append("note", {"message": text}):
                    yield event
            if keep and await self.keeps(summary):
                text = (
                    "the machine is kept, as you wished, and costs money: hudtui pods terminate "
                    f"{self.rent.machine}"
                )
                if living:
                    text += f" ({'; '.join(living)})"
                if event := await self.append("note", {"message": text}):
                    yield event
                return
        for event in await self._end(f"run {self.run} {summary.state}"):
            yield event

    async def _end(self, why: str) -> tuple[RunEvent, ...]:
        """End the machine, and record its end."""
        began = time.monotonic()
        unrecorded: EndUnrecorded | None = None
        try:
            pod = await self.end_machine(why)
        except EndUnrecorded as error:
            unrecorded, pod = (
                error,
                Pod(self.context.provider.name, self.rent.machine, self.rent.machine, "gone"),
            )
        step = {
            "name": "terminate",
            "seconds": round(time.monotonic() - began, 3),
            "billed": pod.bill,
        }
        released = self._released(pod.bill if pod.id else None, never=not pod.id)
        # In one transaction, because watchers of the run stop as soon as its machine is released.
        events = (("machine", released, None), ("step", step, "step:terminate"))
        try:
            added = await self.store.run(self.store.append_together, self.run, events)
            if unrecorded is not None:
                raise unrecorded
            return added
        except RunError as error:
            raise EndUnrecorded(
                f"{released['text']}; it could not be written down",
                why="; ".join(error.lines()),
                fix=f"Free some space; then hudtui runs resume {self.run} writes it down.",
            ) from None

    async def end_machine(self, why: str) -> Pod:
        """End the machine.

        A machine that was ordered and not seen yet may still appear: wait for it, then end it.
        """
        context = self.context
        while True:
            try:
                return await terminate_pod(
                    self.rent.machine,
                    context.provider,
                    context.ledger,
                    why=why,
                    sleep=context.sleep,
                )
            except TerminationUnverified:
                owned = await self.owned()
                if (
                    owned is None
                    or owned.state != "intended"
                    or time.time() - owned.created > GRACE_UNSEEN
                ):
                    raise
            await context.sleep(_FETCH_PAUSE)

    async def fetch(self) -> FetchedResults:
        """Fetch the results, with several attempts if the connection is lost."""
        target = results_folder(self.record, self.store)
        for _ in range(_FETCHES):
            try:
                await self._last_words()
                return await fetch_results(self.machine, target, progress=self.progress)
            except Disconnected as error:
                await self.check_exists(error)
                await self.context.sleep(_FETCH_PAUSE)
        return await fetch_results(self.machine, target, progress=self.progress)

    async def _last_words(self) -> None:
        """Wait briefly for the supervisor's last `status.json`.

        It is written after the event that ends the run.
        """
        with contextlib.suppress(FileRefused):
            for _ in range(_LAST_WORDS):
                status = await read_status(self.machine.host, self.machine.path("status.json"))
                if status is None or status.state in ("finished", "failed", "stopped"):
                    return
                await self.context.sleep(_LOOK)

    async def _collected(self, found: FetchedResults, began: float) -> RunEvent | None:
        data = {
            "files": found.files,
            "bytes": found.size,
            "fetched": found.fetched,
            "folder": str(found.folder),
        }
        return await self.step("collect", began, **data)

    def _released(self, billed: float | None, *, never: bool) -> dict[str, Any]:
        """Forget the machine's address.

        Returns the data of the event that says how the machine ended.
        """
        text = (
            f"{self.rent.machine} was never created"
            if never
            else f"{self.rent.machine} is ended, and that was verified"
        )
        self._forget_addresses()
        return {
            "kind": "never" if never else "released",
            "billed": billed,
            "currency": self.rent.currency,
            "text": text,
        }

    def _forget_addresses(self) -> None:
        for name in (self.record.host, *self.record.spec.peers):
            forget_address(name)

    async def gone(self, owned: PodRecord | None) -> RunEvent | None:
        """Record that the machine no longer exists."""
        self._forget_addresses()
        if not (await self.summary()).holds_machine:
            return None
        data = self._released(
            owned.billed if owned else None, never=owned is None or owned.state == "never"
        )
        return await self.append("machine", data)


def is_guarded(events: Iterable[RunEvent]) -> bool:
    """Return whether a watchdog was put onto the machine of a run, by the run's events."""
    return _has_step(events, "guard")


def may_have_begun(summary: RunSummary, events: Iterable[RunEvent]) -> bool:
    """Return whether a run has started on its machine, or was about to.

    It was about to if its hudtui was killed at that point.
    """
    return summary.started is not None or _has_step(events, "plan")


def _has_step(events: Iterable[RunEvent], name: str) -> bool:
    return any(event.type == "step" and event.data.get("name") == name for event in events)


def is_run_active(owned: PodRecord) -> bool:
    """Return whether the run of a rented machine is active, by the store of its workspace."""
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
        return True  # unknown: do not offer the machine for ending
