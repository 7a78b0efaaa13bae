"""Removing runs that have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from hudtui.core.errors import HudtuiError, MachineError, RunError
from hudtui.core.events import Progress
from hudtui.core.flows.person import Person
from hudtui.core.project import Project
from hudtui.core.remote.host import LOCAL
from hudtui.core.runs.launch import remove_run
from hudtui.core.runs.store import RunRecord
from hudtui.core.runs.values import RunSummary
from hudtui.core.text import clean_line, plural

NAMED = 8
"""Runs that the question names; it counts the others."""


@dataclass(frozen=True)
class Removed:
    """A run that is gone."""

    run: str
    """Its id."""
    gone: tuple[str, ...]
    """Sentences that say what was removed."""


async def remove(
    runs: Sequence[str], project: Project, person: Person, *, keep_results: bool = False
) -> AsyncGenerator[Progress | Removed, None]:
    """Ask once, then remove runs.

    Their folders on their machines, their files on this computer, and their places in the list.
    A run whose machine does not answer stays, and keeps none of the others: its error comes last.

    Args:
        runs: Ids of runs.
        project: The project that keeps them.
        person: The user.
        keep_results: Leave the files on this computer.

    Yields:
        `Progress` before each run, `Removed` after it. Nothing if the user declines.

    Raises:
        RunError: Some of the runs have not ended, or their rented machines may still exist; nothing
            is removed.
        Untrusted: The user did not start all of the runs; nothing is removed.
        MachineError: The machines of some runs do not answer; these runs stay.
    """
    store = project.runs

    def read() -> list[tuple[RunSummary, RunRecord]]:
        found = [(store.summary(run), store.record(run)) for run in dict.fromkeys(runs)]
        for run, _ in found:
            store.require_own(run.id)
        return found

    found = await asyncio.to_thread(read)
    kept = [run for run, _ in found if run.active or run.holds_machine]
    if kept:
        names = ", ".join(
            _name(run, "its machine may still be there" if not run.active else "") for run in kept
        )
        raise RunError(
            f"{plural(len(kept), 'run')} cannot be removed: {names}",
            why="Only runs that have ended are removed, so nothing was removed."
            if len(found) > 1
            else None,
            fix=f"hudtui runs stop {kept[0].id}",
        )
    question = (
        f"Remove run {_name(found[0][0])}?" if len(found) == 1 else f"Remove {len(found)} runs?"
    )
    if not await person.confirm(
        question, _losses(found, keep_results), yes="Remove", no="Keep", danger=True
    ):
        return
    failed: dict[str, HudtuiError] = {}
    for number, (run, _) in enumerate(found):
        yield Progress("remove", f"Removing {clean_line(run.name, 60)}", number, len(found))
        try:
            yield Removed(run.id, await remove_run(run.id, store, keep_results=keep_results))
        except HudtuiError as error:
            failed[run.id] = error
    if not failed:
        return
    first = next(iter(failed.values()))
    if len(found) == 1:
        raise first
    told = "; ".join(f"{run}: {error.what}" for run, error in failed.items())
    raise MachineError(
        f"{len(failed)} of {len(found)} runs could not be removed: {told}",
        why=first.why,
        fix=first.fix,
    )


def _name(run: RunSummary, more: str = "") -> str:
    return f"{run.id} ({', '.join(filter(None, (clean_line(run.name, 60), run.state, more)))})"


def _losses(found: Sequence[tuple[RunSummary, RunRecord]], keep_results: bool) -> tuple[str, ...]:
    """What the user should know.

    Which runs these are where there are several, and what is deleted.
    """
    lines = [_name(run) for run, _ in found[:NAMED]] if len(found) > 1 else []
    if len(found) > NAMED:
        lines.append(f"and {len(found) - NAMED} more")
    whose = "Its" if len(found) == 1 else "Their"
    lines.append(
        f"{whose} files on this computer stay."
        if keep_results
        else f"{whose} logs, results and checkpoints are deleted."
    )
    machines = sorted(
        {record.host for _, record in found if record.host != LOCAL and record.spec.rent is None}
    )
    if machines:
        lines.append(f"{whose} files on {clean_line(', '.join(machines), 200)} are deleted.")
    return tuple(lines)
