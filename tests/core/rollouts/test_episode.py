import asyncio
import base64
import json
from dataclasses import replace

import pytest
from support.played import play

from hudtui.core.environment.values import ContentBlock, Tool, ToolResult
from hudtui.core.errors import ConnectError, ToolError
from hudtui.core.rollouts.chat import PolicyError
from hudtui.core.rollouts.episode import EpisodePlayer, judging_actions
from hudtui.core.rollouts.observation import OBSERVATION_LIMIT
from hudtui.core.rollouts.policy import policy_source
from hudtui.core.rollouts.reward import with_reward
from hudtui.core.rollouts.trace import transcript
from hudtui.core.rollouts.values import KeptImage, plain_number
from hudtui.core.tasks.task import ToolCall

LEFT = "<think>left</think>\n<tool>left()</tool>"
DOWN = "<think>down</think>\n<tool>down()</tool>"
DONE = "<think>over</think>\n<tool>done()</tool>"


def saying(*replies):
    """A policy that says these, the last one again and again; it keeps what it was shown."""
    left = list(replies)

    async def complete(messages):
        complete.shown.append(messages)
        return left.pop(0) if len(left) > 1 else left[0]

    complete.shown = []
    return complete


def text(value, **more):
    return ToolResult((ContentBlock("text", text=value),), **more)


async def test_set_up_turns_and_evaluation_in_order(session, config, task):
    policy = saying(LEFT, DOWN, DONE)
    episode = await play(session, config, task, policy, info={"policy": "x"})
    assert [name for name, _ in session.calls] == ["setup", "move", "move", "evaluate"]
    assert session.calls[0] == (
        "setup",
        {"name": "board", "arguments": {"board_size": 4, "seed": 7}},
    )
    assert (episode.stop, episode.error, episode.task_id, episode.info) == (
        "done",
        None,
        "board",
        {"policy": "x"},
    )
    roles = [message["role"] for message in episode.messages]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user", "assistant"]
    system, opening = episode.messages[:2]
    assert system["content"] == "Play 2048."
    assert opening["content"].startswith("Reach 64.\n\nA new game on 4x4. Score 0")
    assert policy.shown[0] == episode.messages[:2]
    assert policy.shown[2] == episode.messages[:6]
    first, _, last = episode.turns
    assert first.call == {"tool": "move", "arguments": {"direction": "left"}}
    assert first.observation == episode.messages[3]["content"] and "left" in first.observation
    assert first.result["moves"] <= 1
    assert (last.call, last.observation, last.is_error) == (None, "", False)
    assert episode.evaluation["info"]["target"] == 64


EXAMPLES = """
system_prompt: Play 2048.
examples:
  - {user: "2 2 . .", assistant: "<think>left</think><tool>left()</tool>"}
  - {user: "4 . . .", assistant: "<think>over</think><tool>done()</tool>"}
action_mappings:
  left: {_tool: move, direction: {static: left}}
  right: {_tool: move, direction: {static: right}}
  up: {_tool: move, direction: {static: up}}
  down: {_tool: move, direction: {static: down}}
defaults: {max_turns: 2}
"""


async def test_examples_are_turns_between_prompt_and_task_that_earn_nothing(
    session, make_config, task
):
    policy = saying(LEFT)
    episode = await play(session, make_config(EXAMPLES), task, policy)
    opening = [(message["role"], message["content"]) for message in policy.shown[0]]
    assert opening[:-1] == [
        ("system", "Play 2048."),
        ("user", "2 2 . ."),
        ("assistant", "<think>left</think><tool>left()</tool>"),
        ("user", "4 . . ."),
        ("assistant", "<think>over</think><tool>done()</tool>"),
    ]
    assert opening[-1][0] == "user" and opening[-1][1].startswith("Reach 64.")
    assert (
        len(episode.turns) == 2 and len([call for call, _ in session.calls if call == "move"]) == 2
    )
    shown = transcript(episode)
    assert "## opening\nReach 64." in shown and "2 2 . ." not in shown


