"""The road of five stations: what is done, what is missing and what comes next, as a pure function of a few cheap facts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from hudtui.core.runs.values import RunSummary

StationName = Literal["environment", "mapping", "dataset", "compute", "run"]
StationState = Literal["done", "next", "missing", "running", "failed"]

GLYPHS: dict[StationState, str] = {"done": "✓", "next": "▶", "missing": "·", "running": "●", "failed": "✗"}
"""One character a state, always shown together with a word."""


class Folder(Protocol):
    """The facts of a workspace that the road needs; `core.workspace.Workspace` has them."""

    @property
    def configs(self) -> Collection[object]:
        """Gym configurations found."""
        ...

    @property
    def task_files(self) -> Collection[object]:
        """Task files found."""
        ...

    @property
    def lock(self) -> object | None:
        """The environment's lock file, where there is one."""
        ...


@dataclass(frozen=True)
class Station:
    """One station of the road."""

    name: StationName
    state: StationState
    """`next` is the first one that is not done; those behind it that are not done either are `missing`."""
    detail: str
    """What is there or what is not, in a few words."""
    what_next: str
    """What the user can do here now."""

    @property
    def glyph(self) -> str:
        """One character for the state."""
        return GLYPHS[self.state]

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"name": self.name, "state": self.state, "detail": self.detail, "what_next": self.what_next}


def road(workspace: Folder, *, analysis: str | None = None, runs: Sequence[RunSummary] = ()) -> tuple[Station, ...]:
    """The five stations in order.

    Args:
        workspace: What lies in the project folder.
        analysis: Name of the environment that was analysed last in this workspace; None when none was.
        runs: The workspace's runs, in any order.
    """
    configs, tasks = len(workspace.configs), len(workspace.task_files)
    known = analysis or ("lock file" if workspace.lock is not None else None)
    stations = [
        _station(
            "environment", known, "none analysed yet", "Analyse an environment.", "Look at its tools, or analyse another one."
        ),
        _station(
            "mapping", _count(configs, "config"), "no config", "Generate a config from the environment.", "Edit and check it."
        ),
        _station("dataset", _count(tasks, "task file"), "no task file", "Add a tasks file.", "Validate and convert the tasks."),
        Station("compute", "done", "this machine", "Runs start on this machine."),
    ]
    first = next((place for place, station in enumerate(stations) if station.state != "done"), None)
    if first is not None:
        open_one = stations[first]
        stations[first] = Station(open_one.name, "next", open_one.detail, open_one.what_next)
    return (*stations, _run_station(runs, ready=first is None))


def _count(number: int, word: str) -> str | None:
    return f"{number} {word}{'' if number == 1 else 's'}" if number else None


def _station(name: StationName, present: str | None, absent: str, do: str, done: str) -> Station:
    return Station(name, "done", present, done) if present else Station(name, "missing", absent, do)


def _run_station(runs: Sequence[RunSummary], *, ready: bool) -> Station:
    active = [run for run in runs if run.active]
    if active:
        newest = max(active, key=lambda run: run.created)
        detail = f"{newest.name} {newest.state}" if len(active) == 1 else f"{len(active)} runs active"
        return Station("run", "running", detail, "Watch it: closing hudtui does not stop it.")
    if not runs:
        if ready:
            return Station("run", "next", "no run yet", "Start a run.")
        return Station("run", "missing", "no run yet", "Complete the stations before this one.")
    last = max(runs, key=lambda run: run.created)
    if last.state in ("failed", "lost"):
        return Station("run", "failed", f"{last.name} {last.state}", "Read its log, mend the cause and start it again.")
    return Station("run", "done", f"{last.name} {last.state}", "Look at its result, or start another run.")
