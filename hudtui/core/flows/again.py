"""Starting a run from an earlier one: the same run again, or its continuation."""

from __future__ import annotations

import asyncio

from hudtui.core.errors import InputError
from hudtui.core.flows.person import Person
from hudtui.core.flows.results import results_here
from hudtui.core.project import Project
from hudtui.core.runs.again import changed_files, continuation_request, request_again
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.results import Progress
from hudtui.core.runs.store import RunRecord
from hudtui.core.text import clean_line


async def rerun_request(run: str, project: Project, person: Person) -> RunRequest:
    """Return the request that asks for a run once more. Files that have changed since are reported to the person.

    Raises:
        RunError: The run does not exist.
        Untrusted: The user did not start this run.
    """
    record = await _record(run, project)
    for path in await asyncio.to_thread(changed_files, record):
        person.say(f"{clean_line(path)} has changed since run {record.id}; the file as it is now is used", severity="warning")
    return request_again(record)


async def continue_request(
    run: str, project: Project, *, step: int | None = None, steps: int | None = None, progress: Progress | None = None
) -> RunRequest:
    """Return the request for a run that continues a run which has ended. Results on another machine are fetched first.

    Args:
        run: Id of the run.
        project: The project that keeps it.
        step: Step of the checkpoint to continue from; None for the last one.
        steps: Number of steps in all; None for as many as the run was asked for.
        progress: Called while results are fetched.

    Raises:
        InputError: The run has not ended, or cannot be continued; see `runs.again.continuation_request`.
        MachineError: Its machine does not answer, and its checkpoints are not on this computer.
        RunError: The run does not exist.
        Untrusted: The user did not start this run.
    """
    record = await _record(run, project)
    if (await asyncio.to_thread(project.runs.summary, run)).active:
        raise InputError(f"run {run} has not ended", fix=f"Stop it first: hudtui runs stop {run}")
    folder = await results_here(record, project, progress=progress)
    return await asyncio.to_thread(lambda: continuation_request(record, folder, step=step, steps=steps))


async def _record(run: str, project: Project) -> RunRecord:
    await asyncio.to_thread(project.runs.require_own, run)
    return await asyncio.to_thread(project.runs.record, run)
