"""Commands on a machine behind SSH, with the meaning that they have on this one: no shell, and no child is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import MachineError
from hudtui.core.remote.host import OUTPUT_LIMIT, Completed
from hudtui.core.remote.ssh_channel import ChannelListener, NoChannel, open_channel
from hudtui.core.remote.ssh_connection import BackOff, SshConnection
from hudtui.core.remote.ssh_errors import Disconnected, connection_error

if TYPE_CHECKING:
    import asyncssh

STRAGGLE = 1.0
"""Seconds that output may still come after a command ended, when something it started holds the pipes open."""
_KILL_WAIT = 5.0
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Both streams get a mark of this call first: what the user's shell prints before it (a greeting in .bashrc) is no output of the
# command. $$ stays the command's process id through exec, and sshd makes it the leader of a group: by it all can be ended.
_WRAPPER = r"""
mark=$1 place=$2; shift 2
printf '%s:%s:\n' "$mark" "$$"
printf '%s:%s:\n' "$mark" "$$" >&2
fail() { printf '%s!%s\n' "$mark" "$1" >&2; exit 127; }
if [ -n "$place" ]; then
  [ -e "$place" ] || fail 'No such file or directory'
  [ -d "$place" ] || fail 'Not a directory'
  CDPATH= cd -- "$place" 2>/dev/null || fail 'Permission denied'
