"""From the name of a machine to the machine.

One shared connection for each, made when it is first needed. A name is `local`, what `ssh` would be
given (`user@host[:port]`, a name of `~/.ssh/config`), or `pod:NAME` for a rented machine, whose
address becomes known only after the plan was made: it is stored here, in the user's own folder.
The further machines of a cluster are `pod:NAME.1`, `pod:NAME.2`, ...
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import weakref
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.core.errors import InputError, MachineError
from hudtui.core.files import write_atomic
from hudtui.core.paths import app_paths, private_folder
from hudtui.core.remote.host import LOCAL, AskPassphrase, Disconnected, Host, Notify, Silent
from hudtui.core.remote.known_hosts import KnownHosts
from hudtui.core.remote.local import LocalHost
from hudtui.core.remote.target import SshTarget, parse_target

if TYPE_CHECKING:
    from hudtui.core.remote.ssh_connection import SshConnection

POD_PREFIX = "pod:"
"""Names of rented machines begin with this."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
_NODE = re.compile(_NAME.pattern + r"(\.[1-9]\d{0,2})?")


@dataclass
class _Prompts:
    """Callbacks that ask for pass-phrases and announce new machines.

    Set once, by the TUI or a command.
    """

    ask: AskPassphrase | None = None
    say: Notify | None = None


_prompts = _Prompts()


def set_prompts(*, ask: AskPassphrase | None = None, say: Notify | None = None) -> None:
    """Set how the user is asked for pass-phrases and learns the fingerprints of new machines."""
    _prompts.ask, _prompts.say = ask, say


def find_host(name: str) -> Host:
    """The host of that name.

    Nothing is reached yet, and a wrong name is only refused by the first operation.
    """
    if name == LOCAL:
        return LocalHost()
    from hudtui.core.remote.ssh import SshHost  # late: asyncssh takes a while to import

    return SshHost(name, partial(_reach, name))


async def _reach(name: str) -> SshConnection:
    return await _pool().connection(await asyncio.to_thread(find_target, name))


_silences: weakref.WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[str, tuple[float, Disconnected]]
] = weakref.WeakKeyDictionary()
_NOT_AGAIN = 15.0
"""Seconds for which looks at a machine that has not answered end at once."""


@contextlib.asynccontextmanager
async def answering(name: str, *, within: float | None) -> AsyncIterator[None]:
    """For a look at a machine.

    Whatever is asked inside must be answered within `within` seconds; None for any time. A machine
    that does not answer is not asked by other looks for some seconds, so that a command waits for
    it once.

    Raises:
        Silent: The time ran out.
        Disconnected: The machine did not answer some seconds ago.
    """
    require_answer(name)
    try:
        async with asyncio.timeout(within) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise _remember(name, Silent(f"{name} did not answer within {within:g} s")) from None
    except Disconnected as error:
        _remember(name, error)
        raise


def require_answer(name: str) -> None:
    """Check that a machine has not been found to be silent some seconds ago.

    Raises:
        Disconnected: It was.
    """
    loop = asyncio.get_running_loop()
    since, error = _silences.get(loop, {}).get(name, (0.0, None))
    if error is not None and loop.time() < since + _NOT_AGAIN:
        raise error


def _remember(name: str, error: Disconnected) -> Disconnected:
    loop = asyncio.get_running_loop()
    if name != LOCAL:
        _silences.setdefault(loop, {})[name] = loop.time(), error
    return error


async def ensure_reachable(host: Host, *, within: float) -> None:
    """Make sure that a machine answers, before work begins that would wait for it.

    Raises:
        MachineError: The machine does not answer within `within` seconds, or refuses.
    """
    if isinstance(host, LocalHost):
        return
    async with answering(host.name, within=within):
        await host.stat(".")


# --- connections ----------------------------------------------------------------------------------