async def test_the_scripted_players_do_not_take_a_board_of_the_examples_for_the_game(
    new_session, make_config, task
):
    board = new_session(3)
    drawn = await board.call_tool(
        "setup", {"name": "board", "arguments": {"board_size": 4, "seed": 3}}
    )
    rounds = f"examples:\n  - {json.dumps({'user': drawn.text, 'assistant': LEFT})}\n"
    config = make_config(
        EXAMPLES.partition("examples:")[0] + rounds + "action" + EXAMPLES.partition("action")[2]
    )
    source = policy_source("greedy", config)
    with pytest.raises(PolicyError, match="sees no 2048 board"):
        await source.for_episode(task, 0)(
            [*config.opening(), {"role": "user", "content": "Nothing to see."}]
        )


async def test_a_task_adds_to_the_prompt_and_names_the_tools_of_its_agent(
    session, make_config, task
):
    session.tools["look"] = Tool("look", "See the board.", {"type": "object"})
    config = make_config(
        "system_prompt: Play.\naction_mappings: {left: {_tool: move, direction: left}, look: "
        "{_tool: look}}\n"
    )
    asked = {
        "system_prompt": "Be quick.",
        "allowed_tools": ["mo*", "look"],
        "disallowed_tools": ["look"],
    }
    task = replace(
        task, extra={"agent_config": json.dumps(asked), "system_prompt": "Four by four."}
    )
    player = EpisodePlayer(session, config, task)
    (system, *_) = await player.start()
    assert system == {"role": "system", "content": "Play.\n\nFour by four.\n\nBe quick."}
    assert [tool.name for tool in player.actions] == ["left", "done"]
    refused = await player.step("<think>x</think><tool>look()</tool>")
    assert (
        refused.observation == "error: look is not allowed in this task; the agent cannot call it"
        and refused.call is None
    )
    assert not (await player.step(LEFT)).is_error
    assert (await player.finish()).scores.reward_found  # the task's own tools need no permission


@pytest.mark.parametrize("flag", ["append_setup_output", "append_setup_tool"])
async def test_a_task_may_hide_what_its_set_up_answered(session, config, task, flag):
    policy = saying(DONE)
    await play(session, config, replace(task, extra={"agent_config": {flag: False}}), policy)
    assert policy.shown[0][-1] == {"role": "user", "content": "Reach 64."}


async def test_several_set_up_calls_are_made_in_order_and_shown_together(session, config, task):
    picture = ContentBlock("image", data="aGVsbG8=", mime_type="image/png")
    answers = [ToolResult((picture, ContentBlock("text", text="the first"))), text("the second")]
    session.before = lambda name, arguments: answers.pop(0) if name == "setup" else None
    policy = saying(DONE)
    policy.wants_images = True
    calls = tuple(ToolCall("setup", {"name": name}) for name in ("one", "two"))
    await play(session, config, replace(task, setup=calls), policy)
    assert [arguments["name"] for name, arguments in session.calls if name == "setup"] == [
        "one",
        "two",
    ]
    told, shown = policy.shown[0][-1]["content"]
    assert told == {"type": "text", "text": "Reach 64.\n\nthe first\n\nthe second"}
    assert shown == {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}


async def test_the_first_set_up_call_that_fails_ends_the_episode(session, config, task):
    answers = [text("fine"), text("no disk", is_error=True)]
    session.before = lambda name, arguments: answers.pop(0) if name == "setup" else None
    episode = await play(session, config, replace(task, setup=task.setup * 3), saying(DONE))
    assert (episode.stop, episode.error) == (
        "error",
        "the setup failed: setup answered with error: no disk",
    )
    assert [name for name, _ in session.calls] == ["setup", "setup"]


async def test_scores_are_the_weighted_sum(session, make_config, task):
    config = make_config(
        "system_prompt: x\nparser: {use_thinking: true, xml_weight: 0.6, action_weight: 0.4}\n"
        "action_mappings: {left: {_tool: move, direction: left}}\n"
        "rubric: {weights: {task_completion: 0.5, tool_execution: 0.3, format_compliance: 0.2}}\n"
    )
    # Three replies have both tags; one is mere chatter. Two of three calls succeed: `wrong` is no
    # action.
    episode = await play(
        session,
        config,
        task,
        saying(LEFT, LEFT, "chatter", "<think>?</think><tool>wrong()</tool>", DONE),
    )
    scores = episode.scores
    assert scores.reward_found and 0 < scores.task_completion < 1
    assert scores.task_completion == episode.evaluation["reward"]
    assert scores.tool_execution == pytest.approx(2 / 3)
    assert 0 < scores.format_compliance < 1
    assert scores.reward == pytest.approx(
        0.5 * scores.task_completion + 0.3 * scores.tool_execution + 0.2 * scores.format_compliance
    )


