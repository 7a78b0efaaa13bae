"""SkyPilot by a program that answers in its forms and checks what it is told; see
`tests/support/sky_stub.py`."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.driver import WithDriver

from hudtui.core.compute.choose import choose
from hudtui.core.compute.costs import charge_text, sum_costs
from hudtui.core.compute.gpus import parse_spec
from hudtui.core.compute.lifecycle import (
    ProvisionFailed,
    ProvisionStep,
    TerminationUnverified,
    acquire,
    terminate_pod,
)
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.provider import (
    AuthError,
    OutcomeUnknown,
    OutOfCapacity,
    Provider,
    ProviderError,
)
from hudtui.core.compute.reconcile import reconcile
from hudtui.core.compute.registry import (
    find_providers,
    open_provider,
    pod_target,
    unavailable_providers,
)
from hudtui.core.compute.skypilot import (
    INSTALL,
    PROGRAM,
    SkyPilotProvider,
    enabled_clouds,
    find_sky,
    parse_offers,
    parse_past,
    parse_pod,
    read_json,
)
from hudtui.core.compute.values import Offer, Order, Pod, Query
from hudtui.core.errors import InputError
from hudtui.core.platform import HUD
from hudtui.core.remote.host import Host
from hudtui.core.remote.local import LocalHost
from hudtui.core.settings import known_settings

STUB = Path(__file__).parents[2] / "support" / "sky_stub.py"
H100 = {
    "cloud": "Lambda",
    "instance_type": "gpu_1x_h100_pcie",
    "accelerator_name": "H100",
    "accelerator_count": 1.0,
    "cpu_count": 26,
    "device_memory": 80.0,
    "memory": 200,
    "price": 2.49,
    "spot_price": None,
    "region": "us-west-3",
}
L4 = {
    **H100,
    "cloud": "RunPod",
    "instance_type": "1x_L4_SECURE",
    "accelerator_name": "L4",
    "device_memory": 24.0,
    "price": 0.43,
    "spot_price": 0.21,
    "region": "US",
}

ONE, TWO = (f"hudtui-t{os.getpid()}-{number}" for number in (1, 2))
"""Names that no other process of tests has: SkyPilot's provider looks for programs that launch a
cluster."""


class Stub:
    """The program, and what it remembers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 0.0
        self.program = (sys.executable, str(STUB))
        self.began = int(time.time()) - 1800
        self.tell(
            began=self.began, clouds=["Lambda", "RunPod"], offers={"lambda": [H100], "runpod": [L4]}
        )

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}
        return found

    def tell(self, **facts: Any) -> None:
        self.path.write_text(json.dumps({**self.state, **facts}))

    def asked(self, *words: str) -> int:
        return sum(call[: len(words)] == list(words) for call in self.state["calls"])

    def sky(self) -> SkyPilotProvider:
        return SkyPilotProvider(self.program, clock=lambda: self.now)


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stub:
    monkeypatch.setenv("STUB_SKY", str(tmp_path / "sky.json"))
    return Stub(tmp_path / "sky.json")


@pytest.fixture
def sky(stub: Stub) -> SkyPilotProvider:
    return stub.sky()


async def an_order(
    sky: SkyPilotProvider, name: str = ONE, spec: str = "H100", **more: Any
) -> Order:
    found = (await sky.offers()).found
    return Order(name, choose(found, query=Query(), spec=parse_spec(spec)).offer, **more)


def way_in(name: str, port: int = 2222) -> None:
    """What SkyPilot writes into the user's SSH config."""
    folder = Path.home() / ".ssh"
    folder.mkdir(exist_ok=True)
    (folder / "config").write_text(
        f"Host {name}\n  HostName 127.0.0.1\n  User sky\n  Port {port}\n  IdentityFile ~/.sky/key\n"
    )


# --- who is asked ---


def test_it_is_found_on_the_path_or_named() -> None:
    assert find_sky({}.get, which=lambda name: None) is None
    assert find_sky({}.get, which=lambda name: f"/bin/{name}") == ("/bin/sky",)
    words = find_sky(
        {"HUDTUI_SKY": "uvx --from 'skypilot[aws,gcp]' sky"}.get, which=lambda name: None
    )
    assert words == ("uvx", "--from", "skypilot[aws,gcp]", "sky")
    assert PROGRAM in {key.name for key in known_settings(HUD)}, "a setting that is listed"
    with pytest.raises(InputError, match="not a command"):
        find_sky({"HUDTUI_SKY": "uvx '"}.get)


