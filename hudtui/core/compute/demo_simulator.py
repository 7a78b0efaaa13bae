"""The demo's own Prime Intellect: a simulator in the background, started when somebody first asks for machines there.

It is a process of its own (`python -m hudtui.sim`), so that rented machines outlive the app, and ends by itself once nobody has
asked for anything for a while and nothing is rented. What is known of it is in its folder: `lock` is held while it lives, and
`server.json` says where it answers.
"""

from __future__ import annotations

import fcntl
import json
import select
import subprocess
from pathlib import Path

from hudtui.core.compute.provider import ProviderError
from hudtui.core.places import places
from hudtui.core.python import python_command
from hudtui.core.text import clean_line

SIMULATOR = "HUDTUI_SIM"
"""Setting: the address of a simulator (`python -m hudtui.sim`) that stands in for Prime Intellect, on this machine; or `DEMO`, or
`OFF`."""
DEMO, OFF = "demo", "off"
"""The simulator that is started here; none."""
IDLE = 900
"""Seconds without a request and without a rented machine after which it ends."""
_PATIENCE = 30.0
_started: list[subprocess.Popen[bytes]] = []
"""Kept, because Python complains of a process that it forgets while it runs."""


def demo_simulator(folder: Path | None = None) -> str:
    """The address of the demo's simulator, which is started if it does not live. Blocks for a second in that case.

    Args:
        folder: Where it keeps its pods and its money; one for each user by default.

    Raises:
        ProviderError: It does not start.
    """
    folder = folder or places().state / "simulator"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (folder / "starting").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)  # two that begin at once
            return _running(folder) or _start(folder)
    except OSError as error:
        raise ProviderError("the demo's simulator cannot be started", why=error.strerror or str(error)) from None


def _running(folder: Path) -> str | None:
    try:
        with (folder / "lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return None  # nobody holds it
    except FileNotFoundError:
        return None
    except BlockingIOError:
        return str(json.loads((folder / "server.json").read_text(encoding="utf-8"))["url"])


def _start(folder: Path) -> str:
    (folder / "server.json").unlink(missing_ok=True)
    words = [*python_command("-m", "hudtui.sim"), "--state", str(folder), "--now", "--scenario", "quick", "--idle", str(IDLE)]
    log = folder / "simulator.log"
    # The log's descriptor and the pipe are all that it shares with whoever started it: it has to outlive them.
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
        url = str(json.loads(line)["url"])
    except (ValueError, KeyError, TypeError):
        process.kill()
        process.wait()
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        why = clean_line(said[-1], 300) if said else "it said nothing"
        raise ProviderError("the demo's simulator did not start", why=why, fix=f"Its log: {log}") from None
    _started.append(process)
    return url
