"""The forms in which a user can name an environment, and the `Source` that a name stands for.

    text-2048                                   a bundled environment org/name:tag,
    host:5000/name@sha256:...     a container image, run by docker or podman ./folder
                        its lock file, else [tool.hud] in pyproject.toml hud.lock.yaml
                    a lock file: read offline, its image run for a live look https://host/mcp,
    http://host/sse           an MCP server on the network ws://host:8000
      an OpenEnv server -- npx -y @org/server                       any command that speaks MCP on
    its standard streams mcp.json, '{"name": {"command": ...}}'      an mcp_config with one server
    or several tcp://host:8765                             a HUD v6 environment

Nothing is started, connected to or substituted here: a `Source` is a value.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from hudtui.core.environment.bundled import BUNDLED, find_bundled
from hudtui.core.environment.engine import find_engine
from hudtui.core.environment.powers import server_powers
from hudtui.core.environment.servers import (
    ENGINES,
    NEVER_PULL,
    ServerSpec,
    check_header,
    image_place,
    parse_mcp_config,
)
from hudtui.core.errors import InputError, Location, SourceError
from hudtui.core.files import parse_json, read_text
from hudtui.core.masking import mask_text, mask_url
from hudtui.core.paths import typed_path
from hudtui.core.text import did_you_mean
from hudtui.core.trust import Power, power
from hudtui.core.variables import Lookup

SourceKind = Literal["bundled", "image", "lock", "url", "command", "config", "hud-v6"]

_IMAGE = re.compile(
    r"(?:(?P<host>[A-Za-z0-9.-]+(?::[0-9]+)?|\[[0-9A-Fa-f:]+\](?::[0-9]+)?)/)?"
    r"(?P<path>[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>[A-Za-z0-9+._-]+:[0-9a-fA-F]{32,}))?\Z"
)
_GIVEN = re.compile(r"(?P<flag>--env=|-e)?(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_DETACHED = re.compile("-[itPq]*d[itPq]*")

SOURCE_FORMS = (
    "Give the name of a bundled environment ("
    + ", ".join(entry.name for entry in BUNDLED)
    + "), an image (org/name:tag), a folder, a lock file, a URL, an mcp_config (file or JSON), "
    "tcp://host:port for HUD v6, or a command after `--`."
)


@dataclass(frozen=True)
class Source:
    """An environment by its name, without a connection."""

    kind: SourceKind
    text: str
    """As the user wrote it, secrets masked."""
    servers: tuple[ServerSpec, ...] = ()
    """The servers behind it; several only for an mcp_config. Empty for HUD v6, and for a lock file
    without an image."""
    image: str | None = None
    lock: Path | None = None
    address: tuple[str, int] | None = None
    """Host and port of a HUD v6 control channel."""
    folder: Path = field(default_factory=Path.cwd)
    """The project folder: relative paths and the cache belong to it."""
    lookup: Lookup = field(default=os.environ.get, compare=False, repr=False)
    """Returns the value of a variable; called when a connection is opened."""
    file: Path | None = field(default=None, compare=False)
    """The file that names the servers; None when the user named them. What a file names needs the
    user's agreement."""

    @property
    def powers(self) -> tuple[Power, ...]:
        """Powers that the user has to agree to, see `core.trust`.

        Empty for a source that the user named.
        """
        return self.all_powers if self.file is not None else ()

    @property
    def all_powers(self) -> tuple[Power, ...]:
        """Powers that the use of this source needs if a file names it."""
        file = self.file or self.folder
        if self.address is not None:
            return (power("address", self.text, file, *self.address),)
        return server_powers(self.servers, file)

    @property
    def key(self) -> str:
        """The file name of this source's cache.

        The same for the same source, and free of secrets.
        """
        parts = [self.kind, self.text, self.image, str(self.lock or ""), self.address]
        if self.kind in ("command", "config"):
            parts.append(str(self.folder))
        parts.extend(
            mask_text(json.dumps(spec.to_config(), sort_keys=True)) for spec in self.servers
        )
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def mcp_config(self) -> dict[str, Any]:
        """The `mcp_config` of a task on this source, variables as written."""
        return {spec.name: spec.to_config() for spec in self.servers}


