"""The worker of a training with ART, with the real package: episodes, groups, judges, records; only
the GPU is missing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from support import judged
from support.games import generous
from support.native_replies import games, native_reply
from support.played import play
from support.ready_python import ReadyPython
from support.scripted_chat import scripted_chat
from support.tool_model import call, endpoint, judgement, message

from hudtui.core.environment.client import connect
from hudtui.core.gym.config import load_config, parse_config, with_dialect
from hudtui.core.plain import to_plain
from hudtui.core.rollouts.chat import ChatEndpoint, ChatOptions, ChatPolicy
from hudtui.core.rollouts.episode import EpisodePlayer, drive
from hudtui.core.rollouts.judging import Judges
from hudtui.core.rollouts.policy import ReplayPolicy
from hudtui.core.rollouts.trace import read_trace
from hudtui.core.rollouts.values import Scores
from hudtui.core.training.recipe import ART, recipe_from

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.xdist_group("art"), pytest.mark.timeout(300)]

GYM = """\
allow_unmapped: true
rubric:
  weights: {task_completion: 1.0, tool_execution: 0.0, format_compliance: 0.0}
"""
RECIPE = {
    **ART,
    "steps": 2,
    "num_generations": 2,
    "groups_per_step": 2,
    "max_turns": 3,
    "eval_every": 2,
}


def record(number: int, *, module: str = "hudtui.envs.text_2048") -> dict[str, Any]:
    return {
        "id": f"t{number}",
        "prompt": "Reach 64.",
        "mcp_config": {
            "game": {"command": "${HUDTUI_PYTHON:-/nowhere/python}", "args": ["-m", module]}
        },
        "setup_tool": {
            "name": "setup",
            "arguments": {"name": "board", "board_size": 3, "seed": number},
        },
        "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "target": 64}},
    }


@pytest.fixture(scope="module")
def art(art_python: str) -> Iterator[ReadyPython]:
    """Python of the environment with ART, with ART imported: that takes seconds."""
    modules = (
        "hudtui.trainers.art_worker",
        "art.rewards",
        "pyarrow.parquet",
        "mcp.client.streamable_http",
        "mcp.client.sse",
    )
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "WEAVE_DISABLED": "true"}
    with ReadyPython(art_python, env, modules, threads=True) as ready:
        yield ready


class Worker:
    """Runs the worker in a folder."""

    def __init__(self, art: ReadyPython, folder: Path) -> None:
        self.art, self.folder = art, folder
        self.log = folder / "worker.log"
        (folder / "gym.yaml").write_text(GYM)
        self.tasks([record(number) for number in range(3)])

    def tasks(self, records: Sequence[Mapping[str, Any]]) -> None:
        (self.folder / "tasks.json").write_text(json.dumps(records))

    def start(
        self,
        *words: str,
        recipe: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> int:
        """Begin a training in a process of its own, whose output goes to `log`; returns its id."""
        made = recipe_from({**RECIPE, **(recipe or {})})
        (self.folder / "recipe.json").write_text(json.dumps(to_plain(made)))
        files = ["--recipe", "recipe.json", "--tasks", "tasks.json", "--config", "gym.yaml"]
        argv = ["hudtui.trainers.art_worker", *files, "--out", "out", *words]
        return self.program("-m", *argv, env=env)

    def program(self, *words: str, env: Mapping[str, str] | None = None) -> int:
        full = {**os.environ, "HUDTUI_PYTHON": sys.executable, **(env or {})}
        with self.log.open("wb") as log:
            return self.art.start(words, cwd=self.folder, env=full, out=log, error=log)

    def wait(self) -> tuple[int, str]:
        """The exit code of what was begun, and its output."""
        code = self.art.wait(200)
        assert code is not None, "it goes on after 200 s"
        return code, self.log.read_text()

    def run(
        self,
        *words: str,
        recipe: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> tuple[int, str]:
        self.start(*words, recipe=recipe, env=env)
        return self.wait()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that happens while it runs."""
        limit = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < limit, self.log.read_text()
            time.sleep(0.02)

    @property
    def records(self) -> Path:
        (folder,) = (self.folder / "out" / ".art" / "hud-art" / "models").iterdir()
        return folder


@pytest.fixture
def worker(own_world: Path, art: ReadyPython) -> Worker:
    return Worker(art, own_world)


Rows = Callable[[Path], list[dict[str, Any]]]


