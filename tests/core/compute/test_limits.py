from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.compute.limits import (
    Limits,
    LimitUsage,
    amount,
    estimate,
    hours_left,
    judge,
    limits_from_settings,
)
from hudtui.core.compute.values import Offer, Price
from hudtui.core.errors import InputError
from hudtui.core.platform import HUD
from hudtui.core.settings import load_settings
from hudtui.core.text import money

LEVELS = ("fine", "warn", "end")
limit = st.none() | st.floats(0.01, 1e6)
limits = st.builds(Limits, limit, limit, limit, limit, st.floats(0.01, 1))
used = st.floats(0, 1e6)
usages = st.builds(LimitUsage, used, used, used, st.none() | used)
prices = st.builds(
    Price,
    hourly=st.floats(0, 1000),
    currency=st.sampled_from(["USD", "EUR", "GBP"]),
    variable=st.booleans(),
    prepaid_hours=st.sampled_from([0.0, 1.0, 24.0]),
)
NO_LIMITS = Limits(None, None, None, None)


def offer(price: Price, setup: float | None = None, *, spot: bool = False) -> Offer:
    return Offer("prime", "a", "H100_80GB", 1, price, setup_minutes=setup, spot=spot)


@given(usages)
def test_without_limits_everything_is_fine(usage: LimitUsage) -> None:
    assert judge(NO_LIMITS, usage).level == "fine" and not judge(NO_LIMITS, usage).reasons


@given(limits, usages)
def test_the_end_comes_when_a_limit_is_reached_and_not_before(
    bounds: Limits, usage: LimitUsage
) -> None:
    pairs = [
        (usage.spent_run, bounds.run_budget),
        (usage.spent_day, bounds.day_budget),
        (usage.hours, bounds.max_hours),
        (usage.idle_minutes, bounds.idle_minutes),
    ]
    known = [(one, bound) for one, bound in pairs if one is not None and bound is not None]
    verdict = judge(bounds, usage)
    assert (verdict.level == "end") == any(one >= bound for one, bound in known)
    near = [pair for pair in known if pair[0] >= pair[1] * bounds.warn_at or pair[0] >= pair[1]]
    assert len(verdict.reasons) == len(near)
    assert (verdict.level == "fine") == (not near)


@given(limits, usages, usages)
def test_more_use_never_makes_it_better(bounds: Limits, one: LimitUsage, more: LimitUsage) -> None:
    idle = None if one.idle_minutes is None else one.idle_minutes + (more.idle_minutes or 0)
    later = LimitUsage(
        one.hours + more.hours, one.spent_run + more.spent_run, one.spent_day + more.spent_day, idle
    )
    assert LEVELS.index(judge(bounds, later).level) >= LEVELS.index(judge(bounds, one).level)


@given(limits, usages, st.floats(0, 1000))
def test_what_is_left_runs_out_when_the_guard_says_so(
    bounds: Limits, usage: LimitUsage, hourly: float
) -> None:
    awake = replace(usage, idle_minutes=None)
    left = hours_left(bounds, awake, hourly)
    if left is None:
        assert bounds.max_hours is None and (
            hourly == 0 or (bounds.run_budget is None and bounds.day_budget is None)
        )
        return
    assert left >= 0
    later = left + 1e-3 + left * 1e-6
    grown = LimitUsage(
        awake.hours + later, awake.spent_run + later * hourly, awake.spent_day + later * hourly
    )
    # A price so low that a thousandth of an hour of it is lost in the sum shows nothing.
    if hourly == 0 or later * hourly > 1e-3:
        assert judge(bounds, grown).level == "end"
    if left > 0 and judge(bounds, awake).level == "end":
        pytest.fail("there is something left of a limit that is reached")


@given(limits)
def test_limits_survive_being_kept(bounds: Limits) -> None:
    assert Limits.from_json(json.loads(json.dumps(bounds.to_json()))) == bounds


