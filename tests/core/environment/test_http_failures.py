"""What is said when something on the network is not the MCP server it should be."""

from __future__ import annotations

import asyncio
import inspect
import json
import time

import pytest
from mcp.client.streamable_http import streamable_http_client

from hudtui.core.environment.client import connect
from hudtui.core.environment.source import parse_source
from hudtui.core.errors import ConnectError

KEY = "sk-not-to-be-shown-1234"


async def refused(url, *, headers=None, lookup=None, **options):
    with pytest.raises(ConnectError) as caught:
        async with connect(
            parse_source(url, headers=headers, lookup=lookup or (lambda _: None)), **options
        ):
            pytest.fail("there should be no connection")
    assert KEY not in str(caught.value)
    return caught.value


def fixed(http_reply, *args, **headers):
    async def handler(method, path, given, body, writer):
        writer.write(http_reply(*args, **headers))

    return handler


async def test_nothing_listens():
    error = await refused("http://127.0.0.1:9/mcp")
    assert error.what == "nothing answers at http://127.0.0.1:9/mcp"
    assert error.exit_code == 3


async def test_an_unknown_host():
    error = await refused("http://no-such-host.invalid/mcp")
    assert error.what == "the host of http://no-such-host.invalid/mcp is unknown"


async def test_a_port_without_tls():
    async def plain(reader, writer):
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        error = await refused(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
    assert "certificate or encryption" in error.what


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
async def test_a_wrong_key_is_named_with_its_header_and_variable(odd_http, http_reply, status):
    seen = []

    async def handler(method, path, headers, body, writer):
        seen.append(headers.get("authorization"))
        writer.write(http_reply(status, "{}", www_authenticate='Bearer realm="hud"'))

    url = await odd_http(handler)
    error = await refused(
        f"{url}/mcp",
        headers={"Authorization": "Bearer $HUD_API_KEY"},
        lookup={"HUD_API_KEY": KEY}.get,
    )
    assert seen[0] == f"Bearer {KEY}"
    verb = "was refused" if status.startswith("401") else "is not allowed"
    assert error.what == (
        f"{status[:3]}: the key in the header Authorization (from HUD_API_KEY) {verb} by {url}/mcp"
    )
    assert error.why == 'It asks for: Bearer realm="hud"'
    assert "HUD_API_KEY" in error.fix
    assert len(seen) == 1, "a wrong key is not tried again"


async def test_a_key_in_a_header_of_another_name(odd_http, http_reply):
    url = await odd_http(fixed(http_reply, "401 Unauthorized"))
    error = await refused(f"{url}/mcp", headers={"X-Api-Key": KEY, "Mcp-Image": "a/b:1"})
    assert "the key in the header X-Api-Key was refused" in error.what
    assert "Check the value of X-Api-Key" in error.fix


async def test_no_key_where_one_is_wanted(odd_http, http_reply):
    url = await odd_http(fixed(http_reply, "401 Unauthorized", "<html>", "text/html"))
    error = await refused(f"{url}/mcp")
    assert error.what == f"401: {url}/mcp wants credentials, and none were sent"
    assert "--header" in error.fix


async def test_a_redirect_to_a_login(odd_http, http_reply):
    async def handler(method, path, headers, body, writer):
        if path == "/login":
            writer.write(http_reply("200 OK", "<html>log in</html>", "text/html; charset=utf-8"))
        else:
            writer.write(http_reply("302 Found", location="/login"))

    url = await odd_http(handler)
    error = await refused(f"{url}/mcp")
    assert "redirects elsewhere (302)" in error.what or "answers a web page, not MCP" in error.what


@pytest.mark.parametrize(
    "status", ["302 Found", "307 Temporary Redirect", "308 Permanent Redirect"]
)
async def test_no_message_follows_a_redirect_to_another_origin(odd_http, http_reply, status):
    seen = []

    async def elsewhere(method, path, headers, body, writer):
        seen.append((method, path, headers))
        writer.write(http_reply("200 OK", "{}"))

    other = await odd_http(elsewhere)
    url = await odd_http(fixed(http_reply, status, location=f"{other}/mcp"))
    error = await refused(f"{url}/mcp", headers={"X-Key": KEY})
    assert not seen and "redirects elsewhere" in error.what, error.what


@pytest.mark.parametrize("sse", [False, True])
async def test_what_is_sent_to_this_machine_passes_no_proxy(
    odd_http, http_reply, serve_2048, monkeypatch, sse
):
    passed = []

    async def proxy(method, path, headers, body, writer):
        passed.append((method, path))
        writer.write(http_reply("502 Bad Gateway"))

    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, await odd_http(proxy))
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    if sse:
        url = await odd_http(fixed(http_reply, "401 Unauthorized"))
        await refused(f"{url}/sse", headers={"X-Key": KEY})
    else:
        async with serve_2048("--path", "/mcp") as real, connect(parse_source(real)) as session:
            assert "move" in session.tools
    assert passed == []


