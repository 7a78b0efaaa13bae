"""Finding ids that occur twice among many millions, in a few bytes each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

_EXACT = 200_000
"""Up to here the ids themselves are kept."""


class Ids:
    """The ids seen so far, and which task had each first.

    Beyond a number that a dict holds with ease, 64-bit hashes take the place of the ids: two different ids among ten million pass
    for the same with a probability of three in a million.
    """

    def __init__(self) -> None:
        self._exact: set[str] | None = set()
        self._batches: list[tuple[Sequence[str], Sequence[int]]] = []
        """What `_exact` was made of, to look up the place of the few ids that occur again."""
        self._runs: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []

    def add(self, ids: Sequence[str], places: Sequence[int]) -> dict[int, int]:
        """Take in more ids.

        Args:
            ids: The next ids.
            places: The index of the task behind each.

        Returns:
            For every id that was there before, its position in `ids` and the index of the task that had it first.
        """
        if self._exact is not None:
            if len(self._exact) + len(ids) <= _EXACT:
                return self._add_exactly(self._exact, ids, places)
            self._exact = None
            for batch, where in self._batches:
                self._add_hashes(batch, where)
            self._batches.clear()
        return self._add_hashes(ids, places)

    def _add_exactly(self, known: set[str], ids: Sequence[str], places: Sequence[int]) -> dict[int, int]:
        distinct = set(ids)
        found: dict[int, int] = {}
        if len(distinct) != len(ids) or not known.isdisjoint(distinct):
            again = known & distinct
            firsts: dict[str, int] = {}
            for batch, where in self._batches:
                if len(firsts) == len(again):
                    break
                for name, place in zip(batch, where, strict=True):
                    if name in again:
                        firsts.setdefault(name, place)
            for position, (name, place) in enumerate(zip(ids, places, strict=True)):
                first = firsts.setdefault(name, place)
                if first != place:
                    found[position] = first
        known |= distinct
        self._batches.append((ids, places))
        return found

    def _add_hashes(self, ids: Sequence[str], places: Sequence[int]) -> dict[int, int]:
        import numpy as np

        if not ids:
            return {}
        hashes = np.fromiter(map(hash, ids), np.int64, len(ids))
        order = np.argsort(hashes, kind="stable")
        hashes, indexes = hashes[order], np.asarray(places, np.int64)[order]
        found: dict[int, int] = {}
        # Twice within these ids: all but the first of equal neighbours (a stable sort keeps the first one first).
        repeated = np.flatnonzero(hashes[1:] == hashes[:-1]) + 1
        for at in repeated.tolist():
            start = int(np.searchsorted(hashes, hashes[at]))
            found[int(order[at])] = int(indexes[start])
        for known, firsts in self._runs:
            spot = np.searchsorted(known, hashes)
            spot[spot == len(known)] = 0
            for at in np.flatnonzero(known[spot] == hashes).tolist():
                found[int(order[at])] = int(firsts[spot[at]])
        keep = np.ones(len(hashes), bool)
        if found:
            keep = ~np.isin(order, np.fromiter(found, np.int64, len(found)))
        if keep.any():
            self._push(hashes[keep], indexes[keep], in_order=True)
        return found

    def _push(self, hashes: np.ndarray[Any, Any], firsts: np.ndarray[Any, Any], *, in_order: bool = False) -> None:
        """Keep sorted runs, each at least twice as long as the next: few enough to search all of them every time."""
        import numpy as np

        if not in_order:
            order = np.argsort(hashes)
            hashes, firsts = hashes[order], firsts[order]
        while self._runs and len(self._runs[-1][0]) < 2 * len(hashes):
            known, places = self._runs.pop()
            hashes, firsts = np.concatenate([known, hashes]), np.concatenate([places, firsts])
            order = np.argsort(hashes, kind="stable")
            hashes, firsts = hashes[order], firsts[order]
        self._runs.append((hashes, firsts))
