from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from support.token_server import TokenServer, token_server

from hudtui.core.environment.client import connect as connect_environment
from hudtui.core.environment.values import ContentBlock, Session, Tool, ToolResult
from hudtui.core.errors import ConnectError, RunError
from hudtui.core.gym.values import ExampleRound, GymConfig
from hudtui.core.tasks.task import Task
from hudtui.core.training.chat_tokens import ChatTokens
from hudtui.trainers.replies import BatchReplies, Retry, ServerReplies
from hudtui.trainers.rollout import EpisodeRunner

LEFT = "<think>x</think><tool>left()</tool>"
DOWN = "<think>x</think><tool>down()</tool>"


@pytest.fixture
def players(gym: GymConfig, letters: Any) -> Callable[..., EpisodeRunner]:
    def make(connect: Any = None, **options: Any) -> EpisodeRunner:
        chosen = connect or (lambda servers: connect_environment(servers, timeout=30.0))
        return EpisodeRunner(
            gym,
            ChatTokens(letters),
            chosen,
            **{"max_tokens": 60, "max_seq_len": 9000, "max_turns": 3, "pauses": (), **options},
        )

    return make


async def test_all_conversations_advance_together_over_the_real_environment(
    players: Any, game: Callable[..., Task], script: Any, letters: Any
) -> None:
    model, warned = script(LEFT, DOWN), []
    played = await players(warn=warned.append).play(
        [game("a", seed=1), game("b", seed=2)], BatchReplies(model)
    )
    assert [len(asked) for asked in model.asked] == [2, 2, 2]  # one generation a turn, for both
    for one in played:
        assert one.episode.stop == "max_turns" and len(one.episode.turns) == 3
        assert one.reward == one.episode.scores.reward and one.reward > 0.1
        assert len(one.completion_ids) == len(one.mask) == len(one.logprobs)
        said = [i for i, own in zip(one.completion_ids, one.mask, strict=True) if own]
        assert letters.decode(said) == "".join(turn.reply + "<|end|>" for turn in one.episode.turns)
        told = letters.decode(
            [i for i, own in zip(one.completion_ids, one.mask, strict=True) if not own]
        )
        assert told.count("<|start|>assistant") == 2  # nothing is told after the last reply
        assert (
            one.episode.turns[0].observation in told
            and one.episode.turns[2].observation not in told
        )
        assert set(lp for lp, own in zip(one.logprobs, one.mask, strict=True) if not own) == {0.0}
    # What was asked goes on from what was said: each prompt begins with the one before it and the
    # reply to that.
    for before, after in zip(model.asked, model.asked[1:], strict=False):
        assert all(any(later.startswith(earlier) for earlier in before) for later in after)


async def test_examples_are_in_the_prompt_that_is_trained_on_and_teach_nothing_by_themselves(
    gym: GymConfig, letters: Any, game: Callable[..., Task], script: Any
) -> None:
    config = replace(
        gym, examples=(ExampleRound("A board.", LEFT), ExampleRound("Another board.", DOWN))
    )
    players = EpisodeRunner(
        config,
        ChatTokens(letters),
        connect_environment,
        max_tokens=60,
        max_seq_len=9000,
        max_turns=1,
    )
    (played,) = await players.play([game()], BatchReplies(script(DOWN)))
    prompt = letters.decode(played.prompt_ids)
    rounds = (
        f"<|start|>user\nA board.<|end|>\n<|start|>assistant\n{LEFT}<|end|>\n<|start|>user\n"
        "Another board.<|end|>\n"
    )
    before, found, after = prompt.partition(rounds)
    assert (
        before.startswith("<|start|>system")
        and found
        and after.startswith(f"<|start|>assistant\n{DOWN}<|end|>\n")
    )
    assert "Play." in after and prompt.endswith("<|start|>assistant\n")
    assert letters.decode(played.completion_ids) == DOWN + "<|end|>" and sum(played.mask) == len(
        played.mask
    )


