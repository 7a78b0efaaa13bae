"""What outlives a simulator: the folder of its state, and the processes that its pods started.

Processes are found by a mark in their environment, and by descent. A process that leaves its
session, its group and its parent (tmux, nohup, a daemon) still carries the mark; a process that
clears its environment is found as long as an ancestor lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

MARK = "HUDTUI_SIM_POD"
"""Variable with the mark of a pod, in the environment of all of its processes."""
NODE_MARK = "HUDTUI_SIM_NODE"
"""The same for one machine of a pod."""
_PROC = Path("/proc")


def _table_of_proc(mark: bytes) -> tuple[set[int], dict[int, int]]:
    """The marked processes, and the parent of every process."""
    marked: set[int] = set()
    parents: dict[int, int] = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            # The second field is a name in parentheses that may hold anything.
            state, parent = (
                (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            )
            if state == "Z":
                continue
            parents[int(entry.name)] = int(parent)
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                marked.add(int(entry.name))
        except (OSError, ValueError):
            continue
    return marked, parents


def _table_of_ps(mark: str) -> tuple[set[int], dict[int, int]]:
    """As `_table_of_proc`, where there is no /proc."""
    command = ["ps", "axeww", "-o", "pid=,ppid=,command="]
    listing = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False
    ).stdout
    rows = [words for words in map(str.split, listing.splitlines()) if len(words) > 2]
    return {int(words[0]) for words in rows if mark in words[2:]}, {
        int(words[0]): int(words[1]) for words in rows
    }


def processes_of(token: str, variable: str = MARK) -> set[int]:
    """The ids of all living processes of the pod, or of the machine, with this mark."""
    mark = f"{variable}={token}"
    found, parents = (
        _table_of_proc(mark.encode()) if _PROC.joinpath("self").exists() else _table_of_ps(mark)
    )
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def end_all(token: str, variable: str = MARK) -> int:
    """Kill every process of the pod, or of the machine, with this mark.

    And what comes up meanwhile, for 5 s at most.

    Returns how many.
    """
    seen: set[int] = set()
    limit = time.monotonic() + 5.0
    while time.monotonic() < limit:
        found = processes_of(token, variable)
        if not found:
            break
        # All are stopped first: none is to see that another one is gone, as a window sees the end
        # of tmux.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        seen |= found
        time.sleep(0.01)
    return len(seen)


_PREFIX = "hs-"
_ASIDE = "gone-"
"""How folders of machines begin that are only left to remove."""
_PARENT = Path(
    "/tmp"
    # not below the state: sockets lie there, and their paths may have little more than a hundred
    # characters
)


class StateInUse(Exception):
    """Another simulator has this state folder."""


class StateFolder:
    """A simulator's state, and the short folder where its machines lie.

    Args:
        folder: Where the state is kept; None keeps nothing beyond the simulator's life.

    Raises:
        StateInUse: Another simulator is at work in `folder`.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock: TextIO | None = None
        self._written = ""
        # One is enough: it is the disk that takes so long.
        self._removals = ThreadPoolExecutor(1, thread_name_prefix="removals")
        self.saved: dict[str, Any] | None = None
        """What the simulator before left here."""
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = folder.joinpath("lock").open("w")
            if not _taken(self._lock):
                self._lock.close()
                raise StateInUse(f"another simulator is using {folder}")
            if folder.joinpath("state.json").exists():
                self.saved = json.loads(folder.joinpath("state.json").read_text())
        known = Path(self.saved["machines"]) if self.saved else None
        if known is not None:
            with contextlib.suppress(FileExistsError):
                known.mkdir(mode=0o700)
            if not _own(known):
                known = None  # another user was quicker: `_PARENT` is everybody's
        self.machines = known or Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_PARENT))
        for aside in self.machines.glob(f"{_ASIDE}*"):
            self._remove(aside)  # its simulator was killed before it was done
        if folder is None:
            self._lock = _claim(self.machines)
            self._discard_leftovers()

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
            write_private(
                self._folder / "state.json",
                json.dumps({**json.loads(text), "saved_at": time.time()}),
            )
            self._written = text

    def discard(self, folder: Path) -> None:
        """Take a folder from its place at once, and remove it in the background.

        A machine may hold gigabytes of packages, and nobody should wait minutes for their end.
        """
        with contextlib.suppress(FileNotFoundError):  # who clears /tmp was quicker
            aside = Path(tempfile.mkdtemp(prefix=_ASIDE, dir=self.machines))
            try:
                folder.rename(aside / folder.name)
            finally:
                self._remove(aside)

    def _remove(self, folder: Path) -> None:
        self._removals.submit(shutil.rmtree, folder, ignore_errors=True)

    def _discard_leftovers(self) -> None:
        """Clear up after simulators that kept nothing and were killed.

        What their pods started is ended.
        """
        for mark in _PARENT.glob(f"{_PREFIX}*/claimed"):
            try:
                if not _own(mark.parent):
                    continue
                with mark.open() as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    for token in mark.parent.glob("*/token"):
                        end_all(token.read_text())
                    self.discard(mark.parent)
            except OSError:
                continue  # its simulator lives, or another one clears up already

    def close(self) -> None:
        """Remove what no simulator needs, and release the folder to the next one.

        Blocks until what was discarded is gone.
        """
        self._removals.shutdown()
        if self.lasting:
            with contextlib.suppress(OSError):  # machines are left
                self.machines.rmdir()
        else:
            shutil.rmtree(self.machines, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()


def write_private(path: Path, text: str) -> None:
    """Write a file, whole or not at all, that no other user can read at any moment."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    with open(
        os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as stream:
        stream.write(text)
    os.replace(fresh, path)


def _taken(lock: TextIO) -> bool:
    """Return True if the lock could be had.

    Who only looks whether a simulator lives holds it for a moment.
    """
    for _ in range(20):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.025)
    return False


def _own(folder: Path) -> bool:
    """Return True if it is a folder of this user's that no other user can look into."""
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


def _claim(machines: Path) -> TextIO:
    """Mark machines as those of a living simulator that keeps nothing.

    The mark appears with its lock already taken.
    """
    lock = machines.joinpath("claim").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    machines.joinpath("claim").rename(machines / "claimed")
    return lock
