"""Searching a log on its machine by `grep`, so that a log of gigabytes is not fetched.

`grep` finds the lines that may match, and the lines are judged here, as they are shown: without
colours, and without what a progress bar has drawn over. So a pattern finds the same lines on every
machine. A machine whose `grep` cannot do this has its log read instead.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import PurePosixPath

from hudtui.core.errors import MachineError
from hudtui.core.pattern import Pattern
from hudtui.core.remote.host import Host, file_size
from hudtui.core.remote.logs import offset_of_last_lines
from hudtui.core.text import clean, clean_line, failure_text

SPAN = 256 * 1024 * 1024
"""Bytes that one command searches, about: progress is reported in between."""
_ANSWER = 8 * 1024 * 1024
"""Bytes that one command may print. A search with more of them takes further commands."""
_LONGEST = 64 * 1024
"""Bytes of a line that are searched."""
_SHOWN = 4000
"""Characters of a line that are kept."""
_PIECE = 1024 * 1024
"""Bytes that are read at once where `grep` cannot be used."""
_PATIENCE = 120.0
"""Seconds that one command may take."""

# Arguments: path, first byte counted from 1, bytes, flags, expression, longest line, longest
# answer. A hole of null characters, as in a log that was emptied while it was written, becomes
# empty lines: grep would take it for one line and hold it in memory. The last line shows that the
# answer is whole.
_SCRIPT = r"""
export LC_ALL=C
for tool in tail head tr cut; do
  command -v $tool > /dev/null || { echo "end 127"; exit; }