async def test_an_episode_knows_its_step_its_rollout_and_its_tokens(
    players: Any, game: Callable[..., Task], script: Any
) -> None:
    tasks = [game("a"), game("a"), game("b"), game("a")]
    played = await players().play(
        tasks, BatchReplies(script(LEFT, DOWN)), info={"step": 4, "split": "train"}
    )
    assert [(one.episode.info["rollout"], one.episode.info["step"]) for one in played] == [
        (0, 4),
        (1, 4),
        (0, 4),
        (2, 4),
    ]
    for one in played:
        tokens = [turn.tokens for turn in one.episode.turns]
        assert tokens[0]["prompt"] == len(one.prompt_ids) and sum(
            turn["completion"] for turn in tokens
        ) == sum(one.mask)
        assert tokens[0]["prompt"] < tokens[1]["prompt"] < tokens[2]["prompt"]
        usage = one.episode.info["usage"]
        assert usage["completion_tokens"] == sum(one.mask) and usage["prompt_tokens"] == sum(
            turn["prompt"] for turn in tokens
        )


async def test_one_that_is_done_leaves_the_others_to_go_on(
    players: Any, game: Callable[..., Task], letters: Any
) -> None:
    asked = []

    def model(prompts: list[list[int]]) -> Any:
        asked.append(len(prompts))
        done = len(asked) == 1
        texts = [
            "<think>x</think><tool>done()</tool>" if done and n == 0 else LEFT
            for n in range(len(prompts))
        ]
        return [letters(text, add_special_tokens=False)["input_ids"] + [1] for text in texts], None

    played = await players().play([game("a"), game("b")], BatchReplies(model))
    assert asked == [2, 1, 1]
    assert sorted(one.episode.stop for one in played) == ["done", "max_turns"]
    assert all(one.logprobs is None for one in played)


async def test_a_conversation_ends_when_there_is_no_room_for_a_reply(
    players: Any, game: Callable[..., Task], script: Any, letters: Any
) -> None:
    first = players()
    (full,) = await first.play([game()], BatchReplies(script(LEFT)))
    room = len(full.prompt_ids) + 60 + 10
    (short,) = await players(max_seq_len=room).play([game()], BatchReplies(script(LEFT)))
    assert len(short.episode.turns) == 1 and short.episode.stop == "context"
    assert short.episode.ok and short.reward is not None


async def test_a_prompt_longer_than_the_context_is_told_at_once(
    players: Any, game: Callable[..., Task], script: Any
) -> None:
    with pytest.raises(RunError, match=r"long one.*does not fit into 300"):
        await players(max_seq_len=300).play([game("long one")], BatchReplies(script(LEFT)))


async def test_an_environment_that_fails_for_every_task_stops_the_training_and_names_the_tool(
    players: Any, game: Callable[..., Task], script: Any
) -> None:
    model = script(LEFT)
    with pytest.raises(RunError, match="fails for every task") as caught:
        await players().play(
            [game("a", setup="prepare"), game("b", setup="prepare")], BatchReplies(model)
        )
    assert "prepare" in str(caught.value.why)
    assert model.asked == []


@pytest.mark.parametrize(("broken", "played"), [(1, 2), (2, 3), (9, 3)])
async def test_a_step_of_which_every_episode_breaks_off_is_played_again(
    players: Any, game: Callable[..., Task], script: Any, broken: int, played: int
) -> None:
    """An environment that is restarted costs no training; one that does not come back ends it, and
    the causes are named."""
    connected, warned = list[str](), list[str]()

    @contextlib.asynccontextmanager
    async def connect(servers: Any) -> AsyncIterator[Session]:
        connected.append("")
        if len(connected) <= 3 * broken:
            raise ConnectError("nobody answers" if len(connected) % 3 else "503: too busy")
        yield Odd(0.5)

    runner, tasks = (
        players(connect, warn=warned.append, pauses=(0.01, 0.02)),
        [game("a"), game("a"), game("b")],
    )
    if broken < 3:
        found = await runner.play(tasks, BatchReplies(script(LEFT)))
        assert all(one.reward is not None for one in found)
    else:
        with pytest.raises(RunError, match="fails for every task, 3 times in a row") as caught:
            await runner.play(tasks, BatchReplies(script(LEFT)))
        assert caught.value.why == "2 x nobody answers; 1 x 503: too busy"
    assert len(connected) == 3 * played
    again = [text for text in warned if "are played again in 0.0" in text]
    assert len(again) == played - 1 and "2 x nobody answers; 1 x 503: too busy" in again[0]


