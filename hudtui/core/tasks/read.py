"""Reading tasks: where they come from, and the one way from a source to checked tasks.

`find_source` says what a name means, `download` brings a dataset of the Hub to this machine, `scan`
reads and checks a source in batches, and `read_tasks` does all of that and returns the tasks in
memory.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hudtui.core.errors import HudtuiError, InputError, Location
from hudtui.core.events import Notice
from hudtui.core.files import find_encoding, open_file, read_text
from hudtui.core.lockfile import find_lock, read_lock
from hudtui.core.paths import typed_path
from hudtui.core.platform import HUD, Platform
from hudtui.core.tasks.task import Task, TaskProblem, ToolCall
from hudtui.core.text import clean_line
from hudtui.core.variables import Lookup

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped,unused-ignore]

    from hudtui.core.environment.values import Analysis
    from hudtui.core.settings import Settings
    from hudtui.core.tasks.json_records import RecordChunk
    from hudtui.core.tasks.judges import Lacking
    from hudtui.core.tasks.validate import CheckedTask, Rules, TaskChecker

LARGEST_FILE = 1 << 30
"""Bytes of a task file, unpacked."""
JSON_MARK = b"hudtui"
"""Key in the metadata of a column whose texts are JSON (value `json`), so that kept fields are read
back as what they were."""

_HUB_ID = re.compile(
    r"(?P<repo>[A-Za-z0-9][\w.-]*/[\w.-]*[\w-])(?:@(?P<revision>[^\s:]+))?(?::(?P<split>[\w.-]+))?"
)
_COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_TABLE_ROWS = 4096
"""Rows of a table that are read at once."""


# -- sources
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaskSource:
    """Place of tasks; nothing has been read yet."""

    name: str
    """As the user wrote it."""
    kind: Literal["file", "folder", "hub", "files"]
    path: Path | None = None
    repo: str | None = None
    """Id of the dataset on the Hub, `org/name`."""
    revision: str | None = None
    split: str | None = None
    files: tuple[Path, ...] = ()
    """The files of a Hub dataset once they are on this machine."""

    def paths(self) -> list[Path]:
        """Return the files that hold the tasks.

        Raises:
            InputError: The source is a folder without a dataset, or without the split.
        """
        if self.kind == "hub":
            raise ValueError("download a Hub dataset before reading it")
        if self.kind == "folder":
            return folder_files(self)
        return [self.path] if self.path is not None else list(self.files)


def find_source(
    text: str | os.PathLike[str], *, split: str | None = None, folder: Path | None = None
) -> TaskSource:
    """Return what a name means.

    An existing path, else a dataset on the Hub, `org/name[@revision][:split]`.

    Args:
        text: The name.
        split: Split of a dataset that has several.
        folder: Where relative paths start; the current folder when None.

    Raises:
        InputError: The name is neither.
    """
    name = os.fspath(text)
    path = typed_path(name)
    if folder is not None:
        path = folder / path
    if os.path.isdir(path):  # a `Path` raises for a name that is too long
        return TaskSource(name, "folder", path, split=split)
    if os.path.exists(path):
        return TaskSource(name, "file", path, split=split)
    match = _HUB_ID.fullmatch(name)
    if match is None or re.search(r"\.(jsonl?|ndjson|parquet|arrow)(\.(gz|zst))?$", match["repo"]):
        raise InputError("there is no such file or folder", where=Location(name))
    return TaskSource(
        name, "hub", repo=match["repo"], revision=match["revision"], split=split or match["split"]
    )


def download(source: TaskSource, *, token: str | None = None) -> TaskSource:
    """Download a source that is on the Hub; return any other source as it is.

    Raises:
        InputError: The Hub has no such dataset, revision or split, or the dataset holds no tasks.
        HubError: The Hub refuses or cannot be reached.
    """
    if source.kind != "hub":
        return source
    from hudtui.core.tasks.hub import download_files

    return download_files(source, token=token)


def lock_image(
    settings: Settings, image: str | None = None
) -> tuple[Path | None, str | None, tuple[Notice, ...]]:
    """Return the project's lock file, the image for tasks without `mcp_config`, and notices.

    There is a notice if the file is damaged.

    Args:
        settings: Of the project.
        image: Image to use instead of the lock file's.
    """
    path = find_lock(settings.folder, settings.platform)
    if path is None:
        return None, image, ()
    try:
        return path, image or read_lock(path).image, ()
    except HudtuiError as error:
        return None, image, (Notice("warning", f"the lock file is ignored: {error.lines()[0]}"),)


@dataclass(frozen=True)
class OpenedSource:
    """A source, and what its tasks are checked against."""

    source: TaskSource
    rules: Rules
    settings: Settings
    notices: tuple[Notice, ...] = ()


def open_source(
    text: str,
    folder: Path,
    platform: Platform,
    *,
    split: str | None = None,
    analysis: Analysis | None = None,
) -> OpenedSource:
    """Find a source and the rules of the project around it. Reads no task.

    Args:
        text: A file, a folder or a dataset on the Hub.
        folder: Project folder.
        platform: Platform of the project.
        split: Split of a dataset that has several.
        analysis: Environment to check the calls against, of the tasks that run on it.

    Raises:
        InputError: There is no such source.
    """
    from hudtui.core.settings import load_settings
    from hudtui.core.tasks.servers import config_rewriter
    from hudtui.core.tasks.validate import Rules

    settings = load_settings(folder, platform)
    source = find_source(text, split=split, folder=folder)
    _, image, notices = lock_image(settings)
    rules = Rules(
        lookup=settings.lookup,
        lacking=settings.lacking,
        lock_image=image,
        platform=platform,
        analysis=analysis,
        same_servers=True,
        folder=folder,
        rewrite=config_rewriter(
            platform, lookup=settings.lookup
        ),  # changes nothing, but notes local servers and secrets
    )
    return OpenedSource(source, rules, settings, notices)


def download_source(opened: OpenedSource) -> OpenedSource:
    """Download the source if it is on the Hub, with the project's address and token of the Hub.

    Raises:
        InputError: There is no such dataset, or it holds no tasks.
        HubError: The Hub refuses or cannot be reached.
    """
    if opened.source.kind != "hub":
        return opened
    from hudtui.core.tasks.hub import use_hub_of

    use_hub_of(opened.settings)
    return replace(opened, source=download(opened.source, token=opened.settings.get("HF_TOKEN")))


Fingerprint = tuple[tuple[str, int, int], ...]
"""Path, size and time of the last change of each file of a source."""


def fingerprint(source: TaskSource) -> Fingerprint | None:
    """Return the state of the source's files.

    None while one of them is missing, or where they are on the Hub.
    """
    if source.kind == "hub":
        return None
    try:
        return tuple(
            (str(path), (stat := path.stat()).st_size, stat.st_mtime_ns) for path in source.paths()
        )
    except (OSError, HudtuiError):
        return None


# -- files
# --------------------------------------------------------------------------------------------------


class SourceFile:
    """An open task file: how far it is read, and whether it is still the same file.

    Attributes:
        size: Bytes on disk.
    """

    def __init__(self, path: Path, name: str) -> None:
        """Open the file.

        Raises:
            InputError: The file cannot be opened.
        """
        self.name = name
        self._path = path
        try:
            self._stream = open_file(path)
        except InputError as error:
            raise InputError(
                error.what, why=error.why, fix=error.fix, where=Location(name)
            ) from None
        self._state = _state(os.fstat(self._stream.fileno()))
        self.size = self._state[0]

    def __enter__(self) -> SourceFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def head(self, count: int) -> bytes:
        """Return the first bytes without consuming them."""
        data = self._stream.read(count)
        self._stream.seek(0)
        return data

    def is_table(self) -> bool:
        """Return whether this is Parquet or an Arrow file, and not text."""
        return self.head(8).startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"))

    def check_unchanged(self) -> None:
        """Check that the file is still what it was when it was opened.

        Raises:
            InputError: The file was written to, replaced or removed since.
        """
        try:
            same = (
                self._state == _state(os.fstat(self._stream.fileno())) == _state(self._path.stat())
            )
        except OSError:
            same = False
        if not same:
            raise InputError(
                "this file changed while it was read",
                fix="Run the command again when it is written.",
                where=Location(self.name),
            )

    def text(self) -> bytes:
        """Return the text of the file as UTF-8, unpacked and without a byte order mark.

        Raises:
            InputError: The file is cut off, damaged, changed, too large, or not text in the
                encoding that its byte order mark promises.
        """
        data = self._unpack()
        mark, encoding = find_encoding(data[:4])
        if mark:
            data = data[len(mark) :]
        elif data[1:2] == b"\0" and data[:1] in (b"[", b"{", b" ", b"\r", b"\n", b"\t"):
            encoding = "utf-16-le"
        elif data[:1] == b"\0" and data[1:2] in (b"[", b"{", b" ", b"\r", b"\n", b"\t"):
            encoding = "utf-16-be"
        if encoding == "utf-8":
            return data
        try:
            return data.decode(encoding).encode()
        except UnicodeError as error:
            reason = getattr(error, "reason", str(error))
            raise InputError(
                f"this is not {encoding.upper()} text", why=reason, where=Location(self.name)
            ) from None

    def _unpack(self) -> bytes:
        compression = next(
            (name for mark, name in _COMPRESSIONS.items() if self.head(4).startswith(mark)), None
        )
        try:
            data = (
                self._stream.read(min(self.size, LARGEST_FILE) + 1)
                if compression is None
                else self._decompress(compression)
            )
        except OSError as error:
            if compression is None or error.errno is not None:
                why = error.strerror or str(error)
                raise InputError(
                    "this file cannot be read", why=why, where=Location(self.name)
                ) from None
            what = "cut off" if "Truncated" in str(error) else "damaged"
            raise InputError(
                f"this compressed file is {what}",
                fix="Copy or download it again.",
                where=Location(self.name),
            ) from None
        if len(data) > LARGEST_FILE:
            raise InputError(
                f"this file holds more than {LARGEST_FILE >> 30} GiB of text",
                fix="Split it.",
                where=Location(self.name),
            )
        self.check_unchanged()
        return data

    def _decompress(self, compression: str) -> bytes:
        import pyarrow as pa

        raw = os.fdopen(
            os.dup(self._stream.fileno()), "rb"
        )  # the decompressor closes the handle that it reads from
        raw.seek(0)
        blocks, size = [], 0
        with pa.CompressedInputStream(pa.PythonFile(raw, "r"), compression) as unpacked:
            while size <= LARGEST_FILE and (block := unpacked.read(1 << 20)):
                blocks.append(block)
                size += len(block)
        return b"".join(blocks)


def _state(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ino


class TableChunk:
    """Consecutive rows of a Parquet or Arrow file, as a `json_records.RecordChunk` gives them.

    The interface is the same.
    """

    def __init__(self, batch: pyarrow.RecordBatch) -> None:
        self.batch = batch
        self.sound = all(str(kind) == "string" for kind in batch.schema.types)

    def records(self) -> tuple[list[Any], None]:
        """Return the rows as the records of a task file.

        In the dataset format the columns hold JSON text. Tables made from nested data hold structs
        instead, with a null for each key that only other rows have; such keys are dropped.
        """
        import pyarrow as pa

        from hudtui.core.tasks.validate import TASK_FIELDS, without_nulls

        columns = []
        for field, column in zip(self.batch.schema, self.batch.columns, strict=True):
            values = column.storage if isinstance(column, pa.ExtensionArray) else column
            listed = values.to_pylist()
            if pa.types.is_nested(values.type):
                listed = [without_nulls(value) for value in listed]
            elif field.name not in TASK_FIELDS and _is_json(field):
                listed = [_from_json(value) for value in listed]
            elif not pa.types.is_string(values.type):
                listed = [v if isinstance(v, str | int | float | None) else str(v) for v in listed]
            columns.append(listed)
        names = self.batch.schema.names
        rows = zip(*columns, strict=True) if columns else ()
        return [
            {name: value for name, value in zip(names, row, strict=True) if value is not None}
            for row in rows
        ], None

    def lines(self) -> None:
        """Return None: a table has no lines."""


def _is_json(field: pyarrow.Field) -> bool:
    marked = (field.metadata or {}).get(JSON_MARK) == b"json"
    return marked or getattr(field.type, "extension_name", "") == "arrow.json"


def _from_json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):  # marked wrongly: the text itself is kept
        return text


def table_chunks(path: Path, name: str) -> Iterator[TableChunk]:
    """Read a Parquet or Arrow file, a few thousand rows at a time.

    Args:
        path: The file.
        name: Name of the file in errors.

    Raises:
        InputError: The file is damaged or cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]

    try:
        with SourceFile(path, str(path)) as opened:
            head = opened.head(8)
        if head.startswith(b"PAR1"):
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=_TABLE_ROWS):
                    check_offsets(batch)
                    yield TableChunk(batch)
        else:
            with pa.memory_map(str(path)) as mapped:
                for batch in _ipc_batches(mapped, stream=not head.startswith(b"ARROW1")):
                    check_offsets(batch)
                    yield from (
                        TableChunk(batch.slice(at, _TABLE_ROWS))
                        for at in range(0, batch.num_rows, _TABLE_ROWS)
                    )
    except (pa.ArrowException, OSError, UnicodeError) as error:
        why = clean_line(str(error), 300)
        raise InputError("this file is damaged or cut off", why=why, where=Location(name)) from None


