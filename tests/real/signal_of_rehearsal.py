"""The signal of an audit beside the groups of a rehearsal that learns nothing.

    python tests/real/signal_of_rehearsal.py FOLDER --trainer PYTHON [--steps 100] [--seed 1]

On six tasks of the bundled environment, of which some are earned by chance: `env audit` says the
share of groups of eight whose rewards would differ, of random calls. A rehearsal in a changed copy
of hudtui, whose learning rate is next to nothing, plays two groups of eight a step with the tiny
model. Prints both, and the share among groups in which no call failed: random calls are legal, and
some of the tiny model's cannot be read. PYTHON is one with TRL, such as .venv-train/bin/python.
"""

from __future__ import annotations

import argparse
import collections
import json
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sabotages import RATE, Sabotage, spoiled_hudtui

from hudtui.core.rollouts.trace import read_trace
from hudtui.core.rollouts.values import Episode

GROUPS = '"num_generations": 4,\n    "max_tokens": 48'
TARGETS = (4, 8, 8, 16, 16, 32)
CONFIG = """\
system_prompt: |
  Play 2048. Answer with one call in <tool>...</tool>: left(), right(), up(), down().
parser: {use_thinking: false}
action_mappings:
"""
ACTION = "  {way}: {{_tool: move, _parser: {{positional: []}}, direction: {{static: {way}}}}}\n"
STILL = Sabotage(
    "still",
    frozenset(),
    changes={
        "core/training/recipe.py": {
            RATE: RATE.replace("1e-3", "1e-12"),
            '"batch_size": 4,\n    "gradient': '"batch_size": 16,\n    "gradient',
            GROUPS: GROUPS.replace("4,", "8,"),
        }
    },
)


def write_project(folder: Path) -> None:
    """Write the configuration and the tasks."""
    folder.mkdir(parents=True)
    actions = "".join(ACTION.format(way=way) for way in ("left", "right", "up", "down"))
    (folder / "gym.yaml").write_text(f"{CONFIG}{actions}defaults: {{max_turns: 3}}\n")
    command = {"command": sys.executable, "args": ["-m", "hudtui.envs.text_2048"]}
    tasks = [
        {
            "id": f"reach-{number}",
            "prompt": f"Reach {target}.",
            "mcp_config": {"text-2048": command},
            "setup_tool": {
                "name": "setup",
                "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": number}},
            },
            "evaluate_tool": {
                "name": "evaluate",
                "arguments": {"name": "max_number", "arguments": {"target": target}},
            },
        }
        for number, target in enumerate(TARGETS)
    ]
    (folder / "tasks.json").write_text(json.dumps(tasks, indent=1))


def main() -> int:
    """Audit and rehearse; 1 where legal calls are more than 5 points apart."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trainer", type=Path, required=True, help="a Python with TRL")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    place = given.folder.absolute()
    shutil.rmtree(place, ignore_errors=True)
    project = place / "project"
    write_project(project)
    hudtui = spoiled_hudtui(place, STILL, given.trainer)
    audit = hudtui("env", "audit", "gym.yaml", "tasks.json", "--limit", "6")
    signal = audit["signal"]
    print(
        f"audit: {signal['value']:.3f} ({signal['low']:.3f} to {signal['high']:.3f}), "
        f"{audit['episodes']} episodes; by task "
        + ", ".join(f"{name} {share:.2f}" for name, share in audit["signal_by_task"].items()),
        flush=True,
    )
    words = ("--steps", str(given.steps), "--seed", str(given.seed), "--set", "held_out=0")
    run = hudtui("rl", "tasks.json", "-c", "gym.yaml", "--rehearse", *words, "--yes")
    groups: dict[tuple[Any, str], list[Episode]] = collections.defaultdict(list)
    for one in read_trace(project / ".hudtui" / "runs" / run["id"] / "out" / "traces.jsonl"):
        groups[one.info["step"], one.task_id].append(one)
    legal = [
        group
        for group in groups.values()
        if not any(turn.is_error for one in group for turn in one.turns)
    ]
    share = differ(legal)
    print(f"rehearsal: {differ(list(groups.values())):.3f} of {len(groups)} groups differ")
    print(f"{share:.3f} of the {len(legal)} groups without a call that failed")
    return int(abs(share - signal["value"]) > 0.05)


def differ(groups: Sequence[list[Episode]]) -> float:
    """Return the share of groups whose episodes do not all have the same reward."""
    rewards = [[one.scores.reward for one in group] for group in groups]
    return statistics.fmean(max(group) - min(group) > 1e-9 for group in rewards)


if __name__ == "__main__":
    raise SystemExit(main())
