"""Runs that hudtui did not start, as the app follows them."""

from __future__ import annotations

import json
from contextlib import aclosing
from pathlib import Path

from support.tracker_files import history, wandb_file

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


async def test_half_of_a_run_is_not_diagnosed_while_the_rest_is_read(tmp_path: Path) -> None:
    """A large file is drawn from its first numbers on, and diagnosed once it was read whole."""
    last = 12_000
    run = tmp_path / "run-1.wandb"
    rows = (
        {"_step": step, "reward": 0.5, **{f"part/{one}": 0.25 for one in range(9)}}
        for step in range(last)
    )
    run.write_bytes(wandb_file(map(history, rows)))
    external = await find_external(ExternalPlace(file=str(run)), thresholds=lambda: USUAL)
    seen: list[tuple[float, int]] = []
    async with aclosing(external.follow(tmp_path)) as views:
        async for view in views:
            newest = view.metrics.newest
            seen += [(newest[0], view.diagnosis.steps)] if newest else []
            if seen and seen[-1][1]:
                break
    assert seen[0][0] < last - 1, "the first numbers are drawn before all is read"
    assert [step for step, diagnosed in seen if diagnosed] == [last - 1.0]
