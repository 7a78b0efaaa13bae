"""What opening a screen does not do a second time."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hudtui.tui.steps import STEPS

CONFIG = "job:\n  name: t\naction_mappings:\n  done: {_tool: x}\n"
TASK = {
    "id": "a",
    "prompt": "Play.",
    "mcp_config": {"e": {"command": "x"}},
    "evaluate_tool": {"name": "evaluate", "arguments": {}},
}


@pytest.fixture
def full(project: Path) -> Path:
    """A project that has something for the steps of files."""
    (project / "tasks.json").write_text(json.dumps([TASK]))
    (project / "configs").mkdir()
    (project / "configs" / "own.yaml").write_text(CONFIG)
    return project


async def test_a_station_reads_no_styles_anew(
    open_app: Callable[..., Any],
    settle: Callable[[Any], Awaitable[None]],
    full: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_app(full) as (app, pilot):
        monkeypatch.setattr(
            app.stylesheet, "reparse", lambda: pytest.fail("all styles are read anew")
        )
        await pilot.press("3")
        await settle(pilot)
        assert app.screen.NAME == "dataset" and app.screen.open.index.total == 1
        assert app.screen.query_one("#ds-shown").styles.height.value == 1, "its own styles count"
        await pilot.press("2")
        await settle(pilot)
        assert app.screen.NAME == "mapping" and app.screen.draft.config is not None
        for name in ("environment", "compute", "run", "launch", "results", "settings"):
            app.open_screen(name)
            await settle(pilot)
            assert name == app.screen.NAME


@pytest.mark.parametrize("size", [(160, 45), (120, 40), (119, 39), (80, 24), (60, 20), (50, 15)])
async def test_a_screen_knows_its_size_before_it_is_laid_out(
    open_app: Callable[..., Any],
    settle: Callable[[Any], Awaitable[None]],
    project: Path,
    size: tuple[int, int],
) -> None:
    async with open_app(project, size=size) as (app, pilot):
        own = set(app._size_classes())
        for step in STEPS:
            app.open_screen(step.name)
            assert own <= app._opened[step.name].classes
            await settle(pilot)
            assert {name for name in app.screen.classes if name.startswith(("-w", "-h"))} == own, (
                "Textual says the same"
            )
