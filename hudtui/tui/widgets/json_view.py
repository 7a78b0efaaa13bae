"""JSON to look at, and the parameters of a tool in plain words."""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from io import StringIO
from typing import Any, ClassVar

from rich.segment import Segment
from textual.content import Content
from textual.events import Click, Resize
from textual.geometry import Region
from textual.strip import Strip

from hudtui.core.environment.schema_words import describe_schema
from hudtui.core.json_text import Node, find_nodes, pretty
from hudtui.core.text import clean, plural
from hudtui.tui.actions import AppAction, by_key
from hudtui.tui.log.lines import LogLines
from hudtui.tui.log.model import LogBuffer
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.lists import MOVES
from hudtui.tui.widgets.scrolling import Scrolling
from hudtui.tui.widgets.search import SEARCH, Searching

_TOKEN = re.compile(
    r'("(?:[^"\\]|\\.)*")(\s*:)?|([\[{]… [\d,]+ \w+[\]}])|(-?\d[\d.eE+-]*)|\b(true|false|null)\b',
)
_KINDS = ("", "text", "key", "folded", "number", "word")
"""By the last group of `_TOKEN` that matches."""


def json_marks(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and kind of what stands out in JSON: `key`, `text`, `number`, `word`, or the size of what is `folded`."""
    for match in _TOKEN.finditer(text):
        yield (*match.span(1 if match[1] else 0), _KINDS[match.lastindex or 0])


class JsonView(Searching, Scrolling, LogLines):
    """A value as indented JSON, or a text as it is. Draws what is in sight only, so size does not matter.

    The lines of a value have a cursor; the object or list at it can be folded to one line.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "json--key",
        "json--text",
        "json--number",
        "json--word",
        "json--folded",
        "json--cursor",
    }
    DEFAULT_CSS = """
    JsonView { overflow-y: auto; }
    JsonView > .json--key { color: $primary; text-style: bold; }
    JsonView > .json--text { color: $success; }
    JsonView > .json--number { color: $accent; }
    JsonView > .json--word { color: $warning; text-style: italic; }
    JsonView > .json--folded { text-style: dim; }
    JsonView > .json--cursor {
        background: $block-cursor-background; color: $block-cursor-foreground;
        text-style: $block-cursor-text-style;
    }
    """
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "json.fold", "Fold", "Fold the object or list at the cursor to one line, or unfold it.", "enter,space", palette=False
        ),
        AppAction(
            "json.fold-all", "Fold all", "Fold all objects and lists inside the value, or unfold them.", "minus", palette=False
        ),
        by_key("json.open", "Unfold", "Unfold the object or list, or scroll to the right.", "right"),
        by_key("json.close", "Fold or up", "Scroll to the left, fold the object or list, or go to the one around it.", "left"),
        AppAction("json.copy", "Copy", "Copy the whole text.", "y", palette=False),
        by_key("json.wrap", "Wrap", "Wrap long lines, or scroll sideways.", "backslash"),
        *SEARCH,
        *MOVES,
    )

    def __init__(self, *, empty: str = "Nothing to show.", id: str | None = None) -> None:  # noqa: A002
        super().__init__(LogBuffer(cap=2_000_000, shown=100_000), empty=empty, id=id)
        self.follow = False
        self._source: list[str] = []
        """The lines. The number of a line in the buffer is its number here and `buffer.first`."""
        self._cursor: int | None = None
        """The line under the cursor, from 0; None where a text is shown, which has none."""
        self._foldable: dict[int, Node] | None = None
        """The objects and lists by their first lines; None while they are not looked for."""
        self._folded: set[int] = set()

    def show(self, value: Any) -> None:
        """Show a value that JSON can hold. What it cannot hold is shown as Python writes it."""
        self._take(pretty(value), cursor=0)

    def show_text(self, text: str) -> None:
        self._take(clean(text), cursor=None)

    def clear(self) -> None:
        if len(self.buffer):
            self._take("", cursor=None)

    @property
    def text(self) -> str:
        """All of it, cleaned, whether it is folded or not."""
        return self.buffer.everything()

    def _take(self, text: str, *, cursor: int | None) -> None:
        self.buffer.clear()
        # Nine of ten lines of a large value stand in it more than once. Each is held once, and made one at a time.
        self._source = [sys.intern(line.removesuffix("\n")) for line in StringIO(text)]
        self.buffer.append(self._source, 0.0)
        self._cursor, self._foldable, self.here = cursor, None, None
        self._folded.clear()
        self.forget_matches()
        self.follow = False
        self.rebuild()
        self.follow = False
        self._place(0)
        self.refresh_bindings()

    def highlight(self, text: str) -> list[tuple[int, int, str]]:
        """Keys, texts, numbers, words, and the sizes of what is folded."""
        return [(start, end, f"json--{kind}") for start, end, kind in json_marks(text)] if self._cursor is not None else []

    # -- folding -----------------------------------------------------------------------------------------------------

    @property
    def foldable(self) -> Mapping[int, Node]:
        """The objects and lists that take several lines, by the numbers of their first lines."""
        if self._foldable is None:
            self._foldable = {} if self._cursor is None else find_nodes(self._source)
        return self._foldable

    def picked(self, start: int) -> Sequence[int] | None:
        """All lines but those inside of what is folded."""
        if not self._folded:
            return None
        first, nodes = self.buffer.first, self.foldable
        found: list[int] = []
        line = start - first
        for node in sorted(self._folded):
            if node >= line:
                found.extend(range(first + line, first + node + 1))
                line = nodes[node].end + 1
        found.extend(range(first + line, self.buffer.end))
        return found

    def line_text(self, number: int) -> str:
        """A line as it is shown; of what is folded its size."""
        text, line = super().line_text(number), number - self.buffer.first
        if line not in self._folded:
            return text
        node, opening = self.foldable[line], text[-1]
        size = plural(node.size, "field" if opening == "{" else "item")
        return f"{text}… {size}{self._source[node.end].lstrip(' ')}"

    def longest(self, numbers: Sequence[int]) -> int:
        """Characters of the longest of these lines, and of the sizes of what is folded."""
        first, folded = self.buffer.first, self._folded
        sizes = (len(self.line_text(number)) for number in numbers if number - first in folded) if folded else ()
        return max(super().longest(numbers), max(sizes, default=0))

    def _around(self, line: int) -> int | None:
        """The innermost object or list around a line; an object that begins in the line is not around it."""
        return max((start for start, node in self.foldable.items() if start < line <= node.end), default=None)

    def _fold(self, folded: set[int], cursor: int) -> None:
        """Fold these objects and lists and no others. The line of the cursor stays at its height."""
        first = self.buffer.first
        height = self._row_of(first + (self._cursor or 0)) - self.scroll_offset.y
        if not 0 <= height < self.size.height:
            height = self.size.height // 3
        hidden = [node for node in folded if node < cursor <= self.foldable[node].end]
        self._folded, self._cursor = folded, min(hidden, default=cursor)
        self.rebuild()
        self.follow = False
        self._place(max(self._row_of(first + self._cursor) - height, 0))
        self.refresh()

    def action_fold(self) -> None:
        """Fold or unfold the object or list that begins at the cursor, else the one around it."""
        line = self._cursor or 0
        node = line if line in self.foldable else self._around(line)
        if node is not None:
            self._fold(self._folded ^ {node}, node)

    def action_fold_all(self) -> None:
        """Fold everything inside the value; unfold everything when all is folded."""
        inside = set(self.foldable) - {0} or set(self.foldable)
        self._fold(set() if inside <= self._folded else inside, self._cursor or 0)

    def action_open(self) -> None:
        if self._cursor in self._folded:
            self._fold(self._folded - {self._cursor}, self._cursor)
        else:
            self.scroll_right(animate=False)

    def action_close(self) -> None:
        line = self._cursor
        if self.scroll_offset.x or line is None:
            self.scroll_left(animate=False)
        elif line in self.foldable and line not in self._folded:
            self._fold(self._folded | {line}, line)
        elif (around := self._around(line)) is not None:
            self._go_to(self.buffer.first + around)

    # -- the cursor --------------------------------------------------------------------------------------------------

    def _go_to(self, number: int) -> None:
        """Put the cursor on a line that is shown, and bring it into sight."""
        first = self.buffer.first
        before, self._cursor = first + (self._cursor or 0), number - first
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        row = self._row_of(number)
        below = row if self._tops is None else row + len(self._pieces(self.line_text(number))) - 1
        if row < top:
            self._place(row)
        elif below >= top + height:
            self._place(min(below - height + 1, row))
        if self.scroll_offset.y != top or self._tops is not None:
            self.refresh()
            return
        for place in (self._row_of(before) - top, row - top):
            if 0 <= place < height:
                self.refresh(Region(0, place, self.size.width, 1))

    def _move(self, by: int) -> bool:
        """Move the cursor by some lines, from a line in sight. Returns False where there is none."""
        if self._cursor is None:
            return False
        top = self.scroll_offset.y
        row = min(max(self._row_of(self.buffer.first + self._cursor), top), top + max(self.size.height - 1, 0))
        numbers = self.numbers()
        here = self._number_at(row)
        place = len(numbers) - 1 if here is None else bisect_left(numbers, here)
        self._go_to(numbers[min(max(place + by, 0), len(numbers) - 1)])
        return True

    def _line(self, y: int) -> Strip:
        strip = super()._line(y)
        if self._cursor is None or not self.has_focus or self._selection is not None:
            return strip
        if self._number_at(self.scroll_offset.y + y) != self.buffer.first + self._cursor:
            return strip
        return Strip(Segment.apply_style(strip, post_style=self._style("json--cursor")), strip.cell_length)

    def watch_has_focus(self, focused: bool) -> None:
        """The cursor is shown while its keys work."""
        super().watch_has_focus(focused)
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        """The cursor stays in sight, also above the line that tells of a search."""
        self.call_after_refresh(self._show_cursor)

    def _show_cursor(self) -> None:
        if self._cursor is not None:
            self._go_to(self.buffer.first + self._cursor)

    def on_click(self, event: Click) -> None:
        """A click puts the cursor on a line; two fold."""
        number = self._number_at(self.scroll_offset.y + event.y)
        if self._cursor is not None and number is not None:
            self._go_to(number)
            if event.chain == 2:
                self.action_fold()

    def action_scroll_down(self) -> None:
        if not self._move(1):
            super().action_scroll_down()

    def action_scroll_up(self) -> None:
        if not self._move(-1):
            super().action_scroll_up()

    def action_scroll_home(self) -> None:
        if not self._move(-len(self._source)):
            super().action_scroll_home()

    def action_scroll_end(self) -> None:
        if not self._move(len(self._source)):
            super().action_scroll_end()

    def action_page_down(self) -> None:
        if not self._move(max(self.size.height - 2, 1)):
            super().action_page_down()

    def action_page_up(self) -> None:
        if not self._move(-max(self.size.height - 2, 1)):
            super().action_page_up()

    action_down, action_up = action_scroll_down, action_scroll_up
    action_first, action_last = action_scroll_home, action_scroll_end

    # -- search ------------------------------------------------------------------------------------------------------

    def texts(self) -> Sequence[str]:
        return self._source

    @property
    def line_here(self) -> int:
        return self.top_number() - self.buffer.first if self._cursor is None else self._cursor

    def go_to_line(self, line: int) -> None:
        """Show a line, unfolding what it is in."""
        if self._cursor is None:
            self.to_line(self.buffer.first + line)
            return
        hiding = {node for node in self._folded if node < line <= self.foldable[node].end}
        if hiding:
            self._fold(self._folded - hiding, line)
        row, top = self._row_of(self.buffer.first + line), self.scroll_offset.y
        if not top <= row < top + self.size.height:
            self._place(max(row - self.size.height // 3, 0))
        self._go_to(self.buffer.first + line)

    def mark_matches(self) -> None:
        self.repaint()

    # -- keys --------------------------------------------------------------------------------------------------------

    def why_not(self, action_id: str) -> str | None:
        """What needs lines, or several of them."""
        if action_id == "json.copy" and not len(self.buffer):
            return "there is nothing to copy"
        if action_id in ("json.fold", "json.fold-all") and len(self._source) < 2:
            return "there is no object or list here"
        return super().why_not(action_id)

    def offers(self, action_id: str) -> bool:
        """Values are folded, texts are not."""
        foldable = self._cursor is not None or action_id not in ("json.fold", "json.fold-all")
        return foldable and super().offers(action_id)

    def action_copy(self) -> None:
        self.app.copy(self.text)

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
