"""A machine behind SSH as a host: one connection, shared by everything that is done there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path, PurePosixPath
from types import TracebackType

from hudtui.core.errors import MachineError
from hudtui.core.remote import ssh_files, ssh_run, ssh_transfer, tunnel
from hudtui.core.remote.host import Completed, FileChunk, FileStat, Progress
from hudtui.core.remote.known_hosts import HostKey, HostKeyChanged, KnownHosts
from hudtui.core.remote.ssh_connection import Notify, SshConnection
from hudtui.core.remote.ssh_errors import Disconnected, LoginRefused
from hudtui.core.remote.ssh_keys import AskPassphrase
from hudtui.core.remote.ssh_transfer import Transfer
from hudtui.core.remote.target import SshTarget, parse_target

__all__ = [
    "Disconnected",
    "HostKeyChanged",
    "KnownHosts",
    "LoginRefused",
    "SshHost",
    "SshTarget",
    "Transfer",
    "connect_ssh",
    "parse_target",
]


class SshHost:
    """Commands and files on a machine behind SSH.

    Made by `connect_ssh`. Lost connections come back by themselves. What may be done twice is repeated for as long as there is
    patience; a command is not, once it may have begun.
    """

    def __init__(self, link: SshConnection) -> None:
        self._link = link

    @property
    def name(self) -> str:
        """`user@host:port`."""
        return self._link.target.name

    @property
    def target(self) -> SshTarget:
        """How it is reached."""
        return self._link.target

    @property
    def host_key(self) -> HostKey | None:
        """The key it showed, and whether that was the first contact."""
        return self._link.seen

    @property
    def connected(self) -> bool:
        """There is a connection at the moment."""
        return self._link.live

    @property
    def closed(self) -> bool:
        """It was ended by `close`, for good."""
        return self._link.closed

    @property
    def trouble(self) -> MachineError | None:
        """Why there is none, while there is none."""
        return self._link.trouble

    @property
    def connects(self) -> int:
        """How often the connection was made: 1 for one that was never lost."""
        return self._link.connects

    async def __aenter__(self) -> SshHost:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection. What was started there in tmux or as a daemon goes on."""
        await self._link.close()

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: PurePosixPath | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float | None = None,
        repeat: bool = False,
    ) -> Completed:
        """See `Host.run`. Cancelling ends the command and everything in its process group there.

        Args:
            argv: Program and arguments.
            cwd: Folder to run in.
            env: Added to the environment there. Not for secrets.
            stdin: Sent to its standard input, which is then closed.
            timeout: Seconds after which the command and its children are ended.
            repeat: It may be run again when the connection broke while it ran.

        Raises:
            Disconnected: The connection broke; the error says whether the command had begun.
            MachineError: The program does not exist, or the time ran out.
        """
        return await ssh_run.run_command(self._link, argv, cwd=cwd, env=env, stdin=stdin, timeout=timeout, repeat=repeat)

    async def put(self, content: bytes | Path, path: PurePosixPath | str, *, mode: int = 0o644) -> None:
        """See `Host.put`."""
        await ssh_files.put(self._link, content, path, mode=mode)

    async def get(self, path: PurePosixPath | str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """See `Host.get`."""
        return await ssh_files.get(self._link, path, offset=offset, limit=limit)

    async def facts(self, path: PurePosixPath | str) -> FileStat | None:
        """See `Host.facts`."""
        return await ssh_files.facts(self._link, path)

    def follow(self, path: PurePosixPath | str, *, offset: int = 0) -> AsyncIterator[FileChunk]:
        """See `Host.follow`. Goes on at the same byte after every disconnect, however long the machine was away."""
        from hudtui.core.remote.ssh_follow import follow_remote

        return follow_remote(self._link, path, offset=offset)

    async def upload(
        self, local: Path, remote: PurePosixPath | str, *, mode: int = 0o644, progress: Progress | None = None
    ) -> Transfer:
        """Bring a file of any size there. What is there of an earlier attempt is not sent again; the SHA-256 is compared.

        Args:
            local: The file here.
            remote: Where it goes; it appears there in one step, whole.
            mode: Its mode there.
            progress: Told the bytes that are there and the bytes in all.

        Raises:
            MachineError: It cannot be read or written, arrived damaged, or the machine stayed away for too long.
        """
        return await ssh_transfer.upload(self._link, local, remote, mode=mode, progress=progress)

    async def download(
        self,
        remote: PurePosixPath | str,
        local: Path,
        *,
        mode: int | None = None,
        most: int | None = None,
        progress: Progress | None = None,
    ) -> Transfer:
        """Bring a file of any size here: as many bytes as it has at the beginning, so that a growing log may be fetched too.

        Args:
            remote: The file there.
            local: Where it goes; it appears here in one step, whole.
            mode: Its mode here; the user's default when None.
            most: Bytes, at most: what is beyond is left there.
            progress: Told the bytes that are here and the bytes in all.

        Raises:
            MachineError: It cannot be read or written, arrived damaged, or the machine stayed away for too long.
        """
        return await ssh_transfer.download(self._link, remote, local, mode=mode, most=most, progress=progress)

    def forward(self, local_port: int, remote_host: str, remote_port: int) -> AbstractAsyncContextManager[int]:
        """A port of this machine, on loopback, that leads to `remote_host:remote_port` as seen from there.

        Args:
            local_port: 0 for any; the context gives the number.
            remote_host: Such as `127.0.0.1` for the machine itself.
            remote_port: The port there.

        Raises:
            MachineError: The port here is in use.
        """
        return tunnel.forward(self._link, local_port, remote_host, remote_port)

    def reverse(self, remote_port: int, host: str, port: int) -> AbstractAsyncContextManager[int]:
        """A port of the machine, on its loopback, that leads to `host:port` as seen from here. Opened again after disconnects.

        Args:
            remote_port: 0 for any; the context gives the number, which stays the same.
            host: Such as `127.0.0.1` for this machine.
            port: The port here.

        Raises:
            MachineError: The port there is in use, or the machine does not allow it.
        """
        return tunnel.reverse(self._link, remote_port, host, port)


async def connect_ssh(
    target: SshTarget,
    *,
    known_hosts: KnownHosts,
    ask_passphrase: AskPassphrase | None = None,
    say: Notify | None = None,
    timeout: float = 30.0,
    patience: float = 30.0,
) -> SshHost:
    """Connect with a machine.

    Args:
        target: Which one; `parse_target` makes it.
        known_hosts: The known host keys.
        ask_passphrase: Asks the user for a pass-phrase, only when the login needs it. Without it locked keys are left out.
        say: Told the fingerprint at the first contact.
        timeout: Seconds for one attempt to connect.
        patience: Seconds for which work that can be repeated waits for a machine that was lost.

    Raises:
        Disconnected: It cannot be reached.
        LoginRefused: None of the keys was let in.
        HostKeyChanged: It shows another key than before.
    """
    link = SshConnection(target, known_hosts, ask=ask_passphrase, say=say, timeout=timeout, patience=patience)
    try:
        await link.connection()
    except BaseException:
        await link.close()
        raise
    return SshHost(link)
