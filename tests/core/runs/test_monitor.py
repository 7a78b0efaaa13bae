from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from hudtui.core.errors import InputError, MachineError, RunError
from hudtui.core.pattern import Pattern
from hudtui.core.remote.host import Completed, FileStat
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs import watch
from hudtui.core.runs.event_text import event_text
from hudtui.core.runs.launch import launch, stop_run
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.watch import Monitor, acknowledge
from hudtui.core.training.plan import Continuation

Make = Callable[..., RunRecord]
HOST = LocalHost()


async def start(record: RunRecord, store: RunStore, **more: Any) -> None:
    async for _ in launch(record, HOST, store, **more):
        pass


async def test_a_log_is_followed_to_the_end_of_the_run(store: RunStore, make: Make) -> None:
    record = make("for i in $(seq 30); do echo line $i; sleep 0.03; done", "echo second")
    await start(record, store)
    monitor, data = Monitor(store), b""
    async for chunk in monitor.log(record.id, "s0").follow():
        assert chunk.offset == len(data)
        data += chunk.data
    assert data == b"".join(b"line %d\n" % number for number in range(1, 31))
    assert store.summary(record.id).state == "finished"
    assert [chunk.data async for chunk in monitor.log(record.id, "s1").follow()] == [b"second\n"]
    assert [
        chunk.data async for chunk in monitor.log(record.id, "s0").follow(offset=len(data) - 8)
    ] == [b"line 30\n"]


async def test_following_goes_on_where_another_app_left_off(store: RunStore, make: Make) -> None:
    record = make("for i in $(seq 20); do echo line $i; sleep 0.05; done")
    await start(record, store)
    seen = b""
    async with aclosing(Monitor(store).log(record.id).follow()) as chunks:
        async for chunk in chunks:
            seen += chunk.data
            if b"line 5\n" in seen:
                break
    async for chunk in Monitor(RunStore(store.state_dir)).log(record.id).follow(offset=len(seen)):
        seen += chunk.data
    assert seen == b"".join(b"line %d\n" % number for number in range(1, 21))


async def test_lines_that_match_are_found_before_and_after_the_search_ends(
    store: RunStore, make: Make, tmp_path: Path
) -> None:
    more = tmp_path / "more"
    script = f"printf 'INFO a\\nERROR bad\\n  frame 1\\n'; until [ -e {more} ]; do sleep 0.05; done"
    record = make(script + "; printf '  frame 2\\nINFO on\\nERROR last'")
    await start(record, store)
    monitor, found = Monitor(store), []
    while await monitor.log(record.id).tail(lines=1) == 0:  # noqa: ASYNC110  # until there is a line before the last one
        await asyncio.sleep(0.05)
    async with aclosing(
        monitor.log(record.id).follow_lines(pattern=Pattern("error|frame", regex=True))
    ) as batches:
        async for batch in batches:
            found += batch.done
            if "  frame 1" in found:
                more.touch()
    assert found == ["ERROR bad", "  frame 1", "  frame 2", "ERROR last"]


async def test_a_view_shows_everything(store: RunStore, make: Make) -> None:
    lines = [
        {"step": n + 1, "task": f"t{n}", "reward": n / 2, "turns": 4, "episodes": 2, "errors": n}
        for n in range(3)
    ]
    script = "".join(f"echo '{json.dumps(line)}' >> out/metrics.jsonl; " for line in lines)
    record = make(script + 'printf \'{"step": 4, "rew\' >> out/metrics.jsonl', "sleep 60")
    await start(record, store)
    monitor = Monitor(store)
    async with aclosing(monitor.watch(record.id, every=0.05)) as views:
        async for view in views:
            if view.stages[1].state == "running":
                break
    assert [stage.state for stage in view.stages] == ["ended", "running"]
    assert view.windows == ("s0", "s1")
    assert (view.stages[0].exit, view.stages[0].attempt) == (0, 1) and view.stages[1].pid
    assert [point.y for point in view.metrics.series("reward")] == [0.0, 0.5, 1.0]
    assert [row.task for row in view.result.rows] == ["t0", "t1", "t2"]
    assert (view.result.reward, view.result.episodes, view.result.errors) == (0.5, 6, 3)
    assert view.elapsed is not None and view.elapsed > 0
    assert view.silent is not None and view.silent < 10 and not view.worrying
    assert view.disk_free and view.attach == (
        "tmux",
        "attach-session",
        "-t",
        f"=hudtui-{record.id}",
    )
    with (Path(record.folder) / "out" / "metrics.jsonl").open("a") as stream:
        stream.write('ard": 9, "task": "t3"}\n')
    assert (await monitor.view(record.id)).result.rows[-1].reward == 9.0
    # Written anew by a second attempt, and longer than before.
    (Path(record.folder) / "out" / "metrics.jsonl").write_text(
        "".join(json.dumps({"reward": 1, "pad": "x" * 300}) + "\n" for _ in range(5))
    )
    assert [point.y for point in (await monitor.view(record.id)).metrics.series("reward")] == [
        1.0
    ] * 5
    await stop_run(record.id, HOST, store)
    async for view in monitor.watch(record.id):
        assert view.summary.state == "stopped" and view.silent is None and view.attach is None
    json.dumps(view.to_json())


