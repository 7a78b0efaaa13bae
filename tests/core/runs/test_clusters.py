"""Runs on rented clusters: what is planned and refused, and real nodes of the simulated Prime."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from faults import clusters

from hudtui.core.compute.choose import select
from hudtui.core.compute.lifecycle import acquire
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.prime.schemas import parse_offer
from hudtui.core.compute.provider import ProvisionFailed
from hudtui.core.compute.registry import pod_login
from hudtui.core.compute.values import Offer, Order, Query
from hudtui.core.errors import HudtuiError
from hudtui.core.remote.hosts import close_hosts, find_host
from hudtui.core.runs.again import request_again
from hudtui.core.runs.plan_text import plan_lines
from hudtui.core.runs.prepare import Preparation, prepare_run
from hudtui.core.runs.remote_run import RentalContext, change_limits, end_remote_run, run_remote
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.settings import load_settings
from hudtui.core.workspace import open_workspace
from hudtui.sim import PrimeSimulator
from hudtui.sim.catalogue import default_clusters
from hudtui.sim.pod import SimPod

pytestmark = [pytest.mark.xdist_group("clusters"), pytest.mark.timeout(240)]


@pytest.fixture
def sim(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrimeSimulator]:
    with PrimeSimulator(step=5) as running:
        monkeypatch.setenv("HUDTUI_SIM", running.url)
        monkeypatch.setenv("HUDTUI_SIM_KEY", running.api_key)
        yield running


@pytest.fixture
def key(own_world: Path) -> str:
    """The public key of the user."""
    path = Path.home() / ".ssh" / "id_ed25519"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path.with_suffix(".pub").read_text()


@pytest.fixture
async def prime(sim: PrimeSimulator, key: str) -> AsyncIterator[PrimeProvider]:
    """The provider, which knows the user's key."""
    sim.add_ssh_key(key)
    provider = PrimeProvider(sim.api_key, base_url=sim.url, simulated=True)
    yield provider
    await close_hosts()
    await provider.close()


# --- before anything is rented --------------------------------------------------------------------


async def prepare(project: Path, store: RunStore, asked: RunRequest, **more: Any) -> Preparation:
    workspace = open_workspace(project)
    settings = load_settings(workspace.folder, workspace.platform)
    return await prepare_run(asked, workspace, settings, store, starts=False, **more)


def request(**options: Any) -> RunRequest:
    return RunRequest(**{"model": "Qwen/Qwen2.5-3B-Instruct", "provider": "prime", **options})


async def test_a_cluster_is_one_machine_with_the_price_of_all_nodes(
    project: Path, store: RunStore, sim: PrimeSimulator
) -> None:
    prepared = await prepare(project, store, request(nodes=2, gpus="8xH100"))
    record = prepared.require()
    rent = record.spec.rent
    assert rent is not None and rent.hourly == 35.2
    assert (record.spec.nodes, record.spec.gpus, record.plan.nodes) == (2, 8, 2)
    assert (record.host, *record.spec.peers) == (
        f"pod:{rent.machine}",
        f"pod:{rent.machine}.1",
    )
    texts = [line.text for line in plan_lines(record, store, prepared)]
    assert any("16 x H100_80GB on 2 machines at $35.20 an hour" in text for text in texts)
    (memory,) = (check for check in prepared.checks if check.name == "memory")
    assert memory.state == "fine"
    again = request_again(record)
    assert (again.provider, again.nodes, again.gpus) == ("prime", 2, "8xH100_80GB SXM5")
    assert len(sim.pods) == 0


