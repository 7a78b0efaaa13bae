"""A training loop of one's own, without a trainer's library.

A policy gradient over the moves of 2048.
    python own_loop.py configs/2048.yaml tasks.json --steps 20

The "model" is four numbers, one for each move. A step plays a group of episodes of each task,
compares the rewards within the group, and makes the moves of the better episodes more likely.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
from collections.abc import Sequence
from pathlib import Path

from hudtui.gym import Episode, Gym, Message

MOVES = ("left", "right", "up", "down")


class Model:
    """A preference for each move."""

    def __init__(self, seed: int) -> None:
        self.preferences = dict.fromkeys(MOVES, 0.0)
        self.random = random.Random(seed)

    def chances(self) -> dict[str, float]:
        """How likely each move is."""
        weights = {move: math.exp(preference) for move, preference in self.preferences.items()}
        return {move: weight / sum(weights.values()) for move, weight in weights.items()}

    async def reply(self, messages: Sequence[Message]) -> str:
        """The policy: the conversation so far in, a reply out."""
        (move,) = self.random.choices(MOVES, list(self.chances().values()))
        return f"<think>{move} it is.</think>\n<tool>{move}()</tool>"

    def learn(self, group: Sequence[Episode], rate: float) -> None:
        """Make the moves of episodes with more reward than others of their group likelier."""
        whole = [
            episode for episode in group if episode.ok
        ]  # a broken episode says nothing about the model
        if len(whole) < 2:
            return
        mean = sum(episode.scores.reward for episode in whole) / len(whole)
        for episode in whole:
            for turn in episode.turns:
                chances = self.chances()
                for move in MOVES:
                    slope = (f"<tool>{move}()" in turn.reply) - chances[move]
                    self.preferences[move] += rate * (episode.scores.reward - mean) * slope


async def train(
    gym: Gym, model: Model, *, steps: int, size: int, rate: float, out: Path | None
) -> list[float]:
    """Train, and return the mean reward of each step."""
    means: list[float] = []
    for step in range(steps):
        groups = await gym.play_groups(gym.tasks, model.reply, size=size, info={"step": step})
        for group in groups:
            model.learn(group, rate)
            for episode in group:
                if out is not None:
                    gym.save(episode, out)
        rewards = [episode.scores.reward for group in groups for episode in group if episode.ok]
        means.append(sum(rewards) / max(len(rewards), 1))
        chances = "  ".join(f"{move} {chance:.2f}" for move, chance in model.chances().items())
        print(f"step {step + 1}  reward {means[-1]:.3f}  {chances}")  # noqa: T201
    return means


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config")
    parser.add_argument("tasks")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--max-turns", type=int)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    gym = Gym.load(given.config, given.tasks, max_turns=given.max_turns)
    asyncio.run(
        train(gym, Model(0), steps=given.steps, size=given.group, rate=given.rate, out=given.out)
    )


if __name__ == "__main__":
    main()
