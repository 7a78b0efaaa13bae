from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.waiting import until

from hudtui.core.environment import discover as analyzing
from hudtui.core.environment.values import (
    Analysis,
    ContentBlock,
    Prompt,
    Resource,
    Server,
    Tool,
    ToolResult,
)
from hudtui.core.errors import ConnectError
from hudtui.tui.app import HudtuiApp
from hudtui.tui.environment.panes import result_text
from hudtui.tui.environment.screen import EnvironmentScreen
from hudtui.tui.environment.tool_form import ToolForm
from hudtui.tui.environment.tree import Branches
from hudtui.tui.services import Services
from hudtui.tui.widgets.fields import Field, FilterField
from hudtui.tui.widgets.json_view import JsonView

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
MOVE = Tool(
    "move",
    "Push all tiles in one direction.",
    {
        "type": "object",
        "properties": {
            "direction": {"type": "string", "enum": ["left", "right"]},
            "times": {"type": "integer", "default": 1},
        },
        "required": ["direction"],
    },
)
FOUND = Analysis(
    "text-2048",
    Server("text-2048", "1.0.0"),
    "2025-11-25",
    (
        MOVE,
        Tool("setup", "Begin a game.", None, "setup"),
        Tool("board", "", None, "hidden", "setup"),
        Tool("free[b]", "No \x1b[31mschema."),
    ),
    {"setup": ("board",)},
    (Resource("file:///setup/functions", "setup functions", "Names", "application/json"),),
    (Prompt("begin", "How to begin", ("size",)),),
    {"connect": 0.5, "list": 0.1},
    ("a tool had no name",),
    "Play well.",
    analyzed_at="2026-11-20T11:00:00+00:00",
)


