"""The line above the footer."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.content import Content

from hudtui.core.errors import ConnectError, InputError, Location
from hudtui.tui.widgets.message import MessageBar
from hudtui.tui.widgets.sheet import Sheet


class Shown(App[None]):
    def compose(self) -> ComposeResult:
        yield MessageBar()


async def test_of_a_failed_programs_words_the_end_is_shown():
    traceback = "\n".join(f"  line {number}" for number in range(12))
    error = ConnectError(
        "it ended",
        why=f"The end of its standard error:\n{traceback}\nValueError: no board",
        fix="Mend it.",
    )
    app = Shown()
    async with app.run_test(size=(80, 24)):
        bar = app.query_one(MessageBar)
        bar.fail(error, Path())
        assert isinstance(bar.content, Content)
        lines = bar.content.plain.split("\n")
        assert len(lines) <= 6, "more is cut off at its end"
        assert "ValueError: no board" in bar.content.plain
        assert lines[1].strip() == "The end of its standard error:"
        assert lines[-1].strip() == "Mend it."
        assert "line 0" in bar.plain, "all of it can be copied"


async def test_a_question_does_not_say_that_hudtui_works(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    async with open_app(project) as (app, pilot):
        app.screen.busy("Checking what the run needs")
        app.screen.start(lambda: app.confirm("Start it again?"), group="ask")
        while not app.screen.is_modal:
            await pilot.pause()
        assert "Checking what" not in screen_text(app)
        await pilot.press("escape")


@pytest.mark.parametrize("earlier", [True, False])
async def test_an_error_does_not_stay_while_a_later_question_is_open(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch, earlier: bool
) -> None:
    async with open_app(project) as (app, pilot):
        app.screen.fail(InputError("the port is in use"))
        if earlier:
            now = time.monotonic()
            monkeypatch.setattr(
                "hudtui.tui.widgets.message.time", SimpleNamespace(monotonic=lambda: now + 5)
            )
        below = app.screen
        below.start(lambda: app.confirm("Start it again?"), group="ask")
        while not app.screen.is_modal:
            await pilot.pause()
        assert below.message == ("" if earlier else "the port is in use")
        await pilot.press("escape")


@pytest.mark.parametrize("outside", [False, True])
async def test_a_path_in_the_project_is_relative_and_another_is_not(
    open_app: Any, project: Path, outside: bool
) -> None:
    file = (project.parent if outside else project) / "configs" / "a.yaml"
    async with open_app(project) as (app, _):
        error = InputError("this is not YAML", where=Location(str(file), 3))
        app.screen.fail(error)
        assert (f"{file}:3" if outside else "configs/a.yaml:3") in app.screen.message
        assert outside or str(project) not in app.screen.message
        assert error.where is not None and error.where.file == str(file), (
            "the error itself is left as it is"
        )


@pytest.mark.parametrize(
    ("severity", "stays"),
    [("success", False), ("information", False), ("warning", True), ("busy", True)],
)
async def test_what_needs_no_answer_goes_by_itself_and_is_kept(
    open_app: Any,
    project: Path,
    screen_text: Any,
    monkeypatch: pytest.MonkeyPatch,
    severity: Any,
    stays: bool,
) -> None:
    monkeypatch.setattr(
        "hudtui.tui.app.EVERY", 0.1
    )  # often enough, and the app is at rest in between
    monkeypatch.setattr("hudtui.tui.app.MESSAGE_EXPIRES", 0.1)
    async with open_app(project) as (app, pilot):
        app.screen.say("the task file was written", severity)
        for _ in range(40):
            await pilot.pause(0.02)
            if not app.screen.message:
                break
        assert bool(app.screen.message) is stays
        if severity != "busy":
            await pilot.press("ctrl+e")
            await pilot.pause()
            assert "the task file was written" in screen_text(app)


async def test_what_a_line_wraps_to_stands_below_its_value() -> None:
    class Plan(App[None]):
        def compose(self) -> ComposeResult:
            yield Sheet(hang=8)

    app = Plan()
    async with app.run_test(size=(40, 10)) as pilot:
        app.query_one(Sheet).show(
            (Content("command hudtui rl --provider prime --gpus H100 tasks.json"),)
        )
        await pilot.pause()
        rows = [strip.text for strip in app.screen._compositor.render_strips()]
        assert (
            rows[0].startswith("command hudtui rl")
            and rows[1].startswith("        ")
            and rows[1].strip()
        )
