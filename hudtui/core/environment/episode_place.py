"""What belongs to one episode alone: its folder, its id and its port.

A server's configuration names them as variables: `${EPISODE_DIR}` is an empty folder,
`${EPISODE_DIR:templates/words}` a copy of the folder `templates/words` of the project, which other
programs take for that folder itself; `${EPISODE_ID}` and `${EPISODE_PORT}` have no default.

A place lasts as long as a connection. A server that names one of the variables is therefore never
kept for another episode (`is_per_episode`). The folder goes with the connection, or, where its
process was killed, when the next place is made.
"""

from __future__ import annotations

import asyncio
import fcntl
import functools
import hashlib
import logging
import os
import secrets
import shutil
import socket
import stat
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hudtui.core.environment.servers import ENGINES, ServerSpec
from hudtui.core.errors import InputError, Location, SourceError
from hudtui.core.files import open_file, remove_folder, temporary_path
from hudtui.core.paths import app_paths, private_folder, typed_path
from hudtui.core.text import plural
from hudtui.core.variables import (
    EPISODE_DIR,
    EPISODE_ID,
    EPISODE_PORT,
    EPISODE_VARIABLES,
    Lookup,
    Reference,
    references,
    variable_names,
)

_LOOPBACK = "127.0.0.1"
CARRIED = "files/templates"
"""Folder of a run that holds the templates of its tasks, each under its `template_key`."""

_log = logging.getLogger("hudtui.environment")

MOST_FILES = 10_000
MOST_BYTES = 1 << 30
"""Largest size of a template, which is copied for every episode."""


@dataclass
class EpisodePlace:
    """The place of one episode."""

    id: str
    folder: Path | None = None
    """Value of `${EPISODE_DIR}`; None where no server names it."""
    port: int | None = None
    keep: bool = False
    """The folder stays when the connection closes, if it is wanted of failed episodes."""

    def lost_its_port(self) -> bool:
        """Return True if another program has taken the port since it was found to be free."""
        if self.port is None:
            return False
        with socket.socket() as probe:
            # Closed connections of a server that has ended do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_LOOPBACK, self.port))
            except OSError:
                return True
        return False

    def over(self, lookup: Lookup) -> Lookup:
        """`lookup`, with the values of this episode."""
        own = {EPISODE_ID: self.id, EPISODE_DIR: self.folder, EPISODE_PORT: self.port}
        values = {name: None if value is None else str(value) for name, value in own.items()}
        return lambda name: values[name] if name in EPISODE_VARIABLES else lookup(name)


def is_per_episode(config: Mapping[str, Any]) -> bool:
    """True if a server of an `mcp_config` names a variable of the episode."""
    return bool(EPISODE_VARIABLES & set(variable_names(config)))


def has_own_folder(config: Mapping[str, Any]) -> bool:
    """True if a server of an `mcp_config` names the folder of the episode."""
    return EPISODE_DIR in variable_names(config)


def template_names(config: Any, lookup: Lookup) -> tuple[str, ...]:
    """The template folders that an `mcp_config` names, as they are written, each once."""
    named = (default for name, default in references(config, lookup) if name == EPISODE_DIR)
    return tuple(dict.fromkeys(filter(None, named)))


def template_name(config: Any, lookup: Lookup) -> str | None:
    """The one template that the servers of an `mcp_config` name; None without one.

    Raises:
        SourceError: They name several, or a variable that has no default has one.
    """
    return _template(one for one in references(config, lookup) if one[0] in EPISODE_VARIABLES)


