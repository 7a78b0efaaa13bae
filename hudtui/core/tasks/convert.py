"""Converting tasks: read, check, select, write.

Streaming, and either the whole result is written or nothing.
Imports pyarrow: import this module late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from hudtui.core.errors import InputError, Location
from hudtui.core.events import Progress
from hudtui.core.tasks.options import TaskSelection
from hudtui.core.tasks.read import TaskBatch, TaskSource, download, scan
from hudtui.core.tasks.select import split_rows, task_filter
from hudtui.core.tasks.servers import LOCAL
from hudtui.core.tasks.task import TaskProblem
from hudtui.core.tasks.validate import Rules
from hudtui.core.tasks.write import DatasetLayout, DatasetWriter, Target, disk_errors, text_column
from hudtui.core.text import none_of, plural

KEPT_PROBLEMS = 100_000
"""Problems of each severity that are kept; further ones are only counted."""


@dataclass
class ProblemSummary:
    """The problems of a source: all of them counted, the first of each severity in full."""

    errors: list[TaskProblem] = field(default_factory=list)
    warnings: list[TaskProblem] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Problems by severity and code."""

    def add(self, problems: Sequence[TaskProblem]) -> None:
        for problem in problems:
            self.counts[problem.severity, problem.code] += 1
            kept = self.errors if problem.severity == "error" else self.warnings
            if len(kept) < KEPT_PROBLEMS:
                kept.append(problem)

    def count(self, severity: str) -> int:
        """Return the number of problems of a severity."""
        return sum(count for (kind, _), count in self.counts.items() if kind == severity)


@dataclass
class ConversionResult:
    """Result of a conversion."""

    source: str
    total: int = 0
    """Tasks in the source."""
    valid: int = 0
    """Tasks without an error."""
    written: dict[str, int] = field(default_factory=dict)
    """Tasks by split, copies included. Without a target: those that pass the filters."""
    findings: ProblemSummary = field(default_factory=ProblemSummary)
    duplicated: int = 0
    """Copies that were added."""
    inferred: int = 0
    """Tasks whose `mcp_config` comes from the lock file's image."""
    rewritten: Counter[str] = field(default_factory=Counter)
    """Tasks by what was noticed or changed in their `mcp_config`; see `servers`."""
    files: tuple[tuple[Path, ...], ...] = ()
    """The files of each target."""
    columns: tuple[str, ...] = ()
    """Columns of the dataset."""

    def add(self, batch: TaskBatch) -> None:
        """Count the tasks of a batch."""
        self.total += batch.count
        self.valid += len(batch.tasks)
        self.findings.add(batch.problems)
        for task in batch.tasks:
            self.inferred += task.inferred
            for word in task.rewritten:
                self.rewritten[word] += 1

    @property
    def remote(self) -> bool:
        """True if no usable task has a server that runs on the machine that plays it."""
        return not self.rewritten[LOCAL]

    @property
    def tasks(self) -> int:
        """Tasks that were written, copies included."""
        return sum(self.written.values())


class TaskErrors(InputError):
    """No task is usable, or the rules are strict and a task has a problem."""

    def __init__(self, what: str, converted: ConversionResult) -> None:
        first = converted.findings.errors[0] if converted.findings.errors else None
        super().__init__(what, why=str(first) if first else None, where=Location(converted.source))
        self.converted = converted


def convert(
    source: TaskSource,
    rules: Rules,
    targets: Sequence[Target] = (),
    *,
    selection: TaskSelection | None = None,
    min_tasks: int = 0,
    token: str | None = None,
) -> Iterator[Progress | ConversionResult]:
    """Convert tasks step by step; the last step is the result.

    Closing the iterator early leaves no file behind.

    Args:
        source: Where the tasks are.
        rules: What they are checked against, and how their servers change.
        targets: What to write, each with the same tasks; none: only read and check.
        selection: Which tasks to take; all when None.
        min_tasks: Repeat tasks, under new ids, until the training split has so many.
        token: For a source on the Hub.

    Raises:
        InputError: The source cannot be used as a whole, or a target cannot be written.
        TaskErrors: No task is usable, or the rules are strict and a task has a problem.
        HubError: The source is on the Hub, which refuses or cannot be reached.
    """
    if source.kind == "hub":
        yield Progress("download", f"{source.repo} from the Hub")
        source = download(source, token=token)
    check_targets(targets, source)
    files = bool(targets) and all(target.is_task_file for target in targets)
    layout, selection = DatasetLayout(solutions=files), selection or TaskSelection()
    # A field that first appears late needs a column from the beginning. The layout is kept, so it
    # fits the second time.
    for _ in range(2):
        result = ConversionResult(source.name)
        yield from _convert(source, rules, targets, selection, min_tasks, layout, result)
        if result.columns:
            yield result
            return
    raise InputError("this file changed while it was read", where=Location(source.name))


