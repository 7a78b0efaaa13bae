"""The table of a source's tasks: rows, search, sorting and statistics.

A task is kept as a row and as JSON text. One thread adds tasks, and other threads may read at any
time.

Imports msgspec: import this module late.
"""

from __future__ import annotations

import contextlib
import re
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from math import ceil, floor
from threading import Event
from typing import Any, Literal, NamedTuple, cast

import msgspec

from hudtui.core.events import Progress
from hudtui.core.row_filter import Fields, parse_filter
from hudtui.core.tasks.json_records import decode_json
from hudtui.core.tasks.read import (
    OpenedSource,
    TableChunk,
    TaskBatch,
    TaskSource,
    read_chunks,
    scan,
    tool_calls,
)
from hudtui.core.tasks.task import Severity, Task, TaskProblem
from hudtui.core.tasks.validate import TASK_FIELDS as COLUMNS
from hudtui.core.tasks.validate import CheckedTask
from hudtui.core.text import CHARS_PER_TOKEN

State = Literal["ok", "warning", "error"]
STATES: tuple[State, ...] = ("ok", "warning", "error")

_STATE_NUMBERS = {state: number for number, state in enumerate(STATES)}
HEAD = 120
"""Characters of a prompt (of the first problem, where the task is unusable) that the table
shows."""
LISTED_VALUES = 12
"""Values of a field that the statistics list; the others are summed up."""

_CATEGORY_FIELDS = (
    "category",
    "categories",
    "type",
    "domain",
    "topic",
    "game",
    "difficulty",
    "level",
    "split",
)
_MOST_FIELDS, _MOST_VALUES = 24, 200
_FUNCTION = re.compile(r"[A-Za-z_][\w.-]{0,63}")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")


class TaskRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A task as the table shows it."""

    index: int
    """Position in the source, counting from 0."""
    id: str
    state: State
    head: str
    """The beginning of the prompt; empty where an unusable task has none."""
    length: int
    """Characters of the whole prompt; 0 where the task is unusable."""
    servers: str
    evaluator: str
    setup: str
    category: str
    problem: str = ""
    """Code of the first error of an unusable task."""


class _Text(msgspec.Struct, array_like=True, gc=False):
    """The part of a stored task that is searched."""

    id: str
    prompt: str


class _Stored(_Text, array_like=True, gc=False):
    columns: dict[str, Any]


_pack = msgspec.json.Encoder().encode  # JSON has whole numbers of any size
_unpack_text = msgspec.json.Decoder(_Text).decode
_unpack = msgspec.json.Decoder(_Stored).decode


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A usable task as it was read."""

    id: str
    prompt: str
    columns: dict[str, Any]
    """Data by field: `mcp_config`, `setup_tool`, `evaluate_tool`, `metadata` first, then the kept
    fields."""

    def task(self) -> Task:
        """Return the task, to be played."""
        data = self.columns
        calls = tool_calls(data.get("setup_tool")), tool_calls(data.get("evaluate_tool"))
        extra = {name: value for name, value in data.items() if name not in COLUMNS}
        servers, metadata = data.get("mcp_config") or {}, data.get("metadata") or {}
        return Task(self.id, self.prompt, servers, *calls, metadata, extra)


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """Problems with the same text."""

    severity: Severity
    code: str
    field: str | None
    message: str


class ProblemTable:
    """The problems of a source: three numbers each, and each text once."""

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
        """Add the problems of a batch."""
        for problem in problems:
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
        """Return the kind of the problem with this number."""
        return self.kinds[self._which[number]]

    def line(self, number: int) -> int | None:
        """Return the line of the task with this problem, if the source has lines."""
        return self._lines[number] or None

    def of(self, task: int) -> range:
        """Return the numbers of a task's problems."""
        end = len(self)
        return range(bisect_left(self.tasks, task, 0, end), bisect_right(self.tasks, task, 0, end))

    def tasks_with(self, severity: str, code: str) -> set[int]:
        """Return the indexes of the tasks that have a problem with this severity and code."""
        kinds = {
            number
            for number, kind in enumerate(self.kinds)
            if (kind.severity, kind.code) == (severity, code)
        }
        return {self.tasks[number] for number in range(len(self)) if self._which[number] in kinds}


class TaskText(NamedTuple):
    """A task as it is searched."""

    row: TaskRow
    prompt: str
    """The whole prompt; of a task that cannot be used, its beginning."""


