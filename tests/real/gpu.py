"""GRPO on one GPU that the trainer shares with its own generation: no vLLM, no network.

    python tests/real/gpu.py MODEL_DIR [--part points|learn] [--seconds 540] [--out DIR]
                             [--result FILE]
    python tests/real/gpu.py --smoke

MODEL_DIR is the folder that tests/real/small_model.py makes (SmolLM2-135M-Instruct). With
`--random` its weights are random: MODEL_DIR then needs config.json and the tokenizer alone. The
Python that runs this script also trains; it has PyTorch, transformers, peft and TRL. Without a GPU
the same commands train on the CPU, so that the script can be tried before a GPU is paid for.

What is known is in result.json after every row, or in the file that --result names: a machine that
gives back a few files at its end gives back this one.

First, what hudtui sees of the machine, and two steps as they are trained later: where these fail,
nothing else is begun, so that little of a paid GPU is wasted. Then come two parts.

`learn`: the design of tests/real/learns.py (12 tokens, one turn, 16 boards, groups of four,
learning rate 2e-4), with the seeds 1 and 2; 24 other boards are held out. Seed 1 is stopped in the
middle and continued. The claim, made before any run: with both seeds the share of replies that are
legal calls is above 0.9 in the last five steps, and the reward of these is at least 0.08 above that
of the first two. Then the adapter is exported, and transformers loads it. With random weights it is
left out: they do not learn to call in 24 steps.

`points`: for larger batches the memory and the seconds a step, beside the estimate of the plan.

`--smoke` takes no model, no GPU and a few seconds: the files, the plan, and how results are read.
The exit status is 1 where a row fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from learns import CALLING, CONFIG, EXAMPLE, TO_MAX, TRAINING, UNSEEN, task
from two_gpus import wrapper

from hudtui.core.environment.bundled import PYTHON_VARIABLE
from hudtui.core.training.memory import layout
from hudtui.core.training.recipe import Recipe, parse_settings, recipe_from
from hudtui.core.training.shape import find_shape
from hudtui.envs.text_2048.game import Game

ROOT = Path(__file__).resolve().parents[2]
HUDTUI = [sys.executable, "-m", "hudtui"]
SEEDS = (1, 2)
STEPS = 24
"""Training steps of each seed."""
CALLS, GAIN = 0.9, 0.08
"""The claim: legal calls at the end, and reward at the end less that of the beginning."""
POINTS: Mapping[str, Mapping[str, Any]] = {
    "as trained": {},
    "batch 64, six turns": {
        "batch_size": 64,
        "num_generations": 16,
        "max_turns": 6,
        "max_seq_len": 1024,
    },
    "the same, recomputed activations": {
        "batch_size": 64,
        "num_generations": 16,
        "max_turns": 6,
        "max_seq_len": 1024,
        "gradient_checkpointing": True,
    },
}
"""Settings whose memory is measured, two steps each."""
LOADS = """
import json, sys, torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
model, adapter = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(adapter)
text = [{"role": "user", "content": "You play 2048. Build a tile of 16."}]
tokens = tokenizer.apply_chat_template(
    text, add_generation_prompt=True, return_tensors="pt", return_dict=True
)
base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
with torch.no_grad():
    before = base(**tokens).logits.log_softmax(-1)
    trained = PeftModel.from_pretrained(base, adapter)
    after = trained(**tokens).logits.log_softmax(-1)
    reply = trained.generate(**tokens, max_new_tokens=12, do_sample=False)
