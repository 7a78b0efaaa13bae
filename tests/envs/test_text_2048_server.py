"""text-2048 as MCP clients meet it: the Python SDK, the TypeScript SDK, and bytes that are no
MCP."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hudtui.envs.text_2048.environment import PROTOCOL_VERSIONS, TOOLS, GameTable
from hudtui.envs.text_2048.stdio import StdioServer, serve

COMMAND = [sys.executable, "-m", "hudtui.envs.text_2048"]
CLIENT = Path(__file__).parents[1] / "support" / "sdk_client.mjs"


@contextlib.asynccontextmanager
async def client(target, mode="legacy"):
    from mcp import Client, StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    if isinstance(target, str):
        wire = streamable_http_client(target)
    else:
        # The SDK's default is the stderr of its import, which may be that of a test of commands.
        server = StdioServerParameters(command=target[0], args=target[1:])
        wire = stdio_client(server, errlog=sys.__stderr__)
    async with Client(wire, mode=mode, read_timeout_seconds=30) as session:
        yield session


async def play(session):
    """A short task, through everything the server has."""
    assert [tool.name for tool in (await session.list_tools()).tools] == [
        "move",
        "setup",
        "evaluate",
    ]
    uris = [resource.uri for resource in (await session.list_resources()).resources]
    assert uris == ["file:///setup/functions", "file:///evaluate/functions"]
    names = json.loads((await session.read_resource(uris[1])).contents[0].text)
    assert names == ["efficiency", "max_number"]
    begun = await session.call_tool(
        "setup", {"name": "board", "arguments": {"board_size": 4, "seed": 7}}
    )
    assert not begun.is_error
    assert begun.structured_content["seed"] == 7
    for direction in ("left", "up", "left", "up"):
        moved = await session.call_tool("move", {"direction": direction})
        assert moved.structured_content["attempts"] >= 1
        assert "Score" in moved.content[0].text
    judged = await session.call_tool(
        "evaluate", {"name": "max_number", "arguments": '{"target": 64}'}
    )
    assert set(judged.structured_content) == {"reward", "done", "content", "info", "isError"}
    assert json.loads(judged.content[0].text) == judged.structured_content
    assert judged.structured_content["isError"] is False
    assert 0 < judged.structured_content["reward"] < 1
    return moved.structured_content


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_python_sdk_plays_over_stdio(mode):
    async with client(COMMAND, mode) as session:
        assert session.protocol_version == PROTOCOL_VERSIONS[0]
        assert session.server_info.name == "text-2048"
        assert "2048" in session.instructions
        await play(session)


async def test_http_sessions_have_games_of_their_own(serve_2048):
    async with serve_2048() as url, client(url, "auto") as first, client(url, "legacy") as second:
        assert first.protocol_version == second.protocol_version == PROTOCOL_VERSIONS[0]
        states = await asyncio.gather(play(first), play(second))
        assert states[0] == states[1]
        await first.call_tool("setup", {"name": "board", "size": 3})
        kept = await second.call_tool("evaluate", {"name": "efficiency"})
        assert len(kept.structured_content["info"]["board"]) == 4


async def test_a_request_without_a_session_is_declined(serve_2048):
    import httpx2

    envelope = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "move", "arguments": {"direction": "left"}, "_meta": envelope}
    headers = {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "move",
        "accept": "application/json, text/event-stream",
    }
    async with serve_2048() as url, httpx2.AsyncClient() as web:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = await web.post(url, json=body, headers=headers)
    text = (
        answer.text.partition("data:")[2]
        if "event-stream" in answer.headers["content-type"]
        else answer.text
    )
    error = json.loads(text)["error"]
    assert "session" in error["message"]
    assert error["data"]["supported"] == list(PROTOCOL_VERSIONS)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_typescript_sdk_plays(transport, node_modules, serve_2048):
    async with contextlib.AsyncExitStack() as stack:
        target = (
            COMMAND if transport == "stdio" else [await stack.enter_async_context(serve_2048())]
        )
        process = await asyncio.create_subprocess_exec(
            *("node", str(CLIENT), str(node_modules), transport, *target),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 60)
    seen = json.loads(out)
    assert seen["server"] == {"name": "text-2048", "version": "1.0.0"}
    assert seen["tools"] == [tool["name"] for tool in TOOLS]
    assert seen["setup"]["structuredContent"]["seed"] == 5
    assert len(seen["move"]["structuredContent"]["board"]) == 3
    assert seen["evaluate"]["structuredContent"]["isError"] is False
    assert json.loads(seen["resource"]["contents"][0]["text"]) == ["efficiency", "max_number"]
    assert seen["unknown"] == -32602


def test_stdio_imports_nothing_heavy():
    code = (
        "import sys, io; from hudtui.envs.text_2048 import stdio, __main__; stdio.serve(1, "
        "io.BytesIO(b''), io.BytesIO());print([m for m in ('mcp', 'pydantic', 'asyncio', 'httpx2', "
        "'hudtui.core') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_the_seed_option_fixes_the_first_game():
    move = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "move", "arguments": {"direction": "down"}},
    }
    answers = {
        subprocess.run(
            [*COMMAND, "--seed", "3"],
            input=json.dumps(move),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    }
    assert len(answers) == 1


def test_a_taken_port_is_named():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*COMMAND, "--http", "--port", str(port)], capture_output=True, text=True
        )
    assert done.returncode == 1
    assert done.stderr.startswith(f"cannot listen on 127.0.0.1:{port}: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_goes_away_ends_the_server_quietly():
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode() + b"\n"
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(ping * 2)
        process.stdin.close()
    assert process.wait(20) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_prints_do_not_reach_the_protocol():
    code = (
        "from hudtui.envs.text_2048 import stdio; stdio.StdioServer.answer = lambda *_: "
        "(print('stray'), {})[1]; stdio.serve()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input="{}\n", capture_output=True, text=True, check=True
    )
    assert done.stdout == "{}\n"
    assert done.stderr == "stray\n"


def ask(peer, method, params=None, ident=1):
    return peer.answer(
        json.dumps({"jsonrpc": "2.0", "id": ident, "method": method, "params": params}).encode()
    )


@pytest.mark.parametrize("version", [*PROTOCOL_VERSIONS, "2026-07-28", "1999-01-01"])
def test_versions_are_negotiated(version):
    result = ask(StdioServer(GameTable(1)), "initialize", {"protocolVersion": version})["result"]
    assert result["protocolVersion"] == (
        version if version in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[0]
    )


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b"5", -32600),
        (b'{"id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 5}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "nope"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}', -32601),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}', -32602),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "move", '
            b'"arguments": 5}}',
            -32602,
        ),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "nope"}}',
            -32602,
        ),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}', -32602),
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": '
            b'"telemetry://live"}}',
            -32002,
        ),
    ],
)
def test_what_is_no_request_gets_an_error(line, code):
    assert StdioServer(GameTable(1)).answer(line)["error"]["code"] == code


def test_notifications_get_no_answer_and_batches_get_a_list():
    peer = StdioServer(GameTable(1))
    assert peer.answer(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}') is None
    assert peer.answer(b'[{"jsonrpc": "2.0", "method": "notifications/initialized"}]') is None
    batch = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in ("a", 2)]
    assert [answer["id"] for answer in peer.answer(json.dumps(batch).encode())] == ["a", 2]


def test_blank_lines_are_no_requests():
    out = io.BytesIO()
    serve(1, io.BytesIO(b'\n  \n{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n\n'), out)
    assert json.loads(out.getvalue()) == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "board", "arguments": {"board_size": 5, "seed": 9}},
        {"name": "board", "arguments": '{"board_size": 5, "seed": 9}'},
        {"name": "board", "board_size": 5, "seed": 9},
        {"name": "board", "size": 5.0, "seed": 9},
        {"name": "board", "arguments": {"size": 5}, "seed": 9},
        {"name": "board", "arguments": None, "board_size": 5, "seed": 9},
    ],
)
def test_hub_arguments_in_every_spelling(arguments):
    table = GameTable(1)
    answer = table.call("setup", arguments)
    assert not answer["is_error"], answer["text"]
    assert answer == GameTable(2).call("int_board", {"board_size": 5, "seed": 9})


def test_a_given_board_is_the_start():
    table = GameTable(1)
    board = [[2, 2, 0], [0, 4, 0], [0, 0, 8]]
    for given in (board, json.dumps(board)):
        answer = table.call("setup", {"name": "board", "board": given})
        assert answer["structured"]["board"] == board
    assert table.call("setup", {"name": "board", "board": board, "board_size": 4})["is_error"]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("setup", {}, "name of a function: one of board, not None"),
        ("setup", {"name": "bord"}, "one of board, not 'bord'"),
        ("setup", {"name": ["board"]}, "one of board"),
        ("setup", {"name": "board", "arguments": "{"}, "not valid JSON"),
        ("setup", {"name": "board", "arguments": "[1]"}, "must be an object"),
        ("setup", {"name": "board", "arguments": {"seed": 1}, "seed": 2}, "seed: given both"),
        ("setup", {"name": "board", "size": 4, "board_size": 4}, "not both"),
        ("setup", {"name": "board", "size": "4"}, "whole number, not '4'"),
        ("setup", {"name": "board", "size": True}, "whole number, not True"),
        ("setup", {"name": "board", "size": 99}, "2 to 16"),
        ("setup", {"name": "board", "width": 4}, "does not know width"),
        ("setup", {"name": "board", "board": "2 4"}, "not valid JSON"),
        ("setup", {"name": "board", "board": [2, 4]}, "rows of numbers"),
        ("evaluate", {"name": "max_number"}, "needs a target"),
        ("evaluate", {"name": "max_number", "target": 2}, "from 4 on"),
        ("evaluate", {"name": "efficiency", "min_ratio": 0}, "above 0"),
        ("evaluate", {"name": "efficiency", "min_ratio": "x"}, "above 0"),
        ("move", {}, "one of left, right, up, down"),
        ("move", {"direction": "north"}, "one of left, right, up, down, not 'north'"),
        ("move", {"direction": "left", "steps": 2}, "does not know steps"),
    ],
)
def test_unfit_arguments_are_errors_that_say_what_is_expected(tool, arguments, message):
    table = GameTable(1)
    before = table.game.state()
    answer = table.call(tool, arguments)
    assert answer["is_error"]
    assert message in answer["text"]
    assert table.game.state() == before


def test_rewards():
    table = GameTable(1)
    board = [[2, 2], [0, 0]]
    table.call("setup", {"name": "board", "board": board, "seed": 1})
    assert table.call("evaluate", {"name": "efficiency"})["structured"]["reward"] == 0
    table.call("move", {"direction": "left"})
    half = table.call("evaluate", {"name": "efficiency", "min_ratio": 8})["structured"]
    assert (half["reward"], half["done"]) == (0.5, False)
    full = table.call("evaluate", {"name": "max_number", "target": 4})["structured"]
    assert (full["reward"], full["done"]) == (1.0, True)
    assert full["info"]["highest_tile"] == 4
    assert json.loads(table.call("evaluate", {"name": "max_number", "target": 4})["text"]) == full


def test_hidden_functions_are_callable_and_not_listed():
    listed = {tool["name"] for tool in TOOLS}
    for name in ("int_board", "int_max_number", "int_efficiency"):
        assert name not in listed
        assert GameTable(1).call(name, {"target": 8} if "max" in name else {}) is not None
    assert GameTable(1).call("board", {}) is None
    assert GameTable(1).call("int_move", {}) is None


def test_main_prints_its_usage():
    done = subprocess.run(
        [*COMMAND, "--help"], capture_output=True, text=True, env={**os.environ, "COLUMNS": "100"}
    )
    assert done.returncode == 0
    assert "8765" in done.stdout
