"""Statistics of what is known before money is spent: success rates, spread, comparisons.

An interval is Wilson's for 95 %, with as many tries as the tasks are worth: the episodes of one
task are no independent tries (Kish's effective size), and there are at least as many as tasks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

from hudtui.core.results.queries import pass_at_k

Z = 1.959963984540054
"""The standard normal deviate that 95 % of all values lie within."""
_SAME = 9
"""Digits behind the point to which rewards are compared: sums of binary fractions differ there."""


class PlayedEpisode(NamedTuple):
    """An episode that came to an end of its own."""

    reward: float
    """0 without one."""
    solved: bool


@dataclass(frozen=True)
class Estimate:
    """A share with its interval of 95 %."""

    value: float
    low: float
    high: float
    tasks: int
    """Number of tasks that it is the mean of."""

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"

    def to_json(self) -> dict[str, float | int]:
        """As plain data."""
        return dict(vars(self))


@dataclass(frozen=True)
class Baseline:
    """What the episodes of a player say of the tasks."""

    episodes: int
    group: int
    """Episodes a group that `spread` is estimated for."""
    pass_1: Estimate | None
    pass_k: Mapping[int, Estimate]
    """pass@k for the largest k that every task has episodes for, if it is above 1."""
    spread: Estimate | None
    """Share of groups in which not all rewards are equal: those that a training by group
    comparison learns from. None where no task has two episodes."""
    solved: Mapping[str, float]
    """Share of solved episodes by task."""

    def line(self) -> str:
        """All of it in one line; empty without an episode."""
        if self.pass_1 is None:
            return ""
        parts = [f"pass@1 {self.pass_1}"]
        parts += [f"pass@{k} {estimate}" for k, estimate in self.pass_k.items()]
        if self.spread is not None:
            share, low, high = (
                f"{value:.0%}" for value in (self.spread.value, self.spread.low, self.spread.high)
            )
            parts.append(
                f"with {self.group} episodes a group, a training would learn from {share} of the "
                f"groups ({low} to {high})"
            )
        return "; ".join(parts)

    def to_json(self) -> dict[str, object]:
        """As plain data."""
        return {
            "episodes": self.episodes,
            "group": self.group,
            "pass@1": None if self.pass_1 is None else self.pass_1.to_json(),
            **{f"pass@{k}": one.to_json() for k, one in self.pass_k.items()},
            "spread": None if self.spread is None else self.spread.to_json(),
            "solved": dict(self.solved),
        }


def wilson(share: float, tries: float) -> tuple[float, float]:
    """Wilson's score interval of a share of tries.

    Raises:
        ValueError: There is no try, or the share is not within 0 to 1.
    """
    if tries <= 0 or not 0 <= share <= 1:
        raise ValueError(f"{share} of {tries} tries is no share")
    z2 = Z * Z
    middle = (share + z2 / (2 * tries)) / (1 + z2 / tries)
    half = Z / (1 + z2 / tries) * math.sqrt(share * (1 - share) / tries + z2 / (4 * tries * tries))
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))


def estimate(shares: Sequence[float], episodes: int) -> Estimate:
    """The mean of the tasks' shares, each within 0 to 1.

    Args:
        shares: One of each task, at least one.
        episodes: Of all tasks; the interval supposes at most so many independent tries.
    """
    mean, count = min(1.0, max(0.0, fmean(shares))), len(shares)
    worth = float(episodes)
    if count > 1:
        error = math.fsum((one - mean) ** 2 for one in shares) / (count - 1) / count
        worth = mean * (1 - mean) / error if error > 0 else float(episodes)
    tries = min(max(worth, count), max(episodes, count))
    low, high = wilson(mean, tries)
    return Estimate(mean, low, high, count)


def spread_chance(rewards: Sequence[float], group: int) -> float:
    """The chance that the rewards of a group of episodes of one task are not all equal.

    Without bias where there are at least `group` rewards (groups drawn from them, as pass@k is);
    otherwise groups are drawn with replacement.

    Raises:
        ValueError: There are fewer than two rewards, or a group has no episode.
    """
    count = len(rewards)
    if count < 2 or group < 1:
        raise ValueError("a spread needs two rewards and a group")
    alike: dict[float, int] = {}
    for reward in rewards:
        key = round(reward, _SAME)
        alike[key] = alike.get(key, 0) + 1
    if count >= group:
        whole = math.comb(count, group)
        return 1 - sum(math.comb(number, group) for number in alike.values()) / whole
    return 1 - math.fsum((number / count) ** group for number in alike.values())


def spread_estimate(
    rewards: Iterable[Sequence[float]], group: int, *, of: int | None = None
) -> Estimate | None:
    """The share of groups whose rewards are not all equal, as the mean of tasks.

    The interval joins two errors, as Newcombe's method of squares does. That of the episodes: those
    of a task are worth at least as many groups as they could be dealt into, as a mean over all
    groups that can be drawn from them varies less than one over groups that share none (Hoeffding
    1948). That of the tasks that were not played: each that was is worth one try.

    Args:
        rewards: Of each task; tasks with fewer than two are left out.
        group: Episodes of a group, at least 1.
        of: Number of tasks that a training draws from, if not all of them were played.

    Returns:
        None if no task has two rewards.
    """
    played = [ones for ones in rewards if len(ones) > 1]
    if not played:
        return None
    shares, groups = [], []
    for ones in played:
        shares.append(spread_chance(ones, group))
        groups.append(len(ones) / group)
    mean, count = min(1.0, fmean(shares)), len(played)
    # half a group more of each kind: a share of 0 or 1 is not known for certain
    likely = [(share * g + 0.5) / (g + 1) for share, g in zip(shares, groups, strict=True)]
    error = fmean(one * (1 - one) / g for one, g in zip(likely, groups, strict=True)) / count
    low, high = wilson(mean, fmean(likely) * (1 - fmean(likely)) / error)
    low = min(mean, max(low, 1 - fmean(_most_alike(ones, group) for ones in played)))
    if of is not None and of > count:
        lower, higher = wilson(mean, count * of / (of - count))
        low = mean - math.hypot(mean - low, mean - lower)
        high = mean + math.hypot(high - mean, higher - mean)
    return Estimate(mean, max(0.0, low), min(1.0, high), count)


def _most_alike(rewards: Sequence[float], group: int) -> float:
    """The highest likely chance that the rewards of a group are all equal, by pairs of them.

    All of a group are alike no more often than `pairs ** (group / 2)`, as norms of the chances of
    the rewards decrease.
    """
    if group < 2:
        return 1.0
    pairs = 1 - spread_chance(rewards, 2)
    return math.pow(wilson(pairs, len(rewards) / 2)[1], group / 2)


def baseline(
    episodes: Mapping[str, Sequence[PlayedEpisode]], *, group: int, of: int | None = None
) -> Baseline:
    """The baseline of the episodes of each task; tasks without one are left out.

    Args:
        episodes: By task.
        group: Episodes a group of the training that is thought of, at least 1.
        of: Number of tasks that the training draws from, if not all of them were played.
    """
    played = {task: tuple(ones) for task, ones in episodes.items() if ones}
    solved = {task: sum(one.solved for one in ones) for task, ones in played.items()}
    rates = {task: solved[task] / len(ones) for task, ones in played.items()}
    total = sum(map(len, played.values()))
    most = min(map(len, played.values()), default=0)
    pass_k = [pass_at_k(len(ones), solved[task], most) for task, ones in played.items()]
    rewards = [[one.reward for one in ones] for ones in played.values()]
    return Baseline(
        total,
        group,
        estimate(list(rates.values()), total) if rates else None,
        {most: estimate(pass_k, len(pass_k))} if most > 1 else {},
        spread_estimate(rewards, group, of=of),
        rates,
    )


@dataclass(frozen=True)
class GainSummary:
    """What the gains of all tasks that two runs have both played come to."""

    mean: float | None
    """None without a task."""
    low: float | None
    high: float | None
    """Interval of 95 % of the mean gain, by Student's t; None for fewer than two tasks."""
    wins: int
    """Tasks with a gain."""
    ties: int
    losses: int

    @property
    def sign_test(self) -> float:
        """Chance of so uneven a number of wins and losses if neither were better (two-sided)."""
        decided, fewer = self.wins + self.losses, min(self.wins, self.losses)
        tail = sum(math.comb(decided, number) for number in range(fewer + 1))
        return min(1.0, 2 * tail / (1 << decided))

    def line(self) -> str:
        """All of it in one line; empty without a task."""
        if self.mean is None:
            return ""
        interval = "" if self.low is None else f" (95 %: {self.low:+.4g} to {self.high:+.4g})"
        return (
            f"mean gain {self.mean:+.4g}{interval}; {self.wins} better, {self.ties} equal, "
            f"{self.losses} worse, sign test p = {self.sign_test:.2g}"
        )

    def to_json(self) -> dict[str, float | int | None]:
        """As plain data."""
        return {**vars(self), "sign_test": self.sign_test}


