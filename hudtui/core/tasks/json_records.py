"""JSON files as runs of records: arrays, JSON lines and single objects.

Most records are decoded by the hundred with msgspec. A record that msgspec refuses is parsed on its
own by `files.parse_json`, which says what is wrong with it and where; the records around it are not
affected.

Imports msgspec: import this module late.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from hudtui.core.errors import InputError, Location
from hudtui.core.files import decode, parse_json
from hudtui.core.tasks.task import FieldProblem

LARGEST_RECORD = 64 << 20
"""Bytes of one record."""
CHUNK = 512 << 10
"""Bytes of a chunk: enough that the work per chunk does not count, and few enough for the
processor's cache."""

_SPACE = b" \t\r\n"
# A string that the end of the file cuts off counts as one token.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]|[^\s"\[\]{},]++', re.DOTALL)
_GAP = re.compile(rb"[ \t\r\n,]*+")
_BORDER = re.compile(rb"\}[ \t\r\n]*+(,)[ \t\r\n]*+\{")
_GUESSES = 3
"""Commas that are tried as the end of a chunk before its tokens are read: some stand inside of a
record."""
_CLOSE = ord("]")


class _PlainTask(
    msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True, gc=False
):
    """A record without further fields, which is cheaper to decode than an object."""

    id: Any = None
    prompt: Any = None
    mcp_config: msgspec.Raw
    setup_tool: Any = None
    evaluate_tool: Any = None
    metadata: Any = None


_decode = msgspec.json.Decoder().decode
_decode_plain = msgspec.json.Decoder(list[_PlainTask]).decode
_encoder = msgspec.json.Encoder(enc_hook=str)
_encode = _encoder.encode


def decode_json(data: bytes | msgspec.Raw) -> Any:
    """Decode JSON several times as fast as `files.parse_json`, and as strictly.

    Raises:
        ValueError: The data may be invalid JSON or hold a duplicate key; `files.parse_json` knows.
    """
    return _decode_strictly(data, _decode)


def decode_array(data: bytes) -> list[Any]:
    """Decode an array of records.

    Most tasks of a file have the same `mcp_config`, so equal ones are decoded once.

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
    """Decode JSON without duplicate keys.

    An object loses them, so the value is encoded again and compared.
    """
    try:
        compact: bytes = msgspec.json.format(data, indent=-1)
        value = decode(compact)
        again = _encode(value)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    # Numbers and escapes can be spelled in several ways, and fields can be in another order: then
    # the keys are counted. In the spellings excluded here a colon or a quote in a string could be
    # counted as the end of a key in one of the texts only.
    if again != compact and (
        b'\\\\":' in compact or b"\\u003" in compact or _keys(again) != _keys(compact)
    ):
        raise ValueError("duplicate key in one object")
    return value


def _keys(text: bytes) -> int:
    """Count the keys of compact JSON, and the strings that begin with a colon."""
    return text.count(b'":') - text.count(b'\\":')


def encode_json(value: Any) -> bytes:
    """Encode a value as JSON without white space.

    Raises:
        ValueError: The value holds NaN, an infinity, half of a surrogate pair, or is nested too
            deeply.
    """
    try:
        text = _encode(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if b"null" in text:  # msgspec writes NaN and infinities as null
        text = json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str
        ).encode()
    return text


def encode_column(values: list[Any]) -> list[bytes | None]:
    """Encode many values as JSON without white space; None stays None.

    They must be free of what JSON cannot hold.
    """
    texts: list[bytes | None] = [*_encoder.encode_lines(values).split(b"\n")[:-1]]
    if None in values:
        texts = [None if value is None else text for value, text in zip(values, texts, strict=True)]
    return texts


@dataclass(slots=True)
class RecordChunk:
    """Consecutive records of a file."""

    form: Literal["lines", "array"]
    data: bytes
    """The records as they stand in the file: one per line, or separated by commas. No brackets
    around them."""
    line: int
    """Line of the file on which `data` begins, counting from 1."""
    name: str
    """Name of the file, for errors."""
    values: list[Any] | None = None
    """The decoded records; None unless every record is valid."""
    start: int = 0
    """Place of `data` in the file."""
    spans: Sequence[tuple[int, int]] = ()
    """Start and end of each record of an array in `data`; empty where the records are valid, and so
    found again."""
    last: bool = False
    """True if the file ends with this chunk (`lines`: without a final line end)."""

    @property
    def end(self) -> int:
        """Return the place in the file behind the chunk."""
        return self.start + len(self.data)

    @property
    def sound(self) -> bool:
        """True if the records are known to be free of what JSON cannot hold."""
        return self.values is not None

    def texts(self) -> Iterator[tuple[int, bytes]]:
        """Yield the line and the text of each record, valid or not."""
        if self.form == "lines":
            yield from (
                (number, text)
                for number, text in enumerate(self.data.split(b"\n"), self.line)
                if text.strip()
            )
            return
        line, place = self.line, 0
        for start, end in self.spans or _record_spans(self.data):
            line += self.data.count(b"\n", place, start)
            place = start
            yield line, self.data[start:end]

    def records(self) -> tuple[list[Any], list[int] | None]:
        """Decode the records.

        Returns:
            The data of each record, or a `FieldProblem` where its text is not JSON; and the line of
            each record (of the mistake, where there is one), or None if `lines` returns them.

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
                if (
                    self.form == "lines"
                    and self.last
                    and number == len(texts) - 1
                    and _is_truncated(text)
                ):
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
        return FieldProblem(
            None,
            f"this is not UTF-8 text: byte 0x{text[error.start]:02x} at offset {error.start}",
            "json",
        ), 0
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


