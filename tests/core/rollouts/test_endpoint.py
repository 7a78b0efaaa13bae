import asyncio
import socket
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from hudtui.core.errors import InputError
from hudtui.core.plain import to_plain
from hudtui.core.rollouts.chat import ChatEndpoint, ChatOptions, ChatPolicy, PolicyError

MESSAGES = ({"role": "system", "content": "Play."}, {"role": "user", "content": "Go"})
KEY = "sk-test-0123456789"


@pytest.fixture
def open_endpoint(stub):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    def make(**changes):
        options = replace(ChatOptions(base_url=stub.url, key=KEY, timeout=5), **changes)
        endpoint = ChatEndpoint("tiny", options, sleep=sleep)
        endpoint.pauses = pauses
        return endpoint

    return make


async def test_a_reply(stub, open_endpoint):
    stub.answers = ["<tool>left()</tool>"]
    async with open_endpoint(temperature=0.5, max_tokens=64) as endpoint:
        policy = ChatPolicy(endpoint, seed=7)
        assert await policy(MESSAGES) == "<tool>left()</tool>"
        assert to_plain(policy.usage) == {
            "prompt_tokens": 10,
            "completion_tokens": 3,
            "requests": 1,
        }
    (request,) = stub.requests
    assert request["path"] == "/v1/chat/completions"
    assert request["headers"]["Authorization"] == f"Bearer {KEY}"
    assert request["body"] == {
        "model": "tiny",
        "messages": list(MESSAGES),
        "temperature": 0.5,
        "max_tokens": 64,
        "seed": 7,
    }


async def test_nothing_is_sent_that_was_not_asked_for(stub, open_endpoint):
    async with open_endpoint(key=None) as endpoint:
        await endpoint.complete(MESSAGES)
    (request,) = stub.requests
    assert set(request["body"]) == {"model", "messages"}
    assert "Authorization" not in request["headers"]


@pytest.mark.parametrize(
    ("message", "reply"),
    [
        ({"content": None}, ""),
        (
            {
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "refusal"},
                    {"type": "text", "text": "b"},
                ]
            },
            "ab",
        ),
        (
            {"content": "<tool>up()</tool>", "reasoning_content": " hm "},
            "<think>hm</think>\n<tool>up()</tool>",
        ),
        ({"content": "<think>x</think>", "reasoning": "x"}, "<think>x</think>"),
        (
            {"content": 'say("<think>")', "reasoning": "a </think> b"},
            '<think>a [/think] b</think>\nsay("<think>")',
        ),
        (
            {"content": [{"type": "reasoning", "text": "x"}, {"type": "text", "text": "y"}]},
            "<think>x</think>\ny",
        ),
        (
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "x"}]}]},
            "<think>x</think>\n",
        ),
    ],
)
async def test_forms_of_a_message(stub, open_endpoint, as_completion, message, reply):
    stub.answers = [(200, as_completion(**message))]
    async with open_endpoint() as endpoint:
        assert (await endpoint.complete(MESSAGES)).text == reply


@pytest.mark.parametrize(
    "failure",
    [(429, {"error": {"message": "slow down"}}), (500, "oops"), (503, "<html>busy</html>"), None],
)
async def test_what_may_pass_is_tried_again(stub, open_endpoint, failure):
    stub.answers = [failure, failure, "<tool>up()</tool>"]
    async with open_endpoint() as endpoint:
        assert (await endpoint.complete(MESSAGES)).text == "<tool>up()</tool>"
    assert len(stub.requests) == 3
    first, second = endpoint.pauses
    assert 0.75 <= first <= 1.25 and 1.5 <= second <= 2.5


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_the_endpoint_may_name_the_pause(stub, open_endpoint, form):
    after = (
        "7"
        if form == "seconds"
        else format_datetime(datetime.now(UTC) + timedelta(seconds=7), usegmt=True)
    )
    stub.answers = [
        (429, {}, {"Retry-After": after}),
        (429, {}, {"Retry-After": "86400"}),
        (429, {}, {"Retry-After": "soon"}),
        "ok",
    ]
    async with open_endpoint() as endpoint:
        await endpoint.complete(MESSAGES)
    assert 5 <= endpoint.pauses[0] <= 7
    assert endpoint.pauses[1] == 60
    assert 3 <= endpoint.pauses[2] <= 5


async def test_it_gives_up_with_the_last_reason(stub, open_endpoint):
    stub.answers = [(429, {"error": {"message": "rate limit of 3 a minute"}})]
    async with open_endpoint(retries=2) as endpoint:
        with pytest.raises(PolicyError, match="limits the rate") as caught:
            await endpoint.complete(MESSAGES)
    assert len(stub.requests) == 3
    assert caught.value.why == "429: rate limit of 3 a minute"
    assert not caught.value.fatal


