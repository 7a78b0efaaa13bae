"""Episodes in each dialect: the same calls, the same rewards, and what a model is sent."""

import contextlib
import json
import random
from dataclasses import replace

import pytest
from support.letters import Letters, ToolLetters
from support.played import play
from support.scripted_chat import scripted_chat

from hudtui.core.environment.values import ContentBlock, Tool, ToolResult
from hudtui.core.errors import InputError
from hudtui.core.gym.config import with_dialect
from hudtui.core.gym.dialects.known import DIALECTS
from hudtui.core.openenv.session import EpisodeSession, ServedTasks
from hudtui.core.rollouts.chat import ChatEndpoint, ChatOptions, ChatPolicy
from hudtui.core.rollouts.episode import EpisodePlayer, drive
from hudtui.core.rollouts.outcome import (
    EpisodeRemarks,
    cut_replies,
    other_dialects,
    outcome_of,
    unshown_answers,
    unshown_tools,
)
from hudtui.core.rollouts.policy import policy_source
from hudtui.core.rollouts.trace import episode_from_json, episode_to_json
from hudtui.core.tasks.task import ToolCall
from hudtui.core.training.chat_tokens import ChatTokens
from hudtui.core.training.tool_tokens import ToolTokens
from hudtui.trainers.replies import BatchReplies
from hudtui.trainers.rollout import EpisodeRunner

MOVES = ("left", "down", "right", "up", "left", "nothing", "down", "done")


def saying(dialect, moves=MOVES):
    declared, rest = DIALECTS[dialect], list(moves)

    async def complete(messages):
        complete.shown.append(messages)
        call = declared.write(rest.pop(0), {})
        return f"{declared.think('so')}\n{call}"

    complete.shown = []
    return complete


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_equal_calls_have_equal_rewards_in_every_dialect(session, config, task, dialect):
    plain = await play(session, config, task, saying("text"))
    calls, session.calls = session.calls, []
    spoken = await play(session, with_dialect(config, dialect), task, saying(dialect))
    assert session.calls == calls
    assert spoken.scores == plain.scores and spoken.stop == "done"
    assert [turn.call for turn in spoken.turns] == [turn.call for turn in plain.turns]
    assert [turn.observation for turn in spoken.turns] == [turn.observation for turn in plain.turns]
    read = episode_from_json(json.loads(json.dumps(episode_to_json(spoken))))
    assert read.turns == spoken.turns


async def test_what_a_model_is_told_of_the_tools(session, config, task):
    for dialect in DIALECTS:
        policy = saying(dialect)
        episode = await play(session, with_dialect(config, dialect), task, policy)
        system = episode.messages[0]["content"]
        told = DIALECTS[dialect].schemas == "prompt"
        assert system.startswith("Play 2048.") and (("left" in system) is told)
        assert episode.info.get("dialect") == (None if dialect == "text" else dialect)
    assert (await play(session, config, task, saying("text"))).messages[0]["content"] == (
        "Play 2048."
    )


async def test_hermes_answers_stand_between_tags(session, config, task):
    episode = await play(session, with_dialect(config, "hermes"), task, saying("hermes"))
    answer = episode.messages[3]["content"]
    assert answer == f"<tool_response>\n{episode.turns[0].observation}\n</tool_response>"


