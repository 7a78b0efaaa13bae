"""Fixes of what a run lacks: each remedy of the checks, and a run that becomes ready by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.compute_world import simulated_prime
from support.person import ScriptedPerson

from hudtui.core.compute.gpus import parse_spec
from hudtui.core.compute.values import Offer, Price
from hudtui.core.environment import engine
from hudtui.core.errors import InputError
from hudtui.core.flows.prepare import fix, set_key
from hudtui.core.plain import to_plain
from hudtui.core.project import Project, open_project
from hudtui.core.runs.checks import Check
from hudtui.core.runs.prepare import prepare_run
from hudtui.core.runs.request import RunRequest
from hudtui.core.settings import user_file

PLAY = RunRequest(engine="rollouts", host="local", policy="random")
OFFER = Offer("prime", "x", "H100", 1, Price(2.0))


def lacks(remedy: Any, *options: str) -> Check:
    return Check("something", "missing", "it is missing", remedy=remedy, options=options)


@pytest.fixture
def project(own_world: Path) -> Project:
    return open_project(own_world)


def tasks(project: Project, name: str = "tasks.json", **env: str) -> None:
    server = {"command": "python", "args": ["-m", "hudtui.envs.text_2048"], "env": env}
    judge = {"name": "evaluate", "arguments": {"name": "max_number", "arguments": {"target": 64}}}
    task = {"prompt": "Play.", "mcp_config": {"text-2048": server}, "evaluate_tool": judge}
    (project.folder / name).write_text(
        json.dumps([{**task, "id": f"t{number}"} for number in range(4)])
    )


async def test_every_fix_in_turn_makes_a_run_ready(project: Project) -> None:
    tasks(project, KEY="$GAME_KEY")
    tasks(project, "more-tasks.json", KEY="$GAME_KEY")
    person = ScriptedPerson("tasks.json", "text-2048", ..., "each", "game-key-0123456789")
    request, stages = PLAY, []
    while True:
        prepared = await prepare_run(request, project.workspace(), project.settings(), project.runs)
        if prepared.record is not None:
            break
        check = next(check for check in prepared.missing if check.remedy)
        fixed = await fix(
            check, request, project, person, on_event=lambda event: stages.append(event.stage)
        )
        assert fixed is not None
        request = fixed
    assert person.titles == [
        "Which task file?",
        "Generate a configuration from which environment?",
        "Save configuration as",
        "Expand move into left(), right(), up(), …?",
        "What is GAME_KEY?",
    ]
    assert person.unasked == [] and "list" in stages
    assert (request.tasks, request.config) == ("tasks.json", Path("configs/text-2048.yaml"))
    assert project.settings().get("GAME_KEY") == "game-key-0123456789"
    assert prepared.record.plan.secrets == () or "game-key" not in json.dumps(
        to_plain(prepared.record.plan)
    )


async def test_the_lock_file_is_the_suggested_environment(project: Project) -> None:
    (project.folder / "hud.lock.yaml").write_text(
        "image: org/my-env:1\ntools:\n- name: look\n  description: Look\n"
    )
    person = ScriptedPerson(..., "a.yaml")
    fixed = await fix(lacks("generate-config"), PLAY, project, person)
    assert fixed is not None and fixed.config == Path("a.yaml")
    assert person.said[-1].startswith("Wrote a.yaml: 1 action: look, and done; about ")


@pytest.mark.parametrize(
    ("remedy", "options", "answers"),
    [
        ("choose-config", ("a.yaml", "b.yaml"), [None]),
        ("choose-tasks", ("a.json", "b.json"), [None]),
        ("generate-config", (), [None]),
        ("generate-config", (), ["text-2048", None]),
        ("set-key", ("GAME_KEY",), [None]),
        ("push-image", ("my-env:dev",), [" "]),
        ("choose-machine", (), [None]),
        ("choose-machine", (), ["host", None]),
        ("choose-machine", (), ["host", " "]),
        (None, (), []),
    ],
)
async def test_who_declines_changes_nothing(
    project: Project, remedy: Any, options: tuple[str, ...], answers: list[Any]
) -> None:
    person = ScriptedPerson(*answers)
    assert await fix(lacks(remedy, *options), PLAY, project, person) is None
    assert (
        person.unasked == []
        and not (project.folder / ".env").exists()
        and not (project.folder / "configs").exists()
    )


async def test_a_machine_is_chosen_and_the_offer_goes(project: Project) -> None:
    request = RunRequest(engine="trl", provider="prime", offer=OFFER, clouds=("x",), gpus="8xH100")
    check = lacks("choose-machine")
    fixed = await fix(check, request, project, ScriptedPerson("local"))
    assert fixed is not None and (fixed.host, fixed.provider, fixed.offer, fixed.gpus) == (
        "local",
        None,
        None,
        None,
    )
    fixed = await fix(check, request, project, ScriptedPerson("host", "me@box"))
    assert fixed is not None and (fixed.host, fixed.provider, fixed.clouds) == ("me@box", None, ())
    fixed = await fix(check, request, project, ScriptedPerson("rent", ...))
    assert fixed is not None and (fixed.host, fixed.provider, fixed.offer, fixed.gpus) == (
        None,
        "prime",
        None,
        "8xH100",
    )


async def test_only_a_training_is_asked_for_its_gpus(project: Project) -> None:
    person = ScriptedPerson("rent")
    fixed = await fix(lacks("choose-machine"), PLAY, project, person)
    assert fixed is not None and (fixed.provider, fixed.host, fixed.gpus) == ("prime", None, None)
    (question,) = person.questions
    assert [choice.value for choice in question.choices] == ["rent", "host"], (
        "it runs on this machine already"
    )
    fixed = await fix(
        lacks("choose-machine"),
        RunRequest(engine="trl", host="local"),
        project,
        ScriptedPerson("rent", ...),
    )
    assert fixed is not None and fixed.gpus is not None and parse_spec(fixed.gpus).count == 2


async def test_a_key_is_asked_for_as_a_secret_and_kept_with_the_project(project: Project) -> None:
    person = ScriptedPerson("sk-0123456789-abcdef")
    assert await set_key("HUD_API_KEY", project, person)
    (question,) = person.questions
    assert question.secret and "Make one at " in question.lines[0] and ".env" in question.lines[1]
    assert project.settings().get("HUD_API_KEY") == "sk-0123456789-abcdef"
    assert (project.folder / ".env").stat().st_mode & 0o777 == 0o600
    assert not any("0123456789" in text for text in person.said)


async def test_a_key_that_pays_is_the_users_own(project: Project) -> None:
    assert await set_key("PRIME_API_KEY", project, ScriptedPerson("pit_0123456789abcdef"))
    assert "PRIME_API_KEY" in user_file().read_text() and not (project.folder / ".env").exists()
    (project.folder / ".env").write_text("PRIME_API_KEY=pit_old\n")
    assert await set_key("PRIME_API_KEY", project, ScriptedPerson("pit_new_0123456789"))
    assert "pit_new" in (project.folder / ".env").read_text(), (
        "the value of the project counts, so that is what is replaced"
    )


async def test_a_key_that_the_process_has_is_not_replaced(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIME_API_KEY", "pit_wrong_0123456789")
    person = ScriptedPerson("pit_right_0123456789")
    assert not await set_key("PRIME_API_KEY", project, person)
    assert person.said == [
        "PRIME_API_KEY is also set in environment, and that value takes precedence."
    ]


async def test_a_placeholder_is_no_key(project: Project) -> None:
    with pytest.raises(InputError, match="HUD_API_KEY cannot be that"):
        await set_key("HUD_API_KEY", project, ScriptedPerson("your-key-here"))
    assert not (project.folder / ".env").exists()


async def test_an_image_is_pushed_into_the_lock_file(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed = "ghcr.io/me/my-env@sha256:" + "ab" * 32
    lock = project.folder / "hud.lock.yaml"
    lock.write_text("version: '1.3'\nimages:\n  local: my-env:dev\n  full: null\n  pushed: null\n")

    async def push_image(image: str, name: str) -> Any:
        assert (image, name) == ("my-env:dev", "ghcr.io/me/")
        yield engine.PushProgress("layer 1")
        yield engine.PushProgress("pushed", pushed)

    monkeypatch.setattr(engine, "push_image", push_image)
    heard: list[str] = []
    check = lacks("push-image", "my-env:dev")
    fixed = await fix(
        check,
        PLAY,
        project,
        ScriptedPerson("ghcr.io/me/"),
        on_event=lambda event: heard.append(event.message),
    )
    assert fixed == PLAY and heard == ["layer 1", "pushed"] and pushed in lock.read_text()


@pytest.mark.parametrize("remedy", ["make-key", "register-key"])
async def test_an_ssh_key_is_made_and_registered(
    project: Project, monkeypatch: pytest.MonkeyPatch, remedy: Any
) -> None:
    with simulated_prime(monkeypatch) as sim:
        person = ScriptedPerson("", True)
        request = RunRequest(engine="rollouts", provider="prime")
        assert await fix(lacks(remedy), request, project, person) == request
        assert (Path.home() / ".ssh" / "prime_key.pem").is_file() and person.unasked == []
        assert (
            len([one for one in sim.requests if one.method == "POST" and "ssh_keys" in one.path])
            == 1
        )
        assert await fix(lacks(remedy), request, project, ScriptedPerson()) == request, (
            "nothing is left to ask"
        )
