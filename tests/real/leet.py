"""The same W&B run in `wandb beta leet` and in `hudtui watch`: time and processor time to the first
chart, and memory.

Run by hand: it installs wandb into an environment of its own (some 200 MB).

    .venv/bin/python tests/real/leet.py [--venv FOLDER] [--steps 20000] [--rounds 5]

Each program gets a pseudo-terminal of 160 columns and 45 lines. A chart is there once thirty
characters of braille were written. Both are measured in turn, since other work on the machine
changes seconds; processor time says more. Memory is measured when a program is at rest, which is
when it has read the whole run. A first start of each, which compiles, is not counted.
--venv keeps the environment for the next time.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass
from pathlib import Path

WRITER = """
import math, os, random, sys
os.environ |= {"WANDB_MODE": "offline", "WANDB_DIR": sys.argv[1], "WANDB_SILENT": "true"}
import wandb
run = wandb.init(project="p", name="long", config={"lr": 1e-5, "model": {"name": "tiny"}})
for step in range(int(sys.argv[2])):
    noise = random.random()
    run.log({"reward": math.sin(step / 3000) / 2 + noise / 10, "loss": 1 / (step + 1) + noise / 20,
        "kl": step * 1e-6, "grad_norm": noise * 3, "completions/mean_length": 100 + step / 200},
        step=step)
run.finish()
"""
CHART = 30
"""Characters of braille that are a chart."""
ANSWERS = {b"\x1b[c": b"\x1b[?62;22c", b"\x1b[6n": b"\x1b[1;1R"}
"""What a terminal answers to questions."""
REST = 0.05
"""Share of a core that a program takes at most when it is at rest."""


@dataclass(frozen=True)
class Figures:
    """What one start has cost."""

    first: float
    """Seconds until the first chart."""
    busy: float
    """Seconds of processor time until then, of all its processes."""
    whole: float
    """Seconds of processor time until it was at rest."""
    memory: float
    """MB then, shared pages divided among those that share them."""


def main() -> int:
    """Measure, and print the table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--venv", type=Path)
    options.add_argument("--steps", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=60.0)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        bin_ = install(given.venv or place / "venv") / "bin"
        subprocess.run([bin_ / "python", "-c", WRITER, place, str(given.steps)], check=True)
        (run,) = place.glob("wandb/offline-run-*")
        os.environ.update(HOME=folder, TERM="xterm-256color", COLORTERM="truecolor")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled
        os.chdir(place)
        programs = {
            "wandb beta leet": [str(bin_ / "wandb"), "beta", "leet", str(run)],
            "hudtui watch": [sys.executable, "-m", "hudtui", "watch", str(run)],
        }
        for command in programs.values():
            measure(command, given.seconds)  # fills the caches of both
        figures: dict[str, list[Figures]] = {name: [] for name in programs}
        for _ in range(given.rounds):
            for name, command in programs.items():
                figures[name].append(measure(command, given.seconds))
    print(f"{'':<18}{'first chart, s':>16}{'of processor':>14}{'all read':>10}{'MB':>6}")
    for name, several in figures.items():
        first, busy, whole, memory = (
            statistics.median(getattr(one, field) for one in several)
            for field in ("first", "busy", "whole", "memory")
        )
        print(f"{name:<18}{first:>16.2f}{busy:>14.2f}{whole:>10.2f}{memory:>6.0f}")
    return 0


def install(venv: Path) -> Path:
    """An environment with wandb."""
    if not (venv / "bin" / "wandb").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "--quiet", "wandb"], check=True)
    return venv


def measure(command: list[str], seconds: float) -> Figures:
    """Start a program in a terminal, and end it when it has drawn a chart and is at rest."""
    begun = time.monotonic()
    process, terminal = pty.fork()
    if process == 0:
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 160, 0, 0))
    output, first, busy = b"", 0.0, 0.0
    looked, used = begun, 0.0
    while time.monotonic() < begun + seconds:
        if first and (passed := time.monotonic() - looked) > 1:
            before, used, looked = used, processor_time(process), time.monotonic()
            if used - before < REST * passed:
                break
        if not select.select([terminal], [], [], 0.02)[0]:
            continue
        data = os.read(terminal, 65536)
        output += data
        for question, answer in ANSWERS.items():
            if question in data:
                os.write(terminal, answer)
        drawn = re.findall("[\u2801-\u28ff]", output.decode("utf-8", "ignore"))
        if not first and len(drawn) >= CHART:
            first, busy = time.monotonic() - begun, processor_time(process)
    whole, memory = processor_time(process), sum(map(megabytes, family(process)))
    for one in reversed(family(process)):
        os.kill(one, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(terminal)
    assert first, f"no chart within {seconds:g} seconds: {command}"
    return Figures(first, busy, whole, memory)


def fields(process: int) -> list[str]:
    """The state of a process behind its name."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def family(process: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                children.setdefault(int(fields(int(path.name))[1]), []).append(int(path.name))
            except OSError:
                continue  # it has ended
    found = [process]
    for one in found:
        found += children.get(one, [])
    return found


def processor_time(process: int) -> float:
    """Seconds that a process and all below it have computed, by their own clocks.

    Their numbers are those that `clock_getcpuclockid(3)` gives on Linux.
    """
    return sum(time.clock_gettime(~one << 3 | 2) for one in family(process))


def megabytes(process: int) -> float:
    """The memory of a process."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


if __name__ == "__main__":
    raise SystemExit(main())
