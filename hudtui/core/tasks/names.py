"""Names of datasets: which the Hub takes, and which to suggest."""

from __future__ import annotations

import re
from pathlib import Path

from hudtui.core.errors import InputError, Location

_PART = re.compile(r"[A-Za-z0-9_](?:[\w.-]*[A-Za-z0-9_])?")
LONGEST = 96


def check_name(name: str, *, local: bool = False) -> str:
    """A name of a dataset, `org/name` (or `name` alone, which means one's own), as the Hub takes it.

    Args:
        name: The name.
        local: It is never pushed: any name of a file will do.

    Raises:
        InputError: The Hub would refuse it; says why.
    """
    wanted = name.strip()

    def refuse(why: str) -> InputError:
        return InputError(f"{name!r} cannot be the name of a dataset", why=why, fix="Take a name like my-org/my-tasks.")

    if not wanted or wanted.count("/") > 1:
        raise refuse("It is ORG/NAME, with at most one slash." if wanted else "It is empty.")
    if len(wanted) > LONGEST:
        raise refuse(f"It is longer than {LONGEST} characters.")
    for part in wanted.split("/"):
        if not part.isascii() or not _PART.fullmatch(part):
            raise refuse("Each part has letters, digits, -, _ and . only, and neither begins nor ends with - or a dot.")
        if not local and ("--" in part or ".." in part):
            raise refuse("-- and .. are not allowed.")
    if not local and wanted.endswith(".git"):
        raise refuse("It must not end with .git.")
    return wanted


def suggest_names(*, user: str | None = None, image: str | None = None, folder: Path | None = None) -> tuple[str, ...]:
    """Names for a dataset of a project's tasks, the best first.

    Args:
        user: Name on the Hub. Without it the names have no owner: on the Hub they mean one's own.
        image: Image of the lock file: its own name says what the tasks are about.
        folder: The project folder.
    """
    owner = f"{_tidy(user)}/" if user and _tidy(user) else ""
    found: list[str] = []
    if image:
        repository = image.partition("@")[0]
        last = repository.rpartition("/")[2].partition(":")[0]
        if base := _tidy(last):
            found.append(f"{owner}{base}-tasks")
    if folder is not None and (base := _tidy(folder.resolve().name)):
        found.append(f"{owner}{base if base.endswith('tasks') else base + '-tasks'}")
    found.append(f"{owner}tasks")
    return tuple(dict.fromkeys(found))


def file_name(name: str) -> str:
    """What a local file of that dataset is called, without a suffix."""
    return check_name(name, local=True).rpartition("/")[2]


def _tidy(text: str) -> str:
    text = re.sub(r"[^a-z0-9._-]+", "-", text.lower())
    return re.sub(r"([.-])[.-]+", r"\1", text).strip("-.")[:60]


def name_from_file(path: str) -> str:
    """A name for the dataset that is made from a task file: `my_tasks.jsonl.gz` -> `my_tasks`."""
    stem = Path(path).name
    stem = re.sub(r"\.(gz|zst)$", "", stem)
    stem = re.sub(r"\.(jsonl?|ndjson|parquet|arrow)$", "", stem)
    tidy = re.sub(r"[^\w.-]+", "-", stem, flags=re.ASCII).strip("-.")
    if not tidy:
        raise InputError("no name for the dataset comes from this file", fix="Give one with --name.", where=Location(path))
    return tidy
