"""A log on a machine: its end, its earlier lines, the lines that match, and what is added to it."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from hudtui.core.errors import RunError
from hudtui.core.remote.host import NOT_A_FILE, FileChunk, FileRefused, Host
from hudtui.core.remote.log_search import Level, LogFilter, LogMatch, SearchProgress, offset_of_time, search_log
from hudtui.core.remote.logs import CHUNK, LineBatch, LineSplitter, lines_before, offset_of_last_lines
from hudtui.core.text import clean_line


class LogPlace(NamedTuple):
    """Where a log is."""

    host: Host
    path: str
    times: str | None = None
    """The file that records when the log grew (`log_times.jsonl` of a run); None without a record."""


class Log(ABC):
    """A log that is read in parts, and searched on its machine. Methods raise `MachineError` if the machine does not answer."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the log's name."""

    @abstractmethod
    def place(self) -> LogPlace | None:
        """Return where the log is now; None while it does not exist."""

    @abstractmethod
    def follow(self, *, offset: int = 0) -> AsyncIterator[FileChunk]:
        """Yield the bytes of the log from `offset`, as they are written, until nothing more comes."""

    async def tail(self, *, lines: int = 1000) -> int:
        """Return the byte offset of the last `lines` lines. It reads backwards from the end, so a large log is cheap."""
        place = self.place()
        return 0 if place is None else await offset_of_last_lines(place.host, place.path, lines)

    async def end_of_lines(self) -> int:
        """Return the byte offset behind the last complete line."""
        if (place := self.place()) is None or not (size := await self.tail(lines=0)):
            return 0
        if await place.host.get(place.path, offset=size - 1, limit=1) == b"\n":
            return size
        return await self.offset_before(offset=size, lines=1)

    async def tail_since(self, *, seconds: float) -> int:
        """Return the byte offset at a time in the past, exact to some seconds.

        Raises:
            RunError: It is not recorded when the log grew: no supervisor of this hudtui has written it.
        """
        place = self.place()
        if place is None:
            return 0
        stage = PurePosixPath(place.path).stem
        found = None if place.times is None else await offset_of_time(place.host, place.times, stage, seconds)
        if found is None:
            raise RunError(
                f"when the lines of {clean_line(self.name, 60)} were written is not recorded", fix="Leave out --since."
            )
        return found

    async def offset_before(self, *, offset: int, lines: int) -> int:
        """Return the byte offset of the line that is `lines` lines before `offset`; 0 at the beginning of the log."""
        place = self.place()
        return 0 if place is None else await offset_of_last_lines(place.host, place.path, lines, end=offset)

    async def lines_before(self, *, offset: int, lines: int) -> tuple[int, list[str]]:
        """Return the lines before the line at `offset`, and the offset of the first of them; see `logs.lines_before`."""
        place = self.place()
        return (offset, []) if place is None else await lines_before(place.host, place.path, offset, lines)

    async def search(
        self,
        *,
        wanted: LogFilter,
        offset: int = 0,
        stop: int | None = None,
        most: int | None = None,
        progress: Callable[[SearchProgress], None] = lambda _: None,
    ) -> AsyncGenerator[LogMatch, None]:
        """Yield the lines that match, from the first line or from `offset`; see `log_search.search_log`."""
        if (place := self.place()) is None:
            return
        found = search_log(place.host, place.path, wanted, offset=offset, stop=stop, most=most, progress=progress)
        async with contextlib.aclosing(found) as matches:
            async for match in matches:
                yield match

    async def read(self, *, offset: int = 0, stop: int | None = None) -> AsyncGenerator[FileChunk, None]:
        """Yield the bytes of the log from `offset` to its current end, or to the offset `stop`."""
        if (place := self.place()) is None:
            return
        host, path, _ = place
        facts = await host.stat(path)
        if facts is not None and not facts.regular:
            raise FileRefused(f"{path} on {host.name} is not read", why=NOT_A_FILE)
        end = facts.size if facts else 0
        end = end if stop is None else min(end, stop)
        while offset < end:
            data = await host.get(path, offset=offset, limit=min(CHUNK, end - offset))
            if not data:
                return
            yield FileChunk(offset, data)
            offset += len(data)

    async def follow_lines(
        self,
        *,
        offset: int = 0,
        wanted: LogFilter | None = None,
        last: int | None = None,
        progress: Callable[[SearchProgress], None] = lambda _: None,
    ) -> AsyncGenerator[LineBatch, None]:
        """Yield the complete lines from `offset`, as they are written.

        With a filter, the lines that are there already are searched on their machine, and only those that match are fetched.
        Consume it inside `contextlib.aclosing` when leaving early. `offset` is that of the first line in bytes. With a filter,
        `last` is the number of the lines that are there already that come, the last ones; None for all. `progress` is called
        while these are searched.

        Raises:
            InputError: The pattern is not a regular expression.
        """
        test = None if wanted is None else wanted.test()
        if wanted is not None:
            end = max(offset, await self.tail(lines=1))
            kept: deque[str] = deque(maxlen=last)
            level = Level.NONE

            def reached(at: SearchProgress) -> None:
                nonlocal level
                level = at.level
                progress(at)

            async with contextlib.aclosing(self.search(wanted=wanted, offset=offset, stop=end, progress=reached)) as matches:
                async for match in matches:
                    if last is None:
                        yield LineBatch([match.text], "")
                    else:
                        kept.append(match.text)
            if kept:
                yield LineBatch(list(kept), "")
            # What comes may belong to the last line that is there, such as the frames of a traceback.
            test, offset = wanted.test(level), end
        feed, partial = LineSplitter(offset=offset), ""
        async with contextlib.aclosing(self.follow(offset=offset)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                found = feed.feed(chunk)
                partial = found.partial
                if found.restarted and wanted is not None:
                    test = wanted.test()
                done = found.done if test is None else [line for line in found.done if test(line)]
                if done or found.restarted:
                    yield LineBatch(done, "", found.restarted)
        if partial and (test is None or test(partial)):
            yield LineBatch([partial], "")


@dataclass(frozen=True)
class LogFile(Log):
    """A log by its path. It is followed without end; a file that does not exist yet is waited for."""

    at: LogPlace

    @property
    def name(self) -> str:
        return PurePosixPath(self.at.path).name.removesuffix(".log")

    def place(self) -> LogPlace:
        return self.at

    def follow(self, *, offset: int = 0) -> AsyncIterator[FileChunk]:
        return self.at.host.follow(self.at.path, offset=offset)
