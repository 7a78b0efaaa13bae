"""Watch sessions that hudtui did not start: any tmux session or log on any machine.

This module only reads, and writes nothing. The session of another user's hudtui run is recognised.
Its files are read instead of its windows, because they are complete. In other sessions, the lines
above the cursor are read as they scroll by (`tmux capture-pane`), without touching programs or
pipes.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import shlex
import sqlite3
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from hudtui.core.diagnosis.live import LiveDiagnosis
from hudtui.core.diagnosis.symptoms import find_symptoms
from hudtui.core.diagnosis.values import NOTHING, Diagnosis
from hudtui.core.errors import InputError, MachineError
from hudtui.core.files import temporary_folder
from hudtui.core.paths import typed_path
from hudtui.core.remote.host import LOCAL, FileChunk, FileRefused, FileStat, Host, file_words
from hudtui.core.remote.log_file import LogFile, LogPlace
from hudtui.core.remote.logs import LineSplitter, offset_of_last_lines
from hudtui.core.remote.tmux import PREFIX
from hudtui.core.runs.tracker_folder import TrackedRun, newest_run, run_files
from hudtui.core.text import clean, clean_line, plural, step_text
from hudtui.core.training.metrics import MetricsReader, step_of
from hudtui.core.training.tracker_files import (
    Row,
    TooLong,
    TrackerFile,
    is_trainer_state,
    read_trackio,
    read_trainer_state,
    tracker_file,
    trackio_runs,
)

if TYPE_CHECKING:
    from hudtui.core.diagnosis.facts import Alarm, LogSymptom, Thresholds
    from hudtui.core.training.log_metrics import LogMetricsReader

BACKLOG = 8 * 1024 * 1024
"""Number of bytes before the end of a file that are searched for metrics."""
POLL = 0.5
"""Seconds between two reads of a pane."""
HISTORY = 3000
"""Largest number of lines of a pane per read."""
_STAGES = 64
"""Largest number of stages of a run whose logs are followed."""
_HEAD = 4096
"""First bytes of a file from which its kind is recognised."""
_SQLITE = b"SQLite format 3\0"
_COPIED = 256 * 1024 * 1024
"""Largest size in bytes of a file that is copied for reading."""
_PIECE = 1024 * 1024
_SLICE = 64 * 1024
"""Bytes that are searched for numbers before other tasks of the event loop run."""
_TURNS = 50
"""Turns of the event loop between two slices: a screen that is drawn takes many of them."""
_LOOK = 2.0
"""Seconds between two looks whether a followed file still exists."""
_TRIES = 5
_FOLLOW_INSTEAD = "Follow the trainer's log or its tmux session instead."
_SIGNS = 8
"""Number of the newest symptoms that are kept."""
_AGAIN = 3.0
"""Seconds before a silent machine is asked again."""
_ANCHOR = 50
_ENV = {"TMUX": ""}
_PATIENCE = 15.0


@dataclass(frozen=True)
class TmuxPane:
    """A pane of a tmux window."""

    id: str
    """The pane's id in tmux, such as `%3`."""
    window: str
    folder: str | None = None
    """The folder of the run whose stage the pane shows; None if hudtui did not start its
    command."""


@dataclass(frozen=True)
class TmuxSession:
    """A tmux session on a machine."""

    name: str
    created: float
    """Seconds since the epoch, by the machine's clock."""
    attached: int
    """Number of terminals that show the session."""
    panes: tuple[TmuxPane, ...] = ()

    @property
    def run(self) -> str | None:
        """Return the id of the session's run, or None if hudtui did not start the session."""
        return self.name.removeprefix(PREFIX) if self.name.startswith(PREFIX) else None

    def to_json(self) -> dict[str, Any]:
        windows = list(dict.fromkeys(pane.window for pane in self.panes))
        return {
            "name": self.name,
            "run": self.run,
            "windows": windows,
            "attached": self.attached,
            "created": self.created,
        }


@dataclass(frozen=True)
class LogSource:
    """One stream of lines: a file, or a pane."""

    name: str
    """The name shown for this source."""
    path: str | None = None
    pane: str | None = None
    continued: TrackedRun | None = None
    """The run whose files this file continues, or is continued by: event files, checkpoints, parts
    of a resumed run of W&B."""

    @property
    def files(self) -> tuple[str, ...]:
        """Return its files, the oldest first."""
        if self.continued is not None:
            return self.continued.files[::-1]
        return () if self.path is None else (self.path,)


@dataclass(frozen=True)
class ExternalSession:
    """A session or file to watch that hudtui did not start."""

    title: str
    sources: tuple[LogSource, ...]
    folder: str | None = None
    """The run's folder, if this is a run of hudtui."""
    run: str | None = None
    """The run in a database of trackio; None for the newest."""
    note: str | None = None
    """A sentence that says which file of a folder is read."""


