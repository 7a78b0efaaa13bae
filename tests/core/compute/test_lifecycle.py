"""Getting a machine from the simulator, with real logins; and ending it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from hudtui.core.compute.lifecycle import (
    PodGone,
    ProvisionFailed,
    ProvisionStep,
    TerminationUnverified,
    acquire,
    resume,
    terminate_pod,
    unique_name,
)
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.provider import (
    AuthError,
    InsufficientFunds,
    OutcomeUnknown,
    OutOfCapacity,
    ProviderError,
)
from hudtui.core.compute.reconcile import reconcile
from hudtui.core.compute.values import Order, Pod
from hudtui.core.errors import HudtuiError, InputError, MachineError

NAME = "hudtui-test-1"


def _acquire(world: Any, order: Order, **more: Any) -> AsyncGenerator[ProvisionStep, None]:
    settings = {"login": world.login, "sleep": world.sleep, "clock": world.clock} | more
    return acquire(order, world.prime, world.ledger, **settings)


def _resume(world: Any, owned: Any, **more: Any) -> AsyncGenerator[ProvisionStep, None]:
    return resume(
        owned,
        world.prime,
        world.ledger,
        login=world.login,
        sleep=world.sleep,
        clock=world.clock,
        **more,
    )


async def _steps(steps: AsyncGenerator[ProvisionStep, None]) -> list[ProvisionStep]:
    return [step async for step in steps]


def _kinds(steps: list[ProvisionStep]) -> list[str]:
    return list(dict.fromkeys(step.kind for step in steps))


def _nothing_is_left(world: Any) -> None:
    assert world.sim.alive == (), "a machine is alive"
    assert world.ledger.records() == (), "the ledger thinks that one is"


async def test_from_order_to_login_to_end(world: Any) -> None:
    steps = await _steps(_acquire(world, await world.order(), run="r1", workspace="/w"))
    assert _kinds(steps) == ["intended", "created", "waiting", "installing", "trying", "ready"]
    last = steps[-1]
    assert last.pod is not None and last.host is not None and last.pod.addresses[0].user == "root"
    done = await last.host.run(["sh", "-c", "echo here"])
    assert done.stdout == "here\n"
    entry = world.ledger.get(NAME)
    assert (entry.state, entry.pod, entry.run, entry.hourly, entry.holder) == (
        "ready",
        last.pod.id,
        "r1",
        2.1,
        None,
    )
    ended = await terminate_pod(NAME, world.prime, world.ledger, why="done", sleep=world.sleep)
    assert ended.stage == "gone" and ended.billed is not None and ended.billed > 0
    entry = world.ledger.get(NAME)
    assert (entry.state, entry.billed, entry.why) == ("ended", ended.billed, "done")
    _nothing_is_left(world)


async def test_nothing_is_asked_for_that_is_not_written_down(world: Any, tmp_path: Any) -> None:
    order = await world.order()
    (tmp_path / "file").write_text("")
    world.ledger = Ledger(tmp_path / "file" / "pods.db")
    with pytest.raises(MachineError, match="cannot be used"):
        await _steps(_acquire(world, order))
    assert world.asked("POST") == 0


async def test_a_name_is_used_once(world: Any) -> None:
    order = await world.order()
    await _steps(_acquire(world, order))
    with pytest.raises(InputError, match="already used"):
        await _steps(_acquire(world, order))
    assert world.asked("POST") == 1


@pytest.mark.parametrize("kind", ["reset_after", "malformed"])
async def test_a_machine_whose_creation_was_not_answered_is_adopted(world: Any, kind: str) -> None:
    order = await world.order()
    world.sim.fail_next("POST", "/api/v1/pods/", kind)
    steps = await _steps(_acquire(world, order))
    assert "adopted" in _kinds(steps) and steps[-1].kind == "ready"
    assert world.asked("POST") == 1 and len(world.sim.pods) == 1


async def test_it_is_looked_for_again_while_the_list_fails(world: Any) -> None:
    order = await world.order()
    world.sim.fail_next("POST", "/api/v1/pods/", "reset_after")
    world.sim.fail_next("GET", "/api/v1/pods/", "html503", times=6)
    steps = await _steps(_acquire(world, order))
    assert steps[-1].kind == "ready" and len(world.sim.pods) == 1


@pytest.mark.parametrize("kind", ["reset_before", "html503", "timeout"])
async def test_an_order_that_was_lost_is_told_and_not_repeated(world: Any, kind: str) -> None:
    order = await world.order()
    world.sim.fail_next("POST", "/api/v1/pods/", kind, seconds=0.1)
    with pytest.raises(OutcomeUnknown, match="could not be confirmed") as caught:
        await _steps(_acquire(world, order))
    assert "not asked for again" in str(caught.value)
    assert world.asked("POST") == 1 and world.sim.pods == {}
    assert world.ledger.get(NAME).state == "intended", "the next start looks for it"


@pytest.mark.parametrize(
    ("scenario", "kind"),
    [
        ("offer-gone", OutOfCapacity),
        ("wallet-empty", InsufficientFunds),
        ("unprocessable", ProviderError),
    ],
)
async def test_what_is_refused_leaves_nothing(
    world: Any, scenario: str, kind: type[Exception]
) -> None:
    order = await world.order()
    world.sim.scenario(scenario)
    with pytest.raises(kind):
        await _steps(_acquire(world, order))
    entry = world.ledger.get(NAME)
    assert entry.state == "never" and entry.why
    _nothing_is_left(world)


@pytest.mark.parametrize("scenario", ["error-pod", "install-error", "stuck-install", "stopped-pod"])
async def test_what_never_becomes_ready_is_ended(world: Any, scenario: str) -> None:
    order = await world.order()
    world.sim.scenario(scenario)
    with pytest.raises(ProvisionFailed) as caught:
        await _steps(_acquire(world, order, patience=90))
    assert f"{NAME} was ended, and that was verified" in str(caught.value)
    entry = world.ledger.get(NAME)
    assert entry.state == "ended" and NAME in entry.why and entry.billed is not None
    _nothing_is_left(world)


async def test_a_slow_machine_is_waited_for(world: Any) -> None:
    order = await world.order()
    world.sim.behave(boot=400.0, install=250.0)
    assert (await _steps(_acquire(world, order)))[-1].kind == "ready"
    assert world.now >= 650


async def test_patience_ends(world: Any) -> None:
    order = await world.order()
    world.sim.scenario("slow-boot")
    with pytest.raises(ProvisionFailed, match="not ready after 3 min"):
        await _steps(_acquire(world, order, timeout=160))
    _nothing_is_left(world)


async def test_a_key_that_is_accepted_late(world: Any) -> None:
    order = await world.order()
    world.sim.scenario("key-late")
    steps = await _steps(_acquire(world, order))
    assert steps[-1].kind == "ready" and any(
        "does not accept the key yet" in step.text for step in steps
    )
    assert {"root", "ubuntu"} <= set(world.logins)


async def test_a_key_that_is_never_accepted(world: Any) -> None:
    order = await world.order()
    world.sim.behave(key_delay=10000.0)
    with pytest.raises(ProvisionFailed, match="rejected every SSH key") as caught:
        await _steps(_acquire(world, order))
    assert "keys list" in str(caught.value) and "was ended" in str(caught.value)
    _nothing_is_left(world)


async def test_another_user_than_the_one_that_is_named(world: Any) -> None:
    order = await world.order()
    world.sim.behave(user="ubuntu", connection="root@{host} -p {port}")
    last = (await _steps(_acquire(world, order)))[-1]
    assert (
        last.pod is not None
        and last.pod.addresses[0].user == "ubuntu"
        and world.logins == ["root", "ubuntu"]
    )


async def test_a_machine_that_is_taken_back_on_the_way(world: Any) -> None:
    order = await world.order(cloud_id="1H100.80S-spot")
    world.sim.behave(reclaimed=30.0)
    with pytest.raises(PodGone, match="taken back"):
        await _steps(_acquire(world, order))
    entry = world.ledger.get(NAME)
    assert entry.state == "ended" and entry.billed is not None
    _nothing_is_left(world)


async def test_passing_faults_while_waiting(world: Any) -> None:
    order = await world.order()
    world.sim.fail_next("GET", "/api/v1/pods/status", "html503", times=10)
    steps = await _steps(_acquire(world, order))
    assert steps[-1].kind == "ready" and any("asking again" in step.text for step in steps)


async def test_a_status_that_leaves_it_out_is_not_its_end(world: Any) -> None:
    order = await world.order()
    world.sim.scenario("status-omits")
    assert (await _steps(_acquire(world, order)))[-1].kind == "ready"


WRONG = [
    ("1A100.22V", {"gpuName": "A10_24GB"}),
    ("1A100.22V", {"gpuName": "A100_40GB"}),
    ("1A100.22V", {"gpuName": "NVIDIA A100-PCIE-40GB"}),
    ("1A100.22V", {"gpuName": "A100", "socket": "PCIe"}),
    ("1A100.22V", {"gpuCount": 2}),
    ("a100-40", {"gpuName": "A100_80GB"}),
    ("1H100.80S", {"gpuName": "H20_96GB"}),
    ("1H100.80S", {"gpuName": "GH200_96GB"}),
    ("1H100.80S", {"gpuName": "CPU_NODE"}),
    ("2H100.80S", {"gpuCount": 1}),
]


@pytest.mark.parametrize(("offer", "said"), WRONG)
@pytest.mark.parametrize("where", ["in the answer to the order", "when it is looked for", "later"])
async def test_another_machine_than_the_one_that_was_chosen_is_ended(
    world: Any, offer: str, said: dict[str, Any], where: str
) -> None:
    order = await world.order(cloud_id=offer)

    def change() -> None:
        for pod in world.sim.pods.values():
            pod.forced.update(said)

    create = world.prime.create

    async def created(order: Order) -> Pod:
        pod = await create(order)
        change()
        if where == "when it is looked for":
            raise OutcomeUnknown("the answer was lost")
        return await world.prime.get(pod.id) or pod

    if where != "later":
        world.prime.create = created
    with pytest.raises(ProvisionFailed, match="not the machine that was chosen") as caught:
        async for step in _acquire(world, order):
            if where == "later" and step.kind == "installing":
                change()
    told = str(caught.value)
    assert "was ended, and that was verified. It has cost $" in told
    assert f"chosen: {order.offer.gpu_count} x {order.offer.gpu_type}" in told
    assert str(next(iter(said.values()))) in told.partition("given:")[2]
    _nothing_is_left(world)
    assert world.ledger.get(NAME).state == "ended" and world.logins == []


@pytest.mark.parametrize(
    ("offer", "driver"),
    [
        ("1A100.22V", ["NVIDIA A10, 23028"]),
        ("1A100.22V", ["NVIDIA A100-SXM4-40GB, 40960"]),
        ("1A100.22V", ["NVIDIA A100 80GB PCIe, 81920"]),
        ("a100-40", ["NVIDIA A100-SXM4-80GB, 81920"]),
        ("1H100.80S", ["NVIDIA H100 NVL, 95830"]),
        ("2H100.80S", ["NVIDIA H100 80GB HBM3, 81559"]),
        ("2H100.80S", ["NVIDIA H100 80GB HBM3, 81559", "NVIDIA A100-SXM4-80GB, 81920"]),
        ("2H100.80S", ["NVIDIA H100 80GB HBM3, 81559"] * 3),
        (
            "1H100.80S",
            ["NVIDIA H100 80GB HBM3, [N/A]", "  MIG 1g.10gb     Device  0: (UUID: MIG-1)"],
        ),
        (
            "1H100.80S",
            ["NVIDIA H100 80GB HBM3, 81559", "  MIG 7g.80gb     Device  0: (UUID: MIG-1)"],
        ),
        (
            "1A100.22V",
            [
                "NVIDIA A100-SXM4-80GB, 81920",
                *(f"  MIG 3g.40gb     Device  {one}: (UUID: MIG-{one})" for one in (0, 1)),
            ],
        ),
        ("1H100.80S", ["GRID H100-40C, 40960"]),
        ("1H100.80S", []),
    ],
)
async def test_a_machine_in_which_other_gpus_are_found_is_ended(
    world: Any, offer: str, driver: list[str]
) -> None:
    order = await world.order(cloud_id=offer)
    with pytest.raises(ProvisionFailed, match="not the machine that was chosen") as caught:
        await _steps(_acquire(world, order, login=_login_with_driver(world, driver)))
    assert "by its driver" in str(
        caught.value
    ) and "was ended, and that was verified. It has cost $" in str(caught.value)
    _nothing_is_left(world)


@pytest.mark.parametrize(
    ("offer", "said", "driver"),
    [
        ("1A100.22V", {"gpuName": "NVIDIA A100-SXM4-80GB"}, ["NVIDIA A100-SXM4-80GB, 81920"]),
        ("1A100.22V", {"gpuName": "A100", "socket": ""}, ["NVIDIA A100-SXM4-80GB, [N/A]"]),
        (
            "1A100.22V",
            {"gpuName": "GA100 [A100 SXM4 80GB]", "socket": "SXM"},
            ["NVIDIA A100-SXM4-80GB, 81100"],
        ),
        ("1A100.22V", {"gpuName": None, "gpuCount": None, "socket": None}, ["A thing, 81920"]),
        ("1H100.80S", {"gpuName": "8x H100 SXM5 80 GB"}, ["NVIDIA H100 80GB HBM3, 81559"]),
        ("a100-pcie-x2", {"gpuName": "a100-80g-pcie"}, ["NVIDIA A100 80GB PCIe, 81920"] * 2),
    ],
)
async def test_the_right_machine_in_other_words_is_kept(
    world: Any, offer: str, said: dict[str, Any], driver: list[str]
) -> None:
    steps = []
    async for step in _acquire(
        world, await world.order(cloud_id=offer), login=_login_with_driver(world, driver)
    ):
        steps.append(step)
        for pod in world.sim.pods.values():
            pod.forced.update(said)
    assert steps[-1].kind == "ready" and len(world.sim.alive) == 1


async def test_going_on_with_another_machine_than_the_one_that_was_chosen_ends_it(
    world: Any,
) -> None:
    order = await world.order(cloud_id="1A100.22V")
    entry = world.ledger.reserve(order, provider="prime", endpoint=world.prime.endpoint, run="r1")
    await world.prime.create(order)
    for pod in world.sim.pods.values():
        pod.forced["gpuName"] = "A100_40GB"
    with pytest.raises(ProvisionFailed, match="not the machine that was chosen"):
        await _steps(_resume(world, entry))
    _nothing_is_left(world)


def _login_with_driver(world: Any, lines: list[str]) -> Any:
    """A login to a machine whose driver says that: name and MiB of each GPU, and the parts of the
    last one."""

    async def login(pod: Pod, node: int = 0) -> Any:
        host = await world.login(pod)
        gpus, parts = (
            [line for line in lines if (" MIG " in line) == part] for part in (False, True)
        )
        told = "".join(f"{number}, {line}, 1, 0, 570.1\n" for number, line in enumerate(gpus))
        listed = "".join(
            f"GPU {number}: {line.partition(',')[0]} (UUID: GPU-1)\n"
            for number, line in enumerate(gpus)
        )
        ends = "exit 6" if not lines else ""
        told, listed = (
            told or "No devices were found\n",
            listed + "".join(f"{part}\n" for part in parts),
        )
        script = (
            f"#!/bin/sh\n[ $1 = -L ] && cat <<'END' && exit\n{listed}END\ncat <<'END'\n"
            f"{told}END\n{ends}\n"
        )
        await host.put(script.encode(), "bin/nvidia-smi", mode=0o700)
        return _OwnPrograms(host)

    return login


class _OwnPrograms:
    """A host on which the programs in `~/bin` come first."""

    def __init__(self, host: Any) -> None:
        self._host = host

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    async def run(self, argv: list[str], **more: Any) -> Any:
        return await self._host.run(
            ["sh", "-c", 'PATH="$HOME/bin:$PATH"; exec "$@"', "sh", *argv], **more
        )


@pytest.mark.parametrize("kind", ["intended", "created", "waiting", "installing", "trying"])
async def test_leaving_at_any_step_leaves_nothing(world: Any, kind: str) -> None:
    told: list[str] = []
    steps = _acquire(world, await world.order(), say=told.append)
    async for step in steps:
        if step.kind == kind:
            break
    await steps.aclose()
    assert len(told) == 1 and (
        "was not requested" in told[0] if kind == "intended" else "was ended" in told[0]
    )
    assert world.ledger.get(NAME).state == ("never" if kind == "intended" else "ended")
    _nothing_is_left(world)


async def test_leaving_after_ready_keeps_the_machine(world: Any) -> None:
    steps = _acquire(world, await world.order())
    async for step in steps:
        if step.kind == "ready":
            break
    await steps.aclose()
    assert len(world.sim.alive) == 1 and world.ledger.get(NAME).state == "ready"


@pytest.mark.parametrize("kind", ["slow", "reset_after"])
async def test_cancelled_in_the_middle_of_the_order(world: Any, kind: str) -> None:
    order = await world.order()
    world.sim.fail_next("POST", "/api/v1/pods/", kind, seconds=0.3)
    told: list[str] = []
    task = asyncio.create_task(_steps(_acquire(world, order, say=told.append)))
    while not world.asked("POST"):  # noqa: ASYNC110 - it arrives in another thread
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(world.sim.pods) == 1 and "was ended" in told[0]
    _nothing_is_left(world)


@pytest.mark.parametrize("leaves", [False, True])
async def test_cancelled_when_it_is_ready_it_stays_and_that_is_said(
    world: Any, leaves: bool
) -> None:
    order = await world.order()
    told: list[str] = []

    async def get() -> None:
        async with aclosing(_acquire(world, order, say=told.append)) as steps:
            async for step in steps:
                if step.kind == "ready":
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()
                    if leaves:
                        break

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(get())
    assert told == [
        f"{NAME} is ready, and stays: it costs money until `hudtui pods terminate {NAME}`"
    ]
    assert len(world.sim.alive) == 1 and world.ledger.get(NAME).state == "ready"


async def test_going_on_after_a_crash(world: Any) -> None:
    order = await world.order()
    entry = world.ledger.reserve(order, provider="prime", endpoint=world.prime.endpoint)
    await world.prime.create(order)
    steps = await _steps(_resume(world, entry))
    assert _kinds(steps)[0] == "adopted" and steps[-1].kind == "ready" and world.asked("POST") == 1
    entry = world.ledger.get(NAME)
    assert entry.state == "ready" and (await _steps(_resume(world, entry)))[-1].kind == "ready"
    await terminate_pod(NAME, world.prime, world.ledger, why="done", sleep=world.sleep)
    with pytest.raises(ProviderError, match="it is ended"):
        await _steps(_resume(world, world.ledger.get(NAME)))


async def test_going_on_where_nothing_was_created(world: Any) -> None:
    entry = world.ledger.reserve(await world.order(), provider="prime")
    with pytest.raises(OutcomeUnknown):
        await _steps(_resume(world, entry))
    assert world.ledger.get(NAME).state == "intended"
    with pytest.raises(ProviderError, match="never created"):
        await _steps(_resume(world, replace(entry, created=entry.created - 1000)))
    assert world.ledger.get(NAME).state == "never" and world.asked("POST") == 0


async def test_going_on_where_it_has_ended(world: Any) -> None:
    order = await world.order()
    entry = world.ledger.reserve(order, provider="prime")
    made = await world.prime.create(order)
    await world.sleep(100)
    world.sim.reclaim(made.id)
    with pytest.raises(PodGone):
        await _steps(_resume(world, entry))
    entry = world.ledger.get(NAME)
    assert entry.state == "ended" and entry.billed is not None


# --- the end ---


async def _pod(world: Any) -> Pod:
    order = await world.order()
    world.ledger.reserve(order, provider="prime", endpoint=world.prime.endpoint)
    made: Pod = await world.prime.create(order)
    world.ledger.update(NAME, "created", pod=made.id)
    await world.sleep(60)
    return made


@pytest.mark.parametrize("kind", ["reset_before", "reset_after", "html503", "malformed", "refuse"])
async def test_an_end_that_was_not_answered(world: Any, kind: str) -> None:
    await _pod(world)
    world.sim.fail_next("DELETE", "/api/v1/pods/*", kind, seconds=0.0)
    ended = await terminate_pod(NAME, world.prime, world.ledger, why="done", sleep=world.sleep)
    assert ended.stage == "gone" and ended.billed
    _nothing_is_left(world)


async def test_an_end_that_takes_its_time(world: Any) -> None:
    pod = await _pod(world)
    world.sim.pods[pod.id].behaviour = replace(world.sim.pods[pod.id].behaviour, delete=60.0)
    await terminate_pod(NAME, world.prime, world.ledger, why="done", sleep=world.sleep)
    assert world.asked("DELETE", f"/api/v1/pods/{pod.id}") < 5
    _nothing_is_left(world)


async def test_an_end_that_never_comes_is_said_loudly(world: Any) -> None:
    pod = await _pod(world)
    world.sim.pods[pod.id].behaviour = replace(
        world.sim.pods[pod.id].behaviour, delete_ignored=True
    )
    with pytest.raises(
        TerminationUnverified, match="could not be ended: its end is not verified"
    ) as caught:
        await terminate_pod(NAME, world.prime, world.ledger, why="done", sleep=world.sleep)
    assert "may still cost $2.10 an hour" in str(caught.value) and pod.id in str(caught.value)
    assert (
        world.ledger.get(NAME).state == "ending"
        and world.asked("DELETE", f"/api/v1/pods/{pod.id}") > 5
    )


async def test_a_key_that_may_not_end_it(world: Any) -> None:
    pod = await _pod(world)
    world.sim.fail_next("DELETE", "/api/v1/pods/*", "status", status=403, times=100)
    with pytest.raises(TerminationUnverified, match="could not be ended"):
        await terminate_pod(pod.id, world.prime, world.ledger, why="done", sleep=world.sleep)
    assert (
        world.asked("DELETE", f"/api/v1/pods/{pod.id}") == 1
        and world.ledger.get(NAME).state == "ending"
    )


async def test_a_failed_machine_that_cannot_be_ended_either(world: Any) -> None:
    order = await world.order()
    world.sim.behave(ends="error", delete_ignored=True)
    with pytest.raises(TerminationUnverified) as caught:
        await _steps(_acquire(world, order))
    assert "failed" in str(caught.value) and "may still cost" in str(caught.value)


async def test_a_login_that_is_lost_on_the_way(world: Any) -> None:
    order = await world.order()
    world.sim.fail_next("*", "/api/v1/pods/*", "status", status=401, times=1000, after=1)
    with pytest.raises(TerminationUnverified) as caught:
        await _steps(_acquire(world, order))
    assert (
        isinstance(caught.value.__cause__, AuthError) and world.ledger.get(NAME).state == "ending"
    )


async def test_ending_what_the_ledger_does_not_know(world: Any) -> None:
    made = await world.prime.create(await world.order())
    await world.sleep(60)
    ended = await terminate_pod(made.id, world.prime, world.ledger, why="orphan", sleep=world.sleep)
    assert ended.stage == "gone" and ended.billed
    with pytest.raises(TerminationUnverified, match="could not be ended") as caught:
        await terminate_pod("never-heard-of", world.prime, world.ledger, why="x", sleep=world.sleep)
    assert "does not know it" in str(caught.value)
    _nothing_is_left(world)


async def test_an_order_that_cannot_be_is_never_sent_and_leaves_nothing_open(world: Any) -> None:
    order = replace(await world.order(), image="windows")
    with pytest.raises(InputError, match="no image") as caught:
        await _steps(_acquire(world, order))
    assert caught.value.fix == "Name one of these." and world.asked("POST") == 0
    assert world.ledger.get(NAME).state == "never" and "no image" in world.ledger.get(NAME).why
    _nothing_is_left(world)


async def test_ending_what_was_only_intended(world: Any) -> None:
    order = await world.order()
    world.ledger.reserve(order, provider="prime")
    with pytest.raises(TerminationUnverified, match="a moment ago"):
        await terminate_pod(NAME, world.prime, world.ledger, why="x", sleep=world.sleep)
    await world.prime.create(order)
    assert (
        await terminate_pod(NAME, world.prime, world.ledger, why="x", sleep=world.sleep)
    ).stage == "gone"
    _nothing_is_left(world)


async def test_what_another_hudtui_is_asking_for_is_never_taken_for_none(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = await world.order()
    world.ledger.reserve(order, provider="prime")
    monkeypatch.setattr("hudtui.core.compute.lifecycle.process_mark", lambda: "another")
    monkeypatch.setattr("hudtui.core.compute.lifecycle.UNSEEN_GRACE", 0.0)
    with pytest.raises(TerminationUnverified, match="requested by another hudtui"):
        await terminate_pod(NAME, world.prime, world.ledger, why="x", sleep=world.sleep)
    assert world.ledger.get(NAME).state == "intended"


async def test_ending_one_whose_id_nobody_knows_yet(world: Any) -> None:
    order = await world.order()
    world.ledger.reserve(order, provider="prime")
    unseen = Pod("prime", "", NAME, "unknown")
    with pytest.raises(TerminationUnverified, match="a moment ago"):
        await terminate_pod(unseen, world.prime, world.ledger, why="x", sleep=world.sleep)
    assert world.asked("DELETE") == 0 and world.ledger.get(NAME).state == "intended"
    made = await world.prime.create(order)
    assert (
        await terminate_pod(unseen, world.prime, world.ledger, why="x", sleep=world.sleep)
    ).id == made.id
    _nothing_is_left(world)


async def test_ending_a_machine_that_only_has_the_name_of_ours(world: Any) -> None:
    order = await world.order()
    ours = world.ledger.reserve(order, provider="prime")
    world.ledger.update(NAME, "ready", pod="ours")
    other = await world.prime.create(order)
    assert (
        await terminate_pod(other, world.prime, world.ledger, why="x", sleep=world.sleep)
    ).stage == "gone"
    assert (world.ledger.get(NAME).state, world.ledger.get(NAME).pod) == (
        "ready",
        "ours",
    ) and ours.name == NAME


@pytest.mark.parametrize("stem", ["My Run: Größe 7", "", "---", "x" * 200])
def test_names(stem: str) -> None:
    names = {unique_name(stem) for _ in range(50)}
    assert len(names) == 50
    assert all(
        re.fullmatch(r"hudtui-[a-z0-9]+(-[a-z0-9]+)*", name) and len(name) <= 30 for name in names
    )


# --- a full disk ---


def _fill(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the ledger cannot be written."""

    def writing() -> Any:
        raise MachineError(
            "the disk is full: the list of rented machines cannot be written, and is unchanged"
        )

    monkeypatch.setattr(world.ledger._database, "writing", writing)


