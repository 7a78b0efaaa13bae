"""The question before unsaved work is left: save it, leave it, or stay."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Button

from hudtui.tui.actions import AppAction, by_key
from hudtui.tui.widgets.dialog import Dialog, DialogButton, dialog_body, dialog_title

Answer = Literal["save", "leave"]


class Unsaved(Dialog["Answer | None"]):
    """Asks what becomes of unsaved work. Gives None when the user stays.

    Args:
        title: The question.
        lines: What is not saved, and what becomes of it.
        leave: What leaving is called.
        lost: Leaving loses the work, because no copy of it can be kept. It has a key of its own
            then.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("unsaved.save", "Save", "Save first.", "s", palette=False),
        AppAction(
            "unsaved.leave", "Leave", "Leave without saving; a copy is kept.", "y", palette=False
        ),
        AppAction(
            "unsaved.lose",
            "Lose",
            "Leave without saving, and lose the changes.",
            "L",
            palette=False,
        ),
        AppAction("unsaved.stay", "Stay", "Go back to the work.", "n", palette=False),
        by_key("unsaved.next", "Next button", "Move to the next button.", "right,l"),
        by_key("unsaved.previous", "Previous button", "Move to the previous button.", "left,h"),
    )

    def __init__(self, title: str, lines: tuple[str, ...], *, leave: str, lost: bool) -> None:
        super().__init__()
        self._title, self._lines, self._leave, self._lost = title, lines, leave, lost

    def compose(self) -> ComposeResult:
        leave = (
            f"{self._leave} and lose the changes ({{key:unsaved.lose}})"
            if self._lost
            else f"{self._leave} ({{key:unsaved.leave}})"
        )
        with Vertical(classes="dialog"):
            yield dialog_title(self._title)
            yield dialog_body(self._lines)
            with Horizontal(classes="dialog-buttons"):
                yield DialogButton(self.words("Save ({key:unsaved.save})"), "save", "primary")
                yield DialogButton(self.words(leave), "leave", "error" if self._lost else "default")
                yield DialogButton(self.words("Stay ({key:unsaved.stay})"), "stay")

    def on_mount(self) -> None:
        """Begin at Save: a careless Enter loses nothing."""
        self.query_one("#save").focus()

    def offers(self, action_id: str) -> bool:
        """Leaving has the one key or the other."""
        return {"unsaved.leave": not self._lost, "unsaved.lose": self._lost}.get(action_id, True)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        answers: dict[str | None, Answer] = {"save": "save", "leave": "leave"}
        self.dismiss(answers.get(event.button.id))

    def action_save(self) -> None:
        self.dismiss("save")

    def action_leave(self) -> None:
        self.dismiss("leave")

    action_lose = action_leave

    def action_stay(self) -> None:
        self.dismiss(None)

    def action_next(self) -> None:
        self.focus_next(Button)

    def action_previous(self) -> None:
        self.focus_previous(Button)
