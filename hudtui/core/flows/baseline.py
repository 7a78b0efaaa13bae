"""What is known of a run's tasks before it starts, joined from the evaluations of the project.

Evaluations in `outputs/` and rollouts among the runs say how players did on each task
(`rollouts.measures`). Those of the same tasks, played in the same way, count; others do not.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from hudtui.core.audit.kept import kept_audit
from hudtui.core.environment.cache import age_text
from hudtui.core.results.baseline import Baseline, PlayedEpisode, baseline
from hudtui.core.results.find import find_results
from hudtui.core.rollouts.measures import (
    Measure,
    by_player,
    play_digest,
    read_measures,
    task_digest,
)
from hudtui.core.rollouts.outcome import METRICS
from hudtui.core.runs.checks import Check, CheckState
from hudtui.core.runs.inputs import config_in
from hudtui.core.runs.work import Work
from hudtui.core.text import clean_line, plural

if TYPE_CHECKING:
    from hudtui.core.gym.values import GymConfig
    from hudtui.core.project import Project
    from hudtui.core.rollouts.evaluate import EvalPrepared, EvalRequest
    from hudtui.core.runs.inputs import Measurer
    from hudtui.core.runs.prepare import Preparation
    from hudtui.core.runs.store import RunStore
    from hudtui.core.tasks.select import Measured
    from hudtui.core.tasks.task import Task

_NO_PLAYERS = ("solution", "replay", "audit")
"""Policies that repeat what is known, or attack: they say nothing of how hard a task is."""
_WIDE = 0.5
"""Width of an interval from which a share is as good as unknown."""


@dataclass(frozen=True)
class PlayerKnown:
    """The episodes that one player has played of the tasks."""

    player: str
    reward: float
    """Mean over the tasks of their mean rewards."""
    tasks: int
    since: float
    """Time of the oldest measure, in seconds since the epoch."""
    baseline: Baseline
    own: float
    """Mean of the tasks' own reward, 0 to 1: without what a configuration adds for calls."""

    @property
    def name(self) -> str:
        """The player as it is shown."""
        return clean_line(self.player, 60)

    @property
    def too_few(self) -> str:
        """Words for what its episodes are too few to say; empty where they suffice."""
        known = self.baseline
        if known.spread is None:
            return "one episode a task is too few to say what a training would learn from"
        if not self.whole_groups:
            return "fewer episodes a task than a group has: a rough estimate"
        if known.spread.high - known.spread.low > _WIDE:
            played = f"{plural(known.episodes, 'episode')} of only {plural(self.tasks, 'task')}"
            return f"{played}: the shares are as good as unknown"
        return ""

    @property
    def whole_groups(self) -> bool:
        """True if as many episodes were played as a group of each task has."""
        return self.baseline.episodes >= self.baseline.group * self.tasks

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {**vars(self), "baseline": self.baseline.to_json()}


@dataclass(frozen=True)
class Known:
    """What is known of some tasks before a run."""

    tasks: int
    players: tuple[PlayerKnown, ...]
    """The weakest first."""
    subject: str | None
    """The player whose groups a training would learn from; None where nobody trains."""
    stale: int
    """Tasks that were measured only in an earlier form, or with another configuration."""
    command: str
    """The command that finds out more."""
    now: float

    @property
    def model(self) -> PlayerKnown | None:
        """The model that is trained, where it was evaluated."""
        return next((one for one in self.players if one.player == self.subject), None)

    @property
    def complete(self) -> bool:
        """True if another evaluation of these tasks would say little more."""
        model = self.model
        if self.subject is None or model is None:
            return self.subject is None
        return model.tasks == self.tasks and model.whole_groups

    def line(self) -> str:
        """All of it in one line."""
        parts = [*self._player_parts(), *self._model_parts()]
        if not self.players:
            parts = ["no evaluation of these tasks with this configuration is known"]
        if self.stale:
            parts.append(f"{plural(self.stale, 'task')} measured before a change: not counted")
        return "; ".join(parts)

    def _player_parts(self) -> Iterable[str]:
        if not self.players:
            return
        weakest, best = self.players[0], self.players[-1]
        if weakest is best:
            yield f"mean reward: {best.name} {self._reward(best)}"
        else:
            one, other = self._reward(weakest), self._reward(best)
            yield f"mean reward: weakest {weakest.name} {one}, best {best.name} {other}"

    def _reward(self, one: PlayerKnown) -> str:
        some = f", {one.tasks} of {self.tasks} tasks" if one.tasks < self.tasks else ""
        return f"{one.reward:.2f} ({age_text(max(0.0, self.now - one.since))}{some})"

    def _model_parts(self) -> Iterable[str]:
        if self.subject is None or not self.players:
            return
        name, model = clean_line(self.subject.removeprefix("openai:"), 60), self.model
        if model is None:
            yield f"{name} was not evaluated"
            return
        yield model.baseline.line() if len(self.players) == 1 else f"{name} {model.baseline.line()}"
        if model.too_few:
            yield model.too_few
        if not model.own:
            yield "no episode got any of the tasks' own reward: what differs is how calls are made"

    def check(self) -> Check | None:
        """The line as a check of a run; None where it says nothing that could help."""
        if self.subject is None and not self.players:
            return None
        state: CheckState = "fine" if self.complete else "warning"
        fix = None if self.complete else f"Find out: {self.command}"
        if fix is not None and self.subject is not None:
            fix += " (with OPENAI_BASE_URL or --base-url where the model is served)"
        return Check("baseline", state, clean_line(self.line(), 600), fix)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        model = self.model
        return {
            "line": self.line(),
            "tasks": self.tasks,
            "players": [one.to_json() for one in self.players],
            "model": self.subject,
            "evaluated": model is not None,
            "stale": self.stale,
            "command": self.command,
        }


