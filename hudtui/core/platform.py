"""The service that environments, keys and lock files belong to.

HUD, Buckeye, or a platform that the user declares in a file. A declared platform is a YAML file
`<name>.yaml` in the user's folder of platforms or in `.hudtui/platforms/` of a workspace:

    title: Acme                     # how it is shown; the name by default key_variable:
    ACME_API_KEY      # NAME_API_KEY by default lock_name: acme.lock.yaml       # NAME.lock.yaml by
    default gym_id: acme-vf-gym             # NAME-vf-gym by default urls:
    # mcp, api, telemetry, web; each can be set as ACME_MCP_URL and so on
      mcp: https://mcp.acme.example/mcp
    hosts: [mcp.acme.example]       # further hosts whose MCP addresses belong to it

Every field may be left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from hudtui.core.errors import InputError, Location
from hudtui.core.files import read_text
from hudtui.core.http import is_http_url, is_loopback
from hudtui.core.paths import app_paths
from hudtui.core.text import did_you_mean
from hudtui.core.variables import Lookup
from hudtui.core.yaml_doc import YamlDocument, load_yaml

VARIABLE = "HUDTUI_PLATFORM"
"""The environment variable that names a platform."""

SERVICES = ("mcp", "api", "telemetry", "web")
"""The addresses that a platform may have. `mcp` serves environments; `web` has pages of jobs."""


_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Platform:
    """Differences between one service and the next."""

    name: str
    """Name that `--platform` takes. Also the name of the server in a task's `mcp_config`."""
    title: str
    key_variable: str
    """The variable that holds the API key."""
    lock_name: str
    """The name of the lock file in a project folder."""
    gym_id: str
    """The environment id that `vf-eval` knows the gym by."""
    urls: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Default addresses by service; see `SERVICES`."""
    hosts: tuple[str, ...] = ()
    """Hosts whose MCP addresses belong to this platform."""
    file: Path | None = None
    """The file that declares it; None for a built-in platform."""

    @property
    def prefix(self) -> str:
        """Prefix of its variables: `HUD` in `HUD_MCP_URL`."""
        return re.sub(r"[^A-Z0-9]", "_", self.name.upper())

    @property
    def gateway_url(self) -> str:
        """The default address at which it serves environments over MCP; empty if it has none."""
        return self.urls.get("mcp", "")

    def own_variable(self, name: str) -> str:
        """The platform's own variable for a setting that each platform has, e.g.

        `HUD_CLIENT_TIMEOUT`.
        """
        return f"{self.prefix}_{name}"

    def url_variable(self, service: str) -> str:
        """The variable that overrides the address of a service, e.g. `HUD_MCP_URL`."""
        return self.own_variable(f"{service.upper()}_URL")

    @property
    def url_variables(self) -> tuple[str, ...]:
        """All of those variables, in the order of `SERVICES`."""
        return tuple(self.url_variable(service) for service in SERVICES)

    def url(self, service: str, lookup: Lookup | None = None) -> str | None:
        """The address of a service: its variable where set, else the default, else None.

        Without a slash at the end.
        """
        value = lookup(self.url_variable(service)) if lookup is not None else None
        value = (value or self.urls.get(service, "")).strip().rstrip("/")
        return value or None

    def owns(self, url: str) -> bool:
        """Return True if an MCP address is one of this platform's own, by its host."""
        try:
            host = urlsplit(url).hostname
        except ValueError:
            return False
        return host is not None and host in self.hosts

    def mcp_config(self, image: str, lookup: Lookup | None = None) -> dict[str, Any]:
        """The `mcp_config` that runs `image` on this platform. The key stays a variable.

        Raises:
            InputError: The platform has no MCP address.
        """
        url = self.url("mcp", lookup)
        if url is None:
            raise InputError(
                f"the platform {self.title} has no MCP address",
                fix=f"Set {self.url_variable('mcp')}, or `urls: mcp:` in its file.",
            )
        headers = {"Authorization": f"Bearer ${self.key_variable}", "Mcp-Image": image}
        return {self.name: {"url": url, "headers": headers}}