TASK_FIELDS: Fields[TaskText] = {
    "task": lambda task: task.row.index,
    "id": lambda task: task.row.id,
    "state": lambda task: task.row.state,
    "prompt": lambda task: task.prompt,
    "servers": lambda task: task.row.servers or None,
    "evaluator": lambda task: task.row.evaluator or None,
    "category": lambda task: task.row.category or None,
    "problem": lambda task: task.row.problem or None,
}
"""Names that a filter of tasks can use."""


_LITERAL = re.compile(r"\w[\w/@,-]*")
"""A word that stands for itself as a regular expression."""


def test_of(text: str) -> Callable[[TaskText], bool] | None:
    """Return the test of a filter's text; None where it accepts every task.

    Raises:
        InputError: See `parse_filter`.
    """
    words = text.casefold().split()
    if not words:
        return None
    if not all(_LITERAL.fullmatch(word) for word in words):
        return parse_filter(text, TASK_FIELDS).matches

    def holds(task: TaskText) -> bool:
        # What most filters are, and ten times as fast as the general way.
        row = task.row
        joined = "\n".join(
            (row.id, row.state, task.prompt, row.servers, row.evaluator, row.category, row.problem)
        ).casefold()
        return all(word in joined for word in words)

    return holds


@dataclass(frozen=True)
class TaskFilter:
    """Which tasks the table shows."""

    text: str = ""
    """Terms as `core.row_filter` has them, over the fields of `TASK_FIELDS`; empty: any."""
    states: frozenset[int] | None = None
    """Positions in `STATES`; None: any."""
    code: tuple[Severity, str] | None = None
    """Severity and code of a problem; None: any."""

    @property
    def everything(self) -> bool:
        """True if the filter accepts every task."""
        return not self.text.strip() and self.states is None and self.code is None


