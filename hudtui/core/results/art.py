"""Trajectories of ART.

A Parquet file for each step and split, with one trajectory per row; or JSON lines, one group per
line. The files are named by their step, in a folder that is named by the split:
`trajectories/train/0007.parquet`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hudtui.core.results.foreign import (
    Place,
    as_message,
    conversation,
    decode,
    decode_as,
    mapping,
    mappings,
    name,
    number,
    numbers,
    sequence,
    whole,
)
from hudtui.core.results.values import EpisodeEntry, Transcript
from hudtui.core.rollouts.values import Message

_TASK_KEYS = ("task_id", "scenario_id", "task", "scenario", "id")


class _Group(msgspec.Struct):
    trajectories: list[dict[str, Any]]


_groups = msgspec.json.Decoder(_Group)


def entries(line: bytes, place: Place) -> list[EpisodeEntry]:
    """Return the entries of a line, one for each trajectory of its group.

    Raises:
        ValueError: The line is not a group of trajectories.
    """
    group = decode_as(_groups, line)
    read = []
    for part, trajectory in enumerate(group.trajectories):
        messages = _messages(trajectory)
        replies = sum(message["role"] == "assistant" for message in messages)
        read.append(trajectory_entry(place, part, place.line - 1, trajectory, replies))
    return read


def trajectory_entry(
    place: Place, part: int, group: int | None, trajectory: Mapping[str, Any], replies: int
) -> EpisodeEntry:
    """Return the entry of a trajectory.

    `part` is the position of the trajectory in its line; `group` is the number of its group in the
    file, from 0.
    """
    metrics, metadata = mapping(trajectory.get("metrics")), mapping(trajectory.get("metadata"))
    task = next((found for key in _TASK_KEYS if (found := name(metadata.get(key)))), "")
    return place.entry(
        part,
        task=task or f"group {0 if group is None else group}",
        reward=number(trajectory.get("reward")),
        parts=numbers(metrics),
        stop=name(metadata.get("stop")) or "done",
        turns=replies,
        prompt_tokens=whole(metrics.get("prompt_tokens")),
        completion_tokens=whole(metrics.get("completion_tokens")),
        seconds=number(metrics.get("duration")),
    )


def _messages(trajectory: Mapping[str, Any]) -> tuple[Message, ...]:
    messages = trajectory.get("messages_and_choices") or trajectory.get("messages")
    return tuple(filter(None, map(as_message, sequence(messages))))


def transcript(line: bytes, entry: EpisodeEntry) -> Transcript:
    """Return a trajectory of a line in full.

    Raises:
        ValueError: The line is not a group of trajectories.
    """
    trajectories = sequence(mapping(decode(line)).get("trajectories"))
    return trajectory_transcript(
        mapping(trajectories[entry.part]) if entry.part < len(trajectories) else {}, entry
    )


def trajectory_transcript(trajectory: Mapping[str, Any], entry: EpisodeEntry) -> Transcript:
    """Return a trajectory in full."""
    messages = _messages(trajectory)
    opening, turns = conversation(messages)
    return Transcript(
        entry=entry,
        opening=opening,
        turns=turns,
        messages=messages,
        tools=mappings(trajectory.get("tools")),
        info={**mapping(trajectory.get("metadata")), **_logs(sequence(trajectory.get("logs")))},
    )


def _logs(lines: Sequence[Any]) -> dict[str, Any]:
    return {"logs": list(lines)} if lines else {}
