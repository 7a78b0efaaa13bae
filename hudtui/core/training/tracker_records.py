"""The records of a tracker's file as they stand in it, in order, as JSON values to look at.

`tracker_files` says how the files are made. Names of fields are those of W&B's and TensorFlow's
messages. What looks like a secret in settings and arguments is masked, long texts are cut, and
bytes that are no text are counted.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hudtui.core.training.masking import mask_arguments, mask_setting
from hudtui.core.training.tracker_files import (
    EventsFile,
    Row,
    TrackerFile,
    WandbFile,
    message_fields,
)

_TEXT = 4_000
"""Longest text of a value, in characters."""
_ROOM = 200_000
"""Most characters and values of a record."""
_DEEPEST = 30

Names = Mapping[int, tuple[str, Any]]
"""The fields of a message by their numbers: a name, and the names of the fields in it; None where
it is a number, a text or bytes."""


def _names(text: str, **inner: Names) -> Names:
    """Return the fields that a text of numbers and names tells, and `inner` of some of them."""
    words = text.split()
    numbers, names = map(int, words[::2]), words[1::2]
    return {number: (name, inner.get(name)) for number, name in zip(numbers, names, strict=True)}


_ANY: Names = {}
_ITEM = _names("1 key 2 nested_key 16 value_json")
_TIME = _names("1 seconds 2 nanos")
_GIT = _names("1 remote_url 2 commit")
_CONFIG = _names("1 update 2 remove", update=_ITEM, remove=_ITEM)
_PRINTED = _names("1 output_type 2 timestamp 3 line", timestamp=_TIME)
_RUN = _names(
    "1 run_id 2 entity 3 project 4 config 5 summary 6 run_group 7 job_type 8 display_name 9 notes "
    "10 tags 12 sweep_id 13 host 14 starting_step 16 storage_id 17 start_time 18 resumed "
    "20 runtime 21 git 22 forked",
    config=_CONFIG,
    summary=_CONFIG,
    start_time=_TIME,
    git=_GIT,
)
_ENVIRONMENT = _names(
    "1 os 2 python 3 started_at 4 docker 5 args 6 program 7 code_path 8 code_path_local 9 git "
    "10 email 11 root 12 host 13 username 14 executable 15 colab 16 cpu_count 17 cpu_count_logical "
    "18 gpu_type 19 gpu_count 20 disk 21 memory 22 cpu 24 gpu_nvidia 25 cuda_version 199 writer_id",
    started_at=_TIME,
    git=_GIT,
    disk=_ANY,
    memory=_names("1 total"),
    cpu=_names("1 count 2 count_logical 3 model"),
    gpu_nvidia=_names("1 name 2 memory_total 3 cuda_cores 4 architecture"),
)
_WANDB: Mapping[int, tuple[str, Names]] = {
    2: ("history", _names("1 item 2 step", item=_ITEM, step=_names("1 num"))),
    3: ("summary", _CONFIG),
    4: ("output", _PRINTED),
    5: ("config", _CONFIG),
    6: ("files", _names("1 files", files=_names("1 path 2 policy 3 type"))),
    7: ("stats", _names("1 stats_type 2 timestamp 3 item", timestamp=_TIME, item=_ITEM)),
    8: ("artifact", _names("1 run_id 2 project 3 entity 4 type 5 name 6 digest 7 description")),
    9: ("tbrecord", _ANY),
    10: ("alert", _names("1 title 2 text 3 level 4 wait_duration")),
    11: ("telemetry", _ANY),
    12: ("metric", _names("1 name 2 glob_name 4 step_metric 6 options", options=_ANY)),
    13: ("output_raw", _PRINTED),
    17: ("run", _RUN),
    18: ("exit", _names("1 exit_code 2 runtime 3 not_complete")),
    20: ("final", _ANY),
    21: ("header", _names("1 version_info", version_info=_names("1 producer 2 min_consumer"))),
    22: ("footer", _ANY),
    23: ("preempting", _ANY),
    25: ("use_artifact", _names("1 id 2 type 3 name")),
    26: ("environment", _ENVIRONMENT),
    100: ("request", _ANY),
}
"""W&B's kinds of records by their numbers, and the fields of each."""
_VALUE = _names("1 tag 2 simple_value 8 tensor 9 metadata", metadata=_ANY)
_EVENT = _names(
    "1 wall_time 2 step 3 file_version 4 graph_def 5 summary 6 log_message 7 session_log "
    "8 tagged_run_metadata 9 meta_graph_def 10 source_metadata",
    summary=_names("1 value", value=_VALUE),
    source_metadata=_names("1 writer"),
)
_NUMBERS = {"wall_time": "<d", "simple_value": "<f"}
"""Fields of TensorFlow that are numbers of fixed size, and their types."""


@dataclass(frozen=True)
class Record:
    """A record of a file."""

    number: int
    """From 1."""
    kind: str
    """The tracker's word for what it is, such as `history`; `unknown` for one of a later version,
    `unreadable` for one that is no message. Rows of other files are `row`, and lines `line`."""
    value: Any
    """What it says, as a value of JSON."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain data."""
        return {"record": self.number, "kind": self.kind, self.kind: self.value}


