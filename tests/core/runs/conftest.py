from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hudtui.core.runs.store import RunRecord, RunStore, this_machine
from hudtui.core.training.plan import Plan, PlanOutput, RunSpec, Stage


def _load(name: str) -> ModuleType:
    known = sys.modules.get(f"support_{name}")
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(f"support_{name}", Path(__file__).parents[2] / "support" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


own_tmux = _load("tmux_world").own_tmux
ssh_server = _load("sshd").ssh_server
ssh_box = _load("sshd").ssh_box


@pytest.fixture
def store(own_world: Path) -> RunStore:
    return RunStore(own_world / ".hudtui")


@pytest.fixture
def make(store: RunStore) -> Callable[..., RunRecord]:
    """Makes the record of a run whose stages are shell scripts; nothing is kept yet."""

    def record(*scripts: str, run: str = "", host: str = "local", **more: Any) -> RunRecord:
        stages = tuple(
            Stage(f"s{number}", ("bash", "-c", script), grace=1.0) for number, script in enumerate(scripts or ("true",))
        )
        plan = Plan("rollouts", more.pop("stages", stages), outputs=(PlanOutput("out/metrics.jsonl", "metrics"),), **more)
        identity = run or store.new_id("test")
        spec = RunSpec("rollouts", "test", str(store.state_dir.parent))
        return RunRecord(
            identity, time.time(), "test", "rollouts", host, this_machine(), str(store.folder / identity), spec, plan
        )

    return record
