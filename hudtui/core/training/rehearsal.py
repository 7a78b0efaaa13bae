"""Rehearsals: the plan of a training, with a tiny model on this machine's CPU, before anything is paid for."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from hudtui.core.errors import InputError
from hudtui.core.training.plan import Plan, RunSpec

PYTHON_VARIABLE = "HUDTUI_TRAINER_PYTHON"
"""Variable with the Python of a training environment of the user's own, to be used instead of making one."""
SIZE = "1.5 GB on disk with the CPU build of PyTorch, where the package installer of this machine finds it; else about 5 GB"


@dataclass(frozen=True)
class TrainerEnvironment:
    """The environment that a plan's training runs in."""

    python: Path
    ready: bool
    """It is there; otherwise the plan's first stage makes it."""


def as_rehearsal(spec: RunSpec, *, steps: int | None = None) -> RunSpec:
    """The spec of a rehearsal of `spec`: the same files and settings, with a tiny model, few steps, and no GPU.

    Args:
        spec: Of a training.
        steps: None for three.
    """
    python = spec.trainer_python or os.environ.get(PYTHON_VARIABLE) or None
    return replace(spec, engine="trl", rehearse=True, model=None, learning_rate=None, steps=steps, gpus=0, trainer_python=python)


def trainer_environment(plan: Plan) -> TrainerEnvironment:
    """Which environment a plan for this machine trains in, and whether it is there.

    Raises:
        InputError: The plan trains nothing.
    """
    stage = next((stage for stage in plan.stages if stage.name == "train"), None)
    if stage is None:
        raise InputError("this plan trains nothing")
    python = Path(stage.argv[0])
    made_here = any(stage.name == "bootstrap" for stage in plan.stages)
    marked = (python.parent.parent / ".hudtui").exists()
    return TrainerEnvironment(python, ready=python.exists() and (marked or not made_here))
