"""A pod by its name, its id or the beginning of one, also while its provider does not answer."""

from __future__ import annotations

from typing import Any

import pytest

from hudtui.core.compute.known_pods import ended_by_ledger, ended_pods, find_pod
from hudtui.core.compute.lifecycle import acquire, terminate_pod
from hudtui.core.compute.provider import ProviderError
from hudtui.core.compute.values import Pod


async def rented(world: Any, name: str) -> Pod:
    world.sim.behave(boot=0, install=0)
    order = await world.order(name)
    steps = acquire(
        order, world.prime, world.ledger, login=world.login, sleep=world.sleep, clock=world.clock
    )
    pod = [step async for step in steps][-1].pod
    assert pod is not None
    return pod


async def test_a_pod_by_its_name_its_id_and_the_beginning_of_one(world: Any) -> None:
    first, second = await rented(world, "hudtui-first-1"), await rented(world, "hudtui-second-1")
    providers = {"prime": world.prime}
    for name in (first.name, first.id, "hudtui-f"):
        found = await find_pod(name, providers, world.ledger)
        assert (found.pod.id, found.reachable) == (first.id, True) and found.record is not None, (
            name
        )
    with pytest.raises(ProviderError, match="means several machines") as several:
        await find_pod("hudtui-", providers, world.ledger)
    assert first.id in str(several.value.fix) and second.id in str(several.value.fix)
    for name in ("nix", ""):
        with pytest.raises(ProviderError, match="there is no machine") as none:
            await find_pod(name, providers, world.ledger)
        assert first.name in str(none.value.fix)


async def test_a_provider_that_does_not_answer_takes_no_pod_away(world: Any) -> None:
    pod = await rented(world, "hudtui-first-1")
    world.sim.fail_next("*", "/api/v1/*", kind="html503", times=999)
    for name in (pod.name, "hudtui-"):
        found = await find_pod(name, {"prime": world.prime}, world.ledger)
        assert not found.reachable and found.pod.id == pod.id and found.pod.addresses, name


async def test_a_pod_that_has_ended_is_found_when_it_is_asked_for(world: Any) -> None:
    pod = await rented(world, "hudtui-first-1")
    await terminate_pod(pod, world.prime, world.ledger, why="asked for", sleep=world.sleep)
    found = await find_pod(pod.name, {"prime": world.prime}, world.ledger, ended=True)
    assert not found.pod.alive and found.record is not None and found.record.why == "asked for"


async def test_the_history_of_the_provider_and_of_the_ledger_are_one(world: Any) -> None:
    pods = [await rented(world, f"hudtui-{word}-1") for word in ("first", "second")]
    for pod in pods:
        await world.sleep(60)
        await terminate_pod(pod, world.prime, world.ledger, why="asked for", sleep=world.sleep)
    names = [one.pod.name for one in await ended_pods(world.prime, world.ledger)]
    assert names == ["hudtui-second-1", "hudtui-first-1"]
    world.sim.fail_next("*", "/api/v1/*", kind="html503", times=999)
    with pytest.raises(ProviderError):
        await ended_pods(world.prime, world.ledger)
    known = await ended_by_ledger(world.prime, world.ledger)
    assert [one.pod.name for one in known] == names and all(one.pod.billed for one in known)
