"""What the next start finds: machines that nobody owns, and entries whose machines are gone."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hudtui.core.compute.lifecycle import terminate_pod
from hudtui.core.compute.pods import UNGUARDED
from hudtui.core.compute.provider import Features, Provider
from hudtui.core.compute.reconcile import Reconciliation, reconcile
from hudtui.core.errors import MachineError


@pytest.fixture
def forgotten(world: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A world in which the process that ordered machines is gone."""
    monkeypatch.setattr("hudtui.core.compute.pods.is_running", lambda mark: False)
    return world


async def _pod(
    world: Any, name: str, *, state: Any = "ready", run: str | None = "r1", noted: bool = True
) -> str:
    order = await world.order(name, "cpu-8")
    world.ledger.reserve(order, provider="prime", endpoint=world.prime.endpoint, run=run)
    pod = (await world.prime.create(order)).id
    if noted:
        world.ledger.update(name, state, pod=pod)
        if state == "ready":
            world.ledger.unclaim(name)
    return str(pod)


async def _look(world: Any, **more: Any) -> Reconciliation:
    return await reconcile([world.prime], world.ledger, now=lambda: time.time() + 3600, **more)


async def test_nothing_is_there(forgotten: Any) -> None:
    assert await _look(forgotten) == Reconciliation()


async def test_whose_machine_is_it(forgotten: Any) -> None:
    owned = await _pod(forgotten, "hudtui-owned")
    over = await _pod(forgotten, "hudtui-over", run="r2")
    moved = await _pod(forgotten, "hudtui-moved", run="r3")
    forgotten.ledger.update("hudtui-moved", workspace="/not/there")
    alone = await _pod(forgotten, "hudtui-alone", run=None)
    half = await _pod(forgotten, "hudtui-half", state="created")
    ending = await _pod(forgotten, "hudtui-ending", state="ending")
    strange = (await forgotten.prime.create(await forgotten.order("hudtui-strange", "cpu-8"))).id
    await forgotten.prime.create(await forgotten.order("somebody-elses", "cpu-8"))
    found = await _look(
        forgotten, active=lambda entry: entry.run == "r1" and entry.state == "ready"
    )
    assert {one.pod.id for one in found.alive} == {owned, alone} and [
        one.pod for one in found.by_hand
    ] == [alone]
    told = {orphan.pod.id: orphan for orphan in found.orphans}
    assert set(told) == {over, half, ending, strange, moved}
    assert (
        "run r2 is over" in told[over].unclaimed
        and "run r3 may be at work: the project /not/there" in told[moved].unclaimed
    )
    assert (
        "setup was interrupted" in told[half].unclaimed
        and "is not confirmed" in told[ending].unclaimed
    )
    assert told[strange].record is None and "not ordered here" in told[strange].unclaimed
    assert found.warnings == () and found.to_json()["orphans"]


async def test_age_and_cost(forgotten: Any) -> None:
    pod = await _pod(forgotten, "hudtui-over")
    await forgotten.sleep(7200)
    (orphan,) = (await _look(forgotten, active=lambda entry: False)).orphans
    assert orphan.pod.id == pod and orphan.cost.spent == pytest.approx(0.16, abs=0.01), (
        "as the wallet says"
    )
    assert orphan.cost.billed and orphan.cost_text == "$0.16 billed"
    forgotten.sim.fail_next("GET", "/api/v1/billing/wallet", "html503", times=9)
    found = await _look(forgotten, active=lambda entry: False)
    assert any("bills" in warning for warning in found.warnings)
    (orphan,) = found.orphans
    assert orphan.cost.spent == pytest.approx(0.16, abs=0.01), "as the wallet said last"


async def test_cost_without_a_bill(forgotten: Any) -> None:
    await _pod(forgotten, "hudtui-over")
    forgotten.sim.fail_next("GET", "/api/v1/billing/wallet", "html503", times=9)
    (orphan,) = (await _look(forgotten, active=lambda entry: False)).orphans
    assert orphan.cost.spent == pytest.approx(orphan.cost.hours * 0.08) and orphan.cost.hours > 0.9
    assert not orphan.cost.billed and str(orphan.cost_text).startswith("about $")


