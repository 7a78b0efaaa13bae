"""Files that the real W&B, TensorBoard and trackio libraries write, read by `hudtui runs watch`:
the same numbers, to the bit.

Run by hand: it installs wandb, tensorboard, tensorboardX and trackio into environments of their own
(some 500 MB).

    .venv/bin/python tests/real/trackers.py [--venvs FOLDER] [--rows 300]
    .venv/bin/python tests/real/trackers.py --smoke

For each library: a run that is read when it has ended, one that is followed while it is written,
one whose trainer is killed with SIGKILL, and the file cut at eight places. Then folders as
trainings leave them: values every 1, 10 and 50 steps with an evaluation every 20; resumed at the
next step, at the same one and at lower ones; begun anew; copied; written by two processes. --venvs
keeps the environments for the next time; everything else is gone at the end. --smoke has a stand-in
of wandb, which writes its file without the library.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from hudtui.core.remote.local import LocalHost
from hudtui.core.runs.sessions import SessionWatcher, find_session

ROOT = Path(__file__).parents[2]
HUDTUI = (sys.executable, "-m", "hudtui", "runs", "watch", "local")
PACKAGES = (("wandb",), ("tensorboard", "tensorboardX"), ("trackio",))
VALUES = """
import json, math, os, sys, time
def values(step):
    reward, loss = math.sin(step) / 3, 1 / (step + 1)
    return {
        "train/reward": reward, "loss": loss, "kl": math.nan if step == 7 else step * 1e-7,
        "grad_norm": 10.0 ** (step % 30 - 10), "completions/mean_length": step,
        "only/now/and/then": 0.1 + step,
    } if step % 3 else {"train/reward": reward, "loss": -1.5e300 if step == 3 else loss}
folder, steps, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
def told(step):
    print(json.dumps([step, values(step)]), flush=True)
    time.sleep(pause)
"""
WRITERS = {
    "wandb": VALUES
    + """
os.environ |= {"WANDB_MODE": "offline", "WANDB_DIR": folder, "WANDB_SILENT": "true"}
import wandb
run = wandb.init(project="p", name="r", config={"lr": 1})
for step in range(steps):
    picture = wandb.Histogram(np_histogram=([1, 2], [0, 1, 2]))
    run.log({**values(step), "text": "hi", "picture": picture}, step=step)
    told(step)
run.finish()
""",
    "tensorboardX": VALUES
    + """
from tensorboardX import SummaryWriter
writer = SummaryWriter(folder, flush_secs=1)
writer.add_text("about", "hello")
for step in range(steps):
    for name, value in values(step).items():
        writer.add_scalar(name, value, step)
    writer.add_histogram("weights", [1.0, 2.0, 3.0], step)
    told(step)
writer.close()
""",
    "tensorboard": VALUES
    + """
from tensorboard.summary import Writer
writer = Writer(folder)
for step in range(steps):
    for name, value in values(step).items():
        if abs(value) < 1e38 or value != value:  # this writer refuses what is no 32-bit number
            writer.add_scalar(name, value, step)
    writer.flush()
    told(step)
writer.close()
""",
    "trackio": VALUES
    + """
os.environ["TRACKIO_DIR"] = folder
sys.stdout, out = sys.stderr, sys.stdout
import trackio
trackio.init(project="p", name="before")
trackio.log({"loss": 99.0})
trackio.finish()
trackio.init(project="p", name="r", config={"lr": 1})
sys.stdout = out
for step in range(steps):
    trackio.log({**values(step), "text": "hi"}, step=step)
    told(step)
sys.stdout = sys.stderr
trackio.finish()
""",
}
STAND_IN = (
    VALUES
    + """
from support.tracker_files import WANDB_RUN, history, wandb_file
kept = [WANDB_RUN]
for step in range(steps):
    kept.append(history({**values(step), "text": "hi", "_step": step}))
    told(step)
