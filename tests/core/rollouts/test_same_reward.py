"""The same replies have the same reward, to the bit, wherever they are played: an evaluation, a
trainer, OpenEnv. `tests/trainers` has verifiers and ART."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest
from support import judged
from support.letters import Letters
from support.scripted_chat import scripted_chat

from hudtui.core.gym.config import load_config
from hudtui.core.openenv.session import EpisodeSession, ServedTasks
from hudtui.core.platform import HUD
from hudtui.core.rollouts.evaluate import (
    EvalFinished,
    EvalRequest,
    connector,
    read_playable_tasks,
    run_eval,
)
from hudtui.core.rollouts.outcome import EpisodeOutcome
from hudtui.core.settings import load_settings
from hudtui.core.training.chat_tokens import ChatTokens
from hudtui.trainers.replies import BatchReplies
from hudtui.trainers.rollout import EpisodeRunner


async def evaluated(folder: Path) -> dict[str, EpisodeOutcome]:
    """Evaluate the tasks; returns the outcome of each."""
    with scripted_chat(judged.reply) as chat:
        request = EvalRequest(
            tasks="judged.json",
            config=Path("judged.yaml"),
            policy="openai:m",
            base_url=chat.url,
            out_dir=folder / "out",
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

    config, settings = load_config(own_world / "judged.yaml"), load_settings(own_world, HUD)
    loaded, _ = read_playable_tasks("judged.json", config, settings)
    connect = connector(None, own_world, settings.lookup, timeout=30)
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

    runner = EpisodeRunner(config, scribe, connect, max_tokens=500, max_seq_len=100_000)
    trained = await runner.play(loaded.tasks, BatchReplies(generate))
    assert {one.episode.task_id: one.reward for one in trained} == wanted
    assert {one.episode.task_id: one.episode.scores.own for one in trained} == judged.SCORES

    served = EpisodeSession(ServedTasks(loaded.tasks, config, connect))
    for task, reward in wanted.items():
        await served.reset({"task_id": task})
        for reply in judged.replies(task):
            answer = await served.step({"type": "reply", "reply": reply})
        assert answer["done"] and answer["reward"] == reward
    await served.close()