def check_offsets(batch: pyarrow.RecordBatch) -> None:
    """Refuse rows whose offsets lead outside of the memory: to follow them would end the process.

    Raises:
        pyarrow.ArrowException: An offset leads outside, a text is not UTF-8, or an object has two
            fields of one name.
        UnicodeError: The name of a field is not UTF-8.
    """
    import pyarrow as pa

    batch.validate(full=True)
    left = [list(batch.schema)]
    while left:
        fields = left.pop()
        names = [field.name for field in fields]
        if len(set(names)) < len(names):
            raise pa.ArrowInvalid("two fields of one object have the same name")
        kinds = [field.type for field in fields]
        left += [
            [kind.field(number) for number in range(kind.num_fields)]
            for kind in kinds
            if kind.num_fields
        ]


def _ipc_batches(
    mapped: pyarrow.MemoryMappedFile, *, stream: bool
) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa

    if stream:
        yield from pa.ipc.open_stream(mapped)
        return
    opened = pa.ipc.open_file(mapped)
    for number in range(opened.num_record_batches):
        yield opened.get_batch(number)


def folder_files(source: TaskSource) -> list[Path]:
    """Return the files of a folder that hold its tasks.

    The folder is what `datasets` saves (`save_to_disk`, one split or several), or holds Parquet,
    Arrow or JSONL files, itself or in `data/`, with the split at the beginning of their names.

    Raises:
        InputError: There are no such files, or none of that split.
    """
    folder = source.path
    assert folder is not None
    several = folder / "dataset_dict.json"
    if several.exists():
        splits = [str(name) for name in _json_file(several).get("splits", [])]
        return _saved_files(folder / choose_split(splits, source))
    if (folder / "state.json").exists():
        return _saved_files(folder)
    for place in (folder, folder / "data"):
        for suffixes in ((".parquet",), (".arrow",), (".jsonl", ".jsonl.gz", ".jsonl.zst")):
            files = sorted(
                path for path in place.glob("*") if path.is_file() and path.name.endswith(suffixes)
            )
            if files:
                names = {path: split_from_name(path.name) for path in files}
                splits = list(dict.fromkeys(names.values()))
                if source.split is None and len(splits) > 1 and suffixes[0] == ".jsonl":
                    continue  # unrelated task files in a project folder
                split = choose_split(splits, source)
                return [path for path in files if names[path] == split]
    raise InputError(
        "this folder holds no dataset",
        why=(
            "It has neither what `datasets` saves (state.json, dataset_dict.json) nor Parquet, "
            "Arrow or JSONL files."
        ),
        fix="Name the task file itself.",
        where=Location(source.name),
    )


