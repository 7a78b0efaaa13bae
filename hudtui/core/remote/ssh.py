"""A machine behind SSH as a host.

Commands without a shell, files in one step, transfers that resume, ports, growing logs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import os
import re
import secrets
import shlex
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any

import asyncssh

from hudtui.core.errors import MachineError
from hudtui.core.files import write_atomic
from hudtui.core.remote import tunnel
from hudtui.core.remote.host import (
    OUTPUT_LIMIT,
    READ_LIMIT,
    TOO_LARGE,
    Completed,
    Disconnected,
    FileChanged,
    FileChunk,
    FileRefused,
    FileStat,
    Progress,
    Silent,
)
from hudtui.core.remote.known_hosts import KnownHosts
from hudtui.core.remote.ssh_connection import (
    BackOff,
    ChannelListener,
    NoChannel,
    SshConnection,
    check_regular,
    connection_error,
    ignore_broken,
    is_regular,
    sftp_reason,
)
from hudtui.core.remote.ssh_follow import follow_remote
from hudtui.core.remote.target import SshTarget
from hudtui.core.text import clean_line

_BLOCK = 1024 * 1024
"""Bytes that are read or written with one call; asyncssh keeps several requests in flight below
it."""
_TRANSFER_BLOCK = 4 * 1024 * 1024
"""Bytes of a transfer that are sent again after a disconnect: writes may be lost out of order."""
_STRAGGLE = 1.0
"""Seconds that output may still come after a command ended, when a process it started holds the
pipes open."""
_KILL_WAIT = _TIDY_WAIT = 5.0
_HASH_TIME, _HASH_SPEED = 600.0, 10e6
"""Seconds that a digest may take in any case, and the bytes for each of which more time is given, a
second."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_READ_ONLY = 1
"""The flag of `statvfs` for a disk that is mounted read-only (ST_RDONLY)."""

# Both streams get a mark of this call first: what the user's shell prints before it (a greeting in
# .bashrc) is not output of the command. $$ stays the command's process id through exec, and sshd
# makes it the leader of a group, by which all can be ended.
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

_SHELL_HASH = 'head -c "$2" -- "$1" | sha256sum'
_PYTHON_HASH = (
    "import hashlib,sys\nh=hashlib.sha256();n=int(sys.argv[2])\n"
    "with open(sys.argv[1],'rb') as f:\n"
    " while n>0:\n"
    "  b=f.read(min(n,1048576))\n"
    "  if not b: break\n"
    "  h.update(b);n-=len(b)\n"
    "print(h.hexdigest())"
)


class CommandLost(Disconnected):
    """The connection broke while a command ran: how the command ended is unknown."""


