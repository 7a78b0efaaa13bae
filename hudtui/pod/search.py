"""Searches a log where it lies: which lines match, and where in the log a moment is. Also decides what level a line has.

Standard library of Python 3.6 alone: as a program it runs on the machine of the log. Its source is an argument of the
interpreter, and one JSON object on standard input is the order:

- `{"path", "pattern", "regex", "level", "begin", "stop", "most", "span"}`: print `{"found": [[NUMBER, OFFSET, TEXT], ...],
  "next", "level"}`. `begin` and `next` are places in the log, `{"offset", "number", "level"}`; `next` is null at its end, or at
  the offset `stop`. Numbers of lines count from 0. About `span` bytes are searched; `level` is that of the last line.
- `{"times", "stage", "since"}`: print `{"offset"}`, where the log of a stage ended `since` seconds ago by the clock of the
  machine, from the sizes that the run's supervisor records; null if there are none.

Lines that cannot be read, and a pattern that is not a regular expression, are answered by `{"error"}`.
"""

import json
import re
import sys
import time
from enum import IntEnum
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

BLOCK = 1024 * 1024  # bytes that are read at once
LONGEST = 64 * 1024  # bytes of a line that are searched
SHOWN = 4000  # characters of a line that are sent
MOST = 2 * 1024 * 1024  # characters of an answer


class Level(IntEnum):
    """How serious a line is. A line that does not say is as serious as the one before it."""

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
    r"level[\"']?\s*[=:]\s*[\"']?(?:(crit\w*|fatal|error|panic)|(warn\w*)|(info|notice)|(debug|trace))", re.IGNORECASE
)
_START = re.compile(
    r"(?:(Traceback \(most recent call last\)|[\w.]*(?:Error|Exception)(?=: |$)|(?:error|fatal|panic)(?=: ))|(warning(?=: )))"
)
_LEVELS = (Level.NONE, Level.ERROR, Level.WARNING, Level.INFO, Level.DEBUG)
_HEAD = 160
"""Characters in which a line says how serious it is."""
_COLOUR = re.compile("\x1b\\[[0-9;:]*m")


def level_of(line: str) -> "Tuple[Level, int, int]":
    """Return what a line says of itself, and where: level, start and end of the word. NONE when it says nothing.

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


class Pattern:
    """What is searched for. Small letters match large ones as well, unless the pattern holds a large one.

    With `regex` it is a regular expression; an invalid expression is searched for literally.
    """

    def __init__(self, text: str, *, regex: bool = False) -> None:
        self.text = text
        self.regex = regex
        self.error = ""
        """Why the expression does not compile; empty when it does."""
        exact = text != text.lower()
        flags = 0 if exact else re.IGNORECASE
        try:
            self._expression = re.compile(text if regex else re.escape(text), flags)
        except re.error as error:
            self.error = str(error)
            self._expression = re.compile(re.escape(text), flags)
            self.regex = False
        lower = text.lower()
        self.matches: "Callable[[str], bool]"
        """Whether a line matches."""
        if self.regex:
            self.matches = lambda line: self._expression.search(line) is not None
        elif exact:
            self.matches = lambda line: text in line
        else:
            self.matches = lambda line: lower in line.lower()

    def spans(self, line: str) -> "List[Tuple[int, int]]":
        """Return where a line matches."""
        return [match.span() for match in self._expression.finditer(line) if match.end() > match.start()]


class LineTest:
    """Decides line by line whether a log's lines match; remembers the level of the line before.

    Args:
        pattern: Text that must occur; None for any line.
        regex: Whether the pattern is a regular expression.
        level: The line's level must be at least this.
        before: The level of the line before the first one.
    """

    def __init__(self, pattern: "Optional[str]" = None, *, regex: bool = True, level: int = 0, before: int = 0) -> None:
        self.pattern = None if not pattern else Pattern(pattern, regex=regex)
        self.level = level
        self.before = before
        """The level of the last line."""

    def __call__(self, line: str) -> bool:
        """Return whether the next line matches."""
        if self.level:
            self.before = level_of(line)[0] or self.before
            if self.before < self.level:
                return False
        return self.pattern is None or self.pattern.matches(line)


def plain_line(data: bytes) -> str:
    """Return a line as it is searched: what stands after its last carriage return, without colours."""
    text = data[:LONGEST].rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace")
    return _COLOUR.sub("", text) if "\x1b" in text else text


def lines(stream: Any, stop: int) -> "Iterator[Tuple[int, bytes]]":
    """Yield the lines of a file from where it stands up to a size, each with its offset; of a long one only its beginning."""
    offset, rest, cut = stream.tell(), b"", 0
    while True:
        block = stream.read(min(BLOCK, stop - offset - len(rest) - cut))
        if not block:
            if rest or cut:
                yield offset, rest
            return
        parts = (rest + block).split(b"\n")
        rest = parts.pop()
        for part in parts:
            yield offset, part
            offset += len(part) + cut + 1
            cut = 0
        if len(rest) > LONGEST:
            cut += len(rest) - LONGEST
            rest = rest[:LONGEST]


def search(order: "Dict[str, Any]") -> "Dict[str, Any]":
    """Carry out an order for a search."""
    begin = order.get("begin") or {}
    test = LineTest(order.get("pattern"), regex=order["regex"], level=order["level"], before=begin.get("level", 0))
    if test.pattern is not None and test.pattern.error:
        return {"error": "this is not a regular expression: %s" % test.pattern.error}
    found: "List[Any]" = []
    room, number = MOST, begin.get("number", 0)
    last = begin.get("offset", 0) + order.get("span", sys.maxsize)
    with open(order["path"], "rb") as stream:
        size = stream.seek(0, 2)
        size = size if order.get("stop") is None else min(size, order["stop"])
        stream.seek(begin.get("offset", 0))
        for offset, data in lines(stream, size):
            before = test.before
            if len(found) >= order["most"] or room <= 0 or offset > last:
                place = {"offset": offset, "number": number, "level": int(before)}
                return {"found": found, "next": place, "level": int(before)}
            line = plain_line(data)
            if test(line):
                text = line if len(line) <= SHOWN else "%s … [%d more characters]" % (line[:SHOWN], len(line) - SHOWN)
                found.append([number, offset, text])
                room -= len(text) + 40
            number += 1
    return {"found": found, "next": None, "level": int(test.before)}


def place_of(order: "Dict[str, Any]") -> "Dict[str, Any]":
    """Carry out an order for the place of a moment."""
    moment, offset = time.time() - order["since"], 0
    with open(order["times"], "rb") as stream:
        for line in stream:
            try:
                at, stage, size = json.loads(line.decode("utf-8", "replace"))
                if stage != order["stage"]:
                    continue
                if at > moment:
                    break
                offset = int(size)
            except (ValueError, TypeError):
                continue
    return {"offset": offset}


def main() -> None:
    """Read the order and print the answer."""
    try:
        order = json.loads(sys.stdin.buffer.read().decode("utf-8"))
        answer = place_of(order) if "times" in order else search(order)
    except FileNotFoundError:
        answer = {"found": [], "next": None, "offset": None}
    except OSError as error:
        answer = {"error": error.strerror or str(error)}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
