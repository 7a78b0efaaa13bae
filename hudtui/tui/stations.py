"""The road: which stations there are, which key opens each, and which screen serves it.

A screen is named by module and class and imported when it is opened for the first time, so that it costs nothing before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from hudtui.tui.screens.base import StationScreen

State = Literal["done", "next", "missing", "running", "failed", "unknown"]
"""State of a station: passed, next, not passed yet, in progress, failed, or not checked yet."""

GLYPHS: Mapping[State, str] = {"done": "✓", "next": "►", "missing": "○", "running": "●", "failed": "✗", "unknown": "·"}
"""One cell each, and each readable without colour."""

WORDS: Mapping[State, str] = {
    "done": "done",
    "next": "next",
    "missing": "missing",
    "running": "running",
    "failed": "failed",
    "unknown": "…",
}

STYLES: Mapping[State, str] = {
    "done": "$success",
    "next": "bold $accent",
    "missing": "$foreground-muted",
    "running": "bold $success",
    "failed": "bold $error",
    "unknown": "$foreground-muted",
}


@dataclass(frozen=True)
class Station:
    """A stop on the road."""

    name: str
    key: str
    title: str
    short: str
    """For narrow terminals: at most four letters."""
    question: str
    """What this station answers."""


ROAD: tuple[Station, ...] = (
    Station("environment", "1", "environment", "env", "What can the agent do here?"),
    Station("mapping", "2", "mapping", "map", "What may it say?"),
    Station("dataset", "3", "dataset", "data", "Which tasks?"),
    Station("compute", "4", "compute", "gpu", "On which machine?"),
    Station("run", "5", "run", "run", "How is it going?"),
)

SCREENS: dict[str, str] = {
    "home": "hudtui.tui.screens.home:HomeScreen",
    "settings": "hudtui.tui.screens.settings:SettingsScreen",
    "environment": "hudtui.tui.screens.environment:EnvironmentScreen",
    "mapping": "hudtui.tui.screens.mapping:MappingScreen",
    "dataset": "hudtui.tui.screens.dataset:DatasetScreen",
    "compute": "hudtui.tui.screens.compute:ComputeScreen",
    "run": "hudtui.tui.screens.run:RunScreen",
    "launch": "hudtui.tui.screens.launch:LaunchScreen",
    "watch": "hudtui.tui.screens.watch:WatchScreen",
}
"""Name -> "module:Class". Holds only screens that exist; a station without one is not offered."""


def screen_class(name: str) -> type[StationScreen]:
    """The class of a screen, imported now.

    Raises:
        KeyError: No screen has this name.
    """
    module, _, attribute = SCREENS[name].partition(":")
    found: type[StationScreen] = getattr(import_module(module), attribute)
    return found