class SshHost:
    """Commands, files and ports of a machine behind SSH; see `Host`.

    Nothing is reached before the first operation. A lost connection comes back by itself:
    operations that may be done twice are repeated for as long as the connection's `patience` lasts;
    a command is not repeated once it may have begun. `reach` gives the connection, before each
    operation: an address may change between two operations.
    """

    def __init__(self, name: str, reach: Callable[[], Awaitable[SshConnection]]) -> None:
        self.name = name
        self.reach = reach

    async def __aenter__(self) -> SshHost:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection. What was started there in tmux or as a daemon continues."""
        await (await self.reach()).close()

    # -- commands

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: PurePosixPath | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float | None = None,
        silence: float | None = None,
        repeat: bool = False,
    ) -> Completed:
        """Run a command to its end; see `Host.run`.

        Cancelling ends the command and its process group there.

        `repeat`: the command may run again when the connection broke while it ran.

        Raises:
            CommandLost: The connection broke while the command ran.
            Silent: The machine did not begin the command.
            Disconnected: The connection broke before the command began.
            MachineError: The program does not exist, the time ran out, or it printed too much.
        """
        link = await self.reach()
        words = tuple(str(word) for word in argv)
        mark = f"hudtui-{secrets.token_hex(8)}"
        line = _command_line(words, mark, cwd, env or {})
        try:
            async with asyncio.timeout(timeout):
                await link.commands.acquire()
        except TimeoutError:
            busy = f"other commands kept all channels busy for {timeout:g} s"
            raise NoChannel(
                f"`{words[0]}` was not started on {link.target.name}", why=busy
            ) from None
        loop, back_off = asyncio.get_running_loop(), BackOff()
        began = loop.time()
        try:
            while True:
                remaining = None if timeout is None else max(began + timeout - loop.time(), 0.0)
                try:
                    return await _run_once(
                        link, words, line, mark, stdin, remaining, timeout, silence
                    )
                except Silent:
                    raise
                except Disconnected as error:
                    patience = link.patience if timeout is None else min(link.patience, timeout)
                    lost = isinstance(error, CommandLost) and not repeat
                    if lost or not link.connects or loop.time() >= began + patience:
                        raise
                await back_off.wait()
        finally:
            link.commands.release()

    # -- files

    async def put(
        self, content: bytes | Path, path: PurePosixPath | str, *, mode: int = 0o644
    ) -> None:
        """Write a file there in one step; see `Host.put`."""
        link = await self.reach()
        try:
            stream = content.open("rb") if isinstance(content, Path) else io.BytesIO(content)
        except OSError as error:
            raise MachineError("a file cannot be read", why=error.strerror or str(error)) from None
        token = secrets.token_hex(
            6
        )  # the same for every attempt, so that a later attempt replaces the file of an earlier one

        async def write() -> None:
            stream.seek(0)
            files = await link.files()
            target = PurePosixPath(await _real_path(files, path))
            await files.makedirs(str(target.parent), exist_ok=True)
            temporary = str(target.parent / f".{target.name[:40]}.{token}.tmp")
            try:
                async with _opened(
                    link, files, temporary, "wb", asyncssh.SFTPAttrs(permissions=0o600)
                ) as file:
                    offset = 0
                    while block := stream.read(_BLOCK):
                        await file.write(block, offset)
                        offset += len(block)
                    await _flush(file)
                await files.chmod(temporary, mode)
                await _replace(files, temporary, str(target))
            except BaseException:
                with ignore_broken():
                    async with asyncio.timeout(_TIDY_WAIT):
                        await files.remove(temporary)
                raise

        with stream:
            size = stream.seek(0, io.SEEK_END)
            try:
                await link.repeat(write, size)
            except asyncssh.SFTPError as error:
                why, fix = await _refusal(link, path, error, size)
                what = f"{path} cannot be written on {link.target.name}; the old file is unchanged"
                raise MachineError(what, why=why, fix=fix) from None

    async def get(
        self, path: PurePosixPath | str, *, offset: int = 0, limit: int | None = None
    ) -> bytes:
        """Read bytes of a file there; see `Host.get`."""
        link = await self.reach()

        async def read() -> bytes:
            files = await link.files()
            await check_regular(files, path)
            parts: list[bytes] = []
            place, remaining = offset, READ_LIMIT + 1 if limit is None else limit
            async with _opened(link, files, str(path), "rb") as file:
                while remaining > 0 and (
                    block := (await file.read(min(remaining, _BLOCK), place))[:remaining]
                ):
                    parts.append(block)
                    place += len(block)
                    remaining -= len(block)
            return b"".join(parts)

        try:
            data = await link.repeat(read, READ_LIMIT if limit is None else limit)
        except asyncssh.SFTPError as error:
            raise FileRefused(
                f"{path} cannot be read on {link.target.name}", why=sftp_reason(error)
            ) from None
        if limit is None and len(data) > READ_LIMIT:
            raise FileRefused(f"{path} on {link.target.name} is not read", why=TOO_LARGE)
        return data

    async def stat(self, path: PurePosixPath | str) -> FileStat | None:
        """Size and age of a file there; see `Host.stat`.

        The age is in whole seconds, as SFTP tells it.
        """
        link = await self.reach()

        async def ask() -> FileStat:
            attributes = await (await link.files()).stat(str(path))
            return FileStat(
                attributes.size or 0, float(attributes.mtime or 0), is_regular(attributes)
            )

        try:
            return await link.repeat(ask)
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath):
            return None
        except asyncssh.SFTPError as error:
            raise FileRefused(
                f"{path} cannot be read on {link.target.name}", why=sftp_reason(error)
            ) from None

    async def upload(
        self, local: Path, remote: PurePosixPath | str, *, progress: Progress | None = None
    ) -> None:
        """Send a file of any size; see `Host.upload`.

        The SHA-256 is compared where the machine has sha256sum or Python.

        Raises:
            MachineError: The file cannot be read or written, arrived damaged, or the machine stayed
                away for too long.
        """
        link = await self.reach()
        try:
            size, digest = await asyncio.to_thread(_digest, local)
        except OSError as error:
            raise MachineError(
                f"{local} cannot be read", why=error.strerror or str(error)
            ) from None

        async def send() -> None:
            files = await link.files()
            target = PurePosixPath(await _real_path(files, remote))
            await files.makedirs(str(target.parent), exist_ok=True)
            # Named after the content: only the same content is ever resumed.
            part = str(target.parent / f".{target.name[:40]}.{digest[:16]}.part")
            try:
                arrived = min((await files.stat(part)).size or 0, size)
            except asyncssh.SFTPNoSuchFile:
                arrived = 0
                await (
                    await files.open(
                        part, "wb", asyncssh.SFTPAttrs(permissions=0o600), encoding=None
                    )
                ).close()
            begun = at = max(arrived - _TRANSFER_BLOCK, 0)
            report = progress or _no_progress
            with local.open("rb") as source:
                async with _opened(link, files, part, "r+b") as stream:
                    source.seek(begun)
                    report(at, size)
                    while block := await asyncio.to_thread(source.read, _TRANSFER_BLOCK):
                        await link.answer(stream.write(block, at), len(block))
                        at += len(block)
                        report(at, size)
                    await stream.truncate(size)
                    await _flush(stream)
            arrived_digest = await self._remote_digest(part, size)
            if at != size or (arrived_digest is not None and arrived_digest != digest):
                await files.remove(part)
                raise _Differs(begun > 0)
            await files.chmod(part, 0o644)
            await _replace(files, part, str(target))

        await _persist(
            link, send, f"{local.name} cannot be written to {remote} on {link.target.name}", remote
        )

    async def download(
        self,
        remote: PurePosixPath | str,
        local: Path,
        *,
        most: int | None = None,
        digest: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Bring a file of any size here; see `Host.download`.

        Without a digest it is compared as for `upload`. Only a part of the same content is resumed.
        Where the machine can compute no digest, each attempt begins anew.

        Raises:
            FileChanged: It is not the file of `digest`, or was changed meanwhile.
            MachineError: The file cannot be read or written, or the machine stayed away for too
                long.
        """
        link = await self.reach()
        target = Path(os.path.realpath(local))
        parts = re.compile(re.escape(f".{target.name[:40]}.") + r"(?:[0-9a-f]{16}|unknown)\.part")

        async def fetch() -> None:
            files = await link.files()
            await link.answer(check_regular(files, remote))
            report = progress or _no_progress
            async with _opened(link, files, str(remote), "rb") as stream:
                facts = await link.answer(stream.stat())
                size = facts.size or 0
                size = size if most is None else min(size, most)
                wanted = digest or await self._remote_digest(str(remote), size)
                # Named after the content, as for an upload.
                part = target.with_name(
                    f".{target.name[:40]}.{wanted[:16] if wanted else 'unknown'}.part"
                )
                target.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                with os.fdopen(descriptor, "r+b") as sink:
                    begun = sink.seek(0, os.SEEK_END) if wanted else 0
                    if begun > size:
                        begun = sink.seek(0)
                    at = begun
                    report(at, size)
                    while at < size:
                        most_now = min(_TRANSFER_BLOCK, size - at)
                        block = (await link.answer(stream.read(most_now, at), most_now))[:most_now]
                        if not block:
                            break
                        await asyncio.to_thread(sink.write, block)
                        at += len(block)
                        report(at, size)
                    if (
                        wanted is None
                    ):  # another date tells of a change, unless the file has only grown
                        now = await link.answer(stream.stat())
                        if now.size == facts.size and now.mtime != facts.mtime:
                            raise _Differs(False)
                    sink.truncate(at)
                    sink.flush()
                    await asyncio.to_thread(os.fsync, sink.fileno())
            _, ours = await asyncio.to_thread(_digest, part)
            if at != size or (wanted is not None and wanted != ours):
                part.unlink()
                raise _Differs(begun > 0)
            os.replace(part, target)
            for old in target.parent.iterdir():
                if parts.fullmatch(old.name):  # of what the file was before
                    old.unlink(missing_ok=True)

        await _persist(link, fetch, f"{remote} cannot be brought from {link.target.name}")

    async def _remote_digest(self, path: str, size: int) -> str | None:
        """SHA-256 of the first `size` bytes of a file there.

        None where the machine cannot compute it.
        """
        for program in (
            ("sh", "-c", _SHELL_HASH, "sh"),
            ("python3", "-I", "-S", "-c", _PYTHON_HASH),
        ):
            try:
                done = await self.run(
                    [*program, path, str(size)],
                    timeout=_HASH_TIME + size / _HASH_SPEED,
                    repeat=True,
                )
            except Disconnected:
                raise
            except MachineError:
                continue
            if done.ok and len(done.stdout) >= 64:
                return done.stdout[:64]
        return None

    async def follow(
        self, path: PurePosixPath | str, *, offset: int = 0
    ) -> AsyncGenerator[FileChunk, None]:
        """Follow a growing file; see `Host.follow`.

        Continues at the same byte however long the machine was away.
        """
        async with aclosing(follow_remote(await self.reach(), str(path), offset)) as chunks:
            async for chunk in chunks:
                yield chunk

    # -- ports

    def forward(
        self, local_port: int, remote_host: str, remote_port: int
    ) -> AbstractAsyncContextManager[int]:
        """A port of this machine that leads to a port there; see `Host.forward`."""
        return tunnel.forward(self.reach, local_port, remote_host, remote_port)

    def reverse(self, remote_port: int, host: str, port: int) -> AbstractAsyncContextManager[int]:
        """A port of the machine that leads to a port here; see `Host.reverse`."""
        return tunnel.reverse(self.reach, remote_port, host, port)


