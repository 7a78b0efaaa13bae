"""How fast tasks become a dataset, and in how much memory, against what a script with `datasets`
would do.

    python tests/bench/tasks.py                 100 000 and 1 000 000 tasks, as in the requirements
    python tests/bench/tasks.py 100000          other numbers
    python tests/bench/tasks.py --lines 10000000   only the JSON lines, for the bound on memory

Every measurement is a process of its own. `work` is the time from the first byte read to the last
byte written, `start` what the imports took before it, `cpu` the processor seconds of the work (all
threads), `peak` the largest resident memory of the process. Each is measured six times, in turn
(twice with more than 200 000 tasks), and the best time counts. The peer validates nothing. The
ratios are peer / ours.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

WORDS = [
    "reach",
    "combine",
    "the",
    "tiles",
    "until",
    "board",
    "shows",
    "value",
    "without",
    "losing",
    "more",
    "than",
    "moves",
]
CONFIG = {
    "hud": {
        "url": "https://mcp.hud.ai/v3/mcp",
        "headers": {
            "Authorization": "Bearer ${HUD_API_KEY}",
            "Mcp-Image": "hudpython/hud-text-2048:latest",
        },
    }
}

OURS = """
import json, resource, sys, time
begun = time.perf_counter()
from pathlib import Path
from hudtui.core.tasks.convert import ConversionResult, convert
from hudtui.core.tasks.read import find_source
from hudtui.core.tasks.validate import Rules
from hudtui.core.tasks.write import Target
ready, before = time.perf_counter(), time.process_time()
for step in convert(find_source(sys.argv[1]), Rules(), [Target(Path(sys.argv[2]), "parquet")]):
    pass
assert isinstance(step, ConversionResult) and step.valid == step.total == int(sys.argv[3]), step
"""

PEER = """
import json, resource, sys, time
begun = time.perf_counter()
import datasets
datasets.disable_progress_bars()
ready, before = time.perf_counter(), time.process_time()
with open(sys.argv[1]) as file:
    rows = json.load(file)
datasets.Dataset.from_list(rows).to_parquet(sys.argv[2])
"""

FIRST = """
import json, resource, sys, time
begun = time.perf_counter()
import hudtui.core.tasks.validate
from hudtui.core.tasks.read import find_source, scan
from hudtui.core.tasks.validate import Rules
ready, before = time.perf_counter(), time.process_time()
batch = next(iter(scan(find_source(sys.argv[1]), Rules())))
assert batch.tasks
"""

END = """
done, used = time.perf_counter(), time.process_time()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
told = {"start": ready - begun, "work": done - ready, "cpu": used - before, "peak": peak}
print(json.dumps(told))
"""


def tasks(count: int) -> Iterator[dict[str, object]]:
    """Tasks that differ in prompt, setup, goal and metadata, and share their server, as real files
    do."""
    source = random.Random(7)
    for number in range(count):
        goal = 2 ** source.randint(5, 12)
        board = {"board_size": source.choice([3, 4, 5]), "seed": number}
        yield {
            "id": f"task-{number:07d}",
            "prompt": (
                f"Play 2048 on board {number}. {' '.join(source.choices(WORDS, k=12))} and reach "
                f"{goal}."
            ),
            "mcp_config": CONFIG,
            "setup_tool": {"name": "setup", "arguments": {"name": "board", "arguments": board}},
            "evaluate_tool": {
                "name": "evaluate",
                "arguments": {"name": "max_number", "arguments": {"target": goal}},
            },
            "metadata": {
                "difficulty": source.choice(["easy", "medium", "hard"]),
                "category": source.choice(["game", "reach", "score"]),
                "seed": number,
            },
        }


def write(path: Path, count: int) -> None:
    """A file of so many tasks: one array, or a task a line."""
    lines = path.suffix == ".jsonl"
    with path.open("w") as out:
        out.write("" if lines else "[")
        for number, task in enumerate(tasks(count)):
            out.write(
                ("" if lines or not number else ", ") + json.dumps(task) + ("\n" if lines else "")
            )
        out.write("" if lines else "]")


def measure(code: str, *arguments: object) -> dict[str, float]:
    """Run a piece of work in a process of its own."""
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(Path(str(arguments[0])).parent / "hf"),
    }
    done = subprocess.run(
        [sys.executable, "-c", code + END, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def show(what: str, found: dict[str, float], peer: dict[str, float] | None = None) -> None:
    """A line of the table."""
    line = (
        f"{what:<44} {found['work']:>8.2f} s {found['start']:>7.2f} s {found['cpu']:>8.2f} s "
        f"{found['peak']:>8.0f} MB"
    )
    if peer is not None:
        line += (
            f"   {peer['work'] / found['work']:>5.1f}x {peer['cpu'] / found['cpu']:>6.1f}x "
            f"{peer['peak'] / found['peak']:>6.1f}x"
        )
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("counts", nargs="*", type=int)
    parser.add_argument("--lines", type=int, help="only JSON lines, so many")
    chosen = parser.parse_args()
    print(
        f"{'':<44} {'work':>10} {'start':>9} {'cpu':>10} {'peak':>11}   {'work':>6} {'cpu':>7} "
        f"{'memory':>7}"
    )
    with tempfile.TemporaryDirectory(prefix="hudtui-bench-") as name:
        folder = Path(name)
        out = folder / "out.parquet"
        if chosen.lines:
            path = folder / "tasks.jsonl"
            write(path, chosen.lines)
            show(f"JSON lines -> Parquet, {chosen.lines:,}", measure(OURS, path, out, chosen.lines))
            return
        for count in chosen.counts or [100_000, 1_000_000]:
            path, lines, again = (
                folder / "tasks.json",
                folder / "tasks.jsonl",
                folder / "again.parquet",
            )
            write(path, count)
            write(lines, count)
            print(f"{count:,} tasks, {path.stat().st_size >> 20} MB")
            work = {
                "  json.load + Dataset.from_list + to_parquet": (
                    PEER,
                    path,
                    folder / "peer.parquet",
                ),
                "  JSON -> Parquet, validated": (OURS, path, out, count),
                "  JSON lines -> Parquet, validated": (OURS, lines, out, count),
                "  Parquet -> Parquet, validated": (OURS, out, again, count),
                "  first checked rows of the JSON": (FIRST, path),
            }
            rounds = [
                {what: measure(*arguments) for what, arguments in work.items()}
                for _ in range(6 if count <= 200_000 else 2)
            ]
            best = {
                what: {
                    name: min(one[what][name] for one in rounds)
                    for name in ("work", "start", "cpu")
                }
                | {"peak": max(one[what]["peak"] for one in rounds)}
                for what in work
            }
            peer = next(iter(best.values()))
            for number, (what, found) in enumerate(best.items()):
                show(what, found, peer if 0 < number < 4 else None)


main()
