"""Queries over results.

The histogram of rewards, the causes of failures, pass@k, and the differences between two episodes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import zip_longest
from typing import Literal

from hudtui.core.results.own import RUBRIC_PARTS
from hudtui.core.results.values import (
    EpisodeEntry,
    GroupKey,
    ResultGroup,
    Transcript,
    TranscriptCall,
    TranscriptTurn,
    stop_words,
)
from hudtui.core.rollouts.values import SOLVED
from hudtui.core.row_filter import Fields

EPISODE_FIELDS: Fields[EpisodeEntry] = {
    "task": lambda entry: entry.task,
    "reward": lambda entry: entry.reward,
    "step": lambda entry: entry.step,
    "split": lambda entry: entry.split or None,
    "rollout": lambda entry: entry.rollout,
    "stop": lambda entry: entry.stop,
    "turns": lambda entry: entry.turns,
    "tokens": lambda entry: entry.tokens,
    "seconds": lambda entry: entry.seconds,
    "cause": lambda entry: cause_of(entry),
    "error": lambda entry: entry.error,
    "run": lambda entry: entry.run,
    "started": lambda entry: entry.started_at,
    "number": lambda entry: entry.number,
}
"""The fields by which episodes are filtered, sorted and grouped with `core.row_filter`."""

GROUP_FIELDS: Fields[ResultGroup] = {
    "task": lambda group: group.key.task,
    "reward": lambda group: group.reward,
    "spread": lambda group: group.reward_std,
    "step": lambda group: group.key.step,
    "split": lambda group: group.key.split or None,
    "episodes": lambda group: len(group.numbers),
    "failed": lambda group: group.failed,
    "turns": lambda group: group.turns,
    "run": lambda group: group.key.run,
}
"""The fields by which groups are filtered and sorted."""


@dataclass(frozen=True)
class RewardBucket:
    """A bar of the histogram.

    Rewards from `low` up to, but not including, `high`; the last bar includes `high`.
    """

    low: float
    high: float
    count: int


def histogram(entries: Iterable[EpisodeEntry], buckets: int = 10) -> tuple[RewardBucket, ...]:
    """Return the histogram of the rewards, in bars of equal width; empty without rewards.

    The bars cover 0 to 1 if all rewards are within it, so that two runs can be compared, otherwise
    the range of the rewards.
    """
    rewards = [entry.reward for entry in entries if entry.reward is not None]
    if not rewards:
        return ()
    low, high = min(rewards), max(rewards)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    width = (high - low) / buckets
    if not width:  # all rewards are equal, or nearly equal
        return (RewardBucket(low, high, len(rewards)),)
    edges = [low + (high - low) * place / buckets for place in range(buckets)] + [high]
    counts = [0] * buckets
    for reward in rewards:
        place = min(int((reward - low) / width), buckets - 1)
        # The filter compares with the edges, so the edges decide where rounding is ambiguous.
        place += (place + 1 < buckets and reward >= edges[place + 1]) - (reward < edges[place])
        counts[place] += 1
    return tuple(
        RewardBucket(edges[place], edges[place + 1], count) for place, count in enumerate(counts)
    )


_VARIABLE = (
    (re.compile(r"https?://\S+"), "<address>"),
    (re.compile(r"(?<![\w.])/[\w.@+-]+(?:/[\w.@+-]+)+"), "<path>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "<n>"),
)


def cause_of(entry: EpisodeEntry) -> str | None:
    """Return why an episode failed, without the numbers, ids and paths that vary between failures.

    None if it did not fail.
    """
    return _cause(entry.error or entry.stop) if entry.failed else None


@lru_cache(maxsize=10_000)
def _cause(error: str) -> str:
    text = error.strip().partition("\n")[0][:200]
    for pattern, word in _VARIABLE:
        text = pattern.sub(word, text)
    return text


@dataclass(frozen=True)
class FailureCause:
    """Episodes that failed, or did not solve their task, for the same reason."""

    cause: str
    numbers: tuple[int, ...]
    """`EpisodeEntry.number`."""
    example: str
    """The error, or else the end, of the first episode."""
    tasks: int
    """Number of different tasks."""
    times: int | None = None
    """Number of times, if more than once in an episode."""


_SLIPS = {
    "no_call": "replies without a call that can be read",
    "refused": "calls that were refused",
    "failed": "calls that the environment answered with an error",
}


def slips(entries: Iterable[EpisodeEntry]) -> tuple[FailureCause, ...]:
    """Return what went wrong within episodes, by kind, with the episodes in which it did.

    The most frequent first.
    """
    counted: dict[str, list[tuple[EpisodeEntry, int]]] = {}
    for entry in entries:
        for kind, count in entry.slips:
            counted.setdefault(_SLIPS.get(kind, kind), []).append((entry, count))
    causes = [
        FailureCause(
            kind,
            tuple(entry.number for entry, _ in those),
            kind,
            len({(entry.run, entry.task) for entry, _ in those}),
            sum(count for _, count in those),
        )
        for kind, those in counted.items()
    ]
    return tuple(sorted(causes, key=lambda one: -(one.times or 0)))


def failures(entries: Iterable[EpisodeEntry]) -> tuple[FailureCause, ...]:
    """Return the failed episodes by their causes, the most frequent first."""
    return _by_cause((cause_of(entry), entry) for entry in entries)


def unsolved(
    entries: Iterable[EpisodeEntry], *, solved_at: float = SOLVED
) -> tuple[FailureCause, ...]:
    """Return the episodes that ended without solving their task, by their ends.

    The most frequent end comes first.
    """
    return _by_cause((_shortcoming(entry, solved_at), entry) for entry in entries)


def _shortcoming(entry: EpisodeEntry, solved_at: float) -> str | None:
    parts = entry.parts
    judged = entry.reward is not None or "task_completion" in parts
    if entry.failed or not judged or entry.solved(solved_at):
        return None
    form, tools = parts.get("format_compliance"), parts.get("tool_execution")
    if form == 0:
        how = ": no reply holds a call"
    elif tools == 0:
        how = ": no call succeeded"
    elif tools is not None and tools < 1:
        how = ": some calls were refused or failed"
    else:
        how = ": some replies are out of form" if form is not None and form < 1 else ""
    end = "done too early" if entry.stop == "done" else stop_words(entry.stop)
    return f"not solved, {end}{how}"


def further_parts(entries: Iterable[EpisodeEntry]) -> tuple[str, ...]:
    """Return the names of the parts of the reward beside those of every rubric.

    In the order in which they occur: the user's own ones first, then those of tasks.
    """
    names = dict.fromkeys(entry.part_names for entry in entries)
    return tuple(dict.fromkeys(name for some in names for name in some if name not in RUBRIC_PARTS))


def _by_cause(pairs: Iterable[tuple[str | None, EpisodeEntry]]) -> tuple[FailureCause, ...]:
    by_cause: dict[str, list[EpisodeEntry]] = {}
    for cause, entry in pairs:
        if cause is not None:
            by_cause.setdefault(cause, []).append(entry)
    causes = [
        FailureCause(
            cause,
            tuple(entry.number for entry in failed),
            failed[0].error or failed[0].stop,
            len({(entry.run, entry.task) for entry in failed}),
        )
        for cause, failed in by_cause.items()
    ]
    return tuple(sorted(causes, key=lambda one: -len(one.numbers)))


@dataclass(frozen=True)
class StepMap:
    """The groups of a training by task and step."""

    tasks: tuple[GroupKey, ...]
    """Run, split and task of each row, sorted by name, with evaluations last; their `step` is
    None."""
    steps: tuple[int, ...]
    """In order."""
    groups: Mapping[tuple[GroupKey, int], ResultGroup]
    """Groups by row and step; without an entry if the task was not played or recorded at that
    step."""
    low: float
    """The smallest mean reward of a group."""
    high: float

    def name(self, task: GroupKey) -> str:
        """Return the name of a row.

        The task, with split and run if these are needed to distinguish rows.
        """
        split = f" ({task.split})" if task.split not in ("", "train") else ""
        return (
            task.task
            + split
            + (f" · {task.run}" if len({one.run for one in self.tasks}) > 1 else "")
        )

    def digit(self, group: ResultGroup | None) -> str:
        """Return the mean reward of a group as a digit, 0 for the smallest and 9 for the largest.

        `-` without a reward.
        """
        if group is None:
            return " "
        if group.reward is None:
            return "-"
        return str(min(int((group.reward - self.low) / ((self.high - self.low) or 1.0) * 10), 9))


def step_map(groups: Iterable[ResultGroup]) -> StepMap:
    """Return groups by task and step. Groups without a step are left out."""
    found: dict[tuple[GroupKey, int], ResultGroup] = {}
    for group in groups:
        key = group.key
        if key.step is not None:
            found[GroupKey(key.run, key.split, None, key.task), key.step] = group
    tasks = sorted(
        {task for task, _ in found},
        key=lambda one: (one.run, one.split not in ("", "train"), one.split, one.task),
    )
    rewards = [group.reward for group in found.values() if group.reward is not None]
    steps = tuple(sorted({step for _, step in found}))
    return StepMap(tuple(tasks), steps, found, min(rewards, default=0.0), max(rewards, default=1.0))


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return the probability that at least one of k tries succeeds.

    It is estimated without bias from c successes in n tries.

    1 - C(n-c, k) / C(n, k), by Chen et al., Evaluating Large Language Models Trained on Code
    (2021), section 2.1.

    Raises:
        ValueError: `0 <= c <= n` or `1 <= k <= n` does not hold.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@{k} cannot be estimated from {c} of {n}")
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


@dataclass(frozen=True)
class TaskPasses:
    """The success rate of a task."""

    task: str
    episodes: int
    solved: int
    rates: Mapping[int, float]
    """pass@k by k, for each k up to the number of episodes."""


@dataclass(frozen=True)
class PassTable:
    """pass@k of some tasks."""

    solved_at: float
    """Own reward of a task from which an episode counts as solved."""
    tasks: tuple[TaskPasses, ...]
    rates: Mapping[int, float]
    """Mean over the tasks that have at least k episodes, by k."""
    counted: Mapping[int, int]
    """Number of those tasks, by k."""


def pass_table(
    entries: Iterable[EpisodeEntry],
    ks: Sequence[int] = (1, 2, 4, 8, 16, 32, 64),
    *,
    solved_at: float = SOLVED,
) -> PassTable:
    """Return pass@k for each task and over all tasks.

    Episodes without a reward count as not solved, failed ones not at all. The episodes of a task
    count together, regardless of run and step. For a task, values of k above its number of episodes
    are left out.
    """
    counts: dict[str, list[int]] = {}
    for entry in entries:
        count = counts.setdefault(entry.task, [0, 0])
        count[0] += not entry.failed
        count[1] += entry.solved(solved_at)
    wanted = sorted({k for k in ks if k >= 1})
    tasks = tuple(
        TaskPasses(task, n, c, {k: pass_at_k(n, c, k) for k in wanted if k <= n})
        for task, (n, c) in counts.items()
    )
    counted = {k: total for k in wanted if (total := sum(k in task.rates for task in tasks))}
    rates = {
        k: math.fsum(task.rates[k] for task in tasks if k in task.rates) / total
        for k, total in counted.items()
    }
    return PassTable(solved_at, tasks, rates, counted)


@dataclass(frozen=True)
class GroupPair:
    """A task in two runs, or at two steps."""

    task: str
    left: ResultGroup | None
    right: ResultGroup | None

    @property
    def gain(self) -> float | None:
        """Mean reward of the right group minus that of the left one.

        None if one of them has none.
        """
        if (
            self.left is None
            or self.right is None
            or self.left.reward is None
            or self.right.reward is None
        ):
            return None
        return self.right.reward - self.left.reward


def compare_groups(
    left: Iterable[ResultGroup], right: Iterable[ResultGroup]
) -> tuple[GroupPair, ...]:
    """Return two sets of groups side by side, matched by task, in the order of the left groups.

    If a side has several groups of a task (at several steps), the last group counts.
    """
    lefts = {group.key.task: group for group in left}
    rights = {group.key.task: group for group in right}
    return tuple(
        GroupPair(task, lefts.get(task), rights.get(task))
        for task in dict.fromkeys((*lefts, *rights))
    )


Change = Literal["same", "changed", "left", "right"]
"""State of a turn: the same in both episodes, different, or only in one of them."""


@dataclass(frozen=True)
class TurnDiff:
    """A turn of two episodes."""

    number: int
    change: Change
    left: TranscriptTurn | None
    right: TranscriptTurn | None
    fields: tuple[str, ...] = ()
    """The fields that differ, of `reply`, `thought`, `calls`, `observation` and `is_error`."""


@dataclass(frozen=True)
class EpisodeDiff:
    """Two episodes turn by turn."""

    opening: bool
    """True if both begin with the same messages."""
    turns: tuple[TurnDiff, ...]

    @property
    def first(self) -> TurnDiff | None:
        """The first turn in which the episodes differ; None if all turns are the same."""
        return next((turn for turn in self.turns if turn.change != "same"), None)


def diff_transcripts(left: Transcript, right: Transcript) -> EpisodeDiff:
    """Compare two episodes turn by turn.

    The n-th turn of one episode with the n-th turn of the other. Turns are not aligned in any other
    way, because each turn depends on the whole conversation before it.
    """
    turns = []
    for number, (one, other) in enumerate(zip_longest(left.turns, right.turns), 1):
        if one is None or other is None:
            turns.append(TurnDiff(number, "right" if one is None else "left", one, other))
            continue
        names = tuple(name for name in _COMPARED if _compared(one, name) != _compared(other, name))
        turns.append(TurnDiff(number, "changed" if names else "same", one, other, names))
    return EpisodeDiff(_plain(left) == _plain(right), tuple(turns))


_COMPARED = ("reply", "thought", "calls", "observation", "is_error")


def _compared(turn: TranscriptTurn, name: str) -> object:
    if name == "calls":
        return [(call.name, _arguments(call)) for call in turn.calls]
    return getattr(turn, name)


def _arguments(call: TranscriptCall) -> object:
    return dict(call.arguments) if isinstance(call.arguments, Mapping) else call.arguments


def _plain(transcript: Transcript) -> list[tuple[object, object]]:
    return [(message.get("role"), message.get("content")) for message in transcript.opening]


_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_WORDS = 4_000


def word_diff(left: str, right: str) -> tuple[tuple[Change, str], ...]:
    """Return two texts as pieces.

    In both texts (`same`), only in the left (`left`), or only in the right (`right`). The pieces
    that are not `right` form the left text, and the pieces that are not `left` form the right text.
    Texts of more than a few thousand words are compared line by line.
    """
    ones, others = _WORD.findall(left), _WORD.findall(right)
    if max(len(ones), len(others)) > _MOST_WORDS:
        ones, others = left.splitlines(keepends=True), right.splitlines(keepends=True)
    shorter = min(len(ones), len(others))
    begin = next((place for place in range(shorter) if ones[place] != others[place]), shorter)
    end = next(
        (place for place in range(shorter - begin) if ones[-1 - place] != others[-1 - place]),
        shorter - begin,
    )
    left_end, right_end = len(ones) - end, len(others) - end
    pieces: list[tuple[Change, str]] = [("same", "".join(ones[:begin]))]
    # Very frequent words do not start a match: otherwise, texts such as boards would take minutes.
    for what, a, b, c, d in SequenceMatcher(
        None, ones[begin:left_end], others[begin:right_end]
    ).get_opcodes():
        left, right = "".join(ones[begin + a : begin + b]), "".join(others[begin + c : begin + d])
        pieces += [("same", left)] if what == "equal" else [("left", left), ("right", right)]
    pieces.append(("same", "".join(ones[left_end:])))
    return tuple(piece for piece in pieces if piece[1])