def ssh_argv(
    target: SshTarget, known_hosts: KnownHosts, command: Sequence[str] = (), *, tty: bool = True
) -> tuple[str, ...]:
    """Return the command of the system's `ssh` that shows `command` of the machine, or a shell.

    It shows it on the user's own terminal.

    Machines on the way (`jump`) are judged by the user's own known_hosts: `ssh -J` passes no
    options on to them. The machine has been reached before, so that its host key is known; `ssh`
    trusts the same key.

    Raises:
        MachineError: Its host key is not known.
        InputError: The key cannot be written down for `ssh`.
    """
    key = known_hosts.known(target.machine)
    if key is None:
        raise MachineError(
            f"{target.name} has never been reached",
            fix="Connect first, so that its host key is known.",
        )
    alias = f"hudtui-{hashlib.sha256(target.machine.encode()).hexdigest()[:16]}"
    path = known_hosts.path(target.machine).with_suffix(".known")
    write_atomic(path, f"{alias} {key.export_public_key('openssh').decode().strip()}\n", mode=0o600)

    def quoted(text: str) -> str:
        return '"' + text.replace("%", "%%") + '"'

    options = [
        f"UserKnownHostsFile={quoted(str(path))}",
        "GlobalKnownHostsFile=none",
        "StrictHostKeyChecking=yes",
    ]
    options += [
        f"HostKeyAlias={alias}",
        "UpdateHostKeys=no",
        "PasswordAuthentication=no",
        "KbdInteractiveAuthentication=no",
    ]
    if target.agent is not None:
        options.append(f"IdentityAgent={quoted(target.agent) if target.agent else 'none'}")
    if target.identities_only:
        options.append("IdentitiesOnly=yes")
    if target.proxy_command:
        options.append(f"ProxyCommand={target.proxy_command.replace('%', '%%')}")
    argv = [
        "ssh",
        *(["-t"] if tty else []),
        *(part for option in options for part in ("-o", option)),
    ]
    for key_file in target.keys:
        argv += ["-i", str(key_file)]
    if target.jump:
        argv += ["-J", ",".join(hop.name for hop in target.jump)]
    argv += ["-p", str(target.port), "-l", target.user, "--", target.host]
    return (*argv, shlex.join(command)) if command else tuple(argv)


