"""The terminal of a run: the command that shows its tmux session here, wherever its machine is."""

from __future__ import annotations

import asyncio

from hudtui.core.errors import RunError
from hudtui.core.remote.hosts import LOCAL, ensure_reachable, find_host, find_target
from hudtui.core.runs.status import RunView

_PATIENCE = 30.0


async def attach_command(view: RunView) -> tuple[str, ...]:
    """The command that shows a run's session on this terminal.

    Raises:
        RunError: It has no session.
        MachineError: Its machine does not answer.
    """
    run = view.summary
    if view.attach is None:
        why = "it runs as detached processes" if run.active else "it has ended, and its session with it"
        raise RunError(f"run {run.id} has no terminal: {why}", fix=f"hudtui runs logs {run.id}")
    if run.host == LOCAL:
        return view.attach
    from hudtui.core.remote.known_hosts import KnownHosts
    from hudtui.core.remote.ssh import ssh_argv

    await ensure_reachable(find_host(run.host), within=_PATIENCE)  # so that its host key is known
    return ssh_argv(await asyncio.to_thread(find_target, run.host), KnownHosts(), view.attach)
