"""Processes, ports and files that servers leave behind, found by a mark in their environment.

Processes, what they listen on and the memory they hold are read from /proc: on Linux only.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hudtui.core.text import plural

_PROCESSES = Path("/proc")
_LISTENS = "0A"
"""The state of a socket that takes connections, in the kernel's tables."""
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
            names = ", ".join(dict.fromkeys(filter(None, map(_name, running))))
            memory = sum(map(_memory, running))
            count = f"{len(running)} process{'' if len(running) == 1 else 'es'}"
            left.append(f"{count} ({names}) with {memory / 2**20:.0f} MB")
            if ports := sorted({port for one in running for port in _ports(one)}):
                shown = ", ".join(map(str, ports[:_MOST_NAMES]))
                left.append(f"{plural(len(ports), 'open port')} ({shown})")
        files = sorted(path.name for path in self.folder.iterdir())
        if files:
            names = ", ".join(files[:_MOST_NAMES])
            left.append(f"{plural(len(files), 'temporary file')} ({names})")
        return tuple(left)

    def _processes(self) -> Iterator[Path]:
        """Yield the folders in /proc of the processes that carry the mark."""
        mark = f"TMPDIR={self.folder}".encode()
        for folder in _PROCESSES.glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    yield folder
            except OSError:
                continue  # it has ended, or is another user's


def _name(process: Path) -> str:
    """Return the name of a process; empty if it has ended."""
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return ""


def _memory(process: Path) -> int:
    """Return the bytes of memory that a process holds; 0 if it has ended."""
    try:
        return int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _ports(process: Path) -> Iterator[int]:
    """Yield the TCP ports that a process listens on; none if it has ended."""
    with suppress(OSError):
        sockets = {os.readlink(one) for one in (process / "fd").iterdir()}
        for table in ("tcp", "tcp6"):
            for line in (process / "net" / table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENS and f"socket:[{words[9]}]" in sockets:
                    yield int(words[1].rpartition(":")[2], 16)


@contextmanager
def marked() -> Iterator[Mark]:
    """Give a mark, and remove its folder afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="hudtui-audit-"))
    try:
        yield Mark(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
