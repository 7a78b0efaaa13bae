"""Where tasks come from: a file in any dress (compressed, UTF-16, Parquet), a folder of such files, or a dataset on the Hub."""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hudtui.core.errors import InputError, Location
from hudtui.core.files import find_encoding, open_file, read_text

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped,unused-ignore]

    from hudtui.core.tasks.split import RecordChunk

BLOCK = 512 << 10
"""Bytes that are read at once: enough that what is done once a block does not count, and what is made of them stays near."""

LARGEST_FILE = 16 << 30
"""Bytes of a task file, unpacked."""

_HUB_ID = re.compile(r"(?P<repo>[A-Za-z0-9][\w.-]*/[\w.-]*[\w-])(?:@(?P<revision>[^\s:]+))?(?::(?P<split>[\w.-]+))?")
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass(frozen=True)
class TaskSource:
    """Tasks that exist somewhere; nothing has been read yet."""

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


def find_source(text: str | os.PathLike[str], *, split: str | None = None, folder: Path | None = None) -> TaskSource:
    """What a user means by a path or a dataset id: what exists on this machine first, else `org/name[@revision][:split]`.

    Raises:
        InputError: It is neither.
    """
    name = os.fspath(text)
    path = Path(name).expanduser()
    if folder is not None:
        path = folder / path
    if path.is_dir():
        return TaskSource(name, "folder", path, split=split)
    if path.exists():
        return TaskSource(name, "file", path, split=split)
    match = _HUB_ID.fullmatch(name)
    if match is None or re.search(r"\.(jsonl?|ndjson|parquet|arrow)(\.(gz|zst))?$", match["repo"]):
        raise InputError("there is no such file or folder", where=Location(name))
    return TaskSource(name, "hub", repo=match["repo"], revision=match["revision"], split=split or match["split"])


class SourceFile:
    """One file that is being read: how far, and whether it is still the same file.

    Attributes:
        size: Bytes on disk.
        done: Bytes read so far.
    """

    def __init__(self, path: Path, name: str) -> None:
        """Open the file.

        Raises:
            InputError: It cannot be opened.
        """
        self.name = name
        self._path = path
        try:
            self._stream = open_file(path)
        except InputError as error:
            raise InputError(error.what, why=error.why, fix=error.fix, where=Location(name)) from None
        self._state = _state(os.fstat(self._stream.fileno()))
        self.size = self._state[0]
        self.done = 0

    def __enter__(self) -> SourceFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def head(self, count: int) -> bytes:
        """The first bytes, which stay unread."""
        data = self._stream.read(count)
        self._stream.seek(0)
        return data

    def check_unchanged(self) -> None:
        """Raise when the file is no longer what it was when it was opened.

        Raises:
            InputError: It was written to, replaced or removed in the meantime.
        """
        try:
            same = self._state == _state(os.fstat(self._stream.fileno())) == _state(self._path.stat())
        except OSError:
            same = False
        if not same:
            raise InputError(
                "this file changed while it was read", fix="Run the command again when it is written.", where=Location(self.name)
            )

    def blocks(self) -> Iterator[bytes]:
        """The text of the file as UTF-8, unpacked and without a byte order mark, in blocks of about `BLOCK` bytes.

        Raises:
            InputError: The file is cut off, damaged, or not text in the encoding that its mark promises.
        """
        blocks = self._unpacked()
        first = next(blocks, b"")
        mark, encoding = find_encoding(first)
        if mark:
            first = first[len(mark) :]
        elif len(first) > 1 and first[1] == 0 and first[0] in b"[{ \r\n\t":
            encoding = "utf-16-le"
        elif len(first) > 1 and first[0] == 0 and first[1] in b"[{ \r\n\t":
            encoding = "utf-16-be"
        if encoding == "utf-8":
            yield first
            yield from blocks
            return
        assert encoding is not None
        decoder = codecs.getincrementaldecoder(encoding)()
        try:
            yield decoder.decode(first).encode()
            for block in blocks:
                yield decoder.decode(block).encode()
            yield decoder.decode(b"", final=True).encode()
        except UnicodeError as error:
            reason = getattr(error, "reason", str(error))
            raise InputError(f"this is not {encoding.upper()} text", why=reason, where=Location(self.name)) from None

    def _unpacked(self) -> Iterator[bytes]:
        size = 0
        for block in self._read():
            size += len(block)
            if size > LARGEST_FILE:
                raise InputError(
                    f"this file holds more than {LARGEST_FILE >> 30} GiB of text", fix="Split it.", where=Location(self.name)
                )
            yield block

    def _read(self) -> Iterator[bytes]:
        packing = next((packing for mark, packing in _PACKED.items() if self.head(4).startswith(mark)), None)
        try:
            if packing is None:
                while block := self._stream.read(BLOCK):
                    self.done += len(block)
                    yield block
            else:
                import pyarrow as pa

                # A second handle: the stream closes what it reads from.
                raw = os.fdopen(os.dup(self._stream.fileno()), "rb")
                raw.seek(0)
                with pa.CompressedInputStream(pa.PythonFile(raw, "r"), packing) as unpacked:
                    while block := unpacked.read(BLOCK):
                        self.done = raw.tell()
                        yield block
        except OSError as error:
            if packing is None or error.errno is not None:
                raise InputError(
                    "this file cannot be read", why=error.strerror or str(error), where=Location(self.name)
                ) from None
            what = "cut off" if "Truncated" in str(error) else "damaged"
            raise InputError(
                f"this compressed file is {what}", fix="Copy or download it again.", where=Location(self.name)
            ) from None
        self.check_unchanged()


