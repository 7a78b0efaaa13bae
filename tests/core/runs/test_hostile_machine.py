"""A machine whose files hold anything: it is told in words, costs a bounded amount, and the rest of
the run is still shown."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from hudtui.core.errors import MachineError
from hudtui.core.pattern import Pattern
from hudtui.core.remote.host import Completed, Disconnected, FileStat
from hudtui.core.remote.local import LocalHost
from hudtui.core.remote.log_search import search_log
from hudtui.core.runs import reconcile as reconcile_module
from hudtui.core.runs import results as results_module
from hudtui.core.runs import run_folder as machine_module
from hudtui.core.runs import watch as monitor_module
from hudtui.core.runs.reconcile import reconcile_runs
from hudtui.core.runs.results import fetch_results
from hudtui.core.runs.run_folder import RunFolder
from hudtui.core.runs.status import GpuLoad, RunView
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.values import RunSummary
from hudtui.core.runs.watch import Monitor
from hudtui.core.training.metrics import MetricsReader

Make = Callable[..., RunRecord]
BEGUN = {"seq": 1, "at": 1000.0, "type": "started", "data": {"mode": "processes"}}


@pytest.fixture
def folder(store: RunStore, make: Make) -> Path:
    """The folder of a run `a-1` that goes on, as its machine keeps it."""
    record = make("true", run="a-1")
    store.add(record)
    there = Path(record.folder)
    (there / "out").mkdir(parents=True)
    (there / "logs").mkdir()
    (there / "logs" / "s0.log").write_text("hello\n")
    (there / "events.jsonl").write_text(json.dumps(BEGUN) + "\n")
    (there / "out" / "metrics.jsonl").write_text('{"task": "t0", "reward": 1.0}\n')
    (there / "status.json").write_text('{"stages": {"s0": {"state": "running"}}}')
    return there


STAGE = '{"stages": {"s0": %s}}'


@pytest.mark.parametrize(
    "text",
    [
        STAGE % '{"started": NaN}',
        STAGE % '{"started": 1e400}',
        STAGE % '{"started": 1e300}',
        STAGE % '{"ended": "yesterday"}',
        STAGE % '{"state": ["running"]}',
        STAGE % '{"attempt": [1]}',
        STAGE % "3",
        '{"stages": ["s0"]}',
        '{"heartbeat": {}}',
        '{"disk_free": -1}',
        "[" * 1_000_000,
        '{"more": ' + "[" * 100_000 + "]" * 100_000 + "}",
        "[]",
        "no JSON",
        '"' + "x" * 2_000_000 + '"',
    ],
    ids=lambda text: text[:30],
)
async def test_a_status_that_is_none_is_told_and_the_rest_is_shown(
    store: RunStore, folder: Path, text: str
) -> None:
    (folder / "status.json").write_text(text)
    view = await Monitor(store).view("a-1")
    assert view.problem is not None and view.problem.startswith(
        "status.json of the machine is not readable: "
    )
    assert view.problem.isprintable() and len(view.problem) < 400
    assert view.summary.state == "running" and view.result.reward == 1.0
    assert json.loads(json.dumps(view.to_json()))["problem"] == view.problem


@pytest.mark.parametrize(
    "name", ["status.json", "events.jsonl", "out/metrics.jsonl", "logs/s0.log", "gpu.jsonl"]
)
@pytest.mark.parametrize("kind", ["endless", "pipe", "folder"])
async def test_what_is_no_ordinary_file_is_not_read(
    store: RunStore, folder: Path, name: str, kind: str
) -> None:
    path = folder / name
    path.unlink(missing_ok=True)
    if kind == "endless":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    view = await Monitor(store).view("a-1")
    assert (
        view.problem is not None
        and "it is not a regular file" in view.problem
        and Path(name).name in view.problem
    )
    assert [run.id for run in await Monitor(store).refresh()] == ["a-1"]
    if name == "logs/s0.log":
        with pytest.raises(MachineError, match="is not read"):
            await Monitor(store).log("a-1", "s0").tail()
        with pytest.raises(MachineError, match="is not read"):
            [chunk async for chunk in Monitor(store).log("a-1", "s0").read()]


async def test_of_many_events_the_newest_are_taken(
    store: RunStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_module, "_EVENTS", 100_000)
    notes = (
        {"seq": n, "at": 1000.0, "type": "note", "data": {"message": f"n{n}"}}
        for n in range(2, 20_000)
    )
    end = {"seq": 20_000, "at": 2000.0, "type": "finished", "data": {}}
    (folder / "events.jsonl").write_text(
        "".join(json.dumps(event) + "\n" for event in (BEGUN, *notes, end))
    )
    view = await Monitor(store).view("a-1")
    assert view.summary.state == "finished" and view.summary.ended == 2000.0
    assert 500 < len(store.events("a-1")) < 2_000
    assert view.summary.unreadable == 0, (
        "the line that is cut by the window is not taken for a bad one"
    )


async def test_a_long_line_of_events_is_one_bad_record(store: RunStore, folder: Path) -> None:
    machine = RunFolder(LocalHost(), store.record("a-1"))
    with (folder / "events.jsonl").open("a") as stream:
        for _ in range(10):  # looked at while it grows
            stream.write("x" * 50_000)
            stream.flush()
            await machine.sync(store)
        stream.write("\n" + json.dumps({**BEGUN, "seq": 2, "type": "finished", "data": {}}) + "\n")
    await machine.sync(store)
    summary = store.summary("a-1")
    assert (
        summary.state == "finished"
        and "longer than 64 KiB" in str(summary.passed_over)
        and summary.unreadable == 1
    )


async def test_of_long_metrics_the_newest_are_read(
    store: RunStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_module, "_METRICS_LOOK", 50_000)
    rows = [json.dumps({"step": n, "reward": 1.0, "name": "x" * 50}) for n in range(5_000)]
    (folder / "out" / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    monitor = Monitor(store)
    view = await monitor.view("a-1")
    assert view.step == "4999" and 300 < len(view.metrics.series("reward")) < 700
    assert view.problem is not None and "of its metrics are not read" in view.problem
    with (folder / "out" / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 5000, "reward": 2.0}\n')
    assert (await monitor.view("a-1")).step == "5000"


async def test_numbers_that_are_none_leave_the_result_readable(
    store: RunStore, folder: Path
) -> None:
    odd = [
        '{"task": "t1", "reward": NaN}',
        '{"task": "t2", "reward": 1e400}',
        '{"task": "t3", "reward": 1, "episodes": 1e400}',
    ]
    odd += [
        '{"task": "t4", "reward": 1, "turns": NaN}',
        '{"step": 1, "reward": 1e308, "max_steps": 1e308, "step_time": 1e308}',
    ]
    odd += ['{"' + "n" * 1000 + '": 1}', "[" * 100_000]
    (folder / "out" / "metrics.jsonl").write_text("\n".join(odd) + "\n")
    (folder / "gpu.jsonl").write_text(
        '{"at": 1e400, "gpus": [{"index": NaN, "utilization": 1e400}, 3]}\n{"gpus": 1}\n'
    )
    view = await Monitor(store).view("a-1")
    json.dumps(view.to_json(), allow_nan=False)
    assert [row.task for row in view.result.rows] == ["t3", "t4"] and view.result.reward == 1.0
    assert all(len(name) <= 200 for name in view.metrics.names)


class Says(LocalHost):
    """A machine whose commands print what they are told."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def run(self, argv: Sequence[str], **_: Any) -> Completed:
        return Completed(tuple(argv), 0, self.text, "")


