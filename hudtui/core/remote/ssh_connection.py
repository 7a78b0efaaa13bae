"""The one connection with a machine that everything shares: made when needed, made again when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from hudtui.core.errors import MachineError
from hudtui.core.events import Notice
from hudtui.core.remote.known_hosts import HostKey, KnownHosts
from hudtui.core.remote.ssh_errors import Disconnected, LoginRefused, connection_error
from hudtui.core.remote.ssh_keys import AskPassphrase, KeyRing
from hudtui.core.remote.target import SshTarget

if TYPE_CHECKING:
    import asyncssh

    from hudtui.core.remote.ssh_reader import Reader

T = TypeVar("T")
Notify = Callable[[Notice], None]
"""Takes what the user should read, such as the fingerprint of a new machine."""

KEEP_ALIVE, KEEP_ALIVE_COUNT = 5.0, 3
"""Seconds between signs of life, and how many may be missing before the connection counts as lost."""
FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0
"""Seconds before the first and between later attempts to connect again."""
_COMMANDS = 6
_ALGORITHMS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)


@contextlib.contextmanager
def whole(connection: asyncssh.SSHClientConnection) -> Iterator[None]:
    """For opening something on a connection: one that goes between two steps of the library makes it stumble over itself.

    Raises:
        asyncssh.ConnectionLost: That happened.
    """
    import asyncssh

    try:
        yield
    except (AssertionError, AttributeError):
        if not connection.is_closed():
            raise
        raise asyncssh.ConnectionLost("it went while something was opened on it") from None


class BackOff:
    """Waits that grow from try to try, a little different each time so that many clients do not come back at once."""

    def __init__(self) -> None:
        self._wait = FIRST_WAIT

    async def wait(self) -> None:
        """Sleep for the next while."""
        await asyncio.sleep(self._wait * random.uniform(0.75, 1.25))
        self._wait = min(self._wait * 2, LONGEST_WAIT)

    def reset(self) -> None:
        """Something worked: begin with short waits again."""
        self._wait = FIRST_WAIT


class SshConnection:
    """A connection that comes back.

    Args:
        target: The machine.
        pins: The known host keys.
        ask: Asks for pass-phrases.
        say: Told of new host keys.
        timeout: Seconds for one attempt to connect.
        patience: Seconds for which work that can be repeated waits for a lost machine.
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
        self.seen: HostKey | None = None
        """The host key, after the first contact."""
        self.connects = 0
        """How often the connection was made."""
        self.trouble: MachineError | None = None
        """Why there is no connection, while there is none."""
        self.commands = asyncio.Semaphore(_COMMANDS)
        """Servers allow few channels of a connection (OpenSSH: 10); files, the reader and the ending of commands need some."""
        self.reader: Reader | None = None
        """The program that follows files there, while it runs."""
        self.reader_lock = asyncio.Lock()
        self._pins, self._ask, self._say, self._timeout = known_hosts, ask, say, timeout
        self._keys = KeyRing(target, ask)
        self._hop_keys = [KeyRing(hop, ask) for hop in target.jump]
        self._lock = asyncio.Lock()
        self._files_lock = asyncio.Lock()
        self._connection: asyncssh.SSHClientConnection | None = None
        self._files: asyncssh.SFTPClient | None = None
        self._before: list[asyncssh.SSHClientConnection] = []
        self._dialing: asyncio.Task[asyncssh.SSHClientConnection] | None = None
        self._closed = False

    @property
    def live(self) -> bool:
        """There is a connection, as far as anybody knows."""
        return self._connection is not None and not self._connection.is_closed()

    @property
    def closed(self) -> bool:
        """It was ended by its user."""
        return self._closed

    async def connection(self) -> asyncssh.SSHClientConnection:
        """The connection; made now when there is none. One attempt.

        Raises:
            Disconnected: The machine cannot be reached now.
            LoginRefused: None of the keys was let in.
            HostKeyChanged: It shows another key than before.
        """
        async with self._lock:
            if self._closed:
                raise MachineError(f"the connection with {self.target.name} was closed")
            if self._connection is not None and not self._connection.is_closed():
                return self._connection
            await self._drop()
            self._dialing = asyncio.create_task(self._dial())
            try:
                self._connection = await self._dialing
            except MachineError as error:
                self.trouble = error
                raise
            except asyncio.CancelledError:
                if self._closed:
                    raise MachineError(f"the connection with {self.target.name} was closed") from None
                raise
            self.trouble = None
            self.connects += 1
            return self._connection

    async def files(self) -> asyncssh.SFTPClient:
        """The file service of the connection.

        Raises:
            MachineError: There is no connection, or the machine has no SFTP.
        """
        import asyncssh

        connection = await self.connection()
        async with self._files_lock:
            if self._files is None or connection is not self._connection:
                try:
                    async with asyncio.timeout(self._timeout):
                        with whole(connection):
                            self._files = await connection.start_sftp_client()
                except (asyncssh.ChannelOpenError, asyncssh.SFTPError) as error:
                    if connection.is_closed():
                        raise connection_error(asyncssh.ConnectionLost(str(error)), self.target) from None
                    raise MachineError(
                        f"{self.target.name} offers no file transfer",
                        why=str(error),
                        fix="Its SSH server needs the SFTP subsystem (`Subsystem sftp internal-sftp` in sshd_config).",
                    ) from None
                except (asyncssh.Error, OSError, TimeoutError) as error:
                    raise connection_error(error, self.target, timeout=self._timeout) from None
            return self._files

    async def repeat(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something that may be done twice; again after the connection was lost, as long as there is patience.

        Raises:
            MachineError: It failed for another reason, or the machine stayed away.
        """
        back_off, loop = BackOff(), asyncio.get_running_loop()
        until: float | None = None
        while True:
            try:
                with self.translated():
                    return await work()
            except Disconnected:
                until = until or loop.time() + self.patience
                if self._closed or not self.connects or loop.time() >= until:  # never reached: nothing can come back
                    raise
            await back_off.wait()

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """What the library raises about the connection becomes an error for a user.

        Raises:
            Disconnected: The connection was lost.
            asyncssh.SFTPError: The machine's answer about a file, for the caller to word.
        """
        import asyncssh

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
        """End the connection, and those it goes through."""
        self._closed = True
        if self._dialing is not None:
            self._dialing.cancel()
        async with self._lock:
            await self._drop()

    async def _drop(self) -> None:
        self._files = None
        gone = [connection for connection in (self._connection, *reversed(self._before)) if connection is not None]
        self._connection, self._before = None, []
        for connection in gone:
            connection.close()
            with contextlib.suppress(Exception):
                async with asyncio.timeout(2):
                    await connection.wait_closed()
            connection.abort()

    async def _dial(self) -> asyncssh.SSHClientConnection:
        tunnel: asyncssh.SSHClientConnection | None = None
        for hop, ring in zip(self.target.jump, self._hop_keys, strict=True):
            tunnel = await self._login(hop, ring, tunnel)
            self._before.append(tunnel)
        return await self._login(self.target, self._keys, tunnel)

    async def _login(
        self, target: SshTarget, ring: KeyRing, tunnel: asyncssh.SSHClientConnection | None
    ) -> asyncssh.SSHClientConnection:
        while True:
            try:
                return await self._try(target, ring, tunnel)
            except LoginRefused as error:
                # Only now: a key that is not needed must not ask for its pass-phrase.
                if not (ring.locked and await ring.unlock()):
                    raise LoginRefused(error.what, why=explain_tried(ring), fix=error.fix, where=error.where) from None

    async def _try(
        self, target: SshTarget, ring: KeyRing, tunnel: asyncssh.SSHClientConnection | None
    ) -> asyncssh.SSHClientConnection:
        import asyncssh

        known = await asyncio.to_thread(self._pins.known, target.machine)
        guard = _HostKeyCheck(self._pins, target.machine)
        async with ring.offers() as keys:
            if not keys:
                raise LoginRefused(
                    f"there is no key to log in to {target.name} with",
                    why=explain_tried(ring),
                    fix=_UNLOCK if ring.locked else _MAKE,
                )
            try:
                async with asyncio.timeout(self._timeout):
                    connection = await asyncssh.connect(
                        target.host,
                        target.port,
                        tunnel=tunnel or (),
                        proxy_command=target.proxy_command or (),
                        config=None,
                        username=target.user,
                        client_factory=guard.client,
                        client_keys=keys,
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
            except (asyncssh.Error, asyncssh.KeyImportError, OSError, TimeoutError, ValueError) as error:
                if guard.refused is not None:
                    raise guard.refused from None
                raise connection_error(error, target, ring.tried(), timeout=self._timeout) from None
        try:
            seen = guard.keep()
        except MachineError:
            connection.abort()
            raise
        if target is self.target:
            self.seen = seen
        if seen.first and self._say is not None:
            self._say(Notice("info", f"first contact with {target.name}: its host key is {seen.fingerprint} ({seen.algorithm})"))
        return connection


class _HostKeyCheck:
    """Looks at the host key of one login."""

    def __init__(self, known_hosts: KnownHosts, machine: str) -> None:
        self._pins, self._machine = known_hosts, machine
        self._accepted: tuple[HostKey, asyncssh.SSHKey] | None = None
        self.refused: MachineError | None = None

    def client(self) -> asyncssh.SSHClient:
        """What asyncssh asks about the key, before anything is sent."""
        import asyncssh

        guard = self

        class Client(asyncssh.SSHClient):
            def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
                return guard._accept(key)

        return Client()

    def keep(self) -> HostKey:
        """Keep the key, now that the machine has proved to own it."""
        if self._accepted is None:
            raise MachineError(f"{self._machine} showed no host key")
        seen, key = self._accepted
        if seen.first:
            self._pins.keep(self._machine, key)
        return seen

    def _accept(self, key: asyncssh.SSHKey) -> bool:
        try:
            self._accepted = self._pins.check(self._machine, key), key
        except MachineError as error:
            self.refused = error
            return False
        return True


_UNLOCK = "Add the key to your agent (`ssh-add`), or run this in a terminal, where its pass-phrase can be asked for."
_MAKE = "Make one with `ssh-keygen -t ed25519`, and put its .pub file where the machine's owner wants it."
_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes256-ctr", "aes128-ctr")
"""The quickest first: with AES in the processor GCM takes the least of it for long logs and files."""


def explain_tried(ring: KeyRing) -> str:
    """Which keys were tried, in one line."""
    tried = ring.tried()
    return "tried: " + ", ".join(tried) if tried else "there is no key in ~/.ssh and no agent"


def _algorithms(known: asyncssh.SSHKey | None) -> list[str]:
    """The kind of the known key first: a machine has several keys, and only the same kind can be compared."""
    if known is None:
        return list(_ALGORITHMS)
    kind = known.get_algorithm()
    first = [name for name in _ALGORITHMS if name == kind or (kind == "ssh-rsa" and name.startswith("rsa-"))]
    return first + [name for name in _ALGORITHMS if name not in first]
