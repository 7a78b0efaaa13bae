"""What rented machines cost: an hour, today, and each in all.

The provider's own bill counts where there is one; else it is price times time since the machine was
asked for, which is at most a little too much. Which of the two it is, is said everywhere. The
header, the lists and the day's budget take the same figures from here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hudtui.core.compute.limits import LimitUsage, in_usd
from hudtui.core.compute.pods import Ledger, PodRecord
from hudtui.core.compute.provider import Provider
from hudtui.core.compute.values import Account, Pod, Price
from hudtui.core.http import is_loopback
from hudtui.core.text import duration, money

HOUR = 3600.0
_CENT = 0.005
"""Amounts below it do not show."""
_LATE = 900.0
"""Seconds past the deadline after which a guard whose machine still exists counts as failed."""


def cost_text(amount: float, currency: str, billed: bool) -> str:
    """An amount, and where it comes from.

    `$1.25 billed` is the provider's bill, `about $1.30` is not.
    """
    return f"{money(amount, currency)} billed" if billed else f"about {money(amount, currency)}"


def charge_text(pod: Pod) -> str | None:
    """What a provider says that a machine has cost in all.

    `$1.25`, `about $1.25 (estimated)`; None where it says nothing.
    """
    if pod.billed is None:
        return None
    amount = money(pod.billed, pod.currency)
    return f"about {amount} (estimated)" if pod.estimated else amount


@dataclass(frozen=True)
class PodCost:
    """What one machine costs. Amounts are in `currency`."""

    name: str
    pod: str | None
    """The provider's id; None where it is not known."""
    provider: str
    endpoint: str
    """Address of the provider's service; see `same_purse`."""
    run: str | None
    """The run that it is for."""
    per_hour: float
    """Price an hour at the moment; 0 for a machine that has ended or whose price is unknown."""
    spent: float
    """In all, so far."""
    today: float
    """The part of `spent` that falls on today. A bill is spread evenly over the time the machine
    was there."""
    currency: str
    billed: bool
    """`spent` is the provider's bill, to the cent; else it is price times time, or an estimate."""
    hours: float
    """Since it was asked for, or until it ended."""
    open: bool
    """It may still cost money."""
    expected: bool = True
    """It is there, or a living process asks for it; False where it was asked for in the past and
    never seen."""
    unused: float = 0.0
    """The part of `spent` that was charged at once for time to come."""
    pending: float = 0.0
    """What price times time comes to today beyond `today`: a bill may come late, and a machine may
    exist that was not seen."""
    ahead: float = 0.0
    """Possible further cost until its guard ends it; until midnight without a known guard."""

    @property
    def text(self) -> str:
        """The amount, and where it comes from: `$1.25 billed`, `about $1.30`."""
        return cost_text(self.spent, self.currency, self.billed)

    @property
    def today_in_usd(self) -> float:
        """Return `today` in USD; see `in_usd`."""
        return in_usd(self.today, self.currency)

    @property
    def more_in_usd(self) -> float:
        """Return what the day's budget keeps for this machine beyond `today`, in USD."""
        return in_usd(self.pending + self.ahead, self.currency)


def same_purse(endpoint: str, other: str) -> bool:
    """Return whether machines of two services share the day's budget.

    All real ones do, those of a simulator alone.
    """
    return endpoint == other if is_loopback(endpoint) else not is_loopback(other)


