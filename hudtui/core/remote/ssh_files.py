"""Small files on a machine behind SSH: written in one step, read, looked at."""

from __future__ import annotations

import contextlib
import io
import secrets
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import MachineError
from hudtui.core.remote.host import NOT_A_FILE, READ_LIMIT, TOO_LARGE, FileRefused, FileStat
from hudtui.core.remote.ssh_connection import SshConnection
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    import asyncssh

BLOCK = 1024 * 1024
"""Bytes that are read or written with one call; the library keeps several requests in flight below it."""

_READ_ONLY = 1
"""The flag of `statvfs` for a disk that is mounted so (ST_RDONLY)."""


async def put(link: SshConnection, content: bytes | Path, path: PurePosixPath | str, *, mode: int) -> None:
    """See `Host.put`."""
    import asyncssh

    if isinstance(content, Path):
        try:
            stream = content.open("rb")
        except OSError as error:
            raise MachineError("a file cannot be read", why=error.strerror or str(error)) from None
    else:
        stream = io.BytesIO(content)  # type: ignore[assignment]

    token = secrets.token_hex(6)  # the same for every attempt: one that was cut off leaves its file to the next

    async def write() -> None:
        stream.seek(0)
        files = await link.files()
        target = await real_path(files, str(path))
        folder = str(PurePosixPath(target).parent)
        await files.makedirs(folder, exist_ok=True)
        temporary = str(PurePosixPath(folder, f".{PurePosixPath(target).name[:40]}.{token}.tmp"))
        try:
            async with opened(files, temporary, "wb", asyncssh.SFTPAttrs(permissions=0o600)) as there:
                offset = 0
                while block := stream.read(BLOCK):
                    await there.write(block, offset)
                    offset += len(block)
                await flush(there)
            await files.chmod(temporary, mode)
            await replace(files, temporary, target)
        except BaseException:
            with ignore_broken():
                await files.remove(temporary)
            raise

    with stream:
        size = stream.seek(0, io.SEEK_END)
        try:
            await link.repeat(write)
        except asyncssh.SFTPError as error:
            why, fix = await refusal(link, path, error, size)
            what = f"{path} cannot be written on {link.target.name}; what stood there before is untouched"
            raise MachineError(what, why=why, fix=fix) from None


async def get(link: SshConnection, path: PurePosixPath | str, *, offset: int, limit: int | None) -> bytes:
    """See `Host.get`."""
    import asyncssh

    async def read() -> bytes:
        files = await link.files()
        if not is_regular(await files.stat(str(path))):  # before it is opened: a pipe would hold the server
            raise asyncssh.SFTPFailure(NOT_A_FILE)
        parts: list[bytes] = []
        place, left = offset, READ_LIMIT + 1 if limit is None else limit
        async with opened(files, str(path), "rb") as there:
            while left > 0 and (block := (await there.read(min(left, BLOCK), place))[:left]):
                parts.append(block)
                place += len(block)
                left -= len(block)
        return b"".join(parts)

    try:
        data = await link.repeat(read)
    except asyncssh.SFTPError as error:
        raise FileRefused(f"{path} cannot be read on {link.target.name}", why=reason(error)) from None
    if limit is None and len(data) > READ_LIMIT:
        raise FileRefused(f"{path} on {link.target.name} is not read", why=TOO_LARGE)
    return data


async def facts(link: SshConnection, path: PurePosixPath | str) -> FileStat | None:
    """See `Host.facts`. The age is in whole seconds: SFTP tells no more."""
    import asyncssh

    async def look() -> FileStat:
        files = await link.files()
        found = await files.stat(str(path))
        return FileStat(found.size or 0, float(found.mtime or 0), is_regular(found))

    try:
        return await link.repeat(look)
    except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
        return None
    except asyncssh.SFTPError as error:
        raise FileRefused(f"{path} cannot be looked at on {link.target.name}", why=reason(error)) from None


def is_regular(found: asyncssh.SFTPAttrs) -> bool:
    """Whether it is an ordinary file, as far as its machine says what it is."""
    return found.permissions is None or stat.S_ISREG(found.permissions)


@contextlib.asynccontextmanager
async def opened(files: asyncssh.SFTPClient, path: str, mode: str, attrs: Any = None) -> AsyncIterator[Any]:
    """A file there, closed again also when the connection was lost in between."""
    there = await files.open(path, mode, **({} if attrs is None else {"attrs": attrs}), encoding=None)
    try:
        yield there
    finally:
        with ignore_broken():
            await there.close()


@contextlib.contextmanager
def ignore_broken() -> Iterator[None]:
    """For tidying up over a connection that may be gone."""
    import asyncssh

    with contextlib.suppress(asyncssh.Error, OSError):
        yield


async def real_path(files: asyncssh.SFTPClient, path: str) -> str:
    """Where a path leads, so that a symbolic link stays one."""
    import asyncssh

    with contextlib.suppress(asyncssh.SFTPError):
        return str(await files.realpath(path))
    return path


async def replace(files: asyncssh.SFTPClient, temporary: str, target: str) -> None:
    """Give a file another's name in one step."""
    import asyncssh

    try:
        await files.posix_rename(temporary, target)
    except asyncssh.SFTPOpUnsupported:
        with contextlib.suppress(asyncssh.SFTPNoSuchFile):
            await files.remove(target)
        await files.rename(temporary, target)


async def flush(there: Any) -> None:
    """Bring a file to the disk there, where its server can."""
    import asyncssh

    with contextlib.suppress(asyncssh.SFTPOpUnsupported):
        await there.fsync()


async def refusal(
    link: SshConnection, path: PurePosixPath | str, error: asyncssh.SFTPError, size: int = 1
) -> tuple[str, str | None]:
    """Why a file of `size` bytes could not be written, and what to do: SFTP itself has no word for a full disk."""
    import asyncssh

    if not isinstance(error, asyncssh.SFTPFailure):
        return reason(error), None
    with contextlib.suppress(asyncssh.Error, MachineError, OSError):
        files = await link.files()
        folder = PurePosixPath(await real_path(files, str(path))).parent
        while folder != folder.parent and not await files.exists(str(folder)):
            folder = folder.parent
        disk = await files.statvfs(str(folder))
        if disk.flags & _READ_ONLY:
            return f"the disk of {clean_line(str(folder))} is read-only", "Choose another folder."
        if disk.bavail * (disk.frsize or disk.bsize or 1) < size:
            return f"the disk of {clean_line(str(folder))} is full", "Free some space there and try again."
        if disk.files and not disk.favail:
            return f"the disk of {clean_line(str(folder))} holds no more files", "Remove some there and try again."
    return reason(error), None


def reason(error: Exception) -> str:
    """What an SFTP server said, safe to show."""
    import asyncssh

    if isinstance(error, asyncssh.SFTPNoSuchFile):
        return "No such file or directory"
    return clean_line(str(error), 300) or "the machine refused"
