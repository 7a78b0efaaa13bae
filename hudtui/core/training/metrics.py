"""Metrics of a run, read while the run writes them, in bounded memory."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any

STEPS = (
    *(
        "train/global_step",
        "trainer/global_step",
        "training/global_step",
        "current_steps",
        "training_step",
        "step",
    ),
    *(
        "global_step",
        "train_step",
        "train/step",
        "eval/global_step",
        "iteration",
        "training_iteration",
        "_step",
    ),
)
"""Names of the step in a line, the best first: W&B's own `_step` counts its rows, not the steps of
the trainer."""
TIMES = ("time", "timestamp", "_timestamp", "ts", "recorded_at")
"""Names of the time in a line."""
LAST_STEPS = ("max_steps", "total_steps", "num_steps")
"""Names of the last step of the training in a line."""
CURVE_CAP = 4096
"""Most points of a series in memory; beyond that, neighbours are averaged."""
ROW_CAP = 10_000
"""Most lines in memory."""
SERIES_CAP = 500
"""Most series in memory, and as many again of known quantities: a log that invents new names must
not fill it."""
_LONG = 256 * 1024
"""Longest line in bytes; a longer line holds no metrics."""
_DEPTH = 3
_HUGE = 1e300
_FIELDS = 50
"""Most fields of a line in memory."""
_TEXT = 500
"""Longest text of a field, in characters."""
_NAME = 200
"""Longest name of a series, in characters."""
_PLAIN = frozenset({float, int})


@dataclass(frozen=True)
class Quantity:
    """A metric that has a chart of its own."""

    name: str
    """The name that all trainers share here."""
    title: str
    aliases: tuple[str, ...]
    """Names that trainers use, the best first; see `normal`."""
    unit: str = ""


_TRAINERS: tuple[tuple[str, str, str, str], ...] = (
    (
        *("reward", "reward", ""),
        "reward train/reward reward/all/mean reward/mean rewards/mean mean_reward avg_reward "
        "critic/rewards/mean critic/score/mean env/all/reward/total reward/avg_raw_reward "
        "loss/avg_final_rewards train/agg/effective/*/reward/mean train/agg/all/*/reward/mean "
        "train/*/effective/*/reward/mean train/*/all/*/reward/mean env/*/reward/total "
        "objective/rlhf_reward objective/scores avg_raw_reward avg_final_rewards "
        "avg_filtered_reward avg_total_reward rewards/env_reward/mean rewards env/reward_mean",
    ),
    (
        *("reward_std", "reward std", ""),
        "reward_std train/reward_std_dev reward_std_dev reward/all/std reward/std rewards/std "
        "critic/rewards/std train/agg/effective/*/reward/std train/agg/all/*/reward/std "
        "reward/std_reward rewards/env_reward/std std_reward env/reward_std",
    ),
    (
        *("loss", "loss", ""),
        "loss loss/mean loss/train train/loss train_loss policy_loss trainer_loss loss/all/mean "
        "actor/loss actor/pg_loss policy/final_loss policy/policy_loss act_loss total_loss lm_loss "
        "gpt_loss train_mean_nll loss/policy_avg",
    ),
    (
        *("kl", "KL", ""),
        "kl mismatch_kl/all/mean mismatch_kl/mean mismatch_kl loss/kl_policy_ref loss/kl_div "
        "kl_div approx_kl mean_kl train/kl trainer_mismatch_kl actor/kl_loss kl_policy_base "
        "policy/policy_kl loss/avg_kl objective/kl kl_loss kl_penalty actor/ppo_kl "
        "optim/kl_sample_train_v1 approx_policy_kl policy/approxkl_avg gen_kl_error "
        "generation_kl_error kl_divergence",
    ),
    (
        *("entropy", "entropy", ""),
        "entropy entropy/all/mean entropy/mean loss/entropy train/entropy trainer_entropy "
        "actor/entropy optim/entropy policy/policy_entropy policy_entropy objective/entropy "
        "policy/entropy_avg approx_entropy actor/entropy_loss entropy_loss ent_loss",
    ),
    (
        *("learning_rate", "learning rate", ""),
        "learning_rate optim/lr loss/learning_rate train/learning_rate lr trainer_learning_rate "
        "actor/lr policy/policy_lr policy_lr actor_lr",
    ),
    (
        *("tokens_per_s", "tokens/s", ""),
        "tokens_per_s perf/throughput tokens_per_second tokens/s throughput "
        "throughput/tokens_per_s trainer_throughput_tokens_per_sec avg_generation_throughput "
        "tokens_per_second_per_gpu perf/throughput_per_gpu",
    ),
    (
        *("step_time", "step time", "s"),
        "step_time time/step time/step_wall_s time/step_trainer_s timing_s/step perf/time_per_step "
        "timing/step timing/step_total timing/train/total_step_time total_step_time time/total",
    ),
    (
        *("completion_length", "completion length", "tokens"),
        "completions/mean_length completion_length mean_completion_length response_length/mean "
        "response_length seq_len/all/mean seq_len/mean seq_length train/completion_tokens "
        "completion_tokens policy/response_length generate/avg_num_tokens avg_response_length "
        "response_lengths env/all/ac_tokens_per_turn gen_len mean_generation_length "
        "mean_gen_tokens_per_sample train/agg/effective/*/num_output_tokens/mean "
        "train/agg/all/*/num_output_tokens/mean",
    ),
    (
        *("grad_norm", "gradient norm", ""),
        "grad_norm optim/grad_norm actor/grad_norm policy/grad_norm policy/raw_grad_norm "
        "raw_grad_norm actor_grad_norm grad_norm:mean optim/grad_norm:mean loss/grad_norm "
        "trainer_grad_norm gradient_norm",
    ),
    (
        *("eval_reward", "evaluation reward", ""),
        "eval_reward val/reward eval/all/avg_score val-core/*/reward/mean@* val-core/*/acc/mean@* "
        "val-core/*/score/mean@* eval/*/effective/*/avg@* eval/*/all/*/avg@* eval/*/avg@* "
        "validation/accuracy eval/accuracy eval/eval_*_pass1 eval_*_pass1",
    ),
    (*("eval_loss", "evaluation loss", ""), "eval_loss val/loss val_loss validation_loss"),
)
"""For each quantity its name here, its title, its unit, and the names that trainers use, the best
first (see `normal`). `*` stands for anything. They are those of TRL, transformers, verifiers,
prime-rl, ART, verl, OpenRLHF, SkyRL, NeMo RL, the Tinker cookbook, LLaMA-Factory, torchtune and
vLLM. Before a name may stand `train/`; a name of an evaluation begins as in `_EVALUATIONS`."""
_EVALUATIONS = (
    "eval_",
    "eval/",
    "evaluation/",
    "val_",
    "val/",
    "val-core/",
    "val-aux/",
    "validation/",
    "test_",
    "test/",
)
"""Beginnings of the names in a line of an evaluation."""
_SUMMARY = frozenset(
    {"train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos"}
)
"""Names in the line that sums a training up at its end."""

QUANTITIES: tuple[Quantity, ...] = tuple(
    Quantity(name, title, tuple(aliases.split()), unit) for name, title, unit, aliases in _TRAINERS
)
"""The quantities in display order."""
_TRAINED = frozenset(one.name for one in QUANTITIES) - {"eval_reward", "eval_loss"}
"""The quantities that a line of an evaluation does not have."""

_PLACE = {
    alias: (quantity.name, place)
    for quantity in QUANTITIES
    for place, alias in enumerate(quantity.aliases)
}
_PATTERNS = tuple(
    (re.compile(re.escape(alias).replace(r"\*", ".+")), found)
    for alias, found in _PLACE.items()
    if "*" in alias
)
_SPACES = re.compile(r"[\s]+")


def normal(name: str) -> str:
    """Return a name in the form of the aliases: lower case, `_` for spaces, no dots."""
    return _SPACES.sub("_", name.strip().lower().replace(".", ""))


@lru_cache(maxsize=4096)
def _known(name: str) -> tuple[str, int] | None:
    """Return the quantity that a trainer's name stands for, and how good the name is.

    0 is the best.
    """
    name = normal(name).removeprefix("data/")  # verl's file of JSON lines puts the numbers there
    for one in (name, name.removeprefix("train/")):
        if one in _PLACE:
            return _PLACE[one]
        if (
            found := next((found for pattern, found in _PATTERNS if pattern.fullmatch(one)), None)
        ) is not None:
            return found
    for start in _EVALUATIONS:
        if name.startswith(start):
            found = _known(name.removeprefix(start))
            return (
                (f"eval_{found[0]}", found[1] + 1)
                if found is not None and found[0] in ("reward", "loss")
                else None
            )
    return None


def quantity_named(name: str) -> str | None:
    """Return the quantity that a trainer's name stands for; None if it is not a known quantity."""
    found = _known(name)
    return found[0] if found else None


