"""What `hudtui hf` writes is what an evaluation plays: the same tasks, in every local form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hudtui.cli.app import build
from hudtui.core.rollouts.trace import read_trace

CONFIG = "action_mappings:\n" + "".join(
    f"  {name}: {{_tool: move, direction: {{static: {name}}}}}\n"
    for name in ("left", "right", "up", "down")
)


def record(number: int) -> dict[str, Any]:
    return {
        "id": f"t{number}",
        "prompt": "Reach 64.",
        "mcp_config": {
            "env": {
                "command": "${HUDTUI_PYTHON:-/nowhere/python}",
                "args": ["-m", "hudtui.envs.text_2048"],
            }
        },
        "setup_tool": {
            "name": "setup",
            "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": number}},
        },
        "evaluate_tool": {
            "name": "evaluate",
            "arguments": {"name": "max_number", "arguments": {"target": 64}},
        },
    }


@pytest.mark.parametrize("output", ["some.parquet", "some.jsonl", "some"])
def test_a_local_result_is_played(own_world: Path, output: str) -> None:
    Path("c.yaml").write_text(CONFIG)
    Path("tasks.json").write_text(json.dumps([record(1), record(2)]))
    rewards = {}
    for tasks, out in (("tasks.json", "before"), (output, "after")):
        if out == "after":
            made = CliRunner().invoke(
                build(), ["hf", "tasks.json", "--name", "some", "--no-push", "-o", output, "--json"]
            )
            assert made.exit_code == 0, made.output
        played = CliRunner().invoke(
            build(), ["eval", tasks, "--config", "c.yaml", "--max-turns", "4", "--output", out]
        )
        assert played.exit_code == 0, played.output
        rewards[out] = {
            episode.task_id: episode.scores.reward
            for episode in read_trace(Path(out, "traces.jsonl"))
        }
    assert rewards["before"] == rewards["after"] and set(rewards["after"]) == {"t1", "t2"}
