"""Assesses from its name, or its files on this computer, whether a model can be trained.

Sends nothing over the network.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hudtui.core.errors import InputError
from hudtui.core.gym.values import GymConfig
from hudtui.core.paths import typed_path
from hudtui.core.text import clean_line
from hudtui.core.training.model_folder import read_model_folder
from hudtui.core.training.recipe import TINY, Recipe
from hudtui.core.training.shape import cached_folder, is_hub_id

_SERVED = re.compile(
    r"(?:gpt-(?:3\.5|4|5)|chatgpt|o[1-9](?:-|$)|text-(?:davinci|embedding)|davinci|claude|gemini"
    r"|grok-(?:[2-9]|beta|code))",
    re.IGNORECASE,
)
"""Names of models whose weights are not published."""
_MAKERS = ("openai", "anthropic", "google", "xai", "x-ai")
_OPEN = Recipe().model
MOST_SENT = 40 << 30
"""Bytes of a model that is sent from this computer, at most."""


@dataclass(frozen=True)
class ModelAssessment:
    """Facts about a model before anything is rented."""

    state: Literal["fine", "unknown", "refused"]
    text: str
    fix: str | None = None
    files: tuple[Path, ...] = ()
    """The files of a folder of this computer that the machine has to get."""
    on_hub: bool = False
    """True for the id of a model on the Hub: only the Hub knows more."""


def assess_model(
    name: str, folder: Path, *, here: bool, sent: bool = False, config: GymConfig | None = None
) -> ModelAssessment:
    """Assess a model by its name; a folder of this computer by its files.

    Relative paths start in `folder`. `here`: the training runs on this computer and can read its
    folders; `sent`: a folder of this computer is sent to another machine. The opening messages of
    `config` are tried with the chat template.
    """
    shown = clean_line(name, 100)
    open_one = f"Name an open model on the Hub, such as {_OPEN}."
    if name in (_OPEN, TINY):
        return ModelAssessment("fine", shown)  # the engine has its own word about the tiny one
    path = folder / typed_path(name)
    if name.startswith(("./", "../", "/", "~")) or os.path.isdir(path):
        return _judge_folder(path, shown, here=here, sent=sent, config=config)
    owner, _, rest = name.rpartition("/")
    if _SERVED.match(rest) and (not owner or owner.lower() in _MAKERS):
        fix = (
            f"{open_one} To play the tasks with this one: --engine rollouts --policy "
            f"openai:{clean_line(rest, 60)}"
        )
        return ModelAssessment(
            "refused",
            f"{shown} is served by its maker alone: without its weights it cannot be trained",
            fix,
        )
    if not is_hub_id(name):
        why = "has no owner" if not owner else "is not an id of the Hub"
        return ModelAssessment(
            "refused", f"{shown} {why}: a model on the Hub is OWNER/NAME", open_one
        )
    if cached_folder(name) is not None:
        return ModelAssessment("fine", f"{shown}, which this computer has fetched before")
    return ModelAssessment(
        "unknown",
        f"whether the Hub has {shown} is not known here: it is asked on the machine, before the "
        "training begins",
        on_hub=True,
    )


def _judge_folder(
    path: Path, shown: str, *, here: bool, sent: bool, config: GymConfig | None
) -> ModelAssessment:
    fix = "Put the model on the Hub and name it OWNER/NAME, or train here: --host local."
    if not here and not path.is_dir():
        return ModelAssessment(
            "unknown", f"{shown} is a folder of the machine, if it is there", fix
        )
    if not here and not sent:
        return ModelAssessment(
            "refused", f"{shown} is a folder of this computer, which does not travel", fix
        )
    if not path.is_dir():
        return ModelAssessment(
            "refused",
            f"there is no folder {shown}",
            "Name a folder with a model, or an id on the Hub: OWNER/NAME.",
        )
    try:
        found = read_model_folder(path, config.opening() if config is not None else ())
    except InputError as error:
        why = f" ({error.why})" if error.why else ""
        return ModelAssessment(
            "refused", f"the folder {shown} cannot be trained: {error.what}{why}", error.fix
        )
    text = f"the folder {shown}, {found.size / 2**30:.1f} GiB" + (
        "" if here else ", which is sent to the machine"
    )
    if not here and found.size > MOST_SENT:
        return ModelAssessment("refused", f"{text}: more than {MOST_SENT >> 30} GiB", fix)
    if config is not None and config.parser.use_thinking and not found.keeps_thoughts:
        text += (
            "; its chat template drops earlier thoughts: the training ends at once unless TRL has "
            "a template in its place"
        )
        fix = "Set parser.use_thinking to false in the configuration, or choose another model."
        return ModelAssessment("unknown", text, fix, () if here else found.files)
    return ModelAssessment("fine", text, files=() if here else found.files)
