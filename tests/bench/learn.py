#!/usr/bin/env python3
"""Whether training teaches: GRPO through the whole stack on a CPU, from a tiny model that barely emits calls.

    .venv-train/bin/python tests/bench/learn.py [--seeds 5] [--first 0] [--steps 15] [--json FILE]

For each seed a model is built and imitates calls until one of ten of its replies is a call that can be carried out. Then
GRPO with LoRA trains it on games of 2048: the bundled environment as a real MCP server, four turns a game. Measured is the
mean reward on boards that it was not trained on, before and after, with a paired t-test over the seeds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import torch  # noqa: E402

from hudtui.core.gym.config import load_config  # noqa: E402
from hudtui.core.gym.interpret import Interpreter  # noqa: E402
from hudtui.core.gym.values import GymConfig  # noqa: E402
from hudtui.core.platform import choose_platform  # noqa: E402
from hudtui.core.settings import load_settings  # noqa: E402
from hudtui.core.tasks.task import Task, ToolCall  # noqa: E402
from hudtui.core.training.recipe import REHEARSAL, recipe_from  # noqa: E402
from hudtui.trainers import grpo, tiny  # noqa: E402
from hudtui.trainers.journal import Chronicle, Journal  # noqa: E402
from hudtui.trainers.rollout import Players  # noqa: E402
from hudtui.trainers.tokens import Scribe  # noqa: E402

WARM = 0.1
"""Share of replies that are calls, at which imitation ends and training begins."""

ONE_SIDED = {2: 6.314, 3: 2.920, 4: 2.353, 5: 2.132, 6: 2.015, 7: 1.943, 8: 1.895, 9: 1.860, 10: 1.833}
"""Seeds -> the t above which a gain is significant at 5 percent."""


def game(number: int) -> Task:
    return Task(
        id=f"board-{number}",
        prompt="Build a tile of 16.",
        mcp_config={"game": {"command": sys.executable, "args": ["-P", "-m", "hudtui.envs.text_2048"]}},
        setup=(ToolCall("setup", {"name": "board", "board_size": 4, "seed": number}),),
        evaluate=(ToolCall("evaluate", {"name": "max_number", "target": 16}),),
    )


def warm_up(model: Any, tokenizer: Any, config: GymConfig, tasks: list[Task], seed: int) -> int:
    """Imitation until `WARM` of the sampled replies are calls; returns the batches that it took."""
    openings = tiny.openings(Scribe(tokenizer), config, tasks, seed=seed)
    interpreter, asked = Interpreter(config, None), 0

    def enough() -> bool:
        nonlocal asked
        asked += 1
        before = [ids[-192:] for ids in openings * 3]
        width = max(map(len, before))
        pad = tokenizer.pad_token_id
        ids = torch.tensor([[pad] * (width - len(one)) + one for one in before])
        model.eval()
        with torch.no_grad():
            said = model.generate(ids, attention_mask=(ids != pad).long(), do_sample=True, max_new_tokens=40, pad_token_id=pad)
        model.train()
        replies = tokenizer.batch_decode(said[:, width:], skip_special_tokens=True)
        return sum(interpreter.interpret(reply).call is not None for reply in replies) >= WARM * len(replies)

    tiny.imitate(model, tokenizer, openings, tiny.example_replies(config), steps=400, seed=seed, enough=enough)
    return asked


def learn(seed: int, steps: int, folder: Path) -> dict[str, Any]:
    began = time.monotonic()
    recipe = recipe_from(
        {
            **REHEARSAL,
            "seed": seed,
            "steps": steps,
            "batch_size": 16,
            "num_generations": 8,
            "max_turns": 4,
            "max_tokens": 40,
            "learning_rate": 3e-3,
            "save_every": 1000,
            "lora_rank": 16,
            "lora_alpha": 32,
            "beta": 0.0,
        }
    )
    config = load_config(ROOT / "configs" / "2048.yaml")
    settings = load_settings(folder, choose_platform(folder))
    tasks = [game(100 * seed + number) for number in range(8)]
    held_out = [game(10_000 + number) for number in range(16)]
    model, tokenizer = grpo.load_model(recipe, config, tasks)
    imitated = warm_up(model, tokenizer, config, tasks, seed)
    journal = Journal(folder, per_step=0)
    players = Players(
        config,
        Scribe(tokenizer),
        grpo.connector(settings, recipe),
        max_tokens=recipe.max_tokens,
        max_seq_len=recipe.max_seq_len,
        max_turns=recipe.max_turns,
        warn=lambda _: None,
    )
    chronicle = Chronicle(folder, journal, recipe)

    def measure(trainer: Any, boards: list[Task]) -> tuple[float, float]:
        trainer.model.eval()
        played = asyncio.run(players.play(boards, lambda ids: grpo.generate_turn(trainer, ids)))
        trainer.model.train()
        rewards = [one.reward or 0.0 for one in played]
        return statistics.fmean(rewards), statistics.fmean(one.episode.scores.format_compliance for one in played)

    trainer = grpo.make_trainer(recipe, model, tokenizer, players, tasks, journal, chronicle, folder)
    before, form_before = measure(trainer, held_out)
    trainer.train()
    after, form_after = measure(trainer, held_out)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    curve = [round(row["reward"], 3) for row in rows if "reward" in row]
    return {
        "seed": seed,
        "imitated": imitated,
        "before": before,
        "after": after,
        "format_before": form_before,
        "format_after": form_after,
        "curve": curve,
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5, choices=sorted(ONE_SIDED))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)  # the matrices are too small to be shared out
    results = []
    print("seed  imitated  reward before  after   format before  after   seconds  curve", flush=True)
    for seed in range(given.first, given.first + given.seeds):
        with tempfile.TemporaryDirectory() as folder:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # the trainer's own lines
            try:
                found = learn(seed, given.steps, Path(folder))
            finally:
                sys.stdout.close()
                sys.stdout = sys.__stdout__
        results.append(found)
        form = f"{found['format_before']:14.2f}  {found['format_after']:5.2f}"
        curve = " ".join(f"{value:.2f}" for value in found["curve"])
        start = f"{seed:4}  {found['imitated']:8}  {found['before']:13.3f}"
        print(f"{start}  {found['after']:5.3f}  {form}  {found['seconds']:7.0f}  {curve}", flush=True)
    gains = [found["after"] - found["before"] for found in results]
    mean, spread = statistics.fmean(gains), statistics.stdev(gains)
    t = mean / (spread / math.sqrt(len(gains))) if spread else math.inf
    significant = t > ONE_SIDED[given.seeds]
    print(
        f"gain {mean:+.3f} (spread {spread:.3f}), t = {t:.2f} over {len(gains)} seeds, needed {ONE_SIDED[given.seeds]}: ", end=""
    )
    print("significant" if significant else "NOT significant")
    if given.json:
        given.json.write_text(json.dumps({"results": results, "t": t, "mean_gain": mean}, indent=1))
    return 0 if significant else 1


if __name__ == "__main__":
    sys.exit(main())
