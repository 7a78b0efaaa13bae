"""What the supervisor on a machine may say of its run: its events and its status, with the types and upper sizes of all fields.

A machine is no authority over anything else: whatever does not fit is not taken, and nothing of it reaches the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

import msgspec

from hudtui.core.remote.host import FileRefused, Host
from hudtui.core.runs.values import LATEST_TIME
from hudtui.core.text import clean_line

LINE = 64 * 1024
"""Bytes of one event, at most."""

Moment = Annotated[float, msgspec.Meta(ge=0, le=LATEST_TIME)]
"""Seconds since the epoch."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e10)]
Exit = Annotated[int, msgspec.Meta(ge=-1000, le=2**31)]
Name = Annotated[str, msgspec.Meta(max_length=200)]
Words = Annotated[str, msgspec.Meta(max_length=4000)]
Mode = Literal["tmux", "processes"]


class _Started(msgspec.Struct, omit_defaults=True):
    mode: Mode | None = None
    pid: Count | None = None
    python: Name | None = None
    run: Name | None = None


class _Resumed(msgspec.Struct, omit_defaults=True):
    pid: Count | None = None


class _StageStarted(msgspec.Struct, omit_defaults=True):
    stage: Name | None = None
    attempt: Count | None = None
    pid: Count | None = None


class _StageReady(msgspec.Struct, omit_defaults=True):
    stage: Name | None = None
    seconds: Seconds | None = None


class _StageEnded(msgspec.Struct, omit_defaults=True):
    stage: Name | None = None
    attempt: Count | None = None
    exit: Exit | None = None
    by: Name | None = None
    error: Words | None = None
    max_rss_kib: Count | None = None


class _Stopping(msgspec.Struct, omit_defaults=True):
    outcome: Name | None = None
    why: Words | None = None


class _Note(msgspec.Struct, omit_defaults=True):
    message: Words | None = None
    mode: Mode | None = None


class _Ended(msgspec.Struct, omit_defaults=True):
    why: Words | None = None
    exits: Annotated[dict[Name, Exit | None], msgspec.Meta(max_length=64)] | None = None


REPORTS: Mapping[str, type[msgspec.Struct]] = {
    "started": _Started,
    "resumed": _Resumed,
    "stage_started": _StageStarted,
    "stage_ready": _StageReady,
    "stage_ended": _StageEnded,
    "stopping": _Stopping,
    "note": _Note,
    "finished": _Ended,
    "failed": _Ended,
    "stopped": _Ended,
}
"""The events of a machine, by their types. All others are hudtui's own."""


class _Envelope(msgspec.Struct):
    seq: Count
    at: Moment
    type: Name
    data: dict[str, Any]


@dataclass(frozen=True)
class MachineReport:
    """An event of the machine."""

    seq: int
    """Its place in the machine's record, from 1."""
    at: float
    type: str
    data: Mapping[str, Any]
    """The fields that its type has, each as it has to be."""


@dataclass(frozen=True)
class UnreadableReport:
    """A record of the machine that is none of its events."""

    why: str
    """In words."""
    mark: str
    """Tells it from others."""


def read_report(line: bytes) -> MachineReport | UnreadableReport:
    """The event that a line of `events.jsonl` holds."""
    if len(line) > LINE:
        return _unreadable(f"it is longer than {LINE // 1024} KiB", line)
    try:
        return check_report(msgspec.json.decode(line))
    except msgspec.DecodeError:
        return _unreadable("it is no JSON", line)
    except RecursionError:
        return _unreadable("it is nested too deeply", line)


def check_report(value: object) -> MachineReport | UnreadableReport:
    """An event of the machine as it has to be."""
    try:
        found = msgspec.convert(value, _Envelope)
        fields = REPORTS.get(found.type)
        if fields is None:
            return _unreadable(f"a machine has no event {clean_line(found.type, 40)!r}", value)
        data = msgspec.to_builtins(msgspec.convert(found.data, fields))
    except (msgspec.ValidationError, RecursionError) as error:
        return _unreadable(clean_line(str(error), 200), value)
    return MachineReport(found.seq, found.at, found.type, data)


def _unreadable(why: str, what: object) -> UnreadableReport:
    data = what if isinstance(what, bytes) else repr(what).encode("utf-8", "replace")
    return UnreadableReport(why, hashlib.sha256(data).hexdigest()[:16])


STATUS = 1024 * 1024
"""Bytes of a machine's `status.json`, at most."""


class StageReport(msgspec.Struct):
    """A stage, as `status.json` has it."""

    state: Name = "waiting"
    attempt: Count = 0
    exit: Exit | None = None
    started: Moment | None = None
    ended: Moment | None = None
    pid: Count | None = None


class StatusReport(msgspec.Struct):
    """What a view needs of `status.json`."""

    heartbeat: Moment | None = None
    disk_free: Count | None = None
    stages: Annotated[dict[Name, StageReport], msgspec.Meta(max_length=1000)] = {}


async def read_status(host: Host, path: str) -> StatusReport | None:
    """The `status.json` of a run; None where there is none.

    Raises:
        FileRefused: It is not readable.
        MachineError: The machine does not answer.
    """
    if await host.stat(path) is None:
        return None
    data = await host.get(path, limit=STATUS + 1)
    what = f"{PurePosixPath(path).name} of the machine is not readable"
    if len(data) > STATUS:
        raise FileRefused(what, why=f"it is larger than {STATUS // 2**20} MiB")
    try:
        return msgspec.json.decode(data, type=StatusReport)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FileRefused(what, why=clean_line(str(error), 200)) from None
