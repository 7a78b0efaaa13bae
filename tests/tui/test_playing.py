"""The screen of an episode: choices, turns that arrive, replies by hand, and what is left when it
ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support import servers
from support.scripted_chat import scripted_chat
from support.waiting import until

import hudtui.core.flows.playing as flow
from hudtui.core.gym.config import load_config
from hudtui.core.rollouts.trace import read_trace
from hudtui.tui.app import HudtuiApp
from hudtui.tui.playing.screen import PlayingScreen
from hudtui.tui.services import Services
from hudtui.tui.widgets.dialog import TextDialog
from hudtui.tui.widgets.pane import Panes
from hudtui.tui.widgets.pick import Pick
from hudtui.tui.widgets.sheet import Sheet

odd, marker, odd_http = servers.odd, servers.marker, servers.odd_http
NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)
SHIPPED = Path(__file__).parents[2] / "configs"


def task(name: str, seed: int) -> dict[str, Any]:
    return {
        "id": name,
        "prompt": "Build a 64.",
        "mcp_config": {
            "game": {
                "command": "${HUDTUI_PYTHON:-python3}",
                "args": ["-P", "-m", "hudtui.envs.text_2048"],
            }
        },
        "setup_tool": {
            "name": "setup",
            "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": seed}},
        },
        "evaluate_tool": {
            "name": "evaluate",
            "arguments": {"name": "max_number", "arguments": {"target": 64}},
        },
    }


@pytest.fixture
def game(project: Path) -> Path:
    """A project over the bundled environment, with two tasks."""
    (project / "configs").mkdir()
    shutil.copy(SHIPPED / "2048.yaml", project / "configs" / "2048.yaml")
    (project / "tasks.json").write_text(json.dumps([task("small", 1), task("other", 2)]))
    return project


def app_of(folder: Path) -> HudtuiApp:
    return HudtuiApp(folder, services=Services(now=lambda: NOON))


@contextlib.asynccontextmanager
async def playing(
    open_app: Any, settle: Any, folder: Path, size: tuple[int, int] = (120, 35)
) -> AsyncIterator[tuple[Any, Any]]:
    async with open_app(folder, size=size, services=Services(now=lambda: NOON)) as (app, pilot):
        app.open_screen("playing")
        await settle(pilot)
        assert isinstance(app.screen, PlayingScreen)
        app.screen.pace = 0.0
        yield app.screen, pilot


async def begun(screen: Any, pilot: Any, **choices: Any) -> None:
    """An episode whose first reply is wanted from a person."""
    screen._choose(**choices)
    await pilot.press("ctrl+g")
    await until(pilot, lambda: screen.playing is not None and not screen.over and screen._waits)


async def say(screen: Any, pilot: Any, text: str) -> None:
    turns = len(screen.turns)
    screen.answer.editor.load_text(text)
    await pilot.pause()
    await pilot.press("f8")
    await until(pilot, lambda: len(screen.turns) == turns + 1 and (screen._waits or screen.over))


# -- the picture, and the words of other states
# --------------------------------------------------------------------------------------------------


async def test_the_words_before_an_episode(says: Any, game: Path) -> None:
    async def look(pilot: Any) -> None:
        pilot.app.open_screen("playing")

    words = (
        "task the first one file tasks.json config configs/2048.yaml policy by hand seed none "
        "turns as in the configuration",
        "Enter Change ^g Start",
    )
    await says(app_of(game), *words, run_before=look)


async def test_the_start_of_an_environment_is_said(
    says: Any, game: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.asynccontextmanager
    async def connect(_: Any) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(flow, "connector", lambda *_, **__: connect)

    async def begin(pilot: Any) -> None:
        await _press_start(pilot)
        await until(pilot, lambda: pilot.app.screen.message.startswith("Starting"))

    words = (
        "The environment is being started …",
        "● working: Starting the environment of small (^x cancels)",
    )
    await says(app_of(game), *words, run_before=begin, wait=False)


async def test_an_episode_that_did_not_begin_says_why(says: Any, game: Path) -> None:
    broken = {**task("small", 1), "mcp_config": {"game": {"command": "no-such-program"}}}
    (game / "tasks.json").write_text(json.dumps([broken]))

    async def fail(pilot: Any) -> None:
        await _press_start(pilot)
        screen = pilot.app.screen
        await until(
            pilot,
            lambda: (
                screen.playing is not None and screen.over and "no-such-program" in screen.message
            ),
        )

    words = (
        "The episode did not begin: ^g tries again.",
        "✗ error: there is no program called 'no-such-program' Check its spelling, and that it is "
        "installed and on PATH.",
    )
    await says(app_of(game), *words, run_before=fail)


async def _press_start(pilot: Any) -> None:
    pilot.app.open_screen("playing")
    await until(
        pilot,
        lambda: isinstance(pilot.app.screen, PlayingScreen) and pilot.app.screen.choice.config,
    )
    await pilot.press("ctrl+g")


async def _three_turns(pilot: Any) -> Any:
    pilot.app.open_screen("playing")
    await until(
        pilot,
        lambda: isinstance(pilot.app.screen, PlayingScreen) and pilot.app.screen.choice.config,
    )
    screen = pilot.app.screen
    await begun(screen, pilot)
    await say(screen, pilot, "left()")
    await say(screen, pilot, "<think>Up?</think><tool>up(</tool>")
    await say(screen, pilot, "down()")
    return screen


def test_picture_of_the_transcript(snap: Any, game: Path, size: tuple[int, int]) -> None:
    async def look(pilot: Any) -> None:
        screen = await _three_turns(pilot)
        screen.query_one(Panes).open(screen._transcript)
        screen.playing.evaluate()
        await until(pilot, lambda: screen._judged)

    assert snap(app_of(game), size=size, run_before=look, wait=False)


async def test_what_a_reply_would_do_is_shown_below_it(says: Any, game: Path) -> None:
    async def look(pilot: Any) -> None:
        screen = await _three_turns(pilot)
        screen.action_write()
        screen.answer.editor.load_text("<think>Now left.</think>\n<tool>left(3)</tool>")
        await pilot.pause()

    words = (
        "small · turn 3/100 · 0.187",
        "<think>Now left.</think> <tool>left(3)</tool> think Now left. action left(arg0=3)",
        "error ✗ mapping: left takes no arguments, not 1 (column 6 of the tool text) left(3) ^",
        'parameters move direction "left" static',
        "call as far as it could be worked out; not sent",
        "Esc Leave reply ^g Start F8 Send",
    )
    await says(app_of(game), *words, run_before=look, wait=False)


async def test_the_end_of_an_episode_says_where_it_is_kept(says: Any, game: Path) -> None:
    async def look(pilot: Any) -> None:
        screen = await _three_turns(pilot)
        screen.query_one(Panes).open(screen._transcript)
        screen.action_end()
        await until(pilot, lambda: screen.over)

    words = (
        "small · turn 3/100 · 0.453",
        "✗ syntax: the parenthesis that opens in column 3 is not closed",
        '3 down() by hand Let me try this. → move(direction="down")',
        "Moved down, +4. Score 4, moves 2, highest tile 4.",
        "■ Ended by you",
        "✓ The episode is over: reward 0.453. Kept in outputs/played/traces.jsonl: 5, then R, "
        "shows it.",
    )
    await says(app_of(game), *words, size=(80, 24), run_before=look)


# -- playing
# --------------------------------------------------------------------------------------------------


async def test_an_episode_by_hand(open_app: Any, game: Path, settle: Any, screen_text: Any) -> None:
    async with playing(open_app, settle, game, size=(160, 45)) as (screen, pilot):
        await begun(screen, pilot)
        text = screen_text(pilot.app)
        assert "Build a 64." in text and "J evaluates" in text and "your turn" in text
        assert screen.focused is screen.answer.editor  # a person who plays alone writes at once
        await pilot.press(*"left()")
        await pilot.pause()
        assert "direction" in screen.query_one(
            "#play-meaning", Sheet
        ).plain and "played" in screen_text(pilot.app)
        await pilot.press("f8")
        await until(pilot, lambda: len(screen.turns) == 1 and screen._waits)
        assert screen.turns[0].turn.call == {"tool": "move", "arguments": {"direction": "left"}}
        assert screen.answer.editor.text == ""
        await say(screen, pilot, "<tool>left(3)</tool>")
        assert "(column 6)" in screen_text(pilot.app)
        await pilot.press("escape")
        await pilot.pause()
        await pilot.press("J")
        await until(pilot, lambda: screen._judged)
        assert screen._scores.reward_found and "J evaluates" not in screen_text(pilot.app)
        await say(screen, pilot, "done()")
        assert screen.over and "the episode is over (done)" in screen_text(pilot.app)
        (episode,) = read_trace(game / flow.PLAYED)
        assert len(episode.turns) == 3 and "Kept in outputs/played/traces.jsonl" in screen.message


async def test_what_a_judge_says_stands_at_the_end(
    open_app: Any, game: Path, settle: Any, screen_text: Any
) -> None:
    reason = "It \x1b[2Jsays \u202eplease.\r\nTwice."
    with scripted_chat(lambda _: json.dumps({"reason": reason, "score": 1})) as chat:
        asked = {"rubric": "Is it polite?", "model": "m", "endpoint": chat.url}
        one = task("small", 1)
        del one["evaluate_tool"]
        one["evaluate"] = [{"judge": asked, "weight": 0.6}, {"turns": {"most": 9}, "weight": 0.4}]
        (game / "tasks.json").write_text(json.dumps([one]))
        async with playing(open_app, settle, game, size=(160, 45)) as (screen, pilot):
            await begun(screen, pilot)
            await say(screen, pilot, "done()")
            shown = screen_text(pilot.app)
    assert "\u2713 judge: Is it polite? (0.6): It says please. Twice." in shown
    assert "\u2713 the number of turns is at most 9 (0.4)" in shown
    assert "\x1b" not in shown and "\u202e" not in shown


async def test_a_start_waits_for_the_choices_that_the_screen_is_about_to_make(
    open_app: Any, game: Path, settle: Any, screen_text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = asyncio.Event()
    choose = PlayingScreen._choose_defaults

    async def slowly(screen: PlayingScreen) -> None:
        await read.wait()
        await choose(screen)

    monkeypatch.setattr(PlayingScreen, "_choose_defaults", slowly)
    async with open_app(game, size=(120, 35), services=Services(now=lambda: NOON)) as (app, pilot):
        app.open_screen("playing")
        await pilot.pause()
        await pilot.press("ctrl+g")
        await pilot.pause()
        assert "there is no" not in screen_text(app)
        read.set()
        await until(
            pilot, lambda: app.screen.playing is not None and app.screen.playing.player is not None
        )


async def test_a_policy_plays_pauses_and_gets_the_episode_back(
    open_app: Any, game: Path, settle: Any
) -> None:
    async with playing(open_app, settle, game) as (screen, pilot):
        screen._choose(policy="greedy", max_turns=8)
        screen.pace = 60.0  # so that the second turn does not come before it is paused
        await pilot.press("ctrl+g")
        await until(pilot, lambda: len(screen.turns) == 1)
        assert "greedy plays" in str(screen.answer.border_subtitle)
        screen.pace = 0.0
        screen.playing.pause()
        for worker in screen.going("play"):
            assert not worker.is_finished
        screen.action_cancel()
        await until(pilot, lambda: screen.over)
        assert [(one.stop, len(one.turns)) for one in read_trace(game / flow.PLAYED)] == [
            ("cancelled", 1)
        ]
        assert "Cancelled" in screen.message

        await begun(screen, pilot, policy=None)
        screen._choose(policy="greedy")
        await screen.playing.choose_policy("greedy")
        screen.query_one(Panes).open(screen._transcript)
        await pilot.press("full_stop")
        await until(pilot, lambda: len(screen.turns) == 1 and screen._waits)
        await say(screen, pilot, "up()")
        screen.query_one(Panes).open(screen._transcript)
        await pilot.press("p")
        await until(pilot, lambda: screen.over)
        assert screen.playing.by == ["greedy", "by hand", *["greedy"] * 6]
        assert "the episode is over" in screen.message.lower() or "reward" in screen.message


async def test_the_solution_of_a_task_plays_it(open_app: Any, game: Path, settle: Any) -> None:
    tasks = json.loads((game / "tasks.json").read_text())
    moves = [{"name": "move", "arguments": {"direction": way}} for way in ("left", "down")]
    tasks[0]["solution"] = moves
    (game / "tasks.json").write_text(json.dumps(tasks))
    async with playing(open_app, settle, game) as (screen, pilot):
        screen._choose(policy="solution", max_turns=1)
        await pilot.press("ctrl+g")
        await until(pilot, lambda: screen.over)
        assert screen.playing.by == ["solution"] * 3
        (episode,) = read_trace(game / flow.PLAYED)
        calls = [turn.call and turn.call["arguments"] for turn in episode.turns]
        assert (calls, episode.stop) == ([*(move["arguments"] for move in moves), None], "done")


async def test_turns_of_a_policy_are_shown_one_by_one_and_the_cursor_follows(
    open_app: Any, game: Path, settle: Any
) -> None:
    async with playing(open_app, settle, game) as (screen, pilot):
        screen._choose(policy="random", max_turns=30, seed=4)
        await pilot.press("ctrl+g")
        await until(pilot, lambda: screen.over and screen.turns)
        rows = screen._transcript.rows
        assert (
            rows.option_count == 32 and rows.highlighted == 30
        )  # the opening, the turns, and the end
        assert "turn 30/30" in screen._transcript.title
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, TextDialog))
        await pilot.press("escape")


async def test_choices(open_app: Any, game: Path, settle: Any) -> None:
    (game / "configs" / "more.yaml").write_text((game / "configs" / "2048.yaml").read_text())
    async with playing(open_app, settle, game) as (screen, pilot):
        assert (screen.choice.tasks, screen.choice.config) == ("tasks.json", "configs/2048.yaml")

        async def choose(key: str, *keys: str) -> None:
            await pilot.press(key)
            await until(pilot, lambda: pilot.app.screen.is_modal)
            await pilot.press(*keys)
            await settle(pilot)

        await choose("enter", "down", "enter")  # the first row: the task
        assert screen.choice.task == "other"
        await choose("c", "down", "enter")
        assert screen.choice.config == "configs/more.yaml"
        await choose("P", "down", "enter")
        assert screen.choice.policy == "greedy"
        await choose("o", "enter")
        assert (screen.choice.tasks, screen.choice.task) == ("tasks.json", "other")
        rows = screen._setup.query_one("#play-rows")
        rows.focus()
        rows.highlighted = rows.get_option_index("max_turns")
        await choose("enter", "3", "enter")
        rows.highlighted = rows.get_option_index("seed")
        await choose("enter", "7", "enter")
        assert (screen.choice.max_turns, screen.choice.seed) == (3, 7)
        await choose("enter", "x", "enter")
        assert "'x' is not a number" in str(pilot.app.screen.query_one("#answer-wrong").content)
        pilot.app.screen.query_one("#answer").value = (
            "9" * 5000
        )  # Python reads no number as long as that
        await choose("enter")
        assert "is not a whole number" in str(pilot.app.screen.query_one("#answer-wrong").content)
        await pilot.press("escape")
        await settle(pilot)
        assert screen.choice.seed == 7
        await pilot.press("ctrl+g")
        await until(pilot, lambda: screen.over and len(screen.turns) == 3)
        assert screen.playing.task.id == "other" and screen.playing.request.seed == 7


async def test_a_model_is_chosen_by_name_and_address(
    open_app: Any, game: Path, settle: Any
) -> None:
    async with playing(open_app, settle, game) as (screen, pilot):
        await pilot.press("P")
        await until(pilot, lambda: isinstance(pilot.app.screen, Pick))
        await pilot.press(*"model", "enter")
        await settle(pilot)
        await pilot.press(*"org/m", "enter")
        await settle(pilot)
        await pilot.press(*"http://127.0.0.1:9/v1", "enter")
        await settle(pilot)
        assert (screen.choice.policy, screen.choice.base_url) == (
            "openai:org/m",
            "http://127.0.0.1:9/v1",
        )


async def test_actions_put_a_call_into_the_reply(open_app: Any, game: Path, settle: Any) -> None:
    async with playing(open_app, settle, game) as (screen, pilot):
        await begun(screen, pilot)
        screen.query_one(Panes).open(screen._actions)
        await pilot.press("enter")
        await pilot.pause()
        assert "<tool>" in screen.answer.editor.text and screen.focused is screen.answer.editor
        await pilot.press("f8")
        await until(pilot, lambda: len(screen.turns) == 1)
        assert not screen.turns[0].turn.is_error
        screen.query_one(Panes).open(screen._actions)
        await pilot.press("right_square_bracket")
        assert (
            screen.query_one("#play-prompt").display
            and "2048" in screen.query_one("#play-prompt", Sheet).plain
        )


async def test_what_was_played_is_copied_saved_and_kept(
    open_app: Any, game: Path, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing(open_app, settle, game) as (screen, pilot):
        screen._choose(policy="greedy", max_turns=4)
        await pilot.press("ctrl+g")
        await until(pilot, lambda: screen.over and screen.turns)
        copied: list[str] = []
        monkeypatch.setattr(pilot.app, "copy", copied.append)
        await pilot.press("y")
        await settle(pilot)
        await pilot.press("W")
        await until(pilot, lambda: pilot.app.screen.is_modal)
        await pilot.press("enter")
        await settle(pilot)
        assert (game / "transcript-small.txt").read_text() == copied[0] and "## reply 4" in copied[
            0
        ]
        screen._transcript.rows.highlighted = 2
        await pilot.press("K")
        await until(pilot, lambda: pilot.app.screen.is_modal)
        await pilot.press("enter")
        await until(pilot, lambda: "example" in screen.message)
        (example,) = load_config(game / "configs" / "2048.yaml").examples
        assert (example.user, example.assistant) == (
            screen.turns[0].turn.observation,
            screen.turns[1].turn.reply,
        )


# -- what goes wrong
# --------------------------------------------------------------------------------------------------


def odd_game(game: Path, server: tuple[str, ...]) -> None:
    for path in (game / "configs").iterdir():
        path.unlink()
    (game / "configs" / "c.yaml").write_text(
        "action_mappings: {go: {_tool: good, x: {static: 1}}}\n"
    )
    config = {"env": {"command": server[0], "args": list(server[1:])}}
    one = {
        "id": "odd",
        "prompt": "Go.",
        "mcp_config": config,
        "evaluate_tool": {"name": "judge", "arguments": {}},
    }
    (game / "tasks.json").write_text(json.dumps([one]))


async def test_a_server_that_dies_in_the_episode(
    open_app: Any, game: Path, settle: Any, odd: Any, screen_text: Any
) -> None:
    odd_game(game, odd("die_in_call"))
    async with playing(open_app, settle, game) as (screen, pilot):
        await begun(screen, pilot)
        await say(screen, pilot, "go()")
        assert screen.over and "out of tiles" in screen.message
        assert "the episode is over (error)" in screen_text(pilot.app)
        assert next(read_trace(game / flow.PLAYED)).stop == "error"


async def test_an_environment_that_does_not_start(
    open_app: Any, game: Path, settle: Any, odd: Any
) -> None:
    odd_game(game, odd("die"))
    async with playing(open_app, settle, game) as (screen, pilot):
        await pilot.press("ctrl+g")
        await until(pilot, lambda: screen.playing is not None and screen.over)
        assert "no board" in screen.message and "did not begin" in str(
            screen.query_one("#play-hint").content
        )
        await pilot.press("y")
        assert "nothing was played yet" in screen.message


@pytest.mark.parametrize("way", ["cancel", "leave", "quit"])
async def test_a_slow_endpoint_is_cancelled_and_no_server_is_left(
    open_app: Any, game: Path, settle: Any, odd_http: Any, odd: Any, marker: Any, way: str
) -> None:
    asked = asyncio.Event()

    async def never(method: str, path: str, headers: Any, body: bytes, writer: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    odd_game(game, odd("plain", marker.word))
    url = await odd_http(never)
    async with playing(open_app, settle, game) as (screen, pilot):
        screen._choose(policy="openai:slow", base_url=f"{url}/v1")
        await pilot.press("ctrl+g")
        await until(pilot, asked.is_set)
        await until(pilot, lambda: "Waiting for openai:slow" in screen.message or screen.is_busy)
        assert len(marker.alive()) == 1
        if way == "leave":  # the episode goes on while another screen is shown
            pilot.app.open_screen("home")
            await pilot.pause()
            assert not screen.over and len(marker.alive()) == 1
        elif way == "cancel":
            await pilot.press("ctrl+x")
            await until(pilot, lambda: screen.over and not screen.going("play"))
            assert "the environment has ended" in screen.message and marker.alive() == []
    assert marker.alive() == []
    assert not (game / flow.PLAYED).exists()


async def test_a_policy_that_fails_leaves_the_turn_to_the_person(
    open_app: Any, game: Path, settle: Any, odd_http: Any
) -> None:
    async def no(method: str, path: str, headers: Any, body: bytes, writer: Any) -> None:
        writer.write(servers.reply("404 Not Found", '{"error": {"message": "no such model"}}'))

    url = await odd_http(no)
    async with playing(open_app, settle, game) as (screen, pilot):
        await begun(screen, pilot, policy="openai:m", base_url=f"{url}/v1")
        assert "knows no model m" in screen.message
        await say(screen, pilot, "left()")
        assert screen.playing.by == ["by hand"]


async def test_nothing_is_played_without_tasks_or_a_configuration(
    open_app: Any, project: Path, settle: Any
) -> None:
    async with playing(open_app, settle, project) as (screen, pilot):
        await pilot.press("ctrl+g")
        await settle(pilot)
        assert "there is no task file" in screen.message
        for key in ("p", "full_stop", "x", "J"):
            await pilot.press(key)
            await settle(pilot)
            assert "no episode is being played" in screen.message, key


async def test_the_ways_to_it(open_app: Any, game: Path, settle: Any) -> None:
    async with open_app(game, services=Services(now=lambda: NOON)) as (app, pilot):
        app.open_screen("dataset")
        await settle(pilot)
        await pilot.press("down", "h")
        await settle(pilot)
        assert app.screen.NAME == "playing" and app.screen.choice.task == "other"
        await pilot.press("escape")
        await settle(pilot)
        assert app.screen.NAME == "dataset"
        app.open_screen("environment")
        await settle(pilot)
        app.screen.set_focus(None)
        await pilot.press("p")
        await settle(pilot)
        assert app.screen.NAME == "playing"
