"""What the app takes from outside: the clock, and how the project is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudtui.tui.facts import Facts


@dataclass(frozen=True)
class Marks:
    """Marks of files, which change with every write of any process. They are cheap to read."""

    runs: object = None
    """Of the project's runs."""
    machines: object = None
    """Of the rented machines of all projects."""
    trust: object = None
    """Of what the user has agreed to in this folder, and of the settings."""


def _now() -> datetime:
    return datetime.now(UTC)


def _late(module: str = "hudtui.tui.workspace_facts") -> Any:
    """A module that is imported when it is first needed.

    By default the module that reads the project.
    """
    return import_module(module)


@dataclass(frozen=True)
class Services:
    """What the app takes from outside. Tests replace the clock."""

    now: Callable[[], datetime] = _now
    """The time, with a zone."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits between two checks of a machine that is being rented or ended."""
    load_facts: Callable[[Path], Facts] = lambda folder: _late().load_facts(folder)
    """Reads the project; runs in a thread."""
    marks: Callable[[Path], Marks] = lambda folder: _late().marks(folder)
    """See `Marks`; runs in a thread."""
    check_files: Callable[[Facts], bool] = lambda facts: _late().check_files(facts)
    """Checks new and changed files of the project, and returns whether a result is new; runs in a
    thread."""
    sync_runs: Callable[[Path, bool], Awaitable[tuple[str, ...]]] = lambda folder, first: (
        _late().sync_runs(folder, first)
    )
    """Asks the machines for the state of their runs; True at the start. Returns notices for the
    user."""
    make_demo: Callable[[Path], AsyncIterator[object]] = lambda folder: _late(
        "hudtui.core.demo"
    ).prepare(folder)
    """Writes a demo workspace into a folder; `core.demo.prepare`."""
