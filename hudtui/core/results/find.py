"""Find results: those of a project, and those below a path that the user gives."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hudtui.core.errors import HudtuiError, InputError, Location
from hudtui.core.files import file_lock, read_json, write_atomic
from hudtui.core.paths import typed_path
from hudtui.core.results.values import ResultRun
from hudtui.core.text import did_you_mean
from hudtui.core.workspace import STATE_FOLDER, make_state_dir

if TYPE_CHECKING:
    from hudtui.core.runs.store import RunStore

_NAME = "traces.jsonl"
_TRAJECTORIES = "trajectories"
_PLACES = ("outputs", ".art")
"""Folders that evaluations, verifiers and ART write to by default."""
_ELSEWHERE = "evaluations.json"
"""File in the folder of state with the other folders that evaluations were written to."""
_MOST_ELSEWHERE = 500
_DEEPEST = 6
_MOST = 5_000
"""Number of folders after which the search ends."""
_SKIPPED = frozenset(
    (
        "node_modules",
        "__pycache__",
        "site-packages",
        "checkpoints",
        "checkpoint",
        "model",
        "weights",
        "logs",
    )
)
_EVALUATIONS = frozenset(("rollouts",))
"""Engines that play without training."""


def find_results(folder: Path, store: RunStore | None = None) -> tuple[ResultRun, ...]:
    """Return the results of a project, the newest first.

    Its runs, evaluations in `outputs/` and where `note_results` says, and ART's trajectories.
    A run on another machine has results here once they were fetched. Only names and sizes are read.
    """
    runs: dict[Path, ResultRun] = {}
    for run in store.runs() if store is not None else ():
        if run.removed:
            continue
        kind: Literal["evaluation", "training"] = (
            "evaluation" if run.engine in _EVALUATIONS else "training"
        )
        for place in (run.results, run.folder if run.host == "local" else None):
            made = (
                _result(Path(place) / "out" / "traces.jsonl", run.id, kind, run.id)
                if place
                else None
            )
            if made is not None:
                runs.setdefault(made.path, made)
                break
    for place in _PLACES:
        for path in _walk(folder / place):
            name = str(path.relative_to(folder if place == ".art" else folder / place))
            kind_ = "training" if path.name == _TRAJECTORIES else "evaluation"
            made = _result(path, _short(name), kind_)  # type: ignore[arg-type]
            if made is not None:
                runs.setdefault(made.path, made)
    for place in _elsewhere(folder):
        made = _result(Path(place) / _NAME, place, "evaluation")
        if made is not None:
            runs.setdefault(made.path, made)
    return tuple(sorted(runs.values(), key=lambda one: -one.modified))


def note_results(folder: Path, out: Path) -> None:
    """Remember the folder of an evaluation that no search of the project finds.

    Args:
        folder: The project.
        out: The folder; that of a run is left to the run.

    Raises:
        InputError: The folder of state cannot be written.
    """
    out = out.absolute()
    known = any(out.is_relative_to((folder / place).absolute()) for place in _PLACES)
    if known or (out.parent / "plan.json").exists():
        return
    file = make_state_dir(folder) / _ELSEWHERE
    with file_lock(file):
        places = [place for place in _elsewhere(folder) if place != str(out)]
        kept = [*places, str(out)][-_MOST_ELSEWHERE:]
        write_atomic(file, json.dumps(kept, ensure_ascii=False, indent=1) + "\n")


def _elsewhere(folder: Path) -> list[str]:
    """Return what `note_results` remembers of a project; nothing where it cannot be read."""
    try:
        places = read_json(folder / STATE_FOLDER / _ELSEWHERE)
    except (HudtuiError, OSError):
        return []
    listed = places if isinstance(places, list) else []
    texts = [place for place in listed[:_MOST_ELSEWHERE] if isinstance(place, str)]
    return [place for place in texts if "\0" not in place and os.path.isabs(place)]


def results_at(path: Path) -> tuple[ResultRun, ...]:
    """Return the results at a path.

    A file of episodes, or all results below a folder, ordered by name.

    Raises:
        InputError: The path does not exist, or the folder has no results.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise InputError(
            "there is no such file or folder", why=error.strerror, where=Location(str(path))
        ) from None
    if not stat.S_ISDIR(mode):
        made = _result(
            path,
            path.name if path.name != _NAME else path.parent.resolve().name or path.name,
            "file",
        )
        if made is None:
            raise InputError("this is not a regular file", where=Location(str(path)))
        return (made,)
    if _is_trajectories(path):
        return tuple(filter(None, (_result(path, path.resolve().name, "training"),)))
    results = []
    for file in sorted(_walk(path)):
        name = _short(str(file.relative_to(path))) or path.resolve().name
        made = _result(file, name, "training" if file.is_dir() else "file")
        if made is not None:
            results.append(made)
    if not results:
        raise InputError(
            "this folder has no results",
            why=f"Results are files named {_NAME}, and folders named {_TRAJECTORIES}.",
            fix="Give the path of the file itself if it has another name.",
            where=Location(str(path)),
        )
    return tuple(results)


