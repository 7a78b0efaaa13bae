"""Keys that come faster than the screen follows: none is lost, and none does what it was not meant
to do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from support import key_storm as storms
from textual import events
from textual.keys import _character_to_key
from textual.widget import Widget
from textual.widgets import Input, Static

from hudtui.core.environment import discover as analyzing
from hudtui.core.environment.values import Analysis, Server, Tool
from hudtui.core.paths import app_paths
from hudtui.tui import typed
from hudtui.tui.actions import AppAction, cancel_action
from hudtui.tui.environment.screen import EnvironmentScreen
from hudtui.tui.environment.tree import Branches
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.typed import BURST

MANY = Analysis(
    "text-2048",
    Server("text-2048", "1.0.0"),
    "2025-11-25",
    tuple(
        Tool(
            f"tool_{number}",
            "One of many.",
            {
                "type": "object",
                "properties": {f"field_{place}": {"type": "string"} for place in range(number % 5)},
            },
        )
        for number in range(211)
    ),
)


def burst(app: Any, keys: Iterable[str]) -> None:
    """Let keys come in all at once, as a slow line brings them."""
    for key in keys:
        name = _character_to_key(key) if len(key) == 1 else key
        app.post_message(events.Key(name, key if len(key) == 1 else None))


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def analyze(source: Any, **options: Any) -> Analysis:
        return replace(MANY, source=source.text)

    monkeypatch.setattr(analyzing, "analyze", analyze)


async def _handled(pilot: Any) -> None:
    """Wait until every key that came in was handled; a dialog may be open then."""
    await pilot.pause()
    while pilot.app.typed.pending:
        await pilot.pause()


async def _environment(pilot: Any, settle: Any) -> EnvironmentScreen:
    await pilot.press("1")
    await settle(pilot)
    await pilot.press("enter")
    await settle(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, EnvironmentScreen) and screen.analysis is not None
    return screen


async def test_moving_fast_in_the_tree_of_tools_ends_nothing(
    open_app: Any, project: Path, settle: Any, looked: None
) -> None:
    async with open_app(project) as (app, pilot):
        screen = await _environment(pilot, settle)
        burst(app, "j" * 60 + "k" * 20)
        await settle(pilot)
        assert app.is_running and app.screen is screen
        assert screen.query_one(Branches).cursor_node.data is screen.selected
        burst(app, ["G", "/", *"tool_17", "enter", "j"])
        await settle(pilot)
        assert screen.selected.name == "tool_170"
        burst(app, "c")
        await settle(pilot)
        assert not [entry for entry in screen.query("ToolForm .row").results() if entry.display]


async def test_the_same_key_by_key(open_app: Any, project: Path, settle: Any, looked: None) -> None:
    async with open_app(project) as (app, pilot):
        screen = await _environment(pilot, settle)
        for key in "j" * 30:
            app.post_message(events.Key(key, key))
            await asyncio.sleep(0.005)
        await settle(pilot)
        assert app.is_running and screen.selected.name == "tool_30"


@pytest.mark.parametrize(
    ("step", "keys", "field"),
    [
        ("environment", ["a", *"text5q"], "#source"),
        ("environment", ["slash", *"quit5"], "FilterField"),
        ("home", ["ctrl+p", *"theme"], "Input"),
        ("home", [":", *"qq"], "Input"),
        ("settings", ["slash", *"quit1"], "FilterField"),
        ("compute", ["slash", *"quit a"], "FilterField"),
    ],
)
async def test_what_is_typed_into_a_field_that_opens_arrives_whole(
    open_app: Any, project: Path, settle: Any, looked: None, step: str, keys: list[str], field: str
) -> None:
    async with open_app(project) as (app, pilot):
        if step == "environment":
            await _environment(pilot, settle)
        elif step != "home":
            app.open_screen(step)
            await settle(pilot)
        text = "".join(key for key in keys[1:] if len(key) == 1)
        burst(app, keys)
        await settle(pilot)
        assert app.is_running
        assert isinstance(app.focused, Input) and app.screen.query_one(field) is app.focused
        assert app.focused.value == text


# -- every place that opens a text
# ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "keys", "text"),
    [
        ("mapping", ["ctrl+f", *"quit 5"], "quit 5"),
        ("mapping", ["ctrl+g", *"12q"], "12q"),
        ("dataset", ["slash", *"qui"], "qui"),
        ("dataset", ["o", *"some/file q"], "some/file q"),
        ("launch", [*"x q5"], "x q5"),
        ("run", ["n", *"zq"], "zq"),
        ("settings", ["e", *"q5"], "q5"),
    ],
)
async def test_a_burst_of_keys_is_typed_and_does_nothing_else(
    open_app: Any, project: Path, settle: Any, step: str, keys: list[str], text: str
) -> None:
    storms.odd_files(project)
    async with open_app(project, size=(160, 45)) as (app, pilot):
        app.open_screen(step)
        await settle(pilot)
        if step == "mapping":
            app.open_screen("mapping", path=project / "configs" / "good.yaml")
            await settle(pilot)
        if step == "dataset":
            app.open_screen("dataset", path=project / "tasks.json")
            await settle(pilot)
        burst(app, keys)
        await _handled(pilot)
        assert app.is_running and not app.asked_to_end
        assert isinstance(app.focused, Input) and text in app.focused.value


# -- keys that cancel or leave do not wait
# --------------------------------------------------------------------------


class SlowScreen(HudtuiScreen):
    """Asks a provider that does not answer, then the user."""

    NAME = "slow"
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("slow.ask", "Ask", "Asks, after some work.", "a", asks=True),
        AppAction("slow.tell", "Ask", "Asks, after some work that is told.", "b", asks=True),
        AppAction("slow.work", "Work", "Works, and asks perhaps.", "w"),
        AppAction("slow.note", "Note", "Notes that its key came.", "n"),
        cancel_action("slow", "Stop."),
    )

    def __init__(self) -> None:
        super().__init__()
        self.answer = asyncio.Event()
        self.noted = 0
        self.answers: list[str | None] = []

    def content(self) -> Iterable[Widget]:
        yield Static("slow")

    async def _ask(self) -> None:
        await self.answer.wait()
        self.answers.append(await self.app.ask("Name"))

    def action_ask(self) -> None:
        self.start(self._ask, group="ask")

    def action_tell(self) -> None:
        self.start(self._ask, group="ask", busy="Asking the provider ({key:slow.cancel} cancels)")

    action_work = action_ask

    def action_note(self) -> None:
        self.noted += 1

    def has_use(self, action_id: str) -> bool:
        return True

    def action_cancel(self) -> None:
        self.cancel("ask")


@pytest.fixture
def slow(open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`async with slow() as (app, pilot, screen)`: the app on `SlowScreen`, where a question is
    waited for without end."""
    monkeypatch.setattr(typed, "QUESTION", 3600.0)

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Any, Any, SlowScreen]]:
        async with open_app(project) as (app, pilot):
            screen = SlowScreen()
            await app.push_screen(screen)
            await pilot.pause()
            yield app, pilot, screen

    return opened


