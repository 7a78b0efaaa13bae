"""What the episodes of a run say about its health, as numbers by step, read on while it plays."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec

from hudtui.core.errors import MachineError
from hudtui.core.plain import convert
from hudtui.core.remote.host import NOT_A_FILE, FileRefused, Host, file_words
from hudtui.core.remote.line_heads import LineHeads, line_heads
from hudtui.core.rollouts.trace import HEAD_BYTES, HEAD_END
from hudtui.core.rollouts.values import BROKEN_OFF
from hudtui.core.runs.launch import error_sentence
from hudtui.core.text import clean_line
from hudtui.core.training.metrics import MetricsReader

LOOK = 16 * 1024 * 1024
"""Bytes of episodes that one look at a run reads, about."""
_SEAM = 64
"""Bytes before the end of what was read that are compared at the next look."""
_MOST = 100_000
"""Most steps that are counted: a file that invents them must not fill the memory."""
_Count = Annotated[int, msgspec.Meta(ge=0, le=10**9)]


class Usage(msgspec.Struct):
    """The tokens of an episode."""

    completion_tokens: _Count | None = None


class About(msgspec.Struct):
    """What the trainer says of an episode."""

    step: _Count | None = None
    split: str = ""
    usage: Usage | None = None


class Played(msgspec.Struct):
    """What the record of an episode says of its course; see `rollouts.trace`."""

    stop: str
    info: About
    error: str | None = None
    turn_count: _Count = 0
    slips: dict[str, _Count] = {}

    @property
    def failed(self) -> bool:
        """True if it did not come to an end of its own."""
        return self.error is not None or self.stop in BROKEN_OFF


_records = msgspec.json.Decoder(Played)


def read_played(head: bytes) -> Played | None:
    """Return what the beginning of a line says; None for one that is no record of an episode."""
    end = head.find(HEAD_END)
    text = head if end < 0 else head[:end] + b"}"
    try:
        return _records.decode(text)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:  # Python's JSON module writes NaN and lone surrogates, and can read them
        return convert(json.loads(text), Played)
    except (ValueError, RecursionError):
        return None


class _Sums:
    """Counts of the episodes of a step."""

    def __init__(self) -> None:
        self.episodes = self.ended = self.turns = self.slips = self.counted = self.tokens = 0
        self.turn_limit = self.context_full = self.at_once = 0

    def add(self, one: Played) -> None:
        self.episodes += 1
        self.turns += one.turn_count
        self.slips += sum(one.slips.values())
        if one.info.usage is not None and one.info.usage.completion_tokens is not None:
            self.counted += 1
            self.tokens += one.info.usage.completion_tokens
        if not one.failed:
            self.ended += 1
            self.turn_limit += one.stop == "max_turns"
            self.context_full += one.stop == "context"
            self.at_once += one.stop == "done" and one.turn_count <= 1

    def shares(self) -> Mapping[str, float]:
        """Return the shares and means, by the names in `diagnosis.signals`."""
        shares = {"episodes/broken": 1 - self.ended / self.episodes}
        if self.turns:
            shares["episodes/failed_turns"] = self.slips / self.turns
        if self.counted:
            shares["episodes/completion_tokens"] = self.tokens / self.counted
        if self.ended:
            shares["episodes/turn_limit"] = self.turn_limit / self.ended
            shares["episodes/context_full"] = self.context_full / self.ended
            shares["episodes/done_at_once"] = self.at_once / self.ended
        return shares


class EpisodeNumbers:
    """The shares of a run's episodes that went wrong, and their mean tokens, for each step."""

    def __init__(self) -> None:
        self._steps: dict[int, _Sums] = {}
        self.numbers = MetricsReader()

    def add(self, played: Iterable[Played]) -> None:
        """Take episodes; those of an evaluation, and those without a step, are left out."""
        changed: set[int] = set()
        newest = max(self._steps, default=0)
        for one in played:
            step = one.info.step
            if step is None or one.info.split not in ("", "train"):
                continue
            if step in self._steps or len(self._steps) < _MOST:
                self._steps.setdefault(step, _Sums()).add(one)
                changed.add(step)
        if changed and min(changed) < newest:  # a curve takes no values before its newest step
            self.numbers, changed = MetricsReader(), set(self._steps)
        for step in sorted(changed):
            self.numbers.add({"step": step, **self._steps[step].shares()})


class EpisodeEvidence:
    """The episodes of a run as numbers, read on from time to time; see `diagnosis.live.Episodes`.

    Episodes themselves are not kept. A file that was cut to a checkpoint is read again.

    Args:
        host: The machine of the file.
        path: The trace there.
    """

    def __init__(self, host: Host, path: str) -> None:
        self._host, self._path = host, path
        self._begin()
        self.whole = False
        self.took = 0.0
        self.problem: str | None = None
        """Why the last look read nothing, in a sentence."""

    def _begin(self) -> None:
        self._played, self._end, self._seam = EpisodeNumbers(), 0, b""

    @property
    def numbers(self) -> MetricsReader:
        """Shares and means of each step so far."""
        return self._played.numbers

    async def read(self, *, whole: bool) -> None:
        """Read on. A file that cannot be read leaves a `problem`."""
        self.took, self.problem = 0.0, None
        try:
            await self._read(whole)
        except MachineError as error:
            self.problem = clean_line(error_sentence(error), 300)

    async def _read(self, whole: bool) -> None:
        stat = await self._host.stat(self._path)
        if stat is not None and not stat.regular:
            raise FileRefused(f"{file_words(self._host, self._path)} is not read", why=NOT_A_FILE)
        size = 0 if stat is None else stat.size
        if size != self._end and self._seam != await self._before(self._end):
            self._begin()
        begun, unfinished = self._end, False
        while self._end < size and not unfinished and (whole or self._end - begun < LOOK):
            heads = await line_heads(
                *(self._host, self._path, self._end, size), longest=HEAD_BYTES, until=HEAD_END
            )
            if heads is None:
                unfinished = True
            else:
                await self._take(heads)
        self.whole = unfinished or self._end >= size

    async def _take(self, heads: LineHeads) -> None:
        """Take lines and go on behind them, also when the look is broken off meanwhile.

        A thread goes on then, and the next look would count its lines twice.
        """
        seam = await self._before(heads.end)
        taking = asyncio.ensure_future(asyncio.to_thread(self._count, heads.lines))
        try:
            self.took += await asyncio.shield(taking)
        except asyncio.CancelledError:
            await asyncio.wait([taking])
            raise
        finally:
            self._end, self._seam = heads.end, seam

    async def _before(self, end: int) -> bytes:
        """Return the bytes before the end of what was read: others mean another file."""
        start = max(end - _SEAM, 0)
        length = end - start
        return await self._host.get(self._path, offset=start, limit=length) if length else b""

    def _count(self, lines: Iterable[bytes]) -> float:
        start = time.thread_time()
        played = (read_played(line) for line in lines)
        self._played.add(one for one in played if one is not None)
        return time.thread_time() - start
