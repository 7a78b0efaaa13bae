"""The match of tasks with the environment that was analyzed.

Only tasks that run on it are judged by its analysis.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hudtui.core.environment.servers import ServerSpec, parse_mcp_config
from hudtui.core.environment.source import image_name, parse_source
from hudtui.core.environment.values import Analysis
from hudtui.core.errors import InputError
from hudtui.core.variables import EPISODE_DIR

GENERIC_NAMES = frozenset(("", "default", "environment", "hud", "local", "main", "mcp", "server"))
"""Names of servers and environments that say nothing."""
_COPY = re.compile(rf"\$\{{{EPISODE_DIR}:-?([^{{}}]*)\}}")


@dataclass(frozen=True)
class EnvironmentIdentity:
    """Names and addresses by which an analyzed environment is known."""

    names: frozenset[str]
    """Its names, in small letters and digits only."""
    images: frozenset[str] = frozenset()
    """Container images, without registry, tag and digest."""
    urls: frozenset[str] = frozenset()
    """Host and path."""
    commands: frozenset[tuple[str, ...]] = frozenset()
    """Arguments of commands; of one without arguments the command itself."""


def identity_of(analysis: Analysis, folder: Path) -> EnvironmentIdentity:
    """The identity of an analyzed environment.

    Args:
        analysis: The analysis.
        folder: The project folder, which its source may be relative to.
    """
    names = {analysis.server.name, *([image_name(analysis.image)] if analysis.image else [])}
    specs: tuple[ServerSpec, ...] = ()
    try:
        source = parse_source(analysis.source, folder=folder, lookup=lambda _: None)
    except InputError:
        pass  # the file that named it is gone
    else:
        specs = source.servers
        if source.kind == "bundled":
            names.add(source.text)
    images = {spec.image for spec in specs} | {analysis.image}
    return EnvironmentIdentity(
        frozenset(map(plain_name, names)) - GENERIC_NAMES,
        frozenset(_repository(image) for image in images if image),
        frozenset(_address(spec.url) for spec in specs if spec.url and not spec.command),
        frozenset(_command(spec) for spec in specs if spec.command and not spec.image),
    )


def uses_environment(config: Any, identity: EnvironmentIdentity) -> bool:
    """True if one of the servers of an `mcp_config` is the environment.

    False where that cannot be known.
    """
    return any(_is(spec, identity) for spec in _specs(config))


def servers_in(config: Any) -> str:
    """The servers of an `mcp_config` by what they are called.

    The image's own name where there is one.
    """
    return ", ".join(
        dict.fromkeys(
            image_name(spec.image) if spec.image else spec.name for spec in _specs(config)
        )
    )


def _specs(config: Any) -> tuple[ServerSpec, ...]:
    if not isinstance(config, Mapping):
        return ()
    try:
        return parse_mcp_config(config, "mcp_config")
    except InputError:
        return ()


def _is(spec: ServerSpec, identity: EnvironmentIdentity) -> bool:
    if spec.image:
        if identity.images:
            return _repository(spec.image) in identity.images
        return plain_name(image_name(spec.image)) in identity.names
    if spec.url and not spec.command and identity.urls:
        return _address(spec.url) in identity.urls
    return (bool(spec.command) and _command(spec) in identity.commands) or plain_name(
        spec.name
    ) in identity.names


def plain_name(name: str) -> str:
    """A name in small letters and digits only."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())


def _repository(image: str) -> str:
    name = image.partition("@")[0]
    head, slash, rest = name.partition("/")
    if slash and (
        "." in head or ":" in head or head == "localhost"
    ):  # only such a first part is a registry
        name = rest
    return re.sub(r":[^/]*$", "", name)


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return f"{parts.netloc.rpartition('@')[2].lower()}{parts.path.rstrip('/')}"


def _command(spec: ServerSpec) -> tuple[str, ...]:
    # With or without `-P` it is the same environment: older task files start the bundled one
    # without. So it is where each episode has a copy of the folder.
    args = (_COPY.sub(r"\1", arg) for arg in spec.args if arg != "-P")
    return tuple(args) or (spec.command or "",)
