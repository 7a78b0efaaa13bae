"""Run by test_trainings inside the training environment: short trainings on an environment in
memory. Prints one JSON object."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import math
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from hudtui.core.environment.values import ContentBlock, Session, Tool, ToolResult
from hudtui.core.errors import ConnectError, HudtuiError
from hudtui.core.gym.config import load_config
from hudtui.core.platform import HUD
from hudtui.core.settings import load_settings
from hudtui.core.tasks.task import Task, ToolCall
from hudtui.core.training.chat_tokens import ChatTokens
from hudtui.core.training.recipe import REHEARSAL, recipe_from
from hudtui.trainers import grpo
from hudtui.trainers.records import begin_job, forget_after
from hudtui.trainers.replies import BatchReplies
from hudtui.trainers.rollout import EpisodeRunner
from hudtui.trainers.training_log import METRICS, MetricsCallback, TrainingLog, last_checkpoint

ROOT = Path(__file__).parents[2]
SHORT = {
    "warm_start": 0,
    "max_turns": 1,
    "max_tokens": 4,
    "num_generations": 2,
    "beta": 0.0,
    "save_every": 1,
    "keep_checkpoints": 9,
}


class Memory:
    """Says the rewards in turn."""

    tools: Mapping[str, Tool] = {"move": Tool("move", "", {"type": "object"})}

    def __init__(self, rewards: list[float]) -> None:
        self.rewards = rewards

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        if name == "evaluate":
            self.rewards.append(self.rewards.pop(0))
            return ToolResult((), structured={"reward": self.rewards[-1]})
        return ToolResult((ContentBlock("text", text="moved"),))


@contextlib.asynccontextmanager
async def connect(servers: Mapping[str, Any]) -> AsyncIterator[Session]:
    """The rewards are where an address would be; without any, nobody answers."""
    if servers["memory"] is None:
        raise ConnectError("nobody answers")
    yield Memory(servers["memory"])


class Lesson:
    """One training after another, each from the same model.

    Args:
        folder: For what they leave.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = load_config(ROOT / "configs" / "2048.yaml")
        self.model, self.tokenizer = grpo.load_model(
            recipe_from({**REHEARSAL, **SHORT}), self.config, self.tasks([])
        )

    def tasks(self, rewards: list[list[float] | None]) -> list[Task]:
        evaluate = (ToolCall("evaluate", {}),)
        return [
            Task(
                id=f"t{n}", prompt="Play.", mcp_config={"memory": each}, setup=(), evaluate=evaluate
            )
            for n, each in enumerate(rewards)
        ]

    def train(
        self,
        name: str,
        rewards: list[list[float] | None],
        *,
        again: int | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """Train, or go on after the step `again` of a training that was broken off there."""
        out = self.folder / name
        out.mkdir(exist_ok=True)
        recipe = recipe_from({**REHEARSAL, **SHORT, **settings})
        warned: list[str] = []
        players = EpisodeRunner(
            self.config,
            ChatTokens(self.tokenizer),
            connect,
            max_tokens=recipe.max_tokens,
            max_seq_len=recipe.max_seq_len,
            max_turns=recipe.max_turns,
            warn=warned.append,
            pauses=(0.01, 0.01),
        )
        settings_here = load_settings(
            out, HUD, environ={"HUD_TELEMETRY_LOCAL_DIR": str(out / "spans")}
        )
        config = replace(self.config, job={"name": name})
        telemetry = begin_job(config, settings_here, recipe, out)
        journal = TrainingLog(out, per_step=0, telemetry=telemetry)
        chronicle = MetricsCallback(out, journal, recipe)
        model, tasks = copy.deepcopy(self.model), self.tasks(rewards)
        trainer = grpo.make_trainer(
            recipe, model, self.tokenizer, players, tasks, journal, chronicle, out
        )
        checkpoint = None
        if again is not None:
            checkpoint = str(out / "checkpoints" / f"checkpoint-{again}")
            forget_after(out / METRICS, again)
            chronicle.recall()
        error = None
        try:
            trainer.train(resume_from_checkpoint=checkpoint)
        except HudtuiError as caught:
            error = caught.lines()
        journal.close("completed" if error is None else "failed")
        rows = (
            [json.loads(line) for line in (out / METRICS).read_text().splitlines()]
            if (out / METRICS).exists()
            else []
        )
        saved = last_checkpoint(out / "checkpoints")
        return {
            "step": trainer.state.global_step,
            "why": chronicle.why,
            "error": error,
            "warned": warned,
            "evaluated": [row["step"] for row in rows if "eval_reward" in row],
            "rewards": [row["reward"] for row in rows if "reward" in row],
            "broken": [row["broken"] for row in rows if "broken" in row],
            "finite": all(math.isfinite(value) for row in rows for value in row.values()),
            "saved": saved.name if saved else None,
            "spans": len(list((out / "spans").glob("*.jsonl"))),
            "learned": any(
                bool(value.any()) for key, value in model.named_parameters() if "lora_B" in key
            ),
        }


async def parts(lesson: Lesson, folder: Path) -> dict[str, float]:
    """The means of a step whose tasks say what they expect, of a reply without a call."""
    expected = [[{"reply": {"contains": "left"}}], [{"reply": {"contains": "?"}, "name": "asks"}]]
    tasks = [
        Task(f"t{n}", "Play.", {"memory": [1.0]}, extra={"evaluate": evaluate})
        for n, evaluate in enumerate(expected)
    ]
    scribe = ChatTokens(lesson.tokenizer)
    runner = EpisodeRunner(
        lesson.config, scribe, connect, max_tokens=20, max_seq_len=9000, max_turns=1
    )
    reply = [*scribe.tokenizer("left", add_special_tokens=False)["input_ids"], scribe.end]
    played = await runner.play(tasks, BatchReplies(lambda prompts: ([reply] * len(prompts), None)))
    journal = TrainingLog(folder, per_step=0)
    journal.keep(tasks, played, split="train")
    return journal.means()


def main(folder: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    lesson = Lesson(folder)
    same: list[list[float] | None] = [[0.5]] * 6
    patient = {"held_out": 1, "eval_every": 1, "patience": 2, "steps": 9}
    found = {
        "patience": lesson.train("patience", same, **patient),
        "patience_again": lesson.train("patience", same, again=2, **patient),
        "goal": lesson.train("goal", same, steps=12, stop_at_reward=0.35, save_every=100),
        "evaluates": lesson.train(
            "evaluates", same, steps=5, held_out=1, eval_every=2, eval_first=True, save_every=100
        ),
        "evaluates_again": lesson.train(
            "evaluates", same, again=5, steps=6, held_out=1, eval_every=9, eval_first=True
        ),
        # Two that teach, one whose reward is no number every second time, and one that nobody
        # answers for.
        "odd": lesson.train(
            "odd", [[0.0, 1.0], [1.0, 0.0], [math.nan, 1.0], None], steps=4, save_every=100
        ),
        "nobody": lesson.train("nobody", [None] * 4, steps=4),
    }
    found["parts"] = asyncio.run(parts(lesson, folder / "parts"))
    whole = folder / "whole"
    kept = {
        "checkpoint-9": {"trainer_state.json": "{}"},
        "checkpoint-10": {"adapter_model.safetensors": "{}"},
    }
    kept |= {
        f"checkpoint-{step}": {"trainer_state.json": torn}
        for step, torn in ((11, ""), (12, '{"epoch": 1'))
    }
    for name, files in kept.items():
        (whole / name).mkdir(parents=True)
        for file, text in files.items():
            (whole / name / file).write_text(text)
    found["whole"] = [str(last_checkpoint(whole)), str(last_checkpoint(folder / "none"))]
    return found


if __name__ == "__main__":
    print("RESULT " + json.dumps(main(Path(sys.argv[1]))))
