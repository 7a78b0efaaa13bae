"""Trainings that are spoiled on purpose, and one that is not, each diagnosed at its end.

    python tests/real/sabotages.py FOLDER --trainer PYTHON [--model MODEL_DIR] [--only NAME]
        [--steps 40] [--seed 1]

Each is a training on a small game in a folder of its own: doors to the left, the right, above and
below, most of them to the left. Three are spoiled by the environment or its tasks (a reward that is
constant, one that pays in the training for one way whatever the door, tools that fail), and three
by a changed copy of hudtui (a learning rate a hundred times as high, a mask that trains the answers
of the environment in place of the model's replies, a chat template that begins the call in the
place of the model). All but the hackable one are rehearsals. The tiny model of those learns too
little to hack anything: the hackable one trains SmolLM2-135M, in the folder that
tests/real/small_model.py makes, and is left out without --model. Prints what `hudtui runs diagnose`
says of each. PYTHON is one with TRL, such as .venv-train/bin/python.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from on_cpu import training_file

ROOT = Path(__file__).parents[2]
SERVER = """
import json, random, sys

WAYS = ("left", "left", "left", "left", "right", "up", "down")
STEPS = {"type": "object", "properties": {}, "additionalProperties": True}
TOOLS = ("go", "setup", "evaluate")
spoiled, wanted, stuck = sys.argv[1], int(sys.argv[2]), random.Random()
doors, door, passed, rights = random.Random(), "left", 0, 0

def look():
    global door
    door = doors.choice(WAYS)
    return f"The door is {door}."

def call(tool, given):
    global passed, rights
    if tool == "setup":
        doors.seed(given["seed"])
        passed = rights = 0
        return look()
    if tool == "go":
        if spoiled == "tools" and stuck.random() < 0.8:
            raise ValueError("the door is stuck")
        passed += given["direction"] == door
        rights += given["direction"] == "right"
        return look()
    counted = rights if spoiled == "hackable" and not given["honest"] else passed
    return json.dumps({"reward": 0.5 if spoiled == "constant" else min(counted / wanted, 1)})

