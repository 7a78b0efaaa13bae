"""A run as it is seen at one moment: values, and how they are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from hudtui.core.remote.tmux import attach_argv
from hudtui.core.runs.alarms import SILENT, Alarm
from hudtui.core.runs.values import RunEvent, RunSummary, iso_time
from hudtui.core.runs.vllm import ModelServer
from hudtui.core.text import clean_line
from hudtui.core.training.metrics import MetricsReader, is_number

if TYPE_CHECKING:
    from hudtui.core.runs.reports import StageReport

STEPS = 500
"""Steps that a result holds, the newest."""
_LONGEST = 10 * 365 * 86400.0
"""Seconds that a run may have left; more is no estimate."""


@dataclass(frozen=True)
class StageView:
    """A stage as it stands."""

    name: str
    state: str
    """`waiting`, `starting`, `running`, `ready` (a service that answers) or `ended`."""
    service: bool = False
    attempt: int = 0
    exit: int | None = None
    """Exit status; negative for the signal that ended it."""
    started: float | None = None
    ended: float | None = None
    pid: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {**vars(self), "started": iso_time(self.started), "ended": iso_time(self.ended)}


@dataclass(frozen=True)
class ResultRow:
    """One task."""

    task: str
    reward: float
    reward_std: float | None
    episodes: int
    turns: float | None
    errors: int

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return dict(vars(self))


@dataclass(frozen=True)
class StepRow:
    """One step of a training."""

    step: float
    reward: float
    reward_std: float | None = None
    loss: float | None = None
    completion_length: float | None = None
    """Mean tokens of a reply."""
    step_time: float | None = None
    """Seconds."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return dict(vars(self))


@dataclass(frozen=True)
class RunResult:
    """What a run has brought so far: its tasks, or the steps of a training."""

    rows: tuple[ResultRow, ...] = ()
    steps: tuple[StepRow, ...] = ()
    """In their order, the newest `STEPS` of them."""

    @property
    def reward(self) -> float | None:
        """Mean over the tasks; None while there are none."""
        return fmean(row.reward for row in self.rows) if self.rows else None

    @property
    def episodes(self) -> int:
        """Episodes played."""
        return sum(row.episodes for row in self.rows)

    @property
    def errors(self) -> int:
        """Episodes that something broke off."""
        return sum(row.errors for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "reward": self.reward,
            "episodes": self.episodes,
            "errors": self.errors,
            "tasks": [row.to_json() for row in self.rows],
            "steps": [row.to_json() for row in self.steps],
        }


