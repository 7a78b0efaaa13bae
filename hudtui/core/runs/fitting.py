"""Whether a model fits the GPUs that it is to be trained on: which offers hold it, and what is said of the one that is taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hudtui.core.errors import InputError
from hudtui.core.files import read_text
from hudtui.core.training.memory import layout, needs
from hudtui.core.training.recipe import Recipe, read_settings, recipe_for, recipe_from

if TYPE_CHECKING:
    from hudtui.core.compute.gpus import GpuSpec
    from hudtui.core.compute.values import Offer
    from hudtui.core.runs.preflight import PreflightReport, RunRequest
    from hudtui.core.training.memory import GpuMemory
    from hudtui.core.training.plan import RunSpec

GIB_OF_A_GB = 1e9 / 2**30
"""Offers count GB, and drivers GiB: a card that is sold as 48 GB may tell of 45."""
_SURELY = 4 / 3
"""What is needed is an estimate, good to about a third: from here on it does not fit, whatever the estimate lacks."""


def suitable_offers(offers: Sequence[Offer], wish: RunRequest, spec: GpuSpec | None) -> tuple[Offer, ...]:
    """The offers that are worth choosing from.

    For a training those whose GPUs hold the model, where any of the kind that is asked for does; for work without a GPU (a
    rehearsal, rollouts) where none was asked for, machines without one, where there are any. Else all of them.
    """
    from hudtui.core.compute.gpus import has_gpu

    if wish.engine == "rollouts" or wish.rehearse:
        bare = tuple(offer for offer in offers if not has_gpu(offer))
        return bare if spec is None and bare else tuple(offers)
    good = tuple(offer for offer in offers if _holds(offer, wish))
    return good if good and _any(good, spec) else tuple(offers)


def _holds(offer: Offer, wish: RunRequest) -> bool:
    if not offer.gpu_count or offer.gpu_memory is None:
        return False
    try:
        values = {} if wish.training is None else dict(read_settings(read_text(wish.training), name=str(wish.training)))
        if wish.model is not None:
            values["model"] = wish.model
        if wish.max_turns is not None:
            values["max_turns"] = wish.max_turns
        found = _needs(recipe_from(values), offer.gpu_count, offer.gpu_memory * GIB_OF_A_GB)
    except InputError:
        return False
    return found is not None and max(need.total for need in found) <= offer.gpu_memory * GIB_OF_A_GB


def _any(offers: Sequence[Offer], spec: GpuSpec | None) -> bool:
    from hudtui.core.compute.choose import select
    from hudtui.core.compute.values import Query

    try:
        return bool(select(offers, spec=spec, query=Query(spot=False)).found)
    except InputError:  # none of the kind
        return False


def _needs(recipe: Recipe, gpus: int, gpu_memory: float) -> tuple[GpuMemory, ...] | None:
    return needs(layout(gpus, recipe, gpu_memory), recipe)


def check_fit(spec: RunSpec, seen: PreflightReport) -> None:
    """Compare what the model needs with what the GPUs have. On a rented machine what cannot fit is refused."""
    if spec.engine != "trl" or spec.rehearse:
        return
    found = _needs(recipe_for(spec), spec.gpus, spec.gpu_memory)
    if found is None:
        return  # the size of the model is not known, which the plan says
    worst = max(found, key=lambda need: need.total)
    told = f"GPU {worst.gpu} ({worst.role}) needs about {worst.total:.0f} GiB and has {spec.gpu_memory:.0f}"
    fix = "Take larger GPUs (--gpus), more of them, a smaller model, or lower batch_size or max_seq_len (--training FILE)."
    if worst.total <= spec.gpu_memory:
        seen.add("memory", "fine", told)
    elif worst.total <= spec.gpu_memory * _SURELY or spec.rent is None:
        seen.add("memory", "warning", f"{told}: it may run out of memory", fix)
    else:
        seen.add("memory", "missing", f"{told}: the model does not fit", fix, remedy="choose-machine")
