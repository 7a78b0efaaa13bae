"""What the parts of the configuration's reader share: findings with their places, and words for values."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from hudtui.core.gym.lint.findings import Finding, Fix, Severity, TextEdit
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from hudtui.core.yaml_doc import YamlDocument

_WORDS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}

Steps = tuple[str | int, ...]
"""Keys and indexes from the top of the document to a value."""


class ReaderBase:
    """Reads one document; what is wrong with it gathers in `findings`."""

    def __init__(self, document: YamlDocument) -> None:
        self.document = document
        self.findings: list[Finding] = []

    def report(
        self,
        code: str,
        severity: Severity,
        message: str,
        path: Steps,
        *,
        at_value: bool = False,
        mapping: str | None = None,
        parameter: str | None = None,
        place: tuple[int, int] | None = None,
        fix: Fix | None = None,
        guess: Fix | None = None,
    ) -> None:
        """Add a finding at the key of `path`, at its value, or at a place given as line and column."""
        mark = self.document.value_mark(path) if at_value else self.document.mark(path)
        line, column = place or (mark.line, mark.column)
        if mapping is None and len(path) >= 2 and path[0] == "action_mappings":
            mapping = str(path[1])
            parameter = str(path[2]) if len(path) >= 3 and not str(path[2]).startswith("_") else parameter
        end = mark.end_column if place is None and mark.end_line == line else None
        message = clean_line(message, 400)
        self.findings.append(Finding(code, severity, message, line, column, end, mapping, parameter, fix, guess))

    def rename(self, path: Steps, word: str) -> Fix:
        """The fix that spells a key right."""
        mark = self.document.mark(path)
        return Fix(f"rename to `{word}`", (TextEdit(mark.line, mark.column, mark.end_line, mark.end_column, word),))

    def unknown(self, key: str, known: Collection[str], path: Steps, what: str) -> None:
        """Report a key that means nothing; a misspelt one louder than one that belongs to another program."""
        if key in known:
            return
        nearest = nearly(key, known)
        if nearest is None:
            self.report("unknown-key", "info", f"{what} has a key `{short(key)}` that is not interpreted", (*path, key))
        else:
            self.report(
                "unknown-key",
                "warning",
                f"{what} has a key `{short(key)}` that means nothing; did you mean `{nearest}`?",
                (*path, key),
                fix=None if nearest in self._at(path) else self.rename((*path, key), nearest),
            )

    def _at(self, path: Steps) -> Any:
        value = self.document.data
        for step in path:
            value = value[step]
        return value

    def flag(self, value: Any, path: Steps, default: bool = False) -> bool:
        """A value that is true or false; `default` and a finding when it is neither."""
        # hud-vf-gym reads YAML 1.1, where `yes` and `on` are booleans; as flags they keep that meaning.
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in _WORDS:
            return _WORDS[value.lower()]
        self.report("type", "error", f"`{path[-1]}` is true or false, not {kind_of(value)}", path, at_value=True)
        return default


def nearly(word: str, known: Iterable[str]) -> str | None:
    """The known key that a word was certainly meant to be, or None."""
    if len(word) > 60:
        return None
    found = difflib.get_close_matches(word.lower(), list(known), 1, 0.75)
    return found[0] if found else None


def short(text: str) -> str:
    """A user's text for the inside of a message."""
    return clean_line(text, 60)


def kind_of(value: Any) -> str:
    """What a value is, in words."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    return {dict: "a mapping", list: "a list", str: "a text", int: "a number", float: "a number"}.get(type(value), "this")


def shown(value: Any) -> str:
    """A value for the inside of a message: itself when it is short, else what it is."""
    if isinstance(value, dict | list) or value is None:
        return kind_of(value)
    return short(
        f'"{value}"' if isinstance(value, str) else "true" if value is True else "false" if value is False else str(value)
    )
