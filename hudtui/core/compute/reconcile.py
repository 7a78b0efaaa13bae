"""What a start of the app has to know.

Machines that live and that no run owns, and machines that ended meanwhile. A machine that was
rented by hand, without a run, is its user's: it is no orphan, and is ended by name alone.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from hudtui.core.compute.lifecycle import PREFIX, UNSEEN_GRACE, find_in_history, mark_terminated
from hudtui.core.compute.pod_row import PodRow, costed, unclaimed_reason
from hudtui.core.compute.pods import Ledger, PodRecord, RecordState, price_facts
from hudtui.core.compute.provider import Provider, ProviderError
from hudtui.core.compute.values import Account, Pod
from hudtui.core.errors import MachineError
from hudtui.core.http import is_loopback
from hudtui.core.text import clean_line, duration

IsActive = Callable[[PodRecord], bool]


@dataclass(frozen=True)
class ProviderOutage:
    """A provider that could not be asked what is alive.

    What the ledger knows of its machines holds until it can be.
    """

    provider: str
    """Its name, such as `prime`."""
    title: str
    why: str
    """What kept it from answering, for people."""
    seen: float | None
    """When it said last of one of our machines that it is alive, in seconds since the epoch; None:
    never, as far as is known."""

    def text(self, now: float) -> str:
        """One line: `Prime Intellect unreachable: last known state, 40 s old`."""
        old = "never seen" if self.seen is None else f"{duration(max(now - self.seen, 0.0))} old"
        return f"{self.title} unreachable: last known state, {old}"

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return dict(vars(self))


@dataclass(frozen=True)
class Reconciliation:
    """The ledger and the providers, compared."""

    orphans: tuple[PodRow, ...] = ()
    """Alive, and owned by no active run; the dearest first."""
    lost: tuple[PodRecord, ...] = ()
    """Taken for alive until now, and ended; their entries say so by now."""
    unclear: tuple[PodRecord, ...] = ()
    """They may exist: their providers do not say. The next start looks for them again."""
    alive: tuple[PodRow, ...] = ()
    """Alive and owned, as they should be: by a run that is at work, or rented by hand."""
    by_hand: tuple[PodRecord, ...] = ()
    """Those of `alive` that were rented by hand, without a run."""
    warnings: tuple[str, ...] = ()
    """What could not be checked, in words."""
    silent: tuple[ProviderOutage, ...] = ()
    """Providers that did not answer. Their machines are among `unclear`; see `PodRecord.last_pod`
    and `PodRecord.seen`."""
    others: tuple[Pod, ...] = field(default=(), compare=False)
    """Living pods of the accounts that hudtui did not rent."""
    accounts: Mapping[str, Account | ProviderError] = field(default_factory=dict, compare=False)
    """What the providers said of the accounts, by the provider's name; only those are asked that
    have pods of ours."""

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui pods reconcile --json`."""
        return {
            "orphans": [_orphan_json(orphan) for orphan in self.orphans],
            "lost": [owned.to_json() for owned in self.lost],
            "unclear": [owned.to_json() for owned in self.unclear],
            "alive": [one.pod.to_json() for one in self.alive],
            "by_hand": [owned.name for owned in self.by_hand],
            "warnings": list(self.warnings),
            "silent": [one.to_json() for one in self.silent],
        }


async def reconcile(
    providers: Mapping[str, Provider] | Iterable[Provider],
    ledger: Ledger,
    *,
    active: IsActive | None = None,
    now: Callable[[], float] = time.time,
) -> Reconciliation:
    """Compare the ledger with what providers say, and bring it up to date. Nothing is ended.

    Args:
        providers: Whom to ask; those whose machines cost nothing are left out.
        ledger: What was asked for.
        active: Whether an entry's run is still at work (or will be: it is still preparing the
            machine). Without it, every machine counts as owned that was got ready for a run. A
            machine that a living process is preparing is owned in any case.
        now: The time, seconds since the epoch.

    Raises:
        MachineError: The ledger cannot be read. One that cannot be written is a warning.
    """
    asked = list(providers.values() if isinstance(providers, Mapping) else providers)
    paid = {provider.name: provider for provider in asked if provider.features.paid}
    unwritten: dict[str, None] = {}
    notes = _Notes(ledger, unwritten)
    entries = await asyncio.to_thread(ledger.records, alive=False)
    is_active = active or _has_run
    parts = await asyncio.gather(
        *(
            _compare(
                provider,
                [entry for entry in entries if entry.is_at(provider)],
                notes,
                is_active,
                now,
            )
            for provider in paid.values()
        )
    )
    strange = []
    for entry in entries:
        if not entry.open or entry.held or any(entry.is_at(provider) for provider in paid.values()):
            continue
        if not is_loopback(entry.endpoint):
            strange.append(entry)
        elif entry.provider in paid and await asyncio.to_thread(_is_silent, entry.endpoint):
            # Simulators come and go, and their machines with them.
            await notes.update(entry, "ended", why="it was simulated, by a simulator that is gone")
    warnings = [
        (
            f"{clean_line(entry.name)} cannot be checked, and may cost money: there is no key here "
            f"for {entry.provider}"
        )
        + (f" at {clean_line(entry.endpoint)}" if entry.endpoint else "")
        + "; one in a .env counts once it is trusted"
        for entry in strange
    ]
    return Reconciliation(
        tuple(
            sorted(
                (o for part in parts for o in part.orphans), key=lambda o: -(o.pod.hourly or 0.0)
            )
        ),
        tuple(owned for part in parts for owned in part.lost),
        (*(owned for part in parts for owned in part.unclear), *strange),
        tuple(row for part in parts for row in part.alive),
        tuple(owned for part in parts for owned in part.by_hand),
        (*(text for part in parts for text in part.warnings), *warnings, *unwritten),
        tuple(one for part in parts for one in part.silent),
        tuple(pod for part in parts for pod in part.others),
        {name: answer for part in parts for name, answer in part.accounts.items()},
    )


