"""The public Python API: the names, the example, and the rewards of `hudtui eval`."""

from __future__ import annotations

import importlib.util
import json
import re
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

import hudtui.gym
from hudtui.core.platform import HUD
from hudtui.core.rollouts.evaluate import EvalRequest, run_eval
from hudtui.core.rollouts.trace import read_trace
from hudtui.core.settings import load_settings
from hudtui.gym import Gym, InputError, Message, Untrusted

ROOT = Path(__file__).parents[1]
REPLIES = [f"<think>On.</think><tool>{move}()</tool>" for move in ("left", "up", "nowhere", "down")]


def record(name: str, seed: int, module: str = "hudtui.envs.text_2048") -> dict[str, Any]:
    return {
        "id": name,
        "prompt": "Play.",
        "mcp_config": {"game": {"command": "${HUDTUI_PYTHON:-/nowhere}", "args": ["-m", module]}},
        "setup_tool": {"name": "setup", "arguments": {"name": "board", "seed": seed}},
        "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "target": 64}},
    }


@pytest.fixture
def folder(own_world: Path) -> Path:
    (own_world / "c.yaml").write_text((ROOT / "configs" / "2048.yaml").read_text())
    (own_world / "tasks.json").write_text(
        json.dumps([record("a", 1), record("b", 2), record("broken", 3, "no_such_module")])
    )
    return own_world


async def scripted(messages: Any) -> str:
    return REPLIES[sum(message["role"] == "assistant" for message in messages)]


async def test_all_ways_to_play_give_the_rewards_of_an_evaluation(folder: Path) -> None:
    gym = Gym.load("c.yaml", "tasks.json", max_turns=4, folder=folder)
    assert [task.id for task in gym.tasks] == ["a", "b", "broken"] and gym.warnings == ()
    (one, two), (three, _), (broken, _) = await gym.play_groups(
        gym.tasks, scripted, size=2, info={"step": 7}
    )
    assert one.ok and one.scores == two.scores and one.messages == two.messages != three.messages
    assert (two.info["step"], two.info["rollout"]) == (7, 1) and len(one.turns) == 4
    assert not broken.ok and "no_such_module" in str(broken.error)

    async with gym.episode(gym.task("a")) as player:
        messages: tuple[Message, ...] = await player.start()
        while player.stop is None:
            await player.step(await scripted(messages))
            messages = player.messages
        stepped = await player.finish()
    assert stepped.scores == one.scores and stepped.messages == one.messages

    gym.save(one, folder / "out")
    (kept,) = read_trace(folder / "out" / "traces.jsonl")
    assert kept.scores == one.scores

    request = EvalRequest(
        "tasks.json",
        Path("c.yaml"),
        policy="replay:out/traces.jsonl",
        limit=1,
        max_turns=4,
        out_dir=Path("eval"),
    )
    async with aclosing(run_eval(request, load_settings(folder, HUD))) as events:
        async for _ in events:
            pass
    (evaluated,) = read_trace(folder / "eval" / "traces.jsonl")
    assert evaluated.scores == one.scores and evaluated.messages == one.messages


async def test_the_example_learns(folder: Path) -> None:
    made = importlib.util.spec_from_file_location(
        "own_loop", ROOT / "examples" / "loop" / "own_loop.py"
    )
    assert made is not None and made.loader is not None
    own_loop = importlib.util.module_from_spec(made)
    made.loader.exec_module(own_loop)
    gym = Gym.load("c.yaml", "tasks.json", limit=2, max_turns=3, folder=folder)
    model = own_loop.Model(1)
    means = await own_loop.train(gym, model, steps=2, size=3, rate=1.0, out=folder / "out")
    assert len(means) == 2 and all(mean > 0.1 for mean in means)
    assert (
        sum(model.chances().values()) == pytest.approx(1.0)
        and len(set(model.chances().values())) > 1
    )
    assert len(list(read_trace(folder / "out" / "traces.jsonl"))) == 2 * 2 * 3


def test_what_cannot_be_loaded_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError):
        Gym.load("c.yaml", "none.json", folder=folder)
    with pytest.raises(InputError, match="no task 'z'"):
        Gym.load("c.yaml", "tasks.json", folder=folder).task("z")
    monkeypatch.delenv("HUDTUI_TRUST")
    with pytest.raises(Untrusted):
        Gym.load("c.yaml", "tasks.json", folder=folder)


def test_the_page_lists_what_is_public() -> None:
    page = (
        (ROOT / "docs" / "python.md")
        .read_text()
        .partition("## What is public")[2]
        .partition("## What is promised")[0]
    )
    rows = [row.split("|")[1:3] for row in page.splitlines() if row.startswith("| `")]
    listed = {
        name: set(re.findall("`([a-z_]+)`", about))
        for names, about in rows
        for name in re.findall("`([A-Za-z]+)`", names)
    }
    assert sorted(listed) == sorted(hudtui.gym.__all__)
    for kind in ("Gym", "EpisodePlayer"):
        missing = {name for name in listed[kind] if name not in _members(getattr(hudtui.gym, kind))}
        unlisted = {
            name for name in vars(getattr(hudtui.gym, kind)) if not name.startswith("_")
        } - listed[kind]
        assert (missing, unlisted) == (set(), set()), kind


def _members(kind: type) -> set[str]:
    source = Path(str(importlib.util.find_spec(kind.__module__).origin)).read_text()  # type: ignore[union-attr]
    return {
        *vars(kind),
        *re.findall(r"self\.([a-z]\w*)(?:: [^=\n]+)? =", source),
        *re.findall(r"made\.([a-z]\w*) =", source),
    }
