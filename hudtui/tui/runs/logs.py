"""The logs of one run: that of one stage, or those of all of them below one another, each followed by itself."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.text import clean_line
from hudtui.tui.log.model import Level
from hudtui.tui.log.view import LogView

if TYPE_CHECKING:
    from hudtui.core.remote.host import FileChunk
    from hudtui.core.remote.logs import LineSplitter
    from hudtui.core.runs.watch import Monitor
    from hudtui.tui.screen import HudtuiScreen

OPENING_LINES = 2_000
"""A log is opened so many lines before its end."""
MOST_FOUND = 10_000
"""Lines that a search finds at most."""
_MARK_EVERY = 200
"""Lines of a log for which a place is kept."""
_SETTLE = 0.3
"""Seconds after a change of the level before the log is searched."""
_AGAIN = 3.0
"""Seconds after which what went wrong is tried again; twice as long each time, up to `SELDOM`."""
SELDOM = 60.0


@dataclass(frozen=True)
class _Reading:
    """A log that is read, and from where."""

    monitor: Monitor
    run: str
    window: str | None
    """The stage; None for the running stage, or the last one."""
    begin: int | None = None
    """Byte offset of the first line, from which on as much is read as a pane holds; None for the end of the log."""
    since: int | None = None
    """Byte offset from which on the log is wanted; where only some lines are, the others are looked for from there on."""
    line: int | None = None
    """Byte offset of a line to go to, behind `begin`."""
    level: Level = Level.NONE
    """Only lines of the whole log that are at least this serious."""

    @property
    def stays(self) -> bool:
        """Whether the first lines are shown, not the end."""
        return self.begin is not None


class _Places:
    """Where in its log the lines of a pane are: for every few hundred lines, the byte offset at which one begins."""

    def __init__(self, number: int, offset: int) -> None:
        self._marks = deque([(number, offset)])

    def mark(self, number: int, offset: int) -> None:
        """The line that gets this number begins at this offset."""
        if number - self._marks[-1][0] >= _MARK_EVERY:
            self._marks.append((number, offset))

    def first(self, held: int) -> tuple[int, int]:
        """Return number and offset of the first line from number `held` on whose place is known; of the newest line else."""
        while len(self._marks) > 1 and self._marks[0][0] < held:
            self._marks.popleft()
        return self._marks[0]

    def put_before(self, number: int, offset: int) -> None:
        """Earlier lines begin here."""
        self._marks.appendleft((number, offset))


@dataclass
class _State:
    """How far a log is read."""

    feed: LineSplitter
    first: int
    """The number of the first line."""
    number: int
    """The number that the next line gets."""
    rest: int
    """Byte offset of the next line."""
    line: int | None
    """Byte offset of the line to go to, until that has come."""
    passed: int = 0
    """Lines that came before the chunk with that line."""
    partial: str = ""


class _Pane(Vertical):
    """A log under its name."""

    DEFAULT_CSS = """
    _Pane { height: 1fr; min-height: 4; }
    _Pane > .pane-name { height: 1; padding: 0 1; background: $surface; color: $foreground-muted; display: none; }
    """

    def __init__(self, log: LogView) -> None:
        super().__init__()
        self.log_view = log
        self.title = Static(classes="pane-name")

    def compose(self) -> ComposeResult:
        """Name, log."""
        yield self.title
        yield self.log_view


class RunLogs(Vertical):
    """The panes. The first one, `main`, is always there; the others come and go with `show`."""

    DEFAULT_CSS = """
    RunLogs { height: 1fr; }
    RunLogs.-several .pane-name { display: block; }
    """

    def __init__(self, screen: HudtuiScreen, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._owner = screen
        self.main = LogView(id="run-log", empty="The log appears here.")
        self._first = _Pane(self.main)
        self._others: dict[str, _Pane] = {}
        self._shown: tuple[str, str | None] | None = None
        self._readings: dict[LogView, _Reading] = {}
        """What is read into each pane."""
        self._places: dict[LogView, _Places] = {}

    def compose(self) -> ComposeResult:
        """The first pane."""
        yield self._first

    @property
    def front(self) -> Widget:
        """What takes the keys."""
        return self.main.lines

    @property
    def views(self) -> tuple[LogView, ...]:
        """All logs that are shown, from top to bottom."""
        return (self.main, *(pane.log_view for pane in self._others.values()))

    def forget(self) -> None:
        """Show nothing; read nothing."""
        self.rest()
        self.main.clear()
        self._drop(tuple(self._others))

    def rest(self) -> None:
        """Stop reading until the next `show`."""
        self._shown = None
        self.workers.cancel_node(self)
        self._drop(tuple(self._others))

    def show(self, monitor: Monitor, run: str, window: str | None, others: Iterable[str] = ()) -> None:
        """Follow these logs, and no others. Costs nothing for those that are followed already.

        Args:
            monitor: Who watches.
            run: The run.
            window: The stage of the first pane; None for the running stage, or the last one.
            others: Stages whose logs are shown below it.
        """
        if self._shown != (run, window):
            self._shown = (run, window)
            before = self._readings.get(self.main)
            if before is None or (before.run, before.window) != (run, window):
                before = _Reading(monitor, run, window)
            self._read(self.main, replace(before, monitor=monitor, line=None))  # the part that was read before
        self._first.title.update(Content(clean_line(window or "", 40)), layout=False)
        wanted = [name for name in others if name != window]
        self._drop(tuple(name for name in self._others if name not in wanted))
        for name in wanted:
            if name not in self._others:
                pane = self._others[name] = _Pane(LogView())
                pane.title.update(Content(clean_line(name, 40)))
                self.mount(pane)
                self._read(pane.log_view, _Reading(monitor, run, name))
        self.set_class(bool(self._others), "-several")

    def _drop(self, names: tuple[str, ...]) -> None:
        for name in names:
            pane = self._others.pop(name)
            for what in ("read", "above", "go", "search"):
                self.workers.cancel_group(self, self._group(pane.log_view, what))
            self._readings.pop(pane.log_view, None)
            self._places.pop(pane.log_view, None)
            pane.remove()
        self.set_class(bool(self._others), "-several")

    def hear(self, away: float | None) -> None:
        """Say in all panes for how many seconds nothing was heard of the machine; None where it answers."""
        for pane in self.views:
            pane.hear(away)

    # -- what a pane asks for ------------------------------------------------------------------------------------------

    def on_log_view_earlier(self, event: LogView.Earlier) -> None:
        """The log from its first line on."""
        self._again(event, begin=0, since=None, line=None)

    def on_log_view_latest(self, event: LogView.Latest) -> None:
        """The end of the log again."""
        self._again(event, begin=None, since=None, line=None)

    def on_log_view_since(self, event: LogView.Since) -> None:
        """The log from a moment on."""
        event.stop()
        self._work(event.log, partial(self._go_back, event.log, self._readings[event.log], event.seconds), "go")

    def on_log_view_levelled(self, event: LogView.Levelled) -> None:
        """Only the lines from a level up, or all."""
        self._again(event, level=event.log.level)

    def on_log_view_above(self, event: LogView.Above) -> None:
        """Some lines before the first one."""
        event.stop()
        self._work(event.log, partial(self._put_before, event.log, self._readings[event.log]), "above")

    def on_log_view_wanted(self, event: LogView.Wanted) -> None:
        """The lines around a place."""
        event.stop()
        self._work(event.log, partial(self._go_to, event.log, self._readings[event.log], event.offset), "go")

    def on_log_view_searched(self, event: LogView.Searched) -> None:
        """The whole log is searched, or no longer."""
        event.stop()
        self._work(event.log, partial(self._search, event.log, self._readings[event.log]), "search")

    def _again(self, event: LogView.Asked, **other: Any) -> None:
        event.stop()
        self._read(event.log, replace(self._readings[event.log], **other))

    async def _put_before(self, pane: LogView, reading: _Reading) -> None:
        pane.flush()
        number, offset = self._places[pane].first(pane.buffer.first)
        first = pane.buffer.first
        try:
            begin, lines = await reading.monitor.lines_before(reading.run, reading.window, offset=offset, lines=OPENING_LINES)
        except Exception as error:
            pane.put_before((), number, offset)
            self._owner.fail(error)
            return
        if first == pane.buffer.first <= number and len(lines) <= pane.room + number - first:
            pane.put_before(lines, number, begin)
            self._places[pane].put_before(number - len(lines), begin)
        else:  # the pane is full
            self._read(pane, replace(reading, begin=begin, line=offset))

    async def _go_to(self, pane: LogView, reading: _Reading, offset: int) -> None:
        try:
            begin = await reading.monitor.offset_before(reading.run, reading.window, offset=offset, lines=OPENING_LINES // 2)
        except Exception as error:
            self._owner.fail(error)
            return
        self._read(pane, replace(reading, begin=begin, line=offset))

    async def _go_back(self, pane: LogView, reading: _Reading, seconds: float) -> None:
        try:
            offset = await reading.monitor.tail_since(reading.run, reading.window, seconds=seconds)
        except Exception as error:
            self._owner.fail(error)
            return
        self._read(pane, replace(reading, begin=offset, since=offset, line=None))

    async def _search(self, pane: LogView, reading: _Reading) -> None:
        from hudtui.core.remote.log_search import LogFilter

        pattern = pane.pattern
        if pattern is None or not pane.searching:
            return
        wanted = LogFilter(pattern.text, regex=pattern.regex)
        found = reading.monitor.search(
            reading.run, reading.window, wanted=wanted, most=MOST_FOUND, progress=lambda at: pane.searched(at.offset)
        )
        try:
            async with aclosing(found) as matches:
                async for match in matches:
                    pane.found([match.offset])
        except Exception as error:
            self._owner.fail(error)
        if pane.searching:
            pane.searched(None)

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read(self, pane: LogView, reading: _Reading) -> None:
        """Read a log into its pane, in place of what is read there."""
        before = self._readings.get(pane)
        if before is None or (before.run, before.window) != (reading.run, reading.window):
            pane.forget_found()
            reading = replace(reading, level=pane.level)
        self._readings[pane] = reading
        pane.clear()
        pane.reaches, pane.selected = True, reading.level is not Level.NONE
        if reading.stays and not pane.selected:
            pane.stay()
        self._work(pane, partial(self._follow, pane, reading), "read")

    def _work(self, pane: LogView, work: Callable[[], Any], what: str) -> None:
        """Carry out work for a pane; what it does for the same purpose ends."""
        # Where the app ends before the worker begins, the coroutine is never made.
        self.run_worker(work, name="forever", group=self._group(pane, what), exclusive=True, exit_on_error=False)

    def _group(self, pane: LogView, what: str) -> str:
        return f"{'log' if pane is self.main else f'log {id(pane)}'}{'' if what == 'read' else f' {what}'}"

    async def _follow(self, pane: LogView, reading: _Reading) -> None:
        """Read a log until its run has ended. Failures are shown, and reading continues where it stopped."""
        stage = clean_line(reading.window or "").replace("/", "_")
        pane.save_name = f"{reading.run}-{stage}.log" if stage else f"{reading.run}.log"
        state: _State | None = None
        pause = _AGAIN
        while True:
            try:
                if reading.level is not Level.NONE:
                    await self._follow_level(pane, reading)
                else:
                    if state is None:
                        state = await self._begin(pane, reading)
                    await self._follow_all(pane, reading, state)
                return
            except Exception as error:
                self._owner.fail(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, SELDOM)

    async def _begin(self, pane: LogView, reading: _Reading) -> _State:
        from hudtui.core.remote.logs import LineSplitter

        offset = reading.begin
        if offset is None:
            offset = await reading.monitor.tail(reading.run, reading.window, lines=OPENING_LINES)
        number = pane.buffer.end
        self._places[pane] = _Places(number, offset)
        pane.before = offset
        return _State(LineSplitter(offset=offset), number, number, offset, reading.line)

    async def _follow_all(self, pane: LogView, reading: _Reading, state: _State) -> None:
        """Read a log on, to its end or until the pane is full."""
        feed = state.feed
        async with aclosing(reading.monitor.follow(reading.run, reading.window, offset=feed.offset)) as chunks:
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
                if len(found.done) > room:  # more would push the first lines out
                    pane.after = state.rest if room == 0 else chunk.offset + _size_of_lines(chunk.data, room)
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
        """Go to the line that is wanted, as soon as it has come in."""
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

    async def _follow_level(self, pane: LogView, reading: _Reading) -> None:
        """Read the lines that are serious enough, of the whole log or from a moment on."""
        from hudtui.core.remote.log_search import LogFilter

        pane.searched(0)
        await asyncio.sleep(_SETTLE)  # the key that chooses a level goes through all of them
        pane.clear()
        pane.selected = True
        pane.searched(reading.since or 0)
        batches = reading.monitor.follow_lines(
            *(reading.run, reading.window),
            offset=reading.since or 0,
            wanted=LogFilter(level=reading.level),
            progress=lambda at: pane.searched(at.offset),
        )
        async with aclosing(batches) as lines:
            async for batch in lines:
                pane.append(batch.done)
        pane.searched(None)
        pane.ended = True


def _size_of_lines(data: bytes, lines: int) -> int:
    """Return the bytes of the first `lines` lines, as many as there are at least."""
    place = 0
    for _ in range(lines):
        place = data.index(b"\n", place) + 1
    return place
