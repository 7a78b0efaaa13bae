"""tmux on a host: which sessions of runs exist, and how to show or close a session."""

from __future__ import annotations

from hudtui.core.errors import MachineError
from hudtui.core.remote.host import Host

PREFIX = "hudtui-"
"""Sessions of runs are named by this and the run's id."""

_ENV = {"TMUX": ""}
"""Inside a tmux of the user's own, tmux would ask that server; runs live in the default one."""


async def kill_session(host: Host, name: str) -> bool:
    """Close a session with everything that runs in its windows; returns whether it existed."""
    try:
        return (await host.run(["tmux", "kill-session", "-t", f"={name}"], env=_ENV, timeout=10)).ok
    except MachineError:
        return False


def attach_argv(session: str) -> tuple[str, ...]:
    """The command that shows a session on the user's own terminal."""
    return ("tmux", "attach-session", "-t", f"={session}")


async def close_detached(host: Host, name: str) -> bool:
    """Close a session unless a client is attached; returns whether it was closed."""
    try:
        clients = await host.run(["tmux", "list-clients", "-t", f"={name}"], env=_ENV, timeout=10)
    except MachineError:
        return False
    return clients.ok and not clients.stdout.strip() and await kill_session(host, name)
