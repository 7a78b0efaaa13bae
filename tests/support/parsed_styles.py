"""What Textual works out for each app anew is worked out once for all apps of a test session: style
sheets, and what finding and painting with them needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from unittest.mock import patch

from textual._styles_cache import StylesCache
from textual.css.model import RuleSet
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


@contextmanager
def light_styles() -> Iterator[None]:
    """Keep Textual's own memory of styles from costing more than it saves.

    The colours inside and outside a widget are kept for each widget there was, with all lines that
    it ever painted: some hundred thousand objects for the garbage collector. A rule is looked up by
    its identity, in Python: a hundred times for each widget.
    """
    colours: Any = StylesCache.get_inner_outer
    one_for_all = classmethod(lru_cache(1024)(colours.__wrapped__))
    with (
        patch.object(StylesCache, "get_inner_outer", one_for_all),
        patch.object(RuleSet, "__hash__", object.__hash__),
    ):
        yield
