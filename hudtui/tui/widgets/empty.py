"""Placeholder of an empty pane: one sentence, and the key that changes it."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from hudtui.core.text import clean
from hudtui.tui.actions import keymap_of, with_keys


class EmptyState(Static):
    """Never leave a pane blank: say what would be here and what to press."""

    DEFAULT_CSS = """
    EmptyState {
        width: 1fr; height: 1fr; padding: 1 2;
        content-align: center middle; text-align: center; color: $text-muted;
    }
    """

    def __init__(self, message: str, hint: str = "", *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._texts = message, hint

    def on_mount(self) -> None:
        """Show the texts: the keys that they name are known now."""
        self.tell(*self._texts)

    def tell(self, message: str, hint: str = "") -> None:
        """Say something else."""
        self._texts = message, hint
        if not self.is_attached:
            return
        message, hint = (clean(with_keys(text, keymap_of(self.app))) for text in (message, hint))
        body = Content(message)
        if hint:
            body += Content("\n\n") + Content.styled(hint, "bold $accent")
        self.update(body)
