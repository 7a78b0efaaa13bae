"""Stopping a run at a finding that the user has named, by whoever looks at it."""

from __future__ import annotations

from collections.abc import Callable

from hudtui.core.diagnosis.stop import stop_reason, stopping
from hudtui.core.remote.host import Host
from hudtui.core.remote.hosts import find_host
from hudtui.core.runs.run_folder import RunFolder
from hudtui.core.runs.status import RunView
from hudtui.core.runs.store import RunStore

_OWN = 20
"""Fewest steps of its own at which a run that goes on from another one is judged."""


async def stop_at_finding(
    view: RunView, store: RunStore, *, hosts: Callable[[str], Host | None] = find_host
) -> str | None:
    """Ask a run to stop, if a finding at which the user wants that is certain.

    The machine writes the reason among the events of the run, ends it as on any request, and is
    ended like that of a run that was stopped. What needs no library the machine finds by itself.

    Returns:
        Why the run is stopped; None if it goes on.

    Raises:
        HudtuiError: The machine does not answer, or the run is not one of the user's own.
    """
    if view.summary.state != "running" or view.diagnosis is None or not view.diagnosis.findings:
        return None
    record = await store.run(store.record, view.summary.id)
    continues = record.spec.continues
    if continues is not None and not _is_own(view, continues.step or 0):
        return None
    finding = stopping(view.diagnosis, record.spec.stop_on)
    host = hosts(view.summary.host) if finding is not None else None
    if finding is None or host is None:
        return None
    why = stop_reason(finding)
    await RunFolder(host, record).request_stop(None, why)
    return why


def _is_own(view: RunView, continued: int) -> bool:
    """Return whether the newest numbers of a run that goes on from a step are its own.

    Until its trainer begins, and in the steps up to that one, they are those of the earlier run,
    which may have been stopped at the same trouble.
    """
    newest = view.metrics.newest
    if newest is None or newest[1] is None:
        return False
    begun = min((one.started for one in view.stages if one.started is not None), default=None)
    own = newest[0] - continued
    return begun is not None and newest[1] >= begun and own >= max(_OWN, newest[0] / 10)
