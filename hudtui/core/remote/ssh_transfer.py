"""Large files to and from a machine behind SSH: resumed after a disconnect, verified at the end, never whole in memory."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hudtui.core.errors import MachineError
from hudtui.core.remote import ssh_files
from hudtui.core.remote.host import NOT_A_FILE, Progress
from hudtui.core.remote.ssh_connection import BackOff, SshConnection
from hudtui.core.remote.ssh_errors import Disconnected
from hudtui.core.remote.ssh_run import run_command

BLOCK = 4 * 1024 * 1024
"""Bytes that are on their way at a time, and that are sent again after a disconnect: writes may be lost out of order."""
_HASH_TIME = 600.0
_HASH = 'head -c "$2" -- "$1" | sha256sum'
_PYTHON_HASH = (
    "import hashlib,sys\nh=hashlib.sha256();n=int(sys.argv[2])\n"
    "with open(sys.argv[1],'rb') as f:\n"
    " while n>0:\n"
    "  b=f.read(min(n,1048576))\n"
    "  if not b: break\n"
    "  h.update(b);n-=len(b)\n"
    "print(h.hexdigest())"
)


@dataclass(frozen=True)
class Transfer:
    """A file that was brought over."""

    size: int
    """Bytes."""
    resumed: int
    """Bytes of an earlier attempt, of this call or another, that were not sent again."""
    verified: bool
    """Its SHA-256 was compared; otherwise only its size, because the machine has neither sha256sum nor Python."""

    @property
    def notice(self) -> str | None:
        """What the user should know of it."""
        return None if self.verified else "only the size was compared: the machine has neither sha256sum nor python3"


async def upload(
    link: SshConnection, local: Path, remote: PurePosixPath | str, *, mode: int = 0o644, progress: Progress | None = None
) -> Transfer:
    """See `SshHost.upload`."""
    try:
        size, digest = await asyncio.to_thread(_digest, local)
    except OSError as error:
        raise MachineError(f"{local} cannot be read", why=error.strerror or str(error)) from None

    async def send() -> Transfer:
        import asyncssh

        files = await link.files()
        target = PurePosixPath(await ssh_files.real_path(files, str(remote)))
        await files.makedirs(str(target.parent), exist_ok=True)
        # Named after the content: only the same content is ever resumed.
        part = str(target.parent / f".{target.name[:40]}.{digest[:16]}.part")
        try:
            there = min((await files.stat(part)).size or 0, size)
        except asyncssh.SFTPNoSuchFile:
            there = 0
            await (await files.open(part, "wb", asyncssh.SFTPAttrs(permissions=0o600), encoding=None)).close()
        begun = max(there - BLOCK, 0)
        counter = _Counter(progress, size)
        with local.open("rb") as source:
            async with ssh_files.opened(files, part, "r+b") as stream:
                source.seek(begun)
                at = begun
                counter.at(at)
                while block := await asyncio.to_thread(source.read, BLOCK):
                    await stream.write(block, at)
                    at += len(block)
                    counter.at(at)
                await stream.truncate(size)
                await ssh_files.flush(stream)
        found = await _remote_digest(link, part, size)
        if at != size or (found is not None and found != digest):
            await files.remove(part)
            raise _Differs(begun > 0)
        await files.chmod(part, mode)
        await ssh_files.replace(files, part, str(target))
        return Transfer(size, begun, found is not None)

    return await _persist(link, send, f"{local.name} cannot be written to {remote} on {link.target.name}", remote)


async def download(
    link: SshConnection,
    remote: PurePosixPath | str,
    local: Path,
    *,
    mode: int | None = None,
    most: int | None = None,
    progress: Progress | None = None,
) -> Transfer:
    """See `SshHost.download`."""
    target = Path(os.path.realpath(local))
    part = target.with_name(f".{target.name[:40]}.part")

    async def fetch() -> Transfer:
        import asyncssh

        files = await link.files()
        if not ssh_files.is_regular(await files.stat(str(remote))):
            raise asyncssh.SFTPFailure(NOT_A_FILE)
        async with ssh_files.opened(files, str(remote), "rb") as stream:
            size = (await stream.stat()).size or 0
            size = size if most is None else min(size, most)
            target.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "r+b") as sink:
                begun = sink.seek(0, os.SEEK_END)
                if begun > size:
                    begun = sink.seek(0)
                counter, at = _Counter(progress, size), begun
                counter.at(at)
                while at < size and (block := (await stream.read(min(BLOCK, size - at), at))[: size - at]):
                    await asyncio.to_thread(sink.write, block)
                    at += len(block)
                    counter.at(at)
                sink.truncate(at)
                sink.flush()
                await asyncio.to_thread(os.fsync, sink.fileno())
        found = await _remote_digest(link, str(remote), size)
        _, ours = await asyncio.to_thread(_digest, part)
        if at != size or (found is not None and found != ours):
            part.unlink()
            raise _Differs(begun > 0)
        if mode is not None:
            part.chmod(mode)
        else:
            umask = os.umask(0)
            os.umask(umask)
            part.chmod(0o666 & ~umask)
        os.replace(part, target)
        return Transfer(size, begun, found is not None)

    return await _persist(link, fetch, f"{remote} cannot be brought from {link.target.name}")


class _Differs(Exception):
    """What was brought over is not what was to be brought."""

    def __init__(self, resumed: bool) -> None:
        self.resumed = resumed


@dataclass
class _Counter:
    progress: Progress | None
    size: int

    def at(self, done: int) -> None:
        if self.progress is not None:
            self.progress(done, self.size)


async def _persist(
    link: SshConnection, work: Callable[[], Awaitable[Transfer]], words: str, written: PurePosixPath | str | None = None
) -> Transfer:
    """Do it until it is done. Patience begins anew with every connection: what was brought over stays there."""
    import asyncssh

    loop, back_off = asyncio.get_running_loop(), BackOff()
    until, connects, again = loop.time() + link.patience, link.connects, True
    while True:
        try:
            with link.translated():
                return await work()
        except Disconnected:
            if link.connects > connects:
                connects, until = link.connects, loop.time() + link.patience
                back_off.reset()
            if loop.time() >= until:
                raise
        except _Differs as error:
            if not (error.resumed and again):
                raise MachineError(
                    words,
                    why="what arrived is not what was sent: the file changed meanwhile, or it was damaged on the way",
                    fix="Try again when nothing writes to it.",
                ) from None
            again = False  # an earlier attempt left something else there: once more from the start
            continue
        except asyncssh.SFTPError as error:
            if written is None:
                raise MachineError(words, why=ssh_files.reason(error)) from None
            why, fix = await ssh_files.refusal(link, written, error)
            raise MachineError(words, why=why, fix=fix) from None
        except OSError as error:
            raise MachineError(words, why=error.strerror or str(error)) from None
        await back_off.wait()


def _digest(path: Path) -> tuple[int, str]:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return stream.tell(), digest


async def _remote_digest(link: SshConnection, path: str, size: int) -> str | None:
    """SHA-256 of the first `size` bytes of a file there; None where the machine cannot tell."""
    for argv in (["sh", "-c", _HASH, "sh", path, str(size)], ["python3", "-I", "-S", "-c", _PYTHON_HASH, path, str(size)]):
        with contextlib.suppress(_NotThere):
            return await _ask(link, argv)
    return None


class _NotThere(Exception):
    """The machine has no such program."""


async def _ask(link: SshConnection, argv: list[str]) -> str:
    try:
        done = await run_command(link, argv, timeout=_HASH_TIME, repeat=True)
    except Disconnected:
        raise
    except MachineError:
        raise _NotThere from None
    digest = done.stdout[:64]
    if not done.ok or len(digest) < 64:
        raise _NotThere
    return digest
