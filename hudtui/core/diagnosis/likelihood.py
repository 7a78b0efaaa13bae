"""The probability that what was measured is trouble."""

from __future__ import annotations

import math
from itertools import pairwise

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