async def test_the_limit_of_turns_still_evaluates(session, config, task):
    episode = await play(session, config, task, saying(LEFT, DOWN, LEFT), max_turns=3)
    assert (episode.stop, len(episode.turns)) == ("max_turns", 3)
    assert session.calls[-1][0] == "evaluate" and episode.scores.reward_found
    assert len((await play(session, config, task, saying(LEFT))).turns) == config.max_turns


async def test_refusals_go_back_as_text_and_reach_no_server(session, config, task):
    replies = [
        "no tags at all",
        "<tool>left(</tool>",
        "<tool>lfet()</tool>",
        "<tool>left(1)</tool>",
    ]
    episode = await play(session, config, task, saying(*replies, DONE))
    assert [name for name, _ in session.calls] == ["setup", "evaluate"]
    for turn, message in zip(episode.turns, episode.messages[3::2], strict=False):
        assert turn.is_error and turn.call is None
        assert message["role"] == "user" and message["content"] == turn.observation
        assert turn.observation.startswith("error: ") and len(turn.observation) > 12
    assert "left" in episode.turns[2].observation  # did you mean
    assert episode.scores.tool_execution == 0


async def test_an_error_of_the_tool_goes_back_too(session, config, task):
    session.before = lambda name, arguments: (
        text("the board is on fire", is_error=True) if name == "move" else None
    )
    episode = await play(session, config, task, saying(LEFT, DONE))
    assert episode.turns[0].is_error
    assert episode.turns[0].call is not None
    assert episode.messages[3]["content"] == "error: the board is on fire"
    assert (episode.scores.tool_execution, episode.stop) == (0, "done")


@pytest.mark.parametrize(
    "reply",
    [
        "<tool>judge()</tool>",
        "<tool>evaluate('max_number')</tool>",
        "<tool>setup('board')</tool>",
        "<tool>int_max_number(2)</tool>",
    ],
)
async def test_the_tasks_own_tools_are_out_of_reach(session, make_config, task, reply):
    config = make_config(
        "allow_unmapped: true\naction_mappings:\n  judge: {_tool: evaluate, name: max_number}\n"
    )
    episode = await play(session, config, task, saying(reply, DONE))
    assert [name for name, _ in session.calls] == ["setup", "evaluate"]
    assert episode.turns[0].is_error and episode.turns[0].call is None


SHARED = ToolCall("move", {"direction": "left"})


async def test_a_tool_that_sets_the_task_up_is_the_agents_too_where_a_mapping_names_it(
    session, make_config, task
):
    task = replace(task, setup=(SHARED,))
    config = make_config(
        "allow_unmapped: true\naction_mappings:\n  left: {_tool: move, direction: left}\n"
    )
    player = EpisodePlayer(session, config, task)
    assert [tool.name for tool in player.actions] == ["left", "done"], (
        "the tool itself is not offered"
    )
    await player.start()
    assert (await player.step("<tool>left()</tool>")).call == {
        "tool": "move",
        "arguments": {"direction": "left"},
    }
    refused = await player.step("<tool>move(direction='up')</tool>")
    assert refused.call is None and "unknown action move" in refused.observation
    assert [name for name, _ in session.calls] == ["move", "move"]


