"""Acknowledging alarms: the user knows of them."""

from __future__ import annotations

from collections.abc import Collection

from hudtui.core.errors import InputError
from hudtui.core.runs.alarms import ALARMS, Alarm
from hudtui.core.runs.status import RunView
from hudtui.core.runs.store import RunStore
from hudtui.core.text import clean_line


async def acknowledge(view: RunView, store: RunStore, kinds: Collection[str] = (), *, undo: bool = False) -> tuple[Alarm, ...]:
    """Acknowledge alarms of a run, or undo that. They stay listed, and count as new only when they come again.

    Args:
        view: The run with its alarms.
        store: The list of runs that keeps it.
        kinds: Only alarms of these kinds; by default all.
        undo: The alarms that are acknowledged are not acknowledged any more.

    Returns:
        The alarms for which this is a change.

    Raises:
        InputError: There is no such kind of alarm.
        RunError: The run does not exist, or the list cannot be written.
    """
    if wrong := [kind for kind in kinds if kind not in ALARMS]:
        raise InputError(f"there is no alarm {clean_line(wrong[0], 40)!r}", fix=f"The kinds are {', '.join(ALARMS)}.")
    chosen = tuple(alarm for alarm in view.alarms if alarm.acknowledged is undo and (not kinds or alarm.kind in kinds))
    if chosen:
        await store.run(store.acknowledge, view.summary.id, [alarm.key for alarm in chosen], undo=undo)
    return chosen
