"""The five steps of a project.

The steps that are done, the next step, and the files with errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple

from hudtui.core.errors import HudtuiError
from hudtui.core.runs.values import RunSummary
from hudtui.core.text import plural
from hudtui.core.workspace import Workspace

StepName = Literal["environment", "mapping", "dataset", "compute", "run"]
StepState = Literal["done", "next", "missing", "running", "failed"]

CONFIG_SIZE = 256 * 1024
"""Size in bytes above which a configuration is not checked in the background."""
TASKS_SIZE = 2 * 1024 * 1024
"""Size in bytes above which a task file is not checked in the background."""
_CHECKED = frozenset({".json", ".jsonl", ".ndjson"})


@dataclass(frozen=True)
class FileErrors:
    """The errors in one file, or in several of the same kind."""

    errors: int = 0
    text: str = ""
    """A few words, such as `7 errors in configs/2048.yaml`; empty without errors."""


@dataclass(frozen=True)
class ProjectStep:
    """One of the five steps."""

    name: StepName
    state: StepState
    """`done`; `next` for the first step that is not done, and `missing` for later ones."""
    detail: str
    """The state of the step in a few words, such as `no task file`."""
    what_next: str
    """Next step of the user, as a sentence."""
    errors: int = 0
    """Number of errors in the files of this step; 0 also for a step that failed for another
    reason."""


def project_steps(
    workspace: Workspace,
    *,
    analysis: str | None = None,
    runs: Sequence[RunSummary] = (),
    lock_error: str | None = None,
    configs_wrong: FileErrors = FileErrors(),
    tasks_wrong: FileErrors = FileErrors(),
    dialects: Sequence[str] = (),
    rents: bool = False,
) -> tuple[ProjectStep, ...]:
    """Return the five steps in order.

    `analysis` is the last analysis of an environment, `lock_error` the reason why the lock file
    cannot be read, `dialects` the forms of calls other than `text`, and `rents` says whether there
    is a key for renting machines.
    """
    configs, tasks = len(workspace.configs), len(workspace.task_files)
    known = analysis or ("lock file" if workspace.lock is not None else None)
    environment = _step(
        "environment",
        known,
        "none analyzed yet",
        "Analyze an environment.",
        "See its tools, or analyze another.",
    )
    mapping = _step(
        "mapping",
        ", ".join((plural(configs, "config"), *dialects)) if configs else None,
        "no config",
        "Generate a config from the environment.",
        "Edit and check it.",
    )
    dataset = _step(
        "dataset",
        plural(tasks, "task file") if tasks else None,
        "no task file",
        "Add a tasks file.",
        "Validate and convert the tasks.",
    )
    if lock_error is not None and analysis is None:
        environment = ProjectStep(
            "environment",
            "failed",
            lock_error,
            "Analyze an environment; this writes a new lock file.",
            errors=1,
        )
    if configs and configs_wrong.errors:
        mapping = ProjectStep(
            "mapping", "failed", configs_wrong.text, "Fix the errors.", configs_wrong.errors
        )
    if tasks and tasks_wrong.errors:
        dataset = ProjectStep(
            "dataset", "failed", tasks_wrong.text, "Fix the errors.", tasks_wrong.errors
        )
    steps = [environment, mapping, dataset]
    ready = all(step.state == "done" for step in steps)
    # This machine always exists, but the step counts as done only once there is something to run.
    if rents or known or configs or tasks or runs:
        steps.append(
            ProjectStep(
                "compute",
                "done",
                "ready to rent" if rents else "local only",
                "Choose where to run.",
            )
        )
    else:
        steps.append(
            ProjectStep(
                "compute", "missing", "this machine, or a rented one", "Choose where to run."
            )
        )
    for place, step in enumerate(steps):
        if step.state == "failed":
            break
        if step.state == "missing":
            steps[place] = replace(step, state="next")
            break
    return (*steps, _run_step(runs, ready=ready))


def _step(
    name: StepName, present: str | None, absent: str, to_do: str, when_done: str
) -> ProjectStep:
    return (
        ProjectStep(name, "done", present, when_done)
        if present
        else ProjectStep(name, "missing", absent, to_do)
    )


def _run_step(runs: Sequence[RunSummary], *, ready: bool) -> ProjectStep:
    active = [run for run in runs if run.active]
    if active:
        newest = max(active, key=lambda run: run.created)
        detail = (
            f"{newest.name} {newest.state}" if len(active) == 1 else f"{len(active)} runs active"
        )
        return ProjectStep("run", "running", detail, "Watch it: closing hudtui does not stop it.")
    if not runs:
        if ready:
            return ProjectStep("run", "next", "no run yet", "Start a run.")
        return ProjectStep("run", "missing", "no run yet", "Complete the steps before this one.")
    last = max(runs, key=lambda run: run.created)
    detail = f"{last.name} {last.state}"
    if last.state in ("failed", "lost"):
        return ProjectStep(
            "run", "failed", detail, "Read its log, fix the cause and start it again."
        )
    if last.state == "stopped":
        return ProjectStep(
            "run",
            "next" if ready else "missing",
            detail,
            "Start it again, or see what it has written.",
        )
    return ProjectStep("run", "done", detail, "See its result, or start another run.")


class _Found(NamedTuple):
    """What a file holds."""

    errors: int
    dialect: str = ""
    """Of a configuration, where it is not `text`."""


class FileChecks:
    """Checks the files of a project. Each file is checked once, and again after a change."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, int], _Found]] = {}
        self._running = Lock()

    def configs(self, workspace: Workspace) -> FileErrors:
        """Return the errors found so far in the configurations."""
        return self._errors_in(workspace, workspace.configs)

    def tasks(self, workspace: Workspace) -> FileErrors:
        """Return the errors found so far in the task files."""
        return self._errors_in(workspace, workspace.task_files)

    def dialects(self, workspace: Workspace) -> tuple[str, ...]:
        """Return the forms of calls, other than `text`, that the configurations name so far."""
        found = (self._known[path][1].dialect for path in workspace.configs if path in self._known)
        return tuple(dict.fromkeys(name for name in found if name))

    def check(self, workspace: Workspace) -> bool:
        """Check new and changed files, without the tools of any environment.

        Return whether anything has changed.
        """
        with self._running:
            before = dict(self._known)
            for path in workspace.configs:
                self._check(path, CONFIG_SIZE, _look_at_config)
            for path in workspace.task_files:
                if path.suffix in _CHECKED:
                    self._check(path, TASKS_SIZE, _look_at_tasks)
            return self._known != before

    def _check(self, path: Path, limit: int, look: Callable[[Path], _Found]) -> None:
        stamp = _stamp(path)
        if stamp is None or stamp[1] > limit:
            self._known.pop(path, None)
        elif path not in self._known or self._known[path][0] != stamp:
            self._known[path] = (stamp, look(path))

    def _errors_in(self, workspace: Workspace, paths: Sequence[Path]) -> FileErrors:
        wrong = [
            (path, self._known[path][1].errors)
            for path in paths
            if path in self._known and self._known[path][1].errors
        ]
        if not wrong:
            return FileErrors()
        errors, (first, _) = sum(count for _, count in wrong), wrong[0]
        where = (
            workspace.relative(first) if len(wrong) == 1 else f"{len(wrong)} of {len(paths)} files"
        )
        return FileErrors(errors, f"{plural(errors, 'error')} in {where}")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _look_at_config(path: Path) -> _Found:
    from hudtui.core.files import read_text
    from hudtui.core.gym.config import parse_config
    from hudtui.core.gym.dialects.known import DEFAULT
    from hudtui.core.gym.lint.check import lint

    try:
        text = read_text(path)
    except HudtuiError:
        return _Found(1)
    errors = sum(finding.severity == "error" for finding in lint(text, name=path.name))
    config, _ = parse_config(text, name=path.name)
    dialect = DEFAULT if config is None else config.parser.dialect
    return _Found(errors, "" if dialect == DEFAULT else dialect)


def _look_at_tasks(path: Path) -> _Found:
    from hudtui.core.tasks.read import read_tasks

    try:
        errors = sum(problem.severity == "error" for problem in read_tasks(path).problems)
    except HudtuiError:
        errors = 1
    return _Found(errors)
