"""A series as one line of blocks."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """The values as at most `width` blocks, low to high between their smallest and largest; neighbours are averaged to fit.

    A series without any spread is drawn at half height.
    """
    if not values or width < 1:
        return ""
    count = min(len(values), width)
    means = []
    for place in range(count):
        part = values[place * len(values) // count : max((place + 1) * len(values) // count, place * len(values) // count + 1)]
        means.append(sum(part) / len(part))
    low, high = min(means), max(means)
    if high == low:
        return _BLOCKS[3] * count
    return "".join(_BLOCKS[round((mean - low) / (high - low) * (len(_BLOCKS) - 1))] for mean in means)
