"""Reads metrics of W&B, TensorBoard, trackio and transformers with the standard library alone.

- `run-*.wandb`: 7 bytes, then LevelDB's log format (blocks of 32 KiB; chunks with CRC-32, length,
  type) of protobuf messages. Of those, the history is read:
  `Record.history = 2 {item = 1 {key = 1, nested_key = 2, value_json = 16}, step = 2 {num = 1}}`,
  the load of the machine: `stats = 7 {timestamp = 2 {seconds = 1, nanos = 2}, item = 3}`, and what
  is said of the run: `config = 5 {update = 1}`, `run = 17 {config = 4}`, `environment = 26`.
- `events.out.tfevents.*`: TensorFlow's records (length, masked CRC-32C, data, masked CRC-32C) of
  `Event {wall_time = 1, step = 2, summary = 5 {value = 1}}`, with
  `value {tag = 1, simple_value = 2, tensor = 8}`.
- trackio's `PROJECT.db`: SQLite; the table `metrics` with `run_name`, `step`, `timestamp` and JSON.
- `trainer_state.json`: the list `log_history`, in each checkpoint.

A file may be read while it is written: an incomplete end waits for the rest. Bytes that are damaged
are left out and counted.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import sqlite3
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from hudtui.core.extensions import TRACKERS as OTHERS
from hudtui.core.extensions import beside
from hudtui.core.masking import without_login
from hudtui.core.training.masking import mask_arguments, mask_setting

Row = dict[str, float]
"""Numbers by their names, with the step and the time where the file has them. They include values
that are not finite."""

_WANDB = b":W&B"
_BLOCK = 32 * 1024
_MOST = 64 * 1024 * 1024
"""Longest record in bytes."""
_CHECKED = 64 * 1024
"""Longest TensorBoard record in bytes that is read: longer ones hold images, graphs and the
like."""
_DEPTH = 3
_LARGEST = 16 * 1024 * 1024
"""Longest value of a database in bytes: a computed column of a few bytes in the file may have any
length."""
_SQL_SECONDS = 20.0
"""Seconds that all queries of a database may take together, per look."""
_SETTINGS = 500
"""Most settings of a run in memory."""
_SETTING = 500
"""Longest text of a setting, in characters."""
_NAMES = 10_000
"""Most names of a file in memory."""
_LINE = 10_000
"""Most characters of a line that is being printed."""
_DECIMAL = re.compile(rb"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)")
"""A number of JSON that is no integer."""
_WORDS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class TrackerFile(Protocol):
    """Reads a file that only grows, piece by piece."""

    damaged: int
    """Places where bytes had to be left out."""
    damage: tuple[int, int] | None
    """The last of these places: its byte, from 0, and how many whole records were read before
    it."""
    load: list[Row]
    """Samples of the machine's load; who takes them empties the list."""
    printed: list[str]
    """Lines that the program has printed; who takes them empties the list."""
    about: dict[str, dict[str, str]]
    """What the file says of the run: `settings` and `machine`, each by its names."""

    def feed(self, data: bytes) -> list[Row]:
        """Read more bytes of the file and return the rows that they complete."""
        ...

    def end(self) -> None:
        """Count what waits for more bytes, and cannot become whole by them, as damaged."""
        ...


