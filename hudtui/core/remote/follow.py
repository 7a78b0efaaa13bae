"""Following files that grow: exact by byte offset, in bounded memory, without busy polling."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path, PurePosixPath

from hudtui.core.errors import MachineError
from hudtui.core.remote.host import Chunk, Host

CHUNK = 256 * 1024
"""Largest number of bytes in one chunk."""
FASTEST, SLOWEST = 0.1, 0.25
"""Seconds between looks at a file that grows, and at one that rests."""
_SEAM = 64
"""Bytes before the offset that are read again, to notice a file that was emptied and has outgrown the old offset since."""


async def follow_file(path: Path, *, offset: int = 0) -> AsyncIterator[Chunk]:
    """The bytes of a local file from `offset` on, for ever, as they are written.

    A file that does not exist yet is waited for. One that was truncated, or replaced under the same name, is read from its start;
    the old file's last bytes come first. The consumer notices by a chunk whose offset is not the end of the chunk before.

    Raises:
        MachineError: The file is a folder, or may not be read.
    """
    stream: int | None = None
    position, seam, pause = offset, b"", FASTEST
    try:
        while True:
            if stream is None:
                stream = _open(path)
                if stream is not None and os.fstat(stream).st_size < position:
                    position, seam = 0, b""
            if stream is not None:
                data = os.pread(stream, CHUNK + len(seam), position - len(seam))
                if not data.startswith(seam):  # also when less than the seam is left
                    position, seam = 0, b""
                    continue
                if len(data) > len(seam):
                    fresh = data[len(seam) :]
                    yield Chunk(position, fresh)
                    position += len(fresh)
                    seam, pause = data[-_SEAM:], FASTEST
                    if len(fresh) == CHUNK:
                        await asyncio.sleep(0)  # a consumer that never waits must not starve the loop
                        continue
                elif _replaced(path, stream):
                    # What was written between our last look and the replacement has been read: the look above came after it,
                    # or comes now.
                    rest = os.pread(stream, CHUNK, position)
                    if rest:
                        yield Chunk(position, rest)
                        position += len(rest)
                        seam = (seam + rest)[-_SEAM:]
                        continue
                    os.close(stream)
                    stream, position, seam = None, 0, b""
                    continue
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
    if os.path.isdir(path):
        os.close(stream)
        raise MachineError(f"{path} is a folder, and a file is needed")
    return stream


def _replaced(path: Path, stream: int) -> bool:
    try:
        there, ours = os.stat(path), os.fstat(stream)
    except OSError:
        return False  # moved away, and nothing new stands there yet: the old file may still grow
    return (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino)


async def last_lines(host: Host, path: PurePosixPath | str, lines: int, *, most: int = 1024 * 1024) -> int:
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
