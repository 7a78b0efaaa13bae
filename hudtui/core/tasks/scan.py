"""Reading a source from one end to the other: checked tasks in batches, in bounded memory.

Imports msgspec: import this module late.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hudtui.core.errors import InputError, Location
from hudtui.core.files import parse_json
from hudtui.core.tasks.columns import CheckedRecords, TaskChecker
from hudtui.core.tasks.ids import Ids
from hudtui.core.tasks.problems import TaskProblem
from hudtui.core.tasks.read import SourceFile, TaskSource, arrow_batches, folder_files, is_arrow, record_chunks
from hudtui.core.tasks.rules import FieldProblem, Rules
from hudtui.core.tasks.split import RecordChunk
from hudtui.core.tasks.validate import names_in

_GROUP = 32
"""Records that are tried together again when a chunk has a bad one among them."""


@dataclass(frozen=True, slots=True)
class TaskBatch:
    """Consecutive records of a source after their checks."""

    start: int
    """Index of the first record."""
    count: int
    """Records of the source in this batch, the unusable ones included."""
    places: Sequence[int]
    """Index of each usable task in the source."""
    ids: list[str]
    prompts: list[str]
    columns: dict[str, list[bytes | None]]
    """JSON text by field, `mcp_config`, `setup_tool`, `evaluate_tool`, `metadata` first, then the kept ones (None: absent)."""
    problems: tuple[TaskProblem, ...] = ()
    inferred: int = 0
    """Tasks whose `mcp_config` comes from the lock file's image."""
    rewritten: dict[str, int] = field(default_factory=dict)
    """Tasks whose `mcp_config` was changed, by what was changed."""
    elsewhere: dict[str, int] = field(default_factory=dict)
    """Tasks whose calls were not checked, because the analysed environment is another one, by what they run on."""
    names: Sequence[tuple[int, str, str]] = ()
    """Index, servers and evaluators of unusable tasks, as far as they say."""
    done: int = 0
    """Bytes of the source read so far."""
    size: int = 0
    """Bytes of the source in all."""

    def take(self, positions: Sequence[int]) -> TaskBatch:
        """The batch with only some of its usable tasks; what was counted stays as it is."""
        return TaskBatch(
            self.start,
            self.count,
            [self.places[place] for place in positions],
            [self.ids[place] for place in positions],
            [self.prompts[place] for place in positions],
            {name: [column[place] for place in positions] for name, column in self.columns.items()},
            self.problems,
            self.inferred,
            self.rewritten,
            self.elsewhere,
            self.names,
            self.done,
            self.size,
        )


def scan(source: TaskSource, rules: Rules) -> Iterator[TaskBatch]:
    """Read and check everything in a source.

    Args:
        source: A file or a folder; a dataset on the Hub is brought here first (`hub.fetch`).
        rules: What to check against.

    Raises:
        InputError: The source as a whole cannot be read: missing, damaged, cut off, changed while it was read.
    """
    checker = TaskChecker(rules)
    ids = Ids()
    start = 0
    for part, lines, done, size in _parts(source, checker):
        yield _finish(part, lines, start, ids, source.name, rules, done, size)
        start += part.count


Lines = Callable[[], list[int]] | None
"""Gives the line of each record; None where the source has no lines."""
_Checked = tuple[CheckedRecords, Lines, int, int]


def _parts(source: TaskSource, checker: TaskChecker) -> Iterator[_Checked]:
    if source.kind == "hub":
        raise ValueError("fetch a Hub dataset before scanning it")
    if source.kind == "folder":
        files, _ = folder_files(source)
    else:
        files = [source.path] if source.path is not None else list(source.files)
    yield from scan_files(files, source.name, checker)


def scan_files(files: list[Path], name: str, checker: TaskChecker) -> Iterator[_Checked]:
    """The checked records of several files as if they were one."""
    try:
        size = sum(path.stat().st_size for path in files)
    except OSError as error:
        raise InputError("this file cannot be read", why=error.strerror, where=Location(name)) from None
    before = 0
    for path in files:
        label = name if len(files) == 1 else str(path)
        with SourceFile(path, label) as reading:
            if is_arrow(reading.head(8)):
                yield from _table_parts(path, label, checker, before, size)
                reading.check_unchanged()
            else:
                yield from ((*item, before + reading.done, size) for item in _text_parts(reading, checker))
        before += path.stat().st_size


def _table_parts(path: Path, name: str, checker: TaskChecker, before: int, size: int) -> Iterator[_Checked]:
    from hudtui.core.tasks.arrowrows import ArrowRows

    own = path.stat().st_size
    for batch in arrow_batches([path], name, lambda _: None):
        table = ArrowRows(batch)
        columns = table.columns()
        part = checker.values(*columns) if columns is not None and table.count else None
        if part is None:
            part = CheckedRecords(0)
            for row in range(table.count):
                part.append(checker.precise(table.record(row)))
        yield part, None, before + own, size


