"""The demo's own Prime Intellect.

A simulator in the background, started before machines are first asked for there. It is a process of
its own (`python -m hudtui.sim`), so that rented machines outlive the app, and it ends by itself
after a while without a request and without a rented machine. What is known of it is in its folder:
`lock` is held while it lives, and `server.json`, which other users cannot read, says where it
answers and to which key.
"""

from __future__ import annotations

import fcntl
import json
import select
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hudtui.core.compute.prime.entry import DEMO, SIMULATOR
from hudtui.core.compute.provider import ProviderError
from hudtui.core.paths import app_paths, private_folder
from hudtui.core.python import python_command
from hudtui.core.text import clean_line

STANDS_FOR = "prime"
"""The provider in whose place a simulator stands."""
IDLE = 900
"""Seconds without a request and without a rented machine after which it ends."""
_PATIENCE = 30.0
"""Seconds for it to start."""
_started: list[subprocess.Popen[bytes]] = []
"""Kept, because Python complains of a process that it forgets while it runs."""


@dataclass(frozen=True)
class DemoSimulator:
    """A simulator that lives."""

    url: str
    key: str = field(repr=False)


def ensure_simulator(lookup: Callable[[str], str | None]) -> None:
    """Start the demo's simulator where `HUDTUI_SIM` asks for it and it does not live.

    Otherwise do nothing.
    Blocks as `start_simulator` does: an event loop calls it in a thread.

    Raises:
        ProviderError: It does not start.
    """
    if lookup(SIMULATOR) == DEMO:
        start_simulator()


def find_simulator(folder: Path | None = None) -> DemoSimulator | None:
    """The demo's simulator; None where it does not live. Nothing is started.

    Raises:
        ProviderError: Its folder cannot be read.
    """
    try:
        return _running(folder or _folder())
    except OSError as error:
        raise ProviderError(
            "the demo's simulator cannot be found", why=error.strerror or str(error)
        ) from None


def start_simulator(folder: Path | None = None) -> DemoSimulator:
    """The demo's simulator, which is started if it does not live.

    Blocks for a second in that case, for 30 at most.

    Raises:
        ProviderError: It does not start.
    """
    folder = folder or _folder()
    try:
        private_folder(folder)
        with (folder / "starting").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)  # two that begin at once
            return _running(folder) or _start(folder)
    except OSError as error:
        raise ProviderError(
            "the demo's simulator cannot be started", why=error.strerror or str(error)
        ) from None


def _folder() -> Path:
    return app_paths().state / "simulator"


def _running(folder: Path) -> DemoSimulator | None:
    try:
        with (folder / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
    except FileNotFoundError:
        return None
    except BlockingIOError:
        try:
            return _told((folder / "server.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None  # it is about to say where it answers


def _told(line: str | bytes) -> DemoSimulator:
    told = json.loads(line)
    return DemoSimulator(str(told["url"]), str(told["key"]))


def _start(folder: Path) -> DemoSimulator:
    (folder / "server.json").unlink(missing_ok=True)
    words = [
        *python_command("-m", "hudtui.sim"),
        "--state",
        str(folder),
        "--now",
        "--scenario",
        "quick",
        "--idle",
        str(IDLE),
    ]
    log = folder / "simulator.log"
    # The log's descriptor and the pipe are all that it shares with whoever started it: it has to
    # outlive them.
    with log.open("wb") as errors:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            cwd=folder,
        )
    assert process.stdout is not None
    with process.stdout as told:
        ready = select.select([told], [], [], _PATIENCE)[0]
        line = told.readline() if ready else b""
    try:
        started = _told(line)
    except (ValueError, KeyError, TypeError):
        process.kill()
        process.wait()
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        why = clean_line(said[-1], 300) if said else "it said nothing"
        raise ProviderError(
            "the demo's simulator did not start", why=why, fix=f"Its log: {log}"
        ) from None
    _started.append(process)
    return started
