"""Schema checks: the quick check beside jsonschema, words for violations, and schemas that make no
sense."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from hudtui.core.gym.json_schema import ArgumentChecker, describe, quick_check

TOOL = {
    "type": "object",
    "properties": {
        "direction": {"enum": ["up", "down", "left", "right"]},
        "amount": {"type": "integer", "minimum": 1, "maximum": 10},
        "keys": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "text": {"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}]},
        "point": {
            "type": "object",
            "properties": {"x": {"type": "number"}},
            "required": ["x"],
            "additionalProperties": False,
        },
        "code": {"type": "string", "pattern": "^[a-z]+$"},
        "tags": {"type": "array", "uniqueItems": True},
    },
    "required": ["direction"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "parameter", "message"),
    [
        (
            {},
            "direction",
            'the parameter direction is missing; expected one of "up", "down", "left", "right"',
        ),
        (
            {"direction": "sideways"},
            "direction",
            'direction: expected one of "up", "down", "left", "right", got "sideways"',
        ),
        (
            {"direction": 3},
            "direction",
            'direction: expected one of "up", "down", "left", "right", got 3',
        ),
        ({"direction": "up", "amount": "2"}, "amount", 'amount: expected a whole number, got "2"'),
        ({"direction": "up", "amount": 2.5}, "amount", "amount: expected a whole number, got 2.5"),
        (
            {"direction": "up", "amount": True},
            "amount",
            "amount: expected a whole number, got true",
        ),
        (
            {"direction": "up", "amount": 0},
            "amount",
            "amount: expected a number of at least 1, got 0",
        ),
        (
            {"direction": "up", "amount": 11},
            "amount",
            "amount: expected a number of at most 10, got 11",
        ),
        ({"direction": "up", "keys": "ctrl"}, "keys", 'keys: expected a list, got "ctrl"'),
        ({"direction": "up", "keys": ["a", 1]}, "keys", "keys[1]: expected text, got 1"),
        (
            {"direction": "up", "keys": []},
            "keys",
            "keys: expected a list of at least 1 items, got a list of 0 items",
        ),
        ({"direction": "up", "text": 5}, "text", "text: expected text or null, got 5"),
        (
            {"direction": "up", "text": "too long"},
            "text",
            'text: expected text or null, got "too long"',
        ),
        (
            {"direction": "up", "point": {}},
            "point",
            "point: expected an object with x, got an object",
        ),
        ({"direction": "up", "point": {"x": "1"}}, "point", 'point.x: expected a number, got "1"'),
        (
            {"direction": "up", "code": "A1"},
            "code",
            'code: expected text that matches ^[a-z]+$, got "A1"',
        ),
        (
            {"direction": "up", "tags": [1, 1.0]},
            "tags",
            "tags: expected a list without repetitions, got a list of 2 items",
        ),
        (
            {"direction": "up", "speed": 1},
            "speed",
            "the tool has no parameter speed; it has direction, amount, keys, text, point, code, "
            "tags",
        ),
    ],
)
def test_violations(arguments: dict[str, Any], parameter: str, message: str) -> None:
    violation = ArgumentChecker(TOOL).check(arguments)
    assert violation is not None
    assert (violation.parameter, violation.message) == (parameter, message)


@pytest.mark.parametrize(
    "arguments",
    [
        {"direction": "up"},
        {
            "direction": "up",
            "amount": 1.0,
            "keys": ["a"],
            "text": None,
            "point": {"x": 1},
            "code": "ab",
            "tags": [1, True, "1"],
        },
    ],
)
def test_what_fits(arguments: dict[str, Any]) -> None:
    assert ArgumentChecker(TOOL).check(arguments) is None


@pytest.mark.parametrize(
    "schema",
    [
        None,
        5,
        "object",
        [],
        {},
        {"type": "nonsense"},
        {"type": 5},
        {"properties": 5},
        {"properties": {"x": 5}},
        {"required": "x"},
        {"$ref": "https://example.invalid/schema.json"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#"},
        {"properties": {"x": {"$ref": "#/properties/x"}}},
        {"properties": {"x": {"pattern": "("}}},
        {"properties": {"x": {"pattern": r"^(?<!x)b$"}}},
        {"properties": {"x": {"multipleOf": 0}}},
        {"$schema": "https://example.invalid/my-own"},
        {"$schema": 7},
        {"patternProperties": {"(": {}}},
    ],
)
def test_senseless_schemas_leave_the_verdict_to_the_server(schema: Any) -> None:
    checker = ArgumentChecker(schema)
    assert checker.check({"x": "aaaa"}) is None
    assert checker.check({}) is None


def test_hostile_schemas_end() -> None:
    doubling: dict[str, Any] = {"$defs": {"d0": {"type": "string"}}}
    for level in range(1, 40):
        doubling["$defs"][f"d{level}"] = {"anyOf": [{"$ref": f"#/$defs/d{level - 1}"}] * 2}
    doubling["properties"] = {"x": {"$ref": "#/$defs/d39"}}
    cases = [
        (doubling, {"x": 1}),
        ({"properties": {"x": {"pattern": "^(a+)+$"}}}, {"x": "a" * 5_000 + "b"}),
        ({"properties": {"x": {"pattern": "^(a|a)*$"}}}, {"x": "a" * 5_000 + "b"}),
        ({"properties": {"x": {"pattern": "a*a*a*a*b"}}}, {"x": "a" * 5_000}),
        (
            {"properties": {"x": {"uniqueItems": True}}},
            {"x": [[number] for number in range(50_000)]},
        ),
        ({"patternProperties": {"^(a+)+$": {"type": "integer"}}}, {"a" * 5_000 + "b": 1}),
    ]
    for schema, arguments in cases:
        began = time.process_time()
        ArgumentChecker(schema).check(arguments)
        assert time.process_time() - began < 8, str(schema)[:80]


def test_arguments_nested_without_end() -> None:
    value: Any = []
    for _ in range(50_000):
        value = [value]
    recursive = {
        "$ref": "#/$defs/any",
        "$defs": {"any": {"type": ["array", "object"], "items": {"$ref": "#/$defs/any"}}},
    }
    assert ArgumentChecker({"properties": {"x": recursive}}).check({"x": value}) is None
    text = ArgumentChecker({"properties": {"x": {"type": "string"}}})
    assert text.judge({"x": value}) == (
        None,
        "the value, or the tool's schema, is nested too deeply",
    )
    for _ in range(49_900):
        value = value[0]
    violation = text.check({"x": value})  # as deep as an argument may be (spec: 100 levels)
    assert violation is not None
    assert violation.message == "x: expected text, got a list of 1 item"


def test_references_within_the_schema() -> None:
    schema = {"$defs": {"d": {"enum": ["a"]}}, "properties": {"x": {"$ref": "#/$defs/d"}}}
    checker = ArgumentChecker(schema)
    assert quick_check(schema) is None
    assert checker.check({"x": "a"}) is None
    violation = checker.check({"x": "b"})
    assert violation is not None
    assert violation.message == 'x: expected "a", got "b"'


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, ""),
        (True, ""),
        ({"type": "integer"}, "a whole number"),
        ({"type": ["string", "null"]}, "text or null"),
        ({"enum": [1]}, "1"),
        ({"const": "a"}, '"a"'),
        ({"oneOf": [{"type": "array"}, {"type": "array"}]}, "a list"),
        ({"enum": list(range(20))}, "one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ..."),
    ],
)
def test_describe(schema: Any, words: str) -> None:
    assert describe(schema) == words


# The quick check beside jsonschema

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.0, -2.5, 1e300])
    | st.text("ab", max_size=3)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=1), inner, max_size=3)
    ),
    max_leaves=8,
)
KINDS = ["integer", "number", "string", "boolean", "null", "array", "object"]


def schemas(depth: int) -> st.SearchStrategy[Any]:
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(KINDS)
        | st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True),
        "enum": st.lists(SCALARS, min_size=1, max_size=4),
        "const": SCALARS,
        "minimum": st.integers(-2, 2) | st.sampled_from([0.5]),
        "maximum": st.integers(-2, 2),
        "exclusiveMinimum": st.integers(-2, 2),
        "exclusiveMaximum": st.integers(-2, 2),
        "minLength": st.integers(0, 3),
        "maxLength": st.integers(0, 3),
        "minItems": st.integers(0, 3),
        "maxItems": st.integers(0, 3),
        "title": st.text(max_size=2),
        "default": SCALARS,
        "format": st.just("uri"),
        "required": st.lists(st.text("xyz", max_size=1), max_size=2, unique=True),
    }
    if depth:
        inner = schemas(depth - 1)
        keywords["properties"] = st.dictionaries(st.text("xyz", max_size=1), inner, max_size=3)
        keywords["items"] = inner
        keywords["anyOf"] = st.lists(inner, min_size=1, max_size=3)
        keywords["additionalProperties"] = st.booleans() | inner
    objects = st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: keywords[name] for name in names})
    )
    return objects if depth else st.booleans() | objects


@settings(deadline=None)
@given(schemas(2), st.lists(VALUES, min_size=1, max_size=5))
def test_what_the_quick_check_passes_fits(schema: Any, values: list[Any]) -> None:
    check = quick_check(schema)
    validator = Draft202012Validator(schema)
    for value in values:
        assert check is None or not check(value) or validator.is_valid(value), (schema, value)


def test_the_quick_check_passes_what_most_calls_look_like() -> None:
    plain = {
        **TOOL,
        "properties": {
            name: part for name, part in TOOL["properties"].items() if name not in ("code", "tags")
        },
    }
    check = quick_check(plain)
    assert check is not None
    assert check({"direction": "up", "amount": 3, "keys": ["a"], "text": None, "point": {"x": 1.5}})
    assert not check({"direction": "sideways"})
    assert quick_check(TOOL) is None  # a pattern, and no repetitions


@settings(deadline=None)
@given(schemas(2), st.dictionaries(st.text("xyz", max_size=1), VALUES, max_size=3))
def test_the_checker_decides_as_jsonschema_does(schema: Any, arguments: dict[str, Any]) -> None:
    checker = ArgumentChecker(schema)
    if checker.known:
        assert (checker.check(arguments) is None) == Draft202012Validator(schema).is_valid(
            arguments
        )


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "a"},
        {"$ref": "#/x"},
        {"enum": [[1]]},
        {"enum": []},
        {"items": [{}]},
        {"oneOf": [{}]},
        {"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMinimum": True},
        {"properties": {"x": {"$id": "other", "type": "string"}}},
        {"type": "any"},
        {"minimum": "1"},
        {"items": {"anyOf": [{"type": "string"}] * 500}},
        {"anyOf": [{"additionalProperties": {"type": "string"}}] * 150},
    ],
)
def test_what_the_quick_check_leaves_to_the_validator(schema: Any) -> None:
    assert quick_check(schema) is None
