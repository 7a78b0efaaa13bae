"""When a training ends, what it evaluates, what it leaves out: short trainings with TRL, on an
environment in memory."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.ready_python import ReadyPython

from hudtui.core.training.recipe import REHEARSAL, Recipe
from hudtui.trainers.grpo import wandb_defaults

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.xdist_group("rehearsal"), pytest.mark.timeout(900)]


def test_a_training_ends_when_it_should_and_learns_from_what_says_something(
    own_world: Path, trainer: ReadyPython
) -> None:
    script = str(ROOT / "tests" / "trainers" / "inside_trainings.py")
    done = trainer.run(script, str(own_world), cwd=own_world, env=os.environ)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    found = json.loads(done.stdout.rpartition("RESULT ")[2])
    assert all(found[name]["finite"] for name in ("patience", "goal", "evaluates", "odd"))

    # The first evaluation is the best so far; two that are no better are enough. So it is for one
    # who was interrupted in between.
    for patience in (found["patience"], found["patience_again"]):
        assert (patience["step"], patience["evaluated"], patience["saved"]) == (
            3,
            [1, 2, 3],
            "checkpoint-3",
        )
        assert patience["why"] == "2 evaluations were no better than the best (0.400)"

    goal = found["goal"]
    assert (goal["step"], goal["saved"], goal["why"]) == (
        10,
        "checkpoint-10",
        "the mean reward of the last 10 steps is 0.400",
    )
    assert goal["rewards"] == pytest.approx([0.4] * 10)
    assert (
        goal["warned"][0].endswith("have the reward 0.4: there is nothing to learn from it")
        and not goal["learned"]
    )

    assert (found["evaluates"]["step"], found["evaluates"]["why"]) == (5, None)
    # Before the first step, and not again by one who goes on.
    assert found["evaluates"]["evaluated"] == [0, 2, 4, 5]
    assert found["evaluates_again"]["evaluated"] == [0, 2, 4, 5, 6]

    recipe = {**REHEARSAL, "batch_size": REHEARSAL.get("batch_size", Recipe().batch_size)}
    assert found["goal"]["spans"] == 10 * recipe["batch_size"], (
        "the platform is told of each episode"
    )

    means = found["parts"]
    assert (means["rewards/reply"], means["rewards/asks"]) == (1.0, 0.0)
    assert means["task_completion"] == 0.5

    odd = found["odd"]
    assert odd["step"] == 4 and odd["learned"] and sum(odd["broken"]) == pytest.approx(1.5)
    assert any("t3 broke off and is left out: nobody answers" in text for text in odd["warned"])
    assert any(
        "t2 broke off and is left out: the evaluation failed" in text for text in odd["warned"]
    )

    nobody = found["nobody"]
    assert nobody["step"] == 0 and nobody["rewards"] == []
    assert "the environment fails for every task, 3 times in a row" in nobody["error"][0]
    assert nobody["error"][1] == "nobody answers"
    assert sum("are played again" in text for text in nobody["warned"]) == 2

    assert [Path(path).name for path in found["whole"]] == ["checkpoint-9", "None"]


def test_weights_and_biases_stays_here_without_a_key(tmp_path: Path) -> None:
    assert wandb_defaults({}, tmp_path) == {
        "WANDB_PROJECT": "hudtui",
        "WANDB_DIR": str(tmp_path),
        "WANDB_MODE": "offline",
    }
    assert "WANDB_MODE" not in wandb_defaults({"WANDB_API_KEY": "k"}, tmp_path)


def test_a_model_that_calls_tools_is_trained_in_its_own_dialect(
    own_world: Path, trainer: ReadyPython
) -> None:
    script = str(ROOT / "tests" / "trainers" / "inside_dialects.py")
    done = trainer.run(script, str(own_world), "native", "hermes", cwd=own_world, env=os.environ)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    found = json.loads(done.stdout.rpartition("RESULT ")[2])
    for dialect, played in found.items():
        assert played["step"] == 2 and played["finite"] and played["learned"], dialect
        assert played["exact"] == played["episodes"] == 16, "masks have replies, and nothing else"
        assert played["calls"] >= played["turns"] / 8, "tool calls are really made"
        assert len(played["rewards"]) > 1, "there is something to learn from"
        assert ("tool" in played["roles"]) is (dialect == "native")
