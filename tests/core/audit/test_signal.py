"""The share of groups that would teach something, beside what is known and groups that were
played."""

import asyncio
import random
from pathlib import Path
from statistics import fmean

import pytest
from support import zoo
from support.recorded import own_episode

from hudtui.core.audit.audit import audit
from hudtui.core.audit.play import Played, Ring, random_episodes
from hudtui.core.audit.players import Seat, scripted
from hudtui.core.gym.rubric import total_reward
from hudtui.core.results.baseline import spread_estimate
from hudtui.core.rollouts.episode import EpisodePlayer, drive
from hudtui.core.rollouts.trace import read_trace

GROUP = 8
GROUPS = 200
GOALS = tuple((2 + number % 7, zoo.COLOURS[number % 3]) for number in range(5))

WORLDS = {
    "nothing is earned": [(1.0,)] * 5,
    "once in fifty": [(0.98, 0.02)] * 5,
    "once in twelve": [(0.917, 0.083)] * 5,
    "half": [(0.5, 0.5)] * 5,
    "some tasks alone": [(1.0,), (0.7, 0.3), (1.0,), (0.7, 0.3), (1.0,)],
    "harder and harder": [(0.6, 0.4), (0.7, 0.3), (0.8, 0.2), (0.9, 0.1), (1.0,)],
    "partial credit": [(0.85, 0.1, 0.05), (0.4, 0.3, 0.2, 0.1)] * 2,
    "always another": [(1 / 30,) * 30] * 5,
}
"""The chances of each reward, by task."""


def drawn(chances, count, numbers):
    """Rewards of episodes of a task."""
    return numbers.choices(range(len(chances)), chances, k=count)


def known(tasks):
    """The share of groups that differ, from the chances themselves."""
    return fmean(1 - sum(chance**GROUP for chance in task) for task in tasks)


@pytest.mark.parametrize("episodes", (8, 16, 64))
@pytest.mark.parametrize("name", WORLDS)
def test_the_interval_holds_the_share_that_is_known(name, episodes):
    tasks, numbers = WORLDS[name], random.Random(f"{name}/{episodes}")
    share, seen = known(tasks), []
    for _ in range(200):
        seen.append(spread_estimate([drawn(one, episodes, numbers) for one in tasks], GROUP))
    assert sum(one.low - 1e-9 <= share <= one.high + 1e-9 for one in seen) >= 0.9 * len(seen)
    assert abs(fmean(one.value for one in seen) - share) < 0.04  # no bias
    if episodes == 64:
        assert fmean(abs(one.value - share) for one in seen) < 0.06


@pytest.mark.parametrize("played", (2, 5))
def test_the_interval_holds_the_share_of_tasks_that_were_not_played(played):
    numbers = random.Random(played)
    tasks = [(1 - number / 60, number / 60) for number in range(30)]
    share, held, repeats = known(tasks), 0, 300
    for _ in range(repeats):
        some = numbers.sample(tasks, played)
        seen = spread_estimate([drawn(one, 16, numbers) for one in some], GROUP, of=len(tasks))
        held += seen.low <= share <= seen.high
    assert held >= 0.9 * repeats


def test_few_episodes_of_many_rewards_are_enough():
    seen = spread_estimate([list(range(GROUP))] * 5, GROUP)
    assert (seen.value, seen.high) == (1.0, 1.0)
    assert seen.low > 0.9


def test_a_sample_smaller_than_a_group_says_little():
    seen = spread_estimate([[0.0, 0.0]] * 3, GROUP)
    assert seen.value == 0.0
    assert seen.high > 0.5
    assert spread_estimate([[1.0]], GROUP) is None


KINDS = {
    "a colour": zoo.graded(lambda self: float(self.painted == self.colour)),
    "a count": zoo.graded(lambda self: float(self.value == self.goal)),
    "both": zoo.graded(zoo.right),
    "dense": zoo.Room,
}


