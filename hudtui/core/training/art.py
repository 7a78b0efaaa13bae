"""The engine `art`: GRPO with OpenPipe's ART, for models with tool calls of their own.

Pure: a spec and a place become a plan. ART never runs in hudtui's own environment: its pins are
another world. A worker (`hudtui.trainers.art_worker`) drives it in an environment with a lock of
its own, and plays the episodes with hudtui's rollouts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from hudtui.core.errors import InputError
from hudtui.core.plain import to_plain
from hudtui.core.training.engine import Training
from hudtui.core.training.features import Advice, Features
from hudtui.core.training.memory import GIB, OVERHEAD, GpuMemory, adapter_parameters
from hudtui.core.training.options import JobOptions
from hudtui.core.training.plan import JobSpec, Plan, PlanFile, PlanOutput, Site, Stage, input_files
from hudtui.core.training.recipe import ALSO_ART, ART, ONLY_ART, RECIPE, TINY, Recipe, recipe_of
from hudtui.core.training.setup import gpu_options, python_environment, trainer_variables
from hudtui.core.training.shape import ModelShape

DRIVER = 570
"""Oldest NVIDIA driver for the CUDA that the locked PyTorch is built for."""
_ENVIRONMENT_GIB = 24.0
"""Space of the environment on disk, with its downloads."""
AT_ONCE = 32
"""Most episodes at the same time."""
_QUANTISED = 0.6
"""Bytes of a weight that ART's trainer holds in 4 bits, with the constants of the quantisation."""
_LEFT = 4.0
"""GiB that the sleeping one of server and trainer keeps on a shared GPU. Others ran out of 24 GB
with a 3B (ART issue 452)."""
_NOT_A_NAME = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True)
class ArtLayout:
    """Division of the work among the GPUs."""

    train: tuple[int, ...]
    serve: tuple[int, ...]

    @property
    def dedicated(self) -> bool:
        """True if the model is served on a GPU of its own.

        Otherwise it sleeps while the only GPU trains.
        """
        return self.train != self.serve


def art_layout(gpus: int) -> ArtLayout:
    """Assign the GPUs: one does both in turn; of two, the first trains and the second serves.

    Raises:
        InputError: ART trains on one or two GPUs here.
    """
    if gpus == 1:
        return ArtLayout((0,), (0,))
    if gpus == 2:
        return ArtLayout((0,), (1,))
    raise InputError(
        f"ART trains on 1 or 2 GPUs, and these are {gpus}",
        fix="Take --gpus 1x... or 2x..., or train with --engine trl.",
    )


def art_memory(gpus: int, recipe: Recipe, shape: ModelShape) -> tuple[GpuMemory, ...]:
    """Estimate what the server and the trainer take, one after the other where they share a GPU.

    Each leaves before the other.

    Raises:
        InputError: ART does not train on so many GPUs.
    """
    where = art_layout(gpus)
    served = shape.parameters * 2 / GIB
    episodes = min((recipe.groups_per_step or 1) * recipe.num_generations, AT_ONCE)
    cache = (
        episodes * recipe.max_seq_len * 2 * shape.depth * shape.cache_width * 2 / GIB
    )  # keys and values
    # The server takes its share of the GPU and no more: the GPU has to be larger than what it
    # serves with.
    cache += (served + cache + OVERHEAD) * (1 / recipe.gpu_memory_utilization - 1)
    # The embeddings stay in 16 bits. Conversations are trained on one by one.
    weights = (shape.parameters * _QUANTISED + 2 * shape.vocabulary * shape.width * 2) / GIB
    activations = recipe.max_seq_len * (shape.width * 2 * shape.depth + shape.vocabulary * 4) / GIB
    optimizer = adapter_parameters(recipe, shape, mlp=True) * 16 / GIB
    left = 0.0 if where.dedicated else _LEFT
    return (
        GpuMemory(
            where.serve[0],
            "serve",
            weights=served,
            optimizer=0.0,
            activations=0.0,
            cache=cache,
            left=left,
        ),
        GpuMemory(
            where.train[0],
            "train",
            weights=weights,
            optimizer=optimizer,
            activations=activations,
            cache=0.0,
            left=left,
        ),
    )


def model_name(recipe: Recipe) -> str:
    """The name of the trained model in ART's records."""
    name = recipe.model_name or recipe.model.rstrip("/").rpartition("/")[2]
    return _NOT_A_NAME.sub("-", name.lower()).strip("-.") or "model"


