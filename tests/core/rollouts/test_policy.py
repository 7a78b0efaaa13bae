import asyncio

import pytest
from support.played import play

from hudtui.core.errors import InputError
from hudtui.core.rollouts.chat import ChatOptions, PolicyError
from hudtui.core.rollouts.policy import (
    default_policy,
    direction_calls,
    plain_calls,
    policy_names,
    policy_source,
)
from hudtui.core.rollouts.trace import write_episode
from hudtui.core.tasks.task import Task
from hudtui.envs.text_2048.players import PREFERENCE

PLAIN = "action_mappings:\n" + "".join(
    f"  {name}: {{_tool: move, direction: {{static: {name}}}}}\n" for name in PREFERENCE
)
ONE = (
    "action_mappings:\n  move: {_tool: move, _parser: {positional: [direction]}, direction: "
    "{from_arg: direction}}\n"
)
OTHER_NAMES = (
    "action_mappings:\n"
    "  restart: {_tool: setup}\n"
    "  push: {_tool: move, _parser: {positional: [to]}, direction: {from_arg: to, transform: "
    "'lambda x: x.lower()'}}\n"
)
SHORT = "action_mappings:\n" + "".join(
    f"  {name[0]}: {{_tool: move, direction: {name}}}\n" for name in PREFERENCE
)
NAMES_ALONE = "action_mappings:\n" + "".join(
    f"  {name.title()}: {{_tool: press, key: {n}}}\n" for n, name in enumerate(PREFERENCE)
)
NO_TASK = Task(id="", prompt="")
CROSSED = (
    "action_mappings:\n  left: {_tool: move, direction: right}\n  right: {_tool: move, direction: "
    "left}\n"
)


def board(text):
    return ({"role": "user", "content": text},)


def make_policy(name, config, *, seed=0, task=NO_TASK, rollout=0):
    """One policy, for one episode."""
    return policy_source(name, config, seed=seed).for_episode(task, rollout)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (PLAIN, "left()"),
        (ONE, 'move("left")'),
        (OTHER_NAMES, 'push("left")'),
        (SHORT, "l()"),
        (NAMES_ALONE, "Left()"),
    ],
)
def test_what_to_say_for_a_direction(make_config, text, left):
    calls = direction_calls(make_config(text))
    assert list(calls) == list(PREFERENCE)
    assert calls["left"] == left


def test_what_is_sent_counts_more_than_what_it_is_called(make_config):
    assert direction_calls(make_config(CROSSED)) == {"left": "right()", "right": "left()"}


@pytest.mark.parametrize("text", [PLAIN, ONE, OTHER_NAMES, SHORT])
async def test_greedy_plays_any_configuration(make_config, new_session, task, text):
    config = make_config(text)
    episode = await play(new_session(), config, task, make_policy("greedy", config), max_turns=60)
    assert (episode.stop, episode.scores.tool_execution, episode.scores.format_compliance) == (
        "max_turns",
        1,
        1,
    )
    assert episode.scores.task_completion > 0.6


async def test_greedy_chooses_the_merge(make_config):
    policy = make_policy("greedy", make_config(PLAIN))
    assert (
        await policy(board("2 .\n2 4"))
        == "<think>Down gains most now.</think>\n<tool>down()</tool>"
    )
    assert "done()" in await policy(board("2 4\n4 2"))


async def test_without_thinking_only_the_call_is_said(make_config):
    config = make_config("parser: {use_thinking: false}\n" + PLAIN)
    assert await make_policy("greedy", config)(board("2 2\n. .")) == "<tool>left()</tool>"


async def test_the_board_before_a_refused_call_stays_in_force(make_config):
    policy = make_policy("greedy", make_config(PLAIN))
    messages = (
        *board("2 .\n2 4"),
        {"role": "assistant", "content": "4 4\n4 4"},
        *board("error: no"),
    )
    assert "down()" in await policy(messages)
    parts = (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "2 .\n2 4"},
                {"type": "image_url", "image_url": {}},
            ],
        },
    )
    assert "down()" in await policy(parts)


