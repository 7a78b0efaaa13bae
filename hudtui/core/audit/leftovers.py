"""Processes and files that servers leave behind, found by a mark in their environment."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PROCESSES = Path("/proc")
_MOST_NAMES = 5
_LOOKS = 30
_PAUSE = 0.1
"""Seconds between two looks: a busy machine takes its time to end a process."""


class Mark:
    """A folder for the temporary files of servers, whose path marks their processes.

    Attributes:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, mcp_config: Mapping[str, Any]) -> dict[str, Any]:
        """Return an `mcp_config` whose local servers keep temporary files in the folder."""
        return {name: self._put(server) for name, server in mcp_config.items()}

    def _put(self, server: Any) -> Any:
        if not isinstance(server, Mapping) or "command" not in server:
            return server
        given = server.get("env") or {}
        if not isinstance(given, Mapping):
            return server
        return {**server, "env": {"TMPDIR": str(self.folder), **given}}

    async def leftovers(self) -> tuple[str, ...]:
        """Return what is there some seconds after all servers were told to end, in words."""
        left = []
        for _ in range(_LOOKS):
            if not (running := list(self._processes())):
                break
            await asyncio.sleep(_PAUSE)
        if running:
            left.append(f"{len(running)} processes ({', '.join(dict.fromkeys(running))})")
        files = sorted(path.name for path in self.folder.iterdir())
        if files:
            names = ", ".join(files[:_MOST_NAMES])
            left.append(f"{len(files)} temporary files ({names})")
        return tuple(left)

    def _processes(self) -> Iterator[str]:
        """Yield the names of the processes that carry the mark."""
        mark = f"TMPDIR={self.folder}".encode()
        for folder in _PROCESSES.glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    yield (folder / "comm").read_text().strip()
            except OSError:
                continue  # it has ended, or is another user's


@contextmanager
def marked() -> Iterator[Mark]:
    """Give a mark, and remove its folder afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="hudtui-audit-"))
    try:
        yield Mark(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
