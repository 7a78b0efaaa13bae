"""A few of the faults of `tests/faults/launch.py`, where the whole table is made."""

from __future__ import annotations

import pytest
from faults import launch


@pytest.mark.parametrize("seed", [0, 1, 11, 15])
def test_killed_at_an_event_and_started_anew(seed: int) -> None:
    found = launch.killed(seed)
    assert not found.broken, found
    assert found.kills, "it was killed in truth"


@pytest.mark.parametrize("fault", ["rebooted", "unwritable_home", "wrong_key"])
def test_what_else_happens(fault: str) -> None:
    found = getattr(launch, fault)()
    assert not found.broken, found
