"""A package of somebody else's with an engine, as `pip install` leaves it: a module, and its entry
point."""

from __future__ import annotations

from pathlib import Path

_ABOUT = "Metadata-Version: 2.1\nName: verl-stand-in\nVersion: 1.0\n"
_MODULE = '''
"""An engine that stands for verl: one trainer process, without a model."""
from hudtui.core.errors import InputError
from hudtui.core.training.engine import Training
from hudtui.core.training.features import Features
from hudtui.core.training.plan import Plan, PlanFile, PlanOutput, Stage, input_files
from hudtui.core.training.recipe import recipe_of

TRAINER = """
import json, pathlib, sys

out, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
saved = [int(path.name.rpartition("-")[2]) for path in out.glob("checkpoints/checkpoint-*")]
for step in range(max(saved, default=0) + 1, steps + 1):
    with open(out / "metrics.jsonl", "a") as metrics:
        print(json.dumps({"step": step, "reward": step / 10, "steps": steps}), file=metrics)
    place = out / "checkpoints" / f"checkpoint-{step}"
    place.mkdir(parents=True)
    (place / "trainer_state.json").write_text(json.dumps({"global_step": step}))
    print("verl trained step", step, flush=True)
"""


class Verl(Training):
    name = "verl"
    title = "train a model with verl"
    features = Features(
        continues="checkpoint",
        rehearsal={"steps": 2, "model": "tiny"},
        settings=(
            "model",
            "steps",
            "batch_size",
            "num_generations",
            "gradient_accumulation",
            "learning_rate",
        ),
        defaults={"steps": 7, "num_generations": 4},
    )

    def check(self, request, recipe):
        if recipe.batch_size > 64:
            what = f"verl takes a batch of at most 64, not {recipe.batch_size}"
            yield InputError(what, fix="Lower batch_size.")

    def plan(self, spec, site):
        recipe = recipe_of(spec, self.features)
        script = PlanFile("files/train.py", content=TRAINER)
        words = (*site.python, site.path(script.path), site.path("out"), str(recipe.steps))
        continued = spec.continues.files if spec.continues else ()
        return Plan(
            self.name,
            (Stage("train", words, cwd=site.workspace or ""),),
            files=(*input_files(spec), script, *continued),
            outputs=(PlanOutput("out/metrics.jsonl", "metrics", "one line a step"),),
            max_seconds=spec.max_seconds,
        )
'''


def install_engine(place: Path) -> Path:
    """Put the package into a new folder, and return the folder: on `sys.path` it is installed."""
    about = place / "verl_stand_in-1.0.dist-info"
    about.mkdir(parents=True)
    (place / "verl_stand_in.py").write_text(_MODULE)
    (about / "METADATA").write_text(_ABOUT)
    (about / "entry_points.txt").write_text("[hudtui.engines]\nverl = verl_stand_in:Verl\n")
    return place
