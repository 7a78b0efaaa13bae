"""One protocol for a machine that work is done on: this one, or one behind SSH."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol


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
class Chunk:
    """Bytes of a followed file."""

    offset: int
    """Byte offset of `data` in the file.

    One that is not the end of the chunk before tells of a truncated or replaced file.
    """
    data: bytes


@dataclass(frozen=True)
class FileFacts:
    """What a machine says of a file."""

    size: int
    """Bytes."""
    modified: float
    """Seconds since the epoch, by the clock there."""


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
            MachineError: The program does not exist, the connection broke, or the time ran out.
        """
        ...

    async def put(self, content: bytes | Path, path: PurePosixPath | str, *, mode: int = 0o644) -> None:
        """Write a file there in one step, with the folders above it.

        Raises:
            MachineError: It could not be written; what stood there before is untouched.
        """
        ...

    async def get(self, path: PurePosixPath | str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """Bytes of a file there.

        Raises:
            MachineError: It does not exist or cannot be read.
        """
        ...

    async def facts(self, path: PurePosixPath | str) -> FileFacts | None:
        """Size and age of a file there; None when there is none.

        Raises:
            MachineError: The machine cannot say.
        """
        ...

    def follow(self, path: PurePosixPath | str, *, offset: int = 0) -> AsyncIterator[Chunk]:
        """The bytes of a file from `offset` on, for ever, as they are written; a file that does not exist yet is waited for.

        Exact by byte offset: nothing is lost or doubled. The consumer ends it by leaving the loop.
        """
        ...
