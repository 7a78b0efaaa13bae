"""The diagnosis of a run, once: its metrics, its alarms, and what its episodes show."""

from __future__ import annotations

from pathlib import Path

from hudtui.core.diagnosis.alarms import read_thresholds
from hudtui.core.diagnosis.values import Diagnosis
from hudtui.core.errors import InputError
from hudtui.core.runs.external import ExternalPlace, read_external, read_place
from hudtui.core.runs.store import RunStore
from hudtui.core.runs.watch import Monitor
from hudtui.core.training.engines import features_of


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
    view = await monitor.view(chosen, whole=True)
    return chosen, view.diagnosis if view.metrics.names or view.alarms else None


async def _of_place(place: ExternalPlace, folder: Path) -> Diagnosis | None:
    view = await read_external(place, thresholds=read_thresholds(folder))
    return view.diagnosis if view.metrics.names or view.alarms else None
