"""All tasks of a source, indexed while they are checked: what a table of a million rows needs, in little memory.

What every row shows lies in compact arrays. The tasks themselves are packed, a batch at a time, into a temporary file, and come
back when one is looked at or searched. One thread adds; others may read at any time.

Imports msgspec: import this module late.
"""

from __future__ import annotations

import json
import re
import tempfile
import weakref
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from threading import Lock
from typing import Any, Literal

import msgspec

from hudtui.core.errors import InputError, Location
from hudtui.core.tasks.problems import Severity, TaskProblem
from hudtui.core.tasks.scan import TaskBatch

State = Literal["ok", "warning", "error"]
STATES: tuple[State, ...] = ("ok", "warning", "error")

HEAD = 120
"""Characters of a prompt (of the first problem, where the task is unusable) that are kept for the table."""

_IN_MEMORY = 64 << 20
_KEPT_BATCHES = 6
_CATEGORY_FIELDS = ("category", "categories", "type", "domain", "topic", "game", "difficulty", "level", "split")
_MOST_FIELDS, _MOST_VALUES = 24, 200
_REMEMBERED = 20_000
_FUNCTION = re.compile(r"[A-Za-z_][\w.-]{0,63}")


class _Arguments(msgspec.Struct, gc=False):
    name: Any = None


class _Call(msgspec.Struct, gc=False):
    name: str = ""
    arguments: _Arguments | None = None


_CALLS = msgspec.json.Decoder(list[_Call | list[_Call]])
_OBJECTS = msgspec.json.Decoder(list[dict[str, Any]])
_pack = msgspec.msgpack.Encoder().encode
_TEXTS = msgspec.msgpack.Decoder(tuple[list[str], list[str]])
_COLUMNS = msgspec.msgpack.Decoder(dict[str, list[bytes | None]])


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task as the table shows it."""

    index: int
    """Position in the source, counting from 0."""
    id: str
    state: State
    head: str
    """The beginning of the prompt; of the first problem where the task is unusable."""
    length: int
    """Characters of the whole prompt."""
    servers: str
    evaluator: str
    category: str


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A usable task as it was read."""

    id: str
    prompt: str
    columns: dict[str, Any]
    """Data by field: `mcp_config`, `setup_tool`, `evaluate_tool`, `metadata` first, then the kept ones."""


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """Problems that say the same."""

    severity: Severity
    code: str
    field: str | None
    message: str


class NameColumn:
    """A column of names that repeat: a number a row, each name held once."""

    def __init__(self) -> None:
        self.codes = array("I")
        self.names: list[str] = [""]
        self._known: dict[str, int] = {"": 0}

    def code(self, name: str) -> int:
        """The number of a name."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = len(self.names)
            self.names.append(name)
        return found

    def counts(self) -> list[tuple[str, int]]:
        """How often each name occurs, the most frequent first."""
        import numpy as np

        times = np.bincount(np.frombuffer(self.codes.tobytes(), np.uint32), minlength=len(self.names))
        found = [(self.names[code], int(count)) for code, count in enumerate(times) if count and code < len(self.names)]
        return sorted(found, key=lambda item: (-item[1], item[0]))


class ProblemTable:
    """Every problem of a source: three numbers each, and each sentence once."""

    def __init__(self) -> None:
        self.kinds: list[ProblemKind] = []
        self.tasks = array("I")
        self._which = array("I")
        self._lines = array("I")
        self._known: dict[ProblemKind, int] = {}
        self.counts: Counter[tuple[Severity, str]] = Counter()
        """Problems by severity and code."""

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, problems: Iterable[TaskProblem]) -> None:
        """Take in the problems of a batch."""
        for problem in sorted(problems, key=lambda one: one.index):
            kind = ProblemKind(problem.severity, problem.code, problem.field, problem.message)
            number = self._known.get(kind)
            if number is None:
                number = self._known[kind] = len(self.kinds)
                self.kinds.append(kind)
            self.counts[kind.severity, kind.code] += 1
            self.tasks.append(problem.index)
            self._which.append(number)
            self._lines.append(problem.line or 0)  # last: its length is what readers go by

    def kind(self, number: int) -> ProblemKind:
        """What the problem with this number says."""
        return self.kinds[self._which[number]]

    def line(self, number: int) -> int | None:
        """Line of the task that has it, where the source has lines."""
        return self._lines[number] or None

    def of(self, task: int) -> range:
        """Numbers of a task's problems."""
        end = len(self)
        return range(bisect_left(self.tasks, task, 0, end), bisect_right(self.tasks, task, 0, end))

    def where(self, test: Callable[[ProblemKind], bool], start: int = 0) -> Iterator[int]:
        """Numbers of the problems of some kinds, from number `start` on."""
        chosen = {number for number, kind in enumerate(self.kinds) if test(kind)}
        which = self._which
        return (number for number in range(start, len(self)) if which[number] in chosen)


