from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.compute.costs import pod_cost
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.values import Offer, Order, Price
from hudtui.core.errors import InputError, RunError
from hudtui.core.runs.reports import read_report
from hudtui.core.runs.spec import Rental
from hudtui.core.runs.store import MOST_REPORTS, RunRecord, RunStore, results_folder_of
from hudtui.core.runs.values import MOST_UNREADABLE, RunEvent, RunSummary, fold

Make = Callable[..., RunRecord]


def machine(seq: int, kind: str, at: float = 1000.0, /, **data: Any) -> dict[str, Any]:
    return {"seq": seq, "at": at, "type": kind, "data": data}


def test_looking_leaves_no_trace(store: RunStore) -> None:
    assert store.runs() == () and store.ids() == () and store.events("x") == ()
    assert not store.state_dir.exists()
    with pytest.raises(RunError, match="no runs in this workspace"):
        store.find(None)


def test_a_run_is_kept_with_its_plan(store: RunStore, make: Make) -> None:
    record = make("echo ü", run="a-1")
    event = store.add(record)
    assert (event.type, event.run, event.origin) == ("planned", "a-1", "app")
    assert store.record("a-1") == record
    assert store.summary("a-1").state == "planned"
    assert (store.state_dir / ".gitignore").exists()
    with pytest.raises(RunError, match="already"):
        store.add(record)
    with pytest.raises(RunError, match="no run 'b'"):
        store.record("b")
    with pytest.raises(RunError, match="no run 'b'"):
        store.append("b", "step")


@pytest.mark.parametrize("simulated", [True, False])
def test_a_run_tells_whether_its_machine_is_simulated(
    store: RunStore, make: Make, simulated: bool
) -> None:
    made = make(run="a-1")
    offer = Offer("prime", "x", "H100_80GB", 1, Price(2.0))
    offer = replace(offer, raw={"simulated": True})  # the provider's words decide nothing
    rent = Rental("prime", 'named "simulated": true', offer, 2.0, simulated=simulated)
    store.add(replace(made, spec=replace(made.spec, rent=rent)))
    summary = store.summary("a-1")
    assert (
        summary.simulated is simulated is summary.to_json()["simulated"]
        and bool(summary.cost_note) is simulated
    )


def test_events_are_folded_in_order(store: RunStore, make: Make) -> None:
    store.add(make(run="a-1"))
    store.append("a-1", "step", {"name": "files"})
    assert store.summary("a-1").state == "starting"
    store.mirror(
        "a-1", [machine(1, "started", mode="tmux"), machine(2, "stage_started", stage="s0")]
    )
    summary = store.summary("a-1")
    assert (summary.state, summary.mode, summary.stage, summary.started) == (
        "running",
        "tmux",
        "s0",
        1000.0,
    )
    assert summary.elapsed(1003.5) == 3.5
    store.append("a-1", "stop_requested")
    assert store.summary("a-1").state == "stopping"
    store.mirror("a-1", [machine(3, "stopping"), machine(4, "stopped", 1010.0, why="on request")])
    summary = store.summary("a-1")
    assert (summary.state, summary.why, summary.ended, summary.active) == (
        "stopped",
        "on request",
        1010.0,
        False,
    )
    assert summary.elapsed(9999.0) == 10.0
    assert [event.type for event in store.events("a-1")][:2] == ["planned", "step"]
    assert summary.to_json()["elapsed_seconds"] == 10.0


