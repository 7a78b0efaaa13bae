"""The facts behind `hudtui doctor`.

Versions, folders, the workspace, programs, keys and the terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import os
import platform as system
import shutil
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hudtui import __version__
from hudtui.core.environment.engine import ENGINE_SETTING, find_engine
from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.extensions import ADDED, entries, extensions
from hudtui.core.paths import app_paths, typed_path
from hudtui.core.plain import to_plain
from hudtui.core.platform import BUILT_IN, HUD, explain_choice
from hudtui.core.settings import Settings, check_settings, load_settings, user_setting
from hudtui.core.text import clean_line
from hudtui.core.workspace import open_workspace

State = Literal["ok", "info", "missing", "problem"]
"""`missing`: something is less comfortable or not possible; `problem`: something is wrong and
should be corrected."""

GROUPS = ("versions", "places", "workspace", "programs", "keys", "terminal")

_GLYPHS: dict[State, str] = {"ok": "✓", "info": " ", "missing": "○", "problem": "✗"}

PROGRAM_TIMEOUT = 30.0
"""Seconds that a program may take to say its version."""


@dataclass(frozen=True)
class Fact:
    """One result of the examination."""

    group: str
    name: str
    value: str
    state: State = "info"
    fix: str | None = None


@dataclass(frozen=True)
class DoctorReport:
    """All results, in the order of `GROUPS`."""

    facts: tuple[Fact, ...]

    @property
    def ok(self) -> bool:
        """True if there is no problem; something may still be missing."""
        return not self.of_state("problem")

    def group(self, name: str) -> tuple[Fact, ...]:
        return tuple(fact for fact in self.facts if fact.group == name)

    def of_state(self, *states: State) -> tuple[Fact, ...]:
        return tuple(fact for fact in self.facts if fact.state in states)

    def lines(self) -> list[str]:
        """Return the report as text.

        The facts of each group, then the missing and faulty parts with their fixes.
        """
        width = max(len(fact.name) for fact in self.facts)
        found: list[str] = []
        for group in GROUPS:
            found += [
                group,
                *(
                    f"  {_GLYPHS[fact.state]} {fact.name:<{width}}  {fact.value}"
                    for fact in self.group(group)
                ),
            ]
        titles: dict[State, str] = {
            "missing": "not there, and what it would be for",
            "problem": "to put right",
        }
        for state, title in titles.items():
            if facts := self.of_state(state):
                found += ["", f"{title}:"]
            for fact in facts:
                stop = "" if fact.value.endswith((".", "?", "!")) else "."
                found.append(
                    f"  {_GLYPHS[state]} {fact.name}: "
                    f"{fact.value}{stop}{f' {fact.fix}' if fact.fix else ''}"
                )
        return found if self.of_state(*titles) else [*found, "", "Nothing is missing."]

    def to_json(self) -> dict[str, object]:
        """The form of `hudtui doctor --json`."""
        return {
            "ok": self.ok,
            **{
                name: [to_plain(fact, without=("group",)) for fact in self.group(name)]
                for name in GROUPS
            },
        }


async def examine(folder: Path) -> DoctorReport:
    """Examine the installation and a project folder, without changing anything or asking a service.

    Args:
        folder: The project folder. A problem in it becomes a fact, not an error.

    Returns:
        A report without secrets.
    """
    facts = [
        *_versions(),
        *_additions(),
        *_places(),
        *_workspace(folder),
        *await _programs(),
        *_keys(folder),
        *_terminal(),
    ]
    facts += await _git(folder)
    return DoctorReport(tuple(sorted(facts, key=lambda fact: GROUPS.index(fact.group))))


def _versions() -> list[Fact]:
    facts = [_own_version()]
    facts.append(Fact("versions", "python", f"{system.python_version()} ({sys.executable})"))
    facts.append(
        Fact("versions", "system", f"{system.system()} {system.release()} {system.machine()}")
    )
    for name in ("textual", "rich", "mcp", "pydantic", "httpx2"):
        version = _version_of(name)
        fix = None if version else "Install hudtui again: a library that it needs is not installed."
        facts.append(
            Fact(
                "versions", name, version or "not installed", "info" if version else "problem", fix
            )
        )
    return facts


def _own_version() -> Fact:
    installed = _version_of("hudtui")
    if installed == __version__:
        return Fact("versions", "hudtui", __version__)
    if installed is None:
        return Fact("versions", "hudtui", f"{__version__}, not installed: run from its source")
    return Fact(
        "versions",
        "hudtui",
        f"{__version__}, but installed as {installed}",
        "problem",
        "Install it again: pip install -e . in its folder.",
    )


def _additions() -> list[Fact]:
    """Return what other packages add to hudtui, and what of it cannot be loaded."""
    facts = []
    for group in ADDED:
        known, kind = extensions(group), group.removeprefix("hudtui.").removesuffix("s")
        for name, place in entries(group).items():
            why = known.broken.get(name)
            facts.append(
                Fact("versions", f"{kind} {clean_line(name, 40)}", clean_line(place, 80))
                if why is None
                else Fact(
                    "versions",
                    f"{kind} {clean_line(name, 40)}",
                    f"cannot be loaded: {clean_line(why, 200)}",
                    "problem",
                    "Install its package again, or remove it.",
                )
            )
    return facts


def _version_of(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _places() -> list[Fact]:
    own = app_paths()
    facts = []
    for name in ("config", "data", "state", "cache"):
        path: Path = getattr(own, name)
        if _can_write(path):
            facts.append(
                Fact("places", name, str(path) if path.is_dir() else f"{path} (not made yet)")
            )
        else:
            fix = "Make it writable for you, or set HUDTUI_HOME to a folder that is."
            facts.append(Fact("places", name, f"{path} cannot be written to", "problem", fix))
    facts.append(
        Fact(
            "places",
            "log",
            str(own.log_file) if own.log_file.is_file() else f"{own.log_file} (nothing logged yet)",
        )
    )
    facts.append(Fact("places", "user settings", _presence(own.settings_file)))
    return facts


def _can_write(path: Path) -> bool:
    """Return True if this user may write to a folder, or to the nearest existing one above it.

    Read-only disks say no even to root.
    """
    while not path.exists() and path != path.parent:
        path = path.parent
    return path.is_dir() and os.access(path, os.W_OK | os.X_OK)


def _presence(path: Path) -> str:
    return str(path) if path.exists() else f"{path} (not there)"


def _workspace(folder: Path) -> list[Fact]:
    facts = []
    try:
        workspace = open_workspace(folder)
        choice = explain_choice(folder)
    except HudtuiError as error:
        return [Fact("workspace", "folder", error.lines()[0], "problem", error.fix)]
    facts.append(Fact("workspace", "folder", str(workspace.folder)))
    facts.append(Fact("workspace", "platform", f"{choice.platform.title} ({choice.reason})"))
    facts.append(Fact("workspace", "own folder", _presence(workspace.state_dir)))
    if not _can_write(workspace.folder):
        fix = (
            "Runs and caches are kept in it: work in a folder that you may write to (hudtui -C "
            "FOLDER)."
        )
        facts.append(Fact("workspace", "folder", "cannot be written to", "problem", fix))
    lock = (
        workspace.relative(workspace.lock)
        if workspace.lock
        else f"{choice.platform.lock_name} (not there)"
    )
    facts.append(Fact("workspace", "lock file", lock))
    facts.append(Fact("workspace", "configs", str(len(workspace.configs))))
    facts.append(Fact("workspace", "task files", str(len(workspace.task_files))))
    facts += [Fact("workspace", "note", notice, "missing") for notice in workspace.notices]
    facts.append(_env_file(workspace.folder / ".env"))
    return facts


def _env_file(path: Path) -> Fact:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return Fact("workspace", ".env", "not there")
    if mode & 0o077:
        return Fact(
            "workspace",
            ".env",
            f"others may read it (mode {mode:04o})",
            "problem",
            f"chmod 600 {path}",
        )
    return Fact("workspace", ".env", f"{path} (mode {mode:04o})", "ok")


async def _git(folder: Path) -> list[Fact]:
    """A problem if git does not ignore `.env`, whose keys could be committed then."""
    git = shutil.which("git")
    if git is None or not (folder / ".env").is_file():
        return []
    # Programs that an unpacked folder's own `.git/config` names are not started.
    harmless = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    code, _ = await _say((git, *harmless, "-C", str(folder), "check-ignore", "-q", ".env"))
    if code != 1:  # 0: ignored; 128: no repository
        return []
    fix = "Add a line `.env` to .gitignore, so that no key is committed."
    return [Fact("workspace", ".env", "git does not ignore it", "problem", fix)]


_PROGRAMS: tuple[tuple[str, Sequence[str], str], ...] = (
    (
        "tmux",
        ("-V",),
        "Without it, runs are plain background processes that cannot be attached to.",
    ),
    ("ssh", ("-V",), "Needed for machines other than this one."),
    ("git", ("--version",), "Needed for environments and packages that come from a repository."),
    ("npx", ("--version",), "Needed for environments that are started with `npx`."),
    ("uv", ("--version",), "Makes training environments faster; without it pip is used."),
)
_ENGINES: tuple[tuple[str, Sequence[str]], ...] = (
    ("docker", ("version", "--format", "{{.Server.Version}}")),
    ("podman", ("version", "--format", "{{.Client.Version}}")),
)


async def _programs() -> list[Fact]:
    facts = list(await asyncio.gather(*(_program(*program) for program in _PROGRAMS)))
    engines = await asyncio.gather(*(_program(name, arguments, "") for name, arguments in _ENGINES))
    installed = [fact for fact in engines if fact.state != "missing"]
    if not installed:
        fix = (
            "Install one to start environments from images. Environments behind an address or a "
            "command work without."
        )
        return [*facts, Fact("programs", "docker or podman", "not found", "missing", fix)]
    # One engine that works is enough, and an engine that merely does not run is not a problem of
    # this installation.
    try:
        used = await asyncio.to_thread(find_engine)
    except InputError as error:
        facts.append(Fact("programs", ENGINE_SETTING, error.what, "problem", error.fix))
    else:
        chosen = f" (from {ENGINE_SETTING})" if user_setting(ENGINE_SETTING) else ""
        facts.append(Fact("programs", "images", f"started with {used}{chosen}", "info"))
    rest: State = "info" if any(fact.state == "ok" for fact in installed) else "missing"
    advice = (
        "Is its service running, and may you use it? It is needed to start environments from "
        "images."
    )
    installed = [
        fact if fact.state == "ok" else Fact("programs", fact.name, fact.value, rest, advice)
        for fact in installed
    ]
    return [*facts, *installed]


async def _program(name: str, arguments: Sequence[str], use: str) -> Fact:
    path = shutil.which(name)
    if path is None:
        return Fact("programs", name, "not found", "missing", use)
    code, text = await _say((path, *arguments))
    first = clean_line(text.strip().partition("\n")[0], 100)
    if code == 0:
        return Fact("programs", name, f"{first or 'no version'} ({path})", "ok")
    if code is None:
        return Fact(
            "programs",
            name,
            f"{path} does not answer",
            "problem",
            f"Try `{name} {' '.join(arguments)}` yourself.",
        )
    why = clean_line(text.strip().rpartition("\n")[2], 160)
    return Fact("programs", name, f"{path} fails: {why or f'exit code {code}'}", "problem")


async def _say(command: Sequence[str]) -> tuple[int | None, str]:
    """Exit code and output of a short command.

    None as the code of a command that does not end in time.
    """
    try:
        child = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        return 126, error.strerror or str(error)
    try:
        output, _ = await asyncio.wait_for(child.communicate(), PROGRAM_TIMEOUT)
    except TimeoutError:
        return None, ""
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
    return child.returncode, output.decode(errors="replace")


def _keys(folder: Path) -> list[Fact]:
    try:
        choice = explain_choice(folder).platform
    except HudtuiError:
        choice = HUD
    settings = load_settings(folder, choice)
    problems = check_settings(settings).problems
    facts = [_key(name, settings, problems) for name, key in settings.keys.items() if key.secret]
    others = (name for name in problems if not settings.keys[name].secret)
    facts += [
        Fact("keys", name, f"{problems[name]} (from {_from(settings, name)})", "problem")
        for name in others
    ]
    words = settings.waiting_words()
    if words and not {name for name, key in settings.keys.items() if key.secret}.issuperset(
        settings.waiting
    ):
        facts.append(Fact("keys", "note", words, "missing", "hudtui trust"))
    facts += [Fact("keys", "note", notice, "problem") for notice in settings.notices]
    path = settings.get("PRIME_SSH_KEY_PATH")
    if path is not None:
        facts.append(_ssh_key(typed_path(path)))
    return facts


def _key(name: str, settings: Settings, problems: Mapping[str, str]) -> Fact:
    key = settings.keys[name]
    if name in problems:
        return Fact(
            "keys",
            name,
            f"{problems[name]} (from {_from(settings, name)})",
            "problem",
            f"hudtui settings set {name}",
        )
    if settings.get(name) is not None:
        return Fact("keys", name, f"set (from {_from(settings, name)})", "ok")
    if settings.waits(name) is not None:
        return Fact("keys", name, ": ".join(settings.lacking(name)), "missing")
    # A key of another platform is not missing here, nor that of a simulator that is not used.
    elsewhere = (
        name in {one.key_variable for one in BUILT_IN} and name != settings.platform.key_variable
    )
    elsewhere |= name == "HUDTUI_SIM_KEY" and "://" not in (settings.get("HUDTUI_SIM") or "")
    return Fact("keys", name, "not set", "info" if elsewhere else "missing", f"For {key.about}.")


def _from(settings: Settings, name: str) -> str:
    place = settings.location(name)
    return str(place) if place is not None else str(settings.origin(name))


def _ssh_key(path: Path) -> Fact:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        return Fact(
            "keys",
            "SSH key",
            f"{path}: {error.strerror}",
            "problem",
            "Download it, or correct PRIME_SSH_KEY_PATH.",
        )
    if mode & 0o077:
        return Fact(
            "keys",
            "SSH key",
            f"{path} may be read by others; ssh refuses it",
            "problem",
            f"chmod 400 {path}",
        )
    return Fact("keys", "SSH key", str(path), "ok")


def _terminal() -> list[Fact]:
    environment = os.environ
    shown = sys.stdout.isatty() or sys.stderr.isatty()
    term = environment.get("TERM", "")
    usable = term not in ("", "dumb")
    state: State = "problem" if shown and not usable else "info"
    facts = [
        Fact(
            "terminal",
            "TERM",
            term or "not set",
            state,
            None if usable else "export TERM=xterm-256color",
        )
    ]
    colours = environment.get("COLORTERM") or "not said; 256 are assumed"
    facts.append(
        Fact(
            "terminal",
            "colours",
            "none wanted (NO_COLOR)" if environment.get("NO_COLOR") else colours,
        )
    )
    if shown:
        size = shutil.get_terminal_size()
        small = size.columns < 60 or size.lines < 20
        fix = "The app needs at least 60x20." if small else None
        facts.append(
            Fact(
                "terminal",
                "size",
                f"{size.columns}x{size.lines}",
                "problem" if small else "ok",
                fix,
            )
        )
    else:
        facts.append(Fact("terminal", "size", "no terminal"))
    encoding = sys.getfilesystemencoding()
    locale = (
        environment.get("LC_ALL")
        or environment.get("LC_CTYPE")
        or environment.get("LANG")
        or "not set"
    )
    utf8 = "utf-8" in locale.lower() or "utf8" in locale.lower()
    fix = None if utf8 else "export LC_ALL=C.UTF-8, or lines and marks may show as question marks."
    facts.append(
        Fact("terminal", "locale", f"{locale}, {encoding}", "ok" if utf8 else "missing", fix)
    )
    inside = [
        word
        for word, name in (("tmux", "TMUX"), ("screen", "STY"), ("ssh", "SSH_CONNECTION"))
        if environment.get(name)
    ]
    facts.append(Fact("terminal", "inside", ", ".join(inside) or "nothing"))
    return facts
