"""A good task to spoil, and files of tasks."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

GOOD: dict[str, Any] = {
    "id": "task-001",
    "prompt": "Reach 128.",
    "mcp_config": {
        "hud": {
            "url": "https://mcp.hud.so/v3/mcp",
            "headers": {
                "Authorization": "Bearer $HUD_API_KEY",
                "Mcp-Image": "my-org/my-env:latest",
            },
        }
    },
    "setup_tool": {"name": "setup", "arguments": {"name": "board", "board_size": 4}},
    "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "target": 128}},
    "metadata": {"difficulty": "easy"},
}


@pytest.fixture
def task() -> Callable[..., dict[str, Any]]:
    """A good task with some fields changed; `...` takes one out."""

    def make(**changes: Any) -> dict[str, Any]:
        return {
            key: value
            for key, value in {**copy.deepcopy(GOOD), **changes}.items()
            if value is not ...
        }

    return make


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write tasks to a file, as an array or as lines by its name."""

    def put(name: str, *tasks: Any, indent: int | None = None) -> Path:
        path = tmp_path / name
        lines = name.endswith(".jsonl")
        path.write_text(
            "".join(json.dumps(task) + "\n" for task in tasks)
            if lines
            else json.dumps(list(tasks), indent=indent)
        )
        return path

    return put


@pytest.fixture
def no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`datasets` keeps its caches in this test's own folder and warns of nothing that is not
    ours."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
