"""Tasks on the bundled environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

GENEROUS = str(Path(__file__).with_name("generous_game.py"))


def game(seed: int) -> dict[str, Any]:
    """A game of 2048 on the bundled environment."""
    return {
        "id": f"game {seed}",
        "prompt": f"Play {seed}.",
        "mcp_config": {
            "env": {
                "command": "${HUDTUI_PYTHON:-/nowhere}",
                "args": ["-m", "hudtui.envs.text_2048"],
            }
        },
        "setup_tool": {"name": "setup", "arguments": {"name": "board", "seed": seed}},
        "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "target": 64}},
    }


def generous(name: str) -> dict[str, Any]:
    """A task whose evaluator gives the reward 12."""
    return {
        "id": name,
        "prompt": "Go on.",
        "mcp_config": {"env": {"command": "${HUDTUI_PYTHON:-/nowhere}", "args": [GENEROUS]}},
        "setup_tool": {"name": "setup", "arguments": {}},
        "evaluate_tool": {"name": "evaluate", "arguments": {}},
    }
