"""Playing one task: a policy, a person, both in turns, and forks."""

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

from hudtui.core.errors import ConnectError, InputError
from hudtui.core.flows.playing import (
    BY_HAND,
    PLAYED,
    ForkPoint,
    PlayedTurn,
    PlayEnded,
    Playing,
    PlayRequest,
    PlayScored,
    PlayStarted,
    ReplyWanted,
    in_tags,
    keep_examples,
    keep_replies,
    prepare_playing,
    read_fork,
    save_transcript,
)
from hudtui.core.gym.config import load_config
from hudtui.core.gym.editing.samples import load_samples
from hudtui.core.platform import HUD
from hudtui.core.project import Project
from hudtui.core.rollouts.chat import ChatEndpoint
from hudtui.core.rollouts.trace import read_trace
from hudtui.core.trust import VARIABLE, Untrusted

odd, marker, odd_http = servers.odd, servers.marker, servers.odd_http

CONFIG = "action_mappings:\n" + "".join(
    f"  {name}: {{_tool: move, direction: {{static: {name}}}}}\n" for name in ("left", "right", "up", "down")
)
MOVE = "<think>x</think>\n<tool>{}()</tool>"


def record(name: str, seed: int = 1, **changes: Any) -> dict[str, Any]:
    return {
        "id": name,
        "prompt": "Reach 64.",
        "mcp_config": {"env": {"command": "${HUDTUI_PYTHON:-/nowhere/python}", "args": ["-P", "-m", "hudtui.envs.text_2048"]}},
        "setup_tool": {"name": "setup", "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": seed}}},
        "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "arguments": {"target": 64}}},
        **changes,
    }


def odd_task(server: dict[str, Any]) -> dict[str, Any]:
    return {"id": "odd", "prompt": "Go.", "mcp_config": {"env": server}, "evaluate_tool": {"name": "judge", "arguments": {}}}


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
    assert started.task.id == "one" and started.opening.startswith("Reach 64.") and started.max_turns == 4
    assert {action.name for action in started.actions} == {"left", "right", "up", "down", "done"}
    turns = of(PlayedTurn, events)
    assert [(turn.number, turn.by) for turn in turns] == [(1, "greedy"), (2, "greedy"), (3, "greedy"), (4, "greedy")]
    assert not of(ReplyWanted, events) and events[-1] is ended
    (kept,) = read_trace(ended.file)
    assert ended.file == project.folder / PLAYED
    assert kept.stop == "max_turns" and kept.scores.reward_found and kept.scores == ended.episode.scores
    assert (kept.info["policy"], kept.info["rollout"], kept.info["played_by"]) == ("greedy", 0, ["greedy"] * 4)


async def test_a_person_plays_in_the_policys_place_and_gives_the_episode_back(project: Project) -> None:
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
    assert turns[2].turn.call == {"tool": "move", "arguments": {"direction": "left"}} and turns[3].turn.is_error
    assert turns[3].scores.format_compliance < turns[2].scores.format_compliance
    assert events[-1].episode.stop == "max_turns" and events[-1].episode.info["played_by"] == playing.by


async def test_one_turn_at_a_time_and_a_pause(project: Project) -> None:
    playing = await prepared(project, policy="random", by_hand=True, seed=3)
    asked: list[int] = []

    def steer(event: Any) -> None:
        if isinstance(event, ReplyWanted):
            asked.append(event.number)
            [playing.step, playing.pause, playing.resume][len(asked) - 1]() if len(asked) <= 3 else playing.end()
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
    assert episode.stop == "done" and episode.scores.format_compliance == 1.0 and episode.info["policy"] == BY_HAND
    assert all(turn.seconds["complete"] >= 0 for turn in episode.turns)


def test_a_call_alone_is_put_in_tags() -> None:
    config = load_config(Path("c.yaml"))
    assert in_tags(" left() ", config) == "<think>Let me try this.</think>\n<tool>left()</tool>"
    for text in ("I call left()", "<tool>left()</tool>", "left", "left()\nup()", "", "   ", "<tool>left()"):
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


# -- forks ---------------------------------------------------------------------------------------------------------------


