"""Tasks in HUD's v4 format, what can be wrong with them, and names of datasets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hudtui.core.errors import InputError, Location

Severity = Literal["error", "warning"]

LONGEST_NAME = 96
"""Characters of a dataset's name on the Hub."""
_NAME_PART = re.compile(r"[A-Za-z0-9_](?:[\w.-]*[A-Za-z0-9_])?")


@dataclass(frozen=True)
class ToolCall:
    """A call of an MCP tool that the task itself makes; the agent does not see it."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """A task: what an agent is asked to do, where, and how the outcome is judged.

    Read from a file and valid.
    """

    id: str
    prompt: str
    mcp_config: Mapping[str, Any] = field(default_factory=dict)
    """Server name -> `{"command", "args", "env"}`, `{"url", "headers"}` or all of them; variables
    unresolved, as written."""
    setup: tuple[ToolCall, ...] = ()
    evaluate: tuple[ToolCall, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the file beside these, kept for the dataset. `evaluate` is one of them:
    `expectation_form.parts_of` reads it."""

    @property
    def judged(self) -> bool:
        """True if the task says how its outcome is judged."""
        return bool(self.evaluate or self.extra.get("evaluate"))


def task_record(task: Task) -> dict[str, Any]:
    """Return a task as a JSON object in HUD's v4 form; reading it gives the same task."""
    record: dict[str, Any] = {
        **task.extra,
        "id": task.id,
        "prompt": task.prompt,
        "mcp_config": task.mcp_config,
    }
    for name, calls in (("setup_tool", task.setup), ("evaluate_tool", task.evaluate)):
        made = [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]
        if made:
            record[name] = made[0] if len(made) == 1 else made
    if task.metadata:
        record["metadata"] = dict(task.metadata)
    return record


class FieldProblem(NamedTuple):
    """A problem of a record, before the record's place in its source is known."""

    field: str | None
    message: str
    code: str
    severity: Severity = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProblem:
    """A problem of a task.

    An error excludes the task; a warning does not, unless warnings are treated as errors
    (`strict`). The fields stand in the order in which `hudtui tasks check --json` and
    `hudtui hf --json` print them.
    """

    file: str = ""
    index: int
    """Position of the task in its source, counting from 0."""
    id: str | None
    line: int | None = None
    """Line of the task in its file, counting from 1; None where the source has no lines (Parquet,
    Hub)."""
    field: str | None
    """Dotted path inside the task, e.g. `mcp_config.hud.headers.Authorization`; None for the task
    as a whole."""
    severity: Severity = "error"
    code: str = "invalid"
    """Stable name of the kind of problem, for filters: `missing`, `type`, `json`, `duplicate-id`,
    `secret`, ..."""
    message: str
    """A sentence that does not name the place."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        name = f"task {self.index}" + (f" ({self.id})" if self.id else "")
        field = f" {self.field}:" if self.field else ""
        return f"{place + ': ' if place else ''}{name}:{field} {self.message}"


def json_kind(value: Any) -> str:
    """Return the JSON kind of a value with its article: `a number`, `an object`, ..."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "an object"
    return "a list"


def check_name(name: str, *, local: bool = False) -> str:
    """Return the name of a dataset without blanks around it, if the Hub takes it.

    `org/name`, or `name` for the user's own.

    Args:
        name: The name.
        local: Accept what is valid as the name of a local file, too.

    Raises:
        InputError: The Hub would refuse the name; says why.
    """
    wanted = name.strip()

    def refuse(why: str) -> InputError:
        return InputError(
            f"{name!r} cannot be the name of a dataset",
            why=why,
            fix="Take a name like my-org/my-tasks.",
        )

    if not wanted or wanted.count("/") > 1:
        raise refuse("It is ORG/NAME, with at most one slash." if wanted else "It is empty.")
    if len(wanted) > LONGEST_NAME:
        raise refuse(f"It is longer than {LONGEST_NAME} characters.")
    for part in wanted.split("/"):
        if not part.isascii() or not _NAME_PART.fullmatch(part):
            raise refuse(
                "Each part has letters, digits, -, _ and . only, and neither begins nor ends with "
                "- or a dot."
            )
        if not local and ("--" in part or ".." in part):
            raise refuse("-- and .. are not allowed.")
    if not local and wanted.endswith(".git"):
        raise refuse("It must not end with .git.")
    return wanted


def suggest_names(*, image: str | None = None, folder: Path | None = None) -> tuple[str, ...]:
    """Suggest names for a dataset of a project's tasks, the best first.

    Without an owner they mean the user's own on the Hub.

    Args:
        image: Image of the lock file; its name says what the tasks are about.
        folder: Project folder.
    """
    found: list[str] = []
    if image:
        repository = image.partition("@")[0]
        last = repository.rpartition("/")[2].partition(":")[0]
        if base := _tidy(last):
            found.append(f"{base}-tasks")
    if folder is not None and (base := _tidy(folder.resolve().name)):
        found.append(base if base.endswith("tasks") else f"{base}-tasks")
    found.append("tasks")
    return tuple(dict.fromkeys(found))


def _tidy(text: str) -> str:
    text = re.sub(r"[^a-z0-9._-]+", "-", text.lower())
    return re.sub(r"([.-])[.-]+", r"\1", text).strip("-.")[:60]


def file_name(name: str) -> str:
    """Return the name of a dataset's local file, without a suffix."""
    return check_name(name, local=True).rpartition("/")[2]


def name_from_file(path: str) -> str:
    """Return a name for the dataset that is made from a task file.

    `my_tasks.jsonl.gz` -> `my_tasks`.

    Raises:
        InputError: The file's name has no letter or digit.
    """
    stem = re.sub(r"\.(gz|zst)$", "", Path(path).name)
    stem = re.sub(r"\.(jsonl?|ndjson|parquet|arrow)$", "", stem)
    tidy = re.sub(r"[^\w.-]+", "-", stem, flags=re.ASCII).strip("-.")
    if not tidy:
        raise InputError(
            "this file's name gives no name for the dataset",
            fix="Give one with --name.",
            where=Location(path),
        )
    return tidy
