"""The records of a run that hudtui did not start, in order, a few at a time.

Those of files of W&B and TensorBoard are all that stands in them. Of other files they are the rows
of numbers and the printed lines; a line that is JSON is its value.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from hudtui.core.errors import InputError
from hudtui.core.json_text import value_of_line
from hudtui.core.remote.host import LOCAL, Host, file_words
from hudtui.core.remote.log_file import LogFile, LogPlace
from hudtui.core.runs.sessions import ExternalSession, LogSource, SessionWatcher, damage_of
from hudtui.core.text import clean_line
from hudtui.core.training.tracker_files import TrackerFile, tracker_file
from hudtui.core.training.tracker_records import (
    EventRecords,
    Record,
    WandbRecords,
    record_reader,
    shortened,
)

_PIECE = 256 * 1024
"""Bytes that are read at once."""
_HEAD = 4096
"""First bytes of a file from which its kind is recognised."""
_SHOWN = 9_000
"""Characters of a line of records on a screen."""
_MOST = 512 * 1024 * 1024
"""Bytes of records that are written for a screen."""


async def read_records(host: Host, session: ExternalSession) -> AsyncGenerator[Record, None]:
    """Yield the records of all files of a session until now.

    Raises:
        InputError: It is a terminal, which keeps no records, or no file that can be read; or a file
            was damaged, and all other records of it have come.
        MachineError: The machine does not answer, or cannot read a file.
    """
    for source in session.sources:
        if source.path is None:
            raise InputError("a terminal has no records", fix="Name a file: HOST:PATH.")
        file = tracker_file(source.path, await host.get(source.path, limit=_HEAD))
        if record_reader(file) is not None:
            async with aclosing(_raw(host, source, file)) as raw:
                async for record in raw:
                    yield record
            continue
        watcher = SessionWatcher(host, _only(session, source), lines=None)
        number = 0
        async with aclosing(watcher.follow(once=True)) as updates:
            async for update in updates:
                log = watcher.log(source.name)
                if log is not None:
                    break
                for line in update.lines:
                    number += 1
                    yield _of_line(number, line)
        if (log := watcher.log(source.name)) is not None:
            async with aclosing(_lines(log)) as lines:
                async for record in lines:
                    yield record


async def _lines(log: LogFile) -> AsyncGenerator[Record, None]:
    """Yield the lines of a log until now."""
    from hudtui.core.remote.logs import LineSplitter

    number, splitter, rest = 0, LineSplitter(limit=_PIECE), ""
    async with aclosing(log.read()) as chunks:
        async for chunk in chunks:
            batch = splitter.feed(chunk)
            rest = batch.partial
            for line in batch.done:
                number += 1
                yield _of_line(number, line)
    if rest:
        yield _of_line(number + 1, rest)


def _of_line(number: int, line: str) -> Record:
    value = value_of_line(line)
    return (
        Record(number, "line", line) if value is None else Record(number, "row", shortened(value))
    )


def _only(session: ExternalSession, source: LogSource) -> ExternalSession:
    return ExternalSession(session.title, (source,), run=session.run)


async def _raw(
    host: Host, source: LogSource, file: TrackerFile | None
) -> AsyncGenerator[Record, None]:
    for path in source.files:
        reader, offset = record_reader(file), 0
        assert reader is not None
        while data := await host.get(path, offset=offset, limit=_PIECE):
            offset += len(data)
            for record in await asyncio.to_thread(_fed, reader, data):
                yield record
        reader.end()
        if reader.damage is not None:
            raise InputError(f"{file_words(host, path)} is damaged {damage_of(reader)}")


def _fed(reader: WandbRecords | EventRecords, data: bytes) -> list[Record]:
    reader.feed(data)
    found, reader.records = reader.records, []
    return found


def record_line(record: Record) -> str:
    """Return a record on one line: its number, its kind, and its value as JSON."""
    value = record.value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clean_line(f"{record.number} {record.kind} {text}", _PIECE)


async def write_records(host: Host, paths: tuple[str, ...], here: Path) -> None:
    """Write the records of files into a file here, a line each, and go on as the last one grows.

    Args:
        host: The machine of the files.
        paths: The files, the oldest first.
        here: The file that is written.

    Raises:
        InputError: The file here cannot be written: its disk is full.
        MachineError: The machine does not answer, or cannot read a file.
    """
    written = 0
    for place, path in enumerate(paths):
        file = tracker_file(path, await host.get(path, limit=_HEAD))
        reader = record_reader(file)
        if reader is None:
            continue
        log = LogFile(LogPlace(host, path))
        chunks = log.follow() if place == len(paths) - 1 else log.read()
        async with aclosing(chunks) as pieces:  # type: ignore[type-var]
            async for chunk in pieces:
                if chunk.offset == 0:
                    reader = record_reader(file) or reader
                written += await asyncio.to_thread(_written, reader, chunk.data, here)
                if written > _MOST:
                    named = path if host.name == LOCAL else f"{host.name}:{path}"
                    more = Record(0, "more", f"All: hudtui runs records {shlex.quote(named)}")
                    await asyncio.to_thread(_append, here, [more])
                    return


def _written(reader: WandbRecords | EventRecords, data: bytes, here: Path) -> int:
    return _append(here, _fed(reader, data))


def _fitting(record: Record) -> str:
    """Return a record on one line that a log shows whole, so that it opens as a tree."""
    line, room = record_line(record), _SHOWN
    while len(line) > _SHOWN and room > 1:
        room //= 2
        line = record_line(replace(record, value=shortened(record.value, room)))
    return line


def _append(here: Path, records: list[Record]) -> int:
    text = "".join(f"{_fitting(record)}\n" for record in records)
    try:
        with here.open("a", encoding="utf-8", errors="replace") as stream:
            return stream.write(text)
    except OSError as error:
        raise InputError(f"{here} cannot be written", why=error.strerror or str(error)) from None
