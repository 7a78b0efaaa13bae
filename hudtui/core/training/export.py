"""Exports a trained model from a run.

The adapter as the trainer saved it, or merged with its base model.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hudtui.core.errors import InputError, Location
from hudtui.core.files import temporary_folder
from hudtui.core.python import python_command
from hudtui.core.training.recipe import RECIPE, TINY
from hudtui.core.training.shape import json_object

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_ONLY_FOR_TRAINING = {
    "optimizer.pt",
    "scheduler.pt",
    "trainer_state.json",
    "training_args.bin",
    "rng_state.pth",
}


@dataclass(frozen=True)
class TrainedModel:
    """A model that a run has saved."""

    folder: Path
    step: int | None
    """Step of the checkpoint; None for the end of the training."""
    kind: Literal["adapter", "weights"]
    base: str
    """Name of the base model, which an adapter needs. Empty if the run's files do not name it."""
    rank: int | None = None
    """Rank of the adapter; None for whole weights."""

    @property
    def why_not_served(self) -> str:
        """A sentence that says why there is no command to serve the model."""
        if self.base == TINY:
            return "the tiny model of a rehearsal is not worth serving"
        return (
            "how it is served is not known: the run's recipe is missing, which names the model "
            "that the adapter belongs to"
        )

    def serve_command(self, folder: Path, name: str) -> tuple[str, ...]:
        """Return the vLLM command that serves a copy of the model in `folder` on loopback.

        Empty for the tiny model of a rehearsal, which vLLM does not know, and for an adapter
        without a known base model.
        """
        if self.base == TINY or (self.kind == "adapter" and not self.base):
            return ()
        if self.kind == "weights":
            return (
                "vllm",
                "serve",
                str(folder),
                "--host",
                "127.0.0.1",
                "--served-model-name",
                name,
            )
        rank = next(
            (size for size in (8, 16, 32, 64, 128, 256, 320, 512) if size >= (self.rank or 8)), 512
        )
        return (
            *(
                "vllm",
                "serve",
                self.base,
                "--host",
                "127.0.0.1",
                "--enable-lora",
                "--max-lora-rank",
                str(rank),
            ),
            *("--lora-modules", f"{name}={folder}"),
        )


def art_checkpoints(out: Path) -> dict[int, Path]:
    """Return the checkpoints that ART has saved in a run's results by step, in order.

    A checkpoint is an adapter.
    """
    found = [
        (int(path.name), path)
        for path in out.glob(".art/*/models/*/checkpoints/*")
        if path.name.isdigit() and (path / "adapter_config.json").is_file()
    ]
    return dict(sorted(found))


def checkpoints(folder: Path) -> dict[int, Path]:
    """Return the complete checkpoints in a folder by step, in order.

    The trainer writes `trainer_state.json` last. It is empty or cut off if the training was killed
    at that moment.
    """
    found = [
        (int(name[1]), path)
        for path in folder.glob("checkpoint-*")
        if (name := _CHECKPOINT.fullmatch(path.name)) and _is_json(path / "trainer_state.json")
    ]
    return dict(sorted(found))


def _is_json(file: Path) -> bool:
    try:
        json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return True


def run_checkpoints(run: Path) -> dict[int, Path]:
    """Return the complete checkpoints of a run by step, in order."""
    return checkpoints(run / "out" / "checkpoints") or art_checkpoints(run / "out")


def find_trained_model(run: Path, step: int | None = None) -> TrainedModel:
    """Return the model that a run has saved.

    `step` names a checkpoint; None is for the end of the training, else the last checkpoint.

    Raises:
        InputError: The run has no such model, or the model is not complete.
    """
    found = run_checkpoints(run)
    steps = tuple(found)
    if step is not None and step not in steps:
        known = f"There are: {', '.join(map(str, steps))}." if steps else "There are none."
        raise InputError(
            f"this run has no checkpoint of step {step}", fix=known, where=Location(str(run))
        )
    folder = run / "out" / "model"
    if step is None and not folder.is_dir() and steps:
        step = steps[-1]
    if step is not None:
        folder = found[step]
    if not folder.is_dir():
        raise InputError(
            "this run has not saved a model",
            fix="It saves one every few steps, and at its end.",
            where=Location(str(run)),
        )
    adapter = folder / "adapter_config.json"
    settings = json_object(adapter)
    # Results from elsewhere come without the recipe.
    base = str(
        json_object(run / RECIPE).get("model") or settings.get("base_model_name_or_path") or ""
    )
    weights = [
        path for path in folder.iterdir() if path.suffix == ".safetensors" and path.stat().st_size
    ]
    if not weights:
        raise InputError(
            "the model is incomplete: it has no weights",
            fix="Take another step.",
            where=Location(str(folder)),
        )
    if adapter.is_file():
        rank = settings.get("r")
        return TrainedModel(folder, step, "adapter", base, rank if isinstance(rank, int) else None)
    return TrainedModel(folder, step, "weights", base)


