"""The folder that outlives a simulator: what it knows, and which simulator has it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from hudtui.sim.processes import end_all

_PREFIX = "hs-"
_PARENT = Path("/tmp")  # not below the state: sockets lie there, and their paths may have little more than a hundred characters


class InUse(Exception):
    """Another simulator has this state folder."""


class StateFolder:
    """A simulator's state, and the short folder where its machines lie.

    Args:
        folder: Where the state is kept; None keeps nothing beyond the simulator's life.

    Raises:
        InUse: Another simulator is at work in `folder`.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock: TextIO | None = None
        self._written = ""
        self.saved: dict[str, Any] | None = None
        """What the simulator before left here."""
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = folder.joinpath("lock").open("w")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._lock.close()
                raise InUse(f"another simulator is using {folder}") from None
            if folder.joinpath("state.json").exists():
                self.saved = json.loads(folder.joinpath("state.json").read_text())
        known = Path(self.saved["machines"]) if self.saved else None
        if known is not None:
            known.mkdir(exist_ok=True, mode=0o700)
        self.machines = known or Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_PARENT))
        if folder is None:
            sweep()
            self._lock = _claim(self.machines)

    @property
    def lasting(self) -> bool:
        """It outlives the simulator."""
        return self._folder is not None

    def save(self, data: Mapping[str, Any]) -> None:
        """Write the state down, when it changed."""
        if self._folder is None:
            return
        text = json.dumps({**data, "machines": str(self.machines)})
        if text != self._written:
            fresh = self._folder / "state.json.new"
            fresh.write_text(json.dumps({**json.loads(text), "saved_at": time.time()}))
            fresh.chmod(0o600)
            os.replace(fresh, self._folder / "state.json")
            self._written = text

    def close(self) -> None:
        """Let the next simulator have it, and remove what nobody will need."""
        if self.lasting:
            with contextlib.suppress(OSError):  # machines are left
                self.machines.rmdir()
        else:
            shutil.rmtree(self.machines, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()


def _claim(machines: Path) -> TextIO:
    """Mark machines as those of a living simulator that keeps nothing; the mark appears with its lock already taken."""
    lock = machines.joinpath("claim").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    machines.joinpath("claim").rename(machines / "claimed")
    return lock


def sweep() -> int:
    """Clear up after simulators that kept nothing and were killed: end what their pods started; returns how many there were."""
    found = 0
    for mark in _PARENT.glob(f"{_PREFIX}*/claimed"):
        try:
            if mark.stat().st_uid != os.getuid():
                continue
            with mark.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for token in mark.parent.glob("*/token"):
                    end_all(token.read_text())
                shutil.rmtree(mark.parent, ignore_errors=True)
                found += 1
        except OSError:
            continue  # its simulator lives, or another one clears up already
    return found
