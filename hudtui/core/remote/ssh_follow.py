"""Following files on a machine behind SSH: exact by byte offset over any number of disconnects, in bounded memory.

One small program there (`hudtui/pod/reader.py`) reads all followed files and sends what is new over one channel. Where there is
no Python, or no channel to spare, each file is read over SFTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import weakref
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import asyncssh

from hudtui.core.errors import MachineError
from hudtui.core.remote.host import Disconnected, FileChunk
from hudtui.core.remote.ssh_connection import (
    BackOff,
    ChannelListener,
    NoChannel,
    SshConnection,
    check_regular,
    ignore_broken,
    sftp_reason,
)
from hudtui.core.text import clean_line
from hudtui.pod.reader import CHUNK, HEAD, WRONG, Cursor

BUFFER = 1024 * 1024
"""Bytes of one file that may be here or on their way before the machine waits for its consumer."""
_MUCH = 16 * 1024
"""Bytes of an SFTP answer after which there is likely more; servers give less than is asked for (OpenSSH: 255 KiB at most)."""
# What is followed may be secret: all of it goes by standard input, which no list of processes shows.
_START = 'import os,sys;n=int(sys.argv[1]);b=b""\nwhile len(b)<n:b+=os.read(0,n-len(b)) or sys.exit()\nexec(b)'


class _NoReader(Exception):
    """The reader did not start there: no Python, or a Python that does not work."""


async def follow_remote(link: SshConnection, path: str, offset: int = 0) -> AsyncGenerator[FileChunk, None]:
    """See `Host.follow`. Waits without end for a machine that is away.

    Raises:
        MachineError: The file cannot be read, or the machine rejects the login.
    """
    cursor, file = Cursor(offset), _Identity()
    back_off, python = BackOff(), True
    while True:
        try:
            async with aclosing(_read(link, path, cursor, file) if python else _poll(link, path, cursor)) as chunks:
                async for chunk in chunks:
                    back_off.reset()
                    yield chunk
        except Disconnected:
            pass
        except (_NoReader, NoChannel):
            if not python:
                raise MachineError(f"{path} on {link.target.name} cannot be followed", why="no channel is left") from None
            python = False
            continue
        await back_off.wait()


@dataclass
class _Identity:
    """Device and inode of the file that the cursor belongs to, where known."""

    numbers: tuple[int, int] | None = None


async def _read(link: SshConnection, path: str, cursor: Cursor, file: _Identity) -> AsyncGenerator[FileChunk, None]:
    """What the reader there sends, until the connection is lost."""
    reader = await shared_reader(link)
    stream = reader.follow(path, cursor, file.numbers)
    try:
        while True:
            for device, inode, offset, data in stream.take():
                if offset != cursor.offset:
                    cursor.begin_again()
                    cursor.offset = offset
                cursor.advance(data)
                file.numbers = device, inode
                yield FileChunk(offset, data)
            if stream.wrong is not None:
                raise MachineError(f"{path} cannot be read on {link.target.name}", why=stream.wrong)
            if reader.ended:
                raise Disconnected(f"the connection with {link.target.name} was lost")
            await stream.wait()
    finally:
        reader.drop(stream)


# --- the reader there -----------------------------------------------------------------------------------------------------


@dataclass
class _Shared:
    """The reader of one connection, while it runs."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    reader: Reader | None = None


_shared: weakref.WeakKeyDictionary[SshConnection, _Shared] = weakref.WeakKeyDictionary()


async def shared_reader(link: SshConnection) -> Reader:
    """The reader of a connection; started now if none runs.

    Raises:
        Disconnected: The machine cannot be reached now.
        NoChannel: The machine allows no more channels.
        _NoReader: The machine has no Python.
    """
    shared = _shared.setdefault(link, _Shared())
    async with shared.lock:
        connection = await link.connection()
        if shared.reader is None or shared.reader.ended or shared.reader.connection is not connection:
            shared.reader = await Reader.start(link, connection)
        return shared.reader


