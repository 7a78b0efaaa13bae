"""The day's budget.

One for all machines together, also for launches at the same moment, and while hudtui is closed. The
ledger transaction that adds a machine sets the latest time (`PodRecord.until`) at which its
watchdog ends it. The possible cost until then is reserved from the day's budget, minus today's
spending and the reservations of all other machines. The reservation is released when the machine is
refused, never appears, or has ended. Today counts as lasting until the last machine ends, so that
no day exceeds its budget, wherever midnight falls. The budget is in USD, and amounts in other
currencies are converted at rates that are not too low (`limits.in_usd`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from hudtui.core.compute.costs import (
    HOUR,
    CostSummary,
    PodCost,
    midnight,
    pod_cost,
    same_purse,
    was_there,
)
from hudtui.core.compute.limits import Limits, in_usd, rates_text
from hudtui.core.compute.pods import Grant, PodRecord
from hudtui.core.compute.values import Price
from hudtui.core.errors import MachineError
from hudtui.core.text import money

LEAST = 0.1
"""Least hours for which the budget must pay a machine: a shorter time passes during the setup."""
RUN_TAIL = 900.0
"""Seconds from the watchdog's request to stop a run until it ends the machine: time to fetch the
results."""


class BudgetExceeded(MachineError):
    """The day's budget has no room for another machine, or the machine's own is too small.

    A machine's own budget has to cover its prepaid hours.

    No machine was requested.
    """


def shares(entries: Sequence[PodRecord], endpoint: str, now: float) -> tuple[PodCost, ...]:
    """Return the costs of the machines that share today's budget with a new one from this service.

    See `same_purse`.
    The entries are all of the ledger's, those that have ended included.
    """
    begin = midnight(now)
    counted = [
        one for one in entries if same_purse(endpoint, one.endpoint) and was_there(one, begin)
    ]
    return tuple(pod_cost(one, now) for one in counted)


def grant_new(
    name: str, price: Price, endpoint: str, limits: Limits, *, tail: float = 0.0
) -> Grant:
    """How long a machine that is about to be asked for may live.

    `name` is the one it is written down under, empty to ask before that; `endpoint` the service
    that is asked for it. `tail` is the time in seconds between the moment at which its limits stop
    the work on it and the one at which its guard ends it.

    Returns:
        What the ledger asks with all its entries; it raises `BudgetExceeded`.
    """

    def grant(entries: Sequence[PodRecord]) -> float | None:
        moment = next((one.created for one in entries if one.name == name), None) or time.time()
        own = _own(limits, price.hourly, moment, tail)
        at_once = price.hourly * price.prepaid_hours
        if limits.run_budget is not None and at_once > limits.run_budget:
            raise BudgetExceeded(
                f"the budget of {money(limits.run_budget, price.currency)} is less than what is "
                "charged at once",
                why=(
                    f"{price.prepaid_hours:g} h are charged at once, used or not: "
                    f"{money(at_once, price.currency)}."
                ),
                fix="Choose another offer, or raise HUDTUI_BUDGET_RUN.",
            )
        if limits.day_budget is None or not price.stated or price.hourly <= 0:
            return own
        others = [pod for pod in shares(entries, endpoint, moment) if pod.name != name]
        rest = limits.day_budget - sum(pod.today_in_usd + pod.more_in_usd for pod in others)
        longest = rest / in_usd(price.hourly, price.currency) * HOUR
        least = max(LEAST * HOUR + tail, price.prepaid_hours * HOUR)
        if longest < (
            least if own is None else max(min(least, own - moment), price.prepaid_hours * HOUR)
        ):
            raise _reached(limits.day_budget, price, rest, others)
        return moment + longest if own is None else min(own, moment + longest)

    return grant


def grant_changed(owned: PodRecord, limits: Limits, *, tail: float = 0.0) -> Grant:
    """Return how long an existing machine may live with other limits.

    It is at most as long as the day's budget has room for it.

    Args, Returns: As for `grant_new`; it raises nothing: where there is no room left, it is now.
    """

    def grant(entries: Sequence[PodRecord]) -> float | None:
        moment, hourly = time.time(), owned.hourly or 0.0
        own = _own(limits, hourly, owned.created, tail)
        if limits.day_budget is None or hourly <= 0:
            return own
        rest = limits.day_budget
        for pod in shares(entries, owned.endpoint, moment):
            rest -= pod.today_in_usd
            rest -= in_usd(pod.pending, pod.currency) if pod.name == owned.name else pod.more_in_usd
        longest = moment + max(rest, 0.0) / in_usd(hourly, owned.currency) * HOUR
        return longest if own is None else min(own, longest)

    return grant


def _own(limits: Limits, hourly: float, created: float, tail: float) -> float | None:
    """Return the time at which the machine's own limits end it, in seconds since the epoch.

    None without such a limit.
    """
    left = [] if limits.max_hours is None else [limits.max_hours]
    if limits.run_budget is not None and hourly > 0:
        left.append(limits.run_budget / hourly)
    return created + min(left) * HOUR + tail if left else None


def _reached(budget: float, price: Price, rest: float, others: Sequence[PodCost]) -> BudgetExceeded:
    spent = CostSummary(tuple(others))
    counted = f" (counted as {money(spent.today_in_usd)})" if spent.today.keys() - {"USD"} else ""
    words = [f"{spent.today_text} is spent today{counted}"]
    words += [
        f"{pod.name} may cost {money(pod.more_in_usd)} more"
        for pod in others
        if pod.more_in_usd >= 0.005
    ]
    needs = (
        f"{price.prepaid_hours:g} h, charged at once"
        if price.prepaid_hours
        else f"{LEAST * 60:g} min of it"
    )
    rates = rates_text({price.currency, *(pod.currency for pod in others)})
    return BudgetExceeded(
        f"the day's budget of {money(budget)} has no room for another machine",
        why=f"{', '.join(words)}; {money(max(rest, 0.0))} is left, "
        f"which at {money(price.hourly, price.currency)} an hour does not pay for {needs}."
        + (f" The budget counts {rates}." if rates else ""),
        fix="End a machine (hudtui pods), lower its limits, or raise HUDTUI_BUDGET_DAY.",
    )
