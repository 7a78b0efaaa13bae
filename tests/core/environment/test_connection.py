"""Sessions with real servers, good and odd ones, over every transport."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from pathlib import Path

import pytest

from hudtui.core.environment.client import connect
from hudtui.core.environment.source import parse_source
from hudtui.core.errors import ConnectError, SourceError
from hudtui.core.events import Progress


def command(*words):
    return parse_source(None, words)


async def refused(source, error=ConnectError, **options):
    """The error that connecting to a source ends with."""
    with pytest.raises(error) as caught:
        async with connect(source, **options):
            pytest.fail("there should be no connection")
    return caught.value


# Good servers.


async def test_the_bundled_environment_is_played():
    events = []
    async with connect(parse_source("text-2048"), on_event=events.append) as session:
        assert {name: tool.kind for name, tool in session.tools.items()} == {
            "move": "agent",
            "setup": "setup",
            "evaluate": "evaluate",
        }
        begun = await session.call_tool("setup", {"name": "board", "seed": 7})
        moved = await session.call_tool("move", {"direction": "left"})
        judged = await session.call_tool("evaluate", {"name": "max_number", "target": 8})
        hidden = await session.call_tool("int_efficiency", {})
    assert begun.structured["seed"] == 7
    assert "Moved left" in moved.text or "Nothing moves" in moved.text
    assert judged.structured["reward"] == json.loads(judged.text)["reward"]
    assert not hidden.is_error
    assert session.warnings == []
    assert set(session.timings) == {"connect", "list"}
    assert all(isinstance(event, Progress) for event in events)


async def test_mcp_server_time():
    async with connect(command(sys.executable, "-m", "mcp_server_time")) as session:
        result = await session.call_tool("get_current_time", {"timezone": "UTC"})
        wrong = await session.call_tool("get_current_time", {"timezone": "Nowhere/Land"})
    assert json.loads(result.text)["timezone"] == "UTC"
    assert wrong.is_error


async def check_everything(session):
    assert "echo" in session.tools
    assert (await session.call_tool("echo", {"message": "hello"})).text == "Echo: hello"
    picture = await session.call_tool("get-tiny-image", {})
    assert [block.type for block in picture.blocks] == ["text", "image", "text"]
    image = picture.blocks[1]
    assert image.mime_type == "image/png"
    assert image.data
    structured = await session.call_tool("get-structured-content", {"location": "New York"})
    assert "temperature" in structured.structured
    linked = await session.call_tool("get-resource-links", {"count": 2})
    assert [block.uri is not None for block in linked.blocks if block.type == "resource_link"] == [
        True,
        True,
    ]
    assert (await session.call_tool("echo", {})).is_error
    assert (await session.call_tool("no-such-tool", {})).is_error


async def test_server_everything_over_stdio(everything):
    async with connect(command("node", str(everything))) as session:
        await check_everything(session)


@pytest.mark.parametrize("transport", ["streamableHttp", "sse"])
async def test_server_everything_over_http(serve_everything, transport):
    async with serve_everything(transport) as url, connect(parse_source(url)) as session:
        await check_everything(session)


async def test_one_http_server_holds_a_game_for_each_session(serve_2048):
    async with (
        serve_2048() as url,
        connect(parse_source(url)) as one,
        connect(parse_source(url)) as other,
    ):
        await one.call_tool("setup", {"name": "board", "size": 3})
        await other.call_tool("setup", {"name": "board", "size": 5})
        boards = [
            (await session.call_tool("move", {"direction": "up"})).structured["board"]
            for session in (one, other)
        ]
    assert [len(board) for board in boards] == [3, 5]


async def test_a_session_may_be_used_from_other_tasks_and_left_in_another():
    block = connect(parse_source("text-2048"))
    session = await asyncio.create_task(block.__aenter__())
    results = await asyncio.gather(
        *(session.call_tool("move", {"direction": "left"}) for _ in range(5))
    )
    assert all(not result.is_error for result in results)
    await asyncio.create_task(block.__aexit__(None, None, None))
    with pytest.raises(ConnectError, match="closed"):
        await session.call_tool("move", {"direction": "left"})


async def test_a_server_of_the_sessionless_generation_is_understood(odd):
    async with connect(command(*odd("modern"))) as session:
        assert session.links[0].protocol == "2026-07-28"
        assert session.links[0].server == ("modern", "9")
        assert (await session.call_tool("good", {"x": 1})).text == '{"x": 1}'


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_older_generations(odd, version):
    async with connect(command(*odd("version", version))) as session:
        assert session.links[0].protocol == version
        assert (await session.call_tool("good", {})).text == "{}"


# Several servers, variables.


async def test_several_servers_stand_behind_one_session(odd):
    program, *args = odd("plain")
    config = {
        "game": {"command": sys.executable, "args": ["-m", "hudtui.envs.text_2048"]},
        "second": {"command": program, "args": args},
        "third": {"command": program, "args": args},
    }
    async with connect(config) as session:
        assert list(session.tools) == ["move", "setup", "evaluate", "good", "third_good"]
        assert session.tools["third_good"].name == "third_good"
        assert session.warnings == [
            "two servers have a tool 'good': that of 'third' is called 'third_good'"
        ]
        assert (await session.call_tool("third_good", {"x": 3})).text == '{"x": 3}'
        assert (await session.call_tool("second_good", {"x": 2})).text == '{"x": 2}'
        assert not (await session.call_tool("game_move", {"direction": "up"})).is_error
        unknown = await session.call_tool("nothing", {})
        assert unknown.is_error
        assert "Unknown tool: nothing" in unknown.text


async def test_one_bad_server_of_several_ends_the_others(odd, marker):
    good, bad = odd("stays", marker.word), odd("die", marker.word)
    config = {
        name: {"command": words[0], "args": list(words[1:])}
        for name, words in (("good", good), ("bad", bad))
    }
    with pytest.raises(ConnectError, match="'bad' ended with exit code 3"):
        async with connect(config):
            pytest.fail("there should be no connection")
    assert marker.alive() == []


async def test_variables_are_put_in_when_the_connection_is_opened(odd):
    program, *args = odd("tell_secret")
    config = {
        "s": {
            "command": "$PROGRAM",
            "args": args,
            "env": {"MY_API_KEY": "${MY_API_KEY}", "OTHER": "$UNSET_ONE"},
        }
    }
    values = {"PROGRAM": program, "MY_API_KEY": "sk-very-secret-value"}
    error = await refused(config, lookup=values.get)
    assert "bad key ***" in error.why
    assert "very-secret" not in str(error)


async def test_an_unset_variable_is_a_warning_where_the_server_can_start(odd):
    program, *args = odd("plain")
    config = {
        "s": {
            "command": program,
            "args": [*args, "$UNSET_ARG"],
            "env": {"A": "x$UNSET_ENV", "B": "${UNSET_TOO:-b}"},
        }
    }
    async with connect(config, lookup=lambda _: None) as session:
        assert session.warnings == [
            "UNSET_ENV is not set: the server 's' starts without A",
            "UNSET_ARG is not set: left as written in the command of the server 's'",
        ]


async def test_an_unset_variable_of_a_header_is_an_error():
    config = {
        "hud": {
            "url": "http://127.0.0.1:9/mcp",
            "headers": {"Authorization": "Bearer $HUD_API_KEY"},
        }
    }
    error = await refused(config, SourceError, lookup=lambda _: None)
    assert (
        error.what
        == "HUD_API_KEY is not set, and the header Authorization of the server 'hud' needs it"
    )
    assert "HUD_API_KEY=" in error.fix


async def test_a_child_gets_no_secret_it_was_not_given(odd, monkeypatch):
    monkeypatch.setenv("HUD_API_KEY", "sk-of-this-process")
    monkeypatch.setenv("DOCKER_HOST", "unix:///tmp/engine.sock")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/agent.sock")
    program, *args = odd("plain")
    async with connect(
        {"s": {"command": program, "args": args, "env": {"GIVEN": "yes"}}}
    ) as session:
        told = Path(f"/proc/{session.links[0].pid}/environ").read_bytes().decode()
    names = {entry.partition("=")[0] for entry in told.split("\0")}
    assert {"DOCKER_HOST", "SSH_AUTH_SOCK", "GIVEN", "PATH", "HOME"} <= names
    assert "HUD_API_KEY" not in names
    assert "sk-of-this-process" not in told


# Odd servers.


async def test_a_program_that_is_missing():
    error = await refused(command("no-such-program-here", "x"), SourceError)
    assert error.what == "there is no program called 'no-such-program-here'"


async def test_a_program_that_may_not_be_run(tmp_path):
    script = tmp_path / "server.sh"
    script.write_text("#!/bin/sh\n")
    error = await refused(command(str(script)), SourceError)
    assert "is not an executable program" in error.what
    assert "chmod +x" in error.fix
    script.write_text("no first line\n")
    script.chmod(0o755)
    error = await refused(command(str(script)), SourceError)
    assert "not a program this system can run" in error.what


async def test_a_whole_command_line_as_one_word():
    error = await refused(command("python -m server"), SourceError)
    assert "separate words" in error.fix


async def test_a_working_folder_that_is_missing(odd):
    program, *args = odd("plain")
    error = await refused(
        {"s": {"command": program, "args": args, "cwd": "/no/such/folder"}}, SourceError
    )
    assert "/no/such/folder does not exist" in error.what


async def test_a_server_that_dies_shows_the_end_of_its_standard_error(odd):
    error = await refused(command(*odd("die")))
    assert "ended with exit code 3 before it answered" in error.what
    assert error.why == "The end of its standard error:\nloading\nValueError: no board"
    assert "\x1b" not in str(error)


async def test_a_server_that_dies_without_a_word(odd):
    error = await refused(command(*odd("die_silently")))
    assert "ended with exit code 4" in error.what
    assert error.why == "It wrote nothing to standard error."
    assert "yourself" in error.fix


async def test_a_server_that_hangs_ends_by_its_own_time_limit(odd, marker):
    began = time.monotonic()
    error = await refused(command(*odd("hang", marker.word)), timeout=1.0)
    assert time.monotonic() - began < 10
    assert "gave no answer within 1 s" in error.what
    assert "waiting for a licence" in error.why
    assert "--timeout" in error.fix
    assert marker.alive() == []


async def test_a_flood_on_standard_error_does_not_block(odd):
    async with connect(command(*odd("flood"))) as session:
        assert "good" in session.tools
        assert "line 19999" in session.links[0].errors()
        assert len(session.links[0].errors()) < 10_000


async def test_stray_lines_are_counted_and_cost_nothing(odd):
    async with connect(command(*odd("junk"))) as session:
        assert (await session.call_tool("good", {})).text == "{}"
        count, first = session.links[0].stray_output
        assert count >= 51
        assert first == "Loading layer 0"


async def test_a_program_that_is_no_server_is_not_listened_to_for_ever(odd):
    error = await refused(command(*odd("only_junk")))
    assert (
        "does not speak MCP on its standard output: it wrote 20000 lines in a row that are not "
        "messages" in error.what
    )
    assert "It began with: y" in error.why


async def test_a_server_that_dies_in_a_call(odd):
    async with connect(command(*odd("die_in_call"))) as session:
        for _ in range(2):
            with pytest.raises(ConnectError, match="ended with exit code 7") as caught:
                await session.call_tool("good", {})
            assert "out of tiles" in caught.value.why


async def test_a_server_that_dies_between_calls(odd):
    async with connect(command(*odd("plain"))) as session:
        os.kill(session.links[0].pid, 9)
        await asyncio.sleep(0.2)
        with pytest.raises(ConnectError, match="was ended by signal 9"):
            await session.call_tool("good", {})


async def test_a_call_that_hangs_ends_by_its_limit(odd):
    async with connect(command(*odd("hang_in_call"))) as session:
        with pytest.raises(ConnectError, match=r"no answer to tools/call good within 0\.3 s"):
            await session.call_tool("good", {}, timeout=0.3)


async def test_a_call_can_be_cancelled_and_the_session_goes_on(serve_everything, everything):
    async with connect(command("node", str(everything))) as session:
        slow = asyncio.create_task(
            session.call_tool("trigger-long-running-operation", {"duration": 60, "steps": 5})
        )
        await asyncio.sleep(0.3)
        slow.cancel()
        began = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert time.monotonic() - began < 1
        assert (await session.call_tool("echo", {"message": "on"})).text == "Echo: on"


async def test_a_tool_that_runs_only_as_a_task_of_mcp_is_left_out(serve_everything, everything):
    async with connect(command("node", str(everything))) as session:
        assert "echo" in session.tools
        assert "simulate-research-query" not in session.tools
        warnings = "\n".join(session.warnings)
        assert "simulate-research-query runs only as a task of MCP" in warnings


async def test_malformed_tools_do_not_hide_the_others(odd):
    async with connect(command(*odd("malformed"))) as session:
        assert list(session.tools) == ["no_schema", "bad_schema", "odd_description", "good"]
        assert session.tools["no_schema"].input_schema is None
        assert session.tools["bad_schema"].input_schema is None
        assert session.tools["odd_description"].description == ""
        assert session.tools["good"].input_schema["properties"] == {"x": {"type": "integer"}}
        warnings = "\n".join(session.warnings)
        for words in (
            "no_schema has no input schema",
            "bad_schema is not an object",
            "tool 3 has no name",
            "tool 4",
            "listed twice",
        ):
            assert words in warnings
        assert (await session.call_tool("good", {})).text == "{}"


async def test_ten_thousand_tools(odd):
    began = time.monotonic()
    async with connect(command(*odd("many", 10_000))) as session:
        assert len(session.tools) == 10_000
        assert (await session.call_tool("tool_9999", {"x": 1})).text == '{"x": 1}'
    assert time.monotonic() - began < 30


async def test_pages_are_followed_to_their_end(odd):
    async with connect(command(*odd("pages"))) as session:
        assert list(session.tools) == [f"page_{page}_{n}" for page in range(5) for n in range(3)]


async def test_pages_in_a_circle_end(odd):
    async with connect(command(*odd("circle"))) as session:
        assert len(session.tools) == 2
        assert any("go in a circle" in warning for warning in session.warnings)


@pytest.mark.parametrize(
    ("mode", "words"),
    [("list_error", "does not list its tools"), ("version", "does not answer as an MCP server")],
)
async def test_answers_that_make_no_session(odd, mode, words):
    error = await refused(command(*odd(mode, "1999-01-01")))
    assert words in error.what
    assert (
        "the list is lost" if mode == "list_error" else "version 1999-01-01 of MCP"
    ) in error.why


@pytest.mark.parametrize(
    ("mode", "words"), [("no_tools", "offers no tools"), ("no_list", "holds no list of tools")]
)
async def test_a_server_without_tools_is_a_warning(odd, mode, words):
    async with connect(command(*odd(mode))) as session:
        assert session.tools == {}
        assert any(words in warning for warning in session.warnings)


async def test_content_of_unknown_kinds_is_kept(odd):
    async with connect(command(*odd("blocks"))) as session:
        result = await session.call_tool("good", {})
    assert [block.type for block in result.blocks] == [
        "text",
        "hologram",
        "image",
        "resource",
        "resource_link",
        "text",
        "unknown",
    ]
    assert json.loads(result.blocks[1].text) == {"type": "hologram", "shape": "cube"}
    assert result.text == "one\nbare"
    assert not result.is_error


async def test_structured_content_that_breaks_the_server_s_own_schema_is_kept(odd):
    async with connect(command(*odd("output_schema"))) as session:
        assert (await session.call_tool("good", {})).structured == {"y": 5}


async def test_a_refused_call_is_an_error_result(odd):
    async with connect(command(*odd("refuse_call"))) as session:
        result = await session.call_tool("good", {})
    assert result.is_error
    assert result.text == "no such tool here"


async def test_a_tool_that_asks_the_user_is_an_error_result(odd):
    async with connect(command(*odd("ask"))) as session:
        result = await session.call_tool("good", {})
    assert result.is_error
    assert "asks the user" in result.text


async def test_a_result_of_fifty_megabytes_arrives(odd):
    began = time.monotonic()
    async with connect(command(*odd("big", 50_000_000))) as session:
        result = await session.call_tool("good", {})
    assert len(result.text) == 50_000_000
    assert time.monotonic() - began < 30


async def test_nothing_of_the_sdk_reaches_standard_error(odd, capfd):
    async with connect(command(*odd("junk"))) as session:
        await session.call_tool("good", {})
    with pytest.raises(ConnectError):
        async with connect(command(*odd("die"))):
            pass
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""
    assert any(
        isinstance(handler, logging.NullHandler) for handler in logging.getLogger("mcp").handlers
    )


# No process is left behind.


@pytest.mark.parametrize("mode", ["hang", "stubborn", "family"])
async def test_cancelling_a_start_leaves_no_process(odd, marker, mode):
    async def start():
        async with connect(command(*odd(mode, marker.word))):
            pytest.fail("there should be no connection")

    task = asyncio.create_task(start())
    await marker.until_started(2 if mode == "family" else 1)
    await asyncio.sleep(0.3)
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 3
    async with asyncio.timeout(5):  # a process that was killed is there for a moment yet
        while marker.alive():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("cancels", [1, 2, 3])
async def test_cancelling_a_session_leaves_no_process(odd, marker, cancels):
    entered = asyncio.Event()

    async def hold():
        async with connect(command(*odd("stays", marker.word))):
            entered.set()
            await asyncio.sleep(3600)

    task = asyncio.create_task(hold())
    await entered.wait()
    for _ in range(cancels):
        task.cancel()
        await asyncio.sleep(0.01)
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(
        5
    ):  # told to go again and again, the block returns before the clean-up has ended
        while marker.alive():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def test_a_closing_event_loop_leaves_no_process(odd, marker):
    async def abandon():
        async def hold():
            async with connect(command(*odd("stays", marker.word))):
                await asyncio.sleep(3600)

        tasks = [asyncio.create_task(hold()) for _ in range(2)]
        await marker.until_started(2)
        await asyncio.sleep(0.5)
        return tasks  # and the loop ends with them in it

    asyncio.run(abandon())
    assert marker.alive() == []


async def test_leaving_ends_a_server_that_does_not_want_to_go(odd, marker):
    async with connect(command(*odd("stays", marker.word))):
        assert len(marker.alive()) == 1
    assert marker.alive() == []


async def test_an_error_in_the_block_comes_through_and_leaves_no_process(odd, marker):
    with pytest.raises(ZeroDivisionError):
        async with connect(command(*odd("plain", marker.word))):
            raise ZeroDivisionError
    assert marker.alive() == []


async def test_many_sessions_at_once(odd, marker):
    async def one(number):
        async with connect(command(*odd("plain", marker.word))) as session:
            return (await session.call_tool("good", {"x": number})).text

    assert await asyncio.gather(*(one(n) for n in range(12))) == [
        f'{{"x": {n}}}' for n in range(12)
    ]
    assert marker.alive() == []
