"""The private parts of Textual that hudtui uses: few, in four modules, and as they were when they
were taken into use."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.command import CommandPalette
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.timer import Timer
from textual.widgets import Input, TextArea

import hudtui.tui

HOME = Path(hudtui.tui.__file__).parent
USED = {
    "gaps.py": {
        "textual._compositor",  # every update that goes to a terminal
        "_display",
        "_driver",
        "_handle_exception",  # what broke is told in plain words
        "_exit",
        "_close_messages_no_wait",
        "_value",  # signs in a field
        "_watch__list_visible",  # a palette that closes
        "_watch__show_busy",
        "_skip",  # a timer that is late
    },
    "cells.py": {
        "textual._compositor",
        "_color_system",
        "_ansi",
        "_link",
        "_link_id",
    },  # the cells that differ
    "driver.py": {
        "textual._xterm_parser",  # keys, without looking at the clock ten times a second
        "_enable_mouse_support",
        "_disable_mouse_support",
    },
}
"""The modules that use private parts of Textual and Rich, and these."""

EDITOR = {"editor/yaml_editor.py", "editor/signed_area.py"}
"""Lines that are drawn again only when they look different: 7 ms a key in a text of 3 600 lines, 48
without."""


def _private_uses(path: Path, *, everywhere: bool) -> set[str]:
    """Imports of private modules and names, and private names that the file does not define; those
    of `self` if `everywhere`."""
    tree, found = ast.parse(path.read_text()), set[str]()
    own = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    stored = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )
    own |= {node.attr for node in stored if ast.unparse(node.value) == "self"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("textual"):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            found |= {node.module or ""} if any(name.startswith("_") for name in names) else set()
        if (
            isinstance(node, ast.Attribute)
            and re.match(r"_[a-z]", node.attr)
            and node.attr != "_replace"
        ):
            base = ast.unparse(node.value)
            of_self = base in ("self", "cls") or base.startswith("self._")
            if everywhere and (node.attr not in own or base == "super()"):
                found.add(node.attr)
            elif not everywhere and not of_self and base != "super()":
                found.add(f"{node.lineno}: {base}.{node.attr}")
    return found


def test_private_parts_are_few_and_in_few_modules() -> None:
    others = {
        str(path.relative_to(HOME)): _private_uses(path, everywhere=False)
        for path in HOME.rglob("*.py")
    }
    assert {
        name: uses for name, uses in others.items() if uses and name not in {*USED, *EDITOR}
    } == {}
    assert {name: _private_uses(HOME / name, everywhere=True) for name in USED} == USED
    assert sum(map(len, USED.values())) <= 25


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (App._display, ["self", "screen", "renderable"]),
        (App._handle_exception, ["self", "error"]),
        (App._close_messages_no_wait, ["self"]),
        (CommandPalette._watch__list_visible, ["self"]),
        (CommandPalette._watch__show_busy, ["self"]),
        (Input._position_to_cell, ["self", "position"]),
        (Input._cell_offset_to_index, ["self", "offset"]),
        (LinuxDriver._enable_mouse_support, ["self"]),
        (LinuxDriver._disable_mouse_support, ["self"]),
        (XTermParser, ["debug"]),
        (CompositorUpdate.render_segments, ["self", "console"]),
    ],
)
def test_what_is_called_or_replaced_is_as_it_was(function: Any, parameters: list[str]) -> None:
    assert list(inspect.signature(function).parameters) == parameters


def test_what_is_read_is_still_there() -> None:
    assert isinstance(Input._value, property)
    assert {"spans", "chops", "chop_ends"} <= set(inspect.signature(ChopsUpdate).parameters)
    assert {"strips", "region"} <= set(inspect.signature(LayoutUpdate).parameters)
    assert {"_ansi", "_link", "_link_id"} <= set(Style.__slots__)
    assert hasattr(Console(), "_color_system")
    app = App[None]()
    assert {"_driver", "_exit"} <= vars(app).keys()
    assert "self._mouse = " in inspect.getsource(Driver.__init__)
    assert "self._file" in inspect.getsource(LinuxDriver.__init__)


async def test_a_timer_that_is_late_may_be_told_not_to_skip() -> None:
    async with App[None]().run_test() as pilot:
        timer: Timer = pilot.app.set_timer(1000, lambda: None)
        assert timer._skip is True


def test_an_editor_may_keep_the_height_of_its_text() -> None:
    text = TextArea("one\ntwo\nthree")
    assert len(text.wrapped_document._offset_to_line_info) == text.wrapped_document.height == 3
    assert hasattr(text, "_theme")