def known_of(
    tasks: Sequence[Task],
    played: str,
    measures: Iterable[Measure],
    *,
    group: int,
    subject: str | None = None,
    command: str = "",
    now: float | None = None,
) -> Known:
    """Return what measures say of tasks.

    Args:
        tasks: Those of a run.
        played: `measures.play_digest` of how the run plays them.
        measures: Of any tasks.
        group: Episodes a group.
        subject: See `Known.subject`.
        command: See `Known.command`.
        now: Seconds since the epoch; by default the time is asked for.
    """
    measures = [one for one in measures if one.player.partition(":")[0] not in _NO_PLAYERS]
    wanted = {task_digest(task): task.id for task in tasks}
    same = [one for one in measures if one.task_digest in wanted and one.play_digest == played]
    measured = {one.task_digest for one in same}
    changed_play = {one.task_digest for one in measures}
    changed_task = {one.task for one in measures if one.play_digest == played}
    stale = [
        name
        for digest, name in wanted.items()
        if digest not in measured and (digest in changed_play or name in changed_task)
    ]
    players = [
        _player(player, list(each.values()), group, len(wanted))
        for player, each in by_player(same).items()
    ]
    return Known(
        len(wanted),
        tuple(sorted(players, key=lambda one: (one.reward, one.player))),
        subject,
        len(stale),
        command,
        time.time() if now is None else now,
    )


def _player(player: str, measures: Sequence[Measure], group: int, of: int) -> PlayerKnown:
    episodes = {one.task_digest: _episodes(one) for one in measures}
    return PlayerKnown(
        player,
        fmean(fmean(one.rewards) for one in measures),
        len(measures),
        min(one.time for one in measures),
        baseline(episodes, group=group, of=of),
        1 - fmean(one.difficulty for one in measures),
    )


def _episodes(one: Measure) -> list[PlayedEpisode]:
    """Return the episodes of a measure; which of them were solved is not known, only how many."""
    ordered = sorted(one.rewards, reverse=True)
    return [PlayedEpisode(reward, place < one.solved) for place, reward in enumerate(ordered)]


def stored_measures(folder: Path, store: RunStore) -> tuple[Measure, ...]:
    """Return the measures of all evaluations of a project. Reads files and the store."""
    found = [one for one in find_results(folder, store) if one.kind == "evaluation"]
    return tuple(one for run in found for one in read_measures(run.path.parent / METRICS))


def measurer(folder: Path, store: RunStore) -> Measurer:
    """Return what tells a preparation the difficulties that were measured in a project.

    They are those of the model that is trained, where it was evaluated on one of the tasks;
    otherwise those of the player with the highest rewards.
    """

    def measure(tasks: Sequence[Task], config: GymConfig, work: Work) -> Measured:
        from hudtui.core.tasks.select import Measured  # imports pyarrow

        asked = _asked(config, work, folder)
        measures = stored_measures(folder, store)
        known = known_of(tasks, asked.played, measures, **asked.known)
        if not known.players:
            return Measured(command=asked.command, stale=known.stale)
        by = known.model or known.players[-1]
        same = [one for one in measures if one.play_digest == asked.played]
        values = by_player(same)[by.player]
        difficulty = {
            task.id: values[digest].difficulty
            for task in tasks
            if (digest := task_digest(task)) in values
        }
        source = f"measured with {by.name} {age_text(max(0.0, known.now - by.since))}"
        if known.model is None and asked.subject is not None:
            source += ", not with the model"
        return Measured(difficulty, source, asked.command, known.stale)

    return measure


