"""A text file that is open for editing.

Its encoding stays, and changes by other programs are noticed and never overwritten.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from hudtui.core.errors import InputError
from hudtui.core.files import decode, find_encoding, read_bytes, read_text, write_atomic
from hudtui.core.gym.editing import autosave
from hudtui.core.gym.editing.autosave import FileStamp

Outcome = Literal["same", "followed", "conflict", "gone"]
"""What a change by another program means: the text is the file's again; the file's text takes its
place; both have changed; the file cannot be read any more."""


@dataclass(frozen=True)
class TextFormat:
    """The encoding and the line ends of a file, which saving keeps."""

    mark: bytes = b""
    """The byte order mark."""
    encoding: str = "utf-8"
    newline: str = "\n"

    def encode(self, text: str) -> bytes:
        r"""Return a text with `\n` line ends as the bytes of the file."""
        return self.mark + text.replace("\n", self.newline).encode(self.encoding)


def text_format(data: bytes) -> TextFormat:
    """Return the format of a file's bytes. Its line ends are those of most of its lines."""
    mark, encoding = find_encoding(data)
    text = data[len(mark) :].decode(encoding, "replace")
    return TextFormat(mark, encoding, "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n")


@dataclass(frozen=True)
class FileChange:
    """The state of a file after another program has changed it."""

    stamp: FileStamp
    text: str | None
    """None if the file cannot be read any more."""


@dataclass(frozen=True)
class FileBuffer:
    """State of an open file. Each reading and writing makes a new buffer."""

    path: Path
    saved: str
    r"""The content of the file when it was last read or written, with `\n` line ends."""
    format: TextFormat
    stamp: FileStamp
    theirs: str | None = None
    """The content of the file if another program has changed it beside unsaved work, empty if the
    file is gone; else None."""

    def changed(self, change: FileChange, text: str) -> tuple[FileBuffer, Outcome]:
        """Return the buffer after a change by another program.

        Args:
            change: The change, from `look`.
            text: The text that is being edited.
        """
        now = replace(self, stamp=change.stamp)
        if change.text is None:
            return replace(now, theirs=""), "gone"
        if change.text in (self.saved, text):
            return replace(now, saved=change.text, theirs=None), "same"
        if text == self.saved:
            return replace(now, saved=change.text, theirs=None), "followed"
        return replace(now, theirs=change.text), "conflict"

    def settled(self) -> FileBuffer:
        """Return the buffer after the user has decided about the conflict.

        The next save may overwrite what the file holds.
        """
        return self if self.theirs is None else replace(self, saved=self.theirs, theirs=None)


async def open_buffer(path: Path) -> FileBuffer:
    """Read a file.

    Raises:
        InputError: The file cannot be read, or is not text.
    """

    def read() -> FileBuffer:
        stamp = autosave.file_stamp(path)
        data = read_bytes(path)
        return FileBuffer(path, decode(data, str(path)), text_format(data), stamp)

    return await asyncio.to_thread(read)


async def save_buffer(buffer: FileBuffer, text: str) -> FileBuffer:
    """Write a text into the file, in the file's format, and return the new buffer.

    Raises:
        InputError: The file cannot be written. It is unchanged then.
    """

    def write() -> FileStamp:
        write_atomic(buffer.path, buffer.format.encode(text))
        return autosave.file_stamp(buffer.path)

    return replace(buffer, saved=text, stamp=await asyncio.to_thread(write), theirs=None)


async def look(buffer: FileBuffer) -> FileChange | None:
    """Return how another program has changed the file since the buffer was made, or None.

    The folder may hang: a thread waits.
    """

    def read() -> FileChange | None:
        stamp = autosave.file_stamp(buffer.path)
        if stamp == buffer.stamp:
            return None
        try:
            return FileChange(stamp, read_text(buffer.path))
        except InputError:
            return FileChange(stamp, None)

    return await asyncio.to_thread(read)