def parse_source(
    text: str | None = None,
    command: Sequence[str] = (),
    *,
    headers: Mapping[str, str] | None = None,
    env: Mapping[str, str | None] | None = None,
    folder: Path | None = None,
    lookup: Lookup | None = None,
    sse: bool = False,
    file: Path | None = None,
) -> Source:
    """The source that a user named, in one of the forms listed at the top of this module.

    Args:
        text: The name; None for the folder itself when there is no command either.
        command: A command that was given instead, after `--`.
        headers: Extra HTTP headers for a URL; may hold variables.
        env: Extra variables for a started server; None as a value passes on what the lookup has.
        folder: The project folder; the current one by default.
        lookup: Returns the value of a variable; the process environment by default.
        sse: Use the older transport of separate event streams for a URL.
        file: The file that the name was read from; None when the user gave it.

    Raises:
        SourceError: The name fits no form, or the file it names cannot be used.
    """
    folder = Path(folder) if folder is not None else Path.cwd()
    source = _named(text, tuple(command), folder, sse)
    source = replace(
        source, folder=folder, lookup=lookup or os.environ.get, file=file or source.file
    )
    if headers:
        if not any(spec.url for spec in source.servers):
            raise SourceError(
                "headers are for sources that are reached by a URL",
                fix="Leave out --header, or give a URL.",
            )
        for name, value in headers.items():
            check_header(name, value, name, "--header")
        source = replace(
            source,
            servers=tuple(
                replace(s, headers={**s.headers, **headers}) if s.url else s for s in source.servers
            ),
        )
    if env:
        source = replace(
            source, servers=tuple(_with_env(spec, env, source.image) for spec in source.servers)
        )
    return source


def _named(text: str | None, command: tuple[str, ...], folder: Path, sse: bool) -> Source:
    if command:
        if text is not None:
            raise SourceError(
                "there are two sources: one before `--` and a command after it",
                fix="Give one of them.",
                where=Location(text),
            )
        spec = ServerSpec(
            "command", command=command[0], args=command[1:], cwd=str(folder), literal=True
        )
        return Source("command", f"-- {mask_text(shlex.join(command))}", (spec,))
    name = "." if text is None else text.strip()
    if name.startswith("-- "):  # a command source as it calls itself
        try:
            return _named(None, tuple(shlex.split(name[3:])), folder, sse)
        except ValueError as error:
            raise SourceError(
                "the quotes of this command do not match", why=str(error), where=Location(name)
            ) from None
    if not name:
        raise SourceError("the source is empty", fix=SOURCE_FORMS)
    if "\x00" in name:
        raise SourceError("the source holds a zero byte", fix=SOURCE_FORMS)
    if name[0] in "{[" and not _IMAGE.match(name):
        return _config(parse_json(name, "the given JSON"), "the given JSON", mask_text(name))
    scheme = name.partition("://")[0].lower() if "://" in name else ""
    if scheme in ("http", "https", "ws", "wss"):
        return _url(name, sse)
    if scheme == "tcp":
        return _control_channel(name)
    if scheme:
        raise SourceError(
            f"{scheme}:// is not an address of an environment",
            fix=(
                "MCP servers are at http:// or https://, OpenEnv servers at ws:// or wss://, HUD "
                "v6 environments at tcp://."
            ),
            where=Location(mask_url(name)),
        )
    bundled = find_bundled(name)
    if bundled is not None:
        return Source("bundled", bundled.name, (bundled.spec,))
    path = folder / typed_path(name)
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
    except OSError:  # longer than any path can be
        is_file = is_folder = False
    if is_file:
        return _file(path, name)
    if is_folder:
        return _folder(path, name)
    if _looks_like_path(name):
        raise SourceError("there is no such file or folder", fix=SOURCE_FORMS, where=Location(name))
    if (image := _IMAGE.match(name)) is not None:
        alone = "/" not in name and not image["tag"] and not image["digest"]
        return image_source(
            name, pull=not alone
        )  # a word may be a slip, and nobody asked for a program from a registry
    near = did_you_mean(name, [entry.name for entry in BUNDLED])
    program, blank, _ = name.partition(" ")
    if blank and shutil.which(program) is not None:
        raise SourceError(
            f"{mask_text(name[:200])!r} is not an environment that hudtui can find",
            why=f"{program} is a program on this computer.",
            fix=f"To start it as a server, put -- before the command: -- {mask_text(name[:200])}",
        )
    raise SourceError(
        f"{name[:200]!r} is not an environment that hudtui can find",
        why="An image name is in small letters, as org/name:tag."
        if _IMAGE.match(name.lower())
        else None,
        fix=f"Did you mean {near}?" if near else SOURCE_FORMS,
    )


