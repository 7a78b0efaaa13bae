from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from support import tls

from hudtui.core.http import (
    HttpAnswer,
    HttpClient,
    HttpError,
    Retry,
    bad_key_character,
    is_loopback,
    retry_after,
)


@pytest.mark.parametrize(
    "url",
    ["http://localhost:8000", "https://127.0.0.1/api", "http://127.3.2.1", "http://[::1]:80/x"],
)
def test_addresses_of_this_machine(url: str) -> None:
    assert is_loopback(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1",
        "ftp://127.0.0.1",
        "http://localhost.example.com",
        "http://10.0.0.1",
        "http://[::1",
        "http://0.0.0.0",
    ],
)
def test_addresses_that_are_not(url: str) -> None:
    assert not is_loopback(url)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("", None),
        ("soon", None),
        ("inf", None),
        ("nan", None),
    ],
)
def test_seconds_to_wait(value: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": value}) == seconds


def test_a_date_to_wait_for() -> None:
    later, past = (datetime.now(UTC) + timedelta(seconds=shift) for shift in (3600, -3600))
    told = retry_after({"retry-after": format_datetime(later, usegmt=True)})
    assert told is not None and 3500 < told <= 3600
    assert retry_after({"retry-after": format_datetime(past, usegmt=True)}) == 0.0
    assert retry_after({"retry-after": format_datetime(later.replace(tzinfo=None))}) is None, (
        "of which zone?"
    )
    assert retry_after({}) is None


KEY = "sk-0123456789"


@asynccontextmanager
async def service(*answers: tuple[int, str, str]) -> AsyncIterator[tuple[str, list[str]]]:
    """A server of these answers (status, headers, body), the last one for ever; its address, and
    the requests that came."""
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        status, headers, body = answers[min(len(asked), len(answers)) - 1]
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{headers}Connection: close\r\n"
            f"\r\n{body}".encode()
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        server.close()


def always(result: HttpAnswer | HttpError) -> bool:
    return isinstance(result, HttpError) or not result.ok


async def test_an_answer_is_read_up_to_the_bound() -> None:
    async with (
        service((200, "", "x" * 100_000)) as (url, _),
        aclosing(HttpClient(max_bytes=1000)) as client,
    ):
        answer = await client.send("GET", url)
    assert (answer.status, answer.text, answer.data) == (200, "x" * 1000, None)


async def test_a_client_that_is_closed_opens_nothing_again() -> None:
    async with service((200, "", "ok")) as (url, asked):
        client = HttpClient()
        assert (await client.send("GET", url)).text == "ok"
        await client.aclose()
        with pytest.raises(HttpError) as error:
            await client.send("GET", url)
        assert len(asked) == 1
    assert (error.value.kind, error.value.why) == ("unsent", "the connections are closed")


async def test_attempts_end_and_pauses_grow() -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    retry = Retry(attempts=5, pause=20.0)
    async with (
        service((503, "", ""), (429, "Retry-After: 7\r\n", ""), (500, "", "")) as (url, asked),
        aclosing(HttpClient(retry=retry, sleep=sleep)) as client,
    ):
        assert (await client.send("GET", url, again=always)).status == 500
        assert len(asked) == 5 and pauses == [20.0, 7.0, 60.0, 60.0]
        assert (await client.send("GET", url)).status == 500 and len(asked) == 6, (
            "without a rule a request is sent once"
        )


@pytest.mark.parametrize(
    ("user", "sent"), [(None, f"Bearer {KEY}"), ("api", "Basic YXBpOnNrLTAxMjM0NTY3ODk=")]
)
async def test_the_key_is_sent_and_masked(user: str | None, sent: str) -> None:
    async with (
        service((302, f"Location: http://127.0.0.1:1/{KEY}\r\n", "")) as (url, asked),
        aclosing(HttpClient(KEY, user=user, follow=True)) as client,
    ):
        with pytest.raises(HttpError, match="redirects to another address") as caught:
            await client.send("GET", url)
    assert len(asked) == 1 and f"authorization: {sent}".lower() in asked[0].lower()
    assert (
        caught.value.kind == "redirect"
        and KEY not in str(caught.value)
        and "••••" in str(caught.value)
    )


async def test_redirects_are_answers_unless_they_are_followed() -> None:
    async with (
        service((307, "Location: /x\r\n", ""), (200, "", "{}")) as (url, asked),
        aclosing(HttpClient()) as client,
    ):
        assert (await client.send("GET", url)).status == 307
    async with (
        service((307, "Location: /x\r\n", ""), (200, "", "[1]")) as (url, asked),
        aclosing(HttpClient(follow=True)) as client,
    ):
        assert (await client.send("POST", url, body={"a": 1})).data == [1]
    assert asked[1].startswith("POST /x ")


async def test_proxies_of_the_environment_are_not_asked_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with service((200, "", "{}")) as (url, _), aclosing(HttpClient()) as client:
        assert (await client.send("GET", url)).ok


@pytest.fixture
def untrusted(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that nobody has signed."""
    return tls.write(tls.certificate("itself"), tmp_path, "itself")


@pytest.mark.parametrize("first", ["http", "https"])
async def test_each_address_of_a_client_has_its_certificate_checked(
    first: str, untrusted: tuple[Path, Path]
) -> None:
    async with (
        service((200, "", "{}")) as (local, _),
        service((200, "", "{}")) as (behind, leaked),
        tls.relayed(behind.removeprefix("http://"), untrusted) as relay,
        aclosing(HttpClient(KEY)) as client,
    ):
        for scheme in (first, "https", "http", "https"):
            if scheme == "http":
                assert (await client.send("GET", local)).ok
                continue
            for address in (f"https://{relay}", f"HTTPS://{relay}/x"):
                with pytest.raises(HttpError, match="its certificate is not trusted") as caught:
                    await client.send("GET", address)
                assert caught.value.kind == "unsent"
        assert leaked == []


IN_THE_CLEAR = [
    "http://service.example/x",
    "HTTP://service.example",
    "http://10.0.0.1:8000/v1",
    "http://0.0.0.0:80",
    "http://localhost.example.com",
    "http://127.0.0.1@service.example/",
    "http://127.0.0.1:80@service.example:80/",
    "http://127.0.0.1\\@service.example/",
    "http://[::ffff:10.0.0.1]/",
    "http://127.0.0.1.service.example/",
]


@pytest.mark.parametrize("before", ["", "https", "local"])
async def test_a_key_goes_over_no_network_in_the_clear(
    before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with service((200, "", "{}")) as (proxy, passed), service((200, "", "{}")) as (local, _):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        async with aclosing(HttpClient(KEY)) as client:
            if before == "https":
                with pytest.raises(HttpError):
                    await client.send(
                        "GET", "https://service.example"
                    )  # the proxy is asked for a tunnel, without the key
            elif before == "local":
                assert (await client.send("GET", local)).ok
            for address in IN_THE_CLEAR:
                with pytest.raises(HttpError, match="in the clear") as caught:
                    await client.send("POST", address, body={"a": 1})
                assert caught.value.kind == "address"
            assert (await client.send("GET", local)).ok, "this machine's own services pass no proxy"
        assert all(asked.startswith("CONNECT ") and KEY not in asked for asked in passed)
        assert len(passed) == (before == "https")
        async with aclosing(HttpClient()) as client:
            assert (await client.send("GET", "http://service.example/x")).ok, (
                "without a key there is nothing to keep"
            )
        assert passed[-1].startswith("GET http://service.example/x ")


@pytest.mark.parametrize(
    ("url", "kind"), [("ftp://127.0.0.1", "address"), ("http://127.0.0.1:1", "unsent")]
)
async def test_what_cannot_be_asked(url: str, kind: str) -> None:
    async with aclosing(HttpClient()) as client:
        with pytest.raises(HttpError) as caught:
            await client.send("GET", url)
    assert caught.value.kind == kind and caught.value.why


@pytest.mark.parametrize(
    ("text", "place"),
    [("", None), ("sk-1_/+=~", None), ("two words", 4), ("line\n", 5), ("ключ", 1)],
)
def test_characters_that_no_key_has(text: str, place: int | None) -> None:
    assert bad_key_character(text) == place
