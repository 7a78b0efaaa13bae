"""Options of playing that commands share.

Commands import this module at their start: it stays small.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hudtui.core.gym.dialects.names import dialect_choices
from hudtui.core.knobs import knob


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions:
    """Settings of episodes, played by a policy or by hand.

    None leaves the choice to the tasks, the configuration or the settings.
    """

    split: str | None = knob(None, "Split of a dataset; train by default.")
    seed: int | None = knob(None, "Random seed of the policy; also sent to a model.", unset="none")
    """None: 0 for the scripted policies, and none for a model."""
    max_turns: int | None = knob(
        None,
        "Most replies in an episode; by default as configured.",
        label="turns",
        unset="as in the configuration",
        minimum=1,
    )
    dialect: str | None = knob(
        None,
        "Form of the model's calls: text, native, hermes, json, harmony or auto; by default as "
        "configured.",
        unset="as in the configuration",
        choices=dialect_choices,
    )
    source: str | None = knob(
        None, "Environment to play in, instead of the environment of each task."
    )
    timeout: float | None = knob(
        None,
        "Seconds for a connection, and for one call; by default HUD_CLIENT_TIMEOUT, 60.",
        minimum=0.1,
    )
    images: bool | None = knob(
        None,
        "Show images to the policy or not; by default as the policy prefers.",
        "--images/--no-images",
    )
    base_url: str | None = knob(
        None,
        "Endpoint for openai:MODEL; by default OPENAI_BASE_URL, or OpenAI's own.",
        label="endpoint",
        unset="as set in OPENAI_BASE_URL",
        when=lambda texts: texts.get("policy", "").startswith("openai:"),
    )
    key_variable: str = knob(
        "OPENAI_API_KEY", "Setting that holds the endpoint's key.", "--api-key-var"
    )
    temperature: float | None = knob(None, "Sampling temperature for the model.", minimum=0)
    max_tokens: int | None = knob(None, "Most tokens in a reply of the model.", minimum=1)
    max_context: int | None = knob(
        None,
        "Most tokens in a conversation with the model; an episode without room for a reply ends.",
        minimum=1,
    )
    reply_timeout: float = knob(120.0, "Seconds for one reply of the model.", minimum=0.1)


@dataclass(frozen=True, kw_only=True)
class EvalOptions(EpisodeOptions):
    """Settings of an evaluation."""

    policy: str | None = knob(
        None,
        "random, greedy, solution (of each task), replay:TRACE, or openai:MODEL for a model behind "
        "an endpoint; by default greedy for 2048, else random.",
        "--policy",
        "-p",
    )
    reward: str | None = knob(
        None, "Code of your own for the reward: FILE.py:NAME or package.module:NAME."
    )
    limit: int | None = knob(
        None,
        "Play only the first N tasks; -1 for all. By default all, and 5 of hud-vf-gym, as vf-eval "
        "does.",
        "--limit",
        "--num-examples",
        "-n",
        minimum=-1,
    )
    group: int = knob(
        1,
        "Episodes per task; 1 by default, and 3 of hud-vf-gym.",
        "--group",
        "--rollouts-per-example",
        "-r",
        minimum=1,
    )
    concurrency: int = knob(4, "Episodes at the same time.", minimum=1, maximum=256)
    out_dir: Path | None = knob(
        None,
        "Folder for traces.jsonl and metrics.jsonl; by default a new one in outputs/.",
        "--output",
        "-o",
    )
    resume: bool = knob(False, "Continue the evaluation in --output.", "--resume")
    reuse: bool = knob(
        False, "Keep an environment for the next task instead of starting a fresh one.", "--reuse"
    )
    keep_folders: bool = knob(
        False,
        "Keep the ${EPISODE_DIR} of episodes that broke off or are not solved, in --output.",
        "--keep-folders",
    )


@dataclass(frozen=True, kw_only=True)
class PlayTaskOptions(EpisodeOptions):
    """Settings of one episode."""

    task: str | None = knob(
        None, "Play this task; by default the first.", metavar="ID", unset="the first one"
    )
    policy: str | None = knob(
        None,
        "random, greedy, solution (of the task), replay:TRACE, or openai:MODEL; without one, you "
        "play by hand.",
        "--policy",
        "-p",
        unset="by hand",
    )
    by_hand: bool = knob(
        False,
        "Begin by hand: read replies from standard input. /go gives the episode to --policy.",
        "--by-hand",
    )
    take_over: int | None = knob(
        None, "Let the policy pause at this turn for replies by hand.", metavar="TURN", minimum=1
    )
