"""Answers that are none, and sessions that are lost: the call that waits learns of it at once, with
the server's words."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from hudtui.core.environment import stdio
from hudtui.core.environment.calls import is_answer, is_noise, mended
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
    return (
        f'{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[{{"type":"text","text":"{text}"}}]}}}}'
    )


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
        (
            '{"jsonrpc":"2.0","id":$ID,"error":{"code":"EFAIL","message":"quota exceeded"}}',
            "quota exceeded",
        ),
        ('{"jsonrpc":"2.0","id":$ID,"error":{"code":null,"message":"no disk"}}', "no disk"),
        ('{"jsonrpc":"2.0","id":$ID,"error":"plain words"}', "plain words"),
        ('{"jsonrpc":"2.0","id":$ID,"error":{"code":-1}}', "-1"),
        (
            '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what was that"}}',
            "what was that",
        ),
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
        ('{"detail":"quota exceeded","id":$ID}', "quota exceeded"),
        ('{"ok":false,"id":$ID}', "false"),
        ("{'jsonrpc': '2.0', 'id': $ID, 'result': {}}", "result"),
        ("<html><title>502</title></html>", "502"),
        ("<!DOCTYPE HTML>", "DOCTYPE"),
        ("\x1f\udc8bbytes", "bytes"),
    ],
)
async def test_an_answer_that_cannot_be_read_fails_its_call_with_the_servers_words(odd, sent, said):
    async with connect(command(*odd("raw", sent))) as session:
        error = await fault_of(session)
    assert (
        error.what
        == "the server 'command' gave an answer to tools/call good that is not of the protocol"
    )
    assert said in error.why


async def test_an_answer_that_cannot_be_read_fails_the_call_that_it_is_for_and_no_other(odd):
    async with connect(
        command(*odd("raw", '{"jsonrpc":"2.0","id":$ID,"error":{"code":"E","message":"call $ID"}}'))
    ) as session:
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
    async with connect(
        command(*odd("raw", '{"jsonrpc":"2.0","id":"$ID","result":{"content":[]}}'))
    ) as session:
        assert not (await session.call_tool("good", {}, timeout=LIMIT)).is_error


@pytest.mark.parametrize(
    ("mode", "what", "why"),
    [
        ("leaves_a_child", "ended with exit code 7", "out of tiles"),
        ("closes_input", "broke off the connection", ""),
    ],
)
async def test_a_server_that_is_gone_is_known_though_its_output_is_open(odd, mode, what, why):
    async with connect(command(*odd(mode))) as session:
        for _ in range(2):
            error = await fault_of(session)
            assert what in error.what and why in (error.why or "")


async def test_a_child_that_serves_in_the_place_of_its_parent_is_waited_for(odd):
    async with connect(command(*odd("follows"))) as session:
        for number in range(3):
            assert (
                f'"x": {number}'
                in (await session.call_tool("good", {"x": number}, timeout=LIMIT)).text
            )
            await asyncio.sleep(3 * stdio.SILENCE)


async def test_a_session_in_which_nothing_happens_wakes_nobody(odd, monkeypatch):
    async with connect(command(*odd("follows"))) as session:
        await session.call_tool("good", {}, timeout=LIMIT)
        await asyncio.sleep(3 * stdio.SILENCE)
        loop, timers = asyncio.get_running_loop(), []
        monkeypatch.setattr(
            loop,
            "call_at",
            lambda *given, _=loop.call_at, **more: timers.append(given) or _(*given, **more),
        )
        await asyncio.sleep(3 * stdio.SILENCE)
        assert len(timers) == 1, "that of the sleep alone"


async def test_a_whole_answer_counts_without_the_end_of_its_line(odd):
    async with connect(command(*odd("unended"))) as session:
        for _ in range(2):
            assert not (await session.call_tool("good", {}, timeout=LIMIT)).is_error


async def test_other_text_is_told_where_no_answer_comes(odd):
    async with connect(command(*odd("raw", "Error: quota exceeded"))) as session:
        with pytest.raises(ConnectError) as caught:
            await session.call_tool("good", {}, timeout=0.5)
    assert "gave no answer" in caught.value.what and "Error: quota exceeded" in caught.value.why


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("MCP error -32001: Session not found", "has ended the session"),
        ("McpError: MCP error 503: busy", "cannot answer"),
        ("MCP error -32602: x must be small", None),
        ("Session not found", None),
    ],
)
async def test_an_error_that_a_proxy_passes_on_as_a_result_is_what_it_says(odd, text, words):
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": "$",
            "result": {"content": [{"type": "text", "text": text}], "isError": True},
        }
    )
    async with connect(command(*odd("raw", body.replace('"$"', "$ID")))) as session:
        if words is None:
            assert (await session.call_tool("good", {}, timeout=LIMIT)).is_error
        else:
            assert words in (await fault_of(session)).what


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
    assert answer.internal is (code == -32603)


async def test_an_internal_error_that_a_proxy_passes_on_is_one(odd):
    content = [{"type": "text", "text": "MCP error -32603: division by zero"}]
    body = json.dumps(
        {"jsonrpc": "2.0", "id": "$", "result": {"content": content, "isError": True}}
    )
    async with connect(command(*odd("raw", body.replace('"$"', "$ID")))) as session:
        answer = await session.call_tool("good", {}, timeout=LIMIT)
    assert answer.is_error and answer.internal


@pytest.mark.parametrize(
    "text",
    [
        "Unknown tool: good",
        "MCP error -32602: Tool good not found",
        "Tool 'good' not found.",
        "No such tool: good",
    ],
)
async def test_a_listed_tool_that_is_unknown_is_a_swapped_server(odd, text):
    async with connect(command(*odd("rpc_error", json.dumps([-32602, text])))) as session:
        error = await fault_of(session)
        assert "no longer has the tool good" in error.what
        assert (await session.call_tool("unlisted", {}, timeout=LIMIT)).is_error
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": "$",
            "result": {"content": [{"type": "text", "text": text}], "isError": True},
        }
    )
    async with connect(command(*odd("raw", body.replace('"$"', "$ID")))) as session:
        assert "no longer has the tool good" in (await fault_of(session)).what


# Over HTTP.


class World:
    """A small server over HTTP; `on_call` writes the response to a tool call, or gives the
    message's text."""

    def __init__(self, http_reply, on_call, *, session="s1", form="json"):
        self.reply, self.on_call, self.session, self.form = http_reply, on_call, session, form
        self.calls = 0
        self.stream = None

    def answered(self, ident, text="fine"):
        return json.dumps(
            {"jsonrpc": "2.0", "id": ident, "result": {"content": [{"type": "text", "text": text}]}}
        )

    async def __call__(self, method, path, headers, body, writer):
        if method == "GET" and path.endswith("/sse"):
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: endpoint\ndata: "
                b"/post\n\n"
            )
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
            about = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"},
            }
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
            writer.write(
                self.reply(
                    "200 OK",
                    b"event: message\ndata: " + data + b"\n\n",
                    "text/event-stream",
                    **more,
                )
            )
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
    ("text", "read"),
    [
        ("half \\ud83d", "half �"),
        ("a\udcff", "a�"),
        ("pair \\ud83d\\ude00", "pair \N{GRINNING FACE}"),
    ],
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
        (
            '{"jsonrpc":"2.0","id":$ID,"error":{"code":"EFAIL","message":"quota exceeded"}}',
            "quota exceeded",
        ),
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
        (
            "504 Gateway Timeout",
            "<html><title>504</title></html>",
            "text/html",
            "504: the server at",
        ),
        ("401 Unauthorized", "", "text/plain", "wants credentials"),
        (
            "421 Misdirected Request",
            "Invalid Host header",
            "text/plain",
            "does not take requests for this host name",
        ),
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
        (
            "s1",
            '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"Bad Request: No valid '
            'session ID provided"}}',
            LOST,
        ),
        (
            "s1",
            '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown session"}}',
            LOST,
        ),
        ("s1", "who are you?", LOST),
        (None, "who are you?", "400: "),
    ],
)
async def test_a_bad_request_in_a_session_is_its_end(world, session_id, body, words):
    async def call(here, message, headers, writer):
        writer.write(
            here.reply(
                "400 Bad Request",
                body,
                "application/json" if body.startswith("{") else "text/plain",
            )
        )

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
        assert [(await session.call_tool("good", {}, timeout=LIMIT)).text for _ in range(3)] == [
            "call 1",
            "call 2",
            "call 3",
        ]


