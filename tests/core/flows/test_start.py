"""Starting a run: what is asked before it, what a rehearsal needs, and a launch on this machine."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.compute_world import simulated_prime
from support.person import ScriptedPerson

from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.errors import MachineError
from hudtui.core.flows import start as starting
from hudtui.core.flows.start import agree_to_start, open_tunnels, plan_rehearsal, start
from hudtui.core.process import machine_label
from hudtui.core.project import Project, open_project
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs.prepare import Preparation, prepare_run
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.resolve import REHEARSAL_STEPS
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord
from hudtui.core.training.engines import recipe_for
from hudtui.core.training.plan import Plan, Stage
from hudtui.core.trust import Untrusted
from hudtui.sim import PrimeSimulator

CONFIG = (
    "parser: {use_thinking: false}\naction_mappings:\n  left: {_parser: {positional: []}, _tool: "
    "move}\n"
)


@pytest.fixture
def project(own_world: Path) -> Project:
    server = {"game": {"url": "https://example.org/mcp"}}
    judge = {"name": "evaluate", "arguments": {}}
    tasks = [
        {"id": f"t{n}", "prompt": "Go left.", "mcp_config": server, "evaluate_tool": judge}
        for n in range(4)
    ]
    (own_world / "tasks.json").write_text(json.dumps(tasks))
    (own_world / "play.yaml").write_text(CONFIG)
    return open_project(own_world)


@pytest.fixture
def prime(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrimeSimulator]:
    with simulated_prime(monkeypatch) as sim:
        yield sim


async def prepared(project: Project, request: RunRequest) -> Preparation:
    found = await prepare_run(
        request, project.workspace(), project.settings(), project.runs, starts=False
    )
    assert found.record is not None, found.missing
    return found


def paid(found: Preparation, **more: Any) -> Preparation:
    assert found.record is not None and found.record.spec.rent is not None
    rent = replace(found.record.spec.rent, simulated=False, **more)
    return replace(found, record=replace(found.record, spec=replace(found.record.spec, rent=rent)))


async def test_a_run_on_a_machine_of_the_users_costs_nothing(project: Project) -> None:
    found = await prepared(project, RunRequest(engine="rollouts", host="local", policy="random"))
    person = ScriptedPerson(False)
    assert not await agree_to_start(found, project, person)
    (question,) = person.questions
    assert (question.title, question.lines, question.danger) == (
        "Start play random?",
        ("It runs on this machine; no machine is rented.",),
        False,
    )


async def test_the_question_has_price_estimate_limits_and_what_ends_the_machine(
    project: Project, prime: PrimeSimulator
) -> None:
    found = await prepared(
        project,
        RunRequest(engine="rollouts", policy="random", provider="prime", gpus="H100", budget="9"),
    )
    assert found.estimate is not None
    person = ScriptedPerson(True, True, True)
    assert await agree_to_start(found, project, person)
    (question,) = person.questions
    machine, estimate, limits, wallet, end = question.lines
    assert question.title == "Rent a machine for play random?" and not question.danger
    assert (
        "1 x H100_80GB at " in machine
        and machine.endswith(": $2.10/h (simulated)")
        and estimate == found.estimate.text
    )
    assert (
        "$9.00 for this run" in limits
        and "a day for all" in limits
        and wallet.startswith("Your wallet ($")
    )
    assert end == "It is ended after the run, and that is verified."
    real = {"prime": PrimeProvider(prime.api_key, base_url=prime.url)}
    assert await agree_to_start(paid(found), project, person, providers=real)
    question = person.questions[-1]
    assert question.danger and question.lines[0].endswith(": $2.10/h"), (
        "real money is never the default answer"
    )
    assert await agree_to_start(paid(found, keep_on_failure=True), project, person, providers=real)
    assert "it is KEPT, and you pay for it" in person.questions[-1].lines[-1]
    await real["prime"].close()


@pytest.mark.parametrize(
    ("asked", "fails"),
    [
        (RunRequest(engine="trl", provider="prime"), True),
        (RunRequest(engine="trl", provider="prime", rehearse=True, python="/opt/python"), False),
        (RunRequest(engine="rollouts", policy="random", provider="prime"), False),
    ],
)
async def test_the_question_says_what_is_known_to_fail(
    project: Project, prime: PrimeSimulator, asked: RunRequest, fails: bool
) -> None:
    found, person = await prepared(project, asked), ScriptedPerson(True, True)
    await agree_to_start(found, project, person)
    said = " ".join(person.questions[0].lines)
    assert ("this training will end with an error" in said) == fails
    assert (
        "The time of a step is not known yet" in said and "Until its limits: $" in said
    ) == fails, "only of a training"
    real = PrimeProvider(prime.api_key, base_url=prime.url)
    await agree_to_start(paid(found), project, person, providers={"prime": real})
    await real.close()
    assert "this training will end with an error" not in " ".join(person.questions[1].lines)


async def test_a_rehearsal_asks_before_it_makes_an_environment(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = ScriptedPerson(False, True)
    assert await plan_rehearsal(RunRequest(), project, person) is None
    assert (
        person.titles == ["Install PyTorch for rehearsals?"]
        and "once; into" in person.questions[0].lines[0]
    )
    record = await plan_rehearsal(RunRequest(), project, person)
    assert (
        record is not None
        and record.spec.rehearse
        and recipe_for(record.spec).steps == REHEARSAL_STEPS
    )
    monkeypatch.setenv("HUDTUI_TRAINER_PYTHON", sys.executable)
    record = await plan_rehearsal(RunRequest(steps=7), project, ScriptedPerson())
    assert record is not None and recipe_for(record.spec).steps == 7, (
        "nothing is made, so nothing is asked"
    )
    assert project.runs.ids() == ()


def planned(project: Project, script: str = "true", **spec: Any) -> RunRecord:
    run = project.runs.new_id("test")
    plan = Plan("rollouts", (Stage("s0", ("bash", "-c", script), grace=1.0),))
    made = RunSpec("rollouts", "test", str(project.folder), **spec)
    return RunRecord(
        run,
        time.time(),
        "test",
        "rollouts",
        "local",
        machine_label(),
        str(project.runs.folder / run),
        made,
        plan,
    )


async def test_a_run_starts_on_this_machine(project: Project) -> None:
    record = planned(project)
    events = [event.type async for event in start(record, project, tmux=False)]
    assert events[0] == "planned" and "step" in events
    assert project.runs.summary(record.id).started is not None


async def test_what_the_user_has_not_agreed_to_is_not_started(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HUDTUI_TRUST")
    (project.folder / ".env").write_text("OPENAI_BASE_URL=https://example.org/v1\n")
    record = planned(project)
    with pytest.raises(Untrusted):
        [event async for event in start(record, project, tmux=False)]
    assert project.runs.ids() == ()


async def test_a_port_that_cannot_be_reached_is_named(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed(LocalHost):
        def reverse(self, *_: Any) -> Any:
            raise MachineError("the machine lets no port through")

    monkeypatch.setattr(starting, "find_host", lambda name: Closed())
    record = planned(project, tunnels=(8000,))
    async with open_tunnels(record, project):
        pass  # this machine reaches itself
    with pytest.raises(MachineError) as failed:
        async with open_tunnels(replace(record, host="me@box"), project):
            raise AssertionError("a tunnel is open")
    assert failed.value.lines()[:2] == [
        "port 8000 of this computer cannot be reached from its machine",
        "the machine lets no port through",
    ]
