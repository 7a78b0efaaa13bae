"""Answers that are none, and sessions that are lost: the call that waits learns of it at once, with the server's words."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from hudtui.core.environment.calls import is_answer, mended
from hudtui.core.environment.client import connect
from hudtui.core.environment.source import parse_source
from hudtui.core.errors import ConnectError

LIMIT = 60.0
"""Seconds that a call may take here; a fault is known long before."""
SOON = 15.0
"""Seconds within which a fault is known on a machine under load."""


def command(*words):
    return parse_source(None, words)


async def fault_of(session, tool="good", **arguments):
    """The error of a call, which comes long before the call's limit."""
    began = time.monotonic()
    with pytest.raises(ConnectError) as caught:
        await session.call_tool(tool, arguments, timeout=LIMIT)
    assert time.monotonic() - began < SOON
    return caught.value


def result(text):
    return f'{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}'


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (result("half \\ud83d emoji"), "half � emoji"),
        (result("\\ude00\\ud83d"), "��"),
        (result("whole \\ud83d\\ude00 emoji"), "whole \N{GRINNING FACE} emoji"),
        (result("\\\\ud83d is text"), "\\ud83d is text"),
        (result("\\\\\\ud83d"), "\\�"),
        (result("a\udcffb"), "a�b"),
        (result("\udced\udca0\udcbd"), "���"),
        ("\N{ZERO WIDTH NO-BREAK SPACE}" + result("marked"), "marked"),
    ],
)
async def test_bad_bytes_and_halves_of_pairs_become_replacement_marks(odd, sent, read):
    async with connect(command(*odd("raw", sent))) as session:
        answer = await session.call_tool("good", {}, timeout=LIMIT)
        assert (answer.text, answer.is_error) == (read, False)
        answer.text.encode()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ('{"jsonrpc":"2.0","id":$ID,"error":{"code":"EFAIL","message":"quota exceeded"}}', "quota exceeded"),
        ('{"jsonrpc":"2.0","id":$ID,"error":{"code":null,"message":"no disk"}}', "no disk"),
        ('{"jsonrpc":"2.0","id":$ID,"error":"plain words"}', "plain words"),
        ('{"jsonrpc":"2.0","id":$ID,"error":{"code":-1}}', "-1"),
        ('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what was that"}}', "what was that"),
        ('{"jsonrpc":"2.0","error":{"code":-32700,"message":"without id"}}', "without id"),
        ('{"jsonrpc":"2.0","id":$ID,"result":"a text"}', "a text"),
        ('{"jsonrpc":"2.0","id":$ID,"result":null}', "null"),
        ('{"jsonrpc":"2.0","id":$ID}', "id"),
        ('{"jsonrpc":"1.0","id":$ID,"result":{"content":[]}}', "1.0"),
        ('{"id":$ID,"result":{"content":[]}}', "content"),
        ('{"jsonrpc":"2.0","id":[$ID],"result":{"content":[]}}', "content"),
        ('{"jsonrpc":"2.0","id":$ID,"result":{"content":[', "content"),
        ('{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"a\tb"}]}}', "text"),
        ('loading {"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}', "loading"),
        ('[{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}]', "content"),
    ],
)
async def test_an_answer_that_cannot_be_read_fails_its_call_with_the_servers_words(odd, sent, said):
    async with connect(command(*odd("raw", sent))) as session:
        error = await fault_of(session)
    assert error.what == "the server 'command' gave an answer to tools/call good that is not of the protocol"
    assert said in error.why


async def test_an_answer_that_cannot_be_read_fails_the_call_that_it_is_for_and_no_other(odd):
    async with connect(command(*odd("raw", '{"jsonrpc":"2.0","id":$ID,"error":{"code":"E","message":"call $ID"}}'))) as session:
        errors = await asyncio.gather(*(fault_of(session) for _ in range(3)))
    assert len({error.why for error in errors}) == 3


@pytest.mark.parametrize("number", ["7777", '"x"', "-1", "$LAST"])
async def test_an_answer_to_another_call_fails_the_call_that_waits(odd, number):
    sent = f'{{"jsonrpc":"2.0","id":{number},"result":{{"content":[]}}}}'
    async with connect(command(*odd("raw", sent))) as session:
        error = await fault_of(session)
    assert "answered another call than tools/call good" in error.what


