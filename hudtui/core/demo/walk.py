"""Walk through the demo without a screen.

Check the workspace, play its tasks as a run on this computer, follow it to the end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, Any

from hudtui.core.demo.workspace import CONFIG, TASKS, DemoWorkspace, prepare
from hudtui.core.errors import ConfigError, InputError, Location, RunError
from hudtui.core.events import Notice, Progress
from hudtui.core.platform import HUD
from hudtui.core.workspace import STATE_FOLDER

if TYPE_CHECKING:
    from hudtui.core.remote.host import Host
    from hudtui.core.rollouts.values import Episode
    from hudtui.core.runs.store import RunRecord, RunStore
    from hudtui.core.runs.values import RunSummary
    from hudtui.core.settings import Settings


@dataclass(frozen=True)
class LogLine:
    """A line of the run's log, without control sequences."""

    text: str


@dataclass(frozen=True)
class RunBegun:
    """The machine has taken over the run, which continues without hudtui from now on."""

    run: str


@dataclass(frozen=True)
class DemoRow:
    """The result of one task."""

    task: str
    reward: float
    turns: int
    best_tile: int | None
    stop: str


@dataclass(frozen=True)
class DemoResult:
    """The result of the whole walk."""

    workspace: DemoWorkspace
    run: RunSummary
    rows: tuple[DemoRow, ...]
    findings: int
    """Number of lint findings in the configuration."""
    seconds: Mapping[str, float]
    """`prepare`, `check`, `run` and `total`."""

    @property
    def reward(self) -> float:
        """Mean reward of the tasks."""
        return fmean(row.reward for row in self.rows) if self.rows else 0.0

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui demo --headless --json`."""
        analysis = self.workspace.analysis
        return {
            "folder": str(self.workspace.folder),
            "created": list(self.workspace.created),
            "environment": {
                "source": analysis.source,
                "server": {"name": analysis.server.name, "version": analysis.server.version},
                "tools": [tool.name for tool in analysis.agent_tools],
                "hubs": {hub: list(functions) for hub, functions in analysis.hubs.items()},
            },
            "config": {"path": CONFIG, "findings": self.findings},
            "tasks": {"path": TASKS, "valid": len(self.rows)},
            "run": self.run.to_json(),
            "reward": self.reward,
            "rewards": [vars(row) for row in self.rows],
            "seconds": dict(self.seconds),
        }


async def walk(
    folder: Path, *, tmux: bool = True
) -> AsyncGenerator[Progress | Notice | DemoWorkspace | RunBegun | LogLine | DemoResult, None]:
    """Walk through the demo; the last event is the result.

    If the iterator is left after the run has begun, the run continues.

    Args:
        folder: The demo workspace; created if it is missing.
        tmux: False for detached processes even if the machine has tmux.

    Raises:
        InputError: The folder, its configuration or its tasks cannot be used.
        RunError: The run failed, or was stopped.
        HudtuiError: The environment or the run does not start.
    """
    from hudtui.core.remote.local import LocalHost
    from hudtui.core.runs.store import RunStore
    from hudtui.core.settings import load_settings

    began = perf_counter()
    workspace: DemoWorkspace | None = None
    async with aclosing(prepare(folder)) as events:
        async for event in events:
            yield event
            if isinstance(event, DemoWorkspace):
                workspace = event
    assert workspace is not None
    prepared = perf_counter()
    settings = load_settings(folder, HUD)
    findings, notices = _check(workspace, settings)
    for notice in notices:
        yield notice
    yield Progress(
        "check",
        f"{CONFIG}: {_count(findings, 'finding')}; {TASKS}: {len(task_ids(folder))} tasks are "
        "valid",
    )
    checked = perf_counter()
    store = RunStore(folder / STATE_FOLDER)
    run = ""
    async with aclosing(_run(folder, store, LocalHost(), settings, tmux=tmux)) as run_events:
        async for happened in run_events:
            if isinstance(happened, RunBegun):
                run = happened.run
            yield happened
    summary, record = await store.run(lambda: (store.summary(run), store.record(run)))
    if summary.state != "finished":
        raise RunError(
            f"the run {run} {summary.state}",
            why=summary.why,
            fix=f"Its log: hudtui -C {folder} runs logs {run}",
        )
    rows = tuple(_rows(folder, record))
    ended = perf_counter()
    seconds = {
        "prepare": prepared - began,
        "check": checked - prepared,
        "run": ended - checked,
        "total": ended - began,
    }
    yield DemoResult(
        workspace,
        summary,
        rows,
        findings,
        {name: round(value, 3) for name, value in seconds.items()},
    )


def _check(workspace: DemoWorkspace, settings: Settings) -> tuple[int, list[Notice]]:
    """Lint the configuration and check the tasks against the environment.

    The number of lint's findings, and what to say.
    """
    from hudtui.core.environment.bundled import with_python_variable
    from hudtui.core.files import read_text
    from hudtui.core.gym.lint.check import lint
    from hudtui.core.tasks.read import read_tasks

    folder, analysis = workspace.folder, workspace.analysis
    findings = lint(
        read_text(folder / CONFIG), name=CONFIG, tools={tool.name: tool for tool in analysis.tools}
    )
    notices = [Notice(finding.severity, finding.render(CONFIG)) for finding in findings]
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise ConfigError(
            errors[0].message,
            findings=findings,
            fix="Fix it, or remove the file to have it generated again.",
            where=Location(str(folder / CONFIG), errors[0].line, errors[0].column),
        )
    tasks = read_tasks(
        folder / TASKS,
        lookup=with_python_variable(settings.lookup),
        platform=settings.platform,
        analysis=analysis,
    )
    notices += [Notice(problem.severity, str(problem)) for problem in tasks.problems]
    if not tasks.tasks:
        raise InputError(
            "no task of this file can be played",
            why=str(tasks.problems[0]) if tasks.problems else None,
            fix="Fix it, or remove the file to have it written again.",
            where=Location(str(folder / TASKS)),
        )
    return len(findings), notices


async def _run(
    folder: Path, store: RunStore, host: Host, settings: Settings, *, tmux: bool
) -> AsyncGenerator[Progress | Notice | RunBegun | LogLine, None]:
    """Start the run and follow its log to the end."""
    from hudtui.core.remote.logs import LineSplitter
    from hudtui.core.runs.launch import launch
    from hudtui.core.runs.spec import RunSpec
    from hudtui.core.runs.watch import Monitor
    from hudtui.core.training.plan import file_ref

    spec = RunSpec(
        engine="rollouts",
        name="demo",
        workspace=str(folder.absolute()),
        tasks=file_ref(folder / TASKS),
        config=file_ref(folder / CONFIG),
        policy="greedy",
        seed=0,
        platform=HUD.name,
    )
    run = ""
    launching = launch(spec, host, store, lookup=settings.get, tmux=tmux)
    async with aclosing(launching) as events:
        async for event in events:
            run = event.run
            if event.type == "step":
                yield Progress("launch", f"{run}: {event.data.get('name')}")
    summary = await store.run(store.summary, run)
    for note in summary.notes:
        yield Notice("warning", note)
    session = f"the tmux session {summary.session}"
    yield Progress("run", f"{run} in {session if summary.mode == 'tmux' else 'detached processes'}")
    yield RunBegun(run)
    feed = LineSplitter()
    partial = ""
    following = Monitor(store).log(run, "play").follow()
    async with aclosing(following) as chunks:
        async for chunk in chunks:
            lines = feed.feed(chunk)
            partial = lines.partial
            for line in lines.done:
                yield LogLine(line)
    if partial:
        yield LogLine(partial)


def _rows(folder: Path, record: RunRecord) -> Iterator[DemoRow]:
    from hudtui.core.rollouts.trace import read_trace

    output = record.plan.output("traces")
    assert output is not None
    found = {episode.task_id: episode for episode in read_trace(Path(record.folder) / output.path)}
    for identity in task_ids(folder):
        if identity in found:
            episode = found[identity]
            yield DemoRow(
                identity,
                episode.scores.reward,
                len(episode.turns),
                reached_tile(episode),
                episode.stop,
            )


def reached_tile(episode: Episode) -> int | None:
    """The highest tile on the last board of an episode; None if it shows no board."""
    from hudtui.core.rollouts.policy import last_board

    board = last_board(episode.messages)
    return None if board is None else max(tile for row in board for tile in row)


def task_ids(folder: Path) -> tuple[str, ...]:
    """The ids of the workspace's usable tasks, in their order.

    Raises:
        InputError: The file cannot be read.
    """
    from hudtui.core.tasks.read import read_tasks

    return tuple(task.id for task in read_tasks(folder / TASKS).tasks)


def _count(number: int, word: str) -> str:
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"
