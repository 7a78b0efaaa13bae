"""Options of runs that engines take as they are, and when options count.

Commands import this at their start: it stays small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hudtui.core.gym.dialects.names import dialect_choices
from hudtui.core.knobs import Texts, knob

if TYPE_CHECKING:
    from hudtui.core.training.features import Features

WHAT, TRAINING, ROLLOUTS, WHERE, LIMITS = "What to run", "Training", "Rollouts", "Where", "Limits"
"""Groups of the options of a run."""
TRAINER, PLAYER = "trl", "rollouts"
"""The engines of a run that names none: where the machine can train, and where it cannot."""
_HERE = "local"


def engine_of(texts: Texts) -> Features:
    """Return the abilities of the engine that texts name."""
    from hudtui.core.training.engines import features_of  # not at the start of commands

    return features_of(texts.get("engine") or TRAINER)


def plays(texts: Texts) -> bool:
    """Return whether tasks are played, and no model is trained."""
    return not engine_of(texts).trains


def trains(texts: Texts) -> bool:
    """Return whether a model is trained."""
    return engine_of(texts).trains


def rents(texts: Texts) -> bool:
    """Return whether a machine is rented."""
    return (texts.get("provider") or _HERE) != _HERE


def searches(texts: Texts) -> bool:
    """Return whether a machine is chosen among the offers of a provider."""
    return rents(texts) and not texts.get("offer_name")


def is_away(texts: Texts) -> bool:
    """Return whether it runs on another machine than this one."""
    return rents(texts) or (texts.get("host") or _HERE) != _HERE


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Options that a user sets and an engine gets unchanged.

    None leaves the choice to the engine.
    """

    model: str | None = knob(
        None,
        "Model to train: an id on the Hub, or a folder of this computer.",
        "--model",
        "-m",
        when=trains,
        group=WHAT,
    )
    steps: int | None = knob(None, "Training steps.", minimum=1, when=trains, group=TRAINING)
    rehearse: bool = knob(
        False,
        "Train a tiny model for a few steps on the CPU, here or on the chosen machine.",
        in_form=False,
        group=TRAINING,
    )
    rehearse_model: str | None = knob(
        None,
        "Rehearse with this small model instead of the built-in tiny one: a folder, or an id on "
        "the Hub.",
        in_form=False,
        group=TRAINING,
    )
    policy: str | None = knob(
        None,
        "Player: random, greedy, replay:TRACE, or openai:MODEL; by default greedy for 2048, else "
        "random.",
        *("--policy", "-p"),
        when=plays,
        suggestions=("random", "greedy", "replay:", "openai:"),
        unset="greedy for 2048, else random",
        group=ROLLOUTS,
    )
    base_url: str | None = knob(
        None, "Endpoint for openai:MODEL.", label="endpoint", when=plays, group=ROLLOUTS
    )
    group: int = knob(
        1,
        "Episodes per task.",
        "--group",
        "-r",
        minimum=1,
        label="episodes per task",
        when=plays,
        group=ROLLOUTS,
    )
    concurrency: int = knob(
        4, "Episodes at the same time.", minimum=1, maximum=256, in_form=False, group=ROLLOUTS
    )
    limit: int | None = knob(
        None,
        "Play only the first tasks.",
        *("--limit", "-n"),
        minimum=1,
        label="first N tasks",
        unset="all tasks",
        when=plays,
        group=ROLLOUTS,
    )
    seed: int | None = knob(None, "Random seed.", in_form=False, group=ROLLOUTS)
    max_turns: int | None = knob(
        None,
        "Most replies in an episode.",
        minimum=1,
        label="max turns",
        unset="as in the configuration",
        group=ROLLOUTS,
    )
    dialect: str | None = knob(
        None,
        "Form of the model's calls: text, native, hermes, json, harmony or auto; by default as "
        "configured.",
        unset="as in the configuration",
        choices=dialect_choices,
        group=ROLLOUTS,
    )
