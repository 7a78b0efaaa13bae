from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from hudtui.core.runs.road import road
from hudtui.core.runs.values import RunSummary


@dataclass(frozen=True)
class Folder:
    configs: tuple[str, ...] = ()
    task_files: tuple[str, ...] = ()
    lock: str | None = None


RUN = RunSummary("a-1", "a", "rollouts", "local", "/tmp/a", state="finished", created=1.0)


def states(*args: object, **kwargs: object) -> list[str]:
    return [station.state for station in road(*args, **kwargs)]  # type: ignore[arg-type]


def test_an_empty_folder_starts_at_the_environment() -> None:
    stations = road(Folder())
    assert [station.name for station in stations] == ["environment", "mapping", "dataset", "compute", "run"]
    assert [station.state for station in stations] == ["next", "missing", "missing", "done", "missing"]
    assert stations[0].what_next == "Analyse an environment."


@pytest.mark.parametrize(
    ("folder", "analysis", "expected"),
    [
        (Folder(lock="hud.lock.yaml"), None, ["done", "next", "missing", "done", "missing"]),
        (Folder(), "text-2048", ["done", "next", "missing", "done", "missing"]),
        (Folder(configs=("c",)), "text-2048", ["done", "done", "next", "done", "missing"]),
        (Folder(configs=("c",), task_files=("t",)), None, ["next", "done", "done", "done", "missing"]),
        (Folder(configs=("c",), task_files=("t",)), "text-2048", ["done", "done", "done", "done", "next"]),
    ],
)
def test_the_first_open_station_is_next(folder: Folder, analysis: str | None, expected: list[str]) -> None:
    assert states(folder, analysis=analysis) == expected


def test_an_active_run_wins_over_older_and_newer_ended_ones() -> None:
    full = Folder(("c",), ("t",), "lock")
    running = replace(RUN, id="b-1", name="b", state="running", created=2.0)
    failed = replace(RUN, id="c-1", name="c", state="failed", created=3.0)
    last = road(full, runs=[RUN, running, failed])[-1]
    assert (last.state, last.detail) == ("running", "b running")
    assert road(full, runs=[failed, RUN])[-1].state == "failed"
    assert road(full, runs=[RUN])[-1].state == "done"
    assert road(full, runs=[running, replace(running, id="d-1")])[-1].detail == "2 runs active"


def test_counts_read_well() -> None:
    stations = road(Folder(("a", "b"), ("t",), "lock"), analysis="text-2048")
    assert [station.detail for station in stations[:3]] == ["text-2048", "2 configs", "1 task file"]
