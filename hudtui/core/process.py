"""Which machine and which process wrote something down.

Marks that outlive a changed host name and a reused process number.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import socket
import time
from pathlib import Path


@functools.cache
def machine_id() -> str:
    """16 hex digits for the machine that hudtui runs on, whatever its host name is.

    The host name where the system has no id.
    """
    for path in (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id")):
        with contextlib.suppress(OSError):
            if found := path.read_text(encoding="utf-8", errors="replace").strip():
                # machine-id(5): the id itself is confidential. Containers of one image share it,
                # but not their processes.
                return hashlib.sha256(
                    f"hudtui {found} {_process_namespace()}".encode()
                ).hexdigest()[:16]
    return socket.gethostname()


def machine_label() -> str:
    """`NAME ID` of this machine.

    The name is for people, the id is what `is_this_machine` compares.
    """
    name, mark = socket.gethostname(), machine_id()
    return name if name == mark else f"{name} {mark}"


def is_this_machine(mark: str) -> bool:
    """Return True if `mark` is a `machine_id` or `machine_label` of this machine."""
    return mark.rpartition(" ")[2] == machine_id()


def process_mark(pid: int | None = None) -> str:
    """Return `PID:START_TIME` of a process, by default of this one.

    So a reused number is not taken for the same process.
    """
    number = os.getpid() if pid is None else pid
    began = ""
    with contextlib.suppress(OSError, IndexError):
        began = (
            Path(f"/proc/{number}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()[19]
        )
    return f"{number}:{began}"


def is_running(mark: str) -> bool:
    """Return True if the process of a `process_mark` of this machine still runs."""
    pid, _, _ = mark.partition(":")
    if not pid.isdecimal() or int(pid) == 0:  # 0 and negative numbers stand for groups of processes
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return process_mark(int(pid)) == mark


def boot_clock() -> float:
    """Seconds that only grow, whether this machine sleeps or its date is set."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _process_namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return ""
