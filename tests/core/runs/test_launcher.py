"""Launching, stopping and coming back after kills: real supervisors in a real tmux, and processes
that are really killed."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.specs import spec_of
from support.tmux_world import list_sessions

from hudtui.core.errors import MachineError, RunError
from hudtui.core.plain import to_plain
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs.launch import continue_launch, draft_run, launch, stop_run
from hudtui.core.runs.prepare import Preparation, prepare_run
from hudtui.core.runs.reconcile import FRESH, reconcile_runs
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.run_folder import RunFolder
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.values import RunEvent, RunSummary
from hudtui.core.runs.watch import Monitor
from hudtui.core.settings import load_settings
from hudtui.core.training.plan import FileRef, PlanFile, RestartPolicy, Stage, file_ref
from hudtui.core.workspace import open_workspace

Make = Callable[..., RunRecord]
HOST = LocalHost()
CONFIG = "action_mappings:\n  left: {_parser: {positional: []}, _tool: move}\n"
TASKS = (
    '[{"prompt": "p", "mcp_config": {"a": {"url": "https://a.example/mcp"}}, "evaluate_tool": '
    '{"name": "e"}}]'
)


def play(**options: Any) -> RunRequest:
    return RunRequest(engine="rollouts", **options)


async def start(record: RunRecord, store: RunStore, **more: Any) -> list[RunEvent]:
    async with aclosing(launch(record, HOST, store, **more)) as events:
        return [event async for event in events]


async def ended(store: RunStore, run: str, limit: float = 60.0) -> RunSummary:
    """Wait until a run has ended and nothing of it is left."""
    machine, until = RunFolder(HOST, store.record(run)), time.monotonic() + limit
    while time.monotonic() < until:
        await machine.sync(store)
        if not store.summary(run).active:
            status = await machine.status()
            if not status.processes and status.supervisor is None:
                return store.summary(run)
        await asyncio.sleep(0.05)
    raise AssertionError(f"{store.summary(run)} {await machine.status()}")


async def begun(store: RunStore, run: str, stage: str = "s0") -> None:
    machine, until = RunFolder(HOST, store.record(run)), time.monotonic() + 60
    while store.summary(run).stage != stage:
        assert time.monotonic() < until
        await machine.sync(store)
        await asyncio.sleep(0.02)


async def supervisor_of(store: RunStore, run: str) -> int:
    pid = (await RunFolder(HOST, store.record(run)).status()).supervisor
    assert pid is not None
    return pid


async def gone(pid: int) -> None:
    while True:
        try:
            with open(f"/proc/{pid}/stat") as stream:  # noqa: ASYNC230
                if stream.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except OSError:
            return
        await asyncio.sleep(0.01)


# --- launching ------------------------------------------------------------------------------------


async def test_a_launch_is_a_row_of_events(store: RunStore, make: Make) -> None:
    record = make("echo hello", files=(PlanFile("files/a.txt", content="ü\n"),))
    events = await start(record, store)
    assert [(event.type, event.data.get("name")) for event in events][:6] == [
        ("planned", None),
        ("step", "folder"),
        ("step", "files"),
        ("step", "plan"),
        ("step", "supervisor"),
        ("started", None),
    ]
    assert (await ended(store, record.id)).state == "finished"
    folder = Path(record.folder)
    assert (folder / "files" / "a.txt").read_text() == "ü\n"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "logs" / "s0.log").read_text() == "hello\n"
    assert [event.number for event in store.events(record.id)] == sorted(
        event.number for event in store.events(record.id)
    )
    assert await list_sessions(HOST) == ()


async def test_the_run_does_not_need_the_app(store: RunStore, make: Make) -> None:
    record = make("echo one; until [ -e go ]; do sleep 0.05; done; echo two")
    await start(record, store)
    await begun(store, record.id)  # the session comes with the first stage, after the launch
    assert await list_sessions(HOST) == (f"hudtui-{record.id}",)
    (Path(record.folder) / "go").touch()
    # Another process, later: it finds the run with nothing but the folder.
    again = RunStore(store.state_dir)
    assert (await ended(again, record.id)).state == "finished"
    monitor, data = Monitor(again), b""
    async for chunk in monitor.log(record.id, "s0").read():
        data += chunk.data
    assert data == b"one\ntwo\n"


async def test_without_tmux_on_request(store: RunStore, make: Make) -> None:
    record = make("echo hello")
    await start(record, store, tmux=False)
    assert (await ended(store, record.id)).mode == "processes"


async def test_a_file_that_changed_since_the_plan_is_refused(
    store: RunStore, make: Make, tmp_path: Path
) -> None:
    (tmp_path / "t.json").write_text("[]")
    record = make(files=(PlanFile("t.json", source=file_ref(tmp_path / "t.json")),))
    (tmp_path / "t.json").write_text("[1]")
    with pytest.raises(MachineError, match="was changed after this run was planned"):
        await start(record, store)
    summary = store.summary(record.id)
    assert summary.state == "failed" and "was changed" in str(summary.why)


async def test_a_folder_that_cannot_be_made_fails_the_run(store: RunStore, make: Make) -> None:
    record = make()
    store.state_dir.mkdir()
    store.folder.write_text("in the way")
    with pytest.raises(MachineError, match="folder of the run cannot be created"):
        await start(record, store)
    assert store.summary(record.id).state == "failed"


async def test_secrets_are_looked_up_and_kept_out(store: RunStore, make: Make) -> None:
    secret = "sk-0123456789abcdef"
    stages = (Stage("s0", ("bash", "-c", "echo ${#KEY}"), secrets=("KEY",)),)
    with pytest.raises(RunError, match="needs KEY"):
        await start(make(stages=stages), store)
    leaky = (Stage("s0", ("echo", f"--key={secret}"), secrets=("KEY",)),)
    with pytest.raises(RunError, match="the plan of this run contains the value of KEY"):
        await start(make(stages=leaky), store, lookup={"KEY": secret}.get)
    assert store.runs() == (), "neither was begun"
    record = make(stages=stages)
    await start(record, store, lookup={"KEY": secret}.get)
    assert (await ended(store, record.id)).state == "finished"
    assert (Path(record.folder) / "logs" / "s0.log").read_text() == f"{len(secret)}\n"
    for path in store.state_dir.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


async def test_drafting_changes_nothing(store: RunStore, own_world: Path) -> None:
    (own_world / "t.json").write_text(TASKS)
    (own_world / "c.yaml").write_text(CONFIG)
    workspace = open_workspace(own_world)
    spec = spec_of(play(tasks="t.json", config=Path("c.yaml"), policy="random"), workspace)
    assert spec.name == "c random" and spec.platform == "hud"
    unnamed = spec_of(play(tasks="t.json", config=Path("c.yaml")), workspace)
    assert (unnamed.name, unnamed.policy) == ("c random", "random")  # CONFIG is not for 2048
    record = draft_run(spec, HOST, store)
    assert record.id.startswith("c-random-") and record.plan.stages[0].cwd == str(own_world)
    assert not store.state_dir.exists()


async def test_the_workspace_fills_in_what_is_plain(own_world: Path, store: RunStore) -> None:
    async def prepared(**options: Any) -> Preparation:
        workspace = open_workspace(own_world)
        settings = load_settings(own_world, workspace.platform)
        return await prepare_run(play(policy="random", **options), workspace, settings, store)

    tasks, config = (await prepared()).missing
    assert (tasks.remedy, config.remedy) == (
        None,
        "generate-config",
    ) and "there is no task file" in tasks.text
    (own_world / "tasks.json").write_text(TASKS)
    (own_world / "configs").mkdir()
    for name in ("a", "b"):
        (own_world / "configs" / f"{name}.yaml").write_text(CONFIG)
    (config,) = (await prepared()).missing
    assert (
        config.options == ("configs/a.yaml", "configs/b.yaml") and config.remedy == "choose-config"
    )
    record = (await prepared(config=Path("configs/b.yaml"), name="mine")).require()
    assert (
        record.spec.tasks is not None
        and record.spec.tasks.name == "tasks.json"
        and record.spec.name == "mine"
    )


# --- stopping -------------------------------------------------------------------------------------


async def test_stopping_is_verified(store: RunStore, make: Make) -> None:
    record = make("(setsid sleep 1000 &); trap '' TERM; while :; do sleep 0.1; done")
    await start(record, store)
    await begun(store, record.id)
    summary = await stop_run(record.id, HOST, store, grace=0.3)
    assert (summary.state, summary.why) == ("stopped", "stopped on request")
    status = await RunFolder(HOST, store.record(record.id)).status()
    assert (status.processes, status.supervisor, status.session) == ((), None, False)
    assert await stop_run(record.id, HOST, store) == summary, "once more changes nothing"


async def test_stopping_what_never_started(store: RunStore, make: Make) -> None:
    record = make("echo x > ran")
    store.add(record)
    assert (await stop_run(record.id, HOST, store)).why == "stopped before it started"
    assert await reconcile_runs(store) == ()
    assert not Path(record.folder).exists()


async def test_a_stop_in_the_middle_of_a_launch_wins(store: RunStore, make: Make) -> None:
    record = make("echo x > ran; sleep 60")
    async with aclosing(launch(record, HOST, store)) as events:
        async for event in events:
            if event.data.get("name") == "plan":
                assert (await stop_run(record.id, HOST, store)).state == "stopped"
    assert (await ended(store, record.id)).state == "stopped"
    assert not (Path(record.folder) / "ran").exists()


async def test_two_stops_at_once(store: RunStore, make: Make) -> None:
    record = make("sleep 60")
    await start(record, store)
    await begun(store, record.id)
    both = await asyncio.gather(
        stop_run(record.id, HOST, store), stop_run(record.id, HOST, RunStore(store.state_dir))
    )
    assert [summary.state for summary in both] == ["stopped", "stopped"]


# --- kills ----------------------------------------------------------------------------------------

LAUNCH = """
    import asyncio, json, os, signal, sys
    from pathlib import Path
    from hudtui.core.remote.local import LocalHost
    from hudtui.core.runs.launch import launch
    from hudtui.core.runs.store import RunRecord, RunStore
    from hudtui.core.plain import from_plain
    from hudtui.core.runs.spec import RunSpec
    from hudtui.core.training.plan import Plan

    given = json.loads(sys.argv[1])
    plan, spec = from_plain(given["plan"], Plan), from_plain(given["spec"], RunSpec)
    record = RunRecord(**{**given, "plan": plan, "spec": spec})

    async def main():
        count = 0
        async for event in launch(record, LocalHost(), RunStore(Path(sys.argv[2]))):
            count += 1
            print(event.type, flush=True)
            if count == int(sys.argv[3]):
                os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(main())