def check_targets(targets: Sequence[Target], source: TaskSource) -> None:
    """Check that a source is not overwritten.

    Raises:
        InputError: A target is the file that the tasks are read from.
    """
    path = source.path
    for target in targets:
        if path is None or target.replaces_source or not (target.path.exists() and path.exists()):
            continue
        if target.path.samefile(path):
            raise InputError(
                "this is the file that the tasks are read from, and it stays as it is",
                fix="Choose another place with -o, or say --in-place.",
                where=Location(str(target.path)),
            )


def _convert(
    source: TaskSource,
    rules: Rules,
    targets: Sequence[Target],
    selection: TaskSelection,
    min_tasks: int,
    layout: DatasetLayout,
    result: ConversionResult,
) -> Iterator[Progress]:
    """Convert in one pass. `result.columns` stays empty when the layout turns out too narrow."""
    filters = [task_filter(text) for text in selection.filters]
    passed, fits = 0, True
    writer: _Writer | None = None
    with ExitStack() as stack:
        for batch in scan(source, rules):
            result.add(batch)
            yield Progress("read", f"{result.total:,} tasks", batch.done, batch.size)
            tasks = (
                [task for task in batch.tasks if all(one.matches(task) for one in filters)]
                if filters
                else batch.tasks
            )
            passed += len(tasks)
            fits = (layout.covers(tasks) or writer is None) and fits
            if tasks and fits:
                writer = writer or stack.enter_context(
                    _Writer(targets, layout.schema(), selection, min_tasks)
                )
                writer.add(layout.record_batch(tasks))
        result.written = {"train": passed}
        _check_result(result, rules, selection, bool(targets))
        if not fits:
            yield Progress("read", "fields turned up late; once more from the beginning")
            return
        if targets and writer is not None:
            yield Progress("write", "finishing", result.total, result.total)
            with disk_errors(targets[0].path):
                result.files = writer.finish()
            result.written, result.duplicated = writer.counts, writer.duplicated
        result.columns = tuple(layout.schema().names)


def _check_result(
    result: ConversionResult, rules: Rules, selection: TaskSelection, writes: bool
) -> None:
    if rules.strict and result.findings.counts:
        many = result.findings.count("error")
        problems = f"{plural(many, 'problem')} in {plural(result.total, 'task')}"
        raise TaskErrors(f"{problems}, and --strict allows none", result)
    if not writes:
        return
    if not result.valid:
        what = (
            f"{none_of(result.total, 'task')} can be used"
            if result.total
            else "there is no task in it"
        )
        raise TaskErrors(what, result)
    if not result.tasks:
        raise TaskErrors(f"{none_of(result.valid, 'usable task')} passes the filters", result)


class _Writer:
    """Writes rows to all targets.

    At once, or at the end where the selection needs all rows first.
    """

    def __init__(
        self, targets: Sequence[Target], schema: pa.Schema, selection: TaskSelection, min_tasks: int
    ) -> None:
        self.counts = dict.fromkeys(selection.splits, 0)
        self.duplicated = 0
        self._targets, self._schema, self._selection, self._min_tasks = (
            targets,
            schema,
            selection,
            min_tasks,
        )
        self._outputs = [DatasetWriter(target, schema, selection.splits) for target in targets]
        self._rows: list[pa.RecordBatch] = []
        """Rows that wait for the selection."""
        self._stack = ExitStack()
        self._head: list[pa.RecordBatch] = []

    def __enter__(self) -> _Writer:
        for output in self._outputs:
            self._stack.enter_context(output)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows; does nothing without a target."""
        if not self._targets:
            return
        if self._selection.needs_all:
            self._rows.append(rows)
            return
        with disk_errors(self._targets[0].path):
            self._write("train", rows)

    def _write(self, split: str, rows: pa.RecordBatch) -> None:
        if split == "train" and self.counts[split] < self._min_tasks:
            self._head.append(rows)
        self.counts[split] += rows.num_rows
        for output in self._outputs:
            output.sink(split).write(rows)

    def finish(self) -> tuple[tuple[Path, ...], ...]:
        """Complete the targets; return the files of each."""
        if self._rows:
            table = pa.Table.from_batches(self._rows, self._schema)
            for split, part in split_rows(table, self._selection).items():
                for rows in part.combine_chunks().to_batches(max_chunksize=4096):
                    self._write(split, rows)
        for rows in self._copies():
            self._write("train", rows)
        return tuple(tuple(output.finish()) for output in self._outputs)

    def _copies(self) -> list[pa.RecordBatch]:
        """Return the rows that the training split lacks: its own rows under new ids."""
        missing = self._min_tasks - self.counts["train"]
        if missing <= 0 or not self._head:
            return []
        rows = pa.Table.from_batches(self._head).combine_chunks().to_batches()[0]
        ids = rows.column("id").to_pylist()
        taken, copies = set(ids), []
        for number in range(missing):
            original, copy = number % len(ids), number // len(ids) + 2
            while (name := f"{ids[original]}-{copy}") in taken:
                copy += 1
            taken.add(name)
            row = rows.slice(original, 1)
            copies.append(row.set_column(0, row.schema.field(0), text_column([name.encode()])))
        self.duplicated = missing
        return copies