# --- commands -------------------------------------------------------------------------------------


def _command_line(
    words: tuple[str, ...], mark: str, cwd: PurePosixPath | str | None, env: Mapping[str, str]
) -> str:
    if not words or not words[0]:
        raise MachineError("the command `` cannot be started", why="No such file or directory")
    for name, value in env.items():
        if not _VARIABLE.fullmatch(name):
            raise MachineError(
                f"the environment variable {name!r} cannot be set there",
                why="it is not a valid variable name",
            )
        if "\0" in value:
            raise MachineError(
                f"the environment variable {name} cannot be set there",
                why="it holds a null character",
            )
    if any("\0" in word for word in (*words, str(cwd or ""))):
        raise MachineError(
            f"the command `{words[0]}` cannot be started", why="a word of it holds a null character"
        )
    settings = [f"{name}={value}" for name, value in env.items()]
    return "exec " + shlex.join(
        [
            "sh",
            "-c",
            _WRAPPER,
            "hudtui",
            mark,
            "" if cwd is None else str(cwd),
            *settings,
            "--",
            *words,
        ]
    )


async def _run_once(
    link: SshConnection,
    words: tuple[str, ...],
    line: str,
    mark: str,
    stdin: bytes | None,
    remaining: float | None,
    timeout: float | None,
    silence: float | None,
) -> Completed:
    output = _OutputCollector()

    async def ended(what: str) -> MachineError:
        if await asyncio.shield(_kill(link, output, mark)):
            return MachineError(f"`{words[0]}` {what}, and was ended")
        return _lost(link, words, "the machine does not answer")

    opening: asyncio.Task[asyncssh.SSHClientChannel[bytes]] | None = None
    try:
        async with asyncio.timeout(remaining):
            connection = await link.connection()
            opening = asyncio.create_task(link.open_channel(connection, line, output))
            try:
                # Shielded, because the request to start the command may be on its way: only an open
                # channel tells what to kill.
                channel = await link.answer(asyncio.shield(opening))
            except Disconnected as error:
                raise _lost(link, words, error.why) if output.channel else error from None
            with contextlib.suppress(OSError):
                if stdin:
                    channel.write(stdin)
                channel.write_eof()
            while not output.over.is_set():
                output.heard.clear()
                begun = output.group(mark) is not None
                try:
                    async with asyncio.timeout(silence if begun else link.timeout) as limit:
                        await output.heard.wait()
                except TimeoutError:
                    if not limit.expired():
                        raise
                    if not begun:
                        await asyncio.shield(_kill(link, output, mark))
                        what = (
                            f"{link.target.name} did not begin `{words[0]}` within "
                            f"{link.timeout:g} s"
                        )
                        raise Silent(
                            what, fix="It may still begin there: look before you start it again."
                        ) from None
                    raise await ended(f"printed nothing for {silence:g} s") from None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.0 if output.flooded else _STRAGGLE):
                    await output.closed.wait()
        if output.flooded:
            raise await ended(f"printed more than {OUTPUT_LIMIT // 2**20} MiB")
    except TimeoutError:
        if output.channel is None:
            raise Disconnected(f"{link.target.name} did not answer within {timeout:g} s") from None
        raise await ended(f"did not end within {timeout:g} s") from None
    except asyncio.CancelledError:
        if output.channel is not None:
            await asyncio.shield(_kill(link, output, mark))
        raise
    finally:
        if opening is not None:
            opening.cancel()
        if output.channel is not None:
            output.channel.close()
    if output.status is None:
        raise _lost(
            link, words, connection_error(output.error, link.target).why if output.error else None
        )
    out, err = output.after(mark)
    refused = re.search(re.escape(mark.encode()) + rb"!(.*)\n", err)
    if refused and output.status == 127:
        why = refused[1].decode("utf-8", "replace")
        raise MachineError(
            f"the command `{words[0]}` cannot be started on {link.target.name}", why=why
        )
    return Completed(
        words, output.status, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")
    )