@pytest.mark.parametrize(
    "answer",
    [
        "[]",
        "3",
        '{"stages": 3}',
        '{"processes": "all"}',
        '{"supervisor": []}',
        "[" * 100_000,
        '{"status": 1}',
    ],
    ids=lambda text: text[:30],
)
async def test_an_answer_of_the_supervisor_that_is_none(
    store: RunStore, folder: Path, answer: str
) -> None:
    with pytest.raises(MachineError):
        await RunFolder(Says(answer), store.record("a-1")).status()


@pytest.mark.parametrize(
    "answer",
    ["{}", "[3]", '[["out/x", "many", ""]]', '[["out/x", -1, ""]]', "[" * 100_000, '[["x"]]'],
    ids=lambda text: text[:30],
)
async def test_a_list_of_results_that_is_none(
    store: RunStore, folder: Path, tmp_path: Path, answer: str
) -> None:
    with pytest.raises(MachineError, match="could not list the results"):
        await fetch_results(RunFolder(Says(answer), store.record("a-1")), tmp_path / "home")


async def test_only_what_the_plan_names_comes_home(
    store: RunStore, folder: Path, tmp_path: Path
) -> None:
    import hashlib

    (folder / "out" / "x\x1b[2J").write_text("x")
    names = [
        "out/metrics.jsonl",
        "events.jsonl",
        "logs/s0.log",
        "supervisor.py",
        "out/x\x1b[2J",
        "out/\n",
        "../etc",
        "/etc/passwd",
    ]
    names += [
        "logs/../../x",
        "logs//x",
        "out",
        "outer/x",
        ".ssh/authorized_keys",
        "logs/" + "d/" * 40 + "x",
    ]
    contents = {
        name: (folder / name).read_bytes() if (folder / name).is_file() else b"12345"
        for name in names
    }
    listed = [
        [name, len(content), hashlib.sha256(content).hexdigest()]
        for name, content in contents.items()
    ]
    home = tmp_path / "home"
    record = replace(store.record("a-1"), host="elsewhere")
    found = await fetch_results(RunFolder(Says(json.dumps(listed)), record), home)
    came = sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
    assert came == ["events.jsonl", "logs/s0.log", "out/metrics.jsonl"] and found.files == 3
    assert len(found.skipped) == len(names) - 3 and found.skipped_text is not None
    assert found.skipped_text.isprintable() and "supervisor.py" in found.skipped_text