async def _alone(app: Any, key: str) -> None:
    """Let a key come that is no part of a burst."""
    await asyncio.sleep(3 * BURST)
    burst(app, [key])


async def _come(pilot: Any, come: Callable[[], bool]) -> None:
    for _ in range(600):
        if come():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never came; the screen says: {getattr(pilot.app.screen, 'message', '')}")


EFFECTS: dict[str, Callable[[Any], bool]] = {
    "ctrl+c": lambda app: "to quit" in app.screen.message,
    "ctrl+x": lambda app: app.screen.message == "Cancelled.",
    "ctrl+q": lambda app: app.asked_to_end,
    "escape": lambda app: app.screen is app.home,
}


@pytest.mark.parametrize("begins", ["a", "b", "w"])
@pytest.mark.parametrize("key", EFFECTS)
async def test_a_key_that_cancels_or_leaves_does_not_wait_for_a_question(
    slow: Any, key: str, begins: str
) -> None:
    async with slow() as (app, pilot, screen):
        burst(app, [begins])
        await _come(pilot, lambda: bool(screen.going("ask")))
        await _alone(app, key)
        await _come(pilot, lambda: EFFECTS[key](app))
        assert not screen.answer.is_set()


@pytest.mark.parametrize("key", EFFECTS)
async def test_what_was_typed_for_a_question_that_is_given_up_does_nothing(
    slow: Any, key: str
) -> None:
    async with slow() as (app, pilot, screen):
        burst(app, ["a", *"nnn", "question_mark", "5"])
        await _come(pilot, lambda: bool(screen.going("ask")))
        await _alone(app, key)
        await _come(pilot, lambda: EFFECTS[key](app))
        assert screen.noted == 0
        if key in ("ctrl+c", "ctrl+x"):
            await _alone(app, "n")
            await _come(pilot, lambda: screen.noted == 1)  # keys are heard again


