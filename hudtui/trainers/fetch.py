"""Download a model to the machine before a stage needs it.

`python -m hudtui.trainers.fetch --recipe R --config C`. Checks what would otherwise end a run much
later: the model exists, the user may download it, it fits onto the disk, and its chat template can
be used.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from hudtui.core.errors import HudtuiError, InputError, MachineError
from hudtui.core.files import read_text
from hudtui.core.gym.config import load_config, with_dialect
from hudtui.core.training.model_folder import WANTED
from hudtui.core.training.recipe import read_recipe
from hudtui.trainers.grpo import model_problem
from hudtui.trainers.records import say, say_error
from hudtui.trainers.tokens import chat_tokens_for

_GIB = 2**30
_SPARE = 2 * _GIB


def bytes_wanted(files: Iterable[Any]) -> int:
    """Return the size in bytes of the files of a repository that match `WANTED`."""
    return sum(
        file.size or 0
        for file in files
        if any(fnmatch(file.rfilename, pattern) for pattern in WANTED)
    )


def check_room(model: str, wanted: int, folder: Path) -> None:
    """Check that a model fits onto the disk.

    Raises:
        MachineError: The disk has too little free space.
    """
    place = folder.absolute()
    while not place.is_dir():
        place = place.parent
    free = shutil.disk_usage(place).free
    if wanted + _SPARE > free:
        raise MachineError(
            f"{model} takes {wanted / _GIB:.1f} GiB, and {free / _GIB:.1f} are free on the disk of "
            f"{place}",
            fix="Take a machine with a larger disk, or a smaller model.",
        )


def fetch(model: str) -> None:
    """Download a model into the Hub's cache.

    Files in the cache are not downloaded again; a local folder is not changed.

    Raises:
        InputError: The model does not exist, or the user may not download it.
        MachineError: The disk is too small.
    """
    if Path(model).is_dir():
        return
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.constants import HF_HUB_CACHE

    try:
        facts = HfApi().model_info(model, files_metadata=True)
        wanted = bytes_wanted(facts.siblings or ())
        if not any(file.rfilename.endswith(".safetensors") for file in facts.siblings or ()):
            raise InputError(
                f"{model} has no weights in the form of safetensors", fix="Choose another model."
            )
        there = Path(HF_HUB_CACHE) / f"models--{model.replace('/', '--')}"
        if not there.is_dir():
            check_room(model, wanted, Path(HF_HUB_CACHE))
        say(f"fetching {model} ({wanted / _GIB:.1f} GiB)")
        snapshot_download(model, revision=facts.sha, allow_patterns=list(WANTED))
    except HudtuiError:
        raise
    except Exception as error:  # of the client, and of the network below it
        raise model_problem(model, error) from None


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(prog="hudtui.trainers.fetch")
    for name in ("recipe", "config"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument(
        "--model", help="instead of that of the recipe: the folder that the model was sent to"
    )
    given = parser.parse_args(words)
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    try:
        recipe = read_recipe(read_text(given.recipe), name=str(given.recipe))
        config = with_dialect(load_config(given.config), recipe.dialect)
        model = given.model or recipe.model
        fetch(model)
        from transformers import AutoTokenizer

        scribe, warning = chat_tokens_for(
            AutoTokenizer.from_pretrained(model),
            thinking=config.parser.use_thinking,
            dialect=config.parser.dialect,
        )
        scribe.check_opening(config.opening())
        if warning:
            say(f"warning: {warning}")
    except HudtuiError as error:
        say_error(error)
        return error.exit_code
    say(f"{model} is here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
