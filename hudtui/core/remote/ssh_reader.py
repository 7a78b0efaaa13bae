"""Our end of the program that follows files on a machine (`hudtui/pod/reader.py`): one a connection, however many files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import struct
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from hudtui.core.remote.logs import CHUNK, FASTEST, SLOWEST
from hudtui.core.remote.ssh_channel import ChannelListener, open_channel
from hudtui.core.remote.ssh_connection import SshConnection
from hudtui.core.remote.ssh_errors import Disconnected
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    import asyncssh

BUFFER = 1024 * 1024
"""Bytes of one file that may be here or on their way before the machine waits for its consumer."""
_HEAD = struct.Struct(">IQQQI")
_WRONG = 2**64 - 1
# What is followed may be secret: all of it goes by standard input, which no list of processes shows.
_START = 'import os,sys;n=int(sys.argv[1]);b=b""\nwhile len(b)<n:b+=os.read(0,n-len(b)) or sys.exit()\nexec(b)'


class NoReader(Exception):
    """The reader did not come to life there: no Python, or one that does not work."""


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
        self._wake = asyncio.Event()

    def take(self) -> list[tuple[int, int, int, bytes]]:
        """All pieces that wait: device, inode, offset, bytes. Also parts of a frame, so that a slow connection moves on."""
        pieces, self._pieces = self._pieces, []
        self._taken, self.waiting = self._taken + self.waiting, 0
        if self._taken >= BUFFER // 4:
            self._reader.order({"grant": self.number, "room": self._taken})
            self._taken = 0
        return pieces

    def put(self, piece: tuple[int, int, int, bytes]) -> None:
        """A piece came."""
        self._pieces.append(piece)
        self.waiting += len(piece[3])
        self._wake.set()

    def fail(self, words: str) -> None:
        """The reader has given up on this file."""
        self.wrong = words
        self._wake.set()

    def wake(self) -> None:
        """Something else has changed."""
        self._wake.set()

    async def wait(self) -> None:
        """Until there is more, or the end."""
        await self._wake.wait()
        self._wake.clear()


async def shared_reader(link: SshConnection) -> Reader:
    """The reader of the connection; started now when there is none.

    Raises:
        Disconnected: The machine cannot be reached now.
        NoChannel: The machine allows no more channels.
        NoReader: It has no Python.
    """
    async with link.reader_lock:
        connection = await link.connection()
        if link.reader is None or link.reader.ended or link.reader.connection is not connection:
            link.reader = await Reader.start(link, connection)
        return link.reader


class Reader(ChannelListener):
    """The program that runs on one connection, and the files it follows."""

    def __init__(self, connection: asyncssh.SSHClientConnection) -> None:
        self.connection = connection
        self.ended = False
        self._mark = f"hudtui-{secrets.token_hex(8)}\n".encode()
        self._begun: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._exited = False
        self._channel: Any = None
        self._streams: dict[int, Stream] = {}
        self._last = 0
        self._buffer = bytearray()
        self._head: tuple[int, int, int, int] | None = None
        self._left = 0

    @classmethod
    async def start(cls, link: SshConnection, connection: asyncssh.SSHClientConnection) -> Reader:
        """Start the program there, and wait until it lives."""
        reader, program = cls(connection), _program()
        channel = await open_channel(link, connection, f"exec python3 -I -S -c '{_START}' {len(program)}", reader)
        try:
            with contextlib.suppress(OSError):  # it may have ended already, as where there is no Python: that is told below
                channel.write(program)
            reader.order({"mark": reader._mark.decode(), "chunk": CHUNK, "fastest": FASTEST, "slowest": SLOWEST})
            if not await reader._begun:
                if reader._exited:
                    raise NoReader
                raise Disconnected(f"the connection with {link.target.name} was lost")
        except BaseException:
            reader.close()
            raise
        return reader

    def follow(self, path: str, offset: int, seam: bytes, file: tuple[int, int] | None) -> Stream:
        """Follow a file from now on."""
        self._last += 1
        stream = self._streams[self._last] = Stream(self, self._last)
        where = {"path": path, "offset": offset, "seam": seam.hex(), "file": file, "room": BUFFER}
        self.order({"follow": stream.number, **where})
        return stream

    def drop(self, stream: Stream) -> None:
        """Follow it no more. The program ends with its last file."""
        if self._streams.pop(stream.number, None) is not None:
            self.order({"drop": stream.number})
        if not self._streams:
            self.close()

    def order(self, order: dict[str, Any]) -> None:
        """Send a line to the program; nothing happens when it has ended."""
        if not self.ended:
            with contextlib.suppress(OSError):
                self._channel.write(json.dumps(order).encode() + b"\n")

    def close(self) -> None:
        """End the program: the end of its input is the sign."""
        self.ended = True
        if self._channel is not None:
            self._channel.close()

    def connection_made(self, chan: Any) -> None:
        """The channel is there."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Frames came, or parts of them."""
        if datatype is not None:
            return
        self._buffer += data
        if not self._begun.done():
            # What the login shell prints at its start comes first.
            found = self._buffer.find(self._mark)
            if found < 0:
                del self._buffer[: -len(self._mark)]
                return
            del self._buffer[: found + len(self._mark)]
            self._begun.set_result(True)
        self._split()

    def exit_status_received(self, status: int) -> None:
        """The program ended."""
        self._exited = True

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        """A signal ended the program."""
        self._exited = True

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is closed, or the connection with it: those who wait must know."""
        self.ended = True
        if not self._begun.done():
            self._begun.set_result(False)
        for stream in self._streams.values():
            stream.wake()

    def _split(self) -> None:
        view, at = bytes(self._buffer), 0
        while at < len(view):
            if self._head is None:
                if len(view) - at < _HEAD.size:
                    break
                *head, self._left = _HEAD.unpack_from(view, at)
                self._head = (head[0], head[1], head[2], head[3])
                at += _HEAD.size
            number, device, inode, offset = self._head
            wrong = device == inode == 0 and offset == _WRONG
            if wrong and len(view) - at < self._left:
                break  # words are only good as a whole
            data = view[at : at + self._left]
            at += len(data)
            self._left -= len(data)
            stream = self._streams.get(number)
            if stream is not None and wrong:
                stream.fail(clean_line(data.decode("utf-8", "replace"), 300))
            elif stream is not None and data:
                stream.put((device, inode, offset, data))
            self._head = (number, device, inode, offset + len(data)) if self._left else None
        del self._buffer[:at]


@cache
def _program() -> bytes:
    return resources.files("hudtui.pod").joinpath("reader.py").read_bytes()
