"""Audit an environment: its files are read, its tasks played and judged, and the verdict kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.audit.audit import AuditFinished, audit
from hudtui.core.audit.kept import keep
from hudtui.core.audit.options import AuditOptions
from hudtui.core.audit.play import Played, Ring, spread
from hudtui.core.audit.values import Audit, AuditFinding
from hudtui.core.environment.bundled import is_bundled, with_python_variable
from hudtui.core.environment.episode_place import has_own_folder
from hudtui.core.environment.servers import parse_mcp_config
from hudtui.core.errors import InputError
from hudtui.core.events import Notice, Progress
from hudtui.core.paths import typed_path
from hudtui.core.project import Project
from hudtui.core.rollouts.evaluate import connector, open_policy, playable_tasks
from hudtui.core.rollouts.judging import Judges
from hudtui.core.rollouts.options import EpisodeOptions
from hudtui.core.rollouts.outcome import TRACES
from hudtui.core.rollouts.policy import default_policy
from hudtui.core.rollouts.reward import load_playable_config
from hudtui.core.rollouts.trace import read_trace
from hudtui.core.tasks.task import Task

if TYPE_CHECKING:
    from hudtui.core.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class AuditRequest(AuditOptions):
    """An audit as a user asks for it."""

    config: Path | None = None
    """None: the only configuration of the project."""
    tasks: str | None = None
    """None: the only task file of the project."""


@dataclass(frozen=True)
class AuditStarted:
    """All files are read; the first episode is about to begin."""

    config: Path
    tasks: str
    played: int
    """Tasks that are played."""
    of: int
    """Tasks that there are."""
    out_dir: Path
    reach: str | None
    """A warning about what the calls change; None where each episode has a place of its own."""


@dataclass(frozen=True)
class AuditEnded(AuditFinished):
    """The audit is over, and its verdict is kept."""

    file: Path
    """The audit as JSON."""


async def audit_environment(
    project: Project, request: AuditRequest
) -> AsyncGenerator[AuditStarted | Progress | Notice | AuditEnded, None]:
    """Audit an environment; consume it inside `contextlib.aclosing`.

    Raises:
        InputError: A file or an option cannot be used, or none is named and there are several.
        Untrusted: The tasks name a server that the user has not agreed to.
        HudtuiError: The environment cannot be reached.
    """
    settings = await asyncio.to_thread(project.settings)
    settings.require_trust()
    folder = project.folder
    workspace = await asyncio.to_thread(project.workspace)
    path = request.config or Path(_only("configuration", workspace, workspace.configs))
    named = request.tasks or _only("task file", workspace, workspace.task_files)
    config = await asyncio.to_thread(load_playable_config, folder / path, folder)
    read, notice = await playable_tasks(named, config, settings, source=request.source)
    if notice is not None:
        yield notice
    tasks = spread(read.tasks, request.limit)
    out = request.out_dir or _new_folder(folder, path)
    if (folder / out).exists():
        raise InputError(f"{out} exists already", fix="Name another folder with --output.")
    recorded = await asyncio.to_thread(_recorded, request.recorded, folder, tasks)
    timeout = settings.client_timeout if request.timeout is None else request.timeout
    lookup = with_python_variable(settings.lookup)
    connect = connector(request.source, folder, lookup, timeout=timeout)
    options = EpisodeOptions(seed=request.seed, timeout=timeout)
    model = () if request.model is None else (f"openai:{request.model}",)
    greedy = ("greedy",) if default_policy(config) == "greedy" else ()
    names = (*greedy, *model)
    strong = {name: open_policy(name, config, settings, options) for name in names}
    ring = Ring(
        tasks,
        config,
        connect,
        folder / out,
        strong=strong,
        seed=request.seed,
        group=request.group,
        most_random=request.most_random,
        of=len(read.tasks),
        concurrency=request.concurrency,
        crowd=request.crowd,
        timeout=timeout,
        reuse=request.reuse,
        lookup=lookup,
        judges=Judges(settings.lookup),
    )
    yield AuditStarted(path, named, len(tasks), len(read.tasks), out, reach_of(tasks))
    try:
        async with aclosing(audit(ring, context=request.context, recorded=recorded)) as events:
            async for event in events:
                if not isinstance(event, AuditFinished):
                    yield event
                    continue
                ended = _named(event.audit, folder)
                write = partial(keep, project.state_dir, ended, config, read.tasks, folder / out)
                await asyncio.to_thread(write)
                yield AuditEnded(ended, out / "audit.json")
    finally:
        for source in strong.values():
            await source.aclose()


def _named(audit: Audit, folder: Path) -> Audit:
    """Return an audit whose proofs name their files as they are named in the project folder."""

    def named(finding: AuditFinding) -> AuditFinding:
        proofs = (
            replace(one, file=one.file.relative_to(folder))
            if one.file.is_relative_to(folder)
            else one
            for one in finding.evidence
        )
        return replace(finding, evidence=tuple(proofs))

    return replace(audit, findings=tuple(map(named, audit.findings)))


def reach_of(tasks: Sequence[Task]) -> str | None:
    """Return a warning about what the calls of an audit change.

    None where each episode has a place of its own.
    """
    if all(has_own_folder(task.mcp_config) or _is_bundled(task.mcp_config) for task in tasks):
        return None
    return "the audit calls every tool, also with odd arguments, and no ${EPISODE_DIR} holds them"


def _is_bundled(mcp_config: Mapping[str, Any]) -> bool:
    return all(map(is_bundled, parse_mcp_config(mcp_config, "mcp_config")))


def _only(kind: str, workspace: Workspace, paths: Sequence[Path]) -> str:
    """Return the only file of its kind.

    Raises:
        InputError: There is none, or several.
    """
    if len(paths) == 1:
        return workspace.relative(paths[0])
    raise InputError(
        f"there are several {kind}s here" if paths else f"there is no {kind} here",
        fix="Name both: hudtui env audit CONFIG TASKS.",
    )


def _new_folder(folder: Path, config: Path) -> Path:
    name = f"{config.stem}-audit-{datetime.now():%Y%m%d-%H%M%S}"
    number, path = 1, Path("outputs") / name
    while (folder / path).exists():
        number, path = number + 1, Path("outputs") / f"{name}-{number + 1}"
    return path


def _recorded(named: Path | None, folder: Path, tasks: Sequence[Task]) -> list[Played]:
    """Return the recorded episodes of the tasks that are played.

    Raises:
        InputError: The file cannot be read, or holds none of these tasks.
    """
    if named is None:
        return []
    ids = {task.id for task in tasks}
    path = folder / typed_path(str(named))
    path = path / TRACES if path.is_dir() else path
    episodes = [
        Played("recorded", "recorded", path, number, episode)
        for number, episode in enumerate(read_trace(path))
        if episode.task_id in ids
    ]
    if not episodes:
        raise InputError(
            f"{named} holds no episode of the tasks that are played",
            fix="Name episodes of these tasks, or play more tasks with --limit.",
        )
    return episodes
