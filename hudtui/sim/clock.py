"""The simulator's time: it stands still until `advance`, or flows at a rate."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

EPOCH = datetime(2026, 11, 20, 21, 0, tzinfo=UTC)
"""The start of simulated time, unless another start is given."""


class SimClock:
    """Seconds since `EPOCH`.

    Args:
        rate: Simulated seconds per real second; 0 stands still, 1 is real time.
        step: Simulated seconds that every request to the API takes: a client that polls sees time
            pass, always in the same way.
        start: Seconds since `EPOCH` at the beginning.
    """

    def __init__(self, rate: float = 0.0, step: float = 0.0, start: float = 0.0) -> None:
        if rate < 0 or step < 0:
            raise ValueError("time does not run backwards: rate and step must be 0 or more")
        self.rate = rate
        self.step = step
        self.on_advance: Callable[[], None] | None = None
        """Called after each `advance`."""
        self._offset = start
        self._began = time.monotonic()

    def now(self) -> float:
        """Seconds since `EPOCH`."""
        return self._offset + (time.monotonic() - self._began) * self.rate

    def advance(self, seconds: float) -> float:
        """Let `seconds` pass at once; returns the new time."""
        if seconds < 0:
            raise ValueError("time does not run backwards")
        self._offset += seconds
        if self.on_advance is not None:
            self.on_advance()
        return self.now()

    def tick(self) -> None:
        """Let a request take its `step`."""
        self._offset += self.step


def stamp(seconds: float) -> str:
    """A time as the API writes it: `2026-11-20T21:00:00.000000Z`."""
    return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
