"""Results of episodes: outcomes, metrics by task, and the summary of an evaluation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from hudtui.core.gym.rubric import reward_warning
from hudtui.core.gym.values import GymConfig
from hudtui.core.rollouts.trace import read_trace
from hudtui.core.rollouts.values import ENDED, Episode, is_solved, plain_number
from hudtui.core.tasks.expectation import JudgedPart
from hudtui.core.tasks.task import Task
from hudtui.core.text import clean_line

TRACES = "traces.jsonl"
METRICS = "metrics.jsonl"


@dataclass(frozen=True)
class EpisodeOutcome:
    """An episode without its conversation: what a table needs."""

    task: str
    rollout: int
    reward: float
    task_completion: float
    tool_execution: float
    format_compliance: float
    reward_found: bool
    turns: int
    stop: str
    error: str | None
    seconds: float
    usage: Mapping[str, int] = field(default_factory=dict)
    own: Mapping[str, float] = field(default_factory=dict)
    """Parts of the task's `evaluate`, and the user's own parts of the reward, by name."""
    parts: tuple[JudgedPart, ...] = ()
    """The outcome of each part of the task's `evaluate`."""
    judge: Mapping[str, float] = field(default_factory=dict)
    """What the models that judge took, as `info["judge"]` of a record; empty where none judges."""
    judged: bool = True
    """False if the task has no evaluator of its own."""
    other_dialects: Mapping[str, int] = field(default_factory=dict)
    """Replies that made their call in another dialect than the configured one, by that dialect."""
    cut: int = 0
    """Replies that were cut off at their limit of tokens."""
    unshown: tuple[str, ...] = ()
    """Tools whose answers hold more than the agent was shown; see `observation.unshown`."""

    @property
    def failed(self) -> bool:
        """True if an error ended the episode."""
        return self.stop not in ENDED

    @property
    def solved(self) -> bool:
        """True if the task is done; see `values.is_solved`."""
        completion = self.task_completion if self.judged and self.reward_found else None
        return not self.failed and is_solved(completion, self.reward)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        plain = {**vars(self), "usage": dict(self.usage), "own": dict(self.own)}
        plain["parts"] = [part.to_json() for part in self.parts]
        plain["judge"] = dict(self.judge)
        del plain["judged"]
        plain["other_dialects"] = dict(self.other_dialects)
        plain["unshown"] = list(self.unshown)
        optional = ("own", "parts", "judge", "other_dialects", "cut", "unshown")
        empty = {name for name in optional if not plain[name]}
        return {name: value for name, value in plain.items() if name not in empty}


def outcome_of(episode: Episode) -> EpisodeOutcome:
    """The outcome of an episode."""
    usage, judge = (_numbers(episode.info.get(name)) for name in ("usage", "judge"))
    return EpisodeOutcome(
        task=episode.task_id,
        rollout=_rollout(episode),
        **vars(episode.scores),
        turns=len(episode.turns),
        stop=episode.stop,
        error=episode.error,
        seconds=float(episode.seconds.get("total", 0.0)),
        usage=usage,
        judge=judge,
        judged=episode.judged,
        other_dialects=_numbers(episode.info.get("other_dialects")),
        cut=sum(turn.cut for turn in episode.turns),
        unshown=unshown_tools(episode),
    )


def other_dialects(outcomes: Iterable[EpisodeOutcome], own: str) -> str | None:
    """Return a sentence about replies that made their calls in another dialect than `own`.

    None without any.
    """
    counts: Counter[str] = Counter()
    replies = 0
    for outcome in outcomes:
        replies += outcome.turns
        counts.update(outcome.other_dialects)
    if not counts:
        return None
    (most, _), *_ = counts.most_common(1)
    listed = " and ".join(f"{count} made {name} calls" for name, count in counts.most_common())
    return (
        f"of {replies} replies {listed}; this configuration reads {own}: "
        f"try --dialect {most}, or set parser.dialect"
    )


