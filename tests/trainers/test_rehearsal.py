"""One real training: the command, a tmux window, the supervisor, TRL with LoRA, the MCP server of
the game, a saved adapter."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import tmux_world
from support.ready_python import ReadyPython

from hudtui.core.demo.workspace import task_records
from hudtui.core.plain import to_plain
from hudtui.core.results.find import find_results
from hudtui.core.results.index import ResultIndex
from hudtui.core.rollouts.trace import read_trace
from hudtui.core.runs.store import RunStore
from hudtui.core.training.metrics import MetricsReader
from hudtui.core.training.recipe import REHEARSAL, recipe_from

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.xdist_group("rehearsal"), pytest.mark.timeout(900)]


own_tmux = tmux_world.own_tmux


def workspace(folder: Path, tasks: list[dict[str, Any]]) -> Path:
    (folder / "configs").mkdir(parents=True)
    shutil.copy(ROOT / "configs" / "2048.yaml", folder / "configs")
    (folder / "tasks.json").write_text(json.dumps(tasks))
    (folder / ".env").write_text(f"HUDTUI_PYTHON={sys.executable}\n")
    return folder


def rehearse(folder: Path, python: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hudtui", "rehearse", "--json", *words]
    env = {**os.environ, "HUDTUI_TRAINER_PYTHON": python}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=600
    )


def test_groups_without_a_spread_are_refilled_and_counted(
    own_world: Path, trainer_python: str, read_rows: Callable[[Path], list[dict[str, Any]]]
) -> None:
    folder = workspace(own_world / "w", task_records())
    # As good as no chance in the sampling: the episodes of a group are one another's copies.
    words = ("temperature=0.01", "refill_groups=1", "warm_start=10")
    settings = [part for word in words for part in ("--set", word)]
    done = rehearse(folder, trainer_python, *settings, "--steps", "2")
    assert done.returncode == 0, done.stderr[-3000:]
    run = Path(json.loads(done.stdout)["folder"])
    rows = [row for row in read_rows(run / "out" / "metrics.jsonl") if "reward" in row]
    assert [row["step"] for row in rows] == [1, 2]
    for row in rows:
        assert (row["groups_refilled"], row["groups_without_spread"]) == (0, 1)
        assert row["refill_episodes"] == REHEARSAL["num_generations"]
        assert row["reward_trained"] == pytest.approx(row["reward"], abs=1e-6)
    episodes = [one for one in read_trace(run / "out" / "traces.jsonl") if one.info["step"] == 1]
    assert len(episodes) == 2 * REHEARSAL["num_generations"]
    assert len({one.task_id for one in episodes}) == 2, "the place was given to another task"


def test_three_steps_with_lora_through_the_real_environment_to_an_adapter_that_loads(
    own_world: Path,
    trainer_python: str,
    trainer: ReadyPython,
    read_rows: Callable[[Path], list[dict[str, Any]]],
) -> None:
    folder = workspace(own_world / "w", task_records())
    # Eight warmer episodes a group: four may well have the same reward in every step, and then
    # there is nothing to learn from.
    (folder / "training.yaml").write_text(
        "held_out: 1\nnum_generations: 8\nbatch_size: 8\ntemperature: 1.2\n"
    )
    done = rehearse(folder, trainer_python, "--training", "training.yaml")
    assert done.returncode == 0, done.stderr[-3000:]
    view = json.loads(done.stdout)
    assert view["state"] == "finished" and view["engine"] == "trl"
    run = Path(view["folder"])

    metrics = read_rows(run / "out" / "metrics.jsonl")
    trained = [row for row in metrics if "reward" in row]
    assert [row["step"] for row in trained] == [1, 2, 3]
    assert all(
        0 <= row["reward"] <= 1 and row["turns"] <= 3 and row["max_steps"] == 3 for row in trained
    )
    assert any(
        row["reward_std"] > 0 and row["grad_norm"] > 0 for row in trained
    )  # there was something to learn from
    assert any("eval_reward" in row for row in metrics)  # on the task that was held out
    for row in trained:  # where its seconds went
        assert row["time/generation"] > 0 and row["time/tools"] > 0
        assert row["time/generation"] + row["time/tools"] == pytest.approx(row["time/rollouts"])
        assert row["time/rollouts"] < row["step_time"]
    reader = MetricsReader()
    reader.feed((run / "out" / "metrics.jsonl").read_bytes())
    assert len(reader.series("reward")) == 3 and reader.bad == 0

    episodes = list(read_trace(run / "out" / "traces.jsonl"))
    assert {episode.info["split"] for episode in episodes} == {"train", "eval"}
    called = [
        turn for episode in episodes for turn in episode.turns if turn.call and not turn.is_error
    ]
    assert called and all(
        turn.call["tool"] == "move" for turn in called if turn.call
    )  # the game was really played
    assert all(episode.scores.reward_found for episode in episodes)

    # Each point of the curve leads to the episodes behind it: whole groups, with the reward that
    # the trainer reports.
    (result,) = find_results(folder, RunStore(folder / ".hudtui"))
    assert (result.kind, result.run) == ("training", view["id"])
    index = ResultIndex([result])
    index.finish()
    groups = [group for group in index.groups() if group.key.split == "train"]
    assert {group.key.step for group in groups} == {1, 2, 3}
    for group in groups:
        assert [entry.rollout for entry in index.members(group)] == list(
            range(len(group.numbers))
        ) and len(group.numbers) > 1
    for row in trained:
        members = [
            entry for entry in index.entries if (entry.step, entry.split) == (row["step"], "train")
        ]
        assert sum(entry.reward or 0.0 for entry in members) / len(members) == pytest.approx(
            row["reward"], abs=1e-4
        )
        assert all(entry.completion_tokens for entry in members)

    inside = trainer.run(
        str(ROOT / "tests" / "trainers" / "inside.py"), str(run), cwd=folder, env=os.environ
    )
    assert inside.returncode == 0, inside.stderr[-3000:]
    found = json.loads(inside.stdout.rpartition("RESULT ")[2])
    assert found["same_seed_same_model"] and found["unicode"] == "naïve 数 🙂"
    assert found["adapter_changes"] > 0 and found["merged_differs"] < 1e-3
    assert found["all_int"] and found["logprobs"] is None and found["warning"] is None
    chat = "<|im_end|>\n<|im_start|>user\nOBS<|im_end|>\n<|im_start|>assistant\n"
    assert found["templates"]["qwen2_5"] == [False, True, chat]
    assert found["templates"]["qwen3"] == [
        True,
        True,
        chat,
    ]  # it drops earlier thoughts, and was replaced
    assert found["templates"]["llama3_1"][:2] == [False, True]
    assert (
        "drops earlier thoughts" in found["templates"]["glm4moe"]
    )  # and nothing replaces this one
    assert len(found["replies"]) == 3 and all(1 <= length <= 48 for length in found["replies"])
    assert all(
        end is None or end == length - 1
        for end, length in zip(found["ends"], found["replies"], strict=True)
    )
    assert (
        found["server"]["same request"]
        and found["server"]["same replies"]
        and len(found["server"]["replies"]) == 3
    )
    given = found["handed over"]
    assert given["told"] == [
        ["load_lora_adapter", "step-0"],
        ["load_lora_adapter", "step-1"],
        ["unload_lora_adapter", "step-0"],
    ]
    assert (
        given["whole"] == [True, True]
        and given["asked"]
        and given["left"] == ["step-1", "step-1", "step-2"]
    )
    first, second = given["again"]
    assert first.startswith("step-1-") and second.startswith("step-1-") and first != second, (
        "the server keeps prompts by name"
    )
    assert (
        "did not load lora adapter step-2" in given["refused"] and "no adapter" in given["refused"]
    )


def test_a_training_that_was_killed_goes_on_from_its_last_whole_checkpoint(
    own_world: Path, trainer: ReadyPython, read_rows: Callable[[Path], list[dict[str, Any]]]
) -> None:
    folder = workspace(own_world / "w", task_records())
    shortest = {
        "num_generations": 2,
        "batch_size": 2,
        "max_turns": 1,
        "max_tokens": 16,
        "warm_start": 0,
        "save_every": 1,
    }
    words = [
        *("--tasks", "tasks.json", "--config", "configs/2048.yaml", "--out", "out"),
        "--recipe",
        "recipe.json",
    ]

    def command(steps: int) -> list[str]:
        recipe = recipe_from({**REHEARSAL, **shortest, "steps": steps})
        (folder / "recipe.json").write_text(json.dumps(to_plain(recipe)))
        return ["-m", "hudtui.trainers.grpo", *words]

    def checkpoints() -> list[int]:
        return sorted(
            int(path.parent.name.rpartition("-")[2])
            for path in folder.glob("out/checkpoints/*/trainer_state.json")
        )

    with open(folder / "log", "wb") as log:
        process = trainer.start(command(500), cwd=folder, env=os.environ, out=log, error=log)
    try:
        while len(checkpoints()) < 2:
            assert trainer.wait(0.05) is None, (folder / "log").read_text()[-3000:]
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    assert trainer.wait(60) == -signal.SIGKILL
    last = checkpoints()[-1]
    half = (
        folder / "out" / "checkpoints" / f"checkpoint-{last + 1}"
    )  # as one that was being written
    half.mkdir(exist_ok=True)
    (half / "adapter_model.safetensors").write_bytes(b"half")
    with open(folder / "out" / "metrics.jsonl", "a") as stream:
        stream.write(
            json.dumps({"step": last + 1, "reward": 9}) + "\n"
        )  # of a step that was done and lost
    done = trainer.run(*command(last + 2), cwd=folder, env=os.environ)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert f"resuming from out/checkpoints/checkpoint-{last}\n" in done.stdout
    rewards = [
        (row["step"], row["reward"])
        for row in read_rows(folder / "out" / "metrics.jsonl")
        if "reward" in row
    ]
    assert [step for step, _ in rewards] == list(range(1, last + 3)) and all(
        reward <= 1 for _, reward in rewards
    )
    assert (folder / "out" / "model" / "adapter_model.safetensors").stat().st_size > 1000


def test_two_processes_train_together_and_stop_together_when_one_is_asked_to(
    own_world: Path, trainer_python: str, read_rows: Callable[[Path], list[dict[str, Any]]]
) -> None:
    folder = workspace(own_world / "w", task_records())
    settings = {
        "num_generations": 4,
        "batch_size": 2,
        "max_turns": 2,
        "max_tokens": 8,
        "warm_start": 0,
        "save_every": 1,
    }
    (folder / "recipe.json").write_text(
        json.dumps(to_plain(recipe_from({**REHEARSAL, **settings, "steps": 500})))
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        trainer_python,
        "-m",
        "torch.distributed.run",
        "--nnodes",
        "1",
        "--nproc_per_node",
        "2",
        "--master_addr",
        "127.0.0.1",
    ]
    words += [
        "--master_port",
        str(port),
        "-m",
        "hudtui.trainers.grpo",
        "--recipe",
        "recipe.json",
        "--tasks",
        "tasks.json",
    ]
    words += ["--config", "configs/2048.yaml", "--out", "out"]
    env = {
        **os.environ,
        "ACCELERATE_USE_CPU": "true",
        "OMP_NUM_THREADS": "1",
        "PYTHONSAFEPATH": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONFAULTHANDLER": "1",
    }
    with (
        open(folder / "log", "w") as log,
        subprocess.Popen(
            words, cwd=folder, env=env, stdout=log, stderr=log, start_new_session=True
        ) as process,
    ):
        try:
            while not (
                folder / "out" / "checkpoints" / "checkpoint-1" / "trainer_state.json"
            ).exists():
                assert process.poll() is None, (folder / "log").read_text()[-3000:]
                time.sleep(0.05)
            started = [
                int(pid)
                for path in Path(f"/proc/{process.pid}/task").glob("*/children")
                for pid in path.read_text().split()
            ]
            trainers = [
                pid
                for pid in started
                if b"hudtui.trainers.grpo" in Path(f"/proc/{pid}/cmdline").read_bytes()
            ]
            assert len(trainers) == 2
            os.kill(trainers[1], signal.SIGTERM)
            assert process.wait(120) == 0, (folder / "log").read_text()[-3000:]
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    steps = [row["step"] for row in read_rows(folder / "out" / "metrics.jsonl") if "reward" in row]
    assert steps == list(range(1, len(steps) + 1)) and len(steps) < 500
    assert f"training is over at step {steps[-1]} before its end: " in (folder / "log").read_text()
    assert (
        folder / "out" / "checkpoints" / f"checkpoint-{steps[-1]}" / "trainer_state.json"
    ).exists()
    assert (folder / "out" / "model" / "adapter_model.safetensors").stat().st_size > 1000


def test_too_few_tasks_end_a_rehearsal_in_words(own_world: Path, trainer_python: str) -> None:
    folder = workspace(own_world / "w", task_records()[:3])
    done = rehearse(folder, trainer_python)
    assert done.returncode == 2
    assert "3 of 3 tasks of tasks.json can be used; this run needs at least 4" in done.stderr
    assert not list(folder.glob(".hudtui/runs/*"))


def test_a_stopped_training_continues_by_a_command_with_the_next_step(
    own_world: Path,
    own_tmux: str,
    trainer_python: str,
    read_rows: Callable[[Path], list[dict[str, Any]]],
) -> None:
    folder = workspace(own_world / "w", task_records())
    env = {**os.environ, "HUDTUI_TRAINER_PYTHON": trainer_python}
    shortest = {
        "num_generations": 2,
        "batch_size": 2,
        "max_turns": 1,
        "max_tokens": 16,
        "warm_start": 0,
        "save_every": 1,
    }
    (folder / "training.json").write_text(json.dumps(shortest))

    def hudtui(*words: str) -> str:
        command = [sys.executable, "-m", "hudtui", *words]
        done = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    words = [
        sys.executable,
        "-m",
        "hudtui",
        "rehearse",
        "--yes",
        "--training",
        "training.json",
        "--steps",
        "500",
    ]
    with subprocess.Popen(
        words, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while not list(
            folder.glob(".hudtui/runs/*/out/checkpoints/checkpoint-2/trainer_state.json")
        ):
            assert process.poll() is None
            time.sleep(0.05)
        (run,) = (path.name for path in folder.glob(".hudtui/runs/rehearsal-*"))
        hudtui("runs", "stop", run, "--yes")
        process.wait(60)
    first = read_rows(folder / ".hudtui" / "runs" / run / "out" / "metrics.jsonl")
    last = max(row["step"] for row in first)
    view = json.loads(hudtui("runs", "continue", run, "--yes", "--steps", str(last + 2), "--json"))
    assert view["state"] == "finished"
    second = read_rows(Path(view["folder"]) / "out" / "metrics.jsonl")
    assert [row["step"] for row in second if "reward" in row] == list(range(1, last + 3))
    assert [row["reward"] for row in second if "reward" in row][:last] == [
        row["reward"] for row in first if "reward" in row
    ]