@dataclass(frozen=True)
class SessionUpdate:
    """New lines of one source."""

    source: str
    at: float
    """Time of the read, in seconds since the epoch."""
    lines: tuple[str, ...] = ()
    """The lines, without control sequences."""
    rows: tuple[dict[str, float], ...] = ()
    """The metrics recognised in the lines."""
    signs: tuple[LogSymptom, ...] = ()
    """The symptoms found in the lines."""
    note: str | None = None
    """A sentence about an event of the source, such as a restarted log."""


async def list_tmux_sessions(host: Host) -> tuple[TmuxSession, ...]:
    """Return this account's tmux sessions on a host, newest first; empty without tmux."""
    about = "#{pane_id} #{session_attached} #{session_created} #{session_name}:#{window_name}"
    first = await _tmux(host, "list-panes", "-a", "-F", about)
    if first is None:
        return ()
    commands = await _tmux(host, "list-panes", "-a", "-F", "#{pane_id} #{pane_start_command}") or ""
    started = dict(line.split(" ", 1) for line in commands.splitlines() if " " in line)
    found: dict[str, TmuxSession] = {}
    for line in first.splitlines():
        pane, attached, created, names = [*line.split(" ", 3), "", "", "", ""][:4]
        session, _, window = names.partition(":")
        if not session or not _is_count(created) or not _is_count(attached):
            continue
        known = found.get(session) or TmuxSession(session, float(created), int(attached))
        panes = (*known.panes, TmuxPane(pane, window, _folder(started.get(pane, ""))))
        found[session] = TmuxSession(session, known.created, known.attached, panes)
    return tuple(sorted(found.values(), key=lambda session: session.created, reverse=True))


def _folder(command: str) -> str | None:
    """Return the run folder in a pane's command: `tail -c +1 -F FOLDER/logs/NAME.log`."""
    try:
        words = shlex.split(command)
        while len(words) == 1 and " " in words[0]:
            words = shlex.split(words[0])
    except ValueError:
        return None
    if len(words) != 5 or words[:2] != ["tail", "-c"] or words[3] != "-F":
        return None
    log = PurePosixPath(words[4])
    return str(log.parent.parent) if log.is_absolute() and log.parent.name == "logs" else None


async def find_session(
    host: Host, *, session: str | None = None, file: str | None = None
) -> ExternalSession:
    """Find the session or file that the user names.

    Args:
        host: The machine.
        session: Name of a tmux session, or a prefix of it, with or without `hudtui-`; with `file`,
            of a run in that database.
        file: Path of a log, of a metrics file, or of a folder with metrics files of one tracker, on
            that machine; relative to the current folder here, to the home folder elsewhere.

    Raises:
        InputError: There is no match, or several; the error lists them.
        MachineError: The machine does not answer.
    """
    if file is not None:
        if host.name == LOCAL:
            file = str(typed_path(file).absolute())
        if (facts := await host.stat(file)) is not None and not facts.regular:
            found, note = await newest_run(host, file)
            path = found.files[0]
            grows = (
                PurePosixPath(found.folder).is_relative_to(file)
                if found.tracker != "W&B"
                else len(found.files) > 1
            )
            grows = grows and found.tracker in ("W&B", "TensorBoard", "transformers")
            source = LogSource(
                PurePosixPath(path).name, path=path, continued=found if grows else None
            )
            return ExternalSession(clean_line(file), (source,), run=session, note=note)
        return ExternalSession(
            clean_line(file), (LogSource(PurePosixPath(file).name, path=file),), run=session
        )
    there = await list_tmux_sessions(host)
    if session is None:
        fit = [one for one in there if one.run] if len(there) != 1 else list(there)
    else:
        exact = [one for one in there if one.name in (session, PREFIX + session)]
        fit = exact or [one for one in there if one.name.startswith((session, PREFIX + session))]
    names = ", ".join(clean_line(one.name, 40) for one in there[:20])
    if not there:
        raise InputError(
            f"{host.name} has no tmux session", fix="Give the path of a log instead: --file PATH."
        )
    if not fit:
        what = (
            f"no tmux session {clean_line(session, 40)!r}"
            if session
            else "several tmux sessions, and none of a run"
        )
        raise InputError(
            f"{host.name} has {what}",
            why=f"the sessions are: {names}",
            fix="Name one: --session NAME.",
        )
    if len(fit) > 1:
        names = ", ".join(clean_line(one.name, 40) for one in fit[:20])
        raise InputError(
            f"several tmux sessions of {host.name} fit", why=names, fix="Name one: --session NAME."
        )
    chosen = fit[0]
    folder = next((pane.folder for pane in chosen.panes if pane.folder), None)
    if folder is not None and chosen.run and (sources := await _files_of(host, folder)):
        return ExternalSession(chosen.name, sources, folder)
    several = len({pane.window for pane in chosen.panes}) < len(chosen.panes)
    panes = tuple(
        LogSource(f"{clean_line(pane.window, 32)}{pane.id if several else ''}", pane=pane.id)
        for pane in chosen.panes
    )
    return ExternalSession(clean_line(chosen.name, 64), panes)