def split_from_name(name: str) -> str:
    """Return the split of a file by its name: `train-00000-of-00002.parquet` -> `train`."""
    return re.sub(r"(-\d+-of-\d+)?(-[0-9a-f]{16})?\.(parquet|arrow|jsonl?)(\.\w+)?$", "", name)


def choose_split(splits: list[str], source: TaskSource) -> str:
    """Return the split to read: the requested one, else `train`, else the only one.

    Raises:
        InputError: The split does not exist, or there are several and none was requested.
    """
    if source.split is not None and source.split not in splits:
        raise InputError(
            f"there is no split {source.split!r}; there are {', '.join(splits)}",
            where=Location(source.name),
        )
    chosen = source.split or (
        "train" if "train" in splits else splits[0] if len(splits) == 1 else None
    )
    if chosen is None:
        raise InputError(
            f"there are several splits: {', '.join(splits)}",
            fix="Choose one with --split.",
            where=Location(source.name),
        )
    return chosen


def _saved_files(folder: Path) -> list[Path]:
    files = [
        folder / str(entry.get("filename"))
        for entry in _json_file(folder / "state.json").get("_data_files", [])
    ]
    missing = [path.name for path in files if not path.exists()]
    if missing or not files:
        raise InputError(
            f"this saved dataset lacks {', '.join(missing) or 'its data files'}",
            where=Location(str(folder)),
        )
    return files