class _Notes:
    """The ledger, where writing what was found may fail.

    A full disk must not hide the machines that live.
    """

    def __init__(self, ledger: Ledger, warnings: dict[str, None]) -> None:
        self._ledger, self._warnings = ledger, warnings

    def _failed(self, error: MachineError) -> None:
        self._warnings.setdefault(
            f"what was found could not be written down: {'; '.join(error.lines())}"
        )

    async def update(self, entry: PodRecord, state: RecordState, **facts: Any) -> PodRecord:
        """The entry with what became of its pod, written down where that is possible."""
        try:
            return await self._ledger.run(self._ledger.update, entry.name, state, **facts)
        except MachineError as error:
            self._failed(error)
            return replace(entry, state=state, **facts)

    async def seen(
        self, pods: Mapping[str, Pod], at: float, account: str | None = None
    ) -> dict[str, PodRecord]:
        """The entries of living pods by name, with what their provider said.

        Empty where that cannot be written down.
        """
        try:
            entries = await self._ledger.run(self._ledger.update_seen, pods, at, account)
        except MachineError as error:
            self._failed(error)
            return {}
        return {entry.name: entry for entry in entries}

    async def strays(self, provider: Provider, pods: Iterable[Pod], at: float) -> None:
        """Keep the living pods that no open record has, so that every sum counts them."""
        try:
            await self._ledger.run(self._ledger.keep_strays, provider, pods, at)
        except MachineError as error:
            self._failed(error)

    async def gone(self, entry: PodRecord, provider: Provider, pod: Pod | None) -> PodRecord:
        """The entry of a pod that has ended; see `mark_terminated`."""
        try:
            return await mark_terminated(entry, provider, self._ledger, pod=pod)
        except MachineError as error:
            self._failed(error)
            return replace(entry, state="ended", why="it has ended")


def _is_silent(endpoint: str) -> bool:
    """Whether nothing answers at an address of this machine any more."""
    url = urlsplit(endpoint)
    try:
        socket.create_connection((url.hostname or "127.0.0.1", url.port or 80), timeout=2.0).close()
    except TimeoutError:
        return False
    except OSError:
        return True
    return False


def _has_run(owned: PodRecord) -> bool:
    return owned.run is not None and owned.state == "ready"


