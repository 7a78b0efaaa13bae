"""Text fields: Textual's own, without the blinking that would write to an idle terminal."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import Reactive

from hudtui.core.text import clean
from hudtui.tui.actions import Acting, AppAction
from hudtui.tui.gaps import SignedInput


class Field(SignedInput):
    """One line of text, one row high. What is typed can be taken back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+z", "undo", "Undo", show=False),
        Binding("ctrl+y", "redo", "Redo", show=False),
    ]

    DEFAULT_CSS = """
    Field { height: 1; border: none; padding: 0 1; background: $panel; }
    Field:focus { border: none; background: $panel; background-tint: $foreground 5%; }
    """

    virtual_size = Reactive(Size(0, 0))
    """Of the whole text. The field stays as wide as it is when that changes: nothing has to be laid
    out."""

    def __init__(
        self,
        value: str = "",
        *,
        placeholder: str = "",
        password: bool = False,
        id: str | None = None,  # noqa: A002
    ) -> None:
        self._undo: list[str] = []
        self._redo: list[str] = []
        self._typing = False
        super().__init__(value, placeholder=placeholder, password=password, id=id)
        self.cursor_blink = False

    def validate_value(self, value: str) -> str:
        """Remove control characters: a value may be the name of a run, or a text from a file."""
        return (
            value
            if value.isascii() and value.isprintable()
            else clean(value).replace("\n", " ").replace("\t", " ")
        )

    def begin(self, value: str) -> None:
        """Set another text, as a beginning that cannot be undone."""
        self.value = value
        self._undo.clear()
        self._redo.clear()

    def watch_value(self, before: str, after: str) -> None:
        """Keep the text before a change; typing a word is one change."""
        if before == after:
            return
        typing = after[:-1] == before and after[-1:].isalnum()
        if not (typing and self._typing):
            self._undo.append(before)
        self._redo.clear()
        self._typing = typing

    def action_cut(self) -> None:
        """Cut what is selected. A secret is taken out, and copied nowhere."""
        if not self.password:
            super().action_cut()
        else:
            self.delete_selection()

    def action_undo(self) -> None:
        self._go_back(self._undo, self._redo)

    def action_redo(self) -> None:
        self._go_back(self._redo, self._undo)

    def _go_back(self, taken: list[str], given: list[str]) -> None:
        if taken:
            given.append(self.value)
            undo, redo, self._undo, self._redo = self._undo, self._redo, [], []
            self.value = taken.pop()
            self.cursor_position = len(self.value)
            self._undo, self._redo, self._typing = undo, redo, False


class TextEntry(Acting, Field):
    """A field of a screen. Enter takes what is typed; a subclass names that as `SCOPE.submit`.

    Esc puts back what was here.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "entry.leave",
            "Back",
            "Restore the previous text, and leave the field.",
            "escape",
            palette=False,
        ),
    )

    class Left(Message):
        """The user is done with the field; the list should take the focus."""

    def __init__(self, value: str = "", *, placeholder: str = "", id: str | None = None) -> None:  # noqa: A002
        super().__init__(value, placeholder=placeholder, id=id)
        self._stood = value

    def begin(self, value: str) -> None:
        """Set another text, which Esc restores."""
        super().begin(value)
        self._stood = value

    async def action_submit(self) -> None:
        self._stood = self.value
        await super().action_submit()

    def action_leave(self) -> None:
        self.begin(self._stood)
        self.post_message(self.Left())


class FilterField(Acting, Field):
    """Narrows a list while it is typed.

    Esc empties it and leaves; Enter and arrow down leave it as it is.
    """

    DEFAULT_CSS = """
    FilterField, FilterField:focus { background: $surface; }
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "filter.done",
            "To the list",
            "Keep the filter and go to the list.",
            "enter,down",
            palette=False,
        ),
        AppAction(
            "filter.leave",
            "Clear filter",
            "Empty the filter and go back to the list.",
            "escape",
            palette=False,
        ),
    )

    class Left(Message):
        """The user is done with the field; the list should take the focus."""

    def action_leave(self) -> None:
        self.value = ""
        self.post_message(self.Left())

    def action_done(self) -> None:
        self.post_message(self.Left())
