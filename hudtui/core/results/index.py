"""The index: an entry for each episode in the files of some runs.

Files are read in pieces, and read further when they grow.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hudtui.core.errors import InputError, Location
from hudtui.core.files import MAX_BYTES, open_file
from hudtui.core.results import art, atif, own, verifiers
from hudtui.core.results.foreign import Place, decode, mapping
from hudtui.core.results.values import (
    EpisodeEntry,
    Format,
    GroupKey,
    IndexProgress,
    ResultGroup,
    ResultRun,
    Transcript,
    UnreadLine,
)
from hudtui.core.rollouts.values import plain_number

BLOCK = 1 << 20
"""Bytes per read; so many fit into the processor's cache."""
OVERLAP = 4096
"""Bytes by which two blocks of a search overlap: the longest text that is found across their
border."""
_SEEN = 256
"""Bytes before the end of the part that was read. They are compared to detect that a file was
truncated and rewritten."""
_MOST_UNREAD = 100
"""Largest number of unread lines that are kept; further ones are only counted."""
_STEP = re.compile(r"\d{1,12}")
_SUFFIXES = (".jsonl", ".parquet", ".ndjson")


@dataclass(frozen=True)
class LineFormat:
    """The functions that read the lines of a format.

    Both raise ValueError for a line that is not a record of the format.
    """

    entries: Callable[[bytes, Place], list[EpisodeEntry]]
    transcript: Callable[[bytes, EpisodeEntry], Transcript]


_LINES: Mapping[Format, LineFormat] = {
    "hudtui": LineFormat(own.entries, own.transcript),
    "verifiers": LineFormat(verifiers.entries, verifiers.transcript),
    "art-jsonl": LineFormat(art.entries, art.transcript),
    "atif": LineFormat(atif.entries, atif.transcript),
}


def format_of(line: bytes) -> Format | None:
    """Return the format of a line; None if the format is unknown.

    Raises:
        ValueError: The line is not JSON.
    """
    record = mapping(decode(line))
    if "turns" in record and "scores" in record:
        return "hudtui"
    if "traces" in record:
        return "verifiers"
    if atif.is_document(record):
        return "atif"
    return "art-jsonl" if "trajectories" in record else None


Find = Callable[[bytes, int], tuple[int, int] | None]
"""Returns the place of the first match in some bytes at or after an offset."""


class EpisodeFile(Protocol):
    """A file of episodes that is read piece by piece."""

    path: Path
    size: int
    """Size in bytes when the file was last checked."""
    done: int
    """Number of bytes read so far."""

    def replaced(self) -> bool:
        """Check the file, and return whether it was replaced or is shorter than what was read."""
        ...

    def advance(self, deadline: float, place: Place, unread: Unread) -> list[EpisodeEntry]:
        """Read one piece, then continue until `deadline` (`time.monotonic`) or the end.

        Return the new entries.
        """
        ...

    def read(self, entry: EpisodeEntry) -> Transcript:
        """Return an episode in full.

        Raises:
            InputError: The episode cannot be read, or the file has changed.
        """
        ...

    def matching(self, entries: Sequence[EpisodeEntry], find: Find) -> Iterator[EpisodeEntry]:
        """Yield those of `entries` whose bytes have a match.

        The entries must be in the order of the file.

        Raises:
            InputError: The file cannot be read.
        """
        ...


@dataclass
class Unread:
    """The lines that were skipped because they could not be read."""

    count: int = 0
    first: list[UnreadLine] = field(default_factory=list)

    def add(self, file: Path, line: int, why: str) -> None:
        self.count += 1
        if len(self.first) < _MOST_UNREAD:
            self.first.append(UnreadLine(file, line, why[:300]))


