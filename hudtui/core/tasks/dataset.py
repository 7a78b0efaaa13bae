"""Making a dataset of tasks (`hudtui hf`).

On disk or on the Hub, named in the lock file, and a preview of it.
Imports pyarrow: import this module late.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hudtui.core.errors import InputError, Location
from hudtui.core.events import Notice, Progress
from hudtui.core.files import temporary_folder
from hudtui.core.http import is_loopback
from hudtui.core.lockfile import find_lock, is_local_image, read_lock, set_primary_dataset
from hudtui.core.paths import typed_path
from hudtui.core.settings import Settings
from hudtui.core.tasks.convert import ConversionResult, TaskErrors, check_targets, convert
from hudtui.core.tasks.options import DatasetOptions, TaskSelection
from hudtui.core.tasks.publish import CardFacts, Pushed, push
from hudtui.core.tasks.read import TaskSource, find_source, lock_image, scan
from hudtui.core.tasks.select import task_filter, test_rows
from hudtui.core.tasks.servers import LOCAL, REMOTE, REPLACED, SECRETS, SEVERAL, config_rewriter
from hudtui.core.tasks.solution import FIELD as SOLUTION
from hudtui.core.tasks.task import check_name, file_name, name_from_file, suggest_names
from hudtui.core.tasks.validate import CheckedTask, Rules
from hudtui.core.tasks.write import DatasetLayout, Format, Target
from hudtui.core.text import plural, some_tasks
from hudtui.core.workspace import save_dataset_name

if TYPE_CHECKING:
    from hudtui.core.environment.values import Analysis
    from hudtui.core.tasks.table import TaskIndex

MIN_TASKS = 4
"""Fewest tasks for GRPO training."""


@dataclass(frozen=True)
class DatasetRequest(DatasetOptions):
    """A dataset to make."""

    tasks: str | Path
    push: bool = True
    """True if it goes to the Hub; then a local result is made only where `output` names one."""
    selection: TaskSelection = field(default_factory=TaskSelection)
    analysis: Analysis | None = None
    same_servers: bool = False
    """Check the calls only of tasks whose servers are the analyzed environment."""
    token: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class DatasetResult:
    """The result of a request."""

    converted: ConversionResult
    output: Path | None = None
    """The local file or folder, if one was requested."""
    pushed: Pushed | None = None
    lock: Path | None = None
    """The lock file, if it names the dataset now."""
    note: Path | None = None
    """The file in `.hudtui/` that names the dataset, if there is no lock file."""


def rules_for(request: DatasetRequest, settings: Settings, image: str | None) -> Rules:
    """Return what the tasks of a request are checked against, and how their servers change.

    Args:
        request: The request.
        settings: Of the project.
        image: Image for tasks without `mcp_config`, and for remote servers.
    """
    return Rules(
        lookup=settings.get,
        lacking=settings.lacking,
        lock_image=image,
        platform=settings.platform,
        analysis=request.analysis,
        same_servers=request.same_servers,
        folder=settings.folder,
        token_budget=request.token_budget,
        strict=request.strict,
        rewrite=config_rewriter(
            settings.platform,
            image=image,
            lookup=settings.get,
            remote=request.remote,
            replace_secrets=request.replace_secrets,
        ),
    )


def convert_request(
    request: DatasetRequest, settings: Settings, image: str | None, targets: Sequence[Target]
) -> Iterator[Progress | ConversionResult]:
    """Read, check and write the tasks of a request; see `convert`."""
    return convert(
        find_source(request.tasks, split=request.split, folder=settings.folder),
        rules_for(request, settings, image),
        targets,
        selection=request.selection,
        min_tasks=request.min_tasks,
        token=hub_token(request, settings),
    )


def hub_token(request: DatasetRequest, settings: Settings) -> str | None:
    """Return the token for the Hub.

    The request's, else HF_TOKEN of the settings (which include the Hub client's login).
    """
    return request.token or settings.get("HF_TOKEN")


def is_local_only(image: str, lock: Path | None) -> bool:
    """Return whether an image is only on this computer, judging by its name and the lock file."""
    if lock is not None:
        known = read_lock(lock)
        if image in known.images:
            return known.image_here is not None and image != known.image_pushed
    return is_local_image(image)


def check_tasks(
    request: DatasetRequest, settings: Settings
) -> Iterator[Progress | ConversionResult]:
    """Read and check the tasks of a request without writing anything.

    Raises:
        InputError: As `convert`.
        HubError: As `convert`.
    """
    _, image, _ = lock_image(settings, request.image)
    plain = replace(request, remote=False, replace_secrets=False, strict=False)
    yield from convert_request(plain, settings, image, ())


def names_for(request: DatasetRequest, settings: Settings) -> tuple[str, ...]:
    """Suggest names for the dataset, the best first."""
    _, image, _ = lock_image(settings, request.image)
    return suggest_names(image=image, folder=settings.folder)


def make_dataset(
    request: DatasetRequest, settings: Settings, *, dry: bool = False
) -> Iterator[Progress | Notice | DatasetResult]:
    """Make a dataset step by step; the last step is the result.

    Args:
        request: What to make.
        settings: Of the project.
        dry: Refuse what would be refused, and neither write nor push anything.

    Raises:
        InputError: The request is not possible, or no task can be used (`TaskErrors`: with all
            problems).
        HubError: The Hub refuses or cannot be reached. A local result has been written by then.
    """
    lock, image, notices = lock_image(settings, request.image)
    yield from notices
    here = image if image is not None and is_local_only(image, lock) else None
    name = _name(request, settings)
    if request.remote and image is None:
        raise InputError(
            "local servers can only be made remote when an image is known",
            fix=(
                f"Build the environment so that {settings.platform.lock_name} names one, or give "
                "--image."
            ),
        )
    target = _target(request, settings, name)
    with temporary_folder("hudtui-dataset") as folder:
        targets = [target] if target is not None else []
        staged = Target(folder / "dataset", "repository")
        check_targets(targets, find_source(request.tasks, folder=settings.folder))
        if dry:
            targets = [staged]
        elif request.push:
            targets.append(staged)
        converted: ConversionResult | None = None
        for step in convert_request(request, settings, image, targets):
            if isinstance(step, ConversionResult):
                converted = step
            else:
                yield step
        assert converted is not None
        yield from _remarks(converted, request)
        if here is not None and not request.push and (moved := _on_image(converted)):
            yield Notice(
                "warning",
                f"{some_tasks(moved, 'name')} the image {here}, which is on this computer alone: "
                f"{_PUSH_IT}",
            )
        own = _own_file(request, settings, converted) if request.in_place else None
        if request.push and here is not None:
            yield from _refuse_local_image(converted, settings, here)
        if request.push:
            _refuse_secrets(converted, request)
        made = DatasetResult(converted, target.path if target is not None else None)
        if dry:
            yield made
            return
        if own is not None:
            yield from _in_place(request, settings, image, own)
        if request.push:
            for published in _publish(request, settings, converted, staged.path, name, image):
                if isinstance(published, Pushed):
                    made = replace(made, pushed=published)
                else:
                    yield published
    called = (
        made.pushed.repo
        if made.pushed is not None
        else _called(made.output, settings)
        if made.output
        else name
    )
    now = datetime.now(UTC).replace(tzinfo=None)
    try:
        if lock is not None and updates_lock(request, settings):
            set_primary_dataset(lock, called, converted.tasks, now)
            made = replace(made, lock=lock)
        elif lock is not None and request.name_in_lock is None:
            yield Notice(
                "info",
                f"{lock.name} stays as it is: these tasks are not of this project; --lock names "
                "them there",
            )
        elif (
            lock is None
            and updates_lock(request, settings)
            and find_lock(settings.folder, settings.platform) is None
        ):
            made = replace(
                made, note=save_dataset_name(settings.folder, called, converted.tasks, now)
            )
    except InputError as error:  # the dataset is there; only the note about it is missing
        what = (
            "the lock file was not updated"
            if lock is not None
            else "which dataset this project has is not written down"
        )
        yield Notice("warning", f"{what}: {error.lines()[0]}")
    yield made


_PUSH_IT = (
    "push it (hudtui rl --push-image ghcr.io/my-org/), so that the lock file names it, or give "
    "--image NAME"
)


def _on_image(converted: ConversionResult) -> int:
    """Return the number of tasks whose server got the image."""
    return converted.inferred + converted.rewritten.get(REMOTE, 0)


def _refuse_local_image(
    converted: ConversionResult, settings: Settings, image: str
) -> Iterator[Notice]:
    """Refuse to publish tasks that name an image which the platform cannot pull.

    Warn if the platform is local.
    """
    moved = _on_image(converted)
    if not moved:
        return
    if is_loopback(
        settings.platform.url("mcp", settings.get) or ""
    ):  # each player has a platform of their own
        yield Notice(
            "warning",
            f"{some_tasks(moved, 'name')} the image {image}, which is on this computer alone: "
            f"{_PUSH_IT}",
        )
        return
    raise InputError(
        f"{plural(moved, 'task')} would run on the image {image}, which is on this computer alone; "
        "nothing is published",
        why=f"{settings.platform.title} cannot have it.",
        fix=f"{_PUSH_IT[:1].upper()}{_PUSH_IT[1:]}.",
    )


def updates_lock(request: DatasetRequest, settings: Settings) -> bool:
    """Return whether a request names its result in the lock file.

    If requested, or if the tasks are the project's own.
    """
    if request.name_in_lock is not None:
        return request.name_in_lock
    path = find_source(request.tasks, folder=settings.folder).path
    return path is not None and path.resolve().is_relative_to(settings.folder.resolve())


def _called(output: Path, settings: Settings) -> str:
    """Return the name of a local dataset for the lock file.

    Its path, relative to the project folder if it is inside.
    """
    try:
        return output.resolve().relative_to(settings.folder.resolve()).as_posix()
    except ValueError:
        return str(output)


def _name(request: DatasetRequest, settings: Settings) -> str:
    if request.name is not None:
        return check_name(request.name, local=not request.push)
    if not request.push:
        return name_from_file(
            find_source(request.tasks, folder=settings.folder).repo or str(request.tasks)
        )
    suggested = names_for(request, settings)
    raise InputError(
        "the dataset needs a name to be pushed under",
        fix=f"Give --name, e.g. --name {suggested[0]}, or --no-push to stay local.",
    )


_FORMATS: tuple[tuple[str, Format], ...] = (
    (".parquet", "parquet"),
    (".jsonl", "jsonl"),
    (".ndjson", "jsonl"),
    (".json", "json"),
)


def _target(request: DatasetRequest, settings: Settings, name: str) -> Target | None:
    """Return the path and format of the local result; None if there is none."""
    form = cast("Format | None", request.format)
    if request.output is None:
        if request.push:
            return None
        form = form or "parquet"
        several = len(request.selection.splits) > 1
        suffix = (
            ""
            if form == "dataset" or several
            else {"parquet": ".parquet", "json": ".json"}.get(form, ".jsonl")
        )
        return Target(settings.folder / f"{file_name(name)}{suffix}", form)
    path = settings.folder / typed_path(request.output)
    if form is None:
        form = next((form for suffix, form in _FORMATS if path.name.endswith(suffix)), None)
        if form is None:
            form = "parquet" if len(request.selection.splits) > 1 else "dataset"
    if path.name.endswith((".gz", ".zst")):
        raise InputError(
            "compressed files are read, not written",
            fix="Parquet is compressed by itself.",
            where=Location(str(path)),
        )
    return Target(path, form)


def _remarks(converted: ConversionResult, request: DatasetRequest) -> Iterator[Notice]:
    """Yield what a user should know before the dataset is used."""
    noticed = converted.rewritten
    train = converted.written.get("train", 0)
    if train < MIN_TASKS:
        few = f"{plural(train, 'task')} {'is' if train == 1 else 'are'} few"
        message = (
            f"{few}: training wants at least {MIN_TASKS}; --min-tasks {MIN_TASKS} repeats them"
        )
        yield Notice("warning", message)
    if noticed.get(SEVERAL):
        message = (
            f"{noticed[SEVERAL]:,} tasks have several local servers, which one image cannot "
            "replace; they stay local"
        )
        yield Notice("warning", message)
    elif noticed.get(LOCAL):
        message = (
            f"{some_tasks(noticed[LOCAL], 'run')} on servers of this machine; elsewhere they need "
            "--remote"
        )
        yield Notice("info", message)


def _own_file(
    request: DatasetRequest, settings: Settings, converted: ConversionResult
) -> Target | None:
    """Return the tasks' own file, in its format; None where nothing in it changes.

    Raises:
        InputError: The file cannot be changed in place, or would lose tasks.
    """
    source = find_source(request.tasks, folder=settings.folder)
    path = source.path
    form: Format | None = None
    if source.kind == "file" and path is not None:
        form = (
            "tasks-jsonl"
            if re.search(r"\.(jsonl|ndjson)$", path.name)
            else "json"
            if path.suffix == ".json"
            else None
        )
    if form is None or path is None:
        raise InputError(
            "only .json and .jsonl files are changed in place", where=Location(source.name)
        )
    if request.selection != TaskSelection():
        raise InputError(
            "filters, samples, shuffling and splits do not go with --in-place: tasks would be lost"
        )
    if converted.findings.count("error"):
        raise TaskErrors("the file stays as it is: unusable tasks would be lost", converted)
    changed = converted.duplicated + converted.inferred
    changed += converted.rewritten.get(REMOTE, 0) + converted.rewritten.get(REPLACED, 0)
    return Target(path, form, replaces_source=True) if changed else None


def _in_place(
    request: DatasetRequest, settings: Settings, image: str | None, own: Target
) -> Iterator[Progress | Notice]:
    """Write changed tasks into their own file."""
    for step in convert_request(request, settings, image, [own]):
        if isinstance(step, Progress):
            yield step
    yield Notice("info", f"{own.path.name} was changed in place")


def _refuse_secrets(converted: ConversionResult, request: DatasetRequest) -> None:
    """Refuse to publish secrets that are written out.

    Raises:
        InputError: There are some, and the user has not said that they are to be kept.
    """
    exposed = converted.rewritten.get(SECRETS, 0)
    if exposed and not request.keep_secrets:
        raise InputError(
            f"{some_tasks(exposed, 'hold')} a secret that is written out, and pushing would give "
            "it away",
            fix=(
                "--replace-secrets puts variables in their place; --keep-secrets pushes them as "
                "they are."
            ),
            where=Location(converted.source),
        )


def _publish(
    request: DatasetRequest,
    settings: Settings,
    converted: ConversionResult,
    folder: Path,
    name: str,
    image: str | None,
) -> Iterator[Progress | Pushed]:
    files = {
        path.relative_to(folder).as_posix(): path for path in sorted((folder / "data").iterdir())
    }
    source = find_source(request.tasks, folder=settings.folder)
    facts = CardFacts(
        repo=name,
        splits=converted.written,
        columns=converted.columns,
        source=source.repo or Path(source.name).name,
        image=image,
        duplicated=converted.duplicated,
        skipped=converted.total - converted.valid,
    )
    yield from push(files, facts, private=request.private, token=hub_token(request, settings))


# -- preview
# --------------------------------------------------------------------------------------------------

PREVIEW_ROWS = 3
"""Rows that a preview shows."""


@dataclass(frozen=True)
class DatasetPreview:
    """Result that a request would write."""

    total: int
    """Tasks in the source."""
    valid: int
    """Tasks without an error."""
    passed: int
    """Valid tasks that pass the filters."""
    splits: dict[str, int]
    """Rows by split, copies included."""
    duplicated: int
    """Copies among them."""
    problems: int
    """Problems that would end a strict conversion."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    """The first rows, before shuffling and sampling, with a text for each column."""
    exact: bool = True
    """True if all tasks have been counted."""


def preview(
    request: DatasetRequest,
    settings: Settings,
    source: TaskSource,
    *,
    known: TaskIndex | None = None,
) -> Iterator[Progress | DatasetPreview]:
    """Preview what a request would write.

    First with the first rows only, and last with the final counts.

    Args:
        request: As for `make_dataset`; its targets do not matter.
        settings: Of the project.
        source: Its tasks, on this machine.
        known: All its tasks, read under the same rules, so that they need not be counted again.

    Raises:
        InputError: The tasks cannot be read, or a filter is not valid.
    """
    _, image, _ = lock_image(settings, request.image)
    filters = [task_filter(text) for text in request.selection.filters]
    shortcut = (
        known if not filters and not request.strict and request.token_budget is None else None
    )
    layout = DatasetLayout()
    head: list[CheckedTask] = []
    total = valid = passed = problems = 0
    for batch in scan(source, rules_for(replace(request, strict=False), settings, image)):
        total += batch.count
        valid += len(batch.tasks)
        problems += len(batch.problems)
        tasks = [task for task in batch.tasks if all(one.matches(task) for one in filters)]
        passed += len(tasks)
        layout.covers(tasks)
        if tasks and not head:
            head = tasks[:PREVIEW_ROWS]
            if shortcut is not None:
                usable = shortcut.counts["ok"] + shortcut.counts["warning"]
                counts = (shortcut.total, usable, usable, len(shortcut.problems))
                yield _with_columns(
                    _preview(request, layout, head, *counts), tuple(shortcut.extras)
                )
                return
            yield replace(
                _preview(request, layout, head, total, valid, passed, problems), exact=False
            )
        yield Progress("read", f"{total:,} tasks", batch.done, batch.size)
    yield _preview(request, layout, head, total, valid, passed, problems)


def _with_columns(found: DatasetPreview, names: tuple[str, ...]) -> DatasetPreview:
    """Return a preview with further columns that its rows have no values for."""
    known = (*found.columns, SOLUTION)
    further = tuple(name for name in names if name not in known)
    rows = tuple((*row, *(None for _ in further)) for row in found.rows)
    return replace(found, columns=(*found.columns, *further), rows=rows)


def _preview(
    request: DatasetRequest,
    layout: DatasetLayout,
    head: list[CheckedTask],
    total: int,
    valid: int,
    passed: int,
    problems: int,
) -> DatasetPreview:
    selection = request.selection
    wanted = passed if selection.sample is None else min(selection.sample, passed)
    test = test_rows(selection.test, wanted)
    train = wanted - test
    copies = max(request.min_tasks - train, 0) if train else 0
    splits = {"train": train + copies}
    if selection.test:
        splits["test"] = test
    texts = layout.record_batch(head)
    rows = tuple(
        zip(*(texts.column(place).to_pylist() for place in range(texts.num_columns)), strict=True)
    )
    return DatasetPreview(
        total, valid, passed, splits, copies, problems, tuple(layout.schema().names), rows
    )
