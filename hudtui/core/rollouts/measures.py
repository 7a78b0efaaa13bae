"""Measures of tasks: what a player got on each, kept among the metrics of an evaluation.

A line of an evaluation's `metrics.jsonl` names the task and the way it was played by digests, so
that a later reader knows whether both are still the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec

from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.files import MAX_BYTES, open_file
from hudtui.core.gym.values import GymConfig
from hudtui.core.rollouts.outcome import EpisodeOutcome
from hudtui.core.rollouts.reward import reward_files
from hudtui.core.rollouts.values import plain_number
from hudtui.core.tasks.solution import FIELD as SOLUTION
from hudtui.core.tasks.solution import without_solution
from hudtui.core.tasks.task import Task, task_record

_MOST_LINES = 200_000
"""Lines of a file of metrics that are read."""
_MOST_EPISODES = 10_000
_LARGEST_REWARD = 1e9
"""Bounds of a measure; what is beyond them was not written by an evaluation."""


@dataclass(frozen=True)
class Measure:
    """A task as one player has played it."""

    task: str
    """Id of the task."""
    task_digest: str
    """See `task_digest`."""
    play_digest: str
    """See `play_digest`."""
    player: str
    """Name of the policy: `random`, `openai:MODEL`."""
    rewards: tuple[float, ...]
    """Those of the episodes that came to an end of their own; at least one."""
    solved: int
    """Number of solved episodes among them."""
    difficulty: float
    """See `difficulty_of`."""
    time: float
    """Seconds since the epoch."""


class _Line(msgspec.Struct):
    task: str
    task_digest: str
    play_digest: str
    player: str
    rewards: list[float]
    solved: float
    difficulty: float
    time: str


_lines = msgspec.json.Decoder(_Line)


def task_digest(task: Task) -> str:
    """Return a short digest of a task: its id, and all that an episode of it depends on."""
    return _digest(task_record(without_solution(task)))


def play_digest(config: GymConfig, max_turns: int | None = None) -> str:
    """Return a short digest of the way tasks are played: configuration, code of the reward, turns.

    Code that cannot be read is that of no other digest's.
    """
    raw = {name: value for name, value in config.raw.items() if name != "job"}
    turns = config.max_turns if max_turns is None else max_turns
    return _digest([raw, config.reward, _code_digests(config), turns])


def _code_digests(config: GymConfig) -> list[str]:
    if not config.reward:
        return []
    try:
        return [hashlib.sha256(file.read_bytes()).hexdigest() for file in reward_files(config)]
    except (HudtuiError, OSError) as error:
        return [str(error)]


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]


def difficulty_of(outcomes: Sequence[EpisodeOutcome], *, judged: bool) -> float | None:
    """Return the difficulty that a task had for a player; None without a whole episode.

    It is 1 minus the mean of the task's own reward, within 0 to 1: 0 if every episode got all of
    it, 1 if none got any. With an evaluator that says yes or no, it is the share of episodes that
    did not solve the task.

    Args:
        outcomes: The episodes of the task.
        judged: The task is judged by itself; otherwise the whole reward stands for its own.
    """
    whole = [one for one in outcomes if not one.failed]
    own = [one.task_completion if judged else one.reward for one in whole]
    if not own:
        return None
    return 1 - fmean(min(1.0, max(0.0, value)) for value in own)


def measure_fields(
    task: Task, outcomes: Sequence[EpisodeOutcome], *, player: str, played: str
) -> dict[str, Any]:
    """Return the fields of a line of metrics that say what was measured, and of what.

    Empty without a whole episode, and for the tasks' solutions: they say nothing of a player.
    """
    if player == SOLUTION:
        return {}
    whole = [one for one in outcomes if not one.failed]
    difficulty = difficulty_of(whole, judged=task.judged)
    if difficulty is None:
        return {}
    return {
        "player": player,
        "task_digest": task_digest(task),
        "play_digest": played,
        "rewards": [plain_number(one.reward) for one in whole],
        "solved": sum(one.solved for one in whole) / len(whole),
        "difficulty": plain_number(difficulty),
    }


def read_measures(path: Path) -> tuple[Measure, ...]:
    """Return the measures in a file of metrics, in its order; other lines are passed over.

    Empty for a file that cannot be read. A file that is as it was is not read again.
    """
    try:
        status = path.stat()
    except OSError:
        return ()
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=500)
def _read(path: Path, changed: int, size: int) -> tuple[Measure, ...]:
    measures = []
    try:
        with open_file(path) as stream:
            for _ in range(_MOST_LINES):
                line = stream.readline(MAX_BYTES)
                if not line:
                    break
                measures.append(_measure(line))
    except (InputError, OSError):
        return ()
    return tuple(one for one in measures if one is not None)


def _measure(line: bytes) -> Measure | None:
    try:
        read = _lines.decode(line)
        time = datetime.fromisoformat(read.time).timestamp()
    except (ValueError, OverflowError, OSError, RecursionError):
        return None
    episodes = len(read.rewards)
    if not 0 < episodes <= _MOST_EPISODES or max(map(abs, read.rewards)) > _LARGEST_REWARD:
        return None
    if not 0 <= read.solved <= 1 or not 0 <= read.difficulty <= 1:
        return None
    return Measure(
        read.task,
        read.task_digest,
        read.play_digest,
        read.player,
        tuple(read.rewards),
        round(read.solved * episodes),
        read.difficulty,
        time,
    )


def by_player(measures: Sequence[Measure]) -> Mapping[str, Mapping[str, Measure]]:
    """Return one measure of each player and task, by player and by digest of the task.

    Of several it is the one with the most episodes, then the newest. They are not added up: a
    policy with a seed plays the same episodes again.
    """
    best: dict[str, dict[str, Measure]] = {}
    for one in measures:
        tasks = best.setdefault(one.player, {})
        known = tasks.get(one.task_digest)
        if known is None or _weight(one) > _weight(known):
            tasks[one.task_digest] = one
    return best


def _weight(one: Measure) -> tuple[int, float]:
    return len(one.rewards), one.time
