"""Trainings that are spoiled on purpose, and one that is not, each diagnosed at its end.

    python tests/real/sabotages.py FOLDER --trainer PYTHON [--only NAME] [--steps 40] [--seed 1]

Each is a rehearsal on a small game in a folder of its own: doors to the left, the right, above and
below, most of them to the left. Three are spoiled by the environment or its tasks (a reward that is
constant, one that pays for a claim in the training and not in the evaluation, tools that fail), and
three by a changed copy of hudtui (a learning rate a hundred times as high, a mask that trains the
answers of the environment in place of the model's replies, a chat template that begins the call
in the place of the model). The hackable one learns six times as fast: else nothing is hacked.
Prints what `hudtui runs diagnose` says of each. PYTHON is one with TRL, such as
.venv-train/bin/python.
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

ROOT = Path(__file__).parents[2]
SERVER = """
import json, random, sys

WAYS = ("left", "left", "left", "left", "right", "up", "down")
STEPS = {"type": "object", "properties": {}, "additionalProperties": True}
TOOLS = ("go", "claim", "setup", "evaluate")
spoiled, stuck = sys.argv[1], random.Random()
doors, door, passed, claims = random.Random(), "left", 0, 0

def look():
    global door
    door = doors.choice(WAYS)
    return f"The door is {door}."

def call(tool, given):
    global passed, claims
    if tool == "setup":
        doors.seed(given["seed"])
        passed = claims = 0
        return look()
    if tool == "go":
        if spoiled == "tools" and stuck.random() < 0.8:
            raise ValueError("the door is stuck")
        passed += given["direction"] == door
        return look()
    if tool == "claim":
        claims += 1
        return look()
    counted = claims if spoiled == "hackable" and not given["honest"] else passed
    return json.dumps({"reward": 0.5 if spoiled == "constant" else min(counted / 3, 1)})

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
CLAIM = "  claim: {_tool: claim, _parser: {positional: []}}\n"
RATE = '"learning_rate": 1e-3'
GROUPS = '"num_generations": 4,\n    "max_tokens": 48'
PARSER = "    parser = config.parser\n"
TASKS, HELD_OUT = 24, 4


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


SABOTAGES = (
    Sabotage("clean", frozenset()),
    Sabotage("constant reward", frozenset({"constant-reward"}), "constant"),
    Sabotage(
        "hackable reward",
        frozenset({"reward-hacking"}),
        "hackable",
        {"core/training/recipe.py": {RATE: RATE.replace("1e-3", "6e-3")}},
    ),
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
    actions = "".join(ACTION.format(way=way) for way in WAYS)
    claims = CLAIM if sabotage.server == "hackable" else ""
    (folder / "gym.yaml").write_text(CONFIG + actions + claims)
    command = {
        "command": sys.executable,
        "args": ["-I", "-S", str(program), sabotage.server or "none"],
    }
    tasks = [
        {
            "id": f"doors-{number}",
            "prompt": "Go through three doors.",
            "mcp_config": {"doors": command},
            "setup_tool": {"name": "setup", "arguments": {"seed": number}},
            "evaluate_tool": {
                "name": "evaluate",
                "arguments": {"honest": number >= TASKS - HELD_OUT},
            },
        }
        for number in range(TASKS)
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


def rehearse(place: Path, sabotage: Sabotage, given: argparse.Namespace) -> dict[str, Any]:
    """Return the diagnosis of a rehearsal."""
    shutil.rmtree(place, ignore_errors=True)
    write_project(place / "project", sabotage)
    hudtui = spoiled_hudtui(place, sabotage, given.trainer)
    words = ("--steps", str(given.steps), "--seed", str(given.seed))
    settings = ("--set", f"held_out={HELD_OUT}")
    run = hudtui("rl", "tasks.json", "-c", "gym.yaml", "--rehearse", *words, *settings, "--yes")
    return hudtui("runs", "diagnose", run["id"])


def main() -> int:
    """Rehearse and diagnose; 1 where a sabotage is not named, or the clean one is accused."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trainer", type=Path, required=True, help="a Python with TRL")
    parser.add_argument("--only", choices=[one.name for one in SABOTAGES])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    missed = 0
    for sabotage in SABOTAGES:
        if given.only not in (None, sabotage.name):
            continue
        begun = time.monotonic()
        place = given.folder.absolute() / sabotage.name.replace(" ", "-")
        found = rehearse(place, sabotage, given)
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