class TaskIndex:
    """The tasks of a source as far as they have been read.

    Attributes:
        total: Tasks read so far.
        counts: How many of them are `ok`, have a `warning`, or an `error` (and cannot be used).
        done: Bytes of the source read so far.
        size: Bytes of the source in all.
        states: Position of each task's state in `STATES`.
        longest_id: Characters of the longest id.
        problems: All problems.
        metadata: Field of the metadata -> how often it has each value; only fields with few values.
        crowded: Fields of the metadata with too many values to count.
        category_field: Field of the metadata that the column of categories shows; None while no
            task has one.
        extras: Fields beside those of the dataset format, in the order of their appearance.
        noticed: Tasks by what was noticed in their `mcp_config`; see `servers`.
        inferred: Tasks whose `mcp_config` comes from the lock file's image.
        other_servers: Tasks whose calls were not checked because the analyzed environment is
            another one, by their servers.
    """

    def __init__(self) -> None:
        self.total = 0
        self.counts: dict[State, int] = dict.fromkeys(STATES, 0)
        self.done = self.size = 0
        self.states = bytearray()
        self.longest_id = 0
        self.problems = ProblemTable()
        self.metadata: dict[str, Counter[str]] = {}
        self.crowded: set[str] = set()
        self.category_field: str | None = None
        self.extras: dict[str, None] = {}
        self.noticed: Counter[str] = Counter()
        self.inferred = 0
        self.other_servers: Counter[str] = Counter()
        self._starts: list[int] = []
        self._rows: list[TaskRow] = []
        self._texts: list[bytes | None] = []
        """Each task as JSON; None where it is unusable."""

    # -- adding
    # ----------------------------------------------------------------------------------------------

    def add(self, batch: TaskBatch) -> None:
        """Add the next batch of the source."""
        broken: dict[int, TaskProblem] = {}
        for problem in batch.problems:
            if problem.severity == "error":
                broken.setdefault(problem.index, problem)
        rows: list[TaskRow | None] = [None] * batch.count
        texts: list[bytes | None] = [None] * batch.count
        for task in batch.tasks:
            self._count(task)
            state: State = "warning" if task.problems else "ok"
            category = (
                _plain(task.metadata.get(self.category_field))
                if self.category_field is not None
                else None
            )
            texts[task.index - batch.start] = _pack((task.id, task.prompt, _columns(task)))
            rows[task.index - batch.start] = TaskRow(
                task.index,
                task.id,
                state,
                task.prompt[:HEAD],
                len(task.prompt),
                ", ".join(task.mcp_config),
                _call_names(task.evaluate_tool) or _subjects(task.extra.get("evaluate")),
                _call_names(task.setup_tool),
                category or "",
            )
        for task in batch.rejected:
            rows[task.index - batch.start] = _broken_row(task, broken[task.index])
        made = cast("list[TaskRow]", rows)
        self._rows += made
        self._texts += texts
        self.problems.add(batch.problems)
        self.longest_id = max(
            self.longest_id, max((len(task.id) for task in batch.tasks), default=0)
        )
        states = bytes(_STATE_NUMBERS[row.state] for row in made)
        self.states += states
        for number, name in enumerate(STATES):
            self.counts[name] += states.count(number)
        self.done, self.size = batch.done, batch.size
        self._starts.append(batch.start)
        self.total = batch.start + batch.count  # last: the tasks below it can be read

    def _count(self, task: CheckedTask) -> None:
        self.extras.update(dict.fromkeys(task.extra))
        self.noticed.update(task.rewritten)
        self.inferred += task.inferred
        if task.other_servers is not None:
            self.other_servers[task.other_servers] += 1
        data = task.metadata
        if self.category_field is None and data:
            self.category_field = next(
                (name for name in _CATEGORY_FIELDS if _plain(data.get(name)) is not None), None
            )
        for name, value in data.items():
            if name in self.crowded or (
                name not in self.metadata and len(self.metadata) >= _MOST_FIELDS
            ):
                continue
            counter = self.metadata.setdefault(name, Counter())
            if (plain := _plain(value)) is not None:
                counter[plain] += 1
                if len(counter) > _MOST_VALUES:
                    self.crowded.add(name)
                    del self.metadata[name]

    # -- reading
    # ----------------------------------------------------------------------------------------------

    def row(self, index: int) -> TaskRow:
        """Return a task as the table shows it."""
        return self._rows[index]

    def rows(self) -> Iterator[TaskRow]:
        """Yield all tasks as the table shows them."""
        yield from self._rows[: self.total]

    def record(self, index: int) -> TaskRecord | None:
        """Return a task in full; None if it is unusable (`raw_record` reads it from the source)."""
        text = self._texts[index]
        if text is None:
            return None
        stored = _unpack(text)
        return TaskRecord(stored.id, stored.prompt, stored.columns)

    def place(self, index: int) -> tuple[int, int]:
        """Return the number of a task's batch, and its position there."""
        number = bisect_right(self._starts, index) - 1
        return number, index - self._starts[number]

    def line(self, index: int) -> int | None:
        """Return the line of a task in its file.

        None if it has no problem or the source has no lines.
        """
        return next(
            (line for number in self.problems.of(index) if (line := self.problems.line(number))),
            None,
        )

    # -- choosing
    # ----------------------------------------------------------------------------------------------

    def matching(self, wanted: TaskFilter, start: int = 0) -> Iterator[tuple[array[int], int]]:
        """Find the tasks that a filter accepts, a batch at a time.

        Args:
            wanted: The filter.
            start: Index of the first task to look at.

        Yields:
            The indexes found in a batch, and the index behind the last task of the batch.
        """
        holds = test_of(wanted.text)
        coded = self.problems.tasks_with(*wanted.code) if wanted.code is not None else None
        total = self.total
        starts = self._starts[: bisect_left(self._starts, total)]
        first = max(bisect_right(starts, start) - 1, 0)
        for number, begin in islice(enumerate(starts), first, None):
            end = starts[number + 1] if number + 1 < len(starts) else total
            indexes: Iterable[int] = range(max(begin, start), end)
            if wanted.states is not None:
                indexes = [index for index in indexes if self.states[index] in wanted.states]
            if coded is not None:
                indexes = [index for index in indexes if index in coded]
            if holds is not None:
                indexes = [index for index in indexes if holds(self._searched(index))]
            yield array("I", indexes), end

    def _searched(self, index: int) -> TaskText:
        row, text = self._rows[index], self._texts[index]
        return TaskText(row, row.head if text is None else _unpack_text(text).prompt)

    def arranged(self, rows: Sequence[int], key: str, *, reverse: bool = False) -> array[int]:
        """Sort tasks. Equal ones stay in the order of the source.

        Args:
            rows: Indexes, in the order of the source.
            key: `task` (the order of the source), `id`, `state`, `prompt` (its length), `servers`,
                `evaluator` or `category`.
            reverse: Sort from the last to the first.
        """
        if key in ("task", "state"):
            value: Callable[[int], Any] = self.states.__getitem__ if key == "state" else int
        else:
            name = "length" if key == "prompt" else key
            value = [getattr(row, name) for row in self.rows()].__getitem__
        return array("I", sorted(rows, key=value, reverse=reverse))


def _columns(task: CheckedTask) -> dict[str, Any]:
    return {
        "mcp_config": task.mcp_config,
        "setup_tool": task.setup_tool,
        "evaluate_tool": task.evaluate_tool,
        "metadata": task.metadata,
        **task.extra,
    }