async def test_a_redirect_within_the_server_is_followed(odd_http, http_reply, serve_2048):
    async with serve_2048("--path", "/mcp/") as real:
        port = real.split(":")[2].split("/")[0]

        async def handler(method, path, headers, body, writer):
            if not path.endswith("/"):
                writer.write(http_reply("307 Temporary Redirect", location=f"{path}/"))
                return
            reader, out = await asyncio.open_connection("127.0.0.1", int(port))
            lines = "".join(
                f"{k}: {v}\r\n" for k, v in headers.items() if k not in ("host", "connection")
            )
            out.write(
                f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n"
                f"{lines}\r\n".encode()
                + body
            )
            while data := await reader.read(65536):
                writer.write(data)
            out.close()
            writer.close()

        url = await odd_http(handler)
        async with connect(parse_source(f"{url}/mcp")) as session:
            assert "move" in session.tools


async def test_a_web_page(odd_http, http_reply):
    url = await odd_http(fixed(http_reply, "200 OK", "<html>Welcome</html>", "text/html"))
    error = await refused(f"{url}/")
    assert error.what == f"{url}/ answers a web page, not MCP"
    assert "/mcp" in error.fix


async def test_a_wrong_path(odd_http, http_reply):
    url = await odd_http(fixed(http_reply, "404 Not Found", "<html>", "text/html"))
    error = await refused(f"{url}/wrong")
    assert error.what == f"404: there is no MCP endpoint at {url}/wrong"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("405 Method Not Allowed", "does not take MCP requests over streamable HTTP"),
        ("429 Too Many Requests", "asks to send fewer requests"),
        ("500 Internal Server Error", "the server at"),
        ("503 Service Unavailable", "the server at"),
        ("418 I'm a teapot", "refused the request"),
    ],
)
async def test_other_statuses_are_said(odd_http, http_reply, status, words):
    url = await odd_http(fixed(http_reply, status, "oops", "text/plain"))
    error = await refused(f"{url}/mcp")
    assert error.what.startswith(status[:3])
    assert words in error.what


@pytest.mark.parametrize("body", ["{", "null", '{"hello": "world"}'])
async def test_json_that_is_no_mcp(odd_http, http_reply, body):
    url = await odd_http(fixed(http_reply, "200 OK", body))
    error = await refused(f"{url}/mcp")
    assert "invalid JSON" in error.what or "does not answer as an MCP server" in error.what
    assert error.why


async def test_plain_text(odd_http, http_reply):
    url = await odd_http(fixed(http_reply, "200 OK", "hi", "text/plain"))
    error = await refused(f"{url}/mcp")
    assert error.what == f"{url}/mcp answers text/plain, not MCP"


async def test_a_server_that_hangs(odd_http):
    async def handler(method, path, headers, body, writer):
        await asyncio.sleep(3600)

    url = await odd_http(handler)
    began = time.monotonic()
    error = await refused(f"{url}/mcp", timeout=1.0)
    assert time.monotonic() - began < 6
    assert "gave no answer within 1 s" in error.what


async def test_a_server_that_hangs_is_cancelled_at_once(odd_http):
    waiting = asyncio.Event()

    async def handler(method, path, headers, body, writer):
        waiting.set()
        await asyncio.sleep(3600)

    source = parse_source(f"{await odd_http(handler)}/mcp")

    async def start():
        async with connect(source):
            pytest.fail("there should be no connection")

    task = asyncio.create_task(start())
    await waiting.wait()
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 2


async def test_a_server_that_breaks_off_in_the_middle(odd_http):
    async def handler(method, path, headers, body, writer):
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{"
        )
        await writer.drain()
        writer.close()

    error = await refused(f"{await odd_http(handler)}/mcp")
    assert "broke off the connection in the middle of an answer" in error.what