def best_series(quantity: str, names: Iterable[str]) -> str | None:
    """Return the best of a trainer's names for a quantity; None if it has none."""
    best: tuple[int, str] | None = None
    for name in names:
        found = _known(name)
        if found is not None and found[0] == quantity and (best is None or found[1] < best[0]):
            best = (found[1], name)
    return best[1] if best else None


@lru_cache(maxsize=4096)
def reward_part(name: str) -> str | None:
    """Return the name of the part of the reward whose mean a series holds.

    `rewards/NAME`, `rewards/NAME/mean`; else None.
    """
    part = normal(name).removeprefix("train/")
    if not part.startswith("rewards/") or part.endswith("/std") or quantity_named(name) is not None:
        return None
    return name[name.lower().index("rewards/") :].removesuffix("/mean")


@lru_cache(maxsize=4096)
def of_evaluation(name: str) -> bool:
    """Return whether a name is one of an evaluation."""
    return normal(name).removeprefix("data/").startswith(_EVALUATIONS)


def sums_up(names: Iterable[str]) -> bool:
    """Return whether a line with these names sums a training up.

    Its loss is then the mean of all steps, and not of one.
    A line with the loss of a step may hold the time of the training so far.
    """
    found = set(names)
    return any(map(_of_summary, found)) and not found & {"loss", "train/loss"}


