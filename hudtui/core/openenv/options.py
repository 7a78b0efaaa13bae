"""Options of a server of episodes. Commands import this module at their start: it stays small."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hudtui.core.knobs import knob


@dataclass(frozen=True)
class ServeRequest:
    """Options of a server of episodes."""

    config: Path | None = None
    """The configuration of the actions; None: every tool of the environment is an action."""
    tasks: str | None = None
    """The task file; None: one task without prompt, setup and evaluation, in `source`."""
    source: str | None = knob(None, "Environment to play in, instead of the one each task names.")
    host: str = knob("127.0.0.1", "Address to listen at.")
    port: int = knob(8000, "Port to listen at; 0 chooses a free one.", minimum=0, maximum=65535)
    token_variable: str | None = knob(
        None, "Setting that holds the token; by default a random token.", "--token-var"
    )
    open: bool = knob(False, "Require no token; only at an address of this computer.", "--no-token")
    sessions: int = knob(64, "Sessions at once.", minimum=1, maximum=4096)
    split: str | None = knob(None, "Split of a dataset that has several; by default train.")
    limit: int | None = knob(None, "Serve only the first N tasks.", "--limit", "-n", minimum=1)
    max_turns: int | None = knob(
        None, "Most replies in an episode; by default as configured.", minimum=1
    )
    timeout: float | None = knob(
        None,
        "Seconds for a connection, and for one call; by default HUD_CLIENT_TIMEOUT, 60.",
        minimum=0.1,
    )
    images: bool = knob(False, "Send images, too.")
    reuse: bool = knob(
        False, "Keep a client's environment for its next task instead of starting a fresh one."
    )
    out_dir: Path | None = knob(
        None, "Folder for traces.jsonl; by default episodes are not kept.", "--output", "-o"
    )
