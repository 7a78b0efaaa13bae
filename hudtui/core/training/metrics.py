"""Numbers that a run writes while it goes on: JSON lines, read as they grow."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Point:
    """One value of a series."""

    x: float
    """The line's `step`, or the number of the line from 1."""
    y: float


class MetricsReader:
    """Reads a metrics file piece by piece.

    Each line is an object; its numbers become series by their names. A half line waits for its rest, a line that is no object is
    counted in `bad` and left out, and so are values that are no finite numbers (NaN is counted in `not_finite`).
    """

    _X = ("step", "global_step", "_step")
    _OTHER = frozenset({*_X, "time", "timestamp", "_timestamp"})

    def __init__(self) -> None:
        self._rest = b""
        self._series: dict[str, list[Point]] = {}
        self.rows: list[Mapping[str, Any]] = []
        """The lines so far."""
        self.bad = 0
        self.not_finite = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the series, in the order of their appearance."""
        return tuple(self._series)

    def series(self, name: str) -> tuple[Point, ...]:
        """The points of a series; empty when there is none of that name."""
        return tuple(self._series.get(name, ()))

    def feed(self, data: bytes) -> int:
        """Take in more bytes of the file; returns how many lines they completed."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        before = len(self.rows)
        for line in lines:
            if line.strip():
                self._take(line)
        return len(self.rows) - before

    def _take(self, line: bytes) -> None:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            self.bad += 1
            return
        self.rows.append(row)
        x = next((float(row[name]) for name in self._X if _number(row.get(name))), float(len(self.rows)))
        for name, value in row.items():
            if name in self._OTHER or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            if _number(value):
                self._series.setdefault(name, []).append(Point(x, float(value)))
            else:
                self.not_finite += 1


def _number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