async def test_processes_decide_together_whether_a_step_is_played_again(
    players: Any, game: Callable[..., Task], script: Any
) -> None:
    """Where another process has an episode, the broken ones of this one are left out, and nobody
    plays again alone."""

    asked: list[bool] = []

    class Peers:
        def any(self, waiting: bool) -> bool:
            asked.append(waiting)
            return True

    @contextlib.asynccontextmanager
    async def connect(servers: Any) -> AsyncIterator[Session]:
        raise ConnectError("nobody answers")
        yield

    runner = players(connect, warn=lambda _: None, pauses=(60.0,))
    found = await runner.play([game("a")], BatchReplies(script(LEFT)), peers=Peers())
    assert [one.reward for one in found] == [None] and asked == [False]


async def test_one_broken_environment_is_left_out_and_told_of(
    players: Any, game: Callable[..., Task], script: Any
) -> None:
    broken = replace(
        game("broken"),
        mcp_config={"x": {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}},
    )
    warned: list[str] = []
    good, bad = await players(warn=warned.append).play(
        [game("good"), broken], BatchReplies(script(LEFT))
    )
    assert good.reward is not None
    assert bad.reward is None and bad.mask == [0] and bad.episode.stop == "error"
    assert any("broken" in text and "left out" in text for text in warned)


class Odd:
    """An environment in memory, for answers that no bundled one gives."""

    tools: Mapping[str, Tool] = {"move": Tool("move", "", {"type": "object"})}

    def __init__(self, reward: Any) -> None:
        self.reward = reward

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        if name == "evaluate":
            return ToolResult((), structured={"reward": self.reward})
        return ToolResult((ContentBlock("image", data="aGk=", mime_type="image/png"),))


def odd(reward: Any) -> Any:
    @contextlib.asynccontextmanager
    async def connect(_: Any) -> AsyncIterator[Session]:
        yield Odd(reward)

    return connect


@pytest.mark.parametrize(
    ("rewards", "said"),
    [
        ({"a": [0.5, 0.5]}, "all 2 episodes of this step have the reward"),
        (
            {"a": [0.5, 0.5], "b": [0.7, 0.7]},
            "each of the 2 tasks of this step gave all its episodes the same reward",
        ),
        ({"a": [0.5, 0.6], "b": [0.7, 0.7]}, None),
        ({"a": [0.5], "b": [0.5]}, None),  # each was played once: an evaluation
    ],
)
async def test_equal_rewards_are_told_in_words(
    rewards: dict[str, list[float]],
    said: str | None,
    players: Any,
    game: Callable[..., Task],
    script: Any,
) -> None:
    tasks = [
        replace(game(name), mcp_config={name: {}}) for name, given in rewards.items() for _ in given
    ]

    @contextlib.asynccontextmanager
    async def connect(servers: Any) -> AsyncIterator[Session]:
        yield Odd(rewards[next(iter(servers))].pop())

    warned: list[str] = []
    played = await players(connect, warn=warned.append).play(tasks, BatchReplies(script(LEFT)))
    assert all(one.reward is not None for one in played)
    told = [text for text in warned if "nothing to learn from it" in text]
    assert len(told) == (said is not None) and all(said and said in text for text in told)


