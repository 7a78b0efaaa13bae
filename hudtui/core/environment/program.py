"""The program of a server that listens: started, waited for, and ended.

A server with a command and a URL is started here, and reached at its URL. With `${EPISODE_PORT}` in
the URL it belongs to one connection, and so to one episode. At a port that never changes there can
be one at a time: all connections of this process that want the same program there use it together,
from the first that opens to the last that closes.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

from hudtui.core.environment.errors import (
    early_end_error,
    silent_error,
    start_error,
    taken_error,
    with_output,
)
from hudtui.core.environment.servers import Secrets, ServerSpec, url_port
from hudtui.core.environment.stdio import ServerProcess, child_environment, run_program
from hudtui.core.errors import ConnectError
from hudtui.core.variables import EPISODE_PORT, variable_names

_FIRST_PAUSE, _PAUSE = 0.02, 0.1
"""Seconds between two looks whether a program answers, in the beginning and later."""

_Place = tuple[asyncio.AbstractEventLoop, int]
_AT: dict[_Place, Program] = {}
"""The programs at ports that never change. Each belongs to the event loop of its pipes."""


class Program:
    """The program of one server, which listens at the server's URL.

    Args:
        spec: The server, variables filled in; it has a command and a URL.
        timeout: Seconds until it answers.
        secrets: Masked in every message.
        place: Its key in the table of programs that are shared; None for one of an episode's own.
    """

    def __init__(
        self, spec: ServerSpec, *, timeout: float, secrets: Secrets, place: _Place | None
    ) -> None:
        self._spec = spec
        self._timeout = timeout
        self._secrets = secrets
        self._place = place
        self._users = 1
        self._stack = AsyncExitStack()
        self._process: ServerProcess | None = None
        self._opening: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()

    @property
    def pid(self) -> int | None:
        """Process id, while it runs."""
        return None if self._process is None else self._process.pid

    async def open(self) -> None:
        """Start it, once for all who use it, and wait until it answers at its URL.

        Raises:
            SourceError: It cannot be started.
            ConnectError: It ended, or does not answer in time, or something else answers there.
        """
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(), name=f"start {self._spec.name}")
        await asyncio.shield(self._opening)

    async def close(self, *, hurry: bool = False) -> None:
        """Leave it. With the last who does, its process and the group of that have ended.

        Args:
            hurry: Allow it less time to end by itself.
        """
        self._users -= 1
        if self._users:
            return
        opening = self._opening
        if opening is not None and not opening.done():
            opening.cancel()
        if self._process is not None:
            self._process.hurry = hurry
        ending = asyncio.create_task(self._end())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            if self._process is not None:
                self._process.hurry = True
            await asyncio.wait({ending})
            raise

    async def explained(self, error: ConnectError) -> ConnectError:
        """The error of a connection to it, with what became of it."""
        if self._process is None:
            return error
        await self._process.settle()
        return with_output(error, self._process, self._spec, self._secrets)

    async def _end(self) -> None:
        try:
            if self._opening is not None:
                await asyncio.wait({self._opening})
                if not self._opening.cancelled():
                    self._opening.exception()  # who opened it has been told
            await self._stack.aclose()
        finally:
            if self._place is not None and _AT.get(self._place) is self:
                del _AT[self._place]
            self._gone.set()

    async def _open(self) -> None:
        spec = self._spec
        parts = urlsplit(spec.url or "")
        address = parts.hostname or "", url_port(spec.url or "") or 0
        if await _listens(*address):
            raise taken_error(spec)
        command, cleanup = spec.to_start()
        try:
            running = run_program(
                command, env=child_environment(spec.env), cwd=spec.cwd, cleanup=cleanup
            )
            process = self._process = await self._stack.enter_async_context(running)
        except (OSError, ValueError) as error:
            raise start_error(spec, error) from None
        answering = asyncio.create_task(_first_answer(*address, parts.path or "/"))
        try:
            async with asyncio.timeout(self._timeout):
                while not answering.done():
                    if await process.exited(0):
                        await process.settle()
                        raise early_end_error(spec, process, self._secrets)
                    await asyncio.wait({answering}, timeout=_PAUSE)
        except TimeoutError:
            raise silent_error(spec, self._timeout, process, self._secrets) from None
        finally:
            answering.cancel()

    def serves(self, spec: ServerSpec) -> bool:
        """True if it is the program of this server as well, and somebody uses it."""
        mine = self._spec
        return self._users > 0 and (mine.command, mine.args, mine.env, mine.cwd) == (
            spec.command,
            spec.args,
            spec.env,
            spec.cwd,
        )

    @property
    def name(self) -> str:
        """The name of its server."""
        return self._spec.name

    async def join(self) -> bool:
        """Use it together with others; returns False where it has ended by itself."""
        if self._process is not None and await self._process.exited(0):
            return False
        self._users += 1
        return True

    async def gone(self) -> None:
        """Wait until it has ended, and its port is free."""
        await self._gone.wait()


async def program_of(
    spec: ServerSpec, written: ServerSpec, *, timeout: float, secrets: Secrets
) -> Program:
    """The program of a server, not started yet; or a running one that others use already.

    Args:
        spec: The server, variables filled in.
        written: The server as configured, which shows whether its port is the episode's own.
        timeout: Seconds until the program answers, and before, until another one has left its port.
        secrets: Masked in every message.

    Raises:
        ConnectError: Another program of this process stays at its port.
    """
    if EPISODE_PORT in variable_names(written.url or ""):
        return Program(spec, timeout=timeout, secrets=secrets, place=None)
    place = asyncio.get_running_loop(), url_port(spec.url or "") or 0
    while (there := _AT.get(place)) is not None:
        if there.serves(spec) and await there.join():
            return there
        try:
            async with asyncio.timeout(timeout):
                await there.gone()
        except TimeoutError:
            raise taken_error(spec, f"the server {there.name!r} of other episodes") from None
    _AT[place] = Program(spec, timeout=timeout, secrets=secrets, place=place)
    return _AT[place]


async def _listens(host: str, port: int) -> bool:
    """True if a program takes connections at an address of this machine."""
    streams = await _connected(host, port)
    if streams is None:
        return False
    streams[1].close()
    return True


async def _first_answer(host: str, port: int, path: str) -> None:
    """Ask an address of this machine again and again, until a program answers there."""
    pause = _FIRST_PAUSE
    while not await _answers(host, port, path):
        await asyncio.sleep(pause)
        pause = min(1.5 * pause, _PAUSE)


async def _answers(host: str, port: int, path: str) -> bool:
    """True if a program answers at an address of this machine, whatever it says.

    That it takes a connection is not enough: the port of a container does so long before the
    program in it. `OPTIONS` changes nothing at a server.
    """
    streams = await _connected(host, port)
    if streams is None:
        return False
    reader, writer = streams
    shown = f"[{host}]" if ":" in host else host
    try:
        lines = (f"OPTIONS {path} HTTP/1.1", f"Host: {shown}:{port}", "Connection: close", "", "")
        writer.write("\r\n".join(lines).encode())
        return bool(await reader.read(1))
    except OSError:
        return False
    finally:
        writer.close()


async def _connected(
    host: str, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """A connection to a port of this machine; None where nothing listens."""
    try:
        streams = await asyncio.open_connection(host, port)
    except OSError:
        return None
    writer = streams[1]
    # Where nothing listens, the system may have chosen the same port for this end, and the
    # connection is to itself.
    if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
        with contextlib.suppress(OSError):
            writer.transport.abort()
        return None
    return streams
