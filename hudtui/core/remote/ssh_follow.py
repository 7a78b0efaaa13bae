"""Following a file on a machine behind SSH: exact by byte offset over any number of disconnects, in bounded memory.

A small program there (`hudtui/pod/reader.py`) looks at the file and sends what is new over one channel. Where there is no Python,
or no channel to spare, the file is looked at over SFTP.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import struct
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import MachineError
from hudtui.core.remote import ssh_files
from hudtui.core.remote.follow import CHUNK, FASTEST, SLOWEST
from hudtui.core.remote.host import Chunk
from hudtui.core.remote.ssh_errors import Disconnected, explain
from hudtui.core.remote.ssh_link import BackOff, Link
from hudtui.core.remote.ssh_run import NoChannel, open_channel
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    import asyncssh

BUFFER = 1024 * 1024
"""Bytes that wait for the consumer before the machine is made to wait."""
READERS = 4
"""Readers of one connection at a time; further files are looked at over SFTP, which shares one channel."""
_HEAD = struct.Struct(">QQQI")
_WRONG = 2**64 - 1
_SEAM = 64
_START = "import sys;exec(sys.stdin.buffer.read(int(sys.argv[1])))"


class _NoReader(Exception):
    """The reader did not come to life there."""


@dataclass
class _Place:
    """How far the file was followed."""

    path: str
    position: int
    seam: bytes = b""
    """The last bytes before the position: they tell whether it is still the same content."""
    file: tuple[int, int] | None = None
    """Device and inode there, where known."""

    def take(self, offset: int, data: bytes) -> Chunk:
        if offset != self.position:
            self.seam = b""
        self.position = offset + len(data)
        self.seam = (self.seam + data)[-_SEAM:]
        return Chunk(offset, data)


async def follow_remote(link: Link, path: PurePosixPath | str, *, offset: int = 0) -> AsyncGenerator[Chunk, None]:
    """See `Host.follow`. A machine that is away is waited for without end.

    Raises:
        MachineError: The file is none or may not be read, or the machine let nobody in any more.
    """
    place, back_off, reader = _Place(str(path), offset), BackOff(), True
    while True:
        use_reader = reader and link.readers < READERS
        link.readers += use_reader
        try:
            async with aclosing(_read(link, place) if use_reader else _poll(link, place)) as chunks:
                async for chunk in chunks:
                    back_off.reset()
                    yield chunk
        except Disconnected:
            pass
        except (_NoReader, NoChannel):
            if not use_reader:
                raise MachineError(f"{path} on {link.target.name} cannot be followed", why="no channel is left") from None
            reader = False
            continue
        finally:
            link.readers -= use_reader
        await back_off.wait()


@cache
def _program() -> bytes:
    return resources.files("hudtui.pod").joinpath("reader.py").read_bytes()


async def _read(link: Link, place: _Place) -> AsyncGenerator[Chunk, None]:
    """What the reader there sends, until the connection is lost."""
    mark = f"hudtui-{secrets.token_hex(8)}\n"
    order = {
        "path": place.path,
        "offset": place.position,
        "seam": place.seam.hex(),
        "file": place.file,
        "mark": mark,
        "chunk": CHUNK,
        "fastest": FASTEST,
        "slowest": SLOWEST,
    }
    program = _program()
    frames = _Frames(mark.encode())
    connection = await link.connection()
    channel = await open_channel(link, connection, f"exec python3 -I -S -c '{_START}' {len(program)}", frames)
    try:
        # What is followed may be secret: all of it goes by standard input, which no list of processes shows. It stays open, for
        # its end tells the reader that nobody listens any more.
        channel.write(program + json.dumps(order).encode() + b"\n")
        while True:
            for device, inode, offset, data in frames.take():
                if offset == _WRONG:
                    why = clean_line(data.decode("utf-8", "replace"), 300)
                    raise MachineError(f"{place.path} cannot be read on {link.target.name}", why=why)
                chunk = place.take(offset, data)
                place.file = (device, inode)
                yield chunk
            if frames.ended:
                break
            await frames.wait()
    except OSError as error:
        raise explain(error, link.target) from None
    finally:
        channel.close()
    if frames.status is not None and not frames.begun:
        raise _NoReader
    raise Disconnected(f"the connection with {link.target.name} was lost")


class _Frames:
    """The reader's output, taken apart as it comes. Asks the channel to wait when the consumer does not keep up."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._channel: Any = None
        self._buffer = bytearray()
        self._paused = False
        self._wake = asyncio.Event()
        self._head: tuple[int, int, int] | None = None
        self._left = 0
        self.begun = False
        self.ended = False
        self.status: int | None = None

    def take(self) -> list[tuple[int, int, int, bytes]]:
        """What has come: device, inode, offset, bytes. Also parts of a frame, so that a slow connection moves on."""
        if not self.begun:
            found = self._buffer.find(self._mark)
            if found < 0:
                del self._buffer[: -len(self._mark)]
                return []
            del self._buffer[: found + len(self._mark)]
            self.begun = True
        pieces: list[tuple[int, int, int, bytes]] = []
        view, at = bytes(self._buffer), 0
        while at < len(view):
            if self._head is None:
                if len(view) - at < _HEAD.size:
                    break
                device, inode, offset, self._left = _HEAD.unpack_from(view, at)
                self._head = (device, inode, offset)
                at += _HEAD.size
            device, inode, offset = self._head
            if offset == _WRONG and len(view) - at < self._left:
                break  # words are only good as a whole
            data = view[at : at + self._left]
            at += len(data)
            self._left -= len(data)
            if data:
                pieces.append((device, inode, offset, data))
            self._head = (device, inode, offset + len(data)) if self._left else None
        del self._buffer[:at]
        if self._paused:
            self._paused = False
            self._channel.resume_reading()
        return pieces

    async def wait(self) -> None:
        """Until there is more, or the end."""
        await self._wake.wait()
        self._wake.clear()

    def connection_made(self, chan: Any) -> None:
        self._channel = chan

    def session_started(self) -> None:
        pass

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if datatype is None:
            self._buffer += data
            if len(self._buffer) > BUFFER and not self._paused:
                self._paused = True
                self._channel.pause_reading()
            self._wake.set()

    def eof_received(self) -> bool:
        return True

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass

    def exit_status_received(self, status: int) -> None:
        self.status = status

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self.status = -1

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        self._wake.set()


async def _poll(link: Link, place: _Place) -> AsyncGenerator[Chunk, None]:
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
                        if len(fresh) == CHUNK:
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
    import stat

    import asyncssh

    try:
        found = await files.stat(path)  # before it is opened: a pipe would hold the server
        if found.permissions is not None and not stat.S_ISREG(found.permissions):
            raise asyncssh.SFTPFailure("it is no ordinary file")
        return await files.open(path, "rb", encoding=None)
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
