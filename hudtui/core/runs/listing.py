"""The runs of a project as rows that can be filtered, sorted and grouped.

Commands and screens show the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.core.errors import InputError
from hudtui.core.row_filter import Fields, Value
from hudtui.core.runs.values import RunSummary, iso_time

if TYPE_CHECKING:
    from hudtui.core.runs.spec import RunSpec
    from hudtui.core.runs.status import RunView


@dataclass(frozen=True)
class RunRow:
    """One run of the list."""

    summary: RunSummary
    now: float
    """Time at which the row is shown, in seconds since the epoch."""
    spec: RunSpec | None = None
    """The spec of the run; None if its record cannot be read."""
    view: RunView | None = None
    """The state of the run on its machine; None if it was not read."""

    @property
    def model(self) -> str | None:
        """The model that is trained; for rollouts, the player."""
        return None if self.spec is None else model_of(self.spec)

    @property
    def reward(self) -> float | None:
        """The mean reward of the tasks, or of the last step of a training."""
        return None if self.view is None else self.view.reward

    @property
    def step(self) -> float | None:
        """The last step of which the run has reported a reward."""
        points = self.view.metrics.quantity("reward") if self.view is not None else ()
        return points[-1].x if points else None

    @property
    def steps(self) -> float | None:
        """The number of steps in all, if the run has reported it."""
        return None if self.view is None else self.view.metrics.max_step

    @property
    def alarm(self) -> str | None:
        """The most serious alarm of a run that is active, unless the user has acknowledged it."""
        found = self.view.open_alarms if self.view is not None and self.summary.active else ()
        return found[0].text if found else None


def model_of(spec: RunSpec) -> str | None:
    """Return the model that a run trains; for rollouts, the player.

    None if a setting of the training is invalid.
    """
    # Imported late: runs of others have no engine.
    from hudtui.core.training.engines import features_of, recipe_for

    if not features_of(spec.engine).trains:
        return spec.policy
    try:
        return recipe_for(spec).model
    except InputError:
        return spec.model


def _name(file: str | None) -> str | None:
    return None if file is None else Path(file).name


_OF_RECORD: Mapping[str, Callable[[RunRow], Value]] = {
    "state": lambda row: row.summary.state,
    "name": lambda row: row.summary.name,
    "id": lambda row: row.summary.id,
    "model": lambda row: row.model,
    "engine": lambda row: row.summary.engine,
    "tasks": lambda row: _name(row.spec.tasks.path) if row.spec and row.spec.tasks else None,
    "config": lambda row: _name(row.spec.config.path) if row.spec and row.spec.config else None,
    "machine": lambda row: (
        row.spec.rent.machine if row.spec and row.spec.rent else row.summary.host
    ),
    "stage": lambda row: row.summary.stage,
    "started": lambda row: iso_time(row.summary.started or row.summary.created),
    "minutes": lambda row: (
        None if (seconds := row.summary.elapsed(row.now)) is None else seconds / 60
    ),
    "cost": lambda row: row.summary.cost(row.now),
    "why": lambda row: row.summary.why,
    "comment": lambda row: row.summary.comment or None,
    "tag": lambda row: " ".join(row.summary.tags) or None,
}
_OF_VIEW: Mapping[str, Callable[[RunRow], Value]] = {
    "reward": lambda row: row.reward,
    "step": lambda row: row.step,
    "steps": lambda row: row.steps,
    "alarm": lambda row: row.alarm,
}
RUN_FIELDS: Fields[RunRow] = {**_OF_RECORD, **_OF_VIEW}
"""The fields by which a list of runs can be filtered, sorted and grouped."""


def needs_views(names: Iterable[str | None]) -> bool:
    """Return whether one of these fields is known only after all machines were asked."""
    return any(name in _OF_VIEW for name in names)