@pytest.fixture
def finds(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let looking at any environment give this, for pictures that do not depend on timing."""

    def find(outcome: Analysis | Exception | None) -> None:
        async def analyze(source: Any, **options: Any) -> Analysis:
            if outcome is None:
                await asyncio.Event().wait()
            if isinstance(outcome, Exception):
                raise outcome
            assert isinstance(outcome, Analysis)
            return outcome

        monkeypatch.setattr(analyzing, "analyze", analyze)

    return find


async def _name(pilot: Any, text: str) -> None:
    await pilot.press("a")
    screen = pilot.app.screen
    screen.query_one("#source").value = text
    await pilot.press("enter")


@pytest.mark.parametrize("size", [(160, 45), (80, 24), (60, 20)])
def test_picture_full(snap: Any, project: Path, finds: Any, size: tuple[int, int]) -> None:
    finds(FOUND)

    async def look(pilot: Any) -> None:
        await _name(pilot, "text-2048")

    assert snap(
        HudtuiApp(project, services=Services(now=lambda: NOON)),
        size=size,
        press=["1"],
        run_before=look,
    )


EMPTY = (
    "No environment is open. Name one above (a) and press Enter; an empty field takes text-2048, "
    "which comes with hudtui"
)
REFUSED = ConnectError("the server answered 401", why="it wants a key", fix="Set HUD_API_KEY.")


@pytest.mark.parametrize(
    ("outcome", "source", "keys", "words"),
    [
        pytest.param(None, None, (), (EMPTY, "text-2048, org/name:tag, folder, URL"), id="empty"),
        pytest.param(
            REFUSED,
            "https://mcp.example/mcp",
            (),
            (
                "Source https://mcp.example/mcp ✗ connection failed",
                EMPTY,
                "✗ error: the server answered 401 it wants a key Set HUD_API_KEY.",
            ),
            id="refused",
        ),
        pytest.param(
            FOUND,
            "text-2048",
            ("c",),
            (
                "move for the agent Push all tiles in one direction.",
                'direction required string (one of "left", "right")',
                "times optional integer (default 1)",
                "direction * left | right times integer default 1",
                "Enter Call",
            ),
            id="form",
        ),
    ],
)
async def test_the_words_of_a_state(
    says: Any,
    project: Path,
    finds: Any,
    settle: Any,
    outcome: Any,
    source: str | None,
    keys: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    finds(outcome)

    async def look(pilot: Any) -> None:
        if source is not None:
            await _name(pilot, source)
            await settle(pilot)
        await pilot.press(*keys)

    app = HudtuiApp(project, services=Services(now=lambda: NOON))
    await says(app, *words, press=["1"], run_before=look)


async def test_loading_is_said_and_can_be_cancelled(
    open_app: Any, project: Path, finds: Any, settle: Any, screen_text: Any
) -> None:
    finds(None)
    async with open_app(project) as (app, pilot):
        await pilot.press("1")
        await pilot.pause()
        await _name(pilot, "text-2048")
        await pilot.pause()
        assert "● analyzing" in screen_text(app)
        assert "The environment is being analyzed …" in screen_text(app)
        assert "Analyzing text-2048" in app.screen.message and "^x" in app.screen.message
        await pilot.press("tab", "ctrl+x")
        await settle(pilot)
        assert app.screen.message == "Cancelled."


async def test_cancelling_ends_nothing_of_another_screen(
    open_app: Any, project: Path, settle: Any
) -> None:
    async with open_app(project) as (app, pilot):
        home = app.screen
        works = [
            home.run_worker(
                asyncio.Event().wait(), name="forever", group=group, exit_on_error=False
            )
            for group in ("look", "call", "read", "send")
        ]
        for step in ("environment", "dataset", "mapping"):
            app.open_screen(step)
            await settle(pilot)
            app.screen.action_cancel()
            await settle(pilot)
            assert app.screen is not home and "nothing" in app.screen.message.lower()
        assert all(work.is_running for work in works)


async def test_a_real_environment_is_looked_at_and_played(
    open_app: Any, project: Path, settle: Any, screen_text: Any
) -> None:
    async with open_app(project) as (app, pilot):
        await pilot.press("1")
        await settle(pilot)
        await pilot.press("enter")  # the empty field takes the bundled environment
        await settle(pilot)
        screen: EnvironmentScreen = app.screen
        assert screen.analysis is not None and [
            tool.name for tool in screen.analysis.agent_tools
        ] == ["move"]
        assert app.facts.step("environment").state == "done"
        await pilot.press("enter")  # on the tool: to its form
        await settle(pilot)
        assert "Enter Call" in screen_text(app)
        await pilot.press(*"down", "enter")
        await settle(pilot)
        answer = screen.query_one("#env-answer", JsonView).text
        assert answer.startswith("✓ answered") and "structured:" in answer and '"score"' in answer
        assert "● connected" in screen_text(app)
        await pilot.press("tab", "x")
        await settle(pilot)
        assert screen.connection.session is None


async def test_a_hidden_function_is_called_through_its_hub(
    open_app: Any, project: Path, settle: Any
) -> None:
    async with open_app(project) as (app, pilot):
        await pilot.press("1")
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        screen: EnvironmentScreen = app.screen
        tree = screen.query_one(Branches)
        leaves = [
            leaf
            for branch in tree.root.children
            for tool in branch.children
            for leaf in tool.children
        ]
        node = next(leaf for leaf in leaves if getattr(leaf.data, "name", "") == "board")
        tree.move_cursor(node)
        await settle(pilot)
        await pilot.press("c")
        await settle(pilot)
        screen.query_one(ToolForm).query_one("#field-0").value = '{"board_size": 3, "seed": 1}'
        await pilot.press("enter")
        await settle(pilot)
        assert "3x3" in screen.query_one("#env-answer", JsonView).text


async def test_a_bad_field_is_named(open_app: Any, project: Path, settle: Any, finds: Any) -> None:
    finds(FOUND)
    async with open_app(project) as (app, pilot):
        await pilot.press("1")
        await settle(pilot)
        await _name(pilot, "text-2048")
        await settle(pilot)
        await pilot.press("c")
        await settle(pilot)
        await pilot.press(*"left", "down", "x", "enter")
        await settle(pilot)
        assert "times: this parameter is of type integer" in app.screen.message


async def test_what_was_seen_is_shown_at_once_the_next_time(
    open_app: Any, project: Path, settle: Any, finds: Any, screen_text: Any
) -> None:
    finds(FOUND)
    async with open_app(project) as (app, pilot):
        await pilot.press("1")
        await settle(pilot)
        await _name(pilot, "text-2048")
        await settle(pilot)
    finds(ConnectError("the environment is away"))
    async with open_app(project, services=Services(now=lambda: NOON - timedelta(minutes=10))) as (
        app,
        pilot,
    ):
        await pilot.press("1")
        await settle(pilot)
        assert app.screen.analysis == FOUND and app.screen.message == "", (
            "it was analyzed a short time ago"
        )
        assert "inspected 50 minutes ago" in screen_text(app)
    async with open_app(project, services=Services(now=lambda: NOON + timedelta(minutes=10))) as (
        app,
        pilot,
    ):
        await pilot.press("1")
        await settle(pilot)
        assert app.screen.analysis == FOUND
        assert "the environment is away" in app.screen.message
        assert "showing the last analysis" in screen_text(app)


async def test_the_filter_narrows_ten_thousand_tools(
    open_app: Any, project: Path, settle: Any, finds: Any
) -> None:
    finds(replace(FOUND, tools=tuple(Tool(f"tool_{n:05}", "x") for n in range(10_000))))
    async with open_app(project) as (app, pilot):
        await pilot.press("1")
        await settle(pilot)
        await _name(pilot, "text-2048")
        await settle(pilot)
        branch = app.screen.query_one(Branches).root.children[0]
        assert len(branch.children) == 501 and "9500 more" in str(branch.children[-1].label)
        await pilot.press("slash", *"9998")
        await settle(pilot)
        branch = app.screen.query_one(Branches).root.children[0]
        assert [leaf.data.name for leaf in branch.children] == ["tool_09998"]
        await pilot.press("enter", "escape")
        await settle(pilot)
        assert not app.screen.query_one(FilterField).display and app.screen.NAME == "environment"
        await pilot.press("escape")
        assert app.screen.NAME == "home"


async def test_generating_writes_a_config_and_asks_before_it_replaces_one(
    open_app: Any, project: Path, settle: Any, finds: Any, screen_text: Any
) -> None:
    schema = {
        "type": "object",
        "properties": {"direction": {"type": "string", "enum": ["left", "right"]}},
        "required": ["direction"],
    }
    finds(replace(FOUND, tools=(Tool("move", "Push.", schema),)))
    async with open_app(project) as (app, pilot):
        await pilot.press("1")
        await settle(pilot)
        await _name(pilot, "text-2048")
        await settle(pilot)
        await pilot.press("w")
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        assert "left()  right()" in screen_text(app)
        await pilot.press("down", "enter")
        await settle(pilot)
        files = list((project / "configs").glob("*.yaml"))
        assert len(files) == 1
        assert "move" in yaml.safe_load(files[0].read_text())["action_mappings"]
        app.open_screen("environment")
        await settle(pilot)
        await pilot.press("w")
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press("y")
        await pilot.pause()
        await pilot.press("enter")
        await settle(pilot)
        assert {"left", "right"} <= set(yaml.safe_load(files[0].read_text())["action_mappings"])
        files[0].write_text("mine: 1\n")
        app.open_screen("environment")
        await settle(pilot)
        await pilot.press("w")
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        await pilot.press("n")
        await settle(pilot)
        assert files[0].read_text() == "mine: 1\n"


async def test_a_config_goes_into_the_project_and_is_of_its_platform(
    open_app: Any, project: Path, settle: Any, finds: Any
) -> None:
    (project / "buckeye.lock.yaml").write_text("")
    finds(FOUND)
    async with open_app(project) as (app, pilot):
        await pilot.press("1")
        await settle(pilot)
        await _name(pilot, "text-2048")
        await settle(pilot)
        for given, said in (
            ("", "needs a file name"),
            ("../outside.yaml", "outside of the project folder"),
        ):
            await pilot.press("w")
            await pilot.pause()
            app.screen.query_one(Field).value = given
            await pilot.press("enter")
            await settle(pilot)
            assert said in app.screen.message
        assert (
            not (project.parent / "outside.yaml").exists() and not list(project.rglob("*.yaml"))[1:]
        )
        await pilot.press("w")
        await pilot.pause()
        app.screen.query_one(Field).value = "configs/a.yaml"
        await pilot.press("enter")
        await settle(pilot)
        await pilot.press("enter")  # with the tools that are ticked
        await settle(pilot)
        assert "buckeye-vf-gym" in (project / "configs" / "a.yaml").read_text().splitlines()[0]


def test_an_answer_in_words() -> None:
    image = ContentBlock(
        "image", data=base64.b64encode(b"GIF89a\x03\x00\x05\x00").decode(), mime_type="image/gif"
    )
    text = result_text(
        ToolResult(
            (
                ContentBlock("text", "a\x1b]0;x\x07b"),
                image,
                ContentBlock("resource_link", uri="file:///x"),
            ),
            {"n": 1},
            True,
        ),
        0.25,
        "; o opens it",
    )
    first, *rest = text.split("\n")
    assert first == "✗ error in 0.2s"
    assert rest == [
        "ab",
        "[image: image/gif, 3x5, 0.0 kB; o opens it]",
        "[resource_link file:///x]",
        "structured:",
        "{",
        '  "n": 1',
        "}",
    ]


async def test_new_tasks_are_written_beside_those_that_are_there(
    open_app: Any, project: Path, settle: Any, screen_text: Any
) -> None:
    async with open_app(project, size=(120, 35)) as (app, pilot):
        await pilot.press("1")
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        for name in ("text-2048-tasks.json", "text-2048-tasks-2.json"):
            await pilot.press("n")
            await settle(pilot)
            await pilot.press("G", "o")
            await settle(pilot)
            assert not (project / name).exists(), "what is typed writes nothing"
            await pilot.press("ctrl+g")
            await until(pilot, (project / name).exists)
            await settle(pilot)
            (written,) = json.loads((project / name).read_text())
            assert (written["id"], written["prompt"]) == ("text-2048", "Go")
            assert f"Wrote 1 task to {name}" in screen_text(app)


async def test_up_goes_through_the_sources_that_were_used(
    open_app: Any, project: Path, settle: Any
) -> None:
    folder = project / ".hudtui" / "analyses"
    folder.mkdir(parents=True)
    for number, name in enumerate(("tcp://127.0.0.1:9", "tcp://127.0.0.1:10")):
        (folder / f"{number}.json").write_text(
            json.dumps({"format": 1, "key": "0", "analysis": Analysis(name).to_json()})
        )
        os.utime(folder / f"{number}.json", (number, number))
    async with open_app(project) as (app, pilot):
        await pilot.press("1")
        await settle(pilot)
        await pilot.press("a")
        await settle(pilot)
        field = app.screen.query_one("#source")
        field.value = "typed"
        seen = []
        for key in ("up", "up", "up", "down", "down", "down"):
            await pilot.press(key)
            seen.append(field.value)
        old, newer = "tcp://127.0.0.1:9", "tcp://127.0.0.1:10"
        assert seen == [newer, old, old, newer, "typed", "typed"]
        await pilot.press("x")
        assert field.value == "typedx"
