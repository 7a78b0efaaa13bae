"""Assesses from its name and the files here whether a model can be trained. Sends nothing over the network."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hudtui.core.text import clean_line
from hudtui.core.training.recipe import TINY, Recipe
from hudtui.core.training.shape import cached_folder, is_hub_id

_SERVED = re.compile(
    r"(?:gpt-(?:3\.5|4|5)|chatgpt|o[1-9](?:-|$)|text-(?:davinci|embedding)|davinci|claude|gemini|grok-(?:[2-9]|beta|code))",
    re.IGNORECASE,
)
"""Names of models whose weights are not published."""
_MAKERS = ("openai", "anthropic", "google", "xai", "x-ai")
_OPEN = Recipe().model


@dataclass(frozen=True)
class ModelAssessment:
    """What is known about a model before anything is rented."""

    state: Literal["fine", "unknown", "refused"]
    text: str
    fix: str | None = None


def assess_model(name: str, folder: Path, *, here: bool) -> ModelAssessment:
    """Assess a model by its name.

    Args:
        name: An id on the Hub, or a folder with a model.
        folder: Start of relative paths.
        here: Whether the training runs on this computer and can read its folders.
    """
    shown = clean_line(name, 100)
    open_one = f"Name an open model on the Hub, such as {_OPEN}."
    if name in (_OPEN, TINY):
        return ModelAssessment("fine", shown)  # the engine has its own word about the tiny one
    path = folder / Path(name).expanduser()
    if name.startswith(("./", "../", "/", "~")) or path.is_dir():
        return _judge_folder(path, shown, here=here)
    owner, _, rest = name.rpartition("/")
    if _SERVED.match(rest) and (not owner or owner.lower() in _MAKERS):
        fix = f"{open_one} To play the tasks with this one: --engine rollouts --policy openai:{clean_line(rest, 60)}"
        return ModelAssessment("refused", f"{shown} is served by its maker alone: without its weights it cannot be trained", fix)
    if not is_hub_id(name):
        why = "has no owner" if not owner else "is not an id of the Hub"
        return ModelAssessment("refused", f"{shown} {why}: a model on the Hub is OWNER/NAME", open_one)
    if cached_folder(name) is not None:
        return ModelAssessment("fine", f"{shown}, which this computer has fetched before")
    return ModelAssessment(
        "unknown", f"whether the Hub has {shown} is not known here: it is asked on the machine, before the training begins"
    )


def _judge_folder(path: Path, shown: str, *, here: bool) -> ModelAssessment:
    if not here:
        fix = "Put the model on the Hub and name it OWNER/NAME, or train here: --host local."
        if path.is_dir():
            return ModelAssessment("refused", f"{shown} is a folder of this computer, which does not travel", fix)
        return ModelAssessment("unknown", f"{shown} is a folder of the machine, if it is there", fix)
    if not path.is_dir():
        return ModelAssessment(
            "refused", f"there is no folder {shown}", "Name a folder with a model, or an id on the Hub: OWNER/NAME."
        )
    if not (path / "config.json").is_file():
        fix = "Name the folder that holds it. An adapter is merged first: hudtui runs export --format merged."
        return ModelAssessment("refused", f"the folder {shown} holds no model: it has no config.json", fix)
    return ModelAssessment("fine", f"the folder {shown}")
