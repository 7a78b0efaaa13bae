from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import sshd, tmux_world

from hudtui.core.process import machine_label
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.plan import Plan, PlanOutput, Stage

own_tmux = tmux_world.own_tmux
ssh_server = sshd.ssh_server
ssh_box = sshd.ssh_box


@pytest.fixture
def store(own_world: Path) -> RunStore:
    return RunStore(own_world / ".hudtui")


@pytest.fixture
def project(own_world: Path) -> Path:
    """A folder with four tasks and a configuration for them."""
    server = {"game": {"url": "https://example.org/mcp"}}
    judge = {"name": "evaluate", "arguments": {}}
    tasks = [
        {"id": f"t{n}", "prompt": "Go left.", "mcp_config": server, "evaluate_tool": judge}
        for n in range(4)
    ]
    (own_world / "tasks.json").write_text(json.dumps(tasks))
    config = (
        "parser: {use_thinking: false}\naction_mappings:\n  left: {_parser: {positional: []}, "
        "_tool: move}\n"
    )
    (own_world / "play.yaml").write_text(config)
    return own_world


@pytest.fixture
def make(store: RunStore) -> Callable[..., RunRecord]:
    """Makes the record of a run whose stages are shell scripts; nothing is kept yet."""

    def record(*scripts: str, run: str = "", host: str = "local", **more: Any) -> RunRecord:
        stages = tuple(
            Stage(f"s{number}", ("bash", "-c", script), grace=1.0)
            for number, script in enumerate(scripts or ("true",))
        )
        plan = Plan(
            "rollouts",
            more.pop("stages", stages),
            outputs=(PlanOutput("out/metrics.jsonl", "metrics"),),
            **more,
        )
        identity = run or store.new_id("test")
        spec = RunSpec("rollouts", "test", str(store.state_dir.parent))
        return RunRecord(
            identity,
            time.time(),
            "test",
            "rollouts",
            host,
            machine_label(),
            str(store.folder / identity),
            spec,
            plan,
        )

    return record
