"""Groups without a spread are played again with other tasks.

Episodes of a task that all have the same reward teach a comparison nothing: their place in the
batch is given to another task's.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from hudtui.core.errors import RunError
from hudtui.core.tasks.task import Task
from hudtui.core.text import clean_line

E = TypeVar("E")
"""An episode in the form of a trainer."""
Play = Callable[[Sequence[Task]], Awaitable[Sequence[E]]]
"""Plays an episode of each task; a task may come several times."""


@dataclass(frozen=True)
class Refilled(Generic[E]):
    """The episodes of a step after its groups were refilled."""

    episodes: list[E]
    """Those to train on, as many as were asked for, group by group."""
    tasks: tuple[Task, ...]
    """The tasks of all episodes that were played for it, those that were given up included."""
    played: tuple[E, ...]
    """All these episodes, the first ones first."""
    groups: int = 0
    """Number of groups that were replaced."""
    flat: int = 0
    """Number of groups that still have no spread."""
    first: int = 0
    """Number of episodes that were played before any was given up."""

    @property
    def counts(self) -> dict[str, float]:
        """The numbers of it, by the names of the metrics."""
        return {
            "groups_refilled": float(self.groups),
            "groups_without_spread": float(self.flat),
            "refill_episodes": float(len(self.played) - self.first),
        }


def has_spread(rewards: Sequence[float | None]) -> bool:
    """Return whether a group has two different rewards; None is an episode without one."""
    return len({round(reward, 9) for reward in rewards if reward is not None}) > 1


async def refill(
    chosen: Sequence[Task],
    play: Play[E],
    reward: Callable[[E], float | None],
    *,
    size: int,
    times: int,
    pool: Sequence[Task],
    seed: str,
    warn: Callable[[str], None],
) -> Refilled[E]:
    """Play the tasks of a step, and put other tasks into the places of groups without a spread.

    A task is played in one group of a step at most, so that it ends early where `pool` is small.

    Args:
        chosen: The tasks of the step, each `size` times in a row.
        play: Plays them.
        reward: Returns the reward of an episode; None if it broke off.
        size: Episodes of a group.
        times: Times that groups are played again, at most.
        pool: All tasks that may take a place.
        seed: Decides which ones do.
        warn: Called with why the groups are not played again.

    Raises:
        RunError: The tasks of the step cannot be played. Where those in their places cannot, the
            groups stay as they are.
    """

    def is_flat(group: Sequence[E]) -> bool:
        return not has_spread([reward(one) for one in group])

    played = list(await play(chosen))
    groups: list[Sequence[E]] = [played[at : at + size] for at in range(0, len(played), size)]
    tasks, replaced = list(chosen), 0
    seen = {task.id for task in chosen}
    left = [task for task in pool if task.id not in seen]
    random.Random(seed).shuffle(left)
    for _ in range(times):
        flat = [place for place, group in enumerate(groups) if is_flat(group)]
        others = left[: len(flat)]
        if not others:
            break
        left = left[len(others) :]
        again = [task for task in others for _ in range(size)]
        try:
            made = list(await play(again))
        except RunError as error:
            warn(f"groups without a spread stay as they are: {clean_line(error.what, 300)}")
            break
        tasks += again
        played += made
        for number, place in enumerate(flat[: len(others)]):
            group = made[number * size : (number + 1) * size]
            if not is_flat(group):
                groups[place] = group
                replaced += 1
    return Refilled(
        [one for group in groups for one in group],
        tuple(tasks),
        tuple(played),
        replaced,
        sum(map(is_flat, groups)),
        len(chosen),
    )