async def test_a_task_may_share_its_setup_tools_with_the_agent(session, make_config, task):
    shares = {"agent_config": {"allow_setup_tools": True}}
    config = make_config("allow_unmapped: true\naction_mappings: {}\n")
    player = EpisodePlayer(session, config, replace(task, setup=(SHARED,), extra=shares))
    assert "move" in [tool.name for tool in player.actions]
    await player.start()
    assert (await player.step("<tool>move(direction='up')</tool>")).call is not None
    judged = replace(task, evaluate=(SHARED,), extra=shares)
    assert "move" not in [tool.name for tool in EpisodePlayer(session, config, judged).actions]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"evaluate": (SHARED,)}, "move judges this task"),
        ({"setup": (SHARED,), "evaluate": (SHARED,)}, "move judges this task"),
        (
            {"setup": (SHARED,), "extra": {"agent_config": {"disallowed_tools": ["move"]}}},
            "move is not allowed in this task",
        ),
    ],
)
async def test_a_mapping_opens_neither_what_judges_nor_what_the_task_forbids(
    session, config, task, changes, words
):
    episode = await play(session, config, replace(task, **changes), saying(LEFT, DONE))
    assert episode.turns[0].call is None and words in episode.turns[0].observation


@pytest.mark.parametrize("kind", ["setup", "evaluate", "hidden"])
async def test_a_mapping_opens_no_tool_that_is_the_environments_own(session, config, task, kind):
    session.tools = {**session.tools, "move": replace(session.tools["move"], kind=kind)}
    episode = await play(session, config, replace(task, setup=(SHARED,)), saying(LEFT, DONE))
    assert episode.turns[0].call is None and episode.turns[0].is_error


def test_actions_that_judge_are_told_of(config, task):
    assert judging_actions(config, [replace(task, evaluate=(ToolCall("measure", {}),))]) is None
    told = judging_actions(config, [replace(task, evaluate=()), replace(task, evaluate=(SHARED,))])
    assert told is not None and told.startswith(
        "left, right, up, down cannot be called: the tool judges task board"
    )


async def test_a_mapping_to_a_tool_that_is_not_there(session, config, task):
    episode = await play(session, config, task, saying("<tool>ghost()</tool>", DONE))
    assert "teleport" in episode.turns[0].observation
    assert [name for name, _ in session.calls] == ["setup", "evaluate"]


async def test_allow_unmapped_reaches_the_agents_tools(session, make_config, task):
    config = make_config("allow_unmapped: true\naction_mappings: {}\n")
    episode = await play(session, config, task, saying('<tool>move(direction="left")</tool>', DONE))
    assert episode.turns[0].call == {"tool": "move", "arguments": {"direction": "left"}}


async def test_the_environment_dies_in_the_middle(session, config, task):
    def die(name, arguments):
        if len(session.calls) == 3:
            raise ConnectError("the server died", why="Segmentation fault", fix="Look at its log.")

    session.before = die
    episode = await play(session, config, task, saying(LEFT))
    assert (episode.stop, episode.error) == (
        "error",
        "the server died; Segmentation fault; Look at its log.",
    )
    assert len(episode.turns) == 2 and episode.turns[1].is_error
    assert [name for name, _ in session.calls] == [
        "setup",
        "move",
        "move",
    ]  # nobody is there to evaluate
    assert (episode.scores.task_completion, episode.scores.reward_found) == (0, False)


async def test_the_environment_dies_before_it_judges(session, config, task):
    def die(name, arguments):
        if name == "evaluate":
            raise ConnectError("it is gone")

    session.before = die
    episode = await play(session, config, task, saying(LEFT, DONE))
    assert (episode.stop, episode.error) == ("error", "evaluation, evaluate: it is gone")
    assert len(episode.turns) == 2 and not episode.scores.reward_found


@pytest.mark.parametrize("failure", [ConnectError("nobody there"), RuntimeError("bug"), "error"])
async def test_a_set_up_that_fails(session, config, task, failure):
    def fail(name, arguments):
        if failure == "error":
            return text("no such board", is_error=True)
        raise failure

    session.before = fail
    episode = await play(session, config, task, saying(LEFT))
    assert episode.stop == "error" and episode.turns == ()
    expected = {"error": "no such board"}.get(str(failure), str(failure))
    assert expected in episode.error
    assert [name for name, _ in session.calls] == ["setup"]


async def test_a_protocol_refusal_of_one_call_is_the_agents_affair(session, config, task):
    def refuse(name, arguments):
        if name == "move":
            raise ToolError("invalid params")

    session.before = refuse
    episode = await play(session, config, task, saying(LEFT, DONE))
    assert (episode.stop, episode.turns[0].observation) == ("done", "error: invalid params")