def cut_replies(outcomes: Iterable[EpisodeOutcome]) -> str | None:
    """Return a sentence about replies that were cut off; None without any."""
    listed = list(outcomes)
    cut, replies = sum(one.cut for one in listed), sum(one.turns for one in listed)
    if not cut:
        return None
    return (
        f"{cut} of {replies} replies were cut off at the limit of tokens: raise --max-tokens, or "
        "let the model think less"
    )


def unshown_tools(episode: Episode) -> tuple[str, ...]:
    """Return the tools whose answers held more than the agent of an episode was shown."""
    names = episode.info.get("unshown")
    return tuple(map(str, names)) if isinstance(names, list) else ()


def unshown_answers(names: Iterable[str], observations: str) -> str | None:
    """Return a sentence about tools whose answers hold more than is shown; None without any."""
    listed = ", ".join(clean_line(name, 60) for name in dict.fromkeys(names))
    if not listed:
        return None
    what = "structured content holds what the text lacks"
    if observations == "structured":
        what = "text holds what the structured content lacks"
    return f"answers of {listed} hold more than the agent is shown: their {what}; " + (
        "`observations: both` in the configuration shows all of it"
    )


class EpisodeRemarks:
    """What is worth a warning in episodes that come one by one; each thing is said once."""

    def __init__(self, config: GymConfig) -> None:
        self._observations = config.observations
        self._told_of_range = False
        self._told_of_tools: set[str] = set()

    def about(self, episode: Episode) -> Iterator[str]:
        """Yield sentences about an episode that were not said of an earlier one."""
        outside = reward_warning(episode.scores.task_completion)
        if outside is not None and not self._told_of_range:
            self._told_of_range = True
            yield f"task {clean_line(episode.task_id, 80)}: {outside}"
        names = [name for name in unshown_tools(episode) if name not in self._told_of_tools]
        self._told_of_tools.update(names)
        if (text := unshown_answers(names, self._observations)) is not None:
            yield text


def _numbers(value: Any) -> dict[str, Any]:
    """Return the finite numbers of a record's object, which may hold anything."""
    items = value.items() if isinstance(value, Mapping) else ()
    return {name: one for name, one in items if isinstance(one, int | float) and math.isfinite(one)}


def _rollout(episode: Episode) -> int:
    number = episode.info.get("rollout")
    return number if isinstance(number, int) else 0


@dataclass(frozen=True)
class EvalSummary:
    """Result of an evaluation."""

    outcomes: tuple[EpisodeOutcome, ...]
    """In the order of the tasks, then of the rollouts."""
    expected: int
    """Episodes that were to be played."""

    @property
    def failed(self) -> int:
        """Episodes that something broke off.

        They count in no mean: they say nothing about the policy.
        """
        return sum(outcome.failed for outcome in self.outcomes)

    @property
    def causes(self) -> dict[str, int]:
        """Errors that ended episodes, with their numbers; the most frequent first."""
        counted = Counter(
            clean_line(one.error or one.stop, 300) for one in self.outcomes if one.failed
        )
        return dict(counted.most_common())

    @property
    def reward(self) -> float | None:
        """Mean reward of the episodes that came to an end of their own; None without any."""
        return mean_reward(self.outcomes)

    @property
    def reward_std(self) -> float | None:
        """Spread of their rewards; None for fewer than two."""
        rewards = [outcome.reward for outcome in self.outcomes if not outcome.failed]
        return stdev(rewards) if len(rewards) > 1 else None

    @property
    def judging(self) -> dict[str, float]:
        """What the models that judge took in all; empty where none judges.

        `verdicts`, of which some were `cached`, `requests`, `prompt_tokens`, `completion_tokens`;
        `cost` in USD, where it is known of every episode.
        """
        judged = [outcome.judge for outcome in self.outcomes if outcome.judge]
        known = dict.fromkeys(name for one in judged for name in one)
        sums = {name: sum(one.get(name, 0) for one in judged) for name in known}
        if any("cost" not in one for one in judged):
            sums.pop("cost", None)
        return sums

    def by_task(self) -> dict[str, tuple[EpisodeOutcome, ...]]:
        """The outcomes of each task, in order."""
        found: dict[str, list[EpisodeOutcome]] = {}
        for outcome in self.outcomes:
            found.setdefault(outcome.task, []).append(outcome)
        return {task: tuple(outcomes) for task, outcomes in found.items()}

    def to_json(self) -> dict[str, Any]:
        """As plain data: totals, and a row for each task."""
        stops: dict[str, int] = {}
        for outcome in self.outcomes:
            stops[outcome.stop] = stops.get(outcome.stop, 0) + 1
        return {
            "episodes": len(self.outcomes),
            "expected": self.expected,
            "failed": self.failed,
            "reward": self.reward,
            "reward_std": None if self.reward_std is None else plain_number(self.reward_std),
            "scores": _means(self.outcomes),
            "stops": stops,
            "causes": self.causes,
            **({"judge": judging} if (judging := self.judging) else {}),
            "tasks": [
                {
                    "task": task,
                    "reward": mean_reward(outcomes),
                    "episodes": [outcome.to_json() for outcome in outcomes],
                }
                for task, outcomes in self.by_task().items()
            ],
        }


