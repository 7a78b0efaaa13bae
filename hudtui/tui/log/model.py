"""The lines behind a log pane: a bounded buffer that numbers, grades and searches them. It does not depend on any screen.

The buffer keeps lines unchanged, and cleans a line only when it is shown, copied or saved. Appending a line is therefore cheap:
the buffer accepts lines as fast as the log can be split into them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

from hudtui.core.text import clean
from hudtui.pod.search import Level as Level
from hudtui.pod.search import Pattern as Pattern
from hudtui.pod.search import level_of as level_of

SHOWN_LENGTH = 4000
"""Characters of one line of a log that are shown and searched."""


class LogBuffer:
    """The newest `cap` lines of a log. The number of a line never changes.

    The first line that was appended has the number 0; lines that are put before it have negative numbers.

    Args:
        cap: Largest number of lines in the buffer; when it is full, the oldest lines are dropped.
        shown: Number of characters of a line that are shown and searched. Copying and saving use the whole line.
    """

    def __init__(self, cap: int = 100_000, *, shown: int = SHOWN_LENGTH) -> None:
        self.cap, self.shown = cap, shown
        self.first = 0
        """Number of the oldest line in the buffer."""
        self.dropped = 0
        """Number of lines that were dropped for newer lines, or that were skipped because too many came at once."""
        self.sources: tuple[str, ...] = ()
        """Names of the sources that lines begin with, if the log merges several sources; see `named`."""
        self.lead = 0
        """Width of the name of a line's source, in characters."""
        self._lines: list[str] = []
        self._levels: bytearray | None = None
        self._last: dict[str, int] = {}
        self._arrivals: list[tuple[int, float]] = []

    def __len__(self) -> int:
        return len(self._lines)

    def name_sources(self, names: Sequence[str]) -> None:
        """Expect lines that begin with one of these source names; without names, expect lines without a source."""
        self.sources = tuple(names)
        self.lead = max(map(len, names)) + 3 if names else 0

    def named(self, source: str, lines: Iterable[str]) -> list[str]:
        """Return the lines with the name of their source in front. The name does not affect the level of a line."""
        lead = f"{source:<{self.lead - 3}} | "
        return [lead + line for line in lines]

    @property
    def end(self) -> int:
        """Number of the next line that is appended."""
        return self.first + len(self._lines)

    def raw(self, number: int) -> str:
        """Return a line of the buffer unchanged."""
        return self._lines[number - self.first]

    def longest(self, numbers: Sequence[int]) -> int:
        """Return the number of characters of the longest of these lines, before cleaning; 0 without lines."""
        if isinstance(numbers, range):
            return max(map(len, self._lines[numbers.start - self.first : numbers.stop - self.first]), default=0)
        return max((len(self._lines[number - self.first]) for number in numbers), default=0)

    def text(self, number: int) -> str:
        """Return a line of the buffer as it is shown: cleaned, with tabs expanded, and cut to `shown` characters."""
        raw = self._lines[number - self.first]
        if len(raw) <= self.shown:
            return raw if raw.isprintable() else clean(raw).expandtabs().replace("\n", " ")
        rest = len(raw) - self.shown
        return clean(raw[: self.shown]).expandtabs().replace("\n", " ") + f" … {rest} more characters"

    def append(self, lines: Sequence[str], at: float, *, skipped: int = 0) -> int:
        """Append lines and return how many old lines were dropped.

        Args:
            lines: The lines, without line ends.
            at: Time of their arrival, in seconds since the epoch.
            skipped: Number of lines before them that were not appended and that `dropped` counts already. If it is not 0, all
                lines of the buffer are dropped.
        """
        if len(lines) > self.cap or skipped:
            excess = max(len(lines) - self.cap, 0)
            lines = lines[excess:]
            gone = len(self._lines)
            self.first += gone + excess + skipped
            self.dropped += gone + excess
            self._lines.clear()
            if self._levels is not None:
                self._levels.clear()
        else:
            gone = max(len(self._lines) + len(lines) - self.cap, 0)
            if gone:
                del self._lines[:gone]
                self.first += gone
                self.dropped += gone
                if self._levels is not None:
                    del self._levels[:gone]
        self._arrivals.append((self.end, at))
        while len(self._arrivals) > 1 and self._arrivals[1][0] <= self.first:
            del self._arrivals[0]
        self._lines.extend(lines)
        if self._levels is not None:
            self._grade()
        return gone

    def put_before(self, lines: Sequence[str], before: int) -> None:
        """Insert earlier lines before the line with the number `before`, in place of the lines that the buffer has there.

        Args:
            lines: The lines, without line ends; no more than there is room for.
            before: A number from `first` to `end`.
        """
        self._lines[: before - self.first] = lines
        self.first = before - len(lines)
        if self._levels is not None:
            self._levels = bytearray()
            self._grade()

    def ungrade(self) -> None:
        """Stop grading new lines, because levels are no longer needed."""
        self._levels = None

    def clear(self) -> None:
        """Remove all lines. The numbers of later lines continue from the last one."""
        self.first = self.end
        self._lines.clear()
        self._arrivals.clear()
        if self._levels is not None:
            self._levels.clear()

    def arrived(self, number: int) -> float | None:
        """Return when a line arrived, in seconds since the epoch; lines that were appended together have the same time."""
        place = bisect_right(self._arrivals, (number, float("inf"))) - 1
        return self._arrivals[place][1] if place >= 0 else None

    def level(self, number: int) -> Level:
        """Return the level of a line. The first call grades all lines; later calls are cheap."""
        if self._levels is None:
            self._levels = bytearray()
            self._grade()
        return Level(self._levels[number - self.first])

    def _grade(self) -> None:
        levels, lead = self._levels, self.lead
        assert levels is not None
        last = self._last if levels else {}
        for line in self._lines[len(levels) :]:
            source = line[:lead]
            last[source] = level_of(line[lead:])[0] or last.get(source, 0)
            levels.append(last[source])
        self._last = last

    def at_least(self, level: Level, start: int) -> list[int]:
        """Return the numbers of the lines from `start` on whose level is at least `level`."""
        start = max(start, self.first)
        if start >= self.end:
            return []
        self.level(start)
        assert self._levels is not None
        wanted = int(level)
        return [number for number, own in enumerate(self._levels[start - self.first :], start) if own >= wanted]

    def next_error(self, after: int) -> int | None:
        """Return the number of the first line from `after` on that is marked as an error; None without one."""
        for number in range(max(after, self.first), self.end):
            if level_of(self._lines[number - self.first][self.lead :])[0] is Level.ERROR:
                return number
        return None

    def search(self, matches: Callable[[str], bool], start: int, stop: int) -> Iterator[int]:
        """Yield the numbers of the lines from `start` to before `stop` for which `matches` is true."""
        first = self.first
        for number in range(max(start, first), min(stop, self.end)):
            line = self._lines[number - first]
            if matches(line if len(line) <= self.shown else line[: self.shown]):
                yield number

    def everything(self, numbers: Sequence[int] | None = None) -> str:
        """Return lines in full as one cleaned text, for copying or saving; without `numbers`, all lines."""
        chosen = self._lines if numbers is None else [self._lines[number - self.first] for number in numbers]
        return "".join(clean(line) + "\n" for line in chosen)
