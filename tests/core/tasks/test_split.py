"""Cutting JSON text into records: whatever the blocks, the same records come out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudtui.core.errors import InputError
from hudtui.core.tasks.columns import TaskChecker
from hudtui.core.tasks.rules import Rules
from hudtui.core.tasks.split import split_array, split_lines

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(['},{"id":', "]", '\\"', "\\", '", "'])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT | st.just("id"), inner, max_size=3),
    max_leaves=8,
)
RECORDS = st.lists(st.dictionaries(st.sampled_from(["id", "prompt", "x"]), VALUES, max_size=3) | VALUES, max_size=8)
SPELLINGS = st.sampled_from(
    [{}, {"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False}, {"indent": 1, "separators": (" ,", " : ")}]
)


def blocks(data: bytes, size: int) -> Iterator[bytes]:
    yield from (data[start : start + size] for start in range(0, len(data), size))


@given(RECORDS, SPELLINGS, st.integers(1, 60))
@settings(deadline=None)
def test_an_array_gives_its_records(records: list[Any], spelling: dict[str, Any], size: int) -> None:
    text = "\n" + json.dumps(records, **spelling) + " \n"
    data = text.encode()
    found = []
    for chunk in split_array(blocks(data, size), "t"):
        listed = list(chunk.records())
        assert json.loads(chunk.text()) == [json.loads(record) for _, record in listed]
        for line, record in listed:
            found.append(json.loads(record))
            assert record.split(b"\n")[0] in data.split(b"\n")[line - 1]
    assert found == records


@given(RECORDS, st.sampled_from(["\n", "\r\n", "\n\n", "\n \n"]), st.integers(1, 60), st.booleans())
@settings(deadline=None)
def test_lines_give_their_records(records: list[Any], end: str, size: int, last: bool) -> None:
    text = end.join(json.dumps(record) for record in records) + (end if last else "")
    found, lines = [], []
    for chunk in split_lines(blocks(text.encode(), size), "t"):
        listed = list(chunk.records())
        if chunk.count == len(listed):
            assert json.loads(chunk.text()) == [json.loads(record) for _, record in listed]
        found += [json.loads(record) for _, record in listed]
        lines += [line for line, _ in listed]
    assert found == records
    assert lines == [1 + number * end.count("\n") for number in range(len(records))]


@given(st.lists(st.dictionaries(st.sampled_from(["id", "a"]), VALUES, max_size=2), min_size=1, max_size=5), st.data())
@settings(deadline=None)
def test_an_array_that_is_cut_anywhere_is_refused(records: list[Any], data: st.DataObject) -> None:
    text = json.dumps(records).encode()
    cut = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(InputError):
        for chunk in split_array(blocks(text[:cut], data.draw(st.integers(1, 40))), "t"):
            list(chunk.records())


def test_a_bracket_that_is_never_closed_does_not_read_the_file_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudtui.core.tasks.split.LARGEST_RECORD", 10_000)
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        yield b'[{"id": 1}, {"id": [2}'
        while True:
            read += 1
            yield b', {"id": 3}' * 100

    with pytest.raises(InputError, match="never closed"):
        list(split_array(endless(), "t"))
    with pytest.raises(InputError, match="which no task is"):
        list(split_lines(endless(), "t"))
    assert read < 100


def test_two_objects_on_one_line_are_not_two_tasks() -> None:
    data = b'{"id": 1}, {"id": 2}\n{"id": 3}\n'
    (chunk,) = split_lines([data], "t")
    checker = TaskChecker(Rules())
    parsed = checker.parse(chunk.text())
    assert parsed is not None and chunk.count == 2 and checker.quick(parsed, chunk.count) is None
    assert [line for line, _ in chunk.records()] == [1, 2]