@dataclass(frozen=True)
class _Asked:
    """What a run would play, and how."""

    played: str
    group: int
    subject: str | None
    command: str

    @property
    def known(self) -> Mapping[str, Any]:
        """Arguments of `known_of`."""
        return {"group": self.group, "subject": self.subject, "command": self.command}


def _asked(config: GymConfig, work: Work, folder: Path, task_file: Path | None = None) -> _Asked:
    request, job = work.request, work.job
    trains = request.trains and job is not None
    turns = job.recipe.max_turns if trains and job is not None else request.max_turns
    subject = f"openai:{job.recipe.model}" if trains and job is not None else None
    group = job.recipe.num_generations if trains and job is not None else request.group
    config_name = _as_typed(str(request.config or config.path or ""), folder)
    tasks = _as_typed(str(request.tasks or task_file or "TASKS"), folder)
    words = ["hudtui", "eval", tasks, "-c", config_name]
    if subject is not None:
        words += ["-p", subject, "-r", str(group)]
    if turns is not None and turns != config.max_turns:
        words += ["--max-turns", str(turns)]
    return _Asked(play_digest(config, turns), group, subject, shlex.join(words))


def _as_typed(path: str, folder: Path) -> str:
    """Return a path as it is typed in a project's folder."""
    return str(Path(path).relative_to(folder)) if Path(path).is_relative_to(folder) else path


async def known_before(prepared: Preparation, project: Project) -> Known | None:
    """Return what is known of the tasks that a run would train on, or play.

    Reads the files of evaluations in a thread. None for a rehearsal, whose model is not the one
    that is asked about, and where tasks or configuration could not be read.
    """
    return await asyncio.to_thread(_known_before, prepared, project.folder, project.runs)


async def known_after(request: EvalRequest, prepared: EvalPrepared, project: Project) -> Known:
    """Return what is known of the tasks of an evaluation that is over, its own episodes included.

    Reads files in a thread.
    """

    def known() -> Known:
        own = read_measures(prepared.out_dir / METRICS)
        return known_of(
            prepared.tasks,
            play_digest(prepared.config, request.max_turns),
            (*own, *stored_measures(project.folder, project.runs)),
            group=request.group,
            subject=prepared.policy,
        )

    return await asyncio.to_thread(known)


async def with_baseline(
    prepared: Preparation, project: Project
) -> tuple[Preparation, Known | None]:
    """Return a preparation with what is known among its checks, and that by itself.

    The verdict of an audit of its environment is among the checks, too, where there is one.
    """
    known = await known_before(prepared, project)
    audited = await asyncio.to_thread(_audited_before, prepared, project)
    checks = [check for check in (None if known is None else known.check(), audited) if check]
    return replace(prepared, checks=(*prepared.checks, *checks)) if checks else prepared, known


def _audited_before(prepared: Preparation, project: Project) -> Check | None:
    """Return the newest verdict on what a run trains on as a check; None without one."""
    work, inputs = prepared.work, prepared.inputs
    if work is None or inputs.config is None or inputs.config_file is None or not inputs.tasks:
        return None
    if work.request.rehearse:
        return None
    config = config_in(inputs.config, inputs.config_file)
    kept = kept_audit(project.state_dir, config, inputs.tasks)
    if kept is None:
        return None
    state: CheckState = "fine" if kept.verdict == "sound" else "warning"
    fix = None if state == "fine" else f"See what was found: {kept.file}"
    return Check("audit", state, f"{kept.line} ({kept.age()})", fix)


def _known_before(prepared: Preparation, folder: Path, store: RunStore) -> Known | None:
    work, inputs = prepared.work, prepared.inputs
    if work is None or inputs.config is None or inputs.config_file is None or not inputs.tasks:
        return None
    if work.request.rehearse or (work.request.trains and work.job is None):
        return None
    held_out = 0 if work.job is None else work.job.recipe.held_out
    tasks = inputs.tasks[: len(inputs.tasks) - held_out] or inputs.tasks
    config = config_in(inputs.config, inputs.config_file)
    asked = _asked(config, work, folder, inputs.task_file)
    return known_of(tasks, asked.played, stored_measures(folder, store), **asked.known)
