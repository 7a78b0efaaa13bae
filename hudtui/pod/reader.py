"""Follows files for a client behind SSH, any number of them over one channel, until its standard input is closed.

Runs on the machine with nothing but the standard library of Python 3.6. Standard input: this program, then lines of JSON. The
first has `mark`, `chunk` (most bytes in a frame), `fastest` and `slowest` (seconds between looks). Then come, in any order:

- `{"follow": N, "path", "offset", "seam", "file", "room"}`: follow a file under the number N. `seam` is the bytes before the
  offset, in hexadecimal, and `file` the device and inode that the offset belongs to, where known; `room` as below.
- `{"grant": N, "room"}`: so many more bytes may be sent of it. Without room it waits, so that nobody's memory fills.
- `{"drop": N}`: follow it no more.

Standard output: the mark, then frames of a header (number, device, inode, offset, length) and bytes. A header with device 0,
inode 0 and the largest offset brings words about what is wrong, and is the last of its number.
"""

import contextlib
import json
import os
import select
import stat
import struct
import time
from typing import Any

HEAD = struct.Struct(">IQQQI")
WRONG = 2**64 - 1
SEAM = 64


class Trouble(Exception):
    """The file cannot be followed."""


def send(head: bytes, data: bytes) -> None:
    """Write all of it; blocks while the client does not read."""
    left = memoryview(head + data)
    while left:
        left = left[os.write(1, left) :]


def open_file(path: str) -> "int | None":
    """A descriptor of the file; None when there is none."""
    try:
        stream = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Trouble(error.strerror) from None
    if not stat.S_ISREG(os.fstat(stream).st_mode):
        os.close(stream)
        raise Trouble("it is no ordinary file")
    return stream


def identity(found: os.stat_result) -> "list[int]":
    """What tells a file from another of the same name."""
    return [found.st_dev, found.st_ino]


def open_old(path: str, file: "list[int]", position: int, seam: bytes) -> "int | None":
    """The file that the offset belongs to, where it was renamed in its folder while nobody looked."""
    folder = os.path.dirname(path) or "."
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
            if os.pread(stream, len(seam), position - len(seam)) == seam and os.fstat(stream).st_size >= position:
                return stream
            os.close(stream)
    return None


class Follow:
    """One followed file."""

    def __init__(self, order: "dict[str, Any]", chunk: int, fastest: float, slowest: float) -> None:
        self.number = order["follow"]  # type: int
        self.room = order["room"]  # type: int
        self.due = 0.0
        self._path = order["path"]  # type: str
        self._position = order["offset"]  # type: int
        self._seam = bytes.fromhex(order["seam"])
        self._file = order["file"]  # type: list[int] | None
        self._chunk, self._fastest, self._slowest = chunk, fastest, slowest
        self._stream = None  # type: int | None
        self._found = None  # type: os.stat_result | None
        self._pause, self._leaving = fastest, False

    def close(self) -> None:
        """Give the file back."""
        if self._stream is not None:
            os.close(self._stream)
            self._stream = None

    def look(self) -> float:
        """Send what is new; returns the seconds until the next look is worth it."""
        if self._stream is None:
            self._open()
        if self._stream is not None:
            seam = self._seam
            size = min(self._chunk, self.room)
            try:
                data = os.pread(self._stream, len(seam) + size, self._position - len(seam))
            except OSError as error:
                raise Trouble(error.strerror) from None
            if not data.startswith(seam):
                self._position, self._seam = 0, b""
                return 0.0
            fresh = data[len(seam) :]
            if fresh and self._found is not None:
                send(HEAD.pack(self.number, self._found.st_dev, self._found.st_ino, self._position, len(fresh)), fresh)
                self._position += len(fresh)
                self.room -= len(fresh)
                self._seam, self._pause = data[-SEAM:], self._fastest
                if len(fresh) == size:
                    return 0.0
            elif size and self._is_over():
                self.close()
                self._position, self._seam, self._leaving = 0, b"", False
                return 0.0
        pause, self._pause = self._pause, min(self._pause * 1.25, self._slowest)
        return pause

    def _open(self) -> None:
        stream = open_file(self._path)
        if stream is None:
            return
        if self._file and identity(os.fstat(stream)) != self._file:
            old = open_old(self._path, self._file, self._position, self._seam)
            if old is None:
                self._position, self._seam = 0, b""
            else:
                os.close(stream)
                stream = old
        self._file = None
        self._stream, self._found = stream, os.fstat(stream)
        if self._found.st_size < self._position:
            self._position, self._seam = 0, b""
        if not self._seam:
            self._seam = os.pread(stream, min(SEAM, self._position), max(self._position - SEAM, 0))

    def _is_over(self) -> bool:
        """Another file has taken the name, and nothing more came to the old one since the last look."""
        try:
            replaced = self._found is not None and identity(os.stat(self._path)) != identity(self._found)
        except OSError:
            replaced = False
        over, self._leaving = replaced and self._leaving, replaced
        return over


def carry_out(line: bytes, follows: "dict[int, Follow]", settings: "dict[str, Any]") -> None:
    """What one line of standard input says."""
    order = json.loads(line.decode())
    if "follow" in order:
        follows[order["follow"]] = Follow(order, settings["chunk"], settings["fastest"], settings["slowest"])
    elif "grant" in order and order["grant"] in follows:
        follow = follows[order["grant"]]
        follow.room += order["room"]
        follow.due = 0.0
    elif "drop" in order and order["drop"] in follows:
        follows.pop(order["drop"]).close()


def main() -> None:
    """Follow as standard input says."""
    follows = {}  # type: dict[int, Follow]
    settings = None  # type: dict[str, Any] | None
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
                if settings is None:
                    settings = json.loads(line.decode())
                    send(settings["mark"].encode(), b"")
                else:
                    carry_out(line, follows, settings)
        now = time.monotonic()
        for follow in list(follows.values()):
            if follow.due <= now:
                try:
                    follow.due = now + follow.look()
                except Trouble as error:
                    words = str(error).encode()
                    send(HEAD.pack(follow.number, 0, 0, WRONG, len(words)), words)
                    follows.pop(follow.number).close()


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        main()
