"""Questions that stop everything else until they are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Button, Static
from textual.widgets.button import ButtonVariant

from hudtui.core.errors import HudtuiError
from hudtui.core.text import clean, clean_line, in_full
from hudtui.tui.actions import Acting, AppAction, by_key, keymap_of, with_keys
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.fields import Field

T = TypeVar("T")


def dialog_title(text: str) -> Static:
    """The first line of a dialog."""
    return Static(Content(clean_line(text)), classes="dialog-title")


def dialog_body(lines: Iterable[str], *below: Widget) -> VerticalScroll:
    """Lines to read, with widgets below them; many lines scroll."""
    return VerticalScroll(
        Static(Content("\n".join(map(clean, lines)))),
        *below,
        classes="dialog-body",
        can_focus=False,
    )


class DialogButton(Button):
    """A button of one row. It does not flash: its dialog is gone when it was pressed."""

    def __init__(self, label: str, id: str, variant: ButtonVariant = "default") -> None:  # noqa: A002
        super().__init__(Content(label), variant, id=id, compact=True)
        self.active_effect_duration = 0


class Dialog(Acting, ModalScreen[T]):
    """Base of all dialogs: a titled box in the middle; Esc cancels."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "dialog.cancel", "Cancel", "Close without doing anything.", "escape", palette=False
        ),
        by_key("dialog.down", "Text down", "Scroll the text of the dialog down.", "pagedown"),
        by_key("dialog.up", "Text up", "Scroll the text of the dialog up.", "pageup"),
    )
    cancelled: Any = None
    """The dialog's result when it is cancelled."""
    body_share = 0.92
    """Share of the terminal's height that text, and six lines around it, may take."""

    async def on_event(self, event: events.Event) -> None:
        """Prepare nothing in a dialog that is closed, or whose app ends, before it is mounted.

        Such a dialog gets no widgets from Textual.
        """
        if isinstance(event, events.Mount) and not (
            self.is_attached and self in self.app.screen_stack
        ):
            return
        await super().on_event(event)

    def on_resize(self) -> None:
        """A long text scrolls inside the box, so that the box never ends below the terminal."""
        for body in self.query(".dialog-body"):
            body.styles.max_height = max(int(self.app.size.height * self.body_share) - 6, 3)

    def action_down(self) -> None:
        for body in self.query(".dialog-body"):
            body.scroll_page_down(animate=False)

    def action_up(self) -> None:
        for body in self.query(".dialog-body"):
            body.scroll_page_up(animate=False)

    def words(self, text: str) -> str:
        """A text with the user's keys in place of `{key:scope.name}`."""
        return with_keys(text, keymap_of(self.app))

    def key_line(self, text: str) -> Static:
        """The last line of a dialog, which says what keys do; see `words`."""
        return Static(Content(self.words(text)), classes="dialog-keys")

    def action_cancel(self) -> None:
        self.dismiss(self.cancelled)

    def decides(self, key: str) -> bool:
        """Whether the current key is a deliberate decision; if not, says what to do."""
        typed = getattr(self.app, "typed", None)
        if typed is None or typed.deliberate:
            return True
        self.notify(f"Fast input ignored. Press {key} again.", severity="warning")
        return False


