"""A copy of unsaved work, so that a crash loses at most the last second.

And what changed on disk meanwhile.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from hudtui.core.errors import InputError
from hudtui.core.files import read_json, write_atomic
from hudtui.core.paths import app_paths
from hudtui.core.text import clean_line
from hudtui.core.workspace import STATE_FOLDER, make_state_dir

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class FileStamp:
    """State of a file, to notice a change. All zero: the file does not exist."""

    modified: int = 0
    size: int = 0
    inode: int = 0


def file_stamp(path: Path) -> FileStamp:
    """Return the stamp of a file as it is now."""
    try:
        status = os.stat(path)
    except OSError:
        return FileStamp()
    return FileStamp(status.st_mtime_ns, status.st_size, status.st_ino)


@dataclass(frozen=True, slots=True)
class UnsavedCopy:
    """Unsaved work from an earlier session."""

    text: str
    saved_at: str
    """ISO 8601."""


def _files(folder: Path, config: Path) -> tuple[Path, Path]:
    """The places of a copy.

    In the project, and in the user's own folder for a project that cannot be written to.
    """
    path = str(config.absolute()).encode("utf-8", "surrogateescape")
    name = f"{hashlib.sha256(path).hexdigest()[:16]}.json"
    return folder / STATE_FOLDER / "recovery" / name, app_paths().state / "recovery" / name


def save_copy(folder: Path, config: Path, text: str, now: str) -> Path:
    """Save a copy of unsaved work, in one step and readable for its owner only; return its file.

    Where the project folder is read-only or its disk is full, the user's state folder takes the
    copy. `now` is the time, ISO 8601.

    Raises:
        InputError: Neither folder can be written to.
    """
    data = json.dumps(
        {"format": _FORMAT, "config": str(config), "saved_at": now, "text": text}, ensure_ascii=True
    )
    own, fallback = _files(folder, config)
    try:
        make_state_dir(folder)
        write_atomic(own, data, mode=0o600)
    except InputError:
        write_atomic(fallback, data, mode=0o600)
        return fallback
    _remove(fallback)
    return own


def delete_copy(folder: Path, config: Path) -> None:
    """Delete the copy: the work is saved, or discarded."""
    for file in _files(folder, config):
        _remove(file)


def _remove(file: Path) -> None:
    with contextlib.suppress(OSError):
        file.unlink()


def find_copy(folder: Path, config: Path, text: str) -> UnsavedCopy | None:
    """Return unsaved work that differs from the file, or None.

    The newer of two copies counts; damaged copies do not.
    """
    copies = [copy for file in _files(folder, config) if (copy := _read(file)) is not None]
    newest = max(copies, key=lambda copy: copy.saved_at, default=None)
    return None if newest is None or newest.text == text else newest


def _read(file: Path) -> UnsavedCopy | None:
    try:
        data = read_json(file)
    except InputError:
        return None
    if (
        not isinstance(data, dict)
        or data.get("format") != _FORMAT
        or not isinstance(data.get("text"), str)
    ):
        return None
    return UnsavedCopy(data["text"], clean_line(str(data.get("saved_at") or ""), 40))


def unified_diff(before: str, after: str, before_name: str, after_name: str) -> str:
    """Return the unified diff of two texts; empty where they are equal."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), before_name, after_name, lineterm="", n=2
    )
    return "\n".join(lines)