async def test_a_fork_plays_the_first_replies_again_and_agrees(project: Project) -> None:
    first = await prepared(project, task="two", policy="greedy", max_turns=5)
    await played(first)
    fork = read_fork(f"{PLAYED}#0/3", project.folder)
    assert (fork.turns, fork.episode.task_id) == (3, "two")
    playing = await prepared(project, fork=fork, policy="greedy", max_turns=5)
    assert playing.task.id == "two"
    events = await played(playing)
    turns = of(PlayedTurn, events)
    assert [turn.by for turn in turns] == ["fork", "fork", "fork", "greedy", "greedy"]
    assert all(turn.recorded is None for turn in turns) and of(PlayStarted, events)[0].recorded is None
    assert [turn.turn.observation for turn in turns] == [turn.observation for turn in fork.episode.turns]
    again = list(read_trace(project.folder / PLAYED))[1]
    assert again.info["fork"] == {"from": f"{PLAYED}, episode 0", "turns": 3, "differs": []} and again.info["rollout"] == 1


async def test_a_fork_of_the_episode_that_is_played(project: Project) -> None:
    first = await prepared(project, policy="greedy", by_hand=True)

    def steer(event: Any) -> None:
        if isinstance(event, ReplyWanted):
            first.step() if event.number < 4 else first.end()

    await played(first, steer)
    events = await played(await prepared(project, fork=first.fork_at(2), policy="random", max_turns=4))
    assert [turn.by for turn in of(PlayedTurn, events)] == ["fork", "fork", "random", "random"]
    assert not [turn for turn in of(PlayedTurn, events) if turn.recorded is not None]


async def test_a_fork_says_where_the_environment_answers_otherwise(project: Project) -> None:
    await played(await prepared(project, policy="greedy", max_turns=4))
    tasks(record("one", seed=9))  # the same task, with another board
    fork = read_fork(f"{PLAYED}#3", project.folder, "one")
    playing = await prepared(project, fork=fork, by_hand=True)
    events = await played(playing, lambda event: playing.end() if isinstance(event, ReplyWanted) else None)
    (started,) = of(PlayStarted, events)
    assert started.recorded is not None and started.recorded != started.opening
    differing = [turn for turn in of(PlayedTurn, events) if turn.recorded is not None]
    assert differing and differing[0].recorded == fork.episode.turns[differing[0].number - 1].observation
    assert events[-1].episode.info["fork"]["differs"] == [0, *(turn.number for turn in differing)]


async def test_a_fork_stops_where_the_environment_ends_the_episode(project: Project) -> None:
    await played(await prepared(project, policy="greedy", max_turns=4))
    events = await played(await prepared(project, fork=read_fork(f"{PLAYED}#4", project.folder), max_turns=2))
    assert len(of(PlayedTurn, events)) == 2 and events[-1].episode.stop == "max_turns"
    assert any("2 recorded replies are left out" in getattr(event, "message", "") for event in events)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("traces.jsonl", "names no turn"),
        ("traces.jsonl#x", "names no turn"),
        ("traces.jsonl#1/", "names no turn"),
        ("traces.jsonl#-1", "names no turn"),
        ("none.jsonl#1", "no such file"),
        ("traces.jsonl#1/1", "holds no episode 1"),
    ],
)
async def test_points_that_there_are_not(project: Project, text: str, words: str) -> None:
    await played(await prepared(project, policy="greedy", max_turns=1, keep=Path("traces.jsonl")))
    with pytest.raises(InputError, match=words):
        read_fork(text, project.folder)
    with pytest.raises(InputError, match="no episode of the task 'two'"):
        read_fork("traces.jsonl#1", project.folder, "two")


async def test_a_fork_must_lie_in_the_episode_and_be_of_the_task(project: Project) -> None:
    await played(await prepared(project, policy="greedy", max_turns=1))
    fork = read_fork(f"{PLAYED}#1", project.folder)
    with pytest.raises(InputError, match="has 1 turn: there is no turn 2"):
        await prepared(project, fork=ForkPoint(fork.episode, 2))
    with pytest.raises(InputError, match="of the task 'one', not 'two'"):
        await prepared(project, fork=fork, task="two")


