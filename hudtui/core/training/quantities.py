"""What trainers measure: the numbers that every trainer has, whatever it calls them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Quantity:
    """A number that is worth a curve of its own."""

    name: str
    """The same for all trainers."""
    title: str
    aliases: tuple[str, ...]
    """What trainers call it, the most telling first; see `normal`."""
    unit: str = ""


QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        "reward",
        "reward",
        (
            *("reward", "train/reward", "reward/all/mean", "reward/mean", "rewards/mean", "mean_reward", "avg_reward"),
            *("eval_reward", "val/reward", "rewards/env_reward/mean"),
        ),
    ),
    Quantity(
        "reward_std",
        "reward std",
        (
            *("reward_std", "train/reward_std_dev", "reward_std_dev", "reward/all/std", "reward/std", "rewards/std"),
            *("rewards/env_reward/std", "std_reward"),
        ),
    ),
    Quantity(
        "loss",
        "loss",
        ("loss", "loss/mean", "loss/train", "train/loss", "train_loss", "policy_loss", "trainer_loss", "loss/all/mean"),
    ),
    Quantity(
        "kl",
        "KL",
        (
            *("kl", "mismatch_kl/all/mean", "mismatch_kl/mean", "mismatch_kl", "loss/kl_policy_ref", "loss/kl_div", "kl_div"),
            *("approx_kl", "mean_kl", "train/kl", "trainer_mismatch_kl"),
        ),
    ),
    Quantity(
        "entropy", "entropy", ("entropy", "entropy/all/mean", "entropy/mean", "loss/entropy", "train/entropy", "trainer_entropy")
    ),
    Quantity(
        "learning_rate",
        "learning rate",
        ("learning_rate", "optim/lr", "loss/learning_rate", "train/learning_rate", "lr", "trainer_learning_rate"),
    ),
    Quantity(
        "tokens_per_s",
        "tokens/s",
        (
            *("tokens_per_s", "perf/throughput", "tokens_per_second", "tokens/s", "throughput", "throughput/tokens_per_s"),
            *("trainer_throughput_tokens_per_sec", "avg_generation_throughput"),
        ),
    ),
    Quantity("step_time", "step time", ("step_time", "time/step", "time/step_wall_s", "time/step_trainer_s"), "s"),
    Quantity(
        "completion_length",
        "completion length",
        (
            *("completions/mean_length", "completion_length", "mean_completion_length", "seq_len/all/mean", "seq_len/mean"),
            *("seq_length", "train/completion_tokens", "completion_tokens"),
        ),
        "tokens",
    ),
)
"""In the order in which they are shown."""

_PLACE = {alias: (quantity.name, place) for quantity in QUANTITIES for place, alias in enumerate(quantity.aliases)}
_SPACES = re.compile(r"[\s]+")


def normal(name: str) -> str:
    """A name as aliases are written: small letters, `_` for spaces, no dots."""
    return _SPACES.sub("_", name.strip().lower().replace(".", ""))


def quantity_named(name: str) -> str | None:
    """The quantity that a trainer's `name` stands for; None for one that has no common name."""
    found = _PLACE.get(normal(name))
    return found[0] if found else None


def best_series(quantity: str, names: Iterable[str]) -> str | None:
    """Of a trainer's `names` the one that tells `quantity` best; None where none does."""
    best: tuple[int, str] | None = None
    for name in names:
        found = _PLACE.get(normal(name))
        if found is not None and found[0] == quantity and (best is None or found[1] < best[0]):
            best = (found[1], name)
    return best[1] if best else None
