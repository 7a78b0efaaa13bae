"""The lines behind a log pane: a bounded buffer that numbers, grades and searches them. Knows nothing of any screen.

Lines are kept as they came; they are cleaned when they are shown, copied or saved. So taking in a line costs next to nothing,
and a flood is taken in as fast as it can be split into lines.
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
    """The newest `cap` lines of a log. A line keeps its number for ever; the first that came in is 0, earlier ones are negative.

    Args:
        cap: Lines that are held; the oldest ones make room.
        shown: Characters of one line that are shown and searched. Copying and saving take all of it.
    """

    def __init__(self, cap: int = 100_000, *, shown: int = SHOWN_LENGTH) -> None:
        self.cap, self.shown = cap, shown
        self.first = 0
        """Number of the oldest line that is held."""
        self.dropped = 0
        """Lines that made room for newer ones, or that never came in because too many came at once."""
        self.sources: tuple[str, ...] = ()
        """The names that lines begin with, in lines that come from several sources; see `named`."""
        self.lead = 0
        """Characters that the name of a line's source takes."""
        self._lines: list[str] = []
        self._levels: bytearray | None = None
        self._last: dict[str, int] = {}
        self._arrivals: list[tuple[int, float]] = []

    def __len__(self) -> int:
        return len(self._lines)

    def name_sources(self, names: Sequence[str]) -> None:
        """Expect lines of these sources from now on; of none, lines without a name."""
        self.sources = tuple(names)
        self.lead = max(map(len, names)) + 3 if names else 0

    def named(self, source: str, lines: Iterable[str]) -> list[str]:
        """Return lines with the name of their source in front, which takes no part in their levels."""
        lead = f"{source:<{self.lead - 3}} | "
        return [lead + line for line in lines]

    @property
    def end(self) -> int:
        """Number that the next line will get."""
        return self.first + len(self._lines)

    def raw(self, number: int) -> str:
        """A held line as it came."""
        return self._lines[number - self.first]

    def longest(self, numbers: Sequence[int]) -> int:
        """Characters of the longest of these held lines, as it came; 0 where there is none."""
        if isinstance(numbers, range):
            return max(map(len, self._lines[numbers.start - self.first : numbers.stop - self.first]), default=0)
        return max((len(self._lines[number - self.first]) for number in numbers), default=0)

    def text(self, number: int) -> str:
        """A held line as it is shown: cleaned, tabs expanded, cut."""
        raw = self._lines[number - self.first]
        if len(raw) <= self.shown:
            return raw if raw.isprintable() else clean(raw).expandtabs().replace("\n", " ")
        rest = len(raw) - self.shown
        return clean(raw[: self.shown]).expandtabs().replace("\n", " ") + f" … {rest} more characters"

    def append(self, lines: Sequence[str], at: float, *, skipped: int = 0) -> int:
        """Take in lines; the number of old ones that had to go.

        Args:
            lines: Without line ends.
            at: Unix time of their arrival.
            skipped: Lines before them that never came in, and are counted as dropped already. All that are held go.
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
        """Put earlier lines before the held line with the number `before`; those in front of that line go.

        Args:
            lines: Without line ends, as many as there is room for.
            before: A number from `first` to `end`.
        """
        self._lines[: before - self.first] = lines
        self.first = before - len(lines)
        if self._levels is not None:
            self._levels = bytearray()
            self._grade()

    def ungrade(self) -> None:
        """Levels are no longer needed: stop grading new lines."""
        self._levels = None

    def clear(self) -> None:
        """Forget the lines. Numbers continue."""
        self.first = self.end
        self._lines.clear()
        self._arrivals.clear()
        if self._levels is not None:
            self._levels.clear()

    def arrived(self, number: int) -> float | None:
        """Unix time of a line's arrival, exact to its batch."""
        place = bisect_right(self._arrivals, (number, float("inf"))) - 1
        return self._arrivals[place][1] if place >= 0 else None

    def level(self, number: int) -> Level:
        """How serious a held line is. The first question grades all lines; later ones cost nothing."""
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
        """Numbers of the held lines from `start` on that are at least this serious."""
        start = max(start, self.first)
        if start >= self.end:
            return []
        self.level(start)
        assert self._levels is not None
        wanted = int(level)
        return [number for number, own in enumerate(self._levels[start - self.first :], start) if own >= wanted]

    def next_error(self, after: int) -> int | None:
        """Number of the first line from `after` on that says itself that it is an error."""
        for number in range(max(after, self.first), self.end):
            if level_of(self._lines[number - self.first][self.lead :])[0] is Level.ERROR:
                return number
        return None

    def search(self, matches: Callable[[str], bool], start: int, stop: int) -> Iterator[int]:
        """Numbers of the held lines in a range for which `matches` is true."""
        first = self.first
        for number in range(max(start, first), min(stop, self.end)):
            line = self._lines[number - first]
            if matches(line if len(line) <= self.shown else line[: self.shown]):
                yield number

    def everything(self, numbers: Sequence[int] | None = None) -> str:
        """Held lines as text that is safe to keep, cleaned and complete."""
        chosen = self._lines if numbers is None else [self._lines[number - self.first] for number in numbers]
        return "".join(clean(line) + "\n" for line in chosen)
