"""Results as values: runs, groups, entries of the index, and episodes in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from hudtui.core.rollouts.values import Message

Format = Literal["hudtui", "verifiers", "verifiers-old", "art-jsonl"]
"""Of JSON lines: traces of hudtui; `traces.jsonl` of verifiers 0.4; `results.jsonl` of verifiers before 0.4; trajectories of ART
before it wrote Parquet files."""

EXPECTED_STOPS = frozenset(("done", "max_turns"))
"""Stops of hudtui's episodes that were played to an end."""


@dataclass(frozen=True)
class ResultRun:
    """A place with recorded episodes: an evaluation, a training, or a file of another framework."""

    name: str
    """Short, and unique among the runs that were found together."""
    path: Path
    """A file of episodes, or a folder of ART's trajectories."""
    kind: Literal["evaluation", "training", "file"]
    run: str | None = None
    """Id of the run of the project that wrote it."""
    size: int = 0
    """Bytes."""
    modified: float = 0.0
    """Time of the last change, in seconds since the epoch."""


class EpisodeEntry(msgspec.Struct, frozen=True, gc=False):
    """What the index knows of an episode: enough for a row of a table. `ResultIndex.read` reads the rest."""

    number: int
    """Position in the index, from 0."""
    run: str
    """`ResultRun.name`."""
    file: int
    """Number of the file in the index."""
    offset: int
    """Byte at which the episode's line begins; in a Parquet file the row."""
    length: int
    """Bytes of the line without its end; in a Parquet file 0."""
    part: int
    """Which of the line's episodes it is, from 0. Other frameworks write several episodes on a line."""
    task: str
    step: int | None
    """Step of the training; None outside of trainings."""
    split: str
    """`train`, `eval` or what the file says; empty outside of trainings."""
    rollout: int | None
    """Which rollout of its task, from 0, if the record says so."""
    reward: float | None
    """None if there is no reward that is a number."""
    part_names: tuple[str, ...]
    part_values: tuple[float, ...]
    stop: str
    """Why it ended; for hudtui's episodes see `rollouts.values.Episode.stop`."""
    error: str | None
    """What broke it off, cut to a few hundred characters."""
    turns: int
    """Replies of the agent."""
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float | None
    """Duration of the episode."""
    started_at: str | None

    @property
    def parts(self) -> dict[str, float]:
        """The parts of the reward, or the metrics, by their names."""
        return dict(zip(self.part_names, self.part_values, strict=True))

    @property
    def failed(self) -> bool:
        """Whether something broke the episode off."""
        return self.error is not None or self.stop in ("error", "cancelled")

    @property
    def tokens(self) -> int | None:
        """Tokens of prompts and completions together; None if they are not known."""
        known = [count for count in (self.prompt_tokens, self.completion_tokens) if count is not None]
        return sum(known) if known else None

    @property
    def key(self) -> GroupKey:
        """The group that the episode belongs to."""
        return GroupKey(self.run, self.split, self.step, self.task)


class GroupKey(msgspec.Struct, frozen=True, gc=False):
    """What the episodes of a group have in common."""

    run: str
    split: str
    step: int | None
    task: str


@dataclass(frozen=True)
class ResultGroup:
    """The rollouts of one task, or of one task at one step of a training."""

    key: GroupKey
    numbers: tuple[int, ...]
    """`EpisodeEntry.number` of its episodes, in the order of the file."""
    failed: int
    """Episodes that something broke off."""
    reward: float | None
    """Mean reward of the episodes that have one."""
    reward_std: float | None
    """Sample standard deviation; None for fewer than two rewards."""
    reward_min: float | None
    reward_max: float | None
    turns: float
    """Mean number of turns."""


@dataclass(frozen=True)
class UnreadLine:
    """A line, or a row, that is no episode and was passed over."""

    file: Path
    line: int
    """From 1."""
    why: str


@dataclass(frozen=True)
class IndexProgress:
    """How far an index has read."""

    entries: int
    """Episodes so far."""
    read: int
    """Bytes."""
    size: int
    """Bytes of all files, as they are now."""
    unread: int
    """Lines that were passed over; `ResultIndex.unread` has the first ones."""
    complete: bool
    """Everything is read that is written so far."""
    generation: int


@dataclass(frozen=True)
class TranscriptCall:
    """A call that the agent made."""

    name: str
    arguments: Mapping[str, Any] | str
    """By name; as text if the agent's own text is no JSON object."""
    id: str | None = None


@dataclass(frozen=True)
class TranscriptImage:
    """An image in a message."""

    kind: str
    """Its type, such as `image/png`."""
    data: str | None
    """Base64; the address if `kind` is empty; None if the image was too large to be kept."""
    size: int = 0
    """Bytes, of an image that was not kept."""


@dataclass(frozen=True)
class TranscriptTurn:
    """One reply of the agent, and what it was shown in answer."""

    number: int
    """From 1."""
    reply: str
    thought: str = ""
    """Reasoning that the record keeps apart from the reply."""
    calls: tuple[TranscriptCall, ...] = ()
    observation: str = ""
    images: tuple[TranscriptImage, ...] = ()
    """Images of the observation."""
    is_error: bool = False
    """The environment answered with an error, or the reply was refused."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    tokens: Mapping[str, int] = field(default_factory=dict)
    """`prompt` and `completion`, as far as they are recorded."""
    result: Any = None
    """Structured content of the answer."""
    interpretation: Mapping[str, Any] | None = None
    """How hudtui understood the reply."""


@dataclass(frozen=True)
class Transcript:
    """An episode in full."""

    entry: EpisodeEntry
    opening: tuple[Message, ...]
    """The messages before the first reply."""
    turns: tuple[TranscriptTurn, ...]
    messages: tuple[Message, ...]
    """The whole conversation in OpenAI's form. Content is text or a list of parts."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Definitions of the tools, where they are recorded."""
    error: str | None = None
    """What broke it off, in full."""
    evaluation: Any = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    images: tuple[TranscriptImage, ...] = ()
    """Images of the opening that its messages do not hold."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Everything else that is recorded: policy, seed, model, metadata."""

    @property
    def opening_titles(self) -> tuple[str, ...]:
        """Return a title for each message of the opening: its role, and whether it belongs to an example round."""
        roles = [str(message.get("role", "")) for message in self.opening]
        rounds = len(roles) - roles[::-1].index("assistant") if "assistant" in roles else 0
        return tuple(
            f"{role} (example)" if place < rounds and role in ("user", "assistant") else role for place, role in enumerate(roles)
        )
