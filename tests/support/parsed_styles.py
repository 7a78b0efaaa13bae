"""Style sheets are parsed once for all apps of a test session: each app would parse those of
Textual and of hudtui again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from textual.css.stylesheet import Stylesheet


@contextmanager
def parsed_once() -> Iterator[None]:
    """Keep the rules of every style sheet for the colours that it was parsed with. Rules do not
    change once they are parsed."""
    parse_rules = Stylesheet._parse_rules
    kept: dict[Any, Any] = {}
    last: tuple[Any, frozenset[tuple[str, str]]] = (None, frozenset())

    def parsed(sheet: Stylesheet, css: str, read_from: Any, *args: Any, **more: Any) -> Any:
        nonlocal last
        if sheet._variables is not last[0]:  # a theme brings a dictionary of its own
            last = (sheet._variables, frozenset(sheet._variables.items()))
        key = (css, read_from, args, *more.items(), last[1])
        if key not in kept:
            kept[key] = parse_rules(sheet, css, read_from, *args, **more)
        return kept[key]

    with patch.object(Stylesheet, "_parse_rules", parsed):
        yield