@pytest.mark.parametrize("name", ["random", "greedy"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_scripted_players_speak_each_dialect(session, config, task, name, dialect):
    rewards = []
    for spoken in ("text", dialect):
        changed = with_dialect(config, spoken)
        policy = policy_source(name, changed, seed=3).for_episode(task, 0)
        episode = await play(session, changed, task, policy, max_turns=5)
        assert not any(turn.is_error for turn in episode.turns)
        rewards.append((episode.scores, [turn.call for turn in episode.turns]))
    assert rewards[0] == rewards[1]


async def test_a_note_says_that_further_calls_are_not_played(session, config, task):
    hermes = DIALECTS["hermes"]
    both = hermes.write("left", {}) + hermes.write("down", {})

    async def complete(messages):
        return both

    first = await play(session, with_dialect(config, "hermes"), task, complete, max_turns=1)
    assert "only the first of your 2 calls was played" in first.turns[0].observation
    assert [name for name, _ in session.calls].count("move") == 1
    every = with_dialect(config, "hermes")
    every = replace(every, parser=replace(every.parser, parallel="all"))
    session.calls.clear()
    episode = await play(session, every, task, complete, max_turns=1)
    (turn,) = episode.turns
    assert [name for name, _ in session.calls].count("move") == 2
    assert turn.call["arguments"] == {"direction": "left"}
    assert [one["call"]["arguments"] for one in turn.more] == [{"direction": "down"}]
    assert turn.more[0]["observation"] in turn.observation
    assert episode.scores.tool_execution == 1.0
    read = episode_from_json(json.loads(json.dumps(episode_to_json(episode))))
    assert read.turns == episode.turns


def called(*names, content=None, **more):
    calls = [
        {"id": f"x{n}", "type": "function", "function": {"name": name, "arguments": "{}"}}
        for n, name in enumerate(names)
    ]
    message = {"role": "assistant", "content": content, "tool_calls": calls, **more}
    return (200, {"choices": [{"message": message}]})


@pytest.fixture
def over_endpoint(stub, session, task):
    async def go(config, *answers, **options):
        stub.answers = list(answers)
        settings = ChatOptions(base_url=stub.url, key="k" * 12, retries=0)
        async with ChatEndpoint("tiny", settings) as endpoint:
            player = EpisodePlayer(session, config, task, **options)
            return await drive(player, ChatPolicy(endpoint))

    return go


async def test_an_endpoint_calls_tools_by_itself(stub, config, session, over_endpoint):
    native = with_dialect(config, "native")
    answers = (
        called("left", reasoning_content="So <tool_call>{}</tool_call>"),
        called("down", "up", content="Both."),
        "I am done.",
    )
    episode = await over_endpoint(native, *answers)
    assert (episode.stop, episode.error) == ("done", None)
    moves = [arguments for name, arguments in session.calls if name == "move"]
    assert moves == [{"direction": "left"}, {"direction": "down"}]
    first, _, last = (request["body"] for request in stub.requests)
    names = [tool["function"]["name"] for tool in first["tools"]]
    assert "left" in names and "done" in names
    assert [one["role"] for one in last["messages"]] == [
        *("system", "user", "assistant", "tool", "assistant", "tool"),
    ]
    for said, heard in ((2, 3), (4, 5)):
        (call,) = last["messages"][said]["tool_calls"]
        assert last["messages"][heard]["tool_call_id"] == call["id"] and len(call["id"]) == 9
    assert last["messages"][4]["content"] == "Both."
    assert not any("reasoning_content" in message for message in last["messages"])
    assert "only the first of your 2 calls" in last["messages"][5]["content"]
    assert episode.turns[0].interpretation["think"].startswith("So ")
    assert episode.messages[2]["reasoning_content"].startswith("So ")


async def test_broken_arguments_are_told_to_the_model(stub, config, over_endpoint):
    broken = called("left")
    broken[1]["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"a": '
    episode = await over_endpoint(with_dialect(config, "native"), broken, "Done.")
    turn = episode.turns[0]
    assert turn.call is None and "the arguments of left" in turn.observation
    assert stub.requests[1]["body"]["messages"][-1]["role"] == "user"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, '"auto" tool choice requires --enable-auto-tool-choice'),
        (400, "llama2 does not support tools"),
        (404, "No endpoints found that support tool use"),
    ],
)
async def test_an_endpoint_that_refuses_tools_is_named(config, over_endpoint, status, message):
    refusal = (status, {"error": {"message": message}})
    episode = await over_endpoint(with_dialect(config, "native"), refusal)
    assert episode.stop == "error" and "takes no tools for tiny" in episode.error
    assert message in episode.error and "--dialect" in episode.error


