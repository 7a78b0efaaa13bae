"""Starting a run from an earlier one: the same run again, or its continuation."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from hudtui.core.errors import InputError
from hudtui.core.flows.person import Person
from hudtui.core.project import Project
from hudtui.core.runs.again import NothingLeft, changed_files, continuation_request, request_again
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.results import Progress, results_here
from hudtui.core.runs.store import RunRecord
from hudtui.core.text import clean_line


async def rerun_request(
    run: str, project: Project, person: Person, *, spot: bool | None = None
) -> RunRequest:
    """Return the request that asks for a run once more.

    Files that have changed since are reported to the person.

    Args:
        run: Id of the run.
        project: The project that keeps it.
        person: Reads which files have changed.
        spot: Whether to rent a spot machine; None for the same kind as before.

    Raises:
        InputError: `spot` is given, and the run was on no rented machine.
        RunError: The run does not exist.
        Untrusted: The user did not start this run.
    """
    record = await _record(run, project)
    for path in await asyncio.to_thread(changed_files, record):
        person.say(
            f"{clean_line(path)} has changed since run {record.id}; the file as it is now is used",
            severity="warning",
        )
    return _with_kind(request_again(record), record, spot)


def _with_kind(request: RunRequest, record: RunRecord, spot: bool | None) -> RunRequest:
    """Return the request for a spot machine, or for another one; None keeps the kind."""
    if spot is None:
        return request
    if record.spec.rent is None:
        raise InputError(
            f"run {record.id} was on no rented machine", fix="Leave out --spot and --no-spot."
        )
    return replace(request, spot=spot)


async def continue_request(
    run: str,
    project: Project,
    *,
    step: int | None = None,
    steps: int | None = None,
    spot: bool | None = None,
    hosts: Sequence[str] = (),
    nodes: int | None = None,
    progress: Progress | None = None,
) -> RunRequest:
    """Return the request for a run that continues a run which has ended.

    Results on another machine are fetched first.

    Args:
        run: Id of the run.
        project: The project that keeps it.
        step: Step of the checkpoint to continue from; None for the last one.
        steps: Number of steps in all; None for as many as the run was asked for.
        spot: Whether to rent a spot machine; None for the same kind as before.
        hosts: The user's machines to continue on; empty for those of the run.
        nodes: Number of rented machines to continue on; None for as many as before.
        progress: Called while results are fetched.

    Raises:
        InputError: The run has not ended, or cannot be continued (see
            `runs.again.continuation_request`); or `spot` or `nodes` is given, and the run was on no
            rented machine.
        MachineError: Its machine does not answer, and its checkpoints are not on this computer.
        NothingLeft: It is a training that has done all of its steps.
        RunError: The run does not exist.
        Untrusted: The user did not start this run.
    """
    record = await _record(run, project)
    if (await asyncio.to_thread(project.runs.summary, run)).active:
        raise InputError(f"run {run} has not ended", fix=f"Stop it first: hudtui runs stop {run}")
    folder = await results_here(record, project.runs, progress=progress)
    request = await asyncio.to_thread(
        lambda: continuation_request(record, folder, step=step, steps=steps)
    )
    if hosts and record.spec.rent is not None:
        raise InputError(
            f"run {record.id} was on a rented machine, and is continued on one",
            fix="Leave out --host.",
        )
    if hosts:
        request = replace(request, host=",".join(hosts), nodes=1)
    if nodes is not None:
        if record.spec.rent is None:
            text = f"run {record.id} was on machines of yours, which are named and not counted"
            raise InputError(text, fix="Name those to continue on: --host, again for each.")
        request = replace(request, nodes=nodes)
    return _with_kind(request, record, spot)


async def continue_or_extend(
    run: str, project: Project, person: Person, *, progress: Progress | None = None
) -> RunRequest | None:
    """Return the request for a run that continues another one from its last checkpoint.

    The person says how many steps a training shall have in all if it has done those that it was
    asked for; None if the person cancels.

    Raises:
        HudtuiError: See `continue_request`.
        InputError: The answer is not a number larger than the steps that are done.
    """
    try:
        return await continue_request(run, project, progress=progress)
    except NothingLeft as error:
        done = error.done
    told = f"Run {run} has done all of its {done} steps. A new run continues it from there."
    typed = await person.ask(
        "How many steps in all?", lines=(told,), value=str(done * 2), accept="Continue"
    )
    if typed is None:
        return None
    text = typed.strip()
    steps = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if steps <= done:
        raise InputError(f"{clean_line(text, 40)!r} is not a number of steps larger than {done}")
    return await continue_request(run, project, steps=steps, progress=progress)


async def _record(run: str, project: Project) -> RunRecord:
    await asyncio.to_thread(project.runs.require_own, run)
    return await asyncio.to_thread(project.runs.record, run)
