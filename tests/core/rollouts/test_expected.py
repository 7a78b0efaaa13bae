"""Episodes that are judged by what their tasks expect: calls after the last turn, parts, faults,
records, and the same reward over OpenEnv."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.played import play

from hudtui.core.environment.episode_place import EpisodePlace
from hudtui.core.environment.values import (
    ContentBlock,
    Session,
    Tool,
    ToolResult,
    read_result,
)
from hudtui.core.errors import ConnectError
from hudtui.core.gym.config import parse_config
from hudtui.core.gym.values import GymConfig
from hudtui.core.openenv.session import EpisodeSession, ServedTasks
from hudtui.core.rollouts.episode import EpisodePlayer
from hudtui.core.rollouts.outcome import metrics_line, outcome_of, summarise
from hudtui.core.rollouts.policy import ReplayPolicy
from hudtui.core.rollouts.reward import with_reward
from hudtui.core.rollouts.trace import end_text, episode_from_json, episode_to_json
from hudtui.core.rollouts.values import Episode
from hudtui.core.tasks.task import Task, ToolCall

CONFIG, _ = parse_config(
    """
parser: {use_thinking: false}
action_mappings:
  write:
    _tool: write_file
    _parser: {positional: [path, content]}
    path: {from_arg: path}
    content: {from_arg: content}
rubric: {weights: {task_completion: 0.8, tool_execution: 0.1, format_compliance: 0.1}}
defaults: {max_turns: 3}
""",
    name="files.yaml",
)
READ = {"name": "read_file", "arguments": {"path": "words.txt"}}
EVALUATE = [
    {"call": READ, "expect": {"contains": "delta"}, "weight": 0.6},
    {"reply": {"number": 42}, "weight": 0.3, "name": "said"},
    {"turns": {"most": 1}, "weight": 0.1},
]
WRITES = ['<tool>write("words.txt", "alpha delta")</tool>', "It is 42.\n<tool>done()</tool>"]


class Files:
    """An environment with a folder in memory."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.calls: list[str] = []
        self.lost = False
        self.internal = False
        one = {"type": "object", "properties": {"path": {"type": "string"}}}
        both = {**one, "properties": {**one["properties"], "content": {"type": "string"}}}
        self.tools: Mapping[str, Tool] = {
            "write_file": Tool("write_file", "", both),
            "read_file": Tool("read_file", "", one),
        }

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        self.calls.append(name)
        name = name.removeprefix("files_")
        if name == "read_file" and self.lost:
            raise ConnectError("the server died")
        path = arguments["path"]
        if name == "write_file":
            self.files[path] = arguments["content"]
        text = self.files.get(path)
        said = f"ENOENT: {path}" if text is None else text
        failed = text is None
        blocks = (ContentBlock("text", said),)
        return ToolResult(blocks, None, failed, internal=failed and self.internal)


def task(evaluate: Any = EVALUATE, **more: Any) -> Task:
    return Task("t", "Write delta.", {"files": {}}, extra={"evaluate": evaluate}, **more)


def config() -> GymConfig:
    assert CONFIG is not None
    return CONFIG


async def played(one: Task, replies: list[str], session: Files | None = None) -> Episode:
    return await play(session or Files(), config(), one, ReplayPolicy(replies))


async def test_the_end_state_is_judged_after_the_last_turn():
    session = Files()
    episode = await played(task(), WRITES, session)
    assert session.calls == ["write_file", "read_file"]
    assert len(episode.turns) == 2
    assert "read_file" not in json.dumps(episode.messages)
    assert episode.scores.task_completion == 0.9
    assert episode.scores.reward_found
    assert episode.scores.reward == pytest.approx(0.8 * 0.9 + 0.1 + 0.1)
    assert episode.scores.own == {"read_file": 1.0, "said": 1.0, "length": 0.0}
    assert [part.line() for part in episode.scores.parts] == [
        "✓ read_file(words.txt) contains delta (0.6)",
        "✓ the last reply is 42 (0.3)",
        "✗ the number of turns is at most 1 (0 of 0.1): 2",
    ]


