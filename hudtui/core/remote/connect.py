"""From the name of a host to the host: one shared connection for each machine."""

from __future__ import annotations

import asyncio
import weakref
from types import TracebackType
from typing import TYPE_CHECKING

from hudtui.core.remote.host import Host
from hudtui.core.remote.known_hosts import KnownHosts
from hudtui.core.remote.local import LocalHost
from hudtui.core.remote.ssh_connection import Notify
from hudtui.core.remote.ssh_keys import AskPassphrase
from hudtui.core.remote.target import SshTarget

if TYPE_CHECKING:
    from hudtui.core.remote.ssh import SshHost


class HostPool:
    """The hosts in use. Asking twice for the same machine gives the same connection.

    Args:
        known_hosts: The known host keys.
        ask: Asks the user for pass-phrases.
        say: Told the fingerprint of machines that are new.
        timeout: Seconds for one attempt to connect.
    """

    def __init__(
        self, known_hosts: KnownHosts, *, ask: AskPassphrase | None = None, say: Notify | None = None, timeout: float = 30.0
    ) -> None:
        self._pins, self._ask, self._say, self._timeout = known_hosts, ask, say, timeout
        self._hosts: dict[tuple[str, str], asyncio.Task[SshHost]] = {}

    async def __aenter__(self) -> HostPool:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def open(self, name: str | SshTarget) -> Host:
        """The host called `name`: `local`, a name of `~/.ssh/config`, or `user@host[:port]`.

        Raises:
            InputError: It is no such name.
            MachineError: It cannot be reached, or let nobody in; the next call tries again.
        """
        if name == "local":
            return LocalHost()
        if isinstance(name, str):
            from hudtui.core.remote.target import parse_target

            target = await asyncio.to_thread(parse_target, name)
        else:
            target = name
        machine = (target.name, target.machine)  # whatever the user called it
        task = self._hosts.get(machine)
        if task is None or _useless(task):
            task = self._hosts[machine] = asyncio.create_task(self._connect(target))
            task.add_done_callback(_useless)  # a failure that nobody waits for any more is no news
        return await asyncio.shield(task)  # others may wait for the same connection

    async def close(self) -> None:
        """End all connections."""
        tasks, self._hosts = list(self._hosts.values()), {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(task.result().close() for task in tasks if not _useless(task)))

    async def _connect(self, target: SshTarget) -> SshHost:
        from hudtui.core.remote.ssh import connect_ssh

        return await connect_ssh(target, known_hosts=self._pins, ask_passphrase=self._ask, say=self._say, timeout=self._timeout)


def _useless(task: asyncio.Task[SshHost]) -> bool:
    """It ended without a host, or with one that was closed."""
    return task.done() and (task.cancelled() or task.exception() is not None or task.result().closed)


_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, HostPool] = weakref.WeakKeyDictionary()


async def open_host(
    name: str | SshTarget, *, known_hosts: KnownHosts | None = None, ask: AskPassphrase | None = None, say: Notify | None = None
) -> Host:
    """The host called `name`, from the pool of this process.

    Args:
        name: `local`, a name of `~/.ssh/config`, `user@host[:port]`, or a target (a pod's, with its id as `pin`).
        known_hosts: The known host keys; the user's own by default. Counts for the first call of a process.
        ask: Asks the user for pass-phrases. Counts for the first call.
        say: Told the fingerprint of machines that are new. Counts for the first call.

    Raises:
        InputError: It is no such name.
        MachineError: It cannot be reached, or let nobody in.
    """
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None:
        pool = _pools[loop] = HostPool(known_hosts or KnownHosts(), ask=ask, say=say)
    return await pool.open(name)


async def close_hosts() -> None:
    """End the connections of this process's pool: before its event loop ends."""
    pool = _pools.pop(asyncio.get_running_loop(), None)
    if pool is not None:
        await pool.close()
