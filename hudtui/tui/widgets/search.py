"""Search in the lines of a widget.

A field below it asks for the pattern, and a line says which match is shown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.content import Content
from textual.widget import Widget

from hudtui.core.pattern import Pattern
from hudtui.core.text import clean_line
from hudtui.tui.actions import Acting, AppAction, by_key, unless
from hudtui.tui.widgets.fields import Field

_SEARCHED = unless(lambda node: node.pattern is not None, "search first, with {key:search.find}")
SEARCH: tuple[AppAction, ...] = (
    AppAction("search.find", "Search", "Mark and find text here.", "slash", palette=False),
    by_key(
        "search.next-match",
        "Next match",
        "Go to the next match.",
        "n",
        when=(_SEARCHED,),
    ),
    by_key(
        "search.previous-match",
        "Previous match",
        "Go to the previous match.",
        "N",
        when=(_SEARCHED,),
    ),
)
_OF_MATCHES = ("search.next-match", "search.previous-match")


class StatusLine(Widget):
    """One line of parts."""

    ALLOW_SELECT = False
    DEFAULT_CSS = (
        "StatusLine { height: 1; background: $surface; color: $foreground-muted; padding: 0 1; }"
    )

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[tuple[str, str]] = []

    def show(self, parts: list[tuple[str, str]]) -> None:
        """Parts with their styles, the most important one first; what does not fit is left out."""
        if parts != self._parts:
            self._parts = parts
            self.refresh()

    def render(self) -> Content:
        """As many parts as fit."""
        line = Content("")
        for text, style in self._parts:
            piece = Content.styled(text, style) if style else Content(text)
            gap = 2 if line else 0
            if line.cell_length + gap + piece.cell_length <= self.size.width:
                line += Content(" " * gap) + piece
        return line


class SearchField(Acting, Field):
    """Asks for a pattern; hidden while it does not.

    Args:
        search: Called with what is typed.
        leave: Gives the focus back.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "logsearch.submit", "Find", "Find what is typed, and mark it.", "enter", palette=False
        ),
        AppAction(
            "logsearch.leave",
            "Leave",
            "Leave the search; the matches stay marked until the next search.",
            "escape",
            palette=False,
        ),
        AppAction(
            "logsearch.regex",
            "Regex",
            "Read the pattern as a regular expression, or not.",
            "ctrl+t",
            palette=False,
        ),
    )

    def __init__(self, search: Callable[[str], object], leave: Callable[[], object]) -> None:
        super().__init__(placeholder="search")
        self._search, self._leave, self._regex = search, leave, False
        self.display = False

    def open(self) -> None:
        """Ask."""
        self.display = True
        self.focus()

    def pattern_of(self, text: str) -> Pattern | None:
        """What is to be searched for; None for an empty text, which ends the search."""
        return Pattern(text, regex=self._regex) if text else None

    def on_input_changed(self, event: Field.Changed) -> None:
        event.stop()

    def on_input_submitted(self, event: Field.Submitted) -> None:
        event.stop()
        self.action_leave()
        self._search(event.value)

    def action_leave(self) -> None:
        self.display = False
        self._leave()

    def action_regex(self) -> None:
        self._regex = not self._regex
        self.placeholder = "search (regular expression)" if self._regex else "search"


def search_words(pattern: Pattern, place: int, total: int, *, more: bool = False) -> str:
    """What is searched for, and which of the matches is shown.

    Args:
        pattern: What is searched for.
        place: The match that is shown, from 1; 0 for none.
        total: How many there are.
        more: The search has not come to its end.
    """
    kind = "regex" if pattern.regex else "search"
    shown = clean_line(pattern.text, 24)
    if pattern.error:
        return f"{kind} “{shown}”: {pattern.error}"
    if not total:
        return f"{kind} “{shown}”: {'not found yet' if more else 'not found'}"
    return (
        f"{kind} “{shown}”: {spaced(place) if place else '–'} of "
        f"{spaced(total)}{'+' if more else ''}"
    )


def spaced(number: int) -> str:
    """A number with spaces between its thousands."""
    return f"{number:,}".replace(",", " ")


if TYPE_CHECKING:
    _Base = Widget
else:
    _Base = object


class Searching(Acting, _Base):
    """Mixin, first in the list of bases, for widgets of lines.

    They list `SEARCH` in their `ACTIONS`: a mixin binds no keys.
    """

    pattern: Pattern | None = None
    """What is searched for."""
    _below: tuple[StatusLine, SearchField] | None = None
    _matches: list[int] | None = None
    """The lines that match; None while they are not looked for."""

    def texts(self) -> Sequence[str]:
        """The lines."""
        raise NotImplementedError

    @property
    def line_here(self) -> int:
        """The number of the line from which matches are looked for, from 0."""
        raise NotImplementedError

    def go_to_line(self, line: int) -> None:
        """Show a line."""
        raise NotImplementedError

    def mark_matches(self) -> None:
        """Mark what matches `pattern`, and nothing else."""

    def forget_matches(self) -> None:
        """There are other lines: the next key looks for the pattern in them."""
        self._matches = None
        if self._below is not None:
            self._below[0].display = False

    def search(self, text: str) -> None:
        """Mark every match, and go to the first one from here on; an empty text ends the search."""
        self.pattern = self._field.pattern_of(text)
        self.forget_matches()
        self.mark_matches()
        self.refresh_bindings()
        self._go(bisect_left)

    @property
    def _field(self) -> SearchField:
        if self._below is None:
            self._below = StatusLine(), SearchField(self.search, self.focus)
            self._below[0].display = False
            cast(Widget, self.parent).mount(*self._below, after=self)
        return self._below[1]

    def on_hide(self, event: events.Hide) -> None:
        """The status line is hidden with the lines."""
        self._show_status()

    def on_show(self, event: events.Show) -> None:
        self._show_status()

    def _show_status(self) -> None:
        if self._below is not None:
            self._below[0].display = self.display and self._matches is not None

    def _go(self, place_of: Callable[[list[int], int], int], by: int = 0) -> None:
        if self.pattern is None:
            return
        found = self._matches
        if found is None:
            found = self._matches = [
                line for line, text in enumerate(self.texts()) if self.pattern.matches(text)
            ]
        place = (place_of(found, self.line_here) + by) % len(found) if found else -1
        if found:
            self.go_to_line(found[place])
        if self._below is not None:
            self._below[0].show([(search_words(self.pattern, place + 1, len(found)), "$accent")])
        self._show_status()

    def offers(self, action_id: str) -> bool:
        """Until something is searched for, the keys of matches are those of the screen."""
        return super().offers(action_id) and (
            action_id not in _OF_MATCHES or self.pattern is not None
        )

    def action_find(self) -> None:
        self._field.open()

    def action_next_match(self) -> None:
        """The next match, beginning again at the first one."""
        self._go(bisect_right)

    def action_previous_match(self) -> None:
        """The match before, beginning again at the last one."""
        self._go(bisect_left, -1)