def test_absent_it_is_one_line_that_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "sky" not in find_providers({}.get, named=("sky",))
    told = unavailable_providers({}.get)["sky"]
    assert told == INSTALL and "\n" not in told and "uv tool install" in told
    with pytest.raises(ProviderError) as caught:
        open_provider("sky", {}.get)
    assert caught.value.what == "SkyPilot is not here" and "uv tool install" in str(
        caught.value.fix
    )
    assert not isinstance(caught.value, AuthError)


def test_it_is_asked_where_that_is_wanted_and_not_just_because_it_is_there(stub: Stub) -> None:
    said = shlex.join(stub.program)
    settings = {"HUDTUI_SKY": said}
    found = find_providers(settings.get)["sky"]
    assert (
        isinstance(found, Provider)
        and found.features.paid
        and not found.features.simulated
        and found.features.brings_ssh_key
    )
    assert open_provider("sky", settings.get, providers={}).name == "sky"
    folder = stub.path.parent / "bin"
    folder.mkdir()
    (folder / "sky").write_text(f'#!/bin/sh\nexec {said} "$@"\n')
    (folder / "sky").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(folder))
        assert "sky" not in find_providers({}.get), "each question starts its server"
        assert "sky" in find_providers({}.get, named=("sky",))
        assert "sky" not in unavailable_providers({}.get)
        ledger = Ledger()
        ledger.reserve(
            Order(
                "hudtui-kept", Offer("sky", "x", "H100", 1, parse_offers({"H100": [H100]})[0].price)
            ),
            provider="sky",
        )
        ledger.update("hudtui-kept", "created", pod="hudtui-kept")
        assert "sky" in find_providers({}.get), (
            "a machine that may be alive there is never forgotten"
        )


# --- offers ---


async def test_offers_of_the_clouds_that_it_may_use(stub: Stub, sky: SkyPilotProvider) -> None:
    found = await sky.offers()
    assert not found.warnings and {
        (one.gpu_type, one.gpu_count, one.spot, one.price.hourly) for one in found.found
    } == {
        ("H100", 1, False, 2.49),
        ("L4", 1, False, 0.43),
        ("L4", 1, True, 0.21),
    }
    one = found.found[0]
    assert (one.cloud, one.region, one.gpu_memory, one.vcpus, one.memory_gb) == (
        "lambda",
        "us-west-3",
        80.0,
        26,
        200.0,
    )
    stub.now += 600
    assert await sky.offers() == found
    assert stub.asked("check") == 1 and stub.asked("gpus") == 2, (
        "prices are a catalogue's: asking again would cost and tell nothing"
    )


async def test_a_cloud_that_fails_is_named_beside_the_others(
    stub: Stub, sky: SkyPilotProvider
) -> None:
    stub.tell(
        clouds=["Lambda"], fail={"gpus list": ["Failed to fetch the catalog lambda/vms.csv", 1]}
    )
    found = await sky.offers()
    assert found.found == () and found.warnings == (
        "lambda: Failed to fetch the catalog lambda/vms.csv",
    )
    assert len((await sky.offers()).found) == 1, "what failed is asked again"


async def test_without_a_cloud_it_says_so(stub: Stub, sky: SkyPilotProvider) -> None:
    stub.tell(clouds=[])
    assert "sky check" in (await sky.offers()).warnings[0]


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"default": None},
        {"default": {"AWS": ["storage"], "PrimeIntellect": ["compute"]}},
    ],
)
def test_clouds_that_cannot_be_used(data: Any) -> None:
    assert enabled_clouds(data) == ()


@pytest.mark.parametrize(
    "row",
    [
        {},
        {**H100, "accelerator_count": 0.5},
        {**H100, "price": None},
        {**H100, "cloud": 7},
        3,
        None,
    ],
)
def test_rows_that_are_no_offers_are_left_out(row: Any) -> None:
    assert parse_offers({"X": [row, H100]}) == parse_offers({"X": [H100]})