def test_a_rehearsal_leaves_the_records_of_art_and_those_of_hudtui(
    worker: Worker, read_rows: Rows
) -> None:
    code, output = worker.run(recipe={"held_out": 1})
    assert code == 0, output
    rows = read_rows(worker.folder / "out" / "metrics.jsonl")
    assert (
        [row["step"] for row in rows] == [1, 2]
        and "eval_reward" in rows[1]
        and "eval_reward" not in rows[0]
    )
    episodes = list(read_trace(worker.folder / "out" / "traces.jsonl"))
    assert len(episodes) == 2 * 2 * 2 + 1
    trained = [
        episode
        for episode in episodes
        if episode.info["step"] == 1 and episode.info["split"] == "train"
    ]
    assert sum(episode.scores.reward for episode in trained) / len(trained) == pytest.approx(
        rows[0]["reward"]
    )
    # The random model may end an episode at once; which one it is depends on who asks it first.
    calls = [episode.turns[0].call for episode in trained if episode.turns]
    assert calls and all(call["tool"] == "move" for call in calls)

    table = pyarrow.parquet.read_table(
        worker.records / "trajectories" / "train" / "0001.parquet"
    ).to_pylist()
    assert len(table) == 4 and sorted(row["reward"] for row in table) == sorted(
        one.scores.reward for one in trained
    )
    assert [message["role"] for message in table[0]["messages"]][:3] == [
        "user",
        "assistant",
        "tool",
    ]
    assert (worker.records / "trajectories" / "val" / "0002.parquet").is_file()
    history = read_rows(worker.records / "history.jsonl")
    assert (
        history[0]["train/reward"] == pytest.approx(rows[0]["reward"])
        and history[-1]["training_step"] == 2
    )


def test_groups_without_a_spread_are_refilled_and_counted(worker: Worker, read_rows: Rows) -> None:
    hopeless = [record(number) for number in range(4)]
    for task in hopeless:
        del task["evaluate_tool"]
        task["evaluate"] = [{"reply": {"contains": "what nobody ever says"}}]
    worker.tasks(hopeless)
    code, output = worker.run(recipe={"steps": 1, "refill_groups": 1})
    assert code == 0, output
    (row,) = read_rows(worker.folder / "out" / "metrics.jsonl")
    assert (row["groups_refilled"], row["groups_without_spread"]) == (0, 2)
    assert row["refill_episodes"] == 4 and row["reward"] == 0
    episodes = list(read_trace(worker.folder / "out" / "traces.jsonl"))
    assert {one.task_id for one in episodes} == {"t0", "t1", "t2", "t3"} and len(episodes) == 8


def test_its_episodes_are_traces_of_one_job_and_examples_of_calls_in_text_are_left_out(
    worker: Worker,
) -> None:
    text = (
        "job: {name: Night run}\nexamples: [{user: A board., assistant: <tool>move(left)</tool>}]\n"
        + GYM
    )
    (worker.folder / "gym.yaml").write_text(text)
    spans = worker.folder / "spans"
    code, output = worker.run(recipe={"steps": 1}, env={"HUD_TELEMETRY_LOCAL_DIR": str(spans)})
    assert code == 0, output
    job = json.loads((worker.folder / "out" / "job.json").read_text())
    assert f"job Night run id={job['id']}" in output
    episodes = list(read_trace(worker.folder / "out" / "traces.jsonl"))
    assert len(list(spans.iterdir())) == len(episodes) == 4
    assert not any(
        "A board." in str(message["content"])
        for episode in episodes
        for message in episode.messages
    )


def test_a_training_that_was_killed_goes_on_after_the_step_that_it_had_done(
    worker: Worker, read_rows: Rows
) -> None:
    metrics = worker.folder / "out" / "metrics.jsonl"
    process = worker.start(recipe={"steps": 40})
    worker.until(lambda: metrics.exists() and metrics.read_text().count("\n") >= 2)
    os.kill(process, signal.SIGKILL)
    assert worker.wait()[0] == -signal.SIGKILL
    done = len(read_rows(metrics))
    code, output = worker.run(recipe={"steps": done + 2})
    assert code == 0, output
    assert "the state of the optimizer is not kept" in output
    assert [row["step"] for row in read_rows(metrics)] == list(range(1, done + 3))


def test_a_request_to_stop_ends_it_after_the_step(worker: Worker, read_rows: Rows) -> None:
    process = worker.start(recipe={"steps": 500})
    worker.until(lambda: "\nstep 1/" in worker.log.read_text())
    os.kill(process, signal.SIGTERM)
    code, output = worker.wait()
    assert code == 0 and "it was asked to" in output.partition("\nstep 1/")[2]
    rows = read_rows(worker.folder / "out" / "metrics.jsonl")
    assert 1 <= len(rows) < 500


