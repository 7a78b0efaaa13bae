"""Themes of the user's own: `themes/NAME.toml` in the configuration folder, with the fields of Textual's `Theme`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.css.constants import VALID_STYLE_FLAGS
from textual.theme import BUILTIN_THEMES, Theme

from hudtui.core.errors import InputError
from hudtui.core.files import read_text
from hudtui.core.text import clean_line, did_you_mean
from hudtui.tui.theme import COLOURS, OWN

_SHARES = ("luminosity_spread", "text_alpha")
_STYLES = VALID_STYLE_FLAGS - {"none", "not"}
_MOST = 100
"""Files that are read."""


def load_themes(folder: Path) -> tuple[tuple[Theme, ...], tuple[str, ...]]:
    """Return the themes in a folder, and what is wrong with its files, one sentence each; a wrong file is no theme."""
    themes, complaints = [], []
    for path in sorted(folder.glob("*.toml"))[:_MOST]:
        try:
            themes.append(_theme(path.stem, read_text(path, limit=1_000_000)))
        except (ValueError, RecursionError, InputError) as error:
            complaints.append(clean_line(f"{folder.name}/{path.name} is not used: {error}", 300))
    return tuple(themes), tuple(complaints)


def _theme(name: str, text: str) -> Theme:
    """Return the theme in a file.

    Raises:
        ValueError: The file is wrong; the words begin with the line where that is known.
    """
    data = tomllib.loads(text)
    if re.fullmatch(r"[A-Za-z0-9_-]{1,40}", name) is None:
        raise ValueError("name the file with letters, digits, - and _; its name is the theme's")
    if name in BUILTIN_THEMES or name in [theme.name for theme in OWN]:
        raise ValueError(f"there is a theme {name} already; give the file another name")
    variables = data.pop("variables", {})
    wrong = _wrong_field(data) or (_wrong_variable(variables) if isinstance(variables, dict) else ("variables", "write a table"))
    if wrong is not None:
        field, words = wrong
        found = re.compile(rf"""\s*(\[\s*)?["']?{re.escape(field)}["']?\s*[=\]]""").match
        lines = [number for number, line in enumerate(text.splitlines(), 1) if found(line)]
        raise ValueError("".join([f"line {lines[0]}: " if lines else "", f"{field}: {words}"]))
    theme = Theme(name=name, variables=variables, **data)
    try:
        theme.to_color_system().generate()
    except ColorParseError as error:  # a variable from which others are worked out
        raise ValueError(f"variables: write this without a percentage: {error}") from None
    return theme


def _wrong_field(data: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the first field that is wrong, and what to write."""
    for field, value in data.items():
        if field in COLOURS:
            if not _is_colour(value):
                return field, f'{value!r} is not a colour; write one such as "#5fb3d9" or "red"'
        elif field == "dark":
            if not isinstance(value, bool):
                return field, "write true or false"
        elif field in _SHARES:
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                return field, "write a number from 0 to 1"
        else:
            return field, f"there is no such field{_near(field, (*COLOURS, 'dark', *_SHARES, 'variables'))}"
    return None if "primary" in data else ("primary", 'a theme needs it; write a colour such as "#5fb3d9"')


def _wrong_variable(variables: Mapping[str, Any]) -> tuple[str, str] | None:
    known = BUILTIN_THEMES["textual-dark"].to_color_system().generate()
    for name, value in variables.items():
        if name not in known:
            return name, f"there is no such variable{_near(name, known)}"
        if "style" in name:
            if value != "none" and not (isinstance(value, str) and value.strip() and set(value.split()) <= _STYLES):
                return name, f"{value!r} is not a style; write words such as bold, underline, reverse or none"
        elif not isinstance(value, str) or not (_is_colour(re.sub(r"\s+\d{1,3}%$", "", value)) or value == known[name]):
            return name, f'{value!r} is not a colour; write one such as "#5fb3d9" or "red 50%"'
    return None


def _near(name: str, known: Collection[str]) -> str:
    near = did_you_mean(name, known)
    return f"; did you mean {near}?" if near else ""


def _is_colour(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(Color.parse(value))
    except ColorParseError:
        return False
