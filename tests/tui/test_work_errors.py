"""Whatever goes wrong in work behind a screen is shown in words and logged; it never vanishes, and
never ends the app."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.waiting import until
from textual.dom import DOMNode
from textual.widgets import Static

from hudtui.core import trust
from hudtui.core.errors import InputError
from hudtui.tui import applog, clipboard
from hudtui.tui.actions import Acting, load_all_actions
from hudtui.tui.log.model import LogBuffer
from hudtui.tui.log.view import LogView
from hudtui.tui.mapping.screen import MappingScreen
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.widgets.dialog import Confirm

Shown = Callable[[Any], str]


def broken(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError("a defect")


def crashes() -> list[Path]:
    return list(Path(os.environ["XDG_STATE_HOME"]).rglob("crash-*.txt"))


def told(app: Any) -> str:
    """What the message bars and the toasts say."""
    bars = [screen.message for screen in app.screen_stack if isinstance(screen, HudtuiScreen)]
    return "\n".join([*bars, *(toast.message for toast in app._notifications)])


def classes(of: type) -> Iterator[type]:
    for one in of.__subclasses__():
        yield one
        yield from classes(one)


def test_each_widget_that_starts_work_has_its_errors_shown() -> None:
    load_all_actions()
    found = {one for one in classes(DOMNode) if one.__module__.startswith("hudtui.")}
    starting = {one for one in found if {"self.run_worker(", "@work"} & set(_calls(one))}
    assert len(starting) > 5
    assert [one for one in starting if one.run_worker is not Acting.run_worker] == []  # type: ignore[attr-defined]


def _calls(one: type) -> Iterator[str]:
    source = inspect.getsource(one)
    return (word for word in ("self.run_worker(", "@work") if word in source)


# -- each place where an exception used to vanish
# ---------------------------------------------------------------------


async def _copy(app: Any, pilot: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(clipboard, "copy", broken)
    app.copy("words")


async def _trust(app: Any, pilot: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(trust, "missing", broken)
    await pilot.press("exclamation_mark")


async def _search(app: Any, pilot: Any, patch: pytest.MonkeyPatch) -> None:
    await _open_log(app, pilot)
    patch.setattr(LogBuffer, "search", broken)
    app.screen.query(LogView).first().search("step")


async def _save(app: Any, pilot: Any, patch: pytest.MonkeyPatch) -> None:
    await _open_log(app, pilot)
    patch.setattr(LogBuffer, "everything", broken)
    app.screen.query(LogView).first().focus()
    await pilot.press("W")
    await until(pilot, lambda: app.screen.is_modal)
    app.screen.dismiss("kept.log")


async def _switch(app: Any, pilot: Any, patch: pytest.MonkeyPatch) -> None:
    from hudtui.tui.runs.run_pane import RunPane

    patch.setattr(RunPane, "tell", broken)
    app.open_screen("run", machine="local", file=str(app.folder / "some.log"))


async def _outside(app: Any, pilot: Any, patch: pytest.MonkeyPatch) -> None:
    await pilot.press("3")
    await until(
        pilot, lambda: getattr(app.screen, "NAME", "") == "dataset" and not app.screen.open.reading
    )
    await until(pilot, lambda: app.screen.open.opened is not None)
    patch.setattr("hudtui.core.tasks.read.fingerprint", broken)
    app.open_screen("home")
    app.open_screen("dataset")


async def _act(app: Any, pilot: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("hudtui.tui.settings.screen.SettingsScreen.opened", broken)
    patch.setattr("hudtui.tui.app.screen_class", broken)
    app.open_and_act("settings", "settings.edit")


async def _open_log(app: Any, pilot: Any) -> None:
    app.open_screen("run", machine="local", file=str(app.folder / "some.log"))
    await until(pilot, lambda: any(len(pane.buffer) for pane in app.screen.query(LogView)))


@pytest.mark.defect
@pytest.mark.parametrize(
    "begins",
    [_copy, _trust, _search, _save, _switch, _outside, _act],
    ids=lambda one: one.__name__[1:],
)
async def test_a_defect_in_work_is_shown_and_kept(
    open_app: Any,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    begins: Callable[[Any, Any, pytest.MonkeyPatch], Awaitable[None]],
) -> None:
    (project / "some.log").write_text("step 1 reward 0.5\n")
    (project / "tasks.json").write_text(
        json.dumps([{"prompt": "Play.", "mcp_config": {"a": {"command": "true"}}}])
    )
    async with open_app(project) as (app, pilot):
        await begins(app, pilot, monkeypatch)
        await until(pilot, lambda: "hudtui made a mistake here" in told(app))
        assert (
            app.is_running
            and crashes()
            and "ZeroDivisionError: a defect" in crashes()[0].read_text()
        )


@pytest.mark.defect
async def test_the_preview_of_a_conversion_does_not_count_for_ever(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "tasks.json").write_text(
        json.dumps([{"prompt": "Play.", "mcp_config": {"a": {"command": "true"}}}])
    )
    monkeypatch.setattr("hudtui.core.tasks.dataset.preview", broken)
    async with open_app(project, size=(120, 45)) as (app, pilot):
        await pilot.press("3", "c")
        await until(pilot, lambda: app.screen.is_modal and bool(app.screen.query("#make-preview")))
        shown = app.screen.query_one("#make-preview", Static)
        await until(pilot, lambda: "hudtui made a mistake here" in str(shown.content))
        assert "counting" not in str(shown.content)


@pytest.mark.defect
async def test_machines_are_asked_although_logins_cannot_be_prepared(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hudtui.tui.rented_runs import RentedRuns
    from hudtui.tui.spending import Spending

    asked: list[str] = []
    monkeypatch.setattr(RentedRuns, "introduce", broken)
    monkeypatch.setattr(Spending, "begin", lambda spending: asked.append("machines"))
    async with open_app(project) as (app, pilot):
        await until(
            pilot, lambda: asked == ["machines"] and "hudtui made a mistake here" in told(app)
        )


@pytest.mark.defect
async def test_a_defect_that_comes_again_at_each_tick_is_shown_once(
    open_app: Any, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1
        broken()

    async with open_app(project) as (app, pilot):
        app.screen.set_interval(0.01, tick)
        app.screen.set_timer(0.01, broken)
        await until(pilot, lambda: ticks > 5 and caplog.messages.count("unexpected") == 2)
        await until(pilot, lambda: ticks > 10)
        assert app.is_running and caplog.messages.count("unexpected") == 2


# -- leaving
# --------------------------------------------------------------------------------------------------


@pytest.mark.defect
@pytest.mark.parametrize("keeps", ["a defect", "an error"])
async def test_one_can_leave_although_unsaved_work_cannot_be_kept(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch, keeps: str
) -> None:
    async def keep(screen: Any) -> None:
        raise (
            ZeroDivisionError("a defect") if keeps == "a defect" else InputError("the disk is full")
        )

    monkeypatch.setattr(MappingScreen, "unsaved", "2048.yaml")
    monkeypatch.setattr(MappingScreen, "keep_unsaved", keep)
    async with open_app(project) as (app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: getattr(app.screen, "NAME", "") == "mapping")
        await pilot.press("q")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.pause(0.1)
        lines = "\n".join(str(one.content) for one in app.screen.query(Static).results())
        assert "2048.yaml is not saved" in lines and "No copy could be kept" in lines
        app.screen.dismiss("leave")
        await until(pilot, lambda: app.asked_to_end)


@pytest.mark.defect
async def test_one_can_leave_although_it_cannot_be_found_out_what_is_left_behind(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MappingScreen, "unsaved", property(broken))
    async with open_app(project) as (app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: getattr(app.screen, "NAME", "") == "mapping")
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        assert "hudtui made a mistake here" in told(app) and not app.asked_to_end
        app.screen.dismiss(False)
        await until(pilot, lambda: not app.screen.is_modal)
        assert not app.asked_to_end
        await pilot.press("q")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        app.screen.dismiss(True)
        await until(pilot, lambda: app.asked_to_end)


# -- words
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "~nosuchuser/x.log",
        "~nosuchuser",
        "x" * 300,
        "a/" * 3000 + "x",
        "some.log/x.log",
        "/proc/x/y.log",
        "\u202e" * 200,
    ],
)
async def test_a_log_that_cannot_be_saved_is_told(open_app: Any, project: Path, name: str) -> None:
    (project / "some.log").write_text("step 1\n")
    async with open_app(project) as (app, pilot):
        await _open_log(app, pilot)
        app.screen.query(LogView).first().focus()
        await pilot.press("W")
        await until(pilot, lambda: app.screen.is_modal)
        app.screen.dismiss(name)
        await until(pilot, lambda: not app.screen.is_modal and bool(app.screen.message))
        where = app.screen.message
        assert "cannot be written" in where or (
            name.startswith("~nosuchuser") and "Saved 1 lines" in where
        )
        assert "made a mistake" not in where


async def test_an_error_meant_for_the_user_is_logged_and_shown_over_a_dialog(
    open_app: Any, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def refused() -> None:
        raise InputError("the file is odd", fix="Mend it.")

    async with open_app(project) as (app, pilot):
        await pilot.press("question_mark")
        await until(pilot, lambda: app.screen.is_modal)
        with caplog.at_level("WARNING", logger=applog.log.name):
            app.run_worker(refused)
            await until(pilot, lambda: "the file is odd" in told(app))
        assert any(
            "the file is odd" in toast.message and "Mend it." in toast.message
            for toast in app._notifications
        )
        assert "the file is odd" in caplog.text and not crashes()


async def test_work_of_a_screen_that_is_not_shown_any_more_tells_its_error_here(
    open_app: Any, project: Path
) -> None:
    async def refused() -> None:
        raise InputError("the file is odd")

    async with open_app(project) as (app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: getattr(app.screen, "NAME", "") == "mapping")
        left = app.screen
        app.open_screen("home")
        left.start(refused, group="odd")
        await until(pilot, lambda: "the file is odd" in told(app))
        assert "the file is odd" in left.message


async def test_what_fails_while_hudtui_ends_is_no_crash(open_app: Any, project: Path) -> None:
    async with open_app(project) as (app, pilot):
        app.exit()
        app.run_worker(broken_later)
        await pilot.pause()
    assert not crashes()


async def broken_later() -> None:
    broken()
