"""Following files that grow: exact by byte offset, in bounded memory, without busy polling."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath

from hudtui.core.errors import MachineError
from hudtui.core.remote.host import NOT_A_FILE, FileChunk, FileRefused, Host

CHUNK = 256 * 1024
"""Largest number of bytes in one chunk."""
FASTEST, SLOWEST = 0.1, 0.25
"""Seconds between looks at a file that grows, and at one that rests."""
_SEAM = 64
"""Bytes before the offset that are read again, to notice a file that was emptied and has outgrown the old offset since."""


async def follow_file(path: Path, *, offset: int = 0) -> AsyncIterator[FileChunk]:
    """The bytes of a local file from `offset` on, for ever, as they are written.

    A file that does not exist yet is waited for. One that was truncated, or replaced under the same name, is read from its start;
    the old file's last bytes come first. The consumer notices by a chunk whose offset is not the end of the chunk before.

    Raises:
        MachineError: The file is a folder, or may not be read.
    """
    stream: int | None = None
    position, seam, pause, leaving = offset, b"", FASTEST, False
    try:
        while True:
            if stream is None:
                stream = _open(path)
                if stream is not None:
                    if os.fstat(stream).st_size < position:
                        position = 0
                    seam = os.pread(stream, min(_SEAM, position), max(position - _SEAM, 0))
            if stream is not None:
                data = _read(path, stream, len(seam) + CHUNK, position - len(seam))
                if not data.startswith(seam):  # also when less than the seam is left
                    position, seam = 0, b""
                    continue
                if fresh := data[len(seam) :]:
                    yield FileChunk(position, fresh)
                    position += len(fresh)
                    seam, pause = data[-_SEAM:], FASTEST
                    if len(fresh) == CHUNK:
                        await asyncio.sleep(0)  # a consumer that never waits must not starve the loop
                        continue
                elif not _replaced(path, stream):
                    leaving = False
                elif leaving:
                    os.close(stream)
                    stream, position, leaving = None, 0, False
                    continue
                else:
                    leaving = True  # the writer may still have the old file open: one more look at it
            await asyncio.sleep(pause)
            pause = min(pause * 1.25, SLOWEST)
    finally:
        if stream is not None:
            os.close(stream)


def _open(path: Path) -> int | None:
    try:
        stream = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise MachineError(f"{path} cannot be read", why=error.strerror) from None
    if not stat.S_ISREG(os.fstat(stream).st_mode):
        os.close(stream)
        raise MachineError(f"{path} is no ordinary file")
    return stream


def _read(path: Path, stream: int, size: int, offset: int) -> bytes:
    try:
        return os.pread(stream, size, offset)
    except OSError as error:
        raise MachineError(f"{path} cannot be read", why=error.strerror) from None


def _replaced(path: Path, stream: int) -> bool:
    try:
        there, ours = os.stat(path), os.fstat(stream)
    except OSError:
        return False  # moved away, and nothing new stands there yet: the old file may still grow
    return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)


async def offset_of_last_lines(host: Host, path: PurePosixPath | str, lines: int, *, most: int = 1024 * 1024) -> int:
    """The byte offset at which the last `lines` lines of a file begin, found by reading backwards.

    Args:
        host: Where the file lies.
        path: The file; one that does not exist has offset 0.
        lines: How many lines are wanted.
        most: Bytes that are read at most: with very long lines the offset may lie inside of one.

    Raises:
        MachineError: The file cannot be read.
    """
    facts = await host.facts(path)
    if facts is not None and not facts.regular:
        raise FileRefused(f"{path} on {host.name} is not read", why=NOT_A_FILE)
    if facts is None or lines <= 0:
        return facts.size if facts else 0
    block, position, floor = 64 * 1024, facts.size, max(facts.size - most, 0)
    missing = lines
    while position > floor:
        start = max(position - block, floor)
        data = await host.get(path, offset=start, limit=position - start)
        end = len(data)
        if position == facts.size and data.endswith(b"\n"):
            end -= 1  # the end of the last line is no beginning of another
        while (found := data.rfind(b"\n", 0, end)) >= 0:
            missing -= 1
            if missing == 0:
                return start + found + 1
            end = found
        position = start
    return floor
