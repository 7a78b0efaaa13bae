"""A server as a child process: MCP's stdio transport, and the start of servers that listen.

The SDK's `stdio_client` does not serve here (measured with mcp 2.3): it drops a malformed message,
whose call then waits for its whole time limit; it joins the text of a message again with every
chunk, so that 20 MB take 4 s and the time grows with the square; it parses a line before its size
can be judged; a native cancellation of its clean-up leaves the process behind; and it does not give
the process's id, exit status or standard error.

The process leads a process group of its own. Leaving closes its standard input and waits; then the
whole group is sent SIGTERM, and SIGKILL.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from hudtui.core.environment.bounds import MAX_MESSAGE_BYTES, count_values, excess_of, excess_words
from hudtui.core.environment.calls import Calls, is_answer, is_noise, mended
from hudtui.core.text import clean

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

GRACE = 2.0
"""Seconds for a server to end by itself once its standard input is closed, and again after
SIGTERM."""

MAX_STRAY_LINES = 20_000
"""Lines in a row on standard output that are not messages, after which reading stops."""

SILENCE = 0.5
"""Seconds without output after which it is looked whether the server is there at all."""

_TAIL = 64 * 1024
_POLL = 0.01

INHERITED_VARIABLES = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR"),
    *("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"),
    *(
        "DOCKER_HOST",
        "DOCKER_CONFIG",
        "DOCKER_CONTEXT",
        "DOCKER_TLS_VERIFY",
        "DOCKER_CERT_PATH",
        "CONTAINER_HOST",
    ),
    *(
        "CONTAINERS_CONF",
        "CONTAINERS_STORAGE_CONF",
        "CONTAINERS_REGISTRIES_CONF",
        "CONTAINER_CONNECTION",
        "REGISTRY_AUTH_FILE",
    ),
    *("SSH_AUTH_SOCK", "VIRTUAL_ENV"),
    *(
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "all_proxy",
    ),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
)
"""The variables of our environment that a server gets. Keys and tokens are not among them: a source
asks for those by name."""


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a server: `INHERITED_VARIABLES` of ours, and `extra` over it."""
    return {
        **{name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ},
        **extra,
    }


@contextlib.asynccontextmanager
async def run_server(
    command: Sequence[str],
    calls: Calls,
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    cleanup: Sequence[str] = (),
) -> AsyncIterator[tuple[ServerProcess, Incoming, Outgoing]]:
    """A server process and its two message streams, for the length of the block.

    Args:
        command: Program and arguments.
        calls: Told of answers that cannot be read.
        env: Its whole environment; see `child_environment`.
        cwd: Its working folder; None for ours.
        cleanup: A command that removes what the server leaves elsewhere, such as a container. It
            runs, and is not waited for, when the server had to be ended by force, or when this
            process was killed.

    Raises:
        OSError: The program cannot be started.
        ValueError: An argument holds a zero byte.
    """
    process = ServerProcess(_start(command, subprocess.PIPE, env, cwd=cwd))
    guard = _start_guard(cleanup) if cleanup else None
    forced = True
    try:
        incoming, outgoing = await process.attach(calls)
        yield process, incoming, outgoing
    finally:
        try:
            forced = await process.end()
        finally:
            _release(guard, b"clean" if forced else b"ended")


@contextlib.asynccontextmanager
async def run_program(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    cleanup: Sequence[str] = (),
) -> AsyncIterator[ServerProcess]:
    """The process of a server that listens at an address, for the length of the block.

    No message comes by its output, of which the end is kept, and its standard input is empty. So
    its group is ended by signals. Where this process is killed a shell that outlives it sends them.

    Args:
        command: Program and arguments.
        env: Its whole environment; see `child_environment`.
        cwd: Its working folder; None for ours.
        cleanup: A command that removes what it leaves elsewhere, such as a container. It runs in
            the end, and is not waited for.

    Raises:
        OSError: The program cannot be started.
        ValueError: An argument holds a zero byte.
    """
    _require_program(command[0], env, cwd)
    # The guard is there first, and learns the group from that itself before the program begins:
    # there is no moment in which nobody would end it.
    guard = _start_guard(cleanup, script=_PROGRAM_GUARD)
    words, pipe = command, subprocess.DEVNULL
    if guard is not None and guard.stdin is not None:
        words, pipe = ("/bin/sh", "-c", _ANNOUNCED, "sh", *command), guard.stdin.fileno()
    try:
        started = _start(words, subprocess.PIPE, env, cwd=cwd, given=pipe, merged=True)
    except BaseException:
        _release(guard, b"\nended")
        raise
    process = ServerProcess(started)
    try:
        await process.drain()
        yield process
    finally:
        try:
            await process.end()
        finally:
            _release(guard, b"clean")