class WandbFile:
    """Reads the file of a W&B run."""

    def __init__(self) -> None:
        self.damaged = 0
        self.damage: tuple[int, int] | None = None
        self._at = 0
        self._whole = 0
        self.load: list[Row] = []
        self.printed: list[str] = []
        self._printing: dict[int, str] = {}
        """The lines that are not complete, by the number of their stream."""
        self.about: dict[str, dict[str, str]] = {}
        self._names: dict[bytes, str] = {}
        """The names of items that were read, by their bytes; empty for one that is left out."""
        self._waits = False
        """A damaged chunk stands at the end, in a block that may still be written."""
        self._data = b""
        self._record: list[bytes] | None = None
        """The chunks of a record that is not complete; None outside of records."""
        self._room = _MOST
        """Bytes of the file that the record may still take."""

    def feed(self, data: bytes) -> list[Row]:
        self._data += data
        rows: list[Row] = []
        place = 0
        while (size := self._chunk(place, rows)) is not None:
            place += size
            self._at += size
        self._data = self._data[place:]
        return rows

    def end(self) -> None:
        if self._waits:
            self._damaged()

    def _damaged(self) -> None:
        self.damaged, self.damage, self._record, self._waits = (
            self.damaged + 1,
            (self._at, self._whole),
            None,
            False,
        )

    def _chunk(self, place: int, rows: list[Row]) -> int | None:
        """Read one chunk; returns its size in bytes, or None while it is incomplete."""
        there = len(self._data) - place
        if self._at == 0:
            if there >= 7 and not self._data.startswith(_WANDB):
                self._damaged()
            return 7 if there >= 7 else None
        left = _BLOCK - self._at % _BLOCK
        if left < 7:
            return left if there >= left else None
        if there < 7:
            return None
        length: int
        check, length, kind = struct.unpack_from("<IHB", self._data, place)
        if length > left - 7 or not 1 <= kind <= 4:
            return self._skip(left, there)
        if there < 7 + length:
            return None
        data = self._data[place + 7 : place + 7 + length]
        if zlib.crc32(data, zlib.crc32(bytes([kind]))) != check:
            return self._skip(left, there)
        if kind in (1, 2):
            self._record, self._room = [], _MOST
        if self._record is not None:
            self._record.append(data)
            self._room -= 7 + length
            if kind in (1, 4):
                rows += _read(self._take, b"".join(self._record))
                self._record, self._whole = None, self._whole + 1
            elif self._room < 0:
                self._record = None
        return 7 + length

    def _take(self, record: bytes) -> Row:
        """Read a record; returns the numbers of one of the history."""
        found: Row = {}
        for number, value in message_fields(record):
            if not isinstance(value, bytes):
                continue
            if number == 2:
                self._history(value, found)
            elif number == 7 and (sample := _sample(value)):
                self.load.append(sample)
            elif number == 13:
                self._print(value)
            elif number in (5, 17, 26):
                self._describe(number, value)
        return found

    def _history(self, value: bytes, found: Row) -> None:
        for inner, item in message_fields(value):
            if inner == 1 and isinstance(item, bytes):
                self._item(item, found)
            elif inner == 2 and isinstance(item, bytes):
                for key, step in message_fields(item):
                    if key == 1 and isinstance(step, int):
                        found["_step"] = step

    def _item(self, item: bytes, found: Row) -> None:
        split = item.find(_VALUE)
        name = self._names.get(item[:split]) if split > 0 else None
        if name is not None and item[split + 2 : split + 3] == bytes([len(item) - split - 3 & 127]):
            text = item[split + 3 :]  # a name that is known, and a value under 128 bytes
        else:
            name, text = _named_value(item)
            if split > 0 and text == item[split + 3 :] and len(self._names) < _NAMES:
                self._names[item[:split]] = name
        if not name or not text:
            return
        if _DECIMAL.fullmatch(text):
            found[name] = float(text)  # what JSON makes of it, in a third of the time
            return
        value = json.loads(text.decode())
        if type(value) in (float, int):
            found[name] = value
        else:
            found.update(_numbers({name: value}))

    def _print(self, value: bytes) -> None:
        """Take a piece of what the program printed. A carriage return begins the line again."""
        parts = dict(message_fields(value))
        stream, text = parts.get(1, 0), parts.get(3, b"")
        if not isinstance(stream, int) or not isinstance(text, bytes):
            return
        *whole, rest = (self._printing.get(stream, "") + text.decode("utf-8", "replace")).split(
            "\n"
        )
        self.printed += [line for one in whole if (line := one.rstrip("\r").rpartition("\r")[2])]
        over = rest.endswith("\r")
        rest = rest.rstrip("\r").rpartition("\r")[2][:_LINE]
        self._printing[stream] = rest + "\r" if over else rest

    def _describe(self, number: int, value: bytes) -> None:
        settings = self.about.setdefault("settings", {})
        machine = self.about.setdefault("machine", {})
        if number == 5:
            settings.update(_settings(value))
        elif number == 17:
            for inner, part in message_fields(value):
                if inner == 4 and isinstance(part, bytes):
                    settings.update(_settings(part))
            machine.update(_words_of(value, _RUN))
        else:
            machine.update(_words_of(value, _ENVIRONMENT))
            machine.update(_arguments(value))
        for name in list(settings)[_SETTINGS:]:
            del settings[name]

    def _skip(self, left: int, there: int) -> int | None:
        """Leave the rest of a block out, once all of it is there: its end may still be written."""
        self._waits = there < left
        if self._waits:
            return None
        self._damaged()
        return left


