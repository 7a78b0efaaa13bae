"""One of several texts, in one row of a form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from hudtui.core.text import clean_line
from hudtui.tui.actions import Acting, AppAction
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.pick import Pick

if TYPE_CHECKING:
    from hudtui.tui.screen import HudtuiScreen

OTHER = "?"
"""The choice that asks for a text."""


class Dropdown(Acting, Widget, can_focus=True):
    """One of several texts, in one row. A text that is no option yet becomes one.

    Args:
        title: What is chosen.
        prompt: What stands here without a choice.
        optional: Whether the user can go back to none.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "launch.choose", "Choose", "Open the list of choices.", "enter,space", palette=False
        ),
    )

    DEFAULT_CSS = """
    Dropdown { height: 1; padding: 0 1; background: $panel; }
    Dropdown:focus { background-tint: $foreground 15%; text-style: bold; }
    """

    value = reactive("", init=False)
    """The chosen text; empty without a choice."""

    @dataclass
    class Changed(Message):
        """Another text is chosen."""

        dropdown: Dropdown

        @property
        def control(self) -> Dropdown:
            """The dropdown."""
            return self.dropdown

    class OtherChosen(Changed):
        """The user wants a text that is not in the list; the choice stays."""

    def __init__(
        self,
        *,
        id: str,  # noqa: A002
        title: str,
        prompt: str = "choose",
        optional: bool = False,
    ) -> None:
        super().__init__(id=id)
        self._title = title
        self._none, self._optional = (prompt, ""), optional
        self.entries: tuple[tuple[str, str], ...] = (self._none,)
        """The options: what is shown, and the text."""

    def render(self) -> Content:
        """The choice, and a sign that there are others."""
        shown = next((shown for shown, text in self.entries if text == self.value), "")
        return Content.assemble(
            (
                pad(shown, max(self.content_size.width - 2, 0)),
                "" if self.value else "$foreground-muted",
            ),
            (" ▼", ""),
        )

    def watch_value(self) -> None:
        """Tell the form."""
        self.post_message(self.Changed(self))

    def on_click(self) -> None:
        self.action_choose()

    def action_choose(self) -> None:
        cast("HudtuiScreen", self.screen).start(self._choose, group="choose")

    async def _choose(self) -> None:
        entries = self.entries
        shown = [
            Content.styled(shown, "" if text else "$foreground-muted") for shown, text in entries
        ]
        at = next((at for at, (_, text) in enumerate(entries) if text == self.value), 0)
        index = await cast("HudtuiScreen", self.screen).app.push_screen_wait(
            Pick(self._title, shown, at=at)
        )
        if index is None:
            return
        if entries[index][1] == OTHER:
            self.post_message(self.OtherChosen(self))
        else:
            self.put(entries[index][1])

    def offer(self, entries: Iterable[tuple[str, str]]) -> None:
        """Offer other options (shown, text). The choice stays, also if it is not among them."""
        now, found = self.value, list(entries)
        if now and now not in [text for _, text in found]:
            found.insert(
                0, next((one for one in self.entries if one[1] == now), (clean_line(now, 80), now))
            )
        if self._optional or not now:
            found.insert(0, self._none)
        self._show_entries(found)

    def put(self, text: str) -> None:
        """Choose a text; an empty one is no choice."""
        entries = list(self.entries)
        if text not in [one for _, one in entries]:
            entries.insert(0, (clean_line(text, 80), text) if text else self._none)
        if text and not self._optional and self._none in entries:
            entries.remove(self._none)
        self.value = text
        self._show_entries(entries)

    def _show_entries(self, entries: Iterable[tuple[str, str]]) -> None:
        self.entries = tuple(entries)
        self.refresh()
