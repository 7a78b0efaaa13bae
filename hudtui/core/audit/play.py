"""The episodes of an audit: which players play which tasks, and when.

They are ordinary evaluations, one after the other, each in a folder of its own.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from hudtui.core.audit.players import (
    BLIND,
    PLAYERS,
    WEAK,
    Followed,
    Seat,
    malformed,
    own_calls,
    scripted,
)
from hudtui.core.environment.values import Tool
from hudtui.core.errors import HudtuiError
from hudtui.core.events import Notice, Progress
from hudtui.core.gym.interpreter import open_to_agent
from hudtui.core.gym.values import GymConfig
from hudtui.core.results.baseline import Estimate, spread_estimate
from hudtui.core.rollouts.episode import EpisodePlayer
from hudtui.core.rollouts.evaluate import Connect, EpisodeDone, evaluate
from hudtui.core.rollouts.judging import Judges
from hudtui.core.rollouts.outcome import TRACES
from hudtui.core.rollouts.policy import PolicySource
from hudtui.core.rollouts.values import Complete, Episode
from hudtui.core.tasks.solution import FIELD as SOLUTION
from hudtui.core.tasks.solution import solution_of
from hudtui.core.tasks.task import Task
from hudtui.core.variables import Lookup

_CROWD_SECONDS = 10.0
"""Seconds that the starts of a crowd may take, one after the other."""
_ALONE = (*["done"] * 4, "each-once", "each-once", "random", SOLUTION, *["done"] * 3)
"""One after the other: what is done in an episode must not be seen in the next."""
_IN_CROWD = ("each-once", "random", "done", "each-once")
"""Those that are compared with themselves alone, beside some that do anything."""
_TASKS_ALONE = 2
_SIGNAL_WIDTH = 0.1
"""Width of the signal's interval from which it is known."""
_FEW_UNJUDGED = 5
"""Most episodes without a judgement that are repeated."""
_AGAIN = "again-"
"""The beginning of the names of phases in which such an episode is repeated."""
_TOLD = {
    "alone": "one episode at a time",
    "weak": "players that never look",
    "strong": "players that try",
    "others": "replies to other tasks",
    "random-": "more random calls",
    _AGAIN: "repeats of what was not judged",
    "crowd": "many episodes at once",
}
"""What a phase plays, in words, by the beginning of its name."""
_REPEATS = 2
_REPEATED = (*WEAK, SOLUTION)
"""Players whose replies are the same again."""
_OTHERS = 2
"""Other tasks whose best episodes are repeated on a task."""


@dataclass(frozen=True)
class Played:
    """An episode of an audit."""

    phase: str
    player: str
    file: Path
    """Its traces."""
    number: int
    """Its number there, from 0."""
    episode: Episode
    place: int = 0
    """Number of the rollout, from which a player that draws numbers draws the same again."""

    @property
    def task(self) -> str:
        """The id of its task."""
        return self.episode.task_id

    @property
    def again(self) -> bool:
        """Whether it repeats another one, with the same numbers."""
        return self.phase.startswith(_AGAIN)

    @property
    def unjudged(self) -> str:
        """Why it has no judgement, also where the evaluation ended the server; or empty."""
        error = self.episode.error or ""
        ended = error if self.episode.stop == "error" and error.startswith("evaluation,") else ""
        return str(self.episode.info.get("evaluation_error") or ended)

    @property
    def reward(self) -> float | None:
        """The reward that a training would see; None if the episode broke off."""
        return self.episode.scores.reward if self.episode.ok else None


@dataclass(frozen=True)
class Ring:
    """The tasks of an audit, and how they are played."""

    tasks: tuple[Task, ...]
    config: GymConfig
    connect: Connect
    out_dir: Path
    strong: Mapping[str, PolicySource] = field(default_factory=dict)
    """Players that look at the task, by name: those of the ceiling."""
    seed: int = 0
    group: int = 8
    """Episodes of a group of the training; as many of random calls a task are played at once."""
    most_random: int = 256
    """Most episodes of random calls a task: groups of them are played until the signal is known."""
    signal_seconds: float = 20.0
    """Seconds that those may take."""
    of: int | None = None
    """Number of tasks that a training draws from, if these are only some."""
    concurrency: int = 4
    crowd: int = 64
    """Episodes that are played side by side, where the environment starts fast enough."""
    timeout: float | None = None
    reuse: bool = False
    lookup: Lookup | None = None
    judges: Judges | None = None


