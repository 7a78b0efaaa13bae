"""Runs on rented clusters: what is planned and refused, and real nodes of the simulated Prime."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from faults import clusters
from support.compute_world import own_key, simulated_prime

from hudtui.core.compute.choose import select
from hudtui.core.compute.lifecycle import acquire
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.prime.schemas import parse_offer
from hudtui.core.compute.provider import ProvisionFailed
from hudtui.core.compute.registry import pod_login, pod_ssh_command
from hudtui.core.compute.skypilot import SkyPilotProvider
from hudtui.core.compute.values import Offer, Order, Pod, Query
from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.remote.host import Host
from hudtui.core.remote.hosts import close_hosts, find_host
from hudtui.core.runs.again import request_again
from hudtui.core.runs.plan_text import plan_lines
from hudtui.core.runs.prepare import Preparation, prepare_run
from hudtui.core.runs.remote_run import RentalContext, change_limits, end_remote_run, run_remote
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.watch import Monitor
from hudtui.core.settings import load_settings
from hudtui.core.workspace import open_workspace
from hudtui.sim import PrimeSimulator
from hudtui.sim.catalogue import default_clusters
from hudtui.sim.pod import SimPod

pytestmark = [pytest.mark.xdist_group("clusters"), pytest.mark.timeout(240)]


@pytest.fixture
def sim(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrimeSimulator]:
    with simulated_prime(monkeypatch) as running:
        yield running


@pytest.fixture
def key(own_world: Path, key_pair: Path) -> str:
    """The public key of the user."""
    return own_key(key_pair).with_suffix(".pub").read_text()


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
    assert any("the offer does not say how many machines it has" in text for text in texts)
    (memory,) = (check for check in prepared.checks if check.name == "memory")
    assert memory.state == "fine"
    again = request_again(record)
    assert (again.provider, again.nodes, again.gpus) == ("prime", 2, "8xH100_80GB SXM5")
    alone = (await prepare(project, store, replace(again, nodes=1))).require().spec
    assert alone.rent is not None and (alone.nodes, alone.rent.offer.gpu_count) == (1, 8)
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


async def test_a_cluster_that_is_chosen_on_screen_is_a_run_of_its_nodes(
    project: Path, store: RunStore, prime: PrimeProvider
) -> None:
    offer = await offer_of(prime, 2)
    record = (await prepare(project, store, request(offer=offer))).require()
    assert (record.spec.nodes, record.spec.gpus, record.plan.nodes) == (2, 8, 2)
    played = request(offer=offer, engine="rollouts", model=None, policy="random")
    (missing,) = (await prepare(project, store, played)).missing
    assert missing.text == "the engine rollouts works on one machine, and 2 nodes are asked for"


@pytest.mark.parametrize(
    ("offered", "asked", "ways"),
    [(2, 1, ("offer_name",)), (1, 2, ("offer", "offer_name")), (2, 3, ("offer", "offer_name"))],
)
async def test_an_offer_that_is_named_has_as_many_machines_as_the_run(
    offered: int,
    asked: int,
    ways: tuple[str, ...],
    project: Path,
    store: RunStore,
    prime: PrimeProvider,
) -> None:
    offer = await offer_of(prime, offered)
    for way in ways:
        named = {way: offer if way == "offer" else offer.short}
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


STUB = Path(__file__).parents[2] / "support" / "sky_stub.py"
H100 = {
    "cloud": "Lambda",
    "instance_type": "gpu_8x_h100_sxm5",
    "accelerator_name": "H100",
    "accelerator_count": 8.0,
    "cpu_count": 208,
    "device_memory": 80.0,
    "memory": 1800,
    "price": 20.0,
    "spot_price": None,
    "region": "us-west-3",
}


class SkyStub:
    """A stand-in of `sky`, and what it remembers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.write_text("{}")
        began = int(time.time()) - 60
        self.tell(began=began, clouds=["Lambda"], offers={"lambda": [H100]})

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text())
        return found

    def tell(self, **facts: Any) -> None:
        self.path.write_text(json.dumps({**self.state, **facts}))

    def asked(self, word: str) -> int:
        return sum(call[0] == word for call in self.state["calls"])


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SkyStub:
    monkeypatch.setenv("STUB_SKY", str(tmp_path / "sky.json"))
    return SkyStub(tmp_path / "sky.json")