@lru_cache(maxsize=4096)
def _of_summary(name: str) -> bool:
    return normal(name).removeprefix("train/") in _SUMMARY


def step_of(row: Mapping[str, Any]) -> float | None:
    """Return the step that a line names; None if it names none."""
    return next((float(row[name]) for name in STEPS if name in row and is_number(row[name])), None)


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a series."""

    x: float
    """The `step` of the line, else the line's number, from 1."""
    y: float
    at: float | None = field(default=None, compare=False)
    """Time of the line in seconds since the epoch; None if it is not known."""


class _Bin:
    """Values of neighbouring steps, of which a curve shows the mean.

    In most curves the value of one step.
    """

    __slots__ = ("at", "before", "count", "high", "low", "newest", "total", "x")

    def __init__(self, point: Point) -> None:
        self.x, self.at, self.newest = point.x, point.at, point.y
        self.low = self.high = self.total = point.y
        self.count = 1
        self.before = point.x
        """The step before the newest one."""

    def again(self, point: Point) -> None:
        """Take another value of the newest step.

        It stands for the step, and the others count for lowest and highest.
        """
        self.total = point.y if self.count == 1 else self.total + (point.y - self.newest)
        self.newest, self.at = point.y, point.at
        self.low, self.high = min(self.low, point.y), max(self.high, point.y)

    def join(self, other: _Bin) -> None:
        """Take the values of the bin that follows."""
        self.before = self.x if other.count == 1 else other.before
        self.x, self.at, self.newest = other.x, other.at, other.newest
        self.total, self.count = self.total + other.total, self.count + other.count
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)


