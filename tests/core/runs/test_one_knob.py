"""An option that is declared is everywhere where users meet options, without a further line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "support" / "one_knob.py"


@pytest.mark.parametrize("kind", ["JobOptions", "RunRequest"])
def test_one_declaration_is_an_option_everywhere(own_world: Path, kind: str) -> None:
    server = {"game": {"url": "https://example.org/mcp"}}
    judge = {"name": "evaluate", "arguments": {}}
    task = {"prompt": "Go left.", "mcp_config": server, "evaluate_tool": judge}
    (own_world / "tasks.json").write_text(json.dumps([{**task, "id": f"t{n}"} for n in range(4)]))
    (own_world / "play.yaml").write_text(
        "action_mappings:\n  left: {_parser: {positional: []}, _tool: move}\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1]), "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), kind],
        cwd=own_world,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert "--curriculum" in shown["help"] and "Order of the tasks of a training." in shown["help"]
    assert "--curriculum" in shown["help of art"]
    assert "| `--curriculum` TEXT | Order of the tasks of a training. |" in shown["reference"]
    assert shown["again"] == "easy", "a run that is started again"
    launch = shown["launch"]
    assert (launch["beside rollouts"], launch["beside trl"]) == (False, True)
    assert launch["pane"] == "launch-trains" and launch["text"] == "easy"
    assert launch["choices"] == [
        ["as they are listed", ""],
        ["easy tasks first", "easy"],
        ["any order", "random"],
    ]
    words = launch["copied"]
    assert words[:2] == ["hudtui", "rl"] and words[words.index("--curriculum") + 1] == "easy"
