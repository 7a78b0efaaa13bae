"""Find the run in a folder of a trainer or a tracker, on any machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from hudtui.core.errors import InputError, MachineError
from hudtui.core.remote.host import Host, file_words
from hudtui.core.text import clean_line, plural
from hudtui.core.training.metrics import MetricsReader
from hudtui.core.training.tracker_files import TRACKERS, EventsFile

_OWN = {
    "metrics.jsonl": "metrics",  # prime-rl, the Tinker cookbook
    "history.jsonl": "ART",
    "trainer_log.jsonl": "LLaMA-Factory",
    "logging.jsonl": "ms-swift",
}
"""Files in which a trainer itself keeps its metrics, the best first."""
_TRACKERS = {one.pattern: one.title for one in TRACKERS.values()}
_STATES = {"trainer_state.json": "transformers"}
_OTHERS = {
    "*.jsonl": "JSON lines",
    "*.log": "log",
    "*.out": "log",
    "log*.txt": "log",
    "*train*.txt": "log",
}
"""Files that may hold metrics: they are looked into."""
_PATTERNS = {**_OWN, **_TRACKERS, **_STATES, **_OTHERS}
_DEPTH = 5
_PATIENCE = 15.0
_NAMED = 6
"""Largest number of runs that a sentence names."""
_LOOK = 256 * 1024
"""Bytes of a file in which numbers are looked for."""
_LOOKS = 12
"""Largest number of runs of one kind that are looked into."""
_COPIED = 60.0
"""Seconds within which files that were copied together are dated."""
_LATEST = "latest-run"
"""The link to the newest run in W&B's folder."""
_HEAD = 4096
_WANDB_RUN = re.compile(r"(?:offline-)?run-\d{8}_\d{6}-(.+)")
_CHECKPOINT = re.compile(r"checkpoint-(\d{1,12})")
_STEP = re.compile(rb'"global_step"\s*:\s*(\d{1,12})')
_TIME = re.compile(r"tfevents\.(\d{1,12})")
_ROLLOUTS = re.compile(
    r"(?:^|[/_.-])(?:rollouts?|traces?|results|samples|completions|generations|dataset|train|test"
    r"|val)\.jsonl$"
)
"""JSON lines that hold episodes or tasks."""


@dataclass(frozen=True)
class TrackedRun:
    """A run in the files of a tracker or a trainer."""

    tracker: str
    folder: str
    """The folder of its files; for transformers, the folder of the checkpoints."""
    files: tuple[str, ...]
    """Paths of its files, the newest first. A checkpoint is newer than another one if it has more
    steps."""
    id: str = ""
    """The id of a run of W&B, whose parts before and after it was resumed lie in folders of their
    own."""


async def run_files(host: Host, run: TrackedRun) -> tuple[str, ...]:
    """Return the files of the run, as it is now, the newest first; empty if there are none.

    Raises:
        MachineError: The machine does not answer.
    """
    found = await _runs(host, run.folder, 2)
    return next(
        (
            one.files
            for one in found
            if (one.tracker, one.folder, one.id) == (run.tracker, run.folder, run.id)
        ),
        (),
    )