@pytest.fixture(scope="module")
def rewards():
    """Each kind's rewards of the same random calls, by task: who calls so sees no reward."""

    class Graded(zoo.Room):
        def grade(self):
            grades = {name: kind.grade(self) for name, kind in KINDS.items()}
            self.world["grades"] = grades
            return grades["dense"]

    async def play():
        config, connect = zoo.config(), zoo.connector(Graded)
        seen = {}
        for task in zoo.tasks(GOALS, solution=None):
            for rollout in range(GROUPS // len(GOALS) * GROUP):
                async with connect(task.mcp_config) as session:
                    player = EpisodePlayer(session, config, task)
                    seat = Seat(task, config, player.actions[:-1], 1, rollout)
                    episode = await drive(player, scripted("random", seat))
                scores, grades = episode.scores, session.world["grades"]
                form = (scores.tool_execution, scores.format_compliance)
                rewards = {
                    name: total_reward(grade, *form, config) for name, grade in grades.items()
                }
                assert scores.reward == pytest.approx(rewards["dense"])
                seen.setdefault(task.id, []).append(rewards)
        return seen

    return asyncio.run(play())


async def audited(kind, tasks, out_dir, **more):
    """The audit of a room."""
    ring = Ring(
        tasks,
        zoo.config(),
        zoo.connector(kind),
        out_dir,
        group=GROUP,
        crowd=4,
        **{"signal_seconds": 1e6, **more},
    )
    return [event async for event in audit(ring)][-1].audit


@pytest.mark.parametrize("name", KINDS)
def test_the_signal_is_that_of_200_groups(name, rewards, tmp_path):
    tasks = zoo.tasks(GOALS, solution=None)
    signal = asyncio.run(audited(KINDS[name], tasks, tmp_path)).signal
    played = [[one[name] for one in ones] for ones in rewards.values()]
    groups = [ones[at : at + GROUP] for ones in played for at in range(0, len(ones), GROUP)]
    assert len(groups) == GROUPS
    share = sum(max(group) - min(group) > 1e-9 for group in groups) / GROUPS
    assert signal.low - 0.01 <= share <= signal.high + 0.01
    assert abs(signal.value - share) <= 0.05


def test_random_calls_are_played_until_the_signal_is_known(tmp_path):
    tasks = zoo.tasks(GOALS, solution=None)
    flat = zoo.graded(lambda self: float(self.value == self.goal and bool(self.note)))
    many = asyncio.run(audited(flat, tasks, tmp_path / "many"))
    few = asyncio.run(audited(flat, tasks, tmp_path / "few", most_random=GROUP))
    assert many.episodes > few.episodes
    assert many.signal.high - many.signal.low < few.signal.high - few.signal.low


def test_random_calls_that_take_longer_than_the_others_end_in_time(tmp_path):
    def add(self, amount=1):
        slow = (tmp_path / "random-1").exists()
        return zoo.slowly(0.1 if slow else 0, self, amount)

    tasks = zoo.tasks(GOALS[:2], solution=None)
    kind = zoo.room(add=add, grade=lambda self: float(self.value == 30))
    asyncio.run(audited(kind, tasks, tmp_path, signal_seconds=0.5))
    assert len(list(tmp_path.glob("random-*"))) <= 1


def test_a_repeated_episode_is_no_further_draw():
    def played(phase, reward):
        return Played(phase, "random", Path("traces.jsonl"), 0, own_episode("a", reward))

    drawn = [played("weak", 0.5), played("random-1", 0.25)]
    others = [played("weak", None), played("again-0", 0.75), played("crowd", 1.0)]
    assert random_episodes([*others, *drawn]) == {"a": drawn}


def test_no_episode_of_random_calls_is_played_twice(tmp_path):
    tasks = zoo.tasks(GOALS[:1], solution=None)
    kind = zoo.graded(lambda self: 0.5 if self.value == self.goal else 0.0)
    asyncio.run(audited(kind, tasks, tmp_path))
    said = [
        [turn.reply for turn in one.turns]
        for file in sorted(tmp_path.glob("random-*/traces.jsonl"))
        for one in read_trace(file)
        if len(one.turns) > 7
    ]
    assert len(said) > 20
    assert len({tuple(one) for one in said}) == len(said)
