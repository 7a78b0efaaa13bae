"""Adding tasks to a task file, and changing one; every other byte of the file stays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hudtui.core.errors import InputError, Location
from hudtui.core.files import edit_text, file_lock, read_text, write_atomic
from hudtui.core.tasks.json_records import record_chunks
from hudtui.core.text import clean_line, plural

SUFFIXES = (".json", ".jsonl", ".ndjson")
"""Names of files that tasks are written into."""


def add_tasks(path: Path, records: Sequence[Any], name: str) -> None:
    """Add tasks at the end of a task file, or write a new one.

    Args:
        path: The file: `.json` holds an array, the others a task per line.
        records: The tasks.
        name: The file as the user named it, for errors.

    Raises:
        InputError: The file has a task of one of these ids, cannot be read, or is no task file.
    """
    _require_text(path, name)
    lines = path.suffix != ".json"
    with file_lock(path):
        if not path.exists():
            write_atomic(path, _joined(records) if lines else f"[\n{_array(records)}\n]\n")
        else:
            edit_text(path, lambda text: _added(text, records, name))


def check_new(path: Path, records: Sequence[Any], name: str) -> None:
    """Check that `add_tasks` can add these tasks; writes nothing.

    Raises:
        InputError: See `add_tasks`.
    """
    _require_text(path, name)
    if path.exists():
        _added(read_text(path), records, name)


def replace_task(path: Path, index: int, record: Any, name: str, *, before: str) -> None:
    """Put a task in the place of another.

    Args:
        path: The file.
        index: Position of the task in the file, counting from 0.
        record: The new task.
        name: The file as the user named it, for errors.
        before: Id of the task that stands there.

    Raises:
        InputError: Another task stands there now, another one has this id, or the file cannot be
            read or written.
    """
    _require_text(path, name)

    def edit(text: str) -> str:
        places = _places(text, name)
        where = Location(name)
        if index >= len(places) or _id(places[index].record) != before:
            raise InputError(
                f"the file changed: {clean_line(before, 80)} is not where it was",
                fix="Read the tasks again, and change it then.",
                where=where,
            )
        others = {_id(place.record) for place in places} - {before}
        if _id(record) in others:
            raise _taken([_id(record)], name)
        place = places[index]
        written = json.dumps(record, ensure_ascii=False)
        if not place.one_line:
            margin = "\n" + " " * place.margin
            written = json.dumps(record, ensure_ascii=False, indent=2).replace("\n", margin)
        data = text.encode()
        return (data[: place.start] + written.encode() + data[place.end :]).decode()

    with file_lock(path):
        edit_text(path, edit)


class _Place:
    """A record in the text of a file."""

    def __init__(self, data: bytes, start: int, end: int, record: Any, *, lines: bool) -> None:
        self.start, self.end, self.record = start, end, record
        before = data[data.rfind(b"\n", 0, start) + 1 : start]
        self.margin = len(before) if before.isspace() else 0
        self.one_line = lines or b"\n" not in data[start:end]


def _places(text: str, name: str) -> list[_Place]:
    data = text.encode()
    places = []
    for chunk in record_chunks(data, name):
        at = data.index(chunk.data, chunk.start)
        for (_, written), record in zip(chunk.texts(), chunk.records()[0], strict=True):
            at = data.index(written, at)
            end = at + len(written)
            places.append(_Place(data, at, end, record, lines=chunk.form == "lines"))
            at = end
    return places


def _added(text: str, records: Sequence[Any], name: str) -> str:
    stripped = text.strip()
    if not stripped:
        return f"[\n{_array(records)}\n]\n" if name.endswith(".json") else _joined(records)
    is_array = stripped.startswith("[")
    is_empty = is_array and not stripped[1:-1].strip()
    places = [] if is_empty else _places(text, name)
    _require_new(places, records, name)
    if is_array:
        end = text.rindex("]")
        comma = "," if places else ""
        return f"{text[:end].rstrip()}{comma}\n{_array(records)}\n{text[end:]}"
    if places[0].one_line:
        return text + ("" if text.endswith("\n") else "\n") + _joined(records)
    return f"[\n{text.rstrip()},\n{_array(records)}\n]\n"


def _require_new(places: Sequence[_Place], records: Sequence[Any], name: str) -> None:
    there = {_id(place.record) for place in places}
    if same := [_id(record) for record in records if _id(record) in there]:
        raise _taken(same, name)


def _taken(ids: Sequence[str], name: str) -> InputError:
    several = f"{plural(len(ids), 'task')} of the same ids, the first" if len(ids) > 1 else "a task"
    return InputError(
        f"the file has {several} {clean_line(ids[0], 80)} already, and it stays as it is",
        fix="Give the new ones another id, or name another file.",
        where=Location(name, field="id"),
    )


def _id(record: Any) -> str:
    return str(record.get("id")) if isinstance(record, dict) else ""


def _require_text(path: Path, name: str) -> None:
    if path.suffix not in SUFFIXES:
        raise InputError(
            "tasks are written into .json and .jsonl files",
            fix=f"Write this one as JSON first: hudtui tasks convert {clean_line(name)} -o new.json"
            if path.exists()
            else None,
            where=Location(name),
        )


def _joined(records: Sequence[Any]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def _array(records: Sequence[Any]) -> str:
    texts = (json.dumps(record, ensure_ascii=False, indent=2) for record in records)
    return ",\n".join("  " + text.replace("\n", "\n  ") for text in texts)
