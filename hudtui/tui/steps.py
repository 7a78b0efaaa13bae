"""The steps of a project: the key that opens each, and the screen that shows it.

A screen is named by module and class and imported when it is opened for the first time, so that it
costs nothing before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from hudtui.tui.screen import HudtuiScreen

State = Literal["done", "next", "missing", "running", "failed", "unknown"]
"""State of a step: done, next, not done yet, in progress, failed, or not checked yet."""

GLYPHS: Mapping[State, str] = {
    "done": "✓",
    "next": "►",
    "missing": "○",
    "running": "●",
    "failed": "✗",
    "unknown": "·",
}
"""One cell each, and each readable without colour."""

STYLES: Mapping[State, str] = {
    "done": "$success",
    "next": "bold $accent",
    "missing": "$foreground-muted",
    "running": "bold $success",
    "failed": "bold $error",
    "unknown": "$foreground-muted",
}


@dataclass(frozen=True)
class ScreenStep:
    """One step from an environment to a run."""

    name: str
    key: str
    title: str
    short: str
    """For narrow terminals: at most four letters."""
    question: str
    """What this step answers."""


STEPS: tuple[ScreenStep, ...] = (
    ScreenStep("environment", "1", "environment", "env", "What can the agent do here?"),
    ScreenStep("mapping", "2", "mapping", "map", "What may it say?"),
    ScreenStep("dataset", "3", "dataset", "data", "Which tasks?"),
    ScreenStep("compute", "4", "compute", "gpu", "On which machine?"),
    ScreenStep("run", "5", "run", "run", "How is it going?"),
)

SCREENS: dict[str, str] = {
    "home": "hudtui.tui.home.screen:HomeScreen",
    "settings": "hudtui.tui.settings.screen:SettingsScreen",
    "environment": "hudtui.tui.environment.screen:EnvironmentScreen",
    "mapping": "hudtui.tui.mapping.screen:MappingScreen",
    "playing": "hudtui.tui.playing.screen:PlayingScreen",
    "dataset": "hudtui.tui.dataset.screen:DatasetScreen",
    "compute": "hudtui.tui.compute.screen:ComputeScreen",
    "run": "hudtui.tui.runs.screen:RunScreen",
    "launch": "hudtui.tui.launch.screen:LaunchScreen",
    "results": "hudtui.tui.results.screen:ResultsScreen",
}
"""Name -> "module:Class"."""


def screen_class(name: str) -> type[HudtuiScreen]:
    """The class of a screen, imported now.

    Raises:
        KeyError: No screen has this name.
    """
    module, _, attribute = SCREENS[name].partition(":")
    found: type[HudtuiScreen] = getattr(import_module(module), attribute)
    return found