async def test_results_that_do_not_fit_are_not_begun_with(
    store: RunStore, folder: Path, tmp_path: Path
) -> None:
    listed = [["out/metrics.jsonl", 2**52, "0" * 64]]
    with pytest.raises(MachineError, match="do not fit here"):
        await fetch_results(
            RunFolder(Says(json.dumps(listed)), store.record("a-1")), tmp_path / "home"
        )
    assert not (tmp_path / "home").exists()


async def test_results_without_end_are_not_hashed(
    store: RunStore, folder: Path, tmp_path: Path
) -> None:
    with (folder / "logs" / "s0.log").open("wb") as stream:
        stream.truncate(2**43)  # takes no room, and days to read
    with pytest.raises(MachineError, match=r"do not fit here: they take 8\.0 TiB"):
        await fetch_results(
            RunFolder(LocalHost(), replace(store.record("a-1"), host="elsewhere")),
            tmp_path / "home",
        )


async def test_a_record_that_is_none_is_shown(store: RunStore, folder: Path) -> None:
    with (folder / "events.jsonl").open("a") as stream:
        stream.write('{"seq": 90, "at": 1, "type": "machine", "data": {"kind": []}}\n')
    view = await Monitor(store).view("a-1")
    assert (
        view.problem
        == "1 record of the machine was not readable: a machine cannot report an event 'machine'"
    )
    os.utime(folder / "events.jsonl", (time.time(), time.time()))
    again = await Monitor(RunStore(store.state_dir)).view("a-1")
    assert again.problem == view.problem and again.summary.state == "running"


class Away(LocalHost):
    """A machine that can be cut off: it refuses, or says nothing at all."""

    def __init__(self) -> None:
        self.cut: str | None = None

    async def stat(self, path: PurePosixPath | str) -> FileStat | None:
        if self.cut == "silent":
            await asyncio.Event().wait()
        if self.cut is not None:
            raise Disconnected("the connection was lost")
        return await super().stat(path)