said = tokenizer.decode(reply[0, tokens["input_ids"].shape[1]:], skip_special_tokens=True)
print(json.dumps({"change": (before - after).abs().max().item(), "reply": said}))
"""


class OutOfTime(Exception):
    """The time of a part is over."""


@dataclass
class Clock:
    """The time limit of a part."""

    seconds: float
    began: float = field(default_factory=time.monotonic)

    @property
    def remaining(self) -> float:
        """Seconds."""
        return self.seconds - (time.monotonic() - self.began)

    def within(self, most: float, reserve: float = 0.0) -> float:
        """Return `most` seconds, or fewer where they are not left; `reserve` are not given away."""
        seconds = min(most, self.remaining - reserve)
        if seconds <= 1:
            raise OutOfTime
        return seconds


@dataclass
class Report:
    """The rows of the table; each is written down as soon as it is known."""

    path: Path
    rows: dict[str, Any] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def add(self, what: str, row: Any, right: bool = True) -> None:
        """Add a row."""
        self.rows[what] = row
        self.failed += [] if right else [what]
        kept = {"failed": self.failed, **self.rows}
        self.path.write_text(json.dumps(kept, indent=1, default=str))
        print(f"{'ok  ' if right else 'FAIL'}  {what}: {json.dumps(row, default=str)}", flush=True)


class GpuWatch:
    """The most memory of the GPU that its driver reports, twice a second, and its load."""

    def __init__(self) -> None:
        self.used: list[float] = []
        self.load: list[float] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> GpuWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(15)

    def _watch(self) -> None:
        program = shutil.which("nvidia-smi")
        while program and not self._ended.wait(0.5):
            for values in query(program, "memory.used,utilization.gpu")[:1]:
                for told, text in zip((self.used, self.load), values, strict=False):
                    with suppress(ValueError):  # a driver in a sandbox may not know one of them
                        told.append(float(text))

    def row(self) -> dict[str, float]:
        """Return the most memory in GiB and the mean load in percent; empty without a GPU."""
        if not self.used:
            return {}
        row = {"driver_gib": round(max(self.used) / 1024, 2)}
        return row | ({"load_percent": round(statistics.fmean(self.load))} if self.load else {})


def query(program: str, fields: str) -> list[list[str]]:
    """Ask the driver; returns a list of values for each GPU."""
    words = [program, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=10)
        return [[part.strip() for part in line.split(",")] for line in done.stdout.splitlines()]
    return []


# --- the project ----------------------------------------------------------------------------------


def write_project(folder: Path) -> None:
    """Write tasks, configuration and settings: the training boards, then those held out."""
    board = Game(3, 500).text().strip().replace("\n", "\n      ")
    (folder / "gym.yaml").write_text(
        CONFIG.format(examples=EXAMPLE.format(board=board, action="left"))
    )
    (folder / "training.yaml").write_text(TRAINING)
    seen = [task(f"seen-{seed}", seed, TO_MAX) for seed in range(1, CALLING.boards + 1)]
    unseen = [task(f"unseen-{seed}", seed) for seed in UNSEEN]
    (folder / "tasks.json").write_text(json.dumps([*seen, *unseen]))


def own_world(out: Path) -> None:
    """Go to a folder, with a home of its own; what the user has set stays outside.

    Its `bin/python` is the Python of this script, with hudtui and what else PYTHONPATH names.
    """
    (out / "home").mkdir(parents=True, exist_ok=True)
    os.chdir(out)
    for name in [name for name in os.environ if name.startswith(("XDG_", "HUDTUI_"))]:
        del os.environ[name]
    places = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    path = os.pathsep.join(dict.fromkeys(places))
    python = wrapper(out / "bin" / "python", Path(sys.executable), PYTHONPATH=path)
    here = {"HOME": str(out / "home"), "HUDTUI_TRUST": str(out), PYTHON_VARIABLE: str(python)}
    os.environ.update(here, HF_HUB_OFFLINE="1", PYTHONPATH=path)


def hudtui(*words: str, seconds: float) -> Any:
    """Run a command, and return what it printed as JSON.

    Raises:
        RuntimeError: It failed, with its last words.
    """
    how: dict[str, Any] = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
    done = subprocess.run([*HUDTUI, *words], check=False, timeout=seconds, **how)
    if done.returncode:
        said = f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        raise RuntimeError(f"hudtui {' '.join(words[:3])} ended with {done.returncode}: {said}")
    return json.loads(done.stdout) if done.stdout.strip() else None


def request(model: Path | None, settings: Mapping[str, Any], *more: str) -> list[str]:
    """Return the words of a training; without a model those of a rehearsal."""
    words = ["rl", "tasks.json", "-c", "gym.yaml", "--host", "local", "--yes", "--json", *more]
    if model is None:
        return [*words, "--rehearse"]
    words += ["--model", str(model), "--training", "training.yaml"]
    words += ["--python", os.environ[PYTHON_VARIABLE]]
    chosen = {"vllm": False, **settings}
    return [*words, *(word for name, value in chosen.items() for word in pair(name, value))]


def pair(name: str, value: Any) -> tuple[str, str]:
    """Return a setting as an option."""
    return "--set", f"{name}={json.dumps(value)}"


# --- what runs left -------------------------------------------------------------------------------


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a file of JSON lines; the last may be half written."""
    if not path.exists():
        return []
    whole = path.read_bytes().decode(errors="replace").split("\n")[:-1]
    return [json.loads(line) for line in whole]


