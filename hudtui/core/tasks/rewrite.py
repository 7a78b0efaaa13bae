"""Changing where tasks run and what they give away: local servers to remote ones, written-out secrets to variables."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from hudtui.core.platform import Platform
from hudtui.core.tasks.rules import Rewrite
from hudtui.core.tasks.secrets import literal_secrets, without_secrets
from hudtui.core.variables import Lookup

LOCAL = "local"
"""Counted: a server of the task runs on the machine that plays it."""
REMOTE = "remote"
"""Counted: such a server was changed to the platform's remote one."""
SEVERAL = "several-local"
"""Counted: there are several such servers, and one image cannot stand for all of them; left as they are."""
SECRETS = "secrets"
"""Counted: a secret is written out in the task."""
REPLACED = "secrets-replaced"
"""Counted: a variable was put in its place."""


def is_local(server: Mapping[str, Any], platform: Platform) -> bool:
    """Whether a server runs on the machine that plays the task.

    One that is started by a command does, unless the command is `ssh`. One that is reached by URL does if the host, parsed, is
    this machine, unless it is the platform's own address.
    """
    command, url = server.get("command"), server.get("url")
    if isinstance(command, str):
        return PurePath(command.strip()).name not in ("ssh", "ssh.exe")
    if not isinstance(url, str) or platform.owns(url):
        return False
    try:
        parts = urlsplit(url.strip())
        host, own = parts.hostname or "", urlsplit(platform.gateway_url)
        if (host, parts.port) == (own.hostname, own.port):
            return False
    except ValueError:
        return False
    if host in ("localhost", "host.docker.internal") or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def rewriting(
    platform: Platform,
    *,
    image: str | None = None,
    lookup: Lookup | None = None,
    remote: bool = False,
    replace_secrets: bool = False,
) -> Rewrite:
    """The change of every `mcp_config` that a conversion makes; it also counts what stays as it was.

    Args:
        platform: Whose remote servers and key are meant.
        image: What a remote server runs, from the lock file.
        lookup: Settings that may give the platform another address.
        remote: Change a local server to a remote one.
        replace_secrets: Put variables in the place of secrets.
    """

    def rewrite(config: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        noticed: list[str] = []
        made = dict(config)
        local = [name for name, server in made.items() if isinstance(server, Mapping) and is_local(server, platform)]
        if len(local) == 1 and remote and image is not None:
            made = _moved(made, local[0], platform.mcp_config(image, lookup))
            noticed.append(REMOTE)
        elif local:
            noticed.append(LOCAL)
            if len(local) > 1:
                noticed.append(SEVERAL)
        if literal_secrets(made, platform):
            if replace_secrets:
                made = without_secrets(made, platform)
                noticed.append(REPLACED)
            else:
                noticed.append(SECRETS)
        return made, tuple(noticed)

    return rewrite


def _moved(config: dict[str, Any], local: str, remote: dict[str, Any]) -> dict[str, Any]:
    """`config` with the server `local` replaced, in its place; the other servers keep their names."""
    ((name, server),) = remote.items()
    if name in config and name != local:
        name = local
    return {(name if key == local else key): (server if key == local else value) for key, value in config.items()}
