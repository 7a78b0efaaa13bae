"""Ports through the connection, in both directions.

A tunnel survives a connection that is lost and comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncssh

from hudtui.core.errors import MachineError
from hudtui.core.remote.host import Disconnected
from hudtui.core.remote.ssh_connection import BackOff, SshConnection, connection_error, opening

_BLOCK = 64 * 1024
_HERE = "127.0.0.1"

Reach = Callable[[], Awaitable[SshConnection]]
"""Gives the connection with the machine."""


@contextlib.asynccontextmanager
async def forward(
    reach: Reach, local_port: int, remote_host: str, remote_port: int
) -> AsyncIterator[int]:
    """See `Host.forward`."""
    link = await reach()
    busy: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        busy.add(task)
        try:
            await _carry(link, reader, writer, remote_host, remote_port)
        except asyncio.CancelledError:
            if not closing.is_set():
                raise
        finally:
            busy.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    closing = asyncio.Event()
    try:
        server = await asyncio.start_server(serve, _HERE, local_port)
    except OSError as error:
        raise MachineError(
            f"port {local_port} of this machine cannot be opened",
            why=error.strerror,
            fix="Choose another port, or 0 for any.",
        ) from None
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        closing.set()
        server.close()
        for task in list(busy):
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)
        await server.wait_closed()


async def _carry(
    link: SshConnection,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    host: str,
    port: int,
) -> None:
    async def reach() -> Any:
        connection = await link.connection()
        try:
            with opening(connection):
                return await connection.open_connection(host, port, encoding=None)
        except asyncssh.ChannelOpenError as error:
            if connection.is_closed():
                raise
            raise MachineError(
                f"{host}:{port} cannot be reached from {link.target.name}", why=error.reason
            ) from None

    try:
        there_reader, there_writer = await link.repeat(reach)
    except (MachineError, asyncssh.Error, OSError):
        return  # the client sees its connection end, as it would without a tunnel
    try:
        with contextlib.suppress(asyncssh.Error, OSError):
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, there_writer))
                both.create_task(_pump(there_reader, writer))
    except* (asyncssh.Error, OSError):
        pass
    finally:
        there_writer.close()


async def _pump(source: Any, sink: Any) -> None:
    while data := await source.read(_BLOCK):
        sink.write(data)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


@contextlib.asynccontextmanager
async def reverse(reach: Reach, remote_port: int, host: str, port: int) -> AsyncIterator[int]:
    """See `Host.reverse`."""
    link = await reach()
    connection = await link.connection()
    try:
        listener = await _listen(link, connection, remote_port, host, port)
    except Disconnected:
        connection = await link.connection()
        listener = await _listen(link, connection, remote_port, host, port)
    number = int(listener.get_port())
    keeper = asyncio.create_task(_keep(link, connection, listener, number, host, port))
    try:
        yield number
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


async def _listen(
    link: SshConnection,
    connection: asyncssh.SSHClientConnection,
    remote_port: int,
    host: str,
    port: int,
) -> Any:
    try:
        return await connection.forward_remote_port(_HERE, remote_port, host, port)
    except asyncssh.ChannelListenError as error:
        if connection.is_closed():
            raise connection_error(asyncssh.ConnectionLost(str(error)), link.target) from None
        raise MachineError(
            f"port {remote_port} of {link.target.name} cannot be opened",
            why=str(error),
            fix=(
                "It may be in use, or the machine's SSH server may not allow it "
                "(AllowTcpForwarding in sshd_config)."
            ),
        ) from None
    except (asyncssh.Error, OSError) as error:
        raise connection_error(error, link.target) from None


async def _keep(
    link: SshConnection, connection: Any, listener: Any, number: int, host: str, port: int
) -> None:
    """Open the port again after every disconnect.

    The old server process there may hold it for a while.
    """
    try:
        while True:
            await connection.wait_closed()
            back_off = BackOff()
            while True:
                await back_off.wait()
                try:
                    connection = await link.connection()
                    listener = await _listen(link, connection, number, host, port)
                except MachineError:
                    if link.closed:
                        return
                    continue
                break
    finally:
        listener.close()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(2):
                await listener.wait_closed()
