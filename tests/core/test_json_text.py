"""JSON that stands in the lines of logs."""

from __future__ import annotations

from typing import Any

import pytest

from hudtui.core.json_text import value_in_line


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ('{"a": {"b": [1, null]}}', {"a": {"b": [1, None]}}),
        ('12:00 INFO {"a": 1} and more', {"a": 1}),
        ("{'loss': '0.5', 'n': 2}", {"loss": "0.5", "n": 2}),
        ("[rank0] {'a': (1, 2), 'b': None}", {"a": (1, 2), "b": None}),
        ('  [{"a": 1}]', [{"a": 1}]),
        ('format {} and {"a": 1}', {"a": 1}),
        ("[3] workers are {ready}", [3]),
        ("worker [3] of 4", None),
        ("{}", None),
        ("{'a': open('x')}", None),
        ("[" * 50_000, None),
        ('{"a":' * 50_000, None),
        ("{" * 200_000, None),
        ("", None),
    ],
)
def test_the_json_in_a_line(line: str, value: Any) -> None:
    assert value_in_line(line) == value