def test_machines_of_ones_own_have_no_stated_price() -> None:
    (one,) = parse_offers(
        {
            "H100": [
                {
                    **H100,
                    "cloud": "Kubernetes",
                    "price": 0.0,
                    "spot_price": float("nan"),
                    "instance_type": None,
                }
            ]
        }
    )
    assert not one.price.stated and not one.spot


# --- the task ---


async def test_the_task_takes_what_was_chosen_and_goes_down_by_itself(
    stub: Stub, sky: SkyPilotProvider
) -> None:
    order = await an_order(sky, disk_gb=200.4, max_hours=3, image="skypilot:gpu-ubuntu-2204")
    pod = await sky.create(order)
    assert (pod.id, pod.stage, pod.hourly) == (ONE, "booting", 2.49)
    assert stub.state["tasks"] == [
        {
            "name": ONE,
            "resources": {
                "infra": "lambda/us-west-3",
                "accelerators": "H100:1",
                "use_spot": False,
                "autostop": {"idle_minutes": 10, "down": True},
                "instance_type": "gpu_1x_h100_pcie",
                "disk_size": 200,
                "image_id": "skypilot:gpu-ubuntu-2204",
            },
            "num_nodes": 1,
            "run": "sleep 10800\n",
        }
    ]


async def test_a_cluster_is_one_task_with_the_gpus_of_each_node(
    stub: Stub, sky: SkyPilotProvider
) -> None:
    order = await an_order(sky)
    pod = await sky.create(replace(order, offer=order.offer.times(3)))
    assert (pod.gpu_count, pod.hourly) == (3, 7.47)
    (task,) = stub.state["tasks"]
    assert (task["num_nodes"], task["resources"]["accelerators"]) == (3, "H100:1")
    stub.tell(clusters={ONE: {"status": "UP", "nodes": 3}})
    stub.now += 60
    way_in(ONE)
    found = await sky.get(ONE)
    assert found is not None and (found.gpu_count, len(found.addresses)) == (3, 1)
    with (Path.home() / ".ssh" / "config").open("a") as config:
        for node in (1, 2):
            config.write(f"Host {ONE}-worker{node}\n  HostName 10.0.0.{node}\n  User sky\n")
    stub.now += 60
    found = await sky.get(ONE)
    assert found is not None
    assert [address.host for address in found.addresses] == ["127.0.0.1", "10.0.0.1", "10.0.0.2"]
    target = pod_target(found, {}.get, 2)
    assert target is not None and (target.host, target.pin) == ("10.0.0.2", f"{ONE}-worker2")


async def test_spot_is_asked_for_where_it_was_chosen(stub: Stub, sky: SkyPilotProvider) -> None:
    await sky.create(await an_order(sky, spec="L4"))
    assert stub.state["tasks"][0]["resources"]["use_spot"] is True


async def test_a_task_that_is_refused_creates_nothing(stub: Stub, sky: SkyPilotProvider) -> None:
    order = await an_order(sky)
    stub.tell(
        fail={
            "launch": [
                "sky.exceptions.ResourcesUnavailableError: No launchable resource found for task",
                1,
            ]
        }
    )
    with pytest.raises(OutOfCapacity, match="No launchable"):
        await sky.create(order)
    bad = Order(ONE, Offer("sky", "x", "H 100", 1, order.offer.price, raw={"cloud": "Lambda"}))
    with pytest.raises(ProviderError, match="Invalid task YAML"):
        await sky.create(bad)
    assert "launches" not in stub.state


async def test_the_task_waits_for_as_long_as_the_limits_leave(
    stub: Stub, sky: SkyPilotProvider
) -> None:
    for at, (hours, seconds) in enumerate([(None, 86400), (0.5, 1800), (0.0, 0)]):
        await sky.create(await an_order(sky, f"hudtui-t{at}", max_hours=hours))
        assert stub.state["tasks"][-1]["run"] == f"sleep {seconds}\n"