class Art(Training):
    """GRPO with LoRA by ART.

    A rehearsal is the same without a model: random calls, or those of an endpoint.
    """

    name = "art"
    title = "train a model with ART (GRPO, native tool calls)"
    features = Features(
        usual_gpus=1,  # the server and the trainer take turns
        rehearsal={},  # no model is trained, so nothing has to be smaller
        installs="ART",
        installed_size="0.7 GB on disk",
        settings=(*ALSO_ART, *ONLY_ART),
        defaults=ART,
        from_environment=True,
        command="hudtui art train",
        advice=Advice(
            gpus=(
                "Take larger GPUs (--gpus), a smaller model, or lower --max-seq-length or "
                "--rollouts-per-group."
            ),
            trainer="Lower max_seq_length or rollouts_per_group (--max-seq-length, "
            "--rollouts-per-group), or take a smaller model.",
            server="Lower gpu_memory_utilization (--gpu-memory-utilization) or max_seq_length.",
        ),
    )

    def check(self, request: JobOptions, recipe: Recipe) -> Iterable[InputError]:
        """See `Engine.check`."""
        if recipe.model == TINY:
            yield _no_tiny()
        if recipe.refill_groups and recipe.ruler is not None:
            yield InputError(
                "groups are not refilled where a judge compares the episodes (ruler)",
                why="It judges a step once, and its scores decide what has a spread.",
                fix="Leave out refill_groups, or ruler.",
            )

    def memory(
        self, recipe: Recipe, shape: ModelShape, gpus: int, gpu_memory: float, nodes: int = 1
    ) -> tuple[GpuMemory, ...]:
        """See `Engine.memory`."""
        return art_memory(gpus, recipe, shape)

    def plan(self, spec: JobSpec, site: Site) -> Plan:
        """See `Engine.plan`."""
        if spec.tasks is None or spec.config is None:
            raise InputError(
                "this run needs a task file and a config",
                fix="hudtui art train makes both from --env.",
            )
        tasks, config, *code = input_files(spec)
        if spec.continues is not None:
            raise InputError(
                "a training with ART continues by itself when it is started again",
                fix="hudtui runs resume RUN",
            )
        recipe = recipe_of(spec, self.features)
        if recipe.model == TINY:
            raise _no_tiny()
        where = None if spec.rehearse else art_layout(spec.gpus)
        chosen = PlanFile(RECIPE, content=json.dumps(to_plain(recipe), indent=1) + "\n")
        if where is None:
            python, stages, made = python_environment(
                spec, site, "art-rehearse", ["--python", "3.11", "--disk", "2"]
            )
        else:
            options = gpu_options(
                spec, recipe.model, disk=_ENVIRONMENT_GIB, driver=DRIVER, vram=[0.0] * spec.gpus
            )
            python, stages, made = python_environment(spec, site, "art", options)
        argv = [
            *(
                python,
                "-m",
                "hudtui.trainers.art_worker",
                "--recipe",
                site.path(chosen.path),
                "--tasks",
                site.path(tasks.path),
            ),
            *("--config", site.path(config.path), "--out", site.path("out")),
        ]
        notes = []
        if where is None:
            notes.append(
                "a rehearsal: episodes, judges and records are real, but no model is trained"
            )
            if spec.base_url is not None:
                argv += ["--base-url", spec.base_url, "--endpoint-model", recipe.model]
        else:
            argv += ["--gpus", str(spec.gpus)]
            notes.append(
                "one GPU trains and serves in turn: the episodes of the next step wait for the "
                "training"
                if not where.dedicated
                else "GPU 0 trains, GPU 1 serves"
            )
        notes.append(
            "ART keeps no state of the optimizer: a training that is started again continues from "
            "its adapter alone"
        )
        env, secrets = trainer_variables(
            spec, site, code=bool(code), LITELLM_LOCAL_MODEL_COST_MAP="True"
        )
        if where is None:
            env["CUDA_VISIBLE_DEVICES"] = ""
        stages.append(
            Stage(
                "train", tuple(argv), cwd=site.workspace or "", env=env, secrets=secrets, grace=600
            )
        )
        return Plan(
            engine=self.name,
            stages=tuple(stages),
            files=(tasks, config, *code, chosen, *made),
            outputs=(
                PlanOutput("out/metrics.jsonl", "metrics", "one line a step"),
                PlanOutput("out/traces.jsonl", "traces", "one line an episode"),
                PlanOutput("out/.art", "model", "ART's records, and a checkpoint a step"),
            ),
            max_seconds=spec.max_seconds,
            wheel=spec.trainer_python is None and site.package is None,
            notes=tuple(notes),
        )


def _no_tiny() -> InputError:
    return InputError(
        "the model `tiny` is for rehearsals of the engine trl", fix="Name another one."
    )
