"""A few of the faults of `tests/faults/launch.py`, where the whole table is made."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

_path = Path(__file__).parents[2] / "faults" / "launch.py"
_spec = importlib.util.spec_from_file_location("faults_launch", _path)
assert _spec is not None and _spec.loader is not None
launch: Any = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = launch
_spec.loader.exec_module(launch)


@pytest.mark.parametrize("seed", [0, 1, 11, 15])
def test_killed_at_an_event_and_started_anew(seed: int) -> None:
    found = launch.killed(seed)
    assert not found.broken, found
    assert found.kills, "it was killed in truth"


@pytest.mark.parametrize("fault", ["rebooted", "unwritable_home", "wrong_key"])
def test_what_else_happens(fault: str) -> None:
    found = getattr(launch, fault)()
    assert not found.broken, found