async def test_images_are_told_of_in_words_and_warned_of_once(
    players: Any, game: Callable[..., Task], script: Any
) -> None:
    warned: list[str] = []
    played = await players(odd(0.5), warn=warned.append).play(
        [game(), game()], BatchReplies(script(LEFT, "no"))
    )
    assert len([text for text in warned if "sends images" in text]) == 1
    assert "not shown" in played[0].episode.turns[0].observation


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), None, "good"])
async def test_a_reward_that_is_no_number_teaches_nothing(
    reward: Any, players: Any, game: Callable[..., Task], script: Any
) -> None:
    rewards, warned = iter([reward, 0.5]), list[str]()

    @contextlib.asynccontextmanager
    async def connect(_: Any) -> AsyncIterator[Session]:
        yield Odd(next(rewards))

    played = await players(connect, warn=warned.append).play(
        [game("a"), game("b")], BatchReplies(script(LEFT))
    )
    by_reward = {one.episode.scores.reward_found: one.reward for one in played}
    assert by_reward[False] is None and by_reward[True] is not None and by_reward[True] > 0.4
    assert any(
        "broke off and is left out" in text and "the evaluator returned " in text for text in warned
    )


async def test_a_reward_outside_its_range_is_told_once(
    players: Any, game: Callable[..., Task], script: Any
) -> None:
    warned: list[str] = []
    runner = players(odd(12), warn=warned.append)
    for _ in range(2):
        played = await runner.play([game("a"), game("b")], BatchReplies(script(LEFT)))
    assert all(one.episode.scores.task_completion == 12 for one in played)
    assert len([text for text in warned if "the reward 12, outside 0 to 1" in text]) == 1


async def test_where_no_evaluation_gives_a_reward_the_form_alone_does_not_count(
    players: Any, game: Callable[..., Task], script: Any
) -> None:
    with pytest.raises(RunError, match="fails for every task") as caught:
        await players(odd(None), warn=lambda _: None).play(
            [game("a"), game("b")], BatchReplies(script(LEFT, "nothing"))
        )
    assert "the evaluator returned " in str(caught.value.why)


async def test_a_connection_that_breaks_ends_its_episode_alone(
    players: Any, game: Callable[..., Task], script: Any
) -> None:
    class Breaks(Odd):
        async def call_tool(
            self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
        ) -> ToolResult:
            if name == "move":
                raise ConnectError("gone")
            return await super().call_tool(name, arguments, timeout=timeout)

    sessions = iter([Breaks(0.5), Odd(0.5)])

    @contextlib.asynccontextmanager
    async def connect(_: Any) -> AsyncIterator[Session]:
        yield next(sessions)

    played = await players(connect, warn=lambda _: None).play(
        [game("a"), game("b")], BatchReplies(script(LEFT))
    )
    assert sorted(one.reward is None for one in played) == [False, True]


async def test_with_peers_every_generation_has_a_prompt_for_every_conversation() -> None:
    asked: list[list[list[int]]] = []

    class Twice:
        """Another process goes on for one generation longer."""

        def __init__(self) -> None:
            self.left = 3

        def any(self, waiting: bool) -> bool:
            self.left -= 1
            return waiting or self.left > 0

    def generate(prompts: list[list[int]]) -> Any:
        asked.append(prompts)
        return [[1]] * len(prompts), None

    replies = BatchReplies(generate, filler=[1], peers=Twice())

    async def one() -> None:
        async with replies.seat():
            await replies.reply([5])

    async with replies.serving(2), asyncio.TaskGroup() as group:
        group.create_task(one())
        group.create_task(one())
    assert [len(prompts) for prompts in asked] == [2, 2]
    assert asked[1] == [[1], [1]]


# A server


SAMPLING = {"max_tokens": 60, "temperature": 0.7, "top_p": 0.9}


@pytest.fixture
def at_server(script: Any) -> Iterator[Callable[..., tuple[TokenServer, ServerReplies]]]:
    with contextlib.ExitStack() as stack:

        def make(*texts: str, sample: Any = None) -> tuple[TokenServer, ServerReplies]:
            def say(prompt: list[int]) -> Any:
                (said,), (logprobs,) = model([prompt])
                return said, logprobs

            model = script(*texts)
            server = stack.enter_context(token_server(sample or say))
            return server, ServerReplies(server.url, SAMPLING, end=1, retry=Retry(3, 0.0))

        yield make