class _Kept:
    """Keeps the records of a file in the place of their numbers; who takes `records` empties it."""

    _whole: int

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Record] = []

    def _take(self, record: bytes) -> Row:
        try:
            told = list(self._told(record))
        except (ValueError, struct.error, RecursionError):
            told = [("unreadable", _count(record))]
        self._keep(*told)
        return {}

    def _keep(self, *told: tuple[str, Any]) -> None:
        self.records += (Record(self._whole + 1, kind, value) for kind, value in told)

    def _told(self, record: bytes) -> Iterator[tuple[str, Any]]:
        """Yield the kind and the value of what a record says."""
        raise NotImplementedError


class WandbRecords(_Kept, WandbFile):
    """Reads the records of a W&B run."""

    def _told(self, record: bytes) -> Iterator[tuple[str, Any]]:
        known = False
        for kind, part in message_fields(record):
            if isinstance(part, bytes) and kind in _WANDB:
                known = True
                yield _of_wandb(kind, part)
        if not known:
            yield "unknown", _count(record)


class EventRecords(_Kept, EventsFile):
    """Reads the records of a TensorBoard file."""

    def _told(self, record: bytes) -> Iterator[tuple[str, Any]]:
        yield "event", shortened(_message(record, _EVENT))

    def _pass_over(self, size: int) -> None:
        self._keep(("event", f"<{size:,} bytes>"))


def record_reader(file: TrackerFile | None) -> WandbRecords | EventRecords | None:
    """Return what reads the records of a file; None for a format whose records are its rows."""
    if type(file) is WandbFile:
        return WandbRecords()
    return EventRecords() if type(file) is EventsFile else None


def _count(data: bytes) -> str:
    return f"<{len(data):,} bytes>"


def _of_wandb(number: int, part: bytes) -> tuple[str, Any]:
    """Return kind and value of a record."""
    kind, names = _WANDB[number]
    value = _message(part, names)
    if kind == "environment" and isinstance(args := value.get("args"), str | list):
        value["args"] = mask_arguments([args] if isinstance(args, str) else list(map(str, args)))
    if kind in ("config", "run", "environment", "summary", "alert"):
        value = mask_setting("", value)
    return kind, shortened(value)


def _message(data: bytes, names: Names, depth: int = 0) -> dict[str, Any]:
    """Return a message with its fields by name; one that is repeated is a list."""
    found: dict[str, Any] = {}
    repeated: dict[str, list[Any]] = {}
    for number, value in message_fields(data):
        name, inner = names.get(number, (str(number), None))
        if inner is _ITEM:
            if isinstance(value, bytes):
                found.setdefault(name, {}).update(_item(value))
                continue
            name = str(number)  # a number in the place of an item
        one = _value(value, name, inner, depth)
        if name in repeated:
            repeated[name].append(one)
        elif name in found:
            found[name] = repeated[name] = [found[name], one]
        else:
            found[name] = one
    return found


def _value(value: int | bytes, name: str, inner: Names | None, depth: int) -> Any:
    if isinstance(value, int):
        return value - (1 << 64) if value >> 63 else value
    if inner is _TIME:
        parts = {key: one for key, one in message_fields(value) if isinstance(one, int)}
        return parts.get(1, 0) + parts.get(2, 0) / 1e9
    if inner is not None and depth < _DEEPEST:
        return _message(value, inner, depth + 1)
    if (kind := _NUMBERS.get(name)) is not None and len(value) == struct.calcsize(kind):
        return struct.unpack(kind, value)[0]
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return _count(value)
    odd = sum(ord(sign) < 32 and sign not in "\t\n\r\x1b" for sign in text[:_TEXT])
    return _count(value) if odd else text


def _item(data: bytes) -> dict[str, Any]:
    names: list[str] = []
    text = b"null"
    for key, part in message_fields(data):
        if key in (1, 2) and isinstance(part, bytes) and part:
            names.append(part.decode("utf-8", "replace"))
        elif key == 16 and isinstance(part, bytes):
            text = part
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text.decode("utf-8", "replace")
    return {"/".join(names): value}


def shortened(value: Any, room: int = _ROOM) -> Any:
    """Return a value with long texts cut, and no more of it than can be looked at.

    What JSON does not know, such as a set of Python, is a list or a text.
    """

    def short(one: Any, depth: int) -> Any:
        nonlocal room
        room -= 1
        if isinstance(one, tuple | set):
            one = list(one)
        if isinstance(one, str):
            cut = one[: min(_TEXT, max(room, 0))]
            room -= len(cut)
            left = len(one) - len(cut)
            return f"{cut} … [{left:,} characters more]" if left else one
        if isinstance(one, dict | list) and (room <= 0 or depth > _DEEPEST):
            return f"… [{len(one):,} values]"
        if isinstance(one, dict):
            pairs: dict[str, Any] = {}
            for name, inner in one.items():
                if room <= 0:
                    pairs["…"] = f"[{len(one) - len(pairs):,} values more]"
                    break
                room -= min(len(str(name)), _TEXT)
                pairs[str(name)[:_TEXT]] = short(inner, depth + 1)
            return pairs
        if isinstance(one, list):
            kept: list[Any] = []
            for inner in one:
                if room <= 0:
                    kept.append(f"… [{len(one) - len(kept):,} values more]")
                    break
                kept.append(short(inner, depth + 1))
            return kept
        if isinstance(one, float) and not math.isfinite(one):
            return str(one)  # JSON knows no such numbers
        return one if one is None or isinstance(one, int | float) else short(repr(one), depth)

    return short(value, 0)
