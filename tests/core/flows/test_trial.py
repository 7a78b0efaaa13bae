"""Testing a task: the question, the calls, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.person import ScriptedPerson
from support.scripted_chat import scripted_chat

from hudtui.core.events import Progress
from hudtui.core.flows.trial import Trial, try_task
from hudtui.core.platform import HUD
from hudtui.core.project import Project
from hudtui.core.tasks.task import Task, ToolCall
from hudtui.core.trust import VARIABLE, Untrusted, agree

BOARD = ToolCall("setup", {"name": "board", "arguments": {"board_size": 3, "seed": 2}})
BUNDLED = {
    "text-2048": {
        "command": "${HUDTUI_PYTHON:-/no/such/python}",
        "args": ["-P", "-m", "hudtui.envs.text_2048"],
    }
}


def task(config: Mapping[str, Any] = BUNDLED, target: int = 64, setup: ToolCall = BOARD) -> Task:
    judge = ToolCall("evaluate", {"name": "max_number", "arguments": {"target": target}})
    return Task("board-1", "Play.", config, (setup,), (judge,))


async def trial(
    person: ScriptedPerson, tried: Task, agreed: set[str] | None = None
) -> list[Progress | Trial]:
    return [
        step
        async for step in try_task(
            Project(Path.cwd(), HUD), person, tried, "tasks.json", agreed=agreed
        )
    ]


async def test_the_person_sees_what_is_started_and_then_every_call() -> None:
    person = ScriptedPerson(True)
    began, found = await trial(person, task())
    assert person.titles == ["Test board-1?"]
    assert (
        person.questions[0].lines[0].startswith("text-2048: starts ")
        and not person.questions[0].danger
    )
    assert began == Progress("test", "testing board-1") and isinstance(found, Trial)
    assert (found.severity, found.details) == ("success", ()) and 0 <= (found.reward or 0) < 1
    assert [(step.tool, step.failed) for step in found.steps] == [
        ("setup", False),
        ("evaluate", False),
    ]
    told = found.to_json()
    assert (
        told["ok"]
        and told["steps"][0]["arguments"] == BOARD.arguments
        and told["reward"] == found.reward
    )


async def test_nothing_starts_without_a_yes() -> None:
    assert (
        await trial(ScriptedPerson(False), task({"a": {"command": "touch", "args": ["started"]}}))
        == []
    )
    assert not Path("started").exists()


async def test_the_same_servers_are_agreed_to_once() -> None:
    agreed: set[str] = set()
    person = ScriptedPerson(True, True)
    await trial(person, task(), agreed)
    await trial(person, task(target=32), agreed)
    assert len(person.questions) == 1
    await trial(person, task({"a": {"command": "/no/such/program"}}), agreed)
    assert len(person.questions) == 2


async def test_a_yes_is_no_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(Untrusted):
        await trial(ScriptedPerson(True), task({"a": {"command": "touch", "args": ["started"]}}))
    assert not Path("started").exists()


@pytest.mark.parametrize("own_folder", [True, False])
async def test_after_the_question_of_trust_only_the_real_thing_is_asked_about(
    monkeypatch: pytest.MonkeyPatch, own_folder: bool
) -> None:
    monkeypatch.delenv(VARIABLE)
    place = "${EPISODE_DIR}" if own_folder else "."
    tried = task({"a": {"command": "/no/such/program", "args": [place]}})
    agreed: set[str] = set()
    person = ScriptedPerson(True)
    for _ in range(2):  # also where the person did not agree the first time
        with pytest.raises(Untrusted) as caught:
            await trial(person, tried, agreed)
        assert not person.questions
    agree(Path.cwd(), caught.value.powers)
    await trial(person, tried, agreed)
    assert len(person.questions) == (0 if own_folder else 1)


@pytest.mark.parametrize(
    ("tried", "severity", "said"),
    [
        (task(setup=ToolCall("setup", {"name": "bored"})), "error", "the setup failed"),
        (task({"a": {"command": "/no/such/program"}}), "error", "the environment failed"),
        (task(target=4), "warning", "full marks without a move"),
    ],
)
async def test_verdicts(tried: Task, severity: str, said: str) -> None:
    found = (await trial(ScriptedPerson(True), tried))[-1]
    assert isinstance(found, Trial) and found.severity == severity and said in found.verdict
    assert found.to_json()["ok"] is (severity != "error")


async def test_a_judge_is_asked_about_and_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    said = '{"reason": "Nothing was said.", "score": 0}'
    with scripted_chat(lambda _: said) as chat:
        asked = {"rubric": "Is it polite?", "model": "m", "endpoint": chat.url, "key": "MY_KEY"}
        tried = Task("t", "Ask.", BUNDLED, (BOARD,), extra={"evaluate": [{"judge": asked}]})
        person = ScriptedPerson(True)
        found = (await trial(person, tried))[-1]
        assert isinstance(found, Trial) and found.severity == "error" and not found.steps
        assert found.verdict.startswith("evaluate[0].judge.key: MY_KEY is not set")
        monkeypatch.setenv("MY_KEY", "sk-mine-0123456789")
        found = (await trial(ScriptedPerson(True), tried))[-1]
    assert f"judge m: {chat.url} with MY_KEY" in person.questions[0].lines
    assert isinstance(found, Trial) and found.severity == "success" and found.reward == 0
    assert found.details == ("\u2717 judge: Is it polite? (0 of 1): Nothing was said.",)
    assert chat.keys == ["Bearer sk-mine-0123456789"]


MOVES = [{"name": "move", "arguments": {"direction": way}} for way in ("left", "down") * 2]


@pytest.mark.parametrize(
    ("target", "solution", "severity", "solved", "said"),
    [
        (4, MOVES, "success", True, "before the first move; the solution solves it: reward 1"),
        (2048, MOVES, "error", False, "the solution does not solve it: reward 0."),
        (4, [{"name": "jump"}], "error", False, "the solution does not solve it"),
        (4, [{"reply": "4"}], "error", False, "the solution does not solve it"),
    ],
)
async def test_a_solution_is_played_on_a_connection_of_its_own(
    target: int, solution: list[dict[str, Any]], severity: str, solved: bool, said: str
) -> None:
    board = ToolCall("setup", {"name": "board", "arguments": {"board_size": 4, "seed": 0}})
    tried = replace(task(target=target, setup=board), extra={"solution": solution})
    person = ScriptedPerson(True)
    found = (await trial(person, tried))[-1]
    assert "the task's solution is played" in "\n".join(map(str, person.questions[0].lines))
    assert isinstance(found, Trial)
    assert (found.severity, found.solved) == (severity, solved), found
    assert said in found.verdict
    calls = [step.tool for step in found.steps if step.solution]
    played = [call["name"] for call in solution if "name" in call]
    assert calls == ["setup", *played, "evaluate"]
    if played == ["jump"]:
        assert "jump answered with an error" in found.details[0]


async def test_a_broken_set_up_is_told_before_a_solution_is_played() -> None:
    tried = task(setup=ToolCall("setup", {"name": "bored"}))
    found = (await trial(ScriptedPerson(True), replace(tried, extra={"solution": MOVES})))[-1]
    assert isinstance(found, Trial) and "the setup failed" in found.verdict
    assert found.solved is None and not any(step.solution for step in found.steps)
