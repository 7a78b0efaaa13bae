"""Metrics of a run, read while the run writes them, in bounded memory."""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

STEPS = ("training_step", "step", "global_step", "_step", "train/global_step")
"""Names of the step in a line."""
TIMES = ("time", "timestamp", "_timestamp", "ts", "recorded_at")
"""Names of the time in a line."""
LAST_STEPS = ("max_steps", "total_steps", "num_steps")
"""Names of the last step of the training in a line."""
CURVE_CAP = 4096
"""Most points of a series in memory; beyond that, neighbours are averaged."""
ROW_CAP = 10_000
"""Most lines in memory."""
SERIES_CAP = 500
"""Most series in memory: a log that invents new names must not fill it."""
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


@dataclass(frozen=True)
class Quantity:
    """A metric that has a chart of its own."""

    name: str
    """The name that all trainers share here."""
    title: str
    aliases: tuple[str, ...]
    """Names that trainers use, the best first; see `normal`."""
    unit: str = ""


QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        "reward",
        "reward",
        (
            *("reward", "train/reward", "reward/all/mean", "reward/mean", "rewards/mean", "mean_reward", "avg_reward"),
            *("eval_reward", "val/reward", "rewards/env_reward/mean"),
        ),
    ),
    Quantity(
        "reward_std",
        "reward std",
        (
            *("reward_std", "train/reward_std_dev", "reward_std_dev", "reward/all/std", "reward/std", "rewards/std"),
            *("rewards/env_reward/std", "std_reward"),
        ),
    ),
    Quantity(
        "loss",
        "loss",
        ("loss", "loss/mean", "loss/train", "train/loss", "train_loss", "policy_loss", "trainer_loss", "loss/all/mean"),
    ),
    Quantity(
        "kl",
        "KL",
        (
            *("kl", "mismatch_kl/all/mean", "mismatch_kl/mean", "mismatch_kl", "loss/kl_policy_ref", "loss/kl_div", "kl_div"),
            *("approx_kl", "mean_kl", "train/kl", "trainer_mismatch_kl"),
        ),
    ),
    Quantity(
        "entropy", "entropy", ("entropy", "entropy/all/mean", "entropy/mean", "loss/entropy", "train/entropy", "trainer_entropy")
    ),
    Quantity(
        "learning_rate",
        "learning rate",
        ("learning_rate", "optim/lr", "loss/learning_rate", "train/learning_rate", "lr", "trainer_learning_rate"),
    ),
    Quantity(
        "tokens_per_s",
        "tokens/s",
        (
            *("tokens_per_s", "perf/throughput", "tokens_per_second", "tokens/s", "throughput", "throughput/tokens_per_s"),
            *("trainer_throughput_tokens_per_sec", "avg_generation_throughput"),
        ),
    ),
    Quantity("step_time", "step time", ("step_time", "time/step", "time/step_wall_s", "time/step_trainer_s"), "s"),
    Quantity(
        "completion_length",
        "completion length",
        (
            *("completions/mean_length", "completion_length", "mean_completion_length", "seq_len/all/mean", "seq_len/mean"),
            *("seq_length", "train/completion_tokens", "completion_tokens"),
        ),
        "tokens",
    ),
)
"""The quantities in display order."""

_PLACE = {alias: (quantity.name, place) for quantity in QUANTITIES for place, alias in enumerate(quantity.aliases)}
_SPACES = re.compile(r"[\s]+")


def normal(name: str) -> str:
    """Return a name in the form of the aliases: lower case, `_` for spaces, no dots."""
    return _SPACES.sub("_", name.strip().lower().replace(".", ""))


def quantity_named(name: str) -> str | None:
    """Return the quantity that a trainer's name stands for; None if it is not a known quantity."""
    found = _PLACE.get(normal(name))
    return found[0] if found else None


def best_series(quantity: str, names: Iterable[str]) -> str | None:
    """Return the best of a trainer's names for a quantity; None if it has none."""
    best: tuple[int, str] | None = None
    for name in names:
        found = _PLACE.get(normal(name))
        if found is not None and found[0] == quantity and (best is None or found[1] < best[0]):
            best = (found[1], name)
    return best[1] if best else None


@dataclass(frozen=True)
class Point:
    """One value of a series."""

    x: float
    """The `step` of the line, else the line's number, from 1."""
    y: float
    at: float | None = field(default=None, compare=False)
    """Time of the line in seconds since the epoch; None if it is not known."""


