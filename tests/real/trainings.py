"""Trainings of transformers on a processor, read by `hudtui watch`: every value and every step as
the trainer counted them.

Run by hand, with a Python that has torch and transformers:

    .venv/bin/python tests/real/trainings.py --python .venv-train/bin/python

Each training is read from its log and from its folder of checkpoints: with `logging_steps` 1, 10
and 50, an evaluation every 20 steps, output that is written at once or held back by Python,
accumulated gradients, no progress bar, and one that is killed with SIGKILL and resumed. The
trainer's own records are what a callback is told. With --llamafactory, a folder of packages that
has LLaMA-Factory
(`pip install --no-deps --target FOLDER llamafactory omegaconf antlr4-python3-runtime`), its own
callback writes `trainer_log.jsonl` in each training, and that is read too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hudtui.core.remote.local import LocalHost
from hudtui.core.runs.sessions import SessionWatcher, find_session

TRAINER = """
import json, os, signal, sys, traceback
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(4, 1)
    def forward(self, x=None, y=None):
        out = self.line(x)
        return {"loss": ((out.squeeze(-1) - y) ** 2).mean(), "logits": out}
class Data(torch.utils.data.Dataset):
    def __init__(self, count):
        self.x = torch.randn(count, 4, generator=torch.Generator().manual_seed(1))
    def __len__(self):
        return len(self.x)
    def __getitem__(self, place):
        return {"x": self.x[place], "y": self.x[place].sum()}
class Told(TrainerCallback):
    def __init__(self, path, kill):
        self.path, self.kill = path, kill
    def on_log(self, args, state, control, logs=None, **others):
        with open(self.path, "a") as stream:
            stream.write(json.dumps([state.global_step, logs]) + "\\n")
    def on_step_end(self, args, state, control, **others):
        if state.global_step == self.kill:
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)
def train(job):
    torch.manual_seed(0)
    arguments = TrainingArguments(
        output_dir=job["out"], max_steps=130, per_device_train_batch_size=2,
        logging_steps=job["logging"], eval_strategy="steps", eval_steps=20, save_steps=40,
        report_to=[], use_cpu=True, disable_tqdm=job.get("quiet", False),
        gradient_accumulation_steps=job.get("accumulated", 1),
    )
    writers = []
    if job.get("llamafactory"):
        sys.path.append(job["llamafactory"])
        from llamafactory.train.callbacks import LogCallback
        # It asks for this field, which newer releases of transformers no longer have.
        arguments.overwrite_output_dir = False
        writers.append(LogCallback())
    trainer = Trainer(
        model=Model(), args=arguments,
        train_dataset=Data(job.get("rows", 60)), eval_dataset=Data(10),
        callbacks=[*writers, Told(job["told"], job.get("kill"))],
    )
    trainer.train(resume_from_checkpoint=job.get("resume", False))
for line in sys.stdin:  # a process each, without importing everything again
    job = json.loads(line)
    process = os.fork()
    if process == 0:
        log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout = open(1, "w", buffering=-1 if job.get("held_back") else 1, closefd=False)
        sys.stderr = open(2, "w", buffering=1, closefd=False)
        try:
            train(job)
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    os.waitpid(process, 0)
"""
JOBS: tuple[dict[str, Any], ...] = (
    *({"name": f"every {n}", "logging": n} for n in (1, 10, 50)),
    *({"name": f"every {n}, held back", "logging": n, "held_back": True} for n in (1, 10, 50)),
    {"name": "accumulated", "logging": 10, "accumulated": 4, "rows": 50},
    {"name": "no bar", "logging": 1, "quiet": True},
    {"name": "resumed", "logging": 10, "kill": 97},
    {"name": "resumed", "logging": 10, "resume": True},
)
OTHERS = {"loss": "loss", "eval_loss": "eval_loss", "learning_rate": "lr"}
"""What LLaMA-Factory keeps of the trainer's numbers: their names there."""
LEFT = ("epoch", "total_flos")
Values = dict[tuple[float, str], float]
"""Values by step and name."""


