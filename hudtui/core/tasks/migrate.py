"""Converting task files to HUD v6, record by record; `formats` has the rules.

Imports msgspec: import this module late.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hudtui.core.errors import InputError, Location
from hudtui.core.events import Progress
from hudtui.core.files import temporary_path
from hudtui.core.tasks.convert import ProblemSummary
from hudtui.core.tasks.formats import to_v6
from hudtui.core.tasks.read import TableChunk, TaskSource, read_chunks
from hudtui.core.tasks.task import FieldProblem, TaskProblem
from hudtui.core.tasks.write import disk_errors
from hudtui.core.text import none_of


@dataclass(frozen=True)
class Migration:
    """The result of a conversion to v6."""

    total: int
    """Tasks in the source."""
    written: int
    findings: ProblemSummary
    output: Path


def migrate_to_v6(source: TaskSource, output: Path) -> Iterator[Progress | Migration]:
    """Write a source's tasks in HUD's v6 format, step by step; the last step is the result.

    Args:
        source: A source on this machine.
        output: A `.json` file for an array; JSON lines for any other suffix.

    Raises:
        InputError: The source cannot be read as a whole, none of its tasks can be converted, or the
            file cannot be written.
    """
    findings = ProblemSummary()
    total = written = 0
    array = output.suffix == ".json"
    if (
        source.path is not None
        and output.exists()
        and source.path.is_file()
        and output.samefile(source.path)
    ):
        raise InputError(
            "this is the file that the tasks are read from, and it stays as it is",
            where=Location(str(output)),
        )
    hidden = temporary_path(output)
    try:
        with disk_errors(output):
            output.parent.mkdir(parents=True, exist_ok=True)
            with hidden.open("wb") as out:
                for record, line in _records(source):
                    made, problems = (
                        (None, [record]) if isinstance(record, FieldProblem) else to_v6(record)
                    )
                    name = (
                        str(record["id"])
                        if isinstance(record, dict) and record.get("id") is not None
                        else None
                    )
                    findings.add(
                        [
                            TaskProblem(
                                file=source.name,
                                index=total,
                                id=name,
                                line=line,
                                **problem._asdict(),
                            )
                            for problem in problems
                        ]
                    )
                    total += 1
                    if made is not None:
                        before = (b",\n" if written else b"[\n") if array else b""
                        out.write(
                            before + _text(made, 2 if array else None) + (b"" if array else b"\n")
                        )
                        written += 1
                    if total % 10_000 == 0:
                        yield Progress("read", f"{total:,} tasks")
                if not written:
                    first = findings.errors[0] if findings.errors else None
                    raise InputError(
                        f"{none_of(total, 'task')} can become a v6 task",
                        why=str(first) if first else None,
                        where=Location(source.name),
                    )
                out.write(b"\n]\n" if array else b"")
                out.flush()
                os.fsync(out.fileno())
            os.replace(hidden, output)
    finally:
        hidden.unlink(missing_ok=True)
    yield Migration(total, written, findings, output)


def _text(record: dict[str, Any], indent: int | None) -> bytes:
    try:
        return json.dumps(record, ensure_ascii=False, indent=indent).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can spell
        return json.dumps(record, indent=indent).encode()


def _records(source: TaskSource) -> Iterator[tuple[Any, int | None]]:
    """Yield the data of each record and its line, if the source has lines.

    A record that cannot be read comes as the problem with its text.
    """
    for chunk, _, _ in read_chunks(source):
        records, lines = chunk.records()
        if isinstance(chunk, TableChunk):
            yield from ((_nested(record), None) for record in records)
        else:
            yield from zip(records, lines or chunk.lines() or (), strict=True)


def _nested(record: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a table with the fields that hold JSON text as data."""
    for name in ("env", "args", "metadata", "columns", "agent_config", "validation"):
        value = record.get(name)
        if isinstance(value, str) and value[:1] in ("{", "["):
            try:
                record[name] = json.loads(value)
            except ValueError:
                continue
    return record
