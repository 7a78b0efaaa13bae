"""The money guard's judgement: how much a machine may cost and for how long it may live. Pure; others act on it.

Amounts are in the currency of whoever is paid, times in hours unless the name says minutes. Where something is not known, it is
None, and does not count against a limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from hudtui.core.compute.values import Offer
from hudtui.core.errors import InputError
from hudtui.core.settings import LIMIT_SETTINGS, Settings, check_settings

Level = Literal["fine", "warn", "end"]

SETUP = (2.0, 30.0)
"""Minutes until a machine can be used, at best and at worst, where the provider gives no estimate."""

NO_LIMIT = ("none", "off", "unlimited", "-")
"""How people say that there is no limit."""


@dataclass(frozen=True)
class Limits:
    """What one machine or run may cost, and how long it may live. None: no limit."""

    run_budget: float | None = 25.0
    """Money for this run, or this machine."""
    day_budget: float | None = 100.0
    """Money for everything that is alive on one calendar day."""
    max_hours: float | None = 24.0
    idle_minutes: float | None = 30.0
    """So long may there be no GPU work and no log line."""
    warn_at: float = 0.8
    """The share of a limit from which on it is warned."""

    def __post_init__(self) -> None:
        for name in ("run_budget", "day_budget", "max_hours", "idle_minutes"):
            value = getattr(self, name)
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} is more than 0, or None, and not {value!r}")
        if not 0 < self.warn_at <= 1:
            raise ValueError(f"warn_at is a share between 0 and 1, and not {self.warn_at!r}")

    def to_json(self) -> dict[str, float | None]:
        """The form in which limits are kept."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Limits:
        """What `to_json` gave. Names that are not known are passed over; missing ones have their defaults.

        Raises:
            InputError: A value cannot be a limit.
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
        """These limits with one of them as a user typed it: a number, or a word for none.

        Raises:
            InputError: It is neither.
        """
        words = text.strip().lower()
        if words in NO_LIMIT:
            return replace(self, **{name: None})  # type: ignore[arg-type]
        try:
            return replace(self, **{name: float(words.strip("$€ "))})
        except ValueError:
            raise InputError(f"{text.strip()!r} is no limit", fix="Give a number above 0, or none for no limit.") from None


def limits_from_settings(settings: Settings) -> Limits:
    """The limits that the user has set, or the defaults.

    Raises:
        InputError: One of them cannot be used; a budget that is written wrongly must not count as none.
    """
    checked = check_settings(settings)
    given: dict[str, Any] = {}
    for name, setting in LIMIT_SETTINGS.items():
        if problem := checked.problems.get(setting):
            raise InputError(f"{setting} cannot be used", why=problem, where=settings.location(setting))
        value = checked.values.get(setting)
        if isinstance(value, float):
            given[name] = None if math.isinf(value) else value
    return Limits(**given)


@dataclass(frozen=True)
class Estimate:
    """What so many hours of work will cost, setting the machine up included."""

    low: float
    """Ready at once, or setting up is not charged."""
    likely: float
    high: float
    """It is slow to set up, and that is charged."""
    currency: str
    text: str
    """In words, with all that matters to the price."""


def estimate(offer: Offer, hours: float, *, setup: float | None = None) -> Estimate:
    """What an offer costs for that many hours of work.

    Args:
        offer: The machine.
        hours: Of work, after it is ready.
        setup: Minutes until it is ready; the offer's own estimate when None, and a wide guess where it has none.

    Raises:
        ValueError: A time is below 0.
    """
    if hours < 0 or (setup is not None and setup < 0):
        raise ValueError("times are 0 or more")
    price, minutes = offer.price, offer.setup_minutes if setup is None else setup
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
        f"ready in about {amount(minutes)} min" if minutes is not None else "setting it up takes a few minutes to half an hour"
    )
    if price.variable:
        words.append("the price may change while it runs")
    if offer.spot:
        words.append("spot: it can be taken away at any moment")
    return Estimate(low, likely, high, price.currency, "; ".join(words))


@dataclass(frozen=True)
class LimitUsage:
    """How much of its limits something has used up by now."""

    hours: float
    spent_run: float
    spent_day: float
    idle_minutes: float | None = None
    """None: not measured."""


@dataclass(frozen=True)
class LimitVerdict:
    """What is to be done."""

    level: Level
    """`fine`; `warn`: tell the user; `end`: save, download, terminate, verify."""
    reasons: tuple[str, ...] = ()
    """Each limit that is near or reached, in words; those that are reached first."""


def judge(limits: Limits, usage: LimitUsage) -> LimitVerdict:
    """Compare what was used with what may be used."""
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
    """How long something at `hourly` can go on before its first limit ends it; None where none will.

    The day's budget is taken as if only this were alive, and today lasted for ever. Idling is not foreseen.
    """
    left = [] if limits.max_hours is None else [limits.max_hours - usage.hours]
    for budget, spent in ((limits.run_budget, usage.spent_run), (limits.day_budget, usage.spent_day)):
        if budget is not None and (hourly > 0 or spent >= budget):
            left.append((budget - spent) / hourly if spent < budget else 0.0)
    return max(min(left), 0.0) if left else None


def _measures(limits: Limits, usage: LimitUsage) -> tuple[tuple[float | None, float | None, str], ...]:
    return (
        (usage.spent_run, limits.run_budget, f"the budget of {_limit(limits.run_budget)}"),
        (usage.spent_day, limits.day_budget, f"the day's budget of {_limit(limits.day_budget)}"),
        (usage.hours, limits.max_hours, f"the limit of {_limit(limits.max_hours)} h"),
        (usage.idle_minutes, limits.idle_minutes, f"the limit of {_limit(limits.idle_minutes)} idle minutes"),
    )


def _limit(value: float | None) -> str:
    return amount(value) if value is not None else "none"


def amount(value: float) -> str:
    """A number as people write it: `4`, `0.5`, `1.25`."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def money(value: float, currency: str = "USD") -> str:
    """An amount of money: `$3.20`, `€0.004`, `12.50 GBP`. What is below a cent and not nothing keeps its digits."""
    digits = f"{value:,.2f}" if value == 0 or abs(value) >= 0.1 else f"{value:.3f}"
    sign = {"USD": "$", "EUR": "€"}.get(currency)
    return f"{sign}{digits}" if sign else f"{digits} {currency}"
