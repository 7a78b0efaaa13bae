"""A folder that is not trusted, on screen: a sign, one question, and nothing done before the
answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hudtui.core import trust
from hudtui.core.environment.values import Analysis
from hudtui.core.flows.trust import survey
from hudtui.core.settings import save_project_setting
from hudtui.tui.widgets.dialog import Confirm
from hudtui.tui.widgets.header import HeaderBar


@pytest.fixture
def hostile(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("HUDTUI_TRUST", raising=False)
    analyses = project / ".hudtui" / "analyses"
    analyses.mkdir(parents=True)
    seen = Analysis("-- sh -c 'touch ran; cat'").to_json()
    (analyses / "0.json").write_text(json.dumps({"format": 1, "key": "0", "analysis": seen}))
    (project / ".env").write_text("HUDTUI_BUDGET_RUN=2\n")
    return project


def header(app: Any) -> str:
    return str(app.screen.query_one(HeaderBar).render().plain)


async def test_the_header_says_so_until_the_user_agrees(open_app: Any, hostile: Path) -> None:
    async with open_app(hostile) as (app, pilot):
        assert "! not trusted" in header(app)
        await pilot.press("exclamation_mark")
        await pilot.pause()
        assert isinstance(app.screen, Confirm)
        assert "touch ran; cat" in "\n".join(
            app.screen._lines
        ) and "HUDTUI_BUDGET_RUN=2" in "\n".join(app.screen._lines)
        await pilot.press("y")
        await settled(pilot, lambda: "! not trusted" not in header(app))
        assert trust.missing(hostile, survey(hostile)) == ()
    assert not (hostile / "ran").exists()


async def test_the_header_follows_what_is_agreed_to_in_a_shell(
    open_app: Any, hostile: Path
) -> None:
    async with open_app(hostile) as (app, pilot):
        for _ in range(2):
            assert "! not trusted" in header(app)
            trust.agree(hostile, survey(hostile))
            await settled(pilot, lambda: "! not trusted" not in header(app))
            trust.revoke(hostile)
            await settled(pilot, lambda: "! not trusted" in header(app))


async def test_a_key_that_a_shell_sets_is_shown(
    open_app: Any, project: Path, screen_text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HUDTUI_TRUST", raising=False)
    async with open_app(project, size=(120, 40)) as (app, pilot):
        await pilot.press("comma")
        await settled(pilot, lambda: "WANDB_API_KEY" in screen_text(app))
        save_project_setting(project, "WANDB_API_KEY", "w" * 20)
        await settled(pilot, lambda: "✓ set WANDB_API_KEY" in " ".join(screen_text(app).split()))
        (project / ".env").write_text(f"HF_TOKEN=theirs\nWANDB_API_KEY={'w' * 20}\n")
        await settled(pilot, lambda: "! waits HF_TOKEN" in " ".join(screen_text(app).split()))
        assert "✓ set WANDB_API_KEY" in " ".join(screen_text(app).split()), (
            "what was agreed to stays agreed to"
        )
        assert "HF_TOKEN stands in .env, line 1, which is not trusted" in app.screen.message


async def test_the_settings_say_that_the_file_of_the_folder_does_not_count(
    open_app: Any, hostile: Path, screen_text: Any
) -> None:
    async with open_app(hostile, size=(120, 40)) as (app, pilot):
        await pilot.press("comma")
        await settled(
            pilot, lambda: "and does not count until you trust this folder: !" in app.screen.message
        )
        await pilot.press("exclamation_mark")
        await settled(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await settled(pilot, lambda: "HUDTUI_BUDGET_RUN 2 " in " ".join(screen_text(app).split()))
        assert "not count" not in app.screen.message


async def test_the_question_shows_a_long_command_to_its_end(
    open_app: Any, project: Path, monkeypatch: Any, screen_text: Any
) -> None:
    monkeypatch.delenv("HUDTUI_TRUST", raising=False)
    command = "token=`first` \x1b]52;c;x\x1b\\ " + "x" * 5000 + " \u200bEVIL"
    servers = {"a": {"command": "sh", "args": ["-c", command]}}
    (project / "tasks.json").write_text(json.dumps([{"prompt": "x", "mcp_config": servers}]))
    async with open_app(project, size=(80, 24)) as (app, pilot):
        await pilot.press("exclamation_mark")
        await settled(pilot, lambda: isinstance(app.screen, Confirm))
        assert "token=`first` \\x1b]52;c;x" in screen_text(app)
        await settled(pilot, lambda: app.screen.query_one(".dialog-body").max_scroll_y > 0)
        while "\\u200bEVIL" not in screen_text(app).replace(" ", "").replace("\n", ""):
            await pilot.press("pagedown")
            await pilot.pause()


async def test_key_1_starts_nothing_that_the_folder_names_unasked(
    open_app: Any, hostile: Path
) -> None:
    async with open_app(hostile) as (app, pilot):
        await pilot.press("1")
        await settled(pilot, lambda: isinstance(app.screen, Confirm))
        assert not (hostile / "ran").exists()
        await pilot.press("enter")  # a careless Enter is a no
        await settled(pilot, lambda: not isinstance(app.screen, Confirm))
        await settled(pilot, lambda: "not trusted" in app.screen.message)
    assert not (hostile / "ran").exists()


async def test_after_the_answer_the_action_goes_on(open_app: Any, hostile: Path) -> None:
    async with open_app(hostile) as (app, pilot):
        await pilot.press("1")
        await settled(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await settled(pilot, lambda: (hostile / "ran").exists())


async def settled(pilot: Any, true: Any) -> None:
    """Wait until something is true; the test's own time limit ends it otherwise."""
    while not true():
        await pilot.pause(0.05)