HUD = Platform(
    name="hud",
    title="HUD",
    key_variable="HUD_API_KEY",
    lock_name="hud.lock.yaml",
    gym_id="hud-vf-gym",
    urls=MappingProxyType(
        {
            "mcp": "https://mcp.hud.ai/v3/mcp",
            "api": "https://api.hud.ai",
            "telemetry": "https://telemetry.hud.ai/v3/api",
            "web": "https://hud.ai",
        }
    ),
    hosts=("mcp.hud.ai", "mcp.hud.so"),
)
"""HUD. Its addresses moved from .so to .ai in November 2025; both are recognised, the new one is
written."""

BUCKEYE = Platform(
    name="buckeye",
    title="Buckeye",
    key_variable="BUCKEYE_API_KEY",
    lock_name="buckeye.lock.yaml",
    gym_id="buckeye-vf-gym",
    urls=MappingProxyType({"mcp": "http://localhost:8765/mcp"}),
)
"""Buckeye: environments are served on this machine, and there is no service behind it."""

BUILT_IN = (HUD, BUCKEYE)


@dataclass(frozen=True)
class PlatformChoice:
    """A platform and why it is this one."""

    platform: Platform
    reason: str
    """Reason for the choice, in a few words."""
    notices: tuple[str, ...] = ()
    """Remarks for the user, e.g. that there is a second lock file."""


def choose_platform(folder: Path, explicit: str | None = None) -> Platform:
    """The platform of a project folder; `explain_choice` says why."""
    return explain_choice(folder, explicit).platform


def explain_choice(folder: Path, explicit: str | None = None) -> PlatformChoice:
    """The platform of a project folder.

    The flag, else `HUDTUI_PLATFORM`, else the lock file that is there, else HUD. A platform that
    the workspace itself declares is never picked by its lock file, only by name: a folder that was
    merely downloaded must not decide where keys are sent.

    Raises:
        InputError: No platform has the given name, or its file cannot be used.
    """
    if explicit:
        return PlatformChoice(find_platform(explicit, folder), "--platform")
    named = os.environ.get(VARIABLE)
    if named:
        return PlatformChoice(find_platform(named, folder), VARIABLE)
    notices: list[str] = []
    present: list[Platform] = []
    for candidate in (*BUILT_IN, *_declared(app_paths().platforms, notices)):
        if (folder / candidate.lock_name).is_file() and candidate.lock_name not in (
            other.lock_name for other in present
        ):
            present.append(candidate)
    if not present:
        return PlatformChoice(HUD, "the default", tuple(notices))
    taken, *others = present
    if others:
        names = " and ".join([taken.lock_name, *(other.lock_name for other in others)])
        notices.insert(
            0,
            f"{names} are both here; {taken.title} is taken. To take the other: --platform "
            f"{others[0].name}, or {VARIABLE}.",
        )
    return PlatformChoice(taken, taken.lock_name, tuple(notices))


def find_platform(name: str, folder: Path) -> Platform:
    """The platform called `name`: a built-in one, one of the workspace, or one of the user's.

    Raises:
        InputError: No platform has this name, or its file cannot be used.
    """
    wanted = name.strip().lower()
    for platform in BUILT_IN:
        if platform.name == wanted:
            return platform
    files = {**_files(app_paths().platforms), **_files(folder / ".hudtui" / "platforms")}
    if wanted in files:
        return read_platform(files[wanted])
    known = [platform.name for platform in BUILT_IN] + sorted(files)
    near = did_you_mean(wanted, known)
    raise InputError(
        f"there is no platform {name!r}",
        why=f"Known: {', '.join(known)}." + (f" Did you mean {near}?" if near else ""),
        fix=(
            "Declare your own in "
            f"{app_paths().platforms / (wanted if _NAME.match(wanted) else 'NAME')}.yaml."
        ),
    )


def platforms(folder: Path) -> tuple[Platform, ...]:
    """Every platform that can be chosen in this folder: the built-in ones, then declared ones.

    Broken files are left out.
    """
    declared = {platform.name: platform for platform in _declared(app_paths().platforms, [])}
    declared.update(
        {platform.name: platform for platform in _declared(folder / ".hudtui" / "platforms", [])}
    )
    return (*BUILT_IN, *(declared[name] for name in sorted(declared)))