class Confirm(Dialog[bool]):
    """A yes or no. What cannot be undone has the focus on No."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("confirm.yes", "Yes", "Do it.", "y", palette=False),
        AppAction("confirm.no", "No", "Leave everything as it is.", "n", palette=False),
        by_key("confirm.other", "Other button", "Move to the other button.", "left,right,h,l"),
    )
    cancelled = False

    def __init__(
        self,
        title: str,
        lines: tuple[str, ...] = (),
        *,
        yes: str = "Yes",
        no: str = "Cancel",
        danger: bool = False,
    ) -> None:
        super().__init__()
        self._title, self._lines, self._yes, self._no, self._danger = title, lines, yes, no, danger

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -danger" if self._danger else "dialog"):
            yield dialog_title(self._title)
            yield dialog_body(self._lines)
            with Horizontal(classes="dialog-buttons"):
                yield DialogButton(
                    self.words(f"{self._yes} ({{key:confirm.yes}})"),
                    "yes",
                    "error" if self._danger else "primary",
                )
                yield DialogButton(self.words(f"{self._no} ({{key:confirm.no}})"), "no")

    def on_mount(self) -> None:
        """Put the focus where a careless Enter does no harm."""
        self.query_one("#no" if self._danger else "#yes").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id == "yes":
            self.action_yes()
        else:
            self.dismiss(False)

    def action_yes(self) -> None:
        """Answer yes, unless the key is part of a burst, such as a paste or a held key."""
        if self.decides(self.words("{key:confirm.yes}")):
            self.dismiss(True)

    def action_no(self) -> None:
        self.dismiss(False)

    def action_other(self) -> None:
        self.focus_next(Button)


class Ask(Dialog["str | None"]):
    """Asks for one line of text. Gives None when it is cancelled.

    Args:
        title: The question.
        lines: What the user should know before the answer.
        value: The suggested answer.
        placeholder: An example of an answer.
        secret: The answer is not shown.
        accept: Label of the button that accepts the answer.
        copy: A text that the user needs elsewhere: shown in full, and copied by a key.
        until: The dialog closes, and gives an empty text, when this is set.
        check: Called with the answer; an error that it raises is shown, and the answer can be
            corrected.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        by_key("ask.copy", "Copy", "Copy the text of the question, such as an address.", "ctrl+o"),
    )

    def __init__(
        self,
        title: str,
        *,
        lines: tuple[str, ...] = (),
        value: str = "",
        placeholder: str = "",
        secret: bool = False,
        accept: str = "OK",
        copy: str = "",
        until: asyncio.Event | None = None,
        check: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__()
        self._until, self._check = until, check
        self._title, self._lines, self._value = title, lines, value
        self._placeholder, self._secret, self._accept, self._copy = (
            placeholder,
            secret,
            accept,
            copy,
        )

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide" if self._copy else "dialog"):
            yield dialog_title(self._title)
            if self._copy:
                copied = Static(Content.styled(in_full(self._copy), "$primary"), id="to-copy")
                yield dialog_body((*self._lines, ""), copied)
            elif self._lines:
                yield dialog_body(self._lines)
            yield Field(
                self._value, placeholder=self._placeholder, password=self._secret, id="answer"
            )
            if self._check is not None:
                yield CalmStatic(id="answer-wrong")
            with Horizontal(classes="dialog-buttons"):
                if self._copy:
                    yield DialogButton(self.words("Copy ({key:ask.copy})"), "copy")
                yield DialogButton(f"{self._accept} (Enter)", "yes", "primary")
                yield DialogButton(self.words("Cancel ({key:dialog.cancel})"), "no")

    def on_mount(self) -> None:
        self.query_one(Field).focus()
        if self._until is not None:
            self.run_worker(self._wait(self._until))

    async def _wait(self, until: asyncio.Event) -> None:
        await until.wait()
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        """Close if nothing is waited for any longer and no other dialog is over this one."""
        if self._until is not None and self._until.is_set() and self.is_current:
            self.dismiss("")

    def on_input_submitted(self, event: Field.Submitted) -> None:
        event.stop()
        self._take(event.value)

    def _take(self, answer: str) -> None:
        if not self.decides("Enter"):
            return
        if self._check is not None:
            try:
                self._check(answer)
            except HudtuiError as error:
                self.query_one("#answer-wrong", Static).update(
                    Content.styled(f"✗ {clean(str(error))}", "$error")
                )
                return
        self.dismiss(answer)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id == "copy":
            self.action_copy()
        elif event.button.id != "yes":
            self.dismiss(None)
        else:
            self._take(self.query_one(Field).value)

    def action_copy(self) -> None:
        if self._copy:
            self.app.copy(self._copy)


def error_content(error: HudtuiError) -> Content:
    """Return an error as lines in a dialog."""
    first, *rest = (clean_line(line, 400) for line in error.lines())
    lines = [
        Content.assemble(("✗ ", "bold $error"), first),
        *(Content.styled(f"  {line}", "$foreground-muted") for line in rest),
    ]
    return Content("\n").join(lines)


def _coloured(text: str) -> Content:
    """A text as it is; a unified diff with its lines in colours."""
    lines = text.split("\n")
    if not (len(lines) > 1 and lines[0].startswith("--- ") and lines[1].startswith("+++ ")):
        return Content(text)
    styles = {"+": "$success", "-": "$error", "@": "$primary"}
    head = [Content.styled(line, "bold") for line in lines[:2]]
    return Content("\n").join(
        [*head, *(Content.styled(line, styles.get(line[:1], "")) for line in lines[2:])]
    )


class TextDialog(Dialog[None]):
    """Text to read in full and to copy: an error, a plan, a tool's answer."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("text.copy", "Copy", "Copy the whole text.", "y,c", palette=False),
        AppAction("text.close", "Close", "Close this text.", "q,enter", palette=False),
    )

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, clean(text)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide"):
            yield dialog_title(self._title)
            with VerticalScroll(classes="dialog-body"):
                yield Static(_coloured(self._text))
            yield self.key_line("{key:text.copy} copy   ↑↓ scroll   {key:dialog.cancel} close")

    def action_copy(self) -> None:
        self.app.copy(self._text)

    def action_close(self) -> None:
        self.dismiss(None)
