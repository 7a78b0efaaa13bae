"""Stopping a run: what is asked, that nothing is left, and that no machine is called ended that may
still cost money."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.compute_world import simulated_prime
from support.person import ScriptedPerson

from hudtui.core.compute.values import Offer, Price
from hudtui.core.errors import InputError
from hudtui.core.flows import stop as stopping
from hudtui.core.flows.start import start
from hudtui.core.flows.stop import rental, stop
from hudtui.core.process import machine_label
from hudtui.core.project import Project, open_project
from hudtui.core.remote.hosts import pod_host
from hudtui.core.runs.spec import Rental, RunSpec
from hudtui.core.runs.store import RunRecord
from hudtui.core.training.plan import Plan, Stage


@pytest.fixture
def project(own_world: Path) -> Project:
    return open_project(own_world)


def planned(project: Project, script: str = "true") -> RunRecord:
    run = project.runs.new_id("test")
    plan = Plan("rollouts", (Stage("s0", ("bash", "-c", script), grace=1.0),))
    spec = RunSpec("rollouts", "test", str(project.folder))
    return RunRecord(
        run,
        time.time(),
        "test",
        "rollouts",
        "local",
        machine_label(),
        str(project.runs.folder / run),
        spec,
        plan,
    )


def rented(project: Project, **more: Any) -> RunRecord:
    record = planned(project)
    rent = Rental(
        "prime",
        f"hudtui-{record.id}",
        Offer("prime", "x", "H100", 1, Price(2.1)),
        2.1,
        simulated=True,
        **more,
    )
    return replace(record, host=pod_host(rent.machine), spec=replace(record.spec, rent=rent))


async def test_a_run_is_stopped_only_when_the_user_agrees(project: Project) -> None:
    record = planned(project, "sleep 1000")
    async for _ in start(record, project, tmux=False):
        pass
    person, heard = ScriptedPerson(False, True), []
    assert await stop(record.id, project, person) is None and project.runs.summary(record.id).active
    stopped = await stop(
        record.id, project, person, on_event=lambda event: heard.append(event.message)
    )
    assert stopped is not None and stopped.summary.state == "stopped"
    assert stopped.report == f"run {record.id} (test) is stopped; none of its processes is running."
    assert heard == [f"Stopping run {record.id} (test)"]
    question = person.questions[0]
    assert question.title == f"Stop run {record.id} (test)?" and question.danger
    assert question.lines == (
        "Its processes are ended, first with SIGTERM, then with SIGKILL.",
        "The log and the results stay.",
    )


async def test_a_run_that_has_ended_is_not_asked_about(project: Project) -> None:
    record = planned(project)
    project.runs.add(record)
    project.runs.append(record.id, "stopped", {"why": "stopped before it started"})
    stopped = await stop(record.id, project, ScriptedPerson())
    assert (
        stopped is not None
        and stopped.report == f"run {record.id} (test) has ended already: stopped."
    )


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (
            (("machine", {"kind": "created"}), ("machine", {"kind": "released"})),
            "its machine is ended, and that was verified.",
        ),
        (
            (("machine", {"kind": "created"}),),
            "is KEPT and still costs money: hudtui pods terminate hudtui-",
        ),
        ((), "no machine was created for it."),
    ],
)
async def test_a_machine_is_called_ended_only_when_it_is(
    project: Project, monkeypatch: pytest.MonkeyPatch, events: Any, said: str
) -> None:
    record = rented(project)
    project.runs.add(record)

    @asynccontextmanager
    async def no_provider(*_: Any, **__: Any) -> Any:
        yield None

    async def end_remote_run(run: str, store: Any, *_: Any, **__: Any) -> Any:
        for kind, data in (*events, ("stopped", {"why": "the user"})):
            store.append(run, kind, data)
        return store.summary(run)

    monkeypatch.setattr(stopping, "rental", no_provider)
    monkeypatch.setattr(stopping, "end_remote_run", end_remote_run)
    person = ScriptedPerson(True)
    stopped = await stop(record.id, project, person, now=True)
    assert stopped is not None and said in stopped.report
    assert person.questions[0].lines == (
        "Its processes are ended, at once.",
        "Its results are fetched, and its machine is ended.",
    )


async def test_the_machine_of_an_ended_run_can_still_be_ended(project: Project) -> None:
    record = rented(project)
    project.runs.add(record)
    project.runs.append(record.id, "machine", {"kind": "created"})
    project.runs.append(record.id, "failed", {"why": "status 3"})
    person = ScriptedPerson(False)
    assert await stop(record.id, project, person) is None
    assert (
        person.titles == [f"End the machine of run {record.id} (test)?"]
        and person.questions[0].danger
    )


async def test_a_real_machine_is_not_looked_for_at_the_simulator(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = rented(project)
    assert record.spec.rent is not None
    real = replace(
        record, spec=replace(record.spec, rent=replace(record.spec.rent, simulated=False))
    )
    with simulated_prime(monkeypatch):
        async with rental(record, project) as context:
            assert context.provider.features.simulated
        with pytest.raises(InputError, match="is on a real machine"):
            async with rental(real, project):
                raise AssertionError("the wrong provider is open")
