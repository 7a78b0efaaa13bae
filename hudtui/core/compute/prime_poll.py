"""Questions about many things, put together: those who ask at about the same moment share one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Generic, TypeVar

Found = TypeVar("Found")


class StatusBatcher(Generic[Found]):
    """Collects ids for a moment, then asks for all of them at once.

    Args:
        fetch: Asks for many ids; gives those that are known.
        window: Seconds that a question waits for others.
    """

    def __init__(self, fetch: Callable[[tuple[str, ...]], Awaitable[Mapping[str, Found]]], window: float = 0.02) -> None:
        self._fetch, self._window = fetch, window
        self._ids: dict[str, None] = {}
        self._task: asyncio.Task[Mapping[str, Found]] | None = None

    async def ask(self, ids: Iterable[str]) -> Mapping[str, Found]:
        """What is known of these ids, and of others perhaps. Whoever stops waiting does not disturb the others.

        Raises:
            Exception: What `fetch` raises, for all who asked.
        """
        self._ids |= dict.fromkeys(ids)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(_seen)
        return await asyncio.shield(self._task)

    async def _run(self) -> Mapping[str, Found]:
        await asyncio.sleep(self._window)
        ids, self._ids, self._task = tuple(self._ids), {}, None
        return await self._fetch(ids)


def _seen(task: asyncio.Task[Mapping[str, Found]]) -> None:
    """A failure that nobody waits for any more is no news."""
    if not task.cancelled():
        task.exception()
