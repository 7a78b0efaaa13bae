"""What `test_art.py` asks of the worker inside its own environment; prints RESULT and a JSON
object."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

import art
from openai import AsyncOpenAI
from support import judged
from support.native_replies import games, native_reply
from support.scripted_chat import scripted_chat
from support.tool_model import call, endpoint, message

from art_integration.agent import ARTTrainingAgent
from hudtui.core.environment.client import connect
from hudtui.core.errors import MachineError
from hudtui.core.gym.config import load_config, parse_config
from hudtui.core.gym.values import GymConfig
from hudtui.core.rollouts.judging import Judges
from hudtui.core.tasks.task import Task, ToolCall
from hudtui.core.training.art import art_layout
from hudtui.core.training.recipe import ART, recipe_from
from hudtui.trainers import art_worker
from hudtui.trainers.art_rehearsal import RehearsalBackend, RehearsalChat
from hudtui.trainers.art_rollout import ModelError, RolloutLimits, ToolRollouts
from hudtui.trainers.art_worker import (
    EndpointChat,
    Gatherer,
    Training,
    internal_config,
    tasks_of_step,
)

RECIPE = recipe_from(ART)
GAME = {"game": {"command": sys.executable, "args": ["-m", "hudtui.envs.text_2048"]}}
CONFIG = GymConfig(
    allow_unmapped=True,
    weights={"task_completion": 1.0, "tool_execution": 0.0, "format_compliance": 0.0},
)


def task(name: str = "t") -> Task:
    setup = (ToolCall("setup", {"name": "board", "board_size": 3, "seed": 1}),)
    return Task(
        name, "Play.", GAME, setup, (ToolCall("evaluate", {"name": "max_number", "target": 64}),)
    )


def rollouts(seconds: float | None = None) -> ToolRollouts:
    return ToolRollouts(CONFIG, lambda servers: connect(servers), RolloutLimits(5, 20.0, seconds))


class Hangs:
    async def complete(self, messages: Any, tools: Any) -> Any:
        await asyncio.sleep(1000)


async def dead_server() -> tuple[str, str]:
    """A server that took the connection and never answers again."""
    silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(1000), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    found: list[MachineError] = []
    gatherer = Gatherer(rollouts(), 2, health=f"http://127.0.0.1:{port}/v1/models")
    try:
        await gatherer.groups([task()], Hangs(), info={"step": 1}, version=0)
    except* MachineError as group:
        found += [error for error in group.exceptions if isinstance(error, MachineError)]
    finally:
        silent.close()
    (error,) = found
    return error.what, error.fix or ""


async def dead_while_training() -> tuple[str, bool]:
    """A server on a GPU of its own that dies behind a training that waits for it."""
    silent = await asyncio.start_server(lambda reader, writer: asyncio.sleep(1000), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    stopped: list[bool] = []

    class Backend:
        async def train(self, *_: Any, **__: Any) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                stopped.append(True)

    class Model:
        inference_base_url = f"http://127.0.0.1:{port}/v1"

    training = Training(
        RECIPE,
        CONFIG,
        [task()],
        Path(sys.argv[1]) / "out",
        lookup=lambda name: None,
        layout=art_layout(2),
    )
    try:
        await training._learn(Backend(), Model(), [], 3)
    except MachineError as error:
        await asyncio.sleep(0)
        return error.what, bool(stopped)
    finally:
        silent.close()
    raise AssertionError("it went on waiting")


async def too_long(base: str) -> str:
    chat = EndpointChat(AsyncOpenAI(base_url=base, api_key="none", max_retries=0), "tiny", RECIPE)
    try:
        await chat.complete([{"role": "user", "content": "x"}], [])
    except ModelError as error:
        return error.what
    raise AssertionError("the endpoint refuses it")


async def agent(base: str) -> dict[str, Any]:
    backend = RehearsalBackend((base, "tiny"))
    model: Any = art.TrainableModel(name="m", project="p", base_model="b", base_path=sys.argv[1])
    await model.register(backend)
    found = await ARTTrainingAgent(model, max_turns=5).run_with_trajectory(task())
    servers = {"e": {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}}
    nowhere = {
        "id": "x",
        "prompt": "p",
        "mcp_config": servers,
        "evaluate_tool": {"name": "evaluate", "arguments": {}},
    }
    async with connect(GAME) as session:
        open_already = await ARTTrainingAgent(model, session, max_turns=5).run_with_trajectory(
            task()
        )
    assert open_already.reward == found.reward
    broken = await ARTTrainingAgent(model).run_with_trajectory(nowhere)
    assert broken.reward == 0 and broken.logs
    # A limit of the environment's own, where the episode has none.
    late = MagicMock(side_effect=TimeoutError("the environment took too long"))
    rollouts = ToolRollouts(GymConfig(allow_unmapped=True), late, RolloutLimits(3))
    assert "took too long" in (await rollouts.play(task(), RehearsalChat("0"))).trajectory.logs[0]
    return {
        "reward": found.reward,
        "metrics": found.metrics,
        "metadata": found.metadata,
        "broken": broken.metrics,
    }


async def judged_tasks() -> dict[str, Any]:
    """Tasks that say what they expect, played by a model that calls tools by itself."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        name = judged.task_of(body["messages"])
        done = sum(one["role"] == "assistant" for one in body["messages"])
        calls = judged.CALLS[name]
        if done == len(calls):
            return 200, message(judged.words(name))
        tool, arguments = calls[done]
        return 200, call(tool, **arguments)

    config, _ = parse_config(judged.CONFIG, name="judged.yaml")
    assert config is not None
    playing = ToolRollouts(config, connect, RolloutLimits(5, 20.0))
    with endpoint(answer) as (base, _):
        client = AsyncOpenAI(base_url=base, api_key="none", max_retries=0)
        chat = EndpointChat(client, "tiny", RECIPE)
        played = [await playing.play(one, chat) for one in judged.tasks()]
        with scripted_chat(judged.verdict) as judge:
            playing.judges = Judges(lambda name: None)
            [task] = judged.tasks(judged.by_rubric(judge.url))
            rubric = await playing.play(task, chat)
    rewards = {one.episode.task_id: one.trajectory.reward for one in played}
    parts = {one.episode.task_id: one.episode.scores.own for one in played}
    row = art_worker._means(played)
    by_rubric = [rubric.trajectory.reward, rubric.episode.scores.own]
    return {"rewards": rewards, "parts": parts, "row": row, "rubric": by_rubric}