def test_the_same_word_of_the_machine_counts_once(store: RunStore, make: Make) -> None:
    store.add(make(run="a-1"))
    store.add(make(run="b-1"))
    lines = [machine(1, "started", mode="processes"), machine(2, "note", message="no tmux")]
    assert len(store.mirror("a-1", lines)) == 2
    assert store.mirror("a-1", lines) == ()
    assert len(store.mirror("a-1", [*lines, machine(3, "finished")])) == 1
    assert len(store.mirror("b-1", lines)) == 2
    assert store.summary("a-1").notes == ("no tmux",)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({}, "seq"),
        ([], "object"),
        ({"seq": "1", "at": 0, "type": "note", "data": {}}, "seq"),
        ({"seq": True, "at": 0, "type": "note", "data": {}}, "seq"),
        ({"seq": 1, "at": 0, "type": 3, "data": {}}, "type"),
        ({"seq": 1, "at": 0, "type": "note", "data": []}, "data"),
        (machine(90, "note", 1e300), "1e10|10000000000"),
        (machine(90, "note", -1.0), ">="),
        (machine(90, "machine", kind=[]), "cannot report an event 'machine'"),
        (machine(90, "machine", kind="released", hourly="abc"), "cannot report an event 'machine'"),
        (machine(90, "step", folder="~/.ssh"), "cannot report an event 'step'"),
        (machine(90, "removed"), "cannot report an event 'removed'"),
        (machine(90, "x\x1b]0;y\x07"), "cannot report an event 'x'"),
        (machine(90, "started", mode=["tmux"]), "mode"),
        (machine(90, "note", message="x" * 5000), "4000"),
        (machine(90, "stage_ended", exit=float("nan")), "exit"),
        (machine(90, "finished", exits={str(n): 0 for n in range(100)}), "64"),
    ],
)
def test_a_record_that_is_no_event_of_a_machine_is_counted_and_skipped(
    store: RunStore, make: Make, line: Any, why: str
) -> None:
    store.add(make(run="a-1"))
    before = store.summary("a-1")
    for _ in range(2):  # also when it is read again
        assert store.mirror("a-1", [line]) == ()
    summary = RunStore(store.state_dir).summary("a-1")
    assert summary.unreadable == 1 and summary.passed_over is not None
    assert re.search(f"1 record of the machine was not readable: .*({why})", summary.passed_over)
    assert summary.passed_over.isprintable()
    told = (before.state, before.machine, before.results, before.removed)
    assert (summary.state, summary.machine, summary.results, summary.removed) == told
    store.mirror("a-1", [machine(91, "started", mode="tmux")])
    assert store.summary("a-1").state == "running", "the next record is read"


def test_lines_of_a_machine_are_read_one_by_one(store: RunStore, make: Make) -> None:
    store.add(make(run="a-1"))
    deep = (
        b'{"seq": 1, "at": 1, "type": "note", "data": {"message": '
        + b"[" * 20_000
        + b"]" * 20_000
        + b"}}"
    )
    nan = b'{"seq": 2, "at": NaN, "type": "note", "data": {}}'
    wide = b'{"seq": 3, "at": 1, "type": "note", "data": {"message": "' + b"x" * 70_000 + b'"}}'
    good = (
        b'{"seq": 4, "at": 1, "type": "started", "data": {"mode": "tmux", "more": {"is": "left '
        b'out"}}}'
    )
    events = store.mirror(
        "a-1", [read_report(line) for line in (deep, b'{"seq": 1, "at', nan, wide, good)]
    )
    assert [(event.type, event.data) for event in events] == [("started", {"mode": "tmux"})]
    assert store.summary("a-1").unreadable == 4 and "4 records" in str(
        store.summary("a-1").passed_over
    )


def test_a_machine_that_never_ceases_to_report_fills_nothing(store: RunStore, make: Make) -> None:
    store.add(make(run="a-1"))
    store.mirror(
        "a-1",
        (machine(number, "note", message=f"n{number}") for number in range(MOST_REPORTS + 500)),
    )
    store.mirror("a-1", ({"odd": number} for number in range(500)))
    kept = [event.origin for event in store.events("a-1")]
    assert kept.count("machine") == MOST_REPORTS and kept.count("app") == 1 + MOST_UNREADABLE
    summary = store.summary("a-1")
    assert len(summary.notes) <= 100 and "20 or more records" in str(summary.passed_over)
    store.mirror("a-1", [machine(10**6, "finished", 5000.0)])
    assert store.summary("a-1").state == "finished", "its end is heard in any case"


