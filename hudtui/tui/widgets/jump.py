"""A letter on each field, pane and tab that is in sight, to go there by."""

from __future__ import annotations

from string import ascii_uppercase, digits

from textual import events
from textual.app import ComposeResult
from textual.geometry import Offset
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static, Tab, Tabs

from hudtui.tui.widgets.dialog import Dialog
from hudtui.tui.widgets.pane import Pane, Panes

_LETTERS = "asdfghjklqwertyuiopzxcvbnm" + ascii_uppercase + digits


class Jump(Dialog[Widget | None]):
    """Gives the widget whose letter was typed; None when it is left.

    Args:
        screen: The screen below, whose widgets get letters.
    """

    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    Jump { align: left top; background: $background 30%; }
    Jump > .jump-letter {
        position: absolute; width: auto; height: 1;
        background: $accent; color: $background; text-style: bold;
    }
    Jump > #jump-hint { dock: bottom; width: 1fr; height: 1; padding: 0 1; background: $panel; }
    .-theme-monochrome Jump > .jump-letter { text-style: bold reverse; }
    """

    def __init__(self, screen: Screen[object]) -> None:
        super().__init__()
        self._below = screen.size
        places: dict[Offset, Widget] = {
            place: pane for panes in screen.query(Panes) for pane, place in panes.hidden()
        }
        for widget in screen.focus_chain:
            for one in widget.query(Tab) if isinstance(widget, Tabs) else (widget,):
                if not one.display:  # a tab that is hidden is in no layout
                    continue
                region = screen.find_widget(one).visible_region
                place = region.offset
                while place in places:
                    place += Offset(2, 0)
                if region:
                    places[place] = one
        self.targets = dict(zip(_LETTERS, places.items(), strict=False))
        """For each letter, its place on the screen and its widget."""

    def compose(self) -> ComposeResult:
        for letter, (place, widget) in self.targets.items():
            mark = Static(
                letter if isinstance(widget, Tab | Pane) else f" {letter} ", classes="jump-letter"
            )
            mark.styles.offset = place
            yield mark
        yield Static(
            self.words("Type a letter to go there; {key:dialog.cancel} stays here."),
            id="jump-hint",
            markup=False,
        )

    def on_resize(self) -> None:
        if self.app.size != self._below and self.is_current:
            self.dismiss(None)

    def on_key(self, event: events.Key) -> None:
        if event.character in self.targets:
            event.stop()
            self.dismiss(self.targets[event.character][1])


def go(target: Widget | None) -> None:
    """Give a widget the focus; show a tab or a pane first."""
    if isinstance(target, Tab):
        pane = next(node for node in target.ancestors if isinstance(node, Pane))
        pane.turn_to((target.id or "").removeprefix("--content-tab-"))
    elif isinstance(target, Pane):
        next(node for node in target.ancestors if isinstance(node, Panes)).open(target)
    elif target is not None and target.is_attached:
        target.focus()
