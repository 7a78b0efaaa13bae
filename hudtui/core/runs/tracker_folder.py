"""Find the runs of W&B, TensorBoard and transformers below a folder on any machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from hudtui.core.errors import InputError
from hudtui.core.remote.host import Host
from hudtui.core.text import clean_line

_PATTERNS = {"*tfevents*": "TensorBoard", "*.wandb": "W&B", "trainer_state.json": "transformers"}
_DEPTH = 5
_PATIENCE = 15.0
_NAMED = 6
"""Largest number of runs that a sentence names."""


@dataclass(frozen=True)
class TrackedRun:
    """A run in the files of a tracker."""

    tracker: str
    folder: str
    """The folder of the W&B file or of the event files; for transformers, the folder of the checkpoints."""
    files: tuple[str, ...]
    """Paths of its files, the newest first."""


async def run_files(host: Host, tracker: str, folder: str) -> tuple[str, ...]:
    """Return the files of the run whose folder this is, the newest first; empty if there are none.

    Raises:
        MachineError: The machine does not answer.
    """
    return next((run.files for run in await _runs(host, folder, 2) if (run.tracker, run.folder) == (tracker, folder)), ())


async def newest_run(host: Host, folder: str) -> tuple[TrackedRun, str]:
    """Return the newest run in a folder or up to four folders below it, and a sentence that names its file and the other runs.

    Raises:
        InputError: There are no files of a tracker, or files of several trackers.
        MachineError: The machine does not answer.
    """
    runs = await _runs(host, folder, _DEPTH)
    shown = f"{clean_line(folder)} on {host.name}"
    if not runs:
        raise InputError(
            f"{shown} is a folder without files of W&B, TensorBoard or transformers",
            fix="Give the path of a log, or of a run's folder.",
        )
    newest: dict[str, str] = {}
    for run in runs:
        newest.setdefault(run.tracker, run.files[0])
    if len(newest) > 1:
        names = ", ".join(f"{_below(path, folder)} ({tracker})" for tracker, path in newest.items())
        raise InputError(f"{shown} contains files of several trackers: {names}", fix="Choose one of them.")
    first, *others = runs
    note = f"{first.tracker}: {_below(first.files[0], folder)}"
    if others:
        names = ", ".join([_below(one.folder, folder) for one in others[:_NAMED]] + ["…"] * (len(others) > _NAMED))
        note += f", the newest of {len(runs)} runs; the others are in {names}"
    return first, note


async def _runs(host: Host, folder: str, depth: int) -> list[TrackedRun]:
    """Return the runs down to a depth, the newest first."""
    start = folder if folder.startswith("/") else f"./{folder}"
    names = [word for pattern in _PATTERNS for word in ("-o", "-name", pattern)][1:]
    search = ["find", "-H", start, "-maxdepth", str(depth), "-type", "f", "(", *names, ")", "-exec", "ls", "-1dt", "{}", "+"]
    found: dict[tuple[str, str], list[str]] = {}
    for line in (await host.run(search, timeout=_PATIENCE)).stdout.splitlines():
        path = PurePosixPath(line)
        tracker = next((tracker for pattern, tracker in _PATTERNS.items() if path.match(pattern)), None)
        if tracker is not None and line.startswith(start):
            below = path.parents[1 if path.parent.name.startswith("checkpoint-") and tracker == "transformers" else 0]
            found.setdefault((tracker, str(below)), []).append(str(path))
    # The names of event files begin with their time; the newest of them may have no numbers yet.
    return [
        TrackedRun(tracker, below, tuple(sorted(files, reverse=True) if tracker == "TensorBoard" else files))
        for (tracker, below), files in found.items()
    ]


def _below(path: str, folder: str) -> str:
    place, start = PurePosixPath(path), PurePosixPath(folder)
    return clean_line(str(place.relative_to(start) if place.is_relative_to(start) else place), 100)