def image_source(image: str, *, text: str | None = None, pull: bool = True) -> Source:
    """A container image as a source; `text` is the user's own text, where it differs.

    Without `pull` it has to be here.
    """
    return Source(
        "image",
        text or image,
        (container_spec(image, name=image_name(image), pull=pull),),
        image=image,
    )


def image_name(image: str) -> str:
    """The last part of an image's name, without registry, organisation, tag and digest."""
    match = _IMAGE.match(image)
    return (
        match["path"].rpartition("/")[2]
        if match
        else re.sub(r"[^A-Za-z0-9._-]+", "-", image).strip("-") or "image"
    )


def container_spec(
    image: str,
    variables: Sequence[str] = (),
    *,
    name: str = "image",
    engine: str | None = None,
    set_env: Mapping[str, str] | None = None,
    pull: bool = True,
) -> ServerSpec:
    """The command that runs an image as a server; `pull`: it may be fetched from a registry."""
    engine = engine or find_engine() or ENGINES[0]
    given = dict(set_env or {})
    passed = tuple(dict.fromkeys((*variables, *given)))
    flags = [flag for variable in passed for flag in ("-e", variable)]
    return ServerSpec(
        name,
        command=engine,
        args=("run", "--rm", "-i", *(() if pull else (NEVER_PULL,)), *flags, image),
        env=given,
        pass_on=tuple(variable for variable in passed if variable not in given),
        literal=True,
        contained=True,
    )


def with_engine(spec: ServerSpec) -> ServerSpec:
    """Return `spec` as it is started here, with the engine of this computer.

    Only a configuration that names `docker run` or `podman run` as its command is changed.

    An engine that does not answer is replaced by another that does. Variables such as `-e KEY=$KEY`
    are handed over by name, so that their values are in no list of processes. The container is
    removed if its client is ended by force, unless the command names or detaches it.

    Raises:
        InputError: The setting `HUDTUI_ENGINE` names neither docker nor podman.
    """
    place = (
        image_place(spec.args, 1)
        if spec.command in ENGINES and spec.args[:1] == ("run",) and not spec.literal
        else None
    )
    if place is None:
        return spec
    engine = find_engine() or spec.command
    if spec.command == "podman" and shutil.which("podman"):
        engine = "podman"
    options, env = list(spec.args[1:place]), dict(spec.env)
    for at, word in enumerate(options):
        separate = at > 0 and options[at - 1] in ("-e", "--env")
        given = _GIVEN.fullmatch(word)
        if given and "$" in given["value"] and separate == (given["flag"] is None):
            env[given["name"]] = given["value"]
            options[at] = f"{given['flag'] or ''}{given['name']}"
    own = any(
        word.partition("=")[0] in ("--name", "--detach", "--cidfile") or _DETACHED.fullmatch(word)
        for word in options
    )
    return replace(
        spec, command=engine, args=("run", *options, *spec.args[place:]), env=env, contained=not own
    )


def _with_env(spec: ServerSpec, env: Mapping[str, str | None], image: str | None) -> ServerSpec:
    if spec.command is None:
        raise SourceError(
            "variables can be given only to a server that is started",
            fix="Leave out --env, or use --header.",
        )
    if image is not None:
        fixed = {name: value for name, value in env.items() if value is not None}
        return container_spec(
            image,
            (*spec.pass_on, *env),
            name=spec.name,
            engine=spec.command,
            set_env={**spec.env, **fixed},
        )
    return replace(
        spec,
        env={**spec.env, **{name: value for name, value in env.items() if value is not None}},
        pass_on=(*spec.pass_on, *(name for name, value in env.items() if value is None)),
    )


