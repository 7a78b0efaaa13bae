"""An editor for YAML.

Textual's TextArea with highlighting, findings in the text and in the gutter, and what a hand
expects. Two things of TextArea's own grow with the length of the text: it measures all lines and
counts all of them for every line it draws. Both are done differently here, and lines that did not
change are not drawn again.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partialmethod
from typing import TYPE_CHECKING, ClassVar, Self

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.cache import LRUCache
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, EditResult, Location, Selection, WrappedDocument

from hudtui.core.text import signs
from hudtui.tui.actions import Acting, AppAction
from hudtui.tui.editor.signed_area import SignedArea
from hudtui.tui.editor.yaml_marks import BLOCK, YamlMarks

if TYPE_CHECKING:
    from hudtui.core.gym.lint.findings import Finding

GLYPHS = {"error": "✗", "warning": "!", "info": "i"}
"""Marks of findings in the gutter, each readable without colour."""

_OPENS = re.compile(r"(?:^|\s|-\s)[^#]*?:\s*(?:[|>][+-]?\d?)?\s*(?:#.*)?$")
_GIVEN_UP = frozenset(("f6", "f7", "ctrl+d"))
"""Keys of TextArea that the screen, or an action of the editor, uses instead. Delete still
deletes."""


class _Wrapped(WrappedDocument):
    """A wrapped document that keeps its height.

    Otherwise it would be counted for every line that is drawn.
    """

    @property
    def height(self) -> int:
        return len(self._offset_to_line_info)


@dataclass(frozen=True, slots=True)
class Note:
    """A finding as the editor shows it.

    On a row, over some characters (from 0, the end exclusive).
    """

    row: int
    start: int
    end: int
    severity: str
    message: str

    @classmethod
    def of(cls, finding: Finding, lines: Sequence[str]) -> Note:
        """The note of a finding.

        Where the finding has no range, the note covers the words of its line.
        """
        row = min(max(finding.line - 1, 0), max(len(lines) - 1, 0))
        line = lines[row] if lines else ""
        start = min(max(finding.column - 1, 0), len(line))
        end = (
            len(line.rstrip())
            if finding.end_column is None
            else min(finding.end_column - 1, len(line))
        )
        if end <= start:
            start, end = len(line) - len(line.lstrip()), max(len(line.rstrip()), 1)
        return cls(row, start, end, finding.severity, finding.message)


class YamlEditor(Acting, SignedArea, inherit_bindings=False):
    """The editor. It posts `TextArea.Changed` and `TextArea.SelectionChanged`."""

    WRAPPED = _Wrapped
    BINDINGS: ClassVar[list[Binding]] = [  # type: ignore[assignment]
        replace(binding, key=keys)
        for binding in TextArea.BINDINGS
        if isinstance(binding, Binding)
        for keys in [",".join(key for key in binding.key.split(",") if key not in _GIVEN_UP)]
        if keys
    ]
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "editor.complete", "Complete", "Complete the text at the cursor.", "ctrl+n,ctrl+@"
        ),
        AppAction(
            "editor.comment",
            "Comment",
            "Make the selected lines comments, or text again.",
            "ctrl+t,ctrl+underscore",
            show=False,
        ),
        AppAction("editor.undo", "Undo", "Undo the last change.", "ctrl+z", show=False),
        AppAction("editor.redo", "Redo", "Redo the change that was undone.", "ctrl+y", show=False),
        AppAction(
            "editor.dedent",
            "Dedent",
            "Move the selected lines to the left.",
            "shift+tab",
            show=False,
        ),
        AppAction("editor.select-all", "Select all", "Select the whole text.", show=False),
        AppAction(
            "editor.first", "Beginning", "Go to the beginning of the text.", "ctrl+home", show=False
        ),
        AppAction("editor.last", "End", "Go to the end of the text.", "ctrl+end", show=False),
        AppAction(
            "editor.delete-lines",
            "Delete lines",
            "Delete the selected lines.",
            "shift+delete,ctrl+shift+k",
            show=False,
        ),
        AppAction(
            "editor.duplicate",
            "Duplicate lines",
            "Duplicate the selected lines.",
            "ctrl+d",
            show=False,
        ),
        AppAction(
            "editor.move-up", "Move up", "Move the selected lines up.", "ctrl+shift+up", show=False
        ),
        AppAction(
            "editor.move-down",
            "Move down",
            "Move the selected lines down.",
            "ctrl+shift+down",
            show=False,
        ),
        AppAction(
            "editor.wrap",
            "Wrap lines",
            "Wrap long lines, or scroll sideways.",
            "ctrl+shift+w",
            show=False,
        ),
        AppAction(
            "editor.leave",
            "Leave text",
            "Go from the text to the pane beside it.",
            "escape",
            palette=False,
        ),
    )
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "yaml--text",
        "yaml--number",
        "yaml--word",
        "yaml--anchor",
        "yaml--punctuation",
        "yaml--key",
        "yaml--comment",
        "yaml--error",
        "yaml--warning",
        "yaml--info",
        "yaml--match",
    }
    DEFAULT_CSS = """
    YamlEditor, YamlEditor:focus { border: none; padding: 0; background: $background; }
    YamlEditor > .yaml--key { color: $primary; }
    YamlEditor > .yaml--text { color: $success; }
    YamlEditor > .yaml--number { color: $accent; }
    YamlEditor > .yaml--word { color: $warning; }
    YamlEditor > .yaml--anchor { color: $secondary; }
    YamlEditor > .yaml--punctuation { color: $foreground-muted; }
    YamlEditor > .yaml--comment { color: $foreground-muted; text-style: italic; }
    YamlEditor > .yaml--error { color: $error; text-style: bold underline; }
    YamlEditor > .yaml--warning { color: $warning; text-style: underline; }
    YamlEditor > .yaml--info { text-style: underline; }
    YamlEditor > .yaml--match { background: $warning 40%; text-style: bold; }
    """

    @dataclass
    class Wants(Message):
        """The user asks for completion, or continues to type where it may be offered."""

        asked: bool

    class Left(Message):
        """The user leaves the text."""

    @dataclass
    class PopupKey(Message):
        """A key for the list of completions."""

        key: str

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        self.notes: dict[int, tuple[Note, ...]] = {}
        self.pattern: re.Pattern[str] | None = None
        """The pattern whose matches are highlighted."""
        self.popup = False
        """Whether a list of completions is open, which gets the keys that move in it."""
        self.walked = False
        """Whether the focus came by Tab or Shift-Tab: these keys then move on, until another key is
        pressed."""
        self.after_change: Callable[[], None] | None = None
        """Called immediately after every change, so that what depends on the text is painted
        together with it."""
        self._marks = YamlMarks()
        self._strips: LRUCache[tuple[object, ...], Strip] = LRUCache(1024)
        self._themed: object = None
        self._drawn: dict[int, tuple[object, ...]] = {}
        """For each visible line, what its look depended on when it was last drawn."""
        self._look: Callable[[int], tuple[object, ...]]
        self._changing = False
        self._width = 0
        self._edited: tuple[int, int] | None = None
        self._styles: dict[str, Style] = {}
        super().__init__(
            soft_wrap=False,
            tab_behavior="indent",
            show_line_numbers=True,
            max_checkpoints=500,
            id=id,
        )
        self.indent_width = 2
        self.cursor_blink = False

    # -- text
    # ----------------------------------------------------------------------------------------------

    @property
    def lines(self) -> Sequence[str]:
        """The lines of the text, not to be changed."""
        found: Sequence[str] = self.document.lines
        return found

    def _set_document(self, text: str, language: str | None) -> None:
        self._edited = None
        super()._set_document(text, None)

    def replace_all(self, text: str) -> None:
        """Replace the whole text, as one change that can be undone.

        The cursor stays where possible.
        """
        at = self.cursor_location
        if text != self.text:
            self.history.checkpoint()
            self.replace(text, (0, 0), self.document.end, maintain_selection_offset=False)
            self.history.checkpoint()
        self.move_cursor(self.clamp_visitable(at))

    def edit(self, edit: Edit) -> EditResult:
        """Apply an edit, and remember the rows that it touched."""
        top = min(edit.from_location, edit.to_location)[0]
        self._edited = (top, top + edit.text.count("\n"))
        with self._change():
            result = super().edit(edit)
            self._edited = None
        self._tell()
        return result

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        before, self._changing = self._changing, True
        try:
            yield
        finally:
            self._changing = before
            self.refresh()

    def load_text(self, text: str) -> None:
        """Load another text; the history of changes begins again."""
        with self._change():
            super().load_text(text)
        self._tell()

    def _undo_batch(self, edits: Sequence[Edit]) -> None:
        with self._change():
            super()._undo_batch(edits)
        self._tell()

    def _redo_batch(self, edits: Sequence[Edit]) -> None:
        with self._change():
            super()._redo_batch(edits)
        self._tell()

    def _tell(self) -> None:
        if self.after_change is not None:
            self.after_change()

    def _refresh_size(self) -> None:
        if self.soft_wrap:
            super()._refresh_size()
            return
        lines = self.lines
        if self._edited is None:
            self._width = max((cell_len(signs(line)) for line in lines), default=0)
        else:
            # The text grows at once and shrinks when it is next measured; the difference is not
            # visible.
            top, bottom = self._edited
            self._width = max(
                self._width,
                *(
                    cell_len(signs(line).expandtabs(self.indent_width))
                    for line in lines[top : bottom + 1]
                ),
            )
        before, size = self.virtual_size, Size(self._width + self.gutter_width + 1, len(lines))
        if size == before:
            return
        # Set past the reactive: a new size of what is scrolled is no reason for a new layout of the
        # whole screen.
        self.set_reactive(YamlEditor.virtual_size, size)
        # A scrollbar is drawn from end to end; the one at the side does not depend on how long the
        # lines are.
        wide = size.width > self.size.width
        if size.height != before.height or wide != self.show_horizontal_scrollbar:
            self._scroll_update(size)
        elif wide:
            self.horizontal_scrollbar.window_virtual_size = size.width

    # -- drawing
    # ----------------------------------------------------------------------------------------------

    def show_notes(self, notes: Iterable[Note]) -> None:
        """Mark findings, in place of the earlier marks."""
        found: dict[int, tuple[Note, ...]] = {}
        for note in notes:
            found[note.row] = (*found.get(note.row, ()), note)
        if found != self.notes:
            self.notes = found
            self.refresh()

    def shift_notes(self, row: int, by: int) -> None:
        """Lines came in or went at a row.

        Move the marks below along until the text is checked again.
        """
        if by:
            self.notes = {
                place + by if place >= row else place: tuple(
                    Note(note.row + by, note.start, note.end, note.severity, note.message)
                    for note in notes
                )
                if place >= row
                else notes
                for place, notes in self.notes.items()
                if not (row <= place < row - by)
            }

    def show_pattern(self, pattern: re.Pattern[str] | None) -> None:
        """Highlight the matches of a pattern."""
        if pattern != self.pattern:
            self.pattern = pattern
            self.refresh()

    def notify_style_update(self) -> None:
        self._strips.clear()
        self._styles.clear()
        self._themed = None
        self._drawn.clear()
        super().notify_style_update()

    def _build_highlight_map(self) -> None:
        """Do nothing: visible lines are highlighted when they are drawn."""
        self._marks.edited(0 if self._edited is None else self._edited[0])

    def _style(self, name: str) -> Style:
        style = self._styles.get(name)
        if style is None:
            # The full style has its colour worked out against the background; only the partial one
            # says what is asked for.
            full = self.get_component_rich_style(f"yaml--{name}")
            own = self.get_component_rich_style(f"yaml--{name}", partial=True)
            colour = full.color if own.color is not None else None
            back = full.bgcolor if own.bgcolor is not None else None
            style = self._styles[name] = Style(
                color=colour,
                bgcolor=back,
                bold=own.bold,
                italic=own.italic,
                underline=own.underline,
            )
        return style

    def get_line(self, line_index: int) -> Text:
        """A line with its colours, findings and matches."""
        line, text = self.document.get_line(line_index), self.signed_line(line_index)
        for start, end, name in self._marks.block(self.lines, line_index // BLOCK)[
            line_index % BLOCK
        ]:
            text.stylize(self._style(name), start, end)
        for note in self.notes.get(line_index, ()):
            text.stylize(self._style(note.severity), note.start, note.end)
        if self.pattern is not None:
            for match in self.pattern.finditer(line):
                text.stylize(self._style("match"), *match.span())
        return text

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw what is in sight. The line of the cursor keeps the colours of its words."""
        if self._theme is not self._themed:
            theme = self._themed = self._theme
            theme.apply_css(self)
            if theme.cursor_line_style is not None:
                theme.cursor_line_style = Style(bgcolor=theme.cursor_line_style.bgcolor)
        self._look = self._looker()
        return ScrollView.render_lines(self, crop)

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        """Draw the editor again.

        By default only the lines that look different from what was drawn last.
        """
        if (
            regions
            or not repaint
            or layout
            or recompose
            or not self._drawn
            or not self.is_mounted
            or self.soft_wrap
        ):
            return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        if self._changing:
            return self  # the end of the change asks again, when everything is in place
        look = self._looker()
        changed = [y for y in range(self.size.height) if self._drawn.get(y, self) != look(y)]
        if not changed:
            return self
        return super().refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def _looker(self) -> Callable[[int], tuple[object, ...]]:
        """Return a function that gives everything the look of a visible line depends on.

        Valid until something changes.
        """
        scroll_x, scroll_y = self.scroll_offset
        selection, bracket = self.selection, self._matching_bracket_location
        first, last = sorted((selection.start[0], selection.end[0]))
        near = () if bracket is None else (bracket[0], selection.end[0])
        lines, notes, marks = self.lines, self.notes, self._marks
        everywhere = (self.pattern, self.size, scroll_x, self.gutter_width, self.has_focus)

        def look(y: int) -> tuple[object, ...]:
            row = y + scroll_y
            if row >= len(lines):
                return everywhere
            return (
                row,
                lines[row],
                marks.block(lines, row // BLOCK)[row % BLOCK],
                notes.get(row),
                selection if first <= row <= last else None,
                bracket if row in near else None,
                everywhere,
            )

        return look

    def render_line(self, y: int) -> Strip:
        """Draw a line, or reuse its last drawing."""
        if self.soft_wrap:
            return self._wrapped_line(y)
        key = self._drawn[y] = self._look(y)
        row = y + self.scroll_offset.y
        if row >= self.document.line_count:
            return super()._render_line(y)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._with_glyph(super()._render_line(y), row)
        return strip

    def _wrapped_line(self, y: int) -> Strip:
        """Draw one screen line of a wrapped text.

        The mark of a finding stands on the first screen line of its line.
        """
        places, at = self.wrapped_document._offset_to_line_info, y + self.scroll_offset.y
        strip = super()._render_line(y)
        if at >= len(places) or places[at][1]:
            return strip
        return self._with_glyph(strip, places[at][0])

    def _with_glyph(self, strip: Strip, row: int) -> Strip:
        notes = self.notes.get(row)
        if not notes:
            return strip
        severity = next(word for word in GLYPHS if any(note.severity == word for note in notes))
        at = self.gutter_width - 2
        style = self._style(severity) + Style(underline=False, bold=True)
        if severity == "info":
            style += Style(dim=False)
        glyph = Strip([Segment(GLYPHS[severity], self.rich_style + style)], 1)
        return Strip.join([strip.crop(0, at), glyph, strip.crop(at + 1)])

    # -- keys
    # ----------------------------------------------------------------------------------------------

    async def on_key(self, event: events.Key) -> None:
        """Enter keeps the indentation, tab and backspace move by it.

        An open list of completions comes first.
        """
        key = event.key
        walks = self.walked and key in ("tab", "shift+tab")
        self.walked = False
        if walks:
            self.screen.focus_next() if key == "tab" else self.screen.focus_previous()
        elif self.popup and key in ("up", "down", "enter", "tab", "escape", "pageup", "pagedown"):
            self.post_message(self.PopupKey(key))
        elif key == "enter":
            self._new_line()
        elif key == "tab" and self.selection.start[0] != self.selection.end[0]:
            self._shift_lines(1)
        elif key == "escape":
            self.action_leave()
        elif key == "backspace" and self._outdents():
            row, column = self.cursor_location
            self._replace_via_keyboard(
                "", (row, (column - 1) // self.indent_width * self.indent_width), (row, column)
            )
        else:
            if event.is_printable or key == "backspace":
                self.call_next(self.post_message, self.Wants(False))
            return
        event.stop()
        event.prevent_default()

    def on_blur(self) -> None:
        self.walked = False

    def on_mouse_down(self) -> None:
        """A click puts the focus into the text."""
        self.walked = False

    def _new_line(self) -> None:
        (row, column), _ = sorted(self.selection)
        line = self.document.get_line(row)[:column]
        indent = len(line) - len(line.lstrip(" "))
        bare = line.strip()
        if bare and not bare.startswith("#") and _OPENS.search(line):
            indent += self.indent_width
        self._replace_via_keyboard("\n" + " " * min(indent, max(column, indent)), *self.selection)

    def _outdents(self) -> bool:
        row, column = self.cursor_location
        return (
            self.selection.is_empty
            and column > 1
            and not self.document.get_line(row)[:column].strip(" ")
        )

    def _rows(self) -> range:
        (first, _), (last, column) = sorted(self.selection)
        return range(first, last + (0 if last > first and column == 0 else 1))

    def _change_lines(self, changed: dict[int, str]) -> None:
        """Replace whole lines as one change; the selection keeps its place in the text."""
        if not changed:
            return
        start, end = self.selection
        first, last = min(changed), max(changed)
        lines = [changed.get(row, self.document.get_line(row)) for row in range(first, last + 1)]
        before = {row: self.document.get_line(row) for row in range(first, last + 1)}
        self.history.checkpoint()
        self.replace(
            "\n".join(lines), (first, 0), (last, len(before[last])), maintain_selection_offset=False
        )
        self.history.checkpoint()

        def moved(place: Location) -> Location:
            row, column = place
            if row not in before:
                return place
            return row, max(
                column + len(changed.get(row, before[row])) - len(before[row]), 0
            ) if column else 0

        self.selection = Selection(moved(start), moved(end))

    def _shift_lines(self, direction: int) -> None:
        width = self.indent_width
        changed: dict[int, str] = {}
        for row in self._rows():
            line = self.document.get_line(row)
            if direction > 0 and line.strip():
                changed[row] = " " * width + line
            elif direction < 0:
                changed[row] = line[min(width, len(line) - len(line.lstrip(" "))) :]
        self._change_lines(
            {row: line for row, line in changed.items() if line != self.document.get_line(row)}
        )

    action_dedent = partialmethod(_shift_lines, -1)

    def action_first(self) -> None:
        self.move_cursor((0, 0))

    def action_last(self) -> None:
        self.move_cursor(self.document.end)

    def action_delete_lines(self) -> None:
        rows = self._rows()
        last = self.document.line_count - 1
        start, end = (rows[0], 0), (rows[-1] + 1, 0)
        if rows[-1] == last:
            end = self.document.end
            if rows[0]:
                start = (rows[0] - 1, len(self.document.get_line(rows[0] - 1)))
        self._as_one(lambda: self.replace("", start, end, maintain_selection_offset=False))
        self.move_cursor((min(rows[0], self.document.line_count - 1), 0))

    def action_duplicate(self) -> None:
        """Duplicate the selected lines below; the selection moves along."""
        rows, (start, end) = self._rows(), self.selection
        text = "\n".join(self.document.get_line(row) for row in rows)
        below = (rows[-1], len(self.document.get_line(rows[-1])))
        self._as_one(
            lambda: self.replace(f"\n{text}", below, below, maintain_selection_offset=False)
        )
        self.selection = Selection((start[0] + len(rows), start[1]), (end[0] + len(rows), end[1]))

    def _move_lines(self, step: int) -> None:
        rows, (start, end) = self._rows(), self.selection
        other = rows[0] - 1 if step < 0 else rows[-1] + 1
        if not 0 <= other < self.document.line_count:
            return
        moved = [self.document.get_line(row) for row in rows]
        beside = self.document.get_line(other)
        lines = [*moved, beside] if step < 0 else [beside, *moved]
        first, last = min(rows[0], other), max(rows[-1], other)
        place = (last, len(self.document.get_line(last)))
        self._as_one(
            lambda: self.replace(
                "\n".join(lines), (first, 0), place, maintain_selection_offset=False
            )
        )
        most = self.document.line_count - 1
        self.selection = Selection((start[0] + step, start[1]), (min(end[0] + step, most), end[1]))

    action_move_up = partialmethod(_move_lines, -1)
    action_move_down = partialmethod(_move_lines, 1)

    def _as_one(self, change: Callable[[], object]) -> None:
        """Apply several edits as one change for undo."""
        self.history.checkpoint()
        change()
        self.history.checkpoint()

    def action_wrap(self) -> None:
        self._drawn.clear()
        self._strips.clear()
        self.soft_wrap = not self.soft_wrap

    def on_click(self, event: events.Click) -> None:
        """A double click selects a word, a triple click the line."""
        if event.chain < 2:
            return
        row, column = self.cursor_location
        line = self.document.get_line(row)
        if event.chain > 2:
            self.selection = Selection((row, 0), (row, len(line)))
            return
        word = next(
            (
                match
                for match in re.finditer(r"\w+", line)
                if match.start() <= column <= match.end()
            ),
            None,
        )
        if word is not None:
            self.selection = Selection((row, word.start()), (row, word.end()))

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        """Scroll the cursor into view; the beginning of its line stays in view where both fit."""
        scrolled = super().scroll_cursor_visible(center, animate)
        if (
            self.scroll_offset.x
            and self._cursor_offset[0] + 3 + self.gutter_width
            <= self.scrollable_content_region.width
        ):
            self.scroll_to(x=0, animate=False)
        return scrolled

    def action_comment(self) -> None:
        """Comment lines out, or uncomment them when all of them are comments."""
        lines = {row: self.document.get_line(row) for row in self._rows()}
        full = {row: line for row, line in lines.items() if line.strip()}
        if not full:
            return
        if all(line.lstrip().startswith("#") for line in full.values()):
            self._change_lines(
                {row: re.sub(r"^(\s*)# ?", r"\1", line) for row, line in full.items()}
            )
        else:
            depth = min(len(line) - len(line.lstrip(" ")) for line in full.values())
            self._change_lines(
                {row: f"{line[:depth]}# {line[depth:]}" for row, line in full.items()}
            )

    def action_complete(self) -> None:
        self.post_message(self.Wants(True))

    def action_leave(self) -> None:
        self.post_message(self.Left())

    # -- places
    # ----------------------------------------------------------------------------------------------

    def go(self, row: int, column: int = 0) -> None:
        """Put the cursor at a place (from 0).

        A place that was not visible is scrolled to the middle.
        """
        row = min(max(row, 0), self.document.line_count - 1)
        place = (row, min(column, len(self.document.get_line(row))))
        top, height = self.scroll_offset.y, max(self.size.height, 1)
        shown = self.wrapped_document.location_to_offset(place).y if self.soft_wrap else row
        self.move_cursor(place, center=not top <= shown < top + height)

    def matches(self, pattern: re.Pattern[str]) -> list[tuple[Location, Location]]:
        """Return the start and end of every match; a match stays within one line."""
        return [
            ((row, match.start()), (row, match.end()))
            for row, line in enumerate(self.lines)
            for match in pattern.finditer(line)
            if match.end() > match.start()
        ]