async def test_replies_in_another_dialect_are_counted_and_named(session, config, task):
    episode = await play(session, config, task, saying("hermes"), max_turns=5)
    assert not any(turn.call for turn in episode.turns)
    assert episode.info["other_dialects"] == {"hermes": 5}
    outcome = outcome_of(episode)
    assert other_dialects([outcome], "text") == (
        "of 5 replies 5 made hermes calls; this configuration reads text: try --dialect hermes, "
        "or set parser.dialect"
    )
    assert outcome.to_json()["other_dialects"] == {"hermes": 5}
    good = outcome_of(await play(session, config, task, saying("text")))
    assert other_dialects([good], "text") is None and "other_dialects" not in good.to_json()


async def test_tool_calls_under_text_name_the_dialect(config, over_endpoint):
    episode = await over_endpoint(config, called("left"))
    assert "Set parser.dialect to native" in episode.error


def test_an_unknown_dialect_is_refused(config):
    with pytest.raises(InputError, match="no dialect hermez; did you mean hermes"):
        with_dialect(config, "hermez")
    assert with_dialect(config, None) is config


ACTIONS = ("left", "right", "up", "down", "nothing")
SCRIPTS = [
    random.Random(number).choices(ACTIONS, weights=(5, 5, 5, 5, 1), k=number % 6 + 1)
    for number in range(100)
]


async def test_a_hundred_native_episodes_have_one_reward_on_every_road(new_session, config, task):
    """`eval` with text, `eval` over an endpoint, the trainer, and OpenEnv."""
    native = with_dialect(config, "native")
    native = replace(native, parser=replace(native.parser, use_thinking=False))
    plain = replace(config, parser=replace(config.parser, use_thinking=False))

    @contextlib.asynccontextmanager
    async def connect(_):
        yield new_session()

    wanted, rewards = [], {"eval": [], "trainer": [], "openenv": []}
    for script in SCRIPTS:
        rest = [f"<tool>{name}()</tool>" for name in (*script, "done")]

        async def saying_text(messages, rest=rest):
            return rest.pop(0)

        episode = await play(new_session(), plain, task, saying_text)
        wanted.append(episode.scores.reward)

    said = []

    def answer(messages):
        turn = sum(message["role"] == "assistant" for message in messages)
        script = said[-1]
        if turn >= len(script):
            return "I am done."
        function = {"name": script[turn], "arguments": "{}"}
        call = {"id": "c", "type": "function", "function": function}
        return {"role": "assistant", "content": "", "tool_calls": [call]}

    with scripted_chat(answer) as chat:
        options = ChatOptions(base_url=chat.url, key="k" * 12)
        async with ChatEndpoint("tiny", options) as endpoint:
            for script in SCRIPTS:
                said.append(script)
                player = EpisodePlayer(new_session(), native, task)
                rewards["eval"].append((await drive(player, ChatPolicy(endpoint))).scores.reward)

    letters = ToolLetters()
    for script in SCRIPTS:
        rest = [DIALECTS["native"].write(name, {}) for name in script] + ["I am done."]

        def generate(prompts, rest=rest):
            ids = letters(rest.pop(0), add_special_tokens=False)["input_ids"]
            return [[*ids, letters.eos_token_id]], None

        runner = EpisodeRunner(
            native, ToolTokens(letters), connect, max_tokens=500, max_seq_len=1_000_000
        )
        (one,) = await runner.play([task], BatchReplies(generate))
        rewards["trainer"].append(one.reward)
        text = letters.decode(one.completion_ids)
        assert text.count("<|start|>tool\n") == len(script)

    for script in SCRIPTS:
        client = EpisodeSession(ServedTasks([task], native, connect))
        await client.reset({})
        for name in script:
            await client.step({"type": "call_tool", "tool_name": name, "arguments": {}})
        rewards["openenv"].append(await client.finish())
        await client.close()

    assert len(set(wanted)) > 5
    for road, found in rewards.items():
        assert found == wanted, road


