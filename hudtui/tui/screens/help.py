"""Help for the screen one comes from: what it is for, and every key that works there."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from hudtui.tui.keymap import Action, ActiveKey, keys_of, shown
from hudtui.tui.screens.base import StationScreen
from hudtui.tui.stations import GLYPHS, ROAD, WORDS
from hudtui.tui.widgets.dialog import Dialog
from hudtui.tui.widgets.fit import pad


class HelpScreen(Dialog[None]):
    """Made from the actions that the focus could reach when help was asked for."""

    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("help.close", "Close", "Close the help.", "question_mark,q,f1", palette=False),
    )

    def __init__(self, screen: Screen[object], keys: list[ActiveKey], keymap_file: str) -> None:
        super().__init__()
        self._from, self._keys, self._keymap_file = screen, keys, keymap_file

    def compose(self) -> ComposeResult:
        """Purpose, keys by group, signs."""
        title = self._from.TITLE or "this screen"
        with Vertical(classes="dialog -wide"):
            yield Static(Content(f"Help: {title}"), classes="dialog-title")
            with VerticalScroll(classes="dialog-body -tall"):
                yield Static(self._body())
            yield Static(Content("↑↓ scroll   Esc close"), classes="dialog-keys")

    def _body(self) -> Content:
        parts: list[Content] = []
        if isinstance(self._from, StationScreen) and self._from.HELP:
            parts += [Content(self._from.HELP), Content("")]
        groups: dict[str, list[ActiveKey]] = {}
        for key in self._keys:
            if key.node is self._from:
                group = "On this screen"
            elif key.node is self.app:
                group = "Everywhere"
            else:
                group = f"In the focused pane ({key.action.scope})"
            groups.setdefault(group, []).append(key)
        for group, keys in groups.items():
            parts.append(Content.styled(group, "bold $primary"))
            for key in keys:
                names = ", ".join(shown(name) for name in keys_of(key.action, self.app._keymap))
                line = Content.assemble((f" {pad(names, 12)}", "bold $accent"), pad(key.action.title, 18), key.action.tooltip)
                if key.why_not:
                    line += Content.styled(f" Not now: {key.why_not}.", "$warning")
                parts.append(line)
            parts.append(Content(""))
        parts.append(Content.styled("Signs on the road", "bold $primary"))
        parts.append(
            Content(" " + "   ".join(f"{GLYPHS[state]} {WORDS[state]}" for state in ("done", "next", "missing", "running")))
        )
        parts += [
            Content(f" {len(ROAD)} stations: " + ", ".join(f"{station.key} {station.title}" for station in ROAD)),
            Content(""),
            Content(f'Keys can be changed in {self._keymap_file}: lines like  "home.next" = "n".'),
            Content("Shift and drag selects text with the terminal's own means."),
        ]
        return Content("\n").join(parts)
