"""The machines of runs, by name: reached when they are first asked for something, over one shared connection each.

A name is `local`, what `ssh` would be given (`user@host[:port]`, a name of `~/.ssh/config`), or `pod:NAME` for a rented machine.
Where that is becomes known only after the plan was made; it is noted here, in the user's own folder, by the name it was ordered
under.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from hudtui.core.errors import InputError, MachineError
from hudtui.core.files import write_atomic
from hudtui.core.paths import app_paths
from hudtui.core.remote.host import Completed, FileChunk, FileStat, Host, Progress
from hudtui.core.remote.local import LocalHost

if TYPE_CHECKING:
    from hudtui.core.remote.ssh import SshHost
    from hudtui.core.remote.ssh_connection import Notify
    from hudtui.core.remote.ssh_keys import AskPassphrase
    from hudtui.core.remote.target import SshTarget

LOCAL = "local"
POD_PREFIX = "pod:"
"""Names of rented machines begin with this."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")


@dataclass
class _Prompts:
    """Who is there to be asked for a pass-phrase, and to be told of new machines. Set once, by the face of the program."""

    ask: AskPassphrase | None = None
    say: Notify | None = None


_person = _Prompts()


def set_prompts(*, ask: AskPassphrase | None = None, say: Notify | None = None) -> None:
    """Tell who can be asked for pass-phrases, and who is told the fingerprints of machines that are new."""
    _person.ask, _person.say = ask, say


class Distant:
    """A machine that is reached when it is first asked for something. The connection is shared by everything in this process.

    Args:
        name: See the module.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    async def reach(self) -> SshHost:
        """The machine itself.

        Raises:
            InputError: It is no name of a machine.
            MachineError: It cannot be reached, or is not known.
        """
        from hudtui.core.remote.connect import open_host

        wanted = await asyncio.to_thread(find_target, self.name)
        return cast("SshHost", await open_host(wanted, ask=_person.ask, say=_person.say))

    async def run(
        self,
        argv: Sequence[str],
        *,
        cwd: PurePosixPath | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        timeout: float | None = None,
    ) -> Completed:
        """See `Host.run`."""
        return await (await self.reach()).run(argv, cwd=cwd, env=env, stdin=stdin, timeout=timeout)

    async def put(self, content: bytes | Path, path: PurePosixPath | str, *, mode: int = 0o644) -> None:
        """See `Host.put`."""
        await (await self.reach()).put(content, path, mode=mode)

    async def get(self, path: PurePosixPath | str, *, offset: int = 0, limit: int | None = None) -> bytes:
        """See `Host.get`."""
        return await (await self.reach()).get(path, offset=offset, limit=limit)

    async def facts(self, path: PurePosixPath | str) -> FileStat | None:
        """See `Host.facts`."""
        return await (await self.reach()).facts(path)

    async def download(
        self, remote: PurePosixPath | str, local: Path, *, most: int | None = None, progress: Progress | None = None
    ) -> object:
        """See `Host.download`."""
        return await (await self.reach()).download(remote, local, most=most, progress=progress)

    async def follow(self, path: PurePosixPath | str, *, offset: int = 0) -> AsyncGenerator[FileChunk, None]:
        """See `Host.follow`."""
        chunks = cast("AsyncGenerator[FileChunk, None]", (await self.reach()).follow(path, offset=offset))
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    @contextlib.asynccontextmanager
    async def forward(self, local_port: int, remote_host: str, remote_port: int) -> AsyncGenerator[int, None]:
        """See `Host.forward`."""
        async with (await self.reach()).forward(local_port, remote_host, remote_port) as here:
            yield here

    def reverse(self, remote_port: int, host: str, port: int) -> _Reverse:
        """See `SshHost.reverse`."""
        return _Reverse(self, remote_port, host, port)


class _Reverse:
    """A reverse tunnel of a machine that may have to be reached first."""

    def __init__(self, machine: Distant, *address: Any) -> None:
        self._machine, self._address = machine, address
        self._inner: AbstractAsyncContextManager[int] | None = None

    async def __aenter__(self) -> int:
        self._inner = (await self._machine.reach()).reverse(*self._address)
        return await self._inner.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        assert self._inner is not None
        await self._inner.__aexit__(*error)


def find_host(name: str) -> Host:
    """The host of that name. Nothing is reached yet, and no name is refused before it is."""
    return LocalHost() if name == LOCAL else Distant(name)


async def ensure_reachable(host: Host, *, within: float) -> None:
    """Make sure that a machine answers, before something is begun that would wait for it.

    Raises:
        MachineError: It does not answer within so many seconds, or not at all.
    """
    if not isinstance(host, Distant):
        return
    try:
        async with asyncio.timeout(within):
            await host.reach()
    except TimeoutError:
        raise MachineError(f"{host.name} did not answer within {within:g} s") from None


# --- rented machines ------------------------------------------------------------------------------------------------------


def pod_host(machine: str) -> str:
    """The host name of a machine that was, or will be, ordered under that name.

    Raises:
        InputError: It is no such name.
    """
    if not _NAME.fullmatch(machine):
        raise InputError(f"{machine!r} is no name for a machine")
    return POD_PREFIX + machine


def save_address(host: str, target: SshTarget) -> None:
    """Keep where a rented machine is, and which of the user's keys it takes.

    Raises:
        MachineError: That cannot be written.
    """
    about = {"user": target.user, "host": target.host, "port": target.port, "pin": target.pin}
    about["keys"] = [str(key) for key in target.keys]
    path = _file(host)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(about, indent=1) + "\n", mode=0o600)
    except OSError as error:
        raise MachineError(f"where {host} is, cannot be kept in {path}", why=error.strerror) from None


def forget_address(host: str) -> None:
    """A rented machine is gone: its address belongs to somebody else from now on."""
    from hudtui.core.remote.known_hosts import KnownHosts

    path = _file(host)
    try:
        pin = json.loads(path.read_text()).get("pin")
    except (OSError, ValueError):
        pin = None
    if pin:
        KnownHosts().forget(str(pin))
    with contextlib.suppress(OSError):  # a folder that cannot be written has none
        path.unlink(missing_ok=True)


def find_target(host: str) -> SshTarget:
    """How a machine is reached. Reads files.

    Raises:
        InputError: It is no name of a machine.
        MachineError: It is a rented one of which nothing is known: not ready yet, gone, or rented from another computer.
    """
    from hudtui.core.remote.target import SshTarget, parse_target

    if not host.startswith(POD_PREFIX):
        return parse_target(host)
    try:
        about = json.loads(_file(host).read_text())
        keys = tuple(Path(key) for key in about["keys"])
        return SshTarget(about["user"], about["host"], int(about["port"]), keys=keys, pin=about["pin"])
    except (OSError, ValueError, KeyError, TypeError):
        why = "it is not ready yet, it is gone, or it was rented from another computer"
        raise MachineError(f"where {host} is, is not known here", why=why) from None


def _file(host: str) -> Path:
    name = host.removeprefix(POD_PREFIX)
    if not _NAME.fullmatch(name):
        raise InputError(f"{host!r} is no name of a machine")
    return app_paths().data / "machines" / f"{name}.json"
