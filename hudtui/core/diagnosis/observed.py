"""The series of a run by what they measure, whatever its trainer calls them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from hudtui.core.diagnosis.likelihood import FEWEST
from hudtui.core.diagnosis.series import Series
from hudtui.core.diagnosis.signals import SIGNALS
from hudtui.core.training.metrics import QUANTITIES, MetricsReader, normal

_TASK = re.compile(r"correct|accura|task|solv|success|environment|exact|answer|outcome|pass")
_FORM = re.compile(r"format|tag|xml|style|structure|think|length|brevity|syntax")


class Observed:
    """A run as its metrics show it.

    Args:
        metrics: All metrics of the run.
        settings: Settings of its trainer, where they are known.
        episodes: What its episodes show by step, see `results.evidence`.
    """

    def __init__(
        self,
        metrics: MetricsReader,
        settings: Mapping[str, Any] | None = None,
        episodes: MetricsReader | None = None,
    ) -> None:
        self.metrics, self.settings = metrics, settings or {}
        self.episodes = episodes or MetricsReader()
        self.wrong, self.steps = metrics.wrong, metrics.steps
        self.newest = metrics.newest[0] if metrics.newest is not None else 0.0
        self._series: dict[str, Series | None] = {}

    def gather(self) -> None:
        """Take all series out of the metrics, which are not read again after this."""
        for what in KNOWN - {"parts", "eval_reward"}:
            self.series(what)
        self.sees(("parts", "eval_reward"))

    @cached_property
    def _normal(self) -> dict[str, str]:
        names = (*self.metrics.names, *self.episodes.names)
        return {normal(name).removeprefix("train/"): name for name in reversed(names)}

    def series(self, what: str) -> Series | None:
        """Return the series of a quantity or signal; None if the run has too few of its numbers."""
        if what not in self._series:
            self._series[what] = self._find(what)
        return self._series[what]

    def _find(self, what: str) -> Series | None:
        if what in SIGNALS:
            name = next((self._normal[one] for one in SIGNALS[what] if one in self._normal), None)
        else:
            name = self.metrics.named(what)
        return self._named(name)

    def _named(self, name: str | None, fewest: int = FEWEST) -> Series | None:
        points = self.metrics.series(name) if name is not None else ()
        if name is not None and not points:
            points = self.episodes.series(name)
        return Series.of(name or "", points) if len(points) >= fewest else None

    @cached_property
    def evaluation(self) -> Series | None:
        """The reward of evaluations, of which there are fewer than steps."""
        return self._named(self.metrics.named("eval_reward"), 4)

    @cached_property
    def parts(self) -> dict[str, Series]:
        """Parts of the reward by their names."""
        named = {part: self._named(name) for part, name in self.metrics.parts.items()}
        return {part: series for part, series in named.items() if series is not None}

    @cached_property
    def task(self) -> Series | None:
        """The part of the reward that says that the task is done."""
        return self._part(_TASK)

    @cached_property
    def form(self) -> Series | None:
        """The part of the reward for the form of a reply."""
        return self._part(_FORM)

    def _part(self, words: re.Pattern[str]) -> Series | None:
        names = [name for name in self.parts if words.search(name.partition("/")[2].lower())]
        return self.parts[names[0]] if names else None

    def sees(self, needs: Iterable[str]) -> bool:
        """Return whether the run has all these series."""
        return all(self._has(need) for need in needs)

    def _has(self, need: str) -> bool:
        if need == "parts":
            return self.task is not None and self.form is not None
        return (self.evaluation if need == "eval_reward" else self.series(need)) is not None


KNOWN = frozenset({quantity.name for quantity in QUANTITIES} | set(SIGNALS) | {"parts"})
"""All that a signature may need."""
