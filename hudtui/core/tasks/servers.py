"""The MCP servers of a task.

Where they run, and keys and tokens that are written out in their configuration.
"""

from __future__ import annotations

import copy
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from hudtui.core.platform import Platform
from hudtui.core.variables import Lookup

Rewrite = Callable[[Mapping[str, Any]], tuple[dict[str, Any], tuple[str, ...]]]
"""Returns a new `mcp_config`, and which of the words below apply to it."""

LOCAL = "local"
"""A server of the task runs on the machine that plays it."""
REMOTE = "remote"
"""Such a server was replaced by the platform's remote one."""
SEVERAL = "several-local"
"""The task has several such servers, and one image cannot replace all of them; they were left as
they are."""
SECRETS = "secrets"
"""A secret is written out in the task."""
REPLACED = "secrets-replaced"
"""A secret was replaced by a variable."""

_SECRET_NAME = re.compile(
    r"(?i)(?:^|[-_])(?:authorization|api[-_]?key|key|token|secret|password|passwd|cookie)$|apikey$"
)
_SCHEME = re.compile(r"(?i)^(bearer|basic|token)\s+")
_ASSIGNMENT = re.compile(r"^(?:(?:--env|-e)=)?([A-Za-z_][A-Za-z0-9_]*)=(.+)$", re.DOTALL)
_SHORTEST = 8
"""Shorter values are more likely placeholders and switches (`x`, `none`, `true`) than secrets."""


def is_local(server: Mapping[str, Any], platform: Platform) -> bool:
    """Return whether a server runs on the machine that plays the task.

    A server with a command does, unless the command is `ssh`. A server with a URL does if the host
    is this machine, unless it is the platform's own address.
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


def config_rewriter(
    platform: Platform,
    *,
    image: str | None = None,
    lookup: Lookup | None = None,
    remote: bool = False,
    replace_secrets: bool = False,
) -> Rewrite:
    """Return the function that changes each `mcp_config` of a conversion.

    It notes what stays local or secret.

    Args:
        platform: Platform of the remote servers and of the key.
        image: Image that a remote server runs, from the lock file.
        lookup: Settings that may give the platform another address.
        remote: Replace a local server by a remote one.
        replace_secrets: Replace secrets by variables.
    """

    def rewrite(config: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        noticed: list[str] = []
        made = dict(config)
        local = [
            name
            for name, server in made.items()
            if isinstance(server, Mapping) and is_local(server, platform)
        ]
        if len(local) == 1 and remote and image is not None:
            made = _move(made, local[0], platform.mcp_config(image, lookup))
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


def _move(config: dict[str, Any], local: str, remote: dict[str, Any]) -> dict[str, Any]:
    """Replace the server `local` in its place; the other servers keep their names."""
    ((name, server),) = remote.items()
    if name in config and name != local:
        name = local
    return {
        (name if key == local else key): (server if key == local else value)
        for key, value in config.items()
    }


def masked(secret: str) -> str:
    """Return a secret for display.

    Its last four characters if that leaves most of it hidden, else none.
    """
    return f"…{secret[-4:]}" if len(secret) >= 16 else "…"


def literal_secrets(config: Mapping[str, Any], platform: Platform) -> list[tuple[str, str]]:
    """Return the dotted path of each literal secret, and what to write instead.

    The second is a sentence.
    """
    return [
        (
            f"mcp_config.{'.'.join(map(str, path))}",
            f"a secret ({masked(secret)}) is written out here; write {offer} instead",
        )
        for path, secret, offer, _ in _find(config, platform)
    ]


def without_secrets(config: Mapping[str, Any], platform: Platform) -> dict[str, Any]:
    """Return a copy of `config` with a variable in the place of each literal secret."""
    changed: dict[str, Any] = copy.deepcopy(dict(config))
    for path, _, _, replacement in _find(config, platform):
        parent: Any = changed
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = replacement
    return changed


def _find(
    config: Mapping[str, Any], platform: Platform
) -> Iterator[tuple[tuple[str | int, ...], str, str, str]]:
    """Yield the path and text of each secret, its variable, and the value with that.

    The variable is the one offered for it; the value is whole.
    """
    for name, server in config.items():
        if not isinstance(server, Mapping):
            continue
        headers, env, args = server.get("headers"), server.get("env"), server.get("args")
        yield from (((name, "url"), *found) for found in _in_address(server.get("url"), name))
        own = _variable(name) + "_API_KEY"
        if name == platform.name or platform.owns(str(server.get("url", ""))):
            own = platform.key_variable
        if isinstance(headers, Mapping):
            for header, value in headers.items():
                secret = _literal(value) if _SECRET_NAME.search(header) else None
                if secret is not None:
                    offer = (
                        f"${{{own if header.lower() == 'authorization' else _variable(header)}}}"
                    )
                    yield (name, "headers", header), secret, offer, value.replace(secret, offer)
        if isinstance(env, Mapping):
            for variable, value in env.items():
                secret = _literal(value) if _SECRET_NAME.search(variable) else None
                if secret is not None:
                    yield (
                        (name, "env", variable),
                        secret,
                        f"${{{variable}}}",
                        value.replace(secret, f"${{{variable}}}"),
                    )
        if isinstance(args, list):
            for number, value in enumerate(args):
                match = _ASSIGNMENT.match(value) if isinstance(value, str) else None
                if (
                    match
                    and _SECRET_NAME.search(match[1])
                    and (secret := _literal(match[2])) is not None
                ):
                    offer = f"${{{match[1]}}}"
                    yield (name, "args", number), secret, offer, value[: match.start(2)] + offer


def _in_address(url: Any, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield the first password or key in an address, its variable, and the new address.

    The variable is the one offered for it; the new address holds it.
    """
    if not isinstance(url, str) or "$" in url:
        return
    match = re.search(r"//[^/@:?#]*:([^/@?#]+)@", url)
    if match is not None:
        offer = f"${{{_variable(name)}_PASSWORD}}"
    else:
        match = next(
            (m for m in re.finditer(r"[?&]([\w.-]+)=([^&#]+)", url) if _SECRET_NAME.search(m[1])),
            None,
        )
        if match is None or len(match[2]) < _SHORTEST:
            return
        offer = f"${{{_variable(match[1])}}}"
    start, end = match.span(match.lastindex or 0)
    yield url[start:end], offer, url[:start] + offer + url[end:]


def _literal(value: Any) -> str | None:
    """Return the secret in a header or variable.

    None if the value is a reference, empty, or too short for a secret.
    """
    if not isinstance(value, str) or "$" in value:
        return None
    secret = _SCHEME.sub("", value.strip(), count=1)
    return secret if len(secret) >= _SHORTEST else None


def _variable(name: str) -> str:
    return (
        re.sub(r"\W+", "_", name.removeprefix("X-").removeprefix("x-"), flags=re.ASCII)
        .strip("_")
        .upper()
        or "SERVER"
    )
