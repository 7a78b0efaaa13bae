"""Whether a real instruct model learns the easiest kind of examples/files: SmolLM2-135M, trained on
a processor by `hudtui rl` to write a word into a file of npm's filesystem server.

    .venv/bin/python tests/real/learns_files.py MODEL_DIR [--python PYTHON] [--steps N] [--out DIR]

MODEL_DIR is the folder that tests/real/small_model.py makes; PYTHON is one with TRL, otherwise
hudtui makes an environment. The server is installed by npm once and started by node, because npx
takes 5 s of processor time for each episode. Of the 20 tasks 12 are trained on and 8 held out. The
trainer evaluates on those before the first step and after the last, one episode each.

The claim, made before any run: the mean reward of the held-out tasks is higher after the training
than before, and the interval of 95 percent of the difference, paired by task, is above 0 (Student's
t with 7 degrees of freedom, 2.365). The exit status is 1 where it is missed.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from learns import command, trained
from on_cpu import arguments, training_file

ROOT = Path(__file__).parents[2]
PACKAGE = "@modelcontextprotocol/server-filesystem"
HELD_OUT = 8
T = 2.365
CONFIG = """\
system_prompt: You work with the files of one folder. Call one tool in every reply.
examples:
  - user: Write the word stone into the file answer.txt.
    assistant: <tool>write("answer.txt", "stone")</tool>
parser: {use_thinking: false}
action_mappings:
  write:
    _parser: {positional: [path, content]}
    _tool: write_file
    path: {from_arg: path}
    content: {from_arg: content}
rubric: {weights: {task_completion: 0.8, tool_execution: 0.1, format_compliance: 0.1}}
defaults: {max_turns: 1}
"""
TRAINING = training_file(
    learning_rate=5e-4,
    batch_size=4,
    temperature=0.8,
    max_tokens=24,
    max_seq_len=512,
    save_every=5,
    held_out=HELD_OUT,
    eval_first=True,
    eval_every=1000,
)


def write_project(out: Path, server: Path | None) -> None:
    """Go to a folder, and write the tasks, the configuration and the settings there."""
    out.mkdir(parents=True, exist_ok=True)
    os.chdir(out)
    os.environ["HUDTUI_TRUST"] = str(Path.cwd())
    shutil.copytree(ROOT / "examples" / "files" / "folder", "folder", dirs_exist_ok=True)
    tasks = json.loads((ROOT / "examples" / "files" / "tasks.json").read_text())
    easiest = [one for one in tasks if one["id"].startswith("write-")]
    for one in easiest:
        if server is not None:
            one["mcp_config"]["files"] |= {"command": "node", "args": [str(server), "."]}
    Path("tasks.json").write_text(json.dumps(easiest, indent=1))
    Path("gym.yaml").write_text(CONFIG)
    Path("training.yaml").write_text(TRAINING)


def installed(folder: Path) -> Path:
    """Return the server's program, which npm installs where it is not there yet."""
    tasks = json.loads((ROOT / "examples" / "files" / "tasks.json").read_text())
    package = next(one for one in tasks[0]["mcp_config"]["files"]["args"] if PACKAGE in one)
    program = folder / "node_modules" / PACKAGE / "dist" / "index.js"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--prefix", str(folder), package], check=True)
    return program


def evaluations(traces: Sequence[dict[str, Any]], step: int) -> dict[str, float]:
    """The rewards of the held-out tasks at a step."""
    return {
        one["task"]: one["scores"]["reward"]
        for one in traces
        if one["info"]["split"] == "eval" and one["info"]["step"] == step
    }


def judged(before: dict[str, float], after: dict[str, float]) -> bool:
    """Print the paired difference with its interval, and return whether the claim holds."""
    differences = [after[task] - before[task] for task in before]
    mean = statistics.fmean(differences)
    half = T * statistics.stdev(differences) / math.sqrt(len(differences))
    print(
        f"held out: {statistics.fmean(before.values()):.3f} before, "
        f"{statistics.fmean(after.values()):.3f} after; difference {mean:+.3f}, "
        f"95 % {mean - half:+.3f} to {mean + half:+.3f}"
    )
    for task in before:
        print(f"  {task:<14} {before[task]:.2f} {after[task]:.2f}")
    return mean - half > 0


def smoke() -> None:
    """Check the configuration and the tasks, and judge made-up evaluations."""
    print(command("config", "check", "gym.yaml").strip())
    assert len(json.loads(Path("tasks.json").read_text())) == 20
    made_up = [
        {"task": f"t{n}", "scores": {"reward": reward}, "info": {"split": "eval", "step": step}}
        for step, reward in ((0, 0.1), (9, 0.8))
        for n in range(HELD_OUT)
    ]
    before, after = (evaluations(made_up, step) for step in (0, 9))
    assert judged(before, {**after, "t0": 0.9})
    assert not judged(before, {**before, "t0": 0.9})


def main() -> int:
    """Train, and print what the held-out tasks earned before and after."""
    given = arguments("learns-files", steps=30, smoke="model and server")
    model, python, out = given.model, given.python, given.out
    write_project(out, None if given.smoke else installed(out / "server"))
    if given.smoke:
        smoke()
        return 0
    words = ["tasks.json", "-c", "gym.yaml", "--model", str(model), "--seed", str(given.seed)]
    words += ["--training", "training.yaml", "--steps", str(given.steps)]
    words += ["--python", str(python)] if python else []
    told = trained("files", words, out / "adapter")
    print(json.dumps(told, indent=1))
    lines = Path(told["folder"], "out", "traces.jsonl").read_text().splitlines()
    traces = [json.loads(line) for line in lines]
    last = max(one["info"]["step"] for one in traces if one["info"]["split"] == "eval")
    return int(not judged(evaluations(traces, 0), evaluations(traces, last)))


if __name__ == "__main__":
    sys.exit(main())
