"""The diagnosis of a run that goes on, at a bounded cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hudtui.core.diagnosis.values import Diagnosis, Finding
from hudtui.core.training.metrics import MetricsReader

if TYPE_CHECKING:
    from hudtui.core.diagnosis.observed import Observed

SHARE = 0.005
"""Most of a core that it takes for a run, as a share."""
_OFTEN = 5.0
"""Fewest seconds between two looks at the same run."""


class LiveDiagnosis:
    """The newest diagnosis of a run, made again when there are new numbers.

    Args:
        settings: Returns the settings of the run's trainer, from which remedies name new values.
        share: Most of a core that it takes: after a long look it waits longer.
    """

    def __init__(
        self, settings: Callable[[], Mapping[str, Any]] = dict, *, share: float = SHARE
    ) -> None:
        self._settings, self._share = settings, share
        self._values: Mapping[str, Any] | None = None
        self._seen: tuple[int, int] | None = None
        """Identity and number of lines of the metrics that were looked at."""
        self._not_before = 0.0
        self.newest: Diagnosis | None = None
        """The newest diagnosis from the metrics; None before the first."""

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

    async def renew(self, metrics: MetricsReader, *, last: bool = False) -> None:
        """Diagnose again, if there are new numbers and it is time.

        Args:
            metrics: All metrics of the run so far.
            last: Nothing will come after these: they are looked at whatever the time.
        """
        seen = (id(metrics), metrics.count)
        if seen == self._seen or not metrics.names:
            return
        if not last and time.monotonic() < self._not_before:
            return
        from hudtui.core.diagnosis.observed import Observed  # numpy, which this needs, is slow

        self._seen, start = seen, time.thread_time()
        run = Observed(metrics, self.settings)
        run.gather()  # the reader may change while the thread works
        gathered = time.thread_time() - start
        self.newest, examined = await asyncio.to_thread(_examined, run)
        self._not_before = time.monotonic() + max(_OFTEN, (gathered + examined) / self._share)


def _examined(run: Observed) -> tuple[Diagnosis, float]:
    """Return the diagnosis, and the seconds of a core that it took."""
    from hudtui.core.diagnosis.diagnose import examine

    start = time.thread_time()
    diagnosis = examine(run)
    return diagnosis, time.thread_time() - start
