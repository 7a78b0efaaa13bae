"""Fit of a training into the memory of a machine, by the estimate of `training.memory`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.compute.fit import Fit, judge_memory, unable
from hudtui.core.compute.values import Offer
from hudtui.core.errors import InputError
from hudtui.core.files import read_text
from hudtui.core.runs.request import RunRequest
from hudtui.core.text import plural
from hudtui.core.training.engines import features_of, find_engine
from hudtui.core.training.options import TRAINER
from hudtui.core.training.recipe import Recipe, read_settings, resolve_recipe
from hudtui.core.training.shape import ModelShape, find_shape

if TYPE_CHECKING:
    from hudtui.core.runs.store import RunStore

GIB_PER_GB = 1e9 / 2**30
"""GiB in one GB. Offers state memory in GB, and drivers report GiB: the driver of a 48 GB card may
report 45."""


@dataclass(frozen=True)
class Demand:
    """The memory that a training needs on its GPUs."""

    recipe: Recipe
    shape: ModelShape | None = None
    """The size of the model; None if it is unknown."""
    engine: str = TRAINER
    """The engine that trains: each shares the GPUs in its own way."""
    nodes: int = 1
    """Machines that train together."""
    opening: int = 0
    """Estimated tokens before a task in every request; 0 where they are unknown."""

    @property
    def advice(self) -> str:
        """Advice if memory is missing."""
        return features_of(self.engine).advice.gpus

    @property
    def usual_gpus(self) -> int:
        """The number of GPUs that the training takes if a machine with so many holds the model."""
        return features_of(self.engine).usual_gpus

    @property
    def title(self) -> str:
        """The training in a few words: `Qwen2.5-3B-Instruct, LoRA`."""
        return (
            f"{self.recipe.model.rpartition('/')[2]}, "
            f"{'LoRA' if self.recipe.lora else 'all weights'}"
        )

    @property
    def size(self) -> str:
        """The basis of the estimate: `3.09 billion parameters by the name`."""
        if self.shape is None:
            return "of a size that is not known here"
        return f"{self.shape.parameters / 1e9:.3g} billion parameters by {self.shape.source}"

    def on_gpus(self, gpus: int, memory: float | None) -> Fit:
        """Return whether the GPUs of a machine hold the model.

        `memory` is that of one GPU in GiB, if it is known.
        """
        if self.shape is None:
            return judge_memory(None, memory)
        try:
            known = float("inf") if memory is None else memory
            found = find_engine(self.engine).memory(
                self.recipe, self.shape, gpus, known, self.nodes
            )
        except InputError as error:
            return Fit(
                "unable",
                f"It cannot be trained there: {error.what}.",
                reason=f"not on {plural(gpus, 'GPU')}",
                fix=error.fix,
            )
        if not found:
            return judge_memory(None, memory)
        most = max(found, key=lambda gpu: gpu.total)
        return judge_memory(most.total, memory, role=f"GPU {most.gpu} ({most.role})")

    def fit(self, offer: Offer) -> Fit:
        """Return whether the GPUs of an offer hold the model."""
        verdict = unable(offer, bfloat16=self.recipe.bf16)
        if verdict is not None:
            return verdict
        memory = None if offer.gpu_memory is None else offer.gpu_memory * GIB_PER_GB
        return replace(self, nodes=offer.nodes).on_gpus(offer.node_gpus, memory)


def check_rental(demand: Demand, offer: Offer) -> str:
    """Return a sentence that says whether the GPUs of an offer hold the model.

    Raises:
        InputError: The model certainly does not fit.
    """
    fit = demand.fit(offer)
    if fit.hopeless:
        fix = (
            "hudtui pods offers --model shows the machines that hold it; without --model any "
            "machine can be rented."
        )
        raise InputError(f"{demand.title} cannot be trained on {offer.short}", why=fit.why, fix=fix)
    return f"{'' if fit.state == 'fits' else 'Warning: '}{demand.title}: {fit.why}"


def newest_demand(store: RunStore, folder: Path) -> Demand | None:
    """Return the demand of the project's newest training; None without one.

    Rehearsals do not count. Reads the store.
    Relative paths of models start in `folder`.
    """
    specs = store.specs()
    for run in sorted(store.runs(), key=lambda run: run.created, reverse=True):
        spec = specs.get(run.id)
        if spec is not None and not spec.rehearse and features_of(spec.engine).trains:
            settings = dict(spec.training)
            request = RunRequest(
                engine=spec.engine, model=spec.model, max_turns=spec.max_turns, settings=settings
            )
            try:
                return find_demand(request, folder)
            except InputError:
                return None
    return None


def find_demand(request: RunRequest, folder: Path) -> Demand:
    """Return the demand of the training of a request.

    Reads the training file, and local files of the model.
    Relative paths start in `folder`.

    Raises:
        InputError: The training file or a setting cannot be used.
    """
    return training_demand(request, read_training(request, folder), folder)


def read_training(request: RunRequest, folder: Path) -> dict[str, Any]:
    """Return the settings of the trainer.

    Those of the training file, then the single ones of the request.
    Relative paths start in `folder`.

    Raises:
        InputError: The training file cannot be read.
    """
    file = request.training
    if file is None:
        return dict(request.settings)
    return {**read_settings(read_text(folder / file), name=str(file)), **request.settings}


def training_demand(request: RunRequest, training: Mapping[str, Any], folder: Path) -> Demand:
    """Return the demand of a training with these settings. Reads local files of the model.

    Raises:
        InputError: A setting cannot be used.
    """
    recipe = resolve_recipe(request, training, request.engine, request.features)
    shape = find_shape(recipe.model, folder)
    return Demand(recipe, shape, request.engine, request.node_count)
