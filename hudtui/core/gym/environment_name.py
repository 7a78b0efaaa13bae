"""Environments by name.

A name for what is behind a source, and whether a configuration is for an analyzed environment.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from hudtui.core.environment.matching import GENERIC_NAMES, EnvironmentIdentity, plain_name
from hudtui.core.environment.values import Analysis
from hudtui.core.gym.values import GymConfig
from hudtui.core.paths import typed_path
from hudtui.core.text import did_you_mean

FALLBACK = "environment"
"""The name of an environment whose source holds no usable name."""

_LONGEST = 64
_GENERIC = frozenset(
    {
        "mcp",
        "sse",
        "api",
        "http",
        "https",
        "ws",
        "wss",
        "stream",
        "streamable",
        "message",
        "messages",
    }
)
_VERSION = re.compile(r"v\d+\Z")
_LOCKS = (".lock.yaml", ".lock.yml")
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)\Z", re.DOTALL)
_RUNNERS = frozenset(
    {
        "npx",
        "uvx",
        "pipx",
        "bunx",
        "pnpm",
        "yarn",
        "npm",
        "uv",
        "node",
        "deno",
        "bun",
        "docker",
        "podman",
        "ssh",
        "env",
        "sudo",
    }
)
_VERBS = frozenset({"run", "exec", "dlx", "tool", "start", "x"})
_VALUED = re.compile(
    r"-[evpwumlh]|--(?:env|volume|publish|name|network|net|workdir|user|env-file|entrypoint"
    r"|platform|mount|memory|cpus|gpus|label"
    r"|add-host|hostname|ipc|shm-size|device|runtime|pull)"
)
"""Options of `docker run` that take a value."""
_VALUED_RUNNER = re.compile(
    r"-[pc]|--(?:from|with|with-requirements|with-editable|python|package|index|index-url"
    r"|default-index|extra-index-url|find-links|directory|project|env-file|prefix|registry|cache)"
)
"""Options of programs that run packages (`uvx`, `npx`, ...) that take a value."""


def environment_name(source: str) -> str:
    """Return a short name for the environment behind a source, fit for a file name.

    Args:
        source: Anything that names an environment: an image with registry, tag and digest; a URL; a
            folder; a lock file; a command; an mcp_config as a file or inline.

    Returns:
        Letters, digits, `-`, `_` and `.` only, at most 64 of them, beginning with a letter or
        digit.
    """
    text = source.strip().removeprefix("-- ")  # the prefix of sources that are commands
    return _slug(_telling_part(text)) or FALLBACK


def config_file_name(source: str) -> str:
    """Return the name of the file that a source's configuration is written to.

    `<environment name>.yaml`.
    """
    return f"{environment_name(source)}.yaml"


def declared_environment(config: GymConfig) -> str | None:
    """Return the environment that a configuration names.

    It is `job.metadata.environment`, `job.environment` or `environment`, the first that is set;
    None if none is.
    """
    metadata = config.job.get("metadata")
    for place in (metadata, config.job, config.raw):
        value = place.get("environment") if isinstance(place, Mapping) else None
        if isinstance(value, str) and value.strip():
            return value
    return None


def called_tools(config: GymConfig) -> tuple[str, ...]:
    """Return the tools that the actions of a configuration call."""
    return tuple(
        mapping.tool
        for mapping in (*config.mappings.values(), *config.partial.values())
        if mapping.tool
    )


def is_config_for(
    named: str | None, tools: tuple[str, ...], analysis: Analysis, identity: EnvironmentIdentity
) -> bool:
    """True if a configuration is for the analyzed environment.

    `named` is the environment that the configuration names, `tools` what its actions call;
    `identity` has the names of the analyzed environment.

    Returns:
        True when it is called so or has every tool; for a configuration that does not say, when it
        has one of them, be it misspelled. True as well where no action calls anything.
    """
    known = [tool.name for tool in analysis.tools]
    if all(tool in known for tool in tools):
        return True
    if named is not None:
        names = {
            *identity.names,
            *(
                plain_name(environment_name(text))
                for text in (analysis.source, analysis.image)
                if text
            ),
        }
        if not names.isdisjoint((plain_name(named), plain_name(environment_name(named)))):
            return True
        if plain_name(named) not in GENERIC_NAMES:
            return False
    return any(did_you_mean(tool, known) for tool in tools)


def _telling_part(text: str) -> str:
    if text.startswith("{"):
        return _server_names(text)
    url = _SCHEME.match(text)
    if url:
        return _from_url(url["rest"])
    if text in (".", "..", "~") or text.endswith(("/.", "/..", "/")):
        return _from_folder(text)
    pieces = _split(text)
    if len(pieces) > 1:
        return _from_command(pieces)
    path, _, last = text.rpartition("/")
    if last.endswith(_LOCKS):
        return _from_folder(path or ".")
    for suffix in (".json", ".yaml", ".yml", ".toml"):
        if last.endswith(suffix):
            stem = last.removesuffix(suffix)
            return (
                _from_folder(path or ".")
                if stem in ("mcp", ".mcp", "mcp_config", "config", "pyproject")
                else stem
            )
    return _from_image(text)


def _from_image(text: str) -> str:
    """`registry:5000/org/name:tag@sha256:...` -> `name`."""
    last = text.partition("@")[0].rstrip("/").rpartition("/")[2]
    return last.partition(":")[0]


def _from_url(rest: str) -> str:
    place = re.split(r"[?#]", rest, maxsplit=1)[0]
    host, *parts = place.split("/")
    telling = [
        part
        for part in parts
        if part and part.lower() not in _GENERIC and not _VERSION.match(part.lower())
    ]
    return telling[-1] if telling else host.rpartition("@")[2].replace("[", "").replace("]", "")


def _from_folder(text: str) -> str:
    try:
        return typed_path(text).resolve().name
    except (OSError, RuntimeError, ValueError):
        return ""


def _from_command(pieces: list[str]) -> str:
    words = list(itertools.dropwhile(re.compile(r"[A-Za-z_][A-Za-z0-9_]*=").match, pieces))
    program = Path(words[0]).name if words else ""
    rest = words[1:]
    if program.startswith("python") and "-m" in rest[:-1]:
        return rest[rest.index("-m") + 1].rpartition(".")[2]
    if program.startswith(("python", "node", "bash", "sh")) and rest:
        script = next((piece for piece in rest if not piece.startswith("-")), "")
        return Path(script).stem
    if program not in _RUNNERS:
        return program
    if program in ("docker", "podman") and ("run" in rest or "exec" in rest):
        return _from_image(_image_of(rest))
    if program == "ssh":
        for index, piece in enumerate(rest):
            if Path(piece).name in ("docker", "podman") or piece.startswith("python"):
                return _from_command(rest[index:])
        target = next((piece for piece in rest if not piece.startswith("-")), "")
        return target.rpartition("@")[2]
    packages = [piece for piece in _plain_words(rest) if piece not in _VERBS]
    if not packages:
        return program
    name = packages[0].removeprefix("@") if packages[0].startswith("@") else packages[0]
    return name.partition("@")[0].partition("==")[0].rpartition("/")[2]


def _plain_words(arguments: list[str]) -> list[str]:
    """The arguments of a program that runs packages, without options and their values."""
    pairs = itertools.pairwise(["", *arguments])
    return [
        piece
        for before, piece in pairs
        if not piece.startswith("-") and not _VALUED_RUNNER.fullmatch(before)
    ]


def _image_of(arguments: list[str]) -> str:
    """The image in the arguments of `docker run`.

    The first word that is neither an option nor an option's value.
    """
    skip = False
    begun = False
    for piece in arguments:
        if skip:
            skip = False
        elif not begun:
            begun = piece in ("run", "exec")
        elif piece.startswith("-"):
            skip = _VALUED.fullmatch(piece) is not None
        else:
            return piece
    return ""


def _server_names(text: str) -> str:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if isinstance(data, dict) and isinstance(data.get("mcpServers"), dict):
        data = data["mcpServers"]
    return "-".join(str(name) for name in list(data)[:3]) if isinstance(data, dict) else ""


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _slug(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip("-._")[:_LONGEST].strip("-._")