def gain_summary(gains: Iterable[float]) -> GainSummary:
    """The summary of the gains of tasks, one each."""
    rounded = [round(gain, _SAME) for gain in gains]
    if not rounded:
        return GainSummary(None, None, None, 0, 0, 0)
    count, mean = len(rounded), fmean(rounded)
    low = high = None
    if count > 1:
        half = student_t(count - 1) * stdev(rounded) / math.sqrt(count)
        low, high = mean - half, mean + half
    wins, losses = sum(gain > 0 for gain in rounded), sum(gain < 0 for gain in rounded)
    return GainSummary(mean, low, high, wins, count - wins - losses, losses)


def student_t(freedom: int) -> float:
    """The deviate of Student's t that 95 % of all values lie within.

    Args:
        freedom: Degrees of freedom, at least 1.
    """
    low, high = 0.0, 20.0
    for _ in range(60):  # the distribution grows with its argument: halve the interval
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < 0.95 else (low, middle)
    return (low + high) / 2


def _within(deviate: float, freedom: int) -> float:
    """The chance of a value of Student's t between -deviate and deviate.

    By Abramowitz and Stegun, 26.7.3 and 26.7.4.
    """
    angle = math.atan2(deviate, math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for step in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine * cosine * (step - 1) / step
        total += term
    if not odd:
        return sine * total
    return 2 / math.pi * (angle + sine * total)
