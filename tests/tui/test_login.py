"""Logging in on the environment screen, and forms that a server asks for there; dialogs with a
form."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import servers
from support.oauth_world import OAuthWorld

from hudtui.core.environment.login_file import read_login
from hudtui.tui.app import HudtuiApp
from hudtui.tui.widgets.dialog import Ask, Confirm
from hudtui.tui.widgets.pick import Pick

odd, odd_http = servers.odd, servers.odd_http
ADDRESS = (
    "https://login.example/authorize?response_type=code&client_id=a&code_challenge=" + "x" * 120
)


@pytest.fixture
async def world(odd_http: Any, monkeypatch: pytest.MonkeyPatch) -> OAuthWorld:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return await OAuthWorld.start(odd_http)


async def until(pilot: Any, kind: type, *, not_yet: Any = None) -> Any:
    """Wait for a dialog that is ready."""
    async with asyncio.timeout(60):
        while (
            not isinstance(pilot.app.screen, kind)
            or pilot.app.screen is not_yet
            or not pilot.app.screen.is_mounted
        ):
            await pilot.pause(0.02)
    await pilot.pause(0.05)
    return pilot.app.screen


async def open_environment(pilot: Any, settle: Any, name: str) -> None:
    await pilot.press("1")
    await settle(pilot)
    await pilot.press("a")
    pilot.app.screen.query_one("#source").value = name
    await pilot.press("enter")


async def test_a_login_from_the_question_to_the_tools_and_out_again(
    open_app: Any,
    project: Path,
    settle: Any,
    world: OAuthWorld,
    screen_text: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[str] = []
    async with open_app(project) as (app, pilot):
        monkeypatch.setattr(app, "copy", copied.append)
        await open_environment(pilot, settle, world.url)
        await until(pilot, Confirm)
        assert "Log in?" in screen_text(
            app
        ) and f"401: {world.url} wants credentials" in screen_text(app)
        await pilot.press("y")
        await until(pilot, Ask)
        await pilot.press("ctrl+o")
        (address,) = copied
        assert address.startswith(f"{world.issuer}/authorize?")
        await world.browse(address)  # the dialog closes by itself
        await settle(pilot)
        assert app.screen.NAME == "environment" and [
            tool.name for tool in app.screen.analysis.tools
        ] == ["say"]
        assert read_login(world.url) is not None
        assert "access-token" not in screen_text(app)

        await pilot.press("i")
        await settle(pilot)
        assert f"login       logged in at {world.issuer}" in screen_text(app)
        await pilot.press("escape", "L")
        await until(pilot, Pick)
        await pilot.press("down", "enter")
        await settle(pilot)
        assert app.screen.message == "The login is forgotten." and read_login(world.url) is None

        await pilot.press("L")
        dialog = await until(pilot, Ask)
        await pilot.press("escape")
        await settle(pilot)
        assert not dialog.is_attached and "was cancelled" in app.screen.message


async def test_a_pasted_address_finishes_a_login(
    open_app: Any,
    project: Path,
    settle: Any,
    world: OAuthWorld,
    screen_text: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[str] = []
    async with open_app(project) as (app, pilot):
        monkeypatch.setattr(app, "copy", copied.append)
        await open_environment(pilot, settle, world.url)
        await until(pilot, Confirm)
        await pilot.press("y")
        first = await until(pilot, Ask)
        await pilot.press("ctrl+o", *"http://else", "enter")
        second = await until(pilot, Ask, not_yet=first)
        assert "no answer of this login" in screen_text(app)
        second.query_one("#answer").value = await world.visit(copied[0])
        await pilot.press("enter")
        await settle(pilot)
        assert app.screen.analysis is not None and read_login(world.url) is not None


async def test_what_is_opened_by_itself_asks_for_no_login(
    open_app: Any, project: Path, settle: Any, world: OAuthWorld
) -> None:
    async with open_app(project) as (app, pilot):
        await open_environment(pilot, settle, world.url)
        await until(pilot, Confirm)
        await pilot.press("y")
        dialog = await until(pilot, Ask)
        await world.browse(dialog._copy)
        await settle(pilot)
        assert app.screen.analysis is not None
    world.valid.clear()
    world.refreshes = False
    async with open_app(project) as (app, pilot):
        await pilot.press("1")
        await settle(pilot)
        assert app.screen.NAME == "environment" and "has expired" in app.screen.message


async def test_a_form_of_a_server_is_declined_and_the_user_sees_it(
    open_app: Any, project: Path, settle: Any, odd: Callable[..., tuple[str, ...]], screen_text: Any
) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string", "default": "Ann"}}}
    request = {
        "method": "elicitation/create",
        "params": {"message": "Who [b]are you?", "requestedSchema": schema},
    }
    async with open_app(project) as (app, pilot):
        await open_environment(pilot, settle, f"-- {shlex.join(odd('put', json.dumps(request)))}")
        await settle(pilot)
        await pilot.press("c", "enter")
        await settle(pilot)
        assert '"decline"' in screen_text(app)
        assert "was declined: Who [b]are you?" in app.screen.message


async def test_an_address_is_shown_whole_where_it_is_narrow(says: Any, project: Path) -> None:
    async def ask(pilot: Any) -> None:
        lines = ("Open this address in a browser.",)
        app = pilot.app
        app.run_worker(
            app.ask(
                "Log in at https://mcp.example/mcp", lines=lines, copy=ADDRESS, accept="Continue"
            ),
            name="forever",
        )
        await until(pilot, Ask)

    words = ("Log in at https://mcp.example/mcp", "Copy (^o) Continue (Enter) Cancel (Esc")
    text = await says(HudtuiApp(project), *words, run_before=ask)
    rows = [line.split("│")[1].strip(" ▁▂▃▄▅▆▇") for line in text.splitlines() if "│" in line]
    assert ADDRESS in "".join(rows)