class JsonLinesFile:
    """A file with one JSON value per line, in any of the formats.

    The first valid line determines the format.
    A file `*.json` whose first line is no JSON value is one value over many lines.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.done = 0
        self.format: Format | None = None
        self._inode: tuple[int, int] | None = None
        self._rest = b""
        self._seen = b""
        self._too_long = False
        self._whole: bool | None = None if path.suffix == ".json" else False
        """True if the file is one value; None until its first line is known."""
        self._tried = -1
        self._line = 0

    def replaced(self) -> bool:
        try:
            status = os.stat(self.path)
        except OSError:
            self.size = 0
            return self.done > 0
        before, self._inode = self._inode, (status.st_dev, status.st_ino)
        if before is not None and before != self._inode:
            self.size = status.st_size
            return True
        if status.st_size == self.size:
            return False
        if (
            self._rest and self.done >= self.size
        ):  # an incomplete line is read again: its writer may have started over
            self.done -= len(self._rest)
            self._rest = b""
        self.size = status.st_size
        return self.size < self.done or not self._continues()

    def _continues(self) -> bool:
        """Return whether the bytes that were read last are unchanged in the file."""
        if not self._seen:
            return True
        end = self.done - len(self._rest)
        try:
            with open_file(self.path) as stream:
                return (
                    os.pread(stream.fileno(), len(self._seen), end - len(self._seen)) == self._seen
                )
        except InputError:
            return True  # `advance` reports why the file cannot be read

    def advance(self, deadline: float, place: Place, unread: Unread) -> list[EpisodeEntry]:
        entries: list[EpisodeEntry] = []
        if self.done >= self.size and (not self._rest or self._tried == self.done):
            return entries
        with open_file(self.path) as stream:
            handle = stream.fileno()
            while self.done < self.size:
                data = os.pread(handle, min(BLOCK, self.size - self.done), self.done)
                if not data:
                    break
                self._take(data, place, unread, entries)
                self.done += len(data)
                if time.monotonic() >= deadline:
                    return entries
        if self._rest and self._tried != self.done:  # a complete record without a line end counts
            self._tried = self.done
            self._take_last(place, unread, entries)
        return entries

    def _take(self, data: bytes, place: Place, unread: Unread, entries: list[EpisodeEntry]) -> None:
        block, base, start = self._rest + data, self.done - len(self._rest), 0
        if self._whole is None and b"\n" in block:
            try:
                decode(block[: block.index(b"\n")])
                self._whole = False
            except ValueError:
                self._whole = True
        if self._whole:
            self._rest = block if len(block) <= MAX_BYTES else b""
            if not self._rest:
                unread.add(self.path, 1, f"the document is longer than {MAX_BYTES >> 20} MiB")
                self._whole, self._too_long = False, True
            return
        while (end := block.find(b"\n", start)) >= 0:
            self._line += 1
            if self._too_long:
                self._too_long = False
            else:
                self._take_line(block[start:end], base + start, place, unread, entries)
            start = end + 1
        if start:
            self._seen = block[max(start - _SEEN, 0) : start]
        self._rest = block[start:]
        if self._too_long or len(self._rest) > MAX_BYTES:
            if not self._too_long:
                unread.add(
                    self.path, self._line + 1, f"the line is longer than {MAX_BYTES >> 20} MiB"
                )
            self._too_long, self._rest = True, b""

    def _take_line(
        self, line: bytes, offset: int, place: Place, unread: Unread, entries: list[EpisodeEntry]
    ) -> None:
        if not line or line.isspace():
            return
        if offset == 0:
            line = line.removeprefix(b"\xef\xbb\xbf")
        try:
            entries += self._entries(line, offset, place)
        except (ValueError, TypeError) as error:
            unread.add(self.path, self._line, str(error))

    def _entries(self, line: bytes, offset: int, place: Place) -> list[EpisodeEntry]:
        kind = self.format or format_of(line)
        if kind is None:
            raise ValueError("this is not the record of an episode in a known format")
        place.offset, place.length, place.line = offset, len(line), self._line
        first = place.number
        try:
            read = _LINES[kind].entries(line, place)
        except BaseException:
            place.number = first
            raise
        self.format = kind
        return read

    def _take_last(self, place: Place, unread: Unread, entries: list[EpisodeEntry]) -> None:
        if self._rest.isspace():
            return
        self._line += 1
        try:
            decode(self._rest)  # an entry may need the beginning of a record alone
            entries += self._entries(self._rest, self.done - len(self._rest), place)
        except (ValueError, TypeError) as error:
            self._line -= 1
            if self._whole:
                unread.add(self.path, 1, str(error))
        else:
            self._seen, self._rest = self._rest[-_SEEN:], b""

    def line(self, entry: EpisodeEntry) -> bytes:
        """Return the line of an entry.

        Raises:
            InputError: The file cannot be read, or has changed.
        """
        with open_file(self.path) as stream:
            line = os.pread(stream.fileno(), entry.length, entry.offset)
        if len(line) < entry.length:
            raise InputError(
                "this file has changed since it was read", where=Location(str(self.path))
            )
        return line

    def read(self, entry: EpisodeEntry) -> Transcript:
        assert self.format is not None
        try:
            return _LINES[self.format].transcript(self.line(entry), entry)
        except (ValueError, TypeError) as error:
            raise InputError(
                "this episode cannot be read",
                why=str(error)[:300],
                where=Location(str(self.path), field=f"byte {entry.offset}"),
            ) from None

    def matching(self, entries: Sequence[EpisodeEntry], find: Find) -> Iterator[EpisodeEntry]:
        """See `EpisodeFile`. Adjacent lines are searched together."""
        with open_file(self.path) as stream:
            handle = stream.fileno()
            first = 0
            for last in range(len(entries)):
                end = entries[last].offset + entries[last].length
                if last + 1 == len(entries) or entries[last + 1].offset > end + 2:
                    yield from _stretch(handle, entries[first : last + 1], find)
                    first = last + 1


def _stretch(handle: int, entries: Sequence[EpisodeEntry], find: Find) -> Iterator[EpisodeEntry]:
    """Yield the entries with a match; their lines are adjacent."""
    starts = [entry.offset for entry in entries]
    place, end = starts[0], entries[-1].offset + entries[-1].length
    while place < end:
        block = os.pread(handle, min(BLOCK, end - place), place)
        if not block:
            return
        start = 0
        while (span := find(block, start)) is not None:
            number = bisect_right(starts, place + span[0]) - 1
            line = entries[number]
            first = bisect_left(starts, line.offset)
            yield from entries[first : number + 1]  # a line may hold several episodes
            start = line.offset + line.length - place
            if start >= len(block):
                break
        place += max(start, len(block) - OVERLAP if place + len(block) < end else len(block))


class ResultIndex:
    """The episodes of some runs.

    All methods may be called from any thread: calls of `advance` wait for each other, entries are
    only appended, and after a file was replaced the index has new lists. Entries have the order of
    the runs.
    """

    def __init__(self, runs: Iterable[ResultRun]) -> None:
        self.runs = tuple(runs)
        self.entries: Sequence[EpisodeEntry] = ()
        """The episodes so far; `EpisodeEntry.number` is the position."""
        self.generation = 0
        """Increases when the index starts over because a file was replaced."""
        self.files: list[EpisodeFile] = []
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._entries: list[EpisodeEntry] = []
        self.entries = self._entries
        self._numbers: dict[GroupKey, list[int]] = {}
        self._groups: dict[GroupKey, ResultGroup] = {}
        self._unread = Unread()
        self._known: dict[Path, int] = {}
        self._places: list[Place] = []
        self.files = []
        for run in self.runs:
            self._look(run)

    @property
    def unread(self) -> tuple[UnreadLine, ...]:
        """The first lines that were skipped because they are not episodes."""
        return tuple(self._unread.first)

    @property
    def unread_count(self) -> int:
        """Number of all skipped lines."""
        return self._unread.count

    def advance(self, seconds: float = 0.1) -> IndexProgress:
        """Continue to read for about `seconds`.

        At the end of the files, check whether they have grown.
        A file that cannot be read is counted among the `unread`.

        Returns:
            The progress afterwards. `complete` means that the files were read to their current end.
        """
        with self._lock:
            deadline = time.monotonic() + seconds
            for run in self.runs:
                self._look(run)
            if any([file.replaced() for file in self.files]):
                self.generation += 1
                self._begin()
                for file in self.files:
                    file.replaced()
            complete = True
            for number, file in enumerate(self.files):
                place = self._places[number]
                place.number = len(self._entries)
                try:
                    self._add(file.advance(deadline, place, self._unread))
                except InputError as error:
                    self._unread.add(file.path, 0, "; ".join(error.lines()))
                    file.done = file.size
                if time.monotonic() >= deadline:
                    complete = all(one.done >= one.size for one in self.files)
                    break
            return IndexProgress(
                entries=len(self._entries),
                read=sum(file.done for file in self.files),
                size=sum(file.size for file in self.files),
                unread=self._unread.count,
                complete=complete,
                generation=self.generation,
            )

    def finish(self) -> Sequence[EpisodeEntry]:
        """Read the files to their current end; return the entries. It may take long."""
        while not self.advance(1.0).complete:
            pass
        return self.entries

    def _look(self, run: ResultRun) -> None:
        """Add new files of a run."""
        for path in files_of(run.path):
            if path not in self._known:
                self._known[path] = len(self.files)
                split, step = (
                    _named_by(path)
                    if run.path.is_dir() or path.parent.parent.name == "trajectories"
                    else ("", None)
                )
                self._places.append(Place(run.name, len(self.files), step=step, split=split))
                self.files.append(_open(path))

    def _add(self, entries: list[EpisodeEntry]) -> None:
        changed: dict[GroupKey, list[int]] = {}
        for entry in entries:
            key = entry.key
            numbers = self._numbers.get(key)
            if numbers is None:
                numbers = self._numbers[key] = []
            numbers.append(entry.number)
            changed[key] = numbers
        self._entries += entries
        for key, numbers in changed.items():
            self._groups[key] = _group(key, [self._entries[number] for number in numbers])

    def groups(self) -> list[ResultGroup]:
        """Return the groups so far, in order of their first episode."""
        return list(self._groups.values())

    def members(self, group: ResultGroup) -> list[EpisodeEntry]:
        """Return the episodes of a group."""
        entries = self.entries
        return [entries[number] for number in group.numbers if number < len(entries)]

    def path(self, entry: EpisodeEntry) -> Path:
        """Return the path of the file that contains an episode."""
        return self.files[entry.file].path

    def format_of(self, entry: EpisodeEntry) -> Format | None:
        """Return the format of the file that contains an episode; None for a Parquet file."""
        file = self.files[entry.file]
        return file.format if isinstance(file, JsonLinesFile) else None

    def read(self, entry: EpisodeEntry) -> Transcript:
        """Read an episode from the disk.

        Raises:
            InputError: The file cannot be read, or has changed since it was indexed.
        """
        return self.files[entry.file].read(entry)


async def follow(
    index: ResultIndex, *, every: float | None = 1.0, piece: float = 0.1
) -> AsyncGenerator[IndexProgress, None]:
    """Advance an index in a thread, and yield its progress.

    It does so after each piece with new entries, and when the index is complete.

    `every` is the number of seconds between two checks of files that were read to their end; None
    ends the generator there. One piece takes about `piece` seconds.
    """
    before: IndexProgress | None = None
    while True:
        progress = await asyncio.to_thread(index.advance, piece)
        if progress != before:
            yield progress
        before = progress
        if progress.complete:
            if every is None:
                return
            await asyncio.sleep(every)


def _group(key: GroupKey, entries: Sequence[EpisodeEntry]) -> ResultGroup:
    rewards = [entry.reward for entry in entries if entry.reward is not None]
    mean = math.fsum(rewards) / len(rewards) if rewards else None
    std = None
    if (
        mean is not None and len(rewards) > 1
    ):  # `statistics` uses fractions: as slow as the whole index
        std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / (len(rewards) - 1))
    return ResultGroup(
        key=key,
        numbers=tuple(entry.number for entry in entries),
        failed=sum(entry.failed for entry in entries),
        reward=None if mean is None else plain_number(mean),
        reward_std=std,
        reward_min=min(rewards, default=None),
        reward_max=max(rewards, default=None),
        turns=sum(entry.turns for entry in entries) / len(entries),
    )


def _open(path: Path) -> EpisodeFile:
    if path.suffix == ".parquet":
        from hudtui.core.results.parquet import ParquetFile

        return ParquetFile(path)
    return JsonLinesFile(path)


def files_of(path: Path) -> list[Path]:
    """Return the files of a run.

    The file itself, or the files of a folder of trajectories, ordered by split and step.
    """
    if not path.is_dir():
        return [path]
    files = [
        file
        for pattern in ("*", "*/*")
        for file in path.glob(pattern)
        if file.suffix in _SUFFIXES and _STEP.fullmatch(file.stem) and file.is_file()
    ]
    converted = {file.with_suffix("") for file in files if file.suffix == ".parquet"}
    kept = [
        file for file in files if file.suffix == ".parquet" or file.with_suffix("") not in converted
    ]
    return sorted(kept, key=lambda file: (int(file.stem), file.parent.name != "train", str(file)))


def _named_by(path: Path) -> tuple[str, int | None]:
    """Return the split and the step in ART's names of folders and files."""
    return path.parent.name, int(path.stem) if _STEP.fullmatch(path.stem) else None