def curve(folder: Path) -> dict[str, Any]:
    """Return the curve of a run, where its seconds went, and the memory of its trainer."""
    rows = lines(folder / "out" / "metrics.jsonl")
    steps = [row for row in rows if "reward" in row]
    found: dict[str, Any] = {
        "reward": [round(row["reward"], 3) for row in steps],
        "calls": [round(row["tool_execution"], 3) for row in steps if "tool_execution" in row],
        "held_out": {
            row["step"]: round(row["eval_reward"], 3) for row in rows if "eval_reward" in row
        },
    }
    for name in ("step_time", "time/rollouts", "time/generation", "time/tools", "tokens_per_s"):
        values = [row[name] for row in steps[1:] or steps if name in row]
        found[name] = round(statistics.median(values), 3) if values else None
    for name in ("gpu_used_gib", "gpu_reserved_gib"):
        values = [row[name] for row in rows if name in row]
        found[name] = round(max(values), 2) if values else None
    lengths = [
        sum(turn["tokens"].values())
        for one in lines(folder / "out" / "traces.jsonl")
        for turn in one.get("turns", [])[-1:]
    ]
    return {**found, "longest": max(lengths, default=None)}


def estimate(recipe: Recipe, folder: Path) -> float | None:
    """Return the estimate for one GPU in GiB; None for a model of unknown size."""
    found = layout(1, recipe, 80.0, find_shape(recipe.model, folder)).memory
    return None if found is None else round(found[0].total, 2)


def beside(folder: Path) -> dict[str, Any]:
    """Return the plan's estimate in GiB, and the same for conversations as long as they were."""
    recipe = recipe_from(json.loads((folder / "files" / "recipe.json").read_text()))
    longest = curve(folder)["longest"]
    row = {"estimate_gib": estimate(recipe, folder)}
    if longest is not None and recipe.max_tokens < longest < recipe.max_seq_len:
        row["estimate_of_seen_length_gib"] = estimate(replace(recipe, max_seq_len=longest), folder)
    return row


def gpus_seen(folder: Path) -> dict[str, Any]:
    """Return what the run's own record says of the GPUs: how often, and the most memory."""
    rows = [row["gpus"] for row in lines(folder / "gpu.jsonl") if row.get("gpus")]
    most = max((gpu.get("used_mib") or 0 for gpus in rows for gpu in gpus), default=0)
    return {"samples": len(rows), "most_gib": round(most / 1024, 2)}


def judge(found: Mapping[str, Any]) -> tuple[dict[str, float], bool]:
    """Return the numbers of the claim for one seed, and whether it holds."""
    rewards, calls = found["reward"], found["calls"]
    if not rewards or not calls:
        return {}, False
    gain = statistics.fmean(rewards[-5:]) - statistics.fmean(rewards[:2])
    share = statistics.fmean(calls[-5:])
    row = {"gain": round(gain, 3), "calls": round(share, 3)}
    return row, len(rewards) >= STEPS and gain >= GAIN and share > CALLS


