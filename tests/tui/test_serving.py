"""The screen of a server for trainers: started, used by a client, ended; nothing outlives it."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.openenv_client import code, connected

from hudtui.core.flows import serve
from hudtui.core.flows.serve import ServerLoad, Serving
from hudtui.core.rollouts.trace import read_trace
from hudtui.tui.app import HudtuiApp
from hudtui.tui.facts import Services
from hudtui.tui.serving.screen import ServingScreen
from hudtui.tui.widgets.dialog import Confirm
from hudtui.tui.widgets.field_rows import FieldRows
from hudtui.tui.widgets.sheet import Sheet

NOON = datetime(2026, 9, 1, 12, tzinfo=UTC)
SIZES = [(160, 45), (120, 35), (80, 24), (60, 20)]
SHIPPED = Path(__file__).parents[2] / "configs"


@pytest.fixture
def game(project: Path) -> Path:
    """A configuration, and a task that names no environment."""
    (project / "configs").mkdir()
    shutil.copy(SHIPPED / "2048.yaml", project / "configs" / "2048.yaml")
    task = {
        "id": "small",
        "prompt": "Build a 64.",
        "setup_tool": {"name": "setup", "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": 1}}},
        "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "arguments": {"target": 64}}},
    }
    (project / "tasks.json").write_text(json.dumps([task]))
    return project


async def until(pilot: Any, true: Callable[[], object]) -> None:
    for _ in range(3_000):
        if true():
            await pilot.pause()
            return
        await pilot.pause(0.01)
    raise AssertionError(f"it never came: {pilot.app.screen.message}")


async def opened(pilot: Any) -> ServingScreen:
    pilot.app.open_screen("serving")
    await until(pilot, lambda: isinstance(pilot.app.screen, ServingScreen) and pilot.app.screen.request.tasks is not None)
    screen: ServingScreen = pilot.app.screen
    return screen


def state(screen: ServingScreen) -> str:
    return str(screen.query_one("#serve-state").render())


async def test_a_client_plays_and_the_screen_says_so(open_app: Any, game: Path) -> None:
    async with open_app(game, size=(120, 35)) as (app, pilot):
        screen = await opened(pilot)
        screen.request = screen.request.__class__(
            config=screen.request.config, tasks="tasks.json", source="text-2048", port=0, out_dir=Path("kept")
        )
        await pilot.press("ctrl+g")
        await until(pilot, lambda: screen.serving is not None)
        serving = screen.serving
        assert serving is not None and serving.token is not None
        assert screen.why_not("serving.start") is not None and serving.token not in state(screen)
        copied: list[tuple[str, dict[str, bool]]] = []
        app.copy = lambda text, **how: copied.append((text, how))
        await pilot.press("y")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("down", "down", "enter")
        await until(pilot, lambda: copied == [(serving.token, {"secret": True})])
        async with connected(serving.url, Authorization=f"Bearer {serving.token}") as client:
            await client.reset()
            assert code(await client.ask("step", {"type": "call_tool"})) == "VALIDATION_ERROR"
            screen._show_state()
            assert f"1 of {serving.sessions} open" in state(screen) and "2, 1 error" in state(screen)
            await client.call("done")
            await until(pilot, lambda: "1, mean reward" in state(screen))
            await client.reset()
            await client.call("left")
        lines = screen.query_one("#serve-lines", Sheet)
        await until(pilot, lambda: "broke" in lines.plain)
        assert "VALIDATION_ERROR" in lines.plain and "episode 1 task=small" in lines.plain
        assert "task small: the client broke the episode off after 1 turn" in lines.plain
        (kept,) = read_trace(game / "kept" / "traces.jsonl")
        assert kept.task_id == "small" and kept.scores.reward_found
        await until(pilot, lambda: serving.load().sessions == 0)
        await pilot.press("x")
        await until(pilot, lambda: screen.serving is None and not screen.going("serve"))
        assert "has ended" in screen.message and "No server is running" in state(screen)


async def test_an_address_that_others_reach_is_asked_about(open_app: Any, game: Path) -> None:
    async with open_app(game, size=(120, 35)) as (app, pilot):
        screen = await opened(pilot)
        screen.request = screen.request.__class__(tasks="tasks.json", source="text-2048", host="0.0.0.0", port=0)
        await pilot.press("ctrl+g")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen and not screen.going("begin"))
        assert screen.serving is None and not screen.going("serve")


async def test_a_choice_of_none_stays(open_app: Any, game: Path) -> None:
    async with open_app(game, size=(120, 35)) as (app, pilot):
        screen = await opened(pilot)
        assert screen.request.config == Path("configs/2048.yaml")
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("home", "enter")
        await until(pilot, lambda: app.screen is screen and screen.request.config is None)
        screen.opened()
        await until(pilot, lambda: not screen.going("choose"))
        assert screen.request.config is None
        assert "every tool is an action" in str(screen.query_one("#serve-rows", FieldRows).get_option_at_index(0).prompt)


async def test_what_cannot_be_served_is_said(open_app: Any, game: Path) -> None:
    async with open_app(game, size=(120, 35)) as (_, pilot):
        screen = await opened(pilot)
        await pilot.press("ctrl+g")  # the task names no environment, and none is chosen
        await until(pilot, lambda: "can be played" in screen.message)
        assert screen.serving is None and not screen.going("serve")


@pytest.mark.parametrize("size", SIZES)
def test_picture_before(snap: Any, game: Path, size: tuple[int, int]) -> None:
    async def show(pilot: Any) -> None:
        await opened(pilot)

    assert snap(HudtuiApp(game, services=Services(now=lambda: NOON)), size=size, run_before=show)


@pytest.mark.parametrize("size", SIZES)
def test_picture_loading(snap: Any, game: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    async def list_actions(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(serve, "list_actions", list_actions)

    async def begin(pilot: Any) -> None:
        screen = await opened(pilot)
        screen.opened(source="text-2048")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: screen.message.startswith("Starting"))

    assert snap(HudtuiApp(game, services=Services(now=lambda: NOON)), size=size, run_before=begin, wait=False)


@pytest.mark.parametrize("size", SIZES)
def test_picture_error(snap: Any, game: Path, size: tuple[int, int]) -> None:
    async def fail(pilot: Any) -> None:
        screen = await opened(pilot)
        await pilot.press("ctrl+g")  # the task names no environment, and none is chosen
        await until(pilot, lambda: "can be played" in screen.message)

    assert snap(HudtuiApp(game, services=Services(now=lambda: NOON)), size=size, run_before=fail)


@pytest.mark.parametrize("size", SIZES)
def test_picture_while_it_listens(snap: Any, game: Path, size: tuple[int, int]) -> None:
    async def show(pilot: Any) -> None:
        screen = await opened(pilot)
        actions = ("left", "right", "up", "down", "done")
        screen.serving = Serving(
            "http://127.0.0.1:8000", "k3-a-token", "tasks", 12, actions, 64, load=lambda: ServerLoad(3, 1_204, 1)
        )
        screen._episodes, screen._played, screen._rewards = 2, 2, 0.9
        screen._add("episode 1 task=small reward=0.400 turns=20 stop=max_turns", "")
        screen._add("a client was answered VALIDATION_ERROR: there is no task board-9", "$warning")
        screen._add("episode 2 task=small reward=0.500 turns=18 stop=done", "")
        screen._show_state()

    assert snap(HudtuiApp(game, services=Services(now=lambda: NOON)), size=size, run_before=show)


async def test_choices(open_app: Any, game: Path, settle: Any) -> None:
    async with open_app(game, size=(120, 35)) as (app, pilot):
        screen = await opened(pilot)
        rows = screen.query_one("#serve-rows")

        async def choose(name: str, *keys: str, text: str | None = None) -> Any:
            rows.focus()
            rows.highlighted = rows.get_option_index(name)
            await pilot.press("enter")
            await until(pilot, lambda: app.screen.is_modal)
            await pilot.press(*keys)
            if text is not None:
                await until(pilot, lambda: bool(app.screen.query("#answer")))
                app.screen.query_one("#answer").value = text
                await pilot.press("enter")
            await settle(pilot)
            return screen.request

        assert (await choose("port", text="8000")).port == 8000
        assert (await choose("port", text="65536")).port == 8000
        assert "'65536' is not a whole number from 0 to 65535" in str(app.screen.query_one("#answer-wrong").content)
        await pilot.press("escape")
        assert (await choose("sessions", text="3")).sessions == 3
        assert (await choose("host", text="0.0.0.0")).host == "0.0.0.0"
        assert (await choose("host", text="")).host == "127.0.0.1"
        assert (await choose("source", text="text-2048")).source == "text-2048"
        assert (await choose("source", text="")).source is None
        assert (await choose("output", text="kept")).out_dir == Path("kept")
        assert (await choose("output", text="")).out_dir is None
        assert (await choose("token", "down", "enter", text="MY_TOKEN")).token_variable == "MY_TOKEN"
        request = await choose("token", "down", "enter")
        assert request.open and request.token_variable is None
        assert (await choose("tasks", "home", "enter")).tasks is None
        assert (await choose("tasks", "end", "enter", text="org/name")).tasks == "org/name"
        assert (await choose("config", "home", "enter")).config is None
        assert (await choose("config", "down", "enter")).config == Path("configs/2048.yaml")
