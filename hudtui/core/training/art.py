"""The engine `art`: GRPO with OpenPipe's ART, for models with tool calls of their own. Pure: a spec and a place become a plan.

ART never runs in hudtui's own environment: its pins are another world. A worker (`hudtui.trainers.art_worker`) drives it in an
environment with a lock of its own, and plays the episodes with hudtui's rollouts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from hudtui.core.errors import InputError
from hudtui.core.training.metrics import MetricsReader
from hudtui.core.training.plan import JobSpec, Plan, PlanFile, PlanOutput, Site, Stage, input_files
from hudtui.core.training.recipe import ALSO_ART, ONLY_ART, RECIPE, TINY, Recipe, recipe_for
from hudtui.core.training.setup import gpu_options, python_environment, trainer_variables

DRIVER = 570
"""Oldest NVIDIA driver for the CUDA that the locked PyTorch is built for."""
_ENVIRONMENT_GIB = 24.0
"""What the environment takes on disk, with what is downloaded for it."""
_NOT_A_NAME = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True)
class ArtLayout:
    """How the GPUs share the work."""

    train: tuple[int, ...]
    serve: tuple[int, ...]

    @property
    def dedicated(self) -> bool:
        """Whether the model is served on a GPU of its own; otherwise it sleeps while the only GPU trains."""
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
        f"ART trains on 1 or 2 GPUs, and these are {gpus}", fix="Take --gpus 1x... or 2x..., or train with --engine trl."
    )


def model_name(recipe: Recipe) -> str:
    """The name of the trained model in ART's records."""
    name = recipe.model_name or recipe.model.rstrip("/").rpartition("/")[2]
    return _NOT_A_NAME.sub("-", name.lower()).strip("-.") or "model"


class Art:
    """GRPO with LoRA by ART; a rehearsal is the same without a model: random calls, or those of an endpoint."""

    name = "art"
    title = "train a model with ART (GRPO, native tool calls)"

    def plan(self, spec: JobSpec, site: Site) -> Plan:
        """See `Engine.plan`."""
        if spec.tasks is None or spec.config is None:
            raise InputError("this run needs a task file and a config", fix="hudtui art train makes both from --env.")
        tasks, config, *code = input_files(spec)
        if spec.continues is not None:
            raise InputError("a training with ART continues by itself when it is started again", fix="hudtui runs resume RUN")
        if refused := [name for name in spec.training if name not in (*ALSO_ART, *ONLY_ART)]:
            raise InputError(
                f"ART has no setting {', '.join(sorted(refused))}", fix=f"It takes: {', '.join(sorted((*ALSO_ART, *ONLY_ART)))}."
            )
        recipe = recipe_for(spec)
        if recipe.model == TINY:
            raise InputError("the model `tiny` is for rehearsals of the engine trl", fix="Name another one.")
        where = None if spec.rehearse else art_layout(spec.gpus)
        chosen = PlanFile(RECIPE, content=json.dumps(recipe.to_json(), indent=1) + "\n")
        if where is None:
            python, stages, made = python_environment(spec, site, "art-rehearse", ["--python", "3.11", "--disk", "2"])
        else:
            options = gpu_options(spec, recipe.model, disk=_ENVIRONMENT_GIB, driver=DRIVER, vram=[0.0] * spec.gpus)
            python, stages, made = python_environment(spec, site, "art", options)
        argv = [
            *(python, "-m", "hudtui.trainers.art_worker", "--recipe", site.path(chosen.path), "--tasks", site.path(tasks.path)),
            *("--config", site.path(config.path), "--out", site.path("out")),
        ]
        notes = []
        if where is None:
            notes.append("a rehearsal: episodes, judges and records are real, but no model is trained")
            if spec.base_url is not None:
                argv += ["--base-url", spec.base_url, "--endpoint-model", recipe.model]
        else:
            argv += ["--gpus", str(spec.gpus)]
            notes.append(
                "one GPU trains and serves in turn: the episodes of the next step wait for the training"
                if not where.dedicated
                else "GPU 0 trains, GPU 1 serves"
            )
        notes.append("ART keeps no state of the optimizer: a training that is started again continues from its adapter alone")
        env, secrets = trainer_variables(spec, site, code=bool(code), LITELLM_LOCAL_MODEL_COST_MAP="True")
        if where is None:
            env["CUDA_VISIBLE_DEVICES"] = ""
        stages.append(Stage("train", tuple(argv), cwd=site.workspace or "", env=env, secrets=secrets, grace=600))
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

    def reader(self) -> MetricsReader:
        """See `Engine.reader`."""
        return MetricsReader()