class Reader(ChannelListener):
    """The program that runs on one connection, and the files it follows."""

    def __init__(self, connection: asyncssh.SSHClientConnection) -> None:
        self.connection = connection
        self.ended = False
        self.streams: dict[int, Stream] = {}
        self.buffer = bytearray()
        """Bytes of frames that are not complete."""
        self._mark = f"hudtui-{secrets.token_hex(8)}\n".encode()
        self._begun: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._exited = False
        self._channel: Any = None
        self._last = 0
        self._head: tuple[int, int, int, int] | None = None
        self._left = 0

    @classmethod
    async def start(cls, link: SshConnection, connection: asyncssh.SSHClientConnection) -> Reader:
        """Start the program there, and wait until it answers."""
        reader, program = cls(connection), _program()
        channel = await link.open_channel(connection, f"exec python3 -I -S -c '{_START}' {len(program)}", reader)
        try:
            with contextlib.suppress(OSError):  # it may have ended already, as where there is no Python
                channel.write(program)
            reader.order({"mark": reader._mark.decode()})
            if not await reader._begun:
                if reader._exited:
                    raise _NoReader
                raise Disconnected(f"the connection with {link.target.name} was lost")
        except BaseException:
            reader.close()
            raise
        return reader

    def follow(self, path: str, cursor: Cursor, file: tuple[int, int] | None) -> Stream:
        """Follow a file from now on."""
        self._last += 1
        stream = self.streams[self._last] = Stream(self, self._last)
        where = {"path": path, "offset": cursor.offset, "seam": cursor.seam.hex(), "file": file, "room": BUFFER}
        self.order({"follow": stream.number, **where})
        return stream

    def drop(self, stream: Stream) -> None:
        """Stop following a file. The program ends with its last file."""
        if self.streams.pop(stream.number, None) is not None:
            self.order({"drop": stream.number})
        if not self.streams:
            self.close()

    def order(self, order: dict[str, Any]) -> None:
        """Send an order to the program, unless the program has ended."""
        if not self.ended:
            with contextlib.suppress(OSError):
                self._channel.write(json.dumps(order).encode() + b"\n")

    def close(self) -> None:
        """End the program: it ends with its input."""
        self.ended = True
        if self._channel is not None:
            self._channel.close()

    def connection_made(self, chan: Any) -> None:
        self._channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if datatype is not None:
            return
        self.buffer += data
        if not self._begun.done():
            # What the login shell prints at its start comes first.
            found = self.buffer.find(self._mark)
            if found < 0:
                del self.buffer[: -len(self._mark)]
                return
            del self.buffer[: found + len(self._mark)]
            self._begun.set_result(True)
        self._split()

    def exit_status_received(self, status: int) -> None:
        self._exited = True

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        self._exited = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended = True
        if not self._begun.done():
            self._begun.set_result(False)
        for stream in self.streams.values():
            stream.wake()

    def _split(self) -> None:
        """Pass on the frames that came. Parts of a frame count too, so that a slow connection makes progress."""
        view, at = bytes(self.buffer), 0
        while at < len(view):
            if self._head is None:
                if len(view) - at < HEAD.size:
                    break
                *head, self._left = HEAD.unpack_from(view, at)
                self._head = (head[0], head[1], head[2], head[3])
                at += HEAD.size
            number, device, inode, offset = self._head
            wrong = device == inode == 0 and offset == WRONG
            if wrong and len(view) - at < self._left:
                break  # words only count as a whole
            data = view[at : at + self._left]
            at += len(data)
            self._left -= len(data)
            stream = self.streams.get(number)
            if stream is not None and wrong:
                stream.fail(clean_line(data.decode("utf-8", "replace"), 300))
            elif stream is not None and data:
                stream.put((device, inode, offset, data))
            self._head = (number, device, inode, offset + len(data)) if self._left else None
        del self.buffer[:at]


class Stream:
    """What came of one file and was not taken yet. Bounded by the room that the reader was granted."""

    def __init__(self, reader: Reader, number: int) -> None:
        self.number = number
        self.wrong: str | None = None
        """Why the file cannot be followed."""
        self.waiting = 0
        """Bytes that wait here."""
        self._reader = reader
        self._pieces: list[tuple[int, int, int, bytes]] = []
        self._taken = 0
        self._changed = asyncio.Event()
        self.wake = self._changed.set

    def take(self) -> list[tuple[int, int, int, bytes]]:
        """All pieces that wait: device, inode, offset, bytes."""
        pieces, self._pieces = self._pieces, []
        self._taken, self.waiting = self._taken + self.waiting, 0
        if self._taken >= BUFFER // 4:
            self._reader.order({"grant": self.number, "room": self._taken})
            self._taken = 0
        return pieces

    def put(self, piece: tuple[int, int, int, bytes]) -> None:
        self._pieces.append(piece)
        self.waiting += len(piece[3])
        self.wake()

    def fail(self, words: str) -> None:
        """The reader cannot follow this file."""
        self.wrong = words
        self.wake()

    async def wait(self) -> None:
        """Wait for more, or for the end."""
        await self._changed.wait()
        self._changed.clear()


@cache
def _program() -> bytes:
    return resources.files("hudtui.pod").joinpath("reader.py").read_bytes()


# --- without Python there -------------------------------------------------------------------------------------------------


async def _poll(link: SshConnection, path: str, cursor: Cursor) -> AsyncGenerator[FileChunk, None]:
    """Read the file over SFTP, which knows no inodes: a file of another size, age or owner than the open file is another."""
    stream: Any = None
    try:
        with link.translated():
            files = await link.files()
            while True:
                if stream is None:
                    stream = await _open(files, path, cursor)
                if stream is not None:
                    fresh = cursor.take(await stream.read(len(cursor.seam) + CHUNK, cursor.start))
                    if fresh is None:
                        continue
                    if fresh:
                        yield FileChunk(cursor.offset - len(fresh), fresh)
                        if len(fresh) >= _MUCH:
                            continue
                    elif cursor.is_over(await _is_replaced(files, path, stream)):
                        await stream.close()
                        stream = None
                        cursor.begin_again()
                        continue
                await asyncio.sleep(cursor.pause())
    except asyncssh.SFTPError as error:
        raise MachineError(f"{path} cannot be read on {link.target.name}", why=sftp_reason(error)) from None
    finally:
        if stream is not None:
            with ignore_broken():
                await stream.close()


async def _open(files: asyncssh.SFTPClient, path: str, cursor: Cursor) -> Any:
    try:
        await check_regular(files, path)
        # One request at a time: of several, those in flight when the follower leaves would report their failure to the terminal.
        stream = await files.open(path, "rb", encoding=None, block_size=0)
    except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
        return None
    if ((await stream.stat()).size or 0) < cursor.offset:
        cursor.begin_again()
    if not cursor.seam:
        start, length = cursor.missing_seam()
        cursor.seam = await stream.read(length, start)
    return stream


async def _is_replaced(files: asyncssh.SFTPClient, path: str, stream: Any) -> bool:
    def traits(found: Any) -> tuple[Any, ...]:
        return found.size, found.mtime, found.uid, found.gid, found.permissions

    ours = traits(await stream.stat())
    try:
        there = traits(await files.stat(path))
    except asyncssh.SFTPError:
        return False
    return there != ours and traits(await stream.stat()) == ours