class ServerProcess:
    """A running server process; `run_server` and `run_program` start and end it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._stderr: deque[bytes] = deque()
        self._stderr_size = 0
        self._readers: list[asyncio.BaseTransport] = []
        self._writer: tuple[asyncio.WriteTransport, _InputPipe] | None = None
        self.hurry = False
        """Leave without the grace period: set when the work was cancelled."""
        self.stray = 0
        """Lines on standard output that are not JSON-RPC messages."""
        self.first_stray = self.last_stray = ""
        self.gone = asyncio.Event()
        """Set when no more messages can come."""
        self.died: int | None = None
        """The exit status it ended with by itself; see `settle`."""
        self.refused = ""
        """Reason why reading was given up: this output is not MCP."""
        self.excess = ""
        """The limit that a message exceeded, in words."""

    @property
    def has_left(self) -> bool:
        """True if it has exited, or has closed its standard input.

        It answers nothing more, whoever else holds its output.
        """
        return self._process.poll() is not None or (
            self._writer is not None and self._writer[1].lost
        )

    @property
    def pid(self) -> int:
        """Process id, and id of its process group."""
        return self._process.pid

    def errors(self, lines: int = 15) -> str:
        """The end of its standard error, cleaned for display."""
        text = clean(b"".join(self._stderr).decode(errors="replace"))
        kept = [line.rstrip() for line in text.splitlines() if line.strip()]
        return "\n".join(line if len(line) <= 500 else line[:500] + "…" for line in kept[-lines:])

    def keep_stderr(self, data: bytes) -> None:
        """Add to the end of standard error that is kept."""
        self._stderr.append(data)
        self._stderr_size += len(data)
        while self._stderr_size - len(self._stderr[0]) >= _TAIL:
            self._stderr_size -= len(self._stderr.popleft())

    async def attach(self, calls: Calls) -> tuple[Incoming, Outgoing]:
        """Attach to the three pipes; returns the message streams."""
        loop = asyncio.get_running_loop()
        process = self._process
        reader = asyncio.StreamReader()
        for protocol, stream in (
            (lambda: _ErrorOutput(self), process.stderr),
            (lambda: asyncio.StreamReaderProtocol(reader), process.stdout),
        ):
            transport, _ = await loop.connect_read_pipe(protocol, stream)
            self._readers.append(transport)
        self._writer = await loop.connect_write_pipe(_InputPipe, process.stdin)
        incoming = Incoming(self, reader, calls)
        return incoming, Outgoing(*self._writer, sent=incoming.expect)

    async def drain(self) -> None:
        """Attach to the output alone, which is kept like standard error."""
        loop = asyncio.get_running_loop()
        output = self._process.stdout
        transport, _ = await loop.connect_read_pipe(lambda: _ErrorOutput(self), output)
        self._readers.append(transport)

    async def exited(self, seconds: float) -> bool:
        """Wait for the process to end; returns whether it has."""
        deadline = asyncio.get_running_loop().time() + seconds
        pause = _POLL / 8
        while self._process.poll() is None:
            if asyncio.get_running_loop().time() >= deadline:
                return False
            await asyncio.sleep(pause)
            pause = min(2 * pause, _POLL)
        return True

    async def settle(self) -> None:
        """Give a server that closed its output a moment to exit.

        It also finishes writing to standard error.
        """
        if await self.exited(0.5):
            self.died = self._process.poll()
            await asyncio.sleep(0.02)

    async def end(self) -> bool:
        """End the process and its group; returns whether that took force.

        Where messages go to its standard input, closing that is what asks it to end. Interrupted,
        it kills them at once.
        """
        forced = False
        try:
            patience = 0.0
            if self._writer is not None:
                self._writer[0].close()
                patience = 0.05 if self.hurry else GRACE
            if not await self.exited(patience):
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
            forced = self._kill() or forced
        return forced

    def _kill(self) -> bool:
        """Kill the rest of the group, without waiting for more than the kernel takes.

        Returns whether anything was left.
        """
        remains = self._process.poll() is None or self._group_alive()
        if remains:
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
        return remains

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _group_alive(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return self._process.returncode is None
        return True


class Incoming:
    """Messages from the server, as `ServerMessages` reads them."""

    def __init__(self, process: ServerProcess, reader: asyncio.StreamReader, calls: Calls) -> None:
        self._process = process
        self._reader = reader
        self._calls = calls
        self._lines: deque[bytes] = deque()
        self._parts: list[bytes] = []
        self._size = 0
        self._stray = 0
        self._closed = False
        self._silences = 0
        """Silences in a row in which a call waited and the process was seen to have left."""
        self._followed = False
        """A process that it left behind has answered in its place."""
        self._limit: asyncio.Timeout | None = None
        """Time limit of the read under way; without a deadline while no call waits, so that nobody
        is woken."""

    async def receive(self) -> SessionMessage:
        """The next message.

        Raises:
            anyio.EndOfStream: The server has closed its standard output, or writes what cannot be
                MCP.
        """
        import anyio
        from mcp.shared.message import SessionMessage
        from mcp.types import jsonrpc_message_adapter

        while (line := await self._line()) is not None:
            if not line.strip():
                continue
            if excess := excess_of(len(line), count_values(line), MAX_MESSAGE_BYTES):
                self._process.excess = excess
                break
            try:
                message = SessionMessage(
                    jsonrpc_message_adapter.validate_json(mended(line), by_name=False)
                )
            except ValueError:
                if is_answer(line):
                    self._calls.check(mended(line))
                    continue
                if self._calls.any and (is_noise(line) or self._calls.is_for_one(line)):
                    self._calls.refuse(mended(line))
                    continue
                self._process.stray += 1
                self._stray += 1
                self._process.last_stray = line[:400].decode(errors="replace")
                self._process.first_stray = self._process.first_stray or self._process.last_stray
                if self._stray >= MAX_STRAY_LINES:
                    self._process.refused = (
                        f"{MAX_STRAY_LINES} lines in a row that are not messages"
                    )
                    break
            else:
                self._stray = 0
                self._followed = self._followed or self._silences > 0
                return message
        self._process.gone.set()
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        self._closed = True

    async def __aenter__(self) -> Incoming:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _line(self) -> bytes | None:
        """The next line. The parts of a line are joined once, which keeps long messages linear."""
        while not self._lines:
            if self._closed:
                return None
            data = await self._read()
            if not data:
                self._process.gone.set()
                return None
            first, *rest = data.split(b"\n")
            self._parts.append(first)
            self._size += len(first)
            if self._size > MAX_MESSAGE_BYTES:
                self._process.excess = excess_words(MAX_MESSAGE_BYTES)
                return None
            if rest:
                self._lines.append(b"".join(self._parts))
                self._lines.extend(rest[:-1])
                self._parts = [rest[-1]]
                self._size = len(rest[-1])
        return self._lines.popleft()

    async def _read(self) -> bytes:
        """The next piece of output; empty at the end.

        The end is also where a call waits for a server that is gone, and whose children, if they
        hold its output, write nothing.
        """
        self._silences = 0
        while True:
            waits = self._calls.any or self._size > 0
            try:
                async with asyncio.timeout(SILENCE if waits else None) as self._limit:
                    try:
                        return await self._reader.read(256 * 1024)
                    finally:
                        self._limit = None
            except TimeoutError:
                if self._unended():
                    return b"\n"
                self._silences = (
                    self._silences + 1
                    if self._calls.any and not self._followed and self._process.has_left
                    else 0
                )
                if self._silences > 1:
                    return b""

    def expect(self) -> None:
        """Something was sent, and may be answered."""
        if self._limit is not None and self._limit.when() is None:
            self._limit.reschedule(asyncio.get_running_loop().time() + SILENCE)

    def _unended(self) -> bool:
        """True if the last piece is a whole message that lacks only its line's end."""
        from pydantic_core import from_json

        line = b"".join(self._parts)
        if not line.rstrip().endswith(b"}") or not is_answer(line):
            return False
        try:
            from_json(line)
        except ValueError:
            return False
        return True


