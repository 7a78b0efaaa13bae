"""Runs that end at a trouble that the user has named."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.training_runs import healthy, sick

from hudtui.core.diagnosis.stop import check_stop_on, stopping
from hudtui.core.diagnosis.values import Diagnosis, Finding
from hudtui.core.errors import InputError
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs.launch import launch, stop_run
from hudtui.core.runs.status import RunView
from hudtui.core.runs.stop_on import stop_at_finding
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.watch import Monitor
from hudtui.core.training.plan import Continuation

Make = Callable[..., RunRecord]


def found(signature: str, probability: float, severity: Any = "high") -> Diagnosis:
    finding = Finding(signature, "It is bad", severity, probability, 7.0, (), ())
    return Diagnosis("sick", (finding,), 100, ())


def test_only_what_is_named_and_certain_stops_a_run() -> None:
    assert stopping(None, ("critical",)) is None
    assert stopping(found("kl-blow-up", 0.97), ()) is None
    assert stopping(found("kl-blow-up", 0.95), ("kl-blow-up",)) is None
    assert stopping(found("kl-blow-up", 0.97), ("kl-blow-up",)) is not None
    assert stopping(found("kl-blow-up", 0.97), ("critical", "repetition")) is None
    assert stopping(found("kl-blow-up", 0.97, "critical"), ("critical",)) is not None
    assert stopping(found("heartbeat", 0.97, "critical"), ("critical",)) is None, (
        "a machine that does not answer is no reason to stop it"
    )


def test_a_name_that_is_no_signature_is_refused_with_those_that_are() -> None:
    check_stop_on(["critical", "entropy-collapse"])
    for wrong in ("entropy", "heartbeat", "", "Critical"):
        with pytest.raises(InputError, match="is no signature") as refused:
            check_stop_on([wrong])
        assert "entropy-collapse" in (refused.value.fix or "")
        assert "heartbeat" not in (refused.value.fix or "")
    check_stop_on(["done-at-once", "context-full"])  # episodes show them, also while it plays


async def begun(
    store: RunStore,
    make: Make,
    lines: list[Any],
    *stop_on: str,
    continues: Continuation | None = None,
) -> RunRecord:
    """Return a training that has written these metrics and goes on."""
    path = store.state_dir.parent / f"lines-{len(lines)}-{len(stop_on)}"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    record = make(f"cat {path} > out/metrics.jsonl; exec sleep 600")
    spec = replace(record.spec, engine="trl", stop_on=stop_on, continues=continues)
    record = replace(record, engine="trl", spec=spec)
    async for _ in launch(record, LocalHost(), store):
        pass
    return record


async def seen(monitor: Monitor, record: RunRecord, steps: int) -> RunView:
    """Return the view of the run that has these steps."""
    async with asyncio.timeout(60):
        while (view := await monitor.view(record.id)).metrics.steps < steps:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    if view.diagnosis is not None and view.diagnosis.steps < steps:
        return await Monitor(monitor.store).view(record.id)
    return view


async def test_whoever_looks_stops_the_run_and_its_events_say_why(
    store: RunStore, make: Make
) -> None:
    record = await begun(store, make, sick("repetition", "strong", 1), "repetition")
    view = await seen(Monitor(store), record, 300)
    why = await stop_at_finding(view, store)
    assert why is not None and why.startswith("stopped on repetition: Replies repeat themselves")
    async with asyncio.timeout(60):
        while (view := await Monitor(store).view(record.id)).summary.active:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert (view.summary.state, view.summary.why) == ("stopped", why)
    assert await stop_at_finding(view, store) is None, "it has ended"


async def test_a_run_that_is_well_or_names_nothing_goes_on(store: RunStore, make: Make) -> None:
    ill = await begun(store, make, sick("repetition", "strong", 1))
    well = await begun(store, make, healthy("rising", 1), "repetition", "critical")
    for record in (ill, well):
        assert await stop_at_finding(await seen(Monitor(store), record, 300), store) is None
        assert store.summary(record.id).state == "running"
        await stop_run(record.id, LocalHost(), store, grace=0)


@pytest.mark.parametrize(
    ("continued", "written", "stops"), [(200, 3600, True), (200, -3600, False), (290, 3600, False)]
)
async def test_a_run_that_goes_on_from_another_is_judged_by_its_own_steps(
    store: RunStore, make: Make, continued: int, written: float, stops: bool
) -> None:
    lines = [{**line, "time": time.time() + written} for line in sick("repetition", "strong", 1)]
    continues = Continuation("r-0000", continued)
    record = await begun(store, make, lines, "repetition", continues=continues)
    view = await seen(Monitor(store), record, 300)
    assert view.diagnosis is not None and view.diagnosis.findings
    assert (await stop_at_finding(view, store) is not None) == stops
    await stop_run(record.id, LocalHost(), store, grace=0)
