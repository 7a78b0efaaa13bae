"""A server as a child process: MCP's stdio transport, written for this house.

The SDK has a stdio client of its own. This one exists because of what happens at the end: a task that is cancelled natively,
twice, or by the closing event loop still leaves no process behind; a cancelled one does not wait out a grace period first;
standard error is kept as a short tail in memory instead of a growing file; stray text on standard output is counted and shown;
and a message of many megabytes is read in linear time.

The child leads a process group of its own. Leaving closes its standard input and waits; what is then still there is told to end,
then killed, with everything it started in that group.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hudtui.core.environment.bounds import MAX_MESSAGE_BYTES, MessageSizeCounter, MessageTooLargeError
from hudtui.core.text import clean

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

GRACE = 2.0
"""Seconds for a child to go by itself once its standard input is closed, and again once it is told to end."""

MAX_STRAY_LINES = 20_000
"""Lines in a row on standard output that are no messages, after which the child is not listened to any longer."""

_TAIL = 64 * 1024
_POLL = 0.01

INHERITED_VARIABLES = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR"),
    *("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"),
    *("DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "CONTAINER_HOST"),
    *("CONTAINERS_CONF", "SSH_AUTH_SOCK", "VIRTUAL_ENV"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
)
"""What a child gets of our environment. Keys and tokens are not among it: they are passed on where a source asks for them."""


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child: `INHERITED_VARIABLES` of ours, and `extra` over it."""
    return {**{name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}, **extra}


class ServerProcess:
    """A running server process, and the two streams that an MCP session reads and writes.

    Use `running`, which also ends it.
    """

    def __init__(self, process: subprocess.Popen[bytes], cleanup: Sequence[str]) -> None:
        self._process = process
        self._cleanup = tuple(cleanup)
        self._errors: deque[bytes] = deque()
        self._errors_size = 0
        self._readers: list[asyncio.BaseTransport] = []
        self._writer: tuple[asyncio.WriteTransport, _Writer] | None = None
        self.hurry = False
        """Leave without the grace period: set when the work was cancelled."""
        self.junk = 0
        """Lines on standard output that are no JSON-RPC message."""
        self.first_junk = ""
        self.gone = asyncio.Event()
        """Set when nothing more can come from it."""
        self.died: int | None = None
        """The exit status it ended with by itself; see `settle`."""
        self.refused = ""
        """Why reading was given up, where it was: what came cannot be MCP."""
        self.excess = ""
        """What was too much in a message, where reading was given up for that."""

    @property
    def exit_code(self) -> int | None:
        """The exit status (negative: minus the signal), or None while it runs."""
        return self._process.poll()

    @property
    def pid(self) -> int:
        """Process id, and id of its process group."""
        return self._process.pid

    def errors(self, lines: int = 15) -> str:
        """The end of what the child wrote to standard error, cleaned for display."""
        text = clean(b"".join(self._errors).decode(errors="replace"))
        kept = [line.rstrip() for line in text.splitlines() if line.strip()]
        return "\n".join(line if len(line) <= 500 else line[:500] + "…" for line in kept[-lines:])

    def keep_error(self, data: bytes) -> None:
        """Take in more of standard error; only the end is kept."""
        self._errors.append(data)
        self._errors_size += len(data)
        while self._errors_size - len(self._errors[0]) >= _TAIL:
            self._errors_size -= len(self._errors.popleft())

    async def start(self) -> tuple[Incoming, Outgoing]:
        """Attach to the child's three streams."""
        loop = asyncio.get_running_loop()
        process = self._process
        assert process.stdin and process.stdout and process.stderr
        errors, _ = await loop.connect_read_pipe(lambda: _Errors(self), process.stderr)
        self._readers.append(errors)
        reader = asyncio.StreamReader()
        incoming, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        self._readers.append(incoming)
        self._writer = await loop.connect_write_pipe(_Writer, process.stdin)
        return Incoming(self, reader), Outgoing(*self._writer)

    async def exited(self, seconds: float) -> bool:
        """Wait for the process to end; tells whether it has."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self._process.poll() is None:
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(_POLL)
        return True

    async def settle(self) -> None:
        """Give a child that has closed its output a moment to exit and to finish what it says on standard error."""
        if await self.exited(0.5):
            self.died = self.exit_code
            await asyncio.sleep(0.02)

    async def end(self) -> None:
        """End the process and its group, whatever state they are in. Interrupted, it kills them at once."""
        forced = False
        try:
            if self._writer is not None:
                self._writer[0].close()
            if not await self.exited(0.05 if self.hurry else GRACE):
                forced = True
                self._signal(signal.SIGTERM)
                await self.exited(GRACE / 4 if self.hurry else GRACE)
            elif self._group_alive():
                await asyncio.sleep(0.05)
                self._signal(signal.SIGTERM)
            deadline = asyncio.get_running_loop().time() + GRACE / 4
            while self._group_alive() and asyncio.get_running_loop().time() < deadline:
                self._process.poll()
                await asyncio.sleep(_POLL)
        finally:
            forced = self._end_now() or forced
            if forced and self._cleanup:
                _stray(self._cleanup)

    def _end_now(self) -> bool:
        """Kill what is left, without waiting for more than the kernel takes. Tells whether anything was."""
        left = self._process.poll() is None or self._group_alive()
        if left:
            self._signal(signal.SIGKILL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
        if self._writer is not None and not self._writer[1].lost:
            self._writer[0].abort()
        for transport in self._readers:
            transport.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        return left

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _group_alive(self) -> bool:
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return self._process.returncode is None
        return True


class Incoming:
    """Messages from the child, as the SDK's sessions read them."""

    def __init__(self, child: ServerProcess, reader: asyncio.StreamReader) -> None:
        self._child = child
        self._reader = reader
        self._lines: deque[bytes] = deque()
        self._parts: list[bytes] = []
        self._size = 0
        self._junk = 0
        self._closed = False

    async def receive(self) -> SessionMessage | Exception:
        """The next message.

        Raises:
            anyio.EndOfStream: The child has closed its standard output.
        """
        import anyio

        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    async def aclose(self) -> None:
        """Read no further."""
        self._closed = True

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        from mcp.shared.message import SessionMessage
        from mcp.types import jsonrpc_message_adapter

        while (line := await self._line()) is not None:
            if not line.strip():
                continue
            try:
                MessageSizeCounter().take(line)
            except MessageTooLargeError as error:
                self._child.excess = str(error)
                break
            try:
                message = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError:
                self._child.junk += 1
                self._junk += 1
                self._child.first_junk = self._child.first_junk or line[:400].decode(errors="replace")
                if self._junk >= MAX_STRAY_LINES:
                    self._child.refused = f"{MAX_STRAY_LINES} lines in a row that are no messages"
                    break
            else:
                self._junk = 0
                return message
        self._child.gone.set()
        raise StopAsyncIteration

    async def __aenter__(self) -> Incoming:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _line(self) -> bytes | None:
        while not self._lines:
            if self._closed:
                return None
            data = await self._reader.read(256 * 1024)
            if not data:
                self._child.gone.set()
                return None
            first, *rest = data.split(b"\n")
            self._parts.append(first)
            self._size += len(first)
            if self._size > MAX_MESSAGE_BYTES:
                self._child.excess = f"more than {MAX_MESSAGE_BYTES >> 20} MiB in one line"
                return None
            if rest:
                self._lines.append(b"".join(self._parts))
                self._lines.extend(rest[:-1])
                self._parts = [rest[-1]]
                self._size = len(rest[-1])
        return self._lines.popleft()