class EventsFile:
    """Reads a TensorBoard events file. Values of one step that follow one another are one row."""

    def __init__(self) -> None:
        self.damaged = 0
        self.damage: tuple[int, int] | None = None
        self._at = 0
        self._whole = 0
        self._data = bytearray()
        """Grows in place: a picture or a video may be one record."""
        self._lost = False
        self.load: list[Row] = []
        self.printed: list[str] = []
        self.about: dict[str, dict[str, str]] = {}

    def feed(self, data: bytes) -> list[Row]:
        if self._lost:
            return []
        self._data += data
        rows: list[Row] = []
        place = 0
        while len(self._data) - place >= 12:
            head = bytes(self._data[place : place + 8])
            (length,) = struct.unpack("<Q", head)
            if (
                _masked(head) != struct.unpack_from("<I", self._data, place + 8)[0]
                or length > _MOST
            ):
                # Records have no marks at which reading could begin again.
                self._damaged(place)
                self._lost, self._data = True, bytearray()
                return rows
            end = place + 16 + length
            if len(self._data) < end:
                break
            if length <= _CHECKED:
                record = bytes(self._data[place + 12 : end - 4])
                if _masked(record) == struct.unpack_from("<I", self._data, end - 4)[0]:
                    for row in _read(self._take, record):
                        _join(rows, row)
                    self._whole += 1
                else:
                    self._damaged(place)
            else:
                self._pass_over(length)
                self._whole += 1
            place = end
        del self._data[:place]
        self._at += place
        return rows

    def _take(self, record: bytes) -> Row:
        return _event(record)

    def _pass_over(self, size: int) -> None:
        """Leave out a record that is too long to hold numbers."""

    def end(self) -> None:
        pass  # an incomplete record at the end may still be written

    def _damaged(self, place: int) -> None:
        self.damaged, self.damage = self.damaged + 1, (self._at + place, self._whole)


@dataclass(frozen=True)
class TrackerFormat:
    """A kind of file that only grows, in which a tracker keeps the numbers of a run."""

    name: str
    title: str
    pattern: str
    """The names of its files, such as `*.wandb`."""
    begins: Callable[[bytes], bool]
    """Says whether a file with these first bytes is one, whatever its name is."""
    reader: Callable[[], TrackerFile]


WANDB = TrackerFormat("wandb", "W&B", "*.wandb", lambda head: head.startswith(_WANDB), WandbFile)
TENSORBOARD = TrackerFormat(
    "tensorboard",
    "TensorBoard",
    "*tfevents*",
    lambda head: b"brain.Event:" in head[:64],
    EventsFile,
)
TRACKERS: Mapping[str, TrackerFormat] = beside(
    {one.name: one for one in (WANDB, TENSORBOARD)}, OTHERS
)
"""Our own formats, and those that other packages offer."""


def tracker_file(path: str, head: bytes) -> TrackerFile | None:
    """Return the reader of a file that only grows; None if it is no such file.

    `head` is the file's first bytes; may be empty.
    """
    known = TRACKERS.values()
    named = (one for one in known if PurePosixPath(path).match(one.pattern))
    found = next((one for one in known if one.begins(head)), None) or next(named, None)
    return found.reader() if found is not None else None


