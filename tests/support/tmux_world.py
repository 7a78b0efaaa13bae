"""A tmux server of the test alone, and proof that nothing a test started is left behind.

`own_tmux = tmux_world.own_tmux` makes the fixture known to a conftest or a test module.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator

import pytest

from hudtui.core.remote.host import Host


def processes() -> set[str]:
    """The ids of all processes."""
    return {name for name in os.listdir("/proc") if name.isdigit()}


def started_under(mark: str, *, others: frozenset[str] | set[str] = frozenset()) -> set[int]:
    """Processes whose environment holds `TMUX_TMPDIR=<mark>`: everything that a test started,
    however far it has run away.

    Args:
        mark: The folder.
        others: Ids of processes that are older than the folder, and are not looked at.
    """
    found = set()
    text = f"TMUX_TMPDIR={mark}".encode() + b"\0"
    for name in processes() - others:
        if int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as stream:
                    if text in stream.read() + b"\0":
                        found.add(int(name))
            except OSError:
                continue
    return found


def describe(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as stream:
            return f"{pid} {stream.read().replace(bytes(1), b' ').decode(errors='replace')[:300]}"
    except OSError:
        return str(pid)


@pytest.fixture(autouse=True)
def own_tmux(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A folder for tmux sockets. At the end only its own server is killed, and whatever else is
    left is an error."""
    # Short, because the path of a socket may have little more than a hundred characters.
    folder = tempfile.mkdtemp(prefix="ht-", dir="/tmp")
    others = processes()
    monkeypatch.setenv("TMUX_TMPDIR", folder)
    monkeypatch.delenv("TMUX", raising=False)
    yield folder
    if os.listdir(folder):  # otherwise no server was ever started
        subprocess.run(
            ["tmux", "kill-server"],
            env={**os.environ, "TMUX_TMPDIR": folder},
            capture_output=True,
            check=False,
        )
    until = time.monotonic() + 60.0  # a run that a test left to itself ends by itself
    while (left := started_under(folder, others=others)) and time.monotonic() < until:
        time.sleep(0.02)
    words = [describe(pid) for pid in left]
    for pid in left:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)
    assert not left, f"the test left processes behind: {words}"


async def list_sessions(host: Host) -> tuple[str, ...]:
    """Names of the sessions of runs on a machine."""
    done = await host.run(["tmux", "list-sessions", "-F", "#{session_name}"], env={"TMUX": ""})
    return (
        tuple(name for name in done.stdout.split("\n") if name.startswith("hudtui-"))
        if done.ok
        else ()
    )
