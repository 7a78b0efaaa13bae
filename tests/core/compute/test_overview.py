from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.compute.choose import select
from hudtui.core.compute.limits import Limits
from hudtui.core.compute.market import Market, ProviderOffers, cached_offers, load_cache, save_cache
from hudtui.core.compute.overview import Overview, PodsSnapshot
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.provider import Features, ProviderError
from hudtui.core.compute.values import Account, Offer, Offers, Order, Price
from hudtui.sim import PrimeSimulator

START = 1_795_208_400.0
"""When the simulator's world begins: 2026-11-20 21:00 UTC."""


@pytest.fixture
def sim() -> Iterator[PrimeSimulator]:
    with PrimeSimulator() as one:
        yield one


class Mute:
    """A provider whose answer to a question for offers is given by the test."""

    name, title, endpoint, features = "mute", "Mute", "", Features(paid=False)

    def __init__(self, *answers: Offers | Exception) -> None:
        self._answers = list(answers)

    async def offers(self) -> Offers:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        pass


def offer(name: str, price: float = 1.0) -> Offer:
    return Offer(
        "mute",
        name,
        "H100_80GB",
        1,
        Price(price),
        images=("a", "b"),
        gpu_memory=80.0,
        raw={"secret": 1},
    )


def desk(tmp_path: Path, *providers: Any, now: float = START + 600, active: Any = None) -> Overview:
    return Overview(
        {provider.name: provider for provider in providers},
        Ledger(tmp_path / "pods.db"),
        cache=tmp_path / "offers.json",
        active=active,
        now=lambda: now,
    )


def prime(sim: PrimeSimulator) -> PrimeProvider:
    return PrimeProvider(sim.api_key, base_url=sim.url, simulated=True)


async def refreshed(one: Overview) -> list[Market]:
    async with aclosing(one.refresh()) as markets:
        return [market async for market in markets]


async def test_each_answer_is_shown_as_it_comes_and_one_that_fails_blanks_nothing(
    tmp_path: Path, sim: PrimeSimulator
) -> None:
    mute = Mute(
        Offers((offer("a"),)),
        ProviderError("it is asleep"),
        *[Offers((offer("b"),), ("page 2 failed",))] * 2,
        Offers((offer("b"),)),
    )
    one = desk(tmp_path, prime(sim), mute)
    first, *_, last = await refreshed(one)
    assert set(first.asking) == {"Prime (simulated)", "Mute"} and not first.offers
    assert not last.asking and not last.warnings and len(last.offers) > 10

    *_, failed = await refreshed(one)
    assert failed.warnings == ("Mute: it is asleep",)
    assert [item.id for item in failed.parts["mute"].offers] == ["a"]

    *_, partial = await refreshed(one)
    assert {item.id for item in partial.parts["mute"].offers} == {"a", "b"} and partial.warnings

    kept = next(item for item in partial.parts["mute"].offers if item.id == "a")
    assert kept.stock == "not confirmed" and select([kept]).found == (), (
        "it is shown, and not chosen"
    )

    *_, again = await refreshed(one)
    assert [item.id for item in again.parts["mute"].offers] == ["b"] and again.warnings, (
        "what two answers lack is gone"
    )

    *_, whole = await refreshed(one)
    assert [item.id for item in whole.parts["mute"].offers] == ["b"] and not whole.warnings
    await one.close()


async def test_the_next_session_begins_with_what_was_remembered(tmp_path: Path) -> None:
    await refreshed(desk(tmp_path, Mute(Offers((offer("a", 2.5),)))))
    again = desk(tmp_path, Mute(Offers((offer("b"),))))
    part = again.market.parts["mute"]
    assert part.remembered and part.at == START + 600 and part.offers[0].price.hourly == 2.5
    assert not part.offers[0].raw and part.offers[0].images == ("a", "b")
    first, last = await refreshed(again)
    assert first.remembered and [item.id for item in first.offers] == ["a"]
    assert not last.remembered and [item.id for item in last.offers] == ["b"]
    assert "secret" not in (tmp_path / "offers.json").read_text()


