from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hudtui.core.credentials import can_check, check_key
from hudtui.core.errors import InputError
from hudtui.core.platform import BUCKEYE, HUD
from hudtui.core.settings import Settings, load_settings

KEY = "secret-key-0123456789"


@dataclass
class Stub:
    """A server on loopback that answers every request in one way and remembers what it was
    asked."""

    status: int = 200
    body: bytes = b"{}"
    headers: str = ""
    silent: bool = False
    cut: bool = False
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = request.strip().split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines)
            }
            content = await reader.readexactly(int(headers.get("content-length", 0)))
            self.requests.append((first, headers, content))
            self.asked.set()
            if self.silent:
                await asyncio.sleep(30)
            if not self.cut:
                head = (
                    f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(self.body)}\r\n"
                    f"{self.headers}Connection: close\r\n\r\n"
                )
                writer.write(head.encode() + self.body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(stub: Stub) -> AsyncIterator[Stub]:
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0)
    stub.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield stub
    finally:
        server.close()


def settings(folder: Path, name: str, **more: str) -> Settings:
    return load_settings(
        folder, BUCKEYE if name == "BUCKEYE_API_KEY" else HUD, environ={name: KEY, **more}
    )


def answer(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("name", "variable", "body", "first", "account"),
    [
        ("HUD_API_KEY", "HUD_API_URL", [], "GET /v2/jobs?limit=1 HTTP/1.1", None),
        (
            "PRIME_API_KEY",
            "PRIME_API_BASE_URL",
            {"data": {"id": "u", "name": "A", "email": "a@b.c"}},
            "GET /api/v1/user/whoami HTTP/1.1",
            "a@b.c",
        ),
        (
            "HF_TOKEN",
            "HF_ENDPOINT",
            {"name": "alice", "orgs": [], "auth": {"accessToken": {"role": "write"}}},
            "GET /api/whoami-v2 HTTP/1.1",
            "alice, write",
        ),
        (
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            {"object": "list", "data": [{"id": "m"}, {"id": "n"}]},
            "GET /models HTTP/1.1",
            "2 models",
        ),
        (
            "WANDB_API_KEY",
            "WANDB_BASE_URL",
            {"data": {"viewer": {"username": "al", "entity": "team"}}},
            "POST /graphql HTTP/1.1",
            "team",
        ),
    ],
)
async def test_a_key_that_works(
    own_world: Path, name: str, variable: str, body: object, first: str, account: str | None
) -> None:
    async with serving(Stub(body=answer(body))) as stub:
        result = await check_key(name, settings(own_world, name, **{variable: stub.url + "/"}))
    assert result.verdict == "works"
    assert result.ok
    assert result.account == account
    assert result.host == stub.url.removeprefix("http://")
    ((line, headers, content),) = stub.requests  # one request
    assert line == first
    if name == "WANDB_API_KEY":
        assert (
            base64.b64decode(headers["authorization"].removeprefix("Basic ")).decode()
            == f"api:{KEY}"
        )
        assert "viewer" in json.loads(content)["query"]
    else:
        assert headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(result)


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("HUD_API_URL", "HUD_API_KEY"),
        ("PRIME_API_BASE_URL", "PRIME_API_KEY"),
        ("HF_ENDPOINT", "HF_TOKEN"),
        ("OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("WANDB_BASE_URL", "WANDB_API_KEY"),
        ("BUCKEYE_API_URL", "BUCKEYE_API_KEY"),
    ],
)
async def test_the_address_is_a_setting(own_world: Path, variable: str, name: str) -> None:
    async with serving(Stub(status=401)) as stub:
        result = await check_key(name, settings(own_world, name, **{variable: stub.url}))
    assert result.verdict == "refused"
    assert len(stub.requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "verdict", "words"),
    [
        (401, b"{}", "refused", "wrong, expired or revoked"),
        (403, b"{}", "limited", "permission"),
        (402, b"{}", "limited", "no money"),
        (404, b"{}", "unclear", "PRIME_API_BASE_URL"),
        (429, b"{}", "unclear", "too often"),
        (500, b"{}", "unclear", "trouble of its own"),
        (418, b"{}", "unclear", "418"),
        (200, b"<!DOCTYPE html><html>login</html>", "unclear", "a web page"),
        (200, b"ok", "unclear", "not JSON"),
        (200, b"", "unclear", "not JSON"),
        (200, b"[1]", "unclear", "form that is not known"),
        (200, b'{"data": null}', "unclear", "form that is not known"),
        (200, b"[" * 100_000, "unclear", "not JSON"),
    ],
)
async def test_other_answers(
    own_world: Path, status: int, body: bytes, verdict: str, words: str
) -> None:
    async with serving(Stub(status=status, body=body)) as stub:
        result = await check_key(
            "PRIME_API_KEY", settings(own_world, "PRIME_API_KEY", PRIME_API_BASE_URL=stub.url)
        )
    assert result.verdict == verdict
    assert words in result.message
    assert not result.ok
    assert len(stub.requests) == 1


async def test_weights_and_biases_says_nobody(own_world: Path) -> None:
    async with serving(Stub(body=answer({"data": {"viewer": None}}))) as stub:
        result = await check_key(
            "WANDB_API_KEY", settings(own_world, "WANDB_API_KEY", WANDB_BASE_URL=stub.url)
        )
    assert result.verdict == "refused"


