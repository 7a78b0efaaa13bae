"""Runs of several nodes: what is refused before they begin, and real supervisors that meet over
loopback, are killed and are stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.person import ScriptedPerson

from hudtui.core.compute import hardware as machines
from hudtui.core.compute.hardware import Gpu, Hardware
from hudtui.core.errors import MachineError
from hudtui.core.flows.stop import stop
from hudtui.core.process import machine_label
from hudtui.core.project import open_project
from hudtui.core.remote.hosts import find_host
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs.again import request_again
from hudtui.core.runs.launch import (
    continue_launch,
    launch,
    remove_run,
    set_time_limit,
    stop_run,
)
from hudtui.core.runs.plan_text import plan_lines
from hudtui.core.runs.prepare import Preparation, prepare_run
from hudtui.core.runs.reconcile import reconcile_runs
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.request_texts import argv_of
from hudtui.core.runs.results import pull
from hudtui.core.runs.run_folder import RunFolder, peers_of
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.values import RunSummary
from hudtui.core.runs.watch import Monitor
from hudtui.core.settings import load_settings
from hudtui.core.training.nodes import plan_nodes
from hudtui.core.training.plan import Plan, PlanOutput, Site, Stage, node_folder
from hudtui.core.workspace import open_workspace
from hudtui.tui.runs.machine import machine_rows

HERE = LocalHost()
pytestmark = pytest.mark.timeout(180)


# --- before anything begins -----------------------------------------------------------------------


async def prepare(project: Path, store: RunStore, asked: RunRequest) -> Preparation:
    workspace = open_workspace(project)
    settings = load_settings(workspace.folder, workspace.platform)
    return await prepare_run(asked, workspace, settings, store)


def machines_with(monkeypatch: pytest.MonkeyPatch, gpus: dict[str, Sequence[int]]) -> None:
    """Machines by name, with the memory of their GPUs in MiB."""

    async def inspect(host: Any, *, python: str = "python3") -> Hardware:
        if not host.name:
            await host.stat(".")
        if host.name not in gpus:
            raise MachineError(f"{host.name} cannot be reached", why="connection refused")
        own = enumerate(gpus[host.name])
        found = tuple(Gpu(number, "NVIDIA H100 80GB HBM3", mib, 0) for number, mib in own)
        tmux = (("tmux", "/usr/bin/tmux"),)
        return Hardware(host.name, python="3.12", cpus=8, gpus=found, programs=tmux)

    monkeypatch.setattr(machines, "inspect", inspect)


def request(**options: Any) -> RunRequest:
    return RunRequest(model="Qwen/Qwen2.5-3B-Instruct", **options)


H100 = 81559


async def test_machines_that_are_named_are_the_nodes(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("me@a", "me@b", "me@c")
    machines_with(monkeypatch, {name: 4 * [H100] for name in names} | {"me@b": 4 * [40960]})
    asked = request(host=",".join(names))
    prepared = await prepare(project, store, asked)
    record = prepared.require()
    assert (record.host, record.spec.peers) == ("me@a", ("me@b", "me@c"))
    assert (record.spec.nodes, record.spec.gpus, record.spec.gpu_memory) == (3, 4, 40.0)
    assert record.plan.nodes == 3
    texts = {line.label: line.text for line in plan_lines(record, store, prepared)}
    assert (texts["machine"], texts["node 1"]) == ("me@a, free", "me@b, free")
    assert "nodes-2" in texts and "train-2" in texts
    again = request_again(record)
    assert (again.machines, again.nodes) == (names, 3)
    assert argv_of(asked)[argv_of(asked).index("--host") + 1] == "me@a,me@b,me@c"


@pytest.mark.parametrize(
    ("options", "text", "fix"),
    [
        ({"host": "me@a,me@a"}, "a machine is named twice", ""),
        ({"host": "local,local"}, "a machine is named twice", ""),
        ({"host": "me@a,me@b,ssh://me@a"}, "of its own (me@a, ssh://me@a)", ""),
        ({"host": "me@a,me@a:22"}, "a machine is named twice", ""),
        ({"host": "me@a,you@A"}, "a machine is named twice", ""),
        ({"host": "me@127.0.0.1,me@127.1:22"}, "a machine is named twice", ""),
        ({"host": ""}, "'' names no machine", ""),
        ({"host": " , "}, "a machine is named twice", ""),
        ({"host": "me@a,"}, "'' names no machine", ""),
        ({"host": "me@a,local"}, "this machine cannot train together with others", "--host"),
        ({"host": "me@a", "nodes": 2}, "2 nodes need 2 machines, and me@a is one", "Name 2"),
        ({"host": "local", "nodes": 3}, "3 nodes need 3 machines, and this machine", "--rehearse"),
        ({"host": "me@a,me@b", "nodes": 3}, "3 nodes are asked for, and 2 machines", "to 2"),
        (
            {"host": "me@a,me@b", "engine": "rollouts"},
            "the engine rollouts works on one machine, and 2 nodes",
            "--engine trl",
        ),
        (
            {"host": "me@a,me@c"},
            "node 1 (me@c) has 2 GPUs, and node 0 (me@a) has 4 GPUs: all nodes need equally many",
            "--gpus 2xH100",
        ),
        ({"host": "me@a,me@d"}, "me@d cannot be reached", ""),
        (
            {"host": "me@a,me@b", "settings": {"num_generations": 5}},
            "num_generations (5) does not divide",
            "With batch_size=",
        ),
    ],
)
async def test_what_cannot_be_carried_out_is_refused_before_anything_begins(
    options: dict[str, Any],
    text: str,
    fix: str,
    project: Path,
    store: RunStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machines_with(
        monkeypatch,
        {"me@a": 4 * [H100], "me@b": 4 * [H100], "me@c": 2 * [H100], "local": [H100]},
    )
    prepared = await prepare(project, store, request(**options))
    assert prepared.record is None
    said = [check for check in prepared.missing if text in check.text]
    assert said and fix in (said[0].fix or ""), [
        (check.text, check.fix) for check in prepared.checks
    ]


@pytest.mark.parametrize(
    ("version", "wrong"), [("3.6.8", True), ("3.7", True), ("3.8.0", False), ("3.14.0rc1", False)]
)
async def test_a_node_with_an_old_python_is_refused(
    version: str, wrong: bool, project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines_with(monkeypatch, {"me@a": [H100], "me@b": [H100]})
    inspect = machines.inspect

    async def found(host: Any, *, python: str = "python3") -> Hardware:
        hardware = await inspect(host, python=python)
        return replace(hardware, python=version) if host.name == "me@b" else hardware

    monkeypatch.setattr(machines, "inspect", found)
    prepared = await prepare(project, store, request(host="me@a,me@b"))
    said = [f"{check.text} {check.fix}" for check in prepared.missing]
    assert any(f"me@b has Python {version}" in text and "3.8" in text for text in said) is wrong


async def test_fewer_gpus_make_unequal_machines_equal(
    project: Path, store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines_with(monkeypatch, {"me@a": 4 * [H100], "me@c": 2 * [H100]})
    prepared = await prepare(project, store, request(host="me@a,me@c", gpus="2xH100"))
    assert prepared.require().spec.gpus == 2


async def test_a_rehearsal_plays_its_nodes_on_this_machine(project: Path, store: RunStore) -> None:
    asked = RunRequest(host="local", nodes=3, rehearse=True, python=sys.executable)
    record = (await prepare(project, store, asked)).require()
    assert record.spec.peers == ("local", "local") and record.plan.nodes == 3
    again = request_again(record)
    assert (again.host, again.nodes) == ("local", 3)


# --- real supervisors -----------------------------------------------------------------------------


def record_of(store: RunStore, *scripts: str, patience: float = 20.0) -> RunRecord:
    """A run with a node for each script, on this machine."""
    run = store.new_id("test")
    spec = RunSpec(
        "trl",
        "test",
        str(store.state_dir.parent),
        nodes=len(scripts),
        peers=("local",) * (len(scripts) - 1),
    )
    site = Site(str(store.folder / run), (sys.executable,), spec.workspace)

    def own(place: Site, node: int) -> Plan:
        words = (sys.executable, place.path("nodes.py"), "run", place.path("."))
        script = f"cd {place.folder}; {scripts[node]}"
        train = Stage("train", (*words, "bash", "-c", script), grace=2.0)
        return Plan("trl", (train,), outputs=(PlanOutput("out/metrics.jsonl", "metrics"),))

    return RunRecord(
        run,
        time.time(),
        "test",
        "trl",
        "local",
        machine_label(),
        site.folder,
        spec,
        plan_nodes(spec, site, own),
    )


async def start(record: RunRecord, store: RunStore) -> None:
    async with aclosing(launch(record, HERE, store, tmux=False)) as events:
        async for _ in events:
            pass


def folders(record: RunRecord) -> list[RunFolder]:
    return [RunFolder(HERE, record), *peers_of(record)]


async def until(true: Callable[[], bool], what: object = "") -> None:
    latest = time.monotonic() + 90
    while not true():
        assert time.monotonic() < latest, what
        await asyncio.sleep(0.05)


async def ended(store: RunStore, record: RunRecord) -> RunSummary:
    """Wait until nothing of a run is left on any node."""
    latest = time.monotonic() + 90
    while time.monotonic() < latest:
        own = [await folder.status() for folder in folders(record)]
        await folders(record)[0].sync(store)
        alive = any(one.supervisor or one.processes for one in own)
        if not alive and not store.summary(record.id).active:
            return store.summary(record.id)
        await asyncio.sleep(0.1)
    raise AssertionError([await folder.status() for folder in folders(record)])


def met(record: RunRecord) -> bool:
    return all(Path(folder.path("begun")).exists() for folder in folders(record))


WAITS = "touch begun; until [ -e go ]; do sleep 0.05; done"


async def test_nodes_run_together_and_are_one_run(store: RunStore) -> None:
    record = record_of(store, *(f"echo part {node}; {WAITS}" for node in range(3)))
    await start(record, store)
    await until(lambda: met(record))
    monitor = Monitor(store)
    view = await monitor.view(record.id)
    assert [(node.node, node.state, node.problem) for node in view.nodes] == [
        (1, "running", None),
        (2, "running", None),
    ]
    assert all(node.silent is not None and node.silent < 60 for node in view.nodes)
    assert view.windows == ("nodes", "train", "nodes-1", "train-1", "nodes-2", "train-2")
    assert {stage.name: stage.state for stage in view.stages}["train-2"] == "running"
    for name in ("train", "train-1", "train-2"):
        place = await monitor.log_place(record.id, name)
        assert place is not None
        node = name.partition("-")[2] or "0"
        assert f"part {node}\n" in (await place.host.get(place.path)).decode()
    for folder in folders(record):
        Path(folder.path("go")).touch()
    assert (await ended(store, record)).state == "finished"
    view = await monitor.view(record.id)
    assert {node.state for node in view.nodes} == {"finished"}
    assert [node["state"] for node in view.to_json()["nodes"]] == ["finished", "finished"]
    keys = [json.loads(Path(one.path("nodes.json")).read_text())["key"] for one in folders(record)]
    assert len(set(keys)) == 1 and keys[0] not in json.dumps(record.plan.for_machine("r", "s"))
    assert Path(folders(record)[1].path("nodes.json")).stat().st_mode & 0o077 == 0
    await remove_run(record.id, store)
    assert not any(Path(folder.folder).exists() for folder in folders(record))


async def test_the_end_of_a_run_is_told_once_for_all_nodes(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            monkeypatch.setenv("HUDTUI_NOTIFY_URL", f"http://127.0.0.1:{server.server_port}/")
            record = record_of(store, "true", "true")
            await start(record, store)
            assert (await ended(store, record)).state == "finished"
            await until(lambda: bool(bodies))
            lookouts = [str(Path(one.path("lookout.py"))) for one in folders(record)]
            await until(lambda: not any(path in one for one in _commands() for path in lookouts))
        finally:
            server.shutdown()
            thread.join()
    assert [one["event"] for one in bodies] == ["end"]


def _commands() -> Iterator[str]:
    """The commands of all processes."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")


