"""A call inside a thought is never played, and a reply means the same wherever it is read."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.letters import Letters
from support.scripted_chat import scripted_chat
from support.thoughts import CONFIG, any_replies, wanted_call
from typer.testing import CliRunner

from hudtui.cli.app import build
from hudtui.core.environment.values import ContentBlock, Session, Tool, ToolResult
from hudtui.core.flows.playing import in_tags
from hudtui.core.gym.config import parse_config
from hudtui.core.gym.interpreter import Interpreter
from hudtui.core.gym.reply import split_reply
from hudtui.core.gym.values import GymConfig
from hudtui.core.openenv.session import EpisodeSession, ServedTasks
from hudtui.core.rollouts.chat import ChatEndpoint, ChatOptions, ChatPolicy, reply_text
from hudtui.core.rollouts.episode import EpisodePlayer, drive
from hudtui.core.tasks.task import Task
from hudtui.core.training.chat_tokens import ChatTokens
from hudtui.trainers.replies import BatchReplies
from hudtui.trainers.rollout import EpisodeRunner

REPLIES = any_replies(1000)
TASK = Task(id="t", prompt="Mark.", mcp_config={"notes": {"command": sys.executable}})


class Notes:
    """An environment in memory that answers nothing."""

    tools: Mapping[str, Tool] = {
        "note": Tool("note", "", {"type": "object", "properties": {"n": {"type": "integer"}}})
    }

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        return ToolResult((ContentBlock("text", "."),))


@contextlib.asynccontextmanager
async def notes(_: Any) -> AsyncIterator[Session]:
    yield Notes()


@pytest.fixture(params=["true", "false"])
def config(request: pytest.FixtureRequest) -> GymConfig:
    found, _ = parse_config(CONFIG % request.param, name="c.yaml")
    assert found is not None
    return found


def played(turns: Any) -> list[int | None]:
    return [None if turn.call is None else turn.call["arguments"]["n"] for turn in turns]


WANTED = [wanted_call(reply) for reply in REPLIES]


def test_the_replies_are_of_all_kinds() -> None:
    assert 200 < sum(one is not None for one in WANTED) < 800
    for kind in ("</think>", "<think>", "<tool>mark"):
        assert sum(kind in reply for reply in REPLIES) > 200
    assert (
        sum(
            "<think>" not in reply.partition("</think>")[0]
            for reply in REPLIES
            if "</think>" in reply
        )
        > 50
    )


async def test_eval_over_an_endpoint(config: GymConfig) -> None:
    """In episodes of 20 replies, so that no request has all that was said before."""
    turns: list[Any] = []
    with scripted_chat(lambda messages: REPLIES[len(turns) + len(messages) // 2 - 1]) as chat:
        async with ChatEndpoint("m", ChatOptions(base_url=chat.url, key="k")) as endpoint:
            while len(turns) < len(REPLIES):
                player = EpisodePlayer(Notes(), config, TASK, max_turns=20)
                episode = await drive(player, ChatPolicy(endpoint))
                assert episode.stop == "max_turns", episode.error
                turns += episode.turns
    assert [turn.reply for turn in turns] == REPLIES
    assert played(turns) == WANTED


@pytest.mark.parametrize("opens", ["", "<think>\n", "<think>\n\n</think>\n\n"])
async def test_the_trainer(config: GymConfig, opens: str) -> None:
    """Where the chat template opens the thought, one that is never closed takes all calls with
    it."""
    scribe = ChatTokens(Letters(opens=opens))
    left = iter(REPLIES)

    def generate(prompts: list[list[int]]) -> Any:
        return [
            scribe.tokenizer(next(left), add_special_tokens=False)["input_ids"] for _ in prompts
        ], None

    runner = EpisodeRunner(
        config, scribe, notes, max_tokens=500, max_seq_len=10_000_000, max_turns=100
    )
    turns = [
        turn
        for _ in range(10)
        for one in await runner.play([TASK], BatchReplies(generate))
        for turn in one.episode.turns
    ]
    prefilled = opens == "<think>\n"
    wanted = [
        None if prefilled and "</think>" not in reply else one
        for reply, one in zip(REPLIES, WANTED, strict=True)
    ]
    assert played(turns) == wanted
    # Format, and with it the reward, is that of the same reply elsewhere.
    alone = [split_reply(reply, config.parser.use_thinking).tags for reply in REPLIES]
    told = [bool(turn.interpretation["format"]["xml"]) for turn in turns]
    assert told == (
        [tags and "</think>" in reply for tags, reply in zip(alone, REPLIES, strict=True)]
        if prefilled
        else alone
    )


async def test_playing_by_hand_and_openenv(config: GymConfig) -> None:
    player = EpisodePlayer(Notes(), config, TASK)
    await player.start()
    for reply in REPLIES:
        text = in_tags(reply, config)
        if text == reply:  # a call alone gets its tags
            await player.step(text)
        else:
            assert reply.strip().startswith("mark(")
            await player.step("")
    assert played(player.turns) == WANTED
    session = EpisodeSession(ServedTasks([TASK], config, notes))
    await session.reset({})
    for reply in REPLIES:
        await session.step({"reply": reply})
    assert session._player is not None
    assert played(session._player.turns) == WANTED


def test_config_try(config: GymConfig, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG % str(config.parser.use_thinking).lower())
    lines = "".join(json.dumps({"text": reply}) + "\n" for reply in REPLIES)
    done = CliRunner().invoke(
        build(), ["config", "try", str(tmp_path / "c.yaml"), "--jsonl", "--calls"], input=lines
    )
    assert done.exit_code == 0, done.output
    calls = [json.loads(line)["call"] for line in done.stdout.splitlines()]
    assert [None if call is None else call["arguments"]["n"] for call in calls] == WANTED


@pytest.mark.parametrize("place", ["reasoning_content", "reasoning", "parts"])
def test_what_an_endpoint_keeps_apart_is_thought(config: GymConfig, place: str) -> None:
    """Whatever the reasoning says, only what stands in the content is called."""
    interpreter = Interpreter(config)
    for number, reply in enumerate(REPLIES):
        content = f"<tool>mark({number + 5_000_000})</tool>"
        message: dict[str, Any] = {"content": content, place: reply}
        if place == "parts":
            kind = (
                {"type": "reasoning", "text": reply}
                if number % 2
                else {"type": "thinking", "thinking": [{"text": reply}]}
            )
            message = {"content": [kind, {"type": "text", "text": content}]}
        meaning = interpreter.interpret(reply_text(message))
        assert meaning.call is not None and meaning.call.arguments == {"n": number + 5_000_000}, (
            reply
        )
        assert meaning.format == (1, 1) or (not reply.strip() and config.parser.use_thinking)
        assert (
            interpreter.interpret(
                reply_text({**message, "content": None if place != "parts" else [kind]})
            ).call
            is None
        )


async def test_what_a_model_says_beside_a_call_of_its_own_is_thought(config: GymConfig) -> None:
    player = EpisodePlayer(Notes(), config, TASK)
    await player.start()
    for number, said in enumerate(REPLIES):
        turn = await player.call("mark", {"n": number}, said=said)
        assert turn.call is not None and turn.call["arguments"] == {"n": number}
        again = player.interpret(turn.reply)  # the record means the same
        assert again.call is not None and again.call.arguments == {"n": number}, said


async def test_the_agent_is_told_of_a_thought_that_is_not_closed(config: GymConfig) -> None:
    player = EpisodePlayer(Notes(), config, TASK)
    await player.start()
    turn = await player.step("<think>I might <tool>mark(1)</tool>")
    assert turn.call is None and turn.observation.startswith("error: the <think> tag is not closed")
    turn = await player.step("I might <tool>mark(1)</tool></think>")
    assert turn.call is None and "write the call after </think>" in turn.observation
