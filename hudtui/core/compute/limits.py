"""Limits: how much a machine may cost and how long it may live.

Pure functions; the callers enforce the verdicts. Amounts are in the provider's currency, those of
the day's budget in USD; times are in hours unless the name says minutes. An unknown value is None
and does not count against a limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from hudtui.core.compute.values import Offer
from hudtui.core.errors import InputError, Location
from hudtui.core.settings import LIMIT_SETTINGS, Settings, check_settings
from hudtui.core.text import money

Level = Literal["fine", "warn", "end"]

SETUP = (2.0, 30.0)
"""Shortest and longest setup time in minutes, without an estimate of the provider."""

NO_LIMIT = ("none", "off", "unlimited", "-")
"""Words that users may type for no limit."""


RATES_FROM = "November 2026"
_RATES = {"USD": 1.0, "EUR": 1.2, "GBP": 1.4, "CHF": 1.3}
"""USD per unit, for the day's budget, and to sort offers and filter them by price.

The rates are high on purpose: an offer in another currency comes first only if it is certainly
cheaper, and the machines of a day cost less than its budget. They were set in November 2026.
"""
_HIGHEST_RATE = 3.5
"""USD per unit of any other currency: none is worth more."""


@dataclass(frozen=True)
class Limits:
    """What one machine or run may cost, and how long it may live. None: no limit."""

    run_budget: float | None = 25.0
    """Most money for this run or machine, in the currency in which its provider charges."""
    day_budget: float | None = 100.0
    """Most money per calendar day for all machines together, in USD; see `in_usd`."""
    max_hours: float | None = 24.0
    idle_minutes: float | None = 30.0
    """Longest time in minutes without GPU work and log lines."""
    warn_at: float = 0.8
    """Share of a limit above which the verdict is `warn`."""

    def __post_init__(self) -> None:
        for name in ("run_budget", "day_budget", "max_hours", "idle_minutes"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} is more than 0, or None, and not {value!r}")
        if not 0 < self.warn_at <= 1:
            raise ValueError(f"warn_at is a share between 0 and 1, and not {self.warn_at!r}")

    def to_json(self) -> dict[str, float | None]:
        """Return JSON values; `from_json` reads them."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Limits:
        """Read what `to_json` returned.

        Unknown names are ignored; missing limits get their defaults.

        Raises:
            InputError: A value is not a valid limit.
        """
        known = {field.name for field in fields(cls)}
        try:
            given = {
                name: None if value is None and name != "warn_at" else float(value)
                for name, value in data.items()
                if name in known and not isinstance(value, bool)
            }
            return cls(**given)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError("these limits cannot be used", why=str(error)) from None

    def with_value(self, name: str, text: str) -> Limits:
        """Return these limits with one changed to a typed text: a number, or a word in `NO_LIMIT`.

        Raises:
            InputError: The text is neither.
        """
        words = text.strip().lower()
        if words in NO_LIMIT:
            return replace(self, **{name: None})  # type: ignore[arg-type]
        try:
            return replace(self, **{name: float(words.strip("$€ "))})
        except ValueError:
            raise InputError(
                f"{text.strip()!r} is not a limit",
                fix="Give a number above 0, or none for no limit.",
                where=Location(name.removeprefix("run_").replace("_", " ")),
            ) from None


def limits_from_settings(settings: Settings) -> Limits:
    """Return the limits in the user's settings, or the defaults.

    Raises:
        InputError: A limit is invalid; a mistyped budget must not count as no budget.
    """
    checked = check_settings(settings)
    given: dict[str, Any] = {}
    for name, setting in LIMIT_SETTINGS.items():
        if problem := checked.problems.get(setting):
            raise InputError(
                f"{setting} cannot be used", why=problem, where=settings.location(setting)
            )
        value = checked.values.get(setting)
        if isinstance(value, float):
            given[name] = None if math.isinf(value) else value
    return Limits(**given)


@dataclass(frozen=True)
class Estimate:
    """The estimated cost of hours of work, including the machine's setup."""

    low: float
    """The cost if the machine is ready at once, or its setup is free."""
    likely: float
    high: float
    """The cost if the setup is slow and charged."""
    currency: str
    text: str
    """The estimate as text, with everything that affects the price."""


