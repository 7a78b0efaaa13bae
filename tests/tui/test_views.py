"""Small views: JSON, schemas, fitting to cells, times in words, lists that never read markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget

from hudtui.tui.environment.tree import Branches
from hudtui.tui.facts import Facts
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.services import Services
from hudtui.tui.widgets.fit import cut, cut_left, pad
from hudtui.tui.widgets.json_view import JsonView, schema_text
from hudtui.tui.widgets.lists import Choices
from hudtui.tui.widgets.sheet import Sheet
from hudtui.tui.widgets.words import ago, span

HOSTILE = "[red]x[/red] \x1b[31m[@click=app.exit]press[/]"
PLAIN = "[red]x[/red] [@click=app.exit]press[/]"


async def _quiet(folder: Path, first: bool) -> tuple[str, ...]:
    return ()


SERVICES = Services(load_facts=lambda folder: Facts(folder, "HUD"), sync_runs=_quiet)


class Holder(HudtuiScreen):
    """Shows one widget."""

    NAME = "holder"
    TITLE = "holder"

    def __init__(self, widget: Widget) -> None:
        super().__init__()
        self.widget = widget

    def content(self) -> Iterable[Widget]:
        yield self.widget


@given(st.text(max_size=30), st.integers(0, 20))
def test_cutting_and_padding_count_cells(text: str, width: int) -> None:
    assert cell_len(cut(text, width)) <= width
    assert cell_len(cut_left(text, max(width, 1))) <= max(width, 1)
    if cell_len(text) <= width:
        assert cut(text, width) == cut_left(text, width) == text
    if "\n" not in text:
        assert cell_len(pad(text, width)) == width


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0s"),
        (9.94, "9.9s"),
        (59.6, "1m 00s"),
        (61, "1m 01s"),
        (3599.9, "1h 00m"),
        (7260, "2h 01m"),
        (200000, "2d 7h"),
        (-1, "0.0s"),
    ],
)
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "now"), (59, "now"), (61, "1 min ago"), (7300, "2 h ago"), (1e6, "11 d ago")],
)
def test_ago(seconds: float, text: str) -> None:
    assert ago(seconds) == text


@pytest.fixture
def show(open_app: Callable[..., Any], project: Path) -> Callable[..., Any]:
    async def shown(
        widget: Widget, fill: Callable[[Any], None], check: Callable[[Any, Any], Any]
    ) -> None:
        async with open_app(project, size=(80, 24), services=SERVICES) as (app, pilot):
            await app.push_screen(Holder(widget))
            fill(widget)
            widget.focus()
            await pilot.pause()
            await check(app, pilot)

    return shown


async def test_json_of_any_size_is_shown_at_once(show: Any, screen_text: Any) -> None:
    value = {"text": HOSTILE, "numbers": list(range(200_000)), "nothing": None, "名前": True}

    async def check(app: Any, pilot: Any) -> None:
        assert '"text": "[red]x[/red] \\u001b[31m[@click=app.exit]press[/]"' in screen_text(app)
        await pilot.press("G")
        await pilot.pause()
        assert '"名前": true' in screen_text(app)
        await pilot.press("g")
        await pilot.pause()
        assert '"text"' in screen_text(app)

    await show(JsonView(), lambda view: view.show(value), check)


NESTED = {
    "task": "board",
    "turns": [{"reply": f"word {n}", "call": {"tool": "move", "times": n}} for n in range(3)],
    "scores": {"reward": 0.5, "why": "the end"},
}


async def test_json_is_searched(show: Any, screen_text: Any) -> None:
    async def check(app: Any, pilot: Any) -> None:
        await pilot.press("slash", *"word", "enter")
        await pilot.pause()
        assert "search “word”: 1 of 3" in screen_text(app)
        await pilot.press("n", "n")
        await pilot.pause()
        assert "search “word”: 3 of 3" in screen_text(app)
        await pilot.press("n", "N", "N")
        await pilot.pause()
        assert "search “word”: 2 of 3" in screen_text(app)
        await pilot.press("slash", *"no such", "enter")
        await pilot.pause()
        assert "search “no such”: not found" in screen_text(app)
        app.screen.query_one(JsonView).show({"other": "no such thing"})
        await pilot.press("n")
        await pilot.pause()
        assert "search “no such”: 1 of 1" in screen_text(app)
        await pilot.press("slash", "delete", "enter")
        await pilot.pause()
        assert "search" not in screen_text(app)
        view = app.screen.query_one(JsonView)
        view.show([{"n": n} for n in range(4_000)])
        await pilot.press("slash", *'"n": 3999', "enter")
        await pilot.pause()
        assert '"n": 3999' in screen_text(app) and "1 of 1" in screen_text(app)

    await show(JsonView(), lambda view: view.show(NESTED), check)


async def test_text_in_the_json_view_is_cleaned_and_wraps(show: Any, screen_text: Any) -> None:
    async def check(app: Any, pilot: Any) -> None:
        assert PLAIN in screen_text(app) and "the-end" not in screen_text(app)
        await pilot.press("backslash")
        await pilot.pause()
        assert "the-end" in screen_text(app).replace("\n", "")

    await show(
        JsonView(), lambda view: view.show_text(HOSTILE + "\n" + "long " * 40 + "the-end"), check
    )


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": 3},
        {"properties": {"a": None, "b": "text", "c": []}},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"properties": {"a": {"$ref": "http://elsewhere/x"}, "b": {"$ref": "#/none"}}},
        {"properties": {"a": {"properties": {"a": {"$ref": "#/properties/a"}}}}},
        {
            "properties": {
                "a": {
                    "enum": [HOSTILE],
                    "default": HOSTILE,
                    "description": HOSTILE * 100,
                    "minimum": "x",
                }
            },
            "required": 7,
        },
        {"properties": {str(n): {"type": "string"} for n in range(5000)}},
    ],
)
def test_any_nonsense_of_a_server_is_described(schema: dict[str, Any]) -> None:
    text = schema_text(schema).plain
    assert text and "\x1b" not in text


def test_parameters_are_shown_as_text() -> None:
    assert "gives no schema" in schema_text(None).plain
    shown = schema_text({"properties": {"a": {"type": "string", "description": HOSTILE}}}).plain
    assert "a  optional  string" in shown and PLAIN in shown


async def test_lists_tables_and_trees_show_markup_as_text_and_know_vi(
    show: Any, screen_text: Any
) -> None:
    async def listed(app: Any, pilot: Any) -> None:
        assert PLAIN in screen_text(app)
        await pilot.press("G")
        assert app.screen.widget.highlighted == 9
        await pilot.press("g", "j", "j", "k")
        assert app.screen.widget.highlighted == 1

    await show(
        Choices(),
        lambda rows: rows.add_options([Choices.option(f"{HOSTILE} {n}") for n in range(10)]),
        listed,
    )

    def plant(tree: Any) -> None:
        branch = tree.root.add(HOSTILE)
        for n in range(3):
            branch.add_leaf(f"{HOSTILE} {n}")

    async def grown(app: Any, pilot: Any) -> None:
        assert screen_text(app).count(PLAIN) == 1
        await pilot.press("g", "l")
        await pilot.pause()
        assert screen_text(app).count(PLAIN) == 4
        await pilot.press("G", "h", "h")
        await pilot.pause()
        assert screen_text(app).count(PLAIN) == 1

    await show(Branches("root"), plant, grown)


@pytest.mark.parametrize("width", [0, 1])
async def test_a_sheet_that_had_no_place_for_a_moment_is_wrapped_to_the_one_it_has(
    show: Callable[..., Any], screen_text: Any, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    sheet = Sheet()

    async def check(app: Any, pilot: Any) -> None:
        with monkeypatch.context() as moment:
            moment.setattr(Sheet, "region", Region(0, 0, width, 10))
            sheet.show([Content("one line that is long enough to be broken into letters")])
        sheet.refresh()
        await pilot.pause()
        await pilot.pause()
        assert "one line that is long enough to be broken into letters" in screen_text(app)

    await show(sheet, lambda widget: widget.show([Content("before")]), check)