@pytest.mark.parametrize(
    "data",
    [
        {"run_budget": 0},
        {"max_hours": -1},
        {"day_budget": "much"},
        {"warn_at": None},
        {"warn_at": 2},
        {"idle_minutes": math.inf},
    ],
)
def test_limits_that_cannot_be(data: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Limits.from_json(data)


def test_what_is_not_known_of_limits_is_passed_over() -> None:
    assert Limits.from_json({"colour": "blue", "max_hours": None}) == Limits(max_hours=None)


@given(prices, st.floats(0, 1000), st.none() | st.floats(0, 120))
def test_an_estimate_is_in_order_and_covers_the_work(
    price: Price, hours: float, setup: float | None
) -> None:
    found = estimate(offer(price, setup), hours)
    assert found.low <= found.likely <= found.high
    assert found.low == price.for_hours(hours) >= price.hourly * price.prepaid_hours
    assert found.currency == price.currency


def test_an_estimate_tells_all_that_matters() -> None:
    text = estimate(
        offer(Price(2.5, "EUR", disk=0.1, variable=True, prepaid_hours=24), 10, spot=True), 2
    ).text
    assert text == (
        "€60.00 to €60.00 for 2 h at €2.50/h; disk €0.10/h included; 24 h are charged at once, "
        "used or not; ready in about 10 min; the price may change while it runs; spot: it can be "
        "taken away at any moment"
    )
    assert estimate(offer(Price(6.0)), 2).text == (
        "$12.00 to $15.00 for 2 h at $6.00/h; setting it up takes a few minutes to half an hour"
    )
    assert "price of this machine is not known" in estimate(offer(Price(0, stated=False)), 5).text
    with pytest.raises(ValueError, match="0 or more"):
        estimate(offer(Price(1)), -1)


def test_words_of_a_verdict() -> None:
    verdict = judge(Limits(10, 100, 2, 30), LimitUsage(2, 8.5, 20, 1))
    assert verdict.level == "end"
    assert verdict.reasons == ("the limit of 2 h is reached", "the budget of $10.00: 85 % used")
    verdict = judge(Limits(10, 100, 2, 30), LimitUsage(1, 8.5, 100, 1, currency="EUR"))
    assert verdict.reasons == (
        "the day's budget of $100.00 is reached",
        "the budget of €10.00: 85 % used",
    )


@pytest.mark.parametrize(
    ("text", "value"), [("3", 3.0), (" $2.50 ", 2.5), ("none", None), ("off", None)]
)
def test_a_limit_as_it_is_typed(text: str, value: float | None) -> None:
    assert Limits().with_value("run_budget", text).run_budget == value


@pytest.mark.parametrize("text", ["", "much", "0", "-3", "nan", "inf"])
def test_a_limit_that_is_none(text: str) -> None:
    for name, words in (("run_budget", "budget"), ("max_hours", "max hours")):
        with pytest.raises(InputError) as caught:
            Limits().with_value(name, text)
        assert caught.value.lines()[0].startswith(f"{words}: "), "a form has several limits"


def test_limits_come_from_the_settings(own_world: Path) -> None:
    def load(**environ: str) -> Limits:
        return limits_from_settings(load_settings(own_world, HUD, environ=environ))

    assert load() == Limits()
    assert load(HUDTUI_BUDGET_RUN="5", HUDTUI_MAX_HOURS="none") == Limits(
        run_budget=5, max_hours=None
    )
    with pytest.raises(InputError, match="HUDTUI_BUDGET_DAY"):
        load(HUDTUI_BUDGET_DAY="fifty")


@pytest.mark.parametrize(
    ("value", "currency", "text"),
    [
        (0, "USD", "$0.00"),
        (0.004, "USD", "$0.004"),
        (1234.5, "EUR", "€1,234.50"),
        (2, "GBP", "2.00 GBP"),
        (0.29, "USD", "$0.29"),
    ],
)
def test_money(value: float, currency: str, text: str) -> None:
    assert money(value, currency) == text


@pytest.mark.parametrize(
    ("value", "text"), [(4, "4"), (0.5, "0.5"), (1.25, "1.25"), (10, "10"), (0, "0")]
)
def test_amount(value: float, text: str) -> None:
    assert amount(value) == text
