"""The day's budget: one for all machines, whoever launches them and when."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.compute.budget import LEAST, BudgetExceeded, grant_changed, grant_new, shares
from hudtui.core.compute.costs import midnight, sum_costs
from hudtui.core.compute.lifecycle import acquire
from hudtui.core.compute.limits import Limits, in_usd, judge
from hudtui.core.compute.pods import Ledger, PodRecord
from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.provider import ProviderError
from hudtui.core.compute.values import Offer, Order, Pod, Price
from hudtui.core.errors import MachineError
from hudtui.core.text import money

REALM = "https://api.example.org"


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "pods.db")


def launch(
    ledger: Ledger, name: str, hourly: float, limits: Limits, *, endpoint: str = REALM, **price: Any
) -> PodRecord:
    order = Order(name, Offer("prime", name, "H100", 1, Price(hourly, **price)))
    return ledger.reserve(
        order,
        provider="prime",
        endpoint=endpoint,
        grant=grant_new(name, order.offer.price, endpoint, limits),
    )


def hours(owned: PodRecord) -> float:
    assert owned.until is not None
    return (owned.until - owned.created) / 3600


def at_most(ledger: Ledger) -> float:
    """What all machines cost by the end of the last guard."""
    return sum(
        hours(one) * (one.hourly or 0.0)
        for one in ledger.records(alive=False)
        if one.state != "never"
    )


def test_one_after_the_other(ledger: Ledger) -> None:
    limits = Limits(run_budget=None, day_budget=5, max_hours=1)
    assert hours(launch(ledger, "a", 2.0, limits)) == pytest.approx(1, abs=0.01)
    assert hours(launch(ledger, "b", 2.0, limits)) == pytest.approx(1, abs=0.01)
    assert hours(launch(ledger, "c", 2.0, limits)) == pytest.approx(0.5, abs=0.01), (
        "what the other two leave"
    )
    with pytest.raises(BudgetExceeded) as caught:
        launch(ledger, "d", 2.0, limits)
    assert "day's budget of $5.00 has no room" in caught.value.what and "a may cost $" in str(
        caught.value.why
    )
    assert ledger.get("d") is None and at_most(ledger) <= 5.01


def test_what_is_free_again(ledger: Ledger) -> None:
    limits = Limits(run_budget=None, day_budget=4, max_hours=2)
    launch(ledger, "a", 2.0, limits)
    ledger.update("a", "never")
    assert hours(launch(ledger, "b", 2.0, limits)) == pytest.approx(2, abs=0.01), (
        "what was refused costs nothing"
    )
    ledger.update("b", "ready", pod="p")
    ledger.update("b", "ended", billed=1.0)
    assert hours(launch(ledger, "c", 2.0, limits)) == pytest.approx(1.5, abs=0.01), (
        "what has ended costs its bill"
    )


def test_new_limits_and_the_time_that_follows_from_them_are_written_together(
    ledger: Ledger,
) -> None:
    """A failure in between must not leave limits that no guard knows of."""
    first = launch(ledger, "a", 2.0, Limits(run_budget=10, day_budget=40))
    before = ledger.limits("a")

    def fails(entries: object) -> float | None:
        raise MachineError("the disk is full")

    with pytest.raises(MachineError):
        ledger.grant("a", fails, limits=Limits(run_budget=1))
    assert ledger.limits("a") == before and ledger.get("a") == first
    changed = Limits(run_budget=1, day_budget=40)
    assert (ledger.grant("a", grant_changed(first, changed), limits=changed).until or 0) < (
        first.until or 0
    )
    assert ledger.limits("a") == changed


def test_lower_limits_make_room_and_higher_ones_take_no_more_than_there_is(ledger: Ledger) -> None:
    limits = Limits(run_budget=None, day_budget=4, max_hours=2)
    first = launch(ledger, "a", 2.0, limits)
    first = ledger.grant("a", grant_changed(first, Limits(run_budget=1, day_budget=4)))
    assert hours(first) == pytest.approx(0.5, abs=0.01)
    assert hours(launch(ledger, "b", 2.0, limits)) == pytest.approx(1.5, abs=0.01)
    first = ledger.grant("a", grant_changed(first, Limits(run_budget=100, day_budget=4)))
    assert hours(first) == pytest.approx(0.5, abs=0.01) and at_most(ledger) <= 4.01
    assert ledger.grant("a", grant_changed(first, Limits(None, None, None))).until is None, (
        "the user may lift the day's budget"
    )


def test_a_machine_without_a_known_end_counts_until_midnight(ledger: Ledger) -> None:
    noon = midnight(time.time()) + 12 * 3600
    launch(ledger, "a", 2.0, Limits(None, None, None))
    (share,) = shares(ledger.records(), REALM, noon)
    assert share.ahead == pytest.approx(24, abs=2.1), (
        "the day of a change of clocks has an hour more or less"
    )


def test_a_guard_that_did_not_end_its_machine_in_time_is_not_believed(ledger: Ledger) -> None:
    owned = launch(ledger, "a", 2.0, Limits(None, None, 1))
    assert owned.until is not None
    (share,) = shares([owned], REALM, owned.until + 3600)
    late = midnight(midnight(owned.until + 3600) + 36 * 3600) - (owned.until + 3600)
    assert share.ahead == pytest.approx(2.0 * late / 3600)


def test_hours_that_are_charged_at_once(ledger: Ledger) -> None:
    limits = Limits(run_budget=None, day_budget=30, max_hours=1)
    with pytest.raises(BudgetExceeded, match="no room"):
        launch(ledger, "a", 2.0, limits, prepaid_hours=24)
    with pytest.raises(BudgetExceeded, match="less than what is charged at once"):
        launch(ledger, "a", 1.0, Limits(run_budget=23), prepaid_hours=24)
    launch(ledger, "b", 1.0, limits, prepaid_hours=24)
    assert sum(
        share.today_in_usd + share.more_in_usd
        for share in shares(ledger.records(), REALM, time.time())
    ) == pytest.approx(24, abs=0.01)
    assert hours(launch(ledger, "c", 10.0, limits)) == pytest.approx(0.6, abs=0.01)


def test_a_user_who_wants_a_machine_for_minutes_gets_it(ledger: Ledger) -> None:
    limits = Limits(run_budget=None, day_budget=1, max_hours=LEAST / 2)
    assert hours(launch(ledger, "a", 10.0, limits)) == pytest.approx(LEAST / 2)


def test_simulated_machines_take_nothing_from_real_ones_and_have_a_budget_too(
    ledger: Ledger,
) -> None:
    limits, sim = Limits(run_budget=None, day_budget=2, max_hours=1), "http://127.0.0.1:1"
    launch(ledger, "a", 2.0, limits)
    launch(ledger, "b", 2.0, limits, endpoint=sim)
    launch(ledger, "c", 2.0, limits, endpoint="http://127.0.0.1:2")
    for realm in (REALM, sim, "https://another.example.org"):
        with pytest.raises(BudgetExceeded):
            launch(ledger, "d", 2.0, limits, endpoint=realm)


def test_what_was_spent_yesterday_is_yesterdays(ledger: Ledger) -> None:
    owned = launch(ledger, "a", 2.0, Limits(None, None, 1))
    ledger.update("a", "ended")
    assert shares(ledger.records(alive=False), REALM, owned.created + 49 * 3600) == ()


_CHILD = """
import sys
from dataclasses import replace
from pathlib import Path
from hudtui.core.compute.budget import BudgetExceeded, grant_new
from hudtui.core.compute.limits import Limits, in_usd, judge
from hudtui.core.text import money
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.values import Offer, Order, Price
from hudtui.core.errors import MachineError
path, name = sys.argv[1:]
order = Order(name, Offer("prime", name, "H100", 1, Price(2.1)))
grant = grant_new(name, order.offer.price, "https://api.example.org", Limits(day_budget=2.5))
print("here", flush=True)
sys.stdin.readline()
try:
    ledger = Ledger(Path(path), patience=60)
    ledger.reserve(order, provider="prime", endpoint="https://api.example.org", grant=grant)
    print("had")
