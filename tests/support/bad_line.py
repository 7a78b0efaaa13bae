"""A TCP proxy that stands for a bad line: it cuts, delays, throttles, falls silent and refuses,
when a test says so."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Any


class BadLine:
    """From a port of its own to `port`, both on loopback. Use as an async context manager."""

    def __init__(self, port: int) -> None:
        self.target = port
        self.port = 0
        self.delay = 0.0
        """Seconds that everything takes longer, each way."""
        self.rate: float | None = None
        """Bytes a second, each way and connection."""
        self.silent = False
        """Nothing passes any more, and nothing says so."""
        self.accepted = 0
        self.cuts = 0
        self.carried = 0
        self._limit: int | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> BadLine:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def open(self) -> None:
        """Accept connections (again), always at the same port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def refuse(self) -> None:
        """Accept no more connections, and end those there are."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    def cut(self) -> None:
        """End all connections at once, with what is on its way (RST)."""
        self._limit = None
        for writer in list(self._writers):
            sock: Any = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        self.cuts += bool(self._writers)

    def cut_after(self, size: int) -> None:
        """Cut when that many more bytes have been carried."""
        self._limit = self.carried + size

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
            self._writers |= {writer, there_writer}
            try:
                pumps = [
                    asyncio.create_task(self._pump(reader, there_writer)),
                    asyncio.create_task(self._pump(there_reader, writer)),
                ]
                try:
                    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for pump in pumps:
                        pump.cancel()
                    await asyncio.gather(*pumps, return_exceptions=True)
            finally:
                self._writers -= {writer, there_writer}
                for each in (writer, there_writer):
                    each.transport.abort()
        self._tasks.discard(task)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(8192 if self.rate else 65536):
            if self.delay:
                await asyncio.sleep(self.delay)
            if self.rate:
                await asyncio.sleep(len(data) / self.rate)
            while self.silent:  # noqa: ASYNC110 - a switch that tests turn
                await asyncio.sleep(0.02)
            if self._limit is not None and self.carried + len(data) >= self._limit:
                sink.write(data[: max(self._limit - self.carried, 0)])
                self._limit = None
                self.cut()
                return
            self.carried += len(data)
            sink.write(data)
            await sink.drain()
