"""An engine of another package, found by its entry point and carried out by the commands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.engine_package import install_engine

from hudtui.core.compute.values import Offer, Price
from hudtui.core.demo.workspace import task_records
from hudtui.core.runs.demand import find_demand
from hudtui.core.runs.request import RunRequest
from hudtui.core.training.engines import engine_names, features_of

ROOT = Path(__file__).parents[3]
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project_folder(own_world: Path) -> Path:
    folder = own_world / "w"
    folder.mkdir()
    shutil.copy(ROOT / "configs" / "2048.yaml", folder)
    (folder / "tasks.json").write_text(json.dumps(task_records()))
    return folder


@pytest.fixture
def run(own_world: Path, project_folder: Path) -> Run:
    """Runs hudtui in a project, where the package is installed."""
    lib = install_engine(own_world / "lib")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "hudtui", *words]
        env = {**os.environ, "PYTHONPATH": str(lib)}
        return subprocess.run(
            command,
            cwd=project_folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


VERL = ("rl", "tasks.json", "-c", "2048.yaml", "--engine", "verl", "--host", "local")


def checks(run: Run, *words: str) -> dict[str, list[str]]:
    """Return the checks of a training that are not fine, by name."""
    found: dict[str, list[str]] = {}
    for check in json.loads(run(*VERL, "--dry-run", "--json", *words).stdout)["checks"]:
        if check["state"] != "fine":
            found.setdefault(check["name"], []).append(f"{check['text']} {check['fix']}")
    return found


def test_its_training_is_checked_like_ours(run: Run) -> None:
    assert (
        "Engines: rollouts, trl, art, verl."
        in run("rl", "tasks.json", "--engine", "nope", "--dry-run").stderr
    )
    found = checks(run, "--model", "gpt-4o", "--set", "batch_size=128")
    assert (
        "has no visible GPU" in found["machine"][0]
        and "hudtui rl --rehearse" in found["machine"][0]
    )
    assert "served by its maker alone" in found["model"][0]
    assert found["training"] == ["verl takes a batch of at most 64, not 128 Lower batch_size."]
    assert (
        "the engine verl has no setting lora_rank"
        in checks(run, "--set", "lora_rank=4")["training"][0]
    )
    assert (
        "only the engine art takes ruler" in checks(run, "--set", "ruler=openai/o3")["training"][0]
    )


def test_it_rehearses_and_its_run_is_continued(run: Run, project_folder: Path) -> None:
    done = run(*VERL, "--rehearse", "--no-tmux", "--yes", "--json")
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)["id"]
    assert "verl trained step 3" in done.stderr
    nothing = run("runs", "continue", first, "--yes", "--no-tmux")
    assert "has done 3 of its 3 steps" in nothing.stderr and nothing.returncode == 2
    more = run("runs", "continue", first, "--steps", "5", "--yes", "--no-tmux", "--json")
    assert more.returncode == 0, more.stderr
    again = json.loads(more.stdout)["id"]
    metrics = (
        (project_folder / ".hudtui" / "runs" / again / "out" / "metrics.jsonl")
        .read_text()
        .splitlines()
    )
    assert [json.loads(line)["step"] for line in metrics] == [1, 2, 3, 4, 5]
    assert "verl trained step 4" in more.stderr and "verl trained step 3" not in more.stderr
    settings = {
        one["name"]: one
        for one in json.loads(run("runs", "settings", again, "--json").stdout)["settings"]
    }
    assert (
        settings["training.num_generations"]["value"] == 4 and "training.lora_rank" not in settings
    )


def test_its_memory_is_estimated(own_world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(install_engine(own_world / "lib")))
    assert engine_names()[-1] == "verl" and features_of("verl").continues == "checkpoint"
    demand = find_demand(RunRequest(engine="verl", model="Qwen/Qwen2.5-7B-Instruct"), own_world)
    assert demand.recipe.steps == 7, "its own default"
    offer = Offer("prime", "x", "A10", 2, Price(1.0), gpu_memory=24)
    assert demand.fit(offer).state == "short"
    assert demand.fit(replace(offer, gpu_memory=80)).state == "fits"


def test_what_is_no_engine_is_refused_in_words(run: Run, own_world: Path) -> None:
    (own_world / "lib" / "verl_stand_in.py").write_text("class Verl:\n    name = 'verl'\n")
    refused = run(*VERL, "--dry-run")
    assert refused.returncode == 2 and "the engine 'verl' cannot be used" in refused.stderr
    assert "It has no title, features, check, memory, plan, reader." in refused.stderr
