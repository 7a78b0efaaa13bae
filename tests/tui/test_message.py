"""The line above the footer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.content import Content

from hudtui.core.errors import ConnectError
from hudtui.tui.widgets.message import MessageBar


class Shown(App[None]):
    def compose(self) -> ComposeResult:
        yield MessageBar()


async def test_of_a_failed_programs_words_the_end_is_shown():
    traceback = "\n".join(f"  line {number}" for number in range(12))
    error = ConnectError("it ended", why=f"The end of its standard error:\n{traceback}\nValueError: no board", fix="Mend it.")
    app = Shown()
    async with app.run_test(size=(80, 24)):
        bar = app.query_one(MessageBar)
        bar.fail(error)
        assert isinstance(bar.content, Content)
        lines = bar.content.plain.split("\n")
        assert len(lines) <= 6, "more is cut off at its end"
        assert "ValueError: no board" in bar.content.plain
        assert lines[1].strip() == "The end of its standard error:"
        assert lines[-1].strip() == "Mend it."
        assert "line 0" in bar.plain, "all of it can be copied"


@pytest.mark.parametrize(("severity", "stays"), [("success", False), ("information", False), ("warning", True), ("busy", True)])
async def test_what_needs_no_answer_goes_by_itself_and_is_kept(
    open_app: Any, project: Path, screen_text: Any, monkeypatch: pytest.MonkeyPatch, severity: Any, stays: bool
) -> None:
    monkeypatch.setattr("hudtui.tui.app.EVERY", 0.02)
    monkeypatch.setattr("hudtui.tui.app.MESSAGE_EXPIRES", 0.1)
    async with open_app(project) as (app, pilot):
        app.screen.say("the task file was written", severity)
        for _ in range(30):
            await pilot.pause(0.02)
            if not app.screen.message:
                break
        assert bool(app.screen.message) is stays
        if severity != "busy":
            await pilot.press("ctrl+e")
            await pilot.pause()
            assert "the task file was written" in screen_text(app)