@dataclass(slots=True)
class _Block:
    """One batch."""

    start: int
    count: int
    heads: bytes
    """Id and beginning of the prompt of each row, one behind the other."""
    ends: array[int]
    places: Sequence[int]
    texts: tuple[int, int, int]
    columns: tuple[int, int, int]


class _Spool:
    """Packed batches in memory, and on disk when they get many."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        weakref.finalize(self, self._file.close)  # also when nobody calls `close`
        self._lock = Lock()
        self._end = 0

    def put(self, data: bytes, *, squeeze: bool) -> tuple[int, int, int]:
        size = 0
        if squeeze:
            import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

            size, data = len(data), pa.compress(data, codec="lz4", asbytes=True)
        with self._lock:
            place = self._end
            try:
                self._file.seek(place)
                self._file.write(data)
            except OSError as error:
                raise InputError(
                    "there is no room for the tasks in the folder for temporary files",
                    why=error.strerror or str(error),
                    fix="Make room there, or set TMPDIR to another folder.",
                    where=Location(tempfile.gettempdir()),
                ) from None
            self._end += len(data)
        return place, len(data), size

    def get(self, spot: tuple[int, int, int]) -> bytes:
        place, length, size = spot
        with self._lock:
            self._file.seek(place)
            data = self._file.read(length)
        if size:
            import pyarrow as pa

            data = pa.decompress(data, decompressed_size=size, codec="lz4", asbytes=True)
        return data

    def close(self) -> None:
        with self._lock:
            self._file.close()


class TaskIndex:
    """The tasks of a source as far as they have been read.

    Attributes:
        total: Tasks read so far.
        counts: How many of them are `ok`, have a `warning`, or an `error` (and cannot be used).
        done: Bytes of the source read so far.
        size: Bytes of the source in all.
        states: Of each task, its position in `STATES`.
        lengths: Of each task, the characters of its prompt.
        category_field: Field of the metadata that the column of categories shows; None while no task has one.
        extras: Fields beside those of the dataset format, in the order of their appearance.
        noticed: Tasks by what `rewrite` noticed in their `mcp_config`.
        inferred: Tasks whose `mcp_config` comes from the lock file's image.
        elsewhere: Tasks whose calls were not checked, because the analysed environment is another one, by what they run on.
    """

    def __init__(self) -> None:
        self.total = 0
        self.counts: dict[State, int] = dict.fromkeys(STATES, 0)
        self.done = self.size = 0
        self.states = bytearray()
        self.lengths = array("I")
        self.servers, self.evaluators, self.setups, self.categories = NameColumn(), NameColumn(), NameColumn(), NameColumn()
        self._unusable = {"servers": NameColumn(), "evaluator": NameColumn()}
        """Servers and evaluators of tasks that cannot be used: shown, and counted nowhere."""
        self.longest_id = 0
        """Characters of the longest id."""
        self.problems = ProblemTable()
        self.metadata: dict[str, Counter[str]] = {}
        """Field of the metadata -> how often it has each value; only fields with few values."""
        self.crowded: set[str] = set()
        """Fields of the metadata with too many values to count."""
        self.category_field: str | None = None
        self.extras: dict[str, None] = {}
        self.noticed: Counter[str] = Counter()
        self.inferred = 0
        self.elsewhere: Counter[str] = Counter()
        self._blocks: list[_Block] = []
        self._starts: list[int] = []
        self._spool = _Spool()
        self._texts: OrderedDict[int, tuple[list[str], list[str]]] = OrderedDict()
        self._columns: OrderedDict[int, dict[str, list[bytes | None]]] = OrderedDict()
        self._server_names: dict[bytes | None, int] = {}
        self._call_names: dict[str, dict[bytes | None, int]] = {"setup_tool": {}, "evaluate_tool": {}}

    def close(self) -> None:
        """Let go of the temporary file. Nothing can be read afterwards."""
        self._spool.close()

    # -- adding ------------------------------------------------------------------------------------------------------

    def add(self, batch: TaskBatch) -> None:
        """Take in the next batch of the source.

        Raises:
            InputError: There is no room for it on disk.
        """
        count, start = batch.count, batch.start
        whole = len(batch.ids) == count
        usable = [place - start for place in batch.places] if not whole else range(count)
        states = bytearray(count) if whole else bytearray(b"\x02") * count
        if not whole:
            for place in usable:
                states[place] = 0
        broken: dict[int, TaskProblem] = {}
        for problem in batch.problems:
            place = problem.index - start
            if states[place] == 0:
                states[place] = 1
            elif states[place] == 2 and problem.severity == "error":
                broken.setdefault(place, problem)
        heads, ends = self._heads(batch, usable, count, broken)
        squeeze = bool(self._blocks)  # the first rows should not wait for the import of what packs them
        block = _Block(
            start,
            count,
            heads,
            ends,
            usable,
            self._spool.put(_pack((batch.ids, batch.prompts)), squeeze=squeeze),
            self._spool.put(_pack(batch.columns), squeeze=squeeze),
        )
        self._spread(self.lengths, count, usable, list(map(len, batch.prompts)))
        self._name_servers(batch, usable)
        self._name_calls(batch, usable, "evaluate_tool", self.evaluators)
        self._name_calls(batch, usable, "setup_tool", self.setups)
        self._name_unusable(batch)
        self.longest_id = max(self.longest_id, max(map(len, batch.ids), default=0))
        self._read_metadata(batch, usable)
        for name in batch.columns:
            if name not in ("mcp_config", "setup_tool", "evaluate_tool", "metadata"):
                self.extras.setdefault(name)
        self.problems.add(batch.problems)
        self.states += states
        for place, state in enumerate(STATES):
            self.counts[state] += states.count(place)
        self.noticed.update(batch.rewritten)
        self.inferred += batch.inferred
        self.elsewhere.update(batch.elsewhere)
        self.done, self.size = batch.done, batch.size
        self._blocks.append(block)
        self._starts.append(start)
        self.total = start + count  # last: what is below it can be read

    @staticmethod
    def _heads(batch: TaskBatch, usable: Sequence[int], count: int, broken: dict[int, TaskProblem]) -> tuple[bytes, array[int]]:
        texts = [
            f"{name}\x1f{prompt[:HEAD]}".encode("utf-8", "replace") for name, prompt in zip(batch.ids, batch.prompts, strict=True)
        ]
        if len(usable) < count:
            rows: list[bytes] = [b"\x1f"] * count
            for place, text in zip(usable, texts, strict=True):
                rows[place] = text
            for place, problem in broken.items():
                said = f"{problem.field}: {problem.message}" if problem.field else problem.message
                rows[place] = f"{problem.id or ''}\x1f{said[:HEAD]}".encode("utf-8", "replace")
            texts = rows
        return b"".join(texts), array("I", accumulate(map(len, texts)))

    @staticmethod
    def _spread(column: array[int], count: int, usable: Sequence[int], values: list[int]) -> None:
        """Put the values of the usable rows behind a column, and 0 for the others."""
        if len(values) < count:
            spread = [0] * count
            for place, value in zip(usable, values, strict=True):
                spread[place] = value
            values = spread
        column.extend(values)

    def _name_servers(self, batch: TaskBatch, usable: Sequence[int]) -> None:
        known, column = self._server_names, batch.columns.get("mcp_config", [])
        if len(known) > _REMEMBERED:
            known.clear()
        for text in set(column).difference(known):
            known[text] = self.servers.code(", ".join(json.loads(text)) if text else "")
        self._spread(self.servers.codes, batch.count, usable, [known[text] for text in column])

    def _name_unusable(self, batch: TaskBatch) -> None:
        for column, which in zip(self._unusable.values(), (1, 2), strict=True):
            codes = [0] * batch.count
            for entry in batch.names:
                codes[entry[0] - batch.start] = column.code(str(entry[which]))
            column.codes.extend(codes)

    def _name_calls(self, batch: TaskBatch, usable: Sequence[int], name: str, names: NameColumn) -> None:
        known, column = self._call_names[name], batch.columns.get(name, [])
        if len(known) > _REMEMBERED:
            known.clear()
        fresh = [text for text in set(column).difference(known) if text and text != b"{}"]
        known[None] = known[b"{}"] = 0
        for text, calls in zip(fresh, _CALLS.decode(b"[%b]" % b",".join(fresh)), strict=True):
            known[text] = names.code(", ".join(dict.fromkeys(map(_call_name, calls if isinstance(calls, list) else [calls]))))
        self._spread(names.codes, batch.count, usable, [known[text] for text in column])

    def _read_metadata(self, batch: TaskBatch, usable: Sequence[int]) -> None:
        column = batch.columns.get("metadata", [])
        values = [0] * len(column)
        times = Counter(column)
        texts = [text for text in times if text and text != b"{}"]
        codes: dict[bytes | None, int] = {}
        for text, data in zip(texts, _OBJECTS.decode(b"[%b]" % b",".join(texts)), strict=True):
            if self.category_field is None:
                self.category_field = next((name for name in _CATEGORY_FIELDS if _plain(data.get(name)) is not None), None)
            self._count_metadata(data, times[text])
            if self.category_field is not None and (value := _plain(data.get(self.category_field))) is not None:
                codes[text] = self.categories.code(value)
        if codes:
            values = [codes.get(text, 0) for text in column]
        self._spread(self.categories.codes, batch.count, usable, values)

    def _count_metadata(self, data: dict[str, Any], times: int) -> None:
        for name, value in data.items():
            if name in self.crowded:
                continue
            counter = self.metadata.get(name)
            if counter is None:
                if len(self.metadata) >= _MOST_FIELDS:
                    continue
                counter = self.metadata[name] = Counter()
            if (plain := _plain(value)) is not None:
                counter[plain] += times
                if len(counter) > _MOST_VALUES:
                    self.crowded.add(name)
                    del self.metadata[name]

    # -- reading -----------------------------------------------------------------------------------------------------

    def row(self, index: int) -> TaskRow:
        """A task as the table shows it."""
        block = self._blocks[bisect_right(self._starts, index) - 1]
        place = index - block.start
        text = block.heads[block.ends[place - 1] if place else 0 : block.ends[place]].decode("utf-8", "replace")
        name, _, head = text.partition("\x1f")
        servers, evaluators = self._unusable.values() if self.states[index] == 2 else (self.servers, self.evaluators)
        return TaskRow(
            index,
            name or f"task-{index:04d}",
            STATES[self.states[index]],
            head,
            self.lengths[index],
            servers.names[servers.codes[index]],
            evaluators.names[evaluators.codes[index]],
            self.categories.names[self.categories.codes[index]],
        )

    def record(self, index: int) -> TaskRecord | None:
        """A task in full; None where it is unusable (`record_at` reads what stands in the source)."""
        if self.states[index] == 2:
            return None
        number = bisect_right(self._starts, index) - 1
        block = self._blocks[number]
        place = bisect_left(block.places, index - block.start)
        ids, prompts = self._block_texts(number)
        columns = self._remembered(self._columns, number, lambda: _COLUMNS.decode(self._spool.get(block.columns)))
        data = {name: json.loads(text) for name, column in columns.items() if (text := column[place]) is not None}
        return TaskRecord(ids[place], prompts[place], data)

    def block_of(self, index: int) -> tuple[int, int]:
        """Number of the batch that a task is in, and its position there."""
        number = bisect_right(self._starts, index) - 1
        return number, index - self._starts[number]

    def place_of(self, index: int) -> int | None:
        """Line of a task in its file; None where it has no problem or the source has no lines."""
        return next((line for number in self.problems.of(index) if (line := self.problems.line(number))), None)

    def _block_texts(self, number: int, *, keep: bool = True) -> tuple[list[str], list[str]]:
        spot = self._blocks[number].texts
        if not keep:
            return self._texts.get(number) or _TEXTS.decode(self._spool.get(spot))
        found: tuple[list[str], list[str]] = self._remembered(self._texts, number, lambda: _TEXTS.decode(self._spool.get(spot)))
        return found

    @staticmethod
    def _remembered(cache: OrderedDict[int, Any], number: int, read: Callable[[], Any]) -> Any:
        found = cache.get(number)
        if found is None:
            found = cache[number] = read()
            while len(cache) > _KEPT_BATCHES:
                cache.popitem(last=False)
        return found

    # -- choosing ----------------------------------------------------------------------------------------------------

    def matching(self, want: TaskFilter, start: int = 0) -> Iterator[tuple[array[int], int]]:
        """The tasks that fit, from index `start` on: those of a batch at a time, with the index up to which it was looked."""
        word = want.word.casefold().strip()
        coded: frozenset[int] = frozenset()
        if want.code is not None:
            severity, code = want.code
            found = self.problems.where(lambda kind: kind.severity == severity and kind.code == code)
            coded = frozenset(self.problems.tasks[number] for number in found)
        searched = (self.servers, self.evaluators, self.categories, *self._unusable.values())
        columns = [(names.codes, _holding(names, word)) for names in searched]
        total = self.total
        number = max(bisect_right(self._starts, start) - 1, 0)
        while number < len(self._blocks) and (block := self._blocks[number]).start < total:
            first, last = max(block.start, start), block.start + block.count
            rows: Sequence[int] = range(first, last)
            if want.states is not None:
                rows = [row for row in rows if self.states[row] in want.states]
            if want.code is not None:
                rows = [row for row in rows if row in coded]
            if word and rows:
                holding = self._holding(number, word)
                rows = [row for row in rows if row in holding or any(codes[row] in some for codes, some in columns if some)]
            yield array("I", rows), last
            number += 1

    def _holding(self, number: int, word: str) -> set[int]:
        """The rows of a batch whose id or prompt (or problem, where it is unusable) holds a word."""
        block = self._blocks[number]
        ids, prompts = self._block_texts(number, keep=False)
        found = {
            block.start + place
            for place, name, prompt in zip(block.places, ids, prompts, strict=True)
            if word in prompt.casefold() or word in name.casefold()
        }
        if len(ids) < block.count:
            for row in range(block.start, block.start + block.count):
                if self.states[row] == 2:
                    shown = self.row(row)
                    if word in shown.id.casefold() or word in shown.head.casefold():
                        found.add(row)
        return found

    def arranged(self, rows: Sequence[int], key: str, *, reverse: bool = False) -> array[int]:
        """Rows in another order. Equal ones stay in the order of the source.

        Args:
            rows: Indexes, in the order of the source.
            key: `task` (the order of the source), `id`, `state`, `prompt` (its length), `servers`, `evaluator` or `category`.
            reverse: The other way round.
        """
        import numpy as np

        order = np.asarray(array("I", rows), np.uint32)
        if key == "id":
            ids = self._ids(rows)
            places = sorted(range(len(ids)), key=ids.__getitem__, reverse=reverse)
            return array("I", [rows[place] for place in places])
        if key == "task":
            order = order[::-1] if reverse else order
        else:
            values = self._sortable(key)[order]
            values = -values if reverse else values
            order = order[np.argsort(values, kind="stable")]
        made = array("I")
        made.frombytes(np.ascontiguousarray(order, np.uint32).tobytes())
        return made

    def _ids(self, rows: Sequence[int]) -> list[bytes]:
        """The ids of rows, as UTF-8: those sort as the texts do."""
        made: list[bytes] = []
        start = end = 0
        heads, ends = b"", array("I")
        for row in rows:
            if not start <= row < end:
                block = self._blocks[bisect_right(self._starts, row) - 1]
                start, end, heads, ends = block.start, block.start + block.count, block.heads, block.ends
            first = ends[row - start - 1] if row > start else 0
            made.append(heads[first : heads.index(b"\x1f", first)] or f"task-{row:04d}".encode())
        return made

    def _sortable(self, key: str) -> Any:
        import numpy as np

        if key == "state":
            return np.frombuffer(bytes(self.states), np.uint8).astype(np.int64)
        if key == "prompt":
            return np.frombuffer(self.lengths.tobytes(), np.uint32).astype(np.int64)
        names = {"servers": self.servers, "evaluator": self.evaluators, "category": self.categories}[key]
        codes = np.frombuffer(names.codes.tobytes(), np.uint32).astype(np.int64)
        known = list(names.names)
        if (others := self._unusable.get(key)) is not None:
            broken = np.frombuffer(bytes(self.states), np.uint8)[: len(codes)] == 2
            codes[broken] = np.frombuffer(others.codes.tobytes(), np.uint32)[: len(codes)][broken].astype(np.int64) + len(known)
            known += others.names
        ranks = {name: rank for rank, name in enumerate(sorted(set(known)))}
        return np.array([ranks[name] for name in known], np.int64)[codes]


@dataclass(frozen=True)
class TaskFilter:
    """Which tasks are wanted."""

    word: str = ""
    """Held by id, prompt, name of a server, evaluator or category, in whatever case; empty: any."""
    states: frozenset[int] | None = None
    """Positions in `STATES`; None: any."""
    code: tuple[Severity, str] | None = field(default=None)
    """With a problem of this severity and code; None: any."""

    @property
    def everything(self) -> bool:
        """Whether every task fits."""
        return not self.word.strip() and self.states is None and self.code is None


def _holding(names: NameColumn, word: str) -> frozenset[int]:
    if not word:
        return frozenset()
    return frozenset(code for code, name in enumerate(names.names) if word in name.casefold())


def _call_name(call: _Call) -> str:
    function = call.arguments.name if call.arguments is not None else None
    return f"{call.name}/{function}" if isinstance(function, str) and _FUNCTION.fullmatch(function) else call.name


def _plain(value: Any) -> str | None:
    """A value of metadata that can be counted, as text."""
    if isinstance(value, str):
        return value[:80]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)[:80]
    return None
