"""Alarms.

Problems of a run and their fixes, found by pure functions over the run's observed facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any, Literal

from hudtui.core.compute.hardware import size
from hudtui.core.errors import InputError
from hudtui.core.plain import to_plain
from hudtui.core.settings import ALARM_SETTINGS, check_settings, load_settings
from hudtui.core.text import clean_line
from hudtui.core.training.features import ANY_MODEL, ANY_SERVER, Advice
from hudtui.core.training.metrics import MetricsReader, NotFiniteStreak, Point

SILENT = 15.0
"""Seconds without a heartbeat after which the clock of a machine is compared with that of this
computer."""
DEAD_QUIET = 60.0
"""Seconds without a log line of the running stage after which it waits for its model server, which
is known to be dead."""
STUCK = 60.0
"""Seconds in which a server has requests but generates no token, after which an alarm is raised."""
DISK_FULL = 512 * 1024**2
"""Free bytes below which a disk is full."""

Level = Literal["warning", "error"]
Thresholds = Mapping[str, float]
"""The threshold of each row of `settings.ALARM_SETTINGS`. An infinite threshold switches its alarm
off."""

USUAL: Thresholds = {
    name: float(setting.default or "inf") for name, setting in ALARM_SETTINGS.items()
}


def read_thresholds(folder: Path) -> Thresholds:
    """Return the thresholds in the settings of a project folder.

    A value that cannot be used counts as none given.
    """
    try:
        values = check_settings(load_settings(folder)).values
    except InputError:  # of the platform
        return USUAL
    given = {name: values.get(setting.name) for name, setting in ALARM_SETTINGS.items()}
    return {**USUAL, **{name: value for name, value in given.items() if isinstance(value, float)}}


@dataclass(frozen=True)
class Alarm:
    """A problem that the user should know about now."""

    kind: str
    """A kind of `ALARMS`."""
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

    kind: Literal["memory", "server", "training"]
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
    """Free bytes on the machine's disk."""
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


Finder = Callable[[RunFacts, float], Iterable[Alarm]]
"""Yields the alarms of one kind, from the facts of a run and the threshold of the kind."""


@dataclass(frozen=True)
class AlarmRule:
    """A kind of alarm.

    The name of its threshold in `settings.ALARM_SETTINGS`, and the function that finds such alarms.
    """

    threshold: str
    find: Finder


ALARMS: dict[str, AlarmRule] = {}
"""Every kind of alarm. All faces show alarms of a kind as soon as it stands here."""


def alarm(kind: str, *, threshold: str) -> Callable[[Finder], Finder]:
    """Return a decorator that declares a function to find the alarms of a kind."""

    def declare(find: Finder) -> Finder:
        ALARMS[kind] = AlarmRule(threshold, find)
        return find

    return declare


_ANY_TRAINER_FIX = f"{ANY_MODEL} With ART: max_seq_length or rollouts_per_group."
_ANY_SERVER_FIX = f"{ANY_SERVER} With ART: gpu_memory_utilization or max_seq_length."
"""Fixes in the words of every engine: a log line alone tells none."""
_HOST_FIX = "The machine's own memory was full: a machine with more, or fewer episodes at once."

_SYMPTOMS: tuple[
    tuple[Literal["memory", "server", "training"], str, str | None, str | None], ...
] = (
    (
        "memory",
        r"(?:CUDA|HIP|XPU) out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED",
        None,
        _ANY_TRAINER_FIX,
    ),
    (
        "memory",
        r"No available memory for the cache blocks|KV cache .{0,80}(?:larger than|exceed)|"
        r"Free memory on device .{0,120}less than desired"
        r"|max seq len .{0,60}is larger than the maximum number of tokens",
        None,
        _ANY_SERVER_FIX,
    ),
    (
        "memory",
        r"\bOut of memory: Killed process\b|\boom-kill\b|MemoryError(?:$|:)|Cannot allocate memory",
        None,
        _HOST_FIX,
    ),
    (
        "server",
        r"EngineDeadError|EngineCore (?:died|encountered a fatal error|failed to start)"
        r"|Engine core initialization failed|"
        r"Engine core proc .{0,60}died unexpectedly|MQLLMEngine terminated"
        r"|Background loop has errored",
        None,
        None,
    ),
    (
        "training",
        r"Skipping tuning as there is no suitable data|the rewards of each group are equal",
        "a step had equal rewards in each group, and nothing was learned from it",
        "Tasks that sometimes succeed, a higher temperature, more episodes a task, or a judge "
        "(--ruler).",
    ),
    (
        "training",
        r"the state of the optimizer is not kept",
        "the training was started again: the adapter was kept, the state of the optimizer was lost",
        "The next steps may be worse than the last ones before.",
    ),
    (
        "training",
        r"longer than the model's \d+ tokens|maximum context length is \d+ tokens",
        "conversations are longer than the model's context, and their episodes break off",
        "Raise max_seq_len, or lower max_turns or what a tool answers.",
    ),
    (
        "training",
        r"the model's server (?:has not answered for|does NOT answer)",
        "the model's server does not answer, and the episodes wait for it",
        "Look at the end of its log; often the GPU's memory was full: lower gpu_memory_utilization "
        "or max_seq_len.",
    ),
)
"""Kind, pattern, meaning (None: the line itself is shown) and fix of each symptom. The first
matching pattern counts. The symptoms of a training are from issues of ART: #346, #377, #395, #469,
#472."""
_WORDS = (
    *(
        "emory",
        "ALLOC_FAILED",
        "KV cache",
        "max seq len",
        "oom-kill",
        "Engine",
        "Background loop",
        "Skipping tuning",
    ),
    *(
        "rewards of each group",
        "optimizer is not kept",
        "longer than the model",
        "maximum context",
        "model's server",
    ),
)
"""Every symptom contains one of these words, so most lines are ruled out by this cheap test."""