@pytest.mark.parametrize("victim", [0, 1, 2])
async def test_a_command_that_fails_on_one_node_ends_all_in_its_words(
    victim: int, store: RunStore
) -> None:
    fails = f"{WAITS}; echo 'error: the disk is full'; exit 3"
    record = record_of(store, *(fails if node == victim else WAITS for node in range(3)))
    await start(record, store)
    await until(lambda: met(record))
    Path(folders(record)[victim].path("go")).touch()
    summary = await ended(store, record)
    assert summary.state == "failed" and summary.why is not None
    assert f"node {victim} (local): its training ended with status 3: the disk is full" in (
        summary.why
    )
    view = await Monitor(store).view(record.id)
    assert {node.state for node in view.nodes} == {"failed"}
    assert all("the disk is full" in (node.why or "") for node in view.nodes)


@pytest.mark.parametrize("victim", [0, 1])
async def test_everything_of_a_node_is_killed(victim: int, store: RunStore) -> None:
    record = record_of(store, WAITS, WAITS, WAITS)
    await start(record, store)
    await until(lambda: met(record))
    status = await folders(record)[victim].status()
    assert status.supervisor is not None
    for pid in (status.supervisor, *status.processes):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await until(
        lambda: all(
            json.loads(Path(folder.path("status.json")).read_text())["state"] == "failed"
            for folder in folders(record)
            if folder.node != victim
        )
    )
    await reconcile_runs(store)  # as every start of hudtui does
    summary = await ended(store, record)
    assert summary.state == "failed"
    view = await Monitor(store).view(record.id)
    if victim:
        assert f"node {victim} (local): it is gone" in (summary.why or "")
        assert [node.left for node in view.nodes] == [True, False], "nobody has seen its end"
        project, person = open_project(store.state_dir.parent), ScriptedPerson()
        stopped = await stop(record.id, project, person)
        assert stopped is not None and "has ended already" in stopped.report
        view = await Monitor(store).view(record.id)
    assert [node.left for node in view.nodes] == [False, False]
    assert {node.state for node in view.nodes} <= {"failed", "stopped"}


