"""Carrying task files over to HUD v6, record by record (the rules are in `generations`).

Imports msgspec and pyarrow: import this module late.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hudtui.core.errors import InputError, Location
from hudtui.core.events import Progress
from hudtui.core.files import parse_json
from hudtui.core.tasks.arrowrows import ArrowRows
from hudtui.core.tasks.convert import ProblemSummary
from hudtui.core.tasks.formats import to_v6
from hudtui.core.tasks.problems import TaskProblem
from hudtui.core.tasks.read import SourceFile, TaskSource, arrow_batches, folder_files, is_arrow, record_chunks
from hudtui.core.tasks.rules import FieldProblem
from hudtui.core.tasks.write import disk_errors


@dataclass(frozen=True)
class Migration:
    """What came of it."""

    total: int
    written: int
    findings: ProblemSummary
    output: Path


def migrate_to_v6(source: TaskSource, output: Path) -> Iterator[Progress | Migration]:
    """Write a source's tasks as v6 reads them: a `.json` array, or JSON lines for any other name.

    Raises:
        InputError: The source cannot be read as a whole, none of its tasks can be carried over, or the file cannot be written.
    """
    findings = ProblemSummary()
    total = written = 0
    array = output.suffix == ".json"
    if source.path is not None and output.exists() and source.path.is_file() and output.samefile(source.path):
        raise InputError("this is the file that the tasks are read from, and it stays as it is", where=Location(str(output)))
    hidden = output.parent / f".{output.name[:40]}.{secrets.token_hex(4)}.tmp"
    try:
        with disk_errors(output):
            output.parent.mkdir(parents=True, exist_ok=True)
            with hidden.open("wb") as out:
                for line, record in _records(source):
                    made, remarks = (None, [record]) if isinstance(record, FieldProblem) else to_v6(record)
                    identity = record.get("id") if isinstance(record, dict) else None
                    findings.add(tuple(_problem(remark, total, identity, line, source.name) for remark in remarks))
                    total += 1
                    if made is not None:
                        before = (b",\n" if written else b"[\n") if array else b""
                        out.write(before + _text(made, 2 if array else None) + (b"" if array else b"\n"))
                        written += 1
                    if total % 10_000 == 0:
                        yield Progress("read", f"{total:,} tasks")
                if not written:
                    first = findings.errors[0] if findings.errors else None
                    raise InputError(
                        f"none of the {total} tasks can become a v6 task",
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


def _problem(remark: FieldProblem, index: int, identity: Any, line: int | None, name: str) -> TaskProblem:
    known = str(identity) if identity is not None else None
    return TaskProblem(index, known, remark.field, remark.message, line, remark.severity, name, remark.code)


def _records(source: TaskSource) -> Iterator[tuple[int | None, Any]]:
    """Line and data of every record."""
    files = folder_files(source)[0] if source.kind == "folder" else [source.path] if source.path else list(source.files)
    for path in files:
        with SourceFile(path, source.name if len(files) == 1 else str(path)) as reading:
            if is_arrow(reading.head(8)):
                for batch in arrow_batches([path], reading.name, lambda _: None):
                    table = ArrowRows(batch)
                    yield from ((None, _nested(dict(table.record(row)))) for row in range(table.count))
                continue
            for chunk in record_chunks(reading):
                for line, text in chunk.records():
                    try:
                        yield line, parse_json(text.decode(), reading.name)
                    except (InputError, UnicodeDecodeError) as error:
                        yield line, FieldProblem(None, error.what if isinstance(error, InputError) else str(error), "json")


def _nested(record: dict[str, Any]) -> dict[str, Any]:
    """A row of a table with the fields that hold JSON text as data."""
    for name in ("env", "args", "metadata", "columns", "agent_config", "validation"):
        value = record.get(name)
        if isinstance(value, str) and value[:1] in ("{", "["):
            try:
                record[name] = json.loads(value)
            except ValueError:
                continue
    return record