async def test_an_answer_that_comes_twice_costs_nothing(odd):
    async with connect(command(*odd("raw", f"{result('once')}\n{result('twice')}"))) as session:
        for _ in range(5):
            assert (await session.call_tool("good", {}, timeout=LIMIT)).text == "once"


async def test_an_id_that_comes_back_as_text_is_the_same_id(odd):
    async with connect(command(*odd("raw", '{"jsonrpc":"2.0","id":"$ID","result":{"content":[]}}'))) as session:
        assert not (await session.call_tool("good", {}, timeout=LIMIT)).is_error


LOST = "has ended the session"
CANNOT = "cannot answer"


@pytest.mark.parametrize(
    ("code", "message", "words"),
    [
        (-32001, "Session not found", LOST),
        (-32001, "gone", LOST),
        (-32600, "Session expired", LOST),
        (-32600, "Not Found: Session has been terminated", LOST),
        (-32600, "Missing session ID", LOST),
        (-32000, "Bad Request: No valid session ID provided", LOST),
        (-32000, "Bad Request: Server not initialized", LOST),
        (-32002, "Received request before initialization was complete", LOST),
        (-32602, "Invalid request parameters", LOST),
        (-32603, "unknown sessionId", LOST),
        (404, "Unknown Mcp-Session-Id", LOST),
        (-32000, "Connection closed", CANNOT),
        (-32000, "upstream MCP server is not connected", CANNOT),
        (-32601, "Method not found", CANNOT),
        (-32700, "Parse error", CANNOT),
        (503, "try again", CANNOT),
        (429, "slow down", CANNOT),
        (-32005, "Too Many Requests", CANNOT),
    ],
)
async def test_errors_about_the_connection_are_faults(odd, code, message, words):
    async with connect(command(*odd("rpc_error", json.dumps([code, message])))) as session:
        error = await fault_of(session)
    assert words in error.what and message in error.why


@pytest.mark.parametrize(
    ("code", "message", "arguments"),
    [
        (-32602, "x must be small", {}),
        (-32603, "division by zero", {}),
        (-32000, "no such board", {}),
        (-32602, "there is no session s-7", {"session": "s-7"}),
        (-32603, "connection refused by example.org", {}),
        (1, "odd", {}),
    ],
)
async def test_errors_about_what_was_asked_go_to_the_agent(odd, code, message, arguments):
    async with connect(command(*odd("rpc_error", json.dumps([code, message])))) as session:
        answer = await session.call_tool("good", arguments, timeout=LIMIT)
    assert (answer.is_error, answer.text) == (True, message)


@pytest.mark.parametrize(
    "text", ["Unknown tool: good", "MCP error -32602: Tool good not found", "Tool 'good' not found.", "No such tool: good"]
)
async def test_a_listed_tool_that_is_unknown_is_a_swapped_server(odd, text):
    async with connect(command(*odd("rpc_error", json.dumps([-32602, text])))) as session:
        error = await fault_of(session)
        assert "no longer has the tool good" in error.what
        assert (await session.call_tool("unlisted", {}, timeout=LIMIT)).is_error
    body = json.dumps({"jsonrpc": "2.0", "id": "$", "result": {"content": [{"type": "text", "text": text}], "isError": True}})
    async with connect(command(*odd("raw", body.replace('"$"', "$ID")))) as session:
        assert "no longer has the tool good" in (await fault_of(session)).what


# Over HTTP.


