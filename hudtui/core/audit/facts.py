"""The episodes of an audit as its checks ask for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hudtui.core.audit.play import Played
from hudtui.core.audit.players import BLIND, WEAK
from hudtui.core.environment.values import Tool
from hudtui.core.gym.values import GymConfig
from hudtui.core.tasks.solution import FIELD as SOLUTION
from hudtui.core.tasks.task import Task

SAME = 1e-9
"""Rewards that differ by less are the same: sums of binary fractions differ there."""
SOLVES = 0.95
"""Grade from which a task is as good as solved; and share of a good player's grade from which
another one earns what it earns."""


@dataclass(frozen=True)
class Facts:
    """Everything that the checks may look at."""

    config: GymConfig
    tasks: Mapping[str, Task]
    played: Sequence[Played]
    tools: Mapping[str, Tool] = field(default_factory=dict)
    """Tools that the agent can reach."""
    strong: tuple[str, ...] = ()
    """Players that look at the task, besides the tasks' own solutions."""
    secrets: tuple[str, ...] = ()
    """Values that no observation may hold."""
    context: int = 4096
    """Tokens of a conversation with the model."""
    leftovers: tuple[str, ...] | None = None
    """Things that the servers left behind, in words; None where nobody has looked."""

    def grade(self, one: Played) -> float | None:
        """Return the grader's part of an episode's reward; None if the episode broke off.

        That is the task's own reward; where the task has none, the reward without the parts for
        calls and form.
        """
        scores = one.episode.scores
        if not one.episode.ok:
            return None
        if one.episode.judged:
            return scores.task_completion if scores.reward_found else None
        weights = self.config.weights
        calls = weights["tool_execution"] * scores.tool_execution
        return scores.reward - calls - weights["format_compliance"] * scores.format_compliance

    def points(self, one: Played) -> float:
        """Return the grade of an episode; 0 where it has none."""
        return self.grade(one) or 0.0

    @cached_property
    def good(self) -> tuple[str, ...]:
        """Names of the players of the ceiling."""
        return (SOLUTION, *self.strong)

    @cached_property
    def alone(self) -> tuple[Played, ...]:
        """Episodes that were played one after the other, in that order."""
        return tuple(one for one in self.played if one.phase == "alone")

    @cached_property
    def crowd(self) -> tuple[Played, ...]:
        """Episodes that were played side by side."""
        return tuple(one for one in self.played if one.phase == "crowd")

    @cached_property
    def open(self) -> tuple[Played, ...]:
        """All episodes but those of the crowd."""
        return tuple(one for one in self.played if one.phase != "crowd")

    def of(self, players: Iterable[str], task: str | None = None) -> list[Played]:
        """Return the graded episodes of players, in all phases but the crowd."""
        names = set(players)
        return [
            one
            for one in self.open
            if one.player in names and task in (None, one.task) and self.grade(one) is not None
        ]

    def grades(self, players: Iterable[str], task: str) -> list[float]:
        """Return the grades of players on a task."""
        return [self.points(one) for one in self.of(players, task)]

    @cached_property
    def graded(self) -> tuple[str, ...]:
        """Tasks with a graded episode of a weak player."""
        return tuple(task for task in self.tasks if self.grades(WEAK, task))

    @cached_property
    def ceilings(self) -> dict[str, float]:
        """The best grade of a good player by task, where it is above 0."""
        best = {task: max(self.grades(self.good, task), default=0.0) for task in self.tasks}
        return {task: grade for task, grade in best.items() if grade > SAME}

    @property
    def has_good(self) -> bool:
        """True if a good player has played."""
        return bool(self.of(self.good))

    def earns_all(self, one: Played) -> bool:
        """Return whether an episode earns what a good one earns: full marks where none is known."""
        grade = self.grade(one)
        return grade is not None and grade >= SOLVES * self.ceilings.get(one.task, 1.0)

    def idle(self, task: str) -> float | None:
        """Return the grade of doing nothing on a task; None where it is not always the same."""
        grades = self.grades(("done",), task)
        return grades[0] if grades and is_one(grades) else None

    @cached_property
    def blind(self) -> dict[str, list[Played]]:
        """Graded episodes of the blind players by their names."""
        return {name: self.of((name,)) for name in BLIND}


def is_one(values: Iterable[float]) -> bool:
    """Return whether all values are the same; True of none."""
    known = list(values)
    return not known or max(known) - min(known) <= SAME


def conversation(one: Played) -> list[str]:
    """Return all texts that the agent was shown: those of messages, and observations."""
    messages = [str(part) for message in one.episode.messages for part in _texts(message)]
    return [*messages, *(turn.observation for turn in one.episode.turns)]


def _texts(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    if message.get("role") == "assistant":
        return []
    if isinstance(content, list):
        return [part.get("text", "") for part in content if isinstance(part, Mapping)]
    return [content or ""]