def _files(folder: Path) -> dict[str, Path]:
    try:
        files = sorted(folder.iterdir())
    except OSError:
        return {}
    return {
        file.stem.lower(): file
        for file in files
        if file.suffix in (".yaml", ".yml") and not file.name.startswith(".")
    }


def _declared(folder: Path, notices: list[str]) -> list[Platform]:
    read: list[Platform] = []
    for file in _files(folder).values():
        try:
            read.append(read_platform(file))
        except InputError as error:
            notices.append(f"This platform is left out: {error.lines()[0]}")
    return read


def read_platform(path: Path) -> Platform:
    """A platform from its file; its name is that of the file.

    Raises:
        InputError: The file cannot be read, or a field is unknown or of the wrong kind; with the
            line.
    """
    document = load_yaml(read_text(path), name=str(path), limit=100_000)
    name = path.stem.lower()
    if not _NAME.match(name):
        raise InputError(
            f"{path.stem!r} cannot be the name of a platform",
            fix="Name the file with letters, digits, - and _ only.",
            where=Location(str(path)),
        )
    if name in (platform.name for platform in BUILT_IN):
        raise InputError(
            f"the platform {name} is built in",
            fix=(
                f"Rename this file. To change an address of {name}, set its variable, e.g. "
                f"{name.upper()}_MCP_URL."
            ),
            where=Location(str(path)),
        )
    fields = {} if document.data is None else document.data
    if not isinstance(fields, dict):
        raise InputError("a platform is a mapping of fields", where=document.location())
    known = ("title", "key_variable", "lock_name", "gym_id", "urls", "hosts")
    for key in fields:
        if key not in known:
            near = did_you_mean(key, known)
            hint = f"Did you mean {near}?" if near else f"Known: {', '.join(known)}."
            raise InputError(
                f"a platform has no field {key!r}", fix=hint, where=document.location((key,))
            )
    prefix = re.sub(r"[^A-Z0-9]", "_", name.upper())
    key_variable = _text(document, "key_variable", f"{prefix}_API_KEY")
    if not _VARIABLE.match(key_variable):
        raise InputError(
            f"{key_variable!r} cannot be the name of a variable",
            where=document.location(("key_variable",)),
        )
    lock_name = _text(document, "lock_name", f"{name}.lock.yaml")
    if Path(lock_name).name != lock_name:
        raise InputError(
            "the lock file's name must not hold a folder", where=document.location(("lock_name",))
        )
    urls = _urls(document)
    hosts = fields.get("hosts") or []
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise InputError("hosts is a list of host names", where=document.location(("hosts",)))
    own = urlsplit(urls["mcp"]).hostname if "mcp" in urls else None
    if own is not None and not is_loopback(urls["mcp"]):
        hosts = [own, *hosts]
    return Platform(
        name=name,
        title=_text(document, "title", name),
        key_variable=key_variable,
        lock_name=lock_name,
        gym_id=_text(document, "gym_id", f"{name}-vf-gym"),
        urls=MappingProxyType(urls),
        hosts=tuple(dict.fromkeys(hosts)),
        file=path,
    )


def _text(document: YamlDocument, key: str, default: str) -> str:
    value = (document.data or {}).get(key)
    if value is None:
        return default
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{key} is a text, and this is {value!r}", where=document.location((key,)))
    return value.strip()


def _urls(document: YamlDocument) -> dict[str, str]:
    given = (document.data or {}).get("urls")
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise InputError(
            "urls is a mapping of services to addresses", where=document.location(("urls",))
        )
    urls: dict[str, str] = {}
    for service, url in given.items():
        where = document.location(("urls", service))
        if service not in SERVICES:
            near = did_you_mean(service, SERVICES)
            hint = f"Did you mean {near}?" if near else f"Known: {', '.join(SERVICES)}."
            raise InputError(f"there is no service {service!r}", fix=hint, where=where)
        if not isinstance(url, str) or not is_http_url(url):
            raise InputError(
                f"{url!r} is not an address",
                fix="Write it with http:// or https:// and a host.",
                where=where,
            )
        urls[service] = url
    return urls
