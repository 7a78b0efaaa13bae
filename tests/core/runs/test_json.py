"""The JSON of a run that `hudtui runs show --json` prints, name by name and in its order."""

from __future__ import annotations

import json
from typing import Any

from hudtui.core.diagnosis.facts import Alarm
from hudtui.core.runs.status import (
    GpuLoad,
    MachineLoad,
    ResultRow,
    RunResult,
    RunView,
    StageView,
    StepRow,
)
from hudtui.core.runs.values import RunEvent, RunSummary
from hudtui.core.runs.vllm import ModelServer, VllmSample

MEMORY = Alarm(
    "memory",
    "error",
    "out of memory",
    fix="less",
    stage="train",
    mark="7",
    acknowledged=True,
    logged=True,
)
VIEW = RunView(
    RunSummary(
        "a-1", "first", "trl", "local", "/runs/a-1", state="running", tags=("one",), notes=("late",)
    ),
    stages=(StageView("train", "running", attempt=2, exit=-9, started=60.0, pid=7),),
    result=RunResult(
        (ResultRow("t0", 0.5, None, 2, 3.0, 1),), (StepRow(1, 0.25, 0.1, loss=2.0, step_time=4.0),)
    ),
    events=(RunEvent("a-1", 1, 60.0, "state", {"state": "running", "of": [1]}, "machine"),),
    alarms=(MEMORY,),
    gpus=(GpuLoad(0, 1.0, 2.0, 3.0, 4.0, 5.0),),
    machine=MachineLoad(cpu=1.0, cpus=2.0, memory_used=3.0, memory_total=4.0, disk_free=5.0),
    servers=(
        ModelServer(
            "serve",
            9.0,
            True,
            sample=VllmSample("tiny", 1.0, 2.0, 0.5, 10.0, 20.0),
            tokens_per_s=3.0,
        ),
    ),
)
MINUTE = "1970-01-01T00:01:00+00:00"
PARTS: dict[str, Any] = {
    "alarms": [
        {
            "kind": "memory",
            "level": "error",
            "text": "out of memory",
            "fix": "less",
            "stage": "train",
            "acknowledged": True,
        }
    ],
    "stages": [
        {
            "name": "train",
            "state": "running",
            "service": False,
            "attempt": 2,
            "exit": -9,
            "started": MINUTE,
            "ended": None,
            "pid": 7,
        }
    ],
    "result": {
        "reward": 0.5,
        "episodes": 2,
        "errors": 1,
        "tasks": [
            {
                "task": "t0",
                "reward": 0.5,
                "reward_std": None,
                "episodes": 2,
                "turns": 3.0,
                "errors": 1,
            }
        ],
        "steps": [
            {
                "step": 1,
                "reward": 0.25,
                "reward_std": 0.1,
                "loss": 2.0,
                "completion_length": None,
                "step_time": 4.0,
            },
        ],
    },
    "gpus": [
        {
            "index": 0,
            "used_mib": 1.0,
            "total_mib": 2.0,
            "utilization": 3.0,
            "celsius": 4.0,
            "watts": 5.0,
        }
    ],
    "machine_load": {
        "cpu": 1.0,
        "cpus": 2.0,
        "memory_used": 3.0,
        "memory_total": 4.0,
        "disk_used": None,
        "disk_total": None,
        "disk_free": 5.0,
        "received": None,
        "sent": None,
    },
    "servers": [
        {
            "stage": "serve",
            "answers": True,
            "unanswered": 0.0,
            "stuck": 0.0,
            "tokens_per_s": 3.0,
            "prompt_tokens_per_s": None,
            "problem": None,
            "model": "tiny",
            "running": 1.0,
            "waiting": 2.0,
            "kv_cache": 0.5,
            "prompt_tokens": 10.0,
            "generated": 20.0,
        }
    ],
    "events": [
        {
            "at": MINUTE,
            "type": "state",
            "origin": "machine",
            "data": {"state": "running", "of": [1]},
        }
    ],
}
SUMMARY = (
    *(
        "id",
        "name",
        "engine",
        "state",
        "why",
        "stage",
        "host",
        "folder",
        "mode",
        "session",
        "created",
        "started",
        "ended",
    ),
    *(
        "updated",
        "elapsed_seconds",
        "notes",
        "unreadable",
        "machine",
        "hourly",
        "currency",
        "simulated",
        "billed",
    ),
    *("results", "comment", "tags", "archived"),
)
VIEWED = (
    *(
        "silent_seconds",
        "away_seconds",
        "step",
        "seconds_left",
        "cost",
        "expected_cost",
        "alarms",
        "stages",
        "result",
    ),
    *(
        "metrics",
        "gpus",
        "machine_load",
        "servers",
        "load",
        "attach",
        "problem",
        "disk_free_bytes",
        "events",
    ),
)


def test_the_parts_of_a_run_keep_their_form() -> None:
    form = json.loads(json.dumps(VIEW.to_json()))
    for name, part in PARTS.items():
        assert json.dumps(form[name]) == json.dumps(part), name


def test_a_run_has_these_names_in_this_order() -> None:
    form = json.loads(json.dumps(VIEW.to_json()))
    assert tuple(form) == (*SUMMARY, *VIEWED)
    assert (form["tags"], form["notes"], form["created"]) == (
        ["one"],
        ["late"],
        "1970-01-01T00:00:00+00:00",
    )
