"""From tasks as users have them to a dataset that trains: read, check, select, write; streaming, and all or nothing.

Imports pyarrow: import this module late.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hudtui.core.errors import InputError, Location
from hudtui.core.events import Progress
from hudtui.core.platform import HUD, Platform
from hudtui.core.tasks import rewrite
from hudtui.core.tasks.problems import TaskProblem
from hudtui.core.tasks.read import TaskSource, find_source
from hudtui.core.tasks.rules import Rules
from hudtui.core.tasks.select import Spool, TaskSelection, filtered, parse_filter
from hudtui.core.tasks.write import DatasetWriter, SplitWriter, Target, disk_errors
from hudtui.core.variables import Lookup

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped,unused-ignore]

    from hudtui.core.environment.values import Analysis
    from hudtui.core.tasks.layout import DatasetLayout
    from hudtui.core.tasks.scan import TaskBatch

T = TypeVar("T")

KEPT_PROBLEMS = 100_000
"""Problems of each severity that are kept in full; more are counted."""


@dataclass(frozen=True)
class ConversionRequest:
    """What is to be made of which tasks."""

    source: str | Path
    split: str | None = None
    """Split of the source, where it has several."""
    targets: tuple[Target, ...] = ()
    """What to write, each with the same tasks; none: only look."""
    platform: Platform = HUD
    lookup: Lookup | None = None
    lock_image: str | None = None
    analysis: Analysis | None = None
    same_servers: bool = False
    """Calls are checked only of tasks whose servers are the analysed environment."""
    token_budget: int | None = None
    strict: bool = False
    remote: bool = False
    """Change local servers to the platform's remote one, which runs `lock_image`."""
    replace_secrets: bool = False
    """Put variables in the place of secrets that are written out."""
    selection: TaskSelection = field(default_factory=TaskSelection)
    min_tasks: int = 0
    """Repeat tasks, under new ids, until the training split has so many."""
    folder: Path | None = None
    """Where relative paths of the source start; the current folder when None."""
    token: str | None = field(default=None, repr=False)
    """For a source on the Hub."""


@dataclass
class ProblemSummary:
    """The problems of a source: the first of each severity in full, all of them counted."""

    errors: list[TaskProblem] = field(default_factory=list)
    warnings: list[TaskProblem] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Problems by severity and code."""

    def add(self, problems: tuple[TaskProblem, ...]) -> None:
        """Take in more."""
        for problem in problems:
            self.counts[problem.severity, problem.code] += 1
            kept = self.errors if problem.severity == "error" else self.warnings
            if len(kept) < KEPT_PROBLEMS:
                kept.append(problem)

    def count(self, severity: str) -> int:
        """How many there are of a severity."""
        return sum(count for (kind, _), count in self.counts.items() if kind == severity)


@dataclass(frozen=True)
class ConversionResult:
    """What came out."""

    source: str
    total: int
    """Tasks in the source."""
    valid: int
    """Tasks without an error."""
    written: dict[str, int]
    """Tasks by split, copies included."""
    findings: ProblemSummary
    duplicated: int = 0
    """Copies that were added."""
    inferred: int = 0
    """Tasks whose `mcp_config` comes from the lock file's image."""
    rewritten: dict[str, int] = field(default_factory=dict)
    """Tasks by what was noticed or changed in their `mcp_config`; see `rewrite`."""
    files: tuple[tuple[Path, ...], ...] = ()
    """What was written, for each target."""
    columns: tuple[str, ...] = ()
    """Columns of the dataset."""

    @property
    def remote(self) -> bool:
        """Whether no usable task has a server that runs on the machine that plays it."""
        return not self.rewritten.get(rewrite.LOCAL)

    @property
    def tasks(self) -> int:
        """Tasks that were written, copies included."""
        return sum(self.written.values())


class TaskErrors(InputError):
    """Tasks that cannot be taken: none is usable, or not all are and that was asked for."""

    def __init__(self, what: str, converted: ConversionResult, *, fix: str | None = None) -> None:
        first = converted.findings.errors[0] if converted.findings.errors else None
        super().__init__(what, why=str(first) if first else None, fix=fix, where=Location(converted.source))
        self.converted = converted


