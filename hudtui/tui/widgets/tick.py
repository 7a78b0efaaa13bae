"""Yes or no, in one row of a form."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Checkbox

from hudtui.core.text import clean_line


class Tick(Checkbox):
    """Yes or no.

    Args:
        words: What is done; nothing where a label stands beside it.
        value: Whether it is, to begin with.
        reason: Why it cannot be; None when it can.
    """

    DEFAULT_CSS = """
    Tick, Tick.-textual-compact { height: 1; width: 1fr; background: transparent; padding: 0 1; }
    Tick:focus { background-tint: $foreground 10%; }
    Tick.-impossible { color: $foreground-muted; }
    .-theme-monochrome Tick:focus { text-style: bold reverse; }
    """

    def __init__(
        self,
        words: str = "",
        *,
        value: bool = False,
        reason: str | None = None,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(
            Content(clean_line(words if reason is None else reason)),
            value and reason is None,
            id=id,
            compact=True,
        )
        self.reason = reason
        if reason is not None:
            self.can_focus = False
            self.add_class("-impossible")

    def render(self) -> Content:
        """The box, which says without colours whether it is ticked, and the words.

        Only the reason where there is no choice.
        """
        if self.reason is not None:
            return Content.assemble(" –  ", self.label)
        return Content.assemble(("[x] " if self.value else "[ ] ", "bold $accent"), self.label)

    def toggle(self) -> Tick:
        """Change it, where that is possible."""
        if self.reason is None:
            super().toggle()
        return self
