"""The probability that what was measured is trouble."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

FEWEST = 20
"""Fewest steps that say anything."""


@dataclass(frozen=True)
class Bounds:
    """The bounds of troubles that the machine of a run finds by itself, too.

    The signatures here and `pod/lookout.py`, which gets them with its plan, obey the same.
    """

    not_finite: int = 3
    """Values of a series that are not finite, one after the other."""
    flat: int = 15
    """Steps one after the other whose groups all have equal rewards: certain without statistics."""
    no_spread: float = 0.8
    """Share of the groups that have equal rewards."""
    solved: float = 0.8
    """Level of the reward, as a share of the most that was seen, from which tasks are easy."""
    failed: float = 0.3
    """Level up to which they are hard."""
    full: float = 0.95
    """Level at which equal rewards are no fault of the evaluation."""
    entropy_fall: float = 15.0
    """Usual entropy by the newest."""
    kl: float = 2.5
    """Distance from the model."""
    kl_rise: float = 10.0
    """Newest distance by the usual one."""
    kl_lost: float = 10.0
    """Distance from which nothing of the model is left."""
    broken: float = 0.4
    """Share of the episodes that break off."""


BOUNDS = Bounds()
LEAST, MOST = 0.3, 0.97
"""How far beyond the doubtful threshold a value is told, as a share of the way to the certain one;
and the largest probability that is stated."""
_STATED = ((0.0, 0.25), (LEAST, 0.5), (0.4, 0.75), (0.5, 0.88), (0.6, 0.95), (1.0, MOST))
"""Shares of the way, and what was right of such findings in made-up runs whose trouble had any
strength, see `tests/real/calibration.py`."""


def between(value: float, doubtful: float, certain: float, *, logarithm: bool = False) -> float:
    """Return how likely a value beyond a threshold is real.

    0 on the other side of `doubtful`, and the largest probability from `certain` on. `logarithm`
    measures ratios instead of differences.
    """
    if logarithm:
        least = 1e-12
        value, doubtful, certain = (math.log(max(one, least)) for one in (value, doubtful, certain))
    share = (value - doubtful) / (certain - doubtful)
    if share < 0:
        return 0.0
    for (low, start), (high, end) in pairwise(_STATED):
        if share <= high:
            return start + (end - start) * (share - low) / (high - low)
    return MOST