EXAMPLES = """
examples:
  - {user: "2 2 . .", assistant: "<think>left</think><tool>left()</tool>"}
action_mappings:
  left: {_tool: move, direction: {static: left}}
"""


async def test_examples_are_sent_where_calls_stand_in_the_text(new_session, make_config, task):
    @contextlib.asynccontextmanager
    async def connect(_):
        yield new_session()

    for dialect in DIALECTS:
        config = with_dialect(make_config(EXAMPLES), dialect)
        shown = 0 if DIALECTS[dialect].schemas == "apart" else 1
        assert len(config.opening()) == 2 * shown
        client = EpisodeSession(ServedTasks([task], config, connect))
        assert len((await client.reset({}))["observation"]["examples"]) == shown
        await client.close()


THOUGHTFUL = '<think>Left?</think>\nI go left.\n<tool_call>\n{"name": "left", "arguments": {}}'
WHOLE = f"{THOUGHTFUL}\n</tool_call>"
CUT = "the reply was cut off at its limit of tokens, without a whole call"


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_reply_cut_off_anywhere_ends_no_episode(session, config, task, dialect):
    declared = DIALECTS[dialect]
    whole = f"{declared.think('Left?')}\nI go left.\n{declared.write('left', {})}"
    interpreter = EpisodePlayer(session, with_dialect(config, dialect), task)
    calls = set()
    for size in range(len(whole) + 1):
        meaning = interpreter.interpret(whole[:size], cut=True)
        assert not meaning.done
        if meaning.call is None:
            assert meaning.error.stage == "tags" and meaning.error.message.startswith(CUT)
            assert meaning.format == (0, 0)
        else:
            calls.add(meaning.call.arguments["direction"])
    assert calls == {"left"}


async def test_an_endpoint_that_cuts_a_reply_ends_no_episode(stub, config, over_endpoint, session):
    def cut(**message):
        message = {"role": "assistant", "content": None, **message}
        return (200, {"choices": [{"message": message, "finish_reason": "length"}]})

    native = with_dialect(config, "native")
    half = {"name": "down", "arguments": '{"a": "b'}
    answers = (
        cut(reasoning_content="I think and think"),
        cut(content="The best move is"),
        cut(tool_calls=[{"id": "x", "type": "function", "function": half}]),
        cut(**called("left")[1]["choices"][0]["message"]),
        "I am done.",
    )
    episode = await over_endpoint(native, *answers)
    assert episode.stop == "done" and [turn.cut for turn in episode.turns] == [True] * 4 + [False]
    assert [bool(turn.call) for turn in episode.turns] == [False, False, False, True, False]
    assert all(CUT in turn.observation for turn in episode.turns[:3])
    assert CUT in stub.requests[1]["body"]["messages"][-1]["content"]
    assert episode.scores.format_compliance == pytest.approx(0.6 * 2 / 5 + 0.4 * 2 / 3)
    outcome = outcome_of(episode_from_json(json.loads(json.dumps(episode_to_json(episode)))))
    assert outcome.cut == outcome.to_json()["cut"] == 4
    assert cut_replies([outcome]).startswith("4 of 5 replies were cut off")
    assert cut_replies([]) is None


async def test_a_cut_reply_has_one_reward_on_every_road(new_session, config, task):
    native = with_dialect(config, "native")
    script = [("I go", True), (WHOLE, True), ("", True), (THOUGHTFUL, True), ("Done.", False)]

    class Cutting:
        cut = False

        def __init__(self):
            self.rest = list(script)

        async def __call__(self, messages):
            text, self.cut = self.rest.pop(0)
            return text

    @contextlib.asynccontextmanager
    async def connect(_):
        yield new_session()

    played = await play(new_session(), native, task, Cutting())
    assert played.stop == "done" and [turn.cut for turn in played.turns] == [True] * 4 + [False]

    letters, rest, longest = ToolLetters(), list(script), 200

    def generate(prompts):
        text, cut = rest.pop(0)
        ids = letters(text + " " * (longest * cut), add_special_tokens=False)["input_ids"]
        return [ids[:longest] if cut else [*ids, letters.eos_token_id]], None

    runner = EpisodeRunner(
        native, ToolTokens(letters), connect, max_tokens=longest, max_seq_len=1_000_000
    )
    (trained,) = await runner.play([task], BatchReplies(generate))
    client = EpisodeSession(ServedTasks([task], native, connect))
    await client.reset({})
    for text, cut in script:
        answer = await client.step({"reply": text, "cut": cut})
    await client.close()
    assert trained.episode.scores == played.scores
    assert answer["reward"] == trained.reward == played.scores.reward
    assert [turn.observation for turn in trained.episode.turns] == [
        turn.observation for turn in played.turns
    ]