def _broken_row(task: CheckedTask, problem: TaskProblem) -> TaskRow:
    """Return the row of an unusable task: what it says of itself, and its first error."""
    record = task.record if isinstance(task.record, Mapping) else {}
    config = _as_data(record.get("mcp_config"))
    servers = ", ".join(map(str, config)) if isinstance(config, Mapping) else ""
    prompt = record.get("prompt")
    head = prompt[:HEAD] if isinstance(prompt, str) else ""
    calls = _call_names(_as_data(record.get("evaluate_tool")))
    calls = calls or _subjects(_as_data(record.get("evaluate")))
    name = problem.id or f"task-{task.index:04d}"
    row = TaskRow(
        task.index, name, "error", head, 0, servers[:200], calls[:200], "", "", problem.code
    )
    # A text of an unusable task may hold half of a surrogate pair, which cannot be packed.
    return msgspec.structs.replace(row, **{field: _sound(getattr(row, field)) for field in _TEXTS})


_TEXTS = ("id", "head", "servers", "evaluator")


def _sound(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _as_data(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return decode_json(value.encode())
    except ValueError:
        return None


def _call_names(calls: Any) -> str:
    """Return the tools of one or several calls, as `evaluate/function` where the tool is a hub."""
    found = []
    for call in calls if isinstance(calls, list) else (calls,):
        name = call.get("name") if isinstance(call, Mapping) else None
        if isinstance(name, str) and name:
            arguments = _as_data(call.get("arguments"))
            function = arguments.get("name") if isinstance(arguments, Mapping) else None
            found.append(
                f"{name}/{function}"
                if isinstance(function, str) and _FUNCTION.fullmatch(function)
                else name
            )
    return ", ".join(dict.fromkeys(found)) if len(found) != 1 else found[0]


def _subjects(parts: Any) -> str:
    """Return what the parts of `evaluate` look at: tools of calls, `reply`, `turns`, `judge`."""
    found = []
    for part in parts if isinstance(parts, list) else (parts,):
        given = part if isinstance(part, Mapping) else {}
        found += [name for name in ("reply", "turns", "judge") if name in given]
        found.append(_call_names(given.get("call")))
    return ", ".join(dict.fromkeys(filter(None, found)))


def _plain(value: Any) -> str | None:
    """Return a value of metadata as text; None if it is a list or an object."""
    if isinstance(value, str):
        return value[:80]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)[:80]
    return None


def read_into(
    index: TaskIndex, opened: OpenedSource, stop: Event, on_batch: Callable[[], None]
) -> bool:
    """Read a source into an index. Meant for a thread.

    Args:
        index: Receives the tasks.
        opened: A source on this machine.
        stop: Ends the reading at the next batch.
        on_batch: Called after each batch, in this thread.

    Returns:
        Whether everything was read.

    Raises:
        InputError: The source as a whole cannot be read. The tasks that were read before stay in
            the index.
    """
    with contextlib.closing(
        cast("Generator[TaskBatch, None, None]", scan(opened.source, opened.rules))
    ) as batches:
        for batch in batches:
            if stop.is_set():
                return False
            index.add(batch)
            on_batch()
    return not stop.is_set()


def raw_record(source: TaskSource, index: TaskIndex, task: int) -> Any:
    """Return what the source holds for a task, valid or not.

    Data, or text if it is not JSON; None if it is not there any more.
    Reads the source up to the task: meant for a thread.

    Raises:
        InputError: The source cannot be read any more.
    """
    number, place = index.place(task)
    chunk = next(islice((chunk for chunk, _, _ in read_chunks(source)), number, None), None)
    if chunk is None:
        return None
    if isinstance(chunk, TableChunk):
        return next(islice(chunk.records()[0], place, None), None)
    text = next(islice((text for _, text in chunk.texts()), place, None), b"null")
    try:
        return msgspec.json.decode(text)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return text.decode("utf-8", "replace")


# -- statistics
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bars:
    """Counts by name, to be drawn as bars."""

    title: str
    bars: tuple[tuple[str, int], ...]
    note: str = ""
    """Remark about values that the bars leave out."""


@dataclass(frozen=True)
class Lengths:
    """Lengths of prompts, in estimated tokens."""

    bins: tuple[tuple[int, int, int], ...]
    """From, to (exclusive) and number of prompts; each bin twice as wide as the one before."""
    shortest: int
    median: int
    most: int
    """The 95th percentile."""
    longest: int


@dataclass(frozen=True)
class TaskStats:
    """Statistics of the usable tasks."""

    tasks: int
    """Usable tasks."""
    lengths: Lengths | None
    """None without a usable task."""
    groups: tuple[Bars, ...]
    total: int = 0
    """All tasks, the unusable ones included."""

    def to_json(self) -> dict[str, Any]:
        """Return the form of `hudtui tasks stats --json`."""
        lengths = self.lengths
        return {
            "tasks": self.total,
            "valid": self.tasks,
            "prompt_tokens": None
            if lengths is None
            else {
                "shortest": lengths.shortest,
                "median": lengths.median,
                "p95": lengths.most,
                "longest": lengths.longest,
                "bins": [
                    {"from": low, "below": high, "tasks": count}
                    for low, high, count in lengths.bins
                ],
            },
            "groups": [
                {"title": group.title, "tasks": dict(group.bars), "note": group.note}
                for group in self.groups
            ],
        }


def task_stats(index: TaskIndex) -> TaskStats:
    """Return the statistics of the tasks that have been read so far."""
    lengths: Counter[int] = Counter()
    names: dict[str, Counter[str]] = {
        "evaluators": Counter(),
        "setup": Counter(),
        "servers": Counter(),
    }
    for row in index.rows():
        if row.state != "error":
            lengths[-(-row.length // CHARS_PER_TOKEN)] += 1
            names["evaluators"][row.evaluator] += 1
            names["setup"][row.setup] += 1
            names["servers"][row.servers] += 1
    groups = [_group(title, counter) for title, counter in names.items()]
    single: list[str] = []
    for name, counter in sorted(
        index.metadata.items(), key=lambda item: item[0] != index.category_field
    ):
        if (
            len(counter) > 1 and max(counter.values()) == 1
        ):  # a different value for each task: bars would say nothing
            single.append(name)
        elif counter:
            groups.append(_group(f"metadata.{name}", counter))
    if single or index.crowded:
        groups.append(
            Bars("metadata with many values", (), ", ".join(sorted([*single, *index.crowded])))
        )
    found = tuple(group for group in groups if group.bars or group.note)
    return TaskStats(lengths.total(), length_stats(lengths), found, index.total)


def read_stats(opened: OpenedSource) -> Iterator[Progress | TaskStats]:
    """Read a source on this machine and yield its progress, then the statistics of its tasks.

    Raises:
        InputError: The source as a whole cannot be read.
    """
    index = TaskIndex()
    with contextlib.closing(
        cast("Generator[TaskBatch, None, None]", scan(opened.source, opened.rules))
    ) as batches:
        for batch in batches:
            index.add(batch)
            yield Progress("read", f"{index.total:,} tasks", batch.done, batch.size)
        yield task_stats(index)


def length_stats(tokens: Counter[int]) -> Lengths | None:
    """Return the distribution of the lengths of prompts.

    Args:
        tokens: Length in tokens -> number of prompts.
    """
    if not tokens:
        return None
    low, high = min(tokens), max(tokens)
    start = 1
    while start * 2 <= low:
        start *= 2
    edges = [start]
    while edges[-1] <= high:
        edges.append(edges[-1] * 2)
    if len(edges) < 4 and high - low >= 4:  # all of much the same length: even bins say more
        step = max((high - low + 8) // 8, 1)
        edges = list(range(low, high + step + 1, step))
    counts = [0] * (len(edges) - 1)
    for length, count in tokens.items():
        counts[bisect_right(edges, length) - 1] += count
    bins = tuple((edges[place], edges[place + 1], count) for place, count in enumerate(counts))
    return Lengths(bins, low, _percentile(tokens, 50), _percentile(tokens, 95), high)


def _percentile(tokens: Counter[int], percent: int) -> int:
    """Return a percentile, interpolated between the two nearest lengths and rounded down."""
    place, ordered = (tokens.total() - 1) * percent / 100, sorted(tokens)
    ends = list(accumulate(tokens[length] for length in ordered))
    low, high = (ordered[bisect_right(ends, number)] for number in (floor(place), ceil(place)))
    return int(low + (high - low) * (place - floor(place)))


def _group(title: str, counter: Counter[str]) -> Bars:
    counts = sorted(
        ((name, count) for name, count in counter.items() if name),
        key=lambda item: (-item[1], item[0]),
    )
    shown, rest = counts[:LISTED_VALUES], counts[LISTED_VALUES:]
    if all(_NUMBER.fullmatch(name) for name, _ in shown):
        shown.sort(key=lambda item: float(item[0]))
    note = f"and {len(rest):,} more with {sum(count for _, count in rest):,} tasks" if rest else ""
    return Bars(title, tuple(shown), note)
