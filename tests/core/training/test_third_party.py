"""An engine of another package, found by its entry point and carried out by the command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from hudtui.core.demo.workspace import task_records

ROOT = Path(__file__).parents[3]
MODULE = """
from hudtui.core.training.metrics import MetricsReader
from hudtui.core.training.plan import Plan, PlanOutput, Stage


class Echo:
    name = "echo"
    title = "writes down what it was asked for"

    def plan(self, spec, site):
        line = '{"step": 1, "reward": 0.5}'
        command = f'''mkdir -p "$0" && echo '{line}' >"$0/metrics.jsonl" && echo training {spec.model}'''
        stage = Stage("say", ("sh", "-c", command, site.path("out")))
        return Plan(self.name, (stage,), outputs=(PlanOutput("out/metrics.jsonl", "metrics", "one line"),))

    def reader(self):
        return MetricsReader()
"""


def test_an_engine_of_another_package_is_listed_planned_and_carried_out(own_world: Path) -> None:
    lib, folder = own_world / "lib", own_world / "w"
    about = lib / "theirs-1.0.dist-info"
    about.mkdir(parents=True)
    (lib / "theirs.py").write_text(MODULE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[hudtui.engines]\necho = theirs:Echo\n")
    folder.mkdir()
    shutil.copy(ROOT / "configs" / "2048.yaml", folder)
    (folder / "tasks.json").write_text(json.dumps(task_records()))

    def rl(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "hudtui", "rl", "tasks.json", "-c", "2048.yaml", "--host", "local", "--no-tmux", *words]
        env = {**os.environ, "PYTHONPATH": str(lib)}
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=90)

    unknown = rl("--engine", "nope", "--dry-run")
    assert "Engines: rollouts, trl, art, echo." in unknown.stdout + unknown.stderr
    plan = json.loads(rl("--engine", "echo", "--model", "a/b", "--dry-run", "--json").stdout)
    assert plan["engine"] == "echo" and [stage["name"] for stage in plan["plan"]["stages"]] == ["say"]
    done = rl("--engine", "echo", "--model", "a/b", "--yes")
    assert done.returncode == 0, done.stderr
    assert "training a/b" in done.stdout + done.stderr
    (metrics,) = folder.glob(".hudtui/runs/*/out/metrics.jsonl")
    assert json.loads(metrics.read_text()) == {"step": 1, "reward": 0.5}