class Curve:
    """A series in bounded memory. When it is full, each pair of neighbours is replaced by its mean."""

    def __init__(self) -> None:
        self._points: list[Point] = []
        self._bucket: list[Point] = []
        self._stride = 1
        self._ordered = True
        self.count = 0
        """Number of values added so far."""
        self.last: Point | None = None
        """The newest value, not averaged."""

    def add(self, point: Point) -> None:
        if self.last is not None and point.x <= self.last.x:
            self._ordered = False
        self.count += 1
        self.last = point
        if self._stride == 1:
            self._points.append(point)
        else:
            self._bucket.append(point)
            if len(self._bucket) == self._stride:
                self._points.append(_mean(self._bucket))
                self._bucket.clear()
        if len(self._points) >= CURVE_CAP:
            self._points = [_mean(self._points[place : place + 2]) for place in range(0, len(self._points), 2)]
            self._stride *= 2

    @property
    def points(self) -> tuple[Point, ...]:
        """Return the points in order of `x`. Of several with the same `x`, as a resumed training writes them, the last."""
        found = [*self._points, *([_mean(self._bucket)] if self._bucket else [])]
        if self._ordered:
            return tuple(found)
        return tuple(sorted({point.x: point for point in found}.values(), key=lambda point: point.x))


def _mean(points: list[Point]) -> Point:
    if len(points) == 1:
        return points[0]
    last, count = points[-1], len(points)
    return Point(last.x, sum(point.y / count for point in points), last.at)


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

    Each line is an object. Its numbers become series by their names, those of nested objects as `name/nested`. An incomplete line
    waits for the rest of it. A line that is not an object is skipped and counted in `bad`; values that are not finite are skipped
    and counted in `not_finite`.
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

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the series, in order of appearance."""
        return tuple(self._curves)

    @property
    def wrong(self) -> tuple[NotFiniteStreak, ...]:
        """The series whose newest value is not finite."""
        return tuple(self._wrong.values())

    def series(self, name: str) -> tuple[Point, ...]:
        """Return the points of a series; empty if the series does not exist."""
        curve = self._curves.get(name)
        return curve.points if curve else ()

    def last(self, name: str) -> Point | None:
        """Return the newest value of a series, not averaged."""
        curve = self._curves.get(name)
        return curve.last if curve else None

    def named(self, quantity: str) -> str | None:
        """Return the name of the series of a quantity; None if the trainer writes none."""
        return best_series(quantity, self._curves)

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
    def newest(self) -> tuple[float, float | None] | None:
        """Step and time of the newest line with numbers."""
        lasts = [curve.last for curve in self._curves.values() if curve.last is not None]
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
        if len(self._rest) > _LONG:
            self._rest, self._skipping = b"", True
        return self.count - before

    def add(self, row: Mapping[str, Any], *, at: float | None = None) -> None:
        """Add the numbers of one line.

        `at` is the time of the line, if the line itself has none.
        """
        self.rows.append(_held(row))
        self.count += 1
        x = next((float(row[name]) for name in STEPS if is_number(row.get(name))), float(self.count))
        moment = next((found for name in TIMES if (found := _moment(row.get(name))) is not None), at)
        last = next((float(row[name]) for name in LAST_STEPS if is_number(row.get(name))), None)
        if last is not None and last > 0:
            self.max_step = last
        for name, value in _flat(row):
            if name in self._OTHER or len(name) > _NAME:
                continue
            if is_number(value):
                curve = self._curves.get(name)
                if curve is None:
                    if len(self._curves) >= SERIES_CAP:
                        continue
                    curve = self._curves[name] = Curve()
                curve.add(Point(x, float(value), moment))
                self._wrong.pop(name, None)
            else:
                self.not_finite += 1
                before = self._wrong.get(name)
                if before is not None or len(self._wrong) < SERIES_CAP:
                    self._wrong[name] = NotFiniteStreak(name, before.x if before else x, before.count + 1 if before else 1)

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
    plain = ((name, row[name]) for name in islice(row, _FIELDS) if len(name) <= _NAME)
    return {
        name: value[:_TEXT] if isinstance(value, str) else value
        for name, value in plain
        if value is None or isinstance(value, str | int | float)
    }


def _flat(row: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, int | float]]:
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
    """Return seconds since the epoch for a number of seconds or milliseconds, or an ISO 8601 text; None for anything else."""
    if is_number(value):
        seconds = float(value) / (1000 if value > 1e11 else 1)
        return seconds if 1e9 < seconds < 1e10 else None
    if isinstance(value, str) and 19 <= len(value) <= 40:
        try:
            return datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError):
            return None
    return None
