from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.gym.config import load_config
from hudtui.core.gym.values import GymConfig
from hudtui.core.tasks.task import Task, ToolCall

ROOT = Path(__file__).parents[2]


class Letters:
    """A tokenizer with one token a character; the three marks of a conversation are tokens of their own."""

    MARKS = ("<|start|>", "<|end|>", "<|pad|>")
    eos_token, eos_token_id, pad_token_id = "<|end|>", 1, 2
    chat_template: str | None = "as in apply_chat_template"

    def __init__(self, *, drops_thoughts: bool = False, opens: str = "") -> None:
        self.drops_thoughts = drops_thoughts
        self.opens = opens

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], *, tokenize: bool, add_generation_prompt: bool) -> str:
        assert tokenize is False
        text = ""
        for number, message in enumerate(messages):
            content = message["content"]
            if self.drops_thoughts and message["role"] == "assistant" and number < len(messages) - 1:
                content = content.partition("</think>")[2] or content
            text += f"<|start|>{message['role']}\n{content}<|end|>\n"
        return text + ("<|start|>assistant\n" + self.opens if add_generation_prompt else "")

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        assert add_special_tokens is False
        ids: list[int] = []
        while text:
            mark = next((mark for mark in self.MARKS if text.startswith(mark)), None)
            ids.append(self.MARKS.index(mark) if mark else ord(text[0]) + 10)
            text = text[len(mark) if mark else 1 :]
        return {"input_ids": ids}

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return "".join("" if skip_special_tokens and i < 3 else self.MARKS[i] if i < 3 else chr(i - 10) for i in ids)


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

    def make(name: str = "t", *, seed: int = 1, evaluate: str = "evaluate", setup: str = "setup") -> Task:
        return Task(
            id=name,
            prompt="Play.",
            mcp_config={"game": {"command": sys.executable, "args": ["-m", "hudtui.envs.text_2048"]}},
            setup=(ToolCall(setup, {"name": "board", "board_size": 4, "seed": seed}),),
            evaluate=(ToolCall(evaluate, {"name": "max_number", "target": 64}),),
        )

    return make


@pytest.fixture
def script(letters: Letters) -> Callable[..., Any]:
    """A stand-in for a model: gives the texts in turn to each prompt, and keeps what it was asked."""

    class Script:
        def __init__(self, *texts: str, ended: bool = True) -> None:
            self.texts = itertools.cycle(texts)
            self.ended = ended
            self.asked: list[list[str]] = []

        def __call__(self, prompts: list[list[int]]) -> tuple[list[list[int]], list[list[float]]]:
            self.asked.append([letters.decode(ids) for ids in prompts])
            said = [letters(next(self.texts), add_special_tokens=False)["input_ids"] + [1] * self.ended for _ in prompts]
            return said, [[-0.5] * len(ids) for ids in said]

    return Script


@pytest.fixture(scope="session")
def trainer_python() -> str:
    """Python of the environment that `scripts/bootstrap dev` makes for rehearsals."""
    python = ROOT / ".venv-train" / "bin" / "python"
    if not python.exists():
        pytest.skip("there is no .venv-train: scripts/bootstrap dev makes it")
    return str(python)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def read_rows() -> Callable[[Path], list[dict[str, Any]]]:
    return rows
