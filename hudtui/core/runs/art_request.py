"""The options of `hudtui art train`, as a value.

Commands import this module at start-up, so it imports little.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hudtui.core.knobs import Texts, knob
from hudtui.core.runs.request import RunRequest
from hudtui.core.training.options import TRAINING, WHAT, WHERE, rents

ART_VERSIONS = ("0.5.17",)
"""Versions of ART with a lock file. Later versions cannot be installed from the package index
alone."""
JUDGE = "openai/o3"
"""The default judge of RULER."""
SCENARIOS, VAL_SCENARIOS = 16, 8
"""Default number of tasks to train on, and to evaluate on."""


def _rehearses(texts: Texts) -> bool:
    return bool(texts.get("rehearse"))


@dataclass(frozen=True, kw_only=True)
class ArtRequest(RunRequest):
    """A request for a training with ART.

    For a field that is None, the file decides, and without a value there the default.
    """

    names_machine: ClassVar[bool] = True
    command: ClassVar[str] = "hudtui art train"
    fixed: ClassVar[tuple[str, ...]] = (
        *(
            "engine",
            "tasks",
            "select",
            "config",
            "training",
            "dialect",
            "policy",
            "group",
            "concurrency",
            "limit",
            "rehearse_model",
            "nodes",
        ),
        "held_out",
    )
    environment: str = knob(
        "2048",
        "Environment: 2048, browser, gmail, or one of --config.",
        "--env",
        lists="environments",
        required=True,
        place=-1,
        group=WHAT,
    )
    art_config: Path | None = knob(
        None,
        "File with environments and settings of the training (YAML).",
        *("--config", "-c"),
        label="config file",
        lists="art_configs",
        unset="none: built-in values",
        place=-1,
        group=WHAT,
    )
    dataset: str | None = knob(
        None,
        "Tasks: a file or folder, or a dataset on the Hub; by default those of the environment.",
        *("--dataset", "-d"),
        lists="tasks",
        unset="the environment's own",
        place=-1,
        group=WHAT,
    )
    reward: str | None = knob(
        None,
        "Code that replaces the environment's reward: FILE.py:NAME or package.module:NAME.",
        unset="the environment's",
        place=-1,
        group=WHAT,
    )
    model: str | None = knob(
        None,
        "Model to train: an id on the Hub, a folder, or small, medium or large.",
        *("--base-model", "--model", "-m"),
        unset="small",
        group=WHAT,
    )
    scenarios: int | None = knob(
        None,
        f"Tasks to train on; {SCENARIOS} by default.",
        minimum=1,
        unset=str(SCENARIOS),
        place=-1,
        group=TRAINING,
    )
    val_scenarios: int | None = knob(
        None,
        f"Tasks to evaluate on; {VAL_SCENARIOS} by default.",
        minimum=0,
        label="evaluate on",
        unset=str(VAL_SCENARIOS),
        place=-1,
        group=TRAINING,
    )
    epochs: int | None = knob(
        None,
        "Number of times that each task is trained on; 1 by default.",
        minimum=1,
        unset="1",
        place=-1,
        group=TRAINING,
    )
    groups_per_step: int | None = knob(
        None,
        "Tasks per step; by default enough for --steps to see every task.",
        minimum=1,
        label="tasks a step",
        unset="by the steps",
        place=-1,
        group=TRAINING,
    )
    steps: int | None = knob(
        None, "Largest number of training steps; 10 by default.", minimum=1, group=TRAINING
    )
    learning_rate: float | None = knob(
        None,
        "Learning rate; by default it depends on the size of the model.",
        minimum=1e-12,
        maximum=1,
        unset="by the model's size",
        group=TRAINING,
    )
    num_generations: int | None = knob(
        None,
        "Episodes of a task that are compared; 4 by default.",
        "--rollouts-per-group",
        minimum=2,
        label="group",
        group=TRAINING,
    )
    max_turns: int | None = knob(
        None,
        "Most replies in an episode; by default the environment's.",
        minimum=1,
        label="max turns",
        unset="the environment's",
        group=TRAINING,
    )
    max_seq_len: int | None = knob(
        None,
        "Tokens of a conversation; 8192 by default.",
        "--max-seq-length",
        minimum=16,
        in_form=False,
        group=TRAINING,
    )
    gpu_memory_utilization: float | None = knob(
        None,
        "Share of a GPU that the model's server takes; 0.8 by default.",
        minimum=0.05,
        maximum=1,
        label="vLLM share",
        in_form=False,
        group=TRAINING,
    )
    ruler: str | None = knob(
        None,
        f"Judge the episodes of a task against one another (RULER), by this model; {JUDGE} if it "
        "has no value.",
        unset="no judge",
        place=1,
        group=TRAINING,
    )
    project: str | None = knob(
        None, "Project in ART's records; hud-art by default.", place=1, group=TRAINING
    )
    model_name: str | None = knob(
        None,
        "Name of the trained model; by default ENV-MODEL.",
        unset="ENV-MODEL",
        place=1,
        group=TRAINING,
    )
    rehearse: bool = knob(
        False,
        "Do not train: play, judge and record on this computer's CPU, with random calls or "
        "--base-url.",
        in_form=False,
        group=TRAINING,
    )
    base_url: str | None = knob(
        None,
        "Endpoint whose model plays in a rehearsal.",
        label="endpoint",
        when=_rehearses,
        group=TRAINING,
    )
    seed: int | None = knob(
        None, "Seed for the choice of the tasks and their order.", in_form=False, group=TRAINING
    )
    gpus: str | None = knob(
        None,
        "GPUs to rent, one or two; by default the cheapest machine that holds the model, with one "
        "GPU if such a machine fits.",
        *("--gpus", "-g"),
        label="GPUs",
        unset="by fit, then price",
        when=rents,
        group=WHERE,
    )
    provider: str | None = knob(
        None,
        "Provider to rent from: prime, or sky (SkyPilot); local for this machine.",
        in_form=False,
        group=WHERE,
    )
    engine_version: str | None = knob(
        None, f"Version of ART: {', '.join(ART_VERSIONS)}.", in_form=False, group=WHERE
    )
