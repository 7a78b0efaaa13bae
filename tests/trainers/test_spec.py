"""`HudtuiSpec` as TRL uses it: dataset, environments with the actions as typed methods, rewards."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import pickle
import random
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_type_hints

import pytest
from support.played import play
from support.ready_python import ReadyPython

from hudtui.core.environment.values import Tool
from hudtui.core.errors import InputError, RunError
from hudtui.core.gym.config import load_config, with_dialect
from hudtui.core.gym.dialects.known import DIALECTS
from hudtui.core.rollouts.evaluate import connector
from hudtui.core.rollouts.policy import ReplayPolicy
from hudtui.core.tasks.read import read_tasks
from hudtui.trainers import spec as spec_module
from hudtui.trainers.spec import HudtuiSpec

ROOT = Path(__file__).parents[2]
LOOKUP = {"HUDTUI_PYTHON": sys.executable}.get
CONFIG = """
action_mappings:
  left: {_tool: move, direction: {static: left}}
  move:
    _parser: {positional: [direction]}
    _tool: move
    direction: {from_arg: direction}
  judge: {_tool: evaluate}
"""


@pytest.fixture
def spec(own_world: Path) -> Any:
    (own_world / "c.yaml").write_text(CONFIG)
    records = [
        {
            "id": f"game {seed}",
            "prompt": f"Play {seed}.",
            "mcp_config": {
                "env": {
                    "command": "${HUDTUI_PYTHON:-/nowhere}",
                    "args": ["-m", "hudtui.envs.text_2048"],
                }
            },
            "setup_tool": {"name": "setup", "arguments": {"name": "board", "seed": seed}},
            "evaluate_tool": {
                "name": "evaluate",
                "arguments": {"name": "max_number", "target": 64},
            },
        }
        for seed in (1, 2)
    ]
    (own_world / "tasks.json").write_text(json.dumps(records))
    made = HudtuiSpec("c.yaml", "tasks.json", system_prompt="You play 2048.")
    yield made
    made.close()


def test_the_dataset_has_a_row_for_each_task(spec: HudtuiSpec) -> None:
    rows = spec.train_dataset.to_list()
    assert [row["task_id"] for row in rows] == ["game 1", "game 2"]
    assert rows[0]["prompt"] == [
        {"role": "system", "content": "You play 2048."},
        {"role": "user", "content": ""},
    ]


def test_the_actions_are_methods_with_types_and_docstrings(spec: HudtuiSpec) -> None:
    kind = type(spec.environment_factory())
    public = {
        name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")
    }
    assert public == {"reset", "left", "move", "done"}
    assert get_type_hints(kind.move) == {
        "direction": Literal["left", "right", "up", "down"],
        "return": str,
    }
    assert list(inspect.signature(kind.move).parameters) == ["self", "direction"]
    assert "Args:\n    direction: Where the tiles go" in kind.move.__doc__
    assert [tool.name for tool in spec.tools] == ["left", "move", "done"]


async def test_scripted_episodes_have_the_rewards_of_the_same_replies_in_an_evaluation(
    spec: HudtuiSpec, own_world: Path
) -> None:
    config = load_config(own_world / "c.yaml")
    tasks = {task.id: task for task in read_tasks(own_world / "tasks.json").tasks}
    make = spec.environment_factory
    environments = [make() for _ in range(4)]
    expected = []
    for number, environment in enumerate(environments):
        chance = random.Random(number)
        task = tasks[f"game {number % 2 + 1}"]
        opening = await asyncio.to_thread(environment.reset, task_id=task.id, prompt=[])
        replies = []
        for _ in range(8):
            direction = chance.choice(["left", "up", "sideways", "right"])
            seen = await asyncio.to_thread(environment.move, direction=direction)
            replies.append(f'<think>x</think><tool>move("{direction}")</tool>')
        if number % 2:
            await asyncio.to_thread(environment.done)
            assert environment.left() == "error: the episode is over"
        replies.append("<think>x</think><tool>done()</tool>")
        connect = connector(None, own_world, LOOKUP, timeout=60)
        async with connect(task.mcp_config) as session:
            episode = await play(session, config, task, ReplayPolicy(replies))
        assert (opening, seen) == (episode.messages[0]["content"], episode.turns[7].observation)
        expected.append(episode.scores.reward)
    rewards = await asyncio.to_thread(
        spec.reward_funcs, prompts=[], completions=[], environments=environments, task_id=[]
    )
    assert rewards == expected and len(set(rewards)) > 1


@pytest.mark.parametrize("dialect", ["text", "hermes", "native"])
async def test_its_episodes_are_native_ones_whatever_the_configuration_reads(
    spec: HudtuiSpec, own_world: Path, dialect: str
) -> None:
    (own_world / "c.yaml").write_text(f"parser: {{dialect: {dialect}}}\n{CONFIG}")
    native = with_dialect(load_config(own_world / "c.yaml"), "native")
    task = read_tasks(own_world / "tasks.json").tasks[0]
    write = DIALECTS["native"].write
    for moves in ((), ("left", "sideways", "up")):
        environment = spec.environment_factory()
        await asyncio.to_thread(environment.reset, task_id=task.id, prompt=[])
        for move in moves:
            await asyncio.to_thread(environment.move, direction=move)
        [reward] = await asyncio.to_thread(spec.reward_funcs, environments=[environment])
        replies = [*(write("move", {"direction": move}) for move in moves), "I am done."]
        connect = connector(None, own_world, LOOKUP, timeout=60)
        async with connect(task.mcp_config) as session:
            episode = await play(session, native, task, ReplayPolicy(replies))
        assert reward == episode.scores.reward, moves


def test_the_factory_can_be_pickled_and_the_rewards_may_come_from_elsewhere(
    spec: HudtuiSpec,
) -> None:
    again = pickle.loads(pickle.dumps(spec.environment_factory))
    assert "Play 2." in again().reset(task_id="game 2")
    assert spec.reward_funcs(environment_reward=[1, 0.5]) == [1.0, 0.5]


def test_the_end_ends_the_servers(spec: HudtuiSpec) -> None:
    def children() -> set[str]:
        found: set[str] = set()
        for thread in Path(f"/proc/{os.getpid()}/task").iterdir():
            with suppress(FileNotFoundError):  # the thread has ended meanwhile
                found.update((thread / "children").read_text().split())
        return found

    before = children()
    environment = spec.environment_factory()
    environment.reset(task_id="game 1")
    assert len(children() - before) == 1
    spec.close()
    assert children() <= before
    assert "Play 1." in environment.reset(task_id="game 1")


def test_what_cannot_begin_is_said(spec: HudtuiSpec, own_world: Path) -> None:
    with pytest.raises(RunError, match="game 3 does not begin"):
        spec.environment_factory().reset(task_id="game 3")
    with pytest.raises(InputError, match=r"missing\.yaml"):
        _ = HudtuiSpec("missing.yaml", "tasks.json").train_dataset
    (own_world / "odd.yaml").write_text(
        "action_mappings:\n  class: {_tool: move, direction: {static: left}}\n"
    )
    with pytest.raises(InputError, match="can be a tool of the model") as error:
        _ = HudtuiSpec("odd.yaml", "tasks.json").tools
    assert "class" in str(error.value)


def test_an_episode_that_broke_off_has_no_reward(spec: HudtuiSpec) -> None:
    environment = spec.environment_factory()
    assert environment.reward is None  # before the first reset
    environment.reset(task_id="game 1")
    spec.close()  # as when the server dies
    assert environment.left().startswith("error: ")
    assert spec.reward_funcs(environments=[environment]) == [None]


def test_an_episode_whose_evaluation_fails_has_no_reward(spec: HudtuiSpec, own_world: Path) -> None:
    records = json.loads((own_world / "tasks.json").read_text())
    records[0]["evaluate_tool"]["arguments"] = {"name": "max_number", "target": "high"}
    (own_world / "odd.json").write_text(json.dumps(records[:1]))
    odd = HudtuiSpec("c.yaml", "odd.json")
    try:
        environments = [odd.environment_factory() for _ in range(2)]
        for environment in environments:
            environment.reset()
        environments[0].left()
        assert odd.reward_funcs(environments=environments) == [None, None]
    finally:
        odd.close()


def test_an_environment_that_does_not_begin_is_tried_again_and_left_out_until_it_is_hopeless(
    spec: HudtuiSpec, own_world: Path
) -> None:
    flaky = own_world / "flaky.py"  # it starts at every third time
    flaky.write_text(
        "import os, sys\nfrom pathlib import Path\nfile = Path(sys.argv[1])\n"
        "count = len(file.read_text()) if file.exists() else 0\n"
        "file.write_text('x' * (count + 1))\n"
        "if count % 3 < 2 or (file.parent / 'down').exists():\n    sys.exit('no board')\n"
        "from hudtui.envs.text_2048.__main__ import main\nsys.argv = sys.argv[:1]\nmain()\n"
    )
    records = json.loads((own_world / "tasks.json").read_text())
    records[0]["mcp_config"]["env"] |= {"args": [str(flaky), str(own_world / "count")]}
    (own_world / "count").write_text("xx")
    (own_world / "flaky.json").write_text(json.dumps(records[:1]))
    odd = HudtuiSpec("c.yaml", "flaky.json")
    try:
        environment = odd.environment_factory()
        assert "Play 1." in environment.reset()
        assert environment.reward is not None
        (own_world / "down").touch()
        for _ in range(7):
            assert "does not answer" in environment.reset()
            assert environment.left() == "error: the episode is over"
            assert odd.reward_funcs(environments=[environment]) == [None]
        with pytest.raises(RunError, match="does not begin, as 7 before it") as caught:
            environment.reset()
        assert "no board" in str(caught.value.why)
        (own_world / "down").unlink()
        assert "Play 1." in environment.reset()
    finally:
        odd.close()


def test_rewards_that_the_trainer_has_collected_keep_their_gaps(spec: HudtuiSpec) -> None:
    assert spec.reward_funcs(environment_reward=[1, None, 0.5]) == [1.0, None, 0.5]


def test_foreign_schemas_become_types_as_far_as_they_can() -> None:
    schema = {
        "type": "object",
        "properties": {
            "note": {"description": 'Ends """ here\nReturns: nothing (choices: ["x"])'},
            "count": {"type": "integer", "default": 3},
            "path": {"type": "array", "items": {"type": "number"}},
            "mode": {"enum": ["a", "b"]},
            "odd": 7,
        },
        "required": ["path", "mode"],
    }
    method = spec_module._method(Tool("act", "", schema))
    hints = get_type_hints(method)
    assert hints == {
        "path": list[float],
        "mode": Literal["a", "b"],
        "note": Any,
        "count": int | None,
        "odd": Any,
        "return": str,
    }
    assert inspect.signature(method).parameters["count"].default == 3
    lines = method.__doc__.splitlines()
    assert lines[:3] == ["Call act.", "", "Args:"] and len(lines) == 8


