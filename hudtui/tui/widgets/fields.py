"""Text fields: Textual's own, without the blinking that would write to an idle terminal."""

from __future__ import annotations

from typing import ClassVar

from textual.message import Message
from textual.widgets import Input

from hudtui.tui.keymap import Acting, Action


class Field(Input):
    """One line of text, one row high."""

    DEFAULT_CSS = """
    Field, Field.-textual-compact { height: 1; border: none; padding: 0 1; background: $panel; }
    Field:focus { border: none; background: $panel; background-tint: $foreground 5%; }
    """

    def __init__(
        self,
        value: str = "",
        *,
        placeholder: str = "",
        password: bool = False,
        id: str | None = None,  # noqa: A002
        classes: str | None = None,
    ) -> None:
        super().__init__(value, placeholder=placeholder, password=password, id=id, classes=classes, compact=True)
        self.cursor_blink = False


class FilterField(Acting, Field):
    """Narrows a list while it is typed. Esc empties it and leaves; Enter and arrow down leave it as it is."""

    DEFAULT_CSS = """
    FilterField, FilterField.-textual-compact { background: $surface; }
    """

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("filter.leave", "Clear filter", "Empty the filter and go back to the list.", "escape", palette=False),
        Action("filter.done", "To the list", "Keep the filter and go to the list.", "down", palette=False, show=False),
    )

    class Left(Message):
        """The user is done with the field; the list should take the focus."""

    def action_leave(self) -> None:
        """Empty the field and leave it."""
        self.value = ""
        self.post_message(self.Left())

    def action_done(self) -> None:
        """Leave the field."""
        self.post_message(self.Left())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter leaves as well."""
        event.stop()
        self.post_message(self.Left())
