"""The diagnosis of a run that goes on, at a bounded cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from hudtui.core.diagnosis.values import Diagnosis, Finding
from hudtui.core.training.metrics import MetricsReader

if TYPE_CHECKING:
    from hudtui.core.diagnosis.observed import Observed

SHARE = 0.005
"""Most of a core that it takes for a run, as a share."""
_OFTEN = 5.0
"""Fewest seconds between two looks at the same run."""


class Episodes(Protocol):
    """What the episodes of a run show by step, read on from time to time."""

    whole: bool
    """Whether they were read to their present end."""
    took: float
    """Seconds of a core that the last look took."""

    @property
    def numbers(self) -> MetricsReader:
        """Their shares and means by step, see `signals`."""
        ...

    async def read(self, *, whole: bool) -> None:
        """Read on: to the end where the `whole` is wanted, otherwise for a bounded time."""
        ...


class LiveDiagnosis:
    """The newest diagnosis of a run, made again when there are new numbers.

    Args:
        settings: Returns the settings of the run's trainer, from which remedies name new values.
        episodes: Reads the run's episodes; None for a run without any.
        share: Most of a core that it takes: after a long look it waits longer.
    """

    def __init__(
        self,
        settings: Callable[[], Mapping[str, Any]] = dict,
        episodes: Episodes | None = None,
        *,
        share: float = SHARE,
    ) -> None:
        self._settings, self._episodes, self._share = settings, episodes, share
        self._values: Mapping[str, Any] | None = None
        self._seen: tuple[int, int, bool] | None = None
        """Identity and number of lines of the metrics that were looked at, and whether the last
        episodes were."""
        self._not_before = 0.0
        self._one = asyncio.Lock()
        self.newest: Diagnosis | None = None
        """The newest diagnosis from the metrics and the episodes; None before the first."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the run's trainer."""
        if self._values is None:
            self._values = self._settings()
        return self._values

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the newest diagnosis."""
        return self.newest.findings if self.newest is not None else ()

    async def renew(
        self, metrics: MetricsReader, *, last: bool = False, whole: bool = False
    ) -> None:
        """Diagnose again, if there are new numbers and it is time.

        Episodes count as soon as they were read to their end, because a run is judged by its end.

        Args:
            metrics: All metrics of the run so far.
            last: Nothing will come after these: they are looked at whatever the time.
            whole: Read all episodes now, however long it takes.
        """
        async with self._one:  # views of a list and of a screen may come at the same time
            await self._renew(metrics, last, whole)

    async def _renew(self, metrics: MetricsReader, last: bool, whole: bool) -> None:
        episodes = self._episodes
        seen = (id(metrics), metrics.count, last and episodes is not None)
        behind = episodes is not None and not episodes.whole
        if not metrics.names or (seen == self._seen and not behind):
            return
        if not (last or whole) and time.monotonic() < self._not_before:
            return
        from hudtui.core.diagnosis.observed import Observed  # numpy, which this needs, is slow

        if episodes is not None:
            await episodes.read(whole=whole)
        start = time.thread_time()
        shown = episodes.numbers if episodes is not None and episodes.whole else None
        run = Observed(metrics, self.settings, shown)
        run.gather()  # the reader may change while the thread works
        gathered = time.thread_time() - start
        self.newest, examined = await asyncio.to_thread(_examined, run)
        self._seen = seen  # not before: a look that is broken off is repeated
        took = gathered + examined + (episodes.took if episodes is not None else 0.0)
        self._not_before = time.monotonic() + max(_OFTEN, took / self._share)


def _examined(run: Observed) -> tuple[Diagnosis, float]:
    """Return the diagnosis, and the seconds of a core that it took."""
    from hudtui.core.diagnosis.diagnose import examine

    start = time.thread_time()
    diagnosis = examine(run)
    return diagnosis, time.thread_time() - start
