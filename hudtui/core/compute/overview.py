"""The overview of all providers.

What they offer, which pods are alive there, and what those cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

from hudtui.core.compute.costs import HOUR, CostSummary, sum_costs
from hudtui.core.compute.limits import hours_left, judge
from hudtui.core.compute.market import Market, fetch_offers, load_cache, save_cache
from hudtui.core.compute.pod_row import PodRow
from hudtui.core.compute.pods import Ledger, PodRecord
from hudtui.core.compute.provider import Provider, ProviderError
from hudtui.core.compute.reconcile import IsActive, ProviderOutage, Reconciliation, reconcile
from hudtui.core.compute.values import Account
from hudtui.core.errors import InputError


@dataclass(frozen=True)
class PodsSnapshot:
    """Everything that is alive or may be, and whose money it is.

    A provider that does not answer takes no row away: its machines stay among `pods`, as the ledger
    knows them, with `reachable` False and the time they were `seen`; `silent` says who did not
    answer, why, and how old that state is. Where `pods` is empty and `silent` is not, it is not
    known that nothing is alive.
    """

    at: float
    """The time of this snapshot, in seconds since the epoch."""
    pods: tuple[PodRow, ...] = ()
    """Those that no run owns first, the dearest first among them; those whose provider does not
    answer after the others of this program; those that are not of this program last."""
    spending: CostSummary = field(default_factory=CostSummary)
    accounts: Mapping[str, Account] = field(default_factory=dict)
    """By the provider's name. A provider that did not answer is left out, and named in the
    warnings."""
    unclear: tuple[str, ...] = ()
    """Names of machines that may exist: their providers do not say. Each has a row in `pods` that
    is not `reachable`."""
    taken: tuple[PodRecord, ...] = ()
    """Machines that ended in the last 24 hours without being asked to (a spot machine taken back,
    an empty wallet), the latest first. `PodRecord.why` says why, for people; `PodRecord.updated`
    when that was noted. They stay in `hudtui pods history`."""
    warnings: tuple[str, ...] = ()
    silent: tuple[ProviderOutage, ...] = ()
    """Providers that did not answer; `ProviderOutage.text(now)` is the line to show."""

    def costed(self, one: PodRow) -> PodRow:
        """Return a machine with its cost, as it was found by itself."""
        return replace(one, cost=self.spending.of(one.pod.id) or self.spending.of(one.pod.name))

    def left(self, one: PodRow) -> float | None:
        """Hours until a machine ends.

        By its limits, by the guard on it, or because the wallet is empty by then.
        The wallet pays for all that is alive at its provider. None: nothing is known that ends it.
        """
        if one.cost is None:
            return None
        found = [] if one.until is None else [max(one.until - self.at, 0.0) / HOUR]
        if one.limits is not None:
            left = hours_left(one.limits, self.spending.usage(one.cost), one.cost.per_hour)
            found += [left] if left is not None else []
        found += [lasts for lasts in (self.wallet_lasts(one),) if lasts is not None]
        return min(found, default=None)

    def wallet_lasts(self, one: PodRow) -> float | None:
        """Hours for which the wallet pays for all that is alive at a machine's provider.

        None where that is not known.
        """
        account = self.accounts.get(one.pod.provider)
        if account is None or one.cost is None:
            return None
        together = self.spending.per_hour_at(one.pod.provider, one.cost.currency)
        return None if together is None else account.lasts(together, one.cost.currency)

    @property
    def unreachable(self) -> tuple[PodRow, ...]:
        """The rows whose state is the ledger's, and not the provider's of this moment."""
        return tuple(one for one in self.pods if not one.reachable)

    @property
    def orphans(self) -> tuple[PodRow, ...]:
        """Alive, of this program, and owned by no run."""
        return tuple(one for one in self.pods if one.unclaimed is not None)


class Overview:
    """Asks the providers and remembers what they said.

    `cache` is the file in which offers are remembered from one session to the next; for `active`
    see `reconcile`.
    """

    def __init__(
        self,
        providers: Mapping[str, Provider],
        ledger: Ledger,
        *,
        cache: Path,
        active: IsActive | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.providers, self.ledger, self.now = dict(providers), ledger, now
        self.market = load_cache(cache, self.providers.values())
        """What is known of the offers; at first what was remembered."""
        self.holdings: PodsSnapshot | None = None
        """What was seen last; None before the first look."""
        self._cache, self._active = cache, active

    @property
    def paid(self) -> tuple[Provider, ...]:
        """The providers whose machines cost money."""
        return tuple(provider for provider in self.providers.values() if provider.features.paid)

    def provider_of(self, name: str) -> Provider:
        """The provider of that name.

        Raises:
            InputError: No such provider is set up.
        """
        if name not in self.providers:
            raise InputError(
                f"there is no provider {name!r} here",
                fix="Its key may be missing: see the settings.",
            )
        return self.providers[name]

    async def refresh(self) -> AsyncGenerator[Market, None]:
        """Ask for all offers; see `fetch_offers`. What was answered is remembered."""
        async with aclosing(fetch_offers(self.market, self.providers, self.now)) as markets:
            async for self.market in markets:
                yield self.market
        with contextlib.suppress(InputError):  # a cache that cannot be written is no one's trouble
            await asyncio.to_thread(save_cache, self.market, self._cache)

    async def look(self) -> PodsSnapshot:
        """See what is alive and what it costs, and bring the ledger up to date.

        Each provider is asked once for each thing.

        Raises:
            MachineError: The ledger cannot be used.
        """
        found = await reconcile(self.paid, self.ledger, active=self._active, now=self.now)
        accounts, warnings = await self._ask_accounts(found)
        self.holdings = await asyncio.to_thread(self._hold, found, accounts, warnings)
        return self.holdings

    async def _ask_accounts(
        self, found: Reconciliation
    ) -> tuple[dict[str, Account], tuple[str, ...]]:
        """The accounts of all providers, and all warnings.

        What `reconcile` has asked is not asked again.
        """

        async def ask(provider: Provider) -> Account | ProviderError:
            try:
                return await provider.account()
            except ProviderError as error:
                return error

        rest = [provider for provider in self.paid if provider.name not in found.accounts]
        answers = dict(zip(rest, await asyncio.gather(*map(ask, rest)), strict=True))
        unreachable = {one.provider for one in found.silent}  # they are named already
        refused = [
            f"{provider.title} did not answer about the account: {answer.what}"
            for provider, answer in answers.items()
            if isinstance(answer, ProviderError) and provider.name not in unreachable
        ]
        known = {
            **found.accounts,
            **{provider.name: answer for provider, answer in answers.items()},
        }
        return {name: one for name, one in known.items() if isinstance(one, Account)}, (
            *found.warnings,
            *refused,
        )

    def _hold(
        self, found: Reconciliation, accounts: Mapping[str, Account], warnings: tuple[str, ...]
    ) -> PodsSnapshot:
        now = self.now()
        spending = sum_costs(self.ledger, now, here=self.paid)
        rows = [*found.orphans, *found.alive]
        rows += [self._unreachable(record) for record in found.unclear]
        held = [self._judged(row, spending) for row in rows]
        held += [PodRow(pod, self.providers.get(pod.provider), seen=now) for pod in found.others]
        return PodsSnapshot(
            at=now,
            pods=tuple(held),
            spending=spending,
            accounts=accounts,
            unclear=tuple(one.name for one in found.unclear),
            taken=self._taken(now),
            warnings=warnings,
            silent=found.silent,
        )

    def _taken(self, now: float) -> tuple[PodRecord, ...]:
        found = [
            one
            for one in self.ledger.records(alive=False)
            if one.unasked and one.updated > now - 24 * HOUR
        ]
        return tuple(sorted(found, key=lambda one: -one.updated))

    def _unreachable(self, record: PodRecord) -> PodRow:
        pod = replace(record.last_pod(), name=record.name)
        provider = next((one for one in self.paid if record.is_at(one)), None)
        return PodRow(pod, provider, record, reachable=False, seen=record.seen)

    def _judged(self, row: PodRow, spending: CostSummary) -> PodRow:
        """The machine with its cost, its limits, and how near it is to them."""
        cost, limits = (
            spending.of(row.pod.name) or spending.of(row.pod.id),
            self.ledger.limits(row.pod.name),
        )
        verdict = None
        if cost is not None and limits is not None:
            verdict = judge(limits, spending.usage(cost))
        # Without a sum (the ledger could not be written) the cost that the look found stays.
        return replace(row, cost=cost or row.cost, limits=limits, verdict=verdict)

    async def close(self) -> None:
        await asyncio.gather(
            *(provider.close() for provider in self.providers.values()), return_exceptions=True
        )