def convert(request: ConversionRequest) -> Iterator[Progress | ConversionResult]:
    """Carry out a request, step by step; the last thing that comes is the result.

    Closing the iterator early stops the work, and nothing is left of it.

    Raises:
        InputError: The source cannot be used as a whole, or a target cannot be written.
        TaskErrors: No task is usable, or the request is strict and something is wrong with one.
        HubError: The source is on the Hub, which refuses or cannot be reached.
    """
    source = find_source(request.source, split=request.split, folder=request.folder)
    if source.kind == "hub":
        from hudtui.core.tasks.hub import fetch

        yield Progress("download", f"{source.repo} from the Hub")
        source = fetch(source, token=request.token)
    _check_targets(request, source)
    from hudtui.core.tasks.layout import DatasetLayout

    layout = DatasetLayout()
    # A field that turns up late needs a column from the beginning. What is known of the columns is kept, so the second time fits.
    for _ in range(2):
        conversion = _Conversion(request, source, layout)
        yield from conversion.steps()
        if conversion.result is not None:
            yield conversion.result
            return
    raise InputError("this file changed while it was read", where=Location(source.name))


def _check_targets(request: ConversionRequest, source: TaskSource) -> None:
    paths = [source.path] if source.path is not None else []
    for target in request.targets:
        for path in paths:
            if target.path.exists() and path.exists() and target.path.samefile(path) and not target.replaces_source:
                raise InputError(
                    "this is the file that the tasks are read from, and it stays as it is",
                    fix="Choose another place with -o, or say --in-place.",
                    where=Location(str(target.path)),
                )


class _Conversion:
    """One pass over the source."""

    def __init__(self, request: ConversionRequest, source: TaskSource, layout: DatasetLayout) -> None:
        self.request, self.source, self.layout = request, source, layout
        self.rules = Rules(
            lookup=request.lookup,
            lock_image=request.lock_image,
            platform=request.platform,
            analysis=request.analysis,
            same_servers=request.same_servers,
            folder=request.folder,
            token_budget=request.token_budget,
            strict=request.strict,
            rewrite=rewrite.rewriting(
                request.platform,
                image=request.lock_image,
                lookup=request.lookup,
                remote=request.remote,
                replace_secrets=request.replace_secrets,
            ),
        )
        self.predicates = [parse_filter(text) for text in request.selection.filters]
        self.findings = ProblemSummary()
        self.total = self.valid = self.inferred = self.written = 0
        self.rewritten: Counter[str] = Counter()
        self.result: ConversionResult | None = None

    def steps(self) -> Iterator[Progress]:
        """Read everything, and write it unless the layout turns out too narrow (then `result` stays None)."""
        batches = self._batches()
        first: tuple[TaskBatch, Progress] | None = None
        for batch, progress in batches:
            yield progress
            if batch.ids:
                first = batch, progress
                self.layout.covers(batch)
                break
        splits = self.request.selection.splits
        writer = _Writer(self.request, self.layout.schema(), splits, first[0].size if first is not None else 0)
        with writer:
            fits = True
            for batch, progress in _chain(first, batches):
                yield progress
                fits = self.layout.covers(batch) and fits
                if fits and batch.ids and self.request.targets:
                    writer.add(self.layout.record_batch(batch))
                self.written += len(batch.ids)
            found = ConversionResult(
                self.source.name,
                self.total,
                self.valid,
                {"train": self.written},
                self.findings,
                inferred=self.inferred,
                rewritten=dict(self.rewritten),
                columns=tuple(self.layout.schema().names),
            )
            self._check(found)
            if not fits:
                yield Progress("read", "fields turned up late; once more from the beginning")
                return
            if not self.request.targets:
                self.result = found
                return
            yield Progress("write", "finishing", self.total, self.total)
            with disk_errors(self.request.targets[0].path):
                files = writer.finish()
            self.result = replace(found, written=writer.counts, duplicated=writer.duplicated, files=files)

    def _batches(self) -> Iterator[tuple[TaskBatch, Progress]]:
        from hudtui.core.tasks.scan import scan

        for batch in scan(self.source, self.rules):
            self.total += batch.count
            self.valid += len(batch.ids)
            self.inferred += batch.inferred
            self.rewritten.update(batch.rewritten)
            self.findings.add(batch.problems)
            yield filtered(batch, self.predicates), Progress("read", f"{self.total:,} tasks", batch.done, batch.size)

    def _check(self, found: ConversionResult) -> None:
        if self.request.strict and found.findings.counts:
            many = found.findings.count("error")
            raise TaskErrors(
                f"{many:,} problem{'s' if many != 1 else ''} in {found.total:,} tasks, and --strict allows none", found
            )
        if not found.valid and self.request.targets:
            what = f"none of the {found.total:,} tasks can be used" if found.total else "there is no task in it"
            raise TaskErrors(what, found)
        if not self.written and self.request.targets:
            raise TaskErrors(f"none of the {found.valid:,} usable tasks passes the filters", found)


