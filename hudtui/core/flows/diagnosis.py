"""The diagnosis of a run, once: its metrics, its alarms, and what its episodes show."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hudtui.core.diagnosis.alarms import read_thresholds
from hudtui.core.diagnosis.diagnose import diagnose
from hudtui.core.diagnosis.spent import with_spent
from hudtui.core.diagnosis.values import Diagnosis
from hudtui.core.errors import InputError
from hudtui.core.results.evidence import episode_numbers
from hudtui.core.results.find import results_named
from hudtui.core.results.index import ResultIndex
from hudtui.core.runs.external import ExternalPlace, read_external, read_place
from hudtui.core.runs.store import RunStore
from hudtui.core.runs.watch import Monitor, trainer_settings
from hudtui.core.training.engines import features_of
from hudtui.core.training.metrics import MetricsReader


async def diagnose_run(
    run: str | None, store: RunStore, monitor: Monitor, folder: Path
) -> tuple[str, Diagnosis | None]:
    """Return the name of a run and its diagnosis; None if it has no numbers.

    Args:
        run: Id or name of a run, or a path of any trainer or tracker, here or `HOST:PATH`; None
            for the newest run.
        store: The runs of the project.
        monitor: Reads what they have written.
        folder: The project folder.

    Raises:
        InputError: There is no such run, or it trains nothing.
        MachineError: The machine of a path does not answer.
    """
    place = None if run is None else read_place(run)
    if run is not None and place is not None and place.file is not None:
        return run, await _of_place(place, folder)
    chosen = await store.run(lambda: store.find(run))
    record = await store.run(lambda: store.record(chosen))
    if not features_of(record.spec.engine).trains:
        raise InputError(
            f"{chosen} plays episodes and trains nothing",
            fix=f"Its numbers: hudtui runs metrics {chosen}",
        )
    view = await monitor.view(chosen)
    if not (view.metrics.names or view.alarms):
        return chosen, None
    episodes = await asyncio.to_thread(_episodes, chosen, store, folder)
    settings = trainer_settings(record)
    found = await asyncio.to_thread(
        diagnose, view.metrics, settings, alarms=view.alarms, episodes=episodes
    )
    hourly, currency = view.summary.hourly, view.summary.currency
    return chosen, with_spent(found, view.metrics, hourly=hourly, currency=currency)


async def _of_place(place: ExternalPlace, folder: Path) -> Diagnosis | None:
    view = await read_external(place, thresholds=read_thresholds(folder))
    return view.diagnosis if view.metrics.names or view.alarms else None


def _episodes(run: str, store: RunStore, folder: Path) -> MetricsReader | None:
    """Return what the episodes of a run show by step; None where none of them is here."""
    try:
        index = ResultIndex(results_named(run, folder, store))
    except InputError:
        return None
    return episode_numbers(index.finish())