async def test_age_goes_by_this_computers_clock_where_it_can(forgotten: Any) -> None:
    ours = await _pod(forgotten, "hudtui-over", state="created")
    strange = (await forgotten.prime.create(await forgotten.order("hudtui-strange", "cpu-8"))).id
    forgotten.sim.clock.advance(86400)
    found = {orphan.pod.id: orphan for orphan in (await _look(forgotten)).orphans}
    assert found[ours].age(0) == pytest.approx(3600, abs=120), "whatever the simulator's clock says"
    created = found[strange].pod.created
    assert created is not None and found[strange].age(0) == pytest.approx(
        max(time.time() + 3600 - created, 0.0), abs=120
    ), "nobody here knows better"


async def test_a_machine_that_a_living_process_is_getting(world: Any) -> None:
    pod = await _pod(world, "hudtui-mine", run=None, noted=False)
    found = await _look(world)
    assert [one.pod.id for one in found.alive] == [pod] and found.orphans == ()
    assert world.ledger.get("hudtui-mine").pod is None, "that process writes it down itself"


async def test_a_machine_whose_creation_nobody_saw(forgotten: Any) -> None:
    pod = await _pod(forgotten, "hudtui-lost", noted=False)
    (orphan,) = (await _look(forgotten)).orphans
    entry = forgotten.ledger.get("hudtui-lost")
    assert orphan.record == entry and (entry.pod, entry.state) == (pod, "created")
    await terminate_pod(pod, forgotten.prime, forgotten.ledger, why="orphan", sleep=forgotten.sleep)
    assert await _look(forgotten) == Reconciliation()


async def test_intentions_that_came_to_nothing(forgotten: Any) -> None:
    entry = forgotten.ledger.reserve(await forgotten.order("hudtui-a"), provider="prime")
    found = await reconcile([forgotten.prime], forgotten.ledger)
    assert [one.name for one in found.unclear] == [entry.name], (
        "its creation may still come to pass"
    )
    assert await _look(forgotten) == Reconciliation()
    assert forgotten.ledger.get("hudtui-a").state == "never"


async def test_what_was_taken_for_ended_and_is_alive(forgotten: Any) -> None:
    ended = await _pod(forgotten, "hudtui-ended", state="ended")
    never = await _pod(forgotten, "hudtui-never", noted=False)
    forgotten.ledger.update("hudtui-never", "never")
    found = await _look(forgotten, active=lambda entry: True)
    assert {orphan.pod.id for orphan in found.orphans} == {ended, never}
    assert all("was recorded as" in orphan.unclaimed for orphan in found.orphans)


async def test_machines_that_ended_meanwhile(forgotten: Any) -> None:
    pod = await _pod(forgotten, "hudtui-gone")
    await forgotten.sleep(3600)
    forgotten.sim.reclaim(pod)
    found = await _look(forgotten)
    assert [(entry.name, entry.state) for entry in found.lost] == [("hudtui-gone", "ended")]
    assert found.lost[0].billed == pytest.approx(0.08, abs=0.01) and found.orphans == ()
    assert await _look(forgotten) == Reconciliation()


async def test_a_bill_is_kept_in_the_currency_in_which_it_is_charged(forgotten: Any) -> None:
    """The offer was in euro, nobody saw the machine, and its bill is in dollars."""
    order = await forgotten.order("hudtui-a", "scw-h100")
    assert order.offer.price.currency == "EUR"
    forgotten.ledger.reserve(order, provider="prime", endpoint=forgotten.prime.endpoint, run="r1")
    pod = (await forgotten.prime.create(order)).id
    await forgotten.sleep(3600)
    forgotten.sim.reclaim(pod)
    (gone,) = (await _look(forgotten)).lost
    assert gone.billed and gone.currency == "USD" and gone.hourly > order.offer.price.hourly


