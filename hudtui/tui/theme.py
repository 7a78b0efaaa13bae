"""Themes: dark, light, high contrast, one without any colour, and all of Textual's.

`ansi-dark` and `ansi-light`, which are Textual's, use the sixteen colours of the terminal itself, and are what a terminal with no
more colours begins with.
"""

from __future__ import annotations

from textual.theme import Theme

DEFAULT = "hudtui"
MONOCHROME = "monochrome"

_DARK = Theme(
    name=DEFAULT,
    primary="#5fb3d9",
    secondary="#3f7fa6",
    accent="#e6b450",
    warning="#e6b450",
    error="#f07178",
    success="#7fd17f",
    foreground="#d7dce2",
    background="#10151b",
    surface="#161d25",
    panel="#1e2731",
    dark=True,
    variables={
        "border": "#3a4a5a",
        "border-blurred": "#2a3541",
        "block-cursor-background": "#2f5f7a",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-blurred-background": "#22303c",
        "footer-background": "#161d25",
        "footer-key-foreground": "#e6b450",
        "input-selection-background": "#3f7fa6 45%",
        "scrollbar": "#33424f",
        "scrollbar-background": "#161d25",
        "scrollbar-hover": "#486074",
        "scrollbar-active": "#5fb3d9",
    },
)

_LIGHT = Theme(
    name="hudtui-light",
    primary="#0b6a94",
    secondary="#2b7ea6",
    accent="#8a5a00",
    warning="#8a5a00",
    error="#b3261e",
    success="#1e7a34",
    foreground="#1b232b",
    background="#f6f8fa",
    surface="#eef2f5",
    panel="#e1e8ee",
    dark=False,
    variables={
        "border": "#9fb0be",
        "border-blurred": "#c6d1da",
        "foreground-muted": "#55606a",
        "block-cursor-background": "#0b6a94",
        "block-cursor-foreground": "#ffffff",
        "footer-background": "#e1e8ee",
        "footer-key-foreground": "#8a5a00",
    },
)

_CONTRAST = Theme(
    name="hudtui-contrast",
    primary="#00ffff",
    secondary="#87d7ff",
    accent="#ffff00",
    warning="#ffff00",
    error="#ff8080",
    success="#00ff00",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#262626",
    dark=True,
    variables={
        "border": "#ffffff",
        "border-blurred": "#8a8a8a",
        "foreground-muted": "#d0d0d0",
        "foreground-disabled": "#a8a8a8",
        "text-muted": "#d0d0d0",
        "text-disabled": "#a8a8a8",
        "block-cursor-background": "#ffff00",
        "block-cursor-foreground": "#000000",
        "block-cursor-blurred-background": "#444444",
        "block-cursor-blurred-foreground": "#ffffff",
        "footer-background": "#000000",
        "footer-key-foreground": "#ffff00",
        "input-selection-background": "#0000ff",
        "scrollbar": "#a8a8a8",
        "scrollbar-background": "#262626",
        "scrollbar-hover": "#ffffff",
        "scrollbar-active": "#00ffff",
    },
)

_PLAIN = "ansi_default"
_MONO = Theme(
    name=MONOCHROME,
    primary=_PLAIN,
    secondary=_PLAIN,
    accent=_PLAIN,
    warning=_PLAIN,
    error=_PLAIN,
    success=_PLAIN,
    foreground=_PLAIN,
    background=_PLAIN,
    surface=_PLAIN,
    panel=_PLAIN,
    boost=_PLAIN,
    ansi=True,
    variables={
        name: _PLAIN
        for name in (
            "ansi-background",
            "ansi-foreground",
            "text",
            "text-muted",
            "text-disabled",
            "foreground-muted",
            "background-muted",
            "foreground-disabled",
            *(f"{part}-muted" for part in ("primary", "secondary", "accent", "warning", "error", "success")),
            "block-cursor-foreground",
            "block-cursor-background",
            "block-cursor-blurred-foreground",
            "block-cursor-blurred-background",
            "block-hover-background",
            "border",
            "border-blurred",
            "scrollbar",
            "scrollbar-hover",
            "scrollbar-active",
            "scrollbar-background",
            "scrollbar-background-hover",
            "scrollbar-background-active",
            "scrollbar-corner-color",
            "link-color",
            "link-color-hover",
            "link-background-hover",
            "footer-key-foreground",
            "input-cursor-background",
            "input-cursor-foreground",
            "input-selection-background",
            "input-selection-foreground",
            "screen-selection-background",
            "screen-selection-foreground",
            "button-foreground",
            "button-color-foreground",
            *(f"markdown-h{level}-color" for level in range(1, 7)),
        )
    }
    | {
        "block-cursor-text-style": "reverse",
        "block-cursor-blurred-text-style": "underline",
        "input-cursor-text-style": "reverse",
        "button-focus-text-style": "reverse",
    },
)

# A terminal of 256 colours shows the nearest of them, which for a dark grey with a little blue is navy: these are among them.
_DARK_256 = Theme(
    name=DEFAULT,
    primary="#5fafd7",
    secondary="#5f87af",
    accent="#d7af5f",
    warning="#d7af5f",
    error="#ff8787",
    success="#87d787",
    foreground="#dadada",
    background="#121212",
    surface="#1c1c1c",
    panel="#262626",
    dark=True,
    variables=_DARK.variables
    | {
        "border": "#4e4e4e",
        "border-blurred": "#3a3a3a",
        "foreground-muted": "#949494",
        "foreground-disabled": "#626262",
        "text-muted": "#949494",
        "text-disabled": "#626262",
        "block-cursor-background": "#005f87",
        "block-cursor-blurred-background": "#303030",
        "footer-background": "#1c1c1c",
        "footer-key-foreground": "#d7af5f",
        "input-selection-background": "#005f87",
        "scrollbar": "#4e4e4e",
        "scrollbar-background": "#1c1c1c",
        "scrollbar-hover": "#6c6c6c",
        "scrollbar-active": "#5fafd7",
    },
)

_LIGHT_256 = Theme(
    name="hudtui-light",
    primary="#005f87",
    secondary="#5f87af",
    accent="#875f00",
    warning="#875f00",
    error="#af0000",
    success="#00875f",
    foreground="#1c1c1c",
    background="#ffffff",
    surface="#eeeeee",
    panel="#e4e4e4",
    dark=False,
    variables=_LIGHT.variables
    | {
        "border": "#a8a8a8",
        "border-blurred": "#c6c6c6",
        "foreground-muted": "#585858",
        "foreground-disabled": "#8a8a8a",
        "text-muted": "#585858",
        "text-disabled": "#8a8a8a",
        "block-cursor-background": "#005f87",
        "block-cursor-blurred-background": "#dadada",
        "footer-background": "#e4e4e4",
        "footer-key-foreground": "#875f00",
        "scrollbar": "#bcbcbc",
        "scrollbar-background": "#eeeeee",
    },
)

OWN: tuple[Theme, ...] = (_DARK, _LIGHT, _CONTRAST, _MONO)
"""The themes of hudtui. The monochrome one sends no colour at all: bold, underline and reverse only."""


def themes_for(colours: str | None) -> tuple[Theme, ...]:
    """Return the themes of hudtui for a terminal.

    Args:
        colours: The terminal's colours as Rich calls them: `truecolor`, `256`, `standard` (16), or None.
    """
    return (_DARK_256, _LIGHT_256, _CONTRAST, _MONO) if colours == "256" else OWN


def default_theme(colours: str | None) -> str:
    """Return the name of the theme to begin with: with 16 colours one that uses the terminal's own."""
    return "ansi-dark" if colours == "standard" else DEFAULT
