"""A run that hudtui did not start, as a row and a view like those of the project's own runs.

It is a tmux session, a log, a tracker's file or folder, or a model server, on any machine. It is
only read.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from hudtui.core.errors import InputError
from hudtui.core.paths import typed_path
from hudtui.core.remote.host import LOCAL, Host
from hudtui.core.remote.hosts import open_host
from hudtui.core.remote.log_file import Log, LogFile, LogPlace
from hudtui.core.remote.tmux import PREFIX
from hudtui.core.runs.sessions import (
    HISTORY,
    ExternalSession,
    SessionUpdate,
    SessionWatcher,
    find_session,
)
from hudtui.core.runs.status import RunView, StageView, server_load
from hudtui.core.runs.values import RunSummary
from hudtui.core.text import clean_line
from hudtui.core.training.metrics import MetricsReader
from hudtui.core.training.tracker_files import TENSORBOARD, WANDB

if TYPE_CHECKING:
    from hudtui.core.diagnosis.facts import Thresholds
    from hudtui.core.runs.values import RunState
    from hudtui.core.runs.vllm import ModelServer

_TOGETHER = 0.5
"""Seconds within which new lines and numbers make one view."""
_NAME = 60
"""Largest number of characters of a name."""
_OF_NUMBERS = (".wandb", ".db", ".jsonl", "trainer_state.json")
"""The ends of the names of files that hold numbers, and no lines to read."""
_ELSEWHERE = re.compile(
    r"(?P<machine>(?:pod:)?(?!pod:)(?:[^\s/:@]+@)?(?:\[[^\s\]]+\]|[^\s/:@\[\]]+)(?::\d+)?)"
    r":(?!\d+$)(?P<path>.+)"
)
"""A path on another machine, as `scp` takes it: `HOST:PATH`, `user@host:port:PATH`."""


@dataclass(frozen=True)
class ExternalPlace:
    """Where an external run is: a machine, and a session, a path or a port on it."""

    machine: str = LOCAL
    session: str | None = None
    file: str | None = None
    port: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ExternalPlace:
        """Return the place that `fields` describes; what it does not know is left out."""
        port = given.get("port", "")
        return cls(
            given.get("machine") or LOCAL,
            given.get("session") or None,
            given.get("file") or None,
            int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else None,
        )

    @property
    def fields(self) -> dict[str, str]:
        """Return the place as texts, for a file that remembers it."""
        file = self.file
        if file is not None and self.machine == LOCAL:
            file = str(typed_path(file).absolute())
        port = None if self.port is None else str(self.port)
        parts = {"machine": self.machine, "session": self.session, "file": file, "port": port}
        return {name: part for name, part in parts.items() if part is not None}

    @property
    def title(self) -> str:
        """Return a name for a list, as far as the place alone tells it."""
        if self.file is not None:
            name = PurePosixPath(self.file).name or self.file
        elif self.port is not None:
            name = f"port {self.port}"
        else:
            name = (self.session or "tmux").removeprefix(PREFIX)
        where = "" if self.machine == LOCAL else f" on {self.machine}"
        return clean_line(name, _NAME) + clean_line(where, _NAME)

    @property
    def id(self) -> str:
        """Return a text that no other place and no run of a project has."""
        given = self.fields
        names = ("machine", "session", "file", "port")
        return "external:" + ":".join(given.get(name, "") for name in names)


def remembered_summary(place: ExternalPlace) -> RunSummary:
    """Return the row of an external run that is listed and was not looked for yet."""
    folder = clean_line(place.file or "")
    host = clean_line(place.machine, _NAME)
    return RunSummary(
        place.id, place.title, engine="external", host=host, folder=folder, state="ended"
    )


class ExternalRun:
    """An external run that is followed.

    Args:
        place: Where it is.
        host: The machine.
        session: What is followed there; None for a model server.
        now: Returns seconds since the epoch.
        thresholds: Reads from which numbers on there is an alarm.
    """

    def __init__(
        self,
        place: ExternalPlace,
        host: Host,
        session: ExternalSession | None,
        *,
        now: Callable[[], float],
        thresholds: Callable[[], Thresholds],
    ) -> None:
        self.place = place
        self._host, self._session = host, session
        self._now, self._thresholds = now, thresholds
        self._logs: dict[str, Log] = {}
        summary = RunSummary(
            place.id,
            _name(place, host, session),
            engine="external",
            host=clean_line(host.name, _NAME),
            folder=clean_line(place.file or ""),
            state="followed",
            created=now(),
        )
        sources = session.sources if session is not None else ()
        stages = tuple(StageView(source.name, "running") for source in sources)
        self.view = RunView(summary, stages)
        """The newest state."""

    @property
    def measures(self) -> bool:
        """Return whether what is followed is surely one of numbers, by its name or its folder."""
        if self._session is None:
            return False
        name = PurePosixPath(self.place.file or "").name
        named = name.endswith(_OF_NUMBERS) or "tfevents" in name
        return named or self._session.note is not None

    @cached_property
    def recorded(self) -> tuple[str, ...]:
        """The files whose records say more than numbers and lines, by their names, oldest first."""
        sources = self._session.sources if self._session is not None else ()
        patterns = [one.pattern for one in (WANDB, TENSORBOARD)]
        files = (file for source in sources for file in source.files)
        return tuple(one for one in files if any(map(PurePosixPath(one).match, patterns)))

    async def write_records(self, here: Path) -> None:
        """Write the records of its files into a file here as they come; see `write_records`."""
        from hudtui.core.runs.records import write_records

        await write_records(self._host, self.recorded, here)

    def log(self, window: str | None) -> Log | None:
        """Return the log of a window or file; None while no line of it is known."""
        return self._logs.get(window or "")

    async def follow(self, folder: Path) -> AsyncGenerator[RunView, None]:
        """Yield the state of the run as it changes, until its session has ended.

        `folder` takes the lines of what is no file of lines: a window, or a tracker's file. They
        can be read as long as the folder exists.

        Raises:
            HudtuiError: It can no longer be read.
        """
        self._logs.clear()
        self._end("followed")
        try:
            views = self._server() if self._session is None else self._follow(self._session, folder)
            async with aclosing(views) as seen:
                async for view in seen:
                    self.view = view
                    yield view
        finally:
            self._end("ended")
        yield self.view

    def _end(self, state: RunState) -> None:
        self.view = replace(self.view, summary=replace(self.view.summary, state=state))

    async def _server(self) -> AsyncGenerator[RunView, None]:
        from hudtui.core.runs.vllm import follow_server

        assert self.place.port is not None
        load = MetricsReader()
        async with aclosing(follow_server(self._host, self.place.port)) as states:
            async for state in states:
                load.add({**server_load(state), "time": state.at})
                summary, model = self.view.summary, state.sample.model
                if model is not None:
                    name = f"{clean_line(model, _NAME)} on {_name(self.place, self._host, None)}"
                    summary = replace(summary, name=name)
                yield replace(
                    self.view,
                    summary=summary,
                    servers=(state,),
                    load=load,
                    problem=_trouble(state),
                )

    async def _follow(
        self, session: ExternalSession, folder: Path
    ) -> AsyncGenerator[RunView, None]:
        watcher = SessionWatcher(self._host, session, lines=HISTORY, now=self._now)
        lines = _Lines(watcher, await open_host(LOCAL), folder, self._logs)
        changed, told = asyncio.Event(), asyncio.Event()

        async def read() -> None:
            try:
                async with aclosing(watcher.follow()) as updates:
                    async for update in updates:
                        await lines.take(update)
                        changed.set()
                        if watcher.numbers.told:
                            told.set()
            finally:
                changed.set()

        async def judge() -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), _TOGETHER)
            await asyncio.sleep(_TOGETHER)
            watcher.from_when = await asyncio.to_thread(self._thresholds)
            changed.set()

        reading, numbers = asyncio.create_task(read()), asyncio.create_task(told.wait())
        # The first curves wait neither for the user's settings nor for a large library.
        judging = asyncio.create_task(judge())
        drawn = False
        try:
            while not reading.done() or changed.is_set():
                await changed.wait()
                changed.clear()
                if drawn:
                    await watcher.diagnose()
                elif watcher.numbers.told:
                    drawn = True
                    changed.set()
                yield replace(
                    self.view,
                    metrics=watcher.numbers,
                    unread=watcher.window,
                    alarms=watcher.alarms,
                    load=watcher.load,
                    about=watcher.about,
                    diagnosis=watcher.diagnosis,
                    problem=lines.note,
                )
                ends = [reading] if drawn else [reading, numbers]
                await asyncio.wait(ends, timeout=_TOGETHER, return_when=asyncio.FIRST_COMPLETED)
            await reading
        finally:
            for task in (numbers, judging, reading):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task


class _Lines:
    """The lines of the sources of a session: as their files, or written into files here."""

    def __init__(
        self, watcher: SessionWatcher, here: Host, folder: Path, logs: dict[str, Log]
    ) -> None:
        self._watcher, self._here, self._folder, self._logs = watcher, here, folder, logs
        self._written: dict[str, Path] = {}
        self.note: str | None = None
        """The newest notice, until the next lines."""

    async def take(self, update: SessionUpdate) -> None:
        """Keep the lines of an update."""
        source = update.source
        self.note = None if update.lines else update.note or self.note
        if (file := self._watcher.log(source)) is not None:
            self._logs[source] = file
            return
        lines = [*update.lines, *([f"… {update.note}"] if update.note else [])]
        if lines:
            await asyncio.to_thread(self._write, source, lines)

    def _write(self, source: str, lines: list[str]) -> None:
        path = self._written.get(source)
        if path is None:
            below = self._folder / str(len(self._written))
            below.mkdir(exist_ok=True)
            name = clean_line(source, 40).strip("%").replace("/", "_") or "log"
            self._written[source] = path = below / f"{name}.log"
        with path.open("a", encoding="utf-8", errors="replace") as stream:
            stream.writelines(f"{line}\n" for line in lines)
        self._logs.setdefault(source, LogFile(LogPlace(self._here, str(path))))


async def find_external(
    place: ExternalPlace,
    *,
    now: Callable[[], float] = time.time,
    thresholds: Callable[[], Thresholds],
) -> ExternalRun:
    """Find an external run. Nothing of it is read yet; see `ExternalRun`.

    Raises:
        InputError: There is no such session, or there are several.
        MachineError: The machine does not answer.
    """
    host = await open_host(place.machine)
    if place.port is not None:
        return ExternalRun(place, host, None, now=now, thresholds=thresholds)
    session = await find_session(host, session=place.session, file=place.file)
    return ExternalRun(place, host, session, now=now, thresholds=thresholds)


async def read_external(place: ExternalPlace, *, thresholds: Thresholds | None = None) -> RunView:
    """Return an external run with all numbers that it has written until now.

    Args:
        place: Where it is; no model server.
        thresholds: From which numbers on there is an alarm; None for no look at its health.

    Raises:
        InputError: There is no such run, or it has no metrics that can be read.
        MachineError: The machine does not answer.
    """
    host = await open_host(place.machine)
    session = await find_session(host, session=place.session, file=place.file)
    watcher = SessionWatcher(host, session, lines=None, from_when=thresholds)
    async with aclosing(watcher.follow(once=True)) as updates:
        async for _ in updates:
            pass
    view = RunView(remembered_summary(place), metrics=watcher.numbers, load=watcher.load)
    if thresholds is None:
        return view
    await watcher.diagnose(last=True)
    return replace(view, alarms=watcher.alarms, diagnosis=watcher.diagnosis)


def read_place(
    target: str, *, session: str | None = None, file: str | None = None, port: int | None = None
) -> ExternalPlace:
    """Return the place that a user names.

    Args:
        target: A path here, a machine, or `MACHINE:PATH`. A path that exists comes first.
        session: A session there; in a database of trackio a run.
        file: A path on the machine that `target` names.
        port: A port there.
    """
    if file is not None or port is not None:
        return ExternalPlace(target, session, file, port)
    exists = target != LOCAL and os.path.exists(typed_path(target))  # False for odd names, too
    elsewhere = None if exists else _ELSEWHERE.fullmatch(target)
    if elsewhere is not None:
        return ExternalPlace(elsewhere["machine"], session, elsewhere["path"])
    if "/" in target or (exists and session is None):  # no machine has a slash in its name
        return ExternalPlace(LOCAL, session, target)
    return ExternalPlace(target, session)


def read_port(text: str) -> int:
    """Return the number of a port.

    Raises:
        InputError: It is none.
    """
    if text.isascii() and text.isdecimal() and len(text) < 6 and 0 < int(text) < 1 << 16:
        return int(text)
    raise InputError(f"{clean_line(text, 40)!r} is no port", fix="Give a number from 1 to 65535.")


def _name(place: ExternalPlace, host: Host, session: ExternalSession | None) -> str:
    if session is None:
        name = f"port {place.port}"
    elif place.file is not None:
        name = PurePosixPath(session.title).name or session.title
    else:
        name = session.title.removeprefix(PREFIX)
    where = "" if host.name == LOCAL else f" on {host.name}"
    return clean_line(name, _NAME) + clean_line(where, _NAME)


def _trouble(server: ModelServer) -> str | None:
    from hudtui.core.diagnosis.machine import STUCK

    if server.stuck < STUCK:
        return None
    seconds = f"{server.stuck:.0f} s"
    return f"The server has had requests for {seconds} and generates no token."
