"""Axes of charts with round values, for terminals and for pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hudtui.core.text import step_text

Pair = tuple[float, float]
Scale = tuple[float, float | None]
"""Lowest and highest value of an axis; None as the highest means the largest value."""

_NOISE = 1e-9
"""A spread below this share of the values is rounding noise, and drawn as a flat line."""


def thin(points: Sequence[Pair], most: int) -> Sequence[Pair]:
    """Return at most about `most` points that look the same when drawn.

    Of each stretch the lowest and the highest.
    """
    if len(points) <= most:
        return points
    found: list[Pair] = [points[0]]
    stretches = max(most // 2, 1)
    for place in range(stretches):
        part = range(place * len(points) // stretches, (place + 1) * len(points) // stretches)
        low, high = min(part, key=lambda at: points[at][1]), max(part, key=lambda at: points[at][1])
        found += [points[at] for at in sorted({low, high})]
    return [*found, points[-1]]


def figure(value: float) -> str:
    """Return a number in at most eight characters."""
    size = abs(value)
    if size >= 1e9 or 0 < size < 1e-3:
        return f"{value:.2g}"
    if size >= 1e6:
        return f"{value / 1e6:.4g}M"
    if size >= 1e4:
        return f"{value / 1e3:.4g}k"
    return min((f"{value:.{digits}g}" for digits in (4, 3, 2)), key=lambda text: max(len(text), 8))


@dataclass(frozen=True)
class Axis:
    """The y axis of a chart."""

    low: float
    high: float
    """The same as `low` for a series that does not move."""
    log: bool = False
    step: float = 0.0
    """Between two round values; 0 where the axis is fixed or logarithmic."""

    def share(self, value: float) -> float:
        """Return the height of a value: 0 at the foot of the chart, 1 at its top."""
        if self.high <= self.low:
            return 0.5
        if self.log:
            low = math.log(self.low)
            return (math.log(value) - low) / (math.log(self.high) - low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, rows: int) -> list[float]:
        """Return the values that a chart of `rows` rows names: both ends, and some between them.

        Those between are evenly spaced: three to five parts of a round size, else two halves;
        rather parts that are equal in rows, too. On a logarithmic axis they are powers of ten.
        """
        if self.high <= self.low:
            return [self.low]
        if rows < 5:
            return [self.low, self.high]
        if self.log and (powers := self._powers(rows)):
            return [self.low, *powers, self.high]
        size = self.high - self.low
        counts = sorted((4, 3, 5), key=lambda count: (rows - 1) % count > 0)
        parts = next((count for count in counts if count < rows and _is_round(size / count)), 2)
        inner = [self.low + size * place / parts for place in range(1, parts)]
        return [self.low, *inner, self.high]

    def labels(self, rows: int) -> dict[int, str]:
        """Return the labels of a chart of `rows` rows, by row from the top."""
        if self.high <= self.low:
            return {rows // 2: figure(self.low)}
        low, *inner, high = self.ticks(rows)
        return {self._row(value, rows): figure(value) for value in (*inner, low, high)}

    def _row(self, value: float, rows: int) -> int:
        return round((1 - self.share(value)) * (rows - 1))

    def _powers(self, rows: int) -> list[float]:
        """Return powers of ten that have other rows than both ends."""
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        each = max(math.ceil((last - first) / 4), 1)
        powers = [float(f"1e{power}") for power in range(last, first - 1, -each)]
        return [power for power in reversed(powers) if 0 < self._row(power, rows) < rows - 1]

    def label_width(self, rows: int) -> int:
        """Return the cells of the longest label of a chart of `rows` rows."""
        return max(map(len, self.labels(rows).values()))


def value_axis(values: Sequence[float], *, scale: Scale | None = None, log: bool = False) -> Axis:
    """Return an axis on which all values lie, with round ends.

    Args:
        values: At least one.
        scale: The ends where they are known; values beyond them widen it.
        log: Logarithmic, if all values are above 0.
    """
    low, high = min(values), max(values)
    if log and low > 0:
        return Axis(_mantissa(low, down=True), _mantissa(high, down=False), log=True)
    if scale is not None:
        floor, ceiling = scale
        low, high = min(low, floor), max(high, floor if ceiling is None else ceiling)
        if ceiling is not None:
            return Axis(low, high if high > low else low + 1.0)
        high = high if high > low else low + 1.0
    elif high - low <= _NOISE * max(abs(low), abs(high)):
        return Axis(values[-1], values[-1])
    step = round_step((high - low) / 8)
    if not step or not math.isfinite(step):
        return Axis(low, high)
    return Axis(
        math.floor(low / step + _NOISE) * step, math.ceil(high / step - _NOISE) * step, step=step
    )


def _is_round(size: float) -> bool:
    """Return True for one digit and zeros, and for 25 with zeros: steps that a reader adds up."""
    mantissa = float(f"{size:.6e}".partition("e")[0])
    return mantissa == 2.5 or mantissa.is_integer()


def round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, ...

    (and their fractions) that is not below `least`.
    """
    if not 1e-300 < least < 1e300:
        return 0.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(
        (factor * power for factor in (1, 2, 5) if factor * power >= least * (1 - _NOISE)),
        10 * power,
    )


def _mantissa(value: float, *, down: bool) -> float:
    """Return the nearest of 1, 2, 5 times a power of ten not above (or below) the value."""
    exponent = math.floor(math.log10(value))
    steps = [float(f"{factor}e{exponent + more}") for more in (-1, 0, 1) for factor in (1, 2, 5)]
    return (
        max(one for one in steps if one <= value)
        if down
        else min(one for one in steps if one >= value)
    )


def step_labels(steps: Sequence[float]) -> list[str]:
    """Return the labels of different steps: as figures, in full where two figures are the same."""
    figures = list(map(figure, steps))
    return figures if len(set(figures)) == len(figures) else list(map(step_text, steps))


def x_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return both ends of an axis of steps, and round values between them that leave room."""
    step = round_step((high - low) / most) if high > low else 0.0
    if not step:
        return [low]
    if float(low).is_integer() and float(high).is_integer():
        step = max(step, 1.0)
    first = math.floor(low / step) + 1
    inner = [number * step for number in range(first, math.ceil(high / step))]
    return [low, *(x for x in inner if min(x - low, high - x) > step / 2), high]
