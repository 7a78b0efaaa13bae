"""Schemas of servers that nobody vouches for: nothing is fetched for them, and every check ends."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hudtui.core.environment.validation import (
    CheckTooLongError,
    NotCheckedError,
    Validator,
    WorkBudget,
)
from hudtui.core.environment.values import Analysis, Server, Tool
from hudtui.core.gym.json_schema import ArgumentChecker
from hudtui.core.gym.schema_examples import ToolSchema
from hudtui.core.tasks.validate import check_call

ATOMS = (
    *(
        "a",
        "b",
        ".",
        "[ab]",
        "[^a]",
        r"\d",
        r"\w",
        r"\S",
        "^",
        "$",
        r"\b",
        "(?:a|b)",
        "(ab)",
        "(a|)",
        "(?:)",
        r"\n",
        "[a-c0-2\\s]",
    ),
    *("1", r"\A", "(?P<x>a)", "é", "[^é]"),
)


def some_pattern(chance: random.Random, depth: int) -> str:
    text = ""
    for _ in range(chance.randint(1, 4)):
        atom = (
            chance.choice(ATOMS)
            if depth == 0 or chance.random() < 0.6
            else f"({some_pattern(chance, depth - 1)})"
        )
        text += atom + chance.choice(
            ["", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}?", "*?", "{2,}"]
        )
    return f"{text}|{some_pattern(chance, 0)}" if chance.random() < 0.3 else text


def test_patterns_are_found_where_python_finds_them():
    chance = random.Random(7)
    patterns: dict[str, re.Pattern[str]] = {}
    while len(patterns) < 900:
        pattern = some_pattern(chance, 2)
        try:
            # In a schema, `$` is the end alone; in Python it is the place before a last line break
            # too.
            patterns[pattern] = re.compile(pattern.replace("$", r"\Z"))
        except re.error:  # a repetition of a repetition, or one name twice
            continue
    letters = {
        pattern: "ab1 \n_c" if re.search(r"\\[dwSsb]", pattern) else "ab1 \n_cé日"
        for pattern in patterns
    }
    validator = Validator({"properties": {pattern: {"pattern": pattern} for pattern in patterns}})
    for _ in range(5):
        texts = {
            pattern: "".join(chance.choices(letters[pattern], k=chance.randint(1, 6)))
            for pattern in patterns
        }
        refused = {
            error.path[0]
            for error in validator.errors(texts, most=len(patterns), work=WorkBudget(10**9))
        }
        assert refused == {
            pattern for pattern, text in texts.items() if not patterns[pattern].search(text)
        }, texts


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a)\1",
        "(?=a)b",
        "(?!b)a",
        "(?=(a*)*b)(?=(a*)*c)a",
        "(?<=a)b",
        r"a\Z",
        r"\u0061",
        "(",
        "\ud800",
        pytest.param("a" * 30_000, id="long"),
        "a{1001}",
        "(?:a{900}){900}",
        "(?:(?:){60000}){60000}",
    ],
)
def test_patterns_that_are_not_looked_for(pattern: str):
    for schema in (
        {"pattern": pattern},
        {"propertyNames": {"pattern": pattern}},
        {"patternProperties": {pattern: False}},
    ):
        with pytest.raises(NotCheckedError, match="bounded time"):
            Validator(schema).errors("a" * 80 if "pattern" in schema else {"a" * 80: 1})


@pytest.mark.parametrize("pattern", ["^(?<name>a)$", r"^\p{Ll}$", "^(?i)A$"])
def test_patterns_as_other_languages_write_them(pattern: str):
    assert Validator({"pattern": pattern}).errors("a") == []
    assert Validator({"pattern": pattern}).errors("1")


def test_a_class_of_letters_is_not_looked_for_where_servers_differ():
    validator = Validator({"pattern": r"^\w+$"})
    assert validator.errors("Zoe") == []
    assert validator.errors("Zoe!")
    with pytest.raises(NotCheckedError, match="differs from server to server"):
        validator.errors("Zoë")
    assert Validator({"pattern": "^[A-Za-zë]+$"}).errors("Zoë") == []


def test_half_a_character_is_one_that_no_pattern_names():
    assert Validator({"pattern": "^a[^b]$"}).errors("a\ud800") == []
    assert Validator({"pattern": "^[a-z]+$"}).errors("a\ud800")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a?" * 60 + "a" * 60 + "$", "a" * 59 + "b"),
        ("(x|x)*y", "x" * 200),
        ("a*a*a*a*a*a*a*a*b", "a" * 500),
        ("^(a+)+$", "a" * 400 + "b"),
        ("(?:a|b)*a(?:a|b){100}c", "ab" * 500),
    ],
)
def test_patterns_with_more_ways_than_there_is_time_for(pattern: str, text: str):
    """Python's own `re` would not come back from any of these."""
    assert [error.validator for error in Validator({"pattern": pattern}).errors(text)] == [
        "pattern"
    ]
    assert Validator({"propertyNames": {"pattern": pattern}}).errors({text: 1})
    assert not Validator({"patternProperties": {pattern: False}}).errors({text: 1})
    assert Validator({"patternProperties": {pattern: {}}, "additionalProperties": False}).errors(
        {text: 1}
    )