def test_a_model_behind_an_endpoint_plays_with_the_environment_s_tools(worker: Worker) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        said = [one for one in body["messages"] if one["role"] == "assistant"]
        return 200, message("I am done.") if len(said) == 2 else call(
            "move", direction=("left", "down")[len(said)]
        )

    with endpoint(answer) as (base, asked):
        code, output = worker.run(
            "--base-url", base, "--endpoint-model", "tiny", recipe={"steps": 1, "max_turns": 9}
        )
    assert code == 0, output
    assert asked[0]["model"] == "tiny" and asked[0]["max_completion_tokens"] == 2048
    (tool,) = [one["function"] for one in asked[0]["tools"]]
    assert tool["name"] == "move" and "direction" in tool["parameters"]["properties"]
    last = asked[-1]["messages"]
    assert [one["role"] for one in last] == ["user", "assistant", "tool", "assistant", "tool"]
    assert last[1]["tool_calls"][0]["id"] == last[2]["tool_call_id"]
    episodes = list(read_trace(worker.folder / "out" / "traces.jsonl"))
    assert {episode.stop for episode in episodes} == {"done"}
    assert [turn.call["arguments"] for turn in episodes[0].turns] == [
        {"direction": "left"},
        {"direction": "down"},
    ]
    assert episodes[0].messages[-1] == {"role": "assistant", "content": "I am done."}
    rewards = [episode.scores.reward for episode in episodes]
    assert len(set(rewards)) <= 2 and min(rewards) > 0
    assert "the rewards of each group are equal, so that there is nothing to learn" in output


def test_a_judge_replaces_the_rewards_and_failed_episodes_are_not_lost(
    worker: Worker, read_rows: Rows
) -> None:
    played: list[int] = []

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if "tools" not in body:
            return 200, judgement(body, lambda text: 1.0 if "down" in text else 0.25)
        played.append(1)
        number = len(played)
        if number == 2:
            return 400, {"error": {"message": "this one breaks"}}
        if body["messages"][-1]["role"] == "tool":
            return 200, message("done")
        return 200, call("move", direction="down" if number % 2 else "left")

    worker.tasks([record(1)])
    recipe = {"steps": 1, "num_generations": 4, "groups_per_step": 1, "ruler": "openai/judge"}
    with endpoint(answer) as (base, asked):
        env = {"OPENAI_BASE_URL": base, "OPENAI_API_KEY": "sk-judge-0001"}
        code, output = worker.run(
            "--base-url", base, "--endpoint-model", "tiny", recipe=recipe, env=env
        )
    assert code == 0, output
    assert any("tools" not in body for body in asked), "no judge was asked"
    row = read_rows(worker.folder / "out" / "metrics.jsonl")[0]
    assert row["broken"] == 0.25 and "this one breaks" in output
    table = pyarrow.parquet.read_table(
        worker.records / "trajectories" / "train" / "0001.parquet"
    ).to_pylist()
    assert {one["reward"] for one in table} <= {1.0, 0.25} and len(table) == 3
    history = read_rows(worker.records / "history.jsonl")[-1]
    assert history["train/exception_rate"] == pytest.approx(0.25)
    assert "sk-judge-0001" not in output + (worker.folder / "out" / "traces.jsonl").read_text()


def test_an_environment_that_fails_is_in_no_mean_and_no_group(
    worker: Worker, read_rows: Rows
) -> None:
    worker.tasks([record(1), record(2, module="hudtui.envs.nothing")])
    code, output = worker.run(recipe={"steps": 1, "groups_per_step": 2, "num_generations": 2})
    assert code == 0, output
    row = read_rows(worker.folder / "out" / "metrics.jsonl")[0]
    table = pyarrow.parquet.read_table(
        worker.records / "trajectories" / "train" / "0001.parquet"
    ).to_pylist()
    assert row["broken"] == 0.5 and len(table) == 2
    assert (
        row["reward"] == pytest.approx(sum(one["reward"] for one in table) / 2)
        and row["reward"] > 0
    )
    played = list(read_trace(worker.folder / "out" / "traces.jsonl"))
    assert {episode.task_id: episode.ok for episode in played} == {"t1": True, "t2": False} and len(
        played
    ) == 4


def test_a_reward_outside_its_range_is_told_once(worker: Worker) -> None:
    worker.tasks([generous("a"), generous("b")])
    code, output = worker.run(recipe={"groups_per_step": 2, "num_generations": 2})
    assert code == 0, output
    assert output.count("the reward 12, outside 0 to 1") == 1


