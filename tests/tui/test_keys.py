"""What keys do everywhere: Ctrl-C, copying and pasting, cancelling, taking back, Tab and Esc,
messages that go."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.environment import discover as analyzing
from hudtui.core.environment.values import Analysis, Server, Tool
from hudtui.core.errors import ConnectError, InputError
from hudtui.tui.environment.screen import EnvironmentScreen
from hudtui.tui.environment.tool_form import ToolForm
from hudtui.tui.environment.tree import Branches
from hudtui.tui.widgets.fields import FilterField

NUMBER = {"type": "number"}
SUM = Tool(
    "get-sum",
    "Adds.",
    {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]},
)
FOUND = Analysis(
    "text-2048",
    Server("text-2048", "1.0.0"),
    "2025-11-25",
    (SUM, Tool("other", "Does nothing.", {"type": "object"})),
)


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch) -> Any:
    def find(outcome: Analysis | Exception | None) -> None:
        async def analyze(source: Any, **options: Any) -> Analysis:
            if outcome is None:
                await asyncio.Event().wait()
            if isinstance(outcome, Exception):
                raise outcome
            assert isinstance(outcome, Analysis)
            return outcome

        monkeypatch.setattr(analyzing, "analyze", analyze)

    find(FOUND)
    return find


async def _environment(pilot: Any, settle: Any) -> EnvironmentScreen:
    await pilot.press("1")
    await settle(pilot)
    await pilot.press("enter")
    await settle(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, EnvironmentScreen) and screen.analysis is not None
    return screen


# -- Ctrl-C
# --------------------------------------------------------------------------------------------------


async def test_ctrl_c_in_a_dialog_is_esc(open_app: Any, project: Path, settle: Any) -> None:
    async with open_app(project) as (app, pilot):
        for keys in (["question_mark"], ["ctrl+p"], ["3", "o"]):
            for key in keys:
                await pilot.press(key)
                await settle(pilot)
            assert app.screen.is_modal
            await pilot.press("ctrl+c")
            await settle(pilot)
            assert app.is_running and not app.screen.is_modal


async def test_ctrl_c_empties_a_field_and_then_tells_how_to_leave(
    open_app: Any, project: Path, settle: Any, finds: Any
) -> None:
    async with open_app(project) as (app, pilot):
        screen = await _environment(pilot, settle)
        await pilot.press("a", "delete", *"wrong", "ctrl+c")
        await settle(pilot)
        assert app.focused.id == "source" and app.focused.value == ""
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert app.is_running and "Ctrl-C again, or ^q, to quit" in screen.message


async def test_ctrl_c_leaves_when_it_is_pressed_twice_without_a_key_between(
    open_app: Any, project: Path, settle: Any
) -> None:
    async with open_app(project) as (app, pilot):
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert app.is_running and "Press Ctrl-C again, or q, to quit." in app.screen.message
        await pilot.press("j", "ctrl+c")
        await settle(pilot)
        assert app.is_running
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert app.asked_to_end


# -- copy, cut, paste
# ------------------------------------------------------------------------------------------------


async def test_what_was_copied_last_is_what_is_pasted(
    open_app: Any, project: Path, settle: Any, finds: Any
) -> None:
    kept = project / "kept.txt"
    async with open_app(project) as (app, pilot):
        await _environment(pilot, settle)
        kept = app.places.state / "copied.txt"
        await pilot.press("a", "delete", *"cut", "shift+home", "ctrl+x")
        await settle(pilot)
        assert app.focused.value == "" and kept.read_text() == "cut"
        await pilot.press(*"copied", "shift+home", "ctrl+c")
        await settle(pilot)
        assert kept.read_text() == "copied"
        await pilot.press(
            "end", "ctrl+x"
        )  # nothing is selected: nothing is cut, and what was copied stays
        await settle(pilot)
        await pilot.press("ctrl+v")
        await settle(pilot)
        assert app.focused.value == "copiedcopied" and kept.read_text() == "copied"


async def test_what_is_copied_in_a_list_is_pasted_into_a_field(
    open_app: Any, project: Path, settle: Any, finds: Any
) -> None:
    async with open_app(project) as (app, pilot):
        await _environment(pilot, settle)
        app.copy("from elsewhere")
        await settle(pilot)
        await pilot.press("slash", "ctrl+v")
        await settle(pilot)
        assert app.focused.value == "from elsewhere"


async def test_a_secret_is_not_copied(open_app: Any, project: Path, settle: Any) -> None:
    async with open_app(project) as (app, pilot):
        app.run_worker(app.ask("Pass-phrase", secret=True))
        while not app.screen.is_modal:
            await pilot.pause()
        await pilot.press(*"hidden", "shift+home", "ctrl+c")
        await settle(pilot)
        await pilot.press("shift+home", "ctrl+x")
        await settle(pilot)
        assert app.clipboard == "" and not (app.places.state / "copied.txt").exists()
        await pilot.press("escape")


async def test_what_is_typed_into_a_field_can_be_taken_back(
    open_app: Any, project: Path, settle: Any, finds: Any
) -> None:
    async with open_app(project) as (app, pilot):
        await _environment(pilot, settle)
        await pilot.press("slash", *"one two", "ctrl+u")
        await settle(pilot)
        field = app.focused
        assert isinstance(field, FilterField) and field.value == ""
        seen = []
        for _ in range(4):
            await pilot.press("ctrl+z")
            await settle(pilot)
            seen.append(field.value)
        assert seen[0] == "one two" and seen[-1] == "" and app.is_running
        for _ in range(4):
            await pilot.press("ctrl+y")
            await settle(pilot)
        assert field.value == ""


# -- cancelling
# --------------------------------------------------------------------------------------------------


async def test_ctrl_x_cancels_also_from_the_field_that_began_it(
    open_app: Any, project: Path, settle: Any, finds: Any
) -> None:
    finds(None)
    async with open_app(project) as (app, pilot):
        await pilot.press("1")
        await settle(pilot)
        await pilot.press(*"text-2048", "enter")
        while "Analyzing" not in app.screen.message:
            await pilot.pause()
        assert app.focused.id == "source"
        await pilot.press("ctrl+x")
        await settle(pilot)
        assert app.screen.message == "Cancelled." and app.focused.value == "text-2048"


# -- Tab and Esc
# --------------------------------------------------------------------------------------------------


async def test_tab_reaches_everything_that_can_be_read_or_filled_in(
    open_app: Any, project: Path, settle: Any, finds: Any
) -> None:
    async with open_app(project) as (app, pilot):
        screen = await _environment(pilot, settle)
        reached = []
        for _ in range(5):
            await pilot.press("tab")
            await settle(pilot)
            reached.append(app.focused.id or type(app.focused).__name__)
        assert reached == ["env-page", "field-0", "field-1", "env-answer", "source"]
        await pilot.press("tab")
        await settle(pilot)
        assert app.focused.id == "env-tree"
        await pilot.press("c")
        await settle(pilot)
        await pilot.press("3", "tab", "4")
        await settle(pilot)
        assert dict(screen.query_one(ToolForm).typed()) == {"a": "3", "b": "4"}
        await pilot.press("tab")
        await settle(pilot)
        assert app.focused.id == "env-answer"


async def test_a_long_description_is_read_with_the_keyboard(
    open_app: Any, project: Path, settle: Any, finds: Any
) -> None:
    long = Tool("long", "\n".join(f"line {number}" for number in range(200)), {"type": "object"})
    finds(Analysis("text-2048", Server("text-2048", "1"), "2025-11-25", (long,)))
    async with open_app(project) as (app, pilot):
        screen = await _environment(pilot, settle)
        await pilot.press("tab", "G")
        await settle(pilot)
        page = screen.query_one("#env-page")
        assert app.focused is page and page.scroll_y == page.max_scroll_y > 0


async def test_on_a_narrow_terminal_tab_shows_the_pane_that_it_goes_to(
    open_app: Any, project: Path, settle: Any, finds: Any
) -> None:
    async with open_app(project, size=(60, 20)) as (app, pilot):
        screen = await _environment(pilot, settle)
        for _ in range(4):
            await pilot.press("tab")
            await settle(pilot)
            assert app.focused.region.area > 0
        await pilot.press("escape")
        await settle(pilot)
        assert app.focused is screen.query_one(Branches) and app.focused.region.area > 0


async def test_esc_puts_a_field_back_and_leaves_it_before_it_leaves_the_screen(
    open_app: Any, project: Path, settle: Any, finds: Any
) -> None:
    async with open_app(project) as (app, pilot):
        screen = await _environment(pilot, settle)
        await pilot.press("a", *"5q", "escape")
        await settle(pilot)
        assert app.screen is screen and screen.query_one("#source").value == "text-2048"
        assert app.focused is screen.query_one(Branches)
        await pilot.press("c", "9", "escape")
        await settle(pilot)
        assert app.screen is screen and app.focused is screen.query_one(Branches)
        assert screen.query_one(ToolForm).typed()["a"] == ""
        await pilot.press("escape")
        await settle(pilot)
        assert app.screen.NAME == "home"
        await pilot.press("1")
        await settle(pilot)
        assert app.focused is screen.query_one(Branches)


# -- what is shown belongs to the name above it
# ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error", "state"),
    [
        ("-- nothing-of-this-name", ConnectError("it did not start"), "✗ connection failed"),
        ("no such environment", InputError("never asked"), "✗ not found"),
    ],
)
async def test_after_a_look_that_failed_nothing_of_the_one_before_is_shown(
    open_app: Any,
    project: Path,
    settle: Any,
    finds: Any,
    screen_text: Any,
    text: str,
    error: Exception,
    state: str,
) -> None:
    async with open_app(project) as (app, pilot):
        screen = await _environment(pilot, settle)
        finds(error)
        await pilot.press("a", "delete")
        app.focused.value = text
        await pilot.press("enter")
        await settle(pilot)
        assert "get-sum" not in screen_text(app) and not screen.query_one(Branches).root.children
        assert state in screen_text(app) and screen.selected is None
        finds(None)
        await pilot.press("escape", "a", "delete")
        app.focused.value = "text-2048"
        await pilot.press("enter")
        while "Analyzing" not in screen.message:
            await pilot.pause()
        assert state not in screen_text(app)
        await pilot.press("ctrl+x")


# -- messages
# --------------------------------------------------------------------------------------------------


async def test_a_message_goes_with_the_next_action_and_is_read_later(
    open_app: Any, project: Path, settle: Any, finds: Any, screen_text: Any
) -> None:
    async with open_app(project) as (app, pilot):
        screen = await _environment(pilot, settle)
        screen.fail(InputError("this was odd", why="of a long reason", fix="Do something."))
        await pilot.press("j", "k")
        await settle(pilot)
        assert "this was odd" in screen.message, "moving about takes no error away"
        await pilot.press("a", "ctrl+end")
        await settle(pilot)
        assert screen.message == "", "an action does"
        await pilot.press("f10")  # also from a field, where Ctrl-E goes to the end of the line
        await settle(pilot)
        assert (
            app.screen.is_modal
            and "this was odd" in screen_text(app)
            and "Do something." in screen_text(app)
        )
        await pilot.press("escape")


async def test_a_message_is_taken_away_by_the_first_key_after_a_while(
    open_app: Any, project: Path, settle: Any, finds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(project) as (_, pilot):
        screen = await _environment(pilot, settle)
        screen.say("Written.", "success")
        await pilot.press("j")
        await settle(pilot)
        assert screen.message == "Written."
        monkeypatch.setattr("hudtui.tui.app.MESSAGE_STAYS", 0.000001)
        await pilot.press("k")
        await settle(pilot)
        assert screen.message == ""
        screen.busy("Working")
        await pilot.press("j")
        await settle(pilot)
        assert screen.message == "Working"
