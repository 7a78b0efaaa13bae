"""A list to choose from.

Textual's, with the movements of vi, and text that is never read as markup.
"""

from __future__ import annotations

from typing import ClassVar

from textual.content import Content
from textual.visual import Visual
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from hudtui.core.text import clean_line
from hudtui.tui.actions import Acting, AppAction, by_key

MOVES: tuple[AppAction, ...] = (
    by_key("list.down", "Down", "One row down.", "j"),
    by_key("list.up", "Up", "One row up.", "k"),
    by_key("list.first", "First", "The first row.", "g"),
    by_key("list.last", "Last", "The last row.", "G"),
    by_key("list.page-down", "Page down", "One page down.", "ctrl+d"),
    by_key("list.page-up", "Page up", "One page up.", "ctrl+u"),
)
"""What lists, tables and trees have in common."""


class Choices(Acting, OptionList):
    """A list of options.

    It posts `OptionSelected` for Enter or a click, and `OptionHighlighted` for movement.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = MOVES
    DEFAULT_CSS = """
    Choices { border: none; padding: 0; background: $background; height: 1fr; }
    Choices:focus { border: none; background-tint: $foreground 0%; }
    """

    def __init__(self, *options: Option, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(*options, id=id, classes=classes, markup=False, compact=True)

    @staticmethod
    def option(
        text: str | Content | Visual, key: str | None = None, *, disabled: bool = False
    ) -> Option:
        """An option. Foreign text is cleaned; `key` comes back as `event.option.id`."""
        return Option(
            Content(clean_line(text)) if isinstance(text, str) else text, id=key, disabled=disabled
        )

    action_down, action_up = OptionList.action_cursor_down, OptionList.action_cursor_up
