"""A log on a machine: its end, its earlier lines, the lines that match, and what is added to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NamedTuple

from hudtui.core.pattern import Pattern
from hudtui.core.remote.follow import CHUNK
from hudtui.core.remote.host import FileChunk, Host, file_size
from hudtui.core.remote.log_search import LogMatch, search_log
from hudtui.core.remote.logs import LineBatch, LineSplitter, lines_before, offset_of_last_lines


class LogPlace(NamedTuple):
    """Host and path of a log."""

    host: Host
    path: str


class Log(ABC):
    """A log that is read in parts, and searched on its machine.

    Methods raise `MachineError` if the machine does not answer.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the log's name."""

    @abstractmethod
    async def place(self) -> LogPlace | None:
        """Return where the log is now; None while it does not exist."""

    @abstractmethod
    def follow(self, *, offset: int = 0) -> AsyncIterator[FileChunk]:
        """Yield the bytes of the log from `offset` as they are written, until no more come."""

    async def tail(self, *, lines: int = 1000) -> int:
        """Return the byte offset of the last `lines` lines.

        It reads backwards from the end, so a large log is cheap.
        """
        place = await self.place()
        return 0 if place is None else await offset_of_last_lines(place.host, place.path, lines)

    async def offset_before(self, *, offset: int, lines: int) -> int:
        """Return the byte offset of the line that is `lines` lines before `offset`.

        0 at the beginning of the log.
        """
        place = await self.place()
        return (
            0
            if place is None
            else await offset_of_last_lines(place.host, place.path, lines, end=offset)
        )

    async def lines_before(self, *, offset: int, lines: int) -> tuple[int, list[str]]:
        """Return the lines before the line at `offset`, and the offset of the first of them.

        See `logs.lines_before`.
        """
        place = await self.place()
        return (
            (offset, [])
            if place is None
            else await lines_before(place.host, place.path, offset, lines)
        )

    async def search(
        self,
        pattern: Pattern,
        *,
        offset: int = 0,
        stop: int | None = None,
        most: int | None = None,
        progress: Callable[[int | None], None] = lambda _: None,
    ) -> AsyncGenerator[LogMatch, None]:
        """Yield the lines that match, from the first line or from `offset`; see `search_log`."""
        if (place := await self.place()) is None:
            return
        host, path = place
        search = search_log(
            host, path, pattern, offset=offset, stop=stop, most=most, progress=progress
        )
        async with aclosing(search) as matches:
            async for match in matches:
                yield match

    async def read(self, *, offset: int = 0) -> AsyncGenerator[FileChunk, None]:
        """Yield the bytes of the log from `offset` to its current end."""
        if (place := await self.place()) is None:
            return
        host, path = place
        end = await file_size(host, path)
        while offset < end:
            data = await host.get(path, offset=offset, limit=min(CHUNK, end - offset))
            if not data:
                return
            yield FileChunk(offset, data)
            offset += len(data)

    async def follow_lines(
        self, *, offset: int = 0, pattern: Pattern | None = None, last: int | None = None
    ) -> AsyncGenerator[LineBatch, None]:
        """Yield the complete lines from `offset`, as they are written.

        With a pattern those that match.
        Lines that are there already are then searched on their machine, and `last` limits them to
        the last ones. Consume it inside `aclosing` when leaving early. `offset` is that of the
        first line, in bytes.
        """
        if pattern is not None:
            end = max(offset, await self.tail(lines=1))
            present: deque[str] = deque(maxlen=last)
            async with aclosing(self.search(pattern, offset=offset, stop=end)) as matches:
                async for match in matches:
                    if last is not None:
                        present.append(match.text)
                    else:
                        yield LineBatch([match.text], "")
            if present:
                yield LineBatch(list(present), "")
            offset = end
        splitter, partial = LineSplitter(offset=offset), ""
        async with aclosing(self.follow(offset=offset)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                batch = splitter.feed(chunk)
                partial = batch.partial
                lines = _matching(batch.done, pattern)
                if lines or batch.restarted:
                    yield LineBatch(lines, "", batch.restarted)
        if partial and (lines := _matching([partial], pattern)):
            yield LineBatch(lines, "")


def _matching(lines: list[str], pattern: Pattern | None) -> list[str]:
    return lines if pattern is None else [line for line in lines if pattern.matches(line)]


@dataclass(frozen=True)
class LogFile(Log):
    """A log by its path.

    It is followed without end; a file that does not exist yet is waited for.
    """

    at: LogPlace

    @property
    def name(self) -> str:
        return PurePosixPath(self.at.path).name.removesuffix(".log")

    async def place(self) -> LogPlace:
        return self.at

    def follow(self, *, offset: int = 0) -> AsyncIterator[FileChunk]:
        return self.at.host.follow(self.at.path, offset=offset)