@pytest.mark.parametrize(
    "failure", [PolicyError("no key", fix="Set one."), ValueError("odd"), TypeError()]
)
async def test_a_policy_that_fails_ends_the_episode_with_what_it_earned(
    session, config, task, failure
):
    said = saying(LEFT)

    async def complete(messages):
        if len(said.shown) == 2:
            raise failure
        return await said(messages)

    episode = await play(session, config, task, complete)
    assert (episode.stop, len(episode.turns)) == ("error", 2)
    assert (
        episode.error
        == {PolicyError: "no key; Set one.", ValueError: "ValueError: odd", TypeError: "TypeError"}[
            type(failure)
        ]
    )
    assert session.calls[-1][0] == "evaluate" and episode.scores.reward_found


@pytest.mark.parametrize("reply", [None, 3, b"x"])
async def test_a_policy_that_does_not_speak(session, config, task, reply):
    episode = await play(session, config, task, saying(reply))
    assert episode.stop == "error" and "text" in episode.error


async def test_cancelling_leaves_the_session_usable(session, config, task):
    inside = asyncio.Event()

    async def hang(name, arguments):
        inside.set()
        await asyncio.sleep(60)

    session.before = lambda name, arguments: hang(name, arguments) if name == "move" else None
    work = asyncio.create_task(play(session, config, task, saying(LEFT)))
    await inside.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert [name for name, _ in session.calls] == ["setup", "move"]
    session.before = None
    assert (await play(session, config, task, saying(LEFT, DONE))).stop == "done"


async def test_a_task_without_evaluation_has_no_reward(session, config, task):
    episode = await play(session, config, replace(task, evaluate=()), saying(LEFT, DONE))
    assert (episode.scores.task_completion, episode.scores.reward_found, episode.evaluation) == (
        0,
        False,
        None,
    )
    assert episode.scores.reward == pytest.approx(0.2)


async def test_of_several_evaluations_the_first_reward_counts(session, config, task):
    answers = iter([text("nothing"), text('{"grade": 0.25}'), text('{"reward": 1}')])
    session.before = lambda name, arguments: next(answers) if name == "evaluate" else None
    episode = await play(session, config, replace(task, evaluate=task.evaluate * 3), saying(DONE))
    assert (episode.scores.task_completion, episode.evaluation) == (0.25, {"grade": 0.25})
    assert [name for name, _ in session.calls].count("evaluate") == 3


async def test_an_evaluation_without_a_reward_is_a_fault_and_a_reward_of_nothing_is_none(
    session, config, task
):
    session.before = lambda name, arguments: text("well played") if name == "evaluate" else None
    episode = await play(session, config, task, saying(DONE))
    assert (episode.stop, episode.scores.reward_found, episode.evaluation) == (
        "error",
        False,
        "well played",
    )
    assert "the evaluator returned no `reward`" in episode.error and "well played" in episode.error
    session.before = lambda name, arguments: text('{"reward": 0}') if name == "evaluate" else None
    episode = await play(session, config, task, saying(DONE))
    assert (episode.stop, episode.error, episode.scores.task_completion) == ("done", None, 0)
    assert episode.scores.reward_found


async def test_an_evaluation_without_a_reward_is_none_where_code_of_ones_own_judges(
    session, config, task, tmp_path
):
    (tmp_path / "parts.py").write_text("def half(episode, task):\n    return 0.5\n")
    session.before = lambda name, arguments: text("well played") if name == "evaluate" else None
    episode = await play(
        session, with_reward(config, "parts.py:half", tmp_path), task, saying(DONE)
    )
    assert (episode.stop, episode.scores.own) == ("done", {"half": 0.5})
    session.before = lambda name, arguments: (
        text("no target", is_error=True) if name == "evaluate" else None
    )
    episode = await play(
        session, with_reward(config, "parts.py:half", tmp_path), task, saying(DONE)
    )
    assert (episode.stop, episode.scores.own) == ("error", {})


async def test_an_evaluation_without_a_reward_is_none_where_a_judge_follows(session, config, task):
    session.before = lambda name, arguments: text("well played") if name == "evaluate" else None
    player = EpisodePlayer(session, config, task, judged_later=True)
    await player.start()
    await player.step(DONE)
    assert (await player.finish()).stop == "done"