except BudgetExceeded:
    print("refused")
"""


def test_launches_of_several_processes_at_the_same_moment_do_not_both_take_the_rest(
    ledger: Ledger,
) -> None:
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(ledger.path), f"m{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(6)
    ]
    for child in children:
        assert child.stdout is not None and child.stdout.readline() == "here\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    said = sorted(child.communicate()[0].strip() for child in children)
    assert said == ["had", *["refused"] * 5]
    assert at_most(ledger) <= 2.51


async def test_a_launch_that_the_budget_refuses_asks_for_nothing(world: Any) -> None:
    limits = Limits(run_budget=None, day_budget=3, max_hours=1)

    def getting(order: Order) -> Any:
        return acquire(
            order,
            world.prime,
            world.ledger,
            login=world.login,
            limits=limits,
            sleep=world.sleep,
            clock=world.clock,
        )

    steps = [step async for step in getting(await world.order("hudtui-first"))]
    assert steps[-1].kind == "ready"
    asked = world.asked("POST")
    second = [step async for step in getting(await world.order("hudtui-second"))]
    assert second[-1].kind == "ready" and at_most(world.ledger) <= 3.01
    with pytest.raises(BudgetExceeded):
        [step async for step in getting(await world.order("hudtui-third"))]
    assert world.asked("POST") == asked + 1 and world.ledger.get("hudtui-third") is None


@pytest.mark.parametrize("status", [402, 422])
async def test_a_launch_that_the_provider_refuses_takes_nothing(world: Any, status: int) -> None:
    limits = Limits(run_budget=None, day_budget=3, max_hours=1)
    world.sim.fail_next("POST", "/api/v1/pods/", kind="status", status=status, detail="no")
    order = await world.order("hudtui-refused")
    with pytest.raises(ProviderError):
        [
            step
            async for step in acquire(
                order,
                world.prime,
                world.ledger,
                login=world.login,
                limits=limits,
                sleep=world.sleep,
                clock=world.clock,
            )
        ]
    assert shares(world.ledger.records(alive=False), world.prime.endpoint, time.time()) == ()


@pytest.mark.parametrize(
    ("currency", "rate"),
    [("EUR", 1.2), ("eur", 1.2), ("GBP", 1.4), ("CHF", 1.3), ("KWD", 3.5), ("USD", 1)],
)
def test_a_day_in_several_currencies_is_counted_in_usd(
    ledger: Ledger, currency: str, rate: float
) -> None:
    limits = Limits(run_budget=None, day_budget=10, max_hours=1)
    launch(ledger, "a", 2.0, limits, currency=currency)
    (share,) = shares(ledger.records(), REALM, time.time())
    assert share.today_in_usd + share.more_in_usd == pytest.approx(2 * rate, abs=0.01)
    left = 10 - 2 * rate
    assert hours(launch(ledger, "b", 20.0, replace(limits, max_hours=None))) == pytest.approx(
        left / 20, abs=0.002
    )
    ledger.update("b", "never")
    assert hours(
        launch(ledger, "c", 5.0, replace(limits, max_hours=None), currency=currency)
    ) == pytest.approx(left / 5 / rate, abs=0.002)
    ledger.update("a", "ended", billed=2.0)
    ledger.update("c", "ended", billed=1.0)
    assert sum(
        share.today_in_usd for share in shares(ledger.records(alive=False), REALM, time.time())
    ) == pytest.approx(3 * rate)


def test_a_full_day_names_its_rates(ledger: Ledger) -> None:
    limits = Limits(run_budget=None, day_budget=2, max_hours=1)
    launch(ledger, "a", 1.5, limits, currency="EUR")
    with pytest.raises(BudgetExceeded) as caught:
        launch(ledger, "b", 5.0, limits, currency="GBP")
    told = str(caught.value.why)
    assert (
        "day's budget of $2.00" in caught.value.what
        and "$0.20 is left" in told
        and "at 5.00 GBP an hour" in told
    )
    assert "a may cost $1.80 more" in told and told.endswith(
        "The budget counts 1 EUR as 1.2 USD, 1 GBP as 1.4 USD."
    )


def test_a_price_in_another_currency_than_offered_counts_as_it_is_charged(ledger: Ledger) -> None:
    limits = Limits(run_budget=None, day_budget=12, max_hours=None)
    assert hours(launch(ledger, "a", 1.0, limits, currency="GBP")) == pytest.approx(
        12 / 1.4, abs=0.01
    )
    again = ledger.grant(
        "a", grant_changed(ledger.update("a", "created", hourly=2.0, currency="EUR"), limits)
    )
    assert hours(again) == pytest.approx(5, abs=0.01)


def charged(record: PodRecord, amount: float) -> Pod:
    """A machine as its provider tells of it, with what it has cost so far."""
    return Pod(
        "prime",
        f"p-{record.name}",
        record.name,
        "ready",
        hourly=record.hourly,
        billed=amount,
        currency=record.currency,
    )


def _plain(ledger: Ledger) -> None:
    launch(ledger, "a", 2.0, ANY)
    ledger.update("a", "ready", pod="p")


def _billed_less(ledger: Ledger) -> None:
    record = launch(ledger, "a", 2.0, ANY)
    ledger.update_seen({"a": charged(record, 1.5)}, NOON)


def _billed_more(ledger: Ledger) -> None:
    record = launch(ledger, "a", 2.0, ANY)
    ledger.update_seen({"a": charged(record, 7.0)}, NOON - 600)


def _estimated(ledger: Ledger) -> None:
    record = launch(ledger, "a", 2.0, ANY)
    ledger.update_seen({"a": replace(charged(record, 1.0), estimated=True)}, NOON)


def _seen_again_without_a_bill(ledger: Ledger) -> None:
    _billed_less(ledger)
    ledger.update("a", last=Pod("prime", "p-a", "a", "ready", hourly=2.0))


def _billed_in_another_currency(ledger: Ledger) -> None:
    _plain(ledger)
    record = ledger.get("a")
    assert record is not None
    ledger.update_seen({"a": replace(charged(record, 9.0), currency="GBP", hourly=None)}, NOON)


def _ended_with_a_bill(ledger: Ledger) -> None:
    _billed_less(ledger)
    ledger.update("a", "ended", pod="p", ended=NOON - 60, billed=1.75)


def _ended_without_a_bill(ledger: Ledger) -> None:
    _plain(ledger)
    ledger.update("a", "ended", ended=NOON - 1800)


def _prepaid(ledger: Ledger) -> None:
    launch(ledger, "a", 1.0, ANY, prepaid_hours=8)
    ledger.update("a", "ready", pod="p")


def _never_seen(ledger: Ledger) -> None:
    launch(ledger, "a", 2.0, ANY)
    ledger.unclaim("a")


def _never_created(ledger: Ledger) -> None:
    launch(ledger, "a", 2.0, ANY)
    ledger.update("a", "never")


def _several_currencies(ledger: Ledger) -> None:
    for name, currency in (("a", "USD"), ("b", "EUR"), ("c", "GBP"), ("d", "EUR")):
        launch(ledger, name, 1.0, ANY, currency=currency)
        ledger.update(name, "ready", pod=f"p-{name}")


def _simulated_too(ledger: Ledger) -> None:
    _plain(ledger)
    launch(ledger, "s", 9.0, ANY, endpoint="http://127.0.0.1:1")
    ledger.update("s", "ready", pod="p")


def _only_simulated_alive(ledger: Ledger) -> None:
    _simulated_too(ledger)
    ledger.update("a", "never")


ANY = Limits(None, None, None)
NOON = midnight(time.time()) + 12 * 3600
CASES = (
    (_plain, "$6.00", 6.0),
    (_billed_less, "$1.50", 6.0),
    (_billed_more, "$7.33", 7.0 + 1 / 3),
    (_estimated, "$1.00", 6.0),
    (_seen_again_without_a_bill, "$1.50", 6.0),
    (_billed_in_another_currency, "$6.00", 6.0),
    (_ended_with_a_bill, "$1.75", 1.75),
    (_ended_without_a_bill, "$5.00", 5.0),
    (_prepaid, "$8.00", 8.0),
    (_never_seen, "$0.00", 6.0),
    (_never_created, "$0.00", 0.0),
    (_several_currencies, "$3.00 + €6.00 + 3.00 GBP", 3 + 6 * 1.2 + 3 * 1.4),
    (_simulated_too, "$6.00", 6.0),
    (_only_simulated_alive, "$27.00", 27.0),
)


@pytest.mark.parametrize(("happened", "today", "kept"), CASES)
def test_a_refusal_names_what_the_header_names(
    ledger: Ledger, happened: Any, today: str, kept: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the budget keeps at least price times time, however late a bill comes."""
    monkeypatch.setattr(time, "time", lambda: NOON - 3 * 3600)
    happened(ledger)
    monkeypatch.setattr(time, "time", lambda: NOON)
    service: Any = PrimeProvider("key", base_url="http://127.0.0.1:1")
    costs = sum_costs(ledger, NOON, here=[service]).shown
    assert costs.today_text == today
    endpoint = costs.pods[0].endpoint if costs.pods else REALM
    with pytest.raises(BudgetExceeded) as caught:
        grant_new("", Price(1000.0), endpoint, Limits(None, 50, None))(ledger.costing())
    counted = f" (counted as {money(costs.today_in_usd)})" if "+" in today else ""
    assert str(caught.value.why).startswith(f"{today} is spent today{counted}")
    assert sum(
        pod.today_in_usd + in_usd(pod.pending, pod.currency) for pod in costs.pods
    ) == pytest.approx(kept)


