"""Logs that grow.

Read on from the last look, and turned into lines that are safe and quick to show.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import PurePosixPath

from hudtui.core.remote.follow import Cursor
from hudtui.core.remote.host import (
    NOT_A_FILE,
    FileChunk,
    FileRefused,
    FileStat,
    Host,
    file_size,
    file_words,
)
from hudtui.core.text import clean

_PIECE = 1024 * 1024
"""Bytes that a `TailReader` fetches at once."""


# --- bytes ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TailRead:
    """New bytes of a file."""

    data: bytes
    truncated: bool = False
    """The file was emptied or replaced: what was read before belongs to an older file."""
    skipped: int = 0
    """Bytes before `data` that were passed over: the first line of `data` may lack its
    beginning."""


class TailReader:
    """A file on any host that is read from time to time.

    Only what is new, and never more than a look may take.

    `most` is the number of bytes of one look. Older bytes are passed over.
    """

    def __init__(self, path: str, *, most: int) -> None:
        self.path = path
        self.stat: FileStat | None = None
        """Facts of the last look; None for a file that did not exist."""
        self.skipped = 0
        """Bytes that were passed over in all, of the file as it is now."""
        self._most = most
        self._cursor = Cursor(0)

    async def read(self, host: Host) -> TailRead:
        """Fetch what is new, as a whole.

        Raises:
            FileRefused: The file cannot be read, or is not a regular file.
            MachineError: The machine does not answer.
        """
        pieces = [piece async for piece in self.pieces(host)]
        if not pieces:
            return TailRead(b"")
        data = b"".join(piece.data for piece in pieces)
        return TailRead(data, pieces[0].truncated, pieces[0].skipped)

    async def pieces(self, host: Host) -> AsyncGenerator[TailRead, None]:
        """Fetch what is new, piece by piece; the first piece tells what happened to the file.

        Raises:
            FileRefused: The file cannot be read, or is not a regular file.
            MachineError: The machine does not answer.
        """
        self.stat, cursor = await host.stat(self.path), self._cursor
        if self.stat is None or self.stat.size == cursor.offset > 0:
            return
        if not self.stat.regular:
            raise FileRefused(f"{file_words(host, self.path)} is not read", why=NOT_A_FILE)
        size, truncated = self.stat.size, False
        if cursor.seam:
            truncated = (
                cursor.take(await host.get(self.path, offset=cursor.start, limit=len(cursor.seam)))
                is None
            )
            self.skipped = 0 if truncated else self.skipped
        skipped = max(size - cursor.offset - self._most, 0)
        if skipped:
            cursor.offset, cursor.seam = cursor.offset + skipped, b""
            self.skipped += skipped
        first = True
        while cursor.offset < size:
            data = await host.get(
                self.path, offset=cursor.offset, limit=min(_PIECE, size - cursor.offset)
            )
            if not data:
                break
            cursor.advance(data)
            yield TailRead(data, truncated and first, skipped if first else 0)
            first = False
        if first and truncated:
            yield TailRead(b"", truncated)


async def offset_of_last_lines(
    host: Host,
    path: PurePosixPath | str,
    lines: int,
    *,
    end: int | None = None,
    most: int = 1024 * 1024,
) -> int:
    """The byte offset at which the last `lines` lines of a file begin, found by reading backwards.

    The last line ends at `end`, by default at the end of the file. Only `most` bytes are read: with
    very long lines the offset may lie inside a line. A file that does not exist has offset 0.

    Raises:
        MachineError: The file cannot be read.
    """
    size = await file_size(host, path)
    size = size if end is None else min(end, size)
    if lines <= 0:
        return size
    block, position, floor = 64 * 1024, size, max(size - most, 0)
    missing = lines
    while position > floor:
        start = max(position - block, floor)
        data = await host.get(path, offset=start, limit=position - start)
        place = len(data)
        if position == size and data.endswith(b"\n"):
            place -= 1  # the end of the last line does not begin another line
        while (place := data.rfind(b"\n", 0, place)) >= 0:
            missing -= 1
            if missing == 0:
                return start + place + 1
        position = start
    return floor


async def lines_before(
    host: Host, path: PurePosixPath | str, offset: int, lines: int
) -> tuple[int, list[str]]:
    """Read the lines of a log that stand before a line.

    Fewer come where they are longer than a megabyte in all.

    Returns:
        The byte offset of the first of them, and the lines, cleaned; `offset` and no line at the
        beginning of the log, and in a log that has become shorter.

    Raises:
        MachineError: The log cannot be read.
    """
    if offset <= 0:
        return offset, []
    start = await offset_of_last_lines(host, path, lines, end=offset)
    before = max(start - 1, 0)  # tells whether a line begins at `start`
    data = b""
    while before + len(data) < offset:
        piece = await host.get(
            path, offset=before + len(data), limit=min(_PIECE, offset - before - len(data))
        )
        if not piece:
            return offset, []
        data += piece
    if start and not data.startswith(b"\n") and 0 <= (cut := data.find(b"\n")) < len(data) - 1:
        start = before + cut + 1
    split = LineSplitter(offset=start).feed(FileChunk(start, data[start - before :]))
    return start, [*split.done, *([split.partial] if split.partial else [])]


# --- lines ----------------------------------------------------------------------------------------

_PLAIN = bytes([9, 10, *range(32, 127)])
"""Bytes that need no cleaning."""
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")
_LONG = 4096
"""Bytes of an unfinished line from which on returns are folded before its end is known."""
_C1 = re.compile("[\x80-\x9f]")
_ODD = re.compile(
    # Python takes each character of a class one by one: naming the odd ones is quicker.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2000-\u202f\u2060-\u206f\ud800-\uf8ff\ufe00-\U0010ffff]"
)
"""Finds text that may need cleaning. Wider than what cleaning removes: a hit only costs the slower
way."""


@dataclass(frozen=True)
class LineBatch:
    """Lines of one chunk."""

    done: list[str]
    """Complete lines, cleaned, without line ends."""
    partial: str
    """The unfinished last line as it stands: a prompt, or a progress bar that is drawn over and
    over."""
    restarted: bool = False
    """The file was truncated or replaced: what was shown so far belongs to an older file."""


class LineSplitter:
    r"""Turns chunks into lines.

    A carriage return folds what stands before it on its line, as on a terminal, so that a progress
    bar stays one line. Invalid UTF-8 becomes U+FFFD; control sequences are removed by
    `core.text.clean`. A line is cut after `limit` characters, and says how many bytes were left
    out. Memory is bounded by the chunk and the limit, also for input without any line end. `limit`
    is the number of characters that are kept of a line.
    """

    def __init__(self, *, offset: int = 0, limit: int = 10_000) -> None:
        self._limit = limit
        self._keep = max(limit * 4, _LONG)
        self._offset = offset
        self._pending = b""
        self._cut = 0

    @property
    def offset(self) -> int:
        """Byte offset of the end of what was fed."""
        return self._offset

    def feed(self, chunk: FileChunk) -> LineBatch:
        """The lines that `chunk` completes, and the unfinished one."""
        done: list[str] = []
        restarted = chunk.offset != self._offset
        if restarted:
            if self._pending:
                done.append(self._finish())
            self._pending, self._cut = b"", 0
        self._offset = chunk.offset + len(chunk.data)
        data = chunk.data.replace(
            b"\0", b""
        )  # a log that is emptied while it is written begins with a hole of them
        end = data.rfind(b"\n")
        if end >= 0:
            start = 0
            if self._cut or len(self._pending) + data.find(b"\n") > self._keep:
                start = data.index(b"\n") + 1
                self._extend(data[: start - 1])
                done.append(self._finish())
            if start <= end:
                done += self._split(
                    self._pending + data[start:end] if start == 0 else data[start:end]
                )
            self._pending, self._cut = b"", 0
        self._extend(data[end + 1 :])
        return LineBatch(done, self._finish() if self._pending else "", restarted)

    def _extend(self, data: bytes) -> None:
        """Add to the unfinished line; of a long one only what can still be shown is kept."""
        whole = self._pending + data
        if len(whole) > _LONG:
            fold = whole.rstrip(b"\r").rfind(b"\r")
            if fold >= 0:
                whole, self._cut = whole[fold + 1 :], 0
            if len(whole) > self._keep:
                self._cut += len(whole) - self._keep
                # A return at the end must not be cut off with the rest: what comes next begins the
                # line again.
                whole = (
                    whole[: self._keep - 1] + b"\r"
                    if whole.endswith(b"\r")
                    else whole[: self._keep]
                )
        self._pending = whole

    def _finish(self) -> str:
        line = clean(self._pending.decode("utf-8", "replace"))
        return self._shorten(line, self._cut)

    def _split(self, data: bytes) -> list[str]:
        """The lines of `data`, which ends where a line ends."""
        text = data.decode("utf-8", "replace")
        lines = text.split("\n")
        if max(map(len, lines)) > self._limit:
            return [self._single(line) for line in data.split(b"\n")]
        odd = data.translate(None, _PLAIN)
        if not odd:
            return lines
        if escapes := odd.count(b"\x1b"):
            # Most logs have colours, which are much quicker to remove at once than line by line.
            # That gives the same result only where ESC begins nothing but colours, and nothing else
            # begins a sequence.
            bare, colours = _COLOUR.subn("", text)
            if colours == escapes and (colours == len(odd) or not _C1.search(text)):
                lines = bare.split("\n")
                if colours == len(odd):
                    return lines
                text = bare
        if _ODD.search(text):
            lines = [line if line.isprintable() else clean(line) for line in lines]
        return lines

    def _single(self, line: bytes) -> str:
        self._pending, self._cut = b"", 0
        self._extend(line)
        return self._finish()

    def _shorten(self, line: str, already: int) -> str:
        if len(line) <= self._limit and not already:
            return line
        cut = already + len(line[self._limit :].encode())
        return f"{line[: self._limit]} … [{cut} bytes more]" if cut else line
