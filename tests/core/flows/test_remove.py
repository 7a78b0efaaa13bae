"""Removing runs: one question for all of them, all or nothing where a run has not ended, and what
is lost is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.person import ScriptedPerson
from support.runs import make_run

from hudtui.core.errors import MachineError, RunError
from hudtui.core.flows.remove import Removed, remove
from hudtui.core.project import Project, open_project


@pytest.fixture
def project(own_world: Path) -> Project:
    for run, state in (
        ("one-aaaa", "finished"),
        ("two-bbbb", "failed"),
        ("six-cccc", "stopped"),
        ("now-dddd", "running"),
    ):
        make_run(own_world, run, state, name=run[:3])
    return open_project(own_world)


async def removed(
    runs: list[str], project: Project, person: ScriptedPerson, **more: Any
) -> list[str]:
    return [
        step.run
        async for step in remove(runs, project, person, **more)
        if isinstance(step, Removed)
    ]


def listed(project: Project) -> set[str]:
    return {run.id for run in project.runs.runs()}


async def test_several_runs_are_removed_after_one_question(project: Project) -> None:
    person = ScriptedPerson(False, True)
    assert (
        await removed(["one-aaaa", "two-bbbb"], project, person) == [] and len(listed(project)) == 4
    )
    assert await removed(["one-aaaa", "two-bbbb", "one-aaaa"], project, person) == [
        "one-aaaa",
        "two-bbbb",
    ]
    assert (
        listed(project) == {"six-cccc", "now-dddd"}
        and not (project.runs.folder / "one-aaaa").exists()
    )
    question = person.questions[1]
    assert question.title == "Remove 2 runs?" and question.danger
    assert question.lines == (
        "one-aaaa (one, finished)",
        "two-bbbb (two, failed)",
        "Their logs, results and checkpoints are deleted.",
    )
    assert await removed(
        ["six-cccc"], project, kept := ScriptedPerson(True), keep_results=True
    ) == ["six-cccc"]
    assert kept.questions[0].lines == ("Its files on this computer stay.",)
    assert (project.runs.folder / "six-cccc" / "logs").is_dir()


async def test_nothing_is_removed_while_one_of_the_runs_is_active_or_holds_a_machine(
    project: Project,
) -> None:
    project.runs.append("two-bbbb", "machine", {"kind": "created"})
    assert project.runs.summary("two-bbbb").holds_machine
    with pytest.raises(RunError) as refused:
        await removed(["one-aaaa", "two-bbbb", "now-dddd"], project, ScriptedPerson())
    assert (
        "2 runs cannot be removed: two-bbbb (two, failed, its machine may still be there), "
        "now-dddd (now, running)" in str(refused.value)
    )
    assert len(listed(project)) == 4 and (project.runs.folder / "one-aaaa").is_dir()


async def test_a_run_that_cannot_be_removed_keeps_none_of_the_others(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hudtui.core.runs import launch

    delete = launch.shutil.rmtree

    def refuse(folder: Path, *more: Any) -> None:
        if folder.name == "one-aaaa":
            raise PermissionError(13, "Permission denied", str(folder))
        delete(folder, *more)

    monkeypatch.setattr(launch.shutil, "rmtree", refuse)
    with pytest.raises(
        MachineError,
        match=r"1 of 2 runs could not be removed: one-aaaa: .*one-aaaa could not be removed",
    ):
        await removed(["one-aaaa", "two-bbbb"], project, ScriptedPerson(True))
    assert listed(project) == {"one-aaaa", "six-cccc", "now-dddd"}
