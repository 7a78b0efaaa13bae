"""What the scripts have in common that train SmolLM2-135M on a processor."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

LORA: dict[str, Any] = {
    "gradient_accumulation": 1,
    "num_generations": 4,
    "max_turns": 1,
    "beta": 0,
    "max_grad_norm": 1,
    "lora_rank": 16,
    "lora_alpha": 32,
    "lora_targets": ["all-linear"],
    "gradient_checkpointing": False,
    "warmup_steps": 1,
}


def training_file(**own: Any) -> str:
    """A file of settings of the trainer: those of `LORA`, and the script's own."""
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in {**LORA, **own}.items())


def arguments(out: str, *, steps: int, smoke: str) -> argparse.Namespace:
    """The arguments of a script that trains once, with whole paths.

    Args:
        out: The default folder.
        steps: The default number of steps.
        smoke: What the smoke mode does without.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--python", type=Path, help="a Python with TRL, for the trainer")
    parser.add_argument("--smoke", action="store_true", help=f"seconds, without {smoke}")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(out))
    given = parser.parse_args()
    if not given.smoke and given.model is None:
        parser.error("name the folder of the model, or --smoke")
    for name in ("model", "python", "out"):
        path = getattr(given, name)
        setattr(given, name, path and path.absolute())
    return given