@pytest.mark.parametrize(
    ("options", "text", "fix"),
    [
        (
            {"nodes": 3},
            "no offer fits on 3 machines",
            "with --nodes 2: 16x H100_80GB on 2 machines",
        ),
        (
            {"nodes": 2, "gpus": "4xH100"},
            "no offer fits 4x",
            "with 8 GPUs on each: 16x H100_80GB on 2",
        ),
        ({"nodes": 1, "gpus": "16xH100"}, "no offer fits 16x", ""),
        (
            {"nodes": 2, "settings": {"num_generations": 5}},
            "num_generations (5) does not divide",
            "With batch_size=",
        ),
        ({"nodes": 2, "model": "x/y-1500B"}, "GiB", ""),
    ],
)
async def test_what_no_cluster_can_do_is_refused_before_it_is_rented(
    options: dict[str, Any],
    text: str,
    fix: str,
    project: Path,
    store: RunStore,
    sim: PrimeSimulator,
) -> None:
    prepared = await prepare(project, store, request(**options))
    assert prepared.record is None
    said = [check for check in prepared.missing if text in check.text]
    assert said and fix in (said[0].fix or ""), [
        (check.text, check.fix) for check in prepared.checks
    ]


async def offer_of(provider: PrimeProvider, nodes: int) -> Offer:
    return next(one for one in (await provider.offers()).found if one.nodes == nodes)


@pytest.mark.parametrize(("offered", "asked"), [(2, 1), (1, 2)])
async def test_an_offer_that_is_named_has_as_many_machines_as_the_run(
    offered: int, asked: int, project: Path, store: RunStore, prime: PrimeProvider
) -> None:
    offer = await offer_of(prime, offered)
    for named in ({"offer": offer}, {"offer_name": offer.short}):
        prepared = await prepare(project, store, request(nodes=asked, **named))
        (missing,) = (check for check in prepared.missing if check.name == "machine")
        assert missing.text.endswith(f"and the run {asked}")
        assert f"--nodes {offered}" in (missing.fix or "")


async def test_a_provider_without_clusters_is_refused_in_words(
    project: Path, store: RunStore, prime: PrimeProvider
) -> None:
    prime.features = replace(prime.features, clusters=False)
    prepared = await prepare(project, store, request(nodes=2), providers={"prime": prime})
    (missing,) = (check for check in prepared.missing if check.name == "nodes")
    assert "rents one machine for a run, and 2 nodes are asked for" in missing.text
    assert "--host A --host B" in (missing.fix or "")


def test_gpus_that_are_not_equally_many_on_all_machines_are_no_cluster() -> None:
    (raw,) = default_clusters()
    offer = parse_offer({**raw, "gpuCount": 20}, "prime", cluster=True)
    assert offer is not None and offer.nodes == 3
    (rejected,) = select([offer], query=Query(nodes=3)).rejected
    assert rejected.reason == "its 20 GPUs are not equally many on 3 machines"


# --- clusters that are rented ---------------------------------------------------------------------


def broker_of(sim: PrimeSimulator, provider: PrimeProvider) -> RentalContext:
    async def hurry(seconds: float) -> None:
        sim.clock.advance(seconds)
        await asyncio.sleep(min(seconds, 0.05))

    return RentalContext(provider, lambda name: None, sleep=hurry, every=0.05, within=5.0)


@pytest.fixture
def record(sim: PrimeSimulator, prime: PrimeProvider, store: RunStore) -> RunRecord:
    """A run of two nodes that goes on until it is stopped."""
    made = clusters.planned(clusters.LONG)(store, sim)
    store.add(made)
    return made


async def working(record: RunRecord, store: RunStore, broker: RentalContext) -> Any:
    """Manage a run until both nodes work; returns the task that manages it."""

    async def manage() -> None:
        async with aclosing(run_remote(record.id, store, broker)) as events:
            async for _ in events:
                pass

    managing = asyncio.create_task(manage())
    hosts = [find_host(name) for name in (record.host, *record.spec.peers)]
    while True:
        assert not managing.done(), managing.exception()
        try:
            found = [
                await host.stat(f"{record.folder}{f'.node-{node}' if node else ''}/out/begun")
                for node, host in enumerate(hosts)
            ]
        except HudtuiError:
            found = [None]
        if all(found):
            return managing
        await asyncio.sleep(0.1)


