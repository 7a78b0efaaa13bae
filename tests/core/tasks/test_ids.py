"""Ids that occur twice are found, with the task that had them first, also when only hashes are kept."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.tasks import ids as module
from hudtui.core.tasks.ids import Ids


def plainly(batches: list[list[str]]) -> list[dict[int, int]]:
    seen: dict[str, int] = {}
    found, start = [], 0
    for batch in batches:
        here = {}
        for position, name in enumerate(batch):
            first = seen.setdefault(name, start + position)
            if first != start + position:
                here[position] = first
        found.append(here)
        start += len(batch)
    return found


def by_ids(batches: list[list[str]]) -> list[dict[int, int]]:
    ids, found, start = Ids(), [], 0
    for batch in batches:
        found.append(ids.add(batch, range(start, start + len(batch))))
        start += len(batch)
    return found


@pytest.mark.parametrize("exact", [0, 3, 10, 1000])
@given(st.lists(st.lists(st.sampled_from([f"t{number}" for number in range(40)]), max_size=12), max_size=8))
def test_as_a_dict_would(exact: int, batches: list[list[str]]) -> None:
    before, module._EXACT = module._EXACT, exact
    try:
        assert by_ids(batches) == plainly(batches)
    finally:
        module._EXACT = before


def test_many() -> None:
    source = random.Random(1)
    batches = [[f"task-{source.randrange(2_000_000)}" for _ in range(5_000)] for _ in range(60)]
    assert by_ids(batches) == plainly(batches)