@pytest.mark.parametrize("form", ["json", "events", "sse"])
@pytest.mark.parametrize(
    ("status", "headers"),
    [
        ("429 Too Many Requests", {"retry_after": "1"}),
        ("429 Too Many Requests", {}),
        ("502 Bad Gateway", {}),
        ("503 Busy", {}),
    ],
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
        writer.write(
            here.reply(
                "429 Too Many Requests",
                "slow down",
                "text/plain",
                **({"retry_after": wait} if wait else {}),
            )
        )

    async with world(call, form=form) as session:
        error = await fault_of(session)
        assert (
            session.world.calls == asked
        )  # not at all where it asks for more time than the call has
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


GZIP = {"content_encoding": "gzip"}
NOTICE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'


@pytest.mark.parametrize(
    ("status", "body", "kind", "more", "words"),
    [
        ("202 Accepted", "", "application/json", {}, "answers nothing, not MCP"),
        ("204 No Content", "", "application/json", {}, "answers nothing, not MCP"),
        ("206 Partial Content", '{"jsonrpc":', "application/json", {}, "is not of the protocol"),
        ("200 OK", NOTICE, "application/json", {}, "is not of the protocol"),
        (
            "200 OK",
            '{"jsonrpc":"2.0","id":1,"method":"ping"}',
            "application/json",
            {},
            "is not of the protocol",
        ),
        (
            "302 Found",
            "",
            "text/html",
            {"location": "https://login.example.com/"},
            "redirects elsewhere (302)",
        ),
        ("307 Temporary", "", "text/html", {"location": "/login"}, "redirects elsewhere (307)"),
        (
            "200 OK",
            "event: error\ndata: no more tiles\n\n",
            "text/event-stream",
            {"open": 1},
            "is not of the protocol",
        ),
        (
            "200 OK",
            '{"jsonrpc":"2.0","error":"raw"}\n',
            "text/event-stream",
            {"open": 1},
            "is not of the protocol",
        ),
        (
            "200 OK",
            "<html>Log in</html>\n",
            "text/event-stream",
            {"open": 1},
            "is not of the protocol",
        ),
        (
            "200 OK",
            "event: answer\ndata: " + NOTICE.replace("method", "result") + "\n\n",
            "text/event-stream",
            {"open": 1},
            "is not",
        ),
        ("200 OK", "id: 7\ndata: \n\n", "text/event-stream", {}, "broke off its answer"),
        ("500 Oops", "x", "text/plain", {"open": 1}, "500: "),
    ],
)
async def test_responses_that_hold_no_answer_are_known_at_once(
    world, status, body, kind, more, words
):
    async def call(here, message, headers, writer):
        given = dict(more)
        reply = here.reply(status, body, kind, **({} if given.pop("open", 0) else given))
        if "open" in more:  # more is announced, and nothing follows
            head, _, rest = reply.partition(b"\r\n\r\n")
            writer.write(
                head.replace(f"length: {len(rest)}".encode(), b"length: 9999") + b"\r\n\r\n" + rest
            )
            await writer.drain()
            await asyncio.sleep(3600)
        writer.write(reply)

    async with world(call) as session:
        assert words in (await fault_of(session)).what


async def test_a_whole_answer_counts_whatever_length_was_announced(world):
    async def call(here, message, headers, writer):
        data = here.answered(message["id"]).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9999\r\n\r\n"
            + data
        )
        await writer.drain()
        await asyncio.sleep(3600)

    async with world(call) as session:
        assert (await session.call_tool("good", {}, timeout=LIMIT)).text == "fine"