def estimate(offer: Offer, hours: float) -> Estimate:
    """Estimate the cost of an offer for hours of work, which begin after the setup.

    Raises:
        ValueError: The hours are negative.
    """
    if hours < 0:
        raise ValueError("times are 0 or more")
    price, minutes = offer.price, offer.setup_minutes
    usual, slow = SETUP if minutes is None else (minutes, 2 * minutes)
    low, likely, high = (price.for_hours(hours + extra / 60) for extra in (0.0, usual, slow))
    if not price.stated:
        return Estimate(0.0, 0.0, 0.0, price.currency, "the price of this machine is not known")
    words = [f"{money(low, price.currency)} to {money(high, price.currency)} for {amount(hours)} h"]
    words[0] += f" at {money(price.hourly, price.currency)}/h"
    if price.disk:
        words.append(f"disk {money(price.disk, price.currency)}/h included")
    if price.prepaid_hours:
        words.append(f"{amount(price.prepaid_hours)} h are charged at once, used or not")
    words.append(
        f"ready in about {amount(minutes)} min"
        if minutes is not None
        else "setting it up takes a few minutes to half an hour"
    )
    if price.variable:
        words.append("the price may change while it runs")
    if offer.spot:
        words.append("spot: it can be taken away at any moment")
    return Estimate(low, likely, high, price.currency, "; ".join(words))


@dataclass(frozen=True)
class LimitUsage:
    """How much of its limits a machine has used."""

    hours: float
    spent_run: float
    spent_day: float
    """What all machines have cost today, in USD."""
    idle_minutes: float | None = None
    """None: not measured."""
    currency: str = "USD"
    """The currency of `spent_run`, and so of the machine's own budget."""


@dataclass(frozen=True)
class LimitVerdict:
    """The result of comparing usage with limits."""

    level: Level
    """`fine`; `warn`: notify the user; `end`: save, download, terminate, verify."""
    reasons: tuple[str, ...] = ()
    """One sentence for each limit that is near or reached; reached limits first."""


def judge(limits: Limits, usage: LimitUsage) -> LimitVerdict:
    """Compare usage with limits."""
    ended, near = [], []
    for used, limit, words in _measures(limits, usage):
        if limit is None or used is None:
            continue
        if used >= limit:
            ended.append(f"{words} is reached")
        elif used >= limit * limits.warn_at:
            near.append(f"{words}: {math.floor(100 * used / limit)} % used")
    return LimitVerdict("end" if ended else "warn" if near else "fine", (*ended, *near))


def hours_left(limits: Limits, usage: LimitUsage, hourly: float) -> float | None:
    """Return the hours until the first limit ends a machine at `hourly`, in its currency.

    None without such a limit. The day's budget counts as if this were the only machine and the day
    did not end. Idling is not predicted.
    """
    left = [] if limits.max_hours is None else [limits.max_hours - usage.hours]
    budgets = (
        (limits.run_budget, usage.spent_run, hourly),
        (limits.day_budget, usage.spent_day, in_usd(hourly, usage.currency)),
    )
    for budget, spent, rate in budgets:
        if budget is not None and (rate > 0 or spent >= budget):
            left.append((budget - spent) / rate if spent < budget else 0.0)
    return max(min(left), 0.0) if left else None


def _measures(
    limits: Limits, usage: LimitUsage
) -> tuple[tuple[float | None, float | None, str], ...]:
    return (
        (
            usage.spent_run,
            limits.run_budget,
            f"the budget of {_sum(limits.run_budget, usage.currency)}",
        ),
        (
            usage.spent_day,
            limits.day_budget,
            f"the day's budget of {_sum(limits.day_budget, 'USD')}",
        ),
        (usage.hours, limits.max_hours, f"the limit of {_limit(limits.max_hours)} h"),
        (
            usage.idle_minutes,
            limits.idle_minutes,
            f"the limit of {_limit(limits.idle_minutes)} idle minutes",
        ),
    )


def _limit(value: float | None) -> str:
    return amount(value) if value is not None else "none"


def _sum(value: float | None, currency: str) -> str:
    return money(value, currency) if value is not None else "none"


def in_usd(amount: float, currency: str) -> float:
    """Return an amount in USD, at a rate that is certainly not too low."""
    return amount * _RATES.get(currency.upper(), _HIGHEST_RATE)


def rates_text(currencies: Iterable[str]) -> str:
    """Return the rates of `in_usd` as text: `1 EUR as 1.2 USD`. USD itself is left out."""
    return ", ".join(
        f"1 {name} as {in_usd(1.0, name):g} USD"
        for name in sorted({*map(str.upper, currencies)} - {"USD"})
    )


def amount(value: float) -> str:
    """Return a number as short text: `4`, `0.5`, `1.25`."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