async def test_greedy_without_a_board(make_config):
    with pytest.raises(PolicyError, match="no 2048 board"):
        await make_policy("greedy", make_config(PLAIN))(board("hello"))


async def test_random_play_is_repeatable(make_config, new_session, task):
    config = make_config(PLAIN)

    async def replies(seed, rollout=0):
        policy = make_policy("random", config, seed=seed, task=task, rollout=rollout)
        return [
            turn.reply
            for turn in (await play(new_session(), config, task, policy, max_turns=20)).turns
        ]

    assert await replies(1) == await replies(1)
    assert len({tuple(await replies(seed, rollout)) for seed in (1, 2) for rollout in (0, 1)}) == 4


async def test_random_ends_a_game_that_is_over(make_config):
    policy = make_policy("random", make_config(PLAIN))
    assert "done()" in await policy(board("2 4\n4 2"))
    assert "done()" not in await policy(board("no board here"))


async def test_random_plays_what_is_no_2048(make_config):
    config = make_config(
        "action_mappings:\n  look: {_tool: look}\n  wait: {_tool: w, _parser: {positional: [s]}, "
        "s: {from_arg: s, default: 1}}\n"
        "  key: {_tool: k, _parser: {positional: [x]}, x: {from_arg: x, transform: 'lambda x: "
        "x.upper()'}}\n"
    )
    assert {"look()", "wait()"} <= set(plain_calls(config))
    policy = make_policy("random", config)
    said = {(await policy(board(""))).partition("<tool>")[2] for _ in range(40)}
    assert {"look()</tool>", "wait()</tool>"} <= said


async def test_random_plays_the_calls_that_the_prompt_shows(make_config):
    config = make_config(
        "system_prompt: |\n"
        "  <tool>add(1, 2)</tool> <tool>add(3, 4)</tool> <tool>add(1, 2)</tool>\n"
        '  <tool>look()</tool> <tool>jump("x")</tool> <tool>add(</tool> <tool>done()</tool>\n'
        "action_mappings:\n  add: {_tool: add, _parser: {positional: [a, b]}, a: {from_arg: a}, "
        "b: {from_arg: b}}\n  look: {_tool: look}\n  wait: {_tool: wait}\n"
    )
    calls = ["add(1, 2)", "add(3, 4)", "look()", "wait()"]
    assert plain_calls(config) == calls
    policy = make_policy("random", config)
    said = {(await policy(board(""))).partition("<tool>")[2] for _ in range(60)}
    assert said == {f"{call}</tool>" for call in calls}


@pytest.mark.parametrize(
    ("name", "text"), [("greedy", CROSSED), ("random", "action_mappings: {}\n")]
)
def test_a_configuration_with_nothing_to_say(make_config, name, text):
    with pytest.raises(InputError, match=f"the policy {name} cannot play") as caught:
        policy_source(name, make_config(text))
    assert "config.yaml has no action for" in caught.value.why


@pytest.mark.parametrize(
    "name", ["", "greed", "greedy:x", "replay", "replay:", "openai", "openai:", "human"]
)
def test_policies_that_there_are_not(make_config, name):
    with pytest.raises(InputError, match="no policy") as caught:
        policy_source(name, make_config(PLAIN))
    assert "openai:<model>" in caught.value.fix


