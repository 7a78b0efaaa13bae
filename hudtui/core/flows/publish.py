"""Decisions before tasks become a dataset: their changes, the target of a push, its readers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import InputError, Location
from hudtui.core.events import Progress, iterate_in_thread
from hudtui.core.flows.person import Person, may_replace
from hudtui.core.project import Project
from hudtui.core.settings import Settings
from hudtui.core.text import plural, some_tasks

if TYPE_CHECKING:
    from hudtui.core.tasks.dataset import DatasetRequest
    from hudtui.core.tasks.migrate import Migration
    from hudtui.core.tasks.publish import RepoStatus
    from hudtui.core.tasks.read import TaskSource


@dataclass(frozen=True)
class DatasetChoice:
    """A change of the tasks that a command asks about, and that is a switch on screen."""

    field: str
    """Name of the field of the request."""
    value: Any
    """Value of the field if the change is made."""
    tasks: int
    """Tasks that the change is about."""
    question: str
    label: str
    """The change, as the label of a switch."""
    default: bool
    why_not: str | None = None
    """Reason why the change is impossible or not needed; None if it can be made."""

    def taken(self, request: DatasetRequest) -> DatasetRequest:
        """Return the request with the change."""
        return replace(request, **{self.field: self.value})


@dataclass(frozen=True)
class DatasetChoices:
    """Choices that a request leaves open."""

    remote: DatasetChoice
    """Run servers of this machine behind the platform instead."""
    secrets: DatasetChoice
    """Replace secrets by variables."""
    copies: DatasetChoice
    """Repeat tasks until there are enough for a training."""
    names: tuple[str, ...]
    """Suggested names on the Hub, the best first."""
    lock: str | None
    """Name of the project's lock file, if there is one and it can be read."""
    own: bool
    """The tasks come from the project itself, so that its lock file names the dataset."""
    token: bool
    """There is a token for the Hub."""

    def open(self, decided: Collection[str] = ()) -> tuple[DatasetChoice, ...]:
        """Return the offers that can be taken, in the order of their questions.

        Args:
            decided: Fields of the request that the user has decided about.
        """
        offers = (self.remote, self.secrets, self.copies)
        return tuple(
            offer for offer in offers if offer.why_not is None and offer.field not in decided
        )


def find_choices(
    request: DatasetRequest, settings: Settings, noticed: Mapping[str, int], usable: int
) -> DatasetChoices:
    """Return what a request leaves open. Reads the disk, not the tasks.

    Args:
        request: The request.
        settings: Of the project.
        noticed: Number of tasks by what was noticed in their `mcp_config`; see
            `core.tasks.servers`.
        usable: Number of usable tasks.

    Raises:
        InputError: There is no such source of tasks.
    """
    from hudtui.core.tasks.dataset import MIN_TASKS, hub_token, names_for, updates_lock
    from hudtui.core.tasks.read import lock_image
    from hudtui.core.tasks.servers import LOCAL, SECRETS

    lock, _, _ = lock_image(settings)
    image, why_not = _remote_image(request, settings)
    local, secrets = noticed.get(LOCAL, 0), noticed.get(SECRETS, 0)
    return DatasetChoices(
        remote=DatasetChoice(
            "remote",
            True,
            local,
            f"{some_tasks(local, 'run')} on servers of this machine. Run them on "
            f"{settings.platform.title} with {image} instead?",
            f"run {local:,} local ones remotely with {image}",
            default=False,
            why_not="no task has one on this machine"
            if not local
            else f"{local:,} local, and {why_not}"
            if why_not
            else None,
        ),
        secrets=DatasetChoice(
            "replace_secrets",
            True,
            secrets,
            f"{some_tasks(secrets, 'hold')} a secret that is written out. Put a variable in its "
            "place?",
            f"put variables in the place of those in {secrets:,} task{'' if secrets == 1 else 's'}",
            default=True,
            why_not=None if secrets else "none is written out",
        ),
        copies=DatasetChoice(
            "min_tasks",
            MIN_TASKS,
            usable,
            f"There are {usable} tasks, and training wants at least {MIN_TASKS}. Repeat them?",
            f"repeat {usable} tasks until there are {MIN_TASKS}",
            default=True,
            why_not=None
            if 0 < usable < MIN_TASKS
            else "there are enough tasks"
            if usable
            else "no task can be used",
        ),
        names=names_for(request, settings),
        lock=lock.name if lock is not None else None,
        own=updates_lock(request, settings),
        token=hub_token(request, settings) is not None,
    )


