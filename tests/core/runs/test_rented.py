"""Runs on rented machines, against the simulated Prime: real SSH, real supervisors, and nothing
paid for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hudtui.core.compute.budget import BudgetExceeded
from hudtui.core.compute.lifecycle import ProvisionStep, terminate_pod
from hudtui.core.compute.limits import Limits
from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.provider import ProviderError
from hudtui.core.compute.values import Offer, Price
from hudtui.core.db import Database
from hudtui.core.errors import HudtuiError, InputError, MachineError, RunError
from hudtui.core.flows.manage import manage_run
from hudtui.core.project import open_project
from hudtui.core.remote.host import Disconnected
from hudtui.core.remote.hosts import close_hosts, find_host, pod_host
from hudtui.core.remote.ssh import SshHost
from hudtui.core.runs import remote_run
from hudtui.core.runs.reconcile import reconcile_runs
from hudtui.core.runs.remote_run import (
    RemoteRun,
    RentalContext,
    change_limits,
    end_remote_run,
    run_remote,
)
from hudtui.core.runs.run_folder import RunFolder
from hudtui.core.runs.run_lock import is_managed, lock_run, unfinished_runs
from hudtui.core.runs.spec import Rental
from hudtui.core.runs.status import RunView
from hudtui.core.runs.stop_on import stop_at_finding
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.unattended import find_unattended
from hudtui.core.runs.values import RunEvent
from hudtui.core.runs.watch import Monitor
from hudtui.core.training.plan import PlanOutput, Stage
from hudtui.sim import PrimeSimulator

Make = Callable[..., RunRecord]


@dataclass
class World:
    """A simulated Prime, somebody who rents there, and the offer that is taken."""

    sim: PrimeSimulator
    broker: RentalContext
    offer: Offer
    make: Make
    store: RunStore

    def record(self, *scripts: str, rent: dict[str, Any] | None = None, **more: Any) -> RunRecord:
        known = ("output_dir", "limits", "stop_on", "engine")
        spec_more = {key: more.pop(key) for key in known if key in more}
        made = self.make(*scripts, **more)
        wish = Rental(
            "prime",
            f"hudtui-{made.id}",
            self.offer,
            self.offer.price.hourly,
            simulated=True,
            **(rent or {}),
        )
        spec = replace(made.spec, rent=wish, **spec_more)
        outputs = (*made.plan.outputs, PlanOutput("out/traces.jsonl", "traces"))
        record = replace(
            made,
            engine=spec.engine,
            host=pod_host(wish.machine),
            folder=f".hudtui/runs/{made.id}",
            spec=spec,
            plan=replace(made.plan, outputs=outputs),
        )
        self.store.add(record)
        return record

    async def tend(self, record: RunRecord, **more: Any) -> list[str]:
        async with aclosing(run_remote(record.id, self.store, self.broker, **more)) as events:
            return [
                f"{event.type} {event.data.get('name') or event.data.get('kind') or ''}".strip()
                async for event in events
            ]

    async def put(self, record: RunRecord, name: str) -> None:
        """Make a file in a run's folder on its machine."""
        await find_host(record.host).put(b"", f"{record.folder}/{name}")

    async def rules(self, record: RunRecord) -> Any:
        """What the guard on the machine goes by."""
        return json.loads(await find_host(record.host).get(f"{record.folder}/guard.json"))

    @property
    def created(self) -> int:
        return len(
            [
                one
                for one in self.sim.requests
                if one.method == "POST" and one.path.rstrip("/").endswith("/pods")
            ]
        )


@pytest.fixture
def sim() -> Iterator[PrimeSimulator]:
    with PrimeSimulator(step=5) as running:
        yield running


@pytest.fixture
def key(own_world: Path) -> str:
    """The public key of the user."""
    path = Path.home() / ".ssh" / "id_ed25519"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)], check=True
    )
    return path.with_suffix(".pub").read_text()


@pytest.fixture
async def world(sim: PrimeSimulator, key: str, make: Make, store: RunStore) -> AsyncIterator[World]:
    sim.add_ssh_key(key)
    provider = PrimeProvider(sim.api_key, base_url=sim.url, simulated=True)

    async def hurry(seconds: float) -> None:
        sim.clock.advance(seconds)
        await asyncio.sleep(min(seconds, 0.05))

    offer = min((await provider.offers()).found, key=lambda one: one.price.hourly)
    yield World(
        sim,
        RentalContext(provider, lambda name: None, sleep=hurry, every=0.05, within=2.0),
        offer,
        make,
        store,
    )
    await close_hosts()
    await provider.close()


PLAY = """echo '{"task": "a", "reward": 1.0}' >out/metrics.jsonl; echo played"""
RUN = Stage("s0", ("bash", "-c", PLAY), grace=1.0)


async def test_from_nothing_to_results_at_home_and_no_machine(world: World) -> None:
    record = world.record(stages=(RUN,))
    events = await world.tend(record)
    assert events[:2] == ["machine intended", "machine created"]
    steps = [event.removeprefix("step ") for event in events if event.startswith("step ")]
    assert steps == [
        "ready",
        "guard",
        "folder",
        "files",
        "plan",
        "supervisor",
        "collect",
        "terminate",
    ]
    summary = world.store.summary(record.id)
    assert (summary.state, summary.machine, summary.holds_machine) == (
        "finished",
        "released",
        False,
    )
    assert summary.billed is not None and summary.hourly == world.offer.price.hourly
    assert world.created == 1 and not world.sim.alive
    results = world.store.folder / record.id
    assert (results / "logs" / "s0.log").read_text() == "played\n"
    view = await Monitor(RunStore(world.store.state_dir)).view(record.id)
    assert view.result.reward == 1.0 and view.stages[0].exit == 0
    owned = world.broker.ledger.get(f"hudtui-{record.id}")
    assert owned is not None and (owned.state, owned.run) == ("ended", record.id)
    assert await reconcile_runs(world.store) == ()
    assert await world.tend(record) == [], "once more changes nothing"


async def test_who_watches_goes_on_with_what_came_home_when_the_machine_is_gone(
    world: World,
) -> None:
    plays = Stage(
        "s0", ("bash", "-c", "until [ -e out/go ]; do sleep 0.05; done; " + PLAY), grace=1.0
    )
    record = world.record(stages=(Stage("before", ("echo", "first"), grace=1.0), plays))
    tending = asyncio.create_task(world.tend(record))
    monitor = Monitor(world.store)
    while world.store.summary(record.id).stage != "s0":  # noqa: ASYNC110 - it comes from a machine
        await asyncio.sleep(0.05)
    view = await monitor.view(record.id)
    assert view.summary.active and view.stages[0].state == "ended"
    follower, watcher = (
        asyncio.create_task(_all(monitor, record.id)),
        asyncio.create_task(_last(monitor, record.id)),
    )
    await world.put(record, "out/go")
    await tending
    assert not world.sim.alive and await asyncio.wait_for(follower, 30) == b"played\n"
    last = await asyncio.wait_for(watcher, 30)
    assert last.summary.machine == "released" and last.summary.billed is not None, (
        "also the end of the machine is seen"
    )
    assert [event.data.get("name") for event in last.events if event.type == "step"][
        -1
    ] == "terminate"
    view = await monitor.view(record.id)
    assert view.result.reward == 1.0 and not view.summary.active
    assert (
        b"".join([chunk.data async for chunk in monitor.log(record.id, "before").follow()])
        == b"first\n"
    )


