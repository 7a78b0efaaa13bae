"""A lock, so that only one process manages a run on a rented machine.

The kernel releases it when the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import AsyncGenerator, Collection
from pathlib import Path

from hudtui.core.errors import MachineError, RunError
from hudtui.core.paths import private_folder
from hudtui.core.runs.store import RunRecord, RunStore


def _lock(store: RunStore, run: str) -> Path:
    return store.state_dir / "locks" / run


@contextlib.asynccontextmanager
async def lock_run(
    store: RunStore, run: str, *, patience: float = 0.5
) -> AsyncGenerator[None, None]:
    """Hold the lock of a run.

    `patience` is the time in seconds to wait for another process. It is never 0: `is_managed` holds
    the lock for a moment.

    Raises:
        RunError: Another process holds it.
        MachineError: Its file cannot be made: the disk is full, or read-only.
    """
    path = _lock(store, run)
    try:
        private_folder(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise MachineError(
            f"run {run} cannot be managed: {path} cannot be written", why=error.strerror
        ) from None
    until = time.monotonic() + patience
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() >= until:
                    raise RunError(
                        f"run {run} is already managed by another hudtui",
                        fix=f"See it: hudtui runs show {run}.",
                    ) from None
                await asyncio.sleep(0.2)
        yield
    finally:
        os.close(handle)


def is_managed(store: RunStore, run: str) -> bool:
    """Return whether a process manages a run now, this process included."""
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


def unfinished_runs(store: RunStore) -> tuple[RunRecord, ...]:
    """Return the user's runs on rented machines that lack a step.

    Failed runs whose machine the user wants to keep are left out. So are runs that have not asked
    for a machine: hudtui does not rent a machine after the process in which the user agreed to it
    has ended.
    """
    found = []
    for run in store.runs():
        record = store.record(run.id)
        rent = record.spec.rent
        kept = rent is not None and rent.keep_on_failure and run.state == "failed"
        if (
            record.own
            and rent is not None
            and run.machine != "none"
            and (run.active or run.holds_machine)
            and not kept
        ):
            found.append(record)
    return tuple(found)


def abandoned_runs(store: RunStore, among: Collection[str]) -> tuple[RunRecord, ...]:
    """Return the runs of `unfinished_runs` that no process manages."""
    return tuple(
        one for one in unfinished_runs(store) if one.id in among and not is_managed(store, one.id)
    )
