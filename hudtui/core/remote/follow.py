"""Following a file that grows, exact by byte offset: here and over SFTP in the same way.

The file is looked at again and again. `tail -F` cannot stand in: it does not notice a log that was
emptied and has grown beyond its old size, and of one that was renamed it leaves out the last lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol

from hudtui.core.remote.host import FileChunk

CHUNK = 256 * 1024
"""Bytes of one look, at most."""
_FIRST = 64 * 1024
"""Bytes of the first look, at most: a picture of them comes soon."""
_MUCH = 16 * 1024
"""Bytes of a look after which the next one follows at once."""
_FASTEST, _SLOWEST = 0.1, 0.25
"""Seconds between looks at a file that grows, and at a file that rests."""
_NAME_EVERY = 1.0
"""Seconds between looks at which file has the name."""
_SEAM = 64
"""Bytes before the offset that are read again: a file that was emptied may have outgrown the
offset."""


class GrowingFile(Protocol):
    """An open file."""

    async def read(self, size: int, offset: int) -> bytes:
        """Read bytes; fewer at the end of the file."""
        ...

    async def is_replaced(self) -> bool:
        """Return True if another file has its name now."""
        ...

    async def close(self) -> None: ...


class Cursor:
    """Offset up to which a growing file was read; notices that it was emptied or replaced."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.seam = b""
        """The last bytes before the offset."""
        self.size = _FIRST
        """Bytes of the next look, at most; see `shrink`."""

    def shrink(self) -> None:
        """Begin with small looks again: a slow line that is cut often still moves on."""
        self.size = _MUCH

    def begin_again(self) -> None:
        """Start at the first byte: what was read belongs to an older file."""
        self.offset, self.seam = 0, b""

    @property
    def start(self) -> int:
        """Offset to read from: the seam comes first."""
        return self.offset - len(self.seam)

    def take(self, data: bytes) -> bytes | None:
        """Return the new bytes of `data`, read at `start`.

        None if the file was emptied or replaced.
        """
        if not data.startswith(self.seam):  # also when less than the seam is left
            self.begin_again()
            return None
        fresh = data[len(self.seam) :]
        self.advance(fresh)
        return fresh

    def advance(self, fresh: bytes) -> None:
        """Count bytes as read that follow the offset."""
        self.offset += len(fresh)
        self.seam = (self.seam + fresh[-_SEAM:])[-_SEAM:]

    async def enter(self, file: GrowingFile) -> None:
        """Read the seam of a file that is opened at an offset; begin again if it is shorter."""
        if self.seam or not self.offset:
            return
        length = min(_SEAM, self.offset)
        self.seam = await file.read(length, self.offset - length)
        if len(self.seam) < length:
            self.begin_again()


async def follow(
    open_file: Callable[[], Awaitable[GrowingFile | None]], cursor: Cursor
) -> AsyncGenerator[FileChunk, None]:
    """Yield the bytes of a file from the cursor on, without end, as they are written.

    A file that does not exist yet (`open_file` returns None) is waited for. A file that was
    truncated, or replaced under the same name, is read from its start; the last bytes of the old
    file come first. The consumer notices by a chunk that does not begin where the one before ends.
    """
    clock = asyncio.get_running_loop().time
    file: GrowingFile | None = None
    pause, next_name, leaving = _FASTEST, 0.0, False
    try:
        while True:
            if file is None and (file := await open_file()) is not None:
                await cursor.enter(file)
                leaving = False
            if file is not None:
                fresh = cursor.take(await file.read(len(cursor.seam) + cursor.size, cursor.start))
                if fresh is None:
                    continue
                if fresh:
                    pause = _FASTEST
                    yield FileChunk(cursor.offset - len(fresh), fresh)
                    if len(fresh) >= _MUCH:
                        cursor.size = min(2 * cursor.size, CHUNK)
                        await asyncio.sleep(0)  # others run, also where nothing else waits
                        continue
                elif clock() >= next_name:
                    next_name = clock() + _NAME_EVERY
                    # Left at the second look only: the writer may still write to the old file.
                    if (replaced := await file.is_replaced()) and leaving:
                        await file.close()
                        file = None
                        cursor.begin_again()
                        continue
                    leaving = replaced
            await asyncio.sleep(pause)
            pause = min(pause * 1.25, _SLOWEST)
    finally:
        if file is not None:
            await file.close()
