"""Follows files on a machine behind SSH by the connection's SFTP, over any disconnects."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import asyncssh

from hudtui.core.errors import MachineError
from hudtui.core.remote.follow import Cursor, follow
from hudtui.core.remote.host import Disconnected, FileChunk
from hudtui.core.remote.ssh_connection import (
    BackOff,
    NoChannel,
    SshConnection,
    check_regular,
    ignore_broken,
    sftp_reason,
)


class RemoteFile:
    """A file that is open over SFTP; see `GrowingFile`."""

    def __init__(self, files: asyncssh.SFTPClient, path: str, stream: Any) -> None:
        self._files, self._path, self._stream = files, path, stream

    async def read(self, size: int, offset: int) -> bytes:
        data: bytes = await self._stream.read(size, offset)
        return data

    async def is_replaced(self) -> bool:
        """SFTP knows no inodes.

        A file of another size, age or owner than the open one is another.
        """
        ours = _traits(await self._stream.stat())
        try:
            named = _traits(await self._files.stat(self._path))
        except asyncssh.SFTPError:
            return False
        return named != ours and _traits(await self._stream.stat()) == ours

    async def close(self) -> None:
        with ignore_broken():
            await self._stream.close()


def _traits(facts: asyncssh.SFTPAttrs) -> tuple[Any, ...]:
    return facts.size, facts.mtime, facts.uid, facts.gid, facts.permissions


async def follow_remote(
    link: SshConnection, path: str, offset: int
) -> AsyncGenerator[FileChunk, None]:
    """Yield the bytes of a file; see `Host.follow`. Waits without end for a machine that is away.

    Raises:
        MachineError: The file cannot be read, or the machine rejects the login.
    """
    cursor, back_off = Cursor(offset), BackOff()

    async def open_file() -> RemoteFile | None:
        files = await link.files()
        try:
            await check_regular(files, path)
            # One request at a time: of several, those in flight when the follower leaves would
            # report their failure to the terminal.
            stream = await files.open(path, "rb", encoding=None, block_size=0)
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return None
        return RemoteFile(files, path, stream)

    while True:
        try:
            with link.translated():
                async with aclosing(follow(open_file, cursor)) as chunks:
                    async for chunk in chunks:
                        back_off.reset()
                        yield chunk
        except NoChannel:
            what = f"{path} on {link.target.name} cannot be followed"
            raise MachineError(what, why="no channel is left") from None
        except asyncssh.SFTPError as error:
            what = f"{path} cannot be read on {link.target.name}"
            raise MachineError(what, why=sftp_reason(error)) from None
        except Disconnected:
            cursor.shrink()
        await back_off.wait()
