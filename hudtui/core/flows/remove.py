"""Removing a run that has ended."""

from __future__ import annotations

import asyncio

from hudtui.core.flows.person import Person
from hudtui.core.project import Project
from hudtui.core.runs.launch import remove_run
from hudtui.core.text import clean_line


async def remove(run: str, project: Project, person: Person, *, keep_results: bool = False) -> tuple[str, ...] | None:
    """Ask, then remove a run: its folder on its machine, its files on this computer, and its place in the list.

    Args:
        run: Id of the run.
        project: The project that keeps it.
        person: The user.
        keep_results: Leave the files on this computer.

    Returns:
        Sentences that say what was removed; None if the user declines.

    Raises:
        RunError: The run has not ended, or its rented machine may still exist.
        MachineError: The machine does not answer; nothing is removed.
        Untrusted: The user did not start this run.
    """
    store = project.runs
    summary = await asyncio.to_thread(store.summary, run)
    what = "Its files on this computer stay." if keep_results else "Its logs, results and checkpoints are deleted."
    question = f"Remove run {summary.id} ({clean_line(summary.name, 60)}, {summary.state})?"
    if not await person.confirm(question, (what,), yes="Remove", no="Keep it", danger=True):
        return None
    return await remove_run(summary.id, store, keep_results=keep_results)