def _lost(link: SshConnection, words: tuple[str, ...], why: str | None) -> CommandLost:
    what = f"the connection with {link.target.name} was lost while `{words[0]}` ran"
    return CommandLost(what, why=why, fix="It may still run there: look before you start it again.")


async def _kill(link: SshConnection, output: _OutputCollector, mark: str) -> bool:
    """Kill the command's process group there, as far as the machine can be reached.

    Return whether the command has ended.
    """
    killer = _OutputCollector()
    with contextlib.suppress(MachineError, TimeoutError):
        async with asyncio.timeout(_KILL_WAIT):
            # The machine may still be on its way to the command: the user's shell, for one, runs
            # its own start-up files first.
            while (group := output.group(mark)) is None and not output.exited.is_set():
                output.heard.clear()
                await output.heard.wait()
            if group is not None and link.live and not output.exited.is_set():
                connection = await link.connection()
                channel = await link.open_channel(
                    connection, f"kill -KILL -{group} || kill -KILL {group}", killer
                )
                try:
                    await killer.exited.wait()
                    await output.exited.wait()
                finally:
                    channel.close()
    return output.status is not None


class _OutputCollector(ChannelListener):
    """Gathers what a command prints, and notices its end and that of its channel."""

    def __init__(self) -> None:
        self.heard, self.exited, self.over, self.closed = (asyncio.Event() for _ in range(4))
        """`heard`: something came; `over`: the command has ended, or printed too much."""
        self.status: int | None = None
        self.error: Exception | None = None
        self.channel: asyncssh.SSHClientChannel[bytes] | None = None
        """From the moment that it is there the command may run, whatever is heard of it."""
        self._output: dict[int | None, bytearray] = {
            None: bytearray(),
            asyncssh.EXTENDED_DATA_STDERR: bytearray(),
        }

    @property
    def flooded(self) -> bool:
        """True once the command has printed more than `OUTPUT_LIMIT`."""
        return sum(map(len, self._output.values())) > OUTPUT_LIMIT

    def connection_made(self, chan: Any) -> None:
        self.channel = chan

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self.heard.set()
        if not self.flooded:
            self._output[datatype] += data
        else:
            self.over.set()

    def exit_status_received(self, status: int) -> None:
        self.status = status
        for event in (self.heard, self.exited, self.over):
            event.set()

    def exit_signal_received(
        self, signal_name: str, core_dumped: bool, msg: str, lang: str
    ) -> None:
        number = getattr(signal, f"SIG{signal_name}", None)
        self.exit_status_received(
            -int(number) if number is not None else -1
        )  # negative, as for local commands

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        for event in (self.heard, self.exited, self.over, self.closed):
            event.set()

    def group(self, mark: str) -> int | None:
        """Process group of the command, once it has begun."""
        out, err = self._output.values()
        marker = re.search(re.escape(mark.encode()) + rb":(\d+):\n", bytes(err) + bytes(out[:4096]))
        return int(marker[1]) if marker else None

    def after(self, mark: str) -> list[bytes]:
        """Standard output and standard error from the mark on."""
        texts = []
        for stream in self._output.values():
            marker = re.search(re.escape(mark.encode()) + rb":\d+:\n", bytes(stream))
            texts.append(bytes(stream[marker.end() :] if marker else stream))
        return texts


