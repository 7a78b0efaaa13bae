"""Renting a pod and ending pods, against a simulated provider: what is asked, what is said, and
what is never left behind."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.person import ScriptedPerson

from hudtui.core.compute.budget import BudgetExceeded
from hudtui.core.compute.costs import pod_cost
from hudtui.core.compute.lifecycle import ProvisionStep, TerminationUnverified
from hudtui.core.compute.limits import Limits
from hudtui.core.compute.pod_row import PodRow
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.ssh_key import make_key
from hudtui.core.compute.values import Offer, Pod
from hudtui.core.errors import MachineError
from hudtui.core.events import Progress
from hudtui.core.flows.rent import (
    Ended,
    Ordered,
    Rented,
    RentRequest,
    change_limits,
    end_pods,
    put_watchdog,
    rent,
)
from hudtui.core.platform import HUD
from hudtui.core.project import Project
from hudtui.core.remote.hosts import close_hosts
from hudtui.core.runs.unattended import find_unattended
from hudtui.sim import PrimeSimulator


class World:
    """A simulated provider whose time passes when a flow waits, a ledger and a project."""

    def __init__(self, sim: PrimeSimulator, folder: Path) -> None:
        self.sim, self.ledger, self.project = sim, Ledger(), Project(folder, HUD)
        self.prime = PrimeProvider(sim.api_key, base_url=sim.url, simulated=True, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        await asyncio.to_thread(self.sim.clock.advance, seconds)

    async def offer(self, cloud_id: str = "1H100.80S") -> Offer:
        return next(one for one in (await self.prime.offers()).found if one.cloud_id == cloud_id)

    async def rent(
        self,
        person: ScriptedPerson,
        on: Callable[[Any], Awaitable[None]] | None = None,
        cloud_id: str = "1H100.80S",
        **more: Any,
    ) -> list[Ordered | ProvisionStep | Rented]:
        request = RentRequest(await self.offer(cloud_id), **more)
        seen: list[Ordered | ProvisionStep | Rented] = []
        async with aclosing(
            rent(self.project, request, self.prime, self.ledger, person, sleep=self.sleep)
        ) as steps:
            async for step in steps:
                seen.append(step)
                if on is not None:
                    await on(step)
        return seen

    async def rented(self, cloud_id: str = "1H100.80S") -> Pod:
        last = (await self.rent(ScriptedPerson(True), cloud_id=cloud_id))[-1]
        assert isinstance(last, Rented)
        return last.pod

    async def end(self, person: ScriptedPerson, *pods: PodRow) -> list[Progress | Ended]:
        return [one async for one in end_pods(pods, self.ledger, person, sleep=self.sleep)]

    @property
    def orders(self) -> int:
        return sum(
            one.method == "POST" and one.path == "/api/v1/pods/" for one in self.sim.requests
        )


@pytest.fixture
def sim() -> Iterator[PrimeSimulator]:
    with PrimeSimulator() as running:
        running.behave(boot=0, install=0)
        key = make_key(Path.home() / ".ssh" / "prime_key.pem")
        running.add_ssh_key(key.with_name("prime_key.pem.pub").read_text())
        yield running


@pytest.fixture
async def world(sim: PrimeSimulator, tmp_path: Path) -> AsyncIterator[World]:
    folder = tmp_path / "project"
    folder.mkdir()
    made = World(sim, folder)
    yield made
    await close_hosts()
    await made.prime.close()


async def test_a_pod_is_rented_after_one_question_with_everything_in_it(world: World) -> None:
    person = ScriptedPerson(True)
    steps = await world.rent(person, stem="demo", reasons=("It is the cheapest.",))
    (question,) = person.questions
    assert question.title == "Rent 1 × H100_80GB for $2.10/h (simulated)?" and not question.danger
    text = "\n".join(question.lines)
    for part in (
        "No real money is spent.",
        "It is the cheapest.",
        "at $2.10/h",
        "Your wallet ($100.00) lasts",
        "It is ended at $25.00 or after 24 h or at $100.00 a day for all machines.",
        "When hudtui is closed, a guard on it",
        "SSH key SHA256:",
    ):
        assert part in text, part
    first, last = steps[0], steps[-1]
    assert isinstance(first, Ordered) and first.name.startswith("hudtui-demo-")
    assert (
        isinstance(last, Rented)
        and last.pod.name == first.name
        and "a guard on the machine" in last.guard
    )
    kinds = [step.kind for step in steps if isinstance(step, ProvisionStep)]
    assert kinds[0] == "intended" and kinds[-1] == "ready" and world.orders == 1
    record = world.ledger.get(first.name)
    assert (
        record is not None
        and record.state == "ready"
        and record.workspace == str(world.project.folder)
    )


async def test_a_second_pod_shares_the_wallet(world: World) -> None:
    await world.rented()
    person = ScriptedPerson(False)
    assert await world.rent(person) == []
    assert "together with what is alive ($4.20/h)" in "\n".join(person.questions[0].lines)


async def test_without_a_yes_nothing_is_ordered(world: World) -> None:
    assert await world.rent(ScriptedPerson(False)) == []
    assert world.orders == 0 and world.ledger.records(alive=False) == ()


async def test_a_full_day_is_said_before_anything_is_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDTUI_BUDGET_DAY", "0.0001")
    with pytest.raises(BudgetExceeded):
        await world.rent(ScriptedPerson())
    assert world.orders == 0


async def test_without_limits_no_guard_is_promised(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BUDGET_RUN", "BUDGET_DAY", "MAX_HOURS"):
        monkeypatch.setenv(f"HUDTUI_{name}", "none")
    person = ScriptedPerson(True)
    last = (await world.rent(person))[-1]
    unlimited = "No limit is set: it costs money until you end it."
    assert unlimited in person.questions[0].lines and "guard" not in "\n".join(
        person.questions[0].lines
    )
    assert isinstance(last, Rented) and last.guard == unlimited


async def test_a_key_that_is_chosen_on_the_way_is_the_one_that_logs_in(world: World) -> None:
    usual = Path.home() / ".ssh" / "prime_key.pem"
    usual.unlink()
    mine = make_key(usual.with_name("work"))
    person = ScriptedPerson(str(mine), True, True)
    assert isinstance((await world.rent(person))[-1], Rented)
    assert person.titles[:2] == ["An SSH key for rented machines", "Register this SSH key?"]


async def test_leaving_before_it_is_ready_ends_what_was_created(world: World) -> None:
    request = RentRequest(await world.offer())
    steps = rent(
        world.project, request, world.prime, world.ledger, ScriptedPerson(True), sleep=world.sleep
    )
    async with aclosing(steps):
        async for step in steps:
            if isinstance(step, ProvisionStep) and step.kind == "created":
                break
    assert world.orders == 1 and not world.sim.alive and world.ledger.records() == ()


async def test_a_cancel_while_the_guard_is_put_there_leaves_a_pod_that_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    putting = asyncio.Event()

    async def slow(*_: Any, **__: Any) -> None:
        putting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("hudtui.core.compute.watchdog.start_watchdog", slow)
    person = ScriptedPerson(True)
    task = asyncio.create_task(world.rent(person))
    await putting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (pod,) = world.sim.alive
    assert any(
        f"{pod.name} is ready, and stays: it costs money until" in line for line in person.said
    )
    assert "No guard is on it: nothing ends it by itself." in _left(world)


def _left(world: World) -> str:
    """What is said of the one machine when hudtui is closed."""
    (left,) = find_unattended(
        world.ledger, {"prime": world.prime}, lambda name: None, folder=Path.cwd()
    )
    return " ".join(left.words)


async def test_a_guard_that_cannot_start_is_said_and_the_pod_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any, **__: Any) -> None:
        raise MachineError("no python3 there")

    monkeypatch.setattr("hudtui.core.compute.watchdog.start_watchdog", fails)
    last = (await world.rent(ScriptedPerson(True)))[-1]
    assert isinstance(last, Rented) and len(world.sim.alive) == 1
    assert (
        last.guard
        == "No guard is on the machine, which costs money until you end it: no python3 there"
    )


async def test_a_machine_without_a_guard_takes_none_from_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = await world.rented()
    guarded: list[str] = []

    async def start(host: Any, *_: Any, **__: Any) -> None:
        if host == "first":
            raise MachineError("no python3 there")
        guarded.append(host)

    monkeypatch.setattr("hudtui.core.compute.watchdog.start_watchdog", start)
    hosts: Any = ["first", "other"]
    told = await put_watchdog(hosts, pod, world.prime, world.ledger, {}.get)
    assert guarded == ["other"]
    assert told == (
        "Not each of its 2 machines has a guard, and they cost money until you end them: "
        "no python3 there"
    )


async def test_a_machine_that_is_away_keeps_no_limit_from_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = await world.rented("h100-cluster-2")
    guarded: list[float | None] = []

    async def start(host: Any, until: float | None, *_: Any, **__: Any) -> None:
        await host.run(["true"], timeout=5)
        guarded.append(until)

    monkeypatch.setattr("hudtui.core.compute.watchdog.start_watchdog", start)
    known = await world.prime.get(pod.id)
    assert known is not None and len(known.addresses) == 2
    world.sim.unplug(pod.id, 1)
    limits = Limits(max_hours=2, run_budget=None, day_budget=None)
    told = await change_limits(
        known, limits, world.prime, world.ledger, world.project.settings().get
    )
    assert told.startswith("Not each of the guards on its 2 machines has the new limits: ")
    record = world.ledger.get(pod.name)
    assert record is not None and guarded == [record.until]


async def test_new_limits_reach_the_guard_through_the_ledger(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = await world.rented()
    assert "Its guard switches it off in 11 h " in _left(world)
    given: list[float | None] = []

    async def keep(host: Any, until: float | None, *_: Any, **__: Any) -> None:
        given.append(until)

    monkeypatch.setattr("hudtui.core.compute.watchdog.start_watchdog", keep)
    record = world.ledger.get(pod.name)
    assert record is not None and record.until is not None
    hosts: Any = [None]
    await put_watchdog(hosts, pod, world.prime, world.ledger, {}.get)
    assert given == [record.until]


@pytest.mark.parametrize(
    ("hourly", "currency", "hours"), [(8.0, "USD", 3.0), (8.0, "EUR", 2.5), (0.5, "USD", 24.0)]
)
async def test_the_guard_gets_the_time_that_the_charged_price_leaves(
    world: World, monkeypatch: pytest.MonkeyPatch, hourly: float, currency: str, hours: float
) -> None:
    monkeypatch.setenv("HUDTUI_BUDGET_DAY", "24")
    monkeypatch.setenv("HUDTUI_BUDGET_RUN", "none")
    pod = await world.rented()
    world.ledger.update(pod.name, hourly=hourly, currency=currency)
    given: list[float | None] = []

    async def keep(host: Any, until: float | None, *_: Any, **__: Any) -> None:
        given.append(until)

    monkeypatch.setattr("hudtui.core.compute.watchdog.start_watchdog", keep)
    hosts: Any = [None]
    await put_watchdog(hosts, pod, world.prime, world.ledger, {}.get)
    record = world.ledger.get(pod.name)
    assert record is not None and record.until is not None and given == [record.until]
    assert (record.until - record.created) / 3600 == pytest.approx(hours, abs=0.05)


async def test_each_machine_of_a_cluster_has_a_guard_with_the_limits_of_now(world: World) -> None:
    person = ScriptedPerson(True)
    last = (await world.rent(person, cloud_id="h100-cluster-2"))[-1]
    assert isinstance(last, Rented) and len(last.pod.addresses) == 2
    assert "16 × H100_80GB on 2 machines" in person.titles[0]
    homes = world.sim.homes(last.pod.id)

    def told() -> list[float]:
        rules = [json.loads((home / ".hudtui-guard" / "guard.json").read_text()) for home in homes]
        return [float(each["max_seconds"]) for each in rules]

    first = told()
    assert len(first) == 2 and first[0] == pytest.approx(first[1], abs=5)
    limits = Limits(max_hours=0.25, run_budget=None, day_budget=None)
    text = await change_limits(last.pod, limits, world.prime, world.ledger, {}.get)
    assert "after 0.2" in text, text
    assert all(now <= 900 for now in told()) and len(world.sim.alive) == 1


async def test_changed_limits_are_kept_and_reach_the_guard(world: World) -> None:
    pod = await world.rented()
    lookup = world.project.settings().get
    told = await change_limits(
        pod,
        Limits(max_hours=2, run_budget=None, day_budget=None),
        world.prime,
        world.ledger,
        lookup,
    )
    record = world.ledger.get(pod.name)
    assert (
        record is not None
        and record.until is not None
        and abs(record.until - record.created - 7200) < 1
    )
    assert told.startswith("Safety stop: a guard on the machine switches it off after ")
    assert world.ledger.limits(pod.name) == Limits(max_hours=2, run_budget=None, day_budget=None)
    unlimited = Limits(None, None, None, None)
    assert await change_limits(pod, unlimited, world.prime, world.ledger, lookup, run="r1") == "", (
        "its run tells the guard"
    )
    assert world.ledger.limits(pod.name) == unlimited


async def test_a_guard_that_cannot_be_reached_keeps_its_limits_and_that_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = await world.rented()

    async def fails(*_: Any, **__: Any) -> None:
        raise MachineError("it does not answer")

    monkeypatch.setattr("hudtui.core.compute.watchdog.start_watchdog", fails)
    told = await change_limits(
        pod, Limits(max_hours=2), world.prime, world.ledger, world.project.settings().get
    )
    assert told == "The guard on the machine keeps its old limits: it does not answer"
    assert world.ledger.limits(pod.name) == Limits(max_hours=2)


# --- the end --------------------------------------------------------------------------------------


async def test_a_pod_is_ended_after_a_yes_with_its_bill(world: World) -> None:
    pod = await world.rented()
    record = replace(world.ledger.get(pod.name), run="r1", hourly=2.4, created=time.time() - 1800)
    end = PodRow(pod, world.prime, record, pod_cost(record, time.time()))
    person = ScriptedPerson(False)
    assert await world.end(person, end) == [] and len(world.sim.alive) == 1
    (question,) = person.questions
    assert question.title == f"End {pod.name}?" and question.danger
    text = "\n".join(question.lines)
    assert (
        "$2.10/h, about $1.20, simulated" in text
        and "! The run r1 is using it." in text
        and "Everything on it is lost." in text
    )
    world.sim.clock.advance(3600)
    progress, ended = await world.end(ScriptedPerson(True), end)
    assert isinstance(progress, Progress) and pod.name in progress.message
    assert isinstance(ended, Ended) and ended.pod.stage == "gone"
    assert (
        f"{pod.name} has ended, verified: it cost $" in ended.text and "(simulated)" in ended.text
    )
    record = world.ledger.get(pod.name)
    assert (
        not world.sim.alive
        and record is not None
        and (record.state, record.why) == ("ended", "ended by hand")
    )


async def test_a_pod_of_another_program_is_named_as_such(world: World) -> None:
    pod = await world.rented()
    person = ScriptedPerson(False)
    await world.end(person, PodRow(replace(pod, name="theirs"), world.prime))
    assert "! It was not rented by hudtui" in "\n".join(person.questions[0].lines)
    assert await world.end(ScriptedPerson()) == [], "no pod, no question"


async def test_the_question_says_why_a_pod_is_unclaimed(world: World) -> None:
    pod = await world.rented()
    record = replace(world.ledger.get(pod.name), created=time.time() - 7500)
    cost = pod_cost(record, time.time())
    row = PodRow(pod, world.prime, record, cost, unclaimed="its run r1 is over")
    person = ScriptedPerson(False)
    await world.end(person, row)
    assert (
        "! It is unclaimed, and alive for 2 h 05 min: its run r1 is over."
        in person.questions[0].lines
    )


async def test_one_that_cannot_be_ended_keeps_no_other_alive(world: World) -> None:
    first, bad, last = [await world.rented() for _ in range(3)]
    world.sim.fail_next(
        "DELETE", f"/api/v1/pods/{bad.id}*", kind="status", status=403, detail="not yours", times=50
    )
    ends = [PodRow(pod, world.prime) for pod in (first, bad, last)]
    person = ScriptedPerson(True)
    ended: list[str] = []
    with pytest.raises(TerminationUnverified) as caught:
        async for step in end_pods(ends, world.ledger, person, sleep=world.sleep):
            if isinstance(step, Ended):
                ended.append(step.pod.name)
    assert person.titles == ["End 3 machines?"] and ended == [first.name, last.name]
    assert bad.name in caught.value.what and f"{first.name} has ended" in str(caught.value.why)
    assert [pod.name for pod in world.sim.alive] == [bad.name]
    with pytest.raises(TerminationUnverified, match="could not be ended: its end is not verified"):
        await world.end(ScriptedPerson(True), PodRow(bad, world.prime))
