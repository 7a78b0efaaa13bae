from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.compute.costs import sum_costs, wallet_text
from hudtui.core.compute.pods import Ledger, PodRecord, stray_record
from hudtui.core.compute.values import Account, Offer, Order, Pod, Price

NOW = datetime(2026, 11, 20, 12, 0).astimezone().timestamp()
HOUR = 3600
SIM = "http://127.0.0.1:1234"


class At:
    """A service that is asked."""

    def __init__(self, realm: str) -> None:
        self.name, self.endpoint = "prime", realm


HERE: Any = [At("")]


class Book:
    def __init__(self, *owned: PodRecord) -> None:
        self._owned = owned

    def costing(self) -> tuple[PodRecord, ...]:
        return self._owned


def owned(name: str = "a", **changes: Any) -> PodRecord:
    values: dict[str, Any] = {
        "name": name,
        "provider": "prime",
        "endpoint": "",
        "pod": f"pod-{name}",
        "run": None,
        "workspace": None,
        "machine": "here",
        "holder": None,
        "state": "ready",
        "hourly": 2.0,
        "currency": "USD",
        "created": NOW - 3 * HOUR,
        "updated": NOW,
        "ended": None,
        "billed": None,
        "why": None,
    }
    return PodRecord(**{**values, **changes})


def account(spent: Mapping[str, float]) -> dict[str, Account]:
    return {"prime": Account("me", spent=spent)}


def test_nothing_costs_nothing() -> None:
    found = sum_costs(Book(), NOW)
    assert (found.per_hour, found.today, found.pods) == ({}, {}, ())
    assert (found.per_hour_text, found.today_text) == ("$0.00", "$0.00")


def test_price_times_time_where_there_is_no_bill() -> None:
    found = sum_costs(Book(owned(run="r1")), NOW)
    assert (found.per_hour, found.today) == ({"USD": 2}, {"USD": 6})
    assert [(pod.run, pod.spent, pod.billed) for pod in found.pods] == [("r1", 6, False)]
    assert found.pods[0].text == "about $6.00"


def test_the_bill_counts_where_there_is_one() -> None:
    found = sum_costs(Book(owned()), NOW, here=HERE, accounts=account({"pod-a": 5.5}))
    assert (found.today, found.pods[0].billed, found.pods[0].text) == (
        {"USD": 5.5},
        True,
        "$5.50 billed",
    )


def test_each_machine_says_where_its_cost_comes_from() -> None:
    found = sum_costs(Book(owned(), owned("b")), NOW, here=HERE, accounts=account({"pod-a": 5.5}))
    assert [pod.billed for pod in found.pods] == [True, False]
    assert (found.today, found.per_hour) == ({"USD": 11.5}, {"USD": 4})


def test_what_has_ended_counts_for_today_and_not_for_the_hour() -> None:
    over = owned(state="ended", ended=NOW - HOUR, billed=4.0)
    old = owned("old", state="ended", created=NOW - 90 * HOUR, ended=NOW - 80 * HOUR, billed=50.0)
    found = sum_costs(Book(over, old, owned("never", state="never")), NOW)
    assert (found.per_hour, found.today) == ({}, {"USD": 4})
    assert [pod.name for pod in found.pods] == ["a"]


def test_only_the_part_since_midnight_is_of_today() -> None:
    found = sum_costs(Book(owned(created=NOW - 24 * HOUR)), NOW)
    assert (found.pods[0].spent, found.today) == (48, {"USD": 24})


def test_one_that_may_exist_has_no_price_yet() -> None:
    found = sum_costs(Book(owned(state="intended", pod=None)), NOW)
    assert (found.per_hour, found.today) == ({"USD": 0}, {"USD": 0})
    assert found.open[0].name == "a" and not found.open[0].expected