done
exec < "$1" || exit 3
tail -c +"$2" | head -c "$3" | tr '\000' '\n' |
{ grep "$4" -e "$5"; echo "end $?"; } | cut -b -"$6" | head -c "$7"
"""
_LINE = re.compile(r"(\d{1,18}):(.*)")
_END = re.compile(r"end (\d{1,3})\n\Z")
_SPECIAL = re.compile(r"[][\\.^$*+?{}()|]")
_DIALECT = re.compile(r"\{,|\[\[:|\(\?[aLux]")
"""Finds parts of expressions that mean something else to grep than to Python."""


class _NoGrep(Exception):
    """The machine has no `grep` that knows these options or this expression."""


@dataclass(frozen=True)
class LogMatch:
    """A line that matches."""

    offset: int
    """Byte offset of the line in the log."""
    text: str
    """The line, cleaned; the beginning of a long one."""


async def search_log(
    host: Host,
    path: PurePosixPath | str,
    pattern: Pattern,
    *,
    offset: int = 0,
    stop: int | None = None,
    most: int | None = None,
    progress: Callable[[int | None], None] = lambda _: None,
) -> AsyncGenerator[LogMatch, None]:
    """Yield the lines of a log that match, in order.

    `offset` and `stop` are byte offsets; by default the search ends at the present end of the log.
    A log that does not exist has no lines. `most` limits the lines. `progress` receives the byte
    offset that the search has come to, and None at its end. Consume it inside `aclosing` when
    leaving early.

    Raises:
        MachineError: The machine does not answer within two minutes, or cannot read the log.
    """
    size = await file_size(host, path)
    end = size if stop is None else min(size, stop)
    search = _Search(host, str(path), pattern)
    remaining = most
    while offset < end and remaining != 0:
        upto = await _line_before(host, path, offset, min(offset + SPAN, end), end)
        async with aclosing(search.lines(offset, upto)) as lines:
            async for place, raw in lines:
                text = _as_shown(raw)
                if not pattern.matches(text):
                    continue
                yield LogMatch(place, _shortened(text))
                if remaining is not None and (remaining := remaining - 1) == 0:
                    break
        offset = upto
        if offset < end:
            progress(offset)
    progress(None)


async def _line_before(
    host: Host, path: PurePosixPath | str, begin: int, place: int, end: int
) -> int:
    """Offset at which the line around `place` begins, so that no line is cut; `end` for the end."""
    if place >= end:
        return end
    start = await offset_of_last_lines(host, path, 1, end=place)
    return start if start > begin else place


@dataclass
class _Search:
    """The search for one pattern in one log."""

    host: Host
    path: str
    pattern: Pattern
    grep: bool = True

    async def lines(self, begin: int, end: int) -> AsyncGenerator[tuple[int, str], None]:
        """Yield the lines between two offsets that may match, each with its offset."""
        last = begin - 1
        while self.grep:
            try:
                lines, complete = await self._grep(max(last, begin), end)
            except _NoGrep:
                self.grep = False
                break
            for place, text in lines:
                if place > last:
                    last = place
                    yield place, text
            if complete:
                return
        async with aclosing(self._read(max(last, begin), end)) as pieces:
            async for place, text in pieces:
                if place > last:
                    yield place, text

    async def _grep(self, begin: int, end: int) -> tuple[list[tuple[int, str]], bool]:
        """Lines that may match, and True if these are all; otherwise more follow the last one."""
        flags, expression = grep_expression(self.pattern)
        bounds = (str(begin + 1), str(end - begin))
        limits = (str(_LONGEST), str(_ANSWER))
        command = ["sh", "-c", _SCRIPT, "sh", self.path, *bounds, flags, expression, *limits]
        done = await self.host.run(command, timeout=_PATIENCE)
        ending = _END.search(done.stdout)
        lines = []
        for row in done.stdout.split("\n")[:-1]:
            line = _LINE.fullmatch(row)
            if line is not None and int(line[1]) < end - begin:
                lines.append((begin + int(line[1]), line[2]))
        status = int(ending[1]) if ending is not None else None
        if status is not None and status < 2:
            return lines, True
        machine, why = clean_line(self.host.name), failure_text(done.stderr, 300) or ""
        if status is not None and "PCRE" in why and "limit" in why:
            fix = "Write a simpler expression, or search for words."
            raise MachineError(f"the expression takes too long on {machine}", why=why, fix=fix)
        if status is not None:
            raise _NoGrep
        # A line that was printed before may be all that a command brings: then nothing follows it.
        if len(lines) > 1:
            return lines, False
        why = why or f"it printed {clean_line(done.stdout, 200)!r}"
        raise MachineError(f"{self.path} could not be searched on {machine}", why=why)

    async def _read(self, begin: int, end: int) -> AsyncGenerator[tuple[int, str], None]:
        """Yield all lines between two offsets, of a long one the beginning."""
        place, rest, cut = begin, b"", 0
        while (at := place + len(rest) + cut) < end:
            piece = await self.host.get(self.path, offset=at, limit=min(_PIECE, end - at))
            if not piece:
                break
            lines = (rest + piece).split(b"\n")
            rest = lines.pop()
            for line in lines:
                yield place, line[:_LONGEST].decode("utf-8", "replace")
                place += len(line) + cut + 1
                cut = 0
            cut += max(len(rest) - _LONGEST, 0)
            rest = rest[:_LONGEST]
        if rest:
            yield place, rest.decode("utf-8", "replace")


def grep_expression(pattern: Pattern) -> tuple[str, str]:
    """Flags and expression with which `grep` finds each line that may match, by bytes.

    Lines with other than plain characters are judged by the caller alone: there grep and Python
    differ. Literal words of ASCII letters can only be hidden by colours.

    Raises:
        _NoGrep: The expression means something else to grep.
    """
    case = "" if pattern.exact else "i"
    odd = "[^ -~\t]"
    if pattern.regex:
        if _DIALECT.search(pattern.text):
            raise _NoGrep
        return f"-ab{case}P", f"(?:{pattern.text})|{odd}"
    literal = _SPECIAL.sub(r"\\\g<0>", pattern.text)
    hidden = "\x1b" if pattern.text.isascii() else odd
    return f"-ab{case}E", f"{literal}|{hidden}"


def _as_shown(raw: str) -> str:
    """Text of a line on the screen: what stands after its last carriage return, cleaned."""
    text = raw.rstrip("\r").rpartition("\r")[2]
    return text if text.isprintable() else clean(text).replace("\n", " ")


def _shortened(text: str) -> str:
    rest = len(text) - _SHOWN
    return text if rest <= 0 else f"{text[:_SHOWN]} … [{rest} more characters]"
