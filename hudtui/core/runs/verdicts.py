"""What is wrong with the files of a project, as far as they were checked: the road says so, and not only that they are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from hudtui.core.errors import HudtuiError
from hudtui.core.text import plural
from hudtui.core.workspace import Workspace

CONFIG_SIZE = 256 * 1024
"""Bytes of a configuration above which it is not checked without having been opened."""
TASKS_SIZE = 2 * 1024 * 1024
"""The same for a task file."""
_CHECKED = frozenset({".json", ".jsonl", ".ndjson"})


@dataclass(frozen=True)
class FileErrors:
    """What is wrong with one file, or with several of the same kind."""

    errors: int = 0
    text: str = ""
    """In a few words, such as `7 errors in configs/2048.yaml`; empty where nothing is wrong."""


class FileChecks:
    """The verdicts on the files of a project; each is checked once, and again when it has changed."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, int], int]] = {}
        self._turn = Lock()

    def configs(self, workspace: Workspace) -> FileErrors:
        """Of the configurations, as far as it is known."""
        return self._of(workspace, workspace.configs)

    def tasks(self, workspace: Workspace) -> FileErrors:
        """Of the task files, as far as it is known."""
        return self._of(workspace, workspace.task_files)

    def check(self, workspace: Workspace) -> bool:
        """Check what is new or has changed, without the tools of any environment. Whether there is anything new to tell."""
        with self._turn:
            before = dict(self._known)
            for path in workspace.configs:
                self._check(path, CONFIG_SIZE, _config_errors)
            for path in workspace.task_files:
                if path.suffix in _CHECKED:
                    self._check(path, TASKS_SIZE, _task_errors)
            return self._known != before

    def _check(self, path: Path, limit: int, count: Callable[[Path], int]) -> None:
        stamp = _stamp(path)
        if stamp is None or stamp[1] > limit:
            self._known.pop(path, None)
        elif path not in self._known or self._known[path][0] != stamp:
            self._known[path] = (stamp, count(path))

    def _of(self, workspace: Workspace, paths: Sequence[Path]) -> FileErrors:
        wrong = [(path, self._known[path][1]) for path in paths if path in self._known and self._known[path][1]]
        if not wrong:
            return FileErrors()
        errors, (first, _) = sum(count for _, count in wrong), wrong[0]
        where = workspace.relative(first) if len(wrong) == 1 else f"{len(wrong)} of {len(paths)} files"
        return FileErrors(errors, f"{plural(errors, 'error')} in {where}")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size


def _config_errors(path: Path) -> int:
    from hudtui.core.files import read_text
    from hudtui.core.gym.lint.check import lint

    try:
        return sum(finding.severity == "error" for finding in lint(read_text(path), name=path.name))
    except HudtuiError:
        return 1


def _task_errors(path: Path) -> int:
    from hudtui.core.tasks.load import read_tasks

    try:
        return sum(problem.severity == "error" for problem in read_tasks(path).problems)
    except HudtuiError:
        return 1
