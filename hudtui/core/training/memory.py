"""Memory that a training run takes on each GPU.

Estimates from the model's size, good to about a third.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from hudtui.core.errors import InputError
from hudtui.core.training.recipe import Recipe
from hudtui.core.training.shape import ModelShape, shape_by_name

GIB = 2**30
OVERHEAD = 2.0
"""GiB for CUDA, NCCL and fragmentation."""


@dataclass(frozen=True)
class GpuMemory:
    """Estimated memory use of one GPU, in GiB."""

    gpu: int
    role: Literal["serve", "train", "serve and train"]
    weights: float
    optimizer: float
    """Gradients, and the optimizer's state."""
    activations: float
    cache: float
    """Keys and values of the conversations that are generated at the same time."""
    left: float = 0.0
    """Memory that another process on the same GPU keeps while it sleeps."""

    @property
    def total(self) -> float:
        """The sum, with the libraries' overhead."""
        return self.weights + self.optimizer + self.activations + self.cache + self.left + OVERHEAD

    @property
    def floor(self) -> float:
        """The least that training needs: the weights, the gradients and the optimizer's state."""
        return self.weights + self.optimizer + OVERHEAD

    def line(self) -> str:
        """One line of text for users."""
        parts = {
            "weights": self.weights,
            "optimizer": self.optimizer,
            "activations": self.activations,
            "cache": self.cache,
        }
        shown = ", ".join(f"{name} {value:.1f}" for name, value in parts.items() if value >= 0.05)
        return f"GPU {self.gpu} ({self.role}): about {self.total:.0f} GiB ({shown})"


@dataclass(frozen=True)
class GpuLayout:
    """Division of the work among the GPUs of a machine."""

    serve: tuple[int, ...]
    train: tuple[int, ...]
    sharded: bool = False
    """True if the weights are spread over the training GPUs (FSDP)."""
    nodes: int = 1
    """Machines with these GPUs; on several, each GPU serves itself and trains."""
    memory: tuple[GpuMemory, ...] | None = None
    """Memory of each GPU; None if the model's size is unknown."""

    @property
    def shared(self) -> bool:
        """True if one GPU both serves and trains."""
        return bool(set(self.serve) & set(self.train))


_FLOPS = 1.3e11
"""Operations a second of one processor core, measured with PyTorch on a server's CPU: see
docs/training.md."""
_PROMPT = 200
"""Tokens of a typical task before its first reply, and of the answer of a tool (a third of it)."""


@dataclass(frozen=True)
class CpuEstimate:
    """The memory of a training on a processor, good to a factor of two or three."""

    floor: float
    """GiB of the weights, the gradients, the optimizer's state and the libraries."""
    total: float
    """GiB with the activations of a step."""
    step_seconds: float
    """Seconds of a step on a quiet machine."""


