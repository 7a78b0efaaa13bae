"""The filter of lists: words, fields, comparisons, exclusions; sorting with missing values;
groups."""

from __future__ import annotations

from typing import Any

import pytest

from hudtui.core.errors import InputError
from hudtui.core.row_filter import Fields, arrange, group, parse_filter

ROWS: list[dict[str, Any]] = [
    {"name": "grpo-3b", "state": "running", "model": "Qwen/Qwen2.5-3B", "reward": 0.62},
    {"name": "eval gpt", "state": "running", "model": "openai:gpt-5", "reward": 0.57},
    {"name": "rehearsal", "state": "finished", "model": "tiny", "reward": None},
    {"name": "grpo-old", "state": "failed", "model": None, "reward": 10.0},
]
FIELDS: Fields[dict[str, Any]] = {
    name: lambda row, name=name: row[name] for name in ("name", "state", "model", "reward")
}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [0, 1, 2, 3]),
        ("QWEN", [0]),
        ("grpo", [0, 3]),
        ("grpo state:running", [0]),
        ("name:^grpo-(3b|7b)$", [0]),
        ("state:fin|fail", [2, 3]),
        ("-grpo", [1, 2]),
        ("!state:running", [2, 3]),
        ("-state:running -name:reh", [3]),
        ('"eval gpt"', [1]),
        ('name:"eval gpt"', [1]),
        ('"2.5-3"', [0]),
        ("reward:>0.6", [0, 3]),
        ("reward:<=0.57", [1]),
        ("reward:=10", [3]),
        ("reward:0.57-0.62", [0, 1]),
        ("reward:-1-0.6", [1]),
        ("-reward:0-1", [2, 3]),
        ("reward:0.9-0.1", []),
        ("model:2-2.5", []),
        ("model:2.5-3", [0]),  # no number: a text that is searched for
        ('reward:"0.57-0.62"', []),
        ("state:=running", [0, 1]),
        ("state:=run", []),
        ("model:^-$", [3]),
        ("openai:gpt", "no field 'openai'"),
        ('"openai:gpt"', [1]),
        ("reward:>much", "not a number"),
        ("reward:>", [0, 1, 2, 3]),
        ("state:", [0, 1, 2, 3]),
        ("name:", [0, 1, 2, 3]),
        ("-", [0, 1, 2, 3]),
        ("a(b", []),
        ("name:grpo-[", []),
        ("0.62", []),  # a word is searched for in texts alone
    ],
)
def test_a_filter_keeps_the_rows_that_match_all_of_its_terms(
    text: str, found: list[int] | str
) -> None:
    if isinstance(found, str):
        with pytest.raises(InputError, match=found):
            parse_filter(text, FIELDS)
        return
    wanted = parse_filter(text, FIELDS)
    assert [number for number, row in enumerate(ROWS) if wanted.matches(row)] == found


def test_a_filter_names_its_fields() -> None:
    assert parse_filter("grpo state:running reward:>1", FIELDS).fields == {"state", "reward"}


def test_rows_without_a_value_come_last_in_both_directions() -> None:
    def names(**how: Any) -> list[str]:
        return [row["name"] for row in arrange(ROWS, FIELDS, **how)]

    assert names(sort="reward") == ["eval gpt", "grpo-3b", "grpo-old", "rehearsal"]
    assert names(sort="reward", reverse=True) == ["grpo-old", "grpo-3b", "eval gpt", "rehearsal"]
    assert names(sort="model", wanted="-tiny") == ["eval gpt", "grpo-3b", "grpo-old"]
    assert names(reverse=True) == ["grpo-old", "rehearsal", "eval gpt", "grpo-3b"]
    with pytest.raises(InputError, match="no field 'age'"):
        names(sort="age")


def test_groups_come_in_the_order_of_their_first_rows() -> None:
    found = group(ROWS, FIELDS, "state")
    assert [(title, len(rows)) for title, rows in found] == [
        ("running", 2),
        ("finished", 1),
        ("failed", 1),
    ]
    assert [title for title, _ in group(ROWS, FIELDS, "model")] == [
        "Qwen/Qwen2.5-3B",
        "openai:gpt-5",
        "tiny",
        "-",
    ]


def test_numbers_in_texts_are_sorted_as_numbers() -> None:
    names = [
        "try-10",
        "try-2",
        "Try-1",
        "try",
        "try-02b",
        "a9b10",
        "a9b9",
        "try-" + "9" * 5000,
        "10",
        "9",
    ]
    rows = [{"name": name} for name in names]
    found = [row["name"] for row in arrange(rows, {"name": lambda row: row["name"]}, sort="name")]
    assert found[:-1] == ["9", "10", "a9b9", "a9b10", "try", "Try-1", "try-2", "try-02b", "try-10"]


def test_a_text_of_digits_equals_a_number() -> None:
    fields: Fields[str] = {"id": lambda row: row}
    assert arrange(["12", "120", "a12"], fields, wanted="id:=12") == ["12"]