def doubling() -> dict[str, Any]:
    parts: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, 40):
        parts[f"d{level}"] = {"anyOf": [{"$ref": f"#/$defs/d{level - 1}"}] * 2}
    return {"$defs": parts, "$ref": "#/$defs/d39"}


IF_THEN = {"if": {"const": 1}, "then": {"const": 2}}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (doubling(), 1),
        ({"$defs": {"a": IF_THEN}, "allOf": [{"$ref": "#/$defs/a"}] * 1_500}, [1]),
        (
            {"properties": {f"p{n}": {"pattern": "a*a*a*a*b"} for n in range(60)}},
            {f"p{n}": "a" * 20_000 for n in range(60)},
        ),
        ({"pattern": "(?:a|b)*a(?:a|b){800}c"}, "ab" * 10_000),
        ({"allOf": [{"pattern": rf"|\p{{L}}{{9}}{n}"} for n in range(500)]}, "x"),
        ({"allOf": [{"pattern": rf"\p{{L}}{{999}}{n}"} for n in range(500)]}, "x"),
        ({"pattern": "[ab]" * 30_000}, "x"),
        ({"items": {"not": {}}}, [1] * 90_000),
        ({"allOf": [{"uniqueItems": True}] * 1_000}, [[n] for n in range(20_000)]),
        ({"anyOf": [{"type": "string"}] * 1_500}, {"x": ["a" * 100] * 10_000}),
        ({"items": {"enum": list(range(9_000))}}, [[n] for n in range(5_000)]),
    ],
)
def test_a_check_that_would_take_too_long_is_given_up(schema: dict[str, Any], value: Any):
    with pytest.raises(CheckTooLongError, match="would take too long"):
        Validator(schema).errors(value)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"allOf": [IF_THEN] * 19_000}, "too large"),
        ({"$ref": "https://example.invalid/schema.json"}, "outside of it"),
        ({"$ref": "#named"}, "outside of it"),
        (
            {"properties": {"x": {"$schema": "https://json-schema.org/draft/2020-12/schema"}}},
            "a name of its own",
        ),
        ({"properties": {"x": {"$id": "urn:x", "$ref": "#/y"}}}, "a name of its own"),
        ({"patternProperties": {"a": {}}, "unevaluatedProperties": False}, "unevaluatedProperties"),
        ({"type": "nonsense"}, "not valid"),
        ({"$ref": "#/$defs/missing"}, "makes no sense"),
        ({"$ref": "#"}, "nested too deeply"),
        ({"pattern": r"(a)\1"}, "bounded time"),
    ],
)
def test_what_cannot_be_checked_says_why(schema: dict[str, Any], reason: str):
    with pytest.raises(NotCheckedError, match=reason):
        Validator(schema).errors("x" if "pattern" in schema else {"x": 1})


def test_a_dialect_does_not_lead_around_the_guard():
    """`jsonschema` takes a class of its own where a schema names its dialect; `#` leads there again
    and again."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"x": {"$ref": "#"}, "y": {"pattern": "^(a+)+$"}},
    }
    assert Validator(schema).errors({"x": {"y": "a" * 400 + "b"}})


def test_what_was_found_before_a_pattern_that_is_passed_over_is_told():
    schema = {"properties": {"x": {"type": "integer"}, "y": {"pattern": r"(a)\1"}}}
    assert [error.validator for error in Validator(schema).errors({"x": "1", "y": "b"})] == ["type"]


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"pattern": "(?=a)b"}},
        {"oneOf": [{"pattern": "(?=a)b"}, {"const": "a"}]},
        {"if": {"pattern": "(?=a)b"}, "then": False},
        {"items": {"not": {"pattern": "(?=a)b"}}},
        {"contains": {"pattern": "(?=a)b"}, "maxContains": 1},
    ],
)
def test_a_pattern_that_is_passed_over_makes_nothing_wrong(schema: dict[str, Any]):
    with pytest.raises(NotCheckedError, match="bounded time"):
        Validator(schema).errors(["a", "a"] if {"items", "contains"} & set(schema) else "a")


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """A web server, and the paths that it was asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/schema.json", paths
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("word", ["$ref", "$dynamicRef", "$recursiveRef", "$schema", "$id"])
def test_nothing_is_fetched_for_a_schema(asked: tuple[str, list[str]], word: str):
    url, paths = asked
    for schema in (
        {word: url, "properties": {"x": {"$ref": "other.json"}}},
        {"properties": {"x": {word: url}}},
    ):
        tool = Tool("t", "", schema)
        analysis = Analysis("s", Server("", ""), "", (tool,))
        assert ArgumentChecker(schema).check({"x": 1}) is None
        ToolSchema(schema).accepts({"x": 1})
        remarks = check_call("setup_tool", "t", {"x": 1}, analysis)
        assert all(remark.severity == "warning" for remark in remarks)
    assert paths == []
