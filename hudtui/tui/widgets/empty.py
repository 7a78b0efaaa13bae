"""What stands where nothing is yet: one sentence, and the key that changes it."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from hudtui.core.text import clean


class EmptyState(Static):
    """Never leave a pane blank: say what would be here and what to press."""

    DEFAULT_CSS = """
    EmptyState {
        width: 1fr; height: 1fr; padding: 1 2;
        content-align: center middle; text-align: center; color: $text-muted;
    }
    """

    def __init__(self, message: str, hint: str = "", *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.tell(message, hint)

    def tell(self, message: str, hint: str = "") -> None:
        """Say something else."""
        body = Content(clean(message))
        if hint:
            body += Content("\n\n") + Content.styled(clean(hint), "bold $accent")
        self.update(body)
