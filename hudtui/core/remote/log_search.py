"""Searching a log on the machine where it is: a log of gigabytes is searched to its beginning without being fetched."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePosixPath
from typing import Annotated, Any

import msgspec

from hudtui.core.errors import InputError, MachineError
from hudtui.core.plain import decode
from hudtui.core.python import isolated_python_command
from hudtui.core.remote.host import Host
from hudtui.core.text import clean, clean_line, failure_text
from hudtui.pod.search import Level as Level
from hudtui.pod.search import LineTest as LineTest
from hudtui.pod.search import Pattern as Pattern

MOST_FOUND = 1000
"""Lines that one request finds at most."""
SPAN = 64 * 1024 * 1024
"""Bytes that one request searches, about: between two requests a search can tell how far it is, and be cancelled."""
_PATIENCE = 120.0
"""Seconds that one request may take."""


@dataclass(frozen=True)
class LogFilter:
    """Which lines of a log are wanted."""

    pattern: str = ""
    """What a line must contain; empty for any line. Small letters match large ones, unless the pattern holds a large one."""
    regex: bool = True
    """Whether the pattern is a regular expression."""
    level: Level = Level.NONE
    """The lowest level of a line. A line that does not say its level has the level of the line before."""

    def test(self, before: Level = Level.NONE) -> LineTest:
        """Return a test for lines that are given to it in order.

        Raises:
            InputError: The pattern is not a regular expression.
        """
        test = LineTest(self.pattern or None, regex=self.regex, level=self.level, before=before)
        if test.pattern is not None and test.pattern.error:
            raise InputError(f"{clean_line(self.pattern, 60)!r} is not a regular expression", why=test.pattern.error)
        return test


@dataclass(frozen=True)
class LogMatch:
    """A line that was found."""

    number: int
    """Number of the line, counted from 0."""
    offset: int
    """Byte offset of the line in the log."""
    text: str
    """The line, cleaned; of a long one the beginning."""


@dataclass(frozen=True)
class SearchProgress:
    """How far a search is."""

    offset: int | None
    """Byte offset up to which the log is searched; None when the search has come to its end."""
    level: Level
    """The level of the last line that was searched, where a level is searched for."""


class _Place(msgspec.Struct, frozen=True):
    offset: Annotated[int, msgspec.Meta(ge=0)]
    number: Annotated[int, msgspec.Meta(ge=0)]
    level: Annotated[int, msgspec.Meta(ge=0, le=4)]


class _Answer(msgspec.Struct, frozen=True):
    found: list[tuple[int, int, str]] = msgspec.field(default_factory=list)
    next: _Place | None = None
    level: Annotated[int, msgspec.Meta(ge=0, le=4)] = 0
    offset: int | None = None
    error: str = ""


async def search_log(
    host: Host,
    path: PurePosixPath | str,
    wanted: LogFilter,
    *,
    offset: int = 0,
    stop: int | None = None,
    most: int | None = None,
    progress: Callable[[SearchProgress], None] = lambda _: None,
) -> AsyncGenerator[LogMatch, None]:
    """Yield the lines of a log that match, in order, to the end that the log has when each request begins.

    Consume it inside `contextlib.aclosing` when leaving early: the machine searches only as far as lines are asked for, in
    requests of `MOST_FOUND` lines or `SPAN` bytes. A log that does not exist has no lines. The machine needs Python 3. `offset`
    and `stop` are byte offsets; numbers of lines count from the first one. `most` limits the lines to yield; `progress` is called
    after each request.

    Raises:
        InputError: The pattern is not a regular expression.
        MachineError: The machine does not answer, has no Python 3, cannot read the log, or takes longer than two minutes.
    """
    wanted.test()
    order = {
        "path": str(path),
        "pattern": wanted.pattern,
        "regex": wanted.regex,
        "level": int(wanted.level),
        "stop": stop,
        "span": SPAN,
    }
    begin: dict[str, int] | None = {"offset": offset, "number": 0, "level": 0}
    left = sys.maxsize if most is None else most
    while begin is not None and left > 0:
        answer = await _ask(host, {**order, "begin": begin, "most": min(left, MOST_FOUND)})
        for number, place, text in answer.found:
            yield LogMatch(number, place, clean(text).replace("\n", " "))
        left -= len(answer.found)
        after = answer.next
        if after is not None and not answer.found and after.offset <= begin["offset"]:
            raise MachineError(f"the search of {path} on {clean_line(host.name)} does not advance")
        begin = None if after is None else {"offset": after.offset, "number": after.number, "level": after.level}
        progress(SearchProgress(None if after is None else after.offset, Level(answer.level)))


async def offset_of_time(host: Host, times: PurePosixPath | str, stage: str, since: float) -> int | None:
    """Return the byte offset in a stage's log of `since` seconds ago, exact to some seconds.

    The machine needs Python 3. `times` is the file `log_times.jsonl` in the run's folder; `since` counts in seconds before now,
    by the clock of the machine.

    Returns:
        The offset; None if the run's supervisor has not recorded when its logs grew.

    Raises:
        MachineError: The machine does not answer, has no Python 3, or cannot read the file.
    """
    return (await _ask(host, {"times": str(times), "stage": stage, "since": since})).offset


async def _ask(host: Host, order: dict[str, Any]) -> _Answer:
    source = resources.files("hudtui.pod").joinpath("search.py").read_text()
    python = sys.executable if host.name == "local" else "python3"
    done = await host.run(isolated_python_command(python, "-c", source), stdin=msgspec.json.encode(order), timeout=_PATIENCE)
    try:
        answer = decode(done.stdout, _Answer)
    except (msgspec.DecodeError, RecursionError) as error:
        said = failure_text(done.stderr, 500) or f"it printed {clean_line(done.stdout, 200)!r}; {clean_line(str(error), 200)}"
        why = f"status {done.exit_status}: {said}"
        raise MachineError(f"the log could not be searched on {clean_line(host.name)}", why=why) from None
    if answer.error:
        raise MachineError(f"the log could not be searched on {clean_line(host.name)}", why=clean_line(answer.error, 300))
    if len(answer.found) > order.get("most", 0):
        why = f"it answered with {len(answer.found)} lines, and {order.get('most', 0)} were asked for"
        raise MachineError(f"the log could not be searched on {clean_line(host.name)}", why=why)
    return answer