class Curve:
    """A series in bounded memory: one value a step.

    When it is full, each pair of neighbours is replaced by its mean.
    """

    def __init__(self) -> None:
        self._bins: list[_Bin] = []
        self._stride = 1
        self.last: Point | None = None
        """The newest value, not averaged."""

    def goes_back(self, point: Point) -> bool:
        """Return whether a value begins a part that is done again.

        Its step is lower than the newest one, and it is not older.
        """
        last = self.last
        return (
            last is not None
            and _comparable(point.x, last.x)
            and point.x < last.x
            and not _older(point, last)
        )

    def add(self, point: Point) -> None:
        """Add a value.

        One with a lower step than the newest one cuts off what was above it: a training was resumed
        there. A lower step whose time is older is that of another process or of a copy; only steps
        that are not known yet are taken.
        """
        last = self.last
        if last is not None and _comparable(point.x, last.x):
            if point.x < last.x:
                if _older(point, last):
                    self._insert(point)
                    return
                self.cut(point.x)
            elif point.x == last.x and self._bins:
                if not _older(point, last):
                    self._bins[-1].again(point)
                    self.last = point
                return
        self.last = point
        if self._bins and self._bins[-1].count < self._stride:
            self._bins[-1].join(_Bin(point))
        else:
            self._bins.append(_Bin(point))
        if len(self._bins) >= CURVE_CAP:
            for first, second in zip(self._bins[::2], self._bins[1::2], strict=False):
                first.join(second)
            self._bins = self._bins[::2]
            self._stride *= 2

    def _insert(self, point: Point) -> None:
        place = bisect_left(self._bins, point.x, key=lambda one: one.x)
        if self._stride == 1 and self._bins[place].x != point.x:
            self._bins.insert(place, _Bin(point))

    def cut(self, x: float) -> None:
        """Leave out the values from a step on."""
        while self._bins and _comparable(self._bins[-1].x, x) and self._bins[-1].x >= x:
            self._bins.pop()
        end = self._bins[-1] if self._bins else None
        self.last = None if end is None else Point(end.x, end.newest, end.at)

    @property
    def samples(self) -> tuple[list[float], list[float]]:
        """Return times, in seconds since the epoch, and values, where the time is known.

        Quicker than `points`: the load of a cluster has hundreds of curves.
        """
        timed = [one for one in self._bins if one.at is not None]
        return [one.at or 0.0 for one in timed], [one.total / one.count for one in timed]

    @property
    def steps(self) -> int:
        """Return the number of its steps: several values of one, and what was cut, do not count."""
        return sum(one.count for one in self._bins)

    @property
    def points(self) -> tuple[Point, ...]:
        """Return the points in order of `x`; the last one is never a mean."""
        found = [Point(one.x, one.total / one.count, one.at) for one in self._bins]
        if found and (end := self._bins[-1]).count > 1:
            found[-1:] = [
                Point(end.before, (end.total - end.newest) / (end.count - 1), end.at),
                Point(end.x, end.newest, end.at),
            ]
        return tuple(found)

    @property
    def first(self) -> Point:
        """Return the first of `points`."""
        one = self._bins[0]
        return Point(one.x, one.total / one.count, one.at)

    @property
    def span(self) -> tuple[float, float]:
        """Return the lowest and the highest of all values, before any mean was taken."""
        return min(one.low for one in self._bins), max(one.high for one in self._bins)


class Epoch(float):
    """An x that is an epoch.

    A reader turns it into a step when it knows how (see `LogMetricsReader`).
    """


def _comparable(one: float, other: float) -> bool:
    return isinstance(one, Epoch) is isinstance(other, Epoch)


def _older(point: Point, last: Point) -> bool:
    return point.at is not None and last.at is not None and point.at < last.at


