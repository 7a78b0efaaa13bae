"""Whether a real instruct model learns to call in `hermes` as it does in `text`: SmolLM2-135M,
trained on a processor by `hudtui rl`.

    .venv/bin/python tests/real/dialects.py MODEL_DIR [--python PYTHON] [--steps 10] [--out DIR]

MODEL_DIR is the folder that tests/real/small_model.py makes; PYTHON is one with TRL, otherwise
hudtui makes an environment. Everything but the dialect is the same: boards of 3x3, one example
round, one reply an episode, four episodes of one task a step. Printed are the share of legal calls
and the reward of each step. The first two steps are played by the model as it was, because the
learning rate of the first is 0; they stand for before, and the last two for after. Nothing is
claimed: whatever comes out is the result. `native` is tried, too, and refused: the template of this
model takes no tools.

A run that was broken off continues by the same command: what result.json in --out has is not done
again.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from learns import HUDTUI, Rows, command, opening, task, trained
from on_cpu import arguments, training_file

from hudtui.core.gym.dialects.known import DIALECTS

TRAINED = ("text", "hermes")
CONFIG = """\
system_prompt: You play 2048. Call one tool in every reply.
examples:
  - user: |
      Build a tile of 16.

      {board}
    assistant: {reply}
parser: {{use_thinking: false, dialect: {dialect}}}
action_mappings:
  move: {{_tool: move, _parser: {{positional: [direction]}}, direction: {{from_arg: direction}}}}
defaults: {{max_turns: 1}}
"""
TRAINING = training_file(
    learning_rate=5e-4, batch_size=4, temperature=0.8, max_tokens=32, max_seq_len=1024, save_every=5
)
EDGE = 2
"""Steps at the beginning, and at the end, that are compared."""


def write_project(out: Path) -> None:
    """Go to a folder, and write the tasks, a configuration for each dialect, and the settings."""
    out.mkdir(parents=True, exist_ok=True)
    os.chdir(out)
    os.environ["HUDTUI_TRUST"] = str(Path.cwd())
    os.environ["HUDTUI_PYTHON"] = sys.executable
    board = opening(500).strip().replace("\n", "\n      ")
    for name in (*TRAINED, "native"):
        reply = json.dumps(DIALECTS[name].write("move", {"direction": "left"}))
        text = CONFIG.format(board=board, reply=reply, dialect=name)
        Path(f"{name}.yaml").write_text(text)
    Path("training.yaml").write_text(TRAINING)
    Path("seen.json").write_text(json.dumps([task(f"seen-{seed}", seed) for seed in range(1, 17)]))


def refused(model: Path, python: Sequence[str]) -> str:
    """What `hudtui rl` says of `native` with a model whose template takes no tools.

    Raises:
        SystemExit: It does not refuse.
    """
    words = ["rl", "seen.json", "-c", "native.yaml", "--host", "local", "--model", str(model)]
    done = subprocess.run(
        [*HUDTUI, *words, "--training", "training.yaml", *python, "--yes"],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if not done.returncode:
        raise SystemExit("FAIL: a training in `native` began with a template that takes no tools")
    lines = (done.stdout + done.stderr).splitlines()
    return next((line for line in lines if "takes no tools" in line), lines[-1])


def table(rows: Mapping[str, Any]) -> None:
    """Print each step, and what was before and after."""
    for name in TRAINED:
        row = rows[name]
        for what, values in (("legal calls", row["calls"]), ("reward", row["rewards"])):
            before, after = statistics.fmean(values[:EDGE]), statistics.fmean(values[-EDGE:])
            print(f"{name:<8} {what:<12} {before:.2f} before, {after:.2f} after: {values}")
        print(f"{name:<8} seconds      {row['seconds a step']}, {row['minutes']} minutes in all")


def smoke() -> None:
    """Play two tasks in each configuration, and print made-up steps."""
    for name in TRAINED:
        words = ("eval", "seen.json", "-c", f"{name}.yaml", "--policy", "random", "--limit", "2")
        found = json.loads(command(*words, "--json"))
        episodes = [one for task in found["tasks"] for one in task["episodes"]]
        assert [one["tool_execution"] for one in episodes] == [1.0, 1.0], episodes
        assert all(one["format_compliance"] == 1 for one in episodes), episodes
    steps = {"calls": [0.25, 0.25, 1.0, 1.0], "rewards": [0.3, 0.3, 0.5, 0.5]}
    table({name: {**steps, "seconds a step": [1] * 4, "minutes": 0.1} for name in TRAINED})


def main() -> None:
    """Train in both dialects, and print the table."""
    given = arguments("dialects", steps=10, smoke="model and trainer")
    model, python = given.model, ("--python", str(given.python)) if given.python else ()
    write_project(given.out)
    if given.smoke:
        smoke()
        return
    rows = Rows()
    print(f"native: {refused(model, python)}", flush=True)
    for name in TRAINED:
        if name not in rows:
            words = ["seen.json", "-c", f"{name}.yaml", "--model", str(model)]
            words += ["--training", "training.yaml", "--steps", str(given.steps)]
            words += ["--seed", str(given.seed), *python]
            rows.keep(name, trained(name, words, Path(f"adapter-{name}").absolute()))
    table(rows)


if __name__ == "__main__":
    main()
