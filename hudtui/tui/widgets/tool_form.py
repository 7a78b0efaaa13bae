"""A form for the arguments of one tool, made from its schema."""

from __future__ import annotations

from collections.abc import Mapping

from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Static

from hudtui.core.environment.forms import WHOLE, FormField
from hudtui.core.text import clean_line
from hudtui.tui.widgets.fields import Field
from hudtui.tui.widgets.fit import pad


class ToolForm(VerticalScroll):
    """One row a field: name, then what is typed. Enter in any of them asks for the call; up and down move between them."""

    DEFAULT_CSS = """
    ToolForm { height: auto; max-height: 10; padding: 0 1; }
    ToolForm .row { height: 1; }
    ToolForm .row > Static { width: auto; min-width: 16; max-width: 40%; }
    ToolForm .row > Field { width: 1fr; }
    """

    class Submitted(Message):
        """The form is filled in."""

    def __init__(self, fields: tuple[FormField, ...]) -> None:
        super().__init__(can_focus=False)
        self.fields = fields

    def compose(self) -> ComposeResult:
        """The rows."""
        if not self.fields:
            yield Static(Content.styled("No parameters: Enter calls it.", "$foreground-muted"))
        width = min(max((len(field.name) + 1 for field in self.fields), default=0), 32)
        for number, field in enumerate(self.fields):
            name = clean_line(field.name) or "arguments (JSON)"
            mark = "*" if field.required else " "
            with Horizontal(classes="row"):
                yield Static(Content.assemble((pad(name, max(width, len(name))), "bold $primary"), (mark, "bold $accent"), " "))
                entry = Field(placeholder=self._hint(field), id=f"field-{number}")
                if field.choices:
                    entry.suggester = SuggestFromList(field.choices, case_sensitive=False)
                yield entry

    @staticmethod
    def _hint(field: FormField) -> str:
        if field.name == WHOLE:
            return '{"name": "value"}'
        words = " | ".join(field.choices[:8]) if field.choices else field.type
        return clean_line(f"{words}   default {field.default}" if field.default else words, 100)

    def typed(self) -> Mapping[str, str]:
        """Field name -> what is typed now."""
        return {field.name: self.query_one(f"#field-{number}", Field).value for number, field in enumerate(self.fields)}

    def fill(self, values: Mapping[str, str]) -> None:
        """Put texts into the fields."""
        for number, field in enumerate(self.fields):
            if field.name in values:
                self.query_one(f"#field-{number}", Field).value = values[field.name]

    def enter(self) -> None:
        """Give the first field the focus."""
        if self.fields:
            self.query_one("#field-0", Field).focus()

    def on_key(self, event: object) -> None:
        """Up and down move between the fields."""
        key = getattr(event, "key", "")
        if key in ("up", "down") and isinstance(self.screen.focused, Field) and self.screen.focused in self.query(Field):
            fields = list(self.query(Field))
            at = fields.index(self.screen.focused) + (1 if key == "down" else -1)
            if 0 <= at < len(fields):
                fields[at].focus()
            getattr(event, "stop")()  # noqa: B009

    def on_input_submitted(self, event: Field.Submitted) -> None:
        """Enter."""
        event.stop()
        self.post_message(self.Submitted())