def template_key(name: str) -> str:
    """The name under which a run carries a template."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def find_template(name: str, folder: Path) -> Path:
    """The folder that a task names as its template.

    Args:
        name: As it is written.
        folder: The project folder, or that of a run, which carries the templates of its tasks.

    Raises:
        SourceError: There is no such folder; or the name seems to lie in the project, and a link
            leads out of it.
    """
    carried = folder / CARRIED / template_key(name)
    if carried.is_dir():
        return carried
    written = typed_path(name)
    path = folder / written
    where = Location("mcp_config", field=EPISODE_DIR)
    if not path.is_dir():
        raise SourceError(
            f"the template of the episodes' folders, {name}, is no folder",
            why=f"{path} {'is a file' if path.exists() else 'does not exist'}.",
            fix="Make it, or write ${EPISODE_DIR} alone: every episode then has an empty folder.",
            where=where,
        )
    inside = not written.is_absolute() and ".." not in written.parts
    if inside and not path.resolve().is_relative_to(folder.resolve()):
        raise SourceError(
            f"the template of the episodes' folders, {name}, is a link out of the project",
            fix=f"Write where it leads to: ${{EPISODE_DIR:{path.resolve()}}}.",
            where=where,
        )
    return path


def template_files(template: Path) -> tuple[Path, ...]:
    """The files and links of a template, relative to it, sorted.

    Raises:
        SourceError: A link leads out of it, it holds what is neither file nor folder, it is too
            large, or it cannot be read.
    """
    root, size = template.resolve(), 0
    files: list[Path] = []

    def refuse(error: OSError) -> None:
        raise error

    try:
        for parent, folders, names in os.walk(template, onerror=refuse):
            for name in (*folders, *names):
                path = Path(parent, name)
                if path.is_symlink():
                    _check_link(path, root)
                elif name in folders:
                    continue
                status = path.lstat()
                if not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
                    raise SourceError(
                        f"the template holds what is neither a file nor a folder: {path}",
                        why="A pipe, a socket or a device cannot be copied for an episode.",
                        fix="Name a folder without it as the template.",
                    )
                size += status.st_size
                files.append(path.relative_to(template))
            if len(files) > MOST_FILES or size > MOST_BYTES:
                raise SourceError(
                    f"the template {template} is too large to be copied for every episode",
                    why=f"It has more than {plural(MOST_FILES, 'file')} or {MOST_BYTES >> 30} GiB.",
                )
    except OSError as error:
        raise SourceError(
            f"the template {template} cannot be read", why=error.strerror or str(error)
        ) from None
    return tuple(sorted(files))


def _check_link(path: Path, root: Path) -> None:
    """Refuse a link through which episodes would share what is not in their folders."""
    # `Path.resolve` raises on links that lead to each other.
    target = Path(os.path.realpath(path))
    if os.path.isabs(os.readlink(path)) or not target.is_relative_to(root):
        raise SourceError(
            f"the template has a link that leads out of it: {path}",
            why="Every episode would use the same file there.",
            fix="Put a copy in its place, or a relative link inside the template.",
        )


@asynccontextmanager
async def episode_place(
    specs: Iterable[ServerSpec], folder: Path, lookup: Lookup, *, kept: Path | None = None
) -> AsyncIterator[EpisodePlace | None]:
    """The place of an episode for the length of the block; None where no server names one.

    Args:
        specs: The servers, variables as written.
        folder: The project folder, in which templates lie.
        lookup: Values of variables in the names of templates.
        kept: Gets the folders of failed episodes, each under the episode's id; None: none are kept.

    Raises:
        SourceError: A template cannot be used, or a server gives a variable a default that has
            none.
        InputError: The folder cannot be made.
    """
    specs = tuple(specs)
    named = [one for spec in specs for one in references(_texts(spec), lookup)]
    own = [one for one in named if one[0] in EPISODE_VARIABLES]
    if not own:
        yield None
        return
    template = _template(own)
    names = {name for name, _ in own}
    base = await asyncio.to_thread(_new_base)
    place = EpisodePlace(secrets.token_hex(8))
    try:
        if EPISODE_DIR in names:
            shared = any(Path(spec.command or "").name in ENGINES for spec in specs)
            place.folder = await _make(base, template, folder, open_to_all=shared)
        if EPISODE_PORT in names:
            place.port = _take_port()
        yield place
    except asyncio.CancelledError:
        raise
    except BaseException:
        place.keep = True
        raise
    finally:
        _give_back(place.port)
        if place.folder is not None:
            target = kept / place.id if kept is not None and place.keep else None
            await asyncio.shield(asyncio.to_thread(_put_away, base, place.folder, target))


def _texts(spec: ServerSpec) -> list[Any]:
    """The texts of a server in which variables are put in."""
    command = [] if spec.literal else [spec.command or "", *spec.args]
    return [*command, spec.cwd or "", dict(spec.env), spec.url or "", dict(spec.headers)]


def _template(named: Iterable[Reference]) -> str | None:
    """The one template that the servers of a task name.

    Raises:
        SourceError: They name several, or a variable that has no default has one.
    """
    named = tuple(named)
    templates = dict.fromkeys(default for name, default in named if name == EPISODE_DIR)
    templates.pop("", None)
    for name, default in named:
        if default and name != EPISODE_DIR:
            raise SourceError(
                f"${{{name}:{default}}} has a default, and {name} always has a value",
                fix=f"Write ${{{name}}}.",
                where=Location("mcp_config", field=name),
            )
    if len(templates) > 1:
        first, second, *_ = templates
        raise SourceError(
            f"an episode has one folder, and its servers name two templates: {first} and {second}",
            fix="Put both into one folder, and write ${EPISODE_DIR:FOLDER}/NAME.",
            where=Location("mcp_config", field=EPISODE_DIR),
        )
    return next(iter(templates), None)


async def _make(base: Path, template: str | None, folder: Path, *, open_to_all: bool) -> Path:
    """Make the folder of an episode, inside a folder for this user alone."""

    def make() -> Path:
        source = None if template is None else find_template(template, folder)
        if source is not None:
            template_files(source)
            _require_outside(base, source)
        base.mkdir(mode=0o700)
        made = base / "files"
        if source is None:
            made.mkdir()
        else:
            shutil.copytree(source, made, symlinks=True, copy_function=_copy)
        if open_to_all:
            _open_to_all(made)
        return made

    making = asyncio.create_task(asyncio.to_thread(make))
    try:
        return await asyncio.shield(making)
    except BaseException as error:
        # After a cancellation the thread goes on: what it makes then would stay as long as this
        # process runs.
        await asyncio.gather(making, return_exceptions=True)
        await asyncio.to_thread(remove_folder, base)
        if not isinstance(error, OSError):
            raise
        raise InputError(
            "the folder of an episode cannot be made",
            why=_first_reason(error),
            where=Location(str(base)),
        ) from None


def _first_reason(error: OSError) -> str:
    if isinstance(error, shutil.Error):  # it lists each file that was not copied
        return str(error.args[0][0][2])
    return error.strerror or str(error)


def _new_base() -> Path:
    """Return a name for the folder around that of an episode.

    Raises:
        InputError: No folder for temporary files can be written to.
    """
    try:
        return temporary_path(Path(tempfile.gettempdir(), "hudtui-episode"))
    except OSError as error:
        raise InputError(
            "there is no folder for the folders of episodes",
            why=error.strerror or str(error),
            fix="Free space there, or set TMPDIR to a folder that can be written to.",
        ) from None


def _require_outside(base: Path, template: Path) -> None:
    """Refuse a template in which the copies themselves would lie: copying it would not end."""
    if base.parent.resolve().is_relative_to(template.resolve()):
        raise SourceError(
            f"the template {template} holds the folder for temporary files, {base.parent}",
            why="Each episode would copy the folders of the others.",
            fix="Name a smaller folder as the template, or set TMPDIR to one outside of it.",
        )


def _copy(source: str, target: str) -> None:
    """Copy a regular file as long as it is now: a system's file may have no end."""
    with open_file(source) as stream, open(target, "xb") as copy:
        rest = os.fstat(stream.fileno()).st_size
        while rest > 0 and (piece := stream.read(min(rest, 1 << 20))):
            copy.write(piece)
            rest -= len(piece)
    shutil.copymode(source, target)