@pytest.mark.parametrize(
    ("status", "body", "more", "words"),
    [
        ("200 OK", '{"error":"quota exceeded"}', {}, "is not of the protocol"),
        ("200 OK", '{"detail":"quota exceeded"}', {}, "is not of the protocol"),
        (
            "200 OK",
            '{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"Session not found"}}',
            {},
            LOST,
        ),
        (
            "200 OK",
            '{"jsonrpc":"2.0","id":3,"result":{"content":[]}}',
            {},
            "is not of the protocol",
        ),
        ("200 OK", "\x1f\x00", {}, "is not of the protocol"),
        ("200 OK", "\x1f\x00", GZIP, "compresses its answer"),
        ("307 Temporary", "", {"location": "/login"}, "redirects elsewhere (307)"),
        ("302 Found", "", {"location": "https://login.example.com/"}, "redirects elsewhere (302)"),
    ],
)
async def test_what_a_message_over_sse_is_answered_with_in_its_response(
    world, status, body, more, words
):
    async def call(here, message, headers, writer):
        writer.write(
            here.reply(
                status, body.replace('"id":3', f'"id":{message["id"]}'), "application/json", **more
            )
        )

    async with world(call, form="sse") as session:
        assert words in (await fault_of(session)).what


@pytest.mark.parametrize("form", ["json", "sse"])
async def test_a_redirect_to_a_login_on_the_same_host(odd_http, http_reply, form):
    async def call(here, message, headers, writer):
        writer.write(here.reply("307 Temporary", "", "text/html", location="/login"))

    made = World(http_reply, call, form=form)

    async def serve(method, path, headers, body, writer):
        if path == "/login":
            writer.write(http_reply("200 OK", "<html>Log in</html>", "text/html"))
        else:
            await made(method, path, headers, body, writer)

    async with connect(
        parse_source(f"{await odd_http(serve)}/{'sse' if form == 'sse' else 'mcp'}")
    ) as session:
        assert "answers a web page" in (await fault_of(session)).what


