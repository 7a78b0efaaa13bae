from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.waiting import until
from textual.geometry import Offset, Size

from hudtui.core.environment import client
from hudtui.core.environment.cache import save_analysis
from hudtui.core.environment.source import parse_source
from hudtui.core.environment.values import Analysis, ContentBlock, Server, Tool, ToolResult
from hudtui.core.errors import InputError
from hudtui.core.flows import file_buffer
from hudtui.core.gym.editing import autosave
from hudtui.core.gym.editing.autosave import find_copy, save_copy
from hudtui.tui.app import HudtuiApp
from hudtui.tui.editor.find_bar import FindBar
from hudtui.tui.editor.popup import Popup
from hudtui.tui.environment.connection import Connection
from hudtui.tui.mapping.draft import LiveConfig
from hudtui.tui.mapping.screen import MappingScreen
from hudtui.tui.services import Services
from hudtui.tui.widgets.dialog import TextDialog
from hudtui.tui.widgets.pick import Pick
from hudtui.tui.widgets.sheet import Sheet
from hudtui.tui.widgets.unsaved import Unsaved

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SIZES = [(160, 45), (80, 24), (60, 20)]
SHIPPED = Path(__file__).parents[2] / "configs"
TEXT = """\
# Clicks and keys.
job:
  name: "Desk"

system_prompt: |
  You work at a desk. Think inside <think> tags, then make one call.

  - click(x, y): Click somewhere
    Usage: <tool>click(100, 200)</tool>

  - key(name): Press a key
    Usage: <tool>key("Enter")</tool>

  - done(): End the episode
    Usage: <tool>done()</tool>

action_mappings:
  click:
    _tool: "computer"
    _parser:
      positional: ["x", "y"]
    action:
      static: "click"
    x:
      from_arg: "x"
      transform: "lambda x: int(x)"
    y:
      from_arg: "y"
      default: 0

  key:
    _tool: "computer"
    _parser:
      positional: ["name"]
    action:
      static: "press"
    keys:
      from_arg: "name"
      transform: "lambda k: k.lower().split('+')"

parser:
  use_thinking: true

defaults:
  max_turns: 20
"""
COMPUTER = Tool(
    "computer",
    "Use mouse and keyboard.",
    {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["click", "press", "wait"]},
            "x": {"type": "integer"},
            "y": {"type": "integer"},
            "keys": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["action"],
    },
)
MOVE = Tool(
    "move",
    "Push the tiles.",
    {
        "type": "object",
        "properties": {"direction": {"type": "string", "enum": ["left", "right", "up", "down"]}},
        "required": ["direction"],
    },
)


@pytest.fixture
def desk(project: Path) -> Path:
    """A project with one configuration and an environment that was looked at."""
    (project / "configs").mkdir()
    (project / "configs" / "desk.yaml").write_text(TEXT)
    source = parse_source("text-2048", folder=project, lookup={}.get)
    save_analysis(
        source,
        Analysis(
            "text-2048", Server("desk", "1"), tools=(COMPUTER, Tool("setup", "", None, "setup"))
        ),
    )
    return project


@pytest.fixture
def game(project: Path) -> Path:
    """A project over the bundled environment, with a task."""
    (project / "configs").mkdir()
    shutil.copy(SHIPPED / "2048.yaml", project / "configs" / "2048.yaml")
    source = parse_source("text-2048", folder=project, lookup={}.get)
    save_analysis(source, Analysis("text-2048", Server("text-2048", "1"), tools=(MOVE,)))
    task = {
        "id": "small",
        "prompt": "Build a 64.",
        "mcp_config": {
            "game": {
                "command": "${HUDTUI_PYTHON:-python3}",
                "args": ["-m", "hudtui.envs.text_2048"],
            }
        },
        "setup_tool": {
            "name": "setup",
            "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": 1}},
        },
        "evaluate_tool": {
            "name": "evaluate",
            "arguments": {"name": "max_number", "arguments": {"target": 64}},
        },
    }
    (project / "tasks.json").write_text(json.dumps([task]))
    return project


def app_of(folder: Path) -> HudtuiApp:
    return HudtuiApp(folder, services=Services(now=lambda: NOON))


def file_of(folder: Path) -> Path:
    return next((folder / "configs").glob("*.yaml"))


@contextlib.asynccontextmanager
async def mapping(
    open_app: Any, settle: Any, folder: Path, size: tuple[int, int] = (120, 35)
) -> AsyncIterator[tuple[Any, Any]]:
    async with open_app(folder, size=size, services=Services(now=lambda: NOON)) as (app, pilot):
        app.open_screen("mapping")
        await settle(pilot)
        assert isinstance(app.screen, MappingScreen) or app.screen.is_modal
        yield app.screen, pilot


async def type_at(pilot: Any, settle: Any, screen: Any, row: int, column: int, *keys: str) -> None:
    screen.editor.focus()
    screen.editor.go(row, column)
    await pilot.press(*keys)
    await settle(pilot)


def row_of(screen: Any, text: str) -> int:
    return next(row for row, line in enumerate(screen.editor.lines) if text in line)


# -- the picture, and the words of other states
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(160, 45), (80, 24), (60, 20)])
def test_picture_fresh(snap: Any, desk: Path, size: tuple[int, int]) -> None:
    assert snap(app_of(desk), size=size, press=["2"])


async def test_without_a_configuration_the_screen_says_how_to_get_one(
    says: Any, project: Path
) -> None:
    words = (
        "There is no configuration here yet.",
        "1, then w, generates one for the environment",
    )
    await says(app_of(project), *words, press=["2"])


