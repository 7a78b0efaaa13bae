"""Starts of servers and connections to them, as powers that a user agrees to; see `core.trust`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hudtui.core import trust
from hudtui.core.environment.bundled import is_bundled
from hudtui.core.environment.episode_place import template_names
from hudtui.core.environment.servers import ServerSpec, parse_mcp_config
from hudtui.core.errors import SourceError
from hudtui.core.platform import BUILT_IN
from hudtui.core.settings import secret_mask
from hudtui.core.text import in_full
from hudtui.core.variables import EPISODE_VARIABLES, variable_names


def server_powers(specs: Iterable[ServerSpec], file: Path) -> tuple[trust.Power, ...]:
    """Powers that these servers need.

    A program that is started, or an address with what is sent there. The bundled environments need
    none, nor do the addresses of the built-in platforms with their own keys.

    Args:
        specs: The servers, variables as written.
        file: The file that names them.
    """
    asking = [spec for spec in specs if not is_bundled(spec) and not _of_platform(spec)]
    mask: Callable[[str], str] = secret_mask() if asking else str
    return tuple(_power(spec, file, mask) for spec in asking)


def task_powers(configs: Iterable[Mapping[str, Any]], file: Path) -> tuple[trust.Power, ...]:
    """`server_powers` of the `mcp_config`s of tasks, each power once.

    An unreadable `mcp_config` has none: it cannot be used.
    """
    powers: dict[str, trust.Power] = {}
    seen: set[str] = set()
    for config in configs:
        key = repr(config)
        if key in seen:
            continue
        seen.add(key)
        try:
            specs = parse_mcp_config(config, "mcp_config")
        except SourceError:
            continue
        powers.update((one.token, one) for one in server_powers(specs, file))
    return tuple(powers.values())


def server_lines(config: Any) -> tuple[str, ...]:
    """The commands and addresses of a task's servers, whole, for a question about it.

    Each is one line.

    Raises:
        SourceError: The configuration cannot be understood.
    """
    mask = secret_mask()
    return tuple(
        in_full(
            f"{spec.name}: {'connects to' if spec.command is None else 'starts'} "
            f"{_described(spec, mask)}"
        )
        for spec in parse_mcp_config(config, "mcp_config")
    )


def _described(spec: ServerSpec, mask: Callable[[str], str]) -> str:
    """The command or the address of a server, whole.

    It has the names of the variables that are put in.
    """
    parts: list[str] = []
    names: dict[str, None] = {}
    if spec.command is not None:
        given = [f"{name}={value}" for name, value in spec.env.items()]
        parts.append(shlex.join([*given, spec.command, *spec.args]))
        if spec.cwd is not None:
            parts.append(f"in {shlex.quote(spec.cwd)}")
        texts = (spec.command, *spec.args, spec.cwd or "", *spec.env.values())
        names.update(dict.fromkeys((*_names(texts), *spec.pass_on)))
    if spec.url is not None:
        parts.append(spec.url if spec.command is None else f"and connects to {spec.url}")
        parts += [f"header {name}: {value}" for name, value in spec.headers.items()]
        names.update(dict.fromkeys(_names((spec.url, *spec.headers.values()))))
    text = ", ".join(parts)
    with_names = f", with {', '.join(names)}" if names else ""
    return mask(text) + with_names + _copied(spec)


def _copied(spec: ServerSpec) -> str:
    """The folders that are copied for every episode, in words."""
    texts = (spec.command, spec.args, spec.cwd, dict(spec.env), spec.url, dict(spec.headers))
    # A variable in the name stands there as such: its default may not be what is copied.
    templates = () if spec.literal else template_names(texts, _as_written)
    return "".join(f", in a copy of {shlex.quote(name)}" for name in templates)


def _as_written(name: str) -> str | None:
    return None if name in EPISODE_VARIABLES else f"${{{name}}}"


def _power(spec: ServerSpec, file: Path, mask: Callable[[str], str]) -> trust.Power:
    text = _described(spec, mask)
    reached = () if spec.url is None else (spec.url, dict(spec.headers), spec.sse)
    if spec.command is None:
        return trust.power("address", text, file, *reached)
    return trust.power(
        "command",
        text,
        file,
        spec.command,
        spec.args,
        dict(spec.env),
        spec.pass_on,
        spec.cwd,
        spec.literal,
        spec.contained,
        *reached,
    )


def _names(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in texts for name in variable_names(text)))


def _of_platform(spec: ServerSpec) -> bool:
    """True if an address is a built-in platform's own, and gets that platform's key alone."""
    if spec.url is None or spec.command is not None or variable_names(spec.url):
        return False
    names = set(_names(spec.headers.values()))
    for platform in BUILT_IN:
        try:
            own = spec.url == platform.gateway_url or (
                platform.owns(spec.url) and urlsplit(spec.url).scheme == "https"
            )
            # Another port of the same host is another service.
            own = own and (
                spec.url == platform.gateway_url or urlsplit(spec.url).port in (None, 443)
            )
        except ValueError:
            return False
        if own and names <= {platform.key_variable}:
            return True
    return False