async def test_a_burst_is_handled_in_order_also_where_a_question_does_not_come(
    slow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with slow() as (app, pilot, screen):
        monkeypatch.setattr(typed, "QUESTION", 0.05)
        burst(app, ["a", *"nn", "escape"])
        await _come(pilot, lambda: app.screen is app.home)
        assert screen.noted == 2


async def test_work_that_asks_nothing_holds_no_key(slow: Any) -> None:
    async with slow() as (app, pilot, screen):
        burst(app, ["w", *"nn"])
        await _come(pilot, lambda: screen.noted == 2)


async def test_what_is_typed_for_the_second_of_two_questions_goes_there(
    slow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with slow() as (app, pilot, screen):

        async def twice() -> None:
            for _ in range(2):
                await asyncio.sleep(0.05)
                screen.answers.append(await app.ask("Name"))

        monkeypatch.setattr(screen, "_ask", twice)
        burst(app, ["a", *"one"])
        await _handled(pilot)
        await _alone(app, "enter")
        burst(app, "none")
        await _handled(pilot)
        await _alone(app, "enter")
        await _come(pilot, lambda: screen.answers == ["one", "none"])
        assert screen.noted == 0


async def test_ctrl_c_twice_counts_twice(slow: Any) -> None:
    async with slow() as (app, pilot, screen):
        burst(app, ["a"])
        await _come(pilot, lambda: bool(screen.going("ask")))
        await _alone(app, "ctrl+c")
        await _alone(app, "ctrl+c")
        await _come(pilot, lambda: app.asked_to_end)


async def test_keys_of_the_user_do_not_wait_either(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(typed, "QUESTION", 3600.0)
    folder = app_paths().config
    folder.mkdir(parents=True)
    (folder / "keymap.toml").write_text('"app.leave" = "f9"\n')
    async with open_app(project) as (app, pilot):
        screen = SlowScreen()
        await app.push_screen(screen)
        await pilot.pause()
        burst(app, ["a"])
        await _come(pilot, lambda: bool(screen.going("ask")))
        await _alone(app, "f9")
        await _come(pilot, lambda: app.asked_to_end)


async def test_esc_that_follows_a_question_at_once_still_closes_that(slow: Any) -> None:
    async with slow() as (app, pilot, screen):
        screen.answer.set()
        burst(app, ["a", *"name", "escape"])
        await _come(pilot, lambda: screen.answers == [None])
        assert app.screen is screen and screen.noted == 0


# -- bursts decide nothing
# ------------------------------------------------------------------------------------------


async def test_a_key_in_the_middle_of_a_burst_is_no_answer(
    open_app: Any, project: Path, settle: Any
) -> None:
    async with open_app(project) as (app, pilot):
        answers: list[bool] = []

        async def ask() -> None:
            answers.append(await app.confirm("Rent 8 machines?"))

        app.run_worker(ask())
        while not app.screen.is_modal:
            await pilot.pause()
        storms.send(
            app, [*"xyyy", "enter", "y"], events.Key("a", "a").time - 10 * storms.PACE
        )  # all of them by now
        await _handled(pilot)
        assert app.screen.is_modal and answers == []
        await asyncio.sleep(3 * BURST)  # a decision comes by itself
        await pilot.press("y")
        await settle(pilot)
        assert answers == [True]


async def test_a_burst_does_not_end_the_app_or_write_a_demo(
    open_app: Any, project: Path, settle: Any
) -> None:
    async with open_app(project) as (app, pilot):
        storms.send(
            app,
            ["j", *"qdq", "ctrl+q", "ctrl+c", "ctrl+c", "ctrl+c"],
            events.Key("a", "a").time - 10 * storms.PACE,
        )
        await _handled(pilot)
        assert app.is_running and not app.asked_to_end and not list(project.iterdir())
        await asyncio.sleep(3 * BURST)
        await pilot.press("q")
        await settle(pilot)
        assert app.asked_to_end


@pytest.mark.parametrize(
    "step",
    ["home", "environment", "mapping", "dataset", "compute", "run", "settings", "launch"],
)
async def test_a_storm_of_keys_ends_writes_and_breaks_nothing(
    open_app: Any,
    project: Path,
    settle: Any,
    looked: None,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HUD_MCP_URL", "http://127.0.0.1:9")
    storms.odd_files(project)
    async with open_app(project, size=(80, 24)) as (app, pilot):
        app.open_screen("environment", source="text-2048")
        await settle(pilot)
        app.open_screen(step)
        await settle(pilot)
        kept = (project, Path.home() / ".ssh", app.places.config)
        before = storms.state_of(*kept)
        await storms.storm(app, random.Random(f"7 {step}"), 250)
        assert app.is_running and not app.asked_to_end
        assert storms.state_of(*kept) == before
        await pilot.pause()  # the app ends when no dialog is being opened or closed any more


async def test_the_last_row_of_an_empty_table_is_none(
    open_app: Any, project: Path, settle: Any
) -> None:
    async with open_app(project) as (app, pilot):
        app.open_screen("run")
        await settle(pilot)
        for key in ("G", "g", "end", "pagedown", "ctrl+d", "up"):
            await pilot.press(key)
            await settle(pilot)
        assert app.screen.NAME == "run"


async def test_a_key_that_comes_while_the_text_area_is_being_imported_breaks_nothing(
    open_app: Any, project: Path, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys
    from types import ModuleType

    async with open_app(project) as (app, pilot):
        await settle(pilot)
        monkeypatch.setitem(sys.modules, "textual.widgets._text_area", ModuleType("half imported"))
        await pilot.press("comma")
        await settle(pilot)
        assert app.screen.NAME == "settings"
