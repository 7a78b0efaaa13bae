"""The project folder.

Which configs, task files and lock it holds, and where this program keeps its own files in it.
Finding them reads names, sizes and the beginning (of Parquet: the end) of files that could be tasks
or configs, and parses nothing. Results are kept until a file changes, so that a second search costs
little more than listing the folders.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from hudtui.core.errors import InputError, Location
from hudtui.core.files import file_lock, write_atomic
from hudtui.core.platform import Platform, explain_choice

STATE_FOLDER = ".hudtui"
"""The folder inside a workspace that belongs to this program."""
HELD_OUT = "-held-out"
"""End of the name, without its suffix, of a file of tasks that no training sees."""

_DATASET = "dataset.json"
"""In that folder: the dataset that was made last, if there is no lock file to name it."""
_DATASET_FILES = (".parquet", ".jsonl", ".json")

MAX_DEPTH = 3
"""Levels of folders below the workspace that are searched."""
MAX_ENTRIES = 20_000
"""The most files and folders that are examined."""

Kind = Literal["config", "art", "tasks", "scenarios"]
"""`art`: environments and settings of trainings with ART. Scenarios are tasks without a prompt,
which cannot be trained on directly; they are listed after the others."""

_SKIPPED = frozenset(
    (
        "node_modules",
        "__pycache__",
        "site-packages",
        "venv",
        "build",
        "dist",
        "outputs",
        "wandb",
        "target",
        "vendor",
    )
)
_RECORDS = ("traces.jsonl", "metrics.jsonl", "results.jsonl")
_SNIFFED = 256 * 1024
_TASK_NAMES = ("task.json", "*_task.json", "*tasks*.json", "*taskconfigs*.json", "*taskset*.json")
_PACKED = (".gz", ".zst")
_MAPPINGS = re.compile(rb"^(?:[\"']?)action_mappings(?:[\"']?)[ \t]*:", re.MULTILINE)
_GYM_KEY = re.compile(rb"^(?:job|system_prompt|parser|action_mappings|rubric)[ \t]*:", re.MULTILINE)
_ENVIRONMENTS = re.compile(rb"^environments[ \t]*:", re.MULTILINE)
_ANY_KEY = re.compile(rb"^[A-Za-z_][\w-]*[ \t]*:", re.MULTILINE)
_PROMPT = re.compile(rb"\"prompt\"\s*:")
_TASK_FIELD = re.compile(rb"\"(?:mcp_config|evaluate_tool|setup_tool|scenario|gym)\"\s*:")
_SCENARIO = re.compile(rb"\"env\"\s*:.*\"scenario\"\s*:|\"scenario\"\s*:.*\"env\"\s*:", re.DOTALL)
"""Tasks of generation 5; their prompts live in the environment."""
_NAMED_ENV = re.compile(
    rb"\"env\"\s*:\s*\"[^\"]*\".*\"(?:args|validation|columns)\"\s*:", re.DOTALL
)
"""Tasks of generation 6. A list of MCP servers has `env` and `args` too, but its `env` is an
object."""
_GITIGNORE = """\
# Runs, caches and analyses stay out of version control; platforms declared here may go in.
*
!/platforms/
!/platforms/*
"""


@dataclass(frozen=True)
class Workspace:
    """A project folder at one moment."""

    folder: Path
    platform: Platform
    configs: tuple[Path, ...] = ()
    """Gym configurations; those in `configs/` first."""
    art_configs: tuple[Path, ...] = ()
    """Files for `hudtui art train --config`; those in `configs/` first."""
    task_files: tuple[Path, ...] = ()
    """Files, and folders written by `datasets`, that look like tasks; those at the top first, tasks
    that are held out and scenarios last."""
    lock: Path | None = None
    """The platform's lock file, if it is there."""
    notices: tuple[str, ...] = ()
    """Remarks for the user: two lock files, more files than were examined."""

    @property
    def state_dir(self) -> Path:
        """The folder of this workspace's runs, caches and analyses.

        It need not exist; `make_state_dir` makes it.
        """
        return self.folder / STATE_FOLDER

    def relative(self, path: Path) -> str:
        """A path as it is shown: relative to the folder if it lies inside."""
        try:
            return str(path.relative_to(self.folder))
        except ValueError:
            return str(path)


def open_workspace(folder: Path, platform: Platform | None = None) -> Workspace:
    """Read what a project folder holds. Takes milliseconds and changes nothing.

    Args:
        folder: The folder. It may be empty or read-only.
        platform: The platform; by default as `explain_choice` picks it.

    Raises:
        InputError: It is not a folder or cannot be read, or the platform that the environment names
            cannot be used.
    """
    place = Path(os.path.abspath(folder))
    try:
        with os.scandir(place):
            pass
    except OSError as error:
        raise InputError(
            "this folder cannot be opened",
            why=error.strerror or str(error),
            where=Location(str(folder)),
        ) from None
    notices: list[str] = []
    if platform is None:
        choice = explain_choice(place)
        platform = choice.platform
        notices += choice.notices
    budget = _Budget()
    configs: dict[str, list[tuple[int, str, Path]]] = {"config": [], "art": []}
    tasks: list[tuple[bool, bool, int, str, Path]] = []
    for depth, entry in _walk(place, notices):
        kind = _kind(entry, budget)
        path = Path(entry.path)
        if kind in ("config", "art"):
            configs[kind].append(
                (0 if path.parent == place / "configs" else depth + 1, str(path), path)
            )
        elif kind is not None:
            held_out = path.stem.endswith(HELD_OUT)
            tasks.append((kind == "scenarios", held_out, depth, str(path), path))
    lock = place / platform.lock_name
    return Workspace(
        folder=place,
        platform=platform,
        configs=tuple(path for _, _, path in sorted(configs["config"])),
        art_configs=tuple(path for _, _, path in sorted(configs["art"])),
        task_files=tuple(path for *_, path in sorted(tasks)),
        lock=lock if lock.is_file() else None,
        notices=tuple(notices),
    )


def make_state_dir(folder: Path) -> Path:
    """Make `.hudtui/` in a project folder, and return its path.

    A `.gitignore` in it keeps it out of version control.

    Raises:
        InputError: The folder cannot be made, or is a link out of the project folder.
    """
    state = folder / STATE_FOLDER
    if state.is_symlink() and not state.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{STATE_FOLDER} is a link to a place outside of this folder, and is not written",
            why=f"It leads to {state.resolve()}.",
            fix="Replace the link by a folder.",
            where=Location(str(folder)),
        )
    try:
        state.mkdir(mode=0o700, exist_ok=True)
        _keep_others_out(state)
    except OSError as error:
        raise InputError(
            f"{STATE_FOLDER}/ cannot be made in this folder",
            why="Something else of that name is in the way."
            if isinstance(error, FileExistsError)
            else error.strerror or str(error),
            fix=(
                "Runs and caches are kept there: work in a folder that you may write to (hudtui -C "
                "FOLDER)."
            ),
            where=Location(str(folder)),
        ) from None
    ignore = state / ".gitignore"
    if not ignore.exists():
        with file_lock(ignore):
            if not ignore.exists():
                write_atomic(ignore, _GITIGNORE)
    return state


def _keep_others_out(folder: Path) -> None:
    """Remove other users' right to write.

    Whoever can replace a run's folder decides what is run.
    """
    status = folder.stat()
    if status.st_uid == os.geteuid() and status.st_mode & 0o022:
        folder.chmod(stat.S_IMODE(status.st_mode) & ~0o022)


def save_dataset_name(folder: Path, name: str, tasks: int, now: datetime) -> Path:
    """Record which dataset was made from this project's tasks, for a project without a lock file.

    Returns the record's path.

    Raises:
        InputError: See `make_state_dir`.
    """
    path = make_state_dir(folder) / _DATASET
    note = {"name": name, "task_count": tasks, "updated_at": now.isoformat(timespec="seconds")}
    write_atomic(path, json.dumps(note, indent=1) + "\n")
    return path


def last_dataset_name(folder: Path) -> str | None:
    """The dataset of the last `save_dataset_name`.

    None if nothing was saved, or if it was a file that no longer exists.
    """
    name, there = _saved_dataset(folder)
    return name if there else None


def lost_dataset_name(folder: Path) -> str | None:
    """The dataset of the last `save_dataset_name`, if it was a file that no longer exists.

    Else None.
    """
    name, there = _saved_dataset(folder)
    return None if there else name


def _saved_dataset(folder: Path) -> tuple[str | None, bool]:
    """Return the dataset of the last `save_dataset_name`, and whether it is there.

    This is as far as this computer can tell.
    """
    try:
        note = json.loads((folder / STATE_FOLDER / _DATASET).read_bytes()[:_SNIFFED])
    except (OSError, ValueError, RecursionError):
        return None, False
    name = note.get("name") if isinstance(note, dict) else None
    if not isinstance(name, str) or not name:
        return None, False
    is_file = name.endswith(_DATASET_FILES) or name.startswith(("/", "."))
    return name, not is_file or (folder / name).exists()


def _walk(folder: Path, notices: list[str]) -> Iterator[tuple[int, os.DirEntry[str]]]:
    """Yield entries that may be configs or tasks, folder by folder, each with its depth.

    They come from the top down.
    """
    level = [str(folder)]
    seen = 0
    for depth in range(MAX_DEPTH + 1):
        below: list[str] = []
        for name in level:
            try:
                with os.scandir(name) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except OSError:
                continue  # a folder that the user cannot read
            for entry in entries:
                seen += 1
                if seen > MAX_ENTRIES:
                    notices.append(
                        f"There are more than {MAX_ENTRIES:,} files here; those deeper down were "
                        "not examined."
                    )
                    return
                if entry.name.startswith("."):
                    continue
                if _is_folder(entry):
                    if (
                        entry.name.lower() in _SKIPPED
                        or entry.is_symlink()
                        or _is_environment(entry)
                    ):
                        continue
                    if _is_saved_dataset(entry):
                        yield depth, entry
                    else:
                        below.append(entry.path)
                else:
                    yield depth, entry
        level = below


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_environment(entry: os.DirEntry[str]) -> bool:
    return os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))


def _is_saved_dataset(entry: os.DirEntry[str]) -> bool:
    return any(
        os.path.isfile(os.path.join(entry.path, name))
        for name in ("dataset_info.json", "dataset_dict.json")
    )


_remembered: dict[str, tuple[tuple[int, int], Kind | None]] = {}


def _kind(entry: os.DirEntry[str], budget: _Budget) -> Kind | None:
    """The kind of a file by its name and content; kept until the file changes."""
    try:
        status = entry.stat()
    except OSError:
        return None
    if stat.S_ISDIR(status.st_mode):
        return "tasks"  # `_walk` gives no other folders
    guess = _guess(entry.name.lower())
    if guess is None or not stat.S_ISREG(status.st_mode):
        return None
    stamp = (status.st_mtime_ns, status.st_size)
    known = _remembered.get(entry.path)
    if known is not None and known[0] == stamp:
        return known[1]
    if guess == "json":
        if budget.odd_json <= 0:
            return None
        budget.odd_json -= 1
    kind = _look(Path(entry.path), guess, status.st_size)
    if len(_remembered) > MAX_ENTRIES:
        _remembered.clear()
    _remembered[entry.path] = (stamp, kind)
    return kind


class _Budget:
    odd_json = 1000
    """JSON files without a telling name that may still be opened."""


def _guess(name: str) -> str | None:
    if name.endswith((".yaml", ".yml")):
        return None if name.endswith((".lock.yaml", ".lock.yml")) else "yaml"
    bare = next((name.removesuffix(end) for end in _PACKED if name.endswith(end)), name)
    if any(fnmatch.fnmatchcase(bare, pattern) for pattern in _TASK_NAMES):
        return "named"
    if bare.endswith((".jsonl", ".ndjson")) and not name.endswith(_RECORDS):
        return "named" if "task" in bare else None if bare != name else "rows"
    if name.endswith(".parquet"):
        return "parquet"
    return "json" if name.endswith(".json") else None


def _look(path: Path, guess: str, size: int) -> Kind | None:
    if guess == "named":
        return "tasks" if os.access(path, os.R_OK) else None
    data = _part(path, size, end=guess == "parquet")
    if data is None:
        return None
    if guess == "parquet":
        return "tasks" if b"prompt" in data else None
    if guess != "yaml":
        v4 = _PROMPT.search(data) and _TASK_FIELD.search(data)
        return (
            "tasks"
            if v4
            else "scenarios"
            if _SCENARIO.search(data) or _NAMED_ENV.search(data)
            else None
        )
    if _ENVIRONMENTS.search(data) and not _GYM_KEY.search(data):
        return "art"
    if path.parent.name != "configs":
        return "config" if _MAPPINGS.search(data) else None
    # In `configs/` an unfinished or broken file counts too, but not a file that plainly is
    # something else.
    return "config" if _GYM_KEY.search(data) or not _ANY_KEY.search(data) else None


def _part(path: Path, size: int, *, end: bool) -> bytes | None:
    """The first or last part of a file, UTF-16 as UTF-8; None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            if end and size > _SNIFFED:
                file.seek(-_SNIFFED, os.SEEK_END)
            data = file.read(_SNIFFED)
    except OSError:
        return None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "ignore").encode("utf-8", "ignore")
    return data.removeprefix(b"\xef\xbb\xbf")
