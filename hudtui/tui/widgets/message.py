"""The line (or few) above the footer where a screen says what happened, why, and what to do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

from textual.content import Content
from textual.widgets import Static

from hudtui.core.errors import HudtuiError
from hudtui.core.text import clean, clean_line, seen_from
from hudtui.tui.actions import keymap_of, with_keys

Severity = Literal["information", "success", "warning", "error", "busy"]

GLYPHS: dict[Severity, tuple[str, str, str]] = {
    "information": ("i", "", "$primary"),
    "success": ("✓", "", "$success"),
    "warning": ("!", "warning", "$warning"),
    "error": ("✗", "error", "$error"),
    "busy": ("●", "working", "$accent"),
}

_MOST_LINES = 3
"""Of the end of a long text: with the event, what the text is, and the advice, six in all."""


class MessageBar(Static):
    """Hidden while it has nothing to say. Never grows beyond a third of a small terminal."""

    ALLOW_SELECT = True
    DEFAULT_CSS = """
    MessageBar { height: auto; max-height: 6; padding: 0 1; display: none; background: $surface; }
    MessageBar.-shown { display: block; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.plain = ""
        """What is shown, as plain text, for copying."""
        self.error: HudtuiError | None = None
        """The error that is shown, where it is one."""
        self.severity: Severity | None = None
        self._said = 0.0

    @property
    def age(self) -> float:
        """Seconds since the message was said."""
        return time.monotonic() - self._said

    def say(self, message: str, severity: Severity = "information") -> None:
        """Show one message in place of the one before."""
        self._show(severity, clean_line(with_keys(message, keymap_of(self.app))), [])
        self.error = None

    def fail(self, error: HudtuiError, folder: Path) -> None:
        """Show an error to a user in a folder: the event, then why, then what to do."""
        first, *rest = error.lines()
        keymap = keymap_of(self.app)
        self._show(
            "error",
            clean_line(with_keys(seen_from(folder, first), keymap)),
            [clean(with_keys(line, keymap)) for line in rest],
        )
        self.error = error

    def clear(self) -> None:
        if self.severity is not None:
            self.plain, self.error, self.severity = "", None, None
            self.remove_class("-shown")

    def _show(self, severity: Severity, first: str, rest: list[str]) -> None:
        glyph, word, style = GLYPHS[severity]
        lead = f"{glyph} {word}: " if word else f"{glyph} "
        body = Content.assemble((lead, f"bold {style}"), first)
        for text in rest:
            body += Content("\n") + Content.styled("  " + _end(text), "$foreground-muted")
        self.plain, self.severity, self._said = (
            "\n".join([first, *rest]),
            severity,
            time.monotonic(),
        )
        self.update(body)
        self.add_class("-shown")


def _end(text: str) -> str:
    """The first line of a text, which says what it is, and its last ones.

    A program says at the end what went wrong.
    """
    first, *lines = text.split("\n")
    return "\n".join([first, *(lines if len(lines) <= _MOST_LINES else lines[-_MOST_LINES:])])