def cpu_estimate(recipe: Recipe, shape: ModelShape, turns: int, opening: int = 0) -> CpuEstimate:
    """Estimate a training on a processor, in 32 bits.

    `opening` are the tokens of the system prompt and the tools' schemas, as far as they are known.
    """
    episodes = recipe.batch_size * recipe.gradient_accumulation
    before = max(_PROMPT, opening)
    length = min(recipe.max_seq_len, before + turns * (recipe.max_tokens + _PROMPT // 3))
    trained = adapter_parameters(recipe, shape) if recipe.lora else shape.parameters
    floor = (shape.parameters * 4 + trained * 16) / GIB + OVERHEAD
    kept = shape.depth * (4 if recipe.gradient_checkpointing else 68)
    activations = recipe.batch_size * length * (shape.width * kept + shape.vocabulary * 12) / GIB
    # Each turn reads the conversation so far (2 operations a parameter and token); the update reads
    # it, and goes back (6).
    tokens = episodes * (turns * (length / 2 + recipe.max_tokens) * 2 + length * 8)
    return CpuEstimate(floor, floor + activations, tokens * shape.parameters / _FLOPS)


def adapter_parameters(recipe: Recipe, shape: ModelShape, *, mlp: bool = False) -> float:
    """Return about how many numbers an adapter has.

    2 matrices of width x rank for each of a layer's 4 attention targets.

    `mlp`: also on the 3 targets of its MLP, which is about 4 times as wide on one side.
    """
    return (8 + 15 * mlp) * shape.width * recipe.lora_rank * shape.depth


def layout(
    gpus: int, recipe: Recipe, gpu_memory: float, shape: ModelShape | None = None, nodes: int = 1
) -> GpuLayout:
    """Assign the GPUs of each machine.

    A single GPU serves and trains; with two, each has one task; with more, up to half (a power of
    two) serve. The weights are spread over the training GPUs if one of them cannot hold them.
    On several machines each GPU serves and trains: a server beside them would be asked by all of
    them through the network. `gpu_memory` is that of each GPU in GiB. Without a shape the size of
    the model is as its name tells.

    Raises:
        InputError: `gpus` is not between 1 and 8.
    """
    if not 1 <= gpus <= 8:
        raise InputError(
            f"{gpus} GPUs: this engine trains on 1 to 8 of one machine",
            fix="Take a machine with fewer.",
        )
    if nodes > 1:
        each = tuple(range(gpus))
        plain = _with_memory(GpuLayout(each, each, nodes=nodes), recipe, shape)
        return _sharded_if_needed(plain, recipe, gpu_memory, shape)
    if gpus == 1:
        return _with_memory(GpuLayout((0,), (0,)), recipe, shape)
    serving = 1 << int(math.log2(gpus // 2))
    plain = _with_memory(
        GpuLayout(tuple(range(serving)), tuple(range(serving, gpus))), recipe, shape
    )
    return _sharded_if_needed(plain, recipe, gpu_memory, shape)


def _sharded_if_needed(
    plain: GpuLayout, recipe: Recipe, gpu_memory: float, shape: ModelShape | None
) -> GpuLayout:
    """Return the layout with the weights spread over the training GPUs if one cannot hold them."""
    several = len(plain.train) * plain.nodes > 1
    if several and plain.memory is not None and plain.memory[-1].total > gpu_memory:
        return _with_memory(replace(plain, sharded=True), recipe, shape)
    return plain


def _with_memory(where: GpuLayout, recipe: Recipe, shape: ModelShape | None) -> GpuLayout:
    shape = shape or shape_by_name(recipe.model)
    return where if shape is None else replace(where, memory=_memory(where, recipe, shape))


def _memory(where: GpuLayout, recipe: Recipe, shape: ModelShape) -> tuple[GpuMemory, ...]:
    width, depth = shape.width, shape.depth
    served = shape.parameters * 2 / GIB
    weights = (
        shape.parameters * (2 if recipe.bf16 else 4) / GIB
    )  # of the trainer; the server takes 16 bits
    trained = adapter_parameters(recipe, shape) if recipe.lora else shape.parameters
    optimizer = trained * 16 / GIB  # weight, gradient, and two moments in 32 bits
    tokens = recipe.batch_size * recipe.max_seq_len
    kept = depth * 2 if recipe.gradient_checkpointing else depth * 34
    activations = tokens * (width * kept + shape.vocabulary * 4) / GIB
    # On several machines each GPU answers its own episodes, with all weights.
    servers = 1 if where.nodes > 1 else len(where.serve)
    asking = 1 if where.nodes > 1 else len(where.train)
    episodes = recipe.batch_size * recipe.gradient_accumulation * asking
    cache = (
        episodes * recipe.max_seq_len * 2 * depth * shape.cache_width * 2 / GIB
    )  # keys and values
    shards = len(where.train) * where.nodes if where.sharded else 1
    found = []
    for gpu in range(max(*where.serve, *where.train) + 1):
        serves, trains = gpu in where.serve, gpu in where.train
        found.append(
            GpuMemory(
                gpu,
                "serve and train" if serves and trains else "serve" if serves else "train",
                weights=(served / servers if serves and recipe.vllm else 0.0)
                + (weights / shards if trains else 0.0),
                optimizer=optimizer / shards if trains else 0.0,
                activations=activations if trains else 0.0,
                cache=cache / servers if serves else 0.0,
            )
        )
    return tuple(found)


def check_memory(found: tuple[GpuMemory, ...], gpu_memory: float) -> None:
    """Check the memory before anything is rented or downloaded.

    Raises:
        InputError: A GPU cannot hold the weights, the gradients and the optimizer's state.
    """
    for need in found:
        if need.floor > gpu_memory:
            raise InputError(
                f"GPU {need.gpu} would have to hold {need.floor:.0f} GiB at least; it has "
                f"{gpu_memory:.0f}",
                why=need.line(),
                fix="Take larger GPUs, more of them, or a smaller model.",
            )