os.makedirs(os.path.join(folder, "wandb"))
with open(os.path.join(folder, "wandb", "run-r.wandb"), "wb") as file:
    file.write(wandb_file(kept))
"""
)
"""What --smoke has instead of wandb."""
ACCUMULATOR = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray
found = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "tensors": 0}).Reload()
rows = [[tag, one.step, one.value] for tag in found.Tags()["scalars"] for one in found.Scalars(tag)]
tensors = [(tag, one) for tag in found.Tags()["tensors"] for one in found.Tensors(tag)]
arrays = ((tag, one.step, make_ndarray(one.tensor_proto)) for tag, one in tensors)
rows += [
    [tag, step, array.item()]
    for tag, step, array in arrays
    if array.size == 1 and array.dtype.kind == "f"
]
json.dump(rows, sys.stdout)
"""
LOGGED = """
import json, os, sys
folder, run, begin, end, every, named, more = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
told = sys.stdout
def rows():
    for step in range(begin, end + 1):
        if step % every == 0:
            yield step, {"train/loss": more + 1 / step, "train/reward": more + step / 7}
        if step % 20 == 0:
            yield step, {"eval/loss": more + 2 / step}
def tell(step, row):
    print(json.dumps([step, row]), file=told, flush=True)
"""
PARTS = {
    "wandb": LOGGED
    + """
os.environ |= {"WANDB_MODE": "offline", "WANDB_DIR": folder, "WANDB_SILENT": "true"}
import wandb
run = wandb.init(project="p", id=run, resume="allow")
for step, row in rows():
    run.log({**row, "train/global_step": step}, **({"step": step} if named else {}))
    tell(step, row)
run.finish()
""",
    "tensorboardX": LOGGED
    + """
from tensorboardX import SummaryWriter
writer = SummaryWriter(f"{folder}/{run}", **({"purge_step": begin} if named else {}))
for step, row in rows():
    for name, value in row.items():
        writer.add_scalar(name, value, step)
    tell(step, row)
writer.close()
""",
    "trackio": LOGGED
    + """
os.environ["TRACKIO_DIR"] = folder
sys.stdout = sys.stderr
import trackio
trackio.init(project="p", name=run, resume="allow")
for step, row in rows():
    trackio.log(row, step=step)
    tell(step, row)
trackio.finish()
""",
}
"""A part of a training, from a step to another one: what libraries write for it. W&B may count its
rows instead of the steps."""
FILES = {
    "wandb": "run-*.wandb",
    "tensorboardX": "events.*",
    "tensorboard": "events.*",
    "trackio": "p.db",
}
CUTS = 8
ALL = 1_000_000
Rows = dict[tuple[int, str], float | None]
"""Values by step and name; None for what is not finite."""


