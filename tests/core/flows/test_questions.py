"""What a server asks the user while a call is under way is declined, and the user learns of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from support import servers
from typer.testing import CliRunner

from hudtui.cli.app import build
from hudtui.core.environment.client import connect
from hudtui.core.environment.source import parse_source

odd = servers.odd

FORM = {
    "message": "Who \x1b[31mare you?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string", "default": "Ann"}},
    },
}
PAGE = {
    "mode": "url",
    "message": "Pay",
    "url": "https://example.invalid/pay?x=1",
    "elicitationId": "1",
}
SAMPLE = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "Which move?"}}],
    "maxTokens": 20,
}


@pytest.fixture
def put(odd: Callable[..., tuple[str, ...]]) -> Any:
    """Let a server ask something during a call; what it was answered, and what the user is told."""

    async def ask(method: str, params: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
        source = parse_source(None, odd("put", json.dumps({"method": method, "params": params})))
        async with connect(source, timeout=30) as session:
            first = json.loads((await session.call_tool("good", {})).text)
            assert json.loads((await session.call_tool("good", {})).text) == first
            return first, session.declined

    return ask


async def test_a_form_is_declined_and_the_user_is_told_once(put):
    answer, told = await put("elicitation/create", FORM)
    assert answer == {"action": "decline"}
    (line,) = told
    assert "asked you to fill in a form or to open a page, and was declined: Who are you?" in line


@pytest.mark.parametrize(
    "page", [PAGE, {**PAGE, "url": "javascript:alert(1)"}, {**PAGE, "message": "x" * 100_000}]
)
async def test_a_page_is_declined_and_not_opened(put, monkeypatch, page):
    monkeypatch.setattr(
        "hudtui.core.desktop.open_externally", lambda _: pytest.fail("nothing is opened")
    )
    answer, told = await put("elicitation/create", page)
    assert answer == {"action": "decline"} and len(told) == 1 and len(told[0]) < 400


async def test_a_model_is_not_offered_and_a_request_for_one_is_refused(put):
    answer, told = await put("sampling/createMessage", SAMPLE)
    assert "not supported" in answer["message"]
    assert "asked for the answer of a model, and was declined" in told[0]


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object", "properties": 3}, {"properties": {"a": 7}}, {"required": 5}]
)
async def test_a_form_without_sense_is_refused(put, schema):
    answer, told = await put("elicitation/create", {"message": 3, "requestedSchema": schema})
    assert answer["code"] == -32602 and len(told) == 1


async def test_what_a_server_asks_of_no_user_is_not_told(put):
    assert (await put("ping", {}))[1] == ()


async def test_a_secret_in_a_question_is_masked(odd):
    question = {
        "method": "elicitation/create",
        "params": {**FORM, "message": "is it key-12345678?"},
    }
    source = parse_source(
        None, odd("put", json.dumps(question)), env={"MY_API_KEY": "key-12345678"}
    )
    async with connect(source, timeout=30) as session:
        await session.call_tool("good", {})
        assert "key-12345678" not in session.declined[0] and "is it" in session.declined[0]


async def test_servers_learn_what_is_offered(odd):
    async with connect(parse_source(None, odd("capabilities"))) as session:
        offered = json.loads((await session.call_tool("good", {})).text)
    assert "sampling" not in offered and set(offered["elicitation"]) == {"form", "url"}


def test_a_call_by_hand_says_what_was_declined(odd):
    question = {"method": "elicitation/create", "params": FORM}
    words = ["env", "call", "good", "--", *odd("put", json.dumps(question))]
    result = CliRunner().invoke(build(), words)
    assert (
        result.exit_code == 0
        and "was declined: Who are you?" in result.stderr
        and "declined" not in result.stdout
    )