@pytest.mark.parametrize("how", ["lost", "silent"])
async def test_a_watcher_outlives_an_outage_and_says_for_how_long(
    store: RunStore, folder: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(monitor_module, "_LATE", 0.2)
    host = Away()
    aways: list[float] = []
    async with aclosing(Monitor(store, hosts=lambda name: host).watch("a-1", every=0.02)) as views:
        async for view in views:
            if view.away is not None:
                aways.append(view.away)
                assert view.result.reward == 1.0 and view.left is None
                assert view.summary.state == "running" or not host.cut
                if view.away > 0.5 and host.cut:
                    host.cut = None
                    if how == "silent":
                        break  # the look that hangs is given up with the watcher
                    with (folder / "events.jsonl").open("a") as stream:
                        stream.write('{"seq": 2, "at": 2000, "type": "finished", "data": {}}\n')
            elif not aways:
                host.cut = how
    assert aways == sorted(aways) and aways[-1] > 0.5
    if how == "lost":
        assert view.away is None and view.summary.state == "finished", "all is live again"


async def test_the_first_look_at_a_machine_that_is_away_is_told(
    store: RunStore, folder: Path
) -> None:
    host = Away()
    host.cut = "lost"
    with pytest.raises(Disconnected):
        async with aclosing(Monitor(store, hosts=lambda name: host).watch("a-1")) as views:
            await anext(views)


async def test_the_result_of_a_training_are_its_steps(store: RunStore, folder: Path) -> None:
    rows = [
        {"step": n, "reward": n / 10, "reward_std": 0.1, "loss": 0.5, "step_time": 2.0}
        for n in range(1, 5)
    ]
    (folder / "out" / "metrics.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in [*rows, {"step": 5, "reward": 0.7}])
    )
    view = await Monitor(store).view("a-1")
    assert [(row.step, row.reward, row.reward_std) for row in view.result.steps[-2:]] == [
        (4.0, 0.4, 0.1),
        (5.0, 0.7, None),
    ]
    assert view.result.rows == () and view.result.reward is None and view.reward == 0.7
    assert view.to_json()["result"]["steps"][0]["loss"] == 0.5


def test_what_is_busy_has_a_fixed_scale() -> None:
    load = MetricsReader()
    load.add(
        {"GPU 0 busy %": 43.0, "GPU 0 GiB": 40.0, "serve running": 3.0, "serve KV cache %": 10.0}
    )
    view = RunView(
        RunSummary("a", "a", "trl", "local", "/f"),
        load=load,
        gpus=(GpuLoad(0, 40_960, 81_920, 43.0),),
    )
    assert view.scales == {
        "GPU 0 busy %": (0.0, 100.0),
        "GPU 0 GiB": (0.0, 80.0),
        "serve running": (0.0, None),
        "serve KV cache %": (0.0, 100.0),
    }


_TRACEBACK = """Traceback (most recent call last):
  File "/root/.hudtui/runs/a-1/supervisor.py", line 1390, in <module>
    sys.exit(main(sys.argv[1:]))
             ^^^^^^^^^^^^^^^^^^
AttributeError: 'list' object has no attribute 'items'
"""


class Fails(LocalHost):
    """A machine whose commands break down."""

    async def run(self, argv: Sequence[str], **_: Any) -> Completed:
        return Completed(tuple(argv), 1, "", _TRACEBACK)


@pytest.mark.parametrize("what", ["status", "results", "search"])
async def test_a_traceback_of_the_machine_is_no_message(
    store: RunStore, folder: Path, tmp_path: Path, what: str
) -> None:
    record = replace(store.record("a-1"), host="elsewhere")
    with pytest.raises(MachineError) as caught:
        if what == "status":
            await RunFolder(Fails(), record).status()
        elif what == "results":
            await fetch_results(RunFolder(Fails(), record), tmp_path / "home")
        else:
            (tmp_path / "x.log").write_text("x")
            [match async for match in search_log(Fails(), str(tmp_path / "x.log"), Pattern("x"))]
    told = " ".join(caught.value.lines())
    assert (
        "Traceback" not in told
        and "supervisor.py" not in told
        and "'list' object has no attribute 'items'" in told
    )


class Hangs(LocalHost):
    """A machine that is connected, and answers nothing about files."""

    name = "elsewhere"

    async def stat(self, path: PurePosixPath | str) -> FileStat | None:
        await asyncio.Event().wait()
        return None


async def test_silent_machines_cost_one_wait_in_all(
    store: RunStore, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(monitor_module, "PATIENCE", 1.0)
    for number in range(20):
        store.add(make("true", run=f"b-{number}", host=f"box{number % 4}"))
    monitor, began = Monitor(store, hosts=lambda name: Hangs()), time.monotonic()
    runs = await monitor.refresh()
    seen = [view async for view in monitor.views(run.id for run in runs)]
    assert len(runs) == 20 and seen == [] and time.monotonic() - began < 10.0, (
        "not once for each run"
    )
    with pytest.raises(MachineError, match="did not answer within 1 s"):
        await monitor.require_answer("b-3")


async def test_a_single_look_waits_as_long_as_it_is_told(store: RunStore, make: Make) -> None:
    store.add(make("true", run="b-1", host="box"))
    with pytest.raises(MachineError, match=r"box did not answer within 0\.2 s"):
        await Monitor(store, hosts=lambda name: Hangs()).view("b-1", within=0.2)


async def test_a_supervisor_that_does_not_answer_is_told_and_others_are_looked_at(
    store: RunStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(LocalHost):
        name = "box"

        async def run(self, argv: Sequence[str], **_: Any) -> Completed:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr(reconcile_module, "_ANSWERS", 0.3)
    notices = await reconcile_runs(store, hosts=lambda name: Slow())
    assert [notice.message for notice in notices] == [
        "run a-1: the supervisor on box did not answer within 0.3 s"
    ]


async def test_a_machine_that_lists_without_a_word_is_given_up(
    store: RunStore, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(LocalHost):
        async def run(self, argv: Sequence[str], **more: Any) -> Completed:
            return await super().run(["sleep", "600"], **more)

    monkeypatch.setattr(results_module, "_SILENCE", 0.3)
    with pytest.raises(MachineError, match=r"printed nothing for 0\.3 s, and was ended"):
        await fetch_results(
            RunFolder(Slow(), replace(store.record("a-1"), host="elsewhere")), tmp_path / "home"
        )
