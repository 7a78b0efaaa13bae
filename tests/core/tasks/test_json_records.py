"""Cutting JSON text into records: whatever the blocks, the same records come out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hudtui.core.errors import InputError
from hudtui.core.files import parse_json
from hudtui.core.tasks.json_records import decode_json, encode_json, split_array, split_lines
from hudtui.core.tasks.task import FieldProblem

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ['},{"id":', "]", '\\"', "\\", '", "']
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT | st.just("id"), inner, max_size=3)
    ),
    max_leaves=8,
)
RECORDS = st.lists(
    st.dictionaries(st.sampled_from(["id", "prompt", "x"]), VALUES, max_size=3) | VALUES, max_size=8
)
SPELLINGS = st.sampled_from(
    [
        {},
        {"separators": (",", ":")},
        {"indent": 2},
        {"ensure_ascii": False},
        {"indent": 1, "separators": (" ,", " : ")},
    ]
)


@contextmanager
def chunks_of(size: int) -> Iterator[None]:
    with patch("hudtui.core.tasks.json_records.CHUNK", size):
        yield


@given(RECORDS, SPELLINGS, st.integers(1, 60))
@settings(deadline=None)
def test_an_array_gives_its_records(
    records: list[Any], spelling: dict[str, Any], size: int
) -> None:
    text = "\n" + json.dumps(records, **spelling) + " \n"
    data = text.encode()
    found = []
    with chunks_of(size):
        chunks = list(split_array(data, "t"))
    for chunk in chunks:
        listed = list(chunk.texts())
        assert chunk.records()[0] == [json.loads(record) for _, record in listed]
        assert chunk.lines() == [line for line, _ in listed]
        for line, record in listed:
            found.append(json.loads(record))
            assert record.split(b"\n")[0] in data.split(b"\n")[line - 1]
    assert found == records


@given(RECORDS, st.sampled_from(["\n", "\r\n", "\n\n", "\n \n"]), st.integers(1, 60), st.booleans())
@settings(deadline=None)
def test_lines_give_their_records(records: list[Any], end: str, size: int, last: bool) -> None:
    text = end.join(json.dumps(record) for record in records) + (end if last else "")
    found, lines = [], []
    with chunks_of(size):
        chunks = list(split_lines(text.encode(), "t"))
    for chunk in chunks:
        listed = list(chunk.texts())
        assert chunk.records()[0] == [json.loads(record) for _, record in listed]
        found += [json.loads(record) for _, record in listed]
        lines += [line for line, _ in listed]
    assert found == records
    assert lines == [1 + number * end.count("\n") for number in range(len(records))]


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["id", "a"]), VALUES, max_size=2), min_size=1, max_size=5
    ),
    st.data(),
)
@settings(deadline=None)
def test_an_array_that_is_cut_anywhere_is_refused(records: list[Any], data: st.DataObject) -> None:
    text = json.dumps(records).encode()
    cut = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(InputError):
        for chunk in split_array(text[:cut], "t"):
            chunk.records()


def test_a_record_that_is_too_large_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudtui.core.tasks.json_records.LARGEST_RECORD", 10_000)
    small, large = b'{"id": 1}', b'{"id": "%b"}' % (b"x" * 20_000)
    with pytest.raises(InputError, match="a task is larger than") as caught:
        list(split_array(b"[%b,\n%b]" % (small, large), "t"))
    assert caught.value.where is not None and caught.value.where.line == 2
    with pytest.raises(InputError, match="too long for a task") as caught:
        list(split_lines(b"%b\n%b\n%b" % (small, large, small), "t"))
    assert caught.value.where is not None and caught.value.where.line == 2
    with pytest.raises(InputError, match="not valid JSON"):
        list(split_array(b'[{"id": 1}, {"id": [2}' + b', {"id": 3}' * 2000, "t"))


def test_two_objects_on_one_line_are_not_two_tasks() -> None:
    (chunk,) = split_lines(b'{"id": 1}, {"id": 2}\n{"id": 3}\n', "t")
    assert chunk.values is None and chunk.lines() == [1, 2]
    (first, second), lines = chunk.records()
    assert (
        isinstance(first, FieldProblem)
        and first.code == "json"
        and second == {"id": 3}
        and lines == [1, 2]
    )


SPACINGS: list[dict[str, Any]] = [
    {"separators": (",", ":")},
    {},
    {"indent": 1},
    {"ensure_ascii": False},
    {"separators": (" , ", ":")},
]
TRICKY = st.sampled_from(
    ["", "x", ":", '":', "\\", '\\":', "é", "{}", "null", 2**70, 1.5, 1e5, -0.0]
)
DATA = st.recursive(
    st.none() | st.booleans() | TRICKY,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", ":", '":', "\\"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    DATA,
    st.sampled_from(SPACINGS),
    st.booleans(),
    st.sampled_from(["", "\\u003a", "\\u003A", "\\u0022:", "\\u005c"]),
    DATA,
)
@settings(deadline=None, max_examples=600)
@example({"a": 2**70}, SPACINGS[1], False, "", 0)
def test_fast_decoding_agrees_with_the_precise_parser(
    data: Any, spacing: dict[str, Any], twice: bool, escape: str, other: Any
) -> None:
    """What it decodes is what `parse_json` reads, and it never decodes what `parse_json`
    refuses."""
    text = json.dumps({"z": data, "y": "E"}, **spacing).replace("E", escape)
    if twice:
        text = text.rstrip()[:-1] + ', "z": ' + json.dumps(other, **spacing) + "}"
    try:
        value = decode_json(text.encode())
    except ValueError:
        if not twice:
            assert escape or '\\":' in text, "plain JSON takes the fast way"
        return
    assert not twice
    assert value == parse_json(text, "t")
    assert json.loads(encode_json(value)) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{},"b":1,"a":{}}',
        '[{"name":"e","arguments":{"a":1,"a":1}}]',
        '{"a":{"b":"é","b":1e5}}',
        '{"a":":","a":1.50}',
        '[1,{"a":1,"a":2}]',
        '{"a" :1,"a":2}',
        '{"a":"\\u003a","b":1,"b":2}',
    ],
)
def test_duplicate_keys_are_never_fine(text: str) -> None:
    for spelled in (text, text.replace(",", ", "), text.replace(",", "\n,")):
        with pytest.raises(ValueError, match="duplicate key"):
            decode_json(spelled.encode())
        with pytest.raises(InputError, match="duplicate key"):
            parse_json(spelled, "t")


def test_numbers_and_escapes_do_not_take_the_slow_way() -> None:
    text = '{"arguments":{"x":1.50,"y":"\\u00e9\\/","z":1e5,"big":12345678901},"name":"e"}'
    assert decode_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    "data",
    [b"NaN", b"[1,]", b'{"a":1} x', b'"\\ud800"', b'"\xff"', b"1e400"],
    ids=["constant", "comma", "text-behind", "surrogate", "not-utf8", "too-large"],
)
def test_what_is_not_plain_json_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode_json(data)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": "\ud800"}])
def test_what_json_cannot_hold_is_not_encoded(value: Any) -> None:
    with pytest.raises(ValueError):
        encode_json(value)
