"""Following files on a machine behind SSH: exact by byte offset over any number of disconnects, in bounded memory.

A small program there (see `ssh_reader`) looks at all followed files and sends what is new over one channel. Where there is no
Python, or no channel to spare, a file is looked at over SFTP.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import MachineError
from hudtui.core.remote import ssh_files
from hudtui.core.remote.host import NOT_A_FILE, FileChunk
from hudtui.core.remote.logs import CHUNK, FASTEST, SLOWEST
from hudtui.core.remote.ssh_channel import NoChannel
from hudtui.core.remote.ssh_connection import BackOff, SshConnection
from hudtui.core.remote.ssh_errors import Disconnected
from hudtui.core.remote.ssh_reader import NoReader, shared_reader

if TYPE_CHECKING:
    import asyncssh

_SEAM = 64
_MUCH = 16 * 1024
"""Bytes of one answer after which there is likely more; servers give less than is asked for (OpenSSH: 255 KiB at most)."""


@dataclass
class _Place:
    """How far the file was followed."""

    path: str
    position: int
    seam: bytes = b""
    """The last bytes before the position: they tell whether it is still the same content."""
    file: tuple[int, int] | None = None
    """Device and inode there, where known."""

    def take(self, offset: int, data: bytes) -> FileChunk:
        if offset != self.position:
            self.seam = b""
        self.position = offset + len(data)
        self.seam = (self.seam + data)[-_SEAM:]
        return FileChunk(offset, data)


async def follow_remote(link: SshConnection, path: PurePosixPath | str, *, offset: int = 0) -> AsyncGenerator[FileChunk, None]:
    """See `Host.follow`. A machine that is away is waited for without end.

    Raises:
        MachineError: The file is none or may not be read, or the machine let nobody in any more.
    """
    place, back_off, reader = _Place(str(path), offset), BackOff(), True
    while True:
        try:
            async with aclosing(_read(link, place) if reader else _poll(link, place)) as chunks:
                async for chunk in chunks:
                    back_off.reset()
                    yield chunk
        except Disconnected:
            pass
        except (NoReader, NoChannel):
            if not reader:
                raise MachineError(f"{path} on {link.target.name} cannot be followed", why="no channel is left") from None
            reader = False
            continue
        await back_off.wait()


async def _read(link: SshConnection, place: _Place) -> AsyncGenerator[FileChunk, None]:
    """What the reader there sends, until the connection is lost."""
    reader = await shared_reader(link)
    stream = reader.follow(place.path, place.position, place.seam, place.file)
    try:
        while True:
            for device, inode, offset, data in stream.take():
                chunk = place.take(offset, data)
                place.file = (device, inode)
                yield chunk
            if stream.wrong is not None:
                raise MachineError(f"{place.path} cannot be read on {link.target.name}", why=stream.wrong)
            if reader.ended:
                raise Disconnected(f"the connection with {link.target.name} was lost")
            await stream.wait()
    finally:
        reader.drop(stream)


async def _poll(link: SshConnection, place: _Place) -> AsyncGenerator[FileChunk, None]:
    """Looks at the file over SFTP, which knows no inodes: a file of another size, age or owner than the open one is another."""
    import asyncssh

    pause, leaving = FASTEST, False
    stream: Any = None
    try:
        with link.translated():
            files = await link.files()
            while True:
                if stream is None:
                    stream = await _open(files, place.path)
                    if stream is not None:
                        size = (await stream.stat()).size or 0
                        if size < place.position:
                            place.position, place.seam = 0, b""
                        if not place.seam and place.position:
                            start = max(place.position - _SEAM, 0)
                            place.seam = await stream.read(place.position - start, start)
                if stream is not None:
                    seam = place.seam
                    data = await stream.read(len(seam) + CHUNK, place.position - len(seam))
                    if not data.startswith(seam):
                        place.position, place.seam = 0, b""
                        continue
                    if fresh := data[len(seam) :]:
                        pause = FASTEST
                        yield place.take(place.position, fresh)
                        if len(fresh) >= _MUCH:
                            continue
                    elif not await _replaced(files, place.path, stream):
                        leaving = False
                    elif leaving:
                        await stream.close()
                        stream, place.position, place.seam, leaving = None, 0, b"", False
                        continue
                    else:
                        leaving = True
                await asyncio.sleep(pause)
                pause = min(pause * 1.25, SLOWEST)
    except asyncssh.SFTPError as error:
        raise MachineError(f"{place.path} cannot be read on {link.target.name}", why=ssh_files.reason(error)) from None
    finally:
        if stream is not None:
            with ssh_files.ignore_broken():
                await stream.close()


async def _open(files: asyncssh.SFTPClient, path: str) -> Any:
    import asyncssh

    try:
        found = await files.stat(path)  # before it is opened: a pipe would hold the server
        if not ssh_files.is_regular(found):
            raise asyncssh.SFTPFailure(NOT_A_FILE)
        # One request at a time: of several, those in flight when the follower leaves would report their failure to the terminal.
        return await files.open(path, "rb", encoding=None, block_size=0)
    except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
        return None


async def _replaced(files: asyncssh.SFTPClient, path: str, stream: Any) -> bool:
    import asyncssh

    def traits(found: Any) -> tuple[Any, ...]:
        return found.size, found.mtime, found.uid, found.gid, found.permissions

    ours = traits(await stream.stat())
    try:
        there = traits(await files.stat(path))
    except asyncssh.SFTPError:
        return False
    return there != ours and traits(await stream.stat()) == ours
