"""Trainings on several nodes: real processes that meet over loopback, with gloo."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import tmux_world
from support.ready_python import ReadyPython

from hudtui.core.demo.workspace import task_records
from hudtui.core.plain import to_plain
from hudtui.core.runs.store import RunStore
from hudtui.core.training.recipe import REHEARSAL, recipe_from
from hudtui.sim import PrimeSimulator

ROOT = Path(__file__).parents[2]
INSIDE = Path(__file__).parent / "inside_nodes.py"
pytestmark = [pytest.mark.xdist_group("rehearsal"), pytest.mark.timeout(900)]
own_tmux = tmux_world.own_tmux


def workspace(folder: Path) -> Path:
    (folder / "configs").mkdir(parents=True)
    shutil.copy(ROOT / "configs" / "2048.yaml", folder / "configs")
    (folder / "tasks.json").write_text(json.dumps(task_records()))
    (folder / ".env").write_text(f"HUDTUI_PYTHON={sys.executable}\n")
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def train(folder: Path, python: str, nodes: int, *, batch: int) -> Path:
    """Train three steps on so many nodes; returns the output folder of node 0."""
    settings = {"warm_start": 10, "max_turns": 2, "batch_size": batch, "max_grad_norm": 1e9}
    settings |= {"save_every": 1}
    recipe = folder / f"recipe-{nodes}.json"
    recipe.write_text(json.dumps(to_plain(recipe_from({**REHEARSAL, **settings, "steps": 3}))))
    env = {
        **os.environ,
        "ACCELERATE_USE_CPU": "true",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    launch = [f"{python.rpartition('/')[0]}/accelerate", "launch", "--multi_gpu"]
    launch += ["--mixed_precision", "no", "--dynamo_backend", "no", "--num_machines", str(nodes)]
    launch += ["--num_processes", str(nodes), "--main_process_ip", "127.0.0.1"]
    launch += ["--main_process_port", str(free_port()), "--machine_rank"]
    running = []
    for node in range(nodes):
        words = [python] if nodes == 1 else [*launch, str(node)]
        out = folder / f"out-{nodes}-{node}"
        words += [str(INSIDE), "--recipe", str(recipe), "--tasks", "tasks.json"]
        words += ["--config", "configs/2048.yaml", "--out", str(out)]
        with open(folder / f"log-{nodes}-{node}", "wb") as log:
            running.append(subprocess.Popen(words, cwd=folder, env=env, stdout=log, stderr=log))
    for node, process in enumerate(running):
        log = folder / f"log-{nodes}-{node}"
        assert process.wait(600) == 0, log.read_text()[-3000:]
    return folder / f"out-{nodes}-0"


def differences(python: str, first: Path, second: Path) -> list[list[float]]:
    """The step, the largest gradient and the largest difference, for each step of the first."""
    done = subprocess.run(
        [python, str(INSIDE), "compare", str(first), str(second)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return [[float(word) for word in line.split()] for line in done.stdout.splitlines()]


def test_two_nodes_have_the_gradients_of_one_process_with_the_whole_batch(
    own_world: Path, trainer_python: str
) -> None:
    folder = workspace(own_world / "w")
    alone = train(folder, trainer_python, 1, batch=8)
    together = train(folder, trainer_python, 2, batch=4)
    steps = differences(trainer_python, alone, together)
    assert [step for step, _, _ in steps] == [1, 2, 3]
    for _, largest, apart in steps:
        assert largest > 1e-3, "there was something to learn"
        assert apart <= 1e-5, steps


def test_two_nodes_that_continue_have_the_gradients_of_two_that_went_on(
    own_world: Path, trainer_python: str
) -> None:
    folder = workspace(own_world / "w")
    out = train(folder, trainer_python, 2, batch=4)
    whole = out.rename(folder / "whole")
    for node in range(2):
        first = folder / f"out-2-{node}" / "checkpoints" / "checkpoint-1"
        shutil.rmtree(first.parents[1], ignore_errors=True)
        shutil.copytree(whole / "checkpoints" / first.name, first)
    continued = train(folder, trainer_python, 2, batch=4)
    steps = differences(trainer_python, continued, whole)
    assert [step for step, _, _ in steps] == [2, 3]
    for _, largest, apart in steps:
        assert largest > 1e-3, "there was something to learn"
        assert apart <= 1e-5, "the optimizer goes on where it was"


def rehearse(folder: Path, *options: str, **variables: str) -> tuple[dict[str, Any], str]:
    """Rehearse on two nodes; returns what the command found, and what it said."""
    command = [sys.executable, "-m", "hudtui", "rl", "tasks.json", "--config"]
    command += ["configs/2048.yaml", "--rehearse", "--nodes", "2", "--yes", "--json", *options]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["state"] == "finished"
    assert [node["state"] for node in found["nodes"]] == ["finished"]
    return found, done.stderr


def test_a_rehearsal_on_a_rented_cluster_is_one_run_and_leaves_no_machine(
    own_world: Path, trainer_python: str, read_rows: Callable[[Path], list[dict[str, Any]]]
) -> None:
    folder = workspace(own_world / "w")
    key = Path.home() / ".ssh" / "id_ed25519"
    key.parent.mkdir(mode=0o700, exist_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with PrimeSimulator(step=5) as sim:
        sim.add_ssh_key(key.with_suffix(".pub").read_text())
        sim.behave(boot=1, install=0)
        world = {"HUDTUI_SIM": sim.url, "HUDTUI_SIM_KEY": sim.api_key}
        options = ("--provider", "prime", "--python", trainer_python)
        found, said = rehearse(folder, *options, **world)
        (pod,) = sim.pods.values()
        assert (pod.nodes, pod.offer["gpuCount"]) == (2, 16) and not sim.alive
        assert [node["host"] for node in found["nodes"]] == [f"pod:{pod.name}.1"]
    run = folder / ".hudtui" / "runs" / found["id"]
    rows = [row for row in read_rows(run / "out" / "metrics.jsonl") if "reward" in row]
    assert [row["step"] for row in rows] == [1, 2, 3]
    other = run.with_name(f"{run.name}.node-1")
    assert "imitates calls" in (other / "logs" / "train-1.log").read_text()
    assert "2 nodes have met" in said and "is ended, and that was verified" in said


def test_a_rehearsal_on_two_nodes_is_one_run(
    own_world: Path,
    trainer_python: str,
    trainer: ReadyPython,
    read_rows: Callable[[Path], list[dict[str, Any]]],
) -> None:
    folder = workspace(own_world / "w")
    found, said = rehearse(folder, HUDTUI_TRAINER_PYTHON=trainer_python)
    run = Path(found["folder"])
    rows = [row for row in read_rows(run / "out" / "metrics.jsonl") if "reward" in row]
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert (run / "out" / "model" / "adapter_model.safetensors").stat().st_size > 1000
    other = run.parent / f"{run.name}.node-1"
    assert not (other / "out" / "metrics.jsonl").exists(), "node 0 alone writes them"
    assert "train-1 |" in said and "2 nodes have met" in said
    store = RunStore(folder / ".hudtui")
    assert store.record(found["id"]).spec.nodes == 2