def find_symptom(stage: str, line: str) -> LogSymptom | None:
    """Return the symptom in a log line, or None."""
    if not any(word in line for word in _WORDS):
        return None
    for kind, pattern, meaning, fix in _SYMPTOMS:
        if re.search(pattern, line):
            return LogSymptom(kind, stage, meaning or clean_line(line, 200), fix)
    return None


def find_symptoms(stage: str, lines: Sequence[str]) -> tuple[LogSymptom, ...]:
    """Return the symptoms in log lines, as `find_symptom` finds them at the start of each line.

    Fast without symptoms.
    """
    text = "\n".join(lines)
    if not any(word in text for word in _WORDS):
        return ()
    return tuple(sign for line in lines if (sign := find_symptom(stage, line[:2000])) is not None)


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


def find_alarms(
    facts: RunFacts, from_when: Thresholds = USUAL, *, acknowledged: Collection[str] = ()
) -> tuple[Alarm, ...]:
    """Return the alarms of a run, the worst first, and acknowledged alarms last.

    Args:
        facts: The facts about the run.
        from_when: The thresholds.
        acknowledged: The keys of the alarms that the user has acknowledged.
    """
    alarms = []
    for rule in ALARMS.values():
        for one in rule.find(facts, from_when[rule.threshold]):
            alarms.append(replace(one, acknowledged=one.key in acknowledged))
    return tuple(sorted(alarms, key=lambda one: (one.acknowledged, one.level != "error")))


