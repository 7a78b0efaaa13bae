"""One MCP server as a configuration describes it, and the use of its variables.

A configuration maps names to servers, as in a task's `mcp_config`:

    {"local": {"command": "docker", "args": ["run", "--rm", "-i", "org/env:1.0"], "env": {"KEY":
    "$KEY"}},
     "hud": {"url": "https://mcp.example/v3/mcp", "headers": {"Authorization": "Bearer
     $HUD_API_KEY"}},
     "own": {"command": "npx", "args": ["-y", "@org/server"], "env": {"PORT": "${EPISODE_PORT}"},
     "url": "http://127.0.0.1:${EPISODE_PORT}/mcp"}}

A server with both is a program that is started, and then reached at its address.

Variables stay as written until a connection is opened. What they stand for never goes back into a
value that is kept or shown: `Secrets` takes it out of texts again.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from hudtui.core.errors import Location, SourceError
from hudtui.core.http import is_loopback
from hudtui.core.masking import MASK, looks_secret, mask_text, mask_url, names_secret
from hudtui.core.text import clean_line
from hudtui.core.variables import (
    EPISODE_ID,
    EPISODE_PORT,
    EPISODE_VARIABLES,
    Lookup,
    substitute_tree,
    variable_names,
)

ENGINES = ("docker", "podman")
"""The container engines, the first preferred."""

_FOREIGN = re.compile(
    # Variables as other programs write them: of editors, of PowerShell, of Windows. Formats such as
    # %Y%m%d are none.
    r"\$\{(?P<kind>env|input|config|command|secret|secrets|vault|file|os):(?P<name>[^{}]*)\}"
    r"|\$(?P<shell>env):(?P<bare>[A-Za-z_]\w*)"
    r"|%(?P<windows>[A-Za-z_][A-Za-z0-9_]{2,})%",
    re.IGNORECASE,
)
_ENCODED = re.compile(r"[0-9A-Fa-f]{2}")
_DEFAULT_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")


@dataclass(frozen=True)
class ServerSpec:
    """The way to one server: a command to start, a URL, or a command and the URL it listens at."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables for the child, over the few that every child gets."""
    pass_on: tuple[str, ...] = ()
    """Names of variables that the child gets with our value, where there is one."""
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    sse: bool = False
    """Use the older transport of separate event streams instead of streamable HTTP."""
    literal: bool = False
    """The command came from a shell: dollar signs in it are not variables."""
    contained: bool = False
    """The command is our own `docker run` or `podman run`: its container gets a name, and goes when
    the client is killed."""

    @property
    def image(self) -> str | None:
        """The container image that it runs.

        From a `Mcp-Image` header, or from a docker or podman command.
        """
        for name, value in self.headers.items():
            if name.lower() == "mcp-image":
                return value
        if self.command and os.path.basename(self.command) in ENGINES and "run" in self.args:
            start = self.args.index("run") + 1
            place = image_place(self.args, start)
            return None if place is None else self.args[place]
        return None

    @property
    def where(self) -> str:
        """Command or URL in a few words, secrets masked."""
        if self.command is None:
            return mask_url(self.url or "")
        return mask_text(shlex.join([self.command, *self.args]))

    @property
    def listens(self) -> bool:
        """True if its program is started here, and answers at its URL."""
        return self.command is not None and self.url is not None

    def to_start(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the command to start, and the command that removes what it may leave behind.

        The second is empty for most.
        """
        command = (self.command or "", *self.args)
        if not self.contained:
            return command, ()
        container = f"hudtui-{secrets.token_hex(6)}"
        return (*command[:2], "--name", container, *command[2:]), (
            command[0],
            "rm",
            "-f",
            "-v",
            container,
        )

    def to_config(self) -> dict[str, Any]:
        """The entry of an `mcp_config`, variables as written."""
        entry: dict[str, Any] = {}
        if self.command is not None:
            entry |= {"command": self.command, "args": list(self.args)}
            if self.env:
                entry["env"] = dict(self.env)
            if self.cwd:
                entry["cwd"] = self.cwd
        if self.url is not None:
            entry["url"] = self.url
            if self.headers:
                entry["headers"] = dict(self.headers)
            if self.sse and not self.url.rstrip("/").endswith("/sse"):
                entry["transport"] = "sse"
        return entry


class Secrets:
    """Values that must not be shown.

    Masked in every text on its way to a message, a cache or a log.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: set[str] = set()
        self.add(*values)

    def add(self, *values: str) -> None:
        """Add values and their words.

        Those under six characters are left out: masking every "1" would only garble a text.
        """
        for value in values:
            for part in (value, *value.split()):
                if len(part) >= 6 and part.lower() not in ("bearer", "latest"):
                    self._values.add(part)

    def hide(self, text: str) -> str:
        """`text` with every value masked."""
        for value in sorted(self._values, key=len, reverse=True):
            text = text.replace(value, MASK)
        return text

    def hide_tree(self, value: Any) -> Any:
        """`value` with every text in nested dicts and lists masked, keys included."""
        if not self._values:
            return value
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, Mapping):
            return {self.hide(str(key)): self.hide_tree(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.hide_tree(item) for item in value]
        return value


WRAPPERS = ("mcpServers", "mcp_config", "servers")
"""Keys under which files of MCP clients hold their servers."""


def parse_mcp_config(config: Any, name: str) -> tuple[ServerSpec, ...]:
    """The servers of a configuration.

    Args:
        config: A mapping of names to servers, the same under `mcpServers` or `mcp_config`, or a
            single server.
        name: What errors call it, usually the file.

    Raises:
        SourceError: It holds no server, or a server that cannot be understood; the error names the
            field.
    """
    if isinstance(config, Mapping):
        for wrapper in WRAPPERS:
            inner = config.get(wrapper)
            if isinstance(inner, str):
                from hudtui.core.files import parse_json

                inner = parse_json(inner, name)
            if isinstance(inner, Mapping):
                config = inner
                break
        if isinstance(config.get("command"), str) or isinstance(config.get("url"), str):
            config = {"server": config}
    if not isinstance(config, Mapping) or not config:
        raise SourceError(
            "this holds no MCP servers",
            fix=(
                'Give an object such as {"name": {"command": "...", "args": []}} or {"name": '
                '{"url": "https://..."}}.'
            ),
            where=Location(name),
        )
    return tuple(_read_server(str(key), entry, name) for key, entry in config.items())


def _read_server(key: str, entry: Any, name: str) -> ServerSpec:
    def wrong(what: str, field_name: str = "", fix: str | None = None) -> SourceError:
        place = Location(name, field=f"{key}.{field_name}" if field_name else key)
        return SourceError(what, fix=fix, where=place)

    if not isinstance(entry, Mapping):
        raise wrong("a server must be an object with `command` or `url`")
    _refuse_foreign_variables(entry, wrong)
    url, command = entry.get("url"), entry.get("command")
    headers: dict[str, str] = {}
    sse = False
    if url is not None:
        if not isinstance(url, str):
            raise wrong("this must be text", "url")
        headers = _texts(entry.get("headers"), wrong, "headers")
        for header, value in headers.items():
            check_header(header, value, f"{key}.headers", name)
        kind = entry.get("transport", entry.get("type"))
        if not (variable_names(url) or url.startswith(("http://", "https://", "ws://", "wss://"))):
            raise wrong(
                "an address begins with http://, https://, ws:// or wss://, not "
                f"{url.split(':')[0][:20]!r}",
                "url",
            )
        sse = kind == "sse" or _path(url).endswith("/sse")
        if command is None:
            return ServerSpec(key, url=url, headers=headers, sse=sse)
    if not isinstance(command, str) or not command.strip():
        raise wrong("a server needs `command` (a program to start) or `url`")
    if (problem := listening_problem(entry)) is not None:
        raise wrong(problem.what, problem.field, problem.fix)
    args = entry.get("args") or []
    if not isinstance(args, list | tuple) or any(
        not isinstance(arg, str | int | float) or isinstance(arg, bool) for arg in args
    ):
        raise wrong("this must be a list of texts", "args")
    cwd = entry.get("cwd")
    if cwd is not None and not isinstance(cwd, str):
        raise wrong("this must be text", "cwd")
    return ServerSpec(
        key,
        command=command,
        args=tuple(str(arg) for arg in args),
        env=_texts(entry.get("env"), wrong, "env"),
        cwd=cwd,
        url=url,
        headers=headers,
        sse=sse,
    )


class ListeningProblem(NamedTuple):
    """What is wrong with a server that has both a command and a URL."""

    field: str
    what: str
    fix: str


def listening_problem(entry: Mapping[str, Any]) -> ListeningProblem | None:
    """Return why the program of an entry cannot be started and reached at the entry's URL.

    None where it can, and for an entry that has not both. Variables of the address that are not of
    the episode are looked at when they have their values (`fill_variables`).
    """
    url = entry.get("url")
    if not isinstance(url, str) or not isinstance(entry.get("command"), str):
        return None
    kind = entry.get("transport", entry.get("type"))
    if kind == "stdio":
        field_name = "transport" if "transport" in entry else "type"
        what = "a server that is reached at its `url` does not speak over its standard streams"
        return ListeningProblem(field_name, what, "Leave out one of the two.")
    command = {name: entry.get(name) for name in ("command", "args", "env", "cwd")}
    told = EPISODE_VARIABLES & set(variable_names(command))
    asked = EPISODE_PORT in variable_names(url)
    if told and not asked:
        what = f"each episode starts this program by its own {sorted(told)[0]}, at one address"
        fix = "Write ${EPISODE_PORT} for the port in `url`, and tell the program of it."
        return ListeningProblem("url", what, fix)
    if asked and EPISODE_PORT not in told:
        what = "nothing tells the program the port of its episode, which `url` has"
        fix = "Write ${EPISODE_PORT} in `args` or `env` as well, as the program takes it."
        return ListeningProblem("command", what, fix)
    known, left = substitute_tree(url, {EPISODE_PORT: "1024", EPISODE_ID: "0"}.get)
    return None if left else _address_problem(known, written=url)


def _address_problem(url: str, *, written: str) -> ListeningProblem | None:
    if not is_loopback(url):
        shown = clean_line(mask_url(written), 100)
        what = f"the program is started on this machine, and {shown} is an address of another"
        fix = "Write 127.0.0.1, or leave out `command` if the server runs there already."
        return ListeningProblem("url", what, fix)
    if url_port(url) is None:
        what = f"{clean_line(mask_url(written), 100)} has no port that a program can listen at"
        return ListeningProblem("url", what, "Write a port from 1 to 65535, or ${EPISODE_PORT}.")
    return None


def url_port(url: str) -> int | None:
    """The port of an address, by its scheme where it names none; None where it is no port."""
    try:
        parts = urlsplit(url)
        port = parts.port if parts.port is not None else _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    return port or None


def _refuse_foreign_variables(
    entry: Mapping[str, Any], wrong: Callable[[str, str], SourceError]
) -> None:
    """Refuse another program's spelling of a variable.

    `${env:X}` would be the variable `env` with the default `X`.
    """
    texts = [(name, entry.get(name)) for name in ("url", "command", "cwd")]
    texts += (
        [("args", arg) for arg in entry["args"]]
        if isinstance(entry.get("args"), list | tuple)
        else []
    )
    for field_name in ("env", "headers"):
        if isinstance(given := entry.get(field_name), Mapping):
            texts += [(f"{field_name}.{name}", value) for name, value in given.items()]
    for field_name, text in texts:
        for variable in _FOREIGN.finditer(text) if isinstance(text, str) else ():
            if field_name == "url" and variable["windows"] and _ENCODED.match(variable["windows"]):
                continue  # as in %C3BC%20, which is no variable
            kind = (variable["kind"] or variable["shell"] or "env").lower()
            name = variable["name"] or variable["bare"] or variable["windows"]
            error = wrong(
                f"{variable[0]} is a variable as another program writes it, and hudtui does not "
                "know it",
                field_name,
            )
            plain = re.sub(r"\W+", "_", name or "").strip("_")
            word = plain if kind == "env" or not plain else plain.upper()
            if word and not word[0].isdigit() and kind not in ("config", "command", "file"):
                error.fix = f"Write ${{{word}}}, and put {word}=... into .env or the environment."
            else:
                error.fix = (
                    "Write what it stands for, or a variable such as ${NAME} with NAME=... in .env "
                    "or the environment."
                )
            raise error


def check_header(header: str, value: str, field_name: str, name: str) -> None:
    """Refuse what cannot stand in an HTTP request.

    Raises:
        SourceError: The name holds a character that header names may not hold, or the value a line
            break.
    """
    if not _HEADER_NAME.match(header):
        raise SourceError(
            f"{header!r} cannot be the name of a header", where=Location(name, field=field_name)
        )
    if any(ord(letter) < 32 and letter != "\t" for letter in value):
        raise SourceError(
            f"the value of the header {header} holds a line break or another control character",
            where=Location(name, field=field_name),
        )


def fill_variables(
    spec: ServerSpec, lookup: Lookup, hidden: Secrets
) -> tuple[ServerSpec, tuple[str, ...]]:
    """`spec` with its variables put in, for use right now.

    Args:
        spec: As written.
        lookup: Gives the value of a variable.
        hidden: Takes note of the values of variables and headers whose names speak of keys, tokens
            and the like.

    Returns:
        The server, and warnings about variables that have no value where the server can be started
        all the same.

    Raises:
        SourceError: A variable of the URL or of a header has no value: the server would be asked
            with a broken key.
    """
    warnings: list[str] = []

    def watched(name: str) -> str | None:
        value = lookup(name)
        if value and looks_secret(name):
            hidden.add(value)
        return value

    env = {name: value for name in spec.pass_on if (value := watched(name)) is not None}
    if spec.url is not None:
        url, open_url = substitute_tree(spec.url, lookup)
        headers, open_headers = substitute_tree(dict(spec.headers), watched)
        missing = tuple(dict.fromkeys((*open_url, *open_headers)))
        if missing:
            holder = next(
                (
                    header
                    for header, value in spec.headers.items()
                    if set(variable_names(value)) & set(missing)
                ),
                None,
            )
            raise SourceError(
                f"{_listed(missing)} not set, and "
                f"{f'the header {holder}' if holder else 'the address'} of the server "
                f"{spec.name!r} needs {'it' if len(missing) == 1 else 'them'}",
                fix=f"Put {missing[0]}=... into .env or the environment.",
            )
        hidden.add(*(value for header, value in headers.items() if names_secret(header)))
        for header, value in headers.items():
            check_header(header, value, f"{spec.name}.headers", "mcp_config")
        _refuse_in_the_clear(spec, url)
        spec = replace(spec, url=url, headers=headers)
        if spec.command is None:
            return spec, ()
        if (problem := _address_problem(url, written=url)) is not None:
            place = Location("mcp_config", field=f"{spec.name}.{problem.field}")
            raise SourceError(problem.what, fix=problem.fix, where=place)
    given, unresolved = substitute_tree(dict(spec.env), watched)
    for name, value in spec.env.items():
        if open_names := set(variable_names(value)) & set(unresolved):
            del given[name]
            warnings.append(
                f"{_listed(sorted(open_names))} not set: the server {spec.name!r} starts without "
                f"{name}"
            )
    hidden.add(*(value for name, value in given.items() if names_secret(name)))
    command: list[str] = [spec.command or "", *spec.args]
    cwd = spec.cwd
    if not spec.literal:
        (cwd, command), unresolved = substitute_tree((spec.cwd, command), watched)
        if unresolved:
            warnings.append(
                f"{_listed(unresolved)} not set: left as written in the command of the server "
                f"{spec.name!r}"
            )
    args = tuple(command[1:])
    filled = replace(spec, command=command[0], args=args, cwd=cwd, env={**env, **given})
    return filled, tuple(warnings)


def _refuse_in_the_clear(spec: ServerSpec, url: str) -> None:
    """Refuse to send a key over plain http to another machine.

    Everybody on the way may read it there.
    """
    if not url.startswith(("http://", "ws://")) or is_loopback(url):
        return
    holders = [
        f"the header {name}" for name, value in spec.headers.items() if _holds_secret(name, value)
    ]
    if mask_url(url) != url or any(map(looks_secret, variable_names(spec.url or ""))):
        holders.append("the address")
    if holders:
        raise SourceError(
            f"{mask_url(url)} would carry a key in the clear: {holders[0]} of the server "
            f"{spec.name!r} holds one",
            fix="Use https, or a tunnel to a port of this machine (ssh -L), or leave the key out.",
        )


def _holds_secret(name: str, value: str) -> bool:
    return bool(value) and (names_secret(name) or any(map(looks_secret, variable_names(value))))


def _texts(value: Any, wrong: Callable[[str, str], SourceError], field_name: str) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong("this must be an object of texts", field_name)
    texts: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(item, bool):
            item = "true" if item else "false"
        if not isinstance(item, str | int | float):
            raise wrong("this must be text", f"{field_name}.{key}")
        texts[str(key)] = str(item)
    return texts


def _path(url: str) -> str:
    return url.partition("?")[0].rstrip("/")


def _listed(names: Iterable[str]) -> str:
    words = list(names)
    return f"{words[0]} is" if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]} are"


# Options of `docker run` and `podman run` that stand alone; every other takes the next argument, or
# its value after "=".
_ALONE = frozenset(
    (
        *(
            "--detach",
            "--disable-content-trust",
            "--init",
            "--interactive",
            "--no-healthcheck",
            "--oom-kill-disable",
            "--privileged",
        ),
        *(
            "--publish-all",
            "--quiet",
            "--read-only",
            "--rm",
            "--replace",
            "--sig-proxy",
            "--tty",
            "--tls-verify",
        ),
    )
)
_ALONE_SHORT = re.compile(r"-[ditPq]+\Z")

NEVER_PULL = "--pull=never"
"""Option of container engines: an image that is not on this computer is an error."""


def image_place(args: tuple[str, ...], start: int) -> int | None:
    """The index of the image in the arguments of `docker run`; its options begin at `start`."""
    skip = False
    for place, arg in enumerate(args[start:], start):
        if skip:
            skip = False
        elif not arg.startswith("-"):
            return place
        else:
            skip = not (
                "=" in arg
                or arg in _ALONE
                or _ALONE_SHORT.match(arg)
                or (arg[1] != "-" and len(arg) > 2)
            )
    return None
