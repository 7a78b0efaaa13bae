"""What is asked before tasks become a dataset, go to the Hub, or are carried over to HUD v6."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.person import ScriptedPerson

from hudtui.core.errors import InputError
from hudtui.core.flows.publish import (
    DatasetChoices,
    agree_to_push,
    carry_to_v6,
    find_choices,
    suggested_output,
    take_choices,
)
from hudtui.core.platform import HUD
from hudtui.core.project import Project
from hudtui.core.tasks.dataset import MIN_TASKS, DatasetRequest
from hudtui.core.tasks.migrate import Migration
from hudtui.core.tasks.publish import RepoStatus
from hudtui.core.tasks.read import find_source
from hudtui.core.tasks.servers import LOCAL, SECRETS

REQUEST = DatasetRequest("tasks.json")
PUSHED = "images: {local: 'env:1', full: 'my-org/env:1'}\n"
HERE_ALONE = "image: env:1\n"
V5 = {"env": {"name": "sheets"}, "scenario": "sheets:fill", "args": {"n": 1}, "id": "first"}


@pytest.fixture
def project(own_world: Path) -> Project:
    (own_world / "tasks.json").write_text(json.dumps([V5, {**V5, "id": "second"}]))
    return Project(own_world, HUD)


def offers(
    project: Project, lock: str = PUSHED, *, local: int = 2, secrets: int = 1, usable: int = 2
) -> DatasetChoices:
    (project.folder / "hud.lock.yaml").write_text(lock)
    return find_choices(REQUEST, project.settings(), {LOCAL: local, SECRETS: secrets}, usable)


def fields(found: DatasetChoices, *decided: str) -> list[str]:
    return [offer.field for offer in found.open(decided)]


def test_what_these_tasks_need_is_offered_in_order(project: Project) -> None:
    found = offers(project)
    assert fields(found) == ["remote", "replace_secrets", "min_tasks"]
    assert [offer.default for offer in found.open()] == [False, True, True]
    assert (
        "2 tasks run on servers of this machine" in found.remote.question
        and "my-org/env:1" in found.remote.label
    )
    assert fields(found, "remote", "min_tasks") == ["replace_secrets"]
    request = REQUEST
    for offer in found.open():
        request = offer.taken(request)
    assert (request.remote, request.replace_secrets, request.min_tasks) == (True, True, MIN_TASKS)
    assert (found.lock, found.own, found.token) == ("hud.lock.yaml", True, False)


@pytest.mark.parametrize(
    ("lock", "counts", "reason"),
    [
        (PUSHED, {"local": 0}, "no task has one on this machine"),
        ("other: 1\n", {}, "2 local, and no lock file names an image"),
        (HERE_ALONE, {}, "2 local, and only this computer has env:1"),
    ],
)
def test_why_servers_stay_local(
    project: Project, lock: str, counts: dict[str, int], reason: str
) -> None:
    found = offers(project, lock, **counts)
    assert found.remote.why_not == reason and "remote" not in fields(found)
    taken = take_choices(REQUEST, project.settings())
    assert taken.remote is (lock == PUSHED), (
        "tasks are not read for --yes: without a local server nothing changes"
    )


def test_nothing_is_offered_for_sound_tasks(project: Project) -> None:
    assert fields(offers(project, local=0, secrets=0, usable=MIN_TASKS)) == []
    assert fields(offers(project, local=0, secrets=0, usable=0)) == []


def test_an_offer_taken_in_advance_undoes_no_decision(project: Project) -> None:
    (project.folder / "hud.lock.yaml").write_text(PUSHED)
    kept = replace(REQUEST, keep_secrets=True, min_tasks=7)
    taken = take_choices(kept, project.settings(), {"remote", "replace_secrets", "min_tasks"})
    assert taken == replace(kept, name=taken.name) and taken.name
    assert take_choices(replace(REQUEST, push=False), project.settings()).name is None


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (RepoStatus("me/boards", False, True), ("private: only you", "It is new.")),
        (RepoStatus("me/boards", True, False), ("! PUBLIC", "are replaced")),
    ],
)
async def test_the_person_sees_where_a_push_goes(there: RepoStatus, words: tuple[str, ...]) -> None:
    person = ScriptedPerson(False, True)
    assert not await agree_to_push(REQUEST, there, person, rows=5)
    (asked,) = person.questions
    assert asked.title == "Publish me/boards?" and asked.danger is not there.private
    assert asked.lines[0].startswith("5 rows to http") and asked.lines[0].endswith(
        "/datasets/me/boards"
    )
    assert all(word in "\n".join(asked.lines) for word in words)
    assert await agree_to_push(replace(REQUEST, keep_secrets=True), there, person, secrets=3)
    assert person.questions[1].lines[-1] == "! 3 tasks with secrets as they are written"


async def carried(
    project: Project, person: ScriptedPerson, output: Path | None = None
) -> list[Any]:
    source = find_source("tasks.json", folder=project.folder)
    return [step async for step in carry_to_v6(project, person, source, output)]


async def test_tasks_are_carried_over_into_a_file_that_the_person_names(project: Project) -> None:
    person = ScriptedPerson("new.json")
    made = (await carried(project, person))[-1]
    assert person.questions[0].value == "tasks-v6.json"
    assert isinstance(made, Migration) and (made.written, made.output) == (
        2,
        project.folder / "new.json",
    )
    before = made.output.read_text()
    assert (
        await carried(project, ScriptedPerson("new.json", False)) == []
        and made.output.read_text() == before
    )
    person = ScriptedPerson(True)
    assert isinstance((await carried(project, person, Path("new.json")))[-1], Migration)
    assert person.questions[0].title == "Replace new.json?" and person.questions[0].danger


@pytest.mark.parametrize("answer", [None, " "])
async def test_without_a_name_nothing_is_written(project: Project, answer: str | None) -> None:
    person = ScriptedPerson(answer)
    assert await carried(project, person) == [] and sorted(
        path.name for path in project.folder.iterdir()
    ) == ["tasks.json"]
    assert bool(person.said) is (answer is not None)


async def test_a_file_of_another_kind_is_refused(project: Project) -> None:
    with pytest.raises(InputError, match="a task file ends in"):
        await carried(project, ScriptedPerson("new.yaml"))


def test_the_suggested_file_is_never_the_source() -> None:
    assert suggested_output("a/tasks.json") == "tasks.parquet"
    assert suggested_output("tasks.jsonl.gz") == "tasks.parquet"
    assert suggested_output("tasks.parquet") == "tasks-checked.parquet"
    assert suggested_output("org/name@main:train") == "name.parquet"
