"""Synchronous work that tells its steps, carried out beside an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


async def iterate_in_thread(steps: Iterator[T]) -> AsyncIterator[T]:
    """Steps of synchronous work as an async iterator, each in a thread.

    Cancelling waits for the step that is under way and then closes the work, so that it can clean up.
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
