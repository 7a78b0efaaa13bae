"""Cutting JSON text into runs of complete records, in bounded memory and at the speed of a C parser.

A block of an array ends somewhere inside a record. Instead of walking over every byte in Python, a cut is guessed: the last place
that looks like the beginning of a record. The guess is right exactly when everything before it parses, since JSON is read from
left to right. A guess that fails a few times is replaced by a scanner that is slow and always right; it also carries on behind a
record that is not valid JSON, so that one bad record does not hide the others.

Imports msgspec: import this module late.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from hudtui.core.errors import InputError, Location

_SPACE = b" \t\r\n"
_OPENING = re.compile(rb'\{[ \t\r\n]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"[ \t\r\n]*+:', re.DOTALL)
# A text that the end of the block cuts off counts as one token: what follows it is not known yet.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]|[^\s"\[\]{},]++', re.DOTALL)
_GUESSES = 3
LARGEST_RECORD = 64 << 20
"""Bytes that one record of an array may take; without a bound a missing bracket would read the whole file into memory."""


@dataclass(slots=True)
class RecordChunk:
    """Consecutive records of a file."""

    form: Literal["lines", "array"]
    data: bytes
    """The records as they stand in the file: one a line, or with commas between them. No brackets around."""
    line: int
    """Line of the file on which `data` begins, counting from 1."""
    parsed: Any = None
    """What the parser made of the records, where a cut had to be proved."""
    spans: list[tuple[int, int]] | None = None
    """Where each record stands in `data`, once the slow scanner has been over it."""
    count: int | None = None
    """How many records there must be, where that is known: one a line."""
    last: bool = False
    """The file ends with this chunk, and in `lines` without a final line end."""

    def text(self) -> bytes:
        """The records as one JSON array, if they are valid."""
        return b"[%b]" % (self.data.replace(b"\n", b",") if self.form == "lines" else self.data)

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Line and text of every record, whether valid or not."""
        if self.form == "lines":
            for number, text in enumerate(self.data.split(b"\n"), self.line):
                if text.strip():
                    yield number, text
            return
        line, place = self.line, 0
        for start, end in self.spans if self.spans is not None else self._walk():
            line += self.data.count(b"\n", place, start)
            place = start
            yield line, self.data[start:end]

    def _walk(self) -> Iterator[tuple[int, int]]:
        """Where each record of a valid array stands."""
        place = 0
        for raw in msgspec.json.decode(b"[%b]" % self.data, type=list[msgspec.Raw]):
            while self.data[place] in b" \t\r\n,":
                place += 1
            yield place, place + len(raw)
            place += len(raw)