@pytest.mark.parametrize("hours", [2, -2])
async def test_a_wrong_clock_is_no_silence(store: RunStore, make: Make, hours: int) -> None:
    class Elsewhere(LocalHost):
        name = "elsewhere"

    record = make("sleep 60")
    await start(record, store)
    later = Monitor(store, hosts=lambda name: Elsewhere(), now=lambda: time.time() + 3600 * hours)
    view = await later.view(record.id)
    assert not view.worrying and view.silent is not None and view.silent < 60
    assert view.elapsed is not None and view.elapsed < 60 and abs(view.ahead - 3600 * hours) < 30
    await stop_run(record.id, HOST, store)


async def test_a_time_that_cannot_be_is_not_believed(store: RunStore, make: Make) -> None:
    class Elsewhere(LocalHost):
        name, says = "elsewhere", ""

        async def run(self, argv: Sequence[str], **more: Any) -> Completed:
            if argv[0] == "date":
                return Completed(tuple(argv), 0, f"{self.says}\n", "")
            return await super().run(argv, **more)

    record, host = make("sleep 60"), Elsewhere()
    await start(record, store)
    for host.says in ("inf", "nan", "-5", "9" * 400, "today"):
        view = await Monitor(store, hosts=lambda name: host, now=lambda: time.time() + 7200).view(
            record.id
        )
        assert view.ahead == 0.0 and view.elapsed is not None and view.elapsed > 7000
    await stop_run(record.id, HOST, store)