async def test_the_trainer_counts_the_tokens_of_many_tools(new_session, config, task):
    @contextlib.asynccontextmanager
    async def connect(_):
        session = new_session()
        move = session.tools["move"]
        session.tools = {**session.tools, "move": replace(move, description="Words. " * 400)}
        yield session

    native, letters, warnings = with_dialect(config, "native"), ToolLetters(), []

    def generate(prompts):
        return [[letters.eos_token_id] for _ in prompts], None

    scribe = ToolTokens(letters)
    runner = EpisodeRunner(
        native, scribe, connect, max_tokens=9, max_seq_len=1_000_000, warn=warnings.append
    )
    (one,) = await runner.play([task], BatchReplies(generate))
    opening = one.episode.messages[:2]
    schemas = len(one.prompt_ids) - len(scribe.open(opening).ids)
    assert schemas > 5_000, "one letter is one token"
    said = f"tools take {schemas:,} in every request, as the model's tokenizer counts"
    assert any(said in text for text in warnings), warnings


class Counting:
    """Answers with a text that says little of the structured content."""

    def __init__(self):
        self.tools = {"move": Tool("move", "", {"type": "object"})}

    async def call_tool(self, name, arguments, *, timeout=None):
        if name == "evaluate":
            return ToolResult((), structured={"reward": 1.0})
        return ToolResult((ContentBlock("text", text="moved"),), structured={"score": 74})


@pytest.mark.parametrize(
    ("observations", "shown", "warned"),
    [
        ("text", "moved", True),
        ("structured", '{"score": 74}', False),
        ("both", 'moved\n{"score": 74}', False),
    ],
)
async def test_what_is_shown_of_answers_is_one_thing_on_every_road(
    make_config, task, observations, shown, warned
):
    config = make_config(
        f"observations: {observations}\naction_mappings: {{left: {{_tool: move}}}}"
    )
    task = replace(task, setup=(), evaluate=(ToolCall("evaluate", {}),))

    @contextlib.asynccontextmanager
    async def connect(_):
        yield Counting()

    episode = await play(Counting(), config, task, saying("text", ("left", "done")))
    assert episode.turns[0].observation == shown
    names = unshown_tools(episode)
    assert names == outcome_of(episode).unshown == (("move",) if warned else ())
    assert (unshown_answers(names, observations) is not None) is warned
    remarks = EpisodeRemarks(config)
    assert [len(list(remarks.about(episode))) for _ in range(2)] == [int(warned), 0]
    client = EpisodeSession(ServedTasks([task], config, connect))
    await client.reset({})
    answer = await client.step({"type": "call_tool", "tool_name": "left", "arguments": {}})
    assert answer["observation"]["text"] == shown
    await client.close()

    letters, warnings = Letters(), []

    def generate(prompts):
        said = "<think>x</think><tool>left()</tool>"
        ids = letters(said, add_special_tokens=False)["input_ids"]
        return [[*ids, letters.eos_token_id]], None

    runner = EpisodeRunner(
        config,
        ChatTokens(letters),
        connect,
        max_tokens=500,
        max_seq_len=1_000_000,
        max_turns=1,
        warn=warnings.append,
    )
    (one,) = await runner.play([task], BatchReplies(generate))
    assert one.episode.turns[0].observation == shown
    assert any("hold more than the agent is shown" in text for text in warnings) is warned
