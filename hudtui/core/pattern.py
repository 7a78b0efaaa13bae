"""A pattern that lines of text are searched for: literal words or a regular expression."""

from __future__ import annotations

import re
from collections.abc import Callable

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
