"""JSON to look at, and the parameters of a tool in plain words."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, ClassVar

from textual.content import Content

from hudtui.core.environment.schema_words import describe_schema
from hudtui.core.json_text import pretty
from hudtui.core.text import clean
from hudtui.tui.actions import AppAction, by_key, unless
from hudtui.tui.log.lines import LogLines
from hudtui.tui.log.model import LogBuffer
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.lists import MOVES
from hudtui.tui.widgets.scrolling import Scrolling
from hudtui.tui.widgets.search import SEARCH, Searching

_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|\b(true|false|null)\b')
_KINDS = ("", "text", "key", "number", "word")
"""By the last group of `_TOKEN` that matches."""


def json_marks(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind of what stands out in JSON: `key`, `text`, `number` or `word`."""
    for match in _TOKEN.finditer(text):
        yield (*match.span(1 if match[1] else 0), _KINDS[match.lastindex or 0])


class JsonView(Searching, Scrolling, LogLines):
    """A value as indented JSON, or a text as it is.

    Draws what is in sight only, so size does not matter.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "json--key",
        "json--text",
        "json--number",
        "json--word",
    }
    DEFAULT_CSS = """
    JsonView { overflow-y: auto; }
    JsonView > .json--key { color: $primary; text-style: bold; }
    JsonView > .json--text { color: $success; }
    JsonView > .json--number { color: $accent; }
    JsonView > .json--word { color: $warning; text-style: italic; }
    """
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "json.copy",
            "Copy",
            "Copy the whole text.",
            "y",
            palette=False,
            when=(unless(lambda view: len(view.buffer), "there is nothing to copy"),),
        ),
        by_key("json.wrap", "Wrap", "Wrap long lines, or scroll sideways.", "backslash"),
        *SEARCH,
        *MOVES,
    )

    def __init__(self, *, empty: str = "Nothing to show.", id: str | None = None) -> None:  # noqa: A002
        super().__init__(LogBuffer(cap=2_000_000, shown=100_000), empty=empty, id=id)
        self.follow = False
        self._source: list[str] = []
        """The lines. The number of a line in the buffer is its number here and `buffer.first`."""
        self._is_json = False

    def show(self, value: Any) -> None:
        """Show a value that JSON can hold. What it cannot hold is shown as Python writes it."""
        self._take(pretty(value), is_json=True)

    def show_text(self, text: str) -> None:
        self._take(clean(text), is_json=False)

    def clear(self) -> None:
        if len(self.buffer):
            self._take("", is_json=False)

    @property
    def text(self) -> str:
        """All of it, cleaned."""
        return self.buffer.everything()

    def _take(self, text: str, *, is_json: bool) -> None:
        self.buffer.clear()
        # Nine of ten lines of a large value stand in it more than once. Each is held once, and made
        # one at a time.
        self._source = [sys.intern(line.removesuffix("\n")) for line in StringIO(text)]
        self.buffer.append(self._source, 0.0)
        self._is_json, self.here = is_json, None
        self.forget_matches()
        self.follow = False
        self.rebuild()
        self.follow = False
        self._place(0)
        self.refresh_bindings()

    def highlight(self, text: str) -> list[tuple[int, int, str]]:
        """Keys, texts, numbers and words."""
        return (
            [(start, end, f"json--{kind}") for start, end, kind in json_marks(text)]
            if self._is_json
            else []
        )

    # -- search
    # ----------------------------------------------------------------------------------------------

    def texts(self) -> Sequence[str]:
        return self._source

    @property
    def line_here(self) -> int:
        return self.top_number() - self.buffer.first

    def go_to_line(self, line: int) -> None:
        self.to_line(self.buffer.first + line)

    def mark_matches(self) -> None:
        self.repaint()

    # -- keys
    # ----------------------------------------------------------------------------------------------

    def action_copy(self) -> None:
        self.app.copy(self.text)

    def action_wrap(self) -> None:
        self.wrap = not self.wrap
        self.rebuild()


def schema_text(schema: Mapping[str, Any] | None) -> Content:
    """Return the parameters of a tool: name, type, whether it is required, limits, description."""
    if schema is None:
        return Content.styled(
            "The server gives no schema: arguments are sent unchecked.", "$warning"
        )
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
            (
                "required  " if row.required else "optional  ",
                "bold $accent" if row.required else "$foreground-muted",
            ),
            row.type,
        )
        if row.notes:
            line += Content.styled(f"  ({row.notes})", "$foreground-muted")
        lines.append(line)
        if row.description:
            lines.append(Content(" " * (width + 2) + row.description))
    return Content("\n").join(lines)
