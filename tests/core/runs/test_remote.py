"""Runs on a machine behind SSH: a real sshd, real supervisors in a real tmux."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.errors import InputError, MachineError
from hudtui.core.remote.hosts import (
    close_hosts,
    find_host,
    find_target,
    forget_address,
    pod_host,
    save_address,
)
from hudtui.core.remote.ssh import SshHost
from hudtui.core.remote.target import SshTarget
from hudtui.core.runs.launch import draft_run, launch, stop_run
from hudtui.core.runs.reconcile import reconcile_runs
from hudtui.core.runs.run_folder import RunFolder
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.watch import Monitor
from hudtui.core.training.plan import PlanFile, Stage, file_ref

Make = Callable[..., RunRecord]
HOST = "gpu-box"


@pytest.fixture
async def box(ssh_box: Any) -> AsyncIterator[Any]:
    """A machine that ~/.ssh/config knows as `gpu-box`."""
    config = Path.home() / ".ssh" / "config"
    config.parent.mkdir(mode=0o700)
    lines = (
        "HostName 127.0.0.1",
        f"Port {ssh_box.port}",
        f"User {getpass.getuser()}",
        f"IdentityFile {ssh_box.server.key}",
    )
    config.write_text(
        "\n  ".join((f"Host {HOST}", *lines, "IdentitiesOnly yes", "IdentityAgent none")) + "\n"
    )
    yield ssh_box
    await close_hosts()


@pytest.fixture
def distant(make: Make, box: Any) -> Make:
    """Makes records of runs on that machine."""

    def record(*scripts: str, **more: Any) -> RunRecord:
        made = make(*scripts, host=HOST, **more)
        return replace(made, folder=f".hudtui/runs/{made.id}")

    return record


async def start(record: RunRecord, store: RunStore, **more: Any) -> list[str]:
    async with aclosing(launch(record, find_host(HOST), store, **more)) as events:
        return [str(event.data.get("name") or event.type) async for event in events]


async def ended(store: RunStore, run: str) -> str:
    machine, until = RunFolder(find_host(HOST), store.record(run)), time.monotonic() + 60
    while store.summary(run).active:
        assert time.monotonic() < until
        await asyncio.sleep(0.05)
        await machine.sync(store)
    return store.summary(run).state


async def test_a_run_elsewhere_is_launched_watched_and_leaves_its_files_there(
    store: RunStore, distant: Make
) -> None:
    record = distant("echo hello; cat files/a.txt", files=(PlanFile("files/a.txt", content="ü\n"),))
    events = await start(record, store)
    assert events[:6] == ["planned", "folder", "files", "plan", "supervisor", "started"]
    assert await ended(store, record.id) == "finished"
    folder = Path.home() / record.folder
    assert folder.stat().st_mode & 0o777 == 0o700
    monitor, data = Monitor(store, hosts=find_host), b""
    async for chunk in monitor.log(record.id, "s0").follow():
        data += chunk.data
    assert data.decode() == "hello\nü\n"
    assert (await monitor.view(record.id)).stages[0].exit == 0


async def test_secrets_reach_the_stage_and_no_file(store: RunStore, distant: Make) -> None:
    secret = "sk-0123456789abcdef"
    record = distant(stages=(Stage("s0", ("bash", "-c", "echo ${#KEY}"), secrets=("KEY",)),))
    await start(record, store, lookup={"KEY": secret}.get)
    assert await ended(store, record.id) == "finished"
    folder = Path.home() / record.folder
    assert (folder / "logs" / "s0.log").read_text() == f"{len(secret)}\n"
    for place in (folder, store.state_dir):
        assert not [
            path
            for path in place.rglob("*")
            if path.is_file() and secret.encode() in path.read_bytes()
        ]


async def test_stopping_elsewhere_is_verified(store: RunStore, distant: Make) -> None:
    record = distant("(setsid sleep 1000 &); trap '' TERM; while :; do sleep 0.1; done")
    await start(record, store)
    summary = await stop_run(record.id, find_host(HOST), store, grace=0.3)
    assert (summary.state, summary.why) == ("stopped", "stopped on request")
    status = await RunFolder(find_host(HOST), record).status()
    assert (status.processes, status.supervisor, status.session) == ((), None, False)


async def test_a_lost_connection_and_a_killed_supervisor_are_mended(
    store: RunStore, distant: Make, box: Any
) -> None:
    record = distant("until [ -e go ]; do sleep 0.05; done; echo done")
    await start(record, store)
    machine = RunFolder(find_host(HOST), record)
    supervisor = (await machine.status()).supervisor
    assert supervisor is not None
    os.kill(supervisor, signal.SIGKILL)
    box.server.cut()
    notices = await reconcile_runs(RunStore(store.state_dir), hosts=find_host)
    assert [notice.message for notice in notices] == [
        f"run {record.id}: its supervisor had ended, and was started again"
    ]
    assert await ended(store, record.id) == "failed"
    assert "supervisor was killed" in str(store.summary(record.id).why)


async def test_a_launch_that_was_broken_off_is_taken_up(store: RunStore, distant: Make) -> None:
    record = distant("echo once >>~/count")
    async with aclosing(launch(record, find_host(HOST), store)) as events:
        async for event in events:
            if event.data.get("name") == "files":
                break
    (notice,) = await reconcile_runs(store, hosts=find_host)
    assert "it is running" in notice.message
    assert await ended(store, record.id) == "finished"
    assert (Path.home() / "count").read_text() == "once\n"


async def test_a_machine_that_is_away_is_told_of_and_changes_nothing(
    store: RunStore, distant: Make, box: Any
) -> None:
    record = distant("sleep 1000")
    await start(record, store)
    await close_hosts()
    box.server.stop()
    try:
        (notice,) = await reconcile_runs(store)
        assert notice.severity == "warning" and "refused the connection" in notice.message
        assert store.summary(record.id).state == "running"
        with pytest.raises(MachineError, match="refused the connection"):
            await stop_run(record.id, find_host(HOST), store)
    finally:
        box.server.start()
    assert (await stop_run(record.id, find_host(HOST), store, grace=0.0)).state == "stopped"


async def test_rollouts_are_played_on_the_machine(
    store: RunStore, box: Any, own_world: Path
) -> None:
    task = {
        "id": "one",
        "prompt": "Reach 64.",
        "mcp_config": {"text-2048": {"command": "python", "args": ["-m", "hudtui.envs.text_2048"]}},
        "setup_tool": {
            "name": "setup",
            "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": 1}},
        },
        "evaluate_tool": {
            "name": "evaluate",
            "arguments": {"name": "max_number", "arguments": {"target": 64}},
        },
    }
    (own_world / "tasks.json").write_text(json.dumps([task]))
    move = "{_parser: {positional: []}, _tool: move, direction: {static: %s}}"
    moves = "".join(f"  {word}: {move % word}\n" for word in ("left", "right", "up", "down"))
    (own_world / "play.yaml").write_text(
        f"parser: {{use_thinking: false}}\naction_mappings:\n{moves}"
    )
    spec = RunSpec(
        "rollouts",
        "far away",
        str(own_world),
        tasks=file_ref(own_world / "tasks.json"),
        config=file_ref(own_world / "play.yaml"),
        max_turns=5,
        trainer_python=sys.executable,
    )
    record = draft_run(spec, find_host(HOST), store)
    assert record.folder == f".hudtui/runs/{record.id}" and record.host == HOST
    await start(record, store)
    assert await ended(store, record.id) == "finished", (
        Path.home() / record.folder / "logs" / "play.log"
    ).read_text()
    view = await Monitor(store, hosts=find_host).view(record.id)
    assert (view.result.episodes, view.result.errors) == (1, 0) and view.result.reward is not None


async def test_rented_machines_are_known_by_name(own_world: Path) -> None:
    host = pod_host("hudtui-demo-x1")
    with pytest.raises(MachineError, match="is not known here"):
        find_target(host)
    target = SshTarget("ubuntu", "192.0.2.7", 2222, keys=(Path("/k/prime.pem"),), pin="pod-7")
    save_address(host, target)
    found = find_host(host)
    assert isinstance(found, SshHost) and find_target(found.name) == target
    forget_address(host)
    forget_address(host)
    with pytest.raises(MachineError, match="is not known here"):
        find_target(host)
    for bad in ("../x", "", "a b"):
        with pytest.raises(InputError):
            pod_host(bad)
