"""Whether a machine has enough memory for the model of a training, by the estimate of `training.memory`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.compute.fit import Fit, judge_memory, unable
from hudtui.core.compute.values import Offer
from hudtui.core.errors import InputError
from hudtui.core.files import read_text
from hudtui.core.runs.request import RunRequest
from hudtui.core.text import plural
from hudtui.core.training.art import art_memory
from hudtui.core.training.memory import GpuMemory, layout
from hudtui.core.training.recipe import ART, Recipe, read_settings, recipe_from
from hudtui.core.training.shape import ModelShape, find_shape

if TYPE_CHECKING:
    from hudtui.core.runs.store import RunStore

ENGINES = ("trl", "art")
"""Engines whose need of memory is estimated."""
GIB_PER_GB = 1e9 / 2**30
"""GiB in one GB. Offers state memory in GB, and drivers report GiB: the driver of a 48 GB card may report 45."""


def usual_gpus(engine: str) -> int:
    """Return the number of GPUs that a training takes if a machine with so many holds the model.

    The server and the trainer of TRL have a GPU each; those of ART take turns on one.
    """
    return 1 if engine == "art" else 2


@dataclass(frozen=True)
class Demand:
    """The memory that a training needs on its GPUs."""

    recipe: Recipe
    shape: ModelShape | None = None
    """The size of the model; None if it is unknown."""
    engine: str = "trl"
    """The engine that trains: each shares the GPUs in its own way."""

    @property
    def advice(self) -> str:
        """What to do where memory is missing."""
        if self.engine == "art":
            return "Take larger GPUs (--gpus), a smaller model, or lower --max-seq-length or --rollouts-per-group."
        return "Take larger GPUs (--gpus), more of them, a smaller model, or lower batch_size or max_seq_len."

    @property
    def title(self) -> str:
        """The training in a few words: `Qwen2.5-3B-Instruct, LoRA`."""
        return f"{self.recipe.model.rpartition('/')[2]}, {'LoRA' if self.recipe.lora else 'all weights'}"

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
            found = self._memory(self.shape, gpus, float("inf") if memory is None else memory)
        except InputError as error:
            return Fit("unable", f"It cannot be trained there: {error.what}.", reason=f"not on {plural(gpus, 'GPU')}")
        most = max(found, key=lambda gpu: gpu.total)
        return judge_memory(most.total, memory, role=f"GPU {most.gpu} ({most.role})")

    def _memory(self, shape: ModelShape, gpus: int, memory: float) -> tuple[GpuMemory, ...]:
        if self.engine == "art":
            return art_memory(gpus, self.recipe, shape)
        where = layout(gpus, self.recipe, memory, shape)
        self.recipe.check_batch(len(where.train))
        return where.memory or ()

    def fit(self, offer: Offer) -> Fit:
        """Return whether the GPUs of an offer hold the model."""
        verdict = unable(offer, bfloat16=self.recipe.bf16)
        if verdict is not None:
            return verdict
        return self.on_gpus(offer.gpu_count, None if offer.gpu_memory is None else offer.gpu_memory * GIB_PER_GB)


def check_rental(demand: Demand, offer: Offer) -> str:
    """Return a sentence that says whether the GPUs of an offer hold the model.

    Raises:
        InputError: The model certainly does not fit.
    """
    fit = demand.fit(offer)
    if fit.hopeless:
        fix = "hudtui pods offers --model shows the machines that hold it; without --model any machine can be rented."
        raise InputError(f"{demand.title} cannot be trained on {offer.short}", why=fit.why, fix=fix)
    return f"{'' if fit.state == 'fits' else 'Warning: '}{demand.title}: {fit.why}"


def newest_demand(store: RunStore, folder: Path) -> Demand | None:
    """Return the demand of the project's newest training; None without one. Rehearsals do not count. Reads the store.

    Relative paths of models start in `folder`.
    """
    specs = store.specs()
    for run in sorted(store.runs(), key=lambda run: run.created, reverse=True):
        spec = specs.get(run.id)
        if spec is not None and spec.engine in ENGINES and not spec.rehearse:
            settings = dict(spec.training)
            request = RunRequest(engine=spec.engine, model=spec.model, max_turns=spec.max_turns, settings=settings)
            try:
                return find_demand(request, folder)
            except InputError:
                return None
    return None


def find_demand(request: RunRequest, folder: Path) -> Demand:
    """Return the demand of the training of a request. Reads the training file, and local files of the model.

    Relative paths start in `folder`.

    Raises:
        InputError: The training file or a setting cannot be used.
    """
    file = request.training
    values: dict[str, Any] = dict(ART) if request.engine == "art" else {}
    if file is not None:
        values |= read_settings(read_text(folder / file), name=str(file))
    values |= request.settings
    chosen = {"model": request.model, "max_turns": request.max_turns, "steps": request.steps}
    recipe = recipe_from(values | {name: value for name, value in chosen.items() if value is not None})
    return Demand(recipe, find_shape(recipe.model, folder), request.engine)
