"""Options of the core as rows of a form: a control for each, from its declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from textual.app import ComposeResult
from textual.containers import Container, Horizontal
from textual.content import Content
from textual.events import DescendantFocus
from textual.message import Message
from textual.suggester import SuggestFromList
from textual.widgets import Static

from hudtui.core.knobs import YES, Knob, Texts
from hudtui.tui.widgets.dropdown import Dropdown
from hudtui.tui.widgets.fields import Field
from hudtui.tui.widgets.pane import Pane
from hudtui.tui.widgets.tick import Tick

Control = Field | Dropdown | Tick


class KnobRow(Horizontal):
    """The label of an option and its control: a list, a box, or a text field.

    Args:
        name: The option.
        about: Its declaration.
        kind: The type of its value.
        prefix: Begins the ids of the row and of the control, `PREFIX-NAME`.
        usual: Shown while there is no value.
        optional: A list has an entry for no value.
        field: The class of a text field.
        tick: The box of an option of yes or no, where it says more than the label.
    """

    DEFAULT_CSS = """
    KnobRow { height: 1; }
    KnobRow > Static { width: 13; height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    KnobRow > Field, KnobRow > Dropdown { width: 1fr; margin-right: 1; }
    """

    def __init__(
        self,
        name: str,
        about: Knob,
        kind: Any,
        *,
        prefix: str,
        usual: str = "",
        optional: bool = True,
        field: type[Field] = Field,
        tick: Tick | None = None,
    ) -> None:
        self.option, self.about = name, about
        label = about.title(name)
        self.control: Control
        if about.choices or about.lists:
            self.control = Dropdown(
                id=f"{prefix}-{name}", title=label.capitalize(), prompt=usual, optional=optional
            )
        elif bool in (kind, *get_args(kind)):
            self.control = tick or Tick()
            self.control.id = f"{prefix}-{name}"
        else:
            self.control = field(placeholder=usual, id=f"{prefix}-{name}")
            if about.suggestions:
                self.control.suggester = SuggestFromList(about.suggestions)
        self.control.add_class("-control", update=False)  # no style asks for it
        mark = ("*", "bold $accent") if about.required else " "
        super().__init__(
            Static(Content.assemble((label, "bold $primary"), mark)),
            self.control,
            id=f"{prefix}-row-{name}",
        )

    @property
    def text(self) -> str:
        """Its value as it would be typed; empty for none."""
        if isinstance(self.control, Dropdown):
            return self.control.value
        if isinstance(self.control, Tick):
            return "true" if self.control.value else ""
        return self.control.value.strip()

    def put(self, text: str) -> None:
        """Give it another value, as it would be typed."""
        if isinstance(self.control, Dropdown):
            self.control.put(text)
        elif isinstance(self.control, Tick):
            self.control.value = self.control.reason is None and text.lower() in YES
        else:
            self.control.value = text
            self.control.cursor_position = len(text)


class KnobPane(Pane):
    """A group of options. Rows that are not shown at first are mounted when they are.

    Args:
        title: Of the pane.
        rows: The rows by option.
        first: The texts that the form begins with.
        shown: Whether a row is shown beside the texts of the form.
        usual: What an empty text field shows beside them; None to leave it.
        id: Of the pane.
    """

    DEFAULT_CSS = """
    KnobPane { height: auto; }
    KnobPane > Container { height: auto; layout: vertical; padding: 0 1; }
    """

    @dataclass
    class Focused(Message):
        """A control of the pane has the focus."""

        name: str

    def __init__(
        self,
        title: str,
        rows: Mapping[str, KnobRow],
        first: Texts,
        *,
        shown: Callable[[str, Texts], bool],
        usual: Callable[[str, Texts], str | None],
        id: str,  # noqa: A002
    ) -> None:
        super().__init__(title=title, id=id)
        self._rows, self._first = rows, first
        self._shown, self._usual = shown, usual

    def compose(self) -> ComposeResult:
        yield Container(
            *(row for name, row in self._rows.items() if self._shown(name, self._first))
        )

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        for name, row in self._rows.items():
            if event.widget is row.control:
                self.post_message(self.Focused(name))

    def show(self, texts: Texts) -> None:
        """Show the options that count beside these texts.

        Those that are empty show what counts then.
        """
        box = self.query_one(Container)
        before: KnobRow | None = None
        for name, row in self._rows.items():
            shown = self._shown(name, texts)
            if shown and not row.is_attached:
                box.mount(row, after=before) if before else box.mount(row, before=0)
            before = row if row.is_attached else before
            row.display = shown
            if isinstance(row.control, Field):
                usual = self._usual(name, texts)
                row.control.placeholder = row.control.placeholder if usual is None else usual
