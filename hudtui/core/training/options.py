"""Options of runs that engines take as they are. Commands import this module at their start: it stays small."""

from __future__ import annotations

from dataclasses import dataclass

from hudtui.core.knobs import knob


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """Options that a user sets and an engine gets unchanged. None leaves the choice to the engine."""

    model: str | None = knob(
        None,
        "What is trained: an id on the Hub.",
        "--model",
        "-m",
        hint="what is trained, an id on the Hub; the engine's usual one when empty",
    )
    policy: str = knob(
        "greedy",
        "Of rollouts: random, greedy, replay:TRACE, or openai:MODEL.",
        "--policy",
        "-p",
        hint="greedy, random, replay:FILE, openai:MODEL",
    )
    base_url: str | None = knob(
        None, "Endpoint for openai:MODEL.", label="endpoint", hint="for openai:MODEL; its usual one when empty"
    )
    group: int = knob(
        1, "Of rollouts: episodes for each task.", "--group", "-r", minimum=1, label="per task", hint="episodes a task"
    )
    concurrency: int = knob(4, "Of rollouts: episodes at once.", minimum=1, maximum=256)
    limit: int | None = knob(
        None, "Of rollouts: only the first tasks.", "--limit", "-n", minimum=1, hint="only the first tasks; all when empty"
    )
    seed: int | None = knob(None, "Seed of all that is random.")
    max_turns: int | None = knob(
        None,
        "Replies an episode may have.",
        minimum=1,
        label="max turns",
        hint="replies an episode may have; the config's when empty",
    )
    steps: int | None = knob(None, "Training steps.", minimum=1, hint="{steps} when empty")
    rehearse: bool = knob(False, "A tiny model for a few steps on the CPU: here, or on the machine that is named.")
