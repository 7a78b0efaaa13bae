"""Panes: focus marks, one at a time when narrow, zoom, dividers, and a table that keeps its
cursor."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget

import hudtui.tui.app  # noqa: F401  # declares the actions of the app
from hudtui.tui.actions import with_keys
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.theme import OWN
from hudtui.tui.widgets.lists import Choices
from hudtui.tui.widgets.pane import Pane, Panes
from hudtui.tui.widgets.table_pane import TablePane
from hudtui.tui.widgets.virtual_table import Column

FIELDS = {"name": lambda row: row[0], "price": lambda row: row[1]}


class Offers(TablePane[tuple[str, float]]):
    BORDER_TITLE = "Offers"


def table() -> Offers:
    return Offers(
        (Column("name", "name", 6, most=20), Column("price", "price", 7, align="right")),
        FIELDS,
        key=lambda row: row[0],
        cells=lambda row: (row[0], f"{row[1]:.2f}"),
        id="offers",
    )


class Host(App[None]):
    typed = SimpleNamespace(deliberate=True)

    def __init__(self) -> None:
        super().__init__()
        self.offers = table()
        for theme in OWN:
            self.register_theme(theme)
        self.theme = OWN[0].name

    def keys_in(self, text: str) -> str:
        return text

    def compose(self) -> ComposeResult:
        with Panes():
            yield self.offers
            with Vertical():
                yield Pane(Choices(id="one"), title="Detail", id="detail")
                yield Pane(Choices(id="two"), title="Pods", id="pods")

    def fail(self, error: BaseException) -> None:
        raise error


def shown(app: Host) -> list[str]:
    return [
        pane.id
        for pane in app.query(Pane)
        if pane.size.area and all(node.display for node in pane.ancestors_with_self)
    ]  # type: ignore[attr-defined,misc]


async def test_all_panes_are_shown_where_there_is_room_and_the_border_shows_the_focus() -> None:
    app = Host()
    async with app.run_test(size=(120, 30)) as pilot:
        assert shown(app) == ["offers", "detail", "pods"]
        for wanted in ("offers", "detail", "pods", "offers"):
            focused = [pane for pane in app.query(Pane) if pane.has_focus_within]
            assert [pane.id for pane in focused] == [wanted]
            others = {pane.styles.border_top for pane in app.query(Pane) if pane not in focused}
            assert len(others) == 1 and focused[0].styles.border_top not in others
            await pilot.press("tab")
            await pilot.pause()


async def test_a_narrow_terminal_shows_one_pane_with_the_titles_of_the_others() -> None:
    app = Host()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert shown(app) == ["offers"]
        assert all(name in str(app.offers.border_title) for name in ("Offers", "Detail", "Pods"))
        await pilot.press("tab")
        await pilot.pause()
        assert shown(app) == ["detail"] and app.focused is not None and app.focused.id == "one"
        app.offers.name_on_border("Offers · " + "x" * 60)
        app.query_one("#pods", Pane).name_on_border("pods " * 20)
        title = Content.from_markup(str(app.query_one("#detail").border_title)).plain
        assert (
            title.startswith("Offers │ Detail │ pods") and title.endswith("…") and len(title) <= 74
        )
        await pilot.press("shift+tab", "shift+tab")
        await pilot.pause()
        assert shown(app) == ["pods"]
        panes = app.query_one(Panes)
        assert all(
            panes.why_not(f"panes.{name}") == "one pane is shown at a time"
            for name in ("zoom", "larger", "smaller")
        )
        assert panes.back()
        await pilot.pause()
        assert shown(app) == ["offers"] and not panes.back()
        await pilot.resize_terminal(120, 30)
        await pilot.pause()
        assert shown(app) == ["offers", "detail", "pods"]


async def test_zoom_shows_the_focused_pane_alone_until_it_is_pressed_again_or_left() -> None:
    app = Host()
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.press("tab", "z")
        await pilot.pause()
        assert shown(app) == ["detail"] and app.query_one("#detail").outer_size.width == 120
        await pilot.press("z")
        await pilot.pause()
        assert (
            shown(app) == ["offers", "detail", "pods"] and app.query_one("#detail").has_focus_within
        )
        await pilot.press("z")
        await pilot.pause()
        assert app.query_one(Panes).back()
        await pilot.pause()
        assert shown(app) == ["offers", "detail", "pods"]


@pytest.mark.parametrize(
    ("keys", "pane", "wide", "high"),
    [(">", "offers", 4, 0), ("<", "offers", -4, 0), ("tab >", "detail", 0, 2)],
)
async def test_keys_move_the_divider(keys: str, pane: str, wide: int, high: int) -> None:
    app = Host()
    async with app.run_test(size=(120, 30)) as pilot:
        before = app.query_one(f"#{pane}").outer_size
        await pilot.press(
            *{"<": "less_than_sign", ">": "greater_than_sign"}.get(keys, "").split()
            or ["tab", "greater_than_sign"]
        )
        await pilot.pause()
        after = app.query_one(f"#{pane}").outer_size
        assert (after.width - before.width, after.height - before.height) == (wide, high)


async def test_the_mouse_drags_the_divider_and_no_pane_vanishes() -> None:
    app = Host()
    async with app.run_test(size=(120, 30)) as pilot:
        edge = app.offers.region.right - 1
        for to, least in ((edge - 20, 0), (0, 8)):
            await pilot.mouse_down(offset=(app.offers.region.right - 1, 10))
            await pilot.hover(offset=(to, 10))
            await pilot.mouse_up(offset=(to, 10))
            await pilot.pause()
            assert app.offers.outer_size.width == (least or to + 1)


async def test_a_table_filters_sorts_and_keeps_its_cursor_over_a_refresh() -> None:
    app = Host()
    async with app.run_test(size=(120, 30)) as pilot:
        app.offers.show([("h100", 2.5), ("a100", 1.2), ("l4", 0.4)])
        await pilot.press("down")
        assert app.offers.row == ("a100", 1.2)
        app.offers.show([("b200", 5.0), ("h100", 2.5), ("l4", 0.4), ("a100", 1.1)])
        assert app.offers.row == ("a100", 1.1)
        await pilot.press("s", "s")
        assert [row[0] for row in app.offers.listed] == [
            "l4",
            "a100",
            "h100",
            "b200",
        ] and app.offers.row == ("a100", 1.1)
        await pilot.press("S")
        assert app.offers.listed[0] == ("b200", 5.0)
        await pilot.press("slash", *"price:>1", "enter")
        assert [row[0] for row in app.offers.listed] == [
            "b200",
            "h100",
            "a100",
        ] and "3 of 4" in str(app.offers.border_subtitle)
        await pilot.press("slash", *"x:1", "enter")
        assert "no field" in str(app.offers.border_subtitle)


async def test_numbers_stand_at_the_right_and_columns_grow_with_their_contents() -> None:
    app = Host()
    async with app.run_test(size=(120, 30)) as pilot:
        app.offers.show([("a-name-of-17-cell", 12.5), ("b", 1.0)])
        await pilot.pause()
        lines = [app.offers.table.render_line(y).text for y in (1, 2)]
        assert lines[0].startswith("a-name-of-17-cell   12.50") and lines[1].startswith(
            "b" + " " * 20 + "1.00"
        )


def test_texts_name_the_keys_of_the_user() -> None:
    assert (
        with_keys("Press {key:app.help} or {key:app.palette}.", {"app.help": "f1"})
        == "Press F1 or ^p."
    )
    assert with_keys("{no} {key:nothing.here}", {}) == "{no} nothing.here"


class TwoTables(HudtuiScreen):
    """Two panes with a filter, and one without."""

    NAME = "two"

    def __init__(self) -> None:
        super().__init__()
        self.tables = [
            TablePane((Column("name", "name", 6),), FIELDS, key=str, cells=lambda row: (row[0],))
            for _ in range(2)
        ]
        self.other = Pane(Choices(id="other"))

    def content(self) -> Iterable[Widget]:
        with Panes():
            yield from (*self.tables, self.other)


async def test_the_key_of_the_filter_goes_to_the_table_that_was_used_last(
    open_app: Any, project: Path
) -> None:
    async with open_app(project, size=(160, 45)) as (app, pilot):
        screen = TwoTables()
        await app.push_screen(screen)
        await pilot.pause()
        panes = screen.query_one(Panes)
        for used in (1, 0, 1):
            panes.open(screen.tables[used])
            await pilot.pause()
            panes.open(screen.other)
            await pilot.pause()
            await pilot.press("slash")
            await pilot.pause()
            assert panes.current is screen.tables[used]
            await pilot.press("escape")
