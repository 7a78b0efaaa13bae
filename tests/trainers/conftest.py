from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.letters import Letters
from support.ready_python import ReadyPython

from hudtui.core.gym.config import load_config
from hudtui.core.gym.values import GymConfig
from hudtui.core.tasks.task import Task, ToolCall

ROOT = Path(__file__).parents[2]


@pytest.fixture
def letters() -> Letters:
    return Letters()


@pytest.fixture
def make_letters() -> type[Letters]:
    return Letters


@pytest.fixture
def gym() -> GymConfig:
    return load_config(ROOT / "configs" / "2048.yaml")


@pytest.fixture
def game() -> Callable[..., Task]:
    """A task of the bundled game."""

    def make(
        name: str = "t", *, seed: int = 1, evaluate: str = "evaluate", setup: str = "setup"
    ) -> Task:
        return Task(
            id=name,
            prompt="Play.",
            mcp_config={
                "game": {"command": sys.executable, "args": ["-m", "hudtui.envs.text_2048"]}
            },
            setup=(ToolCall(setup, {"name": "board", "board_size": 4, "seed": seed}),),
            evaluate=(ToolCall(evaluate, {"name": "max_number", "target": 64}),),
        )

    return make


@pytest.fixture
def script(letters: Letters) -> Callable[..., Any]:
    """A stand-in for a model: gives the texts in turn to each prompt, and keeps what it was
    asked."""

    class Script:
        def __init__(self, *texts: str, ended: bool = True) -> None:
            self.texts = itertools.cycle(texts)
            self.ended = ended
            self.asked: list[list[str]] = []

        def __call__(self, prompts: list[list[int]]) -> tuple[list[list[int]], list[list[float]]]:
            self.asked.append([letters.decode(ids) for ids in prompts])
            said = [
                letters(next(self.texts), add_special_tokens=False)["input_ids"] + [1] * self.ended
                for _ in prompts
            ]
            return said, [[-0.5] * len(ids) for ids in said]

    return Script


@pytest.fixture(scope="session")
def trainer_python() -> str:
    """Python of the environment that `scripts/bootstrap dev` makes for rehearsals."""
    python = ROOT / ".venv-train" / "bin" / "python"
    if not python.exists():
        pytest.skip("there is no .venv-train: scripts/bootstrap dev makes it")
    return str(python)


@pytest.fixture(scope="session")
def trainer(trainer_python: str) -> Iterator[ReadyPython]:
    """The same Python, with PyTorch and TRL imported."""
    env = {
        **os.environ,
        "TRL_EXPERIMENTAL_SILENCE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONFAULTHANDLER": "1",
    }
    with ReadyPython(
        trainer_python, env, ("trl", "peft", "datasets", "trl.trainer.grpo_trainer")
    ) as ready:
        yield ready


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def read_rows() -> Callable[[Path], list[dict[str, Any]]]:
    return rows
