"""From the bytes of a log to lines that are safe and quick to show."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hudtui.core.remote.host import FileChunk
from hudtui.core.text import clean

_PLAIN = bytes([9, 10, *range(32, 127)])
"""Bytes that need no second look."""
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")
_LONG = 4096
"""Bytes of an unfinished line from which on returns are folded before its end is known."""
_C1 = re.compile("[\x80-\x9f]")
_ODD = re.compile("[^\t\n\x20-\x7e\xa0-\u1fff\u2030-\u205f\u2070-\ud7ff\uf900-\ufdff]")
"""Finds text that may need cleaning. Wider than what cleaning takes away: a hit only costs the slower way."""


@dataclass(frozen=True)
class LineBatch:
    """What one chunk brought."""

    done: list[str]
    """Complete lines, cleaned, without line ends."""
    partial: str
    """The unfinished last line as it stands: a prompt, or a progress bar that is drawn over and over."""
    restarted: bool = False
    """The file was truncated or replaced: what was shown so far belongs to an older one."""


class LineSplitter:
    r"""Turns chunks into lines.

    A carriage return folds what stands before it on its line, as on a terminal, so that a progress bar stays one line. Invalid
    UTF-8 becomes U+FFFD; control sequences are taken out by `core.text.clean`. A line is cut after `limit` characters, and says
    how many bytes were left out. Memory is bounded by the chunk and the limit, also for input without any line end.

    Args:
        offset: Byte offset of the first chunk.
        limit: Characters that are kept of a line.
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
        data = chunk.data
        end = data.rfind(b"\n")
        if end >= 0:
            start = 0
            if self._cut or len(self._pending) + data.find(b"\n") > self._keep:
                start = data.index(b"\n") + 1
                self._extend(data[: start - 1])
                done.append(self._finish())
            if start <= end:
                done += self._split(self._pending + data[start:end] if start == 0 else data[start:end])
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
                # A return at the end must not be forgotten with the rest: what comes next begins the line anew.
                whole = whole[: self._keep - 1] + b"\r" if whole.endswith(b"\r") else whole[: self._keep]
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
            # Colours are what most logs have, and much quicker to take out at once than line by line. Only where ESC stands for
            # nothing else, and nothing else begins a sequence: for then the result is the same.
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