async def test_skypilot_makes_a_cluster_of_equal_machines(
    project: Path, store: RunStore, stub: SkyStub
) -> None:
    sky = SkyPilotProvider((sys.executable, str(STUB)))
    asked = request(provider="sky", nodes=3, gpus="8xH100")
    prepared = await prepare(project, store, asked, providers={"sky": sky})
    record = prepared.require()
    rent = record.spec.rent
    assert rent is not None and (rent.hourly, rent.offer.gpu_count) == (60.0, 24)
    assert (record.spec.gpus, record.spec.nodes, len(record.spec.peers)) == (8, 3, 2)
    texts = [line.text for line in plan_lines(record, store, prepared)]
    assert any("24 x H100 on 3 machines at $60.00 an hour" in text for text in texts)
    named = replace(asked, gpus=None, offer_name=rent.offer.short)
    again = (await prepare(project, store, named, providers={"sky": sky})).require()
    assert again.spec.rent is not None and again.spec.rent.offer == rent.offer


def test_gpus_that_are_not_equally_many_on_all_machines_are_no_cluster() -> None:
    (raw,) = default_clusters()
    offer = parse_offer({**raw, "gpuCount": 20}, "prime", cluster=True)
    assert offer is not None and offer.nodes == 3
    (rejected,) = select([offer], query=Query(nodes=3)).rejected
    assert rejected.reason == "its 20 GPUs are not equally many on 3 machines"


async def test_an_offer_in_both_lists_is_a_cluster(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters = default_clusters()
    with simulated_prime(monkeypatch, offers=clusters, clusters=clusters) as sim:
        provider = PrimeProvider(sim.api_key, base_url=sim.url, simulated=True)
        (offer,) = (await provider.offers()).found
        await provider.close()
        assert offer.nodes == 2
        prepared = await prepare(project, store, request(gpus="16xH100"))
        assert prepared.record is None, "one machine of two would train, at the price of both"


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


async def managed(record: RunRecord, store: RunStore, broker: RentalContext) -> None:
    async with aclosing(run_remote(record.id, store, broker)) as events:
        async for _ in events:
            pass


async def working(record: RunRecord, store: RunStore, broker: RentalContext) -> Any:
    """Manage a run until both nodes work; returns the task that manages it."""

    managing = asyncio.create_task(managed(record, store, broker))
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
    status = home / "status.json"  # as where the machine was gone before its run had ended there
    status.write_text(json.dumps({**json.loads(status.read_text()), "state": "running"}))
    (node,) = (await Monitor(store).view(record.id)).nodes
    assert (node.host, node.left) == (f"pod:hudtui-{record.id}.1", False)


async def test_logs_that_end_with_their_machine_are_told(
    sim: PrimeSimulator, prime: PrimeProvider, store: RunStore, record: RunRecord
) -> None:
    broker = broker_of(sim, prime)
    managing = await working(record, store, broker)
    (pod,) = sim.alive
    sim.unplug(pod.id, 1)
    summary = await end_remote_run(record.id, store, broker)
    await managing
    assert (summary.state, summary.machine) == ("stopped", "released")
    assert any("the logs of node 1" in note and "not fetched" in note for note in summary.notes)


async def test_a_guard_that_was_away_has_the_new_limits_once_it_is_back(
    sim: PrimeSimulator, prime: PrimeProvider, store: RunStore, record: RunRecord
) -> None:
    broker = replace(broker_of(sim, prime), look=0.2)
    managing = await working(record, store, broker)
    (pod,) = sim.alive
    before = await guarded(record)
    managing.cancel()
    await asyncio.wait([managing])
    sim.unplug(pod.id, 1)
    limits = replace(record.spec.limits, run_budget=30.0)
    with pytest.raises(HudtuiError) as caught:
        await change_limits(record.id, store, broker, limits)
    assert "old limits on 1 machine of 2" in str(caught.value)
    sim.plug(pod.id, 1)
    first, other = await guarded(record)
    assert first["max_seconds"] > before[0]["max_seconds"], "what answers is told"
    assert other == before[1]
    managing = asyncio.create_task(managed(record, store, broker))
    while (await guarded(record))[1]["count_from"] == before[1]["count_from"]:
        assert not managing.done(), managing.exception()
        await asyncio.sleep(0.1)
    await end_remote_run(record.id, store, broker)
    await managing
    assert len(sim.pods) == 1 and not sim.alive


async def test_node_0_comes_back_where_another_node_cannot(
    sim: PrimeSimulator, prime: PrimeProvider, store: RunStore, record: RunRecord
) -> None:
    broker = replace(broker_of(sim, prime), look=0.2)
    managing = await working(record, store, broker)
    managing.cancel()
    await asyncio.wait([managing])
    (pod,) = sim.alive
    for node in (0, 1):
        sim.lose(pod.id, node)
        sim.plug(pod.id, node)
    guard = sim.homes(pod.id)[1] / f"{record.folder}.node-1" / "guard.json"
    guard.unlink()
    guard.mkdir()
    managing = asyncio.create_task(managed(record, store, broker))
    awaited = {"it is not started again", "its supervisor had ended"}
    while awaited:
        assert not managing.done(), (managing.exception(), awaited)
        await asyncio.sleep(0.1)
        said = [str(event.data.get("message")) for event in store.events(record.id)]
        awaited = {words for words in awaited if not any(words in text for text in said)}
    summary = await end_remote_run(record.id, store, broker)
    await managing
    assert summary.machine == "released"
    assert len(sim.pods) == 1 and not sim.alive


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


async def test_a_shell_opens_on_any_machine_of_a_cluster(
    sim: PrimeSimulator, prime: PrimeProvider
) -> None:
    await prime.create(Order("hudtui-test-1", await offer_of(prime, 2)))
    await asyncio.to_thread(sim.clock.advance, 600)
    pod = await prime.find("hudtui-test-1")
    assert pod is not None
    for node in (0, 1):
        argv = await pod_ssh_command(
            pod, {}.get, ("sh", "-c", "echo $HOSTNAME"), tty=False, node=node
        )
        done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True)
        assert done.stdout == f"hudtui-test-1-{node}\n", done.stderr
    with pytest.raises(InputError, match="has 2 machines, and none has the number 2"):
        await pod_ssh_command(pod, {}.get, node=2)