@pytest.mark.parametrize("afterwards", ["the server has it", "the server is not there"])
async def test_a_launch_that_failed_here_and_may_go_on_there_is_unclear(
    stub: Stub, sky: SkyPilotProvider, afterwards: str
) -> None:
    order = await an_order(sky)
    fail = {"launch": ["requests.exceptions.ConnectionError: Connection aborted", 1]}
    if afterwards == "the server has it":
        stub.tell(fail=fail, launches={ONE: "RUNNING"})
    else:
        stub.tell(fail={**fail, "api status": ["Could not connect to SkyPilot API server", 1]})
    with pytest.raises(OutcomeUnknown, match=f"could not be confirmed whether {ONE}") as caught:
        await sky.create(order)
    assert "Connection aborted" in str(caught.value.why)


async def test_a_program_that_does_not_end_leaves_it_unclear(stub: Stub) -> None:
    order = await an_order(stub.sky())
    gone = SkyPilotProvider((str(stub.path.parent / "no-such-program"),))
    with pytest.raises(OutcomeUnknown, match=f"could not be confirmed whether {ONE}"):
        await gone.create(order)
    with pytest.raises(ProviderError) as caught:
        await gone.pods()
    assert "uv tool install" in str(caught.value.fix)


# --- a machine's life ---


async def rent(
    stub: Stub, sky: SkyPilotProvider, ledger: Ledger, host: Host | None = None, **ordered: Any
) -> list[ProvisionStep]:
    order = await an_order(sky)
    order = replace(order, offer=replace(order.offer, **ordered))

    async def sleep(seconds: float) -> None:
        stub.now += seconds
        clusters = stub.state.get("clusters", {})
        if stub.now > 10 and ONE not in clusters:
            stub.tell(clusters={ONE: {"status": "INIT", "after": "UP"}})
            way_in(ONE)

    async def login(pod: Pod, node: int = 0) -> Host:
        assert pod_target(pod, {}.get) is not None
        return host or LocalHost()

    steps = acquire(order, sky, ledger, login=login, sleep=sleep, clock=lambda: stub.now)
    return [step async for step in steps]


@pytest.mark.parametrize(
    ("ordered", "gpus"),
    [
        ({}, ["NVIDIA H200, 143771"]),
        ({}, ["NVIDIA H100 80GB HBM3, 81559"] * 2),
        ({"gpu_count": 8}, ["H100"]),
    ],
)
async def test_another_gpu_than_the_chosen_one_is_taken_down(
    stub: Stub, sky: SkyPilotProvider, tmp_path: Path, ordered: dict[str, Any], gpus: list[str]
) -> None:
    ledger = Ledger(tmp_path / "pods.db")
    with pytest.raises(ProvisionFailed, match="not the machine that was chosen") as caught:
        await rent(stub, sky, ledger, WithDriver(*gpus), **ordered)
    assert f"given: {len(gpus)} x {gpus[0].partition(',')[0]}" in str(caught.value.why)
    assert stub.asked("down") == 1 and ledger.records() == ()


async def test_the_chosen_gpu_in_the_words_of_its_driver_is_kept(
    stub: Stub, sky: SkyPilotProvider, tmp_path: Path
) -> None:
    steps = await rent(
        stub, sky, Ledger(tmp_path / "pods.db"), WithDriver("NVIDIA H100 80GB HBM3, 81101")
    )
    assert steps[-1].kind == "ready" and stub.asked("down") == 0