async def test_replay_repeats_an_episode_word_for_word(make_config, new_session, task, tmp_path):
    config = make_config(PLAIN)
    trace = tmp_path / "traces.jsonl"
    recorded = []
    for rollout in (0, 1):
        policy = make_policy("random", config, task=task, rollout=rollout)
        episode = await play(
            new_session(), config, task, policy, max_turns=15, info={"rollout": rollout}
        )
        recorded.append(episode)
        write_episode(trace, episode)
    source = policy_source(f"replay:{trace}", config)
    for rollout in (1, 0):
        again = await play(
            new_session(), config, task, source.for_episode(task, rollout), max_turns=15
        )
        assert [turn.observation for turn in again.turns] == [
            turn.observation for turn in recorded[rollout].turns
        ]
        assert again.scores == recorded[rollout].scores
    longer = await play(new_session(), config, task, source.for_episode(task, 0), max_turns=16)
    assert (longer.stop, longer.error) == ("error", "the recorded episode ends after 15 replies")
    missing = await play(new_session(), config, task, source.for_episode(task, 2))
    assert "holds no rollout 2 of the task board" in missing.error
    await source.aclose()


def test_replay_of_what_is_no_trace(make_config, tmp_path):
    with pytest.raises(InputError, match="no such file"):
        policy_source(f"replay:{tmp_path / 'none'}", make_config(PLAIN))
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="holds no episode"):
        policy_source(f"replay:{tmp_path / 'empty'}", make_config(PLAIN))


async def test_a_model_plays(stub, make_config, new_session, task):
    config = make_config(PLAIN)
    stub.answers = ["<think>a</think><tool>left()</tool>", "<think>b</think><tool>done()</tool>"]
    source = policy_source(
        "openai:org/tiny", config, endpoint=ChatOptions(base_url=stub.url), seed=3, send_seed=True
    )
    try:
        policy = source.for_episode(task, 0)
        episode = await play(new_session(), config, task, policy)
        assert (episode.stop, len(episode.turns)) == ("done", 2)
        assert policy.usage.requests == 2
        seeds = {request["body"]["seed"] for request in stub.requests}
        assert len(seeds) == 1
        stub.answers = ["<tool>done()</tool>"]
        await play(new_session(), config, task, source.for_episode(task, 1))
        assert stub.requests[-1]["body"]["seed"] not in seeds
        assert stub.requests[-1]["body"]["model"] == "org/tiny"
    finally:
        await source.aclose()


async def test_many_episodes_share_an_endpoint(stub, make_config, new_session, task):
    config = make_config(PLAIN)
    stub.answers = ["<tool>done()</tool>"]
    source = policy_source("openai:tiny", config, endpoint=ChatOptions(base_url=stub.url))
    try:
        played = await asyncio.gather(
            *(play(new_session(), config, task, source.for_episode(task, n)) for n in range(10))
        )
    finally:
        await source.aclose()
    assert [episode.stop for episode in played] == ["done"] * 10
    assert all("seed" not in request["body"] for request in stub.requests)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (PLAIN, ("greedy", "random", "solution")),
        (ONE, ("greedy", "random", "solution")),
        (
            "action_mappings:\n  left: {_tool: move, direction: {static: left}}\n",
            ("random", "solution"),
        ),
        ("action_mappings:\n  look: {_tool: look}\n", ("random", "solution")),
        (
            "action_mappings:\n  list: {_parser: {positional: [path]}, _tool: list_directory, "
            "path: {from_arg: path}}\n",
            ("random", "solution"),
        ),
        (
            "action_mappings:\n  move: {_parser: {positional: [a, b]}, _tool: move_file, "
            "from: {from_arg: a}, to: {from_arg: b}}\n",
            ("random", "solution"),
        ),
        (
            "action_mappings:\n  go: {_parser: {positional: [way]}, _tool: moveTiles, "
            "way: {from_arg: way}}\n",
            ("greedy", "random", "solution"),
        ),
        ("allow_unmapped: true\n", ("random", "solution")),
    ],
)
def test_the_player_of_2048_is_offered_for_2048_alone(make_config, text, names):
    config = make_config(text)
    assert policy_names(config) == names and default_policy(config) == names[0]


def test_a_task_without_a_solution_is_named(make_config, task):
    source = policy_source("solution", make_config(ONE))
    with pytest.raises(InputError, match="task board has no solution"):
        source.for_episode(task, 0)
