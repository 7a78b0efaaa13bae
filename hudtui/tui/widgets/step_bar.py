"""The five steps of a project as one line.

Key, sign and name of each, errors, and how many runs are in progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from hudtui.core.text import plural
from hudtui.tui.actions import keymap_of, with_keys
from hudtui.tui.steps import GLYPHS, STEPS, STYLES, ScreenStep, State

if TYPE_CHECKING:
    from hudtui.tui.facts import StepFact


class StepBar(Widget):
    """Shows where the project stands; a click on a step opens it."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    StepBar { height: 1; background: $surface; padding: 0 1; pointer: pointer; }
    """

    @dataclass
    class Chosen(Message):
        """A step was clicked."""

        name: str

    def __init__(self) -> None:
        super().__init__()
        self._steps: Mapping[str, StepFact] = {}
        self._current = ""
        self._in_progress = 0
        self._spans: list[tuple[int, int, str]] = []

    def show(self, steps: Mapping[str, StepFact], current: str, running: int = 0) -> None:
        """Show how the steps stand.

        `current` is the one on screen, `running` the number of runs in progress.
        """
        if (steps, current, running) != (self._steps, self._current, self._in_progress):
            self._steps, self._current, self._in_progress = steps, current, running
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
        for index, (step, text) in enumerate(parts):
            if index:
                line += Content.styled(joint, "$foreground-muted")
            start = line.cell_length
            style = STYLES[self._state(step)]
            if step.name == self._current:
                # The place has a mark of its own, so that the colour says the state alone.
                lead = len(text) - len(text.lstrip())
                core = text.strip()
                line += Content(" " * lead) + Content.styled(core, f"{style} bold underline")
                line += Content(" " * (len(text) - lead - len(core)))
            else:
                line += Content.styled(text, style)
            self._spans.append((start, line.cell_length, step.name))
        return line

    def _state(self, step: ScreenStep) -> State:
        fact = self._steps.get(step.name)
        return fact.state if fact else "unknown"

    def _parts(self, form: int) -> tuple[list[tuple[ScreenStep, str]], str]:
        parts = []
        for step in STEPS:
            state = self._state(step)
            fact = self._steps.get(step.name)
            sign = GLYPHS[state]
            if fact is not None and fact.errors:
                sign += f" {fact.errors}"
            name = step.title if form < 2 else step.short
            if step.name == "run" and self._in_progress:
                name = plural(self._in_progress, "run")
            key = with_keys(f"{{key:app.open-{step.name}}}", keymap_of(self.app))
            text = f"{key}{sign}{name}" if form == 3 else f"{key} {sign} {name}"
            parts.append((step, f" {text} " if form == 0 else text))
        return parts, (" ", "  ", "  ", " ")[form]

    def on_click(self, event: events.Click) -> None:
        x = event.get_content_offset(self)
        if x is None:
            return
        for start, end, name in self._spans:
            if start <= x.x < end:
                self.post_message(self.Chosen(name))
