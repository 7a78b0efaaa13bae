"""JSON to look at, and the parameters of a tool in plain words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from textual.content import Content

from hudtui.core.environment.schema_words import describe_schema
from hudtui.core.json_text import pretty
from hudtui.core.text import clean
from hudtui.tui.actions import AppAction
from hudtui.tui.log.lines import LogLines
from hudtui.tui.log.model import LogBuffer
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.lists import MOVES
from hudtui.tui.widgets.scrolling import Scrolling

_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|\b(true|false|null)\b')


class JsonView(Scrolling, LogLines):
    """A value as indented JSON, or a text as it is. Draws what is in sight only, so size does not matter."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"json--key", "json--text", "json--number", "json--word"}
    DEFAULT_CSS = """
    JsonView { overflow-y: auto; }
    JsonView > .json--key { color: $primary; text-style: bold; }
    JsonView > .json--text { color: $success; }
    JsonView > .json--number { color: $accent; }
    JsonView > .json--word { color: $warning; text-style: italic; }
    """
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("json.copy", "Copy", "Copy the whole text.", "y", palette=False),
        AppAction("json.wrap", "Wrap", "Wrap long lines, or scroll sideways.", "backslash", palette=False, show=False),
        *MOVES,
    )

    def __init__(self, *, empty: str = "Nothing to show.", id: str | None = None) -> None:  # noqa: A002
        super().__init__(LogBuffer(cap=2_000_000), empty=empty, id=id)
        self.follow = False
        self._json = False

    def show(self, value: Any) -> None:
        """Show a value that JSON can hold. What it cannot hold is shown as Python writes it."""
        self._json = True
        self._take(pretty(value))

    def show_text(self, text: str) -> None:
        self._json = False
        self._take(clean(text))

    def clear(self) -> None:
        if len(self.buffer):
            self._take("")

    @property
    def text(self) -> str:
        """What is shown, cleaned."""
        return self.buffer.everything()

    def _take(self, text: str) -> None:
        self.buffer.clear()
        if text:
            self.buffer.append(text.split("\n"), 0.0)
        self.here = None
        self.follow = False
        self.rebuild()
        self.follow = False
        self._place(0)
        self.refresh_bindings()

    def highlight(self, text: str) -> list[tuple[int, int, str]]:
        """Keys, texts, numbers and words."""
        if not self._json:
            return []
        found = []
        for match in _TOKEN.finditer(text):
            if match.group(1):
                found.append((*match.span(1), "json--key" if match.group(2) else "json--text"))
            else:
                found.append((*match.span(), "json--number" if match.group(3) else "json--word"))
        return found

    def why_not(self, action_id: str) -> str | None:
        return "there is nothing to copy" if action_id == "json.copy" and not len(self.buffer) else None

    def action_copy(self) -> None:
        cast(Any, self.app).copy(self.text)

    def action_wrap(self) -> None:
        self.wrap = not self.wrap
        self.rebuild()


def schema_text(schema: Mapping[str, Any] | None) -> Content:
    """Return the parameters of a tool: name, type, whether it is required, limits, description."""
    if schema is None:
        return Content.styled("The server gives no schema: arguments are sent unchecked.", "$warning")
    rows = describe_schema(schema)
    if not rows:
        return Content.styled("No parameters.", "$foreground-muted")
    width = min(max(len(row.name) + 2 * row.depth for row in rows), 32)
    lines: list[Content] = []
    for row in rows:
        name = "  " * row.depth + row.name
        line = Content.assemble(
            (pad(name, width), "bold $primary"),
            "  ",
            ("required  " if row.required else "optional  ", "bold $accent" if row.required else "$foreground-muted"),
            row.type,
        )
        if row.notes:
            line += Content.styled(f"  ({row.notes})", "$foreground-muted")
        lines.append(line)
        if row.description:
            lines.append(Content(" " * (width + 2) + row.description))
    return Content("\n").join(lines)
