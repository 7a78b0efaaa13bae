"""This computer as a host."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import io
import os
import signal
import stat
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from hudtui.core.errors import HudtuiError, MachineError
from hudtui.core.files import write_atomic
from hudtui.core.remote.follow import Cursor, follow
from hudtui.core.remote.host import (
    NOT_A_FILE,
    OUTPUT_LIMIT,
    READ_LIMIT,
    TOO_LARGE,
    Completed,
    FileChanged,
    FileChunk,
    FileRefused,
    FileStat,
    Progress,
)

_BLOCK = 1024 * 1024
_STRAGGLE = 1.0
"""Seconds that output may still come after a command ended, when a process it started holds the
pipes open."""


class LocalHost:
    """Commands and files on this computer, for the user who runs hudtui."""

    name = "local"

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
        """Run a command; see `Host.run`. Cancelling ends the command and its process group."""
        words = tuple(os.fspath(word) for word in argv)
        loop = asyncio.get_running_loop()
        start = asyncio.ensure_future(
            loop.subprocess_exec(
                _Collector,
                *words,
                stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=_place(cwd if cwd is not None else "."),
                env=None if env is None else {**os.environ, **env},
                start_new_session=True,
            )
        )
        # asyncio would leave the command's group and its pipes behind, and might never return, if
        # it were cancelled between the start of the command and the connection of its pipes.
        cancelled = False
        while not start.done():
            try:
                await asyncio.wait([start])
            except asyncio.CancelledError:
                cancelled = True
        try:
            transport, protocol = start.result()
        except (OSError, ValueError) as error:
            if cancelled:
                raise asyncio.CancelledError from None
            raise MachineError(
                f"the command `{words[0] if words else ''}` cannot be started on this machine",
                why=_reason(error),
            ) from None
        try:
            if cancelled:
                raise asyncio.CancelledError
            if stdin is not None:
                pipe = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
                pipe.write(stdin)
                pipe.close()
            async with asyncio.timeout(timeout):
                while not protocol.over.is_set():
                    protocol.heard.clear()
                    try:
                        async with asyncio.timeout(silence):
                            await protocol.heard.wait()
                    except TimeoutError:
                        raise MachineError(
                            f"`{words[0]}` printed nothing for {silence:g} s, and was ended"
                        ) from None
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_STRAGGLE):
                        await protocol.drained.wait()
        except TimeoutError:
            raise MachineError(
                f"`{words[0]}` did not end within {timeout:g} s, and was ended"
            ) from None
        finally:
            if transport.get_returncode() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(transport.get_pid(), signal.SIGKILL)
                while (
                    not protocol.exited.is_set()
                ):  # a second cancellation, as at the end of the loop, finds it still dying
                    with contextlib.suppress(asyncio.CancelledError):
                        await protocol.exited.wait()
            transport.close()
        if protocol.flooded:
            raise MachineError(
                f"`{words[0]}` printed more than {OUTPUT_LIMIT // 2**20} MiB, and was ended"
            )
        status = transport.get_returncode()
        return Completed(words, -1 if status is None else status, *protocol.texts())

    async def put(
        self, content: bytes | Path, path: PurePosixPath | str, *, mode: int = 0o644
    ) -> None:

        def write() -> None:
            with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as stream:
                write_atomic(_place(path), stream, mode=mode)

        try:
            await asyncio.to_thread(write)
        except OSError as error:
            raise MachineError("a file cannot be read", why=_reason(error)) from None
        except HudtuiError as error:
            raise MachineError(error.what, why=error.why, where=error.where) from None

    async def get(
        self, path: PurePosixPath | str, *, offset: int = 0, limit: int | None = None
    ) -> bytes:

        def read() -> bytes:
            with _opened(path) as stream:
                stream.seek(offset)
                return stream.read(READ_LIMIT + 1 if limit is None else limit)

        try:
            data = await asyncio.to_thread(read)
        except OSError as error:
            raise FileRefused(f"{path} cannot be read", why=_reason(error)) from None
        if limit is None and len(data) > READ_LIMIT:
            raise FileRefused(f"{path} is not read", why=TOO_LARGE)
        return data

    async def download(
        self,
        remote: PurePosixPath | str,
        local: Path,
        *,
        most: int | None = None,
        digest: str | None = None,
        progress: Progress | None = None,
    ) -> None:

        def copy() -> int:
            part = local.with_name(f".{local.name[:40]}.part")
            with _opened(remote) as source:
                size_now = os.fstat(source.fileno()).st_size
                size = remaining = size_now if most is None else min(size_now, most)
                hashed = hashlib.sha256()
                with part.open("wb") as sink:
                    while remaining and (block := source.read(min(remaining, _BLOCK))):
                        sink.write(block)
                        hashed.update(block)
                        remaining -= len(block)
            if remaining or (digest is not None and hashed.hexdigest() != digest):
                part.unlink()
                raise FileChanged(
                    f"{remote} cannot be brought to {local}", why="the file changed meanwhile"
                )
            os.replace(part, local)
            return size

        try:
            size = await asyncio.to_thread(copy)
        except OSError as error:
            raise MachineError(
                f"{remote} cannot be brought to {local}", why=_reason(error)
            ) from None
        if progress is not None:
            progress(size, size)

    async def upload(
        self, local: Path, remote: PurePosixPath | str, *, progress: Progress | None = None
    ) -> None:
        await self.put(local, remote)
        if progress is not None:
            size = (await asyncio.to_thread(local.stat)).st_size
            progress(size, size)

    async def stat(self, path: PurePosixPath | str) -> FileStat | None:
        try:
            status = os.stat(_place(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise FileRefused(f"{path} cannot be read", why=_reason(error)) from None
        return FileStat(status.st_size, status.st_mtime, stat.S_ISREG(status.st_mode))

    async def follow(
        self, path: PurePosixPath | str, *, offset: int = 0
    ) -> AsyncGenerator[FileChunk, None]:
        """Follow a growing file; see `Host.follow`."""
        place = _place(path)

        async def open_file() -> LocalFile | None:
            try:
                return LocalFile(place)
            except (FileNotFoundError, NotADirectoryError):
                return None

        try:
            async with aclosing(follow(open_file, Cursor(offset))) as chunks:
                async for chunk in chunks:
                    yield chunk
        except OSError as error:
            raise MachineError(f"{path} cannot be read", why=_reason(error)) from None

    @contextlib.asynccontextmanager
    async def forward(
        self, local_port: int, remote_host: str, remote_port: int
    ) -> AsyncIterator[int]:
        yield remote_port

    @contextlib.asynccontextmanager
    async def reverse(self, remote_port: int, host: str, port: int) -> AsyncIterator[int]:
        yield port


class LocalFile:
    """A file of this computer that is read as it grows; see `GrowingFile`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream = _opened(PurePosixPath(path))

    async def read(self, size: int, offset: int) -> bytes:
        return os.pread(self._stream.fileno(), size, offset)

    async def is_replaced(self) -> bool:
        """A file that was moved away, and whose name nothing has, may still grow."""
        try:
            return not os.path.samestat(os.stat(self._path), os.fstat(self._stream.fileno()))
        except OSError:
            return False

    async def close(self) -> None:
        self._stream.close()


class _Collector(asyncio.SubprocessProtocol):
    """Gathers what a command prints, and notices when it has ended and when its pipes are empty."""

    def __init__(self) -> None:
        self.heard, self.exited, self.drained, self.over = (asyncio.Event() for _ in range(4))
        """`heard`: something came; `over`: the command has ended, or printed too much."""
        self._output: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        self._open = {1, 2}

    @property
    def flooded(self) -> bool:
        """True once the command has printed more than `OUTPUT_LIMIT`."""
        return sum(map(len, self._output.values())) > OUTPUT_LIMIT

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.heard.set()
        if not self.flooded:
            self._output[fd] += data
        else:
            self.over.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.drained.set()

    def process_exited(self) -> None:
        for event in (self.heard, self.exited, self.over):
            event.set()

    def texts(self) -> tuple[str, str]:
        return self._output[1].decode("utf-8", "replace"), self._output[2].decode(
            "utf-8", "replace"
        )


def _opened(path: PurePosixPath | str) -> BinaryIO:
    """Open a regular file; anything else, such as a pipe, is refused without waiting."""
    handle = os.open(_place(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, NOT_A_FILE)
    return os.fdopen(handle, "rb")


def _place(path: PurePosixPath | str) -> Path:
    return Path.home() / path


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
