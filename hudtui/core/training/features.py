"""The abilities of an engine, as data.

Whoever decides by an engine asks these, and never for its name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Gpu = Literal["needed", "usual", "unused"]
"""Use of GPUs: no training without one; also a model that the user names on a CPU; none at all."""
ANY_MODEL = (
    "Lower batch_size (and raise gradient_accumulation), max_seq_len or num_generations; "
    "gradient_checkpointing on."
)
ANY_SERVER = (
    "Lower gpu_memory_utilization where training shares the GPU, or max_seq_len; raise it where "
    "the cache did not fit."
)


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Sentences for the user about missing memory, in the engine's own names of settings."""

    gpus: str = (
        "Take larger GPUs (--gpus), more of them, a smaller model, or lower batch_size or "
        "max_seq_len."
    )
    """Before the start: the model does not fit."""
    trainer: str = ANY_MODEL
    """The trainer ran out of memory."""
    server: str = ANY_SERVER
    """The model's server ran out of memory."""


@dataclass(frozen=True, kw_only=True)
class Features:
    """Abilities of an engine, and facts that hudtui needs about it.

    The defaults are those of a training on GPUs.
    """

    trains: bool = True
    """True if it trains a model; otherwise it plays tasks with a policy."""
    gpu: Gpu = "needed"
    usual_gpus: int = 2
    """Number of GPUs that are rented if so many hold the model."""
    continues: Literal["checkpoint", "episodes"] | None = None
    """What a new run takes over from an earlier one: `out/checkpoints/checkpoint-STEP` with a
    `trainer_state.json` that is written last, or the episodes in `out/traces.jsonl`; None if its
    runs cannot be continued."""
    nodes: bool = False
    """Several machines can train together."""
    exports: bool = True
    """Its runs leave a model behind."""
    rehearsal: Mapping[str, Any] | None = None
    """Settings that a rehearsal changes, so that it takes minutes on a CPU; None if it cannot be
    rehearsed."""
    installs: str = "an environment for training"
    """Content of the environment of a rehearsal, for the question before it is made."""
    installed_size: str = "Its size is not known"
    settings: Collection[str] | None = None
    """Names of the settings of `recipe.Recipe` that it takes; None for those that are not of one
    engine alone."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of settings that differ from those of `recipe.Recipe`."""
    fewest_tasks: int = 1
    sends_model: bool = False
    """A model in a folder of this computer travels to another machine."""
    from_environment: bool = False
    """A run is asked for by the name of an environment (`runs.art_request`), and not by tasks and a
    configuration."""
    command: str = "hudtui rl"
    """The command that starts its runs."""
    advice: Advice = Advice()
