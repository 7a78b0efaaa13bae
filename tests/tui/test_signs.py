"""Text of others in editors and fields: drawn with signs, kept as it is, and never obeyed by the
terminal."""

from __future__ import annotations

import importlib
import io
import json
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import Input, TextArea

import hudtui.tui
from hudtui.core.text import signs
from hudtui.tui.cells import Cells
from hudtui.tui.editor.signed_area import SignedArea
from hudtui.tui.gaps import SignedInput
from hudtui.tui.steps import SCREENS
from hudtui.tui.widgets.fields import Field

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
CONSOLE = Console(
    file=io.StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False
)

HOSTILE = (
    "\x1b]52;c;UFdORUQ=\x1b\\",
    "\x1b]52;c;UFdORUQ=\x07",
    "\x9d52;c;UFdORUQ=\x9c",
    "\x1b]0;PWNED\x07",
    "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\x1bP+q544e\x1b\\",
    "\x90q\x9c",
    "\x1b_Ga=T,f=24;AAAA\x1b\\",
    "\x1b^pm\x1b\\\x1bXsos\x1b\\",
    "\x9b31m",
    "\x1b[31m\x1b[?1049l\x1b[2J\x1b[H",
    "\x1bc\x1b#8\x1b(0",
    "\x00\x07\x08\x0b\x0c\x0e\x0f\x7f\x85",
    "\u202e\u2066\u2069\u061c\u200e\u200f",
    "\u200b\u2060\ufeff\u00ad\u3164\ufe0f\u115f\u180e",
    "\U000e0001\U000e0041\U000e0100",
    "\u206a\ufff9",
    "a\tb",
)
BREAKS = re.compile(r"[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""Textual takes them for line ends."""
TEXT = "\n".join(f"# {BREAKS.sub('', letters)} end" for letters in HOSTILE)
OWN = re.compile(r"\x1b\[[\d;]*[HGm]|\x1b\]8;[^\x1b]*;[^\x1b]*\x1b\\")
"""What hudtui itself sends: movements of the cursor, styles, links."""
OBEYED = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
UNSEEN = re.compile(f"{OBEYED.pattern}|[\u00ad\u115f\u180e\u200b\u2060\u3164\ufe0f\U000e0100]")


def sent(app: Any) -> str:
    """What a terminal is sent to show the whole screen, without hudtui's own sequences."""
    update = app.screen._compositor.render_update(full=True)
    return OWN.sub("", Cells().changes(update, CONSOLE))


def gives(folder: Path) -> None:
    (folder / "configs").mkdir()
    (folder / "configs" / "2048.yaml").write_text(
        (CONFIGS / "2048.yaml").read_text() + f"{TEXT}\n".replace("\x00", "")
    )
    (folder / "tasks.json").write_text(
        json.dumps([{"id": "one", "prompt": "x" + TEXT, "mcp_config": {}}])
    )


async def test_no_editor_and_no_field_of_any_screen_passes_on_what_a_terminal_obeys(
    open_app: Any, project: Path, settle: Any
) -> None:
    gives(project)
    seen: dict[str, list[str]] = {"editors": [], "fields": []}
    async with open_app(project, size=(160, 45)) as (app, pilot):
        for name in SCREENS:
            app.open_screen(name)
            await settle(pilot)
            assert not OBEYED.search(sent(app)), name
            for editor in app.screen.query(TextArea):
                editor.load_text(TEXT)
                await settle(pilot)
                assert editor.text == TEXT, "the text itself stays"
                told = sent(app)
                assert not OBEYED.search(told), (name, OBEYED.search(told))
                if editor.region.height > 3 and editor.region.width > 20:
                    assert "\u241b]52;c;UFdORUQ=" in told and not UNSEEN.search(told), name
                    seen["editors"].append(f"{name} {editor.id}")
            for field in app.screen.query(Input):
                field.value = "".join(HOSTILE)
                await pilot.pause()
                assert not UNSEEN.search(
                    "".join(segment.text for segment in field.render_line(0))
                ), (name, field)
                assert not OBEYED.search(sent(app)), (name, field)
                seen["fields"].append(f"{name} {field.id}")
                field.value = ""
            await settle(pilot)
            if app.screen.is_modal:
                await pilot.press("escape")
    assert {"mapping map-text", "mapping map-reply"} <= set(seen["editors"]) and len(
        seen["fields"]
    ) >= 5, seen


def test_every_editor_and_field_draws_through_the_one_place() -> None:
    for module in pkgutil.walk_packages(hudtui.tui.__path__, "hudtui.tui."):
        importlib.import_module(module.name)

    def below(kind: type) -> set[type]:
        return {one for child in kind.__subclasses__() for one in (child, *below(child))}

    for kind, base in ((TextArea, SignedArea), (Input, SignedInput), (SignedInput, Field)):
        own = {one for one in below(kind) if one.__module__.startswith("hudtui.")}
        assert base in own and [one for one in own if not issubclass(one, base)] == []
    for path in Path(hudtui.tui.__path__[0]).rglob("*.py"):
        assert not re.search(r"(?<![\w.])(?:Input|TextArea)\(", path.read_text()), (
            f"{path} makes one of Textual's own"
        )


async def test_a_sign_takes_its_cell_where_the_text_is_measured(
    open_app: Any, project: Path, settle: Any
) -> None:
    gives(project)
    async with open_app(project, size=(160, 45)) as (app, pilot):
        app.open_screen("mapping")
        await settle(pilot)
        for editor in app.screen.query(SignedArea):
            line = BREAKS.sub("", "".join(HOSTILE)).replace("\t", "") + "漢X"
            editor.load_text(f"short\n{line}\n" + "\x1b" * 500)
            editor.focus()
            await settle(pilot)
            for column in range(len(line) + 1):
                width = cell_len(signs(line)[:column])
                assert editor.get_column_width(1, column) == width
                if column < len(line):
                    assert editor.cell_width_to_column_index(width, 1) == column
            editor.move_cursor((2, 10))
            await settle(pilot)
            if not editor.soft_wrap:
                assert (
                    editor.cursor_screen_offset.x
                    == editor.content_region.x + editor.gutter_width + 10
                )
                assert editor.virtual_size.width > 500
                editor.action_wrap()
                await settle(pilot)
            assert editor.wrapped_document.height > 4 and "␛" * 20 in sent(app)
            editor.select_all()
            assert editor.selected_text == editor.text, "what is copied is the text itself"
            editor.insert("x", (2, 3))
            assert editor.text.endswith("\n\x1b\x1b\x1bx" + "\x1b" * 497)
            assert "\u241b" not in editor.text


@pytest.mark.parametrize(
    "text", ["❤️ ⚠️", "1️⃣", "👩‍💻", "naïve ☃ ├──┤ ✓", "漢字", "a\u00a0b", "e\u0301"]
)
def test_what_is_shown_stays(text: str) -> None:
    assert signs(text) == text


@pytest.mark.parametrize("letters", HOSTILE)
@pytest.mark.parametrize("around", ["{}", "a{}b", "漢{}", "⚠{}"])
def test_no_widget_can_send_what_a_terminal_obeys(letters: str, around: str) -> None:
    """Whatever is drawn, by whom ever: the rows keep their cells."""
    text = around.format(letters)
    style = Style(link=f"https://example.org/{letters}", color="red")
    strip = Strip([Segment("x"), Segment(text, style), Segment("y")])
    told = Cells().changes(LayoutUpdate([[strip]], Region(0, 0, strip.cell_length, 1)), CONSOLE)
    assert not OBEYED.search(OWN.sub("", told)), ascii(told)
    assert cell_len(re.sub(r"\x1b\[[\d;]*[HGm]|\x1b\]8;.*?\x1b\\", "", told)) == strip.cell_length


async def test_tabs_of_an_episode_become_blanks(open_app: Any, project: Path) -> None:
    from hudtui.tui.results.transcript import _Lines

    lines = _Lines(re.compile("b"))
    lines.text("a\tb\tc", lead="  ", spans=[(2, 3, "bold")])
    (line,) = lines.lines
    assert line.plain == "  a     b       c"
    assert {(span.start, span.end) for span in line.spans} == {(8, 9)} and lines.found == [0]
