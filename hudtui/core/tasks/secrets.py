"""Keys and tokens written out in a task's `mcp_config`: finding them, and the variable that should stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudtui.core.platform import Platform

_SECRET_NAME = re.compile(r"(?i)(?:^|[-_])(?:authorization|api[-_]?key|key|token|secret|password|passwd|cookie)$|apikey$")
_SCHEME = re.compile(r"(?i)^(bearer|basic|token)\s+")
_ASSIGNMENT = re.compile(r"^(?:(?:--env|-e)=)?([A-Za-z_][A-Za-z0-9_]*)=(.+)$", re.DOTALL)
_SHORTEST = 8
"""Shorter values are more likely placeholders and switches (`x`, `none`, `true`) than secrets."""


def masked(secret: str) -> str:
    """A secret as it may be shown: its last four characters, and only where that leaves most of it hidden."""
    return f"…{secret[-4:]}" if len(secret) >= 16 else "…"


def literal_secrets(config: Mapping[str, Any], platform: Platform) -> list[tuple[str, str]]:
    """Every literal secret: dotted place and a sentence that says what to write instead."""
    return [
        (f"mcp_config.{'.'.join(map(str, path))}", f"a secret ({masked(secret)}) is written out here; write {offer} instead")
        for path, secret, offer, _ in _find(config, platform)
    ]


def without_secrets(config: Mapping[str, Any], platform: Platform) -> dict[str, Any]:
    """A copy of `config` with a variable in the place of every literal secret."""
    import copy

    changed: dict[str, Any] = copy.deepcopy(dict(config))
    for path, _, _, replacement in _find(config, platform):
        parent: Any = changed
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = replacement
    return changed


def _find(config: Mapping[str, Any], platform: Platform) -> Iterator[tuple[tuple[str | int, ...], str, str, str]]:
    """Path, secret, the variable offered for it, and the complete value with that variable."""
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
                    offer = f"${{{own if header.lower() == 'authorization' else _variable(header)}}}"
                    yield (name, "headers", header), secret, offer, value.replace(secret, offer)
        if isinstance(env, Mapping):
            for variable, value in env.items():
                secret = _literal(value) if _SECRET_NAME.search(variable) else None
                if secret is not None:
                    yield (name, "env", variable), secret, f"${{{variable}}}", value.replace(secret, f"${{{variable}}}")
        if isinstance(args, list):
            for number, value in enumerate(args):
                match = _ASSIGNMENT.match(value) if isinstance(value, str) else None
                if match and _SECRET_NAME.search(match[1]) and (secret := _literal(match[2])) is not None:
                    offer = f"${{{match[1]}}}"
                    yield (name, "args", number), secret, offer, value[: match.start(2)] + offer


def _in_address(url: Any, name: str) -> Iterator[tuple[str, str, str]]:
    """Secret, variable and whole address for a password or a key that is part of an address (the first of them)."""
    if not isinstance(url, str) or "$" in url:
        return
    match = re.search(r"//[^/@:?#]*:([^/@?#]+)@", url)
    if match is not None:
        offer = f"${{{_variable(name)}_PASSWORD}}"
    else:
        match = next((m for m in re.finditer(r"[?&]([\w.-]+)=([^&#]+)", url) if _SECRET_NAME.search(m[1])), None)
        if match is None or len(match[2]) < _SHORTEST:
            return
        offer = f"${{{_variable(match[1])}}}"
    start, end = match.span(match.lastindex or 0)
    yield url[start:end], offer, url[:start] + offer + url[end:]


def _literal(value: Any) -> str | None:
    """The secret in a header's or a variable's value; None where it is a reference, empty or too short to be one."""
    if not isinstance(value, str) or "$" in value:
        return None
    secret = _SCHEME.sub("", value.strip(), count=1)
    return secret if len(secret) >= _SHORTEST else None


def _variable(name: str) -> str:
    return re.sub(r"\W+", "_", name.removeprefix("X-").removeprefix("x-"), flags=re.ASCII).strip("_").upper() or "SERVER"