def test_a_store_that_holds_odd_events_opens(store: RunStore, make: Make) -> None:
    store.add(make(run="a-1"))
    store.add(make(run="b-1"))
    rows: list[tuple[Any, ...]] = [
        ("a-1", 1, "machine", "machine", '{"kind": []}'),
        ("a-1", 1, "machine", "app", '{"kind": [], "hourly": "abc", "billed": {}}'),
        ("a-1", 1, "machine", "app", '{"kind": "released", "hourly": 1e400, "billed": NaN}'),
        ("a-1", 1e300, "note", "machine", '{"message": 3}'),
        ("a-1", "later", "started", "machine", '{"mode": {}}'),
        ("a-1", 1, "finished", "nobody", '{"why": []}'),
        ("a-1", 1, "step", "machine", '{"folder": "~/.ssh"}'),
        ("a-1", 1, "step", "app", '{"folder": ["x"]}'),
        ("a-1", 1, "removed", "machine", "{}"),
        ("a-1", 1, "note", "app", "[" * 100_000),
        ("a-1", 1, b"\xff", "app", "no JSON"),
        ("nowhere", 1, "note", "app", "{}"),
    ]
    database = sqlite3.connect(store.path)
    database.executemany(
        "INSERT INTO events (run, at, type, origin, data) VALUES (?, ?, ?, ?, ?)", rows
    )
    database.commit()
    database.close()
    other = RunStore(store.state_dir)
    assert [run.id for run in other.runs()] == ["a-1", "b-1"]
    summary = other.summary("a-1")
    assert (summary.results, summary.hourly, summary.billed, summary.removed) == (
        None,
        None,
        None,
        False,
    )
    assert json.dumps(summary.to_json()) and [event.to_json() for event in other.events("a-1")]
    store.mirror("a-1", [machine(1, "note")])
    assert other.find(None) == "b-1"


def test_the_rent_of_a_run_is_not_told_by_its_machine(store: RunStore, make: Make) -> None:
    store.add(make(run="a-1"))
    store.append("a-1", "machine", {"kind": "intended", "hourly": 2.0})
    said = [
        RunEvent("a-1", 2, 2.0, "machine", {"kind": "released", "billed": 0.0}, "machine"),
        RunEvent("a-1", 3, 3.0, "step", {"folder": "/etc"}, "machine"),
        RunEvent("a-1", 4, 4.0, "removed", {}, "machine"),
        RunEvent("a-1", 5, 5.0, "unreadable", {"why": "x"}, "machine"),
    ]
    summary = fold(store.summary("a-1"), said)
    assert summary.holds_machine and summary.machine == "asked" and summary.hourly == 2.0
    assert (
        summary.results is None
        and not summary.removed
        and not summary.unreadable
        and summary.state == "starting"
    )


def test_a_store_that_another_process_writes_is_not_read_as_if_it_were_frozen(
    store: RunStore, make: Make
) -> None:
    store.add(make(run="a-1"))
    holder = sqlite3.connect(store.path, isolation_level=None)
    holder.execute(
        "PRAGMA journal_mode = DELETE"
    ).fetchone()  # as on a file system without shared memory
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(RunError, match="holds the list of runs"):
        RunStore(store.state_dir, patience=0.1).runs()
    holder.execute("ROLLBACK")
    holder.close()
    assert len(RunStore(store.state_dir, patience=0.1).runs()) == 1


def test_a_run_that_was_brought_home_lies_there_as_long_as_that_is_there(
    store: RunStore, make: Make, tmp_path: Path
) -> None:
    record = replace(make(run="a-1"), host="pod:machine", folder="hudtui/a-1")
    store.add(record)
    home = tmp_path / "home"
    home.mkdir()
    for kind, data in (
        ("machine", {"kind": "released"}),
        ("step", {"folder": str(home)}),
        ("failed", {}),
    ):
        assert store.record("a-1") == record
        store.append("a-1", kind, data)
    at_home = store.record("a-1")
    assert (at_home.host, at_home.folder) == ("local", str(home)) and results_folder_of(
        store.summary("a-1")
    ) == str(home)
    home.rmdir()
    assert store.record("a-1") == record and results_folder_of(store.summary("a-1")) is None


