"""Starting runs from earlier ones: the same request, and continuations from a checkpoint on this
computer or another machine."""

from __future__ import annotations

import getpass
import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import sshd, tmux_world
from support.compute_world import simulated_prime
from support.person import ScriptedPerson
from support.specs import spec_of

from hudtui.core.compute.limits import Limits
from hudtui.core.compute.values import Offer, Price
from hudtui.core.errors import InputError
from hudtui.core.flows.again import continue_or_extend, continue_request, rerun_request
from hudtui.core.flows.start import agree_to_request, agree_to_start, start
from hudtui.core.project import Project, open_project
from hudtui.core.remote.hosts import close_hosts, find_host
from hudtui.core.runs.again import request_again
from hudtui.core.runs.launch import draft_run
from hudtui.core.runs.prepare import prepare_run
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.spec import Rental
from hudtui.core.runs.store import RunRecord

own_tmux = tmux_world.own_tmux
ssh_server = sshd.ssh_server
ssh_box = sshd.ssh_box

CONFIG = (
    "parser: {use_thinking: false}\naction_mappings:\n  left: {_parser: {positional: []}, _tool: "
    "move}\n"
)
TRAINING = RunRequest(
    model="org/Big-3B",
    steps=8,
    seed=3,
    settings={"num_generations": 8},
    host="local",
    python="/opt/bin/python",
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


def planned(project: Project, request: RunRequest = TRAINING, **changes: Any) -> RunRecord:
    """A run in the store that was never started."""
    spec = replace(spec_of(request, project.workspace()), **changes)
    record = draft_run(spec, find_host(request.host or "local"), project.runs)
    project.runs.add(record)
    return record


def trained(
    project: Project, folder: Path, *steps: int, record: RunRecord | None = None
) -> RunRecord:
    """A run that has ended with the checkpoints of these steps, and one that is not complete."""
    record = record or planned(project)
    for step in (*steps, 99):
        place = folder / "out" / "checkpoints" / f"checkpoint-{step}"
        (place / "more").mkdir(parents=True)
        (place / "adapter_model.safetensors").write_bytes(b"weights %d" % step)
        (place / "more" / "rng_state.pth").write_bytes(b"state")
        if step != 99:
            (place / "trainer_state.json").write_text("{}")
    (folder / "out" / "metrics.jsonl").write_text('{"step": 1, "reward": 0.5}\n')
    project.runs.append(record.id, "failed", {"why": "out of memory"})
    return record


async def test_the_same_request_leads_to_the_same_spec(project: Project) -> None:
    requests = (
        TRAINING,
        RunRequest(
            engine="rollouts",
            policy="random",
            group=3,
            limit=2,
            concurrency=7,
            max_hours="2",
            host="local",
            name="mine",
        ),
    )
    for request in requests:
        first = await prepare_run(request, project.workspace(), project.settings(), project.runs)
        spec = spec_of(request, project.workspace()) if first.record is None else first.record.spec
        record = planned(project, request, max_seconds=spec.max_seconds)
        again = request_again(record)
        assert again.limits == request.limits and again.host == "local" and again.rehearse is False
        second = spec_of(again, project.workspace())
        same = {
            "max_seconds": spec.max_seconds,
            "limits": spec.limits,
            "gpus": spec.gpus,
            "asked": spec.asked,
        }
        assert replace(second, **same) == replace(spec, remarks=())
        assert spec.asked.items() <= second.asked.items()


def test_a_rented_machine_is_asked_for_by_its_gpus_and_limits(project: Project) -> None:
    offer = Offer("prime", "x", "H100_80GB", 2, Price(4.2))
    rent = Rental("prime", "hudtui-x", offer, 4.2, keep_on_failure=True)
    limits = Limits(run_budget=9, max_hours=None, idle_minutes=15)
    found = request_again(
        planned(project, replace(TRAINING, host=None, provider="prime"), rent=rent, limits=limits)
    )
    assert (found.host, found.provider, found.gpus, found.offer) == (
        None,
        "prime",
        "2xH100_80GB",
        None,
    )
    assert (
        found.limits == {"run_budget": "9", "max_hours": "none", "idle_minutes": "15"}
        and found.keep_on_failure
    )
    assert found.spot is False
    spot = replace(
        rent, provider="sky", offer=replace(offer, provider="sky", spot=True, socket="SXM5")
    )
    found = request_again(planned(project, replace(TRAINING, host=None, provider="sky"), rent=spot))
    assert (found.provider, found.gpus, found.spot) == ("sky", "2xH100_80GB SXM5", True)
    for socket in ("Onboard", "\x1b[2J"):
        odd = replace(rent, offer=replace(offer, socket=socket))
        assert request_again(planned(project, TRAINING, rent=odd)).gpus == "2xH100_80GB"
    bare = replace(rent, offer=replace(offer, gpu_type="CPU_NODE", gpu_count=0))
    assert request_again(planned(project, TRAINING, rent=bare)).gpus == "cpu"
    assert request_again(planned(project, TRAINING)).spot is None


def test_what_the_user_has_set_besides_is_asked_for_again(project: Project) -> None:
    """A machine of the same region, and environments in the same place."""
    request = replace(
        TRAINING,
        host=None,
        provider="prime",
        regions=("eu", "FI"),
        clouds=("a",),
        environments="remote",
        offer_name="abc123",
    )
    rent = Rental("prime", "hudtui-x", Offer("prime", "x", "H100_80GB", 2, Price(4.2)), 4.2)
    found = request_again(planned(project, request, rent=rent))
    assert (found.regions, found.clouds, found.environments) == (("eu", "FI"), ("a",), "remote")
    assert (found.offer_name, found.gpus) == (None, "2xH100_80GB"), "offers come and go"


@pytest.mark.parametrize("spot", [True, False])
async def test_a_run_is_rented_again_as_spot_or_on_demand(
    project: Project, monkeypatch: pytest.MonkeyPatch, spot: bool
) -> None:
    with simulated_prime(monkeypatch):
        asked = RunRequest(
            engine="rollouts", policy="random", provider="prime", gpus="1xH100", spot=spot
        )
        first = await prepare_run(
            asked, project.workspace(), project.settings(), project.runs, starts=False
        )
        assert first.record is not None, first.missing
        project.runs.add(first.record)
        person = ScriptedPerson(False)
        request = await rerun_request(first.record.id, project, person)
        second = await prepare_run(
            request, project.workspace(), project.settings(), project.runs, starts=False
        )
        assert second.record is not None and second.record.spec.rent is not None, second.missing
        offer = second.record.spec.rent.offer
        assert (offer.spot, offer.gpu_type, offer.provider) == (spot, "H100_80GB", "prime")
        assert (
            await rerun_request(first.record.id, project, person, spot=not spot)
        ).spot is not spot
        await agree_to_start(second, project, person)
        machine = person.questions[0].lines[0]
        assert machine.startswith("Prime (simulated): ") and (", spot: $" in machine) == spot


async def test_files_that_have_changed_are_named_before_a_run_starts_again(
    project: Project,
) -> None:
    record, person = planned(project), ScriptedPerson()
    assert (await rerun_request(record.id, project, person)).tasks == str(
        project.folder / "tasks.json"
    ) and not person.said
    with pytest.raises(InputError, match="on no rented machine"):
        await rerun_request(record.id, project, person, spot=True)
    (project.folder / "play.yaml").write_text(CONFIG + "# other\n")
    await rerun_request(record.id, project, person)
    (said,) = person.said
    assert said.startswith(f"{project.folder / 'play.yaml'} has changed since run {record.id}")


async def test_a_training_continues_with_the_checkpoint_metrics_and_files_of_the_earlier_run(
    project: Project,
) -> None:
    record = planned(project)
    trained(project, Path(record.folder), 2, 4, 6, record=record)
    request = await continue_request(record.id, project)
    assert (request.steps, request.tasks, request.settings) == (
        8,
        str(project.folder / "tasks.json"),
        {"num_generations": 8},
    )
    plan = draft_run(spec_of(request, project.workspace()), find_host("local"), project.runs).plan
    taken = {
        file.path: Path(file.source.path).read_bytes()
        for file in plan.files
        if file.path.startswith("out/") and file.source
    }
    assert taken == {
        "out/checkpoints/checkpoint-6/adapter_model.safetensors": b"weights 6",
        "out/checkpoints/checkpoint-6/more/rng_state.pth": b"state",
        "out/checkpoints/checkpoint-6/trainer_state.json": b"{}",
        "out/metrics.jsonl": b'{"step": 1, "reward": 0.5}\n',
    }
    assert f"continues run {record.id} from its checkpoint of step 6" in plan.notes
    earlier = await continue_request(record.id, project, step=4, steps=20)
    assert earlier.continues is not None and (earlier.continues.step, earlier.steps) == (4, 20)


async def test_a_training_of_several_machines_continues_on_fewer(project: Project) -> None:
    offer = Offer("prime", "x", "H100_80GB", 16, Price(35.2), nodes=2)
    rent = Rental("prime", "hudtui-x", offer, 35.2)
    rented = planned(project, TRAINING, rent=rent, nodes=2, peers=rent.hosts[1:])
    trained(project, Path(rented.folder), 2, record=rented)
    assert (await continue_request(rented.id, project)).nodes == 2
    fewer = await continue_request(rented.id, project, nodes=1)
    assert (fewer.provider, fewer.nodes, fewer.gpus) == ("prime", 1, "8xH100_80GB")
    assert fewer.continues is not None and fewer.continues.step == 2
    own = planned(project, TRAINING, nodes=2, peers=("me@b",))
    trained(project, Path(own.folder), 2, record=own)
    assert (await continue_request(own.id, project)).machines == ("local", "me@b")
    alone = await continue_request(own.id, project, hosts=("me@b",))
    assert (alone.machines, alone.node_count) == (("me@b",), 1)
    with pytest.raises(InputError, match="was on machines of yours"):
        await continue_request(own.id, project, nodes=1)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"step": 5}, "no complete checkpoint of step 5.*There are checkpoints of the steps 2, 4"),
        ({"step": 99}, "no complete checkpoint of step 99"),
        ({"steps": 4}, "has done 4 of its 4 steps: nothing is left to do.*--steps 8"),
    ],
)
async def test_what_cannot_be_continued_is_refused_with_what_to_do(
    project: Project, how: dict[str, int], told: str
) -> None:
    record = planned(project)
    trained(project, Path(record.folder), 2, 4, record=record)
    with pytest.raises(InputError) as refused:
        await continue_request(record.id, project, **how)
    assert re.search(told, " ".join(refused.value.lines()))


