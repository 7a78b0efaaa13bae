"""The same replies have the same reward, to the bit, wherever they are played: an evaluation, a
trainer, OpenEnv. `tests/trainers` has verifiers and ART."""

from __future__ import annotations

import json
import shutil
from contextlib import aclosing
from pathlib import Path

import pytest
from support import judged
from support.letters import Letters
from support.scripted_chat import scripted_chat

from hudtui.core.gym.config import load_config
from hudtui.core.openenv.session import EpisodeSession, ServedTasks
from hudtui.core.paths import app_paths
from hudtui.core.platform import HUD
from hudtui.core.rollouts.evaluate import (
    EvalFinished,
    EvalRequest,
    connector,
    read_playable_tasks,
    run_eval,
)
from hudtui.core.rollouts.judging import Judges
from hudtui.core.rollouts.outcome import EpisodeOutcome
from hudtui.core.settings import load_settings
from hudtui.core.training.chat_tokens import ChatTokens
from hudtui.trainers.replies import BatchReplies
from hudtui.trainers.rollout import EpisodeRunner, TrainingEpisode


async def evaluated(folder: Path, tasks: str = "judged.json") -> dict[str, EpisodeOutcome]:
    """Evaluate the tasks; returns the outcome of each."""
    with scripted_chat(judged.reply) as chat:
        request = EvalRequest(
            tasks=tasks,
            config=Path("judged.yaml"),
            policy="openai:m",
            base_url=chat.url,
            out_dir=folder / "out" / tasks,
        )
        async with aclosing(run_eval(request, load_settings(folder, HUD))) as events:
            finished = [event async for event in events if isinstance(event, EvalFinished)]
    return {outcome.task: outcome for outcome in finished[0].summary.outcomes}


async def test_the_rewards_of_every_road_are_equal(
    own_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged.write_files(own_world)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("HUDTUI_TRUST", str(own_world))
    here = await evaluated(own_world)
    assert {task: outcome.own for task, outcome in here.items()} == judged.SCORES
    wanted = {task: outcome.reward for task, outcome in here.items()}
    assert len(set(wanted.values())) == 4 and here["a third"].task_completion == 1 / 3

    trained, served = await elsewhere(own_world, "judged.json")
    assert {one.episode.task_id: one.reward for one in trained} == wanted
    assert {one.episode.task_id: one.episode.scores.own for one in trained} == judged.SCORES
    assert served == wanted


async def test_a_model_judges_alike_on_every_road(
    own_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged.write_files(own_world)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with scripted_chat(judged.verdict) as judge:
        (own_world / "rubric.json").write_text(json.dumps(judged.by_rubric(judge.url)))
        here = (await evaluated(own_world, "rubric.json"))["by a rubric"]
        shutil.rmtree(app_paths().cache)
        [trained], served = await elsewhere(own_world, "rubric.json")
    assert len(judge.requests) == 4  # each road asks about the reply and the state
    assert judge.requests[:2] == judge.requests[2:]
    assert 0 < here.own["judge"] < 1 and 0 < here.own["state"] < 1 and here.own["look"] == 1
    assert trained.episode.scores.own == here.own
    assert trained.reward == here.reward == served["by a rubric"]


async def elsewhere(folder: Path, tasks: str) -> tuple[list[TrainingEpisode], dict[str, float]]:
    """Play tasks with a trainer and over OpenEnv; returns the episodes, and the rewards by task."""
    config, settings = load_config(folder / "judged.yaml"), load_settings(folder, HUD)
    loaded, _ = read_playable_tasks(tasks, config, settings)
    connect, judges = connector(None, folder, settings.lookup, timeout=30), Judges(settings.lookup)
    scribe = ChatTokens(Letters())

    def generate(prompts: list[list[int]]) -> tuple[list[list[int]], None]:
        made = []
        for ids in prompts:
            text = scribe.tokenizer.decode(ids)
            task = judged.task_of([{"role": "user", "content": text}])
            said = text.count("<|start|>assistant") - 1
            reply = judged.replies(task)[said]
            made.append([*scribe.tokenizer(reply, add_special_tokens=False)["input_ids"], 1])
        return made, None

    runner = EpisodeRunner(
        config, scribe, connect, max_tokens=500, max_seq_len=100_000, judges=judges
    )
    trained = await runner.play(loaded.tasks, BatchReplies(generate))

    served = EpisodeSession(ServedTasks(loaded.tasks, config, connect, judges=judges))
    rewards = {}
    for task in loaded.tasks:
        await served.reset({"task_id": task.id})
        for reply in judged.replies(task.id):
            answer = await served.step({"type": "reply", "reply": reply})
        assert answer["done"]
        rewards[task.id] = answer["reward"]
    await served.close()
    return trained, rewards