def test_a_mark_makes_a_step_happen_once(store: RunStore, make: Make) -> None:
    store.add(make(run="a-1"))
    assert store.append("a-1", "step", {"name": "files"}, once="step:files") is not None
    assert store.append("a-1", "step", {"name": "files"}, once="step:files") is None
    assert [event.type for event in store.events("a-1")] == ["planned", "step"]


START = RunSummary("a", "a", "e", "local", "/f", created=1.0)


def of(*events: tuple[str, str], **data: Any) -> str:
    made = [
        RunEvent("a", number, float(number), kind, data, origin)
        for number, (origin, kind) in enumerate(events)
    ]  # type: ignore[arg-type]
    return fold(START, made).state


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], "planned"),
        ([("app", "step")], "starting"),
        ([("app", "step"), ("machine", "started")], "running"),
        ([("machine", "started"), ("app", "step")], "running"),
        ([("app", "stop_requested"), ("machine", "started")], "stopping"),
        ([("machine", "started"), ("machine", "stopping"), ("machine", "failed")], "failed"),
        ([("machine", "started"), ("app", "lost")], "lost"),
        ([("machine", "started"), ("app", "lost"), ("machine", "finished")], "finished"),
        ([("machine", "started"), ("app", "lost"), ("machine", "resumed")], "running"),
        ([("app", "failed")], "failed"),
        ([("app", "failed"), ("machine", "started")], "running"),
        ([("app", "stopped"), ("machine", "started"), ("machine", "stopped")], "stopped"),
        ([("machine", "finished"), ("app", "lost")], "finished"),
        ([("machine", "finished"), ("app", "stop_requested")], "finished"),
        ([("machine", "finished"), ("machine", "note")], "finished"),
    ],
)
def test_the_machine_has_the_last_word(events: list[tuple[str, str]], state: str) -> None:
    assert of(*events) == state


def test_runs_are_found_by_what_users_type(store: RunStore, make: Make) -> None:
    for place, run in enumerate(("one-aa", "one-bb", "two-cc")):
        store.add(
            replace(make(run=run), created=float(place), name="two" if run == "two-cc" else "one")
        )
    assert store.find(None) == "two-cc"
    assert (
        store.find("one-aa") == "one-aa"
        and store.find("two") == "two-cc"
        and store.find("one-b") == "one-bb"
    )
    with pytest.raises(RunError, match="several"):
        store.find("one")
    with pytest.raises(RunError, match="no run"):
        store.find("x\x1b[31m")


def test_ids_remind_of_the_name_and_are_safe(store: RunStore) -> None:
    for name, start in (
        ("2048 Greedy!", "2048-greedy-"),
        ("\x1b]0;x\x07", "run-"),
        ("ü/../ß", "run-"),
        ("a" * 99, "a" * 24 + "-"),
    ):
        run = store.new_id(name)
        assert run.startswith(start) and run.replace("-", "").isalnum() and run.isascii()


def test_many_processes_write_at_once(store: RunStore, make: Make) -> None:
    store.add(make(run="a-1"))
    script = (
        "import sys; from pathlib import Path; from hudtui.core.runs.store import RunStore\n"
        f"store = RunStore(Path({str(store.state_dir)!r}))\n"
        "for n in range(25):\n"
        "    store.append('a-1', 'note', {'n': n})\n"
        "    store.append('a-1', 'step', {}, once=f'once:{n}')\n"
        "    store.mirror('a-1', [{'seq': n, 'at': 1.0, 'type': 'note', 'data': {}}])\n"
        "    store.runs()\n"
    )
    many = [
        subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE) for _ in range(4)
    ]
    for one in many:
        _, errors = one.communicate(timeout=100)
        assert one.returncode == 0, errors
    events = store.events("a-1")
    kinds = [(event.origin, event.type) for event in events]
    assert (
        kinds.count(("app", "note")) == 100
        and kinds.count(("app", "step")) == 25
        and kinds.count(("machine", "note")) == 25
    )