async def test_an_evaluation_that_fails_ends_the_episode_with_an_error(session, config, task):
    session.before = lambda name, arguments: (
        text("no such target", is_error=True) if name == "evaluate" else None
    )
    episode = await play(session, config, task, saying(LEFT, DONE))
    assert (episode.stop, episode.ok, episode.scores.reward_found) == ("error", False, False)
    assert episode.error == "the evaluation failed: evaluate answered with an error: no such target"
    assert episode.info["evaluation_error"] in episode.error


@pytest.mark.parametrize(
    ("answers", "stop", "completion"),
    [
        (('{"reward": 0.5}', None), "done", 0.5),  # what fails after the reward takes nothing away
        (
            (None, '{"reward": 0.5}'),
            "error",
            0.0,
        ),  # the verdict that failed is not replaced by another one's
        (("fine", None), "error", 0.0),
        (("fine", "good"), "error", 0.0),
    ],
)
async def test_of_several_evaluations_a_failure_before_the_reward_counts(
    session, config, task, answers, stop, completion
):
    left = iter([text("broken", is_error=True) if one is None else text(one) for one in answers])
    session.before = lambda name, arguments: next(left) if name == "evaluate" else None
    episode = await play(session, config, replace(task, evaluate=task.evaluate * 2), saying(DONE))
    assert (episode.stop, episode.scores.task_completion) == (stop, completion)


async def test_an_early_look_that_fails_does_not_end_the_episode(session, config, task):
    session.before = lambda name, arguments: (
        text("no such target", is_error=True) if name == "evaluate" else None
    )
    player = EpisodePlayer(session, config, task)
    await player.start()
    assert (await player.judge()).task_completion == 0
    assert "no such target" in player.info["evaluation_error"] and player.stop is None
    session.before = None
    episode = await player.finish()
    assert episode.scores.task_completion > 0 and "evaluation_error" not in episode.info
    assert episode.stop == "cancelled"


async def test_observations_are_bounded_with_a_note(session, config, task):
    session.before = lambda name, arguments: (
        text("start" + "x" * 1_000_000 + "end") if name in ("move", "setup") else None
    )
    episode = await play(session, config, task, saying(LEFT, DONE))
    opening, shown = episode.messages[1]["content"], episode.turns[0].observation
    for observation in (opening, shown):
        assert len(observation) < OBSERVATION_LIMIT + 200
        assert "characters left out" in observation and observation.endswith("end")
    assert opening.startswith("Reach 64.\n\nstart")


async def test_images_go_to_those_who_want_them(session, config, task):
    picture = ToolResult(
        (
            ContentBlock("text", text="see"),
            ContentBlock("image", data="QUJD", mime_type="image/png"),
        )
    )
    session.before = lambda name, arguments: picture if name == "move" else None
    blind, seeing = saying(LEFT, DONE), saying(LEFT, DONE)
    seeing.wants_images = True
    assert (await play(session, config, task, blind)).messages[3][
        "content"
    ] == "see\n[image/png, 3 bytes, not shown]"
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
    ]
    assert (await play(session, config, task, seeing)).messages[3]["content"] == parts
    assert (await play(session, config, task, saying(LEFT, DONE), images=True)).messages[3][
        "content"
    ] == parts
    assert isinstance(
        (await play(session, config, task, saying(LEFT, DONE), images=False)).messages[3][
            "content"
        ],
        str,
    )


async def test_images_are_kept_for_who_reads_the_episode(session, config, task):
    data = base64.b64encode(b"GIF89a" + bytes(20)).decode()
    picture = ToolResult(
        (ContentBlock("text", text="see"), ContentBlock("image", data=data, mime_type="image/png"))
    )
    session.before = lambda name, arguments: picture
    episode = await play(session, config, task, saying(LEFT, DONE))
    kept = KeptImage("image/gif", 26, data)
    assert (
        episode.images == (kept,)
        and episode.turns[0].images == (kept,)
        and episode.turns[1].images == ()
    )
    player = EpisodePlayer(session, config, task, keep_images=False)
    await player.start()
    assert (await player.step(LEFT)).images == () and player.record().images == ()


