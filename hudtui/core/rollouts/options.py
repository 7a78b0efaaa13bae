"""Options of playing that commands share. Commands import this module at their start: it stays small."""

from __future__ import annotations

from dataclasses import dataclass

from hudtui.core.knobs import knob


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions:
    """How episodes are played, by a policy or by hand. None leaves the choice to the tasks, the configuration or the settings."""

    split: str | None = knob(None, "Split of a dataset; train by default.")
    seed: int | None = knob(None, "Random seed of the policy; also sent to a model.")
    """None: 0 for the scripted policies, and none for a model."""
    max_turns: int | None = knob(None, "Most replies in an episode; by default as configured.", minimum=1)
    source: str | None = knob(None, "Environment to play in, instead of the environment of each task.")
    timeout: float | None = knob(
        None, "Seconds for a connection, and for one call; by default HUD_CLIENT_TIMEOUT, 60.", minimum=0.1
    )
    images: bool | None = knob(
        None, "Show images to the policy or not; by default as the policy prefers.", "--images/--no-images"
    )
    base_url: str | None = knob(None, "Endpoint for openai:MODEL; by default OPENAI_BASE_URL, or OpenAI's own.")
    key_variable: str = knob("OPENAI_API_KEY", "Setting that holds the endpoint's key.", "--api-key-var")
    temperature: float | None = knob(None, "Sampling temperature for the model.", minimum=0)
    max_tokens: int | None = knob(None, "Most tokens in a reply of the model.", minimum=1)
    max_context: int | None = knob(
        None, "Most tokens in a conversation with the model; an episode without room for a reply ends.", minimum=1
    )
    reply_timeout: float = knob(120.0, "Seconds for one reply of the model.", minimum=0.1)
