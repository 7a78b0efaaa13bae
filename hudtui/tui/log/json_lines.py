"""A line of a log whose JSON is shown as an indented tree, with the lines before and after it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from hudtui.core.json_text import value_in_line
from hudtui.core.text import clean_line
from hudtui.tui.actions import AppAction, by_key
from hudtui.tui.widgets.dialog import Dialog
from hudtui.tui.widgets.json_view import JsonView

if TYPE_CHECKING:
    from hudtui.tui.log.view import LogView

_OPENS = re.compile(r"[{\[]")
_TITLE = 100
"""Longest title, in characters."""


class JsonLines(Dialog[None]):
    """The JSON in a line of a log.

    Args:
        log: The log; it marks the line that is shown.
        number: The line.
        value: What is in it.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("jsonline.close", "Close", "Close this line.", "q,enter", palette=False),
        by_key("jsonline.next", "Next line", "Show the next line with JSON.", "J"),
        by_key("jsonline.previous", "Line before", "Show the line with JSON before.", "K"),
    )
    DEFAULT_CSS = """
    JsonLines JsonView { height: 1fr; }
    JsonLines > .dialog { height: 90%; }
    """

    def __init__(self, log: LogView, number: int, value: Any) -> None:
        super().__init__()
        self._log, self._number, self._value = log, number, value
        self._head = Static(classes="dialog-title")
        self._view = JsonView()

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide"):
            yield self._head
            yield self._view
            yield self.key_line(
                "{key:jsonline.next} next line   {key:jsonline.previous} line before   "
                "{key:json.copy} copy   {key:search.find} search   {key:dialog.cancel} close"
            )

    def on_mount(self) -> None:
        self._show()
        self._view.focus()

    def _show(self) -> None:
        self._log.go_to(self._number)
        place = self._number - self._log.buffer.first + 1
        before = _OPENS.split(self._log.buffer.raw(self._number), maxsplit=1)[0].strip()
        told = f"Line {place:,} of {len(self._log.buffer):,}"
        self._head.update(Content(clean_line(f"{told}: {before}" if before else told, _TITLE)))
        self._view.show(self._value)

    def action_next(self) -> None:
        self._go(range(self._number + 1, self._log.buffer.end))

    def action_previous(self) -> None:
        self._go(range(self._number - 1, self._log.buffer.first - 1, -1))

    def _go(self, numbers: range) -> None:
        found = first_value(self._log.buffer.raw, numbers)
        if found is None:
            self.notify("No further line here holds JSON.")
            return
        self._number, self._value = found
        self._show()

    def action_close(self) -> None:
        self.dismiss(None)


def first_value(
    line: Callable[[int], str], numbers: range | list[int], most: int = 10_000
) -> tuple[int, Any] | None:
    """Return the first of these lines that holds JSON, and what it holds; None without one.

    Args:
        line: Returns a line by its number.
        numbers: Lines, in the order in which they are looked at.
        most: How many of them are looked at.
    """
    for number in numbers[:most]:
        if (value := value_in_line(line(number))) is not None:
            return number, value
    return None