def is_trainer_state(path: str, head: bytes) -> bool:
    """Return whether a file is the `trainer_state.json` of a checkpoint."""
    return path.rpartition("/")[2] == "trainer_state.json" or (
        head.lstrip().startswith(b"{") and b'"log_history"' in head
    )


def read_trainer_state(data: bytes) -> list[Row]:
    """Return the rows of a `trainer_state.json`.

    Raises:
        ValueError: It is damaged, or half written.
    """
    try:
        state = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    history = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(history, list):
        raise ValueError("it has no list log_history")
    return [row for entry in history if isinstance(entry, dict) and (row := dict(_numbers(entry)))]


class TooLong(Exception):
    """A database that takes too long to read; the message is the end of a sentence."""


def trackio_runs(path: Path) -> list[str]:
    """Return the names of the runs in a trackio database, the newest first.

    Raises:
        sqlite3.Error: It is damaged, or no database of trackio.
        TooLong: It takes too long to read.
    """
    with _opened(path) as database:
        found = "SELECT run_name FROM metrics GROUP BY run_name ORDER BY max(id) DESC LIMIT 1000"
        try:
            return [_words(name) for (name,) in database.execute(found) if name is not None]
        except sqlite3.DatabaseError:
            for _ in _until_damage(
                database.execute("SELECT id, metrics FROM metrics NOT INDEXED ORDER BY id")
            ):
                pass
            raise


def read_trackio(path: Path, run: str, after: int) -> tuple[list[Row], int]:
    """Return rows of a run in a trackio database.

    The database is a copy, because SQLite writes beside a file that it opens. `after` is the last
    row that is known; 0 for all rows. A row that is not what trackio writes counts as far as it can
    be read: without a step that is a number it has none.

    Returns:
        The rows, and the number of the last of them, for the next call.

    Raises:
        sqlite3.Error: It is damaged, or no database of trackio.
        TooLong: It takes too long to read.
    """
    wanted = (
        "SELECT id, step, timestamp, metrics FROM metrics WHERE run_name IN (?, ?) AND id > ? "
        "ORDER BY id"
    )
    rows: list[Row] = []
    with _opened(path) as database:
        for number, step, moment, text in _until_damage(
            database.execute(wanted, (run, run.encode("utf-8", "replace"), after))
        ):
            after = number
            try:
                values = json.loads(text)
            except (
                ValueError,
                TypeError,
                RecursionError,
            ):  # a text that is no JSON, or something else
                continue
            if isinstance(values, dict):
                own = {"step": _step(step), "timestamp": _seconds(moment)}
                rows.append(
                    {
                        **dict(_numbers(values)),
                        **{key: value for key, value in own.items() if value is not None},
                    }
                )
    return rows, after


