"""Textual's compositor, which draws no more than an update shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import cast

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip

NEAR = 6
"""So many rows that are not needed are drawn with those around them: to ask a widget twice takes longer."""


class SparingCompositor(Compositor):
    """Asks widgets for the rows of an update only, and for none that other widgets cover.

    Textual asks every widget between the first and the last row of an update for all of its rows, also what lies behind others.
    """

    def render_partial_update(self) -> ChopsUpdate | None:
        """Draw what has changed since the last update."""
        regions = self._dirty_regions.copy()
        self._dirty_regions.clear()
        if not regions:
            return None
        spans = list(self._regions_to_spans(regions))
        return ChopsUpdate(self._chops(spans), spans, [line[1:] for line in self.cuts])

    def _render_chops(self, crop: Region, is_rendered_line: Callable[[int], bool]) -> Sequence[Mapping[int, Strip]]:
        """Draw the rows of a region."""
        chops = self._chops([(y, crop.x, crop.right) for y in crop.line_range if is_rendered_line(y)])
        return cast("Sequence[Mapping[int, Strip]]", chops)

    def _chops(self, spans: list[tuple[int, int, int]]) -> list[dict[int, Strip | None]]:
        """For each row of the screen the pieces between its cuts; None where no span needs a piece."""
        cuts = self.cuts
        chops: list[dict[int, Strip | None]] = [dict.fromkeys(line[:-1]) for line in cuts]
        missing: dict[int, list[int]] = {}
        for y, first, last in spans:
            line = cuts[y]
            needed = [start for start, end in pairwise(line) if start < last and end > first]
            missing.setdefault(y, []).extend(needed)
        for widget, (region, clip) in self.visible_widgets.items():
            place = region.intersection(clip)
            left, right = place.column_span
            rows = [y for y in missing if place.y <= y < place.bottom and any(left <= cut < right for cut in missing[y])]
            for band in _bands(rows):
                top = band[0]
                lines = widget.render_lines(Region(left - region.x, top - region.y, place.width, band[-1] - top + 1))
                for y in band:
                    inside = [cut for cut in cuts[y] if left <= cut <= right]
                    strip = lines[y - top]
                    pieces = [strip] if len(inside) == 2 else strip.divide([cut - left for cut in inside[1:]])
                    row = chops[y]
                    for cut, piece in zip(inside, pieces, strict=False):
                        if row[cut] is None:
                            row[cut] = piece
                    missing[y] = [cut for cut in missing[y] if row[cut] is None]
                    if not missing[y]:
                        del missing[y]
            if not missing:
                break
        return chops


def _bands(rows: Iterable[int]) -> Iterator[list[int]]:
    """Rows in groups that are drawn at once."""
    band: list[int] = []
    for y in sorted(rows):
        if band and y - band[-1] > NEAR:
            yield band
            band = []
        band.append(y)
    if band:
        yield band