@pytest.mark.parametrize(
    "cut", [b"content-length: 900\r\n\r\n{", b"transfer-encoding: chunked\r\n\r\nzz\r\n"]
)
async def test_a_response_over_sse_that_is_cut(world, cut):
    async def call(here, message, headers, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + cut)
        await writer.drain()
        writer.close()

    async with world(call, form="sse") as session:
        assert "broke off the connection" in (await fault_of(session)).what


@pytest.mark.parametrize(
    "sent",
    [b"event: error\ndata: no tiles\n\n", b"<html>no tiles</html>\n", b"Server Error: no tiles\n"],
)
async def test_what_is_no_event_of_a_stream_is_told(world, sent):
    async def call(here, message, headers, writer):
        here.stream.write(sent)
        writer.write(here.reply("202 Accepted"))

    async with world(call, form="sse") as session:
        error = await fault_of(session)
    assert "is not of the protocol" in error.what and "no tiles" in error.why


@pytest.mark.parametrize("body", ["{}", '{"ok":true}', '"Accepted"', "null", "", '{"error":null}'])
async def test_what_a_server_confirms_a_message_over_sse_with_is_no_fault(world, body):
    async def call(here, message, headers, writer):
        writer.write(here.reply("200 OK", body, "application/json"))
        here.stream.write(b"event: ping\ndata: 1\n\ncustom: field\n: comment\n\n")
        here.stream.write(f"event: message\ndata: {here.answered(message['id'])}\n\n".encode())

    async with world(call, form="sse") as session:
        for _ in range(3):
            assert (await session.call_tool("good", {}, timeout=LIMIT)).text == "fine"


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
        assert (
            "Invalid " in caught.value.why
            and "allowed_hosts" in caught.value.fix
            and url[7:] in caught.value.fix
        )


def test_a_line_of_a_log_is_no_answer():
    for line in (
        b"Loading layer 3",
        b'{"level": "info"}',
        b"{'a': 1}",
        b"[INFO] ready",
        b"null",
        b"",
        b'{"msg": "result: 3"}',
    ):
        assert not is_answer(line) and not is_noise(line), line
    assert mended("ä \N{GRINNING FACE}".encode()) == "ä \N{GRINNING FACE}".encode()
