"""Replies of a project's newest rollouts, to try a configuration with."""

from __future__ import annotations

from pathlib import Path

from hudtui.core.errors import InputError
from hudtui.core.gym.editing.autosave import file_stamp
from hudtui.core.gym.editing.samples import SampleReply, samples_from_replies
from hudtui.core.rollouts.trace import read_trace
from hudtui.core.workspace import STATE_FOLDER

_MOST_TRACES = 5
_MOST_TURNS = 20
"""Replies of one episode."""
_MOST_REPLIES = 200


def rollout_replies(folder: Path) -> tuple[SampleReply, ...]:
    """Return replies from the newest traces of a project, as different from each other as possible.

    Damaged traces have none.
    """
    files = [
        *folder.glob("outputs/*/traces.jsonl"),
        *folder.glob(f"{STATE_FOLDER}/runs/**/traces.jsonl"),
    ]
    files.sort(key=lambda file: file_stamp(file).modified, reverse=True)
    replies: list[tuple[str, str]] = []
    for file in files[:_MOST_TRACES]:
        try:
            for episode in read_trace(file):
                label = f"rollout of {episode.task_id}, {file.parent.name}"
                replies += ((label, turn.reply) for turn in episode.turns[:_MOST_TURNS])
                if len(replies) > _MOST_REPLIES:
                    break
        except InputError:
            continue
    return samples_from_replies(replies)
