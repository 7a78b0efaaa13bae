"""What a server says is believed up to a size: bytes, values, tools, and questions in front of an
answer."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
from itertools import pairwise

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.environment import bounds, connection
from hudtui.core.environment.client import connect
from hudtui.core.environment.source import parse_source
from hudtui.core.errors import ConnectError


def command(*words):
    return parse_source(None, words)


JSON = st.recursive(
    st.none() | st.integers() | st.text('ab"\\,{[\r\n', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text('a"\\,[', max_size=3), inner, max_size=4)
    ),
    max_leaves=20,
)


def streamed(chunks, most, *, events):
    """What passes a limit, and the words for what does not."""
    told = []

    async def source():
        for chunk in chunks:
            yield chunk

    async def read():
        limited = bounds.limit_stream(source(), most, events=events, tell=told.append)
        try:
            return b"".join([data async for data in limited])
        except httpx2.StreamError:
            return None

    return asyncio.run(read()), told


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.lists(st.integers(0, 400), max_size=6),
    st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r"]),
)
def test_each_event_is_a_message_of_its_own_wherever_the_data_is_cut(sizes, cuts, end):
    events = [b"data: " + b"x" * size + end for size in sizes]
    data = b"".join(events)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    chunks = [data[first:last] for first, last in pairwise(places)]
    longest = max(map(len, events))
    # Bytes of the next event that come in one piece with an end do not count for the event before
    # it.
    assert streamed(chunks, longest, events=True) == (data, [])
    passed, told = streamed(
        [data[at : at + 1] for at in range(len(data))], longest - len(end) - 1, events=True
    )
    assert passed is None and told == ["more than 0 MiB in one message"]
    assert streamed(chunks, len(data), events=False)[0] == data
    assert streamed(chunks, len(data) - 1, events=False)[0] is None


@given(JSON)
def test_no_value_of_a_json_text_is_missed(value):
    def parts(inner):
        below = (
            inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ()
        )
        return 1 + sum(map(parts, below))

    assert bounds.count_values(json.dumps(value).encode()) >= parts(value) - 1


async def test_a_started_server_that_sends_too_many_values(odd):
    async with connect(command(*odd("values", 900_000))) as session:
        assert len((await session.call_tool("good", {})).structured["a"]) == 900_000
        with pytest.raises(ConnectError) as caught:
            async with connect(command(*odd("values", 1_100_000))) as other:
                await other.call_tool("good", {})
    assert "sends more than hudtui accepts" in caught.value.what
    assert caught.value.why == "It sent more than 2,000,000 values in one message."


async def test_a_line_without_end(odd, monkeypatch):
    monkeypatch.setattr("hudtui.core.environment.stdio.MAX_MESSAGE_BYTES", 4 << 20)
    async with connect(command(*odd("big", 5 << 20))) as session:
        with pytest.raises(ConnectError) as caught:
            await session.call_tool("good", {})
    assert caught.value.why == "It sent more than 4 MiB in one message."


def answering(http_reply, result, form):
    """A handler that shakes hands, and answers calls with this result."""

    async def handler(method, path, headers, body, writer):
        message = json.loads(body or b"{}")
        if method != "POST" or "id" not in message:
            writer.write(
                http_reply("405 Method Not Allowed" if method != "POST" else "202 Accepted")
            )
            return
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "serverInfo": {"name": "x", "version": "1"},
        }
        answer = about if message["method"] == "initialize" else result
        data = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}).encode()
        if form == "events" and message["method"] != "initialize":
            writer.write(
                http_reply(
                    "200 OK", b"event: message\ndata: " + data + b"\n\n", "text/event-stream"
                )
            )
        elif form == "packed" and message["method"] != "initialize":
            writer.write(http_reply("200 OK", gzip.compress(data), content_encoding="gzip"))
        else:
            writer.write(http_reply("200 OK", data))

    return handler


@pytest.mark.parametrize(
    ("sent", "words"),
    [("x" * (5 << 20), "4 MiB"), ([{}] * 20_000, "30,000 values")],
    ids=["bytes", "values"],
)
@pytest.mark.parametrize("form", ["json", "events"])
async def test_an_answer_over_http_that_is_too_large(
    odd_http, http_reply, monkeypatch, form, sent, words
):
    monkeypatch.setattr(connection, "MAX_MESSAGE_BYTES", 4 << 20)
    monkeypatch.setattr(bounds, "MAX_MESSAGE_VALUES", 30_000)
    url = await odd_http(
        answering(http_reply, {"content": [], "structuredContent": {"a": sent}}, form)
    )
    async with connect(parse_source(f"{url}/mcp")) as session:
        with pytest.raises(ConnectError) as caught:
            await session.call_tool("good", {}, timeout=20)
    assert "sends more than hudtui accepts" in caught.value.what
    assert caught.value.why == f"It sent more than {words} in one message."


async def test_an_answer_that_is_packed_unasked(odd_http, http_reply):
    url = await odd_http(answering(http_reply, {"content": []}, "packed"))
    with pytest.raises(ConnectError, match="compresses its answer"):
        async with connect(parse_source(f"{url}/mcp")) as session:
            await session.call_tool("good", {}, timeout=20)


async def test_more_tools_than_are_taken(odd, monkeypatch):
    monkeypatch.setattr(connection, "MAX_LISTED", 50)
    async with connect(command(*odd("many", 60))) as session:
        assert len(session.tools) == 50
        assert session.warnings == [
            "the server lists too many tools: the first 50 are used, the others left out"
        ]


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
        "    writer.write(b'event: endpoint\\ndata: "
        "http://other/\\x1b]0;title\\x07\\x1b[2J\\n\\n')\n"
        "    await writer.drain()\n"
        "    writer.close()\n"
        "async def main():\n"
        "    server = await asyncio.start_server(serve, '127.0.0.1', 0)\n"
        "    print(server.sockets[0].getsockname()[1], flush=True)\n"
        "    await server.serve_forever()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            port = int(server.stdout.readline())
            words = ["env", "analyze", "--sse", f"http://127.0.0.1:{port}/sse", "--timeout", "6"]
            done = subprocess.run(
                [sys.executable, "-m", "hudtui", *words],
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
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
        "def command():\n    def run(**_):\n        raise RuntimeError('\\x1b[2J')\n    return "
        "run\n"
        "app.command = command\nsys.argv = ['hudtui', 'x']\nhudtui.cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "RuntimeError: "
