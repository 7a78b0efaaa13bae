"""The connection with one machine that all work there shares.

Dialed when it is needed, and dialed again when it was lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import random
import signal
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeVar

import asyncssh

from hudtui.core.errors import MachineError
from hudtui.core.events import Notice
from hudtui.core.remote.host import (
    NOT_A_FILE,
    AskPassphrase,
    Disconnected,
    LoginRefused,
    Notify,
    Silent,
)
from hudtui.core.remote.known_hosts import HostKey, KnownHosts
from hudtui.core.remote.target import SshTarget
from hudtui.core.text import clean_line

T = TypeVar("T")

KEEP_ALIVE, KEEP_ALIVE_COUNT = 5.0, 3
"""Seconds between signs of life, and how many may be missing before the connection counts as
lost."""
FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0
"""Seconds before the first and between later attempts to connect again."""
_SLOWEST = 50_000
"""Bytes a second that a machine must read or write."""
_COMMANDS = 6
_ALGORITHMS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
_CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes256-ctr",
    "aes128-ctr",
)
"""The fastest first: with AES in the processor, GCM costs the least for long logs and large
files."""
_KEY_FILES = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")
_ATTEMPTS = 3
_NO_SFTP = (
    "Its SSH server needs the SFTP subsystem (`Subsystem sftp internal-sftp` in sshd_config), "
    "and its login shell must print nothing (such as an echo in ~/.bashrc) without a terminal."
)


class NoChannel(MachineError):
    """The machine allows no more channels on this connection."""


class ChannelListener(asyncssh.SSHClientSession[bytes]):
    """Receives what a channel brings."""

    def eof_received(self) -> bool:
        """Keep the other direction open."""
        return True


@contextlib.contextmanager
def opening(connection: asyncssh.SSHClientConnection) -> Iterator[None]:
    """Turn asyncssh's own stumbling into a lost connection.

    When the connection ends between two steps of opening a channel, asyncssh fails an `assert` or
    reads an attribute of None.

    Raises:
        asyncssh.ConnectionLost: The connection ended meanwhile.
    """
    try:
        yield
    except (AssertionError, AttributeError):
        if not connection.is_closed():
            raise
        raise asyncssh.ConnectionLost("it went while something was opened on it") from None


class BackOff:
    """Waits that grow from try to try, each a little different.

    So many clients do not come back at once.
    """

    def __init__(self) -> None:
        self._wait = FIRST_WAIT

    async def wait(self) -> None:
        await asyncio.sleep(self._wait * random.uniform(0.75, 1.25))
        self._wait = min(self._wait * 2, LONGEST_WAIT)

    def reset(self) -> None:
        """Begin with short waits again."""
        self._wait = FIRST_WAIT


class SshConnection:
    """A connection that comes back after it was lost.

    `timeout` is that of one attempt to connect, and of an answer; `patience` the time for which
    repeatable work waits for a lost machine, both in seconds.
    """

    def __init__(
        self,
        target: SshTarget,
        known_hosts: KnownHosts,
        *,
        ask: AskPassphrase | None = None,
        say: Notify | None = None,
        timeout: float = 30.0,
        patience: float = 30.0,
    ) -> None:
        self.target = target
        self.patience = patience
        self.host_key: HostKey | None = None
        """The machine's key, after the first contact."""
        self.connects = 0
        """Number of times that the connection was made: 1 if it was never lost."""
        self.trouble: MachineError | None = None
        """Reason for the missing connection, while there is none."""
        self.closed = False
        """The connection was ended by `close`, for good."""
        self.commands = asyncio.Semaphore(_COMMANDS)
        """Servers allow few channels of a connection (OpenSSH: 10); files, the follower and the
        killing of commands need some."""
        self._known_hosts, self._say, self.timeout = known_hosts, say, timeout
        self._keys = [KeyRing(machine, ask) for machine in (*target.jump, target)]
        self._dialing: asyncio.Task[asyncssh.SSHClientConnection] | None = None
        self._connections: list[asyncssh.SSHClientConnection] = []
        self._proxy: _Proxy | None = None
        self._files_lock = asyncio.Lock()
        self._files: tuple[asyncssh.SSHClientConnection, asyncssh.SFTPClient] | None = None

    @property
    def live(self) -> bool:
        """True while there is a connection, as far as known."""
        return self._current() is not None

    async def reach(self) -> SshConnection:
        """Return this connection itself: what `SshHost` asks for before each operation."""
        return self

    async def connection(self) -> asyncssh.SSHClientConnection:
        """The connection; dialed now if there is none.

        Concurrent callers wait for the same attempt.

        Raises:
            Disconnected: The machine cannot be reached now.
            LoginRefused: The machine rejected every key.
            HostKeyChanged: The machine shows another key than before.
        """
        self._check_open()
        if (current := self._current()) is not None:
            return current
        if self._dialing is None or self._dialing.done():
            self._dialing = asyncio.create_task(self._redial())
            self._dialing.add_done_callback(
                lambda task: task.cancelled() or task.exception()
            )  # even when all have left
        dialing = self._dialing
        try:
            return await asyncio.shield(
                dialing
            )  # a caller that is cancelled does not cancel the attempt of the others
        except asyncio.CancelledError:
            if dialing.cancelled():
                self._check_open()
            raise

    async def files(self) -> asyncssh.SFTPClient:
        """The file service of the connection.

        Raises:
            MachineError: There is no connection, or the machine has no SFTP.
        """
        connection = await self.connection()
        async with self._files_lock:
            if self._files is None or self._files[0] is not connection:
                try:
                    async with asyncio.timeout(self.timeout):
                        with opening(connection):
                            self._files = connection, await connection.start_sftp_client()
                except (asyncssh.ChannelOpenError, asyncssh.SFTPError) as error:
                    if connection.is_closed():
                        raise connection_error(
                            asyncssh.ConnectionLost(str(error)), self.target
                        ) from None
                    raise MachineError(
                        f"{self.target.name} offers no file transfer",
                        why=str(error),
                        fix=_NO_SFTP,
                    ) from None
                except TimeoutError:
                    raise Silent(
                        f"{self.target.name} did not answer within {self.timeout:g} s"
                    ) from None
                except (asyncssh.Error, OSError) as error:
                    raise connection_error(error, self.target) from None
            return self._files[1]

    async def open_channel(
        self, connection: asyncssh.SSHClientConnection, command: str, listener: ChannelListener
    ) -> asyncssh.SSHClientChannel[bytes]:
        """A channel of the connection that runs `command`.

        Raises:
            Disconnected: The connection was lost before.
            NoChannel: The machine allows no more channels, or no commands.
        """
        try:
            with opening(connection):
                channel, _ = await connection.create_session(
                    lambda: listener, command, encoding=None
                )
        except asyncssh.ChannelOpenError as error:
            if connection.is_closed() or (
                error.code == asyncssh.OPEN_CONNECT_FAILED and "closed" in error.reason.lower()
            ):
                raise connection_error(asyncssh.ConnectionLost(error.reason), self.target) from None
            raise NoChannel(
                f"{self.target.name} opened no channel for a command",
                why=error.reason,
                fix="Its SSH server may allow too few at once (MaxSessions in sshd_config).",
            ) from None
        except (asyncssh.Error, OSError) as error:
            raise connection_error(error, self.target) from None
        return channel

    async def answer(self, work: Awaitable[T], size: int = 0) -> T:
        """Wait for the machine's answer about files.

        It may take `timeout` seconds, and the time in which it should move `size` bytes.

        Raises:
            Silent: It did not answer.
        """
        seconds = self.timeout + size / _SLOWEST
        try:
            async with asyncio.timeout(seconds) as limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            self._files = None  # a new file service may answer
            raise Silent(f"{self.target.name} did not answer within {seconds:.0f} s") from None

    async def repeat(self, work: Callable[[], Awaitable[T]], size: int = 0) -> T:
        """Do work that may be done twice.

        After a lost connection it is done again for as long as `patience` lasts.

        `size` is the number of bytes that are read or written.

        Raises:
            Silent: The machine did not answer in time; see `answer`.
            MachineError: The work failed for another reason, or the machine stayed away.
        """
        back_off, loop = BackOff(), asyncio.get_running_loop()
        until: float | None = None
        while True:
            try:
                with self.translated():
                    return await self.answer(work(), size)
            except Silent:
                raise
            except Disconnected:
                until = until or loop.time() + self.patience
                if (
                    self.closed or not self.connects or loop.time() >= until
                ):  # never reached: nothing can come back
                    raise
            await back_off.wait()

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Turn what asyncssh raises about the connection into an error for a user.

        Raises:
            Disconnected: The connection was lost.
            asyncssh.SFTPError: The machine's answer about a file, for the caller to word.
        """
        try:
            yield
        except (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection) as error:
            self._files = None
            raise connection_error(asyncssh.ConnectionLost(error.reason), self.target) from None
        except asyncssh.SFTPError:
            raise
        except OSError as error:
            if self.live and not isinstance(error, ConnectionError):
                raise  # of a file on this machine
            raise connection_error(error, self.target) from None
        except asyncssh.Error as error:
            raise connection_error(error, self.target) from None

    async def close(self) -> None:
        """End the connection, and the connections to the machines on the way."""
        self.closed = True
        if self._dialing is not None:
            self._dialing.cancel()
            await asyncio.gather(self._dialing, return_exceptions=True)
        await self._hang_up()

    def _current(self) -> asyncssh.SSHClientConnection | None:
        whole = len(self._connections) == len(self._keys)
        return self._connections[-1] if whole and not self._connections[-1].is_closed() else None

    def _check_open(self) -> None:
        if self.closed:
            raise MachineError(f"the connection with {self.target.name} was closed") from None

    async def _hang_up(self) -> None:
        ending, self._connections, self._files = self._connections[::-1], [], None
        for connection in ending:
            connection.close()
            with contextlib.suppress(Exception):
                async with asyncio.timeout(2):
                    await connection.wait_closed()
            connection.abort()
        if (proxy := self._proxy) is not None:
            self._proxy = None
            await proxy.end()

    async def _redial(self) -> asyncssh.SSHClientConnection:
        await self._hang_up()
        try:
            tunnel: asyncssh.SSHClientConnection | None = None
            for machine, keys in zip((*self.target.jump, self.target), self._keys, strict=True):
                tunnel = await self._login(machine, keys, tunnel)
                self._connections.append(tunnel)
        except MachineError as error:
            self.trouble = error
            await self._hang_up()
            raise
        self.trouble = None
        self.connects += 1
        return self._connections[-1]

    async def _proxy_error(self, error: Disconnected) -> Disconnected:
        """The error of a connection through a ProxyCommand, with how its program has ended."""
        proxy, self._proxy = self._proxy, None
        ended = await proxy.end() if proxy is not None else ""
        if proxy is None or not ended:
            return error
        why = f"the ProxyCommand `{clean_line(proxy.command, 200)}` ended with {ended}"
        return Disconnected(
            f"{self.target.name} cannot be reached", why=why, fix="Correct it in ~/.ssh/config."
        )

    async def _login(
        self, target: SshTarget, keys: KeyRing, tunnel: asyncssh.SSHClientConnection | None
    ) -> asyncssh.SSHClientConnection:
        while True:
            try:
                return await self._try_login(target, keys, tunnel)
            except LoginRefused as error:
                # Only now: a key that is not needed must not ask for its pass-phrase.
                if not (keys.locked and await keys.unlock()):
                    raise LoginRefused(
                        error.what, why=_describe_tried(keys), fix=error.fix, where=error.where
                    ) from None

    async def _try_login(
        self, target: SshTarget, keys: KeyRing, tunnel: asyncssh.SSHClientConnection | None
    ) -> asyncssh.SSHClientConnection:
        known = await asyncio.to_thread(self._known_hosts.known, target.machine)
        check = _HostKeyCheck(self._known_hosts, target.machine)
        async with keys.offers() as offered:
            if not offered:
                raise LoginRefused(
                    f"there is no key to log in to {target.name} with",
                    why=_describe_tried(keys),
                    fix=_UNLOCK if keys.locked else _MAKE,
                )
            way: dict[str, Any] = {} if tunnel is None else {"tunnel": tunnel}
            try:
                async with asyncio.timeout(self.timeout):
                    if target.proxy_command and tunnel is None:
                        if self._proxy is not None:
                            await self._proxy.end()
                        self._proxy = await _Proxy.start(target.proxy_command)
                        way = {"sock": self._proxy.socket}
                    connection = await asyncssh.connect(
                        target.host,
                        target.port,
                        **way,
                        config=None,
                        username=target.user,
                        client_factory=lambda: check,
                        client_keys=offered,
                        agent_path=None,
                        known_hosts=lambda *_: ([], [], []),
                        server_host_key_algs=_algorithms(known),
                        preferred_auth="publickey",
                        password_auth=False,
                        kbdint_auth=False,
                        gss_auth=False,
                        gss_kex=False,
                        host_based_auth=False,
                        public_key_auth=True,
                        x509_trusted_certs=None,
                        keepalive_interval=KEEP_ALIVE,
                        keepalive_count_max=KEEP_ALIVE_COUNT,
                        encryption_algs=_CIPHERS,
                    )
            except (
                asyncssh.Error,
                asyncssh.KeyImportError,
                OSError,
                TimeoutError,
                ValueError,
            ) as error:
                if check.refused is not None:
                    raise check.refused from None
                problem = connection_error(error, target, keys.tried(), timeout=self.timeout)
                if way.get("sock") is not None and isinstance(problem, Disconnected):
                    problem = await self._proxy_error(problem)
                raise problem from None
        try:
            host_key = check.keep()
        except MachineError:
            connection.abort()
            raise
        if target is self.target:
            self.host_key = host_key
        if host_key.first and self._say is not None:
            text = (
                f"first contact with {target.name}: its host key is {host_key.fingerprint} "
                f"({host_key.algorithm})"
            )
            self._say(Notice("info", text))
        return connection


class _Proxy:
    """The program that a ProxyCommand starts.

    Like ssh, it is the user's shell that reads the command.
    """

    def __init__(
        self,
        command: str,
        process: asyncio.subprocess.Process,
        own: socket.socket,
        errors: IO[bytes],
    ) -> None:
        self.command, self.socket = command, own
        self._process, self._errors = process, errors

    @classmethod
    async def start(cls, command: str) -> _Proxy:
        """Start the program.

        Raises:
            OSError: The shell cannot be started.
        """
        own, its = socket.socketpair()
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`; of a pipe, nobody would read
        line, place = command if command.startswith("exec ") else f"exec {command}", its.fileno()
        try:
            process = await asyncio.create_subprocess_exec(
                *(os.environ.get("SHELL") or "/bin/sh", "-c", line),
                stdin=place,
                stdout=place,
                stderr=errors,
                start_new_session=True,
            )
        except BaseException:
            own.close()
            errors.close()
            raise
        finally:
            its.close()
        return cls(command, process, own, errors)

    async def end(self) -> str:
        """End the program and what it started.

        Returns how it had ended and the end of what it said, if it had ended before.
        """
        with contextlib.suppress(
            TimeoutError
        ):  # it may be about to: the connection is lost before the program is gone
            async with asyncio.timeout(0.2):
                await self._process.wait()
        status = self._process.returncode
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2):
                await self._process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self.socket.close()
        with self._errors:
            self._errors.seek(max(self._errors.seek(0, os.SEEK_END) - 2000, 0))
            message = clean_line(self._errors.read().decode("utf-8", "replace"), 300)
        return "" if status is None else f"status {status}" + (f": {message}" if message else "")


class _HostKeyCheck(asyncssh.SSHClient):
    """Compares the host key of one login with the known one, before anything is sent."""

    def __init__(self, known_hosts: KnownHosts, machine: str) -> None:
        self._known_hosts, self._machine = known_hosts, machine
        self._accepted: tuple[HostKey, asyncssh.SSHKey] | None = None
        self.refused: MachineError | None = None

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        """Accept or refuse the key that the machine shows; called by asyncssh."""
        try:
            self._accepted = self._known_hosts.check(self._machine, key), key
        except MachineError as error:
            self.refused = error
            return False
        return True

    def keep(self) -> HostKey:
        """Store the key, now that the machine has proved to own it."""
        if self._accepted is None:
            raise MachineError(f"{self._machine} showed no host key")
        host_key, key = self._accepted
        if host_key.first:
            self._known_hosts.keep(self._machine, key)
        return host_key


def _algorithms(known: asyncssh.SSHKey | None) -> list[str]:
    """The kind of the known key first.

    A machine has several keys, and only keys of the same kind can be compared.
    """
    if known is None:
        return list(_ALGORITHMS)
    kind = known.get_algorithm()
    first = [
        name
        for name in _ALGORITHMS
        if name == kind or (kind == "ssh-rsa" and name.startswith("rsa-"))
    ]
    return first + [name for name in _ALGORITHMS if name not in first]


# --- the user's keys ------------------------------------------------------------------------------

_UNLOCK = (
    "Add the key to your agent (`ssh-add`), or run this in a terminal, where its pass-phrase can "
    "be asked for."
)
_MAKE = (
    "Make one with `ssh-keygen -t ed25519`, and put its .pub file where the machine's owner wants "
    "it."
)


def _describe_tried(keys: KeyRing) -> str:
    tried = keys.tried()
    return "tried: " + ", ".join(tried) if tried else "there is no key in ~/.ssh and no agent"


class KeyRing:
    """The keys to try at one machine. Unlocked keys stay in memory, never on disk.

    Without `ask` locked keys are left to the agent.
    """

    def __init__(self, target: SshTarget, ask: AskPassphrase | None = None) -> None:
        self._target = target
        self._ask = ask
        self._open: dict[Path, asyncssh.SSHKey] = {}
        self._locked: list[Path] = []
        self._bad: dict[Path, str] = {}
        self._offered: list[str] = []

    @property
    def paths(self) -> tuple[Path, ...]:
        """The key files that count for this machine."""
        folder = Path.home() / ".ssh"
        return self._target.keys or tuple(
            folder / name for name in _KEY_FILES if (folder / name).is_file()
        )

    @property
    def agent(self) -> str:
        """Socket of the key agent; empty without an agent."""
        path = (
            os.environ.get("SSH_AUTH_SOCK", "")
            if self._target.agent is None
            else self._target.agent
        )
        return path if path and os.path.exists(path) else ""

    @property
    def locked(self) -> bool:
        """True while some key waits for its pass-phrase."""
        return bool(self._locked)

    @contextlib.asynccontextmanager
    async def offers(self) -> AsyncIterator[list[asyncssh.SSHKey | asyncssh.SSHKeyPair]]:
        """The keys to offer, without asking the user.

        The agent's that are named, those from files, the agent's others.
        """
        for path in self.paths:
            if path not in self._open and path not in self._bad and path not in self._locked:
                await asyncio.to_thread(self._read, path)
        files: list[asyncssh.SSHKey | asyncssh.SSHKeyPair] = list(self._open.values())
        async with self._agent_keys() as held:
            named = {data for path in self.paths if (data := _public_data(path)) is not None}
            first = [key for key in held if key.public_data in named]
            others = (
                []
                if self._target.identities_only
                else [key for key in held if key.public_data not in named]
            )
            self._offered = [f"{_comment(key)} of the agent" for key in first + others]
            yield [*first, *files, *others]

    @contextlib.asynccontextmanager
    async def _agent_keys(self) -> AsyncIterator[Sequence[asyncssh.SSHKeyPair]]:
        try:
            agent = await asyncssh.connect_agent(self.agent) if self.agent else None
        except OSError:
            agent = None  # the agent has ended and left its socket
        if agent is None:
            yield ()
            return
        try:
            try:
                keys = await agent.get_keys()
            except (ValueError, OSError):
                keys = ()
            yield keys
        finally:
            agent.close()
            await agent.wait_closed()

    async def unlock(self) -> bool:
        """Ask for the pass-phrases of the locked keys, once per key.

        Returns whether a key was unlocked.
        """
        if self._ask is None:
            return False
        unlocked = False
        waiting, self._locked = self._locked, []
        for path in waiting:
            self._bad[path] = "locked, and its pass-phrase was not given"
            for _ in range(_ATTEMPTS):
                words = await self._ask(f"Pass-phrase of {path}: ")
                if not words:
                    break
                try:
                    self._open[path] = await asyncio.to_thread(
                        asyncssh.read_private_key, path, words
                    )
                except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError):
                    self._bad[path] = "locked, and the pass-phrase was wrong"
                    continue
                del self._bad[path]
                unlocked = True
                break
        return unlocked

    def tried(self) -> tuple[str, ...]:
        """Sentence about the keys that were offered, and those that could not be."""
        words = [str(path) for path in self.paths if path in self._open]
        words += [f"{path} ({why})" for path, why in self._bad.items()]
        locked = "locked by a pass-phrase that cannot be asked for here; add it to your agent"
        words += [f"{path} ({locked})" for path in self._locked]
        return (*words, *self._offered)

    def _read(self, path: Path) -> None:
        try:
            self._open[path] = asyncssh.read_private_key(path)
        except FileNotFoundError:
            self._bad[path] = "there is no such file"
        except OSError as error:
            self._bad[path] = error.strerror or "cannot be read"
        except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError) as error:
            if "passphrase" in str(error).lower():
                self._locked.append(path)
            else:
                self._bad[path] = "is not a usable private key"


def _public_data(path: Path) -> bytes | None:
    """Public half of a key, from the file beside it.

    The private half may be locked, or in the agent alone.
    """
    public = path if path.suffix == ".pub" else path.with_name(path.name + ".pub")
    try:
        return asyncssh.read_public_key(public).public_data
    except (OSError, asyncssh.KeyImportError):
        return None


def _comment(key: asyncssh.SSHKeyPair) -> str:
    return clean_line(key.get_comment() or key.get_algorithm(), 80)


# --- errors ---------------------------------------------------------------------------------------


def connection_error(
    error: BaseException,
    target: SshTarget,
    tried: Sequence[str] = (),
    *,
    timeout: float | None = None,
) -> MachineError:
    """The failure of a connection as an error for a user.

    `Disconnected` for failures that may heal by themselves.
    """
    if isinstance(error, MachineError):
        return error
    name = target.name
    if isinstance(error, asyncssh.PermissionDenied | asyncssh.IllegalUserName):
        return LoginRefused(
            f"{name} refused the login",
            why="tried: " + ", ".join(tried) if tried else "there was no key to try",
            fix="Check the user name, and that the public key is in ~/.ssh/authorized_keys there; "
            "name the right key by IdentityFile in ~/.ssh/config.",
        )
    if (
        isinstance(error, ConnectionRefusedError)
        or getattr(error, "errno", None) == errno.ECONNREFUSED
    ):
        return Disconnected(
            f"{name} refused the connection",
            why=f"nothing listens on port {target.port} of {target.host}",
            fix="Check the port; a machine that is starting may need a minute.",
        )
    if isinstance(error, TimeoutError):
        waited = f" within {timeout:g} s" if timeout else ""
        return Disconnected(
            f"{name} did not answer{waited}",
            fix="Check the address, your network, and whether a firewall is in between.",
        )
    if isinstance(error, socket.gaierror):
        return Disconnected(
            f"the address of {name} is not known",
            why=error.strerror,
            fix="Check the spelling, and your network or VPN.",
        )
    if isinstance(error, OSError):
        return Disconnected(
            f"{name} cannot be reached",
            why=error.strerror or str(error),
            fix="Check your network or VPN.",
        )
    why = clean_line(str(error), 300)
    if isinstance(error, asyncssh.KeyExchangeFailed | asyncssh.ProtocolNotSupported):
        return MachineError(f"{name} and this program share no SSH protocol or algorithm", why=why)
    if isinstance(error, asyncssh.Error):
        return Disconnected(f"the connection with {name} was lost", why=why or None)
    return MachineError(f"{name} cannot be used", why=why or type(error).__name__)


# --- files ----------------------------------------------------------------------------------------


def is_regular(attributes: asyncssh.SFTPAttrs) -> bool:
    """True for a regular file, as far as the server says."""
    return attributes.permissions is None or stat.S_ISREG(attributes.permissions)


async def check_regular(files: asyncssh.SFTPClient, path: PurePosixPath | str) -> None:
    """Refuse a folder, device or pipe before it is opened: a pipe would hold the server up.

    Raises:
        asyncssh.SFTPError: The path is not a regular file, or does not exist.
    """
    if not is_regular(await files.stat(str(path))):
        raise asyncssh.SFTPFailure(NOT_A_FILE)


@contextlib.contextmanager
def ignore_broken() -> Iterator[None]:
    """Ignore errors of tidying up over a connection that may be gone."""
    with contextlib.suppress(asyncssh.Error, OSError):
        yield


def sftp_reason(error: Exception) -> str:
    """Message of an SFTP server, safe to show."""
    if isinstance(error, asyncssh.SFTPNoSuchFile):
        return "No such file or directory"
    return clean_line(str(error), 300) or "the machine refused"
