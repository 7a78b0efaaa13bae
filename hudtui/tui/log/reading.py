"""Reading logs into panes: from the end, earlier lines, around a match."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.containers import Vertical
from textual.worker import Worker

from hudtui.core.text import clean_line
from hudtui.tui.actions import Acting
from hudtui.tui.log.view import LogView

if TYPE_CHECKING:
    from hudtui.core.remote.host import FileChunk
    from hudtui.core.remote.log_file import Log
    from hudtui.core.remote.logs import LineSplitter

OPENING_LINES = 2_000
"""Number of lines before the end at which a log is opened."""
MOST_FOUND = 10_000
"""Largest number of lines that a search finds."""
_MARK_EVERY = 200
"""Largest number of lines of a log whose byte offset is kept."""
_AGAIN = 3.0
"""Seconds after which a failed read is repeated; the wait doubles each time, up to `SELDOM`."""
SELDOM = 60.0


@dataclass(frozen=True)
class Reading:
    """A log and the place from which it is read."""

    log: Log
    begin: int | None = None
    """Byte offset of the first line to read, up to as many lines as the pane holds; None for the
    end of the log."""
    line: int | None = None
    """Byte offset of a line after `begin` to scroll to."""

    @property
    def stays(self) -> bool:
        """Whether the pane shows the first lines instead of the end."""
        return self.begin is not None


class _Places:
    """Byte offsets in the log of the lines of a pane, one for every few hundred lines."""

    def __init__(self, number: int, offset: int) -> None:
        self._marks = deque([(number, offset)])

    def mark(self, number: int, offset: int) -> None:
        """Record the byte offset of the line with this number."""
        if number - self._marks[-1][0] >= _MARK_EVERY:
            self._marks.append((number, offset))

    def first(self, held: int) -> tuple[int, int]:
        """Return number and offset of the first line with a known offset, from `held` on.

        Without such a line, they are those of the newest line.
        """
        while len(self._marks) > 1 and self._marks[0][0] < held:
            self._marks.popleft()
        return self._marks[0]

    def put_before(self, number: int, offset: int) -> None:
        self._marks.appendleft((number, offset))


@dataclass
class _State:
    """The progress of reading a log."""

    feed: LineSplitter
    first: int
    """The number of the first line."""
    number: int
    """The number of the next line."""
    rest: int
    """Byte offset of the next line."""
    line: int | None
    """Byte offset of the line to scroll to; None once that line was read."""
    passed: int = 0
    """Number of lines that were read before the chunk with that line."""
    partial: str = ""


class ReadLogs(Acting, Vertical):
    """Reads logs into panes, from which every line of a log can be reached.

    Messages of other panes bubble on.

    Args:
        fail: Called with an error, to show it. Reading continues.
    """

    def __init__(self, fail: Callable[[Exception], None], *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.disable_messages(Worker.StateChanged)  # as `HudtuiScreen` does
        self._fail = fail
        self._readings: dict[LogView, Reading] = {}
        """The log that is read into each pane."""
        self._places: dict[LogView, _Places] = {}

    def read(self, pane: LogView, log: Log) -> None:
        """Read a log into a pane, beginning with the part that the pane showed before."""
        before = self._readings.get(pane)
        if before is None or before.log != log:
            before = Reading(log)
        self._read(pane, replace(before, log=log, line=None))

    # -- requests of a pane
    # --------------------------------------------------------------------------------------------

    def on_log_view_earlier(self, event: LogView.Earlier) -> None:
        """Read the log from its first line on."""
        self._again(event, begin=0, line=None)

    def on_log_view_latest(self, event: LogView.Latest) -> None:
        """Read the end of the log again."""
        self._again(event, begin=None, line=None)

    def on_log_view_above(self, event: LogView.Above) -> None:
        """Read some lines before the first one."""
        self._answer(event, self._put_before, "above")

    def on_log_view_wanted(self, event: LogView.Wanted) -> None:
        """Read the lines around a place."""
        self._answer(event, self._go_to, "go", event.offset)

    def on_log_view_searched(self, event: LogView.Searched) -> None:
        """Start or stop a search of the whole log."""
        self._answer(event, self._search, "search")

    def _answer(
        self, event: LogView.Asked, work: Callable[..., Any], what: str, *about: Any
    ) -> None:
        if (reading := self._readings.get(event.log)) is not None:
            event.stop()
            self._work(event.log, partial(work, event.log, reading, *about), what)

    def _again(self, event: LogView.Asked, **other: Any) -> None:
        if event.log not in self._readings:
            return
        event.stop()
        self._read(event.log, replace(self._readings[event.log], **other))

    async def _put_before(self, pane: LogView, reading: Reading) -> None:
        pane.flush()
        number, offset = self._places[pane].first(pane.buffer.first)
        first = pane.buffer.first
        try:
            begin, lines = await reading.log.lines_before(offset=offset, lines=OPENING_LINES)
        except Exception as error:
            pane.put_before((), number, offset)
            self._fail(error)
            return
        if first == pane.buffer.first <= number and len(lines) <= pane.room + number - first:
            pane.put_before(lines, number, begin)
            self._places[pane].put_before(number - len(lines), begin)
        else:  # the pane is full
            self._read(pane, replace(reading, begin=begin, line=offset))

    async def _go_to(self, pane: LogView, reading: Reading, offset: int) -> None:
        try:
            begin = await reading.log.offset_before(offset=offset, lines=OPENING_LINES // 2)
        except Exception as error:
            self._fail(error)
            return
        self._read(pane, replace(reading, begin=begin, line=offset))

    async def _search(self, pane: LogView, reading: Reading) -> None:
        pattern = pane.pattern
        if pattern is None or not pane.searching:
            return

        def report(offset: int | None) -> None:
            if offset is not None:
                pane.searched(offset)

        try:
            search = reading.log.search(pattern, most=MOST_FOUND, progress=report)
            async with aclosing(search) as matches:
                async for match in matches:
                    pane.found([match.offset])
        except Exception as error:
            self._fail(error)
        if pane.searching:
            pane.searched(None)

    # -- reading
    # ----------------------------------------------------------------------------------------------

    def _read(self, pane: LogView, reading: Reading) -> None:
        """Read a log into its pane, in place of the log that is read there."""
        before = self._readings.get(pane)
        if before is None or before.log != reading.log:
            pane.forget_found()
        self._readings[pane] = reading
        pane.clear()
        pane.reaches = True
        if reading.stays:
            pane.stay()
        self._work(pane, partial(self._follow, pane, reading), "read")

    def _work(self, pane: LogView, work: Callable[[], Any], what: str) -> None:
        """Start a worker for a pane, and end the pane's earlier worker for the same purpose."""
        # If the app ends before the worker starts, the coroutine is never created.
        self.run_worker(work, name="forever", group=self._group(pane, what), exclusive=True)

    def _group(self, pane: LogView, what: str) -> str:
        return f"log {id(pane)} {what}"

    async def _follow(self, pane: LogView, reading: Reading) -> None:
        """Read a log until its run has ended.

        After a failure, reading continues where it stopped.
        """
        pane.save_name = f"{clean_line(reading.log.name).replace('/', '_')}.log"
        state: _State | None = None

        async def read() -> None:
            nonlocal state
            if state is None:
                state = await self._begin(pane, reading)
            await self._follow_all(pane, reading, state)

        await self._try_on(read)

    async def _try_on(self, read: Callable[[], Awaitable[None]]) -> None:
        """Read until the end. Failures are shown, and the read is repeated."""
        pause = _AGAIN
        while True:
            try:
                await read()
                return
            except Exception as error:
                self._fail(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, SELDOM)

    async def _begin(self, pane: LogView, reading: Reading) -> _State:
        from hudtui.core.remote.logs import LineSplitter

        offset = reading.begin
        if offset is None:
            offset = await reading.log.tail(lines=OPENING_LINES)
        number = pane.buffer.end
        self._places[pane] = _Places(number, offset)
        pane.before = offset
        return _State(LineSplitter(offset=offset), number, number, offset, reading.line)

    async def _follow_all(self, pane: LogView, reading: Reading, state: _State) -> None:
        """Continue to read a log, to its end or until the pane is full."""
        feed = state.feed
        async with aclosing(reading.log.follow(offset=feed.offset)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                found = feed.feed(chunk)
                state.partial = found.partial
                if found.restarted:
                    pane.append(["… the log was truncated or replaced"])
                    pane.forget_found()
                    state.line, state.number, state.rest = None, state.number + 1, chunk.offset
                    self._places[pane] = _Places(state.number, chunk.offset)
                    pane.before = chunk.offset
                room = pane.room if reading.stays else len(found.done)
                pane.append(found.done[:room])
                if len(found.done) > room:  # more lines would drop the first lines
                    pane.after = (
                        state.rest if room == 0 else chunk.offset + _size_of_lines(chunk.data, room)
                    )
                    self._arrive(pane, state, chunk)
                    return
                self._arrive(pane, state, chunk)
                state.number += len(found.done)
                if (end := chunk.data.rfind(b"\n")) >= 0:
                    state.rest = chunk.offset + end + 1
                    self._places[pane].mark(state.number, state.rest)
                if pane.buffer.dropped:
                    pane.before = self._places[pane].first(pane.buffer.first)[1]
        if state.partial:
            pane.append([state.partial])
        pane.ended = True

    def _arrive(self, pane: LogView, state: _State, chunk: FileChunk) -> None:
        """Scroll to the requested line as soon as it has been read."""
        if state.line is None:
            return
        before = chunk.data[: max(state.line - chunk.offset, 0)].count(b"\n")
        state.passed += before
        if state.line < chunk.offset + len(chunk.data):
            state.line = None
            pane.flush()
            number = state.first + state.passed
            if pane.buffer.first <= number < pane.buffer.end:
                pane.go_to(number)


def _size_of_lines(data: bytes, lines: int) -> int:
    """Return the number of bytes that the first `lines` lines take; `data` has at least as many."""
    place = 0
    for _ in range(lines):
        place = data.index(b"\n", place) + 1
    return place