fi
while [ "$1" != -- ]; do export "$1"; shift; done
shift
case $1 in
  */*) [ -e "$1" ] || fail 'No such file or directory'
       [ ! -d "$1" ] && [ -x "$1" ] || fail 'Permission denied' ;;
  *) command -v -- "$1" >/dev/null 2>&1 || fail 'No such file or directory' ;;
esac
exec "$@"
"""


class CommandLost(Disconnected):
    """The connection broke while a command ran: nobody knows how it ended."""


async def run_command(
    link: SshConnection,
    argv: Sequence[str],
    *,
    cwd: PurePosixPath | str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    timeout: float | None = None,
    repeat: bool = False,
) -> Completed:
    """See `SshHost.run`."""
    words = tuple(str(word) for word in argv)
    mark = f"hudtui-{secrets.token_hex(8)}"
    command = _command(words, mark, cwd, env or {})
    try:
        async with asyncio.timeout(timeout):
            await link.commands.acquire()
    except TimeoutError:
        raise NoChannel(
            f"`{words[0]}` was not started on {link.target.name}", why=f"other commands kept all channels busy for {timeout:g} s"
        ) from None
    try:
        return await _patiently(link, words, command, mark, stdin, timeout, repeat)
    finally:
        link.commands.release()


async def _patiently(
    link: SshConnection, words: tuple[str, ...], command: str, mark: str, stdin: bytes | None, timeout: float | None, repeat: bool
) -> Completed:
    loop, back_off = asyncio.get_running_loop(), BackOff()
    began = loop.time()
    while True:
        left = None if timeout is None else max(began + timeout - loop.time(), 0.0)
        try:
            return await _once(link, words, command, mark, stdin, left, timeout)
        except Disconnected as error:
            patience = link.patience if timeout is None else min(link.patience, timeout)
            if (isinstance(error, CommandLost) and not repeat) or not link.connects or loop.time() >= began + patience:
                raise
        await back_off.wait()


def _command(words: tuple[str, ...], mark: str, cwd: PurePosixPath | str | None, env: Mapping[str, str]) -> str:
    if not words or not words[0]:
        raise MachineError("the command `` cannot be started", why="No such file or directory")
    for name, value in env.items():
        if not _VARIABLE.fullmatch(name):
            raise MachineError(f"the environment variable {name!r} cannot be set there", why="it is no name for a variable")
        if "\0" in value:
            raise MachineError(f"the environment variable {name} cannot be set there", why="it holds a null character")
    if any("\0" in word for word in (*words, str(cwd or ""))):
        raise MachineError(f"the command `{words[0]}` cannot be started", why="a word of it holds a null character")
    settings = [f"{name}={value}" for name, value in env.items()]
    return "exec " + shlex.join(["sh", "-c", _WRAPPER, "hudtui", mark, "" if cwd is None else str(cwd), *settings, "--", *words])


async def _once(
    link: SshConnection,
    words: tuple[str, ...],
    command: str,
    mark: str,
    stdin: bytes | None,
    left: float | None,
    timeout: float | None,
) -> Completed:

    collector = Collector()
    channel: asyncssh.SSHClientChannel[bytes] | None = None
    try:
        async with asyncio.timeout(left):
            connection = await link.connection()
            try:
                channel = await open_channel(link, connection, command, collector)
            except Disconnected as error:
                raise _lost(link, words, error.why) if collector.opened else error from None
            if stdin:
                with contextlib.suppress(BrokenPipeError, OSError):
                    channel.write(stdin)
            with contextlib.suppress(BrokenPipeError, OSError):
                channel.write_eof()
            await asyncio.shield(collector.over)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.0 if collector.flooded else STRAGGLE):
                    await asyncio.shield(collector.closed)
    except TimeoutError:
        if channel is None:
            raise Disconnected(f"{link.target.name} did not answer within {timeout:g} s") from None
        await _end(link, collector, mark)
        raise MachineError(f"`{words[0]}` did not end within {timeout:g} s, and was ended") from None
    except asyncio.CancelledError:
        if channel is not None:
            await asyncio.shield(_end(link, collector, mark))
        raise
    finally:
        if channel is not None:
            channel.close()
    if collector.flooded:
        await _end(link, collector, mark)
        raise MachineError(f"`{words[0]}` printed more than {OUTPUT_LIMIT // 2**20} MiB, and was ended")
    if collector.status is None:
        raise _lost(link, words, connection_error(collector.error, link.target).why if collector.error else None)
    output, errors = collector.after(mark)
    refused = re.search(re.escape(mark.encode()) + rb"!(.*)\n", errors)
    if refused and collector.status == 127:
        raise MachineError(
            f"the command `{words[0]}` cannot be started on {link.target.name}", why=refused[1].decode("utf-8", "replace")
        )
    return Completed(words, collector.status, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))


def _lost(link: SshConnection, words: tuple[str, ...], why: str | None) -> CommandLost:
    what = f"the connection with {link.target.name} was lost while `{words[0]}` ran"
    return CommandLost(what, why=why, fix="It may have gone on there: look before you start it again.")


async def _end(link: SshConnection, collector: Collector, mark: str) -> None:
    """Kill the command's process group there, as far as the machine can be reached."""
    group = collector.group(mark)
    if group is None or collector.status is not None or not link.live:
        return
    killer = Collector()
    with contextlib.suppress(MachineError, TimeoutError):
        async with asyncio.timeout(_KILL_WAIT):
            connection = await link.connection()
            channel = await open_channel(link, connection, f"kill -KILL -{group} || kill -KILL {group}", killer)
            try:
                await asyncio.shield(killer.exited)
                await asyncio.shield(collector.exited)
            finally:
                channel.close()


class Collector(ChannelListener):
    """Gathers what a command prints, and tells when it has ended and when its channel is closed."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.over: asyncio.Future[None] = loop.create_future()
        """It has ended, or printed too much."""
        self.closed: asyncio.Future[None] = loop.create_future()
        self.status: int | None = None
        self.error: Exception | None = None
        self.opened = False
        """The channel is there: from now on the command may run, whatever is heard of it."""
        self._output: dict[int | None, bytearray] = {None: bytearray(), 1: bytearray()}

    @property
    def flooded(self) -> bool:
        """It has printed more than a command may."""
        return sum(map(len, self._output.values())) > OUTPUT_LIMIT

    def connection_made(self, chan: Any) -> None:
        """The channel is there."""
        self.opened = True

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Output came."""
        if not self.flooded:
            self._output[datatype] += data
        else:
            _set(self.over)

    def exit_status_received(self, status: int) -> None:
        """The command ended."""
        self.status = status
        _set(self.exited)
        _set(self.over)

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        """The command was ended by a signal: its number, negative, as for local ones."""
        import signal as signals

        number = getattr(signals, f"SIG{signal}", None)
        self.status = -int(number) if number is not None else -1
        _set(self.exited)
        _set(self.over)

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is closed, or the connection with it."""
        self.error = exc
        _set(self.exited)
        _set(self.over)
        _set(self.closed)

    def group(self, mark: str) -> int | None:
        """Process group of the command, once it has begun."""
        found = re.search(re.escape(mark.encode()) + rb":(\d+):\n", bytes(self._output[1]) + bytes(self._output[None][:4096]))
        return int(found[1]) if found else None

    def after(self, mark: str) -> tuple[bytes, bytes]:
        """Both outputs from the mark on."""
        texts = []
        for stream in (None, 1):
            text = bytes(self._output[stream])
            found = re.search(re.escape(mark.encode()) + rb":\d+:\n", text)
            texts.append(text[found.end() :] if found else text)
        return texts[0], texts[1]


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
