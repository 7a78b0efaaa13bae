"""The list of completions that floats beside the cursor.

It never takes the focus; the editor hands it the keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.content import Content
from textual.geometry import Offset, Size
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from hudtui.core.text import clean_line
from hudtui.tui.widgets.fit import cut, pad

if TYPE_CHECKING:
    from hudtui.core.gym.editing.completion import Candidate, Completion


class Popup(OptionList, can_focus=False):
    """What can be inserted, the likeliest first."""

    DEFAULT_CSS = """
    Popup {
        display: none; overlay: screen; constrain: none;
        width: 48; height: auto; max-height: 8; border: none; padding: 0;
        background: $surface-lighten-1; scrollbar-size-vertical: 1;
    }
    """

    def __init__(self) -> None:
        super().__init__(markup=False, compact=True, id="popup")
        self.completion: Completion | None = None

    def offer(self, completion: Completion, at: Offset, within: Size) -> None:
        """Show candidates at a place of the screen, below the line of the cursor or above it."""
        self.completion = completion
        shown = completion.candidates[:200]
        width = min(48, max(within.width - 2, 16))
        names = min(max(len(one.label) for one in shown), width // 2)
        self.clear_options()
        self.add_options(
            Option(
                Content.assemble(
                    pad(clean_line(one.label), names),
                    "  ",
                    (cut(clean_line(one.detail), max(width - names - 4, 0)), "$foreground-muted"),
                )
            )
            for one in shown
        )
        self.highlighted = 0
        height = min(len(shown), 8)
        below = at.y + 1 + height <= within.height - 1
        self.styles.width = width
        self.absolute_offset = Offset(
            max(min(at.x, within.width - width - 1), 0),
            at.y + 1 if below else max(at.y - height, 0),
        )
        self.display = True

    def hide(self) -> None:
        if self.display:
            self.display = False
        self.completion = None

    def move(self, key: str) -> None:
        moves: dict[str, Callable[[], None]] = {
            "up": self.action_cursor_up,
            "down": self.action_cursor_down,
            "pageup": self.action_page_up,
            "pagedown": self.action_page_down,
        }
        # An OptionList pages by its drawn lines, and has none until it is laid out: keys typed in a
        # burst come before that.
        if self.size or not key.startswith("page"):
            moves[key]()

    @property
    def chosen(self) -> Candidate | None:
        """What the cursor is on."""
        if self.completion is None or self.highlighted is None:
            return None
        return self.completion.candidates[self.highlighted]
