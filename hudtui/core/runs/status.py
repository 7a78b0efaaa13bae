"""The state of a run at one moment, as values, and their text and JSON forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from hudtui.core.plain import to_plain
from hudtui.core.remote.tmux import attach_argv
from hudtui.core.runs.values import RunEvent, RunSummary, iso_time
from hudtui.core.text import clean_line, step_text
from hudtui.core.training.metrics import MetricsReader, is_number

if TYPE_CHECKING:
    from hudtui.core.diagnosis.facts import Alarm
    from hudtui.core.diagnosis.values import Diagnosis
    from hudtui.core.runs.reports import StageReport
    from hudtui.core.runs.vllm import ModelServer

STEPS = 500
"""Largest number of steps in a result; the newest are kept."""
_GPU_SERIES = re.compile(r"GPU (\d+) (busy %|GiB|°C|W)")
_GPU_TITLES = {
    "busy %": "GPU utilization %",
    "GiB": "GPU memory GiB",
    "°C": "GPU temperature °C",
    "W": "GPU power W",
}
_WANDB_UNIT = re.compile(r"(gpu|tpu|trn|cpu|ipu)\.(\d{1,4})\.(.+)")
"""A series of W&B's of one GPU, or of another processor."""
_WANDB_TITLES = {
    "gpu": "utilization %",
    "memoryAllocated": "memory %",
    "temp": "temperature °C",
    "powerWatts": "power W",
}
_WANDB_MACHINE = "/l:"
"""What stands in a series of W&B before the name of its machine, where several write one run."""
_SHARES = ("%", "percent")
"""The ends of the names of series from 0 to 100."""
_LONGEST = 10 * 365 * 86400.0
"""Largest estimate of the remaining time, in seconds; a larger one is not shown."""


@dataclass(frozen=True)
class StageView:
    """The state of one stage."""

    name: str
    state: str
    """`waiting`, `starting`, `running`, `ready` (a service that answers requests) or `ended`."""
    service: bool = False
    attempt: int = 0
    exit: int | None = None
    """Exit status of the stage; `-N` if signal N ended it."""
    started: float | None = None
    ended: float | None = None
    pid: int | None = None

    def moved(self, seconds: float) -> StageView:
        """Return the stage with its times by another clock, which is so much ahead."""
        started, ended = (None if at is None else at + seconds for at in (self.started, self.ended))
        return replace(self, started=started, ended=ended)

    def to_json(self) -> dict[str, Any]:
        return to_plain(self) | {"started": iso_time(self.started), "ended": iso_time(self.ended)}


@dataclass(frozen=True)
class ResultRow:
    """The result of one task."""

    task: str
    reward: float | None
    """None if all its episodes broke off."""
    reward_std: float | None
    episodes: int
    turns: float | None
    errors: int


@dataclass(frozen=True)
class StepRow:
    """The result of one training step."""

    step: float
    reward: float
    reward_std: float | None = None
    loss: float | None = None
    completion_length: float | None = None
    """Mean length of a reply, in tokens."""
    step_time: float | None = None
    """In seconds."""


@dataclass(frozen=True)
class RunResult:
    """The results of a run so far: its tasks, or the steps of a training."""

    rows: tuple[ResultRow, ...] = ()
    steps: tuple[StepRow, ...] = ()
    """The newest `STEPS` steps, in order."""

    @property
    def reward(self) -> float | None:
        """Return the mean reward over the tasks that have one, or None without any."""
        rewards = [row.reward for row in self.rows if row.reward is not None]
        return fmean(rewards) if rewards else None

    @property
    def episodes(self) -> int:
        return sum(row.episodes for row in self.rows)

    @property
    def errors(self) -> int:
        """Return the number of episodes that ended with an error."""
        return sum(row.errors for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "reward": self.reward,
            "episodes": self.episodes,
            "errors": self.errors,
            "tasks": [to_plain(row) for row in self.rows],
            "steps": [to_plain(row) for row in self.steps],
        }


@dataclass(frozen=True)
class GpuLoad:
    """The load of one GPU at one moment."""

    index: int
    used_mib: float | None = None
    total_mib: float | None = None
    utilization: float | None = None
    """Utilization of the GPU, in percent."""
    celsius: float | None = None
    watts: float | None = None