@alarm("heartbeat", threshold="heartbeat")
def _heartbeat(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    if facts.active and facts.silent is not None and facts.silent > limit:
        yield Alarm(
            "heartbeat",
            "error",
            f"no sign of life for {seconds(facts.silent)}",
            "The machine may be gone, or its supervisor killed: the next start of hudtui takes the "
            "run up again.",
            mark="" if facts.beat is None else f"{facts.beat:.0f}",
        )


def _memory_fix(sign: LogSymptom, advice: Advice | None) -> str | None:
    """Return the fix of a symptom, in the words of the engine where it is known."""
    if advice is not None and sign.fix == _ANY_TRAINER_FIX:
        return advice.trainer
    if advice is not None and sign.fix == _ANY_SERVER_FIX:
        return advice.server
    return sign.fix


@alarm("memory", threshold="memory")
def _memory(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    told: set[str] = set()
    for sign in facts.signs:
        if sign.kind == "memory" and sign.stage not in told:
            told.add(sign.stage)
            fix = _memory_fix(sign, facts.advice)
            text = f"{sign.stage} ran out of memory: {sign.line}"
            yield Alarm("memory", "error", text, fix, sign.stage, sign.line, logged=True)
    for stage in facts.stages:
        if stage.state == "ended" and stage.exit == -9 and stage.name not in told and facts.active:
            yield Alarm(
                "memory",
                "error",
                f"{stage.name} was killed (SIGKILL), mostly for want of memory",
                _HOST_FIX,
                stage.name,
            )
    used, total = facts.memory_used, facts.memory_total
    if facts.active and used is not None and total and 100 * used >= limit * total:
        text = f"{used / total:.0%} of the machine's memory of {size(int(total))} is in use"
        fix = (
            "Use a machine with more memory, or fewer episodes at once, before the system kills a "
            "process."
        )
        yield Alarm("memory", "warning", text, fix)


@alarm("server", threshold="server")
def _server(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    if not facts.active:
        return
    signs = {sign.stage: sign for sign in reversed(facts.signs) if sign.kind == "server"}
    if not facts.stages:  # a session that hudtui did not start: only its lines tell of its servers
        for name, sign in signs.items():
            yield Alarm(
                "server",
                "error",
                f"the server of {name} is dead: {sign.line}",
                None,
                name,
                logged=True,
            )
    working = [
        stage
        for stage in facts.stages
        if not stage.service and stage.state in ("running", "starting")
    ]
    quiet = max((stage.quiet or 0.0 for stage in working), default=0.0)
    for stage in facts.stages:
        reported = signs.get(stage.name)
        how = _trouble(stage, reported, limit)
        if not working or how is None:
            continue
        why = f" ({reported.line})" if reported else ""
        if quiet > DEAD_QUIET:
            who = ", ".join(one.name for one in working)
            text = (
                f"{stage.name} {how}{why}, and {who} has said nothing for {seconds(quiet)}: it "
                "waits in vain"
            )
            yield Alarm(
                "server",
                "error",
                text,
                "Stop the run and start it again; the cause is in the server's log.",
                stage.name,
            )
        else:
            yield Alarm(
                "server",
                "warning",
                f"{stage.name} {how}{why} while the run continues",
                None,
                stage.name,
            )


def _trouble(stage: StageFacts, sign: LogSymptom | None, limit: float) -> str | None:
    """Return the problem of a model server.

    None without a problem, or if the stage is not a server.
    """
    if stage.service and stage.state == "ended":
        return "is dead" if stage.exit is None else f"ended with status {stage.exit}"
    if stage.unanswered > limit:
        return f"has not answered for {seconds(stage.unanswered)}"
    if stage.stuck > STUCK:
        return f"has requests, but has made no token for {seconds(stage.stuck)}"
    return "is dead" if sign else None


@alarm("disk", threshold="disk")
def _disk(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    free = facts.disk_free
    if facts.active and free is not None and isfinite(limit) and free < limit * 2**30:
        full = free < DISK_FULL
        yield Alarm(
            "disk",
            "error" if full else "warning",
            f"the disk is {'full' if full else 'nearly full'}: {size(free)} left",
            "Remove old checkpoints or downloads on the machine (keep_checkpoints, the caches in "
            "~/.cache).",
        )


@alarm("quiet", threshold="quiet")
def _quiet(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    if not facts.active:
        return
    usual = median(point.y for point in facts.step_times) if facts.step_times else 0.0
    patience = max(60 * limit, 3 * usual)
    for stage in facts.stages:
        if (
            not stage.service
            and stage.state == "running"
            and stage.quiet is not None
            and stage.quiet > patience
        ):
            text = f"{stage.name} has logged nothing for {seconds(stage.quiet)}"
            mark = "" if stage.grew is None else f"{stage.grew:.0f}"
            yield Alarm("quiet", "warning", text, None, stage.name, mark)


@alarm("nan", threshold="nan")
def _nan(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    wrong = [streak for streak in facts.wrong if streak.count >= limit]
    if wrong:
        first = min(wrong, key=lambda streak: streak.x)
        names = ", ".join(dict.fromkeys(clean_line(streak.name, 40) for streak in wrong[:4]))
        yield Alarm(
            "nan",
            "error",
            f"{names} {'are' if len(wrong) > 1 else 'is'} NaN or infinite since step {first.x:g}",
            "The weights are lost: stop the run, continue from a checkpoint, lower learning_rate "
            "or max_grad_norm.",
            mark=f"{first.x:g}",
        )


@alarm("flat", threshold="flat")
def _flat(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    count = sum(1 for _ in takewhile(lambda point: abs(point.y) < 1e-9, reversed(facts.spread)))
    if facts.active and count and count >= limit:
        yield Alarm(
            "flat",
            "warning",
            f"zero reward variance within groups for {count} steps: there is no gradient",
            "Tasks that sometimes succeed, a higher temperature, or more num_generations.",
            mark=f"{facts.spread[-count].x:g}",
        )


@alarm("training", threshold="broken")
def _training(facts: RunFacts, limit: float) -> Iterable[Alarm]:
    if not facts.active:
        return
    for sign in dict.fromkeys(sign for sign in facts.signs if sign.kind == "training"):
        yield Alarm(
            "training", "warning", f"{sign.stage}: {sign.line}", sign.fix, sign.stage, logged=True
        )
    many = tuple(takewhile(lambda point: 100 * point.y >= limit, reversed(facts.broken)))
    if many:
        text = (
            f"{many[0].y:.0%} of the episodes of step {many[0].x:g} broke off: nothing is learned "
            "from them"
        )
        yield Alarm(
            "training",
            "warning",
            text,
            "The log and the results name the reasons.",
            mark=f"{many[-1].x:g}",
        )


def seconds(value: float) -> str:
    """Return a duration in seconds as text: `40 s`, `3 min`, `2.5 h`."""
    if value < 100:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 6000 else f"{value / 3600:.1f} h"