@pytest.mark.parametrize(
    ("answer", "what", "fix"),
    [
        (
            (401, {"error": {"message": f"Incorrect API key: {KEY}"}}),
            "wants a valid key",
            "Check OPENAI_API_KEY.",
        ),
        (
            (403, {"error": "no access"}),
            "does not allow this key to use tiny",
            "Check OPENAI_API_KEY.",
        ),
        (
            (404, {"error": {"message": "The model `tiny` does not exist"}}),
            "knows no model tiny, or no path /v1/chat",
            "/v1",
        ),
        (
            (429, {"error": {"code": "insufficient_quota", "message": "You exceeded"}}),
            "no quota left",
            "billing",
        ),
        (
            (307, "", {"Location": "http://127.0.0.1:1/elsewhere"}),
            "redirects to http://127.0.0.1:1/elsewhere",
            "final address",
        ),
        ((200, "<html>Welcome to nginx</html>"), "did not answer with a chat completion", "/v1"),
        ((200, {"choices": []}), "did not answer with a chat completion", "/v1"),
    ],
)
async def test_what_will_not_pass_is_said_at_once(stub, open_endpoint, answer, what, fix):
    stub.answers = [answer]
    async with open_endpoint() as endpoint:
        with pytest.raises(PolicyError) as caught:
            await endpoint.complete(MESSAGES)
    assert len(stub.requests) == 1
    assert what in caught.value.what and fix in caught.value.fix
    assert caught.value.fatal
    assert KEY not in str(caught.value)


async def test_a_bad_request_concerns_this_conversation_alone(stub, open_endpoint):
    stub.answers = [(400, {"error": {"message": "images are not supported"}})]
    async with open_endpoint() as endpoint:
        with pytest.raises(PolicyError, match="refused the request") as caught:
            await endpoint.complete(MESSAGES)
    assert caught.value.why == "400: images are not supported"
    assert not caught.value.fatal and len(stub.requests) == 1


async def test_without_a_key_the_words_say_so(stub, open_endpoint):
    stub.answers = [(401, {})]
    async with open_endpoint(key=None, key_name="OTHER_KEY") as endpoint:
        with pytest.raises(PolicyError) as caught:
            await endpoint.complete(MESSAGES)
    assert caught.value.fix == "No key was sent. Set OTHER_KEY in the environment or in .env."


async def test_models_that_call_the_limit_otherwise(stub, open_endpoint):
    refusal = {
        "error": {
            "message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        }
    }
    stub.answers = [(400, refusal), "one", "two"]
    async with open_endpoint(max_tokens=9) as endpoint:
        assert [(await endpoint.complete(MESSAGES)).text for _ in range(2)] == [
            "one",
            "two",
        ]
    assert [request["body"].get("max_completion_tokens") for request in stub.requests] == [
        None,
        9,
        9,
    ]
    assert "max_tokens" not in stub.requests[-1]["body"]


async def test_a_reply_that_takes_too_long(stub, open_endpoint):
    def slow(body):
        time.sleep(0.4)
        return "late"

    stub.answers = [slow]
    async with open_endpoint(timeout=0.1, retries=1) as endpoint:
        with pytest.raises(PolicyError, match=r"did not answer within 0\.1 s"):
            await endpoint.complete(MESSAGES)
    assert len(endpoint.pauses) == 1


async def test_nobody_listens(open_endpoint):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{reserved.getsockname()[1]}/v1"
        async with open_endpoint(base_url=url, retries=1) as endpoint:
            with pytest.raises(PolicyError, match=f"no answer from {url}") as caught:
                await endpoint.complete(MESSAGES)
    assert "Is the server running" in caught.value.fix
    assert len(endpoint.pauses) == 1


async def test_cancelling_ends_the_request(stub, open_endpoint):
    stub.answers = [lambda body: time.sleep(0.3) or "late"]
    async with open_endpoint() as endpoint:
        work = asyncio.create_task(endpoint.complete(MESSAGES))
        await asyncio.to_thread(stub.arrived.wait, 10)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        stub.answers = ["next"]
        assert (await endpoint.complete(MESSAGES)).text == "next"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8000/v1",
        "ftp://host/v1",
        "https://",
        "https://user:pass@host/v1",
        "http://[::1",
        "http://h:x/v1",
    ],
)
def test_base_urls_that_cannot_be(url):
    with pytest.raises(InputError):
        ChatEndpoint("m", ChatOptions(base_url=url))


@pytest.mark.parametrize("key", ["two words", "line\nend", "ключ"])
def test_keys_that_cannot_be(key):
    with pytest.raises(InputError, match="does not look like a key") as caught:
        ChatEndpoint("m", ChatOptions(key=key))
    assert key not in str(caught.value)
    assert key not in repr(ChatOptions(key=key))


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://host/v1", "https://host/v1/chat/completions"),
        ("https://host/v1/", "https://host/v1/chat/completions"),
        ("https://host/v1/chat/completions", "https://host/v1/chat/completions"),
        ("https://host/openai?api-version=1", "https://host/openai/chat/completions?api-version=1"),
    ],
)
def test_base_urls(base, url):
    assert ChatEndpoint("m", ChatOptions(base_url=base)).url == url


@pytest.mark.parametrize(
    ("base", "sent"),
    [
        ("https://host/v1", True),
        ("http://localhost:8000/v1", True),
        ("http://[::1]:1/v1", True),
        ("http://host/v1", False),
    ],
)
def test_the_key_never_travels_in_the_clear(base, sent):
    assert ChatEndpoint("m", ChatOptions(base_url=base, key=KEY)).sends_key is sent