def speaking(http_reply, on_call):
    """A small MCP server over HTTP; `on_call` answers tool calls."""

    async def handler(method, path, headers, body, writer):
        if method != "POST":
            writer.write(http_reply("405 Method Not Allowed"))
            return
        message = json.loads(body)
        if "id" not in message:
            writer.write(http_reply("202 Accepted"))
        elif message["method"] == "tools/call":
            await on_call(message, writer)
        else:
            result = {
                "initialize": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "s", "version": "1"},
                },
                "tools/list": {"tools": [{"name": "good", "inputSchema": {"type": "object"}}]},
            }[message["method"]]
            answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
            writer.write(http_reply("200 OK", answer, mcp_session_id="s1"))

    return handler


async def test_a_server_that_dies_in_a_call(odd_http, http_reply):
    async def die(message, writer):
        writer.close()

    async with connect(parse_source(f"{await odd_http(speaking(http_reply, die))}/mcp")) as session:
        with pytest.raises(
            ConnectError, match="broke off the connection in the middle of an answer"
        ):
            await session.call_tool("good", {})
        with pytest.raises(ConnectError, match="broke off"):
            await session.call_tool("good", {})


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("500 Oops", "500: the server at"),
        ("404 Not Found", "has ended the session"),
        ("401 No", "401: "),
    ],
)
async def test_an_http_error_in_a_call(odd_http, http_reply, status, words):
    async def fail(message, writer):
        writer.write(http_reply(status, "", "text/plain"))

    async with connect(
        parse_source(f"{await odd_http(speaking(http_reply, fail))}/mcp")
    ) as session:
        with pytest.raises(ConnectError, match=words):
            await session.call_tool("good", {})


async def test_a_json_rpc_error_in_a_call_is_a_result(odd_http, http_reply):
    async def refuse(message, writer):
        answer = {
            "jsonrpc": "2.0",
            "id": message["id"],
            "error": {"code": -32602, "message": "x must be small"},
        }
        writer.write(http_reply("400 Bad Request", json.dumps(answer)))

    async with connect(
        parse_source(f"{await odd_http(speaking(http_reply, refuse))}/mcp")
    ) as session:
        result = await session.call_tool("good", {"x": 5})
    assert result.is_error
    assert result.text == "x must be small"


async def test_a_large_event_arrives(odd_http, http_reply):
    async def large(message, writer):
        answer = {
            "jsonrpc": "2.0",
            "id": message["id"],
            "result": {"content": [{"type": "text", "text": "x" * 3_000_000}]},
        }
        writer.write(http_reply("200 OK", f"data: {json.dumps(answer)}\n\n", "text/event-stream"))

    async with connect(
        parse_source(f"{await odd_http(speaking(http_reply, large))}/mcp")
    ) as session:
        if "max_sse_event_size" in inspect.signature(streamable_http_client).parameters:
            assert len((await session.call_tool("good", {})).text) == 3_000_000
        else:  # the oldest SDK that is supported
            with pytest.raises(ConnectError, match="broke off its answer") as caught:
                await session.call_tool("good", {})
            assert "1 MiB" in caught.value.fix


async def test_an_event_stream_that_ends_without_an_answer(odd_http, http_reply):
    async def nothing(message, writer):
        writer.write(http_reply("200 OK", ": bye\n\n", "text/event-stream"))

    async with connect(
        parse_source(f"{await odd_http(speaking(http_reply, nothing))}/mcp")
    ) as session:
        with pytest.raises(ConnectError, match="broke off its answer"):
            await session.call_tool("good", {})


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("200 OK", "<html>", "text/html"), "answers a web page"),
        (("401 Unauthorized",), "wants credentials"),
        (("404 Not Found",), "404: there is no MCP endpoint"),
        (("405 Method Not Allowed",), "does not take MCP requests over event streams"),
        (("200 OK", "{}"), "does not answer as an MCP server"),
    ],
)
async def test_sse_endpoints_that_are_none(odd_http, http_reply, args, words):
    error = await refused(f"{await odd_http(fixed(http_reply, *args))}/sse")
    assert words in error.what


async def test_an_sse_endpoint_that_says_nothing(odd_http):
    async def handler(method, path, headers, body, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hello\n\n")
        await writer.drain()
        await asyncio.sleep(3600)

    error = await refused(f"{await odd_http(handler)}/sse", timeout=1.0)
    assert "gave no answer within 1 s" in error.what


async def test_secrets_in_a_url_are_not_told(odd_http, http_reply):
    url = (await odd_http(fixed(http_reply, "500 Oops"))).replace("http://", f"http://me:{KEY}@")
    error = await refused(f"{url}/mcp?token={KEY}&x=1")
    assert "me:***@" in error.what
    assert "token=***&x=1" in error.what