async def test_an_acknowledged_alarm_counts_again_when_it_comes_anew(
    store: RunStore, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SETTINGS_AGAIN", 0.0)
    monkeypatch.setenv("HUDTUI_ALARM_DISK_GIB", "10000")
    record, monitor = make("sleep 60"), Monitor(store)
    await start(record, store)

    async def disk(monitor: Monitor) -> list[bool]:
        return [
            alarm.acknowledged
            for alarm in (await monitor.view(record.id)).alarms
            if alarm.kind == "disk"
        ]

    assert await disk(monitor) == [False]
    with pytest.raises(InputError, match="no alarm 'dsik'"):
        await acknowledge(await monitor.view(record.id), store, ["dsik"])
    assert await acknowledge(await monitor.view(record.id), store, ["constant-reward"]) == ()
    (alarm,) = await acknowledge(await monitor.view(record.id), store, ["disk"])
    assert (
        alarm.kind == "disk"
        and await disk(monitor) == [True]
        and await disk(Monitor(store)) == [True]
    )
    assert "alarms are acknowledged: disk" in map(event_text, store.events(record.id))
    await acknowledge(await monitor.view(record.id), store, undo=True)
    assert await disk(monitor) == [False]
    await acknowledge(await monitor.view(record.id), store)
    assert await disk(monitor) == [True]
    other = Monitor(store)
    monkeypatch.setenv("HUDTUI_ALARM_DISK_GIB", "none")
    assert await disk(other) == [], "another threshold"
    monkeypatch.setenv("HUDTUI_ALARM_DISK_GIB", "10000")
    assert await disk(Monitor(store)) == [True], (
        "who has not seen the alarm does not know that it is gone"
    )
    events = len(store.events(record.id))
    monkeypatch.setenv("HUDTUI_ALARM_DISK_GIB", "none")
    assert await disk(monitor) == []
    monkeypatch.setenv("HUDTUI_ALARM_DISK_GIB", "10000")
    assert await disk(monitor) == [False], "it has come anew"
    assert await disk(Monitor(store)) == [True] and len(store.events(record.id)) == events, (
        "whoever looks on takes nothing back"
    )
    await acknowledge(await monitor.view(record.id), store)
    assert await disk(monitor) == [True] and await disk(monitor) == [True]
    await stop_run(record.id, HOST, store)


async def test_the_memory_of_the_machine_is_watched(
    store: RunStore, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = tmp_path / "loads.jsonl"

    class Loaded(LocalHost):
        async def stat(self, path: PurePosixPath | str) -> FileStat | None:
            return await super().stat(loads if Path(path).name == "gpu.jsonl" else path)

        async def get(self, path: PurePosixPath | str, **part: Any) -> bytes:
            return await super().get(loads if Path(path).name == "gpu.jsonl" else path, **part)

    async def alarms(gib: int, percent: str) -> list[str]:
        load = {"memory_used": gib * 2**30, "memory_total": 32 * 2**30}
        loads.write_text(json.dumps({"at": time.time(), "machine": load}) + "\n")
        monkeypatch.setenv("HUDTUI_ALARM_MEMORY_PERCENT", percent)
        view = await Monitor(store, hosts=lambda name: Loaded()).view(record.id)
        return [alarm.text for alarm in view.alarms if alarm.kind == "memory"]

    record = make("sleep 60")
    await start(record, store)
    assert await alarms(31, "95") == ["97% of the machine's memory of 32.0 GiB is in use"]
    assert await alarms(31, "none") == await alarms(8, "95") == []
    assert await alarms(8, "25") == ["25% of the machine's memory of 32.0 GiB is in use"]
    await stop_run(record.id, HOST, store)


async def test_a_continued_training_counts_the_steps_that_it_was_asked_for(
    store: RunStore, make: Make
) -> None:
    made = make()
    continued = Continuation("first", 3)
    record = replace(
        made, spec=replace(made.spec, engine="trl", training={"steps": 6}, continues=continued)
    )
    store.add(record)
    metrics = Path(record.folder) / "out" / "metrics.jsonl"
    metrics.parent.mkdir(parents=True)
    metrics.write_text(
        "".join(
            json.dumps({"step": step, "max_steps": 3, "reward": 0.5}) + "\n" for step in (1, 2, 3)
        )
    )
    monitor = Monitor(store)
    assert (await monitor.view(record.id)).step == "3/6", (
        "the metrics are those of the earlier training"
    )
    with metrics.open("a") as stream:
        stream.write(json.dumps({"step": 4, "max_steps": 5, "reward": 0.5}) + "\n")
    assert (await monitor.view(record.id)).step == "4/5", "what the trainer says itself counts"


async def test_silence_is_noticed(store: RunStore, make: Make) -> None:
    record = make("sleep 60")
    await start(record, store)
    later = Monitor(store, now=lambda: time.time() + 100)
    view = await later.view(record.id)
    assert view.worrying and view.silent is not None and view.silent > 90
    await stop_run(record.id, HOST, store)
    assert not (await later.view(record.id)).worrying


async def test_all_runs_are_refreshed(store: RunStore, make: Make) -> None:
    first, second = make("echo a"), make("echo b")
    for record in (first, second):
        await start(record, store)
    store.add(make(run="pod-1", host="pod:hudtui-nobody-knows"))
    monitor = Monitor(store)
    for _ in range(400):
        runs = {run.id: run.state for run in await monitor.refresh()}
        if runs[first.id] == runs[second.id] == "finished":
            break
        await asyncio.sleep(0.02)
    assert runs == {first.id: "finished", second.id: "finished", "pod-1": "planned"}
    with pytest.raises(MachineError, match="is not known here"):
        await monitor.view("pod-1")


async def test_a_run_that_never_began_can_be_looked_at(store: RunStore, make: Make) -> None:
    record = make("true")
    store.add(record)
    view = await Monitor(store).view(record.id)
    assert view.summary.state == "planned" and view.elapsed is None and view.silent is None
    assert [stage.state for stage in view.stages] == ["waiting"]
    assert [chunk async for chunk in Monitor(store).log(record.id).read()] == []
    assert await Monitor(store).log(record.id).tail() == 0


async def test_windows_that_are_none_are_refused(store: RunStore, make: Make) -> None:
    store.add(make("true", "true", run="a-1"))
    with pytest.raises(RunError, match="no window 'zzz'") as caught:
        await Monitor(store).log("a-1", "zzz").tail()
    assert caught.value.fix == "Its windows: s0, s1."


async def test_the_last_page_comes_from_the_end(store: RunStore, make: Make) -> None:
    record = make("seq 100000")
    await start(record, store)
    monitor = Monitor(store)
    async for _ in monitor.log(record.id).follow():
        pass
    offset = await monitor.log(record.id).tail(lines=3)
    assert (
        b"".join([chunk.data async for chunk in monitor.log(record.id).read(offset=offset)])
        == b"99998\n99999\n100000\n"
    )


async def test_what_another_process_keeps_is_seen_at_once(store: RunStore, make: Make) -> None:
    record = make("sleep 60")
    await start(record, store)
    monitor = Monitor(store)
    await monitor.view(record.id)
    for place in range(20):
        RunStore(store.state_dir).append(record.id, "note", {"message": f"note {place}"})
        view = await monitor.view(record.id)
        assert view.summary.notes[-1] == f"note {place}" and f"note {place}" in [
            event.data.get("message") for event in view.events
        ]
    await stop_run(record.id, HOST, store)


async def test_many_runs_are_viewed_in_a_few_reads_of_the_store(
    store: RunStore, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"a-{number}" for number in range(12)]
    for name in names:
        store.add(make(run=name))
    past = time.time() - 10
    for file in store.state_dir.glob("runs.db*"):
        os.utime(file, (past, past))  # the last change is long ago
    opened, connect = [], sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **more: opened.append(args) or connect(*args, **more)
    )
    monitor = Monitor(RunStore(store.state_dir))
    views = [view.summary.id async for view in monitor.views([*names, "none"])]
    assert sorted(views) == sorted(names)
    assert len(opened) < len(names)
