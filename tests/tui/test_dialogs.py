"""Dialogs: the colours of a diff, and what stays visible without any colour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from support.waiting import until
from textual.widgets._toast import Toast

from hudtui.core.flows.person import Choice
from hudtui.tui.app import HudtuiApp
from hudtui.tui.widgets.pick import Pick

DIFF = "--- a.yaml\n+++ a.yaml (yours)\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n"


def colours(app: Any, *lines: str) -> list[Any]:
    found = []
    for line in lines:
        strip = next(
            strip for strip in app.screen._compositor.render_strips() if line in strip.text
        )
        found.append(next(segment.style.color for segment in strip if line.strip() in segment.text))
    return found


async def test_a_diff_has_colours_and_another_text_has_none(
    open_app: Any, settle: Any, project: Path
) -> None:
    async with open_app(project) as (app, pilot):
        app.read("yours", DIFF)
        await settle(pilot)
        assert len(set(colours(app, " same", "-old", "+new", "@@ -1,2"))) == 4
        await pilot.press("escape")
        app.read("a list", "-old\n+new\n same")
        await settle(pilot)
        assert len(set(colours(app, " same", "-old", "+new"))) == 1


async def test_without_colours_a_dialog_leaves_the_screen_behind_it_visible(
    open_app: Any, settle: Any, screen_text: Any, project: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("HUDTUI_THEME", "monochrome")
    async with open_app(project, size=(120, 35)) as (app, pilot):
        await pilot.press("comma")
        await settle(pilot)
        behind = "HUD_MCP_URL"
        assert behind in screen_text(app)
        await pilot.press("e")
        await settle(pilot)
        assert behind in screen_text(app)
        field = next(
            strip
            for strip in app.screen._compositor.render_strips()
            if "paste the key" in strip.text
        )
        assert any(segment.style.underline for segment in field if segment.style)


async def test_a_field_shows_nothing_that_the_terminal_would_obey(
    open_app: Any, settle: Any, project: Path
) -> None:
    async with open_app(project) as (app, pilot):
        app.run_worker(app.ask("Rename", value="a\x1b[2Jb \x9b31mc "), name="forever")
        await settle(pilot)
        field = app.screen.query_one("#answer")
        assert (
            "\x1b" not in field.value and "\x9b" not in field.value and field.value.endswith("c ")
        )
        await pilot.press("end", "d", "space", "e")
        assert field.value.endswith("c d e"), "what is typed stays as it is"


async def test_one_toast_is_shown_of_those_that_say_the_same(project: Path) -> None:
    app = HudtuiApp(project)
    async with app.run_test(notifications=True) as pilot:
        app.run_worker(app.confirm("Sure?", danger=True), name="forever")
        await until(pilot, lambda: app.screen.is_modal)
        for _ in range(3):
            app.say("Not now")
        app.say("Not there")
        await until(pilot, lambda: len(app.screen.query(Toast)) > 1)
        assert [str(toast._notification.message) for toast in app.screen.query(Toast)] == [
            "Not now",
            "Not there",
        ]


async def test_a_long_text_above_the_buttons_scrolls_by_keys(
    open_app: Any, settle: Any, screen_text: Any, project: Path
) -> None:
    lines = tuple(f"cost {number}" for number in range(60))
    async with open_app(project, size=(60, 20)) as (app, pilot):
        app.run_worker(app.confirm("Rent it?", lines), name="forever")
        await settle(pilot)
        assert "cost 0 " in screen_text(app) and "cost 59" not in screen_text(app)
        await pilot.press(*["pagedown"] * 6)
        await settle(pilot)
        assert "cost 59" in screen_text(app) and "(y)" in screen_text(app)
        await pilot.press(*["pageup"] * 6)
        await settle(pilot)
        assert "cost 0 " in screen_text(app)
        await pilot.press("n")


async def test_the_text_above_a_list_leaves_room_for_the_list(
    open_app: Any, settle: Any, screen_text: Any, project: Path
) -> None:
    lines = tuple(f"reason {number}" for number in range(60))
    async with open_app(project, size=(80, 24)) as (app, pilot):
        app.run_worker(
            app.choose(
                "Which?", [Choice("a", "The first"), Choice("b", "The second")], lines=lines
            ),
            name="forever",
        )
        await settle(pilot)
        assert (
            "reason 0" in screen_text(app)
            and "The second" in screen_text(app)
            and "Enter chooses" in screen_text(app)
        )
        await pilot.press("escape")


async def test_words_about_options_stand_below_each_other(
    open_app: Any, screen_text: Any, project: Path
) -> None:
    long = "a name that is much longer than the column"
    async with open_app(project, size=(120, 35)) as (app, pilot):
        app.run_worker(
            app.push_screen_wait(
                Pick("Which?", [("日本", "one"), ("abc", "two"), (long, "three"), ("other …", "")])
            )
        )
        await until(pilot, lambda: app.screen.is_modal and "other …" in screen_text(app))
        lines = {
            word: line
            for line in screen_text(app).splitlines()
            for word in ("one", "two", "three", "other …")
            if word in line
        }
        begins = {word: cell_len(line.partition(word)[0]) for word, line in lines.items()}
        assert (
            begins["one"] == begins["two"]
            and begins["three"] > begins["one"]
            and f"{long}  three" in lines["three"]
        )
        assert begins["other …"] == cell_len(lines["two"].partition("abc")[0])
        await pilot.press("down", "enter")


async def test_a_list_that_has_no_match_chooses_nothing_and_stays(
    open_app: Any, screen_text: Any, project: Path
) -> None:
    answers: list[int | None] = []
    async with open_app(project) as (app, pilot):

        async def ask() -> None:
            answers.append(
                await app.push_screen_wait(Pick("Which?", ["left", "right", "up", "down", "back"]))
            )

        app.run_worker(ask())
        await until(pilot, lambda: app.screen.is_modal and app.focused is not None)
        app.focused.value = "nosuchtool"
        await until(pilot, lambda: "no match" in screen_text(app))
        for key in ("enter", "down", "enter", "up", "enter"):
            await pilot.press(key)
        assert app.screen.is_modal and answers == []
        app.focused.value = "up"
        await until(pilot, lambda: "no match" not in screen_text(app))
        await pilot.press("enter")
        await until(pilot, lambda: answers == [2])


NAMES = (
    ("read_file", "Deprecated, see read_text_file"),
    ("aread_text", ""),
    ("read_text_file", "Reads"),
    ("x", "text_2"),
    ("text", ""),
)


@pytest.mark.parametrize(
    ("typed", "first"),
    [("read_text", 2), ("text", 4), ("read", 0), ("reads", 2), ("deprecated", 0), ("A", 1)],
)
async def test_names_come_before_the_words_about_them(
    open_app: Any, screen_text: Any, project: Path, typed: str, first: int
) -> None:
    answers: list[int | None] = []
    async with open_app(project) as (app, pilot):

        async def ask() -> None:
            answers.append(await app.push_screen_wait(Pick("Which?", NAMES)))

        app.run_worker(ask())
        await until(pilot, lambda: app.screen.is_modal and app.focused is not None)
        app.focused.value = typed
        await pilot.pause()
        await pilot.press("enter")
        await until(pilot, lambda: answers == [first])


async def test_a_letter_goes_to_an_option_of_a_short_list(open_app: Any, project: Path) -> None:
    answers: list[int | None] = []
    async with open_app(project) as (app, pilot):

        async def ask() -> None:
            for at in (0, 2):
                options = ["Left", ("right", "not left"), "reply", "up"]
                answers.append(await app.push_screen_wait(Pick("Which?", options, at=at)))

        app.run_worker(ask())
        await until(pilot, lambda: app.screen.is_modal and app.focused is not None)
        await pilot.press("r", "r", "z", "enter")
        await until(pilot, lambda: len(answers) == 1 and app.screen.is_modal)
        await pilot.press("r", "l", "l", "enter")
        await until(pilot, lambda: len(answers) == 2)
    assert answers == [2, 0]