@dataclass(frozen=True)
class MachineLoad:
    """The load of a machine at one moment; None for values that it does not report."""

    cpu: float | None = None
    """Utilization of all processors, in percent."""
    cpus: float | None = None
    """Number of processors."""
    memory_used: float | None = None
    """Used memory in bytes, like all sizes here; in a container, memory and limit of the
    container."""
    memory_total: float | None = None
    disk_used: float | None = None
    """Used space of the disk with the run's folder, in bytes."""
    disk_total: float | None = None
    disk_free: float | None = None
    """Free space that a user may write, in bytes; less than the rest of the disk if a part is
    reserved."""
    received: float | None = None
    """Bytes received per second, over all networks except loopback."""
    sent: float | None = None


_MAY_LIVE = ", though the run has ended: hudtui runs stop ends it"


@dataclass(frozen=True)
class NodeView:
    """The state of a node of a run beside node 0."""

    node: int
    host: str
    state: str
    """State of its part of the run, as its supervisor says; empty until it says so."""
    why: str | None = None
    silent: float | None = None
    """Seconds since its supervisor's last heartbeat; None if its part has ended or not started."""
    problem: str | None = None
    """Why it cannot be read."""
    left: bool = False
    """True if the run has ended, and this node has not said so."""
    gpus: tuple[GpuLoad, ...] = ()
    disk_free: int | None = None
    """Free bytes on its disk."""
    late: float = 0.0
    """Seconds by which its clock is behind that of node 0, where they differ much."""
    load: MetricsReader = field(default_factory=MetricsReader)
    """Load of its GPUs and of its machine over time."""

    @property
    def title(self) -> str:
        """Return the node as people know it."""
        return f"node {self.node} ({clean_line(self.host, 60)})"

    @property
    def text(self) -> str:
        """Return the state in a few words."""
        if self.problem is not None:
            return f"{self.host}: not known: {self.problem}"
        beat = "" if self.silent is None else f", heartbeat {self.silent:.0f} s ago"
        why = f": {clean_line(self.why, 300)}" if self.why else ""
        return f"{self.host}: {self.state or 'waiting'}{why}{beat}{_MAY_LIVE if self.left else ''}"