class World:
    """A small server over HTTP; `on_call` writes the response to a tool call, or gives the message's text."""

    def __init__(self, http_reply, on_call, *, session="s1", form="json"):
        self.reply, self.on_call, self.session, self.form = http_reply, on_call, session, form
        self.calls = 0
        self.stream = None

    def answered(self, ident, text="fine"):
        return json.dumps({"jsonrpc": "2.0", "id": ident, "result": {"content": [{"type": "text", "text": text}]}})

    async def __call__(self, method, path, headers, body, writer):
        if method == "GET" and path.endswith("/sse"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: endpoint\ndata: /post\n\n")
            await writer.drain()
            self.stream = writer
            await asyncio.sleep(3600)
        if method != "POST":
            writer.write(self.reply("405 Method Not Allowed"))
            return
        message = json.loads(body)
        if "id" not in message:
            writer.write(self.reply("202 Accepted"))
        elif message["method"] == "tools/call":
            self.calls += 1
            await self.on_call(self, message, headers, writer)
        else:
            about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
            tools = {"tools": [{"name": "good", "inputSchema": {"type": "object"}}]}
            found = about if message["method"] == "initialize" else tools
            self.write(writer, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": found}))

    def write(self, writer, data):
        """Send a message in the form of this transport."""
        data = data.encode("utf-8", "surrogateescape")
        more = {"mcp_session_id": self.session} if self.session else {}
        if self.form == "sse":
            self.stream.write(b"event: message\ndata: " + data + b"\n\n")
            writer.write(self.reply("202 Accepted"))
        elif self.form == "events":
            writer.write(self.reply("200 OK", b"event: message\ndata: " + data + b"\n\n", "text/event-stream", **more))
        else:
            writer.write(self.reply("200 OK", data, **more))


@pytest.fixture
def world(odd_http, http_reply):
    """`async with world(on_call, form=...) as session`: a session with a server over HTTP."""
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def serve(on_call, **options):
        made = World(http_reply, on_call, **options)
        path = "sse" if made.form == "sse" else "mcp"
        async with connect(parse_source(f"{await odd_http(made)}/{path}")) as session:
            session.world = made
            yield session

    return serve


FORMS = pytest.mark.parametrize("form", ["json", "events", "sse"])


@FORMS
@pytest.mark.parametrize(
    ("text", "read"), [("half \\ud83d", "half �"), ("a\udcff", "a�"), ("pair \\ud83d\\ude00", "pair \N{GRINNING FACE}")]
)
async def test_bad_texts_over_http(world, form, text, read):
    async def call(here, message, headers, writer):
        here.write(writer, result(text).replace("$ID", str(message["id"])))

    async with world(call, form=form) as session:
        assert (await session.call_tool("good", {}, timeout=LIMIT)).text == read


@FORMS
@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ('{"jsonrpc":"2.0","id":$ID,"error":{"code":"EFAIL","message":"quota exceeded"}}', "quota exceeded"),
        ('{"jsonrpc":"2.0","id":$ID,"result":[]}', "result"),
        ("these are words", "these are words"),
    ],
)
async def test_answers_over_http_that_cannot_be_read(world, form, sent, said):
    async def call(here, message, headers, writer):
        here.write(writer, sent.replace("$ID", str(message["id"])))

    async with world(call, form=form) as session:
        error = await fault_of(session)
    assert "gave an answer to tools/call good that is not of the protocol" in error.what
    assert said in error.why


@FORMS
async def test_an_answer_to_another_call_over_http(world, form):
    async def call(here, message, headers, writer):
        here.write(writer, here.answered(message["id"] + 100))

    async with world(call, form=form) as session:
        assert "answered another call" in (await fault_of(session)).what


@pytest.mark.parametrize("form", ["json", "sse"])
@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (
            "404 Not Found",
            '{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"Session not found"}}',
            "application/json",
            LOST,
        ),
        ("404 Not Found", "Could not find session", "text/plain", LOST),
        ("404 Not Found", "<html><title>Not here</title></html>", "text/html", LOST),
        (
            "500 Oops",
            '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"it broke"}}',
            "application/json",
            "500: the server at",
        ),
        ("504 Gateway Timeout", "<html><title>504</title></html>", "text/html", "504: the server at"),
        ("401 Unauthorized", "", "text/plain", "wants credentials"),
        ("421 Misdirected Request", "Invalid Host header", "text/plain", "does not take requests for this host name"),
        ("200 OK", "<html>Log in</html>", "text/html", "answers a web page"),
    ],
)
async def test_http_errors_in_a_call_are_faults(world, form, status, body, kind, words):
    async def call(here, message, headers, writer):
        writer.write(here.reply(status, body, kind))

    async with world(call, form=form) as session:
        assert words in (await fault_of(session)).what


@pytest.mark.parametrize(
    ("session_id", "body", "words"),
    [
        ("s1", '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}', LOST),
        ("s1", '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown session"}}', LOST),
        ("s1", "who are you?", LOST),
        (None, "who are you?", "400: "),
    ],
)
async def test_a_bad_request_in_a_session_is_its_end(world, session_id, body, words):
    async def call(here, message, headers, writer):
        writer.write(here.reply("400 Bad Request", body, "application/json" if body.startswith("{") else "text/plain"))

    async with world(call, session=session_id) as session:
        assert words in (await fault_of(session)).what


async def test_an_answer_in_another_session_is_a_restarted_server(world):
    async def call(here, message, headers, writer):
        assert headers["mcp-session-id"] == "s1"
        here.session = "s2"
        here.write(writer, here.answered(message["id"]))

    async with world(call) as session:
        error = await fault_of(session)
    assert LOST in error.what and error.why == "It answered in another session."


