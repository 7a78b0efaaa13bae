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
        self._exact: dict[str, int] | None = {}
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
            import numpy as np

            known, self._exact = self._exact, None
            if known:
                self._push(np.fromiter(map(hash, known), np.int64, len(known)), np.fromiter(known.values(), np.int64, len(known)))
        return self._add_hashes(ids, places)

    @staticmethod
    def _add_exactly(known: dict[str, int], ids: Sequence[str], places: Sequence[int]) -> dict[int, int]:
        if len(distinct := dict(zip(ids, places, strict=True))) == len(ids) and known.keys().isdisjoint(distinct):
            known.update(distinct)
            return {}
        found = {}
        for position, (name, place) in enumerate(zip(ids, places, strict=True)):
            first = known.setdefault(name, place)
            if first != place:
                found[position] = first
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