def main() -> int:
    """Every library, then the verdict; returns the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--venvs", type=Path, help="keep the environments of the libraries there")
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--smoke", action="store_true", help="a stand-in of wandb; in seconds")
    parser.add_argument("--out", type=Path, help="with --smoke: its folder")
    given = parser.parse_args()
    if given.smoke:
        given.out.mkdir()
        os.environ |= {"HUDTUI_TRUST": str(given.out), "PYTHONPATH": str(ROOT / "tests")}
        trial = Trial("wandb", Path(sys.executable), given.out / "wandb", 40, STAND_IN)
        steps = {"ended": trial.ended, f"cut at {CUTS} places": trial.cut}
        return int(table("stand-in of wandb", steps))
    failed = False
    with tempfile.TemporaryDirectory(prefix="hudtui-trackers-") as name:
        place = Path(name)
        os.environ["HUDTUI_TRUST"] = name
        venvs = given.venvs or place / "venvs"
        versions = {
            library: version
            for packages in PACKAGES
            for library, version in install(venvs, packages).items()
        }
        print(f"{'library':<20} {'what':<24} {'values':>7} {'equal':>7} {'seconds':>8} {'MB':>5}")
        for library in WRITERS:
            python = (
                venvs / next(names[0] for names in PACKAGES if library in names) / "bin" / "python"
            )
            trial = Trial(library, python, place / library, given.rows)
            steps: dict[str, Callable[[], tuple[int, int]]] = {
                "ended": trial.ended,
                "followed": trial.followed,
                "killed": trial.killed,
                f"cut at {CUTS} places": trial.cut,
            }
            if library.startswith("tensorboard"):
                steps["EventAccumulator"] = trial.accumulated
            failed = table(f"{library} {versions[library]}", steps) or failed
            if library in PARTS:
                for what, values, equal in Folders(
                    library, python, place / f"{library}-folders"
                ).all():
                    print(f"{'':<20} {what:<24} {values:>7} {equal:>7}", flush=True)
                    failed = failed or not 0 < values == equal
    print("NOT as it should be" if failed else "all as it should be")
    return int(failed)


def table(title: str, steps: Mapping[str, Callable[[], tuple[int, int]]]) -> bool:
    """Do the steps, and print a row for each; returns whether one of them failed."""
    failed = False
    for what, step in steps.items():
        began = time.monotonic()
        values, equal = step()
        seconds = time.monotonic() - began
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        row = f"{what:<24} {values:>7} {equal:>7} {seconds:>8.1f} {memory:>5.0f}"
        print(f"{title:<20} {row}", flush=True)
        failed, title = failed or not 0 < values == equal, ""
    return failed


def install(venvs: Path, packages: tuple[str, ...]) -> dict[str, str]:
    """An environment with these packages; returns their versions."""
    python = venvs / packages[0] / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    code = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
    done = subprocess.run(
        [python, "-c", code, *packages], check=True, capture_output=True, text=True
    )
    return dict(zip(packages, done.stdout.split(), strict=True))


class Trial:
    """What is done with one library."""

    def __init__(
        self, library: str, python: Path, place: Path, rows: int, code: str | None = None
    ) -> None:
        self.library, self.python, self.place, self.rows = library, python, place, rows
        self.code = code or WRITERS[library]
        place.mkdir()

    def ended(self) -> tuple[int, int]:
        """A run that has ended; nothing is written beside its file."""
        folder = self.place / "ended"
        with self.writer(folder, 0) as writer:
            told, _ = writer.communicate()
        assert writer.returncode == 0
        before = sorted(path.name for path in folder.rglob("*"))
        found = self.read(self.file(folder))
        assert sorted(path.name for path in folder.rglob("*")) == before
        return compare(found, self.expected(told.splitlines()))

    def followed(self) -> tuple[int, int]:
        """A run that is followed while it is written, from before its file exists."""
        folder = self.place / "followed"
        with self.writer(folder, 0.01) as writer:
            assert writer.stdout is not None
            told = [writer.stdout.readline()]
            wait(lambda: any(folder.rglob(FILES[self.library])))
            output = self.place / "followed.jsonl"
            with output.open("wb") as sink:
                watch = subprocess.Popen(
                    [*HUDTUI, "--file", self.file(folder), "--json", "-n", str(ALL)],
                    stdout=sink,
                    stderr=subprocess.DEVNULL,
                )
                try:
                    told += writer.stdout.readlines()
                    wanted = self.expected(told)
                    wait(lambda: len(parse(output.read_text())) >= len(wanted))
                finally:
                    watch.send_signal(signal.SIGINT)
                    watch.wait()
        return compare(parse(output.read_text()), wanted)

    def killed(self) -> tuple[int, int]:
        """A trainer that is killed: what its file has is right, up to some step."""
        folder = self.place / "killed"
        with self.writer(folder, 0.02) as writer:
            assert writer.stdout is not None
            told = [writer.stdout.readline() for _ in range(self.rows * 2 // 3)]
            writer.kill()
            told += writer.stdout.readlines()
        found = self.read(self.file(folder))
        wanted = {key: value for key, value in self.expected(told).items() if key in found}
        return compare(found, wanted)

    def cut(self) -> tuple[int, int]:
        """A copy that ends early: what it has is a part of what the whole file has, or it is
        refused in words."""
        path = self.file(self.place / "ended")
        whole, data = self.read(path), path.read_bytes()
        values = equal = shorter = 0
        for part in range(CUTS):
            (self.place / "cut").mkdir(exist_ok=True)
            copy = self.place / "cut" / path.name
            copy.write_bytes(data[: len(data) * (part + 1) // CUTS - 5])
            done = subprocess.run(
                [*HUDTUI, "--file", copy, "--once", "--json", "-n", str(ALL)],
                capture_output=True,
                text=True,
                check=False,
            )
            refused = done.returncode != 0
            assert not refused or json.loads(done.stdout)["error"]["type"] == "InputError", done
            found = parse(done.stdout) if done.returncode == 0 else {}
            shorter += len(found) < len(whole)
            values, equal = (
                values + len(found),
                equal + sum(whole.get(key, "none") == value for key, value in found.items()),
            )
        assert shorter >= CUTS - 1  # a W&B file ends with other records than those of the history
        return (values, equal) if self.library != "trackio" or values else (1, 1)

    def accumulated(self) -> tuple[int, int]:
        """What TensorBoard's own reader finds in the file."""
        done = subprocess.run(
            [self.python, "-c", ACCUMULATOR, self.place / "ended"],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        wanted = {(step, tag): finite(value) for tag, step, value in json.loads(done.stdout)}
        return compare(self.read(self.file(self.place / "ended")), wanted)

    def writer(self, folder: Path, pause: float) -> subprocess.Popen[bytes]:
        """The library, which logs the rows and says each of them."""
        folder.mkdir()
        command = [self.python, "-c", self.code, folder, str(self.rows), str(pause)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def file(self, folder: Path) -> Path:
        """The file that it writes."""
        return next(folder.rglob(FILES[self.library]))

    def read(self, path: Path) -> Rows:
        """What hudtui finds in a file."""
        command = [*HUDTUI, "--file", path, "--once", "--json", "-n", str(ALL)]
        return parse(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def expected(self, told: list[bytes]) -> Rows:
        """What was logged, in the precision of the file."""
        rows = [json.loads(line) for line in told]
        found = {(step, name): value for step, values in rows for name, value in values.items()}
        if self.library == "tensorboard":
            found = {key: value for key, value in found.items() if not abs(value) >= 1e38}
        single = self.library.startswith("tensorboard")
        return {key: finite(rounded(value) if single else value) for key, value in found.items()}


class Folders:
    """Trainings of several parts, whose folder is read."""

    def __init__(self, library: str, python: Path, place: Path) -> None:
        self.library, self.python, self.place = library, python, place

    def all(self) -> Iterator[tuple[str, int, int]]:
        """Yield what was done, how many values there are, and how many are the same."""
        for every in (1, 10, 50):
            what = f"every {every}"
            yield self.read(what, joined(self.part(what, "r", 1, 130, every)))
        for what, parts in {
            "resumed at the next step": ((1, 60, 1, 1), (61, 130, 1, 1)),
            "resumed at the same step": ((1, 60, 1, 1), (60, 100, 1, 1)),
            "resumed at lower steps": ((1, 97, 10, 1), (81, 130, 10, 1)),
            "resumed, rows counted": ((1, 97, 10, 0), (81, 130, 10, 0), (100, 140, 1, 0)),
        }.items():
            told = [self.part(what, "r", *part, more) for more, part in enumerate(parts)]
            yield self.read(what, joined(*told))
        copied = joined(*told)
        self.copy(what, "resumed, copied")
        yield self.read("resumed, copied", copied)
        self.part("begun anew", "old", 1, 100, 1)
        new = joined(self.part("begun anew", "new", 1, 30, 1, 1, 1))
        yield self.read("begun anew", new)
        self.copy("begun anew", "begun anew, copied")
        yield self.read("begun anew, copied", new)
        runs = ("r", "r") if self.library == "tensorboardX" else ("rank0", "rank1")
        both = [self.started("two processes", run, 1, 60, 1) for run in runs]
        first, _ = [rows(one.communicate()[0]) for one in both]
        yield self.read("two processes", joined(first))

    def started(self, what: str, run: str, *part: int) -> subprocess.Popen[bytes]:
        """A training that goes on."""
        folder = self.place / what
        folder.mkdir(parents=True, exist_ok=True)
        given = (*part, *(1, 0)[len(part) - 3 :])
        command = [self.python, "-c", PARTS[self.library], folder, run, *map(str, given)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def part(self, what: str, run: str, *part: int) -> list[Told]:
        """A training that has ended. Parts are a second apart, since the names of their files tell
        only seconds."""
        time.sleep(1.1)
        with self.started(what, run, *part) as writer:
            out, _ = writer.communicate()
        assert writer.returncode == 0
        return rows(out)

    def copy(self, what: str, to: str) -> None:
        """A copy whose dates are the other way around."""
        shutil.copytree(self.place / what, self.place / to)
        for place, path in enumerate(
            sorted(path for path in (self.place / to).rglob("*") if path.is_file())
        ):
            if (
                self.library != "trackio"
            ):  # its newest run is the one that was written last, by the numbers of its rows
                os.utime(path, (1.7e9 - place * 1000,) * 2)

    def read(self, what: str, wanted: Rows) -> tuple[str, int, int]:
        """What hudtui finds in a folder, or in the database there."""
        folder = self.place / what
        path = next(folder.rglob(FILES["trackio"])) if self.library == "trackio" else folder
        if self.library == "tensorboardX":
            wanted = {key: rounded(value or 0) for key, value in wanted.items()}
        return (what, *compare(asyncio.run(series(str(path))), wanted))


Told = tuple[int, dict[str, float]]


def rows(out: bytes) -> list[Told]:
    """What a writer said: step and values."""
    return [(step, values) for step, values in map(json.loads, out.splitlines())]


def joined(*parts: list[Told]) -> Rows:
    """The values of a training of several parts: a lower step cuts what was above it."""
    found: Rows = {}
    for part in parts:
        found = {key: value for key, value in found.items() if key[0] < part[0][0]}
        found |= {(step, name): value for step, values in part for name, value in values.items()}
    return found


async def series(path: str) -> Rows:
    """The curves that hudtui shows of a file or folder."""
    watch = SessionWatcher(LocalHost(), await find_session(LocalHost(), file=path), lines=None)
    async for _ in watch.follow(once=True):
        pass
    numbers = watch.numbers
    return {
        (int(point.x), name): point.y for name in numbers.names for point in numbers.series(name)
    }


def compare(found: Rows, wanted: Rows) -> tuple[int, int]:
    """How many values there are in either, and how many are the same."""
    keys = found.keys() | wanted.keys()
    return len(keys), sum(
        key in found and key in wanted and found[key] == wanted[key] for key in keys
    )


def parse(output: str) -> Rows:
    """The numbers in hudtui's lines of JSON; a line that is not complete is left out."""
    found: Rows = {}
    for line in output.splitlines(keepends=True):
        if line.endswith("\n") and (row := json.loads(line).get("metrics")):
            step = int(row.get("_step", row.get("step", -1)))
            names = row.keys() - {"_step", "_timestamp", "step", "time", "timestamp"}
            found.update({(step, name): row[name] for name in names})
    return found


def finite(value: float) -> float | None:
    """JSON knows no NaN."""
    return value if math.isfinite(value) else None


def rounded(value: float) -> float:
    """As a number of 32 bits."""
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def wait(condition: Callable[[], bool]) -> None:
    """Until it holds, for two minutes."""
    limit = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < limit, "not within two minutes"
        time.sleep(0.1)


if __name__ == "__main__":
    raise SystemExit(main())