@dataclass(frozen=True)
class RunView:
    """All facts about one run that commands and screens show."""

    summary: RunSummary
    stages: tuple[StageView, ...] = ()
    ahead: float = 0.0
    """Seconds by which this computer's clock is ahead of the machine's. Times of stages and of the
    start are by the machine's."""
    elapsed: float | None = None
    """In seconds."""
    silent: float | None = None
    """Seconds since the supervisor's last heartbeat; None if the run has ended or has not
    started."""
    result: RunResult = field(default_factory=RunResult)
    metrics: MetricsReader = field(default_factory=MetricsReader)
    """The run's metrics; `metrics.series("reward")` is the reward curve."""
    about: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What an external run says of itself: `settings` and `machine`, each by its names."""
    unread: str | None = None
    """A sentence about steps whose metrics were not read; None if all were."""
    disk_free: int | None = None
    """Free bytes on the machine's disk."""
    events: tuple[RunEvent, ...] = ()
    problem: str | None = None
    """A sentence about data that could not be read or stored, so that the view may be out of
    date."""
    nodes: tuple[NodeView, ...] = ()
    """The nodes of the run beside node 0, whose state is that of the run."""
    away: float | None = None
    """Seconds since the machine's last answer, None while it answers. All other fields are from
    that time."""
    alarms: tuple[Alarm, ...] = ()
    """The run's problems, the worst first."""
    diagnosis: Diagnosis | None = None
    """What its metrics and its alarms say about its health; None where nothing is trained."""
    gpus: tuple[GpuLoad, ...] = ()
    machine: MachineLoad | None = None
    cost: float | None = None
    """Cost of the rented machine so far, in `summary.currency`."""
    servers: tuple[ModelServer, ...] = ()
    """The model servers that have answered at least once."""
    load: MetricsReader = field(default_factory=MetricsReader)
    """Load of GPUs, model servers and the machine over time."""
    left: float | None = None
    """Estimated seconds until the last step, from the pace of the newest steps; None if unknown."""
    expected_cost: float | None = None
    """Expected cost of the rented machine until the last step, in `summary.currency`; None if
    unknown."""

    @property
    def windows(self) -> tuple[str, ...]:
        """Return the names of all logs, existing or future, in the order of the stages."""
        return tuple(stage.name for stage in self.stages)

    @property
    def attach(self) -> tuple[str, ...] | None:
        """Return the command that attaches to the run's tmux session, or None without a session."""
        return attach_argv(self.summary.session) if self.no_terminal is None else None

    @property
    def no_terminal(self) -> str | None:
        """Return why the run has no tmux session, or None if it has one."""
        run = self.summary
        if not run.active:
            return "the run has ended, and so has its session"
        if run.mode == "processes":
            return "the run consists of detached processes, without tmux"
        # The supervisor opens the session for the first stage, after it has reported its own start.
        begun = run.stage is not None or any(stage.started for stage in self.stages)
        return None if run.mode == "tmux" and begun else "the run's first stage has not started yet"

    @property
    def worrying(self) -> bool:
        """Return whether the run is active, but its heartbeat has stopped."""
        return any(alarm.kind == "heartbeat" for alarm in self.alarms)

    @property
    def open_alarms(self) -> tuple[Alarm, ...]:
        """Return the alarms that the user has not acknowledged."""
        return tuple(alarm for alarm in self.alarms if not alarm.acknowledged)

    @property
    def reward(self) -> float | None:
        """Return the mean reward over the tasks, or the newest reward of a training.

        None before the first.
        """
        if self.result.reward is not None:
            return self.result.reward
        points = self.metrics.quantity("reward")
        return points[-1].y if points else None

    @property
    def scales(self) -> dict[str, tuple[float, float | None]]:
        """Return the lowest and highest value of the axis of each `load` curve.

        None stands for the curve's maximum.
        """
        found: dict[str, tuple[float, float | None]] = dict.fromkeys(self.load.names, (0.0, None))
        for gpu in self.gpus:
            found[gpu_busy_series(gpu)] = (0.0, 100.0)
            found[gpu_memory_series(gpu)] = (
                0.0,
                None if gpu.total_mib is None else gpu.total_mib / 1024,
            )
        if self.machine is not None:
            for name, total in (
                ("memory GiB", self.machine.memory_total),
                ("disk GiB", self.machine.disk_total),
            ):
                found[name] = (0.0, None if total is None else total / 2**30)
        return {name: (0.0, 100.0) if _is_share(name) else scale for name, scale in found.items()}

    @property
    def load_groups(self) -> dict[str, dict[str, str]]:
        """Return the curves of `load` to show in one chart.

        Title -> name of the curve -> its label in the chart.
        """
        found: dict[str, dict[str, str]] = {}
        for name in self.load.names:
            if (unit := unit_of(name)) is not None:
                found.setdefault(unit[0], {})[name] = unit[1]
            elif name.startswith("network "):
                found.setdefault("network MB/s", {})[name] = name.removeprefix("network ")
            else:
                found[name] = {name: ""}
        return found

    @property
    def step(self) -> str | None:
        """Return the progress.

        `12/100`, or `12` if the number of steps is unknown; None before the first metrics.
        """
        newest = self.metrics.newest
        if newest is None:
            return None
        last = self.metrics.max_step
        done = step_text(newest[0])
        return done if last is None else f"{done}/{step_text(last)}"

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
            "expected_cost": self.expected_cost,
            "alarms": [alarm.to_json() for alarm in self.alarms],
            "stages": [stage.to_json() for stage in self.stages],
            **(
                {"nodes": [to_plain(node, without=("load",)) for node in self.nodes]}
                if self.nodes
                else {}
            ),
            "result": self.result.to_json(),
            "metrics": {
                name: [[point.x, point.y] for point in self.metrics.series(name)]
                for name in self.metrics.names
            },
            "gpus": [to_plain(gpu) for gpu in self.gpus],
            "machine_load": None if self.machine is None else to_plain(self.machine),
            "servers": [server.to_json() for server in self.servers],
            "load": {
                name: [[point.at, point.y] for point in self.load.series(name)]
                for name in self.load.names
            },
            "attach": list(self.attach) if self.attach else None,
            "problem": self.problem,
            "disk_free_bytes": self.disk_free,
            "events": [event.to_json() for event in self.events],
        }


def stage_view(name: str, service: bool, saved: StageReport | None) -> StageView:
    """Return the view of a stage from its entry in `status.json`.

    A stage without an entry is waiting.
    """
    if saved is None:
        return StageView(name, "waiting", service)
    state = clean_line(saved.state, 40)
    return StageView(
        name, state, service, saved.attempt, saved.exit, saved.started, saved.ended, saved.pid
    )


