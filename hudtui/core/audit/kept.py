"""Verdicts that are kept, each with what it is about: server, configuration and tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hudtui.core.audit.values import Audit
from hudtui.core.environment.cache import age_text
from hudtui.core.files import write_atomic
from hudtui.core.gym.values import GymConfig
from hudtui.core.rollouts.measures import play_digest, task_digest
from hudtui.core.tasks.task import Task
from hudtui.core.text import clean_line

FOLDER = "audits"
"""The folder of the verdicts in the project's own."""
_KEPT = 50


@dataclass(frozen=True)
class KeptAudit:
    """A verdict of earlier."""

    verdict: str
    line: str
    time: float
    """Seconds since the epoch."""
    file: str
    """The whole audit, as JSON."""

    def age(self, now: float | None = None) -> str:
        """Return how long ago the audit was, in words."""
        return age_text(max(0.0, (time.time() if now is None else now) - self.time))


def keep(
    state_dir: Path, audit: Audit, config: GymConfig, tasks: Sequence[Task], out: Path
) -> None:
    """Write an audit of tasks to `audit.json` of its folder, and its verdict to the project's.

    Raises:
        InputError: A file cannot be written.
    """
    file = out / "audit.json"
    write_atomic(file, json.dumps(audit.to_json(), indent=2, ensure_ascii=False) + "\n")
    record = {
        "verdict": audit.verdict,
        "line": audit.line(),
        "time": time.time(),
        "file": str(file),
        "play": play_digest(config),
        "tasks": sorted(map(task_digest, tasks)),
    }
    folder = state_dir / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / f"{time.time_ns()}.json", json.dumps(record))
    for old in sorted(folder.glob("*.json"))[:-_KEPT]:
        old.unlink(missing_ok=True)


def kept_audit(state_dir: Path, config: GymConfig, tasks: Sequence[Task]) -> KeptAudit | None:
    """Return the newest verdict on tasks as they are now; None if no audit has seen them all.

    A changed server, configuration or task has no verdict.
    """
    play, wanted = play_digest(config), set(map(task_digest, tasks))
    for file in sorted((state_dir / FOLDER).glob("*.json"), reverse=True):
        record = _read(file)
        if record.get("play") == play and wanted <= set(record["tasks"]):
            return KeptAudit(
                str(record["verdict"]),
                clean_line(str(record["line"]), 200),
                float(record["time"]),
                str(record["file"]),
            )
    return None


def _read(file: Path) -> dict[str, Any]:
    """Return a record; an empty one of a file that is none."""
    try:
        record = json.loads(file.read_text())
        whole = {"verdict", "line", "time", "file", "play", "tasks"} <= record.keys()
        texts = all(isinstance(one, str) for one in record["tasks"])
        return record if whole and texts and isinstance(record["time"], int | float) else {}
    except (OSError, ValueError, AttributeError, TypeError, KeyError):
        return {}
