"""One protocol for a machine that work is done on: this one, or one behind SSH."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from hudtui.core.errors import MachineError

Progress = Callable[[int, int], None]
"""Told the bytes that are there and the bytes in all."""

READ_LIMIT = 16 * 1024 * 1024
"""Bytes of a file that is read as a whole, at most. Larger ones are read in pieces."""
TOO_LARGE = f"it is larger than {READ_LIMIT // 2**20} MiB"
NOT_A_FILE = "it is no ordinary file"
OUTPUT_LIMIT = 64 * 1024 * 1024
"""Bytes that a command may print, at most."""


class FileRefused(MachineError):
    """A file there cannot be read, or is none that is read; the machine itself answers."""


@dataclass(frozen=True)
class Completed:
    """A command that ended. A non-zero exit status is a value, not an exception."""

    argv: tuple[str, ...]
    exit_status: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """It ended with status 0."""
        return self.exit_status == 0


@dataclass(frozen=True)
class FileChunk:
    """Bytes of a followed file."""

    offset: int
    """Byte offset of `data` in the file.

    One that is not the end of the chunk before tells of a truncated or replaced file.
    """
    data: bytes


@dataclass(frozen=True)
class FileStat:
    """What a machine says of a file."""

    size: int
    """Bytes."""
    modified: float
    """Seconds since the epoch, by the clock there."""
    regular: bool = True
    """It is an ordinary file, or a link to one: no folder, device or pipe."""


class Host(Protocol):
    """A machine. All paths are its own; relative ones start in the user's home folder there."""

    @property
    def name(self) -> str:
        """What the user calls it: `local`, or `user@host:port`."""
        ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: PurePosixPath | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """Run a command to its end. No shell is in between.

        Args:
            argv: Program and arguments.
            cwd: Folder to run in.
            env: Added to the environment there. Not for secrets: they travel in files or on standard input.
            stdin: Sent to its standard input, which is then closed.
            timeout: Seconds after which the command and its children are ended.

        Raises:
            MachineError: The program does not exist, the connection broke, the time ran out, or it printed over `OUTPUT_LIMIT`.
        """
        ...

    async def put(self, content: bytes | Path, path: PurePosixPath | str, *, mode: int = 0o644) -> None:
        """Write a file there in one step, with the folders above it.

        Raises:
            MachineError: It could not be written; what stood there before is untouched.
        """
        ...

    async def get(self, path: PurePosixPath | str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Bytes of a file there; never more than `limit`, whatever the machine says of its size.

        Args:
            path: The file.
            offset: Where to begin.
            limit: Bytes, at most; None for all of a file that is not larger than `READ_LIMIT`.

        Raises:
            FileRefused: It does not exist, is no ordinary file, or all of one larger than `READ_LIMIT` is wanted.
            MachineError: The machine does not answer.
        """
        ...

    async def download(
        self, remote: PurePosixPath | str, local: Path, *, most: int | None = None, progress: Progress | None = None
    ) -> object:
        """Bring a file of any size here, in one step and whole; of one that grows what it has at the beginning.

        Args:
            remote: The file there.
            local: Where it goes.
            most: Bytes, at most: what is beyond is left there.
            progress: Told the bytes that are here and the bytes in all.

        Raises:
            MachineError: It cannot be read or written, or arrived damaged.
        """
        ...

    async def facts(self, path: PurePosixPath | str) -> FileStat | None:
        """Size and age of a file there; None when there is none.

        Raises:
            MachineError: The machine cannot say.
        """
        ...

    def follow(self, path: PurePosixPath | str, *, offset: int = 0) -> AsyncIterator[FileChunk]:
        """The bytes of a file from `offset` on, for ever, as they are written; a file that does not exist yet is waited for.

        Exact by byte offset: nothing is lost or doubled. The consumer ends it by leaving the loop.
        """
        ...

    def forward(self, local_port: int, remote_host: str, remote_port: int) -> AbstractAsyncContextManager[int]:
        """A port of this machine that leads to `remote_host:remote_port` as seen from there; the context gives its number.

        Args:
            local_port: 0 for any.
            remote_host: Such as `127.0.0.1` for the machine itself.
            remote_port: The port there.

        Raises:
            MachineError: The port here is in use, or the machine cannot be reached.
        """
        ...
