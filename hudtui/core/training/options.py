"""Options of runs that engines take as they are. Commands import this module at their start: it stays small."""

from __future__ import annotations

from dataclasses import dataclass

from hudtui.core.knobs import knob

WHAT, TRAINING, ROLLOUTS, WHERE, LIMITS = "What to run", "Training", "Rollouts", "Where", "Limits"
"""Groups of the options of a run, in the order of the command's help and of the form."""
TRAINER, PLAYER = "trl", "rollouts"
"""The engines of a run that names none: where the machine can train, and where it cannot."""


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Options that a user sets and an engine gets unchanged. None leaves the choice to the engine."""

    model: str | None = knob(
        None, "Model to train: an id on the Hub, or a folder of this computer.", "--model", "-m", group=TRAINING
    )
    policy: str = knob("greedy", "Player: random, greedy, replay:TRACE, or openai:MODEL.", "--policy", "-p", group=ROLLOUTS)
    base_url: str | None = knob(None, "Endpoint for openai:MODEL.", label="endpoint", group=ROLLOUTS)
    group: int = knob(1, "Episodes per task.", "--group", "-r", minimum=1, label="episodes per task", group=ROLLOUTS)
    concurrency: int = knob(4, "Episodes at the same time.", minimum=1, maximum=256, group=ROLLOUTS)
    limit: int | None = knob(
        None, "Play only the first tasks.", "--limit", "-n", minimum=1, label="first N tasks", group=ROLLOUTS
    )
    seed: int | None = knob(None, "Random seed.", group=ROLLOUTS)
    max_turns: int | None = knob(None, "Most replies in an episode.", minimum=1, label="max turns", group=ROLLOUTS)
    steps: int | None = knob(None, "Training steps.", minimum=1, group=TRAINING)
    rehearse: bool = knob(False, "Train a tiny model for a few steps on the CPU, here or on the chosen machine.", group=TRAINING)
    rehearse_model: str | None = knob(
        None,
        "Rehearse with this small model instead of the built-in tiny one: a folder, or an id on the Hub.",
        label="rehearse with",
        group=TRAINING,
    )
