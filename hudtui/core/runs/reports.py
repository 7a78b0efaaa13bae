"""Reports of a machine's supervisor.

The events and status of its run, with the types and largest sizes of all fields. Machines are not
trusted: a report that does not match is rejected completely, and no part of it reaches the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

import msgspec

from hudtui.core.plain import convert, decode
from hudtui.core.remote.host import FileRefused, Host
from hudtui.core.runs.values import LATEST_TIME, REPORTED
from hudtui.core.text import clean_line

LINE = 64 * 1024
"""Largest size of one event in bytes."""

Moment = Annotated[float, msgspec.Meta(ge=0, le=LATEST_TIME)]
"""Seconds since the epoch."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e10)]
Exit = Annotated[int, msgspec.Meta(ge=-1000, le=2**31)]
Name = Annotated[str, msgspec.Meta(max_length=200)]
Words = Annotated[str, msgspec.Meta(max_length=4000)]
Mode = Literal["tmux", "processes"]


class _Fields(msgspec.Struct, omit_defaults=True):
    """The fields that events have; each type of event has some of them."""

    mode: Mode | None = None
    pid: Count | None = None
    python: Name | None = None
    run: Name | None = None
    stage: Name | None = None
    attempt: Count | None = None
    seconds: Seconds | None = None
    exit: Exit | None = None
    by: Name | None = None
    error: Words | None = None
    max_rss_kib: Count | None = None
    outcome: Name | None = None
    why: Words | None = None
    message: Words | None = None
    exits: Annotated[dict[Name, Exit | None], msgspec.Meta(max_length=64)] | None = None


class _Envelope(msgspec.Struct):
    seq: Count
    at: Moment
    type: Name
    data: _Fields


@dataclass(frozen=True)
class MachineReport:
    """An event reported by the machine."""

    seq: int
    """Position in the machine's `events.jsonl`, from 1."""
    at: float
    type: str
    data: Mapping[str, Any]
    """The event's fields, validated."""


@dataclass(frozen=True)
class UnreadableReport:
    """An invalid record of the machine."""

    why: str
    """The error, as text."""
    mark: str
    """A text that identifies the record, so that it is counted only once."""


def read_report(line: bytes) -> MachineReport | UnreadableReport:
    """Parse a line of `events.jsonl`.

    Return the event, or an `UnreadableReport` if the line is invalid.
    """
    if len(line) > LINE:
        return _unreadable(f"it is longer than {LINE // 1024} KiB", line)
    try:
        return check_report(msgspec.json.decode(line))
    except msgspec.DecodeError:
        return _unreadable("it is not JSON", line)
    except RecursionError:
        return _unreadable("it is nested too deeply", line)


def check_report(value: object) -> MachineReport | UnreadableReport:
    """Validate a decoded event. Return the event, or an `UnreadableReport` if it is invalid."""
    try:
        found = convert(value, _Envelope)
    except (msgspec.ValidationError, RecursionError) as error:
        return _unreadable(clean_line(str(error), 200), value)
    if found.type not in REPORTED:  # only hudtui itself writes other types
        return _unreadable(
            f"a machine cannot report an event {clean_line(found.type, 40)!r}", value
        )
    return MachineReport(found.seq, found.at, found.type, msgspec.to_builtins(found.data))


def _unreadable(why: str, what: object) -> UnreadableReport:
    data = what if isinstance(what, bytes) else repr(what).encode("utf-8", "replace")
    return UnreadableReport(why, hashlib.sha256(data).hexdigest()[:16])


STATUS = 1024 * 1024
"""Largest size of a machine's `status.json` in bytes."""


class StageReport(msgspec.Struct):
    """The entry of a stage in `status.json`."""

    state: Name = "waiting"
    attempt: Count = 0
    exit: Exit | None = None
    started: Moment | None = None
    ended: Moment | None = None
    pid: Count | None = None


class StatusReport(msgspec.Struct):
    """The fields of `status.json` that a view needs."""

    state: Name = ""
    """State of the run; `finished`, `failed` or `stopped` once the supervisor has written
    everything."""
    why: Words | None = None
    heartbeat: Moment | None = None
    disk_free: Count | None = None
    stages: Annotated[dict[Name, StageReport], msgspec.Meta(max_length=1000)] = {}


async def read_status(host: Host, path: str) -> StatusReport | None:
    """Read the `status.json` of a run; return None if the file does not exist.

    Raises:
        FileRefused: The file is invalid.
        MachineError: The machine does not answer.
    """
    if await host.stat(path) is None:
        return None
    data = await host.get(path, limit=STATUS + 1)
    what = f"{PurePosixPath(path).name} of the machine is not readable"
    if len(data) > STATUS:
        raise FileRefused(what, why=f"it is larger than {STATUS // 2**20} MiB")
    try:
        return decode(data, StatusReport)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FileRefused(what, why=clean_line(str(error), 200)) from None
