"""The lines behind a log pane: a bounded buffer that numbers and searches them.

It does not depend on any screen. The buffer keeps lines unchanged, and cleans a line only when it
is shown, copied or saved. Appending a line is therefore cheap: the buffer accepts lines as fast as
the log can be split into them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum

from hudtui.core.text import clean

SHOWN_LENGTH = 4000
"""Characters of one line of a log that are shown and searched."""


class Level(IntEnum):
    """Levels of a line of a log."""

    NONE = 0
    DEBUG = 1
    INFO = 2
    WARNING = 3
    ERROR = 4


# Plain runs of capitals, looked up afterwards: an alternation of the words costs ten times as much.
_CAPITALS = re.compile(r"[A-Z]{4,8}")
_WORDS = {
    "CRITICAL": Level.ERROR,
    "FATAL": Level.ERROR,
    "ERROR": Level.ERROR,
    "PANIC": Level.ERROR,
    "WARNING": Level.WARNING,
    "WARN": Level.WARNING,
    "INFO": Level.INFO,
    "NOTICE": Level.INFO,
    "DEBUG": Level.DEBUG,
    "TRACE": Level.DEBUG,
}
_FIELD = re.compile(
    r"level[\"']?\s*[=:]\s*[\"']?(?:(crit\w*|fatal|error|panic)|(warn\w*)|(info|notice)"
    r"|(debug|trace))",
    re.IGNORECASE,
)
_START = re.compile(
    r"(?:(Traceback \(most recent call last\)|[\w.]*(?:Error|Exception)(?=: |$)"
    r"|(?:error|fatal|panic)(?=: ))|(warning(?=: )))"
)
_LEVELS = (Level.NONE, Level.ERROR, Level.WARNING, Level.INFO, Level.DEBUG)
_HEAD = 160
"""Characters at the beginning of a line in which its level is looked for."""


def level_of(line: str) -> tuple[Level, int, int]:
    """Return the level that a line names, and start and end of that word; NONE without one.

    Only upper-case words count in running text: "no error so far" is no error.
    """
    match = _START.match(line, 0, _HEAD)
    if match is None:
        for word in _CAPITALS.finditer(line, 0, _HEAD):
            level = _WORDS.get(word.group())
            if level is not None and _stands_alone(line, *word.span()):
                return (level, word.start(), word.end())
        if "level" in line[:_HEAD].lower():
            match = _FIELD.search(line, 0, _HEAD)
    if match is None:
        return Level.NONE, 0, 0
    group = match.lastindex or 0
    return _LEVELS[group], match.start(group), match.end(group)


def _stands_alone(line: str, start: int, end: int) -> bool:
    before, after = line[start - 1 : start], line[end : end + 1]
    return not (before.isalnum() or before in ("_", ".") or after.isalnum() or after == "_")


class LogBuffer:
    """The newest `cap` lines of a log. The number of a line never changes.

    The first line that was appended has the number 0; lines that are put before it have negative
    numbers.

    Args:
        cap: Largest number of lines in the buffer; when it is full, the oldest lines are dropped.
        shown: Number of characters of a line that are shown and searched. Copying and saving use
            the whole line.
    """

    def __init__(self, cap: int = 100_000, *, shown: int = SHOWN_LENGTH) -> None:
        self.cap, self.shown = cap, shown
        self.first = 0
        """Number of the oldest line in the buffer."""
        self.dropped = 0
        """Number of lines that were dropped for newer lines, or that were skipped because too many
        came at once."""
        self._lines: list[str] = []
        self._arrivals: list[tuple[int, float]] = []

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def end(self) -> int:
        """Number of the next line that is appended."""
        return self.first + len(self._lines)

    def raw(self, number: int) -> str:
        """Return a line of the buffer unchanged."""
        return self._lines[number - self.first]

    def longest(self, numbers: range) -> int:
        """Return the number of characters of the longest of these lines, before cleaning.

        0 without lines.
        """
        return max(
            map(len, self._lines[numbers.start - self.first : numbers.stop - self.first]), default=0
        )

    def text(self, number: int) -> str:
        """Return a line of the buffer as it is shown.

        Cleaned, with tabs expanded, and cut to `shown` characters.
        """
        raw = self._lines[number - self.first]
        if len(raw) <= self.shown:
            return raw if raw.isprintable() else clean(raw).expandtabs().replace("\n", " ")
        rest = len(raw) - self.shown
        return (
            clean(raw[: self.shown]).expandtabs().replace("\n", " ") + f" … {rest} more characters"
        )

    def append(self, lines: Sequence[str], at: float, *, skipped: int = 0) -> int:
        """Append lines and return how many old lines were dropped.

        Args:
            lines: The lines, without line ends.
            at: Time of their arrival, in seconds since the epoch.
            skipped: Number of lines before them that were not appended and that `dropped` counts
                already. If it is not 0, all lines of the buffer are dropped.
        """
        if len(lines) > self.cap or skipped:
            excess = max(len(lines) - self.cap, 0)
            lines = lines[excess:]
            gone = len(self._lines)
            self.first += gone + excess + skipped
            self.dropped += gone + excess
            self._lines.clear()
        else:
            gone = max(len(self._lines) + len(lines) - self.cap, 0)
            if gone:
                del self._lines[:gone]
                self.first += gone
                self.dropped += gone
        self._arrivals.append((self.end, at))
        while len(self._arrivals) > 1 and self._arrivals[1][0] <= self.first:
            del self._arrivals[0]
        self._lines.extend(lines)
        return gone

    def put_before(self, lines: Sequence[str], before: int) -> None:
        """Insert earlier lines before the line with the number `before`.

        They take the place of the lines that the buffer has there.

        Args:
            lines: The lines, without line ends; no more than there is room for.
            before: A number from `first` to `end`.
        """
        self._lines[: before - self.first] = lines
        self.first = before - len(lines)

    def clear(self) -> None:
        """Remove all lines. The numbers of later lines continue from the last one."""
        self.first = self.end
        self._lines.clear()
        self._arrivals.clear()

    def arrived(self, number: int) -> float | None:
        """Return when a line arrived, in seconds since the epoch.

        Lines that were appended together have the same time.
        """
        place = bisect_right(self._arrivals, (number, float("inf"))) - 1
        return self._arrivals[place][1] if place >= 0 else None

    def next_error(self, after: int) -> int | None:
        """Return the number of the first line from `after` on that is marked as an error.

        None without one.
        """
        for number in range(max(after, self.first), self.end):
            if level_of(self._lines[number - self.first])[0] is Level.ERROR:
                return number
        return None

    def search(self, matches: Callable[[str], bool], start: int, stop: int) -> Iterator[int]:
        """Yield the numbers of lines for which `matches` is true.

        The lines are those from `start` to before `stop`.
        """
        first = self.first
        for number in range(max(start, first), min(stop, self.end)):
            line = self._lines[number - first]
            if matches(line if len(line) <= self.shown else line[: self.shown]):
                yield number

    def everything(self, numbers: Sequence[int] | None = None) -> str:
        """Return lines in full as one cleaned text, for copying or saving.

        Without `numbers`, all lines.
        """
        chosen = (
            self._lines
            if numbers is None
            else [self._lines[number - self.first] for number in numbers]
        )
        return "".join(clean(line) + "\n" for line in chosen)