def test_hours_that_are_paid_end_no_machine(ledger: Ledger) -> None:
    """Its budget is what was charged at once: ending it now would give nothing back."""
    limits = Limits(run_budget=24, day_budget=24, max_hours=None)
    launch(ledger, "a", 1.0, limits, prepaid_hours=24)
    record = ledger.update("a", "ready", pod="p")
    ledger.update_seen({"a": charged(record, 24.0)}, record.created)
    for hours, level in ((0.1, "fine"), (20, "warn"), (24, "end")):
        costs = sum_costs(ledger, record.created + hours * 3600)
        assert judge(replace(limits, day_budget=None), costs.usage(costs.pods[0])).level == level
    costs = sum_costs(ledger, record.created + 60)
    assert (
        costs.pods[0].text == "$24.00 billed"
        and judge(limits, costs.usage(costs.pods[0])).level == "fine"
    )


def test_simulated_money_ends_no_real_machine(ledger: Ledger) -> None:
    limits, sim = Limits(run_budget=None, day_budget=5, max_hours=None), "http://127.0.0.1:1"
    record = launch(ledger, "a", 0.1, limits)
    launch(ledger, "s", 9000.0, Limits(None, None, None), endpoint=sim)
    for name in "as":
        ledger.update(name, "ready", pod=f"p-{name}")
    costs = sum_costs(ledger, record.created + 3600, here=[PrimeProvider("key", base_url=sim)])
    real, simulated = costs.pods
    assert (
        judge(limits, costs.usage(real)).level == "fine"
        and judge(limits, costs.usage(simulated)).level == "end"
    )