class Outgoing:
    """Messages to the server, as the SDK's sessions write them."""

    def __init__(
        self, transport: asyncio.WriteTransport, writer: _InputPipe, *, sent: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._writer = writer
        self._sent = sent

    async def send(self, item: SessionMessage, /) -> None:
        """Write one message and wait until the pipe takes more.

        Raises:
            anyio.BrokenResourceError: The server has closed its standard input.
        """
        import anyio

        if self._writer.lost or self._transport.is_closing():
            raise anyio.BrokenResourceError
        self._transport.write(
            item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        )
        self._sent()
        await self._writer.free.wait()

    async def aclose(self) -> None:
        """Does nothing: `ServerProcess.end` closes the pipe."""

    async def __aenter__(self) -> Outgoing:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _ErrorOutput(asyncio.Protocol):
    def __init__(self, process: ServerProcess) -> None:
        self._process = process

    def data_received(self, data: bytes) -> None:
        self._process.keep_stderr(data)


class _InputPipe(asyncio.BaseProtocol):
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


def _start(
    command: Sequence[str],
    output: int,
    env: Mapping[str, str],
    *,
    cwd: str | None = None,
    given: int = subprocess.PIPE,
    merged: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a command as the leader of its own process group.

    Args:
        command: Program and arguments.
        output: Where standard output and standard error go.
        env: Its whole environment.
        cwd: Its working folder; None for ours.
        given: Its standard input.
        merged: Standard error goes where standard output goes.
    """
    return subprocess.Popen(
        command,
        stdin=given,
        stdout=output,
        stderr=subprocess.STDOUT if merged else output,
        env=env,
        cwd=cwd,
        bufsize=0,
        start_new_session=True,
    )


# Reads one word: `ended`, `clean`, or nothing where the process that held the other end of the pipe
# was killed. The server then gets the same time to end by itself that it has otherwise.
_GUARD = 'read -r word; case "$word" in ended) exit;; clean) ;; *) sleep "$0";; esac; exec "$@"'

# Tells the guard of a program, by standard input, which group it is going to be.
_ANNOUNCED = 'echo $$ >&0; exec "$@" </dev/null'

# Reads the group of a program before. Where the word does not come it ends the group, which may
# have gone by itself by then: its number is looked at again before each signal.
_PROGRAM_GUARD = f"""
read -r group; read -r word
if [ -z "$word" ] && [ -n "$group" ]; then
  kill -TERM -"$group"; n=
  while kill -0 -"$group" && [ "${{#n}}" -lt {10 * GRACE:.0f} ]; do sleep 0.1; n=x$n; done
  kill -KILL -"$group"
fi
[ "$word" = ended ] || [ "$#" -eq 0 ] || exec "$@"
"""


def _start_guard(command: Sequence[str], *, script: str = _GUARD) -> subprocess.Popen[bytes] | None:
    """Start a shell that outlives this process and runs `command`.

    It does not run it if `_release` says otherwise.
    """
    try:
        return _start(
            ("/bin/sh", "-c", script, f"{GRACE:g}", *command),
            subprocess.DEVNULL,
            child_environment({}),
        )
    except OSError:
        return None


def _require_program(program: str, env: Mapping[str, str], cwd: str | None) -> None:
    """Raise the error of the system for a program that a shell could not start.

    The shell's own words would say less.
    """
    path = os.path.join(cwd or "", program)
    there = os.path.exists(path) if "/" in program else shutil.which(program, path=env.get("PATH"))
    if not there or (cwd is not None and not os.path.isdir(cwd)):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    if "/" in program and not os.access(path, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), program)


def _release(guard: subprocess.Popen[bytes] | None, word: bytes) -> None:
    """Tell a guard, if there is one, what became of its server; a thread reaps it."""
    if guard is None:
        return
    assert guard.stdin is not None
    with contextlib.suppress(OSError), guard.stdin as pipe:
        pipe.write(word + b"\n")
    threading.Thread(target=guard.wait, name=f"reap {guard.pid}", daemon=True).start()