def test_machines_that_nobody_wrote_down_count_too() -> None:
    pod = Pod("prime", "x1", "hudtui-x", "ready", hourly=3.0, created=NOW - HOUR)
    found = sum_costs(Book(owned(), stray_record(pod, "prime", "", NOW)), NOW)
    assert (found.per_hour, found.today) == ({"USD": 5}, {"USD": 9})
    assert found.of("x1") is found.of("hudtui-x") is not None


def test_a_simulators_machines_count_where_it_is_asked_and_real_ones_always() -> None:
    real, one, other = (
        owned(name, endpoint=realm)
        for name, realm in zip("abc", ("https://real", SIM, SIM + "1"), strict=True)
    )

    def names(**more: Any) -> list[str]:
        return [pod.name for pod in sum_costs(Book(real, one, other), NOW, **more).pods]

    assert names() == ["a"] and names(here=[At("https://real")]) == ["a"]
    assert names(here=[At(SIM)]) == ["a", "b"] and names(here=[At(SIM)], accounts={}) == ["b"]
    assert names(here=[At("https://another")], accounts={}) == []


def test_two_simulators_that_call_their_machines_alike() -> None:
    old = owned("old", endpoint=SIM, pod="p1", state="ended", ended=NOW - HOUR, billed=50.0)
    new = owned("new", endpoint=SIM + "1", pod="p1", hourly=1.0)
    cost = sum_costs(Book(old, new), NOW, here=[At(SIM + "1")]).of("p1")  # type: ignore[list-item]
    assert cost is not None and (cost.name, cost.spent) == ("new", 3.0)


def test_currencies_are_told_apart() -> None:
    found = sum_costs(Book(owned(currency="EUR"), owned("b", currency="EUR"), owned("c")), NOW)
    assert (found.currency, found.per_hour_text) == ("EUR", "€4.00 + $2.00")
    assert found.per_hour_at("prime", "EUR") is None and found.per_hour_at("sky", "EUR") == 0
    told = found.to_json("prime", "EUR")
    assert (told["per_hour"], told["today"]) == (None, None) and told["per_hour_by_currency"] == {
        "EUR": 4.0,
        "USD": 2.0,
    }
    assert (
        told["today_by_currency"].keys() == {"EUR", "USD"}
        and found.to_json("sky", "EUR")["per_hour"] == 0
    )
    wallet = Account("me", balance=30.0, currency="EUR")
    assert wallet_text(wallet, found, "prime", 2.0, "EUR") == "Your wallet has €30.00.", (
        "no rate is known for what is paid in USD"
    )
    euros = sum_costs(Book(owned(currency="EUR")), NOW)
    assert euros.per_hour_at("prime", "EUR") == euros.per_hour["EUR"] > 0
    assert "lasts" in (wallet_text(wallet, euros, "prime", 2.0, "EUR") or "")


@given(st.floats(0, 1e4), st.floats(0, 200), st.floats(0, 100))
def test_today_is_never_more_than_all(hourly: float, before: float, bill: float) -> None:
    for accounts in (None, account({"pod-a": bill})):
        (pod,) = sum_costs(
            Book(owned(hourly=hourly, created=NOW - before * HOUR)),
            NOW,
            here=HERE,
            accounts=accounts,
        ).pods
        assert 0 <= pod.today <= pod.spent * (1 + 1e-9)
        # Times are seconds since 1970: a clock of doubles tells them apart by a quarter of a
        # microsecond.
        assert pod.spent == pytest.approx(bill if accounts else hourly * before, abs=1e-5)


def test_the_real_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "pods.db")
    offer = Offer("prime", "o", "H100_80GB", 1, Price(2.0))
    ledger.reserve(Order("hudtui-a", offer), provider="prime", run="r1")
    ledger.update("hudtui-a", "created", pod="p1", hourly=2.5)
    entry = ledger.get("hudtui-a")
    assert entry is not None
    found = sum_costs(ledger, entry.created + HOUR, here=HERE, accounts=account({"p1": 0.75}))
    assert (found.per_hour, found.pods[0].spent, found.pods[0].run, found.pods[0].billed) == (
        {"USD": 2.5},
        0.75,
        "r1",
        True,
    )