TEXT = {"type": "text", "text": "alpha delta"}


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ({}, True),
        ({"content": None}, True),
        ({"content": 7}, True),
        ({"isError": False}, True),
        ({"content": [{"type": "text", "text": 5}]}, True),
        ({"content": [{"type": "text"}]}, True),
        ({"content": [TEXT, {"type": "text", "text": None}]}, True),
        ({"content": []}, False),
        ({"content": [{"type": "text", "text": ""}]}, False),
        ({"content": [TEXT]}, False),
        ({"content": "alpha delta"}, False),
        ({"structuredContent": {"a": 1}}, False),
        ({"content": [{"type": "image", "data": "", "mimeType": "image/png"}]}, False),
    ],
)
async def test_an_answer_that_lacks_what_every_answer_has_is_no_score(raw: Any, fault: bool):
    class Odd(Files):
        async def call_tool(
            self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
        ) -> ToolResult:
            return read_result(raw)

    parts = [{"call": READ, "expect": {"not": {"contains": "omega"}}}]
    episode = await played(task(parts), ["<tool>done()</tool>"], Odd())
    assert episode.ok is not fault
    if fault:
        assert "read_file gave an answer without content" in str(episode.error)


async def test_a_tool_that_judges_may_be_used_by_the_agent_too():
    plain = replace(config(), mappings={}, allow_unmapped=True)
    session = Files()
    assert "read_file" in {tool.name for tool in EpisodePlayer(session, plain, task()).actions}


@pytest.mark.parametrize(
    ("replies", "said"),
    [
        (["<think>42</think> It is 41.<tool>done()</tool>"], 0.0),
        (["<think>41</think> It is 42.<tool>done()</tool>"], 1.0),
        (["It is 42. <think>it is not"], 1.0),
        (["42 in a thought</think>no"], 0.0),
        (["It is 42.", "<tool>done()</tool>"], 0.0),
        (["It is 41. <tool>done()</tool> Bye. <tool>done(42)</tool>"], 0.0),
        (["<tool></tool> <tool>done(42)</tool>"], 1.0),
        (["41</think> 42</think> no"], 0.0),
        (["It is 42. <tool>done("], 1.0),
    ],
)
async def test_only_what_the_last_reply_says_counts(replies: list[str], said: float):
    session = Files()
    session.files["words.txt"] = "delta"
    player = EpisodePlayer(session, config(), task(), max_turns=len(replies))
    await player.start()
    for reply in replies:
        await player.step(reply)
    episode = await player.finish()
    assert episode.scores.own["said"] == said


async def test_a_reply_without_any_call_counts_as_the_last():
    session = Files()
    session.files["words.txt"] = "delta"
    player = EpisodePlayer(session, config(), task())
    await player.start()
    player.say("It is 42.")
    assert (await player.finish("done")).scores.own["said"] == 1.0
    player = EpisodePlayer(session, config(), task())
    await player.start()
    assert (await player.finish("done")).scores.own["said"] == 0.0


async def test_an_error_of_a_tool_that_is_not_there_is_no_expected_error():
    missing = [{"call": {**READ, "name": "read_fil"}, "expect": {"error": True}}]
    episode = await played(task(missing), ["<tool>done()</tool>"])
    assert episode.stop == "error" and not episode.scores.reward_found
    assert "the environment has no tool read_fil" in str(episode.error)
    with_server = [{"call": {**READ, "name": "files_read_file"}, "expect": {"error": True}}]
    episode = await played(task(with_server), ["<tool>done()</tool>"])
    assert episode.scores.task_completion == 1.0


async def test_an_evaluation_that_answers_with_an_error_is_no_reward():
    episode = await played(task(), ["<tool>done()</tool>"])
    assert episode.stop == "error" and not episode.scores.reward_found
    assert "read_file answered with an error: ENOENT: words.txt" in str(episode.error)
    assert "`error: false`" in str(episode.error) and episode.scores.parts == ()


async def test_the_same_fault_in_two_folders_is_said_alike():
    said = []
    for name in ("one", "two"):
        session = Files()
        session.place = EpisodePlace(name, Path("/tmp") / name / "files")  # type: ignore[attr-defined]
        path = f"/tmp/{name}/files/words.txt"
        called = {"name": "read_file", "arguments": {"path": path}}
        one = task([{"call": called, "expect": {"contains": "delta"}}])
        episode = await played(one, [WRITES[1]], session)
        assert episode.stop == "error"
        said.append(episode.info["evaluation_error"])
    assert said[0] == said[1] and "ENOENT: ${EPISODE_DIR}/words.txt" in said[0]


async def test_an_error_answer_is_judged_where_the_task_says_so():
    missing = [{"call": READ, "expect": {"error": False, "contains": "delta"}}]
    episode = await played(task(missing), ["<tool>done()</tool>"])
    assert (episode.stop, episode.scores.task_completion) == ("done", 0.0)
    assert episode.scores.reward_found
    gone = [{"call": READ, "expect": {"error": True}}]
    episode = await played(task(gone), ["<tool>done()</tool>"])
    assert episode.scores.task_completion == 1.0


