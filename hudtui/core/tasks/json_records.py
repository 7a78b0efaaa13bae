"""JSON files as runs of records: arrays, JSON lines and single objects, read in blocks so that memory stays bounded.

Most records are decoded by the hundred with msgspec. A record that msgspec refuses is parsed on its own by `files.parse_json`,
which says what is wrong with it and where; the records around it are not affected.

Imports msgspec: import this module late.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import msgspec

from hudtui.core.errors import InputError, Location
from hudtui.core.files import decode, parse_json
from hudtui.core.tasks.task import FieldProblem

LARGEST_RECORD = 64 << 20
"""Bytes of one record. Without this limit a missing bracket would read the whole file into memory."""

_SPACE = b" \t\r\n"
# The beginning of an object up to the colon behind its first key.
_OPENING = re.compile(rb'\{[ \t\r\n]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"[ \t\r\n]*+:', re.DOTALL)
# A string that the end of the block cuts off counts as one token: what follows it is not known yet.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]|[^\s"\[\]{},]++', re.DOTALL)
_GUESSES = 3


class _PlainTask(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, gc=False):
    """A record without further fields, which is cheaper to decode than an object."""

    id: Any = None
    prompt: Any = None
    mcp_config: msgspec.Raw
    setup_tool: Any = None
    evaluate_tool: Any = None
    metadata: Any = None


_decode = msgspec.json.Decoder().decode
_decode_plain = msgspec.json.Decoder(list[_PlainTask]).decode
_encode = msgspec.json.Encoder(enc_hook=str).encode


def decode_json(data: bytes | msgspec.Raw) -> Any:
    """Decode JSON several times as fast as `files.parse_json`, and as strictly.

    Raises:
        ValueError: The data may be invalid JSON or hold a duplicate key; `files.parse_json` knows.
    """
    return _decode_strictly(data, _decode)


def decode_array(data: bytes) -> list[Any]:
    """Decode an array of records. Most tasks of a file have the same `mcp_config`, so equal ones are decoded once.

    Raises:
        ValueError: As `decode_json`.
    """
    records: list[Any]
    try:
        tasks: list[_PlainTask] = _decode_strictly(data, _decode_plain)
        raws = [bytes(task.mcp_config) for task in tasks]
        configs = {raw: decode_json(raw) for raw in set(raws)}
    except ValueError:
        records = _decode_strictly(data, _decode)
        return records
    return [
        {
            "id": task.id,
            "prompt": task.prompt,
            "mcp_config": configs[raw],
            "setup_tool": task.setup_tool,
            "evaluate_tool": task.evaluate_tool,
            "metadata": task.metadata,
        }
        for task, raw in zip(tasks, raws, strict=True)
    ]


def _decode_strictly(data: bytes | msgspec.Raw, decode: Callable[[bytes], Any]) -> Any:
    """Decode JSON without duplicate keys: an object loses them, so the value is encoded again and compared."""
    try:
        compact: bytes = msgspec.json.format(data, indent=-1)
        value = decode(compact)
        again = _encode(value)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    # Numbers and escapes can be spelled in several ways, and fields can be in another order: then the keys are counted. In
    # the spellings excluded here a colon or a quote in a string could be counted as the end of a key in one of the texts only.
    if again != compact and (b'\\\\":' in compact or b"\\u003" in compact or _keys(again) != _keys(compact)):
        raise ValueError("duplicate key in one object")
    return value


def _keys(text: bytes) -> int:
    """Count the keys of compact JSON, and the strings that begin with a colon."""
    return text.count(b'":') - text.count(b'\\":')


def encode_json(value: Any) -> bytes:
    """Encode a value as JSON without white space.

    Raises:
        ValueError: The value holds NaN, an infinity, half of a surrogate pair, or is nested too deeply.
    """
    try:
        text = _encode(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if b"null" in text:  # msgspec writes NaN and infinities as null
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str).encode()
    return text


def encode_column(values: list[Any]) -> list[bytes | None]:
    """Encode many values as JSON without white space; None stays None. They must be free of what JSON cannot hold."""
    return [None if value is None else _encode(value) for value in values]


@dataclass(slots=True)
class RecordChunk:
    """Consecutive records of a file."""

    form: Literal["lines", "array"]
    data: bytes
    """The records as they stand in the file: one per line, or separated by commas. No brackets around them."""
    line: int
    """Line of the file on which `data` begins, counting from 1."""
    name: str
    """Name of the file, for errors."""
    values: list[Any] | None = None
    """The decoded records; None unless every record is valid."""
    spans: list[tuple[int, int]] | None = None
    """Start and end of each record in `data`, where the records of an array had to be found one by one."""
    last: bool = False
    """Whether the file ends with this chunk (`lines`: without a final line end)."""

    @property
    def sound(self) -> bool:
        """Whether the records are known to be free of what JSON cannot hold."""
        return self.values is not None

    def texts(self) -> Iterator[tuple[int, bytes]]:
        """Yield the line and the text of each record, valid or not."""
        if self.form == "lines":
            yield from ((number, text) for number, text in enumerate(self.data.split(b"\n"), self.line) if text.strip())
            return
        line, place = self.line, 0
        for start, end in self.spans if self.spans is not None else self._find_spans():
            line += self.data.count(b"\n", place, start)
            place = start
            yield line, self.data[start:end]

    def _find_spans(self) -> Iterator[tuple[int, int]]:
        place = 0
        for raw in msgspec.json.decode(b"[%b]" % self.data, type=list[msgspec.Raw]):
            while self.data[place] in b" \t\r\n,":
                place += 1
            yield place, place + len(raw)
            place += len(raw)

    def records(self) -> tuple[list[Any], list[int] | None]:
        """Decode the records.

        Returns:
            The data of each record, or a `FieldProblem` where its text is not JSON; and the line of each record
            (of the mistake, where there is one), or None if `lines` returns them.

        Raises:
            InputError: The file ends in the middle of a record.
        """
        if self.values is not None:
            return self.values, None
        records, lines = [], []
        texts = list(self.texts())
        for number, (line, text) in enumerate(texts):
            try:
                record: Any = decode_json(text)
            except ValueError:
                if self.form == "lines" and self.last and number == len(texts) - 1 and _is_truncated(text):
                    what = "the file ends in the middle of a task: it was cut off"
                    raise InputError(what, where=Location(self.name, line)) from None
                record, further = _parse(text)
                line += further
            records.append(record)
            lines.append(line)
        return records, lines

    def lines(self) -> list[int]:
        """Return the line of each record."""
        return [line for line, _ in self.texts()]


def _parse(text: bytes) -> tuple[Any, int]:
    """Return a record, or the problem with its JSON and the number of lines down to the mistake."""
    try:
        return parse_json(text.decode(), ""), 0
    except UnicodeDecodeError as error:
        return FieldProblem(None, f"this is not UTF-8 text: byte 0x{text[error.start]:02x} at offset {error.start}", "json"), 0
    except InputError as error:
        place = error.where or Location("")
        code = "duplicate-key" if "duplicate key" in error.what else "json"
        return FieldProblem(place.field, error.what, code), (place.line or 1) - 1


def _is_truncated(text: bytes) -> bool:
    try:
        msgspec.json.format(text)
    except RecursionError:
        return False
    except msgspec.DecodeError as error:
        return "truncated" in str(error)
    return False


def record_chunks(blocks: Iterable[bytes], name: str) -> Iterator[RecordChunk]:
    """Split the text of a JSON or JSONL file into chunks of records.

    Args:
        blocks: The text as UTF-8.
        name: Name of the file: its suffix decides where the text does not, and errors mention it.

    Raises:
        InputError: The file is empty, or it is neither an array, nor JSON lines, nor one object.
    """
    blocks = _from_first_text(blocks)
    first = next(blocks, b"")
    start = first.lstrip()
    if not start:
        raise InputError("this file is empty", where=Location(name))
    blocks = chain([first], blocks)
    if start[:1] == b"[":
        yield from split_array(blocks, name)
    elif start[:1] != b"{":
        raise InputError(
            "this is neither a task, nor an array of tasks, nor JSON lines",
            why=f"It begins with {start[:20].decode(errors='replace')!r}.",
            where=Location(name, 1),
        )
    elif _has_lines(start, name):
        yield from split_lines(blocks, name)
    else:
        yield _one_object(blocks, name)


def _from_first_text(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the blocks from the first that has text on. Blank lines before it are kept, because they count."""
    iterator, blank = iter(blocks), b""
    for block in iterator:
        blank += block
        if blank.strip():
            yield blank
            break
        if len(blank) > LARGEST_RECORD:
            return
    yield from iterator