# --- runs -----------------------------------------------------------------------------------------


def follow(run: Mapping[str, Any], seconds: float, *, until: int | None = None) -> str:
    """Wait for the end of a run, or for a step of it.

    Returns its state; "step" where that came first, and "late" where the time did.
    """
    folder, end = Path(run["folder"]), time.monotonic() + seconds
    while time.monotonic() < end:
        steps = [row["step"] for row in lines(folder / "out" / "metrics.jsonl") if "reward" in row]
        if until is not None and steps and steps[-1] >= until:
            return "step"
        with suppress(OSError, ValueError):
            state = json.loads((folder / "status.json").read_text())["state"]
            if state in ("finished", "failed", "stopped"):
                return str(state)
        time.sleep(0.25)
    return "late"


def stop(run: Mapping[str, Any], *words: str) -> None:
    """Stop a run; it keeps a checkpoint unless `--now` is among the words."""
    hudtui("runs", "stop", str(run["id"]), "--yes", "--json", *words, seconds=120)


def carry_out(words: Sequence[str], seconds: float) -> tuple[dict[str, Any], str]:
    """Start a run and wait for it; returns the run and its state."""
    began = time.monotonic()
    run = hudtui(*words, "--detach", seconds=seconds)
    state = follow(run, seconds - (time.monotonic() - began))
    if state == "late":
        stop(run, "--now")
    return run, state


def log_of(run: Mapping[str, Any]) -> str:
    """Return the last lines of each log of a run."""
    found = sorted((Path(run["folder"]) / "logs").glob("*.log"))
    return "".join(
        f"\n== {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in found
    )


