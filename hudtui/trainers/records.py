"""Parts of all trainings.

Their input files, their log, their job on the platform, and what a resumed one writes again.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from hudtui.core.environment.bundled import with_python_variable
from hudtui.core.errors import HudtuiError
from hudtui.core.files import read_text, write_atomic
from hudtui.core.gym.values import GymConfig
from hudtui.core.results.index import ResultIndex
from hudtui.core.results.values import ResultRun
from hudtui.core.rollouts.reward import load_playable_config
from hudtui.core.rollouts.telemetry import Telemetry, open_telemetry
from hudtui.core.settings import Settings
from hudtui.core.tasks.judges import require_keys
from hudtui.core.tasks.read import LoadedTasks, read_tasks
from hudtui.core.text import clean
from hudtui.core.training.recipe import Recipe, read_recipe


def say(text: str) -> None:
    """Print a line to the log, without control characters."""
    print(clean(text), flush=True)  # noqa: T201


def say_error(error: HudtuiError) -> None:
    """Print the error that ends a program; a run takes its first line as the reason."""
    first, *rest = error.lines()
    say(f"error: {first}")
    for line in rest:
        say(f"  {line}")


def read_inputs(
    arguments: argparse.Namespace, settings: Settings
) -> tuple[Recipe, GymConfig, LoadedTasks]:
    """Read the files that the options `--recipe`, `--config` and `--tasks` name.

    Raises:
        InputError: A file cannot be used.
    """
    recipe = read_recipe(read_text(Path(arguments.recipe)), name=arguments.recipe)
    config = load_playable_config(Path(arguments.config), settings.folder, dialect=recipe.dialect)
    read = read_tasks(
        arguments.tasks,
        lookup=with_python_variable(settings.lookup),
        platform=settings.platform,
        own_reward=bool(config.reward or recipe.ruler),
        folder=settings.folder,
        lacking=settings.lacking,
    )
    for problem in read.problems:
        say(f"warning: {problem}")
    require_keys(read.tasks, read.problems)
    return recipe, config, read


def begin_job(config: GymConfig, settings: Settings, recipe: Recipe, out: Path) -> Telemetry | None:
    """Begin the training's job on the platform, in the first process.

    None without telemetry, and in the others.
    """
    if os.environ.get("RANK", "0") != "0":
        return None
    about = {
        "model": recipe.model,
        "steps": recipe.steps,
        "group": recipe.num_generations,
        "tool": "hudtui",
    }
    opened = open_telemetry(
        config, settings, out, about=about, resume=True
    )  # a second start continues
    if isinstance(opened, str):
        say(f"warning: {opened}")
        return None
    if opened is not None:
        say(
            f"job {opened.job.name} id={opened.job.id}"
            + (f" {opened.job.url}" if opened.job.url else "")
        )
    return opened


def forget_after(path: Path, step: int) -> None:
    """Remove the lines after `step` from the metrics: a resumed training writes them again."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and float(row.get("step") or 0) <= step:
            kept.append(line + "\n")
    write_atomic(path, "".join(kept))


def forget_traces_after(path: Path, step: int) -> None:
    """Cut the records of episodes off from the first one after `step` on.

    A resumed training plays those again.
    """
    entries = ResultIndex([ResultRun("", path, "training")]).finish()
    later = [entry.offset for entry in entries if (entry.step or 0) > step]
    if later:
        os.truncate(path, min(later))