async def test_a_cluster_with_fewer_gpus_on_one_of_its_machines_is_ended(
    sim: PrimeSimulator, prime: PrimeProvider, tmp_path: Path
) -> None:
    async def sleep(seconds: float) -> None:
        await asyncio.to_thread(sim.clock.advance, seconds)

    async def login(pod: Pod, node: int) -> Host:
        driver = sim.homes(pod.id)[1].parent / "bin" / "nvidia-smi"
        driver.write_text(driver.read_text().replace("count=8", "count=7"))
        return await pod_login({}.get)(pod, node)

    ledger = Ledger(tmp_path / "pods.db")
    order = Order("hudtui-test-1", await offer_of(prime, 2))
    steps = acquire(order, prime, ledger, login=login, sleep=sleep, clock=lambda: 0.0)
    with pytest.raises(ProvisionFailed) as caught:
        async with aclosing(steps):
            async for _ in steps:
                pass
    told = " ".join(caught.value.lines())
    assert "chosen: 16 x H100_80GB on 2 machines" in told and "given: 7 x H100_80GB" in told
    assert "on machine 1 of 2, by its driver" in told and "was ended, and that was verified" in told
    assert len(sim.pods) == 1 and not sim.alive and ledger.records() == ()


@pytest.mark.parametrize(
    ("ordered", "told", "words"),
    [
        (2, (0, 1, 0), "given: 3 machines"),
        (2, (0,), "given: 1 machine with a login, 5 min after Prime (simulated) called it ready"),
        (2, (1, 1), "given: 1 machine with a login, 5 min after"),
        (1, (0, 1), "given: 8 x H100_80GB (simulated) with 80 GiB on machine 0 of 2"),
    ],
)
async def test_a_cluster_with_another_number_of_machines_is_ended(
    ordered: int,
    told: tuple[int, ...],
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
        more = {"sshConnection": [ways[node] for node in told]} if ways else {}
        return found | more

    monkeypatch.setattr(SimPod, "connection", other)
    offer = replace(await offer_of(prime, 2), nodes=ordered)
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


async def test_a_cluster_of_fewer_machines_costs_minutes_and_is_told_of_in_its_run(
    sim: PrimeSimulator, prime: PrimeProvider, store: RunStore, record: RunRecord
) -> None:
    async def sleep(seconds: float) -> None:
        await asyncio.to_thread(sim.clock.advance, seconds)

    sim.scenario("large-nodes")
    broker = RentalContext(prime, {}.get, sleep=sleep, clock=sim.clock.now)
    with pytest.raises(ProvisionFailed) as caught:
        await managed(record, store, broker)
    summary, events = store.summary(record.id), store.events(record.id)
    assert (summary.state, summary.machine) == ("failed", "released")
    texts = [event.data.get("text") or "" for event in events]
    assert any("1 of 2 machines have an address; it is ended if" in text for text in texts)
    assert "chosen: 16 x H100_80GB on 2 machines" in (summary.why or "")
    assert "given: 1 machine with a login, 5 min after" in (summary.why or "")
    (pod,) = sim.pods.values()
    cost = pod.cost(sim.clock.now())
    assert not sim.alive and cost < 6.5 / 60 * pod.hourly
    assert f"was ended, and that was verified. It has cost ${cost:.2f}." in str(caught.value.fix)
    assert summary.billed is not None and abs(summary.billed - cost) < 0.01


@pytest.fixture
def short(sim: PrimeSimulator, store: RunStore) -> RunRecord:
    """A run of two nodes that ends by itself; it is not in the store yet."""
    return clusters.planned()(store, sim)


async def test_a_cluster_of_skypilot_is_one_run_and_is_taken_down_as_one(
    sim: PrimeSimulator, prime: PrimeProvider, store: RunStore, stub: SkyStub, short: RunRecord
) -> None:
    """The stand-in's machines are those of the simulator, under the names that SkyPilot gives."""
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        await asyncio.sleep(min(seconds, 0.05))
        await asyncio.to_thread(sim.clock.advance, seconds)
        launched = stub.state.get("launches", {})
        if launched and not stub.state.get("clusters") and not stub.state.get("ended"):
            (name,) = launched
            if not sim.pods:
                await prime.create(Order("the-machines", await offer_of(prime, 2)))
                return
            (pod,) = sim.pods.values()
            if len(pod.ports) == 2:
                for node, port in enumerate(pod.ports):
                    with (Path.home() / ".ssh" / "config").open("a") as config:
                        config.write(
                            f"Host {name}{f'-worker{node}' if node else ''}\n  HostName 127.0.0.1\n"
                            f"  User root\n  Port {port}\n  IdentityFile ~/.ssh/id_ed25519\n"
                        )
                row = {"status": "UP", "nodes": 2, "accelerators": "{'H100': 8}"}
                stub.tell(clusters={name: row})

    sky = SkyPilotProvider((sys.executable, str(STUB)), clock=lambda: now)
    (offer,) = (await sky.offers()).found
    assert short.spec.rent is not None
    rent = replace(short.spec.rent, provider="sky", offer=offer.times(2), simulated=False)
    record = replace(short, spec=replace(short.spec, rent=rent))
    store.add(record)
    broker = RentalContext(sky, {}.get, sleep=sleep, every=0.05, within=5.0, clock=lambda: now)
    async with aclosing(run_remote(record.id, store, broker)) as events:
        async for _ in events:
            pass
    summary = store.summary(record.id)
    assert (summary.state, summary.machine) == ("finished", "released"), summary.why
    (task,) = stub.state["tasks"]
    assert (task["num_nodes"], task["resources"]["accelerators"]) == (2, "H100:8")
    assert (stub.asked("launch"), stub.asked("down"), stub.state["clusters"]) == (1, 1, {})
    other = store.folder / f"{record.id}.node-1"
    assert "ended node 1" in (other / "logs" / "train-1.log").read_text()


@pytest.mark.parametrize("seed", [4, 9])
def test_an_injection_leaves_no_cluster_and_no_false_word(seed: int) -> None:
    """Two of `tests/faults/clusters.py`, where the whole table is made."""
    found = clusters.injected(seed)
    assert not found.broken, found
    assert found.state == "finished"


def test_the_machine_of_node_1_goes_out() -> None:
    found = clusters.lost(random.Random(0), 1)
    assert not found.broken, found
