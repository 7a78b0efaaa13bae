"""An engine carries out runs.

It turns a `JobSpec` into a `Plan`, without side effects, and says what it can.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from hudtui.core.errors import InputError
from hudtui.core.training.features import Features
from hudtui.core.training.memory import GpuMemory, layout
from hudtui.core.training.metrics import MetricsReader
from hudtui.core.training.options import JobOptions
from hudtui.core.training.plan import JobSpec, Plan, Site
from hudtui.core.training.recipe import Recipe
from hudtui.core.training.shape import ModelShape


class Engine(Protocol):
    """A way to carry out runs.

    Those that train derive from `Training`, which has the usual answers.
    """

    @property
    def name(self) -> str:
        """The name that users type."""
        ...

    @property
    def title(self) -> str:
        """A few words for users."""
        ...

    @property
    def features(self) -> Features:
        """Abilities of the engine."""
        ...

    def check(self, request: JobOptions, recipe: Recipe) -> Iterable[InputError]:
        """Return what of a request the engine cannot carry out, before a machine is chosen. Pure.

        `recipe` has all settings of the training, those of the request included.
        """
        ...

    def memory(
        self, recipe: Recipe, shape: ModelShape, gpus: int, gpu_memory: float, nodes: int = 1
    ) -> tuple[GpuMemory, ...]:
        """Return the estimated use of each GPU's memory; empty without an estimate.

        `gpu_memory` is that of one GPU in GiB, `gpus` are those of each of `nodes` machines.

        Raises:
            InputError: The training cannot use so many GPUs.
        """
        ...

    def plan(self, spec: JobSpec, site: Site) -> Plan:
        """Return the files and commands of the run at a site. Pure.

        Raises:
            InputError: Something is missing from the spec.
        """
        ...

    def reader(self) -> MetricsReader:
        """Return a reader for the metrics file among the plan's outputs."""
        ...


class Training:
    """The usual answers of an engine that trains a model: a server and a trainer share the GPUs."""

    def check(self, request: JobOptions, recipe: Recipe) -> Iterable[InputError]:
        """Return an empty tuple: every request can be carried out."""
        return ()

    def memory(
        self, recipe: Recipe, shape: ModelShape, gpus: int, gpu_memory: float, nodes: int = 1
    ) -> tuple[GpuMemory, ...]:
        """Return the estimate for one GPU that serves and trains, or for several.

        Of several, up to half serve. On several machines each GPU does both.
        """
        where = layout(gpus, recipe, gpu_memory, shape, nodes)
        recipe.check_batch(len(where.train) * nodes)
        return where.memory or ()

    def reader(self) -> MetricsReader:
        """Return a reader of lines of JSON, one line a step."""
        return MetricsReader()