async def native_tasks() -> list[float]:
    """The rewards of a model that does right and wrong, game by game."""
    config = load_config(Path(__file__).parents[2] / "configs" / "2048.yaml")
    playing = ToolRollouts(config, connect, RolloutLimits(config.max_turns, 20.0))
    with scripted_chat(native_reply) as chat:
        client = AsyncOpenAI(base_url=chat.url, api_key="none", max_retries=0)
        model = EndpointChat(client, "tiny", RECIPE)
        return [(await playing.play(one, model)).trajectory.reward for one in games()]


def kept_checkpoints() -> list[int]:
    recipe = recipe_from({**ART, "save_every": 2, "keep_checkpoints": 2})
    training = Training(
        recipe, CONFIG, [task()], Path(sys.argv[1]) / "out", lookup=lambda name: None
    )
    model = art.Model(name="small", project="kept", base_path=sys.argv[1])
    folder = Path(sys.argv[1]) / "kept" / "models" / "small" / "checkpoints"
    for step in range(7):
        (folder / f"{step:04d}").mkdir(parents=True)
        if step:
            training._prune(model, step)
    return sorted(int(path.name) for path in folder.iterdir())


def removed_backend() -> str:
    """The import that scripts of HUD's integration have; ART itself has no such module."""
    try:
        from art.skypilot import SkyPilotBackend  # noqa: F401
    except ModuleNotFoundError as error:
        return str(error)
    raise AssertionError("ART has it again")


async def main() -> dict[str, Any]:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if "tools" not in body:
            return 400, {"error": {"message": "This model's maximum context length is 8192 tokens"}}
        return 200, message("done") if body["messages"][-1]["role"] == "tool" else call(
            "move", direction="left"
        )

    with patch.multiple(art_worker, LOOK_EVERY=0.1, SILENT=0.2, PATIENCE=0.1):
        dead, fix = await dead_server()
        behind, stopped = await dead_while_training()
    slow = await rollouts(0.5).play(task(), Hangs())
    with endpoint(answer) as (base, _):
        long = await too_long(base)
        played = await agent(base)
    recipe = recipe_from(
        {**ART, "max_seq_len": 4096, "gpu_memory_utilization": 0.7, "enforce_eager": True}
    )
    tasks = [task(name) for name in "abcd"]
    order = [[one.id for one in tasks_of_step(tasks, done, 2, seed=1)] for done in range(3)]
    return {
        "dead": dead,
        "dead_fix": fix,
        "dead_behind": behind,
        "training_stopped": stopped,
        "long": long,
        "slow": slow.episode.error,
        "shared": internal_config(recipe, art_layout(1)),
        "dedicated": internal_config(recipe, art_layout(2)),
        "order": order,
        "order_again": [one.id for one in tasks_of_step(tasks, 0, 2, seed=1)],
        "kept": kept_checkpoints(),
        "agent": played,
        "judged": await judged_tasks(),
        "native": await native_tasks(),
        "skypilot": removed_backend(),
    }


if __name__ == "__main__":
    print("RESULT " + json.dumps(asyncio.run(main()), default=str))
