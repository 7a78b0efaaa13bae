"""The port of the API: it can be closed for a while, and opened again at the same place."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from hudtui.sim.web import TRANSPORT


class _Protocol(H11Protocol):
    """Gives requests the transport of their connection, so that it can be reset."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        app = self.app

        async def with_transport(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, TRANSPORT: transport}, receive, send)

        self.app = with_transport


class Listener:
    """Serves an ASGI application at one loopback port.

    Args:
        app: What answers.
        port: 0 chooses a free one.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.port = port
        self._config = uvicorn.Config(app, lifespan="off", log_config=None, log_level="critical", access_log=False)
        self._config.load()
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._closed_until = 0.0

    async def open(self) -> None:
        """Listen.

        Raises:
            OSError: The port is taken.
        """
        if self._server is not None:
            return
        loop = asyncio.get_running_loop()

        def protocol() -> Any:
            return _Protocol(config=self._config, server_state=self._state, app_state={}, _loop=loop)

        self._server = await loop.create_server(protocol, "127.0.0.1", self.port, family=socket.AF_INET, reuse_address=True)
        self.port = self._server.sockets[0].getsockname()[1]

    def shut(self) -> None:
        """Refuse connections from now on, and drop those that are idle."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in tuple(self._state.connections):
            cycle = getattr(connection, "cycle", None)
            if (cycle is None or cycle.response_complete) and connection.transport is not None:
                connection.transport.abort()

    async def refuse(self, seconds: float) -> None:
        """Refuse connections for `seconds`."""
        loop = asyncio.get_running_loop()
        self._closed_until = loop.time() + seconds
        self.shut()
        loop.call_later(seconds, lambda: loop.create_task(self._again()))

    async def _again(self) -> None:
        if asyncio.get_running_loop().time() >= self._closed_until - 0.001:
            with contextlib.suppress(OSError):
                await self.open()

    async def close(self) -> None:
        """Close the port and every connection, and end the requests that are still being answered."""
        self._closed_until = float("inf")
        self.shut()
        # First the connections: a request that is cancelled before would be answered with an error of the simulator's own.
        for connection in tuple(self._state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        for _ in range(3):
            await asyncio.sleep(0)
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