def test_another_title_is_another_provider(tmp_path: Path) -> None:
    one, other = Mute(), Mute()
    other.title = "Mute (simulated)"
    market = load_cache(tmp_path / "none.json", [one])  # type: ignore[list-item]
    assert market.offers == () and market.oldest is None
    save_cache(
        Market({"mute": load_cache(tmp_path / "none.json", [one]).parts["mute"]}),
        tmp_path / "offers.json",
    )  # type: ignore[list-item]
    assert not load_cache(tmp_path / "offers.json", [other]).remembered  # type: ignore[list-item]


@pytest.mark.parametrize(
    "junk",
    [b"", b"[]", b"{}", b'{"version":1,"providers":{"Mute":{"at":1,"offers":[{}]}}}', b"\xff"],
)
def test_a_spoiled_cache_is_no_one_s_trouble(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "offers.json").write_bytes(junk)
    assert desk(tmp_path, Mute()).market.offers == ()


def test_an_offer_survives_being_remembered(tmp_path: Path) -> None:
    kept, other = tmp_path / "offers.json", Mute()
    one = replace(offer("a"), images=("ubuntu",), raw={"token": "secret"})
    save_cache(Market({"mute": ProviderOffers("mute", other.title, (one,), at=1.0)}), kept)
    (again,) = cached_offers(kept)
    assert again == one and again.raw == {} and "secret" not in kept.read_text()


async def rent(one: Overview, sim: PrimeSimulator, name: str, **facts: Any) -> str:
    """A machine that was asked for and created, as `acquire` leaves it when the app is killed."""
    found = [
        item
        for item in (await one.providers["prime"].offers()).found
        if item.gpu_type == "H100_80GB"
    ]
    chosen = min(
        (item for item in found if item.price.currency == "USD" and not item.spot),
        key=lambda item: item.price.hourly,
    )
    order = Order(name, chosen)
    one.ledger.reserve(order, provider="prime", endpoint=sim.url, **facts)
    pod = await one.providers["prime"].create(order)
    one.ledger.update(name, "ready", pod=pod.id, hourly=pod.hourly)
    one.ledger.unclaim(name)
    return pod.id


async def looked(one: Overview) -> PodsSnapshot:
    found = await one.look()
    assert one.holdings is found
    return found


async def test_nothing_is_alive(tmp_path: Path, sim: PrimeSimulator) -> None:
    one = desk(tmp_path, prime(sim))
    found = await looked(one)
    assert found.pods == () and found.spending.per_hour == {} and not found.warnings
    assert found.accounts["prime"].balance == 100
    await one.close()


async def test_what_no_run_owns_comes_first_and_each_thing_is_asked_once(
    tmp_path: Path, sim: PrimeSimulator
) -> None:
    one = desk(tmp_path, prime(sim), active=lambda entry: entry.run == "r1")
    owned = await rent(one, sim, "hudtui-a", run="r1")
    orphan = await rent(one, sim, "hudtui-b", run="r2")
    by_hand = await rent(one, sim, "hudtui-d")
    foreign = await rent(one, sim, "hudtui-c")
    with (
        one.ledger._database.writing() as database
    ):  # as if it had been rented elsewhere under another name
        database.execute("DELETE FROM machines WHERE name = 'hudtui-c'")
        database.execute(
            "UPDATE machines SET created = ? ", (START - 300,)
        )  # the provider's clock is another one
    sim.set_pod(foreign, name="somebody")
    sim.clock.advance(3600)
    before = len(sim.requests)
    found = await looked(one)
    asked = [request.path for request in sim.requests[before:]]
    assert len(asked) == len(set(asked)) <= 3, asked
    assert [item.pod.id for item in found.pods] == [orphan, owned, by_hand, foreign]
    assert [item.pod.name for item in found.pods if item.ours] == [
        "hudtui-b",
        "hudtui-a",
        "hudtui-d",
    ]
    assert [item.by_hand for item in found.pods] == [False, False, True, False]
    assert found.pods[1].run == "r1" and len(found.orphans) == 1
    assert [item.age(START + 600) for item in found.pods] == [
        900,
        900,
        900,
        pytest.approx(600, abs=5),
    ]
    assert found.orphans[0].age(found.at) == 900
    cost = found.spending.of(owned)
    assert cost is not None and cost.billed and cost.spent > 0
    assert found.spending.per_hour == pytest.approx(
        {"USD": sum(item.pod.hourly or 0 for item in found.pods[:3])}
    )
    await one.close()