def _json_file(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(read_text(path))
    except (InputError, ValueError, RecursionError) as error:
        raise InputError(
            "this part of a saved dataset cannot be read", why=str(error), where=Location(str(path))
        ) from None
    if not isinstance(data, dict):
        raise InputError(
            "this part of a saved dataset is not what `datasets` writes", where=Location(str(path))
        )
    return data


# -- checked tasks
# --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class TaskBatch:
    """Consecutive records of a source after their checks."""

    start: int
    """Index of the first record."""
    count: int
    """Records in this batch, the unusable ones included."""
    tasks: list[CheckedTask]
    """The usable tasks, in the order of the source."""
    rejected: list[CheckedTask]
    """The other ones."""
    problems: list[TaskProblem]
    done: int
    """Bytes of the source read so far."""
    size: int
    """Bytes of the source in all."""


def read_chunks(source: TaskSource) -> Iterator[tuple[RecordChunk | TableChunk, int, int]]:
    """Read the records of a source that is on this machine, file by file.

    Yields:
        A chunk of records, the bytes read so far, and the bytes of all files.

    Raises:
        InputError: The source as a whole cannot be read: it is missing, damaged, cut off, or
            changed while it was read.
    """
    from hudtui.core.tasks.json_records import record_chunks

    paths = source.paths()
    try:
        sizes = [path.stat().st_size for path in paths]
    except OSError as error:
        raise InputError(
            "this file cannot be read", why=error.strerror, where=Location(source.name)
        ) from None
    before, size = 0, sum(sizes)
    for path, own in zip(paths, sizes, strict=True):
        name = source.name if len(paths) == 1 else str(path)
        with SourceFile(path, name) as file:
            if file.is_table():
                for rows in table_chunks(path, name):
                    yield rows, before + own, size
                file.check_unchanged()
            else:
                text = file.text()
                for chunk in record_chunks(text, name):
                    yield chunk, before + own * chunk.end // len(text), size
        before += own


def scan(source: TaskSource, rules: Rules) -> Iterator[TaskBatch]:
    """Read and check all tasks of a source, in batches and bounded memory.

    Args:
        source: A file, a folder, or a downloaded dataset.
        rules: What to check against.

    Raises:
        InputError: The source as a whole cannot be read: it is missing, damaged, cut off, or
            changed while it was read.
    """
    from hudtui.core.tasks.validate import TaskChecker

    checker, ids, start = TaskChecker(rules), dict[str, int](), 0
    with _fewer_collections():
        try:
            for chunk, done, size in read_chunks(source):
                batch = _check_chunk(
                    chunk, checker, ids, TaskBatch(start, 0, [], [], [], done, size), source.name
                )
                yield batch
                start += batch.count
        except MemoryError:
            fix = "Split it, or read it on a larger machine."
            raise InputError(
                "there is not enough memory for this file", fix=fix, where=Location(source.name)
            ) from None


def _check_chunk(
    chunk: RecordChunk | TableChunk,
    checker: TaskChecker,
    ids: dict[str, int],
    batch: TaskBatch,
    name: str,
) -> TaskBatch:
    """Check the records of a chunk, and reject the tasks whose id an earlier task has."""
    from hudtui.core.tasks.prefilter import check_fine

    (records, lines), sound = chunk.records(), chunk.sound
    batch.count = len(records)
    fine = check_fine(records, batch.start, checker) if sound else None
    if fine is not None and _are_new(fine, ids):
        batch.tasks = fine
        return batch
    found: list[CheckedTask] = []
    for index, record in enumerate(records, batch.start):
        task = fine[index - batch.start] if fine is not None else checker.check(record, sound=sound)
        task.index = index
        if task.usable:
            task.id = task.id or f"task-{index:04d}"
            first = ids.setdefault(task.id, index)
            if first != index:
                task.add("id", f"task {first} has this id already", "duplicate-id")
        if task.problems:
            found.append(task)
        (batch.tasks if task.usable else batch.rejected).append(task)
    if found and lines is None:
        lines = chunk.lines()
    for task in found:
        line = lines[task.index - batch.start] if lines is not None else None
        identity = task.id or f"task-{task.index:04d}"
        batch.problems += [
            TaskProblem(file=name, index=task.index, id=identity, line=line, **problem._asdict())
            for problem in task.problems
        ]
    return batch


_COLLECT_AFTER = 200_000
_scans: list[tuple[int, int, int]] = []
"""For each scan in progress, the thresholds of the garbage collector before the first of them."""


@contextlib.contextmanager
def _fewer_collections() -> Iterator[None]:
    """Let the garbage collector look at new objects less often.

    A batch is tens of thousands of objects that live for a moment and hold no cycles. At the
    default threshold the collector walks over all of them several times, which takes a fifth of the
    time of a conversion.
    """
    _scans.append(_scans[0] if _scans else gc.get_threshold())
    gc.set_threshold(max(_COLLECT_AFTER, _scans[0][0]), *_scans[0][1:])
    try:
        yield
    finally:
        before = _scans.pop()
        if not _scans:
            gc.set_threshold(*before)


def _are_new(tasks: list[CheckedTask], ids: dict[str, int]) -> bool:
    """Add the ids of tasks if all of them are new; otherwise add none and return False."""
    new = {task.id: task.index for task in tasks}
    if len(new) < len(tasks) or not ids.keys().isdisjoint(new):
        return False
    ids.update(new)
    return True


# -- tasks in memory
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoadedTasks:
    """Content of a source of tasks."""

    tasks: tuple[Task, ...]
    """The usable tasks, in the order of the source."""
    problems: tuple[TaskProblem, ...]
    """All errors and warnings, in the order of the tasks. Tasks with an error are not among
    `tasks`."""
    total: int
    """Tasks in the source, the unusable ones included."""


_REMEMBERED = 10_000
"""Tasks of a file that a `TaskReader` holds at most."""


def read_tasks(
    path: Path | str,
    *,
    lookup: Lookup | None = None,
    lock_image: str | None = None,
    elsewhere: bool = False,
    platform: Platform | None = None,
    analysis: Analysis | None = None,
    own_reward: bool | None = None,
    split: str | None = None,
    folder: Path | None = None,
    token: str | None = None,
    lacking: Lacking | None = None,
) -> LoadedTasks:
    """Read and check all tasks of a source into memory.

    `scan` reads very many tasks in batches instead.

    Args:
        path: A JSON (one task or an array), JSONL, Parquet or Arrow file, compressed or not; a
            folder saved by `datasets` or with such files; or a dataset on the Hub,
            `org/name[@revision][:split]`.
        lookup: Values of variables; None: unresolved variables are not reported. Nothing is
            substituted in the tasks.
        lock_image: Image for tasks that have no `mcp_config` of their own.
        elsewhere: The tasks are played in another environment than their own: they get an empty
            `mcp_config`.
        platform: Platform whose gateway runs that image; HUD when None.
        analysis: Environment to check calls against.
        own_reward: See `Rules.own_reward`.
        split: Split of a dataset that has several; `train` when None.
        folder: Where relative paths start; the current folder when None. (`folder / path` would
            hide that a path is a Hub id.)
        token: For a private dataset on the Hub.
        lacking: See `Rules.lacking`.

    Raises:
        InputError: The source is missing, unreadable, or as a whole not what tasks can be.
        HubError: The Hub refuses or cannot be reached.
    """
    from hudtui.core.tasks.validate import Rules

    rules = Rules(
        lookup=lookup,
        lacking=lacking,
        lock_image=lock_image,
        elsewhere=elsewhere,
        platform=platform or HUD,
        analysis=analysis,
        own_reward=own_reward,
    )
    source = download(find_source(path, split=split, folder=folder), token=token)
    tasks: list[Task] = []
    problems: list[TaskProblem] = []
    total = 0
    for batch in scan(source, rules):
        tasks += map(as_task, batch.tasks)
        problems += batch.problems
        total += batch.count
    return LoadedTasks(tuple(tasks), tuple(problems), total)


class TaskReader:
    """`read_tasks`, which reads a file again only after a change.

    The file, or a variable that is named in it, has changed since.
    """

    def __init__(self) -> None:
        self._known: dict[str | None, tuple[object, dict[str, str | None], LoadedTasks]] = {}

    def __call__(
        self,
        path: str,
        *,
        folder: Path,
        lookup: Lookup,
        lock_image: str | None = None,
        platform: Platform,
        token: str | None,
    ) -> LoadedTasks:
        """Return all tasks of a source; see `read_tasks`."""
        try:
            facts = (folder / path).stat()
            key = (folder / path, facts.st_ino, facts.st_size, facts.st_mtime_ns, platform)
        except OSError:
            key = None
        known = self._known.get(lock_image)
        if (
            known is not None
            and known[0] == key
            and all(lookup(name) == value for name, value in known[1].items())
        ):
            return known[2]
        asked: dict[str, str | None] = {}

        def asking(name: str) -> str | None:
            asked[name] = lookup(name)
            return asked[name]

        found = read_tasks(
            path,
            lookup=asking,
            lock_image=lock_image,
            platform=platform,
            folder=folder,
            token=token,
        )
        self._known.pop(lock_image, None)
        if key is not None and found.total <= _REMEMBERED and (folder / path).is_file():
            self._known[lock_image] = key, asked, found
        return found


def find_task(opened: OpenedSource, wanted: str | None = None) -> Task:
    """Return one usable task of a source on this machine.

    Args:
        opened: The source.
        wanted: Id of the task; None for the first usable one.

    Raises:
        InputError: The source cannot be read, has no such task, or the task cannot be used.
    """
    broken: TaskProblem | None = None
    for batch in scan(opened.source, opened.rules):
        for checked in batch.tasks:
            if wanted in (None, checked.id):
                return as_task(checked)
        errors = (
            problem
            for problem in batch.problems
            if problem.severity == "error" and wanted in (None, problem.id)
        )
        broken = broken or next(errors, None)
    where = Location(opened.source.name)
    if broken is not None:
        what = "no task can be used" if wanted is None else f"task {wanted} cannot be used"
        raise InputError(what, why=str(broken), where=where)
    if wanted is None:
        raise InputError("there is no task", where=where)
    raise InputError(
        f"there is no task {wanted}", fix="`hudtui tasks list TASKS` lists the ids.", where=where
    )


def as_task(checked: CheckedTask) -> Task:
    """Return a usable record as a task."""
    return Task(
        checked.id,
        checked.prompt,
        checked.mcp_config,
        tool_calls(checked.setup_tool),
        tool_calls(checked.evaluate_tool),
        checked.metadata,
        checked.extra,
    )


def tool_calls(value: list[dict[str, Any]] | Mapping[str, Any] | None) -> tuple[ToolCall, ...]:
    """Return the calls of a checked `setup_tool` or `evaluate_tool`."""
    calls = value if isinstance(value, list) else [value] if value else []
    return tuple(ToolCall(call["name"], call.get("arguments") or {}) for call in calls)
