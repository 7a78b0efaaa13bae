"""Reads a project folder by means of the core.

Imported after the first paint; everything here runs in a thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.core import trust
from hudtui.core.compute.registry import rents
from hudtui.core.errors import HudtuiError
from hudtui.core.flows.trust import survey
from hudtui.core.paths import app_paths
from hudtui.core.runs.project_status import FileChecks, project_steps
from hudtui.core.settings import load_settings, user_file
from hudtui.core.text import clean_line
from hudtui.core.workspace import STATE_FOLDER, Workspace, last_dataset_name, open_workspace
from hudtui.tui.facts import Facts, RunFact, StepFact, WalletFact
from hudtui.tui.services import Marks

if TYPE_CHECKING:
    from hudtui.core.runs.values import RunSummary

VERDICTS = FileChecks()
"""Errors of the files that were checked."""
SHOWN_RUNS = 50
"""More than this many runs are listed by the run step only."""


def load_facts(folder: Path) -> Facts:
    """Read the project. A part that cannot be read becomes a warning; the others are still there.

    Raises:
        HudtuiError: The folder itself cannot be read, or no platform has the chosen name.
    """
    workspace = open_workspace(folder)
    platform = workspace.platform
    settings = load_settings(folder, platform)
    warnings = [*workspace.notices, *settings.notices]
    image = lock_error = None
    dataset = last_dataset_name(folder) if workspace.lock is None else None
    if workspace.lock is not None:
        from hudtui.core.lockfile import read_lock

        try:
            lock = read_lock(workspace.lock)
            image, dataset = lock.image, lock.primary_dataset.name if lock.primary_dataset else None
        except HudtuiError as error:
            lock_error = error.lines()[0]
            warnings.append(lock_error)
    summaries: Sequence[RunSummary] = ()
    try:
        summaries = _runs(workspace)
    except HudtuiError as error:
        warnings.append(error.lines()[0])
    steps: dict[str, StepFact] = {
        step.name: StepFact(step.state, step.detail, step.what_next, step.errors)
        for step in project_steps(
            workspace,
            analysis=_analyzed(workspace),
            runs=summaries,
            lock_error=lock_error,
            configs_wrong=VERDICTS.configs(workspace),
            tasks_wrong=VERDICTS.tasks(workspace),
            dialects=VERDICTS.dialects(workspace),
            rents=rents(settings.get, demo=True),
        )
    }
    newest = sorted(summaries, key=lambda run: run.created, reverse=True)[:SHOWN_RUNS]
    return Facts(
        folder=folder,
        platform=platform.title,
        workspace=workspace,
        account=WalletFact(platform.key_variable, settings.origin(platform.key_variable)),
        steps=steps,
        configs=workspace.configs,
        task_files=workspace.task_files,
        lock=workspace.lock,
        image=image,
        dataset=dataset,
        runs=_listed(newest),
        rented=tuple(run.id for run in summaries if run.holds_machine),
        warnings=tuple(warnings),
        trusted=not trust.missing(folder, survey(folder, platform, tasks=False)),
    )


def _runs(workspace: Workspace) -> Sequence[RunSummary]:
    if not workspace.state_dir.is_dir():
        return ()
    from hudtui.core.runs.store import RunStore

    return RunStore(workspace.state_dir).runs()


def marks(folder: Path) -> Marks:
    """Return the marks of databases and files.

    They are the databases of runs and of rented machines, and the files of trust and settings.
    """
    settings = (trust.agreements_file(folder), folder / ".env", user_file())
    return Marks(
        _mark_database(folder / STATE_FOLDER / "runs.db"),
        _mark_database(app_paths().data / "pods.db"),
        _mark(*settings),
    )


def _mark_database(database: Path) -> object:
    """Return a mark of a SQLite database and its write-ahead log.

    Readers leave the log empty for a moment.
    """
    return _mark(database, database.with_name(f"{database.name}-wal"))


def _mark(*paths: Path) -> object:
    """Return a mark of files; those that are empty or not there do not count."""
    found = []
    for path in paths:
        try:
            facts = path.stat()
        except OSError:
            continue
        if facts.st_size:
            found.append((facts.st_ino, facts.st_size, facts.st_mtime_ns))
    return tuple(found)


async def sync_runs(folder: Path, first: bool) -> tuple[str, ...]:
    """Ask the machines for the state of their runs.

    Args:
        folder: The project.
        first: hudtui has just started: runs whose supervisor was killed are resumed.

    Returns:
        What the user should know, one line each.
    """
    state = folder / STATE_FOLDER
    if not (state / "runs.db").is_file():
        return ()
    from hudtui.core.runs.store import RunStore

    store = RunStore(state)
    if not first:
        from hudtui.core.runs.watch import Monitor

        await Monitor(store).refresh()
        return ()
    from hudtui.core.runs.reconcile import reconcile_runs

    def lookup(name: str) -> str | None:
        return load_settings(folder, open_workspace(folder).platform).lookup(name)

    return tuple(notice.message for notice in await reconcile_runs(store, lookup=lookup))


def check_files(facts: Facts) -> bool:
    """Check new and changed files of the project, and return whether a result is new."""
    return facts.workspace is not None and VERDICTS.check(facts.workspace)


def _analyzed(workspace: Workspace) -> str | None:
    if not (workspace.state_dir / "analyses").is_dir():
        return None
    from hudtui.core.environment.cache import latest_analysis

    found = latest_analysis(workspace.folder)
    if found is None:
        return None
    tools = len(found.agent_tools)
    return f"{clean_line(found.source, 60)}: {tools} tool{'' if tools == 1 else 's'}"


def _listed(runs: Sequence[RunSummary]) -> tuple[RunFact, ...]:
    """Return the runs of a list; those with one name also show the end of their ids."""
    named = Counter(run.name for run in runs)
    return tuple(
        _run(run, run.name if named[run.name] == 1 else f"{run.name} {run.id.rpartition('-')[2]}")
        for run in runs
    )


def _run(run: RunSummary, title: str) -> RunFact:
    from hudtui.core.runs.values import STATE_GLYPHS

    return RunFact(
        id=run.id,
        title=title,
        state=run.state,
        running=run.active,
        glyph=STATE_GLYPHS[run.state],
        started_at=run.started or run.created or None,
        seconds=None if run.active or run.ended is None else run.elapsed(run.ended),
        hidden=run.hidden,
    )
