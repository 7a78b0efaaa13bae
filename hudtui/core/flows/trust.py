"""Trust in a project folder: what its files make hudtui do, and what a run in it needs.

`core.trust` keeps what the user agreed to.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hudtui.core import trust
from hudtui.core.errors import HudtuiError
from hudtui.core.files import read_text
from hudtui.core.platform import Platform
from hudtui.core.settings import Settings, folder_powers, load_settings
from hudtui.core.text import in_full
from hudtui.core.workspace import STATE_FOLDER, Workspace, open_workspace

if TYPE_CHECKING:
    from hudtui.core.training.plan import JobSpec

LARGEST = 8 * 1024 * 1024
"""Bytes of a task file up to which its servers are listed beforehand. Those of a larger one are
asked about when it is used, or where `hudtui trust` is given its name."""
_CONFIGS = (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
"""Files in which other programs keep the servers of a folder, beside the JSON files at its top."""
_MOST_CONFIGS = 100


def survey(
    folder: Path,
    platform: Platform | None = None,
    *,
    tasks: bool = True,
    files: Sequence[Path] = (),
) -> tuple[trust.Power, ...]:
    """Return the powers that the files of a project folder ask for, each once.

    None of them is used. Reads `.env`, platform files, the lock file, configurations of gyms, of
    servers and of trainings with ART, task files up to `LARGEST` bytes, the source that was
    inspected last, and the list of runs. A file that cannot be read has no powers: it cannot be
    used either.

    Args:
        folder: The project folder.
        platform: As `open_workspace` takes it.
        tasks: Also read task files and configurations of servers, which takes longer.
        files: Further files, whatever they are, of any size.

    Raises:
        InputError: The folder cannot be read.
    """
    workspace = open_workspace(folder, platform)
    found: dict[str, trust.Power] = {}
    parts: list[Callable[[], Iterable[trust.Power]]] = [
        lambda: folder_powers(workspace.folder, workspace.platform),
        lambda: _lock(workspace),
        *(partial(_code, file) for file in workspace.configs),
        *(partial(_art, file, workspace) for file in workspace.art_configs),
        *(partial(_tasks, file, workspace) for file in (workspace.task_files if tasks else ())),
        *(
            partial(_servers, file, workspace)
            for file in (_server_files(workspace) if tasks else ())
        ),
        *(
            partial(kind, file, workspace)
            for file in files
            for kind in (_servers, _art, _of_config)
        ),
        *(partial(_tasks, file, workspace, None) for file in files),
        lambda: _source(workspace),
        lambda: _runs(workspace),
    ]
    for part in parts:
        with suppress(HudtuiError):
            found.update((one.token, one) for one in part())
    return tuple(found.values())


class Question(NamedTuple):
    """What to ask the user about."""

    powers: tuple[trust.Power, ...]
    """Powers that the user has not agreed to; empty if there is nothing to ask."""
    before: tuple[str, ...]
    """See `changes`."""


def question(
    folder: Path, powers: Iterable[trust.Power], platform: Platform | None = None
) -> Question:
    """What to ask the user about before `powers` are used.

    They, and all else that the folder asks for, so that it is asked once.
    There is nothing to ask where the user has agreed to all of `powers`.
    """
    lacking = trust.missing(folder, powers)
    if not lacking:
        return Question((), ())
    everything = (*lacking, *survey(folder, platform))
    return Question(trust.missing(folder, everything), changes(everything, folder))


def with_reason(error: HudtuiError, folder: Path, platform: Platform | None = None) -> HudtuiError:
    """Return the error to show.

    `Untrusted`, where what the error lacks stands in `.env` and the user has not agreed to it.
    """
    if error.lacks is None:
        return error
    try:
        load_settings(folder, platform).use(error.lacks)
    except HudtuiError as found:
        return found if isinstance(found, trust.Untrusted) else error
    return error


def run_powers(spec: JobSpec, settings: Settings) -> tuple[trust.Power, ...]:
    """Return the powers that a run needs.

    The folder's `.env`, the servers of its tasks, and the code of its reward.

    Raises:
        InputError: The tasks cannot be read.
    """
    from hudtui.core.tasks.judges import required_powers
    from hudtui.core.tasks.read import read_tasks

    code = tuple(_code(Path(spec.config.path))) if spec.config is not None else ()
    if spec.tasks is None:
        return (*settings.withheld, *code)
    file = Path(spec.tasks.path)
    read = read_tasks(
        str(file), lookup=settings.lookup, platform=settings.platform, folder=settings.folder
    )
    return (*settings.withheld, *code, *required_powers(read.tasks, file, settings.lookup))


def require_run(spec: JobSpec, settings: Settings) -> None:
    """Check that the user has agreed to all powers that a run needs.

    The check comes before the run starts or a machine is rented for it.

    Raises:
        Untrusted: The user has not agreed to a power.
        InputError: The tasks cannot be read.
    """
    trust.require(settings.folder, run_powers(spec, settings))


def _lock(workspace: Workspace) -> Iterable[trust.Power]:
    from hudtui.core.environment.source import parse_source

    if workspace.lock is None:
        return ()
    return parse_source(str(workspace.lock), folder=workspace.folder).powers


def _art(file: Path, workspace: Workspace) -> Iterable[trust.Power]:
    from hudtui.core.flows.art import art_powers

    return art_powers(file, load_settings(workspace.folder, workspace.platform))


def _code(config: Path) -> Iterable[trust.Power]:
    from hudtui.core.gym.config import parse_config
    from hudtui.core.rollouts.reward import reward_powers

    text = read_text(config)
    read, _ = parse_config(text, name=str(config)) if "reward" in text else (None, ())
    return () if read is None else reward_powers(read)


def _of_config(file: Path, workspace: Workspace) -> Iterable[trust.Power]:
    return _code(file)


def _server_files(workspace: Workspace) -> Iterable[Path]:
    known = set(workspace.task_files)
    found = [
        *sorted(workspace.folder.glob("*.json")),
        *(workspace.folder / name for name in _CONFIGS),
    ]
    return [
        file
        for file in found
        if file not in known and file.is_file() and file.stat().st_size <= LARGEST
    ][:_MOST_CONFIGS]


def _servers(file: Path, workspace: Workspace) -> Iterable[trust.Power]:
    """Of a configuration of servers or a lock file that is named as a source."""
    from hudtui.core.environment.source import parse_source

    return parse_source(str(file), folder=workspace.folder).powers


def advice(folder: Path, powers: Sequence[trust.Power]) -> str:
    """Return how to agree to these powers, as a sentence for a person who was not asked.

    Its command is one that works.
    """
    script = "with `hudtui --trust ...` in a script"
    lacking = {one.token for one in powers}
    rest = lacking - {one.token for one in survey(folder)}
    files = tuple(dict.fromkeys(one.file for one in powers if one.token in rest))
    if rest - {one.token for one in (survey(folder, tasks=False, files=files) if rest else ())}:
        return f"Agree {script}, which is about this command alone."
    names = [
        str(file.relative_to(folder) if file.is_relative_to(folder) else file) for file in files
    ]
    command = in_full(shlex.join(["hudtui", "trust", *names]))
    return f"See all of it with `{command} --show`; agree with `{command}`, or {script}."


def _tasks(file: Path, workspace: Workspace, most: int | None = LARGEST) -> Iterable[trust.Power]:
    from hudtui.core.tasks.judges import required_powers
    from hudtui.core.tasks.read import read_tasks

    if not file.is_file() or (most is not None and file.stat().st_size > most):
        return ()
    read = read_tasks(str(file), platform=workspace.platform, folder=workspace.folder)
    settings = load_settings(workspace.folder, workspace.platform)
    return required_powers(read.tasks, file, settings.lookup)


def _source(workspace: Workspace) -> Iterable[trust.Power]:
    if not (workspace.state_dir / "analyses").is_dir():
        return ()
    from hudtui.core.environment.cache import latest_analysis
    from hudtui.core.environment.source import parse_source

    known = latest_analysis(workspace.folder)
    if known is None:
        return ()
    return parse_source(
        known.source, folder=workspace.folder, file=workspace.state_dir / "analyses"
    ).powers


def _runs(workspace: Workspace) -> Iterable[trust.Power]:
    if not (workspace.folder / STATE_FOLDER / "runs.db").is_file():
        return ()
    from hudtui.core.runs.store import RunStore

    return RunStore(workspace.state_dir).powers()


def listing(powers: Sequence[trust.Power], folder: Path) -> tuple[str, ...]:
    """Return powers as lines of text, grouped by kind."""
    lines: list[str] = []
    for heading in dict.fromkeys(one.heading for one in powers):
        lines.append(f"{heading}:")
        lines += [
            f"  {one.text}   [{_short(one.file, folder)}]"
            for one in powers
            if one.heading == heading
        ]
    return tuple(lines)


def changes(powers: Sequence[trust.Power], folder: Path) -> tuple[str, ...]:
    """Return the powers that files no longer ask for, as lines.

    The user has agreed to these, in files that now ask for something new of the same kind.

    Args:
        powers: All that the folder asks for.
        folder: The project folder.
    """
    new = {(str(one.file), one.kind) for one in trust.missing(folder, powers)}
    gone = (one for one in trust.replaced(folder, powers) if (one.file, one.kind) in new)
    return tuple(f"  {one.text}   [{_short(Path(one.file), folder)}]" for one in gone)


def _short(file: Path, folder: Path) -> str:
    return in_full(str(file.relative_to(folder) if file.is_relative_to(folder) else file))


def status(folder: Path, powers: Sequence[trust.Power]) -> dict[str, Any]:
    """The form of `hudtui trust --json`.

    What the folder would do, and what of it the user has agreed to.
    """
    lacking = {one.token for one in trust.missing(folder, powers)}
    return {
        "folder": str(folder),
        "trusted": not lacking,
        "powers": [{**one.to_json(), "agreed": one.token not in lacking} for one in powers],
    }