def _chain(first: T | None, rest: Iterator[T]) -> Iterator[T]:
    if first is not None:
        yield first
    yield from rest


class _Writer:
    """Rows on their way to all targets: through the spool where the selection needs all of them first."""

    def __init__(self, request: ConversionRequest, schema: pyarrow.Schema, splits: tuple[str, ...], size: int) -> None:
        self.request, self.schema, self._size = request, schema, size
        self.counts = dict.fromkeys(splits, 0)
        self.duplicated = 0
        self._outputs = [DatasetWriter(target, schema, splits) for target in request.targets]
        self._spool: Spool | None = None
        self._place: tempfile.TemporaryDirectory[str] | None = None
        self._head: list[pyarrow.RecordBatch] = []

    def __enter__(self) -> _Writer:
        for output in self._outputs:
            output.__enter__()
        if self._outputs and self.request.selection.needs_all:
            folder = self._outputs[0].folder
            self._place = tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent)
            self._spool = Spool(Path(self._place.name), self.schema, self.request.selection, self._size)
        return self

    def __exit__(self, *reason: Any) -> None:
        for output in self._outputs:
            output.__exit__(*reason)
        if self._place is not None:
            self._place.cleanup()

    def add(self, rows: pyarrow.RecordBatch) -> None:
        with disk_errors(self.request.targets[0].path):
            if self._spool is not None:
                self._spool.add(rows)
            else:
                self._write("train", rows)

    def _write(self, split: str, rows: pyarrow.RecordBatch) -> None:
        if split == "train" and self.counts[split] < self.request.min_tasks:
            self._head.append(rows)
        self.counts[split] += rows.num_rows
        for output in self._outputs:
            sink: SplitWriter = output.sink(split)
            sink.write(rows)

    def finish(self) -> tuple[tuple[Path, ...], ...]:
        if self._spool is not None:
            for split, rows in self._spool.drain():
                self._write(split, rows)
        for rows in self._copies():
            self._write("train", rows)
        return tuple(tuple(output.finish()) for output in self._outputs)

    def _copies(self) -> list[pyarrow.RecordBatch]:
        """Further rows, as many as the training split is short of: its own rows under new ids."""
        missing = self.request.min_tasks - self.counts["train"]
        if missing <= 0 or not self._head:
            return []
        import pyarrow as pa

        from hudtui.core.tasks.layout import text_column

        rows = pa.Table.from_batches(self._head).combine_chunks().to_batches()[0]
        have = rows.num_rows
        taken = set(rows.column("id").to_pylist())
        ids = []
        for number in range(missing):
            name, copy = rows.column("id")[number % have].as_py(), number // have + 2
            while f"{name}-{copy}" in taken:
                copy += 1
            taken.add(f"{name}-{copy}")
            ids.append(f"{name}-{copy}")
        self.duplicated = missing
        copies = [rows.slice(number % have, 1) for number in range(missing)]
        return [
            copy.set_column(0, copy.schema.field(0), text_column([name.encode()])) for copy, name in zip(copies, ids, strict=True)
        ]