async def test_the_guard_s_word_comes_with_each_machine(
    tmp_path: Path, sim: PrimeSimulator
) -> None:
    one = desk(tmp_path, prime(sim))
    await rent(one, sim, "hudtui-a", run="r1")
    one.ledger.set_limits("hudtui-a", Limits(run_budget=0.5))
    sim.clock.advance(3600)
    verdict = (await looked(one)).pods[0].verdict
    assert (
        verdict is not None and verdict.level == "end" and "budget of $0.50" in verdict.reasons[0]
    )
    one.ledger.set_limits("hudtui-a", Limits(run_budget=500))
    verdict = (await looked(one)).pods[0].verdict
    assert verdict is not None and verdict.level == "fine"
    await one.close()


async def test_a_provider_that_does_not_answer_is_named(
    tmp_path: Path, sim: PrimeSimulator
) -> None:
    one = desk(tmp_path, prime(sim))
    sim.fail_next("GET", "/api/v1/user/whoami", kind="status", status=403, times=20)
    found = await looked(one)
    assert any("Prime (simulated)" in warning for warning in found.warnings), found.warnings
    await one.close()


async def test_simulated_money_is_not_added_to_real_money(
    tmp_path: Path, sim: PrimeSimulator
) -> None:
    one = desk(tmp_path, prime(sim))
    for name, realm in (
        ("hudtui-real", "https://api.example.org"),
        ("hudtui-old", "http://127.0.0.1:1"),
    ):
        one.ledger.reserve(Order(name, offer("a", 3.0)), provider="prime", endpoint=realm)
        one.ledger.update(name, "created", pod=f"{name}-1")
        one.ledger.unclaim(name)
    found = await looked(one)
    assert [pod.name for pod in found.spending.pods] == ["hudtui-real"]
    assert any("hudtui-real" in warning for warning in found.warnings)
    await one.close()


def test_limits_are_kept_by_name(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "deep" / "pods.db")
    assert ledger.limits("a") is None
    ledger.set_limits("a", Limits(run_budget=1, max_hours=None))
    ledger.set_limits("b", Limits())
    ledger.set_limits("b", Limits(max_hours=2))
    assert Ledger(ledger.path).limits("a") == Limits(run_budget=1, max_hours=None)
    assert ledger.limits("b") == Limits(max_hours=2) and ledger.limits("c") is None
    assert os.stat(ledger.path).st_mode & 0o777 == 0o600


async def test_a_provider_that_is_down_takes_no_row_away(
    tmp_path: Path, sim: PrimeSimulator
) -> None:
    one = desk(tmp_path, prime(sim))
    pod = await rent(one, sim, "hudtui-a", run="r1")
    one.ledger.reserve(Order("hudtui-b", offer("a", 3.0)), provider="prime", endpoint=sim.url)
    one.ledger.unclaim("hudtui-b")
    sim.clock.advance(600)
    seen = (await looked(one)).pods[0]
    assert seen.reachable and seen.seen == START + 600 and seen.pod.addresses

    later = desk(tmp_path, prime(sim), now=START + 640)  # as a new start finds it
    sim.fail_next("GET", "/api/v1/pods/", kind="status", status=403, times=20)
    found = await looked(later)
    row = next(item for item in found.pods if item.pod.id == pod)
    assert (row.reachable, row.seen, row.seen_ago(found.at)) == (False, START + 600, 40)
    assert (row.pod.addresses, row.pod.hourly, row.run) == (
        seen.pod.addresses,
        seen.pod.hourly,
        "r1",
    ) and row.pod.alive
    assert row.unclaimed is None and row.ours, (
        "it is paid for, and nobody says that its run is over"
    )
    assert found.spending.per_hour == pytest.approx({"USD": row.pod.hourly})
    unseen = next(item for item in found.pods if item.pod.name == "hudtui-b")
    assert (unseen.reachable, unseen.seen, unseen.pod.stage, unseen.pod.gpu_type) == (
        False,
        None,
        "unknown",
        "H100_80GB",
    )
    assert set(found.unreachable) == {row, unseen}
    assert [item.text(found.at) for item in found.silent] == [
        "Prime (simulated) unreachable: last known state, 40 s old"
    ]

    sim.heal()
    found = await looked(later)
    assert [item.reachable for item in found.pods if item.pod.id == pod] == [
        True
    ] and not found.silent
    await later.close()
    await one.close()


