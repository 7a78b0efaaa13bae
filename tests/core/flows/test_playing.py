"""Playing one task: a policy, and both in turns."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from support import servers
from support.person import ScriptedPerson
from support.tool_model import call, endpoint, message

from hudtui.core.errors import ConnectError, InputError
from hudtui.core.flows.playing import (
    BY_HAND,
    PLAYED,
    PlayedTurn,
    PlayEnded,
    Playing,
    PlayRequest,
    PlayScored,
    PlayStarted,
    ReplyWanted,
    in_tags,
    keep_examples,
    prepare_playing,
    save_transcript,
)
from hudtui.core.gym.config import load_config
from hudtui.core.platform import HUD
from hudtui.core.project import Project
from hudtui.core.rollouts.chat import ChatEndpoint
from hudtui.core.rollouts.trace import read_trace
from hudtui.core.trust import VARIABLE, Untrusted

odd, marker, odd_http = servers.odd, servers.marker, servers.odd_http

CONFIG = "action_mappings:\n" + "".join(
    f"  {name}: {{_tool: move, direction: {{static: {name}}}}}\n"
    for name in ("left", "right", "up", "down")
)
MOVE = "<think>x</think>\n<tool>{}()</tool>"


def record(name: str, seed: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "id": name,
        "prompt": "Reach 64.",
        "mcp_config": {
            "env": {
                "command": "${HUDTUI_PYTHON:-/nowhere/python}",
                "args": ["-P", "-m", "hudtui.envs.text_2048"],
            }
        },
        "setup_tool": {
            "name": "setup",
            "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": seed}},
        },
        "evaluate_tool": {
            "name": "evaluate",
            "arguments": {"name": "max_number", "arguments": {"target": 64}},
        },
        **changes,
    }


def odd_task(server: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "odd",
        "prompt": "Go.",
        "mcp_config": {"env": server},
        "evaluate_tool": {"name": "judge", "arguments": {}},
    }


def tasks(*records: dict[str, Any]) -> None:
    Path("tasks.json").write_text(json.dumps(records))


@pytest.fixture(autouse=True)
def project(own_world: Path) -> Project:
    Path("c.yaml").write_text(CONFIG)
    tasks(record("one"), record("two", seed=2))
    return Project(own_world, HUD)


async def prepared(project: Project, **given: Any) -> Playing:
    return await prepare_playing(project, PlayRequest("tasks.json", Path("c.yaml"), **given))


async def played(playing: Playing, on: Callable[[Any], object] = lambda event: None) -> list[Any]:
    """All events; `on` steers the episode."""
    found = []
    async with asyncio.timeout(120), aclosing(playing.play()) as events:
        async for event in events:
            found.append(event)
            on(event)
    return found


def of(kind: type, events: list[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


async def test_a_policy_plays_and_the_episode_is_kept(project: Project) -> None:
    playing = await prepared(project, policy="greedy", max_turns=4)
    events = await played(playing)
    (started,), (ended,) = of(PlayStarted, events), of(PlayEnded, events)
    assert (
        started.task.id == "one"
        and started.opening.startswith("Reach 64.")
        and started.max_turns == 4
    )
    assert {action.name for action in started.actions} == {"left", "right", "up", "down", "done"}
    turns = of(PlayedTurn, events)
    assert [(turn.number, turn.by) for turn in turns] == [
        (1, "greedy"),
        (2, "greedy"),
        (3, "greedy"),
        (4, "greedy"),
    ]
    assert not of(ReplyWanted, events) and events[-1] is ended
    (kept,) = read_trace(ended.file)
    assert ended.file == project.folder / PLAYED
    assert (
        kept.stop == "max_turns"
        and kept.scores.reward_found
        and kept.scores == ended.episode.scores
    )
    assert (kept.info["policy"], kept.info["rollout"], kept.info["played_by"]) == (
        "greedy",
        0,
        ["greedy"] * 4,
    )


async def test_a_person_plays_in_the_policys_place_and_gives_the_episode_back(
    project: Project,
) -> None:
    playing = await prepared(project, task="two", policy="greedy", take_over=3, max_turns=6)

    def steer(event: Any) -> None:
        if isinstance(event, ReplyWanted):
            if event.number == 3:
                playing.reply(MOVE.format("left"))
            elif event.number == 4:
                playing.reply("no call at all")
            elif event.number == 5 and not of_scored:
                of_scored.append(event)
                playing.evaluate()
            else:
                playing.resume()

    of_scored: list[Any] = []
    events = await played(playing, steer)
    assert playing.by == ["greedy", "greedy", BY_HAND, BY_HAND, "greedy", "greedy"]
    (scored,) = of(PlayScored, events)
    assert scored.scores.reward_found and scored.scores.task_completion > 0 and scored.error is None
    turns = of(PlayedTurn, events)
    assert (
        turns[2].turn.call == {"tool": "move", "arguments": {"direction": "left"}}
        and turns[3].turn.is_error
    )
    assert turns[3].scores.format_compliance < turns[2].scores.format_compliance
    assert (
        events[-1].episode.stop == "max_turns"
        and events[-1].episode.info["played_by"] == playing.by
    )


async def test_one_turn_at_a_time_and_a_pause(project: Project) -> None:
    playing = await prepared(project, policy="random", by_hand=True, seed=3)
    asked: list[int] = []

    def steer(event: Any) -> None:
        if isinstance(event, ReplyWanted):
            asked.append(event.number)
            [playing.step, playing.pause, playing.resume][len(asked) - 1]() if len(
                asked
            ) <= 3 else playing.end()
        elif isinstance(event, PlayedTurn) and event.number == 3:
            playing.pause()

    events = await played(playing, steer)
    assert asked == [1, 2, 2, 4]  # a pause while it is paused asks again
    assert events[-1].episode.stop == "ended" and events[-1].episode.scores.reward_found
    assert len(events[-1].episode.turns) == 3


async def test_without_a_policy_a_person_plays_to_the_end(project: Project) -> None:
    playing = await prepared(project)
    said = iter(["left()", "up()", "done()"])

    def steer(event: Any) -> None:
        if isinstance(event, ReplyWanted):
            playing.reply(in_tags(next(said), playing.config))

    events = await played(playing, steer)
    episode = events[-1].episode
    assert (
        episode.stop == "done"
        and episode.scores.format_compliance == 1.0
        and episode.info["policy"] == BY_HAND
    )
    assert all(turn.seconds["complete"] >= 0 for turn in episode.turns)


def test_a_call_alone_is_put_in_tags() -> None:
    config = load_config(Path("c.yaml"))
    assert in_tags(" left() ", config) == "<think>Let me try this.</think>\n<tool>left()</tool>"
    for text in (
        "I call left()",
        "<tool>left()</tool>",
        "left",
        "left()\nup()",
        "",
        "   ",
        "<tool>left()",
    ):
        assert in_tags(text, config) == text


async def test_the_policy_can_be_changed(project: Project) -> None:
    playing = await prepared(project, by_hand=True, max_turns=3)

    async with aclosing(playing.play()) as events:
        async for event in events:
            if isinstance(event, ReplyWanted):
                playing.resume()
                if playing.policy is None:
                    await playing.choose_policy("greedy")
    assert playing.by == ["greedy"] * 3
    with pytest.raises(InputError, match="no policy 'wise'"):
        await playing.choose_policy("wise")


# -- what goes wrong
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"task": "on"}, "no task 'on' can be played"),
        ({"policy": "wise"}, "no policy 'wise'"),
        ({"policy": "replay:none.jsonl"}, "no such file"),
        ({"source": "no such thing"}, "not an environment"),
    ],
)
async def test_what_cannot_be_played_is_said(
    project: Project, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words) as caught:
        await prepared(project, **given)
    assert given != {"task": "on"} or caught.value.fix == "Did you mean 'one'?"


async def test_nothing_starts_in_a_folder_that_is_not_trusted(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    tasks(record("one", mcp_config={"env": {"command": "touch", "args": ["started"]}}))
    with pytest.raises(Untrusted):
        await prepared(project)
    assert not Path("started").exists()


async def test_an_environment_that_cannot_be_reached(project: Project) -> None:
    tasks(
        record(
            "one", mcp_config={"env": {"command": sys.executable, "args": ["-c", "print('no')"]}}
        )
    )
    with pytest.raises(ConnectError):
        await played(await prepared(project))
    assert not (project.folder / PLAYED).exists()


async def test_a_server_that_dies_in_the_episode_ends_it_in_words(
    project: Project, odd: Any, marker: Any
) -> None:
    Path("c.yaml").write_text("action_mappings: {go: {_tool: good, x: {static: 1}}}\n")
    command, *arguments = odd("die_in_call", marker.word)
    tasks(odd_task({"command": command, "args": arguments}))
    events = await played(await prepared(project, policy="random"))
    episode = events[-1].episode
    assert (
        episode.stop == "error"
        and "out of tiles" in (episode.error or "")
        and len(episode.turns) == 1
    )
    assert next(read_trace(project.folder / PLAYED)).error == episode.error


async def test_a_set_up_that_fails_ends_the_episode_and_keeps_nothing(project: Project) -> None:
    tasks(record("one", setup_tool={"name": "setup", "arguments": {"name": "bored"}}))
    events = await played(await prepared(project, policy="greedy"))
    assert "the setup failed" in (events[-1].episode.error or "") and events[-1].file is None
    assert not (project.folder / PLAYED).exists()


@pytest.mark.parametrize("way", ["task", "iterator"])
async def test_a_slow_endpoint_is_cancelled_and_no_server_is_left(
    project: Project, odd_http: Any, odd: Any, marker: Any, way: str
) -> None:
    asked = asyncio.Event()

    async def never(method: str, path: str, headers: Any, body: bytes, writer: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    url = await odd_http(never)
    Path("c.yaml").write_text("action_mappings: {go: {_tool: good, x: {static: 1}}}\n")
    command, *arguments = odd("plain", marker.word)
    tasks(odd_task({"command": command, "args": arguments}))
    playing = await prepared(project, policy="openai:slow", base_url=f"{url}/v1")

    async def consume() -> None:
        async with aclosing(playing.play()) as events:
            async for _ in events:
                pass

    work = asyncio.create_task(consume())
    async with asyncio.timeout(60):
        await asked.wait()
    assert len(marker.alive()) == 1 and playing.running
    if way == "iterator":  # a person interrupts the model, and plays; then the consumer goes
        playing.reply(MOVE.format("go"))
        async with asyncio.timeout(60):
            while not playing.by:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not playing.running
    work.cancel()
    await asyncio.wait({work})
    assert work.cancelled() and marker.alive() == []
    kept = list(read_trace(project.folder / PLAYED)) if (project.folder / PLAYED).exists() else []
    assert [(one.stop, len(one.turns)) for one in kept] == (
        [("cancelled", 1)] if way == "iterator" else []
    )


async def test_a_model_in_native_is_sent_tools_and_a_cut_reply_is_no_end(project: Project) -> None:
    called = call("left")
    answers = [
        message("I think"),
        called,
        message("Done."),
    ]
    answers[0]["choices"][0]["finish_reason"] = "length"
    with endpoint(lambda body: (200, answers.pop(0))) as (url, asked):
        playing = await prepared(project, policy="openai:m", base_url=url, dialect="native")
        events = await played(playing)
    episode = events[-1].episode
    assert (episode.stop, [turn.cut for turn in episode.turns]) == ("done", [True, False, False])
    assert [bool(turn.call) for turn in episode.turns] == [False, True, False]
    assert all(
        {tool["function"]["name"] for tool in body["tools"]} >= {"left", "done"} for body in asked
    )


async def test_a_policy_that_fails_pauses_and_a_person_goes_on(
    project: Project, odd_http: Any
) -> None:
    async def no(method: str, path: str, headers: Any, body: bytes, writer: Any) -> None:
        writer.write(servers.reply("401 Unauthorized", '{"error": {"message": "no"}}'))

    playing = await prepared(project, policy="openai:m", base_url=f"{await odd_http(no)}/v1")
    errors: list[Any] = []

    def steer(event: Any) -> None:
        if isinstance(event, ReplyWanted):
            errors.append(event.error)
            if len(errors) == 1:
                playing.reply(MOVE.format("left"))
            elif len(errors) == 2:
                playing.resume()
            else:
                playing.end(event.error)

    events = await played(playing, steer)
    assert "valid key" in errors[0].what and errors[1] is None and "valid key" in errors[2].what
    assert events[-1].episode.stop == "error" and "valid key" in (events[-1].episode.error or "")
    assert len(events[-1].episode.turns) == 1


# -- what becomes of it
# --------------------------------------------------------------------------------------------------


async def test_the_transcript_is_written_where_the_person_says(project: Project) -> None:
    playing = await prepared(project, policy="greedy", max_turns=2)
    await played(playing)
    person = ScriptedPerson(..., "here.txt", True, None)
    assert (
        await save_transcript(project, person, playing.record(), over=True) == "transcript-one.txt"
    )
    assert "## reply 2" in Path("transcript-one.txt").read_text()
    Path("here.txt").write_text("mine")
    assert await save_transcript(project, person, playing.record(), over=True) == "here.txt"
    assert Path("here.txt").read_text() == Path("transcript-one.txt").read_text()
    assert await save_transcript(project, person, playing.record(), over=True) is None


async def test_turns_become_examples_of_the_configuration(project: Project) -> None:
    config = Path("c.yaml")
    text = "# mine\n" + CONFIG + "defaults: {max_turns: 9}  # enough\n"
    config.write_bytes(text.replace("\n", "\r\n").encode("utf-16"))
    playing = await prepared(project, by_hand=True)
    said = [MOVE.format("left"), "no call at all", MOVE.format("down")]

    def reply(event: Any) -> None:
        if isinstance(event, ReplyWanted):
            playing.reply(said[event.number - 1]) if event.number <= len(said) else playing.end()

    await played(playing, reply)
    episode = playing.redacted()
    assert keep_examples(project, config, episode, [1]) == 1
    assert keep_examples(project, config, episode) == 1, (
        "the first one is there, and the second was no call"
    )
    assert keep_examples(project, config, episode) == 0
    rounds = [(one.user, one.assistant) for one in load_config(config).examples]
    assert [reply for _, reply in rounds] == [said[0], said[2]]
    assert rounds[0][0].startswith("Reach 64.") and rounds[1][0] == episode.turns[1].observation
    kept = config.read_bytes().decode("utf-16")
    assert (
        kept.startswith("# mine\r\n")
        and "# enough\r\n" in kept
        and "\n" not in kept.replace("\r\n", "")
    )
    config.write_text("examples: {user: a}\n" + CONFIG)
    with pytest.raises(InputError, match="`examples` is a list"):
        keep_examples(project, config, episode)


async def test_an_endpoint_is_closed_whether_or_not_the_episode_is_played(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[ChatEndpoint] = []
    close = ChatEndpoint.aclose

    async def counted(self: ChatEndpoint) -> None:
        closed.append(self)
        await close(self)

    monkeypatch.setattr(ChatEndpoint, "aclose", counted)
    model = {"policy": "openai:m", "base_url": "http://127.0.0.1:9/v1"}
    playing = await prepared(project, **model)
    async with aclosing(playing):
        await playing.choose_policy("openai:other")
    assert len(closed) == 2 and playing.policy == "openai:other"
    await playing.choose_policy("openai:late")
    assert len(closed) == 3, "the episode is over"


async def test_secrets_of_the_task_stay_out_of_the_trace(
    project: Project, odd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-very-secret-value")
    Path("c.yaml").write_text("action_mappings: {go: {_tool: good, x: {static: 1}}}\n")
    command, *arguments = odd("echo_key")
    server = {"command": command, "args": arguments, "env": {"MY_API_KEY": "${MY_API_KEY}"}}
    tasks(odd_task(server))
    await played(await prepared(project, policy="random", max_turns=2))
    assert "sk-very-secret" not in (project.folder / PLAYED).read_text()


async def test_a_solution_that_is_not_there_is_refused_before_anything_starts(
    project: Project,
) -> None:
    tasks(record("bare"))
    with pytest.raises(InputError, match="task bare has no solution"):
        await prepared(project, policy="solution")
