"""A form made from a schema: the arguments of one tool, or what a server asks of the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Static

from hudtui.core.environment.form_args import ALL_ARGUMENTS, FormField
from hudtui.core.text import clean_line
from hudtui.tui.actions import AppAction
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.fields import Field, TextEntry
from hudtui.tui.widgets.fit import pad

if TYPE_CHECKING:
    from hudtui.tui.app import HudtuiApp


class _Entry(TextEntry):
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "form.submit",
            "Call",
            "Call the tool with the values in the form.",
            "enter",
            palette=False,
        ),
    )


class ToolForm(VerticalScroll):
    """One row a field: name, then what is typed.

    Enter in any of them asks for the call; up and down move between them.
    """

    DEFAULT_CSS = """
    ToolForm { height: auto; max-height: 10; padding: 0 1; }
    ToolForm .row { height: 1; }
    ToolForm .row > Static { width: auto; min-width: 16; max-width: 40%; }
    ToolForm .row > Field { width: 1fr; }
    """

    class Submitted(Message):
        """The form is filled in."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(can_focus=False, id=id)
        self.fields: tuple[FormField, ...] = ()
        self._rows: list[_Row] = []

    def compose(self) -> ComposeResult:
        """Show the words for a tool without parameters; `ask` adds the rows."""
        words = cast("HudtuiApp", self.app).keys_in(
            "No parameters: {key:environment.call} calls it."
        )
        yield Static(Content.styled(words, "$foreground-muted"), id="form-none")

    def ask(self, fields: tuple[FormField, ...]) -> None:
        """Ask for other fields. Rows are created once and reused."""
        self.fields = fields
        self.query_one("#form-none").display = not fields
        width = min(max((len(field.name) + 1 for field in fields), default=0), 32)
        while len(self._rows) < len(fields):
            row = _Row(len(self._rows))
            self._rows.append(row)
            self.mount(row)
        for row, field in zip(self._rows, fields, strict=False):
            name = clean_line(field.name) or "arguments (JSON)"
            mark = ("*" if field.required else " ", "bold $accent")
            row.label.update(
                Content.assemble((pad(name, max(width, len(name))), "bold $primary"), mark, " ")
            )
            row.entry.begin("")
            row.entry.placeholder = self._hint(field)
            row.entry.suggester = (
                SuggestFromList(field.choices, case_sensitive=False) if field.choices else None
            )
        for number, row in enumerate(self._rows):
            row.display = number < len(fields)
        self.scroll_home(animate=False)

    @property
    def entries(self) -> list[Field]:
        """The current fields, in their order."""
        return [row.entry for row in self._rows[: len(self.fields)]]

    @staticmethod
    def _hint(field: FormField) -> str:
        if field.name == ALL_ARGUMENTS:
            return '{"name": "value"}'
        words = " | ".join(field.choices[:8]) if field.choices else field.type
        return clean_line(f"{words}   default {field.default}" if field.default else words, 100)

    def typed(self) -> Mapping[str, str]:
        """Field name -> what is typed now."""
        return {
            field.name: entry.value for field, entry in zip(self.fields, self.entries, strict=True)
        }

    def enter(self) -> None:
        """Give the first field the focus."""
        if self.fields:
            self.screen.set_focus(self.entries[0])

    def on_key(self, event: events.Key) -> None:
        """Up and down move between the fields."""
        focused, entries = self.screen.focused, self.entries
        if event.key in ("up", "down") and focused in entries:
            event.stop()
            at = entries.index(focused) + (1 if event.key == "down" else -1)
            if 0 <= at < len(entries):
                self.screen.set_focus(entries[at])

    def on_input_submitted(self, event: Field.Submitted) -> None:
        event.stop()
        self.post_message(self.Submitted())


class _Row(Horizontal):
    """Name and field. Both exist before the row is mounted, so that it can be filled."""

    def __init__(self, number: int) -> None:
        self.label = CalmStatic()
        self.entry = _Entry(id=f"field-{number}")
        super().__init__(self.label, self.entry, classes="row")
