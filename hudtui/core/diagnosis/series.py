"""Plain statistics of a series of numbers: levels, trends, and the step at which one began.

Levels are medians, and trends are those of Mann and Kendall (Mann 1945, Kendall 1975), so that
single steps decide nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hudtui.core.training.metrics import Point

    Numbers = NDArray[np.float64]
    Flags = NDArray[np.bool_]

_BLOCKS = 40
"""Most blocks of a trend: neighbouring steps depend on each other, their blocks hardly."""
_PIECES = 80
"""Most pieces of a series in which the beginning of a change is sought."""
_HOLDS = 0.8
"""Share of the steps of a stretch that show a condition which holds there."""


def _median(values: Numbers) -> Any:
    """Return the median along the last axis, the same number as `np.median`.

    That imports the masked arrays of numpy, for 20 ms and 3 MB.
    """
    count = values.shape[-1]
    if not count:
        return math.nan
    low, high = (count - 1) // 2, count // 2
    ordered = np.partition(values, (low, high), axis=-1)
    return (ordered[..., low] + ordered[..., high]) / 2


@dataclass(frozen=True, eq=False)
class Series:
    """A series of a run.

    Attributes:
        name: As the run writes it.
        x: Steps, rising.
        y: Values.
    """

    name: str
    x: Numbers
    y: Numbers

    @classmethod
    def of(cls, name: str, points: Sequence[Point]) -> Series:
        """Return the series of points."""
        x = np.array([point.x for point in points], dtype=np.float64)
        y = np.array([point.y for point in points], dtype=np.float64)
        return cls(name, x, y)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def window(self) -> int:
        """Points that are taken together: a fortieth of the series, 3 at least."""
        return max(3, len(self) // 40)

    @cached_property
    def smooth(self) -> Numbers:
        """Median of each value and its neighbours."""
        half = self.window // 2
        padded = np.pad(self.y, half, mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
        return np.asarray(_median(windows))

    @cached_property
    def start(self) -> float:
        """Level of the first tenth."""
        return float(_median(self.y[: max(3, len(self) // 10)]))

    @cached_property
    def now(self) -> float:
        """Level of the last tenth."""
        return float(_median(self.y[-max(3, len(self) // 10) :]))

    @cached_property
    def lately(self) -> float:
        """Mean of the last tenth, of ten values at least: a value may be of a small sample."""
        return float(np.mean(self.y[-max(10, len(self) // 10) :]))

    @cached_property
    def noise(self) -> float:
        """Standard deviation of a single value about its neighbours."""
        if len(self) < 3:
            return 0.0
        return float(1.4826 * _median(np.abs(np.diff(self.y))) / math.sqrt(2))

    def level(self, start: int, end: int) -> float:
        """Return the median of the values from one place to another."""
        return float(_median(self.y[start:end]))

    def beside(self, other: Series) -> tuple[float, float]:
        """Return how many times as large the values are as those of another series.

        Of the steps that both have, by their means: a step of the other one may be a small sample.

        Returns:
            The ratio of the means, and how surely they differ: the mean difference in standard
            errors. 1 and 0 where there are too few steps to tell, or no values above 0.
        """
        _, mine, others = np.intersect1d(self.x, other.x, return_indices=True)
        if len(mine) < 3 or other.y[others].mean() <= 0:
            return 1.0, 0.0
        apart = self.y[mine] - other.y[others]
        error = float(apart.std(ddof=1)) / math.sqrt(len(apart))
        mean = abs(float(apart.mean()))
        surely = mean / error if error else math.copysign(math.inf, mean) if mean else 0.0
        return float(self.y[mine].mean() / other.y[others].mean()), surely

    def place(self, step: float) -> int:
        """Return the place of the first value at a step or after it; the last place at most."""
        return min(int(np.searchsorted(self.x, step)), len(self) - 1)

    def since(self, step: float) -> Series:
        """Return the part from a step on."""
        start = self.place(step)
        return Series(self.name, self.x[start:], self.y[start:])

    def until(self, step: float) -> Series:
        """Return the part before a step."""
        end = self.place(step)
        return Series(self.name, self.x[:end], self.y[:end])

    def holds_since(self, flags: Flags) -> int | None:
        """Return the place from which a condition holds up to the end; None if it does not.

        It holds in `_HOLDS` of the steps from there on, and at the end. A stretch shorter than a
        twentieth of the series, or 5 steps, is none.
        """
        least = max(5, len(self) // 20)
        if len(self) < least or flags[-least:].mean() < _HOLDS:
            return None
        shares = np.cumsum(flags[::-1]) / np.arange(1, len(self) + 1)
        held = np.flatnonzero((shares[::-1] >= _HOLDS) & flags)
        return int(held[0]) if len(held) else None

    def departs(self, *, grows: bool = False) -> int:
        """Return the place at which the way to the level of the end begins.

        Two lines are fitted to the series up to four fifths of the way, and the change is where
        they meet best (a regression in two phases, Hinkley 1969). 0 where one line does as well:
        the way then begins with the run. `grows` fits logarithms: what grows by a factor each step
        looks late otherwise.
        """
        if grows:
            floor = max(abs(self.start), 1e-3)
            return Series(self.name, self.x, np.log(np.maximum(self.y, 0.0) + floor)).departs()
        way = self.now - self.start
        if not way:
            return 0
        far = np.flatnonzero((self.smooth - self.start) / way >= 0.8)
        end = max(int(far[0]) + 1 if len(far) else len(self), min(10, len(self)))
        each = max(end // _PIECES, 1)
        starts = np.arange(0, end, each)
        x = np.add.reduceat(np.arange(end, dtype=np.float64), starts)
        counts = np.diff([*starts, end])
        x /= counts
        y = np.add.reduceat(self.y[:end], starts) / counts
        single = _misfit(x, y)
        places = range(2, len(x) - 1)
        sums = [_misfit(x[:place], y[:place]) + _misfit(x[place:], y[place:]) for place in places]
        if not sums or min(sums) > 0.6 * single:
            return 0
        return int(starts[places[int(np.argmin(sums))]])

    def trend(self) -> tuple[float, float]:
        """Return how surely the series rises, and by how much.

        Returns:
            The z of the Mann-Kendall test over blocks of the series, negative where it falls, and
            the level of its last quarter less that of its first.
        """
        blocks = [
            float(np.mean(block)) for block in np.array_split(self.y, min(_BLOCKS, len(self)))
        ]
        count = len(blocks)
        if count < 4:
            return 0.0, 0.0
        values = np.array(blocks)
        signs = np.sign(values[None, :] - values[:, None])
        score = float(np.triu(signs, 1).sum())
        spread = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
        quarter = max(count // 4, 1)
        rise = float(_median(values[-quarter:]) - _median(values[:quarter]))
        return (score - math.copysign(1, score)) / spread if score else 0.0, rise


def _misfit(x: Numbers, y: Numbers) -> float:
    """Return the sum of squares about the best line."""
    x, y = x - x.mean(), y - y.mean()
    square = float(x @ x)
    slope = float(x @ y) / square if square else 0.0
    return float(((y - slope * x) ** 2).sum())
