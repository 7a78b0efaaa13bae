"""Schemas of servers that nobody vouches for: nothing is fetched for them, and every check ends."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hudtui.core.environment.automaton import LONGEST, automaton
from hudtui.core.environment.validation import GivenUpError, TooLongError, Validator, Work
from hudtui.core.environment.values import Analysis, Server, Tool
from hudtui.core.gym.examples import Schema
from hudtui.core.gym.schema import SchemaChecker
from hudtui.core.tasks.rules import check_against

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
    *("1", r"\Z", r"\A", "(?=a)", "(?!b)", "(?=.*b)"),
)


def some_pattern(chance: random.Random, depth: int) -> str:
    text = ""
    for _ in range(chance.randint(1, 4)):
        atom = chance.choice(ATOMS) if depth == 0 or chance.random() < 0.6 else f"({some_pattern(chance, depth - 1)})"
        text += atom + chance.choice(["", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}?", "*?", "{2,}"])
    return f"{text}|{some_pattern(chance, 0)}" if chance.random() < 0.3 else text


def test_an_automaton_finds_what_python_finds():
    chance = random.Random(7)
    compared = 0
    while compared < 3_000:
        pattern = some_pattern(chance, 2)
        try:
            expected = re.compile(pattern)
        except re.error:  # a repetition of a repetition
            continue
        found = automaton(pattern)
        for _ in range(3 if found is not None else 0):
            text = "".join(chance.choices("ab1 \n_c", k=chance.randint(1, 6)))
            assert found is not None
            assert found.search(text, Work().spend) == bool(expected.search(text)), (pattern, text)
            compared += 1


@pytest.mark.parametrize(
    "pattern", [r"(a)\1", "(?<=a)b", "(?i)a", "(", "a" * (LONGEST + 1), "(?:a{900}){900}", "(?:(?:){60000}){60000}"]
)
def test_patterns_without_an_automaton(pattern: str):
    assert automaton(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a?" * 60 + "a" * 60 + "$", "a" * 59 + "b"),
        ("(x|x)*y", "x" * 200),
        ("a*a*a*a*a*a*a*a*b", "a" * 500),
        ("^(a+)+$", "a" * 400 + "b"),
        ("(?=(a*)*b)(?=(a*)*c)a", "a" * 80),
    ],
)
def test_patterns_with_more_ways_than_there_is_time_for(pattern: str, text: str):
    """Python's own `re` would not come back from any of these."""
    assert [error.validator for error in Validator({"pattern": pattern}).errors(text)] == ["pattern"]
    assert Validator({"propertyNames": {"pattern": pattern}}).errors({text: 1})
    assert not Validator({"patternProperties": {pattern: False}}).errors({text: 1})
    assert Validator({"patternProperties": {pattern: {}}, "additionalProperties": False}).errors({text: 1})


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
        ({"properties": {f"p{n}": {"pattern": "a*a*a*a*b"} for n in range(60)}}, {f"p{n}": "a" * 20_000 for n in range(60)}),
        ({"items": {"not": {}}}, [1] * 90_000),
        ({"allOf": [{"uniqueItems": True}] * 1_000}, [[n] for n in range(20_000)]),
        ({"anyOf": [{"type": "string"}] * 1_500}, {"x": ["a" * 100] * 10_000}),
        ({"items": {"enum": list(range(9_000))}}, [[n] for n in range(5_000)]),
    ],
)
def test_a_check_that_would_take_too_long_is_given_up(schema: dict[str, Any], value: Any):
    with pytest.raises(TooLongError, match="would take too long"):
        Validator(schema).errors(value)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"allOf": [IF_THEN] * 19_000}, "too large"),
        ({"$ref": "https://example.invalid/schema.json"}, "outside of it"),
        ({"$ref": "#named"}, "outside of it"),
        ({"properties": {"x": {"$schema": "https://json-schema.org/draft/2020-12/schema"}}}, "a name of its own"),
        ({"properties": {"x": {"$id": "urn:x", "$ref": "#/y"}}}, "a name of its own"),
        ({"patternProperties": {"a": {}}, "unevaluatedProperties": False}, "unevaluatedProperties"),
        ({"type": "nonsense"}, "not valid"),
        ({"$ref": "#/$defs/missing"}, "makes no sense"),
        ({"$ref": "#"}, "nested too deeply"),
        ({"pattern": r"(a)\1"}, "bounded time"),
    ],
)
def test_what_cannot_be_checked_says_why(schema: dict[str, Any], reason: str):
    with pytest.raises(GivenUpError, match=reason):
        Validator(schema).errors("x" if "pattern" in schema else {"x": 1})


def test_a_dialect_does_not_lead_around_the_guard():
    """`jsonschema` takes a class of its own where a schema names its dialect; `#` leads there again and again."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"x": {"$ref": "#"}, "y": {"pattern": "^(a+)+$"}},
    }
    assert Validator(schema).errors({"x": {"y": "a" * 400 + "b"}})


def test_what_was_found_before_a_pattern_that_is_passed_over_is_told():
    schema = {"properties": {"x": {"type": "integer"}, "y": {"pattern": r"(a)\1"}}}
    assert [error.validator for error in Validator(schema).errors({"x": "1", "y": "b"})] == ["type"]


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
    for schema in ({word: url, "properties": {"x": {"$ref": "other.json"}}}, {"properties": {"x": {word: url}}}):
        tool = Tool("t", "", schema)
        analysis = Analysis("s", Server("", ""), "", (tool,))
        assert SchemaChecker(schema).check({"x": 1}) is None
        Schema(schema).accepts({"x": 1})
        remarks = check_against("setup_tool", "t", {"x": 1}, analysis)
        assert all(remark.severity == "warning" for remark in remarks)
    assert paths == []