async def test_reading_is_said(says: Any, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(path: Path) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(file_buffer, "open_buffer", read)

    async def begun(pilot: Any) -> None:
        await pilot.press("2")
        await until(
            pilot, lambda: pilot.app.facts is not None and pilot.app.screen.NAME == "mapping"
        )

    await says(app_of(desk), "Reading the configuration …", run_before=begun, wait=False)


NO_TEXT = b"action_mappings: \xff\xfe\n"
BROKEN = (
    TEXT.replace('_tool: "computer"', '_tool: "computr"', 1)
    .replace('from_arg: "name"', 'from_arg: "nmae"')
    .replace('  name: "Desk"', '  title: "Desk"')
    .encode()
)
NO_METHOD = TEXT.replace("k.lower()", "k.lower().nothing()").encode()


async def reply_with_words(pilot: Any) -> None:
    screen = pilot.app.screen
    screen.editor.go(row_of(screen, "lambda x: int(x)"))
    screen.preview.reply.load_text(
        '<think>The button is there.</think>\n<tool>click("here", 200)</tool>'
    )


async def findings_tab(pilot: Any) -> None:
    pilot.app.screen.preview.turn_to("findings")


async def actions_tab(pilot: Any) -> None:
    pilot.app.screen.preview.turn_to("actions")


async def complete(pilot: Any) -> None:
    screen = pilot.app.screen
    screen.editor.go(row_of(screen, 'static: "press"'), 15)
    await pilot.press("delete", "delete", "delete", "delete", "delete", "ctrl+n")


@pytest.mark.parametrize(
    ("text", "size", "press", "act", "words"),
    [
        pytest.param(
            NO_TEXT,
            (60, 20),
            (),
            None,
            (
                "configs/desk.yaml cannot be opened. c opens it again, or another one",
                "✗ error: configs/desk.yaml:1: this is not UTF-8 text byte 0xff at offset 17: "
                "invalid start byte Save the file as UTF-8.",
            ),
            id="not readable",
        ),
        pytest.param(
            TEXT.encode(),
            (60, 20),
            ("f6",),
            None,
            (
                "sample reply usage in the prompt ○ not connected",
                "<think>Let me try this.</think> <tool>click(100, 200)</tool>",
                "think Let me try this. action click(x=100, y=200) parameters computer",
                'action "click" static x 100 → 100 transform of x y 200 argument y call {',
            ),
            id="preview",
        ),
        pytest.param(
            BROKEN,
            (80, 24),
            ("f4", "f4"),
            None,
            (
                "configs/desk.yaml ✓ saved ✗ 1 ! 3",
                '19✗ _tool: "computr"',
                "✗ the environment has no tool `computr`; did you mean `computer`? ^l: call",
                "✗ mapping: the environment has no tool computr; did you mean computer?",
            ),
            id="finding",
        ),
        pytest.param(
            BROKEN,
            (160, 45),
            (),
            findings_tab,
            (
                "Findings 4",
                "! 2 the job has no name: its runs are hard to tell from other runs; add",
                "✗ 19 click: the environment has no tool `computr`; did you mean",
                "(f: call `computer`)",
                "! 34 key: the argument `name` is accepted, but no parameter is taken from",
            ),
            id="findings",
        ),
        pytest.param(
            TEXT.encode(),
            (80, 24),
            (),
            reply_with_words,
            (
                "26:1",
                "✗ transform: argument x of click: ValueError: invalid literal for int() wit",
            ),
            id="failing transform",
        ),
        pytest.param(
            NO_METHOD,
            (160, 45),
            (),
            actions_tab,
            (
                "✓ saved ✗ 1",
                "Actions ✗1 Findings 1",
                "action example becomes",
                '✓ click click(100, 200) computer(action="click", x=100, y=200)',
                '✗ key key("Enter") broken transform, column 21: the attribute nothi',
            ),
            id="actions",
        ),
        pytest.param(
            TEXT.encode(),
            (120, 35),
            (),
            complete,
            (
                "● not saved ✗ 1",
                "click allowed for action",
                "press allowed for action",
                "wait allowed for action",
                '✗ the value "" does not fit: `action` takes a string, o',
            ),
            id="completion",
        ),
    ],
)
async def test_the_words_of_a_state(
    says: Any,
    desk: Path,
    text: bytes,
    size: tuple[int, int],
    press: tuple[str, ...],
    act: Any,
    words: tuple[str, ...],
) -> None:
    file_of(desk).write_bytes(text)
    await says(app_of(desk), *words, size=size, press=["2", *press], run_before=act)


async def test_an_answer_is_shown_below_the_call(
    says: Any, desk: Path, monkeypatch: pytest.MonkeyPatch, settle: Any
) -> None:
    class Session:
        tools = {"computer": COMPUTER}  # noqa: RUF012
        declined = ()

        async def call_tool(
            self, name: str, arguments: Any, *, timeout: float | None = None
        ) -> ToolResult:
            return ToolResult(
                (ContentBlock("text", f"Clicked at {arguments['x']}, {arguments['y']}."),),
                {"ok": True, "windows": ["a", "b"]},
            )

    @contextlib.asynccontextmanager
    async def connect(*given: Any, **options: Any) -> AsyncIterator[Session]:
        yield Session()

    monkeypatch.setattr(client, "connect", connect)
    monkeypatch.setattr(Connection, "took", lambda self, began: 0.12)

    async def send(pilot: Any) -> None:
        screen = pilot.app.screen
        await until(
            pilot, lambda: bool(screen.draft.rows)
        )  # the check that follows the opening is over
        await pilot.press("f8")
        await until(
            pilot,
            lambda: (
                "Clicked at" in screen.query_one("#map-meaning", Sheet).plain and not screen.message
            ),
        )
        await settle(pilot)

    words = (
        "● connected",
        '"arguments": {"action": "click", "x": 100, "y": 200} }',
        "schema ✓ fits the tool's schema",
        "format 1.00 tags ✓ x 0.6 call ✓ x 0.4",
        "sent ✓ answered in 0.1s",
        'Clicked at 100, 200. structured {"ok": true, "windows": ["a", "b"]}',
    )
    await says(app_of(desk), *words, size=(80, 24), press=["2"], run_before=send)


async def test_the_preview_reads_the_dialect_of_the_configuration(
    open_app: Any, desk: Path, settle: Any
) -> None:
    text = TEXT.replace("use_thinking: true", "use_thinking: true\n  dialect: hermes")
    file_of(desk).write_text(text)
    async with mapping(open_app, settle, desk) as (screen, _):
        shown = screen.query_one("#map-meaning", Sheet).plain
        assert "hermes" in shown and "a section of the system prompt" in shown
        assert screen.preview.meaning.call.arguments == {"action": "click", "x": 100, "y": 200}
        assert "<tool_call>" in screen.preview.reply.text


# -- typing
# --------------------------------------------------------------------------------------------------


async def test_a_key_changes_the_preview_at_once(open_app: Any, desk: Path, settle: Any) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        assert screen.preview.meaning.call.arguments == {"action": "click", "x": 100, "y": 200}
        row = row_of(screen, "lambda x: int(x)")
        line = screen.editor.document.get_line(row)
        screen.editor.go(row, line.index("int(x)") + 6)
        await pilot.press("plus", "1")
        await until(pilot, lambda: screen.preview.meaning.call.arguments["x"] == 101)
        assert (
            "101" in screen.query_one("#map-meaning", Sheet).plain
            and "transform of x" in screen.query_one("#map-meaning", Sheet).plain
        )
        await pilot.press("ctrl+z")
        await until(pilot, lambda: screen.preview.meaning.call.arguments["x"] == 100)
        assert not screen.file.modified


async def test_a_slow_reading_never_takes_the_place_of_a_newer_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hudtui.core.gym import config as reader

    slow, go_on, read = threading.Event(), threading.Event(), reader.parse_config

    def parse_config(text: str, *, name: str) -> Any:
        if "first" in text:
            slow.set()
            assert go_on.wait(30)
        return read(text, name=name)

    monkeypatch.setattr(reader, "parse_config", parse_config)
    draft = LiveConfig()
    draft.edited(["system_prompt: first"])
    first = asyncio.create_task(draft.read("c.yaml"))
    await asyncio.to_thread(slow.wait, 30)
    draft.edited(["system_prompt: second"])
    await draft.read("c.yaml")
    assert draft.config is not None and draft.config.system_prompt == "second" and draft.is_read
    draft.edited(["system_prompt: third"])
    go_on.set()
    await first
    assert draft.config.system_prompt == "second" and not draft.is_read
    await draft.read("c.yaml")
    assert draft.config.system_prompt == "third" and draft.is_read


async def test_what_is_sent_is_what_the_text_means_right_after_a_key(
    open_app: Any, desk: Path, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []

    async def call(self: Any, source: Any, tool: str, arguments: Any, *, title: str) -> Any:
        sent.append(arguments)
        raise InputError("no server here")

    monkeypatch.setattr(Connection, "call", call)
    async with mapping(open_app, settle, desk) as (screen, pilot):
        await until(pilot, lambda: bool(screen.draft.rows))
        row = row_of(screen, "lambda x: int(x)")
        screen.editor.go(row, screen.editor.document.get_line(row).index("int(x)") + 6)
        screen.editor.insert("+1")
        screen.action_send()
        await until(pilot, lambda: bool(sent))
        assert sent[0]["x"] == 101


async def test_what_is_drawn_in_parts_is_what_is_drawn_as_a_whole(
    open_app: Any, desk: Path, settle: Any, screen_text: Any
) -> None:
    """Keys draw only the rows that look different: none may be forgotten."""
    async with mapping(open_app, settle, desk, size=(120, 24)) as (screen, pilot):
        screen.preview.reply.load_text('<tool>click("7", 200)</tool>')
        await settle(pilot)
        row = row_of(screen, "lambda x: int(x)")
        screen.editor.focus()
        screen.editor.go(row, screen.editor.lines[row].index("int"))
        wide = "-x if x + " + "_" * 12  # valid and not, beyond the side of the pane, and back again
        for key in [*wide, *["backspace"] * 14, "enter", "backspace"]:
            await pilot.press({" ": "space", "-": "minus", "+": "plus"}.get(key, key))
            await pilot.pause()
            drawn = screen_text(pilot.app)
            for widget in screen.walk_children():
                widget._styles_cache.clear()
                widget.notify_style_update()
            screen.refresh()
            assert screen_text(pilot.app) == drawn, key
        assert screen.editor.lines[row].strip().startswith("transform:")


async def test_what_does_not_parse_keeps_the_last_good_meaning(
    open_app: Any, desk: Path, settle: Any, screen_text: Any
) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        await type_at(
            pilot, settle, screen, row_of(screen, "action_mappings"), 0, "enter", "up", "x"
        )
        assert screen.preview.meaning.call.arguments["x"] == 100
        assert screen.draft.stale and "does not parse" in screen.draft.stale
        assert "last good meaning" in screen_text(pilot.app)
        assert str(screen.text.query_one("#map-brief").content).startswith(
            "! last good meaning: ✓ "
        )  # with the text alone, too
        assert [finding.code for finding in screen.draft.findings] == [
            "yaml"
        ] and screen.editor.notes
        await pilot.press("ctrl+z", "ctrl+z")
        await settle(pilot)
        assert screen.draft.stale is None and "last good meaning" not in screen_text(pilot.app)


async def test_aliases_between_parts_are_understood(open_app: Any, desk: Path, settle: Any) -> None:
    file_of(desk).write_text(
        TEXT.replace(
            '    action:\n      static: "click"', '    action: &a\n      static: "click"'
        ).replace('    action:\n      static: "press"', "    action: *a")
    )
    async with mapping(open_app, settle, desk) as (screen, pilot):
        screen.preview.reply.load_text('<think>x</think><tool>key("a")</tool>')
        await settle(pilot)
        assert (
            screen.draft.stale is None
            and screen.preview.meaning.call.arguments["action"] == "click"
        )
        await type_at(pilot, settle, screen, row_of(screen, 'static: "click"'), 15, "x")
        assert (
            screen.draft.stale is None
            and screen.preview.meaning.draft.arguments["action"] == "xclick"
        )


async def test_a_change_that_breaks_another_action_is_seen_in_the_table(
    open_app: Any, desk: Path, settle: Any
) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        assert [row.verdict for row in screen.draft.rows] == ["ok", "ok"]
        row = row_of(screen, 'static: "press"')
        await type_at(pilot, settle, screen, row, len('      static: "press'), "x")
        assert [row.verdict for row in screen.draft.rows] == ["ok", "error"]
        assert "✗1" in str(screen.preview.tabs.get_tab("actions").label)
        screen.preview.turn_to("actions")
        await pilot.press("j", "enter")
        await settle(pilot)
        assert screen.editor.cursor_location[0] == row_of(screen, "  key:")
        assert (
            'key("Enter")' in screen.preview.reply.text
            and screen.preview.meaning.error.stage == "schema"
        )


async def test_marks_move_with_the_lines_until_the_check_is_done(
    open_app: Any, desk: Path, settle: Any
) -> None:
    file_of(desk).write_text(TEXT.replace('_tool: "computer"', '_tool: "computr"', 1))
    async with mapping(open_app, settle, desk) as (screen, pilot):
        row = row_of(screen, "computr")
        assert row in screen.editor.notes
        screen.quiet = 30.0
        screen.editor.go(0, 0)
        await pilot.press("enter")
        await pilot.pause()
        assert row + 1 in screen.editor.notes and row not in screen.editor.notes


# -- editing
# --------------------------------------------------------------------------------------------------


async def test_enter_tab_and_backspace_mind_the_indentation(
    open_app: Any, desk: Path, settle: Any
) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        editor = screen.editor
        end = len(editor.lines) - 1
        await type_at(
            pilot,
            settle,
            screen,
            end,
            0,
            "a",
            "colon",
            "enter",
            "b",
            "colon",
            "space",
            "1",
            "enter",
        )
        assert list(editor.lines)[-3:] == ["a:", "  b: 1", "  "]
        await pilot.press("tab")
        assert editor.lines[-1] == "    "
        await pilot.press("backspace", "backspace")
        assert editor.lines[-1] == ""
        editor.selection = type(editor.selection)((end, 0), (end + 1, 3))
        await pilot.press("tab")
        assert list(editor.lines)[-3:-1] == ["  a:", "    b: 1"]
        await pilot.press("shift+tab")
        assert list(editor.lines)[-3:-1] == ["a:", "  b: 1"]


@pytest.mark.parametrize("key", ["tab", "shift+tab"])
async def test_walking_through_the_text_with_tab_changes_nothing(
    open_app: Any, desk: Path, settle: Any, key: str
) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        editor = screen.editor
        editor.go(row_of(screen, '_tool: "computer"'), 4)
        screen.query_one("#map-meaning").focus()
        visited = []
        for _ in range(12):
            await pilot.press(key)
            await pilot.pause()
            visited.append(screen.focused)
        assert editor in visited and visited[-1] is not None and len(set(visited)) > 2
        assert editor.text == TEXT
        while screen.focused is not editor:
            await pilot.press(key)
        await pilot.press("down", "up", "shift+tab")  # whoever does something here means the text
        assert editor.lines[editor.cursor_location[0]] == '  _tool: "computer"'


async def test_lines_are_moved_copied_and_deleted_as_one_change_each(
    open_app: Any, desk: Path, settle: Any
) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        editor = screen.editor
        editor.load_text("a\nb\nc\nd")
        editor.focus()
        editor.selection = type(editor.selection)((1, 0), (2, 1))
        for key, text in (
            ("ctrl+shift+up", "b\nc\na\nd"),
            ("ctrl+shift+up", "b\nc\na\nd"),  # there is nothing above
            ("ctrl+shift+down", "a\nb\nc\nd"),
            ("ctrl+shift+down", "a\nd\nb\nc"),
            ("ctrl+d", "a\nd\nb\nc\nb\nc"),
            ("shift+delete", "a\nd\nb\nc"),
            ("shift+delete", "a\nd\nb"),
            ("ctrl+z", "a\nd\nb\nc"),
            ("ctrl+z", "a\nd\nb\nc\nb\nc"),
            ("ctrl+z", "a\nd\nb\nc"),
            ("ctrl+z", "a\nb\nc\nd"),
        ):
            await pilot.press(key)
            assert editor.text == text, key
        await pilot.press("ctrl+end")
        assert editor.cursor_location == (3, 1)
        await pilot.press("ctrl+home")
        assert editor.cursor_location == (0, 0)


async def test_a_double_click_selects_a_word_and_a_third_the_line(
    open_app: Any, desk: Path, settle: Any
) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        row = row_of(screen, "system_prompt: |")
        place = (screen.editor.gutter_width + 3, row)
        await pilot.click("#map-text", offset=place, times=2)
        assert screen.editor.selected_text == "system_prompt"
        await pilot.click("#map-text", offset=place, times=3)
        assert screen.editor.selected_text == "system_prompt: |"


async def test_long_lines_can_be_wrapped(
    open_app: Any, desk: Path, settle: Any, screen_text: Any
) -> None:
    long = " ".join(f"word{number}" for number in range(60))
    file_of(desk).write_text(TEXT.replace("  You work at a desk.", f"  {long}") + "parser: 1\n")
    async with mapping(open_app, settle, desk) as (screen, pilot):
        assert "word40" not in screen_text(pilot.app).replace("word4 ", "")
        await pilot.press("ctrl+shift+w")
        await settle(pilot)
        assert all(f"word{number}" in screen_text(pilot.app) for number in range(60))
        row = row_of(screen, "word59")
        screen.editor.go(row, len(screen.editor.lines[row]))
        await pilot.press("x")
        await settle(pilot)
        assert "call.x" in screen_text(pilot.app) and screen.editor.lines[
            row_of(screen, "word59")
        ].endswith("make one call.x")
        await pilot.press("f4")
        await settle(pilot)
        assert "✗" in screen_text(pilot.app).split("duplicate")[0]
        await pilot.press("ctrl+shift+w")
        await settle(pilot)
        assert not screen.editor.soft_wrap and screen.editor.scroll_offset.x == 0


async def test_after_a_find_the_beginning_of_the_lines_is_in_sight_again(
    open_app: Any, desk: Path, settle: Any
) -> None:
    long = "see " * 40 + "farneedle"
    file_of(desk).write_text(TEXT.replace("  You work at a desk.", f"  {long}"))
    async with mapping(open_app, settle, desk) as (screen, pilot):
        await pilot.press("ctrl+f", *"farneedle")
        await settle(pilot)
        assert screen.editor.scroll_offset.x > 0
        await pilot.press("escape", "ctrl+f", *"positional", "enter")
        await settle(pilot)
        assert screen.editor.selected_text == "positional" and screen.editor.scroll_offset.x == 0


async def test_comments_are_toggled_as_one_change(open_app: Any, desk: Path, settle: Any) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        editor = screen.editor
        row = row_of(screen, "  click:")
        editor.selection = type(editor.selection)((row, 2), (row + 2, 4))
        await pilot.press("ctrl+t")
        assert list(editor.lines)[row : row + 3] == [
            "  # click:",
            '  #   _tool: "computer"',
            "  #   _parser:",
        ]
        await pilot.press("ctrl+t")
        assert editor.text == TEXT
        await pilot.press("ctrl+z")
        assert editor.lines[row] == "  # click:"
        await pilot.press("ctrl+y")
        assert editor.text == TEXT


async def test_search_and_replace(open_app: Any, desk: Path, settle: Any, screen_text: Any) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        await pilot.press("ctrl+f", *"COMPUTER")
        assert screen.editor.selected_text == "computer" and "1/2" in screen_text(pilot.app)
        first = screen.editor.cursor_location
        await pilot.press("enter")
        assert screen.editor.cursor_location > first and "2/2" in screen_text(pilot.app)
        await pilot.press("enter")
        assert screen.editor.cursor_location == first
        await pilot.press("tab", *"desk", "enter")
        await settle(pilot)
        assert (
            screen.editor.text.count('"desk"') == 1 and screen.editor.text.count('"computer"') == 1
        )
        await pilot.press("ctrl+l")
        assert screen.editor.text.count('"desk"') == 2
        await pilot.press("escape")
        assert (
            screen.focused is screen.editor
            and not screen.query_one(FindBar).display
            and screen.editor.pattern is None
        )
        await pilot.press("ctrl+z")
        assert screen.editor.text.count('"computer"') == 1


async def test_completion_offers_and_inserts(open_app: Any, desk: Path, settle: Any) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        editor = screen.editor
        row = row_of(screen, "  click:")
        screen.editor.go(row + 1, 0)
        await pilot.press("end")
        await pilot.press("enter")
        assert editor.cursor_location == (row + 2, 4)
        await pilot.press("k", "e")
        popup = screen.query_one(Popup)
        assert popup.display and [one.label for one in popup.completion.candidates] == ["keys"]
        undrawn = Popup()
        await screen.mount(undrawn)
        undrawn.offer(popup.completion, Offset(0, 0), Size(80, 24))
        undrawn.move("pagedown")  # a key of the same burst
        assert undrawn.chosen == popup.chosen
        await undrawn.remove()
        await pilot.press("tab")
        assert editor.lines[row + 2] == "    keys:" and not popup.display
        editor.go(row_of(screen, 'static: "click"'), 15)
        await pilot.press("ctrl+n")
        assert popup.display
        await pilot.press("escape")
        assert not popup.display and screen.focused is editor
        editor.go(row_of(screen, 'static: "click"'), 13)
        await pilot.press(*["delete"] * 7, "ctrl+n", "down", "enter")
        assert '      static: "press"' in editor.lines[row_of(screen, 'static: "press"')]


async def test_jumping(open_app: Any, desk: Path, settle: Any) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        await pilot.press("ctrl+o")
        await pilot.pause()
        assert isinstance(pilot.app.screen, Pick)
        await pilot.press(*"key", "enter")
        await settle(pilot)
        assert screen.editor.cursor_location[0] == row_of(screen, "  key:")
        await pilot.press("ctrl+g")
        await pilot.pause()
        await pilot.press("3", "enter")
        await settle(pilot)
        assert screen.editor.cursor_location[0] == 2


async def test_findings_are_jumped_to_and_fixed(open_app: Any, desk: Path, settle: Any) -> None:
    text = TEXT.replace('_tool: "computer"', '_tol: "computer"', 1).replace(
        "      transform", "      tranform"
    )
    file_of(desk).write_text(text)
    async with mapping(open_app, settle, desk) as (screen, pilot):
        fixable = [finding for finding in screen.draft.findings if finding.fix]
        assert len(fixable) >= 2
        await pilot.press("f4")
        while not (screen.text.finding_at_cursor() and screen.text.finding_at_cursor().fix):
            await pilot.press("f4")
        before = screen.editor.text
        await pilot.press("ctrl+l")
        await settle(pilot)
        assert screen.editor.text != before and len(
            [one for one in screen.draft.findings if one.fix]
        ) < len(fixable)
        await pilot.press("escape", "F")
        await settle(pilot)
        assert screen.editor.text == TEXT
        assert screen.draft.config.mappings.keys() == {"click", "key"}


async def test_a_new_action_from_a_tool(open_app: Any, desk: Path, settle: Any) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        await pilot.press("f7")
        await pilot.pause()
        await pilot.press("enter")
        await settle(pilot)
        assert (
            "computer" in screen.draft.config.mappings
            and "- computer(" in screen.draft.config.system_prompt
        )
        assert screen.editor.cursor_location[0] == row_of(screen, "  computer:")
        await pilot.press("ctrl+z")
        assert screen.editor.text == TEXT


# -- the file
# --------------------------------------------------------------------------------------------------


async def test_saving(open_app: Any, desk: Path, settle: Any) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        await type_at(pilot, settle, screen, 0, 0, "#")
        assert screen.file.modified and find_copy(desk, file_of(desk), TEXT) is not None
        await pilot.press("f9")
        await settle(pilot)
        assert file_of(desk).read_text() == "#" + TEXT and not screen.file.modified
        assert find_copy(desk, file_of(desk), TEXT) is None
        assert "Saved configs/desk.yaml" in screen.message


async def test_quitting_asks_about_unsaved_work(
    open_app: Any, desk: Path, settle: Any, screen_text: Any
) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        app = screen.app
        await pilot.press("x", "ctrl+q")
        await pilot.pause()
        assert "! desk.yaml is not saved" in screen_text(app) and "A copy is kept" in screen_text(
            app
        )
        await pilot.press("n")
        await settle(pilot)
        assert app.screen is screen and screen.file.modified
        app.open_screen("home")  # also from elsewhere
        await settle(pilot)
        await pilot.press("q")
        await pilot.pause()
        assert "! desk.yaml is not saved" in screen_text(app)
        await pilot.press("y")
        await pilot.pause()
    assert app.return_code == 0


async def test_a_careless_enter_at_the_end_saves(open_app: Any, desk: Path, settle: Any) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        app = screen.app
        await pilot.press("x", "ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, Unsaved))
        await pilot.press("enter")
        await until(pilot, lambda: app._exit)
    assert app.return_code == 0 and file_of(desk).read_text() == "x" + TEXT
    assert find_copy(desk, file_of(desk), TEXT) is None


async def test_a_file_that_cannot_be_saved_keeps_hudtui_open(
    open_app: Any, desk: Path, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: Any, **options: Any) -> None:
        raise InputError(
            "this file cannot be written; its old content is unchanged", why="Read-only file system"
        )

    async with mapping(open_app, settle, desk) as (screen, pilot):
        monkeypatch.setattr(file_buffer, "write_atomic", refuse)
        await pilot.press("x", "ctrl+q")
        await until(pilot, lambda: isinstance(pilot.app.screen, Unsaved))
        await pilot.press("s")
        await settle(pilot)
        assert (
            pilot.app.screen is screen
            and screen.file.modified
            and "Read-only file system" in screen.message
        )


async def test_in_a_folder_that_cannot_be_written_to_unsaved_work_survives(
    open_app: Any, desk: Path, settle: Any, screen_text: Any
) -> None:
    state = desk / ".hudtui"
    async with mapping(open_app, settle, desk) as (screen, pilot):
        shutil.rmtree(state)
        state.write_text("in the way")
        await type_at(pilot, settle, screen, 0, 0, "x")
        assert "not copied" not in screen.message
        await pilot.press("ctrl+q")
        await until(pilot, lambda: isinstance(pilot.app.screen, Unsaved))
        assert "A copy is kept" in screen_text(pilot.app)
        await pilot.press("y")
        await until(pilot, lambda: pilot.app._exit)
    async with mapping(open_app, settle, desk) as (_, pilot):
        assert isinstance(pilot.app.screen, Pick)
        await pilot.press("enter")
        await settle(pilot)
        assert pilot.app.screen.editor.text == "x" + TEXT


async def test_where_no_copy_can_be_kept_the_question_says_so(
    open_app: Any, desk: Path, settle: Any, screen_text: Any
) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        app = screen.app
        for folder in (desk / ".hudtui", app.places.state):
            shutil.rmtree(folder, ignore_errors=True)
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.write_text("in the way")
        await type_at(pilot, settle, screen, 0, 0, "x")
        assert "not copied" in screen.message
        await pilot.press("ctrl+q")
        await until(pilot, lambda: isinstance(app.screen, Unsaved))
        text = screen_text(app)
        assert (
            "No copy of it can be kept" in text
            and "Quit and lose the changes (L)" in text
            and "A copy is kept" not in text
        )
        assert app.focused is not None and app.focused.id == "save"
        await pilot.press("y")
        await settle(pilot)
        assert isinstance(app.screen, Unsaved)  # the key of a harmless end does not lose work
        await pilot.press("L")
        await until(pilot, lambda: app._exit)
    assert file_of(desk).read_text() == TEXT
    app.places.state.unlink()  # the test's own world is looked through for crashes


@pytest.mark.parametrize("answer", ["enter", "y", "n"])
async def test_another_configuration_loses_nothing(
    open_app: Any, desk: Path, settle: Any, answer: str
) -> None:
    other = desk / "configs" / "other.yaml"
    async with mapping(open_app, settle, desk) as (screen, pilot):
        await type_at(pilot, settle, screen, 0, 0, "x")
        other.write_text("action_mappings:\n  a:\n    _tool: computer\n")
        pilot.app.open_screen("mapping", path=other)
        await until(pilot, lambda: isinstance(pilot.app.screen, Unsaved))
        await pilot.press(answer)
        await settle(pilot)
        desk_file = desk / "configs" / "desk.yaml"
        assert screen.path == (desk_file if answer == "n" else other)
        assert desk_file.read_text() == ("x" + TEXT if answer == "enter" else TEXT)
        copy = find_copy(desk, desk_file, TEXT)
        assert (copy is not None and copy.text == "x" + TEXT) == (answer != "enter")


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"\xef\xbb\xbf", "utf-8"),
        (b"\xff\xfe", "utf-16-le"),
        (b"\xfe\xff", "utf-16-be"),
        (b"\xff\xfe\0\0", "utf-32-le"),
    ],
)
async def test_encoding_line_ends_and_byte_order_mark_stay(
    open_app: Any, desk: Path, settle: Any, mark: bytes, encoding: str
) -> None:
    text = TEXT.replace("Desk", "Désk \U0001f5a5")
    file_of(desk).write_bytes(mark + text.replace("\n", "\r\n").encode(encoding))
    async with mapping(open_app, settle, desk) as (screen, pilot):
        assert not screen.file.modified
        await type_at(pilot, settle, screen, 0, 0, "#")
        await pilot.press("f9")
        await settle(pilot)
        assert file_of(desk).read_bytes() == mark + ("#" + text.replace("\n", "\r\n")).encode(
            encoding
        )


