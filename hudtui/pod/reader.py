"""Reads files that grow, exact by byte offset; and follows any number of them for a client behind SSH, over one channel.

Standard library of Python 3.6 alone: as a program it runs on the machine, sent on its own standard input. After it come lines of
JSON:

- `{"mark": TEXT}`: print the text, by which the client finds the beginning.
- `{"follow": N, "path", "offset", "seam", "file", "room"}`: follow a file under the number N. `seam` is the bytes before the
  offset, in hexadecimal, and `file` the device and inode that the offset belongs to, where known; `room` as below.
- `{"grant": N, "room"}`: this many more bytes of the file may be sent. Without room the program waits, so that no memory fills.
- `{"drop": N}`: stop following it.

Standard output: the mark, then frames of a header (number, device, inode, offset, length) and bytes. A header with device 0,
inode 0 and the largest offset brings words about what is wrong, and is the last of its number. The end of standard input ends
the program.

`tail -F` cannot stand in: it does not tell where a replaced or truncated file begins again, cannot be resumed in a file that was
renamed meanwhile, and needs a channel for each file, of which an SSH server allows ten.
"""

import contextlib
import json
import os
import select
import stat
import struct
import time
from typing import Any

CHUNK = 256 * 1024  # most bytes of one look
FASTEST, SLOWEST = 0.1, 0.25  # seconds between looks at a file that grows, and at a file that rests
SEAM = 64  # bytes before the offset that are read again, to notice a file that was emptied and has outgrown the offset since
HEAD = struct.Struct(">IQQQI")
WRONG = 2**64 - 1


class Trouble(Exception):
    """The file cannot be followed."""


class Cursor:
    """How far a growing file was read; notices that the file was emptied or replaced. Reads nothing itself."""

    def __init__(self, offset: int, seam: bytes = b"") -> None:
        self.offset, self.seam = offset, seam
        self._pause, self._leaving = FASTEST, False

    def begin_again(self) -> None:
        """The file was emptied or replaced: what was read so far belongs to an older file."""
        self.offset, self.seam, self._leaving = 0, b"", False

    @property
    def start(self) -> int:
        """Where to read: the seam comes first."""
        return self.offset - len(self.seam)

    def missing_seam(self) -> "tuple[int, int]":
        """Offset and length of the seam, for a file that is opened at an offset of its own."""
        return max(self.offset - SEAM, 0), min(SEAM, self.offset)

    def take(self, data: bytes) -> "bytes | None":
        """The new bytes of `data`, which was read at `start`; None when the file was emptied or replaced."""
        if not data.startswith(self.seam):  # also when less than the seam is left
            self.begin_again()
            return None
        fresh = data[len(self.seam) :]
        if fresh:
            self.advance(fresh)
        return fresh

    def advance(self, fresh: bytes) -> None:
        """Count bytes as read that follow the offset."""
        self.offset += len(fresh)
        self.seam, self._pause = (self.seam + fresh[-SEAM:])[-SEAM:], FASTEST

    def is_over(self, replaced: bool) -> bool:
        """Whether to leave the old file: another file had its name twice in a row, and nothing more came to the old file.

        The writer may still have the old file open, hence the second look.
        """
        over, self._leaving = replaced and self._leaving, replaced
        return over

    def pause(self) -> float:
        """Seconds until the next look, longer each time that nothing came."""
        pause, self._pause = self._pause, min(self._pause * 1.25, SLOWEST)
        return pause


def open_file(path: str) -> "int | None":
    """A descriptor of the file; None when the file does not exist."""
    try:
        stream = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Trouble(error.strerror) from None
    if not stat.S_ISREG(os.fstat(stream).st_mode):
        os.close(stream)
        raise Trouble("it is not a regular file")
    return stream


def identity(found: os.stat_result) -> "list[int]":
    """Device and inode: what tells a file from another of the same name."""
    return [found.st_dev, found.st_ino]


