"""Places that all episodes of a task use, although several are played at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from hudtui.core.environment.episode_place import has_own_folder, is_per_episode
from hudtui.core.environment.servers import ENGINES, ServerSpec, parse_mcp_config
from hudtui.core.errors import SourceError
from hudtui.core.masking import mask_url
from hudtui.core.paths import typed_path
from hudtui.core.platform import Platform
from hudtui.core.text import clean_line
from hudtui.core.variables import EPISODE_PORT, Lookup, substitute_tree, variable_names

_STARTERS = re.compile(r"(?:python[\d.]*|node|bun|deno|npx|uvx|uv|pipx|bunx|pnpm|go|cargo|java)\Z")
"""Programs whose first argument that is no option is the program to run."""
_NOT_DATA = re.compile(r"--(?:directory|project|prefix|cwd|from|with|with-editable)\Z|-C\Z")
"""Options whose value says where a program is, and not where its data are."""
_OF_THE_SYSTEM = re.compile(r"(?i)(?:.*PATH|HOME|TMPDIR|VIRTUAL_ENV|.*CACHE.*|.*_HOME)\Z")
"""Variables that hold folders of programs."""
_DATABASE = re.compile(r"(?i)\.(?:db3?|sqlite3?|duckdb)\Z")
_VOLUMES = ("-v", "--volume", "--mount")


def shared_places(
    configs: Iterable[Mapping[str, Any]], folder: Path, lookup: Lookup, platform: Platform
) -> tuple[str, ...]:
    """Warnings about what the episodes of tasks share, each once.

    Args:
        configs: The `mcp_config`s of the tasks.
        folder: The project folder.
        lookup: Values of variables.
        platform: Its own addresses give every session an environment of its own.
    """
    warnings: dict[str, None] = {}
    seen: set[str] = set()
    for config in configs:
        if (key := repr(config)) in seen:
            continue
        seen.add(key)
        try:
            specs = parse_mcp_config(substitute_tree(config, lookup)[0], "mcp_config")
        except SourceError:
            continue  # the check of the tasks reports it
        for spec in specs:
            written = config.get(spec.name) or config
            found = [] if is_per_episode(written) else [*_shared_address(spec, platform)]
            if not has_own_folder(written):
                found += _shared_data(spec, folder)
            warnings.update(dict.fromkeys(found))
    return tuple(warnings)


def with_own_folder(config: Mapping[str, Any], folder: Path) -> tuple[dict[str, Any], str] | None:
    """Return an `mcp_config` in which each episode has a copy of the folder that its servers use.

    Args:
        config: The configuration, which is not changed.
        folder: The project folder.

    Returns:
        The configuration and the folder as it is named there; None where an episode has a folder
        already, or the servers name none or several.
    """
    if has_own_folder(config):
        return None
    try:
        specs = parse_mcp_config(dict(config), "mcp_config")
    except SourceError:
        return None
    # What all episodes start together at one port has no folder for each of them.
    own = [spec for spec in specs if not spec.url or EPISODE_PORT in variable_names(spec.url)]
    texts = {text for spec in own for text in _data(spec)}
    named = [text for text in sorted(texts) if _is_folder(folder, text)]
    if len(named) != 1:
        return None
    copy = f"${{EPISODE_DIR:{named[0]}}}"
    return {name: _replaced(entry, named[0], copy) for name, entry in config.items()}, named[0]


def _is_folder(folder: Path, text: str) -> bool:
    try:
        return bool(text) and (folder / typed_path(text)).is_dir()
    except (OSError, ValueError):
        return False


def _replaced(value: Any, before: str, after: str) -> Any:
    """Return a server's entry with a folder, alone or before a colon or an end, replaced."""
    if isinstance(value, str):
        if value == before or value.startswith(f"{before}:") or value.endswith(f"={before}"):
            return value.replace(before, after, 1)
        return value
    if isinstance(value, Mapping):
        kept = ("command", "cwd")
        return {
            name: item if name in kept else _replaced(item, before, after)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_replaced(item, before, after) for item in value]
    return value


def _shared_address(spec: ServerSpec, platform: Platform) -> Iterator[str]:
    if spec.url is None or not spec.url.startswith("http"):
        return
    if platform.owns(spec.url) or spec.url == platform.gateway_url:
        return
    name, url = clean_line(spec.name, 60), clean_line(mask_url(spec.url), 100)
    text = (
        f"all episodes use the one server {name} at {url}: what it keeps outside of their "
        "sessions, they share"
    )
    if spec.command is not None:
        text += "; ${EPISODE_PORT} in its command and its url starts one for each"
    yield text


def _shared_data(spec: ServerSpec, folder: Path) -> Iterator[str]:
    name = clean_line(spec.name, 60)
    if spec.command is None:
        return
    for text in _data(spec):
        path = folder / typed_path(text)
        try:
            shared = path.is_dir() or (path.is_file() and _DATABASE.search(text) is not None)
        except (OSError, ValueError):
            continue
        if shared:
            shown = clean_line(text, 100)
            instead = f"${{EPISODE_DIR:{shown}}}" if path.is_dir() else "${EPISODE_DIR:FOLDER}"
            yield (
                f"all episodes use {shown} (server {name}): what one writes there, the others see; "
                f"{instead} gives each a copy of its own"
            )


def _data(spec: ServerSpec) -> Iterator[str]:
    """Yield the texts of a command and its variables that may name data."""
    program = PurePath(spec.command or "").name
    for name, value in spec.env.items():
        if not _OF_THE_SYSTEM.match(name):
            yield value
    if program in ENGINES:
        yield from _mounted(spec.args)
        return
    to_run = _STARTERS.match(program) is not None
    skip = False
    for arg in spec.args:
        if skip:
            skip = False
        elif _NOT_DATA.match(arg):
            skip = True
        elif arg.startswith("-"):
            if "=" in arg and not _NOT_DATA.match(arg.partition("=")[0]):
                yield arg.partition("=")[2]
        elif to_run:
            to_run = program == "uv" and arg in ("run", "tool")
        else:
            yield arg.removeprefix("sqlite:///")


def _mounted(args: Iterable[str]) -> Iterator[str]:
    """Yield the folders that a container may write to."""
    before = ""
    for arg in args:
        option, _, value = arg.partition("=") if arg.startswith("--") else (before, "", arg)
        before = arg
        if option not in _VOLUMES or not value:
            continue
        if option == "--mount":
            parts = dict(part.partition("=")[::2] for part in value.split(","))
            if not {"readonly", "ro"} & set(parts):
                yield parts.get("source", parts.get("src", ""))
            continue
        source, _, rest = value.partition(":")
        if "ro" not in rest.split(":")[-1].split(",") and "/" in source:
            yield source