async def test_from_the_order_to_the_bill(
    stub: Stub, sky: SkyPilotProvider, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "pods.db")
    steps = await rent(stub, sky, ledger)
    assert list(dict.fromkeys(step.kind for step in steps)) == [
        "intended",
        "created",
        "waiting",
        "trying",
        "ready",
    ]
    assert [step.text.rpartition(" ")[2] for step in steps if step.kind == "waiting"] == [
        "SUBMITTED",
        "RUNNING",
        "INIT",
    ]
    pod = steps[-1].pod
    assert pod is not None and str(pod.addresses[0]) == "sky@127.0.0.1:2222"
    target = pod_target(pod, {}.get)
    assert target is not None and target.pin == ONE and [key.name for key in target.keys] == ["key"]
    assert stub.asked("launch") == 1
    found = await reconcile([sky], ledger)
    assert [one.name for one in found.by_hand] == [ONE] and not found.orphans and not found.unclear
    stub.now += 120  # costs are not asked for more often
    account = await sky.account()
    assert account.spent == {ONE: 1.245} and account.balance is None and account.estimated
    (cost,) = sum_costs(ledger, time.time(), here=[sky], accounts={"sky": account}).pods
    assert (cost.spent, cost.billed, cost.text) == (1.245, False, "about $1.25")

    async def sleep(seconds: float) -> None:
        stub.now += seconds

    gone = await terminate_pod(ONE, sky, ledger, why="over", sleep=sleep)
    assert (gone.stage, gone.billed, gone.terminated) == ("gone", 1.245, stub.began + 1800)
    assert gone.estimated and gone.bill is None and charge_text(gone) == "about $1.25 (estimated)"
    (entry,) = ledger.records(alive=False)
    assert entry.state == "ended" and entry.billed is None, (
        "an estimate is no bill, also when SkyPilot is not there any more"
    )
    (over,) = sum_costs(ledger, time.time()).pods
    assert not over.billed and over.text.startswith("about ")
    assert stub.asked("down") == 1 and ledger.records() == ()
    assert [pod.name for pod in await sky.history()] == [ONE]


async def test_questions_are_not_asked_more_often_than_they_are_worth(
    stub: Stub, sky: SkyPilotProvider, tmp_path: Path
) -> None:
    await rent(stub, sky, Ledger(tmp_path / "pods.db"))
    asked, seconds = stub.asked("status"), stub.now
    assert 2 <= asked <= seconds / 12 + 1


async def test_a_launch_that_fails_says_why_and_leaves_nothing(
    stub: Stub, sky: SkyPilotProvider, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "pods.db")
    order = await an_order(sky)

    async def sleep(seconds: float) -> None:
        stub.now += seconds
        stub.tell(launches={ONE: "FAILED"})

    async def login(pod: Pod, node: int = 0) -> Host:
        raise AssertionError("there is nothing to log in to")

    steps = acquire(order, sky, ledger, login=login, sleep=sleep, clock=lambda: stub.now)
    with pytest.raises(ProvisionFailed, match="no capacity in us-west-3"):
        async for _ in steps:
            pass
    assert ledger.records() == ()


async def test_a_cancelled_order_takes_its_launch_back(
    stub: Stub, sky: SkyPilotProvider, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "pods.db")
    order = await an_order(sky)

    async def sleep(seconds: float) -> None:
        stub.now += seconds

    async def login(pod: Pod, node: int = 0) -> Host:
        raise AssertionError

    steps = acquire(order, sky, ledger, login=login, sleep=sleep, clock=lambda: stub.now)
    async for step in steps:
        if step.kind == "created":
            break
    await steps.aclose()
    assert stub.asked("api", "cancel") == 1 and stub.state["launches"] == {ONE: "CANCELLED"}
    assert ledger.records() == () and stub.state.get("clusters", {}) == {}