class Outgoing:
    """Messages to the child, as the SDK's sessions write them."""

    def __init__(self, transport: asyncio.WriteTransport, writer: _Writer) -> None:
        self._transport = transport
        self._writer = writer

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message and wait until the pipe takes more.

        Raises:
            anyio.BrokenResourceError: The child has closed its standard input.
        """
        import anyio

        if self._writer.lost or self._transport.is_closing():
            raise anyio.BrokenResourceError
        self._transport.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        await self._writer.free.wait()

    async def aclose(self) -> None:
        """Nothing more is coming. The pipe is closed when the child is ended."""

    async def __aenter__(self) -> Outgoing:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Errors(asyncio.Protocol):
    def __init__(self, child: ServerProcess) -> None:
        self._child = child

    def data_received(self, data: bytes) -> None:
        self._child.keep_error(data)


class _Writer(asyncio.BaseProtocol):
    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()
        self.lost = False

    def pause_writing(self) -> None:
        self.free.clear()

    def resume_writing(self) -> None:
        self.free.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.free.set()


@contextlib.asynccontextmanager
async def run_server(
    command: Sequence[str], *, env: Mapping[str, str], cwd: str | None = None, cleanup: Sequence[str] = ()
) -> AsyncIterator[tuple[ServerProcess, Incoming, Outgoing]]:
    """A child process for the length of the block.

    Args:
        command: Program and arguments.
        env: Its whole environment; see `child_environment`.
        cwd: Its working folder; None for ours.
        cleanup: A command that removes what the child leaves elsewhere, such as a container. Started, and not waited for, when
            the child had to be ended by force.

    Raises:
        OSError: The program cannot be started.
        ValueError: An argument holds a zero byte.
    """
    child = ServerProcess(_spawn(command, env, cwd), cleanup)
    try:
        incoming, outgoing = await child.start()
        yield child, incoming, outgoing
    finally:
        await child.end()


def _spawn(command: Sequence[str], env: Mapping[str, str], cwd: str | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
        bufsize=0,
    )


def _stray(command: Sequence[str]) -> None:
    """Start a command that nobody waits for but the thread that reaps it."""
    with contextlib.suppress(OSError):
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=child_environment({}),
            start_new_session=True,
        )
        threading.Thread(target=process.wait, name=f"reap {process.pid}", daemon=True).start()
