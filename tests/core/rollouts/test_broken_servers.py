"""Evaluations over servers that die at each step of an episode, and evaluations that are killed:
every episode counts once."""

import asyncio
import collections
import contextlib
import json
import os
import signal
import sys
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from support.played import metrics_of

from hudtui.core.environment.client import connect as connect_environment
from hudtui.core.rollouts.evaluate import EpisodeDone, evaluate
from hudtui.core.rollouts.policy import policy_source
from hudtui.core.rollouts.trace import read_trace

GAME = Path(__file__).parents[2] / "support" / "dying_game.py"


@pytest.fixture
def played(config, tmp_path):
    """Plays tasks over their own servers, and gives the episodes by task."""

    async def run(tasks, *, timeout=30.0, **options):
        events = evaluate(
            tasks,
            config,
            policy=policy_source("greedy", config),
            connect=partial(connect_environment, timeout=timeout),
            out_dir=tmp_path / "out",
            max_turns=4,
            timeout=timeout,
            **options,
        )
        async with aclosing(events):
            return {
                event.episode.task_id: event.episode
                async for event in events
                if isinstance(event, EpisodeDone)
            }

    return run


@pytest.mark.parametrize(
    ("step", "number", "turns"),
    [
        ("initialize", 1, 0),
        ("tools/list", 1, 0),
        ("setup", 1, 0),
        ("move", 3, 3),
        ("evaluate", 1, 4),
    ],
)
@pytest.mark.parametrize("way", ["die", "half"])
async def test_a_server_that_dies_costs_its_own_episode_and_resuming_plays_that_again(
    played, task, tmp_path, step, number, turns, way
):
    flag = tmp_path / "well"
    broken = {
        "env": {"command": sys.executable, "args": [str(GAME), str(flag), step, str(number), way]}
    }
    tasks = [replace(task, id=f"t{n}") for n in range(3)]
    tasks[1] = replace(tasks[1], mcp_config=broken)
    episodes = await played(tasks, concurrency=3)
    stops = {name: episode.stop for name, episode in episodes.items()}
    assert stops == {"t0": "max_turns", "t1": "error", "t2": "max_turns"}
    lost = episodes["t1"]
    assert (
        len(lost.turns) == turns
        and not lost.scores.reward_found
        and lost.scores.task_completion == 0
    )
    assert "MemoryError: no room for the board" in lost.error  # the server's last words
    flag.touch()
    again = await played(tasks, resume=True)
    assert {name: episode.stop for name, episode in again.items()} == {"t1": "max_turns"}
    recorded = [episode.task_id for episode in read_trace(tmp_path / "out" / "traces.jsonl")]
    assert sorted(recorded) == ["t0", "t1", "t2"]
    assert [line["errors"] for line in metrics_of(tmp_path / "out")] == [0, 0, 0]


@pytest.mark.parametrize("step", ["setup", "move", "evaluate"])
async def test_a_call_without_an_answer_ends_by_its_limit(played, task, tmp_path, step):
    hanging = {
        "env": {
            "command": sys.executable,
            "args": [str(GAME), str(tmp_path / "no"), step, "1", "hang"],
        }
    }
    (episode,) = (await played([replace(task, mcp_config=hanging)], timeout=3.0)).values()
    assert episode.stop == "error" and "3 s" in episode.error, episode.error
    assert len(episode.turns) == {"setup": 0, "move": 1, "evaluate": 4}[step]


def lines_of(file):
    return file.read_bytes().count(b"\n") if file.exists() else 0


async def run_until(at, command, folder, traces):
    """Starts the command in a process group of its own, and kills it with SIGKILL once the trace
    has `at` lines; None: never."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    reader = asyncio.create_task(process.stdout.read())
    try:
        async with asyncio.timeout(240):
            while at and process.returncode is None and lines_of(traces) < at:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            if at and process.returncode is None:
                process.send_signal(signal.SIGKILL)
            await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, (await reader).decode()


async def test_an_evaluation_of_200_rollouts_is_killed_twice_and_every_episode_counts_once(
    task, own_world, tmp_path
):
    config = "system_prompt: Play.\naction_mappings:\n" + "".join(
        f"  {name}: {{_tool: move, direction: {{static: {name}}}}}\n"
        for name in ("left", "right", "up", "down")
    )
    (own_world / "c.yaml").write_text(config)
    rows = [
        {
            "id": f"t{number:02}",
            "prompt": task.prompt,
            "mcp_config": {},
            "setup_tool": [{"name": call.name, "arguments": call.arguments} for call in task.setup],
            "evaluate_tool": [
                {"name": call.name, "arguments": call.arguments} for call in task.evaluate
            ],
        }
        for number in range(25)
    ]
    for row in rows:
        row["mcp_config"] = {
            "game": {
                "command": "${HUDTUI_PYTHON:-python3}",
                "args": ["-m", "hudtui.envs.text_2048"],
            }
        }
    (own_world / "tasks.json").write_text(json.dumps(rows))
    traces = own_world / "out" / "traces.jsonl"
    options = (
        "eval tasks.json -c c.yaml --policy random --group 8 --max-turns 2 --reuse --concurrency 4 "
        "-o out --json"
    )
    command = [sys.executable, "-m", "hudtui", *options.split()]
    trusted = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "hudtui", "trust", "--yes", cwd=own_world
    )
    assert await trusted.wait() == 0

    code, said = await run_until(40, command, own_world, traces)
    assert code == -signal.SIGKILL, said
    with traces.open("ab") as stream:
        stream.write(
            b'{"task":"t24","messages":[{"role"'
        )  # the worst moment: in the middle of a line
    code, said = await run_until(110, [*command, "--resume"], own_world, traces)
    assert code == -signal.SIGKILL, said
    code, said = await run_until(None, [*command, "--resume"], own_world, traces)
    assert code == 0, said

    counted = collections.Counter(
        (episode.task_id, episode.info["rollout"]) for episode in read_trace(traces)
    )
    assert counted == {(row["id"], rollout): 1 for row in rows for rollout in range(8)}
    steps = metrics_of(own_world / "out")
    assert [line["step"] for line in steps] == list(range(1, 26)) and {
        line["episodes"] for line in steps
    } == {8}
    assert {line["task"] for line in steps} == {row["id"] for row in rows}
    report = json.loads(said[said.index("\n{") :])
    assert (report["episodes"], report["expected"], report["failed"]) == (200, 200, 0)
    assert all(len(row["episodes"]) == 8 for row in report["tasks"])