def copy_model(trained: TrainedModel, target: Path) -> tuple[str, ...]:
    """Copy the files that are needed to use the model, but not the optimizer's: all or none.

    Return their names.
    The copy of an adapter names its base model on the Hub.

    Raises:
        InputError: The target exists, or cannot be written.
    """
    _refuse_existing(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder(target) as folder:
            place = folder / "model"
            place.mkdir()
            names = sorted(
                path.name
                for path in trained.folder.iterdir()
                if path.is_file() and path.name not in _ONLY_FOR_TRAINING
            )
            for name in names:
                shutil.copyfile(trained.folder / name, place / name)
            if trained.kind == "adapter" and trained.base:
                settings = {
                    **json_object(place / "adapter_config.json"),
                    "base_model_name_or_path": trained.base,
                }
                (place / "adapter_config.json").write_text(json.dumps(settings, indent=2) + "\n")
            (place / "README.md").write_text(card(trained, target.name))
            os.rename(place, target)
    except OSError as error:
        raise InputError(
            "the model cannot be copied",
            why=error.strerror or str(error),
            where=Location(str(target)),
        ) from None
    return tuple(names)


def merge_command(python: str, run: Path, trained: TrainedModel, target: Path) -> tuple[str, ...]:
    """Return the command that merges the adapter into its base model.

    It runs in a training environment.

    Raises:
        InputError: The model is not an adapter, or the target exists.
    """
    if trained.kind != "adapter":
        raise InputError(
            "this run trained all weights: there is no adapter to merge",
            fix="Leave out --format merged.",
        )
    _refuse_existing(target)
    words = (
        "-m",
        "hudtui.trainers.merge",
        "--run",
        str(run),
        "--adapter",
        str(trained.folder),
        "--out",
        str(target),
    )
    return python_command(*words, python=python)


def card(trained: TrainedModel, name: str) -> str:
    """Return the model card: what the model is, and how to serve it."""
    known = (
        ""
        if not trained.base or trained.base == TINY or trained.base.startswith(("/", "."))
        else f"base_model: {trained.base}\n"
    )
    library = (
        "library_name: peft\n" if trained.kind == "adapter" else "library_name: transformers\n"
    )
    what = "A LoRA adapter" if trained.kind == "adapter" else "A trained model"
    if trained.base:
        what += f"{' for' if trained.kind == 'adapter' else ', trained from'} `{trained.base}`"
    when = f" at step {trained.step}" if trained.step is not None else ""
    command = shlex.join(trained.serve_command(Path(name), name)) or f"# {trained.why_not_served}"
    head = f"---\n{known}{library}tags: [grpo, mcp, hudtui]\n---\n"
    return (
        f"{head}\n# {name}\n\n{what}{when}, trained with GRPO by hudtui.\n\n```sh\n{command}\n```\n"
    )


def push(folder: Path, repo: str, *, token: str | None, public: bool = False) -> str:
    """Upload a folder to the Hub as a model, blocking, and return the URL of the model.

    Raises:
        HudtuiError: The Hub refused, or could not be reached.
    """
    from hudtui.core.tasks.hub import (
        HubRateLimited,
        endpoint,
        hub_client,
        hub_errors,
        rate_limit_error,
    )

    try:
        with hub_client(token) as api, hub_errors("pushing", repo, writing=True):
            made = api.create_repo(repo, repo_type="model", private=not public, exist_ok=True)
            api.upload_folder(
                repo_id=made.repo_id,
                folder_path=folder,
                repo_type="model",
                commit_message="Upload by hudtui",
            )
            return f"{endpoint()}/{made.repo_id}"
    except HubRateLimited as busy:
        raise rate_limit_error(busy.seconds, "pushing", repo) from None


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise InputError(
            "there is something of this name already; it is left as it is",
            fix="Name another folder: --output.",
            where=Location(str(target)),
        )
