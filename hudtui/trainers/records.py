"""Records of a training: those that a resumed training writes again, and its job on the platform."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from hudtui.core.files import write_atomic
from hudtui.core.gym.values import GymConfig
from hudtui.core.results.index import ResultIndex
from hudtui.core.results.values import ResultRun
from hudtui.core.rollouts.telemetry import Telemetry, open_telemetry
from hudtui.core.settings import Settings
from hudtui.core.training.recipe import Recipe


def begin_job(config: GymConfig, settings: Settings, recipe: Recipe, out: Path, say: Callable[[str], None]) -> Telemetry | None:
    """Begin the training's job on the platform, in the first process; None without telemetry, and in the others."""
    if os.environ.get("RANK", "0") != "0":
        return None
    about = {"model": recipe.model, "steps": recipe.steps, "group": recipe.num_generations, "tool": "hudtui"}
    opened = open_telemetry(config, settings, out, about=about, resume=True)  # a second start continues
    if isinstance(opened, str):
        say(f"warning: {opened}")
        return None
    if opened is not None:
        say(f"job {opened.job.name} id={opened.job.id}" + (f" {opened.job.url}" if opened.job.url else ""))
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
    """Cut the records of episodes off from the first one after `step` on: a resumed training plays those again."""
    index = ResultIndex([ResultRun("", path, "training")])
    while not index.advance(1.0).complete:
        pass
    later = [entry.offset for entry in index.entries if (entry.step or 0) > step]
    if later:
        os.truncate(path, min(later))
