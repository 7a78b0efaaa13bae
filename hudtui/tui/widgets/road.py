"""The five steps of a project as one line: key, sign and name of each, and a word where something is left to do."""

from __future__ import annotations

from collections.abc import Mapping

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from hudtui.core.text import plural
from hudtui.tui.facts import StationFact
from hudtui.tui.stations import GLYPHS, ROAD, SCREENS, STYLES, State, Station


class RoadBar(Widget):
    """Shows where the project stands; a click on a station opens it."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    RoadBar { height: 1; background: $surface; padding: 0 1; pointer: pointer; }
    """

    class Chosen(Message):
        """A station was clicked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self) -> None:
        super().__init__()
        self._stations: Mapping[str, StationFact] = {}
        self._current = ""
        self._spans: list[tuple[int, int, str]] = []

    def show(self, stations: Mapping[str, StationFact], current: str) -> None:
        """Show how the stations stand; `current` is the one on screen."""
        if (stations, current) != (self._stations, self._current):
            self._stations, self._current = stations, current
            self.refresh()

    def render(self) -> Content:
        """The widest of four forms that fits."""
        for form in range(4):
            parts, joint = self._parts(form)
            length = sum(cell_len(text) for _, text in parts) + cell_len(joint) * (len(parts) - 1)
            if length <= self.size.width or form == 3:
                break
        line = Content("")
        self._spans = []
        for index, (station, text) in enumerate(parts):
            if index:
                line += Content.styled(joint, "$foreground-muted")
            start = line.cell_length
            style = STYLES[self._state(station)]
            if station.name == self._current:
                # The place has a mark of its own, so that the colour says the state alone.
                lead = len(text) - len(text.lstrip())
                core = text.strip()
                line += Content(" " * lead) + Content.styled(core, f"{style} bold underline")
                line += Content(" " * (len(text) - lead - len(core)))
            else:
                line += Content.styled(text, style)
            self._spans.append((start, line.cell_length, station.name))
        return line

    def _state(self, station: Station) -> State:
        fact = self._stations.get(station.name)
        return fact.state if fact else "unknown"

    def _parts(self, form: int) -> tuple[list[tuple[Station, str]], str]:
        parts = []
        for station in ROAD:
            state = self._state(station)
            fact = self._stations.get(station.name)
            glyph = GLYPHS[state]
            word = " next" if state == "next" and form < 3 else ""
            if fact is not None and fact.errors:
                word = f" {plural(fact.errors, 'error')}" if form < 2 else f" {fact.errors}"
            name = station.title if form < 2 else station.short
            text = f"{station.key}{glyph}{name}{word}" if form == 3 else f"{station.key} {glyph} {name}{word}"
            parts.append((station, f" {text} " if form == 0 else text))
        return parts, (" ", "  ", "  ", " ")[form]

    def on_click(self, event: events.Click) -> None:
        """Open the station under the pointer."""
        x = event.get_content_offset(self)
        if x is None:
            return
        for start, end, name in self._spans:
            if start <= x.x < end and name in SCREENS:
                self.post_message(self.Chosen(name))
