"""Ids that occur twice are found, with the task that had them first, also when only hashes are kept."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.tasks import read
from hudtui.core.tasks.read import _SeenIds


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


def by_ids(batches: list[list[str]], *, whole: bool = False) -> list[dict[int, int]]:
    ids, found, start = _SeenIds(), [], 0
    for batch in batches:
        if whole and ids.add_new(batch, start):
            firsts: list[int | None] = [None] * len(batch)
        else:
            firsts = [ids.add(name, start + position) for position, name in enumerate(batch)]
        found.append({position: first for position, first in enumerate(firsts) if first is not None})
        start += len(batch)
    return found


@pytest.mark.parametrize("recent", [1, 3, 10, 1000])
@given(st.lists(st.lists(st.sampled_from([f"t{number}" for number in range(40)]), max_size=12), max_size=8))
def test_as_a_dict_would(recent: int, batches: list[list[str]]) -> None:
    before, read._RECENT_IDS = read._RECENT_IDS, recent
    try:
        assert by_ids(batches) == by_ids(batches, whole=True) == plainly(batches)
    finally:
        read._RECENT_IDS = before


def test_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "_RECENT_IDS", 50_000)
    source = random.Random(1)
    batches = [[f"task-{source.randrange(2_000_000)}" for _ in range(5_000)] for _ in range(60)]
    assert by_ids(batches) == plainly(batches)