def read_result(metrics: MetricsReader) -> RunResult:
    """Return the results that a run's metrics contain."""
    rows = result_rows(metrics)
    return RunResult(rows, () if rows else step_rows(metrics))


def step_rows(metrics: MetricsReader) -> tuple[StepRow, ...]:
    """Return the table of steps, from the metrics rows with a reward."""

    def of(quantity: str) -> dict[float, float]:
        return {point.x: point.y for point in metrics.quantity(quantity)}

    stds, losses, lengths, times = (
        of(name) for name in ("reward_std", "loss", "completion_length", "step_time")
    )
    return tuple(
        StepRow(
            point.x,
            point.y,
            stds.get(point.x),
            losses.get(point.x),
            lengths.get(point.x),
            times.get(point.x),
        )
        for point in metrics.quantity("reward")[-STEPS:]
    )


def result_rows(metrics: MetricsReader) -> tuple[ResultRow, ...]:
    """Return the table of tasks, from the metrics rows that name a task."""
    found: dict[str, ResultRow] = {}
    for row in metrics.rows:
        task = row.get("task")
        reward, errors = _float(row.get("reward")), int(_float(row.get("errors")) or 0)
        if isinstance(task, str) and (reward is not None or errors):
            found[task] = ResultRow(
                task=clean_line(task, 200),
                reward=reward,
                reward_std=_float(row.get("reward_std")),
                episodes=int(_float(row.get("episodes")) or 1),
                turns=_float(row.get("turns")),
                errors=errors,
            )
    return tuple(found.values())


def read_gpus(row: Mapping[str, Any]) -> tuple[GpuLoad, ...]:
    """Return the GPUs in a row of `gpu.jsonl`."""
    listed = row.get("gpus")
    return tuple(
        GpuLoad(
            int(_float(one.get("index")) or 0),
            _float(one.get("used_mib")),
            _float(one.get("memory_mib", one.get("total_mib"))),
            _float(one.get("utilization")),
            _float(one.get("celsius")),
            _float(one.get("watts")),
        )
        for one in (listed if isinstance(listed, list) else [])[:64]
        if isinstance(one, dict)
    )


def read_machine(row: Mapping[str, Any]) -> MachineLoad | None:
    """Return the load of the machine in a row of `gpu.jsonl`; None in a row of GPUs."""
    told = row.get("machine")
    if not isinstance(told, dict):
        return None
    return MachineLoad(
        **{field.name: _float(told.get(field.name)) for field in fields(MachineLoad)}
    )


def gpu_text(gpu: GpuLoad) -> str:
    """Return a short description of a GPU's load."""
    parts = [f"GPU {gpu.index}"]
    if gpu.utilization is not None:
        parts.append(f"{gpu.utilization:.0f} %")
    if gpu.used_mib is not None:
        of = "" if gpu.total_mib is None else f"/{gpu.total_mib / 1024:.0f}"
        parts.append(f"{gpu.used_mib / 1024:.0f}{of} GiB")
    if gpu.celsius is not None:
        parts.append(f"{gpu.celsius:.0f} °C")
    if gpu.watts is not None:
        parts.append(f"{gpu.watts:.0f} W")
    return " ".join(parts)


def machine_text(machine: MachineLoad) -> str:
    """Return a one-line description of a machine's load."""
    told = (
        (machine.cpu, f"CPU {machine.cpu:.0f} %" if machine.cpu is not None else ""),
        (
            machine.memory_total,
            f"memory {_gib(machine.memory_used)}/{_gib(machine.memory_total)} GiB",
        ),
        (machine.disk_total, f"disk {_gib(machine.disk_used)}/{_gib(machine.disk_total)} GiB"),
        (
            machine.received,
            f"network {rate_text(machine.received)} in, {rate_text(machine.sent)} out",
        ),
    )
    return "  ".join(words for value, words in told if value is not None)


def rate_text(rate: float | None) -> str:
    """Return bytes per second as text in decimal units: `1.2 MB/s`."""
    size, unit = rate or 0.0, "B/s"
    for unit in ("B/s", "kB/s", "MB/s", "GB/s"):
        if size < 1000 or unit == "GB/s":
            break
        size /= 1000
    return f"{size:.1f} {unit}" if 0 < size < 10 and unit != "B/s" else f"{size:.0f} {unit}"