async def newest_run(host: Host, folder: str) -> tuple[TrackedRun, str]:
    """Return the newest run in a folder or up to four folders below it, and a sentence on it.

    The sentence names its file and the other runs.

    The metrics of a trainer come before the files of a tracker, these before checkpoints, and these
    before logs. Runs without numbers are left out if another one has some.

    Raises:
        InputError: There are no files of a trainer or tracker, or files of several trackers.
        MachineError: The machine does not answer.
    """
    runs = await _runs(host, folder, _DEPTH)
    shown = file_words(host, folder)
    there = {run.tracker: run for run in reversed(runs)}
    if not runs:
        raise InputError(
            f"{shown} is a folder without files of W&B, TensorBoard or transformers, and without "
            "metrics or logs of a trainer",
            fix="Give the path of a log, or of a run's folder.",
        )
    own = [tracker for tracker in dict.fromkeys(_OWN.values()) if tracker in there]
    trackers = [tracker for tracker in _TRACKERS.values() if tracker in there]
    if not own and len(trackers) > 1:
        names = ", ".join(
            f"{_below(there[tracker].files[0], folder)} ({tracker})" for tracker in trackers
        )
        raise InputError(
            f"{shown} contains files of several trackers: {names}", fix="Choose one of them."
        )
    left: list[TrackedRun] = []
    chosen: TrackedRun | None = None
    unseen = 0
    for tracker in dict.fromkeys(_PATTERNS.values()):
        these = [run for run in runs if run.tracker == tracker]
        for run in these[:_LOOKS]:
            if await _has_numbers(host, run):
                chosen = await _most_steps(
                    host, [run, *(one for one in these if one not in left and one is not run)]
                )
                break
            left.append(run)
        if chosen is not None:
            break
        unseen += len(these[_LOOKS:])
    told = [one for one in left if one.tracker not in _OTHERS.values()]
    if chosen is None:
        if not told:
            raise InputError(
                f"{shown} is a folder without files of W&B, TensorBoard or transformers, and no "
                "numbers were recognised in its logs"
                + ((f" ({unseen:,} older ones were not looked into)") if unseen else ""),
                fix="Give the path of a log, or of a run's folder.",
            )
        chosen, told = told[0], told[1:]
    same = [
        run
        for run in runs
        if run.tracker == chosen.tracker and run is not chosen and run not in left
    ]
    note = f"{chosen.tracker}: {_below(chosen.files[0], folder)}"
    if chosen.tracker == "transformers" and len(chosen.files) > 1:
        note += f", the one with the most steps of {plural(len(chosen.files), 'checkpoint')}"
    elif chosen.tracker == "W&B" and len(chosen.files) > 1:
        note += f", with {plural(len(chosen.files) - 1, 'file')} from before it was resumed"
    if same:
        note += f", the newest of {len(same) + 1} runs; the others are in {_names(same, folder)}"
    if told:
        note += f"; without numbers, and left out: {_names(told, folder)}"
    others = [
        run
        for tracker, run in there.items()
        if tracker != chosen.tracker and tracker not in _OTHERS.values()
    ]
    others = [run for run in others if run not in left]
    if others:
        note += "; there is also " + ", ".join(
            f"{run.tracker}: {_below(run.files[0], folder)}" for run in others
        )
    return chosen, note


async def _most_steps(host: Host, runs: list[TrackedRun]) -> TrackedRun:
    """Return the newest of runs, the newest first.

    Of runs that are dated alike, as copies are, the one with the most steps.
    """
    if runs[0].tracker not in {*_OWN.values(), *_STATES.values()}:
        return runs[0]
    dated = []
    for run in runs[:_LOOKS]:
        facts = await host.stat(run.files[0])
        dated.append((run, facts.modified if facts is not None else 0.0))
    alike = [run for run, at in dated if at >= dated[0][1] - _COPIED]
    if len(alike) == 1:
        return alike[0]
    steps = {run.files: await _reached(host, run) for run in alike}
    return max(alike, key=lambda run: steps[run.files])


async def _reached(host: Host, run: TrackedRun) -> float:
    """Return the newest step of a run of checkpoints or JSON lines, as its end says.

    -1 if it says none.
    """
    file = run.files[0]
    if run.tracker in _STATES.values():
        return await _steps(host, file)
    try:
        facts = await host.stat(file)
        start = max((facts.size if facts is not None else 0) - _LOOK, 0)
        data = await host.get(file, offset=start, limit=_LOOK)
    except MachineError:
        return -1
    reader = MetricsReader()
    reader.feed((data.partition(b"\n")[2] if start else data) + b"\n")
    return reader.newest[0] if reader.newest is not None else -1


async def _runs(host: Host, folder: str, depth: int) -> list[TrackedRun]:
    """Return the runs down to a depth, the newest first."""
    start = folder if folder.startswith("/") else f"./{folder}"
    if PurePosixPath(start).name == _LATEST:
        done = await host.run(["readlink", "-f", start], timeout=_PATIENCE)
        start = done.stdout.strip() if done.ok and done.stdout.strip() else start
    if (resumed := _WANDB_RUN.fullmatch(PurePosixPath(start).name)) is not None:
        # A run that was resumed has a folder for each part, side by side.
        parts = await _found(host, str(PurePosixPath(start).parent), 2)
        if any(run.id == resumed[1] and run.files for run in parts):
            return [run for run in parts if run.id == resumed[1]]
    return await _found(host, start, depth)


