"""Schemas of tools in plain words."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.environment.schema_words import describe_schema


def test_schemas_in_plain_words() -> None:
    schema = {
        "type": "object",
        "$defs": {
            "point": {
                "type": "object",
                "properties": {"x": {"type": "integer", "minimum": 0}},
                "required": ["x"],
            }
        },
        "properties": {
            "direction": {"type": "string", "enum": ["left", "right"], "description": "Where to."},
            "at": {"$ref": "#/$defs/point"},
            "many": {"type": "array", "items": {"$ref": "#/$defs/point"}},
            "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
            "either": {"type": ["string", "number"], "maxLength": 3},
        },
        "required": ["direction"],
    }
    rows = {(row.depth, row.name): row for row in describe_schema(schema)}
    assert rows[0, "direction"].required and rows[0, "direction"].notes == 'one of "left", "right"'
    assert rows[0, "at"].type == "object" and rows[1, "x"].notes == "≥ 0" and rows[1, "x"].required
    assert rows[0, "many"].type == "list of object"
    assert rows[0, "maybe"].type == "integer or null" and rows[0, "maybe"].notes == "default null"
    assert (
        rows[0, "either"].type == "string or number"
        and rows[0, "either"].notes == "at most 3 characters"
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["properties", "type", "items", "$ref", "enum", "anyOf", "required", "a", "b"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["properties", "required", "$defs", "type"]), json_values))
def test_describing_never_fails(schema: dict[str, Any]) -> None:
    describe_schema(schema)
