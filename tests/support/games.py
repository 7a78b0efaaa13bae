"""Tasks on the bundled environment."""

from __future__ import annotations

from typing import Any


def game(seed: int) -> dict[str, Any]:
    """A game of 2048 on the bundled environment."""
    return {
        "id": f"game {seed}",
        "prompt": f"Play {seed}.",
        "mcp_config": {"env": {"command": "${HUDTUI_PYTHON:-/nowhere}", "args": ["-m", "hudtui.envs.text_2048"]}},
        "setup_tool": {"name": "setup", "arguments": {"name": "board", "seed": seed}},
        "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "target": 64}},
    }