# --- files ----------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _opened(
    link: SshConnection, files: asyncssh.SFTPClient, path: str, mode: str, attrs: Any = None
) -> AsyncIterator[Any]:
    """Open a file there, and close it in any case.

    It is closed also when the connection was lost in between, or the machine does not answer any
    more.
    """
    file = await link.answer(
        files.open(path, mode, **({} if attrs is None else {"attrs": attrs}), encoding=None)
    )
    try:
        yield file
    finally:
        with ignore_broken():
            async with asyncio.timeout(_TIDY_WAIT):
                await file.close()


async def _real_path(files: asyncssh.SFTPClient, path: PurePosixPath | str) -> str:
    """Target of a path, so that a symbolic link stays a link."""
    with contextlib.suppress(asyncssh.SFTPError):
        return str(await files.realpath(str(path)))
    return str(path)


async def _replace(files: asyncssh.SFTPClient, temporary: str, target: str) -> None:
    """Rename over `target`, in one step where the server can."""
    try:
        await files.posix_rename(temporary, target)
    except asyncssh.SFTPOpUnsupported:
        with contextlib.suppress(asyncssh.SFTPNoSuchFile):
            await files.remove(target)
        await files.rename(temporary, target)


async def _flush(file: Any) -> None:
    with contextlib.suppress(asyncssh.SFTPOpUnsupported):
        await file.fsync()


