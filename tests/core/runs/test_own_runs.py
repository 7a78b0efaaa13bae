"""A store that lies in a folder is read; only runs that the user started are acted on."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hudtui.core import trust
from hudtui.core.errors import RunError
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs import launch, reconcile
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.watch import Monitor

Make = Callable[..., RunRecord]


@pytest.fixture(autouse=True)
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUDTUI_TRUST", raising=False)


def foreign(store: RunStore, record: RunRecord) -> RunRecord:
    """The run as it lies in a folder that came from elsewhere."""
    store.add(record)
    trust.revoke(store.state_dir.parent)
    return record


def test_a_run_is_the_users_only_with_its_mark(store: RunStore, make: Make) -> None:
    record = make("echo hello")
    store.add(record)
    assert store.record(record.id).own and store.powers() == ()
    trust.revoke(store.state_dir.parent)
    assert not store.record(record.id).own
    (power,) = store.powers()
    assert "echo hello" in power.text and power.kind == "run"
    with pytest.raises(trust.Untrusted):
        store.require_own(record.id)
    trust.agree(store.state_dir.parent, [power])
    store.require_own(record.id)


def test_a_changed_plan_is_no_longer_the_users(store: RunStore, make: Make) -> None:
    record = make("true")
    store.add(record)
    with sqlite3.connect(store.path) as database:
        database.execute("UPDATE runs SET plan = replace(plan, 'true', 'touch ran')")
    assert not store.is_own(record.id)


def test_a_copied_folder_does_not_own_the_runs_of_the_original(
    store: RunStore, make: Make, tmp_path: Path
) -> None:
    record = make("true")
    store.add(record)
    shutil.copytree(store.state_dir, tmp_path / "copy" / ".hudtui")
    assert not RunStore(tmp_path / "copy" / ".hudtui").is_own(record.id)


async def test_opening_a_folder_takes_up_no_run_of_others(
    store: RunStore, make: Make, tmp_path: Path
) -> None:
    record = foreign(store, replace(make(f"touch {tmp_path}/ran"), created=4e9))
    store.append(record.id, "machine", {"kind": "released"}, at=4e9)
    store.append(record.id, "step", {"folder": str(tmp_path)}, at=4e9)
    (notice,) = await reconcile.reconcile_runs(store, lookup=lambda name: "key")
    assert record.id in notice.message and "not started here by you" in notice.message
    assert not (tmp_path / "ran").exists() and not Path(record.folder).exists()
    with pytest.raises(trust.Untrusted):
        async for _ in launch.continue_launch(record.id, LocalHost(), store):
            pass
    with pytest.raises(trust.Untrusted):
        await launch.stop_run(record.id, LocalHost(), store)


async def test_looking_at_a_run_of_others_reaches_no_machine(
    store: RunStore, make: Make, tmp_path: Path
) -> None:
    (tmp_path / "supervisor.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    record = foreign(store, replace(make("true"), host="x@evil.example", folder=str(tmp_path)))

    def unreachable(name: str) -> None:
        raise AssertionError(f"{name} was asked for")

    monitor = Monitor(store, hosts=unreachable)  # type: ignore[arg-type]
    assert [run.id for run in await monitor.refresh()] == [record.id]
    view = await monitor.view(record.id)
    assert view.summary.id == record.id and view.stages[0].state == "waiting"
    assert not (tmp_path / "ran").exists()


async def test_removing_a_run_of_others_removes_nothing(
    store: RunStore, make: Make, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.write_text("x")
    record = foreign(store, make("true"))
    store.append(record.id, "failed", {})
    with pytest.raises(trust.Untrusted):
        await launch.remove_run(record.id, store)


@pytest.mark.parametrize("name", ["../../x", "/etc", "a b", "", "x" * 80, "a\x1b[2J"])
def test_a_name_that_is_no_run_id_is_no_run(store: RunStore, make: Make, name: str) -> None:
    store.add(make("true", run="good"))
    with sqlite3.connect(store.path) as database:
        database.execute("UPDATE runs SET id = ?", (name,))
        database.execute("UPDATE events SET run = ?", (name,))
    with pytest.raises(RunError):
        store.record(name)