async def _found(host: Host, start: str, depth: int) -> list[TrackedRun]:
    names = [word for pattern in _PATTERNS for word in ("-o", "-name", pattern)][1:]
    passed = [
        "(",
        "-name",
        "rollouts",
        "-o",
        "-name",
        "node_modules",
        "-o",
        "-name",
        "site-packages",
        ")",
        "-prune",
        "-o",
    ]
    search = [
        "find",
        "-H",
        start,
        "-maxdepth",
        str(depth),
        *passed,
        "-type",
        "f",
        "(",
        *names,
        ")",
        "-exec",
        "ls",
        "-1dt",
        "{}",
        "+",
    ]
    found: dict[tuple[str, str, str], list[str]] = {}
    for line in (await host.run(search, timeout=_PATIENCE)).stdout.splitlines():
        path = PurePosixPath(line)
        tracker = next(
            (tracker for pattern, tracker in _PATTERNS.items() if path.match(pattern)), None
        )
        if (
            tracker is None
            or not line.startswith(start)
            or (tracker == "JSON lines" and _ROLLOUTS.search(line))
        ):
            continue
        below, run = path.parent, ""
        if tracker == "W&B" and below.name == _LATEST and PurePosixPath(start).name != _LATEST:
            continue  # a link that became a folder when the runs were copied
        if tracker == "transformers" and path.parent.name.startswith("checkpoint-"):
            below = path.parents[1]
        elif tracker == "W&B" and (match := _WANDB_RUN.fullmatch(path.parent.name)) is not None:
            below, run = path.parents[1], match[1]
        elif tracker in _OTHERS.values():
            run = path.name  # each of them is a run
        found.setdefault((tracker, str(below), run), []).append(str(path))
    runs = []
    for (tracker, below_, run), files in found.items():
        # Names tell when or at which step a file was begun, whatever a copy has made of its times.
        if tracker == "transformers":
            steps = {file: await _steps(host, file) for file in files}
            files.sort(key=lambda file: (steps[file], "checkpoint-" not in file), reverse=True)
        elif tracker == "TensorBoard":
            files.sort(key=_begun, reverse=True)
        elif tracker == "W&B":
            files.sort(key=lambda file: _started(PurePosixPath(file).parent.name), reverse=True)
        runs.append(TrackedRun(tracker, below_, tuple(files), run))
    boards = [run for run in runs if run.tracker == "TensorBoard"]
    boards = sorted(boards, key=lambda run: (_has_parent(run, boards), -_begun(run.files[0])[0]))
    wandb = sorted(
        (run for run in runs if run.tracker == "W&B"),
        key=lambda run: _started(PurePosixPath(run.files[0]).parent.name),
        reverse=True,
    )
    return [run for run in runs if run.tracker not in ("W&B", "TensorBoard")] + wandb + boards


async def _steps(host: Host, file: str) -> int:
    """Return at which step a `trainer_state.json` was written, as its folder or itself says.

    -1 if neither does.
    """
    if (match := _CHECKPOINT.fullmatch(PurePosixPath(file).parent.name)) is not None:
        return int(match[1])
    try:
        match_ = _STEP.search(await host.get(file, limit=_HEAD))
    except MachineError:
        return -1
    return int(match_[1]) if match_ else -1


def _begun(file: str) -> tuple[int, str]:
    match = _TIME.search(PurePosixPath(file).name)
    return int(match[1]) if match else 0, file


def _started(name: str) -> str:
    """Return the date in the name of a run's folder of W&B, for comparison."""
    return (
        name.removeprefix("offline-").removeprefix("run-")[:15]
        if _WANDB_RUN.fullmatch(name)
        else ""
    )


def _has_parent(run: TrackedRun, runs: list[TrackedRun]) -> bool:
    """Return whether event files lie below those of another run.

    `add_hparams` makes such a folder, which is no run.
    """
    return any(
        one is not run and PurePosixPath(run.folder).is_relative_to(one.folder) for one in runs
    )


async def _has_numbers(host: Host, run: TrackedRun) -> bool:
    """Return whether there is a number in the first or last bytes of a run's files.

    True where these do not tell.
    """
    if run.tracker in ("W&B", "transformers"):
        return True
    for file in run.files[:_NAMED]:
        try:
            facts = await host.stat(file)
            size = facts.size if facts is not None else 0
            data = await host.get(
                file,
                offset=0 if run.tracker == "TensorBoard" else max(size - _LOOK, 0),
                limit=_LOOK,
            )
        except MachineError:
            return True
        if run.tracker == "TensorBoard":
            if EventsFile().feed(data) or size > len(data):
                return True
        elif run.tracker in _OTHERS.values():
            if b"\0" in data[:_HEAD]:
                continue
            # Its many patterns are compiled when it is imported: not for a tracker's folder.
            from hudtui.core.training.log_metrics import LogMetricsReader

            reader = LogMetricsReader()
            reader.feed(data)
            reader.end()
            if reader.told:
                return True
        elif size:
            return True
    return False


def _names(runs: list[TrackedRun], folder: str) -> str:
    return ", ".join(
        [_below(_place(one), folder) for one in runs[:_NAMED]] + ["…"] * (len(runs) > _NAMED)
    )


def _place(run: TrackedRun) -> str:
    """Return where a run lies.

    Its folder, or the newest of its files where the folder has several runs.
    """
    if run.tracker == "W&B" and run.id:
        return str(PurePosixPath(run.files[0]).parent)
    return run.files[0] if run.id else run.folder


def _below(path: str, folder: str) -> str:
    place, start = PurePosixPath(path), PurePosixPath(folder)
    return clean_line(str(place.relative_to(start) if place.is_relative_to(start) else place), 100)