async def test_what_is_typed_just_before_the_end_is_copied(
    open_app: Any, desk: Path, settle: Any
) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        screen.quiet = 60.0
        await pilot.press("x")
    found = find_copy(desk, file_of(desk), TEXT)
    assert found is not None and found.text == "x" + TEXT


async def test_a_file_changed_outside_is_followed_when_nothing_is_unsaved(
    open_app: Any, desk: Path, settle: Any
) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        file_of(desk).write_text(TEXT + "# more\n")
        await screen.file.look()
        await settle(pilot)
        assert screen.editor.text == TEXT + "# more\n" and not screen.file.modified
        assert "read again" in screen.message


async def test_a_folder_that_hangs_does_not_hold_up_the_keys(
    open_app: Any, desk: Path, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go = threading.Event(), threading.Event()
    real = autosave.file_stamp

    def hang(path: Path) -> autosave.FileStamp:
        asked.set()
        go.wait(60)
        return real(path)

    async with mapping(open_app, settle, desk) as (screen, pilot):
        file_of(desk).write_text(TEXT + "# more\n")
        monkeypatch.setattr(autosave, "file_stamp", hang)
        app = pilot.app
        app.open_screen("mapping")  # coming back looks at the file
        await until(pilot, asked.is_set)
        screen.editor.focus()
        await pilot.press("x")
        assert screen.editor.text == "x" + TEXT and not go.is_set()
        go.set()
        await settle(pilot)
        assert screen.editor.text == "x" + TEXT and "another program" in screen.message


@pytest.mark.parametrize("choice", ["read", "keep"])
async def test_a_file_changed_outside_never_overwrites_unsaved_work(
    open_app: Any, desk: Path, settle: Any, screen_text: Any, choice: str
) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        await type_at(pilot, settle, screen, 0, 0, "#")
        file_of(desk).write_text(TEXT + "# theirs\n")
        await screen.file.look()
        await settle(pilot)
        assert screen.editor.text == "#" + TEXT and "changed on disk" in screen_text(pilot.app)
        await pilot.press("f9")
        await pilot.pause()
        assert isinstance(pilot.app.screen, Pick)
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(pilot.app.screen, TextDialog) and "-# theirs" in screen_text(pilot.app)
        await pilot.press("escape")
        await pilot.pause()
        await pilot.press(*(["j"] if choice == "read" else ["j", "j"]), "enter")
        await settle(pilot)
        if choice == "read":
            assert screen.editor.text == file_of(desk).read_text() == TEXT + "# theirs\n"
            await pilot.press("ctrl+z")
            assert screen.editor.text == "#" + TEXT
        else:
            assert file_of(desk).read_text() == "#" + TEXT
        assert "changed on disk" not in screen_text(pilot.app)


async def test_unsaved_work_survives_a_crash(open_app: Any, desk: Path, settle: Any) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        await type_at(pilot, settle, screen, 0, 0, "x", "y")
    # the app is gone without a word; the next one offers what was not saved
    async with mapping(open_app, settle, desk) as (_, pilot):
        assert isinstance(pilot.app.screen, Pick)
        await pilot.press("enter")
        await settle(pilot)
        screen = pilot.app.screen
        assert screen.editor.text == "xy" + TEXT and screen.file.modified
        await pilot.press("ctrl+z")
        assert screen.editor.text == TEXT
    assert file_of(desk).read_text() == TEXT


async def test_unsaved_work_can_be_given_up(open_app: Any, desk: Path, settle: Any) -> None:
    save_copy(desk, file_of(desk), "old: 1\n", "2026-11-20T11:00:00+00:00")
    async with mapping(open_app, settle, desk) as (_, pilot):
        await pilot.press("j", "j", "enter")
        await settle(pilot)
        assert pilot.app.screen.editor.text == TEXT
    assert find_copy(desk, file_of(desk), TEXT) is None


async def test_several_configurations_are_chosen_from(
    open_app: Any, desk: Path, settle: Any
) -> None:
    (desk / "configs" / "other.yaml").write_text("action_mappings:\n  a:\n    _tool: computer\n")
    async with mapping(open_app, settle, desk) as (_, pilot):
        assert isinstance(pilot.app.screen, Pick)
        await pilot.press("j", "enter")
        await settle(pilot)
        assert pilot.app.screen.path == desk / "configs" / "other.yaml"
        pilot.app.open_screen("mapping", path=desk / "configs" / "desk.yaml")
        await settle(pilot)
        assert pilot.app.screen.editor.text == TEXT


async def test_samples_turn_and_what_was_written_is_one(
    open_app: Any, desk: Path, settle: Any
) -> None:
    async with mapping(open_app, settle, desk) as (screen, pilot):
        await pilot.press("escape", "n")
        assert (
            'key("Enter")' in screen.preview.reply.text
            and screen.preview.meaning.call.arguments["keys"] == ["enter"]
        )
        await pilot.press("w")
        assert screen.focused is screen.preview.reply
        screen.preview.reply.load_text("<tool>click(7)</tool>")
        await settle(pilot)
        assert screen.preview.meaning.call.arguments == {"action": "click", "x": 7, "y": 0}
        await pilot.press("escape", "n")
        assert screen.preview.reply.text != "<tool>click(7)</tool>"
        await pilot.press("N")
        assert (
            screen.preview.reply.text == "<tool>click(7)</tool>"
            and screen.preview.sample.label == "your last one"
        )


# -- the environment
# --------------------------------------------------------------------------------------------------


async def test_a_call_is_sent_to_the_real_environment_on_a_key_only(
    open_app: Any, game: Path, settle: Any, screen_text: Any
) -> None:
    async with mapping(open_app, settle, game) as (screen, pilot):
        assert "not connected" in screen_text(pilot.app) and screen.connection.session is None
        await pilot.press("f8")
        await settle(pilot)
        plain = screen.query_one("#map-meaning", Sheet).plain
        assert "sent" in plain and "answered" in plain and '"score"' in plain
        assert "● connected" in screen_text(pilot.app)
        await pilot.press("escape", "x")
        await settle(pilot)
        assert screen.connection.session is None


async def test_a_call_goes_to_the_environment_that_was_analyzed_last(
    open_app: Any, game: Path, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[str] = []
    ended: list[str] = []

    class Session:
        tools = {"move": MOVE}  # noqa: RUF012
        declined = ()

        async def call_tool(
            self, name: str, arguments: Any, *, timeout: float | None = None
        ) -> ToolResult:
            return ToolResult((ContentBlock("text", "done"),))

    @contextlib.asynccontextmanager
    async def connect(source: Any, **options: Any) -> AsyncIterator[Session]:
        began.append(source.text)
        yield Session()
        ended.append(source.text)

    monkeypatch.setattr(client, "connect", connect)
    async with mapping(open_app, settle, game) as (screen, pilot):
        await pilot.press("f8")
        await settle(pilot)
        await pilot.press("f8")
        await settle(pilot)
        assert (began, ended) == (["text-2048"], [])
        url = "http://127.0.0.1:9/mcp"
        save_analysis(
            parse_source(url, folder=game, lookup={}.get),
            Analysis(url, Server("other", "1"), tools=(MOVE,)),
        )
        pilot.app.open_screen("home")
        pilot.app.open_screen("mapping")
        await settle(pilot)
        await pilot.press("f8")
        await settle(pilot)
        assert (began, ended) == (
            ["text-2048", url],
            ["text-2048"],
        ) and screen.connection.session is not None


async def test_a_refused_reply_is_not_sent(open_app: Any, game: Path, settle: Any) -> None:
    async with mapping(open_app, settle, game) as (screen, pilot):
        screen.preview.reply.load_text("<tool>nothing()</tool>")
        await pilot.press("f8")
        await settle(pilot)
        assert screen.connection.session is None and "becomes no call" in screen.message


async def test_a_task_is_played_on_a_screen_of_its_own_and_its_replies_come_back_as_samples(
    open_app: Any, game: Path, settle: Any
) -> None:
    async with mapping(open_app, settle, game) as (screen, pilot):
        screen.editor.insert("# a note\n")
        await pilot.press("escape", "p")
        await settle(pilot)
        playing = pilot.app.screen
        assert playing.NAME == "playing" and playing.choice.config == "configs/2048.yaml"
        assert "changes that are not saved" in playing.message
        playing._choose(policy="greedy", max_turns=1)
        await pilot.press("ctrl+g")
        await until(pilot, lambda: playing.over and playing.turns)
        pilot.app.go_back("playing")
        await settle(pilot)
        assert pilot.app.screen is screen
        await until(pilot, lambda: bool(screen.samples.rollouts))
        assert playing.turns[0].turn.reply in [sample.text for sample in screen.samples.rollouts]


async def test_a_configuration_for_another_environment_is_not_judged_by_the_last_one(
    open_app: Any, desk: Path, settle: Any, screen_text: Any
) -> None:
    text = TEXT.replace('  name: "Desk"', '  metadata: {environment: "deepresearch"}').replace(
        '"computer"', '"search"'
    )
    file_of(desk).write_text(text)
    async with mapping(open_app, settle, desk, size=(200, 36)) as (screen, pilot):
        assert [finding for finding in screen.draft.findings if finding.severity == "error"] == []
        assert all(row.verdict == "ok" for row in screen.draft.rows)
        assert "not checked: for deepresearch; last analyzed: text-2048" in screen_text(pilot.app)
        row = row_of(screen, "deepresearch")
        screen.editor.replace(
            '"text_2048"',
            (row, text.splitlines()[row].index('"')),
            (row, len(text.splitlines()[row]) - 1),
        )
        await settle(pilot)
        assert any("no tool `search`" in finding.message for finding in screen.draft.findings), (
            screen.draft.findings
        )
        assert "not checked: for" not in screen_text(pilot.app)


async def test_without_an_environment_the_screen_works_and_says_what_is_missing(
    open_app: Any, project: Path, settle: Any
) -> None:
    (project / "configs").mkdir()
    (project / "configs" / "a.yaml").write_text(TEXT)
    async with mapping(open_app, settle, project) as (screen, pilot):
        assert screen.preview.meaning.call is not None and not screen.preview.meaning.checked
        await pilot.press("f8")
        await settle(pilot)
        assert "open an environment first" in screen.message
        await pilot.press("f7")
        assert "open the environment first" in screen.message


async def test_the_configuration_that_was_open_last_is_opened_again(
    open_app: Any, settle: Any, screen_text: Any, project: Path
) -> None:
    for name in ("a.yaml", "b.yaml"):
        (project / "configs").mkdir(exist_ok=True)
        (project / "configs" / name).write_text(TEXT)
    async with open_app(project) as (app, pilot):
        await pilot.press("2")
        await settle(pilot)
        while not app.screen.is_modal:  # with several and nothing remembered, the user chooses
            await pilot.pause(0.01)
        await pilot.press("down", "enter")
        await settle(pilot)
        assert app.screen.path.name == "b.yaml"
    async with open_app(project) as (app, pilot):
        await pilot.press("2")
        await settle(pilot)
        assert app.screen.path is not None and app.screen.path.name == "b.yaml"
    (project / "configs" / "b.yaml").write_bytes(b"\x00\xff\xfe\x00" * 50)
    async with open_app(project, size=(120, 35)) as (app, pilot):
        await pilot.press("2")
        await settle(pilot)
        assert "configs/b.yaml cannot be opened." in screen_text(
            app
        ) and "c opens it again, or another one" in screen_text(app)
        await pilot.press("c")
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        assert app.screen.path.name == "a.yaml"


async def test_the_footer_says_how_a_text_that_takes_digits_is_left(
    desk: Path, open_app: Any, settle: Any, screen_text: Any
) -> None:
    for size in SIZES:
        async with mapping(open_app, settle, desk, size) as (screen, pilot):
            before, app = screen.editor.text, screen.app
            screen.text.come()
            for words, other in (("Esc Leave text", "w"), ("Esc Leave reply", "")):
                await settle(pilot)
                assert screen_text(app).rstrip().splitlines()[-1].lstrip().startswith(words)
                await pilot.press("escape")
                await settle(pilot)
                assert "Esc Leave" not in screen_text(app)
                if other:
                    await pilot.press(other)
            await pilot.press("3")
            await settle(pilot)
            assert app.screen.NAME == "dataset" and screen.editor.text == before
