"""Themes: dark, light, high contrast, one without any colour, and all of Textual's.

`ansi-dark` and `ansi-light`, which are Textual's, use the sixteen colours of the terminal itself,
and are what a terminal with no more colours begins with.
"""

from __future__ import annotations

from textual.theme import Theme

DEFAULT = "hudtui"
MONOCHROME = "monochrome"


def _theme(
    name: str,
    colours: str,
    *,
    dark: bool,
    lines: str,
    cursor: tuple[str, str],
    muted: tuple[str, str] | None = None,
    scrollbar: tuple[str, str] | None = None,
    selection: str | None = None,
) -> Theme:
    """Return a theme of hudtui's shape.

    Warnings, keys and amounts have the accent, bars the surface or the panel.

    Args:
        name: The theme's name.
        colours: Primary, secondary, accent, error, success, foreground, background, surface and
            panel.
        dark: Whether the background is dark.
        lines: The border of a pane with and without the focus.
        cursor: The background of the cursor with and without the focus; empty for Textual's own.
        muted: Texts that matter less, and those that are out of use; None for Textual's own.
        scrollbar: The scroll bar, also under the mouse; None or empty for Textual's own.
        selection: Selected text; None for Textual's own.
    """
    primary, secondary, accent, error, success, foreground, background, surface, panel = (
        colours.split()
    )
    border, blurred = lines.split()
    variables = {
        "border": border,
        "border-blurred": blurred,
        "block-cursor-background": cursor[0],
        "block-cursor-foreground": "#ffffff",
        "block-cursor-blurred-background": cursor[1],
        "footer-background": surface if dark else panel,
        "footer-key-foreground": accent,
        "input-selection-background": selection or "",
    }
    if muted is not None:
        quiet, disabled = muted
        variables |= {"foreground-muted": quiet, "foreground-disabled": disabled}
        if disabled:
            variables |= {"text-muted": quiet, "text-disabled": disabled}
    if scrollbar is not None:
        variables |= {
            "scrollbar": scrollbar[0],
            "scrollbar-background": surface,
            "scrollbar-hover": scrollbar[1],
        }
        variables["scrollbar-active"] = primary if dark else ""
    return Theme(
        name=name,
        primary=primary,
        secondary=secondary,
        accent=accent,
        warning=accent,
        error=error,
        success=success,
        foreground=foreground,
        background=background,
        surface=surface,
        panel=panel,
        dark=dark,
        variables={variable: colour for variable, colour in variables.items() if colour},
    )


_LIGHT_NAME = "hudtui-light"
_DARK = _theme(
    DEFAULT,
    "#5fb3d9 #3f7fa6 #e6b450 #f07178 #7fd17f #d7dce2 #10151b #161d25 #1e2731",
    dark=True,
    lines="#3a4a5a #2a3541",
    cursor=("#2f5f7a", "#22303c"),
    scrollbar=("#33424f", "#486074"),
    selection="#3f7fa6 45%",
)
_LIGHT = _theme(
    _LIGHT_NAME,
    "#0b6a94 #2b7ea6 #8a5a00 #b3261e #1e7a34 #1b232b #f6f8fa #eef2f5 #e1e8ee",
    dark=False,
    lines="#9fb0be #c6d1da",
    cursor=("#0b6a94", ""),
    muted=("#55606a", ""),
)
# A terminal of 256 colours shows the nearest of them, which for a dark grey with a little blue is
# navy: these are among them.
_DARK_256 = _theme(
    DEFAULT,
    "#5fafd7 #5f87af #d7af5f #ff8787 #87d787 #dadada #121212 #1c1c1c #262626",
    dark=True,
    lines="#4e4e4e #3a3a3a",
    cursor=("#005f87", "#303030"),
    muted=("#949494", "#626262"),
    scrollbar=("#4e4e4e", "#6c6c6c"),
    selection="#005f87",
)
_LIGHT_256 = _theme(
    _LIGHT_NAME,
    "#005f87 #5f87af #875f00 #af0000 #00875f #1c1c1c #ffffff #eeeeee #e4e4e4",
    dark=False,
    lines="#a8a8a8 #c6c6c6",
    cursor=("#005f87", "#dadada"),
    muted=("#585858", "#8a8a8a"),
    scrollbar=("#bcbcbc", ""),
)

_CONTRAST = _theme(
    "hudtui-contrast",
    "#00ffff #87d7ff #ffff00 #ff8080 #00ff00 #ffffff #000000 #000000 #262626",
    dark=True,
    lines="#ffffff #8a8a8a",
    cursor=("#ffff00", "#444444"),
    muted=("#d0d0d0", "#a8a8a8"),
    scrollbar=("#a8a8a8", "#ffffff"),
    selection="#0000ff",
)
_CONTRAST.variables |= {
    "block-cursor-foreground": "#000000",
    "block-cursor-blurred-foreground": "#ffffff",
    "scrollbar-background": "#262626",
}

_PLAIN = "ansi_default"
_COLOURS = (
    "primary",
    "secondary",
    "accent",
    "warning",
    "error",
    "success",
    "foreground",
    "background",
    "surface",
    "panel",
    "boost",
)
"""The colours of a theme that are no variables."""
_MONO = Theme(name=MONOCHROME, **dict.fromkeys(_COLOURS, _PLAIN), ansi=True)  # type: ignore[arg-type]
_MONO.variables |= {
    **{
        name: _PLAIN
        for name, value in _MONO.to_color_system().generate().items()
        if value.startswith("ansi_")
    },
    **dict.fromkeys(("ansi-background", "ansi-foreground", "foreground-disabled"), _PLAIN),
    "block-cursor-text-style": "reverse",
    "block-cursor-blurred-text-style": "underline",
    "input-cursor-text-style": "reverse",
    "button-focus-text-style": "reverse",
}

OWN: tuple[Theme, ...] = (_DARK, _LIGHT, _CONTRAST, _MONO)
"""The themes of hudtui. The monochrome one sends no colour at all: bold, underline and reverse
only."""


def themes_for(colours: str | None) -> tuple[Theme, ...]:
    """Return the themes of hudtui for a terminal.

    Args:
        colours: The terminal's colours as Rich calls them: `truecolor`, `256`, `standard` (16), or
            None.
    """
    return (_DARK_256, _LIGHT_256, _CONTRAST, _MONO) if colours == "256" else OWN


def default_theme(colours: str | None) -> str:
    """Return the name of the theme to begin with.

    With 16 colours a theme of the terminal's own colours.
    """
    return "ansi-dark" if colours == "standard" else DEFAULT
