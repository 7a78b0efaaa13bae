"""The folder that outlives a simulator: what it knows, and which simulator has it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO


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
        # Not below `folder`: sockets lie in it, and their paths may have little more than a hundred characters.
        self.machines = known or Path(tempfile.mkdtemp(prefix="hs-", dir="/tmp"))

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
        """Let the next simulator have it; without a folder to keep, remove what is left."""
        if self._lock is not None:
            self._lock.close()
        if not self.lasting:
            shutil.rmtree(self.machines, ignore_errors=True)