def _open_to_all(folder: Path) -> None:
    """Let every user write in a folder: a container may run as any. Above it only ours may pass."""
    for parent, _, names in os.walk(folder):
        os.chmod(parent, 0o777)
        for path in (Path(parent, name) for name in names):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o666)


_TAKEN: set[int] = set()
"""Ports of the places of this process: their servers may not listen yet."""


def _take_port() -> int:
    """A port that nothing listens at, and that no place of this user has.

    Between two processes it holds by a lock on one byte of a file, which ends with its process:
    their servers would otherwise meet where neither listens yet.
    """
    while True:
        with socket.socket() as probe:
            probe.bind((_LOOPBACK, 0))
            port = int(probe.getsockname()[1])
        if port not in _TAKEN and _lock_port(port):
            _TAKEN.add(port)
            return port


def _give_back(port: int | None) -> None:
    if port is not None:
        _lock_port(port, keep=False)
        _TAKEN.discard(port)


def _lock_port(port: int, *, keep: bool = True) -> bool:
    """Lock the port's byte, or unlock it; returns False where another process has it."""
    file = _port_file(app_paths().state / "ports")
    if file is not None:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB if keep else fcntl.LOCK_UN, 1, port)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # a file system without locks
            return True
    return True


@functools.cache
def _port_file(path: Path) -> int | None:
    """The file of the locks, open as long as this process runs: closing it would free all."""
    try:
        private_folder(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None


def _put_away(base: Path, folder: Path, target: Path | None) -> None:
    """Remove the folder of an episode, or keep it as `target`."""
    try:
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(folder, target)
    finally:
        if not remove_folder(base):
            _log.warning("a folder of an episode cannot be removed: %s", base)