async def test_it_may_be_used_from_threads(store: RunStore, make: Make) -> None:
    store.add(make(run="a-1"))
    await asyncio.gather(
        *(asyncio.to_thread(store.append, "a-1", "note", {"n": n}) for n in range(20))
    )
    assert len(store.events("a-1")) == 21


def test_a_full_disk_loses_nothing(
    store: RunStore, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add(make(run="a-1"))
    connect = store.database._connect

    def small(how: str) -> sqlite3.Connection:
        database = connect(how)
        database.execute(
            f"PRAGMA max_page_count = {database.execute('PRAGMA page_count').fetchone()[0]}"
        )
        return database

    monkeypatch.setattr(store.database, "_connect", small)
    with pytest.raises(RunError, match="the disk is full"):
        for number in range(1000):
            store.append("a-1", "note", {"text": "x" * 1000, "number": number})
    kept = len(store.events("a-1"))
    monkeypatch.undo()
    assert [event.data["number"] for event in store.events("a-1")[1:]] == list(range(kept - 1))
    assert store.append("a-1", "note") is not None


def test_a_damaged_store_is_told(store: RunStore, make: Make) -> None:
    store.state_dir.mkdir()
    store.path.write_bytes(b"this is no database, whatever its name says " * 40)
    with pytest.raises(RunError, match="damaged") as caught:
        store.runs()
    assert str(store.folder) in str(caught.value.fix)


def test_a_store_of_another_version_is_left_alone(store: RunStore, make: Make) -> None:
    store.add(make(run="a-1"))
    database = sqlite3.connect(store.path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(RunError, match="another version of hudtui"):
        store.runs()
    with pytest.raises(RunError, match="another version of hudtui"):
        store.append("a-1", "note")


def test_a_store_that_is_held_for_too_long_is_told(store: RunStore, make: Make) -> None:
    store.add(make(run="a-1"))
    holder = sqlite3.connect(store.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    impatient = RunStore(store.state_dir, patience=0.1)
    assert len(impatient.runs()) == 1, "readers are not held up"
    with pytest.raises(RunError, match="holds the list of runs"):
        impatient.append("a-1", "note")
    holder.execute("ROLLBACK")
    holder.close()
    assert impatient.append("a-1", "note") is not None


def test_where_nothing_can_be_made_that_is_said(own_world: Path, make: Make) -> None:
    (own_world / ".hudtui").write_text("in the way")
    with pytest.raises(InputError, match="cannot be made"):
        RunStore(own_world / ".hudtui").add(make(run="a-1"))


def test_an_empty_file_is_an_empty_store(store: RunStore, make: Make) -> None:
    store.state_dir.mkdir()
    store.path.touch()
    assert store.runs() == ()
    store.add(make(run="a-1"))
    assert store.ids() == ("a-1",)


@pytest.mark.parametrize(
    ("prepaid", "hours", "cost"), [(0.0, 0.5, 1.0), (1.0, 0.5, 2.0), (1.0, 3.0, 6.0)]
)
def test_a_run_costs_what_its_machine_costs_in_the_list_of_machines(
    store: RunStore, make: Make, tmp_path: Path, prepaid: float, hours: float, cost: float
) -> None:
    price = Price(2.0, prepaid_hours=prepaid)
    ledger = Ledger(tmp_path / "pods.db")
    order = Order("hudtui-a", Offer("prime", "o", "H100", 1, price))
    record = ledger.update(
        ledger.reserve(order, provider="prime", run="a-1").name, "ready", pod="p"
    )
    store.add(make(run="a-1"))
    facts = {"hourly": 2.0, "prepaid_hours": prepaid}
    asked = store.append("a-1", "machine", {"kind": "intended", **facts})
    now = hours * 3600
    assert store.summary("a-1").cost(asked.at + now) == pytest.approx(cost)
    assert pod_cost(record, record.created + now).spent == pytest.approx(cost)
