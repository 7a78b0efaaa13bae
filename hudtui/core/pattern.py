"""Patterns that text is searched for: literal words, or a regular expression.

`Pattern` is one that the user types; `LinearPattern` one from a file of someone else's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from hudtui.core.errors import InputError
from hudtui.core.text import clean_line


class Pattern:
    """A literal text or, with `regex`, a regular expression.

    Small letters match large ones as well, unless the pattern holds a large one. An invalid
    expression is searched for literally, and `error` says why it does not compile.
    """

    def __init__(self, text: str, *, regex: bool = False) -> None:
        self.text = text
        self.regex = regex
        self.exact = text != text.lower()
        self.error = ""
        flags = 0 if self.exact else re.IGNORECASE
        try:
            self._expression = re.compile(text if regex else re.escape(text), flags)
        except re.error as error:
            self.error = str(error)
            self._expression = re.compile(re.escape(text), flags)
            self.regex = False
        lower = text.lower()
        self.matches: Callable[[str], bool]
        """True for a line in which the pattern occurs."""
        if self.regex:
            self.matches = lambda line: self._expression.search(line) is not None
        elif self.exact:
            self.matches = lambda line: text in line
        else:
            self.matches = lambda line: lower in line.lower()

    def require_valid(self) -> None:
        """Check the expression.

        Raises:
            InputError: It is not a regular expression.
        """
        if self.error:
            what = f"{clean_line(self.text, 60)!r} is not a regular expression"
            raise InputError(what, why=self.error)

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Places in a line at which the pattern occurs: start and end."""
        matches = self._expression.finditer(line)
        return [match.span() for match in matches if match.end() > match.start()]


_PATTERN_MEMORY = 1 << 20
_HALVES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class LinearPattern:
    """A regular expression that is searched for in time linear in the text.

    RE2 has no back-references and no look-around, and its classes of characters are ASCII.
    """

    text: str

    @cached_property
    def error(self) -> str:
        """Why the pattern does not compile; empty for one that does."""
        try:
            _linear(self.text)
        except ValueError as error:
            return str(error)
        return ""

    def found_in(self, text: str) -> bool:
        """Return whether the pattern is found anywhere in a text.

        Raises:
            ValueError: The pattern does not compile.
        """
        encoded = _HALVES.sub("\ufffd", text).encode()
        return _linear(self.text).search(encoded) is not None


@lru_cache(maxsize=256)
def _linear(pattern: str) -> Any:
    """Return a pattern compiled by RE2.

    Raises:
        ValueError: It does not compile.
    """
    import re2

    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = _PATTERN_MEMORY, False, True
    try:
        return re2.compile(pattern, options)
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair") from None
    except re2.error as error:
        reason = error.args[0] if error.args else "unknown"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(text) from None
