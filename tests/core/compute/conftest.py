"""A simulated Prime whose time passes when somebody sleeps, a client of it, and a server for
answers that it never gives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import compute_world

from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.sim import PrimeSimulator


@pytest.fixture
def sim(key_pair: Path) -> Iterator[PrimeSimulator]:
    with PrimeSimulator() as running:
        running.add_ssh_key(key_pair.with_suffix(".pub").read_text())
        yield running


class World(compute_world.User):  # type: ignore[name-defined,misc]
    """A user of a simulator in the same process."""

    def __init__(self, sim: PrimeSimulator, ledger: Ledger, key: Path, folder: Path) -> None:
        super().__init__(
            sim.url, sim.api_key, ledger, key, folder / "pins", advance=sim.clock.advance
        )
        self.sim = sim

    def asked(self, method: str, path: str = "/api/v1/pods/") -> int:
        """How many requests of a kind came."""
        return sum(
            request.method == method and request.path == path for request in self.sim.requests
        )


@pytest.fixture
async def world(sim: PrimeSimulator, key_pair: Path, tmp_path: Path) -> AsyncIterator[World]:
    made = World(sim, Ledger(tmp_path / "pods.db"), key_pair, tmp_path)
    yield made
    await made.close()


Reply = tuple[int, dict[str, str], str | bytes]


class Stub:
    """An HTTP server that answers as it is told, and remembers what came."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, str, dict[str, str], str]] = []
        self.answer: Callable[[str, str], Reply | None] = lambda method, target: (200, {}, "{}")
        """Gives the reply to a method and a target; None drops the connection."""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *rest = head.split("\r\n")
            method, target, _ = first.split()
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in rest if line)
            }
            body = (await reader.readexactly(int(headers.get("content-length", 0)))).decode()
            self.requests.append((method, target, headers, body))
            reply = self.answer(method, target)
            if reply is not None:
                status, more, content = reply
                data = content if isinstance(content, bytes) else content.encode()
                lines = {
                    "content-type": "application/json",
                    "content-length": str(len(data)),
                    "connection": "close",
                    **more,
                }
                told = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
                writer.write(f"HTTP/1.1 {status} X\r\n{told}\r\n".encode() + data)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def stub() -> AsyncIterator[Stub]:
    made = Stub()
    server = await asyncio.start_server(made.handle, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield made
    server.close()


@pytest.fixture
def as_json() -> Callable[[Any], Reply]:
    return lambda data: (200, {}, json.dumps(data))


@pytest.fixture
async def client() -> AsyncIterator[Callable[..., PrimeProvider]]:
    """Makes clients whose pauses take no time and are written down in `pauses`."""
    made: list[PrimeProvider] = []

    def make(url: str, *, pauses: list[float] | None = None, **more: Any) -> PrimeProvider:
        async def sleep(seconds: float) -> None:
            if pauses is not None:
                pauses.append(seconds)

        keep: Callable[[float], Awaitable[None]] = sleep
        made.append(
            PrimeProvider(more.pop("key", "pit_secret_key_123"), base_url=url, sleep=keep, **more)
        )
        return made[-1]

    yield make
    for prime in made:
        await prime.close()
