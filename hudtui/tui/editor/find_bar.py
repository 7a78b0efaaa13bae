"""Search and replace, in one row above a text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from hudtui.tui.actions import Acting, AppAction, by_key, keymap_of, with_keys
from hudtui.tui.widgets.fields import Field


class _What(Acting, Field):
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("find.submit", "Next match", "Go to the next match.", "enter", palette=False),
    )


class _With(Acting, Field):
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "replace.submit",
            "Replace",
            "Replace this match, and go to the next one.",
            "enter",
            palette=False,
        ),
    )


class FindBar(Acting, Horizontal):
    """Two fields.

    Enter in the first goes to the next match; in the second it replaces the match and goes to the
    next.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "find.close",
            "Close search",
            "Leave the search and go back to the text.",
            "escape",
            palette=False,
        ),
        AppAction(
            "find.all",
            "Replace all",
            "Replace every match, as one change that can be undone.",
            "ctrl+l",
            palette=False,
        ),
        by_key("find.case", "Case", "Match upper and lower case, or ignore it.", "ctrl+t"),
    )
    DEFAULT_CSS = """
    FindBar { height: 1; display: none; background: $surface; }
    FindBar > Field { width: 1fr; }
    FindBar > Static { width: auto; padding: 0 1; }
    """

    @dataclass
    class Sought(Message):
        """What is searched for changed; or the next match is wanted."""

        step: int
        """0: from where the cursor is; 1: the next one."""

    @dataclass
    class Replace(Message):
        """Replace one match, or all."""

        everything: bool

    class Closed(Message):
        """The search is over."""

    def __init__(self) -> None:
        super().__init__(id="find-bar")
        self.case = False

    def compose(self) -> Iterable[Widget]:
        yield _What(placeholder="find", id="find-what")
        yield _With(
            placeholder=with_keys(
                "replace with (Enter one, {key:find.all} all)", keymap_of(self.app)
            ),
            id="find-with",
        )
        yield Static(id="find-count")

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """What is searched for; None when that is nothing."""
        word = self.query_one("#find-what", Field).value
        return re.compile(re.escape(word), 0 if self.case else re.IGNORECASE) if word else None

    @property
    def replacement(self) -> str:
        """What comes in its place."""
        return self.query_one("#find-with", Field).value

    def open(self, word: str = "") -> None:
        """Show the bar and write into it."""
        self.display = True
        what = self.query_one("#find-what", Field)
        if word:
            what.value = word
        what.focus()
        what.action_select_all()

    def count(self, number: int, total: int) -> None:
        """Show which match this is."""
        words = f"{number}/{total}" if total else "no match" if self.pattern else ""
        self.query_one("#find-count", Static).update(Content(words + (" Aa" if self.case else "")))

    def on_input_changed(self, event: Field.Changed) -> None:
        """Search while it is typed."""
        event.stop()
        if event.input.id == "find-what" and self.display:
            self.post_message(self.Sought(step=0))

    def on_input_submitted(self, event: Field.Submitted) -> None:
        event.stop()
        self.post_message(
            self.Sought(step=1) if event.input.id == "find-what" else self.Replace(everything=False)
        )

    def action_close(self) -> None:
        self.display = False
        self.post_message(self.Closed())

    def action_all(self) -> None:
        self.post_message(self.Replace(everything=True))

    def action_case(self) -> None:
        self.case = not self.case
        self.post_message(self.Sought(step=0))
