"""Keys that come faster than the screen follows: none is lost, and none does what it was not meant to do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.keys import _character_to_key
from textual.widgets import Input

from hudtui.core.environment import analyze as analyzing
from hudtui.core.environment.values import Analysis, Server, Tool
from hudtui.tui.screens.environment import EnvironmentScreen
from hudtui.tui.widgets.trees import Branches

MANY = Analysis(
    "text-2048",
    Server("text-2048", "1.0.0"),
    "2025-11-25",
    tuple(
        Tool(
            f"tool_{number}",
            "One of many.",
            {"type": "object", "properties": {f"field_{place}": {"type": "string"} for place in range(number % 5)}},
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


async def _environment(pilot: Any, settle: Any) -> EnvironmentScreen:
    await pilot.press("1")
    await settle(pilot)
    await pilot.press("enter")
    await settle(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, EnvironmentScreen) and screen.analysis is not None
    return screen


async def test_moving_fast_in_the_tree_of_tools_ends_nothing(open_app: Any, project: Path, settle: Any, looked: None) -> None:
    async with open_app(project) as (app, pilot):
        screen = await _environment(pilot, settle)
        for _ in range(5):
            burst(app, "j" * 60 + "k" * 40)
            await asyncio.sleep(0)
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
    ("station", "keys", "field"),
    [
        ("environment", ["a", *"text5q"], "#source"),
        ("environment", ["slash", *"quit5"], "#env-filter"),
        ("home", ["ctrl+p", *"theme"], "Input"),
        ("home", [":", *"qq"], "Input"),
        ("settings", ["slash", *"quit1"], "#settings-filter"),
        ("compute", ["slash", *"quit a"], "#cp-filter"),
    ],
)
async def test_what_is_typed_into_a_field_that_opens_arrives_whole(
    open_app: Any, project: Path, settle: Any, looked: None, station: str, keys: list[str], field: str
) -> None:
    async with open_app(project) as (app, pilot):
        if station == "environment":
            await _environment(pilot, settle)
        elif station != "home":
            app.open_station(station)
            await settle(pilot)
        text = "".join(key for key in keys[1:] if len(key) == 1)
        burst(app, keys)
        await settle(pilot)
        assert app.is_running
        assert isinstance(app.focused, Input) and app.screen.query_one(field) is app.focused
        assert app.focused.value == text