def _valid(text: bytes) -> Any:
    """A parser that is content with any JSON."""
    try:
        return msgspec.json.decode(text, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return None


def split_lines(blocks: Iterable[bytes], name: str) -> Iterator[RecordChunk]:
    """The chunks of JSON lines; `name` is the file's, for errors.

    Raises:
        InputError: A line is longer than any task.
    """
    line = 1
    carried: list[bytes] = []
    for block in blocks:
        cut = block.rfind(b"\n")
        if cut < 0:
            carried.append(block)
            if sum(map(len, carried)) > LARGEST_RECORD:
                raise InputError(f"a line is longer than {LARGEST_RECORD >> 20} MB, which no task is", where=Location(name, line))
            continue
        data = b"".join([*carried, block[:cut]])
        carried = [block[cut + 1 :]]
        count = len(data.split(b"\n"))  # several times as fast as `count`
        if not data.isspace():
            yield RecordChunk("lines", data, line, count=count)
        line += count
    data = b"".join(carried)
    if data.strip():
        yield RecordChunk("lines", data, line, count=1, last=True)


def split_array(blocks: Iterable[bytes], name: str, parse: Callable[[bytes], Any] = _valid) -> Iterator[RecordChunk]:
    """The chunks of one JSON array.

    Args:
        blocks: The text of the file.
        name: Of the file, for errors.
        parse: Gives what it makes of a JSON array, or None for a text that is none. It proves the cuts.

    Raises:
        InputError: The text is not an array of values as a whole: cut off, brackets that do not match, text after its end.
    """
    return _Array(name, parse).chunks(blocks)


class _Array:
    """The state of `split_array`: what has been read and not given away yet, and where that is in the file."""

    def __init__(self, name: str, parse: Callable[[bytes], Any]) -> None:
        self.name = name
        self.parse = parse
        self.line = 1
        self.buffer = b""
        self.opening = b""
        self.first = True

    def chunks(self, blocks: Iterable[bytes]) -> Iterator[RecordChunk]:
        began = False
        wanted = 0
        for block in blocks:
            self.buffer += block
            if not began:
                if not self.buffer.strip():
                    continue
                self._drop(self.buffer.index(b"[") + 1)
                began = True
            # A record larger than a block: wait until the buffer has doubled, so that the work stays linear.
            if len(self.buffer) < wanted:
                continue
            chunk = self._cut()
            wanted = 0 if chunk is not None else 2 * len(self.buffer)
            if chunk is not None:
                yield chunk
        if not began:
            raise InputError("this file is empty", where=Location(self.name))
        chunk = self._rest()
        if chunk is not None:
            yield chunk

    def _drop(self, count: int) -> None:
        if self.buffer.find(b"\n", 0, count) >= 0:  # most arrays stand on one line, and `find` is many times as fast as `count`
            self.line += self.buffer.count(b"\n", 0, count)
        self.buffer = self.buffer[count:]

    def _cut(self) -> RecordChunk | None:
        """The complete records at the beginning of the buffer, taken out of it together with the comma behind them."""
        if not self.opening and (match := _OPENING.search(self.buffer)):
            self.opening = match[0]
        end = len(self.buffer)
        buffer = memoryview(self.buffer)
        for _ in range(_GUESSES if self.opening else 0):
            end = self.buffer.rfind(self.opening, 0, end)
            if end <= 0:
                break
            window = max(0, end - 4096)
            before = self.buffer[window:end].rstrip(_SPACE)
            if not before.endswith(b","):
                continue
            comma = window + len(before) - 1
            if (parsed := self.parse(b"".join((b"[", buffer[:comma], b"]")))) is not None:
                return self._take(comma, comma + 1, parsed=parsed)
        spans, place, closed = self._scan()
        if closed:
            self._check_end(place)
            return None  # `_rest` gives these away, when it is sure that nothing follows
        if not spans:
            if len(self.buffer) > LARGEST_RECORD:
                what = f"a task is larger than {LARGEST_RECORD >> 20} MB, or a bracket or a quote in it is never closed"
                raise self._error(what, len(self.buffer) - len(self.buffer.lstrip(_SPACE)))
            return None
        return self._take(spans[-1][1], place, spans=spans)

    def _check_end(self, place: int) -> None:
        rest = self.buffer[place:].lstrip(_SPACE)
        if rest:
            raise self._error("something stands after the end of the array", len(self.buffer) - len(rest))

    def _take(self, end: int, drop: int, *, parsed: Any = None, spans: list[tuple[int, int]] | None = None) -> RecordChunk:
        chunk = RecordChunk("array", self.buffer[:end], self.line, parsed, spans)
        self._drop(drop)
        self.first = False
        return chunk

    def _rest(self) -> RecordChunk | None:
        """What is left when the file has ended: records and the closing bracket."""
        text = self.buffer.rstrip(_SPACE)
        if text.endswith(b"]") and text[:-1].strip(_SPACE) and (parsed := self.parse(b"[%b" % text)) is not None:
            return RecordChunk("array", text[:-1], self.line, parsed, last=True)
        spans, place, closed = self._scan()
        if not closed:
            raise self._cut_off(place)
        self._check_end(place)
        return RecordChunk("array", self.buffer[:place], self.line, None, spans, last=True) if spans else None

    def _cut_off(self, place: int) -> InputError:
        """Why the array has no end: the place of the first mistake in its last record, or the end of the file."""
        text = self.buffer[place:].decode(errors="replace")
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            if error.pos < len(text.rstrip()) - 1 and not error.msg.startswith("Unterminated"):
                return self._error(f"this is not valid JSON: {error.msg}", place + len(text[: error.pos].encode()))
        except (RecursionError, ValueError):
            pass
        return self._error(
            "the file ends in the middle of the array: it was cut off, or a bracket or a quote is missing", len(self.buffer)
        )

    def _scan(self) -> tuple[list[tuple[int, int]], int, bool]:
        """Where each complete record in the buffer stands, what follows the last of them, and whether the array ends there.

        A record counts as complete when a comma or the closing bracket follows it.
        """
        spans: list[tuple[int, int]] = []
        depth, start, end, place = 0, -1, -1, 0
        for match in _TOKEN.finditer(self.buffer):
            token = self.buffer[match.start()]
            if depth == 0 and token in b",]":
                if start >= 0:
                    spans.append((start, end))
                elif token == 44 or not self.first or spans:
                    raise self._error("a value is missing here", match.start())
                if token == 93:
                    return spans, match.end(), True
                start, place = -1, match.end()
                continue
            if depth == 0:
                if start >= 0:
                    raise self._error("a comma is missing between two values", match.start())
                start = match.start()
            if token in b"{[":
                depth += 1
            elif token in b"}]":
                depth -= 1
                if depth < 0:
                    raise self._error("a bracket closes what was never opened", match.start())
            if depth == 0:
                end = match.end()
        return spans, place, False

    def _error(self, what: str, place: int) -> InputError:
        begin = self.buffer.rfind(b"\n", 0, place)
        column = len(self.buffer[begin + 1 : place].decode(errors="replace")) + 1 if begin >= 0 else None
        return InputError(what, where=Location(self.name, self.line + self.buffer.count(b"\n", 0, place), column))
