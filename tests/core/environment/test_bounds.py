"""What a server says is believed up to a size: bytes, values, tools, and questions in front of an answer."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from contextlib import nullcontext
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.environment import bounds, connection
from hudtui.core.environment.bounds import MessageSizeCounter, MessageTooLargeError
from hudtui.core.environment.client import connect
from hudtui.core.environment.source import parse_source
from hudtui.core.errors import ConnectError


def command(*words):
    return parse_source(None, words)


JSON = st.recursive(
    st.none() | st.integers() | st.text('ab"\\,{[\r\n', max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('a"\\,[', max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, st.lists(st.integers(0, 400), max_size=6), st.sampled_from([None, 1]))
def test_values_are_counted_whatever_is_in_texts_and_wherever_the_data_is_cut(value, cuts, indent):
    text = json.dumps(value, indent=indent).encode()
    marks = len(re.findall(rb"[{\[,]", re.sub(rb'"(?:[^"\\]|\\.)*"', b"", text)))
    for most in (marks, marks - 1):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(MessageTooLargeError) if most < marks else nullcontext():
            patch.setattr(bounds, "MAX_MESSAGE_VALUES", most)
            counted = MessageSizeCounter()
            for first, last in pairwise(sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})):
                counted.take(text[first:last])
            counted.take(b"\n")


def test_each_event_is_a_message_of_its_own(monkeypatch):
    monkeypatch.setattr(bounds, "MAX_MESSAGE_VALUES", 10)
    event = b'event: message\r\ndata: {"a": [1, 2, 3]}\r\n\r\n'
    counted = MessageSizeCounter(events=True)
    for _ in range(50):
        counted.take(event)
    with pytest.raises(MessageTooLargeError):
        counted.take(b"data: [1,2,3,\r\ndata: 4,5,6,\r\ndata: 7,8,9,10,11]\r\n\r\n")
    with pytest.raises(MessageTooLargeError):
        MessageSizeCounter(events=True).take(b': "\rdata: [{},{},{},{},{},{}]\n\n')


@pytest.fixture
def few_values(monkeypatch):
    monkeypatch.setattr(bounds, "MAX_MESSAGE_VALUES", 30_000)


async def test_a_started_server_that_sends_too_many_values(odd, few_values):
    async with connect(command(*odd("values", 10_000))) as session:
        assert len((await session.call_tool("good", {})).structured["a"]) == 10_000
    async with connect(command(*odd("values", 20_000))) as session:
        with pytest.raises(ConnectError) as caught:
            await session.call_tool("good", {})
    assert "sends more than hudtui accepts" in caught.value.what
    assert caught.value.why == "It sent more than 30,000 values in one message."


async def test_a_line_without_end(odd, monkeypatch):
    monkeypatch.setattr("hudtui.core.environment.stdio.MAX_MESSAGE_BYTES", 4 << 20)
    async with connect(command(*odd("big", 5 << 20))) as session:
        with pytest.raises(ConnectError) as caught:
            await session.call_tool("good", {})
    assert caught.value.why == "It sent more than 4 MiB in one line."


def answering(http_reply, result, form):
    """A handler that shakes hands, and answers calls with this result."""

    async def handler(method, path, headers, body, writer):
        message = json.loads(body or b"{}")
        if method != "POST" or "id" not in message:
            writer.write(http_reply("405 Method Not Allowed" if method != "POST" else "202 Accepted"))
            return
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
        answer = about if message["method"] == "initialize" else result
        data = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}).encode()
        if form == "events" and message["method"] != "initialize":
            writer.write(http_reply("200 OK", b"event: message\ndata: " + data + b"\n\n", "text/event-stream"))
        elif form == "packed" and message["method"] != "initialize":
            writer.write(http_reply("200 OK", gzip.compress(data), content_encoding="gzip"))
        else:
            writer.write(http_reply("200 OK", data))

    return handler


@pytest.mark.parametrize("form", ["json", "events"])
async def test_an_answer_over_http_with_too_many_values(odd_http, http_reply, few_values, form):
    url = await odd_http(answering(http_reply, {"content": [], "structuredContent": {"a": [{}] * 20_000}}, form))
    async with connect(parse_source(f"{url}/mcp")) as session:
        with pytest.raises(ConnectError) as caught:
            await session.call_tool("good", {}, timeout=20)
    assert "sends more than hudtui accepts" in caught.value.what
    assert caught.value.why == "It sent more than 30,000 values in one message."


async def test_an_answer_that_is_packed_unasked(odd_http, http_reply):
    url = await odd_http(answering(http_reply, {"content": []}, "packed"))
    with pytest.raises(ConnectError, match="compresses its answer"):
        async with connect(parse_source(f"{url}/mcp")) as session:
            await session.call_tool("good", {}, timeout=20)


async def test_more_tools_than_are_taken(odd, monkeypatch):
    monkeypatch.setattr(connection, "MAX_LISTED", 50)
    async with connect(command(*odd("many", 60))) as session:
        assert len(session.tools) == 50
        assert session.warnings == ["the server lists too many tools: the first 50 are used, the others left out"]


async def test_questions_in_front_of_an_answer(odd):
    async with connect(command(*odd("asks", bounds.MAX_SERVER_REQUESTS))) as session:
        assert not (await session.call_tool("good", {})).is_error
    async with connect(command(*odd("asks", bounds.MAX_SERVER_REQUESTS + 1))) as session:
        with pytest.raises(ConnectError) as caught:
            await session.call_tool("good", {})
    assert "sends requests without end" in caught.value.what


def test_no_word_of_a_server_reaches_the_terminal_as_it_is(tmp_path):
    """The endpoint that an event names goes into a log of the library, and its traceback."""
    script = tmp_path / "server.py"
    script.write_text(
        "import asyncio\n"
        "async def serve(reader, writer):\n"
        "    await reader.readuntil(b'\\r\\n\\r\\n')\n"
        "    writer.write(b'HTTP/1.1 200 OK\\r\\ncontent-type: text/event-stream\\r\\n\\r\\n')\n"
        "    writer.write(b'event: endpoint\\ndata: http://other/\\x1b]0;title\\x07\\x1b[2J\\n\\n')\n"
        "    await writer.drain()\n"
        "    writer.close()\n"
        "async def main():\n"
        "    server = await asyncio.start_server(serve, '127.0.0.1', 0)\n"
        "    print(server.sockets[0].getsockname()[1], flush=True)\n"
        "    await server.serve_forever()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline())
            words = ["env", "analyze", "--sse", f"http://127.0.0.1:{port}/sse", "--timeout", "6"]
            done = subprocess.run(
                [sys.executable, "-m", "hudtui", *words], capture_output=True, text=True, timeout=100, check=False
            )
        finally:
            server.kill()
    assert done.returncode == 3
    assert "\x1b" not in done.stderr + done.stdout
    assert "\x07" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_an_error_that_nobody_expected_is_cleaned(tmp_path):
    code = (
        "import sys, hudtui.cli.app as app, hudtui.cli\n"
        "def command():\n    def run(**_):\n        raise RuntimeError('\\x1b[2J')\n    return run\n"
        "app.command = command\nsys.argv = ['hudtui', 'x']\nhudtui.cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "RuntimeError: "
