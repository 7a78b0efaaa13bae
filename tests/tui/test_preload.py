"""What is made ready before a step is opened, so that opening it costs less."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hudtui.tui import preload
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


async def test_only_what_the_project_has_is_prepared(open_app: Callable[..., Any], project: Path) -> None:
    async with open_app(project) as (app, _):
        assert preload.soon(app.facts) == preload.ALWAYS
    (project / "tasks.json").write_text(json.dumps([TASK]))
    async with open_app(project) as (app, _):
        assert preload.soon(app.facts) == ("dataset", *preload.ALWAYS)


@pytest.mark.parametrize("prepared", [True, False])
async def test_a_station_reads_no_styles_anew(
    open_app: Callable[..., Any],
    settle: Callable[[Any], Awaitable[None]],
    full: Path,
    monkeypatch: pytest.MonkeyPatch,
    prepared: bool,
) -> None:
    async with open_app(full) as (app, pilot):
        if prepared:
            await preload.prepare(app, preload.soon(app.facts))
        monkeypatch.setattr(app.stylesheet, "reparse", lambda: pytest.fail("all styles are read anew"))
        await pilot.press("3")
        await settle(pilot)
        assert app.screen.NAME == "dataset" and app.screen.open.index.total == 1
        assert app.screen.query_one("#ds-shown").styles.height.value == 1, "its own styles count"
        await pilot.press("2")
        await settle(pilot)
        assert app.screen.NAME == "mapping" and app.screen.draft.config is not None
        for name in preload.ALWAYS:
            app.open_screen(name)
            await settle(pilot)
            assert name == app.screen.NAME


def test_everything_that_a_station_imports_at_its_opening_is_there(full: Path) -> None:
    """In a process of its own, where nothing was imported before: opening the table of tasks imports nothing more of ours."""
    code = """
import asyncio, sys
from pathlib import Path
from hudtui.tui import preload
from hudtui.tui.app import HudtuiApp

async def main():
    app = HudtuiApp(Path.cwd())
    async with app.run_test() as pilot:
        while app.facts is None:
            await asyncio.sleep(0.01)
        await preload.prepare(app, preload.soon(app.facts))
        before = set(sys.modules)
        await pilot.press("3")
        while not (app.screen.NAME == "dataset" and app.screen.open.complete):
            await asyncio.sleep(0.01)
        print([name for name in sys.modules if name.startswith("hudtui.core") and name not in before])

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, cwd=full)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize("size", [(160, 45), (120, 40), (119, 39), (80, 24), (60, 20), (50, 15)])
async def test_a_screen_knows_its_size_before_it_is_laid_out(
    open_app: Callable[..., Any], settle: Callable[[Any], Awaitable[None]], project: Path, size: tuple[int, int]
) -> None:
    async with open_app(project, size=size) as (app, pilot):
        own = set(app._size_classes())
        for step in STEPS:
            app.open_screen(step.name)
            assert own <= app._opened[step.name].classes
            await settle(pilot)
            assert {name for name in app.screen.classes if name.startswith(("-w", "-h"))} == own, "Textual says the same"