class Service:
    """A provider that lists pods."""

    def __init__(self, endpoint: str = REALM) -> None:
        self.name, self.endpoint = "prime", endpoint


def _stray(pod: str = "x", **changes: Any) -> Pod:
    facts = {"hourly": 3.0, "created": NOON - 3 * 3600, **changes}
    return Pod("prime", pod, f"hudtui-{pod}", "ready", **facts)


def _refused_and_shown(ledger: Ledger, here: Any) -> tuple[str, str]:
    """What a refusal says that is spent today, and what the header shows."""
    with pytest.raises(BudgetExceeded) as caught:
        launch(ledger, "new", 1000.0, Limits(None, 50, None), endpoint=here.endpoint)
    shown = sum_costs(ledger, NOON, here=[here]).shown.today_text
    return str(caught.value.why).partition(" is spent")[0], shown


@pytest.mark.parametrize(
    ("pods", "today"),
    [
        ([], "$6.00"),
        ([_stray()], "$15.00"),
        ([_stray(), _stray("y", hourly=1.0)], "$18.00"),
        ([_stray(billed=1.0)], "$7.00"),
        ([_stray(billed=1.0, estimated=True)], "$7.00"),
        ([_stray(currency="EUR")], "$6.00 + €9.00"),
        ([_stray(created=midnight(NOON) - 24 * 3600)], "$42.00"),
        ([_stray(created=None)], "$6.00"),
        ([_stray(hourly=None)], "$6.00"),
    ],
)
def test_a_machine_that_nobody_here_ordered_counts_in_refusal_and_header(
    ledger: Ledger, pods: list[Pod], today: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: Any = Service()
    monkeypatch.setattr(time, "time", lambda: NOON - 3 * 3600)
    _plain(ledger)
    monkeypatch.setattr(time, "time", lambda: NOON)
    ledger.keep_strays(here, pods, NOON)
    assert _refused_and_shown(Ledger(ledger.path), here) == (today, today)
    ledger.keep_strays(here, [], NOON)
    assert _refused_and_shown(ledger, here) == ("$6.00", "$6.00"), "the next look finds none"


def test_a_stray_counts_once_whatever_the_ledger_says(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: Any = Service()
    monkeypatch.setattr(time, "time", lambda: NOON - 3 * 3600)
    _plain(ledger)
    monkeypatch.setattr(time, "time", lambda: NOON)
    ledger.keep_strays(here, [_stray("p", hourly=2.0)], NOON)
    assert _refused_and_shown(ledger, here) == ("$6.00", "$6.00"), "the record is open"
    ledger.update("a", "ended", billed=1.0)
    assert _refused_and_shown(ledger, here) == ("$6.00", "$6.00"), "it lives after all"
    ledger.keep_strays(here, [], NOON)
    assert _refused_and_shown(ledger, here) == ("$1.00", "$1.00")


def test_a_stray_of_another_service_or_of_yesterday_counts_no_more(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOON)
    here, simulator = Service(), Service("http://127.0.0.1:1")
    ledger.keep_strays(simulator, [_stray()], NOON)  # type: ignore[arg-type]
    assert _refused_and_shown(ledger, here) == ("$0.00", "$0.00")
    ledger.keep_strays(here, [_stray()], NOON)  # type: ignore[arg-type]
    assert _refused_and_shown(ledger, here) == ("$9.00", "$9.00")
    assert sum_costs(ledger, midnight(NOON + 24 * 3600 + 7200) + 1).pods == ()
