"""Groups whose episodes all have the same reward, and the tasks that take their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from hudtui.core.errors import InputError, RunError
from hudtui.core.rollouts.values import Episode, Scores
from hudtui.core.runs.request import RunRequest
from hudtui.core.tasks.task import Task
from hudtui.core.training.engines import features_of, find_engine
from hudtui.core.training.recipe import Recipe, check_taken
from hudtui.trainers.refill import Refilled, has_spread, refill
from hudtui.trainers.rollout import TrainingEpisode

TASKS = [Task(f"t{number}", "Play.") for number in range(6)]


def episode(task: Task, reward: float | None) -> TrainingEpisode:
    scores = Scores(reward or 0.0, 1.0, 1.0, reward or 0.0, True)
    made = Episode(task.id, (), (), scores, "done")
    return TrainingEpisode(made, [1], [2], [1], None, reward)


class Table:
    """What each task gives its episodes, and which were played."""

    def __init__(self, rewards: Mapping[str, Sequence[float | None]]) -> None:
        self.rewards = rewards
        self.played: list[list[str]] = []
        self.warned: list[str] = []
        self.plays = 99
        """Number of times that it can be played."""

    async def play(self, tasks: Sequence[Task]) -> list[TrainingEpisode]:
        if len(self.played) == self.plays:
            raise RunError("none of the episodes could be played")
        self.played.append([task.id for task in tasks])
        seen: dict[str, int] = {}
        made = []
        for task in tasks:
            place = seen[task.id] = seen.get(task.id, -1) + 1
            made.append(episode(task, self.rewards.get(task.id, (0.0, 1.0))[place]))
        return made

    async def refill(
        self, *numbers: int, times: int = 1, seed: str = "0 1"
    ) -> Refilled[TrainingEpisode]:
        chosen = [TASKS[number] for number in numbers for _ in range(2)]
        return await refill(
            chosen,
            self.play,
            lambda one: one.reward,
            size=2,
            times=times,
            pool=TASKS,
            seed=seed,
            warn=self.warned.append,
        )


def ids(episodes: Sequence[TrainingEpisode]) -> list[str]:
    return [one.episode.task_id for one in episodes]


@pytest.mark.parametrize(
    ("rewards", "spread"),
    [
        ((0.0, 1.0), True),
        ((0.5, 0.5), False),
        ((0.1 + 0.2, 0.3), False),
        ((None, 1.0), False),
        ((None, None), False),
        ((None, 0.0, 1.0), True),
    ],
)
def test_a_spread_is_two_different_rewards(rewards: Sequence[float | None], spread: bool) -> None:
    assert has_spread(rewards) is spread


async def test_a_step_with_a_spread_is_played_once() -> None:
    table = Table({})
    found = await table.refill(0, 1, times=5)
    assert len(table.played) == 1 and ids(found.episodes) == ["t0", "t0", "t1", "t1"]
    assert (found.groups, found.flat, len(found.played)) == (0, 0, 4)


async def test_another_task_takes_the_place_of_a_group_without_a_spread() -> None:
    table = Table({"t0": (1.0, 1.0)})
    found = await table.refill(0, 1)
    (_, again) = table.played
    assert len(again) == 2 and again[0] == again[1] and again[0] not in ("t0", "t1")
    assert ids(found.episodes) == [*again, "t1", "t1"], "the place of the group is kept"
    assert (found.groups, found.flat) == (1, 0)
    assert ids(found.played) == ["t0", "t0", "t1", "t1", *again]
    assert [task.id for task in found.tasks] == ids(found.played)


async def test_it_ends_at_its_limit_and_keeps_what_it_has() -> None:
    flat = Table({task.id: (0.0, 0.0) for task in TASKS})
    found = await flat.refill(0, 1, times=1)
    assert [len(one) for one in flat.played] == [4, 4]
    assert ids(found.episodes) == ["t0", "t0", "t1", "t1"]
    assert (found.groups, found.flat, len(found.played)) == (0, 2, 8)


async def test_no_task_is_played_in_two_groups_of_a_step() -> None:
    flat = Table({task.id: (0.0, 0.0) for task in TASKS})
    found = await flat.refill(0, 1, times=50)
    assert sorted(ids(found.played)) == sorted(task.id for task in TASKS for _ in range(2))
    all_of_them = Table(flat.rewards)
    await all_of_them.refill(*range(6), times=50)
    assert len(all_of_them.played) == 1, "no other task is left"


async def test_episodes_that_broke_off_give_their_place_away_too() -> None:
    found = await Table({"t0": (None, None)}).refill(0, 1)
    assert found.groups == 1 and None not in [one.reward for one in found.episodes]


async def test_tasks_that_cannot_be_played_do_not_end_the_training() -> None:
    table = Table({"t0": (1.0, 1.0)})
    table.plays = 1
    found = await table.refill(0, 1, times=3)
    assert ids(found.episodes) == ["t0", "t0", "t1", "t1"] and (found.groups, found.flat) == (0, 1)
    assert table.warned == [
        "groups without a spread stay as they are: none of the episodes could be played"
    ]
    table.plays = 0
    table.played.clear()
    with pytest.raises(RunError):
        await table.refill(0, 1)


async def test_a_step_that_is_done_again_draws_the_same_tasks() -> None:
    drawn = []
    for seed in ("0 1", "0 1", "0 2", "1 1"):
        table = Table({"t0": (1.0, 1.0), "t1": (0.0, 0.0)})
        await table.refill(0, 1, seed=seed)
        drawn.append(tuple(table.played[1]))
    assert drawn[0] == drawn[1] and len(set(drawn)) > 1


def test_its_number_is_bounded() -> None:
    assert Recipe().refill_groups == 0
    for wrong in (-1, 17):
        with pytest.raises(InputError, match="refill_groups"):
            Recipe(refill_groups=wrong)


def test_an_engine_that_cannot_refill_says_so() -> None:
    for engine in ("trl", "art"):
        check_taken(["refill_groups"], engine, features_of(engine))
    request, recipe = RunRequest(engine="art"), Recipe(refill_groups=1)
    art = find_engine("art")
    assert list(art.check(request, recipe)) == []
    (error,) = art.check(request, replace(recipe, ruler="openai/o3"))
    assert "groups are not refilled where a judge compares" in error.what
    assert error.fix == "Leave out refill_groups, or ruler."
