"""What an audit says before it calls every tool of an environment."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from hudtui.core.flows.audit import reach_of
from hudtui.core.tasks.task import Task

GAME = {"command": sys.executable, "args": ["-m", "hudtui.envs.text_2048"]}
NOTES = {"command": "notes", "args": ["--about", "hudtui.envs.text_2048"]}


@pytest.mark.parametrize(
    ("servers", "warned"),
    [
        ({"game": GAME}, False),
        ({"notes": {**NOTES, "cwd": "${EPISODE_DIR}"}}, False),
        ({"notes": NOTES}, True),
        ({"game": GAME, "notes": NOTES}, True),
    ],
)
def test_calls_that_reach_the_real_thing_are_told(servers: dict[str, Any], warned: bool) -> None:
    said = reach_of([Task(id="one", prompt="Play.", mcp_config=servers)])
    assert (said is not None and "calls every tool" in said) is warned