_CONFIGURATION = re.compile(rb"^action_mappings[ \t]*:", re.MULTILINE)
"""The key that a gym configuration has, in YAML."""


def record_chunks(data: bytes, name: str) -> Iterator[RecordChunk]:
    """Split a JSON or JSONL file into chunks of records.

    Args:
        data: The text as UTF-8.
        name: Name of the file: its suffix decides where the text does not, and errors mention it.

    Raises:
        InputError: The file is empty, or it is neither an array, nor JSON lines, nor one object.
    """
    begin = len(data) - len(data.lstrip())
    first = data[begin : begin + 1]
    if not first:
        raise InputError("this file is empty", where=Location(name))
    if first == b"[":
        return split_array(data, name)
    if first != b"{":
        if _CONFIGURATION.search(data, 0, 1 << 16):
            raise InputError(
                "this is a gym configuration, not tasks",
                fix="Name a file of tasks here; the configuration is for --config.",
                where=Location(name),
            )
        raise InputError(
            "this is neither a task, nor an array of tasks, nor JSON lines",
            why=f"It begins with {data[begin : begin + 20].decode(errors='replace')!r}.",
            where=Location(name, 1),
        )
    if _has_lines(data, begin, name):
        return split_lines(data, name)
    return iter((_one_object(data, name),))


def _has_lines(data: bytes, begin: int, name: str) -> bool:
    """Return whether a text that begins with an object is JSON lines.

    By the file's name, or because its first line is JSON.
    """
    if re.search(r"\.(jsonl|ndjson|jsonlines)(\.\w+)?$", name):
        return True
    end = data.find(b"\n", begin)
    try:
        msgspec.json.format(data[begin:end])
    except (msgspec.DecodeError, RecursionError):
        return False
    return end >= 0


