"""The client of Prime against the simulator."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.compute.choose import select
from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.provider import (
    AuthError,
    InsufficientFunds,
    OutcomeUnknown,
    OutOfCapacity,
    Provider,
    ProviderError,
)
from hudtui.core.compute.values import Address, Order, Query
from hudtui.core.errors import InputError


async def test_it_is_a_provider(world: Any) -> None:
    assert isinstance(world.prime, Provider)
    assert (
        world.prime.name,
        world.prime.title,
        world.prime.features.simulated,
        world.prime.features.paid,
    ) == (
        "prime",
        "Prime (simulated)",
        True,
        True,
    )
    assert PrimeProvider("pit_x").title == "Prime Intellect"


async def test_all_offers_and_those_that_are_asked_for(world: Any) -> None:
    everything = await world.prime.offers()
    assert everything.warnings == () and len(everything.found) == 19
    prices = [offer.price.hourly for offer in everything.found]
    assert prices == sorted(prices)

    def ids(**query: Any) -> set[str]:
        return {offer.cloud_id for offer in select(everything.found, query=Query(**query)).found}

    assert ids(gpu_types=("H100_80GB",), gpu_count=1, spot=False) == {
        "1H100.80S",
        "gpu-h100",
        "scw-h100",
    }
    assert ids(gpu_types=("H100_80GB",), spot=True) == {"1H100.80S-spot"}
    assert ids(min_vram=100, max_price=10) == {"b200-x1"}
    assert ids(clouds=("RunPod",)) == {"rp-l40s"}
    assert ids(gpu_count=16) == {"h100-cluster-2"}


async def test_a_pod_from_order_to_end(world: Any) -> None:
    pod = await world.prime.create(await world.order())
    assert (pod.name, pod.stage, pod.status, pod.gpu_type, pod.hourly) == (
        "hudtui-test-1",
        "booting",
        "PROVISIONING",
        "H100_80GB",
        2.1,
    )
    await world.sleep(25)
    (pod,) = await world.prime.status([pod.id])
    assert (pod.stage, pod.status, pod.progress, pod.name) == (
        "installing",
        "ACTIVE/ACTIVE",
        25,
        "hudtui-test-1",
    )
    await world.sleep(20)
    (pod,) = await world.prime.status([pod.id, "unknown"])
    assert (
        pod.stage == "ready"
        and pod.addresses[0].user == "root"
        and pod.addresses[0].host == "127.0.0.1"
    )
    assert [listed.id for listed in await world.prime.pods()] == [pod.id]
    await world.sleep(3600)
    spent = (await world.prime.account()).spent
    assert spent[pod.id] == pytest.approx(2.1, abs=0.05)
    await world.prime.terminate(pod.id)
    await world.prime.terminate(pod.id)
    await world.prime.terminate("never-heard-of")
    assert await world.prime.pods() == ()
    gone = await world.prime.get(pod.id)
    assert gone is not None and gone.stage == "gone" and not gone.alive
    await world.sleep(600)
    assert await world.prime.get(pod.id) is None
    (row,) = await world.prime.history()
    assert (row.id, row.stage, row.billed) == (
        pod.id,
        "gone",
        pytest.approx(spent[pod.id], abs=0.001),
    )


@pytest.mark.parametrize(
    "scenario", ["ssh-never-told", "ssh-list", "ssh-list-nulls", "ssh-command", "ssh-colon"]
)
async def test_every_form_of_address(world: Any, scenario: str) -> None:
    world.sim.scenario(scenario)
    made = await world.prime.create(await world.order())
    await world.sleep(60)
    (pod,) = await world.prime.status([made.id])
    assert pod.stage == "ready"
    assert pod.addresses == (Address("root", "127.0.0.1", world.sim.pods[made.id].ports[0]),)


async def test_unknown_words_pass_through(world: Any) -> None:
    world.sim.scenario("unknown-values")
    made = await world.prime.create(await world.order())
    assert (made.stage, made.status) == ("unknown", "WARMING_UP")
    await world.sleep(60)
    assert (await world.prime.status([made.id]))[0].stage == "ready"


async def test_a_highest_price_is_named_when_it_is_demanded(world: Any) -> None:
    world.sim.scenario("max-price")
    await world.prime.create(await world.order())
    bodies = [
        request.body["pod"]
        for request in world.sim.requests
        if request.method == "POST" and "pods" in request.path
    ]
    assert ["maxPrice" in body for body in bodies] == [False, True] and bodies[1]["maxPrice"] == 2.1
    assert len(world.sim.pods) == 1


async def test_refusals_of_an_order(world: Any) -> None:
    order = await world.order()
    world.sim.scenario("offer-gone")
    with pytest.raises(OutOfCapacity, match="another customer took it"):
        await world.prime.create(order)
    world.sim.scenario("wallet-empty")
    with pytest.raises(InsufficientFunds):
        await world.prime.create(await world.order(cloud_id="cpu-8"))
    world.sim.scenario("unprocessable")
    with pytest.raises(ProviderError, match=r"pod\.socket"):
        await world.prime.create(await world.order(cloud_id="cpu-8"))
    world.sim.scenario("plain")
    with pytest.raises(InputError, match="no image"):
        await world.prime.create(await world.order(cloud_id="cpu-8", image="prime_rl"))
    assert world.sim.pods == {}


@pytest.mark.parametrize("kind", ["reset_before", "reset_after", "malformed", "html503"])
async def test_an_unclear_order_is_sent_once(world: Any, kind: str) -> None:
    order = await world.order()
    world.sim.fail_next("POST", "/api/v1/pods/", kind)
    with pytest.raises(OutcomeUnknown):
        await world.prime.create(order)
    assert world.asked("POST") == 1
    assert len(world.sim.pods) == (1 if kind in ("reset_after", "malformed") else 0)


async def test_a_key_that_may_not_order(world: Any) -> None:
    world.sim.add_token("reader", {"availability": {"read": True}, "user": {"read": True}})
    prime = PrimeProvider("reader", base_url=world.sim.url)
    offer = (await prime.offers()).found[0]
    with pytest.raises(AuthError, match="does not let this key do that"):
        await prime.create(Order("n", offer))
    account = await prime.account()
    assert account.balance is None and account.scopes
    await prime.close()


async def test_the_account(world: Any) -> None:
    account = await world.prime.account()
    assert (account.name, account.balance, account.currency, account.spent) == (
        "Sim User",
        100.0,
        "USD",
        {},
    )
    assert "instances:write" in account.scopes
    team = PrimeProvider(world.sim.api_key, base_url=world.sim.url, team_id="team_sim")
    assert (await team.account()).team == "team_sim"
    await team.create(await world.order())
    assert [request.query for request in world.sim.requests if "wallet" in request.path][-1][
        "teamId"
    ] == ["team_sim"]
    assert [pod.team for pod in await team.pods()] == ["team_sim"]
    await team.close()


async def test_a_public_key_is_registered_once(world: Any, key_pair: Path) -> None:
    (old,) = await world.prime.keys()
    new = await world.prime.register_key("laptop", "ssh-ed25519 AAAABBBB me@laptop\n")
    assert new.primary and [key.primary for key in await world.prime.keys()] == [False, True]
    again = await world.prime.register_key("other", "ssh-ed25519 AAAABBBB another comment")
    assert again.id == new.id and len(await world.prime.keys()) == 2
    back = await world.prime.register_key("old", key_pair.with_suffix(".pub").read_text())
    assert back.id == old.id and [key.primary for key in await world.prime.keys()] == [True, False]
    with pytest.raises(InputError, match="not a public SSH key"):
        await world.prime.register_key("x", "-----BEGIN OPENSSH PRIVATE KEY-----")


async def test_a_key_whose_answer_was_lost_is_found_again(world: Any) -> None:
    world.sim.fail_next("POST", "/api/v1/ssh_keys/", "reset_after")
    key = await world.prime.register_key("laptop", "ssh-ed25519 AAAABBBB")
    assert key.primary and len(await world.prime.keys()) == 2


async def test_one_request_asks_for_many(world: Any) -> None:
    offer = await world.offer("cpu-8")
    made = [(await world.prime.create(Order(f"hudtui-{index}", offer))).id for index in range(12)]
    world.sim.forget_requests()
    asked = await asyncio.gather(
        *(world.prime.status([pod]) for pod in made), world.prime.status(made)
    )
    assert [pod.id for pods in asked[:-1] for pod in pods] == made == [pod.id for pod in asked[-1]]
    assert len(world.sim.requests) == 1
    assert await world.prime.status([]) == () and len(world.sim.requests) == 1


async def test_one_who_stops_asking_disturbs_nobody(world: Any) -> None:
    made = await world.prime.create(await world.order(cloud_id="cpu-8"))
    first = asyncio.create_task(world.prime.status([made.id]))
    second = asyncio.create_task(world.prime.status([made.id]))
    await asyncio.sleep(0)
    first.cancel()
    assert [pod.id for pod in await second] == [made.id]
    assert first.cancelled()


async def test_pods_that_another_program_made_are_asked_for_whole(world: Any) -> None:
    made = await world.prime.create(await world.order(cloud_id="cpu-8"))
    stranger = PrimeProvider(world.sim.api_key, base_url=world.sim.url)
    (pod,) = await stranger.status([made.id])
    assert (pod.name, pod.hourly) == ("hudtui-test-1", 0.08)
    world.sim.forget_requests()
    await stranger.status([made.id])
    assert [request.path for request in world.sim.requests] == ["/api/v1/pods/status"]
    await stranger.close()
