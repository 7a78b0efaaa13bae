"""Terminals without Unicode, and the contrast of the themes."""

import pathlib
import string

import pytest
from rich.cells import cell_len
from textual.color import Color
from textual.theme import Theme

import hudtui
from hudtui.tui.ascii import AsciiTable, wants_ascii
from hudtui.tui.theme import MONOCHROME, OWN


def test_every_sign_of_the_app_has_a_twin_of_the_same_width() -> None:
    sources = [
        path
        for path in pathlib.Path(hudtui.__file__).parent.rglob("*.py")
        if path.parent.name != "sim"
    ]
    used = {
        sign for path in sources for sign in path.read_text(encoding="utf-8") if not sign.isascii()
    }
    table = AsciiTable()
    for sign in sorted(used):
        plain = sign.translate(table)
        assert plain.isascii() and len(plain) == cell_len(sign), sign
    known = "✗–…✓○●─×■•·“”→█├↑↓★◆▲▼│░≤━└←►▏▍▌▋▊▉≥▁▂▃▄▅▆▇"
    assert "?" not in known.translate(table)
    assert len({sign.translate(table) for sign in "✓✗●○!"}) == 5, (
        "states are told apart by their signs"
    )


def test_other_text_keeps_its_width() -> None:
    table = AsciiTable()
    for text in ("日本語", "é", "e\u0301", "🚀", "⣿⠀", string.printable):
        plain = text.translate(table)
        assert plain.isascii() and len(plain) == (
            cell_len(text) if text != string.printable else len(text)
        ), text


@pytest.mark.parametrize(
    ("environ", "ascii_only"),
    [
        ({}, False),
        ({"LANG": "en_US.UTF-8"}, False),
        ({"LANG": "de_DE.utf8"}, False),
        ({"LC_ALL": "C"}, True),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, True),
        ({"LC_CTYPE": "en_US.ISO-8859-1", "LANG": "en_US.UTF-8"}, True),
        ({"LC_ALL": "", "LANG": "C.UTF-8"}, False),
        ({"LC_ALL": "C", "HUDTUI_ASCII": "off"}, False),
        ({"LANG": "en_US.UTF-8", "HUDTUI_ASCII": "1"}, True),
    ],
)
def test_the_locale_decides(environ: dict[str, str], ascii_only: bool) -> None:
    assert wants_ascii(environ) is ascii_only


def contrast(one: Color, other: Color) -> float:
    """The contrast ratio of WCAG 2.2, from 1 to 21."""

    def luminance(colour: Color) -> float:
        parts = [value / 255 for value in colour.rgb]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    "theme", [theme for theme in OWN if theme.name != MONOCHROME], ids=lambda theme: theme.name
)
def test_text_can_be_read_in_every_theme(theme: Theme) -> None:
    colours = theme.to_color_system().generate()
    least = 7.0 if theme.name == "hudtui-contrast" else 4.5
    for ground in ("background", "surface"):
        behind = Color.parse(colours[ground])
        for name in (
            "foreground",
            "foreground-muted",
            "success",
            "warning",
            "error",
            "accent",
            "primary",
        ):
            colour = Color.parse(colours[name])
            seen = behind.blend(colour, colour.a)
            assert contrast(behind, seen) >= least, f"{name} on {ground}"
    cursor = Color.parse(colours["block-cursor-background"])
    assert contrast(cursor, Color.parse(colours["block-cursor-foreground"])) >= least