def _words(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _step(value: Any) -> int | float | None:
    """Return a step as the database has it, also one that was written as text.

    None for anything else.
    """
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        number = float(_words(value))
        if math.isfinite(number):
            return int(number) if number == int(number) else number
    return None


def _seconds(value: Any) -> float | None:
    with contextlib.suppress(ValueError, OverflowError, OSError):
        return (
            float(value)
            if isinstance(value, int | float)
            else datetime.fromisoformat(_words(value)).timestamp()
        )
    return None


def _until_damage(found: sqlite3.Cursor) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query; the error of a damaged one says behind which row it stands."""
    last = 0
    try:
        for row in found:
            yield row
            last = row[0]
    except sqlite3.DatabaseError as error:
        raise sqlite3.DatabaseError(f"{error}, behind row {last}" if last else str(error)) from None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a foreign database: a view in it may hold a query without end, or call functions."""
    end = (
        time.monotonic() + _SQL_SECONDS / 2
    )  # of a look, the names of the runs take one half, and the rows the other
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.text_factory = lambda data: data.decode("utf-8", "replace")
        database.set_progress_handler(lambda: time.monotonic() > end, 1_000)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
        database.execute("PRAGMA trusted_schema = OFF")
        kinds = database.execute(
            "SELECT type FROM sqlite_master WHERE name = 'metrics' COLLATE NOCASE"
        ).fetchall()
        if any(kind != ("table",) for kind in kinds):
            raise sqlite3.DatabaseError("its metrics are no table")
        try:
            yield database
        except sqlite3.DatabaseError as error:
            if "interrupted" in str(error):
                raise TooLong(f"takes longer to read than {_SQL_SECONDS / 2:g} seconds") from None
            raise


def _read(parse: Any, record: bytes) -> list[Row]:
    """Return the rows of a message; none if the message is not what it should be."""
    try:
        row: Row = parse(record)
    except (ValueError, struct.error, RecursionError, UnicodeDecodeError):
        return []
    return [row] if row else []


def _join(rows: list[Row], row: Row) -> None:
    """Add a row of TensorBoard, or its values to the row before."""
    before = rows[-1] if rows else {}
    if before.get("step") == row["step"] and not (row.keys() & before.keys()) - {"step", "time"}:
        before.update(row)
    else:
        rows.append(row)


_VALUE = b"\x82\x01"
"""The key of an item's value in JSON, behind that of its name."""


def _named_value(item: bytes) -> tuple[str, bytes]:
    """Return the name of an item, empty for one of W&B's own, and its value as JSON."""
    names, text = [], b""
    for key, part in message_fields(item):
        if key in (1, 2) and isinstance(part, bytes) and part:
            names.append(part.decode())
        elif key == 16 and isinstance(part, bytes):
            text = part
    own = bool(names) and names[0].startswith("_") and names[0] not in ("_step", "_timestamp")
    return "" if own else "/".join(names), text


def _sample(value: bytes) -> Row:
    """Return a sample of the machine's load with its time; empty without one."""
    found: Row = {}
    for number, part in message_fields(value):
        if not isinstance(part, bytes):
            continue
        if number == 2:
            seconds = {key: one for key, one in message_fields(part) if isinstance(one, int)}
            found["time"] = seconds.get(1, 0) + seconds.get(2, 0) / 1e9
        elif number == 3:
            name, text = _named_value(part)
            if name and text:
                found.update(_numbers({name: json.loads(text.decode())}))
    return found if found.keys() - {"time"} and found.get("time") else {}


def _settings(config: bytes) -> dict[str, str]:
    """Return what a message `config` sets, by dotted names."""
    found: dict[str, str] = {}
    for number, item in message_fields(config):
        if number == 1 and isinstance(item, bytes):
            name, text = _named_value(item)
            if name and text:
                value = mask_setting(name, json.loads(text.decode()))
                found.update(_texts(name.replace("/", "."), value))
    return found


def _texts(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value and depth < _DEPTH:
        for inner, one in value.items():
            yield from _texts(f"{name}.{inner}", one, depth + 1)
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield name[:_SETTING], text[:_SETTING]


_GIT = {1: "repository", 2: "commit"}
_RUN: Mapping[int, Any] = {3: "project", 8: "run", 13: "host", 21: _GIT}
"""What `run` says: the number of a field, and its name or the fields in it."""
_ENVIRONMENT: Mapping[int, Any] = {
    1: "system",
    2: "Python",
    6: "program",
    9: _GIT,
    12: "host",
    14: "executable",
    16: "cores",
    17: "processors",
    18: "GPU",
    19: "GPUs",
    21: {1: "memory"},
    22: {3: "CPU"},
    25: "CUDA",
}
"""What `environment` says, but for the arguments."""
_ARGUMENT = 5


def _words_of(message: bytes, names: Mapping[int, Any]) -> dict[str, str]:
    """Return the named fields of a message as texts; one that is repeated is joined."""
    found: dict[str, str] = {}
    for number, value in message_fields(message):
        name = names.get(number)
        if isinstance(name, Mapping):
            if isinstance(value, bytes):
                found.update(_words_of(value, name))
        elif name == "memory" and isinstance(value, int):
            found[name] = f"{value / 2**30:.0f} GiB"
        elif name is not None:
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
            text = without_login(text)
            found[name] = f"{found[name]} {text}"[:_SETTING] if name in found else text[:_SETTING]
    return found


def _arguments(environment: bytes) -> dict[str, str]:
    """Return the arguments of the command, as one text; empty without any."""
    parts = (part for number, part in message_fields(environment) if number == _ARGUMENT)
    words = [part.decode("utf-8", "replace") for part in parts if isinstance(part, bytes)]
    return {"arguments": " ".join(mask_arguments(words))[:_SETTING]} if words else {}


def _event(record: bytes) -> Row:
    moment, step, found = 0.0, 0, {}
    for number, value in message_fields(record):
        if number == 1 and isinstance(value, bytes):
            (moment,) = struct.unpack("<d", value)
        elif number == 2 and isinstance(value, int):
            step = value - (1 << 64) if value >> 63 else value
        elif number == 5 and isinstance(value, bytes):
            for inner, summary in message_fields(value):
                if inner == 1 and isinstance(summary, bytes):
                    found.update(_scalar(summary))
    return {"step": step, "time": moment, **found} if found else {}


def _scalar(summary: bytes) -> Row:
    tag, found = "", None
    for number, value in message_fields(summary):
        if number == 1 and isinstance(value, bytes):
            tag = value.decode()
        elif number == 2 and isinstance(value, bytes):
            (found,) = struct.unpack("<f", value)
        elif number == 8 and isinstance(value, bytes):
            found = _tensor(value)
    return {tag: found} if tag and found is not None else {}


_TENSORS = {1: "f", 2: "d", 3: "i", 9: "q", 19: "e"}
"""TensorFlow's types of numbers -> the letters of `struct`: float, double, int32, int64, half."""


def _tensor(data: bytes) -> float | None:
    """Return the number in a tensor of one element; None for other tensors."""
    kind, content, values = 0, b"", []
    for number, value in message_fields(data):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 4 and isinstance(value, bytes):
            content = value
        elif number in (5, 6) and isinstance(value, bytes):
            letter = "f" if number == 5 else "d"
            values += [one for (one,) in struct.iter_unpack(f"<{letter}", value)]
        elif number in (7, 10) and isinstance(value, int):
            values.append(value - (1 << 64) if value >> 63 else value)
        elif number in (7, 10) and isinstance(value, bytes) and len(value) < 11:
            values.append(_varint(value, 0)[0])
    letter = _TENSORS.get(kind, "")
    if letter and len(content) == struct.calcsize(letter):
        values = list(struct.unpack(f"<{letter}", content))
    return float(values[0]) if letter and len(values) == 1 else None


def message_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a protobuf message: number, and an integer or the bytes.

    Raises:
        ValueError: It is no protobuf message.
    """
    place, end = 0, len(data)
    while place < end:
        key = data[place]
        place += 1
        if key > 127:
            key, place = _varint(data, place - 1)
        kind = key & 7
        if kind == 0:
            value, place = _varint(data, place)
            yield key >> 3, value
            continue
        if kind == 2:
            size = data[place] if place < end else 128
            place += 1
            if size > 127:
                size, place = _varint(data, place - 1)
        else:
            size = {1: 8, 5: 4}.get(kind, -1)
        if size < 0 or place + size > end:
            raise ValueError("no protobuf message")
        yield key >> 3, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            break
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise ValueError("no protobuf message")


def _numbers(
    values: Mapping[str, Any], prefix: str = "", depth: int = 0
) -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, dict):
            if (
                depth < _DEPTH and "_type" not in value
            ):  # which histograms, pictures and tables have
                yield from _numbers(value, f"{prefix}{name}/", depth + 1)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}", value
        elif isinstance(value, str) and value in _WORDS:
            yield f"{prefix}{name}", _WORDS[value]


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC = _crc_table()


def _masked(data: bytes) -> int:
    """CRC-32C as TensorFlow writes it."""
    check = 0xFFFFFFFF
    for byte in data:
        check = _CRC[(check ^ byte) & 255] ^ check >> 8
    check ^= 0xFFFFFFFF
    return ((check >> 15 | check << 17) + 0xA282EAD8) & 0xFFFFFFFF
