"""What is known of a run at one moment, and the alarms that follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hudtui.core.plain import to_plain
from hudtui.core.text import clean_line
from hudtui.core.training.features import Advice
from hudtui.core.training.metrics import MetricsReader, NotFiniteStreak, Point

SILENT = 15.0
"""Seconds without a heartbeat after which the clock of a machine is compared with that of this
computer."""

Level = Literal["warning", "error"]
Thresholds = Mapping[str, float]
"""The threshold of each row of `settings.ALARM_SETTINGS`. An infinite threshold switches its alarm
off."""


@dataclass(frozen=True)
class Alarm:
    """A problem that the user should know about now."""

    kind: str
    """The name of its signature."""
    level: Level
    text: str
    """The problem, in one sentence."""
    fix: str | None = None
    """The fix, in one sentence."""
    stage: str | None = None
    mark: str = ""
    """A text that distinguishes this alarm from earlier ones of its identity, such as the step at
    which it began."""
    acknowledged: bool = False
    """True if the user has acknowledged the alarm: it is then listed, but not counted or
    announced."""
    logged: bool = False
    """True if a log line reports the problem: whoever shows the lines as they come does not repeat
    it."""

    @property
    def identity(self) -> tuple[str, ...]:
        """Return the fields that identify the alarm.

        Its text is not among them, because it changes every second.
        """
        return (self.kind, self.level, self.stage or "", self.fix or "")

    @property
    def key(self) -> str:
        """Return the identity and the mark as one text, by which the alarm is acknowledged."""
        return clean_line(":".join((*self.identity, self.mark)))

    @property
    def told(self) -> str:
        """Return the problem, and whether it is acknowledged."""
        return f"{self.text} (acknowledged)" if self.acknowledged else self.text

    def to_json(self) -> dict[str, Any]:
        return to_plain(self, without=("mark", "logged"))


@dataclass(frozen=True)
class LogSymptom:
    """A log line that indicates a problem."""

    kind: str
    """The name of its signature."""
    stage: str
    line: str
    """The line, without control sequences; what it means, for a symptom of the training."""
    fix: str | None = None


@dataclass(frozen=True)
class StageFacts:
    """The facts about a stage that alarms depend on."""

    name: str
    state: str
    service: bool = False
    exit: int | None = None
    quiet: float | None = None
    """Seconds since the stage's log last grew; None if unknown."""
    grew: float | None = None
    """When it last grew, by the machine's clock."""
    unanswered: float = 0.0
    """For a model server: seconds since its last answer; 0 if it answers or is not asked."""
    stuck: float = 0.0
    """For a model server: seconds in which it has had requests but generated no token."""


@dataclass(frozen=True)
class RunFacts:
    """The facts about a run that alarms depend on."""

    active: bool
    advice: Advice | None = None
    """Fixes in the words of the run's engine; None for a session that hudtui did not start."""
    silent: float | None = None
    """Seconds since the run's last heartbeat."""
    beat: float | None = None
    """When it was, by the machine's clock."""
    stages: tuple[StageFacts, ...] = ()
    signs: tuple[LogSymptom, ...] = ()
    metrics: MetricsReader = field(default_factory=MetricsReader, compare=False)
    """All metrics of the run; the next four follow from them, see `with_metrics`."""
    wrong: tuple[NotFiniteStreak, ...] = ()
    spread: Sequence[Point] = ()
    """Spread of the rewards within a group, one point per step; empty if a group has only one
    reward."""
    step_times: Sequence[Point] = ()
    broken: Sequence[Point] = ()
    """Share of the episodes that broke off, one point per step."""
    disk_free: int | None = None
    """Free bytes on the machine's disk; of several machines, on the fullest one."""
    disk_of: str = ""
    """The node whose disk that is; empty for the run's only machine, or node 0."""
    memory_used: float | None = None
    """Used memory of the machine in bytes; in a container, that of the container."""
    memory_total: float | None = None

    def with_metrics(self, metrics: MetricsReader, group: int | None = None) -> RunFacts:
        """Return these facts with those that metrics tell.

        It is for runs, and for sessions that hudtui did not start.

        `group` is the number of episodes of a task, where it is known; see `reward_spread`.
        """
        return replace(
            self,
            metrics=metrics,
            wrong=metrics.wrong,
            spread=reward_spread(metrics, group),
            step_times=metrics.quantity("step_time")[-20:],
            broken=metrics.series("broken"),
        )


def reward_spread(metrics: MetricsReader, group: int | None = None) -> tuple[Point, ...]:
    """Return the reward spread within groups by step.

    Empty if each task has one episode, which leaves nothing to compare. TRL's `reward_std` is that
    of all rewards of a step, and says nothing about groups; where it also writes the share of
    groups without spread (`frac_reward_zero_std`), the spread returned is the share of the other
    groups.
    """
    if group == 1:
        return ()
    flat = metrics.series("frac_reward_zero_std")
    if flat:
        return tuple(replace(point, y=1 - point.y) for point in flat)
    return metrics.quantity("reward_std")


def seconds(value: float) -> str:
    """Return a duration in seconds as text: `40 s`, `3 min`, `2.5 h`."""
    if value < 100:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 6000 else f"{value / 3600:.1f} h"
