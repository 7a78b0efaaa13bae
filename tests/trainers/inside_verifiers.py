"""Run by test_verifiers inside the environment with verifiers: one process plays what the tests
look at. Prints a JSON object."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import verifiers.v1 as vf
from support import judged
from support.native_replies import native_reply
from support.scripted_chat import scripted_chat

import hud_vf_gym
from hudtui.core.environment.values import Tool, ToolResult
from hudtui.core.errors import InputError
from hudtui.core.gym.config import parse_config
from hudtui.core.rollouts.episode import EpisodePlayer
from hudtui.core.tasks.task import Task
from hudtui.trainers import verifiers_gym


def context(url: str, **more: Any) -> vf.ModelContext:
    return vf.ModelContext(
        model="stub", client=vf.EvalClientConfig(base_url=url, api_key_var="OPENAI_API_KEY"), **more
    )


async def play(env: vf.Env, url: str, tasks: list[Any] | None = None) -> list[dict[str, Any]]:
    async with env.serving():
        wanted = list(env.taskset) if tasks is None else tasks
        episodes = await asyncio.gather(*(env.run_episode(task, context(url)) for task in wanted))
    return [shown(episode) for episode in episodes]


def shown(episode: Any) -> dict[str, Any]:
    (trace,) = episode.traces
    record = json.loads(episode.model_dump_json(exclude_none=True))
    return {
        "task": trace.task.data.id,
        "ok": episode.ok,
        "reward": trace.reward,
        "rewards": {
            name: [reward.score, reward.weight]
            for name, reward in trace.rewards.items()
            if reward is not None
        },
        "metrics": trace.metrics,
        "stop": trace.stop_condition,
        "errors": [error.message for error in trace.errors],
        "branches": len(trace.branches),
        "recorded": "hudtui" in trace.info,
        "record": json.dumps(record),
    }


async def marked() -> list[int | None]:
    """What the replies of `replies.json` call, played by the harness on an environment in
    memory."""
    config, _ = parse_config(Path("marks.yaml").read_text(), name="marks.yaml")
    assert config is not None
    player = EpisodePlayer(
        Notes(), config, Task(id="t", prompt="Mark.", mcp_config={"notes": {"command": "none"}})
    )
    await player.start()
    gym = verifiers_gym.HUDGym(verifiers_gym.HUDGymConfig())
    for reply in json.loads(Path("replies.json").read_text()):
        said = verifiers_gym._as_sent({"role": "assistant", "content": reply})
        await gym.env_response([said], {"player": player, "reply": {}})
    return [None if turn.call is None else turn.call["arguments"]["n"] for turn in player.turns]


class Notes:
    tools: Mapping[str, Tool] = {"note": Tool("note", "", {"type": "object"})}

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        return ToolResult(())


async def main(url: str, thinking: str, slow: str, closed: str) -> dict[str, Any]:
    told: dict[str, Any] = {"marked": await marked()}
    env = hud_vf_gym.load_environment(taskset="tasks.json", config_path="2048.yaml")
    told["runtime"] = env.config.agent.runtime.type
    told["scripted"] = await play(env, url)
    # As a worker of a trainer gets a task: by its data alone.
    task = next(iter(env.taskset))
    data = type(env.taskset).task_type().data_type().model_validate(task.data.model_dump())
    with scripted_chat(judged.reply) as chat:
        told["judged"] = await play(
            hud_vf_gym.load_environment("judged.json", "judged.yaml"), chat.url
        )
    with scripted_chat(judged.reply) as chat, scripted_chat(judged.verdict) as judge:
        Path("rubric.json").write_text(json.dumps(judged.by_rubric(judge.url)))
        told["rubric"] = await play(
            hud_vf_gym.load_environment("rubric.json", "judged.yaml"), chat.url
        )
    with scripted_chat(native_reply) as chat:
        told["native"] = await play(
            hud_vf_gym.load_environment("many.json", "native.yaml"), chat.url
        )
    told["wired"] = await play(env, url, [type(task)(data, env.config.taskset.task)])
    told["two"] = len(
        list(hud_vf_gym.load_environment("tasks.json", "2048.yaml", num_tasks=2).taskset)
    )
    told["keeps reasoning apart"] = await play(
        hud_vf_gym.load_environment("tasks.json", "2048.yaml", num_tasks=1), thinking
    )
    limited = vf.resolve_env_config(
        {
            "taskset": {
                "id": "hud-vf-gym",
                "taskset": "tasks.json",
                "config_path": "2048.yaml",
                "num_tasks": 1,
            },
            "agent": {"max_turns": 2},
        }
    )
    told["verifiers' own limit"] = await play(vf.load_environment(limited), url)
    hurried = limited.model_copy(deep=True)
    hurried.agent.max_turns, hurried.agent.timeout.rollout = None, 2.0
    told["out of time"] = await play(vf.load_environment(hurried), slow)
    told["secret"] = await play(hud_vf_gym.load_environment("secret.json", "free.yaml"), url)
    told["broken"] = await play(hud_vf_gym.load_environment("broken.json", "2048.yaml"), url)
    told["no key"] = await play(
        hud_vf_gym.load_environment("tasks.json", "2048.yaml", num_tasks=1), closed
    )
    for gym, rewards in (
        ("hud-vf-gym", {}),
        ("lights-vf-gym", {}),
        ("hud-vf-gym", {"reward": "lights_rewards:brevity"}),
    ):
        lights = hud_vf_gym.load_environment(
            "lights/tasks.json", "lights/lights.yaml", gym=gym, **rewards
        )
        told[" ".join([gym, *rewards.values()])] = await play(lights, url)
    import buckeye_vf_gym

    bare = buckeye_vf_gym.load_environment("bare.json", "2048.yaml")
    next(iter(bare.taskset))
    told["buckeye"] = dict(
        verifiers_gym._loaded(bare.taskset.load()[0].data.play).tasks[0].mcp_config
    )
    told["refused"] = {}
    for name, settings in (("unknown", {"colour": 1}), ("wrong", {"max_turns": "many"})):
        try:
            hud_vf_gym.load_environment("tasks.json", "2048.yaml", **settings)
        except InputError as error:
            told["refused"][name] = error.lines()
    os.environ["OPENAI_BASE_URL"] = url
    default = vf.ModelContext(model="stub", client=vf.EvalClientConfig())
    told["default endpoint"] = verifiers_gym._reachable(default).client.base_url
    os.environ["PRIME_API_KEY"] = "prime-key"
    told["with Prime's key"] = verifiers_gym._reachable(default).client.api_key_var
    return told


if __name__ == "__main__":
    os.chdir(Path(sys.argv[1]))
    print(json.dumps(asyncio.run(main(*sys.argv[2:]))))
