"""Wait for an app in a test as long as it works, and no longer.

After every key and in every pause, Textual's `wait_for_idle` sleeps until the process used next to
no CPU time for 20 ms. The wait here ends as soon as nothing more can happen by itself: no callback
of the loop is ready, no thread works for the loop, and no timer is due in the next 20 ms. Where
there is always one, or a thread that itself waits, it is Textual's wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import process_time, thread_time
from typing import Any
from unittest.mock import patch
from weakref import WeakSet

from textual._wait import SLEEP_GRANULARITY, SLEEP_IDLE

_THREADS_WAIT = 0.15
"""Seconds without processor time after which threads that sleep count as ones that wait for
something."""
_ROUNDS = 4
"""Timers that are waited for before little processor time counts as rest: the process may have had
no processor."""
_threads: WeakSet[asyncio.Future[Any]] = WeakSet()
"""What threads do for event loops."""


def _elsewhere() -> float:
    """The processor time of the other threads: looking after them takes some too, and says nothing
    about them."""
    return process_time() - thread_time()


def _wanting() -> bool:
    """Whether another thread would work if it got a processor, or waits for a disk."""
    wanting = 0
    for path in Path("/proc/self/task").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            wanting += path.read_text().rpartition(")")[2].split()[0] in "RD"
    return wanting > 1


async def at_rest(shortest: float = 0.0, longest: float = 1.0) -> None:
    """Wait until the app is at rest.

    Args:
        shortest: Seconds to wait in any case.
        longest: Seconds after which the wait ends, whatever the app does.
    """
    loop: Any = asyncio.get_running_loop()
    end = loop.time() + longest
    await asyncio.sleep(shortest)
    since, used, others, rounds = loop.time(), process_time(), _elsewhere(), 0
    while loop.time() < end:
        await asyncio.sleep(0)
        if loop._ready:
            continue
        now = loop.time()
        due = min((timer.when() for timer in loop._scheduled if not timer.cancelled()), default=end)
        working = [future for future in _threads if not future.done() and future.get_loop() is loop]
        if due > now + SLEEP_GRANULARITY and not working:
            return
        if now - since > (_THREADS_WAIT if working else SLEEP_GRANULARITY):
            if working:
                idle = _elsewhere() - others < SLEEP_IDLE and not _wanting()
            else:
                idle = process_time() - used < SLEEP_IDLE and rounds >= _ROUNDS
            if idle:
                return
            if working or rounds >= _ROUNDS:
                since, used, others, rounds = now, process_time(), _elsewhere(), 0
        rounds += 1
        if working:
            await asyncio.wait(working, timeout=SLEEP_GRANULARITY / 4)
        else:
            await asyncio.sleep(max(0, due - now))


async def after_a_key(shortest: float = 0.0) -> None:
    """Wait until the app is at rest. Two such waits after each key set keys as far apart as a hand
    does: see `typed.BURST`."""
    await at_rest(max(shortest, 0.016))


@contextmanager
def quick_waits() -> Iterator[None]:
    """Let all that Textual's pilot waits for end when the app is at rest."""
    run_in_executor = asyncio.BaseEventLoop.run_in_executor

    def noticed(loop: asyncio.BaseEventLoop, *args: Any) -> asyncio.Future[Any]:
        future = run_in_executor(loop, *args)
        _threads.add(future)
        return future

    with (
        patch("asyncio.BaseEventLoop.run_in_executor", noticed),
        patch("textual.pilot.wait_for_idle", at_rest),
        patch("textual.app.wait_for_idle", after_a_key),
    ):
        yield
