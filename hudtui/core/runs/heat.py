"""The load of many GPUs and nodes as maps: a row for each of them, a column for each time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hudtui.core.runs.status import unit_of
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from hudtui.core.runs.status import RunView
    from hudtui.core.training.metrics import MetricsReader

_FIRST = ("utilization %", "memory %", "memory GiB", "temperature °C", "power W")
"""Ends of the titles of maps that come first."""
_OF_NODES = {"CPU %": "CPU %", "memory GiB": "memory of the machine GiB"}
"""Curves of a machine that have a map where a run has several, and its title."""


@dataclass(frozen=True)
class HeatRow:
    """The samples of a GPU, or of a node."""

    label: str
    times: Sequence[float]
    """In seconds since the epoch."""
    values: Sequence[float]

    @property
    def samples(self) -> list[tuple[float, float]]:
        """Times and values in pairs."""
        return list(zip(self.times, self.values, strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain data, with every sample."""
        return {"label": self.label, "samples": self.samples}


@dataclass(frozen=True)
class HeatMap:
    """One measure of many GPUs or nodes over time."""

    title: str
    rows: tuple[HeatRow, ...]
    low: float
    """The value of the coldest cell."""
    high: float
    """The value of the hottest cell."""
    begin: float
    """When the first column begins, in seconds since the epoch."""
    end: float

    @property
    def most(self) -> int:
        """Most samples of a row."""
        return max(len(row.times) for row in self.rows)

    @property
    def scale(self) -> tuple[float, float] | None:
        """Coldest and hottest value; None where they are the same."""
        return (self.low, self.high) if self.high > self.low else None

    def cells(self, row: HeatRow, columns: int) -> list[float | None]:
        """Return the mean of the samples of each column; None where there is none.

        A sample stands for the column after its own, too, where that has none.
        """
        import numpy as np  # which takes longer than the first curves may

        wide = max(self.end - self.begin, 1e-9) / columns
        places = ((np.asarray(row.times) - self.begin) / wide).astype(int).clip(0, columns - 1)
        sums = np.bincount(places, weights=row.values, minlength=columns)
        counts = np.bincount(places, minlength=columns)
        found: list[float | None] = [
            float(total / count) if count else None
            for total, count in zip(sums, counts, strict=True)
        ]
        return [
            found[place - 1] if one is None and place else one for place, one in enumerate(found)
        ]

    def digit(self, value: float | None) -> str:
        """Return where a value lies between coldest and hottest: 0 to 9, `·` for none."""
        if value is None:
            return "·"
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return str(min(max(int(share * 10), 0), 9))

    def to_json(self) -> dict[str, Any]:
        """Return the map as plain data, with every sample."""
        rows = [row.to_json() for row in self.rows]
        return {"title": self.title, "low": self.low, "high": self.high, "rows": rows}


def heat_maps(view: RunView) -> tuple[HeatMap, ...]:
    """Return the maps of a run's machines: those of GPUs, and with several machines of nodes."""
    found: dict[str, list[HeatRow]] = {}
    for node, load in _loads(view):
        for name in load.names:
            if (place := _place(name, node)) is not None and (row := _row(load, name, place[1])):
                found.setdefault(clean_line(place[0], 60), []).append(row)
    maps = [_map(title, rows) for title, rows in found.items()]
    return tuple(sorted(maps, key=lambda one: _rank(one.title)))


def other_rows(view: RunView) -> tuple[HeatRow, ...]:
    """Return the load that no map shows: of the machine as a whole, and of model servers."""
    found = (
        _row(load, name, f"{node} {name}")
        for node, load in _loads(view)
        for name in load.names
        if _place(name, node) is None
    )
    return tuple(row for row in found if row is not None)


def has_heat_maps(view: RunView) -> bool:
    """Return whether there is a map, without the samples."""
    names = (*view.load.names, *(name for node in view.nodes for name in node.load.names))
    return any(unit_of(name) is not None for name in names)


def _rank(title: str) -> int:
    return next((place for place, end in enumerate(_FIRST) if title.endswith(end)), len(_FIRST))


def _loads(view: RunView) -> Sequence[tuple[str, MetricsReader]]:
    """Return the load of each machine of a run, with its name: empty for an only one."""
    if not view.nodes:
        return [("", view.load)]
    return [("node 0", view.load), *((f"node {one.node}", one.load) for one in view.nodes)]


def _place(name: str, node: str) -> tuple[str, str] | None:
    """Return the map of a curve, and the name of its row there; None for a curve without a map."""
    if (unit := unit_of(name)) is not None:
        return unit[0], f"{node} {unit[1]}"
    return (_OF_NODES[name], node) if node and name in _OF_NODES else None


def _row(load: MetricsReader, name: str, label: str) -> HeatRow | None:
    times, values = load.samples(name)
    return HeatRow(clean_line(label.strip(), 60), times, values) if times else None


def _map(title: str, rows: Sequence[HeatRow]) -> HeatMap:
    low, high = 0.0, 100.0
    if not title.endswith("%"):
        high = max(max(row.values) for row in rows)
        low = 0.0 if title.endswith("GiB") else min(min(row.values) for row in rows)
    return HeatMap(
        title,
        tuple(sorted(rows, key=lambda row: _natural(row.label))),
        low,
        high,
        min(min(row.times) for row in rows),
        max(max(row.times) for row in rows),
    )


def _natural(label: str) -> list[tuple[bool, int, str]]:
    """Return a key that puts GPU 2 before GPU 10."""
    parts = re.split(r"(\d{1,9})", label)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]