@dataclass(frozen=True)
class CostSummary:
    """What all machines cost together.

    Currencies are never added to each other, nor real money to simulated money.
    """

    pods: tuple[PodCost, ...] = ()
    """Every pod that was alive today, the oldest first."""

    @property
    def open(self) -> tuple[PodCost, ...]:
        """Those that may still cost money."""
        return tuple(pod for pod in self.pods if pod.open)

    @property
    def per_hour(self) -> dict[str, float]:
        """Return what all that is alive costs per hour, by currency."""
        return sums_of((pod.per_hour, pod.currency) for pod in self.open)

    @property
    def today(self) -> dict[str, float]:
        """Return what all that was alive today has cost today, by currency.

        Those that have ended included.
        """
        return sums_of((pod.today, pod.currency) for pod in self.pods)

    @property
    def currency(self) -> str:
        """The currency in which most machines are paid, and the one of a sum of nothing."""
        currencies = [pod.currency for pod in self.pods]
        return max(
            set(currencies),
            key=lambda one: (currencies.count(one), one == "USD", one),
            default="USD",
        )

    @property
    def per_hour_text(self) -> str:
        """`per_hour`, such as `$3.20 + €1.00`."""
        return sum_text(self.per_hour, self.currency)

    @property
    def today_text(self) -> str:
        """`today`, such as `$3.20 + €1.00`."""
        return sum_text(self.today, self.currency)

    @property
    def today_in_usd(self) -> float:
        """Return what all that was alive today has cost today, in USD; see `in_usd`."""
        return sum(pod.today_in_usd for pod in self.pods)

    @property
    def shown(self) -> CostSummary:
        """The machines whose money is shown as one sum.

        The real ones; the simulated ones where no other is alive.
        """
        simulated = [pod for pod in self.pods if is_loopback(pod.endpoint)]
        real = [pod for pod in self.pods if pod not in simulated]
        played = any(pod.open for pod in simulated) and not any(pod.open for pod in real)
        return CostSummary(tuple(simulated if played or not real else real))

    def beside(self, endpoint: str) -> CostSummary:
        """Return the machines that share the day's budget with those of a service.

        See `same_purse`.
        """
        return CostSummary(tuple(pod for pod in self.pods if same_purse(endpoint, pod.endpoint)))

    def at(self, provider: str) -> CostSummary:
        """Return the machines of a provider."""
        return CostSummary(tuple(pod for pod in self.pods if pod.provider == provider))

    def per_hour_at(self, provider: str, currency: str) -> float | None:
        """Return what all that is alive at a provider costs per hour.

        None if some of it is paid in another currency.
        """
        return in_currency(currency, self.at(provider).per_hour)

    def to_json(self, provider: str, currency: str) -> dict[str, Any]:
        """Return what all at a provider cost, for `--json`.

        `per_hour` of those alive, and `today`, in `currency`. If some are paid in another currency,
        both are None; `per_hour_by_currency` and `today_by_currency` have each sum.
        """
        there = self.at(provider)
        return {
            "per_hour": in_currency(currency, there.per_hour),
            "today": in_currency(currency, there.today),
            "per_hour_by_currency": there.per_hour,
            "today_by_currency": there.today,
        }

    def usage(self, pod: PodCost) -> LimitUsage:
        """Return what a pod has used of its limits."""
        # What is paid for time to come is no reason to end the machine now.
        unused = min(pod.unused, pod.today)
        spent_day = self.beside(pod.endpoint).today_in_usd - in_usd(unused, pod.currency)
        return LimitUsage(pod.hours, pod.spent - pod.unused, spent_day, currency=pod.currency)

    def of(self, name: str) -> PodCost | None:
        """One pod, by its name or its provider's id.

        Another account may use an id again: a living pod comes first.
        """
        found = [pod for pod in self.pods if name == pod.name] or [
            pod for pod in reversed(self.pods) if name == pod.pod
        ]
        return next((pod for pod in found if pod.open), found[0] if found else None)


def sum_text(sums: Mapping[str, float], currency: str) -> str:
    """Return amounts by currency as text, such as `$3.20 + €1.00`.

    0 in `currency` where there is none.
    """
    return " + ".join(money(value, paid_in) for paid_in, value in sums.items()) or money(
        0.0, currency
    )


def in_currency(currency: str, sums: Mapping[str, float]) -> float | None:
    """Return the sum in a currency; None if there are sums in others."""
    return sums.get(currency, 0.0) if sums.keys() <= {currency} else None


def sums_of(amounts: Iterable[tuple[float, str]]) -> dict[str, float]:
    """Return the sum of amounts for each of their currencies."""
    sums: dict[str, float] = {}
    for value, paid_in in amounts:
        sums[paid_in] = sums.get(paid_in, 0.0) + value
    return sums


def wallet_text(
    account: Account, costs: CostSummary, provider: str, hourly: float, currency: str
) -> str | None:
    """Return how long the wallet pays for one more pod, for people; None if unknown.

    The pod is beside those that are alive at the provider.

    `hourly` is what the new pod costs an hour, in `currency`.
    """
    if account.balance is None:
        return None
    alive, balance = costs.per_hour_at(provider, currency), money(account.balance, account.currency)
    together = hourly + (alive or 0.0)
    hours = None if alive is None else account.lasts(together, currency)
    if hours is None:
        return f"Your wallet has {balance}."
    others = (
        ""
        if together == hourly
        else f", together with what is alive ({money(together, account.currency)}/h)"
    )
    return (
        f"{'! ' if hours < 1 else ''}Your wallet ({balance}) lasts "
        f"{duration(hours * HOUR)}{others}."
    )


def sum_costs(
    records: Ledger,
    now: float,
    *,
    here: Collection[Provider] = (),
    accounts: Mapping[str, Account] | None = None,
) -> CostSummary:
    """Add up what machines cost.

    Args:
        records: The ledger. What providers charged so far, and which machines live there that were
            not ordered here, is written there by each look at the machines; see `reconcile`.
        now: Seconds since the epoch.
        here: Who is asked. What was rented from a simulator counts only where that one is among
            them.
        accounts: By the provider's name, what was charged to the accounts just now. With them only
            machines of providers that are `here`, and paid by these accounts, count.
    """
    begin = midnight(now)

    def counts(one: PodRecord) -> bool:
        if not was_there(one, begin):
            return False
        if any(one.is_at(provider) for provider in here):
            return accounts is None or _pays(accounts.get(one.provider), one)
        return accounts is None and not is_loopback(one.endpoint)

    paid_by = accounts or {}
    return CostSummary(
        tuple(
            pod_cost(one, now, paid_by.get(one.provider))
            for one in records.costing()
            if counts(one)
        )
    )