"""


def launching(record: RunRecord, store: RunStore, kill_at: int = 0) -> subprocess.Popen[bytes]:
    """A process that launches a run and kills itself at an event."""
    given = {**vars(record), "plan": to_plain(record.plan), "spec": to_plain(record.spec)}
    argv = [
        sys.executable,
        "-c",
        textwrap.dedent(LAUNCH),
        json.dumps(given),
        str(store.state_dir),
        str(kill_at),
    ]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


COUNTED = "echo x >> ../../../started; for i in 1 2 3 4 5; do echo $i; sleep 0.1; done"


def starts(store: RunStore) -> int:
    path = store.state_dir.parent / "started"
    return path.read_text().count("x") if path.exists() else 0


@pytest.mark.parametrize("kill_at", range(1, 7))
async def test_killed_at_any_event_the_run_goes_on_and_starts_once(
    store: RunStore, make: Make, kill_at: int
) -> None:
    record = make(COUNTED)
    process = launching(record, store, kill_at)
    out, errors = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == -signal.SIGKILL, errors
    assert len(out.split()) == kill_at
    notices = await reconcile_runs(store)
    assert all(notice.severity == "info" for notice in notices)
    assert (await ended(store, record.id)).state == "finished"
    assert starts(store) == 1
    assert (Path(record.folder) / "logs" / "s0.log").read_text() == "1\n2\n3\n4\n5\n"
    assert await reconcile_runs(store) == ()


@pytest.mark.parametrize("seed", range(6))
async def test_killed_at_any_moment_the_run_goes_on_or_was_never_kept(
    store: RunStore, make: Make, seed: int
) -> None:
    record, chance = make(COUNTED), random.Random(seed)
    process = launching(record, store)
    assert process.stdout is not None
    if seed % 2:
        await asyncio.to_thread(
            process.stdout.readline
        )  # the first event: from here on it is all about timing
    await asyncio.sleep(chance.random() * (0.4 if seed % 2 else 1.2))
    process.kill()
    await asyncio.to_thread(process.communicate)
    await reconcile_runs(store)
    if record.id in store.ids():
        assert (await ended(store, record.id)).state == "finished"
        assert starts(store) == 1
    else:
        assert starts(store) == 0 and not Path(record.folder).exists()


async def test_many_apps_bring_one_run_to_order_at_once(store: RunStore, make: Make) -> None:
    record = make(COUNTED)
    process = launching(record, store, 2)
    await asyncio.to_thread(process.communicate)
    await asyncio.gather(*(reconcile_runs(RunStore(store.state_dir)) for _ in range(4)))
    assert (await ended(store, record.id)).state == "finished"
    assert starts(store) == 1


async def test_a_dead_supervisor_is_replaced(store: RunStore, make: Make) -> None:
    record = make(f"{COUNTED}; sleep 60", "echo last")
    await start(record, store)
    await begun(store, record.id)
    pid = await supervisor_of(store, record.id)
    os.kill(pid, signal.SIGKILL)
    await gone(pid)
    (notice,) = await reconcile_runs(store)
    assert "was started again" in notice.message
    summary = await ended(store, record.id)
    assert (summary.state, summary.why) == (
        "failed",
        "s0: its supervisor was killed, and the stage was ended with it",
    )
    assert starts(store) == 1


async def test_secrets_are_given_again_to_a_new_supervisor(store: RunStore, make: Make) -> None:
    again = RestartPolicy(times=1, delay=0.0)
    stages = (
        Stage("s0", ("sleep", "1"), restart=again),
        Stage("s1", ("bash", "-c", "echo $KEY"), secrets=("KEY",)),
    )
    record = make(stages=stages)
    await start(record, store, lookup={"KEY": "the-secret"}.get)
    await begun(store, record.id)
    pid = await supervisor_of(store, record.id)
    os.kill(pid, signal.SIGKILL)
    await gone(pid)
    await reconcile_runs(store, lookup={"KEY": "the-secret"}.get)
    assert (await ended(store, record.id)).state == "finished"
    assert (Path(record.folder) / "logs" / "s1.log").read_text() == "the-secret\n"


async def test_everything_killed_at_once_is_found_out(store: RunStore, make: Make) -> None:
    record = make("sleep 1000")
    await start(record, store)
    await begun(store, record.id)
    status = await RunFolder(HOST, store.record(record.id)).status()
    pid = status.supervisor
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await HOST.run(["tmux", "kill-server"])
    for process in status.processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    await gone(pid)
    await reconcile_runs(store)
    summary = await ended(store, record.id)
    assert summary.state in ("failed", "stopped") and str(summary.why).startswith("s0: ")


async def test_a_launch_of_long_ago_is_not_begun_behind_the_users_back(
    store: RunStore, make: Make
) -> None:
    record = make(COUNTED)
    store.add(record)
    (notice,) = await reconcile_runs(store, now=lambda: time.time() + FRESH + 1)
    assert notice.severity == "warning" and "never started" in notice.message
    summary = store.summary(record.id)
    assert (summary.state, starts(store)) == ("failed", 0)
    assert await reconcile_runs(store) == ()


async def test_a_run_whose_folder_is_gone_is_lost(store: RunStore, make: Make) -> None:
    record = make("true")
    await start(record, store)
    await ended(store, record.id)
    lost = replace(record, id="gone-1", folder=record.folder + "-gone")
    store.add(lost)
    store.mirror(
        "gone-1", [{"seq": 1, "at": time.time(), "type": "started", "data": {"mode": "tmux"}}]
    )
    notices = await reconcile_runs(store)
    assert any("gone-1 is lost" in notice.message for notice in notices)
    assert store.summary("gone-1").state == "lost"
    assert await reconcile_runs(store) == ()
    assert (await stop_run("gone-1", HOST, store)).state == "lost"


async def test_runs_elsewhere_are_left_alone(store: RunStore, make: Make) -> None:
    store.add(make(run="pod-1", host="pod:hudtui-nobody-knows"))
    store.add(replace(make(run="other-1"), machine="another-machine"))
    notices = await reconcile_runs(store)
    assert sorted(notice.message for notice in notices) == [
        "run other-1 was started on another-machine; open it there",
        "run pod-1: the address of pod:hudtui-nobody-knows is not known here: "
        "it is not ready yet, it is gone, or it was rented from another computer",
    ]
    assert {summary.state for summary in store.runs()} == {"planned"}


async def test_a_broken_run_does_not_keep_the_others_from_order(
    store: RunStore, make: Make
) -> None:
    first = make(files=(PlanFile("x", source=FileRef("/nowhere", 1, "x")),))
    second = make(COUNTED)
    store.add(first)
    store.add(second)
    notices = await reconcile_runs(store)
    assert any(
        first.id in notice.message and "can no longer be read" in notice.message
        for notice in notices
    )
    assert store.summary(first.id).state == "failed"
    assert (await ended(store, second.id)).state == "finished"


async def test_carrying_out_again_changes_nothing(store: RunStore, make: Make) -> None:
    record = make(COUNTED)
    await start(record, store)
    again = [event.type async for event in continue_launch(record.id, HOST, store)]
    assert "step" not in again
    await ended(store, record.id)
    assert [event async for event in continue_launch(record.id, HOST, store)] == []
    assert starts(store) == 1


def test_a_spec_needs_no_tmux_to_be_made() -> None:
    assert RunSpec("rollouts", "n", "/w").secrets == ()
