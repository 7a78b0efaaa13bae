"""The road of five stations: what is done, what is missing and what comes next, as a pure function of a few cheap facts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from hudtui.core.runs.values import RunSummary
from hudtui.core.runs.verdicts import FileErrors

StepName = Literal["environment", "mapping", "dataset", "compute", "run"]
StepState = Literal["done", "next", "missing", "running", "failed"]


class WorkspaceFiles(Protocol):
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
class ProjectStep:
    """One station of the road."""

    name: StepName
    state: StepState
    """`next` is the first one that is not done; those behind it that are not done either are `missing`."""
    detail: str
    """What is there or what is not, in a few words."""
    what_next: str
    """What the user can do here now."""

    errors: int = 0
    """How many the check of its files has found; 0 too where the state has another reason."""


def project_steps(
    workspace: WorkspaceFiles,
    *,
    analysis: str | None = None,
    runs: Sequence[RunSummary] = (),
    lock_error: str | None = None,
    configs_wrong: FileErrors = FileErrors(),  # noqa: B008 - frozen
    tasks_wrong: FileErrors = FileErrors(),  # noqa: B008
    rents: bool = False,
) -> tuple[ProjectStep, ...]:
    """The five stations in order.

    Args:
        workspace: What lies in the project folder.
        analysis: Name of the environment that was analysed last in this workspace; None when none was.
        runs: The workspace's runs, in any order.
        lock_error: Why the lock file cannot be read; None when it can, or there is none.
        configs_wrong: What is wrong with the configurations.
        tasks_wrong: What is wrong with the task files.
        rents: There is a key with which machines can be rented.
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
    ]
    if lock_error is not None and analysis is None:
        stations[0] = ProjectStep(
            "environment", "failed", lock_error, "Analyse an environment; that writes the lock file anew.", 1
        )
    if configs and configs_wrong.errors:
        stations[1] = ProjectStep("mapping", "failed", configs_wrong.text, "Mend what the check has found.", configs_wrong.errors)
    if tasks and tasks_wrong.errors:
        stations[2] = ProjectStep("dataset", "failed", tasks_wrong.text, "Mend what the check has found.", tasks_wrong.errors)
    ready = all(station.state == "done" for station in stations)
    # This machine is there in any case: it is an answer only where there is something that could run on it.
    chosen = rents or bool(known or configs or tasks or runs)
    stations.append(
        ProjectStep("compute", "done", "machines can be rented" if rents else "this machine", "Choose where to run.")
        if chosen
        else ProjectStep("compute", "missing", "this machine, or a rented one", "Choose where to run.")
    )
    first = next((place for place, station in enumerate(stations) if station.state == "missing"), None)
    if first is not None and not any(station.state == "failed" for station in stations[:first]):
        open_one = stations[first]
        stations[first] = ProjectStep(open_one.name, "next", open_one.detail, open_one.what_next)
    return (*stations, _run_station(runs, ready=ready))


def _count(number: int, word: str) -> str | None:
    return f"{number} {word}{'' if number == 1 else 's'}" if number else None


def _station(name: StepName, present: str | None, absent: str, do: str, done: str) -> ProjectStep:
    return ProjectStep(name, "done", present, done) if present else ProjectStep(name, "missing", absent, do)


def _run_station(runs: Sequence[RunSummary], *, ready: bool) -> ProjectStep:
    active = [run for run in runs if run.active]
    if active:
        newest = max(active, key=lambda run: run.created)
        detail = f"{newest.name} {newest.state}" if len(active) == 1 else f"{len(active)} runs active"
        return ProjectStep("run", "running", detail, "Watch it: closing hudtui does not stop it.")
    if not runs:
        if ready:
            return ProjectStep("run", "next", "no run yet", "Start a run.")
        return ProjectStep("run", "missing", "no run yet", "Complete the stations before this one.")
    last = max(runs, key=lambda run: run.created)
    detail = f"{last.name} {last.state}"
    if last.state in ("failed", "lost"):
        return ProjectStep("run", "failed", detail, "Read its log, mend the cause and start it again.")
    if last.state == "stopped":
        return ProjectStep("run", "next" if ready else "missing", detail, "Start it again, or look at what it has written.")
    return ProjectStep("run", "done", detail, "Look at its result, or start another run.")