def _gib(size: float | None) -> str:
    gib = (size or 0.0) / 2**30
    return f"{gib:.1f}" if gib < 10 else f"{gib:.0f}"


def server_text(server: ModelServer) -> str:
    """Return a one-line description of a model server."""
    sample = server.sample
    if not server.answers:
        return f"{server.stage} does not answer: {server.problem}"
    told = (
        (sample.running, "{:g} running"),
        (sample.waiting, "{:g} waiting"),
        (None if sample.kv_cache is None else sample.kv_cache * 100, "KV {:.0f} %"),
        (server.tokens_per_s, "{:.0f} tokens/s"),
    )
    return "  ".join(
        (server.stage, *(words.format(value) for value, words in told if value is not None))
    )


def unit_of(name: str) -> tuple[str, str] | None:
    """Return what a curve measures, and the GPU or machine that it is of: title and label.

    None for one that is of no GPU, and of the run's only machine.
    """
    if (gpu := _GPU_SERIES.fullmatch(name)) is not None:
        return _GPU_TITLES[gpu[2]], f"GPU {gpu[1]}"
    name, _, machine = name.partition(_WANDB_MACHINE)
    if (unit := _WANDB_UNIT.fullmatch(name)) is not None:
        kind, title = unit[1].upper(), _WANDB_TITLES.get(unit[3], unit[3])
        return f"{kind} {title}", f"{machine} {kind} {unit[2]}".strip()
    return (name, machine) if machine else None


def _is_share(name: str) -> bool:
    title, _ = unit_of(name) or (name, "")
    return title.lower().endswith(_SHARES)


def gpu_busy_series(gpu: GpuLoad) -> str:
    """Return the name of the GPU's utilization curve."""
    return f"GPU {gpu.index} busy %"


def gpu_memory_series(gpu: GpuLoad) -> str:
    """Return the name of the GPU's memory curve."""
    return f"GPU {gpu.index} GiB"


def gpu_load(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the values of a row of `gpu.jsonl`, by curve name."""
    found = {}
    for gpu in read_gpus(row):
        if gpu.utilization is not None:
            found[gpu_busy_series(gpu)] = gpu.utilization
        if gpu.used_mib is not None:
            found[gpu_memory_series(gpu)] = gpu.used_mib / 1024
        if gpu.celsius is not None:
            found[f"GPU {gpu.index} °C"] = gpu.celsius
        if gpu.watts is not None:
            found[f"GPU {gpu.index} W"] = gpu.watts
    machine = read_machine(row) or MachineLoad()
    told = {
        "CPU %": machine.cpu,
        "memory GiB": None if machine.memory_used is None else machine.memory_used / 2**30,
        "disk GiB": None if machine.disk_used is None else machine.disk_used / 2**30,
        "network in MB/s": None if machine.received is None else machine.received / 1e6,
        "network out MB/s": None if machine.sent is None else machine.sent / 1e6,
    }
    return found | {name: value for name, value in told.items() if value is not None}


def server_load(server: ModelServer) -> dict[str, float]:
    """Return the values of a model server's answer, by curve name."""
    told = {
        "running": server.sample.running,
        "waiting": server.sample.waiting,
        "KV cache %": None if server.sample.kv_cache is None else server.sample.kv_cache * 100,
        "generated tokens/s": server.tokens_per_s,
        "prompt tokens/s": server.prompt_tokens_per_s,
    }
    return {
        f"{server.stage} {name}": value
        for name, value in told.items()
        if value is not None and server.answers
    }


def time_left(metrics: MetricsReader) -> float | None:
    """Return the estimated seconds until the last step, from the pace of the newest steps.

    None if unknown.
    """
    newest, last = metrics.newest, metrics.max_step
    if newest is None or last is None or newest[0] >= last:
        return None
    times = [point.y for point in metrics.quantity("step_time")[-20:]]
    if not times:
        name = max(metrics.names, key=lambda name: len(metrics.series(name)), default=None)
        points = (
            [point for point in metrics.series(name)[-20:] if point.at is not None] if name else []
        )
        if len(points) < 2 or points[-1].x <= points[0].x:
            return None
        times = [((points[-1].at or 0.0) - (points[0].at or 0.0)) / (points[-1].x - points[0].x)]
    left = median(times) * (last - newest[0])
    return left if 0 < left < _LONGEST else None


def _float(value: Any) -> float | None:
    return float(value) if is_number(value) else None
