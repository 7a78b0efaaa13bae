"""What an evaluation keeps of each task, and whether it is still of the same task."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.gym.config import parse_config
from hudtui.core.gym.values import GymConfig
from hudtui.core.rollouts.measures import (
    Measure,
    by_player,
    difficulty_of,
    measure_fields,
    play_digest,
    read_measures,
    task_digest,
)
from hudtui.core.rollouts.outcome import EpisodeOutcome
from hudtui.core.tasks.task import Task, ToolCall

TASK = Task("t", "Play.", {"env": {"command": "x"}}, evaluate=(ToolCall("judge"),))
TIME = "2026-11-28T05:02:57.658+00:00"


def outcome(own: float, reward: float = 0.5, stop: str = "done") -> EpisodeOutcome:
    return EpisodeOutcome("t", 0, reward, own, 1.0, 1.0, True, 3, stop, None, 0.1)


def configured(text: str = "max_turns: 5") -> GymConfig:
    mapping = "action_mappings: {left: {_tool: move, direction: {static: left}}}\n"
    config, _ = parse_config(f"{mapping}defaults: {{{text}}}\n", name="c.yaml")
    assert config is not None
    return config


@pytest.mark.parametrize(
    "change",
    [
        {"id": "other"},
        {"prompt": "Play well."},
        {"mcp_config": {"env": {"command": "y"}}},
        {"setup": (ToolCall("begin", {"seed": 2}),)},
        {"evaluate": (ToolCall("judge", {"target": 4}),)},
        {"extra": {"evaluate": [{"reply": {"contains": "yes"}}]}},
        {"metadata": {"kind": "hard"}},
    ],
)
def test_a_task_that_was_changed_has_another_digest(change: dict[str, Any]) -> None:
    assert task_digest(replace(TASK, **change)) != task_digest(TASK)


def test_a_solution_changes_no_episode() -> None:
    solved = replace(TASK, extra={"solution": [{"name": "move"}]})
    assert task_digest(solved) == task_digest(TASK)


def test_turns_configuration_and_code_of_the_reward_are_how_a_task_is_played(
    tmp_path: Path,
) -> None:
    config = configured()
    assert play_digest(config) == play_digest(configured()) == play_digest(config, 5)
    assert play_digest(config, 6) != play_digest(config) != play_digest(configured("max_turns: 6"))
    code = tmp_path / "mine.py"
    judged = replace(config, reward="mine.py:score", path=str(tmp_path / "c.yaml"))
    digests = []
    for text in ("def score(episode): return 1\n", "def score(episode): return 0\n"):
        code.write_text(text)
        digests.append(play_digest(judged))
    code.unlink()
    digests.append(play_digest(judged))
    assert len({*digests, play_digest(config)}) == 4


@pytest.mark.parametrize(
    ("own", "difficulty"),
    [((1, 1), 0.0), ((0, 0), 1.0), ((1, 0, 0, 0), 0.75), ((0.5,), 0.5), ((3.0, -2.0), 0.5)],
)
def test_difficulty_is_what_lacks_of_the_task_s_own_reward(
    own: tuple[float, ...], difficulty: float
) -> None:
    broken = outcome(1.0, stop="error")
    played = [*map(outcome, own), broken]
    assert difficulty_of(played, judged=True) == difficulty
    assert difficulty_of(played, judged=False) == 0.5, "the whole reward where it has none"
    assert difficulty_of([broken], judged=True) is None


def test_a_solution_is_no_player() -> None:
    assert measure_fields(TASK, [outcome(1)], player="solution", played="p") == {}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    fields = measure_fields(TASK, [outcome(1, 0.9), outcome(0, 0.1)], player="random", played="p")
    assert measure_fields(TASK, [outcome(1, stop="error")], player="random", played="p") == {}
    whole = {"task": "t", "time": TIME, **fields}
    spoiled: list[dict[str, Any]] = [
        {"rewards": []},
        {"rewards": ["1"]},
        {"rewards": [1e308, 1e308]},
        {"rewards": [0] * 10_001},
        {"solved": 2},
        {"difficulty": -0.1},
        {"player": 3},
        {"time": "yesterday"},
        {"rewards": [float("nan")]},
        {"task_digest": None},
    ]
    lines = [
        json.dumps(whole),
        "[" * 5000,
        "{}",
        *(json.dumps({**whole, **one}) for one in spoiled),
    ]
    file = tmp_path / "metrics.jsonl"
    file.write_text("\n".join([*lines, json.dumps(whole)[:-3]]))
    measure = Measure("t", task_digest(TASK), "p", "random", (0.9, 0.1), 1, 0.5, 1795842177.658)
    assert read_measures(file) == (measure,)
    file.write_text(json.dumps({**whole, "player": "greedy"}) + "\n")
    assert [one.player for one in read_measures(file)] == ["greedy"], "a new file is read again"
    assert read_measures(tmp_path / "none.jsonl") == read_measures(tmp_path) == ()


def test_episodes_that_were_played_twice_count_once() -> None:
    one = Measure("t", "d", "p", "random", (1.0, 0.0), 1, 0.5, 10.0)
    newer = replace(one, rewards=(0.0, 0.0), time=20.0)
    larger = replace(one, rewards=(0.0, 0.0, 1.0), time=5.0)
    other = replace(one, player="greedy")
    assert by_player([newer, one])["random"]["d"] == newer
    found = by_player([one, larger, newer, other])
    assert found["random"]["d"] == larger and found["greedy"]["d"] == other