async def test_a_machine_that_this_account_does_not_know(forgotten: Any) -> None:
    entry = forgotten.ledger.reserve(
        await forgotten.order("hudtui-a"), provider="prime", endpoint=forgotten.prime.endpoint
    )
    forgotten.ledger.update(entry.name, "ready", pod="of-another-account")
    found = await _look(forgotten)
    assert [one.name for one in found.unclear] == [
        "hudtui-a"
    ] and "the account's key?" in found.warnings[0]
    assert forgotten.ledger.get("hudtui-a").state == "ready"


async def test_a_provider_that_cannot_be_asked(forgotten: Any) -> None:
    await _pod(forgotten, "hudtui-a")
    forgotten.sim.fail_next("GET", "/api/v1/pods/", "html503", times=9)
    found = await _look(forgotten)
    assert "1 of your machines may be alive there" in found.warnings[0] and [
        one.name for one in found.unclear
    ] == ["hudtui-a"]


async def test_a_provider_that_has_no_key_any_more(forgotten: Any) -> None:
    forgotten.ledger.reserve(await forgotten.order("hudtui-a"), provider="elsewhere")
    forgotten.ledger.reserve(
        await forgotten.order("hudtui-b"), provider="prime", endpoint="https://api.example.invalid"
    )
    forgotten.ledger.reserve(
        await forgotten.order("hudtui-c"), provider="prime", endpoint="http://127.0.0.1:1"
    )
    found = await _look(forgotten)
    assert [one.name for one in found.unclear] == ["hudtui-a", "hudtui-b"] and len(
        found.warnings
    ) == 2
    assert forgotten.ledger.get("hudtui-c").state == "ended", "its simulator is gone"


async def test_several_providers_and_such_that_cost_nothing(forgotten: Any) -> None:
    class Own:
        name, features = "local", Features(paid=False)

    await _pod(forgotten, "hudtui-a", state="created")
    providers: dict[str, Provider] = {"prime": forgotten.prime, "local": Own()}  # type: ignore[dict-item]
    assert len((await reconcile(providers, forgotten.ledger)).orphans) == 1


async def test_a_machine_that_nobody_was_told_of_is_not_rented_by_hand(forgotten: Any) -> None:
    """Its command was killed after the machine was ready, and before it said so."""
    order = await forgotten.order("hudtui-alone", "cpu-8")
    forgotten.ledger.reserve(order, provider="prime", endpoint=forgotten.prime.endpoint)
    pod = (await forgotten.prime.create(order)).id
    forgotten.ledger.update("hudtui-alone", "ready", pod=pod, why=UNGUARDED)
    (orphan,) = (found := await _look(forgotten)).orphans
    assert (
        orphan.pod.id == pod
        and orphan.unclaimed == "its setup was interrupted, and no guard is on it"
        and not found.by_hand
    )
    forgotten.ledger.unclaim("hudtui-alone")
    assert [one.pod for one in (await _look(forgotten)).by_hand] == [pod]


async def test_a_full_disk_hides_no_machine(
    forgotten: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = await _pod(forgotten, "hudtui-owned")
    half = await _pod(forgotten, "hudtui-half", noted=False)
    over = await _pod(forgotten, "hudtui-over", run="r2")
    gone = await _pod(forgotten, "hudtui-gone")
    await forgotten.prime.terminate(gone)
    never = await forgotten.order("hudtui-never", "cpu-8")
    forgotten.ledger.reserve(never, provider="prime", endpoint=forgotten.prime.endpoint)
    await forgotten.sleep(60)

    def writing() -> Any:
        raise MachineError("the disk is full: the list of rented machines cannot be written")

    with monkeypatch.context() as full:
        full.setattr(forgotten.ledger._database, "writing", writing)
        found = await _look(
            forgotten, active=lambda entry: entry.run == "r1" and entry.state == "ready"
        )
    assert {one.pod.id for one in found.alive} == {owned} and {
        orphan.pod.id for orphan in found.orphans
    } == {half, over}
    assert [one.name for one in found.lost] == ["hudtui-gone"] and found.unclear == ()
    assert (
        len(
            [
                text
                for text in found.warnings
                if "could not be written down: the disk is full" in text
            ]
        )
        == 1
    )