def _has_lines(start: bytes, name: str) -> bool:
    """Return whether a text that begins with an object is JSON lines: by the file's name, or because its first line is JSON."""
    if re.search(r"\.(jsonl|ndjson|jsonlines)(\.\w+)?$", name):
        return True
    line, end, _ = start.partition(b"\n")
    try:
        msgspec.json.format(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return bool(end)


def _one_object(blocks: Iterable[bytes], name: str) -> RecordChunk:
    """Read a file that is one task over several lines."""
    data = b""
    for block in blocks:
        data += block
        if len(data) > LARGEST_RECORD:
            raise InputError(
                f"this is one JSON document of more than {LARGEST_RECORD >> 20} MB, too large for a task",
                fix="Write tasks as an array or as JSON lines.",
                where=Location(name),
            )
    try:
        msgspec.json.format(data)
    except RecursionError:
        raise InputError("this JSON is nested too deeply", where=Location(name)) from None
    except msgspec.DecodeError as error:
        parse_json(decode(data, name), name)  # raises with the place of the mistake
        raise InputError("this is not valid JSON", why=str(error), where=Location(name)) from None
    before = len(data) - len(data.lstrip())
    data, line = data.strip(), 1 + data.count(b"\n", 0, before)
    return RecordChunk("array", data, line, name, spans=[(0, len(data))], last=True)


def split_lines(blocks: Iterable[bytes], name: str) -> Iterator[RecordChunk]:
    """Split JSON lines into chunks of whole lines.

    Raises:
        InputError: A line is longer than `LARGEST_RECORD`.
    """
    line, carried = 1, b""
    parts: list[bytes] = []
    for block in blocks:
        cut = block.rfind(b"\n")
        if cut < 0:
            parts.append(block)
            if sum(map(len, parts)) > LARGEST_RECORD:
                raise InputError(
                    f"a line is longer than {LARGEST_RECORD >> 20} MB, too long for a task", where=Location(name, line)
                )
            continue
        data = b"".join([*parts, block[:cut]])
        parts = [block[cut + 1 :]]
        count = len(data.split(b"\n"))  # several times as fast as `count`
        if not data.isspace():
            yield _line_chunk(data, line, name, count)
        line += count
    carried = b"".join(parts)
    if carried.strip():
        yield RecordChunk("lines", carried, line, name, last=True)


def _line_chunk(data: bytes, line: int, name: str, count: int) -> RecordChunk:
    try:
        values = decode_array(b"[%b]" % data.replace(b"\n", b","))
    except ValueError:
        values = None
    if values is not None and len(values) != count:  # two objects on one line are not two tasks
        values = None
    return RecordChunk("lines", data, line, name, values)


def split_array(blocks: Iterable[bytes], name: str) -> Iterator[RecordChunk]:
    """Split one JSON array into chunks of whole records.

    Raises:
        InputError: The text is not an array as a whole: it is cut off, its brackets do not match, or text follows its end.
    """
    return _ArraySplitter(name).chunks(blocks)


class _ArraySplitter:
    """Finds the records of an array in text that arrives in blocks.

    A block ends somewhere inside a record. Instead of walking over every token in Python, the splitter guesses the cut: the
    last place that looks like the beginning of a record. JSON is read from left to right, so the guess is right exactly when
    everything before it can be decoded. Where the guesses fail, `_scan` walks over the tokens. It is slow and always right, and
    continues after a record that is not valid JSON.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.line = 1
        self.buffer = b""
        """What was read and not handed out yet, without the opening bracket."""
        self.opening = b""
        """How the first record begins."""
        self.is_first = True

    def chunks(self, blocks: Iterable[bytes]) -> Iterator[RecordChunk]:
        iterator = iter(blocks)
        for block in iterator:
            self.buffer += block
            if self.buffer.strip():
                break
        else:
            raise InputError("this file is empty", where=Location(self.name))
        self._drop(self.buffer.index(b"[") + 1)
        wanted = 0
        for block in chain([b""], iterator):
            self.buffer += block
            # A record larger than a block: wait until the buffer has doubled, so that the work stays linear.
            if len(self.buffer) < wanted:
                continue
            chunk = self._cut()
            wanted = 0 if chunk is not None else 2 * len(self.buffer)
            if chunk is not None:
                yield chunk
        if (chunk := self._rest()) is not None:
            yield chunk

    def _drop(self, count: int) -> None:
        if self.buffer.find(b"\n", 0, count) >= 0:  # most arrays stand on one line, and `find` is many times as fast as `count`
            self.line += self.buffer.count(b"\n", 0, count)
        self.buffer = self.buffer[count:]

    def _cut(self) -> RecordChunk | None:
        """Take the complete records at the beginning of the buffer; None if there is none yet."""
        if not self.opening and (match := _OPENING.search(self.buffer)):
            self.opening = match[0]
        end = len(self.buffer)
        for _ in range(_GUESSES if self.opening else 0):
            end = self.buffer.rfind(self.opening, 0, end)
            if end <= 0:
                break
            window = max(0, end - 4096)
            before = self.buffer[window:end].rstrip(_SPACE)
            if before.endswith(b","):
                comma = window + len(before) - 1
                if (values := self._values(comma)) is not None:
                    return self._take(comma, comma + 1, values=values)
        spans, place, closed = self._scan()
        if closed:
            self._check_end(place)
            return None  # `_rest` hands these out when it is sure that nothing follows
        if not spans:
            if len(self.buffer) > LARGEST_RECORD:
                what = f"a task is larger than {LARGEST_RECORD >> 20} MB, or a bracket or a quote in it is never closed"
                raise self._error(what, len(self.buffer) - len(self.buffer.lstrip(_SPACE)))
            return None
        return self._take(spans[-1][1], place, spans=spans)

    def _values(self, end: int) -> list[Any] | None:
        try:
            return decode_array(b"[%b]" % self.buffer[:end])
        except ValueError:
            return None

    def _take(self, end: int, drop: int, *, values: list[Any] | None = None, spans: Any = None) -> RecordChunk:
        chunk = RecordChunk("array", self.buffer[:end], self.line, self.name, values, spans)
        self._drop(drop)
        self.is_first = False
        return chunk

    def _rest(self) -> RecordChunk | None:
        """Take what is left at the end of the file: records and the closing bracket."""
        text = self.buffer.rstrip(_SPACE)
        if text.endswith(b"]") and text[:-1].strip(_SPACE) and (values := self._values(len(text) - 1)) is not None:
            return RecordChunk("array", text[:-1], self.line, self.name, values, last=True)
        spans, place, closed = self._scan()
        if not closed:
            raise self._cut_off(place)
        self._check_end(place)
        return RecordChunk("array", self.buffer[:place], self.line, self.name, None, spans, last=True) if spans else None

    def _check_end(self, place: int) -> None:
        rest = self.buffer[place:].lstrip(_SPACE)
        if rest:
            raise self._error("something stands after the end of the array", len(self.buffer) - len(rest))

    def _cut_off(self, place: int) -> InputError:
        """Return why the array has no end: the first mistake in its last record, or the end of the file."""
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
        """Find the complete records in the buffer: those that a comma or the closing bracket follows.

        Returns:
            Start and end of each record, the place behind the last of them, and whether the array ends there.
        """
        spans: list[tuple[int, int]] = []
        depth, start, end, place = 0, -1, -1, 0
        for match in _TOKEN.finditer(self.buffer):
            token = self.buffer[match.start()]
            if depth == 0 and token in b",]":
                if start >= 0:
                    spans.append((start, end))
                elif token == 44 or not self.is_first or spans:
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