async def test_arguments_beyond_any_encoding_are_refused(session, make_config, task):
    config = make_config(
        "action_mappings:\n  say: {_tool: move, _parser: {positional: [x]}, direction: {from_arg: "
        "x}}\n"
    )
    session.tools["move"] = Tool("move")
    episode = await play(
        session, config, task, saying(f"<tool>say({'[' * 50_000}{']' * 50_000})</tool>", DONE)
    )
    assert (episode.stop, episode.turns[0].is_error) == ("done", True)
    assert [name for name, _ in session.calls] == ["setup", "evaluate"]


async def test_each_turn_is_told_with_running_scores(session, config, task):
    told = []

    async def slow(player, turn):
        await asyncio.sleep(0)
        told.append((len(player.turns), turn.reply, player.scores.tool_execution))

    await play(session, config, task, saying(LEFT, "chatter", DONE), on_turn=slow)
    await play(
        session,
        config,
        task,
        saying(LEFT, DONE),
        on_turn=lambda player, turn: told.append(turn.reply),
    )
    assert told == [(1, LEFT, 1), (2, "chatter", 1), (3, DONE, 1), LEFT, DONE]


async def test_timings(session, config, task):
    async def complete(messages):
        await asyncio.sleep(0.02)
        return DONE if len(messages) > 3 else LEFT

    async def slow(name, arguments):
        await asyncio.sleep(0.02)

    session.before = slow
    episode = await play(session, config, task, complete)
    assert set(episode.seconds) == {"setup", "play", "evaluate", "total"}
    assert all(value >= 0.019 for value in episode.seconds.values())
    assert episode.seconds["play"] >= 0.058 and episode.seconds["total"] >= 0.098
    assert (
        episode.turns[0].seconds["complete"] >= 0.019 and episode.turns[0].seconds["call"] >= 0.019
    )
    assert episode.turns[1].seconds["call"] == 0
    assert episode.started_at.endswith("+00:00")
    json.dumps([dict(turn.interpretation) for turn in episode.turns])


async def test_a_person_plays_step_by_step(session, config, task):
    player = EpisodePlayer(session, config, task)
    with pytest.raises(RuntimeError, match="not begun"):
        await player.step(LEFT)
    assert (await player.start())[-1]["content"].startswith("Reach 64.")
    await player.step("what now?")
    assert player.scores.format_compliance < 1
    turn = await player.step(DOWN, seconds=4.0)
    assert turn.seconds["complete"] == 4.0
    assert player.stop is None and not player.scores.reward_found
    looked = await player.judge()
    assert looked.reward_found and looked.task_completion > 0
    await player.step(DONE)
    assert player.stop == "done"
    with pytest.raises(RuntimeError, match="over"):
        await player.step(LEFT)
    episode = await player.finish()
    assert (episode.stop, len(episode.turns)) == ("done", 3)


async def test_a_person_may_leave(session, config, task):
    player = EpisodePlayer(session, config, task)
    await player.start()
    await player.step(LEFT)
    episode = await player.finish()
    assert (episode.stop, episode.ok) == ("cancelled", False)
    assert episode.scores.reward_found


@pytest.mark.parametrize(
    ("total", "told"),
    [(0.1 + 0.2, 0.3), (0.9500000000000001, 0.95), (1 / 3, 1 / 3), (-1e-17, -1e-17), (12, 12)],
)
def test_a_sum_is_told_without_its_noise(total, told):
    assert plain_number(total) == told


async def test_rewards_have_no_noise_of_sums(make_config, session, task):
    text = (
        "action_mappings: {left: {_tool: move, direction: left}}\nrubric: {weights: "
        "{task_completion: 0.1, tool_execution: 0.2, "
    )
    config = make_config(text + "format_compliance: 0}}\n")
    session.before = lambda name, arguments: (
        ToolResult((), {"reward": 1}) if name == "evaluate" else None
    )
    player = EpisodePlayer(session, config, task, max_turns=1)
    await player.start()
    await player.step("<tool>left()</tool>")
    episode = await player.finish()
    assert (episode.scores.task_completion, episode.scores.tool_execution) == (1, 1)
    assert repr(episode.scores.reward) == "0.3"