async def _compare(
    provider: Provider,
    entries: list[PodRecord],
    notes: _Notes,
    active: IsActive,
    now: Callable[[], float],
) -> Reconciliation:
    try:
        pods = [pod for pod in await provider.pods() if pod.alive]
    except ProviderError as error:
        waiting = tuple(entry for entry in entries if entry.open and (entry.pod or not entry.held))
        loud = f"; {len(waiting)} of your machines may be alive there" if waiting else ""
        latest = max((entry.seen for entry in waiting if entry.seen is not None), default=None)
        return Reconciliation(
            unclear=waiting,
            warnings=(f"{provider.title} could not be asked{loud}: {error.what}",),
            silent=(
                ProviderOutage(provider.name, provider.title, "; ".join(error.lines()), latest),
            ),
        )
    by_id = {entry.pod: entry for entry in entries if entry.pod}
    by_name = {entry.name: entry for entry in entries}
    seen: set[str] = set()
    ours: list[tuple[Pod, PodRecord | None]] = []
    closed = {entry.name for entry in entries if not entry.open}
    for pod in pods:
        entry = by_id.get(pod.id) or by_name.get(pod.name)
        if entry is not None and entry.pod not in (None, pod.id):
            entry = None  # the name of one of ours on another machine
        if entry is not None:
            seen.add(entry.name)
            if entry.pod is None and not entry.held:
                entry = await notes.update(entry, "created", pod=pod.id, **price_facts(pod))
        if entry is not None or pod.name.startswith(PREFIX):
            ours.append((pod, entry))
    warnings: list[str] = []
    accounts: dict[str, Account | ProviderError] = {}

    async def ask_account() -> Account | None:
        """The account, asked once; None where that fails, with a warning."""
        if provider.name not in accounts:
            try:
                accounts[provider.name] = await provider.account()
            except ProviderError as error:
                accounts[provider.name] = error
                warnings.append(f"the bills could not be read: {error.what}")
        answer = accounts[provider.name]
        return answer if isinstance(answer, Account) else None

    account = await ask_account() if ours else None
    ours = [(_charged(pod, account), entry) for pod, entry in ours]
    told = {entry.name: pod for pod, entry in ours if entry is not None}
    whose = account.name if account is not None else None
    fresh = await notes.seen(told, now(), whose)
    ours = [
        (pod, fresh.get(entry.name, entry) if entry is not None else None) for pod, entry in ours
    ]
    lost, unclear = [], []
    for entry in entries:
        if entry.name in seen or not entry.open or entry.held:
            continue
        try:
            found = await _missing(entry, provider, notes, now)
        except ProviderError as error:
            unclear.append(entry)
            warnings.append(f"{entry.name} could not be checked: {error.what}")
            continue
        if isinstance(found, Pod):
            found = _charged(found, await ask_account())
            ours.append(
                (found, (await notes.seen({entry.name: found}, now())).get(entry.name, entry))
            )
        elif found.open:
            unclear.append(found)
            if found.pod:
                whose = (
                    f" It was rented with the account {clean_line(found.account, 60)}."
                    if found.account
                    else ""
                )
                warnings.append(
                    f"{provider.title} does not know {found.name}, not even in its history: is "
                    "this the account's key?" + whose
                )
        elif found.state == "ended":
            lost.append(found)
    noted = [entry for _, entry in ours if entry is not None]
    wanted = [entry for entry in noted if entry.name not in closed and entry.state != "ending"]
    by_hand = [entry for entry in wanted if entry.by_hand]

    def read() -> set[str]:
        return {entry.name for entry in wanted if entry.by_hand or entry.held or active(entry)}

    kept = await asyncio.to_thread(read)  # `active` reads the store of a project
    orphans, alive = [], []
    for pod, entry in ours:
        if entry is not None and entry.name in kept:
            alive.append(PodRow(pod, provider, entry, seen=now()))
            continue
        at = now()
        cost = costed(pod, entry, provider.endpoint, at)
        why = unclaimed_reason(entry, closed=entry is not None and entry.name in closed)
        orphans.append(PodRow(pod, provider, entry, cost, unclaimed=why, seen=at))
    strays = [one.pod for one in orphans if one.record is None or not one.record.open]
    await notes.strays(provider, strays, now())
    known = {pod.id for pod, _ in ours}
    others = tuple(pod for pod in pods if pod.id not in known)
    return Reconciliation(
        tuple(orphans),
        tuple(lost),
        tuple(unclear),
        tuple(alive),
        tuple(by_hand),
        tuple(warnings),
        others=others,
        accounts=accounts,
    )


async def _missing(
    entry: PodRecord, provider: Provider, notes: _Notes, now: Callable[[], float]
) -> Pod | PodRecord:
    """What became of an entry that the provider's list lacks.

    A machine that is alive all the same, or the entry as it is now.
    """
    if entry.pod:
        pod = await provider.get(entry.pod)
        if pod is not None and pod.alive:
            return pod
        if pod is not None or await find_in_history(provider, pod=entry.pod) is not None:
            return await notes.gone(entry, provider, pod)
        return entry
    ordered = await provider.find(entry.name)
    if ordered is not None and ordered.alive:
        await notes.update(entry, "created", pod=ordered.id, **price_facts(ordered))
        return ordered
    if ordered is not None or await find_in_history(provider, name=entry.name) is not None:
        return await notes.gone(entry, provider, ordered)
    if now() - entry.created > UNSEEN_GRACE:
        return await notes.update(entry, "never", why="it was never seen")
    return entry


def _charged(pod: Pod, account: Account | None) -> Pod:
    """The machine with what was charged for it so far, as its account says."""
    spent = account.spent.get(pod.id) if account is not None else None
    if account is None or spent is None or account.currency != pod.currency:
        return pod
    return replace(pod, billed=spent, estimated=account.estimated)


def _orphan_json(orphan: PodRow) -> dict[str, Any]:
    cost = orphan.cost if orphan.cost_text is not None else None
    return {
        "pod": orphan.pod.to_json(),
        "owned": orphan.record.to_json() if orphan.record else None,
        "age_seconds": orphan.age(time.time()),
        "cost": cost.spent if cost else None,
        "cost_is_billed": cost is not None and cost.billed,
        "why": orphan.unclaimed,
    }
