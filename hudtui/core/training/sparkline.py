"""A series as one line of blocks."""

from __future__ import annotations

from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(
    values: Sequence[float], width: int, *, scale: tuple[float, float] | None = None
) -> str:
    """Return the values as at most `width` blocks; neighbours are averaged to fit.

    Args:
        values: The series.
        width: Blocks.
        scale: The values of the lowest and the highest block; by default the smallest and the
            largest value, and a series without any spread is drawn at half height.
    """
    if not values or width < 1:
        return ""
    count = min(len(values), width)
    means = []
    for place in range(count):
        part = values[
            place * len(values) // count : max(
                (place + 1) * len(values) // count, place * len(values) // count + 1
            )
        ]
        means.append(sum(part) / len(part))
    low, high = scale or (min(means), max(means))
    if high <= low:
        return _BLOCKS[3 if scale is None else 0] * count
    top = len(_BLOCKS) - 1
    return "".join(
        _BLOCKS[min(max(round((mean - low) / (high - low) * top), 0), top)] for mean in means
    )
