"""Text search in results.

The bytes of the files are scanned, and only the episodes with a match are decoded.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from hudtui.core.errors import InputError
from hudtui.core.results.foreign import content_text
from hudtui.core.results.index import OVERLAP, ResultIndex
from hudtui.core.results.values import EpisodeEntry, Transcript

_REGION = 32 << 20
"""Number of bytes that are searched between two reports of progress."""
_WORKERS = min(4, os.cpu_count() or 1)
_MOST_OF_EPISODE = 20
"""Largest number of hits in one episode."""
_LONGEST = OVERLAP // 12
"""Largest length of the searched text; a character takes up to 12 bytes in JSON."""
_LONGEST_NAME = 64
"""Number of bytes after a match in which the end of a field name is searched."""
_BACKSLASH = 0x5C
_BEFORE, _AFTER = 40, 120
"""Number of characters around the start of a match in an excerpt."""


@dataclass(frozen=True)
class SearchHit:
    """A turn with a match."""

    number: int
    """`EpisodeEntry.number`."""
    turn: int
    """`TranscriptTurn.number`; 0 for the messages before the first reply, and for the episode's
    task and error."""
    field: str
    """The place of the match: `reply`, `thought`, `call`, `observation`, `opening`, `task` or
    `error`."""
    excerpt: str
    """The text around the match."""
    start: int
    """Offset of the match in the excerpt, in characters."""
    end: int


@dataclass(frozen=True)
class EpisodeSearchProgress:
    """The progress of a search."""

    hits: tuple[SearchHit, ...]
    """Hits since the last progress, in the order of the episodes."""
    found: int
    """Hits so far."""
    read: int
    """Number of bytes searched so far."""
    size: int
    """Bytes of all files."""
    complete: bool
    """True if everything was searched, or the limit is reached."""


async def search(
    index: ResultIndex, text: str, *, limit: int = 1_000, within: Collection[int] | None = None
) -> AsyncGenerator[EpisodeSearchProgress, None]:
    """Search for a text in the conversations, and yield hits as they are found.

    Close the generator to stop. A text in lower case matches upper case, too. The text is searched
    for literally, in all episodes or in those with the numbers `within`, up to `limit` hits. Files
    that are not indexed yet are indexed on the way.

    Raises:
        InputError: The text is empty or too long.
    """
    if not text.strip() or len(text) > _LONGEST:
        raise InputError(f"the searched text must have 1 to {_LONGEST} characters")
    wanted, stop = _SearchText(text), threading.Event()
    chosen = None if within is None else frozenset(within)
    begun, read, found = 0, 0, 0
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="search") as pool:
        try:
            while True:
                state = await asyncio.to_thread(index.advance)
                regions = _regions(index, begun, state.entries, chosen)
                begun = state.entries
                waiting: deque[tuple[int, Future[list[SearchHit]]]] = deque()
                for file, entries in regions:
                    size = sum(entry.length for entry in entries if entry.part == 0)
                    waiting.append(
                        (size, pool.submit(_search_region, index, file, entries, wanted, stop))
                    )
                while waiting:
                    size, future = waiting.popleft()
                    hits = (await asyncio.wrap_future(future))[: limit - found]
                    found, read = found + len(hits), read + size
                    done = found >= limit
                    yield EpisodeSearchProgress(tuple(hits), found, read, state.size, done)
                    if done:
                        return
                if state.complete:
                    yield EpisodeSearchProgress((), found, read, state.size, True)
                    return
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)


def _regions(
    index: ResultIndex, begin: int, end: int, chosen: frozenset[int] | None
) -> Iterator[tuple[int, list[EpisodeEntry]]]:
    """Yield runs of successive entries of one file, each of about `_REGION` bytes."""
    region: list[EpisodeEntry] = []
    size = 0
    entries = index.entries
    for number in range(begin, min(end, len(entries))) if chosen is None else sorted(chosen):
        if not begin <= number < end:
            continue
        entry = entries[number]
        if region and (entry.file != region[0].file or size > _REGION):
            yield region[0].file, region
            region, size = [], 0
        region.append(entry)
        size += entry.length
    if region:
        yield region[0].file, region


def _search_region(
    index: ResultIndex,
    file: int,
    entries: Sequence[EpisodeEntry],
    wanted: _SearchText,
    stop: threading.Event,
) -> list[SearchHit]:
    """Search entries of a file, in the order of the file."""
    hits: list[SearchHit] = []
    source = index.files[file]
    try:
        for entry in source.matching(entries, partial(_stopped_search, wanted, stop)):
            hits += wanted.hits(source.read(entry))
            if stop.is_set():
                break
    except (
        InputError
    ):  # the file was replaced meanwhile: the index starts over, and so must its reader
        return []
    return hits


def _stopped_search(
    wanted: _SearchText, stop: threading.Event, block: bytes, start: int
) -> tuple[int, int] | None:
    return None if stop.is_set() else wanted.span(block, start)


class _SearchText:
    """The searched text, as a pattern for bytes of JSON and for text."""

    def __init__(self, text: str) -> None:
        import re2

        sensitive = text != text.lower()
        forms = {json.dumps(text, ensure_ascii=plain)[1:-1] for plain in (True, False)}
        options = re2.Options()
        options.case_sensitive = sensitive
        options.log_errors = False
        self._bytes = re2.compile(
            "|".join(map(re2.escape, sorted(forms))).encode("utf-8", "replace"), options
        )
        self._text = re.compile(re.escape(text), 0 if sensitive else re.IGNORECASE)

    def span(self, block: bytes, start: int) -> tuple[int, int] | None:
        """Return start and end of the first match at or after `start` in bytes of a file, or None.

        Field names do not count.
        """
        while (match := self._bytes.search(block, start)) is not None:
            begin, start = match.span()
            if not _is_name(block, start):
                return begin, start
        return None

    def hits(self, transcript: Transcript) -> list[SearchHit]:
        """Return the first match of each turn."""
        first_hits: list[SearchHit] = []
        for turn, field, text in _texts(transcript):
            if first_hits and first_hits[-1].turn == turn > 0:
                continue
            match = self._text.search(text)
            if match is not None:
                begin = max(match.start() - _BEFORE, 0)
                excerpt = text[begin : max(match.start() + _AFTER, match.end())]
                hit = SearchHit(
                    transcript.entry.number,
                    turn,
                    field,
                    excerpt,
                    match.start() - begin,
                    match.end() - begin,
                )
                first_hits.append(hit)
                if len(first_hits) >= _MOST_OF_EPISODE:
                    break
        return first_hits


def _is_name(block: bytes, end: int) -> bool:
    """Return whether the JSON string around a place is a field name: a colon follows."""
    quote = block.find(b'"', end, end + _LONGEST_NAME)
    return quote > 0 and block[quote - 1] != _BACKSLASH and block[quote + 1 : quote + 2] == b":"


def _texts(transcript: Transcript) -> Iterator[tuple[int, str, str]]:
    yield 0, "task", transcript.entry.task
    for message in transcript.opening:
        yield 0, "opening", content_text(message.get("content"))
    for turn in transcript.turns:
        yield turn.number, "thought", turn.thought
        yield turn.number, "reply", turn.reply
        for call in turn.calls:
            yield turn.number, "call", f"{call.name} {_plain(call.arguments)}"
        yield turn.number, "observation", turn.observation
    yield 0, "error", transcript.error or ""


def _plain(arguments: Any) -> str:
    return (
        arguments
        if isinstance(arguments, str)
        else json.dumps(arguments, ensure_ascii=False, default=str)
    )
