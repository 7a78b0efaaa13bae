"""Random delays in every Python process: of work in threads up to 0.12 s, after it 0.08 s, of
programs that asyncio starts 0.2 s.

    PYTHONPATH=tests/faults/delays python -m pytest -n 6 --dist loadgroup tests/core tests/cli
    tests/tui

Tests, and flows, that only hold because something is fast fail then.
`test_stdio_imports_nothing_heavy` fails always: it finds asyncio, which this module imports. The
supervisor of a run takes no module from outside, and is not delayed.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_submit = ThreadPoolExecutor.submit
_start = asyncio.BaseEventLoop.subprocess_exec


def _late(seconds: float) -> float:
    return random.random() * seconds if random.random() < 0.5 else 0.0


def _submit_late(
    self: ThreadPoolExecutor, work: Callable[..., Any], /, *args: Any, **more: Any
) -> Future[Any]:
    def delayed() -> Any:
        time.sleep(_late(0.12))
        result = work(*args, **more)
        time.sleep(_late(0.08))
        return result

    return _submit(self, delayed)


async def _start_late(self: asyncio.BaseEventLoop, *args: Any, **more: Any) -> Any:
    await asyncio.sleep(_late(0.2))
    return await _start(self, *args, **more)


ThreadPoolExecutor.submit = _submit_late  # type: ignore[assignment]
asyncio.BaseEventLoop.subprocess_exec = _start_late  # type: ignore[method-assign]
