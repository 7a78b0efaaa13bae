"""One command or shell on a pod: a real process, joined to an SSH channel the way sshd does it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from typing import TYPE_CHECKING, Any

import asyncssh

if TYPE_CHECKING:
    from hudtui.sim.machine import PodNode

_BLOCK = 65536
_TAKE_TERMINAL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[2:])"
_ACCEPTED = ("LANG", "LC_", "TERM", "COLORTERM")


def _argv(process: asyncssh.SSHServerProcess[bytes], node: PodNode) -> list[str]:
    """The login shell, or the shell with the command; the first word is the program, the second its name."""
    name = os.path.basename(node.shell)
    command = process.command
    if command is None:
        return [node.shell, f"-{name}"]
    return [node.shell, name, "-c", command if isinstance(command, str) else command.decode()]


def _environment(process: asyncssh.SSHServerProcess[bytes], node: PodNode) -> dict[str, str]:
    values = node.environment()
    values |= {str(name): str(value) for name, value in process.env.items() if str(name).startswith(_ACCEPTED)}
    client, server = process.get_extra_info("peername"), process.get_extra_info("sockname")
    if client and server:
        values["SSH_CONNECTION"] = f"{client[0]} {client[1]} {server[0]} {server[1]}"
    if process.term_type:
        values["TERM"] = process.term_type
    return values


def _resize(terminal: int, size: tuple[int, int, int, int]) -> None:
    columns, rows, width, height = size
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, width, height))


async def serve_session(process: asyncssh.SSHServerProcess[bytes], node: PodNode) -> None:
    """Run what the client asks for until it ends; the exit status or signal goes back to the client."""
    terminal: int | None = None
    argv = _argv(process, node)
    common: dict[str, Any] = {"cwd": node.home, "env": _environment(process, node), "start_new_session": True}
    try:
        if process.term_type:
            terminal, slave = pty.openpty()
            try:
                _resize(terminal, process.term_size)
                wrapper = [sys.executable, "-I", "-S", "-c", _TAKE_TERMINAL, *argv]
                child = await asyncio.create_subprocess_exec(*wrapper, stdin=slave, stdout=slave, stderr=slave, **common)
            finally:
                os.close(slave)
        else:
            pipe = asyncio.subprocess.PIPE
            child = await asyncio.create_subprocess_exec(
                argv[1], *argv[2:], executable=argv[0], stdin=pipe, stdout=pipe, stderr=pipe, **common
            )
    except OSError as error:
        if terminal is not None:
            os.close(terminal)
        process.stderr.write(f"simulated pod: {error}\n".encode())
        process.exit(127)
        return
    if terminal is not None:
        await _join_terminal(process, child, terminal)
    else:
        await _join_pipes(process, child)
    status = await child.wait()
    if process.is_closing():
        return
    if status < 0:
        # SSH names signals without their SIG.
        process.exit_with_signal(signal.Signals(-status).name.removeprefix("SIG"))
    else:
        process.exit(status)


def _signal(child: asyncio.subprocess.Process, name: str) -> None:
    number = getattr(signal, f"SIG{name}", None)
    if number is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)


async def _pump(source: asyncio.StreamReader, process: asyncssh.SSHServerProcess[bytes], error: bool = False) -> None:
    """Bytes of the child to the client, no faster than it takes them."""
    target = process.stderr if error else process.stdout
    with contextlib.suppress(OSError, asyncssh.Error):
        while data := await source.read(_BLOCK):
            target.write(data)
            await target.drain()


async def _requests(
    process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process, write: Any, terminal: int | None
) -> None:
    """Input, signals and window sizes of the client to the child, until the input ends."""
    while True:
        try:
            data = await process.stdin.read(_BLOCK)
        except asyncssh.TerminalSizeChanged as change:
            if terminal is not None:
                _resize(terminal, change.term_size)
            continue
        except asyncssh.SignalReceived as received:
            _signal(child, received.signal)
            continue
        except asyncssh.BreakReceived:
            continue
        except (OSError, asyncssh.Error):
            return
        if not data:
            return
        await write(data)


async def _join_pipes(process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process) -> None:
    assert child.stdin and child.stdout and child.stderr

    async def write(data: bytes) -> None:
        assert child.stdin
        with contextlib.suppress(OSError):
            child.stdin.write(data)
            await child.stdin.drain()

    async def feed() -> None:
        assert child.stdin
        await _requests(process, child, write, None)
        with contextlib.suppress(OSError):
            child.stdin.close()

    feeding = asyncio.create_task(feed())
    # sshd too waits for the end of the output, which a child in the background may hold open.
    stdout, stderr = child.stdout, child.stderr

    async def read() -> None:
        await asyncio.gather(_pump(stdout, process), _pump(stderr, process, True))

    reading = asyncio.create_task(read())
    gone = asyncio.create_task(process.channel.wait_closed())
    try:
        await asyncio.wait({reading, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (feeding, reading, gone):
            task.cancel()
        await asyncio.gather(feeding, reading, gone, return_exceptions=True)
        transport = child._transport  # type: ignore[attr-defined]
        for number in (0, 1, 2):
            if (side := transport.get_pipe_transport(number)) is not None:
                side.close()


async def _join_terminal(process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process, terminal: int) -> None:
    loop = asyncio.get_running_loop()
    os.set_blocking(terminal, False)
    reader = asyncio.StreamReader()
    source, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(terminal), "rb", 0))

    async def write(data: bytes) -> None:
        while data:
            try:
                data = data[os.write(terminal, data) :]
            except BlockingIOError:
                await asyncio.sleep(0.01)
            except OSError:
                return

    async def feed() -> None:
        await _requests(process, child, write, terminal)

    feeding = asyncio.create_task(feed())
    reading = asyncio.create_task(_pump(reader, process))
    ended = asyncio.create_task(child.wait())
    gone = asyncio.create_task(process.channel.wait_closed())
    try:
        await asyncio.wait({ended, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not gone.done():
            # What it wrote last; a background process that keeps the terminal open does not hold the session.
            await asyncio.wait({reading, gone}, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (feeding, reading, ended, gone):
            task.cancel()
        await asyncio.gather(feeding, reading, ended, gone, return_exceptions=True)
        source.close()
        os.close(terminal)  # the last end of it: the kernel sends SIGHUP to what is still there
