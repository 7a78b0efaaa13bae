"""Episodes against an endpoint that misbehaves: each ends, with plain words and the stop reason
that fits."""

import json

import pytest
from support.played import play

from hudtui.core.rollouts.chat import ChatEndpoint, ChatOptions, ChatPolicy

KEY = "sk-test-0123456789"
LEFT = "<think>x</think><tool>left()</tool>"
GOOD = {"choices": [{"index": 0, "message": {"role": "assistant", "content": LEFT}}]}
HALF = json.dumps(GOOD)[:40]
CALLED = {"type": "function", "function": {"name": "left", "arguments": "{}"}}


@pytest.fixture
def play_against(stub, session, config, task):
    """Plays an episode against the stub; the pauses between attempts are kept in
    `play_against.pauses`."""
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    async def run(*answers, **options):
        stub.answers = list(answers)
        options = ChatOptions(base_url=stub.url, key=KEY, **{"timeout": 30, **options})
        async with ChatEndpoint("tiny", options, sleep=sleep) as endpoint:
            return await play(session, config, task, ChatPolicy(endpoint), max_turns=3)

    run.pauses = pauses
    return run


@pytest.mark.parametrize(
    ("answer", "words", "requests"),
    [
        ((401, {"error": {"message": f"bad key {KEY}"}}), "the endpoint wants a valid key", 1),
        ((429, {"error": {"message": "slow down"}}), "limits the rate of requests", 5),
        ((500, "Traceback (most recent call last)"), "the endpoint failed", 5),
        (
            (502, "<html><title>Bad Gateway</title></html>"),
            "a page instead of an answer (Bad Gateway)",
            5,
        ),
        ((200, "<html><title>Sign in</title></html>"), "did not answer with a chat completion", 1),
        ((200, ""), "broke off in the middle of its answer; It sent nothing.", 5),
        (None, "no answer from http://127.0.0.1", 5),
        ((200, HALF), "broke off in the middle of its answer", 5),
        (
            (200, {"choices": [{"message": {"content": None, "tool_calls": [CALLED]}}]}),
            "tool calls instead of text",
            1,
        ),
        ("x" * (10 << 20), "the endpoint's reply has 10485760 characters", 1),
        ("x" * (17 << 20), "broke off in the middle of its answer", 5),
        ((200, {"choices": ["text"]}), "holds no message", 1),
        ((200, "null"), "did not answer with a chat completion", 1),
        (
            (200, {"error": {"message": "slow down", "code": 429}}),
            "limits the rate of requests; 429: slow down",
            5,
        ),
        (
            (200, {"error": {"message": "slow down", "type": "rate_limit_error"}}),
            "limits the rate of requests",
            5,
        ),
        ((200, {"error": "upstream gone"}), "the endpoint failed; 500: upstream gone", 5),
        (
            (200, {"error": {"message": "no", "code": "502"}, "choices": []}),
            "the endpoint failed; 502: no",
            5,
        ),
        (
            (200, {"error": {"message": "no", "code": "invalid_api_key"}}),
            "the endpoint wants a valid key",
            1,
        ),
        (
            (200, {"error": {"message": "no money", "code": "insufficient_quota"}}),
            "has no quota left",
            1,
        ),
        (
            (
                200,
                {
                    "choices": [
                        {"error": {"code": 502, "message": "cut"}, "message": {"content": ""}}
                    ]
                },
            ),
            "failed; 502: cut",
            5,
        ),
        (
            (200, {"choices": [{"finish_reason": "error", "message": {"content": "<tool>le"}}]}),
            "the provider broke its reply",
            5,
        ),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, tuple) else None,
)
async def test_an_endpoint_that_never_answers_well(
    play_against, stub, session, answer, words, requests
):
    episode = await play_against(answer)
    assert episode.stop == "error" and words in episode.error, episode.error
    assert KEY not in episode.error and len(episode.error) < 1000
    assert len(stub.requests) == requests and len(play_against.pauses) == requests - 1
    assert episode.turns == () and [name for name, _ in session.calls] == ["setup", "evaluate"]


async def test_half_an_answer_and_then_silence(play_against, stub):
    episode = await play_against(
        (200, HALF, {"Transfer-Encoding": "chunked"}), timeout=0.2, retries=1
    )
    assert episode.stop == "error" and episode.error == "the model did not answer within 0.2 s"
    assert len(stub.requests) == 2


@pytest.mark.parametrize(
    "bad",
    [
        (500, "oops"),
        (200, {"error": {"message": "busy", "code": 503}}),
        (200, HALF),
        (200, ""),
        None,
        (429, {}, {"Retry-After": "3"}),
    ],
)
async def test_one_bad_answer_costs_an_episode_nothing(play_against, stub, bad):
    episode = await play_against(LEFT, bad, LEFT)
    assert episode.stop == "max_turns" and len(episode.turns) == 3 and episode.error is None
    assert len(play_against.pauses) == 1
    if isinstance(bad, tuple) and len(bad) == 3:
        assert play_against.pauses == [3]


async def test_text_beside_tool_calls_counts(play_against):
    episode = await play_against(
        (200, {"choices": [{"message": {"content": LEFT, "tool_calls": [CALLED]}}]})
    )
    assert episode.stop == "max_turns" and not any(turn.is_error for turn in episode.turns)


FULL = [
    (
        400,
        {
            "error": {
                "message": "This model's maximum context length is 4096 tokens.",
                "code": "context_length_exceeded",
            }
        },
    ),
    (
        400,
        {
            "error": {
                "message": "the request exceeds the available context size",
                "type": "exceed_context_size_error",
            }
        },
    ),
    (
        400,
        {
            "object": "error",
            "message": "The decoder prompt (length 5000) is longer than the maximum context length",
        },
    ),
    (413, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
]


@pytest.mark.parametrize("refusal", FULL)
async def test_a_full_context_ends_the_episode_and_it_is_evaluated(play_against, stub, refusal):
    episode = await play_against(LEFT, refusal)
    assert (episode.stop, episode.ok, episode.error, len(episode.turns)) == (
        "context",
        True,
        None,
        1,
    )
    assert episode.scores.reward_found and len(stub.requests) == 2


async def test_a_prompt_that_is_too_long_by_itself_is_an_error(play_against):
    episode = await play_against(FULL[0])
    assert episode.stop == "error" and not episode.turns
    assert "longer than the model's context; 400: This model's maximum" in episode.error


def counted(body):
    """A completion whose tokens are counted: one for each ten characters of the conversation."""
    size = sum(len(message["content"]) for message in body["messages"]) // 10
    return (200, {**GOOD, "usage": {"prompt_tokens": size, "completion_tokens": 4}})


async def test_a_budget_of_tokens_ends_the_episode_before_the_limit_is_reached(play_against, stub):
    free = await play_against(counted)
    assert free.stop == "max_turns" and len(free.turns) == 3
    sizes = [
        sum(len(message["content"]) for message in request["body"]["messages"]) // 10
        for request in stub.requests
    ]
    stub.requests.clear()
    held = await play_against(counted, max_context=sizes[1] + 60, max_tokens=50)
    assert (
        held.stop == "context" and held.ok and 0 < len(held.turns) < 3 and held.scores.reward_found
    )
    assert len(stub.requests) == len(held.turns)  # nothing is asked that could not be answered


async def test_a_budget_is_kept_where_the_endpoint_counts_nothing(play_against):
    held = await play_against((200, GOOD), max_context=100)
    assert held.stop == "context" and held.turns and held.error is None
    none = await play_against((200, GOOD), max_context=5)
    assert none.stop == "error" and "the limit is 5" in none.error and "--max-context" in none.error
