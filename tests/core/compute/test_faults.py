"""A few of the injections of `tests/faults/compute.py`, among them some that kill this program, as
a real process."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from faults import compute as faults

_STOPS = (
    ("kill", "after ledger.reserve", "release"),
    ("kill", "provider.create, waiting", "release"),
    ("kill", "after provider.create", "resume"),
    ("kill", "after provider.get, waiting", "resume"),
    ("cancel", "provider.create, waiting", "release"),
    ("cancel", "after provider.get, waiting", "release"),
)


def _chosen() -> list[object]:
    """Twenty: those that stop the program, and others by a seed. Left out is what waits in real
    time."""
    quick = [
        one for one in faults.injections(7) if one.fault != "timeout" and "always" not in one.point
    ]
    stops = [
        faults.Injection(stop, label, stop=stop, label=label, after=after)
        for stop, label, after in _STOPS
    ]
    return [*stops, *random.Random(7).sample(quick, 14)]


@pytest.mark.parametrize(
    "injection", _chosen(), ids=lambda one: f"{one.fault}, {one.point}".replace(" ", "-")
)
def test_no_machine_is_lost(injection: object, tmp_path: Path, key_pair: Path) -> None:
    outcome = faults.carry_out(injection, tmp_path, key_pair)
    assert outcome.reached, "the moment to stop at never came"
    assert outcome.broken == [], outcome.told
