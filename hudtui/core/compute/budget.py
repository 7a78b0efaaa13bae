"""The day's budget: one for all machines together, also for launches at the same moment, and while hudtui is closed.

The ledger transaction that adds a machine sets the latest time (`PodRecord.until`) at which its watchdog ends it. The possible
cost until then is reserved from the day's budget, minus today's spending and the reservations of all other machines. The
reservation is released when the machine is refused, never appears, or has ended. Today counts as lasting until the last machine
ends, so that no day exceeds its budget, wherever midnight falls. The budget is in USD, and amounts in other currencies are
converted at rates that are not too low (`limits.in_usd`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from hudtui.core.compute.costs import HOUR, midnight
from hudtui.core.compute.limits import Limits, in_usd, money, rates_text
from hudtui.core.compute.pods import Grant, PodRecord
from hudtui.core.compute.values import Price
from hudtui.core.errors import MachineError
from hudtui.core.http import is_loopback

LEAST = 0.1
"""Least hours for which the budget must pay a machine: a shorter time passes during the setup."""
RUN_TAIL = 900.0
"""Seconds from the watchdog's request to stop a run until it ends the machine: time to fetch the results."""
_LATE = 900.0
"""Seconds past the deadline after which a watchdog whose machine still exists counts as failed."""


class BudgetExceeded(MachineError):
    """The day's budget has no room for another machine, or the machine's own budget does not cover its prepaid hours.

    No machine was requested.
    """


@dataclass(frozen=True)
class BudgetShare:
    """The share of one machine in the day's budget, in USD."""

    name: str
    currency: str
    """The currency in which the machine is charged."""
    spent: float
    """Spending today so far: the bill, or price times time."""
    ahead: float
    """Possible further cost until the watchdog ends the machine; until midnight without a known watchdog."""


def shares(entries: Sequence[PodRecord], realm: str, now: float) -> tuple[BudgetShare, ...]:
    """Return the shares of machines in today's budget. Simulated machines have a separate budget.

    The entries are all of the ledger's, those that have ended included; `realm` is the service that is asked for another one: a
    simulator's machines count there alone.
    """
    begin, end = midnight(now), midnight(midnight(now) + 36 * HOUR)

    def counts(one: PodRecord) -> bool:
        same = one.endpoint == realm if is_loopback(realm) else not is_loopback(one.endpoint)
        return same and one.state != "never" and (one.open or max(one.ended or 0.0, one.updated) > begin)

    return tuple(_share(one, now, begin, end) for one in entries if counts(one))


def _share(one: PodRecord, now: float, begin: float, end: float) -> BudgetShare:
    hourly, until = in_usd(one.hourly or 0.0, one.currency), now if one.open else (one.ended or one.updated)
    prepaid = (one.order.offer.price.prepaid_hours if one.order is not None else 0.0) * hourly
    today = hourly * max(until - max(one.created, begin), 0.0) / HOUR
    if one.created >= begin:
        today = max(today, prepaid)
    if not one.open:
        # The bill is for the time from its creation; it is today's where the provider's clock
        # makes no sense of that.
        if one.billed is not None:
            whole = until - one.created
            billed = in_usd(one.billed, one.currency)
            today = billed * (min(max(until - begin, 0.0) / whole, 1.0) if whole > 0 else 1.0)
        return BudgetShare(one.name, one.currency, today, 0.0)
    last = end if one.until is None or now > one.until + _LATE else max(one.until, now)
    ahead = hourly * (last - now) / HOUR
    paid = max(prepaid - hourly * max(now - one.created, 0.0) / HOUR, 0.0)  # of what comes, charged already
    return BudgetShare(one.name, one.currency, today, max(ahead - paid, 0.0))


def grant_new(name: str, price: Price, realm: str, limits: Limits, *, tail: float = 0.0) -> Grant:
    """How long a machine that is about to be asked for may live.

    `name` is the one it is written down under, empty to ask before that; `realm` the service that is asked for it. `tail` is the
    time in seconds between the moment at which its limits stop the work on it and the one at which its guard ends it.

    Returns:
        What the ledger asks with all its entries; it raises `BudgetExceeded`.
    """

    def grant(entries: Sequence[PodRecord]) -> float | None:
        moment = next((one.created for one in entries if one.name == name), None) or time.time()
        own = _own(limits, price.hourly, moment, tail)
        at_once = price.hourly * price.prepaid_hours
        if limits.run_budget is not None and at_once > limits.run_budget:
            raise BudgetExceeded(
                f"the budget of {money(limits.run_budget, price.currency)} is less than what is charged at once",
                why=f"{price.prepaid_hours:g} h are charged at once, used or not: {money(at_once, price.currency)}.",
                fix="Choose another offer, or raise HUDTUI_BUDGET_RUN.",
            )
        if limits.day_budget is None or not price.stated or price.hourly <= 0:
            return own
        others = [share for share in shares(entries, realm, moment) if share.name != name]
        rest = limits.day_budget - sum(share.spent + share.ahead for share in others)
        longest = rest / in_usd(price.hourly, price.currency) * HOUR
        least = max(LEAST * HOUR + tail, price.prepaid_hours * HOUR)
        if longest < (least if own is None else max(min(least, own - moment), price.prepaid_hours * HOUR)):
            raise _reached(limits.day_budget, price, rest, others)
        return moment + longest if own is None else min(own, moment + longest)

    return grant


def grant_changed(owned: PodRecord, limits: Limits, *, tail: float = 0.0) -> Grant:
    """How long a machine that there is may live with other limits, at most as long as the day's budget has room for it.

    Args, Returns: As for `grant_new`; it raises nothing: where there is no room left, it is now.
    """

    def grant(entries: Sequence[PodRecord]) -> float | None:
        moment, hourly = time.time(), owned.hourly or 0.0
        own = _own(limits, hourly, owned.created, tail)
        if limits.day_budget is None or hourly <= 0:
            return own
        found = shares(entries, owned.endpoint, moment)
        rest = limits.day_budget - sum(share.spent + (share.ahead if share.name != owned.name else 0.0) for share in found)
        longest = moment + max(rest, 0.0) / in_usd(hourly, owned.currency) * HOUR
        return longest if own is None else min(own, longest)

    return grant


def _own(limits: Limits, hourly: float, created: float, tail: float) -> float | None:
    """Return the time at which the machine's own limits end it, in seconds since the epoch; None without such a limit."""
    left = [] if limits.max_hours is None else [limits.max_hours]
    if limits.run_budget is not None and hourly > 0:
        left.append(limits.run_budget / hourly)
    return created + min(left) * HOUR + tail if left else None


def _reached(budget: float, price: Price, rest: float, others: Sequence[BudgetShare]) -> BudgetExceeded:
    said = [
        f"{money(sum(share.spent for share in others))} is spent today",
        *(f"{share.name} may cost {money(share.ahead)} more" for share in others if share.ahead > 0),
    ]
    needs = f"{price.prepaid_hours:g} h, charged at once" if price.prepaid_hours else f"{LEAST * 60:g} min of it"
    rates = rates_text({price.currency, *(share.currency for share in others)})
    return BudgetExceeded(
        f"the day's budget of {money(budget)} has no room for another machine",
        why=f"{', '.join(said)}; {money(max(rest, 0.0))} is left, "
        f"which at {money(price.hourly, price.currency)} an hour does not pay for {needs}."
        + (f" The budget counts {rates}." if rates else ""),
        fix="End a machine (hudtui pods), lower its limits, or raise HUDTUI_BUDGET_DAY.",
    )