def take_choices(
    request: DatasetRequest, settings: Settings, decided: Collection[str] = ()
) -> DatasetRequest:
    """Return a request with every offer taken, for a user who agreed in advance.

    The tasks are not read for that.

    Args:
        request: The request.
        settings: Of the project.
        decided: Fields of the request that the user has decided about.
    """
    from hudtui.core.tasks.dataset import MIN_TASKS, names_for

    if request.push and request.name is None:
        request = replace(request, name=names_for(request, settings)[0])
    image, _ = _remote_image(request, settings)
    taken = {"remote": image is not None, "replace_secrets": True, "min_tasks": MIN_TASKS}
    open_fields = {field: value for field, value in taken.items() if field not in decided}
    return replace(request, **open_fields)  # type: ignore[arg-type]


def _remote_image(request: DatasetRequest, settings: Settings) -> tuple[str | None, str | None]:
    """Return the image that the platform would run for local servers, or why there is none."""
    from hudtui.core.tasks.dataset import is_local_only
    from hudtui.core.tasks.read import lock_image

    lock, image, _ = lock_image(settings, request.image)
    if image is None:
        return None, "no lock file names an image"
    if is_local_only(image, lock):
        return None, f"only this computer has {image}"
    return image, None


async def find_destination(request: DatasetRequest, settings: Settings) -> RepoStatus:
    """Return the dataset on the Hub that a push would change, or make.

    Raises:
        InputError: The name is not valid.
        HubError: The Hub refuses or cannot be reached, or the dataset is public and a private one
            is wanted.
    """
    from hudtui.core.tasks.dataset import hub_token
    from hudtui.core.tasks.hub import use_hub_of
    from hudtui.core.tasks.publish import repo_status

    use_hub_of(settings)
    token = hub_token(request, settings)
    return await asyncio.to_thread(
        repo_status, request.name or "", private=request.private, token=token
    )


async def agree_to_push(
    request: DatasetRequest,
    destination: RepoStatus,
    person: Person,
    *,
    rows: int | None = None,
    secrets: int = 0,
) -> bool:
    """Ask the person before a push: where the dataset goes, and who will see it.

    Args:
        request: The request.
        destination: The dataset on the Hub.
        person: Agrees or not.
        rows: Rows of the dataset; None if they have not been counted.
        secrets: Tasks with a secret that is written out.
    """
    from hudtui.core.tasks.hub import endpoint

    count = "" if rows is None else f"{rows:,} {'row' if rows == 1 else 'rows'} "
    replaced = "The rows that are there now are replaced; the Hub keeps them in its history."
    lines = [
        f"{count}to {endpoint()}/datasets/{destination.repo}",
        "private: only you and your organisation see it"
        if destination.private
        else "! PUBLIC: everyone can read it",
        replaced if destination.exists else "It is new.",
    ]
    if request.keep_secrets and secrets:
        lines.append(f"! {plural(secrets, 'task')} with secrets as they are written")
    title = f"Publish {destination.repo}?"
    return await person.confirm(
        title, tuple(lines), yes="Publish", no="Back", danger=not destination.private
    )


def suggested_output(source: str) -> str:
    """Return where a conversion writes by default.

    The source's name with another suffix, never the source itself.
    """
    stem = re.sub(r"\.(gz|zst)$", "", PurePath(source.partition("@")[0].partition(":")[0]).name)
    stem, _, suffix = stem.rpartition(".") if "." in stem else (stem, "", "")
    return f"{stem or 'tasks'}{'-checked' if suffix == 'parquet' else ''}.parquet"


async def carry_to_v6(
    project: Project, person: Person, source: TaskSource, output: Path | None = None
) -> AsyncIterator[Progress | Migration]:
    """Write tasks in HUD's v6 format.

    Args:
        project: The project; a relative path is one in its folder.
        person: Names the file if `output` does not, and agrees that a file is replaced.
        source: A source on this machine.
        output: A `.json` or `.jsonl` file.

    Yields:
        A `Progress` while tasks are written, then the `Migration`. Nothing when the person
        declines.

    Raises:
        InputError: The file is not one of tasks, cannot be written, or the tasks cannot be
            converted.
    """
    from hudtui.core.tasks.migrate import migrate_to_v6

    if output is None:
        stem = suggested_output(source.name).removesuffix(".parquet").removesuffix("-checked")
        name = await person.ask("Save tasks for HUD v6 as", value=f"{stem}-v6.json")
        if name is None:
            return
        if not name.strip():
            person.say("Nothing is written: the tasks need a file name.")
            return
        output = Path(name.strip())
    path = project.folder / output
    if path.suffix not in (".json", ".jsonl", ".ndjson"):
        raise InputError("a task file ends in .json or .jsonl", where=Location(str(output)))
    if not await may_replace(person, path, str(output)):
        return
    yield Progress("read", "Reading the tasks")
    async with aclosing(iterate_in_thread(migrate_to_v6(source, path))) as steps:  # type: ignore[type-var]
        async for step in steps:
            yield step