async def test_a_redirect_does_not_take_the_key_along(own_world: Path) -> None:
    async with (
        serving(Stub()) as other,
        serving(Stub(status=307, headers=f"Location: {other.url}/x\r\n")) as stub,
    ):
        result = await check_key("HF_TOKEN", settings(own_world, "HF_TOKEN", HF_ENDPOINT=stub.url))
    assert result.verdict == "unclear"
    assert "redirects" in result.message
    assert other.requests == []


async def test_a_hostile_account_name(own_world: Path) -> None:
    async with serving(Stub(body=answer({"name": "\x1b]0;x\x07evil\n" + "a" * 500}))) as stub:
        result = await check_key("HF_TOKEN", settings(own_world, "HF_TOKEN", HF_ENDPOINT=stub.url))
    assert result.account is not None
    assert result.account.startswith("evil")
    assert len(result.account) <= 80
    assert "\x1b" not in result.message


async def test_an_endless_answer(own_world: Path) -> None:
    async with serving(Stub(body=b" " * 5_000_000)) as stub:
        result = await check_key("HF_TOKEN", settings(own_world, "HF_TOKEN", HF_ENDPOINT=stub.url))
    assert result.verdict == "unclear"


async def test_nobody_answers(own_world: Path) -> None:
    async with serving(Stub()) as stub:
        pass
    result = await check_key("HF_TOKEN", settings(own_world, "HF_TOKEN", HF_ENDPOINT=stub.url))
    assert result.verdict == "unreachable"
    assert "nothing answers there" in result.message


async def test_it_answers_too_late(own_world: Path) -> None:
    async with serving(Stub(silent=True)) as stub:
        result = await check_key(
            "HF_TOKEN", settings(own_world, "HF_TOKEN", HF_ENDPOINT=stub.url), timeout=0.2
        )
    assert result.verdict == "unreachable"
    assert "within 0.2 s" in result.message


async def test_it_breaks_off(own_world: Path) -> None:
    async with serving(Stub(cut=True)) as stub:
        result = await check_key("HF_TOKEN", settings(own_world, "HF_TOKEN", HF_ENDPOINT=stub.url))
    assert result.verdict == "unreachable"
    assert "broke off" in result.message


async def test_no_such_name(own_world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*arguments: object, **options: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    result = await check_key(
        "HF_TOKEN", settings(own_world, "HF_TOKEN", HF_ENDPOINT="https://nowhere.invalid")
    )
    assert result.verdict == "unreachable"
    assert "nowhere.invalid" in result.message
    assert "cannot be resolved" in result.message


@pytest.mark.parametrize("base_url", ["ftp://127.0.0.1", "nonsense", "http://"])
async def test_addresses_that_are_none(own_world: Path, base_url: str) -> None:
    result = await check_key("HF_TOKEN", settings(own_world, "HF_TOKEN", HF_ENDPOINT=base_url))
    assert result.verdict == "unreachable"


@pytest.mark.parametrize("key", ["two words", "line\nend", "schlüssel", "\x1b[0m"])
async def test_a_key_that_cannot_be_sent_is_not(own_world: Path, key: str) -> None:
    async with serving(Stub()) as stub:
        found = load_settings(own_world, HUD, environ={"HF_TOKEN": key, "HF_ENDPOINT": stub.url})
        result = await check_key("HF_TOKEN", found)
    assert result.verdict == "refused"
    assert key not in result.message
    assert stub.requests == []


async def test_missing_and_untestable_keys(own_world: Path) -> None:
    found = load_settings(own_world, HUD, environ={})
    assert (await check_key("HF_TOKEN", found)).verdict == "missing"
    buckeye = settings(own_world, "BUCKEYE_API_KEY")
    result = await check_key("BUCKEYE_API_KEY", buckeye)
    assert result.verdict == "untestable"
    assert "BUCKEYE_API_URL" in result.message
    assert can_check("HF_TOKEN", buckeye)
    assert not can_check("BUCKEYE_API_KEY", buckeye)
    assert not can_check("HUD_MCP_URL", buckeye)
    with pytest.raises(InputError, match="not a key"):
        await check_key("PATH", found)


@pytest.mark.parametrize(
    "url", ["http://hub.example", "HTTP://10.0.0.1:8080", "http://127.0.0.1@hub.example"]
)
async def test_no_key_is_tried_in_the_clear(own_world: Path, url: str) -> None:
    result = await check_key("HF_TOKEN", settings(own_world, "HF_TOKEN", HF_ENDPOINT=url))
    assert result.verdict == "untestable" and "HF_ENDPOINT is not https" in result.message, result


async def test_it_can_be_cancelled(own_world: Path) -> None:
    async with serving(Stub(silent=True)) as stub:
        work = asyncio.create_task(
            check_key("HF_TOKEN", settings(own_world, "HF_TOKEN", HF_ENDPOINT=stub.url))
        )
        await asyncio.wait_for(stub.asked.wait(), 20)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work


async def test_a_key_that_cannot_be_tested_is_not_named_among_those_that_can(
    tmp_path: Path,
) -> None:
    settings = load_settings(tmp_path, HUD, environ={})
    with pytest.raises(InputError) as caught:
        await check_key("HUDTUI_GUARD_KEY", settings)
    fix = caught.value.fix or ""
    assert "HUDTUI_GUARD_KEY" not in fix and "PRIME_API_KEY" in fix
