"""A task is solved, or not, wherever its episode is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudtui.core.results.find import results_at
from hudtui.core.results.index import ResultIndex
from hudtui.core.results.queries import pass_table, unsolved
from hudtui.core.rollouts.outcome import outcome_of, read_outcomes
from hudtui.core.rollouts.trace import write_episode
from hudtui.core.rollouts.values import Episode, Scores, is_solved


@pytest.mark.parametrize(
    ("completion", "reward", "more", "solved"),
    [
        (1.0, 1.0, {}, True),
        (1.0, 0.9, {}, True),  # a rubric takes something off for the form
        (0.0, 1.0, {}, False),  # own code gives points to a task that is not done
        (0.999, 2.0, {}, False),
        (1.5, 0.2, {}, True),
        (0.0, 1.0, {"info": {"judged": False}}, True),  # own code alone judges
        (0.0, 0.9, {"info": {"judged": False}}, False),
        (1.0, 1.0, {"stop": "error", "error": "it broke"}, False),
        (1.0, 0.9, {"stop": "max_turns"}, True),
    ],
)
def test_evaluations_and_results_count_alike(
    tmp_path: Path, completion: float, reward: float, more: dict[str, Any], solved: bool
) -> None:
    scores = Scores(completion, 1.0, 1.0, reward, True, {"bonus": 1.0})
    episode = Episode("t", (), (), scores, **{"stop": "done", **more})
    write_episode(tmp_path / "traces.jsonl", episode)
    index = ResultIndex(results_at(tmp_path / "traces.jsonl"))
    index.finish()
    (entry,) = index.entries
    (read,) = read_outcomes(tmp_path)
    counted = [episode.solved, outcome_of(episode).solved, read.solved, entry.solved()]
    assert counted == [solved] * 4
    assert sum(task.solved for task in pass_table([entry]).tasks) == solved
    assert bool(unsolved([entry])) is (not solved and episode.ok)


def test_without_an_evaluator_the_reward_is_the_task_s_own() -> None:
    assert is_solved(None, 1.0) and not is_solved(None, None) and not is_solved(None, 0.9)
    assert is_solved(0.7, 0.0, at=0.7) and not is_solved(0.6, 1.0, at=0.7)
