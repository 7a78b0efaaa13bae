"""Options of an audit. Commands import this module at their start: it stays small."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hudtui.core.knobs import knob


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """Settings of an audit."""

    model: str | None = knob(
        None,
        "A model behind OPENAI_BASE_URL that plays, too: it shows what can be earned.",
        "--model",
        "-m",
    )
    recorded: Path | None = knob(
        None, "Recorded episodes of a good player, which show what can be earned.", "--episodes"
    )
    limit: int = knob(5, "Tasks that are played, evenly from all.", "--limit", "-n", minimum=1)
    group: int = knob(8, "Episodes a group of the training has.", "--group", "-r", minimum=2)
    most_random: int = knob(
        256,
        "Most episodes of random calls a task: played until it is known what a group would teach, "
        "for 20 seconds at most.",
        "--random",
        minimum=2,
    )
    seed: int = knob(0, "Random seed of the players.")
    context: int = knob(4096, "Tokens of a conversation with the model.", minimum=1)
    concurrency: int = knob(4, "Episodes at the same time.", minimum=1, maximum=256)
    crowd: int = knob(
        64,
        "Most episodes side by side, once at the end; fewer where the environment starts slowly.",
        minimum=4,
        maximum=256,
    )
    source: str | None = knob(
        None, "Environment to play in, instead of the environment of each task."
    )
    timeout: float | None = knob(
        None,
        "Seconds for a connection, and for one call; by default HUD_CLIENT_TIMEOUT, 60.",
        minimum=0.1,
    )
    reuse: bool = knob(
        False,
        "Keep an environment for the next episode instead of starting a fresh one.",
        "--reuse",
    )
    out_dir: Path | None = knob(
        None, "Folder for the episodes; by default a new one in outputs/.", "--output", "-o"
    )
