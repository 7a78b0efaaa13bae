"""Choices that a screen acts on, a row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.content import Content
from textual.widgets import OptionList

from hudtui.core.text import clean_line
from hudtui.tui.actions import AppAction
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.lists import Choices


@dataclass(frozen=True)
class FieldRow:
    """One choice."""

    name: str
    label: str
    value: str
    usual: str = ""
    """Shown while there is no value."""


class FieldRows(Choices):
    """Rows of a label and a value. The option of a row has the name of its field as its id."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "fields.change", "Change", "Change the row under the cursor.", "enter", palette=False
        ),
    )
    DEFAULT_CSS = "FieldRows { height: auto; }"

    action_change = OptionList.action_select

    def show(self, fields: Sequence[FieldRow]) -> None:
        """Show the choices; the cursor stays."""
        lines = [
            Content.assemble(
                (pad(field.label, 10), "bold $primary"),
                (clean_line(field.value, 200), "") if field.value else (field.usual, "italic"),
            )
            for field in fields
        ]
        if [option.id for option in self.options] == [field.name for field in fields]:
            for place, line in enumerate(lines):
                self.replace_option_prompt_at_index(place, line)
            return
        at = self.highlighted or 0
        self.clear_options()
        self.add_options(
            Choices.option(line, field.name) for line, field in zip(lines, fields, strict=True)
        )
        self.highlighted = min(at, len(lines) - 1)
