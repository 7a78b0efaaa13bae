"""Asks the core what there is in a project folder. Imported after the first paint; everything here runs in a thread."""

from __future__ import annotations

import time
from pathlib import Path

from hudtui.core.errors import HudtuiError
from hudtui.core.platform import explain_choice
from hudtui.core.runs.road import road
from hudtui.core.runs.store import RunStore
from hudtui.core.settings import load_settings
from hudtui.core.workspace import open_workspace
from hudtui.tui.facts import Account, Facts, RunFact, StationFact

SHOWN_RUNS = 50
"""More than this many runs are listed by the run station only."""


def load_facts(folder: Path) -> Facts:
    """Read the project. A part that cannot be read becomes a warning; the others are still there.

    Raises:
        HudtuiError: The folder itself cannot be read, or no platform has the chosen name.
    """
    workspace = open_workspace(folder)
    choice = explain_choice(folder)
    warnings = list(choice.notices)
    account: Account | None = None
    try:
        settings = load_settings(folder, choice.platform)
        account = Account(choice.platform.key_variable, settings.origin(choice.platform.key_variable))
    except HudtuiError as error:
        warnings.append(error.lines()[0])
    image = dataset = None
    if workspace.lock is not None:
        from hudtui.core.lockfile import read_lock

        try:
            lock = read_lock(workspace.lock)
            image, dataset = lock.image, lock.primary_dataset.name if lock.primary_dataset else None
        except HudtuiError as error:
            warnings.append(error.lines()[0])
    summaries = []
    if workspace.state_dir.is_dir():
        try:
            summaries = list(RunStore(workspace.state_dir).runs())
        except HudtuiError as error:
            warnings.append(error.lines()[0])
    now = time.time()
    runs = tuple(
        RunFact(
            run.id,
            run.name,
            run.state,
            run.active,
            run.created or None,
            run.elapsed(now) if not run.active else None,
            run.why or "",
        )
        for run in sorted(summaries, key=lambda run: run.created, reverse=True)[:SHOWN_RUNS]
    )
    stations: dict[str, StationFact] = {
        station.name: StationFact(station.state, station.detail, station.what_next)
        for station in road(workspace, analysis=None, runs=summaries)
    }
    return Facts(
        folder=folder,
        platform=choice.platform.title,
        account=account,
        stations=stations,
        configs=workspace.configs,
        task_files=workspace.task_files,
        lock=workspace.lock,
        env_file=workspace.env_file,
        image=image,
        dataset=dataset,
        runs=runs,
        warnings=tuple(warnings),
    )


def make_demo(folder: Path) -> tuple[Path, ...]:
    """Write the demo workspace."""
    from hudtui.core.demo import make_workspace

    return make_workspace(folder)
