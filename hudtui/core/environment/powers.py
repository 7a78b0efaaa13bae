"""What starting or connecting to a server means, as powers that a user agrees to; see `core.trust`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hudtui.core import trust
from hudtui.core.environment.bundled import is_bundled
from hudtui.core.environment.servers import ServerSpec, mask_text, parse_mcp_config
from hudtui.core.errors import SourceError
from hudtui.core.platform import BUILT_IN
from hudtui.core.variables import variable_names


def server_powers(specs: Iterable[ServerSpec], file: Path) -> tuple[trust.Power, ...]:
    """What these servers need the user's agreement for: a program that is started, or an address with what is sent there.

    The bundled environments need none, nor do the addresses of the built-in platforms with their own keys.

    Args:
        specs: The servers, variables as written.
        file: The file that names them.
    """
    return tuple(_power(spec, file) for spec in specs if not is_bundled(spec) and not _of_platform(spec))


def task_powers(configs: Iterable[Mapping[str, Any]], file: Path) -> tuple[trust.Power, ...]:
    """`server_powers` of the `mcp_config`s of tasks, each power once. An unreadable `mcp_config` has none: it cannot be used."""
    found: dict[str, trust.Power] = {}
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
        found.update((one.token, one) for one in server_powers(specs, file))
    return tuple(found.values())


def _power(spec: ServerSpec, file: Path) -> trust.Power:
    if spec.url is not None:
        names = _names((spec.url, *spec.headers.values()))
        told = spec.where + (f" with {', '.join(names)}" if names else "")
        return trust.power("address", told, file, spec.url, dict(spec.headers), spec.sse)
    names = tuple(dict.fromkeys((*_names((spec.command or "", *spec.args, *spec.env.values())), *spec.pass_on)))
    given = " ".join(f"{name}={mask_text(value)}" for name, value in spec.env.items())
    told = f"{given} {spec.where}".strip() + (f" with {', '.join(names)}" if names else "")
    return trust.power(
        "command", told, file, spec.command, spec.args, dict(spec.env), spec.pass_on, spec.cwd, spec.literal, spec.contained
    )


def _names(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in texts for name in variable_names(text)))


def _of_platform(spec: ServerSpec) -> bool:
    """Whether an address is a built-in platform's own, and gets that platform's key alone."""
    if spec.url is None or variable_names(spec.url):
        return False
    names = set(_names(spec.headers.values()))
    for platform in BUILT_IN:
        try:
            own = spec.url == platform.gateway_url or (platform.owns(spec.url) and urlsplit(spec.url).scheme == "https")
            # Another port of the same host is another service.
            own = own and (spec.url == platform.gateway_url or urlsplit(spec.url).port in (None, 443))
        except ValueError:
            return False
        if own and names <= {platform.key_variable}:
            return True
    return False