@pytest.mark.parametrize("form", ["json", "events"])
@pytest.mark.parametrize("session_id", [None, "varies"])
async def test_a_server_without_sessions_works(world, form, session_id):
    async def call(here, message, headers, writer):
        here.write(writer, here.answered(message["id"], f"call {here.calls}"))

    class Varies:
        number = 0

        def __str__(self):
            self.number += 1
            return f"id-{self.number}"

    async with world(call, form=form, session=Varies() if session_id else None) as session:
        assert [(await session.call_tool("good", {}, timeout=LIMIT)).text for _ in range(3)] == ["call 1", "call 2", "call 3"]


@pytest.mark.parametrize("form", ["json", "events", "sse"])
@pytest.mark.parametrize(
    ("status", "headers"),
    [("429 Too Many Requests", {"retry_after": "1"}), ("429 Too Many Requests", {}), ("502 Bad Gateway", {}), ("503 Busy", {})],
)
async def test_a_server_that_is_too_busy_is_asked_again(world, form, status, headers):
    async def call(here, message, _headers, writer):
        if here.calls % 2:
            writer.write(here.reply(status, "<html>Bad Gateway</html>", "text/html", **headers))
        else:
            here.write(writer, here.answered(message["id"], f"call {here.calls}"))

    async with world(call, form=form) as session:
        began = time.monotonic()
        assert (await session.call_tool("good", {}, timeout=LIMIT)).text == "call 2"
        assert time.monotonic() - began >= float(headers.get("retry_after", 0))


@pytest.mark.parametrize("form", ["json", "sse"])
@pytest.mark.parametrize(("wait", "asked"), [("3600", 1), (None, 4)])
async def test_a_server_that_stays_too_busy_is_said_to_be_so(world, form, wait, asked):
    async def call(here, message, headers, writer):
        writer.write(here.reply("429 Too Many Requests", "slow down", "text/plain", **({"retry_after": wait} if wait else {})))

    async with world(call, form=form) as session:
        error = await fault_of(session)
        assert session.world.calls == asked  # not at all where it asks for more time than the call has
    assert error.what.startswith("429: ") and error.why == "It says: slow down"


async def test_a_call_that_was_given_up_is_not_sent_again(world):
    async def call(here, message, headers, writer):
        writer.write(here.reply("429 Too Many Requests", retry_after="1"))

    async with world(call) as session:
        waiting = asyncio.create_task(session.call_tool("good", {}, timeout=LIMIT))
        async with asyncio.timeout(SOON):
            while not session.world.calls:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.sleep(1.5)
        assert session.world.calls == 1


async def test_a_stream_of_events_that_is_cut_in_a_call(world):
    async def call(here, message, headers, writer):
        here.stream.close()
        writer.write(here.reply("202 Accepted"))

    async with world(call, form="sse") as session:
        error = await fault_of(session)
    assert "broke" in error.what


async def test_the_host_header_trap_is_explained(odd_http, http_reply):
    for status, body, kind in (
        ("421 Misdirected Request", "Invalid Host header", "text/plain"),
        ("403 Forbidden", "Invalid Host header", "text/plain"),
        (
            "403 Forbidden",
            '{"jsonrpc":"2.0","error":{"code":-32000,"message":"Invalid Host: evil"},"id":null}',
            "application/json",
        ),
        ("403 Forbidden", "Invalid Origin header", "text/plain"),
    ):

        async def handler(method, path, headers, data, writer, *, answer=(status, body, kind)):
            writer.write(http_reply(*answer))

        url = await odd_http(handler)
        with pytest.raises(ConnectError) as caught:
            async with connect(parse_source(f"{url}/mcp")):
                pytest.fail("there should be no connection")
        assert "does not take requests for this host name" in caught.value.what
        assert "Invalid " in caught.value.why and "allowed_hosts" in caught.value.fix and url[7:] in caught.value.fix


def test_a_line_of_a_log_is_no_answer():
    for line in (b"Loading layer 3", b'{"level": "info"}', b"{'a': 1}", b"[INFO] ready", b"null", b"", b'{"msg": "result: 3"}'):
        assert not is_answer(line), line
    assert mended("ä \N{GRINNING FACE}".encode()) == "ä \N{GRINNING FACE}".encode()
