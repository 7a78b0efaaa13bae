"""Results as values: runs, groups, entries of the index, and episodes in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from hudtui.core.rollouts.values import BROKEN_OFF, ENDED_BY_HAND, SOLVED, Message, is_solved
from hudtui.core.tasks.expectation import JudgedPart

Format = Literal["hudtui", "verifiers", "art-jsonl", "atif"]
"""Formats of JSON lines: traces of hudtui; `traces.jsonl` of verifiers 0.4; trajectories of ART
from before it wrote Parquet files; documents of ATIF."""

EXPECTED_STOPS = frozenset(("done", "max_turns", ENDED_BY_HAND))
"""Values of `stop` for hudtui's episodes that were played to the end."""


@dataclass(frozen=True)
class ResultRun:
    """A place with recorded episodes: an evaluation, a training, or a file of another framework."""

    name: str
    """A short name, unique among the runs that were found together."""
    path: Path
    """A file of episodes, or a folder of ART's trajectories."""
    kind: Literal["evaluation", "training", "file"]
    run: str | None = None
    """Id of the project's run that wrote the results; None for other results."""
    size: int = 0
    """Bytes."""
    modified: float = 0.0
    """Time of the last change, in seconds since the epoch."""


class EpisodeEntry(msgspec.Struct, frozen=True, gc=False):
    """The entry of an episode in the index: enough for a row of a table.

    `ResultIndex.read` reads the rest.
    """

    number: int
    """Position in the index, from 0."""
    run: str
    """`ResultRun.name`."""
    file: int
    """Number of the file in the index."""
    offset: int
    """Byte offset of the episode's line; in a Parquet file, its row."""
    length: int
    """Length of the line in bytes, without its line end; 0 in a Parquet file."""
    part: int
    """Position of the episode in its line, from 0. Other frameworks write several episodes on a
    line."""
    task: str
    step: int | None
    """Step of the training; None outside of trainings."""
    split: str
    """`train`, `eval` or another split named in the file; empty outside of trainings."""
    rollout: int | None
    """Number of the rollout of its task, from 0; None if it is not recorded."""
    reward: float | None
    """None without a valid reward, and for an episode that an error ended: what it scored until
    then says nothing."""
    part_names: tuple[str, ...]
    part_values: tuple[float, ...]
    stop: str
    """Reason for the end; for hudtui's episodes see `rollouts.values.Episode.stop`."""
    error: str | None
    """The error that ended the episode, cut to a few hundred characters."""
    turns: int
    """Number of the agent's replies."""
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float | None
    """Duration of the episode, in seconds."""
    started_at: str | None
    slips: tuple[tuple[str, int], ...] = ()
    """Numbers of failed turns by kind (`rollouts.trace.slips`); empty if not recorded."""

    @property
    def parts(self) -> dict[str, float]:
        """The parts of the reward, or the metrics, by their names."""
        return dict(zip(self.part_names, self.part_values, strict=True))

    @property
    def failed(self) -> bool:
        """True if an error ended the episode."""
        return self.error is not None or self.stop in BROKEN_OFF

    def solved(self, at: float = SOLVED) -> bool:
        """Return whether the episode did its task; see `rollouts.values.is_solved`."""
        return not self.failed and is_solved(self.parts.get("task_completion"), self.reward, at)

    @property
    def tokens(self) -> int | None:
        """Tokens of prompts and completions together; None if they are not known."""
        known = [
            count for count in (self.prompt_tokens, self.completion_tokens) if count is not None
        ]
        return sum(known) if known else None

    @property
    def key(self) -> GroupKey:
        """The group that the episode belongs to."""
        return GroupKey(self.run, self.split, self.step, self.task)


def stop_words(stop: str) -> str:
    """Reason for the end of an episode, as shown to the user."""
    return "ended by you" if stop == ENDED_BY_HAND else stop


class GroupKey(msgspec.Struct, frozen=True, gc=False):
    """The fields that all episodes of a group share."""

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
    """Number of episodes that ended with an error."""
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
    """A line or row that is not an episode and was skipped."""

    file: Path
    line: int
    """From 1."""
    why: str


@dataclass(frozen=True)
class IndexProgress:
    """The progress of an index."""

    entries: int
    """Number of episodes so far."""
    read: int
    """Number of bytes read so far."""
    size: int
    """Current size of all files, in bytes."""
    unread: int
    """Number of skipped lines; `ResultIndex.unread` has the first ones."""
    complete: bool
    """True if the files were read to their current end."""
    generation: int


@dataclass(frozen=True)
class TranscriptCall:
    """A call that the agent made."""

    name: str
    arguments: Mapping[str, Any] | str
    """Arguments by name; the agent's text if it is not a JSON object."""
    id: str | None = None


@dataclass(frozen=True)
class TranscriptImage:
    """An image in a message."""

    kind: str
    """Media type, such as `image/png`."""
    data: str | None
    """The image as base64; its URL if `kind` is empty; None if the image was too large to be
    kept."""
    size: int = 0
    """Size in bytes of an image that was not kept."""


@dataclass(frozen=True)
class TranscriptTurn:
    """One reply of the agent, and the observation that followed."""

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
    """Number of tokens of `prompt` and `completion`, if recorded."""
    result: Any = None
    """Structured content of the answer."""
    interpretation: Mapping[str, Any] | None = None
    """hudtui's interpretation of the reply."""


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
    """Definitions of the tools, if recorded."""
    error: str | None = None
    """The error that ended the episode, in full."""
    judged: tuple[JudgedPart, ...] = ()
    """The outcome of each part of the task's `evaluate`, if recorded."""
    own: Mapping[str, float] = field(default_factory=dict)
    """The parts of the user's own reward (`rubric.reward`), by name."""
    evaluation: Any = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    images: tuple[TranscriptImage, ...] = ()
    """Images of the opening that are not in its messages."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """All other recorded fields: policy, seed, model, metadata."""

    @property
    def opening_titles(self) -> tuple[str, ...]:
        """Return a title for each message of the opening.

        Its role, and whether it belongs to an example round.
        """
        roles = [str(message.get("role", "")) for message in self.opening]
        rounds = len(roles) - roles[::-1].index("assistant") if "assistant" in roles else 0
        return tuple(
            f"{role} (example)" if place < rounds and role in ("user", "assistant") else role
            for place, role in enumerate(roles)
        )
