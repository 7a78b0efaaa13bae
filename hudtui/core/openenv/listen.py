"""Listening: an application at an address, until the block is left."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

from hudtui.core.errors import InputError, MachineError
from hudtui.core.openenv.messages import MAX_BYTES

_GRACE = 5
"""Seconds that sessions have to close their environments when the server ends; then they are
cancelled."""


@contextlib.asynccontextmanager
async def listening(app: Any, host: str, port: int) -> AsyncIterator[tuple[str, int]]:
    """Serve an ASGI application for the length of the block.

    Args:
        app: The application.
        host: Name or address to listen at.
        port: 0 chooses a free one.

    Yields:
        The address and the port.

    Raises:
        InputError: The address cannot be listened at.
        MachineError: The server stopped by itself.
    """
    import uvicorn

    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise InputError(
            f"{host}:{port} cannot be listened at",
            why=error.strerror or str(error),
            fix="Choose another port with --port.",
        ) from None

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # signals are the caller's

    for name in ("uvicorn", "uvicorn.error"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="wsproto",
        ws_max_size=MAX_BYTES,
        ws_per_message_deflate=False,  # a small message could unpack to any size
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
    )
    server = Server(config)
    with listener:
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            while not server.started:
                if running.done():
                    raise MachineError(
                        "the server did not start",
                        why=str(running.exception() or "no reason was given"),
                    )
                await asyncio.sleep(0.01)
            address = listener.getsockname()
            yield address[0], address[1]
        finally:
            server.should_exit = True
            await asyncio.shield(running)