async def test_a_machine_that_was_taken_back_is_told_with_its_reason(
    tmp_path: Path, sim: PrimeSimulator
) -> None:
    one = desk(tmp_path, prime(sim))
    taken, ended = await rent(one, sim, "hudtui-a"), await rent(one, sim, "hudtui-b")
    assert (await looked(one)).taken == ()
    sim.reclaim(taken)
    one.ledger.update("hudtui-b", "ending", why="by hand")
    await one.providers["prime"].terminate(ended)
    sim.clock.advance(600)
    (owned,) = (await looked(one)).taken
    assert owned.name == "hudtui-a" and owned.unasked and "taken back" in str(owned.why)
    entry = one.ledger.get("hudtui-b")
    assert entry is not None and (entry.state, entry.unasked, entry.why) == (
        "ended",
        False,
        "by hand",
    )
    assert [item.name for item in (await looked(one)).taken] == ["hudtui-a"], (
        "it is told for a day, also to who looks later"
    )
    await one.close()


async def test_an_empty_wallet_and_a_spot_machine_are_named_as_the_reason(
    tmp_path: Path, sim: PrimeSimulator
) -> None:
    one = desk(tmp_path, prime(sim))
    spot = await rent(one, sim, "hudtui-spot")
    await rent(one, sim, "hudtui-dry")
    sim.set_pod(spot, isSpot=True)
    await looked(one)
    sim.reclaim(spot)
    await looked(one)
    sim.clock.advance(3600 * 60)
    found = {item.name: item.why for item in (await looked(one)).taken}
    assert "spot" in str(found["hudtui-spot"]) and "wallet is empty" in str(found["hudtui-dry"])
    await one.close()


async def test_two_accounts_that_call_their_machines_alike_are_two(tmp_path: Path) -> None:
    with PrimeSimulator() as first:
        one = desk(tmp_path, prime(first))
        pod = await rent(one, first, "hudtui-a")
        (seen,) = (await looked(one)).pods
        assert (entry := one.ledger.get("hudtui-a")) is not None and entry.account == "Sim User"
        one.ledger.update("hudtui-a", "ended", billed=0.5)
        await one.close()
    with PrimeSimulator() as second:
        other = desk(tmp_path, prime(second))
        assert await rent(other, second, "hudtui-b") == pod, "the same id"
        with other.ledger._database.writing() as database:  # as if both had one address
            database.execute(
                "UPDATE machines SET endpoint = ?, account = 'Somebody Else' WHERE name = "
                "'hudtui-a'",
                (second.url,),
            )
        second.clock.advance(3600)
        found = await looked(other)
        (row,) = found.pods
        assert row.pod.name == "hudtui-b" and row.cost is not None
        assert (row.cost.open, row.cost.per_hour) == (
            True,
            seen.pod.hourly,
        ) and row.cost.spent > 0.5
        await other.close()


def test_how_long_the_wallet_lasts() -> None:
    assert Account("a", balance=0.05).lasts(2.0) == pytest.approx(0.025)
    assert Account("a", balance=-1.0).lasts(2.0) == 0.0
    assert (
        Account("a").lasts(2.0)
        is Account("a", balance=1.0).lasts(0.0)
        is Account("a", balance=1.0).lasts(2.0, "EUR")
        is None
    )


async def test_what_ends_a_machine_first_is_what_is_left_to_it(
    tmp_path: Path, sim: PrimeSimulator
) -> None:
    one = desk(tmp_path, prime(sim))
    await rent(one, sim, "hudtui-a", run="r1")
    (row,) = (await looked(one)).pods
    assert row.pod.hourly is not None and row.until is None
    found = await looked(one)
    wallet = found.accounts["prime"].balance
    assert wallet is not None and found.left(row) == pytest.approx(wallet / row.pod.hourly), (
        "without limits the wallet ends it"
    )
    one.ledger.grant("hudtui-a", lambda entries: START + 600 + 2 * 3600)
    found = await looked(one)
    assert found.left(found.pods[0]) == pytest.approx(2.0), "the guard on it"
    one.ledger.set_limits("hudtui-a", Limits(run_budget=0.5))
    found = await looked(one)
    left = found.left(found.pods[0])
    assert left is not None and left < 0.5, "its limits"
    await one.close()
