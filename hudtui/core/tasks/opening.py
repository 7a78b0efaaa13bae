"""Opening a source of tasks to look at it: read into an index, in a thread of its own, until done or stopped.

Imports msgspec: import this module late.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, cast

from hudtui.core.errors import HudtuiError
from hudtui.core.lockfile import find_lock, read_lock
from hudtui.core.platform import Platform
from hudtui.core.settings import Settings, load_settings
from hudtui.core.tasks.read import SourceFile, TaskSource, arrow_batches, find_source, folder_files, is_arrow, record_chunks
from hudtui.core.tasks.rewrite import rewriting
from hudtui.core.tasks.rules import Rules
from hudtui.core.tasks.table import TaskIndex

if TYPE_CHECKING:
    from hudtui.core.environment.values import Analysis
    from hudtui.core.tasks.scan import TaskBatch

Fingerprint = tuple[tuple[str, int, int], ...]
"""What the files of a source look like from outside: path, size, time of the last change."""


@dataclass(frozen=True)
class OpenedSource:
    """A source, and what its tasks are checked against."""

    source: TaskSource
    rules: Rules
    settings: Settings
    notices: tuple[str, ...] = ()


def open_source(
    text: str, folder: Path, platform: Platform, *, analysis: Analysis | None = None, token_budget: int | None = None
) -> OpenedSource:
    """What a person means by a name, and the rules of the project around it. Reads no task yet.

    Args:
        text: A file, a folder or a dataset on the Hub.
        folder: The project folder.
        platform: Its platform.
        analysis: Environment to check the calls of tasks against that run on it.
        token_budget: Longest prompt, in estimated tokens.

    Raises:
        InputError: There is no such thing.
    """
    settings = load_settings(folder, platform)
    source = find_source(text, folder=folder)
    lock, image, notices = find_lock(folder, platform), None, []
    if lock is not None:
        try:
            image = read_lock(lock).image
        except HudtuiError as error:
            notices.append(f"the lock file is left out: {error.lines()[0]}")
    rules = Rules(
        lookup=settings.lookup,
        lock_image=image,
        platform=platform,
        analysis=analysis,
        same_servers=True,
        folder=folder,
        token_budget=token_budget,
        rewrite=rewriting(platform, lookup=settings.lookup),  # changes nothing; what runs locally or holds secrets is counted
    )
    return OpenedSource(source, rules, settings, tuple(notices))


def download_source(opened: OpenedSource) -> OpenedSource:
    """Bring a dataset of the Hub to this machine; anything else is there already.

    Raises:
        InputError: There is no such dataset, or it holds no tasks.
        HubError: The Hub refuses or cannot be reached.
    """
    if opened.source.kind != "hub" or opened.source.files:
        return opened
    from hudtui.core.tasks.hub import fetch, use_hub_of

    use_hub_of(opened.settings)
    secret = opened.settings.secret("HF_TOKEN")
    token = secret.get_secret_value() if secret is not None else None
    return replace(opened, source=fetch(opened.source, token=token))


def read_into(index: TaskIndex, opened: OpenedSource, stop: Event, told: Callable[[], None]) -> bool:
    """Read a source into an index. Meant for a thread.

    Args:
        index: Gets the tasks.
        opened: What to read; a dataset of the Hub was brought here before.
        stop: Ends the reading at the next batch.
        told: Called after each batch, in this thread.

    Returns:
        Whether everything was read.

    Raises:
        InputError: The source as a whole cannot be read. What was read before stays in the index.
    """
    from hudtui.core.tasks.scan import scan

    with contextlib.closing(cast("Generator[TaskBatch, None, None]", scan(opened.source, opened.rules))) as batches:
        for batch in batches:
            if stop.is_set():
                return False
            index.add(batch)
            told()
    return not stop.is_set()


def files_of(source: TaskSource) -> list[Path]:
    """The files that a source consists of.

    Raises:
        InputError: A folder holds none.
    """
    if source.kind == "folder":
        return folder_files(source)[0]
    return [source.path] if source.path is not None else list(source.files)


def fingerprint(source: TaskSource) -> Fingerprint | None:
    """What the files look like now; None while one of them is missing."""
    try:
        return tuple((str(path), (stat := path.stat()).st_size, stat.st_mtime_ns) for path in files_of(source))
    except (OSError, HudtuiError):
        return None


def record_at(source: TaskSource, index: TaskIndex, task: int) -> Any:
    """What stands in the source for a task, whatever is wrong with it: data, or text where it is not JSON.

    Reads the source up to there: meant for a thread.

    Raises:
        InputError: The source cannot be read any more.
    """
    number, place = index.block_of(task)
    for path in files_of(source):
        with SourceFile(path, str(path)) as reading:
            if is_arrow(reading.head(8)):
                from hudtui.core.tasks.arrowrows import ArrowRows

                for batch in arrow_batches([path], reading.name, lambda _: None):
                    if number == 0:
                        return dict(ArrowRows(batch.slice(place, 1)).record(0))
                    number -= 1
                continue
            for chunk in record_chunks(reading):
                if number == 0:
                    records = list(chunk.records())
                    return _data(records[place][1]) if place < len(records) else None
                number -= 1
    return None


def _data(text: bytes) -> Any:
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.decode("utf-8", "replace")
