"""Themes in terminals with fewer colours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.color import Color, ColorSystem

from hudtui.core.paths import app_paths
from hudtui.tui import preferences
from hudtui.tui.app import HudtuiApp
from hudtui.tui.palette import ThemePick
from hudtui.tui.theme import OWN, themes_for
from hudtui.tui.user_themes import load_themes


def test_the_colours_of_a_terminal_with_256_are_among_them() -> None:
    themes = themes_for("256")
    assert [theme.name for theme in themes] == [theme.name for theme in OWN]
    for theme in themes[:2]:
        own = {theme.primary, theme.secondary, theme.accent, theme.warning, theme.error, theme.success, theme.foreground}
        own |= {theme.background, theme.surface, theme.panel, *theme.variables.values()}
        for name in (str(one) for one in own if one):
            colour = Color.parse(name)
            kept = colour.downgrade(ColorSystem.EIGHT_BIT).get_truecolor()
            if len(set(colour.get_truecolor())) == 1:  # a grey stays a grey, at most a step darker
                assert len(set(kept)) == 1 and abs(kept.red - colour.get_truecolor().red) <= 10, f"{theme.name}: {name}"
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
    project: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], chosen: str | None, theme: str, settle: Any
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
        assert (background == "#121212") == (environment["TERM"] == "xterm-256color" and not environment["COLORTERM"])


NIGHT = """\
primary = "#5fb3d9"
background = "#010203"
dark = true
text_alpha = 0.9

[variables]
border = "red 50%"
"block-cursor-text-style" = "bold reverse"
"""


def _write(name: str, text: str) -> Path:
    path = app_paths().config / "themes" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "before", "after", "words"),
    [
        ("night", '"#5fb3d9"', '"bleu"', "line 1: primary: 'bleu' is not a colour; write one such as"),
        ("night", "background", "backgruond", "line 2: backgruond: there is no such field; did you mean background?"),
        ("night", "dark = true", 'dark = "yes"', "line 3: dark: write true or false"),
        ("night", "0.9", "9", "line 4: text_alpha: write a number from 0 to 1"),
        ("night", "border =", "broder =", "line 7: broder: there is no such variable; did you mean border?"),
        ("night", "red 50%", "red;", "line 7: border: 'red;' is not a colour"),
        ("night", "bold reverse", "loud", "line 8: block-cursor-text-style: 'loud' is not a style"),
        ("night", "[variables]", "[variables", "(at line 6, column 11)"),
        ("night", 'primary = "#5fb3d9"', "", "primary: a theme needs it"),
        ("night", NIGHT, 'primary = "red"\nvariables = 1', "line 2: variables: write a table"),
        ("night", "border =", "background-darken-1 =", "variables: write this without a percentage: failed to parse 'red 50%'"),
        ("monochrome", "", "", "there is a theme monochrome already; give the file another name"),
        ("my night", "", "", "name the file with letters"),
        ("night", NIGHT, f"primary = {'[' * 5000}", "themes/night.toml"),
    ],
)
def test_a_mistake_in_a_theme_is_named_with_its_line(name: str, before: str, after: str, words: str) -> None:
    path = _write(f"{name}.toml", NIGHT.replace(before, after, 1))
    themes, (complaint,) = load_themes(path.parent)
    assert not themes and complaint.startswith(f"themes/{name}.toml is not used: ") and words in complaint


async def test_a_theme_of_the_user_is_shown_while_it_is_written(
    project: Path, open_app: Any, settle: Any, screen_text: Any
) -> None:
    _write("night.toml", NIGHT)
    _write("broken.toml", "primary = 1")
    (project / "themes").mkdir()
    (project / "themes" / "theirs.toml").write_text(NIGHT)
    preferences.change(app_paths().state / preferences.FILE, theme="night")
    async with open_app(project, size=(120, 35)) as (app, pilot):
        await settle(pilot)
        assert app.theme == "night" and app.screen.styles.background.hex == "#010203"
        assert "themes/broken.toml is not used: line 1: primary: 1 is not a colour" in app.screen.message
        assert "theirs" not in app.available_themes, "a project brings no themes"
        _write("night.toml", NIGHT.replace("#010203", "#040506"))
        app.action_theme()
        await settle(pilot)
        assert isinstance(app.screen, ThemePick) and "● night" in screen_text(app)
        assert app.screen_stack[0].styles.background.hex == "#040506"
        await pilot.press("down")
        assert app.theme == "hudtui"
        await pilot.press("escape")
        await settle(pilot)
        assert app.theme == "night"
