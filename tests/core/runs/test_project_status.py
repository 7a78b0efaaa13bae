from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hudtui.core.runs.project_status import FileChecks, FileErrors, project_steps
from hudtui.core.runs.values import RunSummary
from hudtui.core.workspace import open_workspace


@dataclass(frozen=True)
class Folder:
    configs: tuple[str, ...] = ()
    task_files: tuple[str, ...] = ()
    lock: str | None = None


RUN = RunSummary("a-1", "a", "rollouts", "local", "/tmp/a", state="finished", created=1.0)


def states(*args: object, **kwargs: object) -> list[str]:
    return [station.state for station in project_steps(*args, **kwargs)]  # type: ignore[arg-type]


def test_an_empty_folder_starts_at_the_environment() -> None:
    stations = project_steps(Folder())
    assert [station.name for station in stations] == [
        "environment",
        "mapping",
        "dataset",
        "compute",
        "run",
    ]
    assert [station.state for station in stations] == [
        "next",
        "missing",
        "missing",
        "missing",
        "missing",
    ]
    assert stations[0].what_next == "Analyze an environment."


@pytest.mark.parametrize(
    ("folder", "analysis", "expected"),
    [
        (Folder(lock="hud.lock.yaml"), None, ["done", "next", "missing", "done", "missing"]),
        (Folder(), "text-2048", ["done", "next", "missing", "done", "missing"]),
        (Folder(configs=("c",)), "text-2048", ["done", "done", "next", "done", "missing"]),
        (
            Folder(configs=("c",), task_files=("t",)),
            None,
            ["next", "done", "done", "done", "missing"],
        ),
        (
            Folder(configs=("c",), task_files=("t",)),
            "text-2048",
            ["done", "done", "done", "done", "next"],
        ),
    ],
)
def test_the_first_open_station_is_next(
    folder: Folder, analysis: str | None, expected: list[str]
) -> None:
    assert states(folder, analysis=analysis) == expected


def test_an_active_run_wins_over_older_and_newer_ended_ones() -> None:
    full = Folder(("c",), ("t",), "lock")
    running = replace(RUN, id="b-1", name="b", state="running", created=2.0)
    failed = replace(RUN, id="c-1", name="c", state="failed", created=3.0)
    last = project_steps(full, runs=[RUN, running, failed])[-1]
    assert (last.state, last.detail) == ("running", "b running")
    assert project_steps(full, runs=[failed, RUN])[-1].state == "failed"
    assert project_steps(full, runs=[RUN])[-1].state == "done"
    assert project_steps(full, runs=[replace(RUN, state="stopped")])[-1].state == "next", (
        "what was stopped is not done"
    )
    assert (
        project_steps(full, runs=[running, replace(running, id="d-1")])[-1].detail
        == "2 runs active"
    )


def test_counts_read_well() -> None:
    stations = project_steps(Folder(("a", "b"), ("t",), "lock"), analysis="text-2048")
    assert [station.detail for station in stations[:3]] == ["text-2048", "2 configs", "1 task file"]


def test_what_is_broken_is_not_done() -> None:
    full = Folder(("c",), ("t",), "lock")
    wrong = project_steps(
        full,
        analysis="text-2048",
        configs_wrong=FileErrors(7, "7 errors in c"),
        tasks_wrong=FileErrors(1, "1 error in t"),
    )
    assert [(station.state, station.errors) for station in wrong[:3]] == [
        ("done", 0),
        ("failed", 7),
        ("failed", 1),
    ]
    assert wrong[1].detail == "7 errors in c" and wrong[4].state == "missing"
    assert project_steps(full, lock_error="lock: line 1 is no YAML")[0].state == "failed"
    assert (
        project_steps(full, lock_error="lock: line 1 is no YAML", analysis="text-2048")[0].state
        == "done"
    ), "it was looked at"


def test_compute_is_answered_by_a_key_or_by_something_that_can_run_here() -> None:
    assert project_steps(Folder())[3].state == "missing"
    assert project_steps(Folder(), rents=True)[3].state == "done"
    assert project_steps(Folder(), runs=[RUN])[3].state == "done"


def test_files_are_checked_once_and_again_when_they_change(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    config, tasks = tmp_path / "configs" / "a.yaml", tmp_path / "tasks.json"
    config.write_text(
        "parser: {use_thinking: false}\naction_mappings:\n  up: {_tool: move, _parser: [}\n"
    )
    tasks.write_text(json.dumps([{"id": "a", "prompt": "Play."}]))
    workspace = open_workspace(tmp_path)
    assert workspace.configs == (config,) and workspace.task_files == (tasks,)
    verdicts = FileChecks()
    assert verdicts.configs(workspace) == FileErrors(), "nothing is known before it was checked"
    assert verdicts.check(workspace) and not verdicts.check(workspace)
    assert (
        verdicts.configs(workspace).errors >= 1
        and "configs/a.yaml" in verdicts.configs(workspace).text
    )
    assert verdicts.tasks(workspace).errors >= 1 and "tasks.json" in verdicts.tasks(workspace).text
    config.write_bytes(bytes(range(256)))
    assert verdicts.check(workspace) and verdicts.configs(workspace).errors == 1


def test_the_dialects_of_configurations_are_named(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    for name, dialect in (("a", "native"), ("b", "text"), ("c", "hermes"), ("d", "native")):
        text = f"parser: {{dialect: {dialect}}}\naction_mappings: {{left: {{_tool: move}}}}\n"
        (tmp_path / "configs" / f"{name}.yaml").write_text(text)
    workspace, checks = open_workspace(tmp_path), FileChecks()
    assert checks.dialects(workspace) == ()
    assert checks.check(workspace) and checks.dialects(workspace) == ("native", "hermes")
    steps = project_steps(workspace, dialects=checks.dialects(workspace))
    assert steps[1].detail == "4 configs, native, hermes"
    assert project_steps(workspace)[1].detail == "4 configs"