async def _last(monitor: Monitor, run: str) -> RunView:
    return [view async for view in monitor.watch(run, every=0.1)][-1]


async def _all(monitor: Monitor, run: str) -> bytes:
    return b"".join([chunk.data async for chunk in monitor.log(run).follow()])


async def test_every_event_of_the_machine_is_told_once_whoever_copies_it_into_the_store(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = RunFolder.sync

    async def late(self: RunFolder, store: RunStore) -> tuple[RunEvent, ...]:
        """A screen that shows the run is always the first."""
        await sync(RunFolder(self.host, self.record), RunStore(store.state_dir))
        return await sync(self, store)

    monkeypatch.setattr(RunFolder, "sync", late)
    record = world.record(stages=(RUN,))
    events = await world.tend(record)
    steps = ("step", "machine", "note")
    assert [event for event in events if not event.startswith(steps)] == [
        "started",
        "stage_started",
        "stage_ended",
        "finished",
    ]
    supervisor, begun, collect = map(events.index, ("step supervisor", "started", "step collect"))
    assert supervisor < begun < events.index("finished") < collect


async def test_what_is_missing_here_is_told_before_anything_is_rented(world: World) -> None:
    record = world.record(stages=(replace(RUN, secrets=("WANDB_API_KEY",)),))
    with pytest.raises(RunError, match="needs WANDB_API_KEY"):
        await world.tend(record)
    assert world.store.summary(record.id).state == "failed"
    assert world.created == 0 and world.broker.ledger.records(alive=False) == ()


def training(folder: Path, rows: list[dict[str, float]], *, fails_from: int = 1_000) -> Stage:
    """A training that has written these metrics and its episodes, and waits for `out/go`.

    From a step on all calls of the episodes fail.
    """
    metrics, traces = folder / "metrics", folder / "traces"
    metrics.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    lines = []
    for step in range(1, len(rows) + 1):
        record = {
            **dict(version=2, task="t", stop="max_turns", error=None, scores={"reward": 0.3}),
            **dict(info={"step": step}, turn_count=2, slips={"failed": 2 * (step >= fails_from)}),
            **dict(messages=[{"role": "user", "content": "x" * 10_000}], turns=[]),
        }
        lines.append(json.dumps(record, separators=(",", ":")) + "\n")
    traces.write_text("".join(lines))
    wait = "until [ -e out/go ]; do sleep 0.05; done"
    script = f"cat {traces} >out/traces.jsonl; cat {metrics} >out/metrics.jsonl; {wait}"
    return Stage("s0", ("bash", "-c", script), grace=1.0)


ROWS = [{"step": n, "reward": 0.3 + n % 5 / 50, "reward_std": 0.2} for n in range(1, 61)]


async def read_to(monitor: Monitor, record: RunRecord, steps: int) -> RunView:
    """The view of a run whose steps are all diagnosed."""
    while True:
        with contextlib.suppress(MachineError, RunError):
            view = await monitor.view(record.id)
            if view.diagnosis is not None and view.diagnosis.steps == steps:
                return view
            monitor = Monitor(monitor.store)  # looks again, and not only after some seconds
        await asyncio.sleep(0.05)


async def test_episodes_on_a_rented_machine_stop_the_run_and_its_machine_once(
    world: World, tmp_path: Path
) -> None:
    stage = training(tmp_path, ROWS, fails_from=30)
    record = world.record(stages=(stage,), engine="trl", stop_on=("tools-fail",))
    tending = asyncio.create_task(world.tend(record))
    async with asyncio.timeout(90):
        view = await read_to(Monitor(world.store), record, 60)
        why = await stop_at_finding(view, world.store)
        await tending
    assert why is not None and why.startswith("stopped on tools-fail: Many tool calls fail (")
    assert ", since step " in why and "tools-fail" in [alarm.kind for alarm in view.alarms]
    summary = world.store.summary(record.id)
    assert (summary.state, summary.why, summary.machine) == ("stopped", why, "released")
    ended = [one for one in world.sim.requests if one.method == "DELETE"]
    assert (world.created, len(ended), len(world.sim.alive)) == (1, 1, 0)
    home = await Monitor(world.store).view(record.id)
    assert home.diagnosis is not None
    assert [one.signature for one in home.diagnosis.findings] == ["tools-fail"]


async def test_critical_trouble_ends_run_and_machine_while_nobody_looks(
    world: World, tmp_path: Path
) -> None:
    rows = [{**row, "reward": 0.0, "reward_std": 0.0} for row in ROWS]
    stage = training(tmp_path, rows)
    record = world.record(stages=(stage,), engine="trl", stop_on=("critical",))
    async with asyncio.timeout(90):
        await world.tend(record)
    summary = world.store.summary(record.id)
    assert (summary.state, summary.machine) == ("stopped", "released")
    assert str(summary.why).startswith("stopped on constant-reward: all rewards of a group")
    ended = [one for one in world.sim.requests if one.method == "DELETE"]
    assert (world.created, len(ended), len(world.sim.alive)) == (1, 1, 0)


async def test_a_healthy_training_on_a_rented_machine_goes_on_to_its_end(
    world: World, tmp_path: Path
) -> None:
    stage = training(tmp_path, ROWS)
    record = world.record(stages=(stage,), engine="trl", stop_on=("critical", "tools-fail"))
    tending = asyncio.create_task(world.tend(record))
    async with asyncio.timeout(90):
        view = await read_to(Monitor(world.store), record, 60)
        assert await stop_at_finding(view, world.store) is None and not view.alarms
        assert world.store.summary(record.id).state == "running"
        await world.put(record, "out/go")
        await tending
    assert world.store.summary(record.id).state == "finished" and not world.sim.alive


async def test_an_offer_that_is_gone_fails_the_run_and_rents_nothing(world: World) -> None:
    world.sim.fail_next("POST", "/api/v1/pods/", kind="status", status=404, detail="No capacity")
    record = world.record(stages=(RUN,))
    with pytest.raises(HudtuiError):
        await world.tend(record)
    summary = world.store.summary(record.id)
    assert (summary.state, summary.holds_machine) == ("failed", False) and not world.sim.alive


async def test_what_became_of_an_order_is_written_however_often_its_caller_is_cancelled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, busy, free, append = (
        asyncio.get_running_loop(),
        asyncio.Event(),
        threading.Event(),
        world.store.append,
    )

    def wait(run: str, kind: str, data: Any = None, **more: Any) -> RunEvent | None:
        if kind == "machine" and data == {"kind": "never"}:
            loop.call_soon_threadsafe(busy.set)
            assert free.wait(60), "the loop waits for the store"
        return append(run, kind, data, **more)

    monkeypatch.setattr(world.store, "append", wait)
    world.sim.fail_next("POST", "/api/v1/pods/", kind="status", status=404, detail="No capacity")
    record = world.record(stages=(RUN,))
    renting = asyncio.create_task(world.tend(record))
    await busy.wait()
    for _ in range(3):
        renting.cancel()
        await asyncio.sleep(0)
    assert not renting.done(), "the loop goes on, and nothing is decided before it is written"
    free.set()
    with pytest.raises(asyncio.CancelledError):
        await renting
    assert any(event.data == {"kind": "never"} for event in world.store.events(record.id))
    assert world.store.summary(record.id).state == "stopped" and not world.sim.alive


async def test_a_run_that_fails_brings_home_what_there_is_and_ends_its_machine(
    world: World,
) -> None:
    record = world.record("echo half >out/metrics.jsonl; exit 3")
    events = await world.tend(record)
    summary = world.store.summary(record.id)
    assert (summary.state, summary.machine) == ("failed", "released") and "status 3" in str(
        summary.why
    )
    assert (world.store.folder / record.id / "out" / "metrics.jsonl").read_text() == "half\n"
    assert "step collect" in events and not world.sim.alive


async def test_a_failed_run_keeps_its_machine_only_on_request(world: World) -> None:
    record = world.record("exit 3", rent={"keep_on_failure": True})
    await world.tend(record)
    assert [pod.name for pod in world.sim.alive] == [f"hudtui-{record.id}"]
    summary = world.store.summary(record.id)
    assert (summary.state, summary.holds_machine) == (
        "failed",
        True,
    ) and "is kept, as you wished" in summary.notes[-1]
    (notice,) = await reconcile_runs(world.store)
    assert notice.severity == "warning" and f"hudtui runs resume {record.id}" in notice.message


async def test_stopping_a_failed_run_ends_the_machine_that_was_kept(world: World) -> None:
    record = world.record("echo half >out/metrics.jsonl; exit 3", rent={"keep_on_failure": True})
    await world.tend(record)
    assert world.sim.alive
    summary = await end_remote_run(record.id, world.store, world.broker)
    assert (summary.state, summary.machine) == ("failed", "released") and not world.sim.alive


async def test_stopping_while_another_fetches_says_so_and_ends_the_machine_though_it_was_to_be_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching, go_on, said = asyncio.Event(), asyncio.Event(), list[str]()
    real = remote_run.fetch_results

    async def late(*args: Any, **more: Any) -> Any:
        fetching.set()
        await go_on.wait()
        return await real(*args, **more)

    monkeypatch.setattr(remote_run, "fetch_results", late)
    monkeypatch.setattr(remote_run, "_SETTLED_WITHIN", 0.1)
    record = world.record("exit 3", rent={"keep_on_failure": True})
    managing = asyncio.create_task(world.tend(record))
    await fetching.wait()
    with pytest.raises(RunError, match="has not ended yet") as caught:
        await end_remote_run(
            record.id, RunStore(world.store.state_dir), replace(world.broker, say=said.append)
        )
    told = " ".join((*caught.value.lines(), *said))
    assert told.count("fetches the results, and then ends the machine") == 2
    assert f"hudtui pods terminate hudtui-{record.id}" in told
    go_on.set()
    assert (await managing)[-1] == "step terminate" and not world.sim.alive


@pytest.mark.parametrize(
    ("field", "step", "last"),
    [("kind", "created", {"stopped"}), ("name", "files", {"step", "terminate"})],
)
async def test_leaving_before_the_run_has_started_ends_the_machine(
    world: World, field: str, step: str, last: set[str]
) -> None:
    record = world.record(stages=(RUN,))
    async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
        async for event in events:
            if event.data.get(field) == step:
                break
    summary = world.store.summary(record.id)
    assert (summary.state, summary.machine) == ("stopped", "released") and not world.sim.alive
    event = world.store.events(record.id)[-1]
    assert summary.billed is not None and last <= {event.type, event.data.get("name")}


async def test_a_cancelled_start_ends_the_machine_and_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = asyncio.Event()

    async def for_ever(*_: Any, **__: Any) -> None:
        waits.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(RunFolder, "start", for_ever)
    said: list[str] = []
    world.broker.say = said.append
    record = world.record(stages=(RUN,))
    starting = asyncio.create_task(world.tend(record))
    await waits.wait()
    assert world.sim.alive
    for _ in range(3):  # as by a user who presses Ctrl-C again and again
        starting.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert world.store.summary(record.id).machine == "released" and not world.sim.alive
    assert said == [f"hudtui-{record.id} is ended, and that was verified."]


async def test_leaving_as_the_machine_gets_ready_is_told_in_one_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    world.broker.say = said.append
    note = remote_run.RemoteRun.note

    async def leave(self: remote_run.RemoteRun, step: ProvisionStep) -> RunEvent | None:
        if step.kind == "ready":
            starting.cancel()
        return await note(self, step)

    monkeypatch.setattr(remote_run.RemoteRun, "note", leave)
    record = world.record(stages=(RUN,))
    starting = asyncio.create_task(world.tend(record))
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert said == [f"hudtui-{record.id} is ended, and that was verified."] and not world.sim.alive


async def test_a_run_that_is_left_before_it_asks_for_a_machine_is_given_up_and_rents_nothing_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, killed = world.record(), world.record()
    reached = asyncio.Event()

    async def slow(*_: Any, **__: Any) -> Any:
        reached.set()
        await asyncio.Event().wait()
        yield

    with monkeypatch.context() as starting:
        starting.setattr("hudtui.core.flows.manage.run_remote", slow)
        project, providers = (
            open_project(world.store.state_dir.parent),
            {"prime": world.broker.provider},
        )
        managing = asyncio.create_task(_all_of(manage_run(left.id, project, providers=providers)))
        await reached.wait()
    managing.cancel()
    await asyncio.wait([managing])
    assert world.store.summary(left.id).state == "stopped"
    assert unfinished_runs(world.store) == (), (
        "the next app does not rent what the user agreed to long ago"
    )
    (notice,) = await reconcile_runs(world.store)
    assert (
        f"run {killed.id} has no machine yet: hudtui runs resume {killed.id} rents one"
        in notice.message
    )
    (notice,) = await reconcile_runs(world.store, now=lambda: time.time() + 3600)
    assert (
        "was never started" in notice.message and world.store.summary(killed.id).state == "failed"
    )
    assert world.created == 0


async def _all_of(events: Any) -> list[Any]:
    return [event async for event in events]


@pytest.mark.parametrize("moment", ["runs", "fetches", "ends"])
async def test_who_leaves_a_run_learns_of_its_machine(
    world: World, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    record = world.record("exec sleep 1000" if moment == "runs" else "true")
    reached, said = asyncio.Event(), list[str]()

    def reach(real: Any) -> Any:
        async def reached_there(*args: Any, **more: Any) -> Any:
            if not reached.is_set():
                reached.set()
                await asyncio.Event().wait()
            return await real(*args, **more)

        return reached_there

    if moment != "runs":
        name = "fetch_results" if moment == "fetches" else "terminate_pod"
        monkeypatch.setattr(remote_run, name, reach(getattr(remote_run, name)))
    world.broker.say = said.append
    monkeypatch.setattr(
        "hudtui.core.flows.manage.rental", lambda *_, **__: contextlib.nullcontext(world.broker)
    )
    steps = manage_run(record.id, open_project(world.store.state_dir.parent), say=said.append)
    managing = asyncio.create_task(_all_of(steps))
    while not (reached.is_set() or (world.store.summary(record.id).stage and moment == "runs")):  # noqa: ASYNC110 - on its machine
        await asyncio.sleep(0.02)
    managing.cancel()
    while not managing.done():
        managing.cancel()  # signals may come at any moment
        await asyncio.sleep(0)
    words = {
        "runs": (
            f"run {record.id} continues there. While hudtui is closed, its results are not fetched"
        ),
        "fetches": (
            f"its results are not all fetched yet. `hudtui runs resume {record.id}` fetches them "
            "and ends the machine."
        ),
        "ends": f"hudtui-{record.id} is ended, and that was verified.",
    }
    assert words[moment] in said[0] and len(said) == 1
    assert bool(world.sim.alive) is (moment != "ends")
    await end_remote_run(record.id, world.store, world.broker, grace=0.0)


async def test_a_machine_whose_end_fails_when_the_user_leaves_is_ended_by_the_next_hudtui(
    world: World,
) -> None:
    said: list[str] = []
    world.broker.say = said.append
    record = world.record(stages=(RUN,))
    async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
        async for event in events:
            if event.data.get("name") == "files":
                world.sim.fail_next(
                    "DELETE", "/api/v1/pods/*", kind="status", status=403, times=1000
                )
                break
    summary = world.store.summary(record.id)
    assert (summary.state, summary.holds_machine) == ("stopped", True) and world.sim.alive
    assert len(said) == 1 and f"hudtui-{record.id}" in said[0] and "may" in said[0]
    world.sim.heal()
    assert [one.id for one in unfinished_runs(world.store)] == [record.id]
    assert (await world.tend(record))[-1] == "step terminate" and not world.sim.alive


@pytest.mark.parametrize("call", range(2, 92, 15))
async def test_wherever_the_user_leaves_no_machine_is_left_without_a_guard(
    world: World, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    """At each call of the provider, the machine, the store and the ledger; a part of them here."""
    made, said = 0, list[str]()
    world.broker.say = said.append
    record = world.record(stages=(RUN,))
    starting = asyncio.create_task(world.tend(record))

    def leaving(call_there: Any) -> Any:
        async def leave(*args: Any, **more: Any) -> Any:
            nonlocal made
            made += 1
            if made == call:
                starting.cancel()
            return await call_there(*args, **more)

        return leave

    calls = {
        PrimeProvider: ("create", "get", "pods", "status", "terminate"),
        SshHost: ("run", "put", "stat", "get"),
        Database: ("run",),
    }
    with monkeypatch.context() as watched:
        for owner, names in calls.items():
            for name in names:
                watched.setattr(owner, name, leaving(getattr(owner, name)))
        with contextlib.suppress(asyncio.CancelledError):
            await starting
    summary = world.store.summary(record.id)
    if world.sim.alive:
        assert summary.started is not None and await world.rules(record) and not said
        assert [one.id for one in unfinished_runs(world.store)] == [record.id]
        assert (await world.tend(record))[-1] == "step terminate"
    assert world.created <= 1 and not world.sim.alive


async def test_leaving_while_a_start_that_failed_is_settled_ends_the_machine(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetching, said = asyncio.Event(), list[str]()

    async def fails(*_: Any, **__: Any) -> None:
        raise MachineError("it does not start")

    async def for_ever(*_: Any, **__: Any) -> None:
        fetching.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(RunFolder, "start", fails)
    monkeypatch.setattr(remote_run, "fetch_results", for_ever)
    world.broker.say = said.append
    record = world.record(stages=(RUN,))
    starting = asyncio.create_task(world.tend(record))
    await fetching.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert said == [f"hudtui-{record.id} is ended, and that was verified."] and not world.sim.alive
    summary = world.store.summary(record.id)
    assert (summary.state, summary.machine) == ("failed", "released")


def _full(monkeypatch: pytest.MonkeyPatch, *files: str) -> None:
    """From now on the disk has no room for these files: by default the runs alone."""

    real = Database.writing

    def writing(self: Database) -> Any:
        if self.path.name in (files or ("runs.db",)):
            what = (
                "the list of runs" if self.path.name == "runs.db" else "the list of rented machines"
            )
            raise self._error(
                f"the disk is full: {what} cannot be written, and is unchanged",
                fix="Free some space.",
            )
        return real(self)

    monkeypatch.setattr(Database, "writing", writing)


FULL = [("runs.db",), ("pods.db",), ("runs.db", "pods.db")]


@pytest.mark.parametrize("files", FULL, ids=" and ".join)
async def test_a_full_disk_keeps_no_machine_alive_beyond_its_limits(
    world: World, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...]
) -> None:
    said: list[str] = []
    world.broker.say = said.append
    record = world.record("sleep 1000", limits=Limits(max_hours=2.0).to_json())
    name = f"hudtui-{record.id}"
    await _leave_when_started(world, record)
    hours = 0.0
    real = RemoteRun.usage
    monkeypatch.setattr(RemoteRun, "usage", lambda self: replace(real(self), hours=hours))
    with monkeypatch.context() as full:
        tending = asyncio.create_task(world.tend(record))
        async with asyncio.timeout(60):
            while not is_managed(world.store, record.id):  # noqa: ASYNC110 - it is taken over
                await asyncio.sleep(0.02)
            _full(full, *files)
            hours = 1.9  # near: 80 % are used
            if "runs.db" in files:
                while not said:  # noqa: ASYNC110 - the warning cannot be stored
                    await asyncio.sleep(0.02)
            await asyncio.sleep(0.5)
            assert not tending.done() and world.sim.alive, "a warning ends nobody"
            hours = 2.1
            with pytest.raises(HudtuiError) as caught:
                await tending
    assert not world.sim.alive
    text = str(caught.value)
    assert (
        f"{name} is ended, and that was verified; it could not be written down" in text
        and "disk is full" in text
    )
    assert "may be alive" not in text
    with contextlib.suppress(MachineError):  # its machine is gone
        await world.tend(record)
    summary = world.store.summary(record.id)
    assert not summary.active and not summary.holds_machine, (
        "with room again, the next start writes it down"
    )
    assert world.broker.ledger.records() == ()


@pytest.mark.parametrize("files", FULL, ids=" and ".join)
async def test_a_run_is_stopped_and_its_machine_ended_on_a_full_disk(
    world: World, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...]
) -> None:
    record = world.record("sleep 1000")
    await _leave_when_started(world, record)
    with monkeypatch.context() as full:
        _full(full, *files)
        with pytest.raises(
            HudtuiError, match="is ended, and that was verified; it could not be written down"
        ):
            await end_remote_run(record.id, world.store, world.broker, grace=0.0)
    assert not world.sim.alive
    await end_remote_run(record.id, world.store, world.broker)
    assert not world.store.summary(record.id).holds_machine


@pytest.mark.parametrize("files", FULL, ids=" and ".join)
@pytest.mark.parametrize("moment", ["intended", "created", "installing", "ready", "guard", "plan"])
async def test_a_disk_that_is_full_while_a_machine_is_rented_leaves_none(
    world: World, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...], moment: str
) -> None:
    """It is rented and runs, or it is ended: whichever, nobody is left without a word."""
    said: list[str] = []
    world.broker.say = said.append
    record = world.record(stages=(RUN,))
    name = f"hudtui-{record.id}"
    error: HudtuiError | None = None
    with monkeypatch.context() as full:
        try:
            async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
                async for event in events:
                    if moment in (event.data.get("name"), event.data.get("kind")):
                        _full(full, *files)
        except HudtuiError as caught:
            error = caught
    text = " ".join([*said, str(error or "")])
    assert error is not None and "disk is full" in text
    assert not world.sim.alive or f"hudtui pods terminate {name}" in text
    assert world.created <= 1


async def test_a_command_that_ends_while_the_machine_lives_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = world.record("sleep 1000")
    await _leave_when_started(world, record)
    world.sim.fail_next("*", "/api/v1/pods*", kind="status", status=500, times=999)
    with pytest.raises(HudtuiError) as caught:
        await end_remote_run(record.id, world.store, world.broker, grace=0.0)
    assert "may still cost" in str(caught.value) and "hudtui pods terminate" in str(caught.value)
    world.sim.heal()

    async def broken(self: RemoteRun) -> Any:
        raise RunError("the list of runs is damaged")

    with monkeypatch.context() as patched, pytest.raises(RunError) as caught_too:
        patched.setattr(RemoteRun, "watch", lambda self, _: broken(self))
        patched.setattr(RemoteRun, "recover", broken)
        await world.tend(record)
    price = f"{record.spec.rent.hourly:.2f}" if record.spec.rent else ""
    told = str(caught_too.value)
    assert (
        f"hudtui pods terminate hudtui-{record.id}" in told
        and price in told
        and f"runs resume {record.id}" in told
    )
    assert len(world.sim.alive) == 1


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_disk_that_is_full_before_the_start_keeps_no_machine_alive(
    world: World, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    said: list[str] = []
    world.broker.say = said.append
    record = world.record(stages=(RUN,))
    with monkeypatch.context() as full, contextlib.suppress(HudtuiError):
        async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
            async for event in events:
                if event.data.get("name") == "guard":
                    _full(full)
                    if leaves:
                        break
    assert not world.sim.alive and all(
        "disk is full" in text for text in said[: len(said) - leaves]
    )
    assert not leaves or f"hudtui-{record.id} is ended, and that was verified" in said[-1]


async def test_a_disk_that_is_full_for_a_moment_ends_no_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    world.broker.say = said.append
    record = world.record("until [ -e go ]; do sleep 0.05; done; echo done")
    await _leave_when_started(world, record)
    with monkeypatch.context() as full:
        again = asyncio.create_task(world.tend(record))
        await asyncio.sleep(0.3)
        _full(full)
        await world.put(record, "go")
        while not said:  # noqa: ASYNC110 - the run ends on its machine
            await asyncio.sleep(0.02)
        assert world.sim.alive
    assert (await again)[-1] == "step terminate" and "disk is full" in said[0]
    assert (world.store.summary(record.id).state, len(said)) == ("finished", 1)


async def test_stopping_while_another_gets_the_machine_gives_it_up(world: World) -> None:
    world.sim.behave(boot=100_000)
    record = world.record(stages=(RUN,))
    getting = asyncio.create_task(world.tend(record))
    while not world.sim.alive:  # noqa: ASYNC110 - it lives in another thread
        await asyncio.sleep(0.02)
    view = await Monitor(RunStore(world.store.state_dir)).view(record.id)
    assert view.summary.active and view.stages[0].state == "waiting", (
        "it can be looked at before its machine is there"
    )
    summary = await end_remote_run(record.id, RunStore(world.store.state_dir), world.broker)
    events = await getting
    assert (summary.state, summary.machine) == ("stopped", "released") and not world.sim.alive
    assert "stopped" in events and world.created == 1
    assert [chunk async for chunk in Monitor(world.store).log(record.id, "s0").follow()] == []


@pytest.mark.parametrize("step", ["make_folder", "arm", "put_supervisor", "start"])
async def test_stopping_while_another_starts_the_run_ends_it(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    there, go_on, real = asyncio.Event(), asyncio.Event(), getattr(RunFolder, step)

    async def late(self: RunFolder, *args: Any, **more: Any) -> Any:
        there.set()
        await go_on.wait()
        return await real(self, *args, **more)

    monkeypatch.setattr(RunFolder, step, late)
    record = world.record("exec sleep 1000")
    starting = asyncio.create_task(world.tend(record))
    await there.wait()
    stopping = asyncio.create_task(
        end_remote_run(record.id, RunStore(world.store.state_dir), world.broker, grace=0.0)
    )
    while world.store.summary(record.id).state not in ("stopping", "stopped"):  # noqa: ASYNC110 - another process stops it
        await asyncio.sleep(0.02)
    go_on.set()
    async with asyncio.timeout(20):
        summary = await stopping
        assert (await starting).count("stopped") <= 1
    assert (summary.state, summary.machine) == ("stopped", "released") and not world.sim.alive


async def test_leaving_a_run_leaves_it_and_its_results_come_home_later(world: World) -> None:
    record = world.record("until [ -e go ]; do sleep 0.05; done; echo done")
    async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
        async for event in events:
            if event.type == "started":
                break
    assert world.store.summary(record.id).state == "running" and len(world.sim.alive) == 1
    (notice,) = await reconcile_runs(world.store)
    assert notice.severity == "info" and "manages it" in notice.message
    await world.put(record, "go")
    fresh = RunStore(world.store.state_dir)
    async with aclosing(run_remote(record.id, fresh, world.broker)) as events:
        seen = [event.data.get("name") async for event in events]
    assert seen[-1] == "terminate" and fresh.summary(record.id).state == "finished"
    assert (fresh.folder / record.id / "logs" / "s0.log").read_text() == "done\n"
    assert world.created == 1 and not world.sim.alive


async def _leave_when_started(world: World, record: RunRecord) -> None:
    async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
        async for event in events:
            if event.type == "stage_started":
                break


@pytest.mark.parametrize("trouble", ["cancelled", "provider", "silent", "refused"])
async def test_who_takes_up_a_run_that_has_started_never_ends_its_machine(
    world: World, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """Whatever keeps hudtui from it: it is closed at once, the provider fails, or the machine or
    its guard does not answer."""
    record = world.record("until [ -e go ]; do sleep 0.05; done; echo done")
    await _leave_when_started(world, record)
    reached = asyncio.Event()
    world.broker.clock = lambda: time.monotonic() * 10_000

    async def fails(*_: Any, **__: Any) -> Any:
        reached.set()
        if trouble == "cancelled":
            await asyncio.Event().wait()
        raise {"provider": ProviderError, "silent": Disconnected, "refused": InputError}[trouble](
            "it fails"
        )

    with monkeypatch.context() as broken:
        if trouble in ("cancelled", "silent"):
            broken.setattr(remote_run, "open_host", fails)
            broken.setattr(RunFolder, "sync", fails)
        elif trouble == "refused":
            broken.setattr(RunFolder, "arm", fails)
        else:
            broken.setattr(PrimeProvider, "get", fails)
            broken.setattr(RunFolder, "sync", _silent)
        again = asyncio.create_task(world.tend(record))
        await reached.wait()
        if trouble == "cancelled":
            again.cancel()
            with pytest.raises(asyncio.CancelledError):
                await again
            again = asyncio.create_task(world.tend(record))
        else:
            await asyncio.wait([again], timeout=0.3)
        assert world.store.summary(record.id).state == "running" and len(world.sim.alive) == 1
    await world.put(record, "go")
    assert (await again)[-1] == "step terminate" and not world.sim.alive
    assert (world.store.folder / record.id / "logs" / "s0.log").read_text() == "done\n"


class _Killed(BaseException):
    """A process that is killed does nothing more."""


async def _killed_as_it_starts(world: World, record: RunRecord, start: Any) -> None:
    with pytest.MonkeyPatch.context() as dying, pytest.raises(_Killed):
        dying.setattr(remote_run.RemoteRun, "give_up", _nothing)
        dying.setattr(RunFolder, "start", start)
        await world.tend(record)
    assert world.store.summary(record.id).started is None and len(world.sim.alive) == 1


@pytest.mark.parametrize("trouble", ["cancelled", "silent", "changed"])
async def test_a_run_whose_hudtui_was_killed_as_it_started_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    """Its store does not know of the start. Whatever the next hudtui meets, it does not end the
    machine."""
    record = world.record("until [ -e go ]; do sleep 0.05; done; echo done")
    real, reached = RunFolder.start, asyncio.Event()

    async def start(self: RunFolder, secrets: Any) -> None:
        await real(self, secrets)
        raise _Killed

    async def fails(*_: Any, **__: Any) -> Any:
        reached.set()
        if trouble == "cancelled":
            await asyncio.Event().wait()
        raise MachineError("it fails")

    await _killed_as_it_starts(world, record, start)
    with monkeypatch.context() as broken:
        world.broker.clock = lambda: time.monotonic() * 10_000
        if trouble == "changed":
            broken.setattr(remote_run, "check_inputs", fails)
        else:
            broken.setattr(remote_run, "open_host", fails)
            broken.setattr(RunFolder, "sync", fails)
        again = asyncio.create_task(world.tend(record))
        if trouble == "changed":
            while world.store.summary(record.id).started is None and not again.done():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        else:
            await reached.wait()
            await asyncio.wait([again], timeout=0.3)
        again.cancel()
        await asyncio.wait([again])
        (left,) = find_unattended(
            world.broker.ledger,
            {"prime": world.broker.provider},
            world.broker.settings,
            folder=world.store.state_dir.parent,
        )
        assert ("continues" if trouble == "changed" else "may have started") in left.words[0]
    assert world.store.summary(record.id).active and len(world.sim.alive) == 1
    await world.put(record, "go")
    assert (await world.tend(record))[-1] == "step terminate" and not world.sim.alive
    assert (world.store.folder / record.id / "logs" / "s0.log").read_text() == "done\n"


async def test_a_run_whose_hudtui_was_killed_just_before_its_start_is_started(world: World) -> None:
    async def start(self: RunFolder, secrets: Any) -> None:
        raise _Killed

    record = world.record(stages=(RUN,))
    await _killed_as_it_starts(world, record, start)
    events = await world.tend(record)
    assert "step supervisor" in events and events[-1] == "step terminate"
    assert (
        world.store.summary(record.id).state == "finished"
        and world.created == 1
        and not world.sim.alive
    )


async def test_a_stop_whose_hudtui_was_killed_reaches_the_machine_with_the_next_one(
    world: World,
) -> None:
    record = world.record("exec sleep 1000")
    await _leave_when_started(world, record)
    world.store.append(record.id, "stop_requested", {"grace": 0.0}, once="stop_requested")
    async with asyncio.timeout(30):
        assert (await world.tend(record))[-1] == "step terminate"
    assert world.store.summary(record.id).state == "stopped" and not world.sim.alive


async def test_a_connection_that_is_lost_just_after_the_start_fails_no_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, lost = RunFolder.start, [Disconnected("lost")]
    sync = RunFolder.sync

    async def start(self: RunFolder, secrets: Any) -> None:
        await real(self, secrets)
        monkeypatch.setattr(RunFolder, "sync", once)

    async def once(self: RunFolder, store: RunStore) -> Any:
        if lost:
            raise lost.pop()
        return await sync(self, store)

    monkeypatch.setattr(RunFolder, "start", start)
    record = world.record(stages=(RUN,))
    assert (await world.tend(record))[-1] == "step terminate" and not lost
    assert world.store.summary(record.id).state == "finished"


@pytest.mark.parametrize("begun", [True, False])
async def test_a_machine_that_the_ledger_has_lost_is_neither_ordered_again_nor_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch, begun: bool
) -> None:
    record = world.record("exec sleep 1000")
    if begun:
        await _leave_when_started(world, record)
    else:
        with monkeypatch.context() as killed:
            killed.setattr(remote_run.RemoteRun, "give_up", _nothing)
            async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
                async for event in events:
                    if event.data.get("name") == "ready":
                        break
    for file in world.broker.ledger.path.parent.glob("pods.db*"):
        file.unlink()
    world.sim.fail_next("GET", "/api/v1/pods/*", kind="status", status=403, times=1000)
    with pytest.raises(ProviderError):
        await world.tend(record)
    world.sim.heal()
    again = asyncio.create_task(world.tend(record))
    while world.store.summary(record.id).stage is None or world.broker.ledger.records() == ():  # noqa: ASYNC110 - on its machine
        await asyncio.sleep(0.02)
    again.cancel()
    await asyncio.wait([again])
    (owned,) = world.broker.ledger.records()
    assert (owned.state, owned.run, owned.held) == ("ready", record.id, False) and world.sim.alive
    for file in world.broker.ledger.path.parent.glob("pods.db*"):
        file.unlink()
    summary = await end_remote_run(record.id, world.store, world.broker, grace=0.0)
    assert (summary.state, summary.machine, world.created) == (
        "stopped",
        "released",
        1,
    ) and not world.sim.alive


async def test_a_machine_that_the_ledger_has_lost_and_that_is_gone_is_not_waited_for(
    world: World,
) -> None:
    record = world.record("exec sleep 1000")
    await _leave_when_started(world, record)
    for file in world.broker.ledger.path.parent.glob("pods.db*"):
        file.unlink()
    (pod,) = world.sim.alive
    world.sim.reclaim(pod.id)
    async with asyncio.timeout(30):
        with pytest.raises(MachineError, match="is gone"):
            await world.tend(record)
    summary = world.store.summary(record.id)
    assert (summary.state, summary.machine) == ("failed", "released") and world.created == 1


async def _nothing(*_: Any, **__: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("ready", "has not started there. | No guard is on it: nothing ends it by itself."),
        (
            "guard",
            "has not started there. | in 24 h 14 min or 30 min after it was put there, unless the "
            "run starts, whichever",
        ),
        ("stage_started", "continues there. | switches it off in 24 h 14 min. That"),
    ],
)
async def test_what_is_said_of_a_machine_whose_hudtui_was_killed_is_so(
    world: World, monkeypatch: pytest.MonkeyPatch, step: str, words: str
) -> None:
    monkeypatch.setattr(remote_run.RemoteRun, "give_up", _nothing)
    record = world.record("exec sleep 1000", rent={"keep_on_failure": True})
    async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
        async for event in events:
            if step in (event.data.get("name"), event.type):
                break
    (left,) = find_unattended(
        world.broker.ledger,
        {"prime": world.broker.provider},
        world.broker.settings,
        folder=world.store.state_dir.parent,
    )
    for part in words.split(" | "):
        assert part in " ".join(left.words)
    assert "after the run has ended" not in " ".join(left.words), "it is kept if the run fails"
    await end_remote_run(record.id, world.store, world.broker, grace=0.0)


async def test_nothing_is_told_of_a_run_that_is_being_tended(world: World) -> None:
    record = world.record("sleep 1000")
    async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
        async for event in events:
            if event.type == "started":
                assert is_managed(world.store, record.id)
                assert await reconcile_runs(RunStore(world.store.state_dir)) == (), (
                    "there is nothing that its user could do"
                )
                break
    assert not is_managed(world.store, record.id)
    (notice,) = await reconcile_runs(RunStore(world.store.state_dir))
    assert f"hudtui runs resume {record.id}" in notice.message
    await end_remote_run(record.id, world.store, world.broker)


async def test_a_limit_ends_the_run_and_the_machine(world: World) -> None:
    record = world.record("sleep 1000", limits=Limits(max_hours=2.0).to_json())
    spec = record.spec.rent
    assert spec is not None
    async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
        async for event in events:
            if event.type == "stage_started":
                rules = await world.rules(record)
                assert 7000 < rules["max_seconds"] <= 7200 and rules["power_off"] == [["true"]]
                await change_limits(record.id, world.store, world.broker, Limits(max_hours=1e-6))
                assert (await world.rules(record))["max_seconds"] < 60
    summary = world.store.summary(record.id)
    assert (summary.state, summary.machine) == ("stopped", "released") and "h is reached" in str(
        summary.why
    )
    kept = world.broker.ledger.limits(spec.machine)
    assert kept is not None and kept.max_hours == 1e-6
    with pytest.raises(RunError, match="has ended"):
        await change_limits(record.id, world.store, world.broker, Limits(max_hours=2.0))
    assert world.broker.ledger.limits(spec.machine) == kept


async def test_a_date_that_is_set_while_a_run_is_managed_ends_it_not_before_its_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = world.record(
        "until [ -e go ]; do sleep 0.05; done; echo done", limits=Limits(max_hours=1.0).to_json()
    )
    managing, real = asyncio.create_task(world.tend(record)), time.time
    while world.store.summary(record.id).stage is None:  # noqa: ASYNC110 - on its machine
        await asyncio.sleep(0.02)
    with monkeypatch.context() as later:
        later.setattr(time, "time", lambda: real() + 7200)
        await asyncio.wait([managing], timeout=0.5)
    await world.put(record, "go")
    assert (await managing)[-1] == "step terminate" and world.store.summary(
        record.id
    ).state == "finished"


async def test_a_guard_that_is_started_anew_gives_no_more_time_than_is_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = world.record("sleep 1000", limits=Limits(max_hours=2.0).to_json())
    async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
        async for event in events:
            if event.type == "stage_started":
                break
    first = await world.rules(record)
    later = SimpleNamespace(time=lambda: time.time() + 3600, monotonic=time.monotonic)
    monkeypatch.setattr(remote_run, "time", later)
    again = await (await remote_run.RemoteRun.read(record.id, world.store, world.broker)).rules()
    assert 7000 < first["max_seconds"] <= 7200 and 3400 < again["max_seconds"] <= 3600
    assert first["count_from"] != again["count_from"], "one that is at work counts from there, too"
    monkeypatch.undo()
    await end_remote_run(record.id, world.store, world.broker, grace=0.0)


async def test_with_a_key_of_narrow_scope_the_machine_ends_itself_when_the_app_is_gone(
    world: World,
) -> None:
    world.sim.add_token("pit_only_ends", {"instances": {"read": True, "write": True}})
    world.broker.settings = {"HUDTUI_GUARD_KEY": "pit_only_ends"}.get
    record = world.record("sleep 1000")
    async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
        async for event in events:
            if event.type == "stage_started":
                break
    host = find_host(record.host)
    rules = await world.rules(record)
    assert rules["end"]["url"].startswith(world.sim.url) and "pit_only_ends" not in json.dumps(
        rules
    )
    sooner = {**rules, "max_seconds": 0.0, "grace_seconds": 0.0, "look_seconds": 0.05}
    await host.put(json.dumps(sooner).encode(), f"{record.folder}/guard.json", mode=0o600)
    while world.sim.alive:  # noqa: ASYNC110 - it is ended by a process of the machine
        await asyncio.sleep(0.05)
    with pytest.raises(MachineError, match="is gone"):
        await world.tend(record)
    assert (world.store.summary(record.id).state, world.store.summary(record.id).machine) == (
        "failed",
        "released",
    )


async def test_a_machine_that_is_taken_back_is_noticed(world: World) -> None:
    record = world.record("sleep 1000")
    with pytest.raises(MachineError, match="is gone: it was taken back"):
        async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
            async for event in events:
                if event.type == "stage_started":
                    world.sim.reclaim(world.sim.alive[0].id)
    summary = world.store.summary(record.id)
    assert (summary.state, summary.machine) == ("failed", "released")


async def test_a_machine_that_the_user_ends_under_a_run_is_not_said_to_be_taken_back(
    world: World,
) -> None:
    record = world.record("exec sleep 1000")
    with pytest.raises(MachineError, match="is gone: ended by hand"):
        async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
            async for event in events:
                if event.type == "stage_started":
                    name, broker = f"hudtui-{record.id}", world.broker
                    await terminate_pod(
                        name,
                        broker.provider,
                        broker.ledger,
                        why="ended by hand",
                        sleep=broker.sleep,
                    )
    (owned,) = world.broker.ledger.records(alive=False)
    assert (owned.state, owned.why, owned.unasked) == ("ended", "ended by hand", False)


async def test_a_machine_that_lost_its_processes_goes_on_by_itself(world: World) -> None:
    world.broker.look = 0.0
    record = world.record("exec sleep 1000", "echo never")
    async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
        async for event in events:
            if event.type == "stage_started":  # as after a reboot: everything is gone but the files
                for pid in (await RunFolder(find_host(record.host), record).status()).processes:
                    os.kill(pid, signal.SIGKILL)
            elif event.type == "note" and "started again" in str(event.data["message"]):
                world.broker.look = 30.0
    summary = world.store.summary(record.id)
    assert (
        (summary.state, summary.machine) == ("failed", "released")
        and "s0" in str(summary.why)
        and not world.sim.alive
    )


async def test_a_limit_ends_a_machine_that_does_not_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "_FETCHES", 1)
    record = world.record("sleep 1000")
    with pytest.raises(MachineError, match="does not answer"):
        async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
            async for event in events:
                if event.type == "stage_started":
                    spec = record.spec.rent
                    assert spec is not None
                    monkeypatch.setattr(RunFolder, "sync", _silent)
                    world.broker.ledger.set_limits(spec.machine, Limits(max_hours=1e-6))
    assert world.store.summary(record.id).machine == "released" and not world.sim.alive


async def _silent(self: RunFolder, store: RunStore) -> tuple[()]:
    raise Disconnected("it does not answer")


async def test_nothing_is_said_of_a_run_that_another_hudtui_tends(world: World) -> None:
    record = world.record("exec sleep 1000")
    async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
        async for event in events:
            if event.type == "stage_started":
                assert await reconcile_runs(world.store) == ()
                break
    (notice,) = await reconcile_runs(world.store)
    assert f"hudtui runs resume {record.id}" in notice.message
    await end_remote_run(record.id, world.store, world.broker, grace=0.0)


async def test_ending_a_run_fetches_and_releases(world: World) -> None:
    record = world.record("echo some; exec sleep 1000")
    async with aclosing(run_remote(record.id, world.store, world.broker)) as events:
        async for event in events:
            if event.type == "stage_started":
                break
    summary = await end_remote_run(record.id, world.store, world.broker, grace=0.0)
    assert (summary.state, summary.machine) == ("stopped", "released") and not world.sim.alive
    assert (world.store.folder / record.id / "logs" / "s0.log").read_text() == "some\n"


async def test_results_that_cannot_be_written_keep_the_machine_of_a_finished_run(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "taken").write_text("a file is in the way")
    record = world.record(stages=(RUN,), output_dir=str(tmp_path / "taken"))
    with pytest.raises(MachineError, match="its machine is KEPT"):
        await world.tend(record)
    assert len(world.sim.alive) == 1 and world.store.summary(record.id).holds_machine
    (tmp_path / "taken").unlink()
    assert await world.tend(record) == ["step collect", "machine released", "step terminate"]
    assert (
        tmp_path / "taken" / record.id / "out" / "metrics.jsonl"
    ).exists() and not world.sim.alive


async def test_a_machine_that_is_gone_before_its_results_are_fetched_is_not_called_kept(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: Any, **__: Any) -> None:
        if world.sim.alive:
            world.sim.reclaim(world.sim.alive[0].id)
        raise MachineError("it cannot be read")

    monkeypatch.setattr(remote_run, "fetch_results", gone)
    record = world.record(stages=(RUN,))
    with pytest.raises(MachineError, match="are lost with its machine") as raised:
        await world.tend(record)
    assert "taken back" in str(raised.value.why)
    summary = world.store.summary(record.id)
    assert (summary.state, summary.machine) == ("finished", "released") and unfinished_runs(
        world.store
    ) == ()


async def test_one_process_tends_a_run(world: World) -> None:
    record = world.record(stages=(RUN,))
    async with lock_run(world.store, record.id):
        with pytest.raises(RunError, match="already managed by another hudtui"):
            await world.tend(record)
    assert world.created == 0


def test_an_order_is_what_was_agreed_to(make: Make) -> None:
    offer = Offer("prime", "x", "H100_80GB", 2, price=Price(3.0), raw={"a": [1]})
    wish = Rental("prime", "hudtui-x", offer, image="cuda", disk_gb=80.0, ssh_key="k")
    order = wish.order
    assert (order.offer, order.offer.raw, order.image, order.disk_gb, order.ssh_key) == (
        offer,
        {"a": [1]},
        "cuda",
        80.0,
        "k",
    )


async def test_the_days_budget_is_one_for_all_runs_and_pays_for_their_last_quarter_of_an_hour_too(
    world: World,
) -> None:
    hourly = world.offer.price.hourly
    limits = Limits(run_budget=None, day_budget=hourly, max_hours=8).to_json()
    first, second = (
        world.record("sleep 1000", run="first-1", limits=limits),
        world.record("true", run="second-1", limits=limits),
    )
    async with aclosing(run_remote(first.id, world.store, world.broker)) as events:
        async for event in events:
            if event.type == "stage_started":
                break
    rules = await world.rules(first)
    assert rules["max_seconds"] + rules["grace_seconds"] <= 3600 and rules["grace_seconds"] > 0
    with pytest.raises(BudgetExceeded, match="no room"):
        await world.tend(second)
    summary = world.store.summary(second.id)
    assert (summary.state, summary.holds_machine) == ("failed", False) and "day's budget" in str(
        summary.why
    )
    assert world.created == 1 and len(world.sim.alive) == 1
    await end_remote_run(first.id, world.store, world.broker, grace=0.0)
    assert not world.sim.alive
