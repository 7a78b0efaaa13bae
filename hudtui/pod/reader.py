"""Follows one file for a client behind SSH: from a byte on, for ever, until its standard input is closed.

Runs on the machine with nothing but the standard library of Python 3.6. Standard input: this program, then one line of JSON
(`path`, `offset`, `seam`: hexadecimal bytes before the offset, `file`: device and inode the offset belongs to, `mark`,
`chunk`, `fastest`, `slowest`: seconds between looks). Standard output: the mark, then frames of a header (device, inode, offset,
length) and bytes. A header with device 0, inode 0 and the largest offset brings words about what is wrong, and is the last.
"""

import json
import os
import select
import stat
import struct
import sys

HEAD = struct.Struct(">QQQI")
WRONG = 2**64 - 1
SEAM = 64


class Trouble(Exception):
    """The file cannot be followed."""


def send(head: bytes, data: bytes) -> None:
    """Write all of it; blocks while the client does not read."""
    left = memoryview(head + data)
    while left:
        left = left[os.write(1, left) :]


def rest(seconds: float) -> None:
    """Wait; ends the program when the client has gone."""
    if select.select([0], [], [], seconds)[0] and not os.read(0, 4096):
        sys.exit(0)


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


def follow(path: str, position: int, seam: bytes, file: "list[int] | None", chunk: int, fastest: float, slowest: float) -> None:
    """Send what is there and what comes; never returns."""
    stream = None  # type: int | None
    pause, leaving = fastest, False
    while True:
        if stream is None:
            stream = open_file(path)
            if stream is not None:
                if file and identity(os.fstat(stream)) != file:
                    old = open_old(path, file, position, seam)
                    os.close(stream)
                    stream = old if old is not None else open_file(path)
                    if old is None:
                        position, seam = 0, b""
                    if stream is None:
                        continue
                file = None
                found = os.fstat(stream)
                if found.st_size < position:
                    position, seam = 0, b""
                if not seam:
                    seam = os.pread(stream, min(SEAM, position), max(position - SEAM, 0))
        if stream is not None:
            try:
                data = os.pread(stream, len(seam) + chunk, position - len(seam))
            except OSError as error:
                raise Trouble(error.strerror) from None
            if not data.startswith(seam):
                position, seam = 0, b""
                continue
            fresh = data[len(seam) :]
            if fresh:
                send(HEAD.pack(found.st_dev, found.st_ino, position, len(fresh)), fresh)
                position += len(fresh)
                seam, pause = data[-SEAM:], fastest
                if len(fresh) == chunk:
                    rest(0)
                    continue
            else:
                try:
                    replaced = identity(os.stat(path)) != identity(found)
                except OSError:
                    replaced = False
                if not replaced:
                    leaving = False
                elif leaving:
                    os.close(stream)
                    stream, position, seam, leaving = None, 0, b"", False
                    continue
                else:
                    leaving = True
        rest(pause)
        pause = min(pause * 1.25, slowest)


def main() -> None:
    """Follow as standard input says."""
    order = json.loads(sys.stdin.buffer.readline().decode())
    send(order["mark"].encode(), b"")
    try:
        follow(
            order["path"],
            order["offset"],
            bytes.fromhex(order["seam"]),
            order["file"],
            order["chunk"],
            order["fastest"],
            order["slowest"],
        )
    except Trouble as error:
        words = str(error).encode()
        send(HEAD.pack(0, 0, WRONG, len(words)), words)
    except (BrokenPipeError, KeyboardInterrupt):
        pass


if __name__ == "__main__":
    main()
