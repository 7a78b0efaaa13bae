"""The engines of this installation.

Those of hudtui, and those of other packages by their entry points.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeVar

from hudtui.core.errors import InputError
from hudtui.core.extensions import entries, load
from hudtui.core.training.art import Art
from hudtui.core.training.engine import Engine
from hudtui.core.training.features import Features
from hudtui.core.training.options import TRAINER
from hudtui.core.training.plan import JobSpec, Plan
from hudtui.core.training.recipe import Recipe, recipe_of
from hudtui.core.training.rollouts import Rollouts
from hudtui.core.training.trl import Trl

S = TypeVar("S", bound=JobSpec)

ENTRY_POINTS = "hudtui.engines"
"""Group under which other packages offer engines: each entry is an object that is an `Engine`, or a
class that makes one."""


ENGINES: dict[str, Engine] = {engine.name: engine for engine in (Rollouts(), Trl(), Art())}
"""The engines that come with hudtui, by name."""
_PARTS = ("name", "title", "features", "check", "memory", "plan", "reader")


def _others() -> dict[str, str]:
    """Return the entry points of other packages' engines by name.

    Their code runs only when one is chosen.
    """
    return {name: place for name, place in entries(ENTRY_POINTS).items() if name not in ENGINES}


def engine_names() -> tuple[str, ...]:
    """Return the names of all engines, those of other packages included."""
    return (*ENGINES, *sorted(_others()))


def find_engine(name: str) -> Engine:
    """Return the engine with this name.

    Raises:
        InputError: The engine does not exist; the error lists the engines.
    """
    if name in ENGINES:
        return ENGINES[name]
    if name not in _others():
        raise InputError(
            f"there is no engine called {name!r}", fix=f"Engines: {', '.join(engine_names())}."
        )
    return _load(name, _others()[name])


@cache
def _load(name: str, place: str) -> Engine:
    try:
        loaded = load(name, place, ENTRY_POINTS)
        engine: Engine = loaded() if isinstance(loaded, type) else loaded
        lacking = [part for part in _PARTS if not hasattr(engine, part)]
    except Exception as error:  # code of another package
        raise InputError(
            f"the engine {name!r} cannot be loaded", why=f"{type(error).__name__}: {error}"
        ) from None
    if lacking or not isinstance(engine.features, Features):
        why = (
            f"It has no {', '.join(lacking)}."
            if lacking
            else "Its features are not a value of the class Features."
        )
        raise InputError(
            f"the engine {name!r} cannot be used",
            why=why,
            fix="See core/training/engine.py: Engine, Training.",
        )
    return engine


def features_of(name: str) -> Features:
    """Return the features of an engine.

    Those of a training for an engine that is not installed any more.
    """
    try:
        return find_engine(name).features
    except InputError:
        return Features()


def recipe_for(spec: JobSpec) -> Recipe:
    """Return the settings of a run's trainer; see `recipe.recipe_of`.

    Raises:
        InputError: A setting cannot be used.
    """
    return recipe_of(spec, features_of(spec.engine))


# --- rehearsals -----------------------------------------------------------------------------------

PYTHON_VARIABLE = "HUDTUI_TRAINER_PYTHON"
"""Variable with the Python of an existing training environment, used instead of a new one."""


@dataclass(frozen=True)
class TrainerEnvironment:
    """The Python environment of a plan's training."""

    python: Path
    ready: bool
    """True if it exists; otherwise the plan's first stage makes it."""


def rehearsing_engine(name: str) -> str:
    """Return the engine that rehearses the runs of an engine.

    Itself, or the usual trainer for one that only plays.

    Raises:
        InputError: The engine does not exist, or it trains and cannot be rehearsed.
    """
    features = find_engine(name).features
    if features.rehearsal is not None:
        return name
    if features.trains:
        raise InputError(
            f"the engine {name} cannot be rehearsed", fix="Start a training of one step instead."
        )
    return TRAINER


def as_rehearsal(spec: S, *, steps: int | None = None, gpus: int = 0) -> S:
    """Return the spec of a rehearsal: the same files and settings, few steps, no GPU.

    It has as many steps as the engine's rehearsals have unless `steps` says how many. `gpus` are
    those of the training that is rehearsed: with two or more, a model of the user's gets a server
    beside the trainer.
    """
    changes = features_of(spec.engine).rehearsal or {}
    spec = replace(spec, rehearse=True, steps=steps)
    if "model" not in changes:
        return replace(spec, gpus=0)
    python = spec.trainer_python or os.environ.get(PYTHON_VARIABLE) or None
    return replace(spec, model=None, learning_rate=None, gpus=gpus, trainer_python=python)


def trainer_environment(plan: Plan) -> TrainerEnvironment:
    """Return the Python environment that a plan for this machine trains in.

    Raises:
        InputError: The plan has no training.
    """
    stage = next((stage for stage in plan.stages if stage.name == "train"), None)
    if stage is None:
        raise InputError("this plan trains nothing")
    python = Path(stage.argv[0])
    made_here = any(stage.name == "bootstrap" for stage in plan.stages)
    marked = (python.parent.parent / ".hudtui").exists()
    return TrainerEnvironment(python, ready=python.exists() and (marked or not made_here))