async def test_a_killed_supervisor_of_another_node_is_started_again_and_ends_its_part(
    store: RunStore,
) -> None:
    record = record_of(store, WAITS, WAITS)
    await start(record, store)
    await until(lambda: met(record))
    pid = (await folders(record)[1].status()).supervisor
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    (notice,) = await reconcile_runs(store)
    assert "the supervisor of node 1 (local) had ended, and was started again" in notice.message
    assert (await ended(store, record)).state == "failed"


async def test_a_stop_ends_all_nodes(store: RunStore) -> None:
    record = record_of(store, WAITS, f"trap '' TERM; {WAITS}", WAITS)
    await start(record, store)
    await until(lambda: met(record))
    summary = await stop_run(record.id, HERE, store, grace=1.0)
    assert summary.state == "stopped"
    for folder in folders(record):
        status = await folder.status()
        assert status.ended and not status.processes and status.supervisor is None


async def test_a_stop_says_which_node_may_live(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = record_of(store, WAITS, WAITS)
    await start(record, store)
    await until(lambda: met(record))
    real = RunFolder.request_stop

    async def away(self: RunFolder, grace: float | None, why: str | None = None) -> None:
        if self.node == 1:
            raise MachineError("me@b does not answer", why="no route to host")
        await real(self, grace, why)

    monkeypatch.setattr(RunFolder, "request_stop", away)
    with pytest.raises(MachineError) as error:
        await stop_run(record.id, HERE, store, grace=1.0)
    assert "node 1 (local) may still run: me@b does not answer" in (error.value.why or "")
    monkeypatch.undo()
    await ended(store, record)  # the nodes have told each other


async def test_logs_that_cannot_be_fetched_are_told_with_their_reason(
    store: RunStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = record_of(store, "true", "true")
    await start(record, store)
    assert (await ended(store, record)).state == "finished"
    run = LocalHost.run

    async def breaks(self: LocalHost, argv: Sequence[str], **more: Any) -> Any:
        if any(".node-1" in word for word in argv):
            raise MachineError("its disk does not answer", why="input/output error")
        return await run(self, argv, **more)

    monkeypatch.setattr(LocalHost, "run", breaks)
    found = await pull(record.id, store, output=tmp_path / "here")
    assert (tmp_path / "here" / "logs").is_dir() and not found.skipped
    assert found.skipped_text == (
        "the logs of node 1 (local) were not fetched: its disk does not answer: input/output error"
    )


async def test_a_time_limit_is_that_of_all_nodes(store: RunStore) -> None:
    record = record_of(store, WAITS, WAITS)
    record = replace(record, plan=replace(record.plan, max_seconds=3600.0))
    await start(record, store)
    await until(lambda: met(record))
    await set_time_limit(record.id, HERE, store, 0.0001)
    assert all(Path(folder.path("limits.json")).exists() for folder in folders(record))
    summary = await ended(store, record)
    assert summary.state == "stopped" and "time limit" in (summary.why or "")


async def test_a_launch_that_breaks_in_the_middle_leaves_no_node(
    store: RunStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = record_of(store, WAITS, WAITS, WAITS)
    real = RunFolder.start

    async def breaks(self: RunFolder, secrets: Any) -> None:
        if self.node == 2:
            raise MachineError("me@c does not answer")
        await real(self, secrets)

    monkeypatch.setattr(RunFolder, "start", breaks)
    with pytest.raises(MachineError, match="me@c does not answer"):
        await start(record, store)
    assert store.summary(record.id).state == "failed"
    for folder in folders(record):
        status = await folder.status()
        assert status.supervisor is None and not status.processes


async def test_a_folder_that_a_node_cannot_have_is_refused_with_its_node(store: RunStore) -> None:
    record = record_of(store, WAITS, WAITS, WAITS)
    last = Path(folders(record)[2].folder)
    last.parent.mkdir(parents=True, exist_ok=True)
    last.write_text("a file")
    with pytest.raises(MachineError, match=r"cannot be created on node 2 \(local\)"):
        await start(record, store)
    assert store.summary(record.id).state == "failed"
    assert not any([await folder.begun() for folder in folders(record)[:2]])
    last.unlink()


async def test_the_nodes_of_an_interrupted_launch_are_told_the_same(store: RunStore) -> None:
    record = record_of(store, "true", "true")
    stopped = launch(record, HERE, store, tmux=False)
    async for event in stopped:
        if "has the run's files" in str(event.data.get("message")):
            break
    await stopped.aclose()
    await start_again(record, store)
    assert (await ended(store, record)).state == "finished"


async def start_again(record: RunRecord, store: RunStore) -> None:
    async with aclosing(
        continue_launch(record.id, find_host("local"), store, tmux=False)
    ) as events:
        async for _ in events:
            pass


async def test_a_silent_node_is_a_sentence_of_the_view(store: RunStore) -> None:
    record = replace(record_of(store, WAITS, WAITS), host="me@a")
    record = replace(record, spec=replace(record.spec, peers=("me@b",)))
    store.add(record)
    os.makedirs(record.folder)

    class Answers(LocalHost):
        name = "me@a"

    class Away(LocalHost):
        name = "me@b"

        async def stat(self, path: Any) -> Any:
            raise MachineError("me@b does not answer")

    hosts = {"me@a": Answers(), "me@b": Away()}
    (node,) = (await Monitor(store, hosts=hosts.get).view(record.id)).nodes
    assert node.problem == "me@b does not answer" and "not known" in node.text


async def test_a_node_has_its_own_gpus_disk_and_clock(store: RunStore) -> None:
    record = replace(record_of(store, WAITS, WAITS), host="me@a")
    record = replace(record, spec=replace(record.spec, peers=("me@b",)))
    store.add(record)
    now = time.time()
    for node, clock, free in ((0, now, 2**40), (1, now + 3600.0, 1000)):
        folder = Path(node_folder(record.folder, node))
        (folder / "logs").mkdir(parents=True)
        stage = f"train-{node}" if node else "train"
        report = {"state": "running", "heartbeat": clock, "disk_free": free}
        stages = {stage: {"state": "running", "started": clock - 300.0}}
        (folder / "status.json").write_text(json.dumps({**report, "stages": stages}))
        gpus = [
            {"index": 0, "used_mib": 1024, "memory_mib": 81920, "utilization": 90 - node * 80},
            {"index": 1, "used_mib": 40960, "memory_mib": 81920, "utilization": 94 - node * 80},
        ]
        (folder / "gpu.jsonl").write_text(json.dumps({"at": clock, "gpus": gpus}) + "\n")

    class There(LocalHost):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    hosts = {name: There(name) for name in ("me@a", "me@b")}
    store.append(record.id, "started", {})
    view = await Monitor(store, hosts=hosts.get).view(record.id)
    assert [gpu.utilization for gpu in view.gpus] == [90, 94]
    (node,) = view.nodes
    assert [(gpu.utilization, gpu.used_mib) for gpu in node.gpus] == [(10, 1024), (14, 40960)]
    (disk,) = [alarm.text for alarm in view.alarms if alarm.kind == "disk"]
    assert disk.startswith("the disk of node 1 (me@b) is full")
    began = {stage.name: stage.started for stage in view.stages}
    first, other = began["train"], began["train-1"]
    assert first is not None and other is not None and abs(other - first) < 30
    row = machine_rows(view, 120, "", 40).plain.splitlines()[2]
    assert "12 %" in row and "40/80 GiB" in row and "me@b: running" in row


async def test_the_logs_of_all_nodes_are_searched_for_symptoms(store: RunStore) -> None:
    says = f'echo "the model\'s server does NOT answer"; {WAITS}'
    record = record_of(store, WAITS, WAITS, says)
    await start(record, store)
    await until(lambda: met(record))
    view = await Monitor(store).view(record.id)
    texts = [alarm.text for alarm in view.alarms]
    assert any(text.startswith("train-2: the model's server does not answer") for text in texts)
    assert view.problem is None
    await stop_run(record.id, HERE, store, grace=1.0)