async def test_a_server_gives_the_same_tokens_as_a_batch(
    players: Any, game: Callable[..., Task], script: Any, at_server: Any
) -> None:
    tasks = [game("a", seed=1), game("b", seed=2), game("b", seed=2)]
    together = await players(warn=lambda _: None).play(tasks, BatchReplies(script(LEFT)))
    server, replies = at_server(LEFT)
    alone = await players(warn=lambda _: None).play(tasks, replies)
    for one, other in zip(together, alone, strict=True):
        assert (one.prompt_ids, one.completion_ids, one.mask) == (
            other.prompt_ids,
            other.completion_ids,
            other.mask,
        )
        assert (one.logprobs, one.reward) == (other.logprobs, other.reward) and sum(one.mask)
    assert len(server.asked) == 9
    fields = {
        "model": "tiny",
        "n": 1,
        "logprobs": 0,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        **SAMPLING,
    }
    assert all(
        {name: body[name] for name in body if name != "prompt"} == fields for body in server.asked
    )


async def test_with_a_server_a_slow_environment_holds_up_no_other(
    players: Any, game: Callable[..., Task], at_server: Any
) -> None:
    ended: list[str] = []
    others_are_done = asyncio.Event()

    @contextlib.asynccontextmanager
    async def connect(servers: Mapping[str, Any]) -> AsyncIterator[Session]:
        (name,) = servers

        class Waits(Odd):
            async def call_tool(
                self, tool: str, arguments: Mapping[str, Any], *, timeout: float | None = None
            ) -> ToolResult:
                if tool == "move" and name == "slow":
                    await others_are_done.wait()
                return await super().call_tool(tool, arguments, timeout=timeout)

        yield Waits(0.5)
        ended.append(name)
        if len(ended) == 3:
            others_are_done.set()

    _, replies = at_server(LEFT)
    names = ["slow", "a", "b", "c"]
    tasks = [replace(game(name), mcp_config={name: {}}) for name in names]
    async with asyncio.timeout(60):  # a batch would wait for ever
        played = await players(connect, warn=lambda _: None).play(tasks, replies)
    assert ended[-1] == "slow" and all(
        one.reward is not None and len(one.episode.turns) == 3 for one in played
    )


async def test_a_server_that_fails_for_a_moment_is_asked_again_and_one_that_refuses_ends_the_step(
    players: Any, game: Callable[..., Task], at_server: Any
) -> None:
    server, replies = at_server(LEFT)
    server.failures = [503, 500]
    (one,) = await players(warn=lambda _: None).play([game()], replies)
    assert len(one.episode.turns) == 3 and len(server.asked) == 5
    server.failures = [400]
    with pytest.raises(RunError, match="with status 400") as caught:
        await players().play([game()], replies)
    assert caught.value.why == "the engine is dead"


async def test_what_a_server_leaves_out_is_never_made_up(
    players: Any, game: Callable[..., Task], at_server: Any
) -> None:
    _, replies = at_server(sample=lambda _: ([75, 76, 1], [float("nan"), None, -0.25]))
    (one,) = await players(max_turns=1, warn=lambda _: None).play([game()], replies)
    assert (one.completion_ids, one.logprobs) == ([75, 76, 1], [None, None, -0.25])
    _, replies = at_server(sample=lambda _: ([], []))
    (one,) = await players(max_turns=1, warn=lambda _: None).play([game()], replies)
    assert (one.completion_ids, one.logprobs) == ([1], [None])
    server, replies = at_server(LEFT)
    server.answer = lambda path, body: (
        200,
        {"data": [{"id": "m"}], "choices": [{"text": "left()"}]},
    )  # type: ignore[method-assign]
    with pytest.raises(RunError, match="without the tokens of a reply"):
        await players().play([game()], replies)
    with pytest.raises(RunError, match="does not answer"):
        await players().play(
            [game()], ServerReplies("http://127.0.0.1:9", SAMPLING, end=1, retry=Retry(1))
        )
