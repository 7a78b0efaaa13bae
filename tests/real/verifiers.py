"""A hundred episodes by `hudtui eval` and by `vf-eval`, with a hudtui installed from this checkout:
the same rewards.

Run by hand: it fetches verifiers and what it needs (740 MB).

    .venv/bin/python tests/real/verifiers.py [EPISODES]
    .venv/bin/python tests/real/verifiers.py --smoke

Replies come from an endpoint on loopback and depend on nothing but the conversation. All is made
below a temporary folder, and removed at the end. `--smoke` plays two episodes, and a stand-in of
`vf-eval` plays them again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.games import game  # noqa: E402
from support.scripted_chat import scripted_chat  # noqa: E402

from hudtui.core.rollouts.values import plain_number  # noqa: E402

STAND_IN = """\
#!{python}
import json, os, subprocess, sys
given = dict(zip(sys.argv, sys.argv[1:]))
words = ["eval", given["--env.taskset.taskset"], "-c", given["--env.taskset.config-path"]]
words = [sys.executable, "-m", "hudtui", *words, "-m", given["-m"], "--json"]
done = subprocess.run(words, check=True, stdout=subprocess.PIPE)
folder = os.path.join(given["-o"], given["--run.name"])
os.makedirs(folder)
with open(os.path.join(folder, "traces.jsonl"), "w") as rows:
    for one in (one for task in json.loads(done.stdout)["tasks"] for one in task["episodes"]):
        rewards = {{"reward": {{"score": one["reward"], "weight": 1.0}}}}
        task = {{"data": {{"id": one["task"]}}}}
        rows.write(json.dumps({{"task": task, "traces": [{{"rewards": rewards}}]}}) + "\\n")
"""
"""What --smoke has instead of `vf-eval`: the same options, and records of the same shape."""


def main() -> int:
    """Install, play with each gym, compare; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("episodes", nargs="?", type=int, default=100)
    parser.add_argument("--smoke", action="store_true", help="two episodes, without verifiers")
    parser.add_argument("--out", type=Path, help="with --smoke: its folder")
    given = parser.parse_args()
    if given.smoke:
        python = given.out / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        python.with_name("vf-eval").write_text(STAND_IN.format(python=sys.executable))
        python.with_name("vf-eval").chmod(0o755)
        return compare(Path(sys.executable), python, given.out, 2, ("hud-vf-gym",))
    with tempfile.TemporaryDirectory(prefix="hudtui-verifiers-") as place:
        folder = Path(place)
        python = folder / "venv" / "bin" / "python"
        began = time.monotonic()
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", f"{ROOT}[verifiers]"], check=True
        )
        subprocess.run([python, "-m", "pip", "check"], check=True)
        print(f"installed in {time.monotonic() - began:.0f} s")
        gyms = ("hud-vf-gym", "buckeye-vf-gym")
        return compare(python, python, folder, given.episodes, gyms)


def compare(ours: Path, verifiers: Path, folder: Path, episodes: int, gyms: Sequence[str]) -> int:
    """Play the same episodes with two Pythons; returns 1 if a reward differs."""
    work = folder / "work"
    work.mkdir()
    (work / "tasks.json").write_text(json.dumps([game(seed) for seed in range(episodes)]))
    (work / "2048.yaml").write_bytes((ROOT / "configs" / "2048.yaml").read_bytes())
    with scripted_chat() as chat:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PRIME_", "OPENAI_"))
        }
        env = {
            **kept,
            "HOME": str(folder),
            "HUDTUI_TRUST": str(folder),
            "OPENAI_API_KEY": "a-key-of-a-test",
            "OPENAI_BASE_URL": chat.url,
        }
        here = own(ours, work, env)
        print(f"hudtui eval: {len(here)} episodes, {len(set(here.values()))} different rewards")
        equal = True
        for gym in gyms:
            there = theirs(verifiers, work, env, gym)
            other = {task: there.get(task) for task in here if there.get(task) != here[task]}
            print(f"vf-eval {gym}: {episodes - len(other)} of {episodes} rewards are the same")
            for task, reward in other.items():
                print(f"  {task}: {here[task]} here, {reward} there")
            equal = equal and not other and len(here) == episodes == len(there)
    return 0 if equal else 1


def own(python: Path, work: Path, env: dict[str, str]) -> dict[str, float]:
    """The rewards of `hudtui eval`, by task."""
    command = [
        python,
        "-m",
        "hudtui",
        "eval",
        "tasks.json",
        "-c",
        "2048.yaml",
        "-m",
        "stub",
        "--json",
    ]
    done = subprocess.run(
        command, cwd=work, env=env, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    return {
        one["task"]: one["reward"]
        for task in json.loads(done.stdout)["tasks"]
        for one in task["episodes"]
    }


def theirs(python: Path, work: Path, env: dict[str, str], gym: str) -> dict[str, float]:
    """The rewards of `vf-eval`, by task.

    verifiers adds the weighted parts itself. Hudtui's sums are told as plain numbers, so theirs are
    read as such, too: they may differ in the last bit of a sum.
    """
    words = [
        "--env.taskset.taskset",
        "tasks.json",
        "--env.taskset.config-path",
        "2048.yaml",
        "-m",
        "stub",
        "-c",
        "4",
        "--no-push",
    ]
    command = [
        python.with_name("vf-eval"),
        gym,
        *words,
        "--no-rich",
        "-o",
        "out",
        "--run.name",
        gym,
    ]
    subprocess.run(
        command, cwd=work, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    rows = [
        json.loads(line) for line in (work / "out" / gym / "traces.jsonl").read_text().splitlines()
    ]
    return {
        row["task"]["data"]["id"]: plain_number(
            sum(one["score"] * one["weight"] for one in row["traces"][0]["rewards"].values())
        )
        for row in rows
    }


if __name__ == "__main__":
    raise SystemExit(main())