def random_model(source: Path, target: Path) -> Path:
    """Return a folder with the model of `source` and its tokenizer, with random weights."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    target.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.suffix in (".json", ".jinja"):
            shutil.copy(file, target)
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(source)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(target)
    return target


@contextmanager
def guarded(report: Report, what: str) -> Iterator[None]:
    """A row that breaks off is a row that fails; what comes after it goes on."""
    try:
        yield
    except (OutOfTime, RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
        why = str(error) or "the time is over"
        row = {"broken off": why[-3000:], "kind": type(error).__name__}
        said = getattr(error, "stderr", None)
        report.add(what, {**row, "stderr": str(said)[-2000:]} if said else row, right=False)


def look(report: Report, clock: Clock) -> None:
    """What hudtui and PyTorch see of the machine."""
    import torch
    import transformers
    import trl

    program = shutil.which("nvidia-smi")
    fields = "name,memory.total,driver_version"
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    report.add("versions", {**versions, "trl": trl.__version__, "python": sys.version.split()[0]})
    machine = hudtui("machine", "--json", seconds=clock.within(120))
    driver = query(program, fields) if program else []
    seen = [[one["name"], one["memory_mib"], one["driver"]] for one in machine["gpus"]]
    row = {"torch": gpu, "driver": driver, "hudtui": seen, "cpus": machine["cpus"]}
    right = [list(map(str, one)) for one in seen] == driver and bool(seen) == bool(gpu)
    report.add("the GPU as hudtui machine sees it", row, right)


def plan_row(words: Sequence[str], report: Report, what: str, seconds: float) -> None:
    """What the plan says before anything starts."""
    plan = hudtui(*words, "--dry-run", seconds=seconds)
    stages = [stage["name"] for stage in plan["plan"]["stages"]]
    starts = ("GPU", "on the CPU", "a rehearsal")
    notes = [note for note in plan["plan"]["notes"] if note.startswith(starts)]
    checks = [one["text"] for one in plan["checks"] if one["name"] in ("memory", "machine")]
    row = {"stages": stages, "notes": notes, "checks": checks}
    report.add(what, row, stages[-1] == "train" and bool(notes))


def measure(name: str, model: Path, report: Report, clock: Clock, given: argparse.Namespace) -> str:
    """Measure the memory and the seconds of a step for a batch; returns the state of the run."""
    settings = {**POINTS[name], **given.set}
    words = request(model, settings, "--steps", "2", "--name", f"point {len(report.rows)}")
    state = "broken off"
    with guarded(report, f"memory, {name}"), GpuWatch() as watch:
        run, state = carry_out(words, clock.within(given.most))
        folder = Path(run["folder"])
        found = {**beside(folder), **watch.row(), **curve(folder)}
        seen = {"recorded": gpus_seen(folder)} if watch.used else {}
        report.add(f"memory, {name}", {"state": state, **found, **seen}, state == "finished")
        if state != "finished":
            print(log_of(run), flush=True)
    return state


def points(model: Path, report: Report, clock: Clock, given: argparse.Namespace) -> None:
    """Measure larger batches."""
    for name in [] if given.quick else list(POINTS)[1:]:
        measure(name, model, report, clock, given)


def learn(model: Path, report: Report, clock: Clock, given: argparse.Namespace) -> None:
    """Train with each seed, stop and continue the first, export, load."""
    steps = str(given.steps or STEPS)
    settings = {"held_out": len(UNSEEN), "eval_every": 8, **given.set}
    trained = list[dict[str, Any]]()
    for seed in SEEDS[:1] if given.quick else SEEDS:
        more = ("--steps", steps, "--seed", str(seed), "--name", f"seed {seed}", "--detach")
        with guarded(report, f"seed {seed}"), GpuWatch() as watch:
            words, limit = request(model, settings, *more), clock.within(120)
            run, began = hudtui(*words, seconds=limit), time.monotonic()
            half = int(steps) // 2 if seed == SEEDS[0] else None
            state = follow(run, clock.within(given.most, reserve=20), until=half)
            if state == "step":
                run, state = interrupted(run, report, clock, given)
            elif state == "late":
                stop(run, "--now")
            found = curve(Path(run["folder"]))
            claim, right = judge(found)
            seconds = round(time.monotonic() - began)
            row = {"state": state, "seconds": seconds, **claim, **found, **watch.row()}
            report.add(f"seed {seed}", {**row, "recorded": gpus_seen(Path(run["folder"]))}, right)
            if state != "finished":
                print(log_of(run), flush=True)
            trained.append(run)
    if trained:
        export(trained[-1], model, report, clock)


def interrupted(
    run: dict[str, Any], report: Report, clock: Clock, given: argparse.Namespace
) -> tuple[dict[str, Any], str]:
    """Stop a run and continue it; returns the continuation and its state."""
    began = time.monotonic()
    stop(run)
    stopped, kept = time.monotonic() - began, curve(Path(run["folder"]))["reward"]
    words = ("runs", "continue", str(run["id"]), "--yes", "--json", "--detach")
    again = hudtui(*words, seconds=clock.within(120))
    state = follow(again, clock.within(given.most, reserve=20))
    if state == "late":
        stop(again, "--now")
    whole = curve(Path(again["folder"]))["reward"]
    row = {"stopped_after_s": round(stopped, 1), "steps": [len(kept), len(whole)]}
    right = whole[: len(kept)] == kept and len(whole) > len(kept)
    report.add("stopped and continued", {**row, "state": state}, right)
    return again, state


def export(run: Mapping[str, Any], model: Path, report: Report, clock: Clock) -> None:
    """Export the adapter, and load it with transformers alone."""
    words = [*HUDTUI, "runs", "export", str(run["id"]), "-o", "adapter"]
    how: dict[str, Any] = {"capture_output": True, "text": True, "check": True}
    subprocess.run(words, timeout=clock.within(60), **how)
    files = sorted(path.name for path in Path("adapter").iterdir())
    words = [sys.executable, "-c", LOADS, str(model), "adapter"]
    done = subprocess.run(words, timeout=clock.within(90), **how)
    row = json.loads(done.stdout.strip().splitlines()[-1])
    report.add("the adapter in transformers", {**row, "files": files}, row["change"] > 1e-3)


def smoke(report: Report) -> None:
    """The files, the plan of a rehearsal, the estimates, and how a run is read."""
    plan_row(request(None, {}), report, "the plan of a rehearsal", 60)
    recipe = recipe_from({"model": "org/model-3B", "vllm": False, "batch_size": 16})
    alone, served = estimate(recipe, Path()), estimate(replace(recipe, vllm=True), Path())
    assert alone is not None and served is not None
    weights = 3e9 * 2 / 2**30
    row = {"alone": alone, "with vLLM": served}
    report.add("one copy of the weights less", row, abs(served - alone - weights) < 0.1)
    folder = Path("run")
    (folder / "out").mkdir(parents=True)
    rows = [
        {"step": step, "reward": 0.3 + step / 100, "tool_execution": 1.0, "step_time": step}
        for step in range(1, STEPS + 1)
    ]
    rows.append({"step": STEPS, "eval_reward": 0.5})
    text = "".join(json.dumps(one) + "\n" for one in rows)
    (folder / "out" / "metrics.jsonl").write_text(text + '{"step": 25, "rew')
    found = curve(folder)
    report.add("a curve", found, len(found["reward"]) == STEPS and found["held_out"] == {24: 0.5})
    report.add("the claim", *judge(found))
    flat = judge({**found, "reward": [0.4] * STEPS})
    report.add("a flat curve does not meet it", flat[0], not flat[1])
    driver = Path("driver/nvidia-smi").absolute()
    driver.parent.mkdir()
    driver.write_text("#!/bin/sh\necho '2048, [N/A]'\n")
    driver.chmod(0o755)
    os.environ["PATH"] = f"{driver.parent}{os.pathsep}{os.environ['PATH']}"
    with GpuWatch() as watch:
        until = time.monotonic() + 30
        while not watch.used and time.monotonic() < until:
            time.sleep(0.05)
    report.add(
        "a driver that does not know the load", watch.row(), watch.row() == {"driver_gib": 2}
    )


def main() -> None:
    """Carry out a part, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--part", choices=("points", "learn"), action="append")
    parser.add_argument("--seconds", type=float, default=540, help="time limit of the whole")
    parser.add_argument("--most", type=float, default=180, help="time limit of each training")
    parser.add_argument("--steps", type=int, help=f"{STEPS}")
    parser.add_argument("--random", action="store_true", help="random weights")
    parser.add_argument("--quick", action="store_true", help="one point, one seed")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="to try it on a CPU"
    )
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", type=Path, default=None, help="folder of the runs")
    parser.add_argument("--result", type=Path, help="file of the table; result.json in --out")
    given = parser.parse_args()
    if given.model is None and not given.smoke:
        parser.error("name the folder of the model, or --smoke")
    given.set = parse_settings(given.set)
    out = (given.out or Path(tempfile.mkdtemp(prefix="hudtui-gpu-"))).absolute()
    model = given.model.absolute() if given.model else None
    result = given.result.absolute() if given.result else out / "result.json"
    own_world(out)
    write_project(out)
    report, clock = Report(result), Clock(given.seconds)
    if model is None:
        smoke(report)
        sys.exit(bool(report.failed))
    parts = {"learn": learn, "points": points}
    if given.random:
        model = random_model(model, out / "random")
    with guarded(report, "the machine"):
        look(report, clock)
    with guarded(report, "the plan"):
        plan_row(request(model, {}), report, "the plan", clock.within(120))
    begun = measure(next(iter(POINTS)), model, report, clock, given) == "finished"
    chosen = given.part or [name for name in parts if not (given.random and name == "learn")]
    for name in chosen if begun else ():
        with guarded(report, name):
            parts[name](model, report, clock, given)
    report.add("seconds of the whole", round(given.seconds - clock.remaining, 1))
    sys.exit(bool(report.failed))


if __name__ == "__main__":
    main()
