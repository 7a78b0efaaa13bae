"""Runs in the store of a project, as the supervisor leaves them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hudtui.core.process import machine_label
from hudtui.core.runs.spec import Rental, RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.plan import Plan, PlanOutput, Stage

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()
"""The time in tests of screens."""


def make_run(
    project: Path,
    run: str,
    state: str,
    *,
    name: str = "2048 greedy",
    why: str | None = None,
    log: str = "",
    rows: list[dict[str, Any]] | None = None,
    engine: str = "rollouts",
    rent: Rental | None = None,
) -> None:
    """A run as the supervisor leaves it: events, status, log, metrics."""
    store = RunStore(project / ".hudtui")
    folder = store.folder / run
    plan = Plan(
        engine,
        (Stage("play", ("true",)),),
        outputs=(
            PlanOutput("out/metrics.jsonl", "metrics"),
            PlanOutput("out/traces.jsonl", "traces"),
        ),
    )
    policy = "greedy" if engine == "rollouts" else None
    spec = RunSpec(engine, name, str(project), rent=rent, policy=policy)
    store.add(
        RunRecord(run, NOW - 120, name, engine, "local", machine_label(), str(folder), spec, plan)
    )
    (folder / "logs").mkdir(parents=True)
    (folder / "out").mkdir()
    (folder / "logs" / "play.log").write_text(log)
    events: list[dict[str, Any]] = [
        {"seq": 1, "at": NOW - 100, "type": "started", "data": {"mode": "tmux", "run": run}},
        {
            "seq": 2,
            "at": NOW - 99,
            "type": "stage_started",
            "data": {"stage": "play", "attempt": 1},
        },
    ]
    if state in ("finished", "failed", "stopped"):
        events.append(
            {"seq": 3, "at": NOW - 40, "type": state, "data": {"why": why} if why else {}}
        )
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    status = {
        "run": run,
        "state": state,
        "heartbeat": NOW - 40,
        "stages": {"play": {"state": "ended", "attempt": 1, "exit": 0}},
    }
    (folder / "status.json").write_text(json.dumps(status))
    rows = rows or [
        {
            "step": n,
            "task": f"board-{n}",
            "episodes": 2,
            "reward": n / 8,
            "reward_std": 0.1,
            "turns": 10.0 * n,
            "errors": int(n == 3),
        }
        for n in range(1, 7)
    ]
    (folder / "out" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    store.mirror(run, events)
