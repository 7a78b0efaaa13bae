"""hudtui in your own program.

Tasks and a configuration, played by a model of yours, with the reward of `hudtui eval`.
    from hudtui.gym import Gym

    gym = Gym.load("configs/2048.yaml", "tasks.jsonl") groups = await gym.play_groups(gym.tasks,
    policy, size=8) rewards = [[episode.scores.reward for episode in group if episode.ok] for group
    in groups]  # the others were broken off

`__all__` is the public Python API. What is promised about it stands in docs/python.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from hudtui.core.environment.bundled import with_python_variable
from hudtui.core.environment.values import Tool
from hudtui.core.errors import HudtuiError, InputError, RunError
from hudtui.core.gym.shipped import shipped_config
from hudtui.core.gym.values import GymConfig
from hudtui.core.removed_imports import explain_removed_imports
from hudtui.core.rollouts.episode import NO_SESSION, EpisodePlayer, drive
from hudtui.core.rollouts.evaluate import Connect, connector, read_playable_tasks, secrets_of
from hudtui.core.rollouts.judging import Judges
from hudtui.core.rollouts.reward import HUDBaseRubric, load_playable_config
from hudtui.core.rollouts.trace import write_episode
from hudtui.core.rollouts.values import Complete as Policy
from hudtui.core.rollouts.values import ContextFull, Episode, Message, Scores, Turn
from hudtui.core.settings import Settings, load_settings
from hudtui.core.tasks.task import Task, ToolCall
from hudtui.core.trust import Untrusted
from hudtui.trainers.spec import HudtuiSpec

__all__ = [
    "ContextFull",
    "Episode",
    "EpisodePlayer",
    "Gym",
    "HUDBaseRubric",
    "HudtuiError",
    "HudtuiSpec",
    "InputError",
    "Message",
    "Policy",
    "RunError",
    "Scores",
    "Task",
    "Tool",
    "ToolCall",
    "Turn",
    "Untrusted",
]

explain_removed_imports()

TRACES = "traces.jsonl"


class Gym:
    """Tasks and a configuration that episodes are played with. `Gym.load` makes one."""

    def __init__(
        self,
        tasks: Sequence[Task],
        config: GymConfig,
        settings: Settings,
        *,
        connect: Connect,
        **options: Any,
    ) -> None:
        self._tasks = {task.id: task for task in tasks}
        self._config = config
        self._lookup = with_python_variable(settings.lookup)
        self._connect = connect
        self._options = options
        self.warnings: tuple[str, ...] = ()
        """What was noticed while the files were read: tasks that cannot be played, and why."""

    @classmethod
    def load(
        cls,
        config: Path | str,
        tasks: str,
        *,
        source: str | None = None,
        split: str | None = None,
        limit: int | None = None,
        max_turns: int | None = None,
        reward: str | None = None,
        timeout: float | None = None,
        folder: Path | str | None = None,
    ) -> Self:
        """Read the files. Nothing is started yet.

        Args:
            config: The gym configuration (YAML).
            tasks: A file or folder of tasks, or a dataset on the Hub (`org/name`), which is
                downloaded.
            source: An environment to play in instead of the one each task names.
            split: The split of a dataset with several; None: `train`.
            limit: Take only the first so many tasks.
            max_turns: Replies that an episode may have; None for the configuration's limit.
            reward: Code of your own for the reward, as `FILE.py:NAME` or `package.module:NAME`;
                None for the configuration's.
            timeout: Seconds for a connection, and for one call; None: the setting
                `HUD_CLIENT_TIMEOUT`, else 60.
            folder: The project folder, where relative paths start and `.env` lies; None: the
                current one.

        Raises:
            InputError: A file cannot be read, or holds no task that can be played.
            Untrusted: The files name a server or code that the user has not agreed to
                (`hudtui trust`).
        """
        place = Path.cwd() if folder is None else Path(folder).absolute()
        settings = load_settings(place)
        settings.require_trust()
        file, told = shipped_config(Path(config), place)
        loaded = load_playable_config(place / file, place, reward=reward)
        read, warning = read_playable_tasks(
            tasks, loaded, settings, split=split, limit=limit, source=source
        )
        seconds = settings.client_timeout if timeout is None else timeout
        connect = connector(source, place, with_python_variable(settings.lookup), timeout=seconds)
        made = cls(
            read.tasks,
            loaded,
            settings,
            connect=connect,
            max_turns=max_turns,
            timeout=seconds,
            judges=Judges(settings.lookup),
        )
        made.warnings = (
            *filter(None, (told,)),
            *(str(one) for one in read.problems),
            *([warning.message] if warning is not None else []),
        )
        return made

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks, in the order of their file."""
        return tuple(self._tasks.values())

    def task(self, name: str) -> Task:
        """The task with an id.

        Raises:
            InputError: There is none.
        """
        if name not in self._tasks:
            raise InputError(f"there is no task {name!r}")
        return self._tasks[name]

    @asynccontextmanager
    async def episode(
        self, task: Task, *, images: bool = False, info: Mapping[str, Any] | None = None
    ) -> AsyncIterator[EpisodePlayer]:
        """Open an environment of its own for one episode that you step yourself.

        It is closed at the end of the block.

        Args:
            task: What is played.
            images: Show images to the model.
            info: JSON values that are kept in the episode's record.

        Raises:
            HudtuiError: The environment cannot be started or reached.
        """
        async with self._connect(task.mcp_config) as session:
            yield EpisodePlayer(
                session, self._config, task, images=images, info=info, **self._options
            )

    async def play(
        self, task: Task, policy: Policy, *, info: Mapping[str, Any] | None = None
    ) -> Episode:
        """Play one episode to its end, in an environment of its own.

        Args:
            task: What is played.
            policy: Gets all messages so far, and returns the next reply as text. An attribute
                `wants_images` that is true has images shown to it.
            info: JSON values that are kept in the episode's record.

        Returns:
            The episode. Where the environment or the policy failed, `ok` is false and `error` says
            why: such an episode says nothing about the model, and its reward is not to be trained
            on.
        """
        player: EpisodePlayer | None = None
        episode: Episode | None = None
        try:
            async with self.episode(
                task, images=bool(getattr(policy, "wants_images", False)), info=info
            ) as player:
                episode = await drive(player, policy)
        except Exception as error:
            if episode is None:
                player = player or EpisodePlayer(NO_SESSION, self._config, task, info=info)
                player.fail(error)
                episode = player.record()
        return episode

    async def play_groups(
        self,
        tasks: Sequence[Task],
        policy: Policy,
        *,
        size: int = 1,
        concurrency: int = 16,
        info: Mapping[str, Any] | None = None,
    ) -> list[list[Episode]]:
        """Play several episodes of each task, at the same time.

        Args:
            tasks: What is played.
            policy: See `play`. It is called for many episodes at once.
            size: Episodes of each task: those that GRPO compares.
            concurrency: Episodes, and so environments, at the same time.
            info: JSON values that are kept in the records, beside the number of the rollout.

        Returns:
            The episodes of each task, in the order of `tasks`; see `play` for those that failed.
        """
        free = asyncio.Semaphore(concurrency)

        async def one(task: Task, number: int) -> Episode:
            async with free:
                return await self.play(task, policy, info={**(info or {}), "rollout": number})

        async with asyncio.TaskGroup() as group:
            playing = [
                [group.create_task(one(task, number)) for number in range(size)] for task in tasks
            ]
        return [[task.result() for task in episodes] for episodes in playing]

    def save(self, episode: Episode, folder: Path | str) -> None:
        """Add an episode to `traces.jsonl` in a folder.

        The screen Results and `hudtui rollouts` read it.

        Values of keys and tokens are masked.

        Raises:
            InputError: The file cannot be written.
        """
        secrets = secrets_of(self.task(episode.task_id).mcp_config, self._lookup)
        write_episode(Path(folder) / TRACES, episode, secrets=secrets)
