"""Requests: what is repeated, what is not, what errors say, and that the key goes nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.provider import AuthError, InsufficientFunds, OutcomeUnknown, ProviderError
from hudtui.core.errors import InputError
from hudtui.core.http import error_message

KEY = "pit_secret_key_123"
PUBLIC = "ssh-ed25519 AAAAC3Nz me"


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        ('{"detail": "Missing field: x"}', "", "Missing field: x"),
        (
            '{"detail": [{"loc": ["body", "pod", "socket"], "msg": "Input should be PCIe"}]}',
            "",
            "pod.socket: Input should be PCIe",
        ),
        (
            '{"errors": [{"param": "pod.socket", "details": "bad"}, {"param": "x", "details": '
            '"y"}]}',
            "",
            "pod.socket: bad; x: y",
        ),
        ('{"message": "m"}', "", "m"),
        ('{"error": {"message": "inner"}}', "", "inner"),
        ('{"odd": 1}', "", '{"odd": 1}'),
        (
            "<html><head><title>502 Bad Gateway</title></head></html>",
            "",
            "a page instead of an answer (502 Bad Gateway)",
        ),
        ("anything", "text/html", "a page instead of an answer"),
        ("upstream\x1b[31m error", "", "upstream error"),
        ("", "", ""),
    ],
)
def test_error_bodies(text: str, kind: str, told: str) -> None:
    assert error_message(text, kind) == told


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, AuthError),
        (403, AuthError),
        (402, InsufficientFunds),
        (404, ProviderError),
        (422, ProviderError),
    ],
)
async def test_refusals_are_told_and_not_repeated(
    stub: Any, client: Callable[..., PrimeProvider], status: int, kind: type[Exception]
) -> None:
    stub.answer = lambda method, target: (status, {}, f'{{"detail": "no, {KEY} may not"}}')
    with pytest.raises(kind) as caught:
        await client(stub.url).keys()
    assert len(stub.requests) == 1
    assert "no, •••• may not" in str(caught.value) and KEY not in str(caught.value)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_reading_is_repeated_after_passing_faults(
    stub: Any, client: Callable[..., PrimeProvider], status: int
) -> None:
    stub.answer = lambda method, target: (
        (status, {}, "{}") if len(stub.requests) < 3 else (200, {}, '{"data": []}')
    )
    pauses: list[float] = []
    assert await client(stub.url, pauses=pauses).keys() == ()
    assert len(stub.requests) == 3 and pauses == [0.5, 1.0]


async def test_reading_is_given_up_after_four_attempts(
    stub: Any, client: Callable[..., PrimeProvider]
) -> None:
    stub.answer = lambda method, target: (
        503,
        {"content-type": "text/html"},
        "<html><title>Sorry</title></html>",
    )
    with pytest.raises(ProviderError, match="failed") as caught:
        await client(stub.url).keys()
    assert len(stub.requests) == 4 and "(Sorry)" in str(caught.value)


async def test_retry_after_is_honoured(stub: Any, client: Callable[..., PrimeProvider]) -> None:
    stub.answer = lambda method, target: (
        (429, {"retry-after": "7"}, "{}") if len(stub.requests) < 2 else (200, {}, '{"data": []}')
    )
    pauses: list[float] = []
    await client(stub.url, pauses=pauses).keys()
    assert pauses == [7.0]
    stub.requests.clear()
    stub.answer = lambda method, target: (429, {"retry-after": "3600"}, "{}")
    with pytest.raises(ProviderError, match="rate"):
        await client(stub.url, pauses=pauses).keys()
    assert len(stub.requests) == 1, "an hour is not waited for"


@pytest.mark.parametrize(
    "answer", [(500, {}, "{}"), (503, {}, "<html>"), (200, {}, '{"id": "k'), (200, {}, "[]"), None]
)
async def test_an_unclear_post_is_not_repeated(
    stub: Any, client: Callable[..., PrimeProvider], answer: Any
) -> None:
    stub.answer = lambda method, target: answer if method == "POST" else (200, {}, '{"data": []}')
    with pytest.raises(OutcomeUnknown, match="may or may not"):
        await client(stub.url).register_key("me", PUBLIC)
    assert [request[0] for request in stub.requests] == ["GET", "POST", "GET"], (
        "looked for afterwards, not sent again"
    )


async def test_a_post_that_was_not_carried_out_is_repeated(
    stub: Any, client: Callable[..., PrimeProvider]
) -> None:
    def answer(method: str, target: str) -> Any:
        if method != "POST":
            return 200, {}, '{"data": []}'
        posts = sum(request[0] == "POST" for request in stub.requests)
        return (
            (429, {}, "{}")
            if posts < 3
            else (200, {}, '{"id": "k", "publicKey": "p", "isPrimary": true}')
        )

    stub.answer = answer
    assert (await client(stub.url).register_key("me", PUBLIC)).id == "k"
    assert sum(request[0] == "POST" for request in stub.requests) == 3


async def test_nobody_there(client: Callable[..., PrimeProvider]) -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    pauses: list[float] = []
    prime = client(f"http://127.0.0.1:{port}", pauses=pauses)
    with pytest.raises(ProviderError, match="cannot be reached") as caught:
        await prime.history()
    assert not isinstance(caught.value, OutcomeUnknown) and len(pauses) == 3


async def test_silence_ends(stub: Any, client: Callable[..., PrimeProvider]) -> None:
    gate = asyncio.Event()
    handle = stub.handle

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        await handle(reader, writer)

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    prime = client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout=0.2)
    with pytest.raises(ProviderError, match=r"did not answer within 0\.2 s|cannot be reached"):
        await prime.history()
    gate.set()
    server.close()


async def test_requests_can_be_cancelled(stub: Any, client: Callable[..., PrimeProvider]) -> None:
    gate = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    task = asyncio.create_task(
        client(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}").history()
    )
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    server.close()


async def test_redirects_stay_at_home(stub: Any, client: Callable[..., PrimeProvider]) -> None:
    def answer(method: str, target: str) -> Any:
        return (
            (200, {}, '{"data": []}')
            if target == "/elsewhere"
            else (307, {"location": "/elsewhere"}, "")
        )

    stub.answer = answer
    assert await client(stub.url).history() == ()
    assert [request[2]["authorization"] for request in stub.requests] == [f"Bearer {KEY}"] * 2


@pytest.mark.parametrize(
    "target", ["http://localhost:1/x", "https://example.invalid/x", "//example.invalid/x"]
)
async def test_the_key_does_not_leave_with_a_redirect(
    stub: Any, client: Callable[..., PrimeProvider], target: str
) -> None:
    stub.answer = lambda method, path: (307, {"location": target}, "")
    with pytest.raises(ProviderError, match="redirects to another address"):
        await client(stub.url).history()
    assert len(stub.requests) == 1


async def test_a_post_is_not_turned_into_something_else(
    stub: Any, client: Callable[..., PrimeProvider]
) -> None:
    stub.answer = lambda method, target: (
        (303, {"location": "/x"}, "") if method == "POST" else (200, {}, '{"data": []}')
    )
    with pytest.raises(ProviderError, match="redirects a request"):
        await client(stub.url).register_key("me", PUBLIC)
    stub.answer = lambda method, target: (307, {"location": target}, "")
    with pytest.raises(ProviderError, match="without end"):
        await client(stub.url).history()


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example.invalid",
        "ftp://x",
        "nonsense",
        "https://me:pw@example.invalid",
        "http://127.0.0.1.example.invalid",
    ],
)
def test_addresses_that_would_let_the_key_out(url: str) -> None:
    with pytest.raises(InputError):
        PrimeProvider(KEY, base_url=url)


@pytest.mark.parametrize("key", ["", "two words", "line\n", "ünicode"])
def test_keys_that_are_none(key: str) -> None:
    with pytest.raises(InputError) as caught:
        PrimeProvider(key)
    assert not key or key not in str(caught.value)


def test_the_version_at_the_end_of_an_address_is_left_out() -> None:
    assert (
        PrimeProvider(KEY, base_url="https://example.invalid/api/v1/").base_url
        == "https://example.invalid"
    )
    assert KEY not in repr(PrimeProvider(KEY)) + repr(vars(PrimeProvider(KEY)))


async def test_pages_that_are_missing_are_named(
    stub: Any, client: Callable[..., PrimeProvider]
) -> None:
    offer = {"gpuType": "G", "provider": "c", "gpuCount": 1, "prices": {"onDemand": 1}}

    def answer(method: str, target: str) -> Any:
        import json

        if "multi-node" in target:
            return 503, {}, "<html>"
        if "page=2&" in target:
            return 500, {}, '{"detail": "boom"}'
        page = 1 if "page=1&" in target else 3
        items = [{**offer, "cloudId": f"{page}-{index}"} for index in range(100)]
        return 200, {}, json.dumps({"items": items, "totalCount": 300})

    stub.answer = answer
    offers = await client(stub.url).offers()
    assert len(offers.found) == 200
    assert any("page 2 of 3 is missing" in warning for warning in offers.warnings)
    assert any(warning.startswith("clusters: ") for warning in offers.warnings)


async def test_nothing_at_all_is_a_failure(stub: Any, client: Callable[..., PrimeProvider]) -> None:
    stub.answer = lambda method, target: (500, {}, "{}")
    with pytest.raises(ProviderError):
        await client(stub.url).offers()
    stub.answer = lambda method, target: (
        (401, {}, "{}") if "multi" in target else (200, {}, '{"items": []}')
    )
    with pytest.raises(AuthError):
        await client(stub.url).offers()


async def test_half_a_list_of_machines_is_none(
    stub: Any, client: Callable[..., PrimeProvider]
) -> None:
    import json

    def answer(method: str, target: str) -> Any:
        if "offset=0&" in target:
            return (
                200,
                {},
                json.dumps(
                    {"data": [{"id": f"p{index}"} for index in range(100)], "total_count": 150}
                ),
            )
        return 500, {}, "{}"

    stub.answer = answer
    with pytest.raises(ProviderError):
        await client(stub.url).pods()
    stub.answer = lambda method, target: (200, {}, '{"detail": "hello"}')
    with pytest.raises(ProviderError, match="without a list"):
        await client(stub.url).pods()
