"""A letter for each field, pane and tab that is in sight."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.runs import make_run
from textual.widgets import Tab

from hudtui.tui import steps
from hudtui.tui.facts import Facts
from hudtui.tui.services import Services
from hudtui.tui.widgets.fields import FilterField
from hudtui.tui.widgets.jump import Jump
from hudtui.tui.widgets.pane import Pane


async def _quiet(folder: Path, first: bool) -> tuple[str, ...]:
    return ()


SERVICES = Services(load_facts=lambda folder: Facts(folder, "HUD"), sync_runs=_quiet)


async def _jump(pilot: Any, wanted: Callable[[Any], bool]) -> None:
    """Ask for the letters, and type that of the first target that fits."""
    await pilot.press("ctrl+backslash")
    await pilot.pause()
    assert isinstance(pilot.app.screen, Jump)
    await pilot.press(
        next(letter for letter, (_, target) in pilot.app.screen.targets.items() if wanted(target))
    )
    await pilot.pause()


async def _runs(pilot: Any, settle: Any) -> Any:
    await pilot.press("5")
    for _ in range(400):
        await pilot.pause(0.02)
        if getattr(pilot.app.screen, "view", None) is not None:
            break
    await settle(pilot)
    return pilot.app.screen


async def test_a_letter_leads_from_a_field_to_a_tab_and_back(
    open_app: Any, project: Path, settle: Any
) -> None:
    make_run(project, "demo-aaaa", "finished", name="demo", log="one\n")
    async with open_app(project, size=(160, 45)) as (app, pilot):
        screen = await _runs(pilot, settle)
        await pilot.press("slash", "d", "ctrl+backslash")
        assert isinstance(app.screen, Jump)
        await pilot.press("!", "escape")
        field = screen.focused
        assert isinstance(field, FilterField) and field.value == "d" and app.screen is screen, (
            "Esc changes nothing"
        )
        await _jump(pilot, lambda target: isinstance(target, Tab) and "Plan" in str(target.label))
        await settle(pilot)
        assert screen.pane.tab == "plan" and screen.pane.has_focus_within
        await _jump(pilot, lambda target: target is screen.runs.table)
        assert screen.focused is screen.runs.table


async def test_a_letter_shows_a_pane_that_has_no_room(
    open_app: Any, project: Path, settle: Any, screen_text: Any
) -> None:
    make_run(project, "demo-aaaa", "finished", name="demo", log="one\n")
    async with open_app(project, size=(80, 24)) as (app, pilot):
        screen = await _runs(pilot, settle)
        await pilot.press("ctrl+backslash")
        await pilot.pause()
        (letter, place) = next(
            (key, place)
            for key, (place, one) in app.screen.targets.items()
            if isinstance(one, Pane)
        )
        row = screen_text(app).splitlines()[place.y]
        assert row[place.x] == letter and row[place.x + 2 :].startswith("demo"), row
        await pilot.press("ctrl+backslash")
        assert app.screen is screen, "its key leaves, too"
        await _jump(pilot, lambda target: target is screen.pane)
        assert screen.pane.display and screen.pane.has_focus_within and not screen.runs.display


@pytest.mark.parametrize("size", [(160, 45), (80, 24)])
async def test_letters_on_every_screen(
    open_app: Any, project: Path, settle: Any, size: tuple[int, int]
) -> None:
    async with open_app(project, size=size, services=SERVICES) as (app, pilot):
        for name in steps.SCREENS:
            app.open_screen(name)
            await settle(pilot)
            screen = app.screen
            await pilot.press("ctrl+backslash")
            if not isinstance(app.screen, Jump):
                assert "there is no field, pane or tab here" in screen.message, name
                continue
            places = [place for place, _ in app.screen.targets.values()]
            assert len(set(places)) == len(places) and all(
                place in screen.region for place in places
            ), name
            letter, (_, target) = next(iter(app.screen.targets.items()))
            await pilot.press(letter)
            await settle(pilot)
            if isinstance(target, Pane):
                assert target.region, f"{name}: the pane is shown"
            else:
                assert screen.focused is target or isinstance(target, Tab), name


async def test_the_letters_lie_over_what_they_lead_to(says: Any, project: Path) -> None:
    from hudtui.tui.app import HudtuiApp

    app = HudtuiApp(project, services=SERVICES)
    words = ("Settings a Setting", "Type a letter to go there; Esc stays here.")
    await says(app, *words, size=(80, 24), press=["comma", "ctrl+backslash"])