# -- what goes wrong -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"task": "on"}, "no task 'on' can be played"),
        ({"policy": "wise"}, "no policy 'wise'"),
        ({"policy": "replay:none.jsonl"}, "no such file"),
        ({"source": "no such thing"}, "not an environment"),
    ],
)
async def test_what_cannot_be_played_is_said(project: Project, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        await prepared(project, **given)
    assert given != {"task": "on"} or caught.value.fix == "Did you mean 'one'?"


async def test_nothing_starts_in_a_folder_that_is_not_trusted(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    tasks(record("one", mcp_config={"env": {"command": "touch", "args": ["started"]}}))
    with pytest.raises(Untrusted):
        await prepared(project)
    assert not Path("started").exists()


async def test_an_environment_that_cannot_be_reached(project: Project) -> None:
    tasks(record("one", mcp_config={"env": {"command": sys.executable, "args": ["-c", "print('no')"]}}))
    with pytest.raises(ConnectError):
        await played(await prepared(project))
    assert not (project.folder / PLAYED).exists()


async def test_a_server_that_dies_in_the_episode_ends_it_in_words(project: Project, odd: Any, marker: Any) -> None:
    Path("c.yaml").write_text("action_mappings: {go: {_tool: good, x: {static: 1}}}\n")
    command, *arguments = odd("die_in_call", marker.word)
    tasks(odd_task({"command": command, "args": arguments}))
    events = await played(await prepared(project, policy="random"))
    episode = events[-1].episode
    assert episode.stop == "error" and "out of tiles" in (episode.error or "") and len(episode.turns) == 1
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
    assert [(one.stop, len(one.turns)) for one in kept] == ([("cancelled", 1)] if way == "iterator" else [])


async def test_a_policy_that_fails_pauses_and_a_person_goes_on(project: Project, odd_http: Any) -> None:
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


# -- what becomes of it --------------------------------------------------------------------------------------------------


async def test_the_transcript_is_written_where_the_person_says(project: Project) -> None:
    playing = await prepared(project, policy="greedy", max_turns=2)
    await played(playing)
    person = ScriptedPerson(..., "here.txt", True, None)
    assert await save_transcript(project, person, playing.record(), over=True) == "transcript-one.txt"
    assert "## reply 2" in Path("transcript-one.txt").read_text()
    Path("here.txt").write_text("mine")
    assert await save_transcript(project, person, playing.record(), over=True) == "here.txt"
    assert Path("here.txt").read_text() == Path("transcript-one.txt").read_text()
    assert await save_transcript(project, person, playing.record(), over=True) is None


async def test_replies_become_samples_of_the_configuration(project: Project) -> None:
    playing = await prepared(project, policy="greedy", max_turns=6)
    await played(playing)
    said = {turn.reply for turn in playing.record().turns}
    new = keep_replies(project, Path("c.yaml"), playing.record())
    kept = load_samples(project.folder, project.folder / "c.yaml").kept
    assert new == len(kept) == len(said) and set(kept) == said
    assert keep_replies(project, Path("c.yaml"), playing.record()) == 0


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
    assert keep_examples(project, config, episode) == 1, "the first one is there, and the second was no call"
    assert keep_examples(project, config, episode) == 0
    rounds = [(one.user, one.assistant) for one in load_config(config).examples]
    assert [reply for _, reply in rounds] == [said[0], said[2]]
    assert rounds[0][0].startswith("Reach 64.") and rounds[1][0] == episode.turns[1].observation
    kept = config.read_bytes().decode("utf-16")
    assert kept.startswith("# mine\r\n") and "# enough\r\n" in kept and "\n" not in kept.replace("\r\n", "")
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


async def test_secrets_of_the_task_stay_out_of_the_trace(project: Project, odd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-very-secret-value")
    Path("c.yaml").write_text("action_mappings: {go: {_tool: good, x: {static: 1}}}\n")
    command, *arguments = odd("echo_key")
    server = {"command": command, "args": arguments, "env": {"MY_API_KEY": "${MY_API_KEY}"}}
    tasks(odd_task(server))
    await played(await prepared(project, policy="random", max_turns=2))
    assert "sk-very-secret" not in (project.folder / PLAYED).read_text()
    playing = await prepared(project, fork=read_fork(f"{PLAYED}#2", project.folder), by_hand=True)
    events = await played(playing, lambda event: playing.end() if isinstance(event, ReplyWanted) else None)
    assert [turn.recorded for turn in of(PlayedTurn, events)] == [None, None]