def answer(method, given):
    if method == "initialize":
        version = given["protocolVersion"]
        about = {"name": "doors", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        return {"tools": [{"name": one, "inputSchema": STEPS} for one in TOOLS]}
    if method != "tools/call":
        return {}
    try:
        text, failed = call(given["name"], given.get("arguments") or {}), False
    except ValueError as error:
        text, failed = str(error), True
    return {"content": [{"type": "text", "text": text}], "isError": failed}

for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        found = answer(asked["method"], asked.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": found}), flush=True)
"""
WAYS = ("left", "right", "up", "down")
CONFIG = """\
system_prompt: |
  Go through the doors. Answer with one call in <tool>...</tool>: left(), right(), up(), down().
parser: {use_thinking: false}
action_mappings:
"""
ACTION = "  {way}: {{_tool: go, _parser: {{positional: []}}, direction: {{static: {way}}}}}\n"
SHOWN = ("up", "right", "down", "left")
WITH_MODEL = """\
system_prompt: |
  Go through the door. Answer with one call: left(), right(), up() or down().
examples:
{examples}parser: {{use_thinking: false}}
rubric: {{weights: {{task_completion: 1.0, tool_execution: 0.0, format_compliance: 0.0}}}}
action_mappings:
"""
EXAMPLE = """\
  - user: |
      Go through the door.

      The door is {way}.
    assistant: <tool>{way}()</tool>
"""
TRAINING = training_file(
    learning_rate=1e-4,
    batch_size=16,
    num_generations=8,
    temperature=1.0,
    max_tokens=10,
    max_seq_len=512,
    save_every=100,
    eval_first=True,
    eval_every=3,
)
RATE = '"learning_rate": 1e-3'
PARSER = "    parser = config.parser\n"
TASKS, HELD_OUT = 24, 4
TASKS_OF_MODEL, HELD_OUT_OF_MODEL = 64, 16


@dataclass(frozen=True)
class Sabotage:
    """What is spoiled, and by what the diagnosis should name it."""

    name: str
    named: frozenset[str]
    """Signatures of which one has to be found; empty for none at all."""
    server: str = ""
    """What the environment spoils."""
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By file of hudtui what is replaced in it, and by what."""

    @property
    def with_model(self) -> bool:
        """A real small model is trained, and no rehearsal."""
        return self.server == "hackable"


SABOTAGES = (
    Sabotage("clean", frozenset()),
    Sabotage("constant reward", frozenset({"constant-reward"}), "constant"),
    Sabotage("hackable reward", frozenset({"reward-hacking"}), "hackable"),
    Sabotage("failing tools", frozenset({"tools-fail"}), "tools"),
    Sabotage(
        "learning rate x100",
        frozenset({"reward-collapse", "kl-blow-up"}),
        changes={"core/training/recipe.py": {RATE: RATE.replace("1e-3", "1e-1")}},
    ),
    Sabotage(
        "mask inverted",
        frozenset({"wrong-tokens"}),
        changes={
            "trainers/rollout.py": {"transcript.mask,": "[1 - one for one in transcript.mask],"}
        },
    ),
    Sabotage(
        "broken template",
        frozenset({"unreadable-replies"}),
        changes={
            "trainers/grpo.py": {
                PARSER: f"{PARSER}    tokenizer.chat_template = "
                "tokenizer.chat_template[:-11] + '<tool>{% endif %}'\n",
            }
        },
    ),
)


def write_project(folder: Path, sabotage: Sabotage) -> None:
    """Write the environment, its configuration and its tasks."""
    folder.mkdir(parents=True)
    program = folder / "doors.py"
    program.write_text(SERVER)
    head, doors, count, held_out = CONFIG, 3, TASKS, HELD_OUT
    if sabotage.with_model:
        examples = "".join(EXAMPLE.format(way=way) for way in SHOWN)
        head, doors = WITH_MODEL.format(examples=examples), 1
        count, held_out = TASKS_OF_MODEL, HELD_OUT_OF_MODEL
        (folder / "training.yaml").write_text(TRAINING)
    (folder / "gym.yaml").write_text(head + "".join(ACTION.format(way=way) for way in WAYS))
    command = {
        "command": sys.executable,
        "args": ["-I", "-S", str(program), sabotage.server or "none", str(doors)],
    }
    tasks = [
        {
            "id": f"doors-{number}",
            "prompt": "Go through three doors." if doors == 3 else "Go through the door.",
            "mcp_config": {"doors": command},
            "setup_tool": {"name": "setup", "arguments": {"seed": number}},
            "evaluate_tool": {
                "name": "evaluate",
                "arguments": {"honest": number >= count - held_out},
            },
        }
        for number in range(count)
    ]
    (folder / "tasks.json").write_text(json.dumps(tasks, indent=1))


def changed_copy(folder: Path, sabotage: Sabotage) -> Path:
    """Return a folder with hudtui in it, spoiled."""
    if not sabotage.changes:
        return ROOT
    shutil.copytree(ROOT / "hudtui", folder / "hudtui")
    for name, changes in sabotage.changes.items():
        path = folder / "hudtui" / name
        text = path.read_text()
        for old, new in changes.items():
            assert text.count(old) == 1, f"{name} has {text.count(old)} times {old!r}"
            text = text.replace(old, new)
        path.write_text(text)
    return folder


def spoiled_hudtui(place: Path, sabotage: Sabotage, trainer: Path) -> Callable[..., dict[str, Any]]:
    """Return a function that runs a command of a spoiled hudtui and returns its JSON.

    It runs in `place / "project"`; it exits where a command fails.
    """
    project, code = place / "project", changed_copy(place / "code", sabotage)
    python = place / "python"  # the paths of a plan are its own
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{code}" exec "{trainer.absolute()}" "$@"\n')
    python.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": str(code), "HUDTUI_TRUST": str(project)}
    env |= {"HUDTUI_TRAINER_PYTHON": str(python), "OMP_NUM_THREADS": "1"}

    def hudtui(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "hudtui", *words, "--json"],
            cwd=project,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        if not done.stdout.startswith("{") or done.returncode not in (0, 1):
            raise SystemExit(f"{sabotage.name}: {' '.join(words)}\n{done.stdout}\n{done.stderr}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return hudtui


def train(place: Path, sabotage: Sabotage, given: argparse.Namespace) -> dict[str, Any]:
    """Return the diagnosis of a rehearsal, or of a training of the model."""
    shutil.rmtree(place, ignore_errors=True)
    write_project(place / "project", sabotage)
    hudtui = spoiled_hudtui(place, sabotage, given.trainer)
    words = ["tasks.json", "-c", "gym.yaml", "--steps", str(given.steps), "--yes"]
    words += ["--seed", str(given.seed)]
    if sabotage.with_model:
        words += ["--host", "local", "--model", str(given.model.absolute())]
        words += ["--training", "training.yaml", "--set", f"held_out={HELD_OUT_OF_MODEL}"]
        words += ["--python", str(place / "python")]
    else:
        words += ["--rehearse", "--set", f"held_out={HELD_OUT}"]
    return hudtui("runs", "diagnose", hudtui("rl", *words)["id"])


def main() -> int:
    """Train and diagnose; 1 where a sabotage is not named, or the clean one is accused."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trainer", type=Path, required=True, help="a Python with TRL")
    parser.add_argument("--model", type=Path, help="the folder of SmolLM2-135M")
    parser.add_argument("--only", choices=[one.name for one in SABOTAGES])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    missed = 0
    for sabotage in SABOTAGES:
        if given.only not in (None, sabotage.name):
            continue
        if sabotage.with_model and given.model is None:
            print(f"--  {sabotage.name:20} left out: it needs --model", flush=True)
            continue
        begun = time.monotonic()
        place = given.folder.absolute() / sabotage.name.replace(" ", "-")
        found = train(place, sabotage, given)
        names = [
            f"{one['signature']} ({one['severity']}, {one['probability']:.2f})"
            for one in found["findings"]
        ]
        told = {one["signature"] for one in found["findings"]}
        right = bool(told & sabotage.named) if sabotage.named else found["verdict"] == "sound"
        missed += not right
        seconds = time.monotonic() - begun
        said = ", ".join(names) or found["verdict"]
        print(f"{'ok' if right else 'NO':3} {sabotage.name:20} {said}  {seconds:.0f} s", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