def mean_reward(outcomes: Iterable[EpisodeOutcome]) -> float | None:
    """The mean reward of the episodes that came to an end of their own; None without any."""
    rewards = [outcome.reward for outcome in outcomes if not outcome.failed]
    return plain_number(fmean(rewards)) if rewards else None


def summarise(
    outcomes: Iterable[EpisodeOutcome], tasks: Sequence[Task], group: int = 1
) -> EvalSummary:
    """The summary of an evaluation of `tasks` with `group` rollouts each."""
    place = {task.id: number for number, task in enumerate(tasks)}
    ordered = sorted(
        outcomes, key=lambda outcome: (place.get(outcome.task, len(place)), outcome.rollout)
    )
    return EvalSummary(tuple(ordered), len(tasks) * group)


def metrics_line(
    step: int,
    outcomes: Sequence[EpisodeOutcome],
    *,
    tasks: int,
    measured: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The metrics of one task's rollouts, as a line of `metrics.jsonl`.

    The step of as many as there are tasks. Episodes that broke off count in `episodes`, `errors`,
    `turns` and `seconds` alone; without another there is no `reward`. `measured` are fields of
    `measures.measure_fields`.
    """
    rewards = [outcome.reward for outcome in outcomes if not outcome.failed]
    line: dict[str, Any] = {
        "step": step,
        "total_steps": tasks,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "task": outcomes[0].task,
        "episodes": len(outcomes),
    }
    if rewards:
        line["reward"] = plain_number(fmean(rewards))
    if len(rewards) > 1:
        line["reward_std"] = plain_number(stdev(rewards))
    line |= _means(outcomes)
    line["turns"] = fmean(outcome.turns for outcome in outcomes)
    line["errors"] = sum(outcome.failed for outcome in outcomes)
    line["seconds"] = round(fmean(outcome.seconds for outcome in outcomes), 6)
    for name in ("prompt_tokens", "completion_tokens"):
        if any(name in outcome.usage for outcome in outcomes):
            line[name] = sum(outcome.usage.get(name, 0) for outcome in outcomes)
    return {**line, **(measured or {})}


def _means(outcomes: Sequence[EpisodeOutcome]) -> dict[str, float]:
    names = ("task_completion", "tool_execution", "format_compliance")
    outcomes = [outcome for outcome in outcomes if not outcome.failed]
    means = (
        {name: fmean(getattr(outcome, name) for outcome in outcomes) for name in names}
        if outcomes
        else {}
    )
    of_tasks = {part.name for outcome in outcomes for part in outcome.parts}
    for name in dict.fromkeys(name for outcome in outcomes for name in outcome.own):
        # Tasks have parts of their own; a part of the reward's code that is missing counts as 0.
        asked = [one for one in outcomes if name in one.own or name not in of_tasks]
        means[name] = fmean(outcome.own.get(name, 0.0) for outcome in asked)
    return {name: plain_number(mean) for name, mean in means.items()}


def read_outcomes(out_dir: Path) -> tuple[EpisodeOutcome, ...]:
    """The outcomes in a folder, also while an evaluation is still writing there.

    Raises:
        InputError: The trace cannot be read.
    """
    return tuple(outcome_of(episode) for episode in read_trace(out_dir / TRACES))
