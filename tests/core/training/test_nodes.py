"""Plans for one machine and for several."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.training.engines import as_rehearsal, find_engine
from hudtui.core.training.plan import FileRef, JobSpec, Plan, Site

SPEC = JobSpec(
    "trl",
    "t",
    "/w",
    tasks=FileRef("/w/t.json", 2, "x"),
    config=FileRef("/w/c.yaml", 3, "y"),
    secrets=("HF_TOKEN", "HUD_API_KEY"),
    max_seconds=7200.0,
)
POD = Site(".hudtui/runs/r", ("python3",))
HERE = Site("/w/.hudtui/runs/r", ("/py",), "/w", environments="/e", package="/p/hudtui")
KEPT = Path(__file__).parents[2] / "data" / "plans-of-one-machine.json"
"""What the supervisor of one machine read before there were runs on several."""


def one_machine() -> dict[str, Plan]:
    """The plans of one machine that are compared, by a name."""
    plans = {
        f"trl on {gpus}": find_engine("trl").plan(
            replace(SPEC, gpus=gpus, training={"num_generations": 2}), POD
        )
        for gpus in (1, 2, 3, 4, 8)
    }
    large = {"model": "Qwen/Qwen2.5-32B-Instruct", "num_generations": 4}
    plans["trl sharded"] = find_engine("trl").plan(replace(SPEC, gpus=8, training=large), POD)
    small = replace(SPEC, gpus=0, training={"model": "HuggingFaceTB/SmolLM2-135M"})
    plans["trl on the CPU"] = find_engine("trl").plan(small, HERE)
    for name, site in (("here", HERE), ("there", POD)):
        plans[f"a rehearsal {name}"] = find_engine("trl").plan(
            replace(as_rehearsal(SPEC), trainer_python=None), site
        )
    plans["art"] = find_engine("art").plan(replace(SPEC, engine="art"), POD)
    plans["rollouts"] = find_engine("rollouts").plan(
        replace(SPEC, engine="rollouts", policy="random"), POD
    )
    return plans


def as_sent(plan: Plan) -> dict[str, Any]:
    """What of a plan the machine gets, without digests of the lock files."""
    text = json.dumps(
        {**plan.for_machine("r", "s"), "files": [file.path for file in plan.files]}, indent=1
    )
    read: dict[str, Any] = json.loads(re.sub(r"-[0-9a-f]{8}/", "-DIGEST/", text))
    return read


@pytest.mark.parametrize("name", sorted(one_machine()))
def test_a_plan_for_one_machine_is_what_it_was_before_there_were_nodes(name: str) -> None:
    kept = json.loads(KEPT.read_text())
    plan = one_machine()[name]
    assert json.dumps(as_sent(plan)) == json.dumps(kept[name])
    assert set(kept) == set(one_machine())