async def _refusal(
    link: SshConnection, path: PurePosixPath | str, error: asyncssh.SFTPError, size: int = 1
) -> tuple[str, str | None]:
    """Reason why a file of `size` bytes could not be written, and the remedy.

    SFTP has no word for a full disk.
    """
    if not isinstance(error, asyncssh.SFTPFailure):
        return sftp_reason(error), None
    with contextlib.suppress(asyncssh.Error, MachineError, OSError):
        files = await link.files()
        folder = PurePosixPath(await _real_path(files, path)).parent
        while folder != folder.parent and not await files.exists(str(folder)):
            folder = folder.parent
        disk, name = await files.statvfs(str(folder)), clean_line(str(folder))
        if disk.flags & _READ_ONLY:
            return f"the disk of {name} is read-only", "Choose another folder."
        if disk.bavail * (disk.frsize or disk.bsize or 1) < size:
            return f"the disk of {name} is full", "Free some space there and try again."
        if disk.files and not disk.favail:
            return f"the disk of {name} holds no more files", "Remove some there and try again."
    return sftp_reason(error), None


# --- transfers ------------------------------------------------------------------------------------


class _Differs(Exception):
    """The bytes that arrived are not those that were sent."""

    def __init__(self, resumed: bool) -> None:
        self.resumed = resumed


def _no_progress(done: int, size: int) -> None:
    """Report nothing."""


async def _persist(
    link: SshConnection,
    work: Callable[[], Awaitable[None]],
    what: str,
    written: PurePosixPath | str | None = None,
) -> None:
    """Repeat a transfer until it is done.

    Each new connection restarts the patience: what was transferred stays.
    """
    loop, back_off = asyncio.get_running_loop(), BackOff()
    until, connects, again = loop.time() + link.patience, link.connects, True
    while True:
        try:
            with link.translated():
                return await work()
        except Silent:
            raise
        except Disconnected:
            if link.connects > connects:
                connects, until = link.connects, loop.time() + link.patience
                back_off.reset()
            if loop.time() >= until:
                raise
        except _Differs as error:
            if not (error.resumed and again):
                raise FileChanged(
                    what,
                    why=(
                        "what arrived is not what was sent: the file changed meanwhile, or it was "
                        "damaged on the way"
                    ),
                    fix="Try again when nothing writes to it.",
                ) from None
            again = False  # an earlier attempt left something else there: once more from the start
            continue
        except asyncssh.SFTPError as error:
            why, fix = (
                (sftp_reason(error), None)
                if written is None
                else await _refusal(link, written, error)
            )
            raise MachineError(what, why=why, fix=fix) from None
        except OSError as error:
            raise MachineError(what, why=error.strerror or str(error)) from None
        await back_off.wait()


def _digest(path: Path) -> tuple[int, str]:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return stream.tell(), digest