async def test_a_training_that_has_done_all_of_its_steps_continues_for_as_many_as_the_user_says(
    project: Project,
) -> None:
    record = planned(project)
    trained(project, Path(record.folder), 4, 8, record=record)
    person = ScriptedPerson(..., "20", None)
    request = await continue_or_extend(record.id, project, person)
    assert (
        request is not None
        and request.continues is not None
        and (request.continues.step, request.steps) == (8, 16)
    )
    assert "has done all of its 8 steps" in " ".join(person.questions[0].lines)
    request = await continue_or_extend(record.id, project, person)
    assert request is not None and request.steps == 20
    assert await continue_or_extend(record.id, project, person) is None
    for text in ("8", "-9", "many", "²", "9" * 5000):
        with pytest.raises(InputError, match="is not a number of steps larger than 8"):
            await continue_or_extend(record.id, project, ScriptedPerson(text))
    other = planned(project)
    trained(project, Path(other.folder), 4, record=other)
    request = await continue_or_extend(
        other.id, project, ScriptedPerson()
    )  # there are steps left, and no question
    assert request is not None and request.steps == 8


async def test_a_run_that_has_not_ended_or_has_no_checkpoint_is_refused(project: Project) -> None:
    record = planned(project)
    with pytest.raises(InputError, match="has not ended"):
        await continue_request(record.id, project)
    project.runs.append(record.id, "failed", {})
    with pytest.raises(InputError, match="no complete checkpoint on this computer"):
        await continue_request(record.id, project)


