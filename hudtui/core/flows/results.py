"""Fetching the results of a run from its machine to this computer."""

from __future__ import annotations

from pathlib import Path

from hudtui.core.project import Project
from hudtui.core.remote.hosts import LOCAL, find_host
from hudtui.core.runs.results import FetchedResults, Progress, fetch_results, results_folder
from hudtui.core.runs.run_folder import RunFolder
from hudtui.core.runs.store import RunRecord


async def pull(run: str, project: Project, *, output: Path | None = None, progress: Progress | None = None) -> FetchedResults:
    """Fetch the results of a run. Files that are here already are not fetched again; the run may continue meanwhile.

    Args:
        run: Id of the run.
        project: The project that keeps it.
        output: Folder for the results; None for the run's own.
        progress: Called with the progress of each file.

    Raises:
        MachineError: The machine does not answer, a file cannot be read or written, or the disk of this computer is full.
        RunError: The run does not exist.
        Untrusted: The user did not start this run.
    """
    store = project.runs
    record = await store.run(store.own_record, run)
    target = results_folder(record, store) if output is None else output.absolute()
    return await fetch_results(RunFolder(find_host(record.host), record), target, progress=progress)


async def results_here(record: RunRecord, project: Project, *, progress: Progress | None = None) -> Path:
    """Return the folder on this computer with a run's results; those of a run on another machine are fetched first.

    Raises:
        HudtuiError: See `pull`.
    """
    if record.host == LOCAL:
        return Path(record.folder)
    return (await pull(record.id, project, progress=progress)).folder