def _text_parts(reading: SourceFile, checker: TaskChecker) -> Iterator[tuple[CheckedRecords, Lines]]:
    for chunk in record_chunks(reading, checker.parse):
        with _without_collector():
            parsed = chunk.parsed if chunk.parsed is not None or chunk.spans else checker.parse(chunk.text())
            part = checker.quick(parsed, chunk.count) if parsed is not None else None
            lines: list[int] | None = None
            if part is None:
                part, lines = _closely(chunk, checker, reading.name)
        yield part, partial(_lines, chunk, lines)


def _lines(chunk: RecordChunk, known: list[int] | None) -> list[int]:
    return known if known is not None else [line for line, _ in chunk.records()]


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Thousands of records are made at once, and none is cyclic: looking through them again and again only takes time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _closely(chunk: RecordChunk, checker: TaskChecker, name: str) -> tuple[CheckedRecords, list[int]]:
    """A chunk with at least one record that the quick way is not sure of: small groups first, then one by one."""
    found = list(chunk.records())
    lines = [line for line, _ in found]
    whole = CheckedRecords(0)
    for first in range(0, len(found), _GROUP):
        group = found[first : first + _GROUP]
        parsed = checker.parse(b"[%b]" % b",".join(text for _, text in group)) if len(group) > 1 else None
        part = checker.quick(parsed, len(group)) if parsed is not None else None
        if part is not None:
            whole.append(part)
            continue
        for number, (line, text) in enumerate(group, first):
            last = chunk.last and chunk.form == "lines" and number == len(found) - 1
            record, further = _record(text, Location(name, line) if last else None)
            lines[number] += further
            whole.append(checker.precise(record))
    return whole, lines


def _record(text: bytes, unended: Location | None) -> tuple[Any, int]:
    """The data of one record, or a Remark that says why there is none, with the number of lines to the mistake.

    Args:
        text: The record.
        unended: Its place, if it is the last line of a file and has no line end.

    Raises:
        InputError: It is such a line and stops in the middle.
    """
    import msgspec

    try:
        return parse_json(text.decode(), ""), 0
    except UnicodeDecodeError as error:
        return FieldProblem(None, f"this is not UTF-8 text: byte 0x{text[error.start]:02x} at offset {error.start}", "json"), 0
    except InputError as error:
        if unended is not None:
            try:
                msgspec.json.format(text)
            except RecursionError:
                pass
            except msgspec.DecodeError as reason:
                if "truncated" in str(reason):
                    raise InputError("the file ends in the middle of a task: it was cut off", where=unended) from None
        place = error.where or Location("")
        code = "duplicate-key" if "twice" in error.what else "json"
        return FieldProblem(place.field, error.what, code), (place.line or 1) - 1


def _finish(part: CheckedRecords, lines: Lines, start: int, ids: Ids, name: str, rules: Rules, done: int, size: int) -> TaskBatch:
    """Give every task an id, and leave out those whose id another task has already."""
    kept = part.kept
    places: Sequence[int] = range(start, start + part.count) if isinstance(kept, range) else [start + place for place in kept]
    named: list[str] = part.ids  # type: ignore[assignment]
    if None in part.ids:
        named = [f"task-{place:04d}" if given is None else given for given, place in zip(part.ids, places, strict=True)]
    doubled = ids.add(named, places)
    remarks = part.remarks
    if doubled:
        remarks = sorted(
            [
                *remarks,
                *(
                    (kept[position], named[position], FieldProblem("id", f"task {first} has this id already", "duplicate-id"))
                    for position, first in doubled.items()
                ),
            ],
            key=lambda item: item[0],
        )
    where = lines() if lines is not None and remarks else None
    problems = tuple(
        TaskProblem(
            start + place,
            given or f"task-{start + place:04d}",
            remark.field,
            remark.message,
            where[place] if where is not None else None,
            remark.severity,
            name,
            remark.code,
        )
        for place, given, remark in remarks
    )
    batch = TaskBatch(
        start,
        part.count,
        places,
        named,
        part.prompts,
        part.columns,
        problems,
        part.inferred,
        part.rewritten,
        part.elsewhere,
        [(start + place, servers, evaluators) for place, servers, evaluators in [*part.names, *_doubled_names(part, doubled)]],
        done,
        size,
    )
    return batch.take([place for place in range(len(named)) if place not in doubled]) if doubled else batch


def _doubled_names(part: CheckedRecords, doubled: Iterable[int]) -> Iterator[tuple[int, str, str]]:
    """The names of usable records that are left out because another has their id."""
    for position in doubled:
        texts = {name: part.columns[name][position] for name in ("mcp_config", "evaluate_tool") if name in part.columns}
        record = {name: parse_json(text.decode(), "") for name, text in texts.items() if text is not None}
        yield part.kept[position], *names_in(record)