@pytest.mark.parametrize("kind", ["intended", "created", "waiting", "installing", "trying"])
@pytest.mark.parametrize("readable", [True, False])
async def test_a_disk_that_is_full_on_the_way_leaves_no_machine(
    world: Any, monkeypatch: pytest.MonkeyPatch, kind: str, readable: bool
) -> None:
    async def go() -> None:
        async for step in _acquire(world, order):
            if step.kind == kind:
                _fill(world, monkeypatch)
                if not readable:
                    monkeypatch.setattr(world.ledger, "get", _unreadable)

    order = await world.order()
    with pytest.raises(HudtuiError) as caught:
        await go()
    assert world.sim.alive == () and "disk is full" in str(caught.value)
    if kind != "intended":
        assert NAME in str(caught.value) and "ended, and that was verified" in str(caught.value)


def _unreadable(*args: Any) -> Any:
    raise MachineError("the disk is full: the list of rented machines cannot be used")


@pytest.mark.parametrize("by", ["name", "id", "pod"])
@pytest.mark.parametrize("readable", [True, False])
async def test_a_machine_is_ended_on_a_full_disk(
    world: Any, monkeypatch: pytest.MonkeyPatch, by: str, readable: bool
) -> None:
    last = (await _steps(_acquire(world, await world.order(), run="r1")))[-1]
    _fill(world, monkeypatch)
    if not readable:
        monkeypatch.setattr(world.ledger, "get", _unreadable)
    what = {"name": NAME, "id": last.pod.id, "pod": last.pod}[by]
    try:
        await terminate_pod(what, world.prime, world.ledger, why="over", sleep=world.sleep)
        assert not readable
    except MachineError as error:
        assert f"{NAME} is ended, and that was verified; it could not be written down" in str(error)
        assert "disk is full" in str(error) and "it has cost $" in str(error)
    assert world.sim.alive == ()
    monkeypatch.undo()
    await reconcile([world.prime], world.ledger)
    assert world.ledger.records() == ()


async def test_a_refusal_is_told_on_a_full_disk(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = await world.order()
    world.sim.fail_next("POST", "/api/v1/pods/", kind="status", status=404, detail="No capacity")
    with pytest.raises(ProviderError) as caught:
        async for step in _acquire(world, order):
            if step.kind == "intended":
                _fill(world, monkeypatch)
    assert "Nothing was created" in str(caught.value) and world.sim.alive == ()