@pytest.fixture
def keyed(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose `.env` holds keys that the user has not agreed to, and a task that needs
    one."""
    monkeypatch.delenv("HUDTUI_TRUST", raising=False)
    monkeypatch.delenv("HUDTUI_SIM", raising=False)
    (project / ".env").write_text("HUD_API_KEY=h-0123456789\nPRIME_API_KEY=p-0123456789\n")
    server = {
        "url": "https://mcp.hud.ai/v3/mcp",
        "headers": {"Authorization": "Bearer $HUD_API_KEY"},
    }
    call = {"name": "x", "arguments": {}}
    task = {
        "id": "a",
        "prompt": "Play.",
        "mcp_config": {"hud": server},
        "setup_tool": call,
        "evaluate_tool": call,
    }
    (project / "tasks.json").write_text(json.dumps([task]))
    (project / "configs").mkdir()
    moves = "".join(
        f"  {word}: {{_parser: {{positional: []}}, _tool: x}}\n"
        for word in ("left", "right", "up", "down")
    )
    (project / "configs" / "play.yaml").write_text(
        f"parser: {{use_thinking: false}}\naction_mappings:\n{moves}"
    )
    return project


async def test_launch_says_where_a_key_stands_and_asks(
    open_app: Any, keyed: Path, screen_text: Any
) -> None:
    async with open_app(keyed, size=(160, 45)) as (app, pilot):
        app.open_screen("launch")
        await settled(
            pilot, lambda: "Not ready: HUD_API_KEY stands in .env, line 1" in screen_text(app)
        )
        assert "is not set" not in screen_text(app)
        await pilot.press("f4")
        await settled(pilot, lambda: isinstance(app.screen, Confirm))
        assert "PRIME_API_KEY" in "\n".join(app.screen._lines)
        await pilot.press("y")
        await settled(pilot, lambda: "Ready: no machine is rented" in screen_text(app))
        assert "which is not trusted" not in screen_text(app) and "not trusted" not in header(app)


async def test_nothing_is_started_before_the_values_are_agreed_to(
    open_app: Any, keyed: Path, screen_text: Any
) -> None:
    trust.agree(keyed, survey(keyed))
    with (keyed / ".env").open("a") as file:
        file.write("HUDTUI_BUDGET_RUN=1\n")
    async with open_app(keyed, size=(160, 45)) as (app, pilot):
        app.open_screen("launch")
        await settled(pilot, lambda: "Ready: no machine is rented" in screen_text(app))
        await pilot.press("ctrl+g")
        await settled(pilot, lambda: isinstance(app.screen, Confirm))
        lines = "\n".join(app.screen._lines)
        assert "HUDTUI_BUDGET_RUN=1" in lines and "HUD_API_KEY" not in lines, (
            "only the new line is asked about"
        )
        await pilot.press("n")
        await settled(pilot, lambda: "not trusted" in app.screen.message)
        assert not (keyed / ".hudtui" / "runs.db").exists()


async def test_compute_says_where_the_key_stands_and_follows_the_answer(
    open_app: Any, keyed: Path, screen_text: Any
) -> None:
    (keyed / ".env").write_text(
        "\nPRIME_API_KEY=p-0123456789\nPRIME_API_BASE_URL=http://127.0.0.1:9\n"
    )
    async with open_app(keyed, size=(160, 45)) as (app, pilot):
        await pilot.press("4")
        await settled(
            pilot,
            lambda: (
                "PRIME_API_KEY stands in .env, line 2, which is not trusted: !" in screen_text(app)
            ),
        )
        await pilot.press("exclamation_mark")
        await settled(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await settled(
            pilot,
            lambda: "PRIME_API_KEY stands" not in screen_text(app) and "Prime" in screen_text(app),
        )


async def test_a_key_of_the_folder_is_asked_about_before_it_is_tested(
    open_app: Any, keyed: Path
) -> None:
    (keyed / ".env").write_text(
        "PRIME_API_KEY=p-0123456789\nPRIME_API_BASE_URL=http://127.0.0.1:9\n"
    )
    async with open_app(keyed, size=(160, 45)) as (app, pilot):
        await pilot.press("comma")
        await settled(
            pilot,
            lambda: (
                app.screen.query_one("SettingPane") is not None and app.screen._list.row is not None
            ),
        )
        while app.screen._list.row.name != "PRIME_API_KEY":
            await pilot.press("j")
        await pilot.press("T")
        await settled(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await settled(
            pilot,
            lambda: not isinstance(app.screen, Confirm) and "127.0.0.1:9" in app.screen.message,
        )
