"""A copy of unsaved work, so that a crash loses at most the last second; and what changed on disk meanwhile."""

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
from hudtui.core.text import clean_line
from hudtui.core.workspace import STATE, make_state_dir

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a file is known by, to notice that it changed. All zero: there is no such file."""

    modified: int = 0
    size: int = 0
    inode: int = 0


def stamp_of(path: Path) -> Stamp:
    """The stamp of a file now."""
    try:
        status = os.stat(path)
    except OSError:
        return Stamp()
    return Stamp(status.st_mtime_ns, status.st_size, status.st_ino)


@dataclass(frozen=True, slots=True)
class Recovered:
    """Unsaved work of another time."""

    text: str
    saved_at: str
    """ISO 8601."""


def _file(folder: Path, config: Path) -> Path:
    digest = hashlib.sha256(str(config.absolute()).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return folder / STATE / "recovery" / f"{digest}.json"


def keep_copy(folder: Path, config: Path, text: str, now: str) -> None:
    """Keep unsaved work, in one step and readable for its owner only.

    Args:
        folder: The project folder.
        config: The configuration's file.
        text: The unsaved text.
        now: The time, ISO 8601.

    Raises:
        InputError: The project folder cannot be written to.
    """
    make_state_dir(folder)
    data = {"format": _FORMAT, "config": str(config), "saved_at": now, "text": text}
    write_atomic(_file(folder, config), json.dumps(data, ensure_ascii=True), mode=0o600)


def drop_copy(folder: Path, config: Path) -> None:
    """Forget the copy: the work is saved, or given up."""
    with contextlib.suppress(OSError):
        _file(folder, config).unlink()


def find_copy(folder: Path, config: Path, text: str) -> Recovered | None:
    """Unsaved work that differs from what the file holds now, or None. A damaged copy counts as none."""
    try:
        data = read_json(_file(folder, config))
    except InputError:
        return None
    if not isinstance(data, dict) or data.get("format") != _FORMAT or not isinstance(data.get("text"), str):
        return None
    return None if data["text"] == text else Recovered(data["text"], clean_line(str(data.get("saved_at") or ""), 40))


def difference(before: str, after: str, before_name: str, after_name: str) -> str:
    """What changed from one text to another, as a unified diff; empty when nothing did."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), before_name, after_name, lineterm="", n=2)
    return "\n".join(lines)
