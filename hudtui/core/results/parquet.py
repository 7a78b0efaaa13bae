"""ART's Parquet files. ART writes a file at once, so it is read only once.

Conversations are read on request.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hudtui.core.errors import InputError, Location
from hudtui.core.files import open_file
from hudtui.core.results.art import trajectory_entry, trajectory_transcript
from hudtui.core.results.foreign import Place, decode, mapping, sequence, whole
from hudtui.core.results.values import EpisodeEntry, Transcript

if TYPE_CHECKING:
    from hudtui.core.results.index import Find, Unread

_SHORT = ("group_index", "reward", "metrics", "metadata")
_LONG = ("messages", "tools", "logs")
_ROLES = "roles"
"""The column with the roles of the messages, which is nested in `messages` and can be read without
the content."""
_BATCH = 64
"""Number of rows that are decoded at once."""


class ParquetFile:
    """A Parquet file with one trajectory per row; see `index.EpisodeFile`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.done = 0
        self._stamp: tuple[int, int] | None = None

    def replaced(self) -> bool:
        try:
            status = os.stat(self.path)
        except OSError:
            self.size = 0
            return self.done > 0
        before, self._stamp = self._stamp, (status.st_ino, status.st_mtime_ns)
        self.size = status.st_size
        return self.done > 0 and before is not None and before != self._stamp

    def advance(self, deadline: float, place: Place, unread: Unread) -> list[EpisodeEntry]:
        """See `index.EpisodeFile`. The whole file is one piece: only its short columns are read."""
        if self.done >= self.size:
            return []
        self.done = self.size
        entries: list[EpisodeEntry] = []
        try:
            with self._rows((*_SHORT, _ROLES)) as rows:
                for row, record in enumerate(rows):
                    place.offset, place.length, place.line = row, 0, row + 1
                    replies = sum(
                        message.get("role") == "assistant"
                        for message in map(mapping, sequence(record.get("messages")))
                    )
                    entries.append(
                        trajectory_entry(
                            place, 0, whole(record.get("group_index")), _decoded(record), replies
                        )
                    )
        except InputError as error:
            unread.add(self.path, 0, "; ".join(error.lines()))
        return entries

    def read(self, entry: EpisodeEntry) -> Transcript:
        with self._rows((*_SHORT, *_LONG), skip=entry.offset) as rows:
            for record in rows:
                return trajectory_transcript(_decoded(record), entry)
        raise InputError("this file has changed since it was read", where=Location(str(self.path)))

    def matching(self, entries: Sequence[EpisodeEntry], find: Find) -> Iterator[EpisodeEntry]:
        """See `index.EpisodeFile`. The messages are searched as JSON."""
        by_row = {entry.offset: entry for entry in entries}
        first = min(by_row)
        with self._rows(("messages", "metadata"), skip=first) as rows:
            for row, record in enumerate(rows, first):
                if row in by_row and find(msgspec.json.encode(record), 0) is not None:
                    yield by_row[row]

    @contextmanager
    def _rows(
        self, names: tuple[str, ...], *, skip: int = 0
    ) -> Iterator[Iterator[Mapping[str, Any]]]:
        """Open the file, and yield some of its columns row by row, from row `skip` on."""
        import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
        import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]

        try:
            open_file(self.path).close()  # raises unless it is a regular file
            with pq.ParquetFile(self.path) as file:
                columns = file.schema_arrow.names
                if "reward" not in columns or "messages" not in columns:
                    raise InputError(
                        "the columns are not those of trajectories", where=Location(str(self.path))
                    )
                leaves = (file.schema.column(number).path for number in range(len(file.schema)))
                roles = [
                    path
                    for path in leaves
                    if path.startswith("messages.") and path.endswith(".role")
                ]
                wanted = [name for name in names if name in columns] + (
                    roles[:1] if _ROLES in names else []
                )
                yield _records(file, wanted, skip)
        except (pa.ArrowException, OSError, UnicodeError) as error:
            raise InputError(
                "this file is damaged or cut off",
                why=str(error)[:300],
                where=Location(str(self.path)),
            ) from None


def _records(file: Any, names: list[str], skip: int) -> Iterator[Mapping[str, Any]]:
    from hudtui.core.tasks.read import check_offsets

    groups = list(range(file.num_row_groups))
    while groups and skip >= (rows := file.metadata.row_group(groups[0]).num_rows):
        skip -= rows
        del groups[0]
    for batch in file.iter_batches(_BATCH, row_groups=groups, columns=names):
        if skip >= batch.num_rows:
            skip -= batch.num_rows
            continue
        check_offsets(batch)
        yield from batch.slice(skip).to_pylist()
        skip = 0


def _decoded(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its JSON texts decoded; values that are not JSON are left out."""
    decoded = dict(record)
    for name in ("metrics", "metadata", "tools"):
        text = decoded.get(name)
        if isinstance(text, str):
            try:
                decoded[name] = decode(text.encode())
            except ValueError:
                decoded[name] = None
    messages = decoded.get("messages")
    if isinstance(messages, list):
        decoded["messages"] = [
            _message(message) for message in messages if isinstance(message, Mapping)
        ]
    return decoded


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    filled = {key: value for key, value in message.items() if value is not None}
    calls = filled.get("tool_calls")
    if isinstance(calls, str):
        try:
            filled["tool_calls"] = decode(calls.encode())
        except ValueError:
            del filled["tool_calls"]
    return filled