@pytest.mark.xdist_group("rehearsal")
@pytest.mark.timeout(900)
async def test_trl_trains_on_it_and_its_rewards_are_those_of_an_evaluation(
    spec: HudtuiSpec, own_world: Path, trainer: ReadyPython
) -> None:
    script = str(ROOT / "tests" / "trainers" / "inside_spec.py")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = await asyncio.to_thread(trainer.run, script, str(own_world), cwd=own_world, env=env)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    found = json.loads(done.stdout.rpartition("RESULT ")[2])
    assert (found["step"], found["calls"], found["failures"]) == (3, [3.0] * 3, [0.0] * 3)
    config = load_config(own_world / "c.yaml")
    tasks = {task.id: task for task in read_tasks(own_world / "tasks.json").tasks}
    connect = connector(None, own_world, LOOKUP, timeout=60)
    assert len(found["seen"]) == 3
    for step in found["seen"]:
        for number, (name, reward) in enumerate(zip(step["tasks"], step["rewards"], strict=True)):
            moves = [
                random.Random(f"{number}/{turn}").choice(["left", "right", "up", "down"])
                for turn in range(3)
            ]
            replies = [f'<think>x</think><tool>move("{move}")</tool>' for move in moves]
            async with connect(tasks[name].mcp_config) as session:
                episode = await play(
                    session,
                    config,
                    tasks[name],
                    ReplayPolicy([*replies, "<think>x</think><tool>done()</tool>"]),
                )
            assert reward == episode.scores.reward
