"""The share of groups that would teach something, beside groups that were played."""

import asyncio

import pytest
from support import zoo

from hudtui.core.audit.players import Seat, scripted
from hudtui.core.results.baseline import PlayedEpisode, baseline
from hudtui.core.rollouts.episode import EpisodePlayer, drive

GROUP = 8
GROUPS = 200
GOALS = tuple((2 + number % 7, zoo.COLOURS[number % 3]) for number in range(20))


async def rewards(kind, tasks, seed, count):
    """The rewards of random calls on each task."""
    config, connect = zoo.config(), zoo.connector(kind)
    earned = {}
    for task in tasks:
        for rollout in range(count):
            async with connect(task.mcp_config) as session:
                player = EpisodePlayer(session, config, task)
                seat = Seat(task, config, player.actions[:-1], seed, rollout)
                episode = await drive(player, scripted("random", seat))
            earned.setdefault(task.id, []).append(episode.scores.reward)
    return earned


KINDS = {
    "a colour": zoo.graded(lambda self: float(self.painted == self.colour)),
    "a count": zoo.graded(lambda self: float(self.value == self.goal)),
    "both": zoo.graded(zoo.right),
    "dense": zoo.Room,
}


@pytest.mark.parametrize("name", KINDS)
def test_the_signal_is_that_of_200_groups(name):
    tasks = zoo.tasks(GOALS, solution=None)
    seen = asyncio.run(rewards(KINDS[name], tasks, 0, 2 * GROUP))
    played = asyncio.run(rewards(KINDS[name], tasks, 1, GROUPS // len(tasks) * GROUP))
    groups = [
        ones[at : at + GROUP] for ones in played.values() for at in range(0, len(ones), GROUP)
    ]
    assert len(groups) == GROUPS
    share = sum(max(group) - min(group) > 1e-9 for group in groups) / GROUPS
    drawn = {task: [PlayedEpisode(one, False) for one in ones] for task, ones in seen.items()}
    signal = baseline(drawn, group=GROUP).spread
    assert signal.low - 1 / GROUPS <= share <= signal.high + 1 / GROUPS
    assert abs(signal.value - share) <= 0.1
