"""Runs that hudtui did not start, as the app follows them."""

from __future__ import annotations

import json
from contextlib import aclosing
from pathlib import Path

from hudtui.core.diagnosis.alarms import USUAL
from hudtui.core.runs.external import ExternalPlace, find_external
from hudtui.core.runs.status import RunView


async def test_the_first_curves_do_not_wait_for_the_diagnosis(tmp_path: Path) -> None:
    """A file that never changes is drawn at once, and diagnosed after that."""
    rows = [{"step": step, "reward": 0.5, "grad_norm": float(step > 60)} for step in range(120)]
    log = tmp_path / "metrics.jsonl"
    log.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    external = await find_external(ExternalPlace(file=str(log)), thresholds=lambda: USUAL)
    drawn: list[RunView] = []
    async with aclosing(external.follow(tmp_path)) as views:
        async for view in views:
            drawn += [view] if view.metrics.count else []
            if len(drawn) == 2:
                break
    first, second = drawn
    assert first.metrics.last("reward") and first.diagnosis.steps == 0
    assert second.diagnosis.steps > 0
