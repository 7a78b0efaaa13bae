"""From `user@host:port`, or a name of `~/.ssh/config`, to how a machine is reached."""

from __future__ import annotations

import getpass
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hudtui.core.errors import InputError
from hudtui.core.paths import typed_path

_ADDRESS = re.compile(
    r"(?:(?P<user>[^@\s]+)@)?(?:\[(?P<six>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:@\[\]/]+))"
    r"(?::(?P<port>\d+))?"
)
_DEEPEST = 8
_FOR_A_SHELL = re.compile(r"[\s'`\"$\\;&<>|(){}!\x00-\x1f\x7f]")
"""Characters that no name of a machine or a user has; a ProxyCommand hands the names to a shell."""


@dataclass(frozen=True)
class SshTarget:
    """Address, login and keys of a machine."""

    user: str
    host: str
    """Name or address; IPv6 without brackets."""
    port: int = 22
    keys: tuple[Path, ...] = ()
    """Private keys to try; the usual ones of `~/.ssh` when empty."""
    jump: tuple[SshTarget, ...] = ()
    """Machines to go through, in order."""
    pin: str | None = None
    """The id under which its host key is stored: the pod's, because addresses are recycled. `name`
    when None."""
    agent: str | None = None
    """Socket of the key agent; None for the agent of the environment, empty for no agent."""
    identities_only: bool = False
    """True to try only those of the agent's keys that `keys` names."""
    proxy_command: str | None = None
    """A command whose input and output are the connection, for the user's shell; `%h` and the like
    are filled in."""

    @property
    def name(self) -> str:
        """`user@host:port`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}:{self.port}"

    @property
    def machine(self) -> str:
        """The id under which the host key is stored."""
        return self.pin or self.name


def parse_target(text: str, *, pin: str | None = None) -> SshTarget:
    """The machine that `text` names.

    `text` is a name of `~/.ssh/config`, or `[user@]host[:port]`; IPv6 addresses with a port in
    brackets. `pin` is the id under which its host key is stored.

    Raises:
        InputError: `text` is not such a name, or the config file cannot be parsed.
    """
    return _resolve(text.strip(), Path.home() / ".ssh" / "config", pin, 0)


def _resolve(text: str, config: Path, pin: str | None, depth: int) -> SshTarget:
    text = text.removeprefix("ssh://")
    user, host, port = _split(text)
    options = _options(config, host, user, port)

    def option(name: str) -> Any:
        return options.get(name)

    jumps = option("ProxyJump")
    jump: tuple[SshTarget, ...] = ()
    if jumps and str(jumps).lower() != "none":
        if depth >= _DEEPEST:
            raise InputError(
                "the ProxyJump entries of the SSH config lead in a circle", why=f"at {host}"
            )
        jump = tuple(
            _resolve(part.strip(), config, None, depth + 1) for part in str(jumps).split(",")
        )
    command = option("ProxyCommand")
    agent = options.get("IdentityAgent", "SSH_AUTH_SOCK")  # None stands for `none`
    agent = "" if agent is None else None if agent == "SSH_AUTH_SOCK" else str(typed_path(agent))
    return SshTarget(
        user=str(option("User") or getpass.getuser()),
        host=str(option("Hostname") or host),
        port=int(option("Port") or 22),
        keys=tuple(
            typed_path(str(key))
            for key in option("IdentityFile") or ()
            if str(key).lower() != "none"
        ),
        jump=jump,
        pin=pin,
        agent=agent,
        identities_only=bool(option("IdentitiesOnly")),
        proxy_command=str(command)
        if command and str(command).lower() != "none" and not jump
        else None,
    )


def _split(text: str) -> tuple[str | None, str, int | None]:
    user, at, rest = text.rpartition("@")
    if rest.count(":") > 1 and not rest.startswith("["):  # an IPv6 address without port
        rest = f"[{rest}]"
    match = _ADDRESS.fullmatch(f"{user}{at}{rest}")
    host = (match["six"] or match["host"]) if match else ""
    words = (host, (match["user"] or "") if match else "")
    if match is None or any(word.startswith("-") or _FOR_A_SHELL.search(word) for word in words):
        raise InputError(
            f"{text!r} names no machine",
            fix="Use a name from ~/.ssh/config or user@host:port; IPv6 as user@[address]:port.",
        )
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port < 65536:
        raise InputError(f"{port} is not a valid port", fix="Ports go from 1 to 65535.")
    return match["user"], host, port


def _options(config: Path, host: str, user: str | None, port: int | None) -> Any:
    from asyncssh.config import ConfigParseError, SSHClientConfig

    try:
        return SSHClientConfig.load(
            None,
            [config] if config.is_file() else [],
            False,
            False,
            False,
            getpass.getuser(),
            () if user is None else user,
            host,
            () if port is None else port,
        )
    except (ConfigParseError, OSError, UnicodeDecodeError) as error:
        raise InputError(
            "the SSH config cannot be parsed", why=str(error), fix=f"Correct {config}."
        ) from None
