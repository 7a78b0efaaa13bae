"""An agent that plays tasks of an open environment with a model of ART's.

It returns trajectories.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from hudtui.core.gym.values import GymConfig
from hudtui.core.tasks.task import Task
from hudtui.trainers.art_rollout import RolloutLimits, ToolRollouts
from hudtui.trainers.art_worker import EndpointChat

if TYPE_CHECKING:
    import art

_REWARD_ALONE = {"task_completion": 1.0, "tool_execution": 0.0, "format_compliance": 0.0}


class ARTTrainingAgent:
    """Plays tasks with a model and collects what ART trains on.

    Args:
        art_model: A model that is registered with a backend.
        mcp_client: An open environment: what `hudtui.core.environment.client.connect` returns.
            Without one, each task is played in an environment of its own, which its `mcp_config`
            names.
        max_turns: Answers of the model in an episode.
        max_tokens: Tokens of one answer.
        temperature: Of the sampling.
    """

    def __init__(
        self,
        art_model: art.TrainableModel,
        mcp_client: Any = None,
        max_turns: int = 10,
        *,
        max_tokens: int = 4000,
        temperature: float = 1.0,
    ) -> None:
        from hudtui.core.training.recipe import recipe_from

        self._model = art_model
        self._session = mcp_client
        recipe = recipe_from(
            {
                "max_tokens": max_tokens,
                "temperature": temperature,
                "max_seq_len": max(32_768, 2 * max_tokens),
            }
        )
        self._chat = EndpointChat(art_model.openai_client(), art_model.get_inference_name(), recipe)
        self._rollouts = ToolRollouts(
            GymConfig(allow_unmapped=True, weights=_REWARD_ALONE),
            self._connect,
            RolloutLimits(max_turns),
        )

    async def run_with_trajectory(self, task: Task | Mapping[str, Any]) -> art.Trajectory:
        """Play a task to its end.

        Args:
            task: A task, or a record of one in HUD's form.

        Returns:
            The trajectory. Its reward is what the task's evaluate tool gave; an episode that broke
            off has the reward 0, the metric `is_error`, and the reason in its log.

        Raises:
            InputError: The record is not a task.
        """
        played = await self._rollouts.play(
            task if isinstance(task, Task) else _task(task), self._chat
        )
        return played.trajectory

    def _connect(self, servers: Mapping[str, Any]) -> Any:
        if self._session is None:
            from hudtui.core.environment.client import connect

            return connect(servers)
        session = self._session

        @asynccontextmanager
        async def already_open() -> Any:
            yield session

        return already_open()


def _task(record: Mapping[str, Any]) -> Task:
    from art_integration.scenarios import to_taskconfigs

    return to_taskconfigs([record])[0]
