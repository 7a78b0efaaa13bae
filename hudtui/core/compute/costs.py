"""What rented machines cost: an hour, today, and each in all.

The provider's own bill counts where there is one; else it is price times time since the machine was asked for, which is at most
a little too much. Which of the two it is, is said everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hudtui.core.compute.limits import LimitUsage, in_usd, money
from hudtui.core.compute.pods import Ledger, PodRecord
from hudtui.core.compute.provider import Provider
from hudtui.core.compute.values import Account, Pod
from hudtui.core.http import is_loopback
from hudtui.core.text import duration

HOUR = 3600.0


def cost_text(amount: float, currency: str, billed: bool) -> str:
    """An amount, and where it comes from: `$1.25 billed` is the provider's bill, `about $1.30` is not."""
    return f"{money(amount, currency)} billed" if billed else f"about {money(amount, currency)}"


def charge_text(pod: Pod) -> str | None:
    """What a provider says that a machine has cost in all: `$1.25`, `about $1.25 (estimated)`; None where it says nothing."""
    if pod.billed is None:
        return None
    amount = money(pod.billed, pod.currency)
    return f"about {amount} (estimated)" if pod.estimated else amount


@dataclass(frozen=True)
class PodCost:
    """What one machine costs."""

    name: str
    pod: str | None
    """The provider's id; None where it is not known."""
    provider: str
    run: str | None
    """The run that it is for."""
    per_hour: float
    """Price an hour at the moment; 0 for a machine that has ended or whose price is unknown."""
    spent: float
    """In all, so far."""
    today: float
    """The part of `spent` that falls on today, spread evenly over the time it was there."""
    currency: str
    billed: bool
    """`spent` is the provider's bill; else it is price times time."""
    hours: float
    """Since it was asked for, or until it ended."""
    open: bool
    """It may still cost money."""

    @property
    def text(self) -> str:
        """The amount, and where it comes from: `$1.25 billed`, `about $1.30`."""
        return cost_text(self.spent, self.currency, self.billed)


@dataclass(frozen=True)
class CostSummary:
    """What all of them cost together. Amounts are in `currency`; see `mixed`."""

    per_hour: float = 0.0
    """Of all that is alive."""
    alive: float = 0.0
    """What those that are alive have cost so far."""
    today: float = 0.0
    """Of all that was alive today, those that have ended included."""
    currency: str = "USD"
    mixed: bool = False
    """Some are paid in another currency; their amounts are added as they are. For people, see `sum_text`."""
    billed: bool = False
    """Everything in `alive` is the provider's bill."""
    pods: tuple[PodCost, ...] = ()
    """Every pod that was alive today, the oldest first."""

    @property
    def open(self) -> tuple[PodCost, ...]:
        """Those that may still cost money."""
        return tuple(pod for pod in self.pods if pod.open)

    def per_hour_at(self, provider: str, currency: str) -> float | None:
        """Return what all that is alive at a provider costs per hour; None if some of it is paid in another currency."""
        return _in(currency, sums_of((pod.per_hour, pod.currency) for pod in self.open if pod.provider == provider))

    def to_json(self, provider: str, currency: str) -> dict[str, Any]:
        """Return what all at a provider cost, for `--json`: `per_hour` of those alive, and `today`, in `currency`.

        If some are paid in another currency, both are None; `per_hour_by_currency` and `today_by_currency` have each sum.
        """
        there = [pod for pod in self.pods if pod.provider == provider]
        today = sums_of((pod.today, pod.currency) for pod in there)
        return {
            "per_hour": self.per_hour_at(provider, currency),
            "today": _in(currency, today),
            "per_hour_by_currency": sums_of((pod.per_hour, pod.currency) for pod in there if pod.open),
            "today_by_currency": today,
        }

    @property
    def today_in_usd(self) -> float:
        """Return what all that was alive today has cost today, in USD; see `in_usd`."""
        return sum(in_usd(pod.today, pod.currency) for pod in self.pods)

    def usage(self, pod: PodCost) -> LimitUsage:
        """Return what a pod has used of its limits."""
        return LimitUsage(pod.hours, pod.spent, self.today_in_usd, currency=pod.currency)

    def of(self, name: str) -> PodCost | None:
        """One pod, by its name or its provider's id. Another account may use an id again: a living pod comes first."""
        found = [pod for pod in self.pods if name == pod.name] or [pod for pod in reversed(self.pods) if name == pod.pod]
        return next((pod for pod in found if pod.open), found[0] if found else None)


def sum_text(amounts: Iterable[tuple[float, str]], currency: str) -> str:
    """Return the sum of amounts with their currencies, one sum for each currency; of no amount, 0 in `currency`."""
    return " + ".join(money(value, paid_in) for paid_in, value in sums_of(amounts).items()) or money(0.0, currency)


def _in(currency: str, sums: Mapping[str, float]) -> float | None:
    """Return the sum in a currency; None if there are sums in others."""
    return sums.get(currency, 0.0) if sums.keys() <= {currency} else None


def sums_of(amounts: Iterable[tuple[float, str]]) -> dict[str, float]:
    """Return the sum of amounts for each of their currencies."""
    sums: dict[str, float] = {}
    for value, paid_in in amounts:
        sums[paid_in] = sums.get(paid_in, 0.0) + value
    return sums