def was_there(one: PodRecord, begin: float) -> bool:
    """Return whether a machine may have cost money since `begin`."""
    if one.state == "never":
        return False
    if one.stray and one.updated < begin:
        return False  # it may have ended since, or its provider's key is gone
    ended = one.ended or one.updated
    # Where the provider's clock says that it ended before it was asked for, the time at which that
    # was noted counts.
    return one.open or (ended if ended > one.created else one.updated) >= begin


def pod_cost(one: PodRecord, now: float, account: Account | None = None) -> PodCost:
    """Return what a machine of the ledger costs, and may cost.

    A bill counts first. From what was charged so far, the cost goes on by the price; without that
    it is price times time since the machine was asked for, at least the hours that are charged at
    once.

    Args:
        one: The record.
        now: Seconds since the epoch.
        account: What was charged to the account just now, if it was asked.
    """
    begin = midnight(now)
    end = now if one.open else (one.ended or one.updated)
    hourly = one.hourly or 0.0
    listed = _listed(one, end)
    listed_today = hourly * _hours(max(one.created, begin), end)
    if one.created >= begin:
        listed_today = max(listed_today, listed)
    charge = _charge(one, end, account)
    seen = one.pod is not None or one.state != "intended"
    if charge is not None:
        spent, billed = charge
        today = _share(spent, one.created, end, begin)
    elif seen:
        spent, billed, today = listed, False, listed_today
    else:  # it was asked for and never answered for: no cost is known
        spent, billed, today = 0.0, False, 0.0
    expected = seen or one.held
    settled = not one.open and one.billed is not None
    return PodCost(
        name=one.name,
        pod=one.pod,
        provider=one.provider,
        endpoint=one.endpoint,
        run=one.run,
        per_hour=hourly if one.open and expected else 0.0,
        spent=spent,
        today=today,
        currency=one.currency,
        billed=billed,
        hours=_hours(one.created, end),
        open=one.open,
        expected=expected,
        unused=min(max(listed - hourly * _hours(one.created, end), 0.0), spent)
        if one.open
        else 0.0,
        pending=0.0 if settled else max(listed_today - today, 0.0),
        # Another computer's budget keeps what a stray may cost further.
        ahead=_ahead(one, now) if one.open and not one.stray else 0.0,
    )


def _ahead(one: PodRecord, now: float) -> float:
    """The possible cost from now on; hours that were charged at once are paid already."""
    tomorrow = midnight(midnight(now) + 36 * HOUR)
    believed = one.until is not None and now <= one.until + _LATE
    last = max(one.until or now, now) if believed else tomorrow
    hourly = one.hourly or 0.0
    paid = max(_listed(one, now) - hourly * _hours(one.created, now), 0.0)
    return max(hourly * _hours(now, last) - paid, 0.0)


def _listed(one: PodRecord, end: float) -> float:
    """Price times time until `end`, at least the hours that are charged at once."""
    prepaid = one.order.offer.price.prepaid_hours if one.order is not None else 0.0
    price = Price(one.hourly or 0.0, prepaid_hours=prepaid)
    return price.for_hours(_hours(one.created, end))


def _charge(one: PodRecord, end: float, account: Account | None) -> tuple[float, bool] | None:
    """What a machine has cost by what its provider says, and whether all of that is billed.

    None where that says nothing.
    """
    if account is not None and _pays(account, one) and account.currency == one.currency:
        spent = account.spent.get(one.pod or "")
        if spent is not None:
            return spent, not account.estimated
    if one.billed is not None and not one.open:
        return one.billed, True
    pod = one.last_pod()
    if one.charged_at is None or pod.billed is None or pod.currency != one.currency:
        return None
    since = max(_listed(one, end) - _listed(one, one.charged_at), 0.0)
    return pod.billed + since, since < _CENT and not pod.estimated


def _pays(account: Account | None, one: PodRecord) -> bool:
    return account is None or one.account in (None, account.name)


def _hours(begin: float, end: float) -> float:
    return max(end - begin, 0.0) / HOUR


def _share(spent: float, created: float, end: float, begin: float) -> float:
    """The part of an amount that falls after `begin`."""
    whole = end - created
    return spent if whole <= 0 or created >= begin else spent * max(end - begin, 0.0) / whole


def midnight(now: float) -> float:
    """When the day began, by the clock on the user's wall."""
    return (
        datetime.fromtimestamp(now)
        .astimezone()
        .replace(hour=0, minute=0, second=0, microsecond=0)
        .timestamp()
    )