class HostPool:
    """The connections in use: one for each machine, whatever the user calls it."""

    def __init__(
        self,
        known_hosts: KnownHosts,
        *,
        ask: AskPassphrase | None = None,
        say: Notify | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._known_hosts, self._ask, self._say, self._timeout = known_hosts, ask, say, timeout
        self._connections: dict[tuple[str, str], SshConnection] = {}

    async def open(self, name: str | SshTarget) -> Host:
        """Connect with the host called `name`.

        `local`, a name of `~/.ssh/config`, or `user@host[:port]`.

        Raises:
            InputError: `name` is not the name of a machine.
            MachineError: The machine cannot be reached, or rejected every key; the next call tries
                again.
        """
        if name == LOCAL:
            return LocalHost()
        from hudtui.core.remote.ssh import SshHost

        target = await asyncio.to_thread(parse_target, name) if isinstance(name, str) else name
        return SshHost(target.name, (await self.connection(target)).reach)

    async def connection(self, target: SshTarget) -> SshConnection:
        """Return the shared connection with a machine.

        A lost connection is returned as it is, and comes back when it is used.

        Raises:
            MachineError: The machine was never reached, and cannot be reached now.
        """
        from hudtui.core.remote.ssh_connection import SshConnection

        key = (target.name, target.machine)
        link = self._connections.get(key)
        if link is None or link.closed or (not link.connects and link.trouble is not None):
            link = SshConnection(
                target, self._known_hosts, ask=self._ask, say=self._say, timeout=self._timeout
            )
            self._connections[key] = link
        if not link.connects:
            await link.connection()
        return link

    async def aclose(self) -> None:
        links, self._connections = list(self._connections.values()), {}
        await asyncio.gather(*(link.close() for link in links))


_pools: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, HostPool] = weakref.WeakKeyDictionary()


def _pool() -> HostPool:
    loop = asyncio.get_running_loop()
    if loop not in _pools:
        _pools[loop] = HostPool(KnownHosts(), ask=_prompts.ask, say=_prompts.say)
    return _pools[loop]


async def open_host(name: str | SshTarget) -> Host:
    """Connect with the host called `name`, from the pool of this process.

    `name` is `local`, a name of `~/.ssh/config`, `user@host[:port]`, or a target (a pod's, with its
    id as `pin`).

    Raises:
        InputError: `name` is not the name of a machine.
        MachineError: The machine cannot be reached, or rejected every key.
    """
    return await _pool().open(name)


async def close_hosts() -> None:
    """End the connections of this process's pool: before its event loop ends."""
    pool = _pools.pop(asyncio.get_running_loop(), None)
    if pool is not None:
        await pool.aclose()


# --- rented machines ------------------------------------------------------------------------------


def pod_host(machine: str, node: int = 0) -> str:
    """The host name of a machine that was, or will be, rented under the name `machine`.

    `node` is its number in a cluster.

    Raises:
        InputError: `machine` is not a valid name.
    """
    if not _NAME.fullmatch(machine):
        raise InputError(f"{machine!r} is not a valid name for a machine")
    return f"{POD_PREFIX}{machine}.{node}" if node else POD_PREFIX + machine


def pod_of(host: str) -> str | None:
    """The name that a rented machine was ordered under; None for other machines."""
    return host[len(POD_PREFIX) :].partition(".")[0] if host.startswith(POD_PREFIX) else None


def save_address(host: str, target: SshTarget) -> None:
    """Store the address of a rented machine, and which of the user's keys it takes.

    Raises:
        MachineError: The file cannot be written.
    """
    about = {"user": target.user, "host": target.host, "port": target.port, "pin": target.pin}
    about["keys"] = [str(key) for key in target.keys]
    path = _file(host)
    try:
        private_folder(path.parent)
        write_atomic(path, json.dumps(about, indent=1) + "\n", mode=0o600)
    except OSError as error:
        raise MachineError(
            f"the address of {host} cannot be stored in {path}", why=error.strerror
        ) from None


def forget_address(host: str) -> None:
    """Forget the address and the host key of a rented machine that has ended.

    The address may be another machine's now.
    """
    path = _file(host)
    try:
        pin = json.loads(path.read_text()).get("pin")
    except (OSError, ValueError):
        pin = None
    if pin:
        KnownHosts().forget(str(pin))
    with contextlib.suppress(OSError):  # a folder that cannot be written holds no address
        path.unlink(missing_ok=True)


def find_target(host: str) -> SshTarget:
    """Address and keys of a machine. Reads files.

    Raises:
        InputError: `host` is not the name of a machine.
        MachineError: It is a rented machine without a known address: not ready yet, gone, or rented
            from another computer.
    """
    if not host.startswith(POD_PREFIX):
        return parse_target(host)
    try:
        about = json.loads(_file(host).read_text())
        keys = tuple(Path(key) for key in about["keys"])
        return SshTarget(
            about["user"], about["host"], int(about["port"]), keys=keys, pin=about["pin"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        why = "it is not ready yet, it is gone, or it was rented from another computer"
        raise MachineError(f"the address of {host} is not known here", why=why) from None


def _file(host: str) -> Path:
    name = host.removeprefix(POD_PREFIX)
    if not _NODE.fullmatch(name):
        raise InputError(f"{host!r} is not the name of a machine")
    return app_paths().data / "machines" / f"{name}.json"