@dataclass(frozen=True)
class NotFiniteStreak:
    """Consecutive values that are not finite."""

    name: str
    x: float
    """Step of the first of them."""
    count: int
    """Number of consecutive values, up to the newest value of the series."""


class MetricsReader:
    """Reads a metrics file piece by piece.

    Each line is an object. Its numbers become series by their names, those of nested objects as
    `name/nested`. An incomplete line waits for the rest of it. A line that is not an object is
    skipped and counted in `bad`; values that are not finite are skipped and counted in
    `not_finite`.
    """

    _OTHER = frozenset({*STEPS, *TIMES, *LAST_STEPS})

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False
        self._curves: dict[str, Curve] = {}
        self._wrong: dict[str, NotFiniteStreak] = {}
        self.rows: deque[Mapping[str, Any]] = deque(maxlen=ROW_CAP)
        """The newest lines, without nested values."""
        self.count = 0
        """Number of lines so far."""
        self.bad = 0
        self.not_finite = 0
        self.max_step: float | None = None
        """The last step of the training, if a line named it."""
        self._leading: set[str] = set()
        """The series whose going back cuts all others too: those of reward and loss."""
        self._summary: set[str] = set()
        """The series of the line that sums a training up: they are no quantities of its steps."""

    @property
    def steps(self) -> int:
        """Number of steps of the longest series.

        Where there are quantities of a training, it is one of these: the epoch stands in the lines
        of evaluations, too.
        """
        trained = [
            curve for name, curve in self._curves.items() if quantity_named(name) in _TRAINED
        ]
        curves = trained or self._curves.values()
        return max((curve.steps for curve in curves), default=0)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the series, in order of appearance."""
        return tuple(name for name, curve in self._curves.items() if curve.last is not None)

    @property
    def wrong(self) -> tuple[NotFiniteStreak, ...]:
        """The series whose newest value is not finite."""
        return tuple(self._wrong.values())

    def series(self, name: str) -> tuple[Point, ...]:
        """Return the points of a series; empty if the series does not exist."""
        curve = self._curves.get(name)
        return curve.points if curve else ()

    def samples(self, name: str) -> tuple[list[float], list[float]]:
        """Return times and values of a series; see `Curve.samples`."""
        curve = self._curves.get(name)
        return curve.samples if curve else ([], [])

    def first(self, name: str) -> Point | None:
        """Return the first point of a series."""
        curve = self._curves.get(name)
        return curve.first if curve and curve.last else None

    def last(self, name: str) -> Point | None:
        """Return the newest value of a series, not averaged."""
        curve = self._curves.get(name)
        return curve.last if curve else None

    def span(self, name: str) -> tuple[float, float]:
        """Return the lowest and the highest value of a series.

        All values of its lines count, also several of one step.
        """
        return self._curves[name].span

    def named(self, quantity: str) -> str | None:
        """Return the name of the series of a quantity; None if the trainer writes none."""
        return best_series(
            quantity,
            (
                name
                for name, curve in self._curves.items()
                if name not in self._summary and curve.last
            ),
        )

    def quantity(self, quantity: str) -> tuple[Point, ...]:
        """Return the points of a quantity, under any of its names."""
        name = self.named(quantity)
        return self.series(name) if name else ()

    @property
    def told(self) -> dict[str, str]:
        """Return the available quantities in display order: quantity -> name of the series."""
        found = {quantity.name: self.named(quantity.name) for quantity in QUANTITIES}
        return {quantity: name for quantity, name in found.items() if name}

    @property
    def parts(self) -> dict[str, str]:
        """Return the parts of the reward: how a chart calls them -> name of the series."""
        return {part: name for name in self.names if (part := reward_part(name)) is not None}

    @property
    def newest(self) -> tuple[float, float | None] | None:
        """Step and time of the newest line with numbers."""
        lasts = [last for name in self._curves if (last := self.last(name)) is not None]
        if not lasts:
            return None
        newest = max(lasts, key=lambda point: point.x)
        return newest.x, newest.at

    def feed(self, data: bytes) -> int:
        """Read more bytes of the file and return the number of lines that they complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        before = self.count
        for line in lines:
            if self._skipping:
                self._skipping, self.bad = False, self.bad + 1
            elif len(line) > _LONG:
                self.bad += 1
            elif line.strip():
                self._take(line)
            else:
                self._blank_line(line)
        if len(self._rest) > _LONG:
            self._rest, self._skipping = b"", True
        return self.count - before

    def add(
        self, row: Mapping[str, Any], *, at: float | None = None, x: float | None = None
    ) -> None:
        """Add the numbers of one line.

        Args:
            row: The line.
            at: Its time, if it has none itself.
            x: Its step, whatever it names itself; None: the one that it names, or else its number.
        """
        self.rows.append(_held(row))
        self.count += 1
        if x is None:
            x = found if (found := step_of(row)) is not None else float(self.count)
        moment = next(
            (found for name in TIMES if (found := _moment(row.get(name))) is not None), at
        )
        last = next((float(row[name]) for name in LAST_STEPS if is_number(row.get(name))), None)
        if last is not None and last > 0:
            self.max_step = last
        values = [
            (name, value)
            for name, value in _flat(row)
            if name not in self._OTHER and len(name) <= _NAME
        ]
        if sums_up(row):
            self._summary.update(name for name, _ in values[:_FIELDS] if name not in self._curves)
        if any(
            name in self._leading and self._curves[name].goes_back(Point(x, 0.0, moment))
            for name, _ in values
        ):
            self._cut(x)
        for name, value in values:
            if is_number(value):
                curve = self._curves.get(name)
                if curve is None:
                    if len(self._curves) >= SERIES_CAP * (2 if quantity_named(name) else 1):
                        continue
                    curve = self._curves[name] = Curve()
                    if quantity_named(name) in ("reward", "loss"):
                        self._leading.add(name)
                curve.add(Point(x, float(value), moment))
                self._wrong.pop(name, None)
            else:
                self.not_finite += 1
                before = self._wrong.get(name)
                if before is not None or len(self._wrong) < SERIES_CAP:
                    self._wrong[name] = NotFiniteStreak(
                        name, before.x if before else x, before.count + 1 if before else 1
                    )

    def _cut(self, x: float) -> None:
        """Leave out what all series have from a step on.

        The training was resumed there, and does it again.
        """
        for curve in self._curves.values():
            curve.cut(x)

    def _blank_line(self, line: bytes) -> None:
        """Take a line without any words."""

    def _take(self, line: bytes) -> None:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            self.add(row)
        else:
            self.bad += 1


