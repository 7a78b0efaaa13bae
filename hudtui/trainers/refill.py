"""Groups without a spread are played again with other tasks.

Episodes of a task that all have the same reward teach a comparison nothing: their place in the
batch is given to another task's.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hudtui.core.tasks.task import Task
from hudtui.trainers.rollout import TrainingEpisode

Group = Sequence[TrainingEpisode]
Play = Callable[[Sequence[Task]], Awaitable[Sequence[TrainingEpisode]]]
"""Plays an episode of each task; a task may come several times."""


@dataclass(frozen=True)
class Refilled:
    """The episodes of a step after its groups were refilled."""

    episodes: list[TrainingEpisode]
    """Those to train on, as many as were asked for, group by group."""
    tasks: tuple[Task, ...]
    """The tasks of all episodes that were played for it, those that were given up included."""
    played: tuple[TrainingEpisode, ...]
    """All these episodes, the first ones first."""
    groups: int = 0
    """Number of groups that were replaced."""
    flat: int = 0
    """Number of groups that still have no spread."""


def has_spread(group: Group) -> bool:
    """Return whether two episodes of a group have different rewards."""
    return len({round(one.reward, 9) for one in group if one.reward is not None}) > 1


async def refill(
    chosen: Sequence[Task],
    play: Play,
    *,
    size: int,
    times: int,
    pool: Sequence[Task],
    seed: str,
) -> Refilled:
    """Play the tasks of a step, and put other tasks into the places of groups without a spread.

    A task is played in one group of a step at most, so that it ends early where `pool` is small.

    Args:
        chosen: The tasks of the step, each `size` times in a row.
        play: Plays them.
        size: Episodes of a group.
        times: Times that groups are played again, at most.
        pool: All tasks that may take a place.
        seed: Decides which ones do.
    """
    played = list(await play(chosen))
    groups: list[Group] = [played[at : at + size] for at in range(0, len(played), size)]
    tasks, replaced = list(chosen), 0
    seen = {task.id for task in chosen}
    left = [task for task in pool if task.id not in seen]
    random.Random(seed).shuffle(left)
    for _ in range(times):
        flat = [place for place, group in enumerate(groups) if not has_spread(group)]
        others = left[: len(flat)]
        if not others:
            break
        left = left[len(others) :]
        again = [task for task in others for _ in range(size)]
        made = list(await play(again))
        tasks += again
        played += made
        for number, place in enumerate(flat[: len(others)]):
            group = made[number * size : (number + 1) * size]
            if has_spread(group):
                groups[place] = group
                replaced += 1
    return Refilled(
        [one for group in groups for one in group],
        tuple(tasks),
        tuple(played),
        replaced,
        sum(not has_spread(group) for group in groups),
    )