@pytest.mark.parametrize("wanted", [True, False])
async def test_an_internal_error_of_the_server_is_never_the_expected_one(wanted: bool):
    session = Files()
    session.internal = True
    one = task([{"call": READ, "expect": {"error": wanted}}])
    episode = await played(one, ["<tool>done()</tool>"], session)
    assert episode.stop == "error" and not episode.scores.reward_found
    assert "the server failed at read_file; it answered: ENOENT: words.txt" in str(episode.error)
    assert episode.scores.parts == ()


async def test_a_lost_environment_is_no_reward():
    session = Files()
    session.lost = True
    episode = await played(task(), WRITES, session)
    assert episode.stop == "error" and "the server died" in str(episode.error)
    assert not episode.scores.reward_found


async def test_an_early_look_does_not_stay():
    session = Files()
    player = EpisodePlayer(session, config(), task())
    await player.start()
    await player.judge()
    assert "evaluation_error" in player.info
    await player.step(WRITES[0])
    assert (await player.judge()).own["read_file"] == 1.0
    await player.step(WRITES[1])
    episode = await player.finish()
    assert episode.ok and episode.scores.task_completion == 0.9
    assert "evaluation_error" not in episode.info


async def test_parts_stand_in_records_tables_and_curves():
    episode = await played(task(), WRITES)
    record = json.loads(json.dumps(episode_to_json(episode)))
    assert record["scores"]["parts"][0]["words"] == "read_file(words.txt) contains delta"
    assert episode_from_json(record).scores == episode.scores
    assert "✓ read_file(words.txt) contains delta (0.6)" in end_text(episode)
    other = await played(task([{"reply": {"contains": "42"}}]), WRITES)
    both = [outcome_of(episode), outcome_of(other)]
    line = metrics_line(1, both, tasks=1)
    assert (line["said"], line["reply"]) == (1.0, 1.0)  # a mean over those that have the part
    told = summarise(both, [task()]).to_json()["tasks"][0]["episodes"][0]
    assert [part["weight"] for part in told["parts"]] == [0.6, 0.3, 0.1]


async def test_openenv_gives_the_same_reward():
    here = await played(task(), WRITES)

    @asynccontextmanager
    async def connect(_: Mapping[str, Any]) -> Any:
        session: Session = Files()
        yield session

    session = EpisodeSession(served(connect))
    await session.reset({})
    answer = {}
    for reply in WRITES:
        answer = await session.step({"type": "reply", "reply": reply})
    assert answer["done"] and answer["reward"] == here.scores.reward
    await session.close()


def served(connect: Any) -> ServedTasks:
    return ServedTasks((task(),), config(), connect)


REWARDS = """
async def tidy(episode, task, session):
    answer = await session.call_tool("read_file", {"path": "words.txt"})
    return 0.5 if answer.text == "alpha delta" else 0.0

def plain(episode, task):
    return 1.0

def said(episode, task):
    return 1.0

class Both:
    pass
"""


async def test_code_of_ones_own_may_look_at_the_end_state(tmp_path: Path):
    (tmp_path / "rewards.py").write_text(REWARDS)
    own = with_reward(config(), "rewards.py:tidy", tmp_path)
    episode = await play(Files(), own, task(), ReplayPolicy(WRITES))
    assert episode.scores.own["tidy"] == 0.5
    assert episode.scores.reward == pytest.approx(0.8 * 0.9 + 0.2 + 0.5)
    plain = with_reward(config(), "rewards.py:plain", tmp_path)
    assert (await play(Files(), plain, task(), ReplayPolicy(WRITES))).scores.own["plain"] == 1.0


async def test_code_with_the_name_of_a_part_is_refused(tmp_path: Path):
    (tmp_path / "rewards.py").write_text(REWARDS)
    own = with_reward(config(), "rewards.py:said", tmp_path)
    episode = await play(Files(), own, task(), ReplayPolicy(WRITES))
    assert episode.stop == "error" and "a part called said" in str(episode.error)


async def test_a_setup_tool_and_the_evaluation_share_the_session():
    session = Files()
    setup = (ToolCall("write_file", {"path": "words.txt", "content": "delta"}),)
    episode = await played(task(setup=setup), ["It is 42.<tool>done()</tool>"], session)
    assert session.calls == ["write_file", "read_file"]
    assert episode.scores.task_completion == 1.0