def test_a_judge_that_answers_nonsense_leaves_the_environment_s_rewards(
    worker: Worker, read_rows: Rows
) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if "tools" not in body:
            return 200, message("I would rather not say")
        return 200, message("done") if body["messages"][-1]["role"] == "tool" else call(
            "move", direction="left"
        )

    worker.tasks([record(1)])
    with endpoint(answer) as (base, _):
        env = {"OPENAI_BASE_URL": base, "OPENAI_API_KEY": "sk-judge-0001"}
        recipe = {"steps": 1, "groups_per_step": 1, "ruler": "openai/judge"}
        code, output = worker.run(
            "--base-url", base, "--endpoint-model", "tiny", recipe=recipe, env=env
        )
    assert code == 0 and "the judge openai/judge gave no scores for t1" in output, output
    assert read_rows(worker.folder / "out" / "metrics.jsonl")[0]["reward"] > 0


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        (
            [record(1, module="hudtui.envs.nothing")],
            "the environment fails for every task, 2 times in a row",
        ),
        ([], "none is left to train on"),
    ],
)
def test_nothing_that_can_be_played_ends_it_with_words(
    worker: Worker, tasks: list[dict[str, Any]], words: str
) -> None:
    worker.tasks(tasks or [{"id": "x"}])
    code, output = worker.run(recipe={"steps": 1, "groups_per_step": 1})
    assert code in (1, 2) and words in output and "Traceback" not in output, output


async def played_here() -> dict[str, Scores]:
    """The scores of the same replies as text, by task."""
    config, _ = parse_config(judged.CONFIG, name="judged.yaml")
    judges, scores = Judges(lambda name: None), {}
    with scripted_chat(judged.verdict) as judge:
        for task in (*judged.tasks(), *judged.tasks(judged.by_rubric(judge.url))):
            policy = ReplayPolicy(judged.replies(task.id))
            async with connect(task.mcp_config) as session:
                episode = await play(session, config, task, policy, judges=judges)
            scores[task.id] = episode.scores
    return scores


async def native_rewards() -> list[float]:
    """The rewards that `eval` gives a model that calls tools by itself."""
    config = with_dialect(load_config(ROOT / "configs" / "2048.yaml"), "native")
    found = []
    with scripted_chat(native_reply) as chat:
        async with ChatEndpoint("tiny", ChatOptions(base_url=chat.url)) as model:
            for task in games():
                async with connect(task.mcp_config) as session:
                    player = EpisodePlayer(session, config, task, images=True)
                    episode = await drive(player, ChatPolicy(model))
                found.append(episode.scores.reward)
                assert episode.ok
    return found


def test_what_the_worker_decides_by_itself(worker: Worker) -> None:
    """A dead server, a conversation that is too long, a slow episode, the settings of ART: without
    a process for each."""
    inside = str(ROOT / "tests" / "trainers" / "inside_art.py")
    worker.program(inside, str(worker.folder), env={"PYTHONPATH": str(ROOT)})
    scores = asyncio.run(played_here())
    by_rubric = scores.pop("by a rubric")
    wanted = {task: one.reward for task, one in scores.items()}
    code, output = worker.wait()
    assert code == 0, output[-5000:]
    found = json.loads(output.rpartition("RESULT ")[2].splitlines()[0])
    native = asyncio.run(native_rewards())
    assert found["native"] == native and len(set(native)) > 3
    assert "has not answered for" in found["dead"] and "gpu_memory_utilization" in found["dead_fix"]
    assert "the model's server does NOT answer" in output
    assert "has not answered for" in found["dead_behind"] and found["training_stopped"], (
        "a training behind a dead server"
    )
    assert "step 3: training for" in output
    assert "longer than the model's 8192 tokens" in found["long"]
    assert "took longer than 0.5 s" in found["slow"]
    assert found["shared"] == {
        "init_args": {"max_seq_length": 4096},
        "engine_args": {
            "gpu_memory_utilization": 0.7,
            "max_model_len": 4096,
            "enforce_eager": True,
        },
        "peft_args": {"r": 8, "lora_alpha": 16},
    }
    assert (found["dedicated"]["trainer_gpu_ids"], found["dedicated"]["inference_gpu_ids"]) == (
        [0],
        [1],
    )
    assert found["order"][0] == found["order_again"] and sorted(
        found["order"][0] + found["order"][1]
    ) == ["a", "b", "c", "d"]
    assert found["kept"] == [4, 5, 6]
    assert "--provider sky" in found["skypilot"]
    assert found["judged"]["rewards"] == wanted and len(set(wanted.values())) == 4
    assert found["judged"]["parts"] == judged.SCORES
    assert found["judged"]["rubric"] == [by_rubric.reward, by_rubric.own]
    assert 0 < by_rubric.own["state"] < 1
    assert found["judged"]["row"]["rewards/words"] == 1 / 3  # the mean over those that have it
    assert found["judged"]["row"]["rewards/length"] == pytest.approx(2 / 3)
    trajectory = found["agent"]
    assert (
        trajectory["reward"] > 0
        and trajectory["metrics"]["num_turns"] == 2
        and trajectory["metadata"]["stop"] == "done"
    )
    assert trajectory["broken"]["is_error"] is True