async def guarded(record: RunRecord) -> list[dict[str, Any]]:
    """The rules of the watchdog on each node."""
    names = (record.host, *record.spec.peers)
    places = (record.folder, f"{record.folder}.node-1")
    return [
        json.loads(await find_host(name).get(f"{place}/guard.json"))
        for name, place in zip(names, places, strict=True)
    ]


async def test_a_stop_ends_the_whole_cluster_and_its_guards_were_on_each_node(
    sim: PrimeSimulator, prime: PrimeProvider, store: RunStore, record: RunRecord
) -> None:
    broker = broker_of(sim, prime)
    managing = await working(record, store, broker)
    first, other = await guarded(record)
    assert first["max_seconds"] == other["max_seconds"] is not None
    limits = replace(record.spec.limits, run_budget=30.0)
    await change_limits(record.id, store, broker, limits)
    later = await guarded(record)
    assert all(now["max_seconds"] > first["max_seconds"] for now in later), "all nodes are told"
    summary = await end_remote_run(record.id, store, broker)
    await managing
    assert (summary.state, summary.machine) == ("stopped", "released")
    assert len(sim.pods) == 1 and not sim.alive
    home = store.folder / f"{record.id}.node-1"
    assert "begun node 1" in (home / "logs" / "train-1.log").read_text()


async def test_a_launch_that_breaks_on_one_node_leaves_no_node(
    sim: PrimeSimulator, prime: PrimeProvider, store: RunStore, record: RunRecord
) -> None:
    broker = broker_of(sim, prime)
    with pytest.raises(HudtuiError):
        async with aclosing(run_remote(record.id, store, broker)) as events:
            async for event in events:
                if event.data.get("name") == "guard":
                    (pod,) = sim.alive
                    runs = sim.homes(pod.id)[1] / ".hudtui" / "runs"
                    runs.rename(runs.with_name("away"))
                    runs.write_text("a file is in the way")
    summary = store.summary(record.id)
    assert (summary.state, summary.machine) == ("failed", "released")
    assert len(sim.pods) == 1 and not sim.alive


@pytest.mark.parametrize(
    ("told", "words"),
    [(3, "given: 3 machines"), (1, "is stuck: 1 of 2 machines have an address")],
)
async def test_a_cluster_with_another_number_of_machines_is_ended(
    told: int,
    words: str,
    sim: PrimeSimulator,
    prime: PrimeProvider,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = SimPod.connection

    def other(pod: SimPod, now: float) -> dict[str, Any]:
        found = connection(pod, now)
        ways = found["sshConnection"]
        more = {"sshConnection": [ways[node % 2] for node in range(told)]} if ways else {}
        return found | more

    monkeypatch.setattr(SimPod, "connection", other)
    offer = await offer_of(prime, 2)
    ledger = Ledger(tmp_path / "pods.db")
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        await asyncio.to_thread(sim.clock.advance, seconds)

    steps = acquire(
        Order("hudtui-test-1", offer),
        prime,
        ledger,
        login=pod_login({}.get),
        sleep=sleep,
        clock=lambda: now,
    )
    with pytest.raises(ProvisionFailed) as caught:
        async with aclosing(steps):
            async for _ in steps:
                pass
    assert words in " ".join(caught.value.lines())
    assert len(sim.pods) == 1 and not sim.alive
    (entry,) = ledger.records(alive=False)
    assert entry.state == "ended"


@pytest.mark.parametrize("seed", [4, 9])
def test_an_injection_leaves_no_cluster_and_no_false_word(seed: int) -> None:
    """Two of `tests/faults/clusters.py`, where the whole table is made."""
    found = clusters.injected(seed)
    assert not found.broken, found
    assert found.state == "finished"


def test_the_machine_of_node_1_goes_out() -> None:
    found = clusters.lost(random.Random(0), 1)
    assert not found.broken, found
