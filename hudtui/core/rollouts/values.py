"""Episodes as values: messages, turns and scores.

`trace` gives them their form as a line of a file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hudtui.core.errors import HudtuiError
from hudtui.core.tasks.expectation import JudgedPart
from hudtui.core.text import clean_line

ENDED = ("done", "max_turns", "context")
"""Values of `Episode.stop` of episodes that came to an end of their own and were evaluated."""

BROKEN_OFF = frozenset(("error", "cancelled"))
"""Ends of an episode that did not come to an end of its own."""

ENDED_BY_HAND = "ended"
"""`Episode.stop` of an episode that the person who played it ended."""

SOLVED = 1.0
"""Own reward of a task from which an episode counts as solved."""

Message = Mapping[str, Any]
"""A chat message: `{"role": "system"|"user"|"assistant", "content": str | list of parts}` (OpenAI's
form)."""

Complete = Callable[[Sequence[Message]], Awaitable[str]]
"""The policy: given all messages so far, the agent's next reply as text."""


class ContextFull(HudtuiError):
    """The conversation has no room for another reply.

    A policy raises this; the episode ends there and is evaluated.
    """


def plain_number(value: float) -> float:
    """`value` as people write it.

    0.95 for the 0.9500000000000001 that a sum of binary fractions gives.
    """
    short = f"{value:.12g}"
    return float(short) if len(short) < 12 else value


def is_solved(completion: float | None, reward: float | None, at: float = SOLVED) -> bool:
    """Return whether a task is done: its own reward is `at` or more.

    That is what its evaluator says, the task completion. The whole reward says it only where there
    is none: a rubric weighs other parts in, so that it is 1 for a task that is not done, or less
    for one that is.
    """
    own = reward if completion is None else completion
    return own is not None and own >= at


@dataclass(frozen=True)
class KeptImage:
    """An image of a tool's answer, kept for people who read the episode.

    The messages say whether the agent was shown it.
    """

    kind: str
    """Its type by its own bytes: `image/png`, `image/jpeg`, `image/gif` or `image/webp`."""
    size: int
    """Bytes."""
    data: str | None = None
    """Base64; None: it was too large to be kept."""


@dataclass(frozen=True)
class Turn:
    """One reply and what became of it."""

    reply: str
    interpretation: Mapping[str, Any]
    """`Interpretation.to_json()` of the reply."""
    call: Mapping[str, Any] | None
    """`{"tool", "arguments"}` as sent to the server, or None when nothing was sent."""
    observation: str
    """The text that the agent was shown in answer."""
    is_error: bool
    """The server answered with an error, or the reply was refused before any call."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """`complete` and `call`, in seconds."""
    result: Any = None
    """Structured content of the server's answer, where it sent some."""
    tokens: Mapping[str, int] = field(default_factory=dict)
    """`prompt` and `completion`: tokens that the reply read and took, where they are known."""
    images: tuple[KeptImage, ...] = ()
    """Images of the server's answer."""
    more: tuple[Mapping[str, Any], ...] = ()
    """The further calls of the reply, where all are played: `call`, `observation` and `is_error` of
    each. The observation of the turn holds theirs, too."""
    cut: bool = False
    """The reply was cut off at its limit of tokens."""


def without_parts(own: Mapping[str, float], parts: Iterable[JudgedPart]) -> dict[str, float]:
    """Return the values that are not those of a task's `evaluate`."""
    names = {part.name for part in parts}
    return {name: value for name, value in own.items() if name not in names}


def own_line(name: str, value: float) -> str:
    """Return a part of the user's own reward on one line, as `JudgedPart.line` has the others."""
    return f"+ {clean_line(name, 60)}: {value:.3g} (own reward)"


@dataclass(frozen=True)
class Scores:
    """The components of the reward and their weighted sum.

    The three of every rubric are 0 to 1, unless the environment's own reward leaves that range.
    """

    task_completion: float
    tool_execution: float
    format_compliance: float
    reward: float
    reward_found: bool
    """False when the evaluate tool's answer held no reward: task_completion is 0 for want of one.
    True where the task names no evaluate tool and the configuration's own reward judges."""
    own: Mapping[str, float] = field(default_factory=dict)
    """Further parts, by name: those of the task's `evaluate`, which task completion is made of, and
    the user's own (`rubric.reward`). The latter are empty until the episode is over."""
    parts: tuple[JudgedPart, ...] = ()
    """The outcome of each part of the task's `evaluate`. Empty until the task is judged."""

    @property
    def completion_parts(self) -> frozenset[str]:
        """Names among `own` that count in task completion, and so have no weight of their own."""
        return frozenset(part.name for part in self.parts)

    @property
    def of_reward_code(self) -> dict[str, float]:
        """The parts among `own` that are the user's own (`rubric.reward`)."""
        return without_parts(self.own, self.parts)


@dataclass(frozen=True)
class Episode:
    """A finished episode: one line of a trace file."""

    task_id: str
    messages: tuple[Message, ...]
    turns: tuple[Turn, ...]
    scores: Scores
    stop: str
    """Reason for the end: `done`, `max_turns`, `context` (no room for another reply), `ended` (by
    who played it), `error` or `cancelled`."""
    error: str | None = None
    """The error that ended the episode, if `stop` is `error`."""
    evaluation: Any = None
    """Answer of the evaluate tool: structured content, else its text."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """`setup`, `play`, `evaluate` and `total`, in seconds."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Facts that the caller keeps with the episode: policy, seed, step, model."""
    started_at: str | None = None
    """ISO 8601 time (UTC) at which the setup began."""
    images: tuple[KeptImage, ...] = ()
    """Images that the setup answered with."""

    @property
    def ok(self) -> bool:
        """True if the episode reached an end of its own: by `done`, or by a limit."""
        return self.stop in ENDED

    @property
    def solved(self) -> bool:
        """True if the task is done; see `is_solved`."""
        completion = self.scores.task_completion
        own = completion if self.judged and self.scores.reward_found else None
        return self.ok and is_solved(own, self.scores.reward)

    @property
    def judged(self) -> bool:
        """False if the task has no evaluator of its own."""
        return self.info.get("judged") is not False
