"""Writing datasets: Parquet, JSON lines, the directory format of `datasets`, and task files.

Everything is written to a hidden folder beside the target and moved to its name when it is complete
and on the disk, so an unfinished file never has the final name.

Imports pyarrow and msgspec: import this module late.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]

from hudtui.core.errors import InputError, Location
from hudtui.core.files import temporary_path
from hudtui.core.tasks.json_records import encode_column
from hudtui.core.tasks.read import JSON_MARK
from hudtui.core.tasks.solution import FIELD as SOLUTION
from hudtui.core.tasks.validate import TASK_FIELDS, CheckedTask

Format = Literal["parquet", "jsonl", "dataset", "json", "tasks-jsonl", "repository"]
"""Format of a dataset.

`parquet`: one file (with several splits a folder of them). `jsonl`: the same columns as JSON lines.
`dataset`: what `datasets.save_to_disk` writes. `json`, `tasks-jsonl`: task files. `repository`: the
files of a repository on the Hub.
"""

ROW_GROUP = 20_000
"""Rows of a Parquet row group; about 10 MB in memory."""
SHARD = 500_000_000
"""Bytes after which a folder of Parquet gets a further file."""


class DatasetLayout:
    """The columns of a dataset.

    HUD's six, all of them text, and further ones for the fields that are only kept. A kept field
    whose values are all text becomes a column of text. Any other becomes a column of JSON, marked
    as such so that it is read back as what it was. A `solution` is no column: it stays in task
    files, and never reaches those who train.

    Args:
        solutions: Keep solutions, for a task file.

    Attributes:
        kept: Name of each kept field -> how it is written, in the order of their appearance.
    """

    def __init__(self, *, solutions: bool = False) -> None:
        self._left_out = () if solutions else (SOLUTION,)
        self.kept: dict[str, Literal["text", "json"]] = {}

    def covers(self, tasks: Sequence[CheckedTask]) -> bool:
        """Add the kept fields of some tasks.

        Return whether the layout had a column of the right kind for each already.
        """
        before = dict(self.kept)
        for task in tasks:
            for name, value in task.extra.items():
                if name not in self._left_out and self.kept.get(name) != "json":
                    self.kept[name] = "text" if isinstance(value, str) else "json"
        return before == self.kept

    def schema(self) -> pa.Schema:
        """Return the schema of the columns."""
        fields = [pa.field(name, pa.string()) for name in TASK_FIELDS]
        for name, kind in self.kept.items():
            fields.append(
                pa.field(
                    name, pa.string(), metadata={JSON_MARK: b"json"} if kind == "json" else None
                )
            )
        return pa.schema(fields)

    def record_batch(self, tasks: Sequence[CheckedTask]) -> pa.RecordBatch:
        """Return usable tasks as rows."""
        columns: list[list[bytes | None]] = [
            [task.id.encode() for task in tasks],
            [task.prompt.encode() for task in tasks],
        ]
        columns.append(_config_column(tasks))
        columns += [
            encode_column([getattr(task, name) for task in tasks]) for name in TASK_FIELDS[3:]
        ]
        for name, kind in self.kept.items():
            if kind == "text":
                columns.append(
                    [task.extra[name].encode() if name in task.extra else None for task in tasks]
                )
            else:
                columns.append(encode_column([task.extra.get(name) for task in tasks]))
        return pa.record_batch(list(map(text_column, columns)), schema=self.schema())


def _config_column(tasks: Sequence[CheckedTask]) -> list[bytes | None]:
    """Encode each distinct `mcp_config` once: equal ones are mostly the same object."""
    distinct = {id(task.mcp_config): task.mcp_config for task in tasks}
    texts = dict(zip(distinct, encode_column(list(distinct.values())), strict=True))
    return [texts[id(task.mcp_config)] for task in tasks]


def text_column(texts: Sequence[bytes | None]) -> pa.StringArray:
    """Return a column of UTF-8 texts.

    `pyarrow.array` would import pandas, which takes longer than converting 100 000 tasks.
    """
    validity = None
    if None in texts:
        bits = int("".join("0" if text is None else "1" for text in reversed(texts)), 2)
        validity = pa.py_buffer(bits.to_bytes((len(texts) + 7) // 8, "little"))
        texts = [text or b"" for text in texts]
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, texts), np.int32, len(texts)), out=offsets[1:])  # type: ignore[arg-type]
    data = b"".join(texts)  # type: ignore[arg-type]
    return pa.StringArray.from_buffers(
        len(texts), pa.py_buffer(offsets), pa.py_buffer(data), validity
    )


def native_rows(rows: pa.RecordBatch) -> list[bytes]:
    """Return rows as tasks in task files.

    One JSON object each, with nested objects and without empty fields.
    """
    encode = msgspec.json.encode
    texts = [rows.column(place).to_pylist() for place in range(rows.num_columns)]
    heads = [encode(name) + b":" for name in rows.schema.names]
    given = [
        name in TASK_FIELDS[2:] or bool(field.metadata)
        for name, field in zip(rows.schema.names, rows.schema, strict=True)
    ]
    made = []
    for row in range(rows.num_rows):
        parts = []
        for head, is_json, column in zip(heads, given, texts, strict=True):
            value = column[row]
            if value is None or (
                is_json and value == "{}" and head in (b'"setup_tool":', b'"metadata":')
            ):
                continue
            parts.append(head + (value.encode() if is_json else encode(value)))
        made.append(b"{%b}" % b",".join(parts))
    return made


class SplitWriter:
    """Writes the rows of one split."""

    _stream: BinaryIO | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        raise NotImplementedError

    def close(self) -> list[Path]:
        """Finish; return the files."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Close what is open still."""
        if self._stream is not None:
            with contextlib.suppress(OSError, pa.ArrowException):
                self._stream.close()