@dataclass(frozen=True)
class _Phase:
    name: str
    tasks: Sequence[Task]
    players: Sequence[str]
    """Those of each task, one a rollout."""
    concurrency: int
    first: int = 0
    """Number of a task's first rollout: players that draw numbers draw others for each."""
    same: bool = False
    """Draw the same numbers in each rollout."""

    @property
    def told(self) -> str:
        """What is played, in words for the user; the name is that of a folder."""
        return next(words for name, words in _TOLD.items() if self.name.startswith(name))

    def place(self, rollout: int) -> int:
        """Return the number from which a player draws others in this rollout."""
        return self.first + (0 if self.same else rollout)


class Match:
    """An audit's episodes, phase by phase.

    Attributes:
        played: All episodes so far.
        tools: Tools that the agent can reach, by name.
        broke_off: Whether a phase ended early: servers of its other episodes may still run.
    """

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._actions: dict[str, tuple[Tool, ...]] = {}
        self.tools: dict[str, Tool] = {}
        self.played: list[Played] = []
        self.broke_off = False

    async def play(self) -> AsyncGenerator[Progress | Notice, None]:
        """Play all phases.

        Raises:
            HudtuiError: The environment cannot be reached.
        """
        ring = self._ring
        yield Progress("audit", "looking at the tools")
        await self._survey()
        began = time.monotonic()
        few = spread(ring.tasks, _TASKS_ALONE)
        blind = [name for name in BLIND for _ in range(PLAYERS[name].repeats)]
        weak = [*blind, "malformed", *["random"] * ring.group]
        solves = [SOLUTION] if any(map(solution_of, ring.tasks)) else []
        phases = [
            _Phase("alone", few, _ALONE, 1),
            _Phase("weak", ring.tasks, weak, ring.concurrency),
            _Phase("strong", ring.tasks, [*solves, *ring.strong], ring.concurrency),
            _Phase("others", ring.tasks, ["other-task"] * _OTHERS, ring.concurrency),
        ]
        for phase in phases:
            async for event in self._phase(phase):
                yield event
        pace = (time.monotonic() - began) / max(1, len(self.played))
        async for event in self._settle_signal(pace):
            yield event
        async for event in self._judge_again():
            yield event
        size = self._crowd() // len(few)
        mixed = [_IN_CROWD[place % len(_IN_CROWD)] for place in range(size)]
        async for event in self._phase(_Phase("crowd", few, mixed, ring.crowd)):
            yield event

    async def _settle_signal(self, pace: float) -> AsyncGenerator[Progress | Notice, None]:
        """Play more groups of random calls until the signal is known, or they take too long.

        Args:
            pace: Seconds that an episode of all players has taken.
        """
        ring = self._ring
        began = time.monotonic()
        took = pace * len(ring.tasks) * ring.group
        for number in range(1, ring.most_random // ring.group):
            known = signal(self.played, ring)
            if known is None or known.high - known.low <= _SIGNAL_WIDTH or self.broke_off:
                return
            started = time.monotonic()
            if started - began + took > ring.signal_seconds:
                return
            players = ["random"] * ring.group
            more = _Phase(f"random-{number}", ring.tasks, players, ring.concurrency, 1000 * number)
            async for event in self._phase(more):
                yield event
            took = time.monotonic() - started  # random calls often take longer than the others

    async def _judge_again(self) -> AsyncGenerator[Progress | Notice, None]:
        """Repeat the few episodes without a judgement: was it what they did, or chance?"""
        broken = [one for one in self.played if one.unjudged]
        repeatable = [one for one in broken if one.player in _REPEATED]
        if self.broke_off or len(broken) > _FEW_UNJUDGED or len(repeatable) < len(broken):
            return
        for number, one in enumerate(broken):
            tasks = [task for task in self._ring.tasks if task.id == one.task]
            players = [one.player] * _REPEATS
            again = _Phase(f"{_AGAIN}{number}", tasks, players, 1, one.place, True)
            async for event in self._phase(again):
                yield event

    def _crowd(self) -> int:
        """Return how many episodes are played side by side."""
        starts = [one.episode.info.get("connect_seconds", 0.0) for one in self.played]
        start = fmean(starts) if starts else 0.0
        return max(4, min(self._ring.crowd, int(_CROWD_SECONDS / max(start, 0.01))))

    async def _survey(self) -> None:
        """List the tools of each environment, and what the agent of each task can call."""
        ring = self._ring
        seen: dict[str, list[Task]] = {}
        for task in ring.tasks:
            seen.setdefault(repr(task.mcp_config), []).append(task)
        for tasks in seen.values():
            async with ring.connect(tasks[0].mcp_config) as session:
                for task in tasks:
                    actions = EpisodePlayer(session, ring.config, task).actions
                    self._actions[task.id] = actions[:-1]  # the last one is `done`
                reached = {mapping.tool for mapping in ring.config.mappings.values()}
                for name, tool in session.tools.items():
                    if name in reached or (ring.config.allow_unmapped and open_to_agent(tool)):
                        self.tools[name] = tool
        for call in (call for task in ring.tasks for call in own_calls(task)):
            self.tools.pop(call.name, None)

    async def _phase(self, phase: _Phase) -> AsyncGenerator[Progress | Notice, None]:
        if not phase.players:
            return
        ring, total = self._ring, len(phase.tasks) * len(phase.players)
        best = self._best() if phase.name == "others" else {}
        if phase.name == "others" and len(best) < 2:
            return

        def name_of(task: Task, rollout: int) -> str:
            name = phase.players[rollout]
            missing = name == SOLUTION and solution_of(task) is None
            return "done" if missing or (name == "other-task" and len(best) < 2) else name

        def policy_of(task: Task, rollout: int) -> Complete:
            name = name_of(task, rollout)
            if name in ring.strong:
                return ring.strong[name].for_episode(task, rollout)
            if name == "malformed":
                return malformed(tuple(self.tools.values()))
            if name == SOLUTION:
                return _solution(task)
            actions = self._actions[task.id]
            seat = Seat(task, ring.config, actions, ring.seed, phase.place(rollout))
            if name != "other-task":
                return scripted(name, seat)
            others = [one for one in best.values() if one.task != task.id]
            other = others[rollout % len(others)]
            if other.player == SOLUTION:
                return _solution(next(one for one in ring.tasks if one.id == other.task))
            replies = tuple(turn.reply for turn in other.episode.turns)
            return scripted(name, replace(seat, recorded=replies))

        source = PolicySource(
            "audit", policy_of, name_of=lambda task, rollout: f"audit:{name_of(task, rollout)}"
        )
        events = evaluate(
            phase.tasks,
            ring.config,
            policy=source,
            connect=ring.connect,
            out_dir=ring.out_dir / phase.name,
            group=len(phase.players),
            concurrency=phase.concurrency,
            seed=ring.seed,
            timeout=ring.timeout,
            reuse=ring.reuse and phase.name not in ("alone", "crowd"),
            lookup=ring.lookup,
            judges=ring.judges,
        )
        tasks = {task.id: task for task in phase.tasks}
        file, number = ring.out_dir / phase.name / TRACES, 0
        try:
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, EpisodeDone):
                        name = name_of(tasks[event.episode.task_id], event.rollout)
                        place = phase.place(event.rollout)
                        played = Played(phase.name, name, file, number, event.episode, place)
                        self.played.append(played)
                        number += 1
                        yield Progress("audit", phase.told, number, total)
                    elif isinstance(event, Notice):
                        yield event
        except HudtuiError as error:
            if not self.played:
                raise
            self.broke_off = True
            yield Notice("warning", f"{phase.name}: {'; '.join(error.lines())}")

    def _best(self) -> dict[str, Played]:
        """Return the episode with the highest reward of each task, where one earned something."""
        best: dict[str, Played] = {}
        known = (*WEAK, SOLUTION, *self._ring.strong)
        for one in self.played:
            reward = one.reward
            if reward is None or one.player not in known:
                continue
            before = best.get(one.task)
            if before is None or reward > (before.reward or 0.0):
                best[one.task] = one
        return best


def random_episodes(played: Iterable[Played]) -> dict[str, list[Played]]:
    """Return the judged episodes of random calls by task.

    Neither those of the crowd nor repeats are among them: groups are drawn from the others.
    """
    drawn: dict[str, list[Played]] = {}
    for one in played:
        judged = one.episode.ok and (one.episode.scores.reward_found or not one.episode.judged)
        if judged and one.player == "random" and one.phase != "crowd" and not one.again:
            drawn.setdefault(one.task, []).append(one)
    return drawn


def signal(played: Iterable[Played], ring: Ring) -> Estimate | None:
    """Return the share of groups whose rewards differ, of random calls; None if it is not known."""
    drawn = random_episodes(played).values()
    rewards = ([one.episode.scores.reward for one in ones] for ones in drawn)
    return spread_estimate(rewards, ring.group, of=ring.of)


def _solution(task: Task) -> Complete:
    solution = solution_of(task)
    assert solution is not None
    return Followed(solution)


def spread(tasks: Sequence[Task], most: int) -> tuple[Task, ...]:
    """Return at most so many tasks, evenly from all of them."""
    if len(tasks) <= most:
        return tuple(tasks)
    return tuple(tasks[place * len(tasks) // most] for place in range(most))