async def _files_of(host: Host, folder: str) -> tuple[LogSource, ...]:
    """Return the logs and metrics files in a run's folder."""
    from hudtui.core.runs.reports import read_status

    try:
        status = await read_status(host, f"{folder}/status.json")
    except FileRefused:
        return ()
    names = (
        [name for name in status.stages if name.isprintable() and "/" not in name][:_STAGES]
        if status
        else []
    )
    sources = [LogSource(name, path=f"{folder}/logs/{name}.log") for name in names]
    if await host.stat(f"{folder}/out/metrics.jsonl") is not None:
        sources.append(LogSource("metrics", path=f"{folder}/out/metrics.jsonl"))
    return tuple(sources)


class SessionWatcher:
    """Follows the sources of a session that hudtui did not start.

    It keeps the metrics that it recognises.

    `lines` is the number of existing lines to include, counted from the end; None for all.
    `from_when` are the thresholds of alarms; None for no alarm until they are known.
    """

    def __init__(
        self,
        host: Host,
        foreign: ExternalSession,
        *,
        lines: int | None = 200,
        from_when: Thresholds | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.host, self.foreign = host, foreign
        self._lines, self.from_when, self._now = lines, from_when, now
        self.readers: dict[str, MetricsReader] = {
            source.name: MetricsReader() for source in foreign.sources
        }
        self.before: dict[str, int] = {}
        """For each source, the number of bytes before the first included line."""
        self.load = MetricsReader()
        """The load of the machine by time, as far as a tracker has written it down."""
        self.about: dict[str, dict[str, str]] = {}
        """What a tracker's file says of the run: `settings` and `machine`, each by its names."""
        self._read: set[str] = set()
        """The sources whose file was opened."""
        self._unread: set[str] = set()
        """The sources whose beginning was not searched for numbers."""
        self._behind: set[str] = set()
        """The sources that hold more than was read of them until now."""
        self._signs: deque[LogSymptom] = deque(maxlen=_SIGNS)
        self._live = LiveDiagnosis()
        self._logs: dict[str, LogSource] = {}
        """The sources that are files of lines; known once their first bytes were read."""

    @property
    def numbers(self) -> MetricsReader:
        """Return the metrics of the source with the most quantities.

        Among equals, of the source with the most lines.
        """
        return max(self.readers.values(), key=lambda reader: (len(reader.told), reader.count))

    @property
    def window(self) -> str | None:
        """Return a sentence about the steps before the first one that was read.

        None if the source was read whole.
        """
        numbers = self.numbers
        if not any(self.readers[name] is numbers for name in self._unread):
            return None
        firsts = [points[0].x for name in numbers.names if (points := numbers.series(name))]
        return f"steps before {step_text(min(firsts))} are not read" if firsts else None

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Return the alarms that can be found in the lines, the worst first."""
        if self.from_when is None:
            return ()
        from hudtui.core.diagnosis.alarms import find_alarms
        from hudtui.core.diagnosis.facts import RunFacts

        facts = RunFacts(active=True, signs=tuple(reversed(self._signs)))
        facts = facts.with_metrics(self.numbers)
        return find_alarms(facts, self.from_when, findings=self._live.findings)

    @property
    def diagnosis(self) -> Diagnosis:
        """Return what the numbers and the lines say about the run's health."""
        newest = self._live.newest or NOTHING
        if newest is NOTHING and not self.alarms:
            return NOTHING
        from hudtui.core.diagnosis.alarms import with_alarms
        from hudtui.core.diagnosis.spent import with_spent

        return with_spent(with_alarms(newest, self.alarms, self._live.settings), self.numbers)

    async def diagnose(self, *, last: bool = False) -> None:
        """Look at the numbers again, if it is time; `last`: whatever the time.

        Not while what a tracker's file held at first is still being read: the half of a run says
        something else about its health than the whole.
        """
        if self._behind and not last:
            return
        await self._live.renew(self.numbers, last=last)

    def log(self, source: str) -> LogFile | None:
        """Return the log of a followed source.

        None for a terminal, which keeps no earlier lines, and for a tracker's file.
        """
        found = self._logs.get(source)
        return (
            None
            if found is None or found.path is None
            else LogFile(LogPlace(self.host, found.path))
        )

    async def follow(self, *, once: bool = False) -> AsyncGenerator[SessionUpdate, None]:
        """Yield the new lines of all sources.

        With `once` it stops after the lines that exist already.

        Raises:
            MachineError: A source cannot be read, or the machine rejected the login.
        """
        queue: asyncio.Queue[SessionUpdate | BaseException | None] = asyncio.Queue(maxsize=100)

        async def follow(source: LogSource) -> None:
            stream = (
                self._file(source, once) if source.path is not None else self._pane(source, once)
            )
            try:
                async with aclosing(stream) as seen:
                    async for one in seen:
                        await queue.put(one)
            except Exception as error:
                await queue.put(error)
            await queue.put(None)

        async def look(source: LogSource) -> None:
            async with aclosing(self._absence(source)) as notes:
                async for note in notes:
                    await queue.put(note)

        tasks = [asyncio.create_task(follow(source)) for source in self.foreign.sources]
        open_ones = len(tasks)
        if not once:
            # Of files that continue one another, an old one may go when a new one has come.
            files = [
                source
                for source in self.foreign.sources
                if source.path is not None and source.continued is None
            ]
            tasks += [asyncio.create_task(look(source)) for source in files]
        try:
            if self.foreign.note is not None:
                yield SessionUpdate(
                    self.foreign.sources[0].name, self._now(), note=self.foreign.note
                )
            while open_ones:
                one = await queue.get()
                if one is None:
                    open_ones -= 1
                elif isinstance(one, BaseException):
                    raise one
                else:
                    yield one
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _line_reader(self, source: LogSource) -> LogMetricsReader:
        """Return the reader of the numbers of a source that has lines of text."""
        # Its many patterns are compiled when it is imported: not for a tracker's file.
        from hudtui.core.training.log_metrics import LogMetricsReader

        reader = self.readers[source.name] = LogMetricsReader()
        return reader

    def _seen(
        self, source: LogSource, lines: list[str], rows: list[Row], note: str | None = None
    ) -> SessionUpdate:
        signs = self._find_signs(source, lines)
        return SessionUpdate(source.name, self._now(), tuple(lines), tuple(rows), signs, note)

    def _find_signs(self, source: LogSource, lines: list[str]) -> tuple[LogSymptom, ...]:
        signs = find_symptoms(source.name, lines)
        self._signs.extend(sign for sign in dict.fromkeys(signs) if sign not in self._signs)
        return signs

    async def _file(self, source: LogSource, once: bool) -> AsyncGenerator[SessionUpdate, None]:
        assert source.path is not None
        host, path = self.host, source.path
        facts = await host.stat(path)
        if facts is None:
            if once:
                raise MachineError(f"there is no file {file_words(host, path)}")
            yield SessionUpdate(
                source.name,
                self._now(),
                note=f"waiting for {clean_line(path)}, which does not exist yet",
            )
            facts = await self._appear(path)
        head = await host.get(path, limit=_HEAD)
        database = head.startswith(_SQLITE)
        if self.foreign.run is not None and not database:
            raise InputError(
                f"{file_words(host, path)} is not a database with several runs",
                fix="Give --session or --file, not both.",
            )
        tracker = tracker_file(path, head)
        if tracker is not None and source.continued is not None:
            updates = self._rewritten(source, _Joined(host, source.continued, type(tracker)), once)
        elif tracker is not None:
            updates = self._grown(source, tracker, facts.size, once)
        elif database:
            updates = self._rewritten(source, _Trackio(host, path, self.foreign.run), once)
        elif is_trainer_state(path, head):
            updates = self._rewritten(source, _TrainerState(host, path, source.continued), once)
        elif (encoding := _utf_16(head)) is not None:
            updates = self._log(source, facts.size, once, encoding)
        elif b"\0" in head and not (
            _is_text(head)
            or _is_text(await host.get(path, offset=max(facts.size - _HEAD, 0), limit=_HEAD))
        ):
            raise InputError(f"{file_words(host, path)} is not a text file", fix=_FOLLOW_INSTEAD)
        else:
            updates = self._log(source, facts.size, once)
        self._read.add(source.name)
        async with aclosing(updates) as seen:
            async for one in seen:
                yield one

    async def _absence(self, source: LogSource) -> AsyncGenerator[SessionUpdate, None]:
        """Yield a notice whenever a file that was read has gone. A new one is followed."""
        assert source.path is not None
        existed = False
        while True:
            with contextlib.suppress(MachineError):  # no contact is told by who reads the file
                exists = await self.host.stat(source.path) is not None
                if existed and not exists and source.name in self._read:
                    note = f"{clean_line(source.path)} is gone; a new file of its name is followed"
                    yield SessionUpdate(source.name, self._now(), note=note)
                existed = exists
            await asyncio.sleep(_LOOK)

    async def _appear(self, path: str) -> FileStat:
        """Wait for a file that does not exist yet."""
        while True:
            await asyncio.sleep(POLL)
            with contextlib.suppress(MachineError):
                if (facts := await self.host.stat(path)) is not None:
                    return facts

    async def _log(
        self, source: LogSource, end: int, once: bool, encoding: str | None = None
    ) -> AsyncGenerator[SessionUpdate, None]:
        """Follow a file of lines, which has `end` bytes now.

        One in another encoding than UTF-8 is told from its beginning on.
        """
        assert source.path is not None
        host, path, reader = self.host, source.path, self._line_reader(source)
        decoder = (
            codecs.getincrementaldecoder(encoding)("replace") if encoding is not None else None
        )
        start = 0
        if decoder is None:
            self._logs[source.name] = source
            start = (
                0 if self._lines is None else await offset_of_last_lines(host, path, self._lines)
            )
        self.before[source.name] = start
        if start:
            first = max(start - BACKLOG, 0)
            torn = first > 0
            if first:
                self._unread.add(source.name)
            while first < start:
                data = await host.get(path, offset=first, limit=min(1024 * 1024, start - first))
                if not data:
                    break
                first += len(data)
                if torn:  # the window begins in the middle of a line, which may have lost its step
                    _, newline, data = data.partition(b"\n")
                    torn = not newline
                for place in range(0, len(data), _SLICE):
                    reader.feed(data[place : place + _SLICE])
                    if not once:
                        await _turns()
                if not once:
                    yield SessionUpdate(source.name, self._now())  # there are numbers to look at
            reader.taken()
        feed, at, existing = LineSplitter(offset=start), start, end
        if once and end <= start:
            reader.end()
            return
        old, kept = deque[str](maxlen=self._lines), deque[Row](maxlen=self._lines)
        """The lines of a file in another encoding that were there already, and the rows of any
        file."""
        async with aclosing(host.follow(path, offset=start)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                note, at = (
                    "the log was restarted" if chunk.offset != at else None,
                    chunk.offset + len(chunk.data),
                )
                data = chunk.data
                if decoder is not None:
                    if note is not None:
                        decoder.reset()
                    data = decoder.decode(data).lstrip("\ufeff").encode("utf-8", "replace")
                if note is not None:
                    reader.restart()
                    existing = 0  # all that comes is new
                reader.at = self._now()
                reader.feed(data)
                found = feed.feed(
                    FileChunk(feed.offset if decoder is not None else chunk.offset, data)
                )
                lines, last = found.done, once and at >= end
                if last:
                    reader.end()
                    lines = [*lines, *([found.partial] if found.partial else [])]
                if decoder is not None and at - len(chunk.data) < end:
                    old.extend(lines)
                    lines = list(old) if at >= end else []
                rows = reader.taken()
                if self._lines is not None and at - len(chunk.data) < existing:
                    kept.extend(rows)  # a line of progress bars has a row for each of them
                    rows = list(kept) if at >= existing else []
                if lines or rows or note:
                    yield self._seen(source, lines, rows, note)
                if last:
                    return

    async def _grown(
        self, source: LogSource, tracker: TrackerFile, end: int, once: bool
    ) -> AsyncGenerator[SessionUpdate, None]:
        """Follow a tracker's file that only grows, and has `end` bytes now."""
        assert source.path is not None
        at, kept = 0, deque[Row | str](maxlen=self._lines)
        if once and end == 0:
            return
        if end:
            self._behind.add(source.name)
        async with aclosing(self.host.follow(source.path)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                note = None
                if chunk.offset != at:
                    tracker, note = type(tracker)(), "the file was restarted"
                damaged = tracker.damaged
                rows = tracker.feed(chunk.data)
                self._take_about(tracker)
                before, at = at, chunk.offset + len(chunk.data)
                if at >= end or note:
                    self._behind.discard(source.name)
                if once and at >= end:
                    tracker.end()
                if tracker.damaged > damaged:
                    note = f"damaged {damage_of(tracker)}: unreadable records are left out"
                news = self._take(source, rows, tracker)
                kept.extend(news)
                if (at >= end and kept) or note:
                    yield self._told(source, list(kept if before < end else news), note)
                    kept.clear()
                elif rows and not once:
                    yield SessionUpdate(source.name, self._now())  # there are numbers to look at
                if not once:
                    await _turns()
                if once and at >= end:
                    if tracker.damaged:
                        raise InputError(
                            f"{file_words(self.host, source.path)} is damaged {damage_of(tracker)}"
                        )
                    return

    async def _rewritten(
        self, source: LogSource, file: _Snapshots, once: bool
    ) -> AsyncGenerator[SessionUpdate, None]:
        """Follow a tracker's file that is read again whenever it has changed."""
        first = True
        while True:
            began = time.monotonic()
            try:
                rows = await file.news()
                self._take_about(file)
            except MachineError as error:
                if first:
                    raise
                yield SessionUpdate(
                    source.name,
                    self._now(),
                    note=f"no contact, it is tried again: {clean_line(error.what, 200)}",
                )
                rows = []
            news = self._take(source, rows, file)
            shown = (
                news[-self._lines :]
                if first and self._lines
                else []
                if first and self._lines == 0
                else news
            )
            note, file.note = file.note, None
            if shown or note:
                yield self._told(source, shown, note)
            if once:
                if file.damage is not None:
                    raise file.damage
                return
            first = False
            await asyncio.sleep(max(_AGAIN, 10 * (time.monotonic() - began)))

    def _take_about(self, file: TrackerFile | _Snapshots) -> None:
        """Take the load of the machine and what is said of the run."""
        for row in file.load:
            self.load.add(row)
        file.load.clear()
        for title, values in file.about.items():
            self.about.setdefault(title, {}).update(values)

    def _take(
        self, source: LogSource, rows: list[Row], file: TrackerFile | _Snapshots
    ) -> list[Row | str]:
        """Add rows to the numbers.

        Returns:
            The rows, with the step that the trainer counts by, and the lines that were printed.
        """
        reader, told = self.readers[source.name], list[Row | str]()
        for row in rows:
            reader.add(row)
            step = step_of(row)
            told.append(row if step is None or "step" in row else {"step": step, **row})
        told += [clean(line).rstrip() for line in file.printed]
        file.printed.clear()
        return told

    def _told(self, source: LogSource, news: list[Row | str], note: str | None) -> SessionUpdate:
        lines = [
            one if isinstance(one, str) else clean_line(json.dumps(one, ensure_ascii=False))
            for one in news
        ]
        printed = [one for one in news if isinstance(one, str)]
        rows = tuple(one for one in news if not isinstance(one, str))
        return SessionUpdate(
            source.name, self._now(), tuple(lines), rows, self._find_signs(source, printed), note
        )

    async def _pane(self, source: LogSource, once: bool) -> AsyncGenerator[SessionUpdate, None]:
        assert source.pane is not None
        view, reader = _Window(self.host, source.pane), self._line_reader(source)
        first, full = True, False
        away = False
        while True:
            try:
                look = await view.look(HISTORY if first else None)
            except MachineError as error:
                if first:
                    raise
                if not away:
                    yield SessionUpdate(
                        source.name,
                        self._now(),
                        note=f"no contact, it is tried again: {clean_line(error.what, 200)}",
                    )
                away = True
                await asyncio.sleep(_AGAIN)
                continue
            away = False
            if look is None:
                if first:
                    raise MachineError(f"the window {source.name} of {self.host.name} is gone")
                yield SessionUpdate(source.name, self._now(), note="the window was closed")
                return
            note = "some lines may be missing here" if look.gap else None
            if look.full_screen and not full:
                note = "the window shows a full-screen program, which has no lines to follow"
            full = look.full_screen
            if look.lines:
                reader.at = self._now()
                reader.see_screen(list(look.lines), look.last)
            if first and look.scrolled:
                self._unread.add(source.name)
            if look.lines or note:
                lines = list(look.lines)
                if first and self._lines is not None:
                    lines = lines[max(len(lines) - self._lines, 0) :]
                yield self._seen(source, lines, reader.taken(), note)
            if look.dead:
                yield SessionUpdate(
                    source.name, self._now(), note="the program in the window has ended"
                )
                return
            if once:
                return
            first = False
            await asyncio.sleep(POLL)


async def _turns() -> None:
    """Let others draw and answer keys while a large file is read."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)


def _utf_16(head: bytes) -> str | None:
    """Return the encoding of a text in UTF-16, as PowerShell writes it; None for anything else."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-le" if head.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    half = len(head) // 2
    for place, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if (
            half > 8
            and head[place : 2 * half : 2].count(0) > 0.8 * half
            and head[1 - place : 2 * half : 2].count(0) == 0
        ):
            return name
    return None


def _is_text(data: bytes) -> bool:
    """Return whether some bytes are text with NUL bytes in it.

    Such is a log that was emptied while it was written.
    """
    there = data.replace(b"\0", b"")
    odd = sum(byte < 32 and byte not in (8, 9, 10, 13, 27) for byte in there)
    text = there.decode("utf-8", "replace")
    return len(there) > 8 and odd <= len(there) // 50 and text.count("\ufffd") <= len(text) // 50


def damage_of(tracker: TrackerFile) -> str:
    """Return where a tracker's file is damaged, as the end of a sentence."""
    assert tracker.damage is not None
    place, whole = tracker.damage
    several = f"in {tracker.damaged} places, the last of them " if tracker.damaged > 1 else ""
    return f"{several}at byte {place:,}, after {plural(whole, 'whole record')}"


class _Snapshots:
    """A file that its writer rewrites.

    It is copied before it is parsed, so that the original is neither opened nor locked.
    """

    def __init__(self, host: Host, path: str) -> None:
        self.host, self.path = host, path
        self.note: str | None = None
        """A notice for the user about the newest rows."""
        self.damage: InputError | None = None
        """The damaged places that were left out."""
        self.load: list[Row] = []
        self.printed: list[str] = []
        self.about: dict[str, dict[str, str]] = {}
        """See `TrackerFile`."""
        self._known: Any = None

    async def news(self) -> list[Row]:
        """Return the rows that are new since the last call.

        Raises:
            InputError: The file is too large, or its content does not match its first bytes.
            MachineError: The machine does not answer.
        """
        found = await self._state()
        if found == self._known or not found:
            return []
        if sum(facts.size for facts in found) > _COPIED:
            raise self._refused(f"is larger than {_COPIED >> 20} MiB", _FOLLOW_INSTEAD)
        for tried in range(_TRIES):  # the file may change while it is copied
            try:
                rows = await self._read()
            except TooLong as error:
                raise self._refused(str(error), _FOLLOW_INSTEAD) from None
            except (ValueError, sqlite3.Error) as error:
                why = str(error)
                if tried and found == await self._state():
                    # it did not change: reading it again takes as long, and ends in the same way
                    break
            else:
                self._known = found
                return rows
            await asyncio.sleep(POLL)
        raise self._refused(
            f"cannot be read: {clean_line(why, 200)}",
            "The file is damaged, or was written by another program.",
        )

    def _refused(self, words: str, fix: str) -> InputError:
        return InputError(f"{file_words(self.host, self.path)} {words}", fix=fix)

    async def _state(self) -> list[FileStat]:
        """Return sizes and times of the files; empty while no file exists."""
        return [facts for facts in [await self.host.stat(self.path)] if facts is not None]

    async def _read(self) -> list[Row]:
        raise NotImplementedError


class _TrainerState(_Snapshots):
    """The `trainer_state.json` of a checkpoint, or of a folder's checkpoint with most steps."""

    def __init__(self, host: Host, path: str, run: TrackedRun | None) -> None:
        super().__init__(host, path)
        self._run = run
        self._rows: list[str] = []

    async def _state(self) -> list[FileStat]:
        if self._run is not None:
            files = await run_files(self.host, self._run)
            if files and files[0] != self.path:
                self.path = files[0]
                self.note = f"read from {PurePosixPath(self.path).parent.name} now"
        return await super()._state()

    async def _read(self) -> list[Row]:
        rows = await asyncio.to_thread(
            read_trainer_state, await self.host.get(self.path, limit=_COPIED)
        )
        before, self._rows = self._rows, [repr(row) for row in rows]
        same = next(
            (
                place
                for place, (old, new) in enumerate(zip(before, self._rows, strict=False))
                if old != new
            ),
            None,
        )
        return rows[min(len(before), len(rows)) if same is None else same :]


class _Joined(_Snapshots):
    """The files of one run, in which each continues the one before it.

    Event files, or the parts of a resumed run of W&B.
    """

    def __init__(self, host: Host, run: TrackedRun, kind: Callable[[], TrackerFile]) -> None:
        super().__init__(host, run.folder)
        self._run, self._kind = run, kind
        self._readers: dict[str, tuple[TrackerFile, int]] = {}
        """For each file, its reader and the number of bytes read."""
        self._rows: list[Row] = []

    async def _state(self) -> list[FileStat]:
        self._files = await run_files(self.host, self._run)
        return [facts for path in self._files if (facts := await self.host.stat(path)) is not None]

    async def _read(self) -> list[Row]:
        for path in reversed(self._files):
            reader, at = self._readers.get(path, (self._kind(), 0))
            while data := await self.host.get(path, offset=at, limit=_PIECE):
                damaged = reader.damaged
                self._rows += await asyncio.to_thread(reader.feed, data)
                at += len(data)
                self._readers[path] = reader, at
                self.load += reader.load
                reader.load.clear()
                self.printed += reader.printed
                reader.printed.clear()
                self.about.update(reader.about)
                if reader.damaged > damaged:
                    where = f"{file_words(self.host, path)} is damaged {damage_of(reader)}"
                    self.note, self.damage = (
                        f"{where}: unreadable records are left out",
                        InputError(where),
                    )
        rows, self._rows = self._rows, []
        return rows


class _Trackio(_Snapshots):
    """A run in a trackio database."""

    _last = 0

    def __init__(self, host: Host, path: str, run: str | None) -> None:
        super().__init__(host, path)
        self.run = run

    async def _state(self) -> list[FileStat]:
        log = await self.host.stat(f"{self.path}-wal")
        return [*await super()._state(), *([log] if log is not None else [])]

    async def _read(self) -> list[Row]:
        with temporary_folder("hudtui-watch") as folder:
            copy = folder / "copy.db"
            before = await self._log_head()
            await self.host.download(self.path, copy)
            if before:
                await self.host.download(f"{self.path}-wal", copy.with_name("copy.db-wal"))
            if before != await self._log_head():
                raise ValueError("the file changes all the time")
            runs = await asyncio.to_thread(trackio_runs, copy)
            if self.run is not None and self.run not in runs:
                names = ", ".join(clean_line(name, 40) for name in runs[:20])
                raise self._refused(
                    f"has no run {clean_line(self.run, 60)!r}", f"There are: {names or 'none yet'}."
                )
            if not runs:
                return []
            if self.run is None:
                self.run = runs[0]
                if others := [clean_line(name, 40) for name in runs[1:6]]:
                    self.note = (
                        f"the newest of {len(runs)} runs, {clean_line(self.run, 60)}; --session "
                        f"NAME shows {', '.join(others)}"
                    )
            rows, self._last = await asyncio.to_thread(read_trackio, copy, self.run, self._last)
        return rows

    async def _log_head(self) -> bytes:
        """Return the head of the write-ahead log, which changes when the log starts over."""
        try:
            return await self.host.get(f"{self.path}-wal", limit=32)
        except FileRefused:
            return b""


@dataclass(frozen=True)
class _PaneSnapshot:
    lines: tuple[str, ...]
    gap: bool = False
    full_screen: bool = False
    dead: bool = False
    last: str = ""
    """The row of the cursor, which may still change: a progress bar overwrites itself there."""
    scrolled: bool = False
    """There are earlier lines, which were not read."""


class _Window:
    """The lines of a pane as they scroll by."""

    def __init__(self, host: Host, pane: str) -> None:
        self._host, self._pane = host, pane
        self._before: list[str] = []
        self._end = 0
        self._state = ""

    async def look(self, backlog: int | None) -> _PaneSnapshot | None:
        """Return the new complete lines, or None if the pane no longer exists.

        `backlog`: how many of the existing lines count as new at the first read.
        """
        state = await self._facts()
        if state is None:
            return None
        _, row, _, full, dead, _ = state
        key = " ".join(map(str, state))
        if full or (key == self._state and backlog is None):
            return _PaneSnapshot((), full_screen=bool(full), dead=bool(dead))
        self._state = key
        if dead:
            row += 1  # the pane's last line is complete
        told = await _tmux(
            self._host,
            *("display-message", "-p", "-t", self._pane, "#{history_size} #{pane_width}", ";"),
            *(
                "capture-pane",
                "-p",
                "-J",
                "-t",
                self._pane,
                "-S",
                str(-HISTORY),
                "-E",
                str(row - 1),
                ";",
            ),
            *("capture-pane", "-p", "-t", self._pane, "-S", str(row), "-E", str(row)),
        )
        if told is None:
            return None
        head, _, text = told.partition("\n")
        if len(parts := head.split()) != 2 or not all(map(_is_count, parts)):
            return None
        history, width = int(parts[0]), max(int(parts[1]), 1)
        *above, last = [clean(line).rstrip() for line in text.split("\n")[:-1]] or [""]
        lines = above if history or row else []
        if lines and not dead and cell_len(lines[-1]) and cell_len(lines[-1]) % width == 0:
            lines.pop()  # the line may continue in the cursor's row
        end, gap = history + row, False
        if backlog is not None:
            fresh = lines[max(len(lines) - backlog, 0) :] if backlog else []
        else:
            place = _place(self._before, lines, end - self._end)
            gap = place is None
            fresh = lines[place or 0 :]
        self._before, self._end = lines[-_ANCHOR:], end
        return _PaneSnapshot(
            tuple(fresh), gap=gap, dead=bool(dead), last=last, scrolled=history > HISTORY
        )

    async def _facts(self) -> tuple[int, int, int, int, int, int] | None:
        names = (
            "history_size",
            "cursor_y",
            "cursor_x",
            "alternate_on",
            "pane_dead",
            "history_bytes",
        )
        told = await _tmux(
            self._host,
            "display-message",
            "-p",
            "-t",
            self._pane,
            " ".join(f"#{{{name}}}" for name in names),
        )
        parts = (told or "").split()
        if len(parts) != len(names) or not all(map(_is_count, parts)):
            return None
        numbers = [int(part) for part in parts]
        return (numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5])


def _is_count(text: str) -> bool:
    """Return whether tmux's answer is a plausible count of rows or seconds."""
    return text.isascii() and text.isdecimal() and len(text) < 12


def _place(before: list[str], lines: list[str], grown: int) -> int | None:
    """Find the first new line in `lines`.

    `grown` is the number of rows by which the pane has grown; negative if it was cleared or has
    dropped old rows.

    Returns:
        The index of the first new line; None if no earlier line is found, so that lines may be
        missing.
    """
    if not before:
        return 0
    for length in dict.fromkeys((len(before), min(len(before), 8))):
        anchor = before[-length:]
        places = [
            end
            for end in range(len(lines), length - 1, -1)
            if lines[end - 1] == anchor[-1] and lines[end - length : end] == anchor
        ]
        if places:
            # Repeated lines may match at several places: the number of rows decides.
            return (
                places[0]
                if grown < 0
                else min(places, key=lambda end: abs(len(lines) - end - grown))
            )
    return None


async def _tmux(host: Host, *arguments: str) -> str | None:
    """Return tmux's output on a host; None without tmux, its server or that pane.

    Raises:
        MachineError: The machine does not answer.
    """
    try:
        done = await host.run(["tmux", *arguments], env=_ENV, timeout=_PATIENCE)
    except MachineError as error:
        if "tmux" in error.what:
            return None
        raise
    return done.stdout if done.ok else None