class FollowedFile:
    """A file that grows, read through an open descriptor.

    A file that does not exist yet is waited for. A file that was truncated, or replaced under the same name, is read from its
    start, after the last bytes of the old file.
    """

    def __init__(self, path: str, cursor: Cursor, file: "list[int] | None" = None) -> None:
        self.path, self.cursor = path, cursor
        self.identity = file or [0, 0]
        self._known = file  # the file that the offset belongs to, until it is opened
        self._stream = None  # type: int | None

    def close(self) -> None:
        """Close the descriptor."""
        if self._stream is not None:
            os.close(self._stream)
            self._stream = None

    def read(self, size: int) -> "tuple[int, bytes] | None":
        """Offset and bytes that are new, at most `size`; None when nothing came, so that a pause is due.

        Raises:
            Trouble: The file cannot be read, or is not a regular file.
        """
        while True:
            if self._stream is None:
                self._open()
            if self._stream is None:
                return None
            try:
                data = os.pread(self._stream, len(self.cursor.seam) + size, self.cursor.start)
            except OSError as error:
                raise Trouble(error.strerror) from None
            fresh = self.cursor.take(data)
            if fresh:
                return self.cursor.offset - len(fresh), fresh
            if fresh is None:
                continue
            if not size or not self.cursor.is_over(self._is_replaced()):
                return None
            self.close()
            self.cursor.begin_again()

    def _open(self) -> None:
        stream, cursor = open_file(self.path), self.cursor
        if stream is None:
            return
        if self._known and identity(os.fstat(stream)) != self._known:
            old = self._find_renamed(self._known)
            if old is None:
                cursor.begin_again()
            else:
                os.close(stream)
                stream = old
        found = os.fstat(stream)
        self._known, self._stream, self.identity = None, stream, identity(found)
        if found.st_size < cursor.offset:
            cursor.begin_again()
        if not cursor.seam:
            start, length = cursor.missing_seam()
            cursor.seam = os.pread(stream, length, start)

    def _find_renamed(self, file: "list[int]") -> "int | None":
        """The file that the offset belongs to, where it was renamed in its folder while the connection was lost."""
        folder, cursor = os.path.dirname(self.path) or ".", self.cursor
        try:
            names = os.listdir(folder)
        except OSError:
            return None
        for name in names:
            try:
                other = os.path.join(folder, name)
                if identity(os.stat(other)) != file:
                    continue
                stream = open_file(other)
            except (OSError, Trouble):
                continue
            if stream is not None:
                if os.pread(stream, len(cursor.seam), cursor.start) == cursor.seam and os.fstat(stream).st_size >= cursor.offset:
                    return stream
                os.close(stream)
        return None

    def _is_replaced(self) -> bool:
        try:
            return identity(os.stat(self.path)) != self.identity
        except OSError:
            return False  # moved away, and nothing new stands there yet: the old file may still grow


# --- the program ----------------------------------------------------------------------------------------------------------


class Follow:
    """One file that a client follows."""

    def __init__(self, order: "dict[str, Any]") -> None:
        self.number = order["follow"]  # type: int
        self.room = order["room"]  # type: int
        self.due = 0.0
        self.file = FollowedFile(order["path"], Cursor(order["offset"], bytes.fromhex(order["seam"])), order["file"])

    def look(self) -> float:
        """Send what is new; returns the seconds until the next look."""
        size = min(CHUNK, self.room)
        found = self.file.read(size)
        if found is None:
            return self.file.cursor.pause()
        offset, data = found
        send(HEAD.pack(self.number, *self.file.identity, offset, len(data)), data)
        self.room -= len(data)
        return 0.0 if len(data) == size else self.file.cursor.pause()


def send(head: bytes, data: bytes) -> None:
    """Write all of it; blocks while the client does not read."""
    left = memoryview(head + data)
    while left:
        left = left[os.write(1, left) :]


def carry_out(line: bytes, follows: "dict[int, Follow]") -> None:
    """Obey one line of standard input."""
    order = json.loads(line.decode())
    if "mark" in order:
        send(order["mark"].encode(), b"")
    elif "follow" in order:
        follows[order["follow"]] = Follow(order)
    elif "grant" in order and order["grant"] in follows:
        follow = follows[order["grant"]]
        follow.room += order["room"]
        follow.due = 0.0
    elif "drop" in order and order["drop"] in follows:
        follows.pop(order["drop"]).file.close()


def main() -> None:
    """Follow files until standard input ends."""
    follows = {}  # type: dict[int, Follow]
    rest = b""
    while True:
        now = time.monotonic()
        wait = max(min(follow.due for follow in follows.values()) - now, 0.0) if follows else None
        if select.select([0], [], [], wait)[0]:
            data = os.read(0, 65536)
            if not data:
                return
            lines = (rest + data).split(b"\n")
            rest = lines.pop()
            for line in lines:
                carry_out(line, follows)
        now = time.monotonic()
        for follow in list(follows.values()):
            if follow.due <= now:
                try:
                    follow.due = now + follow.look()
                except Trouble as error:
                    words = str(error).encode()
                    send(HEAD.pack(follow.number, 0, 0, WRONG, len(words)), words)
                    follows.pop(follow.number).file.close()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        main()