def wallet_text(account: Account, costs: CostSummary, provider: str, hourly: float, currency: str) -> str | None:
    """How long the wallet pays for one more pod beside those that are alive at the provider, for people; None if unknown.

    `hourly` is what the new pod costs an hour, in `currency`.
    """
    if account.balance is None:
        return None
    alive, balance = costs.per_hour_at(provider, currency), money(account.balance, account.currency)
    together = hourly + (alive or 0.0)
    hours = None if alive is None else account.lasts(together, currency)
    if hours is None:
        return f"Your wallet has {balance}."
    others = "" if together == hourly else f", together with what is alive ({money(together, account.currency)}/h)"
    return f"{'! ' if hours < 1 else ''}Your wallet ({balance}) lasts {duration(hours * HOUR)}{others}."


def sum_costs(
    records: Ledger,
    accounts: Mapping[str, Account],
    now: float,
    *,
    here: Collection[Provider] = (),
    others: Collection[Pod] = (),
    elsewhere: bool = True,
) -> CostSummary:
    """Add up what machines cost.

    Args:
        records: The ledger.
        accounts: What the providers say of the accounts, by the provider's name. A provider that did not answer is left out.
        now: Seconds since the epoch.
        here: Who is asked. What was rented from a simulator counts only where that one is among them.
        others: Machines that are alive, ours, and not in the ledger, or ended as far as that knows.
        elsewhere: What was rented from real services that are not asked counts too, and with other accounts.
    """
    begin = midnight(now)

    def bills(one: PodRecord) -> Mapping[str, float]:
        account = accounts.get(one.provider)
        return account.spent if account is not None and one.account in (None, account.name) else {}

    living = {key for pod in others if pod.alive for key in (pod.id, pod.name)}

    def counts(one: PodRecord) -> bool:
        if one.state == "never" or not (one.open or (one.ended or one.updated) >= begin):
            return False
        if not one.open and (one.name in living or one.pod in living):
            return False  # it has not ended after all
        account = accounts.get(one.provider)
        if not elsewhere and account is not None and one.account not in (None, account.name):
            return False
        return any(one.is_at(provider) for provider in here) or (elsewhere and not is_loopback(one.endpoint))

    pods = [_owned(one, bills(one), now, begin) for one in records.records(alive=False) if counts(one)]
    known = {pod.pod for pod in pods if pod.pod} | {pod.name for pod in pods}
    pods += [
        _foreign(pod, accounts[pod.provider].spent if pod.provider in accounts else {}, now, begin)
        for pod in others
        if pod.alive and pod.id not in known and pod.name not in known
    ]
    estimated = {provider for provider, account in accounts.items() if account.estimated}
    pods = [replace(pod, billed=False) if pod.provider in estimated else pod for pod in pods]
    alive = [pod for pod in pods if pod.open]
    currencies = [pod.currency for pod in pods]
    currency = max(set(currencies), key=lambda one: (currencies.count(one), one == "USD", one), default="USD")
    return CostSummary(
        per_hour=sum(pod.per_hour for pod in alive),
        alive=sum(pod.spent for pod in alive),
        today=sum(pod.today for pod in pods),
        currency=currency,
        mixed=len(set(currencies)) > 1,
        billed=bool(alive) and all(pod.billed for pod in alive),
        pods=tuple(pods),
    )


def _owned(one: PodRecord, bills: Mapping[str, float], now: float, begin: float) -> PodCost:
    end = now if one.open else (one.ended or one.updated)
    hourly = one.hourly or 0.0
    # A machine that was asked for and never answered for has no known cost.
    there = one.pod is not None or one.state != "intended"
    bill = bills.get(one.pod) if one.pod is not None else None
    if bill is None:
        bill = one.billed
    spent = bill if bill is not None else hourly * _hours(one.created, end) if there else 0.0
    return PodCost(
        name=one.name,
        pod=one.pod,
        provider=one.provider,
        run=one.run,
        per_hour=hourly if one.open and there else 0.0,
        spent=spent,
        today=_share(spent, one.created, end, begin),
        currency=one.currency,
        billed=bill is not None,
        hours=_hours(one.created, end),
        open=one.open,
    )


def _foreign(pod: Pod, bills: Mapping[str, float], now: float, begin: float) -> PodCost:
    bill = bills.get(pod.id, pod.bill)
    began = pod.created
    created = now if began is None else began
    spent = bill if bill is not None else (pod.hourly or 0.0) * _hours(created, now)
    return PodCost(
        name=pod.name,
        pod=pod.id,
        provider=pod.provider,
        run=None,
        per_hour=pod.hourly or 0.0,
        spent=spent,
        today=_share(spent, created, now, begin),
        currency=pod.currency,
        billed=bill is not None,
        hours=_hours(created, now),
        open=True,
    )


def _hours(begin: float, end: float) -> float:
    return max(end - begin, 0.0) / HOUR


def _share(spent: float, created: float, end: float, begin: float) -> float:
    """The part of an amount that falls after `begin`."""
    whole = end - created
    return spent if whole <= 0 or created >= begin else spent * max(end - begin, 0.0) / whole


def midnight(now: float) -> float:
    """When the day began, by the clock on the user's wall."""
    return datetime.fromtimestamp(now).astimezone().replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