def main() -> int:
    """Every training, then the verdict; returns the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--python", default="python3", help="a Python that has torch and transformers"
    )
    parser.add_argument(
        "--llamafactory", type=Path, help="a folder with LLaMA-Factory and what it needs"
    )
    parser.add_argument("--smoke", action="store_true", help="made-up files, without torch")
    parser.add_argument("--out", type=Path, help="with --smoke: its folder")
    given = parser.parse_args()
    if given.smoke:
        return smoke(given.out)
    failed = False
    with tempfile.TemporaryDirectory(prefix="hudtui-trainings-") as name:
        place = Path(name)
        more = {} if given.llamafactory is None else {"llamafactory": str(given.llamafactory)}
        jobs = [
            {
                **job,
                **more,
                "out": str(place / job["name"]),
                "log": f"{place / job['name']}.log",
                "told": f"{place / job['name']}.told",
            }
            for job in JOBS
        ]
        subprocess.run(
            [given.python, "-c", TRAINER],
            input="\n".join(map(json.dumps, jobs)),
            text=True,
            check=True,
        )
        print(f"{'training':<20} {'read from':<12} {'values':>7} {'equal':>7}")
        for job in {one["name"]: one for one in jobs}.values():
            wanted = told(Path(job["told"]))
            log = {
                key: float(f"{value:.4g}") for key, value in wanted.items()
            }  # as transformers prints them
            state = {
                key: value for key, value in wanted.items() if not key[1].startswith("train_")
            }  # told after the last save
            sources = [("log", job["log"], log)]
            if given.llamafactory is None:
                sources.append(("checkpoints", job["out"], state))
            else:
                rows = {
                    (step, OTHERS.get(name, name)): value for (step, name), value in wanted.items()
                }
                kept = {key: value for key, value in rows.items() if key[1] in OTHERS.values()}
                sources.append(("trainer_log", job["out"], kept))
            for source, path, values in sources:
                found = asyncio.run(read(path))
                if source == "trainer_log":
                    found = {
                        key: value for key, value in found.items() if key[1] in OTHERS.values()
                    }
                keys = found.keys() | values.keys()
                equal = sum(found.get(key) == values.get(key) for key in keys)
                print(f"{job['name']:<20} {source:<12} {len(keys):>7} {equal:>7}", flush=True)
                failed = failed or not 0 < len(keys) == equal
    print("NOT as it should be" if failed else "all as it should be")
    return int(failed)


def smoke(place: Path) -> int:
    """Read what transformers would have written, of twelve steps; returns the exit code."""
    rows = [
        {"step": step, "loss": 1 / step, "grad_norm": step / 8, "learning_rate": 1e-5 * step}
        for step in range(1, 13)
    ]
    wanted = {
        (float(row["step"]), name): value
        for row in rows
        for name, value in row.items()
        if name != "step"
    }
    kept = place / "run" / "checkpoint-12"
    kept.mkdir(parents=True)
    state = {"global_step": 12, "max_steps": 12, "log_history": rows}
    (kept / "trainer_state.json").write_text(json.dumps(state))
    text = "".join(f"{ {name: row[name] for name in row if name != 'step'} }\n" for row in rows)
    (place / "run.log").write_text(text)
    failed = False
    for source, path in (("checkpoints", place / "run"), ("log", place / "run.log")):
        found = asyncio.run(read(str(path)))
        equal = sum(found.get(key) == value for key, value in wanted.items())
        print(f"{source:<12} {len(found):>7} {equal:>7}")
        failed = failed or not equal == len(found) == len(wanted)
    return int(failed)


def told(path: Path) -> Values:
    """What the trainer told its callback; a lower step takes the place of what was above it."""
    found: Values = {}
    newest = 0
    for line in path.read_text().splitlines():
        step, logs = json.loads(line)
        if step < newest:
            found = {key: value for key, value in found.items() if key[0] < step}
        newest = step
        found |= {(step, name): value for name, value in logs.items() if name not in LEFT}
    return found


async def read(path: str) -> Values:
    """What hudtui finds at a path."""
    watch = SessionWatcher(LocalHost(), await find_session(LocalHost(), file=path), lines=None)
    async for _ in watch.follow(once=True):
        pass
    numbers = watch.numbers
    return {
        (point.x, name): point.y
        for name in numbers.names
        if name not in LEFT
        for point in numbers.series(name)
    }


if __name__ == "__main__":
    raise SystemExit(main())
