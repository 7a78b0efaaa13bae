"""Machines behind SSH as a provider: those that the user lists, those of ~/.ssh/config, or any `user@host[:port]`."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from hudtui.core.compute.hardware import Hardware, inspect
from hudtui.core.compute.owned_hosts import OwnedHost, OwnedHostsProvider
from hudtui.core.compute.values import Address
from hudtui.core.remote.host import Host
from hudtui.core.remote.hosts import open_host
from hudtui.core.remote.target import parse_target

_DEEPEST = 8
_FORGES = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "hf.co", "ssh.dev.azure.com")
"""They are in many SSH configs and give nobody a shell."""


class SshProvider(OwnedHostsProvider):
    """The user's machines behind SSH.

    Args:
        machines: Which are asked for what they have.
        connect: Opens one; by default from the connections of this process.
        patience: Seconds that one may take to answer.
    """

    def __init__(
        self,
        machines: Sequence[OwnedHost],
        *,
        connect: Callable[[str], Awaitable[Host]] = open_host,
        patience: float = 30.0,
    ) -> None:
        async def look(name: str) -> Hardware:
            return await inspect(await connect(name))

        super().__init__("ssh", "your own machines", machines, look, address=_address, patience=patience)


def _address(name: str) -> Address:
    target = parse_target(name)
    return Address(target.user, target.host, target.port)


def config_names(config: Path | None = None) -> tuple[str, ...]:
    """The names of machines in an SSH config and in what it includes, in their order; patterns and code forges are left out.

    Args:
        config: The file; `~/.ssh/config` by default. It need not exist.
    """
    found: dict[str, None] = {}
    for name in _names(config or Path.home() / ".ssh" / "config", 0):
        if not any(mark in name for mark in "*?!") and name.lower() not in _FORGES:
            found.setdefault(name)
    return tuple(found)


def _names(path: Path, depth: int) -> Iterable[str]:
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        key, _, rest = line.strip().replace("=", " ", 1).replace("\t", " ").partition(" ")
        if key.lower() not in ("host", "include"):
            continue
        try:
            words = shlex.split(rest, comments=True)
        except ValueError:
            continue
        if key.lower() == "host":
            yield from words
        elif depth < _DEEPEST:
            for pattern in words:
                for name in sorted(glob.glob(str(Path.home() / ".ssh" / Path(pattern).expanduser()))):
                    yield from _names(Path(name), depth + 1)
