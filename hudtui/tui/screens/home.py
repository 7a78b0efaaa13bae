"""Home: where the project stands, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.text import clean_line
from hudtui.tui.facts import Facts
from hudtui.tui.keymap import Action
from hudtui.tui.screens.base import StationScreen
from hudtui.tui.stations import GLYPHS, ROAD, SCREENS, STYLES, WORDS
from hudtui.tui.widgets.fit import cut, pad


class HomeScreen(StationScreen):
    """The road in detail, the next step, the newest runs, the files of the project."""

    NAME = "home"
    TITLE = "home"
    HELP = (
        "The road from an environment to a watched run. Each station shows whether it is done, next, missing or running; "
        "Enter goes to the next one, 1 to 5 open any of them."
    )
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("home.next", "Next step", "Open the station that comes next.", "enter"),
        Action("home.demo", "Demo workspace", "Put a small working example (the game 2048) into this folder.", "d"),
    )

    def content(self) -> Iterable[Widget]:
        """One scrolling column."""
        with VerticalScroll(id="home-scroll"):
            yield Static(id="home-body")

    def on_mount(self) -> None:
        """Show the frame; the facts follow."""
        super().on_mount()
        if self.shell.facts is None:
            self._body().update(Content.styled("Looking at the project…", "$text-muted"))

    def on_resize(self) -> None:
        """Lines are cut to the width."""
        if self.shell.facts is not None:
            self._show(self.shell.facts)

    def facts_changed(self, facts: Facts) -> None:
        """Show the project."""
        self._show(facts)
        self.refresh_bindings()

    def why_not(self, action_id: str) -> str | None:
        """Why the next step or the demo is not to be had."""
        facts = self.shell.facts
        if facts is None:
            return "the project is still being read"
        if action_id == "home.next" and facts.next_station not in SCREENS:
            return "every station is passed" if facts.next_station is None else "that station has no screen"
        if action_id == "home.demo" and not facts.empty:
            return "this folder holds a project already; start `hudtui demo NEWFOLDER` instead"
        return None

    def action_next(self) -> None:
        """Open the next station."""
        facts = self.shell.facts
        if facts is not None and facts.next_station is not None:
            self.shell.open_station(facts.next_station)

    def action_demo(self) -> None:
        """Make the demo workspace here."""
        self.start(self.shell.make_demo(), group="demo", busy="Writing the demo workspace")

    def _body(self) -> Static:
        return self.query_one("#home-body", Static)

    def _show(self, facts: Facts) -> None:
        width = max(self.size.width - 4, 20)
        parts: list[Content] = []
        if facts.empty:
            parts += [
                Content.styled("Welcome to hudtui: from an environment to a watched training run.", "bold"),
                Content("This folder holds no project yet."),
                Content.assemble(
                    "Press ",
                    ("d", "bold $accent"),
                    " for a demo workspace that runs at once, or ",
                    ("1", "bold $accent"),
                    " to look at an environment of yours.",
                ),
                Content(""),
            ]
        parts.append(Content.styled("The road", "bold $primary"))
        for station in ROAD:
            fact = facts.station(station.name)
            style = STYLES[fact.state]
            name = pad(station.title, 12)
            word = pad(WORDS[fact.state], 8)
            detail = clean_line(fact.detail) or station.question
            parts.append(
                Content.assemble(
                    (f" {station.key} ", "bold $accent" if station.name in SCREENS else "$text-muted"),
                    (f"{GLYPHS[fact.state]} {name}", style),
                    (word, style),
                    cut(detail, max(width - 26, 10)),
                )
            )
        parts.append(Content(""))
        self._body().update(Content("\n").join(parts))
