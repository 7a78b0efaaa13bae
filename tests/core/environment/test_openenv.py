"""OpenEnv servers as sources: recognised, described as tools, played and judged; and the odd ones
among them."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from support import tls
from support.openenv_recorded import (
    CALL_TOOL,
    GUESS,
    TOOLS,
    Recorded,
    echoing,
    guessing,
    observed,
    refused,
)
from support.played import play

from hudtui.core.environment.client import connect
from hudtui.core.environment.discover import analyze
from hudtui.core.environment.openenv import base_url
from hudtui.core.environment.source import parse_source
from hudtui.core.errors import ConnectError, SourceError
from hudtui.core.gym.generate import draft_config
from hudtui.core.gym.values import ActionMapping, GymConfig, Static
from hudtui.core.rollouts.policy import ReplayPolicy
from hudtui.core.tasks.task import Task, ToolCall


@contextlib.asynccontextmanager
async def session_with(server, scheme="ws", path="", **options):
    async with (
        server.served() as place,
        connect(parse_source(f"{scheme}://{place}{path}"), **options) as session,
    ):
        yield session


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("ws://h:1", "http://h:1"),
        ("wss://h/x/ws?token=1", "https://h/x"),
        ("http://h:1/mcp/", "http://h:1"),
        ("https://h/a/b", "https://h/a/b"),
    ],
)
def test_the_address_behind_an_address(url, base):
    assert base_url(url) == base


@pytest.mark.parametrize(
    ("scheme", "path"), [("ws", ""), ("ws", "/ws"), ("http", ""), ("http", "/mcp")]
)
async def test_an_openenv_server_is_recognised_at_each_of_its_addresses(scheme, path):
    server = Recorded(GUESS, guessing)
    async with server.served() as place:
        found = await analyze(parse_source(f"{scheme}://{place}{path}"))
        assert (found.protocol, found.server.name, found.server.version) == (
            "openenv",
            "Game",
            "1.0.0",
        )
        assert [(tool.name, tool.kind) for tool in found.tools] == [
            ("step", "agent"),
            ("setup", "setup"),
            ("evaluate", "evaluate"),
        ]
        assert found.tool("step").input_schema["properties"] == {
            "number": {"title": "Number", "type": "integer"}
        }
        assert (found.warnings == ()) == (scheme == "ws")
        if scheme == "http":
            assert f"as ws://{place} it is reached at once" in found.warnings[0]
        assert server.open == 0
        assert [action.name for action in draft_config(found).actions] == ["step"]


async def test_steps_rewards_and_the_end():
    async with session_with(Recorded(GUESS, guessing)) as session:
        begun = await session.call_tool("setup", {"seed": 4, "own": "option"})
        assert begun.text == '{"hint": "guess 0..9", "left": 5}' and not begun.over
        first = await session.call_tool("step", {"number": 3})
        assert first.structured == {"hint": "higher", "left": 4, "reward": 0.0, "done": False}
        wrong = await session.call_tool("step", {"x": 3})
        assert (
            wrong.is_error
            and "number: Field required; x: Extra inputs are not permitted" in wrong.text
        )
        assert (await session.call_tool("evaluate", {})).structured == {
            "reward": 0.0,
            "rewards": 1,
            "done": False,
        }
        last = await session.call_tool("step", {"number": 4})
        assert last.over and last.structured["reward"] == 1.0
        late = await session.call_tool("step", {"number": 4})
        assert late.is_error and late.text == "the episode is over"
        assert (await session.call_tool("evaluate", {})).structured == {
            "reward": 1.0,
            "rewards": 2,
            "done": True,
        }
        assert (await session.call_tool("evaluate", {"of": "last"})).structured["reward"] == 1.0
        assert (await session.call_tool("evaluate", {"of": "best"})).is_error
        await session.call_tool("setup", {"seed": 5})
        assert (await session.call_tool("evaluate", {})).structured == {
            "reward": 0.0,
            "rewards": 0,
            "done": False,
        }


async def test_an_action_before_the_set_up_begins_an_episode():
    server = Recorded(GUESS, guessing)
    async with session_with(server) as session:
        assert (await session.call_tool("step", {"number": 0})).structured["reward"] == 1.0
    assert [message["type"] for message in server.messages] == ["reset", "step", "close"]


async def test_a_server_of_tools_has_its_tools():
    server = Recorded(CALL_TOOL, echoing)
    async with session_with(server) as session:
        assert list(session.tools) == ["echo", "fail", "setup", "evaluate"]
        assert session.tools["echo"].input_schema == TOOLS[0]["inputSchema"]
        told = await session.call_tool("echo", {"message": "ab", "times": 2})
        assert told.text == "abab" and told.structured == {
            "result": "abab",
            "reward": 0.25,
            "done": False,
        }
        failed = await session.call_tool("fail", {})
        assert failed.is_error and failed.text == "Error calling tool 'fail': no"
        assert (await session.call_tool("evaluate", {})).structured["reward"] == 0.5
    assert server.messages[2] == {
        "type": "step",
        "data": {
            "type": "call_tool",
            "tool_name": "echo",
            "arguments": {"message": "ab", "times": 2},
        },
    }


async def test_an_episode_ends_when_the_environment_says_so_and_its_rewards_are_the_completion():
    config = GymConfig(
        mappings={
            f"n{n}": ActionMapping(f"n{n}", "step", (), {"number": Static(n)}) for n in (3, 4)
        },
        weights={"task_completion": 1.0, "tool_execution": 0.0, "format_compliance": 0.0},
    )
    task = Task(
        "t", "Guess.", setup=(ToolCall("setup", {"seed": 4}),), evaluate=(ToolCall("evaluate"),)
    )
    async with session_with(Recorded(GUESS, guessing)) as session:
        replies = [f"<think>x</think><tool>n{n}()</tool>" for n in (3, 4, 3)]
        episode = await play(session, config, task, ReplayPolicy(replies))
    assert (episode.stop, len(episode.turns), episode.scores.reward) == ("done", 2, 1.0)


async def test_images_come_as_images():
    def session():
        return lambda message: observed(
            {
                "text": "a board",
                "images": ["data:image/png;base64,QUJD", "http://elsewhere/x.png", 7],
            }
        )

    async with session_with(Recorded(GUESS, session)) as client:
        seen = await client.call_tool("setup", {})
    assert seen.text == "a board"
    assert [(block.type, block.data, block.mime_type) for block in seen.blocks[1:]] == [
        ("image", "QUJD", "image/png")
    ]


async def test_the_agents_own_end_reaches_a_server_that_has_a_tool_for_it():
    def session():
        def answer(message):
            if message["type"] == "mcp":
                return {
                    "type": "mcp",
                    "data": {
                        "result": {"tools": [{"name": "poke"}, {"name": "done"}, {"name": "setup"}]}
                    },
                }
            ended = message.get("data", {}).get("tool_name") == "done"
            return observed({"text": "ok"}, 0.7 if ended else 0.0, ended)

        return answer

    async with session_with(Recorded(CALL_TOOL, session)) as client:
        assert (
            list(client.tools) == ["poke", "setup", "evaluate"]
            and "the tool setup" in client.warnings[0]
        )
        await client.call_tool("poke", {})
        assert (await client.call_tool("evaluate", {})).structured == {
            "reward": 0.7,
            "rewards": 2,
            "done": True,
        }


# Keys


async def test_a_key_goes_with_the_handshake_and_never_in_the_clear_over_a_network():
    server = Recorded(GUESS, guessing)
    async with server.served() as place:
        source = parse_source(
            f"ws://{place}",
            headers={"Authorization": "Bearer $K"},
            lookup={"K": "secret-value-1"}.get,
        )
        async with connect(source) as session:
            await session.call_tool("setup", {})
    assert server.headers[0]["authorization"] == "Bearer secret-value-1"
    far = parse_source(
        "ws://192.0.2.1:8000",
        headers={"Authorization": "Bearer $K"},
        lookup={"K": "secret-value-1"}.get,
    )
    with pytest.raises(SourceError, match="in the clear"):
        async with connect(far):
            pass


# Odd servers


def once(answer):
    """A session that answers each message in the same way, however it begins."""
    return lambda: lambda message: answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("not JSON", "something that is not JSON"),
        ("[" * 100_000, "something that is not JSON"),
        ("[" + "0," * 2_000_001 + "0]", "2,000,000 values"),
        ("[1]", "a message without a type"),
        ({"type": "state", "data": {}}, "state where an observation was expected"),
        (
            {"type": "observation", "data": {"observation": "text"}},
            "where an observation was expected",
        ),
        ('"' + "x" * (33 << 20) + '"', "more than 32 MiB"),
        (RuntimeError("no more"), "no more"),
        (refused("CAPACITY_REACHED", "full", active_sessions=1, max_sessions=1), "full"),
        (refused("FACTORY_ERROR", "broken"), "broken"),
    ],
)
async def test_what_is_no_answer_ends_the_connection_in_words(answer, words):
    async with session_with(Recorded(GUESS, once(answer))) as session:
        with pytest.raises(ConnectError) as error:
            await session.call_tool("setup", {})
    assert words in str(error.value)


@pytest.mark.parametrize("reward", ["1.0", None, [], "NaN", "1e999"])
async def test_a_reward_that_is_no_number_is_none(reward):
    raw = (
        '{"type": "observation", "data": {"observation": {"hint": "x"}, "reward": %s, "done": '
        '"yes"}}'
    )
    text = raw % {"NaN": "NaN", "1e999": "1e999", "1.0": '"1.0"', None: "null"}.get(
        reward if isinstance(reward, str | None) else "", "[]"
    )
    async with session_with(Recorded(GUESS, once(text))) as session:
        answer = await session.call_tool("step", {"number": 1})
        assert answer.structured["reward"] is None and not answer.over
        assert (await session.call_tool("evaluate", {})).structured["rewards"] == 0


async def test_an_answer_that_came_too_late_is_not_taken_for_the_next_one():
    gate = asyncio.Event()

    def session():
        async def answer(message):
            if message["type"] == "reset":
                return observed({"hint": "begun"})
            number = message["data"]["number"]
            if number == 1:
                await gate.wait()
            return observed({"hint": f"answer {number}"}, 0.0)

        return answer

    async with session_with(Recorded(GUESS, session)) as client:
        await client.call_tool("setup", {})
        with pytest.raises(ConnectError, match=r"gave no answer to step within 0\.05 s"):
            await client.call_tool("step", {"number": 1}, timeout=0.05)
        gate.set()
        assert (await client.call_tool("step", {"number": 2})).structured["hint"] == "answer 2"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "no OpenEnv server"),
        (401, "wants credentials"),
        (500, "500"),
        (307, "redirects elsewhere"),
    ],
)
async def test_why_there_is_no_connection(status, words):
    async with Recorded(GUESS, guessing, status=status).served() as place:
        with pytest.raises(ConnectError, match=words):
            async with connect(parse_source(f"ws://{place}")):
                pass


async def test_nothing_listens_there_and_a_hanging_server_is_given_up():
    with pytest.raises(ConnectError, match=r"nothing answers at ws://127\.0\.0\.1:9"):
        async with connect(parse_source("ws://127.0.0.1:9")):
            pass
    hanging = Recorded(CALL_TOOL, lambda: lambda message: None)
    async with hanging.served() as place:
        with pytest.raises(ConnectError, match="gave no answer"):
            async with connect(parse_source(f"ws://{place}"), timeout=0.5):
                pass
        async with asyncio.timeout(30):
            while hanging.open:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_the_first_failure_among_several_servers_closes_the_others():
    server = Recorded(GUESS, guessing)
    async with server.served() as place:
        config = {"one": {"url": f"http://{place}"}, "two": {"command": "no-such-program-anywhere"}}
        with pytest.raises(SourceError):
            async with connect(config):
                pass
        async with asyncio.timeout(30):
            while server.open:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_what_is_sent_to_this_machine_passes_no_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with (
        Recorded(GUESS, guessing).served() as place,
        connect(parse_source(f"ws://{place}")) as session,
    ):
        assert "guess 0..9" in (await session.call_tool("setup", {"seed": 4})).text


@pytest.mark.parametrize("scheme", ["wss", "https"])
async def test_a_certificate_counts_only_from_an_authority_that_is_known(
    scheme, tmp_path, monkeypatch
):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    authority = tls.certificate("An authority of one's own")
    known, _ = tls.write(authority, tmp_path, "authority")
    good = tls.write(tls.certificate("server", by=authority), tmp_path, "server")
    alone = tls.write(tls.certificate("itself"), tmp_path, "itself")
    server = Recorded(GUESS, guessing)
    async with (
        server.served() as place,
        tls.relayed(place, good) as signed,
        tls.relayed(place, alone) as itself,
    ):
        for relay in (signed, itself):
            with pytest.raises(
                ConnectError, match=r"the certificate or encryption of .* is not in order"
            ) as caught:
                async with connect(parse_source(f"{scheme}://{relay}")):
                    pass
            assert "certificate verify failed" in str(caught.value.why) and "SSL_CERT_FILE" in str(
                caught.value.fix
            )
        monkeypatch.setenv("SSL_CERT_FILE", str(known))
        with pytest.raises(ConnectError, match="the certificate or encryption"):
            async with connect(parse_source(f"{scheme}://{itself}")):
                pass
        async with connect(parse_source(f"{scheme}://{signed}")) as session:
            assert "guess 0..9" in (await session.call_tool("setup", {"seed": 4})).text
            assert (await session.call_tool("step", {"number": 4})).over
    assert server.open == 0


# Faults


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("EXECUTION_ERROR", "no episode is under way: reset begins one"),
        ("EXECUTION_ERROR", "Environment not reset. Call reset() first."),
        ("EXECUTION_ERROR", "Session 7 not found"),
        ("UNKNOWN_TYPE", "Unknown message type"),
        ("INVALID_JSON", "Invalid JSON"),
        ("SESSION_ERROR", "the episode broke off"),
    ],
)
async def test_a_server_that_has_lost_the_episode_is_a_fault(code, message):
    def session():
        return lambda asked: (
            observed({"hint": "begun"}) if asked["type"] == "reset" else refused(code, message)
        )

    async with session_with(Recorded(GUESS, session)) as client:
        await client.call_tool("setup", {})
        with pytest.raises(ConnectError, match="cannot continue this session") as caught:
            await client.call_tool("step", {"number": 1})
    assert message in caught.value.why


@pytest.mark.parametrize("extra", ["the same", "another"])
async def test_an_answer_that_comes_twice_is_not_taken_for_the_next_one(extra):
    def session():
        def answer(asked):
            if asked["type"] == "reset":
                return observed({"hint": "begun"})
            first = observed({"hint": f"answer {asked['data']['number']}"}, 0.25)
            return [first, first if extra == "the same" else observed({"hint": "who?"}, 1.0)]

        return answer

    async with session_with(Recorded(GUESS, session)) as client:
        await client.call_tool("setup", {})
        assert (await client.call_tool("step", {"number": 1})).structured["hint"] == "answer 1"
        await asyncio.sleep(0.1)
        if extra == "the same":
            assert (await client.call_tool("step", {"number": 2})).structured["hint"] == "answer 2"
            assert (await client.call_tool("evaluate", {})).structured["reward"] == 0.5
        else:
            with pytest.raises(ConnectError, match="does not speak OpenEnv"):
                await client.call_tool("step", {"number": 2})


@pytest.mark.parametrize(
    ("rewards", "done", "held"),
    [
        ([None, None], True, False),  # over, and nothing was said
        ([None, 0.0], True, True),
        ([None, None], False, True),  # rewards that come at the end alone: it was not reached
        ([0.5, "1.0"], True, False),
        ([float("inf"), 0.5], False, False),
    ],
)
async def test_an_episode_without_a_reward_is_not_worth_nothing(rewards, done, held):
    def session():
        left = list(rewards)

        def answer(asked):
            if asked["type"] == "reset":
                return observed({"hint": "begun"})
            reward = left.pop(0)
            return {
                "type": "observation",
                "data": {"observation": {"hint": "x"}, "reward": reward, "done": done and not left},
            }

        return answer

    async with session_with(Recorded(GUESS, session)) as client:
        await client.call_tool("setup", {})
        for _ in rewards:
            await client.call_tool("step", {"number": 1})
        found = (await client.call_tool("evaluate", {})).structured
    assert ("reward" in found) == held
    assert held or found["problem"]


async def test_halves_of_surrogate_pairs_become_replacement_marks():
    answer = (
        '{"type": "observation", "data": {"observation": {"hint": "half \\ud83d"}, "reward": 0.0, '
        '"done": false}}'
    )
    async with session_with(Recorded(GUESS, once(answer))) as client:
        assert (await client.call_tool("step", {"number": 1})).structured["hint"] == "half �"
