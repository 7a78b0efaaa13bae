"""Where an episode begins: what the agent was shown before its first reply."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hudtui.core.results.export import sft_row
from hudtui.core.results.find import results_at
from hudtui.core.results.index import ResultIndex
from hudtui.core.results.values import Transcript
from hudtui.core.rollouts.trace import write_episode
from hudtui.core.rollouts.values import Episode, Message, Scores, Turn

PROMPT: tuple[Message, ...] = (
    {"role": "system", "content": "rules"},
    {"role": "user", "content": "task"},
)
EXAMPLE: tuple[Message, ...] = (
    {"role": "system", "content": "rules"},
    {"role": "user", "content": "an example"},
    {"role": "assistant", "content": "its reply"},
    {"role": "user", "content": "task"},
)


def transcript(path: Path, opening: Sequence[Message], replies: Sequence[str]) -> Transcript:
    """An episode, written and read back."""
    messages = list(opening)
    for reply in replies:
        messages += [
            {"role": "assistant", "content": reply},
            {"role": "user", "content": f"after {reply}"},
        ]
    turns = tuple(Turn(reply, {}, None, f"after {reply}", False) for reply in replies)
    write_episode(path, Episode("t", tuple(messages), turns, Scores(0, 0, 0, 0, True), "done"))
    index = ResultIndex(results_at(path))
    index.advance(10)
    return index.read(index.entries[0])


@pytest.mark.parametrize("opening", [PROMPT, EXAMPLE])
@pytest.mark.parametrize("replies", [(), ("one",), ("one", "two")])
def test_an_episode_begins_before_its_first_own_reply(
    tmp_path: Path, opening: Sequence[Message], replies: Sequence[str]
) -> None:
    found = transcript(tmp_path / "traces.jsonl", opening, replies)
    assert [message["content"] for message in found.opening] == [
        message["content"] for message in opening
    ]
    rounds = ["user (example)", "assistant (example)"] if opening is EXAMPLE else []
    assert list(found.opening_titles) == ["system", *rounds, "user"]
    assert [turn.reply for turn in found.turns] == list(replies)
    assert [turn.observation for turn in found.turns] == [f"after {reply}" for reply in replies]
    row = sft_row(found)
    if row is not None:
        assert [one["content"] for one in row["prompt"]] == [one["content"] for one in opening], (
            "an example is no reply to learn"
        )
        assert [one["content"] for one in row["completion"] if one["role"] == "assistant"] == list(
            replies
        )
    assert (row is None) == (not replies)
