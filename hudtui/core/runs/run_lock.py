"""Who tends a run on a rented machine: one process at a time. The kernel lets go of it however that process ends."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from hudtui.core.errors import RunError
from hudtui.core.runs.store import RunStore


def _lock(store: RunStore, run: str) -> Path:
    return store.state_dir / "locks" / run


@contextlib.asynccontextmanager
async def lock_run(store: RunStore, run: str, *, patience: float = 0.5) -> AsyncGenerator[None, None]:
    """Tend a run, and be the only one who does.

    Args:
        store: Where the run is kept.
        run: Its id.
        patience: Seconds to wait for another process to let go of it. Some are always needed: `tended` looks for a moment.

    Raises:
        RunError: Another one does.
    """
    path = _lock(store, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= until:
                    raise RunError(f"another hudtui tends run {run}", fix=f"Look at it: hudtui runs show {run}.") from None
                await asyncio.sleep(0.2)
        yield
    finally:
        os.close(handle)


def is_managed(store: RunStore, run: str) -> bool:
    """Whether a living process tends a run at this moment, this one included."""
    try:
        handle = os.open(_lock(store, run), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
