"""Run by test_nodes inside the training environment: a training whose replies do not depend on the
number of its processes, and which keeps the gradients of each step in its output folder."""

from __future__ import annotations

import hashlib
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from hudtui.trainers import grpo, tiny
from hudtui.trainers.replies import Generated

MOVES = ["nothing"]

load_model = grpo.load_model


def with_moves(recipe: Any, config: Any, tasks: Any) -> Any:
    """The model; its replies are calls of the configuration, and one that is none."""
    MOVES.extend(tiny.example_replies(config))
    return load_model(recipe, config, tasks)


def generate_turn(trainer: Any, prompts: list[list[int]]) -> Generated:
    """The same replies to the same prompts; one that occurs again gets another reply."""
    tokenizer, seen, replies = trainer._tokenizer, Counter[tuple[int, ...]](), []
    for prompt in prompts:
        key = tuple(prompt)
        digest = hashlib.sha256(repr((key, seen[key])).encode()).hexdigest()
        seen[key] += 1
        move = random.Random(digest).choice(MOVES)
        replies.append([*tokenizer.encode(move), tokenizer.eos_token_id])
    return replies, None


class KeepsGradients(TrainerCallback):  # type: ignore[misc]
    """Writes the gradients, as they are added up over all processes."""

    def __init__(self, out: Path) -> None:
        self.out = out

    def on_pre_optimizer_step(
        self, args: Any, state: Any, control: Any, model: Any = None, **_: Any
    ) -> None:
        if not state.is_world_process_zero:
            return
        kept = {
            name.removeprefix("module."): weights.grad.detach().clone()
            for name, weights in model.named_parameters()
            if weights.grad is not None
        }
        torch.save(kept, self.out / f"gradients-{state.global_step + 1}.pt")


def compare(first: Path, second: Path) -> None:
    """Print, for each step, the largest gradient and the largest difference."""
    for path in sorted(first.glob("gradients-*.pt")):
        ours, theirs = torch.load(path), torch.load(second / path.name)
        assert ours.keys() == theirs.keys()
        largest = max(float(one.abs().max()) for one in ours.values())
        apart = max(float((one - theirs[name]).abs().max()) for name, one in ours.items())
        print(path.stem.partition("-")[2], largest, apart)


make_trainer = grpo.make_trainer


def with_record(*arguments: Any) -> Any:
    """The trainer, with what keeps its gradients."""
    trainer = make_trainer(*arguments)
    trainer.add_callback(KeepsGradients(arguments[-1]))
    return trainer


if __name__ == "__main__":
    if sys.argv[1] == "compare":
        compare(Path(sys.argv[2]), Path(sys.argv[3]))
        sys.exit(0)
    grpo.generate_turn = generate_turn
    grpo.make_trainer = with_record
    grpo.load_model = with_moves
    grpo._exit(grpo.main())
