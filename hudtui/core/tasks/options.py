"""Options of a dataset that is made of tasks.

Commands import this module at their start: it stays small.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hudtui.core.knobs import knob

FORMATS = ("parquet", "jsonl", "dataset", "json", "tasks-jsonl")
"""Formats of a local result; see `write.Format`."""


@dataclass(frozen=True)
class TaskSelection:
    """Which of the usable tasks are taken."""

    filters: tuple[str, ...] = knob(
        (),
        "Keep only tasks that match, e.g. 'metadata.difficulty:easy prompt:tile'.",
        "--filter",
        metavar="TEXT",
        label="filter",
    )
    """Filters of `core.row_filter` over the fields of a task and paths in them; a task must match
    all."""
    shuffle: bool = knob(False, "Shuffle the tasks.", "--shuffle")
    sample: int | None = knob(None, "Take a random sample of this size.", minimum=1)
    test: float | None = knob(
        None, "Put a share (below 1) or a number of tasks into a test split.", minimum=0
    )
    seed: int = knob(0, "Random seed.")

    @property
    def needs_all(self) -> bool:
        """True if nothing can be written before everything has been read."""
        return self.shuffle or self.sample is not None or bool(self.test)

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the resulting splits."""
        return ("train", "test") if self.test else ("train",)


@dataclass(frozen=True, kw_only=True)
class DatasetOptions:
    """Options of a dataset."""

    name: str | None = knob(None, "ORG/NAME on the Hub, or the name of a local file.")
    private: bool | None = knob(
        None,
        "Who may see it. By default a new dataset is private, and an existing one stays as it is.",
        "--private/--public",
    )
    output: Path | None = knob(
        None,
        "Local result: .parquet, .jsonl, .json, or a folder as datasets saves it.",
        "--output",
        "-o",
        label="write to",
    )
    format: str | None = knob(
        None, f"Form of the local result: {', '.join(FORMATS)}.", in_form=False
    )
    """None: by the suffix of `output`, else Parquet."""
    split: str | None = knob(None, "Split of a dataset that has several.", in_form=False)
    remote: bool = knob(
        False,
        "Run local servers behind the platform instead, or leave them local.",
        "--remote/--local",
        label="servers",
    )
    image: str | None = knob(None, "Image for --remote, instead of the lock file's.", in_form=False)
    replace_secrets: bool = knob(
        False,
        "Replace keys and tokens in the tasks by variables.",
        "--replace-secrets",
        label="secrets",
    )
    keep_secrets: bool = knob(
        False, "Push keys and tokens in the tasks as they are.", "--keep-secrets"
    )
    min_tasks: int = knob(
        0,
        "Duplicate tasks under new ids up to this number.",
        label="at least",
        minimum=0,
        maximum=1e9,
    )
    strict: bool = knob(False, "Fail on any problem, warnings included.", "--strict", place=1)
    token_budget: int | None = knob(
        None,
        "Warn about prompts with more tokens than this (estimated).",
        label="budget",
        place=1,
        minimum=1,
    )
    name_in_lock: bool | None = knob(
        None,
        "Name the dataset in the lock file; by default for tasks of this project.",
        "--lock/--no-lock",
        label="lock",
        place=1,
    )
    in_place: bool = knob(
        False,
        "Also write changed servers and copies back into the task file.",
        "--in-place",
        place=1,
    )
