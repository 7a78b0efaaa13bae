"""Settings on screen: the picture, editing `.env` in place, removing, testing a key, and no secret
anywhere."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from support.waiting import until

from hudtui.tui.app import HudtuiApp
from hudtui.tui.settings.screen import SettingsScreen
from hudtui.tui.widgets.fields import Field
from hudtui.tui.widgets.table_pane import TablePane

KEY = "hud-0123456789abcdefghij-WXYZ"
ENV = (
    f"# mine\nHUD_API_KEY={KEY}   # from the site\nexport PRIME_TEAM_ID='team 7'\n"
    "WANDB_API_KEY=your-wandb-api-key\n"
)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is set but what the test sets."""
    monkeypatch.delenv("HUDTUI_SIM")


@pytest.fixture
def filled(project: Path) -> Path:
    (project / ".env").write_text(ENV)
    return project


def test_picture_full(snap: Callable[..., bool], filled: Path, size: tuple[int, int]) -> None:
    assert snap(HudtuiApp(filled), size=size, press=["comma"])


QUESTION = (
    "Write this setting?",
    "HUD_API_KEY = ••••abcd",
    "into ~/demo/.env",
    "Only you will be able to read the file (mode 0600); everything else in it stays as it is.",
    "Write (y) Cancel (n)",
)