@pytest.mark.parametrize(
    "where", ["in the server's queue", "in a program that a killed hudtui has left"]
)
async def test_a_launch_that_is_still_under_way_is_never_taken_for_none(
    stub: Stub, sky: SkyPilotProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    ledger, name = (
        Ledger(tmp_path / "pods.db"),
        f"hudtui-{os.getpid()}",
    )  # other tests see the program, too
    ledger.reserve(await an_order(sky, name), provider="sky")
    monkeypatch.setattr("hudtui.core.compute.pods.is_running", lambda mark: False)
    idle = "import time; time.sleep(60)"
    launch = ("launch", "--yes", "--async", "--detach-run", "--cluster", name, "task.yaml")
    left = None
    if where == "in the server's queue":
        stub.tell(launches={name: "PENDING"})
    else:
        left = await asyncio.create_subprocess_exec(sys.executable, "-c", idle, *launch)

    async def sleep(seconds: float) -> None:
        stub.now += seconds

    try:
        found = await reconcile([sky], ledger, now=lambda: time.time() + 3600)
        assert [(one.pod.id, one.pod.stage) for one in found.orphans] == [
            (name, "booting")
        ] and not found.unclear
        (entry,) = ledger.records()
        assert (entry.state, entry.pod) == ("created", name), (
            "it is kept, and looked for at every start"
        )
        if left is not None:
            with pytest.raises(TerminationUnverified, match="could not be ended"):
                await terminate_pod(name, sky, ledger, why="over", sleep=sleep)
    finally:
        if left is not None:
            left.kill()
            await left.wait()
            stub.tell(launches={name: "RUNNING"})  # what it has handed over
    assert (await terminate_pod(name, sky, ledger, why="over", sleep=sleep)).stage == "gone"
    assert stub.state["launches"] == {name: "CANCELLED"} and ledger.records() == ()


async def test_a_launch_that_came_to_nothing_after_its_hudtui_was_killed_is_told(
    stub: Stub, sky: SkyPilotProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path / "pods.db")
    for name in (ONE, TWO):
        ledger.reserve(await an_order(sky, name), provider="sky")
    monkeypatch.setattr("hudtui.core.compute.pods.is_running", lambda mark: False)
    stub.tell(launches={ONE: "FAILED"}, old_server=True)
    found = await reconcile([sky], ledger, now=lambda: time.time() + 3600)
    assert found.orphans == found.unclear == () and [one.name for one in found.lost] == [ONE]
    states = {entry.name: (entry.state, entry.why) for entry in ledger.records(alive=False)}
    assert states[ONE][0] == "ended" and "no capacity in us-west-3" in str(states[ONE][1])
    assert states[TWO] == ("never", "it was never seen"), (
        "an older server tells of the other launch, too"
    )


async def test_what_cannot_be_taken_down_is_said(stub: Stub, sky: SkyPilotProvider) -> None:
    stub.tell(clusters={"c": {}}, fail={"down": ["PermissionError: credentials expired", 1]})
    with pytest.raises(ProviderError, match="credentials expired"):
        await sky.terminate("c")
    await sky.terminate("c")
    await sky.terminate("c")  # harmless when it is gone
    assert await sky.get("c") is None


@pytest.mark.parametrize(
    "facts, stage",
    [
        ({"status": "INIT"}, "booting"),
        (
            {"status": "INIT", "init_kind": "unhealthy", "init_status_reason": "node terminated"},
            "failed",
        ),
        ({"status": "UP"}, "ready"),
        ({"status": "STOPPED"}, "stopped"),
        ({"status": "AUTOSTOPPING"}, "unknown"),
        ({"status": "SOMETHING_NEW"}, "unknown"),
        ({"status": None, "accelerators": 7, "launched_at": "x"}, "unknown"),
    ],
)
def test_states_of_clusters(facts: dict[str, Any], stage: str) -> None:
    pod = parse_pod({"name": "c", **facts}, None)
    assert pod.stage == stage and pod.alive
    assert (pod.failure == "node terminated") == (stage == "failed")


def test_the_past_is_what_has_ended() -> None:
    assert (
        parse_past({"name": "c", "status": "UP"}) is None
        and parse_past({"status": "TERMINATED"}) is None
    )
    past = parse_past(
        {
            "name": "c",
            "status": "TERMINATED",
            "usage_intervals": [[1, 5], [6, None], "x"],
            "total_cost": "much",
        }
    )
    assert past is not None and past.terminated == 5 and past.billed is None


@pytest.mark.parametrize("text", ["", "Traceback", "[1, 2", "starting\n{broken"])
def test_answers_that_are_none(text: str) -> None:
    with pytest.raises(ProviderError, match="cannot be understood"):
        read_json(text, "answer")


def test_an_answer_after_talk() -> None:
    assert read_json('The flag is ignored.\n[a] note\n[{"x": NaN}]\n', "answer")[0].keys() == {"x"}


async def test_there_is_nothing_to_register(sky: SkyPilotProvider) -> None:
    assert await sky.keys() == ()
    with pytest.raises(ProviderError, match="of its own"):
        await sky.register_key("a", "ssh-ed25519 AAAA")


async def test_a_run_there_needs_no_key_of_the_users(sky: SkyPilotProvider, tmp_path: Path) -> None:
    from hudtui.core.platform import HUD
    from hudtui.core.runs.site import _ssh_key
    from hudtui.core.settings import load_settings

    assert await _ssh_key(sky, load_settings(tmp_path, HUD)) == (None, ())