@dataclass(frozen=True)
class GpuLoad:
    """A GPU at one moment."""

    index: int
    used_mib: float | None = None
    total_mib: float | None = None
    utilization: float | None = None
    """Per cent."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return dict(vars(self))


@dataclass(frozen=True)
class RunView:
    """Everything there is to show about one run."""

    summary: RunSummary
    stages: tuple[StageView, ...] = ()
    elapsed: float | None = None
    """Seconds."""
    silent: float | None = None
    """Seconds since its last sign of life; None when it has ended or never began."""
    result: RunResult = field(default_factory=RunResult)
    metrics: MetricsReader = field(default_factory=MetricsReader)
    """Series by name; `metrics.series("reward")` is the curve of rewards."""
    disk_free: int | None = None
    """Bytes left on the machine's disk."""
    events: tuple[RunEvent, ...] = ()
    problem: str | None = None
    """What of the run could not be read or kept, in words: what is shown may be out of date."""
    away: float | None = None
    """Seconds since its machine answered; None where it does. All the rest is as it was then."""
    alarms: tuple[Alarm, ...] = ()
    """What is wrong, the worst first."""
    gpus: tuple[GpuLoad, ...] = ()
    cost: float | None = None
    """What its machine has cost until now, in `summary.currency`."""
    servers: tuple[ModelServer, ...] = ()
    """The model servers that answer, or did."""
    load: MetricsReader = field(default_factory=MetricsReader)
    """How busy GPUs and servers were, over time."""
    left: float | None = None
    """Seconds until its last step, as the last steps went; None where that is not known."""

    @property
    def windows(self) -> tuple[str, ...]:
        """Names of the logs there are or will be, in the order of the stages."""
        return tuple(stage.name for stage in self.stages)

    @property
    def attach(self) -> tuple[str, ...] | None:
        """The command that shows its tmux session; None where there is none."""
        return attach_argv(self.summary.session) if self.summary.mode == "tmux" and self.summary.active else None

    @property
    def worrying(self) -> bool:
        """It should live, but its heartbeat has stopped."""
        return self.summary.active and self.silent is not None and self.silent > SILENT

    @property
    def reward(self) -> float | None:
        """Mean over the tasks, or the newest of a training; None before the first."""
        if self.result.reward is not None:
            return self.result.reward
        points = self.metrics.quantity("reward")
        return points[-1].y if points else None

    @property
    def scales(self) -> dict[str, tuple[float, float | None]]:
        """Of the curves of `load` what lies at the floor and at the ceiling; None: the largest value."""
        found: dict[str, tuple[float, float | None]] = dict.fromkeys(self.load.names, (0.0, None))
        for gpu in self.gpus:
            found[gpu_busy_series(gpu)] = (0.0, 100.0)
            found[gpu_memory_series(gpu)] = (0.0, None if gpu.total_mib is None else gpu.total_mib / 1024)
        return {name: (0.0, 100.0) if name.endswith("%") else scale for name, scale in found.items()}

    @property
    def step(self) -> str | None:
        """How far it is: `12/100`, or `12` where the end is not known; None before the first numbers."""
        newest = self.metrics.newest
        if newest is None:
            return None
        last = self.metrics.max_step
        return f"{newest[0]:g}" if last is None else f"{newest[0]:g}/{last:g}"

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui runs show --json`."""
        return {
            **self.summary.to_json(),
            "elapsed_seconds": None if self.elapsed is None else round(self.elapsed, 3),
            "silent_seconds": None if self.silent is None else round(self.silent, 3),
            "away_seconds": None if self.away is None else round(self.away, 3),
            "step": self.step,
            "seconds_left": None if self.left is None else round(self.left),
            "cost": self.cost,
            "alarms": [alarm.to_json() for alarm in self.alarms],
            "stages": [stage.to_json() for stage in self.stages],
            "result": self.result.to_json(),
            "metrics": {name: [[point.x, point.y] for point in self.metrics.series(name)] for name in self.metrics.names},
            "gpus": [gpu.to_json() for gpu in self.gpus],
            "servers": [server.to_json() for server in self.servers],
            "load": {name: [[point.at, point.y] for point in self.load.series(name)] for name in self.load.names},
            "attach": list(self.attach) if self.attach else None,
            "problem": self.problem,
            "disk_free_bytes": self.disk_free,
            "events": [event.to_json() for event in self.events],
        }


def stage_view(name: str, service: bool, saved: StageReport | None) -> StageView:
    """A stage from what status.json says of it."""
    if saved is None:
        return StageView(name, "waiting", service)
    state = clean_line(saved.state, 40)
    return StageView(name, state, service, saved.attempt, saved.exit, saved.started, saved.ended, saved.pid)


def read_result(metrics: MetricsReader) -> RunResult:
    """What the numbers of a run tell of its result."""
    rows = result_rows(metrics)
    return RunResult(rows, () if rows else step_rows(metrics))


def step_rows(metrics: MetricsReader) -> tuple[StepRow, ...]:
    """The table of steps, from the lines that tell a reward."""

    def of(quantity: str) -> dict[float, float]:
        return {point.x: point.y for point in metrics.quantity(quantity)}

    stds, losses, lengths, times = (of(name) for name in ("reward_std", "loss", "completion_length", "step_time"))
    return tuple(
        StepRow(point.x, point.y, stds.get(point.x), losses.get(point.x), lengths.get(point.x), times.get(point.x))
        for point in metrics.quantity("reward")[-STEPS:]
    )


def result_rows(metrics: MetricsReader) -> tuple[ResultRow, ...]:
    """The table of tasks, from the lines of metrics that name one."""
    found: dict[str, ResultRow] = {}
    for row in metrics.rows:
        task = row.get("task")
        if isinstance(task, str) and (reward := _float(row.get("reward"))) is not None:
            found[task] = ResultRow(
                task=clean_line(task, 200),
                reward=reward,
                reward_std=_float(row.get("reward_std")),
                episodes=int(_float(row.get("episodes")) or 1),
                turns=_float(row.get("turns")),
                errors=int(_float(row.get("errors")) or 0),
            )
    return tuple(found.values())


def read_gpus(row: Mapping[str, Any]) -> tuple[GpuLoad, ...]:
    """The GPUs in a line of gpu.jsonl."""
    listed = row.get("gpus")
    return tuple(
        GpuLoad(
            int(_float(one.get("index")) or 0),
            _float(one.get("used_mib")),
            _float(one.get("memory_mib", one.get("total_mib"))),
            _float(one.get("utilization")),
        )
        for one in (listed if isinstance(listed, list) else [])[:64]
        if isinstance(one, dict)
    )


def gpu_text(gpu: GpuLoad) -> str:
    """A GPU in a few words."""
    parts = [f"GPU {gpu.index}"]
    if gpu.utilization is not None:
        parts.append(f"{gpu.utilization:.0f} %")
    if gpu.used_mib is not None:
        of = "" if gpu.total_mib is None else f"/{gpu.total_mib / 1024:.0f}"
        parts.append(f"{gpu.used_mib / 1024:.0f}{of} GiB")
    return " ".join(parts)


def server_text(server: ModelServer) -> str:
    """A model server in one line."""
    sample = server.sample
    if not server.answers:
        return f"{server.stage} does not answer: {server.problem}"
    told = (
        (sample.running, "{:g} running"),
        (sample.waiting, "{:g} waiting"),
        (None if sample.kv_cache is None else sample.kv_cache * 100, "KV {:.0f} %"),
        (server.tokens_per_s, "{:.0f} tokens/s"),
    )
    return "  ".join((server.stage, *(words.format(value) for value, words in told if value is not None)))


def gpu_busy_series(gpu: GpuLoad) -> str:
    """Name of the curve of how busy it is."""
    return f"GPU {gpu.index} busy %"


def gpu_memory_series(gpu: GpuLoad) -> str:
    """Name of the curve of its memory."""
    return f"GPU {gpu.index} GiB"


def gpu_load(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line of gpu.jsonl, by the names of their curves."""
    found = {}
    for gpu in read_gpus(row):
        if gpu.utilization is not None:
            found[gpu_busy_series(gpu)] = gpu.utilization
        if gpu.used_mib is not None:
            found[gpu_memory_series(gpu)] = gpu.used_mib / 1024
    return found


def server_load(server: ModelServer) -> dict[str, float]:
    """The numbers of a model server, by the names of their curves."""
    told = {
        "running": server.sample.running,
        "waiting": server.sample.waiting,
        "KV cache %": None if server.sample.kv_cache is None else server.sample.kv_cache * 100,
        "generated tokens/s": server.tokens_per_s,
        "prompt tokens/s": server.prompt_tokens_per_s,
    }
    return {f"{server.stage} {name}": value for name, value in told.items() if value is not None and server.answers}


def time_left(metrics: MetricsReader) -> float | None:
    """Seconds until the last step, if all go like the last ones."""
    newest, last = metrics.newest, metrics.max_step
    if newest is None or last is None or newest[0] >= last:
        return None
    times = [point.y for point in metrics.quantity("step_time")[-20:]]
    if not times:
        name = max(metrics.names, key=lambda name: len(metrics.series(name)), default=None)
        points = [point for point in metrics.series(name)[-20:] if point.at is not None] if name else []
        if len(points) < 2 or points[-1].x <= points[0].x:
            return None
        times = [((points[-1].at or 0.0) - (points[0].at or 0.0)) / (points[-1].x - points[0].x)]
    left = median(times) * (last - newest[0])
    return left if 0 < left < _LONGEST else None


def _float(value: Any) -> float | None:
    return float(value) if is_number(value) else None