async def test_a_changed_file_is_taken_from_the_copy_of_the_run_or_the_run_is_not_continued(
    project: Project,
) -> None:
    record = planned(project)
    trained(project, Path(record.folder), 2, record=record)
    kept = (project.folder / "tasks.json").read_bytes()
    (project.folder / "tasks.json").write_text("[]")
    with pytest.raises(InputError, match=r"tasks.json has changed since run"):
        await continue_request(record.id, project)
    copy = Path(record.folder) / "files" / "tasks" / "tasks.json"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(kept)
    request = await continue_request(record.id, project)
    assert request.tasks == str(copy) and request.config == project.folder / "play.yaml"


async def test_the_checkpoint_of_a_run_on_another_machine_is_fetched_first(
    project: Project, ssh_box: sshd.Box
) -> None:
    name = "box"
    lines = (
        "HostName 127.0.0.1",
        f"Port {ssh_box.port}",
        f"User {getpass.getuser()}",
        f"IdentityFile {ssh_box.server.key}",
    )
    (Path.home() / ".ssh").mkdir()
    (Path.home() / ".ssh" / "config").write_text(
        "\n".join((f"Host {name}", *lines, "IdentitiesOnly yes", ""))
    )
    record = planned(project, replace(TRAINING, host=name))
    there = ssh_box.home / record.folder
    trained(project, there, 2, 4, record=record)
    try:
        request = await continue_request(record.id, project)
        assert (
            request.host == name and request.continues is not None and request.continues.step == 4
        )
        here = project.runs.folder / record.id / "out" / "checkpoints" / "checkpoint-4"
        sources = {file.source.path for file in request.continues.files if file.source}
        assert str(here / "adapter_model.safetensors") in sources
        assert (here / "adapter_model.safetensors").read_bytes() == b"weights 4"
    finally:
        await close_hosts()