def _held(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the plain values of a line, cut so that `ROW_CAP` lines take a bounded memory."""
    short = len(row) <= _FIELDS and max(map(len, row), default=0) <= _NAME
    if short and _PLAIN.issuperset(map(type, row.values())):
        return row  # most lines are numbers alone: they are not copied
    plain = ((name, row[name]) for name in islice(row, _FIELDS) if len(name) <= _NAME)
    return {
        name: value[:_TEXT] if isinstance(value, str) else value
        for name, value in plain
        if value is None or isinstance(value, str | int | float)
    }


def _flat(
    row: Mapping[str, Any], prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, int | float]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            if depth < _DEPTH:
                yield from _flat(value, f"{prefix}{name}/", depth + 1)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", value


def is_number(value: Any) -> bool:
    """Return whether the value is a finite number, and not a boolean."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value) and abs(value) < _HUGE
    except OverflowError:
        return False


def _moment(value: Any) -> float | None:
    """Return seconds since the epoch for a number of seconds or milliseconds, or an ISO 8601 text.

    None for anything else.
    """
    if is_number(value):
        seconds = float(value) / (1000 if value > 1e11 else 1)
        return seconds if 1e9 < seconds < 1e10 else None
    if isinstance(value, str) and 19 <= len(value) <= 40:
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            return None
    return None
