"""The parts of a reward that a user's own code adds stand wherever it is taken apart, and without
noise in their digits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from support.recorded import own_episode, write_own

from hudtui.cli.eval import reward_table
from hudtui.cli.results import transcript_json
from hudtui.core.environment.values import Tool, ToolResult
from hudtui.core.gym.values import GymConfig
from hudtui.core.results.export import markdown
from hudtui.core.results.find import results_at
from hudtui.core.results.index import ResultIndex
from hudtui.core.results.queries import further_parts
from hudtui.core.rollouts.episode import EpisodePlayer
from hudtui.core.rollouts.outcome import metrics_line, outcome_of, summarise
from hudtui.core.rollouts.values import Scores, plain_number
from hudtui.core.tasks.expectation import JudgedPart
from hudtui.core.tasks.task import Task, ToolCall
from hudtui.tui.playing.view import end_lines, score_lines
from hudtui.tui.results.transcript import head_lines, turn_page

OWN = {"brevity": 0.25, "kept_word": plain_number(0.1 + 0.2)}
SCORES = Scores(0.5, 1.0, 0.75, plain_number(0.7 + 0.2 + 0.05), True, MappingProxyType(OWN))
EPISODE = replace(own_episode(), scores=SCORES)


def index(tmp_path: Path) -> ResultIndex:
    found = ResultIndex(results_at(write_own(tmp_path / "traces.jsonl", EPISODE, EPISODE)))
    found.finish()
    return found


def test_the_bars_of_playing() -> None:
    lines = score_lines(SCORES, GymConfig(), None, judged=True, key="e").plain.splitlines()
    assert [line.split()[0] for line in lines] == [
        "task",
        "tool",
        "format",
        "brevity",
        "kept_word",
        "reward",
    ]
    assert " 0.250 x 1" in lines[3] and " 0.300 x 1" in lines[4]
    hidden = replace(SCORES, own={"brevity": 1.0})
    assert (
        "▼ -0.750"
        in score_lines(SCORES, GymConfig(), hidden, judged=True, key="e").plain.splitlines()[3]
    )


def test_the_table_of_an_evaluation() -> None:
    plain = outcome_of(replace(EPISODE, task_id="b", scores=replace(SCORES, own={})))
    summary = summarise([outcome_of(EPISODE), plain], [Task("a", "", {}), Task("b", "", {})])
    title, first, second = (line.split() for line in reward_table(summary))
    assert (
        title[6:8] == ["brevity", "kept_word"]
        and first[6:8] == ["0.250", "0.300"]
        and "0.250" not in second
    )


def test_the_head_of_an_episode_and_its_markdown(tmp_path: Path) -> None:
    made = index(tmp_path)
    transcript = made.read(made.entries[0])
    head = head_lines(made.entries[0], transcript)[0].plain
    assert "brevity 0.25" in head and "kept word 0.3" in head
    text = markdown(transcript)
    assert "brevity" in text and "0.25" in text and "kept_word" in text and "0.3" in text


def test_own_parts_stand_beside_the_expected_ones(tmp_path: Path) -> None:
    expected = JudgedPart("said", 1.0, 2.0, "the reply contains delta", "delta")
    judged = replace(SCORES, own={"said": 1.0, **OWN}, parts=(expected,))
    episode = replace(EPISODE, scores=judged)
    lines = ["✓ the reply contains delta (2)"]
    lines += ["+ brevity: 0.25 (own reward)", "+ kept_word: 0.3 (own reward)"]
    played = [line.strip() for line in end_lines(episode).plain.splitlines()]
    assert played[1:4] == lines
    found = ResultIndex(results_at(write_own(tmp_path / "traces.jsonl", episode)))
    found.finish()
    transcript = found.read(found.entries[0])
    assert transcript.own == OWN
    page = [line.plain for line in turn_page(transcript).lines]
    start = page.index(lines[0])
    assert page[start : start + 3] == lines
    assert "\n".join(lines[1:]) in markdown(transcript)
    assert transcript_json(transcript)["own"] == OWN
    # Parts of one's own come first, before those of the task.
    assert further_parts(found.entries) == ("brevity", "kept_word", "said")


def test_no_mean_is_shown_with_the_noise_of_its_sum(tmp_path: Path) -> None:
    episodes = [
        replace(EPISODE, scores=replace(SCORES, reward=reward)) for reward in (0.1, 0.2, 0.3)
    ]
    outcomes = [outcome_of(episode) for episode in episodes]
    summary = summarise(outcomes, [Task("a", "", {})], 3)
    found = ResultIndex(results_at(write_own(tmp_path / "traces.jsonl", *episodes)))
    found.finish()
    assert (
        summary.reward
        == metrics_line(1, outcomes, tasks=1)["reward"]
        == found.groups()[0].reward
        == 0.2
    )


class Judge:
    """An environment whose evaluation sums up binary fractions."""

    tools: Mapping[str, Tool] = {}

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        return ToolResult((), structured={"reward": 0.1 + 0.2})


async def test_what_an_evaluation_answers_is_recorded_without_that_noise() -> None:
    player = EpisodePlayer(
        Judge(), GymConfig(), Task("a", "", {}, evaluate=(ToolCall("evaluate"),)), max_turns=1
    )
    await player.start()
    await player.step("nothing")
    scores = (await player.finish()).scores
    assert scores.task_completion == 0.3 and scores.reward == 0.24
