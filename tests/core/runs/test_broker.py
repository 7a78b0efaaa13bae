from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hudtui.core.compute.pods import Ledger, PodRecord
from hudtui.core.compute.values import Offer, Order, Price
from hudtui.core.runs.reconcile import open_machine_notice
from hudtui.core.runs.remote_run import is_run_active
from hudtui.core.runs.store import RunRecord, RunStore


def test_a_machine_is_owned_while_its_run_is_at_work(
    store: RunStore, make: Callable[..., RunRecord], tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "pods.db")
    order = Order("hudtui-a", Offer("prime", "x", "H100_80GB", 1, Price(2.0)))
    owned: PodRecord = ledger.reserve(
        order, provider="prime", run="a-1", workspace=store.state_dir.parent
    )
    assert not is_run_active(owned), "the workspace knows no run at all"
    store.add(make("true", run="b-1"))
    assert not is_run_active(owned), "nor this one"
    store.add(make("true", run="a-1"))
    assert is_run_active(owned)
    assert not is_run_active(replace(owned, state="ending"))
    assert not is_run_active(replace(owned, run=None)), "it was rented without a run"
    assert is_run_active(replace(owned, workspace=None)), (
        "an older entry says nothing of the workspace"
    )
    store.append("a-1", "stopped", {"why": "enough"})
    assert not is_run_active(owned)


def test_nothing_is_given_up_on_a_guess(
    store: RunStore, make: Callable[..., RunRecord], tmp_path: Path
) -> None:
    order = Order("hudtui-a", Offer("prime", "x", "H100_80GB", 1, Price(2.0)))
    owned = Ledger(tmp_path / "pods.db").reserve(
        order, provider="prime", run="a-1", workspace=store.state_dir.parent
    )
    store.add(make("true", run="a-1"))
    (store.state_dir / "runs.db").write_bytes(b"no database" * 1000)
    assert is_run_active(owned)


def test_what_is_said_of_a_run_that_has_ended_is_a_sentence_with_and_without_a_price(
    store: RunStore, make: Callable[..., RunRecord]
) -> None:
    store.add(make("true", run="a-1"))
    store.append("a-1", "failed", {"why": "x"})
    summary = store.summary("a-1")
    told = open_machine_notice(replace(summary, hourly=None)).message
    assert "has ended (failed), and its machine may still be there: hudtui runs resume a-1" in told
    told = open_machine_notice(replace(summary, hourly=2.0, currency="USD")).message
    assert "and its machine, which costs $2.00 an hour, may still be there:" in told