@pytest.mark.parametrize(
    ("env", "press", "words"),
    [
        pytest.param(
            None,
            (),
            (
                "state setting value ○ not set HUD_API_KEY · default HUD_MCP_URL mcp.hud.ai/v3/m",
                "○ not set PRIME_API_KEY",
                "e Set in .env E Set (user) x Remove",
            ),
            id="empty",
        ),
        pytest.param(
            b"HUD_API_KEY=\xff\xfe\xff\n",
            (),
            (
                "! warning: .env is left out: .env:1: this is not UTF-8 text",
                "○ not set HUD_API_KEY",
            ),
            id="not readable",
        ),
        pytest.param(
            ENV.encode(),
            ("e", *"sk-secret-0123456789abcd", "enter"),
            QUESTION,
            id="question",
        ),
        pytest.param(
            None,
            ("slash", *"nothing"),
            ("· default HUDTUI_ALARM_QUIET_MINUTES", "Esc Clear filter"),
            id="filtered",
        ),
    ],
)
async def test_the_words_of_a_state(
    says: Any,
    project: Path,
    env: bytes | None,
    press: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    if env is not None:
        (project / ".env").write_bytes(env)
    await says(HudtuiApp(project), *words, press=["comma", *press])


async def test_reading_is_said(says: Any, filled: Path, reading_app: Any) -> None:
    await says(reading_app(filled), "Reading the settings …", press=["comma"], wait=False)


async def _choose(pilot: Any, settle: Any, name: str) -> SettingsScreen:
    await pilot.press("comma")
    await settle(pilot)
    screen: SettingsScreen = pilot.app.screen
    assert screen.query_one(TablePane).choose(name)
    await settle(pilot)
    return screen


async def test_setting_edits_env_in_place_and_never_shows_the_value(
    open_app: Callable[..., Any], settle: Any, screen_text: Callable[[Any], str], filled: Path
) -> None:
    async with open_app(filled, size=(160, 45)) as (app, pilot):
        await _choose(pilot, settle, "HUD_API_KEY")
        seen = [screen_text(app)]
        await pilot.press("e")
        await settle(pilot)
        new = "hud-new-value-0123456789-9876"
        await pilot.press(*new)
        seen.append(screen_text(app))
        await pilot.press("enter")
        await settle(pilot)
        seen.append(screen_text(app))
        assert "••••9876" in seen[-1] and "into ~/demo/.env" in seen[-1]
        await pilot.press("y")
        await settle(pilot)
        seen.append(screen_text(app))
        assert "HUD_API_KEY is set in ~/demo/.env" in seen[-1]
        assert (filled / ".env").read_text() == ENV.replace(f"{KEY}   # from the site", new)
        assert stat.S_IMODE((filled / ".env").stat().st_mode) == 0o600
        assert not any(value in text for text in seen for value in (KEY, new))
        assert app.facts.account.origin == ".env"


async def test_giving_up_changes_nothing(
    open_app: Callable[..., Any], settle: Any, filled: Path
) -> None:
    before = (filled / ".env").stat().st_mtime_ns
    async with open_app(filled) as (_, pilot):
        await _choose(pilot, settle, "HUD_API_KEY")
        for keys in (["e", "escape"], ["e", "x", "enter", "n"], ["u", "n"]):
            for key in keys:
                await pilot.press(key)
                await settle(pilot)
    assert (filled / ".env").read_text() == ENV and (filled / ".env").stat().st_mtime_ns == before


async def test_the_environment_that_wins_is_said(
    open_app: Callable[..., Any],
    settle: Any,
    screen_text: Any,
    filled: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HUD_API_KEY", "from-the-environment-0123")
    async with open_app(filled, size=(160, 45)) as (app, pilot):
        await _choose(pilot, settle, "HUD_API_KEY")
        assert "also in, without effect  .env" in screen_text(app)
        await pilot.press("u")
        await settle(pilot)
        assert "its value does not come from a file of hudtui" in screen_text(app)
        await pilot.press("e")
        await settle(pilot)
        await pilot.press("v", "enter")
        await settle(pilot)
        assert "The value from environment still comes first." in screen_text(app)


async def test_removing_and_the_users_own_file(
    open_app: Callable[..., Any], settle: Any, screen_text: Any, filled: Path
) -> None:
    async with open_app(filled, size=(160, 45)) as (app, pilot):
        await _choose(pilot, settle, "PRIME_TEAM_ID")
        await pilot.press("u")
        await settle(pilot)
        await pilot.press("y")
        await settle(pilot)
        assert "PRIME_TEAM_ID" not in (filled / ".env").read_text()
        await pilot.press("E")
        await settle(pilot)
        await pilot.press(*"team-9", "enter")
        await settle(pilot)
        await pilot.press("y")
        await settle(pilot)
        assert (app.places.settings_file).read_text() == "PRIME_TEAM_ID=team-9\n"
        assert "user file" in screen_text(app)


@pytest.mark.parametrize(
    ("name", "bad", "said"),
    [("HUD_MCP_URL", "not a url", "not an address"), ("HUDTUI_BUDGET_RUN", "-5", "more than 0")],
)
async def test_a_value_that_cannot_be_is_not_written(
    open_app: Callable[..., Any],
    settle: Any,
    screen_text: Any,
    project: Path,
    name: str,
    bad: str,
    said: str,
) -> None:
    async with open_app(project, size=(160, 45)) as (app, pilot):
        screen = await _choose(pilot, settle, name)
        await pilot.press("e")
        await settle(pilot)
        app.screen.query_one(Field).value = bad
        await pilot.press("enter")
        await settle(pilot)
        await until(
            pilot, lambda: said in screen_text(app)
        )  # the value is checked beside the screen
        assert app.screen.query_one(Field).value == bad  # asked again, with what was written
        await pilot.press("escape")
        await settle(pilot)
        assert app.screen is screen and not (project / ".env").exists()


async def test_the_state_follows_the_theme(
    open_app: Callable[..., Any], settle: Any, filled: Path
) -> None:
    async with open_app(filled, size=(160, 45)) as (app, pilot):
        screen = await _choose(
            pilot, settle, "PRIME_API_KEY"
        )  # the cursor's line has colours of its own

        def colour() -> Any:
            lines = [
                strip
                for strip in screen._compositor.render_strips()
                if "✓" in strip.text and "HUD_API_KEY" in strip.text
            ]
            return next(segment.style.color for segment in lines[0] if "✓" in segment.text)

        before = colour()
        app.set_theme("textual-light")
        await settle(pilot)
        assert colour() != before
        assert colour().get_truecolor().hex == app.theme_variables["success"].lower()


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[bytes]]:
    """An HTTP server on this machine that knows one key."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head)
        good = KEY.encode() in head
        body = json.dumps({"items": []} if good else {"error": "no"}).encode()
        status = b"200 OK" if good else b"401 Unauthorized"
        writer.write(
            b"HTTP/1.1 "
            + status
            + b"\r\nContent-Length: "
            + str(len(body)).encode()
            + b"\r\nConnection: close\r\n\r\n"
            + body
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    monkeypatch.setenv("HUD_API_URL", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with server:
        yield asked


async def test_a_key_is_tested_when_asked_and_not_before(
    open_app: Callable[..., Any], settle: Any, screen_text: Any, filled: Path, service: list[bytes]
) -> None:
    async with open_app(filled, size=(160, 45)) as (app, pilot):
        await _choose(pilot, settle, "HUD_API_KEY")
        assert service == []
        await pilot.press("T")
        await settle(pilot)
        assert len(service) == 1 and "The key works" in screen_text(app)
        (filled / ".env").write_text("HUD_API_KEY=another-key-that-is-wrong\n")
        await pilot.press("f5")
        await settle(pilot)
        await pilot.press("T")
        await settle(pilot)
        text = screen_text(app)
        assert (
            len(service) == 2
            and "refuses the key (401)" in text
            and "another-key-that-is-wrong" not in text
        )


async def test_keys_that_cannot_be_tested_say_why(
    open_app: Callable[..., Any], settle: Any, screen_text: Any, filled: Path
) -> None:
    async with open_app(filled, size=(160, 45)) as (app, pilot):
        await _choose(pilot, settle, "HUD_WEB_URL")
        await pilot.press("T")
        await settle(pilot)
        assert "Test key: this setting is not a key" in screen_text(app)
        await _choose(pilot, settle, "HF_TOKEN")
        await pilot.press("T")
        await settle(pilot)
        assert "Test key: HF_TOKEN is not set" in screen_text(app)


async def test_the_filter_narrows_and_escape_brings_all_back(
    open_app: Callable[..., Any], settle: Any, screen_text: Any, filled: Path
) -> None:
    async with open_app(filled, size=(160, 45)) as (app, pilot):
        screen = await _choose(pilot, settle, "HUD_API_KEY")
        await pilot.press("slash", *"prime", "enter")
        await settle(pilot)
        listed = screen.query_one(TablePane)
        assert app.focused is listed.table
        assert 0 < len(listed.listed) < len(listed.rows) and "PRIME_API_KEY" in screen_text(app)
        await pilot.press("slash", "escape")
        await settle(pilot)
        assert len(listed.listed) == len(listed.rows)
        await pilot.press("slash", *"prime", "enter", "escape")
        await settle(pilot)
        assert (
            len(listed.listed) == len(listed.rows)
            and app.focused is listed.table
            and app.screen is screen
        )
        await pilot.press("escape")
        assert app.screen.NAME == "home"
