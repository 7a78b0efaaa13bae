"""The episodes of a training's step, played again where the environment failed for all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from hudtui.core.errors import RunError
from hudtui.core.rollouts.values import Episode
from hudtui.core.text import clean_line, none_of

T = TypeVar("T")

PAUSES = (5.0, 30.0)
"""Seconds before a step of which no episode came to its end is played again: an environment that is
restarted is back by then."""
REHEARSED = (1.0,)
"""The same in a rehearsal, which somebody waits for."""
_MOST_CAUSES = 3


async def play_step(
    play: Callable[[], Awaitable[T]],
    episodes: Callable[[T], Sequence[Episode]],
    warn: Callable[[str], None],
    *,
    pauses: Sequence[float] = PAUSES,
    any_of_all: Callable[[bool], bool] = bool,
) -> T:
    """Play a step, and again while every episode breaks off.

    Args:
        play: Plays it.
        episodes: The episodes in what `play` returned.
        warn: Told before it is played again.
        pauses: Seconds before each further try.
        any_of_all: Whether an episode of any process came to its end, given whether one of this
            process did.

    Returns:
        What `play` returned at last.

    Raises:
        RunError: No episode came to its end, however often the step was played.
    """
    for pause in (*pauses, None):
        made = await play()
        played = episodes(made)
        if any_of_all(any(one.ok for one in played)):
            return made
        what, why = (
            f"{none_of(len(played), 'episode')} of this step could be played",
            causes(played),
        )
        if pause is not None:
            warn(f"{what}, and they are played again in {pause:g} s: {why}")
            await asyncio.sleep(pause)
    raise RunError(
        f"{what}: the environment fails for every task, {len(pauses) + 1} times in a row",
        why=why,
        fix="Try it without training: hudtui eval TASKS --config CONFIG --policy random --limit 1",
    )


def causes(episodes: Sequence[Episode]) -> str:
    """Return why episodes broke off, in one line.

    The most frequent causes, with their numbers where there are several.
    """
    counted = Counter(clean_line(one.error or one.stop, 300) for one in episodes if not one.ok)
    if len(counted) == 1:
        return next(iter(counted))
    more = (
        f"; and {len(counted) - _MOST_CAUSES} other causes" if len(counted) > _MOST_CAUSES else ""
    )
    return (
        "; ".join(f"{number} x {cause}" for cause, number in counted.most_common(_MOST_CAUSES))
        + more
    )
