"""Merge an adapter into its base model.

`python -m hudtui.trainers.merge --run R --adapter A --out DIR`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hudtui.core.errors import HudtuiError
from hudtui.core.files import read_text, temporary_folder
from hudtui.core.gym.config import load_config
from hudtui.core.settings import load_settings
from hudtui.core.tasks.read import read_tasks
from hudtui.core.training.recipe import read_recipe
from hudtui.trainers.grpo import load_model
from hudtui.trainers.records import say


def merge(run: Path, adapter: Path, out: Path) -> None:
    """Merge the adapter and write the merged model.

    Raises:
        HudtuiError: A file of the run is missing, or the base cannot be loaded.
    """
    recipe = read_recipe(read_text(run / "files" / "recipe.json"), name="recipe.json")
    config = load_config(
        next(
            path
            for path in (run / "files" / "config").iterdir()
            if path.is_file() and path.suffix != ".py"
        )
    )
    settings = load_settings(Path.cwd())
    tasks = read_tasks(
        next((run / "files" / "tasks").iterdir()),
        lookup=settings.lookup,
        platform=settings.platform,
    ).tasks
    model, tokenizer = load_model(recipe, config, tasks)
    import torch
    from peft import PeftModel

    merged = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
    if recipe.bf16:  # on a CPU the base is loaded with 32 bits, and a server would serve it so
        merged = merged.to(torch.bfloat16)
    out.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(out) as made:
        place = Path(made) / "model"
        merged.save_pretrained(str(place))
        tokenizer.save_pretrained(str(place))
        place.rename(out)
    say(f"the merged model is in {out}")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(prog="hudtui.trainers.merge")
    for name in ("run", "adapter", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    given = parser.parse_args(words)
    try:
        merge(given.run, given.adapter, given.out)
    except HudtuiError as error:
        for line in error.lines():
            say(line)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
