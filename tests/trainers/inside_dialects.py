"""Run by test_trainings inside the training environment: TRL trains the tiny model in dialects with
tools for two steps, on an environment in memory. Prints one JSON object."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from hudtui.core.environment.values import ContentBlock, Session, Tool, ToolResult
from hudtui.core.gym.config import load_config, with_dialect
from hudtui.core.tasks.task import Task, ToolCall
from hudtui.core.training.recipe import REHEARSAL, recipe_from
from hudtui.trainers import grpo
from hudtui.trainers.rollout import EpisodeRunner, TrainingEpisode
from hudtui.trainers.tokens import chat_tokens_for
from hudtui.trainers.training_log import MetricsCallback, TrainingLog

ROOT = Path(__file__).parents[2]
DIRECTIONS = ["left", "right", "up", "down"]
MOVE = {
    "type": "object",
    "properties": {"direction": {"type": "string", "enum": DIRECTIONS}},
    "required": ["direction"],
}


class Lefts:
    """The reward is the share of moves to the left."""

    tools: Mapping[str, Tool] = {"move": Tool("move", "Push the tiles.", MOVE)}

    def __init__(self) -> None:
        self.moves: list[str] = []

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        if name == "evaluate":
            share = self.moves.count("left") / max(len(self.moves), 1)
            return ToolResult((), structured={"reward": share})
        self.moves.append(str(arguments["direction"]))
        return ToolResult((ContentBlock("text", text="moved"),))


@contextlib.asynccontextmanager
async def connect(servers: Mapping[str, Any]) -> AsyncIterator[Session]:
    yield Lefts()


class Recorded(EpisodeRunner):
    """Keeps what the trainer gets."""

    played: list[TrainingEpisode]

    async def play(self, *args: Any, **more: Any) -> list[TrainingEpisode]:
        found = await super().play(*args, **more)
        self.played = [*getattr(self, "played", []), *found]
        return found


def exact(one: TrainingEpisode, players: EpisodeRunner) -> bool:
    """True if the mask has the model's replies, token by token, and nothing else; and the prompt is
    what the template renders."""
    scribe, episode = players.scribe, one.episode
    runs = [
        (own, [ids for ids, _ in run])
        for own, run in groupby(
            zip(one.completion_ids, one.mask, strict=True), key=lambda pair: pair[1]
        )
    ]
    replies = [scribe.text(ids) for own, ids in runs if own]
    player = players._player(Lefts(), Task(id="t", prompt="", mcp_config={}), {})
    return (
        replies == [turn.reply for turn in episode.turns]
        and one.prompt_ids == scribe.open(episode.messages[:2], player.functions).ids
    )


def train(dialect: str, out: Path) -> dict[str, Any]:
    out.mkdir()
    config = with_dialect(load_config(ROOT / "configs" / "2048.yaml"), dialect)
    settings = {"steps": 2, "max_turns": 2, "num_generations": 8, "batch_size": 8}
    recipe = recipe_from({**REHEARSAL, **settings, "beta": 0.0, "dialect": dialect})
    judged = (ToolCall("evaluate", {}),)
    tasks = [Task(id=f"t{n}", prompt="Play.", mcp_config={}, evaluate=judged) for n in range(2)]
    model, tokenizer = grpo.load_model(recipe, config, tasks)
    scribe, told = chat_tokens_for(
        tokenizer, thinking=config.parser.use_thinking, dialect=config.parser.dialect
    )
    players = Recorded(
        config,
        scribe,
        connect,
        max_tokens=recipe.max_tokens,
        max_seq_len=recipe.max_seq_len,
        max_turns=recipe.max_turns,
    )
    journal = TrainingLog(out, per_step=0)
    chronicle = MetricsCallback(out, journal, recipe)
    trainer = grpo.make_trainer(recipe, model, tokenizer, players, tasks, journal, chronicle, out)
    trainer.train()
    journal.close("completed")
    turns = [turn for one in players.played for turn in one.episode.turns]
    return {
        "step": trainer.state.global_step,
        "told": told,
        "turns": len(turns),
        "calls": sum(turn.call is not None for turn in turns),
        "roles": sorted(
            {message["role"] for one in players.played for message in one.episode.messages}
        ),
        "exact": sum(exact(one, players) for one in players.played),
        "episodes": len(players.played),
        "rewards": sorted({one.reward for one in players.played if one.reward is not None}),
        "learned": any(
            "lora_B" in name and bool(value.abs().sum() > 0)
            for name, value in trainer.model.named_parameters()
        ),
        "finite": all(bool(torch.isfinite(one).all()) for one in trainer.model.parameters()),
    }


print("RESULT", json.dumps({name: train(name, Path(sys.argv[1]) / name) for name in sys.argv[2:]}))
