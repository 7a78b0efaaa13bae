"""What an index of tasks says in numbers: how long the prompts are, tools, servers, categories.

Imports numpy: import this module late.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from hudtui.core.tasks.rules import CHARS_PER_TOKEN
from hudtui.core.tasks.table import NameColumn, TaskIndex

SHOWN = 12
"""Values of a field that are listed; the others are summed up."""


@dataclass(frozen=True)
class Bars:
    """Counts by name, to be drawn as bars."""

    title: str
    bars: tuple[tuple[str, int], ...]
    note: str = ""
    """What the bars leave out."""


@dataclass(frozen=True)
class Lengths:
    """How long prompts are, in estimated tokens."""

    bins: tuple[tuple[int, int, int], ...]
    """From, to (exclusive) and number of prompts; each bin twice as wide as the one before."""
    shortest: int
    median: int
    most: int
    """19 of 20 prompts have at most so many."""
    longest: int


@dataclass(frozen=True)
class TaskStats:
    """All of it."""

    tasks: int
    """Usable tasks."""
    lengths: Lengths | None
    """None without a usable task."""
    groups: tuple[Bars, ...]


_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")


def task_stats(index: TaskIndex) -> TaskStats:
    """The numbers of what has been read so far."""
    groups = [
        _bars("evaluators", index.evaluators),
        _bars("set-up", index.setups),
        _bars("servers", index.servers),
    ]
    single: list[str] = []
    known = sorted(index.metadata.items(), key=lambda item: item[0] != index.category_field)
    for name, counter in known:
        if len(counter) > 1 and max(counter.values()) == 1:  # a number of its own for each task: bars would say nothing
            single.append(name)
        elif counter:
            groups.append(_group(f"metadata.{name}", counter.most_common()))
    if single or index.crowded:
        groups.append(Bars("metadata with many values", (), ", ".join(sorted([*single, *index.crowded]))))
    usable = index.counts["ok"] + index.counts["warning"]
    return TaskStats(usable, lengths_of(index), tuple(group for group in groups if group.bars or group.note))


def lengths_of(index: TaskIndex) -> Lengths | None:
    """The lengths of the prompts of usable tasks."""
    total = index.total
    characters = np.frombuffer(index.lengths.tobytes(), np.uint32)[:total]
    tokens = -(-characters[np.frombuffer(bytes(index.states), np.uint8)[:total] != 2].astype(np.int64) // CHARS_PER_TOKEN)
    if not len(tokens):
        return None
    low, high = int(tokens.min()), int(tokens.max())
    start = 1
    while start * 2 <= low:
        start *= 2
    edges = [start]
    while edges[-1] <= high:
        edges.append(edges[-1] * 2)
    if len(edges) < 4 and high - low >= 4:  # all of much the same length: even bins say more
        step = max((high - low + 8) // 8, 1)
        edges = list(range(low, high + step + 1, step))
    counts = np.histogram(tokens, edges)[0]
    bins = tuple((edges[place], edges[place + 1], int(count)) for place, count in enumerate(counts))
    return Lengths(bins, low, int(np.percentile(tokens, 50)), int(np.percentile(tokens, 95)), high)


def _bars(title: str, names: NameColumn) -> Bars:
    counts = names.counts()
    return _group(title, [(name, count) for name, count in counts if name])


def _group(title: str, counts: list[tuple[str, int]]) -> Bars:
    rest = counts[SHOWN:]
    shown = counts[:SHOWN]
    if all(_NUMBER.fullmatch(name) for name, _ in shown):
        shown.sort(key=lambda item: float(item[0]))
    note = f"and {len(rest):,} more with {sum(count for _, count in rest):,} tasks" if rest else ""
    return Bars(title, tuple(shown), note)