@pytest.mark.parametrize(
    ("steps", "errors", "kept", "left"),
    [(3, 0, 3, True), (6, 1, 6, True), (6, 0, 2, True), (6, 0, 6, False)],
    ids=["missing", "broken", "shortened", "all played"],
)
async def test_rollouts_are_continued_only_while_an_episode_is_left(
    project: Project, steps: int, errors: int, kept: int, left: bool
) -> None:
    record = planned(project, RunRequest(engine="rollouts", policy="random", host="local"))
    out = Path(record.folder) / "out"
    out.mkdir(parents=True)
    (out / "traces.jsonl").write_text("{}\n" * kept)
    rows = [
        {"step": step, "total_steps": 6, "reward": 0.5, "errors": errors * (step == 2)}
        for step in range(1, steps + 1)
    ]
    (out / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    project.runs.append(record.id, "finished" if steps == 6 else "failed", {})
    if left:
        request = await continue_request(record.id, project)
        assert request.continues is not None and [
            file.path for file in request.continues.files
        ] == ["out/traces.jsonl"]
        return
    with pytest.raises(InputError, match="has played all of its episodes") as refused:
        await continue_request(record.id, project)
    assert f"hudtui runs rerun {record.id}" in str(refused.value.fix)


async def test_a_request_is_planned_and_started_only_when_the_user_agrees(project: Project) -> None:
    request = RunRequest(engine="rollouts", policy="random", host="local")
    assert await agree_to_request(request, project, ScriptedPerson(False)) is None
    record = await agree_to_request(request, project, ScriptedPerson(True))
    assert record is not None and project.runs.ids() == ()
    with pytest.raises(InputError, match="cannot be started yet") as refused:
        await agree_to_request(replace(request, tasks="none.json"), project, ScriptedPerson())
    assert "tasks: " in str(refused.value.why)


async def test_a_large_file_reaches_the_run_without_being_read_into_memory(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudtui.core.runs.launch._IN_MEMORY", 8)
    record = planned(project)
    trained(project, Path(record.folder), 6, record=record)
    request = replace(await continue_request(record.id, project), python="/bin/true", rehearse=True)
    made = draft_run(spec_of(request, project.workspace()), find_host("local"), project.runs)
    async for _ in start(made, project, tmux=False):
        pass
    copied = (
        Path(made.folder) / "out" / "checkpoints" / "checkpoint-6" / "adapter_model.safetensors"
    )
    assert copied.read_bytes() == b"weights 6"
    until = time.monotonic() + 30
    while project.runs.summary(made.id).active and time.monotonic() < until:
        from hudtui.core.runs.watch import Monitor

        await Monitor(project.runs).refresh()
    assert project.runs.summary(made.id).state == "finished"
