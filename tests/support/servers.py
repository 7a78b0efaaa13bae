"""Servers for tests to talk to, as fixtures. A conftest or a test module takes one over with
`odd = servers.odd`.

Every process started here is ended here, by its own id.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parent
NODE_MODULES = SUPPORT / "npm" / "node_modules"
PYTHON_SERVERS = SUPPORT.parents[1] / ".venv-servers" / "bin"


def python_server(name: str) -> Path:
    """A server's program in the environment that `scripts/bootstrap dev` makes for them."""
    program = PYTHON_SERVERS / name
    if not program.is_file():
        pytest.fail(f"there is no {program}: scripts/bootstrap dev makes it")
    return program


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The npm packages of tests/support/npm."""
    if not (
        NODE_MODULES / "@modelcontextprotocol" / "server-everything" / "package.json"
    ).is_file():
        pytest.fail("the npm servers are missing: run `npm ci` in tests/support/npm")
    return NODE_MODULES


@pytest.fixture(scope="session")
def everything(node_modules: Path) -> Path:
    """The program of npm's server-everything."""
    return node_modules / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"


@pytest.fixture
def odd() -> Callable[..., tuple[str, ...]]:
    """The command of a server that misbehaves: odd("hang")."""
    return lambda *arguments: (sys.executable, str(SUPPORT / "odd_server.py"), *map(str, arguments))


@contextlib.asynccontextmanager
async def started(
    command: list[str], ready: str, *, env: dict[str, str] | None = None
) -> AsyncIterator[re.Match[str]]:
    """A program that says on standard error or output, in words matched by `ready`, that it
    listens."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(env or {})},
    )
    assert process.stdout is not None
    said: list[str] = []
    try:
        async with asyncio.timeout(60):
            while True:
                line = (await process.stdout.readline()).decode()
                said.append(line)
                if not line:
                    raise AssertionError(f"{command} ended before it listened:\n{''.join(said)}")
                if match := re.search(ready, line):
                    break
        drain = asyncio.create_task(process.stdout.read())
        try:
            yield match
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), 5)
            if process.returncode is None:
                process.kill()
                await process.wait()
            await drain
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.fixture
def serve_2048() -> Callable[..., contextlib.AbstractAsyncContextManager[str]]:
    """text-2048 over streamable HTTP in a process of its own: `async with serve_2048() as url`."""

    @contextlib.asynccontextmanager
    async def serve(*options: str) -> AsyncIterator[str]:
        command = [sys.executable, "-m", "hudtui.envs.text_2048", "--http", "--port", "0", *options]
        async with started(command, r"listens on (\S+)") as match:
            yield match[1]

    return serve


@pytest.fixture
def serve_everything(
    everything: Path,
) -> Callable[[str], contextlib.AbstractAsyncContextManager[str]]:
    """npm's server-everything over `streamableHttp` or `sse`:
    `async with serve_everything("sse") as url`."""

    @contextlib.asynccontextmanager
    async def serve(transport: str) -> AsyncIterator[str]:
        port = free_port()
        async with started(
            ["node", str(everything), transport], rf"(?:port|:)\s*{port}", env={"PORT": str(port)}
        ):
            yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"

    return serve


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


Handler = Callable[[str, str, dict[str, str], bytes, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
async def odd_http() -> AsyncIterator[Callable[[Handler], Awaitable[str]]]:
    """An HTTP server in this process: `url = await odd_http(handler)`.

    The handler gets method, path, headers, body and the writer.
    """
    servers: list[asyncio.Server] = []
    tasks: set[asyncio.Task[None]] = set()

    async def start(handler: Handler) -> str:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            tasks.add(task)
            try:
                while head := await reader.readuntil(b"\r\n\r\n"):
                    first, *lines = head.decode().split("\r\n")
                    headers = {
                        key.lower(): value.strip()
                        for key, _, value in (line.partition(":") for line in lines if line)
                    }
                    body = await reader.readexactly(int(headers.get("content-length", 0)))
                    await handler(first.split()[0], first.split()[1], headers, body, writer)
                    await writer.drain()
            except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield start
    for server in servers:
        server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def reply(
    status: str, body: str | bytes = b"", content_type: str = "application/json", **headers: str
) -> bytes:
    """An HTTP answer."""
    data = body.encode() if isinstance(body, str) else body
    more = "".join(f"{key.replace('_', '-')}: {value}\r\n" for key, value in headers.items())
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(data)}\r\n"
        f"{more}\r\n".encode()
        + data
    )


@pytest.fixture
def http_reply() -> Callable[..., bytes]:
    return reply


class Marker:
    """A word that stands in the command line of every process of a test, to find those that were
    left behind."""

    def __init__(self) -> None:
        self.word = f"marker-{uuid.uuid4().hex}"

    def alive(self) -> list[int]:
        """Ids of living processes (zombies included) with the word in their command line."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if self.word.encode() in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
        return found

    async def until_started(self, count: int = 1) -> None:
        async with asyncio.timeout(30):
            while len(self.alive()) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.02)


@pytest.fixture
def marker() -> AsyncIterator[Marker]:
    mark = Marker()
    yield mark
    left = mark.alive()
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == [], "the test left processes behind"