def _one_object(data: bytes, name: str) -> RecordChunk:
    """Read a file that is one task over several lines."""
    if len(data) > LARGEST_RECORD:
        raise InputError(
            f"this is one JSON document of more than {LARGEST_RECORD >> 20} MB, too large for a "
            "task",
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
    return RecordChunk("array", data, line, name, spans=((0, len(data)),), last=True)


def split_lines(data: bytes, name: str) -> Iterator[RecordChunk]:
    """Split JSON lines into chunks of whole lines.

    Raises:
        InputError: A line is longer than `LARGEST_RECORD`.
    """
    line, place = 1, 0
    while place < len(data):
        cut = data.find(b"\n", place + CHUNK)
        end = len(data) if cut < 0 else cut
        text = data[place:end]
        lines = text.split(b"\n")  # several times as fast as `count`
        if len(text) > LARGEST_RECORD and max(map(len, lines)) > LARGEST_RECORD:
            number = next(
                number for number, one in enumerate(lines, line) if len(one) > LARGEST_RECORD
            )
            what = f"a line is longer than {LARGEST_RECORD >> 20} MB, too long for a task"
            raise InputError(what, where=Location(name, number))
        if not text.isspace():
            yield _line_chunk(
                text, line, name, len(lines), place, last=cut < 0 and bool(lines[-1].strip())
            )
        line += len(lines)
        place = end + 1


def _line_chunk(
    text: bytes, line: int, name: str, count: int, start: int, *, last: bool
) -> RecordChunk:
    values = _values(text.removesuffix(b"\n").replace(b"\n", b","))
    if values is not None and len(values) != count - text.endswith(
        b"\n"
    ):  # two objects on one line are not two tasks
        values = None
    return RecordChunk("lines", text, line, name, values, start, last=last)


def _values(text: bytes) -> list[Any] | None:
    try:
        return decode_array(b"[%b]" % text)
    except ValueError:
        return None


def split_array(data: bytes, name: str) -> Iterator[RecordChunk]:
    """Split one JSON array into chunks of whole records.

    Raises:
        InputError: The array is cut off, its brackets do not match, a value is missing, or text
            follows the end of the array.
    """
    array, first = _ArrayText(data, name), data.index(b"[") + 1
    place, line = first, 1 + data.count(b"\n", 0, first)
    while True:
        end, values = _decode_next(data, place)
        spans: list[tuple[int, int]] = []
        if values is None:
            end, spans = array.next_chunk(place, may_be_empty=place == first)
        text = data[place:end]
        if values or spans:
            yield RecordChunk("array", text, line, name, values, place, spans)
        if data[end] == _CLOSE:
            return
        line += text.count(b"\n")
        place = end + 1


def _decode_next(data: bytes, place: int) -> tuple[int, list[Any] | None]:
    """Decode the next records of an array, up to a comma that seems to separate two.

    It does if the text before it is valid: so the border of a chunk is found while the chunk is
    decoded.

    Returns:
        The place of the comma, or of the array's last bracket, and the records; or -1 and None: the
        tokens have to be read.
    """
    end = place + CHUNK
    for _ in range(_GUESSES):
        border = _BORDER.search(data, end, end + CHUNK)
        if border is None and len(data) > end + CHUNK:
            break
        end = border.start(1) if border is not None else len(data.rstrip(_SPACE)) - 1
        text = data[place:end]
        is_whole = border is not None or data[end] == _CLOSE
        values = (
            _values(text) if is_whole and text.strip() and len(text) <= LARGEST_RECORD else None
        )
        if values is not None:
            return end, values
        if border is None:
            break
    return -1, None


def _record_spans(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each record of valid records with commas between them."""
    place = 0
    for record in msgspec.json.decode(b"[%b]" % text, type=list[msgspec.Raw]):
        gap = _GAP.match(text, place)
        start = place if gap is None else gap.end()
        place = start + len(record)
        yield start, place


class _ArrayText:
    """Finds the records of an array token by token.

    Slow, always right, and goes on after a record that is not valid JSON.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self._data, self._name = data, name

    def next_chunk(self, first: int, *, may_be_empty: bool) -> tuple[int, list[tuple[int, int]]]:
        """Find the records of a chunk.

        Args:
            first: Place of the chunk: behind the array's first bracket, or behind a comma.
            may_be_empty: Nothing may stand before the array's last bracket.

        Returns:
            The place of the comma or of the last bracket behind the chunk, and start and end of
            each record in the chunk.

        Raises:
            InputError: The array has no end, its commas and brackets do not match, or a record is
                too large.
        """
        spans: list[tuple[int, int]] = []
        depth, start, end, place = 0, -1, -1, first
        for match in _TOKEN.finditer(self._data, first):
            token = self._data[match.start()]
            if depth == 0 and token in b",]":
                if start >= 0:
                    self._check_size(start, end)
                    spans.append((start - first, end - first))
                elif token != _CLOSE or spans or not may_be_empty:
                    raise self.error("a value is missing here", match.start())
                if token == _CLOSE:
                    self._check_end(match.end())
                if token == _CLOSE or match.start() - first >= CHUNK:
                    return match.start(), spans
                start, place = -1, match.end()
                continue
            if depth == 0:
                if start >= 0:
                    raise self.error("a comma is missing between two values", match.start())
                start = match.start()
            if token in b"{[":
                depth += 1
            elif token in b"}]":
                depth -= 1
                if depth < 0:
                    raise self.error("a bracket closes what was never opened", match.start())
            if depth == 0:
                end = match.end()
        raise self._cut_off(place)

    def _check_size(self, start: int, end: int) -> None:
        if end - start > LARGEST_RECORD:
            what = (
                f"a task is larger than {LARGEST_RECORD >> 20} MB, or a bracket or a quote in it "
                "is never closed"
            )
            raise self.error(what, start)

    def _check_end(self, place: int) -> None:
        rest = self._data[place:].lstrip(_SPACE)
        if rest:
            raise self.error(
                "something stands after the end of the array", len(self._data) - len(rest)
            )

    def _cut_off(self, place: int) -> InputError:
        """Return why the array has no end.

        The first mistake in its last record, or the end of the file.
        """
        text = self._data[place:].decode(errors="replace")
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            if error.pos < len(text.rstrip()) - 1 and not error.msg.startswith("Unterminated"):
                return self.error(
                    f"this is not valid JSON: {error.msg}", place + len(text[: error.pos].encode())
                )
        except (RecursionError, ValueError):
            pass
        return self.error(
            "the file ends in the middle of the array: it was cut off, or a bracket or a quote is "
            "missing",
            len(self._data),
        )

    def error(self, what: str, place: int) -> InputError:
        """Return an error at a place of the file."""
        begin = self._data.rfind(b"\n", 0, place)
        column = (
            len(self._data[begin + 1 : place].decode(errors="replace")) + 1 if begin >= 0 else None
        )
        return InputError(
            what, where=Location(self._name, 1 + self._data.count(b"\n", 0, place), column)
        )