def _state(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ino


def record_chunks(reading: SourceFile, parse: Callable[[bytes], Any] | None = None) -> Iterator[RecordChunk]:
    """The records of a JSON or JSONL file.

    Args:
        reading: The file.
        parse: See `split.split_array`.

    Raises:
        InputError: As a whole it is neither.
    """
    import msgspec

    from hudtui.core.tasks.split import RecordChunk, split_array, split_lines

    blocks = _without_blank_start(reading.blocks())
    first = next(blocks, b"")
    start = first.lstrip()
    if not start:
        raise InputError("this file is empty", where=Location(reading.name))
    if start[:1] == b"[":
        yield from split_array(_chain(first, blocks), reading.name, *([parse] if parse is not None else []))
        return
    if start[:1] != b"{":
        raise InputError(
            "this is neither a task, nor an array of tasks, nor JSON lines",
            why=f"It begins with {start[:20].decode(errors='replace')!r}.",
            where=Location(reading.name, 1),
        )
    lines = re.search(r"\.(jsonl|ndjson|jsonlines)(\.\w+)?$", reading.name) is not None
    if not lines:
        line, end, _ = start.partition(b"\n")
        try:
            msgspec.json.format(line)
            lines = bool(end)
        except (msgspec.DecodeError, RecursionError):
            pass
    if lines:
        yield from split_lines(_chain(first, blocks), reading.name)
        return
    yield _document(_chain(first, blocks), reading.name, RecordChunk)


def _document(blocks: Iterator[bytes], name: str, chunk: type[RecordChunk]) -> RecordChunk:
    """A file that is one task over many lines."""
    import msgspec

    from hudtui.core.files import decode, parse_json
    from hudtui.core.tasks.split import LARGEST_RECORD

    data = b""
    for block in blocks:
        data += block
        if len(data) > LARGEST_RECORD:
            raise InputError(
                f"this is one JSON document of more than {LARGEST_RECORD >> 20} MB, which no task is",
                fix="Write tasks as an array or as JSON lines.",
                where=Location(name),
            )
    before = len(data) - len(data.lstrip())
    try:
        msgspec.json.format(data)
    except RecursionError:
        raise InputError("this JSON is nested too deeply", where=Location(name)) from None
    except msgspec.DecodeError as error:
        parse_json(decode(data, name), name)  # says where
        raise InputError("this is not valid JSON", why=str(error), where=Location(name)) from None
    return chunk("array", data.strip(), 1 + data.count(b"\n", 0, before), last=True)


def _without_blank_start(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks, the first of them with something in it. Blank lines before it are kept: they count."""
    blank = b""
    for block in blocks:
        if not blank and not block:
            continue
        blank += block
        if blank.strip():
            yield blank
            break
        if len(blank) > 64 << 20:
            return
    yield from blocks


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def is_arrow(head: bytes) -> bool:
    """Whether a file that begins so is Parquet or an Arrow file, and not text."""
    return head.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"))


def arrow_batches(paths: list[Path], name: str, passed: Callable[[int], None]) -> Iterator[pyarrow.RecordBatch]:
    """The rows of Parquet and Arrow files, a few thousand at a time.

    Args:
        paths: The files, in order.
        name: What to call them in errors.
        passed: Told the bytes of each file when it is done.

    Raises:
        InputError: One of them is damaged or not readable.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]

    for path in paths:
        place = Location(name if len(paths) == 1 else str(path))
        try:
            with SourceFile(path, str(path)) as reading:
                head = reading.head(8)
            if head.startswith(b"PAR1"):
                with pq.ParquetFile(path) as file:
                    for batch in file.iter_batches(batch_size=4096):
                        _check(batch)
                        yield batch
            else:
                with pa.memory_map(str(path)) as mapped:
                    for batch in _ipc_batches(mapped, stream=not head.startswith(b"ARROW1")):
                        _check(batch)
                        yield from (batch.slice(start, 4096) for start in range(0, batch.num_rows, 4096))
        except (pa.ArrowException, OSError, UnicodeError) as error:
            from hudtui.core.text import clean_line

            raise InputError("this file is damaged or cut off", why=clean_line(str(error), 300), where=place) from None
        passed(path.stat().st_size)


def _check(batch: pyarrow.RecordBatch) -> None:
    """Refuse rows that cannot be read: what a file says of where values begin and end would lead outside of the memory.

    Raises:
        pyarrow.ArrowException: An offset leads outside, a text is not UTF-8, or an object has two fields of one name.
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
        left += [[kind.field(number) for number in range(kind.num_fields)] for kind in kinds if kind.num_fields]


def _ipc_batches(mapped: pyarrow.MemoryMappedFile, *, stream: bool) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa

    if stream:
        yield from pa.ipc.open_stream(mapped)
        return
    opened = pa.ipc.open_file(mapped)
    for number in range(opened.num_record_batches):
        yield opened.get_batch(number)


def folder_files(source: TaskSource) -> tuple[list[Path], str | None]:
    """The files of a folder that hold its tasks, and the split they belong to.

    A folder is what `datasets` saves (`save_to_disk`, one split or several), or holds Parquet, Arrow or JSONL files, itself or
    in `data/`, the split at the beginning of their names.

    Raises:
        InputError: There are none, or none of that split.
    """
    folder = source.path
    assert folder is not None
    several = folder / "dataset_dict.json"
    if several.exists():
        splits = [str(name) for name in _json_file(several).get("splits", [])]
        split = choose_split(splits, source)
        return _saved_files(folder / split), split
    if (folder / "state.json").exists():
        return _saved_files(folder), source.split
    for place in (folder, folder / "data"):
        for suffixes in ((".parquet",), (".arrow",), (".jsonl", ".jsonl.gz", ".jsonl.zst")):
            files = sorted(path for path in place.glob("*") if path.is_file() and path.name.endswith(suffixes))
            if files:
                names = {path: split_from_name(path.name) for path in files}
                splits = list(dict.fromkeys(names.values()))
                if source.split is None and len(splits) > 1 and suffixes[0] == ".jsonl":
                    continue  # unrelated task files in a project folder
                split = choose_split(splits, source)
                return [path for path in files if names[path] == split], split
    raise InputError(
        "this folder holds no dataset",
        why="It has neither what `datasets` saves (state.json, dataset_dict.json) nor Parquet, Arrow or JSONL files.",
        fix="Name the task file itself.",
        where=Location(source.name),
    )


def split_from_name(name: str) -> str:
    """The split a file belongs to by its name: `train-00000-of-00002.parquet` -> `train`."""
    return re.sub(r"(-\d+-of-\d+)?(-[0-9a-f]{16})?\.(parquet|arrow|jsonl?)(\.\w+)?$", "", name)


def choose_split(splits: list[str], source: TaskSource) -> str:
    """The split to read: the one asked for, else `train`, else the only one.

    Raises:
        InputError: It does not exist, or there are several and none was asked for.
    """
    if source.split is not None and source.split not in splits:
        raise InputError(f"there is no split {source.split!r}; there are {', '.join(splits)}", where=Location(source.name))
    chosen = source.split or ("train" if "train" in splits else splits[0] if len(splits) == 1 else None)
    if chosen is None:
        raise InputError(
            f"there are several splits: {', '.join(splits)}", fix="Say which with --split.", where=Location(source.name)
        )
    return chosen


def _saved_files(folder: Path) -> list[Path]:
    files = [folder / str(entry.get("filename")) for entry in _json_file(folder / "state.json").get("_data_files", [])]
    missing = [path.name for path in files if not path.exists()]
    if missing or not files:
        raise InputError(f"this saved dataset lacks {', '.join(missing) or 'its data files'}", where=Location(str(folder)))
    return files


def _json_file(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(read_text(path))
    except (InputError, ValueError, RecursionError) as error:
        raise InputError("this part of a saved dataset cannot be read", why=str(error), where=Location(str(path))) from None
    if not isinstance(data, dict):
        raise InputError("this part of a saved dataset is not what `datasets` writes", where=Location(str(path)))
    return data
