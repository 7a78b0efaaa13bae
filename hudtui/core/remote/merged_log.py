"""Logs of one run as one: in the order of the times at which its supervisor has recorded that they grew."""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from itertools import groupby
from math import inf
from typing import Any, NamedTuple

from hudtui.core.remote.host import FileChunk, Host
from hudtui.core.remote.log_file import Log
from hudtui.core.remote.log_search import LogFilter
from hudtui.core.remote.logs import LineSplitter

RESTARTED = "… the log was truncated or replaced"
_PIECE = 256 * 1024
"""Bytes of the record that are read at once."""
_MOST = 16 * 1024 * 1024
"""Bytes of the record that are read in all, the last ones: some weeks of one stage. Machines may claim any size."""


class NamedLines(NamedTuple):
    """Lines of one of the logs."""

    name: str
    lines: Sequence[str]


class Growth(NamedTuple):
    """When a log grew: at `times[n]`, in seconds since the epoch, it had `sizes[n]` bytes."""

    sizes: Sequence[int] = ()
    times: Sequence[float] = ()

    def at(self, offset: int) -> float:
        """Return when the byte at an offset was there; infinity for a byte behind the last recorded size."""
        place = bisect_right(self.sizes, offset)
        return self.times[place] if place < len(self.times) else inf

    def cut(self, chunk: FileChunk) -> Iterable[FileChunk]:
        """Return a chunk in pieces, of which each was there at one time."""
        start, end = chunk.offset, chunk.offset + len(chunk.data)
        inside = self.sizes[bisect_right(self.sizes, start) : bisect_right(self.sizes, end - 1)]
        for stop in (*inside, end):
            yield FileChunk(start, chunk.data[start - chunk.offset : stop - chunk.offset])
            start = stop


async def read_growth(host: Host, path: str, begins: Mapping[str, int]) -> dict[str, Growth]:
    """Return when logs grew, as far as needed, read backwards from the end of the record, at most 16 MiB of it.

    `path` is the file `log_times.jsonl` in the run's folder; a file that does not exist records nothing. `begins` has the stages,
    and the byte offset in the log of each from which on its times are wanted.

    Raises:
        MachineError: The machine does not answer, or the file cannot be read.
    """
    facts = await host.stat(path)
    position = facts.size if facts is not None else 0
    missing, data, rows = dict(begins), b"", list[tuple[str, int, float]]()
    first_byte = max(position - _MOST, 0)
    while position > first_byte and missing:
        start = max(position - _PIECE, first_byte)
        data = await host.get(path, offset=start, limit=position - start) + data
        position = start
        first, _, whole = data.partition(b"\n") if start else (b"", b"", data)
        found = [row for line in whole.split(b"\n") if (row := _row(line)) is not None]
        for stage, size, _ in found:
            if size <= missing.get(stage, -1):
                del missing[stage]
        rows, data = found + rows, first + b"\n" if first else b""
    grown: dict[str, tuple[list[int], list[float]]] = {stage: ([], []) for stage in begins}
    for stage, size, at in rows:
        sizes, times = grown.get(stage, ([], []))
        if not sizes or size > sizes[-1]:
            sizes.append(size)
            times.append(max(at, times[-1]) if times else at)
    return {stage: Growth(*found) for stage, found in grown.items()}


def _row(line: bytes) -> tuple[str, int, float] | None:
    try:
        at, stage, size = json.loads(line)
        return str(stage), int(size), float(at)
    except (ValueError, TypeError, RecursionError, OverflowError):
        return None


class MergedLog:
    """The logs of a run as one. First `read`, then `follow`.

    Of lines with the same time, those of the first stage come first.
    """

    def __init__(self, logs: Mapping[str, Log]) -> None:
        self.logs = logs
        self.before = 0
        """Bytes before the lines that `read` has yielded."""
        self._ends: dict[str, int] = {}

    async def read(
        self, begins: Mapping[str, int], *, wanted: LogFilter | None = None, last: int | None = None, follow: bool = False
    ) -> AsyncGenerator[NamedLines, None]:
        """Yield the lines that are there, in the order of their times, which are exact to some seconds.

        Lines without a recorded time come last, stage by stage. `last` is the number of lines of all logs together, the last
        ones. `follow`: an unfinished last line is left to `follow`.

        Raises:
            InputError: The pattern is not a regular expression.
            MachineError: The machine does not answer.
        """
        growth: dict[str, Growth] = {}
        places = [place for log in self.logs.values() if (place := log.place()) is not None]
        if places and places[0].times is not None:
            growth = await read_growth(places[0].host, places[0].times, begins)
        self._ends = {name: max(begins[name], await log.end_of_lines()) for name, log in self.logs.items()}
        self.before = sum(begins.values())
        kept: deque[tuple[str, str]] = deque()
        async with AsyncExitStack() as stack:
            blocks = {}
            for name, log in self.logs.items():
                stop = self._ends[name] if follow else None
                found = _blocks(log, growth.get(name, Growth()), begins[name], stop, wanted)
                blocks[name] = await stack.enter_async_context(aclosing(found))
            heads = {name: head for name, found in blocks.items() if (head := await anext(found, None)) is not None}
            while heads:
                name = min(heads, key=lambda one: heads[one][0])
                lines = heads[name][1]
                if last is None:
                    yield NamedLines(name, lines)
                else:
                    kept.extend((name, line) for line in lines)
                    while len(kept) > last:
                        self.before += len(kept.popleft()[1].encode()) + 1
                if (head := await anext(blocks[name], None)) is not None:
                    heads[name] = head
                else:
                    del heads[name]
        for name, group in groupby(kept, key=lambda one: one[0]):
            yield NamedLines(name, [line for _, line in group])

    async def follow(self, put: Callable[[NamedLines], None], *, wanted: LogFilter | None = None) -> None:
        """Hand over the lines that come after those of `read`, as they come, until nothing more comes.

        Raises:
            MachineError: The machine does not answer.
        """

        async def one(name: str, log: Log) -> None:
            async with aclosing(log.follow_lines(offset=self._ends.get(name, 0), wanted=wanted)) as batches:
                async for batch in batches:
                    put(NamedLines(name, [RESTARTED, *batch.done] if batch.restarted else batch.done))

        await together(one(name, log) for name, log in self.logs.items())


async def _blocks(
    log: Log, growth: Growth, begin: int, stop: int | None, wanted: LogFilter | None
) -> AsyncGenerator[tuple[float, list[str]], None]:
    """Yield the lines of a log with their times."""
    if wanted is not None:
        async with aclosing(log.search(wanted=wanted, offset=begin, stop=stop)) as matches:
            async for match in matches:
                yield growth.at(match.offset), [match.text]
        return
    feed, partial, at = LineSplitter(offset=begin), "", inf
    async with aclosing(log.read(offset=begin, stop=stop)) as chunks:
        async for chunk in chunks:
            for piece in growth.cut(chunk):
                found = feed.feed(piece)
                partial, at = found.partial, growth.at(piece.offset)
                if found.done:
                    yield at, found.done
    if partial:
        yield at, [partial]


async def together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Carry out work side by side. If one part fails, the others are cancelled before its error is raised."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