class _Parquet(SplitWriter):
    """Writes row groups in a thread, so that reading continues while a row group is compressed."""

    def __init__(self, folder: Path, name: str, schema: pa.Schema, *, shards: bool) -> None:
        self._folder, self._name, self._schema, self._shards = folder, name, schema, shards
        self._files: list[Path] = []
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="parquet")
        self._under_way: Future[None] | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= ROW_GROUP or self._waiting_bytes >= 64 << 20:
            self._hand_over()

    def _hand_over(self) -> None:
        waiting, self._waiting, self._waiting_rows, self._waiting_bytes = self._waiting, [], 0, 0
        if self._under_way is not None:
            self._under_way.result()
        self._under_way = self._thread.submit(self._pack, waiting)

    def _pack(self, batches: list[pa.RecordBatch]) -> None:
        if self._stream is not None and self._shards and self._stream.tell() >= SHARD:
            self._finish()
        if self._writer is None:
            path = self._folder / (
                f"{self._name}-{len(self._files):05d}.parquet" if self._shards else self._name
            )
            self._stream = path.open("wb")
            self._files.append(path)
            self._writer = pq.ParquetWriter(
                self._stream,
                self._schema,
                compression="zstd",
                use_dictionary=["mcp_config", "setup_tool", "evaluate_tool"],
                write_statistics=["id"],  # the smallest and largest JSON text find no task
            )
        self._writer.write_table(
            pa.Table.from_batches(batches, self._schema), row_group_size=ROW_GROUP
        )

    def _finish(self) -> None:
        if self._writer is not None and self._stream is not None:
            self._writer.close()
            _to_disk(self._stream)
            self._writer = self._stream = None

    def close(self) -> list[Path]:
        try:
            if self._waiting or not self._files:
                self._hand_over()
            if self._under_way is not None:
                self._under_way.result()
            self._finish()
        finally:
            self.abandon()
        if not self._shards:
            return self._files
        named = []
        for number, path in enumerate(self._files):
            named.append(
                path.with_name(f"{self._name}-{number:05d}-of-{len(self._files):05d}.parquet")
            )
            path.rename(named[-1])
        return named

    def abandon(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
        if (writer := self._writer) is not None:
            # While its stream is open: it closes itself when it is thrown away, and would print
            # that it cannot.
            try:
                writer.close()
            except (OSError, ValueError, MemoryError, pa.ArrowException):
                writer.is_open = False
        super().abandon()


class _Lines(SplitWriter):
    """Writes one JSON object per line: the dataset's columns, or tasks as in a task file."""

    def __init__(self, path: Path, *, native: bool) -> None:
        self._path, self._native = path, native
        self._stream: BinaryIO = path.open("wb")

    def write(self, rows: pa.RecordBatch) -> None:
        lines = (
            native_rows(rows)
            if self._native
            else [msgspec.json.encode(row) for row in rows.to_pylist()]
        )
        self._stream.write(b"".join(line + b"\n" for line in lines))

    def close(self) -> list[Path]:
        _to_disk(self._stream)
        return [self._path]


class _Array(_Lines):
    """Writes an indented JSON array of tasks."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, native=True)
        self._empty = True
        self._stream.write(b"[")

    def write(self, rows: pa.RecordBatch) -> None:
        for row in native_rows(rows):
            self._stream.write(b"\n  " if self._empty else b",\n  ")
            self._stream.write(msgspec.json.format(row, indent=2).replace(b"\n", b"\n  "))
            self._empty = False

    def close(self) -> list[Path]:
        self._stream.write(b"]\n" if self._empty else b"\n]\n")
        return super().close()


class _Saved(SplitWriter):
    """Writes the directory format of `datasets` (`save_to_disk`) without importing it."""

    def __init__(self, folder: Path, split: str, schema: pa.Schema) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._split, self._schema = folder, split, schema
        self._path = folder / "data-00000-of-00001.arrow"
        self._stream: BinaryIO = self._path.open("wb")
        self._writer = pa.ipc.new_stream(self._stream, schema)

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows)

    def close(self) -> list[Path]:
        self._writer.close()
        _to_disk(self._stream)
        with self._path.open("rb") as stream:
            digest = hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=8))
        state: dict[str, Any] = {
            "_data_files": [{"filename": self._path.name}],
            "_fingerprint": digest.hexdigest(),
            "_format_columns": None,
            "_format_kwargs": {},
            "_format_type": None,
            "_output_all_columns": False,
            "_split": self._split,
        }
        info = {
            "citation": "",
            "description": "",
            "features": {
                name: {"dtype": "string", "_type": "Value"} for name in self._schema.names
            },
            "homepage": "",
            "license": "",
        }
        files = [self._path]
        for name, data in (("state.json", state), ("dataset_info.json", info)):
            path = self._folder / name
            with path.open("wb") as out:
                out.write(json.dumps(data, indent=2).encode())
                _to_disk(out)
            files.append(path)
        return files


def _to_disk(stream: BinaryIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())
    stream.close()


@dataclass(frozen=True)
class Target:
    """Path and format of a dataset."""

    path: Path
    format: Format
    replaces_source: bool = False
    """True if the target may be the task file that is read."""

    @property
    def is_task_file(self) -> bool:
        """True if tasks are written as they stand in task files."""
        return self.format in ("json", "tasks-jsonl")


class DatasetWriter:
    """Writes a dataset; a context manager that leaves no file behind when it fails.

    Attributes:
        folder: The hidden folder, which exists inside the context.
    """

    def __init__(self, target: Target, schema: pa.Schema, splits: tuple[str, ...]) -> None:
        """Choose the hidden folder beside the target.

        Raises:
            InputError: The target is a folder that holds something else, or a file where a folder
                is needed.
        """
        self.target = target
        self._schema, self._splits = schema, splits
        path = target.path
        self._is_folder = target.format in ("dataset", "repository") or len(splits) > 1
        if path.is_dir() and not (self._is_folder and _is_dataset(path)):
            raise InputError(
                "there is a folder of this name already, and it holds something else",
                where=Location(str(path)),
                fix="Take another.",
            )
        if self._is_folder and path.exists() and not path.is_dir():
            raise InputError(
                "there is a file of this name already, and a folder is to be made",
                where=Location(str(path)),
            )
        self.folder = temporary_path(path)
        self._sinks: dict[str, SplitWriter] = {}

    def __enter__(self) -> DatasetWriter:
        with disk_errors(self.target.path):
            self.target.path.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir()
        return self

    def __exit__(self, *_: object) -> None:
        for sink in self._sinks.values():
            sink.abandon()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sink(self, split: str) -> SplitWriter:
        """Return the writer of a split."""
        if split not in self._sinks:
            self._sinks[split] = self._new_sink(split)
        return self._sinks[split]

    def _new_sink(self, split: str) -> SplitWriter:
        form, several = self.target.format, len(self._splits) > 1
        if form == "repository" or (form == "parquet" and several):
            folder = self.folder / "data" if form == "repository" else self.folder
            folder.mkdir(exist_ok=True)
            return _Parquet(folder, split, self._schema, shards=True)
        if form == "dataset":
            return _Saved(self.folder / split if several else self.folder, split, self._schema)
        name = f"{split}{_SUFFIX[form]}" if several else self.target.path.name
        if form == "parquet":
            return _Parquet(self.folder, name, self._schema, shards=False)
        if form == "json":
            return _Array(self.folder / name)
        return _Lines(self.folder / name, native=form == "tasks-jsonl")

    def finish(self) -> list[Path]:
        """Complete all files and move them to the final name; return their paths there."""
        files: list[Path] = []
        for split in self._splits:
            files += self.sink(split).close()
        if self.target.format == "dataset" and len(self._splits) > 1:
            (self.folder / "dataset_dict.json").write_text(
                json.dumps({"splits": list(self._splits)})
            )
        final = Path(os.path.realpath(self.target.path))
        if not self._is_folder:
            if final.exists():
                os.chmod(files[0], final.stat().st_mode & 0o7777)
            os.replace(files[0], final)
            return [self.target.path]
        old = None
        if final.exists():
            old = self.folder.with_suffix(".old")
            final.rename(old)
        try:
            self.folder.rename(final)
        except OSError:
            if old is not None:
                old.rename(final)
            raise
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
        return [self.target.path / path.relative_to(self.folder) for path in files]


_SUFFIX = {"parquet": ".parquet", "jsonl": ".jsonl", "tasks-jsonl": ".jsonl", "json": ".json"}


_OURS = re.compile(
    r"(data/)?\w+-\d{5}-of-\d{5}\.parquet|(train|test)\.jsonl|README\.md"
    r"|((train|test)/)?(state\.json|dataset_info\.json|data-\d{5}-of-\d{5}\.arrow|cache-\w+\.arrow)"
    r"|dataset_dict\.json"
)


def _is_dataset(folder: Path) -> bool:
    """Return whether a folder holds only a dataset written by this module.

    Only then may it be replaced.
    """
    files = [
        path.relative_to(folder).as_posix()
        for path in islice(folder.rglob("*"), 10_000)
        if not path.is_dir()
    ]
    return all(_OURS.fullmatch(name) for name in files) and files != ["README.md"]


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn errors of the disk while `path` is written into errors for a user.

    Raises:
        InputError: The disk is full, the folder is read-only, or another error of the disk.
    """
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise InputError(
            "the disk is full, or its quota is" if full else "this cannot be written",
            why=None if full else error.strerror or str(error),
            fix="Nothing was changed: make room, or choose another place with -o."
            if full
            else None,
            where=Location(str(path)),
        ) from None
