"""Ending everything that a pod started: processes are found by a mark in their environment, and by descent.

A process that leaves its session, its group and its parent (tmux, nohup, a daemon) still carries the mark. What clears its
environment is found as long as an ancestor lives.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

MARK = "HUDTUI_SIM_POD"
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
            state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state == "Z":
                continue
            parents[int(entry.name)] = int(parent)
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                marked.add(int(entry.name))
        except (OSError, ValueError):
            continue
    return marked, parents


def _table_of_ps(mark: str) -> tuple[set[int], dict[int, int]]:
    """The same where there is no /proc."""
    command = ["ps", "axeww", "-o", "pid=,ppid=,command="]
    listing = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout
    rows = [words for words in map(str.split, listing.splitlines()) if len(words) > 2]
    return {int(words[0]) for words in rows if mark in words[2:]}, {int(words[0]): int(words[1]) for words in rows}


def processes_of(token: str) -> set[int]:
    """The ids of all living processes of the pod with this mark."""
    mark = f"{MARK}={token}"
    found, parents = _table_of_proc(mark.encode()) if _PROC.joinpath("self").exists() else _table_of_ps(mark)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def end_all(token: str, *, patience: float = 5.0) -> int:
    """Kill every process of a pod, and those that come up meanwhile; returns how many there were.

    Args:
        token: The pod's mark.
        patience: Seconds until what cannot be killed is given up.
    """
    seen: set[int] = set()
    limit = time.monotonic() + patience
    while time.monotonic() < limit:
        found = processes_of(token)
        if not found:
            break
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        seen |= found
        time.sleep(0.01)
    return len(seen)
