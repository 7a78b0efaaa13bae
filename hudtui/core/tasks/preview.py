"""What a dataset would be, before anything is written: counts, columns and the first rows.

Imports pyarrow: import this module late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hudtui.core.events import Progress
from hudtui.core.settings import Settings
from hudtui.core.tasks.dataset import DatasetRequest, conversion, lock_image
from hudtui.core.tasks.layout import DatasetLayout
from hudtui.core.tasks.read import TaskSource
from hudtui.core.tasks.rewrite import rewriting
from hudtui.core.tasks.rules import Rules
from hudtui.core.tasks.scan import TaskBatch, scan
from hudtui.core.tasks.select import filtered, parse_filter, test_rows
from hudtui.core.tasks.table import TaskIndex

ROWS = 3
"""Rows that a preview shows."""


@dataclass(frozen=True)
class DatasetPreview:
    """What would be written."""

    total: int
    """Tasks in the source."""
    valid: int
    """Tasks without an error."""
    passed: int
    """Of these, the ones that pass the filters."""
    splits: dict[str, int]
    """Rows by split, copies included."""
    duplicated: int
    """Copies among them."""
    problems: int
    """Problems that would end a strict conversion."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    """The first rows, before they are shuffled or sampled; a text for each column."""
    exact: bool = True
    """Everything was looked at; False while only the rows are known."""


def preview(
    request: DatasetRequest, settings: Settings, source: TaskSource, *, known: TaskIndex | None = None
) -> Iterator[Progress | DatasetPreview]:
    """Look at what a request would write. A first preview comes with the first rows, the last one has the final counts.

    Args:
        request: As for `make_dataset`; where it goes does not matter.
        settings: Of the project.
        source: Its tasks, on this machine.
        known: All its tasks, read under the same rules: what they answer need not be counted again.

    Raises:
        InputError: The tasks cannot be read, or a filter is none.
    """
    _, image, _ = lock_image(request, settings)
    wanted = conversion(replace(request, strict=False), settings, image, ())
    rules = Rules(
        lookup=wanted.lookup,
        lock_image=image,
        platform=wanted.platform,
        analysis=request.analysis,
        same_servers=request.same_servers,
        folder=settings.folder,
        token_budget=request.token_budget,
        rewrite=rewriting(
            wanted.platform, image=image, lookup=wanted.lookup, remote=request.remote, replace_secrets=request.replace_secrets
        ),
    )
    predicates = [parse_filter(text) for text in request.selection.filters]
    layout = DatasetLayout()
    total = valid = passed = problems = 0
    head: TaskBatch | None = None
    told = False
    shortcut = known if not predicates and not request.strict and request.token_budget is None else None
    for batch in scan(source, rules):
        total += batch.count
        valid += len(batch.ids)
        problems += len(batch.problems)
        kept = filtered(batch, predicates)
        passed += len(kept.ids)
        layout.covers(batch)
        if kept.ids and head is None:
            head = kept.take(range(min(ROWS, len(kept.ids))))
        if head is not None and shortcut is not None:
            yield _known(request, layout, head, shortcut)
            return
        if head is not None and not told:
            told = True
            yield _made(request, layout, head, total, valid, passed, problems, exact=False)
        yield Progress("read", f"{total:,} tasks", batch.done, batch.size)
    yield _made(request, layout, head, total, valid, passed, problems, exact=True)


def _known(request: DatasetRequest, layout: DatasetLayout, head: TaskBatch, index: TaskIndex) -> DatasetPreview:
    """A preview without looking at more than the first tasks."""
    usable = index.counts["ok"] + index.counts["warning"]
    made = _made(request, layout, head, index.total, usable, usable, len(index.problems), exact=True)
    further = tuple(name for name in index.extras if name not in made.columns)
    rows = tuple((*row, *(None for _ in further)) for row in made.rows)
    return replace(made, columns=(*made.columns, *further), rows=rows)


def _made(
    request: DatasetRequest,
    layout: DatasetLayout,
    head: TaskBatch | None,
    total: int,
    valid: int,
    passed: int,
    problems: int,
    *,
    exact: bool,
) -> DatasetPreview:
    selection = request.selection
    wanted = passed if selection.sample is None else min(selection.sample, passed)
    test = test_rows(selection.test, wanted)
    train = wanted - test
    copies = max(request.min_tasks - train, 0) if train else 0
    splits = {"train": train + copies}
    if selection.test:
        splits["test"] = test
    rows: list[tuple[str | None, ...]] = []
    if head is not None:
        texts = layout.record_batch(head)
        rows = list(zip(*(texts.column(place).to_pylist() for place in range(texts.num_columns)), strict=True))
    columns = tuple(layout.schema().names)
    return DatasetPreview(total, valid, passed, splits, copies, problems, columns, tuple(rows), exact)
