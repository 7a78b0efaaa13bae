"""Themes in terminals with fewer colours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.color import Color, ColorSystem

from hudtui.tui import preferences
from hudtui.tui.app import HudtuiApp
from hudtui.tui.theme import OWN, themes_for


def test_the_colours_of_a_terminal_with_256_are_among_them() -> None:
    themes = themes_for("256")
    assert [theme.name for theme in themes] == [theme.name for theme in OWN]
    for theme in themes[:2]:
        own = {
            theme.primary,
            theme.secondary,
            theme.accent,
            theme.warning,
            theme.error,
            theme.success,
            theme.foreground,
        }
        own |= {theme.background, theme.surface, theme.panel, *theme.variables.values()}
        for name in (str(one) for one in own if one):
            colour = Color.parse(name)
            kept = colour.downgrade(ColorSystem.EIGHT_BIT).get_truecolor()
            if len(set(colour.get_truecolor())) == 1:  # a grey stays a grey, at most a step darker
                assert len(set(kept)) == 1 and abs(kept.red - colour.get_truecolor().red) <= 10, (
                    f"{theme.name}: {name}"
                )
            else:
                assert kept.hex == name, f"{theme.name}: {name} becomes {kept.hex}"


@pytest.mark.parametrize(
    ("environment", "chosen", "theme"),
    [
        ({"TERM": "xterm", "COLORTERM": ""}, None, "ansi-dark"),
        ({"TERM": "xterm", "COLORTERM": ""}, "hudtui-light", "hudtui-light"),
        ({"TERM": "xterm-256color", "COLORTERM": ""}, None, "hudtui"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, None, "hudtui"),
        ({"TERM": "xterm", "COLORTERM": "", "NO_COLOR": "1"}, None, "monochrome"),
    ],
)
async def test_the_theme_fits_the_terminal(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    chosen: str | None,
    theme: str,
    settle: Any,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    app = HudtuiApp(project)
    if chosen is not None:
        preferences.change(app.places.state / preferences.FILE, theme=chosen)
        app = HudtuiApp(project)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert app.theme == theme
        background = app.screen.styles.background.hex
        assert (background == "#121212") == (
            environment["TERM"] == "xterm-256color" and not environment["COLORTERM"]
        )
