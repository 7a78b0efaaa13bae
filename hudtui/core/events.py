"""Events of long work: values on an async iterator, rendered by commands and screens alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Progress:
    """Progress of the work. `total` is None while the end is not known."""

    stage: str
    message: str = ""
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True)
class Notice:
    """A message that the user should read; the work continues."""

    severity: Literal["info", "warning", "error"]
    message: str


async def iterate_in_thread(steps: Iterator[T]) -> AsyncIterator[T]:
    """Iterate over synchronous work without blocking the event loop: each step runs in a thread.

    On cancellation, the running step is awaited, then the work is closed so that it can clean up.
    """
    end = object()
    step: asyncio.Future[Any] | None = None
    try:
        while True:
            step = asyncio.ensure_future(asyncio.to_thread(next, steps, end))
            made = await asyncio.shield(step)
            if made is end:
                return
            yield made
    finally:
        if step is not None and not step.done():
            await asyncio.wait([step])
        if isinstance(steps, Generator):
            steps.close()
