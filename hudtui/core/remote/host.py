"""One protocol for a machine that work is done on: this computer, or a machine behind SSH."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from hudtui.core.errors import MachineError
from hudtui.core.events import Notice
from hudtui.core.text import clean_line

LOCAL = "local"
"""The name of this computer."""
Progress = Callable[[int, int], None]
"""Receives the bytes that are transferred and the bytes in all."""
AskPassphrase = Callable[[str], Awaitable[str | None]]
"""Asks the user for a secret with a prompt; None when the user declines or cannot be asked."""
Notify = Callable[[Notice], None]
"""Receives what the user should read, such as the fingerprint of a new machine."""

READ_LIMIT = 16 * 1024 * 1024
"""Bytes of a file that is read as a whole, at most. Larger files are read in pieces."""
TOO_LARGE = f"it is larger than {READ_LIMIT // 2**20} MiB"
NOT_A_FILE = "it is not a regular file"
OUTPUT_LIMIT = 64 * 1024 * 1024
"""Bytes that a command may print, at most."""


class FileRefused(MachineError):
    """The machine answers, but a file there cannot be read, or is not a regular file."""


class FileChanged(MachineError):
    """The content that arrived is another one.

    The file changed meanwhile, or was damaged on the way.
    """


class Disconnected(MachineError):
    """The machine cannot be reached at the moment: it may be there again in a while."""


class Silent(Disconnected):
    """The machine is connected, and does not answer."""


class LoginRefused(MachineError):
    """The machine was reached, and rejected every key."""


@dataclass(frozen=True)
class Completed:
    """A command that ended. A non-zero exit status is a value, not an exception."""

    argv: tuple[str, ...]
    exit_status: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """True if it ended with status 0."""
        return self.exit_status == 0


@dataclass(frozen=True)
class FileChunk:
    """Bytes of a followed file."""

    offset: int
    """Byte offset of `data` in the file.

    An offset that is not the end of the chunk before tells of a truncated or replaced file.
    """
    data: bytes


@dataclass(frozen=True)
class FileStat:
    """Size, age and kind of a file on a machine."""

    size: int
    """Bytes."""
    modified: float
    """Seconds since the epoch, by the clock there."""
    regular: bool = True
    """True for a regular file, or a link to one: no folder, device or pipe."""


class Host(Protocol):
    """A machine. All paths are its own; relative ones start in the user's home folder there."""

    @property
    def name(self) -> str:
        """Name that the user gives it: `local`, `user@host:port`, or a name of `find_host`."""
        ...

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: PurePosixPath | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float | None = None,
        silence: float | None = None,
    ) -> Completed:
        """Run a command to its end, without a shell in between.

        Its standard input is `stdin`, and then closed. `env` is added to the environment there;
        secrets travel in files or on standard input instead. After `timeout` seconds, or when it
        prints nothing for `silence` seconds, the command and its children are ended.

        Raises:
            MachineError: The program does not exist, the connection broke, the time ran out, or it
                printed over `OUTPUT_LIMIT`.
        """
        ...

    async def put(
        self, content: bytes | Path, path: PurePosixPath | str, *, mode: int = 0o644
    ) -> None:
        """Write a file there in one step, with the folders above it.

        Raises:
            MachineError: The file could not be written; the old file is unchanged.
        """
        ...

    async def get(
        self, path: PurePosixPath | str, *, offset: int = 0, limit: int | None = None
    ) -> bytes:
        """Read bytes of a file there.

        Never more than `limit`, whatever the machine says about its size.
        Without `limit` up to the end of the file.

        Raises:
            FileRefused: The file does not exist, is not a regular file, or is larger than
                `READ_LIMIT` and `limit` is None.
            MachineError: The machine does not answer.
        """
        ...

    async def download(
        self,
        remote: PurePosixPath | str,
        local: Path,
        *,
        most: int | None = None,
        digest: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Bring a file of any size here, in one step and whole.

        Of a file that grows, the bytes it has at the beginning. Bytes beyond `most` are left there.
        `digest` is the SHA-256 of what is to arrive, in hexadecimal digits. `progress` receives the
        bytes that are here and the bytes in all.

        Raises:
            FileChanged: What arrived has another digest.
            MachineError: The file cannot be read or written.
        """
        ...

    async def upload(
        self, local: Path, remote: PurePosixPath | str, *, progress: Progress | None = None
    ) -> None:
        """Send a file of any size; it appears there in one step, whole.

        What an earlier attempt has sent is not sent again.

        `progress` receives the bytes that are there and the bytes in all.

        Raises:
            MachineError: The file cannot be read or written, or arrived damaged.
        """
        ...

    async def stat(self, path: PurePosixPath | str) -> FileStat | None:
        """Size and age of a file there; None when it does not exist.

        Raises:
            MachineError: The machine cannot tell.
        """
        ...

    def follow(self, path: PurePosixPath | str, *, offset: int = 0) -> AsyncIterator[FileChunk]:
        """The bytes of a file from `offset` on, without end, as they are written.

        A file that does not exist yet is waited for.
        Exact by byte offset: nothing is lost or doubled. The consumer ends it by leaving the loop.
        """
        ...

    def forward(
        self, local_port: int, remote_host: str, remote_port: int
    ) -> AbstractAsyncContextManager[int]:
        """Forward a port of this computer, on loopback, to a port that the machine can reach.

        It leads to `remote_host:remote_port` as seen from the machine.

        `local_port` is 0 for any; the context gives the number. `remote_host` is `127.0.0.1` for
        the machine itself.

        Raises:
            MachineError: The port here is in use, or the machine cannot be reached.
        """
        ...

    def reverse(self, remote_port: int, host: str, port: int) -> AbstractAsyncContextManager[int]:
        """A port of the machine, on its loopback, that leads to `host:port` as seen from here.

        Opened again after disconnects.

        `remote_port` is 0 for any; the context gives the number, which stays the same. `host` is
        `127.0.0.1` for this computer.

        Raises:
            MachineError: The port there is in use, or the machine does not allow it.
        """
        ...


def file_words(host: Host, path: PurePosixPath | str) -> str:
    """Return a path for messages, and the name of its machine unless that is this one."""
    where = "" if host.name == LOCAL else f" on {clean_line(host.name)}"
    return f"{clean_line(str(path))}{where}"


async def file_size(host: Host, path: PurePosixPath | str) -> int:
    """Return the bytes of a file; 0 if it does not exist.

    Raises:
        FileRefused: It is not a regular file.
        MachineError: The machine does not answer.
    """
    facts = await host.stat(path)
    if facts is not None and not facts.regular:
        raise FileRefused(f"{file_words(host, path)} is not read", why=NOT_A_FILE)
    return 0 if facts is None else facts.size