def _url(text: str, sse: bool) -> Source:
    shown = mask_url(text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise SourceError("this is not a URL", why=str(error), where=Location(shown)) from None
    if not parts.hostname or port == 0 or any(letter.isspace() for letter in text):
        raise SourceError(
            "this is not a URL", why="It has no host, or holds blanks.", where=Location(shown)
        )
    older = sse or parts.path.rstrip("/").endswith("/sse")
    return Source("url", shown, (ServerSpec(parts.hostname, url=text, sse=older),))


def _control_channel(text: str) -> Source:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.path.strip("/"):
        raise SourceError(
            "a HUD v6 address is tcp://host:port",
            fix="For example tcp://localhost:8765.",
            where=Location(text),
        )
    return Source("hud-v6", text, address=(host, port))


def _file(path: Path, name: str) -> Source:
    text = read_text(path)
    if path.suffix.lower() in (".yaml", ".yml"):
        return _lock(path, name)
    if path.suffix.lower() == ".json" or text.lstrip()[:1] in ("{", "["):
        return _config(parse_json(text, name), name, name, path)
    if os.access(path, os.X_OK):
        raise SourceError(
            "this is a program",
            fix=f"To start it as an MCP server, give it after `--`: -- {name}",
            where=Location(name),
        )
    raise SourceError(
        "this file is neither a lock file (YAML) nor an mcp_config (JSON)",
        fix=SOURCE_FORMS,
        where=Location(name),
    )


def _config(data: Any, name: str, shown: str, file: Path | None = None) -> Source:
    if isinstance(data, list):  # a task file: its tasks run on one environment, as a rule
        configs = [task.get("mcp_config") for task in data if isinstance(task, Mapping)]
        if not configs or any(config != configs[0] for config in configs):
            raise SourceError(
                "the tasks of this file do not all have the same mcp_config",
                fix="Give one mcp_config.",
                where=Location(name),
            )
        data = {"mcp_config": configs[0]}
    servers = parse_mcp_config(data, name)
    images = tuple(dict.fromkeys(spec.image for spec in servers if spec.image))
    return Source(
        "config", shown, servers, image=images[0] if len(images) == 1 else None, file=file
    )


def _folder(path: Path, name: str) -> Source:
    from hudtui.core.lockfile import find_lock
    from hudtui.core.platform import BUILT_IN, choose_platform

    locks = (find_lock(path, platform) for platform in (choose_platform(path), *BUILT_IN))
    lock = next((lock_file for lock_file in locks if lock_file is not None), None)
    if lock is not None:
        return _lock(lock, name)
    project = path / "pyproject.toml"
    if project.is_file():
        try:
            hud = tomllib.loads(read_text(project, limit=1_000_000)).get("tool", {}).get("hud", {})
        except (tomllib.TOMLDecodeError, InputError, OSError) as error:
            raise SourceError(
                "this pyproject.toml cannot be read", why=str(error), where=Location(str(project))
            ) from None
        image = hud.get("image") if isinstance(hud, dict) else None
        if isinstance(image, str) and image:
            if not _IMAGE.match(image):
                raise SourceError(
                    f"{image!r} is not the name of an image",
                    where=Location(str(project), field="tool.hud.image"),
                )
            return replace(image_source(image, text=name), file=project)
    if build := next(
        (name for name in ("Dockerfile", "Containerfile") if (path / name).is_file()), None
    ):
        tag = re.sub(r"[^a-z0-9]+", "-", path.resolve().name.lower()).strip("-") or "environment"
        raise SourceError(
            f"this folder has a {build}, but neither a lock file nor an image in [tool.hud] of "
            "pyproject.toml",
            fix=(
                f"Build it: `{find_engine() or 'docker'} build -t {tag}:dev {shlex.quote(name)}`. "
                f"Then name the image {tag}:dev."
            ),
            where=Location(name),
        )
    raise SourceError(
        "this folder holds no environment: no lock file, no [tool.hud] in pyproject.toml, no "
        "Dockerfile or Containerfile",
        fix=SOURCE_FORMS,
        where=Location(name),
    )


def _lock(path: Path, name: str) -> Source:
    from hudtui.core.lockfile import read_lock

    lock = read_lock(path)
    if not lock.has_lock_fields:
        raise SourceError(
            "this YAML file is not a lock file",
            why="It has neither image nor tools.",
            fix="`hudtui config check` checks a gym configuration. " + SOURCE_FORMS,
            where=Location(name),
        )
    if lock.image is None:
        return Source("lock", name, lock=path)
    variables = tuple(
        name
        for name in (*lock.variables.required, *lock.variables.optional)
        if not _is_service_key(name)
    )
    spec = container_spec(lock.image_here or lock.image, variables, name=image_name(lock.image))
    return Source("lock", name, (spec,), image=lock.image, lock=path, file=path)


def _is_service_key(name: str) -> bool:
    """True if a variable is the key of a service that an environment has nothing to do with.

    `--env NAME` passes it on.
    """
    from hudtui.core.platform import BUILT_IN, HUD
    from hudtui.core.settings import known_settings

    own = {platform.key_variable for platform in BUILT_IN}
    return any(key.name == name and key.secret and name not in own for key in known_settings(HUD))


def _looks_like_path(name: str) -> bool:
    return (
        name.startswith(("./", "../", "/", "~"))
        or "\\" in name
        or name in (".", "..")
        or name.endswith((".json", ".yaml", ".yml", ".toml", "/"))
    )