def results_named(text: str, folder: Path, store: RunStore | None = None) -> tuple[ResultRun, ...]:
    """Return the results for a path, for a name from `find_results`, or for a run of the project.

    Paths are relative to `folder`.

    Raises:
        InputError: Nothing has this name, or it has no results.
        RunError: The names of several runs begin with this text.
    """
    path = folder / typed_path(text)
    if os.path.exists(path):  # a `Path` raises for a name that is too long
        return results_at(path)
    known = find_results(folder, store)
    matches = tuple(one for one in known if text in (one.name, one.run))
    if matches:
        return matches
    run = None
    if store is not None and any(
        one == text or one.startswith(text) for one in (*store.ids(), *_names(store))
    ):
        run = store.find(text)
        matches = tuple(one for one in known if one.run == run)
        if matches:
            return matches
    if run is not None:
        raise InputError(
            f"run {run} has no results here",
            fix=f"Fetch them: hudtui runs pull {run}. A run that has just begun has none yet.",
        )
    near = did_you_mean(text, [one.name for one in known])
    raise InputError(
        "there are no results of that name, and no such file or folder",
        fix=f"Did you mean {near}?" if near else "hudtui rollouts list shows all results.",
        where=Location(text),
    )


def _names(store: RunStore) -> Iterator[str]:
    return (run.name for run in store.runs())


def _short(name: str) -> str:
    """Return the name of a run by its path, without what is the same for all runs.

    That is the file name and the folder `out`.
    """
    parts = Path(name).parts
    parts = parts[:-1] if parts[-1:] and parts[-1] in (_NAME, _TRAJECTORIES) else parts
    parts = parts[:-1] if len(parts) > 1 and parts[-1] == "out" else parts
    return "/".join(parts)


def _result(
    path: Path, name: str, kind: Literal["evaluation", "training", "file"], run: str | None = None
) -> ResultRun | None:
    try:
        status = path.stat()
    except OSError:
        return None
    if stat.S_ISDIR(status.st_mode):
        return ResultRun(name, path, kind, run, 0, status.st_mtime)
    return (
        ResultRun(name, path, kind, run, status.st_size, status.st_mtime)
        if stat.S_ISREG(status.st_mode)
        else None
    )


def _walk(folder: Path) -> Iterator[Path]:
    """Yield files of episodes and folders of trajectories, from the top down.

    Links are not followed.
    """
    level, seen = [folder], 0
    for _ in range(_DEEPEST):
        below: list[Path] = []
        for place in level:
            seen += 1
            if seen > _MOST:
                return
            try:
                with os.scandir(place) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    path = Path(entry.path)
                    if entry.name == _TRAJECTORIES and _is_trajectories(path):
                        yield path
                    elif entry.name not in _SKIPPED and not entry.name.startswith("."):
                        below.append(path)
                elif entry.name == _NAME and entry.is_file():
                    yield Path(entry.path)
        level = below


def _is_trajectories(path: Path) -> bool:
    from hudtui.core.results.index import files_of

    return bool(files_of(path))
